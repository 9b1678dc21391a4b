//! The passes over scores, compiled for each instruction set.

use super::scores::{self, LANES, ScoreNumber, Scores};
use crate::multiversion;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

multiversion! {
    /// See [`scores::weigh`].
    pub(super) unsafe fn weigh<A, T: ScoreNumber>(s: &Scores<T>, rows: &scores::ScoreRows<T>, out: *mut T, width: usize) {
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
    pub(super) unsafe fn finish<A, T: ScoreNumber>(rows: &scores::ScoreRows<T>, n: usize, lse: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { scores::finish::<A, T>(rows, n, lse) }
    }
    /// See [`scores::weigh_back`].
    pub(super) unsafe fn weigh_back<A, T: ScoreNumber>(s: &Scores<T>, g: *mut T, lse: *const T, delta: *const T) {
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
    pub(super) unsafe fn dot<A, T: ScoreNumber>(x: *const T, y: *const T, steps: [isize; 2], n: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { scores::dot::<A, T>(x, y, steps, n) }
    }
    /// See [`scores::products`].
    pub(super) unsafe fn products<A, T: ScoreNumber>(sizes: [usize; 3], q: *const T, k: (*const T, [isize; 2]), out: (*mut T, usize)) {
        // SAFETY: the caller's promise.
        unsafe { scores::products::<A, T>(sizes, q, k, out) }
    }
    /// See [`scores::sums`].
    pub(super) unsafe fn sums<A, T: ScoreNumber>(weights: &Scores<T>, v: (*const T, [isize; 2]), d: usize, out: (*mut T, usize)) {
        // SAFETY: the caller's promise.
        unsafe { scores::sums::<A, T>(weights, v, d, out) }
    }
    /// See [`scores::mask`].
    pub(super) unsafe fn mask<A, T: ScoreNumber>(s: *mut T, added: *const T, shown: *const u8, step: isize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { scores::mask(s, added, shown, step, n) }
    }
    /// See [`scores::hide`].
    pub(super) unsafe fn hide<A, T: ScoreNumber>(s: (*mut T, usize), bits: *const u64, sizes: [usize; 2]) {
        // SAFETY: the caller's promise.
        unsafe { scores::hide(s, bits, sizes) }
    }
}
