//! The planner's bytes are what the engine `fake` counts.

use std::sync::Arc;

use parking_lot::Mutex;
use torsh_functional as F;
use torsh_nn::{Module, ModuleExt};
use torsh_planner::{
    ModelPlan, Parallelism, Reduction, StepOptions, StepTraffic, fully_shard_bytes, reduced,
    traffic,
};
use torsh_tensor::{DType, Device, Result, Tensor};

use super::measure::Gpt;
use crate::{CommStats, DeviceMesh, DistributedDataParallel, ProcessGroup, ReduceMode, fake};

const SMALL_GPT: [usize; 5] = [512, 128, 2, 4, 16];

fn plan([symbols, width, layers, heads, length]: [usize; 5]) -> ModelPlan {
    ModelPlan::gpt("gpt", symbols, width, layers, heads, length)
}

fn gpt([symbols, width, layers, heads, length]: [usize; 5]) -> Result<Gpt> {
    Gpt::new(symbols, width, layers, heads, length, Device::Meta)
}

/// A forward and backward pass on the meta device.
fn pass(net: &impl Module, [symbols, _, _, _, length]: [usize; 5]) -> Result<()> {
    let x = Tensor::zeros([1, length], DType::I64, Device::Meta)?;
    let y = net.forward(&x)?;
    assert_eq!(y.dims(), [length, symbols]);
    let target = Tensor::zeros([length], DType::I64, Device::Meta)?;
    F::cross_entropy(&y, &target)?.backward()
}

/// What the groups counted, by kind of operation.
fn counted(groups: &[ProcessGroup]) -> StepTraffic {
    let mut all = StepTraffic::new();
    for stats in groups.iter().map(ProcessGroup::stats) {
        let CommStats { kinds, .. } = stats;
        for (kind, k) in kinds {
            let entry = all.entry(kind).or_default();
            entry.operations += k.operations;
            entry.bytes_sent += k.bytes_sent;
            entry.bytes_received += k.bytes_received;
        }
    }
    all
}

/// What a step of `fully_shard` does on a rank of a mesh, by the counts of the `fake` engine, and the net.
fn sharded(
    sizes: [usize; 5],
    replicate: usize,
    shard: usize,
    rank: usize,
    mode: ReduceMode,
) -> Result<(StepTraffic, Gpt)> {
    let world = fake(rank, replicate * shard)?;
    let mesh = match replicate {
        1 => DeviceMesh::from_group(&world, &[shard], &["shard"])?,
        _ => DeviceMesh::from_group(&world, &[replicate, shard], &["dp", "shard"])?,
    };
    let mut groups = vec![mesh.group("shard")?];
    if replicate > 1 {
        groups.push(world.clone());
        groups.push(mesh.group("dp")?);
    }
    groups.iter().for_each(|g| g.set_reduce_mode(mode));
    let mut net = gpt(sizes)?;
    net.shard(&mesh)?;
    // The second step has gathers ahead.
    pass(&net, sizes)?;
    net.zero_grad();
    groups.iter().for_each(ProcessGroup::reset_stats);
    pass(&net, sizes)?;
    Ok((counted(&groups), net))
}

fn options(batch: usize, reduction: Reduction) -> StepOptions {
    StepOptions {
        batch,
        reduction,
        ..StepOptions::default()
    }
}

