//! Depthwise convolutions of 3 x 3 that keep the image's size, from the image's rows where they are.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use torsh_core::machine::Machine;
use torsh_core::{DType, Result, pool};

use super::GRAIN;
use super::choose::ConvProblem;
use super::columns::Geometry;
use super::direct_loops::Direct;
use super::element::ConvElement;
use super::epilogue::Epilogue;
use crate::machine::tuning::conv_depthwise::{AHEAD, BAND};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;
use crate::memory::stream;
use crate::scalar::Real;
use crate::simd::FloatVector;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::Vector;
use crate::simd::{Level, level};

/// The most rows that are summed at once, so that each row of the image is read for up to three of
/// them.
const ROWS: usize = 4;

/// Some rows of one plane of the result.
pub(super) struct DepthwiseRows<T> {
    /// The image's plane, and its sizes, which are the result's.
    src: *const T,
    height: usize,
    width: usize,
    /// The plane's nine weights, and what its sums start from.
    weights: *const T,
    bias: T,
    /// A row of zeros.
    zeros: *const T,
    /// The first row of the result, where it goes, and how many rows there are.
    first: usize,
    dst: *mut T,
    rows: usize,
    /// Whether to ask for the image ahead of time.
    ahead: bool,
}

/// The sums of `H` rows of `C` vectors.
type RowSums<V, const H: usize, const C: usize> = [[V; C]; H];

/// Adds to the sums what row `R` of the image gives them, counted from the one before the first of
/// them. Each result takes its taps in order.
///
/// # Safety
/// `row` has `width` numbers; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn add_row<V: FloatVector, const H: usize, const C: usize, const R: usize>(
    sums: &mut RowSums<V, H, C>,
    weights: &[V; 9],
    row: *const V::T,
    width: usize,
    x: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::ZERO);
        let row = row.add(x);
        let left = width - x;
        let mut here = [zero; C];
        for c in 0..C - 1 {
            here[c] = V::load(row.add(c * V::N));
        }
        // The last vector of the tile may be the last one of the row.
        let last = left - (C - 1) * V::N;
        let (row_last, mut after) = (row.add((C - 1) * V::N), zero);
        here[C - 1] = match last >= V::N {
            true => V::load(row_last),
            false => V::load_part(row_last, 0, last, zero),
        };
        if last > V::N {
            after = V::splat(*row_last.add(V::N));
        }
        let mut before = zero;
        if x > 0 {
            before = V::splat(*row.sub(1));
        }
        for k in 0..3 {
            if R < k || R - k >= H {
                continue;
            }
            let sums = &mut sums[R - k];
            for c in 0..C {
                let previous = if c == 0 { before } else { here[c - 1] };
                let tap = here[c].shifted_in(previous);
                sums[c] = sums[c].add_product(weights[3 * k], tap);
            }
            for c in 0..C {
                sums[c] = sums[c].add_product(weights[3 * k + 1], here[c]);
            }
            for c in 0..C {
                let next = if c + 1 == C { after } else { here[c + 1] };
                let tap = here[c].shifted::<1>(next);
                sums[c] = sums[c].add_product(weights[3 * k + 2], tap);
            }
        }
    }
}

/// A tile of `H` rows from row `y` of the result on, and `C` vectors from column `x` on.
///
/// # Safety
/// As [`band`].
#[inline(always)]
unsafe fn tile<V: FloatVector, const H: usize, const C: usize>(
    b: &DepthwiseRows<V::T>,
    weights: &[V; 9],
    y: usize,
    x: usize,
) {
    let row = |r: usize| match (1..=b.height).contains(&(b.first + y + r)) {
        true => b.src.wrapping_add((b.first + y + r - 1) * b.width),
        false => b.zeros,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::splat(b.bias); C]; H];
        macro_rules! rows {
            ($($r:literal)*) => {$(
                if $r < H + 2 {
                    add_row::<V, H, C, $r>(&mut sums, weights, row($r), b.width, x);
                }
            )*};
        }
        rows!(0 1 2 3 4 5);
        let last = b.width - x - (C - 1) * V::N;
        for h in 0..H {
            let to = b.dst.add((y + h) * b.width + x);
            for c in 0..C - 1 {
                sums[h][c].store(to.add(c * V::N));
            }
            let to = to.add((C - 1) * V::N);
            match last >= V::N {
                true => sums[h][C - 1].store(to),
                false => sums[h][C - 1].store_first(last, to),
            }
        }
    }
}

