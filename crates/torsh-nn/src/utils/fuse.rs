//! Folding batch norms into the layers before them.

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
#[torsh_tensor::names_caller]
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
#[torsh_tensor::names_caller]
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
    let options = FuseBnWeightsOptions {
        bn_eps: bn.eps(),
        bn_w: factor.cloned(),
        bn_b: offset.cloned(),
    };
    let own = bias.as_deref();
    let (fused, shifted) = folded(weight, own, [mean, var], &options, L::OUTPUTS)?;
    let bias_grad = bias.as_ref().is_some_and(|b| b.requires_grad());
    *weight = Parameter::with_requires_grad(fused, weight.requires_grad())?;
    *bias = Some(Parameter::with_requires_grad(shifted, bias_grad)?);
    Ok(layer)
}

torsh_tensor::options! {
    /// What [`fuse_conv_bn_weights`] and its kin take of a batch norm beside its running statistics.
    ///
    /// ```
    /// let options = torsh_nn::utils::FuseBnWeightsOptions::new();
    /// assert_eq!((options.bn_eps, options.bn_w.is_none(), options.bn_b.is_none()), (1e-5, true, true));
    /// ```
    FuseBnWeightsOptions {
        /// What is added to the variance.
        bn_eps: f64 = 1e-5;
        /// The learned factor. The default is 1.
        bn_w: Option<Tensor> = None, impl Into<Option<Tensor>> => |t| t.into();
        /// The learned offset. The default is 0.
        bn_b: Option<Tensor> = None, impl Into<Option<Tensor>> => |t| t.into();
    }
}

/// Weight and bias of a convolution that computes what one of `conv_w` and `conv_b` and a batch norm of the running mean
/// `bn_rm` and variance `bn_rv` compute in evaluation (`torch.nn.utils.fuse_conv_bn_weights`). They require gradients where
/// those that are given do.
///
/// ```
/// # use torsh_nn::utils::{FuseBnWeightsOptions, fuse_conv_bn_weights};
/// # use torsh_tensor::tensor;
/// let (w, mean, var) = (tensor![[[[3.0]]]], tensor![1.0], tensor![0.25]);
/// let options = FuseBnWeightsOptions::new().bn_eps(0.0).bn_w(tensor![2.0]).bn_b(tensor![5.0]);
/// let (weight, bias) = fuse_conv_bn_weights(&w, None, &mean, &var, options)?;
/// // (3 x - 1) / 0.5 * 2 + 5
/// assert_eq!((weight.item::<f32>()?, bias.item::<f32>()?), (12.0, 1.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Statistics that do not fit the weight's first dimension.
#[torsh_tensor::names_caller]
pub fn fuse_conv_bn_weights(
    conv_w: &Tensor,
    conv_b: Option<&Tensor>,
    bn_rm: &Tensor,
    bn_rv: &Tensor,
    options: FuseBnWeightsOptions,
) -> Result<(Parameter, Parameter)> {
    fused_parameters(
        "fuse_conv_bn_weights",
        conv_w,
        conv_b,
        [bn_rm, bn_rv],
        &options,
        0,
    )
}

/// [`fuse_conv_bn_weights`] of a transposed convolution (`transpose=True` in PyTorch), whose weight counts outputs in its
/// second dimension.
///
/// ```
/// # use torsh_nn::utils::{FuseBnWeightsOptions, fuse_conv_transpose_bn_weights};
/// # use torsh_tensor::tensor;
/// let (w, mean, var) = (tensor![[[3.0], [4.0]]], tensor![0.0, 0.0], tensor![1.0, 4.0]);
/// let options = FuseBnWeightsOptions::new().bn_eps(0.0);
/// let (weight, _) = fuse_conv_transpose_bn_weights(&w, None, &mean, &var, options)?;
/// assert_eq!(*weight, tensor![[[3.0], [2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Statistics that do not fit the weight's second dimension.
#[torsh_tensor::names_caller]
pub fn fuse_conv_transpose_bn_weights(
    conv_w: &Tensor,
    conv_b: Option<&Tensor>,
    bn_rm: &Tensor,
    bn_rv: &Tensor,
    options: FuseBnWeightsOptions,
) -> Result<(Parameter, Parameter)> {
    fused_parameters(
        "fuse_conv_transpose_bn_weights",
        conv_w,
        conv_b,
        [bn_rm, bn_rv],
        &options,
        1,
    )
}

