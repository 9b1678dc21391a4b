//! Unblocked algorithms on row-major slices, in LAPACK's order of operations. They serve small matrices, matrices with
//! nan or infinity (in which these spread), and LAPACK's packed reflectors.

use num_traits::Float;

use super::field::{Field, norm};

/// Swaps rows `i < j` of `n` elements.
fn swap_rows<T>(a: &mut [T], n: usize, i: usize, j: usize) {
    if i != j {
        let (head, tail) = a.split_at_mut(j * n);
        head[i * n..][..n].swap_with_slice(&mut tail[..n]);
    }
}

/// LU factors with partial pivoting in place, as `getrf`: the pivots count from 1; returns the position, from 1, of the
/// first zero on the diagonal of `U`.
pub(crate) fn lu<T: Field>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    let mut info = 0;
    for k in 0..m.min(n) {
        let mut p = k;
        let mut largest = a[k * n + k].abs1();
        for i in k + 1..m {
            let v = a[i * n + k].abs1();
            if v > largest {
                (p, largest) = (i, v);
            }
        }
        pivots[k] = p as i32 + 1;
        if a[p * n + k] == T::ZERO {
            info = if info == 0 { k as i32 + 1 } else { info };
            continue;
        }
        swap_rows(a, n, k, p);
        let (head, tail) = a.split_at_mut((k + 1) * n);
        let row = &head[k * n..];
        for below in tail.chunks_exact_mut(n) {
            let l = below[k].over(row[k]);
            below[k] = l;
            for (x, &u) in below[k + 1..].iter_mut().zip(&row[k + 1..]) {
                *x -= l * u;
            }
        }
    }
    info
}

/// The Cholesky factor of the lower triangle in place; what is above the diagonal becomes 0. Returns the order of the
/// first leading minor that is not positive definite.
pub(crate) fn cholesky<T: Field>(a: &mut [T], n: usize) -> i32 {
    let mut info = 0;
    for i in 0..n {
        let (head, tail) = a.split_at_mut(i * n);
        let row = &mut tail[..n];
        for j in 0..i {
            let other = &head[j * n..][..n];
            let mut s = row[j];
            for k in 0..j {
                s -= row[k] * Field::conj(other[k]);
            }
            row[j] = s.over(other[j]);
        }
        let mut s = row[i].re();
        for v in &row[..i] {
            s -= v.re() * v.re() + v.im() * v.im();
        }
        if info == 0 && !(s > <T::R as Field>::ZERO) {
            info = i as i32 + 1;
        }
        row[i] = T::of(Float::sqrt(s));
        row[i + 1..].fill(T::ZERO);
        if info != 0 {
            break;
        }
    }
    if info != 0 {
        for i in 0..n {
            a[i * n + i + 1..(i + 1) * n].fill(T::ZERO);
        }
    }
    info
}

/// Solves `A X = B` in place of the `cols` columns of `b`, `A` triangular with rows and columns `strides` elements apart.
pub(crate) fn solve_triangular<T: Field>(
    a: &[T],
    (row, col): (usize, usize),
    (upper, unit, conj): (bool, bool, bool),
    b: &mut [T],
    n: usize,
    cols: usize,
) {
    let at = |i: usize, j: usize| {
        let v = a[i * row + j * col];
        if conj { Field::conj(v) } else { v }
    };
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let (head, rest) = b.split_at_mut(i * cols);
        let (target, tail) = rest.split_at_mut(cols);
        let known = if upper { i + 1..n } else { 0..i };
        for j in known {
            let v = at(i, j);
            let source = match upper {
                true => &tail[(j - i - 1) * cols..][..cols],
                false => &head[j * cols..][..cols],
            };
            for (t, &s) in target.iter_mut().zip(source) {
                *t -= v * s;
            }
        }
        if !unit {
            let d = at(i, i);
            target.iter_mut().for_each(|t| *t = t.over(d));
        }
    }
}

/// What makes a reflector of a number and the 2-norm of those below it.
pub(crate) struct Householder<T: Field> {
    /// The number that remains.
    pub beta: T::R,
    /// The factor of the reflector.
    pub tau: T,
    /// What the numbers below are divided by.
    pub by: T,
}

/// As `larfg`; nothing where the number is real and there is nothing below it.
#[inline(always)]
pub(crate) fn householder<T: Field>(alpha: T, below: T::R) -> Option<Householder<T>> {
    let zero = <T::R as Field>::ZERO;
    if below == zero && alpha.im() == zero {
        return None;
    }
    let length = Float::hypot(alpha.modulus(), below);
    let beta = if alpha.re() < zero { length } else { -length };
    Some(Householder {
        beta,
        tau: T::of_parts((beta - alpha.re()) / beta, (-alpha.im()) / beta),
        by: alpha - T::of(beta),
    })
}

