//! Sparse tensors from their parts. Every invariant is checked, so that what reads a pattern may rely on it.

use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Bound, IntoShape, Result, Tensor, TorshError, Value, options};

use crate::compress;
use crate::convert::to_layout;
use crate::help::{host, index_tensor, positions, within};
use crate::invariants::{negative_index, verified, within_sizes};

pub(crate) static RECORDS: &[&OpRecord] = &[
    &COO,
    &COO_EMPTY,
    &CSR,
    &CSC,
    &BSR,
    &BSC,
    &COMPRESSED,
    &SPDIAGS,
];

options! {
    /// The keyword arguments of [`coo_with`].
    CooOptions {
        /// The dtype that the values are converted to. The default is theirs.
        dtype: Option<DType> = None, DType => Some;
        /// The device of the tensor. The default is that of the values.
        device: Option<Device> = None, Device => Some;
        /// Whether the tensor is a leaf that requires a gradient.
        requires_grad: bool = false;
        /// Whether the indices are sorted and each stands once, which is checked. The default says that this is not known.
        is_coalesced: bool = false;
    }
}

/// A COO tensor: the values of some elements, with all their indices (`torch.sparse_coo_tensor`).
///
/// `indices` is `[sparse_dim, nnz]`, of an integer dtype; `values` is `[nnz, *dense]`. The tensor has the sizes `shape`, as
/// many as `sparse_dim` and the dimensions of `dense` together. An element may stand several times: its value is the sum,
/// which [`coalesce`](crate::SparseExt::coalesce) computes. The values' gradient is the tensor's at the stored elements.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::coo(&tensor![[0, 1, 1], [2, 0, 0]], &tensor![3.0, 4.0, 5.0], [2, 3])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the parts do not go together, or an index is negative or lies outside of `shape`.
#[torsh_tensor::names_caller]
pub fn coo(indices: &Tensor, values: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    coo_of(indices, values, Some(&shape.sizes()), &CooOptions::new())
}

/// [`coo`] of the smallest sizes that have all the indices.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::coo_inferred(&tensor![[0, 1], [2, 0]], &tensor![3.0, 4.0])?;
/// assert_eq!(x.shape().dims(), [2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`coo`]; on the meta device, where the indices have no values.
#[torsh_tensor::names_caller]
pub fn coo_inferred(indices: &Tensor, values: &Tensor) -> Result<Tensor> {
    coo_of(indices, values, None, &CooOptions::new())
}

/// [`coo`] with options.
///
/// ```
/// use torsh_sparse::{self as sparse, CooOptions, SparseExt};
/// use torsh_tensor::tensor;
/// let options = CooOptions::new().is_coalesced(true);
/// let x = sparse::coo_with(&tensor![[0, 1]], &tensor![3.0, 4.0], [2], options.clone())?;
/// assert!(x.is_coalesced()?);
/// assert!(sparse::coo_with(&tensor![[1, 0]], &tensor![3.0, 4.0], [2], options).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`coo`], and for indices that are not coalesced as the options say.
#[torsh_tensor::names_caller]
pub fn coo_with(
    indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
    options: CooOptions,
) -> Result<Tensor> {
    coo_of(indices, values, Some(&shape.sizes()), &options)
}

fn coo_of(
    indices: &Tensor,
    values: &Tensor,
    size: Option<&[i64]>,
    options: &CooOptions,
) -> Result<Tensor> {
    within("sparse_coo_tensor", &[indices, values], || {
        strided(indices, "indices")?;
        strided(values, "values")?;
        if !indices.dtype().is_integer() {
            return Err(TorshError::dtype(
                "",
                format!(
                    "indices must be an int64 tensor, but got {}",
                    indices.dtype()
                ),
            ));
        }
        let &[sparse_dim, nnz] = indices.dims() else {
            return Err(TorshError::shape(
                "",
                format!(
                    "indices must be sparse_dim x nnz, but got: {}",
                    indices.shape()
                ),
            ));
        };
        let values = placed(values, options)?;
        let values = match values.ndim() {
            0 => values.reshape([1])?,
            _ => values,
        };
        let indices = indices
            .detach()
            .to_dtype(DType::I64)?
            .to_device(values.device())?;
        let dense = &values.dims()[1..];
        let size = match size {
            Some(size) => size.to_vec(),
            None => inferred(&indices, dense)?,
        };
        if size.len() != sparse_dim + dense.len() {
            return Err(TorshError::shape(
                "",
                format!(
                    "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse_dim}, dense_dim = {}",
                    size.len(),
                    dense.len()
                ),
            ));
        }
        if values.dims()[0] != nnz {
            return Err(TorshError::shape(
                "",
                format!(
                    "indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: {}",
                    values.dims()[0]
                ),
            ));
        }
        if let Some(negative) = size.iter().find(|&&s| s < 0) {
            if indices.device().has_data() {
                within_sizes(&indices, &size)?;
            }
            return Err(TorshError::invalid(
                "",
                format!("Trying to create tensor with negative dimension {negative}: {size:?}"),
            ));
        }
        let shape: Vec<usize> = size.iter().map(|&s| s as usize).collect();
        if shape[sparse_dim..] != *dense {
            let wanted = [&[nnz], &shape[sparse_dim..]].concat();
            return Err(TorshError::shape(
                "",
                format!(
                    "values has incorrect size, expected {wanted:?}, got {:?}",
                    values.dims()
                ),
            ));
        }
        let pattern = Pattern::coo(&shape, &indices, options.is_coalesced)?;
        verified(&pattern)?;
        finished(&pattern, &values, options.requires_grad)
    })
}

