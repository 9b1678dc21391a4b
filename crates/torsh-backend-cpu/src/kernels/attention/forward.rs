//! The results of attention.

use torsh_core::{DType, KernelArgs, Result};

use super::AttentionSizes;
use super::drive::{self, AttentionOperands};
use super::operand::{ColumnPanels, up};
use super::passes;
use super::scores::{self, LANES, ScoreNumber, Scores};
use crate::kernels::panels::{
    CausalBand, MatrixRows, PanelProduct, Prefetch, copy_rows, pack_rows,
};
use crate::machine::tuning::attention_forward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    args: &KernelArgs<'_>,
    sizes: &AttentionSizes,
    dtype: DType,
) -> Result<()> {
    let (of, converted) = AttentionOperands::<T>::of_results(args, sizes, dtype)?;
    let width = T::width(level());
    let to = AttentionForwardLayout::new(&of, width);
    drive::forward(&AttentionForward { of, width, to })?;
    converted.map_or(Ok(()), DenseOut::finish)
}

/// The operands of a call.
struct AttentionForward<'a, T> {
    of: AttentionOperands<'a, T>,
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
    rows: usize,
    ld: usize,
    columns: usize,
    total: usize,
}

impl AttentionForwardLayout {
    fn new<T: ScoreNumber>(of: &AttentionOperands<'_, T>, width: usize) -> AttentionForwardLayout {
        let AttentionSizes { l, e, d, .. } = *of.sizes;
        let seen = of.sizes.seen();
        let rows = QUERIES.min(l);
        let columns = up(d, width);
        let ld = up(seen.min(KEYS), width.max(LANES)) + LANES;
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
            rows: place(4 * up(rows, LANES)),
            ld,
            columns,
            total,
        }
    }
}

impl<T: ScoreNumber> AttentionForward<'_, T> {
    /// The values of a head in panels of columns, which are where they lie or else in `at`.
    fn values(&self, kv: usize, at: *mut T) -> (MatrixRows<T>, *mut T) {
        let sizes = [self.of.sizes.seen(), self.of.sizes.d];
        (self.of.v.rows(kv, sizes), at.wrapping_add(self.to.values))
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

    /// Packs the keys of a head, and its values where they do not lie in panels.
    unsafe fn pack(&self, kv: usize, at: *mut u8) {
        let (k, n, at) = (self.of.k.head(kv), self.of.sizes.seen(), at.cast());
        // SAFETY: the caller's promise.
        unsafe {
            pack_rows(k, self.of.k.steps, [n, self.of.sizes.e], self.width, at);
            let (values, to) = self.values(kv, at);
            ColumnPanels::pack(&values, self.width, to);
        }
    }

    unsafe fn block(&self, head: usize, i: usize, at: *mut u8, prefetches: &mut [Prefetch]) {
        let (of, to, at) = (&self.of, &self.to, at.cast::<T>());
        let AttentionSizes {
            l,
            e,
            d,
            reach,
            from,
            group,
            ..
        } = *of.sizes;
        let (rows, seen) = (QUERIES.min(l - i), of.sizes.seen());
        let keys_end = reach.map_or(seen, |reach| seen.min(i + rows + reach));
        // Blocks of keys that lie before the window of all queries are left out, but not the last one.
        let first = from.map_or(0, |from| {
            i.saturating_add_signed(from).min(keys_end - 1) / KEYS * KEYS
        });
        let place = |n: usize| at.wrapping_add(n);
        let (queries, scores, sums) = (place(to.queries), place(to.scores), place(to.sums));
        let each = |n: usize| place(to.rows + n * up(QUERIES.min(l), LANES));
        let each = scores::ScoreRows {
            most: each(0),
            sum: each(1),
            before: each(2),
            added: each(3),
        };
        let (values, place_of_values) = self.values(head / group, at);
        let values = ColumnPanels::of(&values, self.width, place_of_values);
        // SAFETY: the caller's promise.
        unsafe {
            copy_rows(&of.queries(head, i, rows), queries, [e as isize, 1]);
            for j in (first..keys_end).step_by(KEYS) {
                let keys = KEYS.min(keys_end - j);
                let d_ij = i as isize - j as isize;
                let reach = reach.map(|reach| d_ij + reach as isize);
                let band = |b: fn(isize) -> CausalBand| reach.map_or(CausalBand::All, b);
                T::product_with(
                    &PanelProduct {
                        m: rows,
                        n: keys,
                        k: e,
                        a: queries,
                        steps: [e as isize, 1],
                        b: at.wrapping_add(j * e),
                        right: [e * self.width, self.width],
                        c: scores,
                        ld: to.ld,
                        add: false,
                        band: band(CausalBand::Columns),
                    },
                    prefetches,
                );
                if let Some(mask) = &of.mask {
                    mask.apply(head, [i, rows], [j, keys], scores, to.ld);
                }
                let block = Scores {
                    rows,
                    keys,
                    reach: reach.map_or(isize::MAX, |reach| reach + 1),
                    from: from.map_or(isize::MIN, |from| d_ij + from),
                    at: scores,
                    ld: to.ld,
                };
                block.hide_earlier();
                let before = if j == first {
                    std::ptr::null_mut()
                } else {
                    sums
                };
                passes::weigh(&block, &each, before, to.columns);
                T::product_with(
                    &PanelProduct {
                        m: rows,
                        n: d,
                        k: keys,
                        a: scores,
                        steps: [to.ld as isize, 1],
                        b: values.from(j),
                        right: values.steps,
                        c: sums,
                        ld: to.columns,
                        add: j > first,
                        band: band(CausalBand::Terms),
                    },
                    prefetches,
                );
            }
            of.finish([head, i], rows, &each, (sums, to.columns));
        }
    }
}
