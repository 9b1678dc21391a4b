//! The functions by groups against those of one number, at every level.

use super::super::loops::Loop;
use super::*;
use crate::vmath::{Base, Special};

/// A loop, and the function of one element that it must agree with.
struct Case {
    name: &'static str,
    f: Loop,
    alone: fn(f32, f32) -> f32,
}

impl Case {
    fn new<F: GroupFunction>(name: &'static str, level: Level, alone: fn(f32, f32) -> f32) -> Case {
        let f = Loop {
            f: groups::at::<F>(level),
            arity: F::ARITY,
            size: 4,
            out_size: 4,
        };
        Case { name, f, alone }
    }

    /// Values at `x`, and at `y` or with the number that is first in it.
    fn run(&self, x: &[f32], y: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        let (a, b, p) = (x.as_ptr().cast(), y.as_ptr().cast(), [y[0]; 4]);
        // SAFETY: the operands and the output have as many elements.
        unsafe {
            let to = out.as_mut_ptr().cast();
            self.f.call(to, &[a, b, a, a], x.len(), p.as_ptr().cast());
        }
        out
    }
}

fn cases(level: Level) -> Vec<Case> {
    macro_rules! case {
        ($name:ident, $alone:expr) => {
            Case::new::<lanes::$name>(stringify!($name), level, $alone)
        };
    }
    vec![
        case!(LogGamma, |x, _| x.log_gamma()),
        case!(Psi, |x, _| x.psi()),
        case!(Erfinv, |x, _| VMath::erfinv::<Base>(x)),
        case!(Ndtri, |x, _| x.ndtri()),
        case!(Erfcx, |x, _| x.erfcx()),
        case!(Ndtr, |x, _| x.ndtr()),
        case!(LogNdtr, |x, _| x.log_ndtr()),
        case!(Entr, |x, _| x.entr()),
        case!(I0, |x, _| x.i0()),
        case!(I0e, |x, _| x.i0e()),
        case!(I1, |x, _| x.i1()),
        case!(I1e, |x, _| x.i1e()),
        case!(ModifiedBesselK0, |x, _| x.modified_bessel_k0()),
        case!(ModifiedBesselK1, |x, _| x.modified_bessel_k1()),
        case!(ScaledModifiedBesselK0, |x, _| x.scaled_modified_bessel_k0()),
        case!(ScaledModifiedBesselK1, |x, _| x.scaled_modified_bessel_k1()),
        case!(BesselJ0, |x, _| x.bessel_j0()),
        case!(BesselJ1, |x, _| x.bessel_j1()),
        case!(BesselY0, |x, _| x.bessel_y0()),
        case!(BesselY1, |x, _| x.bessel_y1()),
        case!(SphericalBesselJ0, |x, _| x.spherical_bessel_j0()),
        case!(AiryAi, |x, _| x.airy_ai()),
        case!(Zeta, Special::zeta),
        case!(Polygamma, |x, n: f32| x.polygamma(n.trunc())),
        case!(Gammainc, Special::gammainc),
        case!(Gammaincc, Special::gammaincc),
        case!(HermiteH, Special::hermite_polynomial_h),
        case!(HermiteHe, Special::hermite_polynomial_he),
        case!(LaguerreL, Special::laguerre_polynomial_l),
        case!(LegendreP, Special::legendre_polynomial_p),
        case!(ChebyshevT, Special::chebyshev_polynomial_t),
        case!(ChebyshevU, Special::chebyshev_polynomial_u),
        case!(ChebyshevV, Special::chebyshev_polynomial_v),
        case!(ChebyshevW, Special::chebyshev_polynomial_w),
        case!(ShiftedChebyshevT, Special::shifted_chebyshev_polynomial_t),
        case!(ShiftedChebyshevU, Special::shifted_chebyshev_polynomial_u),
        case!(ShiftedChebyshevV, Special::shifted_chebyshev_polynomial_v),
        case!(ShiftedChebyshevW, Special::shifted_chebyshev_polynomial_w),
    ]
}

/// How many numbers of float32 lie between two; zeros of different signs and what only one of two has count as many.
fn distance(a: f32, b: f32) -> u64 {
    if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
        return 0;
    }
    let odd = a.is_nan() || b.is_nan() || a.is_infinite() != b.is_infinite();
    if odd || (a == 0.0 && b == 0.0) {
        return u64::MAX;
    }
    let place = |v: f32| match v.to_bits() {
        bits if bits >> 31 == 1 => -i64::from(bits & 0x7fff_ffff),
        bits => i64::from(bits),
    };
    place(a).abs_diff(place(b))
}

