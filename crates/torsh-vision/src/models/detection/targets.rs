//! What detectors take and give: targets, detections and losses.

use std::fmt;

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::transform::{resize_boxes, resize_keypoints};

/// What is to be found in an image.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_vision::models::detection::Target;
///
/// let target = Target::new(tensor![[8.0, 10.0, 60.0, 70.0]], tensor![1]).masks(zeros(&[1, 96, 128]));
/// assert_eq!(target.labels.numel(), 1);
/// let e = Target::from_named([("boxes", tensor![[8.0, 10.0, 60.0, 70.0]])]).unwrap_err();
/// assert!(e.to_string().contains("labels"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Target {
    /// Boxes `[n, 4]` of corners x1, y1, x2, y2 in pixels, floating point.
    pub boxes: Tensor,
    /// The class of each box, int64 `[n]`. R-CNN and SSD count background as class 0.
    pub labels: Tensor,
    /// A mask for each box, `[n, h, w]`, 1 where the object is; Mask R-CNN asks for them.
    pub masks: Option<Tensor>,
    /// Key points of each box, float `[n, k, 3]`: x, y and whether it is seen; Keypoint R-CNN asks for them.
    pub keypoints: Option<Tensor>,
}

impl Target {
    /// Takes boxes and their classes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::Target;
    /// let target = Target::new(tensor![[8.0, 10.0, 60.0, 70.0]], tensor![3]).keypoints(tensor![[[20.0, 30.0, 1.0]]]);
    /// assert_eq!((target.labels, target.masks), (tensor![3], None));
    /// assert_eq!(target.keypoints, Some(tensor![[[20.0, 30.0, 1.0]]]));
    /// ```
    pub fn new(boxes: impl Into<Tensor>, labels: impl Into<Tensor>) -> Target {
        Target {
            boxes: boxes.into(),
            labels: labels.into(),
            masks: None,
            keypoints: None,
        }
    }

    setters! {
        /// With masks.
        masks: Option<Tensor>, impl Into<Tensor> => |v| Some(v.into());
        /// With key points.
        keypoints: Option<Tensor>, impl Into<Tensor> => |v| Some(v.into());
    }

    /// Takes named tensors, as PyTorch's dictionaries. Names of other things are passed over.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::Target;
    /// let named = [
    ///     ("image_id", tensor![7]),
    ///     ("boxes", tensor![[8.0, 10.0, 60.0, 70.0]]),
    ///     ("labels", tensor![3]),
    /// ];
    /// assert_eq!(Target::from_named(named)?.labels, tensor![3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Without `boxes` or `labels`.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_named<N: AsRef<str>>(
        named: impl IntoIterator<Item = (N, Tensor)>,
    ) -> Result<Target> {
        let (mut boxes, mut labels, mut masks, mut keypoints) = (None, None, None, None);
        for (name, tensor) in named {
            match name.as_ref() {
                "boxes" => boxes = Some(tensor),
                "labels" => labels = Some(tensor),
                "masks" => masks = Some(tensor),
                "keypoints" => keypoints = Some(tensor),
                _ => {}
            }
        }
        let there = |tensor: Option<Tensor>, name: &str| {
            tensor.ok_or_else(|| TorshError::invalid("Target", format!("the target has no {name}")))
        };
        Ok(Target {
            boxes: there(boxes, "boxes")?,
            labels: there(labels, "labels")?,
            masks,
            keypoints,
        })
    }

    /// The target of an image that was resized from one height and width to another.
    pub(super) fn resized(&self, from: (usize, usize), to: (usize, usize)) -> Result<Target> {
        let masks = match &self.masks {
            Some(masks) if from != to => {
                let masks = masks.unsqueeze(1)?.to_dtype(DType::F32)?.interpolate(to)?;
                Some(masks.squeeze(1)?.to_dtype(DType::U8)?)
            }
            other => other.clone(),
        };
        let keypoints = match &self.keypoints {
            Some(keypoints) => Some(resize_keypoints(keypoints, from, to)?),
            None => None,
        };
        Ok(Target {
            boxes: resize_boxes(&self.boxes, from, to)?,
            labels: self.labels.clone(),
            masks,
            keypoints,
        })
    }
}

