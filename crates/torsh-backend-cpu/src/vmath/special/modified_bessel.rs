//! Modified Bessel functions of orders 0 and 1, plain and scaled by an exponential.

use std::f64::consts::PI;

use torsh_core::cmath;

use super::dd::{horner, piece};
use super::tables::modified::{I0E, I1E, K0E, K1E, LARGE0, LARGE1, SERIES};
use crate::vmath::Arch;

/// `1 / (2 pi)`.
const FRAC_1_2PI: f64 = 0.159_154_943_091_895_35;
/// From here on the asymptotic series are exact enough.
const LARGE: f64 = 32.0;

/// The row of [`I0E`] and [`I1E`] for x in [0, 32).
#[inline(always)]
fn row(x: f64) -> usize {
    if x < 1.0 {
        (x * 2.0) as usize
    } else if x < 8.0 {
        x as usize + 1
    } else if x < 16.0 {
        (x * 0.5) as usize + 5
    } else {
        (x * 0.25) as usize + 9
    }
}

/// `exp(-|x|) I0(x)`.
#[inline(always)]
pub(crate) fn i0e<A: Arch>(x: f64) -> f64 {
    let x = x.abs();
    if x < LARGE {
        piece::<A>(x, &I0E[row(x)])
    } else if x.is_nan() {
        x
    } else {
        horner::<A>(-1.0 / x, &LARGE0[0]) * (FRAC_1_2PI / x).sqrt()
    }
}

/// `exp(-|x|) I1(x)`.
#[inline(always)]
pub(crate) fn i1e<A: Arch>(x: f64) -> f64 {
    let a = x.abs();
    if a < LARGE {
        // PyTorch has 0 at -0.
        x * piece::<A>(a, &I1E[row(a)]) + 0.0
    } else if a.is_nan() {
        x
    } else {
        (horner::<A>(-1.0 / a, &LARGE1[0]) * (FRAC_1_2PI / a).sqrt()).copysign(x)
    }
}

/// `exp(x) y` where `exp(x)` alone may overflow.
#[inline(always)]
fn grow(x: f64, y: f64) -> f64 {
    if x > 700.0 {
        let half = cmath::exp(0.5 * x);
        half * y * half
    } else {
        cmath::exp(x) * y
    }
}

/// Modified Bessel function of the first kind of order 0; nan at the infinities, as PyTorch has it.
#[inline(always)]
pub(crate) fn i0<A: Arch>(x: f64) -> f64 {
    grow(x.abs(), i0e::<A>(x))
}

/// Modified Bessel function of the first kind of order 1; nan at the infinities, as PyTorch has it.
#[inline(always)]
pub(crate) fn i1<A: Arch>(x: f64) -> f64 {
    grow(x.abs(), i1e::<A>(x))
}

/// `exp(x) K(x)` for x >= 1, from a table and the series of large arguments.
#[inline(always)]
fn scaled<A: Arch>(x: f64, table: &[[f64; 18]; 15], large: &[f64; 14]) -> f64 {
    let row = if x < 1.5 {
        (x * 4.0) as usize - 4
    } else if x < 3.0 {
        (x * 2.0) as usize - 1
    } else if x < 6.0 {
        x as usize + 2
    } else if x < 12.0 {
        (x * 0.5) as usize + 5
    } else if x < 20.0 {
        (x * 0.25) as usize + 8
    } else if x < 24.0 {
        13
    } else {
        14
    };
    if x < LARGE {
        piece::<A>(x, &table[row])
    } else {
        horner::<A>(1.0 / x, large) * (0.5 * PI / x).sqrt()
    }
}

/// K0 for 0 < x < 1.
#[inline(always)]
fn k0_near<A: Arch>(x: f64) -> f64 {
    let y = 0.25 * x * x;
    horner::<A>(y, &SERIES[2]) - (0.5 * x).ln() * horner::<A>(y, &SERIES[0])
}

/// K1 for 0 < x < 1.
#[inline(always)]
fn k1_near<A: Arch>(x: f64) -> f64 {
    let y = 0.25 * x * x;
    let log = (0.5 * x).ln() * horner::<A>(y, &SERIES[1]);
    1.0 / x + 0.5 * x * (log - 0.5 * horner::<A>(y, &SERIES[3]))
}

/// What a K function is at 0 and at negative arguments, nan among them.
#[inline(always)]
fn not_positive(x: f64) -> f64 {
    if x == 0.0 { f64::INFINITY } else { f64::NAN }
}

/// `exp(-x) y`; 0 at infinity.
#[inline(always)]
fn decay(x: f64, y: f64) -> f64 {
    if x > 700.0 {
        let half = cmath::exp(-0.5 * x);
        half * y * half
    } else {
        cmath::exp(-x) * y
    }
}

/// Modified Bessel function of the second kind of order 0; nan for negative arguments.
#[inline(always)]
pub(crate) fn modified_bessel_k0<A: Arch>(x: f64) -> f64 {
    if !(x > 0.0) {
        not_positive(x)
    } else if x < 1.0 {
        k0_near::<A>(x)
    } else {
        decay(x, scaled::<A>(x, &K0E, &LARGE0[0]))
    }
}

/// Modified Bessel function of the second kind of order 1; nan for negative arguments.
#[inline(always)]
pub(crate) fn modified_bessel_k1<A: Arch>(x: f64) -> f64 {
    if !(x > 0.0) {
        not_positive(x)
    } else if x < 1.0 {
        k1_near::<A>(x)
    } else {
        decay(x, scaled::<A>(x, &K1E, &LARGE1[0]))
    }
}

/// `exp(x) K0(x)`.
#[inline(always)]
pub(crate) fn scaled_modified_bessel_k0<A: Arch>(x: f64) -> f64 {
    if !(x > 0.0) {
        not_positive(x)
    } else if x < 1.0 {
        k0_near::<A>(x) * cmath::exp(x)
    } else {
        scaled::<A>(x, &K0E, &LARGE0[0])
    }
}

/// `exp(x) K1(x)`.
#[inline(always)]
pub(crate) fn scaled_modified_bessel_k1<A: Arch>(x: f64) -> f64 {
    if !(x > 0.0) {
        not_positive(x)
    } else if x < 1.0 {
        k1_near::<A>(x) * cmath::exp(x)
    } else {
        scaled::<A>(x, &K1E, &LARGE1[0])
    }
}