#[test]
fn pieces_on_1024_byte_for_byte() -> Result<()> {
    let model = plan(SMALL_GPT);
    let (ordered, engine) = (Reduction::Ordered, Reduction::Engine);
    for (replicate, shard, reduction) in [
        (1, 1024, ordered),
        (1, 8, engine),
        (1, 3, ordered),
        (4, 256, ordered),
        (4, 256, engine),
        (2, 3, ordered),
    ] {
        let mode = match reduction {
            Reduction::Ordered => ReduceMode::Ordered,
            Reduction::Engine => ReduceMode::Engine,
        };
        let mesh = Parallelism {
            replicate,
            shard,
            ..Parallelism::data(1)
        };
        for rank in [0, 1, mesh.ranks() - 1] {
            let (counts, net) = sharded(SMALL_GPT, replicate, shard, rank, mode)?;
            let step = traffic(&model, mesh, &options(mesh.ranks(), reduction), rank)?;
            assert_eq!(counts, step, "rank {rank} of {mesh}");
            // The rank holds what the formula says.
            let held: usize = net.parameters().iter().map(|p| p.numel()).sum();
            let formula = fully_shard_bytes(&model, shard, rank % shard);
            assert_eq!(4.0 * held as f64, formula.parameters);
        }
    }
    Ok(())
}

#[test]
fn replicas_on_1024_byte_for_byte() -> Result<()> {
    let model = plan(SMALL_GPT);
    for (mode, reduction) in [
        (ReduceMode::Ordered, Reduction::Ordered),
        (ReduceMode::Engine, Reduction::Engine),
    ] {
        for (rank, n) in [(0, 1024), (1023, 1024), (1, 3)] {
            let world = fake(rank, n)?;
            world.set_reduce_mode(mode);
            let net = DistributedDataParallel::builder(gpt(SMALL_GPT)?)
                .process_group(&world)
                .build()?;
            // Buckets follow the order of the first step's gradients.
            let order = Arc::new(Mutex::new(Vec::new()));
            let hooks = net.parameters().into_iter().map(|p| {
                let (order, bytes) = (order.clone(), 4 * p.numel());
                p.tensor().register_post_accumulate_grad_hook(move |_| {
                    order.lock().push(bytes);
                    Ok(())
                })
            });
            let hooks = hooks.collect::<Result<Vec<_>>>()?;
            pass(&net, SMALL_GPT)?;
            let order = order.lock().clone();
            net.zero_grad();
            pass(&net, SMALL_GPT)?;
            net.zero_grad();
            world.reset_stats();
            pass(&net, SMALL_GPT)?;
            drop(hooks);
            let counts = counted(&[world]);
            let o = options(n, reduction);
            let expected = reduced(order.iter().copied(), &o, n, rank);
            assert_eq!(
                counts["all_reduce"], expected,
                "rank {rank} of {n}, {mode:?}"
            );
            assert_eq!(counts.len(), 1);
            assert_eq!(order.iter().sum::<usize>(), 4 * model.parameters());
            // The public function takes the parameters' order, which moves a few rows from one bucket to the other.
            let usual = traffic(&model, Parallelism::data(n), &o, rank)?["all_reduce"];
            assert_eq!(usual.operations, expected.operations);
            let apart = usual.bytes_sent.abs_diff(expected.bytes_sent);
            assert!(apart <= 8 * n as u64, "{apart}");
        }
    }
    Ok(())
}

/// A GPT of 7 billion parameters on 1,024 ranks holds and sends what the formulas say.
#[test]
fn seven_billion_on_1024() -> Result<()> {
    let sizes = [50_304, 4096, 32, 32, 2048];
    let model = plan(sizes);
    assert_eq!(model.layers, ModelPlan::named("gpt-7b")?.layers);
    let mesh = Parallelism {
        shard: 1024,
        ..Parallelism::data(1)
    };
    let (counts, net) = sharded(sizes, 1, 1024, 5, ReduceMode::Ordered)?;
    assert_eq!(
        counts,
        traffic(&model, mesh, &options(1024, Reduction::Ordered), 5)?
    );
    let parameters = net.parameters();
    let held: usize = parameters.iter().map(|p| p.numel()).sum();
    let formula = fully_shard_bytes(&model, 1024, 5);
    assert_eq!(4.0 * held as f64, formula.parameters);
    let grads = parameters
        .iter()
        .filter_map(|p| p.grad())
        .map(|g| g.numel());
    assert_eq!(4.0 * grads.sum::<usize>() as f64, formula.gradients);
    Ok(())
}
