//! Pooling of regions of interest.

use smallvec::smallvec;
use torsh_core::Ints;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{Backward, OpRecord, Plan, PlanCx, Sample, Spec, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{
    Autocast, BackwardCx, Bound, DType, Grads, Result, Shape, Sizes, Tensor, TorshError, Value,
    options,
};

use super::kernels::keys;
use super::{in_full, within, wrong_shape};
use crate::ops::attrs;

pub(super) const RECORDS: &[&OpRecord] = &[
    &ROI_ALIGN,
    &ROI_ALIGN_LIST,
    &ROI_ALIGN_BACKWARD,
    &ROI_POOL,
    &ROI_POOL_LIST,
    &ROI_POOL_BACKWARD,
    &PS_ROI_ALIGN,
    &PS_ROI_ALIGN_LIST,
    &PS_ROI_ALIGN_BACKWARD,
    &PS_ROI_POOL,
    &PS_ROI_POOL_LIST,
    &PS_ROI_POOL_BACKWARD,
];

options! {
    /// The keyword arguments of `roi_align`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{RoiAlignOptions, roi_align_with};
    /// // A map half as large as the image that the box is of.
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// let options = RoiAlignOptions::new().spatial_scale(0.5).aligned(true);
    /// assert_eq!(roi_align_with(&x, &[tensor![[0.0, 0.0, 4.0, 4.0]]], 1, options)?, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RoiAlignOptions {
        /// What the boxes' coordinates are multiplied by to be those of the feature map. The default is 1.
        spatial_scale: f64 = 1.0;
        /// Samples along each side of a bin; where it is not positive, as many as the bin has pixels. -1 unless set.
        sampling_ratio: i64 = -1;
        /// Whether boxes are moved by half a pixel, so that pixels' centres are where they belong. The default is `false`.
        aligned: bool = false;
    }
}

options! {
    /// The keyword arguments of `roi_pool` and `ps_roi_pool`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{RoiPoolOptions, roi_pool_with};
    /// // A map half as large as the image that the box is of.
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// let options = RoiPoolOptions::new().spatial_scale(0.5);
    /// assert_eq!(roi_pool_with(&x, &[tensor![[0.0, 0.0, 2.0, 0.0]]], 1, options)?, tensor![[[[1.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RoiPoolOptions {
        /// What the boxes' coordinates are multiplied by to be those of the feature map. The default is 1.
        spatial_scale: f64 = 1.0;
    }
}

options! {
    /// The keyword arguments of `ps_roi_align`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{PsRoiAlignOptions, ps_roi_align_with};
    /// // Two channels, each of which is one of the two bins.
    /// let x = tensor![[[[1.0, 1.0]], [[5.0, 5.0]]]];
    /// let options = PsRoiAlignOptions::new().spatial_scale(0.5).sampling_ratio(2);
    /// let y = ps_roi_align_with(&x, &[tensor![[0.0, 0.0, 4.0, 2.0]]], (1, 2), options)?;
    /// assert_eq!(y, tensor![[[[1.0, 5.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PsRoiAlignOptions {
        /// What the boxes' coordinates are multiplied by to be those of the feature map. The default is 1.
        spatial_scale: f64 = 1.0;
        /// Samples along each side of a bin; where it is not positive, as many as the bin has pixels. -1 unless set.
        sampling_ratio: i64 = -1;
    }
}

/// Boxes of the images of a batch: one tensor `[k, 5]` of the image's number and two corners, or a list with the corners
/// `[l, 4]` of each image.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{RoiBoxes, roi_align};
/// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
/// // The box of image 0, with its number and in a list of the boxes of each image.
/// let (numbered, listed) = (tensor![[0.0, 0.0, 0.0, 2.0, 2.0]], [tensor![[0.0, 0.0, 2.0, 2.0]]]);
/// for boxes in [RoiBoxes::from(&numbered), RoiBoxes::from(&listed)] {
///     assert_eq!(roi_align(&x, boxes, 1)?, tensor![[[[2.25]]]]);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum RoiBoxes<'a> {
    /// `[k, 5]`.
    Numbered(&'a Tensor),
    /// `[l, 4]` for each image.
    PerImage(&'a [Tensor]),
}

impl<'a> From<&'a Tensor> for RoiBoxes<'a> {
    fn from(t: &'a Tensor) -> Self {
        RoiBoxes::Numbered(t)
    }
}

