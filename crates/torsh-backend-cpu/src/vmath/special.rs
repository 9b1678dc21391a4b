//! Gamma functions, as scalar code.

use std::f64::consts::PI;

/// Derivative of the logarithm of the gamma function: reflection for negative x,
/// recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3).
pub(super) fn digamma64(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        // tan(pi x) has period 1; the remainder, in [-1/2, 1/2], is exact.
        let r = x - x.round();
        return positive(1.0 - x) - PI / (PI * r).tan();
    }
    positive(x)
}

/// The positive root, in two parts.
const ROOT_HI: f64 = 1.461_632_144_968_362_2;
const ROOT_LO: f64 = 9.549_995_429_965_697e-17;

fn positive(x: f64) -> f64 {
    if (x - ROOT_HI).abs() < 0.1 {
        return near_root(x);
    }
    let mut x = x;
    let mut sum = 0.0;
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    if x > 1e17 {
        return x.ln() + sum;
    }
    let z = 1.0 / (x * x);
    // B_2k / 2k, highest order first.
    let c = [
        1.0 / 12.0,
        -691.0 / 32760.0,
        1.0 / 132.0,
        -1.0 / 240.0,
        1.0 / 252.0,
        -1.0 / 120.0,
        1.0 / 12.0,
    ];
    let tail = z * c.iter().fold(0.0, |p, &k| p * z + k);
    sum + (x.ln() - 0.5 / x - tail)
}

/// Taylor coefficients at the root, from the first derivative on.
const NEAR_ROOT: [f64; 16] = [
    0.9676722454476212,
    -0.4427631689835921,
    0.258499760955651,
    -0.16394270544240652,
    0.10782405069126237,
    -0.07219956125645471,
    0.04880428816414311,
    -0.03316112647484736,
    0.022597648232218104,
    -0.01542476590494896,
    0.010538791616612175,
    -0.007204534386356869,
    0.004926781395729853,
    -0.003369801655439328,
    0.002305126326734928,
    -0.0015769367714301972,
];

/// Series at the root, where the sums above would cancel.
fn near_root(x: f64) -> f64 {
    let d = (x - ROOT_HI) - ROOT_LO;
    d * NEAR_ROOT.iter().rev().fold(0.0, |p, &k| p * d + k)
}
