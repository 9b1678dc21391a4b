//! Whole runs of the trainer.

use std::sync::{Arc, Mutex};

use torsh_core::Device;
use torsh_data::{DataLoader, OnDevice, TensorDataset};
use torsh_functional as F;
use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::{AdamW, GradScaler, SGD};
use torsh_tensor::{DType, Result, Tensor};
use torsh_train::callbacks::{Callback, Context};
use torsh_train::metrics::{
    Accuracy, Average, ConfusionMatrix, F1, MeanAbsoluteError, MeanSquaredError, Metric,
    Perplexity, TopKAccuracy,
};
use torsh_train::{Trainer, TrainerBuilder};

use crate::{Scratch, alone, assert_near, numbers, waits};

type Data = DataLoader<TensorDataset<(Tensor, Tensor)>, OnDevice<torsh_data::DefaultCollate>>;

/// Points of three classes: 160 items, 20 batches.
fn data(device: Device) -> Result<Data> {
    let y: Vec<i64> = (0..160).map(|i| i % 3).collect();
    let y = Tensor::from_slice(&y, [160], DType::I64, Device::Cpu)?;
    let x = Tensor::from_fn([160, 6], |i| {
        let wave = ((i[0] * 7 + i[1] * 13) % 11) as f32 / 11.0 - 0.5;
        wave + if i[1] % 3 == i[0] % 3 { 0.5 } else { 0.0 }
    })?;
    let set = TensorDataset::new(x, y);
    DataLoader::builder(set)
        .batch_size(8)
        .device(device)
        .build()
}

fn model(device: Device) -> Result<Linear> {
    torsh_core::random::manual_seed(3);
    let mut model = Linear::new(6, 3);
    model.to_device(device)?;
    Ok(model)
}

fn builder(model: Linear) -> Result<TrainerBuilder<Linear>> {
    let optimizer = AdamW::new(model.parameters(), 0.02)?;
    Ok(Trainer::builder(model, &optimizer)
        .loss(|output, target| F::cross_entropy(output, target))
        .metric(Accuracy::new())
        .log_every(10))
}

/// The numbers of the history and the weights.
fn outcome<B>(trainer: &Trainer<Linear, B>) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for epoch in trainer.history().iter() {
        all.extend(epoch.train_metrics.values());
        all.extend(epoch.val_metrics.values());
    }
    all.extend(numbers(&trainer.model().parameters())?);
    Ok(all)
}

#[test]
fn a_run_waits_as_often_as_it_logs_and_gives_the_cpus_numbers() -> Result<()> {
    let (d, mock, _alone) = alone();
    let mut there = builder(model(d)?)?.build()?;
    let (waited, _) = waits(mock, || there.fit(&data(d)?, None))?;
    // Twice ten losses, and the accuracy at the end.
    assert_eq!(waited, 3);
    let mut here = builder(model(Device::Cpu)?)?.build()?;
    here.fit(&data(Device::Cpu)?, None)?;
    assert_near(&outcome(&there)?, &outcome(&here)?);
    Ok(())
}

#[test]
fn the_loss_of_the_cpu_does_not_depend_on_when_it_is_read() -> Result<()> {
    let (_, _, _alone) = alone();
    let run = |every: usize| {
        let mut trainer = builder(model(Device::Cpu)?)?.log_every(every).build()?;
        trainer.fit(&data(Device::Cpu)?, Some(&data(Device::Cpu)?))?;
        outcome(&trainer)
    };
    let each = run(1)?;
    assert_eq!(run(7)?, each);
    assert_eq!(run(1000)?, each);
    Ok(())
}

#[test]
fn validation_waits_as_rarely() -> Result<()> {
    let (d, mock, _alone) = alone();
    let run = |device: Device| {
        let mut trainer = builder(model(device)?)?.log_every(20).build()?;
        let (train, val) = (data(device)?, data(device)?);
        let (waited, _) = waits(mock, || trainer.fit(&train, Some(&val)))?;
        Ok::<_, torsh_tensor::TorshError>((waited, outcome(&trainer)?))
    };
    let (waited, there) = run(d)?;
    assert_eq!(waited, 4);
    let (waited, here) = run(Device::Cpu)?;
    assert_eq!(waited, 0);
    assert_near(&there, &here);
    Ok(())
}

