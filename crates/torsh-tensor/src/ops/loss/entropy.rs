//! Losses of probabilities: cross entropies, divergence, and likelihoods of distributions.

use torsh_core::attrs::{Assert, NONE};
use torsh_core::pointwise::numbers;
use torsh_core::{CallSite, Result, TorshError};

use super::{Reduction, in_steps, methods, times_weight};
use crate::autocast::Autocast;
use crate::call::{Arg, call1};
use crate::check::{check, named};
use crate::named::Named;
use crate::ops::pointwise::parametric;
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{Device, Operand, Tensor, Value};

pub(super) const RECORDS: &[&OpRecord] = &[
    &BINARY_CROSS_ENTROPY,
    &BINARY_CROSS_ENTROPY_WITH_LOGITS,
    &KL_DIV,
    &POISSON_NLL_LOSS,
    &GAUSSIAN_NLL_LOSS,
];

#[torsh_tensor::by_name(Tensor::binary_cross_entropy_with(.., BceOptions))]
pub static BINARY_CROSS_ENTROPY: OpRecord = OpRecord::new(
    "nn.functional.binary_cross_entropy",
    "The cross entropy of probabilities and targets from 0 to 1, times a weight; the mean or sum.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let (x, y) = (s.uniform(&[2, 3], 0.2, 0.8)?, s.uniform(&[2, 3], 0.1, 0.9)?);
    let weight = s.uniform(&[3], 0.5, 2.0)?;
    let call = || sample![x.clone(), y.clone()];
    Ok(vec![call(), call().kw("reduction", "none").kw("weight", weight)])
});

#[torsh_tensor::by_name(Tensor::binary_cross_entropy_with_logits_with(.., BceWithLogitsOptions))]
pub static BINARY_CROSS_ENTROPY_WITH_LOGITS: OpRecord = OpRecord::new(
    "nn.functional.binary_cross_entropy_with_logits",
    "The cross entropy of the input's sigmoid and targets from 0 to 1, times a weight, with the part of the positive class times pos_weight; the mean or sum.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean', Tensor? pos_weight=None)",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.uniform(&[2, 3], 0.1, 0.9)?);
    let weights = (s.uniform(&[3], 0.5, 2.0)?, s.uniform(&[2, 3], 0.5, 2.0)?);
    let call = || sample![x.clone(), y.clone()];
    Ok(vec![
        call(),
        call().kw("reduction", "sum").kw("weight", weights.1),
        call().kw("reduction", "none").kw("pos_weight", weights.0),
    ])
});

pub static KL_DIV: OpRecord = OpRecord::new(
    "nn.functional.kl_div",
    "The Kullback-Leibler divergence of log-probabilities from targets, which are probabilities or, with log_target, their logarithms; the mean, sum, or sum over the batch size (batchmean).",
    "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction='mean', bool log_target=False)",
)
.autocast(Autocast::Fp32)
.by_name(|b| {
    let reduction = match b.str(4) {
        "batchmean" if b.is_none(2) && b.is_none(3) => Reduction::BatchMean,
        _ => Reduction::bound(b, 2, 3, 4)?,
    };
    let options = KlDivOptions { reduction, log_target: b.bool(5) };
    b.tensor(0)?.kl_div_with(b.tensor(1)?, options).map(Value::Tensor)
})
.samples(|s| {
    let (x, y) = (s.uniform(&[2, 3], -2.0, -0.2)?, s.uniform(&[2, 3], 0.1, 0.9)?);
    let call = |y: &Tensor| sample![x.clone(), y];
    Ok(vec![
        call(&y),
        call(&y).kw("reduction", "batchmean"),
        call(&y.log()?).kw("reduction", "none").kw("log_target", true),
    ])
});

#[torsh_tensor::by_name(Tensor::poisson_nll_loss_with(.., PoissonNllLossOptions))]
pub static POISSON_NLL_LOSS: OpRecord = OpRecord::new(
    "nn.functional.poisson_nll_loss",
    "The negative log-likelihood of counts under Poisson distributions whose rate, or with log_input its logarithm, is the input; the mean or sum. With full the logarithm of the counts' factorial is added, by Stirling's formula.",
    "(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? size_average=None, float eps=1e-8, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let (x, y) = (s.uniform(&[2, 3], 0.2, 2.0)?, s.uniform(&[2, 3], 0.3, 4.0)?);
    let call = || sample![x.clone(), y.clone()];
    Ok(vec![call(), call().kw("full", true).kw("reduction", "none").kw("log_input", false)])
});

