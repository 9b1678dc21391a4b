//! Sorted lists of places, matched and merged.

use std::ops::Range;

use smallvec::SmallVec;
use torsh_core::{Result, TorshError, pool};

use super::lists::Coordinates;
use super::number::{Index, Number};
use super::split::{Columns, even, first_of, holds, share};
use super::tuning;
use crate::machine::tuning::grain;
use crate::shares::{Parts, Shared};

/// Where each of the places `wanted` is among those of `have`, which ascend. `at` gets its position; of a place that is
/// not there `!p`, which is negative, where `p` places of `have` come before it.
///
/// Places that ascend, too, are found in linear time, others by search. Coordinates outside of the shape find any
/// position.
///
/// ```
/// use torsh_backend_cpu::sparse::{Coordinates, find_places};
/// let have = Coordinates::new(&[2, 5, 7], 3, &[9])?;
/// let wanted = Coordinates::new(&[1, 5, 8], 3, &[9])?;
/// let mut at = [9; 3];
/// find_places(have, wanted, &mut at)?;
/// assert_eq!(at, [!0, 1, !3]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes differ, or there is not a position for each of `wanted`.
pub fn find_places(have: Coordinates<'_>, wanted: Coordinates<'_>, at: &mut [i64]) -> Result<()> {
    if have.shape() != wanted.shape() || at.len() != wanted.count() {
        return Err(TorshError::shape(
            "",
            format!(
                "{} places of the shape {:?} are not found at {} positions among those of {:?}",
                wanted.count(),
                wanted.shape(),
                at.len(),
                have.shape()
            ),
        ));
    }
    let n = have.count();
    if !have.fit_a_word() {
        return search(n, |e| have.place(e), |e| wanted.place(e), at);
    }
    match *have.shape() {
        [_, columns] => {
            let key = |[rows, others]: [&[i64]; 2], e: usize| {
                let row = (rows[e] as u64).wrapping_mul(columns as u64);
                row.wrapping_add(others[e] as u64)
            };
            let (a, b) = ([0, 1].map(|d| have.row(d)), [0, 1].map(|d| wanted.row(d)));
            search(n, |e| key(a, e), |e| key(b, e), at)
        }
        _ => search(n, |e| have.position(e), |e| wanted.position(e), at),
    }
}

/// As [`find_places`], by keys.
fn search<K: Ord>(
    n: usize,
    have: impl Fn(usize) -> K + Sync,
    wanted: impl Fn(usize) -> K + Sync,
    at: &mut [i64],
) -> Result<()> {
    let ends = even(at.len(), tuning::FIND);
    share(&ends, Parts::new(at, 1), |range, part| {
        let (mut last, mut low) = (None, 0);
        for (e, to) in range.zip(part.into_slice()) {
            let key = wanted(e);
            let before = |i: usize| have(i) < key;
            low = match &last {
                Some(last) if *last <= key => onward(low, n, before),
                _ => first_of(0..n, before),
            };
            *to = match low < n && have(low) == key {
                true => low as i64,
                false => !(low as i64),
            };
            last = Some(key);
        }
        Ok(())
    })
}

/// The first place from `low` on that is not `before`, in steps that double.
#[inline(always)]
fn onward(mut low: usize, n: usize, before: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    while step <= n - low {
        let last = low + step - 1;
        if !before(last) {
            return first_of(low..last, before);
        }
        low += step;
        step *= 2;
    }
    first_of(low..n, before)
}

/// Where a position that [`find_places`] gave is, and whether the place is there.
#[inline(always)]
fn found(at: i64) -> (usize, bool) {
    match at < 0 {
        true => ((!at).place(), false),
        false => (at.place(), true),
    }
}

/// Where the places go on that come behind a position, and behind its place if that is there.
#[inline(always)]
fn behind(at: i64) -> usize {
    let (p, there) = found(at);
    p.saturating_add(usize::from(there))
}

/// Whether these are positions among `n` places of places that ascend.
fn are_positions(at: &[i64], n: usize) -> bool {
    let follows = |e: usize| behind(at[e - 1]) <= found(at[e]).0;
    at.last().is_none_or(|&last| behind(last) <= n)
        && holds(at.len(), tuning::PASS, |range| {
            (range.start.max(1)..range.end).all(follows)
        })
}

