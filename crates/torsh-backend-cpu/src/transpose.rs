//! Copies that change which dimension is the inner one, in tiles that fit the caches.

#[cfg(target_arch = "x86_64")]
mod x86;

use torsh_core::pool;

use crate::blocks::{GRAIN, Packed, by_size};
use crate::copy::Addresses;
use crate::strided::StridedLoop;

/// The side of a tile, in elements.
const TILE: usize = 32;

/// A loop over an output and an input where the output is contiguous in the inner dimension and
/// the input in another one.
pub(crate) struct Plan {
    /// The dimension in which the input is contiguous.
    dim: usize,
}

impl Plan {
    /// A plan for the loop, if it is of that kind and large enough to gain.
    pub fn new(l: &StridedLoop, size: usize) -> Option<Plan> {
        if l.stride(0, 0) != size as isize || l.stride(0, 1) == size as isize || l.inner() < 4 {
            return None;
        }
        let dim = (1..l.ndim()).find(|&d| l.stride(d, 1) == size as isize && l.shape()[d] >= 4)?;
        Some(Plan { dim })
    }

    /// Copies all elements.
    ///
    /// # Safety
    /// `dst` and `src` must be valid for every element of the loop, and not overlap.
    pub unsafe fn run(&self, l: &StridedLoop, dst: *mut u8, src: *const u8, size: usize) {
        let (rows, columns) = (l.inner(), l.shape()[self.dim]);
        let (down, across) = (rows.div_ceil(TILE), columns.div_ceil(TILE));
        let others: usize = (1..l.ndim())
            .filter(|&d| d != self.dim)
            .map(|d| l.shape()[d])
            .product();
        let (from, to) = (l.stride(0, 1), l.stride(self.dim, 0));
        let tile_elements = rows.min(TILE) * columns.min(TILE);
        let kernel = block(size);
        let ends = Addresses([dst, src as *mut u8]);
        pool::parallel_for(
            others * down * across,
            (GRAIN / tile_elements).max(1),
            &|range| {
                for at in range {
                    let (mut rest, inside) = (at / (down * across), at % (down * across));
                    // Neighbouring tiles share the output's lines.
                    let (i, j) = (inside % down * TILE, inside / down * TILE);
                    let [mut dst, mut src] = *ends.get();
                    for d in (1..l.ndim()).filter(|&d| d != self.dim) {
                        let index = (rest % l.shape()[d]) as isize;
                        rest /= l.shape()[d];
                        dst = dst.wrapping_offset(l.stride(d, 0) * index);
                        src = src.wrapping_offset(l.stride(d, 1) * index);
                    }
                    dst = dst.wrapping_offset(to * j as isize).wrapping_add(i * size);
                    src = src
                        .wrapping_offset(from * i as isize)
                        .wrapping_add(j * size);
                    let (src, dst) = (
                        Side {
                            ptr: src,
                            step: from,
                        },
                        Side { ptr: dst, step: to },
                    );
                    let (high, wide) = ((rows - i).min(TILE), (columns - j).min(TILE));
                    // SAFETY: the tile is within the loop's elements.
                    unsafe { tile(size, kernel, src, dst, high, wide) };
                }
            },
        );
    }
}

/// A square block: `dst[j][i] = src[i][j]`, with the steps of the rows in bytes.
type BlockFn = unsafe fn(*const u8, isize, *mut u8, isize);

/// The block kernel for elements of `size` bytes, and its side.
#[cfg(target_arch = "x86_64")]
fn block(size: usize) -> Option<(usize, BlockFn)> {
    let wide = crate::arch::Level::Avx2.is_available();
    match size {
        1 => Some((8, x86::block8_of_1)),
        2 => Some((8, x86::block8_of_2)),
        4 if wide => Some((8, x86::block8_of_4)),
        8 if wide => Some((4, x86::block4_of_8)),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn block(_: usize) -> Option<(usize, BlockFn)> {
    None
}

/// One side of a tile: its first element, and the step in bytes between its rows.
#[derive(Clone, Copy)]
struct Side {
    ptr: *mut u8,
    step: isize,
}

impl Side {
    fn at(self, row: usize, column: usize, size: usize) -> *mut u8 {
        self.ptr
            .wrapping_offset(self.step * row as isize)
            .wrapping_add(column * size)
    }
}

/// `dst[j][i] = src[i][j]` for `i < rows`, `j < columns`.
///
/// # Safety
/// Both must be valid for the tile, and the kernel be one for elements of `size` bytes.
unsafe fn tile(
    size: usize,
    kernel: Option<(usize, BlockFn)>,
    src: Side,
    dst: Side,
    rows: usize,
    columns: usize,
) {
    let (mut whole_rows, mut whole_columns) = (0, 0);
    if let Some((side, f)) = kernel {
        (whole_rows, whole_columns) = (rows / side * side, columns / side * side);
        for j in (0..whole_columns).step_by(side) {
            for i in (0..whole_rows).step_by(side) {
                // SAFETY: the block is within the tile.
                unsafe { f(src.at(i, j, size), src.step, dst.at(j, i, size), dst.step) };
            }
        }
    }
    // What the blocks leave: the last columns, then the last rows of the others.
    let parts = [
        (0, whole_columns, rows, columns - whole_columns),
        (whole_rows, 0, rows - whole_rows, whole_columns),
    ];
    for (i, j, rows, columns) in parts {
        let (s, d) = (src.at(i, j, size), dst.at(j, i, size));
        // SAFETY: the part is within the tile.
        unsafe { by_size!(size, tile_of(s, src.step, d, dst.step, rows, columns)) }
    }
}

unsafe fn tile_of<T: Copy>(
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
    rows: usize,
    columns: usize,
) {
    for j in 0..columns {
        let mut s = (src as *const Packed<T>).wrapping_add(j);
        let d = dst.wrapping_offset(to * j as isize) as *mut Packed<T>;
        for i in 0..rows {
            // SAFETY: the caller's promise.
            unsafe { *d.wrapping_add(i) = *s };
            s = s.wrapping_byte_offset(from);
        }
    }
}
