//! What the models are built from, for models of one's own too (`torchvision.ops.misc`).
//!
//! | type | what it is |
//! |---|---|
//! | [`Conv2dNormActivation`], [`Conv3dNormActivation`] | a convolution, a norm, an activation |
//! | [`SqueezeExcitation`] | scales channels by what they hold in the mean |
//! | [`MLP`] | linear layers with activations and dropout |
//! | [`StochasticDepth`] | leaves a branch out at random while training |
//! | [`FrozenBatchNorm2d`] | a batch norm whose numbers are fixed |
//! | [`LayerNorm2d`] | a layer norm over the channels of images |
//! | [`Permute`] | reorders dimensions |
//! | [`FeaturePyramidNetwork`], [`LastLevelMaxPool`], [`LastLevelP6P7`] | feature maps of one width, each with what the smaller ones hold |
//! | [`IntermediateLayerGetter`] | the first children of a model, with the results of some of them |
//! | [`NormLayer`], [`ActivationLayer`] | makers of norms and activations, which the others and the models take |
//! | [`make_divisible`] | a number of channels that the hardware likes |
//!
//! ```
//! use torsh_nn::{Module, ModuleExt};
//! use torsh_tensor::ones;
//! use torsh_vision::models::blocks::{ActivationLayer, Conv2dNormActivation};
//!
//! let block = Conv2dNormActivation::builder(3, 8)
//!     .kernel_size(5)
//!     .stride(2)
//!     .activation_layer(ActivationLayer::silu())
//!     .build()?;
//! assert_eq!(block.forward(&ones(&[1, 3, 8, 8]))?.dims(), [1, 8, 4, 4]);
//! assert_eq!(block.state_dict().keys().next(), Some("0.weight"));
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod conv_norm;
mod factories;
mod fpn;
mod getter;
mod inverted_residual;
mod misc;
mod norms;
mod sequence;
mod stochastic_depth;

pub use conv_norm::{
    Conv2dNormActivation, Conv2dNormActivationBuilder, Conv3dNormActivation,
    Conv3dNormActivationBuilder,
};
pub use factories::{ActivationLayer, NormLayer};
pub use fpn::{ExtraFPNBlock, FeatureMaps, FeaturePyramidNetwork, LastLevelMaxPool, LastLevelP6P7};
pub use getter::IntermediateLayerGetter;
pub(crate) use inverted_residual::{InvertedParts, inverted_residual};
pub use misc::{
    MLP, MLPBuilder, Permute, SqueezeExcitation, SqueezeExcitationBuilder, make_divisible,
};
pub use norms::{FrozenBatchNorm2d, LayerNorm2d};
pub(crate) use sequence::sequence;
pub use stochastic_depth::StochasticDepth;

pub use crate::ops::drop::StochasticDepthMode;
