//! One dimension of a resampling.
//!
//! Intrinsics: Neighbours are looked up by permutations of two registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use num_traits::Float;
use torsh_core::pool;

use super::{GRAIN, Step};
use crate::machine::tuning::resample::{AHEAD, PIECE};
use crate::memory::dense::Ptr;
use crate::memory::stream;
use crate::multiversion;

/// Results of a row that are chosen from registers together.
const LANES: usize = 16;

/// A number that rows are blended in.
pub(super) trait Blend: Float + Default + Send + Sync + 'static {
    /// The row of results that [`pairs`] made `pairs` of; whether there is this fast way.
    fn blend_pairs(_pairs: &[BlendPairs<Self>], _from: &[Self], _to: &mut [Self]) -> bool {
        false
    }
    /// [`blend_two`] past the caches; whether there is this fast way.
    fn stream_two(_dst: &mut [Self], _a: &[Self], _wa: Self, _b: &[Self], _wb: Self) -> bool {
        false
    }
}

/// Adjacent results of a row that are each made of two of `2 * LANES` adjacent elements.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "no vectors choose from it")
)]
pub(super) struct BlendPairs<T> {
    first: usize,
    /// By the first and the second: their places behind the first element, and their weights.
    places: [[u32; LANES]; 2],
    weights: [[T; LANES]; 2],
}

/// The results of a row by [`LANES`], where every one is made of two elements that are near.
pub(super) fn pairs<T: Blend>(items: &[(usize, T)]) -> Option<Vec<BlendPairs<T>>> {
    let (items, _) = items.as_chunks::<2>();
    let block = |block: &[[(usize, T); 2]]| {
        let first = block.as_flattened().iter().map(|item| item.0).min()?;
        let mut pairs = BlendPairs {
            first,
            places: [[0; LANES]; 2],
            weights: [[T::zero(); LANES]; 2],
        };
        for (lane, pair) in block.iter().enumerate() {
            for (which, &(i, w)) in pair.iter().enumerate() {
                pairs.places[which][lane] = u32::try_from(i - first).ok()?;
                pairs.weights[which][lane] = w;
            }
        }
        let near = pairs
            .places
            .as_flattened()
            .iter()
            .all(|&i| i < 2 * LANES as u32);
        near.then_some(pairs)
    };
    items.chunks(LANES).map(block).collect()
}

impl Blend for f32 {
    #[cfg(target_arch = "x86_64")]
    fn blend_pairs(pairs: &[BlendPairs<f32>], from: &[f32], to: &mut [f32]) -> bool {
        if crate::simd::level() < crate::simd::Level::Avx512 {
            return false;
        }
        // SAFETY: the processor has AVX-512.
        unsafe { permuted(pairs, from, to) };
        true
    }

    #[cfg(target_arch = "x86_64")]
    fn stream_two(dst: &mut [f32], a: &[f32], wa: f32, b: &[f32], wb: f32) -> bool {
        if crate::simd::level() < crate::simd::Level::Avx512 {
            return false;
        }
        // SAFETY: the processor has AVX-512.
        unsafe { streamed(dst, a, wa, b, wb) };
        true
    }
}
impl Blend for f64 {}

multiversion! {
    /// `dst = wa a + wb b`.
    fn blend_two<A, T: Blend>(dst: &mut [T], a: &[T], wa: T, b: &[T], wb: T) {
        for ((d, &a), &b) in dst.iter_mut().zip(a).zip(b) {
            *d = wa * a + wb * b;
        }
    }

    /// `dst = w a`, or `dst += w a` where `add`.
    fn blend_one<A, T: Blend>(dst: &mut [T], a: &[T], w: T, add: bool) {
        if add {
            for (d, &a) in dst.iter_mut().zip(a) {
                *d = *d + w * a;
            }
        } else {
            for (d, &a) in dst.iter_mut().zip(a) {
                *d = w * a;
            }
        }
    }
}

/// [`Blend::blend_pairs`] by permutations of two registers.
///
/// # Safety
/// The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn permuted(pairs: &[BlendPairs<f32>], from: &[f32], to: &mut [f32]) {
    let n = to.len();
    for (index, block) in pairs.iter().enumerate() {
        let near = from.as_ptr().wrapping_add(block.first);
        let left = from.len() - block.first;
        let at = index * LANES;
        let [lo, hi] = &block.places;
        let [of_lo, of_hi] = &block.weights;
        // SAFETY: only lanes of the slices are read and written.
        unsafe {
            let (near, far) = if left >= 2 * LANES {
                (_mm512_loadu_ps(near), _mm512_loadu_ps(near.add(LANES)))
            } else {
                let far = ones(left.saturating_sub(LANES));
                let far = _mm512_maskz_loadu_ps(far, near.wrapping_add(LANES));
                (_mm512_maskz_loadu_ps(ones(left), near), far)
            };
            let lo = _mm512_permutex2var_ps(near, _mm512_loadu_si512(lo.as_ptr().cast()), far);
            let hi = _mm512_permutex2var_ps(near, _mm512_loadu_si512(hi.as_ptr().cast()), far);
            let lo = _mm512_mul_ps(lo, _mm512_loadu_ps(of_lo.as_ptr()));
            let hi = _mm512_mul_ps(hi, _mm512_loadu_ps(of_hi.as_ptr()));
            let to = to.as_mut_ptr().wrapping_add(at);
            match n - at < LANES {
                false => _mm512_storeu_ps(to, _mm512_add_ps(lo, hi)),
                true => _mm512_mask_storeu_ps(to, ones(n - at), _mm512_add_ps(lo, hi)),
            }
        }
    }
}

