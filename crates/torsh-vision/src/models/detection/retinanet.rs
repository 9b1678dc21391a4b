//! RetinaNet.

use torsh_functional as F;
use torsh_nn::{Conv2d, Module, Reduction, Sequential, Training, init};
use torsh_tensor::{LossOptions, Result, Tensor, TorshError};

use super::anchors::AnchorGenerator;
use super::backbones::{Backbone, resnet50_p6p7};
use super::coders::BoxCoder;
use super::config::{Trained, older_names_of_retinanet, trainable_layers, trained};
use super::dense::{DetectionLimits, Matched, anchors_per_level, join};
use super::heads::{conv3x3, forward_is_with, init_convs, normal};
use super::matcher::{Matcher, places};
use super::network::{Found, Network, Parts, detector};
use super::rcnn::channels;
use super::targets::{Losses, Needs, Target};
use super::transform::{GeneralizedRCNNTransform, ImageList, TransformOptions};
use super::{IMAGE_MEAN, IMAGE_STD};
use crate::models::blocks::{FeatureMaps, NormLayer};
use crate::models::builder::{builder, model_family};
use crate::models::weights::{Loading, build};
use crate::models::{Weights, constructors};
use crate::ops::{
    self, BoxLossOptions, FocalLossOptions, generalized_box_iou_loss_with, sigmoid_focal_loss_with,
};

/// The bias with which a class is rare at first.
pub(super) fn rare(conv: &Conv2d) -> Result<()> {
    init::normal_(&conv.weight, 0.0, 0.01)?;
    if let Some(bias) = &conv.bias {
        init::constant_(bias, -(0.99f64 / 0.01).ln())?;
    }
    Ok(())
}

/// A convolution with normal weights and a bias of 0.
pub(super) fn small(conv: &Conv2d) -> Result<()> {
    init::normal_(&conv.weight, 0.0, 0.01)?;
    if let Some(bias) = &conv.bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

/// Logits of the classes of each anchor.
///
/// ```
/// use torsh_tensor::{ones, zeros};
/// use torsh_vision::models::detection::RetinaNetClassificationHead;
/// let head = RetinaNetClassificationHead::new(32, 2, 3, None)?;
/// // At first every class is as likely as 1 in 100.
/// let logits = head.forward_with(&[zeros(&[1, 32, 2, 2])])?;
/// assert!(logits.sigmoid()?.allclose(&ones(&[1, 2 * 4, 3]).mul(0.01)?)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RetinaNetClassificationHead {
    /// Four convolutions of 3 by 3.
    pub conv: Sequential,
    /// Logits of each class of each anchor.
    pub cls_logits: Conv2d,
    #[module(skip)]
    num_classes: usize,
}

fn four(in_channels: usize, norm: Option<&NormLayer>) -> Result<Sequential> {
    (0..4)
        .map(|_| conv3x3(in_channels, in_channels, norm))
        .collect()
}

impl RetinaNetClassificationHead {
    /// Makes a head of so many classes.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::RetinaNetClassificationHead;
    /// // Four convolutions, and the logits of three classes of two anchors.
    /// let head = RetinaNetClassificationHead::new(8, 2, 3, None)?;
    /// assert_eq!(head.num_parameters(), 4 * (8 * 8 * 9 + 8) + (8 * 2 * 3 * 9 + 2 * 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        num_anchors: usize,
        num_classes: usize,
        norm: Option<NormLayer>,
    ) -> Result<Self> {
        let conv = four(in_channels, norm.as_ref())?;
        init_convs(&conv, normal(0.01))?;
        let cls_logits = Conv2d::new(in_channels, num_anchors * num_classes, 3, 1, 1)?;
        rare(&cls_logits)?;
        Ok(RetinaNetClassificationHead {
            conv,
            cls_logits,
            num_classes,
        })
    }

    /// Computes the logits `[n, anchors, classes]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::RetinaNetClassificationHead;
    /// let head = RetinaNetClassificationHead::new(8, 2, 3, None)?;
    /// let logits = head.forward_with(&[zeros(&[1, 8, 2, 2]), zeros(&[1, 8, 1, 1])])?;
    /// assert_eq!(logits.dims(), [1, 2 * (2 * 2 + 1), 3]);
    /// assert!((logits.mean()?.item::<f32>()? + 99f32.ln()).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<Tensor> {
        let logits = |x: &Tensor| self.cls_logits.forward(&self.conv.forward(x)?);
        join(features.iter().map(logits), self.num_classes)
    }
}

forward_is_with!(RetinaNetClassificationHead, "forward_with(&features)");

