//! Squeeze and excitation, perceptrons, permutations.

use torsh_nn::{AdaptiveAvgPool2d, Conv2d, Dropout, Hooks, Linear, Module, Sequential, Training};
use torsh_tensor::{Result, TorshError};

use super::{ActivationLayer, NormLayer, sequence};

/// The multiple of `divisor` that is nearest to `v`, at least `min_value` (`divisor` where not given), and not below nine
/// tenths of `v`.
///
/// ```
/// use torsh_vision::models::blocks::make_divisible;
/// assert_eq!(make_divisible(33.0, 8, None), 32);
/// assert_eq!(make_divisible(11.0, 8, None), 16);
/// ```
pub fn make_divisible(v: f64, divisor: usize, min_value: Option<usize>) -> usize {
    let nearest = (v + divisor as f64 / 2.0) as usize / divisor * divisor;
    let new = nearest.max(min_value.unwrap_or(divisor));
    match (new as f64) < 0.9 * v {
        true => new.saturating_add(divisor),
        false => new,
    }
}

/// Scales each channel by a number between 0 and 1, which two small layers compute from the means of all channels
/// (`torchvision.ops.SqueezeExcitation`; Hu et al., <https://arxiv.org/abs/1709.01507>).
///
/// Takes `[N, input_channels, H, W]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::ones;
/// use torsh_vision::models::blocks::SqueezeExcitation;
/// let block = SqueezeExcitation::new(8, 2)?;
/// assert_eq!(block.num_parameters(), 8 * 2 + 2 + 2 * 8 + 8);
/// assert_eq!(block.forward(&ones(&[1, 8, 3, 3]))?.dims(), [1, 8, 3, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SqueezeExcitation {
    avgpool: AdaptiveAvgPool2d,
    /// From the means to fewer numbers.
    pub fc1: Conv2d,
    /// Back to a number for each channel.
    pub fc2: Conv2d,
    activation: Box<dyn Module>,
    scale_activation: Box<dyn Module>,
    training: Training,
    hooks: Hooks,
}

/// Builds a [`SqueezeExcitation`].
///
/// ```
/// use torsh_nn::{Module, ModuleExt, init};
/// use torsh_tensor::ones;
/// use torsh_vision::models::blocks::{ActivationLayer, SqueezeExcitation};
/// let block = SqueezeExcitation::builder(4, 2).scale_activation(ActivationLayer::hardsigmoid()).build()?;
/// for parameter in block.parameters() {
///     init::zeros_(&parameter)?;
/// }
/// // Half of everything: the factors are hardsigmoid(0).
/// assert_eq!(block.forward(&ones(&[1, 4, 2, 2]))?, ones(&[1, 4, 2, 2]).mul(0.5)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build()"]
pub struct SqueezeExcitationBuilder {
    input_channels: usize,
    squeeze_channels: usize,
    activation: ActivationLayer,
    scale_activation: ActivationLayer,
}

impl SqueezeExcitation {
    /// Makes the block with a ReLU and a sigmoid.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::SqueezeExcitation;
    /// let block = SqueezeExcitation::new(8, 2)?;
    /// assert_eq!(block.num_parameters(), (8 * 2 + 2) + (2 * 8 + 8));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(input_channels: usize, squeeze_channels: usize) -> Result<SqueezeExcitation> {
        SqueezeExcitation::builder(input_channels, squeeze_channels).build()
    }

    /// Gives a builder of the block, which takes other activations than a ReLU and a sigmoid.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::{ActivationLayer, SqueezeExcitation};
    /// let text = SqueezeExcitation::builder(8, 2).activation(ActivationLayer::silu()).build()?.repr();
    /// assert!(text.contains("(activation): SiLU()") && text.contains("(scale_activation): Sigmoid()"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(input_channels: usize, squeeze_channels: usize) -> SqueezeExcitationBuilder {
        SqueezeExcitationBuilder {
            input_channels,
            squeeze_channels,
            activation: ActivationLayer::relu(),
            scale_activation: ActivationLayer::sigmoid(),
        }
    }
}

impl SqueezeExcitationBuilder {
    setters! {
        /// The activation between the layers. The default is a ReLU.
        activation: ActivationLayer;
        /// The activation that makes the factors. The default is a sigmoid.
        scale_activation: ActivationLayer;
    }

