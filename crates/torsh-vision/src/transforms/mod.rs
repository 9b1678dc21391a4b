//! Transforms of images and what goes with them, as `torchvision.transforms.v2`.
//!
//! Images are `[.., channels, height, width]`, uint8 or floating point from 0 to 1. A transform is applied to a tensor,
//! or to a [`Sample`]: a tuple, map or struct with an [`Image`], [`BoundingBoxes`], a [`Mask`], [`KeyPoints`], labels.
//! All its parts change together. Images of uint8 stay uint8, and are computed in whole numbers or tables where that
//! gives torchvision's values.
//!
//! Random transforms draw from the default generator in torchvision's order, so `manual_seed` gives torchvision's
//! choices. Within a [`DataLoader`](torsh_data::DataLoader), the default generator is that of the batch.
//!
//! ```
//! use torsh_tensor::{DType, zeros};
//! use torsh_vision::transforms::{Compose, Normalize, RandomHorizontalFlip, RandomResizedCrop, ToDtype, Transform};
//!
//! let augment = Compose::new()
//!     .then(RandomResizedCrop::new(224))
//!     .then(RandomHorizontalFlip::default())
//!     .then(ToDtype::new(DType::F32).scale(true))
//!     .then(Normalize::new([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])?);
//! let image = zeros([3, 300, 400]).to_dtype(DType::U8)?;
//! assert_eq!(augment.apply(&image)?.dims(), [3, 224, 224]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! [`functional`] has what the transforms do as functions.

pub(crate) mod apply;
mod arguments;
mod augmix;
mod auto;
mod color;
mod containers;
mod crops;
mod detection;
mod draws;
mod erasing;
pub mod functional;
mod geometry;
mod mix;
mod policies;
mod preset;
mod presets;
mod sample;
mod values;
mod warps;

pub use arguments::{Fill, Fills, Padding, PaddingMode, Pair, Size, Span};
pub use augmix::AugMix;
pub use auto::{AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide};
pub use color::{
    ColorJitter, Grayscale, RGB, RandomAdjustSharpness, RandomAutocontrast,
    RandomChannelPermutation, RandomEqualize, RandomGrayscale, RandomInvert,
    RandomPhotometricDistort, RandomPosterize, RandomSolarize,
};
pub use containers::{Identity, RandomApply, RandomChoice, RandomOrder};
pub use crops::{CenterCrop, FiveCrop, RandomCrop, RandomResizedCrop, TenCrop};
pub use detection::{
    ClampBoundingBoxes, ClampKeyPoints, ConvertBoundingBoxFormat, RandomIoUCrop,
    SanitizeBoundingBoxes, SanitizeKeyPoints, SetClampingMode,
};
pub use erasing::RandomErasing;
pub use functional::Perspective;
pub use geometry::{
    Pad, RandomHorizontalFlip, RandomResize, RandomShortestSize, RandomVerticalFlip, RandomZoomOut,
    Resize, ScaleJitter,
};
pub use mix::{CutMix, MixUp};
pub use preset::Preset;
pub use presets::{
    IMAGENET_MEAN, IMAGENET_STD, ImageClassification, ObjectDetection, OpticalFlow,
    SemanticSegmentation, VideoClassification, preprocess_image,
};
pub use sample::{
    BoundingBoxFormat, BoundingBoxes, ClampingMode, Image, Item, KeyPoints, Mask, Sample, Video,
};
pub use torsh_data::transforms::{Compose, Lambda, OneHot, Transform};
pub use torsh_tensor::InterpolateMode;
#[doc(hidden)]
pub use torsh_tensor::Result;
pub use values::{
    ConvertImageDtype, GaussianBlur, GaussianNoise, JPEG, LinearTransformation, Normalize, ToDtype,
    ToTensor, UniformTemporalSubsample,
};
pub use warps::{ElasticTransform, RandomAffine, RandomPerspective, RandomRotation};

#[doc(inline)]
pub use crate::__sample as sample;

pub(crate) use apply::transforms;