/// The smallest sizes that have all the indices, and the dense ones.
fn inferred(indices: &Tensor, dense: &[usize]) -> Result<Vec<i64>> {
    if !indices.device().has_data() {
        return Err(TorshError::invalid(
            "",
            "the sizes cannot be found without the values of the indices: give them",
        ));
    }
    let (rows, data) = (indices.dims()[0], host(indices)?);
    let n = indices.dims()[1];
    let each = (0..rows).map(|d| {
        let row = &data[d * n..][..n];
        if let Some(low) = row.iter().copied().min().filter(|&low| low < 0) {
            return Err(negative_index(low, d));
        }
        let high = row.iter().copied().max().unwrap_or(-1);
        high.checked_add(1)
            .ok_or_else(|| TorshError::index("", format!("index {high} for dim {d} is too large")))
    });
    let mut size = each.collect::<Result<Vec<_>>>()?;
    size.extend(dense.iter().map(|&s| s as i64));
    Ok(size)
}

/// The values where and as the options say.
fn placed(values: &Tensor, options: &CooOptions) -> Result<Tensor> {
    let values = match options.dtype {
        Some(dtype) => values.to_dtype(dtype)?,
        None => values.clone(),
    };
    match options.device {
        Some(device) => values.to_device(device),
        None => Ok(values),
    }
}

fn finished(pattern: &Pattern, values: &Tensor, requires_grad: bool) -> Result<Tensor> {
    match requires_grad {
        true => {
            let x = sparse::from_values(pattern, &values.detach())?;
            x.set_requires_grad(true)?;
            Ok(x)
        }
        false => sparse::from_values(pattern, values),
    }
}

/// Refuses a part that is sparse itself.
fn strided(t: &Tensor, what: &str) -> Result<()> {
    match t.layout().is_strided() {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!("expected {what} to be strided, but got {}", t.layout()),
        )),
    }
}

/// A CSR tensor: the stored elements row by row, with their columns (`torch.sparse_csr_tensor`).
///
/// The elements of row `i` are those from `crow_indices[i]` to before `crow_indices[i + 1]`; their columns are sorted, and
/// each stands once. `crow_indices` is `[*batch, rows + 1]`, `col_indices` is `[*batch, nnz]`, both int32 or both int64, and
/// `values` is `[*batch, nnz, *dense]`; `shape` is `[*batch, rows, columns, *dense]`. The values' gradient is the tensor's at
/// the stored elements.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::csr(&tensor![0, 1, 3], &tensor![2, 0, 1], &tensor![3.0, 4.0, 5.0], [2, 3])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 0.0, 3.0], [4.0, 5.0, 0.0]]);
/// let e = sparse::csr(&tensor![0, 1, 2], &tensor![2, 7], &tensor![3.0, 4.0], [2, 3]).unwrap_err();
/// assert!(e.to_string().contains("`0 <= col_indices < ncols` is not satisfied"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the parts do not go together, or the indices are not as described.
#[torsh_tensor::names_caller]
pub fn csr(
    crow_indices: &Tensor,
    col_indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
) -> Result<Tensor> {
    let parts = [crow_indices, col_indices, values];
    compress::create(TensorLayout::SparseCsr, parts, Some(&shape.sizes()))
}

