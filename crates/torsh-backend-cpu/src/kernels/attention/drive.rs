//! What all algorithms of attention share: the operands, which thread computes which blocks, and what is
//! fetched ahead of time.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use torsh_core::{DType, KernelArgs, Result, View, attrs, pool};

use super::AttentionSizes;
use super::operand::{AttentionMatrices, Keys, Mask, ResultMatrices};
use super::passes;
use super::scores::{self, ScoreNumber};
use crate::kernels::panels::{MatrixRows, Prefetch, copy_rows};
use crate::memory::dense::{DenseOut, Ptr, Scratch};
use crate::memory::operands::operands;

/// The operands of a call, for results or for gradients; `K` holds keys and values.
pub(super) struct AttentionOperands<'a, T, K = AttentionMatrices<T>> {
    pub q: AttentionMatrices<T>,
    pub k: K,
    pub v: K,
    pub mask: Option<Mask<T>>,
    /// The results, and the logarithm of each query's sum.
    pub out: AttentionMatrices<T>,
    pub lse: Ptr<T>,
    pub sizes: &'a AttentionSizes,
}

impl<'a, T: ScoreNumber, K: Keys> AttentionOperands<'a, T, K> {
    fn new(
        [q, k, v, mask]: [&View<'_>; 4],
        out: AttentionMatrices<T>,
        lse: &View<'_>,
        (sizes, dtype): (&'a AttentionSizes, DType),
    ) -> Result<AttentionOperands<'a, T, K>> {
        let (lead, lead_kv) = (&sizes.lead[..], &sizes.lead_kv[..]);
        Ok(AttentionOperands {
            q: AttentionMatrices::new(q, dtype, lead)?,
            k: K::new(k, dtype, lead_kv)?,
            v: K::new(v, dtype, lead_kv)?,
            mask: Mask::new(Some(mask), dtype, lead)?,
            out,
            lse: Ptr::new(lse.ptr().cast()),
            sizes,
        })
    }

    /// Those of a call for results, and the results that must be converted in the end.
    pub fn of_results<'v>(
        args: &KernelArgs<'v>,
        sizes: &'a AttentionSizes,
        dtype: DType,
    ) -> Result<(Self, Option<DenseOut<'v>>)> {
        let ([out, lse], [q, k, v, mask]) = operands(args)?;
        Self::of_views([out, lse], [q, k, v, mask], (sizes, dtype))
    }

