//! Selecting, writing and sorting elements.

use torsh_tensor::{AddOptions, IntoDim, Operand, Result, Tensor};

pub use torsh_tensor::{
    BincountOptions, IscloseOptions, IsinOptions, ScatterReduceOptions, SearchsortedOptions,
    SortOptions, TopkOptions, Unique, UniqueConsecutiveOptions, UniqueOptions,
};

/// Whether `|self - other| <= atol + rtol * |other|` everywhere, with PyTorch's tolerances
/// 1e-5 and 1e-8 (`torch.allclose`).
#[track_caller]
pub fn allclose(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.allclose(other)
}

/// `allclose` with other tolerances; with `equal_nan`, NaN equals NaN.
#[track_caller]
pub fn allclose_with(input: &Tensor, other: &Tensor, options: IscloseOptions) -> Result<bool> {
    input.allclose_with(other, options)
}

/// The positions of the elements in sorted order along the last dimension (`torch.argsort`).
#[track_caller]
pub fn argsort(input: &Tensor) -> Result<Tensor> {
    input.argsort()
}

/// [`argsort`] along another dimension, or the other way round.
#[track_caller]
pub fn argsort_with(input: &Tensor, options: SortOptions) -> Result<Tensor> {
    input.argsort_with(options)
}

/// How often each integer from 0 on occurs in this 1-d tensor (int64; `torch.bincount`).
#[track_caller]
pub fn bincount(input: &Tensor) -> Result<Tensor> {
    input.bincount()
}

/// [`bincount`] with weights that are summed instead, or with at least so many bins.
#[track_caller]
pub fn bincount_with(input: &Tensor, options: BincountOptions) -> Result<Tensor> {
    input.bincount_with(options)
}

/// The bucket between the sorted 1-d `boundaries` that each element falls into
/// (`torch.bucketize`).
#[track_caller]
pub fn bucketize(input: &Tensor, boundaries: &Tensor) -> Result<Tensor> {
    input.bucketize(boundaries)
}

/// [`bucketize`] with a boundary in the bucket before it, or as int32.
#[track_caller]
pub fn bucketize_with(
    input: &Tensor,
    boundaries: &Tensor,
    options: SearchsortedOptions,
) -> Result<Tensor> {
    input.bucketize_with(boundaries, options)
}

/// Whether both tensors have one shape and equal elements (`torch.equal`); dtypes promote.
#[track_caller]
pub fn equal(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.equal(other)
}

/// For every element of `index` (int64 or int32, as many dimensions), this tensor's element at
/// that position of `dim` (`torch.gather`).
#[track_caller]
pub fn gather(input: &Tensor, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
    input.gather(dim, index)
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

/// `index_add` of `alpha` times the source.
#[track_caller]
pub fn index_add_with(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
    options: AddOptions,
) -> Result<Tensor> {
    input.index_add_with(dim, index, source, options)
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

/// The elements sorted along the first dimension (`torch.msort`).
#[track_caller]
pub fn msort(input: &Tensor) -> Result<Tensor> {
    input.msort()
}

/// The positions of the elements that are not 0, one row each: int64 `[n, ndim]`
/// (`torch.nonzero`).
#[track_caller]
pub fn nonzero(input: &Tensor) -> Result<Tensor> {
    input.nonzero()
}

/// This tensor with `source` at positions of the flattened tensor, written over or, with
/// `accumulate`, added (`torch.put`).
#[track_caller]
pub fn put(input: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    input.put(index, source, accumulate)
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
/// `reduce` is `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`, in which this tensor's own
/// elements take part (`torch.scatter_reduce`).
#[track_caller]
pub fn scatter_reduce(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    input.scatter_reduce(dim, index, src, reduce)
}

/// [`scatter_reduce`], where this tensor's own elements may not take part.
#[track_caller]
pub fn scatter_reduce_with(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    options: ScatterReduceOptions,
) -> Result<Tensor> {
    input.scatter_reduce_with(dim, index, src, reduce, options)
}

/// `scatter` that adds (`"add"`) or multiplies (`"multiply"`) what it writes into
/// what is there; not differentiable, as in PyTorch.
#[track_caller]
pub fn scatter_with<'a>(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    src: impl Into<Operand<'a>>,
    reduce: &str,
) -> Result<Tensor> {
    input.scatter_with(dim, index, src, reduce)
}

/// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence
/// to keep it sorted, before equal elements (`torch.searchsorted`). The sequence is 1-d, or has
/// the values' leading dimensions.
#[track_caller]
pub fn searchsorted<'a>(input: &Tensor, values: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.searchsorted(values)
}

/// [`searchsorted`] behind equal elements, as int32, or in a sequence that another tensor sorts.
#[track_caller]
pub fn searchsorted_with<'a>(
    input: &Tensor,
    values: impl Into<Operand<'a>>,
    options: SearchsortedOptions,
) -> Result<Tensor> {
    input.searchsorted_with(values, options)
}

/// The elements sorted along the last dimension, and the positions they had (int64); stable, NaN
/// is the greatest (`torch.sort`).
#[track_caller]
pub fn sort(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.sort()
}

/// [`sort`] along another dimension, or the other way round.
#[track_caller]
pub fn sort_with(input: &Tensor, options: SortOptions) -> Result<(Tensor, Tensor)> {
    input.sort_with(options)
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

/// The `k` largest elements along the last dimension, sorted, and their positions
/// (`torch.topk`).
#[track_caller]
pub fn topk(input: &Tensor, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.topk(k)
}

/// [`topk`] along another dimension, or of the smallest.
#[track_caller]
pub fn topk_with(
    input: &Tensor,
    k: impl IntoDim,
    options: TopkOptions,
) -> Result<(Tensor, Tensor)> {
    input.topk_with(k, options)
}

/// The distinct elements, sorted, in one dimension (`torch.unique`).
#[track_caller]
pub fn unique(input: &Tensor) -> Result<Tensor> {
    input.unique()
}

/// [`unique`] of the slices along a dimension, or with the places of the elements and their
/// numbers.
#[track_caller]
pub fn unique_with(input: &Tensor, options: UniqueOptions) -> Result<Unique> {
    input.unique_with(options)
}

/// The elements in one dimension without those equal to the one before
/// (`torch.unique_consecutive`).
#[track_caller]
pub fn unique_consecutive(input: &Tensor) -> Result<Tensor> {
    input.unique_consecutive()
}

/// [`unique_consecutive`] of the slices along a dimension, or with the places of the elements and
/// the lengths of the runs.
#[track_caller]
pub fn unique_consecutive_with(
    input: &Tensor,
    options: UniqueConsecutiveOptions,
) -> Result<Unique> {
    input.unique_consecutive_with(options)
}
