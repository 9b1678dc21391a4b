//! Sparse gradients and sparse parameters.
//!
//! A COO gradient names some rows of a strided parameter. Its step reads and writes these rows of the parameter and of the
//! state, and no others: [`Rows`] takes them out as small tensors and puts them back. Of a sparse parameter the stored values
//! are trained, as a strided tensor.

use torsh_core::attrs::NONE;
use torsh_tensor::call::Arg;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{DType, Result, Tensor, TensorLayout, TorshError};

use crate::memory::real;

/// A COO tensor in which no index comes twice: duplicates are added up.
pub(crate) fn coalesced(t: &Tensor) -> Result<Tensor> {
    match t.pattern() {
        Some(pattern) if pattern.is_coalesced() => Ok(t.detach()),
        _ => sparse::call1("coalesce", &[Arg::T(&t.detach())], NONE),
    }
}

/// The error of an optimizer that takes no COO gradients.
#[cold]
pub(crate) fn refused(optimizer: &'static str) -> TorshError {
    TorshError::invalid(
        optimizer,
        format!("{optimizer} takes no gradient of the layout torch.sparse_coo"),
    )
    .with_hint(
        "take SparseAdam, or SGD or Adagrad without weight decay, for this parameter; or make its gradient strided: \
         Embedding with sparse at false, or a hook of the parameter that calls to_dense()",
    )
}

/// An error where a weight decay would change more rows than a COO gradient names.
pub(crate) fn without_decay(optimizer: &'static str, weight_decay: f64) -> Result<()> {
    match weight_decay == 0.0 {
        true => Ok(()),
        false => Err(TorshError::invalid(
            optimizer,
            format!(
                "the weight_decay of {weight_decay} would change every row of a parameter, and its gradient of the layout \
                 torch.sparse_coo names some"
            ),
        )
        .with_hint("put such parameters into a group with a weight_decay of 0, or make their gradients strided")),
    }
}

/// Whether the gradient of a strided parameter is a COO tensor; an error where the step cannot take it.
pub(crate) fn is_coo(optimizer: &'static str, param: &Tensor, grad: &Tensor) -> Result<bool> {
    let layout = grad.layout();
    let wrong = |why: String| Err(TorshError::invalid(optimizer, why));
    match layout {
        TensorLayout::Strided => return Ok(false),
        TensorLayout::SparseCoo => {}
        _ => {
            let text = format!(
                "the gradient of {} has the layout {layout}, not torch.strided or torch.sparse_coo",
                param.describe()
            );
            return Err(TorshError::invalid(optimizer, text)
                .with_hint("a hook of the parameter can change it: to_sparse() or to_dense()"));
        }
    }
    if grad.shape() != param.shape()
        || grad.dtype() != param.dtype()
        || grad.device() != param.device()
    {
        let (param, grad) = (param.describe(), grad.describe());
        return wrong(format!("the parameter is {param}, its gradient {grad}"));
    }
    if !param.dtype().is_differentiable() {
        return wrong(format!("a parameter cannot be {}", param.describe()));
    }
    Ok(true)
}

/// The stored values of a sparse parameter, which are its memory; `None` for a strided one.
pub(crate) fn stored(param: &Tensor) -> Result<Option<Tensor>> {
    match param.layout() {
        TensorLayout::Strided => Ok(None),
        _ => sparse::values(&param.detach()).map(Some),
    }
}

/// The gradient of a sparse parameter at its stored elements.
pub(crate) fn at_stored(optimizer: &'static str, param: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let (param, grad) = (param.detach(), grad.detach());
    let same = match (param.pattern(), grad.pattern()) {
        (Some(own), Some(other)) => own.is_same(&other),
        _ => false,
    };
    let grad = match same {
        true => grad,
        false => {
            sparse::call1("sparse_mask", &[Arg::T(&grad), Arg::T(&param)], NONE).map_err(|e| {
                e.renamed(optimizer).with_hint(format!(
                    "the gradient of {} must be strided or of its own pattern",
                    param.describe()
                ))
            })?
        }
    };
    sparse::values(&grad)
}

/// The rows that a COO gradient names. A row is what one index into the sparse dimensions names; its shape is that of the
/// dense ones.
pub(crate) struct Rows {
    /// Their numbers, rising, if the sparse dimensions were one.
    pub(crate) index: Tensor,
    /// The gradient of each; pairs of real numbers for complex ones.
    pub(crate) grad: Tensor,
    sparse_dim: usize,
}

impl Rows {
    /// The rows of a gradient, whose duplicates are added up.
    pub(crate) fn of(grad: &Tensor) -> Result<Rows> {
        let grad = coalesced(grad)?;
        let Some(pattern) = grad.pattern() else {
            return Err(TorshError::invalid("coalesce", "gives no sparse tensor"));
        };
        let values = real(&sparse::values(&grad)?)?;
        Ok(Rows {
            index: linear(&pattern)?,
            grad: values,
            sparse_dim: pattern.sparse_dim(),
        })
    }

