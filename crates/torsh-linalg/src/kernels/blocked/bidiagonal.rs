//! A matrix of no fewer rows than columns as `Q B P^T` with an upper bidiagonal `B`, as `gebrd`.
//!
//! A block of reflectors is found with the rest of the matrix as it was before the block, as in
//! [`tridiagonal`](super::tridiagonal), so that half of the work is one product.

use super::panel::{Panel, Panels, reflector};
use super::{
    Blocked, Looped, Loops, gather, line, minus_combined_rows, rows_times, subtract_outer,
};
use crate::kernels::field::{Field, Real};
use crate::kernels::tuning::blocked::{REFLECTORS, reflectors};

/// A bidiagonal matrix, and the reflectors that lead to it.
pub(crate) struct Bidiagonal<T: Field> {
    /// The diagonal.
    pub d: Vec<f64>,
    /// What is above it.
    pub e: Vec<f64>,
    left: Vec<Panel<T>>,
    right: Vec<Panel<T>>,
}

/// The lines of a block: the matrix has become itself without `U Y^T + X V^T`.
struct Lines<T> {
    /// `U` and then `X`, `tall` apart, from the block's first row on.
    ux: Vec<T>,
    tall: usize,
    rows: usize,
    /// `Y` and then `V`, `wide` apart, from the column after the block's first on.
    yv: Vec<T>,
    wide: usize,
    cols: usize,
    width: usize,
}

/// The vector of a left reflector, of a column that is brought up to date.
struct Left<'a, T> {
    lines: &'a mut Lines<T>,
    p: usize,
}

impl<T: Real> Looped<T> for Left<'_, T> {
    /// The diagonal and the factor of the reflector.
    type Output = (T, T);

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) -> (T, T) {
        let p = self.p;
        let Lines {
            ux,
            tall,
            rows,
            yv,
            wide,
            width,
            ..
        } = self.lines;
        let (u, x) = ux.split_at_mut(*width * *tall);
        let (known, rest) = u.split_at_mut(p * *tall);
        let column = &mut rest[p..*rows];
        if p > 0 {
            let (y, v) = yv.split_at(*width * *wide);
            let mut factors = [<T as Field>::ZERO; REFLECTORS];
            let of_y = gather(&mut factors[..p], &y[p - 1..], *wide);
            o.combine(column, &known[p..], *tall, of_y);
            let of_v = gather(&mut factors[..p], &v[p - 1..], *wide);
            o.combine(column, &x[p..], *tall, of_v);
        }
        let tau = reflector(o, column);
        let diagonal = column[0];
        column[0] = <T as Field>::ONE;
        (diagonal, tau)
    }
}

/// The line `Y` of a left reflector, and the vector of the right one.
struct Right<'a, T> {
    lines: &'a mut Lines<T>,
    p: usize,
    tau: T,
    /// The row of the matrix, from the column after the diagonal on.
    row: &'a [T],
}

impl<T: Real> Looped<T> for Right<'_, T> {
    /// What is above the diagonal and the factor of the reflector.
    type Output = (T, T);

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) -> (T, T) {
        let Right {
            lines,
            p,
            tau,
            row: of_matrix,
        } = self;
        let Lines {
            ux,
            tall,
            rows,
            yv,
            wide,
            cols,
            width,
        } = lines;
        let (u, x) = ux.split_at(*width * *tall);
        let (y, v) = yv.split_at_mut(*width * *wide);
        let (known_y, rest) = y.split_at_mut(p * *wide);
        let line = &mut rest[p..*cols];
        let (known_v, rest) = v.split_at_mut(p * *wide);
        let row = &mut rest[p..*cols];
        // It holds minus the product of the matrix's adjoint and the vector.
        o.scale(line, -<T as Field>::ONE);
        if p > 0 {
            let vector = &u[p * *tall + p..p * *tall + *rows];
            let mut dots = [<T as Field>::ZERO; 2 * REFLECTORS];
            let (with_u, with_x) = dots[..2 * p].split_at_mut(p);
            o.dots(with_u, &u[p..], *tall, vector);
            o.dots(with_x, &x[p..], *tall, vector);
            o.combine(line, &known_y[p..], *wide, with_u);
            o.combine(line, &known_v[p..], *wide, with_x);
        }
        o.scale(line, tau);
        row.copy_from_slice(of_matrix);
        // The reflector's own vector has a 1 there.
        o.combine(row, line, 0, &[<T as Field>::ONE]);
        if p > 0 {
            let mut factors = [<T as Field>::ZERO; REFLECTORS];
            let of_u = gather(&mut factors[..p], &u[p..], *tall);
            o.combine(row, &known_y[p..], *wide, of_u);
            let of_x = gather(&mut factors[..p], &x[p..], *tall);
            o.combine(row, &known_v[p..], *wide, of_x);
        }
        let tau = reflector(o, row);
        let above = row[0];
        row[0] = <T as Field>::ONE;
        (above, tau)
    }
}

