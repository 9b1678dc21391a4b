//! One line of a transform.
//!
//! A real line of even length `n = 2 m` is taken as `m` complex numbers: the even elements are their real
//! parts, the odd ones their imaginary parts. One complex transform of `m` points and a pass over pairs of
//! its results give the half spectrum; the way back is the same in the other order. A real line of odd
//! length is a complex line whose imaginary parts are 0.

use std::sync::Arc;

use num_complex::Complex;
use torsh_core::attrs::{self, FftKind};

use super::half_spectrum::{self, Halves};
use super::plans::{FftReal, LinePlan, plan};

/// What is done to each line.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub(super) kind: FftKind,
    /// The number of points.
    pub(super) n: usize,
    /// Whether the exponents are positive: for a real line, of the transform that goes from it or to it.
    pub(super) inverse: bool,
    /// Whether the complex side of a real line is conjugated.
    pub(super) conjugate: bool,
    pub(super) scale: f64,
    /// What all but the first and, for an even length, the last of a half spectrum are also multiplied with.
    pub(super) interior: f64,
    pub(super) onesided: bool,
}

impl Spec {
    /// A complex transform of `n` points.
    pub(super) fn complex(n: usize, forward: bool, scale: f64) -> Spec {
        Spec {
            kind: FftKind::Complex,
            n,
            inverse: !forward,
            conjugate: false,
            scale,
            interior: 1.0,
            onesided: true,
        }
    }

    /// The transform of the last dimension of a call.
    pub(super) fn of(call: &attrs::Fft, n: usize) -> Spec {
        if call.kind == FftKind::Complex {
            return Spec::complex(n, call.forward, call.scale);
        }
        // Forward from the real numbers and inverse to them; the other directions are conjugates.
        let inverse = call.kind == FftKind::ToReal;
        Spec {
            kind: call.kind,
            n,
            inverse,
            conjugate: call.forward == inverse,
            scale: call.scale,
            interior: call.interior,
            onesided: call.onesided,
        }
    }

    /// Whether a real line is taken as pairs.
    pub(super) fn halved(&self) -> bool {
        self.kind != FftKind::Complex && self.n.is_multiple_of(2)
    }

    /// The points of the complex transform.
    pub(super) fn points(&self) -> usize {
        if self.halved() { self.n / 2 } else { self.n }
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
            FftKind::FromReal if self.halved() => self.given(),
            FftKind::ToReal if self.halved() => self.n / 2 + 1,
            _ => self.n,
        }
    }

    /// Whether a result can be computed where it lies, whose elements are adjacent.
    pub(super) fn in_place(&self) -> bool {
        self.kind != FftKind::ToReal && self.given() >= self.room()
    }

    /// The pass between pairs of a real line and its half spectrum.
    pub(super) fn halves<T: FftReal>(&self, twiddles: &[Complex<T>]) -> Halves<T> {
        Halves {
            m: self.n / 2,
            twiddles: twiddles.as_ptr().cast(),
            scale: T::c(self.scale),
            inner: T::c(self.scale) * T::c(self.interior),
            sign: T::c(if self.conjugate { -1.0 } else { 1.0 }),
            whole: self.kind == FftKind::FromReal && !self.onesided,
        }
    }
}

/// The transform of one line after the other.
pub(super) struct LineTransform<T> {
    plan: Arc<LinePlan<T>>,
    spec: Spec,
}

impl<T: FftReal> LineTransform<T> {
    pub(super) fn new(spec: Spec) -> LineTransform<T> {
        LineTransform {
            plan: plan(spec.points(), spec.halved(), spec.inverse),
            spec,
        }
    }

    /// The complex numbers that [`LineTransform::run`] needs beside the line.
    pub(super) fn scratch(&self) -> usize {
        self.plan.fft.get_inplace_scratch_len()
    }

