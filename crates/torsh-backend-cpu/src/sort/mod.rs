//! Sorting: `sort` and `topk`.
//!
//! Elements become unsigned integers of the same order ([`Ordered`]), paired with their positions;
//! pairs are distinct, so every sort of them is stable.

mod keys;
mod radix;
mod topk;

use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{DType, Kernel, KernelArgs, KernelFn, Result, TorshError, View, pool};

use crate::index::{Ptr, Scratch, Walk};
pub(crate) use keys::Ordered;
use radix::{Item, Packed, Wide};

/// The kernels of this family.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    Some(match k {
        Kernel::Sort => sort,
        Kernel::Topk => topk::topk,
        _ => return None,
    })
}

/// Calls `$f::<T, I>(..)` with the element type of a dtype and the pair that holds its keys;
/// complex numbers have no order.
macro_rules! by_ordered {
    ($args:ident, $f:ident) => {
        match $args.inputs[0].dtype {
            DType::U8 => $f::<u8, Packed>($args),
            DType::I8 => $f::<i8, Packed>($args),
            DType::I16 => $f::<i16, Packed>($args),
            DType::I32 => $f::<i32, Packed>($args),
            DType::I64 => $f::<i64, Wide>($args),
            DType::F16 => $f::<half::f16, Packed>($args),
            DType::BF16 => $f::<half::bf16, Packed>($args),
            DType::F32 => $f::<f32, Packed>($args),
            DType::F64 => $f::<f64, Wide>($args),
            DType::Bool => $f::<bool, Packed>($args),
            DType::C64 | DType::C128 => Err($args.unsupported()),
        }
    };
}
use by_ordered;

/// The lines along one dimension of an input and of the values and indices made of them; a 0-d
/// input is one line of one element.
struct Lines {
    /// Walks the first elements of all lines: input, values, indices.
    starts: Walk<3>,
    /// Elements of an input line.
    length: usize,
    /// Strides along the line: input, values, indices.
    steps: [isize; 3],
    /// The first elements: input, values, indices.
    ptrs: [Ptr<u8>; 3],
}

impl Lines {
    fn new(args: &KernelArgs<'_>, dim: usize) -> Result<Lines> {
        let input = &args.inputs[0];
        let views: [&View<'_>; 3] = [input, &args.outputs[0], &args.outputs[1]];
        let ptrs = views.map(Ptr::of);
        if input.shape.is_empty() {
            let starts = Walk::new(&[], [&[], &[], &[]]);
            return Ok(Lines {
                starts,
                length: 1,
                steps: [1; 3],
                ptrs,
            });
        }
        let length = input.shape[dim];
        if length > u32::MAX as usize {
            return Err(TorshError::invalid(
                "",
                "cannot sort more than 4294967295 elements",
            ));
        }
        let mut shape = input.shape.to_vec();
        shape[dim] = 1;
        let starts = Walk::new(&shape, views.map(|v| v.strides));
        Ok(Lines {
            starts,
            length,
            steps: views.map(|v| v.strides[dim]),
            ptrs,
        })
    }

    /// Calls `f` for every line, in parallel; `n` pairs of scratch come with it, uninitialised
    /// between lines.
    fn each<I: Item>(&self, n: usize, f: impl Fn([isize; 3], &mut [I]) + Sync) -> Result<()> {
        let lines = self.starts.numel();
        let failed = AtomicBool::new(false);
        let grain = ((1 << 12) / self.length.max(1)).max(1);
        pool::parallel_for(lines, grain, &|range| {
            let Ok(mut items) = Scratch::filled(n, I::new(0, 0)) else {
                failed.store(true, Ordering::Relaxed);
                return;
            };
            self.starts.run(range, |first, n, steps| {
                for j in 0..n as isize {
                    f(std::array::from_fn(|k| first[k] + j * steps[k]), &mut items);
                }
            });
        });
        if failed.into_inner() {
            Err(TorshError::OutOfMemory)
        } else {
            Ok(())
        }
    }

    /// Writes the elements and positions of `items` into a line of the outputs.
    ///
    /// # Safety
    /// `first` must be a line of this one, `items` no more than the outputs' lines, with positions
    /// of the input's.
    unsafe fn write<T: Copy, I: Item>(&self, first: [isize; 3], items: &[I]) {
        let [input, values, indices] = self.ptrs;
        let (input, values, indices) =
            (input.cast::<T>(), values.cast::<T>(), indices.cast::<i64>());
        let [step, value_step, index_step] = self.steps;
        for (j, item) in items.iter().enumerate() {
            let (at, j) = (item.at() as isize, j as isize);
            // SAFETY: the caller's promise.
            unsafe {
                *values.at(first[1] + j * value_step) = *input.at(first[0] + at * step);
                *indices.at(first[2] + j * index_step) = at as i64;
            }
        }
    }
}

/// The bits to invert for descending order.
fn inversion<T: Ordered>(descending: bool) -> u64 {
    if descending {
        u64::MAX >> (64 - T::BITS)
    } else {
        0
    }
}

/// `sort`: input `self`; attrs the dimension, whether descending. Outputs the values and their
/// positions (int64), both of the input's shape. Always stable; NaN is the greatest.
fn sort(args: &KernelArgs<'_>) -> Result<()> {
    by_ordered!(args, sort_as)
}

fn sort_as<T: Ordered, I: Item>(args: &KernelArgs<'_>) -> Result<()> {
    let lines = Lines::new(args, args.attr(0).int() as usize)?;
    let invert = inversion::<T>(args.attr(1).bool());
    let (n, step) = (lines.length, lines.steps[0]);
    let input = lines.ptrs[0].cast::<T>();
    lines.each::<I>(2 * n, |first, scratch| {
        let (items, spare) = scratch.split_at_mut(n);
        let mut differing = 0;
        let mut before = None;
        for (j, item) in items.iter_mut().enumerate() {
            // SAFETY: the line has `n` elements.
            let key = unsafe { *input.at(first[0] + j as isize * step) }.key() ^ invert;
            *item = I::new(key, j as u32);
            differing |= key ^ *before.get_or_insert(key);
        }
        let sorted = radix::sort(items, spare, differing);
        // SAFETY: the outputs have the input's shape.
        unsafe { lines.write::<T, I>(first, sorted) };
    })
}
