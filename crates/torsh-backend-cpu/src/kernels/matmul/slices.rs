//! Products of matrices that lie in slices, for kernels of other crates.

use num_complex::Complex;
use torsh_core::{Result, TorshError, pool};

use super::gemm::Number;
use super::operands::{Matrix, Product};
use crate::machine::tuning::matmul as tuning;

/// A number type that [`multiply_add`] multiplies matrices of.
pub trait Factor: Copy + Send + Sync + 'static {
    /// Calls the product of the type.
    ///
    /// # Safety
    /// The matrices lie in their slices, as [`multiply_add`] checks.
    #[doc(hidden)]
    unsafe fn product(
        size: (usize, usize, usize),
        alpha: Self,
        operands: (Strided<'_, Self>, Strided<'_, Self>),
        out: (&mut [Self], usize),
        how: How,
    );
}

/// How a product is computed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct How {
    threads: usize,
    /// Whether it is added to what is in its place.
    add: bool,
}

macro_rules! factor {
    ($($t:ty),*) => {$(
        impl Factor for $t {
            unsafe fn product(
                (m, n, k): (usize, usize, usize),
                alpha: $t,
                (a, b): (Strided<'_, $t>, Strided<'_, $t>),
                (out, row): (&mut [$t], usize),
                how: How,
            ) {
                let operand = |x: Strided<'_, $t>| {
                    Matrix::new(x.data.as_ptr().cast_mut(), x.row as isize, x.col as isize)
                };
                let x = Product {
                    m,
                    n,
                    k,
                    out: Matrix::new(out.as_mut_ptr(), row as isize, 1),
                    a: operand(a),
                    b: operand(b),
                    alpha,
                    add: how.add,
                };
                // SAFETY: the caller's promise. The operands are only read, and the output is borrowed mutably, so that
                // it overlaps neither.
                unsafe { <$t as Number>::product(&x, how.threads, None) };
            }
        }
    )*};
}
factor!(f32, f64, Complex<f32>, Complex<f64>);

/// A matrix in a slice: its first element comes first, and the next row and column are `row` and `col` elements on.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The step to the next row.
    pub row: usize,
    /// The step to the next column.
    pub col: usize,
}

impl<'a, T> Strided<'a, T> {
    /// A matrix whose rows are `row` elements apart, and whose columns are adjacent.
    pub fn rows(data: &'a [T], row: usize) -> Strided<'a, T> {
        Strided { data, row, col: 1 }
    }

    /// The transpose.
    pub fn t(self) -> Strided<'a, T> {
        Strided {
            row: self.col,
            col: self.row,
            ..self
        }
    }

    /// Whether `m` rows of `n` columns lie in the slice.
    fn holds(&self, m: usize, n: usize) -> bool {
        lies(self.data.len(), (m, n), (self.row, self.col))
    }
}

/// Whether `m` rows of `n` columns with these steps lie in `len` elements.
fn lies(len: usize, (m, n): (usize, usize), (row, col): (usize, usize)) -> bool {
    if m == 0 || n == 0 {
        return true;
    }
    let last = (m - 1)
        .checked_mul(row)
        .zip((n - 1).checked_mul(col))
        .and_then(|(i, j)| i.checked_add(j));
    last.is_some_and(|last| last < len)
}

/// Adds `alpha a b` to a matrix, on as many threads as the product is worth: by the algorithms of `MatMul`.
///
/// `a` has `m` rows of `k` columns, `b` `k` rows of `n` columns. The result has `m` rows of `n` adjacent elements, which
/// are `row` elements apart.
///
/// ```
/// use torsh_backend_cpu::matmul::{Strided, multiply_add};
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0]);
/// let mut out = [1.0f32, 1.0];
/// multiply_add((2, 1, 2), -1.0, (Strided::rows(&a, 2), Strided::rows(&b, 1)), (&mut out, 1))?;
/// assert_eq!(out, [-16.0, -38.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If a matrix does not lie in its slice, or rows of the result overlap.
pub fn multiply_add<T: Factor>(
    size: (usize, usize, usize),
    alpha: T,
    operands: (Strided<'_, T>, Strided<'_, T>),
    out: (&mut [T], usize),
) -> Result<()> {
    multiply_add_by(tuning::GRAIN, size, alpha, operands, out)
}

