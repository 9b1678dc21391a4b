//! The operands of attention: a matrix for each head.

use std::ops::Range;

use torsh_core::{DType, Result, View, shape::Shape};

use super::passes;
use super::scores::ScoreNumber;
use crate::kernels::panels::{MatrixRows, Prefetch, pack_columns, pack_rows};
use crate::machine::tuning::attention_forward::NEAR;
use crate::memory::convert::convert;
use crate::memory::dense::{Dense, DenseOut, Ptr};

/// Matrices by their strides.
pub(super) struct AttentionMatrices<T> {
    ptr: Ptr<T>,
    sizes: Vec<usize>,
    strides: Vec<isize>,
    /// From row to row, and from column to column.
    pub steps: [isize; 2],
    _held: Option<Dense>,
}

impl<T> AttentionMatrices<T> {
    /// A view whose dimensions broadcast to `lead` and two more.
    fn of(
        ptr: *mut u8,
        shape: &[usize],
        strides: &[isize],
        lead: &[usize],
        held: Option<Dense>,
    ) -> AttentionMatrices<T> {
        let step = |back: usize| match shape.len().checked_sub(back) {
            Some(d) if shape[d] != 1 => strides[d],
            _ => 0,
        };
        let rank = lead.len() + 2;
        AttentionMatrices {
            ptr: Ptr::new(ptr.cast()),
            sizes: lead.to_vec(),
            strides: (0..lead.len()).map(|d| step(rank - d)).collect(),
            steps: [step(2), step(1)],
            _held: held,
        }
    }

    /// An input in a dtype: itself where it has it already, else a copy.
    pub fn new(v: &View<'_>, dtype: DType, lead: &[usize]) -> Result<AttentionMatrices<T>> {
        if v.dtype() == dtype {
            return Ok(AttentionMatrices::of(
                v.ptr(),
                v.shape(),
                v.strides(),
                lead,
                None,
            ));
        }
        let dense = Dense::new(v, dtype)?;
        let strides = Shape::new(v.shape()).contiguous_strides();
        let ptr = dense.ptr::<u8>().get();
        Ok(AttentionMatrices::of(
            ptr,
            v.shape(),
            &strides,
            lead,
            Some(dense),
        ))
    }

    /// The rows of a head.
    pub fn rows(&self, head: usize, sizes: [usize; 2]) -> MatrixRows<T>
    where
        T: ScoreNumber,
    {
        MatrixRows {
            from: self.head(head).cast_const(),
            steps: self.steps,
            sizes,
            factor: T::ONE,
            factors: std::ptr::null(),
        }
    }

    /// Packs some rows of a head, from the first one of a panel on, into panels of rows; `to` is where the panels of
    /// all rows begin.
    ///
    /// # Safety
    /// The rows must be there, and `to` have room for them, rounded up to whole panels.
    pub unsafe fn pack(
        &self,
        head: usize,
        (some, columns): (Range<usize>, usize),
        width: usize,
        to: *mut T,
    ) where
        T: ScoreNumber,
    {
        let offset = some.start as isize * self.steps[0];
        let from = self.head(head).wrapping_offset(offset);
        let to = to.wrapping_add(some.start * columns);
        // SAFETY: the caller's promise.
        unsafe { pack_rows(from, self.steps, [some.len(), columns], width, to) };
    }

    /// Some rows of a head, to be asked for ahead of time.
    pub fn prefetches(&self, head: usize, first: usize, [rows, columns]: [usize; 2]) -> Prefetch {
        if self.steps[1] != 1 {
            return Prefetch::NOTHING;
        }
        let at = self
            .head(head)
            .wrapping_offset(first as isize * self.steps[0]);
        Prefetch::rows(at.cast_const(), self.steps[0], rows, columns)
    }

    /// The first element of a head's matrix.
    pub fn head(&self, mut index: usize) -> *mut T {
        let mut offset = 0;
        for (n, s) in self.sizes.iter().zip(&self.strides).rev() {
            offset += (index % n) as isize * s;
            index /= n;
        }
        self.ptr.at(offset)
    }
}

