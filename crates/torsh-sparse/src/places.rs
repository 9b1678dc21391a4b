//! Where the stored elements of a pattern are, and the values of a tensor at them.

use std::sync::Arc;

use torsh_core::{DType, TensorLayout};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::coalesce::coalesce;
use crate::compress::coordinates;
use crate::coords::Coords;
use crate::create::verified;
use crate::help::{index_tensor, positions, product, sizes};

/// The coordinates of the stored elements, or blocks.
pub(crate) struct Units(pub(crate) Coords);

/// The coordinates of all stored elements, those of blocks included.
pub(crate) struct Elements(pub(crate) Coords);

/// The row-major positions of all stored elements in the batch and sparse dimensions: int64 `[n]`.
struct Places(Tensor);

/// The coordinates as a tensor.
struct Rows(Tensor);

pub(crate) fn units(pattern: &Pattern) -> Result<Arc<Units>> {
    verified(pattern)?;
    pattern.cached(|| match pattern.layout() {
        TensorLayout::SparseCoo => Coords::read(pattern.indices()).map(Units),
        _ => coordinates(pattern).map(Units),
    })
}

pub(crate) fn elements(pattern: &Pattern) -> Result<Arc<Elements>> {
    pattern.cached(|| {
        let units = units(pattern)?;
        let Some([b0, b1]) = pattern.block() else {
            return Ok(Elements(units.0.clone()));
        };
        let spread = units.0.spread(b0).spread(b1);
        let (batch, n) = (pattern.batch_dim(), spread.n);
        let mut data = spread.select_rows(0..batch).data;
        for (d, b) in [b0, b1].into_iter().enumerate() {
            let (outer, inner) = (spread.row(batch + d), spread.row(batch + 2 + d));
            data.extend(outer.iter().zip(inner).map(|(o, i)| o * b as i64 + i));
        }
        let rows = batch + 2;
        Ok(Elements(Coords { rows, n, data }))
    })
}

/// The indices of the stored elements of a pattern as COO has them: int64 `[dims, n]` for all its batch and sparse
/// dimensions. Those of BSR and BSC count blocks.
pub(crate) fn row_indices(pattern: &Pattern) -> Result<Tensor> {
    if pattern.layout() == TensorLayout::SparseCoo {
        return Ok(pattern.indices().clone());
    }
    let device = pattern.indices().device();
    let rows = pattern.cached(|| units(pattern)?.0.tensor(device).map(Rows))?;
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
        let sizes = leading(pattern);
        let Some(linear) = elements(pattern)?.0.linear(sizes) else {
            return Err(TorshError::invalid(
                "",
                format!("a tensor of the sizes {sizes:?} has more elements than 64 bits count"),
            ));
        };
        let linear: Vec<i64> = linear.into_iter().map(|p| p as i64).collect();
        let n = linear.len();
        index_tensor(linear, &[n], DType::I64, pattern.indices().device()).map(Places)
    })?;
    Ok(made.0.clone())
}

/// How many elements a pattern stores, those of blocks and of all batches counted.
pub(crate) fn stored(pattern: &Pattern) -> usize {
    let shape = pattern.values_shape();
    let dense = pattern.dense_dim();
    shape.dims()[..shape.ndim() - dense].iter().product()
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
    let rows = sizes(&[product(leading(pattern))?], dense_sizes(pattern));
    strided
        .reshape(rows)?
        .index_select(0, &places(pattern)?)?
        .reshape(pattern.values_shape())
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
fn all_of(pattern: &Pattern, dense: usize) -> Result<Coords> {
    let coords = elements(pattern)?.0.clone();
    let of = dense_sizes(pattern);
    let spread = &of[..of.len() - dense];
    Ok(spread.iter().fold(coords, |c, &size| c.spread(size)))
}

/// The values, `unit` of each element of `have`, at the elements of `wanted`; 0 where it is not there.
fn found(
    values: &Tensor,
    unit: &[usize],
    have: &Coords,
    wanted: &Coords,
    of: &[usize],
) -> Result<Tensor> {
    let found = have.find(wanted, of);
    let missing = found.contains(&None);
    let at: Vec<usize> = found.iter().map(|f| f.unwrap_or(have.n)).collect();
    let mut values = values.reshape(sizes(&[have.n], unit))?;
    if missing {
        let zero = Tensor::zeros(sizes(&[1], unit), values.dtype(), values.device())?;
        values = Tensor::cat(&[values, zero], 0)?;
    }
    values.index_select(0, &positions(&at, values.device())?)
}
