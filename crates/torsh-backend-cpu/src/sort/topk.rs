//! The largest or smallest elements of each line.

use torsh_core::{DType, KernelArgs, Result};

use super::radix::{Item, Packed, Wide};
use super::{Lines, Ordered, by_ordered, inversion};

/// `topk`: input `self`; attrs the dimension, whether the largest. Outputs the values and their
/// positions (int64), k at that dimension, always sorted; of equal elements the first ones. NaN is
/// the greatest.
pub(super) fn topk(args: &KernelArgs<'_>) -> Result<()> {
    if args.inputs[0].dtype == DType::Bool {
        return Err(args.unsupported());
    }
    by_ordered!(args, topk_as)
}

fn topk_as<T: Ordered, I: Item>(args: &KernelArgs<'_>) -> Result<()> {
    let dim = args.attr(0).int() as usize;
    let lines = Lines::new(args, dim)?;
    let k = args.outputs[0].shape.get(dim).copied().unwrap_or(1);
    if k == 0 {
        return Ok(());
    }
    let invert = inversion::<T>(args.attr(1).bool());
    let (n, step) = (lines.length, lines.steps[0]);
    let input = lines.ptrs[0].cast::<T>();
    // Candidates gather until there are this many, then all but the best k go.
    let room = n.min(2 * k + 64);
    lines.each::<I>(room, |first, best| {
        let (mut len, mut bound) = (0, None);
        for j in 0..n {
            // SAFETY: the line has `n` elements.
            let key = unsafe { *input.at(first[0] + j as isize * step) }.key() ^ invert;
            if bound.is_some_and(|b| key >= b) {
                continue;
            }
            if len == room {
                best.select_nth_unstable(k - 1);
                bound = Some(best[k - 1].key());
                len = k;
                if key >= best[k - 1].key() {
                    continue;
                }
            }
            best[len] = I::new(key, j as u32);
            len += 1;
        }
        let best = &mut best[..len];
        if len > k {
            best.select_nth_unstable(k - 1);
        }
        let best = &mut best[..k];
        best.sort_unstable();
        // SAFETY: the outputs' lines have k elements.
        unsafe { lines.write::<T, I>(first, best) };
    })
}
