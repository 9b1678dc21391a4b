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

pub use super::weights::enums::segmentation::*;
pub use deeplabv3::*;
pub use fcn::*;
pub use lraspp::*;

use torsh_functional::{self as F, InterpolateOptions};
use torsh_nn::{InterpolateMode, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::IntermediateLayerGetter;
use super::checks::check_rank;
use super::{Entry, MobileNetV3, ResNet, ResNetConfig, Weights};

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
fn features(
    backbone: &IntermediateLayerGetter,
    x: &Tensor,
    names: [&str; 2],
) -> Result<[Option<Tensor>; 2]> {
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

/// [`model_builder!`] of a model on a backbone that may have an auxiliary head, and what the model computes. The
/// numbers of parameters are those of the builder's defaults, and those with an auxiliary head.
macro_rules! segmentation_builder {
    (
        $builder:ident of $model:ident, $count:literal parameters, $aux:literal with aux_loss, $backbone:ident $first:ident,
        head [$($head:literal),*]
    ) => {
        $crate::models::builder::model_builder! {
            #[doc = concat!("Builds a [`", stringify!($model), "`], on a ResNet-50 and without an auxiliary head unless set.")]
            #[doc = $crate::models::common::example!(
                "use torsh_nn::ModuleExt;\n\
                 use torsh_tensor::Device;\n\
                 use torsh_vision::models::segmentation::", stringify!($model), ";\n\
                 let model = ", stringify!($model), "::builder().aux_loss(true).device(Device::Meta).build()?;\n\
                 assert_eq!(model.num_parameters(), ", stringify!($aux), ");"
            )]
            $builder of $model, Segmentation $count parameters, head [$($head),*], loading |loading, this| {
                if let Some(state) = this.common.read()? {
                    let has = state.keys().any(|key| key.starts_with("aux_classifier."));
                    this.aux_loss = this.aux_loss.or(Some(has));
                    this.weights_backbone = $crate::models::Weights::None;
                }
                loading.optional(match this.aux_loss {
                    Some(true) => &[],
                    _ => &["aux_classifier."],
                })
            };
            options {
                /// Whether there is an auxiliary head on earlier features. Unless set, there is one where the weights have
                /// one.
                aux_loss: Option<bool> = None, impl Into<Option<bool>> => Into::into;
            }
            parts {
                /// The network whose features are classified.
                backbone: $backbone = $backbone::$first;
                /// Where the backbone's weights come from, those of a whole classifier, unless `weights` has them. The
                /// default is drawn.
                weights_backbone: $crate::models::Weights = $crate::models::Weights::None,
                    impl Into<$crate::models::Weights> => Into::into;
            }
        }

        impl $model {
            /// Gives the scores of images `[N, 3, H, W]`, and those of the auxiliary head.
            #[doc = $crate::models::common::example!(
                "use torsh_tensor::{Device, zeros};\n\
                 use torsh_vision::models::segmentation::", stringify!($model), ";\n\
                 let model = ", stringify!($model), "::builder().device(Device::Meta).build()?;\n\
                 // One image is no batch.\n\
                 let error = model.forward_with(&zeros(&[3, 33, 40])).err().map(|e| e.to_string());\n\
                 assert!(error.is_some_and(|e| e.contains(\"unsqueeze(0) makes one image a batch\")));"
            )]
            ///
            /// # Errors
            /// What are no images.
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, x: &torsh_tensor::Tensor) -> torsh_tensor::Result<$crate::models::segmentation::SegmentationOutput> {
                let aux = self.aux_classifier.as_ref().map(|head| head as &dyn torsh_nn::Module);
                $crate::models::segmentation::classify(stringify!($model), x, &self.backbone, &self.classifier, aux)
            }
        }

        impl torsh_nn::Module for $model {
            /// Scores `[N, num_classes, H, W]` of images `[N, 3, H, W]`.
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.hooks.run(self, x, |x| Ok(self.forward_with(x)?.out))
            }
        }

        impl $crate::models::VisionModel for $model {
            #[torsh_tensor::names_caller]
            fn outputs(&self, x: &torsh_tensor::Tensor) -> torsh_tensor::Result<Vec<(&'static str, torsh_tensor::Tensor)>> {
                self.forward_with(x).map($crate::models::segmentation::named)
            }
        }
    };
}
use segmentation_builder;

/// What a backbone is asked for: `out`, and `aux` for the auxiliary head.
struct Backbone {
    layers: IntermediateLayerGetter,
    out_channels: usize,
    aux_channels: usize,
}

/// A residual network of stride 8: its last two stages have gaps in their windows instead of steps.
fn resnet(
    make: fn(ResNetConfig) -> Result<ResNet>,
    weights: &Weights,
    aux: bool,
) -> Result<Backbone> {
    let config = ResNet::builder()
        .replace_stride_with_dilation([false, true, true])
        .weights(weights.clone());
    let mut returned = vec![("layer4", "out")];
    if aux {
        returned.push(("layer3", "aux"));
    }
    Ok(Backbone {
        layers: IntermediateLayerGetter::new(make(config)?.into_children(), returned)?,
        out_channels: 2048,
        aux_channels: 1024,
    })
}

/// A large MobileNetV3 of stride 16: the features of its end, and those of stride 8, under these names.
fn mobilenet(weights: &Weights, (end, early): (&str, Option<&str>)) -> Result<Backbone> {
    let net = MobileNetV3::builder()
        .dilated(true)
        .weights(weights.clone())
        .build()?;
    let (stages, channels) = (net.stage_indices(), net.feature_channels());
    let (Some(&last), Some(&fine)) = (stages.last(), stages.iter().rev().nth(3)) else {
        return Err(missing("MobileNetV3", end));
    };
    let (out_channels, aux_channels) = (channels[last], channels[fine]);
    let mut returned = vec![(last.to_string(), end)];
    if let Some(early) = early {
        returned.push((fine.to_string(), early));
    }
    Ok(Backbone {
        layers: IntermediateLayerGetter::new(net.features.into_items(), returned)?,
        out_channels,
        aux_channels,
    })
}

/// The outputs of a model of a backbone, a head and maybe an auxiliary one.
fn classify(
    model: &'static str,
    x: &Tensor,
    backbone: &IntermediateLayerGetter,
    head: &dyn Module,
    aux_head: Option<&dyn Module>,
) -> Result<SegmentationOutput> {
    check_rank(model, x)?;
    let [out, aux] = features(backbone, x, ["out", "aux"])?;
    let out = out.ok_or_else(|| missing(model, "out"))?;
    let out = resized_as(&head.forward(&out)?, x)?;
    let aux = match aux_head {
        Some(head) => {
            let aux = aux.ok_or_else(|| missing(model, "aux"))?;
            Some(resized_as(&head.forward(&aux)?, x)?)
        }
        None => None,
    };
    Ok(SegmentationOutput { out, aux })
}

/// By torchvision's names.
fn named(output: SegmentationOutput) -> Vec<(&'static str, Tensor)> {
    let mut all = vec![("out", output.out)];
    all.extend(output.aux.map(|aux| ("aux", aux)));
    all
}

/// The entries of the families.
pub(super) const FAMILIES: [&[Entry]; 3] = [deeplabv3::ENTRIES, fcn::ENTRIES, lraspp::ENTRIES];
