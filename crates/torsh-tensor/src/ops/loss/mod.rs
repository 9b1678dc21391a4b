//! Losses of two tensors of numbers, and the reduction that all losses share.

pub(crate) mod ctc;
pub(crate) mod entropy;
pub(crate) mod label;
pub(crate) mod margin;

pub use ctc::{CtcLossOptions, IntoLengths};
pub use entropy::{
    BceOptions, BceWithLogitsOptions, GaussianNllLossOptions, KlDivOptions, PoissonNllLossOptions,
};
pub use label::{MultiLabelSoftMarginLossOptions, MultiMarginLossOptions};
pub use margin::{
    CosineEmbeddingLossOptions, HingeEmbeddingLossOptions, MarginRankingLossOptions,
    TripletMarginLossOptions,
};

use torsh_core::attrs::{self, NONE};
use torsh_core::pointwise::numbers;
use torsh_core::{DType, Result, TorshError};

use super::pointwise::parametric;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::named::Named;
use crate::observe::composite;
use crate::options::options;
use crate::record::{OpRecord, Sample, sample};
use crate::schema::Bound;
use crate::{LossOptions, Tensor, Value};

/// The records of all files here.
pub(crate) const FAMILIES: [&[&OpRecord]; 5] = [
    &[&MSE_LOSS, &L1_LOSS, &HUBER_LOSS, &SMOOTH_L1_LOSS],
    entropy::RECORDS,
    margin::RECORDS,
    label::RECORDS,
    ctc::RECORDS,
];

/// How the losses of elements become the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum over the size of the first dimension; `kl_div` alone has it.
    BatchMean,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

crate::named! {
    Reduction, "reduction",
    "none" => Reduction::None,
    "mean" => Reduction::Mean,
    "sum" => Reduction::Sum,
    "batchmean" => Reduction::BatchMean,
}

impl Reduction {
    /// PyTorch's name: `none`, `mean`, `sum` or `batchmean`.
    ///
    /// ```
    /// use torsh_tensor::Reduction;
    /// assert_eq!(Reduction::BatchMean.name(), "batchmean");
    /// ```
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The reduction of PyTorch's name: `none`, `mean` or `sum`.
    pub(crate) fn of(name: &str) -> Result<Reduction> {
        let reduction = Reduction::from(name);
        reduction.plain().map(|_| reduction)
    }

    /// The reduction as kernels take it, who have no `batchmean`.
    pub(crate) fn plain(self) -> Result<attrs::Reduction> {
        match self {
            Reduction::None => Ok(attrs::Reduction::None),
            Reduction::Mean => Ok(attrs::Reduction::Mean),
            Reduction::Sum => Ok(attrs::Reduction::Sum),
            Reduction::BatchMean | Reduction::Unknown(_) => {
                let words = ["none", "mean", "sum"];
                Err(crate::named::refused(self.name(), "reduction", words))
            }
        }
    }

    /// The reduction of a call by name, whose older arguments `size_average` and `reduce` win.
    /// Numbers are the arguments' positions.
    pub(crate) fn bound(
        b: &Bound,
        size_average: usize,
        reduce: usize,
        name: usize,
    ) -> Result<Reduction> {
        if b.is_none(size_average) && b.is_none(reduce) {
            return Reduction::of(b.str(name));
        }
        let flag = |i: usize| b.is_none(i) || b.bool(i);
        Ok(match (flag(reduce), flag(size_average)) {
            (false, _) => Reduction::None,
            (true, true) => Reduction::Mean,
            (true, false) => Reduction::Sum,
        })
    }

    /// The result from the losses of the elements.
    #[track_caller]
    pub(crate) fn apply(self, losses: Tensor) -> Result<Tensor> {
        match self.plain()? {
            attrs::Reduction::None => Ok(losses),
            attrs::Reduction::Mean => losses.mean(),
            attrs::Reduction::Sum => losses.sum(),
        }
    }
}

