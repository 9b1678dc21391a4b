//! Transforms against sums over all terms, decompositions and solvers by what defines them, and special functions
//! against integrals and other definitions.

use std::f64::consts::{PI, TAU};

use torsh_bench::inputs::Layout;
use torsh_bench::science::Row;
use torsh_tensor::{Result, Tensor};

use crate::{close, differ, sparse};

type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Values as complex numbers.
fn numbers(t: &Tensor) -> Result<Vec<Complex>> {
    let t = t.detach();
    if !t.is_complex() {
        let real = t.to_vec::<f64>()?;
        return Ok(real.into_iter().map(|x| (x, 0.0)).collect());
    }
    let pairs = t.view_as_real()?.to_vec::<f64>()?;
    Ok(pairs.chunks(2).map(|p| (p[0], p[1])).collect())
}

fn flat(all: &[Complex]) -> Vec<f64> {
    all.iter().flat_map(|z| [z.0, z.1]).collect()
}

fn same(what: &str, got: &[Complex], expected: &[Complex]) -> Result<()> {
    close(what, &flat(got), &flat(expected), 2e-5)
}

/// The sums of a discrete Fourier transform along `dim`, `sign` that of the exponent.
fn dft(x: &[Complex], shape: &[usize], dim: usize, sign: f64) -> Vec<Complex> {
    let (n, inner) = (shape[dim], shape[dim + 1..].iter().product::<usize>());
    let term = |i: usize, j: usize| {
        let (outer, k, at) = (i / (n * inner), i / inner % n, i % inner);
        let angle = sign * TAU * ((j * k) % n) as f64 / n as f64;
        times(x[(outer * n + j) * inner + at], (angle.cos(), angle.sin()))
    };
    let sum = |i| (0..n).fold((0.0, 0.0), |s, j| (s.0 + term(i, j).0, s.1 + term(i, j).1));
    (0..x.len()).map(sum).collect()
}

/// The first `k` of every `n`.
fn first(x: &[Complex], n: usize, k: usize) -> Vec<Complex> {
    x.chunks(n).flat_map(|line| line[..k].to_vec()).collect()
}

fn transform(name: &str, inputs: &[Tensor], got: &[Complex]) -> Result<()> {
    let (mut x, mut shape) = (numbers(&inputs[0])?, inputs[0].dims().to_vec());
    if name.starts_with("stft") {
        return same(name, got, &stft(&x, shape[1], &numbers(&inputs[1])?));
    }
    if name.starts_with("ifft_c2r") {
        // The second half of a line mirrors the first; the imaginary parts of its ends count for nothing.
        let (half, n) = (shape[1], 2 * (shape[1] - 1));
        let line = |line: &[Complex]| {
            let mut all = line.to_vec();
            (all[0].1, all[half - 1].1) = (0.0, 0.0);
            all.extend(line[1..half - 1].iter().rev().map(|z| (z.0, -z.1)));
            all
        };
        let whole: Vec<Complex> = x.chunks(half).flat_map(line).collect();
        shape[1] = n;
        let mut y = dft(&whole, &shape, 1, 1.0);
        y.iter_mut().for_each(|z| *z = (z.0 / n as f64, 0.0));
        return same(name, got, &y);
    }
    let last = shape.len() - 1;
    let dims = match name {
        _ if name.contains("dim0") => 0..1,
        _ if name.starts_with("fft2") => last - 1..last + 1,
        _ if name.starts_with("fftn") => 0..last + 1,
        _ => last..last + 1,
    };
    for dim in dims {
        x = dft(&x, &shape, dim, -1.0);
    }
    if !inputs[0].is_complex() {
        x = first(&x, shape[last], shape[last] / 2 + 1);
    }
    same(name, got, &x)
}

/// Frames of 400, 160 apart, of a signal that is mirrored at its ends: `[signals, frequencies, frames]`.
fn stft(x: &[Complex], length: usize, window: &[Complex]) -> Vec<Complex> {
    let (n, hop, frames) = (400, 160, length / 160 + 1);
    let mut all = Vec::new();
    for signal in x.chunks(length) {
        let at = |i: i64| {
            let i = i.unsigned_abs() as usize;
            signal[if i < length { i } else { 2 * (length - 1) - i }].0
        };
        let spectrum = |f: usize| {
            let frame = |j: usize| at((f * hop + j) as i64 - n as i64 / 2) * window[j].0;
            let frame: Vec<Complex> = (0..n).map(|j| (frame(j), 0.0)).collect();
            dft(&frame, &[n], 0, -1.0)
        };
        let spectra: Vec<Vec<Complex>> = (0..frames).map(spectrum).collect();
        all.extend((0..=n / 2).flat_map(|k| spectra.iter().map(move |s| s[k])));
    }
    all
}

