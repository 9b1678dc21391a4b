//! The functions for `f64`: the platform's and `libm`'s, one element at a time.

use torsh_core::cmath;

use super::special::Special;
use super::{Arch, VMath, erf, exp};

macro_rules! forward {
    ($($name:ident: $path:path;)*) => {$(
        #[inline(always)]
        fn $name<A: Arch>(self) -> f64 {
            $path(self)
        }
    )*};
}

impl VMath for f64 {
    const RAISED: f64 = 1.0;

    forward! {
        exp: cmath::exp;
        exp_low: exp::exp64::<A>;
        exp_raised: exp::exp64::<A>;
        exp2: cmath::exp2;
        expm1: cmath::exp_m1;
        log: f64::ln;
        log2: f64::log2;
        log10: cmath::log10;
        log1p: cmath::ln_1p;
        sin: cmath::sin;
        cos: cmath::cos;
        tan: cmath::tan;
        sinh: cmath::sinh;
        cosh: cmath::cosh;
        tanh: cmath::tanh;
        asin: cmath::asin;
        acos: cmath::acos;
        atan: cmath::atan;
        asinh: libm::asinh;
        atanh: libm::atanh;
        erf: libm::erf;
        erfc: libm::erfc;
        erfinv: erf::erfinv64;
        lgamma: Special::log_gamma;
        digamma: Special::psi;
    }

    #[inline(always)]
    fn erf_normal<A: Arch>(self) -> f64 {
        libm::erf(self * std::f64::consts::FRAC_1_SQRT_2)
    }

    #[inline(always)]
    fn sigmoid<A: Arch>(self) -> f64 {
        let e = cmath::exp(-self.abs());
        if self < 0.0 {
            e / (1.0 + e)
        } else {
            1.0 / (1.0 + e)
        }
    }

    #[inline(always)]
    fn acosh<A: Arch>(self) -> f64 {
        // libm's answers below -1 are arbitrary.
        if self < 1.0 {
            f64::NAN
        } else {
            libm::acosh(self)
        }
    }

    #[inline(always)]
    fn pow<A: Arch>(self, y: f64) -> f64 {
        cmath::pow(self, y)
    }

    #[inline(always)]
    fn atan2<A: Arch>(self, x: f64) -> f64 {
        self.atan2(x)
    }

    #[inline(always)]
    unsafe fn sin_into<A: Arch>(src: *const f64, dst: *mut f64, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *dst.add(i) = cmath::sin(*src.add(i)) };
        }
    }

    #[inline(always)]
    unsafe fn cos_into<A: Arch>(src: *const f64, dst: *mut f64, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *dst.add(i) = cmath::cos(*src.add(i)) };
        }
    }
}
