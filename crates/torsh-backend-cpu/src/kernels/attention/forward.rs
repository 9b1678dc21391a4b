//! The results of attention.

use std::ops::Range;

use torsh_core::{DType, KernelArgs, Result};

use super::AttentionSizes;
use super::drive::{self, AttentionOperands};
use super::operand::{ColumnPanels, up};
use super::passes;
use super::scores::{LANES, ScoreNumber, ScoreRows};
use super::tile::{AdjacentKeys, KeyTile};
use crate::kernels::panels::{CausalBand, PanelProduct, Prefetch, copy_rows};
use crate::machine::tuning::attention_forward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    args: &KernelArgs<'_>,
    sizes: &AttentionSizes,
    dtype: DType,
) -> Result<()> {
    let (of, converted) = AttentionOperands::<T>::of_results(args, sizes, dtype)?;
    let most = [QUERIES.min(sizes.l), KEYS.min(sizes.seen())];
    drive::forward(&AttentionForward::new(of, most))?;
    converted.map_or(Ok(()), DenseOut::finish)
}

/// The operands of a call.
pub(super) struct AttentionForward<'a, T> {
    pub of: AttentionOperands<'a, T>,
    width: usize,
    to: AttentionForwardLayout,
}

/// Where things lie in a thread's memory; keys come first.
struct AttentionForwardLayout {
    /// Values in panels of columns where they do not lie as such.
    values: usize,
    queries: usize,
    scores: usize,
    sums: usize,
    /// What is known of each row, in arrays of so many numbers.
    rows: usize,
    each: usize,
    ld: usize,
    columns: usize,
    total: usize,
}

impl AttentionForwardLayout {
    fn new<T: ScoreNumber>(
        of: &AttentionOperands<'_, T>,
        width: usize,
        [rows, keys]: [usize; 2],
    ) -> AttentionForwardLayout {
        let AttentionSizes { e, d, .. } = *of.sizes;
        let seen = of.sizes.seen();
        let (columns, each) = (up(d, width), up(rows, LANES));
        let ld = up(keys, width.max(LANES)) + LANES;
        let mut total = 0;
        let mut place = |n: usize| {
            let at = total;
            total += up(n, 64);
            at
        };
        place(up(seen, width) * e);
        let lie = ColumnPanels::<T>::lie(of.v.steps, d, width);
        AttentionForwardLayout {
            values: place(if lie { 0 } else { seen * columns }),
            queries: place(rows * e),
            scores: place(rows * ld),
            sums: place(rows * columns),
            rows: place(4 * each),
            each,
            ld,
            columns,
            total,
        }
    }
}

