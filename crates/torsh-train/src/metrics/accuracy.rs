//! The fraction of correct predictions.

use torsh_serialize::Value;
use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

use super::labels::{Labels, classes, label_setters, misfit, without_classes};
use super::on_device::{Counts, on_device};
use super::{Metric, MetricValue, count_of, named, nothing};

/// How many items there were, and how many of them were right.
#[derive(Clone, Debug, Default)]
struct Hits {
    right: u64,
    all: u64,
    /// Those of batches on devices.
    there: Counts,
}

impl Hits {
    fn take(&mut self, hits: impl Iterator<Item = bool>) {
        for hit in hits {
            self.right += u64::from(hit);
            self.all += 1;
        }
    }

    /// Takes in hits that are on a device, of all items or of those of the mask.
    fn take_there(&mut self, hits: &Tensor, counts: Option<&Tensor>) -> Result<()> {
        let counted = no_grad(|| {
            let Some(counts) = counts else {
                self.all += hits.numel() as u64;
                return hits.sum()?.reshape([1]);
            };
            let right = hits.logical_and(counts)?.sum()?;
            Tensor::stack(&[right, counts.sum()?], 0)
        })?;
        self.there.add(counted)
    }

    /// The right ones and all.
    fn read(&self) -> Result<(u64, u64)> {
        let there = self.there.read(2)?;
        Ok((self.right + there[0], self.all + there[1]))
    }

    fn compute(&self, name: &str) -> Result<MetricValue> {
        match self.read()? {
            (_, 0) => Err(nothing(name)),
            (right, n) => Ok(MetricValue::Scalar(right as f64 / n as f64)),
        }
    }

    fn state(&self) -> Result<Value> {
        let (right, all) = self.read()?;
        Ok(Value::from([("right", right.into()), ("all", all.into())]))
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
            self.hits.state()
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
    /// Returns the metric with a threshold of 0.5 between two classes, and no class left out.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Accuracy, Metric};
    /// let mut accuracy = Accuracy::new();
    /// accuracy.update(&tensor![0.6, 0.4], &tensor![1, 1])?;
    /// assert_eq!(accuracy.compute()?.scalar()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        if let Some(p) = self.labels.pairs_there(&self.name, output, target)? {
            let hits = no_grad(|| p.predicted.eq(&p.wanted))?;
            return self.hits.take_there(&hits, p.counts.as_ref());
        }
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
    /// Returns the metric of the `k` highest scores; scikit-learn's default is 2.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Metric, TopKAccuracy};
    /// let (mut top1, mut top2) = (TopKAccuracy::new(1), TopKAccuracy::new(2));
    /// for metric in [&mut top1, &mut top2] {
    ///     metric.update(&tensor![[0.2, 0.3, 0.5]], &tensor![1])?;
    /// }
    /// assert_eq!((top1.compute()?.scalar()?, top2.compute()?.scalar()?), (0.0, 1.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(k: usize) -> TopKAccuracy {
        TopKAccuracy {
            name: format!("top{k}_accuracy"),
            k,
            hits: Hits::default(),
        }
    }

    named!();

    /// Which items are right, on the device.
    fn hits_there(&self, output: &Tensor, target: &Tensor, dim: i64) -> Result<Tensor> {
        let class = target.to_dtype(DType::I64)?.unsqueeze(dim)?;
        // A class that is not there is an error of this call, which the device reports.
        let own = output.gather(dim, &class)?;
        let mut shape = vec![1; output.ndim()];
        let n = output.size(dim)?;
        shape[dim as usize] = n;
        let classes = Tensor::arange(0, n as i64, 1, DType::I64, output.device())?;
        let classes = classes.reshape(&shape)?;
        let later = output.eq(&own)?.logical_and(&classes.gt(&class)?)?;
        let ahead = output.gt(&own)?.logical_or(&later)?;
        // NaN is ahead of nothing and nothing of it; the item is not right.
        let right = ahead.sum_dim(dim, false)?.lt(self.k as i64)?;
        right.logical_and(&own.eq(&own)?.squeeze(dim)?)
    }
}

impl Metric for TopKAccuracy {
    /// Errors: an output without a dimension of classes, a class that it does not have (a device
    /// reports it later), NaN (on a device it is a score that is not among the highest).
    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        let (output, target) = (output.detach(), target.detach());
        let fits = without_classes(output.dims()).filter(|(_, rest)| rest == target.dims());
        let Some((n, _)) = fits else {
            return Err(misfit(&self.name, &output, &target));
        };
        let dim = usize::from(output.ndim() > 1);
        if on_device(&output, &target) && !target.dtype().is_floating_point() {
            let hits = no_grad(|| self.hits_there(&output, &target, dim as i64))?;
            return self.hits.take_there(&hits, None);
        }
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
