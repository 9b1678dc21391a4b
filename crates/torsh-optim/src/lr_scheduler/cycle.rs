//! Schedulers that change learning rate and momentum in opposite directions.

use std::f64::consts::PI;

use torsh_core::cmath;
use torsh_tensor::{Result, TorshError, options};

use super::scheduler::{settings, take};
use super::{Cx, PerGroup, Policy, Scheduler, SchedulerState};
use crate::Optimizer;
use crate::options::{Setting, require};

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
        /// The least momentum: a number, or a list with one for each group.
        base_momentum: PerGroup = 0.8.into(), impl Into<PerGroup> => |v| v.into();
        /// The greatest momentum: a number, or a list with one for each group.
        max_momentum: PerGroup = 0.9.into(), impl Into<PerGroup> => |v| v.into();
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
        /// The least momentum: a number, or a list with one for each group.
        base_momentum: PerGroup = 0.85.into(), impl Into<PerGroup> => |v| v.into();
        /// The greatest momentum: a number, or a list with one for each group.
        max_momentum: PerGroup = 0.95.into(), impl Into<PerGroup> => |v| v.into();
        /// The first learning rate is the greatest over this.
        div_factor: f64 = 25.0;
        /// The last learning rate is the first over this.
        final_div_factor: f64 = 1e4;
        /// Whether to come back to the first learning rate before going to the last.
        three_phase: bool = false;
    }
}

/// Sets the momentum of a group, or its first beta.
fn set_momentum(
    optimizer: &dyn Optimizer,
    group: usize,
    use_beta1: bool,
    momentum: f64,
) -> Result<()> {
    if !use_beta1 {
        return optimizer.set_option(group, "momentum", momentum.into());
    }
    let betas = optimizer.get_option(group, "betas");
    let Some(mut betas) = betas.and_then(|b| b.as_floats()) else {
        return Ok(());
    };
    if let Some(first) = betas.first_mut() {
        *first = momentum;
        optimizer.set_option(group, "betas", betas.into())?;
    }
    Ok(())
}

/// How a scheduler moves the momentum of the groups.
#[derive(Debug)]
struct Momentums {
    /// Whether it is the first beta.
    use_beta1: bool,
    /// The least of each group.
    base: Vec<f64>,
    /// The greatest of each group.
    max: Vec<f64>,
}

impl Momentums {
    /// Notes the bounds in the groups, as PyTorch does, and starts with the greatest momentum if the momentum `cycles`.
    #[track_caller]
    fn start(
        name: &'static str,
        optimizer: &dyn Optimizer,
        cycles: bool,
        base: PerGroup,
        max: PerGroup,
    ) -> Result<Momentums> {
        let base = base.list(name, "base_momentum", optimizer)?;
        let max = max.list(name, "max_momentum", optimizer)?;
        let use_beta1 = cycles && optimizer.get_option(0, "betas").is_some();
        if cycles && !use_beta1 && optimizer.get_option(0, "momentum").is_none() {
            return Err(TorshError::invalid(
                name,
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
            )
            .with_hint("set cycle_momentum to false"));
        }
        let bounds = base.iter().zip(&max).filter(|_| cycles);
        for (i, (base, max)) in bounds.enumerate() {
            set_momentum(optimizer, i, use_beta1, *max)?;
            optimizer.set_extra(i, "max_momentum", (*max).into())?;
            optimizer.set_extra(i, "base_momentum", (*base).into())?;
        }
        Ok(Momentums {
            use_beta1,
            base,
            max,
        })
    }
}

/// The rule of [`CyclicLR`].
#[derive(Debug)]
pub struct CyclicPolicy {
    max_lrs: Vec<f64>,
    total_size: f64,
    step_ratio: f64,
    mode: String,
    gamma: f64,
    cycle_momentum: bool,
    use_beta1: bool,
    base_momentums: Vec<f64>,
    max_momentums: Vec<f64>,
}

