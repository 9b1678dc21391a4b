//! The operators that detectors call, with the arguments they need.

use torsh_tensor::{Result, Tensor};

use crate::ops;

pub(super) fn roi_align(
    input: &Tensor,
    rois: &Tensor,
    output_size: (usize, usize),
    spatial_scale: f64,
    sampling_ratio: i64,
) -> Result<Tensor> {
    ops::roi_align(input, rois, output_size, spatial_scale, sampling_ratio, false)
}