#[torsh_tensor::by_name(gaussian_nll_loss(.., &GaussianNllLossOptions))]
pub static GAUSSIAN_NLL_LOSS: OpRecord = OpRecord::new(
    "nn.functional.gaussian_nll_loss",
    "The negative log-likelihood of targets under normal distributions with the input as mean and var as variance (not below eps), with full including the constant; the mean or sum.",
    "(Tensor input, Tensor target, Operand var, bool full=False, float eps=1e-06, str reduction='mean')",
)
.samples(|s| {
    let (x, y, v) = (s.real(&[2, 3])?, s.real(&[2, 3])?, s.uniform(&[2, 3], 0.5, 2.0)?);
    let each = s.uniform(&[2], 0.5, 2.0)?;
    Ok(vec![
        sample![x.clone(), y.clone(), v],
        sample![x.clone(), y.clone(), each, full = true, reduction = "none"],
        sample![x, y, 0.7, reduction = "sum"],
    ])
});

options! {
    /// PyTorch's keyword arguments of `F.binary_cross_entropy`.
    ///
    /// ```
    /// use torsh_tensor::{BceOptions, Reduction};
    /// let options = BceOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    BceOptions {
        /// A factor for each element; it broadcasts.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.binary_cross_entropy_with_logits`.
    ///
    /// ```
    /// use torsh_tensor::{BceWithLogitsOptions, Reduction};
    /// let options = BceWithLogitsOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    BceWithLogitsOptions {
        /// A factor for each element; it broadcasts.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// A factor for the positive part of each element's loss; it broadcasts.
        pos_weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

options! {
    /// PyTorch's keyword arguments of `F.kl_div`.
    ///
    /// ```
    /// use torsh_tensor::{KlDivOptions, Reduction};
    /// let options = KlDivOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert!(!options.log_target);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    KlDivOptions {
        /// How the losses become the result; `BatchMean` is the mathematical divergence.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// Whether the target is logarithms of probabilities too.
        log_target: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.poisson_nll_loss`.
    ///
    /// ```
    /// use torsh_tensor::{PoissonNllLossOptions, Reduction};
    /// let options = PoissonNllLossOptions::new();
    /// assert!(options.log_input);
    /// assert!(!options.full);
    /// assert_eq!(options.eps, 1e-8);
    /// assert!(!options.log_input(false).log_input);
    /// ```
    PoissonNllLossOptions {
        /// Whether the input is logarithms of rates.
        log_input: bool = true;
        /// Whether the logarithm of the counts' factorial is added.
        full: bool = false;
        /// Added to rates before their logarithm is taken.
        eps: f64 = 1e-8;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.gaussian_nll_loss`.
    ///
    /// ```
    /// use torsh_tensor::{GaussianNllLossOptions, Reduction};
    /// let options = GaussianNllLossOptions::new();
    /// assert!(!options.full);
    /// assert_eq!(options.eps, 1e-6);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert!(options.full(true).full);
    /// ```
    GaussianNllLossOptions {
        /// Whether the constant is included.
        full: bool = false;
        /// The least variance.
        eps: f64 = 1e-6;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

fn binary_cross_entropy(x: &Tensor, y: &Tensor, options: &BceOptions) -> Result<Tensor> {
    if x.shape() != y.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure they have the same size.",
                y.shape(),
                x.shape()
            ),
        ));
    }
    if x.dtype() != y.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "Found dtype {} but expected {}: input and target must have one dtype",
                y.dtype(),
                x.dtype()
            ),
        ));
    }
    let losses = call1(&parametric::bce_elementwise, &[Arg::T(x), Arg::T(y)], NONE)?;
    let losses = times_weight(losses, options.weight.as_ref())?;
    let each = (options.reduction == Reduction::None).then(|| losses.clone());
    let result = options.reduction.apply(losses)?;
    check_probabilities(x, each.as_ref().unwrap_or(&result), each.is_some())?;
    Ok(result)
}

