//! Householder reflectors, and products of some of them.
//!
//! The product of a block's reflectors is `1 - V T V^H` (R. Schreiber, C. Van Loan, "A storage-efficient WY representation
//! for products of Householder transformations", 1989), which is applied to a matrix by two large products.

use num_traits::Float;
use torsh_backend_cpu::matmul::Strided;

use super::{Blocked, Looped, Loops, divide, line, product, subtract};
use crate::kernels::field::{Field, Real, norm};
use crate::kernels::small::{Householder, householder};
use crate::kernels::tuning::blocked::PANEL;

/// Reflectors that are applied at once.
pub(super) struct Panel<T> {
    /// The row that the first one begins in.
    pub(super) first: usize,
    pub(super) width: usize,
    /// The vectors, `ld` apart, from that row on: 0 above the diagonal, 1 on it.
    pub(super) v: Vec<T>,
    /// Their conjugates, of complex numbers.
    pub(super) conjugates: Vec<T>,
    pub(super) ld: usize,
    pub(super) rows: usize,
    /// The upper triangular `T`, row-major.
    pub(super) t: Vec<T>,
}

/// A reflector as `larfg` makes it: the first number becomes the remaining one, the others the vector without its leading
/// 1. Returns `tau`.
#[inline(always)]
pub(super) fn reflector<T: Field, O: Loops<T>>(o: O, c: &mut [T]) -> T {
    let alpha = c[0];
    let tail = &mut c[1..];
    let mut square = [T::ZERO];
    o.dots(&mut square, tail, 0, tail);
    let square = square[0].re();
    // A sum of squares that is too small has lost digits.
    let least = <T::R as Float>::min_positive_value() / (T::R::EPS * T::R::EPS);
    let below = match square > least {
        true => Float::sqrt(square),
        false => norm(tail.iter().copied()),
    };
    let Some(Householder { beta, tau, by }) = householder(alpha, below) else {
        return T::ZERO;
    };
    divide(o, tail, by);
    c[0] = T::of(beta);
    tau
}

/// The upper triangular `T` of reflectors.
struct Triangle<'a, T> {
    v: &'a [T],
    ld: usize,
    rows: usize,
    tau: &'a [T],
    t: &'a mut [T],
}

impl<T: Field> Looped<T> for Triangle<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let width = self.tau.len();
        let (mut dots, mut line) = (vec![T::ZERO; width], vec![T::ZERO; width]);
        // The transpose: what it is made of are its own lines.
        let mut lines = vec![T::ZERO; width * width];
        for (j, &tau) in self.tau.iter().enumerate() {
            let column = &self.v[j * self.ld..][..self.rows];
            o.dots(&mut dots[..j], self.v, self.ld, column);
            line.fill(T::ZERO);
            o.combine(&mut line, &lines, width, &dots[..j]);
            o.scale(&mut line, tau);
            line[j] = tau;
            lines[j * width..][..width].copy_from_slice(&line);
        }
        o.transpose((&lines, width), (width, width), (self.t, width));
    }
}

/// Panels that grow reflector by reflector.
pub(super) struct Panels<T> {
    /// Whether they are kept at all.
    wanted: bool,
    done: Vec<Panel<T>>,
    /// The rows of the whole matrix.
    rows: usize,
    /// The row that the first reflector of the next panel begins in.
    first: usize,
    ld: usize,
    v: Vec<T>,
    tau: Vec<T>,
}

impl<T: Blocked> Panels<T> {
    /// For vectors of up to `rows` numbers, which are kept where they are wanted.
    pub(super) fn new(rows: usize, wanted: bool) -> Panels<T> {
        Panels {
            wanted,
            done: Vec::new(),
            rows,
            first: 0,
            ld: 0,
            v: Vec::new(),
            tau: Vec::new(),
        }
    }