    /// Transforms a line of [`Spec::room`] numbers that begins with its elements, and ends so.
    pub(super) fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let s = &self.spec;
        let (n, m) = (s.n, s.n / 2);
        let scale = T::c(s.scale);
        let inner = scale * T::c(s.interior);
        let sign = T::c(if s.conjugate { -1.0 } else { 1.0 });
        match (s.kind, s.halved()) {
            (FftKind::Complex, _) => {
                self.scaled(line);
                self.plan.fft.process_with_scratch(line, scratch);
            }
            (FftKind::FromReal, true) => {
                self.plan.fft.process_with_scratch(&mut line[..m], scratch);
                // SAFETY: the line has the numbers of the spectrum.
                unsafe {
                    half_spectrum::spectrum_in_place(
                        &s.halves(&self.plan.twiddles),
                        line.as_mut_ptr().cast(),
                    );
                }
            }
            (FftKind::FromReal, false) => {
                // From the back: an element lies before the place that it goes to.
                for k in (0..n).rev() {
                    line[k] = Complex::new(real(line, k), T::zero());
                }
                self.plan.fft.process_with_scratch(line, scratch);
                for (k, z) in line.iter_mut().enumerate() {
                    let f = if k == 0 { scale } else { inner };
                    *z = Complex::new(z.re * f, z.im * f * sign);
                }
            }
            (FftKind::ToReal, true) => {
                // SAFETY: the line has `m + 1` numbers.
                unsafe { self.pairs(line.as_ptr(), line.as_mut_ptr()) };
                self.plan.fft.process_with_scratch(&mut line[..m], scratch);
            }
            (FftKind::ToReal, false) => {
                line[0] = Complex::new(line[0].re * scale, T::zero());
                for k in 1..m + 1 {
                    let z = Complex::new(line[k].re * inner, line[k].im * inner * sign);
                    (line[k], line[n - k]) = (z, z.conj());
                }
                self.plan.fft.process_with_scratch(line, scratch);
                for k in 0..n {
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
            self.pairs(from, to);
            std::slice::from_raw_parts_mut(to, self.spec.n / 2)
        };
        self.plan.fft.process_with_scratch(pairs, scratch);
    }

    /// Whether [`LineTransform::run_to_real`] can be used.
    pub(super) fn splits(&self) -> bool {
        self.spec.kind == FftKind::ToReal && self.spec.halved()
    }

    /// A transform from one line to another, of numbers that are complex, or pairs of a real line; false where
    /// it needs the scale before.
    pub(super) fn run_apart(
        &self,
        from: &[Complex<T>],
        to: &mut [Complex<T>],
        scratch: &mut [Complex<T>],
    ) -> bool {
        let s = &self.spec;
        match s.kind {
            FftKind::Complex if s.scale == 1.0 => {
                self.plan
                    .fft
                    .process_immutable_with_scratch(from, to, scratch);
            }
            FftKind::FromReal if s.halved() => {
                self.plan
                    .fft
                    .process_immutable_with_scratch(from, &mut to[..s.n / 2], scratch);
                // SAFETY: the line has the numbers of the spectrum.
                unsafe {
                    half_spectrum::spectrum_in_place(
                        &s.halves(&self.plan.twiddles),
                        to.as_mut_ptr().cast(),
                    );
                }
            }
            _ => return false,
        }
        true
    }

    /// What [`LineTransform::run_apart`] needs beside the lines.
    pub(super) fn scratch_apart(&self) -> usize {
        self.plan.fft.get_immutable_scratch_len()
    }

    fn scaled(&self, line: &mut [Complex<T>]) {
        if self.spec.scale != 1.0 {
            let scale = T::c(self.spec.scale);
            for z in line {
                *z = Complex::new(z.re * scale, z.im * scale);
            }
        }
    }

    /// # Safety
    /// As for [`half_spectrum::pairs_of_line`].
    unsafe fn pairs(&self, from: *const Complex<T>, to: *mut Complex<T>) {
        let g = self.spec.halves(&self.plan.twiddles);
        // SAFETY: the caller's promise.
        unsafe { half_spectrum::pairs_of_line(&g, from.cast(), to.cast(), 0, g.pairs()) };
    }
}

/// Real number `k` of a line that begins with real numbers.
#[inline(always)]
fn real<T: FftReal>(line: &[Complex<T>], k: usize) -> T {
    let z = line[k / 2];
    if k.is_multiple_of(2) { z.re } else { z.im }
}

/// Writes real number `k` of such a line.
#[inline(always)]
fn set_real<T: FftReal>(line: &mut [Complex<T>], k: usize, v: T) {
    let z = &mut line[k / 2];
    *if k.is_multiple_of(2) {
        &mut z.re
    } else {
        &mut z.im
    } = v;
}