/// How an algorithm holds keys or values.
pub(super) trait Keys: Sized {
    /// An input, which is computed with in `dtype`; its dimensions broadcast to `lead` and two more.
    fn new(v: &View<'_>, dtype: DType, lead: &[usize]) -> Result<Self>;
}

impl<T> Keys for AttentionMatrices<T> {
    fn new(v: &View<'_>, dtype: DType, lead: &[usize]) -> Result<Self> {
        AttentionMatrices::new(v, dtype, lead)
    }
}

/// Keys or values of a half type that are converted a head at a time, in a thread's memory: a cache that is read once
/// should not be written in twice the bytes and read again.
pub(super) enum HeadByHead<T> {
    /// In the dtype that is computed in.
    There(AttentionMatrices<T>),
    /// As float16 or bfloat16, with adjacent columns.
    Half(AttentionMatrices<u16>, DType),
}

impl<T> Keys for HeadByHead<T> {
    fn new(v: &View<'_>, dtype: DType, lead: &[usize]) -> Result<Self> {
        let half = matches!(v.dtype(), DType::F16 | DType::BF16) && dtype == DType::F32;
        if half && v.strides().last() == Some(&1) {
            let from = AttentionMatrices::of(v.ptr(), v.shape(), v.strides(), lead, None);
            // A single column that is broadcast has no adjacent ones.
            if from.steps[1] == 1 {
                return Ok(HeadByHead::Half(from, v.dtype()));
            }
        }
        AttentionMatrices::new(v, dtype, lead).map(HeadByHead::There)
    }
}

impl<T: ScoreNumber> HeadByHead<T> {
    /// Numbers of a thread's memory that [`HeadByHead::head`] writes.
    pub fn room(&self, [rows, columns]: [usize; 2]) -> usize {
        match self {
            HeadByHead::There(_) => 0,
            HeadByHead::Half(..) => rows * columns,
        }
    }

    /// The first element of a head's matrix and its steps, where it lies or converted to `to`.
    ///
    /// # Safety
    /// The head must have as many rows and columns, and `to` the room.
    pub unsafe fn head(
        &self,
        kv: usize,
        [rows, columns]: [usize; 2],
        to: *mut T,
    ) -> (*const T, [isize; 2]) {
        let (from, dtype) = match self {
            HeadByHead::There(m) => return (m.head(kv).cast_const(), m.steps),
            HeadByHead::Half(from, dtype) => (from, *dtype),
        };
        let start = from.head(kv).cast_const();
        let (runs, n) = match from.steps[0] == columns as isize {
            true => (1, rows * columns),
            false => (rows, columns),
        };
        for r in 0..runs {
            let row = start.wrapping_offset(r as isize * from.steps[0]);
            let to = to.wrapping_add(r * columns);
            // SAFETY: the caller's promise; columns are adjacent, and rows too where they are one run.
            unsafe { convert(dtype, row.cast(), DType::F32, to.cast(), n) };
        }
        (to.cast_const(), [columns as isize, 1])
    }
}

/// Rows that products read as panels of columns.
#[derive(Clone, Copy)]
pub(super) struct ColumnPanels<T> {
    pub at: *const T,
    /// From panel to panel and from row to row.
    pub steps: [usize; 2],
}

impl<T: ScoreNumber> ColumnPanels<T> {
    /// Whether rows can be read, or summed up, where they are: whole panels of rows that are close
    /// together.
    pub fn lie(steps: [isize; 2], columns: usize, width: usize) -> bool {
        let near = columns * size_of::<T>() <= NEAR;
        near && steps == [columns as isize, 1] && columns.is_multiple_of(width)
    }

    /// Where they are, or else where they are [packed](ColumnPanels::pack) to.
    pub fn of(rows: &MatrixRows<T>, width: usize, to: *mut T) -> ColumnPanels<T> {
        let [count, columns] = rows.sizes;
        match ColumnPanels::<T>::lie(rows.steps, columns, width) {
            true => ColumnPanels {
                at: rows.from,
                steps: [width, columns],
            },
            false => ColumnPanels {
                at: to.cast_const(),
                steps: [count * width, width],
            },
        }
    }

