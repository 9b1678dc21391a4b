//! Boxes: formats, areas, how far they overlap, and those of masks.

use std::f64::consts::PI;

use torsh_core::attrs;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, sample};
use torsh_tensor::{DType, Result, Shape, Tensor, TorshError, Value, no_grad, options};

use super::formats::{IntoBoxFormat, check, convert, parts, sample_boxes};
use super::kernels::keys;
use super::{BoxFormat, within, wrong_shape};

pub(super) const RECORDS: &[&OpRecord] = &[
    &BOX_AREA,
    &BOX_IOU,
    &BOX_IOU_ROTATED,
    &GENERALIZED_BOX_IOU,
    &DISTANCE_BOX_IOU,
    &COMPLETE_BOX_IOU,
    &CLIP_BOXES_TO_IMAGE,
    &REMOVE_SMALL_BOXES,
    &MASKS_TO_BOXES,
];

options! {
    /// The keyword arguments of `box_area`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{BoxAreaOptions, BoxFormat, box_area_with};
    /// // A corner and the sizes: 2 by 3.
    /// let options = BoxAreaOptions::new().fmt(BoxFormat::Xywh);
    /// assert_eq!(box_area_with(&tensor![[9.0, 9.0, 2.0, 3.0]], options)?, tensor![6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BoxAreaOptions {
        /// The format, none of the rotated ones. The default is corners.
        fmt: BoxFormat = BoxFormat::Xyxy;
    }
}

options! {
    /// The keyword arguments of `box_iou`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{BoxFormat, BoxIouOptions, box_iou_with};
    /// // A square of side 2 and its right half, by centres and sizes.
    /// let (a, b) = (tensor![[1.0, 1.0, 2.0, 2.0]], tensor![[1.5, 1.0, 1.0, 2.0]]);
    /// assert_eq!(box_iou_with(&a, &b, BoxIouOptions::new().fmt(BoxFormat::Cxcywh))?, tensor![[0.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BoxIouOptions {
        /// The format of both sets. The default is corners.
        fmt: BoxFormat = BoxFormat::Xyxy;
    }
}

options! {
    /// The keyword arguments of `distance_box_iou` and `complete_box_iou`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{CenterIouOptions, distance_box_iou_with};
    /// // The centres are 2 apart, and the diagonal of the box around both has the square 10, to which eps is added.
    /// let (a, b) = (tensor![[0.0, 0.0, 1.0, 1.0]], tensor![[2.0, 0.0, 3.0, 1.0]]);
    /// let d = distance_box_iou_with(&a, &b, CenterIouOptions::new().eps(6.0))?;
    /// assert!(d.allclose(&tensor![[-4.0 / (10.0 + 6.0)]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CenterIouOptions {
        /// What keeps quotients finite. The default is 1e-7.
        eps: f64 = 1e-7;
    }
}

static BOX_AREA: OpRecord = OpRecord::new(
    "torchvision::box_area",
    "The areas of boxes.",
    "(Tensor boxes, str fmt='xyxy')",
)
.by_name(|b| {
    let fmt = b.str(1).into_format()?;
    box_area_with(b.tensor(0)?, BoxAreaOptions { fmt }).map(Value::Tensor)
})
.samples(|s| {
    let boxes = sample_boxes(s, 3)?;
    Ok(vec![sample![&boxes], sample![boxes, fmt = "cxcywh"]])
});

static BOX_IOU: OpRecord = OpRecord::new(
    "torchvision::box_iou",
    "The intersections of all pairs of boxes of two sets over their unions.",
    "(Tensor boxes1, Tensor boxes2, str fmt='xyxy')",
)
.by_name(|b| {
    let fmt = b.str(2).into_format()?;
    box_iou_with(b.tensor(0)?, b.tensor(1)?, BoxIouOptions { fmt }).map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![sample_boxes(s, 3)?, sample_boxes(s, 2)?]]));

/// Intersections over unions of rotated boxes `[n, 5]`; there is no derivative.
static BOX_IOU_ROTATED: OpRecord = OpRecord::new(
    "torchvision::box_iou_rotated",
    "The intersections of all pairs of rotated boxes of two sets over their unions.",
    "(Tensor boxes1, Tensor boxes2)",
)
.internal()
.with_key(&keys::BOX_IOU_ROTATED, |c| {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    for t in [a, b] {
        if !matches!(t.dims(), [_, 5]) {
            return Err(wrong_shape("rotated boxes", "[n, 5]", t));
        }
    }
    if a.dtype() != b.dtype() || !matches!(a.dtype(), DType::F32 | DType::F64) {
        let text = format!(
            "expected boxes of one floating-point dtype, got {} and {}",
            a.dtype(),
            b.dtype()
        );
        return Err(TorshError::dtype("", text));
    }
    // The result is float32 for boxes of float64 too, as in torchvision.
    let shape = Shape::from([a.dims()[0], b.dims()[0]]);
    Ok(Plan::one(a.dtype(), shape, DType::F32))
})
.constant();

