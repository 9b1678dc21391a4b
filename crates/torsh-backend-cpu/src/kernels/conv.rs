//! Convolution in one to three dimensions, its transpose and the gradient of its weight, by matrix
//! products over the windows of the image (never more of them at a time than the cache holds).
//!
//! All take [`attrs::Conv`]; sizes are those of the operands, so that more padding behind shows in
//! the output's. Images may lack the dimension of the batch.
//!
//! - `Conv`: input `[n, c, d.., h, w]`, weight `[o, c / groups, kd.., kh, kw]`, optional bias `[o]`
//!   into `[n, o, od.., oh, ow]`.
//! - `ConvBatchNorm`: the same operands, weight, bias, running mean and running variance of a batch norm
//!   (`[o]` each, the first two optional) and optionally a tensor of the output's shape to add into the
//!   normalised result, which is then clamped. float32.
//! - `ConvTranspose`: the same with input and output exchanged: `[n, o, ..]`, the same weight and a
//!   bias of `[c]` into `[n, c, ..]`.
//! - `ConvWeight`: output's gradient and input into the weight's gradient.
//!
//! float32, float64, complex, int64, and the half types through float32, as PyTorch; `Conv` other
//! integers too.

#[cfg(target_arch = "x86_64")]
mod amx;
pub(crate) mod choose;
mod columns;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no vectors take this kind")
)]
mod depthwise;
mod direct;
mod direct_loops;
mod direct_tiles;
mod element;
mod epilogue;
pub(crate) mod fold;
mod implicit;
mod plan;
mod windows;
mod winograd;

use num_complex::Complex;
use torsh_core::machine::machine;
use torsh_core::{DType, Kernel, KernelArgs, Result, View, attrs, pool};

use crate::kernels::matmul::Matrix;
use crate::kernels::spatial::three;
use crate::machine::choice::pick;
use crate::machine::tuning::conv::COLUMNS;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch};
use crate::memory::operands::{missing, operands};
use choose::{ConvAlgorithm, ConvProblem};
use columns::{Geometry, from_columns, to_columns};
use element::{ConvElement, ConvKind, add, clear, fill};
use epilogue::{Affine, Epilogue};

/// Multiply-adds worth a thread of their own.
const GRAIN: usize = crate::machine::tuning::conv::GRAIN;

/// Images, channels and spatial sizes of a tensor with `n` spatial dimensions.
fn image(shape: &[usize], n: usize) -> Result<(usize, usize, [usize; 3])> {
    match shape.len().checked_sub(n) {
        Some(2) => Ok((shape[0], shape[1], three(&shape[2..], 1)?)),
        Some(1) => Ok((1, shape[0], three(&shape[1..], 1)?)),
        _ => Err(missing()),
    }
}

/// Reads the sizes from the three tensors of a convolution.
fn geometry(
    a: &attrs::Conv,
    input: &View<'_>,
    weight: &View<'_>,
    output: &View<'_>,
) -> Result<Geometry> {
    let spatial = a.stride.len();
    let (n, c, input) = image(input.shape(), spatial)?;
    let (n2, o2, output) = image(output.shape(), spatial)?;
    let &[o, ci, ref kernel @ ..] = weight.shape() else {
        return Err(missing());
    };
    let g = Geometry {
        images: n,
        groups: a.groups,
        in_channels: ci,
        out_channels: o.checked_div(a.groups).ok_or_else(missing)?,
        input,
        output,
        kernel: three(kernel, 1)?,
        stride: three(&a.stride, 1)?,
        padding: three(&a.padding, 0)?,
        dilation: three(&a.dilation, 1)?,
    };
    let consistent = n == n2 && o == o2 && ci * g.groups == c && g.out_channels * g.groups == o;
    let empty = kernel.len() != spatial || g.kernel.contains(&0);
    if !consistent || empty || g.stride.contains(&0) || g.dilation.contains(&0) {
        return Err(missing());
    }
    Ok(g)
}

