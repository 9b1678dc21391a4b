//! The R-CNN family: Faster, Mask and Keypoint R-CNN.

use serde_json::Value;
use torsh_nn::{Module, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::anchors::AnchorGenerator;
use super::backbones::{Backbone, mobilenet_fpn_backbone, resnet_fpn_backbone_with};
use super::config::{Trained, older_names, trainable_layers, trained};
use super::network::{Found, Network, Parts, detector};
use super::roi_heads::{
    FastRCNNConvFCHead, FastRCNNPredictor, KeypointRCNNHeads, KeypointRCNNPredictor, MaskRCNNHeads,
    MaskRCNNPredictor, RoIHeads, RoILimits, TwoMLPHead,
};
use super::rpn::{ProposalLimits, RPNHead, RegionProposalNetwork};
use super::targets::{Needs, Target};
use super::transform::{GeneralizedRCNNTransform, ImageList, TransformOptions};
use super::{IMAGE_MEAN, IMAGE_STD};
use crate::models::blocks::{FeatureMaps, NormLayer};
use crate::models::builder::{ModelFamily, builder};
use crate::models::common::VisionModel;
use crate::models::weights::{Loading, build};
use crate::models::{Common, MobileNetV3, ResNet, Weights, constructors};
use crate::ops::MultiScaleRoIAlign;

/// The networks under the models of this family.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::detection::{FasterRCNN, RCNNBackbone};
/// let model = FasterRCNN::builder().backbone(RCNNBackbone::ResNet50FpnV2).device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 43_712_278);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RCNNBackbone {
    /// ResNet-50 with a feature pyramid (Lin et al. 2016, <https://arxiv.org/abs/1612.03144>).
    #[default]
    ResNet50Fpn,
    /// The same with norms in the pyramid, and heads of more convolutions (Li et al. 2021,
    /// <https://arxiv.org/abs/2111.11429>).
    ResNet50FpnV2,
    /// MobileNetV3-Large with a feature pyramid.
    MobileNetV3LargeFpn,
    /// The same for images of 320 pixels.
    MobileNetV3Large320Fpn,
}

