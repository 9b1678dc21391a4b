//! New tensors: ranges, identity matrices, and tensors laid into larger ones.
//!
//! - `Arange` ([`attrs::Arange`]): numbers a step apart.
//! - `Linspace` ([`attrs::Linspace`]): as many equally spaced numbers as the output has elements,
//!   or the powers with these exponents.
//! - `Eye`: ones on the diagonal of a matrix, zeros elsewhere.
//! - `Cat` ([`attrs::Cat`]): the operands one after the other along a dimension, converted.
//! - `Pad` ([`attrs::Pad`]): the operand with elements of one value before it, and as many behind it
//!   as the output has room for.

mod spaced;

use std::ops::Range;
use std::sync::Mutex;

use half::{bf16, f16};
use torsh_core::attrs::NONE;
use torsh_core::{DType, Kernel, KernelArgs, Result, Scalar, TorshError, View, attrs, pool};

use crate::kernels::copy::{self, fill_view};
use crate::memory::blocks::{self, GRAIN, backwards};
use crate::memory::element::Addresses;
use crate::memory::operands::operands;

fn missing(what: &str) -> TorshError {
    TorshError::invalid("", format!("expected {what}"))
}

/// Writes `f(i)` to element `i` of a vector.
fn write<T: Copy>(out: &View<'_>, f: impl Fn(usize) -> T + Sync) {
    let n = out.numel();
    let step = out.strides().first().copied().unwrap_or(1);
    let ptr = Addresses([out.ptr()]);
    blocks::parallel(n, &|range| {
        let base = ptr.get()[0] as *mut T;
        for i in range {
            // SAFETY: the output is a vector of `n` elements of this type; ranges are disjoint.
            unsafe { base.offset(i as isize * step).write_unaligned(f(i)) };
        }
    });
}

pub(crate) fn arange(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], []) = operands(args)?;
    let &attrs::Arange { start, step } = args.attrs()?;
    let (fs, fd) = (start.to_f64(), step.to_f64());
    let (is, id) = (start.to_i64(), step.to_i64());
    let int = |i: usize| is.wrapping_add(id.wrapping_mul(i as i64));
    let float = |i: usize| fs + fd * i as f64;
    match out.dtype() {
        DType::F64 => write(out, float),
        DType::F32 => write(out, |i| float(i) as f32),
        DType::F16 => write(out, |i| f16::from_f32(float(i) as f32)),
        DType::BF16 => write(out, |i| bf16::from_f32(float(i) as f32)),
        DType::I64 => write(out, int),
        DType::I32 => write(out, |i| int(i) as i32),
        DType::I16 => write(out, |i| int(i) as i16),
        DType::I8 => write(out, |i| int(i) as i8),
        DType::U8 => write(out, |i| int(i) as u8),
        _ => return Err(args.unsupported()),
    }
    Ok(())
}

pub(crate) fn linspace(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], []) = operands(args)?;
    let &attrs::Linspace {
        start: a,
        end: b,
        base,
    } = args.attrs()?;
    let done = match base {
        None => spaced::linspace(out, a, b),
        Some(base) => spaced::logspace(out, a, b, base),
    };
    if done {
        Ok(())
    } else {
        Err(args.unsupported())
    }
}

pub(crate) fn eye(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], []) = operands(args)?;
    let ([rows, cols], [down, right]) = (out.shape(), out.strides()) else {
        return Err(missing("a matrix"));
    };
    let n = [(*rows).min(*cols)];
    if n == [0] {
        return Ok(());
    }
    // The strides of an empty matrix may be anything.
    let step = [down + right];
    // SAFETY: the output is valid for its layout, and the diagonal is a part of it.
    let diagonal = unsafe { View::new(out.ptr(), out.dtype(), &n, &step) };
    // SAFETY: the output is valid for its layout, and the diagonal is a part of it.
    unsafe {
        fill_view(out, [0; 16]);
        fill_view(&diagonal, Scalar::Int(1).to_bytes(out.dtype()));
    }
    Ok(())
}

