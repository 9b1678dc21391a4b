//! FCOS.

use torsh_functional as F;
use torsh_nn::{Conv2d, GroupNorm, Module, ReLU, Reduction, Sequential, Training};
use torsh_tensor::{BceWithLogitsOptions, DType, Result, Tensor, TorshError, cat};

use super::anchors::AnchorGenerator;
use super::backbones::{Backbone, resnet50_p6p7};
use super::coders::BoxLinearCoder;
use super::config::{Trained, older_names, trainable_layers, trained};
use super::dense::{DetectionLimits, Matched, join};
use super::heads::{forward_is_with, init_convs, normal};
use super::network::{Found, Network, Parts, detector};
use super::rcnn::channels;
use super::retinanet::{rare, small};
use super::targets::{Losses, Needs, Target};
use super::transform::{GeneralizedRCNNTransform, ImageList, TransformOptions};
use super::{IMAGE_MEAN, IMAGE_STD};
use crate::models::blocks::{FeatureMaps, NormLayer};
use crate::models::builder::{builder, model_family};
use crate::models::weights::{Loading, build};
use crate::models::{Weights, constructors};
use crate::ops::{
    BoxLossOptions, FocalLossOptions, generalized_box_iou_loss_with, sigmoid_focal_loss_with,
};

/// Convolutions of 3 by 3, each with a norm of 32 groups and a ReLU.
fn convs(in_channels: usize, num_convs: usize) -> Result<Sequential> {
    let mut layers = Sequential::new();
    for _ in 0..num_convs {
        layers.push(Conv2d::new(in_channels, in_channels, 3, 1, 1)?);
        layers.push(GroupNorm::new(32, in_channels)?);
        layers.push(ReLU::new());
    }
    Ok(layers)
}

/// Logits of the classes of each place.
///
/// ```
/// use torsh_tensor::{ones, zeros};
/// use torsh_vision::models::detection::FCOSClassificationHead;
/// let head = FCOSClassificationHead::new(32, 1, 3, 2)?;
/// // At first every class is as likely as 1 in 100.
/// let logits = head.forward_with(&[zeros(&[1, 32, 2, 2])])?;
/// assert!(logits.sigmoid()?.allclose(&ones(&[1, 4, 3]).mul(0.01)?)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FCOSClassificationHead {
    /// Convolutions, norms and ReLUs.
    pub conv: Sequential,
    /// Logits of each class.
    pub cls_logits: Conv2d,
    #[module(skip)]
    num_classes: usize,
}

impl FCOSClassificationHead {
    /// Makes a head of so many classes; the channels divide into 32 groups.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::FCOSClassificationHead;
    /// // Two convolutions with norms, and the logits of three classes.
    /// let head = FCOSClassificationHead::new(32, 1, 3, 2)?;
    /// assert_eq!(head.num_parameters(), 2 * (32 * 32 * 9 + 32 + 2 * 32) + (32 * 3 * 9 + 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0, channels that do not divide.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        num_anchors: usize,
        num_classes: usize,
        num_convs: usize,
    ) -> Result<Self> {
        let conv = convs(in_channels, num_convs)?;
        init_convs(&conv, normal(0.01))?;
        let cls_logits = Conv2d::new(in_channels, num_anchors * num_classes, 3, 1, 1)?;
        rare(&cls_logits)?;
        Ok(FCOSClassificationHead {
            conv,
            cls_logits,
            num_classes,
        })
    }

    /// Computes the logits `[n, places, classes]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::FCOSClassificationHead;
    /// let head = FCOSClassificationHead::new(32, 1, 3, 2)?;
    /// let logits = head.forward_with(&[zeros(&[1, 32, 2, 2]), zeros(&[1, 32, 2, 1])])?;
    /// assert_eq!(logits.dims(), [1, 2 * 2 + 2, 3]);
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

forward_is_with!(FCOSClassificationHead, "forward_with(&features)");

/// The distances of each place to the sides of its box, and how central in it the place is.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::FCOSRegressionHead;
/// let head = FCOSRegressionHead::new(32, 1, 2)?;
/// let (distances, central) = head.forward_with(&[zeros(&[1, 32, 2, 2])])?;
/// assert_eq!((distances, central), (zeros(&[1, 4, 4]), zeros(&[1, 4, 1])));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FCOSRegressionHead {
    /// Convolutions, norms and ReLUs.
    pub conv: Sequential,
    /// Distances.
    pub bbox_reg: Conv2d,
    /// How central, as a logit.
    pub bbox_ctrness: Conv2d,
}

