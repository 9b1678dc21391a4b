//! The inner loops of direct convolutions: tiles of the result, or sums for the weight, that stay in
//! registers over all taps.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use num_complex::Complex;
use torsh_core::DType;

use super::depthwise::{self, DepthwiseRowsFn};
use super::element::ConvElement;
use crate::kernels::matmul::tile::even_parts;
use crate::memory::stream;
use crate::simd::Level;
use crate::simd::Vector;

/// Rows of the result and the padded rows they are made of.
pub(super) struct RowTile<T> {
    /// Where the terms of a pixel are, from its place in `src` on.
    pub terms: *const usize,
    pub count: usize,
    /// The terms' weights, for each plane of the result; what each plane starts from.
    pub weights: *const T,
    pub bias: *const T,
    pub src: *const T,
    pub src_row: usize,
    pub out: *mut T,
    pub out_row: usize,
    pub out_plane: usize,
    pub rows: usize,
    pub width: usize,
}

/// Rows of planes of the output's gradient and the padded rows whose products with it are the weight's.
pub(super) struct Dots<T> {
    /// Where the taps of a pixel are, from its place in `src` on.
    pub terms: *const usize,
    pub src: *const T,
    pub src_row: usize,
    pub grad: *const T,
    pub grad_row: usize,
    pub grad_plane: usize,
    pub rows: usize,
    pub width: usize,
    /// What the taps' products are added to: a vector for each, and the step to those of the next
    /// plane.
    pub sums: *mut T,
    pub sums_plane: usize,
}

/// Tiles of results and some of their terms: channels by vectors of adjacent places.
pub(super) struct ChannelBlock<T> {
    /// How many tiles, each of the channels after those of the last one.
    pub tiles: usize,
    /// Where the terms are, from `src` on.
    pub terms: *const usize,
    pub count: usize,
    pub src: *const T,
    /// The channels' weights, term by term, and the step to those of the next tile.
    pub weights: *const T,
    pub weights_tile: usize,
    pub vectors: usize,
    /// What the sums are added to: for each channel a row, `from_row` apart, or one number.
    pub from: *const T,
    pub from_row: usize,
    pub is_first: bool,
    pub to: *mut T,
    pub to_row: usize,
}

/// Results of some channels, on their way to their rows.
pub(super) struct OutputRows<T> {
    pub from: *const T,
    pub from_row: usize,
    pub to: *mut T,
    pub to_row: usize,
    pub rows: usize,
    pub width: usize,
}

/// Rows of an image, on their way to padded ones.
pub(super) struct PadRows<T> {
    /// The element that goes to place `left` of the first row inside the image, the step to the
    /// next element and to the next row.
    pub src: *const T,
    pub step: usize,
    pub src_row: usize,
    /// How far on is what will be read next, of which as much is asked for; 0 for nothing.
    pub next: isize,
    /// The rows inside the image, of so many.
    pub inside: Range<usize>,
    pub rows: usize,
    /// The places of a row to fill from the image; the others below `width` become zeros.
    pub left: usize,
    pub right: usize,
    pub width: usize,
    pub dst: *mut T,
    pub dst_row: usize,
}

/// The loops of one instruction set.
pub(super) struct Loops<T: 'static> {
    /// Numbers of a vector.
    pub lanes: usize,
    /// The results of so many planes, ascending from one.
    pub row_tiles: &'static [(usize, unsafe fn(&RowTile<T>))],
    /// The sums of so many planes, and of so many taps, both ascending from one.
    pub dots: &'static [(usize, &'static [(usize, unsafe fn(&Dots<T>))])],
    /// The most vectors of a tile's row, and the tiles by their channels, ascending from one.
    pub vectors: usize,
    pub blocks: &'static [(usize, unsafe fn(&ChannelBlock<T>))],
    pub put: unsafe fn(&OutputRows<T>),
    pub pad: unsafe fn(&PadRows<T>),
    /// Writes numbers of two rows in turn, `n` of each.
    pub weave: unsafe fn(usize, [*const T; 2], *mut T),
}

/// The most planes of a strip.
pub(super) const PLANES: usize = 8;

/// The largest of some of the [`Loops`] that takes at most `n` planes, channels or taps.
pub(super) fn fitting<F: Copy>(all: &[(usize, F)], n: usize) -> (usize, F) {
    *all.iter().rev().find(|l| l.0 <= n).unwrap_or(&all[0])
}

/// The most numbers of a vector.
pub(super) const LANES: usize = 16;

