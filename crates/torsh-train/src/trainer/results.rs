//! The results of a training run.

use std::collections::BTreeMap;
use std::ops::Deref;

use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

/// Numbers by name.
///
/// ```
/// use torsh_train::Metrics;
/// let metrics = Metrics::from([("loss".to_string(), 0.5), ("accuracy".to_string(), 0.75)]);
/// assert_eq!(metrics.keys().collect::<Vec<_>>(), ["accuracy", "loss"]);
/// ```
pub type Metrics = BTreeMap<String, f64>;

/// What came out of an epoch.
///
/// ```
/// use torsh_train::{EpochResults, Metrics};
/// let epoch = EpochResults {
///     epoch: 0,
///     train_metrics: Metrics::from([("loss".into(), 0.9), ("accuracy".into(), 0.5)]),
///     val_metrics: Metrics::new(),
///     learning_rate: 0.1,
/// };
/// assert_eq!(epoch.train_metrics["accuracy"], 0.5);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EpochResults {
    /// The epoch's number, from 0.
    pub epoch: usize,
    /// `loss` and the metrics on the training data, as the model was learning.
    pub train_metrics: Metrics,
    /// `loss` and the metrics on the validation data; empty without a validation.
    pub val_metrics: Metrics,
    /// The learning rate of the first group during its last step.
    pub learning_rate: f64,
}

/// The finished epochs of a run, in their order: a slice of [`EpochResults`]. With the feature
/// `plots` it is drawn by `plot` and `plot_with`.
///
/// ```
/// use torsh_train::{EpochResults, History, Metrics};
///
/// let epoch = |epoch, loss| EpochResults {
///     epoch,
///     train_metrics: Metrics::from([("loss".to_string(), loss)]),
///     val_metrics: Metrics::new(),
///     learning_rate: 0.1,
/// };
/// let history: History = [epoch(0, 0.9), epoch(1, 0.5)].into_iter().collect();
/// assert_eq!(history.len(), 2);
/// assert_eq!(history[1].train_metrics["loss"], 0.5);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(Vec<EpochResults>);

impl History {
    /// Adds an epoch at the end.
    ///
    /// ```
    /// # use torsh_train::{EpochResults, Metrics};
    /// use torsh_train::History;
    /// # let (train_metrics, val_metrics) = (Metrics::new(), Metrics::new());
    /// # let epoch = EpochResults { epoch: 0, train_metrics, val_metrics, learning_rate: 0.1 };
    /// let mut history = History::default();
    /// history.push(epoch);
    /// assert_eq!((history.len(), history[0].learning_rate), (1, 0.1));
    /// ```
    pub fn push(&mut self, epoch: EpochResults) {
        self.0.push(epoch);
    }
}

impl Deref for History {
    type Target = [EpochResults];

    fn deref(&self) -> &[EpochResults] {
        &self.0
    }
}

impl From<Vec<EpochResults>> for History {
    fn from(epochs: Vec<EpochResults>) -> History {
        History(epochs)
    }
}

impl FromIterator<EpochResults> for History {
    fn from_iter<I: IntoIterator<Item = EpochResults>>(epochs: I) -> History {
        History(epochs.into_iter().collect())
    }
}

impl IntoIterator for History {
    type Item = EpochResults;
    type IntoIter = std::vec::IntoIter<EpochResults>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a History {
    type Item = &'a EpochResults;
    type IntoIter = std::slice::Iter<'a, EpochResults>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All epochs are done.
    Finished,
    /// All steps are done.
    MaxSteps,
    /// A callback ended it, and says why.
    Callback(String),
    /// A signal, or a [`StopHandle`](super::StopHandle), ended it.
    Interrupted,
}

/// What came out of a training run, the epochs before it was resumed included.
///
/// ```
/// # use torsh_train::{EpochResults, History, Metrics, Stop, TrainingResults};
/// let epoch = |epoch, loss: f64, accuracy: f64| EpochResults {
///     epoch,
///     train_metrics: Metrics::from([("loss".into(), loss)]),
///     val_metrics: Metrics::from([("accuracy".into(), accuracy)]),
///     learning_rate: 0.1,
/// };
/// let results = TrainingResults {
///     history: History::from(vec![epoch(0, 0.9, 0.5), epoch(1, 0.4, 0.8)]),
///     best_metric: Some(0.4), best_epoch: Some(1), final_epoch: 2, steps: 20, stop: Stop::Finished,
/// };
/// assert_eq!((results.initial_loss(), results.final_loss()), (Some(0.9), Some(0.4)));
/// assert_eq!(results.final_accuracy(), Some(0.8));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingResults {
    /// The epochs that were finished.
    pub history: History,
    /// The best value of the monitored metric.
    pub best_metric: Option<f64>,
    /// The epoch that had it.
    pub best_epoch: Option<usize>,
    /// How many epochs are done.
    pub final_epoch: usize,
    /// How many steps of the optimizer are done.
    pub steps: usize,
    /// Why it ended.
    pub stop: Stop,
}

impl TrainingResults {
    /// A metric of an epoch, of the validation where there was one.
    fn metric(epoch: Option<&EpochResults>, name: &str) -> Option<f64> {
        let e = epoch?;
        e.val_metrics
            .get(name)
            .or(e.train_metrics.get(name))
            .copied()
    }

    /// The loss of the first epoch.
    pub fn initial_loss(&self) -> Option<f64> {
        self.history.first()?.train_metrics.get("loss").copied()
    }

    /// The training loss of the last epoch.
    pub fn final_loss(&self) -> Option<f64> {
        self.history.last()?.train_metrics.get("loss").copied()
    }

    /// The accuracy of the last epoch, where it was measured: of the validation, if there was one.
    pub fn final_accuracy(&self) -> Option<f64> {
        Self::metric(self.history.last(), "accuracy")
    }
}

fn metrics(m: &Metrics) -> Value {
    m.iter().map(|(name, v)| (name, Value::from(*v))).collect()
}

pub(super) fn metrics_of(value: &Value) -> Result<Metrics> {
    let entries = value.as_dict()?.iter();
    entries
        .map(|(name, v)| Ok((name.as_str()?.to_string(), v.as_float()?)))
        .collect()
}

pub(super) fn count(value: &Value, name: &str) -> Result<usize> {
    usize::try_from(value.get(name)?.as_int()?)
        .map_err(|_| TorshError::format("Trainer", format!("{name} is negative")))
}

impl EpochResults {
    pub(super) fn to_value(&self) -> Value {
        Value::from([
            ("epoch", self.epoch.into()),
            ("train", metrics(&self.train_metrics)),
            ("val", metrics(&self.val_metrics)),
            ("lr", self.learning_rate.into()),
        ])
    }

    pub(super) fn from_value(value: &Value) -> Result<EpochResults> {
        Ok(EpochResults {
            epoch: count(value, "epoch")?,
            train_metrics: metrics_of(value.get("train")?)?,
            val_metrics: metrics_of(value.get("val")?)?,
            learning_rate: value.get("lr")?.as_float()?,
        })
    }
}
