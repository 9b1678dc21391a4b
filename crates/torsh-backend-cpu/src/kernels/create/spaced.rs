//! Equally spaced numbers and their powers, rounded where PyTorch rounds.

use half::{bf16, f16};
use num_complex::Complex;
use num_traits::Float;
use torsh_core::{DType, Scalar, View, cmath};

use super::write;
use crate::machine::tuning::spaced::BLOCK;
use crate::memory::blocks;
use crate::memory::element::Addresses;
use crate::multiversion;
use crate::simd::Arch;

/// `n` points from `start` to `end`, `step` apart, each counted from the nearer end: both ends are
/// exact.
#[derive(Clone, Copy)]
struct Points<T> {
    start: T,
    end: T,
    step: T,
    n: usize,
}

/// Float32 or float64.
trait Number: Float {
    /// `a * b + c`, rounded once.
    fn fma(a: Self, b: Self, c: Self) -> Self;
}
impl Number for f32 {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        cmath::fmaf(a, b, c)
    }
}
impl Number for f64 {
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        cmath::fma(a, b, c)
    }
}

impl<T: Number> Points<T> {
    fn new(start: T, end: T, n: usize) -> Points<T> {
        let step = (end - start) / number(n.max(2) - 1);
        Points {
            start,
            end,
            step,
            n,
        }
    }

    /// The steps from the nearer end to the point, negative ones from the end, and that end.
    #[inline(always)]
    fn steps(&self, i: usize) -> (T, T) {
        if i < self.n / 2 {
            (number(i), self.start)
        } else {
            (-number::<T>(self.n - i - 1), self.end)
        }
    }

    /// A point, product and sum rounded at once.
    #[inline(always)]
    fn fused(&self, i: usize) -> T {
        let (steps, end) = self.steps(i);
        T::fma(self.step, steps, end)
    }

    /// [`Self::fused`] in code for an instruction set.
    #[inline(always)]
    fn fused_by<A: Arch>(&self, i: usize) -> T {
        let (steps, end) = self.steps(i);
        match A::FMA {
            true => self.step.mul_add(steps, end),
            false => T::fma(self.step, steps, end),
        }
    }

    /// A point, product and sum rounded one after the other.
    #[inline(always)]
    fn rounded(&self, i: usize) -> T {
        let (steps, end) = self.steps(i);
        self.step * steps + end
    }
}

/// A count as the nearest number.
#[inline(always)]
fn number<T: Float>(n: usize) -> T {
    T::from(n).unwrap_or_else(T::infinity)
}

multiversion! {
    /// The points from `from` on.
    fn fill<A, T: Number>(points: &Points<T>, from: usize, to: &mut [T]) {
        for (k, to) in to.iter_mut().enumerate() {
            *to = points.fused_by::<A>(from + k);
        }
    }
}

/// Writes what `convert` makes of the numbers that `fill` gives for the positions from one on.
fn write_blocks<P: Copy + Default, T: Copy>(
    out: &View<'_>,
    fill: impl Fn(usize, &mut [P]) + Sync,
    convert: impl Fn(P) -> T + Sync,
) {
    let step = out.strides().first().copied().unwrap_or(1);
    let ptr = Addresses([out.ptr()]);
    blocks::parallel(out.numel(), &|range| {
        let base = ptr.get()[0] as *mut T;
        let mut block = [P::default(); BLOCK];
        for at in range.clone().step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(range.end - at)];
            fill(at, block);
            for (k, p) in block.iter().enumerate() {
                // SAFETY: the output is a vector of this type with these positions; ranges are
                // disjoint.
                unsafe {
                    base.offset((at + k) as isize * step)
                        .write_unaligned(convert(*p))
                };
            }
        }
    });
}

