//! Precision, recall and their mean.

use std::collections::BTreeMap;

use torsh_serialize::Value;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, TorshError};

use super::labels::{Labels, label_setters};
use super::on_device::Table;
use super::{Metric, MetricValue, count_of, named, nothing, other_state};

/// How the numbers of several classes become one (scikit-learn's `average`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Average, F1, Metric};
/// let mut f1 = F1::new().average(Average::Micro); // or .average("micro")
/// f1.update(&tensor![0, 2, 1, 0, 0, 1], &tensor![0, 1, 2, 0, 1, 2])?;
/// assert_eq!(f1.compute()?.scalar()?, 1.0 / 3.0); // Two of six are right.
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Average {
    /// That of the class `pos_label` of two.
    #[default]
    Binary,
    /// Their mean.
    Macro,
    /// Computed from the counts of all classes together.
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
    Average, "average",
    "binary" => Average::Binary,
    "macro" => Average::Macro,
    "micro" => Average::Micro,
    "weighted" => Average::Weighted,
    "none" => Average::None,
}

/// How often a class was given rightly, given, and the target.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    right: u64,
    given: u64,
    wanted: u64,
}

#[derive(Clone, Copy, Debug)]
enum Score {
    Precision,
    Recall,
    F(f64),
}

/// What the metrics of this file share.
#[derive(Clone, Debug)]
struct Scores {
    score: Score,
    average: Average,
    pos_label: i64,
    num_classes: Option<usize>,
    zero_division: f64,
    counts: BTreeMap<i64, Counts>,
    /// Those of batches on devices.
    there: Table,
}

/// The mean of the numbers that are not NaN.
fn mean(numbers: &[f64], weights: Option<&[f64]>) -> f64 {
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    let known = || numbers.iter().enumerate().filter(|(_, v)| !v.is_nan());
    let total: f64 = known().map(|(i, _)| weight(i)).sum();
    let equal = total == 0.0;
    let weight = |i: usize| if equal { 1.0 } else { weight(i) };
    let total: f64 = known().map(|(i, _)| weight(i)).sum();
    known().map(|(i, v)| v * weight(i)).sum::<f64>() / total
}

impl Scores {
    fn new(score: Score) -> Scores {
        Scores {
            score,
            average: Average::Binary,
            pos_label: 1,
            num_classes: None,
            zero_division: 0.0,
            counts: BTreeMap::new(),
            there: Table::default(),
        }
    }

    fn update(&mut self, predicted: &[i64], wanted: &[i64]) {
        for (&p, &w) in predicted.iter().zip(wanted) {
            self.counts.entry(p).or_default().given += 1;
            let class = self.counts.entry(w).or_default();
            class.wanted += 1;
            class.right += u64::from(p == w);
        }
    }

    /// Takes in a batch on a device; whether it could.
    fn update_there(&mut self, labels: &Labels, name: &str, both: [&Tensor; 2]) -> Result<bool> {
        let Some(n) = self.num_classes else {
            return Ok(false);
        };
        let Some(pairs) = labels.pairs_there(name, both[0], both[1])? else {
            return Ok(false);
        };
        self.there
            .add(&pairs, pairs.classes.map_or(n, |m| m.max(n)))?;
        Ok(true)
    }

    /// All counts, of devices too.
    fn read(&self) -> Result<BTreeMap<i64, Counts>> {
        let mut all = self.counts.clone();
        for (wanted, predicted, n) in self.there.read()? {
            all.entry(predicted).or_default().given += n;
            let class = all.entry(wanted).or_default();
            class.wanted += n;
            class.right += if wanted == predicted { n } else { 0 };
        }
        Ok(all)
    }

    fn labels(&self, counts: &BTreeMap<i64, Counts>) -> Vec<i64> {
        match self.num_classes {
            Some(n) => (0..n as i64).collect(),
            None => counts.keys().copied().collect(),
        }
    }

    fn of(&self, c: Counts) -> f64 {
        let (right, given, wanted) = (c.right as f64, c.given as f64, c.wanted as f64);
        let (part, whole) = match self.score {
            Score::Precision => (right, given),
            Score::Recall => (right, wanted),
            Score::F(beta) => {
                let b = beta * beta;
                ((1.0 + b) * right, b * wanted + given)
            }
        };
        match whole == 0.0 {
            true => self.zero_division,
            false => part / whole,
        }
    }

