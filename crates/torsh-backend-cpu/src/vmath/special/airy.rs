//! The Airy function Ai.

use std::f64::consts::PI;

use torsh_core::cmath;

use super::dd::{self, Dd, horner, piece, piece_with_zero};
use super::tables::airy::{ASYMPTOTIC, DECAY, NEAR};
use crate::vmath::Arch;

/// The Airy function of the first kind; nan at the infinities, as PyTorch has it.
#[inline(always)]
pub(crate) fn airy_ai<A: Arch>(x: f64) -> f64 {
    if x.is_infinite() || x.is_nan() {
        return f64::NAN;
    }
    let a = x.abs();
    if (-10.0..2.0).contains(&x) {
        return piece_with_zero::<A>(x, &NEAR[((x + 10.0) * 2.0) as usize]);
    }
    if x > 110.0 {
        return 0.0;
    }
    // zeta = 2/3 |x|^(3/2), of which exp and sin need every digit.
    let zeta = dd::sqrt::<A>(a).mul::<A>(a).mul::<A>(2.0).div::<A>(3.0);
    let r = 1.0 / zeta.hi;
    let fourth = a.sqrt().sqrt();
    if x > 0.0 {
        let sum = if x < 10.0 {
            let row = if x < 3.0 {
                (x * 2.0) as usize - 4
            } else if x < 6.0 {
                [2, 3, 4][x as usize - 3]
            } else if x < 8.0 {
                5
            } else {
                6
            };
            piece::<A>(x, &DECAY[row])
        } else {
            horner::<A>(-r, &ASYMPTOTIC[0])
        };
        return sum * zeta.neg().exp::<A>() / (2.0 * PI.sqrt() * fourth);
    }
    // The even and the odd terms with alternating signs (DLMF 9.7.9).
    let (mut even, mut odd) = (0.0, 0.0);
    let z = -r * r;
    let mut k = 22;
    loop {
        even = even * z + ASYMPTOTIC[0][k];
        odd = odd * z + ASYMPTOTIC[0][k + 1];
        if k == 0 {
            break;
        }
        k -= 2;
    }
    odd *= r;
    let (s, c) = cmath::sin_cos(zeta.hi);
    let (s, c) = (s + zeta.lo * c, c - zeta.lo * s);
    let Dd { hi: root, .. } = Dd::new((2.0 * PI).sqrt());
    // cos(zeta - pi / 4) and sin(zeta - pi / 4), times sqrt(2).
    ((c + s) * even + (s - c) * odd) / (root * fourth)
}
