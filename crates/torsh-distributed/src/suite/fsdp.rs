//! Sharded training against one process that adds up the ranks' gradients.

use torsh_functional as F;
use torsh_nn::{
    Conv2d, Embedding, Hooks, LayerNorm, Linear, Module, ModuleExt, Parameter, StateDict,
};
use torsh_optim::{Adafactor, Muon, Optimizer};
use torsh_tensor::{
    DType, Device, Result, ScaledDotProductAttentionOptions, Tensor, TorshError, checkpoint,
    no_grad,
};

use super::ddp::{Rule, accumulate, batch, require, seeded};
use crate::{
    DeviceMesh, FullyShard, FullyShardOptions, GatheringOptimizer, MixedPrecisionPolicy,
    ProcessGroup, Sharded, ZeroRedundancyOptimizer, clip_grad_norm_, full_state_dict, fully_shard,
    load_full_state_dict, sharding_of,
};

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

/// Two layers of sizes that no number of ranks divides.
#[derive(Module)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
    scale: Parameter,
    hooks: Hooks,
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            self.fc2
                .forward(&self.fc1.forward(x)?.tanh()?)?
                .mul(&self.scale)
        })
    }
}

fn mlp() -> Result<Mlp> {
    Ok(Mlp {
        fc1: Linear::new(6, 13),
        fc2: Linear::new(13, 3),
        scale: Parameter::new(Tensor::scalar(1.5f32, DType::F32, Device::Cpu)?),
        hooks: Hooks::new(),
    })
}

fn mlp_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let y = m.forward(&batch(step, rank, &[5, 6])?)?;
    F::cross_entropy(&y, &classes(step, rank + 50, &[5], 3)?)
}

fn classes(step: usize, rank: usize, shape: &[usize], n: usize) -> Result<Tensor> {
    batch(step, rank, shape)?
        .mul(n as f64)?
        .to_dtype(DType::I64)
}

/// A convolution and a head, whose input the head's unit gets through a pooling.
#[derive(Module)]
struct Cnn {
    conv: Conv2d,
    head: Linear,
    hooks: Hooks,
}

impl Module for Cnn {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let h = self.conv.forward(x)?.relu()?;
            self.head.forward(&h.mean_dim([2, 3], false)?)
        })
    }
}

fn cnn() -> Result<Cnn> {
    Ok(Cnn {
        conv: Conv2d::builder(2, 5, 3).build()?,
        head: Linear::new(5, 3),
        hooks: Hooks::new(),
    })
}

fn cnn_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let y = m.forward(&batch(step, rank, &[4, 2, 6, 6])?)?;
    F::cross_entropy(&y, &classes(step, rank + 50, &[4], 3)?)
}

/// A block of attention and two layers.
#[derive(Module)]
struct Block {
    norm: LayerNorm,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    hooks: Hooks,
}

const HEADS: usize = 2;
const WIDTH: usize = 8;

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (b, t, c) = (x.size(0)?, x.size(1)?, x.size(2)?);
            let qkv = self.qkv.forward(&self.norm.forward(x)?)?;
            let head = |i: usize| -> Result<Tensor> {
                let part = qkv.narrow(2, i * c, c)?.reshape([b, t, HEADS, c / HEADS])?;
                part.transpose(1, 2)
            };
            let causal = ScaledDotProductAttentionOptions::new().is_causal(true);
            let y = F::scaled_dot_product_attention_with(&head(0)?, &head(1)?, &head(2)?, causal)?;
            let x = x.add(&self.out.forward(&y.transpose(1, 2)?.reshape([b, t, c])?)?)?;
            x.add(&self.down.forward(&self.up.forward(&x)?.gelu()?)?)
        })
    }
}

/// A model of blocks, with its embedding as its head.
#[derive(Module)]
struct Gpt {
    embedding: Embedding,
    blocks: Vec<std::sync::Arc<Block>>,
    norm: LayerNorm,
    hooks: Hooks,
    #[module(skip)]
    checkpointed: bool,
}

impl Module for Gpt {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, tokens, |tokens| {
            let mut x = self.embedding.forward(tokens)?;
            for block in &self.blocks {
                x = match self.checkpointed {
                    true => {
                        let (block, x) = (block.clone(), x);
                        checkpoint(move || block.forward(&x))?
                    }
                    false => block.forward(&x)?,
                };
            }
            self.norm.forward(&x)?.matmul(&self.embedding.weight.t()?)
        })
    }
}

