//! The number types of the kernels.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use faer::traits::ComplexField;
use num_complex::Complex;
use num_traits::{Float, NumAssign};
use torsh_core::Element;

/// A real number: float32 or float64.
pub(crate) trait Real: Field<R = Self> + Float + NumAssign {
    /// The distance from 1 to the next number.
    const EPS: Self;
    /// A number of the type.
    fn of_f64(v: f64) -> Self;
    /// The number in float64.
    fn wide(self) -> f64;
}

/// A number type that matrices are made of.
pub(crate) trait Field:
    Element
    + ComplexField<Real = Self::R>
    + Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
{
    /// Its real type.
    type R: Real;
    /// Whether numbers have an imaginary part.
    const COMPLEX: bool;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// A real number.
    fn of(re: Self::R) -> Self;
    /// A complex number; the imaginary part of a real type is dropped.
    fn of_parts(re: Self::R, im: Self::R) -> Self;
    /// The real part.
    fn re(self) -> Self::R;
    /// The imaginary part.
    fn im(self) -> Self::R;
    /// The conjugate.
    fn conj(self) -> Self;
    /// The sum of the parts' magnitudes, by which LAPACK compares pivots.
    fn abs1(self) -> Self::R;
    /// The magnitude.
    fn modulus(self) -> Self::R;
    /// The quotient, without overflow in between.
    fn over(self, by: Self) -> Self;
    /// The product with a real number.
    fn scaled(self, by: Self::R) -> Self;
    /// Whether neither part is infinite or nan.
    fn finite(self) -> bool;
}

macro_rules! field {
    ($($t:ident),*) => {$(
        impl Real for $t {
            const EPS: $t = $t::EPSILON;
            #[inline(always)]
            fn of_f64(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
        }

        impl Field for $t {
            type R = $t;
            const COMPLEX: bool = false;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn of(re: $t) -> $t {
                re
            }
            #[inline(always)]
            fn of_parts(re: $t, _: $t) -> $t {
                re
            }
            #[inline(always)]
            fn re(self) -> $t {
                self
            }
            #[inline(always)]
            fn im(self) -> $t {
                0.0
            }
            #[inline(always)]
            fn conj(self) -> $t {
                self
            }
            #[inline(always)]
            fn abs1(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn modulus(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn over(self, by: $t) -> $t {
                self / by
            }
            #[inline(always)]
            fn scaled(self, by: $t) -> $t {
                self * by
            }
            #[inline(always)]
            fn finite(self) -> bool {
                $t::is_finite(self)
            }
        }

        impl Field for Complex<$t> {
            type R = $t;
            const COMPLEX: bool = true;
            const ZERO: Self = Complex { re: 0.0, im: 0.0 };
            const ONE: Self = Complex { re: 1.0, im: 0.0 };
            #[inline(always)]
            fn of(re: $t) -> Self {
                Complex { re, im: 0.0 }
            }
            #[inline(always)]
            fn of_parts(re: $t, im: $t) -> Self {
                Complex { re, im }
            }
            #[inline(always)]
            fn re(self) -> $t {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $t {
                self.im
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Complex { re: self.re, im: -self.im }
            }
            #[inline(always)]
            fn abs1(self) -> $t {
                $t::abs(self.re) + $t::abs(self.im)
            }
            #[inline(always)]
            fn modulus(self) -> $t {
                self.re.hypot(self.im)
            }
            #[inline]
            fn over(self, by: Self) -> Self {
                // Smith's algorithm.
                let (a, b, c, d) = (self.re, self.im, by.re, by.im);
                if $t::abs(c) >= $t::abs(d) {
                    let r = if d == 0.0 { d } else { d / c };
                    let q = c + d * r;
                    Complex { re: (a + b * r) / q, im: (b - a * r) / q }
                } else {
                    let r = c / d;
                    let q = c * r + d;
                    Complex { re: (a * r + b) / q, im: (b * r - a) / q }
                }
            }
            #[inline(always)]
            fn scaled(self, by: $t) -> Self {
                Complex { re: self.re * by, im: self.im * by }
            }
            #[inline(always)]
            fn finite(self) -> bool {
                self.re.is_finite() && self.im.is_finite()
            }
        }
    )*};
}
field!(f32, f64);

/// The 2-norm of numbers, without overflow and underflow in between.
pub(crate) fn norm<T: Field>(x: impl Iterator<Item = T> + Clone) -> T::R {
    let zero = <T::R as Field>::ZERO;
    let largest = x.clone().fold(zero, |m, v| {
        let a = v.abs1();
        if a > m || a.is_nan() { a } else { m }
    });
    if largest == zero || !Float::is_finite(largest) {
        return largest;
    }
    // A power of two, so that scaling rounds nothing.
    let scale = power_of_two_below(largest);
    let by = <T::R as Field>::ONE / scale;
    let sum = x.fold(zero, |s, v| {
        let (re, im) = (v.re() * by, v.im() * by);
        s + re * re + im * im
    });
    Float::sqrt(sum) * scale
}

/// The largest power of two that is at most a positive finite number (and at least the inverse of the largest number).
pub(crate) fn power_of_two_below<R: Real>(x: R) -> R {
    let (_, exponent, _) = Float::integer_decode(x);
    let bits = if R::EPS.wide() > 1e-10 { 23 } else { 52 };
    let top = if bits == 23 { 126 } else { 1022 };
    let e = (i32::from(exponent) + bits).clamp(-top, top);
    R::of_f64(2f64.powi(e))
}
