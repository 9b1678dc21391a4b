//! Sharded training against one process that adds up the ranks' gradients.

mod memory;

use torsh_distributed::{
    CPUOffloadPolicy, CommStats, DeviceMesh, FullyShardOptions, GatheringOptimizer,
    MixedPrecisionPolicy, ProcessGroup, ReduceOp, Sharded, ZeroRedundancyOptimizer,
    clip_grad_norm_, full_state_dict, fully_shard, load_full_state_dict, sharding_of,
};
use torsh_nn::{Hooks, Linear, Module, ModuleExt, StateDict};
use torsh_optim::{Adafactor, Muon, Optimizer};
use torsh_tensor::{DType, Result, Tensor, no_grad};

use crate::ddp::{Rule, accumulate};
use crate::models::{
    Gpt, Loss, batch, cnn_loss, fixed_cnn, gpt, gpt_loss, mlp, mlp_loss, shard_gpt, shared,
};
use crate::seeded;

pub use memory::memory;

reports!("fsdp");

/// Runs them all.
pub fn run(group: &ProcessGroup) -> Result<()> {
    exactness(group, 10)?;
    hybrid(group)?;
    zero(group)?;
    accumulation(group)?;
    mixed_precision(group)?;
    clipping(group)?;
    released_memory(group)?;
    modules_used_twice(group)?;
    whole_matrices(group)?;
    state_dicts(group)?;
    // Ranks that are threads share the allocator's figures.
    match group.engine().starts_with("mpi") {
        true => memory(group),
        false => Ok(()),
    }
}

/// An error unless the whole values of a sharded model are those of another, bit for bit.
fn same(what: &str, sharded: &dyn Module, whole: &dyn Module) -> Result<()> {
    let (ours, theirs) = (full_state_dict(sharded)?, whole.state_dict());
    check(ours.len() == theirs.len(), || {
        format!("{what}: another number of tensors")
    })?;
    for (name, t) in theirs.iter() {
        let own = ours
            .get(name)
            .ok_or_else(|| wrong(format!("{what}: {name} is missing")))?;
        if own.to_bytes()? != t.to_bytes()? {
            let far = own.sub(t)?.abs()?.max()?.item::<f64>()?;
            return Err(wrong(format!(
                "{what}: {name} differs from one process's by up to {far:e}"
            )));
        }
    }
    Ok(())
}

/// Trains a sharded model and the same one in one process, and compares all bits.
fn compare<M: Module>(
    group: &ProcessGroup,
    what: &str,
    steps: usize,
    make: &dyn Fn() -> Result<M>,
    shard: &dyn Fn(M) -> Result<Box<dyn Module>>,
    loss: Loss<'_>,
) -> Result<()> {
    for rule in [Rule::Sgd, Rule::AdamW] {
        let what = format!("{what} with {rule:?} on {} ranks", group.size());
        let single = seeded(7, make)?;
        // The values of the first rank count.
        let sharded = shard(seeded(7 + group.rank() as u64, make)?)?;
        let (ours, theirs) = (
            rule.on(sharded.parameters())?,
            rule.on(single.parameters())?,
        );
        for step in 0..steps {
            theirs.zero_grad();
            accumulate(&single, group.size(), &|m, r| loss(m, step, r))?;
            theirs.step()?;
            ours.zero_grad();
            loss(&*sharded, step, group.rank())?.backward()?;
            ours.step()?;
            if step < 2 || step + 1 == steps {
                same(&format!("{what}, step {step}"), &*sharded, &single)?;
            }
        }
    }
    Ok(())
}

fn line(group: &ProcessGroup) -> Result<DeviceMesh> {
    DeviceMesh::from_group(group, &[group.size()], &["dp"])
}

/// Bit for bit the result of one process.
fn exactness(group: &ProcessGroup, steps: usize) -> Result<()> {
    let mesh = line(group)?;
    let options = FullyShardOptions::new();
    compare(
        group,
        "fully_shard of an MLP",
        steps,
        &mlp,
        &|mut m| {
            fully_shard(&mut m.fc1, &mesh, options.clone())?;
            fully_shard(&mut m, &mesh, options.clone())?;
            Ok(Box::new(m))
        },
        &mlp_loss,
    )?;
    compare(
        group,
        "fully_shard of a CNN in one unit",
        steps,
        &fixed_cnn,
        &|m| Ok(Box::new(Sharded::new(m, &mesh, options.clone())?)),
        &cnn_loss,
    )?;
    for (what, checkpointed, options) in [
        ("fully_shard of a GPT", false, options.clone()),
        (
            "fully_shard of a GPT that is not resharded",
            false,
            options.clone().reshard_after_forward(false),
        ),
        (
            "fully_shard of a GPT without prefetch",
            false,
            options.clone().prefetch(false),
        ),
        (
            "fully_shard of a GPT with checkpoints",
            true,
            options.clone(),
        ),
        (
            "fully_shard of a GPT with pieces on the CPU",
            false,
            options.clone().offload_policy(CPUOffloadPolicy::new()),
        ),
    ] {
        compare(
            group,
            what,
            steps,
            &|| gpt(checkpointed),
            &|mut m| {
                shard_gpt(&mut m, &mesh, &options)?;
                Ok(Box::new(m))
            },
            &gpt_loss,
        )?;
    }
    // Frozen: gathered, never reduced.
    compare(
        group,
        "fully_shard of a GPT with a frozen block",
        steps,
        &|| {
            let m = gpt(false)?;
            m.blocks[1].requires_grad_(false);
            Ok(m)
        },
        &|mut m| {
            shard_gpt(&mut m, &mesh, &options)?;
            Ok(Box::new(m))
        },
        &gpt_loss,
    )
}

