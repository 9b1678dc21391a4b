//! Where the stored elements of a pattern are, and the values of a tensor at them.

use std::sync::Arc;

use torsh_core::{DType, Shape, TensorLayout};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, is_grad_enabled};

use crate::coalesce::coalesce;
use crate::coords::{coordinates, found_anywhere, linear, local, of_blocks, spread};
use crate::help::{product, sizes};
use crate::invariants::{extent, parts, verified};

/// The coordinates of the stored elements, or blocks: a list on the CPU.
pub(crate) struct Units(pub(crate) Tensor);

/// The coordinates of all stored elements, those of blocks included: a list on the CPU.
pub(crate) struct Elements(pub(crate) Tensor);

/// The row-major positions of all stored elements in the batch and sparse dimensions: int64 `[n]`.
struct Places(Tensor);

/// The coordinates on the pattern's device.
struct Rows(Tensor);

pub(crate) fn units(pattern: &Pattern) -> Result<Arc<Units>> {
    verified(pattern)?;
    pattern.cached(|| match pattern.layout() {
        TensorLayout::SparseCoo => local(pattern.indices()).map(Units),
        layout => {
            let ([compressed, plain], [entries, lines, _]) = (parts(pattern)?, extent(pattern)?);
            let batch = &pattern.shape().dims()[..pattern.batch_dim()];
            let (compressed, plain) = (local(compressed)?, local(plain)?);
            let (here, of) = ([&compressed, &plain], sizes(batch, &[lines]));
            coordinates(here, entries, &of, layout.by_rows()).map(Units)
        }
    })
}

pub(crate) fn elements(pattern: &Pattern) -> Result<Arc<Elements>> {
    pattern.cached(|| {
        let units = units(pattern)?;
        match pattern.block() {
            Some(block) => of_blocks(&units.0, block).map(Elements),
            None => Ok(Elements(units.0.clone())),
        }
    })
}

/// The indices of the stored elements of a pattern as COO has them: int64 `[dims, n]` for all its batch and sparse
/// dimensions. Those of BSR and BSC count blocks.
pub(crate) fn row_indices(pattern: &Pattern) -> Result<Tensor> {
    if pattern.layout() == TensorLayout::SparseCoo {
        return Ok(pattern.indices().clone());
    }
    let device = pattern.indices().device();
    let rows = pattern.cached(|| match device.has_data() {
        true => units(pattern)?.0.to_device(device).map(Rows),
        false => {
            let of = [leading(pattern).len(), pattern.indices().numel()];
            Tensor::zeros(of, DType::I64, device).map(Rows)
        }
    })?;
    Ok(rows.0.clone())
}

/// The sizes of the batch and sparse dimensions.
pub(crate) fn leading(pattern: &Pattern) -> &[usize] {
    &pattern.shape().dims()[..pattern.batch_dim() + pattern.sparse_dim()]
}

/// The sizes of the dense dimensions.
pub(crate) fn dense_sizes(pattern: &Pattern) -> &[usize] {
    &pattern.shape().dims()[pattern.batch_dim() + pattern.sparse_dim()..]
}

/// The row-major positions of the stored elements in the batch and sparse dimensions together: int64 `[n]`, where `n` is the
/// number of stored elements of all batches, and of all elements of blocks.
///
/// # Errors
/// Where 64 bits do not hold a position.
pub(crate) fn places(pattern: &Pattern) -> Result<Tensor> {
    let made = pattern.cached(|| {
        let at = linear(&elements(pattern)?.0, leading(pattern))?;
        at.to_device(pattern.indices().device()).map(Places)
    })?;
    Ok(made.0.clone())
}

/// How many elements a pattern stores, those of blocks and of all batches counted.
pub(crate) fn stored(pattern: &Pattern) -> usize {
    let shape = pattern.values_shape();
    let dense = pattern.dense_dim();
    Shape::new(&shape.dims()[..shape.ndim() - dense]).numel()
}