pub(crate) fn conv(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [x, y]) = operands(args)?;
    let a = args.attrs()?;
    let g = match args.kernel() {
        Kernel::Conv => geometry(a, x, y, out)?,
        Kernel::ConvTranspose => geometry(a, out, y, x)?,
        _ => geometry(a, y, out, x)?,
    };
    match out.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => run::<f32>(args, &g, DType::F32),
        DType::F64 => run::<f64>(args, &g, DType::F64),
        DType::C64 => run::<Complex<f32>>(args, &g, DType::C64),
        DType::C128 => run::<Complex<f64>>(args, &g, DType::C128),
        DType::I64 => run::<u64>(args, &g, DType::I64),
        // Integers wrap around, so that what is kept of a wider product is right.
        DType::U8 | DType::I8 | DType::I16 | DType::I32 if args.kernel() == Kernel::Conv => {
            run::<u64>(args, &g, DType::I64)
        }
        _ => Err(args.unsupported()),
    }
}

fn run<T: ConvElement>(args: &KernelArgs<'_>, g: &Geometry, dtype: DType) -> Result<()> {
    let out = DenseOut::new(&args.outputs()[0], dtype)?;
    let x = Dense::new(&args.inputs()[0], dtype)?;
    let y = Dense::new(&args.inputs()[1], dtype)?;
    let bias = Dense::optional(args.inputs().get(2), dtype)?;
    let bias = bias.as_ref().map(|b| b.ptr::<T>());
    let kind = match args.kernel() {
        Kernel::Conv => ConvKind::Forward,
        Kernel::ConvTranspose => ConvKind::Transposed,
        _ => ConvKind::Weight,
    };
    compute(kind, g, [x.ptr(), y.ptr(), out.ptr()], Epilogue::bias(bias))?;
    out.finish()
}

/// A convolution and what follows it; float32 only.
pub(crate) fn conv_batch_norm(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [x, y, bias, rest @ ..]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let dtype = DType::F32;
    if out.dtype() != dtype || x.dtype() != dtype {
        return Err(args.unsupported());
    }
    let a: &attrs::ConvBatchNorm = args.attrs()?;
    let g = geometry(&a.convolution(), x, y, out)?;
    let (channels, pixels) = (g.groups * g.out_channels, g.out_pixels());
    let each = |v: &View<'_>| !v.is_present() || v.shape() == [channels];
    let fits = rest.iter().take(4).all(each)
        && rest
            .get(4)
            .is_none_or(|r| !r.is_present() || r.shape() == out.shape());
    if !fits {
        return Err(missing());
    }
    let affine = Affine::new(rest, a, channels, pixels)?;
    let result = DenseOut::new(out, dtype)?;
    let (x, y) = (Dense::new(x, dtype)?, Dense::new(y, dtype)?);
    let bias = Dense::optional(Some(bias), dtype)?;
    let epilogue = Epilogue {
        bias: bias.as_ref().map(|b| b.ptr::<f32>()),
        affine: Some(&affine),
    };
    compute(
        ConvKind::Forward,
        &g,
        [x.ptr(), y.ptr(), result.ptr()],
        epilogue,
    )?;
    result.finish()
}

