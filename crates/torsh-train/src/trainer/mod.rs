//! The trainer: the usual training loop.

mod builder;
mod epoch;
mod fit;
mod interrupt;
mod loader;
mod losses;
mod ranks;
pub(crate) mod results;
mod run;
mod scaler;
mod source;
mod state;
mod strategy;

use std::path::PathBuf;
use std::sync::Arc;

use torsh_nn::{Module, ModuleExt};
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_optim::{AveragedModel, GradScaler, Optimizer};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor, autocast_with};

pub use builder::TrainerBuilder;
pub use interrupt::{CaughtSignals, StopHandle};
pub use loader::Loader;
pub use results::{EpochResults, History, Metrics, Stop, TrainingResults};
pub use strategy::{RunParts, Strategy};

use crate::callbacks::Callback;
use crate::config::{Interval, Mode};
use crate::metrics::Metric;
use losses::Losses;
use state::State;

/// What a model makes of a batch.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::StepOutput;
/// let output = StepOutput::from(tensor![0.5]);
/// assert_eq!(output.loss.item::<f32>()?, 0.5);
/// assert!(output.prediction.is_none()); // The metrics see nothing of the batch.
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StepOutput {
    /// The loss, of one element.
    pub loss: Tensor,
    /// What the model gave and what it should have given, for the metrics.
    pub prediction: Option<(Tensor, Tensor)>,
}

impl From<Tensor> for StepOutput {
    /// A loss alone; metrics are left out.
    fn from(loss: Tensor) -> Self {
        StepOutput {
            loss,
            prediction: None,
        }
    }
}

type StepFn<M, B> = Arc<dyn Fn(&M, &B) -> Result<StepOutput> + Send + Sync>;

struct Settings {
    epochs: usize,
    max_steps: Option<usize>,
    accumulate: usize,
    log_every: Option<usize>,
    clip_norm: Option<f64>,
    clip_value: Option<f64>,
    detect_anomaly: bool,
    autocast: Option<DType>,
    validate_every: usize,
    monitor: (String, Mode),
    interrupt: Option<PathBuf>,
    config: Option<serde_json::Value>,
}

/// What is taken up when training goes on.
struct Pending {
    loader: Value,
    rng: Option<Value>,
}

/// Trains a model: epochs, accumulation, clipping, schedules, validation, metrics, callbacks, and
/// checkpoints from which a run goes on bit for bit as if it had not been stopped.
///
/// ```
/// use torsh_data::{DataLoader, TensorDataset};
/// use torsh_functional as F;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{SGD, lr_scheduler::StepLR};
/// use torsh_tensor::{DType, Device, Result, Tensor, autocast_with};
/// use torsh_train::{Trainer, callbacks::EarlyStopping};
///
/// // y = 2 x - 1
/// let x = Tensor::from_fn([32, 1], |i| i[0] as f32 / 16.0 - 1.0)?;
/// let y = x.mul(2.0)?.sub(1.0)?;
/// let loader = DataLoader::builder(TensorDataset::new(x, y)).batch_size(8).shuffle(true).seed(0).build()?;
///
/// let model = Linear::new(1, 1);
/// let optimizer = SGD::new(model.parameters(), 0.2)?;
/// let mut trainer = Trainer::builder(model, &optimizer)
///     .loss(|output, target| F::mse_loss(output, target))
///     .scheduler(StepLR::new(&optimizer, 20, 0.5)?)
///     .callback(EarlyStopping::new(10))
///     .epochs(40)
///     .build()?;
/// let results = trainer.fit(&loader, None)?;
/// assert!(results.final_loss() < Some(1e-3));
/// assert!((trainer.model().weight.item::<f64>()? - 2.0).abs() < 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Trainer<M: Module, B = (Tensor, Tensor)> {
    model: M,
    optimizer: Arc<dyn Optimizer>,
    scheduler: Option<(Box<dyn LRScheduler>, Interval)>,
    scaler: Option<GradScaler>,
    ema: Option<AveragedModel<M>>,
    metrics: Vec<Box<dyn Metric>>,
    callbacks: Vec<Box<dyn Callback>>,
    forward: StepFn<M, B>,
    settings: Settings,
    strategy: Option<Arc<dyn Strategy<M>>>,
    state: State,
    losses: Losses,
    pending: Option<Pending>,
    stop: StopHandle,
}

impl<M: Module, B> std::fmt::Debug for Trainer<M, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("model", &self.model.type_name())
            .field("epoch", &self.state.epoch)
            .field("step", &self.state.step)
            .finish_non_exhaustive()
    }
}

impl<M: Module, B> Trainer<M, B> {
    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The average of the model's weights, where the trainer keeps one.
    pub fn ema(&self) -> Option<&AveragedModel<M>> {
        self.ema.as_ref()
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &Arc<dyn Optimizer> {
        &self.optimizer
    }

    /// Gives the model back.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.fit(&batches, None)?;
    /// assert_eq!(trainer.into_model().parameters()[0].to_vec::<f32>()?, [0.0; 3]); // Where its loss is least.
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn into_model(self) -> M {
        self.model
    }

    /// How many epochs are done.
    pub fn epochs_done(&self) -> usize {
        self.state.epoch
    }

    /// Returns how many steps of the optimizer are done.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.fit(&batches, None)?;
    /// assert_eq!((trainer.steps_done(), trainer.epochs_done()), (2, 2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn steps_done(&self) -> usize {
        self.state.step
    }

    /// Returns the finished epochs, also those of a run that ended with an error or was resumed.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.fit(&batches, None)?;
    /// let last = trainer.history().last().expect("two epochs");
    /// assert_eq!((last.epoch, last.train_metrics["loss"]), (1, 0.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn history(&self) -> &History {
        &self.state.history
    }

    /// Changes how many epochs there are in all: a run that is over goes on with the next
    /// [`fit`](Trainer::fit) where there are more.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.fit(&batches, None)?;
    /// trainer.set_epochs(5);
    /// assert_eq!(trainer.fit(&batches, None)?.final_epoch, 5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_epochs(&mut self, epochs: usize) {
        self.settings.epochs = epochs;
    }

    /// Changes how many steps there are in all; `None` is no limit.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.set_max_steps(1);
    /// let results = trainer.fit(&batches, None)?;
    /// assert_eq!((results.steps, results.stop), (1, Stop::MaxSteps));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_max_steps(&mut self, max_steps: impl Into<Option<usize>>) {
        self.settings.max_steps = max_steps.into();
    }

    /// Returns a handle that stops the run from another thread.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// let handle = trainer.stop_handle(); // For another thread.
    /// handle.stop();
    /// assert_eq!(trainer.fit(&batches, None)?.stop, Stop::Interrupted);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// What the model makes of a batch: the only place where it is called.
    fn run_model(&self, model: &M, batch: &B) -> Result<StepOutput> {
        let forward = || (self.forward)(model, batch);
        match self.settings.autocast {
            Some(dtype) => {
                let device = model
                    .parameters()
                    .first()
                    .map_or(Device::Cpu, |p| p.device());
                autocast_with(device, dtype, forward)
            }
            None => forward(),
        }
    }
}