/// Points between two ends. Like PyTorch's, those of every dtype but float16 are rounded once.
/// `false` where the dtype has none.
pub(super) fn linspace(out: &View<'_>, a: Scalar, b: Scalar) -> bool {
    let n = out.numel();
    let single = |a: f64, b: f64| Points::<f32>::new(a as f32, b as f32, n);
    let (x, y) = (a.to_f64(), b.to_f64());
    macro_rules! ints {
        ($t:ty) => {{
            // Integers step in float64 between ends of their type.
            let whole = |s: Scalar| s.to_i64() as $t as f64;
            let points = Points::<f64>::new(whole(a), whole(b), n);
            write_blocks(out, |i, to| fill(&points, i, to), |p| p as i64 as $t);
        }};
    }
    macro_rules! complexes {
        ($t:ident) => {{
            let ((re, im), (to_re, to_im)) = (a.to_complex(), b.to_complex());
            let re = Points::<$t>::new(re as $t, to_re as $t, n);
            let im = Points::<$t>::new(im as $t, to_im as $t, n);
            write(out, |i| Complex::new(re.fused(i), im.fused(i)));
        }};
    }
    match out.dtype() {
        DType::F64 => {
            let points = Points::<f64>::new(x, y, n);
            write_blocks(out, |i, to| fill(&points, i, to), |p| p);
        }
        DType::F32 => {
            let points = single(x, y);
            write_blocks(out, |i, to| fill(&points, i, to), |p| p);
        }
        DType::BF16 => {
            let points = single(bf16::from_f64(x).to_f64(), bf16::from_f64(y).to_f64());
            write_blocks(out, |i, to| fill(&points, i, to), bf16::from_f32);
        }
        DType::F16 => {
            let points = single(f16::from_f64(x).to_f64(), f16::from_f64(y).to_f64());
            write(out, |i| f16::from_f32(points.rounded(i)));
        }
        DType::C64 => complexes!(f32),
        DType::C128 => complexes!(f64),
        DType::I64 => ints!(i64),
        DType::I32 => ints!(i32),
        DType::I16 => ints!(i16),
        DType::I8 => ints!(i8),
        DType::U8 => ints!(u8),
        DType::Bool => return false,
    }
    true
}

/// Powers of a base whose exponents are points between two ends. Like PyTorch's, those of real
/// numbers are float64 ones, from ends and a difference rounded to the dtype. `false` where the
/// dtype has none.
pub(super) fn logspace(out: &View<'_>, a: Scalar, b: Scalar, base: Scalar) -> bool {
    let n = out.numel();
    let (x, y, power) = (a.to_f64(), b.to_f64(), base.to_f64());
    macro_rules! reals {
        ($round:expr, $difference:expr, $convert:expr) => {{
            let (round, difference, convert) = ($round, $difference, $convert);
            // A single exponent keeps its digits.
            let points = match n {
                1 => Points::<f64>::new(x, x, n),
                _ => {
                    let (start, end): (f64, f64) = (round(x), round(y));
                    let step = difference(end - start) / (n.max(2) - 1) as f64;
                    Points {
                        start,
                        end,
                        step,
                        n,
                    }
                }
            };
            write(out, |i| convert(cmath::pow(power, points.rounded(i))));
        }};
    }
    macro_rules! floats {
        ($round:expr, $convert:expr) => {
            reals!($round, $round, $convert)
        };
    }
    macro_rules! ints {
        ($t:ty) => {
            reals!(
                |v: f64| v as i64 as $t as f64,
                |v: f64| v,
                |p: f64| p as i64 as $t
            )
        };
    }
    macro_rules! complexes {
        ($t:ident) => {{
            let ((re, im), (to_re, to_im)) = (a.to_complex(), b.to_complex());
            let re = Points::<$t>::new(re as $t, to_re as $t, n);
            let im = Points::<$t>::new(im as $t, to_im as $t, n);
            let base = base.to_complex();
            let base = Complex::<$t>::new(base.0 as $t, base.1 as $t);
            write(out, |i| {
                base.powc(Complex::new(re.rounded(i), im.rounded(i)))
            });
        }};
    }
    match out.dtype() {
        DType::F64 => floats!(|v: f64| v, |p: f64| p),
        DType::F32 => floats!(|v: f64| v as f32 as f64, |p: f64| p as f32),
        DType::F16 => floats!(|v: f64| f16::from_f64(v).to_f64(), |p: f64| {
            f16::from_f32(p as f32)
        }),
        DType::BF16 => floats!(|v: f64| bf16::from_f64(v).to_f64(), |p: f64| {
            bf16::from_f32(p as f32)
        }),
        DType::C64 => complexes!(f32),
        DType::C128 => complexes!(f64),
        DType::I64 => ints!(i64),
        DType::I32 => ints!(i32),
        DType::I16 => ints!(i16),
        DType::I8 => ints!(i8),
        DType::U8 => ints!(u8),
        DType::Bool => return false,
    }
    true
}
