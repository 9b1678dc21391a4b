//! The element types that the rows of [`torsh_core::pointwise`] are written over.
//!
//! A row's expression is generic over [`Real`], [`Int`] or [`Cplx`] (bool rows take plain `bool`s)
//! and an instruction set `A`. Every method is what PyTorch's CPU kernels compute, special values
//! included, inlined and free of branches where the op is hot, so that a loop over it vectorises.

pub(crate) mod byte;
mod complex;
mod int;
mod real;
#[cfg(feature = "unit-tests")]
mod tests;

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use torsh_core::cmath;

use crate::simd::Arch;
use crate::vmath::{Special, VMath};

/// Real floating-point numbers: `f32` and `f64`.
pub trait Real:
    VMath
    + Special
    + PartialOrd
    + Debug
    + Default
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Not a number.
    const NAN: Self;
    /// The largest finite number.
    const MAX: Self;

    /// The constant `v`, rounded to this type.
    fn c(v: f64) -> Self;
    /// The value as `f64`.
    fn to_f64(self) -> f64;
    /// `self * b + c`, fused where the hardware fuses.
    fn fma<A: Arch>(self, b: Self, c: Self) -> Self;
    /// `self + weight * (end - self)`, written from the nearer end.
    #[inline(always)]
    fn lerp<A: Arch>(self, end: Self, weight: Self) -> Self {
        let near = weight.abs() < Self::c(0.5);
        let (factor, base) = if near {
            (weight, self)
        } else {
            (weight - Self::ONE, end)
        };
        factor.fma::<A>(end - self, base)
    }
    /// Magnitude.
    fn abs(self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Largest integer not above.
    fn floor(self) -> Self;
    /// Smallest integer not below.
    fn ceil(self) -> Self;
    /// Integer part.
    fn trunc(self) -> Self;
    /// Nearest integer, halves to even.
    fn round(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Whether the sign bit is set.
    fn signbit(self) -> bool;
    /// C's `fmod`: the remainder with the sign of `self`.
    fn fmod(self, y: Self) -> Self;
    /// `sqrt(self * self + y * y)` without overflow on the way.
    fn hypot(self, y: Self) -> Self;
    /// The next representable number towards `y`.
    fn nextafter(self, y: Self) -> Self;

    /// Whether this is nan.
    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn is_nan(self) -> bool {
        self != self
    }
    /// Whether this is an infinity.
    #[inline(always)]
    fn is_inf(self) -> bool {
        self.abs() == Self::INFINITY
    }
    /// Whether this is neither an infinity nor nan.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.abs() < Self::INFINITY
    }
    /// -1, 0 or 1; 0 for nan, as PyTorch has it.
    #[inline(always)]
    fn sign(self) -> Self {
        let positive = if self > Self::ZERO {
            Self::ONE
        } else {
            Self::ZERO
        };
        if self < Self::ZERO {
            -Self::ONE
        } else {
            positive
        }
    }
    /// The larger of two; nan where either is.
    #[inline(always)]
    fn maximum(self, y: Self) -> Self {
        if (self < y) | y.is_nan() { y } else { self }
    }
    /// The smaller of two; nan where either is.
    #[inline(always)]
    fn minimum(self, y: Self) -> Self {
        if (self > y) | y.is_nan() { y } else { self }
    }
    /// The larger of two; the other one where one is nan.
    #[inline(always)]
    fn fmax(self, y: Self) -> Self {
        if (self < y) | self.is_nan() { y } else { self }
    }
    /// The smaller of two; the other one where one is nan.
    #[inline(always)]
    fn fmin(self, y: Self) -> Self {
        if (self > y) | self.is_nan() { y } else { self }
    }
    /// Python's `%`: the remainder with the sign of `y`.
    #[inline(always)]
    fn remainder(self, y: Self) -> Self {
        let m = self.fmod(y);
        let moved = m + y;
        if (m != Self::ZERO) & ((y < Self::ZERO) != (m < Self::ZERO)) {
            moved
        } else {
            m
        }
    }
    /// Python's `//`; like it, exact where the rounded quotient is an integer but the true one is
    /// not, and the plain quotient where `y` is 0.
    #[inline(always)]
    fn floor_divide(self, y: Self) -> Self {
        let quotient = self / y;
        let m = self.fmod(y);
        let d = (self - m) / y;
        let crossed = (m != Self::ZERO) & ((y < Self::ZERO) != (m < Self::ZERO));
        let d = if crossed { d - Self::ONE } else { d };
        let f = d.floor();
        let f = if d - f > Self::c(0.5) {
            f + Self::ONE
        } else {
            f
        };
        let f = if d != Self::ZERO {
            f
        } else {
            Self::ZERO.copysign(quotient)
        };
        if y == Self::ZERO { quotient } else { f }
    }
    /// `log(exp(self) + exp(y))` without overflow.
    #[inline(always)]
    fn logaddexp<A: Arch>(self, y: Self) -> Self {
        let r = self.maximum(y) + VMath::log1p::<A>(VMath::exp::<A>(-(self - y).abs()));
        if self.is_inf() & (self == y) { self } else { r }
    }
    /// `log2(2^self + 2^y)` without overflow.
    #[inline(always)]
    fn logaddexp2<A: Arch>(self, y: Self) -> Self {
        let r = VMath::log1p::<A>(VMath::exp2::<A>(-(self - y).abs()));
        let r = r.fma::<A>(Self::c(std::f64::consts::LOG2_E), self.maximum(y));
        if self.is_inf() & (self == y) { self } else { r }
    }
    /// `self * log(y)`; 0 where `self` is 0, unless `y` is nan.
    #[inline(always)]
    fn xlogy<A: Arch>(self, y: Self) -> Self {
        let r = self * VMath::log::<A>(y);
        let r = if self == Self::ZERO { Self::ZERO } else { r };
        if y.is_nan() { y } else { r }
    }
    /// `self * log(1 + y)`; 0 where `self` is 0, unless `y` is nan.
    #[inline(always)]
    fn xlog1py<A: Arch>(self, y: Self) -> Self {
        let r = self * VMath::log1p::<A>(y);
        let r = if self == Self::ZERO { Self::ZERO } else { r };
        if y.is_nan() { y } else { r }
    }
    /// `sin(pi * self) / (pi * self)`; 1 at 0.
    #[inline(always)]
    fn sinc<A: Arch>(self) -> Self {
        let pi = Self::c(std::f64::consts::PI);
        // The distance from the nearest zero is exact, where pi times the argument is rounded.
        let whole = self.round();
        let s = VMath::sin::<A>((self - whole) * pi);
        let half = whole * Self::c(0.5);
        let s = if half == half.floor() { s } else { -s };
        let r = s / (self * pi);
        if self == Self::ZERO { Self::ONE } else { r }
    }
    /// Rounded to `decimals` places, halves to even.
    #[inline(always)]
    fn round_decimals(self, decimals: Self) -> Self {
        let decimals = decimals.to_f64();
        let unit = Self::c(cmath::powi(10.0, decimals.abs() as i32));
        if decimals < 0.0 {
            (self / unit).round() * unit
        } else if decimals > 0.0 {
            (self * unit).round() / unit
        } else {
            self.round()
        }
    }
    /// Logarithm of the logistic function, exact in both tails.
    #[inline(always)]
    fn logsigmoid<A: Arch>(self) -> Self {
        let low = if self > Self::ZERO { Self::ZERO } else { self };
        low - VMath::log1p::<A>(VMath::exp::<A>(-self.abs()))
    }
}

