//! Products with AVX-512 of few rows by few columns over many terms that are adjacent in both
//! operands, as a small layer's input and weight are: sums of vectors of terms, without panels. To
//! copy them would take a good part of the time.
//!
//! Intrinsics: The sums of four registers are added across lanes together, which no method of `Vector` does.

use std::arch::x86_64::*;

use torsh_core::pool;

use super::operands::{Product, Start};
use super::tile::even_parts;

/// Terms of a vector.
const SIDE: usize = 16;
/// Columns of a tile, whose sums are written together.
const COLUMNS: usize = crate::machine::tuning::matmul::DOT_TILE_COLUMNS;
/// The most rows of a tile.
const ROWS: usize = 6;

/// Computes a product by up to `threads` threads, on which its result does not depend. What it is
/// added to comes from `start`, if that is given.
///
/// # Safety
/// The matrices are valid for their sizes, `out` overlaps neither other, and [`DotTiles`](super::choose::ProductAlgorithm::DotTiles) accepts it.
pub(super) unsafe fn product(x: &Product<f32>, threads: usize, start: Option<&Start<f32>>) {
    let groups = x.n.div_ceil(COLUMNS);
    pool::parallel_parts(groups, threads.min(groups), &|_, some| {
        let (from, to) = (some.start * COLUMNS, (some.end * COLUMNS).min(x.n));
        // SAFETY: the caller's promise; no other thread writes these columns.
        unsafe {
            if let Some(start) = start {
                start.put(x.out, 0..x.m, from..to);
            }
            columns(x, from, to);
        }
    });
}

/// # Safety
/// As [`product`].
unsafe fn columns(x: &Product<f32>, from: usize, to: usize) {
    const OF: [unsafe fn(&Product<f32>, usize, usize); ROWS] = [
        tile::<1>, tile::<2>, tile::<3>, tile::<4>, tile::<5>, tile::<6>,
    ];
    for (row, rows) in even_parts(x.m, ROWS) {
        for column in (from..to).step_by(COLUMNS) {
            // SAFETY: the caller's promise.
            unsafe { OF[rows - 1](x, row, column) };
        }
    }
}

/// `R` rows from `row` on of [`COLUMNS`] columns from `column` on, or of those that are left.
///
/// # Safety
/// As [`product`].
#[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
unsafe fn tile<const R: usize>(x: &Product<f32>, row: usize, column: usize) {
    // The last columns are computed with some of those before, which are not written again.
    let first = column.min(x.n - COLUMNS);
    let written = 0xf << (column - first);
    let mut sums = [[_mm512_setzero_ps(); COLUMNS]; R];
    let mut right = [_mm512_setzero_ps(); COLUMNS];
    // SAFETY: the rows and columns are the operands', and what lies beyond the terms is not read.
    unsafe {
        let (mut a, mut b) = (x.a.at(row, 0).ptr, x.b.at(0, first).ptr);
        let (a_row, b_column) = (x.a.row, x.b.col);
        let mut left = x.k;
        macro_rules! terms {
            ($at:expr) => {
                for c in 0..COLUMNS {
                    right[c] = _mm512_loadu_ps(b.offset(c as isize * b_column).add($at));
                }
                for r in 0..R {
                    let left = _mm512_loadu_ps(a.offset(r as isize * a_row).add($at));
                    for c in 0..COLUMNS {
                        sums[r][c] = _mm512_fmadd_ps(left, right[c], sums[r][c]);
                    }
                }
            };
        }
        // So that the end of most sums is foreseen.
        while left >= 4 * SIDE {
            for u in 0..4 {
                terms!(u * SIDE);
            }
            (a, b, left) = (a.add(4 * SIDE), b.add(4 * SIDE), left - 4 * SIDE);
        }
        while left >= SIDE {
            terms!(0);
            (a, b, left) = (a.add(SIDE), b.add(SIDE), left - SIDE);
        }
        if left > 0 {
            let mask = (1u16 << left) - 1;
            for c in 0..COLUMNS {
                right[c] = _mm512_maskz_loadu_ps(mask, b.offset(c as isize * b_column));
            }
            for r in 0..R {
                let left = _mm512_maskz_loadu_ps(mask, a.offset(r as isize * a_row));
                for c in 0..COLUMNS {
                    sums[r][c] = _mm512_fmadd_ps(left, right[c], sums[r][c]);
                }
            }
        }
        let alpha = _mm_set1_ps(x.alpha);
        for r in 0..R {
            let out = x.out.at(row + r, first).ptr;
            let sum = totals(sums[r]);
            let sum = match x.add {
                true => _mm_fmadd_ps(alpha, sum, _mm_maskz_loadu_ps(written, out)),
                false => _mm_mul_ps(alpha, sum),
            };
            _mm_mask_storeu_ps(out, written, sum);
        }
    }
}

/// The sums of four vectors' numbers, pairwise.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn totals([a, b, c, d]: [__m512; 4]) -> __m128 {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let low = _mm512_shuffle_ps::<0x44>(ab, cd);
    let four = _mm512_add_ps(low, _mm512_shuffle_ps::<0xEE>(ab, cd));
    let half = _mm512_extractf32x8_ps::<1>(four);
    let two = _mm256_add_ps(_mm512_castps512_ps256(four), half);
    _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps::<1>(two))
}

#[cfg(feature = "unit-tests")]
mod tests;