/// Computes one of the kernels by the algorithm that [`ConvAlgorithm`] chooses.
fn compute<T: ConvElement>(
    kind: ConvKind,
    g: &Geometry,
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let [x, y, out] = operands;
    let (dtype, threads) = (T::DTYPE, pool::chunk_count(g.work(), GRAIN).max(1));
    let results = match kind {
        ConvKind::Forward => g.images * g.groups * g.out_channels * g.out_pixels(),
        ConvKind::Transposed => g.images * g.groups * g.in_channels * g.in_pixels(),
        ConvKind::Weight => g.groups * g.out_channels * g.window(),
    };
    if results == 0 {
        return Ok(());
    }
    if kind == ConvKind::Weight && g.images * g.out_pixels() == 0 {
        // SAFETY: the output holds that many elements.
        unsafe { clear(out.get(), results) };
        return Ok(());
    }
    let problem = ConvProblem { kind, dtype, g: *g };
    let mut algorithm = pick::<ConvAlgorithm>(&problem, threads);
    loop {
        // Whether the result is computed: two algorithms do nothing where it is not finite.
        let done = match algorithm {
            ConvAlgorithm::Depthwise => return depthwise::forward(g, operands, epilogue),
            ConvAlgorithm::Direct => return direct::run(&problem, operands, epilogue),
            ConvAlgorithm::Im2col => {
                return match kind {
                    ConvKind::Forward => forward(g, x, y, epilogue, out),
                    ConvKind::Transposed => transposed(g, x, y, epilogue.bias, out),
                    ConvKind::Weight => weight_grad(g, x, y, out),
                };
            }
            ConvAlgorithm::ImplicitGemm if dtype == DType::F64 => {
                let (operands, epilogue) = of_type::<T, f64>(operands, epilogue);
                return implicit::run(&problem, operands, epilogue);
            }
            ConvAlgorithm::ImplicitGemm => {
                let (operands, epilogue) = of_type::<T, f32>(operands, epilogue);
                return implicit::run(&problem, operands, epilogue);
            }
            ConvAlgorithm::DirectTiles if dtype == DType::F64 => {
                let (operands, epilogue) = of_type::<T, f64>(operands, epilogue);
                return direct_tiles::run(&problem, operands, epilogue);
            }
            ConvAlgorithm::DirectTiles => {
                let (operands, epilogue) = of_type::<T, f32>(operands, epilogue);
                return direct_tiles::run(&problem, operands, epilogue);
            }
            ConvAlgorithm::Winograd => {
                let (operands, epilogue) = of_type(operands, epilogue);
                winograd::run(&problem, operands, epilogue)?
            }
            #[cfg(target_arch = "x86_64")]
            ConvAlgorithm::Amx => {
                let (operands, epilogue) = of_type(operands, epilogue);
                amx::run(g, operands, epilogue)?
            }
            #[cfg(not(target_arch = "x86_64"))]
            ConvAlgorithm::Amx => false,
        };
        if done {
            return Ok(());
        }
        (algorithm, _) = problem.for_any_value(machine(), threads);
    }
}

/// The operands of an algorithm of one dtype, which is that of `T`.
fn of_type<'a, T: ConvElement, U: ConvElement>(
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'a, T>,
) -> ([Ptr<U>; 3], Epilogue<'a, U>) {
    assert_eq!(T::DTYPE, U::DTYPE, "an algorithm of another dtype");
    let typed = |p: Ptr<T>| Ptr::new(p.get().cast());
    let epilogue = Epilogue {
        bias: epilogue.bias.map(typed),
        affine: epilogue.affine,
    };
    (operands.map(typed), epilogue)
}

/// Whether one product computes all pixels of an image: the columns are the image itself, and the weight is packed once.
fn is_whole<T: ConvElement>(g: &Geometry) -> bool {
    g.is_pointwise() && T::DTYPE.is_floating_point()
}

/// Pixels whose columns to have at a time.
fn tile<T: ConvElement>(g: &Geometry) -> usize {
    if is_whole::<T>(g) {
        return g.out_pixels();
    }
    let fits = COLUMNS / size_of::<T>() / g.window().max(1);
    // Whole vectors, and tiles of about equal size.
    let tiles = g.out_pixels().div_ceil(fits.max(64));
    g.out_pixels().div_ceil(tiles.max(1)).next_multiple_of(16)
}

/// The pixels of tile `index`.
fn pixels(g: &Geometry, tile: usize, index: usize) -> std::ops::Range<usize> {
    index * tile..((index + 1) * tile).min(g.out_pixels())
}

/// The columns of some pixels: of the image itself where the kernel is one pixel, else written
/// to `col`.
///
/// # Safety
/// `image` must hold one group's planes, `col` the window of `tile` pixels.
unsafe fn columns<T: ConvElement>(
    g: &Geometry,
    image: *mut T,
    pixels: std::ops::Range<usize>,
    col: *mut T,
    tile: usize,
) -> Matrix<T> {
    if g.is_pointwise() {
        return Matrix::new(image.wrapping_add(pixels.start), g.in_pixels() as isize, 1);
    }
    // SAFETY: the caller's promise.
    unsafe { to_columns(g, image, g.in_channels, pixels, col, tile) };
    Matrix::new(col, tile as isize, 1)
}

/// Memory for the columns of each of `parts` threads.
fn column_scratch<T>(g: &Geometry, parts: usize, tile: usize) -> Result<Scratch<T>> {
    Scratch::new(if g.is_pointwise() {
        0
    } else {
        parts * g.window() * tile
    })
}