builder! {
    /// The builder of the R-CNN models, with torchvision's arguments and defaults.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::{FasterRCNN, RCNNBackbone};
    ///
    /// let model = FasterRCNN::builder().backbone(RCNNBackbone::MobileNetV3LargeFpn).num_classes(3).build()?;
    /// assert_eq!(model.roi_heads.box_predictor.cls_score.out_features(), 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RCNNBuilder<M>;
    options {
        /// Key points of Keypoint R-CNN. The default is 17.
        num_keypoints: usize = 17;
        /// How many of the backbone's last parts are trained; unless set, all where weights are drawn, otherwise 3.
        trainable_backbone_layers: Option<usize> = None, usize => Some;
        /// What the shorter side of images becomes, in training one of several sizes; 800 unless set (320 of the
        /// smaller MobileNet, 640 to 800 of Keypoint R-CNN).
        min_size: Option<Vec<usize>> = None, Vec<usize> => Some;
        /// What the longer side of images is at most; 1333 unless set (640 of the smaller MobileNet).
        max_size: Option<usize> = None, usize => Some;
        /// Subtracted from each channel. The default is ImageNet's mean.
        image_mean: Vec<f64> = IMAGE_MEAN.to_vec();
        /// What each channel is divided by. The default is ImageNet's deviation.
        image_std: Vec<f64> = IMAGE_STD.to_vec();
        /// Height and width of padded images are multiples of it. The default is 32.
        size_divisible: usize = 32;
        /// Whether images keep their size in training. The default is `false`.
        skip_resize: bool = false;
        /// How many proposals of each feature map enter the suppression of overlaps in training.
        rpn_pre_nms_top_n_train: usize = 2000;
        /// The same, otherwise; 1000 unless set (150 of the smaller MobileNet).
        rpn_pre_nms_top_n_test: Option<usize> = None, usize => Some;
        /// How many proposals of each image remain in training.
        rpn_post_nms_top_n_train: usize = 2000;
        /// The same, otherwise; 1000 unless set (150 of the smaller MobileNet).
        rpn_post_nms_top_n_test: Option<usize> = None, usize => Some;
        /// The overlap from which on the less likely of two proposals goes.
        rpn_nms_thresh: f64 = 0.7;
        /// From this overlap with a true box on an anchor is foreground.
        rpn_fg_iou_thresh: f64 = 0.7;
        /// Below this overlap an anchor is background.
        rpn_bg_iou_thresh: f64 = 0.3;
        /// How many anchors of each image the loss looks at.
        rpn_batch_size_per_image: usize = 256;
        /// The part of them that is foreground.
        rpn_positive_fraction: f64 = 0.5;
        /// How likely a proposal is at least; 0 unless set (0.05 of the MobileNets).
        rpn_score_thresh: Option<f64> = None, f64 => Some;
        /// How sure a detection is at least.
        box_score_thresh: f64 = 0.05;
        /// The overlap from which on the less sure of two detections of one class goes.
        box_nms_thresh: f64 = 0.5;
        /// How many detections an image has at most.
        box_detections_per_img: usize = 100;
        /// From this overlap with a true box on a proposal is foreground.
        box_fg_iou_thresh: f64 = 0.5;
        /// Below this overlap a proposal is background.
        box_bg_iou_thresh: f64 = 0.5;
        /// How many proposals of each image the loss looks at.
        box_batch_size_per_image: usize = 512;
        /// The part of them that is foreground.
        box_positive_fraction: f64 = 0.25;
        /// The weights of the offsets of boxes.
        bbox_reg_weights: [f64; 4] = [10.0, 10.0, 5.0, 5.0];
    }
    parts {
        /// The network under it. The default is ResNet-50.
        backbone: RCNNBackbone = RCNNBackbone::ResNet50Fpn;
        /// Where the backbone's weights come from, where the model's are drawn.
        weights_backbone: Weights = Weights::None;
        /// The backbone's norms; unless set, batch norms where weights are drawn, otherwise frozen ones.
        norm_layer: Option<NormLayer> = None, NormLayer => Some;
        /// The anchors; unless set, one size (32 to 512) and three aspect ratios for each of five feature maps.
        rpn_anchor_generator: Option<AnchorGenerator> = None, AnchorGenerator => Some;
        /// Cuts proposals out of the feature maps. The default is 7 by 7 of the maps `0` to `3`.
        box_roi_pool: Option<MultiScaleRoIAlign> = None, MultiScaleRoIAlign => Some;
        /// Cuts boxes out for masks. The default is 14 by 14 of the maps `0` to `3`.
        mask_roi_pool: Option<MultiScaleRoIAlign> = None, MultiScaleRoIAlign => Some;
        /// Cuts boxes out for key points. The default is 14 by 14 of the maps `0` to `3`.
        keypoint_roi_pool: Option<MultiScaleRoIAlign> = None, MultiScaleRoIAlign => Some;
    }
}

/// Parts of an R-CNN model that are not the usual ones.
///
/// ```
/// use torsh_vision::models::detection::{FastRCNNPredictor, RCNNParts, TwoMLPHead};
/// // A small head behind what is cut out of maps of 8 channels, for three classes.
/// let parts = RCNNParts {
///     box_head: Some(Box::new(TwoMLPHead::new(8 * 49, 16)?)),
///     box_predictor: Some(FastRCNNPredictor::new(16, 3)?),
///     ..Default::default()
/// };
/// assert_eq!(parts.box_predictor.map(|predictor| predictor.cls_score.in_features()), Some(16));
/// assert!(parts.rpn_head.is_none()); // the usual one
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct RCNNParts {
    /// What the region proposal network says of anchors.
    pub rpn_head: Option<RPNHead>,
    /// Layers on what is in a proposal.
    pub box_head: Option<Box<dyn Module>>,
    /// Classes and offsets of proposals.
    pub box_predictor: Option<FastRCNNPredictor>,
    /// Layers on what is in a box, for its mask.
    pub mask_head: Option<Box<dyn Module>>,
    /// Masks.
    pub mask_predictor: Option<Box<dyn Module>>,
    /// Layers on what is in a box, for its key points.
    pub keypoint_head: Option<Box<dyn Module>>,
    /// Key points.
    pub keypoint_predictor: Option<KeypointRCNNPredictor>,
}

/// What a model of the family finds besides boxes.
#[derive(Clone, Copy, PartialEq)]
#[doc(hidden)]
pub enum Finds {
    Boxes,
    Masks,
    Keypoints,
}

