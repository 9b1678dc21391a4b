//! Triangular systems.

use std::sync::Mutex;

use torsh_core::{Result, TorshError, pool};

use super::number::{Index, Number};
use super::product::check_sizes;
use super::rows::Rows;
use super::tuning;
use crate::machine::tuning::grain;
use crate::simd::Base;

/// Which triangle of a matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The upper one, else the lower one.
    pub upper: bool,
    /// Whether the diagonal is taken as ones, and not read.
    pub unit: bool,
}

/// Solves `A X = B` for a triangular matrix, where `B` and `X` are row-major matrices of `m` columns. Elements of the other
/// triangle are not read. A diagonal element that is missing counts as 0, which is divided by.
///
/// ```
/// use torsh_backend_cpu::sparse::{Rows, Triangle, solve};
/// // [[2, 0], [1, 4]]
/// let a = Rows::new(&[0i64, 1, 3], &[0, 0, 1], &[2.0f32, 1.0, 4.0], None, 2)?;
/// let mut x = [0.0; 2];
/// solve(a, &[2.0, 9.0], 1, Triangle { upper: false, unit: false }, &mut x)?;
/// assert_eq!(x, [1.0, 2.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, the matrix is not square, or the sizes do not go together.
pub fn solve<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    b: &[T],
    m: usize,
    triangle: Triangle,
    out: &mut [T],
) -> Result<()> {
    let n = a.count();
    if a.width != n {
        return Err(TorshError::shape(
            "",
            format!("a triangular matrix is square, not {n} by {}", a.width),
        ));
    }
    check_sizes(b.len(), n, m, "the right-hand side")?;
    check_sizes(out.len(), n, m, "the result")?;
    if out.is_empty() {
        return Ok(());
    }
    let strips = m.div_ceil(tuning::SOLVE_COLUMNS);
    let work = a.columns.len().saturating_add(n) * tuning::PASS;
    let least = (grain(1) / (work * m.min(tuning::SOLVE_COLUMNS)).max(1)).max(1);
    let results = Mutex::new((out, None));
    pool::parallel_for(strips, least, &|range| {
        for strip in range {
            let from = strip * tuning::SOLVE_COLUMNS;
            let to = m.min(from + tuning::SOLVE_COLUMNS);
            let solved = strip_of(a, b, m, from..to, triangle);
            let Ok(mut results) = results.lock() else {
                return;
            };
            match solved {
                Ok(x) => {
                    for (to_row, x) in results.0.chunks_exact_mut(m).zip(x.chunks_exact(to - from))
                    {
                        for (to, x) in to_row[from..to].iter_mut().zip(x) {
                            *to = T::rounded(*x);
                        }
                    }
                }
                Err(e) => results.1 = Some(e),
            }
        }
    });
    match results.into_inner() {
        Ok((_, Some(e))) => Err(e),
        // A panic went through `parallel_for` already.
        _ => Ok(()),
    }
}

/// The solution for some right-hand sides.
fn strip_of<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    b: &[T],
    m: usize,
    columns: std::ops::Range<usize>,
    triangle: Triangle,
) -> Result<Vec<T::Sum>> {
    let (n, w) = (a.count(), columns.len());
    let mut x: Vec<T::Sum> = Vec::with_capacity(n * w);
    for row in b.chunks_exact(m) {
        x.extend(row[columns.clone()].iter().map(|v| v.wide()));
    }
    for step in 0..n {
        let i = if triangle.upper { n - 1 - step } else { step };
        let (before, rest) = x.split_at_mut(i * w);
        let (own, behind) = rest.split_at_mut(w);
        let mut diagonal = T::ZERO;
        for e in a.row(i) {
            let (c, v) = a.at(e).ok_or_else(|| a.out_of_range())?;
            let v = v.wide();
            let known = match (c == i, triangle.upper) {
                (true, _) => {
                    diagonal = T::add(diagonal, v);
                    continue;
                }
                (_, true) if c > i => &behind[(c - i - 1) * w..][..w],
                (_, false) if c < i => &before[c * w..][..w],
                _ => continue,
            };
            let v = T::sub(T::ZERO, v);
            for (x, y) in own.iter_mut().zip(known) {
                *x = T::add_product::<Base>(*x, v, *y);
            }
        }
        if !triangle.unit {
            own.iter_mut().for_each(|x| *x = T::div(*x, diagonal));
        }
    }
    Ok(x)
}
