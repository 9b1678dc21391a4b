//! The product of two sparse matrices, in one pass over its terms.

use std::mem::{MaybeUninit, replace, take};
use std::ops::Range;

use torsh_core::{Result, TorshError, pool};

use super::choose::{PatternAlgorithm, PatternProblem};
use super::marks::Marks;
use super::number::{Index, Number};
use super::pattern::{Places, too_many, unlike};
use super::rows::{Rows, check_pointers, out_of_range};
use super::split::{balanced, share};
use super::tuning;
use crate::machine::choice::pick;
use crate::memory::stream::prefetch_all;
use crate::multiversion;
use crate::shares::{Parts, Shared};
use crate::simd::Base;

/// The most elements that rows of `a @ b` have, for matrices that are given by where rows begin and by columns: those of row
/// `i` are not more than `bounds[i + 1] - bounds[i]`. The product has `width` columns.
///
/// ```
/// use torsh_backend_cpu::sparse::product_bounds;
/// // [[1, 1], [0, 1]] @ [[0, 1], [1, 1]]
/// let mut bounds = [9; 3];
/// product_bounds((&[0i64, 2, 3], &[0, 1, 1]), (&[0, 1, 3], &[1, 0, 1]), 2, &mut bounds)?;
/// assert_eq!(bounds, [0, 2, 4]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn product_bounds<I: Index>(
    a: Places<'_, I>,
    b: Places<'_, I>,
    width: usize,
    bounds: &mut [i64],
) -> Result<()> {
    check_pointers(a.0, a.1.len())?;
    check_pointers(b.0, b.1.len())?;
    let (rows, most) = (a.0.len() - 1, width.min(isize::MAX as usize));
    let have = bounds.len();
    let Some((first, counts)) = bounds.split_first_mut().filter(|b| b.1.len() == rows) else {
        return Err(TorshError::shape(
            "",
            format!("there is room for {have} bounds of {rows} rows"),
        ));
    };
    *first = 0;
    let ends = balanced(a.0, tuning::PASS, tuning::ROW);
    let outside = || {
        out_of_range(a.1, b.0.len() - 1, "column")
            .unwrap_or_else(|| TorshError::index("", "an index is out of range"))
    };
    share(&ends, Parts::new(&mut *counts, 1), |range, part| {
        for (i, to) in range.zip(part.into_slice()) {
            *to = bound(a, b.0, most, i).ok_or_else(outside)? as i64;
        }
        Ok(())
    })?;
    let mut total = 0i64;
    for count in counts {
        total = total.saturating_add(*count);
        *count = total;
    }
    Ok(())
}

/// The most elements that row `i` of a product has, from the places of the left matrix and where rows of the right one begin;
/// `None` if a column is out of range.
fn bound<I: Index>(a: Places<'_, I>, b: &[I], width: usize, i: usize) -> Option<usize> {
    let mut n = 0usize;
    for column in &a.1[a.0[i].place()..a.0[i + 1].place()] {
        let [from, end] = b.get(column.place()..)?.first_chunk::<2>()?;
        n = n.saturating_add(end.place() - from.place());
    }
    Some(n.min(width))
}

