//! Error functions and the normal distribution.

crate::unary! {
    /// Error function: `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to `x`.
    erf erf [0.0, 1.0] ~ [0.0, 0.842701], "The gradient is `2 / sqrt(pi) exp(-x^2)`.";
    /// `1 - erf(x)`, exact where it is small.
    erfc erfc [0.0, 1.0] ~ [1.0, 0.157299], "The gradient is `-2 / sqrt(pi) exp(-x^2)`.";
    /// `exp(x^2) erfc(x)`, which neither overflows nor underflows on the right.
    erfcx erfcx [0.0, 1.0] ~ [1.0, 0.427584], "The gradient is `2 x erfcx(x) - 2 / sqrt(pi)`.";
    /// Inverse of [`erf`]; infinite at -1 and 1, nan outside of them.
    erfinv erfinv [0.0, 0.5] ~ [0.0, 0.476936], "The gradient is `sqrt(pi) / 2 exp(erfinv(x)^2)`.";
    /// Distribution function of the standard normal distribution: the integral of its density from minus infinity to `x`.
    /// Exact in the lower tail.
    ndtr ndtr [0.0, 1.0] ~ [0.5, 0.841345], "The gradient is `exp(-x^2 / 2) / sqrt(2 pi)`.";
    /// Inverse of [`ndtr`]; infinite at 0 and 1, nan outside of them.
    ndtri ndtri [0.5, 0.841345] ~ [0.0, 1.0], "The gradient is `sqrt(2 pi) exp(ndtri(x)^2 / 2)`.";
    /// Logarithm of [`ndtr`], exact in both tails.
    log_ndtr log_ndtr [0.0, -40.0] ~ [-0.693147, -804.608442], "The gradient is `sqrt(2 / pi) / erfcx(-x / sqrt(2))`.";
}
