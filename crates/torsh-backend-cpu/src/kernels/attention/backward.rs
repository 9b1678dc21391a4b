//! The gradients of attention: the scores anew, block by block.

use std::ops::Range;

use torsh_core::{DType, KernelArgs, Result};

use super::AttentionSizes;
use super::drive::{self, AttentionGradients, OfHead};
use super::operand::{AttentionMatrices, ColumnPanels, up};
use super::passes;
use super::scores::{LANES, ScoreNumber};
use super::tile::{AdjacentKeys, KeyRun, KeyTile};
use crate::kernels::panels::{CausalBand, MatrixRows, PanelProduct, Prefetch, copy_rows};
use crate::machine::tuning::attention_backward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    args: &KernelArgs<'_>,
    sizes: &AttentionSizes,
    dtype: DType,
) -> Result<()> {
    let (of, converted) = AttentionGradients::<T>::new(args, sizes, dtype)?;
    let most = [QUERIES.min(sizes.l), KEYS.min(sizes.seen())];
    drive::backward(&AttentionBackward::new(of, most, sizes.l))?;
    converted.into_iter().try_for_each(DenseOut::finish)
}

/// The operands of a call.
pub(super) struct AttentionBackward<'a, T> {
    pub of: AttentionGradients<'a, T>,
    width: usize,
    to: AttentionBackwardLayout,
}

/// What the blocks of a head of the query share.
pub(super) struct HeadOperands<T> {
    head: usize,
    /// Gradients, queries and keys, as far as somebody asks for what they go into.
    columns: [Option<ColumnPanels<T>>; 3],
    /// Where the sums for the gradients of keys and values are.
    sums: [*mut T; 2],
}

