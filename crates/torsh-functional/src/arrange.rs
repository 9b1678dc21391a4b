//! Views and copies in other shapes and orders.

use torsh_tensor::{
    DiagonalOptions, IntoDim, IntoDims, IntoShape, Operand, Result, Scalar, Tensor,
};

/// The last two dimensions swapped, and complex numbers conjugated (`torch.adjoint`).
///
/// `[.., m, n]` gives `[.., n, m]` of the same dtype, for a real tensor as a view. An error for a
/// vector.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::adjoint(&tensor![[1.0, 2.0], [3.0, 4.0]])?, tensor![[1.0, 3.0], [2.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn adjoint(input: &Tensor) -> Result<Tensor> {
    input.adjoint()
}

/// A view of this tensor's storage with its own size, stride and offset (`torch.as_strided`); the
/// offset is this tensor's.
///
/// The result has the shape `size` and the dtype of `input`. An error where the two lists differ in
/// length, or where the view would reach outside the storage.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1, 2, 3, 4];
/// assert_eq!(F::as_strided(&x, [3, 2], [1, 1])?, tensor![[1, 2], [2, 3], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn as_strided(input: &Tensor, size: impl IntoShape, stride: impl IntoShape) -> Result<Tensor> {
    input.as_strided(size, stride)
}

/// The tensor with a number around it (`torch.constant_pad_nd`): `pad` holds pairs (before, behind)
/// for the last dimension, the one before it, and so on; negative counts cut off.
///
/// Keeps the dtype. An error where `pad` has an odd length, more pairs than the tensor has
/// dimensions, or cuts off more than a dimension holds.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::constant_pad_nd(&tensor![1, 2, 3], [1, 2], 9)?, tensor![9, 1, 2, 3, 9, 9]);
/// assert_eq!(F::constant_pad_nd(&tensor![1, 2, 3], [-1, 0], 9)?, tensor![2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn constant_pad_nd(
    input: &Tensor,
    pad: impl IntoShape,
    value: impl Into<Scalar>,
) -> Result<Tensor> {
    input.constant_pad_nd(pad, value)
}

/// The tensor itself when it is row-major, else a row-major copy (`Tensor.contiguous`).
///
/// Shape, dtype and values stay.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1, 2], [3, 4]].t()?;
/// assert!(!x.is_contiguous()? && F::contiguous(&x)?.is_contiguous()?);
/// assert_eq!(F::contiguous(&x)?, tensor![[1, 3], [2, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn contiguous(input: &Tensor) -> Result<Tensor> {
    input.contiguous()
}

/// The diagonal of a matrix as a copy, or the square matrix that has this vector on that diagonal
/// (`torch.diag`).
///
/// `diagonal` counts from the main one, upwards where positive. Keeps the dtype. An error for other
/// than one or two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::diag(&tensor![[1, 2], [3, 4]], 0)?, tensor![1, 4]);
/// assert_eq!(F::diag(&tensor![5, 6], 1)?, tensor![[0, 5, 0], [0, 0, 6], [0, 0, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diag(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.diag(diagonal)
}

/// Matrices in the dimensions `dim1` and `dim2` of the result, whose diagonals are this tensor's
/// last dimension (`torch.diag_embed`).
///
/// Zeros elsewhere; keeps the dtype. An error where the two dimensions are one, or out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::diag_embed(&tensor![[1, 2], [3, 4]], 0, -2, -1)?, tensor![[[1, 0], [0, 2]], [[3, 0], [0, 4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diag_embed(
    input: &Tensor,
    offset: impl IntoDim,
    dim1: impl IntoDim,
    dim2: impl IntoDim,
) -> Result<Tensor> {
    input.diag_embed(offset, dim1, dim2)
}

/// The square matrix whose diagonal is this tensor, flattened (`torch.diagflat`).
///
/// Any shape; keeps the dtype. `offset` counts from the main diagonal, upwards where positive.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::diagflat(&tensor![[1], [2]], 0)?, tensor![[1, 0], [0, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diagflat(input: &Tensor, offset: impl IntoDim) -> Result<Tensor> {
    input.diagflat(offset)
}

/// A view of the main diagonal of the first two dimensions, as a last dimension (`torch.diagonal`).
///
/// An error for fewer than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::diagonal(&tensor![[1, 2, 3], [4, 5, 6]])?, tensor![1, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diagonal(input: &Tensor) -> Result<Tensor> {
    input.diagonal()
}

