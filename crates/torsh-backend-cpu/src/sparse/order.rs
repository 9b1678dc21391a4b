//! The order of places with several coordinates.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use torsh_core::{Result, TorshError, pool};

use super::choose::{OrderAlgorithm, OrderProblem};
use super::number::Index;
use super::split::{Columns, even, share};
use super::tuning;
use crate::kernels::index::IndexPtr;
use crate::machine::choice::pick;
use crate::machine::tuning::grain;
use crate::shares::Parts;

/// Sorts places, whose coordinates are the columns of the row-major matrix `indices`, in a shape: by their first
/// coordinate, then the second, and so on. Equal places stay in order.
///
/// `order` gets where each place was, `starts` where each run of equal ones begins in the sorted order, and behind the last
/// run the number of places. Returns the number of runs, which are the different places.
///
/// ```
/// use torsh_backend_cpu::sparse::sort_indices;
/// // The places (1, 0), (0, 2), (1, 0).
/// let (mut order, mut starts) = ([0; 3], [0; 4]);
/// let runs = sort_indices(&[1, 0, 1, 0, 2, 0], &[2, 3], &mut order, &mut starts)?;
/// assert_eq!((order, &starts[..=runs]), ([1, 0, 2], &[0, 1, 3][..]));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If a coordinate is out of range, or the lengths do not go together.
pub fn sort_indices(
    indices: &[i64],
    shape: &[usize],
    order: &mut [i64],
    starts: &mut [i64],
) -> Result<usize> {
    let n = order.len();
    if shape.len().checked_mul(n) != Some(indices.len()) || starts.len() != n + 1 {
        return Err(TorshError::shape(
            "",
            format!(
                "{} indices are not {} for each of {n} places",
                indices.len(),
                shape.len()
            ),
        ));
    }
    let pieces = pieces(shape);
    let place_bits = usize::BITS - n.saturating_sub(1).leading_zeros();
    match pieces[..] {
        [(first, end, bits)] if bits + place_bits <= 64 => {
            // Key and position fit one word.
            let mut items = vec![0u64; n];
            let sorted = keys(
                indices,
                shape,
                n,
                first..end,
                |i, key| key << place_bits | i as u64,
                &mut items,
            )?;
            if !sorted {
                items = sort_items(items, place_bits, bits);
            }
            let mask = low_bits(place_bits);
            share(&even(n, tuning::PASS), Parts::new(order, 1), |range, to| {
                let items = items[range].iter();
                items
                    .zip(to.into_slice())
                    .for_each(|(item, to)| *to = (item & mask) as i64);
                Ok(())
            })?;
            Ok(runs(n, starts, |i| {
                items[i] >> place_bits == items[i - 1] >> place_bits
            }))
        }
        _ => {
            // The last coordinates first: each pass keeps the order of equal keys.
            let mut places: Vec<u64> = (0..n as u64).collect();
            let mut all = Vec::with_capacity(pieces.len());
            for &(first, end, bits) in pieces.iter().rev() {
                let mut key = vec![0u64; n];
                keys(indices, shape, n, first..end, |_, key| key, &mut key)?;
                let items: Vec<(u64, u64)> = places.iter().map(|&p| (key[p as usize], p)).collect();
                places = sort_pairs(items, bits)
                    .into_iter()
                    .map(|(_, p)| p)
                    .collect();
                all.push(key);
            }
            places
                .iter()
                .zip(&mut *order)
                .for_each(|(p, to)| *to = *p as i64);
            Ok(runs(n, starts, |i| {
                let (a, b) = (places[i] as usize, places[i - 1] as usize);
                all.iter().all(|key| key[a] == key[b])
            }))
        }
    }
}

