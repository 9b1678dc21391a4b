//! Detectors: models that find objects in images, with their boxes, masks or key points.
//!
//! | constructor | model | parameters |
//! |---|---|---|
//! | [`fasterrcnn_resnet50_fpn`] | Faster R-CNN on ResNet-50 with a feature pyramid | 41.8 M |
//! | [`fasterrcnn_resnet50_fpn_v2`] | the same, with norms and convolutions in the heads | 43.7 M |
//! | [`fasterrcnn_mobilenet_v3_large_fpn`], [`fasterrcnn_mobilenet_v3_large_320_fpn`] | Faster R-CNN on MobileNetV3-Large | 19.4 M |
//! | [`maskrcnn_resnet50_fpn`], [`maskrcnn_resnet50_fpn_v2`] | Mask R-CNN on ResNet-50 | 44.4 M, 46.4 M |
//! | [`keypointrcnn_resnet50_fpn`] | Keypoint R-CNN on ResNet-50 | 59.1 M |
//! | [`retinanet_resnet50_fpn`], [`retinanet_resnet50_fpn_v2`] | RetinaNet on ResNet-50 | 34.0 M, 38.2 M |
//! | [`fcos_resnet50_fpn`] | FCOS on ResNet-50 | 32.3 M |
//! | [`ssd300_vgg16`] | SSD on VGG-16, images of 300 by 300 | 35.6 M |
//! | [`ssdlite320_mobilenet_v3_large`] | SSDlite on MobileNetV3-Large, images of 320 by 320 | 3.4 M |
//!
//! A detector takes a list of images `[3, h, w]` between 0 and 1, of any sizes, and resizes them itself. In training
//! mode [`losses`](Detector::losses) compares it with [`Target`]s; in evaluation mode [`detect`](Detector::detect) gives a
//! [`Detection`] for each image.
//!
//! Models on backbones of one's own are made of the same parts: a [`Backbone`], anchors, heads and their numbers, as in
//! [`RCNNBuilder::build_of`].

mod anchors;
mod backbones;
mod coders;
mod config;
mod dense;
mod fcos;
mod heads;
mod keypoints;
mod masks;
mod matcher;
mod network;
mod rcnn;
mod retinanet;
mod roi_heads;
mod rpn;
mod ssd;
mod ssd_head;
mod ssdlite;
mod targets;
mod transform;

use torsh_nn::Module;
use torsh_tensor::{Result, Tensor, TorshError};

pub use super::weights::enums::detection::*;
pub use anchors::{AnchorGenerator, DefaultBoxGenerator, DefaultBoxOptions};
pub use backbones::{
    Backbone, BackboneWithFPN, mobilenet_fpn_backbone, resnet_fpn_backbone,
    resnet_fpn_backbone_with,
};
pub use coders::{BoxCoder, BoxLinearCoder};
pub use fcos::{
    FCOS, FCOSBuilder, FCOSClassificationHead, FCOSHead, FCOSRegressionHead, fcos_resnet50_fpn,
};
pub use keypoints::heatmaps_to_keypoints;
pub use masks::paste_masks_in_image;
pub use matcher::{BalancedPositiveNegativeSampler, Matcher, SSDMatcher};
pub use rcnn::{
    FasterRCNN, KeypointRCNN, MaskRCNN, RCNN, RCNNBackbone, RCNNBuilder, RCNNParts,
    fasterrcnn_mobilenet_v3_large_320_fpn, fasterrcnn_mobilenet_v3_large_fpn,
    fasterrcnn_resnet50_fpn, fasterrcnn_resnet50_fpn_v2, keypointrcnn_resnet50_fpn,
    maskrcnn_resnet50_fpn, maskrcnn_resnet50_fpn_v2,
};
pub use retinanet::{
    RetinaNet, RetinaNetBuilder, RetinaNetClassificationHead, RetinaNetHead,
    RetinaNetRegressionHead, RetinaNetVersion, retinanet_resnet50_fpn, retinanet_resnet50_fpn_v2,
};
pub use roi_heads::*;
pub use rpn::{ProposalLimits, RPNHead, RegionProposalNetwork};
pub use ssd::{SSD, SSDBackbone, SSDBuilder, ssd300_vgg16, ssdlite320_mobilenet_v3_large};
pub use ssd_head::{SSDHead, SSDScoringHead};
pub use targets::{Detection, DetectorOutput, Losses, Target};
pub use transform::{
    GeneralizedRCNNTransform, ImageList, TransformOptions, resize_boxes, resize_keypoints,
};

/// The mean of each channel of ImageNet's images.
const IMAGE_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
/// The deviation of each channel of ImageNet's images.
const IMAGE_STD: [f64; 3] = [0.229, 0.224, 0.225];

/// A model that finds objects. The models have these methods themselves; the trait is for code over any of them.
pub trait Detector: Module {
    /// What is in each image `[3, h, w]`, best first; in evaluation mode. No gradients are recorded.
    ///
    /// # Errors
    /// In training mode; images of another rank, dtype or number of channels.
    fn detect(&self, images: &[Tensor]) -> Result<Vec<Detection>>;

    /// The losses of images with what is to be found in them.
    ///
    /// # Errors
    /// As many targets as images is what it takes, boxes with an area, a label for each of them, and what else the model
    /// needs.
    fn losses(&self, images: &[Tensor], targets: &[Target]) -> Result<Losses>;

    /// Whether the model is in training mode.
    fn is_in_training(&self) -> bool;

    /// The losses in training mode, otherwise what is in each image.
    ///
    /// # Errors
    /// In training mode without targets, and those of [`Detector::detect`] and [`Detector::losses`].
    #[torsh_tensor::names_caller]
    fn forward_with(
        &self,
        images: &[Tensor],
        targets: Option<&[Target]>,
    ) -> Result<DetectorOutput> {
        match (self.is_in_training(), targets) {
            (true, Some(targets)) => Ok(DetectorOutput::Losses(self.losses(images, targets)?)),
            (true, None) => Err(TorshError::invalid(
                self.type_name(),
                "a detector in training mode needs targets",
            )
            .with_hint("call eval() to detect")),
            (false, _) => Ok(DetectorOutput::Detections(self.detect(images)?)),
        }
    }
}

/// The families in the registry.
pub(super) fn entries() -> Vec<&'static [super::Entry]> {
    let mut all = rcnn::ENTRIES.to_vec();
    all.extend([retinanet::ENTRIES, fcos::ENTRIES, ssd::ENTRIES]);
    all
}