fn forward<T: ConvElement>(
    g: &Geometry,
    input: Ptr<T>,
    weight: Ptr<T>,
    epilogue: Epilogue<'_, T>,
    out: Ptr<T>,
) -> Result<()> {
    let (p, k, oc) = (g.out_pixels(), g.window(), g.out_channels);
    let bias = epilogue.bias;
    let threads = pool::chunk_count(g.work(), GRAIN).max(1);
    let images = g.images * g.groups;
    // Threads share the product of a whole image where there are too few images for them.
    let alone = images.is_multiple_of(threads) || images >= 4 * threads;
    let inside = if is_whole::<T>(g) && !alone {
        threads
    } else {
        1
    };
    let tile = tile::<T>(g);
    let tiles = p.div_ceil(tile);
    let tasks = images * tiles;
    let parts = if inside > 1 {
        1
    } else {
        threads.clamp(1, tasks)
    };
    let scratch = column_scratch::<T>(g, parts, tile)?;
    let cols = Ptr::new(scratch.ptr());
    pool::parallel_parts(tasks, parts, &|part, range| {
        let col = cols.at((part * k * tile) as isize);
        for task in range {
            let (image, index) = (task / tiles, task % tiles);
            let group = image % g.groups;
            let pixels = pixels(g, tile, index);
            let n = pixels.len();
            // SAFETY: the task's pixels are written by no other, and each part has its columns.
            unsafe {
                let out = out.at((image * oc * p + pixels.start) as isize);
                if let Some(bias) = bias {
                    for o in 0..oc {
                        let value = *bias.at((group * oc + o) as isize);
                        fill(out.add(o * p), n, value);
                    }
                }
                let planes = image * oc..(image + 1) * oc;
                if k == 0 {
                    if bias.is_none() {
                        (0..oc).for_each(|o| clear(out.add(o * p), n));
                    }
                    epilogue.finish(planes, pixels, out, p);
                    continue;
                }
                let image = input.at((image * g.in_channels * g.in_pixels()) as isize);
                let col = columns(g, image, pixels.clone(), col, tile);
                let weight = Matrix::new(weight.at((group * oc * k) as isize), k as isize, 1);
                let matrix = Matrix::new(out, p as isize, 1);
                T::product([oc, n, k], matrix, weight, col, bias.is_some(), inside);
                epilogue.finish(planes, pixels, out, p);
            }
        }
    });
    Ok(())
}

/// Writes the bias of each plane, or zeros.
///
/// # Safety
/// `out` must hold `planes` planes of `size`, and `bias` a value for each.
unsafe fn start<T: ConvElement>(planes: usize, size: usize, out: *mut T, bias: Option<*mut T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match bias {
            Some(b) => (0..planes).for_each(|i| fill(out.add(i * size), size, *b.add(i))),
            None => clear(out, planes * size),
        }
    }
}

fn transposed<T: ConvElement>(
    g: &Geometry,
    grad: Ptr<T>,
    weight: Ptr<T>,
    bias: Option<Ptr<T>>,
    out: Ptr<T>,
) -> Result<()> {
    let (p, q, oc) = (g.out_pixels(), g.in_pixels(), g.out_channels);
    let images = g.images * g.groups;
    let taps = g.taps();
    let parts = pool::chunk_count(g.work(), GRAIN).max(1);
    // Columns to have at a time: of all pixels for as many channels as fit, or for many channels
    // of a tile of the pixels.
    let fits = COLUMNS / size_of::<T>() / taps;
    let (channels, tile) = if fits >= 4 * p {
        (fits / p.max(1), p)
    } else {
        let channels = (fits / 512).clamp(1, g.in_channels);
        (channels, (fits / channels).max(64).min(p))
    };
    // Blocks of about equal size, enough for all threads.
    let blocks = g.in_channels.div_ceil(channels.clamp(1, g.in_channels));
    let blocks = blocks.max(parts.div_ceil(images)).min(g.in_channels);
    let channels = g.in_channels.div_ceil(blocks);
    let blocks = g.in_channels.div_ceil(channels);
    let tasks = images * blocks;
    let parts = parts.min(tasks);
    let size = channels * taps * tile;
    let scratch = Scratch::<T>::new(if g.is_pointwise() { 0 } else { parts * size })?;
    let cols = Ptr::new(scratch.ptr());
    pool::parallel_parts(tasks, parts, &|part, range| {
        for task in range {
            let (image, block) = (task / blocks, task % blocks);
            let group = image % g.groups;
            let c0 = block * channels;
            let channels = channels.min(g.in_channels - c0);
            let rows = channels * taps;
            // SAFETY: the task's planes are written by no other, and each part has its columns.
            unsafe {
                let out = out.at(((image * g.in_channels + c0) * q) as isize);
                let bias = bias.map(|b| b.at((group * g.in_channels + c0) as isize));
                if p * oc == 0 {
                    start(channels, q, out, bias);
                    continue;
                }
                let k = g.window();
                let weight = weight.at((group * oc * k + c0 * taps) as isize);
                let weight = Matrix::new(weight, 1, k as isize);
                let grad = grad.at((image * oc * p) as isize);
                if g.is_pointwise() {
                    if bias.is_some() {
                        start(channels, q, out, bias);
                    }
                    let grad = Matrix::new(grad, p as isize, 1);
                    let out = Matrix::new(out, p as isize, 1);
                    T::product([rows, p, oc], out, weight, grad, bias.is_some(), 1);
                    continue;
                }
                start(channels, q, out, bias);
                let col = cols.at((part * size) as isize);
                for first in (0..p).step_by(tile) {
                    let n = tile.min(p - first);
                    let grad = Matrix::new(grad.add(first), p as isize, 1);
                    let columns = Matrix::new(col, tile as isize, 1);
                    T::product([rows, n, oc], columns, weight, grad, false, 1);
                    from_columns(g, col, channels, first..first + n, out, tile);
                }
            }
        }
    });
    Ok(())
}

