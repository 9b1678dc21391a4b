//! Cross products.
//!
//! `Cross`: two tensors of one shape whose dimension `dim` (the attribute) has size 3. Every
//! number type but bool; integers wrap.

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{DType, KernelArgs, Result, attrs, pool};

use crate::machine::tuning::cross::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr};
use crate::memory::operands::{missing, operands};

/// A number that has 2 x 2 determinants.
trait CrossNumber: Copy + Send + Sync + 'static {
    /// `a d - b c`.
    fn determinant(a: Self, b: Self, c: Self, d: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ty)*; $($i:ty)*) => {
        $(impl CrossNumber for $t {
            #[inline(always)]
            fn determinant(a: $t, b: $t, c: $t, d: $t) -> $t {
                a * d - b * c
            }
        })*
        $(impl CrossNumber for $i {
            #[inline(always)]
            fn determinant(a: $i, b: $i, c: $i, d: $i) -> $i {
                a.wrapping_mul(d).wrapping_sub(b.wrapping_mul(c))
            }
        })*
    };
}
// The half types round each product, as PyTorch's do.
numbers!(f16 bf16 f32 f64 Complex<f32> Complex<f64>; u8 i8 i16 i32 i64);

pub(crate) fn cross(args: &KernelArgs<'_>) -> Result<()> {
    match args.compute() {
        DType::F16 => run::<f16>(args),
        DType::BF16 => run::<bf16>(args),
        DType::F32 => run::<f32>(args),
        DType::F64 => run::<f64>(args),
        DType::C64 => run::<Complex<f32>>(args),
        DType::C128 => run::<Complex<f64>>(args),
        DType::U8 => run::<u8>(args),
        DType::I8 => run::<i8>(args),
        DType::I16 => run::<i16>(args),
        DType::I32 => run::<i32>(args),
        DType::I64 => run::<i64>(args),
        _ => Err(args.unsupported()),
    }
}

fn run<T: CrossNumber>(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [a, b]) = operands(args)?;
    let dim = args.attrs::<attrs::Cross>()?.dim;
    if out.shape().get(dim) != Some(&3) || a.shape() != out.shape() || b.shape() != out.shape() {
        return Err(missing());
    }
    let dtype = args.compute();
    let (a, b) = (Dense::new(a, dtype)?, Dense::new(b, dtype)?);
    let result = DenseOut::new(out, dtype)?;
    let inner: usize = out.shape()[dim + 1..].iter().product();
    let outer: usize = out.shape()[..dim].iter().product();
    let (a, b, y) = (a.ptr::<T>(), b.ptr::<T>(), result.ptr::<T>());
    let grain = (GRAIN / inner.max(1)).max(1);
    pool::parallel_for(outer, grain, &|range| {
        for o in range {
            // SAFETY: the three tensors have `outer * 3 * inner` elements each.
            unsafe { one(inner, o * 3 * inner, a, b, y) };
        }
    });
    result.finish()
}

/// The products of the `inner` vectors that start at `from`.
///
/// # Safety
/// The three must hold `3 * inner` elements from there.
unsafe fn one<T: CrossNumber>(inner: usize, from: usize, a: Ptr<T>, b: Ptr<T>, y: Ptr<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..inner {
            let at = |p: Ptr<T>, k: usize| *p.at((from + k * inner + i) as isize);
            let (a0, a1, a2) = (at(a, 0), at(a, 1), at(a, 2));
            let (b0, b1, b2) = (at(b, 0), at(b, 1), at(b, 2));
            let put = |k: usize, v: T| *y.at((from + k * inner + i) as isize) = v;
            put(0, T::determinant(a1, a2, b1, b2));
            put(1, T::determinant(a2, a0, b2, b0));
            put(2, T::determinant(a0, a1, b0, b1));
        }
    }
}