/// Makes the line `X` of a right reflector of what the matrix before the block made of its vector.
struct Correct<'a, T> {
    lines: &'a mut Lines<T>,
    p: usize,
    tau: T,
}

impl<T: Real> Looped<T> for Correct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let (p, at) = (self.p, self.p + 1);
        let Lines {
            ux,
            tall,
            rows,
            yv,
            wide,
            cols,
            width,
        } = self.lines;
        let (u, x) = ux.split_at_mut(*width * *tall);
        let (known, rest) = x.split_at_mut(p * *tall);
        let line = &mut rest[at..*rows];
        let (y, v) = yv.split_at(*width * *wide);
        let vector = &v[p * *wide + p..p * *wide + *cols];
        let mut dots = [<T as Field>::ZERO; 2 * REFLECTORS];
        let (with_y, with_v) = dots[..2 * p + 1].split_at_mut(p + 1);
        o.dots(with_y, &y[p..], *wide, vector);
        o.dots(with_v, &v[p..], *wide, vector);
        o.combine(line, &u[at..], *tall, with_y);
        if p > 0 {
            o.combine(line, &known[at..], *tall, with_v);
        }
        o.scale(line, self.tau);
    }
}

impl<T: Blocked + Real> Bidiagonal<T> {
    /// Reduces row-major `a` of finite numbers, of no fewer rows than columns. The reflectors are kept where vectors are
    /// wanted.
    pub fn new(mut a: Vec<T>, (m, n): (usize, usize), vectors: bool) -> Bidiagonal<T> {
        let mut out = Bidiagonal {
            d: vec![0.0; n],
            e: vec![0.0; n.saturating_sub(1)],
            left: Vec::new(),
            right: Vec::new(),
        };
        let most = reflectors(n);
        let (mut left, mut right) = (Panels::new(m, vectors), Panels::new(n, vectors));
        for first in (0..n).step_by(most) {
            let width = most.min(n - first);
            let (rows, cols) = (m - first, n - first - 1);
            let (tall, wide) = (line::<T>(rows), line::<T>(cols.max(1)));
            let mut lines = Lines {
                ux: vec![<T as Field>::ZERO; 2 * width * tall],
                tall,
                rows,
                yv: vec![<T as Field>::ZERO; 2 * width * wide],
                wide,
                cols,
                width,
            };
            for p in 0..width {
                let j = first + p;
                let column = &mut lines.ux[p * tall + p..p * tall + rows];
                for (to, row) in column.iter_mut().zip(a[j * n..].chunks_exact(n)) {
                    *to = row[j];
                }
                let (diagonal, tau) = T::looped(Left {
                    lines: &mut lines,
                    p,
                });
                out.d[j] = diagonal.wide();
                left.push(j, &lines.ux[p * tall + p..p * tall + rows], tau);
                if j + 1 == n {
                    break;
                }
                minus_combined_rows(
                    (&a[j * n + j + 1..], n),
                    &lines.ux[p * tall + p..p * tall + rows],
                    &mut lines.yv[p * wide + p..p * wide + cols],
                );
                let (above, tau) = T::looped(Right {
                    lines: &mut lines,
                    p,
                    tau,
                    row: &a[j * n + j + 1..(j + 1) * n],
                });
                out.e[j] = above.wide();
                let vector = &lines.yv[(width + p) * wide + p..(width + p) * wide + cols];
                right.push(j + 1, vector, tau);
                rows_times(
                    (&a[(j + 1) * n + j + 1..], n),
                    &lines.yv[(width + p) * wide + p..(width + p) * wide + cols],
                    &mut lines.ux[(width + p) * tall + p + 1..(width + p) * tall + rows],
                );
                T::looped(Correct {
                    lines: &mut lines,
                    p,
                    tau,
                });
            }
            let from = first + width;
            if from < n {
                subtract_outer(
                    (&lines.ux[width..], &lines.yv[width - 1..], (tall, wide)),
                    (m - from, n - from, 2 * width),
                    (&mut a[from * (n + 1)..], n),
                );
            }
        }
        out.left = left.finish();
        out.right = right.finish();
        out
    }

    /// Makes vectors, which are the rows of `z` and `ld` apart, the products of `Q` and themselves.
    pub fn apply_left(&self, z: &mut [T], ld: usize, vectors: usize) {
        for panel in self.left.iter().rev() {
            panel.apply_to_rows(&mut z[panel.first..], ld, vectors);
        }
    }

    /// Makes vectors, which are the rows of `z` and `ld` apart, the products of `P` and themselves.
    pub fn apply_right(&self, z: &mut [T], ld: usize, vectors: usize) {
        for panel in self.right.iter().rev() {
            panel.apply_to_rows(&mut z[panel.first..], ld, vectors);
        }
    }
}
