//! Layers that are computed together where no gradient is recorded.

use std::any::Any;

use torsh_functional::BatchNormOptions;
use torsh_tensor::{NormActivation, Result, Tensor};

use crate::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Identity, Module, ReLU, ReLU6,
    SyncBatchNorm,
};

/// A batch norm by its running statistics and an activation that clamps, which go together with the convolution ahead
/// of them or are one pass over its result.
pub(super) struct Fused {
    pub mean: Tensor,
    pub var: Tensor,
    pub options: BatchNormOptions,
    pub clamp: [f64; 2],
}

impl Fused {
    /// These layers as they are now, for an input of so many dimensions as `x`; `None` where they cannot be fused. No
    /// activation changes nothing.
    pub fn new(norm: &dyn Module, activation: Option<&dyn Module>, x: &Tensor) -> Option<Fused> {
        let clamp = activation.map_or(Some(ALL), range)?;
        let norm: &dyn Any = norm;
        if let Some(norm) = norm.downcast_ref::<BatchNorm2d>() {
            return norm.fused(x, clamp);
        }
        if let Some(norm) = norm.downcast_ref::<BatchNorm1d>() {
            return norm.fused(x, clamp);
        }
        if let Some(norm) = norm.downcast_ref::<BatchNorm3d>() {
            return norm.fused(x, clamp);
        }
        norm.downcast_ref::<SyncBatchNorm>()?.fused(x, clamp)
    }

    /// The result, with `residual` added ahead of the activation.
    #[torsh_tensor::names_caller]
    pub fn run(self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let (mean, var) = (&self.mean, &self.var);
        x.batch_norm_activation(mean, var, self.options, residual, self.clamp)
    }

    /// The result for that of a convolution of `x`.
    #[torsh_tensor::names_caller]
    pub fn run_after(
        self,
        conv: Convolution<'_>,
        x: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let then = NormActivation {
            running_mean: &self.mean,
            running_var: &self.var,
            options: self.options,
            residual,
            clamp: self.clamp,
        };
        match conv {
            Convolution::Signals(conv) => conv.forward_then(x, then),
            Convolution::Images(conv) => conv.forward_then(x, then),
            Convolution::Volumes(conv) => conv.forward_then(x, then),
        }
    }
}

