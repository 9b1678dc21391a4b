//! Losses of boxes, and the focal loss.

use std::f64::consts::PI;

use torsh_tensor::record::{OpRecord, Sample, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Reduction, Result, Tensor, TorshError, Value, no_grad, options};

use super::formats::parts;
use super::{reduce, reduction_of, within, wrong_shape};

pub(super) const RECORDS: &[&OpRecord] = &[
    &GENERALIZED_BOX_IOU_LOSS,
    &DISTANCE_BOX_IOU_LOSS,
    &COMPLETE_BOX_IOU_LOSS,
    &SIGMOID_FOCAL_LOSS,
];

options! {
    /// The keyword arguments of the losses of boxes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{BoxLossOptions, distance_box_iou_loss_with};
    /// // Of boxes with their centres 2 apart, in a box whose squared diagonal is 10, and of equal ones.
    /// let a = tensor![[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]];
    /// let b = tensor![[2.0, 0.0, 3.0, 1.0], [0.0, 0.0, 1.0, 1.0]];
    /// let mean = distance_box_iou_loss_with(&a, &b, BoxLossOptions::new().reduction("mean"))?;
    /// assert!((mean.item::<f32>()? - 1.4 / 2.0).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BoxLossOptions {
        /// What becomes of the boxes' losses; they stay unless set.
        reduction: Reduction = Reduction::None, impl Into<Reduction> => Into::into;
        /// What keeps quotients finite. The default is 1e-7.
        eps: f64 = 1e-7;
    }
}

options! {
    /// The keyword arguments of `sigmoid_focal_loss`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{FocalLossOptions, sigmoid_focal_loss_with};
    /// // With no weights and the power 0 it is the binary cross entropy.
    /// let options = FocalLossOptions::new().alpha(-1.0).gamma(0.0);
    /// let loss = sigmoid_focal_loss_with(&tensor![0.0], &tensor![1.0], options)?;
    /// assert!(loss.allclose(&tensor![2f32.ln()])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FocalLossOptions {
        /// The weight of positive elements, from 0 to 1, that of negative ones being the rest; -1 for no weights. 0.25
        /// unless set.
        alpha: f64 = 0.25;
        /// The power of the probability of being wrong that elements are weighed by. The default is 2.
        gamma: f64 = 2.0;
        /// What becomes of the elements' losses; they stay unless set.
        reduction: Reduction = Reduction::None, impl Into<Reduction> => Into::into;
    }
}

fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let mut boxes = || {
        let corner = s.uniform(&[4, 2], 0.0, 2.0)?;
        let size = s.uniform(&[4, 2], 1.0, 4.0)?;
        Tensor::cat(&[corner.clone(), corner.add(&size)?], -1)
    };
    let (a, b) = (boxes()?, boxes()?);
    Ok(vec![sample![&a, &b], sample![a, b, reduction = "mean"]])
}

macro_rules! box_losses {
    ($($record:ident $name:literal $doc:literal $with:ident;)*) => {$(
        static $record: OpRecord = OpRecord::new(
            $name,
            $doc,
            "(Tensor boxes1, Tensor boxes2, str reduction='none', float eps=1e-07)",
        )
        .by_name(|b| {
            let reduction = reduction_of(b.str(2)).map_err(|e| e.renamed($name))?;
            let options = BoxLossOptions { reduction, eps: b.float(3) };
            $with(b.tensor(0)?, b.tensor(1)?, options).map(Value::Tensor)
        })
        .samples(samples);
    )*};
}
box_losses! {
    GENERALIZED_BOX_IOU_LOSS "torchvision::generalized_box_iou_loss"
        "1 less the generalized intersection over union of each pair of boxes." generalized_box_iou_loss_with;
    DISTANCE_BOX_IOU_LOSS "torchvision::distance_box_iou_loss"
        "1 less the intersection over union of each pair of boxes, with a term for the distance of the centres."
        distance_box_iou_loss_with;
    COMPLETE_BOX_IOU_LOSS "torchvision::complete_box_iou_loss"
        "1 less the intersection over union of each pair of boxes, with terms for the distance of the centres and the shapes."
        complete_box_iou_loss_with;
}

