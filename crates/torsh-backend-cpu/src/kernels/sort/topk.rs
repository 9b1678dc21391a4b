//! The largest or smallest elements of each line.

use torsh_core::{DType, KernelArgs, Result, attrs, pool};

use super::{Ordered, SortLine, SortLines, by_ordered, inversion};
use crate::kernels::index::IndexPtr;
use crate::machine::tuning::topk::{BLOCK, GRAIN};
use crate::memory::dense::Scratch;
use crate::multiversion;

/// A key and its position, ordered by both.
type KeyAndPosition = (u64, u32);

/// `topk`: input `self`. Outputs the values and their positions (int64), k at the dimension, always
/// sorted; of equal elements the first ones. NaN is the greatest.
pub(crate) fn topk(args: &KernelArgs<'_>) -> Result<()> {
    if args.inputs()[0].dtype() == DType::Bool {
        return Err(args.unsupported());
    }
    by_ordered!(args, topk_as)
}

fn topk_as<T: Ordered>(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::Topk { dim, largest, .. } = args.attrs()?;
    let lines = SortLines::new(args, dim)?;
    let k = args.outputs()[0].shape().get(dim).copied().unwrap_or(1);
    if k == 0 {
        return Ok(());
    }
    let invert = inversion::<T>(largest);
    let n = lines.length;
    lines.each::<KeyAndPosition>(room(n, k), |first, items| {
        // SAFETY: the outputs' lines have k elements; each part of a line has items of its own.
        unsafe {
            let line = lines.line::<T>(first, invert);
            let parts = pool::chunk_count(n, GRAIN.max(8 * k));
            if parts == 1 {
                let len = best(&line, 0, n, k, largest, items);
                finish(&line, items, len, k);
                return Ok(());
            }
            let each = room(n, k);
            let all = Scratch::<KeyAndPosition>::new(parts * each)?;
            let ptr = IndexPtr::new(all.ptr());
            pool::parallel_parts(n, parts, &|part, range| {
                let own = IndexPtr::new(ptr.at((part * each) as isize));
                // Every part is longer than k.
                let len = best(&line, range.start, range.end, k, largest, own);
                debug_assert!(len >= k);
                let own = std::slice::from_raw_parts_mut(own.at(0), len);
                own.select_nth_unstable(k - 1);
            });
            for part in 1..parts {
                let from = ptr.at((part * each) as isize);
                std::ptr::copy(from, ptr.at((part * k) as isize), k);
            }
            finish(&line, ptr, parts * k, k);
            Ok(())
        }
    })
}

/// Candidates gather until there are this many, then all but the best k go.
fn room(n: usize, k: usize) -> usize {
    n.min(2 * k + 64)
}

/// Sorts the best k of `len` items and writes them.
///
/// # Safety
/// The items must be there and be of the line, which must have room for k.
unsafe fn finish<T: Ordered>(
    line: &SortLine<T>,
    items: IndexPtr<KeyAndPosition>,
    len: usize,
    k: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let items = std::slice::from_raw_parts_mut(items.at(0), len);
        if len > k {
            items.select_nth_unstable(k - 1);
        }
        let items = &mut items[..k];
        items.sort_unstable();
        for (slot, &(_, at)) in items.iter().enumerate() {
            line.put(slot, line.element(at), at);
        }
    }
}

/// Gathers candidates for the best k of the elements `start..end`, in any order: at least k (or all)
/// and at most [`room`], of which there is room at `items`. Gives their number.
///
/// # Safety
/// The line must be valid, and the room be there.
unsafe fn best<T: Ordered>(
    line: &SortLine<T>,
    start: usize,
    end: usize,
    k: usize,
    largest: bool,
    items: IndexPtr<KeyAndPosition>,
) -> usize {
    let room = room(end - start, k);
    // SAFETY: the caller's promise.
    unsafe {
        for j in 0..room {
            *items.at(j as isize) = (line.key(start + j), (start + j) as u32);
        }
        let items = std::slice::from_raw_parts_mut(items.at(0), room);
        let mut at = start + room;
        if at == end {
            return room;
        }
        let cut = |items: &mut [KeyAndPosition]| {
            items.select_nth_unstable(k - 1);
            let (key, at) = items[k - 1];
            (key, line.element(at))
        };
        let (mut bound, mut element) = cut(items);
        let mut len = k;
        let any = any_better::select::<T>();
        let step = line.steps[0];
        while at < end {
            let n = BLOCK.min(end - at);
            if n == BLOCK && step == 1 && !any(line.input.at(at as isize), element, largest) {
                at += n;
                continue;
            }
            for j in at..at + n {
                let key = line.key(j);
                if key >= bound {
                    continue;
                }
                if len == room {
                    (bound, element) = cut(items);
                    len = k;
                    if key >= bound {
                        continue;
                    }
                }
                items[len] = (key, j as u32);
                len += 1;
            }
            at += n;
        }
        len
    }
}

multiversion! {
    /// Whether one of a block's elements is better than `bound`.
    unsafe fn any_better<A, T: Ordered>(p: *const T, bound: T, largest: bool) -> bool {
        // SAFETY: the caller's promise: a block of elements.
        let block = unsafe { &*p.cast::<[T; BLOCK]>() };
        if largest {
            block.iter().fold(false, |b, &x| b | x.above(bound))
        } else {
            block.iter().fold(false, |b, &x| b | bound.above(x))
        }
    }
}
