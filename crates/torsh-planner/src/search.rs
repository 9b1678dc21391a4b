//! The best mesh.

use torsh_tensor::{Result, TorshError};

use crate::gpt::ModelPlan;
use crate::memory::memory;
use crate::model::{Cluster, Collective, Group, Reduction};
use crate::options::{Parallelism, StepOptions};
use crate::schedule::Schedule;
use crate::step::{Outcome, simulate};

/// What to look for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// How many ranks there are.
    pub ranks: usize,
    /// Batch, precision and what else does not depend on the mesh.
    pub options: StepOptions,
    /// Who reduces; `None` takes what [`Search::cheaper`] says for each mesh.
    pub reduction: Option<Reduction>,
    /// Which micro-batches are tried.
    pub micro_batches: Vec<usize>,
    /// The part of a rank's memory that may be filled.
    pub fill: f64,
}

impl Search {
    /// A search with micro-batches of 1, 2, 4 and 8 samples, which fills 90 % of the memory.
    ///
    /// ```
    /// use torsh_planner::Search;
    ///
    /// let s = Search::new(64, 128);
    /// assert_eq!((s.options.batch, s.fill), (128, 0.9));
    /// ```
    pub fn new(ranks: usize, batch: usize) -> Search {
        Search {
            ranks,
            options: StepOptions {
                batch,
                ..StepOptions::default()
            },
            reduction: None,
            micro_batches: vec![1, 2, 4, 8],
            fill: 0.9,
        }
    }

    /// Who should reduce on a mesh: the engine past a few dozen ranks, where it takes less time for a bucket.
    ///
    /// ```
    /// use torsh_planner::{Cluster, Parallelism, Reduction, Search};
    ///
    /// let s = Search::new(1024, 1024);
    /// let mesh = Parallelism::data(1024);
    /// assert_eq!(s.cheaper(&Cluster::default(), mesh), Reduction::Engine);
    /// ```
    pub fn cheaper(&self, cluster: &Cluster, mesh: Parallelism) -> Reduction {
        cheaper(cluster, mesh, self.options.bucket_bytes)
    }

    /// Seconds in which a mesh reduces a bucket of gradients, in rank order and by the engine; `None` for a mesh without
    /// replicas, which makes no all-reduce.
    ///
    /// ```
    /// use torsh_planner::{Cluster, Parallelism, Search};
    ///
    /// let s = Search::new(1024, 1024);
    /// let (ordered, engine) = s.reductions(&Cluster::default(), Parallelism::data(1024)).unwrap();
    /// assert!(ordered > engine);
    /// ```
    pub fn reductions(&self, cluster: &Cluster, mesh: Parallelism) -> Option<(f64, f64)> {
        both(cluster, mesh, self.options.bucket_bytes as f64)
    }
}

/// A mesh that was found, with what its step takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How its step is made.
    pub options: StepOptions,
    /// What it takes, with all ranks equally fast.
    pub outcome: Outcome,
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |d| n.is_multiple_of(*d))
}

/// Seconds in which a mesh reduces a bucket, in rank order and by the engine; `None` where no all-reduce is made.
fn both(cluster: &Cluster, mesh: Parallelism, bytes: f64) -> Option<(f64, f64)> {
    let group = |size, stride| Group { size, stride };
    let replicas = group(mesh.replicate, mesh.tensor * mesh.shard);
    let time = |what, bytes, group, r| cluster.time(what, bytes, group, r);
    let (ordered, engine) = (Reduction::Ordered, Reduction::Engine);
    match (mesh.replicate, mesh.shard) {
        (1, _) => None,
        (_, 1) => {
            let of = |r| time(Collective::AllReduce, bytes, replicas, r);
            Some((of(ordered), of(engine)))
        }
        (_, shard) => {
            // In rank order over all ranks at once; by the engine within the pieces' groups, then over replicas.
            let piece = bytes / shard as f64;
            let all = group(mesh.batches(), mesh.tensor);
            let pieces = group(shard, mesh.tensor);
            let scatter = |g| time(Collective::ReduceScatter, bytes, g, ordered);
            let gather = time(Collective::AllGather, piece, replicas, ordered);
            let add = time(Collective::AllReduce, piece, replicas, engine);
            Some((scatter(all) + gather, scatter(pieces) + add))
        }
    }
}

/// Up to so many ranks sums in a fixed order are worth what they cost.
const FEW: usize = 32;

fn cheaper(cluster: &Cluster, mesh: Parallelism, bucket: usize) -> Reduction {
    match both(cluster, mesh, bucket as f64) {
        Some((ordered, engine)) if mesh.batches() > FEW && engine < 0.9 * ordered => {
            Reduction::Engine
        }
        _ => Reduction::Ordered,
    }
}

