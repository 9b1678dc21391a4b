//! Choosing the parts of a checkpoint, for saving and loading.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use torsh_data::{DataLoader, Dataset};
use torsh_nn::Module;
use torsh_optim::Optimizer;
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_tensor::{Result, TorshError};

use super::stateful::{GradientPart, ModulePart, OptimizerPart, Rng, SchedulerPart, Stateful};
use super::{Checkpoint, RESERVED};

/// The parts of a training run, each under its name: [`build`](CheckpointBuilder::build) puts their
/// states into a checkpoint, [`restore`](CheckpointBuilder::restore) takes them out again.
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Adam, Optimizer, lr_scheduler::StepLR};
/// use torsh_train::Checkpoint;
///
/// let net = Linear::new(4, 2);
/// let adam = Adam::new(net.parameters(), 1e-3)?;
/// let scheduler = StepLR::new(&adam, 10, 0.1)?;
/// let parts = Checkpoint::builder().model(&net).optimizer(&adam).scheduler(&scheduler).rng();
///
/// let path = std::env::temp_dir().join(format!("torsh-builder-{}.pt", std::process::id()));
/// parts.build()?.epoch(3).metric("loss", 0.25).save(&path)?;
///
/// adam.set_lr(1.0);
/// let checkpoint = Checkpoint::load(&path)?;
/// parts.restore(&checkpoint)?;
/// assert_eq!((checkpoint.epoch, checkpoint.metrics["loss"]), (3, 0.25));
/// assert_eq!(adam.get_lr(), 1e-3);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct CheckpointBuilder<'a> {
    parts: Vec<(String, Box<dyn Stateful + 'a>)>,
}

impl std::fmt::Debug for CheckpointBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl<'a> CheckpointBuilder<'a> {
    fn part(mut self, name: impl Into<String>, part: impl Stateful + 'a) -> Self {
        self.parts.push((name.into(), Box::new(part)));
        self
    }

    /// Returns the names of the parts, in the order in which they were given.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    /// let (encoder, decoder) = (Linear::new(2, 1), Linear::new(1, 2));
    /// let parts = Checkpoint::builder().model_named("encoder", &encoder).model_named("decoder", &decoder).rng();
    /// assert_eq!(parts.names().collect::<Vec<_>>(), ["encoder", "decoder", "rng"]);
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    /// A model, as `model`.
    #[must_use]
    pub fn model<M: Module + ?Sized>(self, model: &'a M) -> Self {
        self.model_named("model", model)
    }

    /// A model under a name, where there are several.
    #[must_use]
    pub fn model_named<M: Module + ?Sized>(self, name: &str, model: &'a M) -> Self {
        self.part(name, ModulePart(model))
    }

    /// The gradients of a model, as `gradients`: where a step's gradients come from several
    /// backward passes and a checkpoint is made between two of them.
    #[must_use]
    pub fn gradients<M: Module + ?Sized>(self, model: &'a M) -> Self {
        self.part("gradients", GradientPart(model))
    }

    /// An optimizer, as `optimizer`.
    #[must_use]
    pub fn optimizer<O: Optimizer + ?Sized>(self, optimizer: &'a O) -> Self {
        self.optimizer_named("optimizer", optimizer)
    }

    /// An optimizer under a name, where there are several.
    #[must_use]
    pub fn optimizer_named<O: Optimizer + ?Sized>(self, name: &str, optimizer: &'a O) -> Self {
        self.part(name, OptimizerPart(optimizer))
    }

    /// A scheduler, as `scheduler`.
    #[must_use]
    pub fn scheduler<S: LRScheduler + ?Sized>(self, scheduler: &'a S) -> Self {
        self.scheduler_named("scheduler", scheduler)
    }

    /// A scheduler under a name, where there are several.
    #[must_use]
    pub fn scheduler_named<S: LRScheduler + ?Sized>(self, name: &str, scheduler: &'a S) -> Self {
        self.part(name, SchedulerPart(scheduler))
    }

    /// A gradient scaler, as `scaler`.
    #[must_use]
    pub fn scaler<S: Stateful + ?Sized>(self, scaler: &'a S) -> Self {
        self.with("scaler", scaler)
    }

    /// A loader and where it is in its epoch, as `loader`.
    #[must_use]
    pub fn loader<D: Dataset, C>(self, loader: &'a DataLoader<D, C>) -> Self {
        self.with("loader", loader)
    }

    /// The default random generator, as `rng`; it is restored after all other parts.
    #[must_use]
    pub fn rng(self) -> Self {
        self.part("rng", Rng)
    }

    /// Anything else under a name, as a [`Generator`](torsh_core::Generator).
    #[must_use]
    pub fn with<S: Stateful + ?Sized>(self, name: &str, part: &'a S) -> Self {
        self.part(name, part)
    }

