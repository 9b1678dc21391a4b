//! Walking several strided operands of one shape together.

use std::ops::Range;

use smallvec::SmallVec;
use torsh_core::{View, pool};

/// A pointer that kernels share between threads; each use says why that is sound. What it gives lies within
/// the memory it was made from.
pub(crate) struct IndexPtr<T>(*mut T);

impl<T> Clone for IndexPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for IndexPtr<T> {}

// SAFETY: only an address; whoever dereferences it answers for the access.
unsafe impl<T> Send for IndexPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for IndexPtr<T> {}

impl<T> IndexPtr<T> {
    pub(crate) fn new(p: *mut T) -> Self {
        IndexPtr(p)
    }

    /// The first element of a view.
    pub(crate) fn of(v: &View<'_>) -> Self {
        IndexPtr(v.ptr().cast())
    }

    /// The same address with other elements.
    pub(crate) fn cast<U>(self) -> IndexPtr<U> {
        IndexPtr(self.0.cast())
    }

    /// The address `offset` elements on.
    ///
    /// # Safety
    /// The element must lie in (or one past) the memory the pointer was made from.
    #[inline(always)]
    pub(crate) unsafe fn at(self, offset: isize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.offset(offset) }
    }
}

/// One dimension: its size and each operand's stride.
#[derive(Clone, Copy)]
struct IndexDim<const N: usize> {
    size: usize,
    step: [isize; N],
}

/// A shape with the strides of `N` operands, its dimensions joined where all operands allow it,
/// walked in row-major order.
#[derive(Clone)]
pub(crate) struct IndexWalk<const N: usize> {
    dims: SmallVec<[IndexDim<N>; 6]>,
    base: [isize; N],
    numel: usize,
}

impl<const N: usize> IndexWalk<N> {
    /// A walk over `shape`; every operand has one stride per dimension.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut dims: SmallVec<[IndexDim<N>; 6]> = SmallVec::new();
        for (d, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let step: [isize; N] = std::array::from_fn(|k| strides[k][d]);
            match dims.last_mut() {
                Some(outer) if (0..N).all(|k| outer.step[k] == step[k] * size as isize) => {
                    outer.size *= size;
                    outer.step = step;
                }
                _ => dims.push(IndexDim { size, step }),
            }
        }
        if dims.is_empty() {
            dims.push(IndexDim {
                size: 1,
                step: [0; N],
            });
        }
        IndexWalk {
            dims,
            base: [0; N],
            numel: shape.iter().product(),
        }
    }

    /// The same walk starting at other elements.
    pub(crate) fn starting_at(mut self, base: [isize; N]) -> Self {
        self.base = base;
        self
    }

    /// The size and steps of the innermost dimension.
    #[inline]
    pub(crate) fn inner(&self) -> (usize, [isize; N]) {
        let inner = self.dims[self.dims.len() - 1];
        (inner.size, inner.step)
    }

    /// The size and steps of the only dimension.
    pub(crate) fn single(&self) -> Option<(usize, [isize; N])> {
        match &*self.dims {
            [only] => Some((only.size, only.step)),
            _ => None,
        }
    }

    /// The two innermost dimensions, with their sizes and steps, outermost first.
    pub(crate) fn innermost(&self) -> Option<[(usize, [isize; N]); 2]> {
        match &*self.dims {
            [.., rows, inner] => Some([(rows.size, rows.step), (inner.size, inner.step)]),
            _ => None,
        }
    }

    /// The walk over what its last dimension repeats.
    pub(crate) fn without_innermost(&self) -> IndexWalk<N> {
        let mut dims = self.dims.clone();
        let size = dims.pop().map_or(1, |d| d.size);
        if dims.is_empty() {
            dims.push(IndexDim {
                size: 1,
                step: [0; N],
            });
        }
        IndexWalk {
            dims,
            base: self.base,
            numel: self.numel.checked_div(size).unwrap_or(0),
        }
    }

    /// The number of elements of each operand.
    pub(crate) fn numel(&self) -> usize {
        self.numel
    }

    /// Calls `f(offsets, n, steps)` for the runs along the innermost dimension that together are
    /// the elements `range`, in order: element `i` of operand `k` lies at
    /// `offsets[k] + i * steps[k]`.
    #[inline]
    pub(crate) fn run(
        &self,
        range: Range<usize>,
        mut f: impl FnMut([isize; N], usize, [isize; N]),
    ) {
        self.each(range, &mut f);
    }

    /// [`IndexWalk::run`], once for all callers, of which there are some two hundred with their dtypes.
    fn each(&self, range: Range<usize>, f: &mut dyn FnMut([isize; N], usize, [isize; N])) {
        if range.is_empty() || self.numel == 0 {
            return;
        }
        let last = self.dims.len() - 1;
        let inner = self.dims[last];
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        let mut offset = self.base;
        let mut rest = range.start;
        for d in (0..=last).rev() {
            let i = rest % self.dims[d].size;
            rest /= self.dims[d].size;
            index[d] = i;
            for (o, s) in offset.iter_mut().zip(self.dims[d].step) {
                *o += i as isize * s;
            }
        }
        let mut left = range.len();
        loop {
            let n = (inner.size - index[last]).min(left);
            f(offset, n, inner.step);
            left -= n;
            if left == 0 {
                return;
            }
            // Back to the start of the innermost dimension, then carry outwards.
            for (o, s) in offset.iter_mut().zip(inner.step) {
                *o -= index[last] as isize * s;
            }
            index[last] = 0;
            for d in (0..last).rev() {
                let dim = self.dims[d];
                index[d] += 1;
                if index[d] < dim.size {
                    for (o, s) in offset.iter_mut().zip(dim.step) {
                        *o += s;
                    }
                    break;
                }
                for (o, s) in offset.iter_mut().zip(dim.step) {
                    *o -= (dim.size as isize - 1) * s;
                }
                index[d] = 0;
            }
        }
    }

    /// [`IndexWalk::run`] over all elements.
    pub(crate) fn all(&self, f: impl FnMut([isize; N], usize, [isize; N])) {
        self.run(0..self.numel, f);
    }

    /// [`IndexWalk::run`] over all elements, in parallel pieces of at least `grain` elements.
    pub(crate) fn par(&self, grain: usize, f: impl Fn([isize; N], usize, [isize; N]) + Sync) {
        pool::parallel_for(self.numel, grain, &|r| self.run(r, &f));
    }
}

