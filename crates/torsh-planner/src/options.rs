//! Meshes and the options of a step.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use torsh_tensor::{Result, TorshError};

use crate::gpt::ModelPlan;
use crate::model::Reduction;
use crate::schedule::Schedule;

pub(crate) const OP: &str = "plan::simulate";

/// How many ranks do what. Neighbours share matrices, then pieces, then are replicas, then other stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Parallelism {
    /// Replicas: each its own batch, gradients reduced.
    pub replicate: usize,
    /// Ranks that share parameters in pieces, each with its own batch (`fully_shard`).
    pub shard: usize,
    /// Ranks that share each layer's matrices.
    pub tensor: usize,
    /// Stages of the pipeline.
    pub pipeline: usize,
}

impl Parallelism {
    /// Replicas alone.
    ///
    /// ```
    /// use torsh_planner::Parallelism;
    ///
    /// assert_eq!(Parallelism::data(8).ranks(), 8);
    /// ```
    pub fn data(ranks: usize) -> Parallelism {
        Parallelism {
            replicate: ranks,
            shard: 1,
            tensor: 1,
            pipeline: 1,
        }
    }

    /// All ranks.
    pub fn ranks(&self) -> usize {
        self.batches() * self.tensor * self.pipeline
    }

    /// Ranks with batches of their own.
    pub fn batches(&self) -> usize {
        self.replicate * self.shard
    }
}

impl fmt::Display for Parallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parallelism {
            replicate,
            shard,
            tensor,
            pipeline,
        } = self;
        write!(f, "dp={replicate},shard={shard},tp={tensor},pp={pipeline}")
    }
}

impl FromStr for Parallelism {
    type Err = String;

    /// Reads `dp=4,shard=8,tp=2,pp=2`; what is left out is 1.
    fn from_str(text: &str) -> Result<Parallelism, String> {
        let mut mesh = Parallelism::data(1);
        for part in text.split(',') {
            let (name, n) = part.split_once('=').unwrap_or((part, ""));
            let n =
                n.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(|| {
                    format!("{part}: write NAME=NUMBER, as dp=4,shard=8,tp=2,pp=2")
                })?;
            match name {
                "dp" => mesh.replicate = n,
                "shard" => mesh.shard = n,
                "tp" => mesh.tensor = n,
                "pp" => mesh.pipeline = n,
                _ => return Err(format!("{name}: not one of dp, shard, tp, pp")),
            }
        }
        Ok(mesh)
    }
}

/// How a step is made.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOptions {
    /// Samples of a step on all ranks together.
    pub batch: usize,
    /// Samples that a rank computes at once.
    pub micro_batch: usize,
    /// The pipeline's schedule.
    pub schedule: Schedule,
    /// Parts of the model on each stage, with [`Schedule::Interleaved`].
    pub parts: usize,
    /// Who reduces.
    pub reduction: Reduction,
    /// Bytes after which a bucket of gradients is sent.
    pub bucket_bytes: usize,
    /// The same for the first bucket.
    pub first_bucket_bytes: usize,
    /// Whether gradients travel while the backward pass goes on.
    pub overlap: bool,
    /// How many layers ahead are gathered.
    pub prefetch: usize,
    /// Whether gathered layers are released after their forward pass.
    pub reshard_after_forward: bool,
    /// Whether the backward pass computes activations again.
    pub recompute: bool,
    /// Bytes of a value in computation and gathers: 4, or 2 for mixed precision. Gradients are reduced in float32.
    pub compute_bytes: usize,
    /// How many steps are drawn where ranks may be slow.
    pub steps: usize,
    /// The seed of the slow ranks.
    pub seed: u64,
}

impl Default for StepOptions {
    fn default() -> StepOptions {
        StepOptions {
            batch: 1,
            micro_batch: 1,
            schedule: Schedule::OneFOneB,
            parts: 1,
            reduction: Reduction::Ordered,
            bucket_bytes: 25 << 20,
            first_bucket_bytes: 1 << 20,
            overlap: true,
            prefetch: 1,
            reshard_after_forward: true,
            recompute: false,
            compute_bytes: 4,
            steps: 3,
            seed: 0,
        }
    }
}

impl StepOptions {
    /// The defaults.
    ///
    /// ```
    /// assert_eq!(torsh_planner::StepOptions::new().batch, 1);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Micro-batches of each rank, with all that can be wrong with mesh and options.
    pub(crate) fn micros(&self, model: &ModelPlan, mesh: Parallelism) -> Result<usize> {
        let fail = |text: String| {
            Err(TorshError::invalid(
                OP,
                format!("{} on {mesh}: {text}", model.name),
            ))
        };
        if mesh.ranks() == 0 || self.micro_batch == 0 || self.parts == 0 {
            return fail("all numbers must be above 0".into());
        }
        let once = mesh.batches() * self.micro_batch;
        if self.batch == 0 || !self.batch.is_multiple_of(once) {
            return fail(format!(
                "a batch of {} is no multiple of {} ranks times a micro-batch of {}",
                self.batch,
                mesh.batches(),
                self.micro_batch
            ));
        }
        if mesh.tensor > 1 && (model.heads == 0 || !model.heads.is_multiple_of(mesh.tensor)) {
            return fail(format!(
                "{} heads cannot be dealt out to {} ranks",
                model.heads, mesh.tensor
            ));
        }
        if self.parts > 1 && mesh.pipeline == 1 {
            return fail(format!(
                "{} parts on each stage of a single stage",
                self.parts
            ));
        }
        if ![2, 4, 8].contains(&self.compute_bytes) {
            return fail(format!("values of {} bytes", self.compute_bytes));
        }
        Ok(self.batch / once)
    }
}
