//! Schedulers that change learning rate and momentum in opposite directions.

use std::f64::consts::PI;

use torsh_tensor::{Result, TorshError, options};

use super::scheduler::settings;
use super::{Cx, Policy, Scheduler, SchedulerState};
use crate::options::require;
use crate::{Optimizer, StateValue};

/// Up and down between two learning rates (`lr_scheduler.CyclicLR`; Smith, 2015).
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_optim::lr_scheduler::{CyclicLR, CyclicLROptions, LRScheduler};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::builder([&w]).lr(0.5).momentum(0.9).build()?;
/// let options = CyclicLROptions::new().step_size_up(2);
/// let scheduler = CyclicLR::new_with(&optimizer, 0.1, 0.5, options)?;
/// for (lr, momentum) in [(0.1, 0.9), (0.3, 0.85), (0.5, 0.8), (0.3, 0.85), (0.1, 0.9)] {
///     assert!((optimizer.get_lr() - lr).abs() < 1e-12);
///     let m = optimizer.get_option(0, "momentum").and_then(|v| v.as_f64());
///     assert!((m.unwrap_or(0.0) - momentum).abs() < 1e-12);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type CyclicLR = Scheduler<CyclicPolicy>;

/// Once up to a learning rate and down to nearly nothing (`lr_scheduler.OneCycleLR`; Smith and
/// Topin, 2017).
///
/// ```
/// use torsh_optim::{Adam, Optimizer, lr_scheduler::{LRScheduler, OneCycleLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = Adam::new([&w], 0.1)?;
/// let scheduler = OneCycleLR::new(&optimizer, 0.5, 10)?;
/// assert!((optimizer.get_lr() - 0.5 / 25.0).abs() < 1e-12);
/// for _ in 0..2 {
///     scheduler.step()?;
/// }
/// assert!((optimizer.get_lr() - 0.5).abs() < 1e-12);
/// assert_eq!(optimizer.options(0).map(|o| o.betas.0), Some(0.85));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type OneCycleLR = Scheduler<OneCyclePolicy>;

options! {
    /// The settings of [`CyclicLR`] but for the two learning rates.
    CyclicLROptions {
        /// The number of steps up.
        step_size_up: usize = 2000;
        /// The number of steps down; if not set, as many as up.
        step_size_down: Option<usize> = None, impl Into<Option<usize>> => |v| v.into();
        /// `triangular`, `triangular2` (half as high each cycle) or `exp_range` (lower by `gamma`
        /// each step).
        mode: String = "triangular".into(), impl Into<String> => |v| v.into();
        /// The factor of `exp_range`.
        gamma: f64 = 1.0;
        /// Whether the momentum (or the first beta) goes down where the learning rate goes up.
        cycle_momentum: bool = true;
        /// The least momentum.
        base_momentum: f64 = 0.8;
        /// The greatest momentum.
        max_momentum: f64 = 0.9;
    }
}

options! {
    /// The settings of [`OneCycleLR`] but for the greatest learning rate and the length.
    OneCycleLROptions {
        /// The part of the steps that goes up.
        pct_start: f64 = 0.3;
        /// The curve: `cos` or `linear`.
        anneal_strategy: String = "cos".into(), impl Into<String> => |v| v.into();
        /// Whether the momentum (or the first beta) goes down where the learning rate goes up.
        cycle_momentum: bool = true;
        /// The least momentum.
        base_momentum: f64 = 0.85;
        /// The greatest momentum.
        max_momentum: f64 = 0.95;
        /// The first learning rate is the greatest over this.
        div_factor: f64 = 25.0;
        /// The last learning rate is the first over this.
        final_div_factor: f64 = 1e4;
        /// Whether to come back to the first learning rate before going to the last.
        three_phase: bool = false;
    }
}

/// Where the momentum of an optimizer is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Momentum {
    Plain,
    Beta,
}