/// A tile of `H` rows of `R` planes by `C` vectors; there is room for `room` pixels from the start
/// of the last row's on.
///
/// # Safety
/// As [`row_tile`].
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const H: usize, const C: usize>(
    s: &RowTile<V::T>,
    src: *const V::T,
    out: *mut V::T,
    room: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[[V::splat(*s.bias); C]; H]; R];
        for r in 1..R {
            sums[r] = [[V::splat(*s.bias.add(r)); C]; H];
        }
        for t in 0..s.count {
            let at = src.add(*s.terms.add(t));
            for h in 0..H {
                let at = at.add(h * s.src_row);
                let mut pixels = [V::load(at); C];
                for c in 1..C {
                    pixels[c] = V::load(at.add(c * V::N));
                }
                for r in 0..R {
                    let weight = V::splat(*s.weights.add(r * s.count + t));
                    for c in 0..C {
                        sums[r][h][c] = sums[r][h][c].add_product(weight, pixels[c]);
                    }
                }
            }
        }
        for h in 0..H {
            // Of adjacent rows the start of those below is written later: vectors may reach into it.
            let room = match s.out_row == s.width {
                true => room + (H - 1 - h) * s.width,
                false => room,
            };
            for r in 0..R {
                let out = out.add(r * s.out_plane + h * s.out_row);
                for c in 0..C - 1 {
                    sums[r][h][c].store(out.add(c * V::N));
                }
                let (last, before) = (out.add((C - 1) * V::N), (C - 1) * V::N);
                if room >= C * V::N {
                    sums[r][h][C - 1].store(last);
                } else {
                    sums[r][h][C - 1].store_first(room - before, last);
                }
            }
        }
    }
}

/// Rows of `R` planes of the result, `H` of them at a time.
///
/// # Safety
/// The operands hold what `s` says, `src` whole vectors; the processor has the instruction set of
/// `V`.
#[inline(always)]
unsafe fn row_tile<V: Vector, const R: usize, const H: usize>(s: &RowTile<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if R == 1 && s.width <= V::N {
            return narrow::<V>(s);
        }
        let whole = s.rows / H * H;
        (0..whole).step_by(H).for_each(|y| row::<V, R, H>(s, y));
        (whole..s.rows).for_each(|y| row::<V, R, 1>(s, y));
    }
}

/// [`row_tile`] of one plane whose rows are one vector: up to eight rows at a time, since each sum waits for its last
/// product.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn narrow<V: Vector>(s: &RowTile<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        for (y, rows) in even_parts(s.rows, 8) {
            let (src, out) = (s.src.add(y * s.src_row), s.out.add(y * s.out_row));
            let room = s.width
                + match s.out_row == s.width {
                    true => (s.rows - y - rows) * s.width,
                    false => 0,
                };
            match rows {
                1 => tile::<V, 1, 1, 1>(s, src, out, room),
                2 => tile::<V, 1, 2, 1>(s, src, out, room),
                3 => tile::<V, 1, 3, 1>(s, src, out, room),
                4 => tile::<V, 1, 4, 1>(s, src, out, room),
                5 => tile::<V, 1, 5, 1>(s, src, out, room),
                6 => tile::<V, 1, 6, 1>(s, src, out, room),
                7 => tile::<V, 1, 7, 1>(s, src, out, room),
                _ => tile::<V, 1, 8, 1>(s, src, out, room),
            }
        }
    }
}

/// `H` rows from row `y` on.
///
/// # Safety
/// As [`row_tile`].
#[inline(always)]
unsafe fn row<V: Vector, const R: usize, const H: usize>(s: &RowTile<V::T>, y: usize) {
    let vectors = s.width.div_ceil(V::N);
    let tiles = vectors.div_ceil(3);
    let below = match s.out_row == s.width {
        true => (s.rows - y - H) * s.width,
        false => 0,
    };
    // From the end, since the last vectors may reach into the next rows' first.
    let mut end = vectors;
    for left in (1..=tiles).rev() {
        let some = end.div_ceil(left);
        end -= some;
        let x = end * V::N;
        // SAFETY: the caller's promise.
        unsafe {
            let (src, out) = (s.src.add(y * s.src_row + x), s.out.add(y * s.out_row + x));
            let room = s.width - x + below;
            match some {
                1 => tile::<V, R, H, 1>(s, src, out, room),
                2 => tile::<V, R, H, 2>(s, src, out, room),
                _ => tile::<V, R, H, 3>(s, src, out, room),
            }
        }
    }
}

