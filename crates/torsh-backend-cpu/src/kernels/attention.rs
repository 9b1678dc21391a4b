//! Attention without a matrix of scores: blocks of queries against blocks of keys, whose scores
//! stay in the cache, with the running maximum and sum of each query (T. Dao et al.,
//! "FlashAttention", 2022).
//!
//! | key | inputs | outputs |
//! |---|---|---|
//! | `Attention` | query, key, value, optional mask | result, and log of each query's sum |
//! | `AttentionBackward` | query, key, value, optional mask, gradient, result, log of the sums | gradients of query, key, value, each where wanted |
//!
//! Query `[.., l, e]`, key `[.., s, e]`, value `[.., s, d]`, no size of them 0; what is ahead
//! broadcasts to the result's, as the mask does to `[.., l, s]`. With `enable_gqa`, dimension -3 of
//! key and value divides the query's. The mask is bool, true where a key counts, or real and added.
//!
//! Real floating-point types; the half types compute in float32. A query that sees no key gives 0
//! (and has positive infinity as its logarithm). Each number comes from the same operations
//! whatever the number of threads.

#[cfg(target_arch = "x86_64")]
mod amx;
mod backward;
pub(crate) mod choose;
mod forward;
mod number;
mod operand;
mod scores;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use torsh_core::{DType, Kernel, KernelArgs, KernelFn, Result, attrs, pool};

#[cfg(target_arch = "x86_64")]
use choose::{AttentionAlgorithm, AttentionProblem};

#[cfg(target_arch = "x86_64")]
use crate::machine::choice::pick;
use crate::memory::dense::{missing, wide};

/// The kernel for a key of this module.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    match k {
        Kernel::Attention | Kernel::AttentionBackward => Some(attention),
        _ => None,
    }
}

fn attention(args: &KernelArgs<'_>) -> Result<()> {
    let forward = args.kernel() == Kernel::Attention;
    let (&[out, ..], &[_, _, _, mask, ..]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let result = match (forward, args.inputs()) {
        (true, _) => out,
        (false, &[.., out, _]) => out,
        _ => return Err(missing()),
    };
    let sizes = Sizes::new(args, result.shape())?;
    #[cfg(target_arch = "x86_64")]
    {
        let problem = AttentionProblem {
            dtype: wide(args.compute()),
            backward: !forward,
            l: sizes.l,
            s: sizes.s,
            e: sizes.e,
            d: sizes.d,
            masked: mask.is_present(),
        };
        let chosen = pick::<AttentionAlgorithm>(&problem, pool::num_threads());
        if chosen == AttentionAlgorithm::Amx && amx::run(args, &sizes)? {
            return Ok(());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = mask;
    match (wide(args.compute()), forward) {
        (DType::F32, true) => forward::run::<f32>(args, &sizes, DType::F32),
        (DType::F64, true) => forward::run::<f64>(args, &sizes, DType::F64),
        (DType::F32, false) => backward::run::<f32>(args, &sizes, DType::F32),
        (DType::F64, false) => backward::run::<f64>(args, &sizes, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// Heads of which each thread takes the next one as it becomes free: one core may be slower than
/// another. What is computed for a head does not depend on who does it.
struct Queue {
    next: AtomicUsize,
    end: usize,
}

impl Queue {
    fn new(end: usize) -> Queue {
        Queue {
            next: AtomicUsize::new(0),
            end,
        }
    }

    fn take(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&head| head < self.end)
    }
}

/// The sizes of one call.
struct Sizes {
    /// What is ahead of the last two dimensions of the result.
    lead: Vec<usize>,
    /// The same of key and value.
    lead_kv: Vec<usize>,
    /// Heads of the query for each of key and value.
    group: usize,
    l: usize,
    s: usize,
    e: usize,
    d: usize,
    causal: bool,
    scale: f64,
}

impl Sizes {
    /// From the arguments and the result's sizes.
    fn new(args: &KernelArgs<'_>, result: &[usize]) -> Result<Sizes> {
        let [q, k, ..] = args.inputs() else {
            return Err(missing());
        };
        let &[ref lead @ .., l, d] = result else {
            return Err(missing());
        };
        let (&[.., e], &[.., s, _]) = (q.shape(), k.shape()) else {
            return Err(missing());
        };
        let attrs::Attention {
            is_causal: causal,
            scale,
            enable_gqa: grouped,
        } = match args.kernel() {
            Kernel::Attention => args.attrs::<attrs::Attention>()?.clone(),
            _ => args.attrs::<attrs::AttentionBackward>()?.forward(),
        };
        let heads = k.shape().len().checked_sub(3).map(|h| k.shape()[h]);
        let mut lead_kv = lead.to_vec();
        let mut group = 1;
        if let (true, Some(last), Some(heads)) = (grouped, lead_kv.last_mut(), heads) {
            if heads == 0 || !last.is_multiple_of(heads) {
                return Err(missing());
            }
            group = *last / heads;
            *last = heads;
        }
        if [l, s, e, d].contains(&0) {
            return Err(missing());
        }
        Ok(Sizes {
            lead: lead.to_vec(),
            lead_kv,
            group,
            l,
            s,
            e,
            d,
            causal,
            scale,
        })
    }

    /// How many heads of key and value there are in all.
    fn heads_kv(&self) -> usize {
        self.lead_kv.iter().product()
    }

    /// How many keys some query sees.
    fn seen(&self) -> usize {
        if self.causal {
            self.s.min(self.l)
        } else {
            self.s
        }
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
struct OfHead {
    part: usize,
    head: usize,
    next: Option<usize>,
    of: [bool; 2],
    blocks: [usize; 2],
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
