//! Selecting, writing and sorting elements.

use torsh_tensor::{AddOptions, IntoDim, Operand, Result, Tensor};

pub use torsh_tensor::{
    BincountOptions, IscloseOptions, IsinOptions, ScatterReduceOptions, SearchsortedOptions,
    SortOptions, TopkOptions, Unique, UniqueConsecutiveOptions, UniqueOptions,
};

/// Whether `|input - other| <= 1e-8 + 1e-5 * |other|` everywhere (`torch.allclose`).
///
/// The shapes broadcast. An error where they do not, or where the dtypes differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::allclose(&tensor![1.0, 2.0], &tensor![1.000001, 2.0])?);
/// assert!(!F::allclose(&tensor![1.0, 2.0], &tensor![1.1, 2.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn allclose(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.allclose(other)
}

/// [`allclose`] with other tolerances; with `equal_nan`, nan equals nan.
///
/// An error for negative tolerances.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::IscloseOptions::new().atol(0.2);
/// assert!(F::allclose_with(&tensor![1.0, 2.0], &tensor![1.1, 2.0], options)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn allclose_with(input: &Tensor, other: &Tensor, options: IscloseOptions) -> Result<bool> {
    input.allclose_with(other, options)
}

/// The positions of the elements in sorted order along the last dimension (int64; `torch.argsort`).
///
/// The result has the operand's shape. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argsort(&tensor![30, 10, 20])?, tensor![1, 2, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argsort(input: &Tensor) -> Result<Tensor> {
    input.argsort()
}

/// [`argsort`] along another dimension, or the other way round.
///
/// An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argsort_with(&tensor![30, 10, 20], F::SortOptions::new().descending(true))?, tensor![0, 2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argsort_with(input: &Tensor, options: SortOptions) -> Result<Tensor> {
    input.argsort_with(options)
}

/// How often each integer from 0 on occurs in this 1-d tensor (int64; `torch.bincount`).
///
/// The result has one element more than the largest integer. An error for other dtypes, other
/// dimensions, and negative integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::bincount(&tensor![0, 1, 1, 3])?, tensor![1, 2, 0, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bincount(input: &Tensor) -> Result<Tensor> {
    input.bincount()
}

/// [`bincount`] with weights that are summed instead, or with at least `minlength` bins.
///
/// Weights have the operand's shape; float32 ones give float32, others float64.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weights = tensor![0.5, 1.0, 2.0];
/// let options = F::BincountOptions::new().weights(&weights).minlength(3);
/// assert_eq!(F::bincount_with(&tensor![0, 1, 1], options)?, tensor![0.5, 3.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bincount_with(input: &Tensor, options: BincountOptions) -> Result<Tensor> {
    input.bincount_with(options)
}

/// The bucket between the sorted 1-d `boundaries` that each element falls into (`torch.bucketize`):
/// the number of boundaries below it.
///
/// An int64 tensor of the operand's shape. An error where `boundaries` is not 1-d, and for complex
/// tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::bucketize(&tensor![0, 2, 5], &tensor![1, 2, 3])?, tensor![0, 1, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bucketize(input: &Tensor, boundaries: &Tensor) -> Result<Tensor> {
    input.bucketize(boundaries)
}

/// [`bucketize`] with a boundary in the bucket before it (`right`), or as int32.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let right = F::SearchsortedOptions::new().right(true);
/// assert_eq!(F::bucketize_with(&tensor![0, 2, 5], &tensor![1, 2, 3], right)?, tensor![0, 2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bucketize_with(
    input: &Tensor,
    boundaries: &Tensor,
    options: SearchsortedOptions,
) -> Result<Tensor> {
    input.bucketize_with(boundaries, options)
}

/// Whether both tensors have one shape and equal elements (`torch.equal`); dtypes promote.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::equal(&tensor![1, 2], &tensor![1.0, 2.0])?);
/// assert!(!F::equal(&tensor![1, 2], &tensor![[1, 2]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn equal(input: &Tensor, other: &Tensor) -> Result<bool> {
    input.equal(other)
}