    /// Adds a reflector whose vector begins in a row, after those of the reflectors before it.
    pub(super) fn push(&mut self, row: usize, vector: &[T], tau: T) {
        if !self.wanted {
            return;
        }
        if self.tau.is_empty() {
            self.first = row;
            self.ld = line::<T>(self.rows - row);
            self.v = vec![T::ZERO; PANEL.min(self.rows - row) * self.ld];
        }
        let to = &mut self.v[self.tau.len() * self.ld + row - self.first..];
        to[..vector.len()].copy_from_slice(vector);
        self.tau.push(tau);
        if self.tau.len() == PANEL.min(self.rows - self.first) {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.tau.is_empty() {
            let v = (std::mem::take(&mut self.v), self.ld);
            let rows = self.rows - self.first;
            self.done.push(Panel::new(self.first, rows, v, &self.tau));
            self.tau.clear();
        }
    }

    /// All of them.
    pub(super) fn finish(mut self) -> Vec<Panel<T>> {
        self.close();
        self.done
    }
}

impl<T: Blocked> Panel<T> {
    /// The product of the reflectors `1 - tau v v^H` whose vectors of `rows` numbers are `ld` apart in `v`, and begin in
    /// the row `first`.
    pub(super) fn new(first: usize, rows: usize, (v, ld): (Vec<T>, usize), tau: &[T]) -> Panel<T> {
        let width = tau.len();
        let mut t = vec![T::ZERO; width * width];
        T::looped(Triangle {
            v: &v,
            ld,
            rows,
            tau,
            t: &mut t,
        });
        let mut panel = Panel {
            first,
            width,
            v,
            conjugates: Vec::new(),
            ld,
            rows,
            t,
        };
        panel.conjugate();
        panel
    }

    /// Keeps the conjugates of complex vectors.
    pub(super) fn conjugate(&mut self) {
        if T::COMPLEX {
            self.conjugates = self.v.iter().map(|v| Field::conj(*v)).collect();
        }
    }

    /// Multiplies the rows from `first` on of some columns of row-major `c`, whose rows are `ld` apart, by the product of
    /// the reflectors or its adjoint. `c` begins in the row `first`, at the first column.
    pub(super) fn apply(&self, c: &mut [T], ld: usize, cols: usize, adjoint: bool) {
        let (rows, width) = (self.rows, self.width);
        let data = if T::COMPLEX {
            &self.conjugates
        } else {
            &self.v
        };
        let v = Strided::rows(data, self.ld);
        let dots = product((width, cols, rows), (v, Strided::rows(c, ld)));
        let t: Vec<T> = match adjoint {
            false => self.t.clone(),
            true => (0..width * width)
                .map(|i| Field::conj(self.t[i % width * width + i / width]))
                .collect(),
        };
        let operands = (Strided::rows(&t, width), Strided::rows(&dots, cols));
        let factors = product((width, cols, width), operands);
        let v = Strided::rows(&self.v, self.ld).t();
        let operands = (v, Strided::rows(&factors, cols));
        subtract((rows, cols, width), operands, (c, ld));
    }

    /// Multiplies vectors, which are the rows of `c` and `ld` apart, by the product of the reflectors. Of each it is given the
    /// part from the row `first` of the reflectors on. The numbers are real.
    pub(super) fn apply_to_rows(&self, c: &mut [T], ld: usize, vectors: usize) {
        debug_assert!(!T::COMPLEX);
        let (rows, width) = (self.rows, self.width);
        let operands = (Strided::rows(c, ld), Strided::rows(&self.v, self.ld).t());
        let dots = product((vectors, width, rows), operands);
        let operands = (
            Strided::rows(&dots, width),
            Strided::rows(&self.t, width).t(),
        );
        let factors = product((vectors, width, width), operands);
        let operands = (
            Strided::rows(&factors, width),
            Strided::rows(&self.v, self.ld),
        );
        subtract((vectors, rows, width), operands, (c, ld));
    }
}