/// The coordinates of the different places: those of the first element of each run that [`sort_indices`] found.
///
/// `out` is a matrix of as many rows as `indices` has, and a column for each run.
///
/// # Errors
/// If the lengths do not go together.
pub fn unique_indices(
    indices: &[i64],
    order: &[i64],
    starts: &[i64],
    out: &mut [i64],
) -> Result<()> {
    let (n, runs) = (order.len(), starts.len());
    if n == 0 || runs == 0 {
        return Ok(());
    }
    let refuse = || {
        TorshError::shape(
            "",
            format!("{} indices are none of {n} places", indices.len()),
        )
    };
    if !indices.len().is_multiple_of(n) || out.len() != indices.len() / n * runs {
        return Err(refuse());
    }
    let ends = even(runs, tuning::MOVE);
    share(&ends, Columns::new(out, runs), |range, mut part| {
        for (from, to) in indices.chunks_exact(n).zip(&mut part.0) {
            for (start, to) in starts[range.clone()].iter().zip(to.iter_mut()) {
                let at = order.get(start.place()).and_then(|e| from.get(e.place()));
                *to = *at.ok_or_else(refuse)?;
            }
        }
        Ok(())
    })
}

fn low_bits(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}

/// Groups of adjacent dimensions whose linear indices fit a word, with the bits of these.
fn pieces(shape: &[usize]) -> Vec<(usize, usize, u32)> {
    let mut all = Vec::new();
    let (mut first, mut size) = (0, 1u64);
    let bits = |size: u64| 64 - size.saturating_sub(1).leading_zeros();
    for (d, &n) in shape.iter().enumerate() {
        match size.checked_mul(n.max(1) as u64) {
            Some(s) => size = s,
            None => {
                all.push((first, d, bits(size)));
                (first, size) = (d, n.max(1) as u64);
            }
        }
    }
    all.push((first, shape.len(), bits(size)));
    all
}

/// Writes an item for each place, made of its position and its linear index within some dimensions. Returns whether the
/// items do not decrease.
fn keys(
    indices: &[i64],
    shape: &[usize],
    n: usize,
    dims: Range<usize>,
    item: impl Fn(usize, u64) -> u64 + Sync,
    items: &mut [u64],
) -> Result<bool> {
    // The first of all, whatever the part that meets one.
    let bad = || {
        let first = |d: usize| {
            let row = &indices[d * n..][..n];
            let i = row.iter().position(|&i| i as u64 >= shape[d] as u64)?;
            Some(format!(
                "index {} of stored element {i} is out of range for dimension {d} with size {}",
                row[i], shape[d]
            ))
        };
        let text = dims.clone().find_map(first);
        TorshError::index("", text.unwrap_or("an index is out of range".into()))
    };
    let to = Parts::new(&mut *items, 1);
    share(&even(n, tuning::PASS), to, |range, part| {
        let to = part.into_slice();
        for (d, first) in dims
            .clone()
            .zip(std::iter::once(true).chain(std::iter::repeat(false)))
        {
            let size = shape[d] as u64;
            let mut inside = true;
            for (&i, key) in indices[d * n..][range.clone()].iter().zip(&mut *to) {
                inside &= (i as u64) < size;
                // Places of one size multiply without overflow: `pieces` saw to it.
                *key = if first {
                    i as u64
                } else {
                    key.wrapping_mul(size).wrapping_add(i as u64)
                };
            }
            if !inside {
                return Err(bad());
            }
        }
        for (i, key) in range.zip(to) {
            *key = item(i, *key);
        }
        Ok(())
    })?;
    Ok(items.is_sorted())
}

/// Sorts items by the `bits` bits above their position.
fn sort_items(items: Vec<u64>, low: u32, bits: u32) -> Vec<u64> {
    let problem = OrderProblem {
        n: items.len(),
        bits,
    };
    match pick::<OrderAlgorithm>(&problem, pool::num_threads()) {
        OrderAlgorithm::Comparison => {
            let mut items = items;
            items.sort_unstable();
            items
        }
        OrderAlgorithm::Radix => radix(items, low, bits, |item| item),
    }
}

