//! Pipelines against one process that accumulates the same micro-batches.

use torsh_distributed::pipeline::{PipelineStage, Schedule, split_at, split_into_stages};
use torsh_distributed::plan::Schedule as Order;
use torsh_distributed::tensor_parallel::parallelize_module;
use torsh_distributed::{
    DeviceMesh, DistributedDataParallel, FullyShardOptions, ProcessGroup, fully_shard, plan,
};
use torsh_functional as F;
use torsh_nn::{
    Embedding, GELU, LayerNorm, Linear, Module, ModuleExt, Sequential, Tanh, sequential,
};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_tensor::{Result, Tensor, randint, randn};

use crate::seeded;

const STEPS: usize = 3;

reports!("pipeline", says);

/// A residual block: a layer whose parts are not a list.
#[derive(Module)]
struct Block {
    norm: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.fc1.forward(&self.norm.forward(x)?)?.gelu()?;
        x.add(&self.fc2.forward(&h)?)
    }
}

fn block() -> Result<Block> {
    Ok(Block {
        norm: LayerNorm::new([8])?,
        fc1: Linear::new(8, 16),
        fc2: Linear::new(16, 8),
    })
}

/// Twelve modules, of which 1 to 12 stages can be made.
fn model() -> Result<Sequential> {
    seeded(3, || {
        let tied = Linear::new(8, 8);
        let mut again = Linear::new(8, 8);
        again.weight = tied.weight.clone();
        Ok(sequential![
            Embedding::new(10, 8)?,
            block()?,
            Linear::new(8, 8),
            GELU::new(),
            block()?,
            LayerNorm::new([8])?,
            Linear::new(8, 8),
            sequential![tied, again],
            block()?,
            Tanh::new(),
            LayerNorm::new([8])?,
            Linear::new(8, 10)
        ])
    })
}

fn data(step: usize, batch: usize) -> Result<(Tensor, Tensor)> {
    seeded(100 + step as u64, || {
        Ok((
            randint(0, 10, &[batch as i64]),
            randint(0, 10, &[batch as i64]),
        ))
    })
}

fn optimizer(model: &dyn Module, adam: bool) -> Result<Box<dyn Optimizer>> {
    Ok(match adam {
        true => Box::new(AdamW::new(model.parameters(), 1e-2)?),
        false => Box::new(SGD::new(model.parameters(), 0.1)?),
    })
}

/// What one process does: the loss of a step, gradients added to those that are there.
fn accumulate(model: &dyn Module, x: &Tensor, y: &Tensor, micro_batches: usize) -> Result<Tensor> {
    let size = x.dims()[0] / micro_batches;
    let mut total: Option<Tensor> = None;
    for i in 0..micro_batches {
        let (x, y) = (x.narrow(0, i * size, size)?, y.narrow(0, i * size, size)?);
        let loss = F::cross_entropy(&model.forward(&x)?, &y)?.div(micro_batches as f64)?;
        loss.backward()?;
        total = Some(match total {
            None => loss.detach(),
            Some(sum) => sum.add(&loss.detach())?,
        });
    }
    total.ok_or_else(|| wrong("there is no micro-batch"))
}

/// Compares a stage's parameters or gradients with the whole model's, bit for bit.
fn same(what: &str, stage: &dyn Module, whole: &dyn Module, grads: bool) -> Result<()> {
    let whole = whole.named_parameters();
    for (name, p) in stage.named_parameters() {
        // A wrapper's name is not the model's.
        let own = name.strip_prefix("module.").unwrap_or(&name);
        let Some((_, w)) = whole.iter().find(|(n, _)| n == own) else {
            return Err(wrong(format!("{what}: the whole model has no {name}")));
        };
        let (left, right) = match grads {
            true => (p.grad(), w.grad()),
            false => (Some(p.detach()), Some(w.detach())),
        };
        let kind = if grads { "the gradient of " } else { "" };
        check(left.is_some() && left == right, || {
            format!("{what}: {kind}{name} is not the same")
        })?;
    }
    Ok(())
}

/// This rank's stages of a model.
fn stages(group: &ProcessGroup, parts: usize) -> Result<Vec<PipelineStage>> {
    let (p, r) = (group.size(), group.rank());
    let n = p * parts;
    let all = split_into_stages(model()?, n)?.into_iter().enumerate();
    let own = all.filter(|(i, _)| i % p == r);
    own.map(|(i, part)| PipelineStage::on(part, i, n, group))
        .collect()
}