/// Refuses probabilities that are none. Their losses are nan, so that on the CPU the input is only
/// looked at where the result, or its sum, is; on a device that would be to wait.
fn check_probabilities(x: &Tensor, result: &Tensor, sum: bool) -> Result<()> {
    if x.device() == Device::Meta {
        return Ok(());
    }
    crate::no_grad(|| {
        if x.device().is_host() {
            let total = if sum {
                result.detach().sum()?
            } else {
                result.detach()
            };
            if !total.item::<f64>()?.is_nan() {
                return Ok(());
            }
        }
        let inside = x.ge(0.0)?.logical_and(x.le(1.0)?)?;
        check(&inside, CallSite::here("binary_cross_entropy"), || {
            Assert::value("all elements of input should be between 0 and 1").with_hint(
                "binary_cross_entropy_with_logits takes numbers of any size, before the sigmoid",
            )
        })
    })
}

fn binary_cross_entropy_with_logits(
    x: &Tensor,
    y: &Tensor,
    options: &BceWithLogitsOptions,
) -> Result<Tensor> {
    if x.shape() != y.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "Target size ({}) must be the same as input size ({})",
                y.shape(),
                x.shape()
            ),
        ));
    }
    if let Some(w) = &options.pos_weight
        && !w.shape().can_broadcast_to(x.shape())
    {
        return Err(TorshError::shape(
            "",
            format!(
                "a pos_weight of shape {} does not broadcast to an input of shape {}",
                w.shape(),
                x.shape()
            ),
        ));
    }
    let losses = match &options.pos_weight {
        w if in_steps(x) => {
            let mut high = x.logsigmoid()?;
            if let Some(w) = w {
                high = high.mul(&w.sub(1)?.mul(y)?.add(1)?)?;
            }
            y.neg()?.add(1)?.mul(x)?.sub(&high)?
        }
        None => {
            let args = [Arg::T(x), Arg::T(y)];
            call1(&parametric::bce_logits_elementwise, &args, NONE)?
        }
        Some(w) => {
            let args = [Arg::T(x), Arg::T(y), Arg::T(w)];
            call1(&parametric::bce_logits_weighted_elementwise, &args, NONE)?
        }
    };
    options
        .reduction
        .apply(times_weight(losses, options.weight.as_ref())?)
}

fn kl_div(x: &Tensor, y: &Tensor, options: &KlDivOptions) -> Result<Tensor> {
    let row = match options.log_target {
        true => &parametric::kl_div_log_elementwise,
        false => &parametric::kl_div_elementwise,
    };
    if let Some(t) = [x, y].into_iter().find(|t| !t.dtype().is_differentiable()) {
        let text = format!("kl_div takes floating point numbers, got {}", t.dtype());
        return Err(TorshError::dtype("", text).with_hint("convert it with to_dtype"));
    }
    let losses = match (in_steps(x), options.log_target) {
        (true, true) => y.exp()?.mul(&y.sub(x)?)?,
        (true, false) => y.xlogy(y)?.sub(&y.mul(x)?)?,
        (false, _) => call1(row, &[Arg::T(x), Arg::T(y)], NONE)?,
    };
    match (options.reduction.known()?, x.dims().first()) {
        (Reduction::BatchMean, Some(&batch)) => losses.sum()?.div(batch as f64),
        (Reduction::BatchMean, None) => losses.sum(),
        (r, _) => r.apply(losses),
    }
}