/// Tiles of `R` channels by `C` vectors.
///
/// # Safety
/// As [`row_tile`].
#[inline(always)]
unsafe fn block<V: Vector, const R: usize, const C: usize>(b: &ChannelBlock<V::T>) {
    let (mut first, mut from, mut to) = (b.weights, b.from, b.to);
    for _ in 0..b.tiles {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[V::splat(std::mem::zeroed()); C]; R];
            let mut weights = first;
            for t in 0..b.count {
                let at = b.src.add(*b.terms.add(t));
                let mut pixels = [V::load(at); C];
                for c in 1..C {
                    pixels[c] = V::load(at.add(c * V::N));
                }
                for r in 0..R {
                    let weight = V::splat(*weights.add(r));
                    for c in 0..C {
                        sums[r][c] = sums[r][c].add_product(weight, pixels[c]);
                    }
                }
                weights = weights.add(R);
            }
            for r in 0..R {
                let (from, to) = (from.add(r * b.from_row), to.add(r * b.to_row));
                for c in 0..C {
                    let sum = match b.is_first {
                        true => V::splat(*from),
                        false => V::load(from.add(c * V::N)),
                    };
                    sum.add(sums[r][c]).store(to.add(c * V::N));
                }
            }
        }
        first = first.wrapping_add(b.weights_tile);
        from = from.wrapping_add(R * b.from_row);
        to = to.wrapping_add(R * b.to_row);
    }
}

/// Copies rows of results.
///
/// # Safety
/// As [`row_tile`].
#[inline(always)]
unsafe fn put<V: Vector>(p: &OutputRows<V::T>) {
    let whole = p.width / V::N * V::N;
    let rest = p.width - whole;
    for row in 0..p.rows {
        // SAFETY: the caller's promise; `from` holds whole vectors.
        unsafe {
            let (from, to) = (p.from.add(row * p.from_row), p.to.add(row * p.to_row));
            let mut i = 0;
            while i < whole {
                V::load(from.add(i)).store(to.add(i));
                i += V::N;
            }
            if rest > 0 {
                V::load(from.add(i)).store_first(rest, to.add(i));
            }
        }
    }
}

/// The sums of `K` taps' products with `R` planes.
///
/// # Safety
/// As [`row_tile`].
#[inline(always)]
unsafe fn dots<V: Vector, const R: usize, const K: usize>(d: &Dots<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        let at = |r: usize, k: usize| d.sums.add(r * d.sums_plane + k * V::N);
        let mut sums = [[V::load(d.sums); K]; R];
        for r in 0..R {
            for k in 0..K {
                sums[r][k] = V::load(at(r, k));
            }
        }
        let whole = d.width / V::N * V::N;
        let rest = d.width - whole;
        for y in 0..d.rows {
            let (src, grad) = (d.src.add(y * d.src_row), d.grad.add(y * d.grad_row));
            let mut x = 0;
            while x < whole {
                let mut g = [V::load(grad.add(x)); R];
                for r in 1..R {
                    g[r] = V::load(grad.add(r * d.grad_plane + x));
                }
                for k in 0..K {
                    let v = V::load(src.add(*d.terms.add(k) + x));
                    for r in 0..R {
                        sums[r][k] = sums[r][k].add_product(g[r], v);
                    }
                }
                x += V::N;
            }
            if rest > 0 {
                // Beyond the row may be what is not finite, and not a number times 0.
                let last = |r: usize| {
                    let grad = grad.add(r * d.grad_plane + x);
                    if (d.rows - 1 - y) * d.grad_row + rest >= V::N {
                        return V::load(grad).keep_first(rest);
                    }
                    let mut some = MaybeUninit::<[V::T; LANES]>::zeroed();
                    std::ptr::copy_nonoverlapping(grad, some.as_mut_ptr().cast(), rest);
                    V::load(some.as_ptr().cast())
                };
                let mut g = [last(0); R];
                for r in 1..R {
                    g[r] = last(r);
                }
                for k in 0..K {
                    let v = V::load(src.add(*d.terms.add(k) + x)).keep_first(rest);
                    for r in 0..R {
                        sums[r][k] = sums[r][k].add_product(g[r], v);
                    }
                }
            }
        }
        for r in 0..R {
            for k in 0..K {
                sums[r][k].store(at(r, k));
            }
        }
    }
}

