//! Parts of sparse tensors: one index of a dimension, a range, listed ones, a triangle. The gradient of the tensor has all of its
//! stored elements, zeros where they are not in the part.

use torsh_core::attrs::{IndexGet, IndexSelect, Triangle};
use torsh_core::{DType, TensorLayout};
use torsh_tensor::attrs::{Select, Slice};
use torsh_tensor::call::Outputs;
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{Result, SearchsortedOptions, SortOptions, Tensor, TorshError, no_grad};

use crate::convert;
use crate::grid::{self, linear, pattern, settled};
use crate::help::one;
use crate::shape::{dense_dim, first_dense};

/// What ops that take a part of a tensor do with sparse operands.
pub static SELECT: &[SparseRule] = &[
    SparseRule {
        op: "select",
        call: select,
    },
    SparseRule {
        op: "slice",
        call: slice,
    },
    SparseRule {
        op: "index_select",
        call: index_select,
    },
    SparseRule {
        op: "index",
        call: index,
    },
    SparseRule {
        op: "tril",
        call: triangle,
    },
    SparseRule {
        op: "triu",
        call: triangle,
    },
];

/// The kinds of dimensions that parts are taken along.
enum Along {
    Sparse,
    /// A compressed tensor's rows or columns.
    Matrix,
    /// A dimension of the values, and of the index tensors where they have it too.
    Batch,
    /// A dimension of the values.
    Dense(usize),
}

fn along(p: &Pattern, dim: usize) -> Along {
    match p.layout() {
        _ if dim >= first_dense(p) => Along::Dense(dense_dim(p, dim)),
        TensorLayout::SparseCoo => Along::Sparse,
        _ if dim < p.batch_dim() => Along::Batch,
        _ => Along::Matrix,
    }
}

/// A compressed tensor of which index tensors and values are changed.
fn rebuilt(
    p: &Pattern,
    shape: &[usize],
    values: &Tensor,
    of_indices: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (Some(compressed), Some(plain)) = (p.compressed_indices(), p.plain_indices()) else {
        return Err(TorshError::invalid("", "a compressed pattern is needed"));
    };
    let dense = values.ndim() - plain_dims(p, &of_indices(plain)?);
    let to = Pattern::compressed(
        p.layout(),
        shape,
        &of_indices(compressed)?,
        &of_indices(plain)?,
        p.block(),
        dense,
    )?;
    sparse::from_values(&to, values)
}

/// How many dimensions the values have before the dense ones.
fn plain_dims(p: &Pattern, plain: &Tensor) -> usize {
    plain.ndim() + if p.block().is_some() { 2 } else { 0 }
}

fn without(shape: &[usize], dim: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape.remove(dim);
    shape
}

/// Some of the columns of indices, or none where the pattern has other rows.
fn columns(p: &Pattern, there: &Tensor, skip: Option<usize>) -> Result<Tensor> {
    let indices = p.indices().index_select(1, there)?;
    let Some(dim) = skip else {
        return Ok(indices);
    };
    let k = p.sparse_dim();
    let (above, below) = (
        indices.narrow(0, 0, dim)?,
        indices.narrow(0, dim + 1, k - dim - 1)?,
    );
    Tensor::cat(&[above, below], 0)
}

fn select(c: &SparseCall<'_>) -> Result<Outputs> {
    let &Select { dim, index } = c.attrs()?;
    selected(c.tensor(0)?, dim, index, false).map(one)
}

fn selected(x: &Tensor, dim: usize, index: usize, sorted: bool) -> Result<Tensor> {
    let p = pattern(x)?;
    let shape = without(x.dims(), dim);
    match along(&p, dim) {
        Along::Matrix => selected(&settled(&convert::to_coo(x)?)?, dim, index, true),
        Along::Batch => {
            let v = sparse::values(x)?.select(dim, index)?;
            rebuilt(&p, &shape, &v, |t| t.select(dim, index)?.contiguous())
        }
        Along::Dense(d) => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let v = sparse::values(&x)?.select(d, index)?;
            match p.layout() {
                TensorLayout::SparseCoo => grid::coo(&shape, p.indices(), &v.copy()?, sorted),
                _ => rebuilt(&p, &shape, &v, |t| Ok(t.clone())),
            }
        }
        Along::Sparse => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let there = grid::positions(&p.indices().select(0, dim)?.eq(index as i64)?)?;
            let v = sparse::values(&x)?.index_select(0, &there)?;
            if p.sparse_dim() == 1 {
                let any = v.dtype() == DType::Bool;
                return match any {
                    true => v.any_dim(0, false),
                    false => v.sum_dim(0, false)?.to_dtype(x.dtype()),
                };
            }
            grid::coo(&shape, &columns(&p, &there, Some(dim))?, &v, sorted)
        }
    }
}

