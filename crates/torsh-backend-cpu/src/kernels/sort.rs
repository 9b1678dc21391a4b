//! Sorting: `sort` and `topk`.
//!
//! Elements become unsigned integers of the same order ([`Ordered`]), paired with their positions;
//! pairs are distinct, so every sort of them is stable. Threads share the lines, or a line where
//! there are few long ones; what comes out does not depend on their number.

pub(crate) mod choose;
mod keys;
mod line;
mod radix;
pub(crate) mod topk;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{DType, KernelArgs, Result, TorshError, View, attrs, pool};

use crate::kernels::index::{IndexPtr, IndexWalk};
use crate::machine::choice::pick;
use crate::machine::tuning::sort::GRAIN;
use crate::memory::dense::Scratch;
use choose::{SortSplit, SortSplitProblem};
pub(crate) use keys::Ordered;
use line::SortLine;

/// Calls `$f::<T>(..)` with the element type of a dtype; complex numbers have no order.
macro_rules! by_ordered {
    ($args:ident, $f:ident) => {
        match $args.inputs()[0].dtype() {
            DType::U8 => $f::<u8>($args),
            DType::I8 => $f::<i8>($args),
            DType::I16 => $f::<i16>($args),
            DType::I32 => $f::<i32>($args),
            DType::I64 => $f::<i64>($args),
            DType::F16 => $f::<half::f16>($args),
            DType::BF16 => $f::<half::bf16>($args),
            DType::F32 => $f::<f32>($args),
            DType::F64 => $f::<f64>($args),
            DType::Bool => $f::<crate::scalar::byte::Byte>($args),
            DType::C64 | DType::C128 => Err($args.unsupported()),
        }
    };
}
use by_ordered;

/// The lines along one dimension of an input and of the values and indices made of them; a 0-d
/// input is one line of one element.
struct SortLines {
    /// Walks the first elements of all lines: input, values, indices.
    starts: IndexWalk<3>,
    /// Elements of an input line.
    length: usize,
    /// Strides along the line: input, values, indices.
    steps: [isize; 3],
    /// The first elements: input, values, indices.
    ptrs: [IndexPtr<u8>; 3],
}

impl SortLines {
    fn new(args: &KernelArgs<'_>, dim: usize) -> Result<SortLines> {
        let input = &args.inputs()[0];
        let views: [&View<'_>; 3] = [input, &args.outputs()[0], &args.outputs()[1]];
        let ptrs = views.map(IndexPtr::of);
        if input.shape().is_empty() {
            let starts = IndexWalk::new(&[], [&[], &[], &[]]);
            return Ok(SortLines {
                starts,
                length: 1,
                steps: [1; 3],
                ptrs,
            });
        }
        let length = input.shape()[dim];
        if length > u32::MAX as usize {
            return Err(TorshError::invalid(
                "",
                "cannot sort more than 4294967295 elements",
            ));
        }
        let mut shape = input.shape().to_vec();
        shape[dim] = 1;
        let starts = IndexWalk::new(&shape, views.map(|v| v.strides()));
        Ok(SortLines {
            starts,
            length,
            steps: views.map(|v| v.strides()[dim]),
            ptrs,
        })
    }

    /// Calls `f` for every line, in parallel, with room for `n` items of scratch.
    fn each<I: Copy>(
        &self,
        n: usize,
        f: impl Fn([isize; 3], IndexPtr<I>) -> Result<()> + Sync,
    ) -> Result<()> {
        // Lines without elements may be as many as a number can say.
        if self.length == 0 {
            return Ok(());
        }
        let lines = self.starts.numel();
        let failed = AtomicBool::new(false);
        let some = |range: Range<usize>| {
            let Ok(room) = Scratch::<I>::new(n) else {
                failed.store(true, Ordering::Relaxed);
                return;
            };
            let items = IndexPtr::new(room.ptr());
            self.starts.run(range, |first, n, steps| {
                for j in 0..n as isize {
                    let first = std::array::from_fn(|k| first[k] + j * steps[k]);
                    if f(first, items).is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        };
        let problem = SortSplitProblem {
            lines,
            n: self.length,
        };
        match pick(&problem, pool::num_threads()) {
            SortSplit::Together => some(0..lines),
            SortSplit::Lines => {
                pool::parallel_for(lines, (GRAIN / self.length.max(1)).max(1), &some);
            }
        }
        if failed.into_inner() {
            Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0))
        } else {
            Ok(())
        }
    }

    /// The line whose first elements are at these offsets.
    ///
    /// # Safety
    /// They must be those of a line.
    unsafe fn line<T>(&self, first: [isize; 3], invert: u64) -> SortLine<T> {
        let [input, values, indices] = self.ptrs;
        // SAFETY: the caller's promise.
        unsafe {
            SortLine {
                input: IndexPtr::new(input.cast::<T>().at(first[0])),
                values: IndexPtr::new(values.cast::<T>().at(first[1])),
                indices: IndexPtr::new(indices.cast::<i64>().at(first[2])),
                steps: self.steps,
                n: self.length,
                invert,
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

/// `sort`: input `self`. Outputs the values and their positions (int64), both of the input's
/// shape. Always stable; NaN is the greatest.
pub(crate) fn sort(args: &KernelArgs<'_>) -> Result<()> {
    by_ordered!(args, sort_as)
}

fn sort_as<T: Ordered>(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::Sort { dim, descending } = args.attrs()?;
    let lines = SortLines::new(args, dim)?;
    let invert = inversion::<T>(descending);
    lines.each(radix::room(lines.length), |first, scratch| {
        // SAFETY: the outputs have the input's shape and are new.
        unsafe { radix::sort(&lines.line::<T>(first, invert), scratch) }
    })
}

#[cfg(feature = "unit-tests")]
mod tests;
