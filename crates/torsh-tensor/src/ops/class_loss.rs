//! Losses of class scores: negative log-likelihood and cross-entropy.

use smallvec::SmallVec;
use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError, attrs};

use super::conv::given;
use super::definitions;
use super::loss::Reduction;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::node::Grads;
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec, sample};
use crate::{BackwardCx, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &NLL_LOSS,
    &NLL_LOSS_BACKWARD,
    &CROSS_ENTROPY,
    &CROSS_ENTROPY_BACKWARD,
];

/// The dimension of the classes.
fn class_dim(scores: &Tensor) -> usize {
    usize::from(scores.ndim() > 1)
}

/// Checks scores, target and weight against each other and gives the target's shape.
fn check(c: &PlanCx<'_>) -> Result<Shape> {
    let (x, t) = (c.tensor(0)?, c.tensor(1)?);
    if x.ndim() == 0 {
        return Err(TorshError::shape(
            "",
            "input tensor should have a dimension of classes, got a 0-d tensor",
        ));
    }
    let classes = class_dim(x);
    let dims: Dims = x
        .dims()
        .iter()
        .enumerate()
        .filter(|(d, _)| *d != classes)
        .map(|(_, &n)| n)
        .collect();
    let want: Shape = dims.into();
    if *t.shape() != want {
        let batch = match (x.dims().first(), t.dims().first()) {
            (Some(n), Some(m)) if x.ndim() > 1 && n != m => {
                format!("Expected input batch_size ({n}) to match target batch_size ({m}): ")
            }
            _ => String::new(),
        };
        return Err(TorshError::shape(
            "",
            format!(
                "{batch}a target for scores of shape {} must have shape {want}, got {}",
                x.shape(),
                t.shape()
            ),
        ));
    }
    if !matches!(t.dtype(), DType::I64 | DType::U8) {
        return Err(TorshError::dtype("", format!("expected a target of class indices in int64, got {}", t.dtype()))
            .with_hint("convert it with to_dtype(DType::I64); cross_entropy also takes probabilities of the scores' shape"));
    }
    if let Some(w) = c.opt_tensor(2) {
        if w.dims() != [x.dims()[classes]] {
            return Err(TorshError::shape(
                "",
                format!(
                    "weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: {}",
                    x.dims()[classes],
                    w.shape()
                ),
            ));
        }
        if w.dtype() != x.dtype() {
            return Err(TorshError::dtype(
                "",
                format!(
                    "expected scalar type {} but found {} for weight",
                    x.dtype(),
                    w.dtype()
                ),
            ));
        }
    }
    if !x.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    Ok(want)
}

fn result_shape(reduction: attrs::Reduction, positions: &Shape) -> Shape {
    match reduction {
        attrs::Reduction::None => positions.clone(),
        attrs::Reduction::Mean | attrs::Reduction::Sum => Shape::default(),
    }
}

fn no_weight_gradient(c: &BackwardCx<'_>, op: &'static str) -> Result<()> {
    match c.needs(2) {
        true => Err(TorshError::autograd(
            op,
            format!("the derivative for 'weight' of {op} is not implemented"),
        )
        .with_hint("detach() the weight")),
        false => Ok(()),
    }
}

fn first(g: Tensor) -> Result<Grads> {
    Ok(SmallVec::from_iter([Some(g), None, None]))
}

/// Negative log-likelihood. Results: loss, sum of weights.
#[torsh_tensor::by_name(Tensor::nll_loss_with(.., NllLossOptions))]
pub static NLL_LOSS: OpRecord = OpRecord::new(
    "nn.functional.nll_loss",
    "The negative of the log-probability of each target class, times the class's weight; the mean divides by the weights.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::NllLoss, |c| {
    let positions = check(c)?;
    let dtype = c.tensor(0)?.dtype();
    let shape = result_shape(c.attrs::<attrs::NllLoss>()?.reduction, &positions);
    Ok(Plan::many(dtype, [Spec::new(shape, dtype), Spec::new(Shape::default(), dtype)]))
})
.definition(definitions::nll_loss)
.backward(Backward::Full {
    inputs: 0b110,
    outputs: 0b10,
    constant: 0b10,
    formula: |c| {
        no_weight_gradient(c, "nll_loss")?;
        let weight = if c.has_input(2) { Some(c.input(2)?) } else { None };
        let &attrs::NllLoss { reduction, ignore_index } = c.attrs()?;
        let output_shape = c.input_shape(0).dims().into();
        let attrs = attrs::NllLossBackward { reduction, ignore_index, output_shape };
        first(scatter(c.g(), &c.input(1)?, weight.as_ref(), &c.output(1)?, &attrs)?)
    },
})
.samples(|s| {
    let scores = |s: &mut crate::sample::Sampler| s.uniform(&[3, 4], -2.0, -0.1);
    let target = s.ints(&[3], 0, 4)?;
    Ok(vec![
        sample![scores(s)?, target.clone()],
        sample![scores(s)?, target.clone(), reduction = "none"],
        sample![scores(s)?, target, reduction = "sum", ignore_index = 1],
        sample![s.real(&[2, 3, 2])?, s.ints(&[2, 2], 0, 3)?],
    ])
});

