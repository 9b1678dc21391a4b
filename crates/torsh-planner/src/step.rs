//! What a training step on a mesh takes.

use serde::Serialize;
use torsh_tensor::Result;

use crate::build::Builder;
use crate::gpt::ModelPlan;
use crate::memory::{Memory, memory};
use crate::model::Cluster;
use crate::options::{Parallelism, StepOptions};
use crate::simulate::{Random, Tasks, Timeline};

/// What a step takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// On which mesh.
    pub mesh: Parallelism,
    /// Seconds of a step: the mean of those that were drawn.
    pub seconds: f64,
    /// Seconds of the slowest.
    pub slowest: f64,
    /// Seconds with all ranks equally fast.
    pub undisturbed: f64,
    /// Of these: seconds in which a rank computes, the mean over ranks.
    pub compute: f64,
    /// Seconds of communication during which it does not compute.
    pub exposed: f64,
    /// The rest: waiting for slower ranks or for other stages.
    pub waiting: f64,
    /// What the computation alone would take on as many ranks, over [`Outcome::seconds`].
    pub efficiency: f64,
    /// Tokens (or samples) per second of all ranks.
    pub throughput: f64,
    /// What the fullest rank holds.
    pub memory: Memory,
}

/// What one timeline says: its length, and the means over some ranks of compute and exposed communication.
pub(crate) fn read(tasks: &Tasks, line: &Timeline) -> (f64, f64, f64) {
    let length = line.end.iter().fold(0.0, |a: f64, &b| a.max(b));
    let step = tasks.ranks.div_ceil(16).max(1);
    let (mut compute, mut exposed, mut n) = (0.0, 0.0, 0.0);
    for rank in (0..tasks.ranks).step_by(step) {
        let (c, e) = tasks.busy(line, rank as u32);
        (compute, exposed, n) = (compute + c, exposed + e, n + 1.0);
    }
    (length, compute / n, exposed / n)
}

/// Simulates a training step.
///
/// # Errors
/// Where mesh, model and options do not go together: a batch that the ranks cannot share equally, heads that tensor parallel
/// cannot deal out, more stages than layers, a schedule that is impossible. The text names both sides.
///
/// ```
/// use torsh_planner::{Cluster, ModelPlan, Parallelism, StepOptions, simulate};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-1.3b")?;
/// let options = StepOptions { batch: 64, ..StepOptions::default() };
/// let step = simulate(&model, &Cluster::default(), Parallelism::data(64), &options)?;
/// let later = StepOptions { overlap: false, ..options };
/// let without = simulate(&model, &Cluster::default(), Parallelism::data(64), &later)?;
/// assert!(step.undisturbed < without.undisturbed && step.efficiency < 1.0);
/// # Ok(()) }
/// ```
#[torsh_tensor::names_caller]
pub fn simulate(
    model: &ModelPlan,
    cluster: &Cluster,
    mesh: Parallelism,
    options: &StepOptions,
) -> Result<Outcome> {
    let mut builder = Builder::new(model, cluster, mesh, options)?;
    let equal = vec![1.0; builder.ranks()];
    let tasks = builder.build(&equal)?;
    let first = read(&tasks, &tasks.run()?);
    let mut drawn = vec![first];
    let s = cluster.stragglers;
    if options.steps > 0 && (s.deviation > 0.0 || s.chance * (s.slowdown - 1.0) > 0.0) {
        builder.at_full_size(1_500_000);
        let mut random = Random(options.seed);
        drawn.clear();
        for _ in 0..options.steps {
            let slow = builder.slow(&mut random);
            let tasks = builder.build(&slow)?;
            drawn.push(read(&tasks, &tasks.run()?));
        }
    }
    let n = drawn.len() as f64;
    let mean = |f: fn(&(f64, f64, f64)) -> f64| drawn.iter().map(f).sum::<f64>() / n;
    let (seconds, compute, exposed) = (mean(|d| d.0), mean(|d| d.1), mean(|d| d.2));
    let ideal: f64 = model
        .layers
        .iter()
        .map(|l| {
            let forward = l.forward_seconds.unwrap_or(l.flops / cluster.flops);
            forward + l.backward_seconds.unwrap_or(2.0 * forward)
        })
        .sum::<f64>()
        * options.batch as f64
        / mesh.ranks() as f64;
    Ok(Outcome {
        mesh,
        seconds,
        slowest: drawn.iter().fold(0.0, |a: f64, d| a.max(d.0)),
        undisturbed: first.0,
        compute,
        exposed,
        waiting: (seconds - compute - exposed).max(0.0),
        efficiency: if seconds > 0.0 { ideal / seconds } else { 0.0 },
        throughput: (options.batch * model.tokens) as f64 / seconds.max(f64::MIN_POSITIVE),
        memory: memory(model, mesh, options)?,
    })
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