impl FCOSRegressionHead {
    /// Makes a head; the channels divide into 32 groups.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::FCOSRegressionHead;
    /// let head = FCOSRegressionHead::new(32, 1, 2)?;
    /// assert_eq!(head.num_parameters(), 2 * (32 * 32 * 9 + 32 + 2 * 32) + (32 * 4 * 9 + 4) + (32 * 9 + 1));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0, channels that do not divide.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, num_anchors: usize, num_convs: usize) -> Result<Self> {
        let head = FCOSRegressionHead {
            conv: convs(in_channels, num_convs)?,
            bbox_reg: Conv2d::new(in_channels, num_anchors * 4, 3, 1, 1)?,
            bbox_ctrness: Conv2d::new(in_channels, num_anchors, 3, 1, 1)?,
        };
        small(&head.bbox_reg)?;
        small(&head.bbox_ctrness)?;
        init_convs(&head.conv, normal(0.01))?;
        Ok(head)
    }

    /// Computes the distances `[n, places, 4]` and logits `[n, places, 1]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::rand;
    /// use torsh_vision::models::detection::FCOSRegressionHead;
    /// let (distances, _) = FCOSRegressionHead::new(32, 1, 2)?.forward_with(&[rand(&[1, 32, 2, 2])])?;
    /// // Distances are not negative.
    /// assert!(distances.ge(0.0)?.all()?.item::<bool>()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<(Tensor, Tensor)> {
        let (mut distances, mut central) = (Vec::new(), Vec::new());
        for x in features {
            let x = self.conv.forward(x)?;
            distances.push(self.bbox_reg.forward(&x)?.relu());
            central.push(self.bbox_ctrness.forward(&x));
        }
        Ok((
            join(distances.into_iter(), 4)?,
            join(central.into_iter(), 1)?,
        ))
    }
}

forward_is_with!(FCOSRegressionHead, "forward_with(&features)");

/// Classes, distances and centrality of each place.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::FCOSHead;
///
/// let head = FCOSHead::new(32, 1, 5, 1)?;
/// let (logits, distances, central) = head.forward_with(&[zeros(&[1, 32, 4, 4])])?;
/// assert_eq!((logits.dims(), distances.dims(), central.dims()), (&[1, 16, 5][..], &[1, 16, 4][..], &[1, 16, 1][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FCOSHead {
    /// Logits of the classes.
    pub classification_head: FCOSClassificationHead,
    /// Distances and centrality.
    pub regression_head: FCOSRegressionHead,
}

impl FCOSHead {
    /// Makes both heads.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::{FCOSClassificationHead, FCOSHead, FCOSRegressionHead};
    /// let (classes, boxes) = (FCOSClassificationHead::new(32, 1, 3, 2)?, FCOSRegressionHead::new(32, 1, 2)?);
    /// let both = FCOSHead::new(32, 1, 3, 2)?;
    /// assert_eq!(both.num_parameters(), classes.num_parameters() + boxes.num_parameters());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0, channels that do not divide into 32 groups.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        num_anchors: usize,
        num_classes: usize,
        num_convs: usize,
    ) -> Result<Self> {
        Ok(FCOSHead {
            classification_head: FCOSClassificationHead::new(
                in_channels,
                num_anchors,
                num_classes,
                num_convs,
            )?,
            regression_head: FCOSRegressionHead::new(in_channels, num_anchors, num_convs)?,
        })
    }

    /// Computes logits `[n, places, classes]`, distances `[n, places, 4]` and how central, `[n, places, 1]`.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::FCOSHead;
    /// let (logits, distances, central) = FCOSHead::new(32, 1, 3, 2)?.forward_with(&[zeros(&[1, 32, 2, 2])])?;
    /// assert!((logits.mean()?.item::<f32>()? + 99f32.ln()).abs() < 1e-5);
    /// assert_eq!((distances, central), (zeros(&[1, 4, 4]), zeros(&[1, 4, 1])));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<(Tensor, Tensor, Tensor)> {
        let logits = self.classification_head.forward_with(features)?;
        let (distances, central) = self.regression_head.forward_with(features)?;
        Ok((logits, distances, central))
    }
}

forward_is_with!(FCOSHead, "forward_with(&features)");