/// One size and three aspect ratios for each of five feature maps.
pub(super) fn default_anchors() -> Result<AnchorGenerator> {
    let sizes = [32.0, 64.0, 128.0, 256.0, 512.0].map(|s| vec![s]);
    AnchorGenerator::new(sizes.to_vec(), vec![vec![0.5, 1.0, 2.0]; 5])
}

/// The channels of a backbone whose feature maps have all the same number of them.
pub(super) fn channels(op: &'static str, backbone: &dyn Backbone) -> Result<usize> {
    let channels = backbone.out_channels();
    match channels.first() {
        Some(&first) if channels.iter().all(|c| *c == first) => Ok(first),
        _ => Err(TorshError::invalid(
            op,
            format!("the backbone's feature maps have one number of channels, got {channels:?}"),
        )),
    }
}

#[doc(hidden)]
pub type Made = (GeneralizedRCNNTransform, RegionProposalNetwork, RoIHeads);

/// All of a model but its backbone, drawn in torchvision's order.
fn make(
    op: &'static str,
    finds: Finds,
    backbone: &dyn Backbone,
    parts: RCNNParts,
    c: &RCNNBuilder<impl Sized>,
) -> Result<Made> {
    let channels = channels(op, backbone)?;
    let classes = c
        .common
        .num_classes
        .unwrap_or(if finds == Finds::Keypoints { 2 } else { 91 });
    if classes < 2 {
        return Err(TorshError::invalid(
            op,
            format!("num_classes counts background, so there are at least 2, got {classes}"),
        ));
    }
    let pool = |given: &Option<MultiScaleRoIAlign>, size: usize| {
        let usual = || MultiScaleRoIAlign::new(["0", "1", "2", "3"], (size, size), 2);
        given.clone().unwrap_or_else(usual)
    };
    let (mut mask, mut keypoint) = (None, None);
    match finds {
        Finds::Boxes => {}
        Finds::Masks => {
            let head = match parts.mask_head {
                Some(head) => head,
                None => Box::new(MaskRCNNHeads::new(channels, &[256; 4], None)?),
            };
            let predictor = match parts.mask_predictor {
                Some(predictor) => predictor,
                None => Box::new(MaskRCNNPredictor::new(256, 256, classes)?),
            };
            mask = Some((head, predictor));
        }
        Finds::Keypoints => {
            let head = match parts.keypoint_head {
                Some(head) => head,
                None => Box::new(KeypointRCNNHeads::new(channels, &[512; 8])?),
            };
            let predictor = match parts.keypoint_predictor {
                Some(predictor) => predictor,
                None => KeypointRCNNPredictor::new(512, c.num_keypoints)?,
            };
            keypoint = Some((head, predictor));
        }
    }
    let anchors = match &c.rpn_anchor_generator {
        Some(anchors) => anchors.clone(),
        None => default_anchors()?,
    };
    let rpn_head = match parts.rpn_head {
        Some(head) => head,
        None => RPNHead::new(channels, anchors.num_anchors_per_location()[0], 1)?,
    };
    let limits = ProposalLimits {
        fg_iou_thresh: c.rpn_fg_iou_thresh,
        bg_iou_thresh: c.rpn_bg_iou_thresh,
        batch_size_per_image: c.rpn_batch_size_per_image,
        positive_fraction: c.rpn_positive_fraction,
        pre_nms_top_n: (
            c.rpn_pre_nms_top_n_train,
            c.rpn_pre_nms_top_n_test.unwrap_or(1000),
        ),
        post_nms_top_n: (
            c.rpn_post_nms_top_n_train,
            c.rpn_post_nms_top_n_test.unwrap_or(1000),
        ),
        nms_thresh: c.rpn_nms_thresh,
        score_thresh: c.rpn_score_thresh.unwrap_or(0.0),
    };
    let rpn = RegionProposalNetwork::new(anchors, rpn_head, limits)?;
    let box_roi_pool = pool(&c.box_roi_pool, 7);
    let box_head = match parts.box_head {
        Some(head) => head,
        None => {
            let (h, w) = box_roi_pool.output_size;
            Box::new(TwoMLPHead::new(channels * h * w, 1024)?)
        }
    };
    let box_predictor = match parts.box_predictor {
        Some(predictor) => predictor,
        None => FastRCNNPredictor::new(1024, classes)?,
    };
    let limits = RoILimits {
        fg_iou_thresh: c.box_fg_iou_thresh,
        bg_iou_thresh: c.box_bg_iou_thresh,
        batch_size_per_image: c.box_batch_size_per_image,
        positive_fraction: c.box_positive_fraction,
        bbox_reg_weights: c.bbox_reg_weights,
        score_thresh: c.box_score_thresh,
        nms_thresh: c.box_nms_thresh,
        detections_per_img: c.box_detections_per_img,
    };
    let mut heads = RoIHeads::new(box_roi_pool, box_head, box_predictor, limits)?;
    if let Some((head, predictor)) = mask {
        heads.mask_roi_pool = Some(pool(&c.mask_roi_pool, 14));
        (heads.mask_head, heads.mask_predictor) = (Some(head), Some(predictor));
    }
    if let Some((head, predictor)) = keypoint {
        heads.keypoint_roi_pool = Some(pool(&c.keypoint_roi_pool, 14));
        (heads.keypoint_head, heads.keypoint_predictor) = (Some(head), Some(predictor));
    }
    let sizes = c.min_size.clone().unwrap_or_else(|| match finds {
        Finds::Keypoints => vec![640, 672, 704, 736, 768, 800],
        _ => vec![800],
    });
    let options = TransformOptions::new()
        .size_divisible(c.size_divisible)
        .skip_resize(c.skip_resize);
    let max_size = c.max_size.unwrap_or(1333);
    let transform =
        GeneralizedRCNNTransform::new(&sizes, max_size, &c.image_mean, &c.image_std, options)?;
    Ok((transform, rpn, heads))
}

