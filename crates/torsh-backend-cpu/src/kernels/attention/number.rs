//! The numbers that attention computes in.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512;

use super::scores::{self, LANES, Scores};
use crate::kernels::panels::Panels;
use crate::multiversion;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// The numbers that attention computes in.
pub(super) trait Number: Panels {
    /// See [`scores::weigh`].
    unsafe fn weigh(s: &Scores<Self>, rows: &scores::Rows<Self>, out: *mut Self, width: usize);
    /// See [`scores::finish`].
    unsafe fn finish(rows: &scores::Rows<Self>, n: usize, lse: *mut Self);
    /// See [`scores::weigh_back`].
    unsafe fn weigh_back(s: &Scores<Self>, g: *mut Self, lse: *const Self, delta: *const Self);
    /// See [`scores::dot`].
    unsafe fn dot(x: *const Self, y: *const Self, steps: [isize; 2], n: usize) -> Self;
    /// See [`scores::mask`].
    unsafe fn mask(s: *mut Self, added: *const Self, shown: *const u8, step: isize, n: usize);
}

macro_rules! number {
    ($($t:ident $vector:ty, $weigh:ident $finish:ident $weigh_back:ident $mask:ident $dot:ident;)*) => {$(
        multiversion! {
            pub(super) unsafe fn $weigh<A>(s: &Scores<$t>, rows: &scores::Rows<$t>, out: *mut $t, width: usize) {
                // SAFETY: the caller's promise.
                unsafe {
                    match A::LEVEL {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => scores::weigh::<A, $t, $vector>(s, rows, out, width),
                        _ => scores::weigh::<A, $t, [$t; LANES]>(s, rows, out, width),
                    }
                }
            }
            unsafe fn $finish<A>(rows: &scores::Rows<$t>, n: usize, lse: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { scores::finish::<A, $t>(rows, n, lse) }
            }
            unsafe fn $weigh_back<A>(s: &Scores<$t>, g: *mut $t, lse: *const $t, delta: *const $t) {
                // SAFETY: the caller's promise.
                unsafe {
                    match A::LEVEL {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => scores::weigh_back::<A, $t, $vector>(s, g, lse, delta),
                        _ => scores::weigh_back::<A, $t, [$t; LANES]>(s, g, lse, delta),
                    }
                }
            }
            unsafe fn $dot<A>(x: *const $t, y: *const $t, steps: [isize; 2], n: usize) -> $t {
                // SAFETY: the caller's promise.
                unsafe { scores::dot::<A, $t>(x, y, steps, n) }
            }
            unsafe fn $mask<A>(s: *mut $t, added: *const $t, shown: *const u8, step: isize, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { scores::mask(s, added, shown, step, n) }
            }
        }
        impl Number for $t {
            unsafe fn weigh(s: &Scores<$t>, rows: &scores::Rows<$t>, out: *mut $t, width: usize) {
                // SAFETY: the caller's promise.
                unsafe { $weigh(s, rows, out, width) }
            }
            unsafe fn finish(rows: &scores::Rows<$t>, n: usize, lse: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { $finish(rows, n, lse) }
            }
            unsafe fn weigh_back(s: &Scores<$t>, g: *mut $t, lse: *const $t, delta: *const $t) {
                // SAFETY: the caller's promise.
                unsafe { $weigh_back(s, g, lse, delta) }
            }
            unsafe fn dot(x: *const $t, y: *const $t, steps: [isize; 2], n: usize) -> $t {
                // SAFETY: the caller's promise.
                unsafe { $dot(x, y, steps, n) }
            }
            unsafe fn mask(s: *mut $t, added: *const $t, shown: *const u8, step: isize, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $mask(s, added, shown, step, n) }
            }
        }
    )*};
}
number! {
    f32 __m512, weigh_f32 finish_f32 weigh_back_f32 mask_f32 dot_f32;
    f64 [f64; LANES], weigh_f64 finish_f64 weigh_back_f64 mask_f64 dot_f64;
}