/// A CSC tensor: the stored elements column by column, with their rows (`torch.sparse_csc_tensor`). As [`csr`], with rows and
/// columns exchanged; `shape` is `[*batch, rows, columns, *dense]` all the same.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::csc(&tensor![0, 1, 2, 3], &tensor![1, 1, 0], &tensor![4.0, 5.0, 3.0], [2, 3])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 0.0, 3.0], [4.0, 5.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`csr`].
#[torsh_tensor::names_caller]
pub fn csc(
    ccol_indices: &Tensor,
    row_indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
) -> Result<Tensor> {
    let parts = [ccol_indices, row_indices, values];
    compress::create(TensorLayout::SparseCsc, parts, Some(&shape.sizes()))
}

/// A BSR tensor: stored blocks, row of blocks by row of blocks, with their columns of blocks (`torch.sparse_bsr_tensor`).
///
/// `values` is `[*batch, nnz, b0, b1, *dense]` for `nnz` blocks of `b0` rows and `b1` columns, which divide those of
/// `shape`. The indices are those of [`csr`], and count blocks.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::bsr(&tensor![0, 1], &tensor![1], &tensor![[[1.0], [2.0]]], [2, 3])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`csr`], and for blocks that do not divide the sizes.
#[torsh_tensor::names_caller]
pub fn bsr(
    crow_indices: &Tensor,
    col_indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
) -> Result<Tensor> {
    let parts = [crow_indices, col_indices, values];
    compress::create(TensorLayout::SparseBsr, parts, Some(&shape.sizes()))
}

/// A BSC tensor: stored blocks, column of blocks by column of blocks, with their rows of blocks
/// (`torch.sparse_bsc_tensor`). The values are those of [`bsr`], the indices those of [`csc`], and count blocks.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::bsc(&tensor![0, 0, 1], &tensor![0], &tensor![[[1.0], [2.0]]], [2, 2])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 1.0], [0.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`bsr`].
#[torsh_tensor::names_caller]
pub fn bsc(
    ccol_indices: &Tensor,
    row_indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
) -> Result<Tensor> {
    let parts = [ccol_indices, row_indices, values];
    compress::create(TensorLayout::SparseBsc, parts, Some(&shape.sizes()))
}

/// A tensor of a compressed layout from its parts (`torch.sparse_compressed_tensor`): [`csr`], [`csc`], [`bsr`] or [`bsc`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{TensorLayout, tensor};
/// let x = sparse::compressed(TensorLayout::SparseCsr, &tensor![0, 1], &tensor![1], &tensor![3.0], [1, 2])?;
/// assert_eq!(x.to_dense()?, tensor![[0.0, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As the function of the layout; another layout.
#[torsh_tensor::names_caller]
pub fn compressed(
    layout: TensorLayout,
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    shape: impl IntoShape,
) -> Result<Tensor> {
    let parts = [compressed_indices, plain_indices, values];
    compress::create(layout, parts, Some(&shape.sizes()))
}

/// [`compressed`] of the smallest sizes that have all the indices.
///
/// ```
/// use torsh_sparse as sparse;
/// use torsh_tensor::{TensorLayout, tensor};
/// let x = sparse::compressed_inferred(TensorLayout::SparseCsr, &tensor![0, 1], &tensor![4], &tensor![3.0])?;
/// assert_eq!(x.shape().dims(), [1, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`compressed`]; on the meta device, where the indices have no values.
#[torsh_tensor::names_caller]
pub fn compressed_inferred(
    layout: TensorLayout,
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
) -> Result<Tensor> {
    compress::create(layout, [compressed_indices, plain_indices, values], None)
}

/// A matrix of these diagonals, as a COO tensor (`torch.sparse.spdiags`).
///
/// `diagonals` is `[n, length]`, or `[length]` for one; `offsets` is int64 `[n]`, or 0-d for one. The elements of row `i`
/// lie in the diagonal `offsets[i]`, which is above the main one where it is positive: element `j` in column `j`. What lies
/// outside of `shape` is left out.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = sparse::spdiags(&tensor![[1.0, 2.0], [3.0, 4.0]], &tensor![0, 1], [2, 2])?;
/// assert_eq!(x.to_dense()?, tensor![[1.0, 4.0], [0.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the numbers of diagonals and offsets differ, an offset stands twice, or `shape` has not two sizes.
#[torsh_tensor::names_caller]
pub fn spdiags(diagonals: &Tensor, offsets: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    spdiags_of(diagonals, offsets, &shape.sizes(), None)
}

/// [`spdiags`] of a layout: COO, CSR or CSC.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{TensorLayout, tensor};
/// let x = sparse::spdiags_with(&tensor![[1.0, 2.0]], &tensor![0], [2, 2], TensorLayout::SparseCsr)?;
/// assert_eq!(x.crow_indices()?, tensor![0, 1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`spdiags`]; another layout.
#[torsh_tensor::names_caller]
pub fn spdiags_with(
    diagonals: &Tensor,
    offsets: &Tensor,
    shape: impl IntoShape,
    layout: TensorLayout,
) -> Result<Tensor> {
    spdiags_of(diagonals, offsets, &shape.sizes(), Some(layout))
}