/// `a @ b` of two sparse matrices: where its rows begin, its columns and its values. The columns of a row are sorted, and each
/// is there once.
///
/// `bounds` are those of [`product_bounds`] or give rows more room, and there is room for as many columns and values as they
/// say. Those behind the product's elements become 0: every element of the three lists is written. Nothing is written where
/// the bounds give a row less room.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{Rows, sparse_product};
/// // [[1, 10]] @ [[0, 2], [3, 4]]
/// let a = Rows::new(&[0i64, 2], &[0, 1], &[1.0f32, 10.0], None, 2)?;
/// let b = Rows::new(&[0, 1, 3], &[1, 0, 1], &[2.0, 3.0, 4.0], None, 2)?;
/// let (mut pointers, mut columns) = ([MaybeUninit::uninit(); 2], [MaybeUninit::uninit(); 2]);
/// let mut values = [MaybeUninit::uninit(); 2];
/// sparse_product(a, b, &[0, 2], &mut pointers, &mut columns, &mut values)?;
/// // SAFETY: every element was written.
/// unsafe {
///     assert_eq!(pointers.map(|p| p.assume_init()), [0, 2]);
///     assert_eq!(columns.map(|c| c.assume_init()), [0, 1]);
///     assert_eq!(values.map(|v| v.assume_init()), [30.0, 42.0]);
/// }
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, the sizes do not go together, the bounds give a row too little room, or there are more
/// elements than the index type counts.
pub fn sparse_product<T: Number, I: Index>(
    a: Rows<'_, T, I>,
    b: Rows<'_, T, I>,
    bounds: &[i64],
    pointers: &mut [MaybeUninit<I>],
    columns: &mut [MaybeUninit<I>],
    values: &mut [MaybeUninit<T>],
) -> Result<()> {
    let rows = a.count();
    if a.width != b.count() {
        return Err(unlike(a.width, b.count()));
    }
    check_pointers(bounds, columns.len())?;
    if [bounds.len(), pointers.len()] != [rows + 1; 2] || values.len() != columns.len() {
        return Err(TorshError::shape(
            "",
            format!(
                "{} bounds, {} pointers, {} columns and {} values are none of a product of {rows} rows",
                bounds.len(),
                pointers.len(),
                columns.len(),
                values.len()
            ),
        ));
    }
    check_bounds(&a, &b, bounds)?;
    let problem = PatternProblem {
        rows,
        columns: b.width,
        terms: columns.len(),
    };
    let algorithm = pick::<PatternAlgorithm>(&problem, pool::num_threads());
    let ends = balanced(bounds, tuning::LOOKED_UP, tuning::ROW);
    let mut counts = vec![0usize; rows];
    let room = Room {
        bounds,
        counts: &mut counts,
        columns: &mut *columns,
        values: &mut *values,
    };
    share(&ends, room, |range, room| {
        let work = Work { a, b, range, room };
        let done = match algorithm {
            PatternAlgorithm::Marks => by_marks(work),
            PatternAlgorithm::Sorted => by_sorting(work),
        };
        done.ok_or_else(|| refused(&a, &b))
    })?;
    // What the threads wrote moves together.
    let mut total = 0;
    for w in ends.windows(2) {
        let (from, n) = (
            bounds[w[0]].place(),
            counts[w[0]..w[1]].iter().sum::<usize>(),
        );
        if from != total {
            columns.copy_within(from..from + n, total);
            values.copy_within(from..from + n, total);
        }
        total += n;
    }
    let zero = I::of(0).ok_or_else(too_many)?;
    columns[total..].fill(MaybeUninit::new(zero));
    values[total..].fill(MaybeUninit::new(T::default()));
    pointers[0].write(zero);
    let mut end = 0;
    for (to, count) in pointers[1..].iter_mut().zip(&counts) {
        end += count;
        to.write(I::of(end).ok_or_else(too_many)?);
    }
    Ok(())
}

/// Refuses bounds that give a row less room than [`product_bounds`] does. The rows of a thread share their room, so that who
/// has too little would depend on the number of threads.
fn check_bounds<T: Number, I: Index>(
    a: &Rows<'_, T, I>,
    b: &Rows<'_, T, I>,
    bounds: &[i64],
) -> Result<()> {
    let ends = balanced(a.pointers, tuning::PASS, tuning::ROW);
    share(&ends, Parts::none(), |range, _| {
        for i in range {
            let most = bound((a.pointers, a.columns), b.pointers, b.width, i);
            let (most, room) = (
                most.ok_or_else(|| a.out_of_range())?,
                (bounds[i + 1] - bounds[i]).place(),
            );
            if most > room {
                return Err(TorshError::invalid(
                    "",
                    format!(
                        "row {i} of the product may have {most} elements, and the bounds give it room for {room}"
                    ),
                ));
            }
        }
        Ok(())
    })
}

/// Whether a product of `count` elements may stay where there is room for `room` of them: the room that is left costs less than
/// a copy.
///
/// ```
/// use torsh_backend_cpu::sparse::fills;
/// assert!(fills(1000, 1005) && !fills(100, 1000));
/// ```
pub fn fills(count: usize, room: usize) -> bool {
    room.saturating_sub(count) <= count / tuning::SPARE
}

/// Room for the elements of some rows: for as many of each as its bounds say.
struct Room<'a, T, I> {
    bounds: &'a [i64],
    /// How many elements each row has.
    counts: &'a mut [usize],
    columns: &'a mut [MaybeUninit<I>],
    values: &'a mut [MaybeUninit<T>],
}

impl<T: Send, I: Send> Shared for Room<'_, T, I> {
    fn split_off(&mut self, rows: usize) -> Self {
        let n = (self.bounds[rows] - self.bounds[0]).place();
        let bounds = &self.bounds[..=rows];
        self.bounds = &self.bounds[rows..];
        let (counts, other_counts) = take(&mut self.counts).split_at_mut(rows);
        let (columns, other_columns) = take(&mut self.columns).split_at_mut(n);
        let (values, other_values) = take(&mut self.values).split_at_mut(n);
        (self.counts, self.columns, self.values) = (other_counts, other_columns, other_values);
        Room {
            bounds,
            counts,
            columns,
            values,
        }
    }
}

