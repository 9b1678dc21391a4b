//! Normalisation within samples.

use torsh_tensor::{IntoDim, IntoShape, Result, Tensor};

pub use torsh_tensor::{
    GroupNormOptions, InstanceNormOptions, LayerNormOptions, LocalResponseNormOptions,
    RmsNormOptions,
};

/// The last dimensions, of `normalized_shape`, less their mean over their standard deviation
/// (`torch.nn.functional.layer_norm`).
///
/// Shape and dtype stay. An error where the last dimensions are others, and for integers.
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

/// [`layer_norm`] with a `weight` and `bias` of `normalized_shape`, or another `eps`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (weight, bias) = (tensor![10.0, 10.0], tensor![0.0, 1.0]);
/// let options = F::LayerNormOptions::new().weight(&weight).bias(&bias).eps(0.0);
/// assert_eq!(F::layer_norm_with(&tensor![[1.0, 3.0]], [2], options)?, tensor![[-10.0, 11.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn layer_norm_with(
    input: &Tensor,
    normalized_shape: impl IntoShape,
    options: LayerNormOptions,
) -> Result<Tensor> {
    input.layer_norm_with(normalized_shape, options)
}

/// The last dimensions, of `normalized_shape`, over their root mean square
/// (`torch.nn.functional.rms_norm`).
///
/// Shape and dtype stay. An error where the last dimensions are others, and for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::rms_norm(&tensor![[7.0, 1.0]], [2])?.allclose(&tensor![[1.4, 0.2]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rms_norm(input: &Tensor, normalized_shape: impl IntoShape) -> Result<Tensor> {
    input.rms_norm(normalized_shape)
}

/// [`rms_norm`] with a `weight` of `normalized_shape`, or another `eps`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![10.0, 1.0];
/// assert!(F::rms_norm_with(&tensor![[7.0, 1.0]], [2], F::RmsNormOptions::new().weight(&weight))?.allclose(&tensor![[14.0, 0.2]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rms_norm_with(
    input: &Tensor,
    normalized_shape: impl IntoShape,
    options: RmsNormOptions,
) -> Result<Tensor> {
    input.rms_norm_with(normalized_shape, options)
}

/// Each sample's channels (dimension 1) in groups, less the group's mean over its standard
/// deviation (`torch.nn.functional.group_norm`).
///
/// Shape and dtype stay. An error where the channels are no multiple of `num_groups`, and for
/// integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1.0, 3.0, 10.0, 30.0]];
/// assert!(F::allclose_with(&F::group_norm(&x, 2)?, &tensor![[-1.0, 1.0, -1.0, 1.0]], F::IscloseOptions::new().atol(1e-4))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn group_norm(input: &Tensor, num_groups: impl IntoDim) -> Result<Tensor> {
    input.group_norm(num_groups)
}

/// [`group_norm`] with a `weight` and `bias` for each channel, or another `eps`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let bias = tensor![0.0, 1.0];
/// let options = F::GroupNormOptions::new().bias(&bias).eps(0.0);
/// assert_eq!(F::group_norm_with(&tensor![[1.0, 3.0]], 1, options)?, tensor![[-1.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn group_norm_with(
    input: &Tensor,
    num_groups: impl IntoDim,
    options: GroupNormOptions,
) -> Result<Tensor> {
    input.group_norm_with(num_groups, options)
}

/// Each sample's channels (dimension 1) less their mean over their standard deviation
/// (`torch.nn.functional.instance_norm`).
///
/// `[N, C, ..]`; shape and dtype stay. An error for fewer than three dimensions, for a single
/// element for each channel, and for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::instance_norm(&tensor![[[1.0, 3.0], [10.0, 30.0]]])?;
/// assert!(F::allclose_with(&y, &tensor![[[-1.0, 1.0], [-1.0, 1.0]]], F::IscloseOptions::new().atol(1e-4))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn instance_norm(input: &Tensor) -> Result<Tensor> {
    input.instance_norm()
}

/// [`instance_norm`] with running statistics, and a `weight` and `bias` for each channel.
///
/// Without `use_input_stats` the running statistics count, and must be there.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![5.0, 1.0];
/// let options = F::InstanceNormOptions::new().weight(&weight).eps(0.0);
/// let y = F::instance_norm_with(&tensor![[[1.0, 3.0], [10.0, 30.0]]], options)?;
/// assert_eq!(y, tensor![[[-5.0, 5.0], [-1.0, 1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn instance_norm_with(input: &Tensor, options: InstanceNormOptions) -> Result<Tensor> {
    input.instance_norm_with(options)
}

/// Each element over a power of the mean of squares over `size` neighbouring channels (dimension 1;
/// `torch.nn.functional.local_response_norm`).
///
/// Shape and dtype stay. An error for fewer than three dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// // 100 / (1 + 1e-4 * 100^2 / 1)^0.75
/// assert!(F::local_response_norm(&tensor![[[100.0]]], 1)?.allclose(&tensor![[[59.460356]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn local_response_norm(input: &Tensor, size: impl IntoDim) -> Result<Tensor> {
    input.local_response_norm(size)
}

/// [`local_response_norm`] with options: `x / (k + alpha * mean)^beta`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::LocalResponseNormOptions::new().alpha(3.0).beta(1.0).k(0.0);
/// // Each channel over the squares of itself and the one before, which are added and halved.
/// assert!(F::local_response_norm_with(&tensor![[[1.0], [1.0]]], 2, options)?.allclose(&tensor![[[0.6666667], [0.3333333]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn local_response_norm_with(
    input: &Tensor,
    size: impl IntoDim,
    options: LocalResponseNormOptions,
) -> Result<Tensor> {
    input.local_response_norm_with(size, options)
}
