//! The operands of a product: matrices by their strides, and what the result is added to.

use std::ops::{Mul, Range};

use num_traits::One;
use torsh_core::pool;

/// A matrix: its first element, and the steps to the next row and column in elements.
pub(crate) struct Matrix<T> {
    pub ptr: *mut T,
    pub row: isize,
    pub col: isize,
}

impl<T> Clone for Matrix<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Matrix<T> {}

impl<T> Matrix<T> {
    #[inline(always)]
    pub fn new(ptr: *mut T, row: isize, col: isize) -> Matrix<T> {
        Matrix { ptr, row, col }
    }
    /// The matrix that starts at an element of this one.
    #[inline(always)]
    pub fn at(self, i: usize, j: usize) -> Matrix<T> {
        let offset = i as isize * self.row + j as isize * self.col;
        Matrix {
            ptr: self.ptr.wrapping_offset(offset),
            ..self
        }
    }
    #[inline(always)]
    pub fn t(self) -> Matrix<T> {
        Matrix {
            ptr: self.ptr,
            row: self.col,
            col: self.row,
        }
    }
}

/// One product: `out = alpha * a b`, or `out += alpha * a b` where `add`, for `out` of `m` rows
/// and `n` columns, over `k` terms; `alpha` may be of a type of its own.
#[derive(Clone, Copy)]
pub(crate) struct Product<T, O = T, S = T> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub out: Matrix<O>,
    pub a: Matrix<T>,
    pub b: Matrix<T>,
    pub alpha: S,
    pub add: bool,
}

// SAFETY: the operands are only read, and threads write disjoint parts of the output.
unsafe impl<T: Sync, O: Sync, S: Sync> Sync for Product<T, O, S> {}

impl<T, O, S: Copy> Product<T, O, S> {
    /// The same product, transposed.
    #[inline]
    pub fn transposed(&self) -> Product<T, O, S> {
        Product {
            m: self.n,
            n: self.m,
            out: self.out.t(),
            a: self.b.t(),
            b: self.a.t(),
            ..*self
        }
    }
}

/// What a product is added to, of its size: `factor` times a matrix, which may be the output.
#[derive(Clone, Copy)]
pub(crate) struct Start<T> {
    pub of: Matrix<T>,
    pub factor: T,
}

// SAFETY: the matrix is only read, or each part of it by the thread that writes it.
unsafe impl<T: Sync> Sync for Start<T> {}

impl<T: Copy + PartialEq + One + Mul<Output = T> + Sync> Start<T> {
    /// Puts some rows and columns of it into the output.
    ///
    /// # Safety
    /// The matrices are valid for them, and nothing else uses this part of the output.
    pub unsafe fn put(&self, out: Matrix<T>, rows: Range<usize>, columns: Range<usize>) {
        let Start { of, factor } = *self;
        let one = factor == T::one();
        if one && of.ptr == out.ptr && of.row == out.row && of.col == out.col {
            return;
        }
        let n = columns.len();
        // SAFETY: the caller's promise.
        unsafe {
            for i in rows {
                let (o, c) = (out.at(i, columns.start), of.at(i, columns.start));
                match (one, o.col, c.col) {
                    (true, 1, 1) => std::ptr::copy(c.ptr, o.ptr, n),
                    (true, 1, 0) => std::slice::from_raw_parts_mut(o.ptr, n).fill(*c.ptr),
                    _ => (0..n).for_each(|j| *o.at(0, j).ptr = factor * *c.at(0, j).ptr),
                }
            }
        }
    }

    /// Puts all of it into the output.
    ///
    /// # Safety
    /// As [`Start::put`].
    pub unsafe fn put_all(&self, x: &Product<T>, threads: usize) {
        pool::parallel_parts(x.m, threads, &|_, rows| {
            // SAFETY: the caller's promise; no other thread writes these rows.
            unsafe { self.put(x.out, rows, 0..x.n) };
        });
    }
}