#[test]
fn a_run_goes_on_from_its_checkpoint_on_either_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let file = Scratch::new("run.pt");
    let mut whole = builder(model(Device::Cpu)?)?.epochs(2).build()?;
    whole.fit(&data(Device::Cpu)?, None)?;
    let wanted = outcome(&whole)?;

    let mut first = builder(model(d)?)?.build()?;
    first.fit(&data(d)?, None)?;
    first.save_checkpoint(&file.0)?;
    for device in [d, Device::Cpu] {
        let mut second = builder(model(device)?)?.epochs(2).build()?;
        second.resume(&file.0)?;
        second.fit(&data(device)?, None)?;
        assert!(
            second
                .model()
                .parameters()
                .iter()
                .all(|p| p.device() == device)
        );
        assert_near(&outcome(&second)?, &wanted);
    }
    Ok(())
}

/// Saves a checkpoint in the middle of an epoch.
struct SaveAt(usize, std::path::PathBuf);

impl Callback for SaveAt {
    fn name(&self) -> &str {
        "save_at"
    }
    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if cx.step == self.0 {
            cx.save(self.1.clone());
        }
        Ok(())
    }
}

#[test]
fn what_a_device_draws_goes_on_from_a_checkpoint_in_an_epoch() -> Result<()> {
    let (d, _, _alone) = alone();
    let file = Scratch::new("noise.pt");
    let noisy = |model: Linear| -> Result<TrainerBuilder<Linear, (Tensor, Tensor)>> {
        let sgd = SGD::new(model.parameters(), 0.1)?;
        Ok(Trainer::builder(model, &sgd)
            .training_step(|m: &Linear, (x, y): &(Tensor, Tensor)| {
                let noise = Tensor::randn(x.shape(), DType::F32, x.device())?;
                let output = m.forward(&x.add(&noise)?)?;
                Ok(F::cross_entropy(&output, y)?.into())
            })
            .log_every(6))
    };
    torsh_core::random::manual_seed(1);
    let mut whole = noisy(model(d)?)?
        .callback(SaveAt(13, file.0.clone()))
        .build()?;
    whole.fit(&data(d)?, None)?;
    let wanted = outcome(&whole)?;

    let mut again = noisy(model(d)?)?.build()?;
    torsh_core::random::manual_seed(2);
    again.resume(&file.0)?;
    again.fit(&data(d)?, None)?;
    // The losses of the saved batches are in the mean.
    assert_eq!(outcome(&again)?, wanted);
    Ok(())
}

#[test]
fn a_loss_that_is_no_number_is_named_with_its_batch() -> Result<()> {
    let (d, _, _alone) = alone();
    let model = model(d)?;
    let sgd = SGD::new(model.parameters(), 0.1)?;
    let batches: Vec<Tensor> = [1.0, f64::NAN, 1.0, 1.0]
        .map(|v| Tensor::full([1, 6], v, DType::F32, d))
        .into_iter()
        .collect::<Result<_>>()?;
    let mut trainer = Trainer::builder(model, &sgd)
        .training_step(|m: &Linear, x: &Tensor| Ok(m.forward(x)?.sum()?.into()))
        .log_every(3)
        .build()?;
    let e = trainer.fit(&batches, None).expect_err("NaN").to_string();
    assert!(
        e.contains("the loss is NaN in epoch 0, batch 1, step 1, which was read after batch 2"),
        "{e}"
    );
    Ok(())
}

/// The losses that callbacks see.
struct Seen(Arc<Mutex<Vec<Option<f64>>>>);

impl Callback for Seen {
    fn name(&self) -> &str {
        "seen"
    }
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.0.lock().expect("no panic").push(cx.loss);
        Ok(())
    }
}

#[test]
fn callbacks_see_the_loss_that_was_read_last() -> Result<()> {
    let (d, _, _alone) = alone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = model(d)?;
    let sgd = SGD::new(model.parameters(), 0.0)?;
    let batches: Vec<Tensor> = (0..5)
        .map(|i| Tensor::full([1], f64::from(i), DType::F32, d))
        .collect::<Result<_>>()?;
    let mut trainer = Trainer::builder(model, &sgd)
        .training_step(|m: &Linear, x: &Tensor| {
            let zero = m.weight.sum()?.mul(0.0)?;
            Ok(zero.add(&x.sum()?)?.into())
        })
        .callback(Seen(seen.clone()))
        .log_every(2)
        .build()?;
    let results = trainer.fit(&batches, None)?;
    assert_eq!(results.final_loss(), Some(2.0));
    let seen = seen.lock().expect("no panic").clone();
    assert_eq!(seen, [None, Some(1.0), Some(1.0), Some(3.0), Some(3.0)]);
    Ok(())
}

