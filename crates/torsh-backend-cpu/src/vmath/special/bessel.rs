//! Bessel functions of orders 0 and 1, and the spherical one of order 0.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use torsh_core::cmath;

use super::dd::{horner, piece_with_zero};
use super::tables::bessel::{HANKEL0, HANKEL1, J0, J1, Y0, Y0_NEAR, Y1, Y1_NEAR};
use crate::vmath::Arch;

/// From here on Hankel's asymptotic expansion is exact enough.
const LARGE: f64 = 25.0;

/// `sqrt(2 / (pi x))`, and P and Q of Hankel's expansion.
#[inline(always)]
fn hankel<A: Arch>(x: f64, table: &[[f64; 10]; 2]) -> (f64, f64, f64) {
    let r = 1.0 / x;
    let z = r * r;
    (
        (FRAC_2_PI * r).sqrt(),
        horner::<A>(z, &table[0]),
        r * horner::<A>(z, &table[1]),
    )
}

/// `cos(x - pi / 4)` and `sin(x - pi / 4)`.
#[inline(always)]
fn eighth(x: f64) -> (f64, f64) {
    let (s, c) = cmath::sin_cos(x);
    ((c + s) * FRAC_1_SQRT_2, (s - c) * FRAC_1_SQRT_2)
}

/// Bessel function of the first kind of order 0; nan at the infinities, as PyTorch has it.
#[inline(always)]
pub(crate) fn bessel_j0<A: Arch>(x: f64) -> f64 {
    // (-1)^k / (k!^2 4^k).
    const SERIES: [f64; 10] = [
        1.0,
        -0.25,
        0.015625,
        -0.00043402777777777775,
        6.781684027777777e-06,
        -6.781684027777778e-08,
        4.709502797067901e-10,
        -2.4028075495244395e-12,
        9.385966990329842e-15,
        -2.896903392077112e-17,
    ];
    let x = x.abs();
    if x < 1.0 {
        return horner::<A>(x * x, &SERIES);
    }
    if x < LARGE {
        return piece_with_zero::<A>(x, &J0[x as usize - 1]);
    }
    let (scale, p, q) = hankel::<A>(x, &HANKEL0);
    let (c, s) = eighth(x);
    scale * (p * c - q * s)
}

/// Bessel function of the first kind of order 1; nan at the infinities, as PyTorch has it.
#[inline(always)]
pub(crate) fn bessel_j1<A: Arch>(x: f64) -> f64 {
    let a = x.abs();
    if a < 1.0 {
        return x * j1_near::<A>(x);
    }
    let r = if a < LARGE {
        piece_with_zero::<A>(a, &J1[a as usize - 1])
    } else {
        // cos(x - 3 pi / 4) is sin(x - pi / 4), and sin(x - 3 pi / 4) is -cos(x - pi / 4).
        let (scale, p, q) = hankel::<A>(a, &HANKEL1);
        let (c, s) = eighth(a);
        scale * (p * s + q * c)
    };
    if x < 0.0 { -r } else { r }
}

/// `J1(x) / x` by its power series, for |x| < 1.
#[inline(always)]
fn j1_near<A: Arch>(x: f64) -> f64 {
    // (-1)^k / (k! (k + 1)! 2^(2k + 1)).
    const SERIES: [f64; 8] = [
        0.5,
        -0.0625,
        0.002_604_166_666_666_666_5,
        -5.425_347_222_222_222e-5,
        6.781_684_027_777_777e-7,
        -5.651403356481481e-9,
        3.363_930_569_334_215_4e-11,
        -1.501_754_718_452_774_7e-13,
    ];
    horner::<A>(x * x, &SERIES)
}

/// The row of [`Y0`] and [`Y1`] for x in [1/2, 25).
#[inline(always)]
fn row(x: f64) -> usize {
    if x < 1.0 {
        (x * 4.0) as usize - 2
    } else if x < 2.0 {
        (x * 2.0) as usize
    } else {
        x as usize + 2
    }
}

/// Bessel function of the second kind of order 0; nan for negative arguments and, as PyTorch has it, at infinity.
#[inline(always)]
pub(crate) fn bessel_y0<A: Arch>(x: f64) -> f64 {
    if x <= 0.0 {
        return if x == 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::NAN
        };
    }
    if x < 0.5 {
        let regular = horner::<A>(x * x, &Y0_NEAR[0]);
        return FRAC_2_PI * x.ln() * bessel_j0::<A>(x) + regular;
    }
    if x < LARGE {
        return piece_with_zero::<A>(x, &Y0[row(x)]);
    }
    let (scale, p, q) = hankel::<A>(x, &HANKEL0);
    let (c, s) = eighth(x);
    scale * (p * s + q * c)
}

/// Bessel function of the second kind of order 1; nan for negative arguments and, as PyTorch has it, at infinity.
#[inline(always)]
pub(crate) fn bessel_y1<A: Arch>(x: f64) -> f64 {
    if x <= 0.0 {
        return if x == 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::NAN
        };
    }
    if x < 0.5 {
        let regular = x * (FRAC_2_PI * x.ln() * j1_near::<A>(x) + horner::<A>(x * x, &Y1_NEAR[0]));
        return regular - FRAC_2_PI / x;
    }
    if x < LARGE {
        return piece_with_zero::<A>(x, &Y1[row(x)]);
    }
    let (scale, p, q) = hankel::<A>(x, &HANKEL1);
    let (c, s) = eighth(x);
    scale * (q * s - p * c)
}

/// `sin(x) / x`.
#[inline(always)]
pub(crate) fn spherical_bessel_j0<A: Arch>(x: f64) -> f64 {
    if x.is_infinite() {
        0.0
    } else if x == 0.0 {
        1.0
    } else {
        cmath::sin(x) / x
    }
}