    /// Packs some of the rows, which have no factors of their own, unless they [lie](ColumnPanels::lie).
    ///
    /// # Safety
    /// The rows must be there, and `to` have room for all of them, rounded up to whole panels.
    pub unsafe fn pack(rows: &MatrixRows<T>, some: Range<usize>, width: usize, to: *mut T) {
        let ([count, columns], [row, column]) = (rows.sizes, rows.steps);
        if ColumnPanels::<T>::lie(rows.steps, columns, width) {
            return;
        }
        // A panel at a time, unless the rows fill the panels.
        let each = if some.len() == count { columns } else { width };
        for first in (0..columns).step_by(each.max(1)) {
            let offset = some.start as isize * row + first as isize * column;
            let part = MatrixRows {
                from: rows.from.wrapping_offset(offset),
                sizes: [some.len(), each.min(columns - first)],
                ..*rows
            };
            let to = to.wrapping_add(first * count + some.start * width);
            // SAFETY: the caller's promise.
            unsafe { pack_columns(&part, width, to) };
        }
    }

    /// The rows from `first` on.
    pub fn from(&self, first: usize) -> *const T {
        self.at.wrapping_add(first * self.steps[1])
    }
}

/// A result: itself where it has the dtype, else memory that is copied to it in the end.
pub(super) struct ResultMatrices<'a, T> {
    pub to: AttentionMatrices<T>,
    pub dense: Option<DenseOut<'a>>,
}

impl<'a, T> ResultMatrices<'a, T> {
    pub fn new(v: &View<'a>, dtype: DType, lead: &[usize]) -> Result<ResultMatrices<'a, T>> {
        if v.dtype() == dtype {
            let to = AttentionMatrices::of(v.ptr(), v.shape(), v.strides(), lead, None);
            return Ok(ResultMatrices { to, dense: None });
        }
        let dense = DenseOut::new(v, dtype)?;
        let strides = Shape::new(v.shape()).contiguous_strides();
        let to = AttentionMatrices::of(dense.ptr::<u8>().get(), v.shape(), &strides, lead, None);
        Ok(ResultMatrices {
            to,
            dense: Some(dense),
        })
    }
}

/// A mask of either kind.
pub(super) enum Mask<T> {
    Shown(AttentionMatrices<u8>),
    Added(AttentionMatrices<T>),
}

impl<T: ScoreNumber> Mask<T> {
    pub fn new(v: Option<&View<'_>>, dtype: DType, lead: &[usize]) -> Result<Option<Mask<T>>> {
        Ok(match v {
            Some(v) if v.is_present() => Some(match v.dtype() {
                DType::Bool => Mask::Shown(AttentionMatrices::new(v, DType::Bool, lead)?),
                _ => Mask::Added(AttentionMatrices::new(v, dtype, lead)?),
            }),
            _ => None,
        })
    }

    /// Masks the scores of `rows` queries from `i` on against `keys` keys from `j` on.
    ///
    /// # Safety
    /// The mask must have them, and `s` must hold rows of `ld` scores.
    pub unsafe fn apply(
        &self,
        head: usize,
        [i, rows]: [usize; 2],
        [j, keys]: [usize; 2],
        s: *mut T,
        ld: usize,
    ) {
        let null = std::ptr::null();
        for r in 0..rows {
            let at = |[row, step]: [isize; 2]| (i + r) as isize * row + j as isize * step;
            let row = s.wrapping_add(r * ld);
            // SAFETY: the caller's promise.
            unsafe {
                match self {
                    Mask::Shown(m) => {
                        let from = m.head(head).wrapping_offset(at(m.steps));
                        passes::mask(row, std::ptr::null(), from, m.steps[1], keys);
                    }
                    Mask::Added(m) => {
                        let from = m.head(head).wrapping_offset(at(m.steps));
                        passes::mask(row, from, null, m.steps[1], keys);
                    }
                }
            }
        }
    }
}

/// `n` rounded up to a multiple of `to`.
pub(super) fn up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}