/// A block of queries, and what is there of the sums that a step adds to.
pub(super) struct QueryBlock {
    /// The first query, and how many.
    pub i: usize,
    pub rows: usize,
    /// The row of the sums for the queries' gradients where theirs begin.
    pub sums: usize,
    /// Whether there are sums for queries, and for keys and values; else the step makes the first ones.
    pub add: [bool; 2],
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
        [rows, keys]: [usize; 2],
        summed: usize,
    ) -> AttentionBackwardLayout {
        let AttentionSizes { l, e, d, .. } = *of.of.sizes;
        let seen = of.of.sizes.seen();
        let [dq, dk, dv] = of.wanted([true; 2]);
        let (e_up, d_up) = (up(e, width), up(d, width));
        let ld = up(keys, width.max(LANES)) + LANES;
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
            dq: place(to_q, summed * e_up),
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

impl<'a, T: ScoreNumber> AttentionBackward<'a, T> {
    /// Of blocks of at most so many queries against tiles of at most so many keys, with the sums for the gradients of
    /// `summed` queries at once.
    pub fn new(
        of: AttentionGradients<'a, T>,
        most: [usize; 2],
        summed: usize,
    ) -> AttentionBackward<'a, T> {
        let width = T::width(level());
        let to = AttentionBackwardLayout::new(&of, width, most, summed);
        AttentionBackward { of, width, to }
    }

    /// Numbers of a thread's memory.
    pub fn total(&self) -> usize {
        self.to.total
    }

    /// Packs some keys and values of a head, from the first one of a panel on, as rows, and keys as columns where the
    /// gradients of queries are wanted.
    ///
    /// # Safety
    /// `at` must be a thread's memory, the head one of key and value.
    pub unsafe fn pack_keys(&self, kv: usize, some: Range<usize>, to_q: bool, at: *mut T) {
        let (of, to, width) = (&self.of.of, &self.to, self.width);
        let AttentionSizes { e, d, .. } = *of.sizes;
        let place = |n: usize| at.wrapping_add(n);
        // SAFETY: the caller's promise.
        unsafe {
            of.k.pack(kv, (some.clone(), e), width, place(to.k_rows));
            of.v.pack(kv, (some.clone(), d), width, place(to.v_rows));
            if to_q {
                let keys = of.k.rows(kv, [of.sizes.seen(), e]);
                ColumnPanels::pack(&keys, some, width, place(to.k_columns));
            }
        }
    }

    /// Scales and packs some queries of a head and their gradients; what nobody asks for is not packed.
    ///
    /// # Safety
    /// `at` must be a thread's memory.
    pub unsafe fn pack_queries(
        &self,
        head: usize,
        some: Range<usize>,
        [_, to_k, to_v]: [bool; 3],
        at: *mut T,
    ) {
        let (to, width) = (&self.to, self.width);
        let AttentionSizes { l, e, d, .. } = *self.of.of.sizes;
        let place = |n: usize| at.wrapping_add(n);
        let q = self.of.of.queries(head, some.start, some.len());
        // SAFETY: the caller's promise.
        unsafe {
            copy_rows(&q, place(to.q + some.start * e), [e as isize, 1]);
            if to_v {
                let g = self.of.g.rows(head, [l, d]);
                ColumnPanels::pack(&g, some.clone(), width, place(to.g_columns));
            }
            if to_k {
                ColumnPanels::pack(&self.scaled(at), some.clone(), width, place(to.q_columns));
            }
            self.of.deltas(head, some, place(to.delta));
        }
    }

    /// The scaled queries of a head.
    fn scaled(&self, at: *mut T) -> MatrixRows<T> {
        let AttentionSizes { l, e, .. } = *self.of.of.sizes;
        MatrixRows {
            from: at.wrapping_add(self.to.q).cast_const(),
            steps: [e as isize, 1],
            sizes: [l, e],
            factor: T::ONE,
            factors: std::ptr::null(),
        }
    }

    /// What the blocks of a head of the query share for the gradients that are wanted: where it is once it is packed.
    pub fn of_head(
        &self,
        head: usize,
        [to_q, to_k, to_v]: [bool; 3],
        at: *mut T,
    ) -> HeadOperands<T> {
        let (of, to) = (&self.of.of, &self.to);
        let AttentionSizes { l, e, d, group, .. } = *of.sizes;
        let kv = head / group;
        let columns = |wanted: bool, rows: &MatrixRows<T>, to: usize| {
            wanted.then(|| ColumnPanels::of(rows, self.width, at.wrapping_add(to)))
        };
        HeadOperands {
            head,
            columns: [
                columns(to_v, &self.of.g.rows(head, [l, d]), to.g_columns),
                columns(to_k, &self.scaled(at), to.q_columns),
                columns(to_q, &of.k.rows(kv, [of.sizes.seen(), e]), to.k_columns),
            ],
            sums: self.sums(kv, at),
        }
    }

    /// Where the sums over queries are: in the result if that has whole panels.
    pub fn sums(&self, kv: usize, at: *mut T) -> [*mut T; 2] {
        let AttentionSizes { e, d, .. } = *self.of.of.sizes;
        let [_, dk, dv] = self.of.wanted([true; 2]);
        [(dk, self.to.dk, e), (dv, self.to.dv, d)].map(|(result, to, n)| match result {
            Some(result) if ColumnPanels::<T>::lie(result.steps, n, self.width) => result.head(kv),
            _ => at.wrapping_add(to),
        })
    }

    /// Makes the sums for some keys and values 0, as far as somebody asks for them.
    ///
    /// # Safety
    /// Nobody else may have these keys.
    pub unsafe fn clear_keys(&self, x: &HeadOperands<T>, some: Range<usize>) {
        let [g, q, _] = &x.columns;
        // SAFETY: the caller's promise.
        unsafe { self.clear_sums(x.sums, [q.is_some(), g.is_some()], some) };
    }

    /// The same of [`sums`](Self::sums), of the wanted ones of keys and values.
    ///
    /// # Safety
    /// As for [`AttentionBackward::clear_keys`].
    pub unsafe fn clear_sums(
        &self,
        [dk, dv]: [*mut T; 2],
        [to_k, to_v]: [bool; 2],
        some: Range<usize>,
    ) {
        for (wanted, sums, ld) in [(to_k, dk, self.to.e), (to_v, dv, self.to.d)] {
            if wanted {
                for n in some.start * ld..some.end * ld {
                    // SAFETY: the caller's promise: there are sums for all keys.
                    unsafe { *sums.wrapping_add(n) = T::ZERO };
                }
            }
        }
    }

    /// Makes the sums for queries in the first rows of the memory's 0, if somebody asks for them.
    ///
    /// # Safety
    /// `at` must be a thread's memory, which must have so many rows of sums.
    pub unsafe fn clear_queries(&self, rows: usize, at: *mut T) {
        let (sums, ld) = (at.wrapping_add(self.to.dq), self.to.e);
        if self.of.to[0].is_some() {
            for n in 0..rows * ld {
                // SAFETY: the caller's promise.
                unsafe { *sums.wrapping_add(n) = T::ZERO };
            }
        }
    }

    /// Writes the sums for some keys to the gradients of keys and values that are wanted.
    ///
    /// # Safety
    /// Nobody else may have these keys, whose sums must be there.
    pub unsafe fn put_keys(&self, kv: usize, some: Range<usize>, at: *mut T) {
        let (to, sums) = (&self.to, self.sums(kv, at));
        let AttentionSizes { e, d, .. } = *self.of.of.sizes;
        let [_, dk, dv] = self.of.wanted([true; 2]);
        for (result, from, ld, n) in [(dk, sums[0], to.e, e), (dv, sums[1], to.d, d)] {
            if let Some(result) = result {
                // SAFETY: the caller's promise.
                unsafe { self.of.put(result, (kv, some.clone()), (from, ld), n) };
            }
        }
    }

    /// Writes the sums for some queries, which begin in a row of the memory's, to their gradients.
    ///
    /// # Safety
    /// Nobody else may have these queries, whose sums must be there.
    pub unsafe fn put_queries(&self, head: usize, some: Range<usize>, sums: usize, at: *mut T) {
        let (of, to) = (&self.of.of, &self.to);
        let Some(dq) = &self.of.to[0] else {
            return;
        };
        let rows = MatrixRows {
            from: at.wrapping_add(to.dq + sums * to.e).cast_const(),
            steps: [to.e as isize, 1],
            sizes: [some.len(), of.sizes.e],
            factor: T::c(of.sizes.scale),
            factors: std::ptr::null(),
        };
        let out = dq
            .head(head)
            .wrapping_offset(some.start as isize * dq.steps[0]);
        // SAFETY: the caller's promise.
        unsafe { copy_rows(&rows, out, dq.steps) };
    }

    /// What a block of queries and a tile of keys add to each other's gradients.
    ///
    /// # Safety
    /// `at` must be a thread's memory in which these queries and keys are packed; nobody else may have them, as far as
    /// their gradients are wanted.
    pub unsafe fn step<K: KeyTile<T>>(
        &self,
        shared: &HeadOperands<T>,
        x: &QueryBlock,
        tile: &K,
        at: *mut T,
        prefetches: &mut [Prefetch],
    ) {
        let (of, g, to) = (&self.of.of, &self.of.g, &self.to);
        let HeadOperands {
            head,
            columns: [g_columns, q_columns, k_columns],
            sums: [dk, dv],
        } = *shared;
        let QueryBlock {
            i,
            rows,
            sums,
            add: [add_queries, add_keys],
        } = *x;
        let AttentionSizes { l, e, d, .. } = *of.sizes;
        let place = |n: usize| at.wrapping_add(n);
        let (scores, grads) = (place(to.scores), place(to.grads));
        let of_scores = |run: KeyRun| PanelProduct {
            m: rows,
            n: run.keys,
            k: e,
            a: place(to.q + i * e).cast_const(),
            steps: [e as isize, 1],
            b: place(to.k_rows + run.first * e).cast_const(),
            right: [e * self.width, self.width],
            c: scores.wrapping_add(run.column),
            ld: to.ld,
            add: false,
            band: tile.band(CausalBand::Columns),
        };
        let of_grads = |run: KeyRun| PanelProduct {
            k: d,
            a: g.head(head).wrapping_offset(i as isize * g.steps[0]),
            steps: g.steps,
            b: place(to.v_rows + run.first * d).cast_const(),
            right: [d * self.width, self.width],
            c: grads.wrapping_add(run.column),
            ..of_scores(run)
        };
        // Sums over the block's queries, for a run of keys.
        let across =
            |run: KeyRun, from: *mut T, right: ColumnPanels<T>, of: (*mut T, [usize; 2])| {
                let (sums, [n, ld]) = of;
                PanelProduct {
                    m: run.keys,
                    n,
                    k: rows,
                    a: from.wrapping_add(run.column).cast_const(),
                    steps: [1, to.ld as isize],
                    b: right.from(i),
                    right: right.steps,
                    c: sums.wrapping_add(run.first * ld),
                    ld,
                    add: add_keys,
                    band: tile.band(CausalBand::Since),
                }
            };
        // SAFETY: the caller's promise.
        unsafe {
            for run in tile.runs() {
                T::product_with(&of_scores(run), prefetches);
            }
            let block = tile.scores(rows, scores, to.ld);
            for run in tile.runs() {
                T::product_with(&of_grads(run), prefetches);
            }
            let lse = of.lse.at((head * l + i) as isize);
            passes::weigh_back(&block, grads, lse, place(to.delta + i));
            for run in tile.runs() {
                if let Some(g_columns) = g_columns {
                    let product = across(run, scores, g_columns, (dv, [d, to.d]));
                    T::product_with(&product, prefetches);
                }
                if let Some(q_columns) = q_columns {
                    let product = across(run, grads, q_columns, (dk, [e, to.e]));
                    T::product_with(&product, prefetches);
                }
                if let Some(k_columns) = k_columns {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: e,
                            k: run.keys,
                            a: grads.wrapping_add(run.column).cast_const(),
                            steps: [to.ld as isize, 1],
                            b: k_columns.from(run.first),
                            right: k_columns.steps,
                            c: place(to.dq + sums * to.e),
                            ld: to.e,
                            add: add_queries || run.column > 0,
                            band: tile.band(CausalBand::Terms),
                        },
                        prefetches,
                    );
                }
            }
        }
    }

    /// What queries from `i` on and keys from `j` on add to each other's gradients; `fresh` where this head of the
    /// query is the first one of its keys.
    ///
    /// # Safety
    /// As for [`AttentionBackward::step`].
    unsafe fn block(
        &self,
        (shared, fresh): (&HeadOperands<T>, bool),
        [i, j]: [usize; 2],
        at: *mut T,
        prefetches: &mut [Prefetch],
    ) {
        let sizes = self.of.of.sizes;
        let AttentionSizes { l, reach, .. } = *sizes;
        let seen = sizes.seen();
        let rows = QUERIES.min(l - i);
        let mut keys = KEYS.min(seen - j);
        if let Some(reach) = reach {
            keys = keys.min((i + rows + reach).saturating_sub(j));
        }
        if keys == 0 {
            return;
        }
        // The first block of queries that sees these keys starts their sums, with none for the keys that only later
        // queries see.
        let first_queries = reach.map_or(0, |reach| j.saturating_sub(reach) / QUERIES * QUERIES);
        let first = fresh && i == first_queries;
        let x = QueryBlock {
            i,
            rows,
            sums: i,
            add: [j > 0, !first],
        };
        let tile = AdjacentKeys {
            sizes,
            mask: self.of.of.mask.as_ref(),
            head: shared.head,
            start: [i, j],
            keys,
        };
        // SAFETY: the caller's promise.
        unsafe {
            if first {
                self.clear_keys(shared, j + keys..seen.min(j + KEYS));
            }
            self.step(shared, &x, &tile, at, prefetches);
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
        let (sizes, kv) = (self.of.of.sizes, x.head);
        let AttentionSizes {
            l, s, e, d, group, ..
        } = *sizes;
        let seen = sizes.seen();
        let [dq, dk, dv] = self.of.wanted(x.of);
        let wanted = [dq.is_some(), dk.is_some(), dv.is_some()];
        if wanted == [false; 3] {
            return;
        }
        let at = at.cast::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            self.pack_keys(kv, 0..seen, wanted[0], at);
            for head in kv * group..(kv + 1) * group {
                self.pack_queries(head, 0..l, wanted, at);
                let shared = self.of_head(head, wanted, at);
                let fresh = head == kv * group;
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
                        self.block((&shared, fresh), [i, j], at, prefetches);
                    }
                }
                if wanted[0] {
                    for i in x.queries(l, QUERIES) {
                        self.put_queries(head, i..l.min(i + QUERIES), i, at);
                    }
                }
            }
            if wanted[1] || wanted[2] {
                for j in x.keys(s, KEYS) {
                    self.put_keys(kv, j..s.min(j + KEYS), at);
                }
            }
        }
    }
}
