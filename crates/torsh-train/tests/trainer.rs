//! What the trainer does beside resuming.

use std::sync::{Arc, Mutex};

use crate::common::{Scratch, blobs, names};
use torsh_core::random::LocalGenerator;
use torsh_data::{DataLoader, TensorDataset};
use torsh_functional as F;
use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::lr_scheduler::{ReduceLROnPlateau, ReduceLROnPlateauOptions};
use torsh_optim::{GradScaler, GradScalerOptions, Optimizer, SGD};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, autocast_with, no_grad};
use torsh_train::callbacks::{
    Callback, Context, EarlyStopping, LearningRateMonitor, ModelCheckpoint,
};
use torsh_train::config::{ExperimentConfig, Format, SchedulerConfig};
use torsh_train::metrics::Accuracy;
use torsh_train::registry::create_model;
use torsh_train::{Checkpoint, Stop, Trainer};

fn start(value: f64) -> Result<Linear> {
    let net = Linear::new(6, 3);
    no_grad(|| {
        net.weight.fill_(value)?;
        net.bias.as_ref().unwrap().zero_()
    })?;
    Ok(net)
}

fn bits(net: &impl Module) -> Vec<f64> {
    let p = net.parameters();
    p.iter().flat_map(|p| p.to_vec::<f64>().unwrap()).collect()
}

fn loss(output: &Tensor, target: &Tensor) -> Result<Tensor> {
    F::cross_entropy(output, target)
}

/// The loop by hand, which the trainer must equal.
#[test]
fn a_run_is_the_loop_by_hand() -> Result<()> {
    let (x, y) = blobs(30)?;
    let loader = DataLoader::builder(TensorDataset::new(x.clone(), y.clone()))
        .batch_size(7)
        .build()?;
    let net = start(0.1)?;
    let sgd = SGD::builder(net.parameters())
        .lr(0.5)
        .momentum(0.9)
        .build()?;
    let mut losses = Vec::new();
    for _ in 0..3 {
        let (mut sum, mut n) = (0.0, 0.0);
        for (x, y) in &loader {
            sgd.zero_grad();
            let l = loss(&net.forward(&x)?, &y)?;
            l.backward()?;
            torsh_optim::clip_grad_norm_(net.parameters(), 0.2)?;
            torsh_optim::clip_grad_value_(net.parameters(), 0.05)?;
            sgd.step()?;
            sum += l.item::<f64>()? * y.dims()[0] as f64;
            n += y.dims()[0] as f64;
        }
        losses.push(sum / n);
    }
    let other = start(0.1)?;
    let sgd = SGD::builder(other.parameters())
        .lr(0.5)
        .momentum(0.9)
        .build()?;
    let mut trainer = Trainer::builder(other, &sgd)
        .loss(loss)
        .metric(Accuracy::new())
        .clip_grad_norm(0.2)
        .clip_grad_value(0.05)
        .epochs(3)
        .build()?;
    let results = trainer.fit(&loader, None)?;
    assert_eq!(bits(trainer.model()), bits(&net));
    let got: Vec<f64> = results
        .history
        .iter()
        .map(|e| e.train_metrics["loss"])
        .collect();
    assert_eq!(got, losses);
    assert_eq!(results.initial_loss(), Some(losses[0]));
    assert_eq!(results.best_metric, losses.iter().copied().reduce(f64::min));
    assert_eq!((results.final_epoch, results.steps), (3, 15));

    // Judged on the same data, it is as good as by hand.
    let found = trainer.evaluate(&loader)?;
    let output = net.forward(&x)?;
    assert!((found["loss"] - loss(&output, &y)?.item::<f64>()?).abs() < 1e-6);
    let right = torsh_train::metrics::accuracy(&output, &y)?;
    assert_eq!(found["accuracy"], right);
    assert!(trainer.model().is_training());
    Ok(())
}

