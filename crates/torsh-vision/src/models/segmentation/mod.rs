//! Models that give every pixel a class (`torchvision.models.segmentation`).
//!
//! | constructors | model |
//! |---|---|
//! | [`fcn_resnet50`], [`fcn_resnet101`] | [`FCN`] |
//! | [`deeplabv3_resnet50`], [`deeplabv3_resnet101`], [`deeplabv3_mobilenet_v3_large`] | [`DeepLabV3`] |
//! | [`lraspp_mobilenet_v3_large`] | [`LRASPP`] |

mod deeplabv3;
mod fcn;
mod lraspp;

pub use deeplabv3::*;
pub use fcn::*;
pub use lraspp::*;

use torsh_functional::{self as F, InterpolateOptions};
use torsh_nn::InterpolateMode;
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::IntermediateLayerGetter;

/// What a model of segmentation returns: scores `[N, num_classes, H, W]` of the classes of each pixel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentationOutput {
    /// The scores.
    pub out: Tensor,
    /// Those of the auxiliary head, where the model has one.
    pub aux: Option<Tensor>,
}

/// The results of a backbone by their names.
fn features(backbone: &IntermediateLayerGetter, x: &Tensor, names: [&str; 2]) -> Result<[Option<Tensor>; 2]> {
    let mut found = [None, None];
    for (name, value) in backbone.forward_with(x)? {
        if let Some(i) = names.iter().position(|n| *n == name) {
            found[i] = Some(value);
        }
    }
    Ok(found)
}

/// Images resized bilinearly to the height and width of others.
fn resized_as(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let n = like.ndim();
    let options = InterpolateOptions::new()
        .size(&like.dims()[n - 2..])
        .mode(InterpolateMode::Bilinear)
        .align_corners(false);
    F::interpolate_with(x, options)
}

fn missing(model: &'static str, what: &str) -> TorshError {
    TorshError::invalid(model, format!("the backbone returned no features `{what}`"))
}

/// The indices of a MobileNetV3's blocks from which features are taken: the last, of stride 16, and the one of stride 8.
