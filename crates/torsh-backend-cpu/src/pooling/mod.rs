//! Maximum pooling over windows of a plane.
//!
//! - `MaxPool2d`: input `[n, c, h, w]` into the maxima and, where a second output is wanted, their
//!   int64 indices in the plane, both `[n, c, oh, ow]`. Attributes: `kernel_size`, `stride`,
//!   `padding` and `dilation` as pairs; `ceil_mode` shows in the output's size. As in PyTorch a
//!   nan is larger than any number, and of several the last one's index is taken.
//! - `MaxPool2dBackward`: the output's gradient and those indices into the input's gradient.
//!
//! Real floating-point types and integers.

use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use torsh_core::{DType, Kernel, KernelArgs, KernelFn, Result, TorshError, View, pool};

use crate::dense::{Dense, DenseOut, missing, wide};

/// Window elements that are worth a thread of their own.
const GRAIN: usize = 16 * 1024;

/// The kernel for a key of this file.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    Some(match k {
        Kernel::MaxPool2d => max_pool,
        Kernel::MaxPool2dBackward => max_pool_backward,
        _ => return None,
    })
}

/// An element that has an order and a smallest value.
trait Ordered: Copy + Send + Sync {
    const LOWEST: Self;
    /// Whether `self` takes the place of the maximum so far.
    fn wins(self, best: Self) -> bool;
}
macro_rules! ordered {
    ($($t:ty: $lowest:expr, $wins:expr;)*) => {$(
        impl Ordered for $t {
            const LOWEST: $t = $lowest;
            #[inline(always)]
            fn wins(self, best: $t) -> bool {
                let wins: fn($t, $t) -> bool = $wins;
                wins(self, best)
            }
        }
    )*};
}
ordered! {
        f32: f32::NEG_INFINITY, |v, best| v > best || v.is_nan();
        f64: f64::NEG_INFINITY, |v, best| v > best || v.is_nan();
        f16: f16::NEG_INFINITY, |v, best| v.to_f32() > best.to_f32() || v.is_nan();
        bf16: bf16::NEG_INFINITY, |v, best| v.to_f32() > best.to_f32() || v.is_nan();
        u8: u8::MIN, |v, best| v > best;
        i8: i8::MIN, |v, best| v > best;
        i16: i16::MIN, |v, best| v > best;
        i32: i32::MIN, |v, best| v > best;
        i64: i64::MIN, |v, best| v > best;
}

#[derive(Clone, Copy)]
struct Geometry {
    planes: usize,
    input: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

impl Geometry {
    fn new(args: &KernelArgs<'_>, input: &View<'_>, output: &View<'_>) -> Result<Geometry> {
        let pair = |i: usize| match args.attr(i).ints() {
            &[y, x] if y >= 0 && x >= 0 => Ok([y as usize, x as usize]),
            _ => Err(missing()),
        };
        let (&[n, c, h, w], &[n2, c2, oh, ow]) = (input.shape, output.shape) else {
            return Err(missing());
        };
        let g = Geometry {
            planes: n * c,
            input: [h, w],
            output: [oh, ow],
            kernel: pair(0)?,
            stride: pair(1)?,
            padding: pair(2)?,
            dilation: pair(3)?,
        };
        let zero = [g.kernel, g.stride, g.dilation]
            .iter()
            .any(|pair| pair.contains(&0));
        match zero || [n, c] != [n2, c2] {
            true => Err(missing()),
            false => Ok(g),
        }
    }