/// Fills padded rows.
///
/// # Safety
/// As [`row_tile`]; the width is one of whole vectors, or what is written behind a row is written again
/// later.
#[inline(always)]
unsafe fn pad<V: Vector>(p: &PadRows<V::T>)
where
    V::T: ConvElement,
{
    let inside = match p.left < p.right {
        true => p.inside.clone(),
        false => 0..0,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::default());
        let clear = |y: usize| {
            let row = p.dst.add(y * p.dst_row);
            (0..p.width)
                .step_by(V::N)
                .for_each(|i| zero.store(row.add(i)));
        };
        (0..inside.start).for_each(clear);
        match p.step {
            1 => pad_inside::<V, 1>(p, &inside),
            2 => pad_inside::<V, 2>(p, &inside),
            _ => pad_inside::<V, 3>(p, &inside),
        }
        (inside.end..p.rows).for_each(clear);
    }
}

/// Fills padded rows inside the image, where `STEP` says which step it is, or that it is more than 2.
///
/// # Safety
/// As [`pad`].
#[inline(always)]
unsafe fn pad_inside<V: Vector, const STEP: usize>(p: &PadRows<V::T>, inside: &Range<usize>)
where
    V::T: ConvElement,
{
    let n = p.right - p.left;
    let (mut src, mut row) = (p.src, p.dst.wrapping_add(inside.start * p.dst_row));
    for _ in inside.clone() {
        // SAFETY: the caller's promise; nothing behind the last number is read.
        unsafe {
            // The vectors that are not wholly filled from the image.
            let zero = V::splat(V::T::default());
            let mut i = 0;
            while i < p.left {
                zero.store(row.add(i));
                i += V::N;
            }
            if p.right < p.width {
                i = p.right / V::N * V::N;
                while i < p.width {
                    zero.store(row.add(i));
                    i += V::N;
                }
            }
            let dst = row.add(p.left);
            if p.next != 0 {
                stream::prefetch_row(src.wrapping_offset(p.next), n * p.step);
            }
            if STEP > 2 {
                (0..n).for_each(|i| *dst.add(i) = *src.add(i * p.step));
            } else if n < V::N {
                let part = |at: usize, end: usize| {
                    let n = end.saturating_sub(at).min(V::N);
                    V::load_part(src.wrapping_add(at), 0, n, zero)
                };
                let some = match STEP {
                    1 => part(0, n),
                    _ => part(0, 2 * n - 1).deinterleave(part(V::N, 2 * n - 1))[0],
                };
                some.store_first(n, dst);
            } else {
                let vector = |i: usize| match STEP {
                    1 => V::load(src.add(i)),
                    _ => V::load(src.add(2 * i)).even_then_odd(V::load(src.add(2 * i + V::N - 1))),
                };
                i = 0;
                while i + V::N <= n {
                    vector(i).store(dst.add(i));
                    i += V::N;
                }
                vector(n - V::N).store(dst.add(n - V::N));
            }
        }
        src = src.wrapping_add(p.src_row);
        row = row.wrapping_add(p.dst_row);
    }
}

/// Writes numbers of two rows in turn, `n` of each.
///
/// # Safety
/// All are valid for so many, and do not overlap.
#[inline(always)]
unsafe fn weave<T: Copy>(n: usize, [even, odd]: [*const T; 2], to: *mut T) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            *to.wrapping_add(i.wrapping_mul(2)) = *even.wrapping_add(i);
            *to.wrapping_add(i.wrapping_mul(2).wrapping_add(1)) = *odd.wrapping_add(i);
        }
    }
}

/// Numbers of a vector of the loops of a dtype at a level.
pub(super) fn lanes(dtype: DType, level: Level) -> usize {
    match dtype {
        DType::F32 => f32::loops(level).lanes,
        DType::F64 => f64::loops(level).lanes,
        DType::C64 => Complex::<f32>::loops(level).lanes,
        DType::C128 => Complex::<f64>::loops(level).lanes,
        _ => u64::loops(level).lanes,
    }
}

/// A number with loops of its own.
pub(super) trait Direct: Sized + 'static {
    /// The loops of a level.
    fn loops(level: Level) -> &'static Loops<Self>;
    /// The loop of a level for depthwise convolutions of 3 x 3, where there is one.
    fn depthwise(_: Level) -> Option<DepthwiseRowsFn<Self>> {
        None
    }
}

