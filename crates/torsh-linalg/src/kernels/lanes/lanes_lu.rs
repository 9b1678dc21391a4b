//! LU with partial pivoting, and solutions with it and with triangular matrices.

use super::super::field::{Field, Real};
use super::{Batched, Block, Lanes, Missed, Scratch, bits, eliminate, load, store};
use torsh_backend_cpu::simd::Simd;

/// Factors the `m` by `n` matrices `a` in place, with the same exchanges of rows in `b`, of `cols` columns. The rows of
/// the pivots count from 0. Returns the positions of the first zero of `U`, from 1, and which pivots were too small.
#[inline(always)]
fn factor<V: Lanes>(
    l: Simd<V>,
    (a, m, n): (&mut [V], usize, usize),
    pivots: &mut [V],
    (b, cols): (&mut [V], usize),
) -> (V, Missed) {
    let number = |i: usize| l.splat(V::T::of_f64(i as f64));
    let (zero, one) = (number(0), number(1));
    // Below it the reciprocal would overflow.
    let least = l.splat(<V::T as num_traits::Float>::min_positive_value());
    let (mut info, mut missed) = (zero, 0);
    for k in 0..m.min(n) {
        let mut largest = l.abs(a[k * n + k]);
        let mut at = number(k);
        for i in k + 1..m {
            let v = l.abs(a[i * n + k]);
            let more = l.lt(largest, v);
            largest = l.select(more, v, largest);
            at = l.select(more, number(i), at);
        }
        pivots[k] = at;
        for i in k + 1..m {
            let here = l.eq(at, number(i));
            if !l.any(here) {
                continue;
            }
            exchange(l, here, a, n, k, i);
            exchange(l, here, b, cols, k, i);
        }
        let pivot = a[k * n + k];
        let none = l.eq(pivot, zero);
        let tiny = l.lt(largest, least);
        if l.any(tiny) {
            missed |= bits(l, tiny) & !bits(l, none);
            info = l.select(none, l.select(l.eq(info, zero), number(k + 1), info), info);
        }
        let by = l.select(none, zero, l.div(one, pivot));
        let (head, tail) = a.split_at_mut((k + 1) * n);
        let row = &head[k * n + k + 1..];
        for below in tail.chunks_exact_mut(n) {
            let factor = l.mul(below[k], by);
            below[k] = factor;
            for (x, u) in below[k + 1..].iter_mut().zip(row) {
                *x = l.neg_mul_add(factor, *u, *x);
            }
        }
    }
    (info, missed)
}

/// Exchanges the rows `i < j` of `n` vectors in the lanes that are chosen.
#[inline(always)]
fn exchange<V: Lanes>(l: Simd<V>, here: V::Mask, a: &mut [V], n: usize, i: usize, j: usize) {
    let (head, tail) = a.split_at_mut(j * n);
    for (x, y) in head[i * n..][..n].iter_mut().zip(&mut tail[..n]) {
        let (first, second) = (*x, *y);
        *x = l.select(here, second, first);
        *y = l.select(here, first, second);
    }
}

/// Solves with a triangular matrix in place of `x`, of `cols` columns.
#[inline(always)]
fn substitute<V: Lanes>(
    l: Simd<V>,
    (a, n): (&[V], usize),
    (upper, unit): (bool, bool),
    (x, cols): (&mut [V], usize),
) {
    let one = l.splat(<V::T as Field>::ONE);
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        let row = &a[i * n..][..n];
        if unit {
            eliminate(l, x, cols, i, known, |j| row[j], |v| v);
        } else if cols < 4 {
            eliminate(l, x, cols, i, known, |j| row[j], |v| l.div(v, row[i]));
        } else {
            let by = l.div(one, row[i]);
            eliminate(l, x, cols, i, known, |j| row[j], |v| l.mul(v, by));
        }
    }
}

/// Solves `A X = B` in place of `x`, which has as many columns as `a`, whose factors replace it.
#[inline(always)]
pub(super) fn quotient<V: Lanes>(l: Simd<V>, a: &mut [V], n: usize, pivots: &mut [V], x: &mut [V]) {
    factor(l, (a, n, n), pivots, (x, n));
    substitute(l, (a, n), (false, true), (x, n));
    substitute(l, (a, n), (true, false), (x, n));
}

/// Writes numbers of vectors as integers.
#[inline(always)]
fn integers<V: Lanes>(l: Simd<V>, from: &[V], plus: i32, to: &mut [i32], count: usize) {
    let n = from.len();
    for (i, v) in from.iter().enumerate() {
        let v: &[V::T] = l.numbers(std::slice::from_ref(v));
        for (lane, v) in v.iter().enumerate().take(count) {
            to[lane * n + i] = v.wide() as i32 + plus;
        }
    }
}