#[test]
fn a_scaled_run_does_not_wait_for_its_steps() -> Result<()> {
    let (d, mock, _alone) = alone();
    let run = |device: Device| {
        let mut trainer = builder(model(device)?)?.scaler(GradScaler::new()).build()?;
        let batches = data(device)?;
        let (waited, _) = waits(mock, || trainer.fit(&batches, None))?;
        Ok::<_, torsh_tensor::TorshError>((waited, outcome(&trainer)?))
    };
    let (waited, there) = run(d)?;
    assert_eq!(waited, 3);
    assert_near(&there, &run(Device::Cpu)?.1);
    Ok(())
}

fn fed(
    mut metric: impl Metric,
    batches: &[(Tensor, Tensor)],
    device: Device,
) -> Result<(torsh_train::metrics::MetricValue, usize)> {
    let before = torsh_backend_mock::mock(0).map_or(0, |m| m.waits());
    for (output, target) in batches {
        metric.update(&output.to_device(device)?, &target.to_device(device)?)?;
    }
    let waited = torsh_backend_mock::mock(0).map_or(0, |m| m.waits()) - before;
    // What one has seen another takes over.
    let state = metric.state()?;
    metric.reset();
    metric.merge(&state)?;
    Ok((metric.compute()?, waited))
}

#[test]
fn metrics_of_a_device_are_the_cpus_and_wait_at_the_end() -> Result<()> {
    let (d, _, _alone) = alone();
    let classes = |seed: usize| -> Result<(Tensor, Tensor)> {
        let scores = Tensor::from_fn([12, 4], |i| ((i[0] * 5 + i[1] * 7 + seed) % 6) as f32)?;
        let y: Vec<i64> = (0..12).map(|i| ((i * 3 + seed) % 4) as i64).collect();
        Ok((
            scores,
            Tensor::from_slice(&y, [12], DType::I64, Device::Cpu)?,
        ))
    };
    let batches = [classes(0)?, classes(1)?, classes(5)?];
    macro_rules! same {
        ($($metric:expr => $batches:expr;)*) => {$(
            let (there, waited) = fed($metric, $batches, d)?;
            let (here, _) = fed($metric, $batches, Device::Cpu)?;
            assert_eq!((&there, waited), (&here, 0), "{}", stringify!($metric));
        )*};
    }
    same! {
        Accuracy::new() => &batches;
        Accuracy::new().ignore_index(2) => &batches;
        TopKAccuracy::new(2) => &batches;
        ConfusionMatrix::new().num_classes(4) => &batches;
        ConfusionMatrix::new().num_classes(4).ignore_index(1) => &batches;
        F1::new().num_classes(4).average(Average::None) => &batches;
        F1::new().num_classes(4).average(Average::Weighted).ignore_index(3) => &batches;
    }
    // A threshold that float32 rounds up.
    let scores = Tensor::from_slice(&[0.1f32, 0.7, 0.3], [3], DType::F32, Device::Cpu)?;
    let binary = [(
        scores,
        Tensor::from_slice(&[1i64, 1, 0], [3], DType::I64, Device::Cpu)?,
    )];
    same! { Accuracy::new().threshold(0.1) => &binary; }
    let near = |metric: &dyn Fn() -> Box<dyn Metric>, batches: &[(Tensor, Tensor)]| {
        let (there, waited) = fed(metric(), batches, d)?;
        let (here, _) = fed(metric(), batches, Device::Cpu)?;
        assert_eq!(waited, 0);
        assert_near(&[there.scalar()?], &[here.scalar()?]);
        Ok::<_, torsh_tensor::TorshError>(())
    };
    near(&|| Box::new(Perplexity::new()), &batches)?;
    let y = Tensor::from_fn([12, 4], |i| (i[0] + i[1]) as f32 / 7.0)?;
    let pairs = batches.map(|(x, _)| (x, y.clone()));
    near(&|| Box::new(MeanAbsoluteError::new()), &pairs)?;
    near(&|| Box::new(MeanSquaredError::new().squared(false)), &pairs)?;
    Ok(())
}
