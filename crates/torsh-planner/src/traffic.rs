//! The bytes that a step sends, exactly.

use std::collections::BTreeMap;

use serde::Serialize;
use torsh_tensor::{Result, TorshError};

use crate::gpt::ModelPlan;
use crate::model::Reduction;
use crate::options::{Parallelism, StepOptions};

/// Up to so many bytes every rank sends all that it has to every other one.
const SMALL: usize = 16 << 10;
/// Larger reductions go in chunks of so many bytes, each in a piece for every rank.
const CHUNK: usize = 4 << 20;

/// What one kind of operation does on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Operations.
    pub operations: u64,
    /// Bytes sent to other ranks.
    pub bytes_sent: u64,
    /// Bytes received from other ranks.
    pub bytes_received: u64,
}

impl Traffic {
    fn add(&mut self, operations: u64, bytes: usize) {
        self.operations += operations;
        // What is sent and received is the same in these operations.
        self.bytes_sent += bytes as u64;
        self.bytes_received += bytes as u64;
    }
}

/// What a rank sends in a step, by kind, as `CommStats` counts it.
pub type StepTraffic = BTreeMap<String, Traffic>;

/// Bytes that rank `rank` of `n` sends (and receives) to reduce `bytes` of float32 on all.
fn all_reduce(bytes: usize, n: usize, rank: usize, reduction: Reduction) -> usize {
    if n == 1 {
        return 0;
    }
    if reduction == Reduction::Engine {
        return 2 * (bytes - bytes / n);
    }
    if bytes <= SMALL {
        return bytes * (n - 1);
    }
    let chunks = (0..bytes).step_by(CHUNK).map(|at| CHUNK.min(bytes - at));
    let each = |chunk: usize| {
        let elements = (chunk / 4) as u128;
        let start = |r: usize| (elements * r as u128 / n as u128) as usize;
        let own = 4 * (start(rank + 1) - start(rank));
        // The others' pieces to them, and the own sum to all.
        (chunk - own) + own * (n - 1)
    };
    chunks.map(each).sum()
}

/// The bytes that rank `rank` sends and receives in a step with `DistributedDataParallel`
/// (`shard` 1) or `fully_shard` of each layer, by kind of operation. Gradients of replicas are taken to
/// come in the reverse of the parameters' order; where they come in another one, buckets end at other places and the figures
/// differ by a few bytes for each rank.
///
/// # Errors
/// Tensor and pipeline parallel, whose bytes depend on what layers compute; a rank that is not on the mesh; numbers that do
/// not go together.
///
/// ```
/// use torsh_planner::{ModelPlan, Parallelism, StepOptions, traffic};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-125m")?;
/// let options = StepOptions { batch: 2, ..StepOptions::default() };
/// let step = traffic(&model, Parallelism::data(2), &options, 0)?;
/// // Half of the gradients go out, and half of the sums.
/// let gradients = 4 * model.parameters() as u64;
/// assert_eq!(step["all_reduce"].bytes_sent, gradients);
/// # Ok(()) }
/// ```
#[torsh_tensor::names_caller]
pub fn traffic(
    model: &ModelPlan,
    mesh: Parallelism,
    options: &StepOptions,
    rank: usize,
) -> Result<StepTraffic> {
    const OP: &str = "plan::traffic";
    let micros = options.micros(model, mesh)?;
    if mesh.tensor > 1 || mesh.pipeline > 1 || rank >= mesh.ranks() {
        let text = format!("rank {rank} of {mesh}: ranks of dp and shard alone are counted");
        return Err(TorshError::invalid(OP, text));
    }
    let mut step = StepTraffic::new();
    let reduction = options.reduction;
    if mesh.shard == 1 {
        let shapes = model
            .layers
            .iter()
            .rev()
            .flat_map(|l| l.shapes.iter().rev());
        let gradients = shapes.map(|shape| 4 * shape.iter().product::<usize>());
        let all = reduced(gradients, options, mesh.replicate, rank);
        step.insert("all_reduce".to_string(), all);
        return Ok(step);
    }
    let (shards, replicas) = (mesh.shard, mesh.replicate);
    for layer in &model.layers {
        // Elements of the largest piece of each parameter, which all pieces are filled up to.
        let rooms = layer.shapes.iter().map(|shape| {
            let rows = shape.first().copied().unwrap_or(1).div_ceil(shards);
            rows * shape.iter().skip(1).product::<usize>()
        });
        let rooms: Vec<usize> = rooms.filter(|&r| r > 0).collect();
        if rooms.is_empty() {
            continue;
        }
        let mut count = |kind: &str, operations: usize, bytes: usize| {
            let entry = step.entry(kind.to_string()).or_default();
            entry.add((operations * micros) as u64, bytes * micros);
        };
        let all: usize = rooms.iter().sum();
        let times = if options.reshard_after_forward { 2 } else { 1 };
        let gathered = times * all * options.compute_bytes * (shards - 1);
        count("all_gather_into_coalesced", times, gathered);
        match (replicas, reduction) {
            (1, _) => {
                let bytes = 4 * all * (shards - 1);
                count("reduce_scatter_coalesced", 1, bytes);
            }
            (_, Reduction::Ordered) => {
                let shares: Vec<usize> = rooms.iter().map(|r| r.div_ceil(replicas)).collect();
                let share: usize = shares.iter().sum();
                let bytes = 4 * share * (shards * replicas - 1);
                count("reduce_scatter_coalesced", 1, bytes);
                count("all_gather_into", shares.len(), 4 * share * (replicas - 1));
            }
            (_, Reduction::Engine) => {
                count("reduce_scatter_coalesced", 1, 4 * all * (shards - 1));
                let each = |&room: &usize| all_reduce(4 * room, replicas, rank / shards, reduction);
                count("all_reduce", rooms.len(), rooms.iter().map(each).sum());
            }
        }
    }
    Ok(step)
}

