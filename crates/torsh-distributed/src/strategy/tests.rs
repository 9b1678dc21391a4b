//! Trainers on several ranks, each a thread.

use std::path::PathBuf;

use torsh_data::{
    DataLoader, DistributedSampler, IterableDataset, IterableLoader, ShardedIterable, TensorDataset,
};
use torsh_functional as F;
use torsh_nn::{Linear, Module, ModuleExt, ReLU, Sequential};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_tensor::{Result, Tensor, no_grad};
use torsh_train::callbacks::{Callback, Context, CsvLogger, ModelCheckpoint};
use torsh_train::metrics::Accuracy;
use torsh_train::{Loader, Stop, Strategy, Trainer, TrainingResults};

use crate::{
    DDPStrategy, DeviceMesh, DistributedDataParallel, FSDPStrategy, FullyShardOptions,
    GroupStrategy, ProcessGroup, Sharded, spawn,
};

type Batch = (Tensor, Tensor);

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("torsh-strategy-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Points of three classes.
fn points(n: usize) -> Result<Batch> {
    let x = Tensor::from_fn([n, 4], |i| ((i[0] * 7 + i[1] * 3) % 11) as f32 / 5.0 - 1.0)?;
    let y: Vec<i64> = (0..n).map(|i| (i * 5 % 3) as i64).collect();
    Ok((x, Tensor::from_data(&y, [n])?))
}

fn net() -> Result<Sequential> {
    let net = Sequential::new()
        .add(Linear::new(4, 8))
        .add(ReLU::new())
        .add(Linear::new(8, 3));
    no_grad(|| {
        for (k, p) in net.parameters().iter().enumerate() {
            let n = p.numel();
            let values: Vec<f32> = (0..n)
                .map(|i| ((i * 13 + k * 5) % 17) as f32 / 20.0 - 0.4)
                .collect();
            p.copy_(&Tensor::from_data(&values, p.dims().to_vec())?)?;
        }
        Ok(())
    })?;
    Ok(net)
}

fn loss(output: &Tensor, target: &Tensor) -> Result<Tensor> {
    F::cross_entropy(output, target)
}

fn loader(n: usize, batch: usize, shuffled: bool) -> Result<DataLoader> {
    let (x, y) = points(n)?;
    let builder = DataLoader::builder(TensorDataset::new(x, y)).batch_size(batch);
    match shuffled {
        true => builder.shuffle(true).seed(3).build(),
        false => builder.build(),
    }
}

fn values(module: &impl Module) -> Result<Vec<Vec<f32>>> {
    module
        .parameters()
        .iter()
        .map(|p| p.detach().to_vec::<f32>())
        .collect()
}

/// What is different from test to test.
struct Plan {
    epochs: usize,
    accumulate: usize,
    clip: Option<f64>,
}

const PLAIN: Plan = Plan {
    epochs: 3,
    accumulate: 1,
    clip: None,
};

fn trainer<M: Module>(
    model: M,
    optimizer: &impl Optimizer,
    plan: &Plan,
    strategy: Option<impl Strategy<M> + 'static>,
) -> Result<Trainer<M>> {
    let mut builder = Trainer::builder(model, optimizer)
        .loss(loss)
        .metric(Accuracy::new())
        .epochs(plan.epochs)
        .accumulate(plan.accumulate);
    if let Some(max) = plan.clip {
        builder = builder.clip_grad_norm(max);
    }
    if let Some(strategy) = strategy {
        builder = builder.distributed(strategy);
    }
    builder.build()
}

type Run = (Vec<Vec<f32>>, TrainingResults);

fn with_group(g: &ProcessGroup, plan: &Plan, train: &dyn Loader<Batch = Batch>) -> Result<Run> {
    let model = net()?;
    let adam = AdamW::new(model.parameters(), 0.01)?;
    let mut t = trainer(model, &adam, plan, Some(GroupStrategy::new(g)))?;
    let results = t.fit(train, Some(&loader(13, 4, false)?))?;
    Ok((values(t.model())?, results))
}

fn with_ddp(g: &ProcessGroup, plan: &Plan, train: &dyn Loader<Batch = Batch>) -> Result<Run> {
    let model = DistributedDataParallel::builder(net()?)
        .process_group(g)
        .build()?;
    let adam = AdamW::new(model.parameters(), 0.01)?;
    let mut t = trainer(model, &adam, plan, Some(DDPStrategy::new(g)))?;
    let results = t.fit(train, Some(&loader(13, 4, false)?))?;
    Ok((values(t.model())?, results))
}

/// The whole parameters of a sharded run.
fn with_fsdp(g: &ProcessGroup, plan: &Plan, train: &dyn Loader<Batch = Batch>) -> Result<Run> {
    let mesh = DeviceMesh::from_group(g, &[g.size()], &["dp"])?;
    let model = Sharded::new(net()?, &mesh, FullyShardOptions::default())?;
    let adam = AdamW::new(model.parameters(), 0.01)?;
    let strategy = FSDPStrategy::new(model.shard());
    let mut t = trainer(model, &adam, plan, Some(strategy))?;
    let results = t.fit(train, Some(&loader(13, 4, false)?))?;
    let whole = crate::full_state_dict(t.model())?;
    let names: Vec<String> = t
        .model()
        .named_parameters()
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    let all = names.iter().map(|n| whole[n.as_str()].to_vec::<f32>());
    Ok((all.collect::<Result<_>>()?, results))
}

/// One process that learns from the batches of all ranks, in their order.
fn alone(n: usize, plan: &Plan, items: usize, batch: usize) -> Result<Run> {
    let (x, y) = points(items)?;
    let share = items.div_ceil(n);
    let part = |rank: usize, range: std::ops::Range<usize>| -> Result<Batch> {
        let at: Vec<i64> = range.map(|i| ((i * n + rank) % items) as i64).collect();
        let at = Tensor::from_data(&at, [at.len()])?;
        Ok((x.index_select(0, &at)?, y.index_select(0, &at)?))
    };
    let mut batches = Vec::new();
    for start in (0..share).step_by(batch) {
        for rank in 0..n {
            batches.push(part(rank, start..share.min(start + batch))?);
        }
    }
    let model = net()?;
    let adam = AdamW::new(model.parameters(), 0.01)?;
    let plan = Plan {
        accumulate: plan.accumulate * n,
        ..*plan
    };
    let mut t = trainer(model, &adam, &plan, None::<GroupStrategy>)?;
    let results = t.fit(&batches, Some(&loader(13, 4, false)?))?;
    Ok((values(t.model())?, results))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} and {b}");
}

