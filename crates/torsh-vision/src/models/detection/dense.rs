//! What the detectors have in common that look at every anchor at once: RetinaNet, FCOS and SSD.

use torsh_tensor::{DType, Result, Tensor, TopkOptions, cat, no_grad};

use super::matcher::places;
use super::rpn::per_anchor;
use super::targets::Detection;
use crate::ops;

/// Which detections remain.
#[derive(Clone, Copy, Debug)]
pub(super) struct DetectionLimits {
    pub score_thresh: f64,
    pub nms_thresh: f64,
    pub detections_per_img: usize,
    pub topk_candidates: usize,
}

impl DetectionLimits {
    /// The best scores above the threshold among `[n]`, and their positions.
    pub(super) fn best(&self, scores: &Tensor) -> Result<(Tensor, Tensor)> {
        let above = places(&scores.gt(self.score_thresh)?)?;
        let scores = scores.index_select(0, &above)?;
        let n = self.topk_candidates.min(scores.numel());
        let (scores, order) = scores.topk_with(n, TopkOptions::new().dim(0))?;
        Ok((scores, above.index_select(0, &order)?))
    }

    /// One image's detections without those that a better one of their class overlaps.
    pub(super) fn apart(
        &self,
        boxes: &[Tensor],
        scores: &[Tensor],
        labels: &[Tensor],
    ) -> Result<Detection> {
        let (boxes, scores, labels) = (cat(boxes, 0)?, cat(scores, 0)?, cat(labels, 0)?);
        let keep = ops::batched_nms(&boxes, &scores, &labels, self.nms_thresh)?;
        let keep = keep.narrow(0, 0, self.detections_per_img.min(keep.numel()))?;
        let take = |t: &Tensor| t.index_select(0, &keep);
        Ok(Detection::new(
            take(&boxes)?,
            take(&labels)?,
            take(&scores)?,
        ))
    }

    /// Detections of scores `[n, anchors, classes]` and codes of boxes `[n, anchors, 4]`; the best of each feature map,
    /// which has so many anchors.
    pub(super) fn of_levels(
        &self,
        scores: &Tensor,
        codes: &Tensor,
        anchors: &[Tensor],
        per_level: &[usize],
        sizes: &[(usize, usize)],
        decode: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Vec<Detection>> {
        let classes = scores.size(-1)?;
        let mut out = Vec::with_capacity(sizes.len());
        for (i, (&size, anchors)) in sizes.iter().zip(anchors).enumerate() {
            let (scores, codes) = (scores.select(0, i)?, codes.select(0, i)?);
            let (mut boxes, mut values, mut labels, mut offset) =
                (Vec::new(), Vec::new(), Vec::new(), 0);
            for &n in per_level {
                let (best, at) = self.best(&scores.narrow(0, offset, n)?.flatten(0)?)?;
                labels.push(at.remainder(classes as i64)?);
                let anchor = at.floor_divide(classes as i64)?.add(offset as i64)?;
                let decoded = decode(
                    &codes.index_select(0, &anchor)?,
                    &anchors.index_select(0, &anchor)?,
                )?;
                boxes.push(ops::clip_boxes_to_image(&decoded, size)?);
                values.push(best);
                offset += n;
            }
            out.push(self.apart(&boxes, &values, &labels)?);
        }
        Ok(out)
    }
}

/// Which anchors of an image answer for which of its true boxes.
pub(super) struct Matched {
    /// For each anchor the number of its true box, or a negative one.
    pub matched: Tensor,
    /// The anchors that have a true box.
    pub foreground: Tensor,
    /// The numbers of their boxes.
    pub numbers: Tensor,
}

impl Matched {
    /// By what `matches` says of each anchor, which is not asked where there are no true boxes.
    pub(super) fn new(
        anchors: &Tensor,
        boxes: &Tensor,
        matches: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Matched> {
        let matched = no_grad(|| match boxes.numel() {
            0 => Tensor::full([anchors.dims()[0]], -1, DType::I64, anchors.device()),
            _ => matches(),
        })?;
        let foreground = places(&matched.ge(0)?)?;
        let numbers = matched.index_select(0, &foreground)?;
        Ok(Matched {
            matched,
            foreground,
            numbers,
        })
    }
}

/// A head's results of all feature maps, as `[n, anchors, columns]`.
pub(super) fn join(maps: impl Iterator<Item = Result<Tensor>>, columns: usize) -> Result<Tensor> {
    let rows: Result<Vec<Tensor>> = maps.map(|x| per_anchor(&x?, columns)).collect();
    cat(&rows?, 1)
}

/// How many anchors each feature map has.
pub(super) fn anchors_per_level(features: &[Tensor], anchors: usize) -> Vec<usize> {
    let places: Vec<usize> = features
        .iter()
        .map(|x| x.dims()[2..].iter().product())
        .collect();
    let all: usize = places.iter().sum();
    places
        .into_iter()
        .map(|n| n * (anchors / all.max(1)))
        .collect()
}
