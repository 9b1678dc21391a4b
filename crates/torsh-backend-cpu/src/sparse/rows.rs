//! A sparse matrix by rows, and the rows of places.

use std::ops::Range;

use torsh_core::{Result, TorshError};

use super::number::Index;

/// A sparse matrix by rows: row `i` has the stored elements `pointers[i]..pointers[i + 1]`, of the columns that `columns`
/// names.
///
/// ```
/// use torsh_backend_cpu::sparse::Rows;
/// assert!(Rows::new(&[0i32, 1], &[0], &[1.0f32], None, 1).is_ok());
/// let error = Rows::new(&[0i32, 2], &[0], &[1.0f32], None, 1).unwrap_err();
/// assert!(error.to_string().contains("end at 2, but there are 1 stored elements"), "{error}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T, I> {
    pub(super) pointers: &'a [I],
    pub(super) columns: &'a [I],
    pub(super) values: &'a [T],
    pub(super) order: Option<&'a [i64]>,
    pub(super) width: usize,
}

impl<'a, T: Copy, I: Index> Rows<'a, T, I> {
    /// A matrix of `width` columns. With `order` the value of stored element `e` is `values[order[e]]`, else `values[e]`.
    ///
    /// # Errors
    /// If the pointers do not start at 0, decrease, or do not end at the number of stored elements, or the slices' lengths
    /// differ. The columns and `order` are checked where they are read.
    pub fn new(
        pointers: &'a [I],
        columns: &'a [I],
        values: &'a [T],
        order: Option<&'a [i64]>,
        width: usize,
    ) -> Result<Rows<'a, T, I>> {
        check_pointers(pointers, columns.len())?;
        let (count, what) = match order {
            Some(order) => (order.len(), "places of values"),
            None => (values.len(), "values"),
        };
        if count != columns.len() {
            return Err(TorshError::shape(
                "",
                format!(
                    "there are {count} {what} for {} stored elements",
                    columns.len()
                ),
            ));
        }
        if width > isize::MAX as usize {
            // Negative indices, as unsigned numbers, are beyond every other width.
            return Err(TorshError::shape(
                "",
                format!("no matrix has {width} columns"),
            ));
        }
        Ok(Rows {
            pointers,
            columns,
            values,
            order,
            width,
        })
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.pointers.len() - 1
    }

    /// The stored elements of row `i`.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> Range<usize> {
        self.pointers[i].place()..self.pointers[i + 1].place()
    }

    /// Column and value of stored element `e`; `None` if one is out of range.
    #[inline(always)]
    pub(super) fn at(&self, e: usize) -> Option<(usize, T)> {
        let column = self.columns[e].place();
        if column >= self.width {
            return None;
        }
        let at = match self.order {
            Some(order) => order[e].place(),
            None => e,
        };
        Some((column, *self.values.get(at)?))
    }

    /// The error for what is out of range.
    #[cold]
    pub(super) fn out_of_range(&self) -> TorshError {
        match out_of_range(self.columns, self.width, "column") {
            Some(e) => e,
            None => {
                let order = self.order.unwrap_or_default();
                out_of_range(order, self.values.len(), "value").unwrap_or_else(|| {
                    TorshError::index("", "an index of a stored element is out of range")
                })
            }
        }
    }
}

/// The rows of places, which are stored row by row or in any order.
#[derive(Clone, Copy, Debug)]
pub enum Majors<'a, I> {
    /// Where each row's places begin.
    Pointers(&'a [I]),
    /// The row of each place.
    List(&'a [I]),
}

impl<'a, I: Index> Majors<'a, I> {
    /// A walk over the places from `start` on.
    #[inline(always)]
    pub(super) fn walk(self, start: usize) -> Walk<'a, I> {
        let row = match self {
            // The last row that begins at the place or before it.
            Majors::Pointers(p) => p.partition_point(|p| p.place() <= start).saturating_sub(1),
            Majors::List(_) => 0,
        };
        Walk { majors: self, row }
    }
}

/// The rows of places, one after the other.
pub(super) struct Walk<'a, I> {
    majors: Majors<'a, I>,
    row: usize,
}

impl<I: Index> Walk<'_, I> {
    /// The row of place `e`, which is not before the one asked for last.
    #[inline(always)]
    pub(super) fn major(&mut self, e: usize) -> usize {
        match self.majors {
            Majors::Pointers(p) => {
                while self.row + 2 < p.len() && p[self.row + 1].place() <= e {
                    self.row += 1;
                }
                self.row
            }
            Majors::List(list) => list[e].place(),
        }
    }

    /// The row of place `e`, as [`major`](Self::major) gives it, and how many places from there on to `end` are of that row.
    #[inline(always)]
    pub(super) fn run(&mut self, e: usize, end: usize) -> (usize, usize) {
        let row = self.major(e);
        let n = match self.majors {
            Majors::Pointers(p) => p[row + 1].place().min(end).saturating_sub(e),
            Majors::List(list) => list[e..end].iter().take_while(|i| **i == list[e]).count(),
        };
        (row, n.max(1))
    }
}

/// The error for the first index that is not below `bound`, if there is one.
#[cold]
pub(super) fn out_of_range<I: Index>(all: &[I], bound: usize, what: &str) -> Option<TorshError> {
    let e = all.iter().position(|i| i.place() >= bound)?;
    Some(TorshError::index(
        "",
        format!(
            "{what} index {} of stored element {e} is out of range for {bound}",
            all[e]
        ),
    ))
}

/// Refuses pointers that do not partition the stored elements.
pub(super) fn check_pointers<I: Index>(pointers: &[I], count: usize) -> Result<()> {
    let refuse = |text: String| Err(TorshError::invalid("", text));
    let (Some(first), Some(last)) = (pointers.first(), pointers.last()) else {
        return refuse("there is no pointer to the first stored element".into());
    };
    if first.place() != 0 {
        return refuse(format!("the compressed indices start at {first}, not at 0"));
    }
    if last.place() != count {
        return refuse(format!(
            "the compressed indices end at {last}, but there are {count} stored elements"
        ));
    }
    match pointers
        .windows(2)
        .position(|w| w[0].place() > w[1].place())
    {
        Some(i) => refuse(format!(
            "the compressed indices decrease behind position {i}"
        )),
        None => Ok(()),
    }
}