    #[torsh_tensor::names_caller]
    fn compute(&self, name: &str) -> Result<MetricValue> {
        self.average.known().map_err(|e| e.renamed(name))?;
        let all = self.read()?;
        if all.is_empty() {
            return Err(nothing(name));
        }
        let count = |label: &i64| all.get(label).copied().unwrap_or_default();
        if self.average == Average::Binary {
            let present: Vec<i64> = all.keys().copied().collect();
            let error = |why: String, hint: &str| {
                Err(TorshError::invalid(name.to_string(), why).with_hint(hint))
            };
            if present.len() > 2 {
                return error(
                    format!("there are the classes {present:?}, but the average is Binary"),
                    "choose Average::Macro, Micro, Weighted or None",
                );
            }
            if present.len() == 2 && !present.contains(&self.pos_label) {
                return error(
                    format!(
                        "pos_label is {}, of the classes {present:?}",
                        self.pos_label
                    ),
                    "choose one of the classes",
                );
            }
            return Ok(MetricValue::Scalar(self.of(count(&self.pos_label))));
        }
        let counts: Vec<Counts> = self.labels(&all).iter().map(count).collect();
        if self.average == Average::Micro {
            let sum = |f: fn(&Counts) -> u64| counts.iter().map(f).sum();
            return Ok(MetricValue::Scalar(self.of(Counts {
                right: sum(|c| c.right),
                given: sum(|c| c.given),
                wanted: sum(|c| c.wanted),
            })));
        }
        let numbers: Vec<f64> = counts.iter().map(|c| self.of(*c)).collect();
        Ok(match self.average {
            Average::None => MetricValue::PerClass(numbers),
            Average::Weighted => {
                let weights: Vec<f64> = counts.iter().map(|c| c.wanted as f64).collect();
                MetricValue::Scalar(mean(&numbers, Some(&weights)))
            }
            _ => MetricValue::Scalar(mean(&numbers, None)),
        })
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let counts = self.read()?;
        let rows = counts.iter().map(|(&label, c)| {
            let numbers = [c.right, c.given, c.wanted].map(Value::from);
            Value::List([Value::from(label)].into_iter().chain(numbers).collect())
        });
        Ok(Value::from([("counts", Value::List(rows.collect()))]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, name: &str, state: &Value) -> Result<()> {
        let mut counts = self.counts.clone();
        for row in state.get("counts")?.as_list()? {
            let [label, right, given, wanted] = row.as_list()? else {
                return Err(other_state(name, "a row of counts has not four numbers"));
            };
            let c: &mut Counts = counts.entry(label.as_int()?).or_default();
            c.right += count_of(name, right)?;
            c.given += count_of(name, given)?;
            c.wanted += count_of(name, wanted)?;
        }
        self.counts = counts;
        Ok(())
    }
}

macro_rules! scores {
    ($($(#[$doc:meta])* $name:ident $torch:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            name: String,
            labels: Labels,
            scores: Scores,
        }

        impl $name {
            /// How the classes' numbers become one (`Binary`): an [`Average`] or scikit-learn's word, as "macro".
            /// `compute` refuses another string.
            #[must_use]
            pub fn average(mut self, average: impl Into<Average>) -> Self {
                self.scores.average = average.into();
                self
            }

            /// Which of two classes `Binary` is about (1).
            #[must_use]
            pub fn pos_label(mut self, pos_label: i64) -> Self {
                self.scores.pos_label = pos_label;
                self
            }

            /// How many classes there are; else those that occur, as predictions or as targets.
            #[must_use]
            pub fn num_classes(mut self, num_classes: impl Into<Option<usize>>) -> Self {
                self.scores.num_classes = num_classes.into();
                self
            }

            /// What a class without a number counts as (0): 1, or NaN to leave it out of means.
            #[must_use]
            pub fn zero_division(mut self, zero_division: f64) -> Self {
                self.scores.zero_division = zero_division;
                self
            }

            /// The classes in the order of the numbers that `Average::None` gives.
            pub fn classes(&self) -> Vec<i64> {
                self.scores.labels(&self.scores.counts)
            }

            label_setters!();
            named!();

            fn with(score: Score) -> Self {
                $name {
                    name: $torch.into(),
                    labels: Labels::default(),
                    scores: Scores::new(score),
                }
            }
        }

        impl Metric for $name {
            fn name(&self) -> &str {
                &self.name
            }

            #[torsh_tensor::names_caller]
            fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
                let both = [output, target];
                if self.scores.update_there(&self.labels, &self.name, both)? {
                    return Ok(());
                }
                let (predicted, wanted) = self.labels.pairs(&self.name, output, target)?;
                self.scores.update(&predicted, &wanted);
                Ok(())
            }

            #[torsh_tensor::names_caller]
            fn compute(&self) -> Result<MetricValue> {
                self.scores.compute(&self.name)
            }

            fn reset(&mut self) {
                self.scores.counts.clear();
                self.scores.there = Table::default();
            }

            #[torsh_tensor::names_caller]
            fn state(&self) -> Result<Value> {
                self.scores.state()
            }

            #[torsh_tensor::names_caller]
            fn merge(&mut self, state: &Value) -> Result<()> {
                self.scores.merge(&self.name, state)
            }
        }
    )*};
}

scores! {
    /// Which part of what was given as a class is of it (`sklearn.metrics.precision_score`).
    /// Outputs and targets are as [`Accuracy`](super::Accuracy)'s.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Average, Metric, Precision};
    ///
    /// let mut precision = Precision::new().average(Average::None);
    /// precision.update(&tensor![0, 2, 1, 0, 0, 1], &tensor![0, 1, 2, 0, 1, 2])?;
    /// assert_eq!(precision.compute()?.per_class()?, [2.0 / 3.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Precision "precision";

    /// Which part of a class was given as it (`sklearn.metrics.recall_score`). Outputs and targets
    /// are as [`Accuracy`](super::Accuracy)'s.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Average, Metric, Recall};
    ///
    /// let mut recall = Recall::new().average(Average::Macro);
    /// recall.update(&tensor![0, 2, 1, 0, 0, 1], &tensor![0, 1, 2, 0, 1, 2])?;
    /// assert_eq!(recall.compute()?.scalar()?, 1.0 / 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Recall "recall";

    /// The harmonic mean of precision and recall (`sklearn.metrics.f1_score`). Outputs and targets
    /// are as [`Accuracy`](super::Accuracy)'s.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{F1, Metric};
    ///
    /// let mut f1 = F1::new();
    /// f1.update(&tensor![0.9, 0.2, 0.7, 0.1], &tensor![1, 1, 0, 0])?;
    /// assert_eq!(f1.compute()?.scalar()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    F1 "f1";

    /// The mean of precision and recall in which recall counts `beta` times as much
    /// (`sklearn.metrics.fbeta_score`). Outputs and targets are as [`Accuracy`](super::Accuracy)'s.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{FBeta, Metric};
    ///
    /// let mut f2 = FBeta::new(2.0)?;
    /// f2.update(&tensor![1, 1, 1, 0], &tensor![1, 0, 0, 0])?;
    /// assert_eq!(f2.compute()?.scalar()?, 5.0 / 7.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FBeta "fbeta";
}

macro_rules! plain {
    ($($name:ident $score:expr;)*) => {$(
        impl $name {
            /// Returns the metric with scikit-learn's defaults: of class 1 of two.
            #[doc = concat!(
                "\n```\n# use torsh_tensor::tensor;\nuse torsh_train::metrics::{Metric, ", stringify!($name), "};\n",
                "let mut metric = ", stringify!($name), "::new();\n",
                "metric.update(&tensor![1, 0, 1, 0], &tensor![1, 0, 0, 1])?; // One of two is found.\n",
                "assert_eq!(metric.compute()?.scalar()?, 0.5);\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn new() -> $name {
                $name::with($score)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }
    )*};
}
plain! {
    Precision Score::Precision;
    Recall Score::Recall;
    F1 Score::F(1.0);
}

impl FBeta {
    /// Returns the metric with scikit-learn's defaults: of class 1 of two. An error where `beta` is not 0 or more.
    ///
    /// ```
    /// use torsh_train::metrics::{FBeta, Metric};
    /// assert_eq!(FBeta::new(0.5)?.name(), "fbeta");
    /// assert!(FBeta::new(-1.0).unwrap_err().to_string().contains("beta must be 0 or more, got -1"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(beta: f64) -> Result<FBeta> {
        let score = match beta {
            0.0 => Score::Precision,
            f64::INFINITY => Score::Recall,
            b if b > 0.0 => Score::F(b),
            b => {
                return Err(TorshError::invalid(
                    "FBeta",
                    format!("beta must be 0 or more, got {b}"),
                ));
            }
        };
        Ok(FBeta::with(score))
    }
}
