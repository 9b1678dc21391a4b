//! The special functions of float32, a group of numbers at a time.
//!
//! The formulas are straight-line float64 code within about 2^-33, so a loop over a group becomes vector code for each
//! instruction set, and the one rounding to float32 is nearly all of the error. A function has one or two formulas, of
//! which a group takes those that its numbers need. Numbers for which there is none (nan, infinities, poles, negative
//! arguments of the gamma functions) are handed one by one to the functions of [`Special`].

mod bessel;
mod gamma;
mod incomplete_gamma;
mod normal;
mod polynomials;
mod trig;
mod zeta;

use super::Special;
use crate::vmath::exp::exp_clamped;
use crate::vmath::{Arch, erf};

pub(crate) use incomplete_gamma::{Gammainc, Gammaincc};
pub(crate) use polynomials::*;
pub(crate) use zeta::{Polygamma, Zeta};

/// Numbers that are computed together.
pub(crate) const GROUP: usize = 32;

/// A function of one float32, or of two.
pub(crate) trait GroupFunction {
    /// How many arguments it has.
    const ARITY: usize;
    /// A group of values.
    fn group<A: Arch>(x: &[f32; GROUP], y: &[f32; GROUP]) -> [f32; GROUP];
    /// One value, the same as in a group.
    #[inline(always)]
    fn one<A: Arch>(x: f32, y: f32) -> f32 {
        Self::group::<A>(&[x; GROUP], &[y; GROUP])[0]
    }
}

/// A group in float32; a loop, since `map` of an array does not become vectors.
#[inline(always)]
fn rounded(x: &[f64; GROUP]) -> [f32; GROUP] {
    let mut y = [0.0; GROUP];
    for (y, &x) in y.iter_mut().zip(x) {
        *y = x as f32;
    }
    y
}

const NEAR: u32 = 1;
const FAR: u32 = 2;
const ALONE: u32 = 4;

/// A function of one number by up to two formulas.
pub(crate) trait Formulas {
    /// Which formula serves: [`NEAR`], [`FAR`] or, by [`Special`], [`ALONE`].
    fn part(x: f32) -> u32;
    fn near<A: Arch>(x: f32) -> f32;
    fn far<A: Arch>(x: f32) -> f32;
    fn alone(x: f32) -> f32;
}

impl<F: Formulas> GroupFunction for F {
    const ARITY: usize = 1;

    #[inline(always)]
    fn group<A: Arch>(x: &[f32; GROUP], _: &[f32; GROUP]) -> [f32; GROUP] {
        let mut parts = 0;
        for &v in x {
            parts |= F::part(v);
        }
        let mut y = [0.0; GROUP];
        if parts & NEAR != 0 {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = F::near::<A>(x);
            }
        }
        if parts & FAR != 0 {
            for (y, &x) in y.iter_mut().zip(x) {
                let far = F::far::<A>(x);
                *y = if F::part(x) == FAR { far } else { *y };
            }
        }
        if parts & ALONE != 0 {
            for (y, &x) in y.iter_mut().zip(x) {
                if F::part(x) == ALONE {
                    *y = F::alone(x);
                }
            }
        }
        y
    }

    #[inline(always)]
    fn one<A: Arch>(x: f32, _: f32) -> f32 {
        match F::part(x) {
            NEAR => F::near::<A>(x),
            FAR => F::far::<A>(x),
            _ => F::alone(x),
        }
    }
}

/// Functions by formulas of a float64 `x`: `near` and where it serves, `far` and where it serves else, and the function of
/// the numbers that are left.
macro_rules! formulas {
    ($($name:ident |$x:ident| $near_if:expr => $near:expr $(, $far_if:expr => $far:expr)?, else $alone:expr;)*) => {$(
        pub(crate) struct $name;
        impl Formulas for $name {
            #[inline(always)]
            fn part($x: f32) -> u32 {
                let rest = ALONE;
                $(let rest = if $far_if { FAR } else { rest };)?
                if $near_if { NEAR } else { rest }
            }
            #[inline(always)]
            fn near<A: Arch>(x: f32) -> f32 {
                let $x = f64::from(x);
                $near as f32
            }
            #[inline(always)]
            fn far<A: Arch>(x: f32) -> f32 {
                $(let x = {
                    let $x = f64::from(x);
                    $far as f32
                };)?
                x
            }
            #[inline(always)]
            fn alone(x: f32) -> f32 {
                $alone(x)
            }
        }
    )*};
}