/// What a model asks of targets besides boxes and labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// How many classes there are.
    pub classes: usize,
    pub masks: bool,
    /// How many key points.
    pub keypoints: Option<usize>,
}

impl Needs {
    /// Boxes of so many classes alone.
    pub(super) fn classes(classes: usize) -> Needs {
        Needs {
            classes,
            masks: false,
            keypoints: None,
        }
    }
}

/// Refuses targets that do not fit the images or the model.
pub(super) fn check_targets(
    op: &'static str,
    images: &[Tensor],
    targets: &[Target],
    needs: Needs,
) -> Result<()> {
    if targets.len() != images.len() {
        return Err(TorshError::invalid(
            op,
            format!("{} targets for {} images", targets.len(), images.len()),
        ));
    }
    for (i, (target, image)) in targets.iter().zip(images).enumerate() {
        let shape = |what: &str, expected: String, got: &Tensor| {
            let message = format!(
                "{what} of target {i} are {expected}, got {}",
                got.describe()
            );
            Err(TorshError::shape(op, message))
        };
        let boxes = &target.boxes;
        if boxes.ndim() != 2 || boxes.dims()[1] != 4 {
            return shape("boxes", "[n, 4]".into(), boxes);
        }
        let n = boxes.dims()[0];
        if !boxes.dtype().is_floating_point() {
            return Err(TorshError::dtype(
                op,
                format!(
                    "boxes of target {i} are floating point, got {}",
                    boxes.describe()
                ),
            ));
        }
        if target.labels.dtype() != DType::I64 {
            return Err(TorshError::dtype(
                op,
                format!(
                    "labels of target {i} are int64, got {}",
                    target.labels.describe()
                ),
            ));
        }
        if target.labels.dims() != [n] {
            return shape("labels", format!("[{n}], one for each box"), &target.labels);
        }
        let labels = target.labels.to_vec::<i64>()?;
        if let Some(label) = labels
            .iter()
            .find(|l| !(0..needs.classes as i64).contains(*l))
        {
            return Err(TorshError::invalid(
                op,
                format!(
                    "labels of target {i} are 0 to {}, got {label}",
                    needs.classes.saturating_sub(1)
                ),
            ));
        }
        if needs.masks {
            let (h, w) = match *image.dims() {
                [_, h, w] => (h, w),
                _ => (0, 0),
            };
            match &target.masks {
                None => return Err(TorshError::invalid(op, format!("target {i} has no masks"))),
                Some(masks) if masks.dims() != [n, h, w] => {
                    return shape("masks", format!("[{n}, {h}, {w}], one for each box"), masks);
                }
                Some(_) => {}
            }
        }
        if let Some(k) = needs.keypoints {
            match &target.keypoints {
                None => {
                    return Err(TorshError::invalid(
                        op,
                        format!("target {i} has no keypoints"),
                    ));
                }
                Some(points) if points.dims() != [n, k, 3] => {
                    return shape("keypoints", format!("[{n}, {k}, 3]"), points);
                }
                Some(points) if !points.dtype().is_floating_point() => {
                    return Err(TorshError::dtype(
                        op,
                        format!(
                            "keypoints of target {i} are floating point, got {}",
                            points.describe()
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        for (b, corners) in boxes
            .to_dtype(DType::F64)?
            .to_vec::<f64>()?
            .chunks_exact(4)
            .enumerate()
        {
            let extent = |low: f64, high: f64| low.is_finite() && high.is_finite() && low < high;
            if !extent(corners[0], corners[2]) || !extent(corners[1], corners[3]) {
                return Err(TorshError::invalid(
                    op,
                    format!("box {b} of target {i} has no area: {corners:?}"),
                )
                .with_hint("boxes are x1, y1, x2, y2 with x1 < x2 and y1 < y2; SanitizeBoundingBoxes removes others"));
            }
        }
    }
    Ok(())
}

/// What a detector found in an image, best first.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::Detection;
/// let found = Detection {
///     boxes: tensor![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 20.0]],
///     labels: tensor![1, 3],
///     scores: tensor![0.9, 0.4],
///     masks: None,
///     keypoints: None,
///     keypoints_scores: None,
/// };
/// assert_eq!(found.len(), 2);
/// assert_eq!(found.above(0.5)?.labels, tensor![1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Detection {
    /// Boxes `[n, 4]` of corners x1, y1, x2, y2 in the image's pixels.
    pub boxes: Tensor,
    /// The class of each box, int64 `[n]`.
    pub labels: Tensor,
    /// How sure the model is of each box, `[n]`.
    pub scores: Tensor,
    /// A mask for each box, `[n, 1, h, w]` between 0 and 1, of Mask R-CNN.
    pub masks: Option<Tensor>,
    /// Key points of each box, `[n, k, 3]`: x, y and 1, of Keypoint R-CNN.
    pub keypoints: Option<Tensor>,
    /// How sure the model is of each key point, `[n, k]`, of Keypoint R-CNN.
    pub keypoints_scores: Option<Tensor>,
}

impl Detection {
    pub(super) fn new(boxes: Tensor, labels: Tensor, scores: Tensor) -> Detection {
        Detection {
            boxes,
            labels,
            scores,
            masks: None,
            keypoints: None,
            keypoints_scores: None,
        }
    }

    /// How many boxes were found.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::detection::Detection;
    /// # let found = Detection {
    /// #     boxes: tensor![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 20.0]],
    /// #     labels: tensor![1, 3],
    /// #     scores: tensor![0.9, 0.4],
    /// #     masks: None,
    /// #     keypoints: None,
    /// #     keypoints_scores: None,
    /// # };
    /// assert_eq!(found.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.scores.numel()
    }

    /// Whether nothing was found.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::detection::Detection;
    /// # let found = Detection {
    /// #     boxes: tensor![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 20.0]],
    /// #     labels: tensor![1, 3],
    /// #     scores: tensor![0.9, 0.4],
    /// #     masks: None,
    /// #     keypoints: None,
    /// #     keypoints_scores: None,
    /// # };
    /// assert!(!found.is_empty());
    /// assert!(found.above(0.95)?.is_empty());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensors by PyTorch's names: `boxes`, `labels`, `scores` and what else is there.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::detection::Detection;
    /// # let found = Detection {
    /// #     boxes: tensor![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 20.0]],
    /// #     labels: tensor![1, 3],
    /// #     scores: tensor![0.9, 0.4],
    /// #     masks: None,
    /// #     keypoints: None,
    /// #     keypoints_scores: None,
    /// # };
    /// let names: Vec<&str> = found.named().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["boxes", "labels", "scores"]);
    /// ```
    pub fn named(&self) -> Vec<(&'static str, &Tensor)> {
        let all = [
            ("boxes", Some(&self.boxes)),
            ("labels", Some(&self.labels)),
            ("scores", Some(&self.scores)),
            ("masks", self.masks.as_ref()),
            ("keypoints", self.keypoints.as_ref()),
            ("keypoints_scores", self.keypoints_scores.as_ref()),
        ];
        all.into_iter()
            .filter_map(|(name, t)| Some((name, t?)))
            .collect()
    }

    /// Keeps the detections of at least this score.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// # use torsh_vision::models::detection::Detection;
    /// # let found = Detection {
    /// #     boxes: tensor![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 20.0]],
    /// #     labels: tensor![1, 3],
    /// #     scores: tensor![0.9, 0.4],
    /// #     masks: None,
    /// #     keypoints: None,
    /// #     keypoints_scores: None,
    /// # };
    /// let sure = found.above(0.5)?;
    /// assert_eq!((sure.boxes, sure.scores), (tensor![[0.0, 0.0, 10.0, 10.0]], tensor![0.9]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Of the ops it consists of.
    #[torsh_tensor::names_caller]
    pub fn above(&self, score: f64) -> Result<Detection> {
        let kept = super::matcher::places(&self.scores.ge(score)?)?;
        let take = |t: &Tensor| t.index_select(0, &kept);
        let maybe = |t: &Option<Tensor>| t.as_ref().map(take).transpose();
        Ok(Detection {
            boxes: take(&self.boxes)?,
            labels: take(&self.labels)?,
            scores: take(&self.scores)?,
            masks: maybe(&self.masks)?,
            keypoints: maybe(&self.keypoints)?,
            keypoints_scores: maybe(&self.keypoints_scores)?,
        })
    }
}

/// The parts of a detector's loss, by PyTorch's names and in its order.
///
/// ```
/// # use torsh_tensor::{tensor, zeros};
/// # use torsh_vision::models::detection::{
/// #     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork, Target,
/// # };
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
/// # let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
/// # let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
/// # let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
/// # let target = Target::new(tensor![[-16.0, -16.0, 16.0, 16.0]], tensor![1]);
/// let (_, losses) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 2])], Some(&[target]))?;
/// // Of a region proposal network that says nothing yet, with the object where an anchor is.
/// assert_eq!(losses.to_string(), "loss_objectness 0.6931, loss_rpn_box_reg 0.0000");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Losses(Vec<(&'static str, Tensor)>);

impl Losses {
    pub(super) fn push(&mut self, name: &'static str, loss: Tensor) {
        self.0.push((name, loss));
    }

    pub(super) fn extend(&mut self, other: Losses) {
        self.0.extend(other.0);
    }

    /// The loss of this name, as `loss_classifier`; `None` where the model has none of it.
    ///
    /// ```
    /// # use torsh_tensor::{tensor, zeros};
    /// # use torsh_vision::models::detection::{
    /// #     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork, Target,
    /// # };
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
    /// # let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
    /// # let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
    /// # let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
    /// # let target = Target::new(tensor![[-16.0, -16.0, 16.0, 16.0]], tensor![1]);
    /// let (_, losses) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 2])], Some(&[target]))?;
    /// assert_eq!(losses.get("loss_rpn_box_reg").map(|loss| loss.item::<f32>()).transpose()?, Some(0.0));
    /// assert!(losses.get("loss_mask").is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.iter().find(|(n, _)| *n == name).map(|(_, t)| t)
    }

    /// Names and losses (0-d tensors), in order.
    ///
    /// ```
    /// # use torsh_tensor::{tensor, zeros};
    /// # use torsh_vision::models::detection::{
    /// #     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork, Target,
    /// # };
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
    /// # let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
    /// # let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
    /// # let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
    /// # let target = Target::new(tensor![[-16.0, -16.0, 16.0, 16.0]], tensor![1]);
    /// let (_, losses) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 2])], Some(&[target]))?;
    /// let names: Vec<&str> = losses.iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["loss_objectness", "loss_rpn_box_reg"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        self.0.iter().map(|(name, t)| (*name, t))
    }

    /// Adds all losses to a 0-d tensor, which training minimises.
    ///
    /// ```
    /// # use torsh_tensor::{tensor, zeros};
    /// # use torsh_vision::models::detection::{
    /// #     AnchorGenerator, ImageList, ProposalLimits, RPNHead, RegionProposalNetwork, Target,
    /// # };
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
    /// # let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
    /// # let rpn = RegionProposalNetwork::new(anchors, RPNHead::new(8, 1, 1)?, limits)?;
    /// # let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
    /// # let target = Target::new(tensor![[-16.0, -16.0, 16.0, 16.0]], tensor![1]);
    /// let (_, losses) = rpn.forward_with(&images, &[zeros(&[1, 8, 1, 2])], Some(&[target]))?;
    /// assert!((losses.total()?.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If there are none.
    #[torsh_tensor::names_caller]
    pub fn total(&self) -> Result<Tensor> {
        let mut all = self.0.iter().map(|(_, t)| t);
        let Some(first) = all.next() else {
            return Err(TorshError::invalid("Losses::total", "there are no losses"));
        };
        all.try_fold(first.clone(), |sum, t| sum.add(t))
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, loss)) in self.iter().enumerate() {
            let between = if i == 0 { "" } else { ", " };
            match loss.item::<f64>() {
                Ok(value) => write!(f, "{between}{name} {value:.4}")?,
                Err(e) => write!(f, "{between}{name} {e}")?,
            }
        }
        Ok(())
    }
}

/// What [`forward_with`](super::Detector::forward_with) of a detector gives.
///
/// ```
/// use torsh_vision::models::detection::{DetectorOutput, Losses};
/// let output = DetectorOutput::Losses(Losses::default());
/// let found = match &output {
///     DetectorOutput::Detections(found) => found.len(),
///     DetectorOutput::Losses(losses) => losses.iter().count(),
/// };
/// assert_eq!(found, 0);
/// ```
#[derive(Clone, Debug)]
pub enum DetectorOutput {
    /// In training, with targets.
    Losses(Losses),
    /// Otherwise: what was found in each image.
    Detections(Vec<Detection>),
}
