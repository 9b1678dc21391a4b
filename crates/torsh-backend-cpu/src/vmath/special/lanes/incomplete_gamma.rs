//! The regularised incomplete gamma functions of orders up to 100.

use super::gamma::stirling;
use super::{GROUP, GroupFunction};
use crate::machine::tuning::pointwise::TERMS;
use crate::vmath::exp::exp_clamped;
use crate::vmath::log::{log_and_reciprocal, log_wide};
use crate::vmath::special::Special;
use crate::vmath::special::tables::lanes::LGAMMA;
use crate::vmath::{Arch, fma64, poly64};

/// Up to here the series and the fraction are short enough, and their products do not overflow.
const ORDERS: f32 = 100.0;
const ARGUMENTS: f32 = 1e6;
/// What is less than this part of a sum is left out.
const LEAST: f64 = 1e-9;

/// The lower function.
pub(crate) struct Gammainc;
impl GroupFunction for Gammainc {
    const ARITY: usize = 2;

    #[inline(always)]
    fn group<A: Arch>(a: &[f32; GROUP], x: &[f32; GROUP]) -> [f32; GROUP] {
        either::<A, false>(a, x)
    }
}

/// The upper function.
pub(crate) struct Gammaincc;
impl GroupFunction for Gammaincc {
    const ARITY: usize = 2;

    #[inline(always)]
    fn group<A: Arch>(a: &[f32; GROUP], x: &[f32; GROUP]) -> [f32; GROUP] {
        either::<A, true>(a, x)
    }
}

/// Whether the functions are computed together.
#[inline(always)]
fn served<const UPPER: bool>(a: f32, x: f32) -> bool {
    let known = (a > 0.0) & (a <= ORDERS) & (x > 0.0) & (x <= ARGUMENTS);
    // Here the upper function is little that the lower one leaves of 1.
    known & !(UPPER & (a < 1.0) & (x < 1.1))
}

#[inline(always)]
fn either<A: Arch, const UPPER: bool>(a: &[f32; GROUP], x: &[f32; GROUP]) -> [f32; GROUP] {
    let (mut order, mut at) = ([1.0; GROUP], [1.0; GROUP]);
    let (mut alone, mut some, mut others) = (false, false, false);
    for i in 0..GROUP {
        let known = served::<UPPER>(a[i], x[i]);
        alone |= !known;
        order[i] = if known { f64::from(a[i]) } else { 1.0 };
        at[i] = if known { f64::from(x[i]) } else { 1.0 };
        some |= by_series(order[i], at[i]);
        others |= !by_series(order[i], at[i]);
    }
    let lower = if some {
        series::<A>(&order, &at)
    } else {
        [0.0; GROUP]
    };
    let upper = if others {
        fraction::<A>(&order, &at)
    } else {
        [0.0; GROUP]
    };
    let mut y = [0.0; GROUP];
    for i in 0..GROUP {
        let (own, value) = if by_series(order[i], at[i]) {
            (!UPPER, lower[i])
        } else {
            (UPPER, upper[i])
        };
        let value = value * prefactor::<A>(order[i], at[i]);
        y[i] = if own { value } else { 1.0 - value } as f32;
    }
    if alone {
        for i in 0..GROUP {
            if !served::<UPPER>(a[i], x[i]) {
                y[i] = if UPPER {
                    Special::gammaincc(a[i], x[i])
                } else {
                    Special::gammainc(a[i], x[i])
                };
            }
        }
    }
    y
}

/// Whether the lower function's series serves, or else the upper one's fraction.
#[inline(always)]
fn by_series(a: f64, x: f64) -> bool {
    (x < 1.1) | (x < a + 1.0)
}

/// `x^a e^-x / Gamma(a + 1)`.
#[inline(always)]
fn prefactor<A: Arch>(a: f64, x: f64) -> f64 {
    let above = a + 1.0;
    let near = a * (a - 1.0) * poly64::<A, 17>(a - 1.0, &LGAMMA);
    let (log, r) = log_and_reciprocal::<A>(above);
    let far = stirling::<A>(above, log, r);
    let log_gamma = if a < 2.0 { near } else { far };
    exp_clamped::<A>(fma64::<A>(a, log_wide::<A>(x), -x) - log_gamma)
}

/// The lower function over [`prefactor`]: the sum of `x^n / ((a + 1) .. (a + n))`, as one fraction.
#[inline(always)]
fn series<A: Arch>(a: &[f64; GROUP], x: &[f64; GROUP]) -> [f64; GROUP] {
    let (mut top, mut bottom, mut power) = ([1.0; GROUP], [1.0; GROUP], [1.0; GROUP]);
    let mut at = [0.0; GROUP];
    for i in 0..GROUP {
        at[i] = if by_series(a[i], x[i]) { x[i] } else { 0.0 };
    }
    let mut n = 0.0;
    loop {
        let mut going = 0u64;
        for i in 0..GROUP {
            let more = power[i] > LEAST * top[i];
            let (mut t, mut b, mut p) = (top[i], bottom[i], power[i]);
            let mut factor = a[i] + n;
            for _ in 0..TERMS {
                factor += 1.0;
                p *= at[i];
                t = fma64::<A>(t, factor, p);
                b *= factor;
            }
            // A sum that has ended does not depend on the others.
            top[i] = if more { t } else { top[i] };
            bottom[i] = if more { b } else { bottom[i] };
            power[i] = if more { p } else { power[i] };
            going |= u64::from(more);
        }
        if going == 0 {
            break;
        }
        n += TERMS as f64;
    }
    for i in 0..GROUP {
        top[i] /= bottom[i];
    }
    top
}

/// The upper function over [`prefactor`], by its continued fraction (DLMF 8.9.2), from the inside out.
#[inline(always)]
fn fraction<A: Arch>(a: &[f64; GROUP], x: &[f64; GROUP]) -> [f64; GROUP] {
    let (mut top, mut bottom, mut parts) = ([0.0; GROUP], [1.0; GROUP], [0.0; GROUP]);
    let mut k = 0.0_f64;
    for i in 0..GROUP {
        // Further parts where x is near 1 or the order.
        let own = if by_series(a[i], x[i]) {
            0.0
        } else {
            8.0 + 50.0 / x[i] + a[i].min(30.0)
        };
        parts[i] = own;
        k = k.max(own);
    }
    k = k.floor();
    while k > 0.0 {
        for i in 0..GROUP {
            let more = k <= parts[i];
            let next = fma64::<A>(x[i] + (2.0 * k + 1.0 - a[i]), bottom[i], top[i]);
            let numerator = k * (a[i] - k) * bottom[i];
            top[i] = if more { numerator } else { top[i] };
            bottom[i] = if more { next } else { bottom[i] };
        }
        k -= 1.0;
    }
    for i in 0..GROUP {
        top[i] = a[i] * bottom[i] / fma64::<A>(x[i] - a[i] + 1.0, bottom[i], top[i]);
    }
    top
}
