//! The gradients of attention: the scores anew, block by block.

use torsh_core::{DType, KernelArgs, Result};

use super::AttentionSizes;
use super::drive::{self, AttentionGradients, OfHead};
use super::operand::{AttentionMatrices, ColumnPanels, up};
use super::passes;
use super::scores::{LANES, ScoreNumber, Scores};
use crate::kernels::panels::{
    CausalBand, MatrixRows, PanelProduct, Prefetch, copy_rows, pack_rows,
};
use crate::machine::tuning::attention_backward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    args: &KernelArgs<'_>,
    sizes: &AttentionSizes,
    dtype: DType,
) -> Result<()> {
    let (of, converted) = AttentionGradients::<T>::new(args, sizes, dtype)?;
    let width = T::width(level());
    let to = AttentionBackwardLayout::new(&of, width);
    drive::backward(&AttentionBackward { of, width, to })?;
    converted.into_iter().try_for_each(DenseOut::finish)
}

/// The operands of a call.
struct AttentionBackward<'a, T> {
    of: AttentionGradients<'a, T>,
    width: usize,
    to: AttentionBackwardLayout,
}

/// What the blocks of a head of the query share.
struct HeadOperands<T> {
    head: usize,
    /// Gradients, queries and keys, as far as somebody asks for what they go into.
    columns: [Option<ColumnPanels<T>>; 3],
    /// Where the sums for the gradients of keys and values are.
    sums: [*mut T; 2],
    /// Whether these are the first sums.
    fresh: bool,
}

/// Where things lie in a thread's memory.
struct AttentionBackwardLayout {
    /// Keys and values in panels of rows, and keys in panels of columns where they do not lie as
    /// such.
    k_rows: usize,
    v_rows: usize,
    k_columns: usize,
    /// Scaled queries as rows, and queries and gradients in panels of columns where they do not lie as
    /// such.
    q: usize,
    q_columns: usize,
    g_columns: usize,
    /// Products of gradient and result, summed over a row.
    delta: usize,
    dq: usize,
    /// Sums over queries that cannot be where the result is.
    dk: usize,
    dv: usize,
    scores: usize,
    grads: usize,
    ld: usize,
    /// Columns of queries and of values, rounded up to panels.
    e: usize,
    d: usize,
    total: usize,
}

impl AttentionBackwardLayout {
    fn new<T: ScoreNumber>(
        of: &AttentionGradients<'_, T>,
        width: usize,
    ) -> AttentionBackwardLayout {
        let AttentionSizes { l, e, d, .. } = *of.of.sizes;
        let seen = of.of.sizes.seen();
        let [dq, dk, dv] = of.wanted([true; 2]);
        let (e_up, d_up) = (up(e, width), up(d, width));
        let ld = up(seen.min(KEYS), width.max(LANES)) + LANES;
        let rows = QUERIES.min(l);
        let (to_q, to_k, to_v) = (dq.is_some(), dk.is_some(), dv.is_some());
        let apart = |steps, columns| !ColumnPanels::<T>::lie(steps, columns, width);
        let mut total = 0;
        let mut place = |wanted: bool, n: usize| {
            let at = total;
            total += if wanted { up(n, 64) } else { 0 };
            at
        };
        AttentionBackwardLayout {
            k_rows: place(true, up(seen, width) * e),
            v_rows: place(true, up(seen, width) * d),
            k_columns: place(to_q && apart(of.of.k.steps, e), seen * e_up),
            q: place(true, l * e),
            q_columns: place(to_k && apart([e as isize, 1], e), l * e_up),
            g_columns: place(to_v && apart(of.g.steps, d), l * d_up),
            delta: place(true, l),
            dq: place(to_q, l * e_up),
            dk: place(dk.is_some_and(|dk| apart(dk.steps, e)), seen * e_up),
            dv: place(dv.is_some_and(|dv| apart(dv.steps, d)), seen * d_up),
            scores: place(true, rows * ld),
            grads: place(true, rows * ld),
            ld,
            e: e_up,
            d: d_up,
            total,
        }
    }
}

