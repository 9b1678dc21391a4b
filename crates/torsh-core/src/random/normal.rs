//! Normal draws by the Box-Muller transform, in PyTorch's two arrangements: sixteen values at a
//! time for tensors of sixteen elements and more, pair by pair with a cache below that.

use std::f64::consts::PI;

use half::{bf16, f16};

use super::engine::Mt19937;
use super::generator::{Generator, State};
use super::parts::{Cut, in_parts};
use super::uniform::{RandomFloat, fma32, unit_f32, unit_f64};
use crate::cmath;
use crate::machine::InstructionSet;

/// Elements drawn and transformed together, so that they stay in the first-level cache.
const CHUNK: usize = 2048;

/// Fills contiguous `out` with normal draws of `mean` and `std`, as `Tensor.normal_`.
///
/// From 16 elements on, groups of 16 uniforms become 16 normals, and a remainder redraws the last
/// 16; below that see [`fill_normal_serial`]. The caller checks that `std >= 0`.
///
/// ```
/// use torsh_core::random::{Generator, fill_normal};
/// let mut out = [0f64; 3];
/// fill_normal(&Generator::new(0), &mut out, 0.0, 1.0);
/// let expected = [1.540996, -0.293429, -2.178789]; // torch.randn(3) after torch.manual_seed(0)
/// assert!(out.iter().zip(expected).all(|(x, e)| (x - e).abs() < 1e-5));
/// ```
pub fn fill_normal<T: RandomFloat>(generator: &Generator, out: &mut [T], mean: f64, std: f64) {
    if out.len() < 16 {
        fill_normal_serial(generator, out, mean, std);
    } else {
        generator.with(|state| T::normal_16(&mut state.engine, out, mean, std));
    }
}

/// Fills `out` with normal draws one by one in double precision, keeping the second half of each
/// pair in the generator for the next draw. PyTorch's way for tensors of fewer than 16 elements
/// and for those that are not contiguous, of any size.
///
/// ```
/// use torsh_core::random::{Generator, fill_normal_serial};
/// let (mut two, mut one) = ([0f32; 2], [0f32; 1]);
/// let generator = Generator::new(0);
/// fill_normal_serial(&generator, &mut two[..1], 0.0, 1.0);
/// fill_normal_serial(&generator, &mut one, 0.0, 1.0); // The second half of the first pair.
/// fill_normal_serial(&Generator::new(0), &mut two, 0.0, 1.0);
/// assert_eq!(one[0], two[1]);
/// ```
pub fn fill_normal_serial<T: RandomFloat>(
    generator: &Generator,
    out: &mut [T],
    mean: f64,
    std: f64,
) {
    generator.with(|state| {
        for o in out {
            *o = T::from_f64(normal_f64(state, mean, std));
        }
    });
}

macro_rules! named {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!(
            "[`fill_normal`] for `", stringify!($type), "`.\n\n```\n# use half::{bf16, f16};\n",
            "use torsh_core::random::{Generator, ", stringify!($name), "};\n",
            "let mut out = [", stringify!($type), "::default(); 4];\n",
            stringify!($name), "(&Generator::new(0), &mut out, 1.5, 0.0); // Without deviation all are the mean.\n",
            "assert!(out.iter().all(|&x| f64::from(x) == 1.5));\n```"
        )]
        pub fn $name(generator: &Generator, out: &mut [$type], mean: f64, std: f64) {
            fill_normal(generator, out, mean, std);
        }
    )*};
}
named!(fill_normal_f32: f32, fill_normal_f64: f64, fill_normal_f16: f16, fill_normal_bf16: bf16);

/// One normal draw in double precision, from the cache where it holds one.
pub(super) fn normal_f64(state: &mut State, mean: f64, std: f64) -> f64 {
    let sample = state.next_normal_f64.take().unwrap_or_else(|| {
        let u1 = unit_f64(state.engine.next_u64());
        let u2 = unit_f64(state.engine.next_u64());
        let radius = (-2.0 * cmath::ln_1p(-u2)).sqrt();
        let theta = 2.0 * PI * u1;
        state.next_normal_f64 = Some(radius * theta.sin());
        radius * theta.cos()
    });
    cmath::fma(sample, std, mean)
}

/// How draws are cut into parts: of float32, and of float64 with the platform's functions.
const CUT: Cut = Cut {
    words: 1,
    unit: 16,
    cost: 8,
};
const CUT_F64: Cut = Cut {
    words: 2,
    unit: 16,
    cost: 60,
};

pub(super) fn fill_f64(engine: &mut Mt19937, out: &mut [f64], mean: f64, std: f64) {
    in_parts(engine, out, CUT_F64, |engine, out| {
        let size = out.len();
        for chunk in out.chunks_mut(CHUNK) {
            engine.map_u64(chunk, unit_f64);
            for block in chunk.as_chunks_mut::<16>().0 {
                box_muller_f64(block, mean, std);
            }
        }
        if !size.is_multiple_of(16)
            && let Some(block) = out.last_chunk_mut::<16>()
        {
            engine.map_u64(block, unit_f64);
            box_muller_f64(block, mean, std);
        }
    });
}

fn box_muller_f64(block: &mut [f64; 16], mean: f64, std: f64) {
    let (first, second) = block.split_at_mut(8);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * (1.0 - *a).ln()).sqrt();
        let theta = 2.0 * PI * *b;
        *a = cmath::fma(radius * theta.cos(), std, mean);
        *b = cmath::fma(radius * theta.sin(), std, mean);
    }
}

pub(super) fn fill_f32(engine: &mut Mt19937, out: &mut [f32], mean: f32, std: f32) {
    in_parts(engine, out, CUT, |engine, out| {
        part_f32(engine, out, mean, std)
    });
}

