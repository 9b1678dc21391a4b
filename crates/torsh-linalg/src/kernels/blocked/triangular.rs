//! Systems of triangular matrices.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use torsh_backend_cpu::matmul::Strided;
use torsh_backend_cpu::simd::MOST_LANES;
use torsh_core::pool;

use super::{Blocked, Looped, Loops, divide, subtract};
use crate::kernels::field::Field;
use crate::kernels::tuning::blocked::{SYSTEM_BLOCK_THREAD, SYSTEM_COLUMNS, SYSTEM_THREAD, block};

/// A triangular system whose matrix is one block: row-major, of adjacent rows.
pub(super) struct Block<'a, T> {
    pub triangle: (&'a [T], usize),
    pub upper: bool,
    pub unit: bool,
    /// The right-hand sides in place of the solutions, and the step between rows.
    pub b: (&'a mut [T], usize),
    pub cols: usize,
}

/// Calls `f` with `n` rows of some adjacent columns of `b`, and with how many there are, for all of its `cols` columns: a
/// thread for each of the `parts`, which copies its columns to a workspace of its own.
fn in_strips<T: Blocked>(
    (b, ld): (&mut [T], usize),
    (n, cols): (usize, usize),
    parts: usize,
    f: impl Fn(&mut [T], usize) + Sync,
) {
    let each = cols.div_ceil(parts).next_multiple_of(MOST_LANES);
    let mut strips: Vec<Vec<&mut [T]>> = Vec::new();
    strips.resize_with(cols.div_ceil(each), || Vec::with_capacity(n));
    for row in b.chunks_mut(ld).take(n) {
        for (strip, part) in strips.iter_mut().zip(row[..cols].chunks_mut(each)) {
            strip.push(part);
        }
    }
    let strips: Vec<_> = strips.into_iter().map(Mutex::new).collect();
    pool::parallel_for(strips.len(), 1, &|range| {
        for strip in &strips[range] {
            let mut strip = strip.lock().unwrap_or_else(PoisonError::into_inner);
            let mut own = strip.concat();
            let cols = own.len() / n;
            f(&mut own, cols);
            for (row, from) in strip.iter_mut().zip(own.chunks_exact(cols)) {
                row.copy_from_slice(from);
            }
        }
    });
}

impl<T: Blocked> Block<'_, T> {
    /// Solves it, on several threads where it has many columns.
    pub fn solve(self) {
        let n = self.triangle.1;
        let parts = pool::chunk_count(n * n * self.cols / 2, SYSTEM_BLOCK_THREAD)
            .min(self.cols / SYSTEM_COLUMNS);
        if parts < 2 {
            return T::looped(self);
        }
        let (triangle, upper, unit) = (self.triangle, self.upper, self.unit);
        in_strips(self.b, (n, self.cols), parts, |own, cols| {
            T::looped(Block {
                triangle,
                upper,
                unit,
                b: (own, cols),
                cols,
            });
        });
    }
}

impl<T: Field> Looped<T> for Block<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let Block {
            triangle: (d, n),
            upper,
            unit,
            b: (b, ld),
            cols,
        } = self;
        for left in (0..cols).step_by(SYSTEM_COLUMNS) {
            let width = (cols - left).min(SYSTEM_COLUMNS);
            for step in 0..n {
                let i = if upper { n - 1 - step } else { step };
                let (before, row) = b.split_at_mut(i * ld);
                if upper {
                    let (row, after) = match i + 1 < n {
                        true => row.split_at_mut(ld),
                        false => (row, &mut [][..]),
                    };
                    let row = &mut row[left..][..width];
                    let known = after.get(left..).unwrap_or(&[]);
                    o.combine(row, known, ld, &d[i * n + i + 1..(i + 1) * n]);
                } else {
                    let known = before.get(left..).unwrap_or(&[]);
                    o.combine(&mut row[left..][..width], known, ld, &d[i * n..][..i]);
                }
                if !unit {
                    divide(o, &mut b[i * ld + left..][..width], d[i * n + i]);
                }
            }
        }
    }
}

