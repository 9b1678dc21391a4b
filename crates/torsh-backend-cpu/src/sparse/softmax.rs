//! Softmax of runs of values, and what its derivative is made of.

use torsh_core::Result;

use super::number::{Index, Number};
use super::product::check_sizes;
use super::rows::check_pointers;
use super::split::{balanced, first_of, share};
use super::tuning;
use crate::kernels::softmax::LineSoftmax;
use crate::shares::Parts;

/// Numbers that have a softmax: float32 and float64.
pub trait Softmax: Number {
    /// The softmax, or its logarithm, of lines of `width` columns that begin at `starts`.
    #[doc(hidden)]
    fn lines(values: &[Self], width: usize, starts: &[i64], log: bool, out: &mut [Self]);
}

macro_rules! softmax {
    ($($t:ident)*) => { $(
        impl Softmax for $t {
            fn lines(values: &[$t], width: usize, starts: &[i64], log: bool, out: &mut [$t]) {
                let line = LineSoftmax::<$t>::new(log);
                let mut rest = out;
                for ends in starts.windows(2) {
                    let (from, to) = (ends[0].place() * width, ends[1].place() * width);
                    let (own, other) = rest.split_at_mut(to - from);
                    line.run(&values[from..to], own, width);
                    rest = other;
                }
            }
        }
    )* };
}
softmax! { f32 f64 }

/// Exponentials of each run of values over their sum, or the logarithm of that. Run `i` has the rows of `values` from
/// `starts[i]` to before `starts[i + 1]`, which have `width` numbers; each column has a sum of its own.
///
/// ```
/// use torsh_backend_cpu::sparse::run_softmax;
/// let mut out = [9.0f64; 3];
/// run_softmax(&[1.0, 1.0, 7.0], 1, &[0, 2, 3], false, &mut out)?;
/// assert_eq!(out, [0.5, 0.5, 1.0]);
/// run_softmax(&[1.0, 7.0, 7.0], 1, &[0, 1, 3], true, &mut out)?;
/// assert!(out[0] == 0.0 && (out[1] + 2f64.ln()).abs() < 1e-12 && out[2] == out[1]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the lengths do not go together, or `starts` decrease.
pub fn run_softmax<T: Softmax>(
    values: &[T],
    width: usize,
    starts: &[i64],
    log: bool,
    out: &mut [T],
) -> Result<()> {
    each_run(
        values,
        width,
        starts,
        out,
        tuning::SOFTMAX,
        |starts, part| {
            T::lines(values, width, starts, log, part);
        },
    )
}

/// The sum of each run of values, at each of its rows: the runs are those of [`run_softmax`]. Half types are summed in
/// float32.
///
/// ```
/// use torsh_backend_cpu::sparse::run_totals;
/// let mut out = [0; 3];
/// run_totals(&[1, 2, 7], 1, &[0, 2, 3], &mut out)?;
/// assert_eq!(out, [3, 3, 7]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// As [`run_softmax`].
pub fn run_totals<T: Number>(
    values: &[T],
    width: usize,
    starts: &[i64],
    out: &mut [T],
) -> Result<()> {
    each_run(values, width, starts, out, tuning::PASS, |starts, part| {
        let mut sums = vec![T::ZERO; width];
        let mut rest = part;
        for ends in starts.windows(2) {
            let (from, to) = (ends[0].place() * width, ends[1].place() * width);
            let (own, other) = rest.split_at_mut(to - from);
            sums.fill(T::ZERO);
            for row in values[from..to].chunks_exact(width) {
                for (sum, v) in sums.iter_mut().zip(row) {
                    *sum = T::add(*sum, v.wide());
                }
            }
            for row in own.chunks_exact_mut(width) {
                for (to, sum) in row.iter_mut().zip(&sums) {
                    *to = T::rounded(*sum);
                }
            }
            rest = other;
        }
    })
}

/// Calls `f` with parts of the runs, where they begin and end, and the rows of the result that are theirs.
fn each_run<T: Number>(
    values: &[T],
    width: usize,
    starts: &[i64],
    out: &mut [T],
    item: usize,
    f: impl Fn(&[i64], &mut [T]) + Sync,
) -> Result<()> {
    let rows = starts.last().map_or(0, |n| n.place());
    check_pointers(starts, rows)?;
    check_sizes(values.len(), rows, width, "the list of values")?;
    check_sizes(out.len(), rows, width, "the result")?;
    if out.is_empty() {
        return Ok(());
    }
    let cuts = balanced(starts, item.saturating_mul(width), tuning::ROW);
    let ends: Vec<usize> = cuts.iter().map(|&run| starts[run].place()).collect();
    share(&ends, Parts::new(out, width), |range, part| {
        if !range.is_empty() {
            let part_of = first_of(0..ends.len(), |i| ends[i] <= range.start) - 1;
            f(
                &starts[cuts[part_of]..=cuts[part_of + 1]],
                part.into_slice(),
            );
        }
        Ok(())
    })
}
