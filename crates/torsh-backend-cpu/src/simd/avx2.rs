//! Vectors of AVX2 and FMA: 32 bytes, 16 registers.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{FloatVector, HalfLoads, MASKS, Vector};

/// The upper half of `a` and the lower one of `b`.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn middle(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_permute2x128_si256::<0x21>(a, b) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn transpose_8x8([r0, r1, r2, r3, r4, r5, r6, r7]: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        let (a4, a5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
        let (a6, a7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
        let b0 = _mm256_shuffle_ps::<0x44>(a0, a2);
        let b1 = _mm256_shuffle_ps::<0xEE>(a0, a2);
        let b2 = _mm256_shuffle_ps::<0x44>(a1, a3);
        let b3 = _mm256_shuffle_ps::<0xEE>(a1, a3);
        let b4 = _mm256_shuffle_ps::<0x44>(a4, a6);
        let b5 = _mm256_shuffle_ps::<0xEE>(a4, a6);
        let b6 = _mm256_shuffle_ps::<0x44>(a5, a7);
        let b7 = _mm256_shuffle_ps::<0xEE>(a5, a7);
        [
            _mm256_permute2f128_ps::<0x20>(b0, b4),
            _mm256_permute2f128_ps::<0x20>(b1, b5),
            _mm256_permute2f128_ps::<0x20>(b2, b6),
            _mm256_permute2f128_ps::<0x20>(b3, b7),
            _mm256_permute2f128_ps::<0x31>(b0, b4),
            _mm256_permute2f128_ps::<0x31>(b1, b5),
            _mm256_permute2f128_ps::<0x31>(b2, b6),
            _mm256_permute2f128_ps::<0x31>(b3, b7),
        ]
    }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn transpose_4x4([r0, r1, r2, r3]: [__m256d; 4]) -> [__m256d; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a0, a1) = (_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_pd(r2, r3), _mm256_unpackhi_pd(r2, r3));
        [
            _mm256_permute2f128_pd::<0x20>(a0, a2),
            _mm256_permute2f128_pd::<0x20>(a1, a3),
            _mm256_permute2f128_pd::<0x31>(a0, a2),
            _mm256_permute2f128_pd::<0x31>(a1, a3),
        ]
    }
}

