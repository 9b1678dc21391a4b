//! The results.

use torsh_core::{DType, Result, View, pool};

use super::super::AttentionSizes;
use super::super::drive::{AttentionOperands, Queue};
use super::super::operand::{AttentionMatrices, ColumnPanels, ResultMatrices, up};
use super::super::passes;
use super::super::scores::{LANES, ScoreNumber, ScoreRows, Scores};
use super::{BLOCK, StoredBlock, StoredBlocks, keys_of, runs, shares};
use crate::kernels::panels::{CausalBand, MatrixRows, PanelProduct, copy_rows, pack_rows};
use crate::machine::tuning::attention_blocks::{FORWARD, GRAIN, SHARES};
use crate::memory::dense::{DenseOut, Ptr, Scratch};
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    [out, lse]: [&View<'_>; 2],
    [q, k, v]: [&View<'_>; 3],
    sizes: &AttentionSizes,
    stored: &StoredBlocks,
    dtype: DType,
) -> Result<()> {
    let (lead, lead_kv) = (&sizes.lead[..], &sizes.lead_kv[..]);
    let ResultMatrices { to, dense } = ResultMatrices::new(out, dtype, lead)?;
    let of = AttentionOperands::<T> {
        q: AttentionMatrices::new(q, dtype, lead)?,
        k: AttentionMatrices::new(k, dtype, lead_kv)?,
        v: AttentionMatrices::new(v, dtype, lead_kv)?,
        mask: None,
        out: to,
        lse: Ptr::new(lse.ptr().cast()),
        sizes,
    };
    let width = T::width(level());
    let to = Layout::new(&of, width);
    BlocksForward {
        of,
        stored,
        width,
        to,
    }
    .all()?;
    dense.map_or(Ok(()), DenseOut::finish)
}

/// The operands of a call.
struct BlocksForward<'a, T> {
    of: AttentionOperands<'a, T>,
    stored: &'a StoredBlocks,
    width: usize,
    to: Layout,
}

/// Where things lie in a thread's memory; keys come first.
struct Layout {
    /// Values in panels of columns where they do not lie as such.
    values: usize,
    queries: usize,
    scores: usize,
    sums: usize,
    rows: usize,
    ld: usize,
    columns: usize,
    total: usize,
}

impl Layout {
    fn new<T: ScoreNumber>(of: &AttentionOperands<'_, T>, width: usize) -> Layout {
        let AttentionSizes { s, e, d, .. } = *of.sizes;
        let columns = up(d, width);
        let ld = up(s, BLOCK).min(FORWARD * BLOCK) + LANES;
        let mut total = 0;
        let mut place = |n: usize| {
            let at = total;
            total += up(n, 64);
            at
        };
        place(up(s, width) * e);
        let lie = ColumnPanels::<T>::lie(of.v.steps, d, width);
        Layout {
            values: place(if lie { 0 } else { s * columns }),
            queries: place(BLOCK * e),
            scores: place(BLOCK * ld),
            sums: place(BLOCK * columns),
            rows: place(4 * BLOCK),
            ld,
            columns,
            total,
        }
    }
}

