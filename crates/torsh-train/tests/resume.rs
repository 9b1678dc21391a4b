//! Stopping a run anywhere and resuming it in new objects comes to the very same bits.

use crate::common::{Scratch, blobs, own_draws};
use torsh_core::random::manual_seed;
use torsh_data::{DataLoader, Dataset, TensorDataset};
use torsh_functional as F;
use torsh_nn::{BatchNorm1d, Dropout, Linear, ModuleExt, ReLU, Sequential};
use torsh_optim::lr_scheduler::{OneCycleLR, ReduceLROnPlateau};
use torsh_optim::{AdamW, AveragedModel, get_ema_avg_fn};
use torsh_tensor::{Result, Tensor};
use torsh_train::callbacks::{Callback, Context, EarlyStopping};
use torsh_train::config::Interval;
use torsh_train::metrics::{Accuracy, RocAuc};
use torsh_train::{EpochResults, Stop, Trainer};

/// Items with noise of the default generator, which augmentation is.
struct Noisy(TensorDataset);

impl Dataset for Noisy {
    type Item = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Result<(Tensor, Tensor)> {
        let (x, y) = self.0.get(i)?;
        Ok((x.add(&x.rand_like()?.mul(0.1)?)?, y))
    }
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    workers: usize,
    seed: Option<u64>,
    accumulate: usize,
    plateau: bool,
}

/// Stops after so many batches of this process.
struct After(usize);

impl Callback for After {
    fn name(&self) -> &str {
        "after"
    }
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.0 -= 1;
        if self.0 == 0 {
            cx.stop("enough");
        }
        Ok(())
    }
}

type Loader = DataLoader<Noisy>;

fn net() -> Sequential {
    Sequential::new()
        .add(Linear::new(6, 8))
        .add(BatchNorm1d::new(8).unwrap())
        .add(ReLU::new())
        .add(Dropout::new(0.3).unwrap())
        .add(Linear::new(8, 3))
}

fn objects(
    s: Setup,
    seed: u64,
    stop: Option<usize>,
) -> Result<(Trainer<Sequential>, Loader, Loader)> {
    manual_seed(seed);
    let (x, y) = blobs(50)?;
    let data = |a: i64, n: i64| {
        Ok::<_, torsh_tensor::TorshError>(Noisy(TensorDataset::new(
            x.narrow(0, a, n)?,
            y.narrow(0, a, n)?,
        )))
    };
    let mut train = DataLoader::builder(data(0, 41)?)
        .batch_size(6)
        .shuffle(true)
        .num_workers(s.workers);
    if let Some(seed) = s.seed {
        train = train.seed(seed);
    }
    let val = DataLoader::builder(data(41, 9)?).batch_size(4).build()?;
    let model = net();
    let adam = AdamW::new(model.parameters(), 0.05)?;
    let average = AveragedModel::new(net(), &model)?.avg_fn(get_ema_avg_fn(0.9)?);
    let mut builder = Trainer::builder(model, &adam)
        .loss(|output, target| F::cross_entropy(output, target))
        .metric(Accuracy::new())
        .ema(average)
        .accumulate(s.accumulate)
        .clip_grad_norm(1.0)
        .callback(EarlyStopping::new(100))
        .epochs(3);
    builder = match s.plateau {
        true => builder.scheduler(ReduceLROnPlateau::new(&adam)?),
        false => builder.scheduler_with(OneCycleLR::new(&adam, 0.05, 40)?, Interval::Step),
    };
    if let Some(n) = stop {
        builder = builder.callback(After(n));
    }
    Ok((builder.build()?, train.build()?, val))
}

type Outcome = (Vec<Vec<u32>>, Vec<EpochResults>, Option<f64>, usize);

fn outcome(trainer: &Trainer<Sequential>, results: &torsh_train::TrainingResults) -> Outcome {
    let average = trainer.ema().unwrap().state_dict();
    let state = trainer.model().state_dict();
    let bits = state.values().chain(average.values()).map(|t| {
        let values = t.to_vec::<f32>().unwrap();
        values.into_iter().map(f32::to_bits).collect()
    });
    (
        bits.collect(),
        results.history.to_vec(),
        results.best_metric,
        results.steps,
    )
}

fn check(s: Setup, cuts: impl Iterator<Item = usize>, folder: bool) -> Result<()> {
    let scratch = Scratch::new(&format!("resume-{}-{}-{folder}", s.workers, s.accumulate));
    let (mut whole, train, val) = objects(s, 1, None)?;
    let results = whole.fit(&train, Some(&val))?;
    assert_eq!(results.stop, Stop::Finished);
    assert_eq!(results.history.len(), 3);
    let want = outcome(&whole, &results);
    assert!(results.final_accuracy().unwrap() > 0.0);

    for cut in cuts {
        let path = scratch.path(if folder {
            "checkpoint"
        } else {
            "checkpoint.pt"
        });
        let (mut first, train, val) = objects(s, 1, Some(cut))?;
        let results = first.fit(&train, Some(&val))?;
        assert_eq!(results.stop, Stop::Callback("enough".into()));
        first.save_checkpoint(&path)?;
        drop((first, train, val));

        // Other objects, with other weights, of another seed.
        let (mut second, train, val) = objects(s, 77 + cut as u64, None)?;
        second.resume(&path)?;
        let results = second.fit(&train, Some(&val))?;
        assert!(
            outcome(&second, &results) == want,
            "{s:?} cut after {cut} batches"
        );
    }
    Ok(())
}