impl<'a> From<&'a [Tensor]> for RoiBoxes<'a> {
    fn from(t: &'a [Tensor]) -> Self {
        RoiBoxes::PerImage(t)
    }
}

impl<'a> From<&'a Vec<Tensor>> for RoiBoxes<'a> {
    fn from(t: &'a Vec<Tensor>) -> Self {
        RoiBoxes::PerImage(t)
    }
}

impl<'a, const N: usize> From<&'a [Tensor; N]> for RoiBoxes<'a> {
    fn from(t: &'a [Tensor; N]) -> Self {
        RoiBoxes::PerImage(t)
    }
}

impl RoiBoxes<'_> {
    /// The boxes as one tensor `[k, 5]`, as `like` is where the list is empty.
    fn numbered(self, like: &Tensor) -> Result<Tensor> {
        let list = match self {
            RoiBoxes::Numbered(t) => return Ok(t.clone()),
            RoiBoxes::PerImage(list) => list,
        };
        let mut all = Vec::with_capacity(list.len());
        for (i, t) in list.iter().enumerate() {
            let [n, 4] = *t.dims() else {
                return Err(wrong_shape(&format!("the boxes of image {i}"), "[l, 4]", t));
            };
            let number = Tensor::full([n, 1], i as f64, t.dtype(), t.device())?;
            all.push(Tensor::cat(&[number, t.clone()], 1)?);
        }
        match all.is_empty() {
            true => Tensor::zeros([0, 5], like.dtype(), like.device()),
            false => Tensor::cat(&all, 0),
        }
    }
}

/// The images' sizes, where all is as the kernels take it.
fn check(input: &Tensor, rois: &Tensor, a: &attrs::VisionRoi) -> Result<[usize; 4]> {
    let [n, c, h, w] = *input.dims() else {
        return Err(wrong_shape("the input", "[n, c, h, w]", input));
    };
    check_rois(input, rois, a)?;
    Ok([n, c, h, w])
}

fn check_rois(input: &Tensor, rois: &Tensor, a: &attrs::VisionRoi) -> Result<()> {
    if !matches!(rois.dims(), [_, 5]) {
        return Err(wrong_shape("boxes", "[k, 5]", rois)
            .with_hint("the first column is the image's number; boxes [l, 4] of each image are given as a list"));
    }
    if input.dtype() != rois.dtype() {
        let text = format!(
            "expected input and boxes of one dtype, got {} and {}",
            input.dtype(),
            rois.dtype()
        );
        return Err(
            TorshError::dtype("", text).with_hint("convert the boxes with to_dtype(input.dtype())")
        );
    }
    if !matches!(input.dtype(), DType::F32 | DType::F64) {
        let text = format!(
            "the input must be of a floating-point dtype, got {}",
            input.dtype()
        );
        return Err(TorshError::dtype("", text)
            .with_hint("convert input and boxes with to_dtype(DType::F32)"));
    }
    if a.height == 0 || a.width == 0 {
        let text = format!(
            "output_size must be positive, got ({}, {})",
            a.height, a.width
        );
        return Err(TorshError::invalid("", text));
    }
    Ok(())
}

/// The channels of position-sensitive results.
fn spread(channels: usize, a: &attrs::VisionRoi) -> Result<usize> {
    let bins = a.height.saturating_mul(a.width);
    match channels.is_multiple_of(bins) {
        true => Ok(channels / bins),
        false => Err(TorshError::shape(
            "",
            format!("the input's channels must be a multiple of the {bins} bins, got {channels}"),
        )),
    }
}

/// The plan of forward ops: results of `[k, c, height, width]`.
fn forward(c: &PlanCx<'_>, sensitive: bool, places: bool) -> Result<Plan> {
    let (input, rois) = (c.tensor(0)?, c.tensor(1)?);
    let a = c.attrs::<attrs::VisionRoi>()?;
    let sizes = check(input, rois, a)?;
    if a.images[..] != sizes.map(|n| n as i64) {
        return Err(TorshError::invalid(
            "",
            "the attributes are of images of other sizes",
        ));
    }
    let channels = if sensitive {
        spread(sizes[1], a)?
    } else {
        sizes[1]
    };
    let shape = Shape::from([rois.dims()[0], channels, a.height, a.width]);
    let mut plan = Plan::one(input.dtype(), shape.clone(), input.dtype());
    if places {
        plan.outputs.push(Spec::new(shape, DType::I64));
    }
    Ok(plan)
}