/// Copies between two strided operands of the same shape, in parallel.
///
/// # Safety
/// Both must be valid for every element of `shape` under their strides, and not overlap.
pub(crate) unsafe fn copy_strided<T: Copy>(
    shape: &[usize],
    dst: IndexPtr<T>,
    dst_strides: &[isize],
    src: IndexPtr<T>,
    src_strides: &[isize],
) {
    IndexWalk::new(shape, [dst_strides, src_strides]).par(super::GRAIN, |[d, s], n, [ds, ss]| {
        // SAFETY: the walk stays within both operands, and each element is written once.
        unsafe { copy_run(dst.at(d), ds, src.at(s), ss, n) }
    });
}

/// Copies `n` elements between two strided runs.
///
/// # Safety
/// Both runs must be valid, and not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_run<T: Copy>(
    dst: *mut T,
    dst_step: isize,
    src: *const T,
    src_step: isize,
    n: usize,
) {
    // SAFETY: the caller's promise, for both ways.
    unsafe {
        if dst_step == 1 && src_step == 1 {
            std::ptr::copy_nonoverlapping(src, dst, n);
        } else {
            for i in 0..n as isize {
                *dst.offset(i * dst_step) = *src.offset(i * src_step);
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    fn visited(walk: &IndexWalk<2>, range: Range<usize>) -> Vec<[isize; 2]> {
        let mut seen = Vec::new();
        walk.run(range, |o, n, s| {
            for i in 0..n as isize {
                seen.push([o[0] + i * s[0], o[1] + i * s[1]]);
            }
        });
        seen
    }

    #[torsh_macros::unit_test]
    fn ranges_visit_every_element_in_order() {
        let (shape, a, b) = ([2, 3, 1, 4], [12, 4, 9, 1], [1, 2, 5, 6]);
        let walk = IndexWalk::new(&shape, [&a, &b]);
        let mut expected = Vec::new();
        for i in 0..2 {
            for j in 0..3 {
                for k in 0..4 {
                    expected.push([12 * i + 4 * j + k, i + 2 * j + 6 * k]);
                }
            }
        }
        for start in 0..24 {
            for end in start..=24 {
                assert_eq!(visited(&walk, start..end), expected[start..end]);
            }
        }
    }

    #[torsh_macros::unit_test]
    fn contiguous_operands_are_one_run() {
        let walk = IndexWalk::new(&[3, 4, 5], [&[20, 5, 1], &[40, 10, 2]]);
        let mut runs = 0;
        walk.all(|_, n, s| {
            runs += 1;
            assert_eq!((n, s), (60, [1, 2]));
        });
        assert_eq!(runs, 1);
        assert_eq!(visited(&IndexWalk::new(&[], [&[], &[]]), 0..1), [[0, 0]]);
        assert!(visited(&IndexWalk::new(&[0, 3], [&[3, 1], &[3, 1]]), 0..0).is_empty());
    }
}
