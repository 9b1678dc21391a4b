//! Batch norms folded into the layers ahead of them.

use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::module::{Module, ModuleExt, Parameter};
use crate::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d,
    ConvTranspose2d, ConvTranspose3d, Linear, SyncBatchNorm,
};

/// A linear layer or convolution, whose outputs a batch norm behind it can be folded into.
pub trait Fusible: Module {
    /// The dimension of the weight that counts the outputs (of each group).
    const OUTPUTS: usize;

    /// The weight and the bias.
    fn weight_and_bias(&mut self) -> (&mut Parameter, &mut Option<Parameter>);
}

/// A batch norm: what it does to each feature in evaluation.
pub trait BatchStatistics: Module {
    /// The running mean and variance, where there are any.
    fn statistics(&self) -> Option<(&Tensor, &Tensor)>;

    /// The learned factor and offset.
    fn weight_and_bias(&self) -> (Option<&Tensor>, Option<&Tensor>);

    /// Added to the variance.
    fn eps(&self) -> f64;
}

macro_rules! fusible {
    ($outputs:literal: $($name:ident),*) => {$(
        impl Fusible for $name {
            const OUTPUTS: usize = $outputs;

            fn weight_and_bias(&mut self) -> (&mut Parameter, &mut Option<Parameter>) {
                (&mut self.weight, &mut self.bias)
            }
        }
    )*};
}
fusible!(0: Linear, Conv1d, Conv2d, Conv3d);
fusible!(1: ConvTranspose1d, ConvTranspose2d, ConvTranspose3d);

macro_rules! batch_statistics {
    ($($name:ident),*) => {$(
        impl BatchStatistics for $name {
            fn statistics(&self) -> Option<(&Tensor, &Tensor)> {
                Some((self.running_mean.as_deref()?, self.running_var.as_deref()?))
            }

            fn weight_and_bias(&self) -> (Option<&Tensor>, Option<&Tensor>) {
                (self.weight.as_deref(), self.bias.as_deref())
            }

            fn eps(&self) -> f64 {
                self.added_to_variance()
            }
        }
    )*};
}
batch_statistics!(BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm);

/// A convolution that computes what it and a batch norm behind it do in evaluation
/// (`torch.nn.utils.fuse_conv_bn_eval`). An error unless both are in evaluation mode and the batch
/// norm has running statistics.
///
/// ```
/// use torsh_nn::utils::fuse_conv_bn_eval;
/// use torsh_nn::{BatchNorm2d, Conv2d, Module, ModuleExt};
/// use torsh_tensor::randn;
/// let (conv, norm) = (Conv2d::new(2, 4, 3, 1, 1)?, BatchNorm2d::new(4)?);
/// norm.forward(&conv.forward(&randn(&[8, 2, 5, 5]))?)?; // moves the running statistics
/// conv.eval();
/// norm.eval();
/// let x = randn(&[1, 2, 5, 5]);
/// let both = norm.forward(&conv.forward(&x)?)?;
/// let fused = fuse_conv_bn_eval(conv, &norm)?;
/// assert!(fused.forward(&x)?.sub(&both)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn fuse_conv_bn_eval<C: Fusible>(conv: C, bn: &impl BatchStatistics) -> Result<C> {
    fuse("fuse_conv_bn_eval", conv, bn)
}

/// A linear layer that computes what it and a batch norm behind it do in evaluation
/// (`torch.nn.utils.fuse_linear_bn_eval`). An error unless both are in evaluation mode, and the
/// batch norm has running statistics of one feature or of as many as the layer has outputs.
///
/// ```
/// # use torsh_nn::{BatchNorm1d, Linear, Module, ModuleExt, utils};
/// # use torsh_tensor::ones;
/// let (linear, norm) = (Linear::new(2, 3), BatchNorm1d::new(3)?);
/// linear.eval();
/// norm.eval();
/// let x = ones([4, 2]);
/// let both = norm.forward(&linear.forward(&x)?)?;
/// let fused = utils::fuse_linear_bn_eval(linear, &norm)?;
/// assert!(fused.forward(&x)?.sub(&both)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn fuse_linear_bn_eval(linear: Linear, bn: &impl BatchStatistics) -> Result<Linear> {
    fuse("fuse_linear_bn_eval", linear, bn)
}

#[track_caller]
fn fuse<L: Fusible>(op: &'static str, mut layer: L, bn: &impl BatchStatistics) -> Result<L> {
    if layer.is_training() || bn.is_training() {
        return Err(
            TorshError::invalid(op, "layers can be fused in evaluation mode only")
                .with_hint("call eval() of both"),
        );
    }
    let Some((mean, var)) = bn.statistics() else {
        return Err(TorshError::invalid(
            op,
            "a batch norm without running statistics is no fixed map",
        ));
    };
    let (factor, offset) = bn.weight_and_bias();
    let (weight, bias) = layer.weight_and_bias();
    let outputs = weight.dims()[L::OUTPUTS];
    if ![1, outputs].contains(&mean.numel()) {
        return Err(TorshError::shape(
            op,
            format!(
                "the layer has {outputs} outputs and the batch norm {} features",
                mean.numel()
            ),
        ));
    }
    let (fused, shifted) = no_grad(|| {
        let mut scale = var.add(bn.eps())?.rsqrt()?;
        if let Some(factor) = factor {
            scale = scale.mul(factor)?;
        }
        let mut along = vec![1i64; weight.ndim()];
        along[L::OUTPUTS] = -1;
        let fused = weight
            .mul(&scale.reshape(along)?)?
            .to_dtype(weight.dtype())?;
        let start = match bias {
            Some(bias) => bias.sub(mean)?,
            None => mean.neg()?,
        };
        let mut shifted = start.mul(&scale)?;
        if let Some(offset) = offset {
            shifted = shifted.add(offset)?;
        }
        let shifted = shifted.expand([outputs])?.to_dtype(weight.dtype())?;
        Ok((fused, shifted.copy()?))
    })?;
    let bias_grad = bias.as_ref().is_some_and(|b| b.requires_grad());
    *weight = Parameter::with_requires_grad(fused, weight.requires_grad())?;
    *bias = Some(Parameter::with_requires_grad(shifted, bias_grad)?);
    Ok(layer)
}
