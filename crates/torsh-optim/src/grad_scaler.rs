//! Gradient scaling for half precision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::attrs::AmpUpdateScale;
use torsh_tensor::ops::optim::{unscale, update_scale};
use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

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
/// A handle: its methods take `&self`, and a clone is the same scaler. The scale is a `float32` of the
/// device of the first scaled loss, as PyTorch's. Where it is not enabled, losses stay as they are and
/// every step is made.
///
/// Nothing waits for a device: whether gradients are finite, the scale and what it grows by stay there,
/// and the device leaves the step out where they are not
/// ([`Optimizer::step_unless`] says which optimizers can do so; for the others the host waits). What
/// asks for numbers waits: [`GradScaler::get_scale`], [`GradScaler::state_dict`],
/// [`ScaledStep::made`].
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
///     let step = scaler.step(&optimizer)?; // not made the second time
///     assert_eq!(step.made()?, factor.is_finite());
///     scaler.update()?;
/// }
/// assert_eq!(w.item::<f32>()?, 0.5);
/// assert_eq!(scaler.get_scale()?, 32768.0);
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

#[derive(Clone, Debug, Default)]
struct Checked {
    stage: Stage,
    /// For each device of the gradients a number of it, which is not 0 where one was not finite; none
    /// where there was no gradient.
    found: Vec<Tensor>,
}

/// The scale and what belongs to it, as numbers of one device.
#[derive(Clone, Debug)]
struct Scale {
    scale: Tensor,
    /// How many iterations passed since it last changed.
    growth_tracker: Tensor,
}

#[derive(Debug)]
struct Inner {
    options: GradScalerOptions,
    /// There since the first call of `scale`.
    scale: Option<Scale>,
    /// The growth tracker that the scale starts with.
    growth_tracker: i64,
    optimizers: HashMap<usize, Checked>,
}

/// A step that [`GradScaler::step`] made or left out.
///
/// ```
/// use torsh_optim::{GradScaler, Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.25)?;
/// let scaler = GradScaler::new();
/// scaler.scale(&w.sum()?)?.backward()?;
/// let step = scaler.step(&optimizer)?;
/// assert!(step.made()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScaledStep(Vec<Tensor>);

impl ScaledStep {
    /// Whether the step was made; on a device the host waits for that.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.25)?;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&w.mul(f64::INFINITY)?)?.backward()?;
    /// assert!(!scaler.step(&optimizer)?.made()?);
    /// assert_eq!(w.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn made(&self) -> Result<bool> {
        any_found(&self.0).map(|found| !found)
    }
}

