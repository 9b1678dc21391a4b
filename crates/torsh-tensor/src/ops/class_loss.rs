//! Losses of class scores: negative log-likelihood and cross-entropy.

use smallvec::SmallVec;
use torsh_core::{Attr, DType, Dims, Kernel, Result, Shape, TorshError};

use super::loss::Reduction;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::node::Grads;
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Sample, Spec};
use crate::{BackwardCx, Tensor, Value};

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

fn result_shape(reduction: &str, positions: &Shape) -> Shape {
    if reduction == "none" {
        positions.clone()
    } else {
        Shape::default()
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

/// Negative log-likelihood. Attributes: reduction, ignore_index. Results: loss, sum of weights.
pub static NLL_LOSS: OpRecord = OpRecord::new(
    "nn.functional.nll_loss",
    "The negative of the log-probability of each target class, times the class's weight; the mean divides by the weights.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::NllLoss, |c| {
    let positions = check(c)?;
    let dtype = c.tensor(0)?.dtype();
    let shape = result_shape(c.attr(0).str(), &positions);
    Ok(Plan::many(dtype, [Spec::new(shape, dtype), Spec::new(Shape::default(), dtype)]))
})
.backward(Backward::Full {
    inputs: 0b110,
    outputs: 0b10,
    constant: 0b10,
    formula: |c| {
        no_weight_gradient(c, "nll_loss")?;
        let weight = if c.has_input(2) { Some(c.input(2)?) } else { None };
        let shape: SmallVec<[i64; 6]> = c.input_shape(0).iter().map(|&v| v as i64).collect();
        first(scatter(c.g(), &c.input(1)?, weight.as_ref(), &c.output(1)?, [c.attr(0), c.attr(1)], &shape)?)
    },
})
.by_name(|b| {
    let reduction = Reduction::bound(b, 3, 5, 6)?;
    let options = NllLossOptions { weight: b.opt_tensor(2).cloned(), ignore_index: b.int(4), reduction };
    b.tensor(0)?.nll_loss_with(b.tensor(1)?, options).map(Value::Tensor)
})
.samples(|s| {
    let scores = |s: &mut crate::sample::Sampler| s.uniform(&[3, 4], -2.0, -0.1);
    let target = s.ints(&[3], 0, 4)?;
    Ok(vec![
        Sample::new([scores(s)?.into(), target.clone().into()]),
        Sample::new([scores(s)?.into(), target.clone().into()]).kw("reduction", "none"),
        Sample::new([scores(s)?.into(), target.into()]).kw("reduction", "sum").kw("ignore_index", 1i64),
        Sample::new([s.real(&[2, 3, 2])?.into(), s.ints(&[2, 2], 0, 3)?.into()]),
    ])
});

/// `-weight * g` at each target class, 0 elsewhere.
fn scatter(
    g: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    whole: &Tensor,
    [reduction, ignore]: [Attr<'_>; 2],
    shape: &[i64],
) -> Result<Tensor> {
    call1(
        &NLL_LOSS_BACKWARD,
        &[Arg::T(g), Arg::T(target), Arg::opt(weight), Arg::T(whole)],
        &[reduction, ignore, Attr::Ints(shape)],
    )
}

/// The gradient of the scores of [`NLL_LOSS`]; attribute 2 is their shape.
pub static NLL_LOSS_BACKWARD: OpRecord = OpRecord::new(
    "_nll_loss_backward",
    "The gradient of the input of nll_loss.",
    "",
)
.kernel(Kernel::NllLossBackward, |c| {
    let dims: Vec<usize> = c.attr(2).ints().iter().map(|&v| v as usize).collect();
    let dtype = c.tensor(0)?.dtype();
    Ok(Plan::one(dtype, Shape::new(&dims), dtype))
})
.grads(0b110, 0, |c| {
    // It is linear in the gradient, and its transpose is the loss itself.
    let weight = if c.has_input(2) {
        Some(c.input(2)?)
    } else {
        None
    };
    let target = c.input(1)?;
    let args = [Arg::T(c.g()), Arg::T(&target), Arg::opt(weight.as_ref())];
    Ok(SmallVec::from_iter([
        Some(call1(&NLL_LOSS, &args, &[c.attr(0), c.attr(1)])?),
        None,
        None,
        None,
    ]))
});

/// Cross-entropy with class indices. Attributes: reduction, ignore_index, label smoothing. Results:
/// loss, log of the sum of exponentials of each position, sum of weights.
pub static CROSS_ENTROPY: OpRecord = OpRecord::new(
    "nn.functional.cross_entropy",
    "Cross-entropy of unnormalised scores and class indices, or class probabilities of the scores' shape.",
    "(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0)",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::CrossEntropy, |c| {
    let positions = check(c)?;
    let dtype = c.tensor(0)?.dtype();
    let shape = result_shape(c.attr(0).str(), &positions);
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Ok(Plan::many(
        dtype,
        [Spec::new(shape, dtype), Spec::new(positions, wide), Spec::new(Shape::default(), wide)],
    ))
})
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
        first(call1(&CROSS_ENTROPY_BACKWARD, &args, &[c.attr(0), c.attr(1), c.attr(2)])?)
    },
})
.by_name(|b| {
    let reduction = Reduction::bound(b, 3, 5, 6)?;
    let options = CrossEntropyOptions {
        weight: b.opt_tensor(2).cloned(),
        ignore_index: b.int(4),
        reduction,
        label_smoothing: b.float(7),
    };
    b.tensor(0)?.cross_entropy_with(b.tensor(1)?, options).map(Value::Tensor)
})
.samples(|s| {
    let target = s.ints(&[3], 0, 4)?;
    Ok(vec![
        Sample::new([s.real(&[3, 4])?.into(), target.clone().into()]),
        Sample::new([s.real(&[3, 4])?.into(), target.clone().into()])
            .kw("reduction", "none")
            .kw("label_smoothing", 0.2),
        Sample::new([s.real(&[3, 4])?.into(), target.into()])
            .kw("ignore_index", 1i64)
            .kw("label_smoothing", 0.1)
            .kw("reduction", "sum"),
        Sample::new([s.real(&[2, 3, 2])?.into(), s.ints(&[2, 2], 0, 3)?.into()]),
        Sample::new([s.real(&[2, 3])?.into(), s.uniform(&[2, 3], 0.1, 1.0)?.into()]).kw("label_smoothing", 0.1),
    ])
});