builder! {
    /// The builder of [`FCOS`], with torchvision's arguments and defaults.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::FCOS;
    /// let model = FCOS::builder().min_size(vec![400]).max_size(640).device(Device::Meta).build()?;
    /// assert_eq!((model.transform.min_size, model.transform.max_size), (vec![400], 640));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FCOSBuilder;
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
        /// How far from a box's centre, in the distance of a feature map's elements, a place is foreground. The default
        /// is 1.5.
        center_sampling_radius: f64 = 1.5;
        /// How sure a detection is at least. The default is 0.2.
        score_thresh: f64 = 0.2;
        /// The overlap from which on the less sure of two detections of one class goes. The default is 0.6.
        nms_thresh: f64 = 0.6;
        /// How many detections an image has at most. The default is 100.
        detections_per_img: usize = 100;
        /// How many detections of each feature map enter the suppression of overlaps. The default is 1000.
        topk_candidates: usize = 1000;
    }
    parts {
        /// Where the backbone's weights come from, where the model's are drawn.
        weights_backbone: Weights = Weights::None;
        /// The backbone's norms; unless set, batch norms where weights are drawn, otherwise frozen ones.
        norm_layer: Option<NormLayer> = None, NormLayer => Some;
        /// The places as boxes of the distance of the feature maps' elements. The default is 8 to 128 of five maps.
        anchor_generator: Option<AnchorGenerator> = None, AnchorGenerator => Some;
    }
}

/// FCOS (Tian et al. 2019, <https://arxiv.org/abs/1904.01355>): classes of every place at once, and the distances to the
/// sides of its box.
///
/// Takes images `[3, h, w]` between 0 and 1 of any sizes. In training its losses are `classification`, `bbox_regression`
/// and `bbox_ctrness`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::detection::FCOS;
/// let model = FCOS::builder().num_classes(5).build()?;
/// assert_eq!(model.head.classification_head.cls_logits.weight.dims(), [5, 256, 3, 3]);
/// assert_eq!(model.num_parameters(), 32_124_490);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FCOS {
    /// Makes the feature maps.
    pub backbone: Box<dyn Backbone>,
    /// The places.
    #[module(skip)]
    pub anchor_generator: AnchorGenerator,
    /// What it says of each place.
    pub head: FCOSHead,
    /// Resizes and pads images.
    #[module(skip)]
    pub transform: GeneralizedRCNNTransform,
    #[module(skip)]
    box_coder: BoxLinearCoder,
    #[module(skip)]
    center_sampling_radius: f64,
    #[module(skip)]
    limits: DetectionLimits,
    training: Training,
}

detector!(FCOS);

const NAME: &str = "FCOS";

/// What the head says of each place.
struct Said<'a> {
    logits: &'a Tensor,
    distances: &'a Tensor,
    central: &'a Tensor,
}

impl Network for FCOS {
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
        let (logits, distances, central) = self.head.forward_with(&features)?;
        let anchors = self.anchor_generator.boxes(images, &features)?;
        let per_level: Vec<usize> = features.iter().map(|x| x.dims()[2] * x.dims()[3]).collect();
        if let Some(targets) = targets {
            let said = Said {
                logits: &logits,
                distances: &distances,
                central: &central,
            };
            let losses = self.loss(&said, &anchors, &per_level, targets)?;
            return Ok((Vec::new(), losses));
        }
        let found = self.limits.of_levels(
            &logits.sigmoid()?.mul(central.sigmoid()?)?.sqrt()?,
            &distances,
            &anchors,
            &per_level,
            &images.image_sizes,
            |codes, boxes| self.box_coder.decode(codes, boxes),
        )?;
        Ok((found, Losses::default()))
    }
}

