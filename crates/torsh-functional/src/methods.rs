//! Functions that are methods of the same name.

use std::borrow::Borrow;

use crate::{call, value};
use torsh_tensor::{IntoDim, IntoDims, IntoShape, Operand, Result, Scalar, Tensor};

/// `self` plus the sum over the batch of `batch1 @ batch2`.
#[track_caller]
pub fn addbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.addbmm(batch1, batch2)
}

/// `self + mat1 @ mat2`; this tensor broadcasts.
#[track_caller]
pub fn addmm(input: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.addmm(mat1, mat2)
}

/// `self + mat @ vec`; this tensor broadcasts.
#[track_caller]
pub fn addmv(input: &Tensor, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.addmv(mat, vec)
}

/// `self + outer(vec1, vec2)`; this tensor broadcasts.
#[track_caller]
pub fn addr(input: &Tensor, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.addr(vec1, vec2)
}

/// The last two dimensions swapped, and complex numbers conjugated.
#[track_caller]
pub fn adjoint(input: &Tensor) -> Result<Tensor> {
    input.adjoint()
}

/// Whether no element is zero, as a 0-d bool tensor; true of no elements.
#[track_caller]
pub fn all(input: &Tensor) -> Result<Tensor> {
    input.all()
}

/// Whether `|self - other| <= atol + rtol * |other|` everywhere, with PyTorch's tolerances
/// 1e-5 and 1e-8 (`torch.allclose`).
#[track_caller]
pub fn allclose(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.allclose(other)
}

/// The largest element over dimensions (all when none is named); equal ones share the
/// gradient. An error over no elements.
#[track_caller]
pub fn amax(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.amax(dims, keepdim)
}

/// The smallest element over dimensions (all when none is named); equal ones share the
/// gradient. An error over no elements.
#[track_caller]
pub fn amin(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.amin(dims, keepdim)
}

/// The smallest and the largest element.
#[track_caller]
pub fn aminmax(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.aminmax()
}

/// The angle of each complex element in radians; of real ones 0, or pi for negative ones.
#[track_caller]
pub fn angle(input: &Tensor) -> Result<Tensor> {
    input.angle()
}

/// Whether any element is not zero (NaN is not), as a 0-d bool tensor.
#[track_caller]
pub fn any(input: &Tensor) -> Result<Tensor> {
    input.any()
}

/// The position of the largest element in row-major order, a 0-d int64 tensor.
#[track_caller]
pub fn argmax(input: &Tensor) -> Result<Tensor> {
    input.argmax()
}

/// The position of the smallest element in row-major order, a 0-d int64 tensor.
#[track_caller]
pub fn argmin(input: &Tensor) -> Result<Tensor> {
    input.argmin()
}

/// The positions of the elements in sorted order along `dim` (`torch.argsort`).
#[track_caller]
pub fn argsort(input: &Tensor, dim: impl IntoDim, descending: bool) -> Result<Tensor> {
    input.argsort(dim, descending)
}

/// `nonzero` by NumPy's name.
#[track_caller]
pub fn argwhere(input: &Tensor) -> Result<Tensor> {
    input.argwhere()
}

/// A view of this tensor's storage with its own size, stride and offset (`torch.as_strided`);
/// the offset is this tensor's.
#[track_caller]
pub fn as_strided(input: &Tensor, size: impl IntoShape, stride: impl IntoShape) -> Result<Tensor> {
    input.as_strided(size, stride)
}

/// `self + batch1 @ batch2`; this tensor broadcasts.
#[track_caller]
pub fn baddbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.baddbmm(batch1, batch2)
}

/// How often each integer from 0 on occurs in this 1-d tensor (int64), or the sums of its
/// `weights`; at least `minlength` bins (`torch.bincount`).
#[track_caller]
pub fn bincount<'a>(
    input: &Tensor,
    weights: impl Into<Option<&'a Tensor>>,
    minlength: i64,
) -> Result<Tensor> {
    input.bincount(weights, minlength)
}

/// The products of two batches of matrices, `[b, n, m]` and `[b, m, p]`.
#[track_caller]
pub fn bmm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.bmm(mat2)
}

/// Views of the tensors in the shape they broadcast to.
#[track_caller]
pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
    Tensor::broadcast_tensors(tensors)
}

