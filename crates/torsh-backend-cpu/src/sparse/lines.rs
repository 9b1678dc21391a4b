//! Lines of stored elements: where each begins, from the line of each element and back.

use torsh_core::{Result, TorshError};

use super::group::each_row;
use super::lists::Coordinates;
use super::number::Index;
use super::rows::check_pointers;
use super::split::{Columns, even, first_of, holds, share};
use super::tuning;
use crate::shares::Parts;

/// Whether `pointers` say where the lines of some matrices begin and end, and `plain` the other index of each element:
/// below `others`, and in each line in order and once. All `entries` matrices have as many elements, and `lines` lines
/// each.
///
/// ```
/// use torsh_backend_cpu::sparse::are_lines;
/// assert!(are_lines(&[0i64, 2, 3], &[0, 2, 1], [1, 2, 3]));
/// assert!(!are_lines(&[0i64, 2, 3], &[2, 0, 1], [1, 2, 3]));
/// assert!(!are_lines(&[0i64, 1, 3], &[0, 1, 3], [1, 2, 3]));
/// ```
pub fn are_lines<I: Index>(
    pointers: &[I],
    plain: &[I],
    [entries, lines, others]: [usize; 3],
) -> bool {
    if entries == 0 {
        return pointers.is_empty() && plain.is_empty();
    }
    if entries.checked_mul(lines.saturating_add(1)) != Some(pointers.len())
        || !plain.len().is_multiple_of(entries)
    {
        return false;
    }
    let nnz = plain.len() / entries;
    let whole = |p: &[I]| p[0].place() == 0 && p[lines].place() == nnz;
    if !pointers.chunks_exact(lines + 1).all(whole) {
        return false;
    }
    let line_is_good = |at: usize| {
        let (entry, line) = (at / lines, at % lines);
        let ends = &pointers[entry * (lines + 1) + line..][..2];
        let (from, to) = (ends[0].place(), ends[1].place());
        if from > to || to > nnz || to - from > others {
            return false;
        }
        let own = &plain[entry * nnz..][from..to];
        own.is_sorted_by(|a, b| a.place() < b.place())
            && own.last().is_none_or(|i| i.place() < others)
    };
    let each = tuning::PASS.saturating_mul(1 + nnz / lines.max(1));
    holds(entries * lines, each, |mut range| range.all(line_is_good))
}

/// Where lines begin, from the line of each element. `heads` are the coordinates of lines, in order: the last dimension
/// counts the lines of a matrix, those before it the matrices. `pointers` gets for each matrix where each of its lines
/// begins, counted from the matrix's first element, and how many elements it has.
///
/// ```
/// use torsh_backend_cpu::sparse::{Coordinates, line_pointers};
/// let mut pointers = [9i64; 4];
/// line_pointers(Coordinates::new(&[0, 0, 2], 3, &[3])?, &mut pointers)?;
/// assert_eq!(pointers, [0, 2, 2, 3]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If a coordinate is out of range, the lengths do not go together, or there are more elements than the index type
/// counts.
pub fn line_pointers<I: Index>(heads: Coordinates<'_>, pointers: &mut [I]) -> Result<()> {
    let (n, slots) = (heads.count(), pointers.len());
    let refuse = || {
        TorshError::shape(
            "",
            format!(
                "{slots} pointers are none of lines of the sizes {:?}",
                heads.shape()
            ),
        )
    };
    let Some((&lines, batch)) = heads.shape().split_last() else {
        return Err(refuse());
    };
    let entries = batch.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    if entries.and_then(|e| e.checked_mul(lines.saturating_add(1))) != Some(slots) {
        return Err(refuse());
    }
    if !heads.are_within() {
        return Err(TorshError::index(
            "",
            format!("the line of an element lies outside of {:?}", heads.shape()),
        ));
    }
    if slots == 0 {
        return Ok(());
    }
    I::of(n).ok_or_else(|| too_many(n))?;
    // As many lines as there are pointers fit a word.
    let line = |e: usize| heads.position(e) as usize;
    let each = tuning::PASS.saturating_mul(1 + n / slots.max(1));
    share(
        &even(slots, each),
        Parts::new(pointers, 1),
        |range, part| {
            let (entry, mut within) = (range.start / (lines + 1), range.start % (lines + 1));
            let mut at = entry * lines + within;
            let mut base = first_of(0..n, |e| line(e) < entry * lines);
            let mut next = first_of(base..n, |e| line(e) < at);
            for to in part.into_slice() {
                while next < n && line(next) < at {
                    next += 1;
                }
                if within == 0 {
                    base = next;
                }
                *to = I::of(next - base).ok_or_else(|| too_many(n))?;
                // The line behind a matrix's last one is the first of the next.
                match within < lines {
                    true => (within, at) = (within + 1, at + 1),
                    false => within = 0,
                }
            }
            Ok(())
        },
    )
}

