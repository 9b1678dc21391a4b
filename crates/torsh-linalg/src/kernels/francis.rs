//! Eigenvalues and eigenvectors of one real matrix in float64, as `hqr2` of EISPACK (B. Smith and others, "Matrix Eigensystem
//! Routines", 1976): a Hessenberg matrix, Francis' double steps, and back-substitution.
//!
//! The orthogonal matrix and the eigenvectors lie transposed, so that all but the columns of the Hessenberg matrix is done
//! to neighbouring numbers, in vectors.

use super::blocked::Blocked;
use super::blocked::{Looped, Loops, square_product};
use super::field::{Field, norm};
use super::small::{Householder, householder};

/// Double steps that an eigenvalue may take; three are usual.
const STEPS: usize = 60;

/// After so many double steps without success, and as many again, another shift breaks what may go round in a circle.
const EXCEPTIONAL: usize = 10;

/// The quasi-triangular matrix that a matrix is reduced to, and what reduced it.
pub(crate) struct Schur {
    n: usize,
    /// Row-major; blocks of two rows on the diagonal have complex eigenvalues.
    h: Vec<f64>,
    /// The transpose of the orthogonal matrix, row-major, where eigenvectors are wanted; else nothing.
    v: Vec<f64>,
    /// The real and imaginary parts of the eigenvalues; of a pair, the one with the positive imaginary part is first.
    pub values: Vec<(f64, f64)>,
}

/// What a reflector `1 - (1, q, r)^T (x, y, z)` of a double step does.
#[derive(Clone, Copy)]
struct Step {
    q: f64,
    r: f64,
    x: f64,
    y: f64,
    z: f64,
}

impl Step {
    /// What it does to three numbers, from the left.
    #[inline(always)]
    fn rows(self, [a, b, c]: [f64; 3]) -> [f64; 3] {
        let p = a + self.q * b + self.r * c;
        [a - p * self.x, b - p * self.y, c - p * self.z]
    }

    /// What it does to three numbers, from the right.
    #[inline(always)]
    fn columns(self, [a, b, c]: [f64; 3]) -> [f64; 3] {
        let p = self.x * a + self.y * b + self.z * c;
        [a - p, b - p * self.q, c - p * self.r]
    }

    /// Combines three lines by `f`, or two of them where there is no third.
    #[inline(always)]
    fn lines(lines: &mut [f64], n: usize, from: usize, f: impl Fn([f64; 3]) -> [f64; 3]) {
        let (a, rest) = lines.split_at_mut(n);
        let (b, c) = rest.split_at_mut(n);
        let pair = a[from..].iter_mut().zip(&mut b[from..]);
        if c.is_empty() {
            pair.for_each(|(a, b)| [*a, *b, _] = f([*a, *b, 0.0]));
        } else {
            pair.zip(&mut c[from..])
                .for_each(|((a, b), c)| [*a, *b, *c] = f([*a, *b, *c]));
        }
    }
}

/// The quotient of complex numbers.
#[inline(always)]
fn quotient(re: f64, im: f64, by_re: f64, by_im: f64) -> (f64, f64) {
    use num_complex::Complex;
    let q = Complex::new(re, im).over(Complex::new(by_re, by_im));
    (q.re, q.im)
}

/// Reduces a matrix in the instruction set's loops.
struct Reduce<'a>(&'a mut Schur);

impl Looped<f64> for Reduce<'_> {
    /// Whether it converged.
    type Output = bool;

    #[inline(always)]
    fn run<O: Loops<f64>>(self, o: O) -> bool {
        self.0.hessenberg(o);
        self.0.iterate()
    }
}

/// Finds the eigenvectors in the basis of the quasi-triangular matrix.
struct Substitute<'a> {
    schur: &'a Schur,
    /// The vectors, row by row.
    x: &'a mut [f64],
}

impl Looped<f64> for Substitute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<f64>>(self, o: O) {
        let schur = self.schur;
        let n = schur.n;
        // What divides instead of 0; any number will do for a matrix of zeros.
        let size: f64 = schur.h.iter().map(|v| v.abs()).sum();
        let size = if size > 0.0 { size } else { 1.0 };
        for k in 0..n {
            match schur.values[k].1 {
                0.0 => schur.real_vector(o, k, &mut self.x[k * n..][..n], size),
                q if q < 0.0 => {
                    let (re, im) = self.x[(k - 1) * n..(k + 1) * n].split_at_mut(n);
                    schur.complex_vector(o, k, (re, im), size);
                }
                _ => {}
            }
        }
    }
}

/// The inner product of neighbouring numbers.
#[inline(always)]
fn dot<O: Loops<f64>>(o: O, a: &[f64], b: &[f64]) -> f64 {
    let mut out = [0.0];
    o.dots(&mut out, a, 0, b);
    out[0]
}