/// For every element of `index` (int64 or int32, as many dimensions), this tensor's element at that
/// position of `dim` (`torch.gather`).
///
/// The result has the shape of `index`, which in other dimensions may be smaller than the tensor's.
/// An error for larger ones, and for indices out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::gather(&tensor![[1, 2], [3, 4]], 1, &tensor![[0, 0], [1, 0]])?, tensor![[1, 1], [4, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gather(input: &Tensor, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
    input.gather(dim, index)
}

/// The elements that index tensors and masks name, one for each dimension from the first on, `None`
/// for all of a dimension (`x[indices]` with a list of tensors).
///
/// The index tensors broadcast against each other. An error for too many of them, for indices out
/// of range, and for masks of other shapes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(F::index(&x, &[Some(tensor![0, 1]), Some(tensor![1, 0])])?, tensor![2, 3]);
/// assert_eq!(F::index(&x, &[None, Some(tensor![1])])?, tensor![[2], [4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn index(input: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    input.index(indices)
}

/// Adds `source` to the positions of `dim` that a 1-d index (int64 or int32) names
/// (`torch.index_add`).
///
/// `source` has this tensor's dtype and, but for `dim`, its shape; an error for others and for
/// indices out of range. A position named twice gets both.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::index_add(&tensor![1, 1, 1], 0, &tensor![0, 2, 0], &tensor![10, 20, 30])?, tensor![41, 1, 21]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn index_add(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    input.index_add(dim, index, source)
}

/// [`index_add`] of `alpha` times the source.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::AddOptions::new().alpha(2);
/// assert_eq!(F::index_add_with(&tensor![1, 1, 1], 0, &tensor![0, 2], &tensor![10, 20], options)?, tensor![21, 1, 41]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// This tensor with `source` at the positions of `dim` that a 1-d int64 index names
/// (`torch.index_copy`).
///
/// `source` has this tensor's dtype and, but for `dim`, its shape; an error for others and for
/// indices out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::index_copy(&tensor![1, 2, 3], 0, &tensor![2, 0], &tensor![30, 10])?, tensor![10, 2, 30]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
/// int64 index names; negative ones count from the end (`torch.index_fill`).
///
/// Shape and dtype stay. An error for indices out of range, and for a value of more dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::index_fill(&tensor![1, 2, 3], 0, &tensor![0, 2], 9)?, tensor![9, 2, 9]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn index_fill<'a>(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    value: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.index_fill(dim, index, value)
}

/// This tensor with `values` at the elements that index tensors and masks name, written over (of
/// repeated ones the last stays) or, with `accumulate`, added (`torch.index_put`).
///
/// The values have this dtype and broadcast to what [`index`] gives; an error for others and for
/// indices out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let at = [Some(tensor![0, 0, 2])];
/// assert_eq!(F::index_put(&tensor![1, 2, 3], &at, &tensor![10, 20, 30], true)?, tensor![31, 2, 33]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
///
/// An error for an index of more dimensions, and for indices out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::index_select(&tensor![[1, 2], [3, 4]], 1, &tensor![1, 0, 1])?, tensor![[2, 1, 2], [4, 3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn index_select(input: &Tensor, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
    input.index_select(dim, index)
}

/// This tensor with one value (a number or a 0-d tensor, converted to this dtype) where the bool
/// mask is true; shapes broadcast (`torch.masked_fill`).
///
/// An error for a mask of another dtype, and for a value of more dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, -2.0, 3.0];
/// assert_eq!(F::masked_fill(&x, &x.lt(0)?, 0.0)?, tensor![1.0, 0.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
///
/// An error for a mask or source of another dtype, and for a source with too few elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let mask = tensor![true, false, true];
/// assert_eq!(F::masked_scatter(&tensor![1, 2, 3], &mask, &tensor![10, 20])?, tensor![10, 2, 20]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn masked_scatter(input: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    input.masked_scatter(mask, source)
}

/// The elements where the bool mask is true, 1-d, in row-major order; shapes broadcast
/// (`torch.masked_select`).
///
/// Keeps the dtype. An error for a mask of another dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1, -2], [-3, 4]];
/// assert_eq!(F::masked_select(&x, &x.gt(0)?)?, tensor![1, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn masked_select(input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    input.masked_select(mask)
}

