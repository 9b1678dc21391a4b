//! Attention over the blocks of 64 queries by 64 keys that a mask stores: what is not stored costs nothing, and what is
//! stored in part is masked inside.
//!
//! | key | inputs | outputs |
//! |---|---|---|
//! | [`BLOCKS`] | query, key, value, blocks, parts | result, and log of each query's sum |
//! | [`BLOCKS_BACKWARD`] | query, key, value, blocks, parts, gradient, result, log of the sums | gradients of query, key, value, each where wanted |
//!
//! Query `[.., l, e]`, key `[.., s, e]`, value `[.., s, d]` as for `Attention`. `blocks` is int64 `[n, 3]`, a row for each
//! stored block: its place among the blocks of queries of all planes of the mask, its block of keys, and its row of
//! `parts`, or -1 where all of it is seen; in order of the first two. `parts` is int64 `[m, 64]`: for each query of a block a
//! word with a bit for each key, 1 where it counts. The last blocks of a plane may reach beyond the last query and key.
//!
//! The kernels rely on none of this, but check it. A query that sees no key gives 0 (and has positive infinity as its
//! logarithm). Each number comes from the same operations whatever the number of threads.

mod backward;
mod forward;
#[cfg(feature = "unit-tests")]
mod tests;

use std::ops::Range;

use torsh_core::kernel::KernelKey;
use torsh_core::{DType, KernelArgs, Result, TorshError, View, attrs};

use super::scores::{ScoreNumber, Scores};
use super::tile::{KeyRun, KeyTile};
use super::{AttentionSizes, passes, shared_heads};
use crate::kernels::panels::CausalBand;
use crate::memory::dense::{Dense, wide};
use crate::memory::operands::missing;

/// Queries, and keys, of a block.
const BLOCK: usize = 64;

/// Attention over stored blocks.
// SAFETY: the kernel checks what it is called with.
pub static BLOCKS: KernelKey =
    unsafe { KernelKey::new("AttentionBlocks", "torsh-backend-cpu").with_cpu(results) };

/// Its gradients.
// SAFETY: the kernel checks what it is called with.
pub static BLOCKS_BACKWARD: KernelKey =
    unsafe { KernelKey::new("AttentionBlocksBackward", "torsh-backend-cpu").with_cpu(gradients) };

