//! Solutions of linear equations, exact ones and those of least squares.

use faer::{Mat, MatMut, MatRef};
use torsh_core::Result;
use torsh_core::kernel::HostCall;

use super::{
    Batch, check_finite, expect, of_matrix, part, part_mut, parts, parts_of, shapes_differ, width,
};
use crate::attrs;
use crate::kernels::batch::{Parts, blocks, each};
use crate::kernels::blocked::transpose;
use crate::kernels::field::Field;
use crate::kernels::lanes::{self, Batched, Missed, Scratch, Sides};
use crate::kernels::matrix_spectral::{Eigh, Spectral};
use crate::kernels::{ldl, matrix_factor, matrix_solve};

/// The right-hand sides of `A X = B`, or of `X A = B` transposed, in place of the solutions.
fn sides(x: &Batch, left: bool, n: usize) -> Result<usize> {
    let (own, cols) = if left {
        (x.rows, x.cols)
    } else {
        (x.cols, x.rows)
    };
    match own == n {
        true => Ok(cols),
        false => Err(shapes_differ()),
    }
}

/// Solves for `x`, which holds `b`: `solve` does so for `n` rows of right-hand sides, from the left.
fn from_left<T: Batched>(
    x: &mut [T],
    shape: Batch,
    left: bool,
    work: &mut Vec<T>,
    solve: impl FnOnce(&mut [T]),
) {
    if left {
        return solve(x);
    }
    work.clear();
    work.resize(x.len(), T::ZERO);
    transpose(x, (shape.rows, shape.cols), work);
    solve(work);
    transpose(work, (shape.cols, shape.rows), x);
}

/// The factors, pivots and right-hand sides of a batch, in place of whose solutions `solve` writes.
fn with_factors<T: Batched>(
    c: &mut HostCall<'_>,
    left: bool,
    solve: impl Fn((&[T], &[i32]), &mut [T], (usize, usize)) + Sync,
) -> Result<()> {
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(2)?)?,
    );
    let (n, cols) = (b.rows, sides(&rhs, left, b.rows)?);
    let (factors, pivots, y) = (c.input::<T>(0)?, c.input::<i32>(1)?, c.input::<T>(2)?);
    expect(pivots.len(), b.count, n)?;
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let outs = (x, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        n * n * cols + 50,
        outs,
        Vec::new,
        |i, work, (x, _, _, _)| {
            x.copy_from_slice(part(&y, i, rhs.size()));
            let of = (part(&factors, i, b.size()), part(&pivots, i, n));
            from_left(x, rhs, left, work, |x| solve(of, x, (n, cols)));
            Ok(())
        },
    )
}

pub(crate) fn lu_solve<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgLuSolve { left, adjoint } = c.attrs()?;
    with_factors::<T>(c, left, |factors, x, (n, cols)| match left {
        true => matrix_factor::lu_solve(factors, x, n, cols, adjoint),
        false => lu_solve_transposed(factors, x, n, cols, adjoint),
    })
}

/// Solves `A^T X = B`, or `conj(A) X = B`, from LU factors.
fn lu_solve_transposed<T: Batched>(
    (lu, pivots): (&[T], &[i32]),
    x: &mut [T],
    n: usize,
    cols: usize,
    adjoint: bool,
) {
    // What is conjugated on both sides is solved with the conjugate transpose, or with the matrix itself.
    x.iter_mut().for_each(|v| *v = Field::conj(*v));
    matrix_factor::lu_solve((lu, pivots), x, n, cols, !adjoint);
    x.iter_mut().for_each(|v| *v = Field::conj(*v));
}

/// The matrices of a call and its right-hand sides, how many of them a matrix has, and how many systems are solved
/// together.
fn systems<T: Batched>(c: &HostCall<'_>, left: bool) -> Result<(Batch, Batch, usize, usize)> {
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(1)?)?,
    );
    let cols = sides(&rhs, left, b.rows)?;
    let width = match left && cols > 0 {
        true => width::<T>(b),
        false => 1,
    };
    Ok((b, rhs, cols, width))
}