impl<T: ScoreNumber> drive::BackwardPass for AttentionBackward<'_, T> {
    const GRAIN: usize = GRAIN;

    fn sizes(&self) -> &AttentionSizes {
        self.of.of.sizes
    }

    fn bytes(&self) -> usize {
        self.to.total * size_of::<T>()
    }

    unsafe fn head(&self, x: &OfHead, at: *mut u8) {
        let (of, to, kv) = (&self.of.of, &self.to, x.head);
        let AttentionSizes { l, e, d, group, .. } = *of.sizes;
        let seen = of.sizes.seen();
        let [dq, dk, dv] = self.of.wanted(x.of);
        if dq.is_none() && dk.is_none() && dv.is_none() {
            return;
        }
        let at = at.cast::<T>();
        let place = |n: usize| at.wrapping_add(n);
        let (k, v) = (of.k.head(kv), of.v.head(kv));
        // SAFETY: the caller's promise.
        unsafe {
            pack_rows(k, of.k.steps, [seen, e], self.width, place(to.k_rows));
            pack_rows(v, of.v.steps, [seen, d], self.width, place(to.v_rows));
            // What nobody asks for is not packed.
            let columns = |wanted: bool, rows: &MatrixRows<T>, at: usize| {
                wanted.then(|| ColumnPanels::pack(rows, self.width, place(at)))
            };
            let k_columns = columns(dq.is_some(), &of.k.rows(kv, [seen, e]), to.k_columns);
            // Where the sums over queries are: in the result if that has whole panels.
            let sums = [(dk, to.dk, e), (dv, to.dv, d)].map(|(result, at, n)| match result {
                Some(result) if ColumnPanels::<T>::lie(result.steps, n, self.width) => {
                    result.head(kv)
                }
                _ => place(at),
            });
            for head in kv * group..(kv + 1) * group {
                let q = of.queries(head, 0, l);
                let factor = q.factor;
                copy_rows(&q, place(to.q), [e as isize, 1]);
                let q = MatrixRows {
                    from: place(to.q).cast_const(),
                    steps: [e as isize, 1],
                    factor: T::ONE,
                    ..q
                };
                let g = self.of.g.rows(head, [l, d]);
                let columns = [
                    columns(dv.is_some(), &g, to.g_columns),
                    columns(dk.is_some(), &q, to.q_columns),
                    k_columns,
                ];
                self.of.deltas(head, place(to.delta));
                let shared = HeadOperands {
                    head,
                    columns,
                    sums,
                    fresh: head == kv * group,
                };
                let last = head + 1 == (kv + 1) * group;
                // A part of a head would ask for what others write.
                let result =
                    |to: Option<&AttentionMatrices<T>>, head: usize, sizes: [usize; 2]| match to {
                        Some(to) if x.blocks[1] == 1 => to.prefetches(head, 0, sizes),
                        _ => Prefetch::NOTHING,
                    };
                let mut prefetches = [Prefetch::NOTHING; 8];
                prefetches[0] = result(dq, head, [l, e]);
                if let Some(kv) = x.next.filter(|_| last) {
                    prefetches[1..6].copy_from_slice(&self.of.prefetches(kv));
                    prefetches[6] = result(dk, kv, [seen, e]);
                    prefetches[7] = result(dv, kv, [seen, d]);
                }
                for j in x.keys(seen, KEYS) {
                    // What comes too early leaves the cache again.
                    let prefetches: &mut [Prefetch] = if j >= seen / 2 {
                        &mut prefetches
                    } else {
                        &mut []
                    };
                    for i in x.queries(l, QUERIES) {
                        self.block(&shared, [i, j], at, prefetches);
                    }
                }
                if let Some(dq) = dq {
                    for i in x.queries(l, QUERIES) {
                        let rows = MatrixRows {
                            from: place(to.dq).wrapping_add(i * to.e).cast_const(),
                            steps: [to.e as isize, 1],
                            sizes: [QUERIES.min(l - i), e],
                            factor,
                            factors: std::ptr::null(),
                        };
                        let out = dq.head(head).wrapping_offset(i as isize * dq.steps[0]);
                        copy_rows(&rows, out, dq.steps);
                    }
                }
            }
            for (result, from, ld, n) in [(dk, sums[0], to.e, e), (dv, sums[1], to.d, d)] {
                if let Some(result) = result {
                    self.of.put(result, x, KEYS, (from, ld), n);
                }
            }
        }
    }
}

