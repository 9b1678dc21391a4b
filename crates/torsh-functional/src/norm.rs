//! Normalisation within samples.

use torsh_tensor::{IntoDim, IntoShape, Result, Tensor};

pub use torsh_tensor::{
    GroupNormOptions, InstanceNormOptions, LayerNormOptions, LocalResponseNormOptions,
    RmsNormOptions,
};

/// The last dimensions, of `normalized_shape`, less their mean over their standard deviation.
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::tensor;
/// let y = F::layer_norm_with(&tensor![[1.0, 3.0]], [2], F::LayerNormOptions::default().eps(0.0))?;
/// assert_eq!(y, tensor![[-1.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn layer_norm(input: &Tensor, normalized_shape: impl IntoShape) -> Result<Tensor> {
    input.layer_norm(normalized_shape)
}

/// [`layer_norm`] with a weight and bias of `normalized_shape`.
#[track_caller]
pub fn layer_norm_with(
    input: &Tensor,
    normalized_shape: impl IntoShape,
    options: LayerNormOptions,
) -> Result<Tensor> {
    input.layer_norm_with(normalized_shape, options)
}

/// The last dimensions, of `normalized_shape`, over their root mean square.
#[track_caller]
pub fn rms_norm(input: &Tensor, normalized_shape: impl IntoShape) -> Result<Tensor> {
    input.rms_norm(normalized_shape)
}

/// [`rms_norm`] with a weight of `normalized_shape`.
#[track_caller]
pub fn rms_norm_with(
    input: &Tensor,
    normalized_shape: impl IntoShape,
    options: RmsNormOptions,
) -> Result<Tensor> {
    input.rms_norm_with(normalized_shape, options)
}

/// Each sample's channels (dimension 1) in groups, less the group's mean over its standard
/// deviation.
#[track_caller]
pub fn group_norm(input: &Tensor, num_groups: impl IntoDim) -> Result<Tensor> {
    input.group_norm(num_groups)
}

/// [`group_norm`] with a weight and bias for each channel.
#[track_caller]
pub fn group_norm_with(
    input: &Tensor,
    num_groups: impl IntoDim,
    options: GroupNormOptions,
) -> Result<Tensor> {
    input.group_norm_with(num_groups, options)
}

/// Each sample's channels (dimension 1) less their mean over their standard deviation.
#[track_caller]
pub fn instance_norm(input: &Tensor) -> Result<Tensor> {
    input.instance_norm()
}

/// [`instance_norm`] with running statistics, and a weight and bias for each channel.
#[track_caller]
pub fn instance_norm_with(input: &Tensor, options: InstanceNormOptions) -> Result<Tensor> {
    input.instance_norm_with(options)
}

/// Each element over a power of the mean of squares over `size` neighbouring channels
/// (dimension 1).
#[track_caller]
pub fn local_response_norm(input: &Tensor, size: impl IntoDim) -> Result<Tensor> {
    input.local_response_norm(size)
}

/// [`local_response_norm`] with options.
#[track_caller]
pub fn local_response_norm_with(
    input: &Tensor,
    size: impl IntoDim,
    options: LocalResponseNormOptions,
) -> Result<Tensor> {
    input.local_response_norm_with(size, options)
}