/// Weight and bias of a linear layer that computes what one of `linear_w` and `linear_b` and a batch norm compute in
/// evaluation (`torch.nn.utils.fuse_linear_bn_weights`).
///
/// ```
/// # use torsh_nn::utils::{FuseBnWeightsOptions, fuse_linear_bn_weights};
/// # use torsh_tensor::tensor;
/// let (w, b, mean, var) = (tensor![[3.0, 1.0]], tensor![2.0], tensor![1.0], tensor![0.25]);
/// let options = FuseBnWeightsOptions::new().bn_eps(0.0);
/// let (weight, bias) = fuse_linear_bn_weights(&w, Some(&b), &mean, &var, options)?;
/// assert_eq!((&*weight, &*bias), (&tensor![[6.0, 2.0]], &tensor![2.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Statistics that do not fit the weight's first dimension.
#[torsh_tensor::names_caller]
pub fn fuse_linear_bn_weights(
    linear_w: &Tensor,
    linear_b: Option<&Tensor>,
    bn_rm: &Tensor,
    bn_rv: &Tensor,
    options: FuseBnWeightsOptions,
) -> Result<(Parameter, Parameter)> {
    let statistics = [bn_rm, bn_rv];
    fused_parameters(
        "fuse_linear_bn_weights",
        linear_w,
        linear_b,
        statistics,
        &options,
        0,
    )
}

fn fused_parameters(
    op: &'static str,
    weight: &Tensor,
    bias: Option<&Tensor>,
    statistics: [&Tensor; 2],
    options: &FuseBnWeightsOptions,
    outputs: usize,
) -> Result<(Parameter, Parameter)> {
    let count = weight.dims().get(outputs).copied();
    if !count.is_some_and(|n| [1, n].contains(&statistics[0].numel())) {
        return Err(TorshError::shape(
            op,
            format!(
                "the weight is {} and the running mean {}",
                weight.describe(),
                statistics[0].describe()
            ),
        ));
    }
    let (fused, shifted) = folded(weight, bias, statistics, options, outputs)?;
    let wants = bias.is_some_and(Tensor::requires_grad);
    Ok((
        Parameter::with_requires_grad(fused, weight.requires_grad())?,
        Parameter::with_requires_grad(shifted, wants)?,
    ))
}

/// Weight and bias with a batch norm folded into them; `outputs` is the weight's dimension that counts the outputs.
fn folded(
    weight: &Tensor,
    bias: Option<&Tensor>,
    [mean, var]: [&Tensor; 2],
    options: &FuseBnWeightsOptions,
    outputs: usize,
) -> Result<(Tensor, Tensor)> {
    no_grad(|| {
        let mut scale = var.add(options.bn_eps)?.rsqrt()?;
        if let Some(factor) = &options.bn_w {
            scale = scale.mul(factor)?;
        }
        let mut along = vec![1i64; weight.ndim()];
        along[outputs] = -1;
        let fused = weight
            .mul(&scale.reshape(along)?)?
            .to_dtype(weight.dtype())?;
        let start = match bias {
            Some(bias) => bias.sub(mean)?,
            None => mean.neg()?,
        };
        let mut shifted = start.mul(&scale)?;
        if let Some(offset) = &options.bn_b {
            shifted = shifted.add(offset)?;
        }
        let dtype = bias.map_or(weight.dtype(), Tensor::dtype);
        let shifted = shifted.expand([weight.dims()[outputs]])?.to_dtype(dtype)?;
        Ok((fused, shifted.copy()?))
    })
}