/// Sharded in one dimension of a mesh, replicated in the other.
fn hybrid(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let shape = if n == 4 { [2, 2] } else { [n, 1] };
    let mesh = DeviceMesh::from_group(group, &shape, &["replicate", "shard"])?;
    compare(
        group,
        "hybrid fully_shard of a GPT",
        5,
        &|| gpt(false),
        &|mut m| {
            shard_gpt(&mut m, &mesh, &FullyShardOptions::new())?;
            Ok(Box::new(m))
        },
        &gpt_loss,
    )
}

/// ZeRO-1 on averaged gradients.
fn zero(group: &ProcessGroup) -> Result<()> {
    let single = seeded(7, mlp)?;
    let model = seeded(7, mlp)?;
    let theirs = Rule::AdamW.on(single.parameters())?;
    let ours = ZeroRedundancyOptimizer::new(model.parameters(), group, |own| {
        torsh_optim::AdamW::builder(own).lr(0.01).build()
    })?;
    for step in 0..10 {
        theirs.zero_grad();
        accumulate(&single, group.size(), &|m, r| mlp_loss(m, step, r))?;
        theirs.step()?;
        ours.zero_grad();
        mlp_loss(&model, step, group.rank())?.backward()?;
        let grads: Vec<Tensor> = model.parameters().iter().filter_map(|p| p.grad()).collect();
        no_grad(|| group.all_reduce_coalesced_(&grads, ReduceOp::Avg))?;
        ours.step()?;
    }
    for ((name, a), b) in single.named_parameters().iter().zip(model.parameters()) {
        check(a.to_bytes()? == b.to_bytes()?, || {
            format!("ZeRO-1: {name} differs from one process's")
        })?;
    }
    Ok(())
}

/// Two batches for each step, the first without communication.
fn accumulation(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let single = seeded(7, || gpt(false))?;
    let mut model = seeded(7, || gpt(false))?;
    let handle = shard_gpt(&mut model, &mesh, &FullyShardOptions::new())?;
    let (ours, theirs) = (
        Rule::AdamW.on(model.parameters())?,
        Rule::AdamW.on(single.parameters())?,
    );
    for step in 0..3 {
        // Each rank's own sum first, then those in rank order.
        theirs.zero_grad();
        let mut sums: Vec<Option<Tensor>> = vec![None; single.parameters().len()];
        for r in 0..group.size() {
            single.zero_grad();
            gpt_loss(&single, 2 * step, r)?.backward()?;
            gpt_loss(&single, 2 * step + 1, r)?.backward()?;
            for (sum, p) in sums.iter_mut().zip(single.parameters()) {
                let g = p.grad().ok_or_else(|| wrong("no gradient"))?;
                *sum = Some(match sum.take() {
                    Some(have) => have.add(&g)?,
                    None => g.copy()?,
                });
            }
        }
        for (sum, p) in sums.into_iter().zip(single.parameters()) {
            p.set_grad(sum.map(|s| s.div(group.size() as f64)).transpose()?)?;
        }
        theirs.step()?;
        ours.zero_grad();
        {
            let _quiet = handle.no_sync();
            let sent = sent(group);
            gpt_loss(&model, 2 * step, group.rank())?.backward()?;
            check(
                kind(&sent, "reduce_scatter") == kind(&self::sent(group), "reduce_scatter"),
                || "no_sync: gradients were reduced".into(),
            )?;
        }
        gpt_loss(&model, 2 * step + 1, group.rank())?.backward()?;
        ours.step()?;
        same(&format!("accumulation, step {step}"), &model, &single)?;
    }
    Ok(())
}

fn sent(group: &ProcessGroup) -> CommStats {
    group.stats()
}