/// Solves `op(A) X = B` in place of row-major `b` (`n` by `cols`) for triangular row-major `a` (`n` by `n`, rows `lda`
/// apart), where `op` transposes or conjugates where told to. `upper` says what `op(A)` is.
pub(crate) fn solve_triangular<T: Blocked>(
    (a, lda): (&[T], usize),
    (upper, unit): (bool, bool),
    (transpose, conj): (bool, bool),
    b: &mut [T],
    n: usize,
    cols: usize,
) {
    // Fewer columns than a vector has lanes would be solved number by number.
    let least = if T::COMPLEX {
        MOST_LANES / 2
    } else {
        MOST_LANES
    };
    if cols < least {
        let mut wide = vec![T::ZERO; n * least];
        for (to, from) in wide.chunks_exact_mut(least).zip(b.chunks_exact(cols)) {
            to[..cols].copy_from_slice(from);
        }
        solve_triangular(
            (a, lda),
            (upper, unit),
            (transpose, conj),
            &mut wide,
            n,
            least,
        );
        for (from, to) in wide.chunks_exact(least).zip(b.chunks_exact_mut(cols)) {
            to.copy_from_slice(&from[..cols]);
        }
        return;
    }
    let (triangle, op) = ((a, lda), (transpose, conj));
    let parts = pool::chunk_count(n * n / 2 * cols, SYSTEM_THREAD).min(cols / least);
    if parts < 2 {
        return solve_columns(triangle, (upper, unit), op, b, n, cols);
    }
    in_strips((b, cols), (n, cols), parts, |own, cols| {
        solve_columns(triangle, (upper, unit), op, own, n, cols);
    });
}

/// As [`solve_triangular`], of at least as many columns as a vector has lanes, all at once.
fn solve_columns<T: Blocked>(
    (a, lda): (&[T], usize),
    (upper, unit): (bool, bool),
    (transpose, conj): (bool, bool),
    b: &mut [T],
    n: usize,
    cols: usize,
) {
    let most = block(n, T::COMPLEX);
    let conj = conj && T::COMPLEX;
    let (row, col) = if transpose { (1, lda) } else { (lda, 1) };
    // A part of `op(A)` from a row and a column on: where it is, or conjugated.
    let part = |i: usize, j: usize, rows: usize, cols: usize| match conj {
        false => (Cow::Borrowed(&a[i * row + j * col..]), row, col),
        true => {
            let at = |k: usize| Field::conj(a[(i + k / cols) * row + (j + k % cols) * col]);
            (Cow::Owned((0..rows * cols).map(at).collect()), cols, 1)
        }
    };
    let mut diagonal: Vec<T> = Vec::new();
    for step in 0..n.div_ceil(most) {
        let i = match upper {
            false => step * most,
            true => (n.div_ceil(most) - 1 - step) * most,
        };
        let width = most.min(n - i);
        let (data, r, c) = part(i, i, width, width);
        diagonal.clear();
        for i in 0..width {
            diagonal.extend((0..width).map(|j| data[i * r + j * c]));
        }
        let end = i + width;
        Block {
            triangle: (&diagonal, width),
            upper,
            unit,
            b: (&mut b[i * cols..end * cols], cols),
            cols,
        }
        .solve();
        let (known, rest, from, rows) = match upper {
            false => {
                let (head, tail) = b.split_at_mut(end * cols);
                (&head[i * cols..], tail, end, n - end)
            }
            true => {
                let (head, tail) = b.split_at_mut(i * cols);
                (&*tail, head, 0, i)
            }
        };
        if rows > 0 {
            let (data, row, col) = part(from, i, rows, width);
            let data = &data[..];
            let operands = (Strided { data, row, col }, Strided::rows(known, cols));
            subtract((rows, cols, width), operands, (rest, cols));
        }
    }
}
