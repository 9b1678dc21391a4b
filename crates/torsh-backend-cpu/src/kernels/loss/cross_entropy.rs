//! Cross-entropy of unnormalised scores with class indices, without the probabilities ever being
//! stored.
//!
//! - `CrossEntropy`: scores, target, optional weight into the loss, the logarithm of the sum of
//!   exponentials of each position (in float32 for the half types), and the sum of the weights
//!   that counted.
//! - `CrossEntropyBackward`: gradient, scores, target, optional weight and these two into the
//!   gradient of the scores.
//!
//! Both take [`attrs::CrossEntropy`].
//!
//! With `w` the weights, `e` the smoothing and `c` classes, a position of class `t` costs
//! `(1 - e) w_t (lse - x_t) + e / c * sum_j w_j (lse - x_j)`.

use torsh_core::attrs::{self, Reduction};
use torsh_core::{DType, KernelArgs, Result, pool};

use super::{GRAIN, LossSizes, Targets, Upstream, total, total_weight, weights};
use crate::kernels::exp_rows::{ExpRows, greater};
use crate::machine::tuning::loss::{BLOCK, CHAIN};
use crate::memory::dense::{Dense, DenseOut, wide};
use crate::memory::operands::{missing, operands};
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::Arch;
use crate::vmath::VMath;

/// The maximum of a row, and the sum of exponentials of what its scores are below that. Goes
/// through the row once, stretch by stretch: the sum so far is scaled down where the maximum has
/// grown. What follows the next stretch is asked for meanwhile.
#[inline(always)]
unsafe fn max_and_sum<A: Arch, T: ExpRows>(c: usize, x: *const T) -> (T, T) {
    let (mut max, mut sum) = (-T::INFINITY, T::ZERO);
    let mut start = 0;
    while start < c {
        let n = CHAIN.min(c - start);
        // SAFETY: the caller's promise: `c` scores.
        unsafe {
            let x = x.add(start);
            let top = greater(max, T::top::<A>(x, n));
            // Finite where all are -inf, so that another stretch can be added.
            let shift = greater(-T::MAX, top);
            if top > max && start > 0 {
                sum = sum * VMath::exp_low::<A>(max - shift);
            }
            sum = sum + T::exp_sum::<A>(x, n, shift, 2 * CHAIN);
            max = top;
        }
        start += n;
    }
    (max, sum)
}

multiversion! {
    /// The logarithms of the sums of exponentials of `n` (at most [`BLOCK`]) adjacent rows of `c`
    /// scores.
    unsafe fn lse_rows<A, T: ExpRows>(n: usize, c: usize, x: *const T, out: *mut T) {
        let (mut max, mut sum) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
        let (max, sum) = (&mut max[..n], &mut sum[..n]);
        // SAFETY: the caller's promise: `n` rows of `c` scores.
        unsafe {
            for (i, (m, s)) in max.iter_mut().zip(sum.iter_mut()).enumerate() {
                (*m, *s) = max_and_sum::<A, T>(c, x.add(i * c));
            }
            for (i, (&s, &m)) in sum.iter().zip(max.iter()).enumerate() {
                // nan where all are -inf, or one is inf, as in PyTorch.
                *out.add(i) = m + VMath::log::<A>(s) + T::ZERO * m;
            }
        }
    }

    /// Those of `n` (at most [`BLOCK`]) positions whose `c` scores are `step` apart.
    unsafe fn lse_block<A, T: Real>(n: usize, c: usize, step: usize, x: *const T, out: *mut T) {
        let (mut max, mut sum) = ([T::ZERO - T::INFINITY; BLOCK], [T::ZERO; BLOCK]);
        let (max, sum) = (&mut max[..n], &mut sum[..n]);
        // SAFETY: the caller's promise: `c` rows of `n` adjacent scores.
        unsafe {
            for j in 0..c {
                let row = x.add(j * step);
                for (i, m) in max.iter_mut().enumerate() {
                    let v = *row.add(i);
                    *m = if v > *m { v } else { *m };
                }
            }
            for j in 0..c {
                let row = x.add(j * step);
                for (i, (s, &m)) in sum.iter_mut().zip(max.iter()).enumerate() {
                    *s = *s + VMath::exp_low::<A>(*row.add(i) - m);
                }
            }
            for (i, (&s, &m)) in sum.iter().zip(max.iter()).enumerate() {
                *out.add(i) = m + VMath::log::<A>(s);
            }
        }
    }

    /// `y[i] = a exp(x[i] - lse) - s w[i]` (`w` null for 1).
    unsafe fn gradient<A, T: Real>(n: usize, x: *const T, y: *mut T, a: T, lse: T, s: T, w: *const T) {
        // SAFETY: the caller's promise.
        unsafe {
            let p = |i: usize| a * VMath::exp::<A>(*x.add(i) - lse);
            if w.is_null() {
                (0..n).for_each(|i| *y.add(i) = p(i) - s);
            } else {
                (0..n).for_each(|i| *y.add(i) = p(i) - s * *w.add(i));
            }
        }
    }

    /// `y[i] = a[i] exp(x[i] - lse[i]) - s[i]`.
    unsafe fn gradient_block<A, T: Real>(n: usize, x: *const T, y: *mut T, a: *const T, lse: *const T, s: *const T) {
        // SAFETY: the caller's promise.
        unsafe {
            (0..n).for_each(|i| {
                *y.add(i) = *a.add(i) * VMath::exp::<A>(*x.add(i) - *lse.add(i)) - *s.add(i);
            });
        }
    }
}

