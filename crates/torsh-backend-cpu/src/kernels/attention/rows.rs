//! The results of attention for few queries of each head of keys, as when a model continues a text: keys and values
//! are read once, where they lie.

use torsh_core::{DType, KernelArgs, Result, pool};

use super::AttentionSizes;
use super::drive::AttentionOperands;
use super::operand::{HeadByHead, up};
use super::passes;
use super::scores::{LANES, ScoreNumber, ScoreRows, Scores};
use crate::kernels::panels::copy_rows;
use crate::machine::tuning::attention_rows::GRAIN;
use crate::memory::dense::{DenseOut, Ptr, Scratch};

/// Where things lie in a thread's memory.
struct AttentionRowsLayout {
    scores: usize,
    sums: usize,
    rows: usize,
    /// Keys, then values, of a half type.
    converted: usize,
    /// From row to row of the scores and of the sums.
    ld: usize,
    columns: usize,
    /// Numbers that are kept of the queries of one head.
    each: usize,
    total: usize,
}

impl AttentionRowsLayout {
    fn new(
        sizes: &AttentionSizes,
        [k, v]: [&HeadByHead<impl ScoreNumber>; 2],
    ) -> AttentionRowsLayout {
        let AttentionSizes { l, e, d, group, .. } = *sizes;
        let rows = group * l;
        let ld = up(sizes.seen(), LANES) + LANES;
        let (columns, each) = (up(d, LANES), up(l, LANES));
        let scores = up(rows * e, LANES);
        let sums = scores + rows * ld;
        let of_rows = sums + rows * columns;
        let converted = up(of_rows + group * 4 * each, LANES);
        let keys = sizes.seen();
        let room = k.room([keys, e]).max(v.room([keys, d]));
        AttentionRowsLayout {
            scores,
            sums,
            rows: of_rows,
            converted,
            ld,
            columns,
            each,
            total: up(converted + room, LANES),
        }
    }
}

pub(super) fn run<T: ScoreNumber>(
    args: &KernelArgs<'_>,
    sizes: &AttentionSizes,
    dtype: DType,
) -> Result<()> {
    let (of, converted) = AttentionOperands::<T, HeadByHead<T>>::of_results(args, sizes, dtype)?;
    let to = AttentionRowsLayout::new(sizes, [&of.k, &of.v]);
    let heads = sizes.heads_kv();
    let work = sizes.group * sizes.l * sizes.seen() * (sizes.e + sizes.d);
    let parts = pool::chunk_count(heads, (GRAIN / work.max(1)).max(1));
    let scratch = Scratch::<T>::new(parts * to.total)?;
    let start = Ptr::new(scratch.ptr());
    pool::parallel_parts(heads, parts, &|part, range| {
        for kv in range {
            // SAFETY: the operands have the sizes that the record planned, the scratch memory those of the layout, and
            // this part alone has it.
            unsafe { head(&of, &to, kv, start.at((part * to.total) as isize)) };
        }
    });
    converted.map_or(Ok(()), DenseOut::finish)
}

/// The results of the queries that share a head of keys and values.
///
/// # Safety
/// `at` must be memory of the layout.
unsafe fn head<T: ScoreNumber>(
    of: &AttentionOperands<'_, T, HeadByHead<T>>,
    to: &AttentionRowsLayout,
    kv: usize,
    at: *mut T,
) {
    let AttentionSizes {
        l,
        e,
        d,
        group,
        reach,
        from,
        ..
    } = *of.sizes;
    let keys = of.sizes.seen();
    let (scores, sums) = (at.wrapping_add(to.scores), at.wrapping_add(to.sums));
    let heads = kv * group..(kv + 1) * group;
    // SAFETY: the caller's promise.
    unsafe {
        for (g, head) in heads.clone().enumerate() {
            let queries = at.wrapping_add(g * l * e);
            copy_rows(&of.queries(head, 0, l), queries, [e as isize, 1]);
        }
        let converted = at.wrapping_add(to.converted);
        let sizes = [group * l, keys, e];
        let k = of.k.head(kv, [keys, e], converted);
        passes::products(sizes, at, k, (scores, to.ld));
        let v = of.v.head(kv, [keys, d], converted);
        for (g, head) in heads.enumerate() {
            let scores = scores.wrapping_add(g * l * to.ld);
            let sums = sums.wrapping_add(g * l * to.columns);
            if let Some(mask) = &of.mask {
                mask.apply(head, [0, l], [0, keys], scores, to.ld);
            }
            let block = Scores {
                rows: l,
                keys,
                reach: reach.map_or(isize::MAX, |reach| reach as isize + 1),
                from: from.unwrap_or(isize::MIN),
                at: scores,
                ld: to.ld,
            };
            block.hide_earlier();
            let each = ScoreRows::new(at.wrapping_add(to.rows + 4 * g * to.each), to.each);
            passes::weigh(&block, &each, std::ptr::null_mut(), to.columns);
            passes::sums(&block, v, d, (sums, to.columns));
            of.finish([head, 0], l, &each, (sums, to.columns));
        }
    }
}
