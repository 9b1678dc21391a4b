//! SSD.

use std::any::Any;

use torsh_functional as F;
use torsh_nn::{
    Conv2d, MaxPool2d, Module, ModuleExt, Parameter, ReLU, Reduction, Sequential, Training,
    construct,
};
use torsh_tensor::{
    CrossEntropyOptions, DType, Result, SmoothL1LossOptions, SortOptions, Tensor, TorshError,
    no_grad, stack,
};

use super::anchors::{DefaultBoxGenerator, DefaultBoxOptions};
use super::backbones::Backbone;
use super::coders::BoxCoder;
use super::config::trainable_layers;
use super::dense::{DetectionLimits, Matched};
use super::heads::{forward_is_with, init_convs, xavier_uniform};
use super::matcher::{SSDMatcher, places};
use super::network::{Found, Network, Parts, detector};
use super::ssd_head::SSDHead;
use super::ssdlite::{self, SSDLiteFeatures};
use super::targets::{Losses, Needs, Target};
use super::transform::{GeneralizedRCNNTransform, ImageList, TransformOptions};
use crate::models::blocks::{FeatureMaps, NormLayer};
use crate::models::builder::{builder, model_family};
use crate::models::weights::{Loading, build};
use crate::models::{MobileNetV3, VGG, Weights, constructors, vgg16};
use crate::ops;

/// VGG without its head, and smaller feature maps behind.
#[derive(Module)]
struct SSDVGGFeatures {
    /// The size of the first map's normalised elements.
    scale_weight: Parameter,
    features: Sequential,
    extra: Vec<Sequential>,
    #[module(skip)]
    channels: Vec<usize>,
}

forward_is_with!(SSDVGGFeatures, "features(&x)");

impl SSDVGGFeatures {
    /// Takes the features of a VGG-16, of which the last parts are trained.
    fn new(vgg: VGG, trainable_layers: usize) -> Result<SSDVGGFeatures> {
        const OP: &str = "ssd300_vgg16";
        let items: Vec<Box<dyn Module>> = vgg
            .features
            .into_items()
            .into_iter()
            .map(|(_, layer)| layer)
            .collect();
        let is_pool = |layer: &dyn Any| layer.is::<MaxPool2d>();
        let pools: Vec<usize> = (0..items.len()).filter(|&i| is_pool(&*items[i])).collect();
        let [_, _, third, fourth, _] = pools[..] else {
            return Err(TorshError::invalid(
                OP,
                format!("a VGG has 5 pools, got {}", pools.len()),
            ));
        };
        let mut stages = vec![0];
        stages.extend_from_slice(&pools[..4]);
        let frozen = stages.len() - trainable_layers.min(stages.len());
        let frozen = stages.get(frozen).copied().unwrap_or(items.len());
        for layer in &items[..frozen] {
            layer.requires_grad_(false);
        }
        let (mut features, mut first) = (Sequential::new(), Sequential::new());
        let last = items.len() - 1;
        for (i, layer) in items.into_iter().enumerate() {
            if i == third {
                // So that 75 elements become 38.
                features.push(MaxPool2d::builder(2).stride(2).ceil_mode(true).build()?);
            } else if i < fourth {
                features.push(layer);
            } else if i < last {
                first.push(layer);
            }
        }
        let extra = |inputs: usize, middle: usize, outputs: usize, stride: i64, padding: i64| {
            let mut layers = Sequential::new();
            layers.push(Conv2d::new(inputs, middle, 1, 1, 0)?);
            layers.push(ReLU::new());
            layers.push(Conv2d::new(middle, outputs, 3, stride, padding)?);
            layers.push(ReLU::new());
            Ok::<_, TorshError>(layers)
        };
        let smaller = [
            extra(1024, 256, 512, 2, 1)?,
            extra(512, 128, 256, 2, 1)?,
            extra(256, 128, 256, 1, 0)?,
            extra(256, 128, 256, 1, 0)?,
        ];
        for layers in &smaller {
            init_convs(layers, xavier_uniform)?;
        }
        let mut fc = Sequential::new();
        fc.push(MaxPool2d::builder(3).stride(1).padding(1).build()?);
        fc.push(
            Conv2d::builder(512, 1024, 3)
                .padding(6)
                .dilation(6)
                .build()?,
        );
        fc.push(ReLU::new());
        fc.push(Conv2d::new(1024, 1024, 1, 1, 0)?);
        fc.push(ReLU::new());
        init_convs(&fc, xavier_uniform)?;
        first.push(fc);
        let scale = Tensor::full([512], 20.0, construct::dtype(), construct::device())?;
        Ok(SSDVGGFeatures {
            scale_weight: Parameter::with_requires_grad(scale, true)?,
            features,
            extra: std::iter::once(first).chain(smaller).collect(),
            channels: vec![512, 1024, 512, 256, 256, 256],
        })
    }
}

