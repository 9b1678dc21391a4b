//! What a rank holds.

use serde::Serialize;
use torsh_tensor::Result;

use crate::build::stages;
use crate::gpt::{Layer, ModelPlan};
use crate::options::{Parallelism, StepOptions};

/// Bytes of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Parameters, or its pieces of them.
    pub parameters: f64,
    /// Gradients.
    pub gradients: f64,
    /// What the optimizer keeps.
    pub states: f64,
    /// Whole layers: those that were gathered, and the gradient of one before it is scattered.
    pub gathered: f64,
    /// Values that the graph keeps for the backward pass.
    pub activations: f64,
}

impl Memory {
    /// All of it.
    ///
    /// ```
    /// use torsh_planner::Memory;
    ///
    /// let m = Memory { parameters: 4.0, gradients: 4.0, states: 8.0, ..Memory::default() };
    /// assert_eq!(m.total(), 16.0);
    /// ```
    pub fn total(&self) -> f64 {
        self.parameters + self.gradients + self.states + self.gathered + self.activations
    }
}

/// Rows of the piece that rank `rank` of `ranks` holds of `rows`: the first ranks hold as many as are left over by none.
pub(crate) fn piece(rows: usize, ranks: usize, rank: usize) -> usize {
    let each = rows.div_ceil(ranks.max(1));
    rows.saturating_sub(each * rank).min(each)
}

/// Elements of the pieces that a rank holds of a layer's parameters.
pub(crate) fn pieces(layer: &Layer, ranks: usize, rank: usize) -> usize {
    let of = |shape: &Vec<usize>| match shape.split_first() {
        Some((&rows, rest)) => piece(rows, ranks, rank) * rest.iter().product::<usize>(),
        // A single number is on rank 0.
        None => usize::from(rank == 0),
    };
    layer.shapes.iter().map(of).sum()
}

/// The bytes of parameters, gradients and optimizer states of float32 that `fully_shard` of each
/// layer leaves on a rank, and the largest whole layer: one process's over `ranks`, and one block.
///
/// ```
/// use torsh_planner::{ModelPlan, fully_shard_bytes};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-7b")?;
/// let m = fully_shard_bytes(&model, 1024, 0);
/// let one_process = 16.0 * model.parameters() as f64;
/// assert!((m.parameters + m.gradients + m.states) / (one_process / 1024.0) < 1.01);
/// // The largest layer is the embedding of symbols and places.
/// assert_eq!(m.gathered, 4.0 * (50_304.0 + 2048.0) * 4096.0);
/// # Ok(()) }
/// ```
pub fn fully_shard_bytes(model: &ModelPlan, ranks: usize, rank: usize) -> Memory {
    let held: usize = model.layers.iter().map(|l| pieces(l, ranks, rank)).sum();
    let largest = model.layers.iter().map(Layer::elements).max().unwrap_or(0);
    let bytes = 4.0 * held as f64;
    Memory {
        parameters: bytes,
        gradients: bytes,
        states: bytes * model.states as f64,
        gathered: 4.0 * largest as f64,
        activations: 0.0,
    }
}