/// Gradients of several batches are those of one batch of all.
#[test]
fn accumulation_is_a_larger_batch() -> Result<()> {
    let (x, y) = blobs(36)?;
    let run = |batch_size, accumulate| -> Result<Vec<f64>> {
        let data = TensorDataset::new(x.to_dtype(DType::F64)?, y.clone());
        let loader = DataLoader::builder(data).batch_size(batch_size).build()?;
        let mut net = start(0.2)?;
        net.to_dtype(DType::F64)?;
        let sgd = SGD::new(net.parameters(), 0.3)?;
        let trainer = Trainer::builder(net, &sgd)
            .loss(loss)
            .accumulate(accumulate)
            .epochs(2);
        let mut trainer = trainer.build()?;
        // 36 items: two steps of 16, and one of the 4 that are left.
        assert_eq!(trainer.fit(&loader, None)?.steps, 6);
        Ok(bits(trainer.model()))
    };
    let (a, b) = (run(16, 1)?, run(4, 4)?);
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }
    Ok(())
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn note(&self, what: String) -> Result<()> {
        self.0.lock().unwrap().push(what);
        Ok(())
    }
}

impl Callback for Events {
    fn name(&self) -> &str {
        "events"
    }
    fn on_fit_start(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.note("fit".into())
    }
    fn on_epoch_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.note(format!("epoch {}", cx.epoch))
    }
    fn on_batch_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.note(format!("batch {}/{}", cx.batch, cx.batches.unwrap_or(0)))
    }
    fn on_before_step(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.note("before".into())
    }
    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.note(format!("step {}", cx.step))
    }
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        assert!(cx.loss.is_some() && cx.train_metrics.contains_key("loss"));
        self.note(format!("end {}", cx.batch))
    }
    fn on_validation_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        assert!(cx.train_metrics.contains_key("accuracy"));
        self.note("val".into())
    }
    fn on_validation_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        assert!(cx.metric("accuracy").is_some());
        self.note("val end".into())
    }
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.note(format!("epoch end {}", cx.epoch))
    }
    fn on_fit_end(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.note("fit end".into())
    }
}

#[test]
fn callbacks_are_told_in_order() -> Result<()> {
    let (x, y) = blobs(9)?;
    let loader = DataLoader::builder(TensorDataset::new(x, y))
        .batch_size(3)
        .build()?;
    let net = start(0.0)?;
    let sgd = SGD::new(net.parameters(), 0.1)?;
    let events = Events::default();
    let mut trainer = Trainer::builder(net, &sgd)
        .loss(loss)
        .metric(Accuracy::new())
        .accumulate(2)
        .validate_every(2)
        .epochs(2)
        .callback(events.clone())
        .build()?;
    trainer.fit(&loader, Some(&loader))?;
    let epoch = |e: usize, s: usize, val: &[&str]| {
        let mut v = vec![format!("epoch {e}")];
        v.extend(["batch 0/3", "end 1", "batch 1/3", "before"].map(String::from));
        v.push(format!("step {s}"));
        v.extend(["end 2", "batch 2/3", "end 3", "before"].map(String::from));
        v.push(format!("step {}", s + 1));
        v.extend(val.iter().map(|s| s.to_string()));
        v.push(format!("epoch end {e}"));
        v
    };
    let mut want = vec!["fit".to_string()];
    want.extend(epoch(0, 1, &[]));
    want.extend(epoch(1, 3, &["val", "val end"]));
    want.push("fit end".into());
    assert_eq!(*events.0.lock().unwrap(), want);
    Ok(())
}

/// Gives losses as they are told, whatever the model does.
fn told(losses: &'static [f64]) -> Result<(Trainer<Linear, usize>, Vec<usize>, SGD)> {
    let net = start(0.0)?;
    let sgd = SGD::new(net.parameters(), 1.0)?;
    let trainer = Trainer::builder(net, &sgd)
        .training_step(|net: &Linear, i: &usize| {
            let zero = net.weight.sum()?.mul(0.0)?;
            Ok(zero.add(losses[*i % losses.len()])?.into())
        })
        .epochs(losses.len())
        .build()?;
    Ok((trainer, vec![0], sgd))
}

/// Loaders whose batch is the epoch's number.
struct Counting(Mutex<usize>);

impl torsh_train::Loader for Counting {
    type Batch = usize;
    fn batches(&self) -> Box<dyn Iterator<Item = Result<usize>> + '_> {
        let mut n = self.0.lock().unwrap();
        *n += 1;
        Box::new(std::iter::once(Ok(*n - 1)))
    }
    fn num_batches(&self) -> Option<usize> {
        Some(1)
    }
    fn save_state(&self) -> Result<Value> {
        Ok((*self.0.lock().unwrap()).into())
    }
    fn load_state(&self, state: &Value, _: usize) -> Result<()> {
        *self.0.lock().unwrap() = state.as_int()? as usize;
        Ok(())
    }
}

