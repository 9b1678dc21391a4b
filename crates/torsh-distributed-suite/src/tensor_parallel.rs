//! Tensor parallel: divided models against whole ones.

mod models;

use torsh_core::random::{LocalGenerator, default_generator};
use torsh_distributed::tensor_parallel::{
    ColumnParallelLinear, ParallelStyle, RowParallelLinear, TensorParallel,
    TensorParallelAttention, VocabParallelEmbedding, parallelize_module, synchronize_rng,
    vocab_parallel_cross_entropy, vocab_parallel_cross_entropy_with, with_sharded_rng,
};
use torsh_distributed::{
    DeviceMesh, DistributedDataParallel, FullyShardOptions, ProcessGroup, Sharded, fully_shard,
    plan,
};
use torsh_functional::{self as F, CrossEntropyOptions, Reduction};
use torsh_nn::construct::Construction;
use torsh_nn::{Dropout, Embedding, GELU, Linear, Module, ModuleExt, Sequential, sequential};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_tensor::{DType, Result, Tensor, cat, checkpoint, no_grad, ones, randint, randn};

use crate::seeded;

use models::{Block, Gpt, HEADS, LENGTH, VOCABULARY, WIDTH, attend, plain_plan, sequence_plan};

reports!("tensor_parallel", says);

fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-12 } else { 1e-5 }
}

fn largest(t: &Tensor) -> Result<f64> {
    match t.numel() {
        0 => Ok(0.0),
        _ => t.detach().to_dtype(DType::F64)?.abs()?.max()?.item::<f64>(),
    }
}

/// Compares with the largest element of `right`, or with `scale` where that is more.
fn close(what: &str, left: &Tensor, right: &Tensor, tolerance: f64, scale: f64) -> Result<()> {
    check(left.dims() == right.dims(), || {
        format!("{what}: {} is not {}", left.describe(), right.describe())
    })?;
    let off = largest(&left.detach().sub(&right.detach())?)?;
    let scale = scale.max(largest(right)?);
    check(off <= tolerance * scale, || {
        format!(
            "{what}: off by {off:e}, where numbers are up to {scale:e} and {tolerance:e} of that is allowed"
        )
    })
}

/// Compares the gradients of a divided model with those of the whole one.
fn same_gradients<M: Module>(
    what: &str,
    tp: &TensorParallel,
    divided: &M,
    whole: &M,
    tolerance: f64,
) -> Result<()> {
    let right = whole.named_parameters();
    // Some gradients are nothing but rounding, as that of the keys' bias: they are compared with the others' size.
    let mut scale = 0.0f64;
    for (_, p) in &right {
        scale = scale.max(p.grad().map_or(Ok(0.0), |g| largest(&g))?);
    }
    for ((name, p), (_, w)) in divided.named_parameters().iter().zip(&right) {
        let (Some(left), Some(right)) = (p.grad(), w.grad()) else {
            return Err(wrong(format!("{what}: {name} has no gradient")));
        };
        let left = match tp.sharded_dim(name) {
            Some(d) => cat(&tp.group().all_gather(&left.contiguous()?)?, d)?,
            None => left,
        };
        close(
            &format!("{what}: gradient of {name}"),
            &left,
            &right,
            tolerance,
            0.05 * scale,
        )?;
    }
    Ok(())
}

/// The loss of a batch, and its backward pass.
fn loss(model: &Gpt, ids: &Tensor, target: &Tensor, tp: Option<&TensorParallel>) -> Result<Tensor> {
    let logits = model.forward(ids)?;
    let loss = match tp {
        Some(tp) => vocab_parallel_cross_entropy(&logits, target, tp.group())?,
        None => F::cross_entropy(&logits, target)?,
    };
    loss.backward()?;
    Ok(loss.detach())
}

