//! How many predictions are right.

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

use super::labels::{Labels, classes, label_setters, misfit, without_classes};
use super::{Metric, MetricValue, count_of, named, nothing};

/// How many items there were, and how many of them were right.
#[derive(Clone, Debug, Default)]
struct Hits {
    right: u64,
    all: u64,
}

impl Hits {
    fn take(&mut self, hits: impl Iterator<Item = bool>) {
        for hit in hits {
            self.right += u64::from(hit);
            self.all += 1;
        }
    }

    fn compute(&self, name: &str) -> Result<MetricValue> {
        match self.all {
            0 => Err(nothing(name)),
            n => Ok(MetricValue::Scalar(self.right as f64 / n as f64)),
        }
    }

    fn state(&self) -> Value {
        Value::from([("right", self.right.into()), ("all", self.all.into())])
    }

    fn merge(&mut self, name: &str, state: &Value) -> Result<()> {
        let right = count_of(name, state.get("right")?)?;
        self.all += count_of(name, state.get("all")?)?;
        self.right += right;
        Ok(())
    }
}

macro_rules! counted {
    () => {
        fn name(&self) -> &str {
            &self.name
        }

        fn compute(&self) -> Result<MetricValue> {
            self.hits.compute(&self.name)
        }

        fn reset(&mut self) {
            self.hits = Hits::default();
        }

        fn state(&self) -> Result<Value> {
            Ok(self.hits.state())
        }

        fn merge(&mut self, state: &Value) -> Result<()> {
            self.hits.merge(&self.name, state)
        }
    };
}

/// The part of the predictions that are right (`sklearn.metrics.accuracy_score`).
///
/// The output has the scores of the classes along dimension 1 and the target the classes' numbers;
/// or both have one shape, and the output has classes, or one score of two classes.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Accuracy, Metric};
///
/// let mut accuracy = Accuracy::new().threshold(0.0);
/// accuracy.update(&tensor![2.5, -1.0, 0.5, -3.0], &tensor![1, 1, 1, 0])?;
/// assert_eq!(accuracy.compute()?.scalar()?, 0.75);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Accuracy {
    name: String,
    labels: Labels,
    hits: Hits,
}

impl Default for Accuracy {
    fn default() -> Self {
        Accuracy::new()
    }
}

impl Accuracy {
    /// With a threshold of 0.5 between two classes, and no class left out.
    pub fn new() -> Accuracy {
        Accuracy {
            name: "accuracy".into(),
            labels: Labels::default(),
            hits: Hits::default(),
        }
    }

    label_setters!();
    named!();
}

impl Metric for Accuracy {
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        let (predicted, wanted) = self.labels.pairs(&self.name, output, target)?;
        self.hits
            .take(predicted.iter().zip(&wanted).map(|(p, w)| p == w));
        Ok(())
    }

    counted!();
}

/// The part of the items whose class is among the `k` with the highest scores
/// (`sklearn.metrics.top_k_accuracy_score` with `labels` of all classes). Of equal scores that of
/// the later class counts as higher, as there.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, TopKAccuracy};
///
/// let mut top2 = TopKAccuracy::new(2);
/// top2.update(&tensor![[0.5, 0.2, 0.2], [0.3, 0.4, 0.2]], &tensor![1, 0])?;
/// assert_eq!(top2.compute()?.scalar()?, 0.5);
/// assert_eq!(top2.name(), "top2_accuracy");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopKAccuracy {
    name: String,
    k: usize,
    hits: Hits,
}

impl TopKAccuracy {
    /// Of the `k` highest scores; scikit-learn's default is 2.
    pub fn new(k: usize) -> TopKAccuracy {
        TopKAccuracy {
            name: format!("top{k}_accuracy"),
            k,
            hits: Hits::default(),
        }
    }

    named!();
}

impl Metric for TopKAccuracy {
    /// Errors: an output without a dimension of classes, a class that it does not have, NaN.
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        let (output, target) = (output.detach(), target.detach());
        let fits = without_classes(output.dims()).filter(|(_, rest)| rest == target.dims());
        let Some((n, _)) = fits else {
            return Err(misfit(&self.name, &output, &target));
        };
        let dim = usize::from(output.ndim() > 1);
        let rows = output.movedim(dim as i64, -1)?.to_vec::<f64>()?;
        let wanted = classes(&self.name, "the target", &target)?;
        let mut hits = Vec::with_capacity(wanted.len());
        for (scores, &class) in rows.chunks(n.max(1)).zip(&wanted) {
            let own = usize::try_from(class).ok().and_then(|c| scores.get(c));
            let Some(&own) = own else {
                return Err(TorshError::index(
                    self.name.clone(),
                    format!("the target has the class {class}, the output {n} classes"),
                ));
            };
            if scores.iter().any(|s| s.is_nan()) {
                return Err(TorshError::invalid(
                    self.name.clone(),
                    "the output has NaN, which has no rank",
                ));
            }
            let ahead = scores.iter().enumerate();
            let ahead = ahead.filter(|&(i, &s)| s > own || (s == own && i as i64 > class));
            hits.push(ahead.count() < self.k);
        }
        self.hits.take(hits.into_iter());
        Ok(())
    }

    counted!();
}
