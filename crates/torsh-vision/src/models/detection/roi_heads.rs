//! What R-CNN says of each proposal: its class, its exact place, its mask, its key points.

use torsh_functional as F;
use torsh_nn::{
    Conv2d, ConvTranspose2d, Flatten, Linear, Module, ReLU, Reduction, Sequential, init,
};
use torsh_tensor::{
    DType, InterpolateMode, InterpolateOptions, Result, SmoothL1LossOptions, Tensor, TorshError,
    cat, no_grad,
};

use super::coders::BoxCoder;
use super::heads::{conv3x3, forward_is_with, init_convs, kaiming_normal};
use super::keypoints::{heatmaps_to_keypoints, keypointrcnn_loss};
use super::masks::{foreground, maskrcnn_inference, maskrcnn_loss};
use super::matcher::{BalancedPositiveNegativeSampler, Matcher, places};
use super::targets::{Detection, Losses, Target};
use crate::models::blocks::{NormLayer, sequence};
use crate::ops::{self, MultiScaleRoIAlign};

/// Two linear layers with ReLU, on what is in a box.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::TwoMLPHead;
/// assert_eq!(TwoMLPHead::new(8 * 7 * 7, 16)?.forward(&zeros(&[5, 8, 7, 7]))?.dims(), [5, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct TwoMLPHead {
    /// The first layer.
    pub fc6: Linear,
    /// The second layer.
    pub fc7: Linear,
}

impl TwoMLPHead {
    /// Makes a head on `in_channels` numbers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::TwoMLPHead;
    /// assert_eq!(TwoMLPHead::new(8 * 49, 16)?.num_parameters(), (8 * 49 * 16 + 16) + (16 * 16 + 16));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// None yet.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, representation_size: usize) -> Result<TwoMLPHead> {
        Ok(TwoMLPHead {
            fc6: Linear::new(in_channels, representation_size),
            fc7: Linear::new(representation_size, representation_size),
        })
    }
}

impl Module for TwoMLPHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.fc6.forward(&x.flatten(1)?)?.relu()?;
        self.fc7.forward(&x)?.relu()
    }
}

/// Convolutions and linear layers on what is in a box, of the second version of Faster R-CNN.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::FastRCNNConvFCHead;
/// let head = FastRCNNConvFCHead::new([8, 7, 7], &[4, 4], &[16], None)?;
/// assert_eq!(head.forward(&zeros(&[5, 8, 7, 7]))?.dims(), [5, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct FastRCNNConvFCHead {
    layers: Sequential,
}

sequence!(FastRCNNConvFCHead forwards);

impl FastRCNNConvFCHead {
    /// Makes a head on `[channels, height, width]`, of convolutions and linear layers of these widths.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::FastRCNNConvFCHead;
    /// // A convolution to 4 channels, and a linear layer of what is left of 7 by 7.
    /// let head = FastRCNNConvFCHead::new([8, 7, 7], &[4], &[16], None)?;
    /// assert_eq!(head.num_parameters(), (8 * 4 * 9 + 4) + (4 * 49 * 16 + 16));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        [channels, height, width]: [usize; 3],
        conv_layers: &[usize],
        fc_layers: &[usize],
        norm_layer: Option<NormLayer>,
    ) -> Result<FastRCNNConvFCHead> {
        let mut layers = Sequential::new();
        let mut previous = channels;
        for &next in conv_layers {
            layers.push(conv3x3(previous, next, norm_layer.as_ref())?);
            previous = next;
        }
        layers.push(Flatten::new());
        previous *= height * width;
        for &next in fc_layers {
            layers.push(Linear::new(previous, next));
            layers.push(ReLU::new());
            previous = next;
        }
        init_convs(&layers, kaiming_normal)?;
        Ok(FastRCNNConvFCHead { layers })
    }
}

/// The class of what is in a box, and the box's offsets for each class.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::FastRCNNPredictor;
/// let (scores, offsets) = FastRCNNPredictor::new(16, 3)?.forward_with(&zeros(&[5, 16]))?;
/// assert_eq!((scores.dims(), offsets.dims()), (&[5, 3][..], &[5, 12][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FastRCNNPredictor {
    /// Logits of the classes, of which 0 is background.
    pub cls_score: Linear,
    /// Offsets for each class.
    pub bbox_pred: Linear,
}

