//! Joins and splits.

use std::borrow::Borrow;

use torsh_tensor::{IntoDim, IntoShape, Result, Tensor};

/// A 0-d tensor with one dimension, others as they are (`torch.atleast_1d`).
///
/// A view; any dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::atleast_1d(&tensor![5].squeeze(0)?)?, tensor![5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn atleast_1d(input: &Tensor) -> Result<Tensor> {
    input.atleast_1d()
}

/// The tensor with at least two dimensions; a vector becomes a row (`torch.atleast_2d`).
///
/// A view; any dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::atleast_2d(&tensor![1, 2])?, tensor![[1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn atleast_2d(input: &Tensor) -> Result<Tensor> {
    input.atleast_2d()
}

/// The tensor with at least three dimensions; a vector becomes `[1, n, 1]`, a matrix `[n, m, 1]`
/// (`torch.atleast_3d`).
///
/// A view; any dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::atleast_3d(&tensor![1, 2])?, tensor![[[1], [2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn atleast_3d(input: &Tensor) -> Result<Tensor> {
    input.atleast_3d()
}

/// Views of the tensors in the shape they broadcast to (`torch.broadcast_tensors`).
///
/// Each keeps its dtype. An error where the shapes do not broadcast.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let both = F::broadcast_tensors(&[tensor![[1], [2]], tensor![3, 4]])?;
/// assert_eq!(both[0], tensor![[1, 1], [2, 2]]);
/// assert_eq!(both[1], tensor![[3, 4], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
    Tensor::broadcast_tensors(tensors)
}

/// Every combination of one element of each vector, as rows; a single vector comes back as it is
/// (`torch.cartesian_prod`).
///
/// An error for a tensor that is no vector, for none, and for vectors of different dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cartesian_prod(&[tensor![1, 2], tensor![8, 9]])?, tensor![[1, 8], [1, 9], [2, 8], [2, 9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cartesian_prod<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::cartesian_prod(tensors)
}

/// A matrix with the given ones along its diagonal and zeros elsewhere (`torch.block_diag`):
/// [`Tensor::block_diag`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::block_diag(&[tensor![[1, 2]], tensor![[3], [4]]])?;
/// assert_eq!(y, tensor![[1, 2, 0], [0, 0, 3], [0, 0, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    Tensor::block_diag(tensors)
}

/// The Kronecker product (`torch.kron`): [`Tensor::kron`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::kron(&tensor![1, 2], &tensor![1, 10])?, tensor![1, 10, 2, 20]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn kron(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.kron(other)
}

/// `input * 2 ** other` (`torch.ldexp`): [`Tensor::ldexp`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::ldexp(&tensor![1.0, 3.0], &tensor![4, -1])?, tensor![16.0, 1.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn ldexp(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.ldexp(other)
}

/// Parts along a dimension scaled to a norm of at most `maxnorm` (`torch.renorm`): [`Tensor::renorm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::renorm(&tensor![[3.0, 4.0], [0.3, 0.4]], 2.0, 0, 1.0)?;
/// assert!(y.allclose(&tensor![[0.6, 0.8], [0.3, 0.4]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn renorm(input: &Tensor, p: f64, dim: impl IntoDim, maxnorm: f64) -> Result<Tensor> {
    input.renorm(p, dim, maxnorm)
}

/// The tensors one after the other along a dimension (`torch.cat`); their other sizes must be
/// equal, their dtypes promote. Empty vectors are left out.
///
/// An error for no tensors, for other sizes that differ, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cat(&[tensor![[1, 2]], tensor![[3, 4]]], 0)?, tensor![[1, 2], [3, 4]]);
/// assert_eq!(F::cat(&[tensor![[1, 2]], tensor![[3, 4]]], 1)?, tensor![[1, 2, 3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cat<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::cat(tensors, dim)
}

/// Views of equal parts of a dimension, at most `chunks` of them; the last may be smaller
/// (`torch.chunk`).
///
/// An error for fewer than one chunk, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let parts = F::chunk(&tensor![1, 2, 3, 4, 5], 2, 0)?;
/// assert_eq!(parts, [tensor![1, 2, 3], tensor![4, 5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn chunk(input: &Tensor, chunks: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.chunk(chunks, dim)
}

/// The tensors side by side, vectors as columns (`torch.column_stack`).
///
/// The first sizes must be equal; the dtypes promote. An error where they are not, and for no
/// tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::column_stack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::column_stack(tensors)
}

