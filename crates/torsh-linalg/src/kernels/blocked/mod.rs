//! LU, Cholesky, QR and triangular solves of one large matrix, in blocks.
//!
//! A block of columns or rows is decomposed by vector loops in a workspace that the caches hold. What it does to the rest
//! of the matrix is a product, which the CPU backend computes, on several threads where it is large.
//!
//! All loops are written in terms of [`Loops`]: in the processor's widest vectors, and where there are none, in plain
//! loops.

mod bidiagonal;
mod blocked_cholesky;
mod blocked_lu;
mod blocked_qr;
mod loops;
mod panel;
mod triangular;
mod tridiagonal;

use torsh_backend_cpu::matmul::{Strided, multiply_add_by, multiply_by};
use torsh_backend_cpu::operations::pick;
use torsh_backend_cpu::shares::share_chunks;
use torsh_core::pool;

use super::field::Field;
use crate::kernels::choose::{UpdateAlgorithm, UpdateProblem};
use crate::kernels::tuning::blocked::{CACHED, SHARE, VECTOR_THREAD};

pub(crate) use bidiagonal::Bidiagonal;
pub(crate) use blocked_cholesky::cholesky;
pub(crate) use blocked_lu::lu;
pub(crate) use blocked_qr::Reflectors;
pub(crate) use loops::{Blocked, Looped, Loops};
pub(crate) use triangular::solve_triangular;
pub(crate) use tridiagonal::Tridiagonal;

/// A transpose of rows of the matrix to lines of a workspace, or of those to rows of the matrix.
struct Transpose<'a, T> {
    from: (&'a [T], usize),
    size: (usize, usize),
    to: (&'a mut [T], usize),
}

impl<T: Field> Looped<T> for Transpose<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        o.transpose(self.from, self.size, self.to);
    }
}

/// The transpose of a row-major matrix of `m` rows and `n` columns.
pub(crate) fn transposed<T: Blocked>(a: &[T], m: usize, n: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; m * n];
    transpose(a, (m, n), &mut out);
    out
}

/// Writes the transpose of a row-major matrix.
pub(crate) fn transpose<T: Blocked>(a: &[T], (m, n): (usize, usize), to: &mut [T]) {
    T::looped(Transpose {
        from: (a, n),
        size: (m, n),
        to: (to, m),
    });
}

/// The inverse of a number that lines are divided by, or nothing where it is too small to have one.
fn reciprocal<T: Field>(d: T) -> Option<T> {
    let by = T::ONE.over(d);
    by.finite().then_some(by)
}

/// Divides a line by a number.
#[inline(always)]
fn divide<T: Field, O: Loops<T>>(o: O, c: &mut [T], d: T) {
    match reciprocal(d) {
        Some(by) => o.scale(c, by),
        None => c.iter_mut().for_each(|v| *v = v.over(d)),
    }
}

/// Subtracts the product of `a` (`m` by `k`) and `b` (`k` by `n`) from rows of `out`.
fn subtract<T: Blocked>(
    size: (usize, usize, usize),
    operands: (Strided<'_, T>, Strided<'_, T>),
    out: (&mut [T], usize),
) {
    subtract_by(SHARE, size, operands, out);
}

/// As [`subtract`], with a thread for each `grain` multiply-adds.
fn subtract_by<T: Blocked>(
    grain: usize,
    size: (usize, usize, usize),
    operands: (Strided<'_, T>, Strided<'_, T>),
    out: (&mut [T], usize),
) {
    let done = multiply_add_by(grain, size, -T::ONE, operands, out);
    debug_assert!(done.is_ok(), "{done:?}");
}

/// The product of `a` (`m` by `k`) and `b` (`k` by `n`), row-major.
pub(crate) fn product<T: Blocked>(
    (m, n, k): (usize, usize, usize),
    operands: (Strided<'_, T>, Strided<'_, T>),
) -> Vec<T> {
    let mut out = vec![T::ZERO; m * n];
    write_product((m, n, k), operands, (&mut out, n));
    out
}

/// Writes such a product to rows of `out`. What was there is not read: pages that were never written are read as one page of
/// zeros, and the first write to each of them then interrupts all cores.
pub(crate) fn write_product<T: Blocked>(
    size: (usize, usize, usize),
    operands: (Strided<'_, T>, Strided<'_, T>),
    out: (&mut [T], usize),
) {
    let done = multiply_by(SHARE, size, T::ONE, operands, out);
    debug_assert!(done.is_ok(), "{done:?}");
}

