//! One serial product of two matrices, by the kernel that suits its size.

use gemm::Parallelism;
use num_complex::Complex;
use num_traits::{One, Zero};

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::vector;
use crate::multiversion;
use crate::scalar::Real;

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

/// Up to this many multiply-adds the loops here beat the general kernel's set-up.
const SMALL: usize = 4096;

/// What products are computed in.
pub(crate) trait Number:
    Copy + Send + Sync + PartialEq + Zero + One + std::ops::Mul<Output = Self> + 'static
{
    /// `out = alpha * a b`, or `out += alpha * a b` where `add`, for `out` of `m` rows and `n`
    /// columns; `k` is not 0.
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

    /// [`Number::product`] of operands that are exact in bfloat16.
    ///
    /// # Safety
    /// As there.
    #[allow(clippy::too_many_arguments)]
    unsafe fn product_of_bf16(
        m: usize,
        n: usize,
        k: usize,
        out: Matrix<Self>,
        a: Matrix<Self>,
        b: Matrix<Self>,
        alpha: Self,
        add: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe { Self::product(m, n, k, out, a, b, alpha, add) }
    }

    /// Whether [`Number::shared`] is the better way to several threads than a product of its own
    /// for each.
    fn is_shared(_m: usize, _n: usize, _k: usize, _of_bf16: bool) -> bool {
        false
    }

    /// One product by several threads together.
    ///
    /// # Safety
    /// As [`Number::product`], or [`Number::product_of_bf16`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn shared(
        m: usize,
        n: usize,
        k: usize,
        out: Matrix<Self>,
        a: Matrix<Self>,
        b: Matrix<Self>,
        alpha: Self,
        add: bool,
        _of_bf16: bool,
        _threads: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { Self::product(m, n, k, out, a, b, alpha, add) }
    }
}

/// The general kernel.
///
/// # Safety
/// As [`Number::product`].
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn general<T: Number>(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    alpha: T,
    add: bool,
) {
    // The crate's `alpha` scales what is there, its `beta` the product.
    let keep = if add { T::one() } else { T::zero() };
    // SAFETY: the caller's promise.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.ptr,
            out.col,
            out.row,
            add,
            a.ptr,
            a.col,
            a.row,
            b.ptr,
            b.col,
            b.row,
            keep,
            alpha,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

macro_rules! real {
    ($($t:ident $small:ident $large:ident { $($more:item)* }),*) => {$(
        multiversion! {
            unsafe fn $small<A>(m: usize, n: usize, k: usize, out: Matrix<$t>, a: Matrix<$t>, b: Matrix<$t>, alpha: $t, add: bool) {
                // SAFETY: the caller's promise.
                unsafe { small::<A, $t>(m, n, k, out, a, b, alpha, add) }
            }
        }

        impl Number for $t {
            #[inline]
            unsafe fn product(m: usize, n: usize, k: usize, out: Matrix<$t>, a: Matrix<$t>, b: Matrix<$t>, alpha: $t, add: bool) {
                // SAFETY: the caller's promise, with the roles of rows and columns exchanged for
                // a row times a matrix.
                unsafe {
                    if n == 1 {
                        vector::$t(m, k, out.ptr, out.row, a, b.ptr, b.row, alpha, add);
                    } else if m == 1 {
                        vector::$t(n, k, out.ptr, out.col, b.t(), a.ptr, a.col, alpha, add);
                    } else if m * n * k <= SMALL {
                        $small(m, n, k, out, a, b, alpha, add);
                    } else {
                        $large(m, n, k, out, a, b, alpha, add);
                    }
                }
            }

            $($more)*
        }
    )*};
}
real!(
    f32 small_f32 large_f32 {
    #[inline]
    unsafe fn product_of_bf16(m: usize, n: usize, k: usize, out: Matrix<f32>, a: Matrix<f32>, b: Matrix<f32>, alpha: f32, add: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if amx::suits(m, n, k, amx::Parts::One)
                && amx::product(m, n, k, out, a, b, alpha, add, amx::Parts::One, 1)
            {
                return;
            }
            Self::product(m, n, k, out, a, b, alpha, add)
        }
    }
    #[cfg(target_arch = "x86_64")]
    fn is_shared(m: usize, n: usize, k: usize, of_bf16: bool) -> bool {
        amx::suits(m, n, k, amx::Parts::of(of_bf16))
    }
    #[cfg(target_arch = "x86_64")]
    unsafe fn shared(m: usize, n: usize, k: usize, out: Matrix<f32>, a: Matrix<f32>, b: Matrix<f32>, alpha: f32, add: bool, of_bf16: bool, threads: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if !amx::product(m, n, k, out, a, b, alpha, add, amx::Parts::of(of_bf16), threads) {
                Self::product(m, n, k, out, a, b, alpha, add);
            }
        }
    }},
    f64 small_f64 general {}
);

