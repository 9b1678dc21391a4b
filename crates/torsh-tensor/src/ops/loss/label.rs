//! Margin losses of class scores with one or several true classes.

use torsh_core::attrs::{Assert, NONE};
use torsh_core::{CallSite, DType, Result, TorshError};

use super::{Reduction, in_steps, methods, times_weight};
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::check::{check, named};
use crate::ops::pointwise::parametric;
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{LossOptions, Tensor};

pub(super) const RECORDS: &[&OpRecord] = &[
    &MULTI_MARGIN_LOSS,
    &MULTILABEL_MARGIN_LOSS,
    &MULTILABEL_SOFT_MARGIN_LOSS,
];

#[torsh_tensor::by_name(Tensor::multi_margin_loss_with(.., MultiMarginLossOptions))]
pub static MULTI_MARGIN_LOSS: OpRecord = OpRecord::new(
    "nn.functional.multi_margin_loss",
    "What each score other than the true class's misses of being the margin below it, to the power p, times the true class's weight; averaged over classes, then the mean or sum.",
    "(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let y = s.ints(&[3], 0, 4)?;
    let weight = Tensor::from_data(&[0.5f32, 2.0, 1.0, 1.5], [4])?;
    Ok(vec![
        sample![s.distinct(&[3, 4])?, y.clone()],
        sample![s.distinct(&[3, 4])?, y, 2, 1.6, weight = weight.to_dtype(DType::F64)?.detach(), reduction = "none"],
        sample![s.distinct(&[4])?, s.ints(&[1], 0, 4)?],
    ])
});

#[torsh_tensor::by_name(Tensor::multilabel_margin_loss_with(.., LossOptions))]
pub static MULTILABEL_MARGIN_LOSS: OpRecord = OpRecord::new(
    "nn.functional.multilabel_margin_loss",
    "What each score of a class that is not among the true ones misses of being 1 below each true class's; the true classes are the target up to its first negative number. Averaged over classes, then the mean or sum.",
    "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let y = Tensor::from_data(&[3i64, 0, -1, 1, 2, -1, -1, 3], [2, 4])?;
    Ok(vec![
        sample![s.distinct(&[2, 4])?, y.clone()],
        sample![s.distinct(&[2, 4])?, y.clone(), reduction = "none"],
        sample![s.distinct(&[4])?, y.select(0, 0)?, reduction = "sum"],
    ])
});

#[torsh_tensor::by_name(multilabel_soft_margin_loss(.., &MultiLabelSoftMarginLossOptions))]
pub static MULTILABEL_SOFT_MARGIN_LOSS: OpRecord = OpRecord::new(
    "nn.functional.multilabel_soft_margin_loss",
    "The cross entropy of the scores' sigmoid and targets from 0 to 1, averaged over classes, times a weight; the mean or sum.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.uniform(&[2, 3], 0.1, 0.9)?);
    let weight = s.uniform(&[3], 0.5, 2.0)?;
    let call = || sample![x.clone(), y.clone()];
    Ok(vec![call(), call().kw("weight", weight).kw("reduction", "none")])
});