impl CyclicLR {
    /// Between `base_lr` and `max_lr`, with `step_size_up` steps up (2000 in PyTorch unless given) and as
    /// many down. Both learning rates are a number, or a list with one for each group. Errors: an
    /// optimizer without momentum, no steps, a list of another length than there are groups.
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
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        base_lr: impl Into<PerGroup>,
        max_lr: impl Into<PerGroup>,
        step_size_up: usize,
    ) -> Result<Self> {
        let options = CyclicLROptions::new().step_size_up(step_size_up);
        Self::new_with(optimizer, base_lr, max_lr, options)
    }

    /// With PyTorch's keyword arguments. Errors: an optimizer without momentum (and
    /// `cycle_momentum`), an unknown mode, no steps, a list of another length than there are groups.
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
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(
        optimizer: impl Optimizer,
        base_lr: impl Into<PerGroup>,
        max_lr: impl Into<PerGroup>,
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
        let base_lrs = base_lr.into().list(name, "base_lr", &optimizer)?;
        let max_lrs = max_lr.into().list(name, "max_lr", &optimizer)?;
        let (base, max) = (o.base_momentum, o.max_momentum);
        let momentums = Momentums::start(name, &optimizer, o.cycle_momentum, base, max)?;
        for (i, lr) in base_lrs.iter().enumerate() {
            optimizer.set_group_lr(i, *lr)?;
        }
        let total_size = (up + down) as f64;
        let s = Self::with_policy(
            optimizer,
            CyclicPolicy {
                max_lrs,
                total_size,
                step_ratio: up as f64 / total_size,
                mode: o.mode,
                gamma: o.gamma,
                cycle_momentum: o.cycle_momentum,
                use_beta1: momentums.use_beta1,
                base_momentums: momentums.base,
                max_momentums: momentums.max,
            },
        )?;
        s.set_base_lrs(base_lrs);
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
            "triangular2" => 1.0 / cmath::pow(2.0, cycle - 1.0),
            "exp_range" => cmath::pow(self.gamma, epoch as f64),
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
        if !self.cycle_momentum {
            return Ok(());
        }
        let (part, scale) = self.place(cx.last_epoch);
        let bounds = self.base_momentums.iter().zip(&self.max_momentums);
        for (i, (base, max)) in bounds.enumerate().take(cx.lrs.len()) {
            let height = (max - base) * part;
            set_momentum(optimizer, i, self.use_beta1, max - height * scale)?;
        }
        Ok(())
    }

    settings!(
        max_lrs "max_lrs", total_size "total_size", step_ratio "step_ratio", mode "mode",
        gamma "gamma", cycle_momentum "cycle_momentum", use_beta1 "use_beta1",
        base_momentums "base_momentums", max_momentums "max_momentums"
    );
}

/// A part of the cycle of [`OneCycleLR`], by the names of a group's entries.
#[derive(Clone, Debug, Default)]
struct Phase {
    end_step: f64,
    start_lr: String,
    end_lr: String,
    start_momentum: String,
    end_momentum: String,
}

impl Phase {
    /// From one learning rate and momentum to the next.
    fn new(end_step: f64, lrs: [&str; 2], momentums: [&str; 2]) -> Phase {
        let [start_lr, end_lr] = lrs.map(|n| format!("{n}_lr"));
        let [start_momentum, end_momentum] = momentums.map(|n| format!("{n}_momentum"));
        Phase {
            end_step,
            start_lr,
            end_lr,
            start_momentum,
            end_momentum,
        }
    }

    fn names(&mut self) -> [(&'static str, &mut String); 4] {
        [
            ("start_lr", &mut self.start_lr),
            ("end_lr", &mut self.end_lr),
            ("start_momentum", &mut self.start_momentum),
            ("end_momentum", &mut self.end_momentum),
        ]
    }
}

/// The rule of [`OneCycleLR`]. The learning rates and momenta are entries of the groups.
#[derive(Debug)]
pub struct OneCyclePolicy {
    total_steps: i64,
    phases: Vec<Phase>,
    anneal_strategy: String,
    cycle_momentum: bool,
    use_beta1: bool,
}

impl OneCycleLR {
    /// A cycle of `total_steps`, which in PyTorch may also be given as `epochs` times
    /// `steps_per_epoch`. `max_lr` is a number, or a list with one for each group. Errors: an
    /// optimizer without momentum, no steps, a list of another length than there are groups.
    ///
    /// The learning rates stand in the groups as `initial_lr`, `max_lr` and `min_lr`, and are read from
    /// there, so a state dict of the optimizer brings its own.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, lr_scheduler::{LRScheduler, OneCycleLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = Adam::new([&w], 0.1)?;
    /// let scheduler = OneCycleLR::new(&optimizer, 0.5, 10)?;
    /// assert!((optimizer.get_lr() - 0.5 / 25.0).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn new(
        optimizer: impl Optimizer,
        max_lr: impl Into<PerGroup>,
        total_steps: usize,
    ) -> Result<Self> {
        Self::new_with(optimizer, max_lr, total_steps, OneCycleLROptions::new())
    }