fn gpt(checkpointed: bool) -> Result<Gpt> {
    let block = || -> Result<std::sync::Arc<Block>> {
        Ok(std::sync::Arc::new(Block {
            norm: LayerNorm::new(WIDTH)?,
            qkv: Linear::new(WIDTH, 3 * WIDTH),
            out: Linear::new(WIDTH, WIDTH),
            up: Linear::new(WIDTH, 2 * WIDTH),
            down: Linear::new(2 * WIDTH, WIDTH),
            hooks: Hooks::new(),
        }))
    };
    Ok(Gpt {
        embedding: Embedding::new(11, WIDTH)?,
        blocks: vec![block()?, block()?, block()?],
        norm: LayerNorm::new(WIDTH)?,
        hooks: Hooks::new(),
        checkpointed,
    })
}

fn gpt_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let tokens = classes(step, rank, &[3, 6], 11)?;
    let y = m.forward(&tokens.narrow(1, 0, 5)?)?.reshape([-1, 11])?;
    F::cross_entropy(&y, &tokens.narrow(1, 1, 5)?.reshape([-1])?)
}

fn shared() -> TorshError {
    TorshError::Other("a block has other owners".into())
}

/// A unit for each block, and one for the rest.
fn shard_gpt(m: &mut Gpt, mesh: &DeviceMesh, options: &FullyShardOptions) -> Result<FullyShard> {
    for block in &mut m.blocks {
        let block = std::sync::Arc::get_mut(block).ok_or_else(shared)?;
        fully_shard(block, mesh, options.clone())?;
    }
    fully_shard(m, mesh, options.clone())
}

/// An error unless the whole values of a sharded model are those of another, bit for bit.
fn same(what: &str, sharded: &dyn Module, whole: &dyn Module) -> Result<()> {
    let (ours, theirs) = (full_state_dict(sharded)?, whole.state_dict());
    require(
        ours.len() == theirs.len(),
        &format!("{what}: another number of tensors"),
    )?;
    for (name, t) in theirs.iter() {
        let own = ours
            .get(name)
            .ok_or_else(|| TorshError::Other(format!("{what}: {name} is missing")))?;
        if own.to_bytes()? != t.to_bytes()? {
            let far = own.sub(t)?.abs()?.max()?.item::<f64>()?;
            return Err(TorshError::Other(format!(
                "{what}: {name} differs from one process's by up to {far:e}"
            )));
        }
    }
    Ok(())
}

type Loss<'a> = &'a dyn Fn(&dyn Module, usize, usize) -> Result<Tensor>;

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
pub(crate) fn exactness(group: &ProcessGroup, steps: usize) -> Result<()> {
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
        &cnn,
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
pub(crate) fn hybrid(group: &ProcessGroup) -> Result<()> {
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
pub(crate) fn zero(group: &ProcessGroup) -> Result<()> {
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
        no_grad(|| group.all_reduce_coalesced_(&grads, crate::ReduceOp::Avg))?;
        ours.step()?;
    }
    for ((name, a), b) in single.named_parameters().iter().zip(model.parameters()) {
        require(
            a.to_bytes()? == b.to_bytes()?,
            &format!("ZeRO-1: {name} differs from one process's"),
        )?;
    }
    Ok(())
}

/// Two batches for each step, the first without communication.
pub(crate) fn accumulation(group: &ProcessGroup) -> Result<()> {
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
                let g = p
                    .grad()
                    .ok_or_else(|| TorshError::Other("no gradient".into()))?;
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
            require(
                kind(&sent, "reduce_scatter") == kind(&self::sent(group), "reduce_scatter"),
                "no_sync: gradients were reduced",
            )?;
        }
        gpt_loss(&model, 2 * step + 1, group.rank())?.backward()?;
        ours.step()?;
        same(&format!("accumulation, step {step}"), &model, &single)?;
    }
    Ok(())
}

fn sent(group: &ProcessGroup) -> crate::CommStats {
    group.stats()
}

/// The operations of a kind, by a part of its name.
fn kind(stats: &crate::CommStats, name: &str) -> u64 {
    let of = stats.kinds.iter().filter(|(k, _)| k.contains(name));
    of.map(|(_, s)| s.operations).sum()
}

