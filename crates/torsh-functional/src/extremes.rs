//! The smallest, largest, middle and most frequent elements.

use torsh_tensor::{IntoDim, IntoDims, Operand, QuantileOptions, Result, Tensor};

/// The largest element over dimensions (all when none is named); equal ones share the gradient
/// (`torch.amax`).
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::amax(&tensor![[1, 5], [7, 3]], 1, false)?, tensor![5, 7]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn amax(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.amax(dims, keepdim)
}

/// The smallest element over dimensions (all when none is named); equal ones share the gradient
/// (`torch.amin`).
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range or named twice.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::amin(&tensor![[1, 5], [7, 3]], 0, true)?, tensor![[1, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn amin(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.amin(dims, keepdim)
}

/// The smallest and the largest element, two 0-d tensors (`torch.aminmax`).
///
/// An error for complex tensors and for no elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (min, max) = F::aminmax(&tensor![[1, 5], [7, 3]])?;
/// assert_eq!((min.item::<i64>()?, max.item::<i64>()?), (1, 7));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn aminmax(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.aminmax()
}

/// The smallest and the largest element along a dimension, which is lost, or kept as size 1 with
/// `keepdim`.
///
/// An error for complex tensors, over no elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (min, max) = F::aminmax_dim(&tensor![[1, 5], [7, 3]], 1, false)?;
/// assert_eq!((min, max), (tensor![1, 3], tensor![5, 7]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn aminmax_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.aminmax_dim(dim, keepdim)
}

/// The position of the largest element in row-major order, a 0-d int64 tensor (`torch.argmax`); the
/// first of several.
///
/// An error for complex tensors and for no elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argmax(&tensor![[1, 5], [7, 3]])?.item::<i64>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argmax(input: &Tensor) -> Result<Tensor> {
    input.argmax()
}

/// The positions of the largest elements along a dimension (int64), which is lost, or kept as size
/// 1 with `keepdim`.
///
/// An error for complex tensors, over no elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argmax_dim(&tensor![[1, 5], [7, 3]], 1, false)?, tensor![1, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argmax_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.argmax_dim(dim, keepdim)
}

/// The position of the smallest element in row-major order, a 0-d int64 tensor (`torch.argmin`);
/// the first of several.
///
/// An error for complex tensors and for no elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argmin(&tensor![[4, 5], [7, 3]])?.item::<i64>()?, 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argmin(input: &Tensor) -> Result<Tensor> {
    input.argmin()
}

/// The positions of the smallest elements along a dimension (int64), which is lost, or kept as size
/// 1 with `keepdim`.
///
/// An error for complex tensors, over no elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::argmin_dim(&tensor![[1, 5], [7, 3]], 1, true)?, tensor![[0], [1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn argmin_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
    input.argmin_dim(dim, keepdim)
}

/// The k-th smallest elements (from 1) along a dimension and their positions (int64;
/// `torch.kthvalue`).
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex or bool tensors,
/// and for `k` or a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::kthvalue(&tensor![30, 10, 20], 2, 0, false)?;
/// assert_eq!((values.item::<i64>()?, indices.item::<i64>()?), (20, 2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn kthvalue(
    input: &Tensor,
    k: i64,
    dim: impl IntoDim,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    input.kthvalue(k, dim, keepdim)
}

/// The largest of all elements, a 0-d tensor; nan where there is one (`torch.max`).
///
/// An error for complex tensors and for no elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::max(&tensor![[1, 5], [7, 3]])?.item::<i64>()?, 7);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn max(input: &Tensor) -> Result<Tensor> {
    input.max()
}

/// The largest elements along a dimension and their positions (int64), the first of several.
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::max_dim(&tensor![[1, 5], [7, 3]], 1, false)?;
/// assert_eq!((values, indices), (tensor![5, 7], tensor![1, 0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn max_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.max_dim(dim, keepdim)
}

/// The median of all elements, the lower of two, a 0-d tensor (`torch.median`).
///
/// Keeps the dtype; nan where there is one. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::median(&tensor![4.0, 1.0, 3.0, 2.0])?.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn median(input: &Tensor) -> Result<Tensor> {
    input.median()
}

