//! Vectors of one instruction set, as the tiles of products are written over them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of `N` numbers. All functions must be inlined into a function compiled for the
/// instruction set.
pub(crate) trait Lane: Copy {
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
    /// Fetches the cache line of an address that will be read and written.
    ///
    /// # Safety
    /// As [`Lane::splat`]; any address will do.
    unsafe fn fetch(at: *const Self::T);
}

#[cfg(target_arch = "x86_64")]
macro_rules! x86 {
    ($($v:ident of $t:ident $n:literal: $splat:ident $load:ident $store:ident $fma:ident $mul:ident $add:ident),*) => {$(
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
            unsafe fn fetch(at: *const $t) {
                // SAFETY: the caller's promise.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
x86! {
    __m256 of f32 8: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps,
    __m256d of f64 4: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd,
    __m512 of f32 16: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps,
    __m512d of f64 8: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd
}

/// The vectors of the target's baseline: 16 bytes, which LLVM makes of plain loops.
macro_rules! portable {
    ($($t:ident $n:literal $fma:path),*) => {$(
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
                std::array::from_fn(|i| $fma(a[i], b[i], self[i]))
            }
            #[inline(always)]
            unsafe fn times(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] * b[i])
            }
            #[inline(always)]
            unsafe fn plus(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] + b[i])
            }
            #[inline(always)]
            unsafe fn fetch(_: *const $t) {}
        }
    )*};
}
portable!(f32 4 crate::arch::fma32::<crate::arch::Base>, f64 2 crate::arch::fma64::<crate::arch::Base>);
