//! Exponentials, logarithms and other elementary functions that `torch.special` has.

use torsh_tensor::{LogitOptions, Operand, Result, Tensor};

crate::unary! {
    /// `-x ln(x)`, its share of an entropy; 0 at 0, minus infinity for negative numbers.
    entr entr [0.0, 0.5, 1.0] ~ [0.0, 0.346574, 0.0], "The gradient is `-ln(x) - 1`.";
    /// 2 to the power of `x`. Complex numbers have it too.
    exp2 exp2 [-1.0, 3.0] ~ [0.5, 8.0], "The gradient is `ln(2) exp2(x)`.";
    /// The logistic function, `1 / (1 + exp(-x))`. Complex numbers have it too.
    expit sigmoid [0.0, 2.0] ~ [0.5, 0.880797], "The gradient is `expit(x) (1 - expit(x))`.";
    /// `exp(x) - 1`, exact near 0. Complex numbers have it too.
    expm1 expm1 [0.0, 1.0] ~ [0.0, 1.718282], "The gradient is `exp(x)`.";
    /// `ln(1 + x)`, exact near 0; nan below -1. Complex numbers have it too.
    log1p log1p [0.0, 1.0] ~ [0.0, 0.693147], "The gradient is `1 / (1 + x)`.";
    /// `ln(x / (1 - x))`, the inverse of [`expit`]; nan outside [0, 1].
    logit logit [0.5, 0.75] ~ [0.0, 1.098612], "The gradient is `1 / (x (1 - x))`.";
    /// The nearest whole number, halves to the even one. Integers stay integers.
    round round [0.5, 1.5, -1.7] ~ [0.0, 2.0, -2.0], "The gradient is 0.";
    /// `sin(pi x) / (pi x)`, 1 at 0. Complex numbers have it too.
    sinc sinc [0.0, 0.5] ~ [1.0, 0.636620], "The gradient is `cos(pi x) / x - sin(pi x) / (pi x^2)`, 0 at 0.";
}

crate::binary! {
    /// `input ln(other)`; 0 where `input` is 0, unless `other` is nan.
    xlogy xlogy (input, other) [0.0, 2.0], [0.0, 3.0] ~ [0.0, 2.197225], "The gradients are `ln(other)` and `input / other`.";
    /// `input ln(1 + other)`; 0 where `input` is 0, unless `other` is nan.
    xlog1py xlog1py (input, other) [0.0, 2.0], [-1.0, 1.0] ~ [0.0, 1.386294], "The gradients are `ln(1 + other)` and `input / (1 + other)`.";
}

/// [`logit`] of the elements limited to [`eps`, `1 - eps`], by the option `eps`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::{LogitOptions, tensor};
/// let y = special::logit_with(&tensor![0.5, 1.0], LogitOptions::new().eps(0.25))?;
/// assert!(y.allclose(&tensor![0.0, 1.098612])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn logit_with<'a>(input: impl Into<Operand<'a>>, options: LogitOptions) -> Result<Tensor> {
    crate::tensor!(input);
    input.logit_with(options)
}

/// [`round`] to a number of decimals (`torch.special.round` with `decimals`).
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// let y = special::round_decimals(&tensor![1.2345, 6.789], 2)?;
/// assert!(y.allclose(&tensor![1.23, 6.79])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn round_decimals<'a>(input: impl Into<Operand<'a>>, decimals: i64) -> Result<Tensor> {
    crate::tensor!(input);
    input.round_decimals(decimals)
}
