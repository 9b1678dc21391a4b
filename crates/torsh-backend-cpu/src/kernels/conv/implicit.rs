//! Convolutions as blocked products whose right operand, the windows of the images, is never
//! there as a whole: its panels are written as the product asks for them.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{Result, TorshError, pool};

use super::GRAIN;
use super::choose::ConvProblem;
use super::columns::Geometry;
use super::element::{ConvKind, add, fill};
use super::epilogue::Epilogue;
use super::windows::{Windowed, Windows};
use crate::kernels::matmul::{Matrix, Product, packed};
use crate::machine::tuning::conv_implicit::{FEW, LINES, ROWS, SMALL, SUMS, TURNED};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;

/// Computes a problem of float32 or float64.
pub(super) fn run<T: Windowed>(
    p: &ConvProblem,
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let ([x, y, out], g) = (operands, &p.g);
    match p.kind {
        ConvKind::Forward => forward(g, x, y, epilogue, out),
        ConvKind::Transposed => transposed(g, x, y, epilogue, out),
        ConvKind::Weight => weight_grad(g, x, y, out),
    }
}

/// The images of a group.
fn windows<'a, T>(g: &'a Geometry, input: Ptr<T>, image: usize, group: usize) -> Windows<'a, T> {
    let planes = g.in_channels * g.in_pixels();
    Windows {
        g,
        image: input.at(((image * g.groups + group) * planes) as isize),
        step: g.groups * planes,
    }
}

/// `output = windows weight + bias`.
fn forward<T: Windowed>(
    g: &Geometry,
    input: Ptr<T>,
    weight: Ptr<T>,
    epilogue: Epilogue<'_, T>,
    out: Ptr<T>,
) -> Result<()> {
    let (p, k, oc) = (g.out_pixels(), g.window(), g.out_channels);
    let bias = epilogue.bias;
    let parts = pool::chunk_count(g.work(), GRAIN).max(1);
    // Several images at once, where they are small and the sums repay another copy of the result.
    let together = match g.images > 1 && p < FEW && !p.is_multiple_of(16) && k >= 64 {
        true => g.images,
        false => 1,
    };
    let n = together * p;
    let scratch = Scratch::<T>::new(if together > 1 { g.groups * oc * n } else { 0 })?;
    let rows = Ptr::new(scratch.ptr());
    let tasks = g.images / together * g.groups;
    let failed = AtomicBool::new(false);
    let task = |task: usize, threads: usize| {
        let (image, group) = (task / g.groups, task % g.groups);
        let windows = windows(g, input, image, group);
        let to = match together {
            1 => out.at((task * oc * p) as isize),
            _ => rows.at((group * oc * n) as isize),
        };
        // SAFETY: the task's part of the result is written by no other; the operands have the
        // sizes that the geometry says.
        unsafe {
            if let Some(bias) = bias {
                (0..oc).for_each(|o| fill(to.add(o * n), n, *bias.at((group * oc + o) as isize)));
            }
            let x = Product {
                m: oc,
                n,
                k,
                out: Matrix::new(to, n as isize, 1),
                a: Matrix::new(weight.at((group * oc * k) as isize), k as isize, 1),
                b: Matrix::new(windows.image.cast_mut(), p as isize, 1),
                alpha: T::one(),
                add: bias.is_some(),
            };
            let finish = |rows: Range<usize>, pixels: Range<usize>, at: *mut T| {
                let first = task * oc;
                epilogue.finish(first + rows.start..first + rows.end, pixels, at, p);
            };
            let finish: Option<&packed::FinishFn<'_, T>> =
                match together == 1 && epilogue.affine.is_some() {
                    true => Some(&finish),
                    false => None,
                };
            let done = if g.is_pointwise() && together == 1 {
                packed::product(&x, None, None, finish, threads)
            } else {
                let panel = |terms, columns, to, pitch| windows.panel(terms, columns, to, pitch);
                packed::product(&x, Some(&panel), None, finish, threads)
            };
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
        }
    };
    if tasks.is_multiple_of(parts) || tasks >= 4 * parts {
        pool::parallel_parts(tasks, parts, &|_, range| range.for_each(|i| task(i, 1)));
    } else {
        (0..tasks).for_each(|i| task(i, parts));
    }
    if failed.into_inner() {
        return Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0));
    }
    if together > 1 {
        let planes = g.groups * oc;
        pool::parallel_for(g.images * planes, (GRAIN / p.max(1)).max(1), &|range| {
            for plane in range {
                let (image, row) = (plane / planes, plane % planes);
                let from = rows.at((row * n + image * p) as isize);
                let to = out.at((plane * p) as isize);
                // SAFETY: both have room for all pixels, and no other task writes this plane.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, to, p);
                    epilogue.finish(plane..plane + 1, 0..p, to, p);
                }
            }
        });
    }
    Ok(())
}

/// The convolution whose windows give the gradient of the input, where all strides are 1: of the
/// output's gradient with turned kernels. `None` where padding goes beyond the kernel.
pub(super) fn forward_geometry(g: &Geometry) -> Option<Geometry> {
    let mut padding = [0; 3];
    for (d, padding) in padding.iter_mut().enumerate() {
        *padding = (g.dilation[d] * (g.kernel[d] - 1)).checked_sub(g.padding[d])?;
    }
    (g.stride == [1; 3]).then_some(Geometry {
        in_channels: g.out_channels,
        out_channels: g.in_channels,
        input: g.output,
        output: g.input,
        padding,
        ..*g
    })
}