macro_rules! avx2 {
    ($($v:ident of $t:ident $n:literal: $splat:ident $load:ident $store:ident $stream:ident $fma:ident $mul:ident $add:ident
       $sub:ident $div:ident $max:ident $min:ident $compare:ident $blend:ident $and:ident $or:ident $bits:ident
       $masked:ident $transpose:ident, $to_bits:ident $of_bits:ident,
       |$a:ident, $b:ident| $deinterleave:expr, $interleave:expr, $even_then_odd:expr,
       |$x:ident| $reversed:expr, $sum:expr, $most:expr, $least:expr,
       |$p:ident, $q:ident, $r:ident, $s:ident| $sums:expr,
       $fnma:ident $sqrt:ident $andnot:ident $complex:ident $conjugate:ident $permute:ident
       $real:literal $imaginary:literal $swapped:literal;)*) => {$(
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
                const PLACES: usize = 8 / $n;
                // SAFETY: as above; lanes without ones are not read. Eight places from one that is at most the
                // eighth.
                unsafe {
                    let before = |n: usize| _mm256_loadu_si256(MASKS.as_ptr().add(8 - PLACES * n).cast());
                    let mask = _mm256_andnot_si256(before(first), before(end));
                    $blend(fill, $masked(from, mask), $of_bits(mask))
                }
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
                unsafe { $and(self, $load(MASKS.as_ptr().add(8 - 8 / $n * n).cast())) }
            }
            #[inline(always)]
            unsafe fn keep_last(self, n: usize) -> Self {
                // SAFETY: as above.
                unsafe { $and(self, $load(MASKS.as_ptr().add(8 + 8 / $n * n).cast())) }
            }
            #[inline(always)]
            unsafe fn deinterleave(self, next: Self) -> [Self; 2] {
                let ($a, $b) = (self, next);
                // SAFETY: as above.
                unsafe { $deinterleave }
            }
            #[inline(always)]
            unsafe fn interleave(self, next: Self) -> [Self; 2] {
                let ($a, $b) = (self, next);
                // SAFETY: as above.
                unsafe { $interleave }
            }
            #[inline(always)]
            unsafe fn reversed(self) -> Self {
                let $x = self;
                // SAFETY: as above.
                unsafe { $reversed }
            }
            #[inline(always)]
            unsafe fn even_then_odd(self, odd: Self) -> Self {
                let ($a, $b) = (self, odd);
                // SAFETY: as above.
                unsafe { $even_then_odd }
            }
            #[inline(always)]
            unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
                const BYTES: i32 = 32 / $n;
                // SAFETY: as above.
                unsafe {
                    let (here, middle) = ($to_bits(self), middle($to_bits(self), $to_bits(next)));
                    $of_bits(match K {
                        1 => _mm256_alignr_epi8::<BYTES>(middle, here),
                        _ if BYTES == 8 => middle,
                        _ => _mm256_alignr_epi8::<8>(middle, here),
                    })
                }
            }
            #[inline(always)]
            unsafe fn shifted_in(self, before: Self) -> Self {
                const BYTES: i32 = 16 - 32 / $n;
                // SAFETY: as above.
                unsafe {
                    let middle = middle($to_bits(before), $to_bits(self));
                    $of_bits(_mm256_alignr_epi8::<BYTES>($to_bits(self), middle))
                }
            }
            #[inline(always)]
            unsafe fn transpose<const K: usize>(rows: [Self; K]) -> [Self; K] {
                debug_assert!(K == $n);
                // SAFETY: as above; the arrays are the same ones.
                unsafe { std::mem::transmute_copy(&$transpose(std::mem::transmute_copy(&rows))) }
            }
        }

        impl FloatVector for $v {
            type Mask = Self;

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
                unsafe { $andnot($splat(-0.0), self) }
            }
            #[inline(always)]
            unsafe fn power_below(self) -> Self {
                // SAFETY: as above. Infinity is the bits of the exponent.
                unsafe { $and(self, $splat($t::INFINITY)) }
            }
            #[inline(always)]
            unsafe fn lt(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $compare::<_CMP_LT_OQ>(self, b) }
            }
            #[inline(always)]
            unsafe fn eq(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $compare::<_CMP_EQ_OQ>(self, b) }
            }
            #[inline(always)]
            unsafe fn select(mask: Self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $blend(b, a, mask) }
            }
            #[inline(always)]
            unsafe fn any(mask: Self) -> bool {
                // SAFETY: as above.
                unsafe { $bits(mask) != 0 }
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
                unsafe {
                    let nan = $compare::<_CMP_UNORD_Q>(other, other);
                    $blend($max(other, self), other, nan)
                }
            }
            #[inline(always)]
            unsafe fn or_nan(self, v: Self) -> Self {
                // SAFETY: as above.
                unsafe { $or(self, $compare::<_CMP_UNORD_Q>(v, v)) }
            }
            #[inline(always)]
            unsafe fn any_nan([a, b, c, d]: [Self; 4]) -> bool {
                // SAFETY: as above. A comparison of two finds a NaN in either.
                unsafe { $bits($or($compare::<_CMP_UNORD_Q>(a, b), $compare::<_CMP_UNORD_Q>(c, d))) != 0 }
            }
            #[inline(always)]
            unsafe fn reduce_sum(self) -> $t {
                let $x = self;
                // SAFETY: as above.
                unsafe { $sum }
            }
            #[inline(always)]
            unsafe fn reduce_sums([$p, $q, $r, $s]: [Self; 4]) -> [$t; 4] {
                // SAFETY: as above; the last store has room for four.
                unsafe { $sums }
            }
            #[inline(always)]
            unsafe fn reduce_max(self) -> $t {
                let $x = self;
                // SAFETY: as above.
                unsafe { $most }
            }
            #[inline(always)]
            unsafe fn reduce_min(self) -> $t {
                let $x = self;
                // SAFETY: as above.
                unsafe { $least }
            }
        }
    )*};
}

macro_rules! reduce_ps {
    ($v:ident, $four:ident, $one:ident) => {{
        let v = $four(_mm256_extractf128_ps::<1>($v), _mm256_castps256_ps128($v));
        let v = $four(_mm_movehl_ps(v, v), v);
        _mm_cvtss_f32($one(_mm_movehdup_ps(v), v))
    }};
}
macro_rules! reduce_pd {
    ($v:ident, $two:ident, $one:ident) => {{
        let v = $two(_mm256_extractf128_pd::<1>($v), _mm256_castpd256_pd128($v));
        _mm_cvtsd_f64($one(_mm_unpackhi_pd(v, v), v))
    }};
}

