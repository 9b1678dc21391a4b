//! Rows shared among threads by their stored elements.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smallvec::SmallVec;
use torsh_core::{Result, TorshError, pool};

use super::number::Index;
use crate::machine::tuning::grain;
use crate::shares::Shared;

/// Where parts of rows begin and end that take about the same time, as many as are worth a thread each: an element takes
/// `element` picoseconds, a row `row` more.
pub(super) fn balanced<I: Index>(
    pointers: &[I],
    element: usize,
    row: usize,
) -> SmallVec<[usize; 9]> {
    let count = pointers.len() - 1;
    let before = |i: usize| {
        let elements = pointers[i].place().saturating_mul(element);
        elements.saturating_add(i.saturating_mul(row))
    };
    let all = before(count);
    let parts = pool::chunk_count(all, grain(1)).clamp(1, count.max(1));
    let mut ends = SmallVec::with_capacity(parts + 1);
    ends.push(0);
    for part in 1..parts {
        let wanted = (all as u128 * part as u128 / parts as u128) as usize;
        let from = ends[part - 1];
        ends.push(first_of(from..count, |i| before(i) < wanted));
    }
    ends.push(count);
    ends
}

/// The first place of a range that is not `before`, where all that are come first; the range's end if all are.
pub(super) fn first_of(range: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// Rows of one length, of which each thread gets some columns.
pub(super) struct Columns<'a, T>(pub(super) Vec<&'a mut [T]>);

impl<'a, T> Columns<'a, T> {
    /// The rows of a row-major matrix of `n` columns; none where that is empty.
    pub(super) fn new(data: &'a mut [T], n: usize) -> Columns<'a, T> {
        Columns(data.chunks_exact_mut(n.max(1)).collect())
    }
}

impl<T: Send> Shared for Columns<'_, T> {
    fn split_off(&mut self, items: usize) -> Self {
        let rows = self.0.iter_mut().map(|row| {
            let (first, rest) = std::mem::take(row).split_at_mut(items);
            *row = rest;
            first
        });
        Columns(rows.collect())
    }
}

/// Whether something is true of all ranges of `count` items, of which each takes so many picoseconds.
pub(super) fn holds(count: usize, item: usize, f: impl Fn(Range<usize>) -> bool + Sync) -> bool {
    let good = AtomicBool::new(true);
    pool::parallel_for(count, grain(item.max(1)), &|range| {
        if !f(range) {
            good.store(false, Relaxed);
        }
    });
    good.into_inner()
}

/// Calls `f` with each part of the items and of the results, on a thread each. The error is that of the first part that has
/// one.
pub(super) fn share<S: Shared>(
    ends: &[usize],
    mut results: S,
    f: impl Fn(Range<usize>, S) -> Result<()> + Sync,
) -> Result<()> {
    let parts = ends.len() - 1;
    if parts == 1 {
        return f(ends[0]..ends[1], results);
    }
    let split: Vec<_> = ends
        .windows(2)
        .map(|w| Mutex::new(Some(results.split_off(w[1] - w[0]))))
        .collect();
    let failed: Mutex<Option<(usize, TorshError)>> = Mutex::new(None);
    pool::parallel_parts(parts, parts, &|_, range| {
        for part in range {
            let own = split[part].lock().ok().and_then(|mut s| s.take());
            let Some(own) = own else { continue };
            if let Err(e) = f(ends[part]..ends[part + 1], own)
                && let Ok(mut failed) = failed.lock()
                && failed.as_ref().is_none_or(|(at, _)| part < *at)
            {
                *failed = Some((part, e));
            }
        }
    });
    match failed.into_inner() {
        Ok(Some((_, e))) => Err(e),
        // A panic of `f` went through `parallel_parts` already.
        _ => Ok(()),
    }
}

/// Parts of `count` equal items of so many picoseconds each.
pub(super) fn even(count: usize, item: usize) -> SmallVec<[usize; 9]> {
    let parts = pool::chunk_count(count, grain(item.max(1))).max(1);
    (0..=parts)
        .map(|p| (count as u128 * p as u128 / parts as u128) as usize)
        .collect()
}
