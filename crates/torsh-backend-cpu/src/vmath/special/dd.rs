//! Sums of two doubles, `hi + lo` with about 106 bits, where 53 would lose digits: exponents that are rounded before
//! `exp`, and sums that cancel.

use torsh_core::cmath;

use super::tables::log::LOG;
use crate::vmath::{Arch, fma64};

/// `hi + lo`, where `lo` is at most half an ulp of `hi`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dd {
    pub hi: f64,
    pub lo: f64,
}

/// `ln 2` in two parts, the first with trailing zeros so that a multiple of it is exact.
const LN2_HI: f64 = 0.693_147_180_369_123_8;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// `a + b` and its rounding error.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    let back = hi - a;
    let lo = (a - (hi - back)) + (b - back);
    Dd { hi, lo }
}

/// [`two_sum`] where `|a| >= |b|`.
#[inline(always)]
pub(crate) fn quick_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    Dd {
        hi,
        lo: b - (hi - a),
    }
}

/// `a * b` and its rounding error: by a fused multiplication where the processor has one, else by halves of both
/// factors (Dekker).
#[inline(always)]
pub(crate) fn two_product<A: Arch>(a: f64, b: f64) -> Dd {
    let hi = a * b;
    if A::FMA {
        return Dd {
            hi,
            lo: a.mul_add(b, -hi),
        };
    }
    let halves = |v: f64| {
        let c = 134_217_729.0 * v;
        let high = c - (c - v);
        (high, v - high)
    };
    let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
    let lo = ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2;
    Dd { hi, lo }
}

impl Dd {
    #[inline(always)]
    pub fn new(hi: f64) -> Dd {
        Dd { hi, lo: 0.0 }
    }
    #[inline(always)]
    pub fn value(self) -> f64 {
        self.hi + self.lo
    }
    #[inline(always)]
    pub fn neg(self) -> Dd {
        Dd {
            hi: -self.hi,
            lo: -self.lo,
        }
    }
    #[inline(always)]
    pub fn add(self, b: f64) -> Dd {
        let s = two_sum(self.hi, b);
        quick_sum(s.hi, s.lo + self.lo)
    }
    #[inline(always)]
    pub fn plus(self, b: Dd) -> Dd {
        let s = two_sum(self.hi, b.hi);
        let t = two_sum(self.lo, b.lo);
        let s = quick_sum(s.hi, s.lo + t.hi);
        quick_sum(s.hi, s.lo + t.lo)
    }
    #[inline(always)]
    pub fn mul<A: Arch>(self, b: f64) -> Dd {
        let p = two_product::<A>(self.hi, b);
        quick_sum(p.hi, fma64::<A>(self.lo, b, p.lo))
    }
    #[inline(always)]
    pub fn times<A: Arch>(self, b: Dd) -> Dd {
        let p = two_product::<A>(self.hi, b.hi);
        let lo = fma64::<A>(self.hi, b.lo, fma64::<A>(self.lo, b.hi, p.lo));
        quick_sum(p.hi, lo)
    }
    #[inline(always)]
    pub fn div<A: Arch>(self, b: f64) -> Dd {
        let q = self.hi / b;
        let back = two_product::<A>(q, b);
        quick_sum(q, ((self.hi - back.hi) - back.lo + self.lo) / b)
    }
    /// e to the power of this number.
    #[inline(always)]
    pub fn exp<A: Arch>(self) -> f64 {
        let e = cmath::exp(self.hi);
        // Neither 0 nor an infinity has a correction.
        if e == 0.0 || e == f64::INFINITY {
            e
        } else {
            fma64::<A>(e, self.lo, e)
        }
    }
}

/// The square root of `x >= 0`.
#[inline(always)]
pub(crate) fn sqrt<A: Arch>(x: f64) -> Dd {
    let r = x.sqrt();
    if r == 0.0 || r == f64::INFINITY {
        return Dd::new(r);
    }
    let square = two_product::<A>(r, r);
    quick_sum(r, ((x - square.hi) - square.lo) / (r + r))
}