fn poisson_nll_loss(x: &Tensor, y: &Tensor, options: &PoissonNllLossOptions) -> Result<Tensor> {
    let args = [Arg::T(x), Arg::T(y)];
    // Products of integers wrap, as PyTorch's do.
    let integers = !x.dtype().is_differentiable() && !y.dtype().is_differentiable();
    let mut losses = match options.log_input {
        true if integers || in_steps(x) => x.exp()?.sub(&y.mul(x)?)?,
        true => call1(&parametric::poisson_log_elementwise, &args, NONE)?,
        false if in_steps(x) => x.sub(&y.mul(&x.add(options.eps)?.log()?)?)?,
        false => call1(
            &parametric::poisson_elementwise,
            &args,
            &numbers::PoissonElementwise {
                eps: options.eps.into(),
            },
        )?,
    };
    if options.full {
        let stirling = if in_steps(x) {
            let half_log = y.mul(std::f64::consts::TAU)?.log()?.mul(0.5)?;
            let term = y.mul(&y.log()?)?.sub(y)?.add(&half_log)?;
            term.masked_fill(&y.le(1)?, 0)?
        } else {
            call1(&parametric::stirling_elementwise, &[Arg::T(y)], NONE)?
        };
        losses = losses.add(&stirling)?;
    }
    options.reduction.apply(losses)
}

fn gaussian_nll_loss(
    x: &Tensor,
    y: &Tensor,
    var: Operand<'_>,
    options: &GaussianNllLossOptions,
) -> Result<Tensor> {
    let given;
    let var = match &var {
        Operand::Number(n) => {
            given = Tensor::scalar(*n, x.dtype(), x.device())?;
            given.expand(x.shape())?
        }
        Operand::Ref(t) => (*t).clone(),
        Operand::Owned(t) => t.clone(),
    };
    let fine = var.detach().lt(0.0)?.logical_not()?;
    check(&fine, CallSite::here("gaussian_nll_loss"), || {
        Assert::value("var has negative entry/entries")
    })?;
    let (n, dims) = (x.ndim(), x.dims());
    let var = if var.shape() == x.shape() {
        var
    } else if n > 0 && dims[..n - 1] == *var.dims() {
        var.unsqueeze(-1)?
    } else {
        // One dimension at most may be 1 instead.
        let differing: usize = dims
            .iter()
            .zip(var.dims())
            .filter(|(a, b)| a != b)
            .map(|(_, &b)| b)
            .sum();
        if n != var.ndim() || differing != 1 {
            return Err(TorshError::shape(
                "",
                format!(
                    "var is of incorrect size: {} for an input of {}",
                    var.shape(),
                    x.shape()
                ),
            ));
        }
        var
    };
    let mut losses = if in_steps(x) {
        // Gradients pass the limit as if it were not there.
        let var = var.copy()?;
        crate::no_grad(|| var.clamp_min_(options.eps))?;
        let apart = x.sub(y)?.square()?.div(&var)?;
        var.log()?.add(&apart)?.mul(0.5)?
    } else {
        let args = [Arg::T(x), Arg::T(y), Arg::T(&var)];
        let eps = numbers::GaussianElementwise {
            eps: options.eps.into(),
        };
        call1(&parametric::gaussian_elementwise, &args, &eps)?
    };
    if options.full {
        losses = losses.add(0.5 * std::f64::consts::TAU.ln())?;
    }
    options.reduction.apply(losses)
}