/// As [`multiply_add`], with a thread for each `grain` multiply-adds: the steps of a decomposition want more of them than
/// one product alone, since each thread reads what another one has just written.
///
/// ```
/// use torsh_backend_cpu::matmul::{Strided, multiply_add_by};
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0]);
/// let mut out = [1.0f32, 1.0];
/// multiply_add_by(1 << 20, (2, 1, 2), -1.0, (Strided::rows(&a, 2), Strided::rows(&b, 1)), (&mut out, 1))?;
/// assert_eq!(out, [-16.0, -38.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// As there.
pub fn multiply_add_by<T: Factor>(
    grain: usize,
    (m, n, k): (usize, usize, usize),
    alpha: T,
    (a, b): (Strided<'_, T>, Strided<'_, T>),
    (out, row): (&mut [T], usize),
) -> Result<()> {
    product((m, n, k), alpha, (a, b), (out, row), (grain, true))
}

/// Writes `alpha a b` in place of a matrix, whose numbers are not read, with a thread for each `grain` multiply-adds. Nothing is
/// written where `k` is 0.
///
/// ```
/// use torsh_backend_cpu::matmul::{Strided, multiply_by};
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0]);
/// let mut out = [0.0f32; 2];
/// multiply_by(1 << 20, (2, 1, 2), 1.0, (Strided::rows(&a, 2), Strided::rows(&b, 1)), (&mut out, 1))?;
/// assert_eq!(out, [17.0, 39.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// As [`multiply_add`].
pub fn multiply_by<T: Factor>(
    grain: usize,
    size: (usize, usize, usize),
    alpha: T,
    operands: (Strided<'_, T>, Strided<'_, T>),
    out: (&mut [T], usize),
) -> Result<()> {
    product(size, alpha, operands, out, (grain, false))
}

/// Computes a product whose matrices lie in their slices.
fn product<T: Factor>(
    (m, n, k): (usize, usize, usize),
    alpha: T,
    (a, b): (Strided<'_, T>, Strided<'_, T>),
    (out, row): (&mut [T], usize),
    (grain, add): (usize, bool),
) -> Result<()> {
    let apart = row >= n || m <= 1;
    if !(a.holds(m, k) && b.holds(k, n) && lies(out.len(), (m, n), (row, 1)) && apart) {
        return Err(TorshError::shape(
            "",
            format!(
                "a product of {m} by {k} and {k} by {n} numbers does not lie in the slices it was given"
            ),
        ));
    }
    if m * n * k > 0 {
        let threads = pool::chunk_count(m.saturating_mul(n).saturating_mul(k), grain);
        // SAFETY: just checked.
        unsafe { T::product((m, n, k), alpha, (a, b), (out, row), How { threads, add }) };
    }
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[torsh_macros::unit_test]
    fn strided_operands_are_added() -> Result<()> {
        let (m, n, k) = (37, 29, 41);
        let at = |seed: usize, i: usize| ((i * 7 + seed * 13) % 17) as f64 - 8.0;
        // `a` lies transposed, in rows of 50; `b` in rows of 33, `out` in rows of 31.
        let a: Vec<f64> = (0..k * 50).map(|i| at(1, i)).collect();
        let b: Vec<f64> = (0..k * 33).map(|i| at(2, i)).collect();
        let mut out: Vec<f64> = (0..m * 31).map(|i| at(3, i)).collect();
        let mut wanted = out.clone();
        for i in 0..m {
            for j in 0..n {
                wanted[i * 31 + j] -= (0..k).map(|p| a[p * 50 + i] * b[p * 33 + j]).sum::<f64>();
            }
        }
        let operands = (Strided::rows(&a, 50).t(), Strided::rows(&b, 33));
        multiply_add((m, n, k), -1.0, operands, (&mut out, 31))?;
        assert_eq!(out, wanted);
        Ok(())
    }

    #[torsh_macros::unit_test]
    fn what_does_not_lie_in_a_slice_is_refused() {
        let (a, b) = ([1.0f32; 6], [1.0f32; 6]);
        let mut out = [0.0f32; 4];
        let operands = (Strided::rows(&a, 3), Strided::rows(&b, 2));
        assert!(multiply_add((2, 2, 3), 1.0, operands, (&mut out, 2)).is_ok());
        for (size, row) in [
            ((3, 2, 3), 2),
            ((2, 3, 3), 3),
            ((2, 2, 4), 2),
            ((2, 2, 3), 1),
            ((2, 2, 3), 3),
            ((usize::MAX, usize::MAX, 2), usize::MAX),
        ] {
            let e = multiply_add(size, 1.0, operands, (&mut out, row)).expect_err("refused");
            assert!(e.to_string().contains("does not lie in the slices"), "{e}");
        }
    }
}