#[test]
fn every_strategy_comes_to_what_one_process_comes_to() -> Result<()> {
    for n in [1, 2, 4] {
        let by = [with_group, with_ddp, with_fsdp];
        let (expected, single) = alone(n, &PLAIN, 24, 2)?;
        for (i, run) in by.into_iter().enumerate() {
            let all = spawn(n, |g| run(&g, &PLAIN, &loader(24, 2, false)?))?;
            for (weights, results) in &all {
                assert_eq!(*weights, expected, "strategy {i} of {n} ranks");
                assert_eq!(results.steps, single.steps);
                for (e, s) in results.history.iter().zip(single.history.iter()) {
                    // Counts of all ranks: the accuracy is exact, the loss up to rounding.
                    assert_eq!(e.val_metrics["accuracy"], s.val_metrics["accuracy"]);
                    assert_eq!(e.train_metrics["accuracy"], s.train_metrics["accuracy"]);
                    assert!((e.val_metrics["loss"] - s.val_metrics["loss"]).abs() < 1e-6);
                    close(e.train_metrics["loss"], s.train_metrics["loss"]);
                }
                assert_eq!(results.history, all[0].1.history);
            }
        }
    }
    Ok(())
}

#[test]
fn accumulation_and_clipping_are_those_of_one_process() -> Result<()> {
    let plan = Plan {
        epochs: 2,
        accumulate: 2,
        clip: Some(0.5),
    };
    // Four batches of a rank in an epoch, and with 28 items a last one of other size.
    for items in [32, 28] {
        let (expected, single) = alone(2, &plan, items, 4)?;
        let by = [with_group, with_ddp, with_fsdp];
        let runs = by.map(|run| spawn(2, |g| run(&g, &plan, &loader(items, 4, false)?)));
        let [group, ddp, fsdp] = runs;
        let (group, ddp, fsdp) = (group?, ddp?, fsdp?);
        assert_eq!(group, ddp);
        // A rank adds its own batches first, and pieces have a norm of another order.
        for (weights, results) in ddp.iter().chain(&fsdp) {
            assert_eq!(results.steps, single.steps);
            for (a, b) in weights.iter().flatten().zip(expected.iter().flatten()) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_distributed_sampler_is_told_the_epochs() -> Result<()> {
    let own = |g: ProcessGroup| {
        let (x, y) = points(24)?;
        let sampler = DistributedSampler::new(24, g.size(), g.rank())?.seed(9);
        let loader = DataLoader::builder(TensorDataset::new(x, y))
            .batch_size(2)
            .sampler(sampler)
            .build()?;
        with_ddp(&g, &PLAIN, &loader)
    };
    let by_hand = |g: ProcessGroup| {
        let (x, y) = points(24)?;
        let sampler = DistributedSampler::new(24, g.size(), g.rank())?.seed(9);
        let loader = DataLoader::builder(TensorDataset::new(x, y))
            .batch_size(2)
            .sampler(sampler.clone())
            .build()?;
        let model = DistributedDataParallel::builder(net()?)
            .process_group(&g)
            .build()?;
        let adam = AdamW::new(model.parameters(), 0.01)?;
        for epoch in 0..3 {
            sampler.set_epoch(epoch);
            for (x, y) in &loader {
                adam.zero_grad();
                loss(&model.forward(&x)?, &y)?.backward()?;
                adam.step()?;
            }
        }
        values(&model)
    };
    let (own, by_hand) = (spawn(2, own)?, spawn(2, by_hand)?);
    assert_eq!(own[0].0, by_hand[0]);
    // The part of another rank is refused.
    let other = spawn(2, |g| {
        let sampler = DistributedSampler::new(24, 2, 0)?;
        let (x, y) = points(24)?;
        let loader = DataLoader::builder(TensorDataset::new(x, y))
            .sampler(sampler)
            .build()?;
        with_ddp(&g, &PLAIN, &loader).map(drop)
    });
    let text = other.unwrap_err().to_string();
    assert!(
        text.contains("rank 0 of 2, and this is rank 1 of 2"),
        "{text}"
    );
    Ok(())
}

#[test]
fn ranks_that_read_other_data_are_an_error_on_all() -> Result<()> {
    let orders = spawn(2, |g| {
        let (x, y) = points(24)?;
        let loader = DataLoader::builder(TensorDataset::new(x, y))
            .shuffle(true)
            .seed(g.rank() as u64)
            .build()?;
        Ok(with_group(&g, &PLAIN, &loader).unwrap_err().to_string())
    })?;
    let counts = spawn(2, |g| {
        let loader = loader(24 + 8 * g.rank(), 2, false)?;
        Ok(with_group(&g, &PLAIN, &loader).unwrap_err().to_string())
    })?;
    for (text, part) in [
        (
            orders,
            "rank 0 and rank 1 read the data in different orders",
        ),
        (counts, "6 batches on rank 0 and 8 batches on rank 1"),
    ] {
        assert!(text.iter().all(|t| t.contains(part)), "{text:?}");
    }
    Ok(())
}

/// Asks for the end after a batch, on one rank.
struct StopAt {
    rank: usize,
    batch: usize,
    of: usize,
}

impl Callback for StopAt {
    fn name(&self) -> &str {
        "stop_at"
    }

    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if self.rank == self.of && cx.batch == self.batch {
            cx.stop("enough");
        }
        Ok(())
    }
}

#[test]
fn one_rank_that_stops_stops_all_after_the_same_batch() -> Result<()> {
    let stops = spawn(3, |g| {
        let model = net()?;
        let sgd = SGD::new(model.parameters(), 0.1)?;
        let mut t = Trainer::builder(model, &sgd)
            .loss(loss)
            .callback(StopAt {
                rank: g.rank(),
                batch: 3,
                of: 1,
            })
            .distributed(GroupStrategy::new(&g))
            .build()?;
        let results = t.fit(&loader(30, 2, false)?, None)?;
        Ok((results.steps, results.stop))
    })?;
    let other = Stop::Callback("another rank ended the run".into());
    assert_eq!(
        stops,
        [
            (3, other.clone()),
            (3, Stop::Callback("enough".into())),
            (3, other)
        ]
    );
    // As Ctrl-C, which a handle stands for.
    let stops = spawn(2, |g| {
        let model = net()?;
        let sgd = SGD::new(model.parameters(), 0.1)?;
        let mut t = Trainer::builder(model, &sgd)
            .loss(loss)
            .accumulate(2)
            .distributed(GroupStrategy::new(&g))
            .build()?;
        if g.rank() == 1 {
            t.stop_handle().stop();
        }
        let results = t.fit(&loader(32, 2, false)?, None)?;
        Ok((results.steps, results.stop))
    })?;
    // The step's second batch is learned from before.
    assert_eq!(stops, vec![(1, Stop::Interrupted); 2]);
    Ok(())
}

#[test]
fn rank_0_alone_logs_and_saves() -> Result<()> {
    let dir = folder("logs");
    spawn(3, |g| {
        let model = net()?;
        let sgd = SGD::new(model.parameters(), 0.1)?;
        let mut t = Trainer::builder(model, &sgd)
            .loss(loss)
            .epochs(4)
            .callback(CsvLogger::new(dir.join("log.csv")))
            .callback(ModelCheckpoint::new(&dir).keep_last(2))
            .distributed(GroupStrategy::new(&g))
            .build()?;
        t.fit(&loader(30, 2, false)?, None).map(drop)
    })?;
    let log = std::fs::read_to_string(dir.join("log.csv"))?;
    let rows: Vec<&str> = log
        .lines()
        .map(|l| l.split(',').next().unwrap_or(""))
        .collect();
    assert_eq!(rows, ["epoch", "0", "1", "2", "3"]);
    let mut files: Vec<String> = std::fs::read_dir(&dir)?
        .map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    assert_eq!(files, ["epoch_0003.pt", "epoch_0004.pt", "log.csv"]);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Asks for a checkpoint after a step.
struct SaveAt(usize, PathBuf);

impl Callback for SaveAt {
    fn name(&self) -> &str {
        "save_at"
    }

    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if cx.step == self.0 {
            cx.save(&self.1);
        }
        Ok(())
    }
}

/// A run of a strategy that saves after a step, or begins with what one saved.
fn resumable(g: &ProcessGroup, sharded: bool, path: &PathBuf, resume: bool) -> Result<Run> {
    let data = loader(36, 2, true)?;
    let run = |weights: Vec<Vec<f32>>, results| Ok((weights, results));
    let save = SaveAt(4, path.clone());
    if sharded {
        let mesh = DeviceMesh::from_group(g, &[g.size()], &["dp"])?;
        let model = Sharded::new(net()?, &mesh, FullyShardOptions::default())?;
        let adam = AdamW::new(model.parameters(), 0.01)?;
        let strategy = FSDPStrategy::new(model.shard());
        let mut t = Trainer::builder(model, &adam)
            .loss(loss)
            .metric(Accuracy::new())
            .epochs(2)
            .callback(save)
            .distributed(strategy)
            .build()?;
        if resume {
            t.resume(path)?;
        }
        let results = t.fit(&data, None)?;
        let whole = crate::full_state_dict(t.model())?;
        let all = whole.iter().map(|(_, v)| v.to_vec::<f32>());
        return run(all.collect::<Result<_>>()?, results);
    }
    let model = DistributedDataParallel::builder(net()?)
        .process_group(g)
        .build()?;
    let adam = AdamW::new(model.parameters(), 0.01)?;
    let mut t = Trainer::builder(model, &adam)
        .loss(loss)
        .metric(Accuracy::new())
        .epochs(2)
        .callback(save)
        .distributed(DDPStrategy::new(g))
        .build()?;
    if resume {
        t.resume(path)?;
    }
    let results = t.fit(&data, None)?;
    run(values(t.model())?, results)
}

#[test]
fn a_run_goes_on_bit_for_bit_and_at_other_numbers_of_ranks() -> Result<()> {
    let dir = folder("resume");
    for (sharded, name) in [(false, "whole.pt"), (true, "pieces")] {
        let path = dir.join(name);
        let whole = spawn(2, |g| resumable(&g, sharded, &path, false))?;
        let again = spawn(2, |g| resumable(&g, sharded, &path, true))?;
        assert_eq!(again, whole, "{name}");
        for n in [1, 3, 4] {
            let other = spawn(n, |g| resumable(&g, sharded, &path, true))?;
            assert!(other.iter().all(|o| o.0 == other[0].0), "{name} {n}");
            let (before, after) = (&whole[0].1, &other[0].1);
            assert_eq!(after.history.len(), 2);
            // The batches after the checkpoint are others, the course is the same.
            let ends = [before, after].map(|r| r.final_loss().unwrap_or(f64::NAN));
            assert!((ends[0] - ends[1]).abs() < 0.1, "{name} {n}: {ends:?}");
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// A stream of points.
struct Stream(usize);

impl IterableDataset for Stream {
    type Item = Batch;

    fn iter(&self) -> Box<dyn Iterator<Item = Result<Batch>> + Send + '_> {
        let all = points(self.0);
        Box::new((0..self.0).map(move |i| match &all {
            Ok((x, y)) => Ok((x.select(0, i as i64)?, y.select(0, i as i64)?)),
            Err(e) => Err(torsh_tensor::TorshError::Other(e.to_string())),
        }))
    }
}

#[test]
fn streams_are_shared_and_end_together() -> Result<()> {
    // 21 items: ranks have 11 and 10, in batches of 2 are 6 and 5.
    let (streamed, stored) = (
        spawn(2, |g| {
            let loader = IterableLoader::new(ShardedIterable::new(Stream(21)), 2)?;
            with_ddp(&g, &PLAIN, &loader)
        })?,
        spawn(2, |g| with_ddp(&g, &PLAIN, &loader(20, 2, false)?))?,
    );
    assert_eq!(streamed[0].0, stored[0].0);
    assert_eq!(streamed[0].1.steps, 15);
    // A stream that gives all to everybody is an error, and says what to do.
    let all = spawn(2, |g| {
        with_ddp(&g, &PLAIN, &IterableLoader::new(Stream(21), 2)?).map(drop)
    });
    let text = all.unwrap_err().to_string();
    assert!(text.contains("ShardedIterable"), "{text}");
    Ok(())
}