impl<'a, T: ScoreNumber> AttentionForward<'a, T> {
    /// Of blocks of at most so many queries against tiles of at most so many keys.
    pub fn new(of: AttentionOperands<'a, T>, most: [usize; 2]) -> AttentionForward<'a, T> {
        let width = T::width(level());
        let to = AttentionForwardLayout::new(&of, width, most);
        AttentionForward { of, width, to }
    }

    /// Numbers of a thread's memory.
    pub fn total(&self) -> usize {
        self.to.total
    }

    /// Packs some keys of a head, from the first one of a panel on, and the values where they do not lie in panels.
    ///
    /// # Safety
    /// `at` must be a thread's memory, the head one of key and value.
    pub unsafe fn pack_keys(&self, kv: usize, some: Range<usize>, at: *mut T) {
        let (of, width) = (&self.of, self.width);
        let AttentionSizes { e, d, .. } = *of.sizes;
        let values = of.v.rows(kv, [of.sizes.seen(), d]);
        // SAFETY: the caller's promise.
        unsafe {
            of.k.pack(kv, (some.clone(), e), width, at);
            ColumnPanels::pack(&values, some, width, at.wrapping_add(self.to.values));
        }
    }

    /// The results of `rows` queries from `i` on, which see tiles of keys; 0 where there is none.
    ///
    /// # Safety
    /// `at` must be a thread's memory in which these keys and values are packed.
    pub unsafe fn results<K: KeyTile<T>>(
        &self,
        [head, i]: [usize; 2],
        rows: usize,
        tiles: impl Iterator<Item = K>,
        at: *mut T,
        prefetches: &mut [Prefetch],
    ) {
        let (of, to) = (&self.of, &self.to);
        let AttentionSizes { e, d, group, .. } = *of.sizes;
        let place = |n: usize| at.wrapping_add(n);
        let (queries, scores, sums) = (place(to.queries), place(to.scores), place(to.sums));
        let each = ScoreRows::new(place(to.rows), to.each);
        let values = of.v.rows(head / group, [of.sizes.seen(), d]);
        let values = ColumnPanels::of(&values, self.width, place(to.values));
        // SAFETY: the caller's promise.
        unsafe {
            copy_rows(&of.queries(head, i, rows), queries, [e as isize, 1]);
            let mut before: *mut T = std::ptr::null_mut();
            for tile in tiles {
                for run in tile.runs() {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: run.keys,
                            k: e,
                            a: queries,
                            steps: [e as isize, 1],
                            b: at.wrapping_add(run.first * e),
                            right: [e * self.width, self.width],
                            c: scores.wrapping_add(run.column),
                            ld: to.ld,
                            add: false,
                            band: tile.band(CausalBand::Columns),
                        },
                        prefetches,
                    );
                }
                passes::weigh(&tile.scores(rows, scores, to.ld), &each, before, to.columns);
                for run in tile.runs() {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: d,
                            k: run.keys,
                            a: scores.wrapping_add(run.column),
                            steps: [to.ld as isize, 1],
                            b: values.from(run.first),
                            right: values.steps,
                            c: sums,
                            ld: to.columns,
                            add: !before.is_null() || run.column > 0,
                            band: tile.band(CausalBand::Terms),
                        },
                        prefetches,
                    );
                }
                before = sums;
            }
            if before.is_null() {
                for r in 0..rows {
                    *each.most.wrapping_add(r) = -T::INFINITY;
                    *each.sum.wrapping_add(r) = T::ZERO;
                }
                (0..rows * to.columns).for_each(|n| *sums.wrapping_add(n) = T::ZERO);
            }
            of.finish([head, i], rows, &each, (sums, to.columns));
        }
    }
}

impl<T: ScoreNumber> drive::ForwardPass for AttentionForward<'_, T> {
    type T = T;
    const QUERIES: usize = QUERIES;
    const GRAIN: usize = GRAIN;

    fn operands(&self) -> &AttentionOperands<'_, T> {
        &self.of
    }

    fn bytes(&self) -> usize {
        self.to.total * size_of::<T>()
    }

    unsafe fn pack(&self, kv: usize, at: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.pack_keys(kv, 0..self.of.sizes.seen(), at.cast()) };
    }

    unsafe fn block(&self, head: usize, i: usize, at: *mut u8, prefetches: &mut [Prefetch]) {
        let sizes = self.of.sizes;
        let AttentionSizes { l, reach, from, .. } = *sizes;
        let (rows, seen) = (QUERIES.min(l - i), sizes.seen());
        let keys_end = reach.map_or(seen, |reach| seen.min(i + rows + reach));
        // Blocks of keys that lie before the window of all queries are left out, but not the last one.
        let first = from.map_or(0, |from| {
            i.saturating_add_signed(from).min(keys_end - 1) / KEYS * KEYS
        });
        let tiles = (first..keys_end).step_by(KEYS).map(|j| AdjacentKeys {
            sizes,
            mask: self.of.mask.as_ref(),
            head,
            start: [i, j],
            keys: KEYS.min(keys_end - j),
        });
        // SAFETY: the caller's promise.
        unsafe { self.results([head, i], rows, tiles, at.cast(), prefetches) };
    }
}
