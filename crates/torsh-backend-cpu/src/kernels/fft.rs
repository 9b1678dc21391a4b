//! Discrete Fourier transforms.
//!
//! | key | inputs | outputs | dtypes |
//! |---|---|---|---|
//! | `Fft`, `c2c` | complex tensor | complex tensor of the same shape | complex64, complex128 |
//! | `Fft`, `r2c` | real tensor | the half spectrum along the last dimension, or the whole one | float32 to complex64, float64 to complex128 |
//! | `Fft`, `c2r` | complex tensor, `length / 2 + 1` along the last dimension | real tensor | complex64 to float32, complex128 to float64 |
//!
//! The dtype to compute in is the complex one. Dimensions are transformed one after the other; `choose.rs` says how
//! the lines of one are:
//!
//! * in lanes (`lanes.rs`): each lane of a vector has a line. Columns of a dimension that others come behind are read
//!   and written where they are, without a transposed copy; the lengths are products of 2, 3, 5 and 7;
//! * one at a time (`line.rs`), by `rustfft`: other lengths, and few or long lines. Along a dimension that others come
//!   behind, a block of columns is copied to a buffer that stays in L2;
//! * as a matrix (`split.rs`): a long line, whose columns and rows are transformed in lanes, by several threads.
//!
//! Lines of real numbers of even length take a complex transform of half the length (`half_spectrum.rs`).

pub(crate) mod choose;
mod half_spectrum;
mod lanes;
mod line;
mod pass;
mod plans;
mod split;
mod stages;
mod transposition;

use num_complex::Complex;
use torsh_core::attrs::{self, FftKind};
use torsh_core::{DType, KernelArgs, Result, Shape, View};

use crate::memory::dense::{DenseOut, Ptr, Scratch, copy};
use crate::memory::operands::missing;
use line::Spec;
use pass::TransformSource;
use plans::FftReal;
pub use plans::{PlanCacheStats, clear_plan_cache, plan_cache_stats};

/// The kernel for a key of this module.
pub(crate) fn fft(args: &KernelArgs<'_>) -> Result<()> {
    match args.compute() {
        DType::C64 => run::<f32>(args, DType::F32),
        DType::C128 => run::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// Whether operand, result and attributes are what the kernel documents.
fn fits(call: &attrs::Fft, x: &View<'_>, out: &View<'_>, real: DType, complex: DType) -> bool {
    let (from, to) = match call.kind {
        FftKind::Complex => (complex, complex),
        FftKind::FromReal => (real, complex),
        FftKind::ToReal => (complex, real),
    };
    let n = x.shape().len();
    let there = |d: &i64| usize::try_from(*d).is_ok_and(|d| d < n);
    if x.dtype() != from || out.dtype() != to || out.shape().len() != n {
        return false;
    }
    if !call.dims.iter().all(there) {
        return false;
    }
    let half = call.length / 2 + 1;
    let last = call.dims.last().map_or(0, |&d| d as usize);
    let (taken, given) = match call.kind {
        FftKind::Complex => return x.shape() == out.shape(),
        FftKind::FromReal if call.onesided => (call.length, half),
        FftKind::FromReal => (call.length, call.length),
        FftKind::ToReal => (half, call.length),
    };
    !call.dims.is_empty()
        && call.length > 0
        && (call.onesided || call.kind == FftKind::ToReal || call.dims.len() == 1)
        && (0..n).all(|d| match d == last {
            true => (x.shape()[d], out.shape()[d]) == (taken, given),
            false => x.shape()[d] == out.shape()[d],
        })
}

fn run<T: FftReal>(args: &KernelArgs<'_>, real: DType) -> Result<()> {
    let ([out], [x]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let call = args.attrs::<attrs::Fft>()?;
    if !fits(call, x, out, real, args.compute()) {
        return Err(missing());
    }
    if out.numel() == 0 || x.numel() == 0 {
        return Ok(());
    }
    let result = DenseOut::new(out, out.dtype())?;
    let Some((&last, others)) = call.dims.split_last() else {
        // No dimension: a copy.
        copy(x, out)?;
        return Ok(());
    };
    let last = last as usize;
    let strides = Shape::new(out.shape()).contiguous_strides();
    let of_result = || TransformSource {
        ptr: result.ptr::<Complex<T>>(),
        strides: &strides,
    };
    let line = match call.kind {
        FftKind::Complex => Spec::of(call, x.shape()[last]),
        _ => Spec::of(call, call.length),
    };
    // SAFETY: `fits` has compared dtypes and shapes with the attributes; result and scratch memory are
    // row-major and have the elements of their shapes.
    unsafe {
        if call.kind == FftKind::ToReal {
            let half = Shape::new(x.shape()).contiguous_strides();
            let mut from = TransformSource {
                ptr: Ptr::new(x.ptr().cast::<Complex<T>>()),
                strides: x.strides(),
            };
            let scratch = match others.is_empty() {
                true => None,
                false => Some(Scratch::<Complex<T>>::new(x.numel())?),
            };
            if let Some(scratch) = &scratch {
                let to = Ptr::new(scratch.ptr());
                for &d in others.iter().rev() {
                    let l = Spec::complex(x.shape()[d as usize], call.forward, 1.0);
                    pass::run::<T, _, _>(&l, from, to, x.shape(), d as usize)?;
                    from = TransformSource {
                        ptr: to,
                        strides: &half,
                    };
                }
            }
            pass::run::<T, _, _>(&line, from, result.ptr::<T>(), out.shape(), last)?;
        } else {
            let to = result.ptr::<Complex<T>>();
            let (ptr, strides) = (x.ptr(), x.strides());
            if call.kind == FftKind::Complex {
                let ptr = Ptr::new(ptr.cast::<Complex<T>>());
                pass::run::<T, _, _>(
                    &line,
                    TransformSource { ptr, strides },
                    to,
                    out.shape(),
                    last,
                )?;
            } else {
                let ptr = Ptr::new(ptr.cast::<T>());
                pass::run::<T, _, _>(
                    &line,
                    TransformSource { ptr, strides },
                    to,
                    out.shape(),
                    last,
                )?;
            }
            for &d in others.iter().rev() {
                let l = Spec::complex(out.shape()[d as usize], call.forward, 1.0);
                pass::run::<T, _, _>(&l, of_result(), to, out.shape(), d as usize)?;
            }
        }
    }
    result.finish()
}

#[cfg(feature = "unit-tests")]
mod tests;