/// A mask of the first `n` lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ones(n: usize) -> u16 {
    ((1u32 << n.min(LANES)) - 1) as u16
}

/// [`Blend::stream_two`] by whole cache lines.
///
/// # Safety
/// The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn streamed(dst: &mut [f32], a: &[f32], wa: f32, b: &[f32], wb: f32) {
    let n = dst.len().min(a.len()).min(b.len());
    let (to, a, b) = (dst.as_mut_ptr(), a.as_ptr(), b.as_ptr());
    let (wa, wb) = (_mm512_set1_ps(wa), _mm512_set1_ps(wb));
    // What comes before the first line and behind the last goes the usual way.
    let head = to.align_offset(64).min(n);
    let end = head + (n - head) / LANES * LANES;
    // SAFETY: only lanes of the slices are read and written; lines are aligned.
    unsafe {
        let part = |at: usize, n: usize| {
            let (mask, to) = (ones(n), to.add(at));
            let a = _mm512_mul_ps(wa, _mm512_maskz_loadu_ps(mask, a.add(at)));
            let b = _mm512_mul_ps(wb, _mm512_maskz_loadu_ps(mask, b.add(at)));
            _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(a, b));
        };
        if head > 0 {
            part(0, head);
        }
        let mut at = head;
        while at < end {
            let a = _mm512_mul_ps(wa, _mm512_loadu_ps(a.add(at)));
            let b = _mm512_mul_ps(wb, _mm512_loadu_ps(b.add(at)));
            _mm512_stream_ps(to.add(at), _mm512_add_ps(a, b));
            at += LANES;
        }
        if end < n {
            part(end, n - end);
        }
    }
}

/// `dst = wa a + wb b`, past the caches, by way of `memory`.
///
/// # Safety
/// `dst` is valid for as many writes.
unsafe fn stream_two<T: Blend>(
    dst: *mut T,
    [a, b]: [&[T]; 2],
    [wa, wb]: [T; 2],
    memory: &mut [T; PIECE],
) {
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts_mut(dst, a.len()) };
    if T::stream_two(all, a, wa, b, wb) {
        return;
    }
    for (piece, (a, b)) in a.chunks(PIECE).zip(b.chunks(PIECE)).enumerate() {
        let buffer = &mut memory[..a.len()];
        blend_two(buffer, a, wa, b, wb);
        // SAFETY: the caller's promise.
        unsafe {
            let to = dst.add(piece * PIECE).cast();
            stream::copy(buffer.as_ptr().cast(), to, size_of_val(a));
        }
    }
}

/// Resamples one dimension of one plane, in parallel unless called from a thread of the pool.
///
/// # Safety
/// `src` must hold `outer * input * inner` elements, `dst` as many as the step has results; where
/// `streamed` these are written past the caches.
pub(super) unsafe fn pass<T: Blend>(step: &Step<T>, src: *mut T, dst: *mut T, streamed: bool) {
    let (src, dst) = (Ptr::new(src), Ptr::new(dst));
    let (table, n) = (&step.table, step.table.len());
    if step.inner == 1 {
        let items = table.items.len().max(n).max(1);
        pool::parallel_for(step.outer, GRAIN.div_ceil(items), &|range| {
            for row in range {
                // SAFETY: the caller's promise; rows are disjoint.
                let (from, to) = unsafe {
                    let from = src.at((row * step.input) as isize);
                    let to = dst.at((row * n) as isize);
                    (
                        std::slice::from_raw_parts(from, step.input),
                        std::slice::from_raw_parts_mut(to, n),
                    )
                };
                line(step, from, to);
            }
        });
        return;
    }
    let inner = step.inner;
    let each = inner * (table.items.len() / n.max(1)).max(1);
    pool::parallel_for(step.outer * n, GRAIN.div_ceil(each), &|range| {
        let mut memory = [T::zero(); PIECE];
        for unit in range {
            let (outer, o) = (unit / n, unit % n);
            // SAFETY: the caller's promise; rows are disjoint.
            let out = unsafe {
                let out = dst.at((unit * inner) as isize);
                std::slice::from_raw_parts_mut(out, inner)
            };
            let row = |i: usize| {
                // SAFETY: positions of the table lie inside the input.
                unsafe {
                    let at = (outer * step.input + i) * inner;
                    std::slice::from_raw_parts(src.at(at as isize), inner)
                }
            };
            match *table.of(o) {
                [] => out.fill(T::zero()),
                [(i, w), (j, v)] if streamed => {
                    // SAFETY: the output's row.
                    unsafe { stream_two(out.as_mut_ptr(), [row(i), row(j)], [w, v], &mut memory) };
                }
                [(i, w), (j, v), ref rest @ ..] => {
                    blend_two(out, row(i), w, row(j), v);
                    rest.iter()
                        .for_each(|&(i, w)| blend_one(out, row(i), w, true));
                }
                [(i, w)] => blend_one(out, row(i), w, false),
            }
        }
        if streamed {
            stream::fence();
        }
    });
}

