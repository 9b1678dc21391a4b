//! The network that proposes where objects may be (Ren et al. 2015, <https://arxiv.org/abs/1506.01497>).

use torsh_functional as F;
use torsh_nn::{Conv2d, Module, Reduction, Sequential, Training};
use torsh_tensor::{
    DType, Result, SmoothL1LossOptions, Tensor, TopkOptions, TorshError, cat, no_grad,
};

use super::anchors::AnchorGenerator;
use super::coders::BoxCoder;
use super::heads::{self, forward_is_with};
use super::matcher::{BalancedPositiveNegativeSampler, Matcher, places};
use super::targets::{Losses, Target};
use super::transform::ImageList;
use crate::ops;

/// Says of each anchor whether it is an object, and where exactly.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::RPNHead;
///
/// let head = RPNHead::new(8, 3, 1)?;
/// let (objectness, offsets) = head.forward_with(&[zeros(&[1, 8, 4, 6])])?;
/// assert_eq!(objectness[0].dims(), [1, 3, 4, 6]);
/// assert_eq!(offsets[0].dims(), [1, 12, 4, 6]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RPNHead {
    /// Convolutions of 3 by 3.
    pub conv: Sequential,
    /// Whether each anchor is an object, as a logit.
    pub cls_logits: Conv2d,
    /// Offsets of each anchor.
    pub bbox_pred: Conv2d,
}

impl RPNHead {
    /// Makes a head on maps of `in_channels` channels with `num_anchors` anchors for each element, behind `conv_depth`
    /// convolutions.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::RPNHead;
    /// // One convolution, and a logit and four offsets for each of three anchors.
    /// let head = RPNHead::new(8, 3, 1)?;
    /// assert_eq!(head.num_parameters(), (8 * 8 * 9 + 8) + (8 * 3 + 3) + (8 * 12 + 12));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, num_anchors: usize, conv_depth: usize) -> Result<RPNHead> {
        let mut conv = Sequential::new();
        for _ in 0..conv_depth {
            conv.push(heads::conv3x3(in_channels, in_channels, None)?);
        }
        let head = RPNHead {
            conv,
            cls_logits: Conv2d::new(in_channels, num_anchors, 1, 1, 0)?,
            bbox_pred: Conv2d::new(in_channels, num_anchors * 4, 1, 1, 0)?,
        };
        heads::init_convs(&head, heads::normal(0.01))?;
        Ok(head)
    }

    /// Computes the logits `[n, anchors, h, w]` and offsets `[n, 4 * anchors, h, w]` of each feature map.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::RPNHead;
    /// // The biases are 0 at first.
    /// let (logits, offsets) = RPNHead::new(8, 3, 1)?.forward_with(&[zeros(&[1, 8, 4, 6])])?;
    /// assert_eq!((&logits[0], &offsets[0]), (&zeros(&[1, 3, 4, 6]), &zeros(&[1, 12, 4, 6])));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let (mut logits, mut offsets) = (Vec::new(), Vec::new());
        for x in features {
            let x = self.conv.forward(x)?;
            logits.push(self.cls_logits.forward(&x)?);
            offsets.push(self.bbox_pred.forward(&x)?);
        }
        Ok((logits, offsets))
    }
}

forward_is_with!(RPNHead, "forward_with(&[feature maps])");

/// The numbers of a [`RegionProposalNetwork`].
///
/// ```
/// use torsh_vision::models::detection::{AnchorGenerator, ProposalLimits, RPNHead, RegionProposalNetwork};
/// let limits = ProposalLimits {
///     fg_iou_thresh: 0.7,
///     bg_iou_thresh: 0.3,
///     batch_size_per_image: 256,
///     positive_fraction: 0.5,
///     pre_nms_top_n: (2000, 1000),
///     post_nms_top_n: (2000, 1000),
///     nms_thresh: 0.7,
///     score_thresh: 0.0,
/// };
/// // Foreground that is below background is refused.
/// let wrong = ProposalLimits { fg_iou_thresh: 0.1, ..limits };
/// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
/// let error = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, wrong).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("low_threshold 0.3 is above high_threshold 0.1")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProposalLimits {
    /// From this overlap with a true box on an anchor is foreground.
    pub fg_iou_thresh: f64,
    /// Below this overlap it is background.
    pub bg_iou_thresh: f64,
    /// How many anchors of each image the loss looks at.
    pub batch_size_per_image: usize,
    /// The part of them that is foreground.
    pub positive_fraction: f64,
    /// How many proposals of each feature map and image enter the suppression of overlaps: in training and otherwise.
    pub pre_nms_top_n: (usize, usize),
    /// How many proposals of each image remain: in training and otherwise.
    pub post_nms_top_n: (usize, usize),
    /// The overlap from which on the less likely of two proposals goes.
    pub nms_thresh: f64,
    /// How likely a proposal is at least.
    pub score_thresh: f64,
}