fn momentum_of(name: &'static str, optimizer: &dyn Optimizer) -> Result<Momentum> {
    if optimizer.get_option(0, "betas").is_some() {
        Ok(Momentum::Beta)
    } else if optimizer.get_option(0, "momentum").is_some() {
        Ok(Momentum::Plain)
    } else {
        Err(TorshError::invalid(
            name,
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
        )
        .with_hint("set cycle_momentum to false"))
    }
}

impl Momentum {
    fn set(self, optimizer: &dyn Optimizer, momentum: f64) -> Result<()> {
        for i in 0..optimizer.group_lrs().len() {
            match self {
                Momentum::Plain => optimizer.set_option(i, "momentum", momentum.into())?,
                Momentum::Beta => {
                    let betas = optimizer.get_option(i, "betas");
                    let Some(mut betas) = betas.and_then(|b| b.as_floats()) else {
                        continue;
                    };
                    let Some(first) = betas.first_mut() else {
                        continue;
                    };
                    *first = momentum;
                    optimizer.set_option(i, "betas", betas.into())?;
                }
            }
        }
        Ok(())
    }
}

/// Notes the bounds in the groups, as PyTorch does, and starts with the greatest momentum.
fn start_momentum(
    name: &'static str,
    optimizer: &dyn Optimizer,
    (base, max): (f64, f64),
) -> Result<Momentum> {
    let kind = momentum_of(name, optimizer)?;
    kind.set(optimizer, max)?;
    for i in 0..optimizer.group_lrs().len() {
        optimizer.set_extra(i, "max_momentum", max.into())?;
        optimizer.set_extra(i, "base_momentum", base.into())?;
    }
    Ok(kind)
}

/// The rule of [`CyclicLR`].
#[derive(Debug)]
pub struct CyclicPolicy {
    max_lrs: Vec<f64>,
    total_size: f64,
    step_ratio: f64,
    mode: String,
    gamma: f64,
    base_momentum: f64,
    max_momentum: f64,
    momentum: Option<Momentum>,
}

impl CyclicLR {
    /// Between `base_lr` and `max_lr`, with `step_size_up` steps up (2000 in PyTorch unless given) and as
    /// many down. An error for an optimizer without momentum, and where there are no steps.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, CyclicLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::builder([&w]).lr(0.5).momentum(0.9).build()?;
    /// let scheduler = CyclicLR::new(&optimizer, 0.25, 0.75, 2)?;
    /// assert_eq!(optimizer.get_lr(), 0.25);
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(
        optimizer: impl Optimizer,
        base_lr: f64,
        max_lr: f64,
        step_size_up: usize,
    ) -> Result<Self> {
        let options = CyclicLROptions::new().step_size_up(step_size_up);
        Self::new_with(optimizer, base_lr, max_lr, options)
    }

    /// With PyTorch's keyword arguments. Errors: an optimizer without momentum (and
    /// `cycle_momentum`), an unknown mode, no steps.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, CyclicLR, CyclicLROptions}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let options = CyclicLROptions::new().step_size_up(1).cycle_momentum(false);
    /// let scheduler = CyclicLR::new_with(&optimizer, 0.25, 0.75, options)?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new_with(
        optimizer: impl Optimizer,
        base_lr: f64,
        max_lr: f64,
        o: CyclicLROptions,
    ) -> Result<Self> {
        let name = "CyclicLR";
        let known = ["triangular", "triangular2", "exp_range"].contains(&o.mode.as_str());
        require(name, known, || {
            format!(
                "mode is invalid: {} (must be triangular, triangular2 or exp_range)",
                o.mode
            )
        })?;
        let (up, down) = (o.step_size_up, o.step_size_down.unwrap_or(o.step_size_up));
        require(name, up > 0 && down > 0, || {
            format!("the steps up and down must be at least 1, got {up} and {down}")
        })?;
        let groups = optimizer.group_lrs().len();
        let momentum = if o.cycle_momentum {
            let bounds = (o.base_momentum, o.max_momentum);
            Some(start_momentum(name, &optimizer, bounds)?)
        } else {
            None
        };
        optimizer.set_lr(base_lr);
        let total_size = (up + down) as f64;
        let s = Self::with_policy(
            optimizer,
            CyclicPolicy {
                max_lrs: vec![max_lr; groups],
                total_size,
                step_ratio: up as f64 / total_size,
                mode: o.mode,
                gamma: o.gamma,
                base_momentum: o.base_momentum,
                max_momentum: o.max_momentum,
                momentum,
            },
        )?;
        s.set_base_lrs(vec![base_lr; groups]);
        Ok(s)
    }
}