macro_rules! loops {
    ($name:ident, $t:ty, $v:ty, [$($p:literal x $h:literal)*] [$($d:literal: $($k:literal)*;)*] $c:literal [$($r:literal)*] $(, $features:literal)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`row_tile`].
            $(#[target_feature(enable = $features)])?
            unsafe fn row_tile_of<const R: usize, const H: usize>(s: &RowTile<$t>) {
                // SAFETY: the caller's promise.
                unsafe { row_tile::<$v, R, H>(s) }
            }
            /// # Safety
            /// As [`dots`].
            $(#[target_feature(enable = $features)])?
            unsafe fn dots_of<const R: usize, const K: usize>(d: &Dots<$t>) {
                // SAFETY: the caller's promise.
                unsafe { dots::<$v, R, K>(d) }
            }
            /// # Safety
            /// As [`block`].
            #[allow(dead_code, reason = "not all numbers have them")]
            $(#[target_feature(enable = $features)])?
            unsafe fn block_of<const R: usize>(b: &ChannelBlock<$t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match b.vectors {
                        1 => block::<$v, R, 1>(b),
                        2 => block::<$v, R, 2>(b),
                        _ => block::<$v, R, $c>(b),
                    }
                }
            }
            /// # Safety
            /// As [`put`].
            $(#[target_feature(enable = $features)])?
            unsafe fn put_of(p: &OutputRows<$t>) {
                // SAFETY: the caller's promise.
                unsafe { put::<$v>(p) }
            }
            /// # Safety
            /// As [`pad`].
            $(#[target_feature(enable = $features)])?
            unsafe fn pad_of(p: &PadRows<$t>) {
                // SAFETY: the caller's promise.
                unsafe { pad::<$v>(p) }
            }

            /// # Safety
            /// As [`weave`].
            $(#[target_feature(enable = $features)])?
            unsafe fn weave_of(n: usize, from: [*const $t; 2], to: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { weave(n, from, to) }
            }

            pub(super) static LOOPS: Loops<$t> = Loops {
                lanes: <$v as Vector>::N,
                row_tiles: &[$(($p, row_tile_of::<$p, $h>)),*],
                dots: &[$(($d, &[$(($k, dots_of::<$d, $k>)),*])),*],
                vectors: $c,
                blocks: &[$(($r, block_of::<$r>)),*],
                put: put_of,
                pad: pad_of,
                weave: weave_of,
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
loops!(
    avx512_f32,
    f32,
    __m512,
    [1 x 4 2 x 2 4 x 1 8 x 1] [1: 1 3 9 12; 4: 1 3 6;] 3 [1 2 4 8],
    "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2"
);
#[cfg(target_arch = "x86_64")]
loops!(
    avx512_f64,
    f64,
    __m512d,
    [1 x 4 2 x 2 4 x 1 8 x 1] [1: 1 3 9 12; 4: 1 3 6;] 3 [1 2 4 8],
    "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2"
);
#[cfg(target_arch = "x86_64")]
loops!(avx2_f32, f32, __m256, [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 [1 2 4 6], "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
loops!(avx2_f64, f64, __m256d, [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 [1 2 4 6], "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "aarch64")]
loops!(neon_f32, f32, float32x4_t, [1 x 4 2 x 2 4 x 1 8 x 1] [1: 1 3 9 12; 4: 1 3 6;] 3 [1 2 4 8]);
#[cfg(target_arch = "aarch64")]
loops!(neon_f64, f64, float64x2_t, [1 x 4 2 x 2 4 x 1 8 x 1] [1: 1 3 9 12; 4: 1 3 6;] 3 [1 2 4 8]);
loops!(base_f32, f32, [f32; 4], [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 [1 2 4 6]);
loops!(base_f64, f64, [f64; 2], [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 [1 2 4 6]);
loops!(base_c64, Complex<f32>, [Complex<f32>; 2], [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 []);
loops!(base_c128, Complex<f64>, [Complex<f64>; 1], [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 []);
loops!(base_u64, u64, [u64; 2], [1 x 4 2 x 2 4 x 1] [1: 1 3 9 12;] 2 []);

macro_rules! direct {
    ($($t:ty: $avx512:ident $avx2:ident $neon:ident $base:ident $($depthwise:ident)?;)*) => {$(
        impl Direct for $t {
            #[inline]
            fn loops(level: Level) -> &'static Loops<$t> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => &$avx512::LOOPS,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => &$avx2::LOOPS,
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => &$neon::LOOPS,
                    _ => &$base::LOOPS,
                }
            }
            $(fn depthwise(level: Level) -> Option<DepthwiseRowsFn<$t>> {
                depthwise::$depthwise(level)
            })?
        }
    )*};
}
direct! {
    f32: avx512_f32 avx2_f32 neon_f32 base_f32 float32;
    f64: avx512_f64 avx2_f64 neon_f64 base_f64;
    Complex<f32>: base_c64 base_c64 base_c64 base_c64;
    Complex<f64>: base_c128 base_c128 base_c128 base_c128;
    u64: base_u64 base_u64 base_u64 base_u64;
}
