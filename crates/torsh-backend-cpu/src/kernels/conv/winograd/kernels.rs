//! The transforms of 3 x 3 kernels and of their gradients.

use super::points::{POINTS, PRODUCTS, TALLEST, TAPS, kernel, kernel_gradients, load};
use crate::kernels::matmul::panel::{Lines, Square};
use crate::machine::tuning::winograd::{AHEAD, SOON};
use crate::multiversion;
use crate::simd::Arch;
use crate::simd::Vector;

multiversion! {
    /// Writes the transforms of kernels as the register tiles read them.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    #[allow(dead_code, reason = "called by level")]
    pub(super) unsafe fn transform_kernels<L>(x: &Kernels) {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe { kernel_tiles::<L, L::F32>(x) }
    }

    /// Writes the gradients of one output channel's kernels, and says whether all are finite.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    #[allow(dead_code, reason = "called by level")]
    pub(super) unsafe fn transform_sums<L>(x: &KernelGradients) -> bool {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe { kernel_rows::<L, L::F32>(x) }
    }
}

/// Kernels as rows (of the product) by terms.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    pub ptr: *const f32,
    /// The steps between rows and between terms.
    pub row: usize,
    pub term: usize,
    /// Whether the kernels are turned by half a turn.
    pub transposed: bool,
}

/// The transform of the kernels of some rows.
pub(super) struct Kernels {
    /// From the first row on.
    pub weights: Weights,
    /// Rows of a register tile, at most [`TALLEST`], and terms.
    pub rows: usize,
    pub terms: usize,
    /// The first product's panel, with room for [`TALLEST`] numbers behind it, and the step to the
    /// next product's.
    pub to: *mut f32,
    pub product: usize,
}

/// # Safety
/// As [`transform_kernels`].
#[inline(always)]
unsafe fn kernel_tiles<L: Arch, V: Vector<T = f32>>(x: &Kernels) {
    // SAFETY: the caller's promise. What is written beyond the rows of a term is put right by the
    // next ones.
    unsafe {
        let w = x.weights;
        let mut taps = [0.0f32; TAPS * TAPS * TALLEST];
        // Two terms of half as many rows fill a vector, and are adjacent in the panel.
        let together = if 2 * x.rows == V::N { 2 } else { 1 };
        for k in (0..x.terms).step_by(together) {
            let some = together.min(x.terms - k);
            // Those of kernels that come soon, of the next register tile at the end.
            let soon = match k + SOON < x.terms {
                true => w.ptr.wrapping_add((k + SOON) * w.term),
                false => w
                    .ptr
                    .wrapping_add(x.rows * w.row + (k + SOON - x.terms) * w.term),
            };
            for line in 0..some * x.rows {
                let (t, line) = (line / x.rows, line % x.rows);
                V::prefetch_l2(soon.wrapping_add(t * w.term + line * w.row));
            }
            for t in 0..some {
                let from = Lines {
                    ptr: w.ptr.add((k + t) * w.term),
                    line: w.row as isize,
                    term: 1,
                };
                spread_taps::<L>(from, x.rows, taps.as_mut_ptr().add(t * x.rows));
            }
            for v in (0..some * x.rows).step_by(V::N) {
                let mut columns = [[V::splat(0.0); TAPS]; POINTS];
                for j in 0..TAPS {
                    let mut column = [V::splat(0.0); TAPS];
                    for i in 0..TAPS {
                        let tap = match w.transposed {
                            true => 8 - (i * TAPS + j),
                            false => i * TAPS + j,
                        };
                        column[i] = V::load(taps.as_ptr().add(tap * TALLEST + v));
                    }
                    let column = kernel::<V>(column);
                    for i in 0..POINTS {
                        columns[i][j] = column[i];
                    }
                }
                for i in 0..POINTS {
                    let row = kernel::<V>(columns[i]);
                    for j in 0..POINTS {
                        let to = x.to.add((i * POINTS + j) * x.product);
                        let to = to.add(k * x.rows + v);
                        // So many streams are too many for the processor to see.
                        V::prefetch_l2(to.wrapping_add(AHEAD));
                        row[j].store(to);
                    }
                }
            }
        }
    }
}

