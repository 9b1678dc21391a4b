//! The pointwise kernels: one driver for the rows of [`torsh_core::pointwise`].
//!
//! Operands that lie as the loop needs them go to it directly; the others, and all conversions
//! between dtypes, go through [`blocks`](crate::memory::blocks). The half types compute in `float32`.

mod half_rounding;
mod loops;
mod special;
mod table;

use std::mem::MaybeUninit;

use torsh_core::machine::machine;
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, View};

use crate::machine::tuning::pointwise::{FEW_RESULTS, REPEAT, RESULTS};
use crate::memory::blocks::{self, BlockOperand, MAX_INPUTS};
use crate::memory::convert::convert;
use crate::memory::element::{Addresses, Packed, by_size};
use crate::memory::stream;
use crate::memory::strided::StridedLoop;
use loops::{LANES, Loop, LoopFn, Rule};
use table::entries;

/// The numbers of a call as `[T; 4]`.
#[repr(C, align(16))]
struct RowNumbers([u8; 64]);
static NO_NUMBERS: RowNumbers = RowNumbers([0; 64]);

fn numbers(args: &KernelArgs<'_>, dtype: DType) -> RowNumbers {
    let mut all = RowNumbers([0; 64]);
    let size = dtype.size();
    let (numbers, count) = args.row_numbers();
    for (place, s) in all.0.chunks_exact_mut(size).zip(&numbers[..count]) {
        place.copy_from_slice(&s.to_bytes(dtype)[..size]);
    }
    all
}

#[inline]
fn is_half(d: DType) -> bool {
    matches!(d, DType::F16 | DType::BF16)
}

/// Runs one row: inputs of any dtype and layout that broadcast to the output.
///
/// # Errors
/// For dtypes the row has no section for, and integer division by zero.
pub(crate) fn pointwise(args: &KernelArgs<'_>) -> Result<()> {
    let Some(entry) = entries().get(args.kernel().index()) else {
        return Err(args.unsupported());
    };
    let half = is_half(args.compute());
    let wanted = if half { DType::F32 } else { args.compute() };
    let exact = half && keeps_digits(args.kernel(), args.inputs());
    let own = entry.loops[args.compute() as usize].filter(|_| !exact);
    let Some(f) = own.or(entry.loops[wanted as usize]) else {
        return Err(args.unsupported());
    };
    let ([out, ..], Some(inputs)) = (args.outputs(), args.inputs().get(..entry.arity)) else {
        return Err(TorshError::invalid(
            "",
            format!("expected 1 output and {} operands", entry.arity),
        ));
    };
    let produced = match entry.rule {
        Rule::Bool => DType::Bool,
        Rule::Real => wanted.to_real(),
        Rule::Promote | Rule::Float => wanted,
    };
    let n = out.numel();
    let f = Loop {
        f,
        arity: entry.arity,
        size: wanted.size(),
        out_size: produced.size(),
    };
    if n == 0 {
        return Ok(());
    }
    if entry.divides && wanted.is_integer() {
        refuse_zero(&inputs[1], wanted)?;
    }
    let read;
    let p = match entry.numbers {
        0 => NO_NUMBERS.0.as_ptr(),
        _ => {
            read = numbers(args, wanted);
            read.0.as_ptr()
        }
    };

    // One element lies as every loop needs it, and so do operands that the call says are alike.
    let alike = n == 1 || (args.one_layout() && !args.has_numbers());
    let target = out.dtype() == produced && (alike || out.is_contiguous());
    let plain = |(k, v): (usize, &View<'_>)| {
        let known = args.one_layout() && !args.is_number(k);
        v.dtype() == wanted && (known || (v.shape() == out.shape() && v.is_contiguous()))
    };
    let direct = target
        && match alike {
            true => inputs.iter().all(|v| v.dtype() == wanted),
            false => inputs.iter().enumerate().all(plain),
        };
    if direct {
        let mut ins = [std::ptr::null(); MAX_INPUTS];
        for (k, v) in inputs.iter().enumerate() {
            ins[k] = v.ptr() as *const u8;
        }
        if n <= blocks::GRAIN {
            // SAFETY: all operands are contiguous, of `n` elements and of the loop's dtypes.
            unsafe { f.call(out.ptr(), &ins, n, p) };
        } else {
            let direct = match wanted {
                DType::F32 => loops::streamed(args.kernel()),
                _ => None,
            };
            large(f, direct, out.ptr(), ins, [f.size; MAX_INPUTS], n, p);
        }
        return Ok(());
    }

    if !half
        && n > 1
        && target
        && inputs
            .iter()
            .enumerate()
            .all(|(k, v)| in_one_place(v) || plain((k, v)))
    {
        with_numbers(f, out.ptr(), inputs, wanted, n, p);
        return Ok(());
    }

    let round = half.then_some(args.compute());
    let result = BlockOperand {
        round: if produced == DType::F32 { round } else { None },
        ..BlockOperand::new(out, produced)
    };
    let operand = |k: usize, v: &View<'_>| BlockOperand {
        round: if exact && k == 1 { None } else { round },
        ..BlockOperand::new(v, wanted)
    };
    if n == 1 {
        single(f, &result, inputs, operand, p);
        return Ok(());
    }
    let mut operands = [result; MAX_INPUTS + 1];
    let mut views = [out; MAX_INPUTS + 1];
    for (k, v) in inputs.iter().enumerate() {
        operands[k + 1] = operand(k, v);
        views[k + 1] = v;
    }
    let count = inputs.len() + 1;
    let l = StridedLoop::of_views(out.shape(), &views[..count]);
    let p = Addresses([p]);
    // SAFETY: the views are valid for their layouts, which broadcast to the output's shape.
    unsafe {
        blocks::run(&l, &operands[..count], &|out, ins, n| {
            f.call(out, ins, n, p.get()[0])
        });
    }
    Ok(())
}

