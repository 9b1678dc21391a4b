//! The normal distribution's functions, and the scaled complementary error function.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use torsh_core::cmath;

use super::dd::{Dd, horner, piece, two_product};
use super::tables::normal::ERFCX;
use crate::vmath::{Arch, poly64};

/// What `1 / sqrt(2)` loses when it is rounded.
const FRAC_1_SQRT_2_LO: f64 = -4.833646656726457e-17;
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
        let slope = cmath::exp(-z.hi * z.hi) * (2.0 * FRAC_1_SQRT_PI);
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
        cmath::ln_1p(-ndtr::<A>(-x))
    }
}

/// The inverse of [`ndtr`]: nan outside [0, 1]. `EXACT` asks for float64's last digits.
#[inline(always)]
pub(crate) fn ndtri<A: Arch, const EXACT: bool>(p: f64) -> f64 {
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
    let tail = if p < 0.5 { p } else { 1.0 - p };
    let x = quantile::<A>(central, tail);
    if !EXACT {
        return x;
    }
    // A step of Halley's, which leaves nothing but the rounding of its residual.
    if central.abs() < 0.25 {
        // The distance from one half, exact, against that of ndtr.
        let error = 0.5 * libm::erf(x * FRAC_1_SQRT_2) - central;
        let step = error / (DENSITY * half_square_exp::<A>(x));
        return x - step / (1.0 + 0.5 * x * step);
    }
    // The difference of ndtr(x) and its value, over the density. Far out both are multiplied by 2^400: the density would
    // have too few digits.
    let far = tail < 1e-200;
    let shift = if far { 400.0 } else { 0.0 };
    let scaled = if far { tail * 2.0_f64.powi(400) } else { tail };
    let x = -x.abs();
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
    let x = x - step / (1.0 + 0.5 * x * step);
    if p < 0.5 { x } else { -x }
}

/// The quantile by rational functions, with a relative error of about 1e-16 (M. Wichura, Algorithm AS 241, Applied
/// Statistics 37, 1988).
#[inline(always)]
fn quantile<A: Arch>(central: f64, tail: f64) -> f64 {
    const CENTRAL: [[f64; 8]; 2] = [
        [
            3.3871328727963665,
            133.14166789178438,
            1971.5909503065513,
            13731.69376550946,
            45921.95393154987,
            67265.7709270087,
            33430.57558358813,
            2509.0809287301227,
        ],
        [
            1.0,
            42.31333070160091,
            687.1870074920579,
            5394.196021424751,
            21213.794301586597,
            39307.89580009271,
            28729.085735721943,
            5226.495278852854,
        ],
    ];
    if central.abs() <= 0.425 {
        let r = 0.180625 - central * central;
        return central * (horner::<A>(r, &CENTRAL[0]) / horner::<A>(r, &CENTRAL[1]));
    }
    let x = quantile_tail::<A>(-tail.ln());
    if central < 0.0 { -x } else { x }
}

/// The distance from 0 of the quantile of `exp(-w)`, at most 0.075, or of what that leaves of 1.
#[inline(always)]
pub(crate) fn quantile_tail<A: Arch>(w: f64) -> f64 {
    const TAIL: [[f64; 8]; 2] = [
        [
            1.4234371107496835,
            4.630337846156546,
            5.769497221460691,
            3.6478483247632045,
            1.2704582524523684,
            0.2417807251774506,
            0.022723844989269184,
            0.0007745450142783414,
        ],
        [
            1.0,
            2.053191626637759,
            1.6763848301838038,
            0.6897673349851,
            0.14810397642748008,
            0.015198666563616457,
            0.0005475938084995345,
            1.0507500716444169e-09,
        ],
    ];
    const FAR: [[f64; 8]; 2] = [
        [
            6.657904643501103,
            5.463784911164114,
            1.7848265399172913,
            0.29656057182850487,
            0.026532189526576124,
            0.0012426609473880784,
            2.7115555687434876e-05,
            2.0103343992922881e-07,
        ],
        [
            1.0,
            0.599832206555888,
            0.1369298809227358,
            0.014875361290850615,
            0.0007868691311456133,
            1.8463183175100548e-05,
            1.421511758316446e-07,
            2.0442631033899397e-15,
        ],
    ];
    let r = w.sqrt();
    let (near, far) = (r - 1.6, r - 5.0);
    let is_near = r <= 5.0;
    let top = if is_near {
        poly64::<A, 8>(near, &TAIL[0])
    } else {
        poly64::<A, 8>(far, &FAR[0])
    };
    let bottom = if is_near {
        poly64::<A, 8>(near, &TAIL[1])
    } else {
        poly64::<A, 8>(far, &FAR[1])
    };
    top / bottom
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
