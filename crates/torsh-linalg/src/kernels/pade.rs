//! Padé's approximants of the exponential.

use super::field::Real;

/// The order of an approximant, and how often the matrix is halved before and the result squared after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pade {
    /// The order: 3, 5, 7, 9 or 13.
    pub order: usize,
    /// How often.
    pub squarings: i32,
}

/// The largest 1-norm for which the diagonal approximant of an order has full precision (Higham, 2005), in float64.
const DOUBLE: &[(usize, f64)] = &[
    (3, 1.495_585_217_958_292e-2),
    (5, 2.539_398_330_063_23e-1),
    (7, 9.504_178_996_162_932e-1),
    (9, 2.097_847_961_257_068),
    (13, 5.371_920_351_148_152),
];

/// As [`DOUBLE`], in float32.
const SINGLE: &[(usize, f64)] = &[
    (3, 4.258_730_016_922_831e-1),
    (5, 1.880_152_677_804_762),
    (7, 3.925_724_783_138_66),
];

impl Pade {
    /// What a matrix of this 1-norm needs in this precision.
    pub fn of<R: Real>(norm: f64) -> Pade {
        let reach = if R::EPS.wide() > 1e-10 {
            SINGLE
        } else {
            DOUBLE
        };
        let (order, last) = reach[reach.len() - 1];
        match reach.iter().find(|(_, limit)| norm <= *limit) {
            Some((order, _)) => Pade {
                order: *order,
                squarings: 0,
            },
            None => Pade {
                order,
                squarings: ((norm / last).log2().ceil() as i32).clamp(0, 1024),
            },
        }
    }

    /// The coefficients of the numerator, from the constant one on; those of the denominator have alternating signs.
    pub fn coefficients(order: usize) -> Vec<f64> {
        let mut c = vec![1f64; order + 1];
        for k in 1..=order {
            c[k] = c[k - 1] * (order + 1 - k) as f64 / (k * (2 * order + 1 - k)) as f64;
        }
        c
    }
}
