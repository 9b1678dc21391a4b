//! Parameters that models make themselves, and walks that initialise layers.

use std::any::Any;

use torsh_nn::init::{self, FanMode, KaimingOptions, Nonlinearity};
use torsh_nn::{Linear, Module, ModuleExt, Parameter, construct};
use torsh_tensor::{DType, Result, Tensor};

use super::blocks::{ActivationLayer, MLP};

/// A parameter full of one number, of the construction's dtype on its device.
#[track_caller]
pub(super) fn parameter(shape: &[usize], value: f64) -> Result<Parameter> {
    let tensor = Tensor::full(shape, value, construct::dtype(), construct::device())?;
    Parameter::with_requires_grad(tensor, true)
}

/// An int64 tensor on the construction's device.
#[track_caller]
pub(super) fn integers(values: &[i64], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(values, shape, DType::I64, construct::device())
}

/// A tensor of the construction's dtype on its device.
#[track_caller]
pub(super) fn numbers(values: &[f32], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(values, shape, construct::dtype(), construct::device())
}

/// Calls a function with every layer of a type, in the order of PyTorch's `modules()`.
pub(super) fn each<T: Module>(
    model: &dyn Module,
    mut f: impl FnMut(&T) -> Result<()>,
) -> Result<()> {
    for module in model.modules() {
        if let Some(layer) = (module as &dyn Any).downcast_ref::<T>() {
            f(layer)?;
        }
    }
    Ok(())
}

/// Draws the weight of a linear layer from a normal distribution of deviation 0.02, cut off at 2, and zeros the bias.
pub(super) fn truncated(layer: &Linear) -> Result<()> {
    init::trunc_normal_(&layer.weight, 0.0, 0.02, -2.0, 2.0)?;
    match &layer.bias {
        Some(bias) => init::zeros_(bias).map(drop),
        None => Ok(()),
    }
}

/// As the transformers initialise the perceptron of a block: uniform weights after Glorot, and biases near 0.
pub(super) fn xavier(layer: &Linear) -> Result<()> {
    init::xavier_uniform_(&layer.weight, 1.0)?;
    match &layer.bias {
        Some(bias) => init::normal_(bias, 0.0, 1e-6).map(drop),
        None => Ok(()),
    }
}

/// The perceptron of a transformer's block, of two layers with a GELU in between.
#[track_caller]
pub(super) fn gelu_mlp(channels: usize, layers: [usize; 2], dropout: f64) -> Result<MLP> {
    MLP::builder(channels, layers)
        .activation_layer(ActivationLayer::gelu())
        .dropout(dropout)
        .build()
}

/// [`gelu_mlp`], initialised by [`xavier`].
#[track_caller]
pub(super) fn transformer_mlp(channels: usize, layers: [usize; 2], dropout: f64) -> Result<MLP> {
    let mlp = gelu_mlp(channels, layers, dropout)?;
    each(&mlp, xavier)?;
    Ok(mlp)
}

/// `kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")`, as convolutions are initialised.
pub(super) fn kaiming_weight(weight: &Tensor) -> Result<()> {
    let options = KaimingOptions::default()
        .mode(FanMode::FanOut)
        .nonlinearity(Nonlinearity::ReLU);
    init::kaiming_normal_with(weight, options).map(drop)
}
