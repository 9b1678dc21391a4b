//! The sections of a configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings by name, of things whose settings depend on which they are.
///
/// ```
/// use torsh_train::config::{OptimizerConfig, Options};
/// let options = Options::from([("lr".to_string(), 0.1.into()), ("nesterov".to_string(), true.into())]);
/// let config = OptimizerConfig { name: "sgd".into(), options };
/// assert_eq!(config.lr(), Some(0.1));
/// ```
pub type Options = BTreeMap<String, Value>;

/// A section: a struct with defaults, which refuses fields that it does not have.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }
    };
}

section! {
    /// The model: an architecture of the registry ([`models`](crate::registry::models)) and what
    /// it is built with.
    ///
    /// ```
    /// use torsh_train::config::ModelConfig;
    /// let config = ModelConfig::default();
    /// assert_eq!((config.architecture.as_str(), config.hidden_size, config.num_layers), ("mlp", 128, 2));
    /// assert_eq!((config.device.as_str(), config.dtype.as_str()), ("cpu", "float32"));
    /// ```
    ModelConfig {
        /// The architecture's name.
        architecture: String = "mlp".into();
        /// How many numbers an input has.
        input_size: usize = 784;
        /// The width of the hidden layers.
        hidden_size: usize = 128;
        /// How many hidden layers there are.
        num_layers: usize = 2;
        /// How many classes, or outputs, there are.
        num_classes: usize = 10;
        /// With which probability dropout drops.
        dropout: f64 = 0.0;
        /// Whether there are batch norms.
        batch_norm: bool = false;
        /// The activation's name.
        activation: String = "relu".into();
        /// A file of weights to start from.
        pretrained: Option<PathBuf> = None;
        /// The device, as `cpu` or `cuda:0`.
        device: String = "cpu".into();
        /// The dtype of the parameters.
        dtype: String = "float32".into();
        /// Settings of architectures of one's own.
        options: Options = Options::new();
    }
}

impl ModelConfig {
    /// Returns the configuration of an architecture with the defaults of everything else.
    ///
    /// ```
    /// use torsh_train::config::ModelConfig;
    /// let config = ModelConfig { num_classes: 3, ..ModelConfig::new("linear") };
    /// assert_eq!((config.architecture.as_str(), config.input_size), ("linear", 784));
    /// ```
    pub fn new(architecture: impl Into<String>) -> Self {
        ModelConfig {
            architecture: architecture.into(),
            ..ModelConfig::default()
        }
    }
}

/// The optimizer: its name in the registry ([`optimizers`](crate::registry::optimizers)) and its
/// settings by PyTorch's names.
///
/// ```
/// use torsh_train::config::OptimizerConfig;
/// assert_eq!(OptimizerConfig::default(), OptimizerConfig::new("adam"));
/// let config = OptimizerConfig::sgd(0.1).option("momentum", 0.9);
/// assert_eq!(config.options["momentum"], 0.9);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptimizerConfig {
    /// The name, as `adamw`.
    pub name: String,
    /// The settings, as `lr` and `weight_decay`; the others have PyTorch's defaults.
    #[serde(flatten)]
    pub options: Options,
}

impl Default for OptimizerConfig {
    /// Adam with PyTorch's defaults.
    fn default() -> Self {
        OptimizerConfig::new("adam")
    }
}

macro_rules! optimizers {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        pub fn $name(lr: f64) -> Self {
            OptimizerConfig::new(stringify!($name)).option("lr", lr)
        }
    )*};
}