    /// The states as they are now. Their tensors are those of the parts: save the checkpoint
    /// before training goes on, or [`copy`](Checkpoint::copy) it.
    ///
    /// Errors: two parts of one name, a name that checkpoints use themselves, a part that has no
    /// state to give.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    /// let (a, b) = (Linear::new(2, 1), Linear::new(1, 2));
    /// let error = Checkpoint::builder().model(&a).model(&b).build().unwrap_err();
    /// assert!(error.to_string().contains("`model` is the name of two parts"));
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(&self) -> Result<Checkpoint> {
        let mut parts = BTreeMap::new();
        for (name, part) in &self.parts {
            let wrong = if RESERVED.contains(&name.as_str()) {
                Some("is a name that checkpoints use themselves")
            } else if parts.contains_key(name) {
                Some("is the name of two parts")
            } else {
                None
            };
            if let Some(why) = wrong {
                let e = TorshError::invalid("Checkpoint", format!("`{name}` {why}"));
                return Err(
                    e.with_hint("give each part a name: model_named, optimizer_named, with")
                );
            }
            let state = part.save_state().map_err(|e| in_part(name, e))?;
            parts.insert(name.clone(), state);
        }
        Ok(Checkpoint {
            epoch: 0,
            step: 0,
            metrics: BTreeMap::new(),
            config: None,
            timestamp: super::now(),
            parts,
        })
    }

    /// Takes the parts' states out of a checkpoint, copied. What else the checkpoint holds is left
    /// there, so that one part alone can be restored.
    ///
    /// Errors: a part that the checkpoint does not have, before anything is changed; a state that
    /// does not fit its part, which is left as it was while those ahead of it are restored.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    /// let (from, to) = (Linear::new(2, 1), Linear::new(2, 1));
    /// let checkpoint = Checkpoint::builder().model(&from).build()?;
    /// Checkpoint::builder().model(&to).restore(&checkpoint)?;
    /// assert_eq!(to.weight.to_vec::<f32>()?, from.weight.to_vec::<f32>()?);
    /// let error = Checkpoint::builder().rng().restore(&checkpoint).unwrap_err();
    /// assert!(error.to_string().contains("the checkpoint has no part `rng`"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn restore(&self, checkpoint: &Checkpoint) -> Result<()> {
        if let Some(name) = self.names().find(|n| !checkpoint.parts.contains_key(*n)) {
            let there: Vec<&str> = checkpoint.names().collect();
            return Err(TorshError::invalid(
                "Checkpoint",
                format!("the checkpoint has no part `{name}`"),
            )
            .with_hint(format!("it has {}", there.join(", "))));
        }
        let (random, others): (Vec<_>, Vec<_>) = self.parts.iter().partition(|(n, _)| n == "rng");
        for (name, part) in others.into_iter().chain(random) {
            if let Some(state) = checkpoint.parts.get(name) {
                part.load_state(state).map_err(|e| in_part(name, e))?;
            }
        }
        Ok(())
    }

    /// [`Checkpoint::load`] and [`restore`](CheckpointBuilder::restore).
    #[torsh_tensor::names_caller]
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::load(path)?;
        self.restore(&checkpoint)?;
        Ok(checkpoint)
    }
}

#[cold]
fn in_part(name: &str, e: TorshError) -> TorshError {
    e.renamed(&format!("Checkpoint, part `{name}`"))
}

impl Checkpoint {
    /// Starts with no parts.
    ///
    /// ```
    /// use torsh_train::Checkpoint;
    /// assert_eq!(Checkpoint::builder().names().count(), 0);
    /// assert_eq!(Checkpoint::builder().rng().build()?.names().collect::<Vec<_>>(), ["rng"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder<'a>() -> CheckpointBuilder<'a> {
        CheckpointBuilder::default()
    }

    /// Sets the number of epochs that are done.
    #[must_use]
    pub fn epoch(mut self, epoch: usize) -> Self {
        self.epoch = epoch;
        self
    }

    /// Sets the number of steps that are done.
    #[must_use]
    pub fn step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    /// Adds a metric.
    #[must_use]
    pub fn metric(mut self, name: impl Into<String>, value: f64) -> Self {
        self.metrics.insert(name.into(), value);
        self
    }

    /// Puts in the configuration of the run. An error where it has no form in JSON.
    ///
    /// ```
    /// use torsh_train::{Checkpoint, ExperimentConfig};
    /// let checkpoint = Checkpoint::builder().build()?.config(&ExperimentConfig::default())?;
    /// assert_eq!(checkpoint.config.expect("put in just now")["training"]["epochs"], 10);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn config(mut self, config: &impl Serialize) -> Result<Self> {
        let config = serde_json::to_value(config)
            .map_err(|e| TorshError::invalid("Checkpoint", format!("the configuration: {e}")))?;
        self.config = Some(config);
        Ok(self)
    }

    /// Sets the time at which it was made, which is kept to the millisecond.
    #[must_use]
    pub fn timestamp(mut self, timestamp: SystemTime) -> Self {
        self.timestamp = super::to_millis(timestamp);
        self
    }
}
