//! Eigenvalues, singular values, and functions of matrices.

use faer::{Mat, MatMut, MatRef};
use torsh_core::kernel::HostCall;
use torsh_core::{Result, attrs};

use super::{Batch, check_finite, convert, converted, of_matrix, part, parts, shapes_differ};
use crate::kernels::batch::{Parts, each};
use crate::kernels::field::{Field, Real};
use crate::kernels::spectral::{Eig, Eigh, Svd};
use crate::kernels::{factor, solve};

pub(crate) fn eigh<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgEigh { upper, vectors } = c.attrs()?;
    let b = Batch::square(c.input_shape(0)?)?;
    let (n, size) = (b.rows, b.size());
    let a = c.input::<T>(0)?;
    let values = parts::<T::R>(c, 0, b.count, n)?;
    let columns = match vectors {
        true => parts::<T>(c, 1, b.count, size)?,
        false => Parts::new(&mut [], 0),
    };
    let outs = (values, columns, Parts::none(), Parts::none());
    let workspace = || (Eigh::<W>::new(n, vectors), Vec::new());
    each(
        b.count,
        4 * b.cubic(),
        outs,
        workspace,
        |i, (w, wide), (values, columns, _, _)| {
            let a = part(&a, i, size);
            check_finite(a, i, b.count)?;
            w.run(converted(a, wide), upper)
                .map_err(|e| of_matrix(e, i, b.count))?;
            values
                .iter_mut()
                .enumerate()
                .for_each(|(k, v)| *v = convert(w.s(k)));
            if let Some(u) = w.u().filter(|_| n > 0) {
                copy_converted(u, columns);
            }
            Ok(())
        },
    )
}

pub(crate) fn svd<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgSvd {
        full_matrices,
        vectors,
    } = c.attrs()?;
    let b = Batch::of(c.input_shape(0)?)?;
    let (m, n, k) = (b.rows, b.cols, b.rows.min(b.cols));
    let (p, q) = if full_matrices { (m, n) } else { (k, k) };
    let a = c.input::<T>(0)?;
    let s = parts::<T::R>(c, usize::from(vectors), b.count, k)?;
    let (u, vh) = match vectors {
        true => (
            parts::<T>(c, 0, b.count, m * p)?,
            parts::<T>(c, 2, b.count, q * n)?,
        ),
        false => (Parts::new(&mut [], 0), Parts::new(&mut [], 0)),
    };
    let workspace = || {
        (
            Svd::<W>::new(m, n, vectors.then_some(full_matrices)),
            Vec::new(),
        )
    };
    each(
        b.count,
        6 * b.cubic(),
        (s, u, vh, Parts::none()),
        workspace,
        |i, (w, wide), (s, u, vh, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            w.run(converted(a, wide))
                .map_err(|e| of_matrix(e, i, b.count))?;
            s.iter_mut()
                .enumerate()
                .for_each(|(j, v)| *v = convert(w.s(j)));
            if let Some(from) = w.u().filter(|_| m * p > 0) {
                copy_converted(from, u);
            }
            if let Some(from) = w.v().filter(|_| q * n > 0) {
                for j in 0..n {
                    for l in 0..q {
                        vh[l * n + j] = convert(Field::conj(from[(j, l)]));
                    }
                }
            }
            Ok(())
        },
    )
}

pub(crate) fn eig<T: Eig, W: Eig>(c: &mut HostCall<'_>) -> Result<()> {
    let vectors = c.attrs::<attrs::LinalgEig>()?.vectors;
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let values = parts::<T::C>(c, 0, b.count, n)?;
    let columns = match vectors {
        true => parts::<T::C>(c, 1, b.count, b.size())?,
        false => Parts::new(&mut [], 0),
    };
    let outs = (values, columns, Parts::none(), Parts::none());
    let workspace = || (Mat::<W>::zeros(n, n), Vec::<W>::new());
    each(
        b.count,
        20 * b.cubic(),
        outs,
        workspace,
        |i, (w, wide), (values, columns, _, _)| {
            let a = part(&a, i, b.size());
            if n == 0 {
                return Ok(());
            }
            check_finite(a, i, b.count)?;
            w.copy_from(MatRef::from_row_major_slice(converted(a, wide), n, n));
            let scale = factor::scale_to_one(w.as_mut());
            let (found, u) = W::eig(w.as_ref(), vectors).map_err(|e| of_matrix(e, i, b.count))?;
            for (to, v) in values.iter_mut().zip(found) {
                *to = convert(v.scaled(scale));
            }
            if let Some(u) = u {
                copy_converted(u.as_ref(), columns);
            }
            Ok(())
        },
    )
}