const LOSSES: &[f64] = &[5.0, 3.0, 4.0, 2.5, 2.625, 2.75, 2.4375, 9.0, 9.0, 9.0];

fn with(
    build: impl FnOnce(
        torsh_train::TrainerBuilder<Linear, usize>,
        &SGD,
    ) -> torsh_train::TrainerBuilder<Linear, usize>,
) -> Result<Trainer<Linear, usize>> {
    let net = start(0.0)?;
    let sgd = SGD::new(net.parameters(), 1.0)?;
    let builder = Trainer::builder(net, &sgd)
        .training_step(|net: &Linear, i: &usize| {
            Ok(net.weight.sum()?.mul(0.0)?.add(LOSSES[*i])?.into())
        })
        .epochs(LOSSES.len());
    build(builder, &sgd).build()
}

#[test]
fn early_stopping_best_and_last_checkpoints() -> Result<()> {
    let scratch = Scratch::new("callbacks");
    let folder = scratch.path("checkpoints");
    let checkpoints = ModelCheckpoint::new(&folder)
        .keep_last(2)
        .best("loss", "min");
    let early = EarlyStopping::new(2).min_delta(0.1);
    let build = |b: torsh_train::TrainerBuilder<Linear, usize>, _: &SGD| {
        b.callback(early.clone()).callback(checkpoints.clone())
    };
    let mut trainer = with(build)?;
    let results = trainer.fit(&Counting(Mutex::new(0)), None)?;
    // 2.5 in epoch 3 is the last that is better by more than 0.1; two more are let pass.
    assert_eq!(results.final_epoch, 7);
    assert_eq!(
        (results.best_metric, results.best_epoch),
        (Some(2.4375), Some(6))
    );
    let Stop::Callback(why) = &results.stop else {
        panic!("{results:?}");
    };
    assert_eq!(why, "loss has not become better than 2.5 for 3 epochs");
    assert_eq!(
        names(&folder),
        ["best.pt", "epoch_0006.pt", "epoch_0007.pt"]
    );
    let best = Checkpoint::load(folder.join("best.pt"))?;
    assert_eq!((best.epoch, best.metrics["train_loss"]), (7, 2.4375));

    // What the callbacks remember is in the checkpoints.
    let mut again = with(build)?;
    again.resume(folder.join("epoch_0006.pt"))?;
    let resumed = again.fit(&Counting(Mutex::new(0)), None)?;
    assert_eq!(resumed, results);
    assert_eq!(
        names(&folder),
        ["best.pt", "epoch_0006.pt", "epoch_0007.pt"]
    );

    let mut wrong = with(|b, _| b.callback(EarlyStopping::new(1).metric("acc")))?;
    let e = wrong
        .fit(&Counting(Mutex::new(0)), None)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("no metric `acc`") && e.contains("there are loss"),
        "{e}"
    );
    Ok(())
}

#[test]
fn schedulers_and_the_monitor() -> Result<()> {
    let monitor = LearningRateMonitor::new();
    let options = ReduceLROnPlateauOptions::new().patience(0).factor(0.5);
    let mut trainer = with(|b, sgd| {
        let plateau = ReduceLROnPlateau::new_with(sgd, options).unwrap();
        b.scheduler(plateau).callback(monitor.clone())
    })?;
    let results = trainer.fit(&Counting(Mutex::new(0)), None)?;
    let want = [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.125, 0.125, 0.0625, 0.03125];
    let rates: Vec<f64> = results.history.iter().map(|e| e.learning_rate).collect();
    assert_eq!(rates, want);
    let history = monitor.history();
    assert_eq!(history.len(), 10);
    assert!(history.iter().zip(want).all(|((_, lrs), w)| lrs == &[w]));
    assert_eq!((history[0].0, history[9].0), (1, 10));
    Ok(())
}

