//! Formats of boxes.

use std::f64::consts::PI;

use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{within, wrong_shape};

pub(super) const RECORDS: &[&OpRecord] = &[&BOX_CONVERT];

/// How the numbers of a box describe it (`torchvision.tv_tensors.BoundingBoxFormat`). Angles are in degrees,
/// counter-clockwise in an image whose rows go down.
///
/// Operators take a format or its name in any case, transforms a format; it is one type, under the names
/// `ops::BoxFormat` and `transforms::BoundingBoxFormat`.
///
/// ```
/// use torsh_vision::ops::BoxFormat;
/// use torsh_vision::transforms::BoundingBoxFormat;
/// let format: BoxFormat = "cxcywh".parse()?;
/// assert_eq!(format, BoundingBoxFormat::Cxcywh);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoundingBoxFormat {
    /// Two corners: `x1, y1, x2, y2`.
    #[default]
    Xyxy,
    /// A corner and the sizes: `x1, y1, w, h`.
    Xywh,
    /// The centre and the sizes: `cx, cy, w, h`.
    Cxcywh,
    /// The top left corner of a rotated box, the sizes and the angle: `x1, y1, w, h, r`.
    Xywhr,
    /// The centre, the sizes and the angle: `cx, cy, w, h, r`.
    Cxcywhr,
    /// Four corners: `x1, y1, .., x4, y4`, which before the rotation are top left, top right, bottom right and bottom
    /// left.
    Xyxyxyxy,
}

impl BoundingBoxFormat {
    /// Every format.
    pub const ALL: [BoundingBoxFormat; 6] = [
        BoundingBoxFormat::Xyxy,
        BoundingBoxFormat::Xywh,
        BoundingBoxFormat::Cxcywh,
        BoundingBoxFormat::Xywhr,
        BoundingBoxFormat::Cxcywhr,
        BoundingBoxFormat::Xyxyxyxy,
    ];

    /// torchvision's name.
    ///
    /// ```
    /// use torsh_vision::ops::BoxFormat;
    /// assert_eq!(BoxFormat::Cxcywh.name(), "CXCYWH");
    /// assert_eq!(BoxFormat::Cxcywh.to_string(), "cxcywh"); // as operators take it
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            BoundingBoxFormat::Xyxy => "XYXY",
            BoundingBoxFormat::Xywh => "XYWH",
            BoundingBoxFormat::Cxcywh => "CXCYWH",
            BoundingBoxFormat::Xywhr => "XYWHR",
            BoundingBoxFormat::Cxcywhr => "CXCYWHR",
            BoundingBoxFormat::Xyxyxyxy => "XYXYXYXY",
        }
    }

    /// How many numbers a box has.
    ///
    /// ```
    /// use torsh_vision::ops::BoxFormat;
    /// assert_eq!(BoxFormat::Cxcywhr.numbers(), 5);
    /// ```
    pub fn numbers(self) -> usize {
        match self {
            BoundingBoxFormat::Xyxy | BoundingBoxFormat::Xywh | BoundingBoxFormat::Cxcywh => 4,
            BoundingBoxFormat::Xywhr | BoundingBoxFormat::Cxcywhr => 5,
            BoundingBoxFormat::Xyxyxyxy => 8,
        }
    }

    /// Whether boxes may be rotated.
    ///
    /// ```
    /// use torsh_vision::ops::BoxFormat;
    /// assert!(BoxFormat::Xywhr.is_rotated() && !BoxFormat::Xywh.is_rotated());
    /// ```
    pub fn is_rotated(self) -> bool {
        self.numbers() != 4
    }
}

impl std::str::FromStr for BoundingBoxFormat {
    type Err = TorshError;
    fn from_str(s: &str) -> Result<BoundingBoxFormat> {
        let found = BoundingBoxFormat::ALL
            .into_iter()
            .find(|f| f.name().eq_ignore_ascii_case(s));
        found.ok_or_else(|| {
            TorshError::invalid("BoundingBoxFormat", format!("{s} is no format of boxes"))
                .with_hint("the formats are xyxy, xywh, cxcywh, xywhr, cxcywhr and xyxyxyxy")
        })
    }
}

/// In lower case, as [`box_convert`] takes it.
impl std::fmt::Display for BoundingBoxFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name().to_ascii_lowercase())
    }
}

