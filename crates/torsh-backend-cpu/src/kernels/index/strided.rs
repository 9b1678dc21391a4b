//! Copies into other places: flips, rolls, triangles, diagonals, strided windows.

use torsh_core::{KernelArgs, Result, Scalar, TorshError, View, attrs, pool};

use super::num::Num;
use super::positions::no_overlap;
use super::scatter::{fill, start_from};
use super::walk::{IndexPtr, IndexWalk, copy_run, copy_strided};
use super::{GRAIN, by_dtype, by_size};
use crate::memory::operands::missing;

/// `flip`: input `self`.
pub(crate) fn flip(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    if out.numel() == 0 {
        return Ok(());
    }
    let mut strides = src.strides().to_vec();
    let mut first = 0;
    for &d in &*args.attrs::<attrs::Flip>()?.dims {
        let d = d as usize;
        first += (src.shape()[d] as isize - 1) * strides[d];
        strides[d] = -strides[d];
    }
    by_size!(out.dtype(), T => {
        // SAFETY: the flipped walk starts at the last element and stays within the input.
        unsafe {
            let from = IndexPtr::new(IndexPtr::<T>::of(src).at(first));
            copy_strided::<T>(out.shape(), IndexPtr::of(out), out.strides(), from, &strides)
        }
    });
    Ok(())
}

/// `roll`: input `self`.
pub(crate) fn roll(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    if out.numel() == 0 {
        return Ok(());
    }
    let mut shift = vec![0usize; src.shape().len()];
    let attrs::Roll { shifts, dims } = args.attrs()?;
    for (&by, &d) in shifts.iter().zip(dims.iter()) {
        let n = src.shape()[d as usize] as i64;
        let by = by.rem_euclid(n) as usize;
        shift[d as usize] = (shift[d as usize] + by) % n as usize;
    }
    by_size!(out.dtype(), T => {
        // SAFETY: the output has the input's shape.
        unsafe { boxes::<T>(out, src, &shift, 0, &mut src.shape().to_vec(), 0, 0) }
    });
    Ok(())
}

/// Copies the two parts that each rolled dimension falls into, from dimension `d` on.
///
/// # Safety
/// `size`, `to` and `from` must describe a box of both views.
unsafe fn boxes<T: Copy>(
    out: &View<'_>,
    src: &View<'_>,
    shift: &[usize],
    d: usize,
    size: &mut Vec<usize>,
    to: isize,
    from: isize,
) {
    if d == shift.len() {
        // SAFETY: the caller's promise.
        unsafe {
            copy_strided::<T>(
                size,
                IndexPtr::new(IndexPtr::of(out).at(to)),
                out.strides(),
                IndexPtr::new(IndexPtr::of(src).at(from)),
                src.strides(),
            )
        }
        return;
    }
    let (n, by) = (src.shape()[d], shift[d]);
    for (length, to_first, from_first) in [(n - by, by, 0), (by, 0, n - by)] {
        if length == 0 {
            continue;
        }
        size[d] = length;
        let to = to + to_first as isize * out.strides()[d];
        let from = from + from_first as isize * src.strides()[d];
        // SAFETY: both parts lie within the dimension.
        unsafe { boxes::<T>(out, src, shift, d + 1, size, to, from) };
    }
}

/// `tril` and `triu`: input `self` (may be the output). The rest of the matrices is 0.
pub(crate) fn triangle(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let &attrs::Triangle { diagonal, upper } = args.attrs()?;
    if out.shape().contains(&0) {
        // There may be very many rows of nothing.
        return Ok(());
    }
    let n = out.shape().len() - 2;
    let (rows, columns) = (out.shape()[n], out.shape()[n + 1]);
    let (row_out, row_in) = (out.strides()[n], src.strides()[n]);
    let (ds, ss) = (out.strides()[n + 1], src.strides()[n + 1]);
    let in_place = out.ptr() == src.ptr() && out.strides() == src.strides();
    let batch = IndexWalk::new(
        &out.shape()[..n],
        [&out.strides()[..n], &src.strides()[..n]],
    );
    by_size!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(src));
        // SAFETY: all zero bits are 0 in every element type.
        let zero: T = unsafe { std::mem::zeroed() };
        let grain = GRAIN / (columns + 1) + 1;
        pool::parallel_for(batch.numel() * rows, grain, &|range| {
            let mut at = range.start;
            while at < range.end {
                let (b, first) = (at / rows, at % rows);
                let end = rows.min(first + range.end - at);
                let mut base = [0; 2];
                batch.run(b..b + 1, |o, _, _| base = o);
                for i in first..end {
                    // The first column past the lower triangle, or of the upper one.
                    let edge = (i as i64).saturating_add(diagonal).saturating_add(i64::from(!upper));
                    let edge = edge.clamp(0, columns as i64) as usize;
                    let kept = if upper { edge..columns } else { 0..edge };
                    let gone = if upper { 0..edge } else { edge..columns };
                    let d = base[0] + i as isize * row_out;
                    let s = base[1] + i as isize * row_in;
                    // SAFETY: row and columns lie within both views.
                    unsafe {
                        if !in_place {
                            let c = kept.start as isize;
                            copy_run(to.at(d + c * ds), ds, from.at(s + c * ss), ss, kept.len());
                        }
                        for c in gone {
                            *to.at(d + c as isize * ds) = zero;
                        }
                    }
                }
                at += end - first;
            }
        });
    });
    Ok(())
}

