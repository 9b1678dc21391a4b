//! Copies, fills and selection: data movement per element size, in any layout.
//!
//! - `Copy`: `inputs[0]` into `outputs[0]`, any dtype to any dtype, broadcasting.
//! - `Fill` ([`attrs::Fill`]): a number into `outputs[0]`.
//! - `Where`: `inputs[1]` where `inputs[0]` (bool) is true, else `inputs[2]`.

pub(crate) mod choose;

use std::mem::MaybeUninit;

use torsh_core::{DType, KernelArgs, Result, View, attrs, pool};

use crate::machine::choice::pick;
use crate::machine::tuning::copy::ROW;
use crate::memory::blocks::{self, BlockOperand, GRAIN};
use crate::memory::convert::convert;
use crate::memory::element::{Addresses, Packed, by_size};
use crate::memory::operands::operands;
use crate::memory::strided::StridedLoop;
use crate::memory::{stream, transpose};
use crate::multiversion;
use crate::simd;
use choose::{CopyAlgorithm, CopyLayout, CopyProblem};

pub(crate) fn copy(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [src]) = operands(args)?;
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let (from, to) = (src.dtype(), out.dtype());
    let (size, from_size) = (to.size(), from.size());
    let both = Addresses([out.ptr(), src.ptr()]);
    let choose = |layout| {
        let problem = CopyProblem {
            from,
            to,
            numel: n,
            layout,
        };
        pick::<CopyAlgorithm>(&problem, pool::num_threads())
    };
    if n == 1 || (src.shape() == out.shape() && out.is_contiguous() && src.is_contiguous()) {
        let apart = out.ptr().addr().abs_diff(src.ptr().addr()) >= n * size;
        let algorithm = choose(CopyLayout::Contiguous { apart });
        blocks::parallel(n, &|r| {
            let [dst, src_ptr] = *both.get();
            // SAFETY: both are contiguous and hold `n` elements; the ranges are disjoint.
            unsafe {
                let (dst, src_ptr) = (dst.add(r.start * size), src_ptr.add(r.start * from_size));
                match algorithm {
                    CopyAlgorithm::FlatStreamed => {
                        stream::copy(src_ptr, dst, r.len() * size);
                        stream::fence();
                    }
                    CopyAlgorithm::Converted => convert(from, src_ptr, to, dst, r.len()),
                    // A copy onto itself is allowed.
                    _ => std::ptr::copy(src_ptr, dst, r.len() * size),
                }
            }
        });
        return Ok(());
    }
    let l = StridedLoop::of_views(out.shape(), &[out, src]);
    let plan = match from == to {
        true => transpose::TransposePlan::new(&l, size),
        false => None,
    };
    let algorithm = choose(CopyLayout::Strided {
        inner: l.inner(),
        several: l.ndim() > 1,
        adjacent: [
            l.stride(0, 1) == from_size as isize,
            l.stride(0, 0) == size as isize,
        ],
        transposed: plan.is_some(),
    });
    match (algorithm, plan) {
        (CopyAlgorithm::Blocks, _) => {
            let operands = [BlockOperand::new(out, to), BlockOperand::new(src, to)];
            // SAFETY: the views are valid for their layouts.
            unsafe {
                blocks::run(&l, &operands, &|out, ins, n| {
                    std::ptr::copy(ins[0], out, n * size);
                });
            }
        }
        // SAFETY: the views are valid for their layouts.
        (CopyAlgorithm::Transposed, Some(plan)) => unsafe {
            plan.run(&l, out.ptr(), src.ptr(), size);
        },
        (CopyAlgorithm::ShortRows, _) => {
            let (rows, row) = (l.without_innermost(), l.inner() * size);
            pool::parallel_for(rows.numel(), (GRAIN / l.inner()).max(1), &|range| {
                rows.for_each_run(range, both.get(), |ptrs, n, steps| {
                    for i in 0..n as isize {
                        let from = ptrs[1].wrapping_offset(i * steps[1]);
                        let to = ptrs[0].wrapping_offset(i * steps[0]);
                        // SAFETY: a row is within both views.
                        unsafe { copy_row(from, to, row) };
                    }
                });
            });
        }
        _ => blocks::parallel_by(n, blocks::grain(&l, &[size; 2]), &|range| {
            l.for_each_run(range, both.get(), |ptrs, n, steps| {
                // SAFETY: a run is within both views.
                unsafe { copy_run(size, ptrs[1], steps[1], ptrs[0], steps[0], n) };
            });
        }),
    }
    Ok(())
}

/// A copy of a few cache lines, which may be onto itself; a call would cost as much again.
///
/// # Safety
/// Both must be valid for `n` bytes.
#[inline(always)]
pub(crate) unsafe fn copy_row(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if n.is_multiple_of(32) && n <= ROW {
            for k in (0..n).step_by(32) {
                let piece = from.add(k).cast::<[u64; 4]>().read_unaligned();
                to.add(k).cast::<[u64; 4]>().write_unaligned(piece);
            }
        } else {
            std::ptr::copy(from, to, n);
        }
    }
}