options! {
    /// PyTorch's keyword arguments of `F.multi_margin_loss`.
    ///
    /// ```
    /// use torsh_tensor::{MultiMarginLossOptions, Reduction};
    /// let options = MultiMarginLossOptions::new();
    /// assert_eq!(options.p, 1);
    /// assert_eq!(options.margin, 1.0);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.p(3).p, 3);
    /// ```
    MultiMarginLossOptions {
        /// The power: 1 or 2.
        p: i64 = 1;
        /// By how much the true class's score is asked to exceed the others.
        margin: f64 = 1.0;
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.multilabel_soft_margin_loss`.
    ///
    /// ```
    /// use torsh_tensor::{MultiLabelSoftMarginLossOptions, Reduction};
    /// let options = MultiLabelSoftMarginLossOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    MultiLabelSoftMarginLossOptions {
        /// A factor for each element; it broadcasts.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

/// Scores as `[positions, classes]`.
fn rows(x: &Tensor) -> Result<[usize; 2]> {
    match *x.dims() {
        [] => Ok([1, 1]),
        [classes] if classes > 0 => Ok([1, classes]),
        [n, classes] if classes > 0 => Ok([n, classes]),
        _ => Err(TorshError::shape(
            "",
            format!(
                "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
                x.shape()
            ),
        )),
    }
}

/// Checks the dtypes of scores and classes.
fn check_dtypes(x: &Tensor, y: &Tensor) -> Result<()> {
    if y.dtype() != DType::I64 {
        return Err(TorshError::dtype(
            "",
            format!("expected scalar type int64 but found {}", y.dtype()),
        )
        .with_hint("the target holds class indices; convert it with to_dtype(DType::I64)"));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    Ok(())
}

#[track_caller]
fn check_classes(op: &'static str, y: &Tensor, low: i64, classes: usize) -> Result<()> {
    let inside = y.ge(low)?.logical_and(y.lt(classes as i64)?)?;
    check(&inside, CallSite::here(op), || {
        let last = classes - 1;
        Assert::index(format!(
            "target out of range: it is not from {low} to {last}"
        ))
    })
}

fn multi_margin_loss(x: &Tensor, y: &Tensor, options: &MultiMarginLossOptions) -> Result<Tensor> {
    if !matches!(options.p, 1 | 2) {
        return Err(TorshError::invalid("", "only p == 1 and p == 2 supported"));
    }
    let weight = options.weight.as_ref();
    if let Some(w) = weight.filter(|w| w.ndim() != 1) {
        return Err(TorshError::shape(
            "",
            format!("weight must be one-dimensional, got {}", w.shape()),
        ));
    }
    let [n, classes] = rows(x)?;
    if y.ndim() > 1 || y.numel() != n {
        return Err(TorshError::shape(
            "",
            format!(
                "target tensor should be 1-D with size equal to the batch's. Expected target size [{n}], but got {}",
                y.shape()
            ),
        ));
    }
    if let Some(w) = weight.filter(|w| w.numel() != classes) {
        return Err(TorshError::shape(
            "",
            format!(
                "inconsistent weight size, expected {classes} but got {}",
                w.shape()
            ),
        ));
    }
    check_dtypes(x, y)?;
    check_classes("multi_margin_loss", y, 0, classes)?;
    let scores = x.reshape([n, classes])?;
    let target = y.reshape([n, 1])?;
    let missed = scores
        .sub(&scores.gather(1, &target)?)?
        .add(options.margin)?;
    // `relu` gives a score exactly at the margin no gradient, as PyTorch.
    let missed = missed.relu()?;
    let mut losses = if options.p == 2 {
        missed.square()?
    } else {
        missed
    };
    let own = Tensor::arange(0, classes as i64, 1, DType::I64, x.device())?.eq(&target)?;
    losses = losses.where_zero(&own, true)?;
    if let Some(w) = weight {
        losses = losses.mul(&w.index_select(0, y)?.reshape([n, 1])?)?;
    }
    let each = losses.sum_dim(1, false)?.div(classes as f64)?;
    match options.reduction {
        Reduction::None => each.reshape(y.shape()),
        r => r.apply(each),
    }
}

fn multilabel_margin_loss(x: &Tensor, y: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let [n, classes] = rows(x)?;
    let fits = match x.ndim() {
        2 => y.shape() == x.shape(),
        _ => y.ndim() <= 1 && y.numel() == classes,
    };
    if !fits {
        return Err(TorshError::shape(
            "",
            format!(
                "inconsistent target size: {} for input of size: {}",
                y.shape(),
                x.shape()
            ),
        ));
    }
    check_dtypes(x, y)?;
    check_classes("multilabel_margin_loss", y, -1, classes)?;
    let (scores, target) = (x.reshape([n, classes])?, y.reshape([n, classes])?);
    // The targets ahead of the first -1, and the classes they name.
    let valid = target.ge(0)?.to_dtype(DType::I64)?.cumprod(1)?;
    let class = target.clamp_min(0)?;
    let named =
        Tensor::zeros([n, classes], DType::I64, x.device())?.scatter_add(1, &class, &valid)?;
    let own = scores.gather(1, &class)?.unsqueeze(2)?;
    let missed = scores.unsqueeze(1)?.sub(&own)?.add(1.0)?.relu()?;
    let counts = valid
        .ne(0)?
        .unsqueeze(2)?
        .logical_and(named.eq(0)?.unsqueeze(1)?)?;
    let each = missed
        .where_zero(&counts, false)?
        .sum_dim([1, 2], false)?
        .div(classes as f64)?;
    match reduction {
        Reduction::None if y.ndim() <= 1 => each.reshape(()),
        r => r.apply(each),
    }
}

fn multilabel_soft_margin_loss(
    x: &Tensor,
    y: &Tensor,
    options: &MultiLabelSoftMarginLossOptions,
) -> Result<Tensor> {
    let Some(&classes) = x.dims().last() else {
        return Err(TorshError::shape(
            "",
            "the input needs a dimension of classes, got a 0-d tensor",
        ));
    };
    let losses = if in_steps(x) {
        let (high, low) = (x.logsigmoid()?, x.neg()?.logsigmoid()?);
        let untrue = y.neg()?.add(1)?;
        y.mul(&high)?.add(&untrue.mul(&low)?)?.neg()?
    } else {
        let args = [Arg::T(x), Arg::T(y)];
        call1(&parametric::bce_logits_elementwise, &args, NONE)?
    };
    let losses = times_weight(losses, options.weight.as_ref())?;
    let each = losses.sum_dim(x.ndim() - 1, false)?.div(classes as f64)?;
    options.reduction.apply(each)
}

methods! {
    /// The mean over samples and classes of what scores of other classes miss of being 1 below the
    /// true class's (`torch.nn.functional.multi_margin_loss`).
    ///
    /// Scores `[N, C]` and int64 classes `[N]`, or `[C]` and one class; an error for other shapes,
    /// dtypes or classes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// // Class 1 is 0.5 below the true class 0, and misses the margin by 0.5.
    /// let loss = tensor![[1.0, 0.5]].multi_margin_loss(&tensor![0])?;
    /// assert_eq!(loss.item::<f32>()?, 0.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multi_margin_loss
    /// [`Tensor::multi_margin_loss`] with options: `p` (1 or 2), `margin`, a `weight` for each class
    /// and another `reduction`.
    ///
    /// An error for another `p`.
    ///
    /// ```
    /// use torsh_tensor::{MultiMarginLossOptions, tensor};
    /// let options = MultiMarginLossOptions::new().p(2);
    /// let loss = tensor![[1.0, 0.5]].multi_margin_loss_with(&tensor![0], options)?;
    /// assert_eq!(loss.item::<f32>()?, 0.125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multi_margin_loss_with (target) MultiMarginLossOptions Fp32;
    /// The mean cross entropy of the scores' sigmoid and targets from 0 to 1, averaged over classes
    /// (`torch.nn.functional.multilabel_soft_margin_loss`).
    ///
    /// `[.., C]` both; an error for shapes that do not broadcast.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![[0.0, 0.0]].multilabel_soft_margin_loss(&tensor![[1.0, 0.0]])?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_soft_margin_loss
    /// [`Tensor::multilabel_soft_margin_loss`] with a `weight` for each class, or another
    /// `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{MultiLabelSoftMarginLossOptions, Reduction, tensor};
    /// let options = MultiLabelSoftMarginLossOptions::new().reduction(Reduction::None);
    /// let scores = tensor![[0.0], [2.0]];
    /// let losses = scores.multilabel_soft_margin_loss_with(&tensor![[1.0], [1.0]], options)?;
    /// assert!(losses.allclose(&tensor![0.693147, 0.126928])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_soft_margin_loss_with (target) MultiLabelSoftMarginLossOptions Keep;
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean over samples and classes of what scores of untrue classes miss of being 1 below those
    /// of true ones; the int64 target lists the true classes up to the first -1
    /// (`torch.nn.functional.multilabel_margin_loss`).
    ///
    /// `[N, C]` or `[C]` both; an error for other shapes, dtypes or classes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// // Class 1 is true; the others miss the margin by 1 - (2 - 0) and 1 - (2 - 1.5).
    /// let loss = tensor![0.0, 2.0, 1.5].multilabel_margin_loss(&tensor![1, -1, -1])?;
    /// assert!((loss.item::<f32>()? - 0.5 / 3.0).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn multilabel_margin_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.multilabel_margin_loss_with(target, LossOptions::default())
    }

    /// [`Tensor::multilabel_margin_loss`] with another reduction.
    ///
    /// ```
    /// use torsh_tensor::{LossOptions, Reduction, tensor};
    /// let options = LossOptions::new().reduction(Reduction::None);
    /// let scores = tensor![[0.0, 2.0], [0.0, 0.5]];
    /// let losses = scores.multilabel_margin_loss_with(&tensor![[1, -1], [1, -1]], options)?;
    /// assert_eq!(losses, tensor![0.0, 0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn multilabel_margin_loss_with(
        &self,
        target: &Tensor,
        options: LossOptions,
    ) -> Result<Tensor> {
        let run = |[x]: [&Tensor; 1]| multilabel_margin_loss(x, target, options.reduction);
        named("multilabel_margin_loss", self, || {
            body(MULTILABEL_MARGIN_LOSS.autocast, [self], run)
        })
        .map_err(|e| e.renamed("multilabel_margin_loss"))
    }
}
