//! What ranks hold of a sharded model, as the allocator counts it.

use torsh_core::alloc;
use torsh_distributed::{FullyShardOptions, ProcessGroup, fully_shard};
use torsh_nn::{Hooks, Linear, Module, ModuleExt};
use torsh_tensor::{Result, Tensor};

use super::{check, line};
use crate::ddp::Rule;
use crate::models::batch;

const LAYERS: usize = 12;
/// A piece of a weight is more than a megabyte on two ranks, and no multiple of anything that allocators like.
const WIDTH: usize = 750;

#[derive(Module)]
struct Stack {
    layers: Vec<Linear>,
    hooks: Hooks,
}

impl Module for Stack {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut x = x.clone();
            for layer in &self.layers {
                x = layer.forward(&x)?.tanh()?;
            }
            Ok(x)
        })
    }
}

/// Between steps a rank holds its share of parameters, gradients and states, to 5 %, and in a step a few layers more; step
/// after step. Ranks that are threads have one allocator, whose figures are those of all; nothing else may run beside them.
pub fn memory(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let ranks = match group.engine() {
        "threads" => group.size(),
        _ => 1,
    } as f64;
    // Read while no rank does anything.
    let read = |f: fn(alloc::MemoryStats) -> usize| -> Result<f64> {
        group.barrier()?;
        let bytes = f(alloc::stats()) as f64;
        group.barrier()?;
        Ok(bytes / ranks)
    };
    let held = || read(|s| s.allocated_bytes);
    let before = held()?;
    let mut model = Stack {
        layers: (0..LAYERS).map(|_| Linear::new(WIDTH, WIDTH)).collect(),
        hooks: Hooks::new(),
    };
    let layer = (4 * (WIDTH * WIDTH + WIDTH)) as f64;
    for l in &mut model.layers {
        fully_shard(l, &mesh, FullyShardOptions::new())?;
    }
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    let optimizer = Rule::AdamW.on(model.parameters())?;
    let step = |i: usize| -> Result<f64> {
        {
            let x = batch(i, group.rank(), &[1, WIDTH])?;
            optimizer.zero_grad();
            model.forward(&x)?.square()?.mean()?.backward()?;
            optimizer.step()?;
        }
        Ok(held()? - before)
    };
    // Parameters, gradients, and AdamW's two states: what one process holds, divided.
    let share = 4.0 * layer * LAYERS as f64 / group.size() as f64;
    let mut after = 0.0;
    for i in 0..3 {
        after = step(i)?;
        check((after - share).abs() < 0.05 * share, || {
            format!("a rank holds {after} bytes after step {i}, its share is {share}")
        })?;
    }
    held()?;
    alloc::reset_peak_stats();
    step(3)?;
    let peak = read(|s| s.peak_allocated_bytes)? - before;
    // Beside the share: the layer that runs, the one that is fetched, the gradients of one and of the one before.
    check(peak < after + 4.0 * layer, || {
        format!(
            "a rank held {peak} bytes in a step and {after} after it, where a layer has {layer}"
        )
    })?;
    let mut later = 0.0;
    for i in 4..14 {
        later = step(i)?;
    }
    check((later - after).abs() < 65_536.0, || {
        format!("a rank held {after} bytes after 3 steps and {later} after 14")
    })
}
