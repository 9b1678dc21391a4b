//! Exponentials and what is made of them.
//!
//! Intrinsics: Splitting a number into integer and fraction, and scaling by powers of 2, exist in AVX-512 only.

use super::{Arch, MAGIC32, MAGIC64, fma32, fma64, poly32, poly64};
use std::f32::consts::LOG2_E;
use std::f64::consts::LOG2_E as LOG2_E64;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// ln 2 in two parts, the first short enough that its product with n is exact.
pub(super) const LN2_HI32: f32 = 0.693_359_4;
pub(super) const LN2_LO32: f32 = -2.121_944_4e-4;
pub(super) const LN2_HI64: f64 = 6.931_471_803_691_238e-1;
pub(super) const LN2_LO64: f64 = 1.908_214_929_270_587_7e-10;

/// Minimax of (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, error 2^-28.3.
pub(super) const EXP32: [f32; 5] = [
    0.499_999_94,
    0.166_665_21,
    0.041_668_39,
    0.008_368_745,
    0.001_381_454,
];
/// Minimax of (2^r - 1 - r ln 2) / r^2 on |r| <= 1/2, error 2^-28.3.
const EXP2_32: [f32; 5] = [
    0.240_226_48,
    0.055_503_596,
    0.009_618_519,
    0.001_339_106_8,
    0.000_153_241_4,
];
/// Minimax of (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, error 2^-45.8.
const EXP64: [f64; 8] = [
    0.4999999999966134,
    0.16666666667270447,
    0.04166666696421816,
    0.008333333093532099,
    0.0013888810797124996,
    0.00019841540246487533,
    2.4880987265892847e-05,
    2.7492940207465253e-06,
];

/// n and e^(x - n ln 2) - 1 for |x| < 2^7; n as the float whose low bits are `n + bias`.
#[inline(always)]
fn expm1_parts32<A: Arch>(x: f32, bias: u32) -> (f32, f32) {
    let magic = MAGIC32 + bias as f32;
    let t = fma32::<A>(x, LOG2_E, magic);
    let n = t - magic;
    let r = fma32::<A>(n, -LN2_LO32, fma32::<A>(n, -LN2_HI32, x));
    // By pairs of terms, the shortest chain.
    let s = r * r;
    let low = fma32::<A>(EXP32[1], r, EXP32[0]);
    let high = fma32::<A>(EXP32[3], r, EXP32[2]);
    let q = fma32::<A>(fma32::<A>(EXP32[4], s, high), s, low);
    (t, fma32::<A>(s, q, r))
}

/// As [`expm1_parts32`], with e^(x - n ln 2).
#[inline(always)]
fn exp_parts32<A: Arch>(x: f32, bias: u32) -> (f32, f32) {
    let (t, em1) = expm1_parts32::<A>(x, bias);
    (t, 1.0 + em1)
}

/// `p * 2^n` for any n of magnitude below 252: two factors, so that a subnormal
/// result is rounded once.
#[inline(always)]
fn scale2(p: f32, t: f32) -> f32 {
    let n = t.to_bits().wrapping_sub(MAGIC32.to_bits()) as i32;
    let half = n >> 1;
    // Wrapping, since an overflow check of a debug build would stop vectorisation.
    let a = f32::from_bits((half.wrapping_add(127) as u32) << 23);
    let b = f32::from_bits((n.wrapping_sub(half).wrapping_add(127) as u32) << 23);
    p * a * b
}

/// `p * 2^n` for a normal result; the low bits of `t` are `n + 127`.
#[inline(always)]
fn scale1(p: f32, t: f32) -> f32 {
    p * f32::from_bits(t.to_bits() << 23)
}

/// e^x for -87 < x < 88.
#[inline(always)]
pub(super) fn exp_normal32<A: Arch>(x: f32) -> f32 {
    let (t, p) = exp_parts32::<A>(x, 127);
    scale1(p, t)
}

#[inline(always)]
pub(super) fn exp<A: Arch>(x: f32) -> f32 {
    // Beyond these the result is inf or 0 anyway; the comparisons let nan through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let (t, p) = exp_parts32::<A>(x, 0);
    scale2(p, t)
}

/// The exponent of [`exp_raised`]'s factor.
const RAISE: u32 = 64;
pub(super) const RAISED: f32 = (1u128 << RAISE) as f32;

/// 2^64 e^x for x <= 0 or nan: normal wherever e^x is subnormal or normal, and so small below that
/// sums of it are 0 once the factor is taken out.
#[inline(always)]
pub(super) fn exp_raised<A: Arch>(x: f32) -> f32 {
    let x = if x < -131.0 { -131.0 } else { x };
    let (t, p) = exp_parts32::<A>(x, 127 + RAISE);
    scale1(p, t)
}