/// A format of boxes, or its name.
///
/// ```
/// use torsh_vision::ops::{BoxFormat, IntoBoxFormat};
/// assert_eq!("CxCyWH".into_format()?, BoxFormat::Cxcywh.into_format()?);
/// assert!("xxyy".into_format().is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait IntoBoxFormat {
    /// The format.
    ///
    /// # Errors
    /// If no format has the name.
    fn into_format(self) -> Result<BoundingBoxFormat>;
}

impl IntoBoxFormat for BoundingBoxFormat {
    #[torsh_tensor::names_caller]
    fn into_format(self) -> Result<BoundingBoxFormat> {
        Ok(self)
    }
}

impl IntoBoxFormat for &str {
    #[torsh_tensor::names_caller]
    fn into_format(self) -> Result<BoundingBoxFormat> {
        self.parse()
    }
}

/// Boxes of two corners.
pub(super) fn sample_boxes(s: &mut Sampler, n: usize) -> Result<Tensor> {
    let corner = s.uniform(&[n, 2], 0.0, 4.0)?;
    let size = s.uniform(&[n, 2], 2.0, 5.0)?;
    Tensor::cat(&[corner.clone(), corner.add(&size)?], -1)
}

#[torsh_tensor::by_name(box_convert)]
static BOX_CONVERT: OpRecord = OpRecord::new(
    "torchvision::box_convert",
    "Boxes in another format.",
    "(Tensor boxes, str in_fmt, str out_fmt)",
)
.samples(|s| {
    let plain = sample_boxes(s, 2)?;
    let rotated = Tensor::cat(&[plain.clone(), s.uniform(&[2, 1], -90.0, 90.0)?], -1)?;
    let call = |t: &Tensor, from: &str, to: &str| sample![t, from, to];
    Ok(vec![
        call(&plain, "xyxy", "cxcywh"),
        call(&plain, "cxcywh", "xywh"),
        call(&rotated, "cxcywhr", "xyxyxyxy"),
        call(&rotated, "xywhr", "cxcywhr"),
    ])
});

/// Refuses boxes of another number of numbers than the format's.
pub(super) fn check(boxes: &Tensor, fmt: BoundingBoxFormat) -> Result<()> {
    match boxes.dims().last() {
        Some(&n) if n == fmt.numbers() => Ok(()),
        _ => Err(wrong_shape(
            &format!("boxes of the format {fmt}"),
            &format!("[.., {}]", fmt.numbers()),
            boxes,
        )),
    }
}

/// The numbers of boxes, a tensor for each.
pub(super) fn parts<const N: usize>(boxes: &Tensor) -> Result<[Tensor; N]> {
    let all = boxes.unbind(-1)?;
    let n = all.len();
    all.try_into()
        .map_err(|_| TorshError::shape("", format!("boxes must be [.., {N}], got [.., {n}]")))
}

/// Boxes in another format (`torchvision.ops.box_convert`): axis-aligned ones among `xyxy`, `xywh` and `cxcywh`, rotated ones
/// among `xywhr`, `cxcywhr` and `xyxyxyxy`. Formats are given by [`BoundingBoxFormat`] or by name.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{BoxFormat, box_convert};
/// let boxes = tensor![[1.0, 2.0, 5.0, 8.0]];
/// assert_eq!(box_convert(&boxes, "xyxy", "xywh")?, tensor![[1.0, 2.0, 4.0, 6.0]]);
/// assert_eq!(box_convert(&boxes, BoxFormat::Xyxy, BoxFormat::Cxcywh)?, tensor![[3.0, 5.0, 4.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// For an unknown format, for a rotated format and one that is not, and if the last dimension is not the format's.
#[torsh_tensor::names_caller]
pub fn box_convert(
    boxes: &Tensor,
    in_fmt: impl IntoBoxFormat,
    out_fmt: impl IntoBoxFormat,
) -> Result<Tensor> {
    within("torchvision::box_convert", &[boxes], || {
        convert(boxes, in_fmt.into_format()?, out_fmt.into_format()?)
    })
}

