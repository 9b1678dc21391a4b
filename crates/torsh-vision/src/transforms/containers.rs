//! Transforms of transforms.

use std::sync::Arc;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::apply::probability;
use super::draws::{permutation, uniform32};
use super::{Compose, Transform};

/// The sample as it is (`torchvision.transforms.v2.Identity`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Identity, Transform};
/// assert_eq!(Identity.apply(&tensor![[[1, 2]]])?, tensor![[[1, 2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl<S: Clone> Transform<S> for Identity {
    #[track_caller]
    fn apply(&self, x: &S) -> Result<S> {
        Ok(x.clone())
    }
}

/// All of several transforms, or none (`torchvision.transforms.v2.RandomApply`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Compose, RandomApply, RandomHorizontalFlip, Transform};
/// let always = RandomApply::new(Compose::new().then(RandomHorizontalFlip::new(1.0)?), 1.0)?;
/// assert_eq!(always.apply(&tensor![[[1.0, 2.0]]])?, tensor![[[2.0, 1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct RandomApply<S = Tensor> {
    transforms: Compose<S>,
    p: f64,
}

impl<S> RandomApply<S> {
    /// With probability `p`.
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(transforms: Compose<S>, p: f64) -> Result<Self> {
        Ok(RandomApply {
            transforms,
            p: probability("RandomApply", p)?,
        })
    }
}

impl<S: Clone> Transform<S> for RandomApply<S> {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        if uniform32(0.0, 1.0) >= self.p as f32 {
            return Ok(x.clone());
        }
        self.transforms.apply(x)
    }
}

fn not_empty<S>(op: &'static str, transforms: &Compose<S>) -> Result<Vec<Arc<dyn Transform<S>>>> {
    match transforms.transforms() {
        [] => Err(TorshError::invalid(op, "at least one transform is needed")),
        all => Ok(all.to_vec()),
    }
}

/// One of several transforms (`torchvision.transforms.v2.RandomChoice`).
///
/// ```
/// use torsh_tensor::{Tensor, tensor};
/// use torsh_vision::transforms::{Compose, Lambda, RandomChoice, Transform};
/// let either = Compose::new()
///     .then(Lambda::new(|x: &Tensor| x.add(1.0)))
///     .then(Lambda::new(|x: &Tensor| x.mul(10.0)));
/// let y = RandomChoice::new(either)?.apply(&tensor![2.0])?;
/// assert!(y == tensor![3.0] || y == tensor![20.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct RandomChoice<S = Tensor> {
    transforms: Vec<Arc<dyn Transform<S>>>,
    weights: Tensor,
}

impl<S> RandomChoice<S> {
    /// Each as likely as the others.
    ///
    /// # Errors
    /// No transform.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(transforms: Compose<S>) -> Result<Self> {
        let n = transforms.transforms().len();
        RandomChoice::weighted(transforms, &vec![1.0; n])
    }

    /// With these probabilities, whose sum need not be 1.
    ///
    /// ```
    /// use torsh_tensor::{Tensor, tensor};
    /// use torsh_vision::transforms::{Compose, Lambda, RandomChoice, Transform};
    /// let either = Compose::new()
    ///     .then(Lambda::new(|x: &Tensor| x.add(1.0)))
    ///     .then(Lambda::new(|x: &Tensor| x.mul(10.0)));
    /// let second = RandomChoice::weighted(either, &[0.0, 1.0])?;
    /// assert_eq!(second.apply(&tensor![2.0])?, tensor![20.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No transform, or not a weight for each.
    #[torsh_tensor::names_caller(Self)]
    pub fn weighted(transforms: Compose<S>, p: &[f64]) -> Result<Self> {
        const OP: &str = "RandomChoice";
        let transforms = not_empty(OP, &transforms)?;
        let sum: f64 = p.iter().sum();
        if p.len() != transforms.len()
            || !(sum > 0.0 && sum.is_finite())
            || p.iter().any(|&p| p < 0.0)
        {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "{} transforms have as many weights, got {p:?}",
                    transforms.len()
                ),
            ));
        }
        let weights: Vec<f64> = p.iter().map(|p| p / sum).collect();
        Ok(RandomChoice {
            transforms,
            weights: Tensor::from_slice(&weights, [weights.len()], DType::F64, Device::Cpu)?
                .to_dtype(DType::F32)?,
        })
    }
}

impl<S> Transform<S> for RandomChoice<S> {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        let at = self.weights.multinomial(1)?.item::<i64>()? as usize;
        self.transforms[at.min(self.transforms.len() - 1)].apply(x)
    }
}

/// Several transforms in random order (`torchvision.transforms.v2.RandomOrder`).
///
/// ```
/// use torsh_tensor::{Tensor, tensor};
/// use torsh_vision::transforms::{Compose, Lambda, RandomOrder, Transform};
/// let both = Compose::new()
///     .then(Lambda::new(|x: &Tensor| x.add(1.0)))
///     .then(Lambda::new(|x: &Tensor| x.mul(10.0)));
/// let y = RandomOrder::new(both)?.apply(&tensor![2.0])?;
/// assert!(y == tensor![30.0] || y == tensor![21.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct RandomOrder<S = Tensor> {
    transforms: Vec<Arc<dyn Transform<S>>>,
}

impl<S> RandomOrder<S> {
    /// All of them.
    ///
    /// # Errors
    /// No transform.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(transforms: Compose<S>) -> Result<Self> {
        Ok(RandomOrder {
            transforms: not_empty("RandomOrder", &transforms)?,
        })
    }
}

impl<S: Clone> Transform<S> for RandomOrder<S> {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        permutation(self.transforms.len())
            .into_iter()
            .try_fold(x.clone(), |x, i| self.transforms[i].apply(&x))
    }
}
