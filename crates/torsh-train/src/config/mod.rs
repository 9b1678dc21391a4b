//! Configurations of training runs: YAML, JSON or TOML files, validated while they are read.

mod locate;
mod read;
mod sections;
mod validate;

use std::path::Path;

use serde::{Deserialize, Serialize};
use torsh_tensor::Result;

pub use read::{Format, from_file, from_str};
pub use sections::{
    CheckpointConfig, DataConfig, EarlyStoppingConfig, EvaluationConfig, Interval, LoggingConfig,
    Mode, ModelConfig, OptimizerConfig, Options, SchedulerConfig, TrainingConfig,
};

/// All that a training run is set up with, in sections; what a file leaves out has its default.
///
/// ```
/// use torsh_train::config::{ExperimentConfig, Format};
///
/// let text = "
/// seed: 0
/// model: {architecture: mlp, input_size: 4, hidden_size: 16, num_classes: 3}
/// optimizer: {name: adamw, lr: 1e-3, betas: [0.9, 0.95]}
/// scheduler: {name: cosine_annealing, t_max: 20}
/// training:
///   epochs: 20
///   batch_size: 16
///   early_stopping: {patience: 3}
/// ";
/// let config = ExperimentConfig::from_str(text, Format::Yaml)?;
/// assert_eq!(config.optimizer.lr(), Some(1e-3));
/// assert_eq!(config.training.early_stopping.map(|e| e.patience), Some(3));
///
/// let wrong = text.replace("epochs: 20", "epohcs: 20");
/// let error = ExperimentConfig::from_str(&wrong, Format::Yaml).unwrap_err().to_string();
/// assert!(error.contains("7:3: training.epohcs: unknown field `epohcs`"), "{error}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExperimentConfig {
    /// The name of the run.
    pub name: String,
    /// What the random numbers start from; a new seed each time if not set.
    pub seed: Option<u64>,
    /// The model.
    pub model: ModelConfig,
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The learning rate's course; constant if not set.
    pub scheduler: Option<SchedulerConfig>,
    /// The data.
    pub data: DataConfig,
    /// How training goes.
    pub training: TrainingConfig,
    /// How the model is judged.
    pub evaluation: EvaluationConfig,
    /// What is written about the run.
    pub logging: LoggingConfig,
    /// What is saved of it.
    pub checkpoint: CheckpointConfig,
}

impl Default for ExperimentConfig {
    fn default() -> Self {
        ExperimentConfig {
            name: "experiment".into(),
            seed: None,
            model: ModelConfig::default(),
            optimizer: OptimizerConfig::default(),
            scheduler: None,
            data: DataConfig::default(),
            training: TrainingConfig::default(),
            evaluation: EvaluationConfig::default(),
            logging: LoggingConfig::default(),
            checkpoint: CheckpointConfig::default(),
        }
    }
}

impl ExperimentConfig {
    /// Reads and validates a file: YAML, JSON or TOML, as its extension says.
    ///
    /// ```
    /// use torsh_train::ExperimentConfig;
    /// let path = std::env::temp_dir().join(format!("torsh-run-{}.toml", std::process::id()));
    /// std::fs::write(&path, "[training]\nbatch_size = 0\n")?;
    /// let error = ExperimentConfig::from_file(&path).unwrap_err();
    /// assert!(error.to_string().contains("training.batch_size: must be at least 1, got 0"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// `run.yaml:12:5: training.batch_size: must be at least 1, got 0`: what is wrong with which
    /// field, in which line and column.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (text, format) = read::open(path)?;
        Self::read(&text, format, &path.display().to_string())
    }

    /// Reads and validates a text. Errors as [`ExperimentConfig::from_file`].
    ///
    /// ```
    /// use torsh_train::config::{ExperimentConfig, Format};
    /// let config = ExperimentConfig::from_str(r#"{"training": {"epochs": 3}}"#, Format::Json)?;
    /// assert_eq!((config.training.epochs, config.training.batch_size), (3, 32));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_str(text: &str, format: Format) -> Result<Self> {
        Self::read(text, format, format.name())
    }

    #[track_caller]
    fn read(text: &str, format: Format, name: &str) -> Result<Self> {
        let config: Self = read::parse(text, format, name)?;
        match config.problem() {
            None => Ok(config),
            Some(p) => {
                let at = locate::locate(text, format, &p.path);
                Err(read::error(name, at, &p.path.join("."), &p.message))
            }
        }
    }

    /// Checks the values, and returns an error that names the first field whose value cannot be.
    ///
    /// ```
    /// use torsh_train::ExperimentConfig;
    /// let mut config = ExperimentConfig::default();
    /// assert!(config.validate().is_ok());
    /// config.training.epochs = 0;
    /// assert!(config.validate().unwrap_err().to_string().contains("training.epochs: must be at least 1, got 0"));
    /// ```
    #[torsh_tensor::names_caller]
    pub fn validate(&self) -> Result<()> {
        match self.problem() {
            None => Ok(()),
            Some(p) => Err(read::error(
                "ExperimentConfig",
                None,
                &p.path.join("."),
                &p.message,
            )),
        }
    }

    /// Returns the configuration as JSON, which [`ExperimentConfig::from_str`] reads.
    ///
    /// ```
    /// use torsh_train::config::{ExperimentConfig, Format};
    /// let config = ExperimentConfig { seed: Some(7), ..ExperimentConfig::default() };
    /// assert_eq!(ExperimentConfig::from_str(&config.to_json()?, Format::Json)?, config);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|e| torsh_tensor::TorshError::invalid("ExperimentConfig", e.to_string()))
    }
}
