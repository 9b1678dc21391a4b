//! The CPU's kernels: each reads a batch of matrices from its operands, and writes their factors or solutions.
//!
//! They check all that they are called with ([`Kernel::checks_operands`]). Each is compiled for the four number types once.

pub(crate) mod batch;
pub(crate) mod factor;
pub(crate) mod field;
mod ldl;
pub(crate) mod small;
pub(crate) mod solve;
pub(crate) mod spectral;

use faer::MatMut;
use num_complex::Complex;
use torsh_core::attrs::{self, QrMode};
use torsh_core::kernel::{HostCall, HostKernel, bring};
use torsh_core::{DType, Kernel, Result, TorshError};

use batch::{Parts, each, matrix};
use field::{Field, Real};
use spectral::{Eig, Eigh, Svd};

/// Every kernel.
const KERNELS: &[(Kernel, HostKernel)] = &[
    (Kernel::LinalgCholesky, |c| dispatch!(c, cholesky)),
    (Kernel::LinalgLuFactor, |c| dispatch!(c, lu_factor)),
    (Kernel::LinalgLuSolve, |c| dispatch!(c, lu_solve)),
    (Kernel::LinalgSolve, |c| dispatch!(c, solve_general)),
    (Kernel::LinalgSolveTriangular, |c| {
        dispatch!(c, solve_triangular)
    }),
    (Kernel::LinalgDet, |c| dispatch!(c, det)),
    (Kernel::LinalgSlogdet, |c| dispatch!(c, slogdet)),
    (Kernel::LinalgQr, |c| dispatch!(c, qr)),
    (Kernel::LinalgGeqrf, |c| dispatch!(c, geqrf)),
    (Kernel::LinalgHouseholderProduct, |c| {
        dispatch!(c, householder_product)
    }),
    (Kernel::LinalgOrmqr, |c| dispatch!(c, ormqr)),
    (Kernel::LinalgEigh, |c| dispatch_wide!(c, eigh, is_small(c))),
    (Kernel::LinalgSvd, |c| dispatch_wide!(c, svd, is_small(c))),
    (Kernel::LinalgEig, |c| dispatch_wide!(c, eig, is_small(c))),
    (Kernel::LinalgLdlFactor, |c| dispatch!(c, ldl_factor)),
    (Kernel::LinalgLdlSolve, |c| dispatch!(c, ldl_solve)),
    (Kernel::LinalgLstsq, |c| dispatch!(c, lstsq)),
    (Kernel::LinalgPinv, |c| dispatch!(c, pinv)),
    (Kernel::LinalgMatrixExp, |c| {
        dispatch_wide!(c, matrix_exp, true)
    }),
    (Kernel::LinalgPolar, |c| dispatch!(c, polar)),
    (Kernel::LinalgMatrixSqrth, |c| dispatch!(c, matrix_sqrth)),
    (Kernel::LinalgSylvester, |c| dispatch!(c, sylvester)),
];

/// Calls a kernel in the dtype of the call.
macro_rules! dispatch {
    ($c:ident, $f:ident) => {
        match $c.compute() {
            DType::F32 => $f::<f32>($c),
            DType::F64 => $f::<f64>($c),
            DType::C64 => $f::<Complex<f32>>($c),
            DType::C128 => $f::<Complex<f64>>($c),
            _ => Err($c.unsupported()),
        }
    };
}
use dispatch;

/// Calls a kernel in the dtype of the call, which computes in double precision where it is told to.
macro_rules! dispatch_wide {
    ($c:ident, $f:ident, $wide:expr) => {
        match ($c.compute(), $wide) {
            (DType::F32, true) => $f::<f32, f64>($c),
            (DType::F32, false) => $f::<f32, f32>($c),
            (DType::F64, _) => $f::<f64, f64>($c),
            (DType::C64, true) => $f::<Complex<f32>, Complex<f64>>($c),
            (DType::C64, false) => $f::<Complex<f32>, Complex<f32>>($c),
            (DType::C128, _) => $f::<Complex<f64>, Complex<f64>>($c),
            _ => Err($c.unsupported()),
        }
    };
}
use dispatch_wide;