const BATCHES: usize = 7 * 3;

#[test]
fn at_every_batch() -> Result<()> {
    let _own = own_draws();
    let s = Setup {
        workers: 0,
        seed: Some(5),
        accumulate: 1,
        plateau: true,
    };
    check(s, 1..=BATCHES, false)
}

#[test]
fn with_workers_accumulation_and_the_default_generator() -> Result<()> {
    let _own = own_draws();
    let s = Setup {
        workers: 2,
        seed: None,
        accumulate: 3,
        plateau: false,
    };
    check(s, 1..=BATCHES, true)
}

#[test]
fn with_workers_and_a_seed() -> Result<()> {
    let _own = own_draws();
    let s = Setup {
        workers: 3,
        seed: Some(9),
        accumulate: 2,
        plateau: true,
    };
    check(s, (1..=BATCHES).step_by(4), false)
}

/// The same objects go on, too, and a run may be stopped many times.
#[test]
fn again_and_again() -> Result<()> {
    let _own = own_draws();
    let s = Setup {
        workers: 0,
        seed: None,
        accumulate: 2,
        plateau: false,
    };
    let (mut whole, train, val) = objects(s, 1, None)?;
    let results = whole.fit(&train, Some(&val))?;
    let want = outcome(&whole, &results);
    let (mut parts, train, val) = objects(s, 1, None)?;
    for steps in 1..results.steps {
        parts.set_max_steps(steps);
        let results = parts.fit(&train, Some(&val))?;
        assert_eq!((results.stop, results.steps), (Stop::MaxSteps, steps));
    }
    parts.set_max_steps(None);
    let results = parts.fit(&train, Some(&val))?;
    assert!(outcome(&parts, &results) == want);
    Ok(())
}

#[test]
fn a_checkpoint_of_other_parts_is_refused() -> Result<()> {
    let _own = own_draws();
    let scratch = Scratch::new("other-parts");
    let path = scratch.path("a.pt");
    let s = Setup {
        workers: 0,
        seed: None,
        accumulate: 1,
        plateau: false,
    };
    let (mut trainer, train, val) = objects(s, 1, Some(2))?;
    trainer.fit(&train, Some(&val))?;
    trainer.save_checkpoint(&path)?;
    let model = net();
    let adam = AdamW::new(model.parameters(), 0.1)?;
    let loss = |output: &Tensor, target: &Tensor| F::cross_entropy(output, target);
    let mut plain = Trainer::builder(model, &adam).loss(loss).build()?;
    let e = plain.resume(&path).unwrap_err().to_string();
    assert!(e.contains("has a `ema`, the trainer none"), "{e}");

    let model = net();
    let adam = AdamW::new(model.parameters(), 0.1)?;
    plain.save_checkpoint(&path)?;
    let metric = RocAuc::new();
    let mut other = Trainer::builder(model, &adam)
        .loss(loss)
        .metric(metric)
        .build()?;
    let e = other.resume(&path).unwrap_err().to_string();
    assert!(e.contains("roc_auc"), "{e}");
    torsh_train::Checkpoint::builder().build()?.save(&path)?;
    let e = plain.resume(&path).unwrap_err().to_string();
    assert!(e.contains("not of a trainer"), "{e}");
    Ok(())
}

/// One leg of a run between systems, which `.ci/systems` starts on Linux and under Wine: goes on from a checkpoint if there
/// is one, and leaves another. The last leg writes what came out, for comparison with other ways of the same length.
#[test]
fn a_leg_of_a_run_between_systems() -> Result<()> {
    let Ok(path) = std::env::var("TORSH_LEG_CHECKPOINT") else {
        return Ok(());
    };
    let batches = std::env::var("TORSH_LEG_BATCHES").ok();
    let batches = batches.map(|n| n.parse().expect("a number of batches"));
    let _own = own_draws();
    let s = Setup {
        workers: 0,
        seed: None,
        accumulate: 2,
        plateau: false,
    };
    let (mut trainer, train, val) = objects(s, 1, batches)?;
    if std::fs::exists(&path)? {
        trainer.resume(&path)?;
    }
    let results = trainer.fit(&train, Some(&val))?;
    trainer.save_checkpoint(&path)?;
    if batches.is_none() {
        let text = format!("{:#x?}\n", outcome(&trainer, &results));
        std::fs::write(format!("{path}.txt"), text)?;
    }
    Ok(())
}
