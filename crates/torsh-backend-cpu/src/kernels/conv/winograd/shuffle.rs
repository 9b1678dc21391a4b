//! Pixels of tiles as vectors of tiles, and back.
//!
//! Intrinsics: With AVX2, squares of 4 x 4 are transposed in both halves of a register, which no method of `Vector` does.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::points::{POINTS, SIDE, WIDEST};
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;
use crate::simd::{Arch, Vector};

/// Reads the six pixels of a row of each tile: row `j` of `to` has pixel `j` of all.
///
/// # Safety
/// `from` is valid for six reads at each tile's place, and there are at most [`WIDEST`] tiles.
#[inline(always)]
pub(super) unsafe fn gather<L: Arch>(from: *const f32, tiles: &[usize], to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if L::LEVEL >= Level::Avx2 {
            for (group, at) in tiles.chunks_exact(8).enumerate() {
                gather_eight(from, at, to.add(group * 8));
            }
            return;
        }
        for (group, at) in tiles.chunks_exact(4).enumerate() {
            let to = to.add(group * 4);
            let rows = std::array::from_fn(|i| L::Short32::load(from.add(at[i])));
            for (j, pixels) in L::Short32::transpose::<4>(rows).into_iter().enumerate() {
                pixels.store(to.add(j * WIDEST));
            }
            for j in SIDE..POINTS {
                (0..4).for_each(|i| *to.add(j * WIDEST + i) = *from.add(at[i] + j));
            }
        }
    }
}

/// [`gather`] of eight tiles.
///
/// # Safety
/// As there; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn gather_eight(from: *const f32, tiles: &[usize], to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! quad {
            ($i:literal) => {{
                let low = _mm_loadu_ps(from.add(tiles[$i]));
                _mm256_insertf128_ps::<1>(
                    _mm256_castps128_ps256(low),
                    _mm_loadu_ps(from.add(tiles[$i + 4])),
                )
            }};
        }
        macro_rules! pairs {
            ($i:literal) => {{
                let at = |i: usize| from.add(tiles[i] + SIDE).cast::<f64>();
                let low = _mm_loadh_pd(_mm_load_sd(at($i)), at($i + 1));
                let high = _mm_loadh_pd(_mm_load_sd(at($i + 4)), at($i + 5));
                let both = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high);
                _mm256_castpd_ps(both)
            }};
        }
        let quads = turn([quad!(0), quad!(1), quad!(2), quad!(3)]);
        for j in 0..SIDE {
            _mm256_storeu_ps(to.add(j * WIDEST), quads[j]);
        }
        let (a, b) = (pairs!(0), pairs!(2));
        _mm256_storeu_ps(to.add(4 * WIDEST), _mm256_shuffle_ps::<0x88>(a, b));
        _mm256_storeu_ps(to.add(5 * WIDEST), _mm256_shuffle_ps::<0xDD>(a, b));
    }
}

/// The transpose of the square in each half of the vectors.
///
/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn(x: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (
            _mm256_unpacklo_ps(x[0], x[1]),
            _mm256_unpacklo_ps(x[2], x[3]),
        );
        let (c, d) = (
            _mm256_unpackhi_ps(x[0], x[1]),
            _mm256_unpackhi_ps(x[2], x[3]),
        );
        [
            _mm256_shuffle_ps::<0x44>(a, b),
            _mm256_shuffle_ps::<0xEE>(a, b),
            _mm256_shuffle_ps::<0x44>(c, d),
            _mm256_shuffle_ps::<0xEE>(c, d),
        ]
    }
}

/// Writes the four pixels of each of eight tiles one after the other.
///
/// # Safety
/// `planes` has four rows of [`WIDEST`], and `to` room for 32 numbers.
#[inline(always)]
pub(super) unsafe fn interleave<L: Arch>(planes: *const f32, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if L::LEVEL >= Level::Avx2 {
            let [a, b, c, d] = turn([
                _mm256_loadu_ps(planes),
                _mm256_loadu_ps(planes.add(WIDEST)),
                _mm256_loadu_ps(planes.add(2 * WIDEST)),
                _mm256_loadu_ps(planes.add(3 * WIDEST)),
            ]);
            _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(to.add(8), _mm256_permute2f128_ps::<0x20>(c, d));
            _mm256_storeu_ps(to.add(16), _mm256_permute2f128_ps::<0x31>(a, b));
            _mm256_storeu_ps(to.add(24), _mm256_permute2f128_ps::<0x31>(c, d));
            return;
        }
        for half in [0, 4] {
            let rows = std::array::from_fn(|j| L::Short32::load(planes.add(j * WIDEST + half)));
            for (lane, pixels) in L::Short32::transpose::<4>(rows).into_iter().enumerate() {
                pixels.store(to.add((half + lane) * SIDE));
            }
        }
    }
}

/// Copies so many of a row's four pixels.
///
/// # Safety
/// Both are valid for so many.
#[inline(always)]
pub(super) unsafe fn copy_row(from: *const f32, to: *mut f32, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if columns == SIDE {
            let row = from.cast::<[f32; SIDE]>().read_unaligned();
            to.cast::<[f32; SIDE]>().write_unaligned(row);
            return;
        }
        // Branches, since a copy of so few would be a call.
        for j in 0..SIDE {
            if j < columns {
                *to.add(j) = *from.add(j);
            }
        }
    }
}