fn weight_grad<T: ConvElement>(
    g: &Geometry,
    grad: Ptr<T>,
    input: Ptr<T>,
    out: Ptr<T>,
) -> Result<()> {
    let (p, k, oc) = (g.out_pixels(), g.window(), g.out_channels);
    let size = g.groups * oc * k;
    let tile = tile::<T>(g);
    let tiles = p.div_ceil(tile);
    let parts = pool::chunk_count(g.work(), GRAIN).max(1);
    // With many groups each thread has some of its own, else a part of the pixels and sums of its
    // own.
    let by_group = g.groups >= 4 * parts || (g.groups > 1 && g.groups.is_multiple_of(parts));
    let tasks = if by_group { g.groups } else { g.images * tiles };
    // Threads share the product of a whole image where there are fewer images than threads.
    let inside = if is_whole::<T>(g) && tasks < parts {
        parts
    } else {
        1
    };
    let parts = if inside > 1 { 1 } else { parts.min(tasks) };
    let scratch = column_scratch::<T>(g, parts, tile)?;
    let cols = Ptr::new(scratch.ptr());
    let sums = Scratch::<T>::new(if by_group { 0 } else { (parts - 1) * size })?;
    let partial = Ptr::new(sums.ptr());
    // SAFETY: for each call: `sum` is the calling thread's, as are the columns of its part.
    let add_tile = |part: usize, group: usize, index: usize, sum: *mut T, add: bool| unsafe {
        let image = index / tiles * g.groups + group;
        let pixels = pixels(g, tile, index % tiles);
        let n = pixels.len();
        let grad = grad.at((image * oc * p + pixels.start) as isize);
        let grad = Matrix::new(grad, p as isize, 1);
        let input = input.at((image * g.in_channels * g.in_pixels()) as isize);
        let col = columns(g, input, pixels, cols.at((part * k * tile) as isize), tile);
        let sum = Matrix::new(sum.add(group * oc * k), k as isize, 1);
        T::product([oc, k, n], sum, grad, col.t(), add, inside);
    };
    pool::parallel_parts(tasks, parts, &|part, range| {
        if by_group {
            for group in range {
                (0..g.images * tiles).for_each(|i| add_tile(part, group, i, out.get(), i > 0));
            }
            return;
        }
        let sum = match part {
            0 => out.get(),
            _ => partial.at(((part - 1) * size) as isize),
        };
        let first = range.start;
        for index in range {
            (0..g.groups).for_each(|group| add_tile(part, group, index, sum, index > first));
        }
    });
    if !by_group {
        for part in 1..parts {
            // SAFETY: the threads are done, and both hold `size` elements.
            unsafe { add(size, partial.at(((part - 1) * size) as isize), out.get(), 1) };
        }
    }
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
