//! The gradients: the scores anew, for each block of queries against some of the blocks that it sees.
//!
//! A thread that has a whole head of key and value adds up all three gradients at once. Heads that are left over are
//! split: by blocks of queries for the queries' gradients, and by blocks of keys for the others, which takes the scores
//! twice. The sums have the same terms in the same order either way.

use torsh_core::{DType, Result, View, pool};

use super::super::AttentionSizes;
use super::super::drive::{AttentionGradients, AttentionOperands, Queue};
use super::super::operand::{AttentionMatrices, ColumnPanels, ResultMatrices, up};
use super::super::passes;
use super::super::scores::{LANES, ScoreNumber, Scores};
use super::{BLOCK, StoredBlock, StoredBlocks, keys_of, runs, shares};
use crate::kernels::panels::{CausalBand, MatrixRows, PanelProduct, copy_rows, pack_rows};
use crate::machine::tuning::attention_blocks::{BACKWARD, GRAIN, SHARES};
use crate::memory::dense::{DenseOut, Ptr, Scratch};
use crate::simd::level;

pub(super) fn run<T: ScoreNumber>(
    wanted: [Option<&View<'_>>; 3],
    [q, k, v, g, out, lse]: [&View<'_>; 6],
    sizes: &AttentionSizes,
    stored: &StoredBlocks,
    dtype: DType,
) -> Result<()> {
    let (lead, lead_kv) = (&sizes.lead[..], &sizes.lead_kv[..]);
    let mut converted = Vec::new();
    let mut to = [None, None, None];
    for ((to, view), lead) in to.iter_mut().zip(wanted).zip([lead, lead_kv, lead_kv]) {
        if let Some(view) = view {
            let result = ResultMatrices::new(view, dtype, lead)?;
            converted.extend(result.dense);
            *to = Some(result.to);
        }
    }
    let of = AttentionOperands::<T> {
        q: AttentionMatrices::new(q, dtype, lead)?,
        k: AttentionMatrices::new(k, dtype, lead_kv)?,
        v: AttentionMatrices::new(v, dtype, lead_kv)?,
        mask: None,
        out: AttentionMatrices::new(out, dtype, lead)?,
        lse: Ptr::new(lse.ptr().cast()),
        sizes,
    };
    let g = AttentionMatrices::new(g, dtype, lead)?;
    let of = AttentionGradients { of, g, to };
    let width = T::width(level());
    let to = Layout::new(&of, width);
    BlocksBackward {
        of,
        stored,
        width,
        to,
    }
    .all()?;
    converted.into_iter().try_for_each(DenseOut::finish)
}

/// The operands of a call.
struct BlocksBackward<'a, T> {
    of: AttentionGradients<'a, T>,
    stored: &'a StoredBlocks,
    width: usize,
    to: Layout,
}

/// Where things lie in a thread's memory.
struct Layout {
    /// Keys and values in panels of rows, and keys in panels of columns where they do not lie as such.
    k_rows: usize,
    v_rows: usize,
    k_columns: usize,
    /// A block's scaled queries as rows, and queries and gradients in panels of columns where they do not lie as such.
    q: usize,
    q_columns: usize,
    g_columns: usize,
    /// Products of gradient and result, summed over a row.
    delta: usize,
    scores: usize,
    grads: usize,
    /// From row to row of both.
    ld: usize,
    dq: usize,
    /// Sums over queries that cannot be where the result is.
    dk: usize,
    dv: usize,
    /// Columns of queries and of values, rounded up to panels.
    e: usize,
    d: usize,
    total: usize,
}

impl Layout {
    fn new<T: ScoreNumber>(of: &AttentionGradients<'_, T>, width: usize) -> Layout {
        let AttentionSizes { s, e, d, .. } = *of.of.sizes;
        let (e_up, d_up) = (up(e, width), up(d, width));
        let ld = up(s, BLOCK).min(BACKWARD * BLOCK) + LANES;
        let [dq, dk, dv] = of.wanted([true; 2]);
        let (to_q, to_k, to_v) = (dq.is_some(), dk.is_some(), dv.is_some());
        let apart = |steps, columns| !ColumnPanels::<T>::lie(steps, columns, width);
        let mut total = 0;
        let mut place = |wanted: bool, n: usize| {
            let at = total;
            total += if wanted { up(n, 64) } else { 0 };
            at
        };
        Layout {
            k_rows: place(true, up(s, width) * e),
            v_rows: place(true, up(s, width) * d),
            k_columns: place(to_q && apart(of.of.k.steps, e), s * e_up),
            q: place(true, BLOCK * e),
            q_columns: place(to_k && apart([e as isize, 1], e), BLOCK * e_up),
            g_columns: place(to_v && apart(of.g.steps, d), BLOCK * d_up),
            delta: place(true, BLOCK),
            dq: place(to_q, BLOCK * e_up),
            dk: place(dk.is_some_and(|dk| apart(dk.steps, e)), s * e_up),
            dv: place(dv.is_some_and(|dv| apart(dv.steps, d)), s * d_up),
            scores: place(true, BLOCK * ld),
            grads: place(true, BLOCK * ld),
            ld,
            e: e_up,
            d: d_up,
            total,
        }
    }
}

/// What the stored blocks of a block of queries share.
struct Queries<T> {
    head: usize,
    i: usize,
    rows: usize,
    /// The factor of the queries' gradients.
    factor: T,
    /// Gradients and queries, as far as somebody asks for what they go into.
    g_columns: Option<ColumnPanels<T>>,
    q_columns: Option<ColumnPanels<T>>,
}

impl<T: ScoreNumber> BlocksBackward<'_, T> {
    fn all(&self) -> Result<()> {
        let sizes = self.of.of.sizes;
        let AttentionSizes { e, d, group, .. } = *sizes;
        let (heads, [rows, columns]) = (sizes.heads_kv(), self.stored.sides);
        let of_row = |head: usize, row: usize| {
            let plane = self.stored.plane(head);
            self.stored.row(plane, row).len()
        };
        let of_queries = (0..heads * group).flat_map(|head| (0..rows).map(move |row| (head, row)));
        let total: usize = of_queries.map(|(head, row)| of_row(head, row)).sum();
        let enough = total * BLOCK * BLOCK * (e + d) > GRAIN && !pool::in_parallel();
        let threads = if enough { pool::num_threads() } else { 1 };
        let scratch = Scratch::<T>::new(threads * self.to.total)?;
        let start = Ptr::new(scratch.ptr());
        let memory = |part: usize| start.at((part * self.to.total) as isize);
        let whole = heads / threads * threads;
        let queue = Queue::new(whole);
        pool::parallel_parts(threads, threads, &|part, _| {
            while let Some(kv) = queue.take() {
                // SAFETY: the operands have the sizes that were checked, the scratch memory those of the layout, and
                // this part alone has it, and this head.
                unsafe { self.head(kv, memory(part)) };
            }
        });
        if whole == heads {
            return Ok(());
        }
        let [dq, dk, dv] = self.of.wanted([true; 2]).map(|to| to.is_some());
        let (starts, by_keys) = self.stored.transposed();
        let of_column = |head: usize, column: usize| {
            let at = self.stored.plane(head) * columns + column;
            &by_keys[starts[at]..starts[at + 1]]
        };
        for kv in whole..heads {
            let first = kv * group;
            let weights = (0..group * rows).map(|n| of_row(first + n / rows, n % rows) + 1);
            let of_queries = shares(weights, threads * SHARES);
            let blocks = |column: usize| -> usize {
                let heads = first..first + group;
                heads.map(|head| of_column(head, column).len()).sum()
            };
            let of_keys = shares((0..columns).map(|n| blocks(n) + 1), threads * SHARES);
            let queues = [of_queries.len(), of_keys.len()].map(Queue::new);
            pool::parallel_parts(threads, threads, &|part, _| {
                let at = memory(part);
                let mut packed = false;
                while let (true, Some(nth)) = (dq, queues[0].take()) {
                    for n in of_queries[nth].clone() {
                        // SAFETY: as above, for these queries.
                        unsafe {
                            if !packed {
                                self.pack(kv, [true, true], at);
                                packed = true;
                            }
                            self.queries(first + n / rows, n % rows, [true, false, false], at);
                        }
                    }
                }
                while let (true, Some(nth)) = (dk || dv, queues[1].take()) {
                    for column in of_keys[nth].clone() {
                        // SAFETY: as above, for these keys.
                        unsafe {
                            if !packed {
                                self.pack(kv, [true, false], at);
                                packed = true;
                            }
                            self.clear(kv, column, at);
                            for head in first..first + group {
                                for b in of_column(head, column) {
                                    let x = self.prepare(head, b.at, [false, dk, dv], at);
                                    let block = StoredBlock {
                                        at: column,
                                        part: b.part,
                                    };
                                    self.step(&x, &[block], true, [false, dk, dv], at);
                                }
                            }
                            self.put(kv, column, at);
                        }
                    }
                }
            });
        }
        Ok(())
    }

    /// All gradients of a head of key and value and of the queries that share it.
    ///
    /// # Safety
    /// `at` must be memory of the layout, the head one of key and value that nobody else has.
    unsafe fn head(&self, kv: usize, at: *mut T) {
        let group = self.of.of.sizes.group;
        let wanted = self.of.wanted([true; 2]).map(|to| to.is_some());
        let [rows, columns] = self.stored.sides;
        if wanted == [false; 3] {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.pack(kv, [true, wanted[0]], at);
            (0..columns).for_each(|column| self.clear(kv, column, at));
            for head in kv * group..(kv + 1) * group {
                for row in 0..rows {
                    self.queries(head, row, wanted, at);
                }
            }
            (0..columns).for_each(|column| self.put(kv, column, at));
        }
    }

    /// Packs keys and values as rows, and keys as columns.
    ///
    /// # Safety
    /// `at` must be memory of the layout, the head one of key and value.
    unsafe fn pack(&self, kv: usize, [rows, columns]: [bool; 2], at: *mut T) {
        let (of, to) = (&self.of.of, &self.to);
        let AttentionSizes { s, e, d, .. } = *of.sizes;
        let place = |n: usize| at.wrapping_add(n);
        // SAFETY: the caller's promise.
        unsafe {
            if rows {
                let (k, v) = (of.k.head(kv), of.v.head(kv));
                pack_rows(k, of.k.steps, [s, e], self.width, place(to.k_rows));
                pack_rows(v, of.v.steps, [s, d], self.width, place(to.v_rows));
            }
            if columns {
                ColumnPanels::pack(&of.k.rows(kv, [s, e]), self.width, place(to.k_columns));
            }
        }
    }

    /// Where the sums for the gradients of keys and of values are, of those that are wanted: in the result if that has
    /// whole panels.
    fn sums(&self, kv: usize, at: *mut T) -> [Option<(*mut T, usize)>; 2] {
        let AttentionSizes { e, d, .. } = *self.of.of.sizes;
        let [_, dk, dv] = self.of.wanted([true; 2]);
        let to = &self.to;
        [(dk, to.dk, e, to.e), (dv, to.dv, d, to.d)].map(|(result, place, n, ld)| {
            result.map(
                |result| match ColumnPanels::<T>::lie(result.steps, n, self.width) {
                    true => (result.head(kv), ld),
                    false => (at.wrapping_add(place), ld),
                },
            )
        })
    }

    /// Makes the sums of a block of keys 0.
    ///
    /// # Safety
    /// As for [`BlocksBackward::head`], of these keys.
    unsafe fn clear(&self, kv: usize, column: usize, at: *mut T) {
        let j = column * BLOCK;
        let keys = BLOCK.min(self.of.of.sizes.s - j);
        for (sums, ld) in self.sums(kv, at).into_iter().flatten() {
            for n in j * ld..(j + keys) * ld {
                // SAFETY: the caller's promise: there are sums for all keys.
                unsafe { *sums.wrapping_add(n) = T::ZERO };
            }
        }
    }

    /// Writes the sums of a block of keys to the results, unless they are there already.
    ///
    /// # Safety
    /// As for [`BlocksBackward::head`], of these keys, whose sums must be there.
    unsafe fn put(&self, kv: usize, column: usize, at: *mut T) {
        let AttentionSizes { s, e, d, .. } = *self.of.of.sizes;
        let [_, dk, dv] = self.of.wanted([true; 2]);
        let j = column * BLOCK;
        let sums = self.sums(kv, at);
        for (result, sums, n) in [(dk, sums[0], e), (dv, sums[1], d)] {
            let (Some(result), Some((sums, ld))) = (result, sums) else {
                continue;
            };
            if sums == result.head(kv) {
                continue;
            }
            let rows = MatrixRows {
                from: sums.wrapping_add(j * ld).cast_const(),
                steps: [ld as isize, 1],
                sizes: [BLOCK.min(s - j), n],
                factor: T::ONE,
                factors: std::ptr::null(),
            };
            let out = result
                .head(kv)
                .wrapping_offset(j as isize * result.steps[0]);
            // SAFETY: the caller's promise.
            unsafe { copy_rows(&rows, out, result.steps) };
        }
    }

    /// What a block of queries and the blocks that it sees add to the gradients that are wanted.
    ///
    /// # Safety
    /// `at` must be memory of the layout in which the head's keys and values are packed; nobody else has these queries,
    /// nor the keys if their gradients are wanted.
    unsafe fn queries(&self, head: usize, row: usize, wanted: [bool; 3], at: *mut T) {
        let to = &self.to;
        let e = self.of.of.sizes.e;
        let blocks = self.stored.row(self.stored.plane(head), row);
        // SAFETY: the caller's promise.
        unsafe {
            let x = self.prepare(head, row, wanted, at);
            for (nth, some) in blocks.chunks(BACKWARD).enumerate() {
                self.step(&x, some, nth == 0, wanted, at);
            }
            let Some(dq) = self.of.wanted([true; 2])[0].filter(|_| wanted[0]) else {
                return;
            };
            let sums = at.wrapping_add(to.dq);
            if blocks.is_empty() {
                (0..x.rows * to.e).for_each(|n| *sums.wrapping_add(n) = T::ZERO);
            }
            let rows = MatrixRows {
                from: sums.cast_const(),
                steps: [to.e as isize, 1],
                sizes: [x.rows, e],
                factor: x.factor,
                factors: std::ptr::null(),
            };
            let out = dq.head(head).wrapping_offset(x.i as isize * dq.steps[0]);
            copy_rows(&rows, out, dq.steps);
        }
    }

    /// Copies and packs a block of queries and of their gradients.
    ///
    /// # Safety
    /// `at` must be memory of the layout.
    unsafe fn prepare(
        &self,
        head: usize,
        row: usize,
        [_, to_k, to_v]: [bool; 3],
        at: *mut T,
    ) -> Queries<T> {
        let (of, g, to) = (&self.of.of, &self.of.g, &self.to);
        let AttentionSizes { l, e, d, .. } = *of.sizes;
        let i = row * BLOCK;
        let rows = BLOCK.min(l - i);
        let place = |n: usize| at.wrapping_add(n);
        let q = of.queries(head, i, rows);
        let factor = q.factor;
        let of_g = g.rows(head, [rows, d]);
        let of_g = MatrixRows {
            from: of_g.from.wrapping_offset(i as isize * g.steps[0]),
            ..of_g
        };
        let out = of
            .out
            .head(head)
            .wrapping_offset(i as isize * of.out.steps[0]);
        // SAFETY: the caller's promise.
        unsafe {
            for r in 0..rows as isize {
                let g_row = of_g.from.wrapping_offset(r * g.steps[0]);
                let out = out.wrapping_offset(r * of.out.steps[0]);
                let steps = [g.steps[1], of.out.steps[1]];
                *place(to.delta).wrapping_offset(r) = passes::dot(g_row, out, steps, d);
            }
            copy_rows(&q, place(to.q), [e as isize, 1]);
            let q = MatrixRows {
                from: place(to.q).cast_const(),
                steps: [e as isize, 1],
                factor: T::ONE,
                ..q
            };
            // What nobody asks for is not packed.
            let columns = |wanted: bool, rows: &MatrixRows<T>, to: usize| {
                wanted.then(|| ColumnPanels::pack(rows, self.width, place(to)))
            };
            Queries {
                head,
                i,
                rows,
                factor,
                g_columns: columns(to_v, &of_g, to.g_columns),
                q_columns: columns(to_k, &q, to.q_columns),
            }
        }
    }

    /// What queries and some blocks of keys add to each other's gradients.
    ///
    /// # Safety
    /// As for [`BlocksBackward::queries`]; the queries are prepared.
    unsafe fn step(
        &self,
        x: &Queries<T>,
        some: &[StoredBlock],
        first_keys: bool,
        [to_q, _, _]: [bool; 3],
        at: *mut T,
    ) {
        let (of, g, to) = (&self.of.of, &self.of.g, &self.to);
        let AttentionSizes {
            l, s, e, d, group, ..
        } = *of.sizes;
        let &Queries { head, i, rows, .. } = x;
        let kv = head / group;
        let place = |n: usize| at.wrapping_add(n);
        let (scores, grads) = (place(to.scores), place(to.grads));
        let k_columns = ColumnPanels::of(&of.k.rows(kv, [s, e]), self.width, place(to.k_columns));
        let [dk, dv] = self.sums(kv, at);
        let block = Scores {
            rows,
            keys: keys_of(some, s),
            reach: isize::MAX,
            from: isize::MIN,
            at: scores,
            ld: to.ld,
        };
        // SAFETY: the caller's promise.
        unsafe {
            for (first, j, keys) in runs(some, s) {
                let of_scores = PanelProduct {
                    m: rows,
                    n: keys,
                    k: e,
                    a: place(to.q).cast_const(),
                    steps: [e as isize, 1],
                    b: place(to.k_rows).wrapping_add(j * e).cast_const(),
                    right: [e * self.width, self.width],
                    c: scores.wrapping_add(first * BLOCK),
                    ld: to.ld,
                    add: false,
                    band: CausalBand::All,
                };
                T::product_with(&of_scores, &mut []);
                T::product_with(
                    &PanelProduct {
                        k: d,
                        a: g.head(head).wrapping_offset(i as isize * g.steps[0]),
                        steps: g.steps,
                        b: place(to.v_rows).wrapping_add(j * d).cast_const(),
                        right: [d * self.width, self.width],
                        c: grads.wrapping_add(first * BLOCK),
                        ..of_scores
                    },
                    &mut [],
                );
            }
            self.stored.hide(some, rows, s, (scores, to.ld));
            let lse = of.lse.at((head * l + i) as isize);
            passes::weigh_back(&block, grads, lse, place(to.delta));
            for (first, j, keys) in runs(some, s) {
                // Sums over the queries, for these keys.
                let across =
                    |from: *mut T, right: &ColumnPanels<T>, sums: *mut T, n, ld| PanelProduct {
                        m: keys,
                        n,
                        k: rows,
                        a: from.wrapping_add(first * BLOCK).cast_const(),
                        steps: [1, to.ld as isize],
                        b: right.at,
                        right: right.steps,
                        c: sums.wrapping_add(j * ld),
                        ld,
                        add: true,
                        band: CausalBand::All,
                    };
                if let (Some(g_columns), Some((dv, ld))) = (&x.g_columns, dv) {
                    T::product_with(&across(scores, g_columns, dv, d, ld), &mut []);
                }
                if let (Some(q_columns), Some((dk, ld))) = (&x.q_columns, dk) {
                    T::product_with(&across(grads, q_columns, dk, e, ld), &mut []);
                }
                if to_q {
                    T::product_with(
                        &PanelProduct {
                            m: rows,
                            n: e,
                            k: keys,
                            a: grads.wrapping_add(first * BLOCK).cast_const(),
                            steps: [to.ld as isize, 1],
                            b: k_columns.from(j),
                            right: k_columns.steps,
                            c: place(to.dq),
                            ld: to.e,
                            add: !first_keys || first > 0,
                            band: CausalBand::All,
                        },
                        &mut [],
                    );
                }
            }
        }
    }
}