/// A view in which dimensions of size 1 are repeated to `shape` (`torch.broadcast_to`).
#[track_caller]
pub fn broadcast_to(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.broadcast_to(shape)
}

/// The bucket between the sorted 1-d `boundaries` that each element falls into
/// (`torch.bucketize`).
#[track_caller]
pub fn bucketize(input: &Tensor, boundaries: &Tensor, right: bool) -> Result<Tensor> {
    input.bucketize(boundaries, right)
}

/// Every combination of one element of each vector, as rows; a single vector comes back as it
/// is.
#[track_caller]
pub fn cartesian_prod<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::cartesian_prod(tensors)
}

/// The tensors one after the other along a dimension (`torch.cat`); their other sizes must be
/// equal, their dtypes promote. Empty vectors are left out.
#[track_caller]
pub fn cat<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::cat(tensors, dim)
}

/// Views of equal parts of a dimension, at most `chunks` of them; the last may be smaller.
#[track_caller]
pub fn chunk(input: &Tensor, chunks: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.chunk(chunks, dim)
}

/// Each element limited to [`min`, `max`] (`torch.clamp`): numbers, tensors, or `None` for no
/// limit. `max` wins where the limits cross; nan stays.
#[track_caller]
pub fn clamp<'a>(
    input: &Tensor,
    min: impl IntoLimit<'a>,
    max: impl IntoLimit<'a>,
) -> Result<Tensor> {
    input.clamp(min, max)
}

/// Each element, or `max` where that is smaller; nan stays.
#[track_caller]
pub fn clamp_max<'a>(input: &Tensor, max: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.clamp_max(max)
}

/// Each element, or `min` where that is larger; nan stays.
#[track_caller]
pub fn clamp_min<'a>(input: &Tensor, min: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.clamp_min(min)
}

/// The tensors side by side, vectors as columns.
#[track_caller]
pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::column_stack(tensors)
}

/// The complex conjugate; a real tensor comes back as it is.
#[track_caller]
pub fn conj(input: &Tensor) -> Result<Tensor> {
    input.conj()
}

/// The tensor with a number around it: `pad` holds pairs (before, behind) for the last
/// dimension, the one before it, and so on; negative counts cut off.
#[track_caller]
pub fn constant_pad_nd(
    input: &Tensor,
    pad: impl IntoShape,
    value: impl Into<Scalar>,
) -> Result<Tensor> {
    input.constant_pad_nd(pad, value)
}

/// The tensor itself when it is row-major, else a row-major copy.
#[track_caller]
pub fn contiguous(input: &Tensor) -> Result<Tensor> {
    input.contiguous()
}

/// How many elements are not zero (int64).
#[track_caller]
pub fn count_nonzero(input: &Tensor) -> Result<Tensor> {
    input.count_nonzero()
}

/// The largest element up to each along a dimension, and its position.
#[track_caller]
pub fn cummax(input: &Tensor, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.cummax(dim)
}

/// The smallest element up to each along a dimension, and its position.
#[track_caller]
pub fn cummin(input: &Tensor, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.cummin(dim)
}

/// The product of all elements up to each along a dimension.
#[track_caller]
pub fn cumprod(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumprod(dim)
}

/// The sum of all elements up to each along a dimension.
#[track_caller]
pub fn cumsum(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumsum(dim)
}

/// The diagonal of a matrix as a copy, or the square matrix that has this vector on that
/// diagonal (`torch.diag`).
#[track_caller]
pub fn diag(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.diag(diagonal)
}

/// Matrices in the dimensions `dim1` and `dim2` of the result, whose diagonals are this
/// tensor's last dimension (`torch.diag_embed`).
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
#[track_caller]
pub fn diagflat(input: &Tensor, offset: impl IntoDim) -> Result<Tensor> {
    input.diagflat(offset)
}

/// A view of the main diagonal of the first two dimensions, as a last dimension.
#[track_caller]
pub fn diagonal(input: &Tensor) -> Result<Tensor> {
    input.diagonal()
}

/// Differences of neighbours along the last dimension.
#[track_caller]
pub fn diff(input: &Tensor) -> Result<Tensor> {
    input.diff()
}

