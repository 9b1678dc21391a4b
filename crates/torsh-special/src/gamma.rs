//! The gamma function's relatives.

use torsh_tensor::{Operand, Result, Tensor};

crate::unary! {
    /// Logarithm of the magnitude of the gamma function; infinite at 0 and the negative whole numbers.
    gammaln lgamma [1.0, 5.0] ~ [0.0, 3.178054], "The gradient is `digamma(x)`.";
    /// Derivative of [`gammaln`]. Infinite at 0, with the opposite sign, and nan at the negative whole numbers.
    digamma digamma [1.0, 2.0] ~ [-0.577216, 0.422784], "The gradient is `polygamma(1, x)`.";
    /// [`digamma`] under its other name.
    psi digamma [1.0, 2.0] ~ [-0.577216, 0.422784], "The gradient is `polygamma(1, x)`.";
}

crate::binary! {
    /// Regularised lower incomplete gamma function of the order `input`, a: the integral of `t^(a - 1) exp(-t)` from 0 to
    /// `other`, divided by `Gamma(a)`. Nan where either is negative. Integer operands alone are an error, as in PyTorch.
    gammainc igamma (input, other) [1.0, 2.0], [1.0, 3.0] ~ [0.632121, 0.800852], "The gradient of `other`, x, is `x^(a - 1) exp(-x) / Gamma(a)`; that of `input` is not implemented, as in PyTorch, and asking for it an error.";
    /// Regularised upper incomplete gamma function: `1 - gammainc(input, other)`, exact where it is small. Nan where either is
    /// negative. Integer operands alone are an error, as in PyTorch.
    gammaincc igammac (input, other) [1.0, 2.0], [1.0, 3.0] ~ [0.367879, 0.199148], "The gradient of `other`, x, is `-x^(a - 1) exp(-x) / Gamma(a)`; that of `input` is not implemented, as in PyTorch, and asking for it an error.";
    /// Hurwitz zeta function: the sum of `(other + k)^-input` over k >= 0. With `other` 1 it is the Riemann zeta function.
    /// Nan where `input` is below 1, or where `other` is negative and `input` is not whole; infinite where `input` is 1 and
    /// where `other` is 0 or a negative whole number.
    zeta zeta (input, other) [2.0, 3.0], [1.0, 2.0] ~ [1.644934, 0.202057], "The gradient of `other` is `-input zeta(input + 1, other)`; that of `input` is not implemented, as in PyTorch, and asking for it an error.";
}

/// Derivative of order `n` of [`digamma`]: `(-1)^(n + 1) n! zeta(n + 1, x)` for `n >= 1`.
///
/// The result has the operand's shape and dtype, or the default dtype where that is an integer or bool. A negative `n` is
/// an error. The gradient is `polygamma(n + 1, x)`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// let y = special::polygamma(1, &tensor![1.0, 2.0])?;
/// assert!(y.allclose(&tensor![1.644934, 0.644934])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn polygamma<'a>(n: i64, input: impl Into<Operand<'a>>) -> Result<Tensor> {
    crate::tensor!(input);
    input.polygamma(n)
}

/// Logarithm of the multivariate gamma function of dimension `p`: `p (p - 1) / 4 ln(pi)` and the sum of
/// `gammaln(x - j / 2)` over j from 0 to `p - 1`.
///
/// The result has the operand's shape and dtype, or the default dtype where that is an integer or bool. An error for `p`
/// below 1 and above 1,000,000. The gradient is the sum of `digamma(x - j / 2)`.
///
/// ```
/// use torsh_special as special;
/// use torsh_tensor::tensor;
/// let y = special::multigammaln(&tensor![2.0, 3.0], 2)?;
/// assert!(y.allclose(&tensor![0.451583, 1.550195])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn multigammaln<'a>(input: impl Into<Operand<'a>>, p: i64) -> Result<Tensor> {
    crate::tensor!(input);
    input.mvlgamma(p)
}