/// The plan of their transposes.
fn backward(c: &PlanCx<'_>, sensitive: bool) -> Result<Plan> {
    let (grad, rois) = (c.tensor(0)?, c.tensor(1)?);
    let a = c.attrs::<attrs::VisionRoi>()?;
    check_rois(grad, rois, a)?;
    let sizes: Vec<usize> = a
        .images
        .iter()
        .filter_map(|&n| usize::try_from(n).ok())
        .collect();
    let [n, channels, h, w] = sizes[..] else {
        return Err(TorshError::invalid(
            "",
            "the attributes have no sizes of images",
        ));
    };
    let of = if sensitive {
        spread(channels, a)?
    } else {
        channels
    };
    if grad.dims() != [rois.dims()[0], of, a.height, a.width] {
        let wanted = format!("[{}, {of}, {}, {}]", rois.dims()[0], a.height, a.width);
        return Err(wrong_shape("the gradient", &wanted, grad));
    }
    Ok(Plan::one(
        grad.dtype(),
        Shape::from([n, channels, h, w]),
        grad.dtype(),
    ))
}

/// Boxes of two images; `far` ones reach beyond them.
fn sample_boxes(like: &Tensor, far: bool) -> Result<Tensor> {
    let edge = if far { 9.0 } else { 3.0 };
    let boxes = [
        0.0, 0.5, 1.0, 3.5, 3.0, 1.0, 1.5, 0.5, 4.0, 3.5, 1.0, 0.0, 2.0, 3.5, edge,
    ];
    Tensor::from_slice(&boxes, [3, 5], like.dtype(), like.device())
}

fn sample_calls(
    s: &mut Sampler,
    channels: usize,
    more: &[(&'static str, Value)],
) -> Result<Vec<Sample>> {
    let x = s.real(&[2, channels, 5, 6])?;
    let boxes = sample_boxes(&x, true)?;
    let size = Value::Tuple(vec![Value::Int(2), Value::Int(2)]);
    let plain = sample![x, boxes, size];
    let mut all = vec![plain.clone()];
    for (name, value) in more {
        all.push(plain.clone().kw(name, value.clone()));
    }
    Ok(all)
}

/// The operators: a record for boxes in one tensor, one for lists of them, and a function without and one with options. A row
/// has the functions' documentation, the options with their places in a call by name, what the records say, what the
/// kernels need of the options, and the rest of the first record.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident $(#[$with_doc:meta])* $with:ident $record:ident $list:ident
        $options:ident { $($field:ident: $get:ident $at:literal),* } $text:literal $arguments:literal
        |$o:ident| $how:expr, [$($rest:tt)*];)*) => {$(
        static $record: OpRecord = OpRecord::new(
            concat!("torchvision::", stringify!($name)),
            $text,
            concat!("(Tensor input, Tensor boxes, int[2] output_size", $arguments, ")"),
        )
        $($rest)*
        .autocast(Autocast::Fp32)
        .by_name(|b| {
            let options = $options { $($field: b.$get($at)),* };
            $with(b.tensor(0)?, b.tensor(1)?, pair($record.name, b)?, options).map(Value::Tensor)
        });

        static $list: OpRecord = OpRecord::new(
            concat!("torchvision::", stringify!($name), ".list"),
            $text,
            concat!("(Tensor input, Tensor[] boxes, int[2] output_size", $arguments, ")"),
        )
        .overload()
        .by_name(|b| {
            let options = $options { $($field: b.$get($at)),* };
            $with(b.tensor(0)?, &b.tensors(1), pair($record.name, b)?, options).map(Value::Tensor)
        });

        $(#[$doc])*
        #[track_caller]
        pub fn $name<'a>(
            input: &Tensor,
            boxes: impl Into<RoiBoxes<'a>>,
            output_size: impl Into<Sizes<2>>,
        ) -> Result<Tensor> {
            $with(input, boxes, output_size, $options::new())
        }

        $(#[$with_doc])*
        #[torsh_tensor::names_caller]
        pub fn $with<'a>(
            input: &Tensor,
            boxes: impl Into<RoiBoxes<'a>>,
            output_size: impl Into<Sizes<2>>,
            $o: $options,
        ) -> Result<Tensor> {
            run(&$record, input, boxes.into(), output_size.into(), $how)
        }
    )*};
}

