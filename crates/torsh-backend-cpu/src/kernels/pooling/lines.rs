//! Lines of small windows at even distances, padding included: a vector of windows at a time, made of
//! the rows of the image where they are.

use num_traits::{Float, One, Zero};
use torsh_core::{Result, pool};

use super::GRAIN;
use super::axis::{Divisor, PoolAxis, PoolGeometry, Window};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::stream;
use crate::simd::{FloatVector, Vector};
use crate::simd::{Level, level};

use crate::machine::tuning::pooling::{AHEAD, PIECE, RUN_ROWS as ROWS};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Windows of one line: `start` is the column where the first one begins, which may lie in the
/// padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineWindows {
    start: isize,
    span: usize,
    step: usize,
}

impl LineWindows {
    /// The windows of a dimension, where all are so, but for what lies outside of the image.
    pub fn of(axis: &PoolAxis) -> Option<LineWindows> {
        let all = &axis.windows;
        let spans = all.iter().map(|w| w.end - w.start);
        let (first, span) = spans
            .enumerate()
            .max_by_key(|&(i, n)| (n, usize::MAX - i))?;
        // Windows before it are cut at their beginning, those behind it at their end.
        let step = match (all.get(first + 1), first.checked_sub(1)) {
            (Some(next), _) => next.start - all[first].start,
            (None, Some(before)) => all[first].end - all[before].end,
            (None, None) => 1,
        };
        let start = all[first].start as isize - (first * step) as isize;
        let cut = |at: isize| at.clamp(0, axis.input as isize) as usize;
        let even = all.iter().enumerate().all(|(i, w)| {
            let at = start + (i * step) as isize;
            (w.start, w.end) == (cut(at), cut(at + span as isize))
        });
        let small = axis.dilation == 1 && matches!(span, 2 | 3) && matches!(step, 1 | 2);
        (even && small).then_some(LineWindows { start, span, step })
    }
}

/// Lines of windows of one plane.
pub(super) struct PoolingLines<'a, T> {
    /// The image's plane, and its sizes.
    src: *const T,
    height: usize,
    width: usize,
    /// The windows of all lines along the first dimension, and of each line along the second.
    deep: Window,
    down: &'a [Window],
    dilations: [usize; 2],
    start: isize,
    /// How many windows a line has.
    count: usize,
    /// What asks for the image ahead of time, where that is worth it.
    ahead: Option<fn(*const u8, usize)>,
    dst: *mut T,
    /// Numbers that may be written from `dst` on.
    room: usize,
    numbers: Option<&'a WindowCounts<T>>,
}

/// How many elements averages are over.
pub(super) struct WindowCounts<T> {
    divisor: Divisor,
    /// Whether all are powers of 2, so that the product with the reciprocal is the quotient.
    exact: bool,
    /// What the numbers, or their reciprocals, have from each window along the line; whole vectors.
    along: Vec<T>,
}

/// What a window makes of its elements.
trait WindowFold<V: FloatVector<T: Float>> {
    /// What is in the padding.
    fn outside() -> V::T;
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn fold(a: V, b: V) -> V;
    /// What `finish` takes for all windows of a line.
    fn by(l: &PoolingLines<'_, V::T>, down: Window) -> V::T;
    /// The results of the windows from `x` on of a line.
    ///
    /// # Safety
    /// As [`Vector::splat`]; there is such a window.
    unsafe fn finish(l: &PoolingLines<'_, V::T>, all: V, by: V::T, x: usize) -> V;
}

struct WindowMax;
impl<V: FloatVector<T: Float>> WindowFold<V> for WindowMax {
    #[inline(always)]
    fn outside() -> V::T {
        V::T::neg_infinity()
    }
    #[inline(always)]
    unsafe fn fold(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.max_or_nan(b) }
    }
    #[inline(always)]
    fn by(_: &PoolingLines<'_, V::T>, _: Window) -> V::T {
        V::T::one()
    }
    #[inline(always)]
    unsafe fn finish(_: &PoolingLines<'_, V::T>, all: V, _: V::T, _: usize) -> V {
        all
    }
}

struct WindowMean;
impl<V: FloatVector<T: Float>> WindowFold<V> for WindowMean {
    #[inline(always)]
    fn outside() -> V::T {
        V::T::zero()
    }
    #[inline(always)]
    unsafe fn fold(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.add(b) }
    }
    #[inline(always)]
    fn by(l: &PoolingLines<'_, V::T>, down: Window) -> V::T {
        l.numbers
            .map_or(V::T::one(), |n| n.of(n.divisor.across([l.deep, down])))
    }
    #[inline(always)]
    unsafe fn finish(l: &PoolingLines<'_, V::T>, all: V, by: V::T, x: usize) -> V {
        let Some(n) = l.numbers else {
            return all;
        };
        // SAFETY: the caller's promise; whole vectors are there.
        unsafe {
            let by = V::splat(by).mul(V::load(n.along.as_ptr().wrapping_add(x)));
            if n.exact { all.mul(by) } else { all.div(by) }
        }
    }
}

