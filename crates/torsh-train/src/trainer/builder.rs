//! Builds trainers.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use torsh_nn::{Module, ModuleExt};
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_optim::{AveragedModel, GradScaler, Optimizer};
use torsh_tensor::named::Named;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::{Settings, StepFn, StepOutput, StopHandle, Strategy, Trainer};
use crate::callbacks::{
    Callback, CsvLogger, JsonLinesLogger, ModelCheckpoint, ProgressBar, TensorBoardLogger,
};
use crate::config::{ExperimentConfig, Interval, Mode};
use crate::metrics::Metric;
use crate::registry::{create_metric, create_optimizer, create_scheduler};

/// Builds a [`Trainer`].
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::SGD;
/// use torsh_train::Trainer;
/// let model = Linear::new(1, 1);
/// let sgd = SGD::new(model.parameters(), 0.1)?;
/// let error = Trainer::builder(model, &sgd).epochs(3).build().unwrap_err();
/// assert!(error.to_string().starts_with("Trainer: there is no loss\n  hint: call loss("));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[must_use = "a builder does nothing until build()"]
pub struct TrainerBuilder<M: Module, B = (Tensor, Tensor)> {
    model: M,
    optimizer: Arc<dyn Optimizer>,
    scheduler: Option<(Box<dyn LRScheduler>, Interval)>,
    scaler: Option<GradScaler>,
    ema: Option<AveragedModel<M>>,
    metrics: Vec<Box<dyn Metric>>,
    callbacks: Vec<Box<dyn Callback>>,
    forward: Option<StepFn<M, B>>,
    settings: Settings,
    strategy: Option<Arc<dyn Strategy<M>>>,
}

impl<M: Module> Trainer<M> {
    /// Starts building a trainer of a model and an optimizer of its parameters.
    pub fn builder(model: M, optimizer: impl Optimizer) -> TrainerBuilder<M> {
        TrainerBuilder {
            model,
            optimizer: optimizer.handle(),
            scheduler: None,
            scaler: None,
            ema: None,
            metrics: Vec::new(),
            callbacks: Vec::new(),
            forward: None,
            settings: Settings {
                epochs: 1,
                max_steps: None,
                accumulate: 1,
                log_every: None,
                clip_norm: None,
                clip_value: None,
                detect_anomaly: false,
                autocast: None,
                validate_every: 1,
                monitor: ("loss".into(), Mode::Min),
                interrupt: None,
                config: None,
            },
            strategy: None,
        }
    }