impl FastRCNNPredictor {
    /// Makes a predictor of so many classes, background among them.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::FastRCNNPredictor;
    /// assert_eq!(FastRCNNPredictor::new(16, 3)?.num_parameters(), (16 + 1) * (3 + 4 * 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// None yet.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, num_classes: usize) -> Result<FastRCNNPredictor> {
        Ok(FastRCNNPredictor {
            cls_score: Linear::new(in_channels, num_classes),
            bbox_pred: Linear::new(in_channels, num_classes * 4),
        })
    }

    /// Computes the logits `[n, classes]` and offsets `[n, 4 * classes]` of `[n, in_channels]`.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, init};
    /// use torsh_tensor::{ones, zeros};
    /// use torsh_vision::models::detection::FastRCNNPredictor;
    /// let predictor = FastRCNNPredictor::new(16, 3)?;
    /// for parameter in predictor.parameters() {
    ///     init::zeros_(&parameter)?;
    /// }
    /// assert_eq!(predictor.forward_with(&ones(&[5, 16]))?, (zeros(&[5, 3]), zeros(&[5, 4 * 3])));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let x = x.flatten(1)?;
        Ok((self.cls_score.forward(&x)?, self.bbox_pred.forward(&x)?))
    }
}

forward_is_with!(FastRCNNPredictor, "forward_with(&x)");

/// Convolutions of 3 by 3 on what is in a box, for its mask.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::MaskRCNNHeads;
/// // The biases are 0 at first.
/// let heads = MaskRCNNHeads::new(8, &[4, 4], None)?;
/// assert_eq!(heads.forward(&zeros(&[1, 8, 14, 14]))?, zeros(&[1, 4, 14, 14]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct MaskRCNNHeads {
    layers: Sequential,
}

sequence!(MaskRCNNHeads forwards);

impl MaskRCNNHeads {
    /// Makes convolutions of these widths.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::MaskRCNNHeads;
    /// assert_eq!(MaskRCNNHeads::new(8, &[4, 4], None)?.num_parameters(), (8 * 4 * 9 + 4) + (4 * 4 * 9 + 4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        widths: &[usize],
        norm_layer: Option<NormLayer>,
    ) -> Result<MaskRCNNHeads> {
        let mut layers = Sequential::new();
        let mut previous = in_channels;
        for &next in widths {
            layers.push(conv3x3(previous, next, norm_layer.as_ref())?);
            previous = next;
        }
        init_convs(&layers, kaiming_normal)?;
        Ok(MaskRCNNHeads { layers })
    }
}

/// The masks of each class, twice as large.
///
/// ```
/// use torsh_nn::{Module, ModuleExt, init};
/// use torsh_tensor::{ones, zeros};
/// use torsh_vision::models::detection::MaskRCNNPredictor;
/// let predictor = MaskRCNNPredictor::new(8, 4, 3)?;
/// for parameter in predictor.parameters() {
///     init::zeros_(&parameter)?;
/// }
/// // Masks of three classes, twice as large as what was cut out.
/// assert_eq!(predictor.forward(&ones(&[5, 8, 14, 14]))?, zeros(&[5, 3, 28, 28]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MaskRCNNPredictor {
    /// Doubles the size.
    pub conv5_mask: ConvTranspose2d,
    /// Logits of each class.
    pub mask_fcn_logits: Conv2d,
}

impl MaskRCNNPredictor {
    /// Makes a predictor of so many classes, background among them.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::MaskRCNNPredictor;
    /// assert_eq!(MaskRCNNPredictor::new(8, 4, 3)?.num_parameters(), (8 * 4 * 2 * 2 + 4) + (4 * 3 + 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        dim_reduced: usize,
        num_classes: usize,
    ) -> Result<MaskRCNNPredictor> {
        let predictor = MaskRCNNPredictor {
            conv5_mask: ConvTranspose2d::new(in_channels, dim_reduced, 2, 2, 0)?,
            mask_fcn_logits: Conv2d::new(dim_reduced, num_classes, 1, 1, 0)?,
        };
        kaiming_normal(&predictor.conv5_mask.weight)?;
        kaiming_normal(&predictor.mask_fcn_logits.weight)?;
        Ok(predictor)
    }
}

