//! Vectors whose numbers change places, for windows of adjacent elements.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use num_traits::Float;

use crate::simd::lane::Lane;
#[cfg(target_arch = "x86_64")]
use crate::simd::lane::ONES;

/// A vector whose numbers can change places. Functions are as those of [`Lane`].
pub(crate) trait Vector: Lane<T: Float> {
    /// Those at `from` whose place is in `first..end`, and those of `fill` in the other places. Only
    /// the former are read.
    unsafe fn load_part(from: *const Self::T, first: usize, end: usize, fill: Self) -> Self;
    /// The larger numbers, nan the largest; `self`'s where they are equal.
    unsafe fn larger(self, other: Self) -> Self;
    unsafe fn over(self, n: Self) -> Self;
    /// The numbers in even places of `self` and `next` together, and those in odd ones.
    unsafe fn apart(self, next: Self) -> [Self; 2];
    /// The numbers of `self` and `next` together from place `K` on, 1 or 2.
    unsafe fn shifted<const K: i32>(self, next: Self) -> Self;
    /// The last number of `before`, and all of `self` but the last.
    unsafe fn delayed(self, before: Self) -> Self;
}

#[cfg(target_arch = "x86_64")]
impl Vector for __m512 {
    #[inline(always)]
    unsafe fn load_part(from: *const f32, first: usize, end: usize, fill: Self) -> Self {
        let mask = ((1u32 << end) - 1) & !((1u32 << first) - 1);
        // SAFETY: the caller's promise; lanes without a bit are not read.
        unsafe { _mm512_mask_loadu_ps(fill, mask as u16, from) }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: the caller's promise. Of a nan and a number the second operand is taken.
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other, other);
            _mm512_mask_blend_ps(nan, _mm512_max_ps(other, self), other)
        }
    }
    #[inline(always)]
    unsafe fn over(self, n: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_div_ps(self, n) }
    }
    #[inline(always)]
    unsafe fn apart(self, next: Self) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [
                _mm512_permutex2var_ps(self, even, next),
                _mm512_permutex2var_ps(self, odd, next),
            ]
        }
    }
    #[inline(always)]
    unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (_mm512_castps_si512(self), _mm512_castps_si512(next));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<K>(b, a))
        }
    }
    #[inline(always)]
    unsafe fn delayed(self, before: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { before.shifted::<15>(self) }
    }
}

/// Ones in the 32 bit places from `first` to `end`.
///
/// # Safety
/// The processor has AVX2; both are at most 8.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn places(first: usize, end: usize) -> __m256i {
    // SAFETY: eight places from one that is at most the eighth.
    unsafe {
        let before = |n: usize| _mm256_loadu_si256(ONES.as_ptr().add(8 - n).cast());
        _mm256_andnot_si256(before(first), before(end))
    }
}

/// The upper half of `a` and the lower one of `b`.
///
/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn middle(a: __m256, b: __m256) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_castps_si256(_mm256_permute2f128_ps::<0x21>(a, b)) }
}

#[cfg(target_arch = "x86_64")]
impl Vector for __m256 {
    #[inline(always)]
    unsafe fn load_part(from: *const f32, first: usize, end: usize, fill: Self) -> Self {
        // SAFETY: the caller's promise; lanes without ones are not read.
        unsafe {
            let mask = places(first, end);
            _mm256_blendv_ps(
                fill,
                _mm256_maskload_ps(from, mask),
                _mm256_castsi256_ps(mask),
            )
        }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: the caller's promise. Of a nan and a number the second operand is taken.
        unsafe {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(other, other);
            _mm256_blendv_ps(_mm256_max_ps(other, self), other, nan)
        }
    }
    #[inline(always)]
    unsafe fn over(self, n: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_div_ps(self, n) }
    }
    #[inline(always)]
    unsafe fn apart(self, next: Self) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let order = |v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(v)));
            [
                order(_mm256_shuffle_ps::<0x88>(self, next)),
                order(_mm256_shuffle_ps::<0xdd>(self, next)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (middle, here) = (middle(self, next), _mm256_castps_si256(self));
            _mm256_castsi256_ps(match K {
                1 => _mm256_alignr_epi8::<4>(middle, here),
                _ => _mm256_alignr_epi8::<8>(middle, here),
            })
        }
    }
    #[inline(always)]
    unsafe fn delayed(self, before: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (middle, here) = (middle(before, self), _mm256_castps_si256(self));
            _mm256_castsi256_ps(_mm256_alignr_epi8::<12>(here, middle))
        }
    }
}

