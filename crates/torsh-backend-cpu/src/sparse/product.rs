//! Products of a sparse and a dense matrix.

use torsh_core::{Result, TorshError, pool};

use super::choose::{ProductAlgorithm, ProductProblem};
use super::number::{Index, Number};
use super::rows::Rows;
use super::split::{balanced, share};
use super::tuning;
use super::vectors::RowsWork;
use crate::machine::choice::pick;
use crate::shares::Parts;

/// The product of a sparse matrix and a dense one of `m` columns, row-major like the result.
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn product<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    dense: &[T],
    m: usize,
    out: &mut [T],
) -> Result<()> {
    let rows = a.count();
    check_sizes(dense.len(), a.width, m, "the dense operand")?;
    check_sizes(out.len(), rows, m, "the result")?;
    if out.is_empty() {
        return Ok(());
    }
    let problem = ProductProblem {
        rows,
        width: a.width,
        stored: a.columns.len(),
        columns: m,
        bytes: size_of::<T>(),
    };
    let panel = match pick::<ProductAlgorithm>(&problem, pool::num_threads()) {
        ProductAlgorithm::Rows => m,
        ProductAlgorithm::Panels => problem.panel(super::choose::l2()),
    };
    let element = match m {
        1 => tuning::ELEMENT,
        _ => tuning::PRODUCT_VECTOR * (m * size_of::<T>()).div_ceil(32) + tuning::ELEMENT,
    };
    let ends = balanced(a.pointers, element, tuning::ROW);
    share(&ends, Parts::new(out, m), |range, part| {
        let out = part.into_slice();
        let mut from = 0;
        while from < m {
            let to = m.min(from + panel);
            let work = RowsWork {
                a,
                range: range.clone(),
                dense,
                m,
                columns: from..to,
                out: &mut *out,
            };
            T::rows(work).ok_or_else(|| a.out_of_range())?;
            from = to;
        }
        Ok(())
    })
}

/// Refuses an operand that is no matrix of these sizes.
pub(super) fn check_sizes(len: usize, rows: usize, columns: usize, what: &str) -> Result<()> {
    match rows.checked_mul(columns) {
        Some(n) if n == len => Ok(()),
        _ => Err(TorshError::shape(
            "",
            format!("{what} has {len} elements, which are not {rows} rows of {columns} columns"),
        )),
    }
}