#[cold]
fn too_many(count: usize) -> TorshError {
    TorshError::invalid(
        "",
        format!("{count} elements are too many for the index type"),
    )
}

/// The coordinates of the elements of `entries` matrices, which are given by where lines begin, as [`line_pointers`]
/// has them, and by the other index of each element.
///
/// `sizes` are what the lines of all matrices together count in. `out` gets a row of indices for each of them, and one
/// for the other index: behind the last of `sizes` where `by_rows`, else before it.
///
/// ```
/// use torsh_backend_cpu::sparse::coordinates;
/// let mut indices = [9; 6];
/// coordinates(&[0i64, 2, 2, 3], &[4, 5, 6], 1, &[3], true, &mut indices)?;
/// assert_eq!(indices, [0, 0, 2, 4, 5, 6]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the lengths do not go together, or the pointers decrease.
pub fn coordinates<I: Index>(
    pointers: &[I],
    plain: &[I],
    entries: usize,
    sizes: &[usize],
    by_rows: bool,
    out: &mut [i64],
) -> Result<()> {
    let n = plain.len();
    let all = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    let lines = all.and_then(|all| all.checked_div(entries));
    let fits = match lines {
        Some(lines) => {
            all == Some(lines * entries)
                && lines.saturating_add(1).checked_mul(entries) == Some(pointers.len())
                && n.is_multiple_of(entries)
        }
        None => pointers.is_empty() && n == 0,
    };
    if !fits || (sizes.len() + 1).checked_mul(n) != Some(out.len()) {
        return Err(TorshError::shape(
            "",
            format!(
                "{} pointers and {n} indices do not belong to {entries} matrices of the sizes {sizes:?}",
                pointers.len()
            ),
        ));
    }
    let Some(lines) = lines.filter(|_| n > 0) else {
        return Ok(());
    };
    let nnz = n / entries;
    for own in pointers.chunks_exact(lines + 1) {
        check_pointers(own, nnz)?;
    }
    // The rows of the last of the sizes, and of the other index.
    let last = sizes.len().saturating_sub(1);
    let (of_line, of_other) = match (sizes.is_empty(), by_rows) {
        (true, _) => (0, 0),
        (_, true) => (last, last + 1),
        (_, false) => (last + 1, last),
    };
    let ends = even(n, tuning::PASS * (sizes.len() + 1));
    share(&ends, Columns::new(out, n), |range, mut part| {
        let mut from = range.start;
        while from < range.end {
            let entry = from / nnz;
            let base = entry * nnz;
            let to = range.end.min(base + nnz);
            let own = &pointers[entry * (lines + 1)..][..lines + 1];
            each_row(own, from - base..to - base, |line, elements| {
                let (mut rest, start) = (entry * lines + line, base + elements.start - range.start);
                for (d, &size) in sizes.iter().enumerate().rev() {
                    let row = if d == last { of_line } else { d };
                    part.0[row][start..][..elements.len()].fill((rest % size) as i64);
                    rest /= size;
                }
            });
            let others = &mut part.0[of_other][from - range.start..to - range.start];
            for (to, other) in others.iter_mut().zip(&plain[from..to]) {
                *to = other.place() as i64;
            }
            from = to;
        }
        Ok(())
    })
}