/// A matrix by rows.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    cols: usize,
    v: Vec<Complex>,
}

impl Matrix {
    fn new(rows: usize, cols: usize, at: impl Fn(usize, usize) -> Complex) -> Matrix {
        let v = (0..rows * cols).map(|i| at(i / cols, i % cols)).collect();
        Matrix { rows, cols, v }
    }

    fn at(&self, i: usize, j: usize) -> Complex {
        self.v[i * self.cols + j]
    }

    fn times(&self, b: &Matrix) -> Matrix {
        Matrix::new(self.rows, b.cols, |i, j| {
            (0..self.cols).fold((0.0, 0.0), |s, k| {
                let p = times(self.at(i, k), b.at(k, j));
                (s.0 + p.0, s.1 + p.1)
            })
        })
    }

    /// The conjugate transpose.
    fn h(&self) -> Matrix {
        Matrix::new(self.cols, self.rows, |i, j| {
            let z = self.at(j, i);
            (z.0, -z.1)
        })
    }

    fn diagonal(d: &[Complex]) -> Matrix {
        Matrix::new(
            d.len(),
            d.len(),
            |i, j| if i == j { d[i] } else { (0.0, 0.0) },
        )
    }

    fn identity(n: usize) -> Matrix {
        Matrix::diagonal(&vec![(1.0, 0.0); n])
    }

    fn scaled(mut self, by: f64) -> Matrix {
        self.v.iter_mut().for_each(|z| *z = (z.0 * by, z.1 * by));
        self
    }

    fn plus(mut self, b: &Matrix) -> Matrix {
        let add = |(z, w): (&mut Complex, &Complex)| *z = (z.0 + w.0, z.1 + w.1);
        self.v.iter_mut().zip(&b.v).for_each(add);
        self
    }
}

fn batch(t: &Tensor) -> Result<Vec<Matrix>> {
    let (shape, v) = (t.dims(), numbers(t)?);
    let (rows, cols) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let matrix = |v: &[Complex]| Matrix {
        rows,
        cols,
        v: v.to_vec(),
    };
    Ok(v.chunks(rows * cols).map(matrix).collect())
}

fn equal(what: &str, a: &Matrix, b: &Matrix) -> Result<()> {
    same(what, &a.v, &b.v)
}

fn linear_algebra(name: &str, inputs: &[Tensor], results: &[Tensor]) -> Result<()> {
    let kind = name.split('_').next().unwrap_or_default();
    let all = batch(&inputs[0])?;
    let singular = |i: usize, a: &Matrix, of: &Tensor| -> Result<Vec<Complex>> {
        let n = a.rows.min(a.cols);
        Ok(numbers(of)?[i * n..][..n].to_vec())
    };
    for (i, a) in all.iter().enumerate() {
        let part = |k: usize| batch(&results[k]).map(|b| b[i].clone());
        match kind {
            "svd" => {
                let (u, s, vh) = (part(0)?, singular(i, a, &results[1])?, part(2)?);
                equal("u s vh", &u.times(&Matrix::diagonal(&s)).times(&vh), a)?;
                equal("uh u", &u.h().times(&u), &Matrix::identity(u.cols))?;
                equal("vh v", &vh.times(&vh.h()), &Matrix::identity(vh.rows))?;
            }
            "svdvals" => {
                // Their squares have the sum and the sum of squares of the eigenvalues of ah a.
                let s = singular(i, a, &results[0])?;
                let gram = a.h().times(a);
                let trace = |m: &Matrix| (0..m.rows).map(|i| m.at(i, i).0).sum::<f64>();
                let sums = |p| s.iter().map(|x| x.0.powi(p)).sum::<f64>();
                let expected = [trace(&gram), trace(&gram.times(&gram))];
                close("singular values", &[sums(2), sums(4)], &expected, 2e-5)?;
            }
            "eigh" | "eig" => {
                let (l, v) = (singular(i, a, &results[0])?, part(1)?);
                equal("v l", &v.times(&Matrix::diagonal(&l)), &a.times(&v))?;
            }
            "qr" => {
                let (q, r) = (part(0)?, part(1)?);
                equal("q r", &q.times(&r), a)?;
                equal("qh q", &q.h().times(&q), &Matrix::identity(q.cols))?;
                let below = (0..r.rows).all(|i| (0..i).all(|j| r.at(i, j) == (0.0, 0.0)));
                assert!(below, "{name}: r is not upper triangular");
            }
            "cholesky" => {
                let l = part(0)?;
                equal("l lh", &l.times(&l.h()), a)?;
            }
            "inv" | "pinv" => equal("a x", &a.times(&part(0)?), &Matrix::identity(a.rows))?,
            "det" => {
                let expected = determinant(a.clone());
                same("det", &numbers(&results[0])?[i..=i], &[expected])?;
            }
            "matrix" => {
                let (x, mut term) = (a.clone().scaled(0.1), Matrix::identity(a.rows));
                let mut sum = term.clone();
                for k in 1..40 {
                    term = term.times(&x).scaled(1.0 / k as f64);
                    sum = sum.plus(&term);
                }
                equal("sum of the series", &part(0)?, &sum)?;
            }
            "solve" => {
                let b = batch(inputs.get(1).unwrap_or(&inputs[0]))?;
                equal("a x", &a.times(&part(0)?), &b[i])?;
            }
            "lstsq" => {
                // The residual is orthogonal to the columns.
                let b = batch(&inputs[1])?;
                let fitted = a.times(&part(0)?);
                equal("ah a x", &a.h().times(&fitted), &a.h().times(&b[i]))?;
            }
            _ => return Err(differ(format!("nothing is said of {name}"))),
        }
    }
    Ok(())
}

