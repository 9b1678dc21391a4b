//! Products of a sparse and a dense matrix.

use std::mem::MaybeUninit;
use std::ops::Range;

use torsh_core::{Element, Result, TorshError, pool};

use super::choose::{self, ProductAlgorithm, ProductProblem};
use super::number::Index;
use super::plain::RowsWork;
use super::rows::Rows;
use super::split::{balanced, even, share};
use super::tuning;
use super::vectors::Products;
use crate::kernels::index::ScratchSlice;
use crate::machine::choice::pick;
use crate::shares::Parts;

/// The product of a sparse matrix and a dense one of `m` columns, row-major like the result. Every element of the result is
/// written. The dense matrix has a row for each column of the sparse one, or one that stands for all of them.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{Rows, product};
/// // [[0, 2], [3, 0]] times a column.
/// let a = Rows::new(&[0i64, 1, 2], &[1, 0], &[2.0f32, 3.0], None, 2)?;
/// let mut out = [MaybeUninit::uninit(); 2];
/// product(a, &[10.0, 100.0], 1, &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [200.0, 30.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, the sizes do not go together, or there is no memory for a copy of the dense matrix in another
/// order.
pub fn product<T: Products, I: Index>(
    a: Rows<'_, T, I>,
    dense: &[T],
    m: usize,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    let rows = a.count();
    let one_row = a.width != 1 && dense.len() == m;
    if !one_row {
        check_sizes(dense.len(), a.width, m, "the dense operand")?;
    }
    check_sizes(out.len(), rows, m, "the result")?;
    if a.columns.is_empty() {
        out.fill(MaybeUninit::new(T::default()));
    }
    if a.columns.is_empty() || out.is_empty() {
        return Ok(());
    }
    if a.width == 0 {
        return Err(a.out_of_range());
    }
    let stride = if one_row { 0 } else { m };
    let ordered;
    let a = match a.order {
        // Beside rows of several numbers, values that lie anywhere cost more than to read all of them once.
        Some(order) if (m, stride) != (1, 1) => {
            ordered = in_order(&a, order)?;
            Rows {
                values: &ordered,
                order: None,
                ..a
            }
        }
        _ => a,
    };
    let problem = ProductProblem {
        rows,
        width: a.width,
        stored: a.columns.len(),
        columns: m,
        bytes: size_of::<T>(),
    };
    let element = match m {
        1 => tuning::ELEMENT,
        _ => tuning::PRODUCT_VECTOR * (m * size_of::<T>()).div_ceil(32) + tuning::ELEMENT,
    };
    let ends = balanced(a.pointers, element, tuning::ROW);
    let (l2, threads) = (choose::l2(), pool::num_threads());
    if one_row || pick::<ProductAlgorithm>(&problem, threads) == ProductAlgorithm::Rows {
        let far = size_of_val(dense) > l2;
        return share(&ends, Parts::new(out, m), |range, part| {
            let work = RowsWork {
                a,
                range,
                dense,
                stride,
                columns: 0..m,
                m,
                ahead: if far { tuning::AHEAD } else { 0 },
                out: part.into_slice(),
            };
            T::rows(work).ok_or_else(|| a.out_of_range())
        });
    }
    let each = problem.panel(l2);
    let panel = a.width.saturating_mul(each * size_of::<T>());
    let at_once = each * (tuning::PACKED / panel.max(1)).max(1);
    for first in (0..m).step_by(at_once) {
        let some = first..m.min(first + at_once);
        let packed: &[T] = &packed(dense, m, some.clone(), each)?;
        share(&ends, Parts::new(&mut *out, m), |range, part| {
            let out = part.into_slice();
            for from in some.clone().step_by(each) {
                let columns = from..some.end.min(from + each);
                let work = RowsWork {
                    a,
                    range: range.clone(),
                    dense: &packed[a.width * (from - first)..][..a.width * columns.len()],
                    stride: columns.len(),
                    columns,
                    m,
                    ahead: 0,
                    out: &mut *out,
                };
                T::rows(work).ok_or_else(|| a.out_of_range())?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The values of a matrix in the order of its stored elements.
fn in_order<T: Element, I: Index>(a: &Rows<'_, T, I>, order: &[i64]) -> Result<ScratchSlice<T>> {
    let ends = even(order.len(), tuning::MOVE);
    let fill = |to: &mut [MaybeUninit<T>]| {
        share(&ends, Parts::new(to, 1), |range, part| {
            for (to, at) in part.into_slice().iter_mut().zip(&order[range]) {
                to.write(*a.values.get(at.place()).ok_or_else(|| a.out_of_range())?);
            }
            Ok(())
        })
    };
    // SAFETY: each part is written whole, or there is an error.
    unsafe { ScratchSlice::written(order.len(), fill) }
}

/// Some columns of a matrix of `m`, in panels of `each` of them: one panel behind the other, each row-major. Rows that are
/// far apart would share few sets of a cache, and each be on a page of its own.
fn packed<T: Element>(
    dense: &[T],
    m: usize,
    columns: Range<usize>,
    each: usize,
) -> Result<ScratchSlice<T>> {
    let (width, count) = (dense.len() / m, columns.len());
    let panel = width * each;
    let ends = even(count.div_ceil(each), panel.saturating_mul(tuning::PACK));
    let fill = |to: &mut [MaybeUninit<T>]| {
        share(&ends, Parts::new(to, panel), |range, part| {
            for (p, panel) in range.zip(part.into_slice().chunks_mut(panel)) {
                let from = columns.start + p * each;
                let n = each.min(columns.end - from);
                for (to, row) in panel.chunks_exact_mut(n).zip(dense.chunks_exact(m)) {
                    for (to, from) in to.iter_mut().zip(&row[from..from + n]) {
                        to.write(*from);
                    }
                }
            }
            Ok(())
        })
    };
    // SAFETY: the panels are all elements, and each is written row by row.
    unsafe { ScratchSlice::written(width * count, fill) }
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
