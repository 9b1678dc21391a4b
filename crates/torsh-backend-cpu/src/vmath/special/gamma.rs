//! The gamma function's logarithm and its derivative. Where digits cancel, `EXACT` asks for two doubles, as float64 needs
//! them.

use std::f64::consts::PI;

use torsh_core::cmath;

use super::dd::{self, Dd, horner, piece, two_sum};
use super::tables::gamma::{DIGAMMA, LGAMMA, LGAMMA_UP};
use super::tables::log::{BERNOULLI, STIRLING};
use crate::vmath::Arch;

/// The root of digamma, in two parts.
const ROOT_HI: f64 = 1.461_632_144_968_362_2;
const ROOT_LO: f64 = 9.549_995_429_965_697e-17;
/// `ln(2 pi) / 2` in two parts.
const HALF_LOG_2PI: Dd = Dd {
    hi: 0.918_938_533_204_672_8,
    lo: -3.878_294_158_067_241_6e-17,
};
const LOG_PI: f64 = 1.144_729_885_849_400_2;

/// `ln Gamma(1 + x) / x` for x in [0, 2).
#[inline(always)]
fn log_gamma_slope<A: Arch>(x: f64) -> f64 {
    (x - 1.0) * piece::<A>(1.0 + x, &LGAMMA[((x * 4.0) as usize).min(7)])
}

/// `ln Gamma(1 + x)` for x in [0, 2), exact near 0.
#[inline(always)]
pub(crate) fn lgamma1p<A: Arch>(x: f64) -> f64 {
    x * log_gamma_slope::<A>(x)
}

/// `ln Gamma*(x)`: what Stirling's formula leaves of `ln Gamma(x)`, for x >= 9.
#[inline(always)]
pub(crate) fn stirling<A: Arch>(x: f64) -> f64 {
    let r = 1.0 / x;
    r * horner::<A>(r * r, &STIRLING[0][..10])
}

/// `ln Gamma(x)` in two doubles, for a finite x >= 9.
#[inline(always)]
pub(crate) fn large_lgamma<A: Arch, const EXACT: bool>(x: f64) -> Dd {
    let main = dd::log_for::<A, EXACT>(x)
        .times::<A>(two_sum(x, -0.5))
        .add(-x);
    main.plus(HALF_LOG_2PI).add(stirling::<A>(x))
}

/// `ln Gamma(x)` for x > 0.
#[inline(always)]
fn positive_lgamma<A: Arch, const EXACT: bool>(x: f64) -> f64 {
    if x < 0.5 {
        lgamma1p::<A>(x) - x.ln()
    } else if x < 1.0 {
        // Both terms vanish at 1.
        x * log_gamma_slope::<A>(x) - dd::log_for::<A, EXACT>(x).value()
    } else if x < 3.0 {
        // 0 at the roots, not -0.
        (x - 2.0) * ((x - 1.0) * piece::<A>(x, &LGAMMA[(x * 4.0) as usize - 4])) + 0.0
    } else if x < 16.0 {
        piece::<A>(x, &LGAMMA_UP[(x * 2.0) as usize - 6])
    } else if x == f64::INFINITY {
        x
    } else {
        let sum = large_lgamma::<A, EXACT>(x);
        // Where the product overflows in two doubles, one is exact enough.
        if sum.hi.is_finite() {
            sum.value()
        } else {
            x * (x.ln() - 1.0)
        }
    }
}

/// Logarithm of the magnitude of the gamma function.
#[inline(always)]
pub(crate) fn lgamma<A: Arch, const EXACT: bool>(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x > 0.0 {
        positive_lgamma::<A, EXACT>(x)
    } else if x == x.trunc() {
        f64::INFINITY
    } else if x > -1e-17 {
        -(-x).ln()
    } else {
        // Gamma(x) Gamma(-x) = -pi / (x sin(pi x)).
        LOG_PI - (x * dd::sin_pi(x)).abs().ln() - positive_lgamma::<A, EXACT>(-x)
    }
}

/// digamma for x > 0.
#[inline(always)]
fn positive_digamma<A: Arch>(x: f64) -> f64 {
    if x < 9.0 {
        // Up to [1, 9), where the error of the sum counts.
        let Dd { hi, lo } = if x < 1.0 { two_sum(x, 1.0) } else { Dd::new(x) };
        let row = &DIGAMMA[((hi * 2.0) as usize - 2).min(14)];
        let at = (hi - row[0]) + lo;
        let value = (((hi - ROOT_HI) - ROOT_LO) + lo) * horner::<A>(at, &row[1..]);
        if x < 1.0 { value - 1.0 / x } else { value }
    } else {
        let z = 1.0 / (x * x);
        let tail = z * horner::<A>(z, &BERNOULLI[0][..10]);
        x.ln() - (0.5 / x + tail)
    }
}

/// Derivative of [`lgamma`]; at the poles as PyTorch: inf of the opposite sign at 0, nan at the negative integers.
#[inline(always)]
pub(crate) fn digamma<A: Arch>(x: f64) -> f64 {
    if x > 0.0 {
        positive_digamma::<A>(x)
    } else if x == 0.0 {
        f64::INFINITY.copysign(-x)
    } else if x == x.trunc() || x.is_nan() {
        f64::NAN
    } else {
        // tan(pi x) has period 1; the remainder, in [-1/2, 1/2], is exact.
        let r = x - x.round();
        positive_digamma::<A>(1.0 - x) - PI / cmath::tan(PI * r)
    }
}

/// `ln` of the multivariate gamma function of order `p`, at most [`MAX_ORDER`]; nan for `x <= (p - 1) / 2`, where
/// PyTorch leaves it undefined.
#[inline(always)]
pub(crate) fn multigammaln<A: Arch, const EXACT: bool>(x: f64, p: f64) -> f64 {
    let mut sum = Dd {
        hi: 0.572_364_942_924_700_1,
        lo: -4.116_250_411_577_868e-18,
    }
    .mul::<A>(p * (p - 1.0) * 0.5);
    let mut j = 0.0;
    while j < p {
        let at = two_sum(x, -0.5 * j);
        // What `at` lost moves the logarithm by digamma.
        let slope = if at.lo == 0.0 {
            0.0
        } else {
            at.lo * digamma::<A>(at.hi)
        };
        sum = sum.add(lgamma::<A, EXACT>(at.hi)).add(slope);
        j += 1.0;
    }
    let value = sum.value();
    // Where a logarithm overflows, its two parts are infinities that differ in sign.
    let overflows = value.is_nan() && x > p;
    if overflows { f64::INFINITY } else { value }
}
