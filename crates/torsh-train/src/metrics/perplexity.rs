//! Perplexity.

use torsh_serialize::Value;
use torsh_tensor::{CrossEntropyOptions, DType, Reduction, Result, Tensor, no_grad};

use super::on_device::{Counts, Sums, on_device, sum_dtype};
use super::{Metric, MetricValue, count_of, named, nothing};

/// How many classes a model is torn between: the exponential of the mean cross-entropy
/// (that of `sklearn.metrics.log_loss`).
///
/// The output has the classes' logits along dimension 1 and the target their numbers, as
/// `cross_entropy` takes them; targets of `ignore_index` (-100) are left out.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, Perplexity};
///
/// let mut perplexity = Perplexity::new();
/// perplexity.update(&tensor![[0.0, 0.0, 0.0, 0.0]], &tensor![2])?;
/// assert!((perplexity.compute()?.scalar()? - 4.0).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Perplexity {
    name: String,
    ignore_index: i64,
    sum: f64,
    count: u64,
    /// Those of batches on devices.
    sums: Sums,
    counts: Counts,
}

impl Default for Perplexity {
    fn default() -> Self {
        Perplexity::new()
    }
}

impl Perplexity {
    /// Returns the metric with targets of -100 left out.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Metric, Perplexity};
    /// let mut perplexity = Perplexity::new();
    /// perplexity.update(&tensor![[0.0, 0.0], [5.0, 1.0]], &tensor![1, -100])?; // The second item is left out.
    /// assert!((perplexity.compute()?.scalar()? - 2.0).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> Perplexity {
        Perplexity {
            name: "perplexity".into(),
            ignore_index: -100,
            sum: 0.0,
            count: 0,
            sums: Sums::default(),
            counts: Counts::default(),
        }
    }

    /// Leaves out the items whose target is this.
    #[must_use]
    pub fn ignore_index(mut self, ignore_index: i64) -> Self {
        self.ignore_index = ignore_index;
        self
    }

    named!();

    /// The sum and the count, of devices too.
    fn read(&self) -> Result<(f64, u64)> {
        let count = self.counts.read(1)?[0];
        Ok((self.sum + total(self.sums.read()?), self.count + count))
    }
}

/// The sum of sums of one number.
fn total(sums: Vec<Vec<f64>>) -> f64 {
    sums.into_iter().flatten().sum()
}

impl Metric for Perplexity {
    fn name(&self) -> &str {
        &self.name
    }

    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        let options = CrossEntropyOptions::new()
            .ignore_index(self.ignore_index)
            .reduction(Reduction::Sum);
        let on_device = on_device(output, target);
        let dtype = match on_device {
            true => sum_dtype(output.device())?,
            false => DType::F64,
        };
        let (sum, count) = no_grad(|| {
            let logits = output.detach().to_dtype(dtype)?;
            let sum = logits.cross_entropy_with(target, options)?;
            Ok((sum, target.ne(self.ignore_index)?.sum()?))
        })?;
        if on_device {
            self.counts.add(count.reshape([1])?)?;
            self.sum += total(self.sums.add(sum.reshape([1])?)?);
            return Ok(());
        }
        self.sum += sum.item::<f64>()?;
        self.count += count.item::<i64>()?.unsigned_abs();
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        match self.read()? {
            (_, 0) => Err(nothing(&self.name)),
            (sum, n) => Ok(MetricValue::Scalar((sum / n as f64).exp())),
        }
    }

    fn reset(&mut self) {
        (self.sum, self.count) = (0.0, 0);
        (self.sums, self.counts) = Default::default();
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let (sum, count) = self.read()?;
        Ok(Value::from([("sum", sum.into()), ("count", count.into())]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        let sum = state.get("sum")?.as_float()?;
        self.count += count_of(&self.name, state.get("count")?)?;
        self.sum += sum;
        Ok(())
    }
}