impl Vector for [f32; 4] {
    #[inline(always)]
    unsafe fn load_part(from: *const f32, first: usize, end: usize, fill: Self) -> Self {
        let mut all = fill;
        for i in first..end {
            // SAFETY: the caller's promise.
            all[i] = unsafe { *from.wrapping_add(i) };
        }
        all
    }
    #[inline(always)]
    unsafe fn larger(mut self, other: Self) -> Self {
        for i in 0..4 {
            let wins = (other[i] > self[i]) | other[i].is_nan();
            self[i] = if wins { other[i] } else { self[i] };
        }
        self
    }
    #[inline(always)]
    unsafe fn over(mut self, n: Self) -> Self {
        for i in 0..4 {
            self[i] /= n[i];
        }
        self
    }
    #[inline(always)]
    unsafe fn apart(self, next: Self) -> [Self; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self, next);
        [[a, c, e, g], [b, d, f, h]]
    }
    #[inline(always)]
    unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
        let ([_, b, c, d], [e, f, ..]) = (self, next);
        if K == 1 { [b, c, d, e] } else { [c, d, e, f] }
    }
    #[inline(always)]
    unsafe fn delayed(self, before: Self) -> Self {
        let [a, b, c, _] = self;
        [before[3], a, b, c]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every function against what it says of places, with the vectors of one level.
    unsafe fn check<V: Vector>() {
        let number = |i: usize| <V::T as num_traits::NumCast>::from(i).expect("a number");
        let n = V::N;
        let all: Vec<V::T> = (0..2 * n).map(number).collect();
        let of = |v: V| {
            let mut numbers = vec![number(99); n];
            // SAFETY: the caller's promise.
            unsafe { v.store(numbers.as_mut_ptr()) };
            numbers
        };
        let want = |f: &dyn Fn(usize) -> usize| (0..n).map(|i| number(f(i))).collect::<Vec<_>>();
        // SAFETY: the caller's promise; both halves are whole vectors.
        unsafe {
            let (a, b) = (V::load(all.as_ptr()), V::load(all.as_ptr().add(n)));
            assert!(of(a.shifted::<1>(b)) == want(&|i| i + 1));
            assert!(of(a.shifted::<2>(b)) == want(&|i| i + 2));
            assert!(of(b.delayed(a)) == want(&|i| i + n - 1));
            let [even, odd] = a.apart(b);
            assert!(of(even) == want(&|i| 2 * i) && of(odd) == want(&|i| 2 * i + 1));
            for first in 0..=n {
                for end in first..=n {
                    let inside = |i: usize| if (first..end).contains(&i) { i } else { 77 };
                    let some = V::load_part(all.as_ptr(), first, end, V::splat(number(77)));
                    assert!(of(some) == want(&inside), "{first} {end}");
                }
            }
            let nan = V::splat(V::T::nan());
            assert!(of(a.larger(b)) == of(b) && of(b.larger(a)) == of(b));
            assert!(
                of(nan.larger(b))
                    .iter()
                    .chain(&of(b.larger(nan)))
                    .all(|v| v.is_nan())
            );
        }
    }

    #[test]
    fn numbers_change_places_at_every_level() {
        // SAFETY: each is called where the processor has its instructions.
        unsafe {
            check::<[f32; 4]>();
            #[cfg(target_arch = "x86_64")]
            {
                use crate::simd::Level;
                #[target_feature(enable = "avx2,fma")]
                unsafe fn avx2() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        check::<__m256>();
                    }
                }
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
                unsafe fn avx512() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        check::<__m512>();
                    }
                }
                if Level::Avx2.is_available() {
                    avx2();
                }
                if Level::Avx512.is_available() {
                    avx512();
                }
            }
        }
    }
}
