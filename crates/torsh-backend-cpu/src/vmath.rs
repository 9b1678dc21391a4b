//! Elementary functions of the kernels.
//!
//! Every function (but AVX-512's `exp` and `tanh` of float32, in `wide` and `exp`) is straight-line
//! scalar Rust over an [`Arch`]: conditions are
//! selects, integers come out of floats by bit tricks, and nothing is called, so
//! a loop over it inside [`multiversion!`](crate::multiversion) becomes vector
//! code for each instruction set. The float32 ones are within 1-2 ulp over the
//! whole range, subnormal results included, with the special values of C. The
//! hot ones (`exp`, `exp2`, `log`, `tanh`, `sigmoid`, `erf`, `sin`, `cos`) work
//! in float32; the others work in float64 and round once.
//!
//! Scalar, and so not vectorised: `erfinv`, float64, and the functions of [`Special`]. The loops of these for float32 are
//! made of `special::lanes`, which computes a group of numbers together.

mod double;
mod erf;
mod exp;
mod log;
mod pow;
mod single;
mod special;
mod trig;
mod trig_inverse;
mod trig_table;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(target_arch = "x86_64")]
pub(crate) use exp::{exp_low_512, exp_nonpositive_512, exp_term_512};
#[cfg(target_arch = "x86_64")]
pub(crate) use wide::{exp_512, tanh_512};

pub use special::Special;
pub(crate) use special::lanes;

pub use crate::simd::{Arch, Avx2, Avx512, Base, fma32, fma64};

/// The elementary functions, for `f32` and `f64`.
///
/// The inherent methods of the float types have the same names and win in method
/// syntax, so call these as `VMath::exp::<A>(x)`.
pub trait VMath: Copy {
    /// e to the power of `self`.
    fn exp<A: Arch>(self) -> Self;
    /// e to the power of `self`, which is not above 0: cheaper than [`exp`](Self::exp).
    fn exp_low<A: Arch>(self) -> Self;
    /// [`exp_low`](Self::exp_low) times [`RAISED`](Self::RAISED): cheaper still, and what sums and
    /// quotients of exponentials can do with.
    fn exp_raised<A: Arch>(self) -> Self;
    /// A power of 2, the factor of [`exp_raised`](Self::exp_raised).
    const RAISED: Self;
    /// 2 to the power of `self`.
    fn exp2<A: Arch>(self) -> Self;
    /// `exp(self) - 1`, exact near 0.
    fn expm1<A: Arch>(self) -> Self;
    /// Natural logarithm.
    fn log<A: Arch>(self) -> Self;
    /// Logarithm to base 2.
    fn log2<A: Arch>(self) -> Self;
    /// Logarithm to base 10.
    fn log10<A: Arch>(self) -> Self;
    /// `log(1 + self)`, exact near 0.
    fn log1p<A: Arch>(self) -> Self;
    /// Sine, for every argument; see [`sin_into`](Self::sin_into) for the fast form.
    fn sin<A: Arch>(self) -> Self;
    /// Cosine, for every argument; see [`cos_into`](Self::cos_into) for the fast form.
    fn cos<A: Arch>(self) -> Self;
    /// Tangent.
    fn tan<A: Arch>(self) -> Self;
    /// Hyperbolic sine.
    fn sinh<A: Arch>(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh<A: Arch>(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh<A: Arch>(self) -> Self;
    /// Arc sine, nan outside [-1, 1].
    fn asin<A: Arch>(self) -> Self;
    /// Arc cosine, nan outside [-1, 1].
    fn acos<A: Arch>(self) -> Self;
    /// Arc tangent.
    fn atan<A: Arch>(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh<A: Arch>(self) -> Self;
    /// Inverse hyperbolic cosine, nan below 1.
    fn acosh<A: Arch>(self) -> Self;
    /// Inverse hyperbolic tangent, nan outside [-1, 1].
    fn atanh<A: Arch>(self) -> Self;
    /// Error function.
    fn erf<A: Arch>(self) -> Self;
    /// `erf(self / sqrt(2))`, how likely a standard normal number is nearer to 0; in float32 its
    /// absolute error is up to 4e-7.
    fn erf_normal<A: Arch>(self) -> Self;
    /// `1 - erf(self)`, exact in the upper tail.
    fn erfc<A: Arch>(self) -> Self;
    /// Inverse of [`erf`](Self::erf), nan outside [-1, 1].
    fn erfinv<A: Arch>(self) -> Self;
    /// `1 / (1 + exp(-self))`, exact in the lower tail.
    fn sigmoid<A: Arch>(self) -> Self;
    /// Logarithm of the absolute value of the gamma function.
    fn lgamma<A: Arch>(self) -> Self;
    /// Derivative of `lgamma`; at the poles as PyTorch: inf of the opposite sign
    /// at 0, nan at the negative integers.
    fn digamma<A: Arch>(self) -> Self;
    /// `self` to the power of `y`.
    fn pow<A: Arch>(self, y: Self) -> Self;
    /// Angle of the point (`x`, `self`).
    fn atan2<A: Arch>(self, x: Self) -> Self;

    /// `dst[i] = sin(src[i])`: the fast reduction for blocks of ordinary arguments.
    ///
    /// # Safety
    /// `src` must be valid for `n` reads and `dst` for `n` writes; the two are
    /// either disjoint or the same.
    unsafe fn sin_into<A: Arch>(src: *const Self, dst: *mut Self, n: usize);
    /// `dst[i] = cos(src[i])`: the fast reduction for blocks of ordinary arguments.
    ///
    /// # Safety
    /// As for [`sin_into`](Self::sin_into).
    unsafe fn cos_into<A: Arch>(src: *const Self, dst: *mut Self, n: usize);
}

/// Adding it rounds a small f32 to an integer, left in the low bits.
pub(crate) const MAGIC32: f32 = 12_582_912.0;
/// Adding it rounds a small f64 to an integer, left in the low bits.
pub(crate) const MAGIC64: f64 = 6_755_399_441_055_744.0;

/// `c[0] + c[1] x + ...`, unrolled. The even and the odd powers are summed side by side: a chain of
/// half the length, which is what bounds the speed of these loops.
#[inline(always)]
pub(crate) fn poly32<A: Arch, const N: usize>(x: f32, c: &[f32; N]) -> f32 {
    if N < 5 {
        let mut p = c[N - 1];
        let mut i = N - 1;
        while i > 0 {
            i -= 1;
            p = fma32::<A>(p, x, c[i]);
        }
        return p;
    }
    let square = x * x;
    let (mut high, mut low) = (c[N - 1], c[N - 2]);
    let mut i = N - 2;
    while i >= 2 {
        i -= 2;
        high = fma32::<A>(high, square, c[i + 1]);
        low = fma32::<A>(low, square, c[i]);
    }
    if i == 1 {
        // `high` begins with c[2], `low` with c[1].
        fma32::<A>(fma32::<A>(high, x, low), x, c[0])
    } else {
        fma32::<A>(high, x, low)
    }
}

/// `c[0] + c[1] x + ...`, unrolled.
#[inline(always)]
pub(crate) fn poly64<A: Arch, const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let mut p = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = fma64::<A>(p, x, c[i]);
    }
    p
}
