//! Copies that change which dimension is the inner one, in tiles that fit the caches.

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
                    // SAFETY: the tile is within the loop's elements.
                    unsafe {
                        tile(
                            size,
                            src,
                            from,
                            dst,
                            to,
                            (rows - i).min(TILE),
                            (columns - j).min(TILE),
                        )
                    };
                }
            },
        );
    }
}

/// `dst[j][i] = src[i][j]` for `i < rows`, `j < columns`; `from` is the input's step in `i`, `to`
/// the output's in `j`.
///
/// # Safety
/// Both must be valid for the tile.
unsafe fn tile(
    size: usize,
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
    rows: usize,
    columns: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { by_size!(size, tile_of(src, from, dst, to, rows, columns)) }
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
        for i in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                *(dst.wrapping_offset(to * j as isize) as *mut Packed<T>).wrapping_add(i) = *s;
            }
            s = s.wrapping_byte_offset(from);
        }
    }
}
