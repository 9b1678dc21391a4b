//! Metrics: fed batch by batch, equal to scikit-learn's on the same data.
//!
//! | here | scikit-learn |
//! |---|---|
//! | [`Accuracy`], [`TopKAccuracy`] | `accuracy_score`, `top_k_accuracy_score` |
//! | [`Precision`], [`Recall`], [`F1`], [`FBeta`] | `precision_score`, `recall_score`, `f1_score`, `fbeta_score` |
//! | [`ConfusionMatrix`] | `confusion_matrix` |
//! | [`RocAuc`], [`AveragePrecision`] | `roc_auc_score`, `average_precision_score` |
//! | [`MeanAbsoluteError`], [`MeanSquaredError`], [`R2`] | `mean_absolute_error`, `mean_squared_error`, `r2_score` |
//! | [`Perplexity`] | the exponential of `log_loss` |
//! | [`MeanIou`], [`Dice`] | `jaccard_score` and `f1_score` of pixels, over the classes that occur |
//!
//! [`CocoEvaluation`] gives pycocotools' numbers of detections, masks and key points, [`VocMeanAveragePrecision`] Pascal VOC's;
//! their updates take lists of [`FoundObjects`] and [`TrueObjects`]. [`PeakSignalNoiseRatio`] and [`StructuralSimilarity`]
//! compare images.
//!
//! ```
//! use torsh_tensor::tensor;
//! use torsh_train::metrics::{Accuracy, Metric};
//!
//! let mut accuracy = Accuracy::new();
//! accuracy.update(&tensor![[0.1, 0.9], [0.8, 0.2]], &tensor![1, 0])?;
//! accuracy.update(&tensor![[0.3, 0.7], [0.6, 0.4]], &tensor![0, 0])?;
//! assert_eq!(accuracy.compute()?.scalar()?, 0.75);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! Of batches on a device, [`Accuracy`], [`TopKAccuracy`], [`ConfusionMatrix`], [`Precision`],
//! [`Recall`], [`F1`], [`FBeta`], [`MeanAbsoluteError`], [`MeanSquaredError`] and [`Perplexity`] keep
//! counts (`int64`) and sums there, and the host waits for them when it computes the metric or saves its
//! state. The metrics of classes do so for targets of an integer dtype, and all but the accuracies only
//! where `num_classes` is set. Everything else reads each batch.

mod accuracy;
mod confusion;
mod detection;
mod image;
mod labels;
mod on_device;
mod perplexity;
mod precision;
mod ranking;
mod regression;
mod segmentation;
mod value;

pub use accuracy::{Accuracy, TopKAccuracy};
pub use confusion::{ConfusionMatrix, Normalize};
pub use detection::{
    CocoEvaluation, CocoKind, CocoSummary, FoundObjects, TrueObjects, VocInterpolation,
    VocMeanAveragePrecision,
};
pub use image::{PeakSignalNoiseRatio, StructuralSimilarity};
pub use perplexity::Perplexity;
pub use precision::{Average, F1, FBeta, Precision, Recall};
pub use ranking::{AveragePrecision, MultiClass, RankingAverage, RocAuc};
pub use regression::{MeanAbsoluteError, MeanSquaredError, MultiOutput, R2};
pub use segmentation::{Dice, MeanIou};
pub use value::MetricValue;

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

/// A number (or several) about predictions, computed from all batches since the last reset.
///
/// Several workers each feed their own; [`Metric::merge`] takes what another has seen, also from
/// another process, since [`Metric::state`] is plain data.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{MeanAbsoluteError, Metric};
///
/// let (mut here, mut there) = (MeanAbsoluteError::new(), MeanAbsoluteError::new());
/// here.update(&tensor![1.0], &tensor![0.0])?;
/// there.update(&tensor![3.0], &tensor![0.0])?;
/// here.merge(&there.state()?)?;
/// assert_eq!((here.name(), here.compute()?.scalar()?), ("mae", 2.0));
/// here.reset();
/// assert!(here.compute().unwrap_err().to_string().contains("no batch was taken in"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Metric: Send {
    /// The name under which it is logged.
    fn name(&self) -> &str;

    /// Takes in a batch: what the model gave, and what it should have given.
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()>;

    /// The value over all batches; an error where there was none.
    fn compute(&self) -> Result<MetricValue>;

    /// Forgets all batches.
    fn reset(&mut self);

    /// What the batches left, for [`Metric::merge`] and for checkpoints.
    fn state(&self) -> Result<Value>;

    /// Takes in the batches of another metric of the same settings.
    fn merge(&mut self, state: &Value) -> Result<()>;
}

impl<M: Metric + ?Sized> Metric for Box<M> {
    fn name(&self) -> &str {
        (**self).name()
    }
    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        (**self).update(output, target)
    }
    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        (**self).compute()
    }
    fn reset(&mut self) {
        (**self).reset();
    }
    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        (**self).state()
    }
    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        (**self).merge(state)
    }
}

/// The part of one batch's predictions that are right; see [`Accuracy`].
///
/// ```
/// use torsh_tensor::tensor;
/// let right = torsh_train::metrics::accuracy(&tensor![[2.0, 1.0], [0.0, 3.0]], &tensor![0, 0])?;
/// assert_eq!(right, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn accuracy(output: &Tensor, target: &Tensor) -> Result<f64> {
    let mut metric = Accuracy::new();
    metric.update(output, target)?;
    metric.compute()?.scalar()
}

/// The error of a metric without batches.
#[cold]
#[track_caller]
fn nothing(name: &str) -> TorshError {
    TorshError::invalid(
        name.to_string(),
        "there is nothing to compute from: no batch was taken in",
    )
    .with_hint("call update(&output, &target) for each batch first")
}

#[cold]
#[track_caller]
fn other_state(name: &str, why: impl Into<String>) -> TorshError {
    TorshError::invalid(
        name.to_string(),
        format!(
            "the state is not that of a metric of the same settings: {}",
            why.into()
        ),
    )
}

/// A count of a state, which is 0 or more.
fn count_of(name: &str, value: &Value) -> Result<u64> {
    u64::try_from(value.as_int()?).map_err(|_| other_state(name, "a count is negative"))
}

/// A setter of the name under which a metric is logged.
macro_rules! named {
    () => {
        /// Logs under another name.
        #[must_use]
        pub fn named(mut self, name: impl Into<String>) -> Self {
            self.name = name.into();
            self
        }
    };
}
use named;
