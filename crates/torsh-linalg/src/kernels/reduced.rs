//! Eigenvalues and singular values of one real matrix: our own reductions to a tridiagonal matrix, and what solves that.
//!
//! The eigenvectors of a tridiagonal matrix come from divide and conquer. The singular vectors of a float32 matrix `Q B P^T`
//! come from the eigenvectors `V` of `B^T B` in float64: what is lost of the smallest singular values, about 1e-8 of the
//! largest one, is less than the reduction in float32 loses. The left vectors are `B V` divided by the singular values. Those
//! of small values are made orthogonal to one another, and where the matrix has a large null space, the result is left to the
//! general algorithm.

use faer::Mat;
use faer::diag::Diag;

use super::blocked::{Bidiagonal, Blocked, Looped, Loops, Reflectors, Tridiagonal, transposed};
use super::divide::{self, line};
use super::field::{Field, Real};
use super::matrix_factor::scale_slice;
use super::tridiagonal::{self, Precision};
use crate::kernels::tuning::{TALL, TRANSPOSE_TILE};

/// Below this part of the largest singular value, left vectors are made orthogonal to one another: `B^T B` has told their
/// values apart by less than the digits of float32.
const SMALL: f64 = 1e-3;

/// Below this part of the largest one, they are made orthogonal to all: rounding of the largest ones is seen in them.
const TINY: f64 = 1e-6;

/// The positions of numbers in ascending order.
fn order(d: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..d.len()).collect();
    order.sort_unstable_by(|&i, &j| d[i].total_cmp(&d[j]));
    order
}

/// Eigenvectors, as rows that are `ld` apart, and their order.
struct Rows<T> {
    z: Vec<T>,
    ld: usize,
    order: Vec<usize>,
}

impl<T> Rows<T> {
    /// The eigenvector of the `k`-th value in ascending order, with what is behind it.
    fn row(&self, k: usize) -> &[T] {
        &self.z[self.order[k] * self.ld..][..self.ld]
    }
}

/// The eigenvectors of a tridiagonal matrix; `d` becomes the eigenvalues in the order of the rows. Nothing where it does not
/// converge.
fn eigenvectors<T: Blocked + Real>(
    d: &mut [f64],
    e: &mut [f64],
    precision: Precision,
) -> Option<Rows<T>> {
    let ld = line(d.len());
    let mut z = vec![<T as Field>::ZERO; d.len() * ld];
    let done = divide::vectors(d, e, &mut z, ld, precision);
    done.then(|| Rows {
        z,
        ld,
        order: order(d),
    })
}

/// Both triangles of a symmetric matrix of which one is given.
fn symmetric<T: Copy>(a: &[T], n: usize, upper: bool) -> Vec<T> {
    let mut out = a.to_vec();
    for top in (0..n).step_by(TRANSPOSE_TILE) {
        for left in (0..=top).step_by(TRANSPOSE_TILE) {
            for i in top..(top + TRANSPOSE_TILE).min(n) {
                for j in left..(left + TRANSPOSE_TILE).min(i) {
                    match upper {
                        true => out[i * n + j] = out[j * n + i],
                        false => out[j * n + i] = out[i * n + j],
                    }
                }
            }
        }
    }
    out
}

/// The eigenvalues, ascending, and the eigenvectors, as columns, of a symmetric matrix of finite numbers, of which one
/// triangle is read. Whether the iteration converged.
pub(crate) fn eigh<T: Blocked + Real>(
    (a, n): (&[T], usize),
    upper: bool,
    values: &mut Diag<T>,
    u: Option<&mut Mat<T>>,
) -> bool {
    let mut full = symmetric(a, n, upper);
    let scale = scale_slice(&mut full);
    let mut reduced = Tridiagonal::new(full, n, u.is_some());
    let (mut d, mut e) = (
        std::mem::take(&mut reduced.d),
        std::mem::take(&mut reduced.e),
    );
    let mut write = |k: usize, v: f64| {
        values.as_mut().column_vector_mut()[k] = T::of_f64(v) * scale;
    };
    let precision = Precision::new(T::EPS.wide());
    let Some(u) = u else {
        let done = tridiagonal::values(&mut d, &mut e, precision);
        d.sort_unstable_by(f64::total_cmp);
        d.iter().enumerate().for_each(|(k, v)| write(k, *v));
        return done;
    };
    let Some(mut rows) = eigenvectors::<T>(&mut d, &mut e, precision) else {
        return false;
    };
    reduced.apply(&mut rows.z, rows.ld, n);
    for k in 0..n {
        write(k, d[rows.order[k]]);
        u.col_as_slice_mut(k).copy_from_slice(&rows.row(k)[..n]);
    }
    true
}

/// Makes a vector orthogonal to lines, and its length 1.
struct Orthogonal<'a> {
    lines: &'a [f64],
    ld: usize,
    vector: &'a mut [f64],
}

impl Looped<f64> for Orthogonal<'_> {
    /// The length before it became 1.
    type Output = f64;

    #[inline(always)]
    fn run<O: Loops<f64>>(self, o: O) -> f64 {
        let mut dots = vec![0.0; self.lines.len() / self.ld];
        // The second time is for the rounding of the first.
        for _ in 0..2 {
            o.dots(&mut dots, self.lines, self.ld, self.vector);
            o.combine(self.vector, self.lines, self.ld, &dots);
        }
        let mut square = [0.0];
        o.dots(&mut square, self.vector, 0, self.vector);
        let length = square[0].sqrt();
        if length > 0.0 {
            o.scale(self.vector, 1.0 / length);
        }
        length
    }
}

