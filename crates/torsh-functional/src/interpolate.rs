//! Resizing signals, images and volumes.

use torsh_tensor::{IntoShape, Result, Tensor};

pub use torsh_tensor::{InterpolateMode, InterpolateOptions, IntoFactors};

/// Signals `[N, C, L]`, images `[N, C, H, W]` or volumes `[N, C, D, H, W]` in another spatial size
/// (one stands for all dimensions), of the nearest elements.
#[track_caller]
pub fn interpolate(input: &Tensor, size: impl IntoShape) -> Result<Tensor> {
    input.interpolate(size)
}

/// [`interpolate`] by a size or a factor, in any mode.
#[track_caller]
pub fn interpolate_with(input: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    input.interpolate_with(options)
}

/// [`interpolate`], by its old name.
#[track_caller]
pub fn upsample_nearest(input: &Tensor, size: impl IntoShape) -> Result<Tensor> {
    input.interpolate(size)
}

/// [`upsample_nearest`] by a size or a factor.
#[track_caller]
pub fn upsample_nearest_with(input: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    input.interpolate_with(options.mode(InterpolateMode::Nearest))
}

/// Images `[N, C, H, W]` in another size, by lines in both directions from corner to corner.
#[track_caller]
pub fn upsample_bilinear(input: &Tensor, size: impl IntoShape) -> Result<Tensor> {
    upsample_bilinear_with(input, InterpolateOptions::new().size(size))
}

/// [`upsample_bilinear`] by a size or a factor.
#[track_caller]
pub fn upsample_bilinear_with(input: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    let options = options.mode(InterpolateMode::Bilinear).align_corners(true);
    input.interpolate_with(options)
}
