//! One line of a transform.
//!
//! A real line of even length `n = 2 m` is taken as `m` complex numbers: the even elements are their real
//! parts, the odd ones their imaginary parts. One complex transform of `m` points and a pass over pairs of
//! its results give the half spectrum; the way back is the same in the other order. A real line of odd
//! length is a complex line whose imaginary parts are 0.

use std::sync::Arc;

use num_complex::Complex;
use torsh_core::attrs::{self, FftKind};

use super::plans::{Plan, Real, plan};

/// What is done to each line.
pub(super) struct Line<T> {
    plan: Arc<Plan<T>>,
    kind: FftKind,
    /// The number of points.
    n: usize,
    /// The sign of the imaginary parts on the complex side of a real transform.
    sign: T,
    scale: T,
    interior: T,
    onesided: bool,
}

impl<T: Real> Line<T> {
    /// A complex transform of `n` points.
    pub(super) fn complex(n: usize, forward: bool, scale: f64) -> Line<T> {
        Line {
            plan: plan(n, false, !forward),
            kind: FftKind::Complex,
            n,
            sign: T::one(),
            scale: T::of(scale),
            interior: T::one(),
            onesided: true,
        }
    }

    /// The transform of the last dimension of a call.
    pub(super) fn of(call: &attrs::Fft, n: usize) -> Line<T> {
        let kind = call.kind;
        if kind == FftKind::Complex {
            return Line::complex(n, call.forward, call.scale);
        }
        // Forward from the real numbers and inverse to them; the other directions are conjugates.
        let inverse = kind == FftKind::ToReal;
        Line {
            plan: plan(n, true, inverse),
            kind,
            n,
            sign: match call.forward == inverse {
                true => -T::one(),
                false => T::one(),
            },
            scale: T::of(call.scale),
            interior: T::of(call.interior),
            onesided: call.onesided,
        }
    }

    fn even(&self) -> bool {
        self.n.is_multiple_of(2)
    }

    /// The number of points.
    pub(super) fn points(&self) -> usize {
        self.n
    }

    /// The elements that a line comes with: real ones for `r2c`.
    pub(super) fn taken(&self) -> usize {
        match self.kind {
            FftKind::ToReal => self.n / 2 + 1,
            _ => self.n,
        }
    }

    /// The elements that it becomes: real ones for `c2r`.
    pub(super) fn given(&self) -> usize {
        match self.kind {
            FftKind::FromReal if self.onesided => self.n / 2 + 1,
            _ => self.n,
        }
    }

    /// The complex numbers of memory that a line needs.
    pub(super) fn room(&self) -> usize {
        match self.kind {
            FftKind::Complex => self.n,
            FftKind::FromReal if self.even() => self.given(),
            FftKind::ToReal if self.even() => self.n / 2 + 1,
            _ => self.n,
        }
    }

    /// The complex numbers that [`Line::run`] needs beside the line.
    pub(super) fn scratch(&self) -> usize {
        self.plan.fft.get_inplace_scratch_len()
    }

    /// Whether a result can be computed where it lies, whose elements are adjacent.
    pub(super) fn in_place(&self) -> bool {
        self.kind != FftKind::ToReal && self.given() >= self.room()
    }

