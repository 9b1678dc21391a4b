//! One dimension of a resampling.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use num_traits::Float;
use torsh_core::pool;

use super::{GRAIN, Step};
use crate::copy::stream;
use crate::dense::Ptr;
use crate::multiversion;

/// Elements of a row that are blended at a time where they are written past the caches.
const PIECE: usize = 1024;
/// Results of a row that are chosen from registers together.
const LANES: usize = 16;

/// A number that rows are blended in.
pub(super) trait Blend: Float + Default + Send + Sync + 'static {
    /// `dst = wa a + wb b`.
    fn blend_two(dst: &mut [Self], a: &[Self], wa: Self, b: &[Self], wb: Self);
    /// `dst = w a`, or `dst += w a` where `add`.
    fn blend_one(dst: &mut [Self], a: &[Self], w: Self, add: bool);
    /// The row of results that [`pairs`] made `pairs` of; whether there is this fast way.
    fn blend_pairs(_pairs: &[Pairs<Self>], _from: &[Self], _to: &mut [Self]) -> bool {
        false
    }
}

/// Adjacent results of a row that are each made of two of `2 * LANES` adjacent elements.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "no vectors choose from it")
)]
pub(super) struct Pairs<T> {
    first: usize,
    /// By the first and the second: their places behind the first element, and their weights.
    places: [[u32; LANES]; 2],
    weights: [[T; LANES]; 2],
}

/// The results of a row by [`LANES`], where every one is made of two elements that are near.
pub(super) fn pairs<T: Blend>(items: &[(usize, T)]) -> Option<Vec<Pairs<T>>> {
    let (items, _) = items.as_chunks::<2>();
    let block = |block: &[[(usize, T); 2]]| {
        let first = block.as_flattened().iter().map(|item| item.0).min()?;
        let mut pairs = Pairs {
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

macro_rules! blend {
    ($($t:ident $two:ident $one:ident { $($more:tt)* })*) => {$(
        multiversion! {
            fn $two<A>(dst: &mut [$t], a: &[$t], wa: $t, b: &[$t], wb: $t) {
                for ((d, &a), &b) in dst.iter_mut().zip(a).zip(b) {
                    *d = wa * a + wb * b;
                }
            }

            fn $one<A>(dst: &mut [$t], a: &[$t], w: $t, add: bool) {
                if add {
                    for (d, &a) in dst.iter_mut().zip(a) {
                        *d += w * a;
                    }
                } else {
                    for (d, &a) in dst.iter_mut().zip(a) {
                        *d = w * a;
                    }
                }
            }
        }
        impl Blend for $t {
            fn blend_two(dst: &mut [$t], a: &[$t], wa: $t, b: &[$t], wb: $t) {
                $two(dst, a, wa, b, wb);
            }
            fn blend_one(dst: &mut [$t], a: &[$t], w: $t, add: bool) {
                $one(dst, a, w, add);
            }
            $($more)*
        }
    )*};
}
blend! {
    f32 two_f32 one_f32 {
        #[cfg(target_arch = "x86_64")]
        fn blend_pairs(pairs: &[Pairs<f32>], from: &[f32], to: &mut [f32]) -> bool {
            if crate::arch::level() < crate::arch::Level::Avx512 {
                return false;
            }
            // SAFETY: the processor has AVX-512.
            unsafe { permuted(pairs, from, to) };
            true
        }
    }
    f64 two_f64 one_f64 {}
}

/// [`Blend::blend_pairs`] by permutations of two registers.
///
/// # Safety
/// The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn permuted(pairs: &[Pairs<f32>], from: &[f32], to: &mut [f32]) {
    let ones = |n: usize| ((1u32 << n.min(LANES)) - 1) as u16;
    for (block, to) in pairs.iter().zip(to.chunks_mut(LANES)) {
        let (near, far) = from[block.first..].split_at(LANES.min(from.len() - block.first));
        let [lo, hi] = &block.places;
        let [of_lo, of_hi] = &block.weights;
        // SAFETY: only lanes of the slices are read and written.
        unsafe {
            let near = _mm512_maskz_loadu_ps(ones(near.len()), near.as_ptr());
            let far = _mm512_maskz_loadu_ps(ones(far.len()), far.as_ptr());
            let lo = _mm512_permutex2var_ps(near, _mm512_loadu_si512(lo.as_ptr().cast()), far);
            let hi = _mm512_permutex2var_ps(near, _mm512_loadu_si512(hi.as_ptr().cast()), far);
            let lo = _mm512_mul_ps(lo, _mm512_loadu_ps(of_lo.as_ptr()));
            let hi = _mm512_mul_ps(hi, _mm512_loadu_ps(of_hi.as_ptr()));
            _mm512_mask_storeu_ps(to.as_mut_ptr(), ones(to.len()), _mm512_add_ps(lo, hi));
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
    for (piece, (a, b)) in a.chunks(PIECE).zip(b.chunks(PIECE)).enumerate() {
        let buffer = &mut memory[..a.len()];
        T::blend_two(buffer, a, wa, b, wb);
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
                if let Some(pairs) = &step.pairs
                    && T::blend_pairs(pairs, from, to)
                {
                    continue;
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
                    T::blend_two(out, row(i), w, row(j), v);
                    rest.iter()
                        .for_each(|&(i, w)| T::blend_one(out, row(i), w, true));
                }
                [(i, w)] => T::blend_one(out, row(i), w, false),
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