static SIGMOID_FOCAL_LOSS: OpRecord = OpRecord::new(
    "torchvision::sigmoid_focal_loss",
    "Binary cross entropy of logits, in which elements that are right already count little.",
    "(Tensor inputs, Tensor targets, float alpha=0.25, float gamma=2, str reduction='none')",
)
.by_name(|b| {
    let reduction =
        reduction_of(b.str(4)).map_err(|e| e.renamed("torchvision::sigmoid_focal_loss"))?;
    let options = FocalLossOptions {
        alpha: b.float(2),
        gamma: b.float(3),
        reduction,
    };
    sigmoid_focal_loss_with(b.tensor(0)?, b.tensor(1)?, options).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let targets = s.bools(&[2, 3])?.to_dtype(x.dtype())?;
    Ok(vec![
        sample![&x, &targets],
        sample![x, targets, alpha = -1.0, gamma = 3.0, reduction = "sum"],
    ])
});

/// Both sets in float32 or float64, of one shape `[.., 4]`.
fn both(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    for t in [a, b] {
        if t.dims().last() != Some(&4) {
            return Err(wrong_shape("boxes", "[.., 4]", t));
        }
    }
    let wide = |t: &Tensor| match t.dtype() {
        DType::F32 | DType::F64 => Ok(t.clone()),
        d if d.is_complex() => Err(TorshError::dtype(
            "",
            format!("boxes are real numbers, got {d}"),
        )),
        _ => t.to_dtype(DType::F32),
    };
    Ok((wide(a)?, wide(b)?))
}

/// The numbers of two sets of boxes, and what they share.
struct Pair {
    a: [Tensor; 4],
    b: [Tensor; 4],
    union: Tensor,
    iou: Tensor,
}

impl Pair {
    fn of(a: &Tensor, b: &Tensor, eps: f64) -> Result<Pair> {
        let (a, b): ([Tensor; 4], [Tensor; 4]) = (parts(a)?, parts(b)?);
        let (w, h) = (
            a[2].minimum(&b[2])?.sub(&a[0].maximum(&b[0])?)?,
            a[3].minimum(&b[3])?.sub(&a[1].maximum(&b[1])?)?,
        );
        let meet = w.gt(0)?.logical_and(&h.gt(0)?)?;
        let product = w.mul(&h)?;
        let inter = Tensor::where_(&meet, &product, &product.zeros_like()?)?;
        let area = |t: &[Tensor; 4]| t[2].sub(&t[0])?.mul(&t[3].sub(&t[1])?);
        let union = area(&a)?.add(&area(&b)?)?.sub(&inter)?;
        let iou = inter.div(&union.add(eps)?)?;
        Ok(Pair { a, b, union, iou })
    }

    /// Width and height of the smallest boxes around both.
    fn around(&self) -> Result<(Tensor, Tensor)> {
        let (a, b) = (&self.a, &self.b);
        Ok((
            a[2].maximum(&b[2])?.sub(&a[0].minimum(&b[0])?)?,
            a[3].maximum(&b[3])?.sub(&a[1].minimum(&b[1])?)?,
        ))
    }

    /// The loss with the distance of the centres.
    fn distance_loss(&self, eps: f64) -> Result<Tensor> {
        let (w, h) = self.around()?;
        let diagonal = w.pow(2)?.add(h.pow(2)?)?.add(eps)?;
        let apart = |i: usize| {
            let centre = |t: &[Tensor; 4]| t[i].add(&t[i + 2])?.div(2);
            centre(&self.a)?.sub(&centre(&self.b)?)?.pow(2)
        };
        let apart = apart(0)?.add(&apart(1)?)?;
        self.iou.neg()?.add(1.0)?.add(apart.div(&diagonal)?)
    }
}

