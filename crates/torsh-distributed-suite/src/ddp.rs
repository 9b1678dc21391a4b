//! DDP against one process that adds up the ranks' gradients.

use torsh_distributed::{DistributedDataParallel, ProcessGroup, SyncBatchNorm, join};
use torsh_functional as F;
use torsh_nn::{LSTM, Linear, Module, ModuleExt, Parameter};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

use crate::models::{Loss, batch, classes, cnn, cnn_loss, fixed_cnn, gpt, gpt_loss, mlp, mlp_loss};
use crate::seeded;

reports!("ddp", says);

/// A recurrent layer and a head.
#[derive(Module)]
struct Recurrent {
    lstm: LSTM,
    head: Linear,
}

impl Module for Recurrent {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.lstm.forward(x)?;
        self.head.forward(&y)
    }
}

/// Two branches, of which a batch takes one.
#[derive(Module)]
struct Branches {
    left: Linear,
    right: Linear,
    never: Linear,
}

impl Module for Branches {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match x.flatten(0)?.select(0, 0)?.item::<f64>()? < 0.5 {
            true => self.left.forward(x),
            false => self.right.forward(x),
        }
    }
}

/// Which optimizer trains.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// With momentum.
    Sgd,
    /// With its defaults.
    AdamW,
}

impl Rule {
    /// The optimizer of these parameters.
    pub fn on(self, parameters: Vec<Parameter>) -> Result<Box<dyn Optimizer>> {
        Ok(match self {
            Rule::Sgd => Box::new(SGD::builder(parameters).lr(0.05).momentum(0.9).build()?),
            Rule::AdamW => Box::new(AdamW::builder(parameters).lr(0.01).build()?),
        })
    }
}

/// An error unless two models hold the same bits.
fn same_bits(what: &str, step: usize, ours: &dyn Module, theirs: &dyn Module) -> Result<()> {
    let read = |m: &dyn Module| -> Vec<(String, Tensor)> {
        let mut out = Vec::new();
        torsh_nn::module::walk(m, &mut |name, field| match field {
            torsh_nn::FieldRef::Parameter(p) => out.push((name.to_string(), p.tensor().clone())),
            torsh_nn::FieldRef::Buffer(b) => out.push((name.to_string(), b.tensor().clone())),
            _ => {}
        });
        out
    };
    let (ours, theirs) = (read(ours), read(theirs));
    if ours.len() != theirs.len() {
        return Err(differ(what, step, "the number of tensors"));
    }
    for ((name, a), (_, b)) in ours.iter().zip(&theirs) {
        if a.to_bytes()? != b.to_bytes()? {
            let far = a.sub(b)?.abs()?.max()?.item::<f64>()?;
            return Err(differ(what, step, &format!("{name}, by up to {far:e}")));
        }
    }
    Ok(())
}

fn differ(what: &str, step: usize, where_: &str) -> TorshError {
    wrong(format!(
        "{what}: after step {step} the model differs from one process's in {where_}"
    ))
}

/// The gradients of all ranks' batches, added up in rank order and divided: what DDP must give bit for bit.
pub fn accumulate<M: Module>(
    model: &M,
    ranks: usize,
    loss: &dyn Fn(&M, usize) -> Result<Tensor>,
) -> Result<()> {
    for r in 0..ranks {
        loss(model, r)?.backward()?;
    }
    no_grad(|| {
        for p in model.parameters() {
            if let Some(g) = p.grad() {
                g.div_(ranks as f64)?;
            }
        }
        Ok(())
    })
}

/// Trains a model with DDP and in one process and compares all bits.
fn compare<M: Module>(
    group: &ProcessGroup,
    what: &str,
    rule: Rule,
    steps: usize,
    make: &dyn Fn() -> Result<M>,
    loss: Loss<'_>,
    wrap: &dyn Fn(M) -> Result<DistributedDataParallel<M>>,
) -> Result<()> {
    let what = format!("{what} with {rule:?} on {} ranks", group.size());
    let single = seeded(7, make)?;
    let ddp = wrap(seeded(7 + group.rank() as u64, make)?)?;
    let (ours, theirs) = (rule.on(ddp.parameters())?, rule.on(single.parameters())?);
    for step in 0..steps {
        theirs.zero_grad();
        accumulate(&single, group.size(), &|m, r| loss(m, step, r))?;
        theirs.step()?;
        ours.zero_grad();
        loss(&ddp, step, group.rank())?.backward()?;
        ours.step()?;
        if step < 3 || step + 1 == steps {
            same_bits(&what, step, ddp.module(), &single)?;
        }
    }
    Ok(())
}

fn recurrent() -> Result<Recurrent> {
    Ok(Recurrent {
        lstm: LSTM::new(4, 6)?,
        head: Linear::new(6, 3),
    })
}

fn recurrent_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let y = m
        .forward(&batch(step, rank, &[5, 2, 4])?)?
        .reshape([-1, 3])?;
    F::cross_entropy(&y, &classes(step, rank + 50, &[10], 3)?)
}