    /// The same of the results and the logarithms of the sums, and of query, key, value and mask.
    pub fn of_views<'v>(
        [out, lse]: [&View<'v>; 2],
        inputs: [&View<'_>; 4],
        (sizes, dtype): (&'a AttentionSizes, DType),
    ) -> Result<(Self, Option<DenseOut<'v>>)> {
        let ResultMatrices { to, dense } = ResultMatrices::new(out, dtype, &sizes.lead)?;
        let operands = AttentionOperands::new(inputs, to, lse, (sizes, dtype))?;
        Ok((operands, dense))
    }

    /// `rows` queries of a head from `i` on, times the scale.
    pub fn queries(&self, head: usize, i: usize, rows: usize) -> MatrixRows<T> {
        let q = self.q.rows(head, [rows, self.sizes.e]);
        MatrixRows {
            from: q.from.wrapping_offset(i as isize * q.steps[0]),
            factor: T::c(self.sizes.scale),
            ..q
        }
    }

    /// Writes the results of `rows` queries from `i` on, whose sums are `ld` apart.
    ///
    /// # Safety
    /// All must be there.
    pub unsafe fn finish(
        &self,
        [head, i]: [usize; 2],
        rows: usize,
        known: &scores::ScoreRows<T>,
        (sums, ld): (*const T, usize),
    ) {
        let AttentionSizes { l, d, .. } = *self.sizes;
        // SAFETY: the caller's promise.
        unsafe {
            passes::finish(known, rows, self.lse.at((head * l + i) as isize));
            let sums = MatrixRows {
                from: sums,
                steps: [ld as isize, 1],
                sizes: [rows, d],
                factor: T::ONE,
                factors: known.sum,
            };
            let [step, _] = self.out.steps;
            let out = self.out.head(head).wrapping_offset(i as isize * step);
            copy_rows(&sums, out, self.out.steps);
        }
    }
}

/// An algorithm for the results, with its operands.
pub(super) trait ForwardPass: Sync {
    type T: ScoreNumber;
    /// Queries of a block.
    const QUERIES: usize;
    /// Products of a query, a key and a column that are worth a thread of their own.
    const GRAIN: usize;

    fn operands(&self) -> &AttentionOperands<'_, Self::T>;
    /// Bytes of a thread's memory.
    fn bytes(&self) -> usize;
    /// Packs what the blocks of a head of key and value share.
    ///
    /// # Safety
    /// `at` must be a thread's memory, the head one of key and value.
    unsafe fn pack(&self, kv: usize, at: *mut u8);
    /// The results of a block of queries from `i` on.
    ///
    /// # Safety
    /// `at` must be a thread's memory in which this head's keys and values are packed.
    unsafe fn block(&self, head: usize, i: usize, at: *mut u8, prefetches: &mut [Prefetch]);
    /// How many of some rows are fetched before the `nth` of `blocks`: as many in each.
    fn share(&self, nth: usize, blocks: usize, rows: usize) -> usize {
        (nth * rows.div_ceil(blocks)).min(rows)
    }
}

/// Computes the results.
pub(super) fn forward<F: ForwardPass>(call: &F) -> Result<()> {
    let of = call.operands();
    let sizes = of.sizes;
    let AttentionSizes { l, e, d, group, .. } = *sizes;
    let seen = sizes.seen();
    let blocks = l.div_ceil(F::QUERIES);
    let items = sizes.lead.iter().product::<usize>() * blocks;
    let work = F::QUERIES.min(l) * seen * (e + d);
    let parts = pool::chunk_count(items, (F::GRAIN / work.max(1)).max(1));
    let each = call.bytes();
    let scratch = Scratch::<u8>::new(parts * each)?;
    let start = Ptr::new(scratch.ptr());
    let place = |item: usize| {
        let (head, block) = block_of(item, blocks);
        (head, block * F::QUERIES)
    };
    // What is read and written after the products of a block: its results, the next block's queries, and
    // where the next head has keys and values of its own, as much of them as falls to this block.
    let prefetches = |item: usize, next: Option<usize>, next_head: Option<usize>| {
        let mut prefetches = [Prefetch::NOTHING; 4];
        let (head, i) = place(item);
        prefetches[0] = of.out.prefetches(head, i, [F::QUERIES.min(l - i), d]);
        if let Some((head, i)) = next.map(place) {
            prefetches[1] = of.q.prefetches(head, i, [F::QUERIES.min(l - i), e]);
        }
        let next = next_head.map(|head| head / group);
        if let Some(kv) = next.filter(|&kv| kv != head / group) {
            let nth = item % blocks;
            let [first, end] = [nth, nth + 1].map(|nth| call.share(nth, blocks, seen));
            prefetches[2] = of.k.prefetches(kv, first, [end - first, e]);
            prefetches[3] = of.v.prefetches(kv, first, [end - first, d]);
        }
        prefetches
    };
    // Some items, and the first one of those that come after them.
    let run = |part: usize, range: Range<usize>, after: Option<usize>| {
        let at = start.at((part * each) as isize);
        let mut packed = None;
        let end = range.end;
        for item in range {
            let (head, i) = place(item);
            let next = if item + 1 < end {
                Some(item + 1)
            } else {
                after
            };
            let next_head = if (head + 1) * blocks < end {
                Some(head + 1)
            } else {
                after.map(|item| item / blocks)
            };
            // SAFETY: the operands have the sizes that the record planned, the scratch memory what the
            // algorithm asks for, and this part alone has it.
            unsafe {
                if packed != Some(head / group) {
                    call.pack(head / group, at);
                    packed = Some(head / group);
                }
                call.block(head, i, at, &mut prefetches(item, next, next_head));
            }
        }
    };
    in_units([items, group * blocks, parts], &run);
    Ok(())
}

/// The operands and results of a call for gradients.
pub(super) struct AttentionGradients<'a, T> {
    pub of: AttentionOperands<'a, T>,
    pub g: AttentionMatrices<T>,
    /// The gradients of queries, keys and values that are wanted.
    pub to: [Option<AttentionMatrices<T>>; 3],
}

impl<'a, T: ScoreNumber> AttentionGradients<'a, T> {
    /// Those of a call, and the results that must be converted in the end.
    pub fn new<'v>(
        args: &KernelArgs<'v>,
        sizes: &'a AttentionSizes,
        dtype: DType,
    ) -> Result<(AttentionGradients<'a, T>, Vec<DenseOut<'v>>)> {
        let ([dq, dk, dv], [q, k, v, mask, g, out, lse]) = operands(args)?;
        let a = args.attrs::<attrs::AttentionBackward>()?;
        let wanted = [(a.query_grad, dq), (a.key_grad, dk), (a.value_grad, dv)]
            .map(|(wanted, to)| wanted.then_some(to));
        Self::of_views(wanted, [q, k, v, mask, g, out, lse], (sizes, dtype))
    }

