//! Products of two sparse matrices: which elements they have, and the elements at given places.

use std::mem::MaybeUninit;
use std::sync::Mutex;

use torsh_core::{Result, TorshError, pool};

use super::choose::{PatternAlgorithm, PatternProblem};
use super::marks::Marks;
use super::number::{Index, Number};
use super::rows::{Rows, check_pointers, out_of_range};
use super::split::{balanced, share};
use super::tuning;
use crate::machine::choice::pick;
use crate::shares::Parts;
use crate::simd::Base;

/// A matrix by rows without its values, whose width the caller knows.
pub(super) type Places<'a, I> = (&'a [I], &'a [I]);

/// Where `a @ b` has elements, for matrices that are given by where rows begin and by columns: the same of the product,
/// which has `width` columns. The columns of a row are sorted, and each is there once.
///
/// ```
/// use torsh_backend_cpu::sparse::product_pattern;
/// // [[1, 1], [0, 0]] @ [[0, 1], [1, 1]]
/// let (pointers, columns) = product_pattern((&[0i64, 2, 2], &[0, 1]), (&[0, 1, 3], &[1, 0, 1]), 2)?;
/// assert_eq!((pointers, columns), (vec![0, 2, 2], vec![0, 1]));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or there are more elements than the index type counts.
pub fn product_pattern<I: Index>(
    a: Places<'_, I>,
    b: Places<'_, I>,
    width: usize,
) -> Result<(Vec<I>, Vec<I>)> {
    check_pointers(a.0, a.1.len())?;
    check_pointers(b.0, b.1.len())?;
    let (rows, inner) = (a.0.len() - 1, b.0.len() - 1);
    if let Some(e) = out_of_range(a.1, inner, "column") {
        return Err(e);
    }
    if let Some(e) = out_of_range(b.1, width, "column") {
        return Err(e);
    }
    let of_b = |c: I| b.0[c.place()].place()..b.0[c.place() + 1].place();
    let terms: usize =
        a.1.iter()
            .map(|&c| of_b(c).len())
            .fold(0, usize::saturating_add);
    let problem = PatternProblem {
        rows,
        columns: width,
        terms,
    };
    let algorithm = pick::<PatternAlgorithm>(&problem, pool::num_threads());
    let each = terms
        .checked_div(a.1.len())
        .unwrap_or(0)
        .saturating_mul(tuning::LOOKED_UP);
    let ends = balanced(a.0, each.max(1), tuning::ROW);
    let found: Vec<Mutex<(Vec<usize>, Vec<I>)>> =
        (1..ends.len()).map(|_| Mutex::default()).collect();
    share(&ends, Parts::none(), |range, _| {
        if range.is_empty() {
            return Ok(());
        }
        let part = ends
            .partition_point(|&end| end <= range.start)
            .saturating_sub(1);
        let mut counts = Vec::with_capacity(range.len());
        let mut columns: Vec<I> = Vec::new();
        let mut marks = match algorithm {
            PatternAlgorithm::Marks => Marks::new(width),
            PatternAlgorithm::Sorted => Marks::new(0),
        };
        let mut line = Vec::new();
        for i in range {
            let before = columns.len();
            for k in &a.1[a.0[i].place()..a.0[i + 1].place()] {
                let columns = &b.1[of_b(*k)];
                match algorithm {
                    PatternAlgorithm::Marks => columns.iter().for_each(|c| marks.set(c.place())),
                    PatternAlgorithm::Sorted => line.extend(columns.iter().map(|c| c.place())),
                }
            }
            match algorithm {
                PatternAlgorithm::Marks => marks.take(|c| columns.extend(I::of(c))),
                PatternAlgorithm::Sorted => {
                    line.sort_unstable();
                    line.dedup();
                    columns.extend(line.drain(..).filter_map(I::of));
                }
            }
            counts.push(columns.len() - before);
        }
        if let Some(Ok(mut found)) = found.get(part).map(Mutex::lock) {
            *found = (counts, columns);
        }
        Ok(())
    })?;
    let mut pointers = Vec::with_capacity(rows + 1);
    let mut all: Vec<I> = Vec::new();
    let mut total = 0usize;
    pointers.push(I::of(0).ok_or_else(too_many)?);
    for part in found {
        let Ok((counts, columns)) = part.into_inner() else {
            continue;
        };
        for count in counts {
            total += count;
            pointers.push(I::of(total).ok_or_else(too_many)?);
        }
        match all.is_empty() {
            true => all = columns,
            false => all.extend(columns),
        }
    }
    Ok((pointers, all))
}