/// Whether one of the numbers is not 0.
#[track_caller]
fn any_found(found: &[Tensor]) -> Result<bool> {
    for t in found {
        if t.item::<f32>()? != 0.0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn misuse(what: impl Into<String>) -> TorshError {
    TorshError::invalid("GradScaler", what)
}

impl Inner {
    fn scale(&self, op: &str) -> Result<&Scale> {
        self.scale.as_ref().ok_or_else(|| {
            misuse(format!("{op} was called before any loss was scaled")).with_hint(
                "call scaler.scale(&loss) earlier in the iteration, and backward on that",
            )
        })
    }

    fn unscale(&mut self, optimizer: &(impl Optimizer + ?Sized)) -> Result<&Checked> {
        let scale = self.scale("unscale_")?.scale.clone();
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
        let grads = parameters.iter().filter_map(Tensor::grad);
        // Of a sparse gradient what is stored, which is its memory.
        let grads = grads.map(|g| match g.layout().is_strided() {
            true => Ok(g),
            false => torsh_tensor::sparse::values(&g.detach()),
        });
        let grads = grads.collect::<Result<Vec<Tensor>>>()?;
        if let Some(g) = grads.iter().find(|g| g.dtype() == DType::F16) {
            return Err(TorshError::dtype(
                "GradScaler",
                format!("float16 gradients cannot be unscaled ({})", g.describe()),
            )
            .with_hint("keep the parameters in float32 and convert what is computed with them"));
        }
        state.found = match grads.is_empty() {
            true => Vec::new(),
            false => unscale(&grads, &no_grad(|| scale.reciprocal())?)?,
        };
        state.stage = Stage::Unscaled;
        Ok(state)
    }
}

impl Default for GradScaler {
    fn default() -> Self {
        Self::new()
    }
}

impl GradScaler {
    /// A scaler with PyTorch's defaults.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// assert_eq!((scaler.get_scale()?, scaler.get_growth_factor()), (65536.0, 2.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> GradScaler {
        Self::of(GradScalerOptions::default())
    }

    /// A scaler with other settings. An error where the scale would not grow or not fall.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// let scaler = GradScaler::new_with(GradScalerOptions::new().init_scale(1024.0))?;
    /// assert_eq!(scaler.get_scale()?, 1024.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
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
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// # use torsh_tensor::tensor;
    /// let scaler = GradScaler::new_with(GradScalerOptions::new().init_scale(8.0))?;
    /// assert_eq!(scaler.scale(&tensor![0.5])?, tensor![4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn scale(&self, outputs: &Tensor) -> Result<Tensor> {
        let scale = {
            let mut inner = self.0.lock();
            if !inner.options.enabled {
                return Ok(outputs.clone());
            }
            if inner.scale.is_none() {
                let device = outputs.device();
                inner.scale = Some(Scale {
                    scale: Tensor::scalar(inner.options.init_scale as f32, DType::F32, device)?,
                    growth_tracker: Tensor::scalar(inner.growth_tracker, DType::I32, device)?,
                });
            }
            // A copy, since `update` writes the scale, which a later backward may read.
            let own = &inner.scale("scale")?.scale;
            no_grad(|| own.copy()?.to_device(outputs.device()))?
        };
        // A 0-d tensor, not a number: a 0-d loss of a half type becomes float32.
        outputs.mul(&scale)
    }

    /// Divides the gradients of an optimizer's parameters by the scale and looks for what is not
    /// finite, in one pass: to look at them or clip them before [`GradScaler::step`], which does
    /// it otherwise (`torch.amp.GradScaler.unscale_`).
    ///
    /// Errors: nothing was scaled, a second call or one after the step without
    /// [`GradScaler::update`] between, `float16` gradients.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.25)?;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&w.sum()?)?.backward()?;
    /// scaler.unscale_(&optimizer)?;
    /// assert_eq!(w.grad(), Some(tensor![1.0]));
    /// // Once an iteration.
    /// assert!(scaler.unscale_(&optimizer).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn unscale_(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<()> {
        let mut inner = self.0.lock();
        if inner.options.enabled {
            inner.unscale(optimizer)?;
        }
        Ok(())
    }

    /// [`GradScaler::unscale_`].
    ///
    /// ```
    /// use torsh_optim::{GradScaler, Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.25)?;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&w.sum()?)?.backward()?;
    /// scaler.unscale_gradients(&optimizer)?;
    /// assert_eq!(w.grad(), Some(tensor![1.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unscale_gradients(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<()> {
        self.unscale_(optimizer)
    }

    /// Makes the optimizer's step if all its gradients are finite; [`ScaledStep::made`] tells. They are
    /// unscaled before, unless they were.
    ///
    /// Errors: nothing was scaled, a second call without [`GradScaler::update`] between, no
    /// gradients, those of [`GradScaler::unscale_`] and of the step.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.25)?;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&w.sum()?)?.backward()?;
    /// assert!(scaler.step(&optimizer)?.made()?);
    /// assert_eq!(w.item::<f32>()?, 0.75);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn step(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<ScaledStep> {
        let id = optimizer.id();
        let found = {
            let mut inner = self.0.lock();
            if !inner.options.enabled {
                drop(inner);
                optimizer.step()?;
                return Ok(ScaledStep(Vec::new()));
            }
            inner.scale("step")?;
            let stage = inner.optimizers.get(&id).map_or(Stage::Ready, |o| o.stage);
            if stage == Stage::Stepped {
                return Err(misuse("step was already called since the last update"));
            }
            if stage == Stage::Ready {
                inner.unscale(optimizer)?;
            }
            let found = inner.optimizers.get(&id).map(|o| o.found.clone());
            found.unwrap_or_default()
        };
        // Nothing stays locked while the optimizer runs.
        match &found[..] {
            [] => {
                return Err(misuse(
                    "no gradient of this optimizer was looked at, since there is none",
                )
                .with_hint("call backward on the scaled loss before"));
            }
            [found] => optimizer.step_unless(found)?,
            several if any_found(several)? => {}
            _ => optimizer.step()?,
        }
        if let Some(state) = self.0.lock().optimizers.get_mut(&id) {
            state.stage = Stage::Stepped;
        }
        Ok(ScaledStep(found))
    }

    /// Ends the iteration: the scale falls where a step was left out, and grows after
    /// `growth_interval` iterations in which none was. An error where no gradients were looked at
    /// since the last call.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.25)?;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&w.mul(f64::INFINITY)?)?.backward()?;
    /// scaler.step(&optimizer)?;
    /// scaler.update()?;
    /// // The gradient was infinite: half of 65536.
    /// assert_eq!(scaler.get_scale()?, 32768.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn update(&self) -> Result<()> {
        let mut inner = self.0.lock();
        if !inner.options.enabled {
            return Ok(());
        }
        let own = inner.scale("update")?;
        let mut found = inner.optimizers.values().flat_map(|o| &o.found);
        let Some(first) = found.next() else {
            return Err(
                misuse("update was called and no step was made or left out before")
                    .with_hint("call scaler.step(&optimizer) earlier in the iteration"),
            );
        };
        let device = own.scale.device();
        no_grad(|| {
            let mut all = first.to_device(device)?;
            for t in found {
                all = all.add(t.to_device(device)?)?;
            }
            let how = AmpUpdateScale {
                growth_factor: inner.options.growth_factor,
                backoff_factor: inner.options.backoff_factor,
                growth_interval: inner.options.growth_interval,
            };
            update_scale(&own.scale, &own.growth_tracker, &all, &how)
        })?;
        inner.optimizers.clear();
        Ok(())
    }

    /// Ends the iteration with a scale of one's own (`update(new_scale)` of PyTorch).
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// # use torsh_tensor::tensor;
    /// let scaler = GradScaler::new();
    /// scaler.scale(&tensor![1.0])?;
    /// scaler.update_with(128.0)?;
    /// assert_eq!(scaler.get_scale()?, 128.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn update_with(&self, new_scale: f64) -> Result<()> {
        let mut inner = self.0.lock();
        if inner.options.enabled {
            let own = inner.scale("update")?;
            own.scale.fill_(f64::from(new_scale as f32))?;
            inner.optimizers.clear();
        }
        Ok(())
    }

    /// The scale, for which the host waits where it is a device's; 1 where it is not enabled.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// let off = GradScaler::new_with(GradScalerOptions::new().enabled(false))?;
    /// assert_eq!(off.get_scale()?, 1.0);
    /// assert_eq!(GradScaler::new().get_scale()?, 65536.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    #[torsh_tensor::names_caller]
    pub fn get_scale(&self) -> Result<f64> {
        let inner = self.0.lock();
        match &inner.scale {
            _ if !inner.options.enabled => Ok(1.0),
            Some(own) => own.scale.item::<f64>(),
            None => Ok(inner.options.init_scale),
        }
    }

    /// What the scale grows by.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// assert_eq!(GradScaler::new().get_growth_factor(), 2.0);
    /// ```
    pub fn get_growth_factor(&self) -> f64 {
        self.0.lock().options.growth_factor
    }

    /// Changes what the scale grows by.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// scaler.set_growth_factor(4.0);
    /// assert_eq!(scaler.get_growth_factor(), 4.0);
    /// ```
    pub fn set_growth_factor(&self, new_factor: f64) {
        self.0.lock().options.growth_factor = new_factor;
    }

    /// What the scale falls by.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// assert_eq!(GradScaler::new().get_backoff_factor(), 0.5);
    /// ```
    pub fn get_backoff_factor(&self) -> f64 {
        self.0.lock().options.backoff_factor
    }

    /// Changes what the scale falls by.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// scaler.set_backoff_factor(0.25);
    /// assert_eq!(scaler.get_backoff_factor(), 0.25);
    /// ```
    pub fn set_backoff_factor(&self, new_factor: f64) {
        self.0.lock().options.backoff_factor = new_factor;
    }

    /// How many iterations the scale grows after.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// assert_eq!(GradScaler::new().get_growth_interval(), 2000);
    /// ```
    pub fn get_growth_interval(&self) -> i64 {
        self.0.lock().options.growth_interval
    }

    /// Changes how many iterations the scale grows after.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// scaler.set_growth_interval(100);
    /// assert_eq!(scaler.get_growth_interval(), 100);
    /// ```
    pub fn set_growth_interval(&self, new_interval: i64) {
        self.0.lock().options.growth_interval = new_interval;
    }

    /// Whether it scales at all.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// assert!(GradScaler::new().is_enabled());
    /// assert!(!GradScaler::new_with(GradScalerOptions::new().enabled(false))?.is_enabled());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_enabled(&self) -> bool {
        self.0.lock().options.enabled
    }

    /// The state by PyTorch's names; empty where it is not enabled. In files it is what
    /// [`values_by_name`](crate::values_by_name) makes of it.
    ///
    /// ```
    /// use torsh_optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// let state = scaler.state_dict()?;
    /// assert_eq!(state["scale"].as_f64(), Some(65536.0));
    /// assert_eq!(state["_growth_tracker"].as_i64(), Some(0));
    /// GradScaler::new().load_state_dict(&state)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports, which the host waits for.
    #[torsh_tensor::names_caller]
    pub fn state_dict(&self) -> Result<SchedulerState> {
        if !self.is_enabled() {
            return Ok(BTreeMap::new());
        }
        let scale = self.get_scale()?;
        let inner = self.0.lock();
        let o = &inner.options;
        let growth_tracker = match &inner.scale {
            Some(own) => own.growth_tracker.item::<i64>()?,
            None => inner.growth_tracker,
        };
        Ok([
            ("scale", StateValue::Float(scale)),
            ("growth_factor", o.growth_factor.into()),
            ("backoff_factor", o.backoff_factor.into()),
            ("growth_interval", o.growth_interval.into()),
            ("_growth_tracker", growth_tracker.into()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into())
    }

    /// Takes over a state; nothing where it is not enabled. After an error the scaler is as
    /// before.
    ///
    /// ```
    /// use torsh_optim::{GradScaler, GradScalerOptions};
    /// let saved = GradScaler::new_with(GradScalerOptions::new().init_scale(8.0))?.state_dict()?;
    /// let scaler = GradScaler::new();
    /// scaler.load_state_dict(&saved)?;
    /// assert_eq!(scaler.get_scale()?, 8.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
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
        let growth_tracker = int("_growth_tracker")?;
        if let Some(own) = &inner.scale {
            own.scale.fill_(f64::from(scale as f32))?;
            own.growth_tracker.fill_(growth_tracker)?;
        }
        inner.growth_tracker = growth_tracker;
        inner.options = options;
        Ok(())
    }
}