/// A view of the diagonal of dimensions `dim1` and `dim2`, `offset` above the main one (below it
/// where negative), as a last dimension. Writing into it writes the tensor's diagonal.
///
/// An error where the two dimensions are one, or out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let above = F::DiagonalOptions::new().offset(1);
/// assert_eq!(F::diagonal_with(&tensor![[1, 2, 3], [4, 5, 6]], above)?, tensor![2, 6]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diagonal_with(input: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
    input.diagonal_with(options)
}

/// A view in which dimensions of size 1 are repeated; `-1` keeps a size (`Tensor.expand`).
///
/// `shape` may have more dimensions in front. An error where a size other than 1 would change.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::expand(&tensor![[1], [2]], [-1, 3])?, tensor![[1, 1, 1], [2, 2, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn expand(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.expand(shape)
}

/// A view expanded to another tensor's shape (`Tensor.expand_as`).
///
/// The dtype stays that of `input`. An error where the shape does not broadcast to that of `other`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(F::expand_as(&tensor![1, 2], &zeros([2, 2]))?, tensor![[1, 2], [1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn expand_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.expand_as(other)
}

/// A copy in reversed order along `dims` (`torch.flip`).
///
/// Shape and dtype stay. An error for a dimension that is out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::flip(&tensor![[1, 2], [3, 4]], [0, 1])?, tensor![[4, 3], [2, 1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn flip(input: &Tensor, dims: impl IntoDims) -> Result<Tensor> {
    input.flip(dims)
}

/// A copy with the second dimension reversed (`torch.fliplr`).
///
/// Shape and dtype stay. An error for fewer than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::fliplr(&tensor![[1, 2], [3, 4]])?, tensor![[2, 1], [4, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn fliplr(input: &Tensor) -> Result<Tensor> {
    input.fliplr()
}

/// A copy with the first dimension reversed (`torch.flipud`).
///
/// Shape and dtype stay. An error for a 0-d tensor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::flipud(&tensor![[1, 2], [3, 4]])?, tensor![[3, 4], [1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn flipud(input: &Tensor) -> Result<Tensor> {
    input.flipud()
}

/// A view with the dimensions `source` moved to `destination`; the others keep their order
/// (`torch.movedim`).
///
/// An error where the two lists differ in length, repeat a dimension, or name one out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::movedim(&tensor![[[1, 2, 3], [4, 5, 6]]], 0, 2)?, tensor![[[1], [2], [3]], [[4], [5], [6]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn movedim(
    input: &Tensor,
    source: impl IntoDims,
    destination: impl IntoDims,
) -> Result<Tensor> {
    input.movedim(source, destination)
}

/// A view of `len` indices of a dimension from `start` on (`torch.narrow`).
///
/// A negative `start` counts from the end. An error where the part does not lie in the dimension.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::narrow(&tensor![10, 20, 30, 40], 0, 1, 2)?, tensor![20, 30]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn narrow(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    len: impl IntoDim,
) -> Result<Tensor> {
    input.narrow(dim, start, len)
}

/// The elements in one dimension; a view where the layout allows it (`torch.ravel`).
///
/// Any shape and dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::ravel(&tensor![[1, 2], [3, 4]])?, tensor![1, 2, 3, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn ravel(input: &Tensor) -> Result<Tensor> {
    input.ravel()
}

/// The tensor repeated along each dimension (`Tensor.repeat`); counts beyond its rank add leading
/// dimensions.
///
/// Keeps the dtype. An error for fewer counts than dimensions, or a negative one.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::repeat(&tensor![1, 2], [2, 2])?, tensor![[1, 2, 1, 2], [1, 2, 1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn repeat(input: &Tensor, repeats: impl IntoShape) -> Result<Tensor> {
    input.repeat(repeats)
}

/// Every position of `dim` repeated in place: `repeats` times, or as often as a 1-d tensor says for
/// each; without `dim`, of the flattened tensor (`torch.repeat_interleave`).
///
/// Keeps the dtype; counts are integers (int64 or int32). An error for negative counts, or for a number of counts that
/// is neither 1 nor that of the positions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::repeat_interleave(&tensor![7, 8], 2, None)?, tensor![7, 7, 8, 8]);
/// assert_eq!(F::repeat_interleave(&tensor![7, 8], &tensor![1, 3], 0)?, tensor![7, 8, 8, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn repeat_interleave<'a>(
    input: &Tensor,
    repeats: impl Into<Operand<'a>>,
    dim: impl Into<Option<i64>>,
) -> Result<Tensor> {
    input.repeat_interleave(repeats, dim)
}