#[cold]
pub(super) fn too_many() -> TorshError {
    TorshError::invalid(
        "",
        "the product has more elements than the index type counts",
    )
}

/// The elements of `a @ b` at the places of a third matrix, in the order in which it stores them; what the product has
/// elsewhere is dropped. `b` has `width` columns, like the places. Of several elements at one place one gets the sum, and the
/// others 0. Every element of the result is written.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{Rows, masked_product};
/// let a = Rows::new(&[0i64, 2], &[0, 1], &[1.0f32, 10.0], None, 2)?;
/// let b = Rows::new(&[0, 1, 3], &[1, 0, 1], &[2.0, 3.0, 4.0], None, 2)?;
/// let mut out = [MaybeUninit::uninit()];
/// masked_product(a, b, (&[0, 1], &[1]), &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [42.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn masked_product<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    b: Rows<'_, T, I>,
    places: Places<'_, I>,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    check_places(a.count(), places, out.len())?;
    if a.width != b.count() {
        return Err(unlike(a.width, b.count()));
    }
    if let Some(e) = out_of_range(places.1, b.width, "column") {
        return Err(e);
    }
    let each = tuning::LOOKED_UP * (1 + b.columns.len() / b.count().max(1));
    shared(a.pointers, each, places.0, out, |rows, base, out| {
        // The slot of each column in the current row, from 1 on.
        let mut slots = Slots::new(b.width, places, &rows);
        let mut sums = Vec::new();
        for i in rows {
            let own = places.0[i].place()..places.0[i + 1].place();
            slots.enter(&places.1[own.clone()]);
            sums.clear();
            sums.resize(own.len(), T::ZERO);
            for e in a.row(i) {
                let (k, v) = a.at(e).ok_or_else(|| a.out_of_range())?;
                let v = v.wide();
                for q in b.row(k) {
                    let (c, w) = b.at(q).ok_or_else(|| b.out_of_range())?;
                    if let Some(slot) = slots.get(c) {
                        sums[slot] = T::add_product::<Base>(sums[slot], v, w.wide());
                    }
                }
            }
            slots.leave(&places.1[own.clone()]);
            let to = &mut out[own.start - base..own.end - base];
            for (to, sum) in to.iter_mut().zip(&sums) {
                to.write(T::rounded(*sum));
            }
        }
        Ok(())
    })
}

/// As [`masked_product`], for a right matrix that is given by columns: `b` has as many rows as the product has columns. Every
/// element at a place gets the sum.
///
/// # Errors
/// As [`masked_product`].
pub fn masked_inner_products<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    b: Rows<'_, T, I>,
    places: Places<'_, I>,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    check_places(a.count(), places, out.len())?;
    if a.width != b.width {
        return Err(unlike(a.width, b.width));
    }
    if let Some(e) = out_of_range(places.1, b.count(), "column") {
        return Err(e);
    }
    let each = tuning::LOOKED_UP * (1 + b.columns.len() / b.count().max(1));
    shared(places.0, each, places.0, out, |rows, base, out| {
        // Rows of the left matrix as dense ones. Where it is too wide for that, sorted ones are searched.
        let wide = a.width > tuning::MOST_MARKED;
        let mut line = vec![T::ZERO; if wide { 0 } else { a.width }];
        // What is not stored meets nothing: 0 times infinity would be NaN.
        let mut stored = vec![false; line.len()];
        let mut sorted: Vec<(usize, T::Sum)> = Vec::new();
        for i in rows {
            sorted.clear();
            for e in a.row(i) {
                let (k, v) = a.at(e).ok_or_else(|| a.out_of_range())?;
                match line.get_mut(k) {
                    Some(to) => {
                        *to = T::add(*to, v.wide());
                        stored[k] = true;
                    }
                    None => sorted.push((k, v.wide())),
                }
            }
            sorted.sort_by_key(|s| s.0);
            for e in places.0[i].place()..places.0[i + 1].place() {
                let mut sum = T::ZERO;
                for q in b.row(places.1[e].place()) {
                    let (k, w) = b.at(q).ok_or_else(|| b.out_of_range())?;
                    match line.get(k) {
                        Some(v) if stored[k] => sum = T::add_product::<Base>(sum, *v, w.wide()),
                        Some(_) => {}
                        None => {
                            let from = sorted.partition_point(|s| s.0 < k);
                            for s in sorted[from..].iter().take_while(|s| s.0 == k) {
                                sum = T::add_product::<Base>(sum, s.1, w.wide());
                            }
                        }
                    }
                }
                out[e - base].write(T::rounded(sum));
            }
            if !wide {
                a.row(i)
                    .filter_map(|e| a.at(e))
                    .for_each(|(k, _)| (line[k], stored[k]) = (T::ZERO, false));
            }
        }
        Ok(())
    })
}

