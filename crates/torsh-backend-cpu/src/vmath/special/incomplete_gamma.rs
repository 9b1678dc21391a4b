//! The regularised incomplete gamma functions.

use std::f64::consts::PI;

use torsh_core::cmath;

use super::dd::{self, Dd, horner, quick_sum, two_product};
use super::gamma::{lgamma1p, stirling};
use super::normal::erfcx_right;
use super::tables::temme::TEMME;
use crate::vmath::Arch;

/// Whether Temme's uniform expansion (DLMF 8.12) serves: for large orders and arguments near them.
#[inline(always)]
fn is_uniform<const EXACT: bool>(a: f64, x: f64) -> bool {
    let least = if EXACT { 30.0 } else { 4.0 };
    a >= least && x > 0.6 * a && x < 1.4 * a
}

/// A term is left out that is less than this part of a sum.
const fn least<const EXACT: bool>() -> f64 {
    if EXACT { 1e-17 } else { 1e-10 }
}

/// `Gamma(1 + a)` for a in [0, 9).
#[inline(always)]
fn gamma1p<A: Arch>(a: f64) -> f64 {
    let mut product = 1.0;
    let mut at = a;
    while at >= 1.0 {
        product *= at;
        at -= 1.0;
    }
    product * cmath::exp(lgamma1p::<A>(at))
}

/// `mu - ln(1 + mu)` for `1 + mu = x / a`, and mu.
#[inline(always)]
fn deviance<A: Arch, const EXACT: bool>(a: f64, x: f64) -> (Dd, f64) {
    let q = x / a;
    let back = two_product::<A>(q, a);
    let ratio = quick_sum(q, ((x - back.hi) - back.lo) / a);
    let mu = ratio.add(-1.0);
    let m = mu.hi;
    if m.abs() < 0.01 {
        // mu^2 / 2 - mu^3 / 3 + ...
        let c = [
            0.5,
            -1.0 / 3.0,
            0.25,
            -0.2,
            1.0 / 6.0,
            -1.0 / 7.0,
            0.125,
            -1.0 / 9.0,
            0.1,
        ];
        return (Dd::new(m * m * horner::<A>(m, &c)), m);
    }
    let log = dd::log_for::<A, EXACT>(ratio.hi).add(ratio.lo / ratio.hi);
    (mu.plus(log.neg()), m)
}

/// `x^a e^-x / Gamma(a + 1)`.
#[inline(always)]
fn prefactor<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    if a < 9.0 {
        let power = dd::log_for::<A, EXACT>(x).mul::<A>(a).add(-x);
        return power.exp::<A>() / gamma1p::<A>(a);
    }
    // Outside of these ratios it is less than the least number.
    if !(1e-300..1e10).contains(&(x / a)) {
        return 0.0;
    }
    let power = deviance::<A, EXACT>(a, x)
        .0
        .mul::<A>(-a)
        .add(-stirling::<A>(a));
    power.exp::<A>() / (2.0 * PI * a).sqrt()
}

/// The lower function by its power series.
#[inline(always)]
fn series<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    let (mut sum, mut term, mut at) = (1.0, 1.0, a);
    for _ in 0..400 {
        at += 1.0;
        term *= x / at;
        sum += term;
        if term <= least::<EXACT>() * sum {
            break;
        }
    }
    prefactor::<A, EXACT>(a, x) * sum
}

/// The upper function by its continued fraction (DLMF 8.9.2), from the inside out.
#[inline(always)]
fn fraction<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    let scale = prefactor::<A, EXACT>(a, x);
    if scale == 0.0 {
        return 0.0;
    }
    // Enough parts for 2^-56; further ones where x is near 1 or the order.
    let mut k = (if EXACT {
        16.0 + 110.0 / x
    } else {
        8.0 + 50.0 / x
    } + a.min(30.0))
    .floor();
    let mut below = 0.0;
    while k > 0.0 {
        below = k * (a - k) / (x + (2.0 * k + 1.0 - a) + below);
        k -= 1.0;
    }
    scale * a / ((x - a) + 1.0 + below)
}

/// The upper function for small `a` and `x`, where it is what the lower one leaves of 1.
#[inline(always)]
fn small_upper<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    let (mut factor, mut sum) = (1.0, 0.0);
    let mut n = 1.0;
    while n < 60.0 {
        factor *= -x / n;
        let term = factor / (a + n);
        sum += term;
        if term.abs() <= least::<EXACT>() * sum.abs() {
            break;
        }
        n += 1.0;
    }
    let power = dd::log_for::<A, EXACT>(x)
        .mul::<A>(a)
        .add(-lgamma1p::<A>(a));
    -cmath::exp_m1(power.value()) - a * sum * power.exp::<A>()
}

/// Both functions, lower and upper, where [`is_uniform`].
#[inline(always)]
fn uniform<A: Arch, const EXACT: bool>(a: f64, x: f64) -> (f64, f64) {
    let (part, mu) = deviance::<A, EXACT>(a, x);
    let eta = (2.0 * part.hi).sqrt().copysign(mu);
    let power = part.mul::<A>(-a);
    let decay = power.exp::<A>();
    let (mut sum, mut scale) = (0.0, 1.0);
    for row in &TEMME {
        // |eta| is below 1/2: fewer powers are enough for float32.
        let c = if EXACT { &row[..] } else { &row[..12] };
        sum += scale * horner::<A>(eta, c);
        scale /= a;
        if scale < 100.0 * least::<EXACT>() {
            break;
        }
    }
    let rest = sum / (2.0 * PI * a).sqrt();
    let tail = 0.5 * erfcx_right::<A>((-power.hi).max(0.0).sqrt());
    if mu < 0.0 {
        let lower = decay * (tail - rest);
        (lower, 1.0 - lower)
    } else {
        let upper = decay * (tail + rest);
        (1.0 - upper, upper)
    }
}

/// Where the functions are known or undefined: the lower one, or nothing elsewhere.
#[inline(always)]
fn special(a: f64, x: f64) -> Option<f64> {
    if !(a >= 0.0 && x >= 0.0) {
        Some(f64::NAN)
    } else if a == 0.0 {
        Some(if x > 0.0 { 1.0 } else { f64::NAN })
    } else if x == 0.0 {
        Some(0.0)
    } else if a == f64::INFINITY {
        Some(if x == f64::INFINITY { f64::NAN } else { 0.0 })
    } else if x == f64::INFINITY {
        Some(1.0)
    } else {
        None
    }
}

/// The regularised lower incomplete gamma function.
#[inline(always)]
pub(crate) fn gammainc<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    if let Some(known) = special(a, x) {
        return known;
    }
    if is_uniform::<EXACT>(a, x) {
        uniform::<A, EXACT>(a, x).0
    } else if x < 1.1 || x < a {
        series::<A, EXACT>(a, x)
    } else {
        1.0 - fraction::<A, EXACT>(a, x)
    }
}

/// The regularised upper incomplete gamma function.
#[inline(always)]
pub(crate) fn gammaincc<A: Arch, const EXACT: bool>(a: f64, x: f64) -> f64 {
    if let Some(known) = special(a, x) {
        return 1.0 - known;
    }
    if is_uniform::<EXACT>(a, x) {
        uniform::<A, EXACT>(a, x).1
    } else if x < 1.1 && a < 1.0 && (x >= 0.5 || -0.4 / x.ln() >= a) {
        small_upper::<A, EXACT>(a, x)
    } else if x < 1.1 || x < a {
        1.0 - series::<A, EXACT>(a, x)
    } else {
        fraction::<A, EXACT>(a, x)
    }
}
