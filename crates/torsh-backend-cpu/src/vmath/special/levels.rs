//! The functions, compiled for each instruction set.

macro_rules! unary {
    ($($name:ident = $family:ident::$function:ident;)*) => {
        crate::multiversion! {$(
            pub(super) fn $name<A>(x: f64) -> f64 {
                crate::vmath::special::$family::$function::<A>(x)
            }
        )*}
    };
}

unary! {
    psi = gamma::digamma;
    airy_ai = airy::airy_ai;
    bessel_j0 = bessel::bessel_j0;
    bessel_j1 = bessel::bessel_j1;
    bessel_y0 = bessel::bessel_y0;
    bessel_y1 = bessel::bessel_y1;
    spherical_bessel_j0 = bessel::spherical_bessel_j0;
    i0 = modified_bessel::i0;
    i0e = modified_bessel::i0e;
    i1 = modified_bessel::i1;
    i1e = modified_bessel::i1e;
    modified_bessel_k0 = modified_bessel::modified_bessel_k0;
    modified_bessel_k1 = modified_bessel::modified_bessel_k1;
    scaled_modified_bessel_k0 = modified_bessel::scaled_modified_bessel_k0;
    scaled_modified_bessel_k1 = modified_bessel::scaled_modified_bessel_k1;
    entr = normal::entr;
    erfcx = normal::erfcx;
    ndtr = normal::ndtr;
    log_ndtr = normal::log_ndtr;
}

/// Functions that float64 needs more digits of than float32.
macro_rules! by_precision {
    ($($name:ident ($a:ident $(, $b:ident)?) = $family:ident::$function:ident($x:ident $(, $y:ident)?);)*) => {
        /// With all digits of float64.
        pub(super) mod exact {
            crate::multiversion! {$(
                pub(crate) fn $name<A>($a: f64 $(, $b: f64)?) -> f64 {
                    crate::vmath::special::$family::$function::<A, true>($x $(, $y)?)
                }
            )*}
        }
        /// With more digits than float32 has.
        pub(super) mod single {
            crate::multiversion! {$(
                pub(crate) fn $name<A>($a: f64 $(, $b: f64)?) -> f64 {
                    crate::vmath::special::$family::$function::<A, false>($x $(, $y)?)
                }
            )*}
        }
    };
}

by_precision! {
    log_gamma(x) = gamma::lgamma(x);
    ndtri(x) = normal::ndtri(x);
    zeta(x, y) = zeta::zeta(x, y);
    polygamma(x, y) = zeta::polygamma(y, x);
    multigammaln(x, y) = gamma::multigammaln(x, y);
    gammainc(x, y) = incomplete_gamma::gammainc(x, y);
    gammaincc(x, y) = incomplete_gamma::gammaincc(x, y);
    hermite_polynomial_h(x, n) = polynomials::hermite_polynomial_h(x, n);
    hermite_polynomial_he(x, n) = polynomials::hermite_polynomial_he(x, n);
    laguerre_polynomial_l(x, n) = polynomials::laguerre_polynomial_l(x, n);
    legendre_polynomial_p(x, n) = polynomials::legendre_polynomial_p(x, n);
    chebyshev_polynomial_t(x, n) = polynomials::chebyshev_polynomial_t(x, n);
    chebyshev_polynomial_u(x, n) = polynomials::chebyshev_polynomial_u(x, n);
    chebyshev_polynomial_v(x, n) = polynomials::chebyshev_polynomial_v(x, n);
    chebyshev_polynomial_w(x, n) = polynomials::chebyshev_polynomial_w(x, n);
    shifted_chebyshev_polynomial_t(x, n) = polynomials::shifted_chebyshev_polynomial_t(x, n);
    shifted_chebyshev_polynomial_u(x, n) = polynomials::shifted_chebyshev_polynomial_u(x, n);
    shifted_chebyshev_polynomial_v(x, n) = polynomials::shifted_chebyshev_polynomial_v(x, n);
    shifted_chebyshev_polynomial_w(x, n) = polynomials::shifted_chebyshev_polynomial_w(x, n);
}