/// Copies `src` into the part of `out` that starts `offset` elements after its first.
fn copy_into(args: &KernelArgs<'_>, out: &View<'_>, offset: isize, src: &View<'_>) -> Result<()> {
    // SAFETY: the plan made the output large enough for `src` at this offset.
    let part = unsafe {
        View::new(
            out.ptr()
                .wrapping_offset(offset * out.dtype().size() as isize),
            out.dtype(),
            src.shape(),
            out.strides(),
        )
    };
    let (outputs, inputs) = ([part], [*src]);
    // SAFETY: a copy takes any dtypes, and both views have the operand's shape.
    copy::copy(&unsafe { KernelArgs::new(Kernel::Copy, args.compute(), &outputs, &inputs, NONE) })
}

/// The operands of `cat`, each with the offset at which it goes into the output.
struct CatOperands<'a> {
    args: &'a KernelArgs<'a>,
    out: &'a View<'a>,
    parts: Vec<(isize, &'a View<'a>)>,
}

// SAFETY: operands are only read, and each is written to a part of the output of its own.
unsafe impl Sync for CatOperands<'_> {}

impl CatOperands<'_> {
    /// Copies some of the operands, from the last to the first where `back`.
    fn copy(&self, range: Range<usize>, back: bool) -> Result<()> {
        let (start, last) = (range.start, range.len().wrapping_sub(1));
        range
            .map(|i| {
                if back {
                    start + (last - (i - start))
                } else {
                    i
                }
            })
            .map(|i| &self.parts[i])
            .try_for_each(|(offset, src)| copy_into(self.args, self.out, *offset, src))
    }
}

pub(crate) fn cat(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], []) = operands(args)?;
    let dim = args.attrs::<attrs::Cat>()?.dim;
    let (Some(&step), Some(&room)) = (out.strides().get(dim), out.shape().get(dim)) else {
        return Err(missing("a dimension of the output"));
    };
    let mut at = 0usize;
    // Where each operand goes.
    let mut parts = Vec::with_capacity(args.inputs().len());
    for src in args.inputs() {
        // Empty vectors go with tensors of any rank.
        if src.numel() == 0 {
            if src.shape().len() == out.shape().len() {
                at += src.shape()[dim];
            }
            continue;
        }
        let fits = src.shape().len() == out.shape().len()
            && src
                .shape()
                .iter()
                .zip(out.shape())
                .enumerate()
                .all(|(d, (a, b))| d == dim || a == b);
        if !fits || at + src.shape()[dim] > room {
            return Err(missing("operands that fill the output"));
        }
        parts.push((at as isize * step, src));
        at += src.shape()[dim];
    }
    let pieces = CatOperands { args, out, parts };
    let (parts, pieces) = (&pieces.parts, &pieces);
    // Threads share many operands of like size, or each operand.
    let most = parts.iter().map(|(_, s)| s.numel()).max().unwrap_or(0);
    let threads = pool::num_threads();
    if parts.len() < 4 * threads || most * parts.len() > 2 * out.numel() {
        return pieces.copy(0..parts.len(), false);
    }
    let back = backwards(out.numel());
    let failed = Mutex::new(Ok(()));
    let grain = (GRAIN / most.max(1)).max(1);
    pool::parallel_for(parts.len(), grain, &|range| {
        if let Err(e) = pieces.copy(range, back) {
            *failed.lock().unwrap_or_else(|p| p.into_inner()) = Err(e);
        }
    });
    failed.into_inner().unwrap_or_else(|p| p.into_inner())
}

