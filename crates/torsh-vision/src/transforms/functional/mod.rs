//! What transforms do, as functions of tensors, boxes and points (`torchvision.transforms.v2.functional`).
//!
//! Images are `[.., channels, height, width]`; masks too, and `[height, width]` where a function says so. Integers stay
//! what they are. Floating-point images are from 0 to 1, and their functions are differentiable where torchvision's are.
//!
//! ```
//! use torsh_tensor::{DType, tensor};
//! use torsh_vision::transforms::functional as TF;
//!
//! let image = tensor![[[0, 100, 200]]].to_dtype(DType::U8)?;
//! assert_eq!(TF::adjust_brightness(&image, 1.5)?.to_vec::<u8>()?, [0, 150, 255]);
//! assert_eq!(TF::horizontal_flip(&image)?.to_vec::<u8>()?, [200, 100, 0]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod box_formats;
mod boxes;
mod bytes;
mod clamp;
mod color;
mod geometry;
mod grid;
mod hue;
mod misc;
mod resample;
mod tuning;
mod value_range;
mod warp;

pub use box_formats::convert_bounding_box_format;
pub use boxes::{
    affine_bounding_boxes, affine_keypoints, center_crop_bounding_boxes, center_crop_keypoints,
    crop_bounding_boxes, crop_keypoints, elastic_bounding_boxes, elastic_keypoints,
    horizontal_flip_bounding_boxes, horizontal_flip_keypoints, pad_bounding_boxes, pad_keypoints,
    perspective_bounding_boxes, perspective_keypoints, resize_bounding_boxes, resize_keypoints,
    rotate_bounding_boxes, rotate_keypoints, sanitize_bounding_boxes, sanitize_keypoints,
    vertical_flip_bounding_boxes, vertical_flip_keypoints,
};
pub use clamp::{clamp_bounding_boxes, clamp_keypoints};
pub use color::{
    adjust_brightness, adjust_contrast, adjust_gamma, adjust_gamma_with, adjust_saturation,
    adjust_sharpness, autocontrast, equalize, grayscale_to_rgb, invert, permute_channels,
    posterize, rgb_to_grayscale, solarize, to_grayscale,
};
pub use geometry::{
    PadOptions, ResizeOptions, center_crop, crop, five_crop, hflip, horizontal_flip, pad, pad_with,
    resize, resize_longest, resize_with, resized_crop, resized_crop_with, ten_crop, vertical_flip,
    vflip,
};
pub use hue::adjust_hue;
pub use misc::{
    convert_image_dtype, erase, gaussian_blur, gaussian_noise, jpeg, normalize, to_dtype,
    uniform_temporal_subsample,
};
pub use warp::{
    AffineOptions, Perspective, RotateOptions, WarpOptions, affine, affine_with, elastic,
    elastic_with, perspective, perspective_with, rotate, rotate_with,
};

pub(crate) use boxes::{Move, moved_boxes, moved_points};
pub(crate) use geometry::resized;
pub(crate) use misc::gaussian_blur_f32;
pub(in crate::transforms) use value_range::max_value;
