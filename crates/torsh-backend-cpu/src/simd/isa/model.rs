//! What the instructions compute, after the pseudo code of their pages in the SDM's volume 2.
//!
//! Arithmetic is float32, rounded to nearest even, with subnormal operands taken for zeros and subnormal results
//! made zeros of their sign (DAZ and FTZ); the control register counts for nothing, and no exception is raised. A
//! result is subnormal if it is, rounded to 24 bits with an unbounded exponent, below the least normal number (SDM
//! volume 1, 4.9.1.5: tininess is found after rounding).

use torsh_core::cmath;

pub(crate) mod program;
pub(crate) mod unit;

/// The nan that the processor makes of operands that are none.
const NAN: f32 = f32::from_bits(0xffc0_0000);

/// A number, or a zero of its sign in place of a subnormal one.
#[inline(always)]
pub(crate) fn flushed(x: f32) -> f32 {
    match x.abs() < f32::MIN_POSITIVE {
        true => 0f32.copysign(x),
        false => x,
    }
}

/// `a * b + c`, rounded once, of operands that are not subnormal. Bits of nan are not specified.
#[inline(always)]
pub(crate) fn fused(a: f32, b: f32, c: f32) -> f32 {
    const UP: f32 = (1u64 << 32) as f32;
    let sum = cmath::fmaf(a, b, c);
    // The same times 2^64, which rounds results near the subnormal numbers to 24 bits. Where it overflows, the sum is
    // 0 or far from them.
    let scaled = cmath::fmaf(a * UP, b * UP, c * UP * UP);
    match scaled.abs() < f32::MIN_POSITIVE * UP * UP {
        true => 0f32.copysign(sum),
        false => sum,
    }
}

/// `a + b` of operands that are not subnormal. Bits of nan are not specified.
#[inline(always)]
pub(crate) fn sum(a: f32, b: f32) -> f32 {
    // A sum below the normal numbers is exact.
    flushed(a + b)
}

/// A bfloat16 as a float32.
#[inline(always)]
pub(crate) fn wide(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// VDPBF16PS, one lane: the product of the upper numbers is added first. Nan goes through in the order of the page's
/// table 5-1, its quiet bit set.
pub(crate) fn dot(to: f32, a: [u16; 2], b: [u16; 2]) -> f32 {
    let ([a0, a1], [b0, b1]) = (a.map(wide), b.map(wide));
    if let Some(nan) = [a0, b0, a1, b1, to].into_iter().find(|x| x.is_nan()) {
        return f32::from_bits(nan.to_bits() | 0x0040_0000);
    }
    let [a0, a1, b0, b1, to] = [a0, a1, b0, b1, to].map(flushed);
    let sum = fused(a0, b0, fused(a1, b1, to));
    if sum.is_nan() { NAN } else { sum }
}

/// VDPBF16PS.
#[inline(never)]
pub(crate) fn dots(to: &mut [f32; 16], a: &[[u16; 2]; 16], b: &[[u16; 2]; 16]) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = dot(*to, a, b);
    }
}

/// VCVTNEPS2BF16 and VCVTNE2PS2BF16, one number (`convert_fp32_to_bfloat16`).
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let upper = (bits >> 16) as u16;
    if x.is_nan() {
        return upper | 0x0040;
    }
    if x.is_infinite() {
        return upper;
    }
    if x.abs() < f32::MIN_POSITIVE {
        return upper & 0x8000;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// VCVTNEPS2BF16.
#[inline(never)]
pub(crate) fn all_to_bf16(x: &[f32; 16]) -> [u16; 16] {
    x.map(to_bf16)
}
