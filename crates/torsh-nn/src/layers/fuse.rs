//! Layers that are computed together where no gradient is recorded.

use std::any::Any;

use torsh_functional::BatchNormOptions;
use torsh_tensor::{Result, Tensor};

use crate::{BatchNorm1d, BatchNorm2d, BatchNorm3d, Identity, Module, ReLU, ReLU6, SyncBatchNorm};

/// A batch norm by its running statistics and an activation that clamps, in one pass.
pub(super) struct Fused {
    pub mean: Tensor,
    pub var: Tensor,
    pub options: BatchNormOptions,
    pub clamp: [f64; 2],
}

impl Fused {
    /// The one pass for these layers as they are now; `None` where they have none.
    pub fn new(norm: &dyn Module, activation: &dyn Module, x: &Tensor) -> Option<Fused> {
        let clamp = range(activation)?;
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
    #[track_caller]
    pub fn run(self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let (mean, var) = (&self.mean, &self.var);
        x.batch_norm_activation(mean, var, self.options, residual, self.clamp)
    }
}

/// The range that an activation clamps to; `None` where it does anything else, or has hooks.
fn range(activation: &dyn Module) -> Option<[f64; 2]> {
    let activation: &dyn Any = activation;
    if let Some(relu) = activation.downcast_ref::<ReLU>() {
        return relu.is_plain().then_some([0.0, f64::INFINITY]);
    }
    if let Some(relu6) = activation.downcast_ref::<ReLU6>() {
        return relu6.is_plain().then_some([0.0, 6.0]);
    }
    let identity = activation.downcast_ref::<Identity>()?;
    let all = [f64::NEG_INFINITY, f64::INFINITY];
    identity.is_plain().then_some(all)
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
#[track_caller]
pub fn norm_activation(norm: &dyn Module, activation: &dyn Module, x: &Tensor) -> Result<Tensor> {
    match Fused::new(norm, activation, x) {
        Some(fused) => fused.run(x, None),
        None => activation.forward(&norm.forward(x)?),
    }
}

/// `activation(norm(x) + shortcut())`: the end of a residual block, in one pass where [`norm_activation`] is one. The
/// shortcut is computed after the norm where they are computed apart.
///
/// ```
/// use torsh_nn::{BatchNorm2d, ModuleExt, ReLU, norm_add_activation};
/// use torsh_tensor::{no_grad, tensor};
/// let (norm, relu) = (BatchNorm2d::builder(1).eps(0.0).build()?, ReLU::new());
/// norm.eval();
/// let x = tensor![[[[-3.0, 2.0]]]];
/// let y = no_grad(|| norm_add_activation(&norm, &relu, &x, || x.add(5.0)))?;
/// assert_eq!(y, tensor![[[[0.0, 9.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn norm_add_activation(
    norm: &dyn Module,
    activation: &dyn Module,
    x: &Tensor,
    shortcut: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    match Fused::new(norm, activation, x) {
        Some(fused) => fused.run(x, Some(&shortcut()?)),
        None => {
            let y = norm.forward(x)?;
            activation.forward(&y.add(&shortcut()?)?)
        }
    }
}
