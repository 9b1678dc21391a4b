//! The one iterator over strided memory, under all pointwise kernels, copies and reductions.
//!
//! A [`StridedLoop`] brings the dimensions of up to [`MAX_OPERANDS`] operands into the memory order
//! of the first one, drops those of size 1 and merges those that are one progression for every
//! operand. What is left is walked as *runs*: a number of elements with one byte stride per
//! operand. Any range of elements can be walked on its own, so threads split the elements.

use std::ops::Range;

use smallvec::SmallVec;
use torsh_core::View;

/// The most operands one loop can have.
pub const MAX_OPERANDS: usize = 8;

/// Byte strides of all operands in one dimension.
type ByteStrides = [isize; MAX_OPERANDS];

/// The dimensions of several operands, reduced to what has to be walked; see the module.
#[derive(Clone, Debug)]
pub struct StridedLoop {
    operands: usize,
    numel: usize,
    /// Sizes, innermost first; never empty, and no 1 beside another dimension.
    shape: SmallVec<[usize; 6]>,
    steps: SmallVec<[ByteStrides; 6]>,
}

impl StridedLoop {
    /// The loop over `shape` for operands given by strides in elements and element size in bytes.
    /// Strides shorter than the shape belong to its last dimensions; the operand is constant in
    /// the others. The order of the elements is the memory order of the first operand (then the
    /// second, where the first one does not move).
    ///
    /// # Panics
    /// With more than [`MAX_OPERANDS`] operands.
    pub fn new(shape: &[usize], operands: &[(&[isize], usize)]) -> StridedLoop {
        let mut l = Self::unordered(shape, operands);
        l.sort();
        l.coalesce();
        l
    }

    /// As [`new`](Self::new), with the elements in row-major order of `shape`.
    pub fn row_major(shape: &[usize], operands: &[(&[isize], usize)]) -> StridedLoop {
        let mut l = Self::unordered(shape, operands);
        l.coalesce();
        l
    }