#[test]
fn a_loss_that_is_nan_is_reported_with_its_step_and_op() -> Result<()> {
    let run = |anomaly: bool| -> Result<String> {
        let net = start(0.0)?;
        let sgd = SGD::new(net.parameters(), 0.1)?;
        let mut trainer = Trainer::builder(net, &sgd)
            .training_step(|net: &Linear, i: &f64| {
                let y = net.weight.sum()?.add(*i)?;
                Ok(y.sqrt()?.mul(0.0)?.add(1.0)?.div(2.0)?.log()?.into())
            })
            .detect_anomaly(anomaly)
            .build()?;
        let batches = vec![1.0, 4.0, -1.0, 1.0];
        let e = trainer.fit(&batches, None).unwrap_err();
        assert_eq!(trainer.steps_done(), 2);
        Ok(e.to_string())
    };
    let plain = run(false)?;
    assert!(
        plain.contains("the loss is NaN in epoch 0, batch 2, step 2"),
        "{plain}"
    );
    assert!(plain.contains("hint: detect_anomaly(true)"), "{plain}");
    let named = run(true)?;
    assert!(
        named.contains("the loss is NaN in epoch 0, batch 2, step 2: sqrt: output 0 has 1 nan"),
        "{named}"
    );
    assert!(named.contains("trainer.rs"), "{named}");
    Ok(())
}

#[test]
fn losses_are_scaled_and_gradients_unscaled_ahead_of_clipping() -> Result<()> {
    let x = Tensor::full([1, 6], 2.0, DType::F32, Device::Cpu)?;
    let net = start(0.0)?;
    let sgd = SGD::new(net.parameters(), 1.0)?;
    let scaler = GradScaler::new_with(GradScalerOptions::new().init_scale(2f64.powi(127)))?;
    let mut trainer = Trainer::builder(net, &sgd)
        .training_step(|net: &Linear, x: &Tensor| Ok(net.forward(x)?.sum()?.into()))
        .scaler(scaler.clone())
        .clip_grad_value(0.25)
        .build()?;
    let results = trainer.fit(&vec![x.clone(), x], None)?;
    assert_eq!(results.steps, 2);
    // The gradient is 2: scaled it is infinite in the first step, which is left out and halves the
    // scale; in the second it is cut to 0.25.
    assert_eq!(scaler.get_scale()?, 2f64.powi(126));
    assert!(bits(trainer.model()).iter().all(|&w| w == -0.25));
    Ok(())
}

#[test]
fn the_model_computes_in_the_dtype_of_autocast() -> Result<()> {
    let (x, y) = blobs(14)?;
    let batches = vec![(x, y)];
    let net = start(0.1)?;
    let sgd = SGD::new(net.parameters(), 0.5)?;
    let mut trainer = Trainer::builder(net, &sgd)
        .training_step(|net: &Linear, (x, y): &(Tensor, Tensor)| {
            let scores = net.forward(x)?;
            assert_eq!(scores.dtype(), DType::BF16);
            Ok(loss(&scores, y)?.into())
        })
        .autocast(DType::BF16)
        .epochs(2)
        .build()?;
    trainer.fit(&batches, Some(&batches))?;

    let net = start(0.1)?;
    let sgd = SGD::new(net.parameters(), 0.5)?;
    for _ in 0..2 {
        let (x, y) = &batches[0];
        sgd.zero_grad();
        let l = autocast_with(Device::Cpu, DType::BF16, || loss(&net.forward(x)?, y))?;
        l.backward()?;
        sgd.step()?;
    }
    assert_eq!(bits(trainer.model()), bits(&net));
    Ok(())
}

#[test]
fn a_configuration_becomes_a_run() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        let scratch = Scratch::new("from-config");
        let text = format!(
            "
model: {{input_size: 6, hidden_size: 16, num_layers: 1, num_classes: 3}}
optimizer: {{name: adam, lr: 0.05}}
scheduler: {{name: cosine_annealing, t_max: 6}}
training: {{epochs: 6, batch_size: 8, clip_grad_norm: 1.0, early_stopping: {{patience: 50}}}}
evaluation: {{metrics: [accuracy, f1_macro]}}
logging: {{dir: {0}/log, csv: true, json_lines: true, tensorboard: true, progress: false}}
checkpoint: {{dir: {0}/saved, keep_last: 1, metric: accuracy, mode: max}}
",
            scratch.0.display()
        );
        let config = ExperimentConfig::from_str(&text, Format::Yaml)?;
        let (x, y) = blobs(60)?;
        let train = TensorDataset::new(x.narrow(0, 0, 45)?, y.narrow(0, 0, 45)?);
        let val = TensorDataset::new(x.narrow(0, 45, 15)?, y.narrow(0, 45, 15)?);
        let train = DataLoader::builder(train)
            .batch_size(config.training.batch_size)
            .shuffle(true)
            .build()?;
        let val = DataLoader::builder(val).batch_size(15).build()?;
        let model = create_model(&config.model)?;
        let mut trainer = Trainer::from_config(model, &config)?.loss(loss).build()?;
        let results = trainer.fit(&train, Some(&val))?;
        assert_eq!(results.final_accuracy(), Some(1.0));
        assert!(results.final_loss() < results.initial_loss());
        assert_eq!(results.best_metric, Some(1.0));
        assert_eq!(names(&scratch.path("saved")), ["best.pt", "epoch_0006.pt"]);
        assert_eq!(names(&scratch.path("log")).len(), 3);
        let saved = Checkpoint::load(scratch.path("saved/epoch_0006.pt"))?;
        let config_again: ExperimentConfig = serde_json::from_value(saved.config.unwrap()).unwrap();
        assert_eq!(config_again, config);
        assert!(saved.metrics["val_f1_macro"] == 1.0);
        Ok(())
    })
}