    /// The same of the gradients that are wanted, and of query, key, value, mask, gradient, result and logarithms of
    /// the sums.
    pub fn of_views<'v>(
        [dq, dk, dv]: [Option<&View<'v>>; 3],
        [q, k, v, mask, g, out, lse]: [&View<'_>; 7],
        (sizes, dtype): (&'a AttentionSizes, DType),
    ) -> Result<(AttentionGradients<'a, T>, Vec<DenseOut<'v>>)> {
        let (lead, lead_kv) = (&sizes.lead[..], &sizes.lead_kv[..]);
        let mut converted = Vec::new();
        let mut result = |view: Option<&View<'v>>, lead: &[usize]| -> Result<_> {
            let Some(view) = view else {
                return Ok(None);
            };
            let ResultMatrices { to, dense } = ResultMatrices::new(view, dtype, lead)?;
            converted.extend(dense);
            Ok(Some(to))
        };
        let to = [
            result(dq, lead)?,
            result(dk, lead_kv)?,
            result(dv, lead_kv)?,
        ];
        let out = AttentionMatrices::new(out, dtype, lead)?;
        let of = AttentionOperands::new([q, k, v, mask], out, lse, (sizes, dtype))?;
        let g = AttentionMatrices::new(g, dtype, lead)?;
        Ok((AttentionGradients { of, g, to }, converted))
    }

    /// The gradients that a share of a head gives.
    pub fn wanted(&self, [queries, keys]: [bool; 2]) -> [Option<&AttentionMatrices<T>>; 3] {
        let [dq, dk, dv] = self.to.each_ref().map(Option::as_ref);
        [
            dq.filter(|_| queries),
            dk.filter(|_| keys),
            dv.filter(|_| keys),
        ]
    }

    /// Writes some queries' products of gradient and result, summed over the row, each to its place from `to` on.
    ///
    /// # Safety
    /// `to` must have room for those of all queries.
    pub unsafe fn deltas(&self, head: usize, some: Range<usize>, to: *mut T) {
        let d = self.of.sizes.d;
        let (g, out) = (self.g.head(head), self.of.out.head(head));
        for i in some.start as isize..some.end as isize {
            let g = g.wrapping_offset(i * self.g.steps[0]);
            let out = out.wrapping_offset(i * self.of.out.steps[0]);
            let steps = [self.g.steps[1], self.of.out.steps[1]];
            // SAFETY: the caller's promise.
            unsafe { *to.wrapping_offset(i) = passes::dot(g, out, steps, d) };
        }
    }

    /// What a head of key and value and its first query's head read.
    pub fn prefetches(&self, kv: usize) -> [Prefetch; 5] {
        let AttentionSizes { l, e, d, group, .. } = *self.of.sizes;
        let seen = self.of.sizes.seen();
        [
            self.of.k.prefetches(kv, 0, [seen, e]),
            self.of.v.prefetches(kv, 0, [seen, d]),
            self.of.q.prefetches(kv * group, 0, [l, e]),
            self.g.prefetches(kv * group, 0, [l, d]),
            self.of.out.prefetches(kv * group, 0, [l, d]),
        ]
    }

    /// Writes sums of `n` columns, `ld` apart, to the gradients of some keys or values of a head, unless they are there
    /// already; 0 for keys that no query sees.
    ///
    /// # Safety
    /// The keys must be nobody else's, and the sums be there.
    pub unsafe fn put(
        &self,
        result: &AttentionMatrices<T>,
        (kv, some): (usize, Range<usize>),
        (from, ld): (*mut T, usize),
        n: usize,
    ) {
        let out = result
            .head(kv)
            .wrapping_offset(some.start as isize * result.steps[0]);
        let seen = some.end.min(self.of.sizes.seen());
        let rows = MatrixRows {
            from: from.wrapping_add(some.start * ld).cast_const(),
            steps: [ld as isize, 1],
            sizes: [seen.saturating_sub(some.start), n],
            factor: T::ONE,
            factors: std::ptr::null(),
        };
        // SAFETY: the caller's promise.
        unsafe {
            if from != result.head(kv) {
                copy_rows(&rows, out, result.steps);
            }
            for r in rows.sizes[0]..some.len() {
                for c in 0..n as isize {
                    let at = r as isize * result.steps[0] + c * result.steps[1];
                    *out.wrapping_offset(at) = T::ZERO;
                }
            }
        }
    }
}

/// An algorithm for the gradients, with its operands.
pub(super) trait BackwardPass: Sync {
    /// Products of a query, a key and a column that are worth a thread of their own.
    const GRAIN: usize;

