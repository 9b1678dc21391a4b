//! Masks of detected objects: their loss, their values and their place in the image.

use torsh_functional as F;
use torsh_tensor::{DType, InterpolateMode, InterpolateOptions, Result, Tensor, cat};

use super::matcher::places;
use crate::ops::roi_align;

/// How likely each pixel of each detection's own class is, `[n, 1, h, w]`, of logits `[n, classes, h, w]`, one tensor
/// per image.
///
/// # Errors
/// Of the ops it consists of.
pub(super) fn maskrcnn_inference(logits: &Tensor, labels: &[Tensor]) -> Result<Vec<Tensor>> {
    let sizes: Vec<usize> = labels.iter().map(Tensor::numel).collect();
    let of_class = select_class(&logits.sigmoid()?, &Tensor::cat(labels, 0)?)?;
    of_class.unsqueeze(1)?.split_with_sizes(sizes, 0)
}

/// Of `[n, classes, ..]` what belongs to each row's class, `[n, ..]`.
pub(super) fn select_class(x: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let rows = Tensor::arange(0, labels.numel() as i64, 1, DType::I64, labels.device())?;
    x.index(&[Some(rows), Some(labels.clone())])
}

/// The parts of true masks in proposals, each resized to `[size, size]`.
fn project_masks_on_boxes(
    masks: &Tensor,
    boxes: &Tensor,
    matched: &Tensor,
    size: usize,
) -> Result<Tensor> {
    let ids = matched.to_dtype(boxes.dtype())?.unsqueeze(1)?;
    let rois = cat(&[ids, boxes.clone()], 1)?;
    let masks = masks.unsqueeze(1)?.to_dtype(boxes.dtype())?;
    roi_align(&masks, &rois, size)?.select(1, 0)
}

/// The loss of masks: the binary cross entropy of each proposal's own class.
pub(super) fn maskrcnn_loss(
    logits: &Tensor,
    proposals: &[Tensor],
    masks: &[Tensor],
    labels: &[Tensor],
    matched: &[Tensor],
) -> Result<Tensor> {
    let size = logits.size(-1)?;
    let (mut classes, mut truths) = (Vec::new(), Vec::new());
    for (i, boxes) in proposals.iter().enumerate() {
        if boxes.numel() > 0 {
            classes.push(labels[i].index_select(0, &matched[i])?);
            truths.push(project_masks_on_boxes(&masks[i], boxes, &matched[i], size)?);
        }
    }
    if truths.is_empty() {
        return logits.sum()?.mul(0.0);
    }
    let logits = select_class(logits, &cat(&classes, 0)?)?;
    F::binary_cross_entropy_with_logits(&logits, &cat(&truths, 0)?)
}

/// Puts masks `[n, 1, m, m]` of boxes `[n, 4]` into masks `[n, 1, h, w]` of the whole image, which are 0 outside of the
/// boxes.
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// use torsh_vision::models::detection::paste_masks_in_image;
/// // A mask of 2 by 2 in an image of 4 by 4, which ends softly.
/// let boxes = tensor![[1.0, 1.0, 3.0, 3.0]];
/// let mask = paste_masks_in_image(&ones(&[1, 1, 2, 2]), &boxes, (4, 4))?;
/// let middle = mask.select(2, 2)?.flatten(0)?;
/// assert!(middle.allclose(&tensor![0.0, 0.7, 1.0, 0.7])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Of the ops it consists of.
#[torsh_tensor::names_caller]
pub fn paste_masks_in_image(
    masks: &Tensor,
    boxes: &Tensor,
    image_size: (usize, usize),
) -> Result<Tensor> {
    let (height, width) = image_size;
    let n = masks.size(0)?;
    let out = Tensor::zeros((n, 1, height, width), masks.dtype(), masks.device())?;
    if n == 0 {
        return Ok(out);
    }
    // A pixel of zeros around, so that the mask ends softly.
    let side = masks.size(-1)?;
    let masks = masks.detach().constant_pad_nd([1, 1, 1, 1], 0.0)?;
    let scale = (side + 2) as f64 / side as f64;
    let (low, high) = (boxes.narrow(1, 0, 2)?, boxes.narrow(1, 2, 2)?);
    let half = high.sub(&low)?.mul(0.5)?.mul(scale)?;
    let middle = high.add(&low)?.mul(0.5)?;
    let corners = cat(&[middle.sub(&half)?, middle.add(&half)?], 1)?;
    let corners = corners.to_dtype(DType::F64)?.to_vec::<f64>()?;
    for (i, corner) in corners.chunks_exact(4).enumerate() {
        let [x1, y1, x2, y2] = [corner[0], corner[1], corner[2], corner[3]].map(|v| v as i64);
        let size = |low: i64, high: i64| (high - low + 1).max(1) as usize;
        let mask = bilinear(&masks.narrow(0, i, 1)?, (size(y1, y2), size(x1, x2)))?;
        let part = |low: i64, high: i64, end: usize| (low.max(0), (high + 1).min(end as i64));
        let ((left, right), (top, bottom)) = (part(x1, x2, width), part(y1, y2, height));
        if left >= right || top >= bottom {
            continue;
        }
        let (w, h) = ((right - left) as usize, (bottom - top) as usize);
        let mask = mask
            .select(0, 0)?
            .select(0, 0)?
            .narrow(0, top - y1, h)?
            .narrow(1, left - x1, w)?;
        out.select(0, i)?
            .select(0, 0)?
            .narrow(0, top, h)?
            .narrow(1, left, w)?
            .copy_(&mask)?;
    }
    Ok(out)
}

/// The proposals that the loss counts as foreground, and the numbers of their true boxes, for each image.
pub(super) fn foreground(
    proposals: &[Tensor],
    labels: &[Tensor],
    matched: &[Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let (mut boxes, mut numbers) = (Vec::new(), Vec::new());
    for (i, of_image) in labels.iter().enumerate() {
        let positive = places(&of_image.gt(0)?)?;
        boxes.push(proposals[i].index_select(0, &positive)?);
        numbers.push(matched[i].index_select(0, &positive)?);
    }
    Ok((boxes, numbers))
}

pub(super) fn bilinear(x: &Tensor, (h, w): (usize, usize)) -> Result<Tensor> {
    let options = InterpolateOptions::new()
        .size((h, w))
        .mode(InterpolateMode::Bilinear);
    x.interpolate_with(options.align_corners(false))
}