/// The values of a strided tensor of the pattern's shape at its elements, of the shape `pattern.values_shape()`. Recorded.
pub(crate) fn mask(strided: &Tensor, pattern: &Pattern) -> Result<Tensor> {
    if strided.shape() != pattern.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "expected a tensor of the pattern's shape {}, got {}",
                pattern.shape(),
                strided.shape()
            ),
        ));
    }
    if !strided.device().has_data() {
        return Tensor::zeros(pattern.values_shape(), strided.dtype(), strided.device());
    }
    if let Some(number) = everywhere(strided)? {
        // Memory of its own, in which each element has a place.
        return number.expand(pattern.values_shape())?.copy();
    }
    let rows = sizes(&[product(leading(pattern))?], dense_sizes(pattern));
    strided
        .reshape(rows)?
        .index_select(0, &places(pattern)?)?
        .reshape(pattern.values_shape())
}

/// The number that all elements of a strided tensor are by its strides, as those of the gradient of a sum are: a shape of
/// more elements than 64 bits count may have one. Nothing where that would have to be recorded.
fn everywhere(strided: &Tensor) -> Result<Option<Tensor>> {
    let recorded = is_grad_enabled() && strided.requires_grad();
    let alike = strided.stride().iter().all(|&step| step == 0);
    if recorded || !alike || strided.ndim() == 0 || strided.numel() == 0 {
        return Ok(None);
    }
    let mut one = strided.detach();
    while one.ndim() > 0 {
        one = one.select(0, 0)?;
    }
    Ok(Some(one))
}

/// The values of a tensor of any layout at the elements of a pattern of its shape; 0 where a sparse tensor does not store
/// one. Recorded.
pub(crate) fn at_pattern(x: &Tensor, pattern: &Pattern) -> Result<Tensor> {
    let Some(have) = x.pattern() else {
        return mask(x, pattern);
    };
    if have.shape() != pattern.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "expected a tensor of the pattern's shape {}, got {}",
                pattern.shape(),
                have.shape()
            ),
        ));
    }
    if have.is_same(pattern) && have.is_coalesced() {
        return sparse::values(x);
    }
    if !x.device().has_data() {
        return Tensor::zeros(pattern.values_shape(), x.dtype(), x.device());
    }
    let x = match have.layout() {
        TensorLayout::SparseCoo => coalesce(x)?,
        _ => x.clone(),
    };
    let Some(have) = x.pattern() else {
        unreachable!("coalescing keeps the layout")
    };
    let values = sparse::values(&x)?;
    let whole = pattern.values_shape();
    if have.dense_dim() == pattern.dense_dim() && have.block() == pattern.block() {
        // Element by element, or block by block.
        let (a, b) = (units(&have)?, units(pattern)?);
        let [b0, b1] = pattern.block().unwrap_or([1, 1]);
        let mut sizes = leading(pattern).to_vec();
        let n = sizes.len();
        if pattern.block().is_some() {
            (sizes[n - 2], sizes[n - 1]) = (sizes[n - 2] / b0, sizes[n - 1] / b1);
        }
        let at = whole.dims().len() - pattern.batch_dim() - 1;
        let unit = &whole.dims()[whole.ndim() - at..];
        return found(&values, unit, &a.0, &b.0, &sizes)?.reshape(whole);
    }
    let dense = have.dense_dim().min(pattern.dense_dim());
    let shape = pattern.shape().dims();
    let (lead, unit) = shape.split_at(shape.len() - dense);
    let (a, b) = (all_of(&have, dense)?, all_of(pattern, dense)?);
    found(&values, unit, &a, &b, lead)?.reshape(whole)
}

/// The coordinates of all stored elements, with all but the last `dense` dimensions.
fn all_of(pattern: &Pattern, dense: usize) -> Result<Tensor> {
    let list = elements(pattern)?.0.clone();
    let of = dense_sizes(pattern);
    of[..of.len() - dense]
        .iter()
        .try_fold(list, |list, &size| spread(&list, size))
}

/// The values, `unit` of each element of `have`, at the elements of `wanted`; 0 where it is not there.
fn found(
    values: &Tensor,
    unit: &[usize],
    have: &Tensor,
    wanted: &Tensor,
    of: &[usize],
) -> Result<Tensor> {
    let n = have.dims()[1];
    let mut at = found_anywhere(have, wanted, of)?;
    let missing = at.lt(0)?;
    let mut values = values.reshape(sizes(&[n], unit))?;
    if missing.any()?.item::<bool>()? {
        at = at.masked_fill(&missing, n as i64)?;
        let zero = Tensor::zeros(sizes(&[1], unit), values.dtype(), values.device())?;
        values = Tensor::cat(&[values, zero], 0)?;
    }
    values.index_select(0, &at.to_device(values.device())?)
}