/// The gradient of the scores in one pass, for when it is not differentiated again.
pub static CROSS_ENTROPY_BACKWARD: OpRecord = OpRecord::new(
    "_cross_entropy_backward",
    "The gradient of the input of cross_entropy.",
    "",
)
.kernel(Kernel::CrossEntropyBackward, |c| {
    let x = c.tensor(1)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
});

/// The gradient of the scores in ops that have derivatives.
///
/// With `g` the gradient of each position's loss and `p` the probabilities, it is
/// `g (a p - b)` where `b` is the share of each class in the loss and `a` their sum.
fn by_ops(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, target) = (c.input(0)?, c.input(1)?);
    let dim = class_dim(&x) as i64;
    let classes = x.dims()[dim as usize] as f64;
    let smoothing = c.attr(2).float();
    let weight = if c.has_input(2) {
        Some(c.input(2)?.detach())
    } else {
        None
    };
    let shape: SmallVec<[i64; 6]> = x.shape().iter().map(|&v| v as i64).collect();
    let none = [Attr::Str("none"), c.attr(1)];
    // How often each class is a position's target: 1 or 0, times its weight.
    let ones = target.full_as(1.into(), x.dtype(), x.device())?;
    let one = Tensor::ones((), x.dtype(), x.device())?;
    let own = |weight: Option<&Tensor>| scatter(&ones, &target, weight, &one, none, &shape)?.neg();
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
    match c.attr(0).str() {
        "none" => g = g.unsqueeze(dim)?,
        "mean" => g = g.div(&c.output(2)?.detach().to_dtype(g.dtype())?)?,
        _ => {}
    }
    let p = x.softmax(dim)?;
    let inner = p.mul(&sum)?.sub(&share)?;
    g.mul(&inner)
}

options! {
    /// PyTorch's keyword arguments of `nll_loss`.
    NllLossOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// PyTorch's keyword arguments of `cross_entropy`.
    CrossEntropyOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean;
        /// How much of each target is spread over all classes.
        label_smoothing: f64 = 0.0;
    }
}

impl Tensor {
    /// The mean of the negative log-probabilities of the target classes
    /// (`torch.nn.functional.nll_loss`): scores `[n, c, ..]` or `[c]`, target of that shape without
    /// `c`, int64.
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.nll_loss_with(target, NllLossOptions::default())
    }

    /// [`Tensor::nll_loss`] with a weight for each class, a class that counts for nothing, and a
    /// reduction (`none`, `mean` or `sum`).
    #[track_caller]
    pub fn nll_loss_with(&self, target: &Tensor, options: NllLossOptions) -> Result<Tensor> {
        let attrs = [
            Attr::Str(options.reduction.name()),
            Attr::Int(options.ignore_index),
        ];
        let weight = Arg::opt(options.weight.as_ref());
        call1(&NLL_LOSS, &[Arg::T(self), Arg::T(target), weight], &attrs)
    }

    /// The mean cross-entropy of unnormalised scores `[n, c, ..]` or `[c]`
    /// (`torch.nn.functional.cross_entropy`): the target is int64 class indices of that shape
    /// without `c`, or probabilities of that shape.
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        self.cross_entropy_with(target, CrossEntropyOptions::default())
    }

    /// [`Tensor::cross_entropy`] with a weight for each class, a class index that counts for
    /// nothing, a reduction (`none`, `mean` or `sum`) and label smoothing.
    #[track_caller]
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
        let (weight, reduction) = (weight.as_ref(), reduction.name());
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
        let attrs = [
            Attr::Str(reduction),
            Attr::Int(ignore_index),
            Attr::Float(label_smoothing),
        ];
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
        reduction: &str,
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
            "none" => each.sum_dim(dim, false)?.neg(),
            "sum" => each.sum()?.neg(),
            _ => each.sum()?.neg()?.div(self.numel() as f64 / classes as f64),
        }
    }
}
