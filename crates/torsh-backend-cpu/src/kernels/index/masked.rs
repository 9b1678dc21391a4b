//! Selecting by masks. A mask is bool or uint8: not 0 is true.
//!
//! Intrinsics: Compressing the selected lanes exists in AVX-512 only.

use std::sync::atomic::{AtomicU64, Ordering};

use torsh_core::{DType, KernelArgs, Result, Scalar, TorshError, View, attrs, pool};

use super::choose::{MaskedFillAlgorithm, MaskedFillProblem, SelectAlgorithm, SelectProblem};
use super::num::Num;
use super::positions::no_overlap;
use super::scatter::{fill, start_from};
use super::walk::{IndexPtr, IndexWalk};
use super::{GRAIN, ScratchSlice, by_dtype, by_size};
use crate::machine::choice::pick;
use crate::machine::tuning::index::MASKED_BLOCK as BLOCK;
use crate::memory::operands::missing;
use crate::multiversion;

/// How many elements of a view are not 0, per piece of the pieces that `pool::chunk_count` makes.
fn count_pieces(v: &View<'_>, parts: usize) -> Result<ScratchSlice<u64>> {
    let counts = ScratchSlice::filled(parts, 0u64)?;
    let slots = IndexPtr::new(counts.ptr());
    by_dtype!(if v.dtype() == DType::Bool { DType::U8 } else { v.dtype() }, T => {
        let p = IndexPtr::<T>::of(v);
        let walk = IndexWalk::new(v.shape(), [v.strides()]);
        pool::parallel_parts(walk.numel(), parts, &|part, range| {
            let mut count = 0u64;
            walk.run(range, |[i], n, [step]| {
                // SAFETY: the walk stays within the view.
                count += unsafe { count_run(p.at(i), step, n) };
            });
            // SAFETY: every part has its own slot.
            unsafe { *slots.at(part as isize) = count };
        });
    });
    Ok(counts)
}

/// How many elements of a run are not 0.
///
/// # Safety
/// The run must be valid.
#[inline(always)]
unsafe fn count_run<T: Num>(p: *const T, step: isize, n: usize) -> u64 {
    if step != 1 {
        // SAFETY: the caller's promise.
        let is = |j| u64::from(unsafe { *p.offset(j * step) } != T::ZERO);
        return (0..n as isize).map(is).sum();
    }
    if size_of::<T>() == 1 {
        // SAFETY: the caller's promise.
        return unsafe { count_bytes(p.cast(), n) };
    }
    // SAFETY: the caller's promise.
    let run = unsafe { std::slice::from_raw_parts(p, n) };
    run.iter().map(|x| u64::from(*x != T::ZERO)).sum()
}

multiversion! {
    /// How many of `n` bytes are not 0.
    ///
    /// # Safety
    /// They must be valid.
    unsafe fn count_bytes<A>(p: *const u8, n: usize) -> u64 {
        // SAFETY: the caller's promise.
        let run = unsafe { std::slice::from_raw_parts(p, n) };
        let is = |few: &[u8]| few.iter().fold(0u8, |c, x| c.wrapping_add(u8::from(*x != 0)));
        // Few enough at once for a count of one byte.
        let (whole, rest) = run.as_chunks::<128>();
        let count: u64 = whole.iter().map(|few| u64::from(is(few))).sum();
        count + u64::from(is(rest))
    }
}

/// Copies the elements of `from` where the mask is not 0, in order, at most `room` of them; gives
/// how many. `T` has 4 or 8 bytes, and all lie in a row.
///
/// # Safety
/// `from` and `mask` must be valid for `n` elements, `to` for `room`; the processor must have the
/// instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
unsafe fn compress<T>(from: *const T, mask: *const u8, n: usize, to: *mut T, room: usize) -> usize {
    use std::arch::x86_64::*;
    let lanes = 64 / size_of::<T>();
    let wide = size_of::<T>() == 8;
    let (mut i, mut k) = (0, 0);
    // SAFETY: whole vectors are read within `n` and written within `room`; what is past either is
    // masked out. Bits of a mask are below the number of lanes.
    unsafe {
        while i < n {
            let inside = if n - i >= lanes {
                u16::MAX
            } else {
                (1 << (n - i)) - 1
            };
            let inside = if wide { inside & 0xff } else { inside };
            let m = _mm_maskz_loadu_epi8(inside, mask.add(i).cast());
            let m = _mm_test_epi8_mask(m, m);
            let (x, to) = (from.add(i).cast(), to.add(k));
            let some = m.count_ones() as usize;
            let left = room - k;
            if wide {
                let x = _mm512_maskz_loadu_epi64(m as u8, x);
                let x = _mm512_maskz_compress_epi64(m as u8, x);
                match left >= lanes {
                    true => _mm512_storeu_epi64(to.cast(), x),
                    false => {
                        _mm512_mask_storeu_epi64(to.cast(), (1 << some.min(left)) as u8 - 1, x)
                    }
                }
            } else {
                let x = _mm512_maskz_loadu_epi32(m, x.cast());
                let x = _mm512_maskz_compress_epi32(m, x);
                match left >= lanes {
                    true => _mm512_storeu_epi32(to.cast(), x),
                    false => _mm512_mask_storeu_epi32(
                        to.cast(),
                        ((1u32 << some.min(left)) - 1) as u16,
                        x,
                    ),
                }
            }
            k += some.min(left);
            i += lanes;
        }
    }
    k
}