/// Multiplies lines from a column on by the reflector `1 - by u^T`, from the left.
#[inline(always)]
fn reflect_lines<O: Loops<f64>>(
    o: O,
    (lines, n): (&mut [f64], usize),
    from: usize,
    (u, by): (&[f64], &[f64]),
    sum: &mut [f64],
) {
    let sum = &mut sum[from..];
    sum.fill(0.0);
    // Subtracts.
    o.combine(sum, &lines[from..], n, u);
    for (line, by) in lines.chunks_exact_mut(n).zip(by) {
        o.combine(&mut line[from..], sum, 0, &[-by]);
    }
}

/// Divides the numbers from `i` on where their squares are so large that the next ones might overflow.
#[inline(always)]
fn bound<const W: usize>(i: usize, k: usize, x: [&mut [f64]; W]) {
    let most = x.iter().fold(0.0, |most: f64, x| most.max(x[i].abs()));
    if f64::EPSILON * most * most > 1.0 {
        for x in x {
            x[i..=k].iter_mut().for_each(|v| *v /= most);
        }
    }
}

impl Schur {
    /// Reduces a row-major matrix of finite numbers; nothing where it does not converge.
    pub fn new(a: Vec<f64>, n: usize, vectors: bool) -> Option<Schur> {
        let mut v = vec![0.0; if vectors { n * n } else { 0 }];
        v.iter_mut().step_by(n + 1).for_each(|v| *v = 1.0);
        let mut schur = Schur {
            n,
            h: a,
            v,
            values: vec![(0.0, 0.0); n],
        };
        f64::looped(Reduce(&mut schur)).then_some(schur)
    }

