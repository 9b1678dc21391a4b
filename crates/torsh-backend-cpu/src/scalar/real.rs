//! `f32` and `f64`.

use super::Real;
use crate::simd::{Arch, fma32, fma64};

macro_rules! real {
    ($t:ident, $fma:ident, $nextafter:path, |$x:ident, $y:ident| $hypot:expr) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const INFINITY: $t = $t::INFINITY;
            const NAN: $t = $t::NAN;
            const MAX: $t = $t::MAX;

            #[inline(always)]
            fn c(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn fma<A: Arch>(self, b: $t, c: $t) -> $t {
                $fma::<A>(self, b, c)
            }
            #[inline(always)]
            fn abs(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn floor(self) -> $t {
                $t::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> $t {
                $t::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> $t {
                $t::trunc(self)
            }
            #[inline(always)]
            fn round(self) -> $t {
                $t::round_ties_even(self)
            }
            #[inline(always)]
            fn copysign(self, sign: $t) -> $t {
                $t::copysign(self, sign)
            }
            #[inline(always)]
            fn signbit(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn fmod(self, y: $t) -> $t {
                self % y
            }
            #[inline(always)]
            fn hypot(self, y: $t) -> $t {
                let ($x, $y) = (self, y);
                $hypot
            }
            #[inline(always)]
            fn nextafter(self, y: $t) -> $t {
                $nextafter(self, y)
            }
        }
    };
}

real!(f32, fma32, libm::nextafterf, |x, y| {
    // Squares of f32 neither overflow nor vanish in f64.
    let (a, b) = (x as f64, y as f64);
    let r = (a * a + b * b).sqrt() as f32;
    if x.is_infinite() | y.is_infinite() {
        f32::INFINITY
    } else {
        r
    }
});
real!(
    f64,
    fma64,
    libm::nextafter,
    |x, y| torsh_core::cmath::hypot(x, y)
);
