//! Special functions: rows of one tensor, of two tensors, and with a number.

/// Hands the tokens in braces, the special functions of one tensor and then the activations to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_special_unary {
    ($m:ident { $($first:tt)* }) => { $crate::append_activations! { $m { $($first)*

/// The Airy function Ai of each element; nan at the infinities. Without a derivative, as in PyTorch.
airy_ai "special.airy_ai" AiryAi(x) "(Tensor input)" -> float {
    float |x| x.airy_ai();
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.355028, 0.135292];
}

/// Bessel function of the first kind of order 0 of each element; nan at the infinities.
bessel_j0 "special.bessel_j0" BesselJ0(x) "(Tensor input)" -> float {
    float |x| x.bessel_j0();
    grad [x] |c| c.g().mul(c.x()?.bessel_j1()?.neg()?);
    samples (0.5, 4.0);
    example [0.0, 1.0] ~ [1.0, 0.765198];
}

/// Bessel function of the first kind of order 1 of each element; nan at the infinities.
bessel_j1 "special.bessel_j1" BesselJ1(x) "(Tensor input)" -> float {
    float |x| x.bessel_j1();
    grad [x out] |c| {
        // J0(x) - J1(x) / x, which is 1/2 at 0.
        let x = c.x()?;
        let zero = x.abs()?.le(x.dtype().epsilon())?;
        let slope = x.bessel_j0()?.sub(c.out()?.div(Tensor::where_(&zero, 1.0, &x)?)?)?;
        c.g().mul(Tensor::where_(&zero, 0.5, slope)?)
    };
    samples (0.5, 4.0);
    example [0.0, 1.0] ~ [0.0, 0.440051];
}

/// Bessel function of the second kind of order 0 of each element; nan for negative ones and at infinity.
bessel_y0 "special.bessel_y0" BesselY0(x) "(Tensor input)" -> float {
    float |x| x.bessel_y0();
    grad [x] |c| c.g().mul(c.x()?.bessel_y1()?.neg()?);
    samples (0.5, 4.0);
    example [1.0, 2.0] ~ [0.088257, 0.510376];
}

/// Bessel function of the second kind of order 1 of each element; nan for negative ones and at infinity.
bessel_y1 "special.bessel_y1" BesselY1(x) "(Tensor input)" -> float {
    float |x| x.bessel_y1();
    grad [x out] |c| {
        let x = c.x()?;
        let slope = x.bessel_y0()?.sub(c.out()?.div(&x)?)?;
        // At 0 that is the difference of two infinities.
        c.g().mul(Tensor::where_(&x.eq(0.0)?, f64::INFINITY, slope)?)
    };
    samples (0.5, 4.0);
    example [1.0, 2.0] ~ [-0.781213, -0.107032];
}

/// Spherical Bessel function of the first kind of order 0, `sin(x) / x`, of each element; 1 at 0. Without a
/// derivative, as in PyTorch.
spherical_bessel_j0 "special.spherical_bessel_j0" SphericalBesselJ0(x) "(Tensor input)" -> float {
    float |x| x.spherical_bessel_j0();
    samples (0.5, 4.0);
    example [0.0, 1.0] ~ [1.0, 0.841471];
}

/// Modified Bessel function of the first kind of order 0 of each element; nan at the infinities.
i0 "i0" I0(x) "(Tensor input)" -> float {
    float |x| x.i0();
    grad [x] |c| c.g().mul(c.x()?.i1()?);
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [1.0, 1.266066];
}

/// `exp(-|x|) i0(x)` of each element, which does not overflow.
i0e "special.i0e" I0e(x) "(Tensor input)" -> float {
    float |x| x.i0e();
    grad [x out] |c| {
        let x = c.x()?;
        c.g().mul(x.i1e()?.sub(x.sgn()?.mul(c.out()?)?)?)
    };
    samples (0.3, 3.0);
    example [0.0, 1.0] ~ [1.0, 0.465760];
}

/// Modified Bessel function of the first kind of order 1 of each element; nan at the infinities.
i1 "special.i1" I1(x) "(Tensor input)" -> float {
    float |x| x.i1();
    grad [x out] |c| {
        // I0(x) - I1(x) / x, which is 1/2 at 0.
        let x = c.x()?;
        let zero = x.abs()?.le(x.dtype().epsilon())?;
        let slope = x.i0()?.sub(c.out()?.div(Tensor::where_(&zero, 1.0, &x)?)?)?;
        c.g().mul(Tensor::where_(&zero, 0.5, slope)?)
    };
    samples (0.3, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.565159];
}

/// `exp(-|x|) i1(x)` of each element, which does not overflow.
i1e "special.i1e" I1e(x) "(Tensor input)" -> float {
    float |x| x.i1e();
    grad [x out] |c| {
        let x = c.x()?;
        let zero = x.abs()?.le(x.dtype().epsilon())?;
        let rate = x.sgn()?.add(Tensor::where_(&zero, 1.0, &x)?.reciprocal()?)?;
        let slope = x.i0e()?.sub(c.out()?.mul(rate)?)?;
        c.g().mul(Tensor::where_(&zero, 0.5, slope)?)
    };
    samples (0.3, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.207910];
}

/// Modified Bessel function of the second kind of order 0 of each element; infinite at 0 and nan for negative ones.
modified_bessel_k0 "special.modified_bessel_k0" ModifiedBesselK0(x) "(Tensor input)" -> float {
    float |x| x.modified_bessel_k0();
    grad [x] |c| c.g().mul(c.x()?.modified_bessel_k1()?.neg()?);
    samples (0.5, 3.0);
    example [1.0, 2.0] ~ [0.421024, 0.113894];
}

/// Modified Bessel function of the second kind of order 1 of each element; infinite at 0 and nan for negative ones.
modified_bessel_k1 "special.modified_bessel_k1" ModifiedBesselK1(x) "(Tensor input)" -> float {
    float |x| x.modified_bessel_k1();
    grad [x out] |c| {
        let x = c.x()?;
        c.g().mul(x.modified_bessel_k0()?.add(c.out()?.div(&x)?)?.neg()?)
    };
    samples (0.5, 3.0);
    example [1.0, 2.0] ~ [0.601907, 0.139866];
}

/// `exp(x) modified_bessel_k0(x)` of each element, which does not underflow. Without a derivative, as in PyTorch.
scaled_modified_bessel_k0 "special.scaled_modified_bessel_k0" ScaledModifiedBesselK0(x) "(Tensor input)" -> float {
    float |x| x.scaled_modified_bessel_k0();
    samples (0.5, 3.0);
    example [1.0, 2.0] ~ [1.144463, 0.841568];
}

/// `exp(x) modified_bessel_k1(x)` of each element, which does not underflow. Without a derivative, as in PyTorch.
scaled_modified_bessel_k1 "special.scaled_modified_bessel_k1" ScaledModifiedBesselK1(x) "(Tensor input)" -> float {
    float |x| x.scaled_modified_bessel_k1();
    samples (0.5, 3.0);
    example [1.0, 2.0] ~ [1.636153, 1.033477];
}

/// `-x ln(x)` of each element, its share of an entropy; 0 at 0 and minus infinity for negative ones.
entr "special.entr" Entr(x) "(Tensor input)" -> float {
    float |x| x.entr();
    grad [x] |c| c.g().mul(c.x()?.log()?.add(1.0)?.neg()?);
    samples (0.3, 3.0);
    example [0.0, 0.5, 1.0] ~ [0.0, 0.346574, 0.0];
}

/// `exp(x^2) erfc(x)` of each element, which does not underflow.
erfcx "special.erfcx" Erfcx(x) "(Tensor input)" -> float {
    float |x| x.erfcx();
    grad [x out] |c| {
        let slope = c.x()?.mul(c.out()?)?.mul(2.0)?.sub(std::f64::consts::FRAC_2_SQRT_PI)?;
        c.g().mul(slope)
    };
    samples (-1.0, 3.0);
    example [0.0, 1.0] ~ [1.0, 0.427584];
}

/// Distribution function of the standard normal distribution at each element, exact in the lower tail.
ndtr "special.ndtr" Ndtr(x) "(Tensor input)" -> float {
    float |x| x.ndtr();
    grad [x] |c| {
        let density = c.x()?.square()?.mul(-0.5)?.exp()?.mul(0.3989422804014327)?;
        c.g().mul(density)
    };
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.5, 0.841345];
}

/// Logarithm of the distribution function of the standard normal distribution at each element, exact in both tails.
log_ndtr "special.log_ndtr" LogNdtr(x) "(Tensor input)" -> float {
    float |x| x.log_ndtr();
    grad [x] |c| {
        let mills = c.x()?.mul(-std::f64::consts::FRAC_1_SQRT_2)?.erfcx()?;
        c.g().div(mills)?.mul(0.7978845608028654)
    };
    samples (-3.0, 2.0);
    example [0.0, 1.0] ~ [-0.693147, -0.172753];
}

/// Where the distribution function of the standard normal distribution has each element as its value; nan outside
/// [0, 1].
ndtri "special.ndtri" Ndtri(x) "(Tensor input)" -> float {
    float |x| x.ndtri();
    grad [out] |c| c.g().mul(c.out()?.square()?.mul(0.5)?.exp()?.mul(2.5066282746310002)?);
    samples (0.1, 0.9);
    example [0.5, 0.841345] ~ [0.0, 1.0];
}

    } } };
}

