//! Products of rows with panels that lie in the cache.
//!
//! A panel is `width` columns of the right operand: `width` adjacent numbers for each of the `k`
//! terms. Six rows of one panel are summed in registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512;

use super::operand::{self, Rows};
use super::scores::{self, LANES, Scores};
use crate::arch::{Arch, Level};
use crate::matmul::panel::Square;
use crate::multiversion;
use crate::scalar::Real;
use crate::vmath::VMath;

/// Rows that are summed at once.
pub(super) const ROWS: usize = 6;

/// Which products count where a query sees no later keys: row `r` of the scores reaches column
/// `r + d`.
#[derive(Clone, Copy)]
pub(super) enum Band {
    /// All.
    All,
    /// Columns of the result up to the row's reach.
    Columns(isize),
    /// Terms up to the row's reach.
    Terms(isize),
    /// Terms from the one on that reaches the row: the left operand is transposed.
    Since(isize),
}

/// `c = a b` or `c += a b`; `c` has rows of whole panels.
#[derive(Clone, Copy)]
pub(super) struct Product<T> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const T,
    /// From row to row and from term to term of `a`.
    pub steps: [isize; 2],
    pub b: *const T,
    /// From panel to panel.
    pub panel: usize,
    pub c: *mut T,
    pub ld: usize,
    pub add: bool,
    pub band: Band,
}

/// `M` rows of one panel.
///
/// # Safety
/// The operands must hold what the sizes say.
#[inline(always)]
unsafe fn tile<A: Arch, T: Real, const M: usize, const N: usize>(
    k: usize,
    a: *const T,
    [row, step]: [isize; 2],
    b: *const T,
    c: *mut T,
    ld: usize,
    add: bool,
) {
    let mut sums = [[T::ZERO; N]; M];
    let (mut a, mut b) = (a, b);
    for _ in 0..k {
        // SAFETY: the caller's promise.
        unsafe {
            let right = *b.cast::<[T; N]>();
            for r in 0..M {
                let x = *a.wrapping_offset((r as isize).wrapping_mul(row));
                for l in 0..N {
                    sums[r][l] = x.fma::<A>(right[l], sums[r][l]);
                }
            }
        }
        a = a.wrapping_offset(step);
        b = b.wrapping_add(N);
    }
    for r in 0..M {
        let c = c.wrapping_add(r.wrapping_mul(ld)).cast::<[T; N]>();
        // SAFETY: the caller's promise.
        unsafe {
            if add {
                let old = *c;
                for l in 0..N {
                    sums[r][l] = sums[r][l] + old[l];
                }
            }
            *c = sums[r];
        }
    }
}

/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn multiply<A: Arch, T: Real, const N: usize>(p: &Product<T>) {
    let mut first = 0;
    let (mut b, mut c) = (p.b, p.c);
    while first < p.n {
        let mut r = 0;
        while r < p.m {
            let rows = (p.m - r).min(ROWS);
            let (mut low, mut high) = (0, p.k);
            let reach = |d: isize| (r + rows) as isize + d;
            match p.band {
                Band::All => {}
                Band::Columns(d) if first as isize >= reach(d) => high = 0,
                Band::Columns(_) => {}
                Band::Terms(d) => high = p.k.min(reach(d).max(0) as usize),
                Band::Since(d) => low = p.k.min((r as isize - d).max(0) as usize),
            }
            // Scores beyond the reach are never read, sums of no terms are.
            let skip = high == 0 && matches!(p.band, Band::Columns(_));
            if !skip {
                let a =
                    p.a.wrapping_offset(r as isize * p.steps[0] + low as isize * p.steps[1]);
                let b = b.wrapping_add(low * N);
                let c = c.wrapping_add(r * p.ld);
                let k = high - low;
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        1 => tile::<A, T, 1, N>(k, a, p.steps, b, c, p.ld, p.add),
                        2 => tile::<A, T, 2, N>(k, a, p.steps, b, c, p.ld, p.add),
                        3 => tile::<A, T, 3, N>(k, a, p.steps, b, c, p.ld, p.add),
                        4 => tile::<A, T, 4, N>(k, a, p.steps, b, c, p.ld, p.add),
                        5 => tile::<A, T, 5, N>(k, a, p.steps, b, c, p.ld, p.add),
                        _ => tile::<A, T, 6, N>(k, a, p.steps, b, c, p.ld, p.add),
                    }
                }
            }
            r += ROWS;
        }
        first += N;
        b = b.wrapping_add(p.panel);
        c = c.wrapping_add(N);
    }
}

