//! The power function.

use super::Arch;
use super::exp::exp2_wide;
use super::log::log2_wide;

#[inline(always)]
pub(super) fn pow<A: Arch>(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let l = log2_wide::<A>(f64::from(a));
    let l = if a == 0.0 { f64::NEG_INFINITY } else { l };
    let l = if a < f32::INFINITY { l } else { f64::from(a) };
    let t = f64::from(y) * l;
    // Beyond these the result is inf or 0; the comparisons let nan through.
    let t = if t > 200.0 { 200.0 } else { t };
    let t = if t < -200.0 { -200.0 } else { t };
    let r = exp2_wide::<A>(t) as f32;

    // Adding 2^23 leaves an integer as it is and its parity in the last bit; from
    // 2^24 on every float is even.
    let b = y.abs();
    let b = if b < 16_777_216.0 { b } else { 16_777_216.0 };
    let shifted = f64::from(b) + 4_503_599_627_370_496.0;
    let whole = shifted - 4_503_599_627_370_496.0 == f64::from(b);
    let odd = whole & (shifted.to_bits() & 1 == 1);
    let negative = x.is_sign_negative();
    let r = if odd & negative { -r } else { r };
    let r = if !whole & (x < 0.0) & (a < f32::INFINITY) {
        f32::NAN
    } else {
        r
    };
    // 1 to any power, -1 to an infinite one, and anything to the power of 0.
    let one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (y.abs() == f32::INFINITY));
    if one { 1.0 } else { r }
}
