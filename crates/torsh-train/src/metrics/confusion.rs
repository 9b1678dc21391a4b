//! The confusion matrix.

use std::collections::BTreeMap;

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

use super::labels::{Labels, label_setters};
use super::on_device::Table;
use super::{Metric, MetricValue, count_of, named, nothing, other_state};

/// What the numbers of a confusion matrix are parts of (scikit-learn's `normalize`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{ConfusionMatrix, Metric, Normalize};
/// let mut confusion = ConfusionMatrix::new().normalize(Normalize::True);
/// confusion.update(&tensor![0, 1, 1], &tensor![0, 0, 1])?;
/// assert_eq!(confusion.compute()?.matrix()?, [[0.5, 0.5], [0.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// Of the row: of all items of the class.
    True,
    /// Of the column: of all that was given as the class.
    Pred,
    /// Of all items.
    All,
}

/// How often items of each class (row) were given as each class (column)
/// (`sklearn.metrics.confusion_matrix`). Outputs and targets are as [`Accuracy`](super::Accuracy)'s.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{ConfusionMatrix, Metric};
///
/// let mut confusion = ConfusionMatrix::new();
/// confusion.update(&tensor![0, 0, 2, 2, 0, 2], &tensor![2, 0, 2, 2, 0, 1])?;
/// let rows = confusion.compute()?;
/// assert_eq!(rows.matrix()?, [[2.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    name: String,
    labels: Labels,
    normalize: Option<Normalize>,
    num_classes: Option<usize>,
    /// By target and prediction.
    counts: BTreeMap<(i64, i64), u64>,
    /// Those of batches on devices.
    there: Table,
}

impl Default for ConfusionMatrix {
    fn default() -> Self {
        ConfusionMatrix::new()
    }
}

impl ConfusionMatrix {
    /// Returns the metric of counts, over the classes that occur.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{ConfusionMatrix, Metric};
    /// let mut confusion = ConfusionMatrix::new();
    /// confusion.update(&tensor![1, 0], &tensor![1, 1])?;
    /// assert_eq!(confusion.compute()?.matrix()?, [[0.0, 0.0], [1.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> ConfusionMatrix {
        ConfusionMatrix {
            name: "confusion_matrix".into(),
            labels: Labels::default(),
            normalize: None,
            num_classes: None,
            counts: BTreeMap::new(),
            there: Table::default(),
        }
    }

    /// Gives parts instead of counts; a part of nothing is 0.
    #[must_use]
    pub fn normalize(mut self, normalize: impl Into<Option<Normalize>>) -> Self {
        self.normalize = normalize.into();
        self
    }

    /// How many classes there are; else those that occur, as predictions or as targets.
    #[must_use]
    pub fn num_classes(mut self, num_classes: impl Into<Option<usize>>) -> Self {
        self.num_classes = num_classes.into();
        self
    }

    /// Returns the classes in the order of rows and columns.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{ConfusionMatrix, Metric};
    /// let mut confusion = ConfusionMatrix::new();
    /// confusion.update(&tensor![2], &tensor![7])?;
    /// assert_eq!(confusion.classes(), [2, 7]);
    /// assert_eq!(ConfusionMatrix::new().num_classes(3).classes(), [0, 1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn classes(&self) -> Vec<i64> {
        match self.num_classes {
            Some(n) => (0..n as i64).collect(),
            None => {
                let mut all: Vec<i64> = self.counts.keys().flat_map(|&(t, p)| [t, p]).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    label_setters!();
    named!();

    /// All counts, of devices too.
    fn read(&self) -> Result<BTreeMap<(i64, i64), u64>> {
        let mut all = self.counts.clone();
        for (wanted, predicted, n) in self.there.read()? {
            *all.entry((wanted, predicted)).or_default() += n;
        }
        Ok(all)
    }
}

impl Metric for ConfusionMatrix {
    fn name(&self) -> &str {
        &self.name
    }

    /// An error for a class beyond `num_classes`, where that is set; a device reports it later.
    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        if let Some(n) = self.num_classes
            && let Some(pairs) = self.labels.pairs_there(&self.name, output, target)?
        {
            return self.there.add(&pairs, n);
        }
        let (predicted, wanted) = self.labels.pairs(&self.name, output, target)?;
        if let Some(n) = self.num_classes {
            let beyond = |c: &&i64| usize::try_from(**c).is_ok_and(|c| c < n);
            if let Some(class) = predicted.iter().chain(&wanted).find(|c| !beyond(c)) {
                return Err(TorshError::index(
                    self.name.clone(),
                    format!("there is the class {class}, of {n}"),
                ));
            }
        }
        for pair in wanted.into_iter().zip(predicted) {
            *self.counts.entry(pair).or_default() += 1;
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        let counts = self.read()?;
        if counts.is_empty() {
            return Err(nothing(&self.name));
        }
        let classes = self.classes();
        let row = |&t: &i64| -> Vec<f64> {
            let count = |&p| counts.get(&(t, p)).copied().unwrap_or(0) as f64;
            classes.iter().map(count).collect()
        };
        let mut rows: Vec<Vec<f64>> = classes.iter().map(row).collect();
        let columns: Vec<f64> = (0..classes.len())
            .map(|c| rows.iter().map(|r| r[c]).sum())
            .collect();
        let all: f64 = columns.iter().sum();
        for r in &mut rows {
            let own: f64 = r.iter().sum();
            for (v, column) in r.iter_mut().zip(&columns) {
                let whole = match self.normalize {
                    None => continue,
                    Some(Normalize::True) => own,
                    Some(Normalize::Pred) => *column,
                    Some(Normalize::All) => all,
                };
                *v = if whole == 0.0 { 0.0 } else { *v / whole };
            }
        }
        Ok(MetricValue::Matrix(rows))
    }

    fn reset(&mut self) {
        self.counts.clear();
        self.there = Table::default();
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let row =
            |(&(t, p), &n): (&(i64, i64), &u64)| Value::List(vec![t.into(), p.into(), n.into()]);
        let rows = self.read()?.iter().map(row).collect();
        Ok(Value::from([("counts", Value::List(rows))]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        let mut counts = self.counts.clone();
        for row in state.get("counts")?.as_list()? {
            let [t, p, n] = row.as_list()? else {
                let why = "a row of counts has not three numbers";
                return Err(other_state(&self.name, why));
            };
            *counts.entry((t.as_int()?, p.as_int()?)).or_default() += count_of(&self.name, n)?;
        }
        self.counts = counts;
        Ok(())
    }
}