fn slice(c: &SparseCall<'_>) -> Result<Outputs> {
    sliced(c.tensor(0)?, c.attrs()?).map(one)
}

fn sliced(x: &Tensor, part: &Slice) -> Result<Tensor> {
    let &Slice {
        dim,
        start,
        length,
        step,
    } = part;
    let p = pattern(x)?;
    let mut shape = x.dims().to_vec();
    shape[dim] = length;
    let end = (start + length.saturating_sub(1) * step + usize::from(length > 0)) as i64;
    let cut =
        |t: &Tensor, d: usize| t.slice_step(d as i64, Some(start as i64), Some(end), step as i64);
    match along(&p, dim) {
        Along::Matrix => {
            let coo = sliced(&settled(&convert::to_coo(x)?)?, part)?;
            grid::back(coo, &p)
        }
        Along::Batch => {
            let v = cut(&sparse::values(x)?, dim)?;
            rebuilt(&p, &shape, &v, |t| cut(t, dim)?.contiguous())
        }
        Along::Dense(d) => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let v = cut(&sparse::values(&x)?, d)?;
            match p.layout() {
                TensorLayout::SparseCoo => {
                    grid::coo(&shape, p.indices(), &v.copy()?, p.is_coalesced())
                }
                _ => rebuilt(&p, &shape, &v, |t| Ok(t.clone())),
            }
        }
        Along::Sparse => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let row = p.indices().select(0, dim)?;
            let mut within = row
                .ge(start as i64)?
                .logical_and(&row.lt(end.max(start as i64))?)?;
            if step > 1 {
                let on = row.sub(start as i64)?.remainder(step as i64)?.eq(0)?;
                within = within.logical_and(&on)?;
            }
            let there = grid::positions(&within)?;
            let row = row.index_select(0, &there)?.sub(start as i64)?;
            let row = match step {
                1 => row,
                _ => row.floor_divide(step as i64)?,
            };
            let indices = with_row(&columns(&p, &there, None)?, dim, &row)?;
            let v = sparse::values(&x)?.index_select(0, &there)?;
            grid::coo(&shape, &indices, &v, p.is_coalesced())
        }
    }
}

/// Indices with another row `dim`.
fn with_row(indices: &Tensor, dim: usize, row: &Tensor) -> Result<Tensor> {
    let k = indices.dims()[0];
    let (above, below) = (
        indices.narrow(0, 0, dim)?,
        indices.narrow(0, dim + 1, k - dim - 1)?,
    );
    Tensor::cat(&[above, row.unsqueeze(0)?, below], 0)
}

fn index_select(c: &SparseCall<'_>) -> Result<Outputs> {
    let dim = c.attrs::<IndexSelect>()?.dim;
    let (x, index) = (c.tensor(0)?, c.tensor(1)?);
    if grid::is_sparse(index) {
        return Err(c.refuse("the index must be a strided tensor"));
    }
    if index.ndim() > 1 || !matches!(index.dtype(), DType::I64 | DType::I32) {
        return Err(TorshError::index(
            "",
            format!(
                "index must be a vector of int64 or int32, got {}",
                index.describe()
            ),
        ));
    }
    let index = index.reshape([index.numel()])?.to_dtype(DType::I64)?;
    let n = x.dims().get(dim).copied().unwrap_or(1);
    check_bounds(&index, n, dim, x)?;
    listed(x, dim, &index).map(one)
}

fn check_bounds(index: &Tensor, n: usize, dim: usize, x: &Tensor) -> Result<()> {
    if !index.device().has_data() {
        return Ok(());
    }
    let all = index.to_vec::<i64>()?;
    match all.iter().find(|&&i| i < 0 || i >= n as i64) {
        Some(i) => Err(TorshError::index(
            "",
            format!(
                "index contains {i} that is out of range for tensor of size {} at dimension {dim}",
                x.shape()
            ),
        )),
        None => Ok(()),
    }
}

