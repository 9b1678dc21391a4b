//! ToRSh's schedulers, built from PyTorch's settings.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value as Json;
use torsh_optim::lr_scheduler::*;
use torsh_optim::{Optimizer, SGD};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::Config;
use super::schedule::{Rates, Schedule};
use crate::torsh::text;

type Boxed = Box<dyn LRScheduler>;

/// Settings, and which of them were read.
struct Settings<'a> {
    of: &'a str,
    config: &'a Config,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Settings<'a> {
    fn find(&self, name: &str) -> Option<&'a Json> {
        self.read.borrow_mut().insert(name.to_string());
        self.config.get(name)
    }

    fn bad(&self, name: &str) -> TorshError {
        TorshError::invalid(
            self.of.to_string(),
            format!("no setting {name} of the right type in {:?}", self.config),
        )
    }

    fn float(&self, name: &str) -> Result<f64> {
        let found = self.find(name).and_then(Json::as_f64);
        found.ok_or_else(|| self.bad(name))
    }

    fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        match self.find(name) {
            Some(_) => self.float(name),
            None => Ok(default),
        }
    }

    fn int(&self, name: &str) -> Result<usize> {
        let found = self.find(name).and_then(Json::as_u64);
        found.map(|i| i as usize).ok_or_else(|| self.bad(name))
    }

    fn int_or(&self, name: &str, default: usize) -> Result<usize> {
        match self.find(name) {
            Some(_) => self.int(name),
            None => Ok(default),
        }
    }

    fn ints(&self, name: &str) -> Result<Vec<usize>> {
        let all = self.find(name).and_then(Json::as_array);
        let all = all.and_then(|v| v.iter().map(|i| i.as_u64().map(|i| i as usize)).collect());
        all.ok_or_else(|| self.bad(name))
    }

    fn bool_or(&self, name: &str, default: bool) -> Result<bool> {
        match self.find(name) {
            Some(v) => v.as_bool().ok_or_else(|| self.bad(name)),
            None => Ok(default),
        }
    }

    fn text(&self, name: &str) -> Result<&'a str> {
        let found = self.find(name).and_then(Json::as_str);
        found.ok_or_else(|| self.bad(name))
    }

    fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.find(name) {
            Some(_) => self.text(name),
            None => Ok(default),
        }
    }

    /// The schedulers of a list such as `ExponentialLR(gamma=0.9)`.
    fn schedulers(&self, optimizer: &SGD) -> Result<Vec<Boxed>> {
        let name = "schedulers";
        let all = self.find(name).and_then(Json::as_array);
        let one = |json: &Json| {
            let (class, config) = json.as_str().and_then(call).ok_or_else(|| self.bad(name))?;
            build(&class, &config, optimizer)?.ok_or_else(|| self.bad(name))
        };
        all.ok_or_else(|| self.bad(name))?.iter().map(one).collect()
    }
}

/// `Name(key=number,..)`.
fn call(text: &str) -> Option<(String, Config)> {
    let (name, rest) = text.strip_suffix(')')?.split_once('(')?;
    let setting = |s: &str| {
        let (key, value) = s.split_once('=')?;
        Some((key.to_string(), serde_json::from_str(value).ok()?))
    };
    let config = rest.split(',').map(setting).collect::<Option<_>>()?;
    Some((name.to_string(), config))
}

