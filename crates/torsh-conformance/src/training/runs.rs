//! Whole training runs.

use serde::Deserialize;
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_optim::clip_grad_norm_;
use torsh_tensor::{Device, Tensor};

use super::{Checked, Config, count, load, models, optim};
use crate::compare::{Tolerance, compare};
use crate::executor::Executor;
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::report::{Group, Report};
use crate::runner::Options;
use crate::source::Source;
use crate::tensors::{TensorData, TensorFile};
use crate::torsh::{data, drawing, tensor, text};

/// A model to be trained on batches that come in turn, by cross entropy.
#[derive(Clone, Debug)]
pub struct Run {
    /// The model: `mlp`, `cnn`, `resnet`, `lstm`, `gru` or `gpt`.
    pub model: String,
    /// PyTorch's name of the optimizer.
    pub optimizer: String,
    /// Its settings.
    pub config: Config,
    /// Where the weights come from.
    pub start: Start,
    /// Inputs and targets.
    pub batches: Vec<(TensorData, TensorData)>,
    /// What gradients are clipped to.
    pub clip_grad_norm: f64,
    /// How many steps.
    pub steps: usize,
}

/// Where a run's first weights come from.
#[derive(Clone, Debug)]
pub enum Start {
    /// `manual_seed` and the layers' own draws.
    Seed(u64),
    /// A state dict.
    State(Vec<(String, TensorData)>),
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The state dict before the first step.
    pub initial: Vec<(String, TensorData)>,
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The norm of all gradients of each step, before they are clipped.
    pub grad_norms: Vec<f64>,
    /// The state dict after the last step.
    pub last: Vec<(String, TensorData)>,
}

#[derive(Deserialize)]
struct Row {
    model: String,
    optimizer: String,
    optimizer_config: Config,
    key: String,
    seed_of_default_init: u64,
    clip_grad_norm: f64,
    batches: usize,
    steps: usize,
    losses: Vec<f64>,
    grad_norms: Vec<f64>,
}

/// A parameter that may end farther from PyTorch's than the others.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The run, as `gpt.adam`.
    pub key: &'static str,
    /// What the parameter's name ends in.
    pub parameter: &'static str,
    /// Absolute tolerance.
    pub atol: f64,
    /// Why.
    pub reason: &'static str,
}

/// Every exception there is.
pub const EXCEPTIONS: &[Exception] = &[Exception {
    key: "gpt.adam",
    parameter: ".qkv.bias",
    atol: 1e-3,
    reason: "the bias of the keys cancels in the softmax, so its gradient is rounding alone, which Adam scales up",
}];

pub(super) fn run(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let (rows, tensors) = load::<Row>(source, "training")?;
    for row in &rows {
        let name = format!("training.{}", row.model);
        if !options.wants("training", &name) {
            continue;
        }
        for seeded in [false, true] {
            let from = if seeded { "a seed" } else { "a state dict" };
            let case = format!("{} from {from}", row.key);
            let checked = check(row, seeded, &tensors, executor);
            count(report, Group::Training, &name, &case, checked);
        }
    }
    Ok(())
}

fn check(row: &Row, seeded: bool, tensors: &TensorFile, executor: &dyn Executor) -> Checked {
    let batch = |i| {
        let one = |what: &str| tensors.named(&format!("{}.{what}.{i}", row.key));
        Ok::<_, String>((one("x")?, one("t")?))
    };
    let batches = match (0..row.batches).map(batch).collect::<Result<_, _>>() {
        Ok(batches) => batches,
        Err(e) => return Some(Err(e)),
    };
    let initial = tensors.below(&format!("{}.init.", row.key));
    let run = Run {
        model: row.model.clone(),
        optimizer: match row.optimizer.as_str() {
            "sgd" => "SGD".to_string(),
            "adam" => "Adam".to_string(),
            other => other.to_string(),
        },
        config: row.optimizer_config.clone(),
        start: match seeded {
            true => Start::Seed(row.seed_of_default_init),
            false => Start::State(initial.clone()),
        },
        batches,
        clip_grad_norm: row.clip_grad_norm,
        steps: row.steps,
    };
    let got = match panics::catch(|| executor.train(&run)) {
        Ok(got) => got?,
        Err(e) => Err(e),
    };
    Some(got.and_then(|got| {
        let close = |rtol, atol| Tolerance { rtol, atol };
        same("initial", &got.initial, &initial, |_| close(1.3e-6, 1e-7))?;
        numbers("loss", &got.losses, &row.losses, 1e-4)?;
        numbers("gradient norm", &got.grad_norms, &row.grad_norms, 1e-3)?;
        let last = tensors.below(&format!("{}.final.", row.key));
        same("final", &got.last, &last, |name| {
            let mut exceptions = EXCEPTIONS.iter();
            let exception = exceptions.find(|e| e.key == row.key && name.ends_with(e.parameter));
            close(1e-3, exception.map_or(1e-4, |e| e.atol))
        })
    }))
}