/// The elements in another tensor's shape (`Tensor.reshape_as`).
///
/// A view where the layout allows it; the dtype stays that of `input`. An error where the number of
/// elements differs.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(F::reshape_as(&tensor![1, 2, 3, 4], &zeros([2, 2]))?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn reshape_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.reshape_as(other)
}

/// The elements shifted along `dims`, one shift for each; without dimensions (`()`), of the
/// flattened tensor (`torch.roll`). What leaves at one end comes in at the other.
///
/// Shape and dtype stay. An error where shifts and dimensions differ in number, or a dimension is
/// out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::roll(&tensor![1, 2, 3, 4], 1, 0)?, tensor![4, 1, 2, 3]);
/// assert_eq!(F::roll(&tensor![[1, 2], [3, 4]], 1, ())?, tensor![[4, 1], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn roll(input: &Tensor, shifts: impl IntoDims, dims: impl IntoDims) -> Result<Tensor> {
    input.roll(shifts, dims)
}

/// A view of one index of a dimension, which is removed (`torch.select`).
///
/// A negative index counts from the end. An error for a 0-d tensor, and for a dimension or index
/// out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::select(&tensor![[1, 2], [3, 4]], 1, -1)?, tensor![2, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn select(input: &Tensor, dim: impl IntoDim, index: impl IntoDim) -> Result<Tensor> {
    input.select(dim, index)
}

/// A view of the indices from `start` to below `end`, as Python's slices clamp them.
///
/// Negative bounds count from the end. An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::slice(&tensor![10, 20, 30, 40], 0, 1, -1)?, tensor![20, 30]);
/// assert_eq!(F::slice(&tensor![10, 20, 30, 40], 0, 2, 100)?, tensor![30, 40]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn slice(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    end: impl IntoDim,
) -> Result<Tensor> {
    input.slice(dim, start, end)
}

/// The transpose of a matrix; a vector or 0-d tensor as it is (`torch.t`).
///
/// A view. An error for more than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::t(&tensor![[1, 2, 3], [4, 5, 6]])?, tensor![[1, 4], [2, 5], [3, 6]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn t(input: &Tensor) -> Result<Tensor> {
    input.t()
}

/// [`repeat`], where counts may be fewer than dimensions: they are those of the last ones
/// (`torch.tile`).
///
/// Keeps the dtype. An error for a negative count.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::tile(&tensor![[1, 2], [3, 4]], 2)?, tensor![[1, 2, 1, 2], [3, 4, 3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn tile(input: &Tensor, dims: impl IntoShape) -> Result<Tensor> {
    input.tile(dims)
}

/// The lower triangle of the matrices in the last two dimensions, up to `diagonal`; zeros elsewhere
/// (`torch.tril`).
///
/// Shape and dtype stay. An error for fewer than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::tril(&tensor![[1, 2], [3, 4]], 0)?, tensor![[1, 0], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn tril(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.tril(diagonal)
}

/// The upper triangle of the matrices in the last two dimensions, from `diagonal` on; zeros
/// elsewhere (`torch.triu`).
///
/// Shape and dtype stay. An error for fewer than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::triu(&tensor![[1, 2], [3, 4]], 1)?, tensor![[0, 2], [0, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn triu(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.triu(diagonal)
}

/// Dimension `dim` made several of these sizes, one of which may be `-1` (`torch.unflatten`).
///
/// A view where the layout allows it. An error where the sizes do not multiply to that of the
/// dimension.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unflatten(&tensor![1, 2, 3, 4, 5, 6], 0, [2, -1])?, tensor![[1, 2, 3], [4, 5, 6]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unflatten(input: &Tensor, dim: impl IntoDim, sizes: impl IntoShape) -> Result<Tensor> {
    input.unflatten(dim, sizes)
}

/// A view of another shape; an error where that needs a copy (`Tensor.view`). One size may be `-1`.
///
/// An error, too, where the number of elements differs. [`reshape`](crate::reshape) copies where it
/// must.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::view(&tensor![1, 2, 3, 4], [2, -1])?, tensor![[1, 2], [3, 4]]);
/// assert!(F::view(&tensor![[1, 2], [3, 4]].t()?, [4]).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn view(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.view(shape)
}

/// A view of another tensor's shape; an error where that needs a copy, or where the number of
/// elements differs (`Tensor.view_as`).
///
/// The dtype stays that of `input`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(F::view_as(&tensor![1, 2, 3, 4], &zeros([2, 2]))?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.view_as(other)
}
