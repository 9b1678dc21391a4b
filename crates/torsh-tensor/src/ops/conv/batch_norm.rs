//! A convolution with the batch norm and the activation that follow it, where no gradient is recorded.

use torsh_core::{DType, Kernel, Result, TorshError, attrs};

use super::{CONV1D, CONV2D, CONV3D, ConvOptions, attributes, check_shape, given};
use crate::call::{Arg, call1};
use crate::ops::definitions;
use crate::record::OpRecord;
use crate::{BatchNormOptions, Tensor};

pub static CONVOLUTION_BATCH_NORM: OpRecord = OpRecord::new(
    "_convolution_batch_norm",
    "convolution, batch_norm by the running statistics, a tensor added to it, and the sum clamped.",
    "(Tensor input, Tensor weight, Tensor? bias, Tensor? norm_weight, Tensor? norm_bias, Tensor running_mean, Tensor running_var, Tensor? other, *, int[] stride, int[] padding, int[] dilation, int groups, int[] output_shape, float eps, float? min, float? max)",
)
.internal()
.kernel(Kernel::ConvBatchNorm, |c| {
    given(c, &c.attrs::<attrs::ConvBatchNorm>()?.output_shape)
})
.definition(definitions::convolution_batch_norm);

/// What follows a convolution in [`Tensor::conv_batch_norm_activation`]: a batch norm by its running statistics, the
/// addition of a residual, and an activation that clamps.
#[derive(Clone, Debug)]
pub struct NormActivation<'a> {
    /// The mean of each channel of the convolution's result.
    pub running_mean: &'a Tensor,
    /// Its variance.
    pub running_var: &'a Tensor,
    /// Weight, bias and `eps` of the norm. `training` must be `false`.
    pub options: BatchNormOptions,
    /// What is added to the normalised result, of its shape.
    pub residual: Option<&'a Tensor>,
    /// The least and the greatest result: `[0, inf]` is a ReLU, `[0, 6]` a ReLU6, `[-inf, inf]` no activation.
    pub clamp: [f64; 2],
}

impl Tensor {
    /// Convolution in `N` dimensions (`torch.nn.functional.conv2d` for 2), then
    /// [`batch_norm_activation`](Tensor::batch_norm_activation) with `then`: a convolutional block in evaluation mode.
    ///
    /// Where no gradient is recorded and all tensors are float32, each part of the convolution's result is normalised,
    /// added to and clamped while it is in the processor's caches. The result is the same as that of the operations one
    /// after the other, which run elsewhere. The errors are theirs.
    ///
    /// ```
    /// use torsh_tensor::{BatchNormOptions, Conv2dOptions, NormActivation, no_grad, tensor};
    /// let (x, w) = (tensor![[[[1.0, 2.0, 5.0]]]], tensor![[[[2.0]]]]);
    /// let (mean, var) = (tensor![3.0], tensor![1.0]);
    /// let then = NormActivation {
    ///     running_mean: &mean,
    ///     running_var: &var,
    ///     options: BatchNormOptions::new().eps(0.0),
    ///     residual: None,
    ///     clamp: [0.0, 6.0],
    /// };
    /// let y = no_grad(|| x.conv_batch_norm_activation(&w, None, Conv2dOptions::new(), then))?;
    /// assert_eq!(y, tensor![[[[0.0, 1.0, 6.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn conv_batch_norm_activation<const N: usize>(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvOptions<N>,
        then: NormActivation<'_>,
    ) -> Result<Tensor> {
        let op = match N {
            1 => &CONV1D,
            2 => &CONV2D,
            3 => &CONV3D,
            _ => {
                let message = format!("images have one to three dimensions, not {N}");
                return Err(TorshError::invalid("conv_batch_norm_activation", message));
            }
        };
        let norm = [then.options.weight.as_ref(), then.options.bias.as_ref()];
        let statistics = [Some(then.running_mean), Some(then.running_var)];
        let of_channels = || norm.iter().chain(&statistics).flatten();
        let all = || {
            of_channels()
                .chain([&self, &weight])
                .chain(bias.iter())
                .chain(then.residual.iter())
        };
        let recorded = crate::is_grad_enabled() && all().any(|t| t.requires_grad());
        let cast = crate::is_autocast_enabled(self.device());
        let fused = !(recorded || cast || then.options.training)
            && self.ndim() == N + 2
            && all().all(|t| t.dtype() == DType::F32);
        // The operations themselves have the errors.
        let attrs = match fused {
            true => attributes(op, [self, weight], bias, &options).ok(),
            false => None,
        };
        let fits = |a: &attrs::Conv| {
            let shape = a.output_shape.iter().map(|&n| n as usize);
            of_channels().all(|t| t.dims() == &weight.dims()[..1])
                && then
                    .residual
                    .is_none_or(|r| shape.eq(r.dims().iter().copied()))
                && check_shape(&a.output_shape, DType::F32).is_ok()
        };
        let Some(a) = attrs.filter(fits) else {
            let y = self.convolution(op, weight, bias, options)?;
            let NormActivation {
                running_mean,
                running_var,
                options,
                residual,
                clamp,
            } = then;
            return y.batch_norm_activation(running_mean, running_var, options, residual, clamp);
        };
        let args = [
            Arg::T(self),
            Arg::T(weight),
            Arg::opt(bias),
            Arg::opt(norm[0]),
            Arg::opt(norm[1]),
            Arg::T(then.running_mean),
            Arg::T(then.running_var),
            Arg::opt(then.residual),
        ];
        let attrs = attrs::ConvBatchNorm {
            stride: a.stride,
            padding: a.padding,
            dilation: a.dilation,
            groups: a.groups,
            output_shape: a.output_shape,
            eps: then.options.eps,
            min: Some(then.clamp[0]),
            max: Some(then.clamp[1]),
        };
        call1(&CONVOLUTION_BATCH_NORM, &args, &attrs)
    }
}
