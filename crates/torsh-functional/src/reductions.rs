//! Sums, means, norms and other reductions.

use torsh_tensor::{
    IntoDim, IntoDims, IntoShape, NormOptions, Result, SumOptions, Tensor, VarOptions,
};

/// Whether no element is zero, as a 0-d bool tensor; true of no elements (`torch.all`).
///
/// Any shape and dtype; uint8 gives uint8, as in PyTorch. nan is not zero.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(!F::all(&tensor![1, 2, 0])?.item::<bool>()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn all(input: &Tensor) -> Result<Tensor> {
    input.all()
}

/// Whether no element is zero, over dimensions: all of them where `dims` is empty.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
/// named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::all_dim(&tensor![[1, 2], [0, 3]], 1, false)?, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn all_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.all_dim(dims, keepdim)
}

/// Whether any element is not zero (nan is not), as a 0-d bool tensor; false of no elements
/// (`torch.any`).
///
/// Any shape and dtype; uint8 gives uint8, as in PyTorch.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::any(&tensor![0, 2, 0])?.item::<bool>()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn any(input: &Tensor) -> Result<Tensor> {
    input.any()
}

/// Whether any element is not zero, over dimensions: all of them where `dims` is empty.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
/// named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::any_dim(&tensor![[0, 2], [0, 0]], 1, true)?, tensor![[true], [false]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn any_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.any_dim(dims, keepdim)
}

/// How many elements are not zero, a 0-d int64 tensor (`torch.count_nonzero`).
///
/// Any shape and dtype; nan counts.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::count_nonzero(&tensor![[1, 0], [0, 3]])?.item::<i64>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn count_nonzero(input: &Tensor) -> Result<Tensor> {
    input.count_nonzero()
}

/// How many elements are not zero, over dimensions, which are lost (int64).
///
/// An error for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::count_nonzero_dim(&tensor![[1, 0], [2, 3]], 0)?, tensor![2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn count_nonzero_dim(input: &Tensor, dims: impl IntoDims) -> Result<Tensor> {
    input.count_nonzero_dim(dims)
}

/// The p-norm of the difference to another tensor, with which this one broadcasts (`torch.dist`), a
/// 0-d tensor.
///
/// Floating-point or complex dtypes, which promote; an error for others, and for shapes that do not
/// broadcast.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::dist(&tensor![0.0, 0.0], &tensor![3.0, 4.0], 2.0)?.item::<f32>()?, 5.0);
/// assert_eq!(F::dist(&tensor![0.0, 0.0], &tensor![3.0, 4.0], 1.0)?.item::<f32>()?, 7.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn dist(input: &Tensor, other: &Tensor, p: f64) -> Result<Tensor> {
    input.dist(other, p)
}

/// Logarithm of the sum of exponentials over dimensions, which cannot overflow (`torch.logsumexp`).
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`; integers give the default dtype. An error
/// for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::logsumexp(&tensor![[0.0, 0.0], [1000.0, 1000.0]], 1, false)?.allclose(&tensor![0.693147, 1000.693147])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logsumexp(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.logsumexp(dims, keepdim)
}

/// Mean of all elements, a 0-d tensor (`torch.mean`).
///
/// Keeps the dtype; an error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::mean(&tensor![[1.0, 2.0], [3.0, 6.0]])?.item::<f32>()?, 3.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mean(input: &Tensor) -> Result<Tensor> {
    input.mean()
}

/// Mean over dimensions: all of them where `dims` is empty.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a dimension
/// out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::mean_dim(&tensor![[1.0, 2.0], [3.0, 6.0]], 0, false)?, tensor![2.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mean_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.mean_dim(dims, keepdim)
}

/// Mean with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` that the elements are
/// converted to first.
///
/// An error where the dtype is not floating-point or complex, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, SumOptions, tensor};
/// let options = SumOptions::new().dtype(DType::F32);
/// assert_eq!(F::mean_with(&tensor![1, 2], options)?.item::<f32>()?, 1.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mean_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.mean_with(options)
}

/// Mean of all elements that are not nan, a 0-d tensor (`torch.nanmean`); nan where there is none.
///
/// Keeps the dtype; an error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nanmean(&tensor![1.0, f32::NAN, 3.0])?.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanmean(input: &Tensor) -> Result<Tensor> {
    input.nanmean()
}

/// Mean over dimensions of the elements that are not nan.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a dimension
/// out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nanmean_dim(&tensor![[1.0, f32::NAN], [3.0, 6.0]], 0, false)?, tensor![2.0, 6.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanmean_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.nanmean_dim(dims, keepdim)
}

