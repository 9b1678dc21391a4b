//! Vectors of one instruction set, as the tiles of products and convolutions are written over them.

use std::mem::MaybeUninit;

use num_complex::Complex;

use crate::scalar::Real;
use crate::simd::Arch;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of `N` numbers. All functions must be inlined into a function compiled for the
/// instruction set.
pub trait Lane: Copy {
    /// What it holds.
    type T: Copy;
    /// How many.
    const N: usize;

    /// # Safety
    /// The processor has the vector's instruction set; here and in every function below.
    unsafe fn splat(value: Self::T) -> Self;
    /// # Safety
    /// `from` is valid for `N` reads.
    unsafe fn load(from: *const Self::T) -> Self;
    /// # Safety
    /// `to` is valid for `N` writes.
    unsafe fn store(self, to: *mut Self::T);
    /// `self + a * b`
    ///
    /// # Safety
    /// As [`Lane::splat`].
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// `self` and the products of a term of `a` and `b`, or of all terms that an element holds.
    ///
    /// # Safety
    /// As [`Lane::splat`].
    #[inline(always)]
    unsafe fn add_terms(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.add_product(a, b) }
    }
    /// `self * b`
    ///
    /// # Safety
    /// As [`Lane::splat`].
    unsafe fn times(self, b: Self) -> Self;
    /// `self + b`
    ///
    /// # Safety
    /// As [`Lane::splat`].
    unsafe fn plus(self, b: Self) -> Self;
    /// The first `n` numbers, and zeros; `n` is at most `N`.
    ///
    /// # Safety
    /// As [`Lane::splat`].
    unsafe fn first(self, n: usize) -> Self;
    /// The last `n` numbers, and zeros before them; `n` is at most `N`.
    ///
    /// # Safety
    /// As [`Lane::splat`].
    unsafe fn last(self, n: usize) -> Self;
    /// Writes the first `n` numbers; `n` is at most `N`.
    ///
    /// # Safety
    /// `to` is valid for `n` writes.
    #[inline(always)]
    unsafe fn store_first(self, n: usize, to: *mut Self::T) {
        let mut all = MaybeUninit::<Self>::uninit();
        // SAFETY: the caller's promise; a vector is its numbers.
        unsafe {
            self.store(all.as_mut_ptr().cast());
            std::ptr::copy_nonoverlapping(all.as_ptr().cast(), to, n);
        }
    }
    /// Fetches the cache line of an address that will be read and written.
    ///
    /// # Safety
    /// As [`Lane::splat`]; any address will do.
    unsafe fn fetch(at: *const Self::T);
    /// [`Lane::fetch`] into the nearest cache, shortly before it is used.
    ///
    /// # Safety
    /// As there.
    unsafe fn fetch_near(at: *const Self::T);
}

/// Read at `8 - n`: ones in the first `n` places of 32 bits. Read at `8 + n`: in the last.
#[cfg(target_arch = "x86_64")]
pub(crate) static ONES: [i32; 24] = [
    -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1,
];

/// Ones in the lowest `n` bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ones(n: usize) -> u32 {
    (1 << n) - 1
}

