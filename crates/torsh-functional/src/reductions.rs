//! Reductions and running totals.

use torsh_tensor::{
    CumsumOptions, DiffOptions, IntoDim, IntoDims, IntoShape, NormOptions, Operand,
    QuantileOptions, Result, SoftmaxOptions, SumOptions, Tensor, VarOptions,
};

/// Whether no element is zero, as a 0-d bool tensor; true of no elements.
#[track_caller]
pub fn all(input: &Tensor) -> Result<Tensor> {
    input.all()
}

/// Whether no element is zero, over dimensions.
#[track_caller]
pub fn all_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.all_dim(dims, keepdim)
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

/// The smallest and the largest element along a dimension.
#[track_caller]
pub fn aminmax_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.aminmax_dim(dim, keepdim)
}

/// Whether any element is not zero (NaN is not), as a 0-d bool tensor.
#[track_caller]
pub fn any(input: &Tensor) -> Result<Tensor> {
    input.any()
}

/// Whether any element is not zero, over dimensions.
#[track_caller]
pub fn any_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.any_dim(dims, keepdim)
}

/// The position of the largest element in row-major order, a 0-d int64 tensor.
#[track_caller]
pub fn argmax(input: &Tensor) -> Result<Tensor> {
    input.argmax()
}

/// The positions of the largest elements along a dimension.
#[track_caller]
pub fn argmax_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.argmax_dim(dim, keepdim)
}

/// The position of the smallest element in row-major order, a 0-d int64 tensor.
#[track_caller]
pub fn argmin(input: &Tensor) -> Result<Tensor> {
    input.argmin()
}

/// The positions of the smallest elements along a dimension.
#[track_caller]
pub fn argmin_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.argmin_dim(dim, keepdim)
}

/// How many elements are not zero (int64).
#[track_caller]
pub fn count_nonzero(input: &Tensor) -> Result<Tensor> {
    input.count_nonzero()
}

/// How many elements are not zero, over dimensions (int64).
#[track_caller]
pub fn count_nonzero_dim(input: &Tensor, dims: impl IntoDims) -> Result<Tensor> {
    input.count_nonzero_dim(dims)
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

/// `cumprod` in another dtype.
#[track_caller]
pub fn cumprod_with(input: &Tensor, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
    input.cumprod_with(dim, options)
}

/// The sum of all elements up to each along a dimension.
#[track_caller]
pub fn cumsum(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumsum(dim)
}

/// `cumsum` in another dtype.
#[track_caller]
pub fn cumsum_with(input: &Tensor, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
    input.cumsum_with(dim, options)
}

/// Differences of neighbours along the last dimension.
#[track_caller]
pub fn diff(input: &Tensor) -> Result<Tensor> {
    input.diff()
}

/// Differences of neighbours with PyTorch's keyword arguments; of bools whether they differ.
#[track_caller]
pub fn diff_with(input: &Tensor, options: DiffOptions) -> Result<Tensor> {
    input.diff_with(options)
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

/// The largest elements along a dimension and their positions (int64), the first of several.
#[track_caller]
pub fn max_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.max_dim(dim, keepdim)
}

/// Mean of all elements, a 0-d tensor; an error for integers.
#[track_caller]
pub fn mean(input: &Tensor) -> Result<Tensor> {
    input.mean()
}

/// Mean over dimensions.
#[track_caller]
pub fn mean_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.mean_dim(dims, keepdim)
}

/// Mean with PyTorch's keyword arguments; a dtype must be floating-point or complex.
#[track_caller]
pub fn mean_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.mean_with(options)
}

/// The median of all elements, the lower of two, a 0-d tensor.
#[track_caller]
pub fn median(input: &Tensor) -> Result<Tensor> {
    input.median()
}

/// The medians along a dimension and their positions.
#[track_caller]
pub fn median_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.median_dim(dim, keepdim)
}

/// The smallest of all elements, a 0-d tensor; NaN where there is one. An error of none.
#[track_caller]
pub fn min(input: &Tensor) -> Result<Tensor> {
    input.min()
}

/// The smallest elements along a dimension and their positions (int64), the first of several.
#[track_caller]
pub fn min_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.min_dim(dim, keepdim)
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

/// Mean over dimensions of what is not NaN.
#[track_caller]
pub fn nanmean_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.nanmean_dim(dims, keepdim)
}

/// `nanmean` with PyTorch's keyword arguments; an error for integers.
#[track_caller]
pub fn nanmean_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.nanmean_with(options)
}

/// The median of all elements that are not NaN, a 0-d tensor.
#[track_caller]
pub fn nanmedian(input: &Tensor) -> Result<Tensor> {
    input.nanmedian()
}

/// The medians along a dimension of what is not NaN, and their positions.
#[track_caller]
pub fn nanmedian_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.nanmedian_dim(dim, keepdim)
}

/// The q-th quantile of all elements that are not NaN.
#[track_caller]
pub fn nanquantile<'a>(input: &Tensor, q: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.nanquantile(q)
}