/// The gradient of the input, which [`transposed`] has a convolution for.
fn transposed<T: Windowed>(
    g: &Geometry,
    grad: Ptr<T>,
    weight: Ptr<T>,
    epilogue: Epilogue<'_, T>,
    out: Ptr<T>,
) -> Result<()> {
    let back = forward_geometry(g).ok_or_else(missing)?;
    let (taps, ic, oc) = (g.taps(), g.in_channels, g.out_channels);
    let weights = Scratch::<T>::new(g.groups * ic * oc * taps)?;
    let transposed = Ptr::new(weights.ptr());
    // Some channels at a time, so that what is read and what is written are both long stretches.
    let blocks = oc.div_ceil(TURNED);
    let grain = (GRAIN / (TURNED * ic * taps).max(1)).max(1);
    pool::parallel_for(g.groups * blocks, grain, &|range| {
        for task in range {
            let (group, block) = (task / blocks, task % blocks);
            let outs = block * TURNED..((block + 1) * TURNED).min(oc);
            for (c, o) in (0..ic).flat_map(|c| outs.clone().map(move |o| (c, o))) {
                let from = weight.at((((group * oc + o) * ic + c) * taps) as isize);
                let to = transposed.at((((group * ic + c) * oc + o) * taps) as isize);
                // SAFETY: both hold all taps of every pair of channels, and no other thread writes
                // these.
                unsafe {
                    if taps == 9 {
                        // With the number known the loop is one of vectors.
                        let mut kernel = from.cast::<[T; 9]>().read();
                        kernel.reverse();
                        to.cast::<[T; 9]>().write(kernel);
                        continue;
                    }
                    for t in 0..taps {
                        *to.add(taps - 1 - t) = *from.add(t);
                    }
                }
            }
        }
    });
    forward(&back, grad, transposed, epilogue, out)
}

/// The gradient of the weight: products over the pixels of each image.
fn weight_grad<T: Windowed>(g: &Geometry, grad: Ptr<T>, input: Ptr<T>, out: Ptr<T>) -> Result<()> {
    let (p, k, oc) = (g.out_pixels(), g.window(), g.out_channels);
    let size = g.groups * oc * k;
    let threads = pool::chunk_count(g.work(), GRAIN).max(1);
    // Each thread has groups of its own, or all share the products of an image. Of few channels these
    // are too small: some images at a time have sums of their own, as many for any number of threads.
    let sums = match g.groups == 1 && oc < ROWS && size <= SMALL {
        true => g.images.clamp(1, SUMS),
        false => 1,
    };
    let by_group = g.groups >= 4 * threads || (g.groups > 1 && g.groups.is_multiple_of(threads));
    let tasks = if by_group { g.groups } else { sums };
    let inside = if tasks == 1 { threads } else { 1 };
    let scratch = Scratch::<T>::new((sums - 1) * size)?;
    let partial = Ptr::new(scratch.ptr());
    let failed = AtomicBool::new(false);
    let add_image = |image: usize, group: usize, sum: *mut T, add: bool| {
        let windows = windows(g, input, image, group);
        let grad = grad.at(((image * g.groups + group) * oc * p) as isize);
        let panel = |terms: Range<usize>, lines: Range<usize>, to: *mut T, pitch: usize| {
            let mut memory = [const { MaybeUninit::<T>::uninit() }; LINES];
            let rows = memory.as_mut_ptr().cast::<T>();
            let most = LINES / pitch;
            for first in terms.clone().step_by(most) {
                let some = first..(first + most).min(terms.end);
                let to = to.wrapping_add((first - terms.start) * pitch);
                // SAFETY: the lines and pixels are the image's, and the panel has room for them;
                // the memory has, since there are at most `pitch` lines.
                unsafe {
                    windows.lines(lines.clone(), &some, rows, some.len());
                    packed::turn(rows, some.len(), lines.len(), to, pitch);
                }
            }
        };
        let x = Product {
            m: oc,
            n: k,
            k: p,
            out: Matrix::new(sum.wrapping_add(group * oc * k), k as isize, 1),
            a: Matrix::new(grad, p as isize, 1),
            b: Matrix::new(windows.image.cast_mut(), 1, p as isize),
            alpha: T::one(),
            add,
        };
        // SAFETY: the sums are the calling thread's, and the operands have these sizes.
        let done = unsafe {
            match g.is_pointwise() {
                true => packed::product(&x, None, None, None, inside),
                false => packed::product(&x, Some(&panel), None, None, inside),
            }
        };
        failed.fetch_or(done.is_err(), Ordering::Relaxed);
    };
    pool::parallel_parts(tasks, threads.min(tasks), &|_, range| {
        for task in range {
            if by_group {
                (0..g.images).for_each(|i| add_image(i, task, out.get(), i > 0));
                continue;
            }
            let sum = match task {
                0 => out.get(),
                _ => partial.at(((task - 1) * size) as isize),
            };
            let first = task * g.images / sums;
            for image in first..(task + 1) * g.images / sums {
                (0..g.groups).for_each(|group| add_image(image, group, sum, image > first));
            }
        }
    });
    if failed.into_inner() {
        return Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0));
    }
    for nth in 1..sums {
        // SAFETY: the threads are done, and both hold `size` elements.
        unsafe { add(size, partial.at(((nth - 1) * size) as isize), out.get(), 1) };
    }
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
