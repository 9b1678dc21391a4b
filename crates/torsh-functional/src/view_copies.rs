//! Copies of views, and copies of tensors with something in place of a view.

use torsh_tensor::{DiagonalOptions, IntoDim, IntoDims, IntoShape, Result, Tensor};

/// A copy of what [`Tensor::clone`] is a view of, row-major (`torch.alias_copy`). It shares no memory with this
/// tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::alias_copy(&tensor![1, 2])?, tensor![1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn alias_copy(input: &Tensor) -> Result<Tensor> {
    input.alias_copy()
}

/// A copy of what [`Tensor::as_strided`] is a view of, row-major (`torch.as_strided_copy`). It shares no memory
/// with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::as_strided_copy(&tensor![1, 2, 3, 4], [2, 2], [1, 1])?, tensor![[1, 2], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn as_strided_copy(
    input: &Tensor,
    size: impl IntoShape,
    stride: impl IntoShape,
) -> Result<Tensor> {
    input.as_strided_copy(size, stride)
}

/// A copy of what [`Tensor::detach`] is a view of, row-major (`torch.detach_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0].requires_grad_(true);
/// assert!(!F::detach_copy(&x)?.requires_grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn detach_copy(input: &Tensor) -> Result<Tensor> {
    input.detach_copy()
}

/// A copy of what [`Tensor::diagonal_with`] is a view of, row-major (`torch.diagonal_copy`). It shares no
/// memory with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DiagonalOptions, tensor};
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(F::diagonal_copy(&x, DiagonalOptions::new())?, tensor![1, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diagonal_copy(input: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
    input.diagonal_copy(options)
}

/// A copy of what [`Tensor::expand`] is a view of, row-major (`torch.expand_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::expand_copy(&tensor![[1], [2]], [2, 2])?, tensor![[1, 1], [2, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn expand_copy(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.expand_copy(shape)
}

/// A copy of what [`Tensor::narrow`] is a view of, row-major (`torch.narrow_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::narrow_copy(&tensor![1, 2, 3], 0, 1, 2)?, tensor![2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn narrow_copy(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    length: impl IntoDim,
) -> Result<Tensor> {
    input.narrow_copy(dim, start, length)
}

/// A copy of what [`Tensor::permute`] is a view of, row-major (`torch.permute_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::permute_copy(&tensor![[1, 2], [3, 4]], [1, 0])?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn permute_copy(input: &Tensor, dims: impl IntoDims) -> Result<Tensor> {
    input.permute_copy(dims)
}

/// A copy of what [`Tensor::select`] is a view of, row-major (`torch.select_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::select_copy(&tensor![[1, 2], [3, 4]], 0, 1)?, tensor![3, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn select_copy(input: &Tensor, dim: impl IntoDim, index: impl IntoDim) -> Result<Tensor> {
    input.select_copy(dim, index)
}

/// A copy of what [`Tensor::slice`] is a view of, row-major (`torch.slice_copy`). It shares no memory with this
/// tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::slice_copy(&tensor![1, 2, 3], 0, 1, 3)?, tensor![2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn slice_copy(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    end: impl IntoDim,
) -> Result<Tensor> {
    input.slice_copy(dim, start, end)
}

/// A copy of what [`Tensor::squeeze`] is a view of, row-major (`torch.squeeze_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::squeeze_copy(&tensor![[1, 2]], 0)?, tensor![1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn squeeze_copy(input: &Tensor, dim: impl IntoDims) -> Result<Tensor> {
    input.squeeze_copy(dim)
}

/// A copy of what [`Tensor::t`] is a view of, row-major (`torch.t_copy`). It shares no memory with this tensor;
/// an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::t_copy(&tensor![[1, 2], [3, 4]])?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn t_copy(input: &Tensor) -> Result<Tensor> {
    input.t_copy()
}

/// A copy of what [`Tensor::transpose`] is a view of, row-major (`torch.transpose_copy`). It shares no memory
/// with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::transpose_copy(&tensor![[1, 2], [3, 4]], 0, 1)?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn transpose_copy(input: &Tensor, dim0: impl IntoDim, dim1: impl IntoDim) -> Result<Tensor> {
    input.transpose_copy(dim0, dim1)
}

/// A copy of what [`Tensor::unfold`] is a view of, row-major (`torch.unfold_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unfold_copy(&tensor![1, 2, 3], 0, 2, 1)?, tensor![[1, 2], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unfold_copy(
    input: &Tensor,
    dimension: impl IntoDim,
    size: impl IntoDim,
    step: impl IntoDim,
) -> Result<Tensor> {
    input.unfold_copy(dimension, size, step)
}

/// A copy of what [`Tensor::unsqueeze`] is a view of, row-major (`torch.unsqueeze_copy`). It shares no memory
/// with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unsqueeze_copy(&tensor![1, 2], 0)?, tensor![[1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unsqueeze_copy(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.unsqueeze_copy(dim)
}

/// A copy of what [`Tensor::view`] is a view of, row-major (`torch.view_copy`). It shares no memory with this
/// tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::view_copy(&tensor![1, 2, 3, 4], [2, 2])?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_copy(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.view_copy(shape)
}

