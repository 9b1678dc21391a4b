//! Activations with arguments beside the tensor.

use torsh_tensor::{
    EluOptions, GeluOptions, HardtanhOptions, IntoDim, LeakyReluOptions, Operand, Result, Scalar,
    ShrinkOptions, SoftmaxOptions, SoftplusOptions, Tensor,
};

pub use torsh_tensor::{GumbelSoftmaxOptions, RreluOptions};

use crate::tensor;

/// Activations with numbers that PyTorch gives defaults: a plain form and one that names them.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $(#[$with_doc:meta])* $with:ident $options:ident;)*) => {$(
        $(#[$doc])*
        #[torsh_tensor::names_caller]
        pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            tensor!(input);
            input.$name()
        }

        $(#[$with_doc])*
        #[torsh_tensor::names_caller]
        pub fn $with<'a>(input: impl Into<Operand<'a>>, options: $options) -> Result<Tensor> {
            tensor!(input);
            input.$with(options)
        }
    )*};
}

numbers! {
    /// `x`, and `0.01 * x` for negative elements (`torch.nn.functional.leaky_relu`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::leaky_relu(&tensor![-2.0, 3.0])?.allclose(&tensor![-0.02, 3.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    leaky_relu
    /// [`leaky_relu`] with another `negative_slope`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LeakyReluOptions::new().negative_slope(0.5);
    /// assert_eq!(F::leaky_relu_with(&tensor![-2.0, 3.0], options)?, tensor![-1.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    leaky_relu_with LeakyReluOptions;
    /// `x`, and `exp(x) - 1` for negative elements (`torch.nn.functional.elu`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::elu(&tensor![-1.0, 2.0])?.allclose(&tensor![-0.6321206, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    elu
    /// [`elu`] with `alpha * (exp(x) - 1)` for negative elements.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::elu_with(&tensor![-1.0, 2.0], F::EluOptions::new().alpha(2.0))?.allclose(&tensor![-1.264241, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    elu_with EluOptions;
    /// `x`, and `exp(x) - 1` for negative elements; smooth for every `alpha`
    /// (`torch.nn.functional.celu`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::celu(&tensor![-1.0, 2.0])?.allclose(&tensor![-0.6321206, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    celu
    /// [`celu`] with `alpha * (exp(x / alpha) - 1)` for negative elements; an error for `alpha` 0.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::celu_with(&tensor![-2.0, 2.0], F::EluOptions::new().alpha(2.0))?.allclose(&tensor![-1.264241, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    celu_with EluOptions;
    /// `log(1 + exp(x))`, linear above 20 (`torch.nn.functional.softplus`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::softplus(&tensor![0.0, 30.0])?.allclose(&tensor![0.6931472, 30.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    softplus
    /// [`softplus`] with `log(1 + exp(beta * x)) / beta`, linear where `beta * x` is above
    /// `threshold`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::softplus_with(&tensor![0.0, 30.0], F::SoftplusOptions::new().beta(2.0))?.allclose(&tensor![0.3465736, 30.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    softplus_with SoftplusOptions;
    /// `x` limited to `[-1, 1]` (`torch.nn.functional.hardtanh`).
    ///
    /// Shape and dtype stay; an error for bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::hardtanh(&tensor![-3.0, 0.5, 3.0])?, tensor![-1.0, 0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hardtanh
    /// [`hardtanh`] with the limits `min_val` and `max_val`; an error where they cross.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::HardtanhOptions::new().min_val(0.0).max_val(2.0);
    /// assert_eq!(F::hardtanh_with(&tensor![-3.0, 0.5, 3.0], options)?, tensor![0.0, 0.5, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hardtanh_with HardtanhOptions;
    /// `x`, and 0 within 0.5 of 0 (`torch.nn.functional.hardshrink`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::hardshrink(&tensor![-1.0, 0.25, 0.75])?, tensor![-1.0, 0.0, 0.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hardshrink
    /// [`hardshrink`] with 0 within `lambd` of 0.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::hardshrink_with(&tensor![-1.0, 0.25, 0.75], F::ShrinkOptions::new().lambd(0.8))?, tensor![-1.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hardshrink_with ShrinkOptions;
    /// `x` moved by 0.5 towards 0, and not beyond (`torch.nn.functional.softshrink`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::softshrink(&tensor![-1.0, 0.25, 0.75])?, tensor![-0.5, 0.0, 0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    softshrink
    /// [`softshrink`] with elements moved by `lambd`; an error for a negative one.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::softshrink_with(&tensor![-1.0, 0.25, 0.75], F::ShrinkOptions::new().lambd(0.25))?, tensor![-0.75, 0.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    softshrink_with ShrinkOptions;
}

/// `x - tanh(x)` of each element (`torch.nn.functional.tanhshrink`).
///
/// Shape stays; integers give the default dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::tanhshrink(&tensor![0.0, 1.0])?.allclose(&tensor![0.0, 0.2384058])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn tanhshrink<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.into().to_tensor()?.tanhshrink()
}

/// `value` for elements that are not above `threshold`, themselves for others
/// (`torch.nn.functional.threshold`).
///
/// Shape and dtype stay; an error for bools and complex numbers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::threshold(&tensor![0.1, 0.5, 0.9], 0.5, -1.0)?, tensor![-1.0, -1.0, 0.9]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn threshold<'a>(
    input: impl Into<Operand<'a>>,
    threshold: impl Into<Scalar>,
    value: impl Into<Scalar>,
) -> Result<Tensor> {
    tensor!(input);
    input.threshold(threshold, value)
}