impl Module for MaskRCNNPredictor {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.mask_fcn_logits
            .forward(&self.conv5_mask.forward(x)?.relu()?)
    }
}

/// Convolutions of 3 by 3 with ReLU on what is in a box, for its key points.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::KeypointRCNNHeads;
/// // The biases are 0 at first.
/// let heads = KeypointRCNNHeads::new(8, &[4, 4])?;
/// assert_eq!(heads.forward(&zeros(&[1, 8, 14, 14]))?, zeros(&[1, 4, 14, 14]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct KeypointRCNNHeads {
    layers: Sequential,
}

sequence!(KeypointRCNNHeads forwards);

impl KeypointRCNNHeads {
    /// Makes convolutions of these widths.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::KeypointRCNNHeads;
    /// assert_eq!(KeypointRCNNHeads::new(8, &[4, 4])?.num_parameters(), (8 * 4 * 9 + 4) + (4 * 4 * 9 + 4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, widths: &[usize]) -> Result<KeypointRCNNHeads> {
        let mut layers = Sequential::new();
        let mut previous = in_channels;
        for &next in widths {
            layers.push(Conv2d::new(previous, next, 3, 1, 1)?);
            layers.push(ReLU::new());
            previous = next;
        }
        init_convs(&layers, kaiming_normal)?;
        Ok(KeypointRCNNHeads { layers })
    }
}

/// A map of each key point, four times as large.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::KeypointRCNNPredictor;
/// // A map of each of 17 key points, four times as large as what was cut out.
/// let maps = KeypointRCNNPredictor::new(8, 17)?.forward(&zeros(&[1, 8, 2, 2]))?;
/// assert_eq!(maps, zeros(&[1, 17, 8, 8]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct KeypointRCNNPredictor {
    /// Doubles the size.
    pub kps_score_lowres: ConvTranspose2d,
}

impl KeypointRCNNPredictor {
    /// Makes a predictor of so many key points.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::KeypointRCNNPredictor;
    /// assert_eq!(KeypointRCNNPredictor::new(8, 17)?.num_parameters(), 8 * 17 * 4 * 4 + 17);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, num_keypoints: usize) -> Result<KeypointRCNNPredictor> {
        let conv = ConvTranspose2d::new(in_channels, num_keypoints, 4, 2, 1)?;
        kaiming_normal(&conv.weight)?;
        if let Some(bias) = &conv.bias {
            init::zeros_(bias)?;
        }
        Ok(KeypointRCNNPredictor {
            kps_score_lowres: conv,
        })
    }

    /// How many key points.
    ///
    /// ```
    /// use torsh_vision::models::detection::KeypointRCNNPredictor;
    /// assert_eq!(KeypointRCNNPredictor::new(8, 17)?.num_keypoints(), 17);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn num_keypoints(&self) -> usize {
        self.kps_score_lowres.weight.dims()[1]
    }
}

impl Module for KeypointRCNNPredictor {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = InterpolateOptions::new()
            .scale_factor([2.0])
            .mode(InterpolateMode::Bilinear)
            .align_corners(false)
            .recompute_scale_factor(false);
        self.kps_score_lowres.forward(x)?.interpolate_with(options)
    }
}

