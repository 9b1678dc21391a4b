//! One product of two matrices, by the kernel that suits its size.

use num_complex::Complex;
use num_traits::{One, Zero};
use torsh_core::{DType, pool};

use super::choose::{ProductAlgorithm, ProductProblem};
use super::operands::{Matrix, Product, Start};
use super::packed::Packable;
use super::tile::Tiled;
#[cfg(target_arch = "x86_64")]
use super::{amx, dot_tiles};
use super::{packed, vector};
use crate::machine::choice::pick;
use crate::memory::dense::{Ptr, Scratch};
use crate::multiversion;
use crate::scalar::Real;

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
unsafe fn in_blocks<T: Number + Packable + Tiled + vector::Unconverted>(
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
        if packed::product(x, None, from, None, threads).is_err() {
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

/// Bytes of the real and imaginary parts of a complex product's rows that are computed at a time, and the least rows.
const PLANES: usize = crate::machine::tuning::matmul::COMPLEX_PLANES;
const LEAST_ROWS: usize = crate::machine::tuning::matmul::COMPLEX_ROWS;

multiversion! {
    /// A row of complex results from its real and imaginary parts: `alpha` times them, or added where `add`. `step` is that
    /// between the real parts of results.
    unsafe fn join<A, T: Real>(n: usize, re: *const T, im: *const T, out: *mut T, step: isize, alpha_re: T, alpha_im: T, add: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            let one = |j: usize| {
                let (x, y) = (*re.add(j), *im.add(j));
                (alpha_re * x - alpha_im * y, alpha_re * y + alpha_im * x)
            };
            // Without its imaginary part, which would make NaN of infinities.
            let real = |j: usize| (alpha_re * *re.add(j), alpha_re * *im.add(j));
            let whole = alpha_im != T::ZERO;
            let value = |j: usize| if whole { one(j) } else { real(j) };
            if step == 2 {
                if add {
                    for j in 0..n {
                        let (x, y) = value(j);
                        *out.add(2 * j) = *out.add(2 * j) + x;
                        *out.add(2 * j + 1) = *out.add(2 * j + 1) + y;
                    }
                } else {
                    for j in 0..n {
                        (*out.add(2 * j), *out.add(2 * j + 1)) = value(j);
                    }
                }
                return;
            }
            for j in 0..n {
                let to = out.offset(j as isize * step);
                let (x, y) = value(j);
                let (re, im) = if add { (*to, *to.add(1)) } else { (T::ZERO, T::ZERO) };
                (*to, *to.add(1)) = (re + x, im + y);
            }
        }
    }
}

/// The algorithms of complex products.
trait ComplexParts: Sized {
    /// Sums in double precision, since complex sums cancel more than real ones.
    ///
    /// # Safety
    /// As [`Number::product`].
    unsafe fn loops(x: &Product<Self>);

    /// Four real products, of the real and the imaginary parts where they lie, into planes of their own.
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
                // Rows of adjacent results.
                let x = match x.out.col != 1 && x.out.row == 1 {
                    true => x.transposed(),
                    false => *x,
                };
                let Product { m, n, k, alpha, .. } = x;
                let part = |m: Matrix<Self>, imaginary: usize| {
                    let ptr = m.ptr.cast::<$t>().wrapping_add(imaginary);
                    Matrix::new(ptr, 2 * m.row, 2 * m.col)
                };
                let rows = (PLANES / (2 * size_of::<$t>() * n)).clamp(LEAST_ROWS, m.max(LEAST_ROWS)).min(m);
                let Ok(planes) = Scratch::<$t>::new(2 * rows * n) else {
                    // SAFETY: the caller's promise.
                    return unsafe { Self::loops(&x) };
                };
                let plane = |which: usize| planes.ptr().wrapping_add(which * rows * n);
                for first in (0..m).step_by(rows) {
                    let rows = rows.min(m - first);
                    // The parts of a and of b, and the part of the result that they add to.
                    for (p, q, to) in [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)] {
                        let real = Product {
                            m: rows,
                            n,
                            k,
                            out: Matrix::new(plane(to), n as isize, 1),
                            a: part(x.a.at(first, 0), p),
                            b: part(x.b, q),
                            alpha: if p + q == 2 { -1.0 } else { 1.0 },
                            add: p == 1,
                        };
                        // SAFETY: the caller's promise; the parts lie within the operands, and the planes hold the rows.
                        unsafe { <$t as Number>::product(&real, threads, None) };
                    }
                    let [re, im] = [plane(0), plane(1)].map(Ptr::new);
                    let out = Ptr::new(x.out.at(first, 0).ptr.cast::<$t>());
                    let (row, col) = (2 * x.out.row, 2 * x.out.col);
                    pool::parallel_parts(rows, threads.min(rows), &|_, range| {
                        for i in range {
                            let from = [&re, &im].map(|plane| plane.at((i * n) as isize).cast_const());
                            let to = (out.at(i as isize * row), col);
                            // SAFETY: the planes hold the row, which no other thread writes.
                            unsafe { join(n, from[0], from[1], to.0, to.1, alpha.re, alpha.im, x.add) };
                        }
                    });
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
    unsafe fn small<A, T: vector::Unconverted>(x: &Product<T>) {
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