/// DDP with buckets of a few parameters, so that there are several.
fn small<M: Module>(group: &ProcessGroup, model: M) -> Result<DistributedDataParallel<M>> {
    DistributedDataParallel::builder(model)
        .process_group(group)
        .first_bucket_mb(0.0001)
        .bucket_cap_mb(0.0002)
        .build()
}

/// Bit for bit the result of one process.
pub fn exactness(group: &ProcessGroup, steps: usize) -> Result<()> {
    for rule in [Rule::Sgd, Rule::AdamW] {
        compare(group, "MLP", rule, steps, &mlp, &mlp_loss, &|m| {
            small(group, m)
        })?;
        compare(group, "GPT", rule, steps, &|| gpt(true), &gpt_loss, &|m| {
            small(group, m)
        })?;
        compare(
            group,
            "LSTM",
            rule,
            steps,
            &recurrent,
            &recurrent_loss,
            &|m| small(group, m),
        )?;
        compare(group, "CNN", rule, steps, &fixed_cnn, &cnn_loss, &|m| {
            small(group, m)
        })?;
    }
    Ok(())
}

/// A CNN with `SyncBatchNorm` against the whole batch in one process.
pub fn sync_batch_norm(group: &ProcessGroup, steps: usize) -> Result<()> {
    let n = group.size();
    let whole = seeded(3, cnn)?;
    let model = seeded(3, cnn)?;
    check(SyncBatchNorm::convert_on(&model, group) == 1, || {
        "SyncBatchNorm::convert_on finds the layer".into()
    })?;
    let ddp = small(group, model)?;
    let (ours, theirs) = (
        SGD::new(ddp.parameters(), 0.05)?,
        SGD::new(whole.parameters(), 0.05)?,
    );
    for step in 0..steps {
        let inputs: Vec<Tensor> = (0..n)
            .map(|r| batch(step, r, &[4, 2, 6, 6]))
            .collect::<Result<_>>()?;
        let targets: Vec<Tensor> = (0..n)
            .map(|r| classes(step, r + 50, &[4], 3))
            .collect::<Result<_>>()?;
        theirs.zero_grad();
        let x = torsh_tensor::cat(&inputs.iter().collect::<Vec<_>>(), 0)?;
        let t = torsh_tensor::cat(&targets.iter().collect::<Vec<_>>(), 0)?;
        let loss = F::cross_entropy(&whole.forward(&x)?, &t)?;
        loss.backward()?;
        theirs.step()?;
        ours.zero_grad();
        let mine = F::cross_entropy(&ddp.forward(&inputs[group.rank()])?, &targets[group.rank()])?;
        mine.backward()?;
        ours.step()?;
        for ((name, a), (_, b)) in ddp
            .module()
            .state_dict()
            .iter()
            .zip(whole.state_dict().iter())
        {
            let (a, b) = (a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?);
            let far = a.sub(&b)?.abs()?.max()?.item::<f64>()?;
            if far > 1e-6 * (1 + step) as f64 {
                return Err(wrong(format!(
                    "SyncBatchNorm on {n} ranks: {name} is {far:e} away from the whole batch's after step {step}"
                )));
            }
        }
    }
    Ok(())
}

/// Gradients that add up within `no_sync`.
pub fn no_sync(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let single = seeded(5, mlp)?;
    let ddp = small(group, seeded(5, mlp)?)?;
    let (ours, theirs) = (
        SGD::new(ddp.parameters(), 0.1)?,
        SGD::new(single.parameters(), 0.1)?,
    );
    for step in 0..3 {
        ours.zero_grad();
        theirs.zero_grad();
        // What each rank adds up itself, then the sum in rank order.
        let mut sums: Vec<Vec<Tensor>> = Vec::new();
        for r in 0..n {
            single.zero_grad();
            for k in 0..3 {
                mlp_loss(&single, 10 * step + k, r)?.backward()?;
            }
            sums.push(
                single
                    .parameters()
                    .iter()
                    .filter_map(|p| p.grad())
                    .collect(),
            );
        }
        no_grad(|| {
            for (i, p) in single.parameters().iter().enumerate() {
                let sum = sums[0][i].copy()?;
                for s in &sums[1..] {
                    sum.add_(&s[i])?;
                }
                p.set_grad(Some(sum.div_(n as f64)?))?;
            }
            Ok(())
        })?;
        theirs.step()?;
        {
            let _guard = ddp.no_sync();
            for k in 0..2 {
                mlp_loss(&ddp, 10 * step + k, group.rank())?.backward()?;
            }
        }
        mlp_loss(&ddp, 10 * step + 2, group.rank())?.backward()?;
        ours.step()?;
        same_bits("no_sync", step, ddp.module(), &single)?;
    }
    Ok(())
}