/// [`nanmean`] with PyTorch's keyword arguments: `dim`, `keepdim` and `dtype`; an error for
/// integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{SumOptions, tensor};
/// let options = SumOptions::new().dim(1).keepdim(true);
/// assert_eq!(F::nanmean_with(&tensor![[1.0, f32::NAN], [3.0, 6.0]], options)?, tensor![[1.0], [4.5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanmean_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.nanmean_with(options)
}

/// Sum of all elements in which nan counts as 0, a 0-d tensor (`torch.nansum`).
///
/// Integers and bools add up in int64; an error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nansum(&tensor![1.0, f32::NAN, 3.0])?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nansum(input: &Tensor) -> Result<Tensor> {
    input.nansum()
}

/// Sum over dimensions in which nan counts as 0.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, and for a
/// dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nansum_dim(&tensor![[1.0, f32::NAN], [3.0, 6.0]], 0, false)?, tensor![4.0, 6.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nansum_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.nansum_dim(dims, keepdim)
}

/// [`nansum`] with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add up in.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{SumOptions, tensor};
/// let options = SumOptions::new().dim(1);
/// assert_eq!(F::nansum_with(&tensor![[1.0, f32::NAN], [3.0, 6.0]], options)?, tensor![1.0, 9.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nansum_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.nansum_with(options)
}

/// Euclidean norm of all elements, a 0-d tensor (`torch.norm`).
///
/// Complex tensors give a real one. An error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::norm(&tensor![[3.0, 0.0], [0.0, 4.0]])?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn norm(input: &Tensor) -> Result<Tensor> {
    input.norm()
}

/// Euclidean norm over dimensions.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a dimension
/// out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::norm_dim(&tensor![[3.0, 4.0], [0.0, 2.0]], 1, false)?, tensor![5.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn norm_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.norm_dim(dims, keepdim)
}

/// Vector norm of any order, with PyTorch's keyword arguments: `p`, `dim`, `keepdim` and the
/// `dtype` that the elements are converted to first.
///
/// An error for integers, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{NormOptions, tensor};
/// let largest = NormOptions::new().p(f64::INFINITY);
/// assert_eq!(F::norm_with(&tensor![3.0, -4.0], largest)?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn norm_with(input: &Tensor, options: NormOptions) -> Result<Tensor> {
    input.norm_with(options)
}

/// Product of all elements, a 0-d tensor; integers and bools multiply in int64 (`torch.prod`).
///
/// Any shape; of no elements 1.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::prod(&tensor![[1, 2], [3, 4]])?.item::<i64>()?, 24);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn prod(input: &Tensor) -> Result<Tensor> {
    input.prod()
}

/// Product along a dimension, which is lost, or kept as size 1 with `keepdim`.
///
/// Integers and bools multiply in int64. An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::prod_dim(&tensor![[1, 2], [3, 4]], 1, false)?, tensor![2, 12]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn prod_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.prod_dim(dim, keepdim)
}

/// Product with PyTorch's keyword arguments, of one dimension or all: `dim`, `keepdim` and `dtype`.
///
/// An error for several dimensions, or one out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, SumOptions, tensor};
/// let options = SumOptions::new().dim(0).dtype(DType::F32);
/// assert_eq!(F::prod_with(&tensor![[1, 2], [3, 4]], options)?, tensor![3.0, 8.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn prod_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.prod_with(options)
}

/// Unbiased standard deviation of all elements, a 0-d tensor (`torch.std`).
///
/// The square root of [`var`]; an error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::std(&tensor![1.0, 3.0, 5.0])?.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std(input: &Tensor) -> Result<Tensor> {
    input.std()
}

/// Unbiased standard deviation over dimensions.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a dimension
/// out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::std_dim(&tensor![[1.0, 3.0, 5.0], [2.0, 2.0, 2.0]], 1, false)?, tensor![2.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.std_dim(dims, keepdim)
}

/// Unbiased standard deviation and mean of all elements, two 0-d tensors (`torch.std_mean`).
///
/// An error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (std, mean) = F::std_mean(&tensor![1.0, 3.0, 5.0])?;
/// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (2.0, 3.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.std_mean()
}

/// Unbiased standard deviation and mean over dimensions.
///
/// Both lose `dims`, or keep them as size 1 with `keepdim`. An error for integers, and for a
/// dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (std, mean) = F::std_mean_dim(&tensor![[1.0, 3.0, 5.0]], 1, false)?;
/// assert_eq!((std, mean), (tensor![2.0], tensor![3.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std_mean_dim(
    input: &Tensor,
    dims: impl IntoDims,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.std_mean_dim(dims, keepdim)
}