impl Backbone for SSDVGGFeatures {
    #[torsh_tensor::names_caller]
    fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
        let mut x = self.features.forward(x)?;
        let first = self
            .scale_weight
            .reshape([1, -1, 1, 1])?
            .mul(F::normalize(&x)?)?;
        let mut out = vec![("0".to_string(), first)];
        for (i, layers) in self.extra.iter().enumerate() {
            x = layers.forward(&x)?;
            out.push(((i + 1).to_string(), x.clone()));
        }
        Ok(out)
    }

    fn out_channels(&self) -> Vec<usize> {
        self.channels.clone()
    }
}

/// The networks under SSD.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::detection::{SSD, SSDBackbone};
/// let model = SSD::builder().backbone(SSDBackbone::MobileNetV3Large).device(Device::Meta).build()?;
/// assert_eq!(model.transform.options.fixed_size, Some((320, 320)));
/// assert_eq!(model.num_parameters(), 3_440_060);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SSDBackbone {
    /// VGG-16, for images of 300 by 300.
    #[default]
    VGG16,
    /// MobileNetV3-Large, for images of 320 by 320: SSDlite.
    MobileNetV3Large,
}

builder! {
    /// The builder of [`SSD`], with torchvision's arguments and defaults.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::SSD;
    /// let builder = SSD::builder().image_mean(vec![0.5; 3]).image_std(vec![0.25; 3]);
    /// let model = builder.device(Device::Meta).build()?;
    /// assert_eq!((model.transform.image_mean, model.transform.image_std), (vec![0.5; 3], vec![0.25; 3]));
    /// assert_eq!(model.transform.options.fixed_size, Some((300, 300)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SSDBuilder;
    options {
        /// How many of the backbone's last parts are trained; unless set, all where weights are drawn, otherwise 4 of
        /// VGG and all of MobileNet.
        trainable_backbone_layers: Option<usize> = None, usize => Some;
        /// Subtracted from each channel. The default is the backbone's.
        image_mean: Option<Vec<f64>> = None, Vec<f64> => Some;
        /// What each channel is divided by. The default is the backbone's.
        image_std: Option<Vec<f64>> = None, Vec<f64> => Some;
        /// Whether images keep their size in training. The default is `false`.
        skip_resize: bool = false;
        /// How sure a detection is at least; 0.01 unless set (0.001 of SSDlite).
        score_thresh: Option<f64> = None, f64 => Some;
        /// The overlap from which on the less sure of two detections of one class goes; 0.45 unless set (0.55 of
        /// SSDlite).
        nms_thresh: Option<f64> = None, f64 => Some;
        /// How many detections an image has at most; 200 unless set (300 of SSDlite).
        detections_per_img: Option<usize> = None, usize => Some;
        /// From this overlap with a true box on a box is foreground. The default is 0.5.
        iou_thresh: f64 = 0.5;
        /// How many detections of each class enter the suppression of overlaps; 400 unless set (300 of SSDlite).
        topk_candidates: Option<usize> = None, usize => Some;
        /// The part of foreground among the boxes that the loss looks at. The default is 0.25.
        positive_fraction: f64 = 0.25;
    }
    parts {
        /// The network under it. The default is VGG-16.
        backbone: SSDBackbone = SSDBackbone::VGG16;
        /// Where the backbone's weights come from, where the model's are drawn.
        weights_backbone: Weights = Weights::None;
        /// The norms of SSDlite; a batch norm that adds 0.001 to variances, with a momentum of 0.03, unless set.
        norm_layer: Option<NormLayer> = None, NormLayer => Some;
    }
}

