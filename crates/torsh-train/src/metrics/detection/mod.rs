//! Detection: what was found in images, and what is there.

mod coco;
mod overlap;
mod voc;

pub use coco::{CocoEvaluation, CocoKind, CocoSummary};
pub use voc::{VocInterpolation, VocMeanAveragePrecision};

use torsh_tensor::{Result, Tensor, TorshError};

/// What a detector found in one image.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::FoundObjects;
/// let found = FoundObjects::new(tensor![[1.0, 2.0, 9.0, 8.0]], tensor![0.9], tensor![1]);
/// assert_eq!(found.scores.dims(), [1]);
/// ```
#[derive(Clone, Debug)]
pub struct FoundObjects {
    /// `[n, 4]`, two corners unless the metric is told otherwise.
    pub boxes: Tensor,
    /// `[n]`
    pub scores: Tensor,
    /// The classes, `[n]`, integers.
    pub labels: Tensor,
    /// `[n, h, w]`; what is above one half (of bools and integers: what is not 0) is part of the object.
    pub masks: Option<Tensor>,
    /// `[n, k, 2]` or more numbers for each point, of which the first are x and y.
    pub keypoints: Option<Tensor>,
}

impl FoundObjects {
    /// Returns what was found as boxes, scores and classes, without masks and key points.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::FoundObjects;
    /// let found = FoundObjects::new(tensor![[1.0, 2.0, 9.0, 8.0]], tensor![0.9], tensor![3]);
    /// assert_eq!(found.labels.to_vec::<i64>()?, [3]);
    /// assert!(found.masks.is_none() && found.keypoints.is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(boxes: Tensor, scores: Tensor, labels: Tensor) -> FoundObjects {
        FoundObjects {
            boxes,
            scores,
            labels,
            masks: None,
            keypoints: None,
        }
    }

    /// With masks.
    #[must_use]
    pub fn masks(mut self, masks: Tensor) -> Self {
        self.masks = Some(masks);
        self
    }

    /// With key points.
    #[must_use]
    pub fn keypoints(mut self, keypoints: Tensor) -> Self {
        self.keypoints = Some(keypoints);
        self
    }
}

/// The objects of one image.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::TrueObjects;
/// let there = TrueObjects::new(tensor![[1.0, 2.0, 9.0, 8.0]], tensor![1]).crowd(tensor![false]);
/// assert!(there.crowd.is_some());
/// ```
#[derive(Clone, Debug)]
pub struct TrueObjects {
    /// `[m, 4]`, two corners unless the metric is told otherwise.
    pub boxes: Tensor,
    /// The classes, `[m]`, integers.
    pub labels: Tensor,
    /// Which are crowds, in COCO's terms (each takes in as many detections as there are), or difficult, in VOC's; `[m]`. They
    /// need not be found.
    pub crowd: Option<Tensor>,
    /// The areas, `[m]`; those of the masks, or else of the boxes, where not given.
    pub area: Option<Tensor>,
    /// `[m, h, w]`
    pub masks: Option<Tensor>,
    /// `[m, k, 3]`: x, y, and whether the point is labelled (above 0).
    pub keypoints: Option<Tensor>,
}

impl TrueObjects {
    /// Returns the objects of an image as boxes and classes, without crowds, masks and key points.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::TrueObjects;
    /// let there = TrueObjects::new(tensor![[1.0, 2.0, 9.0, 8.0]], tensor![3]).area(tensor![48.0]);
    /// assert_eq!(there.labels.to_vec::<i64>()?, [3]);
    /// assert!(there.area.is_some() && there.crowd.is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(boxes: Tensor, labels: Tensor) -> TrueObjects {
        TrueObjects {
            boxes,
            labels,
            crowd: None,
            area: None,
            masks: None,
            keypoints: None,
        }
    }

    /// With the flags of crowds.
    #[must_use]
    pub fn crowd(mut self, crowd: Tensor) -> Self {
        self.crowd = Some(crowd);
        self
    }

    /// With areas.
    #[must_use]
    pub fn area(mut self, area: Tensor) -> Self {
        self.area = Some(area);
        self
    }

    /// With masks.
    #[must_use]
    pub fn masks(mut self, masks: Tensor) -> Self {
        self.masks = Some(masks);
        self
    }

    /// With key points.
    #[must_use]
    pub fn keypoints(mut self, keypoints: Tensor) -> Self {
        self.keypoints = Some(keypoints);
        self
    }
}

/// A corner and the sizes of a box.
type Rect = [f64; 4];

/// The rows of a tensor `[n, width]`, of any width where that is `None`.
fn rows(op: &str, what: &str, t: &Tensor, n: usize, width: usize) -> Result<Vec<f64>> {
    let wanted: &[usize] = &[n, width];
    let fits = match width {
        1 => t.dims() == [n],
        _ => t.dims() == wanted || n == 0 && t.numel() == 0,
    };
    if !fits {
        let shape = match width {
            1 => format!("[{n}]"),
            _ => format!("[{n}, {width}]"),
        };
        return Err(TorshError::shape(
            op.to_string(),
            format!("{what} ({}) must be {shape}", t.describe()),
        ));
    }
    t.detach().to_vec::<f64>()
}

/// How many objects a list of boxes has.
fn count(t: &Tensor) -> usize {
    match t.numel() {
        0 => 0,
        _ => t.dims().first().copied().unwrap_or(0),
    }
}

/// Boxes as corners and sizes.
fn rects(op: &str, t: &Tensor, sizes: bool) -> Result<Vec<Rect>> {
    let all = rows(op, "boxes", t, count(t), 4)?;
    let one = |b: &[f64]| match sizes {
        true => [b[0], b[1], b[2], b[3]],
        false => [b[0], b[1], b[2] - b[0], b[3] - b[1]],
    };
    Ok(all.chunks_exact(4).map(one).collect())
}

/// Scores as they sort: from high to low, equal ones as they are.
fn by_score(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order
}

/// The error of as many lists as images.
fn unequal(op: &str, found: usize, there: usize) -> TorshError {
    TorshError::invalid(
        op.to_string(),
        format!("{found} images with detections, and {there} with objects"),
    )
    .with_hint("give an entry for each image, an empty one where there is nothing")
}
