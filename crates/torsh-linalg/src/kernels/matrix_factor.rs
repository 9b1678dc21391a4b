//! LU, Cholesky and QR of one matrix: small ones by [`super::small`], large ones by [`super::blocked`].

use faer::Mat;
use torsh_backend_cpu::operations::pick;

use super::blocked::{self, Blocked, Reflectors};
use super::choose::{FactorAlgorithm, FactorProblem};
use super::field::{Field, Real, power_of_two_below};
use super::small;
use super::tuning::{self, TRANSPOSE_TILE};

/// Whether all numbers are finite.
pub(crate) fn finite<T: Field>(a: &[T]) -> bool {
    // In parts that have no early end, so that vectors test them.
    let mut parts = a.chunks(256);
    parts.all(|part| part.iter().fold(true, |all, v| all & v.finite()))
}

/// Copies row-major `a` into the columns of a matrix.
pub(crate) fn to_columns<T: Field>(a: &[T], to: &mut Mat<T>) {
    let (m, n) = to.shape();
    for top in (0..m).step_by(TRANSPOSE_TILE) {
        let rows = top..(top + TRANSPOSE_TILE).min(m);
        for left in (0..n).step_by(TRANSPOSE_TILE) {
            for j in left..(left + TRANSPOSE_TILE).min(n) {
                let column = &mut to.col_as_slice_mut(j)[rows.clone()];
                for (to, i) in column.iter_mut().zip(rows.clone()) {
                    *to = a[i * n + j];
                }
            }
        }
    }
}

/// Writes the first columns of a matrix row-major, as many as `to` has.
pub(crate) fn to_rows<T: Field>(a: &Mat<T>, to: &mut [T]) {
    let m = a.nrows();
    let n = to.len() / m.max(1);
    for top in (0..m).step_by(TRANSPOSE_TILE) {
        let rows = top..(top + TRANSPOSE_TILE).min(m);
        for left in (0..n).step_by(TRANSPOSE_TILE) {
            for j in left..(left + TRANSPOSE_TILE).min(n) {
                let column = &a.col_as_slice(j)[rows.clone()];
                for (v, i) in column.iter().zip(rows.clone()) {
                    to[i * n + j] = *v;
                }
            }
        }
    }
}

/// The algorithm for a matrix whose smaller side is `n`.
fn algorithm<T: Field>(n: usize, a: &[T]) -> FactorAlgorithm {
    // Small matrices need not be looked through.
    let finite = n <= tuning::SMALL || finite(a);
    pick(&FactorProblem { n, finite }, 1)
}

/// LU factors in place of row-major `a`, as `getrf`.
pub(crate) fn lu<T: Blocked>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    match algorithm(m.min(n), a) {
        FactorAlgorithm::Unblocked => small::lu(a, m, n, pivots),
        FactorAlgorithm::Blocked => blocked::lu(a, m, n, pivots),
    }
}

/// Exchanges the rows of `b` as LU's pivots say; backwards to undo it.
pub(crate) fn exchange<T>(pivots: &[i32], b: &mut [T], cols: usize, undo: bool) {
    let rows = b.len() / cols.max(1);
    for step in 0..pivots.len() {
        let i = if undo { pivots.len() - 1 - step } else { step };
        // Pivots are the caller's: out of range ones exchange nothing.
        let p = (pivots[i] - 1).max(0) as usize;
        let (low, high) = (i.min(p), i.max(p));
        if low != high && high < rows {
            let (head, tail) = b.split_at_mut(high * cols);
            head[low * cols..][..cols].swap_with_slice(&mut tail[..cols]);
        }
    }
}

/// The Cholesky factor in place of the lower triangle of row-major `a`.
pub(crate) fn cholesky<T: Blocked>(a: &mut [T], n: usize) -> i32 {
    match algorithm(n, a) {
        FactorAlgorithm::Unblocked => small::cholesky(a, n),
        FactorAlgorithm::Blocked => blocked::cholesky(a, n),
    }
}

/// Solves `op(A) X = B` in place of row-major `b` (`n` by `cols`) for triangular row-major `a` (`n` by `n`, rows `lda`
/// apart), where `op` transposes or conjugates where told to. `upper` says what `a` is before it.
pub(crate) fn solve_triangular<T: Blocked>(
    (a, lda): (&[T], usize),
    (upper, unit): (bool, bool),
    (transpose, conj): (bool, bool),
    b: &mut [T],
    n: usize,
    cols: usize,
) {
    if n == 0 || cols == 0 {
        return;
    }
    let upper = upper != transpose;
    match pick(&FactorProblem { n, finite: true }, 1) {
        FactorAlgorithm::Unblocked => {
            let strides = if transpose { (1, lda) } else { (lda, 1) };
            small::solve_triangular(a, strides, (upper, unit, conj), b, n, cols);
        }
        FactorAlgorithm::Blocked => {
            blocked::solve_triangular((a, lda), (upper, unit), (transpose, conj), b, n, cols);
        }
    }
}