/// Losses as methods: `NAME` with PyTorch's defaults and `NAME_with` with its options, of which
/// the function of that name makes the result. The class is what an autocast region casts.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident $(#[$with_doc:meta])* $with:ident ($($arg:ident),+) $options:ident $class:ident;)*) => {
        #[torsh_tensor::functions(pairs)]
        impl $crate::Tensor {
            $(
                $(#[$doc])*
                #[function]
                #[track_caller]
                pub fn $name(&self, $($arg: &$crate::Tensor),+) -> torsh_core::Result<$crate::Tensor> {
                    self.$with($($arg,)+ $options::default())
                }

                $(#[$with_doc])*
                #[function]
                #[torsh_tensor::names_caller]
                pub fn $with(
                    &self,
                    $($arg: &$crate::Tensor,)+
                    options: $options,
                ) -> torsh_core::Result<$crate::Tensor> {
                    use $crate::autocast::{Autocast, body};
                    let run = |[x, $($arg),+]: [&$crate::Tensor; _]| $name(x, $($arg,)+ &options);
                    let cast = || body(Autocast::$class, [self, $($arg),+], run);
                    $crate::observe::composite(stringify!($name), &[self, $($arg),+], cast)
                        .map_err(|e| e.renamed(stringify!($name)))
                }
            )*
        }
    };
}
use methods;

/// Whether a loss that PyTorch writes in several ops is to be written so here too: in a half type
/// their roundings show. Else one row of the pointwise table does it in one pass.
fn in_steps(x: &Tensor) -> bool {
    matches!(x.dtype(), DType::F16 | DType::BF16)
}

/// Losses times weights, which must broadcast to them and leave their dtype.
fn times_weight(losses: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(w) = weight else {
        return Ok(losses);
    };
    if !w.shape().can_broadcast_to(losses.shape()) {
        return Err(TorshError::shape(
            "",
            format!(
                "a weight of shape {} does not broadcast to losses of shape {}",
                w.shape(),
                losses.shape()
            ),
        ));
    }
    let dtype = losses.dtype();
    losses.mul(w)?.to_dtype(dtype)
}

/// Calls of a loss of two tensors, for its record's samples.
fn calls(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let (x, y) = (s.real(&[2, 3])?, s.distinct(&[2, 3])?);
    Ok(vec![
        sample![x.clone(), y.clone()],
        sample![x.clone(), y.clone(), reduction = "sum"],
        sample![x, y, reduction = "none"],
    ])
}

const SCHEMA: &str = "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction=\"mean\", Tensor? weight=None)";

fn check_weight(x: &Tensor, w: &Tensor) -> Result<()> {
    if w.shape() == x.shape() {
        return Ok(());
    }
    Err(TorshError::shape(
        "",
        format!(
            "Weights and input must have the same size, got {} and {}",
            x.describe(),
            w.describe()
        ),
    ))
}

/// A weighted loss: each element's times its weight; the mean is over the weights' sum.
fn weighted(b: &Bound, losses: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Value> {
    let (x, y) = (b.tensor(0)?, b.tensor(1)?);
    let reduction = Reduction::bound(b, 2, 3, 4)?;
    let Some(w) = b.opt_tensor(5) else {
        return body(Autocast::Fp32, [x, y], |[x, y]| {
            reduction.apply(losses(x, y)?)
        })
        .map(Value::Tensor);
    };
    check_weight(x, w)?;
    let losses = losses(x, y)?.mul(w)?;
    Ok(Value::Tensor(match reduction {
        Reduction::Mean => losses.sum()?.div(&w.sum()?)?,
        r => r.apply(losses)?,
    }))
}

pub static MSE_LOSS: OpRecord = OpRecord::new(
    "nn.functional.mse_loss",
    "The squared differences of two tensors, their mean or sum.",
    SCHEMA,
)
.autocast(Autocast::Fp32)
.by_name(|b| weighted(b, squared))
.samples(calls);

pub static L1_LOSS: OpRecord = OpRecord::new(
    "nn.functional.l1_loss",
    "The absolute differences of two tensors, their mean or sum.",
    SCHEMA,
)
.autocast(Autocast::Fp32)
.by_name(|b| weighted(b, absolute))
.samples(calls);

#[torsh_tensor::by_name(Tensor::huber_loss_with(.., HuberLossOptions))]
pub static HUBER_LOSS: OpRecord = OpRecord::new(
    "nn.functional.huber_loss",
    "Half the squared difference of two tensors where it is at most delta, and delta times the difference less delta / 2 elsewhere; the mean or sum.",
    "(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None)",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.distinct(&[2, 3])?);
    let call = |reduction: &str| sample![x.clone(), y.clone(), reduction];
    let weight = s.uniform(&[2, 3], 0.5, 2.0)?;
    Ok(vec![call("mean"), call("sum").kw("delta", 0.3), call("none").kw("weight", weight)])
});

