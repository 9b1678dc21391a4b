//! Eigenvalues of symmetric matrices and singular values by Jacobi's rotations.
//!
//! Every matrix is rotated until no pair of rows is to be rotated any more; a lane that is done is rotated by nothing.

use super::super::field::Field;
use super::lanes_qr::{least_square, scales};
use super::{Batched, Block, Lanes, Missed, Scratch, bits, load, store};
use crate::kernels::tuning::LANES_SIDE;
use torsh_backend_cpu::simd::{MOST_LANES, Simd};

/// The most often that every pair is rotated. Ten are enough for all but artificial matrices.
const SWEEPS: usize = 24;

/// Rows `p < q` of `n` vectors become `c x - s y` and `s x + c y`.
#[inline(always)]
fn rotate<V: Lanes>(l: Simd<V>, a: &mut [V], n: usize, (p, q): (usize, usize), (c, s): (V, V)) {
    let (head, tail) = a.split_at_mut(q * n);
    for (x, y) in head[p * n..][..n].iter_mut().zip(&mut tail[..n]) {
        let (first, second) = (*x, *y);
        *x = l.neg_mul_add(s, second, l.mul(c, first));
        *y = l.mul_add(s, first, l.mul(c, second));
    }
}

/// The rotation that makes the off-diagonal entry of `[[app, apq], [apq, aqq]]` 0: its tangent, cosine and sine. Where
/// `apq` is 0 it does nothing.
#[inline(always)]
fn rotation<V: Lanes>(l: Simd<V>, active: V::Mask, app: V, apq: V, aqq: V) -> (V, V, V) {
    let (zero, one) = (
        l.splat(<V::T as Field>::ZERO),
        l.splat(<V::T as Field>::ONE),
    );
    let twice = l.add(apq, apq);
    let zeta = l.div(l.sub(aqq, app), l.select(active, twice, one));
    let size = l.abs(zeta);
    let root = l.sqrt(l.mul_add(size, size, one));
    let t = l.div(one, l.add(size, root));
    let t = l.select(l.lt(zeta, zero), l.sub(zero, t), t);
    let t = l.select(active, t, zero);
    let c = l.div(one, l.sqrt(l.mul_add(t, t, one)));
    (t, c, l.mul(t, c))
}

/// The places of the numbers of each lane in order: ascending, or descending.
#[inline(always)]
fn order<V: Lanes>(l: Simd<V>, values: &[V], lane: usize, descending: bool, to: &mut [u8]) {
    let all: &[V::T] = l.numbers(values);
    let value = |i: u8| all[usize::from(i) * V::N + lane];
    for i in 0..values.len() {
        let mut at = i;
        let v = value(i as u8);
        while at > 0 && {
            let before = value(to[at - 1]);
            if descending { before < v } else { before > v }
        } {
            to[at] = to[at - 1];
            at -= 1;
        }
        to[at] = i as u8;
    }
}

struct Eigh<'a, T: Field> {
    a: &'a [T],
    n: usize,
    upper: bool,
    values: &'a mut [T::R],
    columns: Option<&'a mut [T]>,
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Eigh<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let n = self.n;
        let count = self.values.len() / n;
        let (all, by_matrix) = self.work.both(l, 2 * n * n);
        let (a, v) = all.split_at_mut(n * n);
        let mut missed = load(l, self.a, count, n * n, a);
        let (zero, one) = (l.splat(<T as Field>::ZERO), l.splat(<T as Field>::ONE));
        // The lower triangle is used, of `a[i][j]` with `i >= j`; the other one serves nothing, so it is 0.
        for i in 0..n {
            for j in 0..i {
                if self.upper {
                    a[i * n + j] = a[j * n + i];
                }
                a[j * n + i] = zero;
            }
        }
        let (scale, by) = scales(l, a);
        a.iter_mut().for_each(|x| *x = l.mul(*x, by));
        let vectors = self.columns.is_some();
        if vectors {
            v.fill(zero);
            (0..n).for_each(|i| v[i * n + i] = one);
        }
        let mut sum = zero;
        for i in 0..n {
            for j in 0..i {
                sum = l.mul_add(a[i * n + j], a[i * n + j], sum);
            }
            sum = l.mul_add(a[i * n + i], a[i * n + i], sum);
        }
        // What is left of all entries off the diagonal is below rounding, relative to the largest eigenvalue.
        let few = T::EPS * T::of_f64(0.25 / n as f64);
        let limit = l.mul(l.sqrt(sum), l.splat(few));
        let mut again = true;
        let mut sweep = 0;
        while again && sweep < SWEEPS {
            again = false;
            sweep += 1;
            for p in 0..n {
                for q in p + 1..n {
                    let apq = a[q * n + p];
                    let active = l.lt(limit, l.abs(apq));
                    if !l.any(active) {
                        continue;
                    }
                    again = true;
                    let (t, c, s) = rotation(l, active, a[p * n + p], apq, a[q * n + q]);
                    let apq = l.select(active, apq, zero);
                    a[p * n + p] = l.neg_mul_add(t, apq, a[p * n + p]);
                    a[q * n + q] = l.mul_add(t, apq, a[q * n + q]);
                    a[q * n + p] = l.select(active, zero, a[q * n + p]);
                    let mut pair = |x: usize, y: usize| {
                        let (first, second) = (a[x], a[y]);
                        a[x] = l.neg_mul_add(s, second, l.mul(c, first));
                        a[y] = l.mul_add(s, first, l.mul(c, second));
                    };
                    for r in 0..p {
                        pair(p * n + r, q * n + r);
                    }
                    for r in p + 1..q {
                        pair(r * n + p, q * n + r);
                    }
                    for r in q + 1..n {
                        pair(r * n + p, r * n + q);
                    }
                    if vectors {
                        rotate(l, v, n, (p, q), (c, s));
                    }
                }
            }
        }
        if again {
            for p in 0..n {
                for q in p + 1..n {
                    missed |= bits(l, l.lt(limit, l.abs(a[q * n + p])));
                }
            }
        }
        for i in 0..n {
            a[i] = l.mul(a[i * n + i], scale);
        }
        let found = &a[..n];
        let sorted: &[T] = l.numbers(found);
        let mut places = [[0u8; LANES_SIDE]; MOST_LANES];
        for lane in 0..count {
            order(l, found, lane, false, &mut places[lane][..n]);
            for (to, &i) in self.values[lane * n..][..n].iter_mut().zip(&places[lane]) {
                *to = sorted[usize::from(i) * V::N + lane];
            }
        }
        if let Some(columns) = self.columns {
            rows(l, v, by_matrix, count, n * n);
            for lane in 0..count {
                let from = &by_matrix[lane * n * n..][..n * n];
                as_columns(
                    from,
                    &places[lane][..n],
                    &mut columns[lane * n * n..][..n * n],
                );
            }
        }
        missed
    }
}