/// SSD (Liu et al. 2015, <https://arxiv.org/abs/1512.02325>): classes and offsets of boxes of many sizes at once.
///
/// Takes images `[3, h, w]` between 0 and 1 of any sizes. In training its losses are `bbox_regression` and
/// `classification`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::rand;
/// use torsh_vision::models::detection::{SSD, SSDBackbone};
///
/// let model = SSD::builder().backbone(SSDBackbone::MobileNetV3Large).num_classes(3).build()?;
/// model.eval();
/// let found = model.detect(&[rand(&[3, 48, 64])])?;
/// assert_eq!(found[0].boxes.dims()[1], 4);
/// assert_eq!(model.num_parameters(), 2_220_380);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SSD {
    /// Makes the feature maps.
    pub backbone: Box<dyn Backbone>,
    /// The boxes.
    #[module(skip)]
    pub anchor_generator: DefaultBoxGenerator,
    /// What it says of each box.
    pub head: SSDHead,
    /// Resizes images.
    #[module(skip)]
    pub transform: GeneralizedRCNNTransform,
    #[module(skip)]
    matcher: SSDMatcher,
    #[module(skip)]
    box_coder: BoxCoder,
    #[module(skip)]
    limits: DetectionLimits,
    #[module(skip)]
    neg_to_pos_ratio: f64,
    training: Training,
}

detector!(SSD);

const NAME: &str = "SSD";

impl Network for SSD {
    fn parts(&self) -> Parts<'_> {
        (&self.transform, &*self.backbone, &self.training)
    }

    fn needs(&self) -> Needs {
        Needs::classes(self.head.classification_head.num_columns)
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
        let scores = F::softmax(&logits, -1)?;
        let mut found = Vec::with_capacity(anchors.len());
        for (i, (&size, anchors)) in images.image_sizes.iter().zip(&anchors).enumerate() {
            let boxes = self
                .box_coder
                .decode_single(&offsets.select(0, i)?, anchors)?;
            let boxes = ops::clip_boxes_to_image(&boxes, size)?;
            // Classes in rows, so that each is read at once.
            let scores = scores.select(0, i)?.t()?.contiguous()?;
            let (mut of_class, mut values, mut labels) = (Vec::new(), Vec::new(), Vec::new());
            for label in 1..scores.dims()[0] {
                let (best, at) = self.limits.best(&scores.select(0, label)?)?;
                of_class.push(boxes.index_select(0, &at)?);
                labels.push(Tensor::full(
                    [best.numel()],
                    label as i64,
                    DType::I64,
                    best.device(),
                )?);
                values.push(best);
            }
            found.push(self.limits.apart(&of_class, &values, &labels)?);
        }
        Ok((found, Losses::default()))
    }
}

impl SSD {
    fn loss(
        &self,
        logits: &Tensor,
        offsets: &Tensor,
        anchors: &[Tensor],
        targets: &[Target],
    ) -> Result<Losses> {
        let (mut of_boxes, mut classes, mut foreground) = (Vec::new(), Vec::new(), 0);
        for (i, (anchors, target)) in anchors.iter().zip(targets).enumerate() {
            let Matched {
                foreground: here,
                numbers,
                ..
            } = Matched::new(anchors, &target.boxes, || {
                let overlap = ops::box_iou(&target.boxes, anchors)?;
                self.matcher.matches(&overlap)
            })?;
            let class = Tensor::zeros([anchors.dims()[0]], DType::I64, anchors.device())?;
            if here.numel() > 0 {
                foreground += numbers.numel();
                let truth = target.boxes.index_select(0, &numbers)?;
                let truth = self
                    .box_coder
                    .encode_single(&truth, &anchors.index_select(0, &here)?)?;
                let offsets = offsets.select(0, i)?.index_select(0, &here)?;
                let options = SmoothL1LossOptions::new().reduction(Reduction::Sum);
                of_boxes.push(F::smooth_l1_loss_with(
                    &offsets,
                    &truth.to_dtype(offsets.dtype())?,
                    options,
                )?);
                let labels = target.labels.index_select(0, &numbers)?;
                class.index_put_(&[Some(here)], &labels, false)?;
            }
            classes.push(class);
        }
        let classes = stack(&classes, 0)?;
        let n = logits.size(-1)?;
        let options = CrossEntropyOptions::new().reduction(Reduction::None);
        let loss = F::cross_entropy_with(
            &logits.reshape((-1, n as i64))?,
            &classes.flatten(0)?,
            options,
        )?;
        // Of the background only the boxes count that are hardest to tell from objects.
        let looked_at = no_grad(|| {
            let positive = classes.gt(0)?;
            let loss = loss
                .detach()
                .reshape(classes.dims())?
                .masked_fill(&positive, f64::NEG_INFINITY)?;
            let order = loss.argsort_with(SortOptions::new().dim(1).descending(true))?;
            let rank = order.argsort_with(SortOptions::new().dim(1))?;
            let wanted = positive
                .to_dtype(DType::F64)?
                .sum_dim(1, true)?
                .mul(self.neg_to_pos_ratio)?;
            Ok((
                positive.flatten(0)?,
                rank.to_dtype(DType::F64)?.lt(wanted)?.flatten(0)?,
            ))
        })?;
        let sum = |mask: &Tensor| loss.index_select(0, &places(mask)?)?.sum();
        let classification = sum(&looked_at.0)?.add(sum(&looked_at.1)?)?;
        let by = foreground.max(1) as f64;
        let boxes = match of_boxes.is_empty() {
            true => offsets.sum()?.mul(0.0)?,
            false => stack(&of_boxes, 0)?.sum()?,
        };
        let mut losses = Losses::default();
        losses.push("bbox_regression", boxes.div(by)?);
        losses.push("classification", classification.div(by)?);
        Ok(losses)
    }
}