fn sort_pairs(items: Vec<(u64, u64)>, bits: u32) -> Vec<(u64, u64)> {
    let problem = OrderProblem {
        n: items.len(),
        bits,
    };
    match pick::<OrderAlgorithm>(&problem, pool::num_threads()) {
        OrderAlgorithm::Comparison => {
            let mut items = items;
            items.sort_by_key(|i| i.0);
            items
        }
        OrderAlgorithm::Radix => radix(items, 0, bits, |item| item.0),
    }
}

/// Sorts items by `bits` bits of their key from `low` on, in passes over digits.
fn radix<T: Copy + Default + Send + Sync>(
    items: Vec<T>,
    low: u32,
    bits: u32,
    key: impl Fn(T) -> u64 + Copy + Sync,
) -> Vec<T> {
    let n = items.len();
    let passes = bits.div_ceil(tuning::DIGIT);
    if n == 0 || passes == 0 {
        return items;
    }
    let width = bits.div_ceil(passes);
    let parts = pool::chunk_count(n, grain(tuning::PASS)).max(1);
    let digits = 1usize << width;
    let mut counts = vec![0usize; parts * digits];
    let mut to = vec![T::default(); n];
    let mut from = items;
    for pass in 0..passes {
        let shift = low + pass * width;
        let mask = low_bits(width.min(low + bits - shift));
        let digit = |item: T| (key(item) >> shift & mask) as usize;
        let tables = IndexPtr::new(counts.as_mut_ptr());
        // SAFETY: each part has a table of its own.
        let table = |part: usize| unsafe {
            std::slice::from_raw_parts_mut(tables.at((part * digits) as isize), digits)
        };
        pool::parallel_parts(n, parts, &|part, range| {
            let counts = table(part);
            counts.fill(0);
            for &item in &from[range] {
                counts[digit(item)] += 1;
            }
        });
        let mut total = 0;
        for d in 0..digits {
            for part in 0..parts {
                let c = &mut counts[part * digits + d];
                (*c, total) = (total, total + *c);
            }
        }
        let (tables, out) = (
            IndexPtr::new(counts.as_mut_ptr()),
            IndexPtr::new(to.as_mut_ptr()),
        );
        pool::parallel_parts(n, parts, &|part, range| {
            // SAFETY: each part has a table of its own.
            let starts = unsafe {
                std::slice::from_raw_parts_mut(tables.at((part * digits) as isize), digits)
            };
            for &item in &from[range] {
                let start = &mut starts[digit(item)];
                // SAFETY: the same parts counted the same items, so that each gets a slot below `n` of its own.
                unsafe { *out.at(*start as isize) = item };
                *start += 1;
            }
        });
        std::mem::swap(&mut from, &mut to);
    }
    from
}

/// Writes where runs of equal items begin, and the number of items behind them; returns the number of runs.
fn runs(n: usize, starts: &mut [i64], equal: impl Fn(usize) -> bool + Sync) -> usize {
    let begins = |i: &usize| *i == 0 || !equal(*i);
    // How many begin in each part, which says where a part writes them.
    let parts = pool::chunk_count(n, grain(tuning::PASS)).max(1);
    let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    pool::parallel_parts(n, parts, &|part, range| {
        counts[part].store(range.filter(begins).count(), Relaxed);
    });
    let (mut all, mut own) = (0, Vec::with_capacity(parts));
    let mut rest = &mut *starts;
    for count in counts {
        let count = count.into_inner();
        let (first, other) = rest.split_at_mut(count);
        own.push(Mutex::new(first));
        (rest, all) = (other, all + count);
    }
    pool::parallel_parts(n, parts, &|part, range| {
        if let Ok(mut to) = own[part].lock() {
            let places = range.filter(begins);
            to.iter_mut().zip(places).for_each(|(to, i)| *to = i as i64);
        }
    });
    starts[all] = n as i64;
    all
}