/// Writes each tap of some lines as a row.
///
/// # Safety
/// The lines have nine taps, and `to` as many rows of [`TALLEST`].
#[inline(always)]
unsafe fn spread_taps<L: Arch>(from: Lines<f32>, lines: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let side = f32::side::<L>();
        let squares = if side == 8 { 8 } else { 0 };
        if squares > 0 {
            for first in (0..lines).step_by(side) {
                let some = (lines - first).min(side);
                f32::transpose(from.from(first), some, to.add(first), TALLEST);
            }
        }
        for tap in squares..TAPS * TAPS {
            for i in 0..lines {
                *to.add(tap * TALLEST + i) = *from.at(i, tap);
            }
        }
    }
}

/// The gradients of one output channel's kernels.
pub(super) struct KernelGradients {
    /// The first product's sums for all input channels, and the step to the next product's.
    pub from: *const f32,
    pub product: usize,
    pub channels: usize,
    pub to: *mut f32,
}

/// # Safety
/// As [`transform_sums`].
#[inline(always)]
unsafe fn kernel_rows<L: Arch, V: Vector<T = f32>>(x: &KernelGradients) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        // Zero as long as everything is finite.
        let mut check = zero;
        for c in (0..x.channels).step_by(V::N) {
            let some = (x.channels - c).min(V::N);
            let mut part = [0.0f32; PRODUCTS * TALLEST];
            if some < V::N {
                for p in 0..PRODUCTS {
                    for i in 0..some {
                        part[p * TALLEST + i] = *x.from.add(p * x.product + c + i);
                    }
                }
            }
            let (from, step) = match some < V::N {
                true => (part.as_ptr(), TALLEST),
                false => (x.from.add(c), x.product),
            };
            let mut rows = [[zero; POINTS]; TAPS];
            for j in 0..POINTS {
                let column = kernel_gradients::<V>(load(from.add(j * step), POINTS * step));
                for i in 0..TAPS {
                    rows[i][j] = column[i];
                }
            }
            let mut taps = [0.0f32; TAPS * TAPS * TALLEST];
            for i in 0..TAPS {
                let row = kernel_gradients::<V>(rows[i]);
                for j in 0..TAPS {
                    check = check.add_product(row[j], zero);
                    row[j].store(taps.as_mut_ptr().add((i * TAPS + j) * TALLEST));
                }
            }
            join_taps::<L>(taps.as_ptr(), some, x.to.add(c * TAPS * TAPS));
        }
        let mut lanes = [0.0f32; TALLEST];
        check.store(lanes.as_mut_ptr());
        lanes.iter().all(|&v| v == 0.0)
    }
}

/// Writes the taps, rows of [`TALLEST`] kernels, kernel by kernel.
///
/// # Safety
/// There are nine rows, and `to` has room for the nine taps of so many kernels.
#[inline(always)]
unsafe fn join_taps<L: Arch>(from: *const f32, kernels: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let side = f32::side::<L>();
        let mut done = 0;
        while side == 8 && kernels - done >= side {
            let rows = Lines {
                ptr: from.add(done),
                line: TALLEST as isize,
                term: 1,
            };
            let to = to.add(done * TAPS * TAPS);
            f32::transpose(rows, side, to, TAPS * TAPS);
            for i in 0..side {
                *to.add(i * TAPS * TAPS + 8) = *from.add(8 * TALLEST + done + i);
            }
            done += side;
        }
        for i in done..kernels {
            for tap in 0..TAPS * TAPS {
                *to.add(i * TAPS * TAPS + tap) = *from.add(tap * TALLEST + i);
            }
        }
    }
}