#[cfg(target_arch = "x86_64")]
macro_rules! x86 {
    ($($v:ident of $t:ident $n:literal: $splat:ident $load:ident $store:ident $fma:ident $mul:ident $add:ident $first:expr, $last:expr $(, $store_first:expr)?);*) => {$(
        impl Lane for $v {
            type T = $t;
            const N: usize = $n;
            #[inline(always)]
            unsafe fn splat(value: $t) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $fma(a, b, self) }
            }
            #[inline(always)]
            unsafe fn times(self, b: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $mul(self, b) }
            }
            #[inline(always)]
            unsafe fn plus(self, b: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $add(self, b) }
            }
            #[inline(always)]
            unsafe fn first(self, n: usize) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $first(self, n) }
            }
            #[inline(always)]
            unsafe fn last(self, n: usize) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $last(self, n) }
            }
            $(#[inline(always)]
            unsafe fn store_first(self, n: usize, to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { $store_first(self, n, to) }
            })?
            #[inline(always)]
            unsafe fn fetch(at: *const $t) {
                // SAFETY: the caller's promise.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
            }
            #[inline(always)]
            unsafe fn fetch_near(at: *const $t) {
                // SAFETY: the caller's promise.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
x86! {
    __m256 of f32 8: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps |v, n| {
        _mm256_and_ps(v, _mm256_loadu_ps(ONES.as_ptr().add(8 - n).cast()))
    }, |v, n| _mm256_and_ps(v, _mm256_loadu_ps(ONES.as_ptr().add(8 + n).cast()));
    __m256d of f64 4: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd |v, n| {
        _mm256_and_pd(v, _mm256_loadu_pd(ONES.as_ptr().add(8 - 2 * n).cast()))
    }, |v, n| _mm256_and_pd(v, _mm256_loadu_pd(ONES.as_ptr().add(8 + 2 * n).cast()));
    __m512 of f32 16: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps |v, n| _mm512_maskz_mov_ps(ones(n) as u16, v),
        |v, n| _mm512_maskz_mov_ps(!ones(16 - n) as u16, v),
        |v, n, to| _mm512_mask_storeu_ps(to, ones(n) as u16, v);
    __m512d of f64 8: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd |v, n| _mm512_maskz_mov_pd(ones(n) as u8, v),
        |v, n| _mm512_maskz_mov_pd(!ones(8 - n) as u8, v),
        |v, n, to| _mm512_mask_storeu_pd(to, ones(n) as u8, v)
}

/// The vectors of the target's baseline: 16 bytes, which LLVM makes of plain loops.
macro_rules! portable {
    ($($t:ty, $n:literal, |$a:ident, $b:ident, $sum:ident| $fma:expr, $mul:expr, $add:expr;)*) => {$(
        impl Lane for [$t; $n] {
            type T = $t;
            const N: usize = $n;
            #[inline(always)]
            unsafe fn splat(value: $t) -> Self {
                [value; $n]
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller's promise.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                let mut all = self;
                for i in 0..$n {
                    let ($a, $b, $sum) = (a[i], b[i], self[i]);
                    all[i] = $fma;
                }
                all
            }
            #[inline(always)]
            unsafe fn times(self, b: Self) -> Self {
                let mut all = self;
                for i in 0..$n {
                    let ($a, $b) = (self[i], b[i]);
                    all[i] = $mul;
                }
                all
            }
            #[inline(always)]
            unsafe fn first(self, n: usize) -> Self {
                std::array::from_fn(|i| if i < n { self[i] } else { Default::default() })
            }
            #[inline(always)]
            unsafe fn last(self, n: usize) -> Self {
                std::array::from_fn(|i| if i + n >= $n { self[i] } else { Default::default() })
            }
            #[inline(always)]
            unsafe fn plus(self, b: Self) -> Self {
                let mut all = self;
                for i in 0..$n {
                    let ($a, $b) = (self[i], b[i]);
                    all[i] = $add;
                }
                all
            }
            #[inline(always)]
            unsafe fn fetch(_: *const $t) {}
            #[inline(always)]
            unsafe fn fetch_near(_: *const $t) {}
        }
    )*};
}
portable! {
    f32, 4, |a, b, sum| crate::simd::fma32::<crate::simd::Base>(a, b, sum), a * b, a + b;
    f64, 2, |a, b, sum| crate::simd::fma64::<crate::simd::Base>(a, b, sum), a * b, a + b;
    Complex<f32>, 2, |a, b, sum| sum + a * b, a * b, a + b;
    Complex<f64>, 1, |a, b, sum| sum + a * b, a * b, a + b;
    u64, 2, |a, b, sum| sum.wrapping_add(a.wrapping_mul(b)), a.wrapping_mul(b), a.wrapping_add(b);
}

/// Numbers that every level has vectors of.
pub(crate) trait Vectors: Real {
    /// Those of a level.
    type V<A: Arch>: Lane<T = Self>;
}
impl Vectors for f32 {
    type V<A: Arch> = A::F32;
}
impl Vectors for f64 {
    type V<A: Arch> = A::F64;
}
