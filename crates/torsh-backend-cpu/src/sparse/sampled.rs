//! Products of dense matrices, computed at some places alone.

use std::mem::MaybeUninit;

use torsh_core::{Result, TorshError};

use super::choose;
use super::number::Index;
use super::plain::SamplesWork;
use super::rows::{Majors, check_pointers, out_of_range};
use super::split::{even, share};
use super::tuning;
use super::vectors::Products;
use crate::shares::Parts;

/// For each place the inner product of a row of `x` and a row of `y`, both of `k` columns: `x @ y.T` at these places. Every
/// element of the result is written.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{Majors, sampled_product};
/// let (x, y) = ([1.0f32, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0]);
/// let mut out = [MaybeUninit::uninit(); 2];
/// sampled_product(Majors::List(&[1i64, 0]), &[0, 1], &x, &y, 2, &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [3.0, 2.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn sampled_product<T: Products, I: Index>(
    majors: Majors<'_, I>,
    minors: &[I],
    x: &[T],
    y: &[T],
    k: usize,
    out: &mut [MaybeUninit<T>],
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
        out.fill(MaybeUninit::new(T::default()));
        return Ok(());
    }
    let item = tuning::PRODUCT_VECTOR * (k * size_of::<T>()).div_ceil(32) + tuning::ELEMENT;
    let far = size_of_val(y) > choose::l2();
    share(&even(count, item), Parts::new(out, 1), |range, part| {
        let work = SamplesWork {
            majors,
            minors,
            range,
            x,
            y,
            k,
            ahead: if far { tuning::AHEAD } else { 0 },
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
