//! The Hurwitz zeta function and the derivatives of digamma.

use torsh_core::cmath;

use super::dd::{Dd, log_for};
use super::gamma::{digamma, large_lgamma};
use super::tables::log::EULER;
use crate::vmath::Arch;

/// `x^-s` for x > 0.
#[inline(always)]
fn power<const EXACT: bool>(x: f64, s: f64) -> f64 {
    if s == 2.0 {
        1.0 / (x * x)
    } else if EXACT {
        cmath::pow(x, -s)
    } else {
        cmath::exp(-s * x.ln())
    }
}

/// The sum of `((q + k) / scale)^-s` over k >= 0, for s > 1 and q > 0: the first terms, then the formula of Euler and
/// Maclaurin.
#[inline(always)]
fn positive<const EXACT: bool>(s: f64, q: f64, scale: f64) -> f64 {
    // From here on each term of the formula is less than an eighth of the one before it.
    let enough = if EXACT { 9.0 } else { 5.0 } + 0.45 * s;
    let least = if EXACT { 1e-18 } else { 1e-11 };
    let mut sum = 0.0;
    let mut at = Dd::new(q);
    loop {
        let power = power::<EXACT>(at.hi / scale, s);
        // The power of the whole argument, the rounded part included.
        let term = if at.lo == 0.0 {
            power
        } else {
            power - power * s * (at.lo / at.hi)
        };
        // Steps of 1 are lost on numbers beyond 2^52. Then `s` is as large, and the caller's factor 0 or infinite.
        if at.hi >= enough || at.hi > 4_503_599_627_370_496.0 {
            let a = at.hi;
            let mut tail = a * term / (s - 1.0) + 0.5 * term;
            let square = 1.0 / (a * a);
            let mut factor = s * term / a;
            for (j, c) in EULER[0].iter().enumerate() {
                let step = factor * c;
                tail += step;
                if step.abs() < least * tail {
                    break;
                }
                let k = 2.0 * j as f64;
                factor *= (s + k + 1.0) * (s + k + 2.0) * square;
            }
            return sum + tail;
        }
        sum += term;
        // The rest is about an integral. Also where the sum overflows, or is nan.
        let rest = term * (1.0 + at.hi / (s - 1.0));
        if !(rest > least * sum) || sum == f64::INFINITY {
            return sum;
        }
        at = if EXACT {
            at.add(1.0)
        } else {
            Dd::new(at.hi + 1.0)
        };
    }
}

/// The Hurwitz zeta function as PyTorch has it: the sum of `(q + k)^-s` over k >= 0; infinite at the poles, and nan
/// for a negative `q` with an `s` that is not whole.
#[inline(always)]
pub(crate) fn zeta<A: Arch, const EXACT: bool>(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    if s.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if s == f64::INFINITY {
        return if q == 1.0 {
            1.0
        } else if q.abs() < 1.0 {
            f64::INFINITY
        } else {
            f64::NAN
        };
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    if q > 0.0 {
        return positive::<EXACT>(s, q, 1.0);
    }
    // The terms left of 0 are those of all whole distances from `q`, less those below it.
    let even = s == 2.0 * (0.5 * s).floor();
    let sign = if even { 1.0 } else { -1.0 };
    let r = q - q.round_ties_even();
    let power = cmath::pow(r.abs(), -s);
    let own = if r < 0.0 { sign * power } else { power };
    own + positive::<EXACT>(s, 1.0 + r, 1.0)
        + sign * (positive::<EXACT>(s, 1.0 - r, 1.0) - positive::<EXACT>(s, 1.0 - q, 1.0))
}

/// The derivative of order `n` of digamma.
#[inline(always)]
pub(crate) fn polygamma<A: Arch, const EXACT: bool>(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma::<A>(x);
    }
    let odd = n != 2.0 * (0.5 * n).floor();
    let sign = if odd { 1.0 } else { -1.0 };
    if n <= 150.0 {
        let mut factorial = sign;
        let mut k = 2.0;
        while k <= n {
            factorial *= k;
            k += 1.0;
        }
        return factorial * zeta::<A, EXACT>(n + 1.0, x);
    }
    // The factorial alone would overflow, and the powers vanish.
    let factorial = large_lgamma::<A, EXACT>(n + 1.0);
    if x > 0.0 && x < f64::INFINITY {
        let power = log_for::<A, EXACT>(x).mul::<A>(-(n + 1.0)).plus(factorial);
        return sign * power.exp::<A>() * positive::<EXACT>(n + 1.0, x, x);
    }
    let z = zeta::<A, EXACT>(n + 1.0, x);
    if z == 0.0 || !z.is_finite() {
        return sign * z;
    }
    sign * factorial.add(z.abs().ln()).exp::<A>().copysign(z)
}
