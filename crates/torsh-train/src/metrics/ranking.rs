//! Metrics of how scores rank items.

use torsh_serialize::Value;
use torsh_tensor::named::Named;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::labels::{classes, misfit};
use super::{Metric, MetricValue, named, nothing, other_state};

/// How the numbers of several classes become one (scikit-learn's `average`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{AveragePrecision, Metric, RankingAverage};
/// let mut ap = AveragePrecision::new().average(RankingAverage::None); // or .average("none")
/// ap.update(&tensor![[0.9, 0.1], [0.2, 0.8]], &tensor![0, 1])?;
/// assert_eq!(ap.compute()?.per_class()?, [1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RankingAverage {
    /// Their mean.
    #[default]
    Macro,
    /// Computed with each pair of item and class as an item.
    Micro,
    /// Their mean, each class counting as often as it is a target.
    Weighted,
    /// None: a number for each class.
    None,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    RankingAverage, "average",
    "macro" => RankingAverage::Macro,
    "micro" => RankingAverage::Micro,
    "weighted" => RankingAverage::Weighted,
    "none" => RankingAverage::None,
}

/// How more than two classes are told apart (scikit-learn's `multi_class`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, MultiClass, RocAuc};
/// let mut auc = RocAuc::new().multi_class(MultiClass::Ovo); // or .multi_class("ovo")
/// auc.update(&tensor![[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]], &tensor![0, 1, 2])?;
/// assert_eq!(auc.compute()?.scalar()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiClass {
    /// Each from all others.
    #[default]
    Ovr,
    /// Each from each other (Hand and Till, 2001).
    Ovo,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    MultiClass, "multi_class",
    "ovr" => MultiClass::Ovr,
    "ovo" => MultiClass::Ovo,
}

/// Scores and targets of all items.
#[derive(Clone, Debug, Default)]
struct Items {
    /// How many scores an item has; 0 where it has one that is no row.
    columns: usize,
    /// Whether the targets have a number for each score.
    indicators: bool,
    scores: Vec<f64>,
    targets: Vec<i64>,
}

impl Items {
    fn columns(&self) -> usize {
        self.columns.max(1)
    }

    fn form(&self) -> (usize, bool) {
        (self.columns, self.indicators)
    }

    fn update(&mut self, name: &str, output: &Tensor, target: &Tensor) -> Result<()> {
        let (output, target) = (output.detach(), target.detach());
        let (columns, indicators) = match (output.dims(), target.dims()) {
            (&[n], &[m]) if n == m => (0, false),
            (&[n, c], &[m]) if n == m => (if c == 1 { 0 } else { c }, false),
            (&[n, 1], &[m, 1]) if n == m => (0, false),
            (&[n, c], &[m, d]) if n == m && c == d => (c, true),
            _ => return Err(misfit(name, &output, &target)),
        };
        if !self.targets.is_empty() && self.form() != (columns, indicators) {
            return Err(TorshError::shape(
                name.to_string(),
                format!(
                    "the output ({}) and the target ({}) have not the form of the batches before",
                    output.describe(),
                    target.describe()
                ),
            ));
        }
        let scores = output.to_vec::<f64>()?;
        if scores.iter().any(|s| s.is_nan()) {
            return Err(TorshError::invalid(
                name.to_string(),
                "the output has NaN, which has no rank",
            ));
        }
        let targets = classes(name, "the target", &target)?;
        let most = if indicators { 2 } else { columns.max(2) } as i64;
        if let Some(class) = targets.iter().find(|t| !(0..most).contains(*t)) {
            return Err(TorshError::index(
                name.to_string(),
                format!("the target has the class {class}, of {most}"),
            ));
        }
        (self.columns, self.indicators) = (columns, indicators);
        self.scores.extend(scores);
        self.targets.extend(targets);
        Ok(())
    }