    /// Transforms a line of [`Line::room`] numbers that begins with its elements, and ends so.
    pub(super) fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let m = self.n / 2;
        match (self.kind, self.even()) {
            (FftKind::Complex, _) => {
                self.scaled(line);
                self.plan.fft.process_with_scratch(line, scratch);
            }
            (FftKind::FromReal, true) => {
                self.plan.fft.process_with_scratch(&mut line[..m], scratch);
                self.pairs_to_spectrum(&mut line[..m + 1]);
                if !self.onesided {
                    let (known, rest) = line.split_at_mut(m + 1);
                    for (x, y) in rest.iter_mut().zip(known[1..m].iter().rev()) {
                        *x = y.conj();
                    }
                }
            }
            (FftKind::FromReal, false) => {
                // From the back: an element lies before the place that it goes to.
                for k in (0..self.n).rev() {
                    line[k] = Complex::new(real(line, k), T::zero());
                }
                self.plan.fft.process_with_scratch(line, scratch);
                let inner = self.scale * self.interior;
                for (k, z) in line.iter_mut().enumerate() {
                    let f = if k == 0 { self.scale } else { inner };
                    *z = Complex::new(z.re * f, z.im * f * self.sign);
                }
            }
            (FftKind::ToReal, true) => {
                // SAFETY: the line has `m + 1` numbers.
                unsafe { self.spectrum_to_pairs(line.as_ptr(), line.as_mut_ptr()) };
                self.plan.fft.process_with_scratch(&mut line[..m], scratch);
            }
            (FftKind::ToReal, false) => {
                let inner = self.scale * self.interior;
                line[0] = Complex::new(line[0].re * self.scale, T::zero());
                for k in 1..m + 1 {
                    let z = Complex::new(line[k].re * inner, line[k].im * inner * self.sign);
                    (line[k], line[self.n - k]) = (z, z.conj());
                }
                self.plan.fft.process_with_scratch(line, scratch);
                for k in 0..self.n {
                    let v = line[k].re;
                    set_real(line, k, v);
                }
            }
        }
    }

    /// Transforms a whole half spectrum of even length to real numbers elsewhere.
    ///
    /// # Safety
    /// `from` has `n / 2 + 1` numbers, `to` has the `n / 2` of the result.
    pub(super) unsafe fn run_to_real(
        &self,
        from: *const Complex<T>,
        to: *mut Complex<T>,
        scratch: &mut [Complex<T>],
    ) {
        // SAFETY: the caller's promise.
        let pairs = unsafe {
            self.spectrum_to_pairs(from, to);
            std::slice::from_raw_parts_mut(to, self.n / 2)
        };
        self.plan.fft.process_with_scratch(pairs, scratch);
    }

    /// Whether [`Line::run_to_real`] can be used.
    pub(super) fn splits(&self) -> bool {
        self.kind == FftKind::ToReal && self.even()
    }

    /// A complex transform from one line to another; false where it needs the scale.
    pub(super) fn run_apart(
        &self,
        from: &[Complex<T>],
        to: &mut [Complex<T>],
        scratch: &mut [Complex<T>],
    ) -> bool {
        if self.kind != FftKind::Complex || self.scale != T::one() {
            return false;
        }
        self.plan
            .fft
            .process_immutable_with_scratch(from, to, scratch);
        true
    }

    /// What [`Line::run_apart`] needs beside the lines.
    pub(super) fn scratch_apart(&self) -> usize {
        self.plan.fft.get_immutable_scratch_len()
    }

    fn scaled(&self, line: &mut [Complex<T>]) {
        if self.scale != T::one() {
            for z in line {
                *z = Complex::new(z.re * self.scale, z.im * self.scale);
            }
        }
    }

    /// The half spectrum of real numbers from the transform of their pairs, of which there is one less.
    fn pairs_to_spectrum(&self, line: &mut [Complex<T>]) {
        let m = line.len() - 1;
        let (scale, sign) = (self.scale, self.sign);
        let inner = scale * self.interior;
        let half = inner * T::of(0.5);
        let first = line[0];
        line[0] = Complex::new((first.re + first.im) * scale, T::zero());
        line[m] = Complex::new((first.re - first.im) * scale, T::zero());
        let middle = &mut line[1..m];
        let count = middle.len() / 2;
        let (low, high) = middle.split_at_mut(middle.len() - count);
        let twiddles = self.plan.twiddles.iter().skip(1);
        for ((a, b), w) in low.iter_mut().zip(high.iter_mut().rev()).zip(twiddles) {
            let even = Complex::new(a.re + b.re, a.im - b.im);
            // The difference, turned by -i and by the twiddle factor.
            let odd = Complex::new(a.im + b.im, b.re - a.re);
            let odd = Complex::new(odd.re * w.re - odd.im * w.im, odd.re * w.im + odd.im * w.re);
            *a = Complex::new(
                (even.re + odd.re) * half,
                (even.im + odd.im) * (half * sign),
            );
            *b = Complex::new(
                (even.re - odd.re) * half,
                (odd.im - even.im) * (half * sign),
            );
        }
        if low.len() > count {
            let z = &mut low[count];
            *z = Complex::new(z.re * inner, -z.im * (inner * sign));
        }
    }

    /// The other way: what the transform of pairs of real numbers is, from their half spectrum.
    ///
    /// # Safety
    /// `from` has `n / 2 + 1` numbers and `to` has `n / 2`; they may be the same.
    unsafe fn spectrum_to_pairs(&self, from: *const Complex<T>, to: *mut Complex<T>) {
        let m = self.n / 2;
        let (scale, sign) = (self.scale, self.sign);
        let inner = scale * self.interior;
        let signed = inner * sign;
        // SAFETY: all positions are at most `m` in `from` and below `m` in `to`; both numbers of a pair are
        // read before either is written.
        unsafe {
            let (x, y) = ((*from).re * scale, (*from.add(m)).re * scale);
            *to = Complex::new(x + y, x - y);
            for k in 1..m.div_ceil(2) {
                let (a, b, w) = (*from.add(k), *from.add(m - k), self.plan.twiddles[k]);
                let a = Complex::new(a.re * inner, a.im * signed);
                let b = Complex::new(b.re * inner, b.im * signed);
                let even = Complex::new(a.re + b.re, a.im - b.im);
                let odd = Complex::new(a.re - b.re, a.im + b.im);
                let odd =
                    Complex::new(odd.re * w.re + odd.im * w.im, odd.im * w.re - odd.re * w.im);
                *to.add(k) = Complex::new(even.re - odd.im, even.im + odd.re);
                *to.add(m - k) = Complex::new(even.re + odd.im, odd.re - even.im);
            }
            if m > 0 && m.is_multiple_of(2) {
                let z = *from.add(m / 2);
                let two = T::of(2.0);
                *to.add(m / 2) = Complex::new(two * z.re * inner, -two * z.im * signed);
            }
        }
    }
}

/// Real number `k` of a line that begins with real numbers.
#[inline(always)]
fn real<T: Real>(line: &[Complex<T>], k: usize) -> T {
    let z = line[k / 2];
    if k.is_multiple_of(2) { z.re } else { z.im }
}

/// Writes real number `k` of such a line.
#[inline(always)]
fn set_real<T: Real>(line: &mut [Complex<T>], k: usize, v: T) {
    let z = &mut line[k / 2];
    *if k.is_multiple_of(2) {
        &mut z.re
    } else {
        &mut z.im
    } = v;
}
