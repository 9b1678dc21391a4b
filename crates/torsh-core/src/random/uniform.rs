//! Uniform draws, and the floating point types they are made in.

use half::{bf16, f16};

use super::engine::Mt19937;
use super::generator::Generator;
use super::parts::{Cut, in_parts};
use crate::cmath;
use crate::machine::{InstructionSet, Level};

/// A floating point type that random numbers are drawn in: `f32`, `f64`, `f16` and `bf16`.
///
/// ```
/// use half::f16;
/// use torsh_core::random::RandomFloat;
/// assert_eq!(<f16 as RandomFloat>::from_f64(0.5).to_f32(), 0.5);
/// ```
pub trait RandomFloat: Copy + PartialEq + Send + private::Sealed {
    /// Rounds a double as PyTorch does, by way of `f32` for the 16-bit types.
    fn from_f64(value: f64) -> Self;

    #[doc(hidden)]
    fn from_f32(value: f32) -> Self;

    #[doc(hidden)]
    fn uniform(engine: &mut Mt19937, out: &mut [Self], from: f64, to: f64);

    #[doc(hidden)]
    fn normal_16(engine: &mut Mt19937, out: &mut [Self], mean: f64, std: f64);
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// Fills `out` uniformly over `[from, to)`, as `Tensor.uniform_`.
///
/// `f32` takes one word (24 bits of it) an element, `f64` two (53 bits); `f16` and `bf16` draw in
/// `f32` and round. A value that rounds up to `to` becomes `from`. The caller checks that
/// `from <= to` and that `to - from` is finite in the type.
///
/// ```
/// use torsh_core::random::{Generator, fill_uniform};
/// let mut out = [0f32; 3];
/// fill_uniform(&Generator::new(0), &mut out, 0.0, 1.0);
/// assert_eq!(out, [0.496_256_6, 0.768_221_8, 0.088_477_43]); // torch.rand(3) after torch.manual_seed(0)
/// ```
pub fn fill_uniform<T: RandomFloat>(generator: &Generator, out: &mut [T], from: f64, to: f64) {
    generator.with(|state| T::uniform(&mut state.engine, out, from, to));
}

macro_rules! named {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!(
            "[`fill_uniform`] for `", stringify!($type), "`.\n\n```\n# use half::{bf16, f16};\n",
            "use torsh_core::random::{Generator, ", stringify!($name), "};\n",
            "let mut out = [", stringify!($type), "::default(); 8];\n",
            stringify!($name), "(&Generator::new(0), &mut out, 2.0, 3.0);\n",
            "assert!(out.iter().all(|&x| (2.0..3.0).contains(&f64::from(x))));\n```"
        )]
        pub fn $name(generator: &Generator, out: &mut [$type], from: f64, to: f64) {
            fill_uniform(generator, out, from, to);
        }
    )*};
}
named!(fill_uniform_f32: f32, fill_uniform_f64: f64, fill_uniform_f16: f16, fill_uniform_bf16: bf16);

/// 24 bits as a float of `[0, 1)`.
#[inline(always)]
pub(super) fn unit_f32(bits: u32) -> f32 {
    (bits & 0xff_ffff) as i32 as f32 * (1.0 / (1 << 24) as f32)
}

/// 53 bits as a double of `[0, 1)`.
#[inline(always)]
pub(super) fn unit_f64(bits: u64) -> f64 {
    (bits & ((1 << 53) - 1)) as i64 as f64 * (1.0 / (1u64 << 53) as f64)
}

/// `a * b + c` with one rounding on every level, so that all draw the same.
#[inline(always)]
pub(super) fn fma32<A: InstructionSet>(a: f32, b: f32, c: f32) -> f32 {
    match A::LEVEL {
        Level::Base => cmath::fmaf(a, b, c),
        _ => a.mul_add(b, c),
    }
}

/// [`fma32`] in double precision.
#[inline(always)]
fn fma64<A: InstructionSet>(a: f64, b: f64, c: f64) -> f64 {
    match A::LEVEL {
        Level::Base => cmath::fma(a, b, c),
        _ => a.mul_add(b, c),
    }
}

/// How uniforms are cut into parts: of float32 and less, and of float64.
const CUT: Cut = Cut {
    words: 1,
    unit: 1,
    cost: 3,
};
const CUT_F64: Cut = Cut { words: 2, ..CUT };

// PyTorch's vector builds contract `x * (to - from) + from` to one rounding; so do these.

crate::multiversion! {
    [crate::machine::InstructionSet]
    fn uniform_by_f32<A, T: RandomFloat>(engine: &mut Mt19937, out: &mut [T], from: f32, to: f32) {
        let (width, first, end) = (to - from, T::from_f32(from), T::from_f32(to));
        engine.map_u32(out, |bits| {
            let value = T::from_f32(fma32::<A>(unit_f32(bits), width, from));
            if value == end { first } else { value }
        });
    }
}

crate::multiversion! {
    [crate::machine::InstructionSet]
    fn uniform_f64<A>(engine: &mut Mt19937, out: &mut [f64], from: f64, to: f64) {
        let width = to - from;
        engine.map_u64(out, |bits| {
            let value = fma64::<A>(unit_f64(bits), width, from);
            if value == to { from } else { value }
        });
    }
}

impl RandomFloat for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    fn uniform(engine: &mut Mt19937, out: &mut [Self], from: f64, to: f64) {
        let (from, to) = (from as f32, to as f32);
        in_parts(engine, out, CUT, |engine, out| {
            uniform_by_f32(engine, out, from, to);
        });
    }

    fn normal_16(engine: &mut Mt19937, out: &mut [Self], mean: f64, std: f64) {
        super::normal::fill_f32(engine, out, mean as f32, std as f32);
    }
}

impl RandomFloat for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn from_f32(value: f32) -> Self {
        value.into()
    }

    fn uniform(engine: &mut Mt19937, out: &mut [Self], from: f64, to: f64) {
        in_parts(engine, out, CUT_F64, |engine, out| {
            uniform_f64(engine, out, from, to);
        });
    }

    fn normal_16(engine: &mut Mt19937, out: &mut [Self], mean: f64, std: f64) {
        super::normal::fill_f64(engine, out, mean, std);
    }
}

macro_rules! sixteen_bit {
    ($($type:ty),*) => {$(
        impl RandomFloat for $type {
            fn from_f64(value: f64) -> Self {
                <$type>::from_f32(value as f32)
            }

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }

            fn uniform(engine: &mut Mt19937, out: &mut [Self], from: f64, to: f64) {
                uniform_by_f32(engine, out, from as f32, to as f32);
            }

            fn normal_16(engine: &mut Mt19937, out: &mut [Self], mean: f64, std: f64) {
                let round = <$type>::from_f32;
                super::normal::fill_16_bit(engine, out, mean as f32, std as f32, round);
            }
        }
    )*};
}
sixteen_bit!(f16, bf16);
