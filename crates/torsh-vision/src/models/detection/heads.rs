//! What the heads of detectors share: convolutions, their first weights, and errors.

use torsh_nn::{Conv2d, Module, Parameter, init};
use torsh_tensor::Result;

use crate::models::blocks::{ActivationLayer, Conv2dNormActivation, NormLayer};
use crate::models::common::each_module;

/// A convolution of 3 by 3, a norm and a ReLU.
pub(super) fn conv3x3(
    in_channels: usize,
    out_channels: usize,
    norm: Option<&NormLayer>,
) -> Result<Conv2dNormActivation> {
    Conv2dNormActivation::builder(in_channels, out_channels)
        .norm_layer(norm.cloned())
        .activation_layer(ActivationLayer::relu())
        .build()
}

/// Draws the weights of all 2-d convolutions of a module in order, and sets their biases to 0.
pub(super) fn init_convs(
    module: &(impl Module + ?Sized),
    draw: impl Fn(&Parameter) -> Result<()>,
) -> Result<()> {
    each_module(module, |layer| {
        if let Some(conv) = layer.downcast_ref::<Conv2d>() {
            draw(&conv.weight)?;
            if let Some(bias) = &conv.bias {
                init::zeros_(bias)?;
            }
        }
        Ok(())
    })
}

/// Normal weights of this deviation.
pub(super) fn normal(std: f64) -> impl Fn(&Parameter) -> Result<()> {
    move |weight| init::normal_(weight, 0.0, std).map(|_| ())
}

/// Kaiming's normal weights, by the number of outputs.
pub(super) fn kaiming_normal(weight: &Parameter) -> Result<()> {
    let options = init::KaimingOptions::default().mode(init::FanMode::FanOut);
    init::kaiming_normal_with(weight, options.nonlinearity(init::Nonlinearity::ReLU)).map(|_| ())
}

/// Xavier's uniform weights.
pub(super) fn xavier_uniform(weight: &Parameter) -> Result<()> {
    init::xavier_uniform_(weight, 1.0).map(|_| ())
}

/// `Module::forward` of a module that one tensor is not enough for: an error that names what to call.
macro_rules! forward_is_with {
    ($name:ident, $with:literal) => {
        impl torsh_nn::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                _x: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                Err(torsh_tensor::TorshError::invalid(
                    stringify!($name),
                    "forward takes and gives one tensor, which is not enough here",
                )
                .with_hint(concat!("call ", $with)))
            }
        }
    };
}
pub(crate) use forward_is_with;