/// Numbers of all magnitudes and signs, many in the usual range, the neighbours of where formulas meet, and special
/// ones.
fn grid() -> Vec<f32> {
    let mut all = vec![
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        0.0,
        -0.0,
        f32::from_bits(1),
        -f32::from_bits(1),
        f32::MIN_POSITIVE,
        f32::MAX,
        -f32::MAX,
    ];
    all.extend((0..6000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))));
    all.extend((0..12_000).map(|i| i as f32 * 0.0043 - 10.0));
    all.extend((0..3000).map(|i| i as f32 / 3000.0));
    for border in [
        0.002_f32,
        0.5,
        0.9,
        0.998,
        1.0,
        1.1,
        1.461_632_1,
        2.0,
        2.404_825_6,
        3.0,
        8.0,
        10.0,
        65536.0,
    ] {
        for k in 0..33 {
            let near = f32::from_bits(border.to_bits() - 16 + k);
            all.extend([near, -near]);
        }
    }
    all
}

/// Second arguments, each for a whole grid.
const SECOND: [f32; 9] = [0.0, 1.0, 2.0, 5.0, 30.0, -1.0, 0.25, 1.5, 1e-20];

/// Asserts that a group's values are those of single numbers.
fn agrees(case: &Case, level: Level, x: &[f32], y: &[f32]) {
    for ((got, &x), &y) in case.run(x, y).iter().zip(x).zip(y) {
        let want = (case.alone)(x, y);
        assert!(
            distance(*got, want) <= 1,
            "{level:?} {}({x:e}, {y:e}): {got:e} is not {want:e}",
            case.name
        );
    }
}

#[torsh_macros::unit_test]
fn groups_have_the_values_of_single_numbers_at_every_level() {
    let x = grid();
    for level in Level::ALL {
        for case in cases(level) {
            let of_one = case.f.arity == 1 && case.name != "Polygamma";
            let seconds = if of_one { &SECOND[..1] } else { &SECOND[..] };
            // Fewer of the ordinary points for each of the second arguments.
            let step = if of_one { 1 } else { 7 };
            let x: Vec<f32> = x[..10]
                .iter()
                .chain(x[10..].iter().step_by(step))
                .copied()
                .collect();
            for &second in seconds {
                let y = vec![second; x.len()];
                agrees(&case, level, &x, &y);
            }
        }
    }
}

#[torsh_macros::unit_test]
fn pairs_of_any_numbers_have_the_values_of_single_ones() {
    let x = grid();
    let y: Vec<f32> = x.iter().rev().map(|v| v.clamp(-300.0, 300.0)).collect();
    // Near each other, where the incomplete gamma functions change most.
    let near: Vec<f32> = (0..x.len())
        .map(|i| x[i] * (0.5 + i as f32 / x.len() as f32))
        .collect();
    for level in Level::ALL {
        for case in cases(level).iter().filter(|c| c.f.arity == 2) {
            let polynomial = !["Zeta", "Gammainc", "Gammaincc"].contains(&case.name);
            for y in [&y, &near] {
                if polynomial && std::ptr::eq(y, &near) {
                    continue;
                }
                agrees(case, level, &x, y);
            }
        }
    }
}

#[torsh_macros::unit_test]
fn a_value_does_not_depend_on_what_is_beside_it() {
    let x: Vec<f32> = grid().into_iter().step_by(331).take(67).collect();
    for level in Level::ALL {
        for case in cases(level) {
            // The same order for all, since polynomials compute those together; any for the others.
            let y: Vec<f32> = match case.name {
                "Zeta" | "Gammainc" | "Gammaincc" => x.iter().map(|v| v.abs() + 0.5).collect(),
                _ => vec![3.0; x.len()],
            };
            let alone: Vec<f32> = (0..x.len())
                .map(|i| case.run(&x[i..=i], &y[i..=i])[0])
                .collect();
            for n in 1..=x.len() {
                let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                let got = case.run(&x[..n], &y[..n]);
                let equal = got
                    .iter()
                    .zip(&alone)
                    .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
                assert!(equal, "{level:?} {} {n}: {:?}", case.name, bits(&got));
            }
        }
    }
}