impl OptimizerConfig {
    /// Returns an optimizer with PyTorch's defaults.
    ///
    /// ```
    /// use torsh_train::config::OptimizerConfig;
    /// let config = OptimizerConfig::new("adamw");
    /// assert_eq!((config.name.as_str(), config.lr()), ("adamw", None)); // PyTorch's default, when it is made.
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        OptimizerConfig {
            name: name.into(),
            options: Options::new(),
        }
    }

    optimizers! {
        /// Adam with a learning rate.
        ///
        /// ```
        /// let config = torsh_train::config::OptimizerConfig::adam(0.001).option("eps", 1e-6);
        /// assert_eq!(config.lr(), Some(0.001));
        /// ```
        adam
        /// AdamW with a learning rate.
        ///
        /// ```
        /// let config = torsh_train::config::OptimizerConfig::adamw(0.002);
        /// assert_eq!((config.name.as_str(), config.lr()), ("adamw", Some(0.002)));
        /// ```
        adamw
        /// Stochastic gradient descent with a learning rate.
        ///
        /// ```
        /// let config = torsh_train::config::OptimizerConfig::sgd(0.1);
        /// assert_eq!((config.name.as_str(), config.lr()), ("sgd", Some(0.1)));
        /// ```
        sgd
    }

    /// Sets an option by PyTorch's name.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Returns the learning rate, where it is set.
    ///
    /// ```
    /// use torsh_train::config::OptimizerConfig;
    /// assert_eq!(OptimizerConfig::new("adam").option("lr", 0.01).lr(), Some(0.01));
    /// assert_eq!(OptimizerConfig::new("adam").lr(), None);
    /// ```
    pub fn lr(&self) -> Option<f64> {
        self.options.get("lr")?.as_f64()
    }
}

/// How often a scheduler makes a step.
///
/// ```
/// use torsh_train::config::Interval;
/// assert_eq!(Interval::from("step"), Interval::Step);
/// assert_eq!(Interval::default(), Interval::Epoch);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interval {
    /// After each epoch.
    #[default]
    Epoch,
    /// After each step of the optimizer.
    Step,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    #[serde(skip)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    Interval, "interval",
    "epoch" => Interval::Epoch,
    "step" => Interval::Step,
}

/// The scheduler: its name in the registry ([`schedulers`](crate::registry::schedulers)) and its
/// settings by PyTorch's names.
///
/// ```
/// use torsh_train::config::{Interval, SchedulerConfig};
/// let config = SchedulerConfig::new("warmup_cosine").interval("step").option("warmup_steps", 10);
/// assert_eq!(config.interval, Interval::Step);
/// assert_eq!(config.options["warmup_steps"], 10);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerConfig {
    /// The name, as `cosine_annealing`.
    pub name: String,
    /// How often it makes a step.
    #[serde(default)]
    pub interval: Interval,
    /// The settings, as `t_max`.
    #[serde(flatten)]
    pub options: Options,
}

impl SchedulerConfig {
    /// Returns a scheduler that makes a step after each epoch.
    ///
    /// ```
    /// use torsh_train::config::{Interval, SchedulerConfig};
    /// assert_eq!(SchedulerConfig::new("cosine_annealing").interval, Interval::Epoch);
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        SchedulerConfig {
            name: name.into(),
            interval: Interval::Epoch,
            options: Options::new(),
        }
    }

    /// Sets an option by PyTorch's name.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Sets how often it makes a step: an [`Interval`], "epoch" or "step".
    #[must_use]
    pub fn interval(mut self, interval: impl Into<Interval>) -> Self {
        self.interval = interval.into();
        self
    }
}

section! {
    /// The data; which sets there are is up to the program.
    ///
    /// ```
    /// use torsh_train::config::DataConfig;
    /// let config = DataConfig::default();
    /// assert_eq!((config.shuffle, config.drop_last, config.validation_split), (true, false, 0.0));
    /// ```
    DataConfig {
        /// The name of the data set.
        dataset: String = String::new();
        /// Where its files are.
        path: Option<PathBuf> = None;
        /// Which part of the data is held out for validation.
        validation_split: f64 = 0.0;
        /// Whether each epoch has a random order.
        shuffle: bool = true;
        /// How many threads make batches.
        num_workers: usize = 0;
        /// Whether a last batch with fewer items is left out.
        drop_last: bool = false;
    }
}

section! {
    /// How training goes.
    ///
    /// ```
    /// use torsh_train::config::TrainingConfig;
    /// let config = TrainingConfig::default();
    /// assert_eq!((config.epochs, config.batch_size, config.accumulation_steps), (10, 32, 1));
    /// assert_eq!(config.clip_grad_norm, None);
    /// ```
    TrainingConfig {
        /// How often every item is seen.
        epochs: usize = 10;
        /// How many items a batch has.
        batch_size: usize = 32;
        /// From how many batches a step's gradients come.
        accumulation_steps: usize = 1;
        /// Whether the model computes in bfloat16 where that is safe.
        mixed_precision: bool = false;
        /// The greatest norm of the gradients.
        clip_grad_norm: Option<f64> = None;
        /// The greatest element of the gradients.
        clip_grad_value: Option<f64> = None;
        /// Whether backward names the op whose gradient is NaN, which costs time.
        detect_anomaly: bool = false;
        /// When to stop early.
        early_stopping: Option<EarlyStoppingConfig> = None;
    }
}

