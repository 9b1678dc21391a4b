//! Shapes, joins and splits, and other methods as functions.

use std::borrow::Borrow;

use torsh_tensor::{
    AddOptions, AddcmulOptions, DiagonalOptions, DivOptions, IntoDim, IntoDims, IntoLimit,
    IntoShape, LogitOptions, NanToNumOptions, Operand, Result, Scalar, Tensor,
};

use crate::{IscloseOptions, IsinOptions, tensor};

/// `self + tensor1 / tensor2`.
#[track_caller]
pub fn addcdiv(input: &Tensor, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
    input.addcdiv(tensor1, tensor2)
}

/// `self + value * tensor1 / tensor2`.
#[track_caller]
pub fn addcdiv_with(
    input: &Tensor,
    tensor1: &Tensor,
    tensor2: &Tensor,
    options: AddcmulOptions,
) -> Result<Tensor> {
    input.addcdiv_with(tensor1, tensor2, options)
}

/// `self + tensor1 * tensor2`.
#[track_caller]
pub fn addcmul(input: &Tensor, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
    input.addcmul(tensor1, tensor2)
}

/// `self + value * tensor1 * tensor2`.
#[track_caller]
pub fn addcmul_with(
    input: &Tensor,
    tensor1: &Tensor,
    tensor2: &Tensor,
    options: AddcmulOptions,
) -> Result<Tensor> {
    input.addcmul_with(tensor1, tensor2, options)
}

/// The last two dimensions swapped, and complex numbers conjugated.
#[track_caller]
pub fn adjoint(input: &Tensor) -> Result<Tensor> {
    input.adjoint()
}

/// The angle of each complex element in radians; of real ones 0, or pi for negative ones.
#[track_caller]
pub fn angle(input: &Tensor) -> Result<Tensor> {
    input.angle()
}

/// A view of this tensor's storage with its own size, stride and offset (`torch.as_strided`);
/// the offset is this tensor's.
#[track_caller]
pub fn as_strided(input: &Tensor, size: impl IntoShape, stride: impl IntoShape) -> Result<Tensor> {
    input.as_strided(size, stride)
}

/// A 0-d tensor with one dimension, others as they are.
#[track_caller]
pub fn atleast_1d(input: &Tensor) -> Result<Tensor> {
    input.atleast_1d()
}

/// The tensor with at least two dimensions; a vector becomes a row.
#[track_caller]
pub fn atleast_2d(input: &Tensor) -> Result<Tensor> {
    input.atleast_2d()
}

/// The tensor with at least three dimensions; a vector becomes `[1, n, 1]`, a matrix
/// `[n, m, 1]`.
#[track_caller]
pub fn atleast_3d(input: &Tensor) -> Result<Tensor> {
    input.atleast_3d()
}

/// Views of the tensors in the shape they broadcast to.
#[track_caller]
pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
    Tensor::broadcast_tensors(tensors)
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

/// A view of the diagonal of dimensions `dim1` and `dim2`, `offset` above the main one (below
/// it where negative), as a last dimension. Writing into it writes the tensor's diagonal.
#[track_caller]
pub fn diagonal_with(input: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
    input.diagonal_with(options)
}

/// The quotient rounded by `"trunc"` (towards zero) or `"floor"` (down), or not at all
/// (`torch.div` with `rounding_mode`).
#[track_caller]
pub fn div_with<'a>(
    input: &Tensor,
    other: impl Into<Operand<'a>>,
    options: DivOptions,
) -> Result<Tensor> {
    input.div_with(other, options)
}

/// The tensors one behind the other: along the third dimension.
#[track_caller]
pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    Tensor::dstack(tensors)
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

/// Whether the elements are equal within PyTorch's default tolerances (`torch.isclose`).
#[track_caller]
pub fn isclose(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.isclose(other)
}

/// Whether the elements differ by at most `atol + rtol * |other|`; two nans are close where
/// `equal_nan`.
#[track_caller]
pub fn isclose_with(input: &Tensor, other: &Tensor, options: IscloseOptions) -> Result<Tensor> {
    input.isclose_with(other, options)
}

/// `self + weight * (end - self)`; the weight is a number or a tensor.
#[track_caller]
pub fn lerp<'a>(input: &Tensor, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.lerp(end, weight)
}

/// `log(x / (1 - x))` of each element, the inverse of `sigmoid`.
#[track_caller]
pub fn logit(input: &Tensor) -> Result<Tensor> {
    input.logit()
}

/// `logit` of each element limited to [`eps`, `1 - eps`].
#[track_caller]
pub fn logit_with(input: &Tensor, options: LogitOptions) -> Result<Tensor> {
    input.logit_with(options)
}

/// Views of vectors (or 0-d tensors) as the coordinates of a grid: `indexing` is `"ij"`
/// (rows first) or `"xy"` (columns first).
#[track_caller]
pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: &str) -> Result<Vec<Tensor>> {
    Tensor::meshgrid(tensors, indexing)
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

/// Each element with nan replaced by 0 and the infinities by the dtype's largest and smallest
/// number (`torch.nan_to_num`).
#[track_caller]
pub fn nan_to_num(input: &Tensor) -> Result<Tensor> {
    input.nan_to_num()
}

/// `nan_to_num` with other replacements for nan, infinity and minus infinity.
#[track_caller]
pub fn nan_to_num_with(input: &Tensor, options: NanToNumOptions) -> Result<Tensor> {
    input.nan_to_num_with(options)
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

/// `other - self` (`torch.rsub`).
#[track_caller]
pub fn rsub<'a>(input: &Tensor, other: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.rsub(other)
}

/// `other - alpha * self` (`torch.rsub` with `alpha`).
#[track_caller]
pub fn rsub_with<'a>(
    input: &Tensor,
    other: impl Into<Operand<'a>>,
    options: AddOptions,
) -> Result<Tensor> {
    input.rsub_with(other, options)
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

/// The transpose of a matrix; a vector or 0-d tensor as it is.
#[track_caller]
pub fn t(input: &Tensor) -> Result<Tensor> {
    input.t()
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

/// `repeat`, where counts may be fewer than dimensions: they are those of the last
/// ones.
#[track_caller]
pub fn tile(input: &Tensor, dims: impl IntoShape) -> Result<Tensor> {
    input.tile(dims)
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

/// Parts along the second dimension (of a vector, the only one), in so many sections.
#[track_caller]
pub fn hsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.hsplit(sections)
}

/// Parts along the first dimension, in so many sections.
#[track_caller]
pub fn vsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.vsplit(sections)
}

/// Parts along the third dimension, in so many sections.
#[track_caller]
pub fn dsplit(input: &Tensor, sections: impl IntoDim) -> Result<Vec<Tensor>> {
    input.dsplit(sections)
}

/// A copy of the tensor with its own memory (the method is [`copy`](Tensor::copy)).
#[track_caller]
pub fn clone(input: &Tensor) -> Result<Tensor> {
    input.copy()
}

/// The elements of `input` where `condition` holds, those of `other` elsewhere.
#[track_caller]
pub fn where_<'a>(
    condition: &Tensor,
    input: impl Into<Operand<'a>>,
    other: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    Tensor::where_(condition, input, other)
}

/// Which elements are among the test elements; with `invert`, which are not.
#[track_caller]
pub fn isin<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
) -> Result<Tensor> {
    isin_with(elements, test_elements, IsinOptions::default())
}

/// [`isin`], or whether it is not.
#[track_caller]
pub fn isin_with<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
    options: IsinOptions,
) -> Result<Tensor> {
    tensor!(elements);
    tensor!(test_elements);
    Tensor::isin_with(elements, test_elements, options)
}
