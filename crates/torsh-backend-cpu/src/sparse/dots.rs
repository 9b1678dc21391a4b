//! Inner products in vectors: of stored elements and a vector, and of dense rows at some places.

use std::ops::Range;

use super::number::{Index, Number};
use super::plain::{RowsWork, SamplesWork, line, plain_rows, plain_samples};
use super::rows::Rows;
use super::tuning;
use crate::memory::stream::prefetch_row;
use crate::scalar::Real;
use crate::simd::{FloatVector, MOST_LANES, Simd, VectorWork, Vectors};

/// Rows of a product of real numbers with one column.
///
/// Rows are short, and of different lengths: a loop over each would end where no processor expects it, and each time wait for
/// what the next row reads. So the terms of many rows are computed in one loop, and then summed by whole vectors, of which
/// those behind a row's end are masked.
pub(super) struct VectorProduct<'w, 'a, T, I>(pub(super) RowsWork<'w, 'a, T, I>);

impl<T: Vectors + Number, I: Index> VectorWork<T> for VectorProduct<'_, '_, T, I> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Option<()> {
        // Most rows of a graph are summed in one step.
        match V::N >= 8 {
            true => row_sums::<V, 2, T, I>(simd, self.0),
            false => row_sums::<V, 4, T, I>(simd, self.0),
        }
    }

    fn plain(self) -> Option<()> {
        plain_rows(self.0)
    }
}

/// The most numbers that are summed in a step.
const STEP: usize = 4 * MOST_LANES;

#[inline(always)]
fn row_sums<V: FloatVector<T = T>, const K: usize, T: Vectors + Number, I: Index>(
    simd: Simd<V>,
    work: RowsWork<'_, '_, T, I>,
) -> Option<()> {
    const { assert!(tuning::TERMS.is_multiple_of(STEP)) };
    let RowsWork {
        a,
        range,
        dense: x,
        out,
        ..
    } = work;
    let zero = simd.splat(<T as Real>::ZERO);
    // The last row's sum may read a step behind its terms.
    let mut room = [<T as Real>::ZERO; tuning::TERMS + STEP];
    let mut out = out.iter_mut();
    let mut i = range.start;
    while i < range.end {
        let first = a.row(i);
        if first.len() > tuning::TERMS {
            let mut sums = [zero; K];
            for from in first.clone().step_by(tuning::TERMS) {
                let some = from..first.end.min(from + tuning::TERMS);
                let n = some.len();
                terms(&a, some, x, &mut room)?;
                sums = summed(simd, &room, n, sums);
            }
            out.next()?.write(total(simd, sums));
            i += 1;
            continue;
        }
        let mut end = i + 1;
        while end < range.end && a.row(end).end - first.start <= tuning::TERMS {
            end += 1;
        }
        terms(&a, first.start..a.row(end - 1).end, x, &mut room)?;
        for i in i..end {
            let row = a.row(i);
            let own = &room[row.start - first.start..];
            let sums = summed(simd, own, row.len(), [zero; K]);
            out.next()?.write(total(simd, sums));
        }
        i = end;
    }
    Some(())
}

/// The products of stored elements and their numbers of a vector; `None` if an index is out of range.
#[inline(always)]
fn terms<T: Real, I: Index>(
    a: &Rows<'_, T, I>,
    range: Range<usize>,
    x: &[T],
    to: &mut [T],
) -> Option<()> {
    let columns = &a.columns[range.clone()];
    let to = &mut to[..columns.len()];
    match a.order {
        None => {
            for ((to, column), v) in to.iter_mut().zip(columns).zip(&a.values[range]) {
                *to = *v * *x.get(column.place())?;
            }
        }
        Some(order) => {
            for ((to, column), at) in to.iter_mut().zip(columns).zip(&order[range]) {
                *to = *a.values.get(at.place())? * *x.get(column.place())?;
            }
        }
    }
    Some(())
}

/// Adds the first `n` terms to sums, `K` vectors at a time: what a lane gets depends on where the terms stand in their row
/// alone. Behind the terms a step can be read.
#[inline(always)]
fn summed<V: FloatVector, const K: usize>(
    simd: Simd<V>,
    terms: &[V::T],
    n: usize,
    mut sums: [V; K],
) -> [V; K] {
    let (mut at, mut left) = (0, n);
    loop {
        let some = &terms[at..at + K * V::N];
        for k in 0..K {
            let inside = left.saturating_sub(k * V::N).min(V::N);
            // SAFETY: a `Simd` exists only where the processor has the vectors; no more lanes than there are.
            let v = unsafe { simd.load(&some[k * V::N..]).keep_first(inside) };
            sums[k] = simd.add(sums[k], v);
        }
        if left <= K * V::N {
            return sums;
        }
        (at, left) = (at + K * V::N, left - K * V::N);
    }
}