pub(super) fn convert(
    boxes: &Tensor,
    from: BoundingBoxFormat,
    to: BoundingBoxFormat,
) -> Result<Tensor> {
    use BoundingBoxFormat::{Cxcywh, Cxcywhr, Xywh, Xywhr, Xyxy, Xyxyxyxy};
    check(boxes, from)?;
    let stack = |t: &[Tensor]| Tensor::stack(t, -1);
    match (from, to) {
        _ if from == to => boxes.copy(),
        (Xywh, Xyxy) => {
            let [x, y, w, h] = parts(boxes)?;
            stack(&[x.clone(), y.clone(), x.add(&w)?, y.add(&h)?])
        }
        (Cxcywh, Xyxy) => {
            let [x, y, w, h] = parts(boxes)?;
            let (w, h) = (w.mul(0.5)?, h.mul(0.5)?);
            stack(&[x.sub(&w)?, y.sub(&h)?, x.add(&w)?, y.add(&h)?])
        }
        (Xyxy, Xywh) => {
            let [x1, y1, x2, y2] = parts(boxes)?;
            let (w, h) = (x2.sub(&x1)?, y2.sub(&y1)?);
            stack(&[x1, y1, w, h])
        }
        (Xyxy, Cxcywh) => {
            let [x1, y1, x2, y2] = parts(boxes)?;
            stack(&[x1.add(&x2)?.div(2)?, y1.add(&y2)?.div(2)?, x2.sub(&x1)?, y2.sub(&y1)?])
        }
        (Xywh, Cxcywh) | (Cxcywh, Xywh) => convert(&convert(boxes, from, Xyxy)?, Xyxy, to),
        (Cxcywhr, Xywhr) => rounded(boxes, |boxes| {
            let [cx, cy, w, h, r] = parts(boxes)?;
            let (cos, sin) = turn(&r)?;
            let (w2, h2) = (w.div(2)?, h.div(2)?);
            let x = cx.sub(w2.mul(&cos)?)?.sub(h2.mul(&sin)?)?;
            let y = cy.sub(h2.mul(&cos)?)?.add(w2.mul(&sin)?)?;
            stack(&[x, y, w, h, r])
        }),
        (Xywhr, Cxcywhr) => rounded(boxes, |boxes| {
            let [x, y, w, h, r] = parts(boxes)?;
            let (cos, sin) = turn(&r)?;
            let (w2, h2) = (w.div(2)?, h.div(2)?);
            let cx = x.add(w2.mul(&cos)?)?.add(h2.mul(&sin)?)?;
            let cy = y.sub(w2.mul(&sin)?)?.add(h2.mul(&cos)?)?;
            stack(&[cx, cy, w, h, r])
        }),
        (Xywhr, Xyxyxyxy) => rounded(boxes, |boxes| {
            let [x1, y1, w, h, r] = parts(boxes)?;
            let (cos, sin) = turn(&r)?;
            let (x2, y2) = (x1.add(w.mul(&cos)?)?, y1.sub(w.mul(&sin)?)?);
            let (dx, dy) = (h.mul(&sin)?, h.mul(&cos)?);
            let (x3, y3) = (x2.add(&dx)?, y2.add(&dy)?);
            let (x4, y4) = (x1.add(&dx)?, y1.add(&dy)?);
            stack(&[x1, y1, x2, y2, x3, y3, x4, y4])
        }),
        (Xyxyxyxy, Xywhr) => rounded(boxes, |boxes| {
            let [x1, y1, x2, y2, x3, y3, _, _] = parts(boxes)?;
            let (dx, dy) = (x2.sub(&x1)?, y1.sub(&y2)?);
            let r = dy.atan2(&dx)?.mul(180.0 / PI)?;
            let length = |a: &Tensor, b: &Tensor| a.pow(2)?.add(b.pow(2)?)?.sqrt();
            let (w, h) = (length(&dx, &dy)?, length(&x3.sub(&x2)?, &y3.sub(&y2)?)?);
            stack(&[x1, y1, w, h, r])
        }),
        (Cxcywhr, Xyxyxyxy) | (Xyxyxyxy, Cxcywhr) => {
            convert(&convert(boxes, from, Xywhr)?, Xywhr, to)
        }
        _ => Err(TorshError::invalid(
            "",
            format!("boxes of the format {from} have no {to} form"),
        )
        .with_hint("xyxy, xywh and cxcywh are of axis-aligned boxes, xywhr, cxcywhr and xyxyxyxy of rotated ones")),
    }
}

/// Cosine and sine of an angle in degrees.
fn turn(r: &Tensor) -> Result<(Tensor, Tensor)> {
    let angle = r.mul(PI)?.div(180.0)?;
    Ok((angle.cos()?, angle.sin()?))
}

/// Runs `f`, and rounds its result to the integers that the boxes are of.
fn rounded(boxes: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let out = f(boxes)?;
    match boxes.dtype().is_floating_point() {
        true => Ok(out),
        false => out.round()?.to_dtype(boxes.dtype()),
    }
}
