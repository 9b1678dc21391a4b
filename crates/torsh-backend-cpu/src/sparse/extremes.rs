//! The largest or smallest product of each row and column, in place of their sum.

use torsh_core::{Result, TorshError};

use super::number::{Index, Ordered};
use super::product::check_sizes;
use super::rows::Rows;
use super::split::{balanced, share};
use super::tuning;
use crate::shares::Parts;

/// Which product is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// For each row of the sparse matrix and each column of the dense one the largest or smallest product of a stored element
/// and the number that belongs to it, in place of their sum. A row without elements gives 0. NaN is beyond all numbers.
///
/// `which` gets the stored element that was taken, the first of equal ones; -1 in a row without elements.
///
/// ```
/// use torsh_backend_cpu::sparse::{Extreme, Rows, extremes};
/// let a = Rows::new(&[0i64, 2, 2], &[0, 1], &[1.0f32, 2.0], None, 2)?;
/// let (mut out, mut which) = ([9.0; 2], [9; 2]);
/// extremes(a, &[5.0, 3.0], 1, Extreme::Max, &mut out, &mut which)?;
/// assert_eq!((out, which), ([6.0, 0.0], [1, -1]));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn extremes<T: Ordered, I: Index>(
    a: Rows<'_, T, I>,
    dense: &[T],
    m: usize,
    extreme: Extreme,
    out: &mut [T],
    which: &mut [i64],
) -> Result<()> {
    let rows = a.count();
    check_sizes(dense.len(), a.width, m, "the dense operand")?;
    check_sizes(out.len(), rows, m, "the result")?;
    if which.len() != out.len() {
        return Err(TorshError::shape("", "the results have different sizes"));
    }
    if out.is_empty() {
        return Ok(());
    }
    let ends = balanced(a.pointers, tuning::PASS * m, tuning::ROW);
    let results = (
        Parts::new(out, m),
        Parts::new(which, m),
        Parts::none(),
        Parts::none(),
    );
    share(&ends, results, |range, (out, which, ..)| {
        let lines = out
            .into_slice()
            .chunks_exact_mut(m)
            .zip(which.into_slice().chunks_exact_mut(m));
        for (i, (out, which)) in range.zip(lines) {
            out.fill(T::rounded(T::ZERO));
            which.fill(-1);
            for (n, e) in a.row(i).enumerate() {
                let (c, v) = a.at(e).ok_or_else(|| a.out_of_range())?;
                for (j, b) in dense[c * m..][..m].iter().enumerate() {
                    let p = v.product(*b);
                    let better = match extreme {
                        Extreme::Max => p.above(out[j]),
                        Extreme::Min => p.below(out[j]),
                    };
                    if n == 0 || better {
                        (out[j], which[j]) = (p, e as i64);
                    }
                }
            }
        }
        Ok(())
    })
}