/// # Safety
/// As [`Number::product`].
#[allow(clippy::too_many_arguments)]
unsafe fn large_f32(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<f32>,
    a: Matrix<f32>,
    b: Matrix<f32>,
    alpha: f32,
    add: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if amx::suits(m, n, k, amx::Parts::Three)
            && amx::product(m, n, k, out, a, b, alpha, add, amx::Parts::Three, 1)
        {
            return;
        }
        general(m, n, k, out, a, b, alpha, add);
    }
}

macro_rules! complex {
    ($($t:ident),*) => {$(
        impl Number for Complex<$t> {
            unsafe fn product(m: usize, n: usize, k: usize, out: Matrix<Self>, a: Matrix<Self>, b: Matrix<Self>, alpha: Self, add: bool) {
                let wide = |v: Self| Complex::new(f64::from(v.re), f64::from(v.im));
                // SAFETY: the caller's promise.
                unsafe {
                    if m * n * k > SMALL / 2 {
                        return general(m, n, k, out, a, b, alpha, add);
                    }
                    // In double precision: complex sums cancel more than real ones.
                    for i in 0..m {
                        for j in 0..n {
                            let mut sum = Complex::new(0.0f64, 0.0);
                            for p in 0..k {
                                sum += wide(*a.at(i, p).ptr) * wide(*b.at(p, j).ptr);
                            }
                            let o = out.at(i, j).ptr;
                            sum *= wide(alpha);
                            if add {
                                sum += wide(*o);
                            }
                            *o = Complex::new(sum.re as $t, sum.im as $t);
                        }
                    }
                }
            }
        }
    )*};
}
complex!(f32, f64);

/// # Safety
/// `out` must be valid for a read (where `add`) and a write.
#[inline(always)]
unsafe fn put<A: crate::arch::Arch, T: Real>(out: *mut T, sum: T, alpha: T, add: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        *out = if add {
            alpha.fma::<A>(sum, *out)
        } else {
            alpha * sum
        };
    }
}

/// `W` columns from `j` of one row.
///
/// # Safety
/// As [`small`], where columns of `b` and `out` are adjacent.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn strip<A: crate::arch::Arch, T: Real, const W: usize>(
    k: usize,
    j: usize,
    out: Matrix<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    alpha: T,
    add: bool,
) {
    let mut acc = [T::ZERO; W];
    // SAFETY: the caller's promise.
    unsafe {
        for p in 0..k {
            let s = *a.at(0, p).ptr;
            let row = b.at(p, j).ptr;
            for (l, acc) in acc.iter_mut().enumerate() {
                *acc = s.fma::<A>(*row.add(l), *acc);
            }
        }
        let out = out.at(0, j).ptr;
        for (l, &acc) in acc.iter().enumerate() {
            put::<A, T>(out.add(l), acc, alpha, add);
        }
    }
}

/// # Safety
/// As [`Number::product`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn small<A: crate::arch::Arch, T: Real>(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    alpha: T,
    add: bool,
) {
    // SAFETY: the caller's promise; every index is below its size.
    unsafe {
        if b.col == 1 && out.col == 1 {
            for i in 0..m {
                let (out, a) = (out.at(i, 0), a.at(i, 0));
                let mut j = 0;
                while j + 16 <= n {
                    strip::<A, T, 16>(k, j, out, a, b, alpha, add);
                    j += 16;
                }
                if j + 8 <= n {
                    strip::<A, T, 8>(k, j, out, a, b, alpha, add);
                    j += 8;
                }
                if j + 4 <= n {
                    strip::<A, T, 4>(k, j, out, a, b, alpha, add);
                    j += 4;
                }
                while j < n {
                    strip::<A, T, 1>(k, j, out, a, b, alpha, add);
                    j += 1;
                }
            }
        } else if b.row == 1 && a.col == 1 && k >= 8 {
            for i in 0..m {
                for j in 0..n {
                    let sum = vector::dot::<A, T>(k, a.at(i, 0).ptr, b.at(0, j).ptr);
                    put::<A, T>(out.at(i, j).ptr, sum, alpha, add);
                }
            }
        } else {
            for i in 0..m {
                for j in 0..n {
                    let mut sum = T::ZERO;
                    for p in 0..k {
                        sum = (*a.at(i, p).ptr).fma::<A>(*b.at(p, j).ptr, sum);
                    }
                    put::<A, T>(out.at(i, j).ptr, sum, alpha, add);
                }
            }
        }
    }
}