/// Calls `f` with the positions `first + j` of the elements of a run that are not 0, in order and
/// some at a time. Without a branch for each element: what is random cannot be predicted.
///
/// # Safety
/// The run must be valid.
#[inline(always)]
unsafe fn each_true<T: Num>(p: *const T, step: isize, n: usize, mut f: impl FnMut(&[usize])) {
    let mut found = [0usize; BLOCK];
    let mut at = 0;
    while at < n {
        let end = n.min(at + BLOCK);
        let mut count = 0usize;
        for j in at..end {
            // SAFETY: the caller's promise; at most as many are found as were looked at.
            unsafe {
                *found.get_unchecked_mut(count) = j;
                count = count.wrapping_add(usize::from(*p.offset(j as isize * step) != T::ZERO));
            }
        }
        f(&found[..count]);
        at = end;
    }
}

/// The number of elements that are not 0 (complex: neither part is): input any tensor, output a
/// 0-d int64. What the outputs of `nonzero` and `masked_select` are allocated by.
pub(crate) fn masked_count(args: &KernelArgs<'_>) -> Result<()> {
    let v = &args.inputs()[0];
    let counts = count_pieces(v, pool::chunk_count(v.numel(), GRAIN))?;
    let total: u64 = counts.iter().sum();
    // SAFETY: the output is one int64.
    unsafe { *args.outputs()[0].ptr().cast::<i64>() = total as i64 };
    Ok(())
}

/// A size that does not fit what was counted: the tensor changed in between.
#[cold]
fn miscounted() -> TorshError {
    TorshError::invalid("", "the mask changed while it was read")
}

/// `masked_select`: inputs `self`, `mask`, of one shape by broadcasting; the output is 1-d, as long
/// as [`masked_count`] of the mask.
pub(crate) fn masked_select(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, mask) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let parts = pool::chunk_count(mask.numel(), GRAIN);
    let mut starts = count_pieces(mask, parts)?;
    if exclusive_sum(&mut starts) != out.numel() as u64 {
        return Err(miscounted());
    }
    let out_step = out.strides().first().copied().unwrap_or(1);
    let walk = IndexWalk::new(src.shape(), [src.strides(), mask.strides()]);
    let (_, [ss, is]) = walk.inner();
    let problem = SelectProblem {
        size: out.dtype().size(),
        n: walk.numel(),
        adjacent: [ss, is, out_step] == [1; 3],
    };
    let algorithm = pick::<SelectAlgorithm>(&problem, pool::num_threads());
    let m = IndexPtr::<u8>::of(mask);
    let starts = &starts;
    let ends: Vec<isize> = (1..=parts)
        .map(|p| starts.get(p).map_or(out.numel(), |&s| s as usize) as isize)
        .collect();
    by_size!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(src));
        // The pieces are those of the count: both walks have `mask.numel()` elements.
        pool::parallel_parts(walk.numel(), parts, &|part, range| {
            let mut k = starts[part] as isize;
            walk.run(range, |[s, i], n, [ss, is]| {
                // SAFETY: the walk stays within both; there is room for every true element, unless
                // the mask changed meanwhile.
                unsafe {
                    let (from, end) = (from.at(s), ends[part]);
                    match algorithm {
                        #[cfg(target_arch = "x86_64")]
                        SelectAlgorithm::Compress => {
                            k += compress(from, m.at(i), n, to.at(k), (end - k) as usize) as isize;
                        }
                        _ => each_true(m.at(i), is, n, |found| {
                            let found = &found[..found.len().min((end - k) as usize)];
                            let to = to.at(k * out_step);
                            for (c, &j) in found.iter().enumerate() {
                                *to.offset(c as isize * out_step) = *from.offset(j as isize * ss);
                            }
                            k += found.len() as isize;
                        }),
                    }
                }
            });
        });
    });
    Ok(())
}