/// The elements sorted along the first dimension (`torch.msort`).
///
/// Shape and dtype stay. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::msort(&tensor![[3, 1], [2, 4]])?, tensor![[2, 1], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn msort(input: &Tensor) -> Result<Tensor> {
    input.msort()
}

/// The positions of the elements that are not 0, one row each: int64 `[n, ndim]` (`torch.nonzero`).
///
/// Any shape and dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nonzero(&tensor![[0, 7], [8, 0]])?, tensor![[0, 1], [1, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nonzero(input: &Tensor) -> Result<Tensor> {
    input.nonzero()
}

/// This tensor with `source` at positions of the flattened tensor, written over or, with
/// `accumulate`, added (`torch.put`).
///
/// `source` has this dtype and as many elements as `index`; an error for others and for positions
/// out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::put(&tensor![[1, 2], [3, 4]], &tensor![1, 2], &tensor![20, 30], false)?, tensor![[1, 20], [30, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn put(input: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    input.put(index, source, accumulate)
}

/// This tensor with the elements of `src` (a tensor of the same dtype, or one number) at the
/// positions of `dim` that `index` names per element (`torch.scatter`).
///
/// `index` (int64 or int32) has as many dimensions, and is nowhere larger than `src`, nor but for
/// `dim` than this tensor. An error for others and for positions out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::scatter(&tensor![0, 0, 0], 0, &tensor![2, 0], &tensor![7, 8])?, tensor![8, 0, 7]);
/// assert_eq!(F::scatter(&tensor![[0, 0], [0, 0]], 1, &tensor![[1], [0]], 5)?, tensor![[0, 5], [5, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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
///
/// Shapes, dtypes and errors as in [`scatter`]. A position named twice gets both.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::scatter_add(&tensor![1, 1, 1], 0, &tensor![0, 0, 2], &tensor![10, 20, 30])?, tensor![31, 1, 31]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
///
/// Shapes, dtypes and errors as in [`scatter`]; an error for another word.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (index, src) = (tensor![0, 0, 1], tensor![5, 9, 2]);
/// assert_eq!(F::scatter_reduce(&tensor![1, 3], 0, &index, &src, "amax")?, tensor![9, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// [`scatter_reduce`], where with the option `include_self` false this tensor's own elements take
/// no part.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let alone = F::ScatterReduceOptions::new().include_self(false);
/// let (index, src) = (tensor![0, 0, 1], tensor![5, 9, 2]);
/// assert_eq!(F::scatter_reduce_with(&tensor![1, 3], 0, &index, &src, "amax", alone)?, tensor![9, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// [`scatter`] that adds (`"add"`) or multiplies (`"multiply"`) what it writes into the elements of
/// this tensor; not differentiable, as in PyTorch.
///
/// An error for another word.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::scatter_with(&tensor![2, 3], 0, &tensor![1], &tensor![10], "multiply")?, tensor![2, 30]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence to
/// keep it sorted, before equal elements (`torch.searchsorted`).
///
/// The sequence is 1-d, or has the values' leading dimensions; the result is an int64 tensor of the
/// values' shape. An error for other shapes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::searchsorted(&tensor![1, 3, 5], &tensor![0, 3, 9])?, tensor![0, 1, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn searchsorted<'a>(input: &Tensor, values: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.searchsorted(values)
}

/// [`searchsorted`] behind equal elements, as int32, or in a sequence that another tensor sorts.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let right = F::SearchsortedOptions::new().right(true);
/// assert_eq!(F::searchsorted_with(&tensor![1, 3, 5], &tensor![0, 3, 9], right)?, tensor![0, 2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn searchsorted_with<'a>(
    input: &Tensor,
    values: impl Into<Operand<'a>>,
    options: SearchsortedOptions,
) -> Result<Tensor> {
    input.searchsorted_with(values, options)
}

/// The elements sorted along the last dimension, and the positions they had (int64); stable, nan is
/// the greatest (`torch.sort`).
///
/// Both have the operand's shape. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::sort(&tensor![30, 10, 20])?;
/// assert_eq!((values, indices), (tensor![10, 20, 30], tensor![1, 2, 0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sort(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.sort()
}

