//! `coalesce`: the elements of a COO tensor in order, each once.

use std::sync::Arc;

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::{Device, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, Value, no_grad};

use crate::coords::{Sorted, local, run_sums, sorted};
use crate::help::{added, first, one, sizes};
use crate::invariants::{known, verified};

pub(crate) static RECORDS: &[&OpRecord] = &[&COALESCE];

/// How the stored elements of a COO pattern go together.
pub(crate) struct Groups {
    /// The pattern with each element once, in order.
    pub(crate) pattern: Pattern,
    /// The order of the stored ones, on the CPU.
    sorted: Sorted,
}

/// The groups of a COO pattern, which are kept with it.
pub(crate) fn groups(pattern: &Pattern) -> Result<Arc<Groups>> {
    verified(pattern)?;
    pattern.cached_pattern(|| group(pattern), |g| &g.pattern)
}

fn group(pattern: &Pattern) -> Result<Groups> {
    let list = local(pattern.indices())?;
    let shape = pattern.shape().dims();
    let sorted = sorted(&list, &shape[..pattern.sparse_dim()])?;
    let device = pattern.indices().device();
    let indices = sorted.distinct(&list)?.to_device(device)?;
    Ok(Groups {
        pattern: known(Pattern::coo(shape, &indices, true)?)?,
        sorted,
    })
}

impl Groups {
    /// The first stored one of each element of the pattern: int64 `[n]`.
    fn first(&self) -> Result<Tensor> {
        let device = self.pattern.indices().device();
        self.sorted.firsts()?.to_device(device)
    }

    /// The sums of stored values of the elements of the pattern; not recorded.
    fn sums(&self, values: &Tensor) -> Result<Tensor> {
        if !self.sorted.repeats() {
            return values.index_select(0, &self.first()?);
        }
        let device = values.device();
        if device == Device::Cpu {
            return run_sums(values, &self.sorted);
        }
        let values = values.index_select(0, &self.sorted.order.to_device(device)?)?;
        let of = sizes(&[self.sorted.runs], &values.dims()[1..]);
        let zeros = Tensor::zeros(of, values.dtype(), device)?;
        let run = self.sorted.run_of_each()?.to_device(device)?;
        added(&zeros, &run, &values)
    }
}

/// The pattern with each element once.
pub(crate) fn coalesced_pattern(pattern: &Pattern) -> Result<Pattern> {
    match pattern.is_coalesced() || !pattern.indices().device().has_data() {
        true => Ok(pattern.with_coalesced(true)),
        false => Ok(groups(pattern)?.pattern.clone()),
    }
}

/// A COO tensor with its elements in order, each once: the tensor itself where it is so. Recorded; its gradient passes
/// unchanged.
pub(crate) fn coalesce(x: &Tensor) -> Result<Tensor> {
    let pattern = coo_pattern(x, "coalesce")?;
    if pattern.is_coalesced() {
        return Ok(x.clone());
    }
    let out = no_grad(|| {
        let values = sparse::values(x)?;
        if !x.device().has_data() {
            return sparse::from_values(&pattern.with_coalesced(true), &values);
        }
        let groups = groups(&pattern)?;
        sparse::from_values(&groups.pattern, &groups.sums(&values)?)
    })?;
    first(COALESCE.recorded(&[Arg::T(x)], NONE, one(out))?)
}

/// The gradient of a sparse tensor from that of its stored values, where an element may be stored twice: all its copies
/// have the gradient of the element.
pub(crate) fn of_stored(values: &Tensor, pattern: &Pattern) -> Result<Tensor> {
    if pattern.is_coalesced() || !pattern.indices().device().has_data() {
        return sparse::from_values(&pattern.with_coalesced(true), values);
    }
    let groups = groups(pattern)?;
    sparse::from_values(&groups.pattern, &values.index_select(0, &groups.first()?)?)
}

/// The pattern of a COO tensor.
pub(crate) fn coo_pattern(x: &Tensor, what: &str) -> Result<Pattern> {
    match x.pattern() {
        Some(p) if p.layout() == TensorLayout::SparseCoo => Ok(p),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "{what} expected sparse coordinate tensor layout but got {}",
                x.layout().enum_name()
            ),
        )),
    }
}

static COALESCE: OpRecord = OpRecord::new(
    "coalesce",
    "A COO tensor with its indices in order, each once, and the values of equal indices added up.",
    "(Tensor input)",
)
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.g().clone())])))
.by_name(|b| coalesce(b.tensor(0)?).map(Value::Tensor))
.samples(|s| {
    let indices = Tensor::from_data(&[1i64, 0, 1, 2, 0, 2], [2, 3])?;
    let x = crate::coo(&indices, &s.real(&[3])?, [3, 3])?;
    Ok(vec![sample![x]])
});