/// Turns counts into where each begins; gives the total.
fn exclusive_sum(counts: &mut [u64]) -> u64 {
    let mut total = 0;
    for c in counts {
        (*c, total) = (total, total + *c);
    }
    total
}

/// The strides of a mask for a walk over `shape`, which it broadcasts to.
fn broadcast(v: &View<'_>, shape: &[usize]) -> Result<Vec<isize>> {
    let lead = shape.len().checked_sub(v.shape().len());
    let fits = |lead: usize| {
        v.shape()
            .iter()
            .zip(&shape[lead..])
            .all(|(&a, &b)| a == b || a == 1)
    };
    let Some(lead) = lead.filter(|&l| fits(l)) else {
        return Err(TorshError::shape(
            "",
            format!("cannot broadcast shape {:?} to {shape:?}", v.shape()),
        ));
    };
    let mut strides = vec![0; shape.len()];
    for d in 0..v.shape().len() {
        if v.shape()[d] != 1 {
            strides[lead + d] = v.strides()[d];
        }
    }
    Ok(strides)
}

/// `masked_fill`: inputs `self`, `mask`, optionally a 0-d value; `self` and `mask` broadcast to the
/// output.
pub(crate) fn masked_fill(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, mask) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    no_overlap(out, mask)?;
    let ss = broadcast(src, out.shape())?;
    let ms = broadcast(mask, out.shape())?;
    let tensor = args.inputs().get(2).filter(|v| v.is_present());
    let number = match (tensor, args.attrs::<attrs::MaskedFill>()?.value) {
        (None, None) => return Err(missing()),
        (_, number) => number.map(|n| n.to_bytes(out.dtype())).unwrap_or_default(),
    };
    let m = IndexPtr::<u8>::of(mask);
    let walk = IndexWalk::new(out.shape(), [out.strides(), &ss, &ms]);
    let problem = MaskedFillProblem {
        size: out.dtype().size(),
        n: walk.numel(),
        in_place: out.ptr() == src.ptr() && out.strides() == ss,
        adjacent: walk.inner().1 == [1; 3],
    };
    let algorithm = pick::<MaskedFillAlgorithm>(&problem, pool::num_threads());
    by_size!(out.dtype(), T => {
        let value: T = match tensor {
            // SAFETY: a 0-d tensor of the output's dtype.
            Some(v) => unsafe { *v.ptr().cast::<T>() },
            // SAFETY: `to_bytes` has room for any element.
            None => unsafe { number.as_ptr().cast::<T>().read_unaligned() },
        };
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(src));
        walk.par(GRAIN, |[d, s, i], n, [ds, ss, is]| {
            // SAFETY: the walk stays within all three.
            unsafe {
                match algorithm {
                    MaskedFillAlgorithm::Writes => {
                        for j in 0..n as isize {
                            if *m.at(i + j * is) != 0 {
                                *to.at(d + j * ds) = value;
                            }
                        }
                    }
                    MaskedFillAlgorithm::Selects => {
                        for j in 0..n as isize {
                            let old = *from.at(s + j);
                            *to.at(d + j) = if *m.at(i + j) != 0 { value } else { old };
                        }
                    }
                    MaskedFillAlgorithm::StridedSelects => {
                        for j in 0..n as isize {
                            let old = *from.at(s + j * ss);
                            *to.at(d + j * ds) = if *m.at(i + j * is) != 0 { value } else { old };
                        }
                    }
                }
            }
        });
    });
    Ok(())
}

/// `masked_scatter`: inputs `self`, `mask` (broadcast to the output), `source`, whose elements in
/// row-major order replace the masked ones.
pub(crate) fn masked_scatter(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, mask, source) = (
        &args.outputs()[0],
        &args.inputs()[0],
        &args.inputs()[1],
        &args.inputs()[2],
    );
    no_overlap(out, mask)?;
    no_overlap(out, source)?;
    let ms = broadcast(mask, out.shape())?;
    let ss = broadcast(src, out.shape())?;
    // SAFETY: the mask's own elements, repeated by strides of 0.
    let seen = unsafe { View::new(mask.ptr(), mask.dtype(), out.shape(), &ms) };
    let parts = pool::chunk_count(out.numel(), GRAIN);
    let mut starts = count_pieces(&seen, parts)?;
    let total = exclusive_sum(&mut starts);
    if total > source.numel() as u64 {
        return Err(TorshError::shape(
            "",
            format!(
                "Number of elements of source < number of ones in mask: {} elements for {total}",
                source.numel()
            ),
        ));
    }
    // SAFETY: the input's own elements, repeated by strides of 0.
    let start = unsafe { View::new(src.ptr(), src.dtype(), out.shape(), &ss) };
    start_from(out, &start);
    let m = IndexPtr::<u8>::of(mask);
    let walk = IndexWalk::new(out.shape(), [out.strides(), &ms]);
    let from_walk = IndexWalk::new(source.shape(), [source.strides()]);
    let starts = &starts;
    by_size!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(source));
        let flat = source.is_contiguous();
        pool::parallel_parts(walk.numel(), parts, &|part, range| {
            let mut k = starts[part] as usize;
            walk.run(range, |[d, i], n, [ds, is]| {
                for j in 0..n as isize {
                    // SAFETY: the walk stays within both, and the source is long enough.
                    unsafe {
                        if *m.at(i + j * is) != 0 {
                            let mut at = k as isize;
                            if !flat {
                                from_walk.run(k..k + 1, |[o], _, _| at = o);
                            }
                            *to.at(d + j * ds) = *from.at(at);
                            k += 1;
                        }
                    }
                }
            });
        });
    });
    Ok(())
}