    /// The scores of a class, and which items are of it.
    fn class(&self, c: usize) -> Vec<(f64, bool)> {
        let n = self.columns();
        let rows = self.scores.chunks(n).enumerate();
        rows.map(|(i, row)| {
            let positive = match (self.columns, self.indicators) {
                (0, _) => self.targets[i] == 1,
                (_, true) => self.targets[i * n + c] == 1,
                (_, false) => self.targets[i] == c as i64,
            };
            (row[c], positive)
        })
        .collect()
    }

    /// The average over the classes of a metric of two.
    fn averaged(
        &self,
        name: &str,
        average: RankingAverage,
        binary: impl Fn(Vec<(f64, bool)>) -> f64,
    ) -> Result<MetricValue> {
        average.known().map_err(|e| e.renamed(name))?;
        if self.columns == 0 {
            return Ok(MetricValue::Scalar(binary(self.class(0))));
        }
        let all: Vec<_> = (0..self.columns).map(|c| self.class(c)).collect();
        if average == RankingAverage::Micro {
            return Ok(MetricValue::Scalar(binary(all.concat())));
        }
        let weight = |c: &Vec<(f64, bool)>| c.iter().filter(|(_, p)| *p).count() as f64;
        let weights: Vec<f64> = match average {
            RankingAverage::Weighted => all.iter().map(weight).collect(),
            _ => vec![1.0; all.len()],
        };
        let numbers: Vec<f64> = all.into_iter().map(binary).collect();
        if average == RankingAverage::None {
            return Ok(MetricValue::PerClass(numbers));
        }
        let total: f64 = weights.iter().sum();
        // A class without items has no number, nor a weight.
        let counted = numbers.iter().zip(&weights).filter(|(_, w)| **w != 0.0);
        let sum: f64 = counted.map(|(v, w)| v * w).sum();
        Ok(MetricValue::Scalar(if total == 0.0 {
            0.0
        } else {
            sum / total
        }))
    }

    fn state(&self) -> Result<Value> {
        let (scores, targets) = ([self.scores.len()], [self.targets.len()]);
        Ok(Value::from([
            ("columns", self.columns.into()),
            ("indicators", self.indicators.into()),
            (
                "scores",
                Tensor::from_slice(&self.scores, scores, DType::F64, Device::Cpu)?.into(),
            ),
            (
                "targets",
                Tensor::from_slice(&self.targets, targets, DType::I64, Device::Cpu)?.into(),
            ),
        ]))
    }

    fn merge(&mut self, name: &str, state: &Value) -> Result<()> {
        let columns = usize::try_from(state.get("columns")?.as_int()?)
            .map_err(|_| other_state(name, "its number of columns is negative"))?;
        let indicators = state.get("indicators")?.as_bool()?;
        let scores = state.get("scores")?.as_tensor()?.to_vec::<f64>()?;
        let targets = state.get("targets")?.as_tensor()?.to_vec::<i64>()?;
        if targets.is_empty() {
            return Ok(());
        }
        let items = scores.len() / columns.max(1);
        let wanted = if indicators { scores.len() } else { items };
        if items * columns.max(1) != scores.len() || targets.len() != wanted {
            return Err(other_state(name, "scores and targets do not go together"));
        }
        if !self.targets.is_empty() && self.form() != (columns, indicators) {
            return Err(other_state(
                name,
                "its outputs or targets have another form",
            ));
        }
        (self.columns, self.indicators) = (columns, indicators);
        self.scores.extend(scores);
        self.targets.extend(targets);
        Ok(())
    }
}

/// False and true positives at each threshold, from the highest score on; equal scores are one
/// threshold.
fn curve(mut items: Vec<(f64, bool)>) -> Vec<(f64, f64)> {
    items.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut fps, mut tps) = (0u64, 0u64);
    let mut out = Vec::new();
    for (i, &(score, positive)) in items.iter().enumerate() {
        tps += u64::from(positive);
        fps += u64::from(!positive);
        // -0.0 and 0.0 are one score.
        if items.get(i + 1).is_none_or(|next| next.0 != score) {
            out.push((fps as f64, tps as f64));
        }
    }
    out
}

