//! Operators on boxes, regions and feature maps, as `torchvision.ops`.
//!
//! ```
//! use torsh_tensor::tensor;
//! use torsh_vision::ops;
//! let boxes = tensor![[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]];
//! let keep = ops::nms(&boxes, &tensor![0.9, 0.8, 0.7], 0.5)?;
//! assert_eq!(keep, tensor![0, 2]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! A function takes what torchvision's requires; `NAME_with` takes the keyword arguments too. They run on the thread
//! pool, have derivatives, and are called by name:
//!
//! ```
//! use torsh_tensor::{ops, tensor};
//! use torsh_vision as _;
//! let area = ops::call("torchvision::box_area", &[(&tensor![[0.0, 0.0, 2.0, 3.0]]).into()], &[])?;
//! assert_eq!(area.tensors()[0], tensor![6.0]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

pub(crate) mod attrs;
mod boxes;
mod deform;
pub(crate) mod drop;
mod formats;
mod kernels;
mod layers;
mod losses;
mod nms;
mod poolers;
mod rois;

use torsh_tensor::ops::Family;
use torsh_tensor::record::OpRecord;
use torsh_tensor::{DType, Reduction, Result, Tensor, TorshError, observe};

// What `torchvision.ops` has of the models' blocks.
pub use crate::models::blocks::{
    Conv2dNormActivation, Conv3dNormActivation, FeaturePyramidNetwork, FrozenBatchNorm2d, MLP,
    Permute, SqueezeExcitation, StochasticDepth,
};
pub use boxes::{
    BoxAreaOptions, BoxIouOptions, CenterIouOptions, box_area, box_area_with, box_iou,
    box_iou_with, clip_boxes_to_image, complete_box_iou, complete_box_iou_with, distance_box_iou,
    distance_box_iou_with, generalized_box_iou, masks_to_boxes, remove_small_boxes,
};
pub use deform::{DeformConv2dOptions, deform_conv2d, deform_conv2d_with};
pub use drop::{
    DropBlockOptions, drop_block2d, drop_block2d_with, drop_block3d, drop_block3d_with,
};
pub use drop::{StochasticDepthMode, stochastic_depth};
/// [`BoundingBoxFormat`] by a shorter name.
pub use formats::BoundingBoxFormat as BoxFormat;
pub use formats::{BoundingBoxFormat, IntoBoxFormat, box_convert};
pub use layers::{
    DeformConv2d, DeformConv2dBuilder, DropBlock2d, DropBlock3d, PSRoIAlign, PSRoIPool, RoIAlign,
    RoIPool,
};
pub use losses::{
    BoxLossOptions, FocalLossOptions, complete_box_iou_loss, complete_box_iou_loss_with,
    distance_box_iou_loss, distance_box_iou_loss_with, generalized_box_iou_loss,
    generalized_box_iou_loss_with, sigmoid_focal_loss, sigmoid_focal_loss_with,
};
pub use nms::{batched_nms, nms};
pub use poolers::MultiScaleRoIAlign;
pub use rois::{
    PsRoiAlignOptions, RoiAlignOptions, RoiBoxes, RoiPoolOptions, ps_roi_align, ps_roi_align_with,
    ps_roi_pool, ps_roi_pool_with, roi_align, roi_align_with, roi_pool, roi_pool_with,
};

const FAMILIES: [&[&OpRecord]; 7] = [
    boxes::RECORDS,
    formats::RECORDS,
    nms::RECORDS,
    rois::RECORDS,
    deform::RECORDS,
    losses::RECORDS,
    drop::RECORDS,
];

const COUNT: usize = {
    let (mut n, mut i) = (0, 0);
    while i < FAMILIES.len() {
        n += FAMILIES[i].len();
        i += 1;
    }
    n
};

/// All records as one list.
static RECORDS: [&OpRecord; COUNT] = {
    let mut all = [FAMILIES[0][0]; COUNT];
    let (mut n, mut i) = (0, 0);
    while i < FAMILIES.len() {
        let mut k = 0;
        while k < FAMILIES[i].len() {
            all[n] = FAMILIES[i][k];
            (n, k) = (n + 1, k + 1);
        }
        i += 1;
    }
    all
};

static FAMILY: Family = Family {
    feature: "vision",
    records: &RECORDS,
    aliases: &[],
    attributes: attrs::READERS,
    sparse: &[],
};

torsh_tensor::family!(FAMILY);

/// Runs a function that is written in ops: observers see it, and errors name it.
#[track_caller]
fn within<T>(op: &'static str, args: &[&Tensor], f: impl FnOnce() -> Result<T>) -> Result<T> {
    observe::composite(op, args, f).map_err(|e| e.renamed(op))
}

/// Runs `f` on float32 where the dtype is a half type, and gives its result in the dtype.
fn in_full(
    x: &Tensor,
    others: &[&Tensor],
    f: impl FnOnce(&Tensor, &[Tensor]) -> Result<Tensor>,
) -> Result<Tensor> {
    let dtype = x.dtype();
    if !matches!(dtype, DType::F16 | DType::BF16) || others.iter().any(|t| t.dtype() != dtype) {
        let others: Vec<Tensor> = others.iter().map(|&t| t.clone()).collect();
        return f(x, &others);
    }
    let wide = |t: &Tensor| t.to_dtype(DType::F32);
    let others = others.iter().map(|t| wide(t)).collect::<Result<Vec<_>>>()?;
    f(&wide(x)?, &others)?.to_dtype(dtype)
}

/// A shape as errors name it, where it is not what an operand must have.
fn wrong_shape(what: &str, wanted: &str, t: &Tensor) -> TorshError {
    TorshError::shape("", format!("{what} must be {wanted}, got {}", t.shape()))
}

/// The result of a loss from those of its elements. The mean of none is 0.
fn reduce(losses: Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::None => Ok(losses),
        Reduction::Sum => losses.sum(),
        Reduction::Mean if losses.numel() == 0 => losses.sum()?.mul(0.0),
        Reduction::Mean => losses.mean(),
        Reduction::BatchMean | Reduction::Unknown(_) => Err(invalid_reduction(reduction.name())),
    }
}

fn invalid_reduction(name: &str) -> TorshError {
    torsh_tensor::named::refused(name, "reduction", ["none", "mean", "sum"])
}

/// The reduction of PyTorch's name.
fn reduction_of(name: &str) -> Result<Reduction> {
    match name {
        "none" => Ok(Reduction::None),
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        other => Err(invalid_reduction(other)),
    }
}