    fn sizes(&self) -> &AttentionSizes;
    /// Bytes of a thread's memory.
    fn bytes(&self) -> usize;
    /// The gradients that a head of key and value takes part in: those of its queries, and those
    /// of its keys and values; of its share of the blocks. Fetches what the next head reads first.
    ///
    /// # Safety
    /// `at` must be a thread's memory, and the blocks be nobody else's.
    unsafe fn head(&self, x: &OfHead, at: *mut u8);
}

/// Computes the gradients.
pub(super) fn backward<B: BackwardPass>(call: &B) -> Result<()> {
    let sizes = call.sizes();
    let heads = sizes.heads_kv();
    let work = sizes.group * sizes.l * sizes.seen() * (sizes.e + sizes.d);
    let enough = heads.saturating_mul(work) > B::GRAIN;
    let threads = match enough && !pool::in_parallel() {
        true => pool::num_threads(),
        false => 1,
    };
    let each = call.bytes();
    let scratch = Scratch::<u8>::new(threads * each)?;
    let start = Ptr::new(scratch.ptr());
    by_heads(heads, threads, &|x| {
        // SAFETY: the operands have the sizes that the record planned, the scratch memory what the
        // algorithm asks for; each call writes rows of its own.
        unsafe { call.head(&x, start.at((x.part * each) as isize)) };
    });
    Ok(())
}

/// Heads of which each thread takes the next one as it becomes free: one core may be slower than
/// another. What is computed for a head does not depend on who does it.
pub(super) struct Queue {
    next: AtomicUsize,
    end: usize,
}

impl Queue {
    pub fn new(end: usize) -> Queue {
        Queue {
            next: AtomicUsize::new(0),
            end,
        }
    }

    pub fn take(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&head| head < self.end)
    }
}

/// The head, and the block of its queries, of an item of a call with so many blocks. Early blocks see fewer
/// keys: an early and a late one by turns.
fn block_of(item: usize, blocks: usize) -> (usize, usize) {
    let (head, nth) = (item / blocks, item % blocks);
    let block = match nth % 2 {
        0 => nth / 2,
        _ => blocks - 1 - nth / 2,
    };
    (head, block)
}

/// Calls `run` with a part, some items, and the first of those that come after them where that is known:
/// units of items as threads become free, or where there are few as many items for each.
fn in_units(
    [items, unit, parts]: [usize; 3],
    run: &(dyn Fn(usize, Range<usize>, Option<usize>) + Sync),
) {
    if items < 2 * parts * unit {
        return pool::parallel_parts(items, parts, &|part, range| run(part, range, None));
    }
    let queue = Queue::new(items / unit);
    pool::parallel_parts(parts, parts, &|part, _| {
        let mut mine = queue.take();
        while let Some(nth) = mine {
            mine = queue.take();
            run(
                part,
                nth * unit..(nth + 1) * unit,
                mine.map(|nth| nth * unit),
            );
        }
    });
}

/// A head's share of gradients: the part whose memory it has, the head and the one after it, whether those of
/// queries and of keys, and the `i`-th of every `n` blocks.
pub(super) struct OfHead {
    part: usize,
    pub head: usize,
    pub next: Option<usize>,
    pub of: [bool; 2],
    pub blocks: [usize; 2],
}

impl OfHead {
    /// The first key of each of its blocks of some of `n` keys.
    pub fn keys(&self, n: usize, some: usize) -> impl Iterator<Item = usize> {
        self.blocks_of(n, some, self.of[0])
    }

    /// The first query of each of its blocks of some of `n` queries.
    pub fn queries(&self, n: usize, some: usize) -> impl Iterator<Item = usize> {
        self.blocks_of(n, some, self.of[1])
    }

    fn blocks_of(&self, n: usize, some: usize, all: bool) -> impl Iterator<Item = usize> {
        let [part, parts] = self.blocks;
        (0..n)
            .step_by(some)
            .filter(move |&i| all || i / some % parts == part)
    }
}

/// Calls `run` with whole heads while there are enough for all threads; what is left over is split
/// inside of the heads.
fn by_heads(heads: usize, threads: usize, run: &(dyn Fn(OfHead) + Sync)) {
    let whole = heads / threads * threads;
    let queue = Queue::new(whole);
    pool::parallel_parts(threads, threads, &|part, _| {
        let mut mine = queue.take();
        while let Some(head) = mine {
            mine = queue.take();
            run(OfHead {
                part,
                head,
                next: mine,
                of: [true, true],
                blocks: [0, 1],
            });
        }
    });
    for head in whole..heads {
        pool::parallel_parts(threads, threads, &|part, _| {
            for of in [[true, false], [false, true]] {
                run(OfHead {
                    part,
                    head,
                    next: None,
                    of,
                    blocks: [part, threads],
                });
            }
        });
    }
}
