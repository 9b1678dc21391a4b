//! The transforms of one row or column of a tile.
//!
//! The points are 0, `±A`, `±B` and infinity, where `A` is the root of 1/2 and `B` of 2. Their
//! powers stay near 1, so that errors are less than a half of those with 0, `±1`, `±2` and
//! infinity.

use std::f32::consts::{FRAC_1_SQRT_2 as A, SQRT_2 as B};

use crate::simd::Vector;

/// Outputs along a side of a tile.
pub(super) const SIDE: usize = 4;
/// Inputs along a side of a tile, and points.
pub(super) const POINTS: usize = 6;
/// Products of a tile.
pub(super) const PRODUCTS: usize = POINTS * POINTS;
/// The most tiles of a panel.
pub(super) const WIDEST: usize = 32;
/// The most rows of a register tile, in whole vectors.
pub(super) const TALLEST: usize = 16;
/// Weights of a kernel's row.
pub(super) const TAPS: usize = 3;

/// Values of a tile's row (of inputs) at the points.
///
/// # Safety
/// The processor has the vectors' instruction set; here and below.
#[inline(always)]
pub(super) unsafe fn inputs<V: Vector<T = f32>>(d: [V; POINTS]) -> [V; POINTS] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, minus_a) = (V::splat(A), V::splat(-A));
        let (b, minus_b) = (V::splat(B), V::splat(-B));
        let (even, odd) = (
            d[4].add_product(d[2], V::splat(-2.0)),
            d[3].add_product(d[1], V::splat(-2.0)),
        );
        let (even2, odd2) = (
            d[4].add_product(d[2], V::splat(-0.5)),
            d[3].add_product(d[1], V::splat(-0.5)),
        );
        let epilogue = V::splat(-2.5);
        [
            d[0].add(d[4]).add_product(d[2], epilogue),
            even.add_product(odd, a),
            even.add_product(odd, minus_a),
            even2.add_product(odd2, b),
            even2.add_product(odd2, minus_b),
            d[1].add(d[5]).add_product(d[3], epilogue),
        ]
    }
}

/// Values of a kernel's row at the points.
///
/// # Safety
/// As [`inputs`].
#[inline(always)]
pub(super) unsafe fn kernel<V: Vector<T = f32>>(g: [V; TAPS]) -> [V; POINTS] {
    // SAFETY: the caller's promise.
    unsafe {
        let (ka, kb) = (-2.0 / 3.0, 1.0 / 6.0);
        let even = g[0].mul(V::splat(ka)).add_product(g[2], V::splat(ka / 2.0));
        let even2 = g[0].mul(V::splat(kb)).add_product(g[2], V::splat(kb * 2.0));
        [
            g[0],
            even.add_product(g[1], V::splat(ka * A)),
            even.add_product(g[1], V::splat(-ka * A)),
            even2.add_product(g[1], V::splat(kb * B)),
            even2.add_product(g[1], V::splat(-kb * B)),
            g[2],
        ]
    }
}

/// Outputs of a tile's row from the products at the points.
///
/// # Safety
/// As [`inputs`].
#[inline(always)]
pub(super) unsafe fn outputs<V: Vector<T = f32>>(m: [V; POINTS]) -> [V; SIDE] {
    // SAFETY: the caller's promise.
    unsafe {
        let (two, half) = (V::splat(2.0), V::splat(0.5));
        let minus = V::splat(-1.0);
        let (sum, sum2) = (m[1].add(m[2]), m[3].add(m[4]));
        let (odd, odd2) = (m[1].add_product(m[2], minus), m[3].add_product(m[4], minus));
        [
            m[0].add(sum).add(sum2),
            odd.add_product(odd2, two).mul(V::splat(A)),
            sum2.mul(two).add_product(sum, half),
            m[5].add_product(odd, V::splat(A / 2.0))
                .add_product(odd2, V::splat(4.0 * A)),
        ]
    }
}

/// What the gradients of a tile's row (of outputs) are at the points: the transpose of [`outputs`].
///
/// # Safety
/// As [`inputs`].
#[inline(always)]
pub(super) unsafe fn gradients<V: Vector<T = f32>>(y: [V; SIDE]) -> [V; POINTS] {
    // SAFETY: the caller's promise.
    unsafe {
        let (two, half) = (V::splat(2.0), V::splat(0.5));
        let even = y[0].add_product(y[2], half);
        let odd = y[1].add_product(y[3], half);
        let even2 = y[0].add_product(y[2], two);
        let odd2 = y[1].add_product(y[3], two);
        [
            y[0],
            even.add_product(odd, V::splat(A)),
            even.add_product(odd, V::splat(-A)),
            even2.add_product(odd2, V::splat(B)),
            even2.add_product(odd2, V::splat(-B)),
            y[3],
        ]
    }
}

/// The gradients of a kernel's row from those at the points: the transpose of [`kernel`].
///
/// # Safety
/// As [`inputs`].
#[inline(always)]
pub(super) unsafe fn kernel_gradients<V: Vector<T = f32>>(s: [V; POINTS]) -> [V; TAPS] {
    // SAFETY: the caller's promise.
    unsafe {
        let (ka, kb) = (-2.0 / 3.0, 1.0 / 6.0);
        let minus = V::splat(-1.0);
        let (sum, sum2) = (s[1].add(s[2]), s[3].add(s[4]));
        let (odd, odd2) = (s[1].add_product(s[2], minus), s[3].add_product(s[4], minus));
        [
            s[0].add_product(sum, V::splat(ka))
                .add_product(sum2, V::splat(kb)),
            odd.mul(V::splat(ka * A))
                .add_product(odd2, V::splat(kb * B)),
            s[5].add_product(sum, V::splat(ka / 2.0))
                .add_product(sum2, V::splat(kb * 2.0)),
        ]
    }
}

/// Six vectors, `step` apart.
///
/// # Safety
/// As [`inputs`]; `from` is valid for these reads.
#[inline(always)]
pub(super) unsafe fn load<V: Vector<T = f32>>(from: *const f32, step: usize) -> [V; POINTS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut all = [V::splat(0.0); POINTS];
        for i in 0..POINTS {
            all[i] = V::load(from.add(i * step));
        }
        all
    }
}
