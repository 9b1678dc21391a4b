//! The Hurwitz zeta function, and the derivatives of digamma that it is a multiple of.

use super::{GROUP, GroupFunction, Trigamma, positive, rounded};
use crate::vmath::exp::exp_clamped;
use crate::vmath::log::log_wide;
use crate::vmath::special::Special;
use crate::vmath::{Arch, fma64};

/// Largest exponent of the formula.
const STEEPEST: f32 = 127.0;
/// Highest order of a derivative of digamma that float64 has the factorial of, with room for the sum.
const HIGHEST: f32 = 100.0;
/// What is less than this part of a sum is left out.
const LEAST: f64 = 1e-10;

/// The Hurwitz zeta function.
pub(crate) struct Zeta;
impl GroupFunction for Zeta {
    const ARITY: usize = 2;

    #[inline(always)]
    fn group<A: Arch>(s: &[f32; GROUP], q: &[f32; GROUP]) -> [f32; GROUP] {
        let served = |s: f32, q: f32| (s > 1.0) & (s <= STEEPEST) & positive(q);
        let (mut exponent, mut at) = ([0.0; GROUP], [0.0; GROUP]);
        let mut alone = false;
        for i in 0..GROUP {
            let known = served(s[i], q[i]);
            alone |= !known;
            exponent[i] = if known { f64::from(s[i]) } else { 2.0 };
            at[i] = if known { f64::from(q[i]) } else { 64.0 };
        }
        let mut y = rounded(&sums::<A>(&exponent, &mut at));
        if alone {
            for i in 0..GROUP {
                if !served(s[i], q[i]) {
                    y[i] = Special::zeta(s[i], q[i]);
                }
            }
        }
        y
    }
}

/// The derivative of digamma whose order is the second argument, the same one for a whole group.
pub(crate) struct Polygamma;
impl GroupFunction for Polygamma {
    const ARITY: usize = 1;

    #[inline(always)]
    fn group<A: Arch>(x: &[f32; GROUP], n: &[f32; GROUP]) -> [f32; GROUP] {
        let n = n[0].trunc();
        if n == 1.0 {
            return Trigamma::group::<A>(x, x);
        }
        if !(2.0..=HIGHEST).contains(&n) {
            let mut y = *x;
            for v in &mut y {
                *v = Special::polygamma(*v, n);
            }
            return y;
        }
        let mut at = [0.0; GROUP];
        let mut alone = false;
        for i in 0..GROUP {
            let known = positive(x[i]);
            alone |= !known;
            at[i] = if known { f64::from(x[i]) } else { 64.0 };
        }
        // (-1)^(n + 1) n!
        let mut factor = -1.0;
        for k in 1..=n as u32 {
            factor *= -f64::from(k);
        }
        let mut sums = sums::<A>(&[f64::from(n) + 1.0; GROUP], &mut at);
        for v in &mut sums {
            *v *= factor;
        }
        let mut y = rounded(&sums);
        if alone {
            for i in 0..GROUP {
                if !positive(x[i]) {
                    y[i] = Special::polygamma(x[i], n);
                }
            }
        }
        y
    }
}

/// `x^-s` for a normal x > 0.
#[inline(always)]
fn power<A: Arch>(x: f64, s: f64) -> f64 {
    exp_clamped::<A>(-s * log_wide::<A>(x))
}

/// The sums of `(q + k)^-s` over k >= 0: the first terms, up to where the formula of Euler and Maclaurin serves.
#[inline(always)]
fn sums<A: Arch>(s: &[f64; GROUP], q: &mut [f64; GROUP]) -> [f64; GROUP] {
    let (mut sum, mut term) = ([0.0; GROUP], [0.0; GROUP]);
    let (mut enough, mut spread) = ([0.0; GROUP], [0.0; GROUP]);
    for i in 0..GROUP {
        spread[i] = 1.0 / (s[i] - 1.0);
        enough[i] = fma64::<A>(0.45, s[i], 4.5);
    }
    loop {
        let mut going = 0u64;
        for i in 0..GROUP {
            let t = power::<A>(q[i], s[i]);
            let more = q[i] < enough[i];
            let whole = sum[i] + t;
            // Whether the rest, about an integral, counts. Where it does not, the formula may be far off.
            let counts = t * fma64::<A>(q[i], spread[i], 1.0) > LEAST * whole;
            term[i] = if enough[i] > 0.0 { t } else { 0.0 };
            sum[i] = if more { whole } else { sum[i] };
            q[i] = if more { q[i] + 1.0 } else { q[i] };
            enough[i] = if more & !counts { 0.0 } else { enough[i] };
            going |= u64::from(more);
        }
        if going == 0 {
            break;
        }
    }
    for i in 0..GROUP {
        sum[i] += term[i] * rest::<A>(q[i], s[i]);
    }
    sum
}

/// The sum from `a` on over its first term, by the formula of Euler and Maclaurin, of which each term is the one
/// before it times `(s + 2 k - 1) (s + 2 k) / a^2`, but for the constants.
#[inline(always)]
fn rest<A: Arch>(a: f64, s: f64) -> f64 {
    // Bernoulli's numbers over factorials.
    const C: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3_617.0 / 10_670_622_842_880_000.0,
    ];
    let r = 1.0 / a;
    let square = r * r;
    let mut p = C[7];
    for k in (0..7).rev() {
        let at = s + (2 * k + 1) as f64;
        p = fma64::<A>(p, at * (at + 1.0) * square, C[k]);
    }
    fma64::<A>(s * r, p, a / (s - 1.0) + 0.5)
}
