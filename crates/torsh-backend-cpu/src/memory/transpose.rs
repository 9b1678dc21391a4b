//! Copies that change which dimension is the inner one, in tiles that fit the caches.

pub(crate) mod choose;
#[cfg(target_arch = "x86_64")]
mod x86;

use torsh_core::pool;

use crate::machine::choice::pick;
use crate::machine::tuning::blocks::GRAIN;
use crate::machine::tuning::transpose::{LEAST, NARROW, SIDE};
use crate::memory::element::{Addresses, Packed, by_size};
use crate::memory::stream::{self, LINE};
use crate::memory::strided::StridedLoop;
use choose::{TransposeAlgorithm, TransposeProblem};

/// A loop over an output and an input where the output is contiguous in the inner dimension and
/// the input in another one.
pub(crate) struct TransposePlan {
    /// The dimension in which the input is contiguous.
    dim: usize,
}

impl TransposePlan {
    /// A plan for the loop, if it is of that kind and large enough to gain.
    pub fn new(l: &StridedLoop, size: usize) -> Option<TransposePlan> {
        let own = size as isize;
        if l.stride(0, 0) != own || l.stride(0, 1) == own || l.inner() < LEAST {
            return None;
        }
        let dim = (1..l.ndim()).find(|&d| l.stride(d, 1) == own && l.shape()[d] >= LEAST)?;
        Some(TransposePlan { dim })
    }

    /// Copies all elements.
    ///
    /// # Safety
    /// `dst` and `src` must be valid for every element of the loop, and not overlap.
    pub unsafe fn run(&self, l: &StridedLoop, dst: *mut u8, src: *const u8, size: usize) {
        let (rows, columns) = (l.inner(), l.shape()[self.dim]);
        let others: usize = (1..l.ndim())
            .filter(|&d| d != self.dim)
            .map(|d| l.shape()[d])
            .product();
        let (from, to) = (l.stride(0, 1), l.stride(self.dim, 0));
        let problem = TransposeProblem {
            size,
            rows,
            columns,
            others,
            whole_lines: (1..l.ndim()).all(|d| l.stride(d, 0) % LINE as isize == 0)
                && dst.addr().is_multiple_of(LINE),
        };
        let algorithm = pick::<TransposeAlgorithm>(&problem, pool::num_threads());
        let streams = algorithm == TransposeAlgorithm::TilesStreamed;
        let side = if streams { NARROW } else { SIDE };
        let (most, unit) = ((side / size).max(16), (LINE / size).max(16));
        // Tiles of as even a size as can be.
        let even = |n: usize| n.div_ceil(n.div_ceil(most)).next_multiple_of(unit);
        let (high, wide) = (even(rows), even(columns));
        let (down, across) = (rows.div_ceil(high), columns.div_ceil(wide));
        // Where the output's lines are no whole cache lines, tiles that share one are one thread's.
        let shares = !streams && to % LINE as isize != 0;
        let tile_elements = rows.min(high) * columns.min(wide);
        let kernel = block(size, streams);
        let ends = Addresses([dst, src as *mut u8]);
        pool::parallel_for(
            others * down * across,
            (GRAIN / 2 / tile_elements).max(1),
            &|range| {
                for at in range {
                    let (mut rest, inside) = (at / (down * across), at % (down * across));
                    // Neighbouring tiles share the input's lines.
                    let (i, j) = match shares {
                        true => (inside % down * high, inside / down * wide),
                        false => (inside / across * high, inside % across * wide),
                    };
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
                        TransposeSide {
                            ptr: src,
                            step: from,
                        },
                        TransposeSide { ptr: dst, step: to },
                    );
                    let (high, wide) = ((rows - i).min(high), (columns - j).min(wide));
                    if !streams {
                        // The next tile's lines.
                        for row in 0..high {
                            for line in (0..wide * size).step_by(LINE) {
                                stream::prefetch(src.at(row, wide, size).wrapping_add(line));
                            }
                        }
                    }
                    // SAFETY: the tile is within the loop's elements.
                    unsafe { tile(size, kernel, src, dst, [high, wide], streams) };
                }
                if streams {
                    stream::fence();
                }
            },
        );
    }
}

/// Copies `rows` short lines of `columns` elements, `from` bytes apart, to `columns` lines of `rows`
/// elements without gaps.
///
/// # Safety
/// Both must be valid for these elements of `size` bytes, and not overlap.
pub(crate) unsafe fn turn(
    size: usize,
    src: *const u8,
    from: isize,
    dst: *mut u8,
    [rows, columns]: [usize; 2],
) {
    let src = TransposeSide {
        ptr: src.cast_mut(),
        step: from,
    };
    let dst = TransposeSide {
        ptr: dst,
        step: (rows * size) as isize,
    };
    // SAFETY: the caller's promise.
    unsafe { tile(size, block(size, false), src, dst, [rows, columns], false) };
}

/// A block: `dst[j][i] = src[i][j]`, with the steps of the rows in bytes.
type TransposeBlockFn = unsafe fn(*const u8, isize, *mut u8, isize);

