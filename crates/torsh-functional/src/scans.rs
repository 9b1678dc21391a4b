//! Running totals and differences along a dimension.

use torsh_tensor::{CumsumOptions, DiffOptions, IntoDim, Result, Tensor};

/// The largest element up to each along a dimension, and its position (int64; `torch.cummax`).
///
/// Both have the operand's shape. An error for complex tensors, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::cummax(&tensor![1, 3, 2, 5], 0)?;
/// assert_eq!((values, indices), (tensor![1, 3, 3, 5], tensor![0, 1, 1, 3]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cummax(input: &Tensor, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.cummax(dim)
}

/// The smallest element up to each along a dimension, and its position (int64; `torch.cummin`).
///
/// Both have the operand's shape. An error for complex tensors, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (values, indices) = F::cummin(&tensor![4, 5, 2, 3], 0)?;
/// assert_eq!((values, indices), (tensor![4, 4, 2, 2], tensor![0, 0, 2, 2]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cummin(input: &Tensor, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
    input.cummin(dim)
}

/// The product of all elements up to each along a dimension (`torch.cumprod`).
///
/// Shape stays; integers and bools multiply in int64. An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cumprod(&tensor![1, 2, 3, 4], 0)?, tensor![1, 2, 6, 24]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumprod(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumprod(dim)
}

/// [`cumprod`] of the elements converted to the option `dtype` first.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let options = F::CumsumOptions::new().dtype(DType::F32);
/// assert_eq!(F::cumprod_with(&tensor![1, 2, 3], 0, options)?, tensor![1.0, 2.0, 6.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumprod_with(input: &Tensor, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
    input.cumprod_with(dim, options)
}

/// The sum of all elements up to each along a dimension (`torch.cumsum`).
///
/// Shape stays; integers and bools add up in int64. An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cumsum(&tensor![[1, 2, 3], [4, 5, 6]], 1)?, tensor![[1, 3, 6], [4, 9, 15]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumsum(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumsum(dim)
}

/// [`cumsum`] of the elements converted to the option `dtype` first.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let options = F::CumsumOptions::new().dtype(DType::F32);
/// assert_eq!(F::cumsum_with(&tensor![1, 2, 3], 0, options)?, tensor![1.0, 3.0, 6.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumsum_with(input: &Tensor, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
    input.cumsum_with(dim, options)
}

/// Differences of neighbours along the last dimension, which loses one element (`torch.diff`).
///
/// Keeps the dtype; of bools whether they differ. An error for a 0-d tensor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::diff(&tensor![1, 4, 9, 16])?, tensor![3, 5, 7]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diff(input: &Tensor) -> Result<Tensor> {
    input.diff()
}

/// [`diff`] with PyTorch's keyword arguments: `n` times, along `dim`, with `prepend` and `append`
/// at its ends.
///
/// An error for a negative `n`, and for ends whose other sizes differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DiffOptions, tensor};
/// assert_eq!(F::diff_with(&tensor![1, 4, 9, 16], DiffOptions::new().n(2))?, tensor![2, 2]);
/// assert_eq!(F::diff_with(&tensor![1, 4], DiffOptions::new().prepend(tensor![0]))?, tensor![1, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn diff_with(input: &Tensor, options: DiffOptions) -> Result<Tensor> {
    input.diff_with(options)
}

/// Logarithm of the sum of exponentials of all elements up to each along a dimension
/// (`torch.logcumsumexp`).
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::logcumsumexp(&tensor![0.0, 0.0, 0.0], 0)?.allclose(&tensor![0.0, 0.693147, 1.098612])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logcumsumexp(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.logcumsumexp(dim)
}