fn results(args: &KernelArgs<'_>) -> Result<()> {
    let (&[out, lse], &[q, k, v, blocks, parts]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let a = args.attrs::<attrs::AttentionBlocks>()?;
    let dtype = wide(args.compute());
    let sizes = sizes([&q, &k, &v], out.shape(), a)?;
    logarithms(&lse, &sizes, dtype)?;
    let stored = StoredBlocks::new([&blocks, &parts], a, &sizes)?;
    let (outputs, inputs) = ([&out, &lse], [&q, &k, &v, &View::ABSENT]);
    match dtype {
        DType::F32 => forward::run::<f32>(outputs, inputs, (&sizes, dtype), &stored),
        DType::F64 => forward::run::<f64>(outputs, inputs, (&sizes, dtype), &stored),
        _ => Err(args.unsupported()),
    }
}

fn gradients(args: &KernelArgs<'_>) -> Result<()> {
    let (outputs, inputs) = (args.outputs(), args.inputs());
    let (&[dq, dk, dv], &[q, k, v, blocks, parts, g, out, lse]) = (outputs, inputs) else {
        return Err(missing());
    };
    let a = args.attrs::<attrs::AttentionBlocksBackward>()?;
    let dtype = wide(args.compute());
    let forward = a.forward();
    let sizes = sizes([&q, &k, &v], out.shape(), &forward)?;
    logarithms(&lse, &sizes, dtype)?;
    if g.shape() != out.shape() || !g.is_present() || !out.is_present() {
        return Err(wrong("a gradient of another shape than the result's"));
    }
    let AttentionSizes { l, s, e, d, .. } = sizes;
    for (wanted, result, lead, rows, columns) in [
        (a.query_grad, &dq, &sizes.lead, l, e),
        (a.key_grad, &dk, &sizes.lead_kv, s, e),
        (a.value_grad, &dv, &sizes.lead_kv, s, d),
    ] {
        if wanted && result.shape() != [lead, &[rows, columns][..]].concat() {
            return Err(wrong("room of another shape for a gradient"));
        }
    }
    let stored = StoredBlocks::new([&blocks, &parts], &forward, &sizes)?;
    let wanted = [(a.query_grad, &dq), (a.key_grad, &dk), (a.value_grad, &dv)]
        .map(|(wanted, to)| wanted.then_some(to));
    let inputs = [&q, &k, &v, &View::ABSENT, &g, &out, &lse];
    match dtype {
        DType::F32 => backward::run::<f32>(wanted, inputs, (&sizes, dtype), &stored),
        DType::F64 => backward::run::<f64>(wanted, inputs, (&sizes, dtype), &stored),
        _ => Err(args.unsupported()),
    }
}

#[cold]
fn wrong(what: &str) -> TorshError {
    TorshError::invalid("", format!("attention over blocks was called with {what}"))
}

/// The sizes of a call, once they are known to fit.
fn sizes(
    inputs: [&View<'_>; 3],
    result: &[usize],
    a: &attrs::AttentionBlocks,
) -> Result<AttentionSizes> {
    let floats = |v: &View<'_>| v.is_present() && v.dtype().is_floating_point();
    if !inputs.iter().all(|v| floats(v)) {
        return Err(wrong("operands that are no real numbers"));
    }
    let [q, k, v] = inputs.map(View::shape);
    let &[ref lead @ .., l, d] = result else {
        return Err(missing());
    };
    let (&[ref ahead_q @ .., l_q, e], &[ref ahead_k @ .., s, e_k]) = (q, k) else {
        return Err(missing());
    };
    let &[ref ahead_v @ .., s_v, d_v] = v else {
        return Err(missing());
    };
    if l_q != l || e_k != e || s_v != s || d_v != d {
        return Err(wrong("query, key and value whose sizes do not agree"));
    }
    let heads = ahead_k.last().copied().filter(|_| a.enable_gqa);
    let (lead_kv, group) = shared_heads(lead, heads)
        .ok_or_else(|| wrong("heads of keys that do not divide the queries'"))?;
    let fits = |own: &[usize], to: &[usize]| {
        let sizes = own.iter().rev().zip(to.iter().rev());
        own.len() <= to.len() && sizes.into_iter().all(|(n, to)| n == to || *n == 1)
    };
    if !fits(ahead_q, lead) || !fits(ahead_k, &lead_kv) || !fits(ahead_v, &lead_kv) {
        return Err(wrong("query, key and value that do not broadcast"));
    }
    Ok(AttentionSizes {
        lead: lead.to_vec(),
        lead_kv,
        group,
        l,
        s,
        e,
        d,
        reach: None,
        from: None,
        scale: a.scale,
    })
}

/// Checks the logarithms of the sums, which are read and written as row-major numbers of the dtype.
fn logarithms(lse: &View<'_>, sizes: &AttentionSizes, dtype: DType) -> Result<()> {
    let shape = [&sizes.lead, &[sizes.l][..]].concat();
    match lse.is_present() && lse.shape() == shape && lse.dtype() == dtype && lse.is_contiguous() {
        true => Ok(()),
        false => Err(wrong("logarithms of sums that are not row-major")),
    }
}

/// A stored block: its place among the blocks of keys, or of queries where they are listed by those of keys, and its
/// row of bits where it is stored in part.
#[derive(Clone, Copy, Debug)]
struct StoredBlock {
    at: usize,
    part: Option<usize>,
}

/// Stored blocks, listed by those of queries or by those of keys.
struct BlockLists {
    /// Lists of a plane.
    lines: usize,
    /// Where each list starts, plane by plane.
    starts: Vec<usize>,
    stored: Vec<StoredBlock>,
}

impl BlockLists {
    /// A list, in order of the blocks' places.
    fn line(&self, plane: usize, line: usize) -> &[StoredBlock] {
        let line = plane * self.lines + line;
        &self.stored[self.starts[line]..self.starts[line + 1]]
    }
}

/// Which blocks a mask stores.
struct StoredBlocks {
    batch: usize,
    heads: usize,
    /// Heads of the query in each batch.
    of_query: usize,
    /// Blocks of queries and of keys of a plane.
    sides: [usize; 2],
    by_queries: BlockLists,
    parts: Dense,
}

impl StoredBlocks {
    fn new(
        [blocks, parts]: [&View<'_>; 2],
        a: &attrs::AttentionBlocks,
        sizes: &AttentionSizes,
    ) -> Result<StoredBlocks> {
        let (batch, heads) = (a.mask_batch, a.mask_heads);
        let (of_query, batches) = match sizes.lead.split_last() {
            Some((heads, ahead)) => (*heads, ahead.iter().product()),
            None => (1, 1),
        };
        if ![1, batches].contains(&batch) || ![1, of_query].contains(&heads) {
            return Err(wrong("a mask of other batches or heads"));
        }
        let present = blocks.is_present() && parts.is_present();
        let (&[n, 3], &[m, BLOCK]) = (blocks.shape(), parts.shape()) else {
            return Err(wrong("blocks that are not [n, 3], or parts not [m, 64]"));
        };
        if !present || blocks.dtype() != DType::I64 || parts.dtype() != DType::I64 {
            return Err(wrong("blocks or parts that are not int64"));
        }
        let sides = [sizes.l, sizes.s].map(|n| n.div_ceil(BLOCK));
        let rows = (batch * heads)
            .checked_mul(sides[0])
            .ok_or_else(|| wrong("too many planes"))?;
        let (from, parts) = (
            Dense::new(blocks, DType::I64)?,
            Dense::new(parts, DType::I64)?,
        );
        let from = from.ptr::<i64>();
        let mut starts = vec![0; rows + 1];
        let mut stored = Vec::with_capacity(n);
        let mut last = None;
        for i in 0..n as isize {
            // SAFETY: there are so many rows of three.
            let [row, at, part] = [0, 1, 2].map(|c| unsafe { *from.at(3 * i + c) });
            let place = usize::try_from(row).ok().zip(usize::try_from(at).ok());
            let Some((row, at)) = place.filter(|&(row, at)| row < rows && at < sides[1]) else {
                return Err(wrong("a block outside of the mask"));
            };
            if last.is_some_and(|last| last >= (row, at)) {
                return Err(wrong("blocks that are not in order"));
            }
            last = Some((row, at));
            let part = match part {
                -1 => None,
                _ => match usize::try_from(part).ok().filter(|&part| part < m) {
                    Some(part) => Some(part),
                    None => return Err(wrong("a block whose part is not there")),
                },
            };
            starts[row + 1] += 1;
            stored.push(StoredBlock { at, part });
        }
        (0..rows).for_each(|row| starts[row + 1] += starts[row]);
        Ok(StoredBlocks {
            batch,
            heads,
            of_query,
            sides,
            by_queries: BlockLists {
                lines: sides[0],
                starts,
                stored,
            },
            parts,
        })
    }

    /// The mask's plane of a head of the query.
    fn plane(&self, head: usize) -> usize {
        let [batch, head] = [head / self.of_query, head % self.of_query];
        let batch = if self.batch == 1 { 0 } else { batch };
        let head = if self.heads == 1 { 0 } else { head };
        batch * self.heads + head
    }

    /// Those that an item sees: a block of queries, counted through all heads.
    fn seen_by(&self, item: usize) -> &[StoredBlock] {
        let rows = self.by_queries.lines;
        self.by_queries.line(self.plane(item / rows), item % rows)
    }

    /// The same blocks, listed by those of keys.
    fn by_keys(&self) -> BlockLists {
        let [rows, columns] = self.sides;
        let planes = self.batch * self.heads;
        let each = || {
            let rows = (0..planes * rows).map(move |n| (n / rows, n % rows));
            rows.flat_map(move |(plane, row)| {
                let blocks = self.by_queries.line(plane, row).iter();
                blocks.map(move |b| (plane * columns + b.at, row, b.part))
            })
        };
        let mut starts = vec![0; planes * columns + 1];
        each().for_each(|(line, ..)| starts[line + 1] += 1);
        (0..planes * columns).for_each(|line| starts[line + 1] += starts[line]);
        let mut next = starts.clone();
        let mut stored = self.by_queries.stored.clone();
        for (line, at, part) in each() {
            stored[next[line]] = StoredBlock { at, part };
            next[line] += 1;
        }
        BlockLists {
            lines: columns,
            starts,
            stored,
        }
    }

    /// Hides what `rows` queries do not see of some blocks, whose scores lie side by side in rows of `ld`.
    ///
    /// # Safety
    /// The scores must be there.
    unsafe fn hide<T: ScoreNumber>(
        &self,
        blocks: &[StoredBlock],
        rows: usize,
        s: usize,
        (scores, ld): (*mut T, usize),
    ) {
        for (n, b) in blocks.iter().enumerate() {
            if let Some(part) = b.part {
                let keys = block_range(b.at, s).len();
                let scores = scores.wrapping_add(n * BLOCK);
                // SAFETY: the caller's promise; parts were checked to be there.
                unsafe { passes::hide((scores, ld), self.bits(part), [rows, keys]) };
            }
        }
    }

    /// A word of bits for each query of a block that is stored in part.
    fn bits(&self, part: usize) -> *const u64 {
        let at = self.parts.ptr::<u64>().at((part * BLOCK) as isize);
        at.cast_const()
    }
}

/// The queries or keys of a block, of `n` in all.
fn block_range(block: usize, n: usize) -> Range<usize> {
    block * BLOCK..n.min((block + 1) * BLOCK)
}

/// Keys of some blocks of a row, the last of which may reach beyond the last of `s` keys.
fn keys_of(blocks: &[StoredBlock], s: usize) -> usize {
    blocks.iter().map(|b| block_range(b.at, s).len()).sum()
}

/// Those that lie next to each other.
fn runs(blocks: &[StoredBlock], s: usize) -> impl Iterator<Item = KeyRun> {
    let mut end = 0;
    blocks.chunk_by(|a, b| a.at + 1 == b.at).map(move |run| {
        let column = end;
        end += run.len() * BLOCK;
        KeyRun {
            column,
            first: run[0].at * BLOCK,
            keys: keys_of(run, s),
        }
    })
}

/// Some stored blocks of a row, of `s` keys in all.
struct StoredKeys<'a> {
    stored: &'a StoredBlocks,
    blocks: &'a [StoredBlock],
    s: usize,
}

impl<T: ScoreNumber> KeyTile<T> for StoredKeys<'_> {
    fn runs(&self) -> impl Iterator<Item = KeyRun> {
        runs(self.blocks, self.s)
    }

    fn band(&self, _: fn(isize) -> CausalBand) -> CausalBand {
        CausalBand::All
    }

    unsafe fn scores(&self, rows: usize, at: *mut T, ld: usize) -> Scores<T> {
        let &StoredKeys { stored, blocks, s } = self;
        // SAFETY: the caller's promise.
        unsafe { stored.hide(blocks, rows, s, (at, ld)) };
        Scores {
            rows,
            keys: keys_of(blocks, s),
            reach: isize::MAX,
            from: isize::MIN,
            at,
            ld,
        }
    }
}

/// Which blocks of a head a thread has packed.
struct PackedBlocks {
    head: Option<usize>,
    blocks: Vec<bool>,
}

impl PackedBlocks {
    fn new(blocks: usize) -> PackedBlocks {
        PackedBlocks {
            head: None,
            blocks: vec![false; blocks],
        }
    }

    /// Goes on to a head: the memory is that of another one's blocks, if it is not the same.
    fn of_head(&mut self, head: usize) {
        if self.head != Some(head) {
            self.head = Some(head);
            self.blocks.fill(false);
        }
    }

    fn has(&self, block: usize) -> bool {
        self.blocks[block]
    }

    /// Marks a block, and says whether it was not there.
    fn add(&mut self, block: usize) -> bool {
        !std::mem::replace(&mut self.blocks[block], true)
    }
}

/// Ranges of items whose weights add up to about as much, in about so many `shares`: where each ends.
fn shares(weights: impl Iterator<Item = usize> + Clone, shares: usize) -> Vec<Range<usize>> {
    let total: usize = weights.clone().sum();
    let (mut ranges, mut sum, mut first) = (Vec::with_capacity(shares), 0, 0);
    let mut end = 0;
    for weight in weights {
        sum += weight;
        end += 1;
        if sum as u128 * shares as u128 >= (ranges.len() + 1) as u128 * total as u128 {
            ranges.push(first..end);
            first = end;
        }
    }
    if first < end {
        ranges.push(first..end);
    }
    ranges
}