pub(crate) fn pad(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [src]) = operands(args)?;
    let attrs::Pad { before, value, .. } = args.attrs()?;
    if before.len() != out.shape().len() || src.shape().len() != out.shape().len() {
        return Err(missing("a padding for each dimension"));
    }
    let mut offset = 0isize;
    for (d, &b) in before.iter().enumerate() {
        if b + src.shape()[d] > out.shape()[d] {
            return Err(missing("an output with room for the operand"));
        }
        offset += b as isize * out.strides()[d];
    }
    // SAFETY: the output is valid for its layout.
    unsafe { fill_view(out, value.to_bytes(out.dtype())) };
    if src.numel() == 0 {
        return Ok(());
    }
    copy_into(args, out, offset, src)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use torsh_core::{Attributes, Dims};

    fn view<'a, T>(
        v: &mut [T],
        dtype: DType,
        shape: &'a [usize],
        strides: &'a [isize],
    ) -> View<'a> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe { View::new(v.as_mut_ptr().cast(), dtype, shape, strides) }
    }

    fn run(k: Kernel, out: View<'_>, inputs: &[View<'_>], attrs: &dyn Attributes) {
        crate::testing::run(k, out.dtype(), &[out], inputs, attrs).unwrap();
    }

    #[torsh_macros::unit_test]
    fn ranges() {
        let mut v = [0i64; 4];
        let range = attrs::Arange {
            start: Scalar::Int(5),
            step: Scalar::Int(-2),
        };
        let out = view(&mut v, DType::I64, &[4], &[1]);
        run(Kernel::Arange, out, &[], &range);
        assert_eq!(v, [5, 3, 1, -1]);
        let mut v = [9f32; 6];
        let points = attrs::Linspace {
            start: Scalar::Float(0.0),
            end: Scalar::Float(1.0),
            base: None,
        };
        let out = view(&mut v, DType::F32, &[3], &[2]);
        run(Kernel::Linspace, out, &[], &points);
        assert_eq!(v, [0.0, 9.0, 0.5, 9.0, 1.0, 9.0]);
        let mut v = [0f64; 3];
        let powers = attrs::Linspace {
            end: Scalar::Int(2),
            base: Some(Scalar::Float(10.0)),
            ..points
        };
        let out = view(&mut v, DType::F64, &[3], &[1]);
        run(Kernel::Linspace, out, &[], &powers);
        assert_eq!(v, [1.0, 10.0, 100.0]);
    }

    #[torsh_macros::unit_test]
    fn identity_of_a_transposed_matrix() {
        let mut v = [7i32; 6];
        let out = view(&mut v, DType::I32, &[3, 2], &[1, 3]);
        run(Kernel::Eye, out, &[], NONE);
        assert_eq!(v, [1, 0, 0, 0, 1, 0]);
    }

    #[torsh_macros::unit_test]
    fn joins_and_pads() {
        let (mut a, mut b) = ([1i32, 2], [3f32, 4.0, 5.0, 6.0]);
        let mut v = [0f32; 6];
        let inputs = [
            view(&mut a, DType::I32, &[2, 1], &[1, 1]),
            view(&mut b, DType::F32, &[2, 2], &[2, 1]),
        ];
        let out = view(&mut v, DType::F32, &[2, 3], &[3, 1]);
        run(Kernel::Cat, out, &inputs, &attrs::Cat { dim: 1 });
        assert_eq!(v, [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
        let mut v = [0f32; 12];
        let frame = attrs::Pad {
            before: Dims::from_slice(&[1, 0]),
            after: Dims::from_slice(&[1, 1]),
            value: Scalar::Int(9),
        };
        let out = view(&mut v, DType::F32, &[4, 3], &[3, 1]);
        run(Kernel::Pad, out, &inputs[1..], &frame);
        assert_eq!(
            v,
            [9.0, 9.0, 9.0, 3.0, 4.0, 9.0, 5.0, 6.0, 9.0, 9.0, 9.0, 9.0]
        );
    }

    #[torsh_macros::unit_test]
    fn joins_many_either_way() {
        const N: usize = 9000;
        let mut x: Vec<i32> = (0..40 * N as i32).collect();
        let want = x.clone();
        let inputs: Vec<View<'_>> = (x.chunks_exact_mut(N))
            .map(|part| view(part, DType::I32, &[N], &[1]))
            .collect();
        for _ in 0..3 {
            let mut v = vec![-1i32; want.len()];
            let out = view(&mut v, DType::I32, &[40 * N], &[1]);
            run(Kernel::Cat, out, &inputs, &attrs::Cat { dim: 0 });
            assert_eq!(v, want);
        }
    }
}
