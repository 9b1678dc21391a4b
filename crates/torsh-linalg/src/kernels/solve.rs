//! Least squares, pseudoinverses and exponentials of one matrix.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use num_traits::Float;
use torsh_core::attrs::LstsqDriver;
use torsh_core::{Result, TorshError};

use super::factor::{self, Reflectors, finite};
use super::field::{Field, Real};
use super::spectral::{Eigh, Svd};

/// The product of two matrices.
pub(crate) fn product<T: Field>(to: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    matmul(to, Accum::Replace, a, b, T::ONE, Par::Seq);
}

/// The conjugate transpose as a matrix of its own.
pub(crate) fn adjoint<T: Field>(a: MatRef<'_, T>) -> Mat<T> {
    Mat::from_fn(a.ncols(), a.nrows(), |i, j| Field::conj(a[(j, i)]))
}

/// Solves the least squares problem of row-major `a` (`m` by `n`) and `b` (`m` by `cols`): writes the solution `x` (`n` by
/// `cols`), and the singular values where the driver has them; returns the rank.
pub(crate) fn lstsq<T: Field>(
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
        return full_rank((a, m, n), (b, cols), x).map(|()| m.min(n) as i64);
    }
    let mut svd = Svd::<T>::new(m, n, Some(false));
    svd.run(a)?;
    let (Some(u), Some(v)) = (svd.u(), svd.v()) else {
        return Err(TorshError::failed("", "the decomposition has no vectors"));
    };
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

/// Least squares by QR.
fn full_rank<T: Field>(
    (a, m, n): (&[T], usize, usize),
    (b, cols): (&[T], usize),
    x: &mut [T],
) -> Result<()> {
    let k = m.min(n);
    let a = MatRef::from_row_major_slice(a, m, n);
    let tall = m >= n;
    let reflectors = match tall {
        true => Reflectors::new(a),
        false => Reflectors::new(adjoint(a).as_ref()),
    };
    if let Some(i) = (0..k).find(|&i| reflectors.packed[(i, i)] == T::ZERO) {
        return Err(TorshError::failed(
            "",
            format!("the matrix does not have full rank: R[{i}, {i}] is zero (QR)"),
        )
        .with_hint("use the driver gelsy, gelsd or gelss, which find the rank"));
    }
    let r = reflectors.packed.as_ref().submatrix(0, 0, k, k);
    let one = <T::R as Field>::ONE;
    let by = (one) / reflectors.scale;
    let b = MatRef::from_row_major_slice(b, m, cols);
    let mut x = MatMut::from_row_major_slice_mut(x, n, cols);
    if tall {
        let mut c = b.to_owned();
        reflectors.apply_adjoint(c.as_mut());
        factor::triangular(r, (true, false, false), c.as_mut().subrows_mut(0, k));
        x.copy_from(c.as_ref().subrows(0, k));
    } else {
        // A = R^H Q^H, and the shortest solution is Q R^-H b.
        let mut c = Mat::<T>::zeros(n, cols);
        c.as_mut().subrows_mut(0, k).copy_from(b);
        factor::triangular(
            r.transpose(),
            (false, false, true),
            c.as_mut().subrows_mut(0, k),
        );
        reflectors.apply(c.as_mut());
        x.copy_from(&c);
    }
    for i in 0..n {
        for j in 0..cols {
            x[(i, j)] = x[(i, j)].scaled(by);
        }
    }
    Ok(())
}

/// The pseudoinverse of row-major `a`, with singular values up to the larger of `atol` and `rtol` times the largest as 0.
pub(crate) fn pinv<T: Field>(
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
    let out = MatMut::from_row_major_slice_mut(out, n, m);
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
        product(out, scaled.as_ref(), adjoint(u).as_ref());
        return Ok(());
    }
    let mut svd = Svd::<T>::new(m, n, Some(false));
    svd.run(a)?;
    let (Some(u), Some(v)) = (svd.u(), svd.v()) else {
        return Ok(());
    };
    let cut = cut(svd.s(0));
    let scaled = Mat::from_fn(n, k, |i, j| v[(i, j)].scaled(inverse(svd.s(j), cut)));
    product(out, scaled.as_ref(), adjoint(u).as_ref());
    Ok(())
}

