//! Bessel functions, modified ones and the Airy function.

use std::f64::consts::FRAC_2_PI;

use super::trig::eighth;
use crate::vmath::exp::exp_clamped;
use crate::vmath::log::log_wide;
use crate::vmath::special::tables::lanes::*;
use crate::vmath::{Arch, fma64, poly64};

/// `exp(-|x|) I0(x)` below 8.
#[inline(always)]
pub(super) fn i0e_near<A: Arch>(x: f64) -> f64 {
    poly64::<A, 21>(0.25 * x.abs() - 1.0, &I0E)
}

/// `exp(-|x|) I0(x)` from 8 on.
#[inline(always)]
pub(super) fn i0e_far<A: Arch>(x: f64) -> f64 {
    let r = 1.0 / x.abs();
    poly64::<A, 9>(16.0 * r - 1.0, &I0E_FAR) * r.sqrt()
}

/// `exp(-|x|) I1(x)` below 8; 0 at -0, as PyTorch has it.
#[inline(always)]
pub(super) fn i1e_near<A: Arch>(x: f64) -> f64 {
    x * poly64::<A, 21>(0.25 * x.abs() - 1.0, &I1E) + 0.0
}

/// `exp(-|x|) I1(x)` from 8 on.
#[inline(always)]
pub(super) fn i1e_far<A: Arch>(x: f64) -> f64 {
    let r = 1.0 / x.abs();
    (poly64::<A, 9>(16.0 * r - 1.0, &I1E_FAR) * r.sqrt()).copysign(x)
}

macro_rules! unscaled {
    ($($(#[$doc:meta])* $name:ident $scaled:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<A: Arch>(x: f64) -> f64 {
            exp_clamped::<A>(x.abs()) * $scaled::<A>(x)
        }
    )*};
}

unscaled! {
    /// `I0(x)` below 8.
    i0_near i0e_near;
    /// `I0(x)` from 8 on.
    i0_far i0e_far;
    /// `I1(x)` below 8.
    i1_near i1e_near;
    /// `I1(x)` from 8 on.
    i1_far i1e_far;
}

/// `K0(x)` below 2.
#[inline(always)]
pub(super) fn k0_near<A: Arch>(x: f64) -> f64 {
    let (z, log) = (x * x, log_wide::<A>(0.5 * x));
    fma64::<A>(-log, poly64::<A, 8>(z, &I0), poly64::<A, 9>(z, &K0))
}

/// `K1(x)` below 2.
#[inline(always)]
pub(super) fn k1_near<A: Arch>(x: f64) -> f64 {
    let (z, log) = (x * x, log_wide::<A>(0.5 * x));
    fma64::<A>(log * x, poly64::<A, 7>(z, &I1), poly64::<A, 9>(z, &K1) / x)
}

/// `exp(x) K0(x)` from 2 on.
#[inline(always)]
pub(super) fn k0e_far<A: Arch>(x: f64) -> f64 {
    let r = 1.0 / x;
    poly64::<A, 14>(4.0 * r - 1.0, &K0E_FAR) * r.sqrt()
}

/// `exp(x) K1(x)` from 2 on.
#[inline(always)]
pub(super) fn k1e_far<A: Arch>(x: f64) -> f64 {
    let r = 1.0 / x;
    poly64::<A, 14>(4.0 * r - 1.0, &K1E_FAR) * r.sqrt()
}

/// `K0(x)` from 2 on.
#[inline(always)]
pub(super) fn k0_far<A: Arch>(x: f64) -> f64 {
    exp_clamped::<A>(-x) * k0e_far::<A>(x)
}

/// `K1(x)` from 2 on.
#[inline(always)]
pub(super) fn k1_far<A: Arch>(x: f64) -> f64 {
    exp_clamped::<A>(-x) * k1e_far::<A>(x)
}

/// Zeros of J0 and J1 below 10, in two parts.
const ZEROS0: [[f64; 2]; 3] = [
    [2.404_825_557_695_773, -1.176_691_651_530_894e-16],
    [5.520_078_110_286_311, 8.088_597_146_146_722e-17],
    [8.653_727_912_911_013, -2.928_126_073_207_79e-16],
];
const ZEROS1: [[f64; 2]; 2] = [
    [3.831_705_970_207_512_5, -1.526_918_409_008_806_7e-16],
    [7.015_586_669_815_619, -9.414_165_653_410_389e-17],
];

/// The product of the distances of `x^2`, x >= 0, from the squares of `zeros`.
#[inline(always)]
fn distances<const N: usize>(x: f64, zeros: &[[f64; 2]; N]) -> f64 {
    let mut product = 1.0;
    for zero in zeros {
        product *= from_zero(x, zero) * (x + zero[0]);
    }
    product
}

/// `J0(x)` below 10.
#[inline(always)]
pub(super) fn j0_near<A: Arch>(x: f64) -> f64 {
    distances(x.abs(), &ZEROS0) * poly64::<A, 15>(fma64::<A>(x * x, 0.02, -1.0), &J0)
}

/// `J1(x)` below 10.
#[inline(always)]
pub(super) fn j1_near<A: Arch>(x: f64) -> f64 {
    x * distances(x.abs(), &ZEROS1) * poly64::<A, 15>(fma64::<A>(x * x, 0.02, -1.0), &J1)
}