/// The operations of a kind, by a part of its name.
fn kind(stats: &CommStats, name: &str) -> u64 {
    let of = stats.kinds.iter().filter(|(k, _)| k.contains(name));
    of.map(|(_, s)| s.operations).sum()
}

/// bfloat16 while modules run, float32 between them.
fn mixed_precision(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let policy = MixedPrecisionPolicy::new()
        .param_dtype(DType::BF16)
        .reduce_dtype(DType::F32)
        .output_dtype(DType::F32);
    let single = seeded(7, mlp)?;
    let mut model = seeded(7, mlp)?;
    fully_shard(
        &mut model,
        &mesh,
        FullyShardOptions::new().mp_policy(policy),
    )?;
    let (ours, theirs) = (
        Rule::Sgd.on(model.parameters())?,
        Rule::Sgd.on(single.parameters())?,
    );
    for step in 0..10 {
        theirs.zero_grad();
        accumulate(&single, group.size(), &|m, r| mlp_loss(m, step, r))?;
        theirs.step()?;
        ours.zero_grad();
        let loss = mlp_loss(&model, step, group.rank())?;
        check(loss.dtype() == DType::F32, || {
            "mixed precision: the result is not float32".into()
        })?;
        loss.backward()?;
        for p in model.parameters() {
            let dtype = p.grad().map(|g| g.dtype());
            check(dtype == Some(DType::F32), || {
                "mixed precision: a gradient is not float32".into()
            })?;
        }
        ours.step()?;
    }
    let whole = full_state_dict(&model)?;
    for (name, t) in single.state_dict().iter() {
        let far = whole[name].sub(t)?.abs()?.max()?.item::<f64>()?;
        // 10 steps of at most 0.05 with gradients of 8 bits, momentum 0.9.
        check(far < 0.02, || {
            format!("mixed precision: {name} is {far:e} from float32's")
        })?;
        check(far > 0.0, || {
            format!("mixed precision: {name} was computed in float32")
        })?;
    }
    Ok(())
}

/// The norm of all pieces, and all ranks the same.
fn clipping(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let single = seeded(7, mlp)?;
    let mut model = seeded(7, mlp)?;
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    accumulate(&single, group.size(), &|m, r| mlp_loss(m, 0, r))?;
    let plain = torsh_optim::clip_grad_norm_(single.parameters().iter().map(|p| p.tensor()), 0.1)?;
    mlp_loss(&model, 0, group.rank())?.backward()?;
    let ours = clip_grad_norm_(model.parameters(), 0.1)?;
    let (ours, plain) = (ours.item::<f32>()?, plain.item::<f32>()?);
    check(plain > 0.1, || "clipping: nothing is clipped".into())?;
    check((ours - plain).abs() <= 1e-6 * plain, || {
        format!("clipping: the norm is {ours}, that of one process {plain}")
    })?;
    for (a, b) in model.parameters().iter().zip(single.parameters()) {
        let s = sharding_of(a).ok_or_else(|| wrong("not sharded"))?;
        let whole = b.grad().ok_or_else(|| wrong("no gradient"))?;
        let own = match whole.ndim() {
            0 if s.rows == 1 => whole,
            0 => whole.reshape([1])?.narrow(0, 0, 0)?,
            _ => whole.narrow(0, s.start, s.rows)?,
        };
        let grad = a.grad().ok_or_else(|| wrong("no gradient of a piece"))?;
        check(grad.allclose(&own)?, || {
            "clipping: a gradient was scaled in another way".into()
        })?;
    }
    Ok(())
}

/// What was given back cannot be read, and each rank has its share of bytes.
fn released_memory(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let mut model = seeded(7, || gpt(false))?;
    let bytes = |m: &Gpt| -> usize {
        m.parameters()
            .iter()
            .map(|p| p.numel() * p.dtype().size())
            .sum()
    };
    let all = bytes(&model);
    shard_gpt(&mut model, &mesh, &FullyShardOptions::new())?;
    let weight = &model.blocks[0].qkv.weight;
    let whole = weight
        .unsharded()
        .ok_or_else(|| wrong("there is no whole"))?
        .clone();
    let refused = |when: &str| -> Result<()> {
        let said = whole
            .sum()
            .map(|_| String::new())
            .unwrap_or_else(|e| e.to_string());
        check(said.contains("given back"), || {
            format!("a released parameter was read {when}: {said}")
        })
    };
    refused("ahead of forward")?;
    let loss = gpt_loss(&model, 0, group.rank())?;
    refused("after forward")?;
    loss.backward()?;
    refused("after backward")?;
    check(whole.grad().is_none(), || {
        "the whole gradient was kept".into()
    })?;
    for p in model.parameters() {
        let shape = p.grad().map(|g| g.dims().to_vec());
        check(shape.as_deref() == Some(p.dims()), || {
            "a gradient has another shape than its piece".into()
        })?;
    }
    let counts = group.all_gather_object(&bytes(&model))?;
    check(counts.iter().sum::<usize>() == all, || {
        format!("the pieces of all ranks have {counts:?} bytes, the parameters {all}")
    })?;
    // In evaluation nothing stays.
    no_grad(|| gpt_loss(&model, 0, group.rank()))?;
    refused("after evaluation")?;
    // A second backward, and one that is recorded, are errors.
    let loss = gpt_loss(&model, 1, group.rank())?;
    check(loss.backward_with(None, true, true).is_err(), || {
        "a recorded backward pass was accepted".into()
    })?;
    let loss = gpt_loss(&model, 1, group.rank())?;
    loss.backward_with(None, true, false)?;
    check(loss.backward().is_err(), || {
        "a second backward pass was accepted".into()
    })
}