/// A reflector as `larfg` makes it, from the column `k` of row-major `a` of `n` columns, rows `k..m`: the diagonal becomes
/// the remaining entry, the rows below the vector without its leading 1. Returns `tau`.
fn reflector<T: Field>(a: &mut [T], m: usize, n: usize, k: usize) -> T {
    let below = norm((k + 1..m).map(|i| a[i * n + k]));
    let Some(Householder { beta, tau, by }) = householder(a[k * n + k], below) else {
        return T::ZERO;
    };
    for i in k + 1..m {
        a[i * n + k] = a[i * n + k].over(by);
    }
    a[k * n + k] = T::of(beta);
    tau
}

/// QR in place, as `geqrf`: `R` in the upper triangle, the reflectors below, their factors in `tau`.
pub(crate) fn geqrf<T: Field>(a: &mut [T], m: usize, n: usize, tau: &mut [T]) {
    let mut w = vec![T::ZERO; n];
    for k in 0..m.min(n) {
        tau[k] = reflector(a, m, n, k);
        let t = Field::conj(tau[k]);
        if t == T::ZERO || k + 1 == n {
            continue;
        }
        // The other columns become (1 - conj(tau) v v^H) of themselves.
        let w = &mut w[k + 1..];
        w.copy_from_slice(&a[k * n + k + 1..][..n - k - 1]);
        for i in k + 1..m {
            let v = Field::conj(a[i * n + k]);
            for (w, &x) in w.iter_mut().zip(&a[i * n + k + 1..][..n - k - 1]) {
                *w += v * x;
            }
        }
        for i in k..m {
            let v = if i == k { t } else { t * a[i * n + k] };
            for (x, &w) in a[i * n + k + 1..][..n - k - 1].iter_mut().zip(w.iter()) {
                *x -= v * w;
            }
        }
    }
}

/// Multiplies the rows of `c` (of `cols` columns) by `1 - tau v v^H` from the left, where `v` is 0 before row `k`, 1 there,
/// and the reflector `k` of `a` (of `n` columns) after it.
fn reflect_left<T: Field>(
    (a, n): (&[T], usize),
    k: usize,
    tau: T,
    (c, m, cols): (&mut [T], usize, usize),
    w: &mut Vec<T>,
) {
    if tau == T::ZERO {
        return;
    }
    w.clear();
    w.extend_from_slice(&c[k * cols..][..cols]);
    for i in k + 1..m {
        let v = Field::conj(a[i * n + k]);
        for (w, &x) in w.iter_mut().zip(&c[i * cols..][..cols]) {
            *w += v * x;
        }
    }
    for i in k..m {
        let v = if i == k { tau } else { tau * a[i * n + k] };
        for (x, &w) in c[i * cols..][..cols].iter_mut().zip(w.iter()) {
            *x -= v * w;
        }
    }
}

/// As [`reflect_left`], from the right on the columns of `c`, of `rows` rows and `m` columns.
fn reflect_right<T: Field>(
    (a, n): (&[T], usize),
    k: usize,
    tau: T,
    (c, rows, m): (&mut [T], usize, usize),
) {
    if tau == T::ZERO {
        return;
    }
    for row in c.chunks_exact_mut(m.max(1)).take(rows) {
        let mut s = row[k];
        for i in k + 1..m {
            s += row[i] * a[i * n + k];
        }
        s *= tau;
        row[k] -= s;
        for i in k + 1..m {
            row[i] -= s * Field::conj(a[i * n + k]);
        }
    }
}

/// The first `cols` columns of the product of the reflectors, as `orgqr`: `q` is row-major, `m` by `cols`.
pub(crate) fn orgqr<T: Field>(a: &[T], n: usize, tau: &[T], q: &mut [T], m: usize, cols: usize) {
    q.fill(T::ZERO);
    for i in 0..m.min(cols) {
        q[i * cols + i] = T::ONE;
    }
    let mut w = Vec::with_capacity(cols);
    for k in (0..tau.len()).rev() {
        reflect_left((a, n), k, tau[k], (q, m, cols), &mut w);
    }
}

/// `Q C`, `Q^H C`, `C Q` or `C Q^H` in place of `c` (`rows` by `cols`), as `ormqr`.
pub(crate) fn ormqr<T: Field>(
    (a, n): (&[T], usize),
    tau: &[T],
    (c, rows, cols): (&mut [T], usize, usize),
    (left, adjoint): (bool, bool),
) {
    let mut w = Vec::with_capacity(cols);
    // Q = H1 H2 ..; what is next to `C` comes first.
    let ascending = left == adjoint;
    for step in 0..tau.len() {
        let k = if ascending {
            step
        } else {
            tau.len() - 1 - step
        };
        let t = if adjoint { Field::conj(tau[k]) } else { tau[k] };
        match left {
            true => reflect_left((a, n), k, t, (c, rows, cols), &mut w),
            false => reflect_right((a, n), k, t, (c, rows, cols)),
        }
    }
}