#[test]
fn what_cannot_be_built_or_run_is_said() -> Result<()> {
    let net = start(0.0)?;
    let sgd = SGD::new(net.parameters(), 1.0)?;
    let e = Trainer::builder(net, &sgd).build().unwrap_err().to_string();
    assert!(e.contains("there is no loss"), "{e}");
    let e = Trainer::builder(start(0.0)?, &sgd)
        .loss(loss)
        .epochs(0)
        .build();
    assert!(
        e.unwrap_err()
            .to_string()
            .contains("epochs must be at least 1")
    );
    let twice = Trainer::builder(start(0.0)?, &sgd).loss(loss);
    let twice = twice
        .metric(Accuracy::new())
        .metric(Accuracy::new())
        .build();
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .contains("two metrics are named `accuracy`")
    );
    let mut empty = Trainer::builder(start(0.0)?, &sgd).loss(loss).build()?;
    let e = empty.fit(&Vec::new(), None).unwrap_err().to_string();
    assert!(e.contains("training loader has no batches"), "{e}");
    let (mut trainer, loader, _) = told(&[1.0])?;
    assert_eq!(trainer.fit(&loader, None)?.final_loss(), Some(1.0));
    Ok(())
}

/// "min" and "max" as PyTorch's schedulers and the callbacks of Lightning have them.
#[test]
fn words_stand_for_modes() -> Result<()> {
    let refused = |e: TorshError, what: &str| {
        let e = e.to_string();
        assert!(
            e.starts_with(what) && e.contains("lowest is not a valid value for mode"),
            "{e}"
        );
        assert!(e.contains("mode is \"min\" or \"max\""), "{e}");
    };
    let e = with(|b, _| b.monitor("loss", "lowest")).expect_err("an error");
    refused(e, "Trainer");
    let early = || EarlyStopping::new(2).mode("lowest");
    let mut trainer = with(|b, _| b.callback(early()))?;
    refused(
        trainer.fit(&Counting(Mutex::new(0)), None).unwrap_err(),
        "EarlyStopping",
    );
    let scratch = Scratch::new("words");
    let best = || ModelCheckpoint::new(scratch.path("c")).best("loss", "lowest");
    let mut trainer = with(|b, _| b.callback(best()))?;
    refused(
        trainer.fit(&Counting(Mutex::new(0)), None).unwrap_err(),
        "ModelCheckpoint",
    );

    // The losses fall, which is no success for "max".
    let mut trainer = with(|b, _| {
        b.monitor("loss", "max")
            .callback(EarlyStopping::new(0).mode("max"))
    })?;
    let results = trainer.fit(&Counting(Mutex::new(0)), None)?;
    assert_eq!((results.best_epoch, results.final_epoch), (Some(0), 2));
    let e = with(|b, sgd| {
        let plateau = ReduceLROnPlateau::new(sgd).expect("a scheduler");
        b.scheduler_with(plateau, "batch")
    });
    let e = e.expect_err("an error").to_string();
    assert!(e.contains("interval is \"epoch\" or \"step\""), "{e}");
    let step = SchedulerConfig::new("cosine_annealing").interval("step");
    let text = serde_json::to_string(&step).expect("json");
    assert!(text.contains(r#""interval":"step""#), "{text}");
    Ok(())
}