/// Resamples a row of the last dimension.
#[inline]
fn line<T: Blend>(step: &Step<T>, from: &[T], to: &mut [T]) {
    let table = &step.table;
    if let Some(pairs) = &step.pairs
        && T::blend_pairs(pairs, from, to)
    {
        return;
    }
    match step.uniform {
        Some(2) => along::<T, 2>(&table.items, from, to),
        Some(4) => along::<T, 4>(&table.items, from, to),
        _ => {
            for (o, out) in to.iter_mut().enumerate() {
                let sum = |s: T, &(i, w): &(usize, T)| s + from[i] * w;
                *out = table.of(o).iter().fold(T::zero(), sum);
            }
        }
    }
}

/// Whether [`both`] is for two steps: the last dimension's, and one whose results are made of two
/// adjacent rows each.
pub(super) fn adjacent<T: Blend>(along: &Step<T>, down: &Step<T>) -> bool {
    let (items, _) = down.table.items.as_chunks::<2>();
    let near = |[(i, _), (j, _)]: &[(usize, T); 2]| i.abs_diff(*j) <= 1;
    along.inner == 1
        && along.table.len() == down.inner
        && along.outer == down.outer * down.input
        && down.uniform == Some(2)
        && items.iter().all(near)
}

/// The parts that are worth threads of their own in [`both`].
pub(super) fn parts_of_both<T: Blend>(along: &Step<T>, down: &Step<T>) -> usize {
    let each = along.table.items.len() + 2 * down.inner;
    let rows = down.outer * down.table.len();
    pool::chunk_count(rows, GRAIN.div_ceil(each.max(1)))
}

/// Elements of memory that each part needs in [`both`].
pub(super) fn memory_of_both<T: Blend>(down: &Step<T>) -> usize {
    2 * down.inner.next_multiple_of(LANES)
}

/// Resamples two dimensions of one plane, row by row of the result: the rows that one is made of stay
/// in the first level of the cache.
///
/// # Safety
/// As [`pass`]; the steps are [`adjacent`], and `memory` has room for [`memory_of_both`] of each part.
pub(super) unsafe fn both<T: Blend>(
    [step, down]: [&Step<T>; 2],
    src: *mut T,
    dst: *mut T,
    (memory, parts): (*mut T, usize),
    streamed: bool,
) {
    let (src, dst, memory) = (Ptr::new(src), Ptr::new(dst), Ptr::new(memory));
    let (width, n) = (down.inner, down.table.len());
    let each = memory_of_both(down);
    pool::parallel_parts(down.outer * n, parts, &|part, range| {
        let memory = memory.at((part * each) as isize);
        let mut piece = [T::zero(); PIECE];
        // The rows that the two lines are made of.
        let mut held = [usize::MAX; 2];
        let (mut first, mut o) = (range.start / n * down.input, range.start % n);
        for unit in range {
            if o == n {
                (first, o) = (first + down.input, 0);
            }
            let (i, w) = down.table.items[2 * o];
            let (j, v) = down.table.items[2 * o + 1];
            o += 1;
            // SAFETY: the caller's promise; lines are this part's, and rows of the result disjoint.
            // Adjacent rows have different lines.
            unsafe {
                let row = |at: usize| memory.wrapping_add(at % 2 * (each / 2));
                for at in [first + i, first + j] {
                    if std::mem::replace(&mut held[at % 2], at) != at {
                        let from = src.at((at * step.input) as isize);
                        if streamed {
                            stream::prefetch_row(from.wrapping_byte_add(AHEAD), step.input);
                        }
                        let from = std::slice::from_raw_parts(from, step.input);
                        line(step, from, std::slice::from_raw_parts_mut(row(at), width));
                    }
                }
                let a = std::slice::from_raw_parts(row(first + i).cast_const(), width);
                let b = std::slice::from_raw_parts(row(first + j).cast_const(), width);
                let out = dst.at((unit * width) as isize);
                if streamed {
                    stream_two(out, [a, b], [w, v], &mut piece);
                } else {
                    blend_two(std::slice::from_raw_parts_mut(out, width), a, w, b, v);
                }
            }
        }
        if streamed {
            stream::fence();
        }
    });
}

/// A row whose every element is made of `K`.
#[inline]
fn along<T: Blend, const K: usize>(items: &[(usize, T)], from: &[T], to: &mut [T]) {
    let (items, _) = items.as_chunks::<K>();
    for (out, items) in to.iter_mut().zip(items) {
        let mut sum = T::zero();
        for &(i, w) in items {
            sum = sum + from[i] * w;
        }
        *out = sum;
    }
}
