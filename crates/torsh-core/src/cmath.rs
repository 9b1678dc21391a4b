//! The mathematics of the C library in float64, where it can be relied on.
//!
//! mingw-w64, the C library of `x86_64-pc-windows-gnu`, computes most functions with the x87. Its sine of 1e14 has 7 right
//! digits, its power 0.999^n is wrong in the last three digits, its fused multiplication rounds twice, and its exponential
//! depends on the thread: the x87 starts with 64 bits of precision in the first one and with 53 in all others. On that target
//! these are the functions of the crate `libm`, which have no such faults and are the same under Wine. Everywhere else they are
//! those of the standard library.
//!
//! What is a single instruction of the x87 has full precision in all threads, and nearly always glibc's digits: logarithms of
//! base e and 2, `atan2`, and sine and cosine of an argument within a few turns. Those are left to the C library.

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) $(-> $out:ty)?: $libm:path, $std:path;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($x: f64),*) -> functions!(@out $($out)?) {
            #[cfg(all(windows, target_env = "gnu"))]
            return $libm($($x),*);
            #[cfg(not(all(windows, target_env = "gnu")))]
            return $std($($x),*);
        }
    )*};
    (@out) => { f64 };
    (@out $out:ty) => { $out };
}

functions! {
    /// `e^x`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::exp(1.0), std::f64::consts::E);
    /// ```
    exp(x): libm::exp, f64::exp;
    /// `2^x`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::exp2(-2.0), 0.25);
    /// ```
    exp2(x): libm::exp2, f64::exp2;
    /// `e^x - 1`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::exp_m1(1e-20), 1e-20);
    /// ```
    exp_m1(x): libm::expm1, f64::exp_m1;
    /// The natural logarithm of `1 + x`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::ln_1p(1e-20), 1e-20);
    /// ```
    ln_1p(x): libm::log1p, f64::ln_1p;
    /// The decimal logarithm.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::log10(1000.0), 3.0);
    /// ```
    log10(x): libm::log10, f64::log10;
    /// The sine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::sin(std::f64::consts::FRAC_PI_2), 1.0);
    /// ```
    sin(x): libm::sin, f64::sin;
    /// The cosine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::cos(std::f64::consts::PI), -1.0);
    /// ```
    cos(x): libm::cos, f64::cos;
    /// The sine and the cosine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::sin_cos(0.0), (0.0, 1.0));
    /// ```
    sin_cos(x) -> (f64, f64): libm::sincos, f64::sin_cos;
    /// The tangent.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::tan(0.0), 0.0);
    /// ```
    tan(x): libm::tan, f64::tan;
    /// The hyperbolic sine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::sinh(1e-20), 1e-20);
    /// ```
    sinh(x): libm::sinh, f64::sinh;
    /// The hyperbolic cosine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::cosh(0.0), 1.0);
    /// ```
    cosh(x): libm::cosh, f64::cosh;
    /// The hyperbolic tangent.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::tanh(100.0), 1.0);
    /// ```
    tanh(x): libm::tanh, f64::tanh;
    /// The arc sine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::asin(1.0), std::f64::consts::FRAC_PI_2);
    /// ```
    asin(x): libm::asin, f64::asin;
    /// The arc cosine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::acos(-1.0), std::f64::consts::PI);
    /// ```
    acos(x): libm::acos, f64::acos;
    /// The arc tangent.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::atan(1.0), std::f64::consts::FRAC_PI_4);
    /// ```
    atan(x): libm::atan, f64::atan;
    /// The inverse hyperbolic sine.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::asinh(0.0), 0.0);
    /// ```
    asinh(x): libm::asinh, f64::asinh;
    /// The length of the vector `(x, y)`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::hypot(3.0, 4.0), 5.0);
    /// ```
    hypot(x, y): libm::hypot, f64::hypot;
    /// `x^y`.
    ///
    /// ```
    /// assert_eq!(torsh_core::cmath::pow(10.0, -2.0), 0.01);
    /// ```
    pow(x, y): libm::pow, f64::powf;
    /// `a * b + c` with one rounding. Code that is compiled for processors with an instruction for it calls
    /// [`f64::mul_add`], which becomes that instruction.
    ///
    /// ```
    /// let third = 1.0 / 3.0;
    /// assert_eq!(torsh_core::cmath::fma(third, 3.0, -1.0), -2f64.powi(-54));
    /// ```
    fma(a, b, c): libm::fma, f64::mul_add;
}

/// [`fma`] in float32.
///
/// ```
/// let third = 1f32 / 3.0;
/// assert_eq!(torsh_core::cmath::fmaf(third, 3.0, -1.0), 2f32.powi(-25));
/// ```
#[inline(always)]
pub fn fmaf(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(all(windows, target_env = "gnu"))]
    return libm::fmaf(a, b, c);
    #[cfg(not(all(windows, target_env = "gnu")))]
    return a.mul_add(b, c);
}

/// `x^n` by repeated squaring, as [`f64::powi`] computes it where it does not call the C library's `pow`.
///
/// ```
/// assert_eq!(torsh_core::cmath::powi(10.0, -2), 0.01);
/// assert_eq!(torsh_core::cmath::powi(-2.0, 3), -8.0);
/// ```
#[inline]
pub fn powi(x: f64, n: i32) -> f64 {
    #[cfg(all(windows, target_env = "gnu"))]
    {
        let (mut power, mut square, mut left) = (1.0, x, n.unsigned_abs());
        loop {
            if left & 1 == 1 {
                power *= square;
            }
            left >>= 1;
            if left == 0 {
                break;
            }
            square *= square;
        }
        if n < 0 { 1.0 / power } else { power }
    }
    #[cfg(not(all(windows, target_env = "gnu")))]
    x.powi(n)
}
