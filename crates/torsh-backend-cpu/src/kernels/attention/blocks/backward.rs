//! The gradients: the scores anew, for each block of queries against some of the blocks that it sees.
//!
//! A thread that has a whole head of key and value adds up all three gradients at once. Heads that are left over are
//! split: by blocks of queries for the queries' gradients, and by blocks of keys for the others, which takes the scores
//! twice. The sums have the same terms in the same order either way.

use std::ops::Range;

use torsh_core::{DType, Result, View, pool};

use super::super::AttentionSizes;
use super::super::backward::{AttentionBackward, QueryBlock};
use super::super::drive::{AttentionGradients, Queue};
use super::super::operand::up;
use super::super::scores::ScoreNumber;
use super::{
    BLOCK, BlockLists, PackedBlocks, StoredBlock, StoredBlocks, StoredKeys, block_range, shares,
};
use crate::kernels::panels::Prefetch;
use crate::machine::tuning::attention_blocks::{BACKWARD, GRAIN, SHARES};
use crate::memory::dense::{DenseOut, Ptr, Scratch};

/// Of the gradients that are wanted; of query, key, value, a mask that is absent, gradient, result and logarithms of
/// the sums.
pub(super) fn run<T: ScoreNumber>(
    wanted: [Option<&View<'_>>; 3],
    inputs: [&View<'_>; 7],
    (sizes, dtype): (&AttentionSizes, DType),
    stored: &StoredBlocks,
) -> Result<()> {
    let (of, converted) = AttentionGradients::<T>::of_views(wanted, inputs, (sizes, dtype))?;
    let wanted = wanted.map(|to| to.is_some());
    let most = [BLOCK, up(sizes.s, BLOCK).min(BACKWARD * BLOCK)];
    let call = AttentionBackward::new(of, most, BLOCK);
    BlocksBackward {
        call,
        stored,
        wanted,
    }
    .all()?;
    converted.into_iter().try_for_each(DenseOut::finish)
}

/// A call.
struct BlocksBackward<'a, T> {
    call: AttentionBackward<'a, T>,
    stored: &'a StoredBlocks,
    /// Of queries, keys and values.
    wanted: [bool; 3],
}

/// What a thread has in its memory.
struct Memory<T> {
    at: *mut T,
    keys: PackedBlocks,
    /// Those for the gradients of keys and values.
    queries: PackedBlocks,
}

impl<T: ScoreNumber> BlocksBackward<'_, T> {
    fn all(&self) -> Result<()> {
        let sizes = self.call.of.of.sizes;
        let AttentionSizes { e, d, group, .. } = *sizes;
        let (heads, [rows, columns]) = (sizes.heads_kv(), self.stored.sides);
        let items = heads * group * rows;
        let total: usize = (0..items).map(|item| self.stored.seen_by(item).len()).sum();
        let enough = total * BLOCK * BLOCK * (e + d) > GRAIN && !pool::in_parallel();
        let threads = if enough { pool::num_threads() } else { 1 };
        let whole = heads / threads * threads;
        // Shares of the heads that are left over: of their blocks of queries, and of their blocks of keys.
        let first = whole * group * rows;
        let weights = (first..items).map(|item| self.stored.seen_by(item).len() + 1);
        let of_queries = shares(weights, threads * SHARES);
        let by_keys = (whole < heads).then(|| self.stored.by_keys());
        let of_keys = by_keys.as_ref().map_or(Vec::new(), |by_keys| {
            let blocks = |kv: usize, column: usize| -> usize {
                let heads = kv * group..(kv + 1) * group;
                heads
                    .map(|head| self.column(by_keys, head, column).len())
                    .sum()
            };
            let all = whole * columns..heads * columns;
            let weights = all.map(|n| blocks(n / columns, n % columns) + 1);
            shares(weights, threads * SHARES)
        });
        let queues = [whole, of_queries.len(), of_keys.len()].map(Queue::new);
        let each = self.call.total();
        let scratch = Scratch::<T>::new(threads * each)?;
        let start = Ptr::new(scratch.ptr());
        let [to_q, to_k, to_v] = self.wanted;
        pool::parallel_parts(threads, threads, &|part, _| {
            let mut memory = Memory {
                at: start.at((part * each) as isize),
                keys: PackedBlocks::new(columns),
                queries: PackedBlocks::new(rows),
            };
            while let Some(kv) = queues[0].take() {
                // SAFETY: the operands have the sizes that were checked, the scratch memory what the call asks for, and
                // this part alone has it, and this head.
                unsafe { self.head(kv, &mut memory) };
            }
            while let Some(share) = queues[1].take().filter(|_| to_q) {
                for item in of_queries[share].clone() {
                    // SAFETY: as above, for these queries.
                    unsafe { self.item(first + item, [true, false, false], &mut memory) };
                }
            }
            let by_keys = by_keys.as_ref().filter(|_| to_k || to_v);
            while let Some((by_keys, share)) = by_keys.zip(queues[2].take()) {
                let share = &of_keys[share];
                // A share may have keys of several heads.
                for kv in share.start / columns..share.end.div_ceil(columns) {
                    let of_kv = |n: usize| n.saturating_sub(kv * columns).min(columns);
                    let some = of_kv(share.start)..of_kv(share.end);
                    // SAFETY: as above, for these keys.
                    unsafe { self.keys(by_keys, whole + kv, some, &mut memory) };
                }
            }
        });
        Ok(())
    }

    /// The blocks of a head's queries that see a block of keys.
    fn column<'b>(&self, by_keys: &'b BlockLists, head: usize, column: usize) -> &'b [StoredBlock] {
        by_keys.line(self.stored.plane(head), column)
    }

    /// All gradients of a head of key and value and of the queries that share it.
    ///
    /// # Safety
    /// The memory must be a thread's, the head one of key and value that nobody else has.
    unsafe fn head(&self, kv: usize, memory: &mut Memory<T>) {
        let AttentionSizes { s, group, .. } = *self.call.of.of.sizes;
        let [rows, columns] = self.stored.sides;
        if self.wanted == [false; 3] {
            return;
        }
        let first = kv * group;
        // SAFETY: the caller's promise.
        unsafe {
            for item in first * rows..(first + group) * rows {
                self.item(item, self.wanted, memory);
            }
            memory.keys.of_head(kv);
            let [_, to_k, to_v] = self.wanted;
            for column in 0..columns {
                let keys = block_range(column, s);
                // Keys that no query sees.
                if memory.keys.add(column) {
                    let sums = self.call.sums(kv, memory.at);
                    self.call.clear_sums(sums, [to_k, to_v], keys.clone());
                }
                self.call.put_keys(kv, keys, memory.at);
            }
        }
    }

    /// What a block of queries and the blocks that it sees add to the gradients that are wanted. Keys are packed, and
    /// their sums begun, when the first queries come that see them.
    ///
    /// # Safety
    /// As for [`BlocksBackward::head`]; nobody else may have these queries, nor the keys if their gradients are wanted.
    unsafe fn item(&self, item: usize, wanted: [bool; 3], memory: &mut Memory<T>) {
        let (call, at) = (&self.call, memory.at);
        let AttentionSizes { l, s, group, .. } = *call.of.of.sizes;
        let [rows, _] = self.stored.sides;
        let (head, row) = (item / rows, item % rows);
        let (queries, blocks) = (block_range(row, l), self.stored.seen_by(item));
        memory.keys.of_head(head / group);
        // SAFETY: the caller's promise.
        unsafe {
            if blocks.is_empty() {
                call.clear_queries(queries.len(), at);
            } else {
                call.pack_queries(head, queries.clone(), wanted, at);
            }
            let shared = call.of_head(head, wanted, at);
            let mut prefetches = self.prefetches(head, row, wanted[0]);
            for (nth, blocks) in blocks.chunks(BACKWARD).enumerate() {
                for b in blocks {
                    if memory.keys.add(b.at) {
                        let keys = block_range(b.at, s);
                        call.pack_keys(head / group, keys.clone(), wanted[0], at);
                        call.clear_keys(&shared, keys);
                    }
                }
                let x = QueryBlock {
                    i: queries.start,
                    rows: queries.len(),
                    sums: 0,
                    add: [nth > 0, true],
                };
                let tile = StoredKeys {
                    stored: self.stored,
                    blocks,
                    s,
                };
                call.step(&shared, &x, &tile, at, &mut prefetches);
            }
            if wanted[0] {
                call.put_queries(head, queries, 0, at);
            }
        }
    }

    /// What is written after a block of queries, and read for the next one.
    fn prefetches(&self, head: usize, row: usize, to_q: bool) -> [Prefetch; 4] {
        let of = &self.call.of;
        let AttentionSizes { l, e, d, .. } = *of.of.sizes;
        let (queries, next) = (block_range(row, l), block_range(row + 1, l));
        let mut prefetches = [Prefetch::NOTHING; 4];
        if let Some(dq) = of.to[0].as_ref().filter(|_| to_q) {
            prefetches[0] = dq.prefetches(head, queries.start, [queries.len(), e]);
        }
        if !next.is_empty() {
            prefetches[1] = of.of.q.prefetches(head, next.start, [next.len(), e]);
            prefetches[2] = of.g.prefetches(head, next.start, [next.len(), d]);
            prefetches[3] = of.of.out.prefetches(head, next.start, [next.len(), d]);
        }
        prefetches
    }

    /// The gradients of some blocks of keys and values of a head. Queries are packed when the first keys come that
    /// they see.
    ///
    /// # Safety
    /// As for [`BlocksBackward::head`], of these keys.
    unsafe fn keys(
        &self,
        by_keys: &BlockLists,
        kv: usize,
        some: Range<usize>,
        memory: &mut Memory<T>,
    ) {
        let (call, at) = (&self.call, memory.at);
        let AttentionSizes { l, s, group, .. } = *call.of.of.sizes;
        let wanted = [false, self.wanted[1], self.wanted[2]];
        // SAFETY: the caller's promise.
        unsafe {
            for head in kv * group..(kv + 1) * group {
                memory.queries.of_head(head);
                let shared = call.of_head(head, wanted, at);
                for column in some.clone() {
                    if head == kv * group {
                        let keys = block_range(column, s);
                        call.pack_keys(kv, keys.clone(), false, at);
                        call.clear_keys(&shared, keys);
                    }
                    for b in self.column(by_keys, head, column) {
                        let queries = block_range(b.at, l);
                        if memory.queries.add(b.at) {
                            call.pack_queries(head, queries.clone(), wanted, at);
                        }
                        let x = QueryBlock {
                            i: queries.start,
                            rows: queries.len(),
                            sums: 0,
                            add: [false, true],
                        };
                        let block = StoredBlock {
                            at: column,
                            part: b.part,
                        };
                        let tile = StoredKeys {
                            stored: self.stored,
                            blocks: &[block],
                            s,
                        };
                        call.step(&shared, &x, &tile, at, &mut []);
                    }
                }
            }
            for column in some {
                call.put_keys(kv, block_range(column, s), at);
            }
        }
    }
}
