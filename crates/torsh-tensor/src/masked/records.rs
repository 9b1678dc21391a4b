//! Records of the masked operations that are no rows of tables, and what the records of rows share.

use torsh_core::{Result, TorshError};

use super::normalize::{CUMPROD, CUMSUM, LOG_SOFTMAX, SOFTMAX, SOFTMIN};
use super::reduce::{AMAX, AMIN, ARGMAX, ARGMIN, LOGSUMEXP, MEAN, PROD, STD, SUM, VAR};
use super::*;
use crate::Value;
use crate::record::{OpRecord, Sample, sample};
use crate::sample::Sampler;
use crate::schema::Bound;

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SUM,
    &PROD,
    &AMAX,
    &AMIN,
    &MEAN,
    &LOGSUMEXP,
    &ARGMAX,
    &ARGMIN,
    &NORM,
    &MEDIAN,
    &VAR,
    &STD,
    &CUMSUM,
    &CUMPROD,
    &SOFTMAX,
    &LOG_SOFTMAX,
    &SOFTMIN,
    &NORMALIZE,
    &LOGADDEXP,
];

/// Dimensions, keepdim and dtype from parameter `i` on.
pub(super) fn options(b: &Bound, i: usize) -> MaskedOptions {
    MaskedOptions {
        dim: b.opt_ints(i),
        keepdim: !b.is_none(i + 1) && b.bool(i + 1),
        dtype: b.dtype(i + 2),
    }
}

pub(super) fn spread(b: &Bound) -> Result<MaskedVarOptions> {
    let correction = match (b.is_none(2), b.opt_float(3)) {
        (false, Some(_)) => {
            let text = "Only one of unbiased and correction may be given";
            return Err(TorshError::invalid("", text));
        }
        (_, Some(correction)) => correction,
        (false, None) if !b.bool(2) => 0.0,
        _ => 1.0,
    };
    Ok(MaskedVarOptions {
        dim: b.opt_ints(1),
        correction,
        keepdim: !b.is_none(4) && b.bool(4),
        dtype: b.dtype(5),
    })
}

/// The order of a norm: a number, or 2 for `None`.
fn order(b: &Bound, i: usize) -> Result<f64> {
    match b.value(i) {
        Value::None => Ok(2.0),
        v => v
            .number()
            .map(|n| n.to_f64())
            .ok_or_else(|| TorshError::invalid("", "the order of a norm is a number")),
    }
}

/// Calls with a mask that leaves some of each row, and without.
pub(super) fn calls(s: &mut Sampler, args: &[Value]) -> Result<Vec<Sample>> {
    let x = s.distinct(&[3, 4])?;
    let mask = crate::Tensor::from_data(&[true, true, false, true], [4])?;
    let call = || Sample::new([Value::from(&x)].into_iter().chain(args.iter().cloned()));
    Ok(vec![call(), call().kw("mask", &mask)])
}

/// Calls without a mask, for results that are infinite where an element does not count.
pub(super) fn unmasked(s: &mut Sampler, args: &[Value]) -> Result<Vec<Sample>> {
    Ok(calls(s, args)?.into_iter().take(1).collect())
}

pub static NORM: OpRecord = OpRecord::new("masked.norm", "The vector norm of the elements that a mask lets count.", "(Tensor input, Any ord=2.0, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| norm_with(b.tensor(0)?, order(b, 1)?, b.opt_tensor(5), options(b, 2)).map(Value::Tensor))
.samples(|s| calls(s, &[Value::Float(2.0)]));

#[torsh_tensor::by_name(median_with(input, dim, mask, MaskedOptions))]
pub static MEDIAN: OpRecord = OpRecord::new(
    "masked.median",
    "The median of the elements that a mask lets count.",
    "(Tensor input, int dim=-1, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None)",
)
.samples(|s| calls(s, &[Value::Int(1)]));

pub static NORMALIZE: OpRecord = OpRecord::new("masked.normalize", "The elements that a mask lets count divided by their norm.", "(Tensor input, Any ord, int dim, *, float eps=1e-12, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| normalize_with(b.tensor(0)?, order(b, 1)?, b.int(2), b.opt_tensor(5), MaskedNormalizeOptions { eps: b.float(3), dtype: b.dtype(4) }).map(Value::Tensor))
.samples(|s| calls(s, &[Value::Float(2.0), Value::Int(1)]));

#[torsh_tensor::by_name(logaddexp_with(input, other, input_mask, other_mask, MaskedOptions))]
pub static LOGADDEXP: OpRecord = OpRecord::new("masked.logaddexp", "logaddexp of two tensors with masks.", "(Tensor input, Tensor other, *, ScalarType? dtype=None, Tensor? input_mask=None, Tensor? other_mask=None)")
.samples(|s| Ok(vec![sample![s.real(&[3, 4])?, s.real(&[3, 4])?]]));