impl FCOS {
    /// For each place the number of its true box, or -1; there are true boxes.
    fn matches(&self, anchors: &Tensor, per_level: &[usize], boxes: &Tensor) -> Result<Tensor> {
        let n = anchors.dims()[0];
        let centre = |b: &Tensor| b.narrow(1, 0, 2)?.add(b.narrow(1, 2, 2)?)?.div(2.0);
        let (places, middles) = (centre(anchors)?.unsqueeze(1)?, centre(boxes)?.unsqueeze(0)?);
        let side = anchors.narrow(1, 2, 1)?.sub(anchors.narrow(1, 0, 1)?)?;
        let away = places.sub(middles)?.abs()?.amax(2, false)?;
        let near = away.lt(side.mul(self.center_sampling_radius)?)?;
        let all = boxes.unsqueeze(0)?;
        let distances = cat(
            &[
                places.sub(all.narrow(2, 0, 2)?)?,
                all.narrow(2, 2, 2)?.sub(&places)?,
            ],
            2,
        )?;
        let inside = distances.amin(2, false)?.gt(0)?;
        // Each feature map is for boxes of some sizes; the first also for smaller and the last also for larger ones.
        let (lower, upper) = (side.mul(4.0)?, side.mul(8.0)?);
        if let (Some(&first), Some(&last)) = (per_level.first(), per_level.last()) {
            lower.narrow(0, 0, first)?.fill_(0)?;
            upper.narrow(0, n - last, last)?.fill_(f64::INFINITY)?;
        }
        let farthest = distances.amax(2, false)?;
        let fits = farthest.gt(lower)?.logical_and(farthest.lt(upper)?)?;
        let matches = near
            .logical_and(inside)?
            .logical_and(fits)?
            .to_dtype(DType::F32)?;
        // Of several true boxes the smallest is taken.
        let size = boxes.narrow(1, 2, 2)?.sub(boxes.narrow(1, 0, 2)?)?;
        let area = size.select(1, 0)?.mul(size.select(1, 1)?)?;
        let (value, number) = matches
            .mul(area.neg()?.add(1e8)?.unsqueeze(0)?)?
            .max_dim(1, false)?;
        number.masked_fill(&value.lt(1e-5)?, -1)
    }

    fn loss(
        &self,
        said: &Said<'_>,
        anchors: &[Tensor],
        per_level: &[usize],
        targets: &[Target],
    ) -> Result<Losses> {
        let (mut foreground, mut classes, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
        let mut offset = 0;
        for (anchors, target) in anchors.iter().zip(targets) {
            let Matched {
                foreground: here,
                numbers,
                ..
            } = Matched::new(anchors, &target.boxes, || {
                self.matches(anchors, per_level, &target.boxes)
            })?;
            if numbers.numel() > 0 {
                classes.push(target.labels.index_select(0, &numbers)?);
                boxes.push(target.boxes.index_select(0, &numbers)?);
                foreground.push(here.add(offset as i64)?);
            }
            offset += anchors.dims()[0];
        }
        let Some(first) = anchors.first() else {
            return Err(TorshError::invalid(NAME, "no images were given"));
        };
        let logits = rows(said.logits)?;
        let truth = Tensor::zeros(logits.dims(), logits.dtype(), logits.device())?;
        let (mut of_boxes, mut of_central, mut by) = (None, None, 1.0);
        if !foreground.is_empty() {
            let (foreground, classes) = (cat(&foreground, 0)?, cat(&classes, 0)?);
            by = foreground.numel() as f64;
            let one = Tensor::scalar(1.0, logits.dtype(), logits.device())?;
            truth.index_put_(&[Some(foreground.clone()), Some(classes)], &one, false)?;
            let anchors = cat(&vec![first.clone(); targets.len()], 0)?;
            let anchors = anchors.index_select(0, &foreground)?;
            let truth = cat(&boxes, 0)?.to_dtype(anchors.dtype())?;
            let distances = rows(said.distances)?.index_select(0, &foreground)?;
            let options = BoxLossOptions::new().reduction(Reduction::Sum);
            of_boxes = Some(generalized_box_iou_loss_with(
                &self.box_coder.decode(&distances, &anchors)?,
                &truth,
                options,
            )?);
            let sides = self.box_coder.encode(&anchors, &truth)?;
            let ratio = |a: i64| {
                let (x, y) = (sides.select(1, a)?, sides.select(1, a + 2)?);
                x.minimum(&y)?.div(x.maximum(&y)?)
            };
            let how = ratio(0)?.mul(ratio(1)?)?.sqrt()?;
            let central = said.central.flatten(0)?.index_select(0, &foreground)?;
            let options = BceWithLogitsOptions::new().reduction(Reduction::Sum);
            of_central = Some(F::binary_cross_entropy_with_logits_with(
                &central, &how, options,
            )?);
        }
        let options = FocalLossOptions::new().reduction(Reduction::Sum);
        let mut losses = Losses::default();
        losses.push(
            "classification",
            sigmoid_focal_loss_with(&logits, &truth, options)?.div(by)?,
        );
        for (name, loss, like) in [
            ("bbox_regression", of_boxes, said.distances),
            ("bbox_ctrness", of_central, said.central),
        ] {
            losses.push(
                name,
                match loss {
                    Some(loss) => loss.div(by)?,
                    None => like.sum()?.mul(0.0)?,
                },
            );
        }
        Ok(losses)
    }
}

/// `[n, places, columns]` as `[n * places, columns]`.
fn rows(x: &Tensor) -> Result<Tensor> {
    x.reshape((x.dims()[0] * x.dims()[1], x.dims()[2]))
}

impl FCOSBuilder {
    /// Makes the model on a ResNet-50.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::{AnchorGenerator, FCOS};
    /// let two = AnchorGenerator::new(vec![vec![8.0, 16.0]; 5], vec![vec![1.0]; 5])?;
    /// let error = FCOS::builder().anchor_generator(two).device(Device::Meta).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("each place has one box")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Weights that do not fit, more trainable layers than there are, places with more than one box.
    #[torsh_tensor::names_caller]
    pub fn build(mut self) -> Result<FCOS> {
        let loading =
            Loading::new(NAME, &["head.classification_head.cls_logits."]).rename(older_names);
        self.common.read()?;
        let trained = trained(&self.common, &self.weights_backbone)?;
        build(&self.common, loading, || self.make(&trained))
    }