#[torsh_tensor::by_name(generalized_box_iou)]
static GENERALIZED_BOX_IOU: OpRecord = OpRecord::new(
    "torchvision::generalized_box_iou",
    "Generalized intersections over unions of all pairs of boxes of two sets.",
    "(Tensor boxes1, Tensor boxes2)",
)
.samples(|s| Ok(vec![sample![sample_boxes(s, 3)?, sample_boxes(s, 2)?]]));

#[torsh_tensor::by_name(distance_box_iou_with(.., CenterIouOptions))]
static DISTANCE_BOX_IOU: OpRecord = OpRecord::new(
    "torchvision::distance_box_iou",
    "Intersections over unions, less the squared distances of the centres over those of the farthest corners.",
    "(Tensor boxes1, Tensor boxes2, float eps=1e-07)",
)
.samples(|s| Ok(vec![sample![sample_boxes(s, 3)?, sample_boxes(s, 2)?]]));

#[torsh_tensor::by_name(complete_box_iou_with(.., CenterIouOptions))]
static COMPLETE_BOX_IOU: OpRecord = OpRecord::new(
    "torchvision::complete_box_iou",
    "Intersections over unions, less terms for the distances of the centres and for the shapes.",
    "(Tensor boxes1, Tensor boxes2, float eps=1e-07)",
);

static CLIP_BOXES_TO_IMAGE: OpRecord = OpRecord::new(
    "torchvision::clip_boxes_to_image",
    "The parts of boxes that lie inside of an image.",
    "(Tensor boxes, int[2] size)",
)
.by_name(|b| match b.ints(1)[..] {
    [h, w] => clip_boxes_to_image(b.tensor(0)?, (h, w)).map(Value::Tensor),
    _ => Err(TorshError::invalid(
        "torchvision::clip_boxes_to_image",
        "size is (height, width)",
    )),
})
.samples(|s| {
    let size = Value::Tuple(vec![Value::Int(6), Value::Int(5)]);
    Ok(vec![sample![sample_boxes(s, 3)?, size]])
});

#[torsh_tensor::by_name(remove_small_boxes)]
static REMOVE_SMALL_BOXES: OpRecord = OpRecord::new(
    "torchvision::remove_small_boxes",
    "The indices of boxes whose sides are both of a size or longer.",
    "(Tensor boxes, float min_size)",
)
.constant();

#[torsh_tensor::by_name(masks_to_boxes)]
static MASKS_TO_BOXES: OpRecord = OpRecord::new(
    "torchvision::masks_to_boxes",
    "The smallest boxes around masks.",
    "(Tensor masks)",
)
.constant();

/// The dtype in which products of sides do not overflow.
pub(super) fn upcast(t: &Tensor) -> Result<Tensor> {
    match t.dtype() {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(t.clone()),
        d if d.is_floating_point() => t.to_dtype(DType::F32),
        d if d.is_complex() => Err(TorshError::dtype(
            "",
            format!("boxes are real numbers, got {d}"),
        )),
        _ => t.to_dtype(DType::I32),
    }
}

fn check_plain(fmt: BoxFormat) -> Result<()> {
    match fmt.is_rotated() {
        false => Ok(()),
        true => Err(
            TorshError::invalid("", format!("the format {fmt} is of rotated boxes"))
                .with_hint("the formats here are xyxy, xywh and cxcywh; convert with box_convert"),
        ),
    }
}

/// The areas of boxes `[.., 4]` given by two corners (`torchvision.ops.box_area`). Half types become float32, small integers
/// int32.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::box_area;
/// assert_eq!(box_area(&tensor![[1.0, 1.0, 3.0, 5.0]])?, tensor![8.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the last dimension is not 4, or the numbers are complex.
#[track_caller]
pub fn box_area(boxes: &Tensor) -> Result<Tensor> {
    box_area_with(boxes, BoxAreaOptions::new())
}

/// [`box_area`] in another format.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{BoxAreaOptions, BoxFormat, box_area_with};
/// let area = box_area_with(&tensor![[1.0, 1.0, 3.0, 5.0]], BoxAreaOptions::new().fmt(BoxFormat::Xywh))?;
/// assert_eq!(area, tensor![15.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_area`], and for formats of rotated boxes.
#[torsh_tensor::names_caller]
pub fn box_area_with(boxes: &Tensor, options: BoxAreaOptions) -> Result<Tensor> {
    within("torchvision::box_area", &[boxes], || {
        area(boxes, options.fmt)
    })
}