/// The p-norm of the difference to another tensor, with which this one broadcasts.
#[track_caller]
pub fn dist(input: &Tensor, other: &Tensor, p: f64) -> Result<Tensor> {
    input.dist(other, p)
}

/// The sum of the products of two vectors.
#[track_caller]
pub fn dot(input: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    input.dot(tensor)
}

/// The tensors one behind the other: along the third dimension.
#[track_caller]
pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::dstack(tensors)
}

/// Whether both tensors have one shape and equal elements (`torch.equal`); dtypes promote.
#[track_caller]
pub fn equal(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.equal(other)
}

/// A view in which dimensions of size 1 are repeated; `-1` keeps a size.
#[track_caller]
pub fn expand(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.expand(shape)
}

/// A view expanded to another tensor's shape.
#[track_caller]
pub fn expand_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.expand_as(other)
}

/// A tensor of this one's shape and dtype that holds one number (or the value of a 0-d
/// tensor, through which gradients flow) everywhere.
#[track_caller]
pub fn fill<'a>(input: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.fill(value)
}

/// A copy in reversed order along `dims` (`torch.flip`).
#[track_caller]
pub fn flip(input: &Tensor, dims: impl IntoDims) -> Result<Tensor> {
    input.flip(dims)
}

/// A copy with the second dimension reversed (`torch.fliplr`).
#[track_caller]
pub fn fliplr(input: &Tensor) -> Result<Tensor> {
    input.fliplr()
}

/// A copy with the first dimension reversed (`torch.flipud`).
#[track_caller]
pub fn flipud(input: &Tensor) -> Result<Tensor> {
    input.flipud()
}

/// Powers computed in float64 or complex128, whatever the operands' dtypes.
#[track_caller]
pub fn float_power<'a>(input: &Tensor, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.float_power(exponent)
}

/// For every element of `index` (int64 or int32, as many dimensions), this tensor's element at
/// that position of `dim` (`torch.gather`).
#[track_caller]
pub fn gather(input: &Tensor, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
    input.gather(dim, index)
}

/// The tensors side by side: along the second dimension, vectors along the first.
#[track_caller]
pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::hstack(tensors)
}

/// A view of the imaginary parts (`torch.imag`); an error for a real tensor.
#[track_caller]
pub fn imag(input: &Tensor) -> Result<Tensor> {
    input.imag()
}

/// The elements that index tensors and masks name, one for each dimension from the first on,
/// `None` for all of a dimension (`x[indices]` with a list of tensors).
#[track_caller]
pub fn index(input: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    input.index(indices)
}

/// Adds `source` to the positions of `dim` that a 1-d index names (`torch.index_add`).
#[track_caller]
pub fn index_add(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    input.index_add(dim, index, source)
}

/// This tensor with `source` at the positions of `dim` that a 1-d index names
/// (`torch.index_copy`).
#[track_caller]
pub fn index_copy(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    input.index_copy(dim, index, source)
}

/// This tensor with one value (a number or a 0-d tensor) at the positions of `dim` that a 1-d
/// index names; negative ones count from the end (`torch.index_fill`).
#[track_caller]
pub fn index_fill<'a>(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    value: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.index_fill(dim, index, value)
}

/// This tensor with `values` at the elements that index tensors and masks name, written over
/// (of repeated ones the last stays) or, with `accumulate`, added (`torch.index_put`). The
/// values have this dtype and broadcast to what `x.index(indices)` gives.
#[track_caller]
pub fn index_put(
    input: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    input.index_put(indices, values, accumulate)
}

/// The positions of dimension `dim` that a 1-d index (int64 or int32) names, in its order
/// (`torch.index_select`).
#[track_caller]
pub fn index_select(input: &Tensor, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
    input.index_select(dim, index)
}

/// Sums of products along the last dimension of both, of shape `[..self, ..other]` without it.
#[track_caller]
pub fn inner(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.inner(other)
}

/// Whether the elements are equal within PyTorch's default tolerances (`torch.isclose`).
#[track_caller]
pub fn isclose(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.isclose(other)
}

/// The k-th smallest elements (from 1) along a dimension and their positions.
#[track_caller]
pub fn kthvalue(
    input: &Tensor,
    k: i64,
    dim: impl IntoDim,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.kthvalue(k, dim, keepdim)
}