fn schedule(
    order: Order,
    mut stages: Vec<PipelineStage>,
    micro_batches: usize,
) -> Result<Schedule> {
    if order == Order::Interleaved {
        return Ok(Schedule::interleaved(stages, micro_batches));
    }
    let stage = stages.pop().ok_or_else(|| wrong("there is no stage"))?;
    Ok(match order {
        Order::GPipe => Schedule::gpipe(stage, micro_batches),
        Order::OneFOneB => Schedule::one_f_one_b(stage, micro_batches),
        _ => Schedule::zero_bubble(stage, micro_batches),
    })
}

/// Losses, gradients and weights are those of one process, bit for bit.
pub fn exact(group: &ProcessGroup) -> Result<()> {
    let p = group.size();
    for (order, parts) in [
        (Order::GPipe, 1),
        (Order::OneFOneB, 1),
        (Order::Interleaved, 2),
        (Order::Interleaved, 3),
        (Order::ZeroBubble, 1),
    ] {
        for micro_batches in [1, 3, 2 * p, 3 * p] {
            if order == Order::Interleaved && micro_batches % p != 0 {
                continue;
            }
            let adam = micro_batches == 2 * p;
            let what =
                format!("{order:?}, {parts} parts on {p} ranks, {micro_batches} micro-batches");
            let whole = model()?;
            let schedule = schedule(order, stages(group, parts)?, micro_batches)?;
            let all = optimizer(&whole, adam)?;
            let own: Vec<Box<dyn Optimizer>> = schedule
                .stages()
                .iter()
                .filter(|s| !s.module().parameters().is_empty())
                .map(|s| optimizer(s.module(), adam))
                .collect::<Result<_>>()?;
            for step in 0..STEPS {
                // A batch of another size needs no word.
                let (x, y) = data(step, micro_batches * (2 + step))?;
                all.zero_grad();
                own.iter().for_each(|o| o.zero_grad());
                let right = accumulate(&whole, &x, &y, micro_batches)?;
                let left = schedule.step(&x, &y, F::cross_entropy)?;
                let last = group.rank() + 1 == p;
                check(left.is_some() == last, || {
                    format!("{what}: the loss is on another rank")
                })?;
                check(left.is_none_or(|l| l == right), || {
                    format!("{what}: the loss of step {step} is not the same")
                })?;
                for s in schedule.stages() {
                    same(&format!("{what}, step {step}"), s.module(), &whole, true)?;
                }
                all.step()?;
                own.iter().try_for_each(|o| o.step())?;
                for s in schedule.stages() {
                    same(&format!("{what}, step {step}"), s.module(), &whole, false)?;
                }
            }
            // The results of all stages.
            let (x, _) = data(9, micro_batches * 2)?;
            if let Some(y) = schedule.eval(&x)? {
                let size = x.dims()[0] / micro_batches;
                let parts = (0..micro_batches)
                    .map(|i| whole.forward(&x.narrow(0, i * size, size)?))
                    .collect::<Result<Vec<_>>>()?;
                let right = torsh_tensor::cat(&parts, 0)?.detach();
                check(y == right, || format!("{what}: eval gives other results"))?;
            }
        }
    }
    Ok(())
}

/// What each schedule holds, whatever the number of micro-batches.
pub fn memory(group: &ProcessGroup) -> Result<()> {
    let (p, r) = (group.size(), group.rank());
    for micro_batches in [p, 4 * p] {
        let (x, y) = data(1, micro_batches)?;
        for order in [Order::GPipe, Order::OneFOneB, Order::ZeroBubble] {
            let schedule = schedule(order, stages(group, 1)?, micro_batches)?;
            schedule.step(&x, &y, F::cross_entropy)?;
            let right = match order {
                Order::GPipe => micro_batches,
                Order::OneFOneB => p - r,
                _ => p,
            };
            let held = schedule.most_held();
            check(held == right, || {
                format!(
                    "{order:?} on {p} ranks, {micro_batches} micro-batches: rank {r} held {held}, not {right}"
                )
            })?;
            let bubble = schedule.bubble()?;
            check((0.0..1.0).contains(&bubble), || {
                format!("{order:?}: a bubble of {bubble}")
            })?;
            let events = schedule.trace();
            let ordered = events.windows(2).all(|e| e[0].end <= e[1].start);
            check(ordered && events.len() >= 2 * micro_batches, || {
                format!("{order:?}: the trace is wrong")
            })?;
        }
    }
    Ok(())
}