/// Whether a number is finite; by its bits, since LLVM takes the comparisons apart, element by element.
#[inline(always)]
fn finite(x: f32) -> bool {
    x.to_bits() & 0x7fff_ffff < f32::INFINITY.to_bits()
}

/// Whether a number is finite and above 0.
#[inline(always)]
fn positive(x: f32) -> bool {
    x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1
}

/// From here on arguments of sines are reduced one by one.
const TURNS: f32 = 65536.0;

formulas! {
    LogGamma |x| positive(x) => gamma::log_gamma::<A>(x), else Special::log_gamma;
    Psi |x| positive(x) => gamma::psi::<A>(x), else Special::psi;
    Trigamma |x| positive(x) => gamma::trigamma::<A>(x), else |x| Special::polygamma(x, 1.0);
    Erfinv |x| x.abs() < 0.9 => normal::erfinv_near::<A>(x), x.abs() < 1.0 => normal::erfinv_far::<A>(x), else erf::erfinv;
    Ndtri |x| (x > 0.002) & (x < 0.998) => normal::ndtri_near::<A>(x), (x > 0.0) & (x < 1.0) => normal::ndtri_far::<A>(x),
        else Special::ndtri;
    Erfcx |x| finite(x) => normal::erfcx::<A>(x), else Special::erfcx;
    Ndtr |x| finite(x) => normal::ndtr::<A>(x), else Special::ndtr;
    LogNdtr |x| finite(x) => normal::log_ndtr::<A>(x), else Special::log_ndtr;
    Entr |x| positive(x) => normal::entr::<A>(x), else Special::entr;
    I0 |x| x.abs() < 8.0 => bessel::i0_near::<A>(x), finite(x) => bessel::i0_far::<A>(x), else Special::i0;
    I0e |x| x.abs() < 8.0 => bessel::i0e_near::<A>(x), finite(x) => bessel::i0e_far::<A>(x), else Special::i0e;
    I1 |x| x.abs() < 8.0 => bessel::i1_near::<A>(x), finite(x) => bessel::i1_far::<A>(x), else Special::i1;
    I1e |x| x.abs() < 8.0 => bessel::i1e_near::<A>(x), finite(x) => bessel::i1e_far::<A>(x), else Special::i1e;
    ModifiedBesselK0 |x| positive(x) & (x < 2.0) => bessel::k0_near::<A>(x), positive(x) => bessel::k0_far::<A>(x),
        else Special::modified_bessel_k0;
    ModifiedBesselK1 |x| positive(x) & (x < 2.0) => bessel::k1_near::<A>(x), positive(x) => bessel::k1_far::<A>(x),
        else Special::modified_bessel_k1;
    ScaledModifiedBesselK0 |x| positive(x) & (x < 2.0) => bessel::k0_near::<A>(x) * exp_clamped::<A>(x),
        positive(x) => bessel::k0e_far::<A>(x), else Special::scaled_modified_bessel_k0;
    ScaledModifiedBesselK1 |x| positive(x) & (x < 2.0) => bessel::k1_near::<A>(x) * exp_clamped::<A>(x),
        positive(x) => bessel::k1e_far::<A>(x), else Special::scaled_modified_bessel_k1;
    BesselJ0 |x| x.abs() < 10.0 => bessel::j0_near::<A>(x), x.abs() < TURNS => bessel::j0_far::<A>(x), else Special::bessel_j0;
    BesselJ1 |x| x.abs() < 10.0 => bessel::j1_near::<A>(x), x.abs() < TURNS => bessel::j1_far::<A>(x), else Special::bessel_j1;
    BesselY0 |x| positive(x) & (x < 10.0) => bessel::y0_near::<A>(x),
        positive(x) & (x < TURNS) => bessel::y0_far::<A>(x), else Special::bessel_y0;
    BesselY1 |x| positive(x) & (x < 10.0) => bessel::y1_near::<A>(x),
        positive(x) & (x < TURNS) => bessel::y1_far::<A>(x), else Special::bessel_y1;
    SphericalBesselJ0 |x| (x != 0.0) & (x.abs() < TURNS) => trig::sin::<A>(x) / x, else Special::spherical_bessel_j0;
    AiryAi |x| (x == 0.0) | (positive(x) & (x < 3.0)) => bessel::airy_near::<A>(x), positive(x) => bessel::airy_far::<A>(x),
        else Special::airy_ai;
}
