//! Factorisations and determinants.

use torsh_core::kernel::HostCall;
use torsh_core::{Result, TorshError};

use super::{Batch, expect, left, part, part_mut, parts, parts_of, shapes_differ, width};
use crate::attrs::{self, QrMode};
use crate::kernels::batch::{Parts, blocks, each};
use crate::kernels::blocked::transpose;
use crate::kernels::field::Field;
use crate::kernels::lanes::{self, Batched, Missed, Scratch};
use crate::kernels::{ldl, matrix_factor, small};

pub(crate) fn cholesky<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let upper = c.attrs::<attrs::LinalgCholesky>()?.upper;
    let b = Batch::square(c.input_shape(0)?)?;
    let (n, size) = (b.rows, b.size());
    let a = c.input::<T>(0)?;
    let l = parts::<T>(c, 0, b.count, size)?;
    let info = parts::<i32>(c, 1, b.count, 1)?;
    let outs = (l, info, Parts::none(), Parts::none());
    let width = width::<T>(b);
    blocks(
        (b.count, width),
        b.cubic() / 3,
        outs,
        Scratch::new,
        |of, work, (l, info, _, _)| {
            let a = parts_of(&a, of.clone(), size);
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::cholesky((a, n), upper, l, work),
            };
            for i in left(missed, of.len()) {
                let (a, l) = (part(a, i, size), part_mut(l, i, size));
                match upper {
                    false => l.copy_from_slice(a),
                    true => adjoint_in(a, n, l),
                }
                info[i] = matrix_factor::cholesky(l, n);
                if upper {
                    transpose_in_place(l, n);
                }
            }
            Ok(())
        },
    )
}

/// Writes the conjugate transpose of a square matrix.
fn adjoint_in<T: Batched>(a: &[T], n: usize, to: &mut [T]) {
    transpose(a, (n, n), to);
    if T::COMPLEX {
        to.iter_mut().for_each(|v| *v = Field::conj(*v));
    }
}

/// Conjugates and transposes a square matrix.
fn transpose_in_place<T: Field>(a: &mut [T], n: usize) {
    for i in 0..n {
        a[i * n + i] = Field::conj(a[i * n + i]);
        for j in 0..i {
            let (x, y) = (a[i * n + j], a[j * n + i]);
            a[i * n + j] = Field::conj(y);
            a[j * n + i] = Field::conj(x);
        }
    }
}

pub(crate) fn lu_factor<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    if !c.attrs::<attrs::LinalgLuFactor>()?.pivot {
        return Err(TorshError::invalid(
            "",
            "LU without pivoting is not there on the CPU",
        ));
    }
    let b = Batch::of(c.input_shape(0)?)?;
    let a = c.input::<T>(0)?;
    let lu = parts::<T>(c, 0, b.count, b.size())?;
    let pivots = parts::<i32>(c, 1, b.count, b.rows.min(b.cols))?;
    let info = parts::<i32>(c, 2, b.count, 1)?;
    factors(&a, b, (lu, pivots, info, Parts::none()), |_, _, _| {})
}

/// The sign of a permutation that is made of exchanges.
fn parity<T: Field>(pivots: &[i32]) -> T {
    let moved = pivots
        .iter()
        .enumerate()
        .filter(|(i, p)| **p != *i as i32 + 1);
    if moved.count() % 2 == 0 {
        T::ONE
    } else {
        -T::ONE
    }
}

/// LU factors of every matrix; `finish` is told its factors and pivots, and writes a result of it.
fn factors<T: Batched, D: Send>(
    a: &[T],
    b: Batch,
    outs: (Parts<'_, T>, Parts<'_, i32>, Parts<'_, i32>, Parts<'_, D>),
    finish: impl Fn(&[T], &[i32], &mut [D]) + Sync,
) -> Result<()> {
    let (size, k) = (b.size(), b.rows.min(b.cols));
    let width = width::<T>(b);
    blocks(
        (b.count, width),
        b.cubic(),
        outs,
        || (Scratch::new(), vec![0; width]),
        |of, (work, infos), (lu, pivots, info, more)| {
            let count = of.len();
            let a = parts_of(a, of, size);
            // Where nobody wants them, they go to the workspace.
            let info = if info.is_empty() {
                &mut infos[..count]
            } else {
                info
            };
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::lu(a, (b.rows, b.cols), (lu, pivots, info), work),
            };
            for i in left(missed, count) {
                let (lu, pivots) = (part_mut(lu, i, size), part_mut(pivots, i, k));
                lu.copy_from_slice(part(a, i, size));
                info[i] = matrix_factor::lu(lu, b.rows, b.cols, pivots);
            }
            let each = more.len() / count.max(1);
            for i in 0..count {
                finish(
                    part(lu, i, size),
                    part(pivots, i, k),
                    part_mut(more, i, each),
                );
            }
            Ok(())
        },
    )
}

pub(crate) fn det<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let value = parts::<T>(c, 0, b.count, 1)?;
    let lu = parts::<T>(c, 1, b.count, b.size())?;
    let pivots = parts::<i32>(c, 2, b.count, n)?;
    let outs = (lu, pivots, Parts::new(&mut [], 0), value);
    factors(&a, b, outs, |lu, pivots, value| {
        value[0] = (0..n).fold(parity::<T>(pivots), |d, k| d * lu[k * n + k]);
    })
}

