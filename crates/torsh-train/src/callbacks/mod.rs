//! Callbacks of the trainer: saving, logging, early stopping.

mod early_stopping;
mod logger;
mod lr_monitor;
mod model_checkpoint;
mod progress;
mod rows;
mod tensorboard;

use std::path::{Path, PathBuf};

use torsh_nn::Module;
use torsh_optim::Optimizer;
use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

pub use early_stopping::EarlyStopping;
pub use logger::{CsvLogger, JsonLinesLogger};
pub use lr_monitor::LearningRateMonitor;
pub use model_checkpoint::ModelCheckpoint;
pub use progress::ProgressBar;
pub use tensorboard::{EventWriter, TensorBoardLogger};

use crate::trainer::results::Metrics;

/// Where a run is, and what a callback may ask of it.
///
/// ```
/// # use torsh_nn::{Embedding, Module, ModuleExt};
/// # use torsh_optim::SGD;
/// # use torsh_tensor::{Result, Tensor, tensor};
/// # use torsh_train::{Stop, Trainer};
/// use torsh_train::callbacks::{Callback, Context};
///
/// struct Watch;
/// impl Callback for Watch {
///     fn name(&self) -> &str {
///         "watch"
///     }
///     fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
///         assert_eq!((cx.epoch, cx.batches, cx.step, cx.learning_rates), (0, Some(1), 1, &[0.5][..]));
///         assert_eq!(cx.metric("loss"), cx.metric("train_loss"));
///         cx.log("answer", 42.0);
///         assert_eq!(cx.values()[1], ("answer".to_string(), 42.0));
///         cx.stop("seen enough");
///         Ok(())
///     }
/// }
/// # let model = Embedding::new(3, 1)?;
/// # let sgd = SGD::new(model.parameters(), 0.5)?;
/// # let mut trainer = Trainer::builder(model, &sgd)
/// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
/// #     .callback(Watch).epochs(3).build()?;
/// # let results = trainer.fit(&vec![tensor![0, 1, 2]], None)?;
/// assert_eq!(results.stop, Stop::Callback("seen enough".into()));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Context<'a> {
    /// The epoch's number, from 0.
    pub epoch: usize,
    /// How many epochs there will be.
    pub epochs: usize,
    /// How many batches of the epoch were given.
    pub batch: usize,
    /// How many batches an epoch has, where that is known.
    pub batches: Option<usize>,
    /// How many steps of the optimizer are done.
    pub step: usize,
    /// The loss of the last batch whose loss was read: on the CPU the last one, on other devices see
    /// [`log_every`](crate::TrainerBuilder::log_every).
    pub loss: Option<f64>,
    /// The metrics on the training data: during the epoch the mean `loss` of what was read of it, of all of it at its end.
    pub train_metrics: &'a Metrics,
    /// The metrics of the epoch's validation; empty where there was none.
    pub val_metrics: &'a Metrics,
    /// Whether there is validation data.
    pub has_validation: bool,
    /// The learning rates of the optimizer's groups.
    pub learning_rates: &'a [f64],
    /// The model.
    pub model: &'a dyn Module,
    /// The optimizer.
    pub optimizer: &'a dyn Optimizer,
    pub(crate) logged: Metrics,
    pub(crate) requests: Vec<Request>,
    pub(crate) stop: Option<String>,
}

/// What is done after all callbacks were told of an event.
pub(crate) enum Request {
    Save(PathBuf),
    Remove(PathBuf),
}

impl Context<'_> {
    /// A metric by name: of the validation where there is validation data (none in an epoch
    /// without a validation), else of the training. `train_loss` and `val_loss` say which.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (of, name) = match (name.strip_prefix("train_"), name.strip_prefix("val_")) {
            (Some(name), _) => (self.train_metrics, name),
            (_, Some(name)) => (self.val_metrics, name),
            _ if self.has_validation => (self.val_metrics, name),
            _ => (self.train_metrics, name),
        };
        of.get(name).copied()
    }

    /// Adds a number to what the loggers after this callback write.
    pub fn log(&mut self, name: impl Into<String>, value: f64) {
        self.logged.insert(name.into(), value);
    }

    /// All numbers of the epoch: `train_loss`, `val_loss`, .. and what was logged.
    pub fn values(&self) -> Vec<(String, f64)> {
        let named = |prefix: &'static str, m: &Metrics| {
            let entries = m.iter().map(move |(n, v)| (format!("{prefix}_{n}"), *v));
            entries.collect::<Vec<_>>()
        };
        let mut out = named("train", self.train_metrics);
        out.extend(named("val", self.val_metrics));
        out.extend(self.logged.iter().map(|(n, v)| (n.clone(), *v)));
        out
    }

    /// Saves a checkpoint of the whole run, after all callbacks: one file where the path has an
    /// extension, else a folder.
    pub fn save(&mut self, path: impl Into<PathBuf>) {
        self.requests.push(Request::Save(path.into()));
    }

    /// Removes a checkpoint, after the saving that was asked for ahead of it.
    pub fn remove(&mut self, path: impl Into<PathBuf>) {
        self.requests.push(Request::Remove(path.into()));
    }

    /// Ends the run after this event; the first reason that is given is the one that is reported.
    pub fn stop(&mut self, why: impl Into<String>) {
        self.stop.get_or_insert_with(|| why.into());
    }
}

/// Is told what happens in a run. Callbacks are told in the order in which they were given; an
/// error ends the run.
///
/// ```
/// use torsh_tensor::Result;
/// use torsh_train::callbacks::{Callback, Context};
///
/// /// Stops when the loss is small enough.
/// struct Enough(f64);
/// impl Callback for Enough {
///     fn name(&self) -> &str {
///         "enough"
///     }
///     fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
///         if cx.metric("loss").is_some_and(|loss| loss < self.0) {
///             cx.stop("the loss is small enough");
///         }
///         Ok(())
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Callback: Send {
    /// The name, under which its state is in checkpoints.
    fn name(&self) -> &str;

    /// Whether it runs on every rank where several processes train (true), or on rank 0 alone, as
    /// loggers do. One that asks for checkpoints has to run on every rank, since all take part in them.
    fn on_every_rank(&self) -> bool {
        true
    }

    /// Training begins, or goes on.
    fn on_fit_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// An epoch begins.
    fn on_epoch_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A batch was given, and is about to be learned from.
    fn on_batch_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// The gradients of a step are there, clipped; the step comes next.
    fn on_before_step(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// The optimizer made a step.
    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A batch was learned from.
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A validation begins.
    fn on_validation_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A validation is over.
    fn on_validation_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// An epoch is over, its validation and the scheduler's step too.
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A checkpoint was saved.
    fn on_checkpoint(&mut self, path: &Path) -> Result<()> {
        Ok(())
    }

    /// Training is over, for whatever reason but an error.
    fn on_fit_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Training ends with an error, which is reported whatever happens here.
    fn on_error(&mut self, error: &TorshError) {}

    /// What it remembers, for checkpoints.
    fn state(&self) -> Result<Value> {
        Ok(Value::None)
    }

    /// Takes over what another one remembered.
    fn load_state(&mut self, state: &Value) -> Result<()> {
        Ok(())
    }
}
