//! Vectors of AVX-512 (F, DQ, VL, BW): 64 bytes, 32 registers, and masks in registers of their own.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Arch, FloatVector, HalfLoads, Vector};

/// Ones in the lowest `n` bits.
#[inline(always)]
fn ones(n: usize) -> u32 {
    (1 << n) - 1
}

/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn transpose_16x16(mut r: [__m512; 16]) -> [__m512; 16] {
    // Pairs of rows, fours, then quarters of registers, twice.
    let mut t = r;
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..4 {
            for h in 0..2 {
                let a = _mm512_castps_pd(t[4 * i + h]);
                let b = _mm512_castps_pd(t[4 * i + 2 + h]);
                r[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                r[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
            }
        }
        for c in 0..4 {
            let e0 = _mm512_shuffle_f32x4::<0x88>(r[c], r[4 + c]);
            let e1 = _mm512_shuffle_f32x4::<0x88>(r[8 + c], r[12 + c]);
            let o0 = _mm512_shuffle_f32x4::<0xdd>(r[c], r[4 + c]);
            let o1 = _mm512_shuffle_f32x4::<0xdd>(r[8 + c], r[12 + c]);
            t[c] = _mm512_shuffle_f32x4::<0x88>(e0, e1);
            t[8 + c] = _mm512_shuffle_f32x4::<0xdd>(e0, e1);
            t[4 + c] = _mm512_shuffle_f32x4::<0x88>(o0, o1);
            t[12 + c] = _mm512_shuffle_f32x4::<0xdd>(o0, o1);
        }
    }
    t
}

/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn transpose_8x8(r: [__m512d; 8]) -> [__m512d; 8] {
    let mut t = r;
    // SAFETY: the caller's promise.
    unsafe {
        for h in 0..2 {
            let [a, b, c, d] = match h {
                0 => [0, 2, 4, 6].map(|i: usize| _mm512_unpacklo_pd(r[i], r[i + 1])),
                _ => [0, 2, 4, 6].map(|i: usize| _mm512_unpackhi_pd(r[i], r[i + 1])),
            };
            let e0 = _mm512_shuffle_f64x2::<0x88>(a, b);
            let e1 = _mm512_shuffle_f64x2::<0x88>(c, d);
            let o0 = _mm512_shuffle_f64x2::<0xdd>(a, b);
            let o1 = _mm512_shuffle_f64x2::<0xdd>(c, d);
            t[h] = _mm512_shuffle_f64x2::<0x88>(e0, e1);
            t[4 + h] = _mm512_shuffle_f64x2::<0xdd>(e0, e1);
            t[2 + h] = _mm512_shuffle_f64x2::<0x88>(o0, o1);
            t[6 + h] = _mm512_shuffle_f64x2::<0xdd>(o0, o1);
        }
    }
    t
}

macro_rules! avx512 {
    ($($v:ident of $t:ident $n:literal, mask $m:ident: $splat:ident $load:ident $store:ident $stream:ident $fma:ident
       $mul:ident $add:ident $sub:ident $div:ident $max:ident $min:ident $compare:ident $blend:ident $masked:ident
       $masked_store:ident $keep:ident $two:ident $sum:ident $most:ident $least:ident,
       $to_bits:ident $of_bits:ident $align:ident, $places:ident [$($even:literal)*] [$($half:literal)*],
       |$x:ident| $exp:expr,
       $fnma:ident $sqrt:ident $abs:ident $and:ident $complex:ident $conjugate:ident $permute:ident
       $real:literal $imaginary:literal $swapped:literal $transpose:ident;)*) => {$(
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
            unsafe fn stream(self, to: *mut $t) {
                // SAFETY: as above.
                unsafe { $stream(to, self) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $t, first: usize, end: usize, fill: Self) -> Self {
                // SAFETY: as above; lanes without a bit are not read.
                unsafe { $masked(fill, (ones(end) & !ones(first)) as $m, from) }
            }
            #[inline(always)]
            unsafe fn store_first(self, n: usize, to: *mut $t) {
                // SAFETY: as above; lanes without a bit are not written.
                unsafe { $masked_store(to, ones(n) as $m, self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fma(a, b, self) }
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
                // SAFETY: as above.
                unsafe { $keep(ones(n) as $m, self) }
            }
            #[inline(always)]
            unsafe fn keep_last(self, n: usize) -> Self {
                // SAFETY: as above.
                unsafe { $keep(!ones($n - n) as $m, self) }
            }
            #[inline(always)]
            unsafe fn deinterleave(self, next: Self) -> [Self; 2] {
                // SAFETY: as above.
                unsafe {
                    let even = _mm512_loadu_si512([$($even as $places),*].as_ptr().cast());
                    let odd = _mm512_loadu_si512([$($even as $places + 1),*].as_ptr().cast());
                    [$two(self, even, next), $two(self, odd, next)]
                }
            }
            #[inline(always)]
            unsafe fn interleave(self, next: Self) -> [Self; 2] {
                const fn in_turn(first: usize) -> [$places; $n] {
                    let mut all = [0; $n];
                    let mut i = 0;
                    while i < $n {
                        all[i] = (first + i / 2 + i % 2 * $n) as $places;
                        i += 1;
                    }
                    all
                }
                // SAFETY: as above.
                unsafe {
                    let low = _mm512_loadu_si512(const { in_turn(0) }.as_ptr().cast());
                    let high = _mm512_loadu_si512(const { in_turn($n / 2) }.as_ptr().cast());
                    [$two(self, low, next), $two(self, high, next)]
                }
            }
            #[inline(always)]
            unsafe fn reversed(self) -> Self {
                const ORDER: [$places; $n] = {
                    let mut all = [0; $n];
                    let mut i = 0;
                    while i < $n {
                        all[i] = ($n - 1 - i) as $places;
                        i += 1;
                    }
                    all
                };
                // SAFETY: as above.
                unsafe { $two(self, _mm512_loadu_si512(ORDER.as_ptr().cast()), self) }
            }
            #[inline(always)]
            unsafe fn even_then_odd(self, odd: Self) -> Self {
                // SAFETY: as above.
                unsafe { $two(self, _mm512_loadu_si512([$($half as $places),*].as_ptr().cast()), odd) }
            }
            #[inline(always)]
            unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
                // SAFETY: as above.
                unsafe { $of_bits($align::<K>($to_bits(next), $to_bits(self))) }
            }
            #[inline(always)]
            unsafe fn shifted_in(self, before: Self) -> Self {
                // SAFETY: as above.
                unsafe { $of_bits($align::<{ $n - 1 }>($to_bits(self), $to_bits(before))) }
            }
            #[inline(always)]
            unsafe fn transpose<const K: usize>(rows: [Self; K]) -> [Self; K] {
                debug_assert!(K == $n);
                // SAFETY: as above; the arrays are the same ones.
                unsafe { std::mem::transmute_copy(&$transpose(std::mem::transmute_copy(&rows))) }
            }
        }

        impl FloatVector for $v {
            type Mask = $m;

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
                unsafe { $fnma(a, b, self) }
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
                unsafe { $and(self, $splat($t::INFINITY)) }
            }
            #[inline(always)]
            unsafe fn lt(self, b: Self) -> $m {
                // SAFETY: as above.
                unsafe { $compare::<_CMP_LT_OQ>(self, b) }
            }
            #[inline(always)]
            unsafe fn eq(self, b: Self) -> $m {
                // SAFETY: as above.
                unsafe { $compare::<_CMP_EQ_OQ>(self, b) }
            }
            #[inline(always)]
            unsafe fn select(mask: $m, a: Self, b: Self) -> Self {
                // SAFETY: as above. The instruction takes its second vector where a bit is set.
                unsafe { $blend(mask, b, a) }
            }
            #[inline(always)]
            unsafe fn any(mask: $m) -> bool {
                mask != 0
            }
            #[inline(always)]
            unsafe fn add_complex_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe {
                    let crossed = $complex($permute::<$imaginary>(a), $permute::<$swapped>(b), self);
                    $complex($permute::<$real>(a), b, crossed)
                }
            }
            #[inline(always)]
            unsafe fn add_conjugate_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe {
                    let crossed = $conjugate($permute::<$imaginary>(a), $permute::<$swapped>(b), self);
                    $conjugate($permute::<$real>(a), b, crossed)
                }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $min(self, other) }
            }
            #[inline(always)]
            unsafe fn max_or_nan(self, other: Self) -> Self {
                // SAFETY: as above. Of NaN and a number the instruction takes the second operand.
                unsafe { $blend($compare::<_CMP_UNORD_Q>(other, other), $max(other, self), other) }
            }
            #[inline(always)]
            unsafe fn or_nan(self, v: Self) -> Self {
                // SAFETY: as above.
                unsafe { $blend($compare::<_CMP_UNORD_Q>(v, v), self, v) }
            }
            #[inline(always)]
            unsafe fn any_nan([a, b, c, d]: [Self; 4]) -> bool {
                // SAFETY: as above. A comparison of two finds a NaN in either.
                unsafe { $compare::<_CMP_UNORD_Q>(a, b) | $compare::<_CMP_UNORD_Q>(c, d) != 0 }
            }
            #[inline(always)]
            unsafe fn exp_nonpositive<A: Arch>(self) -> Self {
                let $x = self;
                // SAFETY: as above.
                unsafe { $exp }
            }
            #[inline(always)]
            unsafe fn reduce_sum(self) -> $t {
                // SAFETY: as above.
                unsafe { $sum(self) }
            }
            #[inline(always)]
            unsafe fn reduce_max(self) -> $t {
                // SAFETY: as above.
                unsafe { $most(self) }
            }
            #[inline(always)]
            unsafe fn reduce_min(self) -> $t {
                // SAFETY: as above.
                unsafe { $least(self) }
            }
        }
    )*};
}

