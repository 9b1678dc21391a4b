//! Products of integer matrices. They wrap, so a signed type computes as its unsigned twin.

use num_traits::{WrappingAdd, WrappingMul};

use super::operands::Matrix;
use crate::multiversion;

/// Columns and rows of the block of sums that is kept in registers.
const COLS: usize = 32;
const ROWS: usize = 4;

/// An unsigned integer that stands for the integer types of its size.
pub(crate) trait Wrapping: Copy + Default + WrappingAdd + WrappingMul + Send + Sync {}

impl Wrapping for u8 {}
impl Wrapping for u16 {}
impl Wrapping for u32 {}
impl Wrapping for u64 {}

multiversion! {
    /// `out = alpha * a b`, or `out += alpha * a b` where `add`.
    ///
    /// # Safety
    /// The matrices are valid for their sizes, and `out` overlaps neither other.
    pub(crate) unsafe fn product<A, T: Wrapping>(m: usize, n: usize, k: usize, out: Matrix<T>, a: Matrix<T>, b: Matrix<T>, alpha: T, add: bool) {
        let mut j = 0;
        while j < n {
            let cols = COLS.min(n - j);
            let mut i = 0;
            while i < m {
                let rows = ROWS.min(m - i);
                let mut acc = [[T::default(); COLS]; ROWS];
                // SAFETY: the block's rows and columns are within the matrices.
                unsafe {
                    if rows == ROWS && cols == COLS && b.col == 1 {
                        for p in 0..k {
                            let row = b.at(p, j).ptr;
                            for (r, acc) in acc.iter_mut().enumerate() {
                                let s = *a.at(i + r, p).ptr;
                                for (c, acc) in acc.iter_mut().enumerate() {
                                    *acc = acc.wrapping_add(&s.wrapping_mul(&*row.add(c)));
                                }
                            }
                        }
                    } else {
                        for p in 0..k {
                            for (r, acc) in acc[..rows].iter_mut().enumerate() {
                                let s = *a.at(i + r, p).ptr;
                                for (c, acc) in acc[..cols].iter_mut().enumerate() {
                                    *acc = acc.wrapping_add(&s.wrapping_mul(&*b.at(p, j + c).ptr));
                                }
                            }
                        }
                    }
                    for (r, acc) in acc[..rows].iter().enumerate() {
                        for (c, acc) in acc[..cols].iter().enumerate() {
                            let o = out.at(i + r, j + c).ptr;
                            let value = alpha.wrapping_mul(acc);
                            *o = if add {
                                (*o).wrapping_add(&value)
                            } else {
                                value
                            };
                        }
                    }
                }
                i += rows;
            }
            j += cols;
        }
    }
}
