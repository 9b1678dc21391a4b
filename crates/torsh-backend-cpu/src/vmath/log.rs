//! Logarithms and the inverse hyperbolic functions.

use super::exp::{LN2_HI64, LN2_LO64};
use super::{Arch, fma32, fma64, poly32, poly64};
use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};

const LN2_HI32: f32 = 0.693_359_4;
const LN2_LO32: f32 = -2.121_944_4e-4;

/// Bits of sqrt(1/2): mantissas are taken from [sqrt(1/2), sqrt(2)).
const SQRT_HALF32: u32 = 0x3f35_04f3;
const SQRT_HALF64: u64 = 0x3fe6_a09e_667f_3bcd;

/// Minimax of (ln(1+f) - f + f^2/2) / f^3 over that range, error 2^-30.3.
const LOG32: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_19,
    -0.166_679_96,
    0.142_195_52,
    -0.124_055_915,
    0.118_881_59,
    -0.116_756_34,
    0.067_466_27,
];
/// Minimax of (2 atanh s - 2 s) / s^3 in s^2 on s^2 <= 0.0296, error 2^-52.
const LOG64: [f64; 6] = [
    0.666666666665848,
    0.40000000053620344,
    0.2857141689093212,
    0.22223389901948704,
    0.18123019121696132,
    0.1682768323051696,
];

#[inline(always)]
pub(super) fn log<A: Arch>(x: f32) -> f32 {
    let sub = x < f32::MIN_POSITIVE;
    let y = if sub { x * 33_554_432.0 } else { x };
    let bias = if sub { 127 + 25 } else { 127 };
    let t = y
        .to_bits()
        .wrapping_sub(SQRT_HALF32)
        .wrapping_add(127 << 23);
    let e = ((t >> 23) as i32).wrapping_sub(bias) as f32;
    let m = f32::from_bits((t & 0x007f_ffff).wrapping_add(SQRT_HALF32));
    let f = m - 1.0;
    let z = f * f;
    let p = f * z * poly32::<A, 9>(f, &LOG32);
    let p = fma32::<A>(e, LN2_LO32, p);
    let p = fma32::<A>(-0.5, z, p);
    let r = fma32::<A>(e, LN2_HI32, f + p);
    edges(x, r)
}

/// The values of a logarithm where the formula has none.
#[inline(always)]
fn edges(x: f32, r: f32) -> f32 {
    let r = if x < f32::INFINITY { r } else { x };
    let r = if x < 0.0 { f32::NAN } else { r };
    if x == 0.0 { f32::NEG_INFINITY } else { r }
}

/// The exponent e and the mantissa m of x = 2^e m, sqrt(1/2) <= m < sqrt(2), for positive normal x.
#[inline(always)]
fn mantissa(x: f64) -> (f64, f64) {
    let t = x
        .to_bits()
        .wrapping_sub(SQRT_HALF64)
        .wrapping_add(1023 << 52);
    // Integer to float by the bits of 2^52, which every instruction set has.
    let e = f64::from_bits((t >> 52) | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits((t & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF64));
    (e, m)
}

/// `ln(1 + f)` of a mantissa, from `s = f / (2 + f)`.
#[inline(always)]
fn series<A: Arch>(s: f64) -> f64 {
    let z = s * s;
    fma64::<A>(s * z, poly64::<A, 6>(z, &LOG64), s + s)
}

/// The exponent e and ln m of x = 2^e m, sqrt(1/2) <= m < sqrt(2), for positive
/// normal x; where e is 0, `near` is used for m - 1.
#[inline(always)]
fn parts<A: Arch>(x: f64, near: f64) -> (f64, f64) {
    let (e, m) = mantissa(x);
    let f = if e == 0.0 { near } else { m - 1.0 };
    (e, series::<A>(f / (2.0 + f)))
}

/// ln x, relative error about 2^-50, and `1 / x`, within 2 ulp, of an x between 1e-300 and 1e300: by one division.
#[inline(always)]
pub(super) fn log_and_reciprocal<A: Arch>(x: f64) -> (f64, f64) {
    let (e, m) = mantissa(x);
    let q = 1.0 / (x * (1.0 + m));
    let l = series::<A>((m - 1.0) * (q * x));
    (
        fma64::<A>(e, LN2_HI64, fma64::<A>(e, LN2_LO64, l)),
        q * (1.0 + m),
    )
}

/// ln x of a positive normal x, relative error about 2^-50.
#[inline(always)]
pub(super) fn log_wide<A: Arch>(x: f64) -> f64 {
    log_near::<A>(x, x - 1.0)
}

/// As [`log_wide`], with what is exact of x - 1.
#[inline(always)]
pub(super) fn log_near<A: Arch>(x: f64, near: f64) -> f64 {
    let (e, l) = parts::<A>(x, near);
    fma64::<A>(e, LN2_HI64, fma64::<A>(e, LN2_LO64, l))
}

/// Base-2 logarithm of a positive normal x, relative error about 2^-51.
#[inline(always)]
pub(super) fn log2_wide<A: Arch>(x: f64) -> f64 {
    let (e, l) = parts::<A>(x, x - 1.0);
    fma64::<A>(l, LOG2_E, e)
}

#[inline(always)]
pub(super) fn log2<A: Arch>(x: f32) -> f32 {
    edges(x, log2_wide::<A>(f64::from(x)) as f32)
}

#[inline(always)]
pub(super) fn log10<A: Arch>(x: f32) -> f32 {
    let x64 = f64::from(x);
    let (e, l) = parts::<A>(x64, x64 - 1.0);
    edges(x, fma64::<A>(e, LOG10_2, l * LOG10_E) as f32)
}

/// ln(1 + x) for x > -1, relative error about 2^-50.
#[inline(always)]
fn log1p_wide<A: Arch>(x: f64) -> f64 {
    log_near::<A>(1.0 + x, x)
}

#[inline(always)]
pub(super) fn log1p<A: Arch>(x: f32) -> f32 {
    let r = log1p_wide::<A>(f64::from(x)) as f32;
    let r = if x < f32::INFINITY { r } else { x };
    let r = if x < -1.0 { f32::NAN } else { r };
    let r = if x == -1.0 { f32::NEG_INFINITY } else { r };
    // Keeps the sign of zero.
    if x == 0.0 { x } else { r }
}

#[inline(always)]
pub(super) fn asinh<A: Arch>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let z = a * a;
    let r = log1p_wide::<A>(a + z / (1.0 + (1.0 + z).sqrt())) as f32;
    let r = if x.abs() < f32::INFINITY { r } else { x };
    r.copysign(x)
}

#[inline(always)]
pub(super) fn acosh<A: Arch>(x: f32) -> f32 {
    let t = f64::from(x) - 1.0;
    let r = log1p_wide::<A>(t + (t * (t + 2.0)).sqrt()) as f32;
    let r = if x < f32::INFINITY { r } else { x };
    if x < 1.0 { f32::NAN } else { r }
}

#[inline(always)]
pub(super) fn atanh<A: Arch>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let r = (0.5 * log1p_wide::<A>((a + a) / (1.0 - a))) as f32;
    let r = if x.abs() == 1.0 { f32::INFINITY } else { r };
    let r = if x.abs() <= 1.0 { r } else { f32::NAN };
    r.copysign(x)
}