/// A model of this family, as [`RCNNBuilder`] makes it.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::{Device, Result};
/// use torsh_vision::models::detection::{FasterRCNN, MaskRCNN, RCNN, RCNNBuilder};
///
/// fn size<M: RCNN>(builder: RCNNBuilder<M>) -> Result<usize> {
///     Ok(builder.device(Device::Meta).build()?.num_parameters())
/// }
/// assert_eq!(size(FasterRCNN::builder())?, 41_808_406);
/// assert_eq!(size(MaskRCNN::builder())?, 44_454_513);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait RCNN: Module + Sized {
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    const FINDS: Finds;
    #[doc(hidden)]
    fn of_parts(backbone: Box<dyn Backbone>, parts: Made) -> Self;
}

impl<M: RCNN> RCNNBuilder<M> {
    /// Makes the model on the network that [`backbone`](RCNNBuilder::backbone) names.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::FasterRCNN;
    /// // Background is a class.
    /// let error = FasterRCNN::builder().num_classes(1).device(Device::Meta).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("num_classes counts background, so there are at least 2, got 1")));
    /// ```
    ///
    /// # Errors
    /// Weights that do not fit, more trainable layers than there are, anchors that do not fit the backbone.
    #[torsh_tensor::names_caller]
    pub fn build(mut self) -> Result<M> {
        let heads: &[&str] = &[
            "roi_heads.box_predictor.",
            "roi_heads.mask_predictor.mask_fcn_logits.",
        ];
        let loading = Loading::new(M::NAME, heads).rename(older_names);
        self.common.read()?;
        let trained = trained(&self.common, &self.weights_backbone)?;
        build(&self.common, loading, || self.make(&trained))
    }

    /// Makes the model on a backbone of one's own, with the usual parts.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, ModuleExt, sequential};
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
    /// use torsh_vision::models::detection::{BackboneWithFPN, FasterRCNN};
    ///
    /// let body = IntermediateLayerGetter::new(sequential![Conv2d::new(3, 8, 3, 8, 1)?].into_items(), [("0", "0")])?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 8, (Box::new(LastLevelMaxPool::new()), 1), None)?;
    /// let model = FasterRCNN::builder().num_classes(3).device(Device::Meta).build_on(backbone)?;
    /// // The usual head reads 7 by 7 elements of the backbone's 8 channels.
    /// assert_eq!(model.get_parameter("roi_heads.box_head.fc6.weight")?.dims(), [1024, 8 * 49]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A backbone whose feature maps differ in channels, anchors that do not fit it.
    #[track_caller]
    pub fn build_on(self, backbone: impl Backbone) -> Result<M> {
        self.build_of(backbone, RCNNParts::default())
    }