/// By elimination with partial pivoting.
fn determinant(mut a: Matrix) -> Complex {
    let (n, mut det) = (a.rows, 1.0);
    for k in 0..n {
        let size = |i: usize| a.at(i, k).0.abs();
        let p = (k..n).fold(k, |p, i| if size(i) > size(p) { i } else { p });
        if p != k {
            (0..n).for_each(|j| a.v.swap(k * n + j, p * n + j));
            det = -det;
        }
        det *= a.at(k, k).0;
        for i in k + 1..n {
            let f = a.at(i, k).0 / a.at(k, k).0;
            (k..n).for_each(|j| a.v[i * n + j].0 -= f * a.at(k, j).0);
        }
    }
    (det, 0.0)
}

/// The integral of `f` from `a` to `b` by Simpson's rule.
fn integral(f: impl Fn(f64) -> f64, a: f64, b: f64) -> f64 {
    let n = 20_000;
    let h = (b - a) / n as f64;
    let weight = |i| match i {
        _ if i == 0 || i == n => 1.0,
        _ => 2.0 + 2.0 * f64::from(i % 2),
    };
    (0..=n)
        .map(|i| weight(i) * f(a + h * f64::from(i)))
        .sum::<f64>()
        * h
        / 3.0
}

/// The sum over `k` from 0 of `f(k + a)`, the tail by Euler's and Maclaurin's formula: `g` is an antiderivative that
/// vanishes at infinity.
fn series(f: impl Fn(f64) -> f64, g: impl Fn(f64) -> f64, a: f64) -> f64 {
    let n = 1000.0 + a;
    (0..1000).map(|k| f(a + f64::from(k))).sum::<f64>() - g(n)
        + f(n) / 2.0
        + (f(n) - f(n + 1.0)) / 12.0
}

fn special(name: &str, x: f64) -> Option<f64> {
    let density = |t: f64| (-t * t / 2.0).exp() / TAU.sqrt();
    let name = name.strip_prefix("special_")?.strip_suffix("_1000000")?;
    Some(match name {
        "lgamma" => libm::lgamma(x),
        "digamma" => {
            let tail = |t: f64| 1.0 / (t + 1.0) - 1.0 / (t + x);
            (0..2_000_000).map(|k| tail(f64::from(k))).sum::<f64>() - 0.577_215_664_901_532_9
                + (x - 1.0) / 2_000_000.0
        }
        "erf" => libm::erf(x),
        "i0e" => integral(|t| (x * (t.cos() - 1.0)).exp(), 0.0, PI) / PI,
        "bessel_j0" => libm::j0(x),
        "airy_ai" => {
            // Along a ray on which the integrand falls: Ai(x) = Im of the integral of exp(t^3 / 3 - x t), turned by 60 degrees.
            let f = |r: f64| {
                let (re, im) = (-r * r * r / 3.0 - x * r / 2.0, -x * r * 3f64.sqrt() / 2.0);
                re.exp() * (im + PI / 3.0).sin()
            };
            integral(f, 0.0, 12.0) / PI
        }
        "erfcx" => integral(|t| (-t * t - 2.0 * x * t).exp(), 0.0, 9.0) * 2.0 / PI.sqrt(),
        "log_ndtr" => (-integral(density, x, x + 12.0)).ln_1p(),
        "gammainc" => {
            // The series of the lower function.
            let mut term = 1.0 / x;
            let mut sum = term;
            for k in 1..200 {
                term *= x / (x + f64::from(k));
                sum += term;
            }
            sum * (x * x.ln() - x - libm::lgamma(x)).exp()
        }
        "zeta" => {
            let s = x + 1.1;
            series(|t| t.powf(-s), |t| t.powf(1.0 - s) / (1.0 - s), x)
        }
        "polygamma1" => series(|t| t.powi(-2), |t| -1.0 / t, x),
        "modified_bessel_k0" => integral(|t| (-x * t.cosh()).exp(), 0.0, 9.0),
        "hermite_h5" => 32.0 * x.powi(5) - 160.0 * x.powi(3) + 120.0 * x,
        _ => return None,
    })
}

