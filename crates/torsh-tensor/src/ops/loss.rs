//! Losses of two tensors of numbers.

use torsh_core::{Result, TorshError};

use super::pointwise::parametric;
use crate::call::{Arg, call1};
use crate::record::{OpRecord, Sample};
use crate::schema::Bound;
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&MSE_LOSS, &L1_LOSS];

/// Applies a reduction by PyTorch's name.
#[track_caller]
fn reduce(op: &'static str, losses: Tensor, reduction: &str) -> Result<Tensor> {
    match reduction {
        "none" => Ok(losses),
        "mean" => losses.mean(),
        "sum" => losses.sum(),
        other => Err(TorshError::invalid(
            op,
            format!("{other} is not a valid value for reduction"),
        )
        .with_hint("one of none, mean and sum")),
    }
}

/// The reduction of a call by name, the deprecated switches `size_average` and `reduce` included.
fn reduction(b: &Bound) -> &str {
    if b.is_none(2) && b.is_none(3) {
        return b.str(4);
    }
    let average = b.is_none(2) || b.bool(2);
    match b.is_none(3) || b.bool(3) {
        false => "none",
        true if average => "mean",
        true => "sum",
    }
}

fn calls(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let (x, y) = (s.real(&[2, 3])?, s.distinct(&[2, 3])?);
    Ok(vec![
        Sample::new([x.clone().into(), y.clone().into()]),
        Sample::new([x.clone().into(), y.clone().into()]).kw("reduction", "sum"),
        Sample::new([x.into(), y.into()]).kw("reduction", "none"),
    ])
}

const SCHEMA: &str = "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction=\"mean\", Tensor? weight=None)";

/// A weighted loss: each element's times its weight; the mean is over the weights' sum.
fn weighted(
    op: &'static str,
    b: &Bound,
    losses: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Value> {
    let (x, y) = (b.tensor(0)?, b.tensor(1)?);
    let losses = losses(x, y)?;
    let Some(w) = b.opt_tensor(5) else {
        return reduce(op, losses, reduction(b)).map(Value::Tensor);
    };
    if w.shape() != x.shape() {
        return Err(TorshError::shape(
            op,
            format!(
                "inputs and weights must have the same size, got {} and {}",
                x.describe(),
                w.describe()
            ),
        ));
    }
    let losses = losses.mul(w)?;
    Ok(Value::Tensor(match reduction(b) {
        "mean" => losses.sum()?.div(&w.sum()?)?,
        r => reduce(op, losses, r)?,
    }))
}

/// Mean squared error.
pub static MSE_LOSS: OpRecord = OpRecord::new(
    "nn.functional.mse_loss",
    "The squared differences of two tensors, their mean or sum.",
    SCHEMA,
)
.by_name(|b| weighted("mse_loss", b, squared))
.samples(calls);

/// Mean absolute error.
pub static L1_LOSS: OpRecord = OpRecord::new(
    "nn.functional.l1_loss",
    "The absolute differences of two tensors, their mean or sum.",
    SCHEMA,
)
.by_name(|b| weighted("l1_loss", b, absolute))
.samples(calls);

fn squared(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    call1(&parametric::mse_elementwise, &[Arg::T(x), Arg::T(y)], &[])
}

fn absolute(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.sub(y)?.abs()
}

impl Tensor {
    /// The mean of the squared differences (`torch.nn.functional.mse_loss`). The shapes broadcast.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.mse_loss_with(target, "mean")
    }

    /// [`Tensor::mse_loss`] with a reduction: `none`, `mean` or `sum`.
    #[track_caller]
    pub fn mse_loss_with(&self, target: &Tensor, reduction: &str) -> Result<Tensor> {
        reduce("mse_loss", squared(self, target)?, reduction)
    }

    /// The mean of the absolute differences (`torch.nn.functional.l1_loss`). The shapes broadcast.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.l1_loss_with(target, "mean")
    }

    /// [`Tensor::l1_loss`] with a reduction: `none`, `mean` or `sum`.
    #[track_caller]
    pub fn l1_loss_with(&self, target: &Tensor, reduction: &str) -> Result<Tensor> {
        reduce("l1_loss", absolute(self, target)?, reduction)
    }
}