/// Whether a metric should fall or rise.
///
/// ```
/// use torsh_train::config::Mode;
/// assert_eq!(Mode::from("max"), Mode::Max);
/// assert_eq!(Mode::default(), Mode::Min);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Less is better, as of a loss.
    #[default]
    Min,
    /// More is better, as of an accuracy.
    Max,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    #[serde(skip)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    Mode, "mode",
    "min" => Mode::Min,
    "max" => Mode::Max,
}

impl Mode {
    /// Whether a metric is better than the best so far, by more than `min_delta`.
    ///
    /// ```
    /// use torsh_train::config::Mode;
    /// assert!(Mode::Min.is_better(0.8, Some(0.9), 0.05) && Mode::Max.is_better(0.8, None, 0.0));
    /// assert!(!Mode::Max.is_better(f64::NAN, None, 0.0));
    /// ```
    pub fn is_better(self, metric: f64, best: Option<f64>, min_delta: f64) -> bool {
        match (self, best) {
            _ if metric.is_nan() => false,
            (_, None) => true,
            (Mode::Min, Some(best)) => metric < best - min_delta,
            (Mode::Max, Some(best)) => metric > best + min_delta,
            (Mode::Unknown(_), Some(_)) => false,
        }
    }
}

section! {
    /// When to stop early.
    ///
    /// ```
    /// use torsh_train::config::{EarlyStoppingConfig, Mode};
    /// let config = EarlyStoppingConfig::default();
    /// assert_eq!((config.patience, config.metric.as_str(), config.mode), (3, "loss", Mode::Min));
    /// ```
    EarlyStoppingConfig {
        /// How many epochs without a better metric are let pass.
        patience: usize = 3;
        /// How much better is better.
        min_delta: f64 = 0.0;
        /// The metric, as `loss`: that of the validation, where there is one.
        metric: String = "loss".into();
        /// Whether it should fall (`min`) or rise (`max`).
        mode: Mode = Mode::Min;
    }
}

section! {
    /// How the model is judged.
    ///
    /// ```
    /// use torsh_train::config::EvaluationConfig;
    /// let config = EvaluationConfig::default();
    /// assert_eq!((config.metrics.len(), config.every_n_epochs), (0, 1));
    /// ```
    EvaluationConfig {
        /// The metrics by name, as `accuracy`, `top5_accuracy`, `f1_macro`.
        metrics: Vec<String> = Vec::new();
        /// After how many epochs there is a validation.
        every_n_epochs: usize = 1;
    }
}

section! {
    /// What is written about the run.
    ///
    /// ```
    /// use torsh_train::config::LoggingConfig;
    /// let config = LoggingConfig::default();
    /// assert_eq!((config.dir.to_str(), config.csv, config.progress), (Some("runs"), false, true));
    /// ```
    LoggingConfig {
        /// The folder of the files.
        dir: PathBuf = "runs".into();
        /// Whether there is a table `metrics.csv`.
        csv: bool = false;
        /// Whether there is a file `metrics.jsonl`.
        json_lines: bool = false;
        /// Whether there are event files for TensorBoard.
        tensorboard: bool = false;
        /// Whether a bar shows how far training is.
        progress: bool = true;
        /// After how many steps the loss is written, besides after each epoch; 0 for never.
        every_n_steps: usize = 0;
    }
}

section! {
    /// What is saved of the run.
    ///
    /// ```
    /// use torsh_train::config::CheckpointConfig;
    /// let config = CheckpointConfig::default();
    /// assert_eq!((config.dir, config.every_n_epochs, config.save_best), (None, 1, true));
    /// ```
    CheckpointConfig {
        /// The folder of the checkpoints; nothing is saved if not set.
        dir: Option<PathBuf> = None;
        /// After how many epochs there is a checkpoint; 0 for never.
        every_n_epochs: usize = 1;
        /// How many of those stay; all if not set.
        keep_last: Option<usize> = None;
        /// Whether the best is kept.
        save_best: bool = true;
        /// The metric that says which is best.
        metric: String = "loss".into();
        /// Whether it should fall (`min`) or rise (`max`).
        mode: Mode = Mode::Min;
    }
}