/// The mean of the absolute differences (`torch.nn.functional.l1_loss`). The shapes broadcast.
#[track_caller]
pub fn l1_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    input.l1_loss(target)
}

/// `self + weight * (end - self)`; the weight is a number or a tensor.
#[track_caller]
pub fn lerp<'a>(input: &Tensor, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.lerp(end, weight)
}

/// Logarithm of the sum of exponentials of all elements up to each along a dimension.
#[track_caller]
pub fn logcumsumexp(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.logcumsumexp(dim)
}

/// `log(x / (1 - x))` of each element, the inverse of `sigmoid`.
#[track_caller]
pub fn logit(input: &Tensor) -> Result<Tensor> {
    input.logit()
}

/// Logarithm of the sum of exponentials over dimensions.
#[track_caller]
pub fn logsumexp(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.logsumexp(dims, keepdim)
}

/// This tensor with one value (a number or a 0-d tensor, converted to this dtype) where the
/// bool mask is true; shapes broadcast (`torch.masked_fill`).
#[track_caller]
pub fn masked_fill<'a>(
    input: &Tensor,
    mask: &Tensor,
    value: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.masked_fill(mask, value)
}

/// This tensor with the elements of `source`, in order, where the bool mask is true; shapes
/// broadcast (`torch.masked_scatter`).
#[track_caller]
pub fn masked_scatter(input: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    input.masked_scatter(mask, source)
}

/// The elements where the bool mask is true, 1-d, in row-major order; shapes broadcast
/// (`torch.masked_select`).
#[track_caller]
pub fn masked_select(input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    input.masked_select(mask)
}

/// The product of two tensors (`torch.matmul`): of vectors their inner product, of a matrix
/// and a vector or another matrix the product, and of more dimensions the products of the
/// matrices in the last two, for batch dimensions that broadcast. Dtypes must be equal.
#[track_caller]
pub fn matmul(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.matmul(other)
}

/// The largest of all elements, a 0-d tensor; NaN where there is one. An error of none.
#[track_caller]
pub fn max(input: &Tensor) -> Result<Tensor> {
    input.max()
}

/// Mean of all elements, a 0-d tensor; an error for integers.
#[track_caller]
pub fn mean(input: &Tensor) -> Result<Tensor> {
    input.mean()
}

/// The median of all elements, the lower of two, a 0-d tensor.
#[track_caller]
pub fn median(input: &Tensor) -> Result<Tensor> {
    input.median()
}

/// Views of vectors (or 0-d tensors) as the coordinates of a grid: `indexing` is `"ij"`
/// (rows first) or `"xy"` (columns first).
#[track_caller]
pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: &str) -> Result<Vec<Tensor>> {
    Tensor::meshgrid(tensors, indexing)
}

/// The smallest of all elements, a 0-d tensor; NaN where there is one. An error of none.
#[track_caller]
pub fn min(input: &Tensor) -> Result<Tensor> {
    input.min()
}

/// The product of two matrices.
#[track_caller]
pub fn mm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.mm(mat2)
}

/// The most frequent elements along a dimension, the smallest of several, and positions of
/// them.
#[track_caller]
pub fn mode(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.mode(dim, keepdim)
}

/// `movedim` under NumPy's name.
#[track_caller]
pub fn moveaxis(
    input: &Tensor,
    source: impl IntoDims,
    destination: impl IntoDims,
) -> Result<Tensor> {
    input.moveaxis(source, destination)
}

/// A view with the dimensions `source` moved to `destination`; the others keep their order.
#[track_caller]
pub fn movedim(
    input: &Tensor,
    source: impl IntoDims,
    destination: impl IntoDims,
) -> Result<Tensor> {
    input.movedim(source, destination)
}

/// The mean of the squared differences (`torch.nn.functional.mse_loss`). The shapes broadcast.
#[track_caller]
pub fn mse_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    input.mse_loss(target)
}

/// The elements sorted along the first dimension (`torch.msort`).
#[track_caller]
pub fn msort(input: &Tensor) -> Result<Tensor> {
    input.msort()
}

/// The product of a matrix and a vector.
#[track_caller]
pub fn mv(input: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.mv(vec)
}

/// Each element with nan replaced by 0 and the infinities by the dtype's largest and smallest
/// number (`torch.nan_to_num`).
#[track_caller]
pub fn nan_to_num(input: &Tensor) -> Result<Tensor> {
    input.nan_to_num()
}