    /// Makes the model on a backbone of one's own, with parts of one's own.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, sequential};
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
    /// use torsh_vision::models::detection::{BackboneWithFPN, FastRCNNPredictor, FasterRCNN, RCNNParts, TwoMLPHead};
    ///
    /// let body = IntermediateLayerGetter::new(sequential![Conv2d::new(3, 8, 3, 8, 1)?].into_items(), [("0", "0")])?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 8, (Box::new(LastLevelMaxPool::new()), 1), None)?;
    /// let parts = RCNNParts {
    ///     box_head: Some(Box::new(TwoMLPHead::new(8 * 49, 16)?)),
    ///     box_predictor: Some(FastRCNNPredictor::new(16, 3)?),
    ///     ..Default::default()
    /// };
    /// let model = FasterRCNN::builder().build_of(backbone, parts)?;
    /// assert_eq!(model.roi_heads.box_predictor.bbox_pred.out_features(), 4 * 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A backbone whose feature maps differ in channels, anchors that do not fit it; weights, which are loaded by
    /// `load_state_dict` here.
    #[torsh_tensor::names_caller]
    pub fn build_of(self, backbone: impl Backbone, parts: RCNNParts) -> Result<M> {
        if !self.common.weights.is_none() || !self.weights_backbone.is_none() {
            return Err(TorshError::invalid(
                M::NAME,
                "a backbone of one's own comes with its weights",
            )
            .with_hint("load_state_dict of the model takes the rest"));
        }
        let construction = self.common.construction();
        let made = construction.run(|| make(M::NAME, M::FINDS, &backbone, parts, &self))?;
        Ok(M::of_parts(Box::new(backbone), made))
    }

    fn make(&self, trained: &Trained) -> Result<M> {
        let frozen = || match trained.batch_norm {
            true => NormLayer::batch_norm_2d(),
            false => NormLayer::frozen_batch_norm_2d_with(self.common.weights.frozen_eps()),
        };
        let v2 = self.backbone == RCNNBackbone::ResNet50FpnV2;
        let norm = match (&self.norm_layer, v2) {
            (Some(norm), _) => norm.clone(),
            (None, true) => NormLayer::batch_norm_2d(),
            (None, false) => frozen(),
        };
        let layers = |max: usize| {
            trainable_layers(
                M::NAME,
                trained.trained,
                self.trainable_backbone_layers,
                max,
                3,
            )
        };
        let (mut parts, mut with) = (RCNNParts::default(), self.clone());
        let backbone = match self.backbone {
            RCNNBackbone::ResNet50Fpn | RCNNBackbone::ResNet50FpnV2 => {
                let resnet = ResNet::builder()
                    .norm_layer(norm)
                    .weights(self.weights_backbone.clone());
                let resnet = ResNet::resnet50(resnet)?;
                let norm = v2.then(NormLayer::batch_norm_2d);
                resnet_fpn_backbone_with(resnet, layers(5)?, &[1, 2, 3, 4], None, norm)?
            }
            RCNNBackbone::MobileNetV3LargeFpn | RCNNBackbone::MobileNetV3Large320Fpn => {
                let anchors = vec![vec![32.0, 64.0, 128.0, 256.0, 512.0]; 3];
                let anchors = AnchorGenerator::new(anchors, vec![vec![0.5, 1.0, 2.0]; 3])?;
                with.rpn_anchor_generator.get_or_insert(anchors);
                with.rpn_score_thresh.get_or_insert(0.05);
                if self.backbone == RCNNBackbone::MobileNetV3Large320Fpn {
                    with.min_size.get_or_insert_with(|| vec![320]);
                    with.max_size.get_or_insert(640);
                    with.rpn_pre_nms_top_n_test.get_or_insert(150);
                    with.rpn_post_nms_top_n_test.get_or_insert(150);
                }
                let mobile = MobileNetV3::builder()
                    .norm_layer(norm)
                    .weights(self.weights_backbone.clone());
                mobilenet_fpn_backbone(mobile.build()?, layers(6)?)?
            }
        };
        if v2 {
            let norm = Some(NormLayer::batch_norm_2d());
            parts.rpn_head = Some(RPNHead::new(256, 3, 2)?);
            let head = FastRCNNConvFCHead::new([256, 7, 7], &[256; 4], &[1024], norm.clone())?;
            parts.box_head = Some(Box::new(head));
            if M::FINDS == Finds::Masks {
                parts.mask_head = Some(Box::new(MaskRCNNHeads::new(256, &[256; 4], norm)?));
            }
        }
        let made = make(M::NAME, M::FINDS, &backbone, parts, &with)?;
        Ok(M::of_parts(Box::new(backbone), made))
    }
}

