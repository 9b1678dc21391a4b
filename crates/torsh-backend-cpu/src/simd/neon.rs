//! Vectors of NEON: 16 bytes, 32 registers. NEON is part of every aarch64 processor, so its intrinsics need no
//! detection. Masked loads and stores do not exist: the trait's own go element by element.

use std::arch::aarch64::*;

use half::bf16;

use super::{FloatVector, HalfLoads, MASKS, Vector};

/// The bits of a comparison of float32.
#[inline(always)]
fn same(v: uint32x4_t) -> uint32x4_t {
    v
}

macro_rules! neon {
    ($($v:ident of $t:ident $n:literal: $splat:ident $load:ident $store:ident $fma:ident $mul:ident $add:ident
       $sub:ident $div:ident $less:ident $equal:ident $select:ident, $as_bits:ident $of_bits:ident
       $even:ident $odd:ident $first:ident $second:ident $from:ident $low:ident $join:ident $wide:ident,
       $mask:ident $fms:ident $sqrt:ident $abs:ident $real:ident $imaginary:ident |$x:ident| $swapped:expr;)*) => {$(
        impl Vector for $v {
            type T = $t;
            const N: usize = $n;
            #[inline(always)]
            unsafe fn splat(value: $t) -> Self {
                // SAFETY: the caller's promise; here and below.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: as above.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: as above.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fma(self, a, b) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $mul(self, b) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, b) }
            }
            #[inline(always)]
            unsafe fn keep_first(self, n: usize) -> Self {
                // SAFETY: as above; 16 bytes from a place that is at most the eighth.
                unsafe {
                    let mask = vld1q_u32(MASKS.as_ptr().add(8 - n * (4 / $n)).cast());
                    $of_bits(vandq_u32($as_bits(self), mask))
                }
            }
            #[inline(always)]
            unsafe fn keep_last(self, n: usize) -> Self {
                // SAFETY: as above; 16 bytes that end at least four places before the last.
                unsafe {
                    let mask = vld1q_u32(MASKS.as_ptr().add(12 + n * (4 / $n)).cast());
                    $of_bits(vandq_u32($as_bits(self), mask))
                }
            }
            #[inline(always)]
            unsafe fn deinterleave(self, next: Self) -> [Self; 2] {
                // SAFETY: as above.
                unsafe { [$even(self, next), $odd(self, next)] }
            }
            #[inline(always)]
            unsafe fn interleave(self, next: Self) -> [Self; 2] {
                // SAFETY: as above.
                unsafe { [$first(self, next), $second(self, next)] }
            }
            #[inline(always)]
            unsafe fn reversed(self) -> Self {
                // SAFETY: as above. Pairs are exchanged, then halves.
                unsafe {
                    match $n {
                        2 => $from::<1>(self, self),
                        _ => {
                            let pairs = $of_bits(vrev64q_u32($as_bits(self)));
                            $from::<{ $n / 2 }>(pairs, pairs)
                        }
                    }
                }
            }
            #[inline(always)]
            unsafe fn even_then_odd(self, odd: Self) -> Self {
                // SAFETY: as above.
                unsafe { $join($low($even(self, self)), $low($odd(odd, odd))) }
            }
            #[inline(always)]
            unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
                // SAFETY: as above.
                unsafe {
                    match K {
                        1 => $from::<1>(self, next),
                        _ if $n == 2 => next,
                        _ => $from::<{ 2 % $n }>(self, next),
                    }
                }
            }
            #[inline(always)]
            unsafe fn shifted_in(self, before: Self) -> Self {
                // SAFETY: as above.
                unsafe { $from::<{ $n - 1 }>(before, self) }
            }
        }

        impl FloatVector for $v {
            type Mask = $mask;

            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $sub(self, b) }
            }
            #[inline(always)]
            unsafe fn div(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $div(self, b) }
            }
            #[inline(always)]
            unsafe fn sub_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fms(self, a, b) }
            }
            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                // SAFETY: as above.
                unsafe { $sqrt(self) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                // SAFETY: as above.
                unsafe { $abs(self) }
            }
            #[inline(always)]
            unsafe fn power_below(self) -> Self {
                // SAFETY: as above. Infinity is the bits of the exponent.
                unsafe { $of_bits(vandq_u32($as_bits(self), $as_bits($splat($t::INFINITY)))) }
            }
            #[inline(always)]
            unsafe fn lt(self, b: Self) -> $mask {
                // SAFETY: as above.
                unsafe { $less(self, b) }
            }
            #[inline(always)]
            unsafe fn eq(self, b: Self) -> $mask {
                // SAFETY: as above.
                unsafe { $equal(self, b) }
            }
            #[inline(always)]
            unsafe fn select(mask: $mask, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $select(mask, a, b) }
            }
            #[inline(always)]
            unsafe fn any(mask: $mask) -> bool {
                // SAFETY: as above.
                unsafe { vmaxvq_u32($wide(mask)) != 0 }
            }
            #[inline(always)]
            unsafe fn add_complex_product(self, a: Self, b: Self) -> Self {
                const SIGNS: [$t; 4] = [-1.0, 1.0, -1.0, 1.0];
                let $x = b;
                // SAFETY: as above; no vector is longer.
                unsafe {
                    let signed = $mul($imaginary(a, a), $load(SIGNS.as_ptr()));
                    $fma($fma(self, signed, $swapped), $real(a, a), b)
                }
            }
            #[inline(always)]
            unsafe fn add_conjugate_product(self, a: Self, b: Self) -> Self {
                const SIGNS: [$t; 4] = [1.0, -1.0, 1.0, -1.0];
                let $x = b;
                // SAFETY: as above; no vector is longer.
                unsafe {
                    let signed = $mul($imaginary(a, a), $load(SIGNS.as_ptr()));
                    $fma($fma(self, signed, $swapped), $real(a, a), b)
                }
            }
            // The instructions for a maximum give NaN, or the number, where one is NaN: never the second operand.
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $select($less(other, self), self, other) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $select($less(self, other), self, other) }
            }
            #[inline(always)]
            unsafe fn max_or_nan(self, other: Self) -> Self {
                // SAFETY: as above. A comparison with NaN is false.
                unsafe {
                    let larger = $select($less(self, other), other, self);
                    $select($equal(other, other), larger, other)
                }
            }
            #[inline(always)]
            unsafe fn or_nan(self, v: Self) -> Self {
                // SAFETY: as above.
                unsafe { $select($equal(v, v), self, v) }
            }
            #[inline(always)]
            unsafe fn any_nan(all: [Self; 4]) -> bool {
                // SAFETY: as above.
                unsafe {
                    let number = |v| $wide($equal(v, v));
                    let low = vandq_u32(number(all[0]), number(all[1]));
                    let high = vandq_u32(number(all[2]), number(all[3]));
                    vminvq_u32(vandq_u32(low, high)) == 0
                }
            }
            #[inline(always)]
            unsafe fn reduce_sum(self) -> $t {
                // SAFETY: a vector is its elements.
                super::array::halve(unsafe { std::mem::transmute::<Self, [$t; $n]>(self) }, |a, b| a + b)
            }
            #[inline(always)]
            unsafe fn reduce_max(self) -> $t {
                // SAFETY: a vector is its elements.
                super::array::halve(unsafe { std::mem::transmute::<Self, [$t; $n]>(self) }, |a, b| if a > b { a } else { b })
            }
            #[inline(always)]
            unsafe fn reduce_min(self) -> $t {
                // SAFETY: a vector is its elements.
                super::array::halve(unsafe { std::mem::transmute::<Self, [$t; $n]>(self) }, |a, b| if a < b { a } else { b })
            }
        }
    )*};
}