/// The numbers of [`RoIHeads`].
///
/// ```
/// use torsh_nn::Flatten;
/// use torsh_vision::models::detection::{FastRCNNPredictor, RoIHeads, RoILimits};
/// use torsh_vision::ops::MultiScaleRoIAlign;
/// let limits = RoILimits {
///     fg_iou_thresh: 0.5,
///     bg_iou_thresh: 0.5,
///     batch_size_per_image: 512,
///     positive_fraction: 0.25,
///     bbox_reg_weights: [10.0, 10.0, 5.0, 5.0],
///     score_thresh: 0.05,
///     nms_thresh: 0.5,
///     detections_per_img: 100,
/// };
/// // Foreground that is below background is refused.
/// let wrong = RoILimits { fg_iou_thresh: 0.25, ..limits };
/// let pool = MultiScaleRoIAlign::new(["0"], (1, 1), 2);
/// let made = RoIHeads::new(pool, Box::new(Flatten::new()), FastRCNNPredictor::new(2, 2)?, wrong);
/// assert!(made.err().is_some_and(|e| e.to_string().contains("low_threshold 0.5 is above high_threshold 0.25")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RoILimits {
    /// From this overlap with a true box on a proposal is foreground.
    pub fg_iou_thresh: f64,
    /// Below this overlap it is background.
    pub bg_iou_thresh: f64,
    /// How many proposals of each image the loss looks at.
    pub batch_size_per_image: usize,
    /// The part of them that is foreground.
    pub positive_fraction: f64,
    /// The weights of the offsets.
    pub bbox_reg_weights: [f64; 4],
    /// How sure a detection is at least.
    pub score_thresh: f64,
    /// The overlap from which on the less sure of two detections of one class goes.
    pub nms_thresh: f64,
    /// How many detections an image has at most.
    pub detections_per_img: usize,
}

/// What R-CNN says of each proposal. The parts may be exchanged, as `box_predictor` for another number of classes.
///
/// ```
/// use torsh_tensor::Device;
/// use torsh_vision::models::detection::{FasterRCNN, FastRCNNPredictor};
/// // A model for three classes, background among them.
/// let mut model = FasterRCNN::builder().device(Device::Meta).build()?;
/// let features = model.roi_heads.box_predictor.cls_score.in_features();
/// model.roi_heads.box_predictor = FastRCNNPredictor::new(features, 3)?;
/// assert_eq!(model.roi_heads.box_predictor.bbox_pred.out_features(), 4 * 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RoIHeads {
    /// Cuts proposals out of the feature maps.
    #[module(skip)]
    pub box_roi_pool: MultiScaleRoIAlign,
    /// Layers on what was cut out.
    pub box_head: Box<dyn Module>,
    /// Classes and offsets.
    pub box_predictor: FastRCNNPredictor,
    /// Cuts boxes out for masks.
    #[module(skip)]
    pub mask_roi_pool: Option<MultiScaleRoIAlign>,
    /// Layers on what was cut out for masks.
    pub mask_head: Option<Box<dyn Module>>,
    /// Masks.
    pub mask_predictor: Option<Box<dyn Module>>,
    /// Cuts boxes out for key points.
    #[module(skip)]
    pub keypoint_roi_pool: Option<MultiScaleRoIAlign>,
    /// Layers on what was cut out for key points.
    pub keypoint_head: Option<Box<dyn Module>>,
    /// Key points.
    pub keypoint_predictor: Option<KeypointRCNNPredictor>,
    #[module(skip)]
    limits: RoILimits,
    #[module(skip)]
    box_coder: BoxCoder,
    #[module(skip)]
    matcher: Matcher,
    #[module(skip)]
    sampler: BalancedPositiveNegativeSampler,
}

forward_is_with!(
    RoIHeads,
    "forward_with(&features, proposals, &image_sizes, targets)"
);

/// The proposals that the loss looks at.
struct Samples {
    proposals: Vec<Tensor>,
    /// The number of each proposal's true box.
    matched: Vec<Tensor>,
    labels: Vec<Tensor>,
    regression: Vec<Tensor>,
}