/// `x` times the probability that a standard normal draw is below it (`torch.nn.functional.gelu`).
///
/// Shape and dtype stay; an error for integers, bools and complex numbers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::gelu(&tensor![-1.0, 0.0, 1.0])?.allclose(&tensor![-0.1586553, 0.0, 0.8413447])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gelu<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    tensor!(input);
    input.gelu()
}

/// [`gelu`], exact (`"none"`) or by a hyperbolic tangent (`"tanh"`); an error for another word.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::GeluOptions::new().approximate("tanh");
/// assert!(F::gelu_with(&tensor![0.0, 1.0], options)?.allclose(&tensor![0.0, 0.8411920])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gelu_with<'a>(input: impl Into<Operand<'a>>, options: GeluOptions) -> Result<Tensor> {
    tensor!(input);
    input.gelu_with(options)
}

/// `x`, and `weight * x` for negative elements; `weight` has one element or one for each channel
/// (dimension 1; `torch.nn.functional.prelu`).
///
/// Shape and dtype stay. An error for a weight of another number of elements or another dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::prelu(&tensor![[-2.0, -2.0, 3.0]], &tensor![0.5, 0.25, 0.5])?, tensor![[-1.0, -0.5, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn prelu(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    input.prelu(weight)
}

/// `x`, and for elements that are not positive `x` times the mean of the slopes 1/8 and 1/3
/// (`torch.nn.functional.rrelu`).
///
/// Shape and dtype stay; an error for integers, bools and complex numbers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::rrelu(&tensor![-48.0, 3.0])?.allclose(&tensor![-11.0, 3.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rrelu<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    tensor!(input);
    input.rrelu()
}

/// [`rrelu`] with the slopes `lower` and `upper`, in `training` drawn for each element.
///
/// An error where the slopes cross or are not finite.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::RreluOptions::new().lower(0.25).upper(0.75);
/// assert_eq!(F::rrelu_with(&tensor![-4.0, 3.0], options)?, tensor![-2.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rrelu_with<'a>(input: impl Into<Operand<'a>>, options: RreluOptions) -> Result<Tensor> {
    tensor!(input);
    input.rrelu_with(options)
}

/// Draws from the categorical distributions of logits along the last dimension, relaxed at
/// temperature 1 (`torch.nn.functional.gumbel_softmax`).
///
/// Shape and dtype stay, and each draw adds up to 1. An error for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// let y = F::gumbel_softmax(&zeros([2, 3]))?;
/// assert!(y.sum_dim(1, false)?.allclose(&tensor![1.0, 1.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gumbel_softmax(logits: &Tensor) -> Result<Tensor> {
    logits.gumbel_softmax()
}

/// [`gumbel_softmax`] with another temperature `tau` or dimension `dim`, or `hard` (one-hot) draws.
///
/// An error for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let hard = F::GumbelSoftmaxOptions::new().hard(true);
/// assert_eq!(F::gumbel_softmax_with(&tensor![[0.0, 1000.0]], hard)?, tensor![[0.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gumbel_softmax_with(logits: &Tensor, options: GumbelSoftmaxOptions) -> Result<Tensor> {
    logits.gumbel_softmax_with(options)
}

/// Exponentials divided by their sum along a dimension (`torch.nn.functional.softmax`).
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::softmax(&tensor![[0.0, 0.0], [1.0, 3.0]], 1)?.allclose(&tensor![[0.5, 0.5], [0.1192029, 0.8807971]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.softmax(dim)
}

/// [`softmax`] of the tensor converted to the option `dtype`, which integers need.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let options = F::SoftmaxOptions::new().dtype(DType::F32);
/// assert_eq!(F::softmax_with(&tensor![5, 5], 0, options)?, tensor![0.5, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmax_with(input: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    input.softmax_with(dim, options)
}

/// Logarithm of the [`softmax`], exact where that is tiny (`torch.nn.functional.log_softmax`).
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::log_softmax(&tensor![0.0, 0.0], 0)?.allclose(&tensor![-0.6931472, -0.6931472])?);
/// assert_eq!(F::log_softmax(&tensor![0.0, 1000.0], 0)?, tensor![-1000.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn log_softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.log_softmax(dim)
}

/// [`log_softmax`] of the tensor converted to the option `dtype`, which integers need.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let options = F::SoftmaxOptions::new().dtype(DType::F32);
/// assert_eq!(F::log_softmax_with(&tensor![0, 1000], 0, options)?, tensor![-1000.0, 0.0]);
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

/// [`softmax`] of the negated elements (`torch.nn.functional.softmin`).
///
/// Shape and dtype stay. An error for integers, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::softmin(&tensor![1.0, 3.0], 0)?.allclose(&tensor![0.8807971, 0.1192029])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn softmin(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    softmax(&input.neg()?, dim)
}

/// [`softmin`] of the tensor converted to a dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let options = F::SoftmaxOptions::new().dtype(DType::F32);
/// assert_eq!(F::softmin_with(&tensor![0, 0, 0, 0], 0, options)?, tensor![0.25, 0.25, 0.25, 0.25]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmin_with(input: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    input.softmin_with(dim, options)
}