fn area(boxes: &Tensor, fmt: BoxFormat) -> Result<Tensor> {
    check_plain(fmt)?;
    check(boxes, fmt)?;
    let [a, b, c, d] = parts(&upcast(boxes)?)?;
    match fmt {
        BoxFormat::Xyxy => c.sub(&a)?.mul(&d.sub(&b)?),
        _ => c.mul(&d),
    }
}

/// Two boxes of every pair: `[.., n, 1, 2]` and `[.., 1, m, 2]`, of two of the four numbers.
fn pairs(a: &Tensor, b: &Tensor, first: i64) -> Result<(Tensor, Tensor)> {
    Ok((
        a.narrow(-1, first, 2)?.unsqueeze(-2)?,
        b.narrow(-1, first, 2)?.unsqueeze(-3)?,
    ))
}

/// The product of the two sides, where both are positive, else 0.
fn overlap(near: &Tensor, far: &Tensor) -> Result<Tensor> {
    let sides = upcast(&far.sub(near)?)?.clamp_min(0)?;
    sides.select(-1, 0)?.mul(&sides.select(-1, 1)?)
}

fn check_sets(a: &Tensor, b: &Tensor, fmt: BoxFormat) -> Result<()> {
    for t in [a, b] {
        check(t, fmt)?;
        if t.ndim() < 2 {
            return Err(wrong_shape(
                "a set of boxes",
                &format!("[.., n, {}]", fmt.numbers()),
                t,
            ));
        }
    }
    Ok(())
}

/// Intersections and unions of all pairs.
fn inter_union(a: &Tensor, b: &Tensor, fmt: BoxFormat) -> Result<(Tensor, Tensor)> {
    check_plain(fmt)?;
    check_sets(a, b, fmt)?;
    let (area_a, area_b) = (area(a, fmt)?, area(b, fmt)?);
    let ((p, q), (r, s)) = (pairs(a, b, 0)?, pairs(a, b, 2)?);
    let (near, far) = match fmt {
        BoxFormat::Xywh => (p.maximum(&q)?, p.add(&r)?.minimum(&q.add(&s)?)?),
        BoxFormat::Cxcywh => {
            let (r, s) = (r.div(2)?, s.div(2)?);
            (
                p.sub(&r)?.maximum(&q.sub(&s)?)?,
                p.add(&r)?.minimum(&q.add(&s)?)?,
            )
        }
        _ => (p.maximum(&q)?, r.minimum(&s)?),
    };
    let inter = overlap(&near, &far)?;
    let union = area_a
        .unsqueeze(-1)?
        .add(&area_b.unsqueeze(-2)?)?
        .sub(&inter)?;
    Ok((inter, union))
}

/// The intersection of each of `n` boxes with each of `m`, over their union: `[.., n, m]` (`torchvision.ops.box_iou`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::box_iou;
/// let (a, b) = (tensor![[0.0, 0.0, 2.0, 2.0]], tensor![[1.0, 0.0, 3.0, 2.0], [5.0, 5.0, 6.0, 6.0]]);
/// assert!(box_iou(&a, &b)?.allclose(&tensor![[1.0 / 3.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If a set is not `[.., n, 4]`, or the numbers are complex.
#[track_caller]
pub fn box_iou(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    box_iou_with(boxes1, boxes2, BoxIouOptions::new())
}

/// [`box_iou`] in another format. Of rotated boxes `[n, k]` the overlaps are float32 and have no derivative.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{BoxFormat, BoxIouOptions, box_iou_with};
/// // A square of side 2, and the same turned by 45 degrees: they share a regular octagon.
/// let (a, b) = (tensor![[0.0, 0.0, 2.0, 2.0, 0.0]], tensor![[0.0, 0.0, 2.0, 2.0, 45.0]]);
/// let iou = box_iou_with(&a, &b, BoxIouOptions::new().fmt(BoxFormat::Cxcywhr))?;
/// assert!((iou.item::<f64>()? - 2f64.sqrt() / 2.0).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[torsh_tensor::names_caller]
pub fn box_iou_with(boxes1: &Tensor, boxes2: &Tensor, options: BoxIouOptions) -> Result<Tensor> {
    within("torchvision::box_iou", &[boxes1, boxes2], || {
        let fmt = options.fmt;
        if !fmt.is_rotated() {
            let (inter, union) = inter_union(boxes1, boxes2, fmt)?;
            return inter.div(&union);
        }
        check_sets(boxes1, boxes2, fmt)?;
        let centred = |t: &Tensor| convert(t, fmt, BoxFormat::Cxcywhr);
        BOX_IOU_ROTATED.call1(
            &[Arg::T(&centred(boxes1)?), Arg::T(&centred(boxes2)?)],
            attrs::NONE,
        )
    })
}

