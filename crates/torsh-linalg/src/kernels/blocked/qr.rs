//! QR by Householder reflectors, as `geqrf`, `orgqr` and `ormqr`.
//!
//! The product of a block's reflectors is `1 - V T V^H` (R. Schreiber, C. Van Loan, "A storage-efficient WY representation
//! for products of Householder transformations", 1989), which is applied to a matrix by two large products.

use num_traits::Float;
use torsh_backend_cpu::matmul::Strided;

use super::{
    Blocked, Looped, Loops, add_product, block, divide, line, solve_triangular, square_product,
    subtract,
};
use crate::kernels::factor::scale_slice;
use crate::kernels::field::{Field, Real, norm};
use crate::kernels::small::{Householder, householder};

/// Reflectors that are applied at once.
struct Panel<T> {
    /// The row that the first one begins in.
    first: usize,
    width: usize,
    /// The vectors, `ld` apart, from that row on: 0 above the diagonal, 1 on it.
    v: Vec<T>,
    /// Their conjugates, of complex numbers.
    conjugates: Vec<T>,
    ld: usize,
    rows: usize,
    /// The upper triangular `T`, row-major.
    t: Vec<T>,
}

/// A QR decomposition: `R`, and `Q` as a product of reflectors.
pub(crate) struct Reflectors<T: Field> {
    /// `R` on and above the diagonal, row-major; what is below says nothing.
    a: Vec<T>,
    m: usize,
    n: usize,
    panels: Vec<Panel<T>>,
    /// What `R` is to be multiplied with.
    pub(crate) scale: T::R,
}

/// Decomposes the columns of a panel.
struct Decompose<'a, T> {
    /// The columns, `ld` apart; the reflectors' vectors afterwards.
    v: &'a mut [T],
    ld: usize,
    rows: usize,
    width: usize,
    t: &'a mut [T],
    /// The upper triangle of `R`, row-major.
    r: &'a mut [T],
}

impl<T: Field> Looped<T> for Decompose<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        let Decompose {
            v,
            ld,
            rows,
            width,
            t,
            r,
        } = self;
        let (mut dots, mut factors) = (vec![T::ZERO; width], vec![T::ZERO; width]);
        for j in 0..width {
            let (known, rest) = v.split_at_mut(j * ld);
            let column = &mut rest[..rows];
            // What the reflectors before it make of the column: `c - V T^H V^H c`.
            o.dots(&mut dots[..j], known, ld, column);
            for p in 0..j {
                let of = (0..=p).map(|q| Field::conj(t[q * width + p]) * dots[q]);
                factors[p] = of.sum();
            }
            o.combine(column, known, ld, &factors[..j]);
            for (p, c) in column[..j].iter_mut().enumerate() {
                r[p * width + j] = *c;
                *c = T::ZERO;
            }
            let tau = reflector(o, &mut column[j..]);
            r[j * width + j] = column[j];
            column[j] = T::ONE;
            o.dots(&mut dots[..j], known, ld, column);
            for p in 0..j {
                let of = (p..j).map(|q| t[p * width + q] * dots[q]);
                t[p * width + j] = of.sum::<T>() * -tau;
            }
            t[j * width + j] = tau;
        }
    }
}