pub(crate) fn matrix_exp<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let a = c.input::<T>(0)?;
    let out = parts::<T>(c, 0, b.count, b.size())?;
    let outs = (out, Parts::none(), Parts::none(), Parts::none());
    let workspace = || (Vec::new(), vec![W::ZERO; b.size()]);
    each(
        b.count,
        20 * b.cubic(),
        outs,
        workspace,
        |i, (wide, result), (out, _, _, _)| {
            solve::exponential(converted(part(&a, i, b.size()), wide), b.rows, result);
            for (to, v) in out.iter_mut().zip(result.iter()) {
                *to = convert(*v);
            }
            Ok(())
        },
    )
}

/// Writes a matrix row-major, in another precision.
fn copy_converted<A: Field, B: Field>(from: MatRef<'_, A>, to: &mut [B]) {
    let n = from.ncols();
    for (i, row) in to.chunks_exact_mut(n.max(1)).enumerate() {
        for (j, v) in row.iter_mut().enumerate() {
            *v = convert(from[(i, j)]);
        }
    }
}

pub(crate) fn polar<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::of(c.input_shape(0)?)?;
    let (m, n) = (b.rows, b.cols);
    if m < n {
        return Err(shapes_differ());
    }
    let a = c.input::<T>(0)?;
    let u = parts::<T>(c, 0, b.count, b.size())?;
    let h = parts::<T>(c, 1, b.count, n * n)?;
    let outs = (u, h, Parts::none(), Parts::none());
    let workspace = || Svd::<T>::new(m, n, Some(false));
    each(
        b.count,
        8 * b.cubic(),
        outs,
        workspace,
        |i, w, (u, h, _, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            w.run(a).map_err(|e| of_matrix(e, i, b.count))?;
            let (Some(left), Some(right)) = (w.u(), w.v()) else {
                return Ok(());
            };
            if n == 0 {
                return Ok(());
            }
            let right_h = solve::adjoint(right);
            solve::product(
                MatMut::from_row_major_slice_mut(u, m, n),
                left,
                right_h.as_ref(),
            );
            let scaled = Mat::from_fn(n, n, |i, j| right[(i, j)].scaled(w.s(j)));
            let mut whole = Mat::<T>::zeros(n, n);
            solve::product(whole.as_mut(), scaled.as_ref(), right_h.as_ref());
            hermitian_part(whole.as_ref(), h);
            Ok(())
        },
    )
}

/// Writes the mean of a matrix and its conjugate transpose.
fn hermitian_part<T: Field>(a: MatRef<'_, T>, to: &mut [T]) {
    let n = a.nrows();
    let half = T::R::of_f64(0.5);
    for i in 0..n {
        for j in 0..n {
            to[i * n + j] = (a[(i, j)] + Field::conj(a[(j, i)])).scaled(half);
        }
    }
}

pub(crate) fn matrix_sqrth<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let root = parts::<T>(c, 0, b.count, b.size())?;
    let outs = (root, Parts::none(), Parts::none(), Parts::none());
    let workspace = || Eigh::<T>::new(n, true);
    each(
        b.count,
        6 * b.cubic(),
        outs,
        workspace,
        |i, w, (root, _, _, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            w.run(a, false).map_err(|e| of_matrix(e, i, b.count))?;
            let Some(u) = w.u() else {
                return Ok(());
            };
            let scaled = Mat::from_fn(n, n, |i, j| {
                u[(i, j)].scaled(num_traits::Float::sqrt(w.s(j)))
            });
            let mut whole = Mat::<T>::zeros(n, n);
            solve::product(whole.as_mut(), scaled.as_ref(), solve::adjoint(u).as_ref());
            hermitian_part(whole.as_ref(), root);
            Ok(())
        },
    )
}
