//! Metrics of segmentations: how far the pixels of each class overlap.

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor};

use super::{ConfusionMatrix, Metric, MetricValue, named, nothing};

macro_rules! overlaps {
    ($($(#[$doc:meta])* $name:ident $log:literal |$both:ident, $wanted:ident, $given:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            name: String,
            pixels: ConfusionMatrix,
            per_class: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }

        impl $name {
            /// Returns the metric of all classes that occur.
            #[doc = concat!(
                "\n```\n# use torsh_tensor::tensor;\nuse torsh_train::metrics::{Metric, ", stringify!($name), "};\n",
                "let mut metric = ", stringify!($name), "::new();\n",
                "metric.update(&tensor![[0, 1]], &tensor![[1, 0]])?; // No pixel is right ..\n",
                "assert_eq!(metric.compute()?.scalar()?, 0.0);\n",
                "metric.reset();\nmetric.update(&tensor![[0, 1]], &tensor![[0, 1]])?; // .. and all are.\n",
                "assert_eq!(metric.compute()?.scalar()?, 1.0);\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn new() -> $name {
                $name {
                    name: $log.into(),
                    pixels: ConfusionMatrix::new(),
                    per_class: false,
                }
            }

            /// How many classes there are; else those that occur, as predictions or as targets.
            #[must_use]
            pub fn num_classes(mut self, num_classes: impl Into<Option<usize>>) -> Self {
                self.pixels = self.pixels.num_classes(num_classes);
                self
            }

            /// Leaves out the pixels whose target is this.
            #[must_use]
            pub fn ignore_index(mut self, ignore_index: impl Into<Option<i64>>) -> Self {
                self.pixels = self.pixels.ignore_index(ignore_index);
                self
            }

            /// Above which score an output of two classes is class 1 (0.5): 0 where the model gives logits.
            #[must_use]
            pub fn threshold(mut self, threshold: f64) -> Self {
                self.pixels = self.pixels.threshold(threshold);
                self
            }

            /// Whether there is a number for each class, NaN for those that do not occur, instead of their mean.
            #[must_use]
            pub fn per_class(mut self, yes: bool) -> Self {
                self.per_class = yes;
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
                let name = &self.name;
                self.pixels.update(output, target).map_err(|e| e.renamed(name))
            }

            #[torsh_tensor::names_caller]
            fn compute(&self) -> Result<MetricValue> {
                let counts = self.pixels.compute().map_err(|_| nothing(&self.name))?;
                let rows = counts.matrix()?;
                let column = |k: usize| rows.iter().map(|r| r[k]).sum::<f64>();
                let of = |k: usize| {
                    let ($both, $wanted, $given) = (rows[k][k], rows[k].iter().sum::<f64>(), column(k));
                    if $wanted + $given > 0.0 { $value } else { f64::NAN }
                };
                let all: Vec<f64> = (0..rows.len()).map(of).collect();
                if self.per_class {
                    return Ok(MetricValue::PerClass(all));
                }
                let there: Vec<f64> = all.into_iter().filter(|v| !v.is_nan()).collect();
                match there.is_empty() {
                    true => Err(nothing(&self.name)),
                    false => Ok(MetricValue::Scalar(there.iter().sum::<f64>() / there.len() as f64)),
                }
            }

            fn reset(&mut self) {
                self.pixels.reset();
            }

            #[torsh_tensor::names_caller]
            fn state(&self) -> Result<Value> {
                self.pixels.state()
            }

            #[torsh_tensor::names_caller]
            fn merge(&mut self, state: &Value) -> Result<()> {
                let name = &self.name;
                self.pixels.merge(state).map_err(|e| e.renamed(name))
            }
        }
    )*};
}

overlaps! {
    /// The mean over the classes of the intersection of predicted and true pixels over their union (Jaccard's index). Classes
    /// that do not occur are left out.
    ///
    /// Outputs and targets are as [`Accuracy`](super::Accuracy)'s: scores `[n, classes, h, w]` and classes `[n, h, w]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{MeanIou, Metric};
    /// let mut iou = MeanIou::new().ignore_index(255);
    /// iou.update(&tensor![[0, 1], [1, 1]], &tensor![[0, 0], [1, 255]])?;
    /// assert_eq!(iou.compute()?.scalar()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MeanIou "mean_iou" |both, wanted, given| both / (wanted + given - both);
    /// The mean over the classes of twice the intersection of predicted and true pixels over the sum of both (Dice's
    /// coefficient, the F1 score of pixels). Classes that do not occur are left out.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Dice, Metric};
    /// let mut dice = Dice::new().per_class(true);
    /// dice.update(&tensor![[0, 1], [1, 1]], &tensor![[0, 0], [1, 1]])?;
    /// assert_eq!(dice.compute()?.per_class()?, [2.0 / 3.0, 0.8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dice "dice" |both, wanted, given| 2.0 * both / (wanted + given);
}