/// What the rank with most of it holds in a step.
///
/// # Errors
/// As [`simulate`](crate::simulate()).
///
/// ```
/// use torsh_planner::{ModelPlan, Parallelism, StepOptions, memory};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-125m")?;
/// let options = StepOptions { batch: 8, ..StepOptions::default() };
/// let whole = memory(&model, Parallelism::data(8), &options)?;
/// let pieces = memory(&model, Parallelism { shard: 8, ..Parallelism::data(1) }, &options)?;
/// assert_eq!(whole.states, 8.0 * model.parameters() as f64);
/// assert!(pieces.states < whole.states / 7.9);
/// # Ok(()) }
/// ```
#[torsh_tensor::names_caller]
pub fn memory(model: &ModelPlan, mesh: Parallelism, options: &StepOptions) -> Result<Memory> {
    let micros = options.micros(model, mesh)?;
    let ranges = stages(model, mesh.pipeline * options.parts)?;
    let mut most = Memory::default();
    for stage in 0..mesh.pipeline {
        let own = |part: usize| &model.layers[ranges[part * mesh.pipeline + stage].clone()];
        let layers = || (0..options.parts).flat_map(own);
        let elements: f64 = match mesh.tensor {
            1 => layers().map(|l| pieces(l, mesh.shard, 0) as f64).sum(),
            t => layers().map(|l| l.elements_of(t) / mesh.shard as f64).sum(),
        };
        let largest = layers()
            .map(|l| l.elements_of(mesh.tensor))
            .fold(0.0, f64::max);
        let whole: f64 = layers().map(|l| l.elements_of(mesh.tensor)).sum();
        let compute = options.compute_bytes as f64;
        let gathered = match (mesh.shard, options.reshard_after_forward) {
            (1, _) => 0.0,
            (_, true) => largest * (compute * (1 + options.prefetch) as f64 + 4.0),
            (_, false) => whole * compute + largest * 4.0,
        };
        // Of a layer that is computed again, its input alone is kept, and one layer's values for a moment.
        let samples = options.micro_batch as f64 * compute;
        let saved = |l: &Layer| l.saved_of(mesh.tensor);
        let input = |l: &Layer| l.output.min(saved(l));
        let each: f64 = match options.recompute {
            true => layers().map(input).sum(),
            false => layers().map(saved).sum(),
        };
        let again = match options.recompute {
            true => layers().map(saved).fold(0.0, f64::max),
            false => 0.0,
        };
        let held = options
            .schedule
            .most_held(stage, mesh.pipeline, micros, options.parts)?;
        let held = match mesh.pipeline {
            1 => 1.0,
            _ => held as f64 / options.parts as f64,
        };
        let bytes = elements * 4.0;
        let now = Memory {
            parameters: bytes,
            gradients: bytes,
            states: bytes * model.states as f64,
            gathered,
            activations: samples * (held * each + again),
        };
        if now.total() > most.total() {
            most = now;
        }
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_by_hand() {
        let of = |rows, ranks| {
            (0..ranks)
                .map(|r| piece(rows, ranks, r))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(10, 4), [3, 3, 3, 1]);
        assert_eq!(of(5, 4), [2, 2, 1, 0]);
        assert_eq!(of(2, 4), [1, 1, 0, 0]);
        assert_eq!(of(8, 4), [2, 2, 2, 2]);
    }

    #[test]
    fn one_process_over_n_and_one_block() -> Result<()> {
        let model = ModelPlan::gpt("small", 512, 128, 4, 4, 64);
        let parameters = 4 * (12 * 128 * 128 + 13 * 128) + 2 * 512 * 128 + 64 * 128 + 2 * 128;
        for n in [1, 2, 4, 8] {
            let m = fully_shard_bytes(&model, n, n - 1);
            let each = 4.0 * f64::from(parameters) / n as f64;
            assert_eq!(
                (m.parameters, m.gradients, m.states),
                (each, each, 2.0 * each)
            );
            assert_eq!(m.gathered, 4.0 * f64::from(12 * 128 * 128 + 13 * 128));
        }
        // All pieces together are the model, however uneven.
        let n = 7;
        let all: f64 = (0..n)
            .map(|r| fully_shard_bytes(&model, n, r).parameters)
            .sum();
        assert_eq!(all, 4.0 * f64::from(parameters));
        Ok(())
    }

    #[test]
    fn seven_billion_on_1024() -> Result<()> {
        let model = ModelPlan::named("gpt-7b")?;
        // Every dimension is a multiple of 1,024 but the symbols' 50,304: 49.125 rows, so 50.
        let d = 4096usize;
        let expected = 32 * (12 * d * d + 13 * d) / 1024 + 2 * 50 * d + 2 * d + 2 * d / 1024;
        let m = fully_shard_bytes(&model, 1024, 0);
        assert_eq!(m.parameters, 4.0 * expected as f64);
        assert_eq!(m.states, 8.0 * expected as f64);
        Ok(())
    }

    #[test]
    fn activations_of_schedules() -> Result<()> {
        use crate::schedule::Schedule;
        let model = ModelPlan::gpt("small", 512, 128, 8, 4, 64);
        let mesh = Parallelism {
            pipeline: 4,
            ..Parallelism::data(1)
        };
        let of = |schedule, batch| {
            let options = StepOptions {
                batch,
                schedule,
                ..StepOptions::default()
            };
            memory(&model, mesh, &options).map(|m| m.activations)
        };
        // Bounded by the stages, not by the micro-batches.
        assert_eq!(of(Schedule::OneFOneB, 16)?, of(Schedule::OneFOneB, 64)?);
        assert_eq!(4.0 * of(Schedule::GPipe, 16)?, of(Schedule::GPipe, 64)?);
        Ok(())
    }
}