/// The block kernel for elements of `size` bytes, and its rows and columns. It writes past the
/// caches if `streams`, to lines that start at multiples of [`LINE`].
#[cfg(target_arch = "x86_64")]
fn block(size: usize, streams: bool) -> Option<(usize, usize, TransposeBlockFn)> {
    let wide = crate::simd::Level::Avx2.is_available();
    match size {
        1 => Some((8, 8, x86::block8_of_1)),
        2 => Some((8, 8, x86::block8_of_2)),
        4 if wide && streams => Some((16, 8, x86::lines_of_4::<true>)),
        4 if wide => Some((16, 8, x86::lines_of_4::<false>)),
        8 if wide && streams => Some((8, 4, x86::lines_of_8::<true>)),
        8 if wide => Some((8, 4, x86::lines_of_8::<false>)),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn block(_: usize, _: bool) -> Option<(usize, usize, TransposeBlockFn)> {
    None
}

/// One side of a tile: its first element, and the step in bytes between its rows.
#[derive(Clone, Copy)]
struct TransposeSide {
    ptr: *mut u8,
    step: isize,
}

impl TransposeSide {
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
    kernel: Option<(usize, usize, TransposeBlockFn)>,
    src: TransposeSide,
    dst: TransposeSide,
    [rows, columns]: [usize; 2],
    streams: bool,
) {
    let (mut whole_rows, mut whole_columns) = (0, 0);
    if let Some((high, wide, f)) = kernel {
        let overlaps = !streams && rows >= high && columns >= wide;
        (whole_rows, whole_columns) = match overlaps {
            true => (rows, columns),
            false => (rows / high * high, columns / wide * wide),
        };
        let block = |i: usize, j: usize| {
            // SAFETY: the block is within the tile.
            unsafe { f(src.at(i, j, size), src.step, dst.at(j, i, size), dst.step) };
        };
        if streams {
            for i in (0..whole_rows).step_by(high) {
                for j in (0..whole_columns).step_by(wide) {
                    // The next tile's lines; the first level may have one place for all of them.
                    for row in i..i + high {
                        stream::prefetch_second(src.at(row, columns + j, size));
                    }
                    block(i, j);
                }
            }
        } else {
            // The last blocks may overlap those before, where they then write the same.
            for j in (0..whole_columns).step_by(wide) {
                for i in (0..whole_rows).step_by(high) {
                    block(i.min(rows - high), j.min(columns - wide));
                }
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

#[cfg(feature = "unit-tests")]
mod tests {
    use torsh_core::{DType, Kernel, View, attrs::NONE};

    use crate::testing::run;

    /// Copies the transposes of `batch` matrices into rows `gap` elements longer than they need be.
    fn check<T: Copy + Default + PartialEq>(
        dtype: DType,
        [batch, rows, columns]: [usize; 3],
        gap: usize,
        f: impl Fn(usize) -> T,
    ) {
        let n = batch * rows * columns;
        let mut src: Vec<T> = (0..n).map(f).collect();
        let long = rows + gap;
        let mut out = vec![T::default(); batch * columns * long + 64];
        let start = out.as_ptr().align_offset(64);
        let shape = [batch, columns, rows];
        let (c, l) = (columns as isize, long as isize);
        // SAFETY: the buffers of the test outlive the call.
        let view = |ptr, strides| unsafe { View::new(ptr, dtype, &shape, strides) };
        let [to, from] = [[c * l, l, 1], [rows as isize * c, 1, c]];
        let to = view(out[start..].as_mut_ptr().cast(), &to);
        let from = view(src.as_mut_ptr().cast(), &from);
        run(Kernel::Copy, dtype, &[to], &[from], NONE).expect("copies");
        for b in 0..batch {
            for j in 0..columns {
                for i in 0..long {
                    let got = out[start + (b * columns + j) * long + i];
                    let at = (b * rows + i) * columns + j;
                    let want = if i < rows { src[at] } else { T::default() };
                    assert!(got == want, "{shape:?} {b} {j} {i}");
                }
            }
        }
    }

    #[torsh_macros::unit_test]
    fn every_size_and_shape() {
        for rows in [4, 15, 16, 17, 33, 64, 100] {
            for columns in [4, 7, 8, 31, 64, 65, 130] {
                for gap in [0, 3] {
                    let shape = [2, rows, columns];
                    check::<u8>(DType::U8, shape, gap, |i| (i * 7 % 251) as u8);
                    check::<i16>(DType::I16, shape, gap, |i| i as i16 + 1);
                    check::<f32>(DType::F32, shape, gap, |i| i as f32 + 1.0);
                    check::<i64>(DType::I64, shape, gap, |i| i as i64 + 1);
                    check::<[f64; 2]>(DType::C128, shape, gap, |i| [i as f64, 1.0]);
                }
            }
        }
    }

    #[torsh_macros::unit_test]
    fn results_larger_than_the_caches() {
        check::<f32>(DType::F32, [2, 1040, 2023], 0, |i| i as f32);
        check::<f32>(DType::F32, [2, 1040, 2023], 8, |i| i as f32);
        check::<i64>(DType::I64, [1, 1032, 2047], 0, |i| i as i64);
    }
}