/// Gradients of these bytes, which come in this order, reduced in buckets by rank `rank` of `n`.
#[doc(hidden)]
pub fn reduced(
    gradients: impl Iterator<Item = usize>,
    options: &StepOptions,
    n: usize,
    rank: usize,
) -> Traffic {
    let (mut all, mut bucket) = (Traffic::default(), 0);
    let mut gradients = gradients.peekable();
    while let Some(bytes) = gradients.next() {
        bucket += bytes;
        let most = match all.operations {
            0 => options.first_bucket_bytes.min(options.bucket_bytes),
            _ => options.bucket_bytes,
        };
        if bucket >= most || gradients.peek().is_none() {
            all.add(1, all_reduce(bucket, n, rank, options.reduction));
            bucket = 0;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reduces_by_hand() {
        // 20,000 bytes on four ranks: 5,000 elements, 1,250 each: three pieces out, three sums out.
        assert_eq!(
            all_reduce(20_000, 4, 2, Reduction::Ordered),
            15_000 + 3 * 5_000
        );
        assert_eq!(all_reduce(100, 4, 0, Reduction::Ordered), 300);
        assert_eq!(all_reduce(1000, 4, 0, Reduction::Engine), 1500);
        assert_eq!(all_reduce(1000, 1, 0, Reduction::Ordered), 0);
        // Two chunks, the second of 4 bytes: its element is the last rank's.
        let bytes = CHUNK + 4;
        assert_eq!(all_reduce(bytes, 2, 0, Reduction::Ordered), CHUNK + 4);
        assert_eq!(all_reduce(bytes, 2, 1, Reduction::Ordered), CHUNK + 4);
    }

    #[test]
    fn what_is_not_counted_is_said() {
        let model = ModelPlan::gpt("gpt", 512, 128, 2, 4, 16);
        let o = StepOptions {
            batch: 2,
            ..StepOptions::default()
        };
        let mesh = "dp=2,tp=2".parse().unwrap_or(Parallelism::data(1));
        assert!(traffic(&model, mesh, &o, 0).is_err());
        assert!(traffic(&model, Parallelism::data(2), &o, 2).is_err());
    }
}
