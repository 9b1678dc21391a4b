//! Gradient scaling for half precision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::ops::optim::unscale;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::lr_scheduler::SchedulerState;
use crate::options::require;
use crate::{Optimizer, StateValue};

torsh_tensor::options! {
    /// The settings of a [`GradScaler`].
    GradScalerOptions {
        /// The first scale.
        init_scale: f64 = 65536.0;
        /// What the scale is multiplied by after `growth_interval` steps without infinities.
        growth_factor: f64 = 2.0;
        /// What the scale is multiplied by after a step with infinities.
        backoff_factor: f64 = 0.5;
        /// How many steps without infinities the scale grows after.
        growth_interval: i64 = 2000;
        /// Whether it scales at all.
        enabled: bool = true;
    }
}

/// Scales losses so that small gradients survive half precision, skips the steps whose gradients
/// were too large for it, and finds the scale by that (`torch.amp.GradScaler`; Micikevicius and
/// others, 2017).
///
/// A handle: its methods take `&self`, and a clone is the same scaler. The scale is a `float32`,
/// as PyTorch's. Where it is not enabled, losses stay as they are and every step is made.
///
/// ```
/// use torsh_optim::{GradScaler, Optimizer, SGD};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.25)?;
/// let scaler = GradScaler::new();
/// for factor in [1.0, f64::INFINITY, 1.0] {
///     optimizer.zero_grad();
///     let loss = w.mul(factor)?.sum()?;
///     scaler.scale(&loss)?.backward()?;
///     scaler.step(&optimizer)?; // not made the second time
///     scaler.update()?;
/// }
/// assert_eq!(w.item::<f32>()?, 0.5);
/// assert_eq!(scaler.get_scale(), 32768.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler(Arc<Mutex<Inner>>);

/// What was done with an optimizer since the last [`GradScaler::update`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Ready,
    Unscaled,
    Stepped,
}

#[derive(Clone, Copy, Debug, Default)]
struct Checked {
    stage: Stage,
    /// Whether a gradient was not finite; `None` where there was none.
    found: Option<bool>,
}

#[derive(Debug)]
struct Inner {
    options: GradScalerOptions,
    /// There since the first call of `scale`.
    scale: Option<f32>,
    growth_tracker: i64,
    optimizers: HashMap<usize, Checked>,
}

fn misuse(what: impl Into<String>) -> TorshError {
    TorshError::invalid("GradScaler", what)
}

impl Inner {
    fn scale(&self, op: &str) -> Result<f32> {
        self.scale.ok_or_else(|| {
            misuse(format!("{op} was called before any loss was scaled")).with_hint(
                "call scaler.scale(&loss) earlier in the iteration, and backward on that",
            )
        })
    }

    fn unscale(&mut self, optimizer: &(impl Optimizer + ?Sized)) -> Result<Checked> {
        let scale = self.scale("unscale_")?;
        let state = self.optimizers.entry(optimizer.id()).or_default();
        match state.stage {
            Stage::Unscaled => {
                return Err(misuse(
                    "unscale_ was already called on this optimizer since the last update",
                ));
            }
            Stage::Stepped => return Err(misuse("unscale_ is called after step")),
            Stage::Ready => {}
        }
        let parameters = optimizer.parameters();
        let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
        if let Some(g) = grads.iter().find(|g| g.dtype() == DType::F16) {
            return Err(TorshError::dtype(
                "GradScaler",
                format!("float16 gradients cannot be unscaled ({})", g.describe()),
            )
            .with_hint("keep the parameters in float32 and convert what is computed with them"));
        }
        let found = match grads.is_empty() {
            true => None,
            false => Some(unscale(&grads, f64::from((1.0 / f64::from(scale)) as f32))?),
        };
        *state = Checked {
            stage: Stage::Unscaled,
            found,
        };
        Ok(*state)
    }
}

impl Default for GradScaler {
    fn default() -> Self {
        Self::new()
    }
}

impl GradScaler {
    /// A scaler with PyTorch's defaults.
    pub fn new() -> GradScaler {
        Self::of(GradScalerOptions::default())
    }

