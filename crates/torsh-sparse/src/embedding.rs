//! Gradients of tables of which few rows or elements were used.

use torsh_core::{DType, attrs};
use torsh_tensor::call::Outputs;
use torsh_tensor::sparse::{self, Pattern, SparseCall};
use torsh_tensor::{BincountOptions, Result, Tensor, TorshError};

use crate::grid::{self, range};
use crate::help::one;

/// The gradient of an embedding's weight as a COO tensor, not coalesced: an element for each use of a row, with the gradient of
/// the use. Operands are these gradients, `[.., width]`, and the indices; the padding row's uses are left out.
pub(crate) fn backward(call: &SparseCall<'_>) -> Result<Outputs> {
    let (g, indices) = (call.tensor(0)?, call.tensor(1)?);
    let a = call.attrs::<attrs::EmbeddingBackward>()?;
    rows(g, indices, a).map(one)
}

fn rows(g: &Tensor, indices: &Tensor, a: &attrs::EmbeddingBackward) -> Result<Tensor> {
    let g = crate::csr::strided(g)?;
    let (Some(&width), n) = (g.dims().last(), indices.numel()) else {
        return Err(TorshError::shape(
            "",
            "the gradient of an embedding has at least 1 dimension",
        ));
    };
    let mut index = indices.detach().reshape([n])?.to_dtype(DType::I64)?;
    let mut values = g.reshape([n, width])?;
    if a.scale_grad_by_freq {
        let counts = index.bincount_with(BincountOptions::new().minlength(a.num_weights as i64))?;
        let used = counts.index_select(0, &index)?.to_dtype(values.dtype())?;
        values = values.div(&used.unsqueeze(1)?)?;
    }
    if let Some(padding) = a.padding_idx.filter(|_| index.device().has_data()) {
        let kept = index.ne(padding as i64)?.nonzero()?.reshape([-1i64])?;
        if kept.numel() < n {
            index = index.index_select(0, &kept)?;
            values = values.index_select(0, &kept)?;
        }
    }
    // Memory of their own: the next indices may be written where these are.
    let index = index.unsqueeze(0)?.copy()?;
    let pattern = Pattern::coo(&[a.num_weights, width], &index, false)?;
    sparse::from_values(&pattern, &values)
}

/// The gradient of what `gather` reads as a COO tensor, not coalesced: an element for each one of the index, in its order.
/// Operands are the gradient of the result and the index.
pub(crate) fn gather_backward(call: &SparseCall<'_>) -> Result<Outputs> {
    let (g, index) = (call.tensor(0)?, call.tensor(1)?);
    elements(g, index, call.attrs::<attrs::GatherBackward>()?).map(one)
}

fn elements(g: &Tensor, index: &Tensor, a: &attrs::GatherBackward) -> Result<Tensor> {
    let values = crate::csr::strided(g)?;
    let n = index.numel();
    let index = match index.ndim() {
        0 => index.detach().reshape([1])?,
        _ => index.detach(),
    };
    // Where the elements are that were read, a row for each dimension.
    let mut rows = Vec::with_capacity(a.sizes.len());
    for d in 0..a.sizes.len() {
        // An index without elements may have any number of dimensions.
        let row = match d == a.dim || n == 0 {
            true => index.to_dtype(DType::I64)?,
            false => {
                let mut along = vec![1; index.ndim()];
                along[d] = index.dims()[d];
                range(along[d], &index)?
                    .reshape(&along[..])?
                    .expand(index.shape())?
            }
        };
        rows.push(row.reshape([1, n])?);
    }
    let indices = match rows.is_empty() {
        true => grid::zeros(&[0, n], &index)?,
        false => Tensor::cat(&rows, 0)?,
    };
    // One element is in order, also that of a tensor without dimensions.
    grid::coo(&a.sizes, &indices, &values.reshape([n])?, n < 2)
}