    /// Starts building what a configuration says: the optimizer of the model's parameters, the
    /// scheduler, metrics, callbacks, loggers and checkpoints. The loss is left to the program,
    /// and so are `seed`, `model` and `data`, which come before.
    ///
    /// Errors: those of [`ExperimentConfig::validate`].
    ///
    /// ```
    /// use torsh_functional as F;
    /// use torsh_nn::Linear;
    /// use torsh_optim::Optimizer;
    /// use torsh_tensor::tensor;
    /// use torsh_train::{Trainer, config::{ExperimentConfig, Format}};
    ///
    /// let text = "optimizer: {name: sgd, lr: 0.1}\ntraining: {epochs: 3}\nlogging: {progress: false}";
    /// let config = ExperimentConfig::from_str(text, Format::Yaml)?;
    /// let mut trainer = Trainer::from_config(Linear::new(1, 1), &config)?
    ///     .loss(|output, target| F::mse_loss(output, target))
    ///     .build()?;
    /// let results = trainer.fit(&vec![(tensor![[1.0]], tensor![[2.0]])], None)?;
    /// assert_eq!((results.final_epoch, trainer.optimizer().get_lr()), (3, 0.1));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_config(model: M, config: &ExperimentConfig) -> Result<TrainerBuilder<M>> {
        config.validate()?;
        let t = &config.training;
        let optimizer = create_optimizer(&config.optimizer, model.parameters())?;
        let mut builder = Trainer::builder(model, &optimizer)
            .epochs(t.epochs)
            .accumulate(t.accumulation_steps)
            .detect_anomaly(t.detect_anomaly)
            .validate_every(config.evaluation.every_n_epochs)
            .monitor(config.checkpoint.metric.clone(), config.checkpoint.mode)
            .config(config)?;
        builder.settings.autocast = t.mixed_precision.then_some(DType::BF16);
        builder.settings.clip_norm = t.clip_grad_norm;
        builder.settings.clip_value = t.clip_grad_value;
        if let Some(s) = &config.scheduler {
            let scheduler = create_scheduler(s, &optimizer)?;
            builder = builder.scheduler_with(scheduler, s.interval);
        }
        for name in &config.evaluation.metrics {
            builder = builder.metric(create_metric(name)?);
        }
        if let Some(early) = &t.early_stopping {
            builder = builder.callback(crate::callbacks::EarlyStopping::from(early.clone()));
        }
        let (log, every) = (&config.logging, config.logging.every_n_steps);
        let parameters = builder.model.parameters();
        let on_device = parameters.first().is_some_and(|p| !p.device().is_host());
        if on_device && every > 0 {
            // The rows of the loggers have the losses of their steps.
            builder.settings.log_every = Some(every.saturating_mul(t.accumulation_steps));
        }
        if log.csv {
            let path = log.dir.join("metrics.csv");
            builder = builder.callback(CsvLogger::new(path).every_n_steps(every));
        }
        if log.json_lines {
            let path = log.dir.join("metrics.jsonl");
            builder = builder.callback(JsonLinesLogger::new(path).every_n_steps(every));
        }
        if log.tensorboard {
            let logger = TensorBoardLogger::new(&log.dir).every_n_steps(every);
            builder = builder.callback(logger);
        }
        if log.progress {
            builder = builder.callback(ProgressBar::new());
        }
        if let Some(checkpoints) = ModelCheckpoint::from_config(&config.checkpoint) {
            builder = builder.callback(checkpoints);
        }
        if let Some(dir) = &config.checkpoint.dir {
            builder = builder.on_interrupt(dir.join("interrupted.pt"));
        }
        Ok(builder)
    }
}

impl<M: Module> TrainerBuilder<M> {
    /// The loss of what the model gave and what it should have given, for batches of inputs and
    /// targets. Both are moved to the model's device first.
    pub fn loss(
        mut self,
        loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        self.forward = Some(Arc::new(move |model: &M, (x, y): &(Tensor, Tensor)| {
            let device = model.parameters().first().map(|p| p.device());
            let to = |t: &Tensor| match device {
                Some(d) if d != t.device() => t.to_device(d),
                _ => Ok(t.clone()),
            };
            let (x, y) = (to(x)?, to(y)?);
            let output = model.forward(&x)?;
            Ok(StepOutput {
                loss: loss(&output, &y)?,
                prediction: Some((output, y)),
            })
        }));
        self
    }
}

