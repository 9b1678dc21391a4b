//! Regression metrics.

use torsh_serialize::Value;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::on_device::{self, on_device};
use super::{Metric, MetricValue, count_of, named, nothing, other_state};

/// How the numbers of several outputs become one (scikit-learn's `multioutput`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{MeanAbsoluteError, Metric, MultiOutput};
/// let mut mae = MeanAbsoluteError::new().multioutput(MultiOutput::RawValues); // or "raw_values"
/// mae.update(&tensor![[1.0, 2.0], [3.0, 4.0]], &tensor![[0.0, 2.0], [3.0, 2.0]])?;
/// assert_eq!(mae.compute()?.per_class()?, [0.5, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MultiOutput {
    /// Their mean.
    #[default]
    UniformAverage,
    /// Each on its own.
    RawValues,
    /// Their mean, weighted by the targets' variances; only for [`R2`].
    VarianceWeighted,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    MultiOutput, "multioutput",
    "uniform_average" => MultiOutput::UniformAverage,
    "raw_values" => MultiOutput::RawValues,
    "variance_weighted" => MultiOutput::VarianceWeighted,
}

/// The items of a batch, each with all of its outputs.
struct Rows {
    outputs: usize,
    given: Vec<f64>,
    wanted: Vec<f64>,
}

impl Rows {
    /// How many outputs an item has; an error where the shapes do not fit.
    fn outputs(name: &str, output: &Tensor, target: &Tensor, seen: Option<usize>) -> Result<usize> {
        if output.shape() != target.shape() {
            return Err(TorshError::shape(
                name.to_string(),
                format!(
                    "the output ({}) has not the target's shape ({})",
                    output.describe(),
                    target.describe()
                ),
            )
            .with_hint("squeeze or reshape one of them"));
        }
        let outputs = output.dims().get(1..).unwrap_or(&[]).iter().product();
        if let Some(n) = seen.filter(|&n| n != outputs) {
            return Err(TorshError::shape(
                name.to_string(),
                format!("an item has {outputs} outputs, those of the batches before had {n}"),
            ));
        }
        Ok(outputs)
    }

    fn new(name: &str, output: &Tensor, target: &Tensor, seen: Option<usize>) -> Result<Rows> {
        Ok(Rows {
            outputs: Rows::outputs(name, output, target, seen)?,
            given: output.detach().to_vec::<f64>()?,
            wanted: target.detach().to_vec::<f64>()?,
        })
    }

    fn items(&self) -> u64 {
        (self.given.len() / self.outputs.max(1)) as u64
    }

    /// For each number: which output it is of, what was given, what should have been.
    fn each(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let pairs = self.given.iter().zip(&self.wanted).enumerate();
        pairs.map(|(i, (&g, &w))| (i % self.outputs, g, w))
    }
}

fn averaged(numbers: Vec<f64>, multi: MultiOutput) -> MetricValue {
    match multi {
        MultiOutput::RawValues => MetricValue::PerClass(numbers),
        _ => MetricValue::Scalar(numbers.iter().sum::<f64>() / numbers.len() as f64),
    }
}

fn floats(value: &Value) -> Result<Vec<f64>> {
    value.as_list()?.iter().map(Value::as_float).collect()
}

fn list(numbers: &[f64]) -> Value {
    Value::List(numbers.iter().map(|&v| v.into()).collect())
}

/// A sum over items for each output.
#[derive(Clone, Debug, Default)]
struct Sums {
    items: u64,
    sums: Vec<f64>,
    /// Those of batches on devices.
    there: on_device::Sums,
}

impl Sums {
    fn seen(&self) -> Option<usize> {
        (self.items > 0).then_some(self.sums.len())
    }

    fn add(&mut self, batches: Vec<Vec<f64>>) {
        for sums in batches {
            self.sums.iter_mut().zip(sums).for_each(|(a, b)| *a += b);
        }
    }

    /// Takes in the errors of a batch on a device, of a shape like the output's.
    fn take_there(&mut self, outputs: usize, errors: &Tensor) -> Result<()> {
        self.fit(outputs);
        let items = errors.numel() / outputs.max(1);
        let sums = no_grad(|| errors.reshape([items, outputs])?.sum_dim(0, false))?;
        let read = self.there.add(sums)?;
        self.add(read);
        self.items += items as u64;
        Ok(())
    }

