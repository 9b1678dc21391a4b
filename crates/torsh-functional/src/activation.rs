//! Activations that take more than a tensor.

use torsh_tensor::{DType, Operand, Result, Tensor, Value};

use crate::{call, value};

/// Activations with numbers that PyTorch gives defaults: a plain form and one that names them.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $with:ident $torch:literal ($($p:ident),+);)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            call($torch, &[value(input.into())], &[])
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's other arguments.")]
        #[track_caller]
        pub fn $with<'a>(input: impl Into<Operand<'a>>, $($p: f64),+) -> Result<Tensor> {
            call($torch, &[value(input.into()), $(Value::Float($p)),+], &[])
        }
    )*};
}

numbers! {
    /// `x`, and `0.01 * x` for negative elements.
    leaky_relu leaky_relu_with "nn.functional.leaky_relu" (negative_slope);
    /// `x`, and `exp(x) - 1` for negative elements.
    elu elu_with "nn.functional.elu" (alpha);
    /// `x`, and `exp(x) - 1` for negative elements; smooth for every `alpha`.
    celu celu_with "celu" (alpha);
    /// `log(1 + exp(x))`, linear above 20.
    softplus softplus_with "nn.functional.softplus" (beta, threshold);
    /// `x` limited to `[-1, 1]`.
    hardtanh hardtanh_with "nn.functional.hardtanh" (min_val, max_val);
    /// `x`, and 0 within 0.5 of 0.
    hardshrink hardshrink_with "nn.functional.hardshrink" (lambd);
    /// `x` moved by 0.5 towards 0, and not beyond.
    softshrink softshrink_with "nn.functional.softshrink" (lambd);
}

/// `x - tanh(x)` of each element.
#[track_caller]
pub fn tanhshrink<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.into().to_tensor()?.tanhshrink()
}

/// `value` for elements that are not above `threshold`, themselves for others.
#[track_caller]
pub fn threshold<'a>(input: impl Into<Operand<'a>>, threshold: f64, value: f64) -> Result<Tensor> {
    call(
        "threshold",
        &[
            crate::value(input.into()),
            Value::Float(threshold),
            Value::Float(value),
        ],
        &[],
    )
}

/// `x` times the probability that a standard normal draw is below it.
#[track_caller]
pub fn gelu<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
    gelu_with(input, "none")
}

/// [`gelu`], exact (`"none"`) or by a hyperbolic tangent (`"tanh"`).
#[track_caller]
pub fn gelu_with<'a>(input: impl Into<Operand<'a>>, approximate: &str) -> Result<Tensor> {
    call(
        "nn.functional.gelu",
        &[value(input.into())],
        &[("approximate", approximate.into())],
    )
}

/// `x`, and `weight * x` for negative elements; `weight` has one element or one for each channel.
#[track_caller]
pub fn prelu(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    call("nn.functional.prelu", &[input.into(), weight.into()], &[])
}

/// The first half of a dimension times the sigmoid of the second.
#[track_caller]
pub fn glu(input: &Tensor, dim: i64) -> Result<Tensor> {
    call("nn.functional.glu", &[input.into(), dim.into()], &[])
}

fn dtype(dtype: Option<DType>) -> [(&'static str, Value); 1] {
    [("dtype", dtype.into())]
}

/// Exponentials divided by their sum along a dimension.
#[track_caller]
pub fn softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    softmax_with(input, dim, None)
}

/// [`softmax`] of the tensor converted to a dtype.
#[track_caller]
pub fn softmax_with(input: &Tensor, dim: i64, to: impl Into<Option<DType>>) -> Result<Tensor> {
    call("softmax", &[input.into(), dim.into()], &dtype(to.into()))
}

/// Logarithm of the [`softmax`], exact where that is tiny.
#[track_caller]
pub fn log_softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    log_softmax_with(input, dim, None)
}

/// [`log_softmax`] of the tensor converted to a dtype.
#[track_caller]
pub fn log_softmax_with(input: &Tensor, dim: i64, to: impl Into<Option<DType>>) -> Result<Tensor> {
    call(
        "log_softmax",
        &[input.into(), dim.into()],
        &dtype(to.into()),
    )
}

/// [`softmax`] of the negated elements.
#[track_caller]
pub fn softmin(input: &Tensor, dim: i64) -> Result<Tensor> {
    softmax(&input.neg()?, dim)
}