/// A vector of the image's columns from `c` on, folded over `rows`.
///
/// # Safety
/// The rows have `width` columns; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn columns<V: FloatVector<T: Float>, F: WindowFold<V>>(
    rows: &[*const V::T],
    width: usize,
    c: isize,
) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let outside = V::splat(F::outside());
        let Some((row, rest)) = rows.split_first() else {
            return outside;
        };
        if c >= 0 && c as usize + V::N <= width {
            let at = |row: &*const V::T| V::load(row.wrapping_offset(c));
            match rest {
                [next] => return F::fold(at(row), at(next)),
                [next, last] => return F::fold(F::fold(at(row), at(next)), at(last)),
                _ => (),
            }
            let mut all = at(row);
            for row in rest {
                all = F::fold(all, at(row));
            }
            return all;
        }
        let inside = |n: isize| n.clamp(0, V::N as isize) as usize;
        let (first, end) = (inside(-c), inside(width as isize - c));
        if first >= end {
            return outside;
        }
        let mut all = V::load_part(row.wrapping_offset(c), first, end, outside);
        for row in rest {
            let next = V::load_part(row.wrapping_offset(c), first, end, outside);
            all = F::fold(all, next);
        }
        all
    }
}

/// Lines of windows of `K` columns that are `S` apart, 1 or 2.
///
/// # Safety
/// The operands hold what `l` says; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn lines<V: FloatVector<T: Float>, F: WindowFold<V>, const K: usize, const S: usize>(
    l: &PoolingLines<'_, V::T>,
) {
    let mut rows = [l.src; ROWS];
    for (y, down) in l.down.iter().enumerate() {
        let mut taken = 0;
        for z in (l.deep.start..l.deep.end).step_by(l.dilations[0]) {
            for y in (down.start..down.end).step_by(l.dilations[1]) {
                rows[taken] = l.src.wrapping_add((z * l.height + y) * l.width);
                taken += 1;
            }
        }
        let rows = &rows[..taken];
        if let (Some(ask), Some(row)) = (l.ahead, rows.last()) {
            let next = row.wrapping_byte_add(AHEAD);
            ask(next.cast(), S * l.width * size_of::<V::T>());
        }
        let by = F::by(l, *down);
        let (dst, room) = (l.dst.wrapping_add(y * l.count), l.room - y * l.count);
        // SAFETY: the caller's promise.
        unsafe {
            let mut here = columns::<V, F>(rows, l.width, l.start);
            for x in (0..l.count).step_by(V::N) {
                let c = l.start + (x * S) as isize;
                let after = columns::<V, F>(rows, l.width, c + V::N as isize);
                let all = if S == 1 {
                    let mut all = F::fold(here, here.shifted::<1>(after));
                    if K == 3 {
                        all = F::fold(all, here.shifted::<2>(after));
                    }
                    here = after;
                    all
                } else {
                    let [even, odd] = here.deinterleave(after);
                    let mut all = F::fold(even, odd);
                    here = columns::<V, F>(rows, l.width, c + 2 * V::N as isize);
                    if K == 3 {
                        all = F::fold(all, even.shifted::<1>(here));
                    }
                    all
                };
                let all = F::finish(l, all, by, x);
                // What is written behind a line's end the next line writes anew.
                if x + V::N <= room {
                    all.store(dst.wrapping_add(x));
                } else {
                    all.store_first(room - x, dst.wrapping_add(x));
                }
            }
        }
    }
}

/// Computes lines.
type LinesFn<T> = unsafe fn(&PoolingLines<'_, T>);

/// A number with loops for small windows.
pub(super) trait Small: Float + Send + Sync + 'static {
    /// The maxima of a window's columns, so many and so far apart.
    fn maxima(level: Level, columns: LineWindows) -> LinesFn<Self>;
    /// The means.
    fn means(level: Level, columns: LineWindows) -> LinesFn<Self>;
}