/// Parameters that some ranks or all of them do not use.
pub fn unused(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let make = || -> Result<Branches> {
        Ok(Branches {
            left: Linear::new(2, 1),
            right: Linear::new(2, 1),
            never: Linear::new(2, 1),
        })
    };
    let single = seeded(5, make)?;
    let ddp = DistributedDataParallel::builder(seeded(5, make)?)
        .process_group(group)
        .find_unused_parameters(true)
        .build()?;
    // Even ranks go left, odd ones right, and all left in the last step.
    let input = |step: usize, rank: usize| -> Result<Tensor> {
        let right = rank % 2 == 1 && step < 2;
        let first = if right { 0.75 } else { 0.25 };
        Tensor::from_data(&[first, rank as f32 + step as f32], [1, 2])
    };
    for step in 0..3 {
        single.zero_grad();
        ddp.zero_grad();
        accumulate(&single, n, &|m, r| m.forward(&input(step, r)?)?.sum())?;
        ddp.forward(&input(step, group.rank())?)?
            .sum()?
            .backward()?;
        for ((name, a), (_, b)) in ddp
            .module()
            .named_parameters()
            .iter()
            .zip(single.named_parameters())
        {
            let bits = |t: Option<Tensor>| t.map(|t| t.to_vec::<f32>()).transpose();
            if bits(a.grad())? != bits(b.grad())? {
                return Err(wrong(format!(
                    "unused parameters on {n} ranks: the gradient of {name} in step {step} is {:?}, not {:?}",
                    a.grad(),
                    b.grad()
                )));
            }
        }
    }
    // A graph that stays: the first step shows what is not used.
    let fixed = DistributedDataParallel::builder(seeded(5, make)?)
        .process_group(group)
        .static_graph(true)
        .build()?;
    for step in 0..3 {
        fixed.zero_grad();
        single.zero_grad();
        accumulate(&single, n, &|m, r| {
            m.forward(&input(2, 2 * r + step)?)?.sum()
        })?;
        fixed
            .forward(&input(2, 2 * group.rank() + step)?)?
            .sum()?
            .backward()?;
        let m = fixed.module();
        check(
            m.left.weight.grad() == single.left.weight.grad() && m.never.weight.grad().is_none(),
            || "static_graph: gradients of used parameters are averages, others have none".into(),
        )?;
    }
    Ok(())
}

/// Ranks with different numbers of batches.
pub fn uneven(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let ddp = small(group, seeded(5, mlp)?)?;
    let single = seeded(5, mlp)?;
    let (ours, theirs) = (
        SGD::new(ddp.parameters(), 0.1)?,
        SGD::new(single.parameters(), 0.1)?,
    );
    // Rank r makes r + 1 steps; those that are over add nothing.
    for step in 0..n {
        theirs.zero_grad();
        for r in step..n {
            mlp_loss(&single, step, r)?.backward()?;
        }
        no_grad(|| {
            for p in single.parameters() {
                if let Some(g) = p.grad() {
                    g.div_(n as f64)?;
                }
            }
            Ok(())
        })?;
        theirs.step()?;
    }
    join(&ddp, || {
        for step in 0..=group.rank() {
            ours.zero_grad();
            mlp_loss(&ddp, step, group.rank())?.backward()?;
            ours.step()?;
        }
        Ok(())
    })?;
    same_bits("join", n, ddp.module(), &single)
}

/// What must be an error, with the names of what is wrong.
pub fn errors(group: &ProcessGroup) -> Result<()> {
    if group.size() > 1 {
        // Another width on the last rank.
        let width = 4 + usize::from(group.rank() + 1 == group.size());
        let made = DistributedDataParallel::builder(Linear::new(3, width))
            .process_group(group)
            .build();
        says(
            made,
            &[
                "parameter weight",
                "float32[4, 3]",
                "float32[5, 3]",
                "ranks",
            ],
        )?;
    }
    let ddp = small(group, seeded(5, mlp)?)?;
    let x = batch(0, group.rank(), &[2, 6])?;
    // A second pass through the same graph.
    let loss = ddp.forward(&x)?.sum()?;
    loss.backward_with(None, true, false)?;
    says(loss.backward(), &["second backward pass"])?;
    // Not through the wrapper.
    let other = small(group, seeded(5, mlp)?)?;
    let loss = other.module().forward(&x)?.sum()?;
    says(loss.backward(), &["without a forward pass"])?;
    // Only one layer is reached: the next step says which is not.
    other.zero_grad();
    other
        .run(|m| {
            let h = m.fc1.forward(&x)?;
            Ok((h.clone(), m.fc2.forward(&h.tanh()?)?))
        })?
        .0
        .sum()?
        .backward()?;
    says(
        other.forward(&x),
        &["fc2.weight", "fc2.bias", "of 5 parameters"],
    )
}

/// All of it; `torsh-distributed-check` runs it on every engine.
///
/// # Errors
/// What differs.
pub fn run(group: &ProcessGroup) -> Result<()> {
    exactness(group, 50)?;
    sync_batch_norm(group, 5)?;
    no_sync(group)?;
    unused(group)?;
    uneven(group)?;
    errors(group)?;
    crate::coo::run(group)
}
