//! A sparse matrix by rows.

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
