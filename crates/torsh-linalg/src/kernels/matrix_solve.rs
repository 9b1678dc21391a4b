//! Least squares, pseudoinverses and exponentials of one matrix.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef};
use num_traits::Float;
use torsh_core::{Result, TorshError};

use super::batch::par;
use super::blocked::{Blocked, Reflectors, square_product};
use super::field::{Field, Real, norm};
use super::matrix_factor::{self, finite};
use super::matrix_spectral::{Eigh, Spectral, Svd};
use super::pade::Pade;
use crate::attrs::LstsqDriver;

/// The product of two matrices.
pub(crate) fn product<T: Field>(to: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    let par = par(a.nrows() * a.ncols() * b.ncols() / 2);
    matmul(to, Accum::Replace, a, b, T::ONE, par);
}

/// The conjugate transpose as a matrix of its own.
pub(crate) fn adjoint<T: Field>(a: MatRef<'_, T>) -> Mat<T> {
    Mat::from_fn(a.ncols(), a.nrows(), |i, j| Field::conj(a[(j, i)]))
}

/// Solves the least squares problem of row-major `a` (`m` by `n`) and `b` (`m` by `cols`): writes the solution `x` (`n` by
/// `cols`), and the singular values where the driver has them; returns the rank.
pub(crate) fn lstsq<T: Spectral>(
    (a, m, n): (&[T], usize, usize),
    (b, cols): (&[T], usize),
    (rcond, driver): (f64, LstsqDriver),
    x: &mut [T],
    values: &mut [T::R],
) -> Result<i64> {
    if m == 0 || n == 0 {
        return Ok(0);
    }
    if driver == LstsqDriver::Gels {
        let reflectors = triangle((a, m, n))?;
        full_rank(&reflectors, (m, n), (b, cols), x);
        return Ok(m.min(n) as i64);
    }
    // Without singular values to tell, QR is enough for what is surely of full rank.
    if driver == LstsqDriver::Gelsy
        && let Ok(reflectors) = triangle((a, m, n))
        && let Some((inverse, bound)) = reflectors.inverse()
        && bound.wide() * norm(inverse.iter().copied()).wide() * rcond < 1.0
    {
        full_rank(&reflectors, (m, n), (b, cols), x);
        return Ok(m.min(n) as i64);
    }
    let mut svd = Svd::<T>::new(m, n, Some(false));
    svd.run(a)?;
    let (Some(u), Some(v)) = (svd.u(), svd.v()) else {
        return Err(TorshError::failed("", "the decomposition has no vectors"));
    };
    let (u, v) = (u.as_ref(), v.as_ref());
    let k = m.min(n);
    let cut = svd.s(0) * <T::R as Real>::of_f64(rcond);
    let rank = (0..k).take_while(|&i| svd.s(i) > cut).count();
    for (i, s) in values.iter_mut().enumerate() {
        *s = svd.s(i);
    }
    let b = MatRef::from_row_major_slice(b, m, cols);
    let mut projected = Mat::<T>::zeros(rank, cols);
    product(projected.as_mut(), adjoint(u.subcols(0, rank)).as_ref(), b);
    for i in 0..rank {
        for j in 0..cols {
            projected[(i, j)] = projected[(i, j)].over(T::of(svd.s(i)));
        }
    }
    product(
        MatMut::from_row_major_slice_mut(x, n, cols),
        v.subcols(0, rank),
        projected.as_ref(),
    );
    Ok(rank as i64)
}

/// QR of a matrix, or of its conjugate transpose where that is the taller one; an error where the diagonal of R has a
/// zero.
fn triangle<T: Blocked>((a, m, n): (&[T], usize, usize)) -> Result<Reflectors<T>> {
    let reflectors = match m >= n {
        true => Reflectors::new(a.to_vec(), m, n),
        false => {
            let at = |i: usize| Field::conj(a[i % m * n + i / m]);
            Reflectors::new((0..m * n).map(at).collect(), n, m)
        }
    };
    match (0..m.min(n)).find(|&i| reflectors.r(i, i) == T::ZERO) {
        None => Ok(reflectors),
        Some(i) => Err(TorshError::failed(
            "",
            format!("the matrix does not have full rank: R[{i}, {i}] is zero (QR)"),
        )
        .with_hint("use the driver gelsy, gelsd or gelss, which find the rank")),
    }
}

/// Least squares by QR.
fn full_rank<T: Blocked>(
    reflectors: &Reflectors<T>,
    (m, n): (usize, usize),
    (b, cols): (&[T], usize),
    x: &mut [T],
) {
    let k = m.min(n);
    let by = <T::R as Field>::ONE / reflectors.scale;
    let r = reflectors.r_rows();
    // A = Q R, or where it is the wider one A = R^H Q^H, and the shortest solution is Q R^-H b.
    let mut c = b.to_vec();
    if m >= n {
        reflectors.apply(&mut c, cols, true);
        c.truncate(k * cols);
        matrix_factor::solve_triangular(r, (true, false), (false, false), &mut c, k, cols);
    } else {
        matrix_factor::solve_triangular(r, (true, false), (true, true), &mut c, k, cols);
        c.resize(n * cols, T::ZERO);
        reflectors.apply(&mut c, cols, false);
    }
    for (x, c) in x.iter_mut().zip(c) {
        *x = c.scaled(by);
    }
}