/// The tensors one behind the other: along the third dimension (`torch.dstack`).
///
/// Each gets three dimensions as by [`atleast_3d`]; the dtypes promote. An error where other sizes
/// differ, and for no tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::dstack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[[1, 3], [2, 4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::dstack(tensors)
}

/// The tensors side by side: along the second dimension, vectors along the first (`torch.hstack`).
///
/// The dtypes promote. An error where other sizes differ, and for no tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::hstack(&[tensor![1, 2], tensor![3]])?, tensor![1, 2, 3]);
/// assert_eq!(F::hstack(&[tensor![[1], [2]], tensor![[3], [4]]])?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::hstack(tensors)
}

/// Views of vectors (or 0-d tensors) as the coordinates of a grid: `indexing` is `"ij"` (rows
/// first) or `"xy"` (columns first; `torch.meshgrid`).
///
/// An error for tensors of different dtypes or more dimensions, for none, and for another word.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let grid = F::meshgrid(&[tensor![1, 2], tensor![7, 8, 9]], "ij")?;
/// assert_eq!(grid[0], tensor![[1, 1, 1], [2, 2, 2]]);
/// assert_eq!(grid[1], tensor![[7, 8, 9], [7, 8, 9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: &str) -> Result<Vec<Tensor>> {
    Tensor::meshgrid(tensors, indexing)
}

/// Views of `split_size` indices of a dimension each; the last may have fewer (`torch.split`).
///
/// An error for a negative size, for size 0 of a dimension that is not empty, and for a dimension
/// out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::split(&tensor![1, 2, 3, 4, 5], 2, 0)?, [tensor![1, 2], tensor![3, 4], tensor![5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn split(input: &Tensor, split_size: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.split(split_size, dim)
}

/// Views of as many indices of a dimension as each size says (`torch.split_with_sizes`).
///
/// An error where the sizes do not add up to the dimension's, or one is negative.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::split_with_sizes(&tensor![1, 2, 3, 4], [1, 3], 0)?, [tensor![1], tensor![2, 3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn split_with_sizes(
    input: &Tensor,
    sizes: impl IntoShape,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.split_with_sizes(sizes, dim)
}

/// The tensors, all of one shape, side by side along a new dimension (`torch.stack`).
///
/// The dtypes promote. An error for no tensors, for shapes that differ, and for a dimension out of
/// range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::stack(&[tensor![1, 2], tensor![3, 4]], 0)?, tensor![[1, 2], [3, 4]]);
/// assert_eq!(F::stack(&[tensor![1, 2], tensor![3, 4]], 1)?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn stack<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::stack(tensors, dim)
}

/// Views of exactly `sections` parts of a dimension; the first ones are larger by one where they
/// cannot be equal (`torch.tensor_split`).
///
/// An error for fewer than one section, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::tensor_split(&tensor![1, 2, 3, 4, 5], 3, 0)?, [tensor![1, 2], tensor![3, 4], tensor![5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn tensor_split(
    input: &Tensor,
    sections: impl IntoDim,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.tensor_split(sections, dim)
}

/// A view of each index of a dimension, which is removed (`torch.unbind`).
///
/// An error for a 0-d tensor, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unbind(&tensor![[1, 2], [3, 4]], 1)?, [tensor![1, 3], tensor![2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unbind(input: &Tensor, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.unbind(dim)
}

/// The tensors one above the other: along the first dimension, vectors as rows (`torch.vstack`).
///
/// The dtypes promote. An error where other sizes differ, and for no tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::vstack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::vstack(tensors)
}

/// Parts along the second dimension (of a vector, the only one), in so many sections
/// (`torch.hsplit`).
///
/// Views. An error where the sections are not equal, and for a 0-d tensor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::hsplit(&tensor![[1, 2], [3, 4]], 2)?, [tensor![[1], [3]], tensor![[2], [4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn hsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.hsplit(sections)
}

/// Parts along the first dimension, in so many sections (`torch.vsplit`).
///
/// Views. An error where the sections are not equal, and for fewer than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::vsplit(&tensor![[1, 2], [3, 4]], 2)?, [tensor![[1, 2]], tensor![[3, 4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn vsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.vsplit(sections)
}

/// Parts along the third dimension, in so many sections (`torch.dsplit`).
///
/// Views. An error where the sections are not equal, and for fewer than three dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::dsplit(&tensor![[[1, 2], [3, 4]]], 2)?, [tensor![[[1], [3]]], tensor![[[2], [4]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn dsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.dsplit(sections)
}