/// An embedding that is the output layer's weight too, on the first and the last stage.
pub fn shared(group: &ProcessGroup) -> Result<()> {
    let p = group.size();
    if p == 1 {
        return Ok(());
    }
    let ends = group.new_group(&[0, p - 1])?;
    let build = || {
        seeded(5, || {
            let table = Embedding::new(10, 8)?;
            let mut head = Linear::builder(8, 10).bias(false).build()?;
            head.weight = table.weight.clone();
            Ok(sequential![table, block()?, block()?, block()?, head])
        })
    };
    let whole = build()?;
    let mut parts = split_into_stages(build()?, p)?;
    let part = parts.swap_remove(group.rank());
    drop(parts);
    // Each stage makes its own, as processes have it.
    let mut part = part;
    let mut own = None;
    torsh_nn::module::walk_mut(&mut part, &mut |name, field| {
        if let torsh_nn::FieldMut::Parameter(w) = field
            && (name == "0.weight" || name == "4.weight")
            && let Ok(copy) = w.detach().copy()
        {
            *w = torsh_nn::Parameter::new(copy);
            own = Some(w.clone());
        }
    });
    let mut stage = PipelineStage::on(part, group.rank(), p, group)?;
    if let (Some(own), Some(ends)) = (&own, &ends) {
        stage = stage.share(own, ends)?;
    }
    let schedule = Schedule::one_f_one_b(stage, 4);
    let (x, y) = data(2, 8)?;
    schedule.step(&x, &y, F::cross_entropy)?;
    accumulate(&whole, &x, &y, 4)?;
    if let Some(own) = own {
        let (Some(left), Some(right)) = (own.grad(), whole.parameters()[0].grad()) else {
            return Err(wrong("a shared embedding has no gradient"));
        };
        check(left.allclose(&right)?, || {
            "a shared embedding's gradient is wrong".into()
        })?;
    }
    Ok(())
}

/// A pipeline along one dimension of a mesh, and another kind of parallel along the other.
pub fn meshes(group: &ProcessGroup) -> Result<()> {
    if group.size() != 4 {
        return Ok(());
    }
    let micro_batches = 4;
    let mesh = DeviceMesh::from_group(group, &[2, 2], &["dp", "pp"])?;
    let (replica, place) = (mesh.coordinate()[0], mesh.coordinate()[1]);
    let part = || -> Result<Sequential> { Ok(split_into_stages(model()?, 2)?.swap_remove(place)) };
    let batches = [data(20, 8)?, data(21, 8)?];
    let (x, y) = &batches[replica];

    // Replicas: the mean of what each accumulates, bit for bit.
    let whole = [model()?, model()?];
    for (model, (x, y)) in whole.iter().zip(&batches) {
        accumulate(model, x, y, micro_batches)?;
    }
    for (w, other) in whole[0].parameters().iter().zip(whole[1].parameters()) {
        if let (Some(a), Some(b)) = (w.grad(), other.grad()) {
            w.set_grad(Some(a.add(&b)?.div(2.0)?))?;
        }
    }
    for order in [Order::OneFOneB, Order::ZeroBubble] {
        let stage =
            PipelineStage::on(part()?, place, 2, &mesh["pp"])?.data_parallel(&mesh["dp"])?;
        let schedule = schedule(order, vec![stage], micro_batches)?;
        schedule.step(x, y, F::cross_entropy)?;
        same(
            &format!("{order:?} with replicas"),
            schedule.stages()[0].module(),
            &whole[0],
            true,
        )?;
    }

    // The same by a wrapper, whose buckets have another order from the second step on.
    for order in [Order::GPipe, Order::OneFOneB, Order::ZeroBubble] {
        let wrapped = || {
            DistributedDataParallel::builder(part()?)
                .process_group(&mesh.group("dp")?)
                .first_bucket_mb(0.0001)
                .bucket_cap_mb(0.0002)
                .build()
        };
        let stage = PipelineStage::on(wrapped()?, place, 2, &mesh["pp"])?;
        let schedule = schedule(order, vec![stage], micro_batches)?;
        let stage = &schedule.stages()[0];
        for step in 0..3 {
            stage.module().zero_grad();
            schedule.step(x, y, F::cross_entropy)?;
            let what = format!("{order:?} with a wrapper, step {step}");
            same(&what, stage.module(), &whole[0], true)?;
        }
        says(
            PipelineStage::on(wrapped()?, place, 2, &mesh["pp"])?.data_parallel(&mesh["dp"]),
            &["DistributedDataParallel", "averages"],
        )?;
    }

    // Sharded stages: the pieces of the same gradients.
    for order in [Order::OneFOneB, Order::GPipe, Order::ZeroBubble] {
        let mut part = part()?;
        let handle = fully_shard(&mut part, &mesh["dp"], FullyShardOptions::default())?;
        let stage =
            PipelineStage::on(part, place, 2, &mesh["pp"])?.on_last_micro_batch(move |on| {
                handle.set_requires_gradient_sync(on);
                Ok(())
            });
        let schedule = schedule(order, vec![stage], micro_batches)?;
        schedule.step(x, y, F::cross_entropy)?;
        let whole = whole[0].named_parameters();
        for (name, p) in schedule.stages()[0].module().named_parameters() {
            let right = whole
                .iter()
                .find(|(n, _)| *n == name)
                .and_then(|(_, w)| w.grad());
            let (Some(left), Some(right)) = (p.grad(), right) else {
                return Err(wrong(format!("{order:?}, sharded: {name} has no gradient")));
            };
            let rows = mesh.group("dp")?.all_gather(&left.contiguous()?)?;
            let left = torsh_tensor::cat(&rows, 0)?;
            check(left.flatten(0)? == right.flatten(0)?, || {
                format!("{order:?}, sharded: the gradient of {name} is not the same")
            })?;
        }
    }

    // Tensor-parallel stages.
    let build = || {
        seeded(6, || {
            Ok(sequential![
                Linear::new(8, 16),
                GELU::new(),
                Linear::new(16, 8),
                Linear::new(8, 16),
                Tanh::new(),
                Linear::new(16, 8)
            ])
        })
    };
    let whole = build()?;
    let mut part = split_at(build()?, &[3])?.swap_remove(place);
    let (a, b) = ((3 * place).to_string(), (3 * place + 2).to_string());
    let tp = parallelize_module(
        &mut part,
        &mesh["dp"],
        &plan![(a.as_str(), ColumnParallel), (b.as_str(), RowParallel)],
    )?;
    let schedule = Schedule::one_f_one_b(PipelineStage::on(part, place, 2, &mesh["pp"])?, 2);
    let (x, y) = seeded(7, || Ok((randn([4, 8]), randn([4, 8]))))?;
    let left = schedule.step(&x, &y, |p, t| F::mse_loss(p, t))?;
    let mut right = 0.0;
    for i in 0..2 {
        let out = whole.forward(&x.narrow(0, 2 * i, 2)?)?;
        let loss = F::mse_loss(&out, &y.narrow(0, 2 * i, 2)?)?.div(2.0)?;
        loss.backward()?;
        right += loss.item::<f64>()?;
    }
    if let Some(left) = left {
        let left = left.item::<f64>()?;
        check((left - right).abs() <= 1e-5 * right.abs(), || {
            format!("tensor-parallel stages: the loss is {left}, not {right}")
        })?;
    }
    let whole = whole.named_parameters();
    for (name, p) in schedule.stages()[0].module().named_parameters() {
        let right = whole
            .iter()
            .find(|(n, _)| *n == name)
            .and_then(|(_, w)| w.grad());
        let (Some(left), Some(right)) = (p.grad(), right) else {
            return Err(wrong(format!(
                "tensor-parallel stages: {name} has no gradient"
            )));
        };
        let left = match tp.sharded_dim(&name) {
            Some(d) => torsh_tensor::cat(&tp.group().all_gather(&left.contiguous()?)?, d)?,
            None => left,
        };
        check(left.allclose(&right)?, || {
            format!("tensor-parallel stages: the gradient of {name} is wrong")
        })?;
    }
    Ok(())
}