/// Hankel's expansion for x >= 10: P and Q, both times `sqrt(2 / (pi x))`, `cos(x - pi / 4)` and `sin(x - pi / 4)`.
#[inline(always)]
fn hankel<A: Arch>(x: f64, p: &[f64; 10], q: &[f64; 10]) -> [f64; 4] {
    let r = 1.0 / x;
    let t = fma64::<A>(200.0 * r, r, -1.0);
    let scale = (FRAC_2_PI * r).sqrt();
    let (cos, sin) = eighth::<A>(x);
    [
        scale * poly64::<A, 10>(t, p),
        scale * r * poly64::<A, 10>(t, q),
        cos,
        sin,
    ]
}

/// `J0(x)` from 10 on.
#[inline(always)]
pub(super) fn j0_far<A: Arch>(x: f64) -> f64 {
    let [p, q, cos, sin] = hankel::<A>(x.abs(), &HANKEL0_P, &HANKEL0_Q);
    fma64::<A>(p, cos, -(q * sin))
}

/// `J1(x)` from 10 on. cos(x - 3 pi / 4) is sin(x - pi / 4), and sin(x - 3 pi / 4) is -cos(x - pi / 4).
#[inline(always)]
pub(super) fn j1_far<A: Arch>(x: f64) -> f64 {
    let [p, q, cos, sin] = hankel::<A>(x.abs(), &HANKEL1_P, &HANKEL1_Q);
    let r = fma64::<A>(p, sin, q * cos);
    if x < 0.0 { -r } else { r }
}

/// `Y0(x)` from 10 on.
#[inline(always)]
pub(super) fn y0_far<A: Arch>(x: f64) -> f64 {
    let [p, q, cos, sin] = hankel::<A>(x, &HANKEL0_P, &HANKEL0_Q);
    fma64::<A>(p, sin, q * cos)
}

/// `Y1(x)` from 10 on.
#[inline(always)]
pub(super) fn y1_far<A: Arch>(x: f64) -> f64 {
    let [p, q, cos, sin] = hankel::<A>(x, &HANKEL1_P, &HANKEL1_Q);
    fma64::<A>(q, sin, -(p * cos))
}

/// Zeros of Y0 and Y1 below 10, in two parts.
const ZEROS_Y0: [[f64; 2]; 3] = [
    [0.893_576_966_279_167_5, 2.659_623_153_972_038_5e-17],
    [3.957_678_419_314_858, -1.076_434_069_756_270_6e-16],
    [7.086_051_060_301_773, -8.835_285_723_085_408e-17],
];
const ZEROS_Y1: [[f64; 2]; 3] = [
    [2.197_141_326_031_017, -4.825_983_587_645_45e-17],
    [5.429_681_040_794_135, 4.162_514_026_670_377e-16],
    [8.596_005_868_331_169, 2.841_583_834_006_366_4e-16],
];

/// The distance of `x` from a zero.
#[inline(always)]
fn from_zero(x: f64, zero: &[f64; 2]) -> f64 {
    (x - zero[0]) - zero[1]
}

/// `Y0(x)` for 0 < x < 10.
#[inline(always)]
pub(super) fn y0_near<A: Arch>(x: f64) -> f64 {
    let [first, second, third] = &ZEROS_Y0;
    let z = x * x;
    let log = FRAC_2_PI * log_wide::<A>(x * (1.0 / first[0]));
    let regular = from_zero(x, first) * (x + first[0]) * poly64::<A, 10>(z, &Y0_LOW);
    let low = fma64::<A>(log, poly64::<A, 9>(z, &J0_LOW), regular);
    let middle = from_zero(x, second)
        * from_zero(x, third)
        * poly64::<A, 19>((x - 6.5) * (1.0 / 3.5), &Y0_MIDDLE);
    if x < 3.0 { low } else { middle }
}

/// `Y1(x)` for 0 < x < 10.
#[inline(always)]
pub(super) fn y1_near<A: Arch>(x: f64) -> f64 {
    let [first, second, third] = &ZEROS_Y1;
    let z = x * x;
    let log = FRAC_2_PI * log_wide::<A>(x * (1.0 / first[0]));
    let regular = from_zero(x, first) * (x + first[0]) * poly64::<A, 10>(z, &Y1_LOW);
    let low = fma64::<A>(log * x, poly64::<A, 9>(z, &J1_LOW), regular / x);
    let middle = from_zero(x, second)
        * from_zero(x, third)
        * poly64::<A, 19>((x - 6.5) * (1.0 / 3.5), &Y1_MIDDLE);
    if x < 3.0 { low } else { middle }
}

/// `Ai(x)` for 0 <= x < 3.
#[inline(always)]
pub(super) fn airy_near<A: Arch>(x: f64) -> f64 {
    poly64::<A, 19>(x / 1.5 - 1.0, &AIRY)
}

/// `Ai(x)` for x >= 3.
#[inline(always)]
pub(super) fn airy_far<A: Arch>(x: f64) -> f64 {
    // 4 sqrt(3), twice the zeta of 3.
    const TWICE_SQRT_PI: f64 = 3.544_907_701_811_032;
    const TWICE: f64 = 6.928_203_230_275_509;
    let root = x.sqrt();
    let zeta = x * root * (2.0 / 3.0);
    let sum = poly64::<A, 11>(TWICE / zeta - 1.0, &AIRY_FAR);
    exp_clamped::<A>(-zeta) * sum / (root.sqrt() * TWICE_SQRT_PI)
}