/// e^x for x <= 0 or nan, where a subnormal result is rounded once; that is less work than
/// [`scale2`].
#[inline(always)]
pub(super) fn exp_low<A: Arch>(x: f32) -> f32 {
    exp_raised::<A>(x) * (1.0 / RAISED)
}

/// e^x for x <= 0 or nan, as [`exp_low`] but with the instructions that AVX-512 has for taking
/// numbers apart and putting them together.
///
/// # Safety
/// The processor has AVX-512, and the caller is compiled for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn exp_low_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let c = |v: f32| _mm512_set1_ps(v);
        // Below, and for -inf, the result is 0, which some processors take two hundred cycles to find.
        let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, c(-104.0));
        let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
            _mm512_mul_ps(x, c(LOG2_E)),
        );
        let r = _mm512_fnmadd_ps(n, c(LN2_HI32), x);
        let r = _mm512_fnmadd_ps(n, c(LN2_LO32), r);
        let mut p = c(EXP32[4]);
        for term in [EXP32[3], EXP32[2], EXP32[1], EXP32[0], 1.0, 1.0] {
            p = _mm512_fmadd_ps(p, r, c(term));
        }
        _mm512_maskz_scalef_ps(there, p, n)
    }
}

/// Minimax of 2^r on 0 <= r < 1 with 1 for its first term, relative error 2^-23.5.
#[cfg(target_arch = "x86_64")]
const EXP2_TERM: [f32; 5] = [
    0.693_151_3,
    0.240_164_44,
    0.055_799_916,
    0.009_017_027,
    0.001_867_131_7,
];

/// e^x for x <= 0 or nan as a term of a sum, within (2 - x) 2^-23 of itself: what is far below the
/// largest term may be less exact. A quarter less work than [`exp_low_512`], since x log2(e) is
/// rounded before its integer part is taken off.
///
/// # Safety
/// As [`exp_low_512`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn exp_term_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let c = |v: f32| _mm512_set1_ps(v);
        let y = _mm512_mul_ps(x, c(LOG2_E));
        // y less the integer below it, 0 for -inf.
        let r = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF }>(y);
        let mut p = c(EXP2_TERM[4]);
        for term in [EXP2_TERM[3], EXP2_TERM[2], EXP2_TERM[1], EXP2_TERM[0], 1.0] {
            p = _mm512_fmadd_ps(p, r, c(term));
        }
        // Scales by 2 to the integer below y.
        _mm512_scalef_ps(p, y)
    }
}

/// `2^r` for r in [0, 1), but for the constant term 1: the coefficients of `r` to `r^6`, with a relative
/// error below 2^-28.
#[cfg(target_arch = "x86_64")]
const POWER: [f32; 6] = [
    0.693_147_06,
    0.240_229_31,
    0.055_485_282,
    0.009_675_452,
    0.001_246_784_7,
    0.000_216_129_15,
];

/// e^x for x that is not above 0 by more than rounding, or nan: `2^r` times 2 to the power of the integer below, where
/// the instructions that take numbers apart do right by infinities and subnormal results.
///
/// # Safety
/// As [`exp_low_512`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn exp_nonpositive_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let x = _mm512_mul_ps(x, _mm512_set1_ps(LOG2_E));
        let r = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x);
        let mut p = _mm512_set1_ps(POWER[5]);
        for c in [POWER[4], POWER[3], POWER[2], POWER[1], POWER[0], 1.0] {
            p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
        }
        _mm512_scalef_ps(p, x)
    }
}

#[inline(always)]
pub(super) fn exp2<A: Arch>(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -151.0 } else { x };
    let t = x + MAGIC32;
    let r = x - (t - MAGIC32);
    let q = poly32::<A, 5>(r, &EXP2_32);
    let p = 1.0 + fma32::<A>(r * r, q, r * std::f32::consts::LN_2);
    scale2(p, t)
}

#[inline(always)]
pub(super) fn sigmoid<A: Arch>(x: f32) -> f32 {
    // exp of a negative argument only: no overflow, and the lower tail stays exact.
    let e = exp_low::<A>(-x.abs());
    let num = if x < 0.0 { e } else { 1.0 };
    // num / (1 + e) as num - num e / (1 + e), where the rounding of 1 + e weighs less.
    fma32::<A>(-num, e / (1.0 + e), num)
}