impl RoIHeads {
    /// Makes heads without masks and key points, as the example of [`forward_with`](Self::forward_with) does.
    ///
    /// # Errors
    /// A lower threshold above the higher one.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        box_roi_pool: MultiScaleRoIAlign,
        box_head: Box<dyn Module>,
        box_predictor: FastRCNNPredictor,
        limits: RoILimits,
    ) -> Result<RoIHeads> {
        Ok(RoIHeads {
            box_roi_pool,
            box_head,
            box_predictor,
            mask_roi_pool: None,
            mask_head: None,
            mask_predictor: None,
            keypoint_roi_pool: None,
            keypoint_head: None,
            keypoint_predictor: None,
            box_coder: BoxCoder::new(limits.bbox_reg_weights),
            matcher: Matcher::new(limits.fg_iou_thresh, limits.bg_iou_thresh, false)?,
            sampler: BalancedPositiveNegativeSampler::new(
                limits.batch_size_per_image,
                limits.positive_fraction,
            ),
            limits,
        })
    }

    fn cut(
        pool: Option<&MultiScaleRoIAlign>,
        what: &str,
        maps: &[(String, Tensor)],
        boxes: &[Tensor],
        sizes: &[(usize, usize)],
    ) -> Result<Tensor> {
        let Some(pool) = pool else {
            return Err(TorshError::invalid(
                "RoIHeads",
                format!("there is a {what}_predictor and no {what}_roi_pool"),
            ));
        };
        pool.apply(maps, boxes, sizes)
    }

    /// Gives the detections in each image, or with targets the losses.
    ///
    /// ```
    /// use torsh_nn::{Flatten, ModuleExt, init};
    /// use torsh_tensor::{ones, tensor};
    /// use torsh_vision::models::detection::{FastRCNNPredictor, RoIHeads, RoILimits};
    /// use torsh_vision::ops::MultiScaleRoIAlign;
    /// # let limits = RoILimits {
    /// #     fg_iou_thresh: 0.5,
    /// #     bg_iou_thresh: 0.5,
    /// #     batch_size_per_image: 512,
    /// #     positive_fraction: 0.25,
    /// #     bbox_reg_weights: [10.0, 10.0, 5.0, 5.0],
    /// #     score_thresh: 0.05,
    /// #     nms_thresh: 0.5,
    /// #     detections_per_img: 100,
    /// # };
    /// let predictor = FastRCNNPredictor::new(2, 2)?;
    /// for parameter in predictor.parameters() {
    ///     init::zeros_(&parameter)?;
    /// }
    /// let pool = MultiScaleRoIAlign::new(["0"], (1, 1), 2);
    /// let heads = RoIHeads::new(pool, Box::new(Flatten::new()), predictor, limits)?;
    /// // Of a predictor that says nothing, the one class is as likely as background, and the box is the proposal.
    /// let maps = [("0".to_string(), ones(&[1, 2, 4, 4]))];
    /// let proposals = vec![tensor![[2.0, 2.0, 10.0, 10.0]]];
    /// let (found, _) = heads.forward_with(&maps, proposals.clone(), &[(16, 16)], None)?;
    /// assert_eq!((&found[0].boxes, &found[0].scores), (&proposals[0], &tensor![0.5]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps that do not fit, and what the layers refuse.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        maps: &[(String, Tensor)],
        proposals: Vec<Tensor>,
        sizes: &[(usize, usize)],
        targets: Option<&[Target]>,
    ) -> Result<(Vec<Detection>, Losses)> {
        let samples = match targets {
            Some(targets) => Some(no_grad(|| {
                self.select_training_samples(&proposals, targets)
            })?),
            None => None,
        };
        let of = samples.as_ref().map_or(&proposals, |s| &s.proposals);
        let x = self
            .box_head
            .forward(&self.box_roi_pool.apply(maps, of, sizes)?)?;
        let (logits, offsets) = self.box_predictor.forward_with(&x)?;
        let (mut detections, mut losses) = (Vec::new(), Losses::default());
        match &samples {
            Some(s) => {
                let (classifier, boxes) =
                    fastrcnn_loss(&logits, &offsets, &s.labels, &s.regression)?;
                losses.push("loss_classifier", classifier);
                losses.push("loss_box_reg", boxes);
            }
            None => {
                detections = self.postprocess_detections(&logits, &offsets, &proposals, sizes)?
            }
        }
        let with_targets = samples.as_ref().zip(targets);
        if let (Some(head), Some(predictor)) = (&self.mask_head, &self.mask_predictor) {
            let pool = self.mask_roi_pool.as_ref();
            let logits = |boxes: &[Tensor]| {
                let x = Self::cut(pool, "mask", maps, boxes, sizes)?;
                predictor.forward(&head.forward(&x)?)
            };
            match with_targets {
                Some((s, targets)) => {
                    let (boxes, matched) = foreground(&s.proposals, &s.labels, &s.matched)?;
                    let masks: Vec<Tensor> =
                        targets.iter().filter_map(|t| t.masks.clone()).collect();
                    let labels: Vec<Tensor> = targets.iter().map(|t| t.labels.clone()).collect();
                    let loss = maskrcnn_loss(&logits(&boxes)?, &boxes, &masks, &labels, &matched)?;
                    losses.push("loss_mask", loss);
                }
                None => {
                    let boxes: Vec<Tensor> = detections.iter().map(|d| d.boxes.clone()).collect();
                    let labels: Vec<Tensor> = detections.iter().map(|d| d.labels.clone()).collect();
                    let masks = match boxes.iter().all(|b| b.numel() == 0) {
                        true => boxes
                            .iter()
                            .map(|b| empty_masks(b, 28))
                            .collect::<Result<Vec<_>>>()?,
                        false => maskrcnn_inference(&logits(&boxes)?, &labels)?,
                    };
                    for (d, masks) in detections.iter_mut().zip(masks) {
                        d.masks = Some(masks);
                    }
                }
            }
        }
        if let (Some(head), Some(predictor)) = (&self.keypoint_head, &self.keypoint_predictor) {
            let pool = self.keypoint_roi_pool.as_ref();
            let maps_of = |boxes: &[Tensor]| {
                let x = Self::cut(pool, "keypoint", maps, boxes, sizes)?;
                predictor.forward(&head.forward(&x)?)
            };
            match with_targets {
                Some((s, targets)) => {
                    let (boxes, matched) = foreground(&s.proposals, &s.labels, &s.matched)?;
                    let points: Vec<Tensor> =
                        targets.iter().filter_map(|t| t.keypoints.clone()).collect();
                    let loss = keypointrcnn_loss(&maps_of(&boxes)?, &boxes, &points, &matched)?;
                    losses.push("loss_keypoint", loss);
                }
                None => {
                    let boxes: Vec<Tensor> = detections.iter().map(|d| d.boxes.clone()).collect();
                    let n: Vec<usize> = detections.iter().map(Detection::len).collect();
                    let maps = match n.iter().sum::<usize>() {
                        0 => {
                            let shape = (0, predictor.num_keypoints(), 1, 1);
                            Tensor::zeros(shape, logits.dtype(), logits.device())?
                        }
                        _ => maps_of(&boxes)?,
                    };
                    for (d, maps) in detections.iter_mut().zip(maps.split_with_sizes(n, 0)?) {
                        let (points, scores) = heatmaps_to_keypoints(&maps, &d.boxes)?;
                        (d.keypoints, d.keypoints_scores) = (Some(points), Some(scores));
                    }
                }
            }
        }
        Ok((detections, losses))
    }

    /// Adds the true boxes to the proposals, gives each proposal its true box, and draws those that the loss looks at.
    fn select_training_samples(&self, proposals: &[Tensor], targets: &[Target]) -> Result<Samples> {
        let (mut with_truth, mut all_matched, mut all_labels) =
            (Vec::new(), Vec::new(), Vec::new());
        for (of_image, target) in proposals.iter().zip(targets) {
            let boxes = target.boxes.to_dtype(of_image.dtype())?;
            let of_image = cat(&[of_image.clone(), boxes.clone()], 0)?;
            let (matched, labels) = match boxes.numel() {
                0 => {
                    let none = Tensor::zeros([of_image.dims()[0]], DType::I64, of_image.device())?;
                    (none.clone(), none)
                }
                _ => {
                    let matched = self.matcher.matches(&ops::box_iou(&boxes, &of_image)?)?;
                    let number = matched.clamp_min(0)?;
                    let labels = target.labels.index_select(0, &number)?;
                    let labels =
                        labels.masked_fill(&matched.eq(Matcher::BELOW_LOW_THRESHOLD)?, 0)?;
                    (
                        number,
                        labels.masked_fill(&matched.eq(Matcher::BETWEEN_THRESHOLDS)?, -1)?,
                    )
                }
            };
            with_truth.push(of_image);
            all_matched.push(matched);
            all_labels.push(labels);
        }
        let (positive, negative) = self.sampler.sample(&all_labels)?;
        let mut s = Samples {
            proposals: Vec::new(),
            matched: Vec::new(),
            labels: Vec::new(),
            regression: Vec::new(),
        };
        for (i, target) in targets.iter().enumerate() {
            let drawn = places(&positive[i].add(&negative[i])?.gt(0)?)?;
            let boxes = with_truth[i].index_select(0, &drawn)?;
            let matched = all_matched[i].index_select(0, &drawn)?;
            let truth = match target.boxes.numel() {
                0 => boxes.mul(0.0)?,
                _ => target
                    .boxes
                    .to_dtype(boxes.dtype())?
                    .index_select(0, &matched)?,
            };
            s.labels.push(all_labels[i].index_select(0, &drawn)?);
            s.regression
                .push(self.box_coder.encode_single(&truth, &boxes)?);
            s.proposals.push(boxes);
            s.matched.push(matched);
        }
        Ok(s)
    }

    fn postprocess_detections(
        &self,
        logits: &Tensor,
        offsets: &Tensor,
        proposals: &[Tensor],
        sizes: &[(usize, usize)],
    ) -> Result<Vec<Detection>> {
        let classes = logits.size(-1)?;
        let counts: Vec<usize> = proposals.iter().map(|p| p.dims()[0]).collect();
        let boxes = self
            .box_coder
            .decode(offsets, proposals)?
            .split_with_sizes(counts.clone(), 0)?;
        let scores = F::softmax(logits, -1)?.split_with_sizes(counts.clone(), 0)?;
        let mut out = Vec::with_capacity(sizes.len());
        for (((boxes, scores), &size), &n) in boxes.iter().zip(&scores).zip(sizes).zip(&counts) {
            // Every class but background, each box of it by itself.
            let boxes = boxes
                .narrow(1, 1, classes - 1)?
                .reshape((n * (classes - 1), 4))?;
            let boxes = ops::clip_boxes_to_image(&boxes, size)?;
            let scores = scores.narrow(1, 1, classes - 1)?.flatten(0)?;
            let keep = places(&scores.gt(self.limits.score_thresh)?)?;
            let large = ops::remove_small_boxes(&boxes.index_select(0, &keep)?, 1e-2)?;
            let keep = keep.index_select(0, &large)?;
            let (boxes, scores) = (
                boxes.index_select(0, &keep)?,
                scores.index_select(0, &keep)?,
            );
            let labels = keep.remainder(classes as i64 - 1)?.add(1)?;
            let keep = ops::batched_nms(&boxes, &scores, &labels, self.limits.nms_thresh)?;
            let keep = keep.narrow(0, 0, self.limits.detections_per_img.min(keep.numel()))?;
            let take = |t: &Tensor| t.index_select(0, &keep);
            out.push(Detection::new(
                take(&boxes)?,
                take(&labels)?,
                take(&scores)?,
            ));
        }
        Ok(out)
    }
}

fn empty_masks(like: &Tensor, side: usize) -> Result<Tensor> {
    Tensor::zeros((0, 1, side, side), like.dtype(), like.device())
}

/// The losses of classes and of offsets.
fn fastrcnn_loss(
    logits: &Tensor,
    offsets: &Tensor,
    labels: &[Tensor],
    regression: &[Tensor],
) -> Result<(Tensor, Tensor)> {
    let (labels, regression) = (cat(labels, 0)?, cat(regression, 0)?);
    let classifier = F::cross_entropy(logits, &labels)?;
    let positive = places(&labels.gt(0)?)?;
    let classes = labels.index_select(0, &positive)?;
    let n = labels.numel();
    let offsets = offsets.reshape((n, offsets.dims()[1] / 4, 4))?;
    let offsets = offsets.index(&[Some(positive.clone()), Some(classes)])?;
    let options = SmoothL1LossOptions::new()
        .beta(1.0 / 9.0)
        .reduction(Reduction::Sum);
    let boxes = F::smooth_l1_loss_with(&offsets, &regression.index_select(0, &positive)?, options)?;
    Ok((classifier, boxes.div(n as f64)?))
}