    /// The sums, of devices too.
    fn read(&self) -> Result<Vec<f64>> {
        let mut all = Sums {
            sums: self.sums.clone(),
            ..Sums::default()
        };
        all.add(self.there.read()?);
        Ok(all.sums)
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let sums = list(&self.read()?);
        Ok(Value::from([("items", self.items.into()), ("sums", sums)]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, name: &str, state: &Value) -> Result<()> {
        let items = count_of(name, state.get("items")?)?;
        let sums = floats(state.get("sums")?)?;
        if items == 0 {
            return Ok(());
        }
        self.fit(sums.len());
        if sums.len() != self.sums.len() {
            return Err(other_state(name, "it has another number of outputs"));
        }
        self.items += items;
        self.sums.iter_mut().zip(sums).for_each(|(a, b)| *a += b);
        Ok(())
    }

    fn fit(&mut self, outputs: usize) {
        if self.items == 0 {
            self.sums = vec![0.0; outputs];
        }
    }
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $torch:literal |$d:ident| $error:expr, there $there:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            name: String,
            multi: MultiOutput,
            root: bool,
            sums: Sums,
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }

        impl $name {
            /// Returns the metric with the mean over several outputs.
            #[doc = concat!(
                "\n```\n# use torsh_tensor::tensor;\nuse torsh_train::metrics::{Metric, ", stringify!($name), "};\n",
                "let mut metric = ", stringify!($name), "::new();\n",
                "metric.update(&tensor![2.0, 0.0, 3.0, 4.0], &tensor![1.0, 1.0, 3.0, 4.0])?;\n",
                "assert_eq!(metric.compute()?.scalar()?, 0.5);\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn new() -> $name {
                $name {
                    name: $torch.into(),
                    multi: MultiOutput::UniformAverage,
                    root: false,
                    sums: Sums::default(),
                }
            }

            /// How several outputs of an item become one number: a [`MultiOutput`] or scikit-learn's word, as "raw_values".
            /// `compute` refuses another string.
            #[must_use]
            pub fn multioutput(mut self, multioutput: impl Into<MultiOutput>) -> Self {
                self.multi = multioutput.into();
                self
            }

            named!();
        }

        impl Metric for $name {
            fn name(&self) -> &str {
                &self.name
            }

            #[torsh_tensor::names_caller]
            fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
                if on_device(output, target) {
                    let outputs = Rows::outputs(&self.name, output, target, self.sums.seen())?;
                    let errors = no_grad(|| {
                        let dtype = on_device::sum_dtype(output.device())?;
                        let given = output.detach().to_dtype(dtype)?;
                        let $d = given.sub(target.detach().to_dtype(dtype)?)?;
                        $there
                    })?;
                    return self.sums.take_there(outputs, &errors);
                }
                let rows = Rows::new(&self.name, output, target, self.sums.seen())?;
                self.sums.fit(rows.outputs);
                for (i, given, wanted) in rows.each() {
                    let $d = given - wanted;
                    self.sums.sums[i] += $error;
                }
                self.sums.items += rows.items();
                Ok(())
            }

            #[torsh_tensor::names_caller]
            fn compute(&self) -> Result<MetricValue> {
                if self.sums.items == 0 {
                    return Err(nothing(&self.name));
                }
                self.multi.known().map_err(|e| e.renamed(&self.name))?;
                if self.multi == MultiOutput::VarianceWeighted {
                    return Err(TorshError::invalid(
                        self.name.clone(),
                        "VarianceWeighted is an average of R2 alone",
                    ));
                }
                let n = self.sums.items as f64;
                let mean = |sum: &f64| if self.root { (sum / n).sqrt() } else { sum / n };
                Ok(averaged(self.sums.read()?.iter().map(mean).collect(), self.multi))
            }

            fn reset(&mut self) {
                self.sums = Sums::default();
            }

            #[torsh_tensor::names_caller]
            fn state(&self) -> Result<Value> {
                self.sums.state()
            }

            #[torsh_tensor::names_caller]
            fn merge(&mut self, state: &Value) -> Result<()> {
                self.sums.merge(&self.name, state)
            }
        }
    )*};
}

errors! {
    /// The mean distance of numbers (`sklearn.metrics.mean_absolute_error`). Output and target
    /// have one shape, whose dimension 0 is the items'.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{MeanAbsoluteError, Metric};
    ///
    /// let mut mae = MeanAbsoluteError::new();
    /// mae.update(&tensor![2.5, 0.0, 2.0, 8.0], &tensor![3.0, -0.5, 2.0, 7.0])?;
    /// assert_eq!(mae.compute()?.scalar()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MeanAbsoluteError "mae" |d| d.abs(), there d.abs();

    /// The mean square of the distance of numbers (`sklearn.metrics.mean_squared_error`), or with
    /// `squared(false)` its root (`root_mean_squared_error`). Output and target have one shape,
    /// whose dimension 0 is the items'.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{MeanSquaredError, Metric};
    ///
    /// let mut mse = MeanSquaredError::new();
    /// mse.update(&tensor![2.5, 0.0, 2.0, 8.0], &tensor![3.0, -0.5, 2.0, 7.0])?;
    /// assert_eq!(mse.compute()?.scalar()?, 0.375);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MeanSquaredError "mse" |d| d * d, there d.square();
}

impl MeanSquaredError {
    /// Whether the mean square is given (true), or its root.
    #[must_use]
    pub fn squared(mut self, squared: bool) -> Self {
        self.root = !squared;
        if self.name == "mse" && self.root {
            self.name = "rmse".into();
        }
        self
    }
}

