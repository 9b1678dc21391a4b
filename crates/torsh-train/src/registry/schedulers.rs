//! Schedulers by name.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use torsh_optim::Optimizer;
use torsh_optim::lr_scheduler::{
    ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, CyclicLROptions,
    ExponentialLR, LRScheduler, LinearLR, MultiStepLR, OneCycleLR, OneCycleLROptions, PerGroup,
    PolynomialLR, ReduceLROnPlateau, ReduceLROnPlateauOptions, StepLR, WarmupCosine,
};
use torsh_tensor::{Result, TorshError};

use super::Registry;
use crate::config::{Options, SchedulerConfig};

/// Makes a scheduler of an optimizer with settings.
pub type SchedulerFactory =
    Arc<dyn Fn(&dyn Optimizer, &Options) -> Result<Arc<dyn LRScheduler>> + Send + Sync>;

/// Settings that are taken out one by one; each that is left is unknown.
struct Args {
    options: Options,
    known: Vec<&'static str>,
}

/// A number, or a list with one for each parameter group.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(f64),
    Each(Vec<f64>),
}

impl From<Numbers> for PerGroup {
    fn from(numbers: Numbers) -> PerGroup {
        match numbers {
            Numbers::One(v) => v.into(),
            Numbers::Each(v) => v.into(),
        }
    }
}

impl Args {
    fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>> {
        self.known.push(name);
        let Some(value) = self.options.remove(name) else {
            return Ok(None);
        };
        let shown = value.to_string();
        serde_json::from_value(value)
            .map(Some)
            .map_err(|e| TorshError::invalid("", format!("`{name}` cannot be {shown}: {e}")))
    }

    fn need<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T> {
        self.take(name)?
            .ok_or_else(|| TorshError::invalid("", format!("the option `{name}` is missing")))
    }

    fn or<T: DeserializeOwned>(&mut self, name: &'static str, default: T) -> Result<T> {
        Ok(self.take(name)?.unwrap_or(default))
    }

    fn need_per_group(&mut self, name: &'static str) -> Result<PerGroup> {
        self.need::<Numbers>(name).map(Into::into)
    }

    fn per_group_or(&mut self, name: &'static str, default: PerGroup) -> Result<PerGroup> {
        Ok(self.take::<Numbers>(name)?.map_or(default, Into::into))
    }

    fn done(self) -> Result<()> {
        match self.options.keys().next() {
            None => Ok(()),
            Some(name) => Err(TorshError::invalid(
                "",
                format!("`{name}` is no option of this scheduler"),
            )
            .with_hint(format!("the options are {}", self.known.join(", ")))),
        }
    }
}

macro_rules! entries {
    ($(($name:ident, |$o:ident, $a:ident| { $($body:tt)* }, $made:expr))*) => {
        [$((
            stringify!($name),
            Arc::new(|$o: &dyn Optimizer, options: &Options| {
                #[allow(unused_mut)]
                let mut $a = Args { options: options.clone(), known: Vec::new() };
                $($body)*
                $a.done()?;
                let made: Arc<dyn LRScheduler> = Arc::new($made?);
                Ok(made)
            }) as SchedulerFactory,
        )),*]
    };
}

