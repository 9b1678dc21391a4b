//! The normal distribution's functions, and the scaled complementary error function.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use super::dd::{Dd, piece, two_product};
use super::tables::normal::ERFCX;
use crate::vmath::Arch;

/// What `1 / sqrt(2)` loses when it is rounded.
const FRAC_1_SQRT_2_LO: f64 = -4.833_646_656_726_456_6e-17;
/// What `ln 2` loses when it is rounded.
const LN_2_LO: f64 = 2.319_046_813_846_299_6e-17;
const FRAC_1_SQRT_PI: f64 = 0.564_189_583_547_756_3;
/// `1 / sqrt(2 pi)`.
const DENSITY: f64 = 0.398_942_280_401_432_7;

/// `exp(x^2) erfc(x)` for x >= 0.
#[inline(always)]
pub(crate) fn erfcx_right<A: Arch>(x: f64) -> f64 {
    let row = if x < 2.0 {
        (x * 4.0) as usize
    } else if x < 4.0 {
        8 + ((x - 2.0) * 2.0) as usize
    } else if x < 6.0 {
        12 + (x - 4.0) as usize
    } else if x < 10.0 {
        14 + ((x - 6.0) * 0.5) as usize
    } else {
        // The asymptotic series.
        let z = 0.5 / (x * x);
        let mut sum = 0.0;
        let mut k = 31.0;
        while k > 0.0 {
            sum = -k * z * (1.0 + sum);
            k -= 2.0;
        }
        let first = FRAC_1_SQRT_PI / x;
        return first + first * sum;
    };
    piece::<A>(x, &ERFCX[row])
}

/// `exp(x^2) erfc(x)`.
#[inline(always)]
pub(crate) fn erfcx<A: Arch>(x: f64) -> f64 {
    if x >= 0.0 {
        erfcx_right::<A>(x)
    } else if x > -27.0 {
        2.0 * two_product::<A>(x, x).exp::<A>() - erfcx_right::<A>(-x)
    } else if x.is_nan() {
        x
    } else {
        f64::INFINITY
    }
}

/// `x / sqrt(2)`.
#[inline(always)]
fn scaled<A: Arch>(x: f64) -> Dd {
    let z = two_product::<A>(x, FRAC_1_SQRT_2);
    Dd {
        hi: z.hi,
        lo: z.lo + x * FRAC_1_SQRT_2_LO,
    }
}

/// `exp(-x^2 / 2)`, with the exponent in two parts.
#[inline(always)]
fn half_square_exp<A: Arch>(x: f64) -> f64 {
    if x.abs() > 40.0 {
        return 0.0;
    }
    let square = two_product::<A>(x, x);
    Dd {
        hi: -0.5 * square.hi,
        lo: -0.5 * square.lo,
    }
    .exp::<A>()
}

/// The distribution function of the standard normal distribution.
#[inline(always)]
pub(crate) fn ndtr<A: Arch>(x: f64) -> f64 {
    if x < -1.0 {
        0.5 * half_square_exp::<A>(x) * erfcx_right::<A>(-x * FRAC_1_SQRT_2)
    } else if x > 8.5 {
        1.0
    } else {
        let z = scaled::<A>(-x);
        let slope = (-z.hi * z.hi).exp() * (2.0 * FRAC_1_SQRT_PI);
        0.5 * (libm::erfc(z.hi) - z.lo * slope)
    }
}

/// The logarithm of [`ndtr`].
#[inline(always)]
pub(crate) fn log_ndtr<A: Arch>(x: f64) -> f64 {
    if x < -1.0 {
        // The square of an infinity has no rounding error to speak of.
        let square = two_product::<A>(x, x);
        let low = if square.hi.is_finite() {
            -0.5 * square.lo
        } else {
            0.0
        };
        -0.5 * square.hi + ((0.5 * erfcx_right::<A>(-x * FRAC_1_SQRT_2)).ln() + low)
    } else if x < 0.0 {
        ndtr::<A>(x).ln()
    } else if x == f64::INFINITY {
        -0.0
    } else {
        (-ndtr::<A>(-x)).ln_1p()
    }
}

/// The inverse of [`ndtr`]: nan outside [0, 1].
#[inline(always)]
pub(crate) fn ndtri<A: Arch>(p: f64) -> f64 {
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    if !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    let central = p - 0.5;
    if central.abs() < 0.25 {
        // The distance from one half, exact, against that of ndtr.
        let mut x = central / DENSITY;
        for _ in 0..4 {
            let error = 0.5 * libm::erf(x * FRAC_1_SQRT_2) - central;
            let step = error / (DENSITY * half_square_exp::<A>(x));
            x -= step / (1.0 + 0.5 * x * step);
        }
        return x;
    }
    let tail = if p < 0.5 { p } else { 1.0 - p };
    // The root of -2 ln p less its logarithm is near; then Halley's steps on the ratio.
    let t = (-2.0 * tail.ln()).sqrt();
    let mut x = -(t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + t * 0.04481)));
    // Far out both are multiplied by 2^400: the density would have too few digits.
    let far = tail < 1e-200;
    let shift = if far { 400.0 } else { 0.0 };
    let scaled = if far { tail * 2.0_f64.powi(400) } else { tail };
    for _ in 0..3 {
        // The difference of ndtr(x) and its value, over the density.
        let mills = (PI * 0.5).sqrt() * erfcx_right::<A>(-x * FRAC_1_SQRT_2);
        let square = two_product::<A>(x, x);
        let exponent = Dd {
            hi: -0.5 * square.hi,
            lo: -0.5 * square.lo,
        };
        let exponent = exponent.plus(
            Dd {
                hi: LN_2,
                lo: LN_2_LO,
            }
            .mul::<A>(shift),
        );
        let step = mills - scaled / (DENSITY * exponent.exp::<A>());
        x -= step / (1.0 + 0.5 * x * step);
    }
    if p < 0.5 { x } else { -x }
}

/// `-x ln x`; 0 at 0 and minus infinity below it.
#[inline(always)]
pub(crate) fn entr<A: Arch>(x: f64) -> f64 {
    if x > 0.0 {
        -x * x.ln()
    } else if x == 0.0 {
        0.0
    } else if x.is_nan() {
        x
    } else {
        f64::NEG_INFINITY
    }
}