/// Whether the matrices of a call are so small that double precision costs nothing: then single precision results are
/// exact to the last place or two.
fn is_small(c: &HostCall<'_>) -> bool {
    matches!(c.input_shape(0), Ok([.., m, n]) if *m.max(n) <= small::SMALL)
}

/// A number in another precision.
#[inline(always)]
fn convert<A: Field, B: Field>(a: A) -> B {
    B::of_parts(B::R::of_f64(a.re().wide()), B::R::of_f64(a.im().wide()))
}

/// The numbers in another precision, in place of what `to` held.
fn converted<'w, A: Field, B: Field>(a: &[A], to: &'w mut Vec<B>) -> &'w [B] {
    to.clear();
    to.extend(a.iter().map(|&v| convert::<A, B>(v)));
    to
}

/// Brings every kernel to the CPU.
pub(crate) fn bring_all() {
    for &(key, f) in KERNELS {
        // The keys are of kernels that check their operands, which a test asserts.
        let brought = bring(key, f);
        debug_assert!(brought.is_ok(), "{key:?}");
    }
}

fn shapes_differ() -> TorshError {
    TorshError::shape(
        "",
        "the kernel was called with operands whose shapes do not go together",
    )
}

/// A batch of matrices: how many, and their rows and columns.
#[derive(Clone, Copy, PartialEq)]
struct Batch {
    count: usize,
    rows: usize,
    cols: usize,
}

impl Batch {
    fn of(shape: &[usize]) -> Result<Batch> {
        match *shape {
            [ref batch @ .., rows, cols] => Ok(Batch {
                count: batch.iter().product(),
                rows,
                cols,
            }),
            _ => Err(shapes_differ()),
        }
    }

    fn square(shape: &[usize]) -> Result<Batch> {
        let b = Batch::of(shape)?;
        match b.rows == b.cols {
            true => Ok(b),
            false => Err(shapes_differ()),
        }
    }

    fn size(self) -> usize {
        self.rows * self.cols
    }

    /// Roughly what a decomposition takes, in nanoseconds.
    fn cubic(self) -> usize {
        self.rows
            .saturating_mul(self.cols)
            .saturating_mul(self.rows.min(self.cols))
            .max(50)
    }
}

/// Output `i` as parts of `n` elements for each of `count` matrices.
fn parts<'a, T: torsh_core::Element>(
    c: &mut HostCall<'a>,
    i: usize,
    count: usize,
    n: usize,
) -> Result<Parts<'a, T>> {
    let data = c.output::<T>(i)?;
    match count.checked_mul(n) == Some(data.len()) {
        true => Ok(Parts::new(data, n)),
        false => Err(shapes_differ()),
    }
}

/// An operand of `count` parts of `n` elements.
fn expect(len: usize, count: usize, n: usize) -> Result<()> {
    match count.checked_mul(n) == Some(len) {
        true => Ok(()),
        false => Err(shapes_differ()),
    }
}

/// Part `i` of parts of `n` elements.
#[inline]
fn part<T>(data: &[T], i: usize, n: usize) -> &[T] {
    &data[i * n..][..n]
}

/// Refuses nan and infinity, for which a decomposition is not defined.
fn check_finite<T: Field>(a: &[T], i: usize, count: usize) -> Result<()> {
    match factor::finite(a) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!("{} has an infinity or a nan", matrix(i, count)),
        )
        .with_hint("look for the op that made it, as with detect_anomaly or Tensor::isfinite")),
    }
}

fn of_matrix(e: TorshError, i: usize, count: usize) -> TorshError {
    match (e.info(), count) {
        (Some(info), 2..) => {
            let text = format!("{}: {}", matrix(i, count), info.message);
            TorshError::failed("", text)
        }
        _ => e,
    }
}

fn cholesky<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn lu_factor<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

/// Writes the transpose of row-major `a` (`rows` by `cols`).
fn transposed<T: Copy>(a: &[T], rows: usize, cols: usize, to: &mut [T]) {
    for i in 0..rows {
        for j in 0..cols {
            to[j * rows + i] = a[i * cols + j];
        }
    }
}