struct Factors<'a, T> {
    a: &'a [T],
    shape: (usize, usize),
    lu: &'a mut [T],
    pivots: &'a mut [i32],
    info: &'a mut [i32],
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Factors<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let ((m, n), count) = (self.shape, self.info.len());
        let (size, k) = (m * n, m.min(n));
        let (a, pivots) = self.work.vectors(l, size + k).split_at_mut(size);
        let odd = load(l, self.a, count, size, a);
        let (info, missed) = factor(l, (a, m, n), pivots, (&mut [], 0));
        store(l, a, self.lu, count, size);
        integers(l, pivots, 1, self.pivots, count);
        integers(l, &[info], 0, self.info, count);
        odd | missed
    }
}

/// LU factors of as many matrices of `m` rows and `n` columns as there are `info`.
pub(crate) fn lu<T: Batched>(
    a: &[T],
    shape: (usize, usize),
    (lu, pivots, info): (&mut [T], &mut [i32], &mut [i32]),
    work: &mut Scratch<T>,
) -> Missed {
    let work = Factors {
        a,
        shape,
        lu,
        pivots,
        info,
        work,
    };
    T::side_by_side(work)
}

/// Right-hand sides.
pub(crate) enum Sides<'a, T> {
    /// The identity: the solution is the inverse.
    Identity,
    /// As many columns as given.
    Of(&'a [T], usize),
}

struct Solution<'a, 'b, T> {
    a: &'a [T],
    n: usize,
    b: Sides<'a, T>,
    x: &'a mut [T],
    factors: Option<(&'b mut [T], &'b mut [i32])>,
    info: &'a mut [i32],
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Solution<'_, '_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let (n, count) = (self.n, self.info.len());
        let cols = match self.b {
            Sides::Identity => n,
            Sides::Of(_, cols) => cols,
        };
        let all = self.work.vectors(l, n * n + n * cols + n);
        let (a, rest) = all.split_at_mut(n * n);
        let (x, pivots) = rest.split_at_mut(n * cols);
        let mut odd = load(l, self.a, count, n * n, a);
        match self.b {
            Sides::Identity => {
                x.fill(l.splat(<T as Field>::ZERO));
                (0..n).for_each(|i| x[i * n + i] = l.splat(<T as Field>::ONE));
            }
            Sides::Of(b, cols) => odd |= load(l, b, count, n * cols, x),
        }
        let (info, missed) = factor(l, (a, n, n), pivots, (x, cols));
        substitute(l, (a, n), (false, true), (x, cols));
        substitute(l, (a, n), (true, false), (x, cols));
        store(l, x, self.x, count, n * cols);
        integers(l, &[info], 0, self.info, count);
        if let Some((lu, to)) = self.factors {
            store(l, a, lu, count, n * n);
            integers(l, pivots, 1, to, count);
        }
        odd | missed
    }
}

/// Solutions with as many square matrices as there are `info`; their factors too, where there is a place for them.
pub(crate) fn solve<T: Batched>(
    (a, n): (&[T], usize),
    b: Sides<'_, T>,
    x: &mut [T],
    factors: Option<(&mut [T], &mut [i32])>,
    info: &mut [i32],
    work: &mut Scratch<T>,
) -> Missed {
    let work = Solution {
        a,
        n,
        b,
        x,
        factors,
        info,
        work,
    };
    T::side_by_side(work)
}

struct Triangular<'a, T> {
    a: &'a [T],
    n: usize,
    kind: (bool, bool),
    b: &'a [T],
    cols: usize,
    x: &'a mut [T],
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Triangular<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let (n, cols) = (self.n, self.cols);
        let count = self.x.len() / (n * cols);
        let (a, x) = self.work.vectors(l, n * n + n * cols).split_at_mut(n * n);
        // What is in the other triangle is not read.
        load(l, self.a, count, n * n, a);
        load(l, self.b, count, n * cols, x);
        substitute(l, (a, n), self.kind, (x, cols));
        store(l, x, self.x, count, n * cols);
        0
    }
}

/// Solutions with triangular matrices, which are upper ones or not, and have a diagonal of ones or not.
pub(crate) fn triangular<T: Batched>(
    (a, n): (&[T], usize),
    kind: (bool, bool),
    (b, cols): (&[T], usize),
    x: &mut [T],
    work: &mut Scratch<T>,
) -> Missed {
    let work = Triangular {
        a,
        n,
        kind,
        b,
        cols,
        x,
        work,
    };
    T::side_by_side(work)
}