    /// A scaler with other settings. An error where the scale would not grow or not fall.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// let scaler = GradScaler::new_with(GradScalerOptions::new().init_scale(1024.0))?;
    /// assert_eq!(scaler.get_scale(), 1024.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new_with(options: GradScalerOptions) -> Result<GradScaler> {
        if options.enabled {
            let (growth, backoff) = (options.growth_factor, options.backoff_factor);
            require("GradScaler", growth > 1.0, || {
                format!("The growth factor must be > 1.0, got {growth}")
            })?;
            require("GradScaler", backoff < 1.0, || {
                format!("The backoff factor must be < 1.0, got {backoff}")
            })?;
        }
        Ok(Self::of(options))
    }

    fn of(options: GradScalerOptions) -> GradScaler {
        GradScaler(Arc::new(Mutex::new(Inner {
            options,
            scale: None,
            growth_tracker: 0,
            optimizers: HashMap::new(),
        })))
    }

    /// The loss (or any other output) times the scale, to call `backward` on.
    #[track_caller]
    pub fn scale(&self, outputs: &Tensor) -> Result<Tensor> {
        let scale = {
            let mut inner = self.0.lock();
            if !inner.options.enabled {
                return Ok(outputs.clone());
            }
            let first = inner.options.init_scale as f32;
            *inner.scale.get_or_insert(first)
        };
        // A 0-d tensor, not a number: a 0-d loss of a half type becomes float32.
        outputs.mul(&Tensor::scalar(scale, DType::F32, outputs.device())?)
    }

    /// Divides the gradients of an optimizer's parameters by the scale and looks for what is not
    /// finite, in one pass: to look at them or clip them before [`GradScaler::step`], which does
    /// it otherwise (`torch.amp.GradScaler.unscale_`).
    ///
    /// Errors: nothing was scaled, a second call or one after the step without
    /// [`GradScaler::update`] between, `float16` gradients.
    #[track_caller]
    pub fn unscale_(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<()> {
        let mut inner = self.0.lock();
        if inner.options.enabled {
            inner.unscale(optimizer)?;
        }
        Ok(())
    }

    /// [`GradScaler::unscale_`].
    #[track_caller]
    pub fn unscale_gradients(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<()> {
        self.unscale_(optimizer)
    }

    /// Makes the optimizer's step if all its gradients are finite; whether it did. They are
    /// unscaled before, unless they were.
    ///
    /// Errors: nothing was scaled, a second call without [`GradScaler::update`] between, no
    /// gradients, those of [`GradScaler::unscale_`] and of the step.
    #[track_caller]
    pub fn step(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<bool> {
        let id = optimizer.id();
        let found = {
            let mut inner = self.0.lock();
            if !inner.options.enabled {
                drop(inner);
                optimizer.step()?;
                return Ok(true);
            }
            inner.scale("step")?;
            let mut state = inner.optimizers.get(&id).copied().unwrap_or_default();
            if state.stage == Stage::Stepped {
                return Err(misuse("step was already called since the last update"));
            }
            if state.stage == Stage::Ready {
                state = inner.unscale(optimizer)?;
            }
            state.found.ok_or_else(|| {
                misuse("no gradient of this optimizer was looked at, since there is none")
                    .with_hint("call backward on the scaled loss before")
            })?
        };
        // Nothing stays locked while the optimizer runs.
        if !found {
            optimizer.step()?;
        }
        if let Some(state) = self.0.lock().optimizers.get_mut(&id) {
            state.stage = Stage::Stepped;
        }
        Ok(!found)
    }

    /// Ends the iteration: the scale falls where a step was skipped, and grows after
    /// `growth_interval` iterations in which none was. An error where no gradients were looked at
    /// since the last call.
    #[track_caller]
    pub fn update(&self) -> Result<()> {
        let mut inner = self.0.lock();
        if !inner.options.enabled {
            return Ok(());
        }
        let scale = inner.scale("update")?;
        let found = inner.optimizers.values().filter_map(|o| o.found);
        let Some(found) = found.reduce(|a, b| a | b) else {
            return Err(
                misuse("update was called and no step was made or skipped before")
                    .with_hint("call scaler.step(&optimizer) earlier in the iteration"),
            );
        };
        let times = |factor: f64| (f64::from(scale) * factor) as f32;
        if found {
            inner.scale = Some(times(inner.options.backoff_factor));
            inner.growth_tracker = 0;
        } else {
            inner.growth_tracker += 1;
            if inner.growth_tracker == inner.options.growth_interval {
                let grown = times(inner.options.growth_factor);
                inner.scale = Some(if grown.is_finite() { grown } else { scale });
                inner.growth_tracker = 0;
            }
        }
        inner.optimizers.clear();
        Ok(())
    }

    /// Ends the iteration with a scale of one's own (`update(new_scale)` of PyTorch).
    #[track_caller]
    pub fn update_with(&self, new_scale: f64) -> Result<()> {
        let mut inner = self.0.lock();
        if inner.options.enabled {
            inner.scale("update")?;
            inner.scale = Some(new_scale as f32);
            inner.optimizers.clear();
        }
        Ok(())
    }

    /// The scale; 1 where it is not enabled.
    pub fn get_scale(&self) -> f64 {
        let inner = self.0.lock();
        match inner.scale {
            _ if !inner.options.enabled => 1.0,
            Some(scale) => f64::from(scale),
            None => inner.options.init_scale,
        }
    }

    /// What the scale grows by.
    pub fn get_growth_factor(&self) -> f64 {
        self.0.lock().options.growth_factor
    }

    /// Changes what the scale grows by.
    pub fn set_growth_factor(&self, new_factor: f64) {
        self.0.lock().options.growth_factor = new_factor;
    }

    /// What the scale falls by.
    pub fn get_backoff_factor(&self) -> f64 {
        self.0.lock().options.backoff_factor
    }

    /// Changes what the scale falls by.
    pub fn set_backoff_factor(&self, new_factor: f64) {
        self.0.lock().options.backoff_factor = new_factor;
    }

    /// How many iterations the scale grows after.
    pub fn get_growth_interval(&self) -> i64 {
        self.0.lock().options.growth_interval
    }

    /// Changes how many iterations the scale grows after.
    pub fn set_growth_interval(&self, new_interval: i64) {
        self.0.lock().options.growth_interval = new_interval;
    }

    /// Whether it scales at all.
    pub fn is_enabled(&self) -> bool {
        self.0.lock().options.enabled
    }

    /// The state by PyTorch's names; empty where it is not enabled. In files it is what
    /// [`values_by_name`](crate::values_by_name) makes of it.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// let state = scaler.state_dict();
    /// assert_eq!(state["scale"].as_f64(), Some(65536.0));
    /// assert_eq!(state["_growth_tracker"].as_i64(), Some(0));
    /// GradScaler::new().load_state_dict(&state)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn state_dict(&self) -> SchedulerState {
        if !self.is_enabled() {
            return BTreeMap::new();
        }
        let scale = self.get_scale();
        let inner = self.0.lock();
        let o = &inner.options;
        [
            ("scale", StateValue::Float(scale)),
            ("growth_factor", o.growth_factor.into()),
            ("backoff_factor", o.backoff_factor.into()),
            ("growth_interval", o.growth_interval.into()),
            ("_growth_tracker", inner.growth_tracker.into()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    /// Takes over a state; nothing where it is not enabled. After an error the scaler is as
    /// before.
    pub fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
        let mut inner = self.0.lock();
        if !inner.options.enabled {
            return Ok(());
        }
        if state.is_empty() {
            return Err(misuse(
                "the state is empty, possibly because it was saved from a scaler that was not enabled",
            ));
        }
        let missing = |name: &str| misuse(format!("the state has no {name}"));
        let float = |name: &str| {
            let v = state.get(name).and_then(StateValue::as_f64);
            v.ok_or_else(|| missing(name))
        };
        let int = |name: &str| {
            let v = state.get(name).and_then(StateValue::as_i64);
            v.ok_or_else(|| missing(name))
        };
        let scale = float("scale")?;
        let options = GradScalerOptions {
            init_scale: scale,
            growth_factor: float("growth_factor")?,
            backoff_factor: float("backoff_factor")?,
            growth_interval: int("growth_interval")?,
            enabled: true,
        };
        inner.growth_tracker = int("_growth_tracker")?;
        inner.scale = inner.scale.map(|_| scale as f32);
        inner.options = options;
        Ok(())
    }
}