/// Proposes boxes in which objects may be.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_vision::models::detection::{
///     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork,
/// };
/// # let limits = ProposalLimits {
/// #     fg_iou_thresh: 0.7,
/// #     bg_iou_thresh: 0.3,
/// #     batch_size_per_image: 256,
/// #     positive_fraction: 0.5,
/// #     pre_nms_top_n: (2000, 1000),
/// #     post_nms_top_n: (2000, 1000),
/// #     nms_thresh: 0.7,
/// #     score_thresh: 0.0,
/// # };
/// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
/// let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
/// let images = ImageList { tensors: zeros(&[1, 3, 64, 64]), image_sizes: vec![(64, 64)] };
/// // One element of one map; its offsets are 0 and its anchor reaches beyond the image.
/// let (proposals, _) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 1])], None)?;
/// assert_eq!(proposals[0], tensor![[0.0, 0.0, 16.0, 16.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RegionProposalNetwork {
    /// The anchors.
    #[module(skip)]
    pub anchor_generator: AnchorGenerator,
    /// What it says of each anchor.
    pub head: RPNHead,
    #[module(skip)]
    limits: ProposalLimits,
    #[module(skip)]
    box_coder: BoxCoder,
    #[module(skip)]
    matcher: Matcher,
    #[module(skip)]
    sampler: BalancedPositiveNegativeSampler,
    training: Training,
}

/// `[n, a * c, h, w]` as `[n, h * w * a, c]`.
pub(super) fn per_anchor(x: &Tensor, columns: usize) -> Result<Tensor> {
    let &[n, channels, h, w] = x.dims() else {
        return Err(TorshError::shape(
            "detection",
            format!("a head's result is [n, c, h, w], got {}", x.describe()),
        ));
    };
    let x = x.reshape((n, channels / columns, columns, h, w))?;
    x.permute([0, 3, 4, 1, 2])?
        .reshape((n, h * w * (channels / columns), columns))
}