impl<T: ScoreNumber> AttentionBackward<'_, T> {
    /// What queries from `i` on and keys from `j` on add to each other's gradients.
    ///
    /// # Safety
    /// `at` must be memory of this layout with all that `head` puts there.
    unsafe fn block(
        &self,
        shared: &HeadOperands<T>,
        [i, j]: [usize; 2],
        at: *mut T,
        prefetches: &mut [Prefetch],
    ) {
        let (of, g, to) = (&self.of.of, &self.of.g, &self.to);
        let HeadOperands {
            head,
            columns: [g_columns, q_columns, k_columns],
            sums: [dk, dv],
            fresh,
        } = *shared;
        let AttentionSizes {
            l,
            e,
            d,
            reach,
            from,
            ..
        } = *of.sizes;
        let seen = of.sizes.seen();
        let rows = QUERIES.min(l - i);
        let mut keys = KEYS.min(seen - j);
        if let Some(reach) = reach {
            keys = keys.min((i + rows + reach).saturating_sub(j));
        }
        if keys == 0 {
            return;
        }
        let place = |n: usize| at.wrapping_add(n);
        let d_ij = i as isize - j as isize;
        // The first block of queries that sees these keys.
        let first_queries = reach.map_or(0, |reach| j.saturating_sub(reach) / QUERIES * QUERIES);
        let reach = reach.map(|reach| d_ij + reach as isize);
        let band = |b: fn(isize) -> CausalBand| reach.map_or(CausalBand::All, b);
        let (scores, grads) = (place(to.scores), place(to.grads));
        let of_scores = PanelProduct {
            m: rows,
            n: keys,
            k: e,
            a: place(to.q).wrapping_add(i * e).cast_const(),
            steps: [e as isize, 1],
            b: place(to.k_rows).wrapping_add(j * e).cast_const(),
            right: [e * self.width, self.width],
            c: scores,
            ld: to.ld,
            add: false,
            band: band(CausalBand::Columns),
        };
        let of_grads = PanelProduct {
            k: d,
            a: g.head(head).wrapping_offset(i as isize * g.steps[0]),
            steps: g.steps,
            b: place(to.v_rows).wrapping_add(j * d),
            right: [d * self.width, self.width],
            c: grads,
            ..of_scores
        };
        let block = Scores {
            rows,
            keys,
            reach: reach.map_or(isize::MAX, |reach| reach + 1),
            from: from.map_or(isize::MIN, |from| d_ij + from),
            at: scores,
            ld: to.ld,
        };
        // Sums over the block's queries, for its keys; the first ones of them start the sums, with none
        // for the keys that only later queries see.
        let first = fresh && i == first_queries;
        let across = |from: *mut T, right: &ColumnPanels<T>, sums: *mut T, n: usize, ld: usize| {
            let c = sums.wrapping_add(j * ld);
            if first {
                let end = KEYS.min(seen - j);
                // SAFETY: the caller's promise: there are sums for all keys.
                (keys * ld..end * ld).for_each(|i| unsafe { *c.wrapping_add(i) = T::ZERO });
            }
            PanelProduct {
                m: keys,
                n,
                k: rows,
                a: from.cast_const(),
                steps: [1, to.ld as isize],
                b: right.from(i),
                right: right.steps,
                c,
                ld,
                add: !first,
                band: band(CausalBand::Since),
            }
        };
        // SAFETY: the caller's promise.
        unsafe {
            T::product_with(&of_scores, prefetches);
            if let Some(mask) = &of.mask {
                mask.apply(head, [i, rows], [j, keys], scores, to.ld);
            }
            block.hide_earlier();
            T::product_with(&of_grads, prefetches);
            let lse = of.lse.at((head * l + i) as isize);
            passes::weigh_back(&block, grads, lse, place(to.delta).wrapping_add(i));
            if let Some(g_columns) = g_columns {
                T::product_with(&across(scores, &g_columns, dv, d, to.d), prefetches);
            }
            if let Some(q_columns) = q_columns {
                T::product_with(&across(grads, &q_columns, dk, e, to.e), prefetches);
            }
            if let Some(k_columns) = k_columns {
                T::product_with(
                    &PanelProduct {
                        m: rows,
                        n: e,
                        k: keys,
                        a: grads,
                        steps: [to.ld as isize, 1],
                        b: k_columns.from(j),
                        right: k_columns.steps,
                        c: place(to.dq).wrapping_add(i * to.e),
                        ld: to.e,
                        add: j > 0,
                        band: band(CausalBand::Terms),
                    },
                    prefetches,
                );
            }
        }
    }
}