crate::multiversion! {
    [crate::machine::InstructionSet]
    /// A part of [`fill_f32`].
    fn part_f32<A>(engine: &mut Mt19937, out: &mut [f32], mean: f32, std: f32) {
        let size = out.len();
        for chunk in out.chunks_mut(CHUNK) {
            engine.map_u32(chunk, unit_f32);
            box_muller_f32::<A>(chunk, mean, std);
        }
        if !size.is_multiple_of(16)
            && let Some(block) = out.last_chunk_mut::<16>()
        {
            engine.map_u32(block, unit_f32);
            box_muller_f32::<A>(block, mean, std);
        }
    }
}

/// The 16-bit types: drawn in `f32`, sixteen at a time, so that no draw is spent on a remainder
/// before its redraw.
pub(super) fn fill_16_bit<T: Copy>(
    engine: &mut Mt19937,
    out: &mut [T],
    mean: f32,
    std: f32,
    round: impl Fn(f32) -> T,
) {
    let size = out.len();
    let mut buffer = [0.0f32; CHUNK];
    for chunk in out.chunks_mut(CHUNK) {
        let drawn = &mut buffer[..chunk.len() / 16 * 16];
        fill_f32(engine, drawn, mean, std);
        for (o, &value) in chunk.iter_mut().zip(drawn.iter()) {
            *o = round(value);
        }
    }
    if !size.is_multiple_of(16)
        && let Some(block) = out.last_chunk_mut::<16>()
    {
        let drawn = &mut buffer[..16];
        fill_f32(engine, drawn, mean, std);
        for (o, &value) in block.iter_mut().zip(drawn.iter()) {
            *o = round(value);
        }
    }
}

/// Turns each 16 uniforms of a chunk, 8 radii then 8 angles, into 16 normals.
///
/// The logarithm, sine and cosine are the single precision ones of Moshier's Cephes library, with
/// the roundings of PyTorch's AVX2 build (products fused into the sums that use them).
#[inline(always)]
fn box_muller_f32<A: InstructionSet>(chunk: &mut [f32], mean: f32, std: f32) {
    // Radii and angles each in a row, for loops over vectors of any width.
    let (mut radii, mut angles) = ([[0.5; 8]; CHUNK / 16], [[0.5; 8]; CHUNK / 16]);
    let eights = chunk.as_chunks_mut::<8>().0;
    let blocks = eights.len() / 2;
    let (radii, angles) = (&mut radii[..blocks], &mut angles[..blocks]);
    for i in 0..blocks {
        radii[i] = eights[2 * i];
        angles[i] = eights[2 * i + 1];
    }
    let (a, b) = (radii.as_flattened_mut(), angles.as_flattened_mut());
    for i in 0..a.len() {
        let radius = (-2.0 * log_f32::<A>(1.0 - a[i])).sqrt();
        let (sin, cos) = sin_cos_f32::<A>((2.0 * PI) as f32 * b[i]);
        a[i] = fma32::<A>(radius * cos, std, mean);
        b[i] = fma32::<A>(radius * sin, std, mean);
    }
    for i in 0..blocks {
        eights[2 * i] = radii[i];
        eights[2 * i + 1] = angles[i];
    }
}

/// Cephes `logf` of a normal positive `x`.
#[inline(always)]
fn log_f32<A: InstructionSet>(x: f32) -> f32 {
    const P: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_84e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let bits = x.to_bits();
    let mut e = ((bits >> 23) as i32 - 126) as f32;
    let mut m = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let small = m < std::f32::consts::FRAC_1_SQRT_2;
    let again = if small { m } else { 0.0 };
    e -= if small { 1.0 } else { 0.0 };
    m = (m - 1.0) + again;
    let z = m * m;
    let mut y = P[0];
    for &p in &P[1..] {
        y = fma32::<A>(y, m, p);
    }
    y = fma32::<A>(y * m, z, e * -2.121_944_4e-4);
    y = fma32::<A>(-0.5, z, y);
    fma32::<A>(e, 0.693_359_4, m + y)
}

/// Cephes `sinf` and `cosf` of an `x` of 0 to 8.
#[inline(always)]
fn sin_cos_f32<A: InstructionSet>(x: f32) -> (f32, f32) {
    // The octant, rounded up to even, and x less that many quarters of pi, in three parts.
    // SAFETY: x is finite and small.
    let octant: i32 = unsafe { (x * (4.0 / PI) as f32).to_int_unchecked() };
    let octant = (octant + 1) & !1;
    let y = octant as f32;
    let x = fma32::<A>(y, -0.785_156_25, x);
    let x = fma32::<A>(y, -2.418_756_5e-4, x);
    let x = fma32::<A>(y, -3.774_895e-8, x);
    let z = x * x;
    let c = fma32::<A>(2.443_315_7e-5, z, -1.388_731_6e-3);
    let c = fma32::<A>(c, z, 4.166_664_6e-2);
    let c = fma32::<A>(c * z, z, -(z * 0.5)) + 1.0;
    let s = fma32::<A>(-1.951_529_6e-4, z, 8.332_161e-3);
    let s = fma32::<A>(s, z, -1.666_665_5e-1);
    let s = fma32::<A>(s * z, x, x);
    let (sin, cos) = if octant & 2 == 0 { (s, c) } else { (c, s) };
    let sin_sign = ((octant & 4) as u32) << 29;
    let cos_sign = ((!(octant - 2) & 4) as u32) << 29;
    (
        f32::from_bits(sin.to_bits() ^ sin_sign),
        f32::from_bits(cos.to_bits() ^ cos_sign),
    )
}
