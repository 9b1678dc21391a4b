//! The numbers that attention computes in.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512;

use super::scores::{self, LANES, Scores};
use crate::kernels::panels::Panels;
use crate::multiversion;
use crate::simd::array::Element;
#[cfg(target_arch = "x86_64")]
use crate::simd::{FloatVector, Level};

/// The numbers that attention computes in.
pub(super) trait Number: Panels + Element {
    /// Vectors of the passes over scores with AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Wide: FloatVector<T = Self>;
}
impl Number for f32 {
    #[cfg(target_arch = "x86_64")]
    type Wide = __m512;
}
impl Number for f64 {
    #[cfg(target_arch = "x86_64")]
    type Wide = [f64; LANES];
}

multiversion! {
    /// See [`scores::weigh`].
    pub(super) unsafe fn weigh<A, T: Number>(s: &Scores<T>, rows: &scores::ScoreRows<T>, out: *mut T, width: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match A::LEVEL {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => scores::weigh::<A, T, T::Wide>(s, rows, out, width),
                _ => scores::weigh::<A, T, [T; LANES]>(s, rows, out, width),
            }
        }
    }
    /// See [`scores::finish`].
    pub(super) unsafe fn finish<A, T: Number>(rows: &scores::ScoreRows<T>, n: usize, lse: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { scores::finish::<A, T>(rows, n, lse) }
    }
    /// See [`scores::weigh_back`].
    pub(super) unsafe fn weigh_back<A, T: Number>(s: &Scores<T>, g: *mut T, lse: *const T, delta: *const T) {
        // SAFETY: the caller's promise.
        unsafe {
            match A::LEVEL {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => scores::weigh_back::<A, T, T::Wide>(s, g, lse, delta),
                _ => scores::weigh_back::<A, T, [T; LANES]>(s, g, lse, delta),
            }
        }
    }
    /// See [`scores::dot`].
    pub(super) unsafe fn dot<A, T: Number>(x: *const T, y: *const T, steps: [isize; 2], n: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { scores::dot::<A, T>(x, y, steps, n) }
    }
    /// See [`scores::mask`].
    pub(super) unsafe fn mask<A, T: Number>(s: *mut T, added: *const T, shown: *const u8, step: isize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { scores::mask(s, added, shown, step, n) }
    }
}