/// A reflector as `larfg` makes it: the first number becomes the remaining one, the others the vector without its leading
/// 1. Returns `tau`.
#[inline(always)]
fn reflector<T: Field, O: Loops<T>>(o: O, c: &mut [T]) -> T {
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

impl<T: Blocked> Panel<T> {
    /// Decomposes the columns `first..first + width` of row-major `a` from the row `first` on, and leaves their part of `R`
    /// in it.
    fn new(a: &mut [T], (m, n): (usize, usize), first: usize, width: usize) -> Panel<T> {
        let rows = m - first;
        let ld = line::<T>(rows);
        let mut panel = Panel {
            first,
            width,
            v: vec![T::ZERO; width * ld],
            conjugates: Vec::new(),
            ld,
            rows,
            t: vec![T::ZERO; width * width],
        };
        T::looped(super::Transpose {
            from: (&a[first * n + first..], n),
            size: (rows, width),
            to: (&mut panel.v, ld),
        });
        let mut r = vec![T::ZERO; width * width];
        T::looped(Decompose {
            v: &mut panel.v,
            ld,
            rows,
            width,
            t: &mut panel.t,
            r: &mut r,
        });
        for (i, r) in r.chunks_exact(width).enumerate() {
            a[(first + i) * n + first + i..][..width - i].copy_from_slice(&r[i..]);
        }
        if T::COMPLEX {
            panel.conjugates = panel.v.iter().map(|v| Field::conj(*v)).collect();
        }
        panel
    }

    /// Multiplies the rows from `first` on of some columns of row-major `c`, whose rows are `ld` apart, by the product of
    /// the reflectors or its adjoint. `c` begins in the row `first`, at the first column.
    fn apply(&self, c: &mut [T], ld: usize, cols: usize, adjoint: bool) {
        let (rows, width) = (self.rows, self.width);
        let data = if T::COMPLEX {
            &self.conjugates
        } else {
            &self.v
        };
        let mut dots = vec![T::ZERO; width * cols];
        let v = Strided::rows(data, self.ld);
        let operands = (v, Strided::rows(c, ld));
        add_product((width, cols, rows), operands, (&mut dots, cols));
        let t: Vec<T> = match adjoint {
            false => self.t.clone(),
            true => (0..width * width)
                .map(|i| Field::conj(self.t[i % width * width + i / width]))
                .collect(),
        };
        let mut factors = vec![T::ZERO; width * cols];
        let operands = (Strided::rows(&t, width), Strided::rows(&dots, cols));
        add_product((width, cols, width), operands, (&mut factors, cols));
        let v = Strided::rows(&self.v, self.ld).t();
        let operands = (v, Strided::rows(&factors, cols));
        subtract((rows, cols, width), operands, (c, ld));
    }
}

impl<T: Blocked> Reflectors<T> {
    /// Decomposes row-major `a` of finite numbers.
    pub fn new(mut a: Vec<T>, m: usize, n: usize) -> Reflectors<T> {
        let scale = scale_slice(&mut a);
        let k = m.min(n);
        let most = block::<T>(k);
        let mut panels = Vec::with_capacity(k.div_ceil(most));
        for first in (0..k).step_by(most) {
            let width = most.min(k - first);
            let panel = Panel::new(&mut a, (m, n), first, width);
            let right = first + width;
            if right < n {
                panel.apply(&mut a[first * n + right..], n, n - right, true);
            }
            panels.push(panel);
        }
        Reflectors {
            a,
            m,
            n,
            panels,
            scale,
        }
    }

    /// `R[i, j]` without the scale, for `i` up to `j`.
    pub fn r(&self, i: usize, j: usize) -> T {
        self.a[i * self.n + j]
    }

    /// `R` and the step between its rows; below the diagonal is nothing of use.
    pub fn r_rows(&self) -> (&[T], usize) {
        (&self.a, self.n)
    }

    /// The inverse of `R` of a matrix with no fewer rows than columns, row-major, and a bound of the 2-norm of `R`; both
    /// without the scale. Nothing where the inverse overflows.
    pub fn inverse(&self) -> Option<(Vec<T>, T::R)> {
        let k = self.n;
        let mut inverse = vec![T::ZERO; k * k];
        (0..k).for_each(|i| inverse[i * k + i] = T::ONE);
        solve_triangular(
            self.r_rows(),
            (true, false),
            (false, false),
            &mut inverse,
            k,
            k,
        );
        if !Float::is_finite(norm(inverse.iter().copied())) {
            return None;
        }
        // The sum of the fourth powers of the singular values is that of the squares of R^H R.
        let upper = |i: usize, j: usize| if i <= j { self.r(i, j) } else { T::ZERO };
        let r: Vec<T> = (0..k * k).map(|i| upper(i / k, i % k)).collect();
        let adjoint: Vec<T> = (0..k * k)
            .map(|i| Field::conj(upper(i % k, i / k)))
            .collect();
        let square = square_product(k, &adjoint, &r);
        Some((inverse, Float::sqrt(norm(square.iter().copied()))))
    }

    /// Multiplies row-major `c` of `cols` columns by `Q` or its adjoint from the left.
    pub fn apply(&self, c: &mut [T], cols: usize, adjoint: bool) {
        let one = |panel: &Panel<T>, c: &mut [T]| {
            panel.apply(&mut c[panel.first * cols..], cols, cols, adjoint);
        };
        match adjoint {
            true => self.panels.iter().for_each(|panel| one(panel, c)),
            false => self.panels.iter().rev().for_each(|panel| one(panel, c)),
        }
    }

    /// Writes the first `cols` columns of `Q`, row-major.
    pub fn q(&self, q: &mut [T], cols: usize) {
        q.fill(T::ZERO);
        for i in 0..self.m.min(cols) {
            q[i * cols + i] = T::ONE;
        }
        // The columns before a panel's are still those of the identity, which it leaves as they are.
        for panel in self.panels.iter().rev() {
            let at = panel.first;
            panel.apply(&mut q[at * cols + at..], cols, cols - at, false);
        }
    }
}
