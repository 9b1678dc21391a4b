//! Exponentials of matrices by scaling and squaring.

use num_traits::Float;

use super::super::field::{Field, Real};
use super::super::pade::Pade;
use super::super::tuning::LANES_COLUMNS;
use super::lanes_lu::quotient;
use super::{Batched, Block, Lanes, Missed, Scratch, load, store};
use torsh_backend_cpu::simd::{MOST_LANES, Simd};

/// The product of `n` by `n` matrices.
#[inline(always)]
fn product<V: Lanes>(l: Simd<V>, a: &[V], b: &[V], n: usize, to: &mut [V]) {
    let zero = l.splat(<V::T as Field>::ZERO);
    for i in 0..n {
        let row = &a[i * n..][..n];
        let mut c = 0;
        while c + LANES_COLUMNS <= n {
            let mut sum = [zero; LANES_COLUMNS];
            for (by, b) in row.iter().zip(b.chunks_exact(n)) {
                for (s, v) in sum.iter_mut().zip(&b[c..][..LANES_COLUMNS]) {
                    *s = l.mul_add(*by, *v, *s);
                }
            }
            to[i * n + c..][..LANES_COLUMNS].copy_from_slice(&sum);
            c += LANES_COLUMNS;
        }
        for c in c..n {
            to[i * n + c] =
                (row.iter().zip(b.chunks_exact(n))).fold(zero, |s, (x, b)| l.mul_add(*x, b[c], s));
        }
    }
}

/// `to = sum of by[i] of[i]`, and `one` on the diagonal.
#[inline(always)]
fn combine<V: Lanes>(l: Simd<V>, of: &[&[V]], by: &[f64], one: f64, n: usize, to: &mut [V]) {
    to.fill(l.splat(<V::T as Field>::ZERO));
    for (from, by) in of.iter().zip(by) {
        let by = l.splat(V::T::of_f64(*by));
        for (to, v) in to.iter_mut().zip(from.iter()) {
            *to = l.mul_add(by, *v, *to);
        }
    }
    for i in 0..n {
        to[i * n + i] = l.add(to[i * n + i], l.splat(V::T::of_f64(one)));
    }
}

struct Exponential<'a, T> {
    a: &'a [T],
    n: usize,
    out: &'a mut [T],
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Exponential<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let n = self.n;
        let size = n * n;
        let count = self.out.len() / size;
        let all = self.work.vectors(l, 7 * size + n);
        let (x, all) = all.split_at_mut(size);
        let (x2, all) = all.split_at_mut(size);
        let (x4, all) = all.split_at_mut(size);
        let (x6, all) = all.split_at_mut(size);
        let (u, all) = all.split_at_mut(size);
        let (v, all) = all.split_at_mut(size);
        let (w, pivots) = all.split_at_mut(size);
        let missed = load(l, self.a, count, size, x);
        let zero = l.splat(<T as Field>::ZERO);
        // The 1-norms, how often each lane halves, and the order that the largest one needs.
        let mut norms = zero;
        for j in 0..n {
            let sum = (0..n).fold(zero, |s, i| l.add(s, l.abs(x[i * n + j])));
            norms = l.max(norms, sum);
        }
        let norms: [V; 1] = [norms];
        let norms: &[T] = l.numbers(&norms);
        let mut halves = [0i32; MOST_LANES];
        let mut order = 0;
        for (lane, norm) in norms.iter().enumerate() {
            // What is missed is done by itself.
            let norm = if Float::is_finite(*norm) {
                norm.wide()
            } else {
                0.0
            };
            let plan = Pade::of::<T>(norm);
            halves[lane] = plan.squarings;
            order = order.max(plan.order);
        }
        let most = halves.iter().copied().max().unwrap_or(0);
        if most > 0 {
            for part in 0..2 {
                let mut by = [zero];
                let to: &mut [T] = l.numbers_mut(&mut by);
                for (to, h) in to.iter_mut().zip(halves) {
                    *to = T::of_f64(0.5f64.powi(if part == 0 { h / 2 } else { h - h / 2 }));
                }
                x.iter_mut().for_each(|x| *x = l.mul(*x, by[0]));
            }
        }
        let c = Pade::coefficients(order);
        let at = |i: usize| c.get(i).copied().unwrap_or(0.0);
        product(l, x, x, n, x2);
        if order > 3 {
            product(l, x2, x2, n, x4);
        } else {
            x4.fill(zero);
        }
        if order > 5 {
            product(l, x4, x2, n, x6);
        } else {
            x6.fill(zero);
        }
        let powers = [&*x2, &*x4, &*x6];
        if order > 7 {
            combine(l, &powers, &[at(9), at(11), at(13)], 0.0, n, w);
            product(l, x6, w, n, v);
            combine(l, &powers, &[at(3), at(5), at(7)], at(1), n, w);
            w.iter_mut()
                .zip(v.iter())
                .for_each(|(w, v)| *w = l.add(*w, *v));
        } else {
            combine(l, &powers, &[at(3), at(5), at(7)], at(1), n, w);
        }
        product(l, x, w, n, u);
        if order > 7 {
            combine(l, &powers, &[at(8), at(10), at(12)], 0.0, n, w);
            product(l, x6, w, n, v);
            combine(l, &powers, &[at(2), at(4), at(6)], at(0), n, w);
            v.iter_mut()
                .zip(w.iter())
                .for_each(|(v, w)| *v = l.add(*v, *w));
        } else {
            combine(l, &powers, &[at(2), at(4), at(6)], at(0), n, v);
        }
        // The quotient of v + u and v - u.
        for ((u, v), x) in u.iter_mut().zip(v.iter_mut()).zip(x.iter_mut()) {
            (*x, *v) = (l.add(*v, *u), l.sub(*v, *u));
        }
        quotient(l, v, n, pivots, x);
        for step in 0..most {
            product(l, x, x, n, w);
            let mut doubled = [zero];
            let to: &mut [T] = l.numbers_mut(&mut doubled);
            for (to, h) in to.iter_mut().zip(halves) {
                *to = T::of_f64(f64::from(u8::from(step < h)));
            }
            let yes = l.lt(zero, doubled[0]);
            for (x, w) in x.iter_mut().zip(w.iter()) {
                *x = l.select(yes, *w, *x);
            }
        }
        store(l, x, self.out, count, size);
        missed
    }
}

/// The exponentials of `n` by `n` matrices.
pub(crate) fn exponential<T: Batched>(
    (a, n): (&[T], usize),
    out: &mut [T],
    work: &mut Scratch<T>,
) -> Missed {
    let work = Exponential { a, n, out, work };
    T::side_by_side(work)
}
