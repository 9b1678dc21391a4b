//! The error function, its complement and its inverse.

use torsh_core::cmath;

use super::exp::{exp_normal32, exp_wide};
use super::{Arch, fma32, poly32, poly64};

/// Minimax of erf(x)/x - 1 in x^2 on |x| <= 0.95, error 2^-30.6.
const ERF_SMALL: [f32; 7] = [
    0.128_379_17,
    -0.376_126_32,
    0.112_836_64,
    -0.026_857_706,
    0.005_196_952_3,
    -0.000_809_770_4,
    8.185_097e-5,
];
/// ln erfc(t) on [0.92, 4], fitted for the error of 1 - exp of it, 2^-29.3.
const ERF_LARGE: [f32; 7] = [
    -0.000_195_693_27,
    -1.127_675_5,
    -0.637_182_35,
    -0.103_931_48,
    0.022_226_859,
    -0.003_043_201_3,
    0.000_195_935_5,
];
/// Numerator and denominator of erf(x / sqrt 2) / x in x^2 on |x| <= 5.5, fitted for the error of
/// the function, 2^-26. All coefficients are positive, so nothing cancels.
const ERF_NORMAL: [[f32; 6]; 2] = [
    [
        0.797_884_5,
        0.067_705_11,
        0.009_354_51,
        0.000_337_649_55,
        1.270_422_7e-5,
        4.549_896_5e-8,
    ],
    [
        1.0,
        0.251_521_7,
        0.028_645_82,
        0.001_884_439_6,
        7.364_723e-5,
        1.197_507_1e-6,
    ],
];
/// (1 + 2x) e^(x^2) erfc(x) in (x-3)/(x+3) on [0, 10.2], relative error 2^-41
/// (the variables of Shepherd and Laframboise, Math. Comp. 36, 1981).
const ERFC: [f64; 15] = [
    1.253008058269629,
    -0.1356211061354015,
    -0.04756229433173162,
    0.12964515953448344,
    -0.11927366381122596,
    0.06830800868504822,
    -0.023770521046054052,
    0.0025295724945697696,
    0.001888859327413236,
    -0.000780652746058286,
    -0.00010641415656316498,
    0.0001265624866587184,
    8.784290875073125e-06,
    -1.958855387286346e-05,
    -4.85277650356821e-06,
];

#[inline(always)]
pub(super) fn erf<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    let small = fma32::<A>(poly32::<A, 7>(a * a, &ERF_SMALL), a, a);
    // erf(4) is 1 in float32.
    let t = if a > 4.0 { 4.0 } else { a };
    let large = 1.0 - exp_normal32::<A>(poly32::<A, 7>(t, &ERF_LARGE));
    let r = if a < 0.93 { small } else { large };
    r.copysign(x)
}

/// A quotient of polynomials: half the operations of [`erf`] and a shorter chain of them, for an
/// error of up to 4e-7.
#[inline(always)]
pub(super) fn erf_normal<A: Arch>(x: f32) -> f32 {
    let [num, den] = &ERF_NORMAL;
    let square = x * x;
    // erf(5.5 / sqrt 2) is 1 in float32; the comparisons let nan through.
    let square = if square > 30.25 { 30.25 } else { square };
    let r = x * poly32::<A, 6>(square, num) / poly32::<A, 6>(square, den);
    let r = if r > 1.0 { 1.0 } else { r };
    if r < -1.0 { -1.0 } else { r }
}

#[inline(always)]
pub(super) fn erfc<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    // erfc(10.2) is 0 in float32.
    let a = f64::from(if a > 10.2 { 10.2 } else { a });
    let (u, v) = (a + 3.0, 1.0 + (a + a));
    let inv = 1.0 / (u * v);
    let t = (a - 3.0) * v * inv;
    let r = poly64::<A, 15>(t, &ERFC) * exp_wide::<A>(-(a * a)) * (u * inv);
    let r = if x < 0.0 { 2.0 - r } else { r };
    r as f32
}

/// Inverse error function of float32, one at a time.
pub(super) fn erfinv(y: f32) -> f32 {
    erfinv64(f64::from(y)) as f32
}

/// Inverse error function: a starting value from M. Giles, "Approximating the
/// erfinv function" (GPU Computing Gems, 2010), then Halley steps on the residual,
/// taken from erfc in the tail so that nothing cancels.
pub(super) fn erfinv64(y: f64) -> f64 {
    let a = y.abs();
    if a == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if a > 1.0 || a.is_nan() {
        return f64::NAN;
    }
    if a < 1e-9 {
        // The series' next term is below a thousandth of an ulp; keeps -0.
        return y * 0.886_226_925_452_758;
    }
    let w = -((1.0 - a) * (1.0 + a)).ln();
    let (w, c) = if w < 5.0 {
        (w - 2.5, &GILES_CENTRAL)
    } else {
        (w.sqrt() - 3.0, &GILES_TAIL)
    };
    let mut x = a * c.iter().fold(0.0, |p, &k| p * w + k);
    // The approximation is one for float32; beyond its numbers the steps have a longer way.
    let steps = if 1.0 - a < 1e-7 { 12 } else { 3 };
    for _ in 0..steps {
        let residual = if a < 0.5 {
            libm::erf(x) - a
        } else {
            (1.0 - a) - libm::erfc(x)
        };
        let d = residual * 0.886_226_925_452_758 * cmath::exp(x * x);
        x -= d / (1.0 + x * d);
    }
    x.copysign(y)
}

/// Giles' coefficients, highest order first.
const GILES_CENTRAL: [f64; 9] = [
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
];
const GILES_TAIL: [f64; 9] = [
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
];
