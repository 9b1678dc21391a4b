//! Sines and cosines of float64 numbers whose magnitude is below 65536.

use crate::vmath::special::tables::lanes::{COS, SIN};
use crate::vmath::{Arch, MAGIC64, fma64, poly64};
use std::f64::consts::FRAC_2_PI;

/// pi/2 in two parts, the first of 25 bits: its products with the number of quarter turns are exact.
const PIO2: [f64; 2] = [1.570_796_310_901_641_8, 1.589_325_477_352_819_7e-8];

/// The quarter turn nearest to `x - shift pi / 4` (its low two bits), and the sine and the cosine of what is left.
#[inline(always)]
fn parts<A: Arch>(x: f64, shift: f64) -> (u64, f64, f64) {
    let t = fma64::<A>(x, FRAC_2_PI, -0.5 * shift) + MAGIC64;
    let n = (t - MAGIC64) + 0.5 * shift;
    let r = fma64::<A>(-n, PIO2[1], x - n * PIO2[0]);
    let z = r * r;
    let sin = fma64::<A>(r * z, poly64::<A, 6>(z, &SIN), r);
    let cos = fma64::<A>(z * z, poly64::<A, 6>(z, &COS), 1.0 - 0.5 * z);
    (t.to_bits(), sin, cos)
}

/// The sine of a quarter turn's rest, or its cosine, with the quarter's sign.
#[inline(always)]
fn turned(quarter: u64, sin: f64, cos: f64) -> f64 {
    let v = if quarter & 1 != 0 { cos } else { sin };
    f64::from_bits(v.to_bits() ^ ((quarter & 2) << 62))
}

/// `sin x`.
#[inline(always)]
pub(super) fn sin<A: Arch>(x: f64) -> f64 {
    let (quarter, sin, cos) = parts::<A>(x, 0.0);
    turned(quarter, sin, cos)
}

/// `cos(x - pi / 4)` and `sin(x - pi / 4)`.
#[inline(always)]
pub(super) fn eighth<A: Arch>(x: f64) -> (f64, f64) {
    let (quarter, sin, cos) = parts::<A>(x, 1.0);
    let shifted = turned(quarter.wrapping_add(1), sin, cos);
    (shifted, turned(quarter, sin, cos))
}