#[torsh_tensor::by_name(Tensor::smooth_l1_loss_with(.., SmoothL1LossOptions))]
pub static SMOOTH_L1_LOSS: OpRecord = OpRecord::new(
    "nn.functional.smooth_l1_loss",
    "Half the squared difference of two tensors over beta where it is below beta, and the difference less beta / 2 elsewhere; the mean or sum.",
    "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction='mean', float beta=1.0)",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let mut v = calls(s)?;
    v.push(sample![s.real(&[3])?, s.distinct(&[3])?, beta = 0.3]);
    v.push(sample![s.real(&[3])?, s.distinct(&[3])?, beta = 0.0]);
    Ok(v)
});

options! {
    /// PyTorch's keyword arguments of `F.huber_loss`.
    ///
    /// ```
    /// use torsh_tensor::{HuberLossOptions, Reduction};
    /// let options = HuberLossOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.delta, 1.0);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    HuberLossOptions {
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// How far apart elements are from which on the loss is linear.
        delta: f64 = 1.0;
        /// A factor for each element, of the input's shape.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

options! {
    /// PyTorch's keyword arguments of `F.smooth_l1_loss`.
    ///
    /// ```
    /// use torsh_tensor::{Reduction, SmoothL1LossOptions};
    /// let options = SmoothL1LossOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.beta, 1.0);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    SmoothL1LossOptions {
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// How far apart elements are from which on the loss is linear.
        beta: f64 = 1.0;
    }
}

fn squared(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    call1(&parametric::mse_elementwise, &[Arg::T(x), Arg::T(y)], NONE)
}

fn absolute(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.sub(y)?.abs()
}

fn huber_loss(x: &Tensor, y: &Tensor, options: &HuberLossOptions) -> Result<Tensor> {
    // A nan is refused too.
    if options.delta.is_nan() || options.delta <= 0.0 {
        return Err(TorshError::invalid(
            "",
            format!(
                "huber_loss does not support non-positive values for delta, got {}",
                options.delta
            ),
        ));
    }
    let mut losses = call1(
        &parametric::huber_elementwise,
        &[Arg::T(x), Arg::T(y)],
        &numbers::HuberElementwise {
            delta: options.delta.into(),
        },
    )?;
    if let Some(w) = &options.weight {
        check_weight(x, w)?;
        losses = losses.mul(w)?;
    }
    options.reduction.apply(losses)
}

fn smooth_l1_loss(x: &Tensor, y: &Tensor, options: &SmoothL1LossOptions) -> Result<Tensor> {
    if options.beta < 0.0 {
        return Err(TorshError::invalid(
            "",
            format!(
                "smooth_l1_loss does not support negative values for beta, got {}",
                options.beta
            ),
        ));
    }
    let losses = if options.beta == 0.0 {
        absolute(x, y)?
    } else {
        call1(
            &parametric::smooth_l1_elementwise,
            &[Arg::T(x), Arg::T(y)],
            &numbers::SmoothL1Elementwise {
                beta: options.beta.into(),
            },
        )?
    };
    options.reduction.apply(losses)
}