fn listed(x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let p = pattern(x)?;
    let mut shape = x.dims().to_vec();
    let Some(size) = shape.get_mut(dim) else {
        return Err(TorshError::index(
            "",
            "index_select() cannot be applied to a 0-dim tensor.",
        ));
    };
    *size = index.numel();
    match along(&p, dim) {
        Along::Matrix => {
            let coo = listed(&settled(&convert::to_coo(x)?)?, dim, index)?;
            grid::back(coo, &p)
        }
        Along::Batch => {
            let v = sparse::values(x)?.index_select(dim, index)?;
            rebuilt(&p, &shape, &v, |t| t.index_select(dim, index))
        }
        Along::Dense(d) => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let v = sparse::values(&x)?.index_select(d, index)?;
            match p.layout() {
                TensorLayout::SparseCoo => grid::coo(&shape, p.indices(), &v, false),
                _ => rebuilt(&p, &shape, &v, |t| Ok(t.clone())),
            }
        }
        Along::Sparse => {
            let x = linear(x)?;
            let p = pattern(&x)?;
            let (from, to) = no_grad(|| found(&p.indices().select(0, dim)?, index))?;
            let indices = with_row(&columns(&p, &from, None)?, dim, &to)?;
            let v = sparse::values(&x)?.index_select(0, &from)?;
            grid::coo(&shape, &indices, &v, false)
        }
    }
}

/// The elements that an index selects by their coordinates `row`, once for each time that it names one, and the places in the
/// index.
fn found(row: &Tensor, index: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sorted, order) = row.sort_with(SortOptions::default().dim(0).stable(true))?;
    let first = sorted.searchsorted(index)?;
    let behind = sorted.searchsorted_with(index, SearchsortedOptions::new().right(true))?;
    let counts = behind.sub(&first)?;
    let to = grid::range(index.numel(), row)?.repeat_interleave(&counts, None)?;
    // The place of each among those of its own index.
    let before = counts.cumsum(0)?.sub(&counts)?;
    let place = grid::range(to.numel(), row)?.sub(&before.index_select(0, &to)?)?;
    let at = place.add(&first.index_select(0, &to)?)?;
    Ok((order.index_select(0, &at)?, to))
}

/// Index tensors and masks: along one dimension.
fn index(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<IndexGet>()?;
    let x = c.tensor(0)?;
    let one_index = match (&a.dims[..], c.args.len()) {
        (&[dim], 2) => c
            .opt(1)
            .filter(|t| t.ndim() == 1)
            .map(|t| (dim as usize, t)),
        _ => None,
    };
    let Some((dim, index)) = one_index else {
        return Err(c.refuse("a sparse tensor is indexed by one index vector or mask at a time"));
    };
    let n = x.dims()[dim];
    let index = index.to_dtype(DType::I64)?;
    let index = Tensor::where_(&index.lt(0)?, index.add(n as i64)?, &index)?;
    check_bounds(&index, n, dim, x)?;
    listed(x, dim, &index).map(one)
}

fn triangle(c: &SparseCall<'_>) -> Result<Outputs> {
    let call = c.attrs::<Triangle>()?;
    let x = c.tensor(0)?;
    if x.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "the input tensor must have at least 2 dimensions, got {}",
                x.shape()
            ),
        ));
    }
    part(x, call).map(one)
}

/// Whether an element at these rows and columns belongs to the triangle.
fn belongs(rows: &Tensor, cols: &Tensor, call: &Triangle) -> Result<Tensor> {
    let above = cols.sub(rows)?;
    match call.upper {
        true => above.ge(call.diagonal),
        false => above.le(call.diagonal),
    }
}

fn part(x: &Tensor, call: &Triangle) -> Result<Tensor> {
    let p = pattern(x)?;
    let k = first_dense(&p);
    let (row, col) = (x.ndim() - 2, x.ndim() - 1);
    if row >= k {
        let x = linear(x)?;
        let v = sparse::values(&x)?;
        let v = match call.upper {
            true => v.triu(call.diagonal)?,
            false => v.tril(call.diagonal)?,
        };
        return sparse::from_values(&pattern(&x)?, &v);
    }
    if p.layout() != TensorLayout::SparseCoo {
        return grid::back(part(&settled(&convert::to_coo(x)?)?, call)?, &p);
    }
    let x = linear(x)?;
    let p = pattern(&x)?;
    let rows = p.indices().select(0, row)?;
    let v = sparse::values(&x)?;
    if col < k {
        let there = grid::positions(&belongs(&rows, &p.indices().select(0, col)?, call)?)?;
        let v = v.index_select(0, &there)?;
        return grid::coo(x.dims(), &columns(&p, &there, None)?, &v, p.is_coalesced());
    }
    let cols = grid::range(x.dims()[col], &rows)?;
    let mask = belongs(&rows.unsqueeze(1)?, &cols.unsqueeze(0)?, call)?;
    sparse::from_values(&p, &v.masked_fill(&mask.logical_not()?, 0)?)
}