methods! {
    /// The mean cross entropy of probabilities and targets from 0 to 1, a 0-d tensor
    /// (`torch.nn.functional.binary_cross_entropy`).
    ///
    /// Both have one shape and dtype; an error for others, and for probabilities outside [0, 1].
    /// Logarithms below -100 count as -100.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![0.5, 0.5].binary_cross_entropy(&tensor![1.0, 0.0])?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy
    /// [`Tensor::binary_cross_entropy`] with a `weight` that broadcasts, or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{BceOptions, Reduction, tensor};
    /// let options = BceOptions::new().reduction(Reduction::Sum);
    /// let loss = tensor![0.5, 0.5].binary_cross_entropy_with(&tensor![1.0, 0.0], options)?;
    /// assert!((loss.item::<f32>()? - 4f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with (target) BceOptions Fp32;
    /// The mean cross entropy of the input's sigmoid and targets from 0 to 1, a 0-d tensor
    /// (`torch.nn.functional.binary_cross_entropy_with_logits`). It does not overflow, however large
    /// the logits are.
    ///
    /// Both have one shape; an error for others, and for integers.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![0.0, 0.0].binary_cross_entropy_with_logits(&tensor![1.0, 0.0])?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with_logits
    /// [`Tensor::binary_cross_entropy_with_logits`] with a `weight`, a `pos_weight` for the true
    /// terms, or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{BceWithLogitsOptions, Reduction, tensor};
    /// let options = BceWithLogitsOptions::new().pos_weight(&tensor![3.0]).reduction(Reduction::None);
    /// let losses = tensor![0.0, 0.0].binary_cross_entropy_with_logits_with(&tensor![1.0, 0.0], options)?;
    /// assert!(losses.allclose(&tensor![2.079442, 0.693147])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with_logits_with (target) BceWithLogitsOptions Fp32;
    /// The Kullback-Leibler divergence of log-probabilities from the probabilities `target`
    /// (`torch.nn.functional.kl_div`), the mean over all elements as in PyTorch. The shapes
    /// broadcast.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let log_probabilities = tensor![0.5, 0.5].log()?;
    /// let loss = log_probabilities.kl_div(&tensor![1.0, 0.0])?;
    /// // The divergence is log 2; the mean is over both elements.
    /// assert!((loss.item::<f32>()? - 0.346574).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    kl_div
    /// [`Tensor::kl_div`] with another `reduction`, or of log-probabilities as target (`log_target`).
    ///
    /// ```
    /// use torsh_tensor::{KlDivOptions, Reduction, tensor};
    /// let log_probabilities = tensor![0.5, 0.5].log()?;
    /// let options = KlDivOptions::new().reduction(Reduction::Sum);
    /// let loss = log_probabilities.kl_div_with(&tensor![1.0, 0.0], options)?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    kl_div_with (target) KlDivOptions Fp32;
    /// The mean negative log-likelihood of counts under Poisson distributions with this tensor as the
    /// logarithm of the rate (`torch.nn.functional.poisson_nll_loss`): `exp(input) - target * input`.
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// // The rate is exp(0); the loss exp(0) - 3 * 0.
    /// let loss = tensor![0.0].poisson_nll_loss(&tensor![3.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    poisson_nll_loss
    /// [`Tensor::poisson_nll_loss`] with options: the rate itself (`log_input` false), Stirling's
    /// term (`full`), `eps`, or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{PoissonNllLossOptions, tensor};
    /// let options = PoissonNllLossOptions::new().log_input(false);
    /// // 2 - 0 * log(2)
    /// let loss = tensor![2.0].poisson_nll_loss_with(&tensor![0.0], options)?;
    /// assert_eq!(loss.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    poisson_nll_loss_with (target) PoissonNllLossOptions Fp32;
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean negative log-likelihood of targets under normal distributions with this tensor as
    /// mean and `var` (a number or a tensor) as variance (`torch.nn.functional.gaussian_nll_loss`):
    /// `(log(var) + (x - target)^2 / var) / 2`.
    ///
    /// `var` has the shape of this tensor, or lacks the last dimension, or has size 1 in one dimension. An error
    /// for other shapes, and for negative variances.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let loss = tensor![0.0, 1.0].gaussian_nll_loss(&tensor![2.0, 1.0], 1.0)?;
    /// // (2^2 / 2 + 0) / 2
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn gaussian_nll_loss<'a>(
        &self,
        target: &Tensor,
        var: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        self.gaussian_nll_loss_with(target, var, GaussianNllLossOptions::default())
    }

    /// [`Tensor::gaussian_nll_loss`] with the constant term (`full`), another least variance `eps`,
    /// or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{GaussianNllLossOptions, Reduction, tensor};
    /// let options = GaussianNllLossOptions::new().reduction(Reduction::None);
    /// let losses = tensor![0.0, 1.0].gaussian_nll_loss_with(&tensor![2.0, 1.0], 1.0, options)?;
    /// assert_eq!(losses, tensor![2.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn gaussian_nll_loss_with<'a>(
        &self,
        target: &Tensor,
        var: impl Into<Operand<'a>>,
        options: GaussianNllLossOptions,
    ) -> Result<Tensor> {
        let run = || gaussian_nll_loss(self, target, var.into(), &options);
        named("gaussian_nll_loss", self, run).map_err(|e| e.renamed("gaussian_nll_loss"))
    }
}