/// Mean of all elements that are not NaN.
#[track_caller]
pub fn nanmean(input: &Tensor) -> Result<Tensor> {
    input.nanmean()
}

/// The median of all elements that are not NaN, a 0-d tensor.
#[track_caller]
pub fn nanmedian(input: &Tensor) -> Result<Tensor> {
    input.nanmedian()
}

/// Sum of all elements in which NaN counts as 0.
#[track_caller]
pub fn nansum(input: &Tensor) -> Result<Tensor> {
    input.nansum()
}

/// A view of `len` indices of a dimension from `start` on.
#[track_caller]
pub fn narrow(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    len: impl IntoDim,
) -> Result<Tensor> {
    input.narrow(dim, start, len)
}

/// The positions of the elements that are not 0, one row each: int64 `[n, ndim]`
/// (`torch.nonzero`).
#[track_caller]
pub fn nonzero(input: &Tensor) -> Result<Tensor> {
    input.nonzero()
}

/// Euclidean norm of all elements, a 0-d tensor.
#[track_caller]
pub fn norm(input: &Tensor) -> Result<Tensor> {
    input.norm()
}

/// The matrix of all products of elements of two vectors.
#[track_caller]
pub fn outer(input: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.outer(vec2)
}

/// Product of all elements, a 0-d tensor; integers and bools multiply in int64.
#[track_caller]
pub fn prod(input: &Tensor) -> Result<Tensor> {
    input.prod()
}

/// This tensor with `source` at positions of the flattened tensor, written over or, with
/// `accumulate`, added (`torch.put`).
#[track_caller]
pub fn put(input: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    input.put(index, source, accumulate)
}

/// The elements in one dimension; a view where the layout allows it.
#[track_caller]
pub fn ravel(input: &Tensor) -> Result<Tensor> {
    input.ravel()
}

/// A view of the real parts (`torch.real`); a real tensor comes back as it is.
#[track_caller]
pub fn real(input: &Tensor) -> Result<Tensor> {
    input.real()
}

/// The tensor repeated along each dimension (`Tensor.repeat`); counts beyond its rank add
/// leading dimensions.
#[track_caller]
pub fn repeat(input: &Tensor, repeats: impl IntoShape) -> Result<Tensor> {
    input.repeat(repeats)
}

/// Every position of `dim` repeated in place: `repeats` times, or as often as a 1-d tensor
/// says for each; without `dim`, of the flattened tensor (`torch.repeat_interleave`).
#[track_caller]
pub fn repeat_interleave<'a>(
    input: &Tensor,
    repeats: impl Into<Operand<'a>>,
    dim: impl Into<Option<i64>>,
) -> Result<Tensor> {
    input.repeat_interleave(repeats, dim)
}

/// The elements in another tensor's shape.
#[track_caller]
pub fn reshape_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.reshape_as(other)
}

/// The elements shifted along `dims`, one shift for each; without dimensions (`()`), of the
/// flattened tensor (`torch.roll`).
#[track_caller]
pub fn roll(input: &Tensor, shifts: impl IntoDims, dims: impl IntoDims) -> Result<Tensor> {
    input.roll(shifts, dims)
}

/// This tensor with the elements of `src` (a tensor of the same dtype, or one number) at the
/// positions of `dim` that `index` names per element (`torch.scatter`).
#[track_caller]
pub fn scatter<'a>(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.scatter(dim, index, src)
}

/// Adds the elements of `src` to the positions of `dim` that `index` names per element
/// (`torch.scatter_add`).
#[track_caller]
pub fn scatter_add(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: &Tensor,
) -> Result<Tensor> {
    input.scatter_add(dim, index, src)
}

/// Reduces the elements of `src` into the positions of `dim` that `index` names per element:
/// `reduce` is `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`; this tensor's own elements
/// take part with `include_self` (`torch.scatter_reduce`).
#[track_caller]
pub fn scatter_reduce(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    input.scatter_reduce(dim, index, src, reduce, include_self)
}

/// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence
/// to keep it sorted: before equal elements, or with `right` after them
/// (`torch.searchsorted`). The sequence is 1-d, or has the values' leading dimensions.
#[track_caller]
pub fn searchsorted<'a>(
    input: &Tensor,
    values: impl Into<Operand<'a>>,
    right: bool,
) -> Result<Tensor> {
    input.searchsorted(values, right)
}

/// A view of one index of a dimension, which is removed.
#[track_caller]
pub fn select(input: &Tensor, dim: impl IntoDim, index: impl IntoDim) -> Result<Tensor> {
    input.select(dim, index)
}

/// A view of the indices from `start` to below `end`, as Python's slices clamp them.
#[track_caller]
pub fn slice(
    input: &Tensor,
    dim: impl IntoDim,
    start: impl IntoDim,
    end: impl IntoDim,
) -> Result<Tensor> {
    input.slice(dim, start, end)
}

/// The elements sorted along `dim`, and the positions they had (int64); stable, NaN is the
/// greatest (`torch.sort`).
#[track_caller]
pub fn sort(input: &Tensor, dim: impl IntoDim, descending: bool) -> Result<(Tensor, Tensor)> {
    input.sort(dim, descending)
}

/// Views of `split_size` indices of a dimension each; the last may have fewer.
#[track_caller]
pub fn split(input: &Tensor, split_size: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.split(split_size, dim)
}

/// Views of as many indices of a dimension as each size says; they must add up.
#[track_caller]
pub fn split_with_sizes(
    input: &Tensor,
    sizes: impl IntoShape,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.split_with_sizes(sizes, dim)
}

/// The tensors, all of one shape, side by side along a new dimension (`torch.stack`).
#[track_caller]
pub fn stack<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::stack(tensors, dim)
}

/// Unbiased standard deviation of all elements, a 0-d tensor; an error for integers.
#[track_caller]
pub fn std(input: &Tensor) -> Result<Tensor> {
    input.std()
}

/// Unbiased standard deviation and mean of all elements.
#[track_caller]
pub fn std_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.std_mean()
}

/// Sum of all elements, a 0-d tensor; integers and bools add up in int64.
#[track_caller]
pub fn sum(input: &Tensor) -> Result<Tensor> {
    input.sum()
}

/// Sums what broadcasting from `shape` to this tensor's shape would repeat; an error where
/// `shape` does not broadcast to it.
#[track_caller]
pub fn sum_to_size(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.sum_to_size(shape)
}

/// `transpose` under NumPy's name.
#[track_caller]
pub fn swapaxes(input: &Tensor, axis0: impl IntoDim, axis1: impl IntoDim) -> Result<Tensor> {
    input.swapaxes(axis0, axis1)
}

/// `transpose` under another name.
#[track_caller]
pub fn swapdims(input: &Tensor, dim0: impl IntoDim, dim1: impl IntoDim) -> Result<Tensor> {
    input.swapdims(dim0, dim1)
}

/// The transpose of a matrix; a vector or 0-d tensor as it is.
#[track_caller]
pub fn t(input: &Tensor) -> Result<Tensor> {
    input.t()
}

/// The elements at positions of the flattened tensor, in the index's shape; negative ones
/// count from the end (`torch.take`).
#[track_caller]
pub fn take(input: &Tensor, index: &Tensor) -> Result<Tensor> {
    input.take(index)
}

/// The elements at `indices` (int64, negative from the end) along `dim`, both broadcast in the
/// other dimensions; without `dim`, of the flattened tensor (`torch.take_along_dim`).
#[track_caller]
pub fn take_along_dim(
    input: &Tensor,
    indices: &Tensor,
    dim: impl Into<Option<i64>>,
) -> Result<Tensor> {
    input.take_along_dim(indices, dim)
}

/// Views of exactly `sections` parts of a dimension; the first ones are larger by one where
/// they cannot be equal.
#[track_caller]
pub fn tensor_split(
    input: &Tensor,
    sections: impl IntoDim,
    dim: impl IntoDim,
) -> Result<Vec<Tensor>> {
    input.tensor_split(sections, dim)
}

/// Sums of products over dimensions `dims` of this tensor and `other_dims` of the other
/// (`torch.tensordot`), of the remaining dimensions of both.
#[track_caller]
pub fn tensordot(
    input: &Tensor,
    other: &Tensor,
    dims: &[i64],
    other_dims: &[i64],
) -> Result<Tensor> {
    input.tensordot(other, dims, other_dims)
}