fn spdiags_of(
    diagonals: &Tensor,
    offsets: &Tensor,
    shape: &[i64],
    layout: Option<TensorLayout>,
) -> Result<Tensor> {
    within("sparse.spdiags", &[diagonals, offsets], || {
        strided(diagonals, "diagonals")?;
        strided(offsets, "offsets")?;
        let refuse = |text: String| Err(TorshError::invalid("", text));
        let layout = layout.unwrap_or(TensorLayout::SparseCoo);
        let allowed = [
            TensorLayout::SparseCoo,
            TensorLayout::SparseCsr,
            TensorLayout::SparseCsc,
        ];
        if !allowed.contains(&layout) {
            return refuse(format!(
                "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {}",
                layout.enum_name()
            ));
        }
        let (count, length) = match *diagonals.dims() {
            [length] => (1, length),
            [count, length] => (count, length),
            _ => return refuse("Diagonals must be vector or matrix".into()),
        };
        if offsets.ndim() > 1 {
            return refuse("Offsets must be scalar or vector".into());
        }
        if offsets.dtype() != DType::I64 {
            return refuse(format!(
                "Offset Tensor must have dtype int64 but got {}",
                offsets.dtype()
            ));
        }
        let &[rows, columns] = shape else {
            return refuse("Output shape must be 2d".into());
        };
        if rows < 0 || columns < 0 {
            return refuse(format!("a size is negative: {shape:?}"));
        }
        if offsets.numel() != count {
            return refuse(format!(
                "Number of diagonals ({count}) does not match the number of offsets ({})",
                offsets.numel()
            ));
        }
        let offsets = host(offsets)?;
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|w| w[0] == w[1]) {
            return refuse("Offset tensor contains duplicate values".into());
        }
        let (mut at, mut row, mut column) = (Vec::new(), Vec::new(), Vec::new());
        for (i, &offset) in offsets.iter().enumerate() {
            for j in 0..columns.min(length as i64) {
                if let Some(r) = j.checked_sub(offset).filter(|r| (0..rows).contains(r)) {
                    at.push(i * length + j as usize);
                    row.push(r);
                    column.push(j);
                }
            }
        }
        let nnz = at.len();
        let device = diagonals.device();
        let at = positions(&at, device)?;
        let values = diagonals.reshape([count * length])?.index_select(0, &at)?;
        let indices = index_tensor([row, column].concat(), &[2, nnz], DType::I64, device)?;
        let pattern = Pattern::coo(&[rows as usize, columns as usize], &indices, false)?;
        let x = sparse::from_values(&pattern, &values)?;
        match layout {
            TensorLayout::SparseCoo => Ok(x),
            layout => to_layout(&x, layout, None, None),
        }
    })
}

/// The options of a call by name whose parameters from `i` on are `dtype`, `device` and `requires_grad`.
fn options_at(b: &Bound, i: usize) -> CooOptions {
    CooOptions {
        dtype: b.dtype(i),
        device: b.device(i + 1),
        requires_grad: b.bool(i + 2),
        is_coalesced: false,
    }
}

fn compressed_by_name(b: &Bound, layout: TensorLayout) -> Result<Value> {
    let options = options_at(b, 4);
    let values = placed(b.tensor(2)?, &options)?;
    let values = match options.requires_grad {
        true => values.detach(),
        false => values,
    };
    let index = |i: usize| match options.device {
        Some(device) => b.tensor(i)?.to_device(device),
        None => b.tensor(i).cloned(),
    };
    let (compressed, plain, size) = (index(0)?, index(1)?, b.opt_ints(3));
    let x = compress::create(layout, [&compressed, &plain, &values], size.as_deref())?;
    if options.requires_grad {
        x.set_requires_grad(true)?;
    }
    Ok(x.into())
}

static COO: OpRecord = OpRecord::new(
    "sparse_coo_tensor",
    "A COO tensor of indices and values.",
    "(Tensor indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None, bool? is_coalesced=None)",
)
.by_name(|b| {
    let mut options = options_at(b, 3);
    options.is_coalesced = b.bool(7);
    let size = b.opt_ints(2);
    coo_of(b.tensor(0)?, b.tensor(1)?, size.as_deref(), &options).map(Value::Tensor)
})
.samples(|s| {
    let indices = Tensor::from_data(&[0i64, 2, 1, 1, 0, 2], [2, 3])?;
    Ok(vec![
        sample![&indices, s.real(&[3])?, [3, 3]],
        sample![indices, s.real(&[3, 2])?],
    ])
});