fn numbers(what: &str, got: &[f64], want: &[f64], rtol: f64) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} steps, expected {}", got.len(), want.len()));
    }
    let off = |(g, w): (&f64, &f64)| (g - w).abs() > rtol * w.abs() || !g.is_finite();
    match got.iter().zip(want).position(off) {
        Some(i) => Err(format!(
            "{what} of step {i}: expected {}, got {}",
            want[i], got[i]
        )),
        None => Ok(()),
    }
}

fn same(
    what: &str,
    got: &[(String, TensorData)],
    want: &[(String, TensorData)],
    tolerance: impl Fn(&str) -> Tolerance,
) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!(
            "{} {what} tensors, expected {}",
            got.len(),
            want.len()
        ));
    }
    for (name, want) in want {
        let found = got.iter().find(|(n, _)| n == name);
        let (_, got) = found.ok_or_else(|| format!("no {what} {name}"))?;
        compare(got, want, tolerance(name)).map_err(|e| format!("{what} {name} {e}"))?;
    }
    Ok(())
}

/// The run of ToRSh.
pub(crate) fn train(run: &Run) -> Option<Result<Trained, String>> {
    let model = {
        let _drawing = drawing();
        if let Start::Seed(seed) = run.start {
            torsh_core::random::manual_seed(seed);
        }
        match models::build(&run.model) {
            Ok(model) => model?,
            Err(e) => return Some(Err(text(e))),
        }
    };
    let parameters: Vec<Tensor> = model.parameters().iter().map(Tensor::from).collect();
    match optim::build(&run.optimizer, &parameters, &run.config) {
        Ok(optimizer) => Some(steps(run, &*model, &parameters, &*optimizer?)),
        Err(e) => Some(Err(text(e))),
    }
}

fn steps(
    run: &Run,
    model: &dyn Module,
    parameters: &[Tensor],
    optimizer: &dyn torsh_optim::Optimizer,
) -> Result<Trained, String> {
    let load = |t: &TensorData| tensor(&Memory::arrange(t, Layout::Contiguous, false), Device::Cpu);
    if let Start::State(state) = &run.start {
        let mut from = StateDict::new();
        for (name, t) in state {
            from.insert(name.as_str(), load(t)?);
        }
        model.load_state_dict(&from).map_err(text)?;
    }
    let state = || {
        let state = model.state_dict();
        let all = state
            .iter()
            .map(|(name, t)| Ok((name.to_string(), data(t)?)));
        all.collect::<Result<Vec<_>, String>>()
    };
    let mut out = Trained {
        initial: state()?,
        losses: Vec::new(),
        grad_norms: Vec::new(),
        last: Vec::new(),
    };
    for step in 0..run.steps {
        let (x, target) = &run.batches[step % run.batches.len()];
        let (x, target) = (load(x)?, load(target)?);
        let mut one = || {
            optimizer.zero_grad();
            let loss = torsh_functional::cross_entropy(&model.forward(&x)?, &target)?;
            loss.backward()?;
            let norm = clip_grad_norm_(parameters, run.clip_grad_norm)?;
            optimizer.step()?;
            out.losses.push(loss.item::<f64>()?);
            out.grad_norms.push(norm.item::<f64>()?);
            Ok(())
        };
        one().map_err(|e| format!("step {step}: {}", text(e)))?;
    }
    out.last = state()?;
    Ok(out)
}