/// `nanquantile` with PyTorch's keyword arguments.
#[track_caller]
pub fn nanquantile_with<'a>(
    input: &Tensor,
    q: impl Into<Operand<'a>>,
    options: QuantileOptions,
) -> Result<Tensor> {
    input.nanquantile_with(q, options)
}

/// Sum of all elements in which NaN counts as 0.
#[track_caller]
pub fn nansum(input: &Tensor) -> Result<Tensor> {
    input.nansum()
}

/// Sum over dimensions in which NaN counts as 0.
#[track_caller]
pub fn nansum_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.nansum_dim(dims, keepdim)
}

/// `nansum` with PyTorch's keyword arguments.
#[track_caller]
pub fn nansum_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.nansum_with(options)
}

/// Euclidean norm of all elements, a 0-d tensor.
#[track_caller]
pub fn norm(input: &Tensor) -> Result<Tensor> {
    input.norm()
}

/// Euclidean norm over dimensions.
#[track_caller]
pub fn norm_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.norm_dim(dims, keepdim)
}

/// Vector norm of any order, with PyTorch's keyword arguments.
#[track_caller]
pub fn norm_with(input: &Tensor, options: NormOptions) -> Result<Tensor> {
    input.norm_with(options)
}

/// Product of all elements, a 0-d tensor; integers and bools multiply in int64.
#[track_caller]
pub fn prod(input: &Tensor) -> Result<Tensor> {
    input.prod()
}

/// Product along a dimension.
#[track_caller]
pub fn prod_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.prod_dim(dim, keepdim)
}

/// Product with PyTorch's keyword arguments; of one dimension or all.
#[track_caller]
pub fn prod_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.prod_with(options)
}

/// The q-th quantile of all elements, `q` in [0, 1] a number or a tensor of this dtype; of
/// several `q` (1-d) a 1-d tensor. float32 and float64 only; an error of no elements.
#[track_caller]
pub fn quantile<'a>(input: &Tensor, q: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.quantile(q)
}

/// `quantile` with PyTorch's keyword arguments.
#[track_caller]
pub fn quantile_with<'a>(
    input: &Tensor,
    q: impl Into<Operand<'a>>,
    options: QuantileOptions,
) -> Result<Tensor> {
    input.quantile_with(q, options)
}

/// `softmin` after a conversion.
#[track_caller]
pub fn softmin_with(input: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    input.softmin_with(dim, options)
}

/// Unbiased standard deviation of all elements, a 0-d tensor; an error for integers.
#[track_caller]
pub fn std(input: &Tensor) -> Result<Tensor> {
    input.std()
}

/// Unbiased standard deviation over dimensions.
#[track_caller]
pub fn std_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.std_dim(dims, keepdim)
}

/// Unbiased standard deviation and mean of all elements.
#[track_caller]
pub fn std_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.std_mean()
}

/// Unbiased standard deviation and mean over dimensions.
#[track_caller]
pub fn std_mean_dim(
    input: &Tensor,
    dims: impl IntoDims,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.std_mean_dim(dims, keepdim)
}

/// Standard deviation and mean with PyTorch's keyword arguments.
#[track_caller]
pub fn std_mean_with(input: &Tensor, options: VarOptions) -> Result<(Tensor, Tensor)> {
    input.std_mean_with(options)
}

/// Standard deviation with PyTorch's keyword arguments.
#[track_caller]
pub fn std_with(input: &Tensor, options: VarOptions) -> Result<Tensor> {
    input.std_with(options)
}

/// Sum of all elements, a 0-d tensor; integers and bools add up in int64.
#[track_caller]
pub fn sum(input: &Tensor) -> Result<Tensor> {
    input.sum()
}

/// Sum over dimensions.
#[track_caller]
pub fn sum_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.sum_dim(dims, keepdim)
}

/// Sums what broadcasting from `shape` to this tensor's shape would repeat; an error where
/// `shape` does not broadcast to it.
#[track_caller]
pub fn sum_to_size(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.sum_to_size(shape)
}

/// Sum with PyTorch's keyword arguments.
#[track_caller]
pub fn sum_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.sum_with(options)
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

/// Unbiased variance over dimensions.
#[track_caller]
pub fn var_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.var_dim(dims, keepdim)
}

/// Unbiased variance and mean of all elements.
#[track_caller]
pub fn var_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.var_mean()
}

/// Unbiased variance and mean over dimensions.
#[track_caller]
pub fn var_mean_dim(
    input: &Tensor,
    dims: impl IntoDims,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.var_mean_dim(dims, keepdim)
}

/// Variance and mean with PyTorch's keyword arguments.
#[track_caller]
pub fn var_mean_with(input: &Tensor, options: VarOptions) -> Result<(Tensor, Tensor)> {
    input.var_mean_with(options)
}

/// Variance with PyTorch's keyword arguments.
#[track_caller]
pub fn var_with(input: &Tensor, options: VarOptions) -> Result<Tensor> {
    input.var_with(options)
}