/// A copy of what [`Tensor::view_as_complex`] is a view of, row-major (`torch.view_as_complex_copy`). It shares
/// no memory with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::view_as_complex_copy(&tensor![[3.0, 4.0]])?.abs()?, tensor![5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_as_complex_copy(input: &Tensor) -> Result<Tensor> {
    input.view_as_complex_copy()
}

/// A copy of what [`Tensor::view_as_real`] is a view of, row-major (`torch.view_as_real_copy`). It shares no
/// memory with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = tensor![[3.0, 4.0]].view_as_complex()?;
/// assert_eq!(F::view_as_real_copy(&z)?, tensor![[3.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_as_real_copy(input: &Tensor) -> Result<Tensor> {
    input.view_as_real_copy()
}

/// A copy of what [`Tensor::split`] is a view of, row-major (`torch.split_copy`). It shares no memory with this
/// tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::split_copy(&tensor![1, 2, 3], 2, 0)?, [tensor![1, 2], tensor![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn split_copy(
    input: &Tensor,
    split_size: impl IntoDim,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.split_copy(split_size, dim)
}

/// A copy of what [`Tensor::split_with_sizes`] is a view of, row-major (`torch.split_with_sizes_copy`). It
/// shares no memory with this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::split_with_sizes_copy(&tensor![1, 2, 3], [1, 2], 0)?, [tensor![1], tensor![2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn split_with_sizes_copy(
    input: &Tensor,
    sizes: impl IntoShape,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.split_with_sizes_copy(sizes, dim)
}

/// A copy of what [`Tensor::unbind`] is a view of, row-major (`torch.unbind_copy`). It shares no memory with
/// this tensor; an error where the view is one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unbind_copy(&tensor![[1, 2], [3, 4]], 0)?, [tensor![1, 2], tensor![3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unbind_copy(input: &Tensor, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.unbind_copy(dim)
}

/// The same as [`Tensor::chunk`] (`torch.unsafe_chunk`). PyTorch's own may be written to in place where parts
/// of one tensor may not; here they follow the rules of views.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unsafe_chunk(&tensor![1, 2, 3], 2, 0)?, [tensor![1, 2], tensor![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unsafe_chunk(
    input: &Tensor,
    chunks: impl IntoDim,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.unsafe_chunk(chunks, dim)
}

/// The same as [`Tensor::split`] (`torch.unsafe_split`). PyTorch's own may be written to in place where parts
/// of one tensor may not; here they follow the rules of views.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unsafe_split(&tensor![1, 2, 3], 2, 0)?, [tensor![1, 2], tensor![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unsafe_split(
    input: &Tensor,
    split_size: impl IntoDim,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.unsafe_split(split_size, dim)
}

/// The same as [`Tensor::split_with_sizes`] (`torch.unsafe_split_with_sizes`). PyTorch's own may be written to
/// in place where parts of one tensor may not; here they follow the rules of views.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unsafe_split_with_sizes(&tensor![1, 2, 3], [1, 2], 0)?, [tensor![1], tensor![2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unsafe_split_with_sizes(
    input: &Tensor,
    sizes: impl IntoShape,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.unsafe_split_with_sizes(sizes, dim)
}

/// A copy of this tensor with `src` in place of one index of a dimension (`torch.select_scatter`). `src` has
/// the shape without that dimension. Every dtype; an error for another shape, and for an index out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[0, 0], [0, 0]];
/// assert_eq!(F::select_scatter(&x, &tensor![1, 2], 0, 1)?, tensor![[0, 0], [1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn select_scatter(
    input: &Tensor,
    src: &Tensor,
    dim: impl IntoDim,
    index: impl IntoDim,
) -> Result<Tensor> {
    input.select_scatter(src, dim, index)
}

/// A copy of this tensor with `src` in place of a range of a dimension (`torch.slice_scatter`). `src` has the
/// shape of the slice. Every dtype; an error for another shape.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![0, 0, 0];
/// assert_eq!(F::slice_scatter(&x, &tensor![1, 2], 0, 1, 3)?, tensor![0, 1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn slice_scatter(
    input: &Tensor,
    src: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    end: impl IntoDim,
) -> Result<Tensor> {
    input.slice_scatter(src, dim, start, end)
}

/// A copy of this tensor with `src` in place of a diagonal (`torch.diagonal_scatter`). `src` has the shape of
/// the diagonal. Every dtype; an error for another shape.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DiagonalOptions, tensor};
/// let x = tensor![[0, 0], [0, 0]];
/// let y = F::diagonal_scatter(&x, &tensor![1, 2], DiagonalOptions::new())?;
/// assert_eq!(y, tensor![[1, 0], [0, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diagonal_scatter(input: &Tensor, src: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
    input.diagonal_scatter(src, options)
}

/// A copy of this tensor with `src` in place of a window of its memory (`torch.as_strided_scatter`). `src` has
/// the shape of the window. Every dtype; an error for another shape, and for a window beyond the memory.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![0, 0, 0, 0];
/// assert_eq!(F::as_strided_scatter(&x, &tensor![1, 2], &[2], &[2], 1)?, tensor![0, 1, 0, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn as_strided_scatter(
    input: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: i64,
) -> Result<Tensor> {
    input.as_strided_scatter(src, size, stride, storage_offset)
}