operators! {
    /// The averages of bilinear samples in the bins of regions of feature maps `[n, c, h, w]`: `[k, c, height, width]` for `k`
    /// boxes and the size (height, width) (`torchvision.ops.roi_align`; He and others, 2017).
    ///
    /// The boxes are `[k, 5]`, whose first column is the image's number, or a list of `[l, 4]` for each image. They have no
    /// gradient.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::roi_align;
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// let y = roi_align(&x, &[tensor![[0.0, 0.0, 2.0, 2.0]]], 1)?;
    /// assert_eq!(y, tensor![[[[2.25]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not go together, a box is not finite or is of an image that is not there.
    roi_align
    /// [`roi_align`] with options.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{RoiAlignOptions, roi_align_with};
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// let boxes = tensor![[0.0, 0.0, 0.0, 2.0, 2.0]];
    /// let y = roi_align_with(&x, &boxes, 1, RoiAlignOptions::new().aligned(true))?;
    /// assert_eq!(y, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`roi_align`].
    roi_align_with ROI_ALIGN ROI_ALIGN_LIST
        RoiAlignOptions { spatial_scale: float 3, sampling_ratio: int 4, aligned: bool 5 }
        "Averages of bilinear samples of the bins of regions."
        ", float spatial_scale=1.0, int sampling_ratio=-1, bool aligned=False"
        |o| (o.spatial_scale, o.sampling_ratio, o.aligned),
    [
        .with_key(&keys::ROI_ALIGN, |c| forward(c, false, false))
        .grads(0b10, 0, |c| transposed(c, &ROI_ALIGN_BACKWARD))
        .samples(|s| sample_calls(s, 1, &[("sampling_ratio", Value::Int(2)), ("aligned", Value::Bool(true))]))
    ];
    /// The greatest elements of the bins of regions of feature maps `[n, c, h, w]`: `[k, c, height, width]`; 0 in empty bins
    /// (`torchvision.ops.roi_pool`; Girshick, 2015). Boxes as for [`roi_align`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::roi_pool;
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// assert_eq!(roi_pool(&x, &[tensor![[0.0, 0.0, 1.0, 0.0]]], (1, 2))?, tensor![[[[0.0, 1.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`roi_align`].
    roi_pool
    /// [`roi_pool`] with options.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{RoiPoolOptions, roi_pool_with};
    /// let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    /// let boxes = tensor![[0.0, 0.0, 0.0, 2.0, 2.0]];
    /// let y = roi_pool_with(&x, &boxes, 1, RoiPoolOptions::new().spatial_scale(0.5))?;
    /// assert_eq!(y, tensor![[[[3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`roi_align`].
    roi_pool_with ROI_POOL ROI_POOL_LIST
        RoiPoolOptions { spatial_scale: float 3 }
        "The greatest elements of the bins of regions."
        ", float spatial_scale=1.0"
        |o| (o.spatial_scale, 0, false),
    [
        .with_key(&keys::ROI_POOL, |c| forward(c, false, true))
        .backward(Backward::Full {
            inputs: 0b10,
            outputs: 0b10,
            constant: 0b10,
            formula: |c| {
                let (rois, places) = (c.input(1)?, c.output(1)?);
                let args = [Arg::T(c.g()), Arg::T(&rois), Arg::T(&places)];
                Ok(smallvec![
                    Some(ROI_POOL_BACKWARD.call1(&args, c.attributes())?),
                    None
                ])
            },
        })
        .samples(|s| {
            let mut all = sample_calls(s, 1, &[("spatial_scale", Value::Float(0.5))])?;
            for call in &mut all {
                call.args[0] = s.distinct(&[2, 1, 5, 6])?.into();
            }
            Ok(all)
        })
    ];
    /// [`roi_align`] in which each bin averages channels of its own: of `c` channels, the result `[k, c / (height * width), height,
    /// width]` has as many as there are for a bin (`torchvision.ops.ps_roi_align`; Li and others, 2017).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::ps_roi_align;
    /// let x = tensor![[[[1.0, 1.0]], [[5.0, 5.0]]]];
    /// let y = ps_roi_align(&x, &[tensor![[0.0, 0.0, 2.0, 1.0]]], (1, 2))?;
    /// assert_eq!(y, tensor![[[[1.0, 5.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`roi_align`], and if the channels are no multiple of the bins.
    ps_roi_align
    /// [`ps_roi_align`] with options.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{PsRoiAlignOptions, ps_roi_align_with};
    /// let x = tensor![[[[1.0, 1.0]], [[5.0, 5.0]]]];
    /// let boxes = tensor![[0.0, 0.0, 0.0, 4.0, 2.0]];
    /// let y = ps_roi_align_with(&x, &boxes, (1, 2), PsRoiAlignOptions::new().spatial_scale(0.5))?;
    /// assert_eq!(y, tensor![[[[1.0, 5.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ps_roi_align`].
    ps_roi_align_with PS_ROI_ALIGN PS_ROI_ALIGN_LIST
        PsRoiAlignOptions { spatial_scale: float 3, sampling_ratio: int 4 }
        "Averages of bilinear samples of the bins of regions, each bin of channels of its own."
        ", float spatial_scale=1.0, int sampling_ratio=-1"
        |o| (o.spatial_scale, o.sampling_ratio, true),
    [
        .with_key(&keys::PS_ROI_ALIGN, |c| forward(c, true, false))
        .grads(0b10, 0, |c| transposed(c, &PS_ROI_ALIGN_BACKWARD))
        .samples(|s| sample_calls(s, 8, &[("sampling_ratio", Value::Int(2))]))
    ];
    /// The averages of the bins of regions, in which each bin has channels of its own, as in [`ps_roi_align`]; 0 in empty bins
    /// (`torchvision.ops.ps_roi_pool`; Dai and others, 2016).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::ps_roi_pool;
    /// let x = tensor![[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]];
    /// let y = ps_roi_pool(&x, &[tensor![[0.0, 0.0, 2.0, 1.0]]], 1)?;
    /// assert_eq!(y, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ps_roi_align`].
    ps_roi_pool
    /// [`ps_roi_pool`] with options.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::{RoiPoolOptions, ps_roi_pool_with};
    /// let x = tensor![[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]];
    /// let boxes = tensor![[0.0, 0.0, 0.0, 4.0, 2.0]];
    /// let y = ps_roi_pool_with(&x, &boxes, 1, RoiPoolOptions::new().spatial_scale(0.5))?;
    /// assert_eq!(y, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ps_roi_align`].
    ps_roi_pool_with PS_ROI_POOL PS_ROI_POOL_LIST
        RoiPoolOptions { spatial_scale: float 3 }
        "Averages of the bins of regions, each bin of channels of its own."
        ", float spatial_scale=1.0"
        |o| (o.spatial_scale, 0, false),
    [
        .with_key(&keys::PS_ROI_POOL, |c| forward(c, true, false))
        .grads(0b10, 0, |c| transposed(c, &PS_ROI_POOL_BACKWARD))
        .samples(|s| {
            // The derivative is torchvision's, which differs at the image's edge.
            let mut all = sample_calls(s, 8, &[("spatial_scale", Value::Float(0.5))])?;
            for call in &mut all {
                if let Some(Value::Tensor(x)) = call.args.first() {
                    call.args[1] = sample_boxes(x, false)?.into();
                }
            }
            Ok(all)
        })
    ];
}

