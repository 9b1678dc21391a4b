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
//! Query `i` stands at key `past + i` and sees the keys from `left` before to `right` after that one: causal attention
//! has `right` 0, a decoder's cache a `past`, a sliding window a `left`.
//!
//! Real floating-point types; the half types compute in float32. A query that sees no key gives 0
//! (and has positive infinity as its logarithm). Each number comes from the same operations
//! whatever the number of threads.

#[cfg(target_arch = "x86_64")]
mod amx;
mod backward;
pub(crate) mod blocks;
pub(crate) mod choose;
mod drive;
mod forward;
mod operand;
mod passes;
mod rows;
mod scores;
#[cfg(feature = "unit-tests")]
mod tests;
mod tile;

use torsh_core::{DType, Kernel, KernelArgs, Result, attrs, pool};

use choose::{AttentionAlgorithm, AttentionProblem};

use crate::machine::choice::pick;
use crate::memory::dense::wide;
use crate::memory::operands::missing;

pub(crate) fn attention(args: &KernelArgs<'_>) -> Result<()> {
    let forward = args.kernel() == Kernel::Attention;
    let (&[out, ..], &[_, _, _, mask, ..]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let result = match (forward, args.inputs()) {
        (true, _) => out,
        (false, &[.., out, _]) => out,
        _ => return Err(missing()),
    };
    let sizes = AttentionSizes::new(args, result.shape())?;
    let problem = AttentionProblem {
        dtype: wide(args.compute()),
        backward: !forward,
        l: sizes.l,
        s: sizes.s,
        group: sizes.group,
        e: sizes.e,
        d: sizes.d,
        masked: mask.is_present(),
        window: sizes.from.is_some() || sizes.reach.is_some_and(|n| n > 0),
    };
    match pick::<AttentionAlgorithm>(&problem, pool::num_threads()) {
        #[cfg(target_arch = "x86_64")]
        AttentionAlgorithm::Amx if amx::run(args, &sizes)? => return Ok(()),
        AttentionAlgorithm::Rows => {
            return match wide(args.compute()) {
                DType::F32 => rows::run::<f32>(args, &sizes, DType::F32),
                DType::F64 => rows::run::<f64>(args, &sizes, DType::F64),
                _ => Err(args.unsupported()),
            };
        }
        _ => {}
    }
    match (wide(args.compute()), forward) {
        (DType::F32, true) => forward::run::<f32>(args, &sizes, DType::F32),
        (DType::F64, true) => forward::run::<f64>(args, &sizes, DType::F64),
        (DType::F32, false) => backward::run::<f32>(args, &sizes, DType::F32),
        (DType::F64, false) => backward::run::<f64>(args, &sizes, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// The sizes of one call.
struct AttentionSizes {
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
    /// Query `i` sees keys up to key `i + reach`; all where it is `None`.
    reach: Option<usize>,
    /// Query `i` sees keys from key `i + from` on; all where it is `None`.
    from: Option<isize>,
    scale: f64,
}

impl AttentionSizes {
    /// From the arguments and the result's sizes.
    fn new(args: &KernelArgs<'_>, result: &[usize]) -> Result<AttentionSizes> {
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
            past,
            left,
            right,
            scale,
            enable_gqa: grouped,
        } = match args.kernel() {
            Kernel::Attention => args.attrs::<attrs::Attention>()?.clone(),
            _ => args.attrs::<attrs::AttentionBackward>()?.forward(),
        };
        let heads = k.shape().len().checked_sub(3).map(|h| k.shape()[h]);
        let heads = heads.filter(|_| grouped);
        let (lead_kv, group) = shared_heads(lead, heads).ok_or_else(missing)?;
        if [l, s, e, d].contains(&0) {
            return Err(missing());
        }
        Ok(AttentionSizes {
            lead: lead.to_vec(),
            lead_kv,
            group,
            l,
            s,
            e,
            d,
            reach: right.map(|right| past + right),
            from: left.map(|left| past as isize - left as isize),
            scale,
        })
    }

    /// How many heads of key and value there are in all.
    fn heads_kv(&self) -> usize {
        self.lead_kv.iter().product()
    }

    /// How many keys some query sees.
    fn seen(&self) -> usize {
        self.reach
            .map_or(self.s, |reach| self.s.min(self.l + reach))
    }
}

/// What is ahead of the last two dimensions of key and value, with so many heads where the query's share them, and heads of
/// the query for each of theirs. `None` where they do not divide the query's.
fn shared_heads(lead: &[usize], heads: Option<usize>) -> Option<(Vec<usize>, usize)> {
    let mut lead_kv = lead.to_vec();
    let (Some(last), Some(heads)) = (lead_kv.last_mut(), heads) else {
        return Some((lead_kv, 1));
    };
    if heads == 0 || !last.is_multiple_of(heads) {
        return None;
    }
    let group = *last / heads;
    *last = heads;
    Some((lead_kv, group))
}