/// Solves for `x`, which holds `b`: `solve` does so for `n` rows of right-hand sides, from the left.
fn from_left<T: Field>(
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
    transposed(x, shape.rows, shape.cols, work);
    solve(work);
    transposed(work, shape.cols, shape.rows, x);
}

fn lu_solve<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgLuSolve { left, adjoint } = c.attrs()?;
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(2)?)?,
    );
    let (n, cols) = (b.rows, sides(&rhs, left, b.rows)?);
    let (lu, pivots, y) = (c.input::<T>(0)?, c.input::<i32>(1)?, c.input::<T>(2)?);
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
            let (lu, pivots) = (part(&lu, i, b.size()), part(&pivots, i, n));
            from_left(x, rhs, left, work, |x| match left {
                true => factor::lu_solve((lu, pivots), x, n, cols, adjoint),
                false => lu_solve_transposed((lu, pivots), x, n, cols, adjoint),
            });
            Ok(())
        },
    )
}

/// Solves `A^T X = B`, or `conj(A) X = B`, from LU factors.
fn lu_solve_transposed<T: Field>(
    (lu, pivots): (&[T], &[i32]),
    x: &mut [T],
    n: usize,
    cols: usize,
    adjoint: bool,
) {
    // What is conjugated on both sides is solved with the conjugate transpose, or with the matrix itself.
    x.iter_mut().for_each(|v| *v = Field::conj(*v));
    factor::lu_solve((lu, pivots), x, n, cols, !adjoint);
    x.iter_mut().for_each(|v| *v = Field::conj(*v));
}

fn solve_general<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let left = c.attrs::<attrs::LinalgSolve>()?.left;
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(1)?)?,
    );
    let (n, cols) = (b.rows, sides(&rhs, left, b.rows)?);
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let lu = parts::<T>(c, 1, b.count, b.size())?;
    let pivots = parts::<i32>(c, 2, b.count, n)?;
    let info = parts::<i32>(c, 3, b.count, 1)?;
    let ns = b.cubic() + n * n * cols;
    each(
        b.count,
        ns,
        (x, lu, pivots, info),
        Vec::new,
        |i, work, (x, lu, pivots, info)| {
            lu.copy_from_slice(part(&a, i, b.size()));
            info[0] = factor::lu(lu, n, n, pivots);
            x.copy_from_slice(part(&y, i, rhs.size()));
            from_left(x, rhs, left, work, |x| match left {
                true => factor::lu_solve((lu, pivots), x, n, cols, false),
                false => lu_solve_transposed((lu, pivots), x, n, cols, false),
            });
            Ok(())
        },
    )
}

fn solve_triangular<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    } = c.attrs()?;
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(1)?)?,
    );
    let (n, cols) = (b.rows, sides(&rhs, left, b.rows)?);
    let (a, y) = (c.input::<T>(0)?, c.input::<T>(1)?);
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let outs = (x, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        n * n * cols / 2 + 50,
        outs,
        Vec::new,
        |i, work, (x, _, _, _)| {
            x.copy_from_slice(part(&y, i, rhs.size()));
            let a = part(&a, i, b.size());
            from_left(x, rhs, left, work, |x| {
                let kind = (upper, unitriangular);
                factor::solve_triangular((a, n), kind, (!left, false), x, n, cols);
            });
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

fn det<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn slogdet<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn qr<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn geqrf<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn householder_product<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn ormqr<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn eigh<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn svd<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn eig<T: Eig, W: Eig>(c: &mut HostCall<'_>) -> Result<()> {
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
    let workspace = || (faer::Mat::<W>::zeros(n, n), Vec::<W>::new());
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
            w.copy_from(faer::MatRef::from_row_major_slice(converted(a, wide), n, n));
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

fn ldl_factor<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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

fn ldl_solve<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
    let hermitian = c.attrs::<attrs::LinalgLdl>()?.hermitian;
    let (b, rhs) = (
        Batch::square(c.input_shape(0)?)?,
        Batch::of(c.input_shape(2)?)?,
    );
    let (n, cols) = (b.rows, sides(&rhs, true, b.rows)?);
    let (ld, pivots, y) = (c.input::<T>(0)?, c.input::<i32>(1)?, c.input::<T>(2)?);
    expect(pivots.len(), b.count, n)?;
    expect(y.len(), b.count, rhs.size())?;
    let x = parts::<T>(c, 0, b.count, rhs.size())?;
    let outs = (x, Parts::none(), Parts::none(), Parts::none());
    each(
        b.count,
        n * n * cols + 50,
        outs,
        || (),
        |i, (), (x, _, _, _)| {
            x.copy_from_slice(part(&y, i, rhs.size()));
            let factors = (part(&ld, i, b.size()), part(&pivots, i, n));
            ldl::solve(factors, x, (n, cols), hermitian);
            Ok(())
        },
    )
}

fn lstsq<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
            rank[0] = solve::lstsq((a, m, n), from, (rcond, driver), x, values)
                .map_err(|e| of_matrix(e, i, b.count))?;
            Ok(())
        },
    )
}