/// Solutions, or, where the call has no right-hand sides and two results, inverses.
pub(crate) fn solve_general<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let left = c.attrs::<attrs::LinalgSolve>()?.left;
    if c.outputs() == 2 {
        return inverse::<T>(c);
    }
    let (b, rhs, cols, width) = systems::<T>(c, left)?;
    let n = b.rows;
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let lu = parts::<T>(c, 1, b.count, b.size())?;
    let pivots = parts::<i32>(c, 2, b.count, n)?;
    let info = parts::<i32>(c, 3, b.count, 1)?;
    blocks(
        (b.count, width),
        b.cubic() + n * n * cols,
        (x, lu, pivots, info),
        || (Scratch::new(), Vec::new()),
        |of, (lanes, work), (x, lu, pivots, info)| {
            let (a, y) = (
                parts_of(&a, of.clone(), b.size()),
                parts_of(&y, of.clone(), rhs.size()),
            );
            let missed = match width {
                1 => Missed::MAX,
                _ => {
                    let factors = Some((&mut *lu, &mut *pivots));
                    lanes::solve((a, n), Sides::Of(y, cols), x, factors, info, lanes)
                }
            };
            for i in super::left(missed, of.len()) {
                let (lu, pivots) = (part_mut(lu, i, b.size()), part_mut(pivots, i, n));
                lu.copy_from_slice(part(a, i, b.size()));
                info[i] = matrix_factor::lu(lu, n, n, pivots);
                let x = part_mut(x, i, rhs.size());
                x.copy_from_slice(part(y, i, rhs.size()));
                from_left(x, rhs, left, work, |x| match left {
                    true => matrix_factor::lu_solve((lu, pivots), x, n, cols, false),
                    false => lu_solve_transposed((lu, pivots), x, n, cols, false),
                });
            }
            Ok(())
        },
    )
}

fn inverse<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let (n, size) = (b.rows, b.size());
    let a = c.input::<T>(0)?;
    let x = parts::<T>(c, 0, b.count, size)?;
    let info = parts::<i32>(c, 1, b.count, 1)?;
    let width = width::<T>(b);
    blocks(
        (b.count, width),
        3 * b.cubic(),
        (x, info, Parts::none(), Parts::none()),
        || (Scratch::new(), Vec::new(), vec![0; n]),
        |of, (lanes, lu, pivots), (x, info, _, _)| {
            let a = parts_of(&a, of.clone(), size);
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::solve((a, n), Sides::Identity, x, None, info, lanes),
            };
            for i in super::left(missed, of.len()) {
                lu.clear();
                lu.extend_from_slice(part(a, i, size));
                info[i] = matrix_factor::lu(lu, n, n, pivots);
                // The results are zeros.
                let x = part_mut(x, i, size);
                x.fill(T::ZERO);
                (0..n).for_each(|k| x[k * n + k] = T::ONE);
                matrix_factor::lu_solve((lu, pivots), x, n, n, false);
            }
            Ok(())
        },
    )
}

pub(crate) fn solve_triangular<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    } = c.attrs()?;
    let (b, rhs, cols, width) = systems::<T>(c, left)?;
    let n = b.rows;
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let outs = (x, Parts::none(), Parts::none(), Parts::none());
    blocks(
        (b.count, width),
        n * n * cols / 2 + 50,
        outs,
        || (Scratch::new(), Vec::new()),
        |of, (lanes, work), (x, _, _, _)| {
            let (a, y) = (
                parts_of(&a, of.clone(), b.size()),
                parts_of(&y, of.clone(), rhs.size()),
            );
            let kind = (upper, unitriangular);
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::triangular((a, n), kind, (y, cols), x, lanes),
            };
            for i in super::left(missed, of.len()) {
                let x = part_mut(x, i, rhs.size());
                x.copy_from_slice(part(y, i, rhs.size()));
                let a = part(a, i, b.size());
                from_left(x, rhs, left, work, |x| {
                    matrix_factor::solve_triangular((a, n), kind, (!left, false), x, n, cols);
                });
            }
            Ok(())
        },
    )
}