/// The pseudoinverse of row-major `a`, with singular values up to the larger of `atol` and `rtol` times the largest as 0.
pub(crate) fn pinv<T: Spectral>(
    (a, m, n): (&[T], usize, usize),
    (atol, rtol): (T::R, T::R),
    hermitian: bool,
    out: &mut [T],
) -> Result<()> {
    let k = m.min(n);
    if k == 0 {
        return Ok(());
    }
    let zero = <T::R as Field>::ZERO;
    let cut = |largest: T::R| Float::max(atol, rtol * largest);
    let inverse = |s: T::R, cut: T::R| match Float::abs(s) > cut {
        true => (<T::R as Field>::ONE) / s,
        false => zero,
    };
    if hermitian {
        let mut eigh = Eigh::<T>::new(n, true);
        eigh.run(a, false)?;
        let largest = Float::max(Float::abs(eigh.s(0)), Float::abs(eigh.s(n - 1)));
        let Some(u) = eigh.u() else {
            return Ok(());
        };
        let scaled = Mat::from_fn(n, n, |i, j| {
            u[(i, j)].scaled(inverse(eigh.s(j), cut(largest)))
        });
        let out = MatMut::from_row_major_slice_mut(out, n, m);
        product(out, scaled.as_ref(), adjoint(u.as_ref()).as_ref());
        return Ok(());
    }
    if let Ok(reflectors) = triangle((a, m, n))
        && let Some((inverse, bound)) = reflectors.inverse()
    {
        // Where every singular value is surely above the limit, none is taken as 0, and QR is enough.
        let scale = reflectors.scale;
        let least = scale / norm(inverse.iter().copied());
        if least > cut(bound * scale) {
            let mut q = vec![T::ZERO; m.max(n) * k];
            for (i, row) in q.chunks_exact_mut(k).take(k).enumerate() {
                for (j, q) in row[..=i].iter_mut().enumerate() {
                    *q = Field::conj(inverse[j * k + i]).over(T::of(scale));
                }
            }
            reflectors.apply(&mut q, k, false);
            match m >= n {
                true => {
                    for (i, row) in out.chunks_exact_mut(m).enumerate() {
                        let column = q[i..].iter().step_by(k);
                        row.iter_mut()
                            .zip(column)
                            .for_each(|(o, q)| *o = Field::conj(*q));
                    }
                }
                false => out.copy_from_slice(&q),
            }
            return Ok(());
        }
    }
    let mut svd = Svd::<T>::new(m, n, Some(false));
    svd.run(a)?;
    let (Some(u), Some(v)) = (svd.u(), svd.v()) else {
        return Ok(());
    };
    let cut = cut(svd.s(0));
    let scaled = Mat::from_fn(n, k, |i, j| v[(i, j)].scaled(inverse(svd.s(j), cut)));
    let out = MatMut::from_row_major_slice_mut(out, n, m);
    product(out, scaled.as_ref(), adjoint(u.as_ref()).as_ref());
    Ok(())
}

/// The exponential of row-major `a`, by scaling and squaring.
pub(crate) fn exponential<T: Blocked>(a: &[T], n: usize, out: &mut [T]) {
    if n == 0 {
        return;
    }
    if !finite(a) {
        out.fill(T::of(<T::R as Float>::nan()));
        return;
    }
    let norm = (0..n)
        .map(|j| (0..n).map(|i| a[i * n + j].modulus().wide()).sum::<f64>())
        .fold(0.0, f64::max);
    let Pade { order, squarings } = Pade::of::<T::R>(norm);
    let mut x = a.to_vec();
    if squarings > 0 {
        // Two steps, so that no power of two underflows.
        for half in [squarings / 2, squarings - squarings / 2] {
            let by = <T::R as Real>::of_f64(0.5f64.powi(half));
            x.iter_mut().for_each(|v| *v = v.scaled(by));
        }
    }
    let c = Pade::coefficients(order);
    let times = |a: &[T], b: &[T]| square_product(n, a, b);
    let x2 = times(&x, &x);
    let x4 = (order > 3).then(|| times(&x2, &x2));
    let x6 = x4.as_ref().filter(|_| order > 5).map(|x4| times(x4, &x2));
    // The sum of the coefficients from `first` on, every second one, times the powers 0, 2, 4 and 6.
    let sum = |first: usize, constant: bool| {
        let at = |i: usize| T::of(<T::R as Real>::of_f64(c.get(i).copied().unwrap_or(0.0)));
        let skip = usize::from(constant) * 2;
        let mut to = vec![T::ZERO; n * n];
        for (k, power) in [Some(&x2), x4.as_ref(), x6.as_ref()]
            .into_iter()
            .enumerate()
        {
            let by = at(first + skip + 2 * k);
            let Some(power) = power.filter(|_| by != T::ZERO) else {
                continue;
            };
            for (to, v) in to.iter_mut().zip(power) {
                *to += by * *v;
            }
        }
        if constant {
            (0..n).for_each(|i| to[i * n + i] += at(first));
        }
        to
    };
    // p(x) = even + odd, q(x) = even - odd. Beyond the power 7, the rest is the product with the power 6.
    let half = |first: usize| {
        let mut low = sum(first, true);
        if let Some(x6) = x6.as_ref().filter(|_| order > 7) {
            let high = times(x6, &sum(first + 8, false));
            low.iter_mut().zip(high).for_each(|(l, h)| *l += h);
        }
        low
    };
    let (mut even, odd) = (half(0), times(&x, &half(1)));
    for ((even, odd), to) in even.iter_mut().zip(&odd).zip(&mut x) {
        *to = *even + *odd;
        *even -= *odd;
    }
    let mut pivots = vec![0; n];
    matrix_factor::lu(&mut even, n, n, &mut pivots);
    matrix_factor::lu_solve((&even, &pivots), &mut x, n, n, false);
    for _ in 0..squarings {
        x = times(&x, &x);
    }
    out.copy_from_slice(&x);
}