impl SSDBuilder {
    /// Makes the model on a VGG-16 or a MobileNetV3.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::detection::{SSD, SSDBackbone};
    /// let builder = SSD::builder().backbone(SSDBackbone::MobileNetV3Large).num_classes(3);
    /// let model = builder.device(Device::Meta).build()?;
    /// // The heads of 88 classes less, with 6 boxes for each element of maps of 2304 channels in all.
    /// assert_eq!(model.num_parameters(), 3_440_060 - 88 * 6 * (2304 + 6));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Weights that do not fit, more trainable layers than there are.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<SSD> {
        let loading = Loading::new(NAME, &["head.classification_head."]);
        build(&self.common, loading, || self.make())
    }

    /// Makes the model on a backbone of one's own, with boxes of its feature maps, for images of one size (width, height).
    ///
    /// ```
    /// use torsh_nn::{Conv2d, ModuleExt, sequential};
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
    /// use torsh_vision::models::detection::{BackboneWithFPN, DefaultBoxGenerator, DefaultBoxOptions, SSD};
    ///
    /// // Two maps of 8 channels, with four boxes for each element.
    /// let body = IntermediateLayerGetter::new(sequential![Conv2d::new(3, 8, 3, 8, 1)?].into_items(), [("0", "0")])?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 8, (Box::new(LastLevelMaxPool::new()), 1), None)?;
    /// let boxes = DefaultBoxGenerator::new(vec![vec![2.0]; 2], DefaultBoxOptions::new())?;
    /// let model = SSD::builder().num_classes(3).build_on(backbone, boxes, (64, 64))?;
    /// assert_eq!(model.head.num_parameters(), 2 * (8 * 4 * (3 + 4) * 9 + 4 * (3 + 4)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of feature maps than the boxes are for.
    #[torsh_tensor::names_caller]
    pub fn build_on(
        self,
        backbone: impl Backbone,
        boxes: DefaultBoxGenerator,
        size: (usize, usize),
    ) -> Result<SSD> {
        let construction = self.common.construction();
        let plain = (&super::IMAGE_MEAN[..], &super::IMAGE_STD[..]);
        construction.run(|| {
            let (channels, anchors) = (backbone.out_channels(), boxes.num_anchors_per_location());
            if channels.len() != anchors.len() {
                return Err(TorshError::invalid(
                    NAME,
                    format!(
                        "the backbone makes {} feature maps, and the boxes are of {}",
                        channels.len(),
                        anchors.len()
                    ),
                ));
            }
            let head = SSDHead::new(&channels, &anchors, self.common.num_classes.unwrap_or(91))?;
            self.of(Box::new(backbone), boxes, head, size, plain)
        })
    }

    fn make(&self) -> Result<SSD> {
        let trained = !self.common.weights.is_none() || !self.weights_backbone.is_none();
        let layers = |max, default| {
            trainable_layers(NAME, trained, self.trainable_backbone_layers, max, default)
        };
        let classes = self.common.num_classes.unwrap_or(91);
        match self.backbone {
            SSDBackbone::VGG16 => {
                let backbone =
                    SSDVGGFeatures::new(vgg16(self.weights_backbone.clone())?, layers(5, 4)?)?;
                let ratios = [
                    vec![2.0],
                    vec![2.0, 3.0],
                    vec![2.0, 3.0],
                    vec![2.0, 3.0],
                    vec![2.0],
                    vec![2.0],
                ];
                let options = DefaultBoxOptions::new()
                    .scales(vec![0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05])
                    .steps(vec![8.0, 16.0, 32.0, 64.0, 100.0, 300.0]);
                let boxes = DefaultBoxGenerator::new(ratios.to_vec(), options)?;
                let head = SSDHead::new(
                    &backbone.channels,
                    &boxes.num_anchors_per_location(),
                    classes,
                )?;
                let (mean, std) = ([0.48235, 0.45882, 0.40784], [1.0 / 255.0; 3]);
                self.of(Box::new(backbone), boxes, head, (300, 300), (&mean, &std))
            }
            SSDBackbone::MobileNetV3Large => {
                let usual = || NormLayer::batch_norm_2d_with(0.001, 0.03);
                let norm = self.norm_layer.clone().unwrap_or_else(usual);
                let drawn = self.weights_backbone.is_none();
                let mobile = MobileNetV3::builder()
                    .norm_layer(norm.clone())
                    .reduced_tail(drawn);
                let mobile = mobile.weights(self.weights_backbone.clone()).build()?;
                if drawn {
                    init_convs(&mobile, ssdlite::draw)?;
                }
                let backbone = SSDLiteFeatures::new(mobile, layers(6, 6)?, &norm)?;
                let options = DefaultBoxOptions::new().min_ratio(0.2).max_ratio(0.95);
                let boxes = DefaultBoxGenerator::new(vec![vec![2.0, 3.0]; 6], options)?;
                let anchors = boxes.num_anchors_per_location();
                let head = ssdlite::head(&backbone.out_channels(), &anchors, classes, &norm)?;
                self.of(
                    Box::new(backbone),
                    boxes,
                    head,
                    (320, 320),
                    (&[0.5; 3], &[0.5; 3]),
                )
            }
        }
    }

    fn of(
        &self,
        backbone: Box<dyn Backbone>,
        boxes: DefaultBoxGenerator,
        head: SSDHead,
        size: (usize, usize),
        (mean, std): (&[f64], &[f64]),
    ) -> Result<SSD> {
        let lite = self.backbone == SSDBackbone::MobileNetV3Large;
        let choose = |of_lite: f64, otherwise: f64| if lite { of_lite } else { otherwise };
        let options = TransformOptions::new()
            .size_divisible(1)
            .fixed_size(size)
            .skip_resize(self.skip_resize);
        let (mean, std) = (
            self.image_mean.as_deref().unwrap_or(mean),
            self.image_std.as_deref().unwrap_or(std),
        );
        Ok(SSD {
            backbone,
            anchor_generator: boxes,
            head,
            transform: GeneralizedRCNNTransform::new(
                &[size.0.min(size.1)],
                size.0.max(size.1),
                mean,
                std,
                options,
            )?,
            matcher: SSDMatcher::new(self.iou_thresh),
            box_coder: BoxCoder::new([10.0, 10.0, 5.0, 5.0]),
            limits: DetectionLimits {
                score_thresh: self.score_thresh.unwrap_or(choose(0.001, 0.01)),
                nms_thresh: self.nms_thresh.unwrap_or(choose(0.55, 0.45)),
                detections_per_img: self
                    .detections_per_img
                    .unwrap_or(if lite { 300 } else { 200 }),
                topk_candidates: self.topk_candidates.unwrap_or(if lite { 300 } else { 400 }),
            },
            neg_to_pos_ratio: (1.0 - self.positive_fraction) / self.positive_fraction,
            training: Training::default(),
        })
    }
}

model_family!(SSDBuilder of SSD, Detection 35_641_826 parameters);

constructors! {
    Detection, SSD;
    /// SSD on VGG-16: 35.6 million parameters, images of any size, which it resizes to 300 x 300
    /// (<https://arxiv.org/abs/1512.02325>).
    ssd300_vgg16, 35_641_826 parameters => SSD::builder();
    /// SSDlite on MobileNetV3-Large: 3.4 million parameters, images of any size, which it resizes to 320 x 320
    /// (<https://arxiv.org/abs/1905.02244>).
    ssdlite320_mobilenet_v3_large, 3_440_060 parameters => SSD::builder().backbone(SSDBackbone::MobileNetV3Large);
}