    /// The first position inside the image and one past the last of the window at `at`.
    #[inline(always)]
    fn window(&self, axis: usize, at: usize) -> (usize, usize) {
        let (padding, dilation) = (self.padding[axis], self.dilation[axis]);
        let start = at * self.stride[axis];
        let end = start + (self.kernel[axis] - 1) * dilation + 1;
        // Taps before the image are left out, by whole dilations.
        let skipped = padding.saturating_sub(start).div_ceil(dilation);
        let first = (start + skipped * dilation).saturating_sub(padding);
        (first, end.saturating_sub(padding).min(self.input[axis]))
    }
}

fn max_pool(args: &KernelArgs<'_>) -> Result<()> {
    let (Some(input), Some(out)) = (args.inputs.first(), args.outputs.first()) else {
        return Err(missing());
    };
    let g = Geometry::new(args, input, out)?;
    match input.dtype {
        DType::F32 => run::<f32>(args, &g),
        DType::F64 => run::<f64>(args, &g),
        DType::F16 => run::<f16>(args, &g),
        DType::BF16 => run::<bf16>(args, &g),
        DType::U8 => run::<u8>(args, &g),
        DType::I8 => run::<i8>(args, &g),
        DType::I16 => run::<i16>(args, &g),
        DType::I32 => run::<i32>(args, &g),
        DType::I64 => run::<i64>(args, &g),
        DType::Bool | DType::C64 | DType::C128 => Err(args.unsupported()),
    }
}

fn run<T: Ordered>(args: &KernelArgs<'_>, g: &Geometry) -> Result<()> {
    let input = Dense::new(&args.inputs[0], args.inputs[0].dtype)?;
    let out = DenseOut::new(&args.outputs[0], args.outputs[0].dtype)?;
    let indices = DenseOut::optional(args.outputs.get(1), DType::I64)?;
    let (src, dst) = (input.ptr::<T>(), out.ptr::<T>());
    let at = indices.as_ref().map(|i| i.ptr::<i64>());
    let [oh, ow] = g.output;
    let each = oh * ow * g.kernel[0] * g.kernel[1];
    // Windows of two by two without padding, the most frequent, read no bounds.
    let simple = g.kernel == [2, 2]
        && g.padding == [0, 0]
        && g.dilation == [1, 1]
        && (0..2).all(|d| g.output[d] == 0 || (g.output[d] - 1) * g.stride[d] + 2 <= g.input[d]);
    pool::parallel_for(g.planes, (GRAIN / each.max(1)).max(1), &|range| {
        for plane in range {
            // SAFETY: planes are disjoint, and windows lie inside their plane.
            unsafe {
                let src = src.at((plane * g.input[0] * g.input[1]) as isize);
                let first = plane * oh * ow;
                let dst = dst.at(first as isize);
                let at = at.map(|i| i.at(first as isize));
                match simple {
                    true => two_by_two(g, src, dst, at),
                    false => windows(g, src, dst, at),
                }
            }
        }
    });
    if let Some(indices) = indices {
        indices.finish()?;
    }
    out.finish()
}

/// # Safety
/// The pointers are to one plane each.
unsafe fn windows<T: Ordered>(g: &Geometry, src: *const T, dst: *mut T, at: Option<*mut i64>) {
    let [oh, ow] = g.output;
    for y in 0..oh {
        let (y0, y1) = g.window(0, y);
        for x in 0..ow {
            let (x0, x1) = g.window(1, x);
            let (mut best, mut index) = (T::LOWEST, y0 * g.input[1] + x0);
            let mut iy = y0;
            while iy < y1 {
                let mut ix = x0;
                while ix < x1 {
                    // SAFETY: the window is cut to the plane.
                    let v = unsafe { *src.add(iy * g.input[1] + ix) };
                    if v.wins(best) {
                        (best, index) = (v, iy * g.input[1] + ix);
                    }
                    ix += g.dilation[1];
                }
                iy += g.dilation[0];
            }
            // SAFETY: one element of each output's plane.
            unsafe {
                *dst.add(y * ow + x) = best;
                if let Some(at) = at {
                    *at.add(y * ow + x) = index as i64;
                }
            }
        }
    }
}

/// # Safety
/// The pointers are to one plane each, and every window lies inside.
unsafe fn two_by_two<T: Ordered>(g: &Geometry, src: *const T, dst: *mut T, at: Option<*mut i64>) {
    let [oh, ow] = g.output;
    let width = g.input[1];
    for y in 0..oh {
        for x in 0..ow {
            let corner = y * g.stride[0] * width + x * g.stride[1];
            // SAFETY: the caller's promise.
            unsafe {
                let (mut best, mut index) = (T::LOWEST, corner);
                for offset in [0, 1, width, width + 1] {
                    let v = *src.add(corner + offset);
                    let wins = v.wins(best);
                    best = if wins { v } else { best };
                    index = if wins { corner + offset } else { index };
                }
                *dst.add(y * ow + x) = best;
                if let Some(at) = at {
                    *at.add(y * ow + x) = index as i64;
                }
            }
        }
    }
}

fn max_pool_backward(args: &KernelArgs<'_>) -> Result<()> {
    let ([out, ..], [grad, indices, ..]) = (args.outputs, args.inputs) else {
        return Err(missing());
    };
    match out.dtype {
        DType::F32 | DType::F16 | DType::BF16 => backward::<f32>(out, grad, indices),
        DType::F64 => backward::<f64>(out, grad, indices),
        _ => Err(args.unsupported()),
    }
}

fn backward<T>(out: &View<'_>, grad: &View<'_>, indices: &View<'_>) -> Result<()>
where
    T: Copy + Default + std::ops::Add<Output = T>,
{
    let (nd, gd) = (out.shape.len(), grad.shape.len());
    if nd < 2
        || gd < 2
        || grad.shape != indices.shape
        || out.shape[..nd - 2] != grad.shape[..gd - 2]
    {
        return Err(missing());
    }
    let dtype = wide(out.dtype);
    let result = DenseOut::new(out, dtype)?;
    let each: usize = grad.shape[gd - 2..].iter().product();
    let (grad, indices) = (Dense::new(grad, dtype)?, Dense::new(indices, DType::I64)?);
    let planes: usize = out.shape[..nd - 2].iter().product();
    let size: usize = out.shape[nd - 2..].iter().product();
    let (dst, src, at) = (result.ptr::<T>(), grad.ptr::<T>(), indices.ptr::<i64>());
    let outside = AtomicBool::new(false);
    pool::parallel_for(planes, (GRAIN / (size + each).max(1)).max(1), &|range| {
        for plane in range {
            // SAFETY: planes are disjoint, and an index is used only if it lies in its plane.
            unsafe {
                let dst = std::slice::from_raw_parts_mut(dst.at((plane * size) as isize), size);
                dst.fill(T::default());
                for i in plane * each..(plane + 1) * each {
                    match dst.get_mut(*at.at(i as isize) as usize) {
                        Some(o) => *o = *o + *src.at(i as isize),
                        None => outside.store(true, Ordering::Relaxed),
                    }
                }
            }
        }
    });
    if outside.into_inner() {
        let message = format!("an index is out of bounds for planes of {size} elements");
        return Err(TorshError::index("", message));
    }
    result.finish()
}

#[cfg(test)]
mod tests;