/// [`box_iou`], less the part of the smallest box around both that neither covers
/// (`torchvision.ops.generalized_box_iou`; Rezatofighi and others, 2019).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::generalized_box_iou;
/// let g = generalized_box_iou(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(g.allclose(&tensor![[-1.0 / 3.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[torsh_tensor::names_caller]
pub fn generalized_box_iou(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    within(
        "torchvision::generalized_box_iou",
        &[boxes1, boxes2],
        || {
            let (inter, union) = inter_union(boxes1, boxes2, BoxFormat::Xyxy)?;
            let ((p, q), (r, s)) = (pairs(boxes1, boxes2, 0)?, pairs(boxes1, boxes2, 2)?);
            let around = overlap(&p.minimum(&q)?, &r.maximum(&s)?)?;
            inter.div(&union)?.sub(around.sub(&union)?.div(&around)?)
        },
    )
}

/// Overlaps less the distances of the centres, and the overlaps alone.
fn centred_iou(a: &Tensor, b: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    let (inter, union) = inter_union(a, b, BoxFormat::Xyxy)?;
    let iou = inter.div(&union)?;
    let ((p, q), (r, s)) = (pairs(a, b, 0)?, pairs(a, b, 2)?);
    let around = upcast(&r.maximum(&s)?.sub(&p.minimum(&q)?)?)?.clamp_min(0)?;
    let diagonal = around.mul(&around)?.sum_dim(-1, false)?.add(eps)?;
    let apart = upcast(&p.add(&r)?.div(2)?.sub(q.add(&s)?.div(2)?)?)?;
    let apart = apart.mul(&apart)?.sum_dim(-1, false)?;
    Ok((iou.sub(apart.div(&diagonal)?)?, iou))
}

/// [`box_iou`], less the squared distance of the centres over the squared diagonal of the smallest box around both
/// (`torchvision.ops.distance_box_iou`; Zheng and others, 2019).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::distance_box_iou;
/// let d = distance_box_iou(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(d.allclose(&tensor![[-0.4]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[track_caller]
pub fn distance_box_iou(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    distance_box_iou_with(boxes1, boxes2, CenterIouOptions::new())
}

/// [`distance_box_iou`] with options.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{CenterIouOptions, distance_box_iou_with};
/// let (a, b) = (tensor![[0.0, 0.0, 1.0, 1.0]], tensor![[2.0, 0.0, 3.0, 1.0]]);
/// let d = distance_box_iou_with(&a, &b, CenterIouOptions::new().eps(10.0))?;
/// assert!(d.allclose(&tensor![[-0.2]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[torsh_tensor::names_caller]
pub fn distance_box_iou_with(
    boxes1: &Tensor,
    boxes2: &Tensor,
    options: CenterIouOptions,
) -> Result<Tensor> {
    within("torchvision::distance_box_iou", &[boxes1, boxes2], || {
        Ok(centred_iou(&upcast(boxes1)?, &upcast(boxes2)?, options.eps)?.0)
    })
}

/// [`distance_box_iou`], less a term for how the boxes' shapes differ (`torchvision.ops.complete_box_iou`; Zheng and others,
/// 2019).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::complete_box_iou;
/// let c = complete_box_iou(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(c.allclose(&tensor![[-0.4]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[track_caller]
pub fn complete_box_iou(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    complete_box_iou_with(boxes1, boxes2, CenterIouOptions::new())
}

/// [`complete_box_iou`] with options.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{CenterIouOptions, complete_box_iou_with};
/// let (a, b) = (tensor![[0.0, 0.0, 1.0, 1.0]], tensor![[2.0, 0.0, 3.0, 1.0]]);
/// let c = complete_box_iou_with(&a, &b, CenterIouOptions::new().eps(10.0))?;
/// assert!(c.allclose(&tensor![[-0.2]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`box_iou`].
#[torsh_tensor::names_caller]
pub fn complete_box_iou_with(
    boxes1: &Tensor,
    boxes2: &Tensor,
    options: CenterIouOptions,
) -> Result<Tensor> {
    within("torchvision::complete_box_iou", &[boxes1, boxes2], || {
        let (a, b) = (upcast(boxes1)?, upcast(boxes2)?);
        let (diou, iou) = centred_iou(&a, &b, options.eps)?;
        let angle = |t: &Tensor, dim: i64| {
            let [x1, y1, x2, y2] = parts(t)?;
            x2.sub(&x1)?.div(&y2.sub(&y1)?)?.atan()?.unsqueeze(dim)
        };
        let v = angle(&a, -1)?
            .sub(&angle(&b, -2)?)?
            .pow(2)?
            .mul(4.0 / (PI * PI))?;
        let alpha = no_grad(|| v.div(&v.sub(&iou)?.add(1.0 + options.eps)?))?;
        diou.sub(alpha.mul(&v)?)
    })
}

