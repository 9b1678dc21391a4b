//! Eigenvalues, singular values, and functions of matrices.

use faer::{Mat, MatMut, MatRef};
use torsh_core::Result;
use torsh_core::kernel::HostCall;

use super::{
    Batch, check_finite, convert, converted, left, of_matrix, part, part_mut, parts, parts_of,
    shapes_differ, width,
};
use crate::attrs;
use crate::kernels::batch::{Parts, blocks, each};
use crate::kernels::field::{Field, Real};
use crate::kernels::lanes::{self, Batched, Missed, Scratch};
use crate::kernels::matrix_spectral::{Eig, Eigh, Spectral, Svd};
use crate::kernels::{matrix_factor, matrix_solve};

pub(crate) fn eigh<T: Batched, W: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
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
    let width = width::<T>(b);
    // The algorithm for one matrix has a workspace only where it is called.
    let workspace = || (Scratch::new(), None, Vec::new());
    blocks(
        (b.count, width),
        4 * b.cubic(),
        outs,
        workspace,
        |of, (lanes, one, wide), (values, columns, _, _)| {
            let of_block = parts_of(&a, of.clone(), size);
            let missed = match width {
                1 => Missed::MAX,
                _ => {
                    let columns = vectors.then_some(&mut *columns);
                    lanes::eigh((of_block, n), upper, values, columns, lanes)
                }
            };
            for i in left(missed, of.len()) {
                let a = part(of_block, i, size);
                check_finite(a, of.start + i, b.count)?;
                let w = one.get_or_insert_with(|| Eigh::<W>::new(n, vectors));
                w.run(converted(a, wide), upper)
                    .map_err(|e| of_matrix(e, of.start + i, b.count))?;
                let values = part_mut(values, i, n);
                values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(k, v)| *v = convert(w.s(k)));
                if let Some(u) = w.u().filter(|_| n > 0) {
                    copy_converted(u, part_mut(columns, i, size), wide);
                }
            }
            Ok(())
        },
    )
}

pub(crate) fn svd<T: Batched, W: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
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
    let width = match full_matrices && m != n {
        true => 1,
        false => width::<T>(b),
    };
    let workspace = || (Scratch::new(), None, Vec::new());
    blocks(
        (b.count, width),
        6 * b.cubic(),
        (s, u, vh, Parts::none()),
        workspace,
        |of, (lanes, one, wide), (s, u, vh, _)| {
            let of_block = parts_of(&a, of.clone(), b.size());
            let missed = match width {
                1 => Missed::MAX,
                _ => {
                    let sides = vectors.then_some((&mut *u, &mut *vh));
                    lanes::svd(of_block, (m, n), s, sides, lanes)
                }
            };
            for i in left(missed, of.len()) {
                let a = part(of_block, i, b.size());
                check_finite(a, of.start + i, b.count)?;
                let w = one
                    .get_or_insert_with(|| Svd::<W>::new(m, n, vectors.then_some(full_matrices)));
                w.run(converted(a, wide))
                    .map_err(|e| of_matrix(e, of.start + i, b.count))?;
                part_mut(s, i, k)
                    .iter_mut()
                    .enumerate()
                    .for_each(|(j, v)| *v = convert(w.s(j)));
                if let Some(from) = w.u().filter(|_| m * p > 0) {
                    copy_converted(from, part_mut(u, i, m * p), wide);
                }
                if let Some(from) = w.v().filter(|_| q * n > 0) {
                    for (l, row) in part_mut(vh, i, q * n).chunks_exact_mut(n).enumerate() {
                        for (to, v) in row.iter_mut().zip(from.col_as_slice(l)) {
                            *to = convert(Field::conj(*v));
                        }
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
            matrix_factor::to_columns(converted(a, wide), w);
            let scale = matrix_factor::scale_to_one(w);
            let (found, u) = W::eig(w.as_ref(), vectors).map_err(|e| of_matrix(e, i, b.count))?;
            for (to, v) in values.iter_mut().zip(found) {
                *to = convert(v.scaled(scale));
            }
            if let Some(u) = u {
                copy_converted(&u, columns, &mut Vec::new());
            }
            Ok(())
        },
    )
}

/// Computes in `W`, the wider precision for small matrices.
pub(crate) fn matrix_exp<T: Batched, W: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let (n, size) = (b.rows, b.size());
    let a = c.input::<T>(0)?;
    let out = parts::<T>(c, 0, b.count, size)?;
    let outs = (out, Parts::none(), Parts::none(), Parts::none());
    let width = width::<W>(b);
    let workspace = || (Scratch::new(), Vec::new(), vec![W::ZERO; width * size]);
    blocks(
        (b.count, width),
        20 * b.cubic(),
        outs,
        workspace,
        |of, (lanes, wide, results), (out, _, _, _)| {
            let a = converted(parts_of(&a, of.clone(), size), wide);
            let results = &mut results[..of.len() * size];
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::exponential((a, n), results, lanes),
            };
            for i in left(missed, of.len()) {
                matrix_solve::exponential(part(a, i, size), n, part_mut(results, i, size));
            }
            for (to, v) in out.iter_mut().zip(results) {
                *to = convert(*v);
            }
            Ok(())
        },
    )
}

/// Writes a matrix row-major, in another precision.
fn copy_converted<A: Field, B: Field>(from: &Mat<A>, to: &mut [B], work: &mut Vec<A>) {
    work.clear();
    work.resize(to.len(), A::ZERO);
    matrix_factor::to_rows(from, work);
    for (to, v) in to.iter_mut().zip(work) {
        *to = convert(*v);
    }
}

pub(crate) fn polar<T: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
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
            let (left, right) = (left.as_ref(), right.as_ref());
            let right_h = matrix_solve::adjoint(right);
            matrix_solve::product(
                MatMut::from_row_major_slice_mut(u, m, n),
                left,
                right_h.as_ref(),
            );
            let scaled = Mat::from_fn(n, n, |i, j| right[(i, j)].scaled(w.s(j)));
            let mut whole = Mat::<T>::zeros(n, n);
            matrix_solve::product(whole.as_mut(), scaled.as_ref(), right_h.as_ref());
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

pub(crate) fn matrix_sqrth<T: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
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
            matrix_solve::product(
                whole.as_mut(),
                scaled.as_ref(),
                matrix_solve::adjoint(u.as_ref()).as_ref(),
            );
            hermitian_part(whole.as_ref(), root);
            Ok(())
        },
    )
}