impl<M: Module, B> TrainerBuilder<M, B> {
    /// What the model makes of a batch of any form, in training and in validation: the loss, and
    /// for the metrics a [`StepOutput`] with more.
    ///
    /// ```
    /// use torsh_nn::{Embedding, Module, ModuleExt};
    /// use torsh_optim::SGD;
    /// use torsh_tensor::{Tensor, tensor};
    /// use torsh_train::Trainer;
    ///
    /// let model = Embedding::new(3, 1)?;
    /// let sgd = SGD::new(model.parameters(), 0.5)?;
    /// let mut trainer = Trainer::builder(model, &sgd)
    ///     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    ///     .epochs(3)
    ///     .build()?;
    /// let results = trainer.fit(&vec![tensor![0, 1, 2]], None)?;
    /// assert_eq!(results.final_loss(), Some(0.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn training_step<C>(
        self,
        step: impl Fn(&M, &C) -> Result<StepOutput> + Send + Sync + 'static,
    ) -> TrainerBuilder<M, C> {
        TrainerBuilder {
            model: self.model,
            optimizer: self.optimizer,
            scheduler: self.scheduler,
            scaler: self.scaler,
            ema: self.ema,
            metrics: self.metrics,
            callbacks: self.callbacks,
            forward: Some(Arc::new(step)),
            settings: self.settings,
            strategy: self.strategy,
        }
    }

    /// Makes a step of a scheduler after each epoch, with the monitored metric
    /// ([`monitor`](TrainerBuilder::monitor)) for those that follow one.
    pub fn scheduler(self, scheduler: impl LRScheduler + 'static) -> Self {
        self.scheduler_with(scheduler, Interval::Epoch)
    }

    /// Makes a step of a scheduler after each epoch or each step of the optimizer.
    pub fn scheduler_with(
        mut self,
        scheduler: impl LRScheduler + 'static,
        interval: impl Into<Interval>,
    ) -> Self {
        self.scheduler = Some((Box::new(scheduler), interval.into()));
        self
    }

    /// Runs the model and its loss in mixed precision ([`torsh_tensor::autocast_with`]), in
    /// training and in validation: `DType::BF16`, or `DType::F16` with a
    /// [`scaler`](TrainerBuilder::scaler).
    pub fn autocast(mut self, dtype: DType) -> Self {
        self.settings.autocast = Some(dtype);
        self
    }

    /// Scales losses and gradients, so that small ones do not become 0 in float16; a step whose
    /// gradients are infinite or NaN is left out. On a device that is not waited for, but where there
    /// is an [`ema`](TrainerBuilder::ema) or a scheduler of each step, which leave it out too.
    pub fn scaler(mut self, scaler: GradScaler) -> Self {
        self.scaler = Some(scaler);
        self
    }

    /// Keeps an average of the weights, which validations judge instead of the model's own.
    pub fn ema(mut self, average: AveragedModel<M>) -> Self {
        self.ema = Some(average);
        self
    }

    /// Measures training and validation by a metric, besides the loss.
    pub fn metric(mut self, metric: impl Metric + 'static) -> Self {
        self.metrics.push(Box::new(metric));
        self
    }

    /// Tells a callback what happens; callbacks are told in order.
    pub fn callback(mut self, callback: impl Callback + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// How many epochs there are (1).
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.settings.epochs = epochs;
        self
    }

    /// After how many steps of the optimizer training ends, be it within an epoch.
    pub fn max_steps(mut self, max_steps: usize) -> Self {
        self.settings.max_steps = Some(max_steps);
        self
    }

    /// From how many batches the gradients of a step are the mean (1). The last step of an epoch
    /// may have fewer.
    pub fn accumulate(mut self, batches: usize) -> Self {
        self.settings.accumulate = batches;
        self
    }

    /// After how many batches the loss is read: each batch of the CPU's, every 50th of other devices,
    /// unless this is called. A device is waited for only then, at the end of an epoch and before a
    /// checkpoint. [`Context::loss`](crate::callbacks::Context) is the loss that was read last,
    /// `train_metrics["loss"]` the mean of those that were read, and a loss that is NaN or infinite is
    /// an error when it is read. The numbers of an epoch are the same whatever this is.
    ///
    /// Loggers that write a row after each so many steps should write as often, or less. With
    /// [`detect_anomaly`](TrainerBuilder::detect_anomaly) every loss is read.
    pub fn log_every(mut self, batches: usize) -> Self {
        self.settings.log_every = Some(batches);
        self
    }

    /// Limits the norm of the gradients of each step.
    pub fn clip_grad_norm(mut self, max_norm: f64) -> Self {
        self.settings.clip_norm = Some(max_norm);
        self
    }

    /// Limits each element of the gradients of each step.
    pub fn clip_grad_value(mut self, clip_value: f64) -> Self {
        self.settings.clip_value = Some(clip_value);
        self
    }

    /// Whether a loss or gradient that is NaN is reported with the op that made it, for which each
    /// backward pass checks all gradients, and a loss that is none is computed again (false).
    pub fn detect_anomaly(mut self, detect_anomaly: bool) -> Self {
        self.settings.detect_anomaly = detect_anomaly;
        self
    }

    /// After how many epochs there is a validation (1); after the last there is one in any case.
    pub fn validate_every(mut self, epochs: usize) -> Self {
        self.settings.validate_every = epochs;
        self
    }

    /// The metric that says which epoch is best, and that the scheduler is told (`loss`, which
    /// should fall): of the validation, where there is validation data. The mode is a [`Mode`], "min" or "max".
    pub fn monitor(mut self, metric: impl Into<String>, mode: impl Into<Mode>) -> Self {
        self.settings.monitor = (metric.into(), mode.into());
        self
    }

    /// Lets Ctrl-C (and SIGTERM, or Ctrl-Break on Windows) end training after the batch it is at, with a checkpoint at
    /// `path`; a second one ends the process at once.
    pub fn on_interrupt(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.interrupt = Some(path.into());
        self
    }

    /// Puts the configuration of the run into its checkpoints.
    #[torsh_tensor::names_caller]
    pub fn config(mut self, config: &impl Serialize) -> Result<Self> {
        let value = serde_json::to_value(config)
            .map_err(|e| TorshError::invalid("Trainer", format!("the configuration: {e}")))?;
        self.settings.config = Some(value);
        Ok(self)
    }

    /// Trains in several processes, which all make the same trainer. Each reads its part of the data (a loader
    /// is told [so](torsh_data::DataLoader::set_share), and a `DistributedSampler` its epochs; every item of
    /// the validation is read once). Losses and metrics are those of all processes, from sums and counts.
    /// Loggers and progress bars run on rank 0 alone, other callbacks on every rank, with the same numbers at
    /// the ends of epochs. A process that is to stop (Ctrl-C, [`StopHandle`], a callback) stops all after the
    /// same batch. Checkpoints hold the random numbers of each rank.
    ///
    /// Errors of [`fit`](Trainer::fit) are then also loaders that differ from rank to rank.
    pub fn distributed(mut self, strategy: impl Strategy<M> + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// The trainer. Errors: no loss, a count of 0, a limit that is not above 0, two metrics of one
    /// name.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Trainer<M, B>> {
        let refuse = |why: String| Err(TorshError::invalid("Trainer", why));
        let s = &self.settings;
        let Some(forward) = self.forward else {
            return Err(TorshError::invalid("Trainer", "there is no loss")
                .with_hint("call loss(|output, target| ..), or training_step(|model, batch| ..)"));
        };
        for (name, count) in [
            ("epochs", s.epochs),
            ("accumulate", s.accumulate),
            ("validate_every", s.validate_every),
            ("log_every", s.log_every.unwrap_or(1)),
        ] {
            if count == 0 {
                return refuse(format!("{name} must be at least 1, got 0"));
            }
        }
        for (name, limit) in [
            ("clip_grad_norm", s.clip_norm),
            ("clip_grad_value", s.clip_value),
        ] {
            if let Some(v) = limit.filter(|v| v.is_nan() || *v <= 0.0) {
                return refuse(format!("{name} must be more than 0, got {v}"));
            }
        }
        s.monitor.1.known().map_err(|e| e.renamed("Trainer"))?;
        if let Some((_, interval)) = &self.scheduler {
            interval.known().map_err(|e| e.renamed("Trainer"))?;
        }
        let mut names: Vec<&str> = self.metrics.iter().map(|m| m.name()).collect();
        names.push("loss");
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TorshError::invalid(
                "Trainer",
                format!("two metrics are named `{}`", pair[0]),
            )
            .with_hint("give one of them another name: .named(..)"));
        }
        Ok(Trainer {
            model: self.model,
            optimizer: self.optimizer,
            scheduler: self.scheduler,
            scaler: self.scaler,
            ema: self.ema,
            metrics: self.metrics,
            callbacks: self.callbacks,
            forward,
            settings: self.settings,
            strategy: self.strategy,
            state: Default::default(),
            losses: Default::default(),
            pending: None,
            stop: StopHandle::default(),
        })
    }
}