/// The product of row-major matrices of `n` rows and columns.
pub(crate) fn square_product<T: Blocked>(n: usize, a: &[T], b: &[T]) -> Vec<T> {
    product((n, n, n), (Strided::rows(a, n), Strided::rows(b, n)))
}

/// The step between lines of a workspace: whole cache lines, and not a multiple of a page, whose lines would share a few
/// places of the cache.
fn line<T>(n: usize) -> usize {
    let each = 64 / size_of::<T>().min(64);
    let lines = n.div_ceil(each);
    (lines + usize::from(lines.is_multiple_of(2))) * each
}

/// The first number of each line, as many as `to` has.
#[inline(always)]
fn gather<'a, T: Copy>(to: &'a mut [T], lines: &[T], ld: usize) -> &'a [T] {
    for (to, line) in to.iter_mut().zip(lines.iter().step_by(ld)) {
        *to = *line;
    }
    to
}

/// A product of rows and a vector.
struct Products<'a, T> {
    a: (&'a [T], usize),
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Field> Looped<T> for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        o.dots(self.out, self.a.0, self.a.1, self.x);
    }
}

/// A combination of rows.
struct Combination<'a, T> {
    a: (&'a [T], usize),
    by: &'a [T],
    out: &'a mut [T],
}

impl<T: Field> Looped<T> for Combination<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        o.combine(self.out, self.a.0, self.a.1, self.by);
    }
}

/// Calls `f` with parts of `out` and where they begin, on several threads where `products` are worth them.
fn shared<T: Blocked>(out: &mut [T], products: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let parts = pool::chunk_count(products, VECTOR_THREAD).min(out.len());
    if parts < 2 {
        return f(0, out);
    }
    let each = out.len().div_ceil(parts);
    in_chunks(out, each, f);
}

/// Calls `f` with parts of `each` numbers, and where they begin: a thread to a part.
pub(crate) fn in_chunks<T: Send>(to: &mut [T], each: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    share_chunks(to, each, usize::MAX, |i, part| f(i * each, part));
}

/// `out[i] = a[i] x`, where `a[i]` are rows `ld` apart.
fn rows_times<T: Blocked>((a, ld): (&[T], usize), x: &[T], out: &mut [T]) {
    shared(out, out.len() * x.len(), |from, out| {
        T::looped(Products {
            a: (&a[from * ld..], ld),
            x,
            out,
        });
    });
}

/// `out = -(by[0] a[0] + by[1] a[1] + ..)`, where `a[i]` are rows `ld` apart.
fn minus_combined_rows<T: Blocked>((a, ld): (&[T], usize), by: &[T], out: &mut [T]) {
    shared(out, out.len() * by.len(), |from, out| {
        out.fill(T::ZERO);
        T::looped(Combination {
            a: (&a[from..], ld),
            by,
            out,
        });
    });
}

/// Subtracts products of lines from the rows of a matrix.
struct Outer<'a, T> {
    x: &'a [T],
    y: &'a [T],
    ld: (usize, usize),
    size: (usize, usize, usize),
    out: (&'a mut [T], usize),
}

impl<T: Field> Looped<T> for Outer<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let (m, n, k) = self.size;
        let mut by = vec![T::ZERO; k];
        for (i, row) in self.out.0.chunks_mut(self.out.1).take(m).enumerate() {
            for (p, by) in by.iter_mut().enumerate() {
                *by = self.x[p * self.ld.0 + i];
            }
            o.combine(&mut row[..n], self.y, self.ld.1, &by);
        }
    }
}

/// Subtracts `x[0] y[0]^T + x[1] y[1]^T + ..` from rows of `out` (`m` by `n`), where `x[i]` and `y[i]` are `k` lines.
fn subtract_outer<T: Blocked>(
    (x, y, ld): (&[T], &[T], (usize, usize)),
    (m, n, k): (usize, usize, usize),
    out: (&mut [T], usize),
) {
    if m == 0 || n == 0 {
        return;
    }
    if let UpdateAlgorithm::Rows = pick(&UpdateProblem { m, n, k }, pool::num_threads()) {
        return T::looped(Outer {
            x,
            y,
            ld,
            size: (m, n, k),
            out,
        });
    }
    // The caches of one core that hold the matrix would lose half of it to another one.
    let grain = match m * n < CACHED {
        true => usize::MAX,
        false => SHARE,
    };
    let operands = (Strided::rows(x, ld.0).t(), Strided::rows(y, ld.1));
    subtract_by(grain, (m, n, k), operands, out);
}