/// Hands the tokens in braces, the special functions of two tensors and then the comparisons to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_special_binary {
    ($m:ident { $($first:tt)* }) => { $crate::append_comparisons! { $m { $($first)*

/// Hurwitz zeta function of `input`, the exponent, and `other`, elementwise: the sum of `(other + k)^-input` over k >= 0.
/// Nan for an exponent below 1, infinite at 1 and where `other` is 0 or a negative whole number. Differentiable in
/// `other` alone, as in PyTorch.
zeta "special.zeta" Zeta(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x.zeta(y);
    grad [] |_c| Err(torsh_core::TorshError::autograd(
        "special.zeta",
        "the derivative for the first operand is not implemented: detach it",
    ));
    grad [x y] |c| {
        let x = c.x()?;
        c.g().mul(x.add(1.0)?.zeta(c.y()?)?.mul(x.neg()?)?)
    };
    samples (1.5, 4.0), (0.5, 3.0);
    example [2.0, 3.0], [1.0, 2.0] ~ [1.644934, 0.202057];
}

/// Regularised lower incomplete gamma function of the order `input` at `other`, elementwise; nan where either is
/// negative. Differentiable in `other` alone, as in PyTorch.
igamma "igamma" Igamma(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.gammainc(y);
    grad [] |_c| Err(torsh_core::TorshError::autograd(
        "igamma",
        "the derivative for the first operand is not implemented: detach it",
    ));
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let power = x.sub(1.0)?.mul(y.log()?)?.sub(&y)?.sub(x.lgamma()?)?;
        c.g().mul(power.exp()?)
    };
    samples (0.5, 4.0), (0.5, 4.0);
    example [1.0, 2.0], [1.0, 3.0] ~ [0.632121, 0.800852];
}

/// Regularised upper incomplete gamma function of the order `input` at `other`, elementwise: `1 - igamma`, exact where
/// it is small. Nan where either is negative. Differentiable in `other` alone, as in PyTorch.
igammac "igammac" Igammac(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.gammaincc(y);
    grad [] |_c| Err(torsh_core::TorshError::autograd(
        "igammac",
        "the derivative for the first operand is not implemented: detach it",
    ));
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let power = x.sub(1.0)?.mul(y.log()?)?.sub(&y)?.sub(x.lgamma()?)?;
        c.g().mul(power.exp()?)?.neg()
    };
    samples (0.5, 4.0), (0.5, 4.0);
    example [1.0, 2.0], [1.0, 3.0] ~ [0.367879, 0.199148];
}

/// `input * log(1 + other)`, elementwise; 0 where `input` is 0, unless `other` is nan.
xlog1py "special.xlog1py" Xlog1py(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x.xlog1py::<A>(y);
    grad [x y] |c| {
        let y = c.y()?;
        let flat = c.x()?.eq(0.0)?.logical_and(y.le(-1.0)?)?;
        c.g().xlog1py(y)?.where_zero(&flat, true)
    };
    grad [x y] |c| c.g().mul(c.x()?)?.div(c.y()?.add(1.0)?);
    samples (0.3, 2.0), (-0.5, 2.0);
    example [0.0, 2.0], [-1.0, 1.0] ~ [0.0, 1.386294];
}

/// Hermite's polynomial H of order `n` (the physicists') at `input`, elementwise. Nan above order 512, of float32
/// above 128.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
hermite_polynomial_h "special.hermite_polynomial_h" HermiteH(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.hermite_polynomial_h(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 40.0];
}

/// Hermite's polynomial He of order `n` (the probabilists') at `input`, elementwise. Nan above order 512, of float32
/// above 128.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
hermite_polynomial_he "special.hermite_polynomial_he" HermiteHe(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.hermite_polynomial_he(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-0.75, 2.0];
}

/// Laguerre's polynomial L of order `n` at `input`, elementwise. Nan above order 1048576, where the recurrence would
/// take too long.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
laguerre_polynomial_l "special.laguerre_polynomial_l" LaguerreL(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.laguerre_polynomial_l(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [0.125, -0.333333];
}

/// Legendre's polynomial P of order `n` at `input`, elementwise. Nan above order 1048576, where the recurrence would
/// take too long.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
legendre_polynomial_p "special.legendre_polynomial_p" LegendreP(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.legendre_polynomial_p(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-0.125, 17.0];
}

/// Chebyshev's polynomial T (of the first kind) of order `n` at `input`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
chebyshev_polynomial_t "special.chebyshev_polynomial_t" ChebyshevT(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.chebyshev_polynomial_t(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-0.5, 26.0];
}

/// Chebyshev's polynomial U (of the second kind) of order `n` at `input`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
chebyshev_polynomial_u "special.chebyshev_polynomial_u" ChebyshevU(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.chebyshev_polynomial_u(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [0.0, 56.0];
}

/// Chebyshev's polynomial V (of the third kind) of order `n` at `input`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
chebyshev_polynomial_v "special.chebyshev_polynomial_v" ChebyshevV(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.chebyshev_polynomial_v(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 41.0];
}

/// Chebyshev's polynomial W (of the fourth kind) of order `n` at `input`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
chebyshev_polynomial_w "special.chebyshev_polynomial_w" ChebyshevW(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.chebyshev_polynomial_w(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [1.0, 71.0];
}

/// Chebyshev's polynomial T (of the first kind) of order `n` at `2 input - 1`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
shifted_chebyshev_polynomial_t "special.shifted_chebyshev_polynomial_t" ShiftedChebyshevT(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.shifted_chebyshev_polynomial_t(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 99.0];
}

/// Chebyshev's polynomial U (of the second kind) of order `n` at `2 input - 1`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
shifted_chebyshev_polynomial_u "special.shifted_chebyshev_polynomial_u" ShiftedChebyshevU(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.shifted_chebyshev_polynomial_u(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 204.0];
}

/// Chebyshev's polynomial V (of the third kind) of order `n` at `2 input - 1`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
shifted_chebyshev_polynomial_v "special.shifted_chebyshev_polynomial_v" ShiftedChebyshevV(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.shifted_chebyshev_polynomial_v(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 169.0];
}

/// Chebyshev's polynomial W (of the fourth kind) of order `n` at `2 input - 1`, elementwise.
/// An order is truncated to a whole number; negative orders give 0. Without a derivative, as in PyTorch.
shifted_chebyshev_polynomial_w "special.shifted_chebyshev_polynomial_w" ShiftedChebyshevW(x, y) "(Tensor input, Tensor n)" -> float {
    float |x, y| x.shifted_chebyshev_polynomial_w(y);
    samples (-0.9, 0.9), (2.0, 5.0);
    example [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 239.0];
}

    } } };
}

/// Hands the tokens in braces, the special functions with a number and then the losses to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_special_parametric {
    ($m:ident { $($first:tt)* }) => { $crate::append_losses! { $m { $($first)*

/// Derivative of order `n` of digamma.
polygamma "polygamma" Polygamma(x; n) "" -> float {
    float |x; n| x.polygamma(n.trunc());
    grad [x] |c| {
        let n = c.number("n")?.to_i64();
        c.g().mul(c.x()?.polygamma(n.saturating_add(1))?)
    };
    samples (0.5, 4.0);
}

/// Logarithm of the multivariate gamma function of order `p`.
mvlgamma "mvlgamma" Mvlgamma(x; p) "" -> float {
    float |x; p| x.multigammaln(p.trunc());
    grad [x] |c| {
        // The sum of digamma at the shifted arguments.
        let p = c.number("p")?.to_i64();
        let x = c.x()?;
        let shifts = Tensor::arange(0.0, -0.5 * p as f64, -0.5, x.dtype(), x.device())?;
        let slopes = x.unsqueeze(-1)?.add(shifts)?.digamma()?;
        c.g().mul(slopes.sum_dim(-1, false)?)
    };
    samples (3.0, 6.0);
}

    } } };
}