    /// The loop over `shape` for views that broadcast to it.
    pub fn of_views(shape: &[usize], views: &[&View<'_>]) -> StridedLoop {
        assert!(
            views.len() <= MAX_OPERANDS,
            "too many operands for one loop"
        );
        let mut l = Self::empty(shape, views.len());
        for (k, v) in views.iter().enumerate() {
            for (d, step) in l.steps.iter_mut().enumerate().take(v.shape().len()) {
                let own = v.shape().len() - 1 - d;
                if v.shape()[own] != 1 {
                    step[k] = v.strides()[own] * v.dtype().size() as isize;
                }
            }
        }
        l.drop_ones();
        l.sort();
        l.coalesce();
        l
    }

    fn empty(shape: &[usize], operands: usize) -> StridedLoop {
        StridedLoop {
            operands,
            numel: shape.iter().product(),
            shape: shape.iter().rev().copied().collect(),
            steps: SmallVec::from_elem([0; MAX_OPERANDS], shape.len()),
        }
    }

    fn unordered(shape: &[usize], operands: &[(&[isize], usize)]) -> StridedLoop {
        assert!(
            operands.len() <= MAX_OPERANDS,
            "too many operands for one loop"
        );
        let mut l = Self::empty(shape, operands.len());
        for (k, (strides, size)) in operands.iter().enumerate() {
            for (step, s) in l.steps.iter_mut().zip(strides.iter().rev()) {
                step[k] = s * *size as isize;
            }
        }
        l.drop_ones();
        l
    }

    fn drop_ones(&mut self) {
        let mut kept = 0;
        for d in 0..self.shape.len() {
            if self.shape[d] != 1 {
                self.shape[kept] = self.shape[d];
                self.steps[kept] = self.steps[d];
                kept += 1;
            }
        }
        self.shape.truncate(kept);
        self.steps.truncate(kept);
        if kept == 0 {
            self.shape.push(1);
            self.steps.push([0; MAX_OPERANDS]);
        }
    }

    /// Whether dimension `a` belongs outside of `b`, by the first operand that moves in both.
    fn outside(&self, a: usize, b: usize) -> Option<bool> {
        for k in 0..self.operands {
            let (x, y) = (
                self.steps[a][k].unsigned_abs(),
                self.steps[b][k].unsigned_abs(),
            );
            if x != 0 && y != 0 && x != y {
                return Some(x > y);
            }
        }
        None
    }

    /// An insertion sort: dimensions of which no operand tells the order keep theirs, which makes
    /// the relation no total order.
    fn sort(&mut self) {
        for i in 1..self.shape.len() {
            let mut at = i;
            for other in (0..i).rev() {
                match self.outside(other, at) {
                    Some(true) => {
                        self.shape.swap(other, at);
                        self.steps.swap(other, at);
                        at = other;
                    }
                    Some(false) => break,
                    None => {}
                }
            }
        }
    }

    /// Merges dimensions that are one progression for every operand.
    pub(crate) fn coalesce(&mut self) {
        let mut last = 0;
        for d in 1..self.shape.len() {
            let size = self.shape[last] as isize;
            let one = (0..self.operands)
                .all(|k| self.steps[d][k] == self.steps[last][k].wrapping_mul(size));
            if one {
                self.shape[last] *= self.shape[d];
            } else {
                last += 1;
                self.shape[last] = self.shape[d];
                self.steps[last] = self.steps[d];
            }
        }
        self.shape.truncate(last + 1);
        self.steps.truncate(last + 1);
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.numel
    }

    /// The number of operands.
    #[inline]
    pub fn operands(&self) -> usize {
        self.operands
    }

    /// The number of dimensions left, at least 1.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The sizes left, innermost first.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The byte stride of operand `k` in dimension `d`, counted from the innermost.
    #[inline]
    pub fn stride(&self, d: usize, k: usize) -> isize {
        self.steps[d][k]
    }

    /// The number of elements of an unbroken run.
    #[inline]
    pub fn inner(&self) -> usize {
        self.shape[0]
    }

    /// Whether operand `k`, of `size` bytes per element, lies without gaps in the loop's order.
    pub fn is_linear(&self, k: usize, size: usize) -> bool {
        let mut step = size as isize;
        for (n, steps) in self.shape.iter().zip(&self.steps) {
            if *n > 1 && steps[k] != step {
                return false;
            }
            step = step.wrapping_mul(*n as isize);
        }
        true
    }

    /// The loop over the same elements in the same order with two operands: one of `size` bytes
    /// per element that is linear in it, and operand `k`.
    pub fn linear_with(&self, k: usize, size: usize) -> StridedLoop {
        let mut l = StridedLoop {
            operands: 2,
            ..self.clone()
        };
        for steps in &mut l.steps {
            steps[1] = steps[k];
        }
        l.make_linear(0, size);
        l
    }

    /// Makes operand `k`, of `size` bytes per element, linear in the loop's order, as a copy of it
    /// in that order is.
    pub fn make_linear(&mut self, k: usize, size: usize) {
        let mut step = size as isize;
        for (n, steps) in self.shape.iter().zip(&mut self.steps) {
            steps[k] = step;
            step = step.wrapping_mul(*n as isize);
        }
    }

    /// The loop over the runs of this one, which has dimensions beyond the innermost.
    pub fn without_innermost(&self) -> StridedLoop {
        StridedLoop {
            numel: self.numel / self.inner().max(1),
            shape: self.shape[1..].into(),
            steps: self.steps[1..].into(),
            ..*self
        }
    }

    /// Whether operand `k` is the same element everywhere.
    pub fn is_constant(&self, k: usize) -> bool {
        self.steps.iter().all(|s| s[k] == 0)
    }

    /// Calls `f(pointers, n, byte strides)` for each run of the elements `range` of the loop, with
    /// `base` pointing at each operand's first element. Memory is not touched here.
    #[inline]
    pub fn for_each_run(
        &self,
        range: Range<usize>,
        base: &[*mut u8],
        mut f: impl FnMut(&[*mut u8], usize, &[isize]),
    ) {
        debug_assert!(base.len() == self.operands && range.end <= self.numel);
        if range.is_empty() {
            return;
        }
        let ops = self.operands.min(MAX_OPERANDS);
        let mut ptrs = [std::ptr::null_mut::<u8>(); MAX_OPERANDS];
        ptrs[..ops].copy_from_slice(&base[..ops]);
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.shape.len());
        let mut rest = range.start;
        if rest > 0 {
            for (d, &size) in self.shape.iter().enumerate() {
                let i = rest % size;
                rest /= size;
                index[d] = i;
                for (p, s) in ptrs[..ops].iter_mut().zip(&self.steps[d]) {
                    *p = p.wrapping_offset(s.wrapping_mul(i as isize));
                }
            }
        }
        // Most runs are followed by the next row of the same two dimensions: what that takes is in locals.
        let (inner, mut first) = (self.shape[0], index[0]);
        let (rows, step) = match self.shape.len() {
            1 => (1, self.steps[0]),
            _ => (self.shape[1], self.steps[1]),
        };
        let mut row = index.get(1).copied().unwrap_or(0);
        let mut left = range.len();
        loop {
            let n = (inner - first).min(left);
            f(&ptrs[..ops], n, &self.steps[0][..ops]);
            left -= n;
            if left == 0 {
                return;
            }
            if first > 0 {
                // Only the first run may start inside of the inner dimension.
                for k in 0..ops {
                    ptrs[k] = ptrs[k].wrapping_offset(
                        self.steps[0][k].wrapping_mul(first as isize).wrapping_neg(),
                    );
                }
                first = 0;
            }
            row += 1;
            if row < rows {
                for k in 0..ops {
                    ptrs[k] = ptrs[k].wrapping_offset(step[k]);
                }
                continue;
            }
            row = 0;
            let mut d = 1;
            loop {
                let carry = d == 1 || index[d] + 1 == self.shape[d];
                let back = if carry {
                    self.shape[d] as isize - 1
                } else {
                    -1
                };
                for (p, s) in ptrs[..ops].iter_mut().zip(&self.steps[d]) {
                    *p = p.wrapping_offset(s.wrapping_mul(back).wrapping_neg());
                }
                if !carry {
                    index[d] += 1;
                    break;
                }
                index[d] = 0;
                d += 1;
            }
        }
    }
}
