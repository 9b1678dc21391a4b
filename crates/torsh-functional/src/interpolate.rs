//! Resizing signals, images and volumes.

use torsh_tensor::{InterpolateMode, InterpolateOptions, IntoShape, Result, Tensor};

/// [`interpolate`](crate::interpolate), by its old name (`torch.nn.functional.upsample_nearest`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::upsample_nearest(&tensor![[[1.0, 2.0]]], 4)?, tensor![[[1.0, 1.0, 2.0, 2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn upsample_nearest(input: &Tensor, size: impl IntoShape) -> Result<Tensor> {
    input.interpolate(size)
}

/// [`upsample_nearest`] by a size or a factor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::InterpolateOptions::new().scale_factor(2.0);
/// assert_eq!(F::upsample_nearest_with(&tensor![[[1.0, 2.0]]], options)?, tensor![[[1.0, 1.0, 2.0, 2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn upsample_nearest_with(input: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    input.interpolate_with(options.mode(InterpolateMode::Nearest))
}

/// Images `[N, C, H, W]` in another size, by lines in both directions from corner to corner
/// (`torch.nn.functional.upsample_bilinear`).
///
/// Keeps the dtype. An error for other dimensions, for integers other than uint8, and for sizes
/// that are not positive.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::upsample_bilinear(&tensor![[[[0.0, 2.0], [4.0, 6.0]]]], 3)?;
/// assert_eq!(y, tensor![[[[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [4.0, 5.0, 6.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn upsample_bilinear(input: &Tensor, size: impl IntoShape) -> Result<Tensor> {
    upsample_bilinear_with(input, InterpolateOptions::new().size(size))
}

/// [`upsample_bilinear`] by a size or a factor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::InterpolateOptions::new().scale_factor(1.5);
/// let y = F::upsample_bilinear_with(&tensor![[[[0.0, 2.0], [4.0, 6.0]]]], options)?;
/// assert_eq!(y, tensor![[[[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [4.0, 5.0, 6.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn upsample_bilinear_with(input: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    let options = options.mode(InterpolateMode::Bilinear).align_corners(true);
    input.interpolate_with(options)
}