/// Mean of an output's targets and their squared distances from it (Welford, 1962), and the
/// squared errors.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    /// The first target, from which the mean is counted: far from 0 nothing of it is lost.
    origin: f64,
    mean: f64,
    around: f64,
    errors: f64,
}

/// The part of the targets' variance that is predicted (`sklearn.metrics.r2_score`). Output and
/// target have one shape, whose dimension 0 is the items'.
///
/// NaN for less than two items. Where the targets do not vary it is 1 for perfect outputs, else 0.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, R2};
///
/// let mut r2 = R2::new();
/// r2.update(&tensor![3.0, 2.0, 1.0], &tensor![1.0, 2.0, 3.0])?;
/// assert_eq!(r2.compute()?.scalar()?, -3.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct R2 {
    name: String,
    multi: MultiOutput,
    items: u64,
    outputs: Vec<Spread>,
}

impl Default for R2 {
    fn default() -> Self {
        R2::new()
    }
}

impl R2 {
    /// Returns the metric with the mean over several outputs.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Metric, R2};
    /// let mut r2 = R2::new();
    /// r2.update(&tensor![1.0, 2.0, 3.0], &tensor![1.0, 2.0, 3.0])?;
    /// assert_eq!(r2.compute()?.scalar()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> R2 {
        R2 {
            name: "r2".into(),
            multi: MultiOutput::UniformAverage,
            items: 0,
            outputs: Vec::new(),
        }
    }

    /// How several outputs of an item become one number: a [`MultiOutput`] or scikit-learn's word, as "raw_values".
    /// `compute` refuses another string.
    #[must_use]
    pub fn multioutput(mut self, multioutput: impl Into<MultiOutput>) -> Self {
        self.multi = multioutput.into();
        self
    }

    named!();
}

impl Metric for R2 {
    fn name(&self) -> &str {
        &self.name
    }

    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        let seen = (self.items > 0).then_some(self.outputs.len());
        let rows = Rows::new(&self.name, output, target, seen)?;
        self.outputs.resize(rows.outputs, Spread::default());
        for (k, (i, given, wanted)) in rows.each().enumerate() {
            let n = self.items + (k / rows.outputs) as u64 + 1;
            let s = &mut self.outputs[i];
            if n == 1 {
                s.origin = wanted;
            }
            let x = wanted - s.origin;
            let before = x - s.mean;
            s.mean += before / n as f64;
            s.around += before * (x - s.mean);
            s.errors += (given - wanted) * (given - wanted);
        }
        self.items += rows.items();
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        if self.items == 0 {
            return Err(nothing(&self.name));
        }
        self.multi.known().map_err(|e| e.renamed(&self.name))?;
        if self.items < 2 {
            return Ok(MetricValue::Scalar(f64::NAN));
        }
        let of = |s: &Spread| match (s.errors == 0.0, s.around == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => 1.0 - s.errors / s.around,
        };
        let numbers: Vec<f64> = self.outputs.iter().map(of).collect();
        let total: f64 = self.outputs.iter().map(|s| s.around).sum();
        if self.multi != MultiOutput::VarianceWeighted || total == 0.0 {
            return Ok(averaged(numbers, self.multi));
        }
        let weighted = numbers.iter().zip(&self.outputs);
        let sum: f64 = weighted.map(|(v, s)| v * s.around).sum();
        Ok(MetricValue::Scalar(sum / total))
    }

    fn reset(&mut self) {
        self.items = 0;
        self.outputs.clear();
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let part =
            |f: fn(&Spread) -> f64| Value::List(self.outputs.iter().map(|s| f(s).into()).collect());
        Ok(Value::from([
            ("items", self.items.into()),
            ("origin", part(|s| s.origin)),
            ("mean", part(|s| s.mean)),
            ("around", part(|s| s.around)),
            ("errors", part(|s| s.errors)),
        ]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        let m = count_of(&self.name, state.get("items")?)?;
        let part = |name: &str| floats(state.get(name)?);
        let (origin, mean) = (part("origin")?, part("mean")?);
        let (around, errors) = (part("around")?, part("errors")?);
        if m == 0 {
            return Ok(());
        }
        if self.items == 0 {
            let start = |&origin| Spread {
                origin,
                ..Spread::default()
            };
            self.outputs = origin.iter().map(start).collect();
        }
        let n = self.outputs.len();
        if [origin.len(), mean.len(), around.len(), errors.len()] != [n; 4] {
            return Err(other_state(&self.name, "it has another number of outputs"));
        }
        let (a, b) = (self.items as f64, m as f64);
        for (i, s) in self.outputs.iter_mut().enumerate() {
            let apart = (origin[i] - s.origin) + mean[i] - s.mean;
            s.mean += apart * b / (a + b);
            s.around += around[i] + apart * apart * a * b / (a + b);
            s.errors += errors[i];
        }
        self.items += m;
        Ok(())
    }
}
