//! The functions for `f32`.

use super::special::Special;
use super::{Arch, VMath, erf, exp, log, pow, trig, trig_inverse};

macro_rules! forward {
    ($($module:ident: $($name:ident)*;)*) => {$($(
        #[inline(always)]
        fn $name<A: Arch>(self) -> f32 {
            $module::$name::<A>(self)
        }
    )*)*};
}

impl VMath for f32 {
    const RAISED: f32 = exp::RAISED;

    forward! {
        exp: exp exp_low exp_raised exp2 expm1 sinh cosh tanh sigmoid;
        log: log log2 log10 log1p asinh acosh atanh;
        trig: sin cos tan;
        trig_inverse: asin acos atan;
        erf: erf erf_normal erfc;
    }

    #[inline(always)]
    fn pow<A: Arch>(self, y: f32) -> f32 {
        pow::pow::<A>(self, y)
    }

    #[inline(always)]
    fn atan2<A: Arch>(self, x: f32) -> f32 {
        trig_inverse::atan2::<A>(self, x)
    }

    #[inline]
    fn erfinv<A: Arch>(self) -> f32 {
        erf::erfinv(self)
    }

    #[inline]
    fn lgamma<A: Arch>(self) -> f32 {
        Special::log_gamma(self)
    }

    #[inline]
    fn digamma<A: Arch>(self) -> f32 {
        Special::psi(self)
    }

    #[inline(always)]
    unsafe fn sin_into<A: Arch>(src: *const f32, dst: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { trig::sin_into::<A>(src, dst, n) }
    }

    #[inline(always)]
    unsafe fn cos_into<A: Arch>(src: *const f32, dst: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { trig::cos_into::<A>(src, dst, n) }
    }
}
