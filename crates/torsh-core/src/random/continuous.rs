//! Exponential, Cauchy, log-normal and geometric draws: transforms of double precision uniforms,
//! rounded to the element's type at the end.

use std::f64::consts::PI;

use half::{bf16, f16};

use super::generator::Generator;
use super::normal::normal_f64;
use super::parts::{Cut, in_parts};
use super::uniform::{RandomFloat, unit_f64};
use crate::cmath;

/// Fills `out` with exponential draws of rate `lambda`, as `Tensor.exponential_`. The caller
/// checks that `lambda > 0`.
///
/// ```
/// use torsh_core::random::{Generator, fill_exponential};
/// let mut out = [0f64; 2];
/// fill_exponential(&Generator::new(0), &mut out, 1.0);
/// assert!((out[0] - 3.508326).abs() < 1e-6 && (out[1] - 1.230385).abs() < 1e-6);
/// ```
pub fn fill_exponential<T: RandomFloat>(generator: &Generator, out: &mut [T], lambda: f64) {
    let scale = -1.0 / lambda;
    map_unit(generator, out, |u| T::from_f64(scale * cmath::ln_1p(-u)));
}

macro_rules! named {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!(
            "[`fill_exponential`] for `", stringify!($type), "`.\n\n```\n# use half::{bf16, f16};\n",
            "use torsh_core::random::{Generator, ", stringify!($name), "};\n",
            "let mut out = [", stringify!($type), "::default(); 8];\n",
            stringify!($name), "(&Generator::new(0), &mut out, 2.0);\n",
            "assert!(out.iter().all(|&x| f64::from(x) > 0.0));\n```"
        )]
        pub fn $name(generator: &Generator, out: &mut [$type], lambda: f64) {
            fill_exponential(generator, out, lambda);
        }
    )*};
}
named!(
    fill_exponential_f32: f32,
    fill_exponential_f64: f64,
    fill_exponential_f16: f16,
    fill_exponential_bf16: bf16
);

/// Fills `out` with Cauchy draws, as `Tensor.cauchy_`. The caller checks that `sigma > 0`.
///
/// ```
/// use torsh_core::random::{Generator, fill_cauchy};
/// let mut out = [0f64; 2];
/// fill_cauchy(&Generator::new(0), &mut out, 1.0, 2.0);
/// assert!((out[1] - (1.0 + 2.0 * 0.764767)).abs() < 1e-5); // tan(pi * (0.707820 - 0.5)) is 0.764767.
/// ```
pub fn fill_cauchy<T: RandomFloat>(generator: &Generator, out: &mut [T], median: f64, sigma: f64) {
    map_unit(generator, out, |u| {
        T::from_f64(cmath::fma(sigma, cmath::tan(PI * (u - 0.5)), median))
    });
}

/// Fills `out` with the exponentials of normal draws of `mean` and `std`, as
/// `Tensor.log_normal_`; the draws are the serial ones, with the cache. The caller checks that
/// `std > 0`.
///
/// ```
/// use torsh_core::random::{Generator, fill_log_normal, fill_normal};
/// let (mut normal, mut out) = ([0f64; 4], [0f64; 4]);
/// fill_normal(&Generator::new(0), &mut normal, 0.5, 2.0);
/// fill_log_normal(&Generator::new(0), &mut out, 0.5, 2.0);
/// assert_eq!(out, normal.map(torsh_core::cmath::exp));
/// ```
pub fn fill_log_normal<T: RandomFloat>(generator: &Generator, out: &mut [T], mean: f64, std: f64) {
    generator.with(|state| {
        for o in out {
            *o = T::from_f64(cmath::exp(normal_f64(state, mean, std)));
        }
    });
}

/// Fills `out` with the number of trials up to the first success of probability `p`, as
/// `Tensor.geometric_`. The caller checks that `0 < p < 1`.
///
/// ```
/// use torsh_core::random::{Generator, fill_geometric};
/// let mut out = [0f32; 6];
/// fill_geometric(&Generator::new(0), &mut out, 0.5);
/// assert_eq!(out, [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]);
/// ```
pub fn fill_geometric<T: RandomFloat>(generator: &Generator, out: &mut [T], p: f64) {
    let scale = cmath::ln_1p(-p);
    map_unit(generator, out, |u| T::from_f64((u.ln() / scale).ceil()));
}

/// [`fill_geometric`] for the integer types, which are casts of these.
///
/// ```
/// use torsh_core::random::{Generator, fill_geometric_i64};
/// let mut out = [0; 6];
/// fill_geometric_i64(&Generator::new(0), &mut out, 0.5);
/// assert_eq!(out, [1, 1, 2, 1, 1, 1]);
/// ```
pub fn fill_geometric_i64(generator: &Generator, out: &mut [i64], p: f64) {
    let scale = cmath::ln_1p(-p);
    map_unit(generator, out, |u| (u.ln() / scale).ceil() as i64);
}

/// Maps a double precision uniform of `[0, 1)` to each element.
fn map_unit<T: Send>(generator: &Generator, out: &mut [T], f: impl Fn(f64) -> T + Sync) {
    let cut = Cut {
        words: 2,
        unit: 1,
        cost: 30,
    };
    generator.with(|state| {
        in_parts(&mut state.engine, out, cut, |engine, out| {
            engine.map_u64(out, |bits| f(unit_f64(bits)));
        });
    });
}