/// The gradient of the images, by the record of the transpose. The boxes have none.
fn transposed(c: &BackwardCx<'_>, transpose: &'static OpRecord) -> Result<Grads> {
    let rois = c.input(1)?;
    let g = transpose.call1(&[Arg::T(c.g()), Arg::T(&rois)], c.attributes())?;
    Ok(smallvec![Some(g), None])
}

fn pair(op: &'static str, b: &Bound) -> Result<Sizes<2>> {
    match b.ints(2)[..] {
        [n] => Ok(n.into()),
        [h, w] => Ok((h, w).into()),
        _ => Err(TorshError::invalid(
            op,
            "output_size is one number or (height, width)",
        )),
    }
}

static ROI_ALIGN_BACKWARD: OpRecord = OpRecord::new(
    "torchvision::roi_align_backward",
    "The gradient of the input of roi_align.",
    "(Tensor grad_output, Tensor boxes, *, float scale, int height, int width, int ratio, bool aligned, int[] images)",
)
.internal()
.with_key(&keys::ROI_ALIGN_BACKWARD, |c| backward(c, false))
.grads(0b10, 0, |c| transposed(c, &ROI_ALIGN));

static ROI_POOL_BACKWARD: OpRecord = OpRecord::new(
    "torchvision::roi_pool_backward",
    "The gradient of the input of roi_pool.",
    "(Tensor grad_output, Tensor boxes, Tensor places, *, float scale, int height, int width, int ratio, bool aligned, int[] images)",
)
.internal()
.with_key(&keys::ROI_POOL_BACKWARD, |c| {
    let plan = backward(c, false)?;
    let (grad, places) = (c.tensor(0)?, c.tensor(2)?);
    if places.dims() != grad.dims() || places.dtype() != DType::I64 {
        return Err(wrong_shape(
            "the places of the maxima",
            "int64 of the gradient's shape",
            places,
        ));
    }
    Ok(plan)
})
.grads(0b110, 0, |c| {
    let (rois, places) = (c.input(1)?, c.input(2)?);
    let images = rois.select(1, 0)?.to_dtype(DType::I64)?;
    let planes = c.g().index_select(0, &images)?.flatten_dims(2, 3)?;
    let flat = places.flatten_dims(2, 3)?;
    let taken = planes.gather(2, &flat.clamp_min(0)?)?;
    let there = flat.ge(0)?.to_dtype(taken.dtype())?;
    Ok(smallvec![
        Some(taken.mul(&there)?.reshape(places.shape())?),
        None,
        None
    ])
});

