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

macro_rules! binary {
    ($($name:ident($a:ident, $b:ident) = $family:ident::$function:ident($x:ident, $y:ident);)*) => {
        crate::multiversion! {$(
            pub(super) fn $name<A>($a: f64, $b: f64) -> f64 {
                crate::vmath::special::$family::$function::<A>($x, $y)
            }
        )*}
    };
}

macro_rules! polynomials {
    ($($name:ident)*) => {
        /// In two doubles, as float64 needs it.
        pub(super) mod exact {
            crate::multiversion! {$(
                pub(crate) fn $name<A>(x: f64, n: f64) -> f64 {
                    crate::vmath::special::polynomials::$name::<A, true>(x, n)
                }
            )*}
        }
        /// In one double, exact enough for float32.
        pub(super) mod single {
            crate::multiversion! {$(
                pub(crate) fn $name<A>(x: f64, n: f64) -> f64 {
                    crate::vmath::special::polynomials::$name::<A, false>(x, n)
                }
            )*}
        }
    };
}

unary! {
    log_gamma = gamma::lgamma;
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
    ndtri = normal::ndtri;
}

binary! {
    zeta(x, y) = zeta::zeta(x, y);
    polygamma(x, y) = zeta::polygamma(y, x);
    multigammaln(x, y) = gamma::multigammaln(x, y);
    gammainc(x, y) = incomplete_gamma::gammainc(x, y);
    gammaincc(x, y) = incomplete_gamma::gammaincc(x, y);
}

polynomials! {
    hermite_polynomial_h
    hermite_polynomial_he
    laguerre_polynomial_l
    legendre_polynomial_p
    chebyshev_polynomial_t
    chebyshev_polynomial_u
    chebyshev_polynomial_v
    chebyshev_polynomial_w
    shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w
}
