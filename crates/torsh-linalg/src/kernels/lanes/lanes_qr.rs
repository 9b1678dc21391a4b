//! QR decompositions by Householder's reflectors.

use num_traits::Float;

use super::super::field::Field;
use super::{Batched, Block, Lanes, Missed, Scratch, bits, load, store};
use torsh_backend_cpu::simd::Simd;

/// The power of two that scales the largest number of each lane to about 1, and its inverse.
#[inline(always)]
pub(super) fn scales<V: Lanes>(l: Simd<V>, a: &[V]) -> (V, V) {
    let (zero, one) = (
        l.splat(<V::T as Field>::ZERO),
        l.splat(<V::T as Field>::ONE),
    );
    let largest = a.iter().fold(zero, |m, v| l.max(l.abs(*v), m));
    // Far from the ends of the range, where the inverse is a number too.
    let low = l.splat(
        <V::T as Float>::min_positive_value() * (<V::T as Field>::ONE + <V::T as Field>::ONE),
    );
    let scale = l.power_below(largest);
    let scale = l.select(l.lt(scale, low), low, scale);
    let scale = l.select(l.eq(largest, zero), one, scale);
    (scale, l.div(one, scale))
}

/// The least sum of squares whose root is precise, for numbers of which the largest is about 1.
#[inline(always)]
pub(super) fn least_square<V: Lanes>(l: Simd<V>) -> V {
    let eps = <V::T as super::super::field::Real>::EPS;
    l.splat(<V::T as Float>::min_positive_value() / (eps * eps))
}

/// Row `0` of `w` times `t` is subtracted from the rows `from..m` of `c`, in proportion to the column `k` of `a`.
#[inline(always)]
fn reflect<V: Lanes>(
    l: Simd<V>,
    (a, n, k): (&[V], usize, usize),
    tau: V,
    (c, m, cols, first): (&mut [V], usize, usize, usize),
    w: &mut [V],
) {
    let w = &mut w[..cols - first];
    w.copy_from_slice(&c[k * cols + first..][..cols - first]);
    for i in k + 1..m {
        let v = a[i * n + k];
        for (w, x) in w.iter_mut().zip(&c[i * cols + first..][..cols - first]) {
            *w = l.mul_add(v, *x, *w);
        }
    }
    for w in w.iter_mut() {
        *w = l.mul(*w, tau);
    }
    for i in k..m {
        let row = &mut c[i * cols + first..][..cols - first];
        if i == k {
            for (x, w) in row.iter_mut().zip(w.iter()) {
                *x = l.sub(*x, *w);
            }
        } else {
            let v = a[i * n + k];
            for (x, w) in row.iter_mut().zip(w.iter()) {
                *x = l.neg_mul_add(v, *w, *x);
            }
        }
    }
}

struct Qr<'a, T> {
    a: &'a [T],
    shape: (usize, usize),
    q: (&'a mut [T], usize),
    r: (&'a mut [T], usize),
    count: usize,
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Qr<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let ((m, n), count) = (self.shape, self.count);
        let ((q, q_cols), (r, r_rows)) = (self.q, self.r);
        let k = m.min(n);
        let all = self
            .work
            .vectors(l, m * n + k + n.max(q_cols) + m * q_cols + r_rows * n);
        let (a, rest) = all.split_at_mut(m * n);
        let (taus, rest) = rest.split_at_mut(k);
        let (w, rest) = rest.split_at_mut(n.max(q_cols));
        let (to_q, to_r) = rest.split_at_mut(m * q_cols);
        let mut missed = load(l, self.a, count, m * n, a);
        let (zero, one) = (l.splat(<T as Field>::ZERO), l.splat(<T as Field>::ONE));
        let (scale, by) = scales(l, a);
        a.iter_mut().for_each(|v| *v = l.mul(*v, by));
        let least = least_square(l);
        for k in 0..k {
            let alpha = a[k * n + k];
            let below = (k + 1..m).fold(zero, |s, i| l.mul_add(a[i * n + k], a[i * n + k], s));
            let all = l.mul_add(alpha, alpha, below);
            let none = l.eq(below, zero);
            // A column that is not 0 and whose squares vanish; the last column has nothing below.
            if k + 1 < m {
                let vague = l.lt(all, least);
                if l.any(vague) {
                    let whole = (k..m).fold(zero, |s, i| l.max(l.abs(a[i * n + k]), s));
                    missed |= bits(l, l.lt(l.select(l.eq(whole, zero), one, all), least));
                }
            }
            let length = l.sqrt(all);
            let beta = l.select(l.lt(alpha, zero), length, l.sub(zero, length));
            let tau = l.select(none, zero, l.div(l.sub(beta, alpha), beta));
            let over = l.select(none, zero, l.div(one, l.sub(alpha, beta)));
            for i in k + 1..m {
                a[i * n + k] = l.mul(a[i * n + k], over);
            }
            a[k * n + k] = l.select(none, alpha, beta);
            taus[k] = tau;
            if k + 1 < n {
                // The reflector is in the columns that are left out of what it changes.
                let (w, v) = (&mut w[..n - k - 1], k + 1);
                w.copy_from_slice(&a[k * n + v..][..n - v]);
                for i in k + 1..m {
                    let row = &a[i * n..][..n];
                    for (w, x) in w.iter_mut().zip(&row[v..]) {
                        *w = l.mul_add(row[k], *x, *w);
                    }
                }
                w.iter_mut().for_each(|w| *w = l.mul(*w, tau));
                for (x, w) in a[k * n + v..][..n - v].iter_mut().zip(w.iter()) {
                    *x = l.sub(*x, *w);
                }
                for i in k + 1..m {
                    let row = &mut a[i * n..][..n];
                    let by = row[k];
                    for (x, w) in row[v..].iter_mut().zip(w.iter()) {
                        *x = l.neg_mul_add(by, *w, *x);
                    }
                }
            }
        }
        for i in 0..r_rows {
            for j in 0..n {
                to_r[i * n + j] = match j >= i && i < m {
                    true => l.mul(a[i * n + j], scale),
                    false => zero,
                };
            }
        }
        store(l, to_r, r, count, r_rows * n);
        if q_cols > 0 {
            to_q.fill(zero);
            (0..m.min(q_cols)).for_each(|i| to_q[i * q_cols + i] = one);
            for k in (0..k).rev() {
                // The columns before are those of the identity still.
                reflect(l, (a, n, k), taus[k], (to_q, m, q_cols, k), w);
            }
            store(l, to_q, q, count, m * q_cols);
        }
        missed
    }
}

/// `Q` (`m` by `q_cols`; not written where that is 0) and `R` (`r_rows` by `n`) of `count` matrices of `m` rows and `n`
/// columns.
pub(crate) fn qr<T: Batched>(
    (a, count): (&[T], usize),
    shape: (usize, usize),
    q: (&mut [T], usize),
    r: (&mut [T], usize),
    work: &mut Scratch<T>,
) -> Missed {
    let work = Qr {
        a,
        shape,
        q,
        r,
        count,
        work,
    };
    T::side_by_side(work)
}