#[inline(always)]
fn total<V: FloatVector, const K: usize>(simd: Simd<V>, sums: [V; K]) -> V::T {
    let mut all = sums[0];
    for k in 1..K {
        all = simd.add(all, sums[k]);
    }
    // SAFETY: a `Simd` exists only where the processor has the vectors.
    unsafe { all.reduce_sum() }
}

/// Elements of a sampled product of real numbers.
impl<T: Vectors + Number, I: Index> VectorWork<T> for SamplesWork<'_, '_, T, I> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Option<()> {
        let SamplesWork {
            majors,
            minors,
            range,
            x,
            y,
            k,
            ahead,
            out,
        } = self;
        let mut walk = majors.walk(range.start);
        let mut out = out.iter_mut();
        let mut e = range.start;
        while e < range.end {
            let (i, n) = walk.run(e, range.end.min(e + TOGETHER));
            if ahead > 0 {
                for j in minors.iter().skip(e + ahead).take(n) {
                    fetch(y, j.place(), k);
                }
            }
            let (x, own) = (line(x, i, k)?, &minors[e..e + n]);
            if let [j] = own {
                let [sum] = inner_products(simd, x, [line(y, j.place(), k)?]);
                // SAFETY: a `Simd` exists only where the processor has the vectors; here and below.
                out.next()?.write(unsafe { sum.reduce_sum() });
            } else {
                // Where there are fewer than four the last one stands in for them.
                let mut lines = [x; TOGETHER];
                for l in 0..TOGETHER {
                    lines[l] = line(y, own[l.min(n - 1)].place(), k)?;
                }
                let sums = inner_products(simd, x, lines);
                // SAFETY: as above.
                let sums = unsafe { V::reduce_sums(sums) };
                for sum in &sums[..n] {
                    out.next()?.write(*sum);
                }
            }
            e += n;
        }
        Some(())
    }

    fn plain(self) -> Option<()> {
        plain_samples(self)
    }
}

/// Elements of a row that are computed together: they share what is read of the row, and lanes are summed for all at once.
const TOGETHER: usize = 4;

/// Prefetches the beginning of row `i` of a matrix of `k` columns; the processor follows by itself.
#[inline(always)]
fn fetch<T>(all: &[T], i: usize, k: usize) {
    let at = all.as_ptr().wrapping_add(i.wrapping_mul(k));
    prefetch_row(at, k.min(tuning::FETCHED / size_of::<T>()));
}

/// The inner products of a line and `K` others of its length, as vectors of which all lanes are to be added. Each is summed in
/// the same order whatever `K` is.
#[inline(always)]
fn inner_products<V: FloatVector<T = T>, const K: usize, T: Vectors>(
    simd: Simd<V>,
    x: &[T],
    others: [&[T]; K],
) -> [V; K] {
    let n = x.len();
    assert!(others.iter().all(|y| y.len() == n));
    let zero = simd.splat(T::ZERO);
    let mut sums = [[zero; 2]; K];
    let mut at = 0;
    // SAFETY: a `Simd` exists only where the processor has the vectors; all lines have `n` numbers, which no read passes.
    unsafe {
        while n - at >= 2 * V::N {
            for h in 0..2 {
                let from = at + h * V::N;
                let a = V::load(x.as_ptr().add(from));
                for k in 0..K {
                    let b = V::load(others[k].as_ptr().add(from));
                    sums[k][h] = simd.mul_add(a, b, sums[k][h]);
                }
            }
            at += 2 * V::N;
        }
        if n - at >= V::N {
            let a = V::load(x.as_ptr().add(at));
            for k in 0..K {
                let b = V::load(others[k].as_ptr().add(at));
                sums[k][0] = simd.mul_add(a, b, sums[k][0]);
            }
            at += V::N;
        }
        if at < n {
            let a = V::load_part(x.as_ptr().add(at), 0, n - at, zero);
            for k in 0..K {
                let b = V::load_part(others[k].as_ptr().add(at), 0, n - at, zero);
                sums[k][1] = simd.mul_add(a, b, sums[k][1]);
            }
        }
    }
    let mut all = [zero; K];
    for k in 0..K {
        all[k] = simd.add(sums[k][0], sums[k][1]);
    }
    all
}
