//! The class of one image.

use std::fmt;

use torsh_nn::module::walk;
use torsh_nn::{FieldRef, Module, Training};
use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

use crate::transforms::{Transform, preprocess_image};

/// A class and its probability.
///
/// ```
/// use torsh_vision::models::Guess;
/// let guess = Guess { class: 281, probability: 0.932 };
/// assert_eq!(guess.to_string(), "class 281: 93.2 %");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// The class.
    pub class: usize,
    /// Its probability, between 0 and 1.
    pub probability: f32,
}

/// `class 281: 93.2 %`
impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}: {:.1} %", self.class, self.probability * 100.0)
    }
}

/// The probabilities of all classes for an image, as [`classify`] returns them.
///
/// ```
/// use torsh_nn::Flatten;
/// use torsh_tensor::tensor;
/// use torsh_vision::models::classify;
/// // A model whose scores are the pixels themselves.
/// let seen = classify(&Flatten::new(), &tensor![[[0.0]], [[0.0]], [[3f32.ln()]]])?;
/// assert_eq!(seen.top(1)[0].to_string(), "class 2: 60.0 %");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Classification(Vec<f32>);

impl Classification {
    /// The probabilities by class.
    ///
    /// ```
    /// # use torsh_nn::Flatten;
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::classify;
    /// let seen = classify(&Flatten::new(), &tensor![[[0.0]], [[0.0]], [[3f32.ln()]]])?;
    /// for (p, expected) in seen.probabilities().iter().zip([0.2f32, 0.2, 0.6]) {
    ///     assert!((p - expected).abs() < 1e-6);
    /// }
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn probabilities(&self) -> &[f32] {
        &self.0
    }

    /// The `k` most probable classes, or all where there are fewer, the most probable first.
    ///
    /// ```
    /// # use torsh_nn::Flatten;
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::classify;
    /// let seen = classify(&Flatten::new(), &tensor![[[1.0]], [[3.0]], [[2.0]]])?;
    /// let classes: Vec<usize> = seen.top(2).iter().map(|guess| guess.class).collect();
    /// assert_eq!(classes, [1, 2]);
    /// assert_eq!(seen.top(5).len(), 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn top(&self, k: usize) -> Vec<Guess> {
        let guess = |(class, &probability)| Guess { class, probability };
        let mut all: Vec<Guess> = self.0.iter().enumerate().map(guess).collect();
        all.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        all.truncate(k);
        all
    }
}

/// Puts the modules into the modes they were in, also after an error.
struct Modes<'a>(Vec<(&'a Training, bool)>);

impl Drop for Modes<'_> {
    fn drop(&mut self) {
        for (training, mode) in &self.0 {
            training.set(*mode);
        }
    }
}

/// What a classifier sees in an image: in evaluation mode, without recording gradients; afterwards the model is in the
/// modes it was in.
///
/// Takes an image of bytes, `[C, H, W]`, as [`load_image`](crate::load_image) reads it, which is prepared by
/// [`preprocess_image`](crate::preprocess_image); or floating-point numbers that are prepared already, `[3, H, W]` or
/// `[1, 3, H, W]`.
///
/// ```
/// use torsh_tensor::rand;
/// use torsh_vision::models::{SqueezeNet, classify};
/// let model = SqueezeNet::builder().num_classes(10).build()?;
/// let top = classify(&model, &rand(&[3, 64, 64]))?.top(5);
/// assert_eq!(top.len(), 5);
/// assert!(top[0].probability >= top[1].probability);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Not one image, a model that returns no scores of classes, and the model's errors.
#[torsh_tensor::names_caller]
pub fn classify<M: Module + ?Sized>(model: &M, image: &Tensor) -> Result<Classification> {
    let x = match (image.dtype(), image.ndim()) {
        (DType::U8 | DType::I32, _) => preprocess_image(image)?,
        (_, 3) => image.unsqueeze(0)?,
        _ => image.clone(),
    };
    classes_of(model, &x, image)
}

/// [`classify`] of an image that these transforms prepare, as those of pretrained weights.
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::models::{ResNet18Weights, SqueezeNet, classify_with};
///
/// let weights = ResNet18Weights::DEFAULT;
/// let model = SqueezeNet::builder().build()?; // of resnet18(weights)? the class means something
/// let image = zeros([3, 300, 400]).to_dtype(DType::U8)?;
/// let best = classify_with(&model, &image, &weights.transforms())?.top(1)[0];
/// assert!(!weights.categories()[best.class].is_empty());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`classify`], and those of the transforms.
#[torsh_tensor::names_caller]
pub fn classify_with<M: Module + ?Sized>(
    model: &M,
    image: &Tensor,
    transforms: &dyn Transform,
) -> Result<Classification> {
    let x = transforms.apply(image)?.unsqueeze(0)?;
    classes_of(model, &x, image)
}

/// The classes of a batch of one image.
#[track_caller]
fn classes_of<M: Module + ?Sized>(model: &M, x: &Tensor, image: &Tensor) -> Result<Classification> {
    if x.ndim() != 4 || x.dims()[0] != 1 {
        return Err(TorshError::shape(
            "classify",
            format!(
                "expected one image, [3, H, W] or [1, 3, H, W], got {}",
                image.describe()
            ),
        ));
    }
    let mut flags = Vec::new();
    walk(model, &mut |_, field| {
        if let FieldRef::Training(training) = field {
            flags.push((training, training.get()));
        }
    });
    let _modes = Modes(flags);
    for (training, _) in &_modes.0 {
        training.set(false);
    }
    let scores = no_grad(|| model.forward(x))?;
    if scores.ndim() != 2 {
        return Err(TorshError::shape(
            "classify",
            format!(
                "{} returns {}, not scores of classes",
                model.type_name(),
                scores.describe()
            ),
        ));
    }
    let probabilities = scores.to_dtype(DType::F32)?.softmax(1)?.to_vec::<f32>()?;
    Ok(Classification(probabilities))
}
