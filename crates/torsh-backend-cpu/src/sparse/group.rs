//! Stored elements grouped by rows, which a transposition does, too.

use std::ops::Range;

use torsh_core::{Result, TorshError, pool};

use super::number::Index;
use super::rows::{check_pointers, out_of_range};
use super::tuning;
use crate::kernels::index::IndexPtr;
use crate::machine::tuning::grain;

/// What each element is stored under besides its group.
#[derive(Clone, Copy, Debug)]
pub enum Minors<'a, I> {
    /// An index for each element.
    List(&'a [I]),
    /// The row of each element, where the elements are stored row by row: where each row's begin.
    Pointers(&'a [I]),
}

/// Groups elements by `majors`, indices below the number of groups, and keeps the order within a group: a counting sort.
///
/// It writes where each group begins (`pointers`, of one element more than there are groups), the other index of each
/// element in the new order, and where the element was. So it gives a transposed matrix from columns and row pointers:
///
/// ```
/// use torsh_backend_cpu::sparse::{Minors, group};
/// // [[1, 2], [0, 3]] by rows.
/// let (mut pointers, mut rows, mut order) = ([0i64; 3], [0; 3], [0; 3]);
/// group(&[0i64, 1, 1], Minors::Pointers(&[0, 2, 3]), &mut pointers, &mut rows, &mut order)?;
/// assert_eq!((pointers, rows, order), ([0, 1, 3], [0, 0, 1], [0, 1, 2]));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, the lengths differ, or there are more elements than the index type counts.
pub fn group<I: Index>(
    majors: &[I],
    minors: Minors<'_, I>,
    pointers: &mut [I],
    others: &mut [I],
    order: &mut [i64],
) -> Result<()> {
    let count = majors.len();
    let given = match minors {
        Minors::List(list) => list.len(),
        Minors::Pointers(p) => {
            check_pointers(p, count)?;
            count
        }
    };
    let Some(groups) = pointers.len().checked_sub(1) else {
        return Err(TorshError::shape("", "there is no room for pointers"));
    };
    if [given, others.len(), order.len()]
        .iter()
        .any(|&n| n != count)
    {
        return Err(TorshError::shape(
            "",
            format!("{count} elements are grouped with {given} other indices"),
        ));
    }
    let too_many = || {
        TorshError::invalid(
            "",
            format!("{count} elements are too many for the index type"),
        )
    };
    I::of(count).ok_or_else(too_many)?;
    // Each thread counts on its own, if there are not more counts than elements to count.
    let most = (count * tuning::COUNTS_PER_ELEMENT / groups.max(1)).max(1);
    let parts = pool::chunk_count(count, grain(tuning::MOVE)).clamp(1, most);
    let mut starts = vec![0usize; parts * groups];
    count_groups(majors, groups, parts, &mut starts)?;
    let mut total = 0;
    for g in 0..groups {
        pointers[g] = I::of(total).ok_or_else(too_many)?;
        for part in 0..parts {
            let c = &mut starts[part * groups + g];
            (*c, total) = (total, total + *c);
        }
    }
    pointers[groups] = I::of(total).ok_or_else(too_many)?;
    let (others, order) = (
        IndexPtr::new(others.as_mut_ptr()),
        IndexPtr::new(order.as_mut_ptr()),
    );
    let starts = IndexPtr::new(starts.as_mut_ptr());
    pool::parallel_parts(count, parts, &|part, range| {
        // SAFETY: each part has a table of its own.
        let starts =
            unsafe { std::slice::from_raw_parts_mut(starts.at((part * groups) as isize), groups) };
        let mut put = |e: usize, other: I| {
            let start = &mut starts[majors[e].place()];
            // SAFETY: the same parts counted the same elements, so that each gets a slot below `count` of its own.
            unsafe {
                *others.at(*start as isize) = other;
                *order.at(*start as isize) = e as i64;
            }
            *start += 1;
        };
        match minors {
            Minors::List(list) => range.for_each(|e| put(e, list[e])),
            Minors::Pointers(p) => each_row(p, range, |row, elements| {
                if let Some(row) = I::of(row) {
                    elements.for_each(|e| put(e, row));
                }
            }),
        }
    });
    Ok(())
}

/// The rows of elements `range`, each with its part of the range.
pub(super) fn each_row<I: Index>(
    pointers: &[I],
    range: Range<usize>,
    mut f: impl FnMut(usize, Range<usize>),
) {
    if range.is_empty() {
        return;
    }
    let mut row = pointers
        .partition_point(|p| p.place() <= range.start)
        .saturating_sub(1);
    let mut from = range.start;
    while from < range.end && row + 1 < pointers.len() {
        let to = pointers[row + 1].place().min(range.end);
        f(row, from..to.max(from));
        from = to.max(from);
        row += 1;
    }
}

/// How many elements of each part are in each group.
fn count_groups<I: Index>(
    majors: &[I],
    groups: usize,
    parts: usize,
    counts: &mut [usize],
) -> Result<()> {
    let bad = std::sync::atomic::AtomicBool::new(false);
    let tables = IndexPtr::new(counts.as_mut_ptr());
    pool::parallel_parts(majors.len(), parts, &|part, range| {
        // SAFETY: each part has a table of its own.
        let counts =
            unsafe { std::slice::from_raw_parts_mut(tables.at((part * groups) as isize), groups) };
        for major in &majors[range] {
            match counts.get_mut(major.place()) {
                Some(c) => *c += 1,
                None => bad.store(true, std::sync::atomic::Ordering::Relaxed),
            }
        }
    });
    match bad.into_inner() {
        true => Err(out_of_range(majors, groups, "compressed")
            .unwrap_or_else(|| TorshError::index("", "an index is out of range"))),
        false => Ok(()),
    }
}
