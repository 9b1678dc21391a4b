//! What convolutions compute with, and the loops over rows that they share.

use num_complex::Complex;
use torsh_core::DType;

use super::direct_loops::Direct;
use crate::kernels::matmul::{Matrix, Number, Product, wrapping_product};
use crate::multiversion;

/// A number type of the convolution kernels.
pub(super) trait ConvElement: Copy + Default + Send + Sync + Direct {
    /// `out = a b`, or `out += a b` where `add`, on up to `threads` threads.
    ///
    /// # Safety
    /// The matrices are valid for the sizes `m`, `n` and `k` (all positive); `out` overlaps no other.
    unsafe fn product(
        size: [usize; 3],
        out: Matrix<Self>,
        a: Matrix<Self>,
        b: Matrix<Self>,
        add: bool,
        threads: usize,
    );

    /// The sum; that of integers wraps.
    fn plus(self, other: Self) -> Self;

    /// The dtype.
    const DTYPE: DType;
}

/// Which of a convolution's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConvKind {
    /// Input, weight, output.
    Forward,
    /// The output's gradient, weight, the input's gradient.
    Transposed,
    /// The output's gradient, input, the weight's gradient.
    Weight,
}

multiversion! {
    /// `dst[i * dst_step] += src[i]` for `i` below `n`.
    ///
    /// # Safety
    /// Both are valid for `n` elements and do not overlap.
    pub(super) unsafe fn add<A, T: ConvElement>(n: usize, src: *const T, dst: *mut T, dst_step: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let put = |d: *mut T, v: T| *d = (*d).plus(v);
            if dst_step == 1 {
                (0..n).for_each(|i| put(dst.add(i), *src.add(i)));
            } else {
                (0..n).for_each(|i| put(dst.add(i * dst_step), *src.add(i)));
            }
        }
    }
}

macro_rules! floating {
    ($($t:ty, $dtype:ident;)*) => {$(
        impl ConvElement for $t {
            const DTYPE: DType = DType::$dtype;
            unsafe fn product([m, n, k]: [usize; 3], out: Matrix<Self>, a: Matrix<Self>, b: Matrix<Self>, add: bool, threads: usize) {
                let alpha = num_traits::One::one();
                // SAFETY: the caller's promise.
                unsafe { <$t as Number>::product(&Product { m, n, k, out, a, b, alpha, add }, threads, None) }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
floating! {
    f32, F32;
    f64, F64;
    Complex<f32>, C64;
    Complex<f64>, C128;
}

impl ConvElement for u64 {
    const DTYPE: DType = DType::I64;
    unsafe fn product(
        [m, n, k]: [usize; 3],
        out: Matrix<Self>,
        a: Matrix<Self>,
        b: Matrix<Self>,
        add: bool,
        _: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { wrapping_product(m, n, k, out, a, b, 1, add) }
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// Writes `n` times the same value.
///
/// # Safety
/// `dst` must be valid for `n` writes.
#[inline]
pub(super) unsafe fn fill<T: Copy>(dst: *mut T, n: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(dst, n).fill(value) }
}

/// Writes `n` zeros.
///
/// # Safety
/// `dst` must be valid for `n` writes.
#[inline]
pub(super) unsafe fn clear<T: Copy + Default>(dst: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { fill(dst, n, T::default()) }
}