/// The offsets of each anchor.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::RetinaNetRegressionHead;
/// let head = RetinaNetRegressionHead::new(8, 2, None)?;
/// assert_eq!(head.forward_with(&[zeros(&[1, 8, 2, 2])])?, zeros(&[1, 2 * 4, 4]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RetinaNetRegressionHead {
    /// Four convolutions of 3 by 3.
    pub conv: Sequential,
    /// Offsets of each anchor.
    pub bbox_reg: Conv2d,
}

impl RetinaNetRegressionHead {
    /// Makes a head of so many anchors for each element.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// use torsh_vision::models::detection::RetinaNetRegressionHead;
    /// // With norms the convolutions have no biases.
    /// let head = RetinaNetRegressionHead::new(8, 2, Some(NormLayer::group_norm(4)))?;
    /// assert_eq!(head.num_parameters(), 4 * (8 * 8 * 9 + 2 * 8) + (8 * 2 * 4 * 9 + 2 * 4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, num_anchors: usize, norm: Option<NormLayer>) -> Result<Self> {
        let conv = four(in_channels, norm.as_ref())?;
        let bbox_reg = Conv2d::new(in_channels, num_anchors * 4, 3, 1, 1)?;
        small(&bbox_reg)?;
        init_convs(&conv, normal(0.01))?;
        Ok(RetinaNetRegressionHead { conv, bbox_reg })
    }

    /// Computes the offsets `[n, anchors, 4]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::RetinaNetRegressionHead;
    /// let head = RetinaNetRegressionHead::new(8, 2, None)?;
    /// let offsets = head.forward_with(&[zeros(&[1, 8, 2, 2]), zeros(&[1, 8, 1, 1])])?;
    /// assert_eq!(offsets, zeros(&[1, 2 * (2 * 2 + 1), 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<Tensor> {
        let offsets = |x: &Tensor| self.bbox_reg.forward(&self.conv.forward(x)?);
        join(features.iter().map(offsets), 4)
    }
}

forward_is_with!(RetinaNetRegressionHead, "forward_with(&features)");

/// Classes and offsets of each anchor.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::RetinaNetHead;
///
/// let head = RetinaNetHead::new(8, 9, 5, None)?;
/// let (logits, offsets) = head.forward_with(&[zeros(&[1, 8, 4, 4]), zeros(&[1, 8, 2, 2])])?;
/// assert_eq!((logits.dims(), offsets.dims()), (&[1, 180, 5][..], &[1, 180, 4][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RetinaNetHead {
    /// Logits of the classes.
    pub classification_head: RetinaNetClassificationHead,
    /// Offsets.
    pub regression_head: RetinaNetRegressionHead,
}

impl RetinaNetHead {
    /// Makes both heads.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::RetinaNetHead;
    /// // Two times four convolutions, the logits of three classes and the offsets of two anchors.
    /// let head = RetinaNetHead::new(8, 2, 3, None)?;
    /// let convs = 2 * 4 * (8 * 8 * 9 + 8);
    /// assert_eq!(head.num_parameters(), convs + (8 * 2 * 3 * 9 + 2 * 3) + (8 * 2 * 4 * 9 + 2 * 4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        num_anchors: usize,
        num_classes: usize,
        norm: Option<NormLayer>,
    ) -> Result<Self> {
        Ok(RetinaNetHead {
            classification_head: RetinaNetClassificationHead::new(
                in_channels,
                num_anchors,
                num_classes,
                norm.clone(),
            )?,
            regression_head: RetinaNetRegressionHead::new(in_channels, num_anchors, norm)?,
        })
    }

    /// Computes the logits `[n, anchors, classes]` and offsets `[n, anchors, 4]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::RetinaNetHead;
    /// let (logits, offsets) = RetinaNetHead::new(8, 2, 3, None)?.forward_with(&[zeros(&[1, 8, 2, 2])])?;
    /// assert!((logits.mean()?.item::<f32>()? + 99f32.ln()).abs() < 1e-5);
    /// assert_eq!(offsets, zeros(&[1, 2 * 4, 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<(Tensor, Tensor)> {
        Ok((
            self.classification_head.forward_with(features)?,
            self.regression_head.forward_with(features)?,
        ))
    }
}

forward_is_with!(RetinaNetHead, "forward_with(&features)");

/// The forms of RetinaNet.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::detection::{RetinaNet, RetinaNetVersion};
/// let model = RetinaNet::builder().version(RetinaNetVersion::V2).device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 38_198_935);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetinaNetVersion {
    /// That of the paper.
    #[default]
    V1,
    /// With norms in the heads, other extra feature maps and a loss of the boxes' overlap (Zhang et al. 2019,
    /// <https://arxiv.org/abs/1912.02424>).
    V2,
}