    /// With PyTorch's keyword arguments. Errors: an optimizer without momentum (and
    /// `cycle_momentum`), an unknown strategy, no steps, a part that is none, a list of another
    /// length than there are groups.
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
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(
        optimizer: impl Optimizer,
        max_lr: impl Into<PerGroup>,
        total_steps: usize,
        o: OneCycleLROptions,
    ) -> Result<Self> {
        let name = "OneCycleLR";
        let (pct, strategy) = (o.pct_start, o.anneal_strategy.as_str());
        require(name, total_steps > 0, || {
            "Expected positive integer total_steps, but got 0".into()
        })?;
        require(name, (0.0..=1.0).contains(&pct), || {
            format!("Expected float between 0 and 1 pct_start, but got {pct}")
        })?;
        require(name, ["cos", "linear"].contains(&strategy), || {
            format!("anneal_strategy must be one of 'cos' or 'linear', instead got {strategy}")
        })?;
        let max_lrs = max_lr.into().list(name, "max_lr", &optimizer)?;
        let (base, max) = (o.base_momentum, o.max_momentum);
        let momentums = Momentums::start(name, &optimizer, o.cycle_momentum, base, max)?;
        for (i, max) in max_lrs.into_iter().enumerate() {
            let first = max / o.div_factor;
            optimizer.set_extra(i, "initial_lr", first.into())?;
            optimizer.set_extra(i, "max_lr", max.into())?;
            optimizer.set_extra(i, "min_lr", (first / o.final_div_factor).into())?;
        }
        let steps = total_steps as f64;
        let up = Phase::new(pct * steps - 1.0, ["initial", "max"], ["max", "base"]);
        let phases = match o.three_phase {
            true => vec![
                up,
                Phase::new(2.0 * pct * steps - 2.0, ["max", "initial"], ["base", "max"]),
                Phase::new(steps - 1.0, ["initial", "min"], ["max", "max"]),
            ],
            false => vec![up, Phase::new(steps - 1.0, ["max", "min"], ["base", "max"])],
        };
        Self::with_policy(
            optimizer,
            OneCyclePolicy {
                total_steps: total_steps as i64,
                phases,
                anneal_strategy: o.anneal_strategy,
                cycle_momentum: o.cycle_momentum,
                use_beta1: momentums.use_beta1,
            },
        )
    }
}

impl OneCyclePolicy {
    /// The phase of a step, and how far in it the step is.
    fn place(&self, epoch: i64) -> Result<(&Phase, f64)> {
        let mut start = 0.0;
        for (i, phase) in self.phases.iter().enumerate() {
            if epoch as f64 <= phase.end_step || i + 1 == self.phases.len() {
                return Ok((phase, (epoch as f64 - start) / (phase.end_step - start)));
            }
            start = phase.end_step;
        }
        Err(TorshError::invalid(
            Self::NAME,
            "the state has no `_schedule_phases`",
        ))
    }

    fn between(&self, from: f64, to: f64, part: f64) -> f64 {
        if self.anneal_strategy == "linear" {
            (to - from) * part + from
        } else {
            to + (from - to) / 2.0 * (cmath::cos(PI * part) + 1.0)
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
        let (phase, part) = self.place(cx.last_epoch)?;
        let entry = |i, name: &str| cx.entry(Self::NAME, i, name);
        let lr = |i| {
            if self.cycle_momentum {
                // Asked for before anything is changed.
                entry(i, &phase.start_momentum).and(entry(i, &phase.end_momentum))?;
            }
            let (from, to) = (entry(i, &phase.start_lr)?, entry(i, &phase.end_lr)?);
            Ok(self.between(from, to, part))
        };
        (0..cx.lrs.len()).map(lr).collect()
    }

    fn apply(&mut self, cx: &Cx<'_>, optimizer: &dyn Optimizer) -> Result<()> {
        if !self.cycle_momentum {
            return Ok(());
        }
        let (phase, part) = self.place(cx.last_epoch)?;
        for i in 0..cx.lrs.len() {
            let from = cx.entry(Self::NAME, i, &phase.start_momentum)?;
            let to = cx.entry(Self::NAME, i, &phase.end_momentum)?;
            let momentum = self.between(from, to, part);
            set_momentum(optimizer, i, self.use_beta1, momentum)?;
        }
        Ok(())
    }

    fn save(&self, state: &mut SchedulerState) {
        state.insert("total_steps".into(), self.total_steps.to_value());
        state.insert("_anneal_func_type".into(), self.anneal_strategy.to_value());
        state.insert("cycle_momentum".into(), self.cycle_momentum.to_value());
        state.insert("use_beta1".into(), self.use_beta1.to_value());
        for (i, phase) in self.phases.iter().enumerate() {
            let key = |name: &str| format!("_schedule_phases.{i}.{name}");
            state.insert(key("end_step"), phase.end_step.to_value());
            for (name, value) in phase.clone().names() {
                state.insert(key(name), value.to_value());
            }
        }
    }

    fn load(&mut self, state: &SchedulerState) -> Result<()> {
        let take_bool = |name, into: &mut bool| take(Self::NAME, state, name, into);
        take(Self::NAME, state, "total_steps", &mut self.total_steps)?;
        let strategy = &mut self.anneal_strategy;
        take(Self::NAME, state, "_anneal_func_type", strategy)?;
        take_bool("cycle_momentum", &mut self.cycle_momentum)?;
        take_bool("use_beta1", &mut self.use_beta1)?;
        let mut phases = Vec::new();
        while state.contains_key(&format!("_schedule_phases.{}.end_step", phases.len())) {
            let key = |name: &str| format!("_schedule_phases.{}.{name}", phases.len());
            let mut phase = Phase::default();
            take(Self::NAME, state, &key("end_step"), &mut phase.end_step)?;
            for (name, value) in phase.names() {
                take(Self::NAME, state, &key(name), value)?;
            }
            phases.push(phase);
        }
        if !phases.is_empty() {
            self.phases = phases;
        }
        Ok(())
    }
}
