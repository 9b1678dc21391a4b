//! Products of dense matrices, computed at some places alone.

use torsh_core::{Result, TorshError};

use super::number::{Index, Number};
use super::rows::{check_pointers, out_of_range};
use super::split::{even, share};
use super::tuning;
use super::vectors::SamplesWork;
use crate::shares::Parts;

/// The rows of places, which are stored row by row or in any order.
#[derive(Clone, Copy, Debug)]
pub enum Majors<'a, I> {
    /// Where each row's places begin.
    Pointers(&'a [I]),
    /// The row of each place.
    List(&'a [I]),
}

impl<'a, I: Index> Majors<'a, I> {
    /// A walk over the places from `start` on.
    #[inline(always)]
    pub(super) fn walk(self, start: usize) -> Walk<'a, I> {
        let row = match self {
            // The last row that begins at the place or before it.
            Majors::Pointers(p) => p.partition_point(|p| p.place() <= start).saturating_sub(1),
            Majors::List(_) => 0,
        };
        Walk { majors: self, row }
    }
}

/// The rows of places, one after the other.
pub(super) struct Walk<'a, I> {
    majors: Majors<'a, I>,
    row: usize,
}

impl<I: Index> Walk<'_, I> {
    /// The row of place `e`, which is not before the one asked for last.
    #[inline(always)]
    pub(super) fn major(&mut self, e: usize) -> usize {
        match self.majors {
            Majors::Pointers(p) => {
                while self.row + 2 < p.len() && p[self.row + 1].place() <= e {
                    self.row += 1;
                }
                self.row
            }
            Majors::List(list) => list[e].place(),
        }
    }
}

/// For each place the inner product of a row of `x` and a row of `y`, both of `k` columns: `x @ y.T` at these places.
///
/// ```
/// use torsh_backend_cpu::sparse::{Majors, sampled_product};
/// let (x, y) = ([1.0f32, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0]);
/// let mut out = [0.0; 2];
/// sampled_product(Majors::List(&[1i64, 0]), &[0, 1], &x, &y, 2, &mut out)?;
/// assert_eq!(out, [3.0, 2.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn sampled_product<T: Number, I: Index>(
    majors: Majors<'_, I>,
    minors: &[I],
    x: &[T],
    y: &[T],
    k: usize,
    out: &mut [T],
) -> Result<()> {
    let count = minors.len();
    let listed = match majors {
        Majors::Pointers(p) => {
            check_pointers(p, count)?;
            count
        }
        Majors::List(list) => list.len(),
    };
    if listed != count || out.len() != count {
        return Err(TorshError::shape(
            "",
            format!(
                "{listed} rows, {count} columns and {} results do not belong together",
                out.len()
            ),
        ));
    }
    if k == 0 {
        out.fill(T::rounded(T::ZERO));
        return Ok(());
    }
    let item = tuning::PRODUCT_VECTOR * (k * size_of::<T>()).div_ceil(32) + tuning::ELEMENT;
    share(&even(count, item), Parts::new(out, 1), |range, part| {
        let work = SamplesWork {
            majors,
            minors,
            range,
            x,
            y,
            k,
            out: part.into_slice(),
        };
        T::samples(work).ok_or_else(|| bad_place(majors, minors, x.len() / k, y.len() / k))
    })
}

#[cold]
fn bad_place<I: Index>(
    majors: Majors<'_, I>,
    minors: &[I],
    rows: usize,
    columns: usize,
) -> TorshError {
    let of_rows = match majors {
        Majors::List(list) => out_of_range(list, rows, "row"),
        Majors::Pointers(_) => None,
    };
    of_rows
        .or_else(|| out_of_range(minors, columns, "column"))
        .unwrap_or_else(|| {
            TorshError::shape("", format!("there are more rows of places than {rows}"))
        })
}
