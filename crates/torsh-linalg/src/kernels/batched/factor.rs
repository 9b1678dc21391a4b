//! Factorisations and determinants.

use torsh_core::Result;
use torsh_core::TorshError;
use torsh_core::attrs::{self, QrMode};
use torsh_core::kernel::HostCall;

use super::{Batch, expect, part, parts, shapes_differ};
use crate::kernels::batch::{Parts, each};
use crate::kernels::field::Field;
use crate::kernels::{factor, ldl, small};

pub(crate) fn cholesky<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let upper = c.attrs::<attrs::LinalgCholesky>()?.upper;
    let b = Batch::square(c.input_shape(0)?)?;
    let (n, size) = (b.rows, b.size());
    let a = c.input::<T>(0)?;
    let l = parts::<T>(c, 0, b.count, size)?;
    let info = parts::<i32>(c, 1, b.count, 1)?;
    let outs = (l, info, Parts::none(), Parts::none());
    each(
        b.count,
        b.cubic() / 3,
        outs,
        || (),
        |i, (), (l, info, _, _)| {
            let a = part(&a, i, size);
            match upper {
                false => l.copy_from_slice(a),
                true => adjoint_in(a, n, l),
            }
            info[0] = factor::cholesky(l, n);
            if upper {
                transpose_in_place(l, n);
            }
            Ok(())
        },
    )
}

/// Writes the conjugate transpose of a square matrix.
fn adjoint_in<T: Field>(a: &[T], n: usize, to: &mut [T]) {
    for i in 0..n {
        for j in 0..n {
            to[i * n + j] = Field::conj(a[j * n + i]);
        }
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

pub(crate) fn lu_factor<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
    let outs = (lu, pivots, info, Parts::none());
    each(
        b.count,
        b.cubic(),
        outs,
        || (),
        |i, (), (lu, pivots, info, _)| {
            lu.copy_from_slice(part(&a, i, b.size()));
            info[0] = factor::lu(lu, b.rows, b.cols, pivots);
            Ok(())
        },
    )
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

pub(crate) fn det<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let value = parts::<T>(c, 0, b.count, 1)?;
    let lu = parts::<T>(c, 1, b.count, b.size())?;
    let pivots = parts::<i32>(c, 2, b.count, n)?;
    let outs = (value, lu, pivots, Parts::none());
    each(
        b.count,
        b.cubic(),
        outs,
        || (),
        |i, (), (value, lu, pivots, _)| {
            lu.copy_from_slice(part(&a, i, b.size()));
            factor::lu(lu, n, n, pivots);
            value[0] = (0..n).fold(parity::<T>(pivots), |d, k| d * lu[k * n + k]);
            Ok(())
        },
    )
}

pub(crate) fn slogdet<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let b = Batch::square(c.input_shape(0)?)?;
    let n = b.rows;
    let a = c.input::<T>(0)?;
    let sign = parts::<T>(c, 0, b.count, 1)?;
    let log = parts::<T::R>(c, 1, b.count, 1)?;
    let lu = parts::<T>(c, 2, b.count, b.size())?;
    let pivots = parts::<i32>(c, 3, b.count, n)?;
    each(
        b.count,
        b.cubic(),
        (sign, log, lu, pivots),
        || (),
        |i, (), (sign, log, lu, pivots)| {
            lu.copy_from_slice(part(&a, i, b.size()));
            factor::lu(lu, n, n, pivots);
            let zero = <T::R as Field>::ZERO;
            (sign[0], log[0]) = (parity::<T>(pivots), zero);
            for k in 0..n {
                let d = lu[k * n + k];
                let size = d.modulus();
                let unit = if size == zero {
                    T::ZERO
                } else {
                    d.over(T::of(size))
                };
                sign[0] *= unit;
                log[0] += num_traits::Float::ln(size);
            }
            Ok(())
        },
    )
}

pub(crate) fn qr<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
    each(
        b.count,
        2 * b.cubic(),
        outs,
        || (),
        |i, (), (q, r, _, _)| {
            factor::qr(part(&a, i, b.size()), (m, n), (q, q_cols), (r, r_rows));
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
