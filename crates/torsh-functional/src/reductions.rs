//! Reductions and running totals.

use torsh_tensor::{IntoDim, IntoDims, IntoShape, Result, Tensor};

/// Whether no element is zero, as a 0-d bool tensor; true of no elements.
#[track_caller]
pub fn all(input: &Tensor) -> Result<Tensor> {
    input.all()
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

/// Logarithm of the sum of exponentials of all elements up to each along a dimension.
#[track_caller]
pub fn logcumsumexp(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.logcumsumexp(dim)
}

/// Logarithm of the sum of exponentials over dimensions.
#[track_caller]
pub fn logsumexp(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.logsumexp(dims, keepdim)
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

/// The smallest of all elements, a 0-d tensor; NaN where there is one. An error of none.
#[track_caller]
pub fn min(input: &Tensor) -> Result<Tensor> {
    input.min()
}

/// The most frequent elements along a dimension, the smallest of several, and positions of
/// them.
#[track_caller]
pub fn mode(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.mode(dim, keepdim)
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

/// Euclidean norm of all elements, a 0-d tensor.
#[track_caller]
pub fn norm(input: &Tensor) -> Result<Tensor> {
    input.norm()
}

/// Product of all elements, a 0-d tensor; integers and bools multiply in int64.
#[track_caller]
pub fn prod(input: &Tensor) -> Result<Tensor> {
    input.prod()
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

/// Sum of the diagonal of a matrix, a 0-d tensor.
#[track_caller]
pub fn trace(input: &Tensor) -> Result<Tensor> {
    input.trace()
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
