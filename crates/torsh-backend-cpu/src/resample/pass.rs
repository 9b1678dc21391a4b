//! One dimension of a resampling.

use num_traits::Float;
use torsh_core::pool;

use super::{GRAIN, Step};
use crate::dense::Ptr;
use crate::multiversion;

/// A number that rows are blended in.
pub(super) trait Blend: Float + Default + Send + Sync + 'static {
    /// `dst = wa a + wb b`.
    fn blend_two(dst: &mut [Self], a: &[Self], wa: Self, b: &[Self], wb: Self);
    /// `dst = w a`, or `dst += w a` where `add`.
    fn blend_one(dst: &mut [Self], a: &[Self], w: Self, add: bool);
}

macro_rules! blend {
    ($($t:ident $two:ident $one:ident;)*) => {$(
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
        }
    )*};
}
blend! {
    f32 two_f32 one_f32;
    f64 two_f64 one_f64;
}

/// Resamples one dimension of one plane, in parallel unless called from a thread of the pool.
///
/// # Safety
/// `src` must hold `outer * input * inner` elements, `dst` as many as the step has results.
pub(super) unsafe fn pass<T: Blend>(step: &Step<T>, src: *mut T, dst: *mut T) {
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
                match table.uniform() {
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
                [(i, w), (j, v), ref rest @ ..] => {
                    T::blend_two(out, row(i), w, row(j), v);
                    rest.iter()
                        .for_each(|&(i, w)| T::blend_one(out, row(i), w, true));
                }
                [(i, w)] => T::blend_one(out, row(i), w, false),
            }
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
