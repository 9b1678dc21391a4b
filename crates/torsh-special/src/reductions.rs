//! Functions along dimensions.

use torsh_tensor::{IntoDim, IntoDims, Result, SoftmaxOptions, Tensor};

/// Exponentials divided by their sum along a dimension.
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range. The gradient of an element is
/// `y (g - sum(y g))` for the result `y` and its gradient `g`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// let y = special::softmax(&tensor![[0.0, 0.0], [1.0, 3.0]], 1)?;
/// assert!(y.allclose(&tensor![[0.5, 0.5], [0.1192029, 0.8807971]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.softmax(dim)
}

/// [`softmax`] of the tensor converted to the option `dtype`, which integers need.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::{DType, SoftmaxOptions, tensor};
/// let options = SoftmaxOptions::new().dtype(DType::F32);
/// assert_eq!(special::softmax_with(&tensor![5, 5], 0, options)?, tensor![0.5, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmax_with(input: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    input.softmax_with(dim, options)
}

/// Logarithm of the [`softmax`], exact where that is tiny.
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range. The gradient of an element is
/// `g - exp(y) sum(g)` for the result `y` and its gradient `g`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// assert_eq!(special::log_softmax(&tensor![0.0, 1000.0], 0)?, tensor![-1000.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn log_softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.log_softmax(dim)
}

/// [`log_softmax`] of the tensor converted to the option `dtype`, which integers need.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::{DType, SoftmaxOptions, tensor};
/// let options = SoftmaxOptions::new().dtype(DType::F32);
/// assert_eq!(special::log_softmax_with(&tensor![0, 1000], 0, options)?, tensor![-1000.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn log_softmax_with(
    input: &Tensor,
    dim: impl IntoDim,
    options: SoftmaxOptions,
) -> Result<Tensor> {
    input.log_softmax_with(dim, options)
}

/// Logarithm of the sum of exponentials over dimensions, which cannot overflow.
///
/// Loses `dims`, or keeps them as size 1 with `keepdim`; integers give the default dtype. An error for a dimension out of
/// range or named twice. The gradient is `exp(x - y)` for the result `y`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// let y = special::logsumexp(&tensor![[0.0, 0.0], [1000.0, 1000.0]], 1, false)?;
/// assert!(y.allclose(&tensor![0.693147, 1000.693147])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logsumexp(input: &Tensor, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
    input.logsumexp(dims, keepdim)
}
