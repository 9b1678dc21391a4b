//! Converting the outputs of models to classes.

use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

/// Whether a batch is on a device that would have to be waited for. It stands here because both this file and
/// `on_device` ask it.
pub(super) fn on_device(output: &Tensor, target: &Tensor) -> bool {
    let device = output.device();
    !device.is_host() && device.has_data() && target.device() == device
}

/// How outputs are read as classes.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// Above this, one score of two classes is class 1.
    pub(super) threshold: f64,
    /// Targets of this class are left out.
    pub(super) ignore_index: Option<i64>,
}

impl Default for Labels {
    fn default() -> Self {
        Labels {
            threshold: 0.5,
            ignore_index: None,
        }
    }
}

/// Setters of how outputs are read as classes.
macro_rules! label_setters {
    () => {
        /// Above which score an output of two classes is class 1 (0.5): 0 where the model gives
        /// logits.
        #[must_use]
        pub fn threshold(mut self, threshold: f64) -> Self {
            self.labels.threshold = threshold;
            self
        }

        /// Leaves out the items whose target is this.
        #[must_use]
        pub fn ignore_index(mut self, ignore_index: impl Into<Option<i64>>) -> Self {
            self.labels.ignore_index = ignore_index.into();
            self
        }
    };
}
pub(super) use label_setters;

/// Class numbers of a tensor of any number dtype.
pub(super) fn classes(name: &str, what: &str, t: &Tensor) -> Result<Vec<i64>> {
    if !t.dtype().is_floating_point() {
        return t.to_vec::<i64>();
    }
    let numbers = t.to_vec::<f64>()?;
    match numbers.iter().find(|v| v.fract() != 0.0 || v.is_nan()) {
        None => Ok(numbers.into_iter().map(|v| v as i64).collect()),
        Some(v) => Err(TorshError::invalid(
            name.to_string(),
            format!("{what} ({}) has {v}, which is no class", t.describe()),
        )),
    }
}

/// The error for shapes of which neither is the other with a dimension of classes.
#[cold]
pub(super) fn misfit(name: &str, output: &Tensor, target: &Tensor) -> TorshError {
    TorshError::shape(
        name.to_string(),
        format!(
            "the output ({}) does not fit the target ({})",
            output.describe(),
            target.describe()
        ),
    )
    .with_hint("the output has the target's shape, or the classes' scores as dimension 1 besides")
}

/// The shape of an output without its dimension of classes.
pub(super) fn without_classes(dims: &[usize]) -> Option<(usize, Vec<usize>)> {
    let at = usize::from(dims.len() > 1);
    let classes = *dims.get(at)?;
    let mut rest = dims.to_vec();
    rest.remove(at);
    Some((classes, rest))
}

/// The largest `float32` that is not above a number: no `float32` lies between them.
fn floor_float(v: f64) -> f64 {
    let near = v as f32;
    f64::from(if f64::from(near) > v {
        near.next_down()
    } else {
        near
    })
}

/// The classes of a batch, on its device.
pub(super) struct Pairs {
    /// What the model gave, `int64`.
    pub(super) predicted: Tensor,
    /// What it should have given, `int64`.
    pub(super) wanted: Tensor,
    /// Which items count, where some do not.
    pub(super) counts: Option<Tensor>,
    /// How many classes the output has scores of.
    pub(super) classes: Option<usize>,
}

impl Labels {
    /// [`Labels::pairs`] of a batch on a device, which is not waited for; `None` where it has to be.
    pub(super) fn pairs_there(
        &self,
        name: &str,
        output: &Tensor,
        target: &Tensor,
    ) -> Result<Option<Pairs>> {
        if !on_device(output, target) || target.dtype().is_floating_point() {
            return Ok(None);
        }
        let (output, target) = (output.detach(), target.detach());
        let classes = self.scored(name, &output, &target)?;
        no_grad(|| {
            let predicted = if classes.is_some() {
                let dim = i64::from(output.ndim() > 1);
                output.argmax_dim(dim, false)?
            } else if output.dtype().is_floating_point() {
                let scores = output.to_dtype(DType::F32)?;
                scores
                    .gt(floor_float(self.threshold))?
                    .to_dtype(DType::I64)?
            } else {
                output.to_dtype(DType::I64)?
            };
            let wanted = target.to_dtype(DType::I64)?;
            Ok(Some(Pairs {
                counts: self.ignore_index.map(|i| wanted.ne(i)).transpose()?,
                predicted: predicted.reshape(wanted.shape())?,
                wanted,
                classes,
            }))
        })
    }

    /// How many classes the output has scores of, where it has a dimension of several. An error where
    /// the shapes do not fit.
    fn scored(&self, name: &str, output: &Tensor, target: &Tensor) -> Result<Option<usize>> {
        let scored = output.ndim() == target.ndim() + 1;
        let classes = without_classes(output.dims());
        let fits = match scored {
            true => classes.as_ref().is_some_and(|(_, r)| r == target.dims()),
            false => output.shape() == target.shape(),
        };
        if !fits {
            return Err(misfit(name, output, target));
        }
        Ok(classes.map(|(n, _)| n).filter(|&n| scored && n > 1))
    }

    /// The classes that the model gave and should have given.
    pub(super) fn pairs(
        &self,
        name: &str,
        output: &Tensor,
        target: &Tensor,
    ) -> Result<(Vec<i64>, Vec<i64>)> {
        let (output, target) = (output.detach(), target.detach());
        let several = self.scored(name, &output, &target)?.is_some();
        let predicted = if several {
            let dim = i64::from(output.ndim() > 1);
            output.argmax_dim(dim, false)?.to_vec::<i64>()?
        } else if output.dtype().is_floating_point() {
            let scores = output.to_vec::<f64>()?;
            scores
                .iter()
                .map(|&s| i64::from(s > self.threshold))
                .collect()
        } else {
            output.to_vec::<i64>()?
        };
        let wanted = classes(name, "the target", &target)?;
        let Some(ignored) = self.ignore_index else {
            return Ok((predicted, wanted));
        };
        let pairs = predicted.into_iter().zip(wanted);
        Ok(pairs.filter(|&(_, w)| w != ignored).unzip())
    }
}