avx2! {
    __m256 of f32 8: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_fmadd_ps _mm256_mul_ps
        _mm256_add_ps _mm256_sub_ps _mm256_div_ps _mm256_max_ps _mm256_min_ps _mm256_cmp_ps _mm256_blendv_ps
        _mm256_and_ps _mm256_or_ps _mm256_movemask_ps _mm256_maskload_ps transpose_8x8,
        _mm256_castps_si256 _mm256_castsi256_ps,
        |a, b| {
            let order = |v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(v)));
            [order(_mm256_shuffle_ps::<0x88>(a, b)), order(_mm256_shuffle_ps::<0xdd>(a, b))]
        }, {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
        }, {
            let halves = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_10_00>(a, b));
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(halves))
        },
        |v| {
            let halves = _mm256_permute2f128_ps::<0x01>(v, v);
            _mm256_permute_ps::<0b00_01_10_11>(halves)
        },
        reduce_ps!(v, _mm_add_ps, _mm_add_ss), reduce_ps!(v, _mm_max_ps, _mm_max_ss), reduce_ps!(v, _mm_min_ps, _mm_min_ss),
        |a, b, c, d| {
            // The halves of two vectors side by side, then lanes of all four.
            let halves = |x, y| {
                _mm256_add_ps(_mm256_permute2f128_ps::<0x31>(x, y), _mm256_permute2f128_ps::<0x20>(x, y))
            };
            let (ab, cd) = (halves(a, b), halves(c, d));
            let pairs = _mm256_add_ps(_mm256_unpackhi_ps(ab, cd), _mm256_unpacklo_ps(ab, cd));
            let ones = _mm256_add_ps(_mm256_permute_ps::<0b11_10_11_10>(pairs), pairs);
            let (ac, bd) = (_mm256_castps256_ps128(ones), _mm256_extractf128_ps::<1>(ones));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), _mm_unpacklo_ps(ac, bd));
            sums
        },
        _mm256_fnmadd_ps _mm256_sqrt_ps _mm256_andnot_ps _mm256_fmaddsub_ps _mm256_fmsubadd_ps _mm256_permute_ps
        0b10_10_00_00 0b11_11_01_01 0b10_11_00_01;
    __m256d of f64 4: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd _mm256_fmadd_pd _mm256_mul_pd
        _mm256_add_pd _mm256_sub_pd _mm256_div_pd _mm256_max_pd _mm256_min_pd _mm256_cmp_pd _mm256_blendv_pd
        _mm256_and_pd _mm256_or_pd _mm256_movemask_pd _mm256_maskload_pd transpose_4x4,
        _mm256_castpd_si256 _mm256_castsi256_pd,
        |a, b| {
            let order = |v| _mm256_permute4x64_pd::<0xd8>(v);
            [order(_mm256_unpacklo_pd(a, b)), order(_mm256_unpackhi_pd(a, b))]
        }, {
            let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            [_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high)]
        },
        _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_shuffle_pd::<0b1010>(a, b)),
        |v| _mm256_permute4x64_pd::<0b00_01_10_11>(v),
        reduce_pd!(v, _mm_add_pd, _mm_add_sd), reduce_pd!(v, _mm_max_pd, _mm_max_sd), reduce_pd!(v, _mm_min_pd, _mm_min_sd),
        |a, b, c, d| {
            let halves = |x, y| {
                _mm256_add_pd(_mm256_permute2f128_pd::<0x31>(x, y), _mm256_permute2f128_pd::<0x20>(x, y))
            };
            let (ab, cd) = (halves(a, b), halves(c, d));
            let ones = _mm256_add_pd(_mm256_unpackhi_pd(ab, cd), _mm256_unpacklo_pd(ab, cd));
            let mut sums = [0.0; 4];
            _mm256_storeu_pd(sums.as_mut_ptr(), _mm256_permute4x64_pd::<0b11_01_10_00>(ones));
            sums
        },
        _mm256_fnmadd_pd _mm256_sqrt_pd _mm256_andnot_pd _mm256_fmaddsub_pd _mm256_fmsubadd_pd _mm256_permute_pd
        0b0000 0b1111 0b0101;
}

impl HalfLoads for __m256 {
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as above; the level has F16C.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
}