/// [`sort`] along another dimension, or the other way round.
///
/// An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, _) = F::sort_with(&tensor![[3, 1], [2, 4]], F::SortOptions::new().dim(0).descending(true))?;
/// assert_eq!(values, tensor![[3, 4], [2, 1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sort_with(input: &Tensor, options: SortOptions) -> Result<(Tensor, Tensor)> {
    input.sort_with(options)
}

/// The elements at positions of the flattened tensor, in the index's shape; negative ones count
/// from the end (`torch.take`).
///
/// An error for an index that is not int64, and for positions out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::take(&tensor![[10, 20], [30, 40]], &tensor![0, 2, -1])?, tensor![10, 30, 40]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn take(input: &Tensor, index: &Tensor) -> Result<Tensor> {
    input.take(index)
}

/// The elements at `indices` (int64, negative from the end) along `dim`, both broadcast in the
/// other dimensions; without `dim`, of the flattened tensor (`torch.take_along_dim`).
///
/// An error for indices out of range, and for a different number of dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[30, 10, 20], [4, 6, 5]];
/// let order = F::argsort(&x)?;
/// assert_eq!(F::take_along_dim(&x, &order, 1)?, tensor![[10, 20, 30], [4, 5, 6]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn take_along_dim(
    input: &Tensor,
    indices: &Tensor,
    dim: impl Into<Option<i64>>,
) -> Result<Tensor> {
    input.take_along_dim(indices, dim)
}

/// The `k` largest elements along the last dimension, sorted, and their positions (int64;
/// `torch.topk`).
///
/// An error for complex tensors, and where the dimension has fewer than `k` elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::topk(&tensor![30, 10, 20], 2)?;
/// assert_eq!((values, indices), (tensor![30, 20], tensor![0, 2]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn topk(input: &Tensor, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.topk(k)
}

/// [`topk`] along another dimension, or of the smallest.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, _) = F::topk_with(&tensor![30, 10, 20], 2, F::TopkOptions::new().largest(false))?;
/// assert_eq!(values, tensor![10, 20]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn topk_with(
    input: &Tensor,
    k: impl IntoDim,
    options: TopkOptions,
) -> Result<(Tensor, Tensor)> {
    input.topk_with(k, options)
}

/// The distinct elements, sorted, in one dimension (`torch.unique`).
///
/// Any shape; keeps the dtype. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unique(&tensor![[3, 1], [2, 1]])?, tensor![1, 2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unique(input: &Tensor) -> Result<Tensor> {
    input.unique()
}

/// [`unique`] of the slices along a dimension, or with the places of the elements and their
/// numbers.
///
/// An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let found = F::unique_with(&tensor![5, 3, 5], F::UniqueOptions::new().return_inverse(true).return_counts(true))?;
/// assert_eq!(found.values, tensor![3, 5]);
/// assert_eq!(found.inverse, Some(tensor![1, 0, 1]));
/// assert_eq!(found.counts, Some(tensor![1, 2]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unique_with(input: &Tensor, options: UniqueOptions) -> Result<Unique> {
    input.unique_with(options)
}

/// The elements in one dimension without those equal to the one before
/// (`torch.unique_consecutive`).
///
/// Any shape; keeps the dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::unique_consecutive(&tensor![1, 1, 2, 2, 1])?, tensor![1, 2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unique_consecutive(input: &Tensor) -> Result<Tensor> {
    input.unique_consecutive()
}

/// [`unique_consecutive`] of the slices along a dimension, or with the places of the elements and
/// the lengths of the runs.
///
/// An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let runs = F::unique_consecutive_with(&tensor![1, 1, 2], F::UniqueConsecutiveOptions::new().return_counts(true))?;
/// assert_eq!((runs.values, runs.counts), (tensor![1, 2], Some(tensor![2, 1])));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unique_consecutive_with(
    input: &Tensor,
    options: UniqueConsecutiveOptions,
) -> Result<Unique> {
    input.unique_consecutive_with(options)
}
