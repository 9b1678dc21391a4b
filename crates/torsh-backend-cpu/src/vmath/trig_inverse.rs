//! Inverse trigonometric functions.

use super::{Arch, fma64, poly64};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// tan(pi/8), the end of the range of the arc tangent's polynomial.
const TAN_PI_8: f64 = 0.414_213_562_373_095_03;

/// Minimax of (atan t - t) / t^3 in t^2 on |t| <= tan(pi/8), error 2^-49.9.
const ATAN: [f64; 9] = [
    -0.33333333333260085,
    0.1999999998268388,
    -0.14285712872917258,
    0.11111054409965543,
    -0.09089615070895779,
    0.07674318796223284,
    -0.06510249157280644,
    0.05037426200600079,
    -0.025474359959643974,
];
/// Minimax of (asin x - x) / x^3 in x^2 on |x| <= 1/2, error 2^-43.9.
const ASIN: [f64; 9] = [
    0.16666666669636696,
    0.07499999533221219,
    0.0446431091027099,
    0.03037530516281646,
    0.02247045211338174,
    0.016483660207337086,
    0.018606631292049522,
    -0.0028070332965695016,
    0.03191339528624392,
];

/// atan(num / den) + base for a quotient in [0, 1], with one division.
#[inline(always)]
fn atan_quotient<A: Arch>(num: f64, den: f64) -> f64 {
    let far = num > TAN_PI_8 * den;
    let p = if far { num - den } else { num };
    let q = if far { num + den } else { den };
    let base = if far { FRAC_PI_4 } else { 0.0 };
    let t = p / q;
    let z = t * t;
    base + fma64::<A>(t * z, poly64::<A, 9>(z, &ATAN), t)
}

#[inline(always)]
pub(super) fn atan<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    // An infinite quotient would be inf / inf; its angle rounds like this one's.
    let a = f64::from(if a > 1e30 { 1e30 } else { a });
    let far = a > 1.0;
    let t = atan_quotient::<A>(if far { 1.0 } else { a }, if far { a } else { 1.0 });
    let t = if far { FRAC_PI_2 - t } else { t };
    (t as f32).copysign(x)
}

#[inline(always)]
pub(super) fn atan2<A: Arch>(y: f32, x: f32) -> f32 {
    let (a, b) = (f64::from(y.abs()), f64::from(x.abs()));
    let steep = a > b;
    let lo = if steep { b } else { a };
    let hi = if steep { a } else { b };
    // 0/0 is the angle of (0, 1), inf/inf that of (1, 1).
    let hi = if hi == 0.0 { 1.0 } else { hi };
    let both = (lo == f64::INFINITY) & (hi == f64::INFINITY);
    let lo = if both { 1.0 } else { lo };
    let hi = if both { 1.0 } else { hi };
    // So that nothing infinite meets in the quotient below.
    let hi = if hi == f64::INFINITY { 1e100 } else { hi };
    let t = atan_quotient::<A>(lo, hi);
    let t = if steep { FRAC_PI_2 - t } else { t };
    let t = if x.is_sign_negative() { PI - t } else { t };
    (t as f32).copysign(y)
}

/// |x| <= 1/2: (x, asin x); else (sqrt((1-|x|)/2), its asin), half of acos |x|.
#[inline(always)]
fn asin_core<A: Arch>(a: f64, far: bool) -> f64 {
    let z = if far { 0.5 * (1.0 - a) } else { a * a };
    let s = if far { z.sqrt() } else { a };
    fma64::<A>(s * z, poly64::<A, 9>(z, &ASIN), s)
}

#[inline(always)]
pub(super) fn asin<A: Arch>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let far = a > 0.5;
    let c = asin_core::<A>(a, far);
    let r = if far { FRAC_PI_2 - (c + c) } else { c };
    (r as f32).copysign(x)
}

#[inline(always)]
pub(super) fn acos<A: Arch>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let far = a > 0.5;
    let neg = x < 0.0;
    let c = asin_core::<A>(a, far);
    let signed = if neg { -c } else { c };
    let r = if far {
        (signed + signed) + if neg { PI } else { 0.0 }
    } else {
        FRAC_PI_2 - signed
    };
    r as f32
}
