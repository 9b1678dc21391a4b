//! The results.

use torsh_core::{DType, Result, View, pool};

use super::super::AttentionSizes;
use super::super::drive::{AttentionOperands, Queue};
use super::super::forward::AttentionForward;
use super::super::operand::up;
use super::super::scores::ScoreNumber;
use super::{BLOCK, PackedBlocks, StoredBlocks, StoredKeys, block_range, shares};
use crate::kernels::panels::Prefetch;
use crate::machine::tuning::attention_blocks::{FORWARD, GRAIN, SHARES};
use crate::memory::dense::{DenseOut, Ptr, Scratch};

/// Of the result and the logarithms of the sums; of query, key and value, and a mask that is absent.
pub(super) fn run<T: ScoreNumber>(
    outputs: [&View<'_>; 2],
    inputs: [&View<'_>; 4],
    (sizes, dtype): (&AttentionSizes, DType),
    stored: &StoredBlocks,
) -> Result<()> {
    let (of, dense) = AttentionOperands::<T>::of_views(outputs, inputs, (sizes, dtype))?;
    let most = [BLOCK, up(sizes.s, BLOCK).min(FORWARD * BLOCK)];
    let call = AttentionForward::new(of, most);
    BlocksForward { call, stored }.all()?;
    dense.map_or(Ok(()), DenseOut::finish)
}

/// A call, whose items are the blocks of queries of all heads.
struct BlocksForward<'a, T> {
    call: AttentionForward<'a, T>,
    stored: &'a StoredBlocks,
}

impl<T: ScoreNumber> BlocksForward<'_, T> {
    fn all(&self) -> Result<()> {
        let AttentionSizes { e, d, .. } = *self.call.of.sizes;
        let [rows, columns] = self.stored.sides;
        let items = self.call.of.sizes.lead.iter().product::<usize>() * rows;
        // A block of queries without any of keys has its results written, too.
        let weights = (0..items).map(|item| self.stored.seen_by(item).len() + 1);
        let total: usize = weights.clone().sum();
        if total == 0 {
            return Ok(());
        }
        let work = BLOCK * BLOCK * (e + d).max(1);
        let threads = pool::chunk_count(total, (GRAIN / work).max(1)).max(1);
        let ranges = shares(weights, if threads == 1 { 1 } else { threads * SHARES });
        let each = self.call.total();
        let scratch = Scratch::<T>::new(threads * each)?;
        let start = Ptr::new(scratch.ptr());
        let queue = Queue::new(ranges.len());
        pool::parallel_parts(threads, threads, &|part, _| {
            let at = start.at((part * each) as isize);
            let mut packed = PackedBlocks::new(columns);
            while let Some(range) = queue.take().and_then(|nth| ranges.get(nth)) {
                for item in range.clone() {
                    let next = Some(item + 1).filter(|next| range.contains(next));
                    // SAFETY: the operands have the sizes that were checked, the scratch memory what the call asks for,
                    // and this part alone has it; no other part has these queries.
                    unsafe { self.item(item, next, &mut packed, at) };
                }
            }
        });
        Ok(())
    }

    /// The results of an item. Keys and values are packed when the first item of a head comes that sees them: a
    /// thread that has a part of a head needs a part of them.
    ///
    /// # Safety
    /// `at` must be a thread's memory that has these blocks packed, and nobody else may have the item.
    unsafe fn item(&self, item: usize, next: Option<usize>, packed: &mut PackedBlocks, at: *mut T) {
        let AttentionSizes { l, s, group, .. } = *self.call.of.sizes;
        let [rows, _] = self.stored.sides;
        let (head, queries) = (item / rows, block_range(item % rows, l));
        let (kv, blocks) = (head / group, self.stored.seen_by(item));
        packed.of_head(kv);
        // SAFETY: the caller's promise.
        unsafe {
            for b in blocks {
                if packed.add(b.at) {
                    self.call.pack_keys(kv, block_range(b.at, s), at);
                }
            }
            let tiles = blocks.chunks(FORWARD).map(|blocks| StoredKeys {
                stored: self.stored,
                blocks,
                s,
            });
            let at_query = [head, queries.start];
            let mut prefetches = self.prefetches(item, next, packed);
            self.call
                .results(at_query, queries.len(), tiles, at, &mut prefetches);
        }
    }

    /// What is written after an item's products, and read for the next item: its queries, and the first of its keys
    /// that are not packed.
    fn prefetches(&self, item: usize, next: Option<usize>, packed: &PackedBlocks) -> [Prefetch; 4] {
        let of = &self.call.of;
        let AttentionSizes {
            l, s, e, d, group, ..
        } = *of.sizes;
        let place = |item: usize| {
            let [rows, _] = self.stored.sides;
            (item / rows, block_range(item % rows, l))
        };
        let mut prefetches = [Prefetch::NOTHING; 4];
        let (head, queries) = place(item);
        prefetches[0] = of.out.prefetches(head, queries.start, [queries.len(), d]);
        if let Some(next) = next {
            let kv = head / group;
            let (head, queries) = place(next);
            prefetches[1] = of.q.prefetches(head, queries.start, [queries.len(), e]);
            let other = head / group != kv;
            let mut blocks = self.stored.seen_by(next).iter();
            if let Some(b) = blocks.find(|b| other || !packed.has(b.at)) {
                let keys = block_range(b.at, s);
                prefetches[2] = of.k.prefetches(head / group, keys.start, [keys.len(), e]);
                prefetches[3] = of.v.prefetches(head / group, keys.start, [keys.len(), d]);
            }
        }
        prefetches
    }
}
