//! Validation of the values of a configuration.

use std::str::FromStr;

use torsh_optim::Param;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::{ExperimentConfig, ModelConfig, OptimizerConfig, SchedulerConfig};
use crate::registry;

/// What is wrong with which field.
pub(super) struct Problem {
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

fn problem(path: &[&str], message: impl Into<String>) -> Problem {
    Problem {
        path: path.iter().map(|p| (*p).to_string()).collect(),
        message: message.into(),
    }
}

/// The message of an error without its place in the program, with what to do about it.
fn text(e: &TorshError) -> String {
    match e.info() {
        None => e.to_string(),
        Some(info) => match &info.hint {
            None => info.message.clone(),
            Some(hint) => format!("{} ({hint})", info.message),
        },
    }
}

/// Something to optimize, where only the settings are of interest.
fn parameter() -> Result<Param> {
    let tensor = Tensor::zeros([1], DType::F32, Device::Cpu)?;
    tensor.set_requires_grad(true)?;
    Ok(tensor.into())
}

impl ExperimentConfig {
    pub(super) fn problem(&self) -> Option<Problem> {
        let t = &self.training;
        let at_least_1 = [
            (["training", "epochs"], t.epochs),
            (["training", "batch_size"], t.batch_size),
            (["training", "accumulation_steps"], t.accumulation_steps),
            (
                ["evaluation", "every_n_epochs"],
                self.evaluation.every_n_epochs,
            ),
            (
                ["checkpoint", "keep_last"],
                self.checkpoint.keep_last.unwrap_or(1),
            ),
        ];
        for (path, value) in at_least_1 {
            if value == 0 {
                return Some(problem(&path, "must be at least 1, got 0"));
            }
        }
        let above_0 = [
            (["training", "clip_grad_norm"], t.clip_grad_norm),
            (["training", "clip_grad_value"], t.clip_grad_value),
        ];
        for (path, value) in above_0 {
            if let Some(v) = value.filter(|v| v.is_nan() || *v <= 0.0) {
                return Some(problem(&path, format!("must be more than 0, got {v}")));
            }
        }
        let split = self.data.validation_split;
        if !(0.0..1.0).contains(&split) {
            let message = format!("must be at least 0 and less than 1, got {split}");
            return Some(problem(&["data", "validation_split"], message));
        }
        if let Some(early) = &t.early_stopping {
            let delta = early.min_delta;
            if delta.is_nan() || delta < 0.0 {
                let path = ["training", "early_stopping", "min_delta"];
                return Some(problem(&path, format!("must be 0 or more, got {delta}")));
            }
        }
        for (i, name) in self.evaluation.metrics.iter().enumerate() {
            if let Err(e) = registry::create_metric(name) {
                let i = i.to_string();
                return Some(problem(&["evaluation", "metrics", &i], text(&e)));
            }
        }
        self.model
            .problem()
            .or_else(|| self.optimizer.problem())
            .or_else(|| {
                self.scheduler
                    .as_ref()
                    .and_then(|s| s.problem(&self.optimizer))
            })
    }
}

impl ModelConfig {
    fn problem(&self) -> Option<Problem> {
        let sizes = [
            ("input_size", self.input_size),
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
            ("num_classes", self.num_classes),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, v)| *v == 0) {
            return Some(problem(&["model", name], "must be at least 1, got 0"));
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            let message = format!("must be from 0 to 1, got {}", self.dropout);
            return Some(problem(&["model", "dropout"], message));
        }
        if let Err(e) = Device::from_str(&self.device) {
            return Some(problem(&["model", "device"], text(&e)));
        }
        match DType::from_str(&self.dtype) {
            Err(e) => Some(problem(&["model", "dtype"], text(&e))),
            Ok(d) if !d.is_differentiable() => {
                let message = format!("parameters are floating point or complex, not {d}");
                Some(problem(&["model", "dtype"], message))
            }
            Ok(_) => None,
        }
    }
}

impl OptimizerConfig {
    fn problem(&self) -> Option<Problem> {
        let error = |config: &OptimizerConfig| {
            let made = parameter().and_then(|p| registry::create_optimizer(config, [p]));
            made.err().map(|e| text(&e))
        };
        if let Some(message) = error(&OptimizerConfig::new(&self.name)) {
            return Some(problem(&["optimizer", "name"], message));
        }
        for (name, value) in &self.options {
            let alone = OptimizerConfig::new(&self.name).option(name, value.clone());
            if let Some(message) = error(&alone) {
                return Some(problem(&["optimizer", name], message));
            }
        }
        error(self).map(|message| problem(&["optimizer"], message))
    }
}

impl SchedulerConfig {
    fn problem(&self, optimizer: &OptimizerConfig) -> Option<Problem> {
        let made = || {
            let optimizer = registry::create_optimizer(optimizer, [parameter()?])?;
            registry::create_scheduler(self, &optimizer).map(drop)
        };
        if let Err(e) = registry::schedulers().get(&self.name) {
            return Some(problem(&["scheduler", "name"], text(&e)));
        }
        let message = text(&made().err()?);
        // Errors about one option begin with it.
        let named = self
            .options
            .keys()
            .find(|k| message.starts_with(&format!("`{k}`")));
        Some(match named {
            Some(name) => problem(&["scheduler", name], message),
            None => problem(&["scheduler"], message),
        })
    }
}