    /// The rows of a gradient that a step writes; `None` where there is none, or the parameter has no data.
    pub(crate) fn to_update(param: &Tensor, grad: &Tensor) -> Result<Option<Rows>> {
        match param.device().has_data() {
            true => Ok(Some(Rows::of(grad)?).filter(|rows| rows.len() > 0)),
            false => Ok(None),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.grad.dims().first().copied().unwrap_or(0)
    }

    /// The tensor as a list of rows, and whether that is a copy, which is to be written back.
    fn list(&self, t: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        let t = real(t)?;
        let (sparse, dense) = t.dims().split_at(self.sparse_dim.min(t.ndim()));
        let mut shape = vec![sparse.iter().product::<usize>()];
        if self.sparse_dim == 1 {
            return Ok((t, None));
        }
        shape.extend(dense);
        match t.view(shape.as_slice()) {
            Ok(list) => Ok((list, None)),
            Err(_) => Ok((t.contiguous()?.view(shape.as_slice())?, Some(t))),
        }
    }

    /// These rows of a tensor of the gradient's shape, as a copy.
    pub(crate) fn take(&self, t: &Tensor) -> Result<Tensor> {
        self.list(t)?.0.index_select(0, &self.index)
    }

    /// Writes these rows of a tensor of the gradient's shape.
    pub(crate) fn put(&self, t: &Tensor, rows: &Tensor) -> Result<()> {
        let (list, copied) = self.list(t)?;
        list.index_copy_(0, &self.index, rows)?;
        if let Some(own) = copied {
            own.copy_(&list.view(own.dims())?)?;
        }
        Ok(())
    }

    /// The gradient as a strided tensor of a parameter's shape.
    pub(crate) fn strided(&self, param: &Tensor) -> Result<Tensor> {
        let all = torsh_tensor::ops::optim::zeros_for(param)?;
        self.put(&all, &self.grad)?;
        Ok(all)
    }
}

/// The numbers of the rows that a pattern names, as if its sparse dimensions were one.
fn linear(pattern: &Pattern) -> Result<Tensor> {
    let (indices, dims) = (pattern.indices(), pattern.shape());
    let dims = &dims[..pattern.sparse_dim()];
    let Some((_, rest)) = dims.split_first() else {
        // One row, which is the whole tensor.
        return Tensor::zeros([pattern.nnz()], DType::I64, indices.device());
    };
    let mut rows = indices.select(0, 0)?;
    for (i, &size) in (1i64..).zip(rest) {
        rows = rows.mul(size as i64)?.add(&indices.select(0, i)?)?;
    }
    Ok(rows)
}

/// Two COO tensors of one shape as rows of the same indices: those of either, with zeros where one has none.
pub(crate) fn joined(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let (a, b) = (coalesced(a)?, coalesced(b)?);
    let (Some(pa), Some(pb)) = (a.pattern(), b.pattern()) else {
        return Err(TorshError::invalid("coalesce", "gives no sparse tensor"));
    };
    if pa.is_same(&pb) {
        return Ok((a, b));
    }
    let indices = Tensor::cat(&[pa.indices().clone(), pb.indices().clone()], 1)?;
    let pattern = Pattern::coo(&pa.shape()[..], &indices, false)?;
    let (va, vb) = (sparse::values(&a)?, sparse::values(&b)?);
    let part = |first: Tensor, second: Tensor| -> Result<Tensor> {
        let values = Tensor::cat(&[first, second], 0)?;
        coalesced(&sparse::from_values(&pattern, &values)?)
    };
    let first = part(va.clone(), vb.zeros_like()?)?;
    let second = part(va.zeros_like()?, vb)?;
    Ok((first, second))
}

/// A COO tensor with the pattern of another one and these values.
pub(crate) fn with_values(like: &Tensor, values: &Tensor) -> Result<Tensor> {
    match like.pattern() {
        Some(pattern) => sparse::from_values(&pattern, values),
        None => Err(TorshError::invalid("values", "the tensor is strided")),
    }
}

/// A copy of a sparse tensor with the dtype and on the device of another.
pub(crate) fn copied(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    let t = t.detach();
    let Some(pattern) = t.pattern() else {
        return t.copy();
    };
    let values = sparse::values(&t)?.copy()?;
    let values = values.to_dtype(like.dtype())?.to_device(like.device())?;
    let indices = pattern.indices().to_device(like.device())?;
    let pattern = Pattern::coo(&t.shape()[..], &indices, pattern.is_coalesced())?;
    sparse::from_values(&pattern, &values)
}
