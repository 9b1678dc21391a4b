//! The normal distribution's functions and the error function's relatives.

use std::f64::consts::FRAC_1_SQRT_2;

use crate::vmath::exp::exp_clamped;
use crate::vmath::log::{log_near, log_wide};
use crate::vmath::special::normal::quantile_tail;
use crate::vmath::special::tables::lanes::*;
use crate::vmath::{Arch, poly64};

/// `exp(x^2) erfc(x)` for a finite x >= 0.
#[inline(always)]
pub(super) fn erfcx_right<A: Arch>(x: f64) -> f64 {
    let t = (x - 4.0) / (x + 4.0);
    poly64::<A, 16>(t, &ERFCX) / (1.0 + (x + x))
}

/// `exp(x^2) erfc(x)`.
#[inline(always)]
pub(super) fn erfcx<A: Arch>(x: f64) -> f64 {
    let right = erfcx_right::<A>(x.abs());
    // The square of a float32 is exact.
    let left = 2.0 * exp_clamped::<A>(x * x) - right;
    if x < 0.0 { left } else { right }
}

/// The lower tail of the normal distribution that begins at `-|x|`.
#[inline(always)]
fn lower_tail<A: Arch>(x: f64) -> f64 {
    0.5 * exp_clamped::<A>(-0.5 * x * x) * erfcx_right::<A>(x.abs() * FRAC_1_SQRT_2)
}

/// The distribution function of the standard normal distribution.
#[inline(always)]
pub(super) fn ndtr<A: Arch>(x: f64) -> f64 {
    let tail = lower_tail::<A>(x);
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// The logarithm of [`ndtr`]: below 0 from the scaled tail, which does not underflow.
#[inline(always)]
pub(super) fn log_ndtr<A: Arch>(x: f64) -> f64 {
    let scaled = 0.5 * erfcx_right::<A>(x.abs() * FRAC_1_SQRT_2);
    let half = -0.5 * x * x;
    let left = x < 0.0;
    let above = -exp_clamped::<A>(half) * scaled;
    let (whole, near) = if left {
        (scaled, scaled - 1.0)
    } else {
        (1.0 + above, above)
    };
    let log = log_near::<A>(whole, near);
    // -0 far to the right.
    if left { half + log } else { -log.abs() }
}

/// `-x ln x`.
#[inline(always)]
pub(super) fn entr<A: Arch>(x: f64) -> f64 {
    -x * log_wide::<A>(x)
}

/// The inverse error function between -0.9 and 0.9.
#[inline(always)]
pub(super) fn erfinv_near<A: Arch>(a: f64) -> f64 {
    a * poly64::<A, 22>(a * a, &ERFINV)
}

/// The inverse error function from there on to -1 and 1.
#[inline(always)]
pub(super) fn erfinv_far<A: Arch>(a: f64) -> f64 {
    let x = FRAC_1_SQRT_2 * quantile_tail::<A>(-log_wide::<A>(0.5 - 0.5 * a.abs()));
    x.copysign(a)
}

/// The normal distribution's quantile between 0.002 and 0.998.
#[inline(always)]
pub(super) fn ndtri_near<A: Arch>(p: f64) -> f64 {
    let w = -log_wide::<A>(4.0 * p * (1.0 - p));
    (2.0 * p - 1.0) * poly64::<A, 14>(0.4 * w - 1.0, &QUANTILE)
}

/// The normal distribution's quantile from there on to 0 and 1.
#[inline(always)]
pub(super) fn ndtri_far<A: Arch>(p: f64) -> f64 {
    let left = p < 0.5;
    let x = quantile_tail::<A>(-log_wide::<A>(if left { p } else { 1.0 - p }));
    if left { -x } else { x }
}