/// What must be an error, with what is wrong.
pub fn errors(group: &ProcessGroup) -> Result<()> {
    let (p, r) = (group.size(), group.rank());
    says(PipelineStage::on(Tanh::new(), r + 1, p, group), &["stage"])?;
    if p > 1 {
        says(
            PipelineStage::on(Tanh::new(), r, p + 1, group),
            &["stages", "ranks"],
        )?;
        let stages = vec![PipelineStage::on(Tanh::new(), r, 2 * p, group)?];
        says(
            Schedule::interleaved(stages, p).step(None, None, F::cross_entropy),
            &["stages of"],
        )?;
        let stages = vec![
            PipelineStage::on(Tanh::new(), r, 2 * p, group)?,
            PipelineStage::on(Tanh::new(), r + p, 2 * p, group)?,
        ];
        says(
            Schedule::interleaved(stages, p + 1).step(None, None, F::cross_entropy),
            &["multiple"],
        )?;
    }
    let (x, y) = data(0, 5)?;
    let one = || schedule(Order::GPipe, stages(group, 1)?, 2);
    // Ranks in the middle need neither and would wait for the others: the error is the first and last rank's.
    if r == 0 {
        says(
            one()?.step(&x, &y, F::cross_entropy),
            &["x is", "micro-batches"],
        )?;
        says(one()?.step(None, &y, F::cross_entropy), &["x", "None"])?;
    } else if r + 1 == p {
        says(
            one()?.step(None, &y, F::cross_entropy),
            &["y is", "micro-batches"],
        )?;
    }
    says(split_into_stages(model()?, 13), &["12", "13"])?;
    says(split_at(model()?, &[3, 3]), &["[3, 3]"])?;
    group.barrier()
}

/// All checks of pipelines.
pub fn run(group: &ProcessGroup) -> Result<()> {
    exact(group)?;
    memory(group)?;
    shared(group)?;
    meshes(group)?;
    errors(group)
}