/// Standard deviation and mean with PyTorch's keyword arguments: `dim`, `correction` (1 unless set)
/// and `keepdim`.
///
/// An error for integers, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{VarOptions, tensor};
/// let (std, mean) = F::std_mean_with(&tensor![1.0, 3.0], VarOptions::new().correction(0))?;
/// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std_mean_with(input: &Tensor, options: VarOptions) -> Result<(Tensor, Tensor)> {
    input.std_mean_with(options)
}

/// Standard deviation with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and
/// `keepdim`.
///
/// An error for integers, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{VarOptions, tensor};
/// assert_eq!(F::std_with(&tensor![1.0, 3.0], VarOptions::new().correction(0))?.item::<f32>()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn std_with(input: &Tensor, options: VarOptions) -> Result<Tensor> {
    input.std_with(options)
}

/// Sum of all elements, a 0-d tensor; integers and bools add up in int64 (`torch.sum`).
///
/// Any shape; of no elements 0.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::sum(&tensor![[1.0, 2.0], [3.0, 4.0]])?.item::<f32>()?, 10.0);
/// assert_eq!(F::sum(&tensor![true, true, false])?.item::<i64>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sum(input: &Tensor) -> Result<Tensor> {
    input.sum()
}

/// Sum over dimensions: all of them where `dims` is empty.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`; integers and bools add up in int64. An
/// error for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::sum_dim(&tensor![[1, 2], [3, 4]], 0, false)?, tensor![4, 6]);
/// assert_eq!(F::sum_dim(&tensor![[1, 2], [3, 4]], 1, true)?, tensor![[3], [7]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sum_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.sum_dim(dims, keepdim)
}

/// Sums what broadcasting from `shape` to this tensor's shape would repeat (`Tensor.sum_to_size`).
///
/// The result has that shape. An error where `shape` does not broadcast to the tensor's.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::sum_to_size(&tensor![[1, 2], [3, 4]], [2, 1])?, tensor![[3], [7]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sum_to_size(input: &Tensor, shape: impl IntoShape) -> Result<Tensor> {
    input.sum_to_size(shape)
}

/// Sum with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add up in.
///
/// An error for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, SumOptions, tensor};
/// let options = SumOptions::new().dim(1).dtype(DType::F32);
/// assert_eq!(F::sum_with(&tensor![[1, 2], [3, 4]], options)?, tensor![3.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sum_with(input: &Tensor, options: SumOptions) -> Result<Tensor> {
    input.sum_with(options)
}

/// Sum of the diagonal of a matrix, a 0-d tensor (`torch.trace`).
///
/// Integers add up in int64. An error for other than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::trace(&tensor![[1, 2], [3, 4]])?.item::<i64>()?, 5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn trace(input: &Tensor) -> Result<Tensor> {
    input.trace()
}

/// Unbiased variance of all elements, a 0-d tensor (`torch.var`): the squared distances from the
/// mean over their number less one.
///
/// Complex tensors give a real one. An error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::var(&tensor![1.0, 3.0, 5.0])?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var(input: &Tensor) -> Result<Tensor> {
    input.var()
}

/// Unbiased variance over dimensions.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a dimension
/// out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::var_dim(&tensor![[1.0, 3.0, 5.0], [2.0, 2.0, 2.0]], 1, false)?, tensor![4.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var_dim(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.var_dim(dims, keepdim)
}

/// Unbiased variance and mean of all elements, two 0-d tensors (`torch.var_mean`).
///
/// An error for integers and bools.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (var, mean) = F::var_mean(&tensor![1.0, 3.0, 5.0])?;
/// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (4.0, 3.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var_mean(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.var_mean()
}

/// Unbiased variance and mean over dimensions.
///
/// Both lose `dims`, or keep them as size 1 with `keepdim`. An error for integers, and for a
/// dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (var, mean) = F::var_mean_dim(&tensor![[1.0, 3.0, 5.0]], 1, true)?;
/// assert_eq!((var, mean), (tensor![[4.0]], tensor![[3.0]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var_mean_dim(
    input: &Tensor,
    dims: impl IntoDims,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.var_mean_dim(dims, keepdim)
}

/// Variance and mean with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and
/// `keepdim`.
///
/// An error for integers, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{VarOptions, tensor};
/// let (var, mean) = F::var_mean_with(&tensor![1.0, 3.0], VarOptions::new().correction(0))?;
/// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var_mean_with(input: &Tensor, options: VarOptions) -> Result<(Tensor, Tensor)> {
    input.var_mean_with(options)
}

/// Variance with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and `keepdim`.
///
/// An error for integers, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{VarOptions, tensor};
/// assert_eq!(F::var_with(&tensor![1.0, 3.0], VarOptions::new().correction(0))?.item::<f32>()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn var_with(input: &Tensor, options: VarOptions) -> Result<Tensor> {
    input.var_with(options)
}
