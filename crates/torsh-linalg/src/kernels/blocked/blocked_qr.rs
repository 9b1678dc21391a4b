//! QR by Householder reflectors, as `geqrf`, `orgqr` and `ormqr`.

use num_traits::Float;

use super::panel::{Panel, reflector};
use super::{Blocked, Looped, Loops, line, solve_triangular, square_product};
use crate::kernels::field::{Field, norm};
use crate::kernels::matrix_factor::scale_slice;
use crate::kernels::tuning::blocked::block;

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

impl<T: Blocked> Panel<T> {
    /// Decomposes the columns `first..first + width` of row-major `a` from the row `first` on, and leaves their part of `R`
    /// in it.
    fn decompose(a: &mut [T], (m, n): (usize, usize), first: usize, width: usize) -> Panel<T> {
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
        panel.conjugate();
        panel
    }
}

impl<T: Blocked> Reflectors<T> {
    /// Decomposes row-major `a` of finite numbers.
    pub fn new(mut a: Vec<T>, m: usize, n: usize) -> Reflectors<T> {
        let scale = scale_slice(&mut a);
        let k = m.min(n);
        let most = block(k, T::COMPLEX);
        let mut panels = Vec::with_capacity(k.div_ceil(most));
        for first in (0..k).step_by(most) {
            let width = most.min(k - first);
            let panel = Panel::decompose(&mut a, (m, n), first, width);
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

    /// Makes vectors, which are the rows of `c` and `ld` apart, the products of `Q` and themselves. The numbers are real.
    pub fn apply_to_rows(&self, c: &mut [T], ld: usize, vectors: usize) {
        for panel in self.panels.iter().rev() {
            panel.apply_to_rows(&mut c[panel.first..], ld, vectors);
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