/// The meshes whose ranks have memory enough, the fastest first. Tensor parallel stays within the nearest level of links;
/// activations are computed again only where they do not fit.
///
/// # Errors
/// Where no mesh has memory enough, or none can share the batch; the text says what the smallest one would need.
///
/// ```
/// use torsh_planner::{Cluster, ModelPlan, Search, search};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-125m")?;
/// let found = search(&model, &Cluster::default(), &Search::new(8, 64))?;
/// // A small model needs no more than replicas or pieces.
/// assert_eq!(found[0].outcome.mesh.pipeline, 1);
/// # Ok(()) }
/// ```
#[torsh_tensor::names_caller]
pub fn search(model: &ModelPlan, cluster: &Cluster, wanted: &Search) -> Result<Vec<Candidate>> {
    cluster.check()?;
    let near = match cluster.levels.len() {
        1 => wanted.ranks,
        _ => cluster.levels[0].ranks,
    };
    let room = cluster.memory * wanted.fill;
    let quiet = Cluster {
        stragglers: crate::model::Stragglers::NONE,
        ..cluster.clone()
    };
    let (mut found, mut least) = (Vec::new(), f64::INFINITY);
    let heads = model.heads.max(1);
    let tensors = divisors(wanted.ranks).filter(|t| *t <= near && heads.is_multiple_of(*t));
    for tensor in tensors {
        let pipelines = divisors(wanted.ranks / tensor).filter(|p| *p <= model.layers.len());
        for pipeline in pipelines {
            let batches = wanted.ranks / tensor / pipeline;
            for shard in divisors(batches) {
                let mesh = Parallelism {
                    replicate: batches / shard,
                    shard,
                    tensor,
                    pipeline,
                };
                for options in ways(model, wanted, mesh) {
                    let mut options = options;
                    options.reduction = wanted
                        .reduction
                        .unwrap_or_else(|| cheaper(cluster, mesh, options.bucket_bytes));
                    let mut bytes = memory(model, mesh, &options)?.total();
                    if bytes > room && !options.recompute {
                        options.recompute = true;
                        bytes = memory(model, mesh, &options)?.total();
                    }
                    least = least.min(bytes);
                    if bytes <= room {
                        let outcome = simulate(model, &quiet, mesh, &options)?;
                        found.push(Candidate { options, outcome });
                    }
                }
            }
        }
    }
    if found.is_empty() {
        let text = match least.is_finite() {
            true => format!(
                "{} fits no mesh of {} ranks: the leanest needs {:.1} GB a rank, {:.1} GB are there",
                model.name,
                wanted.ranks,
                least / 1e9,
                room / 1e9
            ),
            false => format!(
                "no mesh of {} ranks shares a batch of {} in micro-batches of {:?}",
                wanted.ranks, wanted.options.batch, wanted.micro_batches
            ),
        };
        let hint = "take more ranks, or a batch that is a multiple of them";
        return Err(TorshError::invalid("plan::search", text).with_hint(hint));
    }
    found.sort_by(|a, b| a.outcome.seconds.total_cmp(&b.outcome.seconds));
    Ok(found)
}

/// The ways to make a step on a mesh that are worth a try.
fn ways(model: &ModelPlan, wanted: &Search, mesh: Parallelism) -> Vec<StepOptions> {
    let mut all = Vec::new();
    for &micro_batch in &wanted.micro_batches {
        let base = StepOptions {
            micro_batch,
            schedule: Schedule::OneFOneB,
            parts: 1,
            ..wanted.options.clone()
        };
        let Ok(micros) = base.micros(model, mesh) else {
            continue;
        };
        // Thousands of micro-batches say nothing that hundreds do not.
        if micros * model.layers.len() > 100_000 {
            continue;
        }
        if mesh.pipeline == 1 {
            all.push(base);
            continue;
        }
        if micros.is_multiple_of(mesh.pipeline) && 2 * mesh.pipeline <= model.layers.len() {
            all.push(StepOptions {
                schedule: Schedule::Interleaved,
                parts: 2,
                ..base.clone()
            });
        }
        if mesh.shard > 1 {
            all.push(StepOptions {
                reshard_after_forward: false,
                ..base.clone()
            });
        }
        all.push(StepOptions {
            schedule: Schedule::ZeroBubble,
            ..base.clone()
        });
        all.push(base);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_billion_on_64_need_more_than_replicas() -> Result<()> {
        let model = ModelPlan::named("gpt-7b")?;
        let cluster = Cluster::default();
        let mut wanted = Search::new(64, 128);
        wanted.micro_batches = vec![1, 2];
        wanted.options.compute_bytes = 2;
        let found = search(&model, &cluster, &wanted)?;
        let best = &found[0].outcome;
        assert!(best.memory.total() <= 0.9 * cluster.memory);
        assert!(best.mesh.shard * best.mesh.tensor * best.mesh.pipeline > 1);
        assert!(
            found
                .windows(2)
                .all(|w| w[0].outcome.seconds <= w[1].outcome.seconds)
        );
        assert!(best.efficiency > 0.3, "{}", best.efficiency);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_said() -> Result<()> {
        let model = ModelPlan::named("gpt-70b")?;
        let error = search(&model, &Cluster::default(), &Search::new(2, 2)).unwrap_err();
        assert!(
            error.to_string().contains("fits no mesh of 2 ranks"),
            "{error}"
        );
        let small = ModelPlan::named("gpt-125m")?;
        let error = search(&small, &Cluster::default(), &Search::new(17, 5)).unwrap_err();
        assert!(error.to_string().contains("shares a batch of 5"), "{error}");
        Ok(())
    }

    #[test]
    fn the_engine_reduces_on_many_ranks() {
        let cluster = Cluster::default();
        let of = |n| cheaper(&cluster, Parallelism::data(n), 25 << 20);
        assert_eq!((of(2), of(1024)), (Reduction::Ordered, Reduction::Engine));
    }
}
