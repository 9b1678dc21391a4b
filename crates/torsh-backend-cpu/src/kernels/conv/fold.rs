//! Windows of an image as the columns of a matrix, as a result of its own, and the transpose.
//!
//! Both take [`attrs::Im2Col`].
//!
//! - `Im2Col`: `[n, c, h, w]` (or `[c, h, w]`) into `[n, c * kh * kw, oh * ow]`: elements of 1 to 16
//!   bytes, moved by size.
//! - `Col2Im`: sums of those columns in their places.

use num_complex::Complex;
use torsh_core::{DType, Kernel, KernelArgs, Result, View, attrs, pool};

use super::columns::{Geometry, from_columns, to_columns};
use super::element::{ConvElement, clear};
use super::{COLUMNS, image};
use crate::kernels::spatial::three;
use crate::machine::tuning::conv::FOLD_GRAIN as GRAIN;
use crate::memory::dense::{Dense, DenseOut};
use crate::memory::operands::{missing, operands};

/// The geometry of one plane at a time.
fn geometry(args: &KernelArgs<'_>, large: &View<'_>, columns: &View<'_>) -> Result<Geometry> {
    let a = args.attrs::<attrs::Im2Col>()?;
    let (n, c, input) = image(large.shape(), 2)?;
    let mut g = Geometry {
        images: n * c,
        groups: 1,
        in_channels: 1,
        out_channels: 1,
        input,
        output: [1; 3],
        kernel: three(&a.kernel_size, 1)?,
        stride: three(&a.stride, 1)?,
        padding: three(&a.padding, 0)?,
        dilation: three(&a.dilation, 1)?,
    };
    if [g.kernel, g.stride, g.dilation].as_flattened().contains(&0) {
        return Err(missing());
    }
    for d in 0..3 {
        let room = g.input[d] + 2 * g.padding[d];
        let span = (g.kernel[d] - 1) * g.dilation[d] + 1;
        g.output[d] = room.checked_sub(span).ok_or_else(missing)? / g.stride[d] + 1;
    }
    match columns.numel() == g.images * g.taps() * g.out_pixels() {
        true => Ok(g),
        false => Err(missing()),
    }
}

pub(crate) fn fold(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [x]) = operands(args)?;
    if matches!(
        out.dtype(),
        DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64
    ) {
        return Err(args.unsupported());
    }
    if args.kernel() == Kernel::Im2Col {
        let g = geometry(args, x, out)?;
        return match out.dtype().size() {
            1 => im2col::<u8>(args, &g),
            2 => im2col::<u16>(args, &g),
            4 => im2col::<u32>(args, &g),
            8 => im2col::<u64>(args, &g),
            16 => im2col::<[u64; 2]>(args, &g),
            _ => Err(args.unsupported()),
        };
    }
    let g = geometry(args, out, x)?;
    match out.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => col2im::<f32>(args, &g, DType::F32),
        DType::F64 => col2im::<f64>(args, &g, DType::F64),
        DType::C64 => col2im::<Complex<f32>>(args, &g, DType::C64),
        DType::C128 => col2im::<Complex<f64>>(args, &g, DType::C128),
        // A sum of bools is whether there is a true one.
        DType::Bool => col2im::<u64>(args, &g, DType::I64),
        _ => Err(args.unsupported()),
    }
}

fn im2col<T: Copy + Default>(args: &KernelArgs<'_>, g: &Geometry) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], args.inputs()[0].dtype())?;
    let out = DenseOut::new(&args.outputs()[0], args.outputs()[0].dtype())?;
    let (src, dst) = (x.ptr::<T>(), out.ptr::<T>());
    let (p, taps) = (g.out_pixels(), g.taps());
    // Tiles of about the cache's size, so that what is read of the image stays there.
    let tile = (COLUMNS / size_of::<T>() / taps).max(64).min(p).max(1);
    let tiles = p.div_ceil(tile);
    let grain = GRAIN.div_ceil((taps * tile).max(1));
    pool::parallel_for(g.images * tiles, grain, &|range| {
        for task in range {
            let (plane, first) = (task / tiles, task % tiles * tile);
            let pixels = first..(first + tile).min(p);
            // SAFETY: the task's pixels are written by no other, and planes lie inside the image.
            unsafe {
                let image = src.at((plane * g.in_pixels()) as isize);
                let col = dst.at((plane * taps * p + first) as isize);
                to_columns(g, image, 1, pixels, col, p);
            }
        }
    });
    out.finish()
}

fn col2im<T: ConvElement>(args: &KernelArgs<'_>, g: &Geometry, dtype: DType) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], dtype)?;
    let out = DenseOut::new(&args.outputs()[0], dtype)?;
    let (src, dst) = (x.ptr::<T>(), out.ptr::<T>());
    let (p, q, taps) = (g.out_pixels(), g.in_pixels(), g.taps());
    let grain = GRAIN.div_ceil((taps * p).max(1));
    pool::parallel_for(g.images, grain, &|range| {
        for plane in range {
            // SAFETY: the plane is written by no other task.
            unsafe {
                let image = dst.at((plane * q) as isize);
                clear(image, q);
                let col = src.at((plane * taps * p) as isize);
                from_columns(g, col, 1, 0..p, image, p);
            }
        }
    });
    out.finish()
}