/// Matrices of `size` elements one after the other in `to`.
#[inline(always)]
fn rows<V: Lanes>(l: Simd<V>, from: &[V], to: &mut Vec<V::T>, count: usize, size: usize) {
    to.resize(count * size, <V::T as Field>::ZERO);
    store(l, from, to, count, size);
}

/// Writes the rows of a matrix in an order as columns.
#[inline(always)]
fn as_columns<T: Copy>(rows: &[T], places: &[u8], to: &mut [T]) {
    let k = places.len();
    let m = rows.len() / k;
    for (j, &from) in places.iter().enumerate() {
        for (i, v) in rows[usize::from(from) * m..][..m].iter().enumerate() {
            to[i * k + j] = *v;
        }
    }
}

/// Writes the rows of a matrix in an order.
#[inline(always)]
fn as_rows<T: Copy>(rows: &[T], places: &[u8], to: &mut [T]) {
    let n = rows.len() / places.len();
    for (to, &from) in to.chunks_exact_mut(n).zip(places) {
        to.copy_from_slice(&rows[usize::from(from) * n..][..n]);
    }
}

/// Eigenvalues and, where there is a place for them, eigenvectors of symmetric matrices given by one triangle.
pub(crate) fn eigh<T: Batched>(
    (a, n): (&[T], usize),
    upper: bool,
    values: &mut [T::R],
    columns: Option<&mut [T]>,
    work: &mut Scratch<T>,
) -> Missed {
    let work = Eigh {
        a,
        n,
        upper,
        values,
        columns,
        work,
    };
    T::side_by_side(work)
}

struct Svd<'a, T: Field> {
    a: &'a [T],
    shape: (usize, usize),
    s: &'a mut [T::R],
    vectors: Option<(&'a mut [T], &'a mut [T])>,
    work: &'a mut Scratch<T>,
}