/// The natural logarithm of a finite `x > 0`, with a relative error of about 2^-68.
#[inline(always)]
pub(crate) fn log<A: Arch>(x: f64) -> Dd {
    let tiny = x < f64::MIN_POSITIVE;
    let scaled = if tiny {
        x * 18_014_398_509_481_984.0
    } else {
        x
    };
    let bits = scaled.to_bits();
    // The mantissa in [sqrt(1/2), sqrt(2)).
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let k = (shifted as i64 >> 52) as f64 - if tiny { 54.0 } else { 0.0 };
    let m = f64::from_bits(bits.wrapping_sub(shifted & 0xfff0_0000_0000_0000));
    let j = (m * 128.0 + 0.5) as usize;
    let [r, log_hi, log_lo] = LOG[j.clamp(90, 182) - 90];
    let p = two_product::<A>(m, r);
    let z = quick_sum(p.hi - 1.0, p.lo);
    // ln(1 + z) = z - z^2 / 2 + z^3 (1/3 - ...).
    let square = z.times::<A>(z);
    let v = z.hi;
    let rest = [
        1.0 / 3.0,
        -0.25,
        0.2,
        -1.0 / 6.0,
        1.0 / 7.0,
        -0.125,
        1.0 / 9.0,
    ];
    let tail = square.hi * v * rest.iter().rev().fold(0.0, |s, &c| fma64::<A>(s, v, c));
    let mut sum = Dd {
        hi: log_hi,
        lo: log_lo,
    }
    .plus(z);
    sum = sum
        .plus(Dd {
            hi: -0.5 * square.hi,
            lo: -0.5 * square.lo,
        })
        .add(tail);
    if k != 0.0 {
        sum = two_sum(k * LN2_HI, k * LN2_LO).plus(sum);
    }
    sum
}

/// [`log`] where `EXACT`, else the plain one in two doubles' form.
#[inline(always)]
pub(crate) fn log_for<A: Arch, const EXACT: bool>(x: f64) -> Dd {
    if EXACT { log::<A>(x) } else { Dd::new(x.ln()) }
}

/// `c[0] + c[1] x + ...` of a slice. The even and the odd powers are summed side by side, which halves the chain of
/// dependent operations.
#[inline(always)]
pub(crate) fn horner<A: Arch>(x: f64, c: &[f64]) -> f64 {
    let square = x * x;
    let (mut even, mut odd) = (0.0, 0.0);
    let mut i = c.len();
    if i % 2 == 1 {
        i -= 1;
        even = c[i];
    }
    while i > 0 {
        i -= 2;
        even = fma64::<A>(even, square, c[i]);
        odd = fma64::<A>(odd, square, c[i + 1]);
    }
    fma64::<A>(odd, x, even)
}

/// A row of a table: its middle, then the polynomial in the distance from it.
#[inline(always)]
pub(crate) fn piece<A: Arch>(x: f64, row: &[f64]) -> f64 {
    horner::<A>(x - row[0], &row[1..])
}

/// A row of a table: its middle, a zero of the function in two parts (nan where there is none), then the polynomial
/// of the function, divided by the distance from the zero, in the distance from the middle.
#[inline(always)]
pub(crate) fn piece_with_zero<A: Arch>(x: f64, row: &[f64]) -> f64 {
    let p = horner::<A>(x - row[0], &row[3..]);
    if row[1].is_nan() {
        p
    } else {
        ((x - row[1]) - row[2]) * p
    }
}

/// sin(pi x).
#[inline(always)]
pub(crate) fn sin_pi(x: f64) -> f64 {
    // Twice the period is exact, and so is the remainder.
    let r = x - 2.0 * (0.5 * x).round_ties_even();
    if r.abs() <= 0.25 {
        cmath::sin(std::f64::consts::PI * r)
    } else if r.abs() <= 0.75 {
        cmath::cos((0.5 - r.abs()) * std::f64::consts::PI).copysign(r)
    } else {
        cmath::sin(std::f64::consts::PI * (1.0 - r.abs())).copysign(r)
    }
}