/// Rows of a product of sparse matrices: what one thread computes.
struct Work<'w, 'a, T, I> {
    a: Rows<'a, T, I>,
    b: Rows<'a, T, I>,
    range: Range<usize>,
    room: Room<'w, T, I>,
}

/// Elements that are written one behind the other.
struct Writer<'w, T, I> {
    columns: &'w mut [MaybeUninit<I>],
    values: &'w mut [MaybeUninit<T>],
    /// How many there were.
    count: usize,
}

impl<T: Number, I: Index> Writer<'_, T, I> {
    #[inline(always)]
    fn put(&mut self, column: usize, sum: T::Sum) {
        let at = self.count;
        if let (Some(to), Some(value), Some(column)) = (
            self.columns.get_mut(at),
            self.values.get_mut(at),
            I::of(column),
        ) {
            to.write(column);
            value.write(T::rounded(sum));
        }
        self.count += 1;
    }

    /// Makes sure that all were written, as the bounds promised.
    fn check_room(&self) {
        assert!(self.count <= self.columns.len());
    }
}

multiversion! {
    /// Sums of a row in places of all columns, of which those with a sum are marked; `None` if an index is out of range.
    fn by_marks<A, T: Number, I: Index>(work: Work<'_, '_, T, I>) -> Option<()> {
        let Work { a, b, range, room } = work;
        let mut to = Writer { columns: room.columns, values: room.values, count: 0 };
        let (mut marks, mut sums) = (Marks::new(b.width), vec![T::ZERO; b.width]);
        for (i, count) in range.zip(room.counts) {
            let before = to.count;
            for e in a.row(i) {
                let (k, v) = a.at(e)?;
                fetch(&a, &b, e);
                let (own, v) = (b.row(k), v.wide());
                if b.order.is_none() {
                    for (c, w) in b.columns[own.clone()].iter().zip(&b.values[own]) {
                        let c = c.place();
                        let sum = sums.get_mut(c)?;
                        *sum = T::add_product::<A>(*sum, v, w.wide());
                        marks.set(c);
                    }
                } else {
                    for q in own {
                        let (c, w) = b.at(q)?;
                        sums[c] = T::add_product::<A>(sums[c], v, w.wide());
                        marks.set(c);
                    }
                }
            }
            marks.take(|c| to.put(c, replace(&mut sums[c], T::ZERO)));
            *count = to.count - before;
        }
        to.check_room();
        Some(())
    }
}

/// Prefetches the row of `b` that an element meets which comes a few behind element `e`.
#[inline(always)]
fn fetch<T, I: Index>(a: &Rows<'_, T, I>, b: &Rows<'_, T, I>, e: usize) {
    if let Some(column) = a.columns.get(e + tuning::AHEAD_ROWS)
        && let Some(start) = b.pointers.get(column.place())
    {
        prefetch_all::<I, 16>(b.columns.as_ptr().wrapping_add(start.place()));
        prefetch_all::<T, 16>(b.values.as_ptr().wrapping_add(start.place()));
    }
}

/// Sums of the terms of a row, sorted by their columns; `None` as for [`by_marks`].
fn by_sorting<T: Number, I: Index>(work: Work<'_, '_, T, I>) -> Option<()> {
    let Work { a, b, range, room } = work;
    let mut to = Writer {
        columns: room.columns,
        values: room.values,
        count: 0,
    };
    let mut terms: Vec<(usize, T::Sum)> = Vec::new();
    for (i, count) in range.zip(room.counts) {
        let before = to.count;
        terms.clear();
        for e in a.row(i) {
            let (k, v) = a.at(e)?;
            for q in b.row(k) {
                let (c, w) = b.at(q)?;
                let term = T::add_product::<Base>(T::ZERO, v.wide(), w.wide());
                terms.push((c, term));
            }
        }
        // Stable: terms of one column stay in order.
        terms.sort_by_key(|term| term.0);
        for same in terms.chunk_by(|x, y| x.0 == y.0) {
            let sum = same.iter().fold(T::ZERO, |sum, term| T::add(sum, term.1));
            to.put(same[0].0, sum);
        }
        *count = to.count - before;
    }
    to.check_room();
    Some(())
}

#[cold]
fn refused<T: Number, I: Index>(a: &Rows<'_, T, I>, b: &Rows<'_, T, I>) -> TorshError {
    match (0..a.columns.len()).all(|e| a.at(e).is_some()) {
        false => a.out_of_range(),
        true => b.out_of_range(),
    }
}