impl<T: Batched> Block<T> for Svd<'_, T> {
    #[inline(always)]
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed {
        let (m, n) = self.shape;
        // Rows are made orthogonal: those of the matrix, or of its transpose where that has fewer.
        let (k, width) = (m.min(n), m.max(n));
        let count = self.s.len() / k;
        let (all, by_matrix) = self.work.both(l, 2 * k * width + k * k + 2 * k);
        let (w, rest) = all.split_at_mut(k * width);
        let (other, rest) = rest.split_at_mut(k * width);
        let (turned, rest) = rest.split_at_mut(k * k);
        let (squares, lengths) = rest.split_at_mut(k);
        let mut missed = if m > n {
            let missed = load(l, self.a, count, m * n, other);
            for i in 0..m {
                for j in 0..n {
                    w[j * m + i] = other[i * n + j];
                }
            }
            missed
        } else {
            load(l, self.a, count, m * n, w)
        };
        let (zero, one) = (l.splat(<T as Field>::ZERO), l.splat(<T as Field>::ONE));
        let (scale, by) = scales(l, w);
        w.iter_mut().for_each(|x| *x = l.mul(*x, by));
        let vectors = self.vectors.is_some();
        if vectors {
            turned.fill(zero);
            (0..k).for_each(|i| turned[i * k + i] = one);
        }
        let length = |row: &[V]| row.iter().fold(zero, |s, x| l.mul_add(*x, *x, s));
        let few = T::EPS * T::of_f64((width as f64).sqrt());
        let few = l.splat(few);
        let (mut again, mut sweep) = (true, 0);
        let mut late = zero;
        while again && sweep < SWEEPS {
            again = false;
            sweep += 1;
            late = zero;
            for (i, s) in squares.iter_mut().enumerate() {
                *s = length(&w[i * width..][..width]);
            }
            for p in 0..k {
                for q in p + 1..k {
                    let (first, second) = (&w[p * width..][..width], &w[q * width..][..width]);
                    let dot = product(l, first, second);
                    let (alpha, beta) = (squares[p], squares[q]);
                    // The cosine of the angle between them is more than rounding. The product of the squares would
                    // vanish for short rows, and rounding may have made a square negative.
                    let lengths = l.mul(l.sqrt(l.max(alpha, zero)), l.sqrt(l.max(beta, zero)));
                    let active = l.lt(l.mul(lengths, few), l.abs(dot));
                    if !l.any(active) {
                        continue;
                    }
                    again = true;
                    late = l.select(active, one, late);
                    let (t, c, s) = rotation(l, active, alpha, dot, beta);
                    let moved = l.mul(t, l.select(active, dot, zero));
                    // The longer one comes first: then few sweeps are needed.
                    let (a, b) = (l.sub(alpha, moved), l.add(beta, moved));
                    let turn = l.lt(a, b);
                    let (c, s) = (l.select(turn, s, c), l.select(turn, l.sub(zero, c), s));
                    squares[p] = l.select(turn, b, a);
                    squares[q] = l.select(turn, a, b);
                    rotate(l, w, width, (p, q), (c, s));
                    if vectors {
                        rotate(l, turned, k, (p, q), (c, s));
                    }
                }
            }
        }
        if again {
            missed |= bits(l, l.eq(late, one));
        }
        let least = least_square(l);
        for i in 0..k {
            let row = &mut w[i * width..][..width];
            let square = length(row);
            let root = l.sqrt(square);
            lengths[i] = l.mul(root, scale);
            // Directions of rows that are 0, or nearly, are not defined by them.
            if vectors {
                let vague = l.lt(square, least);
                if l.any(vague) {
                    missed |= bits(l, vague);
                }
                let by = l.div(one, root);
                row.iter_mut().for_each(|x| *x = l.mul(*x, by));
            } else if l.any(l.lt(square, least)) {
                // Lengths whose squares vanish: their largest numbers are taken out first.
                let (up, down) = scales(l, row);
                row.iter_mut().for_each(|x| *x = l.mul(*x, down));
                lengths[i] = l.mul(l.mul(l.sqrt(length(row)), up), scale);
            }
        }
        let found: &[T] = l.numbers(lengths);
        let mut places = [[0u8; LANES_SIDE]; MOST_LANES];
        for lane in 0..count {
            order(l, lengths, lane, true, &mut places[lane][..k]);
            for (to, &i) in self.s[lane * k..][..k].iter_mut().zip(&places[lane]) {
                *to = found[usize::from(i) * V::N + lane];
            }
        }
        if let Some((u, vh)) = self.vectors {
            let (of_u, of_v) = if m > n { (w, turned) } else { (turned, w) };
            rows(l, of_u, by_matrix, count, k * m);
            for lane in 0..count {
                let from = &by_matrix[lane * k * m..][..k * m];
                as_columns(from, &places[lane][..k], &mut u[lane * k * m..][..k * m]);
            }
            rows(l, of_v, by_matrix, count, k * n);
            for lane in 0..count {
                let from = &by_matrix[lane * k * n..][..k * n];
                as_rows(from, &places[lane][..k], &mut vh[lane * k * n..][..k * n]);
            }
        }
        missed
    }
}

/// The sum of products, in four sums so that none waits for the other.
#[inline(always)]
fn product<V: Lanes>(l: Simd<V>, x: &[V], y: &[V]) -> V {
    let mut sums = [l.splat(<V::T as Field>::ZERO); 4];
    let (mut x, mut y) = (x.chunks_exact(4), y.chunks_exact(4));
    for (x, y) in (&mut x).zip(&mut y) {
        for ((s, x), y) in sums.iter_mut().zip(x).zip(y) {
            *s = l.mul_add(*x, *y, *s);
        }
    }
    for ((s, x), y) in sums.iter_mut().zip(x.remainder()).zip(y.remainder()) {
        *s = l.mul_add(*x, *y, *s);
    }
    l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3]))
}

/// Singular values of matrices of `m` rows and `n` columns, descending, and, where there is a place for them, as many
/// left vectors (columns) and right vectors (rows).
pub(crate) fn svd<T: Batched>(
    a: &[T],
    shape: (usize, usize),
    s: &mut [T::R],
    vectors: Option<(&mut [T], &mut [T])>,
    work: &mut Scratch<T>,
) -> Missed {
    let work = Svd {
        a,
        shape,
        s,
        vectors,
        work,
    };
    T::side_by_side(work)
}