static COO_EMPTY: OpRecord = OpRecord::new(
    "sparse_coo_tensor.size",
    "A COO tensor without stored elements.",
    "(int[] size, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None)",
)
.overload()
.constant()
.by_name(|b| {
    let (size, options) = (b.ints(0), options_at(b, 1));
    let device = options.device.unwrap_or_else(torsh_tensor::default_device);
    let dtype = options.dtype.unwrap_or_else(torsh_core::default_dtype);
    let indices = Tensor::zeros([size.len(), 0], DType::I64, device)?;
    let values = Tensor::zeros([0], dtype, device)?;
    coo_of(&indices, &values, Some(&size), &options).map(Value::Tensor)
});

/// The record of a constructor of a compressed layout.
macro_rules! constructor {
    ($record:ident $name:literal $doc:literal $schema:literal $layout:ident |$s:ident| $samples:expr) => {
        static $record: OpRecord = OpRecord::new($name, $doc, $schema)
            .by_name(|b| compressed_by_name(b, TensorLayout::$layout))
            .samples(|$s| $samples);
    };
}

constructor! { CSR "sparse_csr_tensor" "A CSR tensor of its parts."
    "(Tensor crow_indices, Tensor col_indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None)"
SparseCsr |s| {
    let (crow, col) = (Tensor::from_data(&[0i64, 2, 3], [3])?, Tensor::from_data(&[0i64, 2, 1], [3])?);
    Ok(vec![sample![crow, col, s.real(&[3])?, [2, 3]]])
}}
constructor! { CSC "sparse_csc_tensor" "A CSC tensor of its parts."
    "(Tensor ccol_indices, Tensor row_indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None)"
SparseCsc |s| {
    let (ccol, row) = (Tensor::from_data(&[0i64, 2, 3], [3])?, Tensor::from_data(&[0i64, 2, 1], [3])?);
    Ok(vec![sample![ccol, row, s.real(&[3])?, [3, 2]]])
}}
constructor! { BSR "sparse_bsr_tensor" "A BSR tensor of its parts."
    "(Tensor crow_indices, Tensor col_indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None)"
SparseBsr |s| {
    let (crow, col) = (Tensor::from_data(&[0i64, 1, 2], [3])?, Tensor::from_data(&[1i64, 0], [2])?);
    Ok(vec![sample![crow, col, s.real(&[2, 2, 1])?, [4, 2]]])
}}
constructor! { BSC "sparse_bsc_tensor" "A BSC tensor of its parts."
    "(Tensor ccol_indices, Tensor row_indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None)"
SparseBsc |s| {
    let (ccol, row) = (Tensor::from_data(&[0i64, 1, 2], [3])?, Tensor::from_data(&[1i64, 0], [2])?);
    Ok(vec![sample![ccol, row, s.real(&[2, 2, 1])?, [4, 2]]])
}}

static COMPRESSED: OpRecord = OpRecord::new(
    "sparse_compressed_tensor",
    "A tensor of a compressed layout of its parts.",
    "(Tensor compressed_indices, Tensor plain_indices, Tensor values, int[]? size=None, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, bool? check_invariants=None, Layout? layout=None)",
)
.by_name(|b| match b.layout(8) {
    Some(layout) => compressed_by_name(b, layout),
    None => Err(TorshError::invalid(
        "",
        "sparse_compressed_tensor expected sparse compressed tensor layout but got none",
    )),
})
.samples(|s| {
    let (crow, col) = (
        Tensor::from_data(&[0i64, 2, 3], [3])?,
        Tensor::from_data(&[0i64, 2, 1], [3])?,
    );
    let call = sample![crow, col, s.real(&[3])?, [2, 3]];
    Ok(vec![call.kw("layout", TensorLayout::SparseCsr)])
});

static SPDIAGS: OpRecord = OpRecord::new(
    "sparse.spdiags",
    "A sparse matrix of diagonals.",
    "(Tensor diagonals, Tensor offsets, int[] shape, Layout? layout=None)",
)
.by_name(|b| spdiags_of(b.tensor(0)?, b.tensor(1)?, &b.ints(2), b.layout(3)).map(Value::Tensor))
.samples(|s| {
    let offsets = Tensor::from_data(&[0i64, -1], [2])?;
    Ok(vec![sample![s.real(&[2, 3])?, offsets, [3, 3]]])
});