/// The area below the curve of true over false positives; NaN where there is only one class.
fn roc_auc(items: Vec<(f64, bool)>) -> f64 {
    let curve = curve(items);
    let Some(&(n, p)) = curve.last().filter(|(n, p)| *n > 0.0 && *p > 0.0) else {
        return f64::NAN;
    };
    let (mut area, mut before) = (0.0, (0.0, 0.0));
    for (fps, tps) in curve {
        let now = (fps / n, tps / p);
        area += (now.0 - before.0) * (now.1 + before.1) / 2.0;
        before = now;
    }
    area
}

/// The sum of precisions, each times what recall gains; 0 without items of the class.
fn average_precision(items: Vec<(f64, bool)>) -> f64 {
    let curve = curve(items);
    let Some(&(_, p)) = curve.last().filter(|(_, p)| *p > 0.0) else {
        return 0.0;
    };
    let (mut sum, mut before) = (0.0, 0.0);
    for (fps, tps) in curve {
        let recall = tps / p;
        sum += (recall - before) * (tps / (tps + fps));
        before = recall;
    }
    sum.max(0.0)
}

macro_rules! kept {
    () => {
        fn name(&self) -> &str {
            &self.name
        }

        fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
            self.items.update(&self.name, output, target)
        }

        fn reset(&mut self) {
            self.items = Items::default();
        }

        fn state(&self) -> Result<Value> {
            self.items.state()
        }

        fn merge(&mut self, state: &Value) -> Result<()> {
            self.items.merge(&self.name, state)
        }
    };
}

/// How likely an item of a class has a higher score for it than another item
/// (`sklearn.metrics.roc_auc_score`); equal scores count half.
///
/// Two classes: an output of one score for each item, targets 0 and 1. Several: a row of
/// probabilities for each item, which sum to 1. Several labels for each item: targets of the
/// output's shape, 0 or 1. All items are kept until a reset. NaN where an item's class is the only
/// one.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, RocAuc};
///
/// let mut auc = RocAuc::new();
/// auc.update(&tensor![0.1, 0.4, 0.35, 0.8], &tensor![0, 0, 1, 1])?;
/// assert_eq!(auc.compute()?.scalar()?, 0.75);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RocAuc {
    name: String,
    average: RankingAverage,
    multi_class: MultiClass,
    items: Items,
}

impl Default for RocAuc {
    fn default() -> Self {
        RocAuc::new()
    }
}

impl RocAuc {
    /// Returns the metric of each class against all others, and the mean of these.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Metric, RocAuc};
    /// let mut auc = RocAuc::new();
    /// auc.update(&tensor![0.9, 0.1], &tensor![1, 0])?;
    /// assert_eq!(auc.compute()?.scalar()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> RocAuc {
        RocAuc {
            name: "roc_auc".into(),
            average: RankingAverage::Macro,
            multi_class: MultiClass::Ovr,
            items: Items::default(),
        }
    }

    /// How the numbers of several classes become one (`Macro`): a [`RankingAverage`] or scikit-learn's word, as "macro".
    /// `compute` refuses another string.
    #[must_use]
    pub fn average(mut self, average: impl Into<RankingAverage>) -> Self {
        self.average = average.into();
        self
    }

    /// How several classes are told apart (`Ovr`): a [`MultiClass`], "ovr" or "ovo". `compute` refuses another string.
    #[must_use]
    pub fn multi_class(mut self, multi_class: impl Into<MultiClass>) -> Self {
        self.multi_class = multi_class.into();
        self
    }

    named!();

    /// Each class from each other.
    fn one_by_one(&self) -> Result<MetricValue> {
        let weighted = match self.average {
            RankingAverage::Macro => false,
            RankingAverage::Weighted => true,
            other => {
                return Err(TorshError::invalid(
                    self.name.clone(),
                    format!("{other:?} is no average of one class against one"),
                )
                .with_hint("choose Macro, Weighted, or MultiClass::Ovr"));
            }
        };
        let (items, n) = (&self.items, self.items.columns);
        let (mut sum, mut total) = (0.0, 0.0);
        for a in 0..n {
            for b in a + 1..n {
                let rows = items.scores.chunks(n).zip(&items.targets);
                let both: Vec<_> = rows
                    .filter(|(_, t)| **t == a as i64 || **t == b as i64)
                    .collect();
                let of = |class: usize| {
                    let items = both.iter();
                    roc_auc(
                        items
                            .map(|(r, t)| (r[class], **t == class as i64))
                            .collect(),
                    )
                };
                let weight = match weighted {
                    true => both.len() as f64 / items.targets.len() as f64,
                    false => 1.0,
                };
                sum += weight * (of(a) + of(b)) / 2.0;
                total += weight;
            }
        }
        Ok(MetricValue::Scalar(sum / total))
    }
}