/// The gradient of `masked_scatter` by its source: inputs the gradient and the mask (broadcast to
/// it); the output has the source's shape, 0 where nothing was taken.
pub(crate) fn masked_scatter_backward(args: &KernelArgs<'_>) -> Result<()> {
    let (out, grad, mask) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let ms = broadcast(mask, grad.shape())?;
    fill(out, Scalar::Int(0));
    let m = IndexPtr::<u8>::of(mask);
    let to_walk = IndexWalk::new(out.shape(), [out.strides()]);
    let total = AtomicU64::new(0);
    by_size!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(grad));
        let mut k = 0;
        IndexWalk::new(grad.shape(), [grad.strides(), &ms]).all(|[s, i], n, [ss, is]| {
            for j in 0..n as isize {
                // SAFETY: the walk stays within both operands, and `k` within the output.
                unsafe {
                    if *m.at(i + j * is) != 0 {
                        if k < to_walk.numel() {
                            to_walk.run(k..k + 1, |[o], _, _| *to.at(o) = *from.at(s + j * ss));
                        }
                        k += 1;
                    }
                }
            }
        });
        total.store(k as u64, Ordering::Relaxed);
    });
    if total.into_inner() > out.numel() as u64 {
        return Err(miscounted());
    }
    Ok(())
}

/// `nonzero`: input any tensor; the output is int64 `[n, ndim]`, the positions in row-major order,
/// where n is [`masked_count`] of the input.
pub(crate) fn nonzero(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let parts = pool::chunk_count(src.numel(), GRAIN);
    let mut starts = count_pieces(src, parts)?;
    if exclusive_sum(&mut starts) != out.shape()[0] as u64 {
        return Err(miscounted());
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let (rows, columns) = (out.strides()[0], out.strides()[1]);
    let to = IndexPtr::<i64>::of(out);
    let starts = &starts;
    by_dtype!(if src.dtype() == DType::Bool { DType::U8 } else { src.dtype() }, T => {
        let p = IndexPtr::<T>::of(src);
        let walk = IndexWalk::new(src.shape(), [src.strides()]);
        pool::parallel_parts(walk.numel(), parts, &|part, range| {
            let mut k = starts[part] as isize;
            // The walk joins dimensions, so positions are counted, not walked.
            let mut flat = range.start;
            let mut position = vec![0i64; src.shape().len()];
            let mut known = usize::MAX;
            walk.run(range, |[i], n, [step]| {
                // SAFETY: the walk stays within the view; there is a row for every element counted.
                unsafe {
                    each_true(p.at(i), step, n, |found| {
                        for &j in found {
                            let at = flat + j;
                            if let [only] = &mut position[..] {
                                *only = at as i64;
                            } else {
                                unravel(&mut position, &mut known, at, src.shape());
                            }
                            for (d, &v) in position.iter().enumerate() {
                                *to.at(k * rows + d as isize * columns) = v;
                            }
                            k += 1;
                        }
                    });
                }
                flat += n;
            });
        });
    });
    Ok(())
}

/// Moves `position` from the flat position `known` to `flat`, by counting where that is near.
fn unravel(position: &mut [i64], known: &mut usize, flat: usize, shape: &[usize]) {
    let last = shape.len() - 1;
    let ahead = flat.wrapping_sub(*known);
    if *known != usize::MAX && position[last] as usize + ahead < shape[last] {
        position[last] += ahead as i64;
    } else {
        let mut rest = flat;
        for d in (0..shape.len()).rev() {
            position[d] = (rest % shape[d]) as i64;
            rest /= shape[d];
        }
    }
    *known = flat;
}