/// `-weight * g` at each target class, 0 elsewhere.
fn scatter(
    g: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    whole: &Tensor,
    attrs: &attrs::NllLossBackward,
) -> Result<Tensor> {
    call1(
        &NLL_LOSS_BACKWARD,
        &[Arg::T(g), Arg::T(target), Arg::opt(weight), Arg::T(whole)],
        attrs,
    )
}

/// The gradient of the scores of [`NLL_LOSS`].
pub static NLL_LOSS_BACKWARD: OpRecord = OpRecord::new(
    "_nll_loss_backward",
    "The gradient of the input of nll_loss.",
    "(Tensor grad_output, Tensor target, Tensor? weight, Tensor total_weight, *, str reduction, int ignore_index, int[] output_shape)",
)
.internal()
.kernel(Kernel::NllLossBackward, |c| {
    given(c, &c.attrs::<attrs::NllLossBackward>()?.output_shape)
})
.definition(definitions::nll_loss_backward)
.grads(0b110, 0, |c| {
    // It is linear in the gradient, and its transpose is the loss itself.
    let weight = if c.has_input(2) {
        Some(c.input(2)?)
    } else {
        None
    };
    let target = c.input(1)?;
    let args = [Arg::T(c.g()), Arg::T(&target), Arg::opt(weight.as_ref())];
    let &attrs::NllLossBackward {
        reduction,
        ignore_index,
        ..
    } = c.attrs()?;
    let attrs = attrs::NllLoss {
        reduction,
        ignore_index,
    };
    Ok(SmallVec::from_iter([
        Some(call1(&NLL_LOSS, &args, &attrs)?),
        None,
        None,
        None,
    ]))
});

/// Cross-entropy with class indices. Results: loss, log of the sum of exponentials of each position,
/// sum of weights.
#[torsh_tensor::by_name(Tensor::cross_entropy_with(.., CrossEntropyOptions))]
pub static CROSS_ENTROPY: OpRecord = OpRecord::new(
    "nn.functional.cross_entropy",
    "Cross-entropy of unnormalised scores and class indices, or class probabilities of the scores' shape.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0)",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::CrossEntropy, |c| {
    let positions = check(c)?;
    let dtype = c.tensor(0)?.dtype();
    let shape = result_shape(c.attrs::<attrs::CrossEntropy>()?.reduction, &positions);
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Ok(Plan::many(
        dtype,
        [Spec::new(shape, dtype), Spec::new(positions, wide), Spec::new(Shape::default(), wide)],
    ))
})
.definition(definitions::cross_entropy)
.backward(Backward::Full {
    inputs: 0b111,
    outputs: 0b110,
    constant: 0b110,
    formula: |c| {
        no_weight_gradient(c, "cross_entropy")?;
        if crate::is_grad_enabled() {
            return first(by_ops(c)?);
        }
        let weight = if c.has_input(2) { Some(c.input(2)?) } else { None };
        let (x, target, lse, whole) = (c.input(0)?, c.input(1)?, c.output(1)?, c.output(2)?);
        let args =
            [Arg::T(c.g()), Arg::T(&x), Arg::T(&target), Arg::opt(weight.as_ref()), Arg::T(&lse), Arg::T(&whole)];
        first(call1(&CROSS_ENTROPY_BACKWARD, &args, c.attributes())?)
    },
})
.samples(|s| {
    let target = s.ints(&[3], 0, 4)?;
    Ok(vec![
        sample![s.real(&[3, 4])?, target.clone()],
        sample![s.real(&[3, 4])?, target.clone(), reduction = "none", label_smoothing = 0.2],
        sample![s.real(&[3, 4])?, target, ignore_index = 1, label_smoothing = 0.1, reduction = "sum"],
        sample![s.real(&[2, 3, 2])?, s.ints(&[2, 2], 0, 3)?],
        sample![s.real(&[2, 3])?, s.uniform(&[2, 3], 0.1, 1.0)?, label_smoothing = 0.1],
    ])
});