methods! {
    /// The mean of half the squared differences, linear from differences of 1 (`delta`) on
    /// (`torch.nn.functional.huber_loss`).
    ///
    /// The shapes broadcast; an error where they do not, and for integers.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![0.0, 0.0].huber_loss(&tensor![0.5, 3.0])?;
    /// // (0.5^2 / 2 + 3 - 1 / 2) / 2
    /// assert_eq!(loss.item::<f32>()?, 1.3125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    huber_loss
    /// [`Tensor::huber_loss`] with another `delta`, a `weight` for each element, or another
    /// `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{HuberLossOptions, Reduction, tensor};
    /// let options = HuberLossOptions::new().delta(2.0).reduction(Reduction::None);
    /// let losses = tensor![0.0, 0.0].huber_loss_with(&tensor![0.5, 3.0], options)?;
    /// assert_eq!(losses, tensor![0.125, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    huber_loss_with (target) HuberLossOptions Fp32;
    /// The mean of half the squared differences, linear from differences of 1 (`beta`) on, with slope
    /// 1 there (`torch.nn.functional.smooth_l1_loss`).
    ///
    /// The shapes broadcast; an error where they do not, and for integers.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![0.0, 0.0].smooth_l1_loss(&tensor![0.5, 3.0])?;
    /// // (0.5^2 / 2 + 3 - 1 / 2) / 2
    /// assert_eq!(loss.item::<f32>()?, 1.3125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    smooth_l1_loss
    /// [`Tensor::smooth_l1_loss`] with another `beta` or `reduction`; an error for a negative `beta`.
    ///
    /// ```
    /// use torsh_tensor::{Reduction, SmoothL1LossOptions, tensor};
    /// let options = SmoothL1LossOptions::new().beta(2.0).reduction(Reduction::None);
    /// let losses = tensor![0.0, 0.0].smooth_l1_loss_with(&tensor![0.5, 3.0], options)?;
    /// assert_eq!(losses, tensor![0.0625, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    smooth_l1_loss_with (target) SmoothL1LossOptions Fp32;
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean of the squared differences, a 0-d tensor (`torch.nn.functional.mse_loss`).
    ///
    /// The shapes broadcast and the dtypes promote. An error where they do not, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let loss = tensor![1.0, 2.0].mse_loss(&tensor![1.0, 5.0])?;
    /// assert_eq!(loss.item::<f32>()?, 4.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.mse_loss_with(target, LossOptions::default())
    }

    /// [`Tensor::mse_loss`] with another reduction.
    ///
    /// ```
    /// use torsh_tensor::{LossOptions, Reduction, tensor};
    /// let options = LossOptions::new().reduction(Reduction::Sum);
    /// assert_eq!(tensor![1.0, 2.0].mse_loss_with(&tensor![1.0, 5.0], options)?.item::<f32>()?, 9.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mse_loss_with(&self, target: &Tensor, options: LossOptions) -> Result<Tensor> {
        composite("mse_loss", &[self, target], || {
            body(Autocast::Fp32, [self, target], |[x, y]| {
                options.reduction.apply(squared(x, y)?)
            })
        })
        .map_err(|e| e.renamed("mse_loss"))
    }

    /// The mean of the absolute differences, a 0-d tensor (`torch.nn.functional.l1_loss`).
    ///
    /// The shapes broadcast and the dtypes promote. An error where they do not, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let loss = tensor![1.0, 2.0].l1_loss(&tensor![1.0, 5.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.l1_loss_with(target, LossOptions::default())
    }

    /// [`Tensor::l1_loss`] with another reduction.
    ///
    /// ```
    /// use torsh_tensor::{LossOptions, Reduction, tensor};
    /// let options = LossOptions::new().reduction(Reduction::None);
    /// assert_eq!(tensor![1.0, 2.0].l1_loss_with(&tensor![1.0, 5.0], options)?, tensor![0.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn l1_loss_with(&self, target: &Tensor, options: LossOptions) -> Result<Tensor> {
        composite("l1_loss", &[self, target], || {
            body(Autocast::Fp32, [self, target], |[x, y]| {
                options.reduction.apply(absolute(x, y)?)
            })
        })
        .map_err(|e| e.renamed("l1_loss"))
    }
}
