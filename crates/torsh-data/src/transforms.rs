//! What a transform is, and how several become one.
//!
//! The transforms of images are in the crate `torsh-vision`, as `vision::transforms`.

use std::sync::Arc;

use torsh_tensor::{DType, Result, Tensor};

/// A change of a sample: of a tensor, or of a type of one's own.
///
/// ```
/// use torsh_data::transforms::{Compose, Transform};
/// use torsh_tensor::{Result, Tensor, tensor};
///
/// struct Scale(f64);
/// impl Transform for Scale {
///     fn apply(&self, x: &Tensor) -> Result<Tensor> {
///         x.mul(self.0)
///     }
/// }
/// let t = Compose::new().then(Scale(2.0)).then(Scale(5.0));
/// assert_eq!(t.apply(&tensor![1.0])?, tensor![10.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Transform<S = Tensor>: Send + Sync {
    /// The changed sample.
    fn apply(&self, x: &S) -> Result<S>;
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<S, T: Transform<S> + ?Sized> Transform<S> for $t {
            #[torsh_tensor::names_caller]
            fn apply(&self, x: &S) -> Result<S> {
                (**self).apply(x)
            }
        }
    )*};
}
forward!(Box<T>, Arc<T>);

/// Several changes one after another (`torchvision.transforms.v2.Compose`).
///
/// ```
/// use torsh_data::transforms::{Compose, Lambda, Transform};
/// use torsh_tensor::{Tensor, tensor};
///
/// let t = Compose::new()
///     .then(Lambda::new(|x: &Tensor| x.add(1.0)))
///     .then(Lambda::new(|x: &Tensor| x.mul(2.0)));
/// assert_eq!(t.apply(&tensor![1.0])?, tensor![4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Compose<S = Tensor> {
    transforms: Vec<Arc<dyn Transform<S>>>,
}

impl<S> Clone for Compose<S> {
    fn clone(&self) -> Self {
        Compose {
            transforms: self.transforms.clone(),
        }
    }
}

impl<S> Default for Compose<S> {
    fn default() -> Self {
        Compose {
            transforms: Vec::new(),
        }
    }
}

impl<S> Compose<S> {
    /// No change.
    pub fn new() -> Self {
        Compose::default()
    }

    /// Puts a change behind the others.
    #[must_use]
    pub fn then(mut self, transform: impl Transform<S> + 'static) -> Self {
        self.transforms.push(Arc::new(transform));
        self
    }

    /// The changes, in their order.
    pub fn transforms(&self) -> &[Arc<dyn Transform<S>>] {
        &self.transforms
    }
}

impl<S: Clone> Transform<S> for Compose<S> {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        match self.transforms.split_first() {
            None => Ok(x.clone()),
            Some((first, rest)) => rest.iter().try_fold(first.apply(x)?, |x, t| t.apply(&x)),
        }
    }
}

/// A function as a change (`torchvision.transforms.v2.Lambda`).
///
/// ```
/// use torsh_data::transforms::{Lambda, Transform};
/// use torsh_tensor::{Tensor, tensor};
///
/// let double = Lambda::new(|x: &Tensor| x.mul(2.0));
/// assert_eq!(double.apply(&tensor![1.5])?, tensor![3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lambda<F>(F);

impl<F> Lambda<F> {
    /// Applies `f`.
    pub fn new<S>(f: F) -> Self
    where
        F: Fn(&S) -> Result<S> + Send + Sync,
    {
        Lambda(f)
    }
}

impl<S, F: Fn(&S) -> Result<S> + Send + Sync> Transform<S> for Lambda<F> {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        (self.0)(x)
    }
}

/// Classes as rows of zeros with a one (`torch.nn.functional.one_hot`), as float32.
///
/// ```
/// use torsh_data::transforms::{OneHot, Transform};
/// use torsh_tensor::tensor;
///
/// let rows = OneHot::new(3).apply(&tensor![0, 2])?;
/// assert_eq!(rows, tensor![[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneHot {
    num_classes: usize,
}

impl OneHot {
    /// Of this many classes.
    pub fn new(num_classes: usize) -> Self {
        OneHot { num_classes }
    }
}

impl Transform for OneHot {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.one_hot(self.num_classes as i64)?.to_dtype(DType::F32)
    }
}