pub(crate) fn slogdet<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let signs = c.output::<T>(0)?;
    let logs = c.output::<T::R>(1)?;
    expect(signs.len(), b.count, 1)?;
    expect(logs.len(), b.count, 1)?;
    let mut both = vec![(T::ZERO, <T::R as Field>::ZERO); b.count];
    let lu = parts::<T>(c, 2, b.count, b.size())?;
    let pivots = parts::<i32>(c, 3, b.count, n)?;
    let outs = (lu, pivots, Parts::new(&mut [], 0), Parts::new(&mut both, 1));
    factors(&a, b, outs, |lu, pivots, both| {
        let zero = <T::R as Field>::ZERO;
        let (mut sign, mut log) = (parity::<T>(pivots), zero);
        for k in 0..n {
            let d = lu[k * n + k];
            let size = d.modulus();
            let unit = if size == zero {
                T::ZERO
            } else {
                d.over(T::of(size))
            };
            sign *= unit;
            log += num_traits::Float::ln(size);
        }
        both[0] = (sign, log);
    })?;
    for (i, (sign, log)) in both.into_iter().enumerate() {
        (signs[i], logs[i]) = (sign, log);
    }
    Ok(())
}

pub(crate) fn qr<T: Batched>(c: &mut HostCall<'_>) -> Result<()> {
    let mode = c.attrs::<attrs::LinalgQr>()?.mode;
    let b = Batch::of(c.input_shape(0)?)?;
    let (m, n, k) = (b.rows, b.cols, b.rows.min(b.cols));
    let (q_cols, r_rows) = match mode {
        QrMode::Reduced => (k, k),
        QrMode::Complete => (m, m),
        QrMode::R => (0, k),
    };
    let a = c.input::<T>(0)?;
    let q_size = if mode == QrMode::R { 0 } else { m * q_cols };
    let q = match mode {
        QrMode::R => Parts::new(&mut [], 0),
        _ => parts::<T>(c, 0, b.count, q_size)?,
    };
    let r = parts::<T>(c, 1, b.count, r_rows * n)?;
    let outs = (q, r, Parts::none(), Parts::none());
    let (width, size) = (width::<T>(b), b.size());
    blocks(
        (b.count, width),
        2 * b.cubic(),
        outs,
        Scratch::new,
        |of, work, (q, r, _, _)| {
            let count = of.len();
            let a = parts_of(&a, of, size);
            let missed = match width {
                1 => Missed::MAX,
                _ => lanes::qr((a, count), (m, n), (q, q_cols), (r, r_rows), work),
            };
            for i in left(missed, count) {
                let q = (part_mut(q, i, q_size), q_cols);
                let r = (part_mut(r, i, r_rows * n), r_rows);
                matrix_factor::qr(part(a, i, size), (m, n), q, r);
            }
            Ok(())
        },
    )
}

pub(crate) fn geqrf<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::of(c.input_shape(0)?)?;
    let a = c.input::<T>(0)?;
    let packed = parts::<T>(c, 0, b.count, b.size())?;
    let tau = parts::<T>(c, 1, b.count, b.rows.min(b.cols))?;
    let outs = (packed, tau, Parts::none(), Parts::none());
    each(
        b.count,
        2 * b.cubic(),
        outs,
        || (),
        |i, (), (packed, tau, _, _)| {
            packed.copy_from_slice(part(&a, i, b.size()));
            small::geqrf(packed, b.rows, b.cols, tau);
            Ok(())
        },
    )
}

/// How many reflectors an operand of factors has for each matrix.
fn reflectors(c: &HostCall<'_>, b: Batch) -> Result<usize> {
    match c.input_shape(1)? {
        [.., k] if *k <= b.cols && *k <= b.rows => Ok(*k),
        _ => Err(shapes_differ()),
    }
}

pub(crate) fn householder_product<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::of(c.input_shape(0)?)?;
    let k = reflectors(c, b)?;
    let (a, tau) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(tau.len(), b.count, k)?;
    let q = parts::<T>(c, 0, b.count, b.size())?;
    let outs = (q, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        2 * b.cubic(),
        outs,
        || (),
        |i, (), (q, _, _, _)| {
            small::orgqr(
                part(&a, i, b.size()),
                b.cols,
                part(&tau, i, k),
                q,
                b.rows,
                b.cols,
            );
            Ok(())
        },
    )
}

pub(crate) fn ormqr<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgOrmqr { left, transpose } = c.attrs()?;
    let (b, other) = (Batch::of(c.input_shape(0)?)?, Batch::of(c.input_shape(2)?)?);
    let k = reflectors(c, b)?;
    if b.rows != if left { other.rows } else { other.cols } {
        return Err(shapes_differ());
    }
    let (a, tau, with) = (c.input::<T>(0)?, c.input::<T>(1)?, c.input::<T>(2)?);
    expect(tau.len(), b.count, k)?;
    expect(with.len(), b.count, other.size())?;
    let out = parts::<T>(c, 0, b.count, other.size())?;
    let outs = (out, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        2 * k * other.size() + 50,
        outs,
        || (),
        |i, (), (out, _, _, _)| {
            out.copy_from_slice(part(&with, i, other.size()));
            let a = (part(&a, i, b.size()), b.cols);
            let to = (out, other.rows, other.cols);
            small::ormqr(a, part(&tau, i, k), to, (left, transpose));
            Ok(())
        },
    )
}

pub(crate) fn ldl_factor<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let hermitian = c.attrs::<attrs::LinalgLdl>()?.hermitian;
    let b = Batch::square(c.input_shape(0)?)?;
    let a = c.input::<T>(0)?;
    let ld = parts::<T>(c, 0, b.count, b.size())?;
    let pivots = parts::<i32>(c, 1, b.count, b.rows)?;
    let info = parts::<i32>(c, 2, b.count, 1)?;
    let outs = (ld, pivots, info, Parts::none());
    each(
        b.count,
        b.cubic() / 2,
        outs,
        || (),
        |i, (), (ld, pivots, info, _)| {
            ld.copy_from_slice(part(&a, i, b.size()));
            info[0] = ldl::factor(ld, b.rows, pivots, hermitian);
            Ok(())
        },
    )
}