/// The places of two lists that ascend, each once and in order, and their values: where both have a place, the sum.
///
/// `at` is where the places of `b` are among those of `a`, as [`find_places`] gives it. `values` are those of both
/// lists, `width` for each place. `indices` is a matrix of a row for each dimension and a column for each place of the
/// result.
///
/// ```
/// use torsh_backend_cpu::sparse::{Coordinates, merge_places};
/// let a = Coordinates::new(&[2, 5], 2, &[9])?;
/// let b = Coordinates::new(&[1, 5], 2, &[9])?;
/// let (mut indices, mut values) = ([0; 3], [0.0f32; 3]);
/// merge_places(a, b, &[!0, 1], (&[2.0, 5.0], &[0.1, 0.5]), 1, &mut indices, &mut values)?;
/// assert_eq!((indices, values), ([1, 2, 5], [0.1, 2.0, 5.5]));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the lengths do not go together, or `at` has no positions of ascending places.
pub fn merge_places<T: Number>(
    a: Coordinates<'_>,
    b: Coordinates<'_>,
    at: &[i64],
    values: (&[T], &[T]),
    width: usize,
    indices: &mut [i64],
    out: &mut [T],
) -> Result<()> {
    let (n, m) = (a.count(), b.count());
    let both = |range: Range<usize>| at[range].iter().filter(|&&p| p >= 0).count();
    let same = |values: &[T], count: usize| count.checked_mul(width) == Some(values.len());
    let sizes = a.shape() == b.shape() && at.len() == m && same(values.0, n) && same(values.1, m);
    let count = if sizes { n + m - both(0..m).min(m) } else { 0 };
    if !sizes || !same(&*out, count) || a.shape().len().checked_mul(count) != Some(indices.len()) {
        return Err(TorshError::shape(
            "",
            format!(
                "lists of {n} and {m} places do not merge into {} values",
                out.len()
            ),
        ));
    }
    if !are_positions(at, n) {
        return Err(TorshError::invalid(
            "",
            "the positions are none of places in order",
        ));
    }
    // Parts of as many places each of both lists together.
    let parts = pool::chunk_count(n + m, grain(tuning::MERGE)).max(1);
    let (mut cuts, mut ends) = (vec![[0, 0]], vec![0]);
    for part in 1..=parts {
        let [i, j] = match part < parts {
            true => cut(
                at,
                n,
                ((n + m) as u128 * part as u128 / parts as u128) as usize,
            ),
            false => [n, m],
        };
        let [k, l] = cuts[part - 1];
        let (i, j) = (i.max(k), j.max(l));
        ends.push(ends[part - 1] + (i - k) + (j - l) - both(l..j));
        cuts.push([i, j]);
    }
    let results = Merged {
        indices: Columns::new(indices, count),
        values: Parts::new(out, width),
    };
    share(&ends, results, |range, to| {
        if range.is_empty() {
            return Ok(());
        }
        let part = ends.partition_point(|&end| end <= range.start) - 1;
        let ([i, j], [i_end, j_end]) = (cuts[part], cuts[part + 1]);
        let mut writer = Writer {
            to: to.indices.0,
            values: to.values.into_slice(),
            rows: [a, b].map(|c| (0..c.shape().len()).map(|d| c.row(d)).collect()),
            from: [values.0, values.1],
            width,
            k: 0,
        };
        let mut next = i;
        for (e, &p) in (j..j_end).zip(&at[j..j_end]) {
            let (p, there) = found(p);
            (next..p).for_each(|i| writer.put(0, i));
            writer.put(1, e);
            if there {
                writer.add(p);
            }
            next = p + usize::from(there);
        }
        (next..i_end).for_each(|i| writer.put(0, i));
        Ok(())
    })
}

/// How many places of both lists are among the first `wanted` ones of all, those of both lists counted twice.
fn cut(at: &[i64], n: usize, wanted: usize) -> [usize; 2] {
    let j = first_of(0..at.len(), |j| found(at[j]).0.min(n) + j < wanted);
    // What both lists have stays together.
    let least = match j.checked_sub(1).map(|last| found(at[last])) {
        Some((p, there)) => p.min(n) + usize::from(there),
        None => 0,
    };
    [wanted.saturating_sub(j).max(least).min(n), j]
}

/// Indices and values of merged lists.
struct Merged<'a, T> {
    indices: Columns<'a, i64>,
    values: Parts<'a, T>,
}

impl<T: Send> Shared for Merged<'_, T> {
    fn split_off(&mut self, items: usize) -> Self {
        Merged {
            indices: self.indices.split_off(items),
            values: self.values.split_off(items),
        }
    }
}

/// Writes places one behind the other.
struct Writer<'w, 'a, T> {
    to: Vec<&'w mut [i64]>,
    values: &'w mut [T],
    /// The coordinates of both lists, a row for each dimension.
    rows: [SmallVec<[&'a [i64]; 4]>; 2],
    from: [&'a [T]; 2],
    width: usize,
    /// How many places were written.
    k: usize,
}

impl<T: Number> Writer<'_, '_, T> {
    /// Place `e` of a list.
    #[inline(always)]
    fn put(&mut self, list: usize, e: usize) {
        for (to, from) in self.to.iter_mut().zip(&self.rows[list]) {
            to[self.k] = from[e];
        }
        match self.width {
            1 => self.values[self.k] = self.from[list][e],
            w => self.values[self.k * w..][..w].copy_from_slice(&self.from[list][e * w..][..w]),
        }
        self.k += 1;
    }

    /// Adds the last place's value to that of place `e` of the first list.
    #[inline(always)]
    fn add(&mut self, e: usize) {
        let w = self.width;
        let to = &mut self.values[(self.k - 1) * w..][..w];
        for (to, from) in to.iter_mut().zip(&self.from[0][e * w..][..w]) {
            *to = T::rounded(T::add(from.wide(), to.wide()));
        }
    }
}
