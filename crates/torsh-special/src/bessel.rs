//! Bessel functions, plain, modified and spherical, and the Airy function.

crate::unary! {
    /// The Airy function Ai, the solution of `y'' = x y` that decays on the right; nan at the infinities.
    airy_ai airy_ai [0.0, 1.0] ~ [0.355028, 0.135292], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Bessel function of the first kind of order 0: the mean of `cos(x sin t)` over all angles `t`. Nan at the infinities.
    bessel_j0 bessel_j0 [0.0, 1.0] ~ [1.0, 0.765198], "The gradient is `-bessel_j1(x)`.";
    /// Bessel function of the first kind of order 1: the mean of `cos(t - x sin t)` over all angles `t`. Nan at the
    /// infinities.
    bessel_j1 bessel_j1 [0.0, 1.0] ~ [0.0, 0.440051], "The gradient is `bessel_j0(x) - bessel_j1(x) / x`, 1/2 at 0.";
    /// Bessel function of the second kind of order 0; minus infinity at 0, nan for negative numbers and at infinity.
    bessel_y0 bessel_y0 [1.0, 2.0] ~ [0.088257, 0.510376], "The gradient is `-bessel_y1(x)`.";
    /// Bessel function of the second kind of order 1; minus infinity at 0, nan for negative numbers and at infinity.
    bessel_y1 bessel_y1 [1.0, 2.0] ~ [-0.781213, -0.107032], "The gradient is `bessel_y0(x) - bessel_y1(x) / x`.";
    /// Modified Bessel function of the first kind of order 0: the mean of `exp(x cos t)` over all angles `t`. Nan at the
    /// infinities, as in PyTorch.
    i0 i0 [0.0, 1.0] ~ [1.0, 1.266066], "The gradient is `i1(x)`.";
    /// `exp(-|x|) i0(x)`, which does not overflow.
    i0e i0e [0.0, 1.0] ~ [1.0, 0.465760], "The gradient is `i1e(x) - sgn(x) i0e(x)`.";
    /// Modified Bessel function of the first kind of order 1: the mean of `cos(t) exp(x cos t)` over all angles `t`. Nan at
    /// the infinities, as in PyTorch.
    i1 i1 [0.0, 1.0] ~ [0.0, 0.565159], "The gradient is `i0(x) - i1(x) / x`, 1/2 at 0.";
    /// `exp(-|x|) i1(x)`, which does not overflow.
    i1e i1e [0.0, 1.0] ~ [0.0, 0.207910], "The gradient is `i0e(x) - i1e(x) (sgn(x) + 1 / x)`, 1/2 at 0.";
    /// [`i0`] under its longer name.
    modified_bessel_i0 i0 [0.0, 1.0] ~ [1.0, 1.266066], "The gradient is `i1(x)`.";
    /// [`i1`] under its longer name.
    modified_bessel_i1 i1 [0.0, 1.0] ~ [0.0, 0.565159], "The gradient is `i0(x) - i1(x) / x`, 1/2 at 0.";
    /// Modified Bessel function of the second kind of order 0: the integral of `exp(-x cosh t)` over `t > 0`. Infinite at 0,
    /// nan for negative numbers.
    modified_bessel_k0 modified_bessel_k0 [1.0, 2.0] ~ [0.421024, 0.113894], "The gradient is `-modified_bessel_k1(x)`.";
    /// Modified Bessel function of the second kind of order 1: the integral of `cosh(t) exp(-x cosh t)` over `t > 0`.
    /// Infinite at 0, nan for negative numbers.
    modified_bessel_k1 modified_bessel_k1 [1.0, 2.0] ~ [0.601907, 0.139866], "The gradient is `-modified_bessel_k0(x) - modified_bessel_k1(x) / x`.";
    /// `exp(x) modified_bessel_k0(x)`, which does not underflow.
    scaled_modified_bessel_k0 scaled_modified_bessel_k0 [1.0, 2.0] ~ [1.144463, 0.841568], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// `exp(x) modified_bessel_k1(x)`, which does not underflow.
    scaled_modified_bessel_k1 scaled_modified_bessel_k1 [1.0, 2.0] ~ [1.636153, 1.033477], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Spherical Bessel function of the first kind of order 0: `sin(x) / x`, 1 at 0 and 0 at the infinities.
    spherical_bessel_j0 spherical_bessel_j0 [0.0, 1.0] ~ [1.0, 0.841471], "PyTorch has no gradient of this function, so asking for one is an error.";
}