impl Metric for RocAuc {
    kept!();

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        let multi_class = self.multi_class.known();
        multi_class.map_err(|e| e.renamed(&self.name))?;
        let items = &self.items;
        if items.targets.is_empty() {
            return Err(nothing(&self.name));
        }
        if items.columns > 0 && !items.indicators {
            let off = |row: &&[f64]| {
                let sum: f64 = row.iter().sum();
                (sum - 1.0).abs() > 1e-8 + 1e-5 * sum.abs()
            };
            if let Some(row) = items.scores.chunks(items.columns).find(off) {
                return Err(TorshError::invalid(
                    self.name.clone(),
                    format!("the scores of an item sum to {}", row.iter().sum::<f64>()),
                )
                .with_hint("the scores of several classes must be probabilities: softmax(&y, 1)"));
            }
            if self.multi_class == MultiClass::Ovo {
                return self.one_by_one();
            }
        }
        items.averaged(&self.name, self.average, roc_auc)
    }
}

/// The area below precision over recall, as a sum of steps
/// (`sklearn.metrics.average_precision_score`); equal scores are one step.
///
/// Outputs and targets are as [`RocAuc`]'s, but scores of several classes need not sum to 1. All
/// items are kept until a reset. 0 for a class without items.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{AveragePrecision, Metric};
///
/// let mut ap = AveragePrecision::new();
/// ap.update(&tensor![0.1, 0.4, 0.35, 0.8], &tensor![0, 0, 1, 1])?;
/// assert!((ap.compute()?.scalar()? - 5.0 / 6.0).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AveragePrecision {
    name: String,
    average: RankingAverage,
    items: Items,
}

impl Default for AveragePrecision {
    fn default() -> Self {
        AveragePrecision::new()
    }
}

impl AveragePrecision {
    /// Returns the metric with the mean over several classes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{AveragePrecision, Metric};
    /// let mut ap = AveragePrecision::new();
    /// ap.update(&tensor![0.9, 0.1], &tensor![0, 1])?; // The one of the class comes second.
    /// assert_eq!(ap.compute()?.scalar()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> AveragePrecision {
        AveragePrecision {
            name: "average_precision".into(),
            average: RankingAverage::Macro,
            items: Items::default(),
        }
    }

    /// How the numbers of several classes become one (`Macro`): a [`RankingAverage`] or scikit-learn's word, as "macro".
    /// `compute` refuses another string.
    #[must_use]
    pub fn average(mut self, average: impl Into<RankingAverage>) -> Self {
        self.average = average.into();
        self
    }

    named!();
}

impl Metric for AveragePrecision {
    kept!();

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        if self.items.targets.is_empty() {
            return Err(nothing(&self.name));
        }
        self.items
            .averaged(&self.name, self.average, average_precision)
    }
}