/// Integers: `u8`, `i8`, `i16`, `i32` and `i64`. Arithmetic wraps around.
pub trait Int:
    Copy
    + Ord
    + Debug
    + Default
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;

    /// The constant `v`, wrapped to this type.
    fn c(v: i64) -> Self;
    /// Sum.
    fn wrapping_add(self, y: Self) -> Self;
    /// Difference.
    fn wrapping_sub(self, y: Self) -> Self;
    /// Product.
    fn wrapping_mul(self, y: Self) -> Self;
    /// Negation.
    fn wrapping_neg(self) -> Self;
    /// Magnitude; the smallest number is its own.
    fn wrapping_abs(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Quotient rounded towards zero; 0 where `y` is 0, which callers refuse before.
    fn div_trunc(self, y: Self) -> Self;
    /// Quotient rounded down; 0 where `y` is 0, which callers refuse before.
    fn floor_divide(self, y: Self) -> Self;
    /// Remainder with the sign of `self`; 0 where `y` is 0, which callers refuse before.
    fn fmod(self, y: Self) -> Self;
    /// Remainder with the sign of `y`; 0 where `y` is 0, which callers refuse before.
    fn remainder(self, y: Self) -> Self;
    /// Power; for negative exponents 1 and -1 have theirs and all else gives 0.
    fn pow(self, y: Self) -> Self;
    /// `self << y`; 0 for shifts out of range.
    fn shl(self, y: Self) -> Self;
    /// `self >> y` with the sign kept; shifts out of range leave the sign.
    fn shr(self, y: Self) -> Self;
    /// Greatest common divisor, not negative.
    fn gcd(self, y: Self) -> Self;
    /// Least common multiple, not negative; 0 where either is 0.
    fn lcm(self, y: Self) -> Self;
}