/// A convolution without hooks whose images are padded with zeros.
#[derive(Clone, Copy)]
pub(super) enum Convolution<'a> {
    Signals(&'a Conv1d),
    Images(&'a Conv2d),
    Volumes(&'a Conv3d),
}

impl<'a> Convolution<'a> {
    /// The module, where it is one.
    pub fn of(module: &'a dyn Module) -> Option<Convolution<'a>> {
        let module: &dyn Any = module;
        if let Some(conv) = module.downcast_ref::<Conv2d>() {
            return conv.is_plain().then_some(Convolution::Images(conv));
        }
        if let Some(conv) = module.downcast_ref::<Conv1d>() {
            return conv.is_plain().then_some(Convolution::Signals(conv));
        }
        let conv = module.downcast_ref::<Conv3d>()?;
        conv.is_plain().then_some(Convolution::Volumes(conv))
    }
}

/// The range of an activation that changes nothing.
const ALL: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// The range that an activation clamps to; `None` where it does anything else, or has hooks.
pub(super) fn range(activation: &dyn Module) -> Option<[f64; 2]> {
    let activation: &dyn Any = activation;
    if let Some(relu) = activation.downcast_ref::<ReLU>() {
        return relu.is_plain().then_some([0.0, f64::INFINITY]);
    }
    if let Some(relu6) = activation.downcast_ref::<ReLU6>() {
        return relu6.is_plain().then_some([0.0, 6.0]);
    }
    let identity = activation.downcast_ref::<Identity>()?;
    identity.is_plain().then_some(ALL)
}

/// `activation(norm(x))`.
///
/// A [`BatchNorm2d`] (or 1d, 3d) in evaluation mode before a [`ReLU`], [`ReLU6`] or [`Identity`], without hooks and where no gradient
/// is recorded, is one pass over memory in place of two; the result is the same. [`Sequential`](crate::Sequential)
/// does so too. The errors are those of the layers.
///
/// ```
/// use torsh_nn::{BatchNorm2d, ModuleExt, ReLU, norm_activation};
/// use torsh_tensor::{no_grad, tensor};
/// let (norm, relu) = (BatchNorm2d::builder(1).eps(0.0).build()?, ReLU::new());
/// norm.eval();
/// let y = no_grad(|| norm_activation(&norm, &relu, &tensor![[[[-3.0, 2.0]]]]))?;
/// assert_eq!(y, tensor![[[[0.0, 2.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn norm_activation(norm: &dyn Module, activation: &dyn Module, x: &Tensor) -> Result<Tensor> {
    match Fused::new(norm, Some(activation), x) {
        Some(fused) => fused.run(x, None),
        None => activation.forward(&norm.forward(x)?),
    }
}

/// `activation(norm(conv(x)))`.
///
/// Where [`norm_activation`] is one pass and `conv` is a [`Conv2d`] (or 1d, 3d) without hooks that pads with zeros, the
/// result of the convolution is normalised and clamped while it is in the processor's caches, without a pass of its
/// own. The result is the same. [`Sequential`](crate::Sequential) does so too. The errors are those of the layers.
///
/// ```
/// use torsh_nn::{BatchNorm2d, Conv2d, ModuleExt, ReLU, conv_norm_activation, init};
/// use torsh_tensor::{no_grad, tensor};
/// let conv = Conv2d::builder(1, 1, 1).bias(false).build()?;
/// init::constant_(&conv.weight, 2.0)?;
/// let (norm, relu) = (BatchNorm2d::builder(1).eps(0.0).build()?, ReLU::new());
/// norm.eval();
/// let y = no_grad(|| conv_norm_activation(&conv, &norm, &relu, &tensor![[[[-3.0, 2.0]]]]))?;
/// assert_eq!(y, tensor![[[[0.0, 4.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn conv_norm_activation(
    conv: &dyn Module,
    norm: &dyn Module,
    activation: &dyn Module,
    x: &Tensor,
) -> Result<Tensor> {
    match (Convolution::of(conv), Fused::new(norm, Some(activation), x)) {
        (Some(conv), Some(fused)) => fused.run_after(conv, x, None),
        _ => norm_activation(norm, activation, &conv.forward(x)?),
    }
}

/// `activation(norm(conv(x)) + shortcut())`: the end of a residual block, computed as [`conv_norm_activation`] is. The
/// shortcut is computed first where the layers go together, else after the norm.
///
/// ```
/// use torsh_nn::{BatchNorm2d, Conv2d, ModuleExt, ReLU, conv_norm_add_activation, init};
/// use torsh_tensor::{no_grad, tensor};
/// let conv = Conv2d::builder(1, 1, 1).bias(false).build()?;
/// init::constant_(&conv.weight, 2.0)?;
/// let (norm, relu) = (BatchNorm2d::builder(1).eps(0.0).build()?, ReLU::new());
/// norm.eval();
/// let x = tensor![[[[-3.0, 2.0]]]];
/// let y = no_grad(|| conv_norm_add_activation(&conv, &norm, &relu, &x, || Ok(x.clone())))?;
/// assert_eq!(y, tensor![[[[0.0, 6.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn conv_norm_add_activation(
    conv: &dyn Module,
    norm: &dyn Module,
    activation: &dyn Module,
    x: &Tensor,
    shortcut: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    match (Convolution::of(conv), Fused::new(norm, Some(activation), x)) {
        (Some(conv), Some(fused)) => fused.run_after(conv, x, Some(&shortcut()?)),
        (_, Some(fused)) => {
            let y = conv.forward(x)?;
            fused.run(&y, Some(&shortcut()?))
        }
        (_, None) => {
            let y = norm.forward(&conv.forward(x)?)?;
            activation.forward(&y.add(&shortcut()?)?)
        }
    }
}