neon! {
    float32x4_t of f32 4: vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32 vmulq_f32 vaddq_f32 vsubq_f32 vdivq_f32 vcltq_f32
        vceqq_f32 vbslq_f32, vreinterpretq_u32_f32 vreinterpretq_f32_u32 vuzp1q_f32 vuzp2q_f32 vzip1q_f32 vzip2q_f32 vextq_f32 vget_low_f32
        vcombine_f32 same,
        uint32x4_t vfmsq_f32 vsqrtq_f32 vabsq_f32 vtrn1q_f32 vtrn2q_f32 |x| vrev64q_f32(x);
    float64x2_t of f64 2: vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64 vmulq_f64 vaddq_f64 vsubq_f64 vdivq_f64 vcltq_f64
        vceqq_f64 vbslq_f64, vreinterpretq_u32_f64 vreinterpretq_f64_u32 vuzp1q_f64 vuzp2q_f64 vzip1q_f64 vzip2q_f64 vextq_f64 vget_low_f64
        vcombine_f64 vreinterpretq_u32_u64,
        uint64x2_t vfmsq_f64 vsqrtq_f64 vabsq_f64 vtrn1q_f64 vtrn2q_f64 |x| vextq_f64::<1>(x, x);
}

impl HalfLoads for float32x4_t {
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's promise.
        unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(from.cast())))) }
    }
}