/// Whether the second operand of half-precision arithmetic is a number that keeps its digits: a
/// factor or divisor does, as in PyTorch, where all else becomes a half-precision number first.
fn keeps_digits(k: Kernel, inputs: &[View<'_>]) -> bool {
    let multiplies = matches!(
        k,
        Kernel::Mul | Kernel::Div | Kernel::DivTrunc | Kernel::FloorDivide
    );
    multiplies && inputs.get(1).is_some_and(in_one_place)
}

/// One element: no loops, whatever the dtypes and layouts are.
#[inline(never)]
fn single(
    f: Loop,
    result: &BlockOperand,
    inputs: &[View<'_>],
    operand: impl Fn(usize, &View<'_>) -> BlockOperand,
    p: *const u8,
) {
    let mut values = [Slot([0; 16]); MAX_INPUTS + 1];
    let [to, from @ ..] = &mut values;
    let mut ins = [std::ptr::null(); MAX_INPUTS];
    for (k, ((slot, i), v)) in from.iter_mut().zip(&mut ins).zip(inputs).enumerate() {
        let o = operand(k, v);
        // SAFETY: every view has one element, and a slot holds one of any dtype.
        unsafe { o.load(v.ptr(), slot.0.as_mut_ptr(), 1) };
        *i = slot.0.as_ptr();
    }
    // SAFETY: as above.
    unsafe {
        f.call(to.0.as_mut_ptr(), &ins, 1, p);
        result.store(to.0.as_mut_ptr(), result.ptr, 1);
    }
}

/// Room for one element.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Slot([u8; 16]);

/// Whether a view is the same element all over.
fn in_one_place(v: &View<'_>) -> bool {
    v.numel() == 1 || v.strides().iter().all(|&s| s == 0)
}

/// Room for the copies of a number.
#[repr(align(64))]
struct Repeated(#[allow(dead_code)] [u8; REPEAT]);

/// Contiguous operands and numbers, of which a buffer is filled that every part of the loop reads.
#[inline(never)]
fn with_numbers(f: Loop, out: *mut u8, inputs: &[View<'_>], wanted: DType, n: usize, p: *const u8) {
    let mut buffers = MaybeUninit::<[Repeated; MAX_INPUTS]>::uninit();
    let mut ins = [std::ptr::null(); MAX_INPUTS];
    let mut steps = [0; MAX_INPUTS];
    for (k, v) in inputs.iter().enumerate() {
        if in_one_place(v) {
            let all = (buffers.as_mut_ptr() as *mut Repeated).wrapping_add(k) as *mut u8;
            // SAFETY: the view has an element in one place, and the buffer room for all copies of it.
            unsafe {
                convert(v.dtype(), v.ptr(), wanted, all, 1);
                blocks::gather(f.size, all, 0, all, n.min(REPEAT / f.size));
            }
            ins[k] = all as *const u8;
        } else {
            ins[k] = v.ptr() as *const u8;
            steps[k] = f.size;
        }
    }
    large(f, None, out, ins, steps, n, p);
}

/// Operands over threads: contiguous ones, and with a step of 0 numbers repeated in [`REPEAT`] bytes.
/// `direct` is the loop that writes past the caches, where there is one.
#[inline(never)]
fn large(
    f: Loop,
    direct: Option<LoopFn>,
    out: *mut u8,
    ins: [*const u8; MAX_INPUTS],
    steps: [usize; MAX_INPUTS],
    n: usize,
    p: *const u8,
) {
    // A result in the place of an input is in the caches already.
    let fresh = ins[..f.arity].iter().all(|&i| i != out.cast_const());
    let streams = fresh && stream::pays(n * f.out_size);
    let whole = steps[..f.arity].iter().all(|&s| s > 0);
    let direct = direct.filter(|_| streams && (out as usize).is_multiple_of(stream::LINE));
    let ins = Addresses(ins);
    let rest = Addresses([out.cast_const(), p]);
    blocks::parallel(n, &|r| {
        let [out, p] = *rest.get();
        let mut from = *ins.get();
        for (i, step) in from.iter_mut().zip(&steps) {
            *i = i.wrapping_add(r.start * step);
        }
        // SAFETY: the ranges are disjoint and within `n` elements.
        unsafe {
            let to = (out as *mut u8).add(r.start * f.out_size);
            if let Some(direct) = direct {
                let n = r.len() - r.len() % LANES;
                direct(to, from.as_ptr(), n, p);
                stream::fence();
                from[0] = from[0].add(n * f.size);
                return f.call(to.add(n * f.out_size), &from, r.len() - n, p);
            }
            if streams || !whole {
                in_blocks(f, to, from, steps, r.len(), p, streams);
            } else {
                f.call(to, &from, r.len(), p);
            }
        };
    });
}

/// Results on their way past the caches.
#[repr(align(64))]
struct StreamBuffer(MaybeUninit<[u8; RESULTS]>);

/// A loop over a part of its operands at a time, whose results are written past the caches if
/// `streamed`.
///
/// # Safety
/// As for the loop, whose inputs with a step of 0 need only [`REPEAT`] bytes; a streamed output
/// must be none of the inputs.
unsafe fn in_blocks(
    f: Loop,
    out: *mut u8,
    ins: [*const u8; MAX_INPUTS],
    steps: [usize; MAX_INPUTS],
    n: usize,
    p: *const u8,
    streamed: bool,
) {
    let mut results = StreamBuffer(MaybeUninit::uninit());
    let results = results.0.as_mut_ptr().cast::<u8>();
    let few = streamed && machine().few_fill_buffers;
    let results_fit = if few { FEW_RESULTS } else { RESULTS } / f.out_size;
    let block = match (streamed, steps[..f.arity].contains(&0)) {
        (true, false) => results_fit,
        (true, true) => results_fit.min(REPEAT / f.size),
        (false, _) => REPEAT / f.size,
    };
    let lines = f.size.div_ceil(f.out_size);
    for at in (0..n).step_by(block) {
        let m = block.min(n - at);
        let (mut from, mut next, mut tensors) = (ins, ins, 0);
        for (k, step) in steps.iter().enumerate().take(f.arity) {
            from[k] = ins[k].wrapping_add(at * step);
            if *step > 0 {
                let ahead = if few { stream::AHEAD } else { block * step };
                next[tensors] = from[k].wrapping_add(ahead);
                tensors += 1;
            }
        }
        let ask = |k: usize| {
            for next in &next[..tensors] {
                for line in 0..lines {
                    stream::prefetch(next.wrapping_add(k * lines + line * stream::LINE));
                }
            }
        };
        // SAFETY: the caller's promise; a block of results fits the buffer.
        unsafe {
            let (to, bytes) = (out.add(at * f.out_size), m * f.out_size);
            if !streamed {
                f.call(to, &from, m, p);
                continue;
            }
            f.call(results, &from, m, p);
            // Of several operands what comes next is asked for while these results are written. One
            // alone a processor with many buffers reads ahead by itself, also while the loop computes.
            if tensors > 1 || few {
                stream::copy_while(results, to, bytes, ask);
            } else {
                stream::copy(results, to, bytes);
            }
        }
    }
    if streamed {
        stream::fence();
    }
}

/// An error where an element of the divisor is 0.
fn refuse_zero(v: &View<'_>, wanted: DType) -> Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let found = AtomicBool::new(false);
    let size = wanted.size();
    let scan = |ptr: *const u8, n: usize| {
        // SAFETY: `n` elements are readable.
        let zero = unsafe { any_zero(ptr, n, size) };
        if zero {
            found.store(true, Ordering::Relaxed);
        }
    };
    if v.numel() == 0 {
        return Ok(());
    }
    let l = StridedLoop::of_views(v.shape(), &[v]);
    let (ptr, dtype) = (Addresses([v.ptr()]), v.dtype());
    blocks::parallel(l.numel(), &|range| {
        l.for_each_run(range, ptr.get(), |ptrs, n, steps| {
            let mut at = 0;
            let mut raw = [Slot([0; 16]); 64];
            let mut own = [Slot([0; 16]); 64];
            let (raw, own) = (raw.as_mut_ptr() as *mut u8, own.as_mut_ptr() as *mut u8);
            if dtype == wanted && steps[0] == size as isize {
                scan(ptrs[0], n);
                return;
            }
            while at < n {
                let m = (n - at).min(64);
                // SAFETY: the elements are the view's; 64 of any dtype fit each buffer.
                unsafe {
                    blocks::gather(
                        dtype.size(),
                        ptrs[0].offset(steps[0] * at as isize),
                        steps[0],
                        raw,
                        m,
                    );
                    convert(dtype, raw, wanted, own, m);
                }
                scan(own, m);
                at += m;
            }
        });
    });
    if found.into_inner() {
        return Err(TorshError::invalid(
            "",
            "ZeroDivisionError: integer division or modulo by zero",
        ));
    }
    Ok(())
}

/// Whether one of `n` adjacent elements of `size` bytes is all zero bits.
unsafe fn any_zero(ptr: *const u8, n: usize, size: usize) -> bool {
    unsafe fn any<T: Copy + PartialEq + From<u8>>(ptr: *const u8, n: usize) -> bool {
        // SAFETY: the caller's promise.
        let all = unsafe { std::slice::from_raw_parts(ptr as *const Packed<T>, n) };
        all.iter().any(|v| { v.0 } == T::from(0))
    }
    // SAFETY: the caller's promise.
    unsafe { by_size!(size, any(ptr, n)) }
}
