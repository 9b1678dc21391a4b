//! The operands of attention: a matrix for each head.

use torsh_core::{DType, Result, View, shape::Shape};

use super::passes;
use super::scores::Number;
use crate::kernels::panels::{MatrixRows, Prefetch, pack_columns};
use crate::machine::tuning::attention_forward::NEAR;
use crate::memory::dense::{Dense, DenseOut, Ptr};

/// Matrices by their strides.
pub(super) struct Matrices<T> {
    ptr: Ptr<T>,
    sizes: Vec<usize>,
    strides: Vec<isize>,
    /// From row to row, and from column to column.
    pub steps: [isize; 2],
    _held: Option<Dense>,
}

impl<T> Matrices<T> {
    /// A view whose dimensions broadcast to `lead` and two more.
    fn of(
        ptr: *mut u8,
        shape: &[usize],
        strides: &[isize],
        lead: &[usize],
        held: Option<Dense>,
    ) -> Matrices<T> {
        let step = |back: usize| match shape.len().checked_sub(back) {
            Some(d) if shape[d] != 1 => strides[d],
            _ => 0,
        };
        let rank = lead.len() + 2;
        Matrices {
            ptr: Ptr::new(ptr.cast()),
            sizes: lead.to_vec(),
            strides: (0..lead.len()).map(|d| step(rank - d)).collect(),
            steps: [step(2), step(1)],
            _held: held,
        }
    }

    /// An input in a dtype: itself where it has it already, else a copy.
    pub fn new(v: &View<'_>, dtype: DType, lead: &[usize]) -> Result<Matrices<T>> {
        if v.dtype() == dtype {
            return Ok(Matrices::of(v.ptr(), v.shape(), v.strides(), lead, None));
        }
        let dense = Dense::new(v, dtype)?;
        let strides = Shape::new(v.shape()).contiguous_strides();
        let ptr = dense.ptr::<u8>().get();
        Ok(Matrices::of(ptr, v.shape(), &strides, lead, Some(dense)))
    }

    /// The rows of a head.
    pub fn rows(&self, head: usize, sizes: [usize; 2]) -> MatrixRows<T>
    where
        T: Number,
    {
        MatrixRows {
            from: self.head(head).cast_const(),
            steps: self.steps,
            sizes,
            factor: T::ONE,
            factors: std::ptr::null(),
        }
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

/// Rows that products read as panels of columns.
#[derive(Clone, Copy)]
pub(super) struct Columns<T> {
    pub at: *const T,
    /// From panel to panel and from row to row.
    pub steps: [usize; 2],
}

impl<T: Number> Columns<T> {
    /// Whether rows can be read, or summed up, where they are: whole panels of rows that are close
    /// together.
    pub fn lie(steps: [isize; 2], columns: usize, width: usize) -> bool {
        let near = columns * size_of::<T>() <= NEAR;
        near && steps == [columns as isize, 1] && columns.is_multiple_of(width)
    }

    /// Where they are, or else [packed](Columns::pack) to `to`.
    pub fn of(rows: &MatrixRows<T>, width: usize, to: *mut T) -> Columns<T> {
        let [count, columns] = rows.sizes;
        match Columns::<T>::lie(rows.steps, columns, width) {
            true => Columns {
                at: rows.from,
                steps: [width, columns],
            },
            false => Columns {
                at: to.cast_const(),
                steps: [count * width, width],
            },
        }
    }

    /// [`Columns::of`], and packs them where they must be.
    ///
    /// # Safety
    /// The rows must be there, and `to` have room for them, rounded up to whole panels, unless they
    /// [lie](Columns::lie).
    pub unsafe fn pack(rows: &MatrixRows<T>, width: usize, to: *mut T) -> Columns<T> {
        if !Columns::<T>::lie(rows.steps, rows.sizes[1], width) {
            // SAFETY: the caller's promise.
            unsafe { pack_columns(rows, width, to) };
        }
        Columns::of(rows, width, to)
    }

    /// The rows from `first` on.
    pub fn from(&self, first: usize) -> *const T {
        self.at.wrapping_add(first * self.steps[1])
    }
}

/// A result: itself where it has the dtype, else memory that is copied to it in the end.
pub(super) struct Results<'a, T> {
    pub to: Matrices<T>,
    pub dense: Option<DenseOut<'a>>,
}

impl<'a, T> Results<'a, T> {
    pub fn new(v: &View<'a>, dtype: DType, lead: &[usize]) -> Result<Results<'a, T>> {
        if v.dtype() == dtype {
            let to = Matrices::of(v.ptr(), v.shape(), v.strides(), lead, None);
            return Ok(Results { to, dense: None });
        }
        let dense = DenseOut::new(v, dtype)?;
        let strides = Shape::new(v.shape()).contiguous_strides();
        let to = Matrices::of(dense.ptr::<u8>().get(), v.shape(), &strides, lead, None);
        Ok(Results {
            to,
            dense: Some(dense),
        })
    }
}

/// A mask of either kind.
pub(super) enum Mask<T> {
    Shown(Matrices<u8>),
    Added(Matrices<T>),
}

impl<T: Number> Mask<T> {
    pub fn new(v: Option<&View<'_>>, dtype: DType, lead: &[usize]) -> Result<Option<Mask<T>>> {
        Ok(match v {
            Some(v) if v.is_present() => Some(match v.dtype() {
                DType::Bool => Mask::Shown(Matrices::new(v, DType::Bool, lead)?),
                _ => Mask::Added(Matrices::new(v, dtype, lead)?),
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