/// Calls `f` with ranges of rows, the first element of each, and the part of the result that is theirs.
fn shared<T: Number, I: Index>(
    weights: &[I],
    each: usize,
    places: &[I],
    out: &mut [MaybeUninit<T>],
    f: impl Fn(std::ops::Range<usize>, usize, &mut [MaybeUninit<T>]) -> Result<()> + Sync,
) -> Result<()> {
    let ends = balanced(weights, each, tuning::ROW);
    let mut rest = out;
    let mut parts = Vec::with_capacity(ends.len());
    for w in ends.windows(2) {
        let n = places[w[1]].place() - places[w[0]].place();
        let (own, other) = rest.split_at_mut(n);
        parts.push(Some(own));
        rest = other;
    }
    share(&ends, PartsOf(parts), |range, own| {
        let base = places[range.start].place();
        own.0
            .into_iter()
            .flatten()
            .try_for_each(|part| f(range.clone(), base, part))
    })
}

/// Parts of different lengths, one for each range of [`share`].
struct PartsOf<'a, T>(Vec<Option<&'a mut [T]>>);

impl<T: Send> crate::shares::Shared for PartsOf<'_, T> {
    fn split_off(&mut self, _: usize) -> Self {
        PartsOf(vec![self.0.first_mut().and_then(Option::take)]).and_rest(self)
    }
}

impl<T> PartsOf<'_, T> {
    fn and_rest(self, from: &mut Self) -> Self {
        if !from.0.is_empty() {
            from.0.remove(0);
        }
        self
    }
}

/// The slot of each column in a row of places: looked up in an array of all columns, or by search.
struct Slots {
    /// From 1 on; 0 for columns that are no places.
    all: Vec<u32>,
    sorted: Vec<(usize, usize)>,
    looked_up: bool,
}

impl Slots {
    fn new<I: Index>(width: usize, places: Places<'_, I>, rows: &std::ops::Range<usize>) -> Slots {
        let longest = rows
            .clone()
            .map(|i| places.0[i + 1].place() - places.0[i].place())
            .max();
        let looked_up = width <= tuning::MOST_MARKED && longest.unwrap_or(0) < u32::MAX as usize;
        Slots {
            all: vec![0; if looked_up { width } else { 0 }],
            sorted: Vec::new(),
            looked_up,
        }
    }

    /// Sets the columns of a row, which are below the width.
    #[inline(always)]
    fn enter<I: Index>(&mut self, columns: &[I]) {
        if self.looked_up {
            columns
                .iter()
                .zip(1u32..)
                .for_each(|(c, slot)| self.all[c.place()] = slot);
        } else {
            self.sorted.clear();
            self.sorted.extend(
                columns
                    .iter()
                    .enumerate()
                    .map(|(slot, c)| (c.place(), slot)),
            );
            self.sorted.sort_unstable();
        }
    }

    #[inline(always)]
    fn get(&self, column: usize) -> Option<usize> {
        if self.looked_up {
            return (self.all[column] as usize).checked_sub(1);
        }
        let end = self.sorted.partition_point(|s| s.0 <= column);
        let (c, slot) = *self.sorted[..end].last()?;
        (c == column).then_some(slot)
    }

    #[inline(always)]
    fn leave<I: Index>(&mut self, columns: &[I]) {
        if self.looked_up {
            columns.iter().for_each(|c| self.all[c.place()] = 0);
        }
    }
}

fn check_places<I: Index>(rows: usize, places: Places<'_, I>, out: usize) -> Result<()> {
    check_pointers(places.0, places.1.len())?;
    match places.0.len() == rows + 1 && out == places.1.len() {
        true => Ok(()),
        false => Err(TorshError::shape(
            "",
            format!(
                "{} rows of places and {out} results do not belong to {rows} rows",
                places.0.len() - 1
            ),
        )),
    }
}

pub(super) fn unlike(columns: usize, rows: usize) -> TorshError {
    TorshError::shape(
        "",
        format!("{columns} columns cannot be multiplied with {rows} rows"),
    )
}
