//! Cholesky factors.

use super::super::field::Field;
use super::{Batched, Block, Lanes, Missed, Scratch, bits, load, store};
use torsh_backend_cpu::simd::Simd;

struct Cholesky<'a, T> {
    a: &'a [T],
    n: usize,
    upper: bool,
    factor: &'a mut [T],
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Cholesky<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let n = self.n;
        let count = self.factor.len() / (n * n);
        let a = self.work.vectors(l, n * n);
        // Nan and infinity in the triangle that is read give a diagonal that is not positive.
        load(l, self.a, count, n * n, a);
        let (zero, one) = (l.splat(<T as Field>::ZERO), l.splat(<T as Field>::ONE));
        if self.upper {
            for i in 0..n {
                for j in 0..i {
                    a[i * n + j] = a[j * n + i];
                }
            }
        }
        let mut least = one;
        for k in 0..n {
            let pivot = a[k * n + k];
            // A root of nan is nan, and a comparison with it is false.
            least = l.select(l.lt(zero, pivot), least, zero);
            let root = l.sqrt(pivot);
            let by = l.div(one, root);
            a[k * n + k] = root;
            for i in k + 1..n {
                a[i * n + k] = l.mul(a[i * n + k], by);
                a[k * n + i] = a[i * n + k];
            }
            let (head, tail) = a.split_at_mut((k + 1) * n);
            let row = &head[k * n..];
            for (below, i) in tail.chunks_exact_mut(n).zip(k + 1..) {
                let factor = row[i];
                for (x, u) in below[k + 1..=i].iter_mut().zip(&row[k + 1..=i]) {
                    *x = l.neg_mul_add(factor, *u, *x);
                }
            }
        }
        for i in 0..n {
            for j in 0..i {
                match self.upper {
                    false => a[j * n + i] = zero,
                    true => a[i * n + j] = zero,
                }
            }
        }
        store(l, a, self.factor, count, n * n);
        bits(l, l.eq(least, zero))
    }
}

/// The Cholesky factors of one triangle of as many matrices as `factor` has room for. Those that are not positive
/// definite are missed.
pub(crate) fn cholesky<T: Batched>(
    (a, n): (&[T], usize),
    upper: bool,
    factor: &mut [T],
    work: &mut Scratch<T>,
) -> Missed {
    let work = Cholesky {
        a,
        n,
        upper,
        factor,
        work,
    };
    T::side_by_side(work)
}
