//! Models that classify videos (`torchvision.models.video`).
//!
//! Videos are `[N, 3, T, H, W]`. The models have 400 classes, those of Kinetics, unless the builder says otherwise.
//!
//! | constructors | model |
//! |---|---|
//! | [`r3d_18`], [`mc3_18`], [`r2plus1d_18`] | [`VideoResNet`] |
//! | [`s3d`] | [`S3D`] |
//! | [`mvit_v1_b`], [`mvit_v2_s`] | [`MViT`] |
//! | [`swin3d_t`], [`swin3d_s`], [`swin3d_b`] | [`SwinTransformer3d`] |

mod mvit;
mod resnet;
mod s3d;
mod swin_transformer;

pub use mvit::*;
pub use resnet::*;
pub use s3d::*;
pub use swin_transformer::*;

pub use super::weights::enums::video::*;

use super::Entry;

/// The entries of the families.
pub(super) const FAMILIES: [&[Entry]; 4] = [
    mvit::ENTRIES,
    resnet::ENTRIES,
    s3d::ENTRIES,
    swin_transformer::ENTRIES,
];