/// The medians along a dimension and their positions (int64).
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::median_dim(&tensor![[4, 1, 3], [9, 8, 7]], 1, false)?;
/// assert_eq!((values, indices), (tensor![3, 8], tensor![2, 1]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn median_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.median_dim(dim, keepdim)
}

/// The smallest of all elements, a 0-d tensor; nan where there is one (`torch.min`).
///
/// An error for complex tensors and for no elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::min(&tensor![[4, 5], [7, 3]])?.item::<i64>()?, 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn min(input: &Tensor) -> Result<Tensor> {
    input.min()
}

/// The smallest elements along a dimension and their positions (int64), the first of several.
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::min_dim(&tensor![[1, 5], [7, 3]], 0, false)?;
/// assert_eq!((values, indices), (tensor![1, 3], tensor![0, 1]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn min_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.min_dim(dim, keepdim)
}

/// The most frequent elements along a dimension, the smallest of several, and positions of them
/// (int64; `torch.mode`).
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, _) = F::mode(&tensor![[2, 7, 7], [5, 5, 1]], 1, false)?;
/// assert_eq!(values, tensor![7, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mode(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.mode(dim, keepdim)
}

/// The median of all elements that are not nan, a 0-d tensor (`torch.nanmedian`).
///
/// Keeps the dtype; nan where there is no other. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nanmedian(&tensor![4.0, f32::NAN, 3.0])?.item::<f32>()?, 3.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanmedian(input: &Tensor) -> Result<Tensor> {
    input.nanmedian()
}

/// The medians along a dimension of the elements that are not nan, and their positions (int64).
///
/// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
/// elements, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::nanmedian_dim(&tensor![[4.0, f32::NAN, 3.0]], 1, false)?;
/// assert_eq!((values, indices), (tensor![3.0], tensor![2]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanmedian_dim(input: &Tensor, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    input.nanmedian_dim(dim, keepdim)
}

/// The q-th quantile of all elements that are not nan (`torch.nanquantile`).
///
/// Shapes, dtypes and errors as in [`quantile`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nanquantile(&tensor![1.0, f32::NAN, 3.0], 0.5)?.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanquantile<'a>(input: &Tensor, q: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.nanquantile(q)
}

/// [`nanquantile`] with PyTorch's keyword arguments: `dim`, `keepdim` and `interpolation`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{QuantileOptions, tensor};
/// let options = QuantileOptions::new().dim(1);
/// assert_eq!(F::nanquantile_with(&tensor![[1.0, f32::NAN, 3.0]], 0.5, options)?, tensor![2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nanquantile_with<'a>(
    input: &Tensor,
    q: impl Into<Operand<'a>>,
    options: QuantileOptions,
) -> Result<Tensor> {
    input.nanquantile_with(q, options)
}

/// The q-th quantile of all elements, `q` in [0, 1] a number or a tensor of this dtype; between two
/// elements it interpolates (`torch.quantile`).
///
/// A 0-d tensor; of several `q` (1-d) a 1-d tensor. An error for other dtypes than float32 and
/// float64, for no elements, and for `q` outside [0, 1].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::quantile(&tensor![1.0, 2.0, 3.0, 4.0], 0.5)?.item::<f32>()?, 2.5);
/// assert_eq!(F::quantile(&tensor![1.0, 2.0, 3.0], &tensor![0.0, 0.25])?, tensor![1.0, 1.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn quantile<'a>(input: &Tensor, q: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.quantile(q)
}

/// [`quantile`] with PyTorch's keyword arguments: `dim`, `keepdim` and `interpolation`.
///
/// Several `q` become the result's first dimension.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{Interpolation, QuantileOptions, tensor};
/// let options = QuantileOptions::new().dim(1).interpolation(Interpolation::Lower);
/// assert_eq!(F::quantile_with(&tensor![[1.0, 2.0], [5.0, 3.0]], 0.5, options)?, tensor![1.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn quantile_with<'a>(
    input: &Tensor,
    q: impl Into<Operand<'a>>,
    options: QuantileOptions,
) -> Result<Tensor> {
    input.quantile_with(q, options)
}
