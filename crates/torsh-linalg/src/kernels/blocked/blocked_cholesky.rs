//! The Cholesky decomposition, as `potrf`.

use std::borrow::Cow;

use torsh_backend_cpu::matmul::Strided;

use super::triangular::Block;
use super::{Blocked, Looped, Loops, Transpose, divide, line, subtract};
use crate::kernels::field::Field;
use crate::kernels::tuning::blocked::{CHOLESKY_COLUMNS, block};

/// The upper factor in place of the upper triangle of a row-major block, of adjacent rows.
struct Diagonal<'a, T> {
    u: &'a mut [T],
    n: usize,
}

impl<T: Field> Looped<T> for Diagonal<'_, T> {
    /// The first row whose pivot is not positive.
    type Output = Option<usize>;

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) -> Option<usize> {
        let Diagonal { u, n } = self;
        let mut factors = vec![T::ZERO; n];
        for i in 0..n {
            let (before, row) = u.split_at_mut(i * n);
            for (p, f) in factors[..i].iter_mut().enumerate() {
                *f = Field::conj(before[p * n + i]);
            }
            let known = before.get(i..).unwrap_or(&[]);
            o.combine(&mut row[i..n], known, n, &factors[..i]);
            let pivot = row[i].re();
            // Nan is not positive.
            if !(pivot > <T::R as Field>::ZERO) {
                return Some(i);
            }
            let root = T::of(num_traits::Float::sqrt(pivot));
            row[i] = root;
            divide(o, &mut row[i + 1..n], root);
        }
        None
    }
}

fn conjugate<T: Field>(a: &mut [T]) {
    if T::COMPLEX {
        a.iter_mut().for_each(|v| *v = Field::conj(*v));
    }
}

/// The factor in place of the lower triangle of row-major `a`, with zeros above: the order of the first leading minor that
/// is not positive, or 0.
pub(crate) fn cholesky<T: Blocked>(a: &mut [T], n: usize) -> i32 {
    let most = block(n, T::COMPLEX);
    let mut lines = vec![T::ZERO; most * line::<T>(n)];
    let mut u = vec![T::ZERO; most * most];
    let mut l = vec![T::ZERO; most * most];
    for j in (0..n).step_by(most) {
        let width = most.min(n - j);
        let (u, l) = (&mut u[..width * width], &mut l[..width * width]);
        let square = (width, width);
        T::looped(Transpose {
            from: (&a[j * n + j..], n),
            size: square,
            to: (u, width),
        });
        conjugate(u);
        if let Some(at) = T::looped(Diagonal { u, n: width }) {
            return (j + at + 1) as i32;
        }
        T::looped(Transpose {
            from: (u, width),
            size: square,
            to: (l, width),
        });
        conjugate(l);
        for (i, row) in l.chunks_exact_mut(width).enumerate() {
            row[i + 1..].fill(T::ZERO);
            a[(j + i) * n + j..][..width].copy_from_slice(row);
            a[(j + i) * n + j + width..(j + i + 1) * n].fill(T::ZERO);
        }
        let below = n - j - width;
        if below == 0 {
            continue;
        }
        // The rows below, as lines of their conjugate transpose.
        let ld = line::<T>(below);
        let lines = &mut lines[..width * ld];
        let rows = &mut a[(j + width) * n + j..];
        T::looped(Transpose {
            from: (rows, n),
            size: (below, width),
            to: (lines, ld),
        });
        conjugate(lines);
        Block {
            triangle: (l, width),
            upper: false,
            unit: false,
            b: (lines, ld),
            cols: below,
        }
        .solve();
        let transposed: Cow<'_, [T]> = match T::COMPLEX {
            false => Cow::Borrowed(lines),
            true => Cow::Owned(lines.iter().map(|v| Field::conj(*v)).collect()),
        };
        T::looped(Transpose {
            from: (&transposed, ld),
            size: (width, below),
            to: (rows, n),
        });
        for left in (0..below).step_by(CHOLESKY_COLUMNS) {
            let cols = (below - left).min(CHOLESKY_COLUMNS);
            let first = Strided {
                data: &transposed[left..],
                row: 1,
                col: ld,
            };
            let operands = (first, Strided::rows(&lines[left..], ld));
            let at = (j + width + left) * (n + 1);
            subtract((below - left, cols, width), operands, (&mut a[at..], n));
        }
    }
    0
}