#[inline(always)]
pub(super) fn tanh<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    // tanh(10) is 1 in float32.
    let c = if a > 10.0 { 10.0 } else { a };
    // e^2a - 1, exact near 0.
    let (t, em1) = expm1_parts32::<A>(c + c, 127);
    let scale = f32::from_bits(t.to_bits() << 23);
    let e = fma32::<A>(scale, em1, scale - 1.0);
    let large = e / (e + 2.0);
    // The same, where the rounding of e + 2 weighs less.
    let half = 0.5 * e;
    let small = fma32::<A>(-half, large, half);
    let r = if e < 1.0 { small } else { large };
    r.copysign(x)
}

/// `e^r - 1` and 2^n, where e^x = 2^n e^r, for |x| < 700; relative error 2^-45.
#[inline(always)]
fn exp_parts64<A: Arch>(x: f64) -> (f64, f64) {
    let t = fma64::<A>(x, LOG2_E64, MAGIC64);
    let n = t - MAGIC64;
    let r = fma64::<A>(n, -LN2_LO64, fma64::<A>(n, -LN2_HI64, x));
    let em1 = fma64::<A>(r * r, poly64::<A, 8>(r, &EXP64), r);
    let scale = f64::from_bits(t.to_bits().wrapping_add(1023) << 52);
    (em1, scale)
}

/// e^x for |x| < 700, relative error 2^-45.
#[inline(always)]
pub(super) fn exp_wide<A: Arch>(x: f64) -> f64 {
    let (em1, scale) = exp_parts64::<A>(x);
    fma64::<A>(scale, em1, scale)
}

/// e^x of any x, for a result in float32, which has no numbers beyond those at -700 and 700.
#[inline(always)]
pub(super) fn exp_clamped<A: Arch>(x: f64) -> f64 {
    let x = if x > 700.0 { 700.0 } else { x };
    exp_wide::<A>(if x < -700.0 { -700.0 } else { x })
}

/// 2^x for |x| < 1000, relative error 2^-45.
#[inline(always)]
pub(super) fn exp2_wide<A: Arch>(x: f64) -> f64 {
    let t = x + MAGIC64;
    let r = (x - (t - MAGIC64)) * std::f64::consts::LN_2;
    let em1 = fma64::<A>(r * r, poly64::<A, 8>(r, &EXP64), r);
    let scale = f64::from_bits(t.to_bits().wrapping_add(1023) << 52);
    fma64::<A>(scale, em1, scale)
}

/// e^x - 1 for |x| < 700, relative error 2^-44.
#[inline(always)]
fn expm1_wide<A: Arch>(x: f64) -> f64 {
    let (em1, scale) = exp_parts64::<A>(x);
    fma64::<A>(scale, em1, scale - 1.0)
}

/// Limits |x|, nan passing, to where the float32 results have settled.
#[inline(always)]
fn clamp_wide(x: f32) -> f64 {
    let x = if x > 110.0 { 110.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    f64::from(x)
}

#[inline(always)]
pub(super) fn expm1<A: Arch>(x: f32) -> f32 {
    let r = expm1_wide::<A>(clamp_wide(x)) as f32;
    // Keeps the sign of zero.
    if x == 0.0 { x } else { r }
}

#[inline(always)]
pub(super) fn sinh<A: Arch>(x: f32) -> f32 {
    let e = expm1_wide::<A>(clamp_wide(x.abs()));
    ((0.5 * (e + e / (e + 1.0))) as f32).copysign(x)
}

#[inline(always)]
pub(super) fn cosh<A: Arch>(x: f32) -> f32 {
    let e = exp_wide::<A>(clamp_wide(x.abs()));
    (0.5 * (e + 1.0 / e)) as f32
}

/// e^x within about an ulp, as straight-line code that vectorises: reduction by multiples of
/// ln 2, and the Taylor polynomial to degree 13 on |r| <= ln(2)/2.
#[inline(always)]
pub(super) fn exp64<A: Arch>(x: f64) -> f64 {
    // Beyond these the result is inf or 0 anyway; the comparisons let nan through.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let n = fma64::<A>(x, LOG2_E64, MAGIC64) - MAGIC64;
    let r = fma64::<A>(-n, LN2_LO64, fma64::<A>(-n, LN2_HI64, x));
    const C: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    let mut q = C[0];
    for c in &C[1..] {
        q = fma64::<A>(q, r, *c);
    }
    let p = 1.0 + fma64::<A>(r * r, q, r);
    // 2^n in two factors, so that a subnormal result is rounded once.
    let half = fma64::<A>(n, 0.5, MAGIC64);
    let rest = (n - (half - MAGIC64)) + MAGIC64;
    let scale = |t: f64| f64::from_bits(t.to_bits().wrapping_add(1023) << 52);
    p * scale(half) * scale(rest)
}