impl<T: ScoreNumber> BlocksForward<'_, T> {
    fn all(&self) -> Result<()> {
        let AttentionSizes { e, d, group, .. } = *self.of.sizes;
        let [rows, _] = self.stored.sides;
        let heads = self.of.sizes.lead.iter().product::<usize>();
        // A block of queries without any of keys has its results written, too.
        let weights = (0..heads).flat_map(|head| {
            let plane = self.stored.plane(head);
            (0..rows).map(move |row| self.stored.row(plane, row).len() + 1)
        });
        let total: usize = weights.clone().sum();
        if total == 0 {
            return Ok(());
        }
        let work = BLOCK * BLOCK * (e + d).max(1);
        let threads = pool::chunk_count(total, (GRAIN / work).max(1)).max(1);
        let ranges = shares(weights, if threads == 1 { 1 } else { threads * SHARES });
        let scratch = Scratch::<T>::new(threads * self.to.total)?;
        let start = Ptr::new(scratch.ptr());
        let queue = Queue::new(ranges.len());
        pool::parallel_parts(threads, threads, &|part, _| {
            let at = start.at((part * self.to.total) as isize);
            let mut packed = None;
            while let Some(range) = queue.take().and_then(|nth| ranges.get(nth)) {
                for item in range.clone() {
                    let (head, row) = (item / rows, item % rows);
                    let blocks = self.stored.row(self.stored.plane(head), row);
                    // SAFETY: the operands have the sizes that were checked, the scratch memory those of the layout,
                    // and this part alone has it; no other part has these queries.
                    unsafe {
                        if packed != Some(head / group) && !blocks.is_empty() {
                            self.pack(head / group, at);
                            packed = Some(head / group);
                        }
                        self.block(head, row * BLOCK, blocks, at);
                    }
                }
            }
        });
        Ok(())
    }

    /// The values of a head in panels of columns, which are where they lie or else in `at`.
    fn values(&self, kv: usize, at: *mut T) -> (MatrixRows<T>, *mut T) {
        let sizes = [self.of.sizes.s, self.of.sizes.d];
        (self.of.v.rows(kv, sizes), at.wrapping_add(self.to.values))
    }

    /// Packs the keys of a head, and its values where they do not lie in panels.
    ///
    /// # Safety
    /// `at` must be memory of the layout, the head one of key and value.
    unsafe fn pack(&self, kv: usize, at: *mut T) {
        let AttentionSizes { s, e, .. } = *self.of.sizes;
        // SAFETY: the caller's promise.
        unsafe {
            pack_rows(self.of.k.head(kv), self.of.k.steps, [s, e], self.width, at);
            let (values, to) = self.values(kv, at);
            ColumnPanels::pack(&values, self.width, to);
        }
    }

    /// The results of the queries from `i` on, which see these blocks.
    ///
    /// # Safety
    /// `at` must be memory of the layout in which this head's keys and values are packed, if there are blocks.
    unsafe fn block(&self, head: usize, i: usize, blocks: &[StoredBlock], at: *mut T) {
        let (of, to, stored) = (&self.of, &self.to, self.stored);
        let AttentionSizes {
            l, s, e, d, group, ..
        } = *of.sizes;
        let rows = BLOCK.min(l - i);
        let place = |n: usize| at.wrapping_add(n);
        let (queries, scores, sums) = (place(to.queries), place(to.scores), place(to.sums));
        let each = |n: usize| place(to.rows + n * BLOCK);
        let each = ScoreRows {
            most: each(0),
            sum: each(1),
            before: each(2),
            added: each(3),
        };
        let (values, place_of_values) = self.values(head / group, at);
        let values = ColumnPanels::of(&values, self.width, place_of_values);
        // SAFETY: the caller's promise.
        unsafe {
            if blocks.is_empty() {
                for r in 0..rows {
                    *each.most.wrapping_add(r) = -T::INFINITY;
                    *each.sum.wrapping_add(r) = T::ZERO;
                }
                (0..rows * to.columns).for_each(|n| *sums.wrapping_add(n) = T::ZERO);
            } else {
                copy_rows(&of.queries(head, i, rows), queries, [e as isize, 1]);
            }
            for (nth, some) in blocks.chunks(FORWARD).enumerate() {
                for (first, j, keys) in runs(some, s) {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: keys,
                            k: e,
                            a: queries,
                            steps: [e as isize, 1],
                            b: at.wrapping_add(j * e),
                            right: [e * self.width, self.width],
                            c: scores.wrapping_add(first * BLOCK),
                            ld: to.ld,
                            add: false,
                            band: CausalBand::All,
                        },
                        &mut [],
                    );
                }
                stored.hide(some, rows, s, (scores, to.ld));
                let block = Scores {
                    rows,
                    keys: keys_of(some, s),
                    reach: isize::MAX,
                    from: isize::MIN,
                    at: scores,
                    ld: to.ld,
                };
                let before = if nth == 0 { std::ptr::null_mut() } else { sums };
                passes::weigh(&block, &each, before, to.columns);
                for (first, j, keys) in runs(some, s) {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: d,
                            k: keys,
                            a: scores.wrapping_add(first * BLOCK),
                            steps: [to.ld as isize, 1],
                            b: values.from(j),
                            right: values.steps,
                            c: sums,
                            ld: to.columns,
                            add: nth + first > 0,
                            band: CausalBand::All,
                        },
                        &mut [],
                    );
                }
            }
            of.finish([head, i], rows, &each, (sums, to.columns));
        }
    }
}
