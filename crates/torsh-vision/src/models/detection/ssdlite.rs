//! What SSDlite puts on MobileNetV3 (Howard et al. 2019, <https://arxiv.org/abs/1905.02244>; Sandler et al. 2018,
//! <https://arxiv.org/abs/1801.04381>).

use std::any::Any;

use torsh_nn::{Conv2d, Module, Parameter, Sequential, init};
use torsh_tensor::{Result, Tensor, TorshError};

use super::backbones::{Backbone, mobile_features};
use super::heads::{forward_is_with, init_convs};
use super::ssd_head::SSDHead;
use crate::models::MobileNetV3;
use crate::models::blocks::{ActivationLayer, Conv2dNormActivation, FeatureMaps, NormLayer};
use crate::models::mobilenetv3::InvertedResidual;

/// The weights with which all of SSDlite's convolutions start.
pub(super) fn draw(weight: &Parameter) -> Result<()> {
    init::normal_(weight, 0.0, 0.03).map(|_| ())
}

fn block(
    in_channels: usize,
    out_channels: usize,
    norm: &NormLayer,
) -> crate::models::blocks::Conv2dNormActivationBuilder {
    Conv2dNormActivation::builder(in_channels, out_channels)
        .norm_layer(norm.clone())
        .activation_layer(ActivationLayer::relu6())
}

/// A convolution of each channel for itself, and one of 1 by 1.
fn prediction(in_channels: usize, out_channels: usize, norm: &NormLayer) -> Result<Sequential> {
    let mut layers = Sequential::new();
    layers.push(
        block(in_channels, in_channels, norm)
            .groups(in_channels)
            .build()?,
    );
    layers.push(Conv2d::new(in_channels, out_channels, 1, 1, 0)?);
    Ok(layers)
}

/// A feature map of half the size.
fn extra(in_channels: usize, out_channels: usize, norm: &NormLayer) -> Result<Sequential> {
    let middle = out_channels / 2;
    let mut layers = Sequential::new();
    layers.push(block(in_channels, middle, norm).kernel_size(1).build()?);
    layers.push(
        block(middle, middle, norm)
            .stride(2)
            .groups(middle)
            .build()?,
    );
    layers.push(block(middle, out_channels, norm).kernel_size(1).build()?);
    Ok(layers)
}

/// The heads of feature maps of these numbers of channels, with so many boxes for each element.
pub(super) fn head(
    channels: &[usize],
    boxes: &[usize],
    classes: usize,
    norm: &NormLayer,
) -> Result<SSDHead> {
    let sizes = channels.iter().copied().zip(boxes.iter().copied());
    SSDHead::of(sizes, classes, |c, n| prediction(c, n, norm), draw)
}

/// MobileNetV3 without its head, from which two maps are taken, and four smaller maps.
#[derive(Module)]
pub(super) struct SSDLiteFeatures {
    features: Vec<Sequential>,
    extra: Vec<Sequential>,
    #[module(skip)]
    channels: Vec<usize>,
}

forward_is_with!(SSDLiteFeatures, "features(&x)");

impl SSDLiteFeatures {
    /// Takes the features of a network, of which the last parts are trained.
    pub(super) fn new(
        model: MobileNetV3,
        trainable_layers: usize,
        norm: &NormLayer,
    ) -> Result<SSDLiteFeatures> {
        const OP: &str = "ssdlite320_mobilenet_v3_large";
        let f = mobile_features(OP, model, trainable_layers)?;
        let [.., split, last] = f.stages[..] else {
            return Err(TorshError::invalid(OP, "the network has no two maps"));
        };
        let (mut low, mut high) = (Sequential::new(), Sequential::new());
        let mut widened = None;
        for (i, (_, feature)) in f.items.into_iter().enumerate() {
            if i < split {
                low.push(feature);
            } else if i > split {
                high.push(feature);
            } else {
                // This block is split: where it is widest is the first map.
                let feature: Box<dyn Any> = feature;
                let Ok(block) = feature.downcast::<InvertedResidual>() else {
                    return Err(TorshError::invalid(
                        OP,
                        format!("feature {i} of the network is no inverted residual"),
                    ));
                };
                let mut rest = Sequential::new();
                for (at, (name, layer)) in block.block.into_items().into_iter().enumerate() {
                    if at > 0 {
                        rest.push_named(name, layer)?;
                        continue;
                    }
                    let any: &dyn Any = &*layer;
                    widened = any
                        .downcast_ref::<Conv2dNormActivation>()
                        .map(Conv2dNormActivation::out_channels);
                    low.push(layer);
                }
                high.push(rest);
            }
        }
        let Some(widened) = widened else {
            return Err(TorshError::invalid(
                OP,
                "the block that is split does not widen",
            ));
        };
        let deep = f.channels[last];
        let widths = [deep, 512, 256, 256, 128];
        let extra: Result<Vec<Sequential>> =
            widths.windows(2).map(|w| extra(w[0], w[1], norm)).collect();
        let features = SSDLiteFeatures {
            features: vec![low, high],
            extra: extra?,
            channels: vec![widened, deep, 512, 256, 256, 128],
        };
        for extra in &features.extra {
            init_convs(extra, draw)?;
        }
        Ok(features)
    }
}

impl Backbone for SSDLiteFeatures {
    #[torsh_tensor::names_caller]
    fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
        let mut x = x.clone();
        let mut out = Vec::new();
        for (i, layers) in self.features.iter().chain(&self.extra).enumerate() {
            x = layers.forward(&x)?;
            out.push((i.to_string(), x.clone()));
        }
        Ok(out)
    }

    fn out_channels(&self) -> Vec<usize> {
        self.channels.clone()
    }
}
