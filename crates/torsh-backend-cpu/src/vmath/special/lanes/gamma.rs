//! The gamma function's logarithm and its derivatives, for positive finite numbers.
//!
//! Below 3 by a polynomial on [1, 3), to which smaller numbers are raised by 1; above by Stirling's series, fitted.

use crate::vmath::log::log_and_reciprocal;
use crate::vmath::special::tables::lanes::*;
use crate::vmath::{Arch, fma64, poly64};

/// `ln(2 pi) / 2`.
const HALF_LOG_2PI: f64 = 0.918_938_533_204_672_8;
/// The root of digamma, in two parts.
const ROOT: [f64; 2] = [1.461_632_144_968_362_2, 9.549_995_429_965_697e-17];

/// `ln Gamma(x)` for x >= 3, of which `log` is the logarithm and `r` the reciprocal.
#[inline(always)]
pub(super) fn stirling<A: Arch>(x: f64, log: f64, r: f64) -> f64 {
    let rest = fma64::<A>(r, poly64::<A, 6>(r * r, &STIRLING), HALF_LOG_2PI);
    fma64::<A>(x - 0.5, log, rest - x)
}

/// `ln Gamma(x)`.
#[inline(always)]
pub(super) fn log_gamma<A: Arch>(x: f64) -> f64 {
    let low = x < 1.0;
    let (log, r) = log_and_reciprocal::<A>(x);
    // Distances from the roots, 1 and 2, of the number that is raised.
    let (one, two) = if low {
        (x, x - 1.0)
    } else {
        (x - 1.0, x - 2.0)
    };
    // Zero at the roots, not minus zero.
    let near = one * two * poly64::<A, 17>(two, &LGAMMA) + 0.0;
    let near = if low { near - log } else { near };
    if x < 3.0 {
        near
    } else {
        stirling::<A>(x, log, r)
    }
}

/// The derivative of [`log_gamma`].
#[inline(always)]
pub(super) fn psi<A: Arch>(x: f64) -> f64 {
    let low = x < 1.0;
    let y = if low { x + 1.0 } else { x };
    let (log, r) = log_and_reciprocal::<A>(x);
    let near = ((y - ROOT[0]) - ROOT[1]) * poly64::<A, 18>(y - 2.0, &DIGAMMA);
    let near = if low { near - r } else { near };
    let z = r * r;
    let rest = fma64::<A>(0.5, r, z * poly64::<A, 7>(z, &DIGAMMA_FAR));
    let far = log - rest;
    if x < 3.0 { near } else { far }
}

/// The derivative of [`psi`].
#[inline(always)]
pub(super) fn trigamma<A: Arch>(x: f64) -> f64 {
    let low = x < 1.0;
    let r = 1.0 / x;
    let z = r * r;
    let near = poly64::<A, 20>(if low { x - 1.0 } else { x - 2.0 }, &TRIGAMMA);
    let near = if low { near + z } else { near };
    let far = fma64::<A>(
        r * z,
        poly64::<A, 8>(z, &TRIGAMMA_FAR),
        fma64::<A>(0.5, z, r),
    );
    if x < 3.0 { near } else { far }
}