/// Complex numbers: `Complex<f32>` and `Complex<f64>`.
///
/// Products are the plain formula. The elementary functions have the branch cuts and special
/// values of C and compute in `f64`.
pub trait Cplx:
    Copy
    + PartialEq
    + Debug
    + Default
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    /// The type of the parts.
    type R: Real;

    /// From the two parts.
    fn new(re: Self::R, im: Self::R) -> Self;
    /// Real part.
    fn re(self) -> Self::R;
    /// Imaginary part.
    fn im(self) -> Self::R;
    /// Natural exponential.
    fn exp(self) -> Self;
    /// `exp(self) - 1`, exact near 0.
    fn expm1(self) -> Self;
    /// Principal natural logarithm.
    fn log(self) -> Self;
    /// `log(1 + self)`, exact near 0.
    fn log1p(self) -> Self;
    /// Principal square root.
    fn sqrt(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Tangent.
    fn tan(self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Arc sine.
    fn asin(self) -> Self;
    /// Arc cosine.
    fn acos(self) -> Self;
    /// Arc tangent.
    fn atan(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// Inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// Inverse hyperbolic tangent.
    fn atanh(self) -> Self;
    /// Principal value of `self` to the power of `y`.
    fn pow(self, y: Self) -> Self;
    /// `log(exp(self) + exp(y))` without overflow.
    fn logaddexp(self, y: Self) -> Self;
    /// Angle in (-pi, pi].
    fn angle(self) -> Self::R;

    /// The real constant `v`.
    #[inline(always)]
    fn c(v: f64) -> Self {
        Self::new(Self::R::c(v), Self::R::ZERO)
    }
    /// Both parts times `r`.
    #[inline(always)]
    fn scale(self, r: Self::R) -> Self {
        Self::new(self.re() * r, self.im() * r)
    }
    /// Conjugate.
    #[inline(always)]
    fn conj(self) -> Self {
        Self::new(self.re(), -self.im())
    }
    /// Magnitude.
    #[inline(always)]
    fn abs(self) -> Self::R {
        self.re().hypot(self.im())
    }
    /// `self / abs(self)`; 0 at 0.
    #[inline(always)]
    fn sgn(self) -> Self {
        let a = self.abs();
        let r = Self::new(self.re() / a, self.im() / a);
        if a == Self::R::ZERO { Self::c(0.0) } else { r }
    }
    /// Quotient, scaled by the larger part of `y` (Smith's method) so that it does not overflow.
    #[inline(always)]
    fn divide(self, y: Self) -> Self {
        let (a, b, c, d) = (self.re(), self.im(), y.re(), y.im());
        let real_larger = c.abs() >= d.abs();
        let (p, q) = if real_larger { (c, d) } else { (d, c) };
        let ratio = q / p;
        let scale = Self::R::ONE / (p + q * ratio);
        let by_real = Self::new((a + b * ratio) * scale, (b - a * ratio) * scale);
        let by_imag = Self::new((a * ratio + b) * scale, (b * ratio - a) * scale);
        let r = if real_larger { by_real } else { by_imag };
        let zero = (c == Self::R::ZERO) & (d == Self::R::ZERO);
        if zero {
            Self::new(a / c.abs(), b / d.abs())
        } else {
            r
        }
    }
    /// `1 / self`.
    #[inline(always)]
    fn reciprocal(self) -> Self {
        Self::c(1.0).divide(self)
    }
    /// `1 / (1 + exp(-self))`
    #[inline(always)]
    fn sigmoid(self) -> Self {
        (Self::c(1.0) + (-self).exp()).reciprocal()
    }
    /// Whether either part is nan.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.re().is_nan() | self.im().is_nan()
    }
    /// Whether either part is an infinity.
    #[inline(always)]
    fn is_inf(self) -> bool {
        self.re().is_inf() | self.im().is_inf()
    }
    /// Whether both parts are finite.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.re().is_finite() & self.im().is_finite()
    }
    /// Whether either part is not 0.
    #[inline(always)]
    fn is_nonzero(self) -> bool {
        (self.re() != Self::R::ZERO) | (self.im() != Self::R::ZERO)
    }
}