builder! {
    /// The builder of [`RetinaNet`], with torchvision's arguments and defaults.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::RetinaNet;
    /// let model = RetinaNet::builder().min_size(vec![400]).max_size(640).device(Device::Meta).build()?;
    /// assert_eq!((model.transform.min_size, model.transform.max_size), (vec![400], 640));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RetinaNetBuilder;
    options {
        /// How many of the backbone's last parts are trained; unless set, all where weights are drawn, otherwise 3.
        trainable_backbone_layers: Option<usize> = None, usize => Some;
        /// What the shorter side of images becomes, in training one of several sizes. The default is 800.
        min_size: Vec<usize> = vec![800];
        /// What the longer side of images is at most. The default is 1333.
        max_size: usize = 1333;
        /// Subtracted from each channel. The default is ImageNet's mean.
        image_mean: Vec<f64> = IMAGE_MEAN.to_vec();
        /// What each channel is divided by. The default is ImageNet's deviation.
        image_std: Vec<f64> = IMAGE_STD.to_vec();
        /// Height and width of padded images are multiples of it. The default is 32.
        size_divisible: usize = 32;
        /// Whether images keep their size in training. The default is `false`.
        skip_resize: bool = false;
        /// How sure a detection is at least. The default is 0.05.
        score_thresh: f64 = 0.05;
        /// The overlap from which on the less sure of two detections of one class goes. The default is 0.5.
        nms_thresh: f64 = 0.5;
        /// How many detections an image has at most. The default is 300.
        detections_per_img: usize = 300;
        /// From this overlap with a true box on an anchor is foreground. The default is 0.5.
        fg_iou_thresh: f64 = 0.5;
        /// Below this overlap an anchor is background. The default is 0.4.
        bg_iou_thresh: f64 = 0.4;
        /// How many detections of each feature map enter the suppression of overlaps. The default is 1000.
        topk_candidates: usize = 1000;
    }
    parts {
        /// The form. The default is the paper's.
        version: RetinaNetVersion = RetinaNetVersion::V1;
        /// Where the backbone's weights come from, where the model's are drawn.
        weights_backbone: Weights = Weights::None;
        /// The backbone's norms; unless set, batch norms where weights are drawn, otherwise frozen ones.
        norm_layer: Option<NormLayer> = None, NormLayer => Some;
        /// The anchors; unless set, three sizes (from 32 to 512) and three aspect ratios for each of five maps.
        anchor_generator: Option<AnchorGenerator> = None, AnchorGenerator => Some;
    }
}

/// RetinaNet (Lin et al. 2017, <https://arxiv.org/abs/1708.02002>): classes and offsets of every anchor at once.
///
/// Takes images `[3, h, w]` between 0 and 1 of any sizes. In training its losses are `classification` and
/// `bbox_regression`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::detection::RetinaNet;
/// let model = RetinaNet::builder().num_classes(5).build()?;
/// assert_eq!(model.head.classification_head.cls_logits.weight.dims(), [9 * 5, 256, 3, 3]);
/// assert_eq!(model.num_parameters(), 32_284_049);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RetinaNet {
    /// Makes the feature maps.
    pub backbone: Box<dyn Backbone>,
    /// The anchors.
    #[module(skip)]
    pub anchor_generator: AnchorGenerator,
    /// What it says of each anchor.
    pub head: RetinaNetHead,
    /// Resizes and pads images.
    #[module(skip)]
    pub transform: GeneralizedRCNNTransform,
    #[module(skip)]
    matcher: Matcher,
    #[module(skip)]
    box_coder: BoxCoder,
    #[module(skip)]
    limits: DetectionLimits,
    /// Whether the loss of boxes is that of their overlap.
    #[module(skip)]
    by_overlap: bool,
    training: Training,
}

detector!(RetinaNet);

const NAME: &str = "RetinaNet";

impl Network for RetinaNet {
    fn parts(&self) -> Parts<'_> {
        (&self.transform, &*self.backbone, &self.training)
    }

    fn needs(&self) -> Needs {
        Needs::classes(self.head.classification_head.num_classes)
    }

    fn of_maps(
        &self,
        maps: FeatureMaps,
        images: &ImageList,
        targets: Option<&[Target]>,
    ) -> Result<Found> {
        let features: Vec<Tensor> = maps.into_iter().map(|(_, map)| map).collect();
        let (logits, offsets) = self.head.forward_with(&features)?;
        let anchors = self.anchor_generator.boxes(images, &features)?;
        if let Some(targets) = targets {
            let losses = self.loss(&logits, &offsets, &anchors, targets)?;
            return Ok((Vec::new(), losses));
        }
        let found = self.limits.of_levels(
            &logits.sigmoid()?,
            &offsets,
            &anchors,
            &anchors_per_level(&features, logits.dims()[1]),
            &images.image_sizes,
            |codes, boxes| self.box_coder.decode_single(codes, boxes),
        )?;
        Ok((found, Losses::default()))
    }
}