/// 1 less the generalized intersection over union of boxes in pairs: `[.., 4]` corners each, the result `[..]`
/// (`torchvision.ops.generalized_box_iou_loss`; Rezatofighi and others, 2019).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::generalized_box_iou_loss;
/// let loss = generalized_box_iou_loss(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(loss.allclose(&tensor![4.0 / 3.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the last dimension is not 4, or shapes do not broadcast.
#[track_caller]
pub fn generalized_box_iou_loss(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    generalized_box_iou_loss_with(boxes1, boxes2, BoxLossOptions::new())
}

/// [`generalized_box_iou_loss`] with options.
///
/// ```
/// use torsh_tensor::{Reduction, tensor};
/// use torsh_vision::ops::{BoxLossOptions, generalized_box_iou_loss_with};
/// let boxes = tensor![[0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 3.0, 1.0]];
/// let loss = generalized_box_iou_loss_with(&boxes, &boxes, BoxLossOptions::new().reduction(Reduction::Sum))?;
/// assert!(loss.item::<f32>()?.abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`generalized_box_iou_loss`].
#[torsh_tensor::names_caller]
pub fn generalized_box_iou_loss_with(
    boxes1: &Tensor,
    boxes2: &Tensor,
    options: BoxLossOptions,
) -> Result<Tensor> {
    within(
        "torchvision::generalized_box_iou_loss",
        &[boxes1, boxes2],
        || {
            let (a, b) = both(boxes1, boxes2)?;
            let pair = Pair::of(&a, &b, options.eps)?;
            let (w, h) = pair.around()?;
            let around = w.mul(&h)?;
            let empty = around.sub(&pair.union)?.div(&around.add(options.eps)?)?;
            let loss = pair.iou.sub(&empty)?.neg()?.add(1.0)?;
            reduce(loss, options.reduction)
        },
    )
}

/// 1 less the intersection over union of boxes in pairs, plus the squared distance of their centres over the squared
/// diagonal of the box around both (`torchvision.ops.distance_box_iou_loss`; Zheng and others, 2019).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::distance_box_iou_loss;
/// let loss = distance_box_iou_loss(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(loss.allclose(&tensor![1.4])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`generalized_box_iou_loss`].
#[track_caller]
pub fn distance_box_iou_loss(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    distance_box_iou_loss_with(boxes1, boxes2, BoxLossOptions::new())
}

/// [`distance_box_iou_loss`] with options.
///
/// ```
/// use torsh_tensor::{Reduction, tensor};
/// use torsh_vision::ops::{BoxLossOptions, distance_box_iou_loss_with};
/// let boxes = tensor![[0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 3.0, 1.0]];
/// let loss = distance_box_iou_loss_with(&boxes, &boxes, BoxLossOptions::new().reduction(Reduction::Mean))?;
/// assert!(loss.item::<f32>()?.abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`generalized_box_iou_loss`].
#[torsh_tensor::names_caller]
pub fn distance_box_iou_loss_with(
    boxes1: &Tensor,
    boxes2: &Tensor,
    options: BoxLossOptions,
) -> Result<Tensor> {
    within(
        "torchvision::distance_box_iou_loss",
        &[boxes1, boxes2],
        || {
            let (a, b) = both(boxes1, boxes2)?;
            let pair = Pair::of(&a, &b, options.eps)?;
            reduce(pair.distance_loss(options.eps)?, options.reduction)
        },
    )
}

/// [`distance_box_iou_loss`], plus a term for how the shapes differ (`torchvision.ops.complete_box_iou_loss`; Zheng and
/// others, 2019). The weight of that term counts as a constant in derivatives.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::complete_box_iou_loss;
/// let loss = complete_box_iou_loss(&tensor![[0.0, 0.0, 1.0, 1.0]], &tensor![[2.0, 0.0, 3.0, 1.0]])?;
/// assert!(loss.allclose(&tensor![1.4])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`generalized_box_iou_loss`].
#[track_caller]
pub fn complete_box_iou_loss(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    complete_box_iou_loss_with(boxes1, boxes2, BoxLossOptions::new())
}