/// Returns the schedulers by name: those of `torsh_optim` whose settings are numbers and words, and what
/// was registered.
///
/// ```
/// use torsh_train::registry::schedulers;
/// assert!(schedulers().contains("one_cycle") && schedulers().contains("StepLR"));
/// ```
pub fn schedulers() -> &'static Registry<SchedulerFactory> {
    static ALL: LazyLock<Registry<SchedulerFactory>> = LazyLock::new(|| {
        Registry::new(
            "scheduler",
            entries!((
                StepLR,
                |o, a| {
                    let (size, gamma) = (a.need("step_size")?, a.or("gamma", 0.1)?);
                },
                StepLR::new(o, size, gamma)
            )(
                MultiStepLR,
                |o, a| {
                    let at: Vec<usize> = a.need("milestones")?;
                    let gamma = a.or("gamma", 0.1)?;
                },
                MultiStepLR::new(o, at, gamma)
            )(
                ConstantLR,
                |o, a| {
                    let (factor, iters) = (a.or("factor", 1.0 / 3.0)?, a.or("total_iters", 5)?);
                },
                ConstantLR::new(o, factor, iters)
            )(
                LinearLR,
                |o, a| {
                    let start = a.or("start_factor", 1.0 / 3.0)?;
                    let (end, iters) = (a.or("end_factor", 1.0)?, a.or("total_iters", 5)?);
                },
                LinearLR::new(o, start, end, iters)
            )(
                ExponentialLR,
                |o, a| {
                    let gamma = a.need("gamma")?;
                },
                ExponentialLR::new(o, gamma)
            )(
                PolynomialLR,
                |o, a| {
                    let (iters, power) = (a.or("total_iters", 5)?, a.or("power", 1.0)?);
                },
                PolynomialLR::new(o, iters, power)
            )(
                CosineAnnealingLR,
                |o, a| {
                    let (t_max, eta_min) = (a.need("t_max")?, a.or("eta_min", 0.0)?);
                },
                CosineAnnealingLR::new(o, t_max, eta_min)
            )(
                CosineAnnealingWarmRestarts,
                |o, a| {
                    let (t_0, t_mult) = (a.need("t_0")?, a.or("t_mult", 1)?);
                    let eta_min = a.or("eta_min", 0.0)?;
                },
                CosineAnnealingWarmRestarts::new(o, t_0, t_mult, eta_min)
            )(
                WarmupCosine,
                |o, a| {
                    let (warmup, total) = (a.need("warmup_steps")?, a.need("total_steps")?);
                    let min_lr = a.or("min_lr", 0.0)?;
                },
                WarmupCosine::new(o, warmup, total, min_lr)
            )(
                CyclicLR,
                |o, a| {
                    let base_lr = a.need_per_group("base_lr")?;
                    let max_lr = a.need_per_group("max_lr")?;
                    let d = CyclicLROptions::new();
                    let settings = CyclicLROptions {
                        step_size_up: a.or("step_size_up", d.step_size_up)?,
                        step_size_down: a.take("step_size_down")?,
                        mode: a.or("mode", d.mode)?,
                        gamma: a.or("gamma", d.gamma)?,
                        cycle_momentum: a.or("cycle_momentum", d.cycle_momentum)?,
                        base_momentum: a.per_group_or("base_momentum", d.base_momentum)?,
                        max_momentum: a.per_group_or("max_momentum", d.max_momentum)?,
                    };
                },
                CyclicLR::new_with(o, base_lr, max_lr, settings)
            )(
                OneCycleLR,
                |o, a| {
                    let max_lr = a.need_per_group("max_lr")?;
                    let total = a.need("total_steps")?;
                    let d = OneCycleLROptions::new();
                    let settings = OneCycleLROptions {
                        pct_start: a.or("pct_start", d.pct_start)?,
                        anneal_strategy: a.or("anneal_strategy", d.anneal_strategy)?,
                        cycle_momentum: a.or("cycle_momentum", d.cycle_momentum)?,
                        base_momentum: a.per_group_or("base_momentum", d.base_momentum)?,
                        max_momentum: a.per_group_or("max_momentum", d.max_momentum)?,
                        div_factor: a.or("div_factor", d.div_factor)?,
                        final_div_factor: a.or("final_div_factor", d.final_div_factor)?,
                        three_phase: a.or("three_phase", d.three_phase)?,
                    };
                },
                OneCycleLR::new_with(o, max_lr, total, settings)
            )(
                ReduceLROnPlateau,
                |o, a| {
                    let d = ReduceLROnPlateauOptions::new();
                    let settings = ReduceLROnPlateauOptions {
                        mode: a.or("mode", d.mode)?,
                        factor: a.or("factor", d.factor)?,
                        patience: a.or("patience", d.patience)?,
                        threshold: a.or("threshold", d.threshold)?,
                        threshold_mode: a.or("threshold_mode", d.threshold_mode)?,
                        cooldown: a.or("cooldown", d.cooldown)?,
                        min_lr: a.per_group_or("min_lr", d.min_lr)?,
                        eps: a.or("eps", d.eps)?,
                    };
                },
                ReduceLROnPlateau::new_with(o, settings)
            )),
        )
    });
    &ALL
}

/// Adds a scheduler of one's own to [`schedulers`].
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::ExponentialLR};
/// use torsh_train::config::SchedulerConfig;
/// use torsh_train::registry::{create_scheduler, register_scheduler};
///
/// register_scheduler("halving", |optimizer, _| Ok(Arc::new(ExponentialLR::new(optimizer, 0.5)?)));
/// let sgd = SGD::new(Linear::new(2, 1).parameters(), 0.5)?;
/// create_scheduler(&SchedulerConfig::new("halving"), &sgd)?.step()?;
/// assert_eq!(sgd.get_lr(), 0.25);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_scheduler(
    name: &str,
    make: impl Fn(&dyn Optimizer, &Options) -> Result<Arc<dyn LRScheduler>> + Send + Sync + 'static,
) {
    schedulers().register(name, Arc::new(make));
}

/// The scheduler of a configuration.
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_train::config::SchedulerConfig;
/// use torsh_train::registry::create_scheduler;
///
/// let net = Linear::new(2, 1);
/// let sgd = SGD::new(net.parameters(), 0.5)?;
/// let step = create_scheduler(&SchedulerConfig::new("step").option("step_size", 1), &sgd)?;
/// step.step()?;
/// assert_eq!(sgd.get_lr(), 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn create_scheduler(
    config: &SchedulerConfig,
    optimizer: &impl Optimizer,
) -> Result<Arc<dyn LRScheduler>> {
    schedulers().get(&config.name)?(optimizer, &config.options)
}