/// bfloat16 while modules run, float32 between them.
pub(crate) fn mixed_precision(group: &ProcessGroup) -> Result<()> {
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
        require(
            loss.dtype() == DType::F32,
            "mixed precision: the result is not float32",
        )?;
        loss.backward()?;
        for p in model.parameters() {
            let dtype = p.grad().map(|g| g.dtype());
            require(
                dtype == Some(DType::F32),
                "mixed precision: a gradient is not float32",
            )?;
        }
        ours.step()?;
    }
    let whole = full_state_dict(&model)?;
    for (name, t) in single.state_dict().iter() {
        let far = whole[name].sub(t)?.abs()?.max()?.item::<f64>()?;
        // 10 steps of at most 0.05 with gradients of 8 bits, momentum 0.9.
        require(
            far < 0.02,
            &format!("mixed precision: {name} is {far:e} from float32's"),
        )?;
        require(
            far > 0.0,
            &format!("mixed precision: {name} was computed in float32"),
        )?;
    }
    Ok(())
}

/// The norm of all pieces, and all ranks the same.
pub(crate) fn clipping(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let single = seeded(7, mlp)?;
    let mut model = seeded(7, mlp)?;
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    accumulate(&single, group.size(), &|m, r| mlp_loss(m, 0, r))?;
    let plain = torsh_optim::clip_grad_norm_(single.parameters().iter().map(|p| p.tensor()), 0.1)?;
    mlp_loss(&model, 0, group.rank())?.backward()?;
    let ours = clip_grad_norm_(model.parameters(), 0.1)?;
    let (ours, plain) = (ours.item::<f32>()?, plain.item::<f32>()?);
    require(plain > 0.1, "clipping: nothing is clipped")?;
    require(
        (ours - plain).abs() <= 1e-6 * plain,
        &format!("clipping: the norm is {ours}, that of one process {plain}"),
    )?;
    for (a, b) in model.parameters().iter().zip(single.parameters()) {
        let s = sharding_of(a).ok_or_else(|| TorshError::Other("not sharded".into()))?;
        let whole = b
            .grad()
            .ok_or_else(|| TorshError::Other("no gradient".into()))?;
        let own = match whole.ndim() {
            0 if s.rows == 1 => whole,
            0 => whole.reshape([1])?.narrow(0, 0, 0)?,
            _ => whole.narrow(0, s.start, s.rows)?,
        };
        let grad = a
            .grad()
            .ok_or_else(|| TorshError::Other("no gradient of a piece".into()))?;
        require(
            grad.allclose(&own)?,
            "clipping: a gradient was scaled in another way",
        )?;
    }
    Ok(())
}

/// What was given back cannot be read, and each rank has its share of bytes.
pub(crate) fn released_memory(group: &ProcessGroup) -> Result<()> {
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
        .whole()
        .ok_or_else(|| TorshError::Other("there is no whole".into()))?
        .clone();
    let refused = |when: &str| -> Result<()> {
        let said = whole
            .sum()
            .map(|_| String::new())
            .unwrap_or_else(|e| e.to_string());
        require(
            said.contains("given back"),
            &format!("a released parameter was read {when}: {said}"),
        )
    };
    refused("ahead of forward")?;
    let loss = gpt_loss(&model, 0, group.rank())?;
    refused("after forward")?;
    loss.backward()?;
    refused("after backward")?;
    require(whole.grad().is_none(), "the whole gradient was kept")?;
    for p in model.parameters() {
        let shape = p.grad().map(|g| g.dims().to_vec());
        require(
            shape.as_deref() == Some(p.dims()),
            "a gradient has another shape than its piece",
        )?;
    }
    let counts = group.all_gather_object(&bytes(&model))?;
    require(
        counts.iter().sum::<usize>() == all,
        &format!("the pieces of all ranks have {counts:?} bytes, the parameters {all}"),
    )?;
    // In evaluation nothing stays.
    no_grad(|| gpt_loss(&model, 0, group.rank()))?;
    refused("after evaluation")?;
    // A second backward, and one that is recorded, are errors.
    let loss = gpt_loss(&model, 1, group.rank())?;
    require(
        loss.backward_with(None, true, true).is_err(),
        "a recorded backward pass was accepted",
    )?;
    let loss = gpt_loss(&model, 1, group.rank())?;
    loss.backward_with(None, true, false)?;
    require(
        loss.backward().is_err(),
        "a second backward pass was accepted",
    )
}

