//! Non-maximum suppression.

use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::{DType, Result, Shape, Tensor, TorshError};

use super::kernels::keys;
use super::{within, wrong_shape};
use crate::ops::attrs;

pub(super) const RECORDS: &[&OpRecord] = &[&NMS, &NMS_KERNEL, &BATCHED_NMS];

#[torsh_tensor::by_name(nms)]
static NMS: OpRecord = OpRecord::new(
    "torchvision::nms",
    "The indices of boxes that no better one overlaps by more than a threshold, by falling score.",
    "(Tensor boxes, Tensor scores, float iou_threshold)",
)
.constant();

#[torsh_tensor::by_name(batched_nms)]
static BATCHED_NMS: OpRecord = OpRecord::new(
    "torchvision::batched_nms",
    "Non-maximum suppression among the boxes of each class.",
    "(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold)",
)
.constant();

static NMS_KERNEL: OpRecord = OpRecord::new(
    "torchvision::nms.indices",
    "Indices, of which the first are those of the boxes that are kept, and their number.",
    "(Tensor boxes, Tensor scores, Tensor? idxs, *, float threshold)",
)
.internal()
.with_key(&keys::NMS, |c| {
    let (boxes, scores) = (c.tensor(0)?, c.tensor(1)?);
    check(boxes, scores, c.opt_tensor(2))?;
    c.attrs::<attrs::VisionNms>()?;
    let n = boxes.dims()[0];
    Ok(Plan::many(
        boxes.dtype(),
        [
            Spec::new(Shape::from([n]), DType::I64),
            Spec::new(Shape::from([0usize; 0]), DType::I64),
        ],
    ))
})
.constant();

fn check(boxes: &Tensor, scores: &Tensor, classes: Option<&Tensor>) -> Result<()> {
    let [n, 4] = *boxes.dims() else {
        return Err(wrong_shape("boxes", "[n, 4]", boxes));
    };
    for (what, t) in [("scores", Some(scores)), ("idxs", classes)] {
        if let Some(t) = t
            && t.dims() != [n]
        {
            return Err(wrong_shape(what, &format!("[{n}], one for each box"), t));
        }
    }
    if boxes.dtype() != scores.dtype() {
        let text = format!(
            "expected boxes and scores of one dtype, got {} and {}",
            boxes.dtype(),
            scores.dtype()
        );
        return Err(TorshError::dtype("", text)
            .with_hint("convert the scores with to_dtype(boxes.dtype())"));
    }
    if !boxes.dtype().is_floating_point() {
        let text = format!("boxes are floating-point numbers, got {}", boxes.dtype());
        return Err(TorshError::dtype("", text)
            .with_hint("convert boxes and scores with to_dtype(DType::F32)"));
    }
    Ok(())
}

/// Runs the kernel.
fn kept(
    boxes: &Tensor,
    scores: &Tensor,
    classes: Option<&Tensor>,
    threshold: f64,
) -> Result<Tensor> {
    check(boxes, scores, classes)?;
    if !boxes.device().has_data() {
        return Err(TorshError::device(
            "",
            "the shape of the result depends on the elements, which a meta tensor does not have",
        )
        .with_hint("compute it on a device with data"));
    }
    // Half types are compared in float32.
    let wide = |t: &Tensor| match t.dtype() {
        DType::F32 | DType::F64 => Ok(t.detach()),
        _ => t.detach().to_dtype(DType::F32),
    };
    let (boxes, scores) = (wide(boxes)?, wide(scores)?);
    let attrs = attrs::VisionNms { threshold };
    let out = NMS_KERNEL.call(
        &[Arg::T(&boxes), Arg::T(&scores), Arg::opt(classes)],
        &attrs,
    )?;
    match &out[..] {
        [order, count] => order
            .narrow(0, 0, count.item::<i64>()? as usize)?
            .contiguous(),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

/// The indices of the boxes that remain, by falling score, when every box is dropped that a better one overlaps by more
/// than `iou_threshold` of their union (`torchvision.ops.nms`). Of equal scores, the earlier box is the better one.
///
/// `boxes` are corners `[n, 4]`, `scores` `[n]` of the same floating-point dtype. The result is int64.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::nms;
/// let boxes = tensor![[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [6.0, 6.0, 9.0, 9.0]];
/// assert_eq!(nms(&boxes, &tensor![0.5, 0.8, 0.6], 0.7)?, tensor![1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not go together; on the meta device, which does not know how many boxes remain.
#[torsh_tensor::names_caller]
pub fn nms(boxes: &Tensor, scores: &Tensor, iou_threshold: f64) -> Result<Tensor> {
    within("torchvision::nms", &[boxes, scores], || {
        kept(boxes, scores, None, iou_threshold)
    })
}

/// [`nms`] in which only boxes of one class, which `idxs` `[n]` tells, drop each other (`torchvision.ops.batched_nms`).
///
/// Up to 1,000 boxes are moved apart by their class first, as in torchvision, which rounds their overlaps as it does.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::batched_nms;
/// let boxes = tensor![[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [0.0, 0.0, 4.0, 4.0]];
/// let keep = batched_nms(&boxes, &tensor![0.5, 0.8, 0.6], &tensor![0, 0, 1], 0.7)?;
/// assert_eq!(keep, tensor![1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`nms`].
#[torsh_tensor::names_caller]
pub fn batched_nms(
    boxes: &Tensor,
    scores: &Tensor,
    idxs: &Tensor,
    iou_threshold: f64,
) -> Result<Tensor> {
    within("torchvision::batched_nms", &[boxes, scores, idxs], || {
        check(boxes, scores, Some(idxs))?;
        if boxes.numel() > 4000 {
            let classes = idxs.detach().to_dtype(DType::I64)?;
            return kept(boxes, scores, Some(&classes), iou_threshold);
        }
        if boxes.numel() == 0 {
            return Tensor::empty([0], DType::I64, boxes.device());
        }
        let boxes = boxes.detach();
        let step = boxes.max()?.add(1)?;
        let by = idxs.detach().to_dtype(boxes.dtype())?.mul(&step)?;
        kept(&boxes.add(by.unsqueeze(1)?)?, scores, None, iou_threshold)
    })
}