/// The largest 1-norm for which the diagonal Padé approximant of the order 3, 5, 7, 9, 13 has full precision (Higham,
/// 2005), in float64.
const REACH: [(usize, f64); 5] = [
    (3, 1.495_585_217_958_292e-2),
    (5, 2.539_398_330_063_23e-1),
    (7, 9.504_178_996_162_932e-1),
    (9, 2.097_847_961_257_068),
    (13, 5.371_920_351_148_152),
];

/// The exponential of row-major `a`, by scaling and squaring.
pub(crate) fn exponential<T: Field>(a: &[T], n: usize, out: &mut [T]) {
    if n == 0 {
        return;
    }
    let mut out = MatMut::from_row_major_slice_mut(out, n, n);
    if !finite(a) {
        let nan = T::of(<T::R as Float>::nan());
        out.fill(nan);
        return;
    }
    let mut x = MatRef::from_row_major_slice(a, n, n).to_owned();
    let norm = (0..n)
        .map(|j| (0..n).map(|i| x[(i, j)].modulus().wide()).sum::<f64>())
        .fold(0.0, f64::max);
    let (mut order, last) = REACH[REACH.len() - 1];
    let mut squarings = 0i32;
    match REACH.iter().find(|(_, limit)| norm <= *limit) {
        Some((m, _)) => order = *m,
        None => squarings = ((norm / last).log2().ceil() as i32).clamp(0, 1024),
    }
    if squarings > 0 {
        // Two steps, so that no power of two underflows.
        for half in [squarings / 2, squarings - squarings / 2] {
            let by = <T::R as Real>::of_f64(0.5f64.powi(half));
            for j in 0..n {
                for i in 0..n {
                    x[(i, j)] = x[(i, j)].scaled(by);
                }
            }
        }
    }
    // p(x) = v + u, q(x) = v - u, with u odd: coefficients of the approximant of order m.
    let mut c = vec![1f64; order + 1];
    for k in 1..=order {
        c[k] = c[k - 1] * (order + 1 - k) as f64 / (k * (2 * order + 1 - k)) as f64;
    }
    let real = |v: f64| T::of(<T::R as Real>::of_f64(v));
    let mut square = Mat::<T>::zeros(n, n);
    product(square.as_mut(), x.as_ref(), x.as_ref());
    // Horner's rule in the square.
    let horner = |first: usize| {
        let mut top = first;
        while top + 2 <= order {
            top += 2;
        }
        let mut p = Mat::<T>::zeros(n, n);
        p.as_mut()
            .diagonal_mut()
            .column_vector_mut()
            .fill(real(c[top]));
        let mut next = Mat::<T>::zeros(n, n);
        while top >= first + 2 {
            top -= 2;
            product(next.as_mut(), p.as_ref(), square.as_ref());
            std::mem::swap(&mut p, &mut next);
            for i in 0..n {
                p[(i, i)] += real(c[top]);
            }
        }
        p
    };
    let even = horner(0);
    let odd = horner(1);
    let mut u = Mat::<T>::zeros(n, n);
    product(u.as_mut(), x.as_ref(), odd.as_ref());
    let mut q: Vec<T> = Vec::with_capacity(n * n);
    let mut p: Vec<T> = Vec::with_capacity(n * n);
    for i in 0..n {
        for j in 0..n {
            q.push(even[(i, j)] - u[(i, j)]);
            p.push(even[(i, j)] + u[(i, j)]);
        }
    }
    let mut pivots = vec![0; n];
    factor::lu(&mut q, n, n, &mut pivots);
    factor::lu_solve((&q, &pivots), &mut p, n, n, false);
    let mut result = MatRef::from_row_major_slice(&p, n, n).to_owned();
    for _ in 0..squarings {
        product(square.as_mut(), result.as_ref(), result.as_ref());
        std::mem::swap(&mut square, &mut result);
    }
    out.copy_from(&result);
}
