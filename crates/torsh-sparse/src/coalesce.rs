//! `coalesce`: the elements of a COO tensor in order, each once.

use std::sync::Arc;

use smallvec::SmallVec;
use torsh_core::TensorLayout;
use torsh_core::attrs::NONE;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, Value, no_grad};

use crate::coords::Coords;
use crate::create::verified;
use crate::help::{added, first, named, one, positions, sizes};

pub(crate) static RECORDS: &[&OpRecord] = &[&COALESCE];

/// How the stored elements of a COO pattern go together.
pub(crate) struct Groups {
    /// The pattern with each element once, in order.
    pub(crate) pattern: Pattern,
    /// Which of its elements each stored one belongs to: int64 `[nnz]`.
    pub(crate) place: Tensor,
    /// The first stored one of each of its elements: int64 `[n]`.
    pub(crate) first: Tensor,
    /// Whether an element is stored twice.
    pub(crate) repeated: bool,
}

/// The groups of a COO pattern, which are kept with it.
pub(crate) fn groups(pattern: &Pattern) -> Result<Arc<Groups>> {
    verified(pattern)?;
    pattern.cached(|| group(pattern))
}

fn group(pattern: &Pattern) -> Result<Groups> {
    let coords = Coords::read(pattern.indices())?;
    let shape = pattern.shape().dims();
    let order = coords.order(&shape[..pattern.sparse_dim()]);
    let (mut place, mut firsts) = (vec![0usize; coords.n], Vec::with_capacity(coords.n));
    for (k, &i) in order.iter().enumerate() {
        if k == 0 || coords.compare(order[k - 1], &coords, i).is_ne() {
            firsts.push(i);
        }
        place[i] = firsts.len() - 1;
    }
    let device = pattern.indices().device();
    let indices = coords.select(&firsts).tensor(device)?;
    Ok(Groups {
        pattern: Pattern::coo(shape, &indices, true)?,
        place: positions(&place, device)?,
        first: positions(&firsts, device)?,
        repeated: firsts.len() < coords.n,
    })
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
        let values = match groups.repeated {
            false => values.index_select(0, &groups.first)?,
            true => {
                let n = groups.pattern.nnz();
                let of = sizes(&[n], &values.dims()[1..]);
                let zeros = Tensor::zeros(of, values.dtype(), values.device())?;
                added(&zeros, &groups.place, &values)?
            }
        };
        sparse::from_values(&groups.pattern, &values)
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
    sparse::from_values(&groups.pattern, &values.index_select(0, &groups.first)?)
}

/// The pattern of a COO tensor.
pub(crate) fn coo_pattern(x: &Tensor, what: &str) -> Result<Pattern> {
    match x.pattern() {
        Some(p) if p.layout() == TensorLayout::SparseCoo => Ok(p),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "{what} expected sparse coordinate tensor layout but got {}",
                named(x.layout())
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