pub(crate) fn forward(args: &KernelArgs<'_>) -> Result<()> {
    let scores = args.inputs().first().ok_or_else(missing)?;
    match wide(scores.dtype()) {
        DType::F32 => run::<f32>(args, DType::F32),
        DType::F64 => run::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// The number of scores of each position is the grain's unit.
fn grain(sizes: &LossSizes) -> usize {
    (GRAIN / sizes.c.max(1)).max(1)
}

fn run<T: ExpRows>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out, lse_out, total_out, ..], [scores, target, rest @ ..]) =
        (args.outputs(), args.inputs())
    else {
        return Err(missing());
    };
    let &attrs::CrossEntropy {
        reduction,
        ignore_index,
        label_smoothing: smoothing,
    } = args.attrs()?;
    let sizes = LossSizes::new(scores, target)?;
    let targets = Targets::new(target, &sizes, ignore_index)?;
    let weights = weights::<T>(rest.first(), sizes.c, dtype)?;
    let weight = |t: usize| weights.as_ref().map_or(T::ONE, |w| w[t]);
    let all_weights = match &weights {
        Some(w) => w.iter().map(|w| w.to_f64()).sum(),
        None => sizes.c as f64,
    };
    let scores = Dense::new(scores, dtype)?;
    let (out, lse) = (DenseOut::new(out, dtype)?, DenseOut::new(lse_out, dtype)?);
    let total_out = DenseOut::new(total_out, dtype)?;
    let (x, l, y) = (scores.ptr::<T>(), lse.ptr::<T>(), out.ptr::<T>());
    let (keep, spread) = (T::c(1.0 - smoothing), T::c(smoothing / sizes.c as f64));
    // The loss of one position; its sum of exponentials is known.
    let value = |i: usize| -> T {
        let Some(t) = targets.get(i) else {
            return T::ZERO;
        };
        // SAFETY: position `i` has `c` scores, and the class was checked.
        unsafe {
            let (lse, x) = (*l.at(i as isize), x.at(sizes.at(i) as isize));
            let own = (lse - *x.add(t * sizes.s)) * weight(t);
            if smoothing == 0.0 {
                return own;
            }
            let mut sum = T::ZERO;
            for j in 0..sizes.c {
                sum = sum + weight(j) * *x.add(j * sizes.s);
            }
            keep * own + spread * (T::c(all_weights) * lse - sum)
        }
    };
    // The losses of some positions, each given to `put`.
    let each = |range: std::ops::Range<usize>, put: &mut dyn FnMut(usize, T)| {
        let mut i = range.start;
        while i < range.end {
            // SAFETY: the positions are this thread's, and adjacent within an image.
            let n = unsafe {
                let x = x.at(sizes.at(i) as isize);
                if sizes.s == 1 {
                    let n = BLOCK.min(range.end - i);
                    lse_rows(n, sizes.c, x, l.at(i as isize));
                    n
                } else {
                    let n = BLOCK.min(range.end - i).min(sizes.s - i % sizes.s);
                    lse_block(n, sizes.c, sizes.s, x, l.at(i as isize));
                    n
                }
            };
            (i..i + n).for_each(|i| put(i, value(i)));
            i += n;
        }
    };
    let whole = total_weight(&targets, weights.as_deref());
    let n = sizes.positions();
    // SAFETY: the outputs have the sizes of the reduction.
    unsafe {
        if reduction == Reduction::None {
            pool::parallel_for(n, grain(&sizes), &|range| {
                each(range, &mut |i, v| *y.at(i as isize) = v);
            });
        } else {
            let sum = total(n, grain(&sizes), &|range| {
                let mut sum = 0.0;
                each(range, &mut |_, v| sum += v.to_f64());
                sum
            });
            let mean = reduction == Reduction::Mean;
            *y.get() = T::c(if mean { sum / whole } else { sum });
        }
        *total_out.ptr::<T>().get() = T::c(whole);
    }
    lse.finish()?;
    total_out.finish()?;
    out.finish()
}