    /// Makes the block. The errors are those of its layers and activations.
    ///
    /// ```
    /// use torsh_vision::models::blocks::SqueezeExcitation;
    /// assert_eq!(SqueezeExcitation::builder(8, 2).build()?.fc1.weight.dims(), [2, 8, 1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<SqueezeExcitation> {
        Ok(SqueezeExcitation {
            avgpool: AdaptiveAvgPool2d::new(1)?,
            fc1: Conv2d::new(self.input_channels, self.squeeze_channels, 1, 1, 0)?,
            fc2: Conv2d::new(self.squeeze_channels, self.input_channels, 1, 1, 0)?,
            activation: self.activation.make()?,
            scale_activation: self.scale_activation.make()?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(SqueezeExcitation, self, x, {
    let scale = self.fc1.forward(&self.avgpool.forward(x)?)?;
    let scale = self.fc2.forward(&self.activation.forward(&scale)?)?;
    self.scale_activation.forward(&scale)?.mul(x)
});

/// Linear layers, each but the last with an activation, all with dropout (`torchvision.ops.MLP`). The children are
/// numbered, as those of a `Sequential`.
///
/// Takes `[.., in_channels]`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::blocks::{ActivationLayer, MLP};
/// let mlp = MLP::builder(4, [8, 2]).activation_layer(ActivationLayer::gelu()).build()?;
/// let names: Vec<String> = mlp.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "3.weight", "3.bias"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct MLP {
    layers: Sequential,
}

sequence!(MLP forwards);

/// Builds a [`MLP`].
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::blocks::{MLP, NormLayer};
/// let mlp = MLP::builder(4, [8, 2]).norm_layer(NormLayer::layer_norm(1e-5)).bias(false).build()?;
/// // Two matrices, and the norm behind the first.
/// assert_eq!(mlp.num_parameters(), 4 * 8 + 2 * 8 + 8 * 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build()"]
pub struct MLPBuilder {
    in_channels: usize,
    hidden_channels: Vec<usize>,
    norm_layer: Option<NormLayer>,
    activation_layer: ActivationLayer,
    bias: bool,
    dropout: f64,
}

impl MLP {
    /// Takes the widths of the layers' results, and gives a builder with a setter for each of torchvision's other
    /// arguments.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::MLP;
    /// assert_eq!(MLP::builder(4, [8, 2]).build()?.num_parameters(), (4 * 8 + 8) + (8 * 2 + 2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(in_channels: usize, hidden_channels: impl Into<Vec<usize>>) -> MLPBuilder {
        MLPBuilder {
            in_channels,
            hidden_channels: hidden_channels.into(),
            norm_layer: None,
            activation_layer: ActivationLayer::relu(),
            bias: true,
            dropout: 0.0,
        }
    }

    /// The layers: linear ones, norms, activations, dropout.
    ///
    /// ```
    /// use torsh_vision::models::blocks::MLP;
    /// let mlp = MLP::builder(4, [8, 2]).build()?;
    /// let names: Vec<&str> = mlp.layers().iter().map(|layer| layer.type_name()).collect();
    /// assert_eq!(names, ["Linear", "ReLU", "Dropout", "Linear", "Dropout"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn layers(&self) -> &Sequential {
        &self.layers
    }
}

impl MLPBuilder {
    setters! {
        /// The norm after each linear layer but the last. The default is none.
        norm_layer: Option<NormLayer>, impl Into<Option<NormLayer>> => Into::into;
        /// The activation. The default is a ReLU.
        activation_layer: ActivationLayer;
        /// Whether the linear layers add a bias. The default is `true`.
        bias: bool;
        /// The probability of dropout. The default is 0.
        dropout: f64;
    }

    /// Makes the layers. An error where there are none, or the probability is not between 0 and 1.
    ///
    /// ```
    /// use torsh_vision::models::blocks::MLP;
    /// let error = MLP::builder(4, Vec::<usize>::new()).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("hidden_channels names no layer")));
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<MLP> {
        let Some((last, hidden)) = self.hidden_channels.split_last() else {
            return Err(TorshError::invalid("MLP", "hidden_channels names no layer"));
        };
        let mut layers = Sequential::new();
        let mut width = self.in_channels;
        for &next in hidden {
            layers.push(Linear::builder(width, next).bias(self.bias).build()?);
            if let Some(norm) = &self.norm_layer {
                layers.push(norm.make(next)?);
            }
            layers.push(self.activation_layer.make()?);
            layers.push(Dropout::new(self.dropout)?);
            width = next;
        }
        layers.push(Linear::builder(width, *last).bias(self.bias).build()?);
        layers.push(Dropout::new(self.dropout)?);
        Ok(MLP { layers })
    }
}

/// Reorders the dimensions (`torchvision.ops.Permute`).
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::ones;
/// use torsh_vision::models::blocks::Permute;
/// assert_eq!(Permute::new([0, 2, 3, 1]).forward(&ones(&[1, 3, 4, 5]))?.dims(), [1, 4, 5, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Permute {
    #[module(skip)]
    dims: Vec<i64>,
    training: Training,
    hooks: Hooks,
}

impl Permute {
    /// Takes the order of the dimensions: the result's first is the input's `dims[0]`.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::Permute;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(Permute::new([1, 0]).forward(&x)?, tensor![[1, 4], [2, 5], [3, 6]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(dims: impl Into<Vec<i64>>) -> Permute {
        Permute {
            dims: dims.into(),
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

forward!(Permute, self, x, x.permute(&self.dims[..]));