/// The results of a band, by tiles of `H` rows and at most `C` vectors.
///
/// # Safety
/// The operands hold what `b` says; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn band<V: FloatVector, const H: usize, const C: usize>(b: &DepthwiseRows<V::T>) {
    let vectors = b.width.div_ceil(V::N);
    // SAFETY: the caller's promise.
    unsafe {
        let mut weights = [V::splat(b.bias); 9];
        for (i, w) in weights.iter_mut().enumerate() {
            *w = V::splat(*b.weights.add(i));
        }
        let mut y = 0;
        while y < b.rows {
            let high = if y + H <= b.rows { H } else { 1 };
            if b.ahead {
                let at = b.src.wrapping_add((b.first + y) * b.width);
                stream::prefetch_row(at.wrapping_byte_add(AHEAD), high * b.width);
            }
            let mut from = 0;
            for left in (1..=vectors.div_ceil(C)).rev() {
                let some = (vectors - from).div_ceil(left);
                let x = from * V::N;
                match (high > 1, some) {
                    (true, 1) => tile::<V, H, 1>(b, &weights, y, x),
                    (true, 2) => tile::<V, H, 2>(b, &weights, y, x),
                    (true, 3) => tile::<V, H, 3>(b, &weights, y, x),
                    (true, _) => tile::<V, H, C>(b, &weights, y, x),
                    (_, 1) => tile::<V, 1, 1>(b, &weights, y, x),
                    (_, 2) => tile::<V, 1, 2>(b, &weights, y, x),
                    (_, 3) => tile::<V, 1, 3>(b, &weights, y, x),
                    _ => tile::<V, 1, C>(b, &weights, y, x),
                }
                from += some;
            }
            y += high;
        }
    }
}

/// Computes a band.
pub(super) type DepthwiseRowsFn<T> = unsafe fn(&DepthwiseRows<T>);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! bands {
    ($name:ident, $v:ty, $rows:literal $vectors:literal $(, $features:literal)?) => {
        /// # Safety
        /// As [`band`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $name(b: &DepthwiseRows<<$v as Vector>::T>) {
            // SAFETY: the caller's promise.
            unsafe { band::<$v, $rows, $vectors>(b) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
bands!(
    avx512,
    __m512,
    4 4,
    "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2"
);
#[cfg(target_arch = "x86_64")]
bands!(avx2, __m256, 2 3, "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "aarch64")]
bands!(neon, float32x4_t, 4 4);

/// The loop of a level for float32; none where the usual one is better.
pub(super) fn float32(level: Level) -> Option<DepthwiseRowsFn<f32>> {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(avx512),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(avx2),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => Some(neon),
        _ => None,
    }
}

/// Whether a forward convolution is depthwise, of 3 x 3 kernels with stride 1, keeps the image's size,
/// and has vectors of its dtype.
pub(super) fn accepts(p: &ConvProblem, machine: &Machine) -> bool {
    let g = &p.g;
    let same = g.input == g.output && g.input[0] == 1;
    let small = g.kernel == [1, 3, 3] && g.stride == [1; 3] && g.dilation == [1; 3];
    let apart = g.in_channels == 1 && g.out_channels == 1 && g.groups > 1;
    let vectors = match p.dtype {
        DType::F32 => f32::depthwise(machine.level).is_some(),
        DType::F64 => f64::depthwise(machine.level).is_some(),
        _ => false,
    };
    same && small && apart && vectors && g.padding == [0, 1, 1]
}

/// Computes a problem that [is accepted](accepts).
pub(super) fn forward<T: ConvElement>(
    g: &Geometry,
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let f = T::depthwise(level()).ok_or_else(missing)?;
    let planes = g.images * g.groups;
    let streamed = stream::pays(planes * g.out_pixels() * size_of::<T>() / 2);
    run(g, (f, streamed), operands, epilogue)
}

/// All results, past the caches or not.
fn run<T: ConvElement>(
    g: &Geometry,
    (f, streamed): (DepthwiseRowsFn<T>, bool),
    [input, weight, out]: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let [_, height, width] = g.input;
    let size = height * width;
    let most = (BAND / width / ROWS * ROWS).clamp(ROWS, height.max(ROWS));
    let bands = height.div_ceil(most);
    let tasks = g.images * g.groups * bands;
    let parts = pool::chunk_count(g.work(), GRAIN).clamp(1, tasks.max(1));
    // Each part's band, and a row of zeros for all.
    let each = if streamed {
        (most * width).next_multiple_of(64)
    } else {
        0
    };
    let scratch = Scratch::<T>::new(parts * each + width)?;
    let (memory, zeros) = (Ptr::new(scratch.ptr()), parts * each);
    for i in 0..width {
        // SAFETY: there is room for so many.
        unsafe { *memory.at((zeros + i) as isize) = T::default() };
    }
    let ahead = g.images * g.groups * size * size_of::<T>() >= stream::FAR;
    pool::parallel_parts(tasks, parts, &|part, range| {
        let piece = memory.at((part * each) as isize);
        for task in range {
            let (plane, first) = (task / bands, task % bands * most);
            let group = (plane % g.groups) as isize;
            let rows = most.min(height - first);
            let to = out.at((plane * size + first * width) as isize);
            // SAFETY: planes, rows and groups are the operands'; each part has its piece, and no two
            // bands the same results.
            unsafe {
                let dst = if streamed { piece } else { to };
                f(&DepthwiseRows {
                    src: input.at((plane * size) as isize),
                    height,
                    width,
                    weights: weight.at(group * 9),
                    bias: epilogue.bias.map_or(T::default(), |b| *b.at(group)),
                    zeros: memory.at(zeros as isize),
                    first,
                    dst,
                    rows,
                    ahead,
                });
                let pixels = first * width..(first + rows) * width;
                epilogue.finish(plane..plane + 1, pixels, dst, size);
                if streamed {
                    let bytes = rows * width * size_of::<T>();
                    stream::copy(piece.cast(), to.cast(), bytes);
                }
            }
        }
        if streamed {
            stream::fence();
        }
    });
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