pub(crate) fn backward(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    match wide(out.dtype()) {
        DType::F32 => run_backward::<f32>(args, DType::F32),
        DType::F64 => run_backward::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

fn run_backward<T: ExpRows>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out], [grad, scores, target, weight, lse, whole]) = operands(args)?;
    let &attrs::CrossEntropy {
        reduction,
        ignore_index,
        label_smoothing: smoothing,
    } = args.attrs()?;
    let sizes = LossSizes::new(scores, target)?;
    let targets = Targets::new(target, &sizes, ignore_index)?;
    let weights = weights::<T>(Some(weight), sizes.c, dtype)?;
    let upstream = Upstream::<T>::new(grad, whole, reduction, dtype)?;
    let (scores, lse) = (Dense::new(scores, dtype)?, Dense::new(lse, dtype)?);
    let out = DenseOut::new(out, dtype)?;
    let (x, l, y) = (scores.ptr::<T>(), lse.ptr::<T>(), out.ptr::<T>());
    let spread = smoothing / sizes.c as f64;
    let all_weights: f64 = match &weights {
        Some(w) => w.iter().map(|w| w.to_f64()).sum(),
        None => sizes.c as f64,
    };
    let (keep, whole_spread) = (T::c(1.0 - smoothing), T::c(spread * all_weights));
    let w = weights.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
    let w = crate::memory::dense::Ptr::new(w.cast_mut());
    // What multiplies the probabilities, the class's own share, and the share of all classes.
    let factors = |i: usize| {
        let t = targets.get(i)?;
        let g = upstream.get(i);
        let own = keep * weights.as_ref().map_or(T::ONE, |w| w[t]);
        Some((t, g * (own + whole_spread), g * own, g * T::c(spread)))
    };
    pool::parallel_for(sizes.positions(), grain(&sizes), &|range| {
        let mut i = range.start;
        while i < range.end {
            let at = sizes.at(i) as isize;
            // SAFETY: the positions are this thread's, and the classes were checked.
            unsafe {
                let (x, y) = (x.at(at), y.at(at));
                if sizes.s == 1 {
                    match factors(i) {
                        None => std::slice::from_raw_parts_mut(y, sizes.c).fill(T::ZERO),
                        Some((t, a, own, share)) => {
                            gradient(sizes.c, x, y, a, *l.at(i as isize), share, w.get());
                            *y.add(t) = *y.add(t) - own;
                        }
                    }
                    i += 1;
                    continue;
                }
                let n = BLOCK.min(range.end - i).min(sizes.s - i % sizes.s);
                let mut lists = [[T::ZERO; BLOCK]; 3];
                let [a, shares, weighted] = &mut lists;
                for k in 0..n {
                    (a[k], shares[k]) = factors(i + k).map_or((T::ZERO, T::ZERO), |f| (f.1, f.3));
                }
                let lse = l.at(i as isize);
                for c in 0..sizes.c {
                    let weight = weights.as_ref().map_or(T::ONE, |w| w[c]);
                    (0..n).for_each(|k| weighted[k] = shares[k] * weight);
                    let (x, y) = (x.add(c * sizes.s), y.add(c * sizes.s));
                    gradient_block(n, x, y, a.as_ptr(), lse, weighted.as_ptr());
                }
                for k in 0..n {
                    match factors(i + k) {
                        Some((t, _, own, _)) => {
                            let y = y.add(t * sizes.s + k);
                            *y = *y - own;
                        }
                        // 0 times an infinite exponential is nan.
                        None => (0..sizes.c).for_each(|c| *y.add(c * sizes.s + k) = T::ZERO),
                    }
                }
                i += n;
            }
        }
    });
    out.finish()
}