pub(crate) fn ldl_solve<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let hermitian = c.attrs::<attrs::LinalgLdl>()?.hermitian;
    with_factors::<T>(c, true, |factors, x, size| {
        ldl::solve(factors, x, size, hermitian);
    })
}

pub(crate) fn lstsq<T: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgLstsq { rcond, driver } = c.attrs()?;
    let (b, rhs) = (Batch::of(c.input_shape(0)?)?, Batch::of(c.input_shape(1)?)?);
    let (m, n, cols) = (b.rows, b.cols, rhs.cols);
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    if rhs.rows != m {
        return Err(shapes_differ());
    }
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, n * cols)?;
    let rank = parts::<i64>(c, 1, b.count, 1)?;
    let values = parts::<T::R>(c, 2, b.count, m.min(n))?;
    each(
        b.count,
        6 * b.cubic(),
        (x, rank, values, Parts::none()),
        || (),
        |i, (), (x, rank, values, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            let from = (part(&y, i, rhs.size()), cols);
            rank[0] = matrix_solve::lstsq((a, m, n), from, (rcond, driver), x, values)
                .map_err(|e| of_matrix(e, i, b.count))?;
            Ok(())
        },
    )
}

pub(crate) fn pinv<T: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
    let hermitian = c.attrs::<attrs::LinalgPinv>()?.hermitian;
    let b = Batch::of(c.input_shape(0)?)?;
    let (m, n) = (b.rows, b.cols);
    if hermitian && m != n {
        return Err(shapes_differ());
    }
    let a = c.input::<T>(0)?;
    let (atol, rtol) = (c.input::<T::R>(1)?, c.input::<T::R>(2)?);
    expect(atol.len(), b.count, 1)?;
    expect(rtol.len(), b.count, 1)?;
    let out = parts::<T>(c, 0, b.count, b.size())?;
    let outs = (out, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        8 * b.cubic(),
        outs,
        || (),
        |i, (), (out, _, _, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            matrix_solve::pinv((a, m, n), (atol[i], rtol[i]), hermitian, out)
                .map_err(|e| of_matrix(e, i, b.count))
        },
    )
}

pub(crate) fn sylvester<T: Spectral>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(y.len(), b.count, b.size())?;
    let x = parts::<T>(c, 0, b.count, b.size())?;
    let outs = (x, Parts::none(), Parts::none(), Parts::none());
    let workspace = || Eigh::<T>::new(n, true);
    each(
        b.count,
        10 * b.cubic(),
        outs,
        workspace,
        |i, w, (x, _, _, _)| {
            let a = part(&a, i, b.size());
            check_finite(a, i, b.count)?;
            w.run(a, false).map_err(|e| of_matrix(e, i, b.count))?;
            let Some(u) = w.u().filter(|_| n > 0) else {
                return Ok(());
            };
            let u = u.as_ref();
            let uh = matrix_solve::adjoint(u);
            let (mut first, mut second) = (Mat::<T>::zeros(n, n), Mat::<T>::zeros(n, n));
            let y = MatRef::from_row_major_slice(part(&y, i, b.size()), n, n);
            matrix_solve::product(first.as_mut(), uh.as_ref(), y);
            matrix_solve::product(second.as_mut(), first.as_ref(), u);
            for i in 0..n {
                for j in 0..n {
                    second[(i, j)] = second[(i, j)].over(T::of(w.s(i) + w.s(j)));
                }
            }
            matrix_solve::product(first.as_mut(), u, second.as_ref());
            matrix_solve::product(
                MatMut::from_row_major_slice_mut(x, n, n),
                first.as_ref(),
                uh.as_ref(),
            );
            Ok(())
        },
    )
}
