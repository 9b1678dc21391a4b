//! LU with partial pivoting, as `getrf`.

use torsh_backend_cpu::matmul::Strided;

use super::triangular::Block;
use super::{Blocked, Looped, Loops, Transpose, divide, line, subtract};
use crate::kernels::field::Field;
use crate::kernels::tuning::blocked::{LU_INNER, LU_ROWS, block};

/// A block of columns, copied column by column to a workspace.
struct Panel<'a, T> {
    /// The rows of the matrix from the block's diagonal on, and the step between them.
    a: (&'a [T], usize),
    /// The columns, `ld` apart.
    columns: &'a mut [T],
    ld: usize,
    rows: usize,
    /// The row that each row was exchanged with, from the first row of the panel.
    pivots: &'a mut [i32],
}

/// The column of a zero pivot.
type Zero = Option<usize>;

impl<T: Field> Looped<T> for Panel<'_, T> {
    type Output = Zero;

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) -> Zero {
        let Panel {
            a,
            columns,
            ld,
            rows,
            pivots,
        } = self;
        let cols = pivots.len();
        o.transpose(a, (rows, cols), (columns, ld));
        let mut zero = None;
        let mut factors = [T::ZERO; LU_INNER];
        for first in (0..cols).step_by(LU_INNER) {
            let last = (first + LU_INNER).min(cols);
            for j in first..last {
                let (before, rest) = columns.split_at_mut(j * ld);
                let column = &mut rest[..rows];
                exchange(column, &pivots[first..j], first);
                if j > first {
                    let known = &before[first * ld..];
                    substitute((known, ld), column, (first, j), &mut factors);
                    o.combine(&mut column[j..], &known[j..], ld, &factors[..j - first]);
                }
                let at = j + o.greatest(&column[j..]);
                pivots[j] = at as i32;
                column.swap(j, at);
                for p in first..j {
                    before.swap(p * ld + j, p * ld + at);
                }
                let pivot = column[j];
                if pivot == T::ZERO {
                    zero = zero.or(Some(j));
                    continue;
                }
                divide(o, &mut column[j + 1..], pivot);
            }
            // The other columns of the panel.
            for p in 0..first {
                exchange(&mut columns[p * ld..][..rows], &pivots[first..last], first);
            }
            let (known, rest) = columns.split_at_mut(last * ld);
            let known = &known[first * ld..];
            for c in 0..cols - last {
                let column = &mut rest[c * ld..][..rows];
                exchange(column, &pivots[first..last], first);
                substitute((known, ld), column, (first, last), &mut factors);
            }
            for top in (last..rows).step_by(LU_ROWS) {
                let below = (rows - top).min(LU_ROWS);
                for c in 0..cols - last {
                    let (head, column) = rest[c * ld..][..rows].split_at_mut(top);
                    let factors = &head[first..last];
                    o.combine(&mut column[..below], &known[top..], ld, factors);
                }
            }
        }
        zero
    }
}

/// Exchanges numbers of a column as pivots from `first` on say.
#[inline(always)]
fn exchange<T>(column: &mut [T], pivots: &[i32], first: usize) {
    for (i, &p) in pivots.iter().enumerate() {
        column.swap(first + i, p as usize);
    }
}

/// Solves for the part of a column that belongs to the columns `first..last`, which are known; also leaves it in `factors`.
#[inline(always)]
fn substitute<T: Field>(
    (known, ld): (&[T], usize),
    column: &mut [T],
    (first, last): (usize, usize),
    factors: &mut [T; LU_INNER],
) {
    let part = &mut column[first..last];
    for p in 0..part.len() {
        let by = part[p];
        factors[p] = by;
        let line = &known[p * ld + first..][..part.len()];
        for (v, l) in part[p + 1..].iter_mut().zip(&line[p + 1..]) {
            *v -= by * *l;
        }
    }
}

/// LU factors in place of row-major `a`, as `getrf`: the position of the first zero pivot, counted from 1, or 0.
pub(crate) fn lu<T: Blocked>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    let k = m.min(n);
    let most = block(k, T::COMPLEX);
    let mut columns = vec![T::ZERO; most * line::<T>(m)];
    let mut diagonal = Vec::new();
    let mut zero = 0;
    for j in (0..k).step_by(most) {
        let (width, rows) = (most.min(k - j), m - j);
        let ld = line::<T>(rows);
        let own = &mut pivots[j..j + width];
        let found = T::looped(Panel {
            a: (&a[j * n + j..], n),
            columns: &mut columns,
            ld,
            rows,
            pivots: own,
        });
        if let Some(at) = found.filter(|_| zero == 0) {
            zero = (j + at + 1) as i32;
        }
        for (i, p) in own.iter_mut().enumerate() {
            let (row, other) = (j + i, j + *p as usize);
            if row != other {
                let (head, tail) = a.split_at_mut(other * n);
                head[row * n..][..n].swap_with_slice(&mut tail[..n]);
            }
            *p = other as i32 + 1;
        }
        T::looped(Transpose {
            from: (&columns, ld),
            size: (width, rows),
            to: (&mut a[j * n + j..], n),
        });
        let right = n - j - width;
        if right == 0 {
            continue;
        }
        let (top, below) = a[j * n..].split_at_mut(width * n);
        let top = &mut top[j + width..];
        diagonal.clear();
        for i in 0..width {
            diagonal.extend((0..width).map(|j| columns[j * ld + i]));
        }
        Block {
            triangle: (&diagonal, width),
            upper: false,
            unit: true,
            b: (top, n),
            cols: right,
        }
        .solve();
        if rows > width {
            let l = Strided {
                data: &columns[width..],
                row: 1,
                col: ld,
            };
            let out = (&mut below[j + width..], n);
            subtract(
                (rows - width, right, width),
                (l, Strided::rows(top, n)),
                out,
            );
        }
    }
    zero
}