impl RegionProposalNetwork {
    /// Makes a network of anchors and a head.
    ///
    /// ```
    /// use torsh_vision::models::detection::{AnchorGenerator, ProposalLimits, RPNHead, RegionProposalNetwork};
    /// # let limits = ProposalLimits {
    /// #     fg_iou_thresh: 0.7,
    /// #     bg_iou_thresh: 0.3,
    /// #     batch_size_per_image: 256,
    /// #     positive_fraction: 0.5,
    /// #     pre_nms_top_n: (2000, 1000),
    /// #     post_nms_top_n: (2000, 1000),
    /// #     nms_thresh: 0.7,
    /// #     score_thresh: 0.0,
    /// # };
    /// // The head is of three anchors for each element, and the generator makes one.
    /// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
    /// let error = RegionProposalNetwork::new(anchors, RPNHead::new(8, 3, 1)?, limits).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("the head has 3 anchors for each element, the generator [1]")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A lower threshold above the higher one, sizes of the anchors that the head does not have.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        anchor_generator: AnchorGenerator,
        head: RPNHead,
        limits: ProposalLimits,
    ) -> Result<Self> {
        let anchors = head.cls_logits.weight.dims()[0];
        if anchor_generator
            .num_anchors_per_location()
            .iter()
            .any(|n| *n != anchors)
        {
            return Err(TorshError::invalid(
                "RegionProposalNetwork",
                format!(
                    "the head has {anchors} anchors for each element, the generator {:?}",
                    anchor_generator.num_anchors_per_location()
                ),
            ));
        }
        Ok(RegionProposalNetwork {
            anchor_generator,
            head,
            box_coder: BoxCoder::new([1.0; 4]),
            matcher: Matcher::new(limits.fg_iou_thresh, limits.bg_iou_thresh, true)?,
            sampler: BalancedPositiveNegativeSampler::new(
                limits.batch_size_per_image,
                limits.positive_fraction,
            ),
            limits,
            training: Training::default(),
        })
    }

    /// Gives the proposals `[n, 4]` of each image and, where targets are given, the losses `loss_objectness` and
    /// `loss_rpn_box_reg`. With targets as many proposals are made as in training.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_vision::models::detection::{
    ///     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork, Target,
    /// };
    /// # let limits = ProposalLimits {
    /// #     fg_iou_thresh: 0.7,
    /// #     bg_iou_thresh: 0.3,
    /// #     batch_size_per_image: 256,
    /// #     positive_fraction: 0.5,
    /// #     pre_nms_top_n: (2000, 1000),
    /// #     post_nms_top_n: (2000, 1000),
    /// #     nms_thresh: 0.7,
    /// #     score_thresh: 0.0,
    /// # };
    /// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
    /// let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
    /// let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
    /// // The object is where the first of two anchors is.
    /// let target = Target::new(tensor![[-16.0, -16.0, 16.0, 16.0]], tensor![1]);
    /// let (_, losses) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 2])], Some(&[target]))?;
    /// let names: Vec<&str> = losses.iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["loss_objectness", "loss_rpn_box_reg"]);
    /// // Of zeros the network says that anything is as likely an object as not.
    /// assert!((losses.total()?.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Feature maps that do not fit the head and the anchors.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        images: &ImageList,
        features: &[Tensor],
        targets: Option<&[Target]>,
    ) -> Result<(Vec<Tensor>, Losses)> {
        let (objectness, offsets) = self.head.forward_with(features)?;
        let anchors = self.anchor_generator.boxes(images, features)?;
        let per_level: Vec<usize> = objectness
            .iter()
            .map(|o| o.numel() / o.dims()[0].max(1))
            .collect();
        let join = |maps: &[Tensor], columns: usize| {
            let rows: Result<Vec<Tensor>> = maps.iter().map(|x| per_anchor(x, columns)).collect();
            cat(&rows?, 1)
        };
        let objectness = join(&objectness, 1)?.squeeze(-1)?;
        let offsets = join(&offsets, 4)?;
        let proposals = no_grad(|| {
            let (n, all) = (anchors.len(), offsets.dims()[1]);
            let decoded = self
                .box_coder
                .decode(&offsets.detach().reshape((n * all, 4))?, &anchors)?;
            let decoded = decoded.reshape((n, all, 4))?;
            self.filter_proposals(
                &decoded,
                &objectness.detach(),
                &images.image_sizes,
                &per_level,
                targets.is_some(),
            )
        })?;
        let mut losses = Losses::default();
        if let Some(targets) = targets {
            let (labels, boxes) = no_grad(|| self.assign_targets_to_anchors(&anchors, targets))?;
            let regression = no_grad(|| self.box_coder.encode(&boxes, &anchors))?;
            let (objectness, boxes) = self.loss(&objectness, &offsets, &labels, &regression)?;
            losses.push("loss_objectness", objectness);
            losses.push("loss_rpn_box_reg", boxes);
        }
        Ok((proposals, losses))
    }

    fn filter_proposals(
        &self,
        proposals: &Tensor,
        objectness: &Tensor,
        image_sizes: &[(usize, usize)],
        per_level: &[usize],
        training: bool,
    ) -> Result<Vec<Tensor>> {
        let choose = |(in_training, otherwise): (usize, usize)| {
            if training { in_training } else { otherwise }
        };
        let (before, behind) = (
            choose(self.limits.pre_nms_top_n),
            choose(self.limits.post_nms_top_n),
        );
        let (mut best, mut levels, mut offset) = (Vec::new(), Vec::new(), 0);
        for (level, &n) in per_level.iter().enumerate() {
            let k = before.min(n);
            let (_, index) = objectness
                .narrow(1, offset, n)?
                .topk_with(k, TopkOptions::new().dim(1))?;
            best.push(index.add(offset as i64)?);
            levels.push(Tensor::full(
                [k],
                level as i64,
                DType::I64,
                objectness.device(),
            )?);
            offset += n;
        }
        let (best, levels) = (cat(&best, 1)?, cat(&levels, 0)?);
        let mut out = Vec::with_capacity(image_sizes.len());
        for (i, &size) in image_sizes.iter().enumerate() {
            let index = best.select(0, i)?;
            let scores = objectness
                .select(0, i)?
                .index_select(0, &index)?
                .sigmoid()?;
            let boxes = proposals.select(0, i)?.index_select(0, &index)?;
            let boxes = ops::clip_boxes_to_image(&boxes, size)?;
            let keep = ops::remove_small_boxes(&boxes, 1e-3)?;
            let likely = places(
                &scores
                    .index_select(0, &keep)?
                    .ge(self.limits.score_thresh)?,
            )?;
            let keep = keep.index_select(0, &likely)?;
            let (boxes, scores) = (
                boxes.index_select(0, &keep)?,
                scores.index_select(0, &keep)?,
            );
            let keep = ops::batched_nms(
                &boxes,
                &scores,
                &levels.index_select(0, &keep)?,
                self.limits.nms_thresh,
            )?;
            let n = behind.min(keep.numel());
            out.push(boxes.index_select(0, &keep.narrow(0, 0, n)?)?);
        }
        Ok(out)
    }

    /// For each anchor whether it is foreground (1), background (0) or neither (-1), and its true box.
    fn assign_targets_to_anchors(
        &self,
        anchors: &[Tensor],
        targets: &[Target],
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let (mut labels, mut boxes) = (Vec::new(), Vec::new());
        for (anchors, target) in anchors.iter().zip(targets) {
            if target.boxes.numel() == 0 {
                labels.push(Tensor::zeros(
                    [anchors.dims()[0]],
                    DType::F32,
                    anchors.device(),
                )?);
                boxes.push(Tensor::zeros(anchors.dims(), DType::F32, anchors.device())?);
                continue;
            }
            let matched = self
                .matcher
                .matches(&ops::box_iou(&target.boxes, anchors)?)?;
            boxes.push(target.boxes.index_select(0, &matched.clamp_min(0)?)?);
            let foreground = matched.ge(0)?.to_dtype(DType::F32)?;
            labels.push(foreground.masked_fill(&matched.eq(Matcher::BETWEEN_THRESHOLDS)?, -1.0)?);
        }
        Ok((labels, boxes))
    }

    fn loss(
        &self,
        objectness: &Tensor,
        offsets: &Tensor,
        labels: &[Tensor],
        regression: &[Tensor],
    ) -> Result<(Tensor, Tensor)> {
        let (positive, negative) = self.sampler.sample(labels)?;
        let positive = places(&cat(&positive, 0)?)?;
        let sampled = cat(&[positive.clone(), places(&cat(&negative, 0)?)?], 0)?;
        let labels = cat(labels, 0)?
            .index_select(0, &sampled)?
            .to_dtype(objectness.dtype())?;
        let options = SmoothL1LossOptions::new()
            .beta(1.0 / 9.0)
            .reduction(Reduction::Sum);
        let boxes = F::smooth_l1_loss_with(
            &offsets.reshape((-1, 4))?.index_select(0, &positive)?,
            &cat(regression, 0)?.index_select(0, &positive)?,
            options,
        )?;
        let boxes = boxes.div(sampled.numel() as f64)?;
        let objectness = objectness.flatten(0)?.index_select(0, &sampled)?;
        Ok((
            F::binary_cross_entropy_with_logits(&objectness, &labels)?,
            boxes,
        ))
    }
}

forward_is_with!(
    RegionProposalNetwork,
    "forward_with(&images, &features, targets)"
);
