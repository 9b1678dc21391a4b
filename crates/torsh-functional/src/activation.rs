//! Activations with arguments beside the tensor.

use torsh_tensor::{
    EluOptions, GeluOptions, HardtanhOptions, IntoDim, LeakyReluOptions, Operand, Result, Scalar,
    ShrinkOptions, SoftmaxOptions, SoftplusOptions, Tensor,
};

pub use torsh_tensor::{GumbelSoftmaxOptions, RreluOptions};

use crate::tensor;

/// Activations with numbers that PyTorch gives defaults: a plain form and one that names them.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $with:ident $options:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            tensor!(input);
            input.$name()
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's other arguments.")]
        #[track_caller]
        pub fn $with<'a>(input: impl Into<Operand<'a>>, options: $options) -> Result<Tensor> {
            tensor!(input);
            input.$with(options)
        }
    )*};
}

numbers! {
    /// `x`, and `0.01 * x` for negative elements.
    leaky_relu leaky_relu_with LeakyReluOptions;
    /// `x`, and `exp(x) - 1` for negative elements.
    elu elu_with EluOptions;
    /// `x`, and `exp(x) - 1` for negative elements; smooth for every `alpha`.
    celu celu_with EluOptions;
    /// `log(1 + exp(x))`, linear above 20.
    softplus softplus_with SoftplusOptions;
    /// `x` limited to `[-1, 1]`.
    hardtanh hardtanh_with HardtanhOptions;
    /// `x`, and 0 within 0.5 of 0.
    hardshrink hardshrink_with ShrinkOptions;
    /// `x` moved by 0.5 towards 0, and not beyond.
    softshrink softshrink_with ShrinkOptions;
}

/// `x - tanh(x)` of each element.
#[track_caller]
pub fn tanhshrink<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.into().to_tensor()?.tanhshrink()
}

/// `value` for elements that are not above `threshold`, themselves for others.
#[track_caller]
pub fn threshold<'a>(
    input: impl Into<Operand<'a>>,
    threshold: impl Into<Scalar>,
    value: impl Into<Scalar>,
) -> Result<Tensor> {
    tensor!(input);
    input.threshold(threshold, value)
}

/// `x` times the probability that a standard normal draw is below it.
#[track_caller]
pub fn gelu<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    tensor!(input);
    input.gelu()
}

/// [`gelu`], exact (`"none"`) or by a hyperbolic tangent (`"tanh"`).
#[track_caller]
pub fn gelu_with<'a>(input: impl Into<Operand<'a>>, options: GeluOptions) -> Result<Tensor> {
    tensor!(input);
    input.gelu_with(options)
}

/// `x`, and `weight * x` for negative elements; `weight` has one element or one for each channel.
#[track_caller]
pub fn prelu(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    input.prelu(weight)
}

/// `x`, and for elements that are not positive `x` times the mean of the slopes 1/8 and 1/3.
#[track_caller]
pub fn rrelu<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    tensor!(input);
    input.rrelu()
}

/// [`rrelu`] with other slopes, in training drawn for each element.
#[track_caller]
pub fn rrelu_with<'a>(input: impl Into<Operand<'a>>, options: RreluOptions) -> Result<Tensor> {
    tensor!(input);
    input.rrelu_with(options)
}

/// Draws from the categorical distributions of logits along the last dimension, relaxed at
/// temperature 1.
#[track_caller]
pub fn gumbel_softmax(logits: &Tensor) -> Result<Tensor> {
    logits.gumbel_softmax()
}

/// [`gumbel_softmax`] with another temperature or dimension, or one-hot draws.
#[track_caller]
pub fn gumbel_softmax_with(logits: &Tensor, options: GumbelSoftmaxOptions) -> Result<Tensor> {
    logits.gumbel_softmax_with(options)
}

/// Exponentials divided by their sum along a dimension.
#[track_caller]
pub fn softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.softmax(dim)
}

/// [`softmax`] of the tensor converted to a dtype.
#[track_caller]
pub fn softmax_with(input: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    input.softmax_with(dim, options)
}

/// Logarithm of the [`softmax`], exact where that is tiny.
#[track_caller]
pub fn log_softmax(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.log_softmax(dim)
}

/// [`log_softmax`] of the tensor converted to a dtype.
#[track_caller]
pub fn log_softmax_with(
    input: &Tensor,
    dim: impl IntoDim,
    options: SoftmaxOptions,
) -> Result<Tensor> {
    input.log_softmax_with(dim, options)
}

/// [`softmax`] of the negated elements.
#[track_caller]
pub fn softmin(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    softmax(&input.neg()?, dim)
}