/// Boxes `[.., 4]` of two corners cut off where they leave an image of the size (height, width)
/// (`torchvision.ops.clip_boxes_to_image`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::clip_boxes_to_image;
/// let boxes = clip_boxes_to_image(&tensor![[-1.0, 2.0, 9.0, 12.0]], (10, 5))?;
/// assert_eq!(boxes, tensor![[0.0, 2.0, 5.0, 10.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the last dimension is odd, or the numbers are complex.
#[torsh_tensor::names_caller]
pub fn clip_boxes_to_image(
    boxes: &Tensor,
    size: impl Into<torsh_tensor::Sizes<2>>,
) -> Result<Tensor> {
    let [height, width] = size.into().0;
    within("torchvision::clip_boxes_to_image", &[boxes], || {
        let n = boxes.dims().last().copied().unwrap_or(1);
        if n % 2 == 1 {
            return Err(wrong_shape("boxes", "[.., 4]", boxes));
        }
        let points = boxes.reshape([boxes.numel() / 2, 2])?;
        let (x, y) = (points.select(-1, 0)?, points.select(-1, 1)?);
        let clipped = [x.clamp(0, width)?, y.clamp(0, height)?];
        Tensor::stack(&clipped, -1)?.reshape(boxes.shape())
    })
}

/// The indices of those boxes `[n, 4]` of two corners of which both sides are `min_size` or longer
/// (`torchvision.ops.remove_small_boxes`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::remove_small_boxes;
/// let boxes = tensor![[0.0, 0.0, 1.0, 9.0], [0.0, 0.0, 3.0, 3.0]];
/// assert_eq!(remove_small_boxes(&boxes, 2.0)?, tensor![1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the last dimension is not 4; on the meta device, which does not know how many there are.
#[torsh_tensor::names_caller]
pub fn remove_small_boxes(boxes: &Tensor, min_size: f64) -> Result<Tensor> {
    within("torchvision::remove_small_boxes", &[boxes], || {
        check(boxes, BoxFormat::Xyxy)?;
        let [x1, y1, x2, y2] = parts(&boxes.detach())?;
        let wide = x2.sub(&x1)?.ge(min_size)?;
        let keep = wide.logical_and(&y2.sub(&y1)?.ge(min_size)?)?;
        keep.nonzero()?.select(1, 0)
    })
}

/// The smallest boxes around masks `[n, h, w]`, as float32 corners `[n, 4]` of their outermost pixels; zeros for empty masks
/// (`torchvision.ops.masks_to_boxes`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::masks_to_boxes;
/// let mask = tensor![[[0, 0, 0], [0, 1, 1]]];
/// assert_eq!(masks_to_boxes(&mask)?, tensor![[1.0, 1.0, 2.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If there are not three dimensions.
#[torsh_tensor::names_caller]
pub fn masks_to_boxes(masks: &Tensor) -> Result<Tensor> {
    within("torchvision::masks_to_boxes", &[masks], || {
        if masks.numel() == 0 {
            return Tensor::zeros([0, 4], DType::F32, masks.device());
        }
        let [_, h, w] = *masks.dims() else {
            return Err(wrong_shape("masks", "[n, h, w]", masks));
        };
        let set = masks.detach().ne(0)?;
        let sides = |dim: usize, n: usize| {
            let any = set.any_dim(dim, false)?.to_dtype(DType::U8)?;
            let first = any.argmax_dim(1, false)?;
            let last = any
                .flip(1)?
                .argmax_dim(1, false)?
                .neg()?
                .add(n as i64 - 1)?;
            Ok::<_, TorshError>((first, last))
        };
        let ((y1, y2), (x1, x2)) = (sides(2, h)?, sides(1, w)?);
        let boxes = Tensor::stack(&[x1, y1, x2, y2], 1)?.to_dtype(DType::F32)?;
        let full = set.any_dim([1, 2], false)?.unsqueeze(1)?;
        boxes.mul(&full.to_dtype(DType::F32)?)
    })
}