impl CyclicPolicy {
    /// How far up the cycle a step is, and how high the cycle.
    fn place(&self, epoch: i64) -> (f64, f64) {
        let done = epoch as f64 / self.total_size;
        let cycle = (1.0 + done).floor();
        let x = 1.0 + done - cycle;
        let part = if x <= self.step_ratio {
            x / self.step_ratio
        } else {
            (x - 1.0) / (self.step_ratio - 1.0)
        };
        let scale = match self.mode.as_str() {
            "triangular2" => 1.0 / 2f64.powf(cycle - 1.0),
            "exp_range" => self.gamma.powf(epoch as f64),
            _ => 1.0,
        };
        (part, scale)
    }
}

impl Policy for CyclicPolicy {
    const NAME: &'static str = "CyclicLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let (part, scale) = self.place(cx.last_epoch);
        let bounds = cx.base_lrs.iter().zip(&self.max_lrs);
        Ok(bounds
            .map(|(base, max)| base + (max - base) * part * scale)
            .collect())
    }

    fn apply(&mut self, cx: &Cx<'_>, optimizer: &dyn Optimizer) -> Result<()> {
        let Some(kind) = self.momentum else {
            return Ok(());
        };
        let (part, scale) = self.place(cx.last_epoch);
        let height = (self.max_momentum - self.base_momentum) * part;
        kind.set(optimizer, self.max_momentum - height * scale)
    }

    settings!(
        max_lrs "max_lrs", total_size "total_size", step_ratio "step_ratio", mode "mode",
        gamma "gamma", base_momentum "base_momentum", max_momentum "max_momentum"
    );
}

/// The rule of [`OneCycleLR`].
#[derive(Debug)]
pub struct OneCyclePolicy {
    total_steps: i64,
    max_lr: f64,
    options: OneCycleLROptions,
    momentum: Option<Momentum>,
}