/// `repeat`, where counts may be fewer than dimensions: they are those of the last
/// ones.
#[track_caller]
pub fn tile(input: &Tensor, dims: impl IntoShape) -> Result<Tensor> {
    input.tile(dims)
}

/// The `k` largest elements along the last dimension, sorted, and their positions
/// (`torch.topk`).
#[track_caller]
pub fn topk(input: &Tensor, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.topk(k)
}

/// Sum of the diagonal of a matrix, a 0-d tensor.
#[track_caller]
pub fn trace(input: &Tensor) -> Result<Tensor> {
    input.trace()
}

/// The lower triangle of the matrices in the last two dimensions, up to `diagonal`; zeros
/// elsewhere (`torch.tril`).
#[track_caller]
pub fn tril(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.tril(diagonal)
}

/// The upper triangle of the matrices in the last two dimensions, from `diagonal` on; zeros
/// elsewhere (`torch.triu`).
#[track_caller]
pub fn triu(input: &Tensor, diagonal: impl IntoDim) -> Result<Tensor> {
    input.triu(diagonal)
}

/// A view of each index of a dimension, which is removed.
#[track_caller]
pub fn unbind(input: &Tensor, dim: impl IntoDim) -> Result<Vec<Tensor>> {
    input.unbind(dim)
}

/// Dimension `dim` made several of these sizes, one of which may be `-1`.
#[track_caller]
pub fn unflatten(input: &Tensor, dim: impl IntoDim, sizes: impl IntoShape) -> Result<Tensor> {
    input.unflatten(dim, sizes)
}

/// A view of all windows of `size` indices of a dimension, `step` apart, as a last dimension.
#[track_caller]
pub fn unfold(
    input: &Tensor,
    dimension: impl IntoDim,
    size: impl IntoDim,
    step: impl IntoDim,
) -> Result<Tensor> {
    input.unfold(dimension, size, step)
}

/// Unbiased variance of all elements, a 0-d tensor; an error for integers.
#[track_caller]
pub fn var(input: &Tensor) -> Result<Tensor> {
    input.var()
}

/// Unbiased variance and mean of all elements.
#[track_caller]
pub fn var_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.var_mean()
}

/// `dot` with this vector conjugated.
#[track_caller]
pub fn vdot(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.vdot(other)
}

/// A view of another shape; an error where that needs a copy. One size may be `-1`.
#[track_caller]
pub fn view(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.view(shape)
}

/// A view of another tensor's shape; an error where that needs a copy.
#[track_caller]
pub fn view_as(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.view_as(other)
}

/// A view of a real tensor with a last dimension of 2 as a complex one.
#[track_caller]
pub fn view_as_complex(input: &Tensor) -> Result<Tensor> {
    input.view_as_complex()
}

/// A view of a complex tensor as a real one with a last dimension of 2.
#[track_caller]
pub fn view_as_real(input: &Tensor) -> Result<Tensor> {
    input.view_as_real()
}

/// The tensors one above the other: along the first dimension, vectors as rows.
#[track_caller]
pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::vstack(tensors)
}

/// A copy of the tensor with its own memory (the method is [`copy`](Tensor::copy)).
#[track_caller]
pub fn clone(input: &Tensor) -> Result<Tensor> {
    input.copy()
}

/// Another name of [`cat`].
#[track_caller]
pub fn concat<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    cat(tensors, dim)
}

/// Another name of [`cat`].
#[track_caller]
pub fn concatenate<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    cat(tensors, dim)
}

/// Another name of [`vstack`].
#[track_caller]
pub fn row_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    vstack(tensors)
}

/// The elements of `input` where `condition` holds, those of `other` elsewhere.
#[track_caller]
pub fn where_<'a, 'b>(
    condition: &Tensor,
    input: impl Into<Operand<'a>>,
    other: impl Into<Operand<'b>>,
) -> Result<Tensor> {
    Tensor::where_(condition, input, other)
}

/// Which elements are among the test elements; with `invert`, which are not.
#[track_caller]
pub fn isin<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
    invert: bool,
) -> Result<Tensor> {
    call(
        "isin",
        &[value(elements.into()), value(test_elements.into())],
        &[("invert", invert.into())],
    )
}