impl<M: RCNN + VisionModel> ModelFamily for RCNNBuilder<M> {
    type Model = M;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn option(&mut self, name: &str, value: &Value) -> Result<bool> {
        self.take(name, value)
    }

    fn build_model(self) -> Result<M> {
        self.build()
    }
}

macro_rules! rcnn {
    ($($(#[$doc:meta])* $name:ident $finds:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// Resizes and pads images.
            #[module(skip)]
            pub transform: GeneralizedRCNNTransform,
            /// Makes the feature maps.
            pub backbone: Box<dyn Backbone>,
            /// Proposes boxes.
            pub rpn: RegionProposalNetwork,
            /// Says what is in them.
            pub roi_heads: RoIHeads,
            training: Training,
        }

        impl $name {
            /// Gives a builder, which has a setter for each of torchvision's arguments, at its default.
            #[doc = $crate::models::common::example!(
                "use torsh_tensor::Device;\n\
                 use torsh_vision::models::detection::", stringify!($name), ";\n\
                 let builder = ", stringify!($name), "::builder().min_size(vec![400]).max_size(640);\n\
                 let model = builder.device(Device::Meta).build()?;\n\
                 assert_eq!((model.transform.min_size, model.transform.max_size), (vec![400], 640));"
            )]
            pub fn builder() -> RCNNBuilder<$name> {
                RCNNBuilder::default()
            }
        }

        impl Network for $name {
            fn parts(&self) -> Parts<'_> {
                (&self.transform, &*self.backbone, &self.training)
            }

            fn needs(&self) -> Needs {
                Needs {
                    classes: self.roi_heads.box_predictor.cls_score.out_features(),
                    masks: self.roi_heads.mask_predictor.is_some(),
                    keypoints: self.roi_heads.keypoint_predictor.as_ref().map(KeypointRCNNPredictor::num_keypoints),
                }
            }

            fn of_maps(&self, maps: FeatureMaps, images: &ImageList, targets: Option<&[Target]>) -> Result<Found> {
                let only: Vec<Tensor> = maps.iter().map(|(_, map)| map.clone()).collect();
                let (proposals, of_proposals) = self.rpn.forward_with(images, &only, targets)?;
                let (found, mut losses) = self.roi_heads.forward_with(&maps, proposals, &images.image_sizes, targets)?;
                losses.extend(of_proposals);
                Ok((found, losses))
            }
        }

        detector!($name);

        impl RCNN for $name {
            const NAME: &'static str = stringify!($name);
            const FINDS: Finds = Finds::$finds;

            fn of_parts(backbone: Box<dyn Backbone>, (transform, rpn, roi_heads): Made) -> Self {
                $name { transform, backbone, rpn, roi_heads, training: Training::default() }
            }
        }
    )*};
}

rcnn! {
    /// Faster R-CNN (Ren et al. 2015, <https://arxiv.org/abs/1506.01497>): finds boxes of objects and says what they are.
    ///
    /// Takes images `[3, h, w]` between 0 and 1 of any sizes. In training its losses are `loss_classifier`,
    /// `loss_box_reg`, `loss_objectness` and `loss_rpn_box_reg`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::FasterRCNN;
    /// let model = FasterRCNN::builder().num_classes(5).device(Device::Meta).build()?;
    /// assert_eq!(model.roi_heads.box_predictor.cls_score.out_features(), 5);
    /// assert_eq!(model.num_parameters(), 41_367_656);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FasterRCNN Boxes;
    /// Mask R-CNN (He et al. 2017, <https://arxiv.org/abs/1703.06870>): Faster R-CNN that also finds each object's mask.
    ///
    /// Takes images `[3, h, w]` between 0 and 1 of any sizes; targets have masks. It has the loss `loss_mask` more.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::MaskRCNN;
    /// let model = MaskRCNN::builder().num_classes(5).device(Device::Meta).build()?;
    /// assert_eq!(model.roi_heads.box_predictor.cls_score.out_features(), 5);
    /// assert_eq!(model.num_parameters(), 43_991_661);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaskRCNN Masks;
    /// Keypoint R-CNN (He et al. 2017, <https://arxiv.org/abs/1703.06870>): Faster R-CNN of people that also finds the key
    /// points of each.
    ///
    /// Takes images `[3, h, w]` between 0 and 1 of any sizes; targets have key points. It has the loss `loss_keypoint` more.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::KeypointRCNN;
    /// let model = KeypointRCNN::builder().num_classes(2).device(Device::Meta).build()?;
    /// assert_eq!(model.roi_heads.box_predictor.cls_score.out_features(), 2);
    /// assert_eq!(model.num_parameters(), 59_190_378);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    KeypointRCNN Keypoints;
}