/// The numbers that attention computes in.
pub(super) trait Number: Real + Square {
    /// Columns of a panel.
    fn width(level: Level) -> usize;
    /// e to the power of a number that is not above 0 by more than rounding.
    fn exponential<A: Arch>(self) -> Self;
    /// See [`multiply`].
    unsafe fn product(p: &Product<Self>);
    /// See [`scores::weigh`].
    unsafe fn weigh(s: &Scores<Self>, rows: &scores::Rows<Self>, out: *mut Self, width: usize);
    /// See [`scores::finish`].
    unsafe fn finish(rows: &scores::Rows<Self>, n: usize, lse: *mut Self);
    /// See [`scores::weigh_back`].
    unsafe fn weigh_back(s: &Scores<Self>, g: *mut Self, lse: *const Self, delta: *const Self);
    /// See [`scores::dot`].
    unsafe fn dot(x: *const Self, y: *const Self, steps: [isize; 2], n: usize) -> Self;
    /// See [`operand::pack_columns`].
    unsafe fn pack_columns(rows: &Rows<Self>, width: usize, to: *mut Self);
    /// See [`operand::copy_rows`].
    unsafe fn copy_rows(rows: &Rows<Self>, to: *mut Self, steps: [isize; 2]);
    /// See [`scores::mask`].
    unsafe fn mask(s: *mut Self, added: *const Self, shown: *const u8, step: isize, n: usize);
}

macro_rules! number {
    ($($t:ident $vector:ty, $exp:path, $base:literal $fused:literal $avx2:literal $avx512:literal, $product:ident $weigh:ident $finish:ident $weigh_back:ident $mask:ident $dot:ident $pack_columns:ident $copy_rows:ident;)*) => {$(
        multiversion! {
            pub(super) unsafe fn $product<A>(p: &Product<$t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match (A::LEVEL, A::FMA) {
                        (Level::Avx512, _) => multiply::<A, $t, $avx512>(p),
                        (Level::Avx2, _) => multiply::<A, $t, $avx2>(p),
                        (Level::Base, true) => multiply::<A, $t, $fused>(p),
                        (Level::Base, false) => multiply::<A, $t, $base>(p),
                    }
                }
            }
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
            unsafe fn $pack_columns<A>(rows: &Rows<$t>, width: usize, to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { operand::pack_columns(rows, width, to) }
            }
            unsafe fn $copy_rows<A>(rows: &Rows<$t>, to: *mut $t, steps: [isize; 2]) {
                // SAFETY: the caller's promise.
                unsafe { operand::copy_rows(rows, to, steps) }
            }
            unsafe fn $mask<A>(s: *mut $t, added: *const $t, shown: *const u8, step: isize, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { scores::mask(s, added, shown, step, n) }
            }
        }
        impl Number for $t {
            fn width(level: Level) -> usize {
                match level {
                    Level::Avx512 => $avx512,
                    Level::Avx2 => $avx2,
                    Level::Base if crate::arch::Base::FMA => $fused,
                    Level::Base => $base,
                }
            }
            #[inline(always)]
            fn exponential<A: Arch>(self) -> $t {
                $exp(self)
            }
            unsafe fn product(p: &Product<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $product(p) }
            }
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
            unsafe fn pack_columns(rows: &Rows<$t>, width: usize, to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { $pack_columns(rows, width, to) }
            }
            unsafe fn copy_rows(rows: &Rows<$t>, to: *mut $t, steps: [isize; 2]) {
                // SAFETY: the caller's promise.
                unsafe { $copy_rows(rows, to, steps) }
            }
            unsafe fn mask(s: *mut $t, added: *const $t, shown: *const u8, step: isize, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $mask(s, added, shown, step, n) }
            }
        }
    )*};
}
number! {
    f32 __m512, VMath::exp_low::<A>, 8 16 16 32, product_f32 weigh_f32 finish_f32 weigh_back_f32 mask_f32 dot_f32 pack_columns_f32 copy_rows_f32;
    f64 [f64; LANES], crate::softmax::exp64::<A>, 4 8 8 16, product_f64 weigh_f64 finish_f64 weigh_back_f64 mask_f64 dot_f64 pack_columns_f64 copy_rows_f64;
}
