//! Activations by the names that configurations have for them.

use serde::{Deserialize, Serialize};
use torsh_functional as F;
use torsh_tensor::{GeluOptions, Result, Tensor};

/// An activation of a feed-forward layer, by the name in `config.json`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::Activation;
/// let relu: Activation = serde_json::from_str("\"relu\"")?;
/// assert_eq!(relu.apply(&tensor![-1.0, 2.0])?, tensor![0.0, 2.0]);
/// assert!(serde_json::from_str::<Activation>("\"rellu\"").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Activation {
    /// `x * Phi(x)` with the normal distribution's function.
    #[serde(rename = "gelu", alias = "gelu_python")]
    Gelu,
    /// GELU by its approximation with tanh.
    #[serde(
        rename = "gelu_new",
        alias = "gelu_pytorch_tanh",
        alias = "gelu_fast",
        alias = "gelu_accurate"
    )]
    GeluTanh,
    /// `x * sigmoid(1.702 x)`.
    #[serde(rename = "quick_gelu")]
    QuickGelu,
    /// The larger of `x` and 0.
    #[serde(rename = "relu")]
    Relu,
    /// The square of [`Relu`](Self::Relu).
    #[serde(rename = "relu2")]
    ReluSquared,
    /// `x * sigmoid(x)`.
    #[serde(rename = "silu", alias = "swish")]
    Silu,
    /// The hyperbolic tangent.
    #[serde(rename = "tanh")]
    Tanh,
    /// `1 / (1 + exp(-x))`.
    #[serde(rename = "sigmoid")]
    Sigmoid,
    /// `x`.
    #[serde(rename = "linear")]
    Linear,
}

impl Activation {
    /// Applies the activation to each element; shape and dtype stay.
    ///
    /// # Errors
    /// A tensor of integers.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::Activation;
    /// assert_eq!(Activation::ReluSquared.apply(&tensor![-2.0, 3.0])?, tensor![0.0, 9.0]);
    /// assert_eq!(Activation::Silu.apply(&tensor![0.0])?, tensor![0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::Gelu => F::gelu(x),
            Activation::GeluTanh => F::gelu_with(x, GeluOptions::new().approximate("tanh")),
            Activation::QuickGelu => x.mul(1.702)?.sigmoid()?.mul(x),
            Activation::Relu => F::relu(x),
            Activation::ReluSquared => F::relu(x)?.square(),
            Activation::Silu => F::silu(x),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Linear => Ok(x.clone()),
        }
    }
}
