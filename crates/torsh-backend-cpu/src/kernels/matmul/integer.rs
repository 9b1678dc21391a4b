//! Products of integer matrices. They wrap, so a signed type computes as its unsigned twin.

use num_traits::{WrappingAdd, WrappingMul};

use super::gemm::Matrix;
use crate::multiversion;

/// Columns and rows of the block of sums that is kept in registers.
const COLS: usize = 32;
const ROWS: usize = 4;

/// An unsigned integer that stands for the integer types of its size.
pub(crate) trait Wrapping: Copy + Default + WrappingAdd + WrappingMul + Send + Sync {
    /// `out = alpha * a b`, or `out += alpha * a b` where `add`.
    ///
    /// # Safety
    /// The matrices are valid for their sizes, and `out` overlaps neither other.
    #[allow(clippy::too_many_arguments)]
    unsafe fn product(
        m: usize,
        n: usize,
        k: usize,
        out: Matrix<Self>,
        a: Matrix<Self>,
        b: Matrix<Self>,
        alpha: Self,
        add: bool,
    );
}

macro_rules! wrapping {
    ($($t:ident $name:ident),*) => {$(
        multiversion! {
            unsafe fn $name<A>(m: usize, n: usize, k: usize, out: Matrix<$t>, a: Matrix<$t>, b: Matrix<$t>, alpha: $t, add: bool) {
                // SAFETY: the caller's promise.
                unsafe { blocks(m, n, k, out, a, b, alpha, add) }
            }
        }
        impl Wrapping for $t {
            unsafe fn product(m: usize, n: usize, k: usize, out: Matrix<$t>, a: Matrix<$t>, b: Matrix<$t>, alpha: $t, add: bool) {
                // SAFETY: the caller's promise.
                unsafe { $name(m, n, k, out, a, b, alpha, add) }
            }
        }
    )*};
}
wrapping!(u8 product_u8, u16 product_u16, u32 product_u32, u64 product_u64);

/// # Safety
/// As [`Wrapping::product`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn blocks<T: Wrapping>(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    alpha: T,
    add: bool,
) {
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