    /// The eigenvectors, row by row: a pair of rows is the real and the imaginary part of that of the first value of a pair.
    pub fn vectors(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.n * self.n];
        f64::looped(Substitute {
            schur: self,
            x: &mut x,
        });
        // From the basis of the triangular matrix to that of the matrix.
        square_product(self.n, &x, &self.v)
    }

    /// Makes the numbers below the first ones under the diagonal 0.
    #[inline(always)]
    fn hessenberg<O: Loops<f64>>(&mut self, o: O) {
        let n = self.n;
        let (mut u, mut by, mut sum) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for m in 1..n.saturating_sub(1) {
            let column = |i: usize| self.h[i * n + m - 1];
            let below = norm((m + 1..n).map(column));
            let Some(Householder {
                beta,
                tau,
                by: over,
            }) = householder(column(m), below)
            else {
                continue;
            };
            let (u, by) = (&mut u[m..], &mut by[m..]);
            u[0] = 1.0;
            for (i, u) in u.iter_mut().enumerate().skip(1) {
                *u = self.h[(m + i) * n + m - 1] / over;
                self.h[(m + i) * n + m - 1] = 0.0;
            }
            self.h[m * n + m - 1] = beta;
            by.iter_mut().zip(&*u).for_each(|(by, u)| *by = tau * u);
            reflect_lines(o, (&mut self.h[m * n..], n), m, (u, by), &mut sum);
            if !self.v.is_empty() {
                reflect_lines(o, (&mut self.v[m * n..], n), 0, (u, by), &mut sum);
            }
            for row in self.h.chunks_exact_mut(n) {
                let product = dot(o, &row[m..], u);
                o.combine(&mut row[m..], u, 0, &[tau * product]);
            }
        }
    }

    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> f64 {
        self.h[i * self.n + j]
    }

    /// Splits eigenvalues off from the end on. Whether all were.
    #[inline(always)]
    fn iterate(&mut self) -> bool {
        let n = self.n;
        let size: f64 = self.h.iter().map(|v| v.abs()).sum();
        let mut shifted = 0.0;
        let mut steps = 0;
        let mut left = n;
        while left > 0 {
            let end = left - 1;
            let mut l = end;
            while l > 0 {
                let near = self.at(l - 1, l - 1).abs() + self.at(l, l).abs();
                let near = if near == 0.0 { size } else { near };
                if self.at(l, l - 1).abs() <= f64::EPSILON * near {
                    self.h[l * n + l - 1] = 0.0;
                    break;
                }
                l -= 1;
            }
            match end - l {
                0 => {
                    self.h[end * n + end] += shifted;
                    self.values[end] = (self.at(end, end), 0.0);
                }
                1 => {
                    self.h[end * n + end] += shifted;
                    self.h[l * n + l] += shifted;
                    self.two(l);
                }
                _ => {
                    if steps == STEPS {
                        return false;
                    }
                    steps += 1;
                    self.double_step(l, end, steps, &mut shifted);
                    continue;
                }
            }
            (left, steps) = (l, 0);
        }
        true
    }

    /// Rotates the rows and columns `i` and `i + 1`.
    #[inline(always)]
    fn rotate(&mut self, i: usize, c: f64, s: f64) {
        let n = self.n;
        let turn = |[a, b, _]: [f64; 3]| [c * a + s * b, c * b - s * a, 0.0];
        Step::lines(&mut self.h[i * n..(i + 2) * n], n, i, turn);
        for row in self.h.chunks_exact_mut(n).take(i + 2) {
            [row[i], row[i + 1], _] = turn([row[i], row[i + 1], 0.0]);
        }
        if !self.v.is_empty() {
            Step::lines(&mut self.v[i * n..(i + 2) * n], n, 0, turn);
        }
    }

    /// The eigenvalues of the rows `i` and `i + 1`; real ones become the diagonal.
    #[inline(always)]
    fn two(&mut self, i: usize) {
        let (a, b, c, d) = (
            self.at(i, i),
            self.at(i, i + 1),
            self.at(i + 1, i),
            self.at(i + 1, i + 1),
        );
        let p = 0.5 * (a - d);
        let q = p * p + b * c;
        let root = q.abs().sqrt();
        if q < 0.0 {
            self.values[i] = (d + p, root);
            self.values[i + 1] = (d + p, -root);
            return;
        }
        let z = if p >= 0.0 { p + root } else { p - root };
        let first = d + z;
        let second = if z == 0.0 { first } else { d - b * c / z };
        if c != 0.0 {
            let r = c.hypot(z);
            self.rotate(i, z / r, c / r);
            self.h[(i + 1) * self.n + i] = 0.0;
        }
        self.values[i] = (first, 0.0);
        self.values[i + 1] = (second, 0.0);
    }

    /// One double step on the rows from `l` to `end`.
    #[inline(always)]
    fn double_step(&mut self, l: usize, end: usize, step: usize, shifted: &mut f64) {
        let n = self.n;
        // The shifts are the eigenvalues of the last two rows, by their sum and product.
        let (mut x, mut y) = (self.at(end, end), self.at(end - 1, end - 1));
        let mut w = self.at(end, end - 1) * self.at(end - 1, end);
        if step.is_multiple_of(EXCEPTIONAL) {
            *shifted += x;
            (0..=end).for_each(|i| self.h[i * n + i] -= x);
            let s = self.at(end, end - 1).abs() + self.at(end - 1, end - 2).abs();
            (x, y, w) = (0.75 * s, 0.75 * s, -0.4375 * s * s);
        }
        // It begins where two neighbours below the diagonal are small together.
        let mut m = end - 2;
        let first = loop {
            let z = self.at(m, m);
            let (r, s) = (x - z, y - z);
            let p = (r * s - w) / self.at(m + 1, m) + self.at(m, m + 1);
            let q = self.at(m + 1, m + 1) - z - r - s;
            let r = self.at(m + 2, m + 1);
            let by = p.abs() + q.abs() + r.abs();
            let column = [p / by, q / by, r / by];
            if m == l {
                break column;
            }
            let before = self.at(m, m - 1).abs() * (q.abs() + r.abs());
            let near = self.at(m - 1, m - 1).abs() + z.abs() + self.at(m + 1, m + 1).abs();
            if before <= f64::EPSILON * p.abs() * near {
                break column;
            }
            m -= 1;
        };
        for i in m + 2..=end {
            self.h[i * n + i - 2] = 0.0;
            if i > m + 2 {
                self.h[i * n + i - 3] = 0.0;
            }
        }
        for k in m..end {
            let last = k + 1 == end;
            let (mut column, mut size) = (first, 1.0);
            if k != m {
                let r = if last { 0.0 } else { self.at(k + 2, k - 1) };
                column = [self.at(k, k - 1), self.at(k + 1, k - 1), r];
                size = column.iter().map(|v| v.abs()).sum();
                if size == 0.0 {
                    continue;
                }
                column.iter_mut().for_each(|v| *v /= size);
            }
            let [p, q, r] = column;
            let s = (p * p + q * q + r * r).sqrt();
            let s = if p < 0.0 { -s } else { s };
            if s == 0.0 {
                continue;
            }
            if k != m {
                self.h[k * n + k - 1] = -s * size;
                self.h[(k + 1) * n + k - 1] = 0.0;
                if !last {
                    self.h[(k + 2) * n + k - 1] = 0.0;
                }
            } else if l != m {
                self.h[k * n + k - 1] = -self.h[k * n + k - 1];
            }
            let p = p + s;
            let step = Step {
                q: q / p,
                r: r / p,
                x: p / s,
                y: q / s,
                z: r / s,
            };
            self.reflect(k, end, last, step);
        }
    }

    /// Applies a reflector of a double step to the rows and columns `k`, `k + 1` and, where it is not the last one, `k + 2`.
    #[inline(always)]
    fn reflect(&mut self, k: usize, end: usize, last: bool, step: Step) {
        let n = self.n;
        let lines = k * n..(if last { k + 2 } else { k + 3 }) * n;
        Step::lines(&mut self.h[lines.clone()], n, k, |x| step.rows(x));
        if !self.v.is_empty() {
            Step::lines(&mut self.v[lines], n, 0, |x| step.columns(x));
        }
        let rows = self.h.chunks_exact_mut(n).take((k + 4).min(end + 1));
        if last {
            for row in rows {
                [row[k], row[k + 1], _] = step.columns([row[k], row[k + 1], 0.0]);
            }
            return;
        }
        for row in rows {
            let row = &mut row[k..k + 3];
            let done = step.columns([row[0], row[1], row[2]]);
            row.copy_from_slice(&done);
        }
    }

    /// The inner product of the row `i` and a vector, from `from` to `to`.
    #[inline(always)]
    fn product<O: Loops<f64>>(&self, o: O, i: usize, x: &[f64], from: usize, to: usize) -> f64 {
        dot(
            o,
            &self.h[i * self.n + from..=i * self.n + to],
            &x[from..=to],
        )
    }

    /// The eigenvector of the real value `k`, in the basis of the triangular matrix.
    #[inline(always)]
    fn real_vector<O: Loops<f64>>(&self, o: O, k: usize, vector: &mut [f64], size: f64) {
        let value = self.values[k].0;
        let mut known = k;
        let (mut w_below, mut r_below) = (0.0, 0.0);
        vector[k] = 1.0;
        for i in (0..k).rev() {
            let w = self.at(i, i) - value;
            let r = self.product(o, i, vector, known, k);
            let (re, im) = self.values[i];
            if im < 0.0 {
                // The second row of a block waits for the first one.
                (w_below, r_below) = (w, r);
                continue;
            }
            known = i;
            if im == 0.0 {
                let by = if w == 0.0 { f64::EPSILON * size } else { w };
                vector[i] = -r / by;
            } else {
                let (x, y) = (self.at(i, i + 1), self.at(i + 1, i));
                let q = (re - value) * (re - value) + im * im;
                let t = (x * r_below - w_below * r) / q;
                vector[i] = t;
                vector[i + 1] = match x.abs() > w_below.abs() {
                    true => (-r - w * t) / x,
                    false => (-r_below - y * t) / w_below,
                };
            }
            bound(i, k, [&mut *vector]);
        }
    }

    /// As [`Schur::real_vector`], of the values `k - 1` and `k`, which are a pair: the real and the imaginary part.
    #[inline(always)]
    fn complex_vector<O: Loops<f64>>(
        &self,
        o: O,
        k: usize,
        (re_part, im_part): (&mut [f64], &mut [f64]),
        size: f64,
    ) {
        let (p, q) = self.values[k];
        let before = k - 1;
        let mut known = before;
        let (mut w_below, mut ra_below, mut sa_below) = (0.0, 0.0, 0.0);
        (re_part[before], im_part[before]) =
            match self.at(k, before).abs() > self.at(before, k).abs() {
                true => (
                    q / self.at(k, before),
                    -(self.at(k, k) - p) / self.at(k, before),
                ),
                false => quotient(0.0, -self.at(before, k), self.at(before, before) - p, q),
            };
        (re_part[k], im_part[k]) = (0.0, 1.0);
        for i in (0..before).rev() {
            let ra = self.product(o, i, re_part, known, k);
            let sa = self.product(o, i, im_part, known, k);
            let w = self.at(i, i) - p;
            let (value, im) = self.values[i];
            if im < 0.0 {
                (w_below, ra_below, sa_below) = (w, ra, sa);
                continue;
            }
            known = i;
            if im == 0.0 {
                (re_part[i], im_part[i]) = quotient(-ra, -sa, w, q);
            } else {
                let (x, y) = (self.at(i, i + 1), self.at(i + 1, i));
                let mut by_re = (value - p) * (value - p) + im * im - q * q;
                let by_im = (value - p) * 2.0 * q;
                if by_re == 0.0 && by_im == 0.0 {
                    let near = w.abs() + q.abs() + x.abs() + y.abs() + w_below.abs();
                    by_re = f64::EPSILON * size * near;
                }
                let (re, im) = quotient(
                    x * ra_below - w_below * ra + q * sa,
                    x * sa_below - w_below * sa - q * ra,
                    by_re,
                    by_im,
                );
                (re_part[i], im_part[i]) = (re, im);
                (re_part[i + 1], im_part[i + 1]) = match x.abs() > w_below.abs() + q.abs() {
                    true => ((-ra - w * re + q * im) / x, (-sa - w * im - q * re) / x),
                    false => quotient(-ra_below - y * re, -sa_below - y * im, w_below, q),
                };
            }
            bound(i, k, [&mut *re_part, &mut *im_part]);
        }
    }
}