/// The singular values and left vectors of a bidiagonal matrix by its right ones, which are `right(0)`, `right(1)`, .. in
/// descending order of the values. The vectors are lines of `n` numbers. Nothing where many values are tiny.
fn left_vectors<'a>(
    (d, e): (&[f64], &[f64]),
    right: impl Fn(usize) -> &'a [f64],
) -> Option<(Vec<f64>, Vec<f64>)> {
    let n = d.len();
    let (mut values, mut left) = (vec![0.0; n], vec![0.0; n * n]);
    let (mut first_small, mut tiny) = (n, 0);
    for k in 0..n {
        let z = right(k);
        let (known, rest) = left.split_at_mut(k * n);
        let vector = &mut rest[..n];
        for i in 0..n {
            let after = if i + 1 < n { e[i] * z[i + 1] } else { 0.0 };
            vector[i] = d[i] * z[i] + after;
        }
        let value = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        // Rounding may have changed the order of values that are as good as equal.
        values[k] = match k {
            0 => value,
            _ => f64::min(values[k - 1], value),
        };
        if value > 0.0 {
            vector.iter_mut().for_each(|v| *v /= value);
        }
        if value >= SMALL * values[0] && value > 0.0 {
            continue;
        }
        first_small = first_small.min(k);
        let mut from = first_small;
        if !(value >= TINY * values[0] && value > 0.0) {
            tiny += 1;
            from = 0;
        }
        if tiny > 16 + n / 8 {
            return None;
        }
        // A vector that was all rounding may be a combination of the others: then any direction will do.
        for other in 0..=n {
            let length = f64::looped(Orthogonal {
                lines: &known[from * n..],
                ld: n,
                vector,
            });
            if length > 0.01 {
                break;
            }
            vector.fill(0.0);
            vector[other % n] = 1.0;
            from = 0;
        }
    }
    Some((values, left))
}

/// What a decomposition of a float32 matrix is written to.
pub(crate) struct Singular<'a> {
    pub s: &'a mut Diag<f32>,
    pub u: Option<&'a mut Mat<f32>>,
    pub v: Option<&'a mut Mat<f32>>,
}

/// The singular values, descending, and the singular vectors, as columns, of a row-major matrix of finite numbers. Nothing
/// is said where it is better left to another algorithm.
pub(crate) fn svd((a, m, n): (&[f32], usize, usize), out: Singular<'_>) -> Option<()> {
    let Singular { s, u, v } = out;
    if m < n {
        let turned = transposed(a, m, n);
        return tall((turned, n, m), Singular { s, u: v, v: u });
    }
    tall((a.to_vec(), m, n), Singular { s, u, v })
}

/// As [`svd`], of no fewer rows than columns.
fn tall((mut a, m, n): (Vec<f32>, usize, usize), out: Singular<'_>) -> Option<()> {
    let mut scale = f64::from(scale_slice(&mut a));
    let mut q = None;
    let mut rows = m;
    if m >= TALL * n {
        let reflectors = Reflectors::new(a, m, n);
        scale *= f64::from(reflectors.scale);
        a = vec![0.0; n * n];
        for i in 0..n {
            (i..n).for_each(|j| a[i * n + j] = reflectors.r(i, j));
        }
        rows = n;
        q = Some(reflectors);
    }
    let reduced = Bidiagonal::new(a, (rows, n), out.u.is_some());
    let (d, e) = (&reduced.d, &reduced.e);
    let before = |i: usize| if i > 0 { e[i - 1] } else { 0.0 };
    let mut squares: Vec<f64> = (0..n)
        .map(|i| d[i] * d[i] + before(i) * before(i))
        .collect();
    let mut beside: Vec<f64> = (1..n).map(|i| d[i - 1] * e[i - 1]).collect();
    let mut values = out.s.as_mut().column_vector_mut();
    let (Some(u), Some(v)) = (out.u, out.v) else {
        let done = tridiagonal::values(&mut squares, &mut beside, Precision::of_squares());
        squares.sort_unstable_by(f64::total_cmp);
        for (k, square) in squares.iter().rev().enumerate() {
            values[k] = (square.max(0.0).sqrt() * scale) as f32;
        }
        return done.then_some(());
    };
    let found = eigenvectors::<f64>(&mut squares, &mut beside, Precision::of_squares())?;
    let vectors = u.ncols();
    let (wide, high) = (line(n), line(m));
    let mut right = vec![0f32; n * wide];
    let mut left = vec![0f32; vectors * high];
    let (sizes, exact) = left_vectors((d, e), |k| &found.row(n - 1 - k)[..n])?;
    let narrow = |to: &mut [f32], from: &[f64]| {
        to.iter_mut().zip(from).for_each(|(to, v)| *to = *v as f32);
    };
    for k in 0..n {
        values[k] = (sizes[k] * scale) as f32;
        narrow(&mut right[k * wide..], &found.row(n - 1 - k)[..n]);
        narrow(&mut left[k * high..], &exact[k * n..][..n]);
    }
    (n..vectors).for_each(|k| left[k * high + k] = 1.0);
    reduced.apply_right(&mut right, wide, n);
    match q {
        None => reduced.apply_left(&mut left, high, vectors),
        Some(q) => {
            reduced.apply_left(&mut left, high, n);
            q.apply_to_rows(&mut left, high, vectors);
        }
    }
    for k in 0..vectors {
        u.col_as_slice_mut(k)
            .copy_from_slice(&left[k * high..][..m]);
    }
    for k in 0..n {
        v.col_as_slice_mut(k)
            .copy_from_slice(&right[k * wide..][..n]);
    }
    Some(())
}