/// The constructors of Faster R-CNN.
mod faster {
    use super::{FasterRCNN, RCNNBackbone, constructors};

    constructors! {
        Detection, FasterRCNN;
        /// Faster R-CNN on ResNet-50 with a feature pyramid: 41.8 million parameters, images of any size
        /// (<https://arxiv.org/abs/1506.01497>).
        ///
        /// With drawn weights the backbone's norms are batch norms, which learn: 53,120 parameters more than with the
        /// published weights.
        fasterrcnn_resnet50_fpn, 41_808_406 parameters => FasterRCNN::builder();
        /// Faster R-CNN on ResNet-50 with norms in the feature pyramid, and heads of more convolutions: 43.7 million
        /// parameters, images of any size (<https://arxiv.org/abs/2111.11429>).
        fasterrcnn_resnet50_fpn_v2, 43_712_278 parameters => FasterRCNN::builder().backbone(RCNNBackbone::ResNet50FpnV2);
        /// Faster R-CNN on MobileNetV3-Large with a feature pyramid: 19.4 million parameters, images of any size
        /// (<https://arxiv.org/abs/1905.02244>).
        fasterrcnn_mobilenet_v3_large_fpn, 19_410_754 parameters => FasterRCNN::builder().backbone(RCNNBackbone::MobileNetV3LargeFpn);
        /// Faster R-CNN on MobileNetV3-Large with smaller images: 19.4 million parameters, images of any size, whose
        /// shorter side becomes 320 (<https://arxiv.org/abs/1905.02244>).
        fasterrcnn_mobilenet_v3_large_320_fpn, 19_410_754 parameters => FasterRCNN::builder().backbone(RCNNBackbone::MobileNetV3Large320Fpn);
    }
}

/// The constructors of Mask R-CNN.
mod mask {
    use super::{MaskRCNN, RCNNBackbone, constructors};

    constructors! {
        Detection, MaskRCNN;
        /// Mask R-CNN on ResNet-50 with a feature pyramid: 44.4 million parameters, images of any size
        /// (<https://arxiv.org/abs/1703.06870>).
        maskrcnn_resnet50_fpn, 44_454_513 parameters => MaskRCNN::builder();
        /// Mask R-CNN on ResNet-50 with norms in the feature pyramid, and heads of more convolutions: 46.4 million
        /// parameters, images of any size (<https://arxiv.org/abs/2111.11429>).
        maskrcnn_resnet50_fpn_v2, 46_359_409 parameters => MaskRCNN::builder().backbone(RCNNBackbone::ResNet50FpnV2);
    }
}

/// The constructor of Keypoint R-CNN.
mod keypoint {
    use super::{KeypointRCNN, constructors};

    constructors! {
        Detection, KeypointRCNN;
        /// Keypoint R-CNN on ResNet-50 with a feature pyramid, for people and their 17 key points: 59.1 million
        /// parameters, images of any size (<https://arxiv.org/abs/1703.06870>).
        keypointrcnn_resnet50_fpn, 59_190_378 parameters => KeypointRCNN::builder();
    }
}

pub use faster::{
    fasterrcnn_mobilenet_v3_large_320_fpn, fasterrcnn_mobilenet_v3_large_fpn,
    fasterrcnn_resnet50_fpn, fasterrcnn_resnet50_fpn_v2,
};
pub use keypoint::keypointrcnn_resnet50_fpn;
pub use mask::{maskrcnn_resnet50_fpn, maskrcnn_resnet50_fpn_v2};

/// The family in the registry.
pub(crate) const ENTRIES: [&[crate::models::Entry]; 3] =
    [faster::ENTRIES, mask::ENTRIES, keypoint::ENTRIES];