/// Whole models, with plans for whole and divided sequences.
pub fn models(group: &ProcessGroup) -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        for (kind, plan) in [
            ("plain", plain_plan()),
            ("sequence parallel", sequence_plan()),
        ] {
            seeded(11, || {
                let what = format!("GPT, {kind}, {dtype}");
                let whole = Gpt::new(dtype)?;
                let mut divided = Gpt::new(dtype)?;
                divided.load_state_dict(&whole.state_dict())?;
                let tp = parallelize_module(&mut divided, group, &plan)?;
                let ids = randint(0, VOCABULARY as i64, &[2, LENGTH]);
                let target = randint(0, VOCABULARY as i64, &[2 * LENGTH]);
                let right = loss(&whole, &ids, &target, None)?;
                let left = loss(&divided, &ids, &target, Some(&tp))?;
                close(
                    &format!("{what}: loss"),
                    &left,
                    &right,
                    tolerance(dtype),
                    0.0,
                )?;
                same_gradients(&what, &tp, &divided, &whole, tolerance(dtype))?;
                let state = tp.full_state_dict(&divided)?;
                for (name, t) in whole.state_dict().iter() {
                    check(state[name] == t.detach(), || {
                        format!("{what}: full_state_dict has another {name}")
                    })?;
                }
                tp.load_full_state_dict(&divided, &state)
            })?;
        }
    }
    Ok(())
}