/// Blocks that run twice, and one that does not run at all.
fn modules_used_twice(group: &ProcessGroup) -> Result<()> {
    /// Runs its first block twice and its last never.
    #[derive(Module)]
    struct Twice {
        blocks: Vec<Linear>,
        hooks: Hooks,
    }

    impl Module for Twice {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            self.hooks.run(self, x, |x| {
                let y = self.blocks[0].forward(x)?.tanh()?;
                self.blocks[1].forward(&self.blocks[0].forward(&y)?.tanh()?)
            })
        }
    }

    let make = || -> Result<Twice> {
        Ok(Twice {
            blocks: vec![Linear::new(5, 5), Linear::new(5, 2), Linear::new(2, 2)],
            hooks: Hooks::new(),
        })
    };
    let mesh = line(group)?;
    compare(
        group,
        "a block that runs twice",
        4,
        &make,
        &|mut m| {
            for block in &mut m.blocks {
                fully_shard(block, &mesh, FullyShardOptions::new())?;
            }
            fully_shard(&mut m, &mesh, FullyShardOptions::new())?;
            Ok(Box::new(m))
        },
        &|m, step, rank| m.forward(&batch(step, rank, &[3, 5])?)?.square()?.mean(),
    )
}

/// Muon and Adafactor as on whole parameters.
fn whole_matrices(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let make = || Linear::builder(6, 5).bias(false).build();
    let loss = |m: &Linear, step, rank| m.forward(&batch(step, rank, &[3, 6])?)?.square()?.mean();
    for muon in [true, false] {
        let single = seeded(7, make)?;
        let mut model = seeded(7, make)?;
        fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
        let theirs: Box<dyn Optimizer> = match muon {
            true => Box::new(Muon::new(single.parameters(), 0.02)?),
            false => Box::new(Adafactor::new(single.parameters(), 0.02)?),
        };
        let ours =
            GatheringOptimizer::new(model.parameters(), |own| -> Result<Box<dyn Optimizer>> {
                Ok(match muon {
                    true => Box::new(Muon::new(own, 0.02)?),
                    false => Box::new(Adafactor::new(own, 0.02)?),
                })
            })?;
        for step in 0..4 {
            theirs.zero_grad();
            accumulate(&single, group.size(), &|m, r| loss(m, step, r))?;
            theirs.step()?;
            ours.zero_grad();
            loss(&model, step, group.rank())?.backward()?;
            ours.step()?;
        }
        same(if muon { "Muon" } else { "Adafactor" }, &model, &single)?;
    }
    Ok(())
}

/// Whole state dicts, and what fully_shard refuses.
fn state_dicts(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let other = seeded(8, mlp)?;
    let mut model = seeded(7, mlp)?;
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    load_full_state_dict(&model, &other.state_dict())?;
    same("load_full_state_dict", &model, &other)?;
    check(
        load_full_state_dict(&model, &StateDict::new()).is_err(),
        || "an empty state dict was loaded".into(),
    )?;
    let again = fully_shard(&mut model, &mesh, FullyShardOptions::new());
    check(again.is_err(), || "a module was sharded twice".into())?;
    // A parameter of two units.
    let mut tied = gpt(false)?;
    let first = std::sync::Arc::get_mut(&mut tied.blocks[0]).ok_or_else(shared)?;
    let weight = first.out.weight.clone();
    fully_shard(first, &mesh, FullyShardOptions::new())?;
    let weight_now = first.out.weight.clone();
    check(!weight.is_same(&weight_now), || {
        "the parameter was not replaced".into()
    })?;
    let second = std::sync::Arc::get_mut(&mut tied.blocks[1]).ok_or_else(shared)?;
    second.out.weight = weight_now;
    let said = match fully_shard(second, &mesh, FullyShardOptions::new()) {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    };
    check(
        said.contains("out.weight") && said.contains("Block"),
        || format!("a parameter of two units is refused by name: {said}"),
    )
}