fn pinv<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
            solve::pinv((a, m, n), (atol[i], rtol[i]), hermitian, out)
                .map_err(|e| of_matrix(e, i, b.count))
        },
    )
}

fn matrix_exp<T: Field, W: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
fn copy_converted<A: Field, B: Field>(from: faer::MatRef<'_, A>, to: &mut [B]) {
    let n = from.ncols();
    for (i, row) in to.chunks_exact_mut(n.max(1)).enumerate() {
        for (j, v) in row.iter_mut().enumerate() {
            *v = convert(from[(i, j)]);
        }
    }
}

fn polar<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
            let scaled = faer::Mat::from_fn(n, n, |i, j| right[(i, j)].scaled(w.s(j)));
            let mut whole = faer::Mat::<T>::zeros(n, n);
            solve::product(whole.as_mut(), scaled.as_ref(), right_h.as_ref());
            hermitian_part(whole.as_ref(), h);
            Ok(())
        },
    )
}

/// Writes the mean of a matrix and its conjugate transpose.
fn hermitian_part<T: Field>(a: faer::MatRef<'_, T>, to: &mut [T]) {
    let n = a.nrows();
    let half = T::R::of_f64(0.5);
    for i in 0..n {
        for j in 0..n {
            to[i * n + j] = (a[(i, j)] + Field::conj(a[(j, i)])).scaled(half);
        }
    }
}

fn matrix_sqrth<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
            let scaled = faer::Mat::from_fn(n, n, |i, j| {
                u[(i, j)].scaled(num_traits::Float::sqrt(w.s(j)))
            });
            let mut whole = faer::Mat::<T>::zeros(n, n);
            solve::product(whole.as_mut(), scaled.as_ref(), solve::adjoint(u).as_ref());
            hermitian_part(whole.as_ref(), root);
            Ok(())
        },
    )
}

fn sylvester<T: Field>(c: &mut HostCall<'_>) -> Result<()> {
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
            let uh = solve::adjoint(u);
            let (mut first, mut second) =
                (faer::Mat::<T>::zeros(n, n), faer::Mat::<T>::zeros(n, n));
            let y = faer::MatRef::from_row_major_slice(part(&y, i, b.size()), n, n);
            solve::product(first.as_mut(), uh.as_ref(), y);
            solve::product(second.as_mut(), first.as_ref(), u);
            for i in 0..n {
                for j in 0..n {
                    second[(i, j)] = second[(i, j)].over(T::of(w.s(i) + w.s(j)));
                }
            }
            solve::product(first.as_mut(), u, second.as_ref());
            solve::product(
                MatMut::from_row_major_slice_mut(x, n, n),
                first.as_ref(),
                uh.as_ref(),
            );
            Ok(())
        },
    )
}

/// The distance from 1 to the next number of a dtype's real type.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::C64 => <f32 as Real>::EPS.wide(),
        _ => <f64 as Real>::EPS.wide(),
    }
}