/// Training steps of a divided model.
pub fn training(group: &ProcessGroup) -> Result<()> {
    for (kind, plan) in [
        ("plain", plain_plan()),
        ("sequence parallel", sequence_plan()),
    ] {
        for adam in [false, true] {
            seeded(12, || {
                let whole = Gpt::new(DType::F32)?;
                let mut divided = Gpt::new(DType::F32)?;
                divided.load_state_dict(&whole.state_dict())?;
                let tp = parallelize_module(&mut divided, group, &plan)?;
                let optimizer = |m: &Gpt| -> Result<Box<dyn Optimizer>> {
                    Ok(match adam {
                        true => Box::new(AdamW::new(m.parameters(), 3e-3)?),
                        false => Box::new(SGD::new(m.parameters(), 0.1)?),
                    })
                };
                let (a, b) = (optimizer(&whole)?, optimizer(&divided)?);
                for step in 0..20 {
                    let ids = randint(0, VOCABULARY as i64, &[2, LENGTH]);
                    let target = ids.flatten(0)?.add(1i64)?.remainder(VOCABULARY as i64)?;
                    a.zero_grad();
                    b.zero_grad();
                    let right = loss(&whole, &ids, &target, None)?.item::<f64>()?;
                    let left = loss(&divided, &ids, &target, Some(&tp))?.item::<f64>()?;
                    check((left - right).abs() <= 1e-4, || {
                        format!(
                            "{kind}, AdamW {adam}: the loss of step {step} is {left} and should be {right}"
                        )
                    })?;
                    a.step()?;
                    b.step()?;
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Two layers, the first divided by columns, the second by rows.
pub fn mlp(group: &ProcessGroup) -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        seeded(13, || {
            let build = || -> Sequential {
                Construction::new().dtype(dtype).run(|| {
                    sequential![Linear::new(WIDTH, 48), GELU::new(), Linear::new(48, WIDTH)]
                })
            };
            let (whole, mut divided) = (build(), build());
            divided.load_state_dict(&whole.state_dict())?;
            let tp = parallelize_module(
                &mut divided,
                group,
                &plan![("0", ColumnParallel), ("2", RowParallel)],
            )?;
            let left = randn([5, WIDTH])
                .to_dtype(dtype)?
                .detach()
                .requires_grad_(true);
            let right = left.detach().copy()?.requires_grad_(true);
            let (y, z) = (divided.forward(&left)?, whole.forward(&right)?);
            let t = tolerance(dtype);
            close("MLP: result", &y, &z, t, 0.0)?;
            y.square()?.sum()?.backward()?;
            z.square()?.sum()?.backward()?;
            same_gradients("MLP", &tp, &divided, &whole, t)?;
            match (left.grad(), right.grad()) {
                (Some(a), Some(b)) => close("MLP: gradient of the input", &a, &b, t, 0.0),
                _ => Err(wrong("MLP: the input has no gradient")),
            }
        })?;
    }
    Ok(())
}

/// Each layer by itself, its gradients and its state dict.
pub fn layers(group: &ProcessGroup) -> Result<()> {
    seeded(14, || {
        let t = 1e-5;
        let (fc1, fc2) = (Linear::new(WIDTH, 48), Linear::new(48, WIDTH));
        let column = ColumnParallelLinear::from_linear(&fc1, group)?;
        let row = RowParallelLinear::from_linear(&fc2, group)?;
        let x = randn([3, WIDTH]);
        let right = fc2.forward(&fc1.forward(&x)?)?;
        close(
            "column and row",
            &row.forward(&column.forward(&x)?)?,
            &right,
            t,
            0.0,
        )?;
        let gathered = ColumnParallelLinear::from_linear(&fc1, group)?.gather_output(true);
        let row = RowParallelLinear::from_linear(&fc2, group)?.input_is_parallel(false);
        close(
            "whole results between",
            &row.forward(&gathered.forward(&x)?)?,
            &right,
            t,
            0.0,
        )?;

        let table = Embedding::new(VOCABULARY, WIDTH)?;
        let divided = VocabParallelEmbedding::from_weight(&table.weight, group)?.padding_idx(20)?;
        let ids = randint(0, VOCABULARY as i64, &[4, 5]);
        close(
            "embedding",
            &divided.forward(&ids)?,
            &table.forward(&ids)?,
            0.0,
            0.0,
        )?;
        let far = divided.forward(&ids.add(VOCABULARY as i64)?);
        check(far.is_err(), || {
            "an index past the table is no error".into()
        })?;
        divided
            .forward(&torsh_tensor::tensor![20, 3, 3])?
            .sum()?
            .backward()?;
        if let Some(g) = divided.weight.grad() {
            let g = cat(&group.all_gather(&g)?, 0)?;
            check(g.select(0, 20)?.abs()?.max()?.item::<f32>()? == 0.0, || {
                "the padding row has a gradient".into()
            })?;
            check(g.select(0, 3)?.min()?.item::<f32>()? == 2.0, || {
                "a row's gradient is wrong".into()
            })?;
        }

        // An ordinary embedding with such a row.
        let mut net = sequential![Embedding::builder(VOCABULARY, 2).padding_idx(20).build()?];
        parallelize_module(&mut net, group, &plan![("0", VocabParallel)])?;
        net.forward(&torsh_tensor::tensor![20, 3, 3])?
            .sum()?
            .backward()?;
        let g = net.parameters()[0]
            .grad()
            .ok_or_else(|| wrong("the table has no gradient"))?;
        let g = cat(&group.all_gather(&g)?, 0)?;
        check(g.select(0, 20)?.abs()?.max()?.item::<f32>()? == 0.0, || {
            "the padding row of a plan has a gradient".into()
        })?;
        check(g.select(0, 3)?.min()?.item::<f32>()? == 2.0, || {
            "a row's gradient of a plan is wrong".into()
        })
    })
}

/// Attention whose heads are divided.
pub fn attention(group: &ProcessGroup) -> Result<()> {
    for (kv, dtype) in [(HEADS, DType::F32), (HEADS, DType::F64)] {
        seeded(15, || {
            let head = WIDTH / HEADS;
            let linear = |n: usize| {
                Construction::new()
                    .dtype(dtype)
                    .run(|| Linear::new(WIDTH, n))
            };
            let (q, k, v, o) = (
                linear(WIDTH),
                linear(kv * head),
                linear(kv * head),
                linear(WIDTH),
            );
            let x = randn([2, LENGTH, WIDTH]).to_dtype(dtype)?.detach();
            let right = o.forward(&attend(&q.forward(&x)?, &k.forward(&x)?, &v.forward(&x)?)?)?;
            let layer =
                TensorParallelAttention::from_linears([&q, &k, &v], &o, head, group)?.causal(true);
            let t = tolerance(dtype);
            close("attention", &layer.forward(&x)?, &right, t, 0.0)?;
            // On parts of the sequence.
            let layer = layer.sequence_parallel();
            let n = LENGTH / group.size();
            let (a, b) = (
                x.narrow(1, group.rank() * n, n)?
                    .contiguous()?
                    .requires_grad_(true),
                x.copy()?.requires_grad_(true),
            );
            let y = layer.forward(&a)?;
            close(
                "attention on parts",
                &y,
                &right.narrow(1, group.rank() * n, n)?,
                t,
                0.0,
            )?;
            y.square()?.sum()?.backward()?;
            let z = o.forward(&attend(&q.forward(&b)?, &k.forward(&b)?, &v.forward(&b)?)?)?;
            z.square()?.sum()?.backward()?;
            let grads = [
                ("q", &layer.q_proj.weight, &q.weight, 0),
                ("k", &layer.k_proj.weight, &k.weight, 0),
                ("v", &layer.v_proj.weight, &v.weight, 0),
                ("o", &layer.out_proj.weight, &o.weight, 1),
            ];
            for (name, left, right, dim) in grads {
                let (Some(left), Some(right)) = (left.grad(), right.grad()) else {
                    return Err(wrong(format!("attention: {name} has no gradient")));
                };
                let left = cat(&group.all_gather(&left.contiguous()?)?, dim)?;
                close(
                    &format!("attention: gradient of {name}"),
                    &left,
                    &right,
                    t,
                    1.0,
                )?;
            }
            if let (Some(left), Some(right)) = (&layer.out_proj.bias, &o.bias)
                && let (Some(left), Some(right)) = (left.grad(), right.grad())
            {
                close(
                    "attention: gradient of the output's bias",
                    &left,
                    &right,
                    t,
                    1.0,
                )?;
            }
            match (a.grad(), b.grad()) {
                (Some(a), Some(b)) => {
                    let b = b.narrow(1, group.rank() * n, n)?;
                    close("attention: gradient of the input", &a, &b, t, 1.0)
                }
                _ => Err(wrong("attention: the input has no gradient")),
            }
        })?;
    }
    // Queries' heads that share keys.
    seeded(16, || {
        let x = randn([1, 4, 2 * WIDTH]);
        let layer = TensorParallelAttention::with_kv_heads(2 * WIDTH, 2 * HEADS, HEADS, group)?;
        let y = layer.forward(&x)?;
        let all = group.all_gather(&y.detach())?;
        check(all.iter().all(|t| *t == all[0]), || {
            "ranks have different results".into()
        })
    })
}

/// The cross entropy of divided classes.
pub fn losses(group: &ProcessGroup) -> Result<()> {
    let n = VOCABULARY / group.size();
    for (dtype, shape) in [
        (DType::F32, vec![7, VOCABULARY]),
        (DType::F64, vec![7, VOCABULARY]),
        (DType::F64, vec![3, VOCABULARY, 2, 2]),
        (DType::F64, vec![VOCABULARY]),
    ] {
        for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None] {
            for smoothing in [0.0, 0.2] {
                seeded(17, || {
                    let what = format!("cross entropy {dtype} {shape:?} {reduction:?} {smoothing}");
                    let class_dim = usize::from(shape.len() > 1);
                    let whole = randn(&shape[..])
                        .mul(3.0)?
                        .to_dtype(dtype)?
                        .detach()
                        .requires_grad_(true);
                    let mut of = shape.clone();
                    of.remove(class_dim);
                    let target = randint(0, VOCABULARY as i64, &of[..]);
                    // One class counts for nothing.
                    let ignored = target.flatten(0)?.select(0, 0)?.item::<i64>()?;
                    let ignored = if of.is_empty() { -100 } else { ignored };
                    let options = CrossEntropyOptions::new()
                        .reduction(reduction)
                        .label_smoothing(smoothing)
                        .ignore_index(ignored);
                    let part = no_grad(|| whole.narrow(class_dim, group.rank() * n, n)?.copy())?;
                    let part = part.requires_grad_(true);
                    let left =
                        vocab_parallel_cross_entropy_with(&part, &target, group, options.clone())?;
                    let right = F::cross_entropy_with(&whole, &target, options)?;
                    let t = tolerance(dtype);
                    close(&what, &left, &right, t, 0.0)?;
                    let weights = Tensor::arange(
                        1.0,
                        right.numel() as f64 + 1.0,
                        1.0,
                        dtype,
                        right.device(),
                    )?;
                    let weights = weights.reshape(right.shape())?;
                    left.mul(&weights)?.sum()?.backward()?;
                    right.mul(&weights)?.sum()?.backward()?;
                    match (part.grad(), whole.grad()) {
                        (Some(a), Some(b)) => {
                            let b = b.narrow(class_dim, group.rank() * n, n)?;
                            close(&format!("{what}: gradient"), &a, &b, t, 0.01)
                        }
                        _ => Err(wrong(format!("{what}: no gradient"))),
                    }
                })?;
            }
        }
    }
    let out = vocab_parallel_cross_entropy(
        &ones([1, n]),
        &torsh_tensor::tensor![VOCABULARY as i64],
        group,
    );
    check(out.is_err(), || "a class out of range is no error".into())
}

/// Random numbers that ranks share, and those that differ.
pub fn random(group: &ProcessGroup) -> Result<()> {
    LocalGenerator::new(group.rank() as u64).scope(|| {
        synchronize_rng(group)?;
        let same = |t: &Tensor| -> Result<(bool, bool)> {
            let all = group.all_gather(&t.detach())?;
            let first = all.iter().all(|t| *t == all[0]);
            let none = (0..all.len()).all(|i| (0..i).all(|j| all[i] != all[j]));
            Ok((first, none))
        };
        let dropped = |sharded: bool| -> Result<Tensor> {
            match sharded {
                true => with_sharded_rng(group, || F::dropout(ones([64]), 0.5, true)),
                false => F::dropout(ones([64]), 0.5, true),
            }
        };
        check(same(&dropped(false)?)?.0, || {
            "replicated dropout differs between ranks".into()
        })?;
        check(same(&dropped(true)?)?.1, || {
            "sharded dropout is the same on two ranks".into()
        })?;
        check(same(&dropped(false)?)?.0, || {
            "the replicated stream has lost its step".into()
        })?;
        // A state brings the sharded numbers back too.
        let state = default_generator().get_state();
        let before = dropped(true)?;
        default_generator().set_state(&state).map_err(wrong)?;
        check(dropped(true)? == before, || {
            "a restored state draws other numbers".into()
        })?;
        // The same by a plan.
        let mut net = sequential![Dropout::new(0.5)?];
        parallelize_module(&mut net, group, &plan![("0", SequenceParallel)])?;
        check(same(&net.forward(&ones([64]))?)?.1, || {
            "a plan's dropout is the same on two ranks".into()
        })?;
        net.eval();
        check(net.forward(&ones([64]))? == ones([64]), || {
            "dropout in evaluation".into()
        })
    })
}

/// What a checkpoint computes again is the same, gradients too.
pub fn checkpoints(group: &ProcessGroup) -> Result<()> {
    seeded(20, || {
        // A drawn mask.
        let x = ones([64]).requires_grad_(true);
        let (g, input) = (group.clone(), x.clone());
        let y = checkpoint(move || {
            with_sharded_rng(&g, || F::dropout(&input.mul(1.0)?, 0.5, true)?.square())
        })?;
        y.sum()?.backward()?;
        let kept = x
            .grad()
            .ok_or_else(|| wrong("a checkpointed dropout has no gradient"))?
            .ne(0.0)?;
        check(kept == y.detach().ne(0.0)?, || {
            "a checkpoint draws another mask".into()
        })
    })?;
    let plan = plan![
        ("0.norm?", SequenceParallel),
        ("0.q", ColumnParallel.sequence_input(1)),
        ("0.k", ColumnParallel.sequence_input(1)),
        ("0.v", ColumnParallel.sequence_input(1)),
        ("0.o", RowParallel.sequence_output(1)),
        ("0.fc1", ColumnParallel.sequence_input(1)),
        ("0.fc2", RowParallel.sequence_output(1)),
    ];
    let gradients = |again: bool| {
        seeded(21, || {
            let mut net = sequential![Block::new()?];
            parallelize_module(&mut net, group, &plan)?;
            let net = std::sync::Arc::new(net);
            let x = randn([2, LENGTH / group.size(), WIDTH]).requires_grad_(true);
            let run = {
                let (net, x) = (net.clone(), x.clone());
                move || net.forward(&x)
            };
            let y = if again { checkpoint(run)? } else { run()? };
            y.square()?.sum()?.backward()?;
            let mut all: Vec<(String, Option<Tensor>)> = vec![("x".into(), x.grad())];
            all.extend(
                net.named_parameters()
                    .into_iter()
                    .map(|(n, p)| (n, p.grad())),
            );
            Ok(all)
        })
    };
    for ((name, a), (_, b)) in gradients(false)?.iter().zip(&gradients(true)?) {
        check(a.is_some() && a == b, || {
            format!("checkpointed: the gradient of {name} is another")
        })?;
    }
    Ok(())
}

/// Tensor parallel along one dimension of a mesh, data parallel or sharded along the other.
pub fn meshes(group: &ProcessGroup) -> Result<()> {
    if group.size() != 4 {
        return Ok(());
    }
    let mesh = DeviceMesh::from_group(group, &[2, 2], &["dp", "tp"])?;
    let replica = mesh.coordinate()[0];
    for (kind, plan) in [
        ("plain", plain_plan()),
        ("sequence parallel", sequence_plan()),
    ] {
        seeded(19, || {
            let whole = Gpt::new(DType::F32)?;
            let ids = randint(0, VOCABULARY as i64, &[4, LENGTH]);
            let target = randint(0, VOCABULARY as i64, &[4 * LENGTH]);
            loss(&whole, &ids, &target, None)?;
            let ids = ids.narrow(0, 2 * replica, 2)?;
            let target = target.narrow(0, 2 * LENGTH * replica, 2 * LENGTH)?;
            let divided = || -> Result<(Gpt, TensorParallel)> {
                let mut model = Gpt::new(DType::F32)?;
                model.load_state_dict(&whole.state_dict())?;
                let tp = parallelize_module(&mut model, &mesh["tp"], &plan)?;
                Ok((model, tp))
            };
            let (model, tp) = divided()?;
            let ddp = DistributedDataParallel::builder(model)
                .process_group(&mesh.group("dp")?)
                .build()?;
            vocab_parallel_cross_entropy(&ddp.forward(&ids)?, &target, tp.group())?.backward()?;
            same_gradients(
                &format!("{kind} and data parallel"),
                &tp,
                ddp.module(),
                &whole,
                1e-5,
            )?;

            let (mut model, tp) = divided()?;
            for block in &mut model.blocks {
                fully_shard(block, &mesh["dp"], FullyShardOptions::default())?;
            }
            let model = Sharded::new(model, &mesh["dp"], FullyShardOptions::default())?;
            vocab_parallel_cross_entropy(&model.forward(&ids)?, &target, tp.group())?.backward()?;
            let right = whole.named_parameters();
            let mut scale = 0.0f64;
            for (_, p) in &right {
                scale = scale.max(p.grad().map_or(Ok(0.0), |g| largest(&g))?);
            }
            for (name, p) in model.module().named_parameters() {
                let right = right
                    .iter()
                    .find(|(n, _)| *n == name)
                    .and_then(|(_, w)| w.grad());
                let (Some(left), Some(right)) = (p.grad(), right) else {
                    return Err(wrong(format!("{kind} and sharded: {name} has no gradient")));
                };
                let left = cat(&mesh.group("dp")?.all_gather(&left.contiguous()?)?, 0)?;
                let left = match tp.sharded_dim(&name) {
                    Some(d) => cat(&tp.group().all_gather(&left)?, d)?,
                    None => left,
                };
                close(
                    &format!("{kind} and sharded: gradient of {name}"),
                    &left,
                    &right,
                    1e-5,
                    0.05 * scale,
                )?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// What must be an error, with what is wrong.
pub fn errors(group: &ProcessGroup) -> Result<()> {
    let gpt = || seeded(18, || Gpt::new(DType::F32));
    let run = |plan: Vec<(String, ParallelStyle)>| parallelize_module(&mut gpt()?, group, &plan);
    says(
        run(plan![("blocks.*.fc3", ColumnParallel)]),
        &["blocks.*.fc3", "blocks.0.fc1"],
    )?;
    says(
        run(plan![("norm", ColumnParallel)]),
        &["norm", "LayerNorm", "Linear"],
    )?;
    says(
        run(plan![("head", VocabParallel)]),
        &["head", "Linear", "Embedding"],
    )?;
    says(
        run(plan![("head", ColumnParallel), ("head", RowParallel)]),
        &["head", "Row", "Column"],
    )?;
    let mut tied = gpt()?;
    tied.head.weight = tied.emb.weight.clone();
    says(
        parallelize_module(&mut tied, group, &plan![("emb", VocabParallel)]),
        &["emb.weight", "head.weight", "tied"],
    )?;
    // Both the same way stays one parameter.
    parallelize_module(
        &mut tied,
        group,
        &plan![("emb", VocabParallel), ("head", ColumnParallel)],
    )?;
    check(tied.head.weight.is_same(&tied.emb.weight), || {
        "tied weights came apart".into()
    })?;
    if group.size() > 1 {
        let mut net = sequential![Linear::new(4, 5 * group.size() + 1)];
        let n = (5 * group.size() + 1).to_string();
        says(
            parallelize_module(&mut net, group, &plan![("0", ColumnParallel)]),
            &["0.weight", &n],
        )?;
        says(
            ColumnParallelLinear::new(4, 5 * group.size() + 1, group),
            &["out_features", &n],
        )?;
    }
    let options = CrossEntropyOptions::new().weight(&ones([VOCABULARY]));
    let scores = ones([1, VOCABULARY]);
    let target = torsh_tensor::tensor![0];
    says(
        vocab_parallel_cross_entropy_with(&scores, &target, group, options),
        &["weights"],
    )
}

/// All checks of tensor parallel layers and plans.
pub fn run(group: &ProcessGroup) -> Result<()> {
    mlp(group)?;
    layers(group)?;
    attention(group)?;
    losses(group)?;
    models(group)?;
    training(group)?;
    random(group)?;
    checkpoints(group)?;
    meshes(group)?;
    errors(group)
}