static PS_ROI_ALIGN_BACKWARD: OpRecord = OpRecord::new(
    "torchvision::ps_roi_align_backward",
    "The gradient of the input of ps_roi_align.",
    "(Tensor grad_output, Tensor boxes, *, float scale, int height, int width, int ratio, bool aligned, int[] images)",
)
.internal()
.with_key(&keys::PS_ROI_ALIGN_BACKWARD, |c| backward(c, true))
.grads(0b10, 0, |c| transposed(c, &PS_ROI_ALIGN));

static PS_ROI_POOL_BACKWARD: OpRecord = OpRecord::new(
    "torchvision::ps_roi_pool_backward",
    "The gradient of the input of ps_roi_pool.",
    "(Tensor grad_output, Tensor boxes, *, float scale, int height, int width, int ratio, bool aligned, int[] images)",
)
.internal()
.with_key(&keys::PS_ROI_POOL_BACKWARD, |c| backward(c, true))
.grads(0b10, 0, |c| {
    let rois = c.input(1)?;
    let mut attrs = c.attrs::<attrs::VisionRoi>()?.clone();
    // The gradient has the image's last row and column, which the average has not.
    attrs.aligned = true;
    let g = PS_ROI_POOL.call1(&[Arg::T(c.g()), Arg::T(&rois)], &attrs)?;
    Ok(smallvec![Some(g), None])
});

/// Runs the op of a record.
#[track_caller]
fn run(
    record: &'static OpRecord,
    input: &Tensor,
    boxes: RoiBoxes<'_>,
    size: Sizes<2>,
    (scale, ratio, aligned): (f64, i64, bool),
) -> Result<Tensor> {
    within(record.base_name(), &[input], || {
        let side = |n: i64| {
            usize::try_from(n).map_err(|_| {
                TorshError::invalid("", format!("output_size must be positive, got {size}"))
            })
        };
        let attrs = attrs::VisionRoi {
            scale,
            height: side(size.0[0])?,
            width: side(size.0[1])?,
            ratio,
            aligned,
            images: Ints::from(input.dims()),
        };
        let rois = boxes.numbered(input)?;
        in_full(input, &[&rois], |input, rois| {
            record.call1(&[Arg::T(input), Arg::T(&rois[0])], &attrs)
        })
    })
}