fn build(name: &str, config: &Config, optimizer: &SGD) -> Result<Option<Boxed>> {
    let s = Settings {
        of: name,
        config,
        read: RefCell::default(),
    };
    let o = optimizer;
    let built: Boxed = match name {
        "StepLR" => Box::new(StepLR::new(
            o,
            s.int("step_size")?,
            s.float_or("gamma", 0.1)?,
        )?),
        "MultiStepLR" => {
            let milestones = s.ints("milestones")?;
            Box::new(MultiStepLR::new(o, milestones, s.float_or("gamma", 0.1)?)?)
        }
        "ConstantLR" => Box::new(ConstantLR::new(
            o,
            s.float_or("factor", 1.0 / 3.0)?,
            s.int_or("total_iters", 5)?,
        )?),
        "LinearLR" => Box::new(LinearLR::new(
            o,
            s.float_or("start_factor", 1.0 / 3.0)?,
            s.float_or("end_factor", 1.0)?,
            s.int_or("total_iters", 5)?,
        )?),
        "ExponentialLR" => Box::new(ExponentialLR::new(o, s.float("gamma")?)?),
        "PolynomialLR" => Box::new(PolynomialLR::new(
            o,
            s.int_or("total_iters", 5)?,
            s.float_or("power", 1.0)?,
        )?),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLR::new(
            o,
            s.int("T_max")?,
            s.float_or("eta_min", 0.0)?,
        )?),
        "CosineAnnealingWarmRestarts" => Box::new(CosineAnnealingWarmRestarts::new(
            o,
            s.int("T_0")?,
            s.int_or("T_mult", 1)?,
            s.float_or("eta_min", 0.0)?,
        )?),
        "CyclicLR" => {
            let options = CyclicLROptions::new()
                .step_size_up(s.int_or("step_size_up", 2000)?)
                .mode(s.text_or("mode", "triangular")?);
            let (base, max) = (s.float("base_lr")?, s.float("max_lr")?);
            Box::new(CyclicLR::new_with(o, base, max, options)?)
        }
        "OneCycleLR" => {
            let options = OneCycleLROptions::new()
                .pct_start(s.float_or("pct_start", 0.3)?)
                .anneal_strategy(s.text_or("anneal_strategy", "cos")?)
                .three_phase(s.bool_or("three_phase", false)?);
            let (max, steps) = (s.float("max_lr")?, s.int("total_steps")?);
            Box::new(OneCycleLR::new_with(o, max, steps, options)?)
        }
        "ReduceLROnPlateau" => {
            let options = ReduceLROnPlateauOptions::new()
                .mode(s.text_or("mode", "min")?)
                .factor(s.float_or("factor", 0.1)?)
                .patience(s.int_or("patience", 10)?)
                .threshold(s.float_or("threshold", 1e-4)?)
                .cooldown(s.int_or("cooldown", 0)?)
                .min_lr(vec![s.float_or("min_lr", 0.0)?]);
            Box::new(ReduceLROnPlateau::new_with(o, options)?)
        }
        "SequentialLR" => {
            let milestones = s.ints("milestones")?;
            Box::new(SequentialLR::new(o, s.schedulers(o)?, &milestones)?)
        }
        "ChainedScheduler" => Box::new(ChainedScheduler::new(s.schedulers(o)?)?),
        "LambdaLR" => {
            let base = s.text("lambda_")?.strip_suffix("^epoch");
            let base = base.and_then(|b| b.parse::<f64>().ok());
            let base = base.ok_or_else(|| s.bad("lambda_"))?;
            Box::new(LambdaLR::new(o, move |epoch| base.powi(epoch as i32))?)
        }
        "MultiplicativeLR" => {
            let factor = s.text("lambda_")?.parse::<f64>();
            let factor = factor.map_err(|_| s.bad("lambda_"))?;
            Box::new(MultiplicativeLR::new(o, move |_| factor)?)
        }
        _ => return Ok(None),
    };
    let read = s.read.borrow();
    match config.keys().find(|k| !read.contains(*k)) {
        Some(k) => Err(TorshError::invalid(
            name.to_string(),
            format!("the runner passes on no setting {k}"),
        )),
        None => Ok(Some(built)),
    }
}

/// The rates of ToRSh's scheduler.
pub(crate) fn follow(schedule: &Schedule) -> Option<std::result::Result<Rates, String>> {
    rates(schedule).map_err(text).transpose()
}

fn rates(schedule: &Schedule) -> Result<Option<Rates>> {
    let parameter = Tensor::zeros([1], DType::F32, Device::Cpu)?.requires_grad_(true);
    let optimizer = SGD::builder([&parameter])
        .lr(schedule.base_lr)
        .momentum(0.9)
        .build()?;
    let Some(scheduler) = build(&schedule.scheduler, &schedule.config, &optimizer)? else {
        return Ok(None);
    };
    let now = || {
        let momentum = optimizer.get_option(0, "momentum");
        let momentum = momentum.and_then(|m| m.as_f64()).unwrap_or(f64::NAN);
        (optimizer.get_lr(), momentum)
    };
    let mut rates = vec![now()];
    for step in 0..schedule.steps {
        optimizer.step()?;
        match schedule.metric.as_ref().and_then(|m| m.get(step)) {
            Some(metric) => scheduler.step_metric(*metric)?,
            None => scheduler.step()?,
        }
        rates.push(now());
    }
    Ok(Some(rates))
}
