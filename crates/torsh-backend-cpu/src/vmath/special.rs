//! Special functions in float64, a family a file; float32 computes in float64 and rounds once.
//!
//! The functions branch on their argument's region, so they are compiled once for each instruction set (`levels`) and
//! called for each element. Where digits would be lost, in exponents and in sums that cancel, they compute in two
//! doubles (`dd`). The loops over float32 tensors compute groups of numbers instead (`lanes`), and use these functions
//! for the numbers that have no formula there.

mod airy;
mod bessel;
mod dd;
mod gamma;
mod incomplete_gamma;
pub(crate) mod lanes;
mod levels;
mod modified_bessel;
mod normal;
mod polynomials;
mod tables;
mod zeta;

use levels::{exact, single};

/// Declares the trait, and implements it for both types.
macro_rules! functions {
    (
        unary { $($(#[doc = $unary_doc:literal])+ $unary:ident;)* }
        unary_by_precision { $($(#[doc = $precise_doc:literal])+ $precise:ident;)* }
        binary_by_precision { $($(#[doc = $binary_doc:literal])+ $binary:ident;)* }
    ) => {
        /// The special functions, for `f32` and `f64`. At poles and outside of their domains they have PyTorch's values.
        pub trait Special: Copy {
            $($(#[doc = $unary_doc])+ fn $unary(self) -> Self;)*
            $($(#[doc = $precise_doc])+ fn $precise(self) -> Self;)*
            $($(#[doc = $binary_doc])+ fn $binary(self, y: Self) -> Self;)*
        }

        impl Special for f64 {
            $(#[inline(always)]
            fn $unary(self) -> f64 {
                levels::$unary(self)
            })*
            $(#[inline(always)]
            fn $precise(self) -> f64 {
                exact::$precise(self)
            })*
            $(#[inline(always)]
            fn $binary(self, y: f64) -> f64 {
                exact::$binary(self, y)
            })*
        }

        impl Special for f32 {
            $(#[inline(always)]
            fn $unary(self) -> f32 {
                levels::$unary(f64::from(self)) as f32
            })*
            $(#[inline(always)]
            fn $precise(self) -> f32 {
                single::$precise(f64::from(self)) as f32
            })*
            $(#[inline(always)]
            fn $binary(self, y: f32) -> f32 {
                single::$binary(f64::from(self), f64::from(y)) as f32
            })*
        }
    };
}

functions! {
    unary {
        /// Derivative of the logarithm of the gamma function.
        psi;
        /// Airy function Ai.
        airy_ai;
        /// Bessel function of the first kind of order 0.
        bessel_j0;
        /// Bessel function of the first kind of order 1.
        bessel_j1;
        /// Bessel function of the second kind of order 0.
        bessel_y0;
        /// Bessel function of the second kind of order 1.
        bessel_y1;
        /// `sin(x) / x`.
        spherical_bessel_j0;
        /// Modified Bessel function of the first kind of order 0.
        i0;
        /// `exp(-|x|) I0(x)`.
        i0e;
        /// Modified Bessel function of the first kind of order 1.
        i1;
        /// `exp(-|x|) I1(x)`.
        i1e;
        /// Modified Bessel function of the second kind of order 0.
        modified_bessel_k0;
        /// Modified Bessel function of the second kind of order 1.
        modified_bessel_k1;
        /// `exp(x) K0(x)`.
        scaled_modified_bessel_k0;
        /// `exp(x) K1(x)`.
        scaled_modified_bessel_k1;
        /// `-x ln(x)`.
        entr;
        /// `exp(x^2) erfc(x)`.
        erfcx;
        /// Distribution function of the standard normal distribution.
        ndtr;
        /// Logarithm of `ndtr`.
        log_ndtr;
    }
    unary_by_precision {
        /// Logarithm of the magnitude of the gamma function.
        log_gamma;
        /// Inverse of `ndtr`.
        ndtri;
    }
    binary_by_precision {
        /// Hurwitz zeta function of `self` and `y`.
        zeta;
        /// Derivative of order `y` of `psi`.
        polygamma;
        /// Logarithm of the multivariate gamma function of order `y`.
        multigammaln;
        /// Regularised lower incomplete gamma function of order `self`.
        gammainc;
        /// Regularised upper incomplete gamma function of order `self`.
        gammaincc;
        /// Hermite polynomial of order `y`, the physicists'.
        hermite_polynomial_h;
        /// Hermite polynomial of order `y`, the probabilists'.
        hermite_polynomial_he;
        /// Laguerre polynomial of order `y`.
        laguerre_polynomial_l;
        /// Legendre polynomial of order `y`.
        legendre_polynomial_p;
        /// Chebyshev polynomial of the first kind and order `y`.
        chebyshev_polynomial_t;
        /// Chebyshev polynomial of the second kind and order `y`.
        chebyshev_polynomial_u;
        /// Chebyshev polynomial of the third kind and order `y`.
        chebyshev_polynomial_v;
        /// Chebyshev polynomial of the fourth kind and order `y`.
        chebyshev_polynomial_w;
        /// Chebyshev polynomial of the first kind and order `y` at `2 x - 1`.
        shifted_chebyshev_polynomial_t;
        /// Chebyshev polynomial of the second kind and order `y` at `2 x - 1`.
        shifted_chebyshev_polynomial_u;
        /// Chebyshev polynomial of the third kind and order `y` at `2 x - 1`.
        shifted_chebyshev_polynomial_v;
        /// Chebyshev polynomial of the fourth kind and order `y` at `2 x - 1`.
        shifted_chebyshev_polynomial_w;
    }
}