/// `diag_embed`: input diagonals. The output has their shape with two square dimensions, `dim1`
/// and `dim2`, in place of the last one.
pub(crate) fn diag_embed(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let &attrs::DiagEmbed { offset, dim1, dim2 } = args.attrs()?;
    let others = (0..out.shape().len()).filter(|&d| d != dim1 && d != dim2);
    let (mut shape, mut strides): (Vec<usize>, Vec<isize>) =
        others.map(|d| (out.shape()[d], out.strides()[d])).unzip();
    let sides = [dim1, dim2].map(|d| out.shape().get(d).copied());
    let length = sides[0].and_then(|n| (n as u64).checked_sub(offset.unsigned_abs()));
    let (Some(length), true) = (length, sides[0] == sides[1] && dim1 != dim2) else {
        return Err(missing());
    };
    shape.push(length as usize);
    if src.shape() != shape {
        return Err(missing());
    }
    strides.push(out.strides()[dim1] + out.strides()[dim2]);
    let side = if offset >= 0 { dim2 } else { dim1 };
    let first = offset.unsigned_abs() as isize * out.strides()[side];
    fill(out, Scalar::Int(0));
    if length == 0 {
        return Ok(());
    }
    by_size!(out.dtype(), T => {
        // SAFETY: the diagonals lie within the output's matrices and have the input's shape.
        unsafe {
            let to = IndexPtr::new(IndexPtr::<T>::of(out).at(first));
            copy_strided::<T>(&shape, to, &strides, IndexPtr::of(src), src.strides())
        }
    });
    Ok(())
}

/// Checks that a window of `shape` lies within `numel` elements of contiguous memory.
fn check_window(shape: &[usize], strides: &[isize], offset: isize, numel: usize) -> Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let (mut low, mut high) = (offset as i128, offset as i128);
    for (&n, &s) in shape.iter().zip(strides) {
        let span = (n as i128 - 1) * s as i128;
        if span < 0 { low += span } else { high += span }
    }
    if low < 0 || high >= numel as i128 || shape.len() != strides.len() {
        return Err(TorshError::invalid(
            "",
            format!(
                "a window of shape {shape:?} with strides {strides:?} from {offset} leaves the {numel} elements"
            ),
        ));
    }
    Ok(())
}

/// The strides of a window of `of`'s shape in `out`, once it was checked.
fn window(out: &View<'_>, of: &View<'_>, strides: &[i64], offset: i64) -> Result<Vec<isize>> {
    let strides: Vec<isize> = strides.iter().map(|&s| s as isize).collect();
    if !out.is_contiguous() {
        return Err(TorshError::invalid(
            "",
            "strided windows are written into contiguous tensors",
        ));
    }
    check_window(of.shape(), &strides, offset as isize, out.numel())?;
    Ok(strides)
}

/// Inputs a base and a source, which is written into a window of the output. That is contiguous
/// and starts as a copy of the base. In overlapping windows the last element in row-major order
/// stays.
pub(crate) fn strided_scatter(args: &KernelArgs<'_>) -> Result<()> {
    let (out, base, src) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let a = args.attrs::<attrs::StridedScatter>()?;
    let strides = window(out, src, &a.stride, a.storage_offset)?;
    no_overlap(out, src)?;
    start_from(out, base);
    by_size!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(src));
        IndexWalk::new(src.shape(), [&strides, src.strides()])
            .starting_at([a.storage_offset as isize, 0])
            .all(|[d, s], n, [ds, ss]| {
                // SAFETY: the window was checked.
                unsafe { copy_run(to.at(d), ds, from.at(s), ss, n) }
            });
    });
    Ok(())
}

/// Input a gradient, which is added into a window of the output. That is contiguous and starts as
/// zeros. Overlapping positions add up, in row-major order.
pub(crate) fn strided_accumulate(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let a = args.attrs::<attrs::StridedAccumulate>()?;
    let strides = window(out, src, &a.stride, a.storage_offset)?;
    fill(out, Scalar::Int(0));
    by_dtype!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(src));
        IndexWalk::new(src.shape(), [&strides, src.strides()])
            .starting_at([a.storage_offset as isize, 0])
            .all(|[d, s], n, [ds, ss]| {
                for j in 0..n as isize {
                    // SAFETY: the window was checked.
                    unsafe {
                        let p = to.at(d + j * ds);
                        *p = (*p).add(*from.at(s + j * ss));
                    }
                }
            });
    });
    Ok(())
}