avx512! {
    __m512 of f32 16, mask u16: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_fmadd_ps
        _mm512_mul_ps _mm512_add_ps _mm512_sub_ps _mm512_div_ps _mm512_max_ps _mm512_min_ps _mm512_cmp_ps_mask
        _mm512_mask_blend_ps _mm512_mask_loadu_ps _mm512_mask_storeu_ps _mm512_maskz_mov_ps _mm512_permutex2var_ps
        _mm512_reduce_add_ps _mm512_reduce_max_ps _mm512_reduce_min_ps,
        _mm512_castps_si512 _mm512_castsi512_ps _mm512_alignr_epi32,
        i32 [0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30] [0 2 4 6 8 10 12 14 17 19 21 23 25 27 29 31],
        |x| crate::vmath::exp_nonpositive_512(x),
        _mm512_fnmadd_ps _mm512_sqrt_ps _mm512_abs_ps _mm512_and_ps _mm512_fmaddsub_ps _mm512_fmsubadd_ps
        _mm512_permute_ps 0b10_10_00_00 0b11_11_01_01 0b10_11_00_01 transpose_16x16;
    __m512d of f64 8, mask u8: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd _mm512_fmadd_pd
        _mm512_mul_pd _mm512_add_pd _mm512_sub_pd _mm512_div_pd _mm512_max_pd _mm512_min_pd _mm512_cmp_pd_mask
        _mm512_mask_blend_pd _mm512_mask_loadu_pd _mm512_mask_storeu_pd _mm512_maskz_mov_pd _mm512_permutex2var_pd
        _mm512_reduce_add_pd _mm512_reduce_max_pd _mm512_reduce_min_pd,
        _mm512_castpd_si512 _mm512_castsi512_pd _mm512_alignr_epi64,
        i64 [0 2 4 6 8 10 12 14] [0 2 4 6 9 11 13 15],
        |x| {
            let mut lanes: [f64; 8] = std::mem::transmute(x);
            for l in 0..8 {
                lanes[l] = crate::vmath::VMath::exp_low::<A>(lanes[l]);
            }
            std::mem::transmute(lanes)
        },
        _mm512_fnmadd_pd _mm512_sqrt_pd _mm512_abs_pd _mm512_and_pd _mm512_fmaddsub_pd _mm512_fmsubadd_pd
        _mm512_permute_pd 0b0000_0000 0b1111_1111 0b0101_0101 transpose_8x8;
}

impl HalfLoads for __m512 {
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
}