/// Solves `A X = B` (or with `A^H`) in place of row-major `b`, from LU factors and pivots.
pub(crate) fn lu_solve<T: Blocked>(
    (lu, pivots): (&[T], &[i32]),
    b: &mut [T],
    n: usize,
    cols: usize,
    adjoint: bool,
) {
    if adjoint {
        solve_triangular((lu, n), (true, false), (true, true), b, n, cols);
        solve_triangular((lu, n), (false, true), (true, true), b, n, cols);
        exchange(pivots, b, cols, true);
    } else {
        exchange(pivots, b, cols, false);
        solve_triangular((lu, n), (false, true), (false, false), b, n, cols);
        solve_triangular((lu, n), (true, false), (false, false), b, n, cols);
    }
}

/// Scales finite numbers by a power of two so that the largest one is about 1; returns the inverse factor.
pub(crate) fn scale_to_one<T: Field>(a: &mut Mat<T>) -> T::R {
    let largest = (0..a.ncols()).fold(<T::R as Field>::ZERO, |most, j| {
        largest_part(a.col_as_slice(j), most)
    });
    let (scale, by) = scale_of(largest);
    if scale != by {
        for j in 0..a.ncols() {
            let column = a.col_as_slice_mut(j);
            column.iter_mut().for_each(|v| *v = v.scaled(by));
        }
    }
    scale
}

/// As [`scale_to_one`], of a slice.
pub(crate) fn scale_slice<T: Field>(a: &mut [T]) -> T::R {
    let (scale, by) = scale_of(largest_part(a, <T::R as Field>::ZERO));
    if scale != by {
        a.iter_mut().for_each(|v| *v = v.scaled(by));
    }
    scale
}

/// The largest magnitude of a real or imaginary part, or `most`.
fn largest_part<T: Field>(a: &[T], most: T::R) -> T::R {
    let abs = <T::R as num_traits::Float>::abs;
    let more = |most: T::R, v: T::R| if v > most { v } else { most };
    a.iter()
        .fold(most, |most, v| more(more(most, abs(v.re())), abs(v.im())))
}

/// The power of two that is about `largest`, and its inverse.
fn scale_of<R: Real>(largest: R) -> (R, R) {
    if largest == R::ZERO {
        return (R::ONE, R::ONE);
    }
    let scale = power_of_two_below(largest);
    (scale, R::ONE / scale)
}

/// `Q` (`m` by `q_cols`, not written where that is 0) and `R` (`r_rows` by `n`) of row-major `a`.
pub(crate) fn qr<T: Blocked>(
    a: &[T],
    (m, n): (usize, usize),
    (q, q_cols): (&mut [T], usize),
    (r, r_rows): (&mut [T], usize),
) {
    let k = m.min(n);
    if !finite(a) {
        let nan = T::of(<T::R as num_traits::Float>::nan());
        q.fill(nan);
        for i in 0..r_rows {
            for j in i..n {
                r[i * n + j] = nan;
            }
        }
        return;
    }
    match pick(&FactorProblem { n: k, finite: true }, 1) {
        FactorAlgorithm::Unblocked => {
            let mut packed = a.to_vec();
            let scale = match k {
                0 => <T::R as Field>::ONE,
                _ => scale_slice(&mut packed),
            };
            let mut tau = vec![T::ZERO; k];
            small::geqrf(&mut packed, m, n, &mut tau);
            for i in 0..r_rows.min(m) {
                for j in i..n {
                    r[i * n + j] = packed[i * n + j].scaled(scale);
                }
            }
            if q_cols > 0 {
                small::orgqr(&packed, n, &tau, q, m, q_cols);
            }
        }
        FactorAlgorithm::Blocked => {
            let reflectors = Reflectors::new(a.to_vec(), m, n);
            for i in 0..r_rows.min(m) {
                for j in i..n {
                    r[i * n + j] = reflectors.r(i, j).scaled(reflectors.scale);
                }
            }
            if q_cols > 0 {
                reflectors.q(q, q_cols);
            }
        }
    }
}
