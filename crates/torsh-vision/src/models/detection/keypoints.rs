//! Key points of detected objects: their loss, and their places in the image.

use torsh_functional as F;
use torsh_tensor::{DType, InterpolateMode, InterpolateOptions, Result, Tensor, TorshError, cat};

use super::matcher::places;

/// For each key point `[n, k, 3]` of each box `[n, 4]` the element of a map of the box in which it lies (int64 `[n, k]`),
/// and whether it is in the box and seen (bool `[n, k]`).
fn keypoints_to_heatmap(
    keypoints: &Tensor,
    rois: &Tensor,
    size: usize,
) -> Result<(Tensor, Tensor)> {
    let element = |axis: i64| {
        let (low, high) = (rois.narrow(1, axis, 1)?, rois.narrow(1, axis + 2, 1)?);
        let place = keypoints.select(2, axis)?;
        let scale = high.sub(&low)?.reciprocal()?.mul(size as f64)?;
        let on_edge = place.eq(&high)?;
        let element = place.sub(&low)?.mul(scale)?.floor()?.to_dtype(DType::I64)?;
        element.masked_fill(&on_edge, size as i64 - 1)
    };
    let (x, y) = (element(0)?, element(1)?);
    let inside = |v: &Tensor| v.ge(0)?.logical_and(v.lt(size as i64)?);
    let seen = keypoints.select(2, 2)?.gt(0)?;
    let valid = inside(&x)?.logical_and(inside(&y)?)?.logical_and(seen)?;
    let place = y.mul(size as i64)?.add(x)?;
    Ok((place.mul(valid.to_dtype(DType::I64)?)?, valid))
}

/// The loss of key points: the cross entropy of the element of the box's map in which each of them lies.
pub(super) fn keypointrcnn_loss(
    logits: &Tensor,
    proposals: &[Tensor],
    keypoints: &[Tensor],
    matched: &[Tensor],
) -> Result<Tensor> {
    let &[n, k, h, w] = logits.dims() else {
        return Err(TorshError::shape(
            "keypointrcnn_loss",
            format!("maps are [n, k, size, size], got {}", logits.describe()),
        ));
    };
    if h != w {
        return Err(TorshError::shape(
            "keypointrcnn_loss",
            format!("maps are as high as wide, got {}", logits.describe()),
        ));
    }
    let (mut targets, mut valid) = (Vec::new(), Vec::new());
    for (i, boxes) in proposals.iter().enumerate() {
        let points = keypoints[i].index_select(0, &matched[i])?;
        let (place, there) = keypoints_to_heatmap(&points, boxes, h)?;
        targets.push(place.flatten(0)?);
        valid.push(there.flatten(0)?);
    }
    let valid = places(&cat(&valid, 0)?)?;
    if valid.numel() == 0 {
        return logits.sum()?.mul(0.0);
    }
    let targets = cat(&targets, 0)?.index_select(0, &valid)?;
    let logits = logits.reshape((n * k, h * w))?.index_select(0, &valid)?;
    F::cross_entropy(&logits, &targets)
}

/// Finds the key points `[n, k, 3]` and their scores `[n, k]`, both float32, of maps `[n, k, s, s]` of boxes `[n, 4]`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::heatmaps_to_keypoints;
/// // The map of a box of 2 by 2 pixels, whose top right is the most likely.
/// let (map, rois) = (tensor![[[[0.0, 1.0], [0.0, 0.0]]]], tensor![[10.0, 20.0, 12.0, 22.0]]);
/// let (points, scores) = heatmaps_to_keypoints(&map, &rois)?;
/// assert_eq!(points, tensor![[[11.5, 20.5, 1.0]]]);
/// assert!(scores.allclose(&tensor![[1.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Of the ops it consists of.
#[torsh_tensor::names_caller]
pub fn heatmaps_to_keypoints(maps: &Tensor, rois: &Tensor) -> Result<(Tensor, Tensor)> {
    let k = maps.size(1)?;
    let n = rois.size(0)?;
    let (mut points, mut scores) = (Vec::with_capacity(n * k * 3), Vec::with_capacity(n * k));
    let (low, rois) = (rois.narrow(1, 0, 2)?.detach(), rois.detach());
    let sizes = rois.narrow(1, 2, 2)?.sub(&low)?.clamp_min(1.0)?;
    let places = cat(&[low, sizes], 1)?
        .to_dtype(DType::F64)?
        .to_vec::<f64>()?;
    let maps = maps.detach();
    for (i, place) in places.chunks_exact(4).enumerate() {
        let [left, top, width, height] = [place[0], place[1], place[2], place[3]];
        let (columns, rows) = (width.ceil(), height.ceil());
        let options = InterpolateOptions::new()
            .size((rows as i64, columns as i64))
            .mode(InterpolateMode::Bicubic)
            .align_corners(false);
        let map = maps
            .narrow(0, i, 1)?
            .transpose(0, 1)?
            .interpolate_with(options)?;
        let (best, place) = map.reshape((k, -1))?.max_dim(1, false)?;
        let best = best.to_dtype(DType::F32)?.to_vec::<f32>()?;
        for (place, score) in place.to_vec::<i64>()?.into_iter().zip(best) {
            let (x, y) = (place % columns as i64, place / columns as i64);
            points.push(((x as f64 + 0.5) * (width / columns) + left) as f32);
            points.push(((y as f64 + 0.5) * (height / rows) + top) as f32);
            points.push(1.0);
            scores.push(score);
        }
    }
    let device = maps.device();
    Ok((
        Tensor::from_vec(points, (n, k, 3))?.to_device(device)?,
        Tensor::from_vec(scores, (n, k))?.to_device(device)?,
    ))
}