impl OneCycleLR {
    /// A cycle of `total_steps`, which in PyTorch may also be given as `epochs` times
    /// `steps_per_epoch`. An error for an optimizer without momentum, and where there are no steps.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, lr_scheduler::{LRScheduler, OneCycleLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = Adam::new([&w], 0.1)?;
    /// let scheduler = OneCycleLR::new(&optimizer, 0.5, 10)?;
    /// assert!((optimizer.get_lr() - 0.5 / 25.0).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(optimizer: impl Optimizer, max_lr: f64, total_steps: usize) -> Result<Self> {
        Self::new_with(optimizer, max_lr, total_steps, OneCycleLROptions::new())
    }

    /// With PyTorch's keyword arguments. Errors: an optimizer without momentum (and
    /// `cycle_momentum`), an unknown strategy, no steps, a part that is none.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, lr_scheduler::{LRScheduler, OneCycleLR, OneCycleLROptions}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = Adam::new([&w], 0.1)?;
    /// let options = OneCycleLROptions::new().div_factor(4.0);
    /// let scheduler = OneCycleLR::new_with(&optimizer, 0.5, 10, options)?;
    /// assert_eq!(scheduler.get_last_lr(), [0.125]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new_with(
        optimizer: impl Optimizer,
        max_lr: f64,
        total_steps: usize,
        options: OneCycleLROptions,
    ) -> Result<Self> {
        let name = "OneCycleLR";
        let (pct, strategy) = (options.pct_start, options.anneal_strategy.as_str());
        require(name, total_steps > 0, || {
            "Expected positive integer total_steps, but got 0".into()
        })?;
        require(name, (0.0..=1.0).contains(&pct), || {
            format!("Expected float between 0 and 1 pct_start, but got {pct}")
        })?;
        require(name, ["cos", "linear"].contains(&strategy), || {
            format!("anneal_strategy must be one of 'cos' or 'linear', instead got {strategy}")
        })?;
        let first = max_lr / options.div_factor;
        let momentum = if options.cycle_momentum {
            let bounds = (options.base_momentum, options.max_momentum);
            Some(start_momentum(name, &optimizer, bounds)?)
        } else {
            None
        };
        for i in 0..optimizer.group_lrs().len() {
            optimizer.set_extra(i, "initial_lr", first.into())?;
            optimizer.set_extra(i, "max_lr", max_lr.into())?;
            optimizer.set_extra(i, "min_lr", (first / options.final_div_factor).into())?;
        }
        Self::with_policy(
            optimizer,
            OneCyclePolicy {
                total_steps: total_steps as i64,
                max_lr,
                options,
                momentum,
            },
        )
    }
}

impl OneCyclePolicy {
    /// A number that goes through `stops` in as many phases less one.
    fn at(&self, epoch: i64, stops: &[f64]) -> f64 {
        let (steps, pct) = (self.total_steps as f64, self.options.pct_start);
        let last = steps - 1.0;
        let ends: &[f64] = if self.options.three_phase {
            &[pct * steps - 1.0, 2.0 * pct * steps - 2.0, last]
        } else {
            &[pct * steps - 1.0, last]
        };
        let mut start = 0.0;
        let mut phase = 0;
        while phase + 1 < ends.len() && epoch as f64 > ends[phase] {
            start = ends[phase];
            phase += 1;
        }
        let part = (epoch as f64 - start) / (ends[phase] - start);
        let (from, to) = (stops[phase], stops[phase + 1]);
        if self.options.anneal_strategy == "linear" {
            (to - from) * part + from
        } else {
            to + (from - to) / 2.0 * ((PI * part).cos() + 1.0)
        }
    }
}

impl Policy for OneCyclePolicy {
    const NAME: &'static str = "OneCycleLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        if cx.last_epoch > self.total_steps {
            return Err(TorshError::invalid(
                Self::NAME,
                format!(
                    "Tried to step {} times. The specified number of total steps is {}",
                    cx.last_epoch, self.total_steps
                ),
            ));
        }
        let first = self.max_lr / self.options.div_factor;
        let last = first / self.options.final_div_factor;
        let lr = if self.options.three_phase {
            self.at(cx.last_epoch, &[first, self.max_lr, first, last])
        } else {
            self.at(cx.last_epoch, &[first, self.max_lr, last])
        };
        Ok(vec![lr; cx.lrs.len()])
    }

    fn apply(&mut self, cx: &Cx<'_>, optimizer: &dyn Optimizer) -> Result<()> {
        let Some(kind) = self.momentum else {
            return Ok(());
        };
        let (base, max) = (self.options.base_momentum, self.options.max_momentum);
        kind.set(optimizer, self.at(cx.last_epoch, &[max, base, max, max]))
    }

    fn save(&self, state: &mut SchedulerState) {
        state.insert("total_steps".into(), StateValue::Int(self.total_steps));
        state.insert("max_lr".into(), self.max_lr.into());
    }

    fn load(&mut self, state: &SchedulerState) -> Result<()> {
        super::scheduler::take(Self::NAME, state, "total_steps", &mut self.total_steps)?;
        super::scheduler::take(Self::NAME, state, "max_lr", &mut self.max_lr)
    }
}
