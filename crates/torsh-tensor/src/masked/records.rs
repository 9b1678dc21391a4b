//! Records of the masked operations.

use torsh_core::{Result, TorshError};

use super::*;
use crate::record::{OpRecord, Sample};
use crate::sample::Sampler;
use crate::schema::Bound;
use crate::{CumsumOptions, SoftmaxOptions, Value};

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
fn options(b: &Bound, i: usize) -> MaskedOptions {
    MaskedOptions {
        dim: b.opt_ints(i),
        keepdim: !b.is_none(i + 1) && b.bool(i + 1),
        dtype: b.dtype(i + 2),
    }
}

fn spread(b: &Bound) -> Result<MaskedVarOptions> {
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
fn calls(s: &mut Sampler, args: &[Value]) -> Result<Vec<Sample>> {
    let x = s.distinct(&[3, 4])?;
    let mask = crate::Tensor::from_data(&[true, true, false, true], [4])?;
    let call = || Sample::new([Value::from(&x)].into_iter().chain(args.iter().cloned()));
    Ok(vec![call(), call().kw("mask", &mask)])
}

/// `torch.masked.sum`.
pub static SUM: OpRecord = OpRecord::new("masked.sum", "sum of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| sum_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.prod`.
pub static PROD: OpRecord = OpRecord::new("masked.prod", "prod of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| prod_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.amax`.
pub static AMAX: OpRecord = OpRecord::new("masked.amax", "amax of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| amax_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.amin`.
pub static AMIN: OpRecord = OpRecord::new("masked.amin", "amin of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| amin_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.mean`.
pub static MEAN: OpRecord = OpRecord::new("masked.mean", "mean of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| mean_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.logsumexp`.
pub static LOGSUMEXP: OpRecord = OpRecord::new("masked.logsumexp", "logsumexp of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| logsumexp_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.argmax`.
pub static ARGMAX: OpRecord = OpRecord::new("masked.argmax", "argmax of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.constant()
.by_name(|b| argmax_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor));

/// `torch.masked.argmin`.
pub static ARGMIN: OpRecord = OpRecord::new("masked.argmin", "argmin of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.constant()
.by_name(|b| argmin_with(b.tensor(0)?, b.opt_tensor(4), options(b, 1)).map(Value::Tensor));

/// `torch.masked.norm`.
pub static NORM: OpRecord = OpRecord::new("masked.norm", "The vector norm of the elements that a mask lets count.", "(Tensor input, Any ord=2.0, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| norm_with(b.tensor(0)?, order(b, 1)?, b.opt_tensor(5), options(b, 2)).map(Value::Tensor))
.samples(|s| calls(s, &[Value::Float(2.0)]));

/// `torch.masked.median`.
pub static MEDIAN: OpRecord = OpRecord::new(
    "masked.median",
    "The median of the elements that a mask lets count.",
    "(Tensor input, int dim=-1, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    median_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(4),
        MaskedOptions {
            dim: None,
            keepdim: b.bool(2),
            dtype: b.dtype(3),
        },
    )
    .map(Value::Tensor)
})
.samples(|s| calls(s, &[Value::Int(1)]));

/// `torch.masked.var`.
pub static VAR: OpRecord = OpRecord::new("masked.var", "var of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| var_with(b.tensor(0)?, b.opt_tensor(6), spread(b)?).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.std`.
pub static STD: OpRecord = OpRecord::new("masked.std", "std of the elements that a mask lets count.", "(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| std_with(b.tensor(0)?, b.opt_tensor(6), spread(b)?).map(Value::Tensor))
.samples(|s| calls(s, &[]));

/// `torch.masked.cumsum`.
pub static CUMSUM: OpRecord = OpRecord::new(
    "masked.cumsum",
    "cumsum of the elements that a mask lets count.",
    "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    cumsum_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(3),
        CumsumOptions::new().dtype(b.dtype(2)),
    )
    .map(Value::Tensor)
})
.samples(|s| calls(s, &[Value::Int(1)]));

/// `torch.masked.cumprod`.
pub static CUMPROD: OpRecord = OpRecord::new(
    "masked.cumprod",
    "cumprod of the elements that a mask lets count.",
    "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    cumprod_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(3),
        CumsumOptions::new().dtype(b.dtype(2)),
    )
    .map(Value::Tensor)
})
.samples(|s| calls(s, &[Value::Int(1)]));

/// `torch.masked.softmax`.
pub static SOFTMAX: OpRecord = OpRecord::new(
    "masked.softmax",
    "softmax of the elements that a mask lets count.",
    "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    softmax_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(3),
        SoftmaxOptions::new().dtype(b.dtype(2)),
    )
    .map(Value::Tensor)
})
.samples(|s| calls(s, &[Value::Int(1)]));

/// `torch.masked.log_softmax`.
pub static LOG_SOFTMAX: OpRecord = OpRecord::new(
    "masked.log_softmax",
    "log_softmax of the elements that a mask lets count.",
    "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    log_softmax_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(3),
        SoftmaxOptions::new().dtype(b.dtype(2)),
    )
    .map(Value::Tensor)
})
.samples(|s| Ok(vec![Sample::new([s.real(&[3, 4])?.into(), Value::Int(1)])]));

/// `torch.masked.softmin`.
pub static SOFTMIN: OpRecord = OpRecord::new(
    "masked.softmin",
    "softmin of the elements that a mask lets count.",
    "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
)
.by_name(|b| {
    softmin_with(
        b.tensor(0)?,
        b.int(1),
        b.opt_tensor(3),
        SoftmaxOptions::new().dtype(b.dtype(2)),
    )
    .map(Value::Tensor)
})
.samples(|s| calls(s, &[Value::Int(1)]));

/// `torch.masked.normalize`.
pub static NORMALIZE: OpRecord = OpRecord::new("masked.normalize", "The elements that a mask lets count divided by their norm.", "(Tensor input, Any ord, int dim, *, float eps=1e-12, ScalarType? dtype=None, Tensor? mask=None)")
.by_name(|b| normalize_with(b.tensor(0)?, order(b, 1)?, b.int(2), b.opt_tensor(5), MaskedNormalizeOptions { eps: b.float(3), dtype: b.dtype(4) }).map(Value::Tensor))
.samples(|s| calls(s, &[Value::Float(2.0), Value::Int(1)]));

/// `torch.masked.logaddexp`.
pub static LOGADDEXP: OpRecord = OpRecord::new("masked.logaddexp", "logaddexp of two tensors with masks.", "(Tensor input, Tensor other, *, ScalarType? dtype=None, Tensor? input_mask=None, Tensor? other_mask=None)")
.by_name(|b| logaddexp_with(b.tensor(0)?, b.tensor(1)?, b.opt_tensor(3), b.opt_tensor(4), MaskedOptions { dim: None, keepdim: false, dtype: b.dtype(2) }).map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.real(&[3, 4])?.into(), s.real(&[3, 4])?.into()])]));
