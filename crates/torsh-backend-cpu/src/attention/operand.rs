//! The operands of attention: a matrix for each head.

use torsh_core::{DType, Result, View, shape::Shape};

use super::product::Number;
use super::scores::LANES;
use crate::dense::{Dense, DenseOut, Ptr};
use crate::matmul::panel::Lines;

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
        if v.dtype == dtype {
            return Ok(Matrices::of(v.ptr, v.shape, v.strides, lead, None));
        }
        let dense = Dense::new(v, dtype)?;
        let strides = Shape::new(v.shape).contiguous_strides();
        let ptr = dense.ptr::<u8>().get();
        Ok(Matrices::of(ptr, v.shape, &strides, lead, Some(dense)))
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

/// A result: itself where it has the dtype, else memory that is copied to it in the end.
pub(super) struct Results<'a, T> {
    pub to: Matrices<T>,
    dense: Option<DenseOut<'a>>,
}

impl<'a, T> Results<'a, T> {
    pub fn new(v: &View<'a>, dtype: DType, lead: &[usize]) -> Result<Results<'a, T>> {
        if v.dtype == dtype {
            let to = Matrices::of(v.ptr, v.shape, v.strides, lead, None);
            return Ok(Results { to, dense: None });
        }
        let dense = DenseOut::new(v, dtype)?;
        let strides = Shape::new(v.shape).contiguous_strides();
        let to = Matrices::of(dense.ptr::<u8>().get(), v.shape, &strides, lead, None);
        Ok(Results {
            to,
            dense: Some(dense),
        })
    }

    pub fn finish(self) -> Result<()> {
        self.dense.map_or(Ok(()), DenseOut::finish)
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
            Some(v) if v.is_present() => Some(match v.dtype {
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
                        T::mask(row, std::ptr::null(), from, m.steps[1], keys);
                    }
                    Mask::Added(m) => {
                        let from = m.head(head).wrapping_offset(at(m.steps));
                        T::mask(row, from, null, m.steps[1], keys);
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

/// Packs `rows` rows of `columns` into panels of `width` rows: `width` rows' first elements, then
/// their second ones. Rows that are missing are 0.
///
/// # Safety
/// `from` must hold the rows, `to` as many elements, the rows rounded up to whole panels.
pub(super) unsafe fn pack_rows<T: Number>(
    from: *const T,
    [row, step]: [isize; 2],
    [rows, columns]: [usize; 2],
    width: usize,
    to: *mut T,
) {
    let lines = Lines {
        ptr: from,
        line: row,
        term: step,
    };
    for first in (0..rows).step_by(width) {
        let panel = to.wrapping_add(first * columns);
        let some = width.min(rows - first);
        // SAFETY: the caller's promise; panels are multiples of the squares that are transposed, so
        // that nothing is written beyond them.
        unsafe {
            T::copy(lines.from(first), some, columns, panel, width);
            if some < width {
                for c in 0..columns {
                    (some..width).for_each(|r| *panel.wrapping_add(c * width + r) = T::ZERO);
                }
            }
        }
    }
}

/// Rows of a matrix, times a factor, to be copied or packed.
pub(super) struct Rows<T> {
    pub from: *const T,
    pub steps: [isize; 2],
    /// Rows and columns.
    pub sizes: [usize; 2],
    pub factor: T,
    /// A factor for each row besides, or null.
    pub factors: *const T,
}

impl<T: Number> Rows<T> {
    #[inline(always)]
    unsafe fn factor(&self, row: usize) -> T {
        if self.factors.is_null() {
            return self.factor;
        }
        // SAFETY: the caller's promise that there is such a row.
        unsafe { self.factor * *self.factors.wrapping_add(row) }
    }
}

/// # Safety
/// `from` must hold `n` elements, `step` apart, and `to` adjacent ones.
#[inline(always)]
unsafe fn scale<T: Number>(from: *const T, step: isize, n: usize, factor: T, to: *mut T) {
    let whole = if step == 1 { n / LANES * LANES } else { 0 };
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while i < whole {
            let mut v = *from.wrapping_add(i).cast::<[T; LANES]>();
            for l in 0..LANES {
                v[l] = v[l] * factor;
            }
            *to.wrapping_add(i).cast::<[T; LANES]>() = v;
            i += LANES;
        }
        while i < n {
            let v = *from.wrapping_offset((i as isize).wrapping_mul(step));
            *to.wrapping_add(i) = v * factor;
            i += 1;
        }
    }
}

/// Packs rows into panels of `width` columns. Columns that are missing are 0.
///
/// # Safety
/// `rows` must be there, `to` hold as many elements, the columns rounded up to whole panels.
#[inline(always)]
pub(super) unsafe fn pack_columns<T: Number>(rows: &Rows<T>, width: usize, to: *mut T) {
    let ([count, columns], [row, step]) = (rows.sizes, rows.steps);
    for r in 0..count {
        let from = rows.from.wrapping_offset((r as isize).wrapping_mul(row));
        // SAFETY: the row is there.
        let factor = unsafe { rows.factor(r) };
        let mut first = 0;
        while first < columns {
            let n = width.min(columns - first);
            let to = to.wrapping_add(
                first
                    .wrapping_mul(count)
                    .wrapping_add(r.wrapping_mul(width)),
            );
            let from = from.wrapping_offset((first as isize).wrapping_mul(step));
            // SAFETY: the caller's promise.
            unsafe {
                scale(from, step, n, factor, to);
                for c in n..width {
                    *to.wrapping_add(c) = T::ZERO;
                }
            }
            first += width;
        }
    }
}

/// Copies rows to others, `steps` apart.
///
/// # Safety
/// Both must hold the rows.
#[inline(always)]
pub(super) unsafe fn copy_rows<T: Number>(rows: &Rows<T>, to: *mut T, steps: [isize; 2]) {
    let [count, columns] = rows.sizes;
    for r in 0..count {
        let from = rows
            .from
            .wrapping_offset((r as isize).wrapping_mul(rows.steps[0]));
        let to = to.wrapping_offset((r as isize).wrapping_mul(steps[0]));
        // SAFETY: the caller's promise.
        unsafe {
            let factor = rows.factor(r);
            if steps[1] == 1 {
                scale(from, rows.steps[1], columns, factor, to);
            } else {
                for c in 0..columns as isize {
                    let v = *from.wrapping_offset(c.wrapping_mul(rows.steps[1]));
                    *to.wrapping_offset(c.wrapping_mul(steps[1])) = v * factor;
                }
            }
        }
    }
}