/// Blocks that run twice, and one that does not run at all.
pub(crate) fn modules_used_twice(group: &ProcessGroup) -> Result<()> {
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
pub(crate) fn whole_matrices(group: &ProcessGroup) -> Result<()> {
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
pub(crate) fn state_dicts(group: &ProcessGroup) -> Result<()> {
    let mesh = line(group)?;
    let other = seeded(8, mlp)?;
    let mut model = seeded(7, mlp)?;
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    load_full_state_dict(&model, &other.state_dict())?;
    same("load_full_state_dict", &model, &other)?;
    require(
        load_full_state_dict(&model, &StateDict::new()).is_err(),
        "an empty state dict was loaded",
    )?;
    let again = fully_shard(&mut model, &mesh, FullyShardOptions::new());
    require(again.is_err(), "a module was sharded twice")?;
    // A parameter of two units.
    let mut tied = gpt(false)?;
    let first = std::sync::Arc::get_mut(&mut tied.blocks[0]).ok_or_else(shared)?;
    let weight = first.out.weight.clone();
    fully_shard(first, &mesh, FullyShardOptions::new())?;
    let weight_now = first.out.weight.clone();
    require(
        !weight.is_same(&weight_now),
        "the parameter was not replaced",
    )?;
    let second = std::sync::Arc::get_mut(&mut tied.blocks[1]).ok_or_else(shared)?;
    second.out.weight = weight_now;
    let said = match fully_shard(second, &mesh, FullyShardOptions::new()) {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    };
    require(
        said.contains("out.weight") && said.contains("Block"),
        &format!("a parameter of two units is refused by name: {said}"),
    )
}

/// A rank holds its share of parameters, gradients and states, and a few layers more while they run; step after step.
fn memory(group: &ProcessGroup) -> Result<()> {
    const LAYERS: usize = 24;
    const WIDTH: usize = 384;

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

    let mesh = line(group)?;
    let held = || torsh_core::alloc::stats().allocated_bytes as f64;
    let before = held();
    let mut model = Stack {
        layers: (0..LAYERS).map(|_| Linear::new(WIDTH, WIDTH)).collect(),
        hooks: Hooks::new(),
    };
    let layer = (4 * (WIDTH * WIDTH + WIDTH)) as f64;
    let all = layer * LAYERS as f64;
    for l in &mut model.layers {
        fully_shard(l, &mesh, FullyShardOptions::new())?;
    }
    fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
    let optimizer = Rule::AdamW.on(model.parameters())?;
    let step = |i: usize| -> Result<f64> {
        {
            let x = batch(i, group.rank(), &[1, WIDTH])?;
            optimizer.zero_grad();
            torsh_core::alloc::reset_peak_stats();
            model.forward(&x)?.square()?.mean()?.backward()?;
            optimizer.step()?;
        }
        group.barrier()?;
        Ok(held() - before)
    };
    let mut after = 0.0;
    for i in 0..3 {
        after = step(i)?;
    }
    // Parameters, gradients, and AdamW's two states.
    let share = 4.0 * all / group.size() as f64;
    let mut own = 0;
    for p in model.parameters() {
        own += p.to_bytes()?.len() + p.grad().map_or(0, |g| g.numel() * g.dtype().size());
    }
    for state in optimizer.state_dict().state.values() {
        let tensors = state.values().filter_map(|v| v.as_tensor());
        own += tensors.map(|t| t.numel() * t.dtype().size()).sum::<usize>();
    }
    let own = own as f64;
    require(
        (own - share).abs() < 0.05 * share,
        &format!("the tensors of a rank have {own} bytes, its share is {share}"),
    )?;
    // (The allocator may give a block of up to twice the size that it has.)
    require(
        after < 1.5 * share,
        &format!("a rank holds {after} bytes between steps, its share is {share}"),
    )?;
    let peak = torsh_core::alloc::stats().peak_allocated_bytes as f64 - before;
    // Beside that: the layer that runs, the one that is fetched, the gradients of one and of the one before.
    require(
        peak < after + 5.0 * layer,
        &format!(
            "a rank held {peak} bytes in a step and {after} after it, where a layer has {layer}"
        ),
    )?;
    let mut later = 0.0;
    for i in 3..13 {
        later = step(i)?;
    }
    require(
        (later - after).abs() < 65_536.0,
        &format!("a rank held {after} bytes after 3 steps and {later} after 13"),
    )
}