    /// Makes the model on a backbone of one's own.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, ModuleExt, sequential};
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
    /// use torsh_vision::models::detection::{AnchorGenerator, BackboneWithFPN, FCOS};
    ///
    /// // Two maps of 32 channels.
    /// let body = IntermediateLayerGetter::new(sequential![Conv2d::new(3, 8, 3, 8, 1)?].into_items(), [("0", "0")])?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 32, (Box::new(LastLevelMaxPool::new()), 1), None)?;
    /// let own = backbone.num_parameters();
    /// let anchors = AnchorGenerator::new(vec![vec![8.0], vec![16.0]], vec![vec![1.0]; 2])?;
    /// let model = FCOS::builder().anchor_generator(anchors).num_classes(3).build_on(backbone)?;
    /// assert_eq!(model.num_parameters(), own + model.head.num_parameters());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A backbone whose feature maps differ in channels, or have no multiple of 32 of them.
    #[torsh_tensor::names_caller]
    pub fn build_on(self, backbone: impl Backbone) -> Result<FCOS> {
        let construction = self.common.construction();
        construction.run(|| self.on(Box::new(backbone)))
    }

    fn make(&self, trained: &Trained) -> Result<FCOS> {
        let norm = match &self.norm_layer {
            Some(norm) => norm.clone(),
            None if trained.batch_norm => NormLayer::batch_norm_2d(),
            None => NormLayer::frozen_batch_norm_2d(),
        };
        let layers = trainable_layers(NAME, trained.trained, self.trainable_backbone_layers, 5, 3)?;
        self.on(resnet50_p6p7(norm, &self.weights_backbone, layers, 256)?)
    }

    fn on(&self, backbone: Box<dyn Backbone>) -> Result<FCOS> {
        let anchor_generator = match &self.anchor_generator {
            Some(anchors) => anchors.clone(),
            None => {
                let sizes = [8.0, 16.0, 32.0, 64.0, 128.0].map(|s| vec![s]);
                AnchorGenerator::new(sizes.to_vec(), vec![vec![1.0]; 5])?
            }
        };
        let anchors = anchor_generator.num_anchors_per_location();
        if anchors.iter().any(|n| *n != 1) {
            return Err(TorshError::invalid(
                NAME,
                format!("each place has one box, the anchor generator makes {anchors:?}"),
            ));
        }
        let classes = self.common.num_classes.unwrap_or(91);
        let options = TransformOptions::new()
            .size_divisible(self.size_divisible)
            .skip_resize(self.skip_resize);
        Ok(FCOS {
            head: FCOSHead::new(channels(NAME, &*backbone)?, 1, classes, 4)?,
            backbone,
            anchor_generator,
            transform: GeneralizedRCNNTransform::new(
                &self.min_size,
                self.max_size,
                &self.image_mean,
                &self.image_std,
                options,
            )?,
            box_coder: BoxLinearCoder::new(true),
            center_sampling_radius: self.center_sampling_radius,
            limits: DetectionLimits {
                score_thresh: self.score_thresh,
                nms_thresh: self.nms_thresh,
                detections_per_img: self.detections_per_img,
                topk_candidates: self.topk_candidates,
            },
            training: Training::default(),
        })
    }
}

model_family!(FCOSBuilder of FCOS, Detection 32_322_720 parameters);

constructors! {
    Detection, FCOS;
    /// FCOS on ResNet-50 with a feature pyramid: 32.3 million parameters, images of any size
    /// (<https://arxiv.org/abs/1904.01355>).
    fcos_resnet50_fpn, 32_322_720 parameters => FCOS::builder();
}