macro_rules! loops {
    ($name:ident, $v:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`super::lines`].
            $(#[target_feature(enable = $features)])?
            unsafe fn lines<F: WindowFold<$v>, const K: usize, const S: usize>(
                l: &PoolingLines<'_, <$v as Vector>::T>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::lines::<$v, F, K, S>(l) }
            }

            pub(super) fn of<F: WindowFold<$v>>(c: LineWindows) -> LinesFn<<$v as Vector>::T> {
                match (c.span, c.step) {
                    (2, 1) => lines::<F, 2, 1>,
                    (2, _) => lines::<F, 2, 2>,
                    (_, 1) => lines::<F, 3, 1>,
                    _ => lines::<F, 3, 2>,
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
loops!(
    avx512_f32,
    __m512,
    "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2"
);
#[cfg(target_arch = "x86_64")]
loops!(avx2_f32, __m256, "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "aarch64")]
loops!(neon_f32, float32x4_t);
loops!(base_f32, [f32; 4]);

impl Small for f32 {
    fn maxima(level: Level, columns: LineWindows) -> LinesFn<f32> {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512_f32::of::<WindowMax>(columns),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2_f32::of::<WindowMax>(columns),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => neon_f32::of::<WindowMax>(columns),
            _ => base_f32::of::<WindowMax>(columns),
        }
    }
    fn means(level: Level, columns: LineWindows) -> LinesFn<f32> {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512_f32::of::<WindowMean>(columns),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2_f32::of::<WindowMean>(columns),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => neon_f32::of::<WindowMean>(columns),
            _ => base_f32::of::<WindowMean>(columns),
        }
    }
}

impl<T: Float> WindowCounts<T> {
    fn new(g: &PoolGeometry, divisor: Divisor) -> WindowCounts<T> {
        let power = |n: f64| n.log2().fract() == 0.0;
        let [dz, dy, dx] = &g.axes;
        let exact = dx.windows.iter().all(|&w| power(divisor.along(w)))
            && dz.windows.iter().all(|&z| {
                let across = |&y| power(divisor.across([z, y]));
                dy.windows.iter().all(across)
            });
        let mut numbers = WindowCounts {
            divisor,
            exact,
            along: Vec::new(),
        };
        let whole = dx.windows.len().next_multiple_of(LANES);
        let along = dx.windows.iter().map(|&w| numbers.of(divisor.along(w)));
        numbers.along = along.collect();
        numbers.along.resize(whole, T::one());
        numbers
    }

    /// A number, or its reciprocal. Windows without elements need none but 0.
    #[inline(always)]
    fn of(&self, n: f64) -> T {
        let n = T::from(if n == 0.0 { 1.0 } else { n }).unwrap_or_else(T::one);
        if self.exact { n.recip() } else { n }
    }
}

/// The most numbers of a vector.
const LANES: usize = 16;

/// Pools windows of few columns and at most [`ROWS`] rows, whose maxima are wanted, or their means over
/// `divisor`; past the caches or not.
pub(super) fn pool<T: Small>(
    g: &PoolGeometry,
    (columns, streamed): (LineWindows, bool),
    divisor: Option<Divisor>,
    src: Ptr<T>,
    dst: Ptr<T>,
) -> Result<()> {
    run((level(), streamed), g, columns, divisor, src, dst)
}

/// Pools with the loops of a level, past the caches or not.
fn run<T: Small>(
    (level, streamed): (Level, bool),
    g: &PoolGeometry,
    columns: LineWindows,
    divisor: Option<Divisor>,
    src: Ptr<T>,
    dst: Ptr<T>,
) -> Result<()> {
    let [dz, dy, dx] = &g.axes;
    let numbers = divisor.map(|divisor| WindowCounts::new(g, divisor));
    let f = match divisor {
        None => T::maxima(level, columns),
        Some(_) => T::means(level, columns),
    };
    let (size, count) = (g.in_pixels(), dx.windows.len());
    let (deep, high) = (dz.windows.len(), dy.windows.len());
    let units = g.planes * deep * high;
    let grain = GRAIN.div_ceil((g.reads() / units.max(1)).max(1));
    let parts = pool::chunk_count(units, grain);
    // Lines that are computed at once, on their way past the caches.
    let most = match streamed {
        true => (PIECE / count).max(1),
        false => high,
    };
    let each = if streamed { most * count + LANES } else { 0 };
    let scratch = Scratch::<T>::new(parts * each)?;
    let scratch = Ptr::new(scratch.ptr());
    // An image in the shared cache is near enough to come into the first level at once.
    let far = g.planes * size * size_of::<T>() >= stream::FAR;
    let ahead = match streamed {
        true => Some(stream::prefetch_far()),
        false => far.then_some(stream::prefetch_row as fn(*const u8, usize)),
    };
    pool::parallel_parts(units, parts, &|part, range| {
        let piece = scratch.at((part * each) as isize);
        let mut unit = range.start;
        while unit < range.end {
            let (plane, y) = (unit / high, unit % high);
            let lines = most.min(high - y).min(range.end - unit);
            let n = lines * count;
            let to = dst.at((unit * count) as isize);
            let l = PoolingLines {
                src: src.at((plane / deep * size) as isize),
                height: dy.input,
                width: dx.input,
                deep: dz.windows[plane % deep],
                down: &dy.windows[y..y + lines],
                dilations: [dz.dilation, dy.dilation],
                start: columns.start,
                count,
                ahead,
                dst: if streamed { piece } else { to },
                room: if streamed {
                    each
                } else {
                    (range.end - unit) * count
                },
                numbers: numbers.as_ref(),
            };
            // SAFETY: windows lie inside their plane, the piece is this part's, and lines of the
            // output that follow are written later, by this part.
            unsafe {
                f(&l);
                if streamed {
                    stream::copy(piece.cast(), to.cast(), n * size_of::<T>());
                }
            }
            unit += lines;
        }
        if streamed {
            stream::fence();
        }
    });
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
