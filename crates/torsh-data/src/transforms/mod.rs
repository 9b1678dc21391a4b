//! Transforms of images and other items, as `torchvision.transforms` on tensors.
//!
//! Images are `[.., channels, height, width]`. Random transforms draw from the default generator in
//! torchvision's order, so `manual_seed` gives torchvision's choices. Within a
//! [`DataLoader`](crate::DataLoader), the default generator is that of the batch.

mod geometry;
mod random;
mod values;

use std::sync::Arc;

use torsh_tensor::{Result, Tensor, TorshError};

pub use geometry::{CenterCrop, Pad, PadMode, Resize};
pub use random::{RandomCrop, RandomErasing, RandomHorizontalFlip, RandomVerticalFlip};
pub use values::{ConvertImageDtype, Normalize, OneHot, ToTensor};

/// A change of a tensor.
pub trait Transform: Send + Sync {
    /// The changed tensor.
    fn apply(&self, x: &Tensor) -> Result<Tensor>;
}

impl<T: Transform + ?Sized> Transform for Box<T> {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        (**self).apply(x)
    }
}

/// Several changes one after another (`torchvision.transforms.Compose`).
///
/// ```
/// use torsh_data::transforms::{Compose, ConvertImageDtype, Normalize, RandomHorizontalFlip, Transform};
/// use torsh_tensor::{DType, tensor};
///
/// let t = Compose::new()
///     .then(RandomHorizontalFlip::new(1.0)?)
///     .then(ConvertImageDtype::new(DType::F32))
///     .then(Normalize::new([0.5], [0.5])?);
/// let image = tensor![[[0, 255]]].to_dtype(DType::U8)?;
/// assert_eq!(t.apply(&image)?, tensor![[[1.0, -1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct Compose {
    transforms: Vec<Arc<dyn Transform>>,
}

impl Compose {
    /// No change.
    pub fn new() -> Self {
        Compose::default()
    }

    /// Puts a change behind the others.
    #[must_use]
    pub fn then(mut self, transform: impl Transform + 'static) -> Self {
        self.transforms.push(Arc::new(transform));
        self
    }
}

impl Transform for Compose {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        self.transforms
            .iter()
            .try_fold(x.clone(), |x, t| t.apply(&x))
    }
}

/// A function as a change (`torchvision.transforms.Lambda`).
#[derive(Clone, Copy, Debug)]
pub struct Lambda<F>(F);

impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync> Lambda<F> {
    /// Applies `f`.
    pub fn new(f: F) -> Self {
        Lambda(f)
    }
}

impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync> Transform for Lambda<F> {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        (self.0)(x)
    }
}

/// The height and width of an image.
fn image_size(op: &'static str, x: &Tensor) -> Result<(usize, usize)> {
    match x.dims() {
        [.., _, h, w] => Ok((*h, *w)),
        _ => Err(TorshError::shape(
            op,
            format!(
                "expected an image [.., channels, height, width], got {}",
                x.describe()
            ),
        )),
    }
}

/// The part of an image from `(top, left)`.
fn crop(x: &Tensor, (top, left): (usize, usize), (h, w): (usize, usize)) -> Result<Tensor> {
    x.narrow(-2, top, h)?.narrow(-1, left, w)
}

fn probability(op: &'static str, p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(TorshError::invalid(
            op,
            format!("a probability is from 0 to 1, got {p}"),
        ))
    }
}