/// [`complete_box_iou_loss`] with options. As in torchvision, `eps` is of the last term alone; the others have 1e-7.
///
/// ```
/// use torsh_tensor::{Reduction, tensor};
/// use torsh_vision::ops::{BoxLossOptions, complete_box_iou_loss_with};
/// let boxes = tensor![[0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 3.0, 1.0]];
/// let loss = complete_box_iou_loss_with(&boxes, &boxes, BoxLossOptions::new().reduction(Reduction::Mean))?;
/// assert!(loss.item::<f32>()?.abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`generalized_box_iou_loss`].
#[torsh_tensor::names_caller]
pub fn complete_box_iou_loss_with(
    boxes1: &Tensor,
    boxes2: &Tensor,
    options: BoxLossOptions,
) -> Result<Tensor> {
    within(
        "torchvision::complete_box_iou_loss",
        &[boxes1, boxes2],
        || {
            let (a, b) = both(boxes1, boxes2)?;
            let pair = Pair::of(&a, &b, 1e-7)?;
            let loss = pair.distance_loss(1e-7)?;
            let angle = |t: &[Tensor; 4]| t[2].sub(&t[0])?.div(&t[3].sub(&t[1])?)?.atan();
            let v = angle(&pair.b)?
                .sub(&angle(&pair.a)?)?
                .pow(2)?
                .mul(4.0 / (PI * PI))?;
            let alpha = no_grad(|| v.div(&v.sub(&pair.iou)?.add(1.0 + options.eps)?))?;
            reduce(loss.add(alpha.mul(&v)?)?, options.reduction)
        },
    )
}

/// The focal loss of logits, whose targets are 0 or 1 of the same shape: binary cross entropy, in which elements that are
/// right already count little (`torchvision.ops.sigmoid_focal_loss`; Lin and others, 2017).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::sigmoid_focal_loss;
/// let loss = sigmoid_focal_loss(&tensor![0.0], &tensor![1.0])?;
/// assert!(loss.allclose(&tensor![0.25 * 0.25 * 2f32.ln()])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes differ.
#[track_caller]
pub fn sigmoid_focal_loss(inputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    sigmoid_focal_loss_with(inputs, targets, FocalLossOptions::new())
}

/// [`sigmoid_focal_loss`] with options.
///
/// ```
/// use torsh_tensor::{Reduction, tensor};
/// use torsh_vision::ops::{FocalLossOptions, sigmoid_focal_loss_with};
/// let options = FocalLossOptions::new().alpha(-1.0).gamma(1.0).reduction(Reduction::Sum);
/// let loss = sigmoid_focal_loss_with(&tensor![0.0, 0.0], &tensor![1.0, 0.0], options)?;
/// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`sigmoid_focal_loss`], and if `alpha` is neither -1 nor from 0 to 1.
#[torsh_tensor::names_caller]
pub fn sigmoid_focal_loss_with(
    inputs: &Tensor,
    targets: &Tensor,
    options: FocalLossOptions,
) -> Result<Tensor> {
    within(
        "torchvision::sigmoid_focal_loss",
        &[inputs, targets],
        || {
            let FocalLossOptions {
                alpha,
                gamma,
                reduction,
            } = options;
            if !(0.0..=1.0).contains(&alpha) && alpha != -1.0 {
                let text = format!("alpha must be from 0 to 1, or -1 for no weights, got {alpha}");
                return Err(TorshError::invalid("", text));
            }
            let loss = inputs.binary_cross_entropy_with_logits_with(
                targets,
                torsh_tensor::BceWithLogitsOptions::new().reduction(Reduction::None),
            )?;
            let p = inputs.sigmoid()?;
            let other = |t: &Tensor| t.neg()?.add(1.0);
            let negative = other(targets)?;
            let right = p.mul(targets)?.add(other(&p)?.mul(&negative)?)?;
            let mut loss = loss.mul(other(&right)?.pow(gamma)?)?;
            if alpha >= 0.0 {
                loss = targets
                    .mul(alpha)?
                    .add(negative.mul(1.0 - alpha)?)?
                    .mul(&loss)?;
            }
            match reduction {
                // Without elements there is no mean.
                Reduction::Mean => loss.mean(),
                other => reduce(loss, other),
            }
        },
    )
}
