//! One product of two matrices, by the kernel that suits its size.

use num_complex::Complex;
use num_traits::{One, Zero};
use torsh_core::DType;

use super::choose::{ProductAlgorithm, ProductProblem};
use super::operands::{Matrix, Product, Start};
use super::packed::Packable;
use super::tile::Tiled;
#[cfg(target_arch = "x86_64")]
use super::{amx, dot_tiles};
use super::{packed, vector};
use crate::machine::choice::pick;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::Vectors;

/// What products are computed in.
pub(crate) trait Number:
    Copy + Send + Sync + PartialEq + Zero + One + std::ops::Mul<Output = Self> + 'static
{
    /// Computes a product of at least one term on up to `threads` threads, by the algorithm that
    /// [`ProductAlgorithm`] chooses, added to `start`, if that is given, in place of the output.
    ///
    /// # Safety
    /// The matrices are valid for their sizes, and `out` overlaps neither other.
    unsafe fn product(x: &Product<Self>, threads: usize, start: Option<&Start<Self>>);
}

macro_rules! real {
    ($($t:ident $dtype:ident { $($(#[$cfg:meta])* $algorithm:pat => |$x:ident, $threads:ident, $start:ident| $compute:expr,)* }),*) => {$(
        impl Number for $t {
            unsafe fn product(x: &Product<$t>, threads: usize, start: Option<&Start<$t>>) {
                let Product { m, n, k, out, a, b, alpha, add } = *x;
                let put = || {
                    if let Some(start) = start {
                        // SAFETY: the caller's promise.
                        unsafe { start.put_all(x, threads) };
                    }
                };
                let problem = ProductProblem::new(DType::$dtype, x);
                // SAFETY: the caller's promise, with the roles of rows and columns exchanged for
                // a row times a matrix.
                unsafe {
                    match pick::<ProductAlgorithm>(&problem, threads) {
                        ProductAlgorithm::MatrixVector => {
                            put();
                            if n == 1 {
                                vector::times(m, k, out.ptr, out.row, a, b.ptr, b.row, alpha, add);
                            } else {
                                vector::times(n, k, out.ptr, out.col, b.t(), a.ptr, a.col, alpha, add);
                            }
                        }
                        ProductAlgorithm::Unpacked => {
                            put();
                            small(x);
                        }
                        $($(#[$cfg])* $algorithm => {
                            let ($x, $threads, $start) = (x, threads, start);
                            $compute
                        })*
                        _ => in_blocks(x, threads, start),
                    }
                }
            }
        }
    )*};
}
real!(
    f32 F32 {
        #[cfg(target_arch = "x86_64")]
        ProductAlgorithm::AmxSplit => |x, threads, start| {
            if let Some(start) = start {
                start.put_all(x, threads);
            }
            // Without memory to pack into.
            if !amx::product(x, threads) {
                plain(x, threads);
            }
        },
        #[cfg(target_arch = "x86_64")]
        ProductAlgorithm::DotTiles => |x, threads, start| dot_tiles::product(x, threads, start),
    },
    f64 F64 {}
);

/// The blocked product, which reads what it starts from as it writes the result, where that has a
/// direction to be read in by vectors and need not be multiplied. Without memory for panels the loops
/// over whole rows remain.
///
/// # Safety
/// As [`Number::product`].
unsafe fn in_blocks<T: Number + Packable + Tiled + Vectors>(
    x: &Product<T>,
    threads: usize,
    start: Option<&Start<T>>,
) {
    let along = |m: Matrix<T>| m.col == 1 && x.out.col == 1 || m.row == 1 && x.out.row == 1;
    let from = start
        .filter(|start| start.factor == T::one() && along(start.of))
        .map(|start| start.of);
    // SAFETY: the caller's promise.
    unsafe {
        if let (None, Some(start)) = (from, start) {
            start.put_all(x, threads);
        }
        if packed::product(x, None, from, threads).is_err() {
            if let (Some(_), Some(start)) = (from, start) {
                start.put_all(x, threads);
            }
            small(x);
        }
    }
}

/// A float32 product without a matrix unit.
///
/// # Safety
/// As [`Number::product`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn plain(x: &Product<f32>, threads: usize) {
    // SAFETY: the caller's promise.
    unsafe { in_blocks(x, threads, None) }
}

/// The algorithms of complex products.
trait ComplexParts: Sized {
    /// Sums in double precision, since complex sums cancel more than real ones.
    ///
    /// # Safety
    /// As [`Number::product`].
    unsafe fn loops(x: &Product<Self>);

    /// Four real products, of the real and the imaginary parts where they lie; two more for each part
    /// of `alpha` that is not 0.
    ///
    /// # Safety
    /// As [`Number::product`].
    unsafe fn four_real(x: &Product<Self>, threads: usize);
}

macro_rules! complex {
    ($($t:ident $dtype:ident),*) => {$(
        impl Number for Complex<$t> {
            unsafe fn product(x: &Product<Self>, threads: usize, start: Option<&Start<Self>>) {
                if let Some(start) = start {
                    // SAFETY: the caller's promise.
                    unsafe { start.put_all(x, threads) };
                }
                let problem = ProductProblem::new(DType::$dtype, x);
                // SAFETY: the caller's promise.
                unsafe {
                    match pick::<ProductAlgorithm>(&problem, threads) {
                        ProductAlgorithm::ComplexLoops => Self::loops(x),
                        _ => Self::four_real(x, threads),
                    }
                }
            }
        }

        impl ComplexParts for Complex<$t> {
            unsafe fn loops(x: &Product<Self>) {
                let Product { m, n, k, out, a, b, alpha, add } = *x;
                let wide = |v: Self| Complex::new(f64::from(v.re), f64::from(v.im));
                // SAFETY: the caller's promise.
                unsafe {
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

            unsafe fn four_real(x: &Product<Self>, threads: usize) {
                let part = |m: Matrix<Self>, imaginary: usize| {
                    let ptr = m.ptr.cast::<$t>().wrapping_add(imaginary);
                    Matrix::new(ptr, 2 * m.row, 2 * m.col)
                };
                let mut started = [x.add; 2];
                // i^(p + q + r), for the parts p of a, q of b and r of alpha.
                for (r, factor) in [x.alpha.re, x.alpha.im].into_iter().enumerate() {
                    if r == 1 && factor == 0.0 {
                        continue;
                    }
                    for (p, q) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
                        let transposes = p + q + r;
                        let to = transposes % 2;
                        let real = Product {
                            m: x.m,
                            n: x.n,
                            k: x.k,
                            out: part(x.out, to),
                            a: part(x.a, p),
                            b: part(x.b, q),
                            alpha: if transposes >= 2 { -factor } else { factor },
                            add: started[to],
                        };
                        // SAFETY: the caller's promise; the parts lie within the operands.
                        unsafe {
                            if packed::product(&real, None, None, threads).is_err() {
                                small(&real);
                            }
                        }
                        started[to] = true;
                    }
                }
            }
        }
    )*};
}
complex!(f32 C64, f64 C128);

/// # Safety
/// `out` must be valid for a read (where `add`) and a write.
#[inline(always)]
unsafe fn put<A: crate::simd::Arch, T: Real>(out: *mut T, sum: T, alpha: T, add: bool) {
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
unsafe fn strip<A: crate::simd::Arch, T: Real, const W: usize>(
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

multiversion! {
    /// The product, by loops over the operands where they are.
    ///
    /// # Safety
    /// As [`Number::product`].
    unsafe fn small<A, T: Vectors>(x: &Product<T>) {
        let Product {
            m,
            n,
            k,
            out,
            a,
            b,
            alpha,
            add,
        } = *x;
        // SAFETY: the caller's promise; every index is below its size.
        unsafe {
            if b.col == 1 && out.col == 1 {
                // The last columns of a row may be written twice.
                let overlap = |width| !add && n >= width;
                for i in 0..m {
                    let (out, a) = (out.at(i, 0), a.at(i, 0));
                    let mut j = 0;
                    while j + 16 <= n {
                        strip::<A, T, 16>(k, j, out, a, b, alpha, add);
                        j += 16;
                    }
                    while j + 8 <= n || overlap(8) && j + 4 < n {
                        let at = j.min(n - 8);
                        strip::<A, T, 8>(k, at, out, a, b, alpha, add);
                        j = at + 8;
                    }
                    while j + 4 <= n || overlap(4) && j < n {
                        let at = j.min(n - 4);
                        strip::<A, T, 4>(k, at, out, a, b, alpha, add);
                        j = at + 4;
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
}
