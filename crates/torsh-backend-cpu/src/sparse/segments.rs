//! Sums of runs of values.

use torsh_core::{Result, TorshError};

use super::number::Number;
use super::product::check_sizes;
use super::rows::check_pointers;
use super::split::{balanced, share};
use super::tuning;
use crate::shares::Parts;

/// Sums the values of each run of a sorted order: row `i` of the result is the sum of the rows
/// `order[starts[i]..starts[i + 1]]` of `values`, all of `width` numbers. Half types are summed in float32.
///
/// ```
/// use torsh_backend_cpu::sparse::segment_sums;
/// let mut out = [0.0f32; 2];
/// segment_sums(&[1.0, 2.0, 4.0], 1, &[1, 0, 2], &[0, 1, 3], &mut out)?;
/// assert_eq!(out, [2.0, 5.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the lengths do not go together.
pub fn segment_sums<T: Number>(
    values: &[T],
    width: usize,
    order: &[i64],
    starts: &[i64],
    out: &mut [T],
) -> Result<()> {
    check_pointers(starts, order.len())?;
    check_sizes(out.len(), starts.len() - 1, width, "the result")?;
    if out.is_empty() {
        return Ok(());
    }
    let line = |e: usize| {
        let at = usize::try_from(order[e])
            .ok()
            .and_then(|i| i.checked_mul(width));
        at.and_then(|at| values.get(at..)?.get(..width))
            .ok_or_else(|| {
                let count = values.len() / width;
                TorshError::index(
                    "",
                    format!("value {} is out of range for {count}", order[e]),
                )
            })
    };
    let element = tuning::MOVE + tuning::PASS * width / 8;
    let ends = balanced(starts, element, tuning::ROW / 4);
    share(&ends, Parts::new(out, width), |range, part| {
        let mut sums = vec![T::ZERO; width];
        for (i, out) in range.zip(part.into_slice().chunks_exact_mut(width)) {
            let (first, end) = (starts[i] as usize, starts[i + 1] as usize);
            if end - first == 1 {
                out.copy_from_slice(line(first)?);
                continue;
            }
            sums.fill(T::ZERO);
            for e in first..end {
                for (sum, v) in sums.iter_mut().zip(line(e)?) {
                    *sum = T::add(*sum, v.wide());
                }
            }
            out.iter_mut()
                .zip(&sums)
                .for_each(|(to, sum)| *to = T::rounded(*sum));
        }
        Ok(())
    })
}
