//! A symmetric matrix as `Q T Q^T` with a tridiagonal `T`, as `sytrd`.
//!
//! A block of reflectors is found with the rest of the matrix as it was before the block (J. Dongarra, S. Hammarling,
//! D. Sorensen, "Block reduction of matrices to condensed forms for eigenvalue computations", 1989), so that half of the
//! work is one product. The other half are products of the whole matrix and a vector: the matrix is kept with both
//! triangles, whose rows they read in order.

use super::panel::{Panel, Panels, reflector};
use super::{Blocked, Looped, Loops, gather, line, rows_times, subtract_outer};
use crate::kernels::field::{Field, Real};
use crate::kernels::tuning::blocked::{REFLECTORS, reflectors};

/// A tridiagonal matrix, and the reflectors that lead to it.
pub(crate) struct Tridiagonal<T: Field> {
    /// The diagonal.
    pub d: Vec<f64>,
    /// What is beside it.
    pub e: Vec<f64>,
    panels: Vec<Panel<T>>,
}

/// Brings a row up to date with the block's and makes its own of it.
struct Column<'a, T> {
    /// From the diagonal on.
    row: &'a mut [T],
    /// The lines `W` and then `V` of the block, `ld` apart.
    lines: &'a mut [T],
    ld: usize,
    width: usize,
    rows: usize,
    /// Which reflector of the block it is.
    p: usize,
}

impl<T: Real> Looped<T> for Column<'_, T> {
    /// The diagonal, what is beside it, and the factor of the reflector.
    type Output = (T, T, T);

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) -> (T, T, T) {
        let Column {
            row,
            lines,
            ld,
            width,
            rows,
            p,
        } = self;
        let (w, v) = lines.split_at_mut(width * ld);
        if p > 0 {
            let at = p - 1;
            let mut factors = [<T as Field>::ZERO; REFLECTORS];
            o.combine(row, &v[at..], ld, gather(&mut factors[..p], &w[at..], ld));
            o.combine(row, &w[at..], ld, gather(&mut factors[..p], &v[at..], ld));
        }
        let vector = &mut v[p * ld + p..p * ld + rows];
        vector.copy_from_slice(&row[1..]);
        let tau = reflector(o, vector);
        let beside = vector[0];
        vector[0] = <T as Field>::ONE;
        (row[0], beside, tau)
    }
}

/// Makes the line `W` of a reflector of what the matrix before the block made of its vector.
struct Correct<'a, T> {
    lines: &'a mut [T],
    ld: usize,
    width: usize,
    rows: usize,
    p: usize,
    tau: T,
}

impl<T: Real> Looped<T> for Correct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let Correct {
            lines,
            ld,
            width,
            rows,
            p,
            tau,
        } = self;
        let (w, v) = lines.split_at_mut(width * ld);
        let (known, rest) = w.split_at_mut(p * ld);
        let line = &mut rest[p..rows];
        let vector = &v[p * ld + p..p * ld + rows];
        if p > 0 {
            let mut dots = [<T as Field>::ZERO; 2 * REFLECTORS];
            let (with_w, with_v) = dots[..2 * p].split_at_mut(p);
            o.dots(with_w, &known[p..], ld, vector);
            o.dots(with_v, &v[p..], ld, vector);
            o.combine(line, &v[p..], ld, with_w);
            o.combine(line, &known[p..], ld, with_v);
        }
        o.scale(line, tau);
        let mut dot = [<T as Field>::ZERO];
        o.dots(&mut dot, line, 0, vector);
        let half = T::of_f64(0.5) * tau * dot[0];
        o.combine(line, vector, 0, &[half]);
    }
}

impl<T: Blocked + Real> Tridiagonal<T> {
    /// Reduces a row-major symmetric matrix of finite numbers, of which both triangles are given. The reflectors are kept
    /// where vectors are wanted.
    pub fn new(mut a: Vec<T>, n: usize, vectors: bool) -> Tridiagonal<T> {
        let mut out = Tridiagonal {
            d: vec![0.0; n],
            e: vec![0.0; n.saturating_sub(1)],
            panels: Vec::new(),
        };
        let most = reflectors(n);
        let mut panels = Panels::new(n, vectors);
        for first in (0..n.saturating_sub(1)).step_by(most) {
            let width = most.min(n - 1 - first);
            let rows = n - 1 - first;
            let ld = line::<T>(rows);
            let mut lines = vec![<T as Field>::ZERO; 2 * width * ld];
            for p in 0..width {
                let j = first + p;
                let (diagonal, beside, factor) = T::looped(Column {
                    row: &mut a[j * n + j..(j + 1) * n],
                    lines: &mut lines,
                    ld,
                    width,
                    rows,
                    p,
                });
                out.d[j] = diagonal.wide();
                out.e[j] = beside.wide();
                let (w, v) = lines.split_at_mut(width * ld);
                rows_times(
                    (&a[(j + 1) * (n + 1)..], n),
                    &v[p * ld + p..p * ld + rows],
                    &mut w[p * ld + p..p * ld + rows],
                );
                panels.push(j + 1, &v[p * ld + p..p * ld + rows], factor);
                T::looped(Correct {
                    lines: &mut lines,
                    ld,
                    width,
                    rows,
                    p,
                    tau: factor,
                });
            }
            // The rest of the matrix becomes itself without `V W^T + W V^T`.
            let (from, left) = (first + width, n - first - width);
            let (w, v) = lines.split_at(width * ld);
            let swapped = [v, w].concat();
            subtract_outer(
                (&swapped[width - 1..], &lines[width - 1..], (ld, ld)),
                (left, left, 2 * width),
                (&mut a[from * (n + 1)..], n),
            );
        }
        out.panels = panels.finish();
        if n > 0 {
            out.d[n - 1] = a[n * n - 1].wide();
        }
        out
    }

    /// Makes vectors, which are the rows of `z` and `ld` apart, the products of `Q` and themselves.
    pub fn apply(&self, z: &mut [T], ld: usize, vectors: usize) {
        for panel in self.panels.iter().rev() {
            panel.apply_to_rows(&mut z[panel.first..], ld, vectors);
        }
    }
}