/// Copies `n` elements of `size` bytes with a step in bytes on each side.
///
/// # Safety
/// Every element must be valid, and the outputs overlap no inputs but their own.
pub(crate) unsafe fn copy_run(
    size: usize,
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
    n: usize,
) {
    unsafe fn strided<T: Copy>(src: *const u8, from: isize, dst: *mut u8, to: isize, n: usize) {
        let (mut s, mut d) = (src, dst);
        for _ in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *(d as *mut Packed<T>) = *(s as *const Packed<T>) };
            s = s.wrapping_offset(from);
            d = d.wrapping_offset(to);
        }
    }
    let own = size as isize;
    // SAFETY: the caller's promise.
    unsafe {
        if from == own && to == own {
            std::ptr::copy(src, dst, n * size);
        } else if to == own {
            blocks::gather(size, src, from, dst, n);
        } else {
            by_size!(size, strided(src, from, dst, to, n));
        }
    }
}

pub(crate) fn fill(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], []) = operands(args)?;
    let value = args.attrs::<attrs::Fill>()?.value;
    // SAFETY: the output is valid for its layout.
    unsafe { fill_view(out, value.to_bytes(out.dtype())) };
    Ok(())
}

/// Sets every element of a view to the element that starts `value`.
///
/// # Safety
/// The view must be writable, by this call alone.
pub(crate) unsafe fn fill_view(out: &View<'_>, value: [u8; 16]) {
    unsafe fn all<T: Copy>(value: &[u8; 16], dst: *mut u8, step: isize, n: usize) {
        // SAFETY: the caller's promise; `T` is no wider than 16 bytes.
        unsafe {
            let v = *(value.as_ptr() as *const Packed<T>);
            if step == size_of::<T>() as isize {
                std::slice::from_raw_parts_mut(dst as *mut Packed<T>, n).fill(v);
            } else {
                let mut at = dst;
                for _ in 0..n {
                    *(at as *mut Packed<T>) = v;
                    at = at.wrapping_offset(step);
                }
            }
        }
    }
    let n = out.numel();
    if n == 0 {
        return;
    }
    let size = out.dtype().size();
    let run = |ptr: *mut u8, n: usize, step: isize| {
        // SAFETY: the caller's promise.
        unsafe {
            if value == [0; 16] && step == size as isize {
                std::ptr::write_bytes(ptr, 0, n * size);
            } else {
                by_size!(size, all(&value, ptr, step, n));
            }
        }
    };
    let ptr = Addresses([out.ptr()]);
    if out.is_contiguous() {
        blocks::parallel(n, &|r| {
            run(
                ptr.get()[0].wrapping_add(r.start * size),
                r.len(),
                size as isize,
            )
        });
        return;
    }
    let l = StridedLoop::of_views(out.shape(), &[out]);
    blocks::parallel(n, &|range| {
        l.for_each_run(range, ptr.get(), |ptrs, n, steps| run(ptrs[0], n, steps[0]));
    });
}

type SelectFn = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// Elements handled at once.
const LANES: usize = 32;

multiversion! {
    /// Groups are read before they are written: the output may be one of the inputs.
    unsafe fn select_run<A, T: Copy>(out: *mut u8, cond: *const u8, a: *const u8, b: *const u8, n: usize) {
        let (out, a, b) = (
            out as *mut Packed<T>,
            a as *const Packed<T>,
            b as *const Packed<T>,
        );
        let mut at = 0;
        // SAFETY: the caller's promise: `n` elements each.
        unsafe {
            while at + LANES <= n {
                let (c, x, y) = (
                    &*(cond.wrapping_add(at) as *const [u8; LANES]),
                    &*(a.wrapping_add(at) as *const [Packed<T>; LANES]),
                    &*(b.wrapping_add(at) as *const [Packed<T>; LANES]),
                );
                let mut group = [const { MaybeUninit::<Packed<T>>::uninit() }; LANES];
                for j in 0..LANES {
                    let (x, y) = (x[j], y[j]);
                    group[j] = MaybeUninit::new(if c[j] != 0 { x } else { y });
                }
                *(out.wrapping_add(at) as *mut [MaybeUninit<Packed<T>>; LANES]) = group;
                at += LANES;
            }
            for i in at..n {
                let from = if *cond.add(i) != 0 { a } else { b };
                *out.add(i) = *from.add(i);
            }
        }
    }
}

fn select_for<T: Copy>() -> SelectFn {
    select_run::light::<T>(simd::level())
}

pub(crate) fn select(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [cond, a, b]) = operands(args)?;
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let size = out.dtype().size();
    let f: SelectFn = by_size!(size, select_for());
    let whole = |v: &View<'_>, d| {
        v.dtype() == d && (n == 1 || (v.shape() == out.shape() && v.is_contiguous()))
    };
    if whole(out, out.dtype())
        && whole(cond, DType::Bool)
        && whole(a, out.dtype())
        && whole(b, out.dtype())
    {
        let all = Addresses([out.ptr(), cond.ptr(), a.ptr(), b.ptr()]);
        let part = |from: usize, n: usize| {
            let [o, c, a, b] = *all.get();
            let at = from * size;
            // SAFETY: the part is within the operands.
            unsafe { f(o.add(at), c.add(from), a.add(at), b.add(at), n) };
        };
        if n <= GRAIN {
            part(0, n);
        } else {
            blocks::parallel(n, &|r| part(r.start, r.len()));
        }
        return Ok(());
    }
    let l = StridedLoop::of_views(out.shape(), &[out, cond, a, b]);
    let operands = [
        BlockOperand::new(out, out.dtype()),
        BlockOperand::new(cond, DType::Bool),
        BlockOperand::new(a, out.dtype()),
        BlockOperand::new(b, out.dtype()),
    ];
    // SAFETY: the views are valid for their layouts.
    unsafe {
        blocks::run(&l, &operands, &|out, ins, n| {
            f(out, ins[0], ins[1], ins[2], n)
        });
    }
    Ok(())
}