fn functions(name: &str, x: &[Complex], y: &[Complex]) -> Result<()> {
    for (&(x, _), &(y, _)) in x.iter().zip(y) {
        // Of an inverse function its argument.
        let (got, expected) = match name {
            "special_erfinv_1000000" => (libm::erf(y), 0.09 * x),
            "special_ndtri_1000000" => ((1.0 + libm::erf(y / 2f64.sqrt())) / 2.0, 0.1 * x),
            _ => match special(name, x) {
                Some(expected) => (y, expected),
                None => return Err(differ(format!("nothing is said of {name}"))),
            },
        };
        if !((got - expected).abs() <= 2e-5 * (expected.abs() + 1e-3)) {
            return Err(differ(format!("{name}({x}) is {got}, not {expected}")));
        }
    }
    Ok(())
}

/// The gradient of the sum that a row computes, by differences of it.
fn gradients(name: &str, a: &Tensor, g: &Tensor) -> Result<()> {
    let of = |a: &Matrix| -> f64 {
        match name.split('_').next() {
            Some("inv") => inverse(a).v.iter().map(|z| z.0).sum(),
            _ => determinant(a.clone()).0.ln() / 2.0,
        }
    };
    for (a, g) in batch(a)?.iter().zip(batch(g)?) {
        for i in 0..a.v.len() {
            let moved = |by: f64| {
                let mut b = a.clone();
                b.v[i].0 += by;
                // Cholesky reads one triangle and its gradient is that of a symmetric change.
                if name.starts_with("logdet") {
                    b.v[i].0 -= by / 2.0;
                    b.v[i % a.cols * a.cols + i / a.cols].0 += by / 2.0;
                }
                of(&b)
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let scale = g.v.iter().fold(1e-3, |m: f64, z| m.max(z.0.abs()));
            if !((g.v[i].0 - expected).abs() <= 1e-3 * scale) {
                return Err(differ(format!(
                    "gradient {} at {i}, not {expected}",
                    g.v[i].0
                )));
            }
        }
    }
    Ok(())
}

/// By Cramer's rule.
fn inverse(a: &Matrix) -> Matrix {
    let det = determinant(a.clone()).0;
    let minor = |i: usize, j: usize| {
        let n = a.rows - 1;
        let skip = |k: usize, of: usize| if k < of { k } else { k + 1 };
        let m = Matrix::new(n, n, |r, c| a.at(skip(r, j), skip(c, i)));
        determinant(m).0 * if (i + j).is_multiple_of(2) { 1.0 } else { -1.0 }
    };
    Matrix::new(a.rows, a.cols, |i, j| (minor(i, j) / det, 0.0))
}

pub fn check(row: &Row, layout: Layout) -> Result<()> {
    let mut w = row.make(layout)?;
    let (name, results) = (row.name(), (w.call)()?.tensors());
    if let Some(kind) = sparse::kind(name) {
        return sparse::check(kind, &w.inputs, &results);
    }
    if name.contains("fwd_bwd") {
        if !name.starts_with("svd") {
            return gradients(name, &w.inputs[0], &results[0]);
        }
        // The phases of singular vectors: golden cases say what their gradients are.
        let finite = results[0].isfinite()?.all()?.item::<bool>()?;
        assert!(finite, "{name}: a gradient that is not finite");
        return Ok(());
    }
    if name.contains("fft") || name.starts_with("stft") {
        return transform(name, &w.inputs, &numbers(&results[0])?);
    }
    if name.starts_with("special_") {
        return functions(name, &numbers(&w.inputs[0])?, &numbers(&results[0])?);
    }
    linear_algebra(name, &w.inputs, &results)
}