impl RetinaNet {
    fn loss(
        &self,
        logits: &Tensor,
        offsets: &Tensor,
        anchors: &[Tensor],
        targets: &[Target],
    ) -> Result<Losses> {
        let (mut classification, mut regression): (Option<Tensor>, Option<Tensor>) = (None, None);
        for (i, (anchors, target)) in anchors.iter().zip(targets).enumerate() {
            let Matched {
                matched,
                foreground,
                numbers,
            } = Matched::new(anchors, &target.boxes, || {
                let overlap = ops::box_iou(&target.boxes, anchors)?;
                self.matcher.matches(&overlap)
            })?;
            let by = numbers.numel().max(1) as f64;
            let (logits, offsets) = (logits.select(0, i)?, offsets.select(0, i)?);
            // 1 at the class of each foreground anchor.
            let truth = Tensor::zeros(logits.dims(), logits.dtype(), logits.device())?;
            if numbers.numel() > 0 {
                let one = Tensor::scalar(1.0, logits.dtype(), logits.device())?;
                let classes = target.labels.index_select(0, &numbers)?;
                truth.index_put_(&[Some(foreground.clone()), Some(classes)], &one, false)?;
            }
            let valid = places(&matched.ne(Matcher::BETWEEN_THRESHOLDS)?)?;
            let options = FocalLossOptions::new().reduction(Reduction::Sum);
            let (logits, truth) = (
                logits.index_select(0, &valid)?,
                truth.index_select(0, &valid)?,
            );
            add(
                &mut classification,
                sigmoid_focal_loss_with(&logits, &truth, options)?.div(by)?,
            )?;
            let boxes = match numbers.numel() {
                0 => offsets.sum()?.mul(0.0)?,
                _ => {
                    let truth = target.boxes.index_select(0, &numbers)?;
                    let (offsets, anchors) = (
                        offsets.index_select(0, &foreground)?,
                        anchors.index_select(0, &foreground)?,
                    );
                    self.box_loss(&offsets, &anchors, &truth)?
                }
            };
            add(&mut regression, boxes.div(by)?)?;
        }
        let n = targets.len() as f64;
        let mut losses = Losses::default();
        for (name, sum) in [
            ("classification", classification),
            ("bbox_regression", regression),
        ] {
            let sum = sum.ok_or_else(|| TorshError::invalid(NAME, "no images were given"))?;
            losses.push(name, sum.div(n)?);
        }
        Ok(losses)
    }

    fn box_loss(&self, offsets: &Tensor, anchors: &Tensor, truth: &Tensor) -> Result<Tensor> {
        if self.by_overlap {
            let boxes = self.box_coder.decode_single(offsets, anchors)?;
            let truth = truth.to_dtype(boxes.dtype())?;
            let options = BoxLossOptions::new().reduction(Reduction::Sum);
            return generalized_box_iou_loss_with(&boxes, &truth, options);
        }
        let truth = self
            .box_coder
            .encode_single(truth, anchors)?
            .to_dtype(offsets.dtype())?;
        F::l1_loss_with(
            offsets,
            &truth,
            LossOptions::new().reduction(Reduction::Sum),
        )
    }
}

fn add(sum: &mut Option<Tensor>, value: Tensor) -> Result<()> {
    *sum = Some(match sum.take() {
        Some(sum) => sum.add(value)?,
        None => value,
    });
    Ok(())
}

/// Three sizes and three aspect ratios for each of five feature maps.
fn default_anchors() -> Result<AnchorGenerator> {
    let sizes = [32.0, 64.0, 128.0, 256.0, 512.0].map(|size: f64| {
        let larger = |thirds: f64| (size * 2f64.powf(thirds / 3.0)).trunc();
        vec![size, larger(1.0), larger(2.0)]
    });
    AnchorGenerator::new(sizes.to_vec(), vec![vec![0.5, 1.0, 2.0]; 5])
}