/// The gradient of the scores in one pass, for when it is not differentiated again.
pub static CROSS_ENTROPY_BACKWARD: OpRecord = OpRecord::new(
    "_cross_entropy_backward",
    "The gradient of the input of cross_entropy.",
    "(Tensor grad_output, Tensor input, Tensor target, Tensor? weight, Tensor log_sum, Tensor total_weight, *, str reduction, int ignore_index, float label_smoothing)",
)
.internal()
.kernel(Kernel::CrossEntropyBackward, |c| {
    let x = c.tensor(1)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.definition(definitions::cross_entropy_backward);

/// The gradient of the scores in ops that have derivatives.
///
/// With `g` the gradient of each position's loss and `p` the probabilities, it is
/// `g (a p - b)` where `b` is the share of each class in the loss and `a` their sum.
fn by_ops(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, target) = (c.input(0)?, c.input(1)?);
    let dim = class_dim(&x) as i64;
    let classes = x.dims()[dim as usize] as f64;
    let &attrs::CrossEntropy {
        reduction,
        ignore_index,
        label_smoothing: smoothing,
    } = c.attrs()?;
    let weight = if c.has_input(2) {
        Some(c.input(2)?.detach())
    } else {
        None
    };
    let each = attrs::NllLossBackward {
        reduction: attrs::Reduction::None,
        ignore_index,
        output_shape: x.dims().into(),
    };
    // How often each class is a position's target: 1 or 0, times its weight.
    let ones = target.full_as(1.into(), x.dtype(), x.device())?;
    let one = Tensor::ones((), x.dtype(), x.device())?;
    let own = |weight: Option<&Tensor>| scatter(&ones, &target, weight, &one, &each)?.neg();
    let counted = own(None)?.sum_dim(dim, true)?;
    let mut share = own(weight.as_ref())?;
    if smoothing != 0.0 {
        let mut all = counted.mul(smoothing / classes)?;
        if let Some(w) = &weight {
            let mut along = vec![1i64; x.ndim()];
            along[dim as usize] = -1;
            all = all.mul(&w.reshape(along)?)?;
        }
        share = share.mul(1.0 - smoothing)?.add(&all)?;
    }
    let sum = share.sum_dim(dim, true)?;
    let mut g = c.g().clone();
    match reduction {
        attrs::Reduction::None => g = g.unsqueeze(dim)?,
        attrs::Reduction::Mean => g = g.div(&c.output(2)?.detach().to_dtype(g.dtype())?)?,
        attrs::Reduction::Sum => {}
    }
    let p = x.softmax(dim)?;
    let inner = p.mul(&sum)?.sub(&share)?;
    g.mul(&inner)
}

options! {
    /// PyTorch's keyword arguments of `nll_loss`.
    ///
    /// ```
    /// use torsh_tensor::{NllLossOptions, Reduction};
    /// let options = NllLossOptions::new();
    /// assert_eq!(options.ignore_index, -100);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.ignore_index(3).ignore_index, 3);
    /// ```
    NllLossOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `cross_entropy`.
    ///
    /// ```
    /// use torsh_tensor::{CrossEntropyOptions, Reduction};
    /// let options = CrossEntropyOptions::new();
    /// assert_eq!(options.ignore_index, -100);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.label_smoothing, 0.0);
    /// assert_eq!(options.ignore_index(3).ignore_index, 3);
    /// ```
    CrossEntropyOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// How much of each target is spread over all classes.
        label_smoothing: f64 = 0.0;
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean of the negative log-probabilities of the target classes
    /// (`torch.nn.functional.nll_loss`): scores `[n, c, ..]` or `[c]`, target of that shape without
    /// `c`, int64. A 0-d tensor, floating-point dtypes. A target of another shape or dtype, or a
    /// class out of range, is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let log_probabilities = tensor![[-0.5, -1.0], [-2.0, -0.25]];
    /// let loss = log_probabilities.nll_loss(&tensor![0, 1])?;
    /// assert_eq!(loss.item::<f32>()?, 0.375);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.nll_loss_with(target, NllLossOptions::default())
    }

    /// [`Tensor::nll_loss`] with a weight for each class, a class that counts for nothing, and a
    /// reduction (`none`, `mean` or `sum`).
    ///
    /// ```
    /// use torsh_tensor::{NllLossOptions, Reduction, tensor};
    /// let log_probabilities = tensor![[-0.5, -1.0], [-2.0, -0.25]];
    /// let options = NllLossOptions::new().reduction(Reduction::None);
    /// let losses = log_probabilities.nll_loss_with(&tensor![0, 1], options)?;
    /// assert_eq!(losses, tensor![0.5, 0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nll_loss_with(&self, target: &Tensor, options: NllLossOptions) -> Result<Tensor> {
        let attrs = attrs::NllLoss {
            reduction: self.named(NLL_LOSS.name, options.reduction.plain())?,
            ignore_index: options.ignore_index,
        };
        let weight = Arg::opt(options.weight.as_ref());
        call1(&NLL_LOSS, &[Arg::T(self), Arg::T(target), weight], &attrs)
    }

    /// The mean cross-entropy of unnormalised scores `[n, c, ..]` or `[c]`
    /// (`torch.nn.functional.cross_entropy`): the target is int64 class indices of that shape without
    /// `c`, or probabilities of that shape. A 0-d tensor, floating-point dtypes. A target of another
    /// shape or dtype, or a class out of range, is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let scores = tensor![[0.0, 0.0], [2.0, 0.0]];
    /// let loss = scores.cross_entropy(&tensor![0, 0])?;
    /// // (log 2 + log(1 + exp(-2))) / 2
    /// assert!((loss.item::<f32>()? - 0.410038).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        self.cross_entropy_with(target, CrossEntropyOptions::default())
    }

    /// [`Tensor::cross_entropy`] with options: a `weight` for each class, `ignore_index`,
    /// `label_smoothing` and another `reduction`.
    ///
    /// With [`Reduction::None`](crate::Reduction::None) the result has the classes' shape.
    ///
    /// ```
    /// use torsh_tensor::{CrossEntropyOptions, Reduction, tensor};
    /// let scores = tensor![[0.0, 0.0], [2.0, 0.0]];
    /// let options = CrossEntropyOptions::new().reduction(Reduction::Sum);
    /// let loss = scores.cross_entropy_with(&tensor![0, 0], options)?;
    /// assert!((loss.item::<f32>()? - 0.820075).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cross_entropy_with(
        &self,
        target: &Tensor,
        options: CrossEntropyOptions,
    ) -> Result<Tensor> {
        let op = CROSS_ENTROPY.name;
        let CrossEntropyOptions {
            weight,
            ignore_index,
            reduction,
            label_smoothing,
        } = options;
        let weight = weight.as_ref();
        let reduction = self.named(op, reduction.plain())?;
        if !(0.0..=1.0).contains(&label_smoothing) {
            let message =
                format!("label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}");
            return self.named(op, Err(TorshError::invalid("", message)));
        }
        if self.shape() == target.shape() && self.ndim() > 0 {
            return body(CROSS_ENTROPY.autocast, [self, target], |[x, y]| {
                x.soft_cross_entropy(y, weight, reduction, label_smoothing)
            })
            .map_err(|e| e.renamed(op));
        }
        let attrs = attrs::CrossEntropy {
            reduction,
            ignore_index,
            label_smoothing,
        };
        call1(
            &CROSS_ENTROPY,
            &[Arg::T(self), Arg::T(target), Arg::opt(weight)],
            &attrs,
        )
    }

    fn soft_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: attrs::Reduction,
        smoothing: f64,
    ) -> Result<Tensor> {
        if !target.dtype().is_floating_point() {
            return Err(TorshError::dtype(
                "",
                format!(
                    "Expected floating point type for target with class probabilities, got {}",
                    target.dtype()
                ),
            ));
        }
        let dim = class_dim(self);
        let classes = self.dims()[dim];
        let mut target = target.clone();
        if smoothing > 0.0 {
            target = target
                .mul(1.0 - smoothing)?
                .add(smoothing / classes as f64)?;
        }
        let mut each = self.log_softmax(dim)?.mul(&target)?;
        if let Some(w) = weight {
            if w.dims() != [classes] {
                return Err(TorshError::shape(
                    "",
                    format!(
                        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {}",
                        w.shape()
                    ),
                ));
            }
            let mut along = vec![1i64; self.ndim()];
            along[dim] = -1;
            each = each.mul(&w.reshape(along)?)?;
        }
        match reduction {
            attrs::Reduction::None => each.sum_dim(dim, false)?.neg(),
            attrs::Reduction::Sum => each.sum()?.neg(),
            attrs::Reduction::Mean => each.sum()?.neg()?.div(self.numel() as f64 / classes as f64),
        }
    }
}