impl RetinaNetBuilder {
    /// Makes the model on a ResNet-50.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::{ResNet50Weights, detection::RetinaNet};
    /// // Of a trained backbone at most five parts go on learning.
    /// let builder = RetinaNet::builder().weights_backbone(ResNet50Weights::DEFAULT.into());
    /// let builder = builder.trainable_backbone_layers(6);
    /// let error = builder.device(Device::Meta).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("trainable_backbone_layers is at most 5, got 6")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Weights that do not fit, more trainable layers than there are, anchors that do not fit the backbone.
    #[torsh_tensor::names_caller]
    pub fn build(mut self) -> Result<RetinaNet> {
        let loading = Loading::new(NAME, &["head.classification_head.cls_logits."])
            .rename(older_names_of_retinanet);
        self.common.read()?;
        let trained = trained(&self.common, &self.weights_backbone)?;
        build(&self.common, loading, || self.make(&trained))
    }

    /// Makes the model on a backbone of one's own.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, ModuleExt, sequential};
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
    /// use torsh_vision::models::detection::{AnchorGenerator, BackboneWithFPN, RetinaNet};
    ///
    /// // Two maps of 8 channels.
    /// let body = IntermediateLayerGetter::new(sequential![Conv2d::new(3, 8, 3, 8, 1)?].into_items(), [("0", "0")])?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 8, (Box::new(LastLevelMaxPool::new()), 1), None)?;
    /// let own = backbone.num_parameters();
    /// let anchors = AnchorGenerator::new(vec![vec![32.0], vec![64.0]], vec![vec![1.0]; 2])?;
    /// let model = RetinaNet::builder().anchor_generator(anchors).num_classes(3).build_on(backbone)?;
    /// assert_eq!(model.num_parameters(), own + model.head.num_parameters());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A backbone whose feature maps differ in channels.
    #[torsh_tensor::names_caller]
    pub fn build_on(self, backbone: impl Backbone) -> Result<RetinaNet> {
        let construction = self.common.construction();
        construction.run(|| self.on(Box::new(backbone)))
    }

    fn make(&self, trained: &Trained) -> Result<RetinaNet> {
        let v2 = self.version == RetinaNetVersion::V2;
        let norm = match &self.norm_layer {
            Some(norm) => norm.clone(),
            None if v2 || trained.batch_norm => NormLayer::batch_norm_2d(),
            None => NormLayer::frozen_batch_norm_2d_with(self.common.weights.frozen_eps()),
        };
        let layers = trainable_layers(NAME, trained.trained, self.trainable_backbone_layers, 5, 3)?;
        let channels = if v2 { 2048 } else { 256 };
        self.on(resnet50_p6p7(
            norm,
            &self.weights_backbone,
            layers,
            channels,
        )?)
    }

    fn on(&self, backbone: Box<dyn Backbone>) -> Result<RetinaNet> {
        let v2 = self.version == RetinaNetVersion::V2;
        let anchor_generator = match &self.anchor_generator {
            Some(anchors) => anchors.clone(),
            None => default_anchors()?,
        };
        let anchors = anchor_generator.num_anchors_per_location()[0];
        let classes = self.common.num_classes.unwrap_or(91);
        let norm = v2.then(|| NormLayer::group_norm(32));
        let options = TransformOptions::new()
            .size_divisible(self.size_divisible)
            .skip_resize(self.skip_resize);
        Ok(RetinaNet {
            head: RetinaNetHead::new(channels(NAME, &*backbone)?, anchors, classes, norm)?,
            backbone,
            anchor_generator,
            transform: GeneralizedRCNNTransform::new(
                &self.min_size,
                self.max_size,
                &self.image_mean,
                &self.image_std,
                options,
            )?,
            matcher: Matcher::new(self.fg_iou_thresh, self.bg_iou_thresh, true)?,
            box_coder: BoxCoder::new([1.0; 4]),
            limits: DetectionLimits {
                score_thresh: self.score_thresh,
                nms_thresh: self.nms_thresh,
                detections_per_img: self.detections_per_img,
                topk_candidates: self.topk_candidates,
            },
            by_overlap: v2,
            training: Training::default(),
        })
    }
}

model_family!(RetinaNetBuilder of RetinaNet, Detection 34_068_119 parameters);

constructors! {
    Detection, RetinaNet;
    /// RetinaNet on ResNet-50 with a feature pyramid: 34.0 million parameters, images of any size
    /// (<https://arxiv.org/abs/1708.02002>).
    retinanet_resnet50_fpn, 34_068_119 parameters => RetinaNet::builder();
    /// RetinaNet on ResNet-50 with norms in the heads and a loss of the boxes' overlap: 38.2 million parameters, images
    /// of any size (<https://arxiv.org/abs/1912.02424>).
    retinanet_resnet50_fpn_v2, 38_198_935 parameters => RetinaNet::builder().version(RetinaNetVersion::V2);
}
