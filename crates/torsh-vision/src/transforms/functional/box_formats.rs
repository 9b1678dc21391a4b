//! Boxes in one format and another.

use torsh_tensor::named::Named;
use torsh_tensor::{DType, Result, TorshError};

use super::grid::Real;
use crate::ops::IntoBoxFormat;
use crate::transforms::sample::{BoundingBoxFormat, BoundingBoxes};

/// The boxes' numbers, and what they are.
pub(super) struct Rows<T> {
    pub data: Vec<T>,
    pub format: BoundingBoxFormat,
    /// Whether they are whole: then halves are rounded as PyTorch rounds those of integers.
    pub whole: bool,
}

impl<T: Real> Rows<T> {
    pub(super) fn each(&self) -> impl Iterator<Item = &[T]> {
        self.data.chunks_exact(self.format.numbers())
    }

    /// In another format.
    pub(super) fn to(self, format: BoundingBoxFormat) -> Rows<T> {
        if self.format == format {
            return self;
        }
        let mut data =
            Vec::with_capacity(self.data.len() / self.format.numbers() * format.numbers());
        for row in self.each() {
            match self.format.is_rotated() {
                true => rotated(row, self.format, format, &mut data),
                false => straight(row, self.format, format, self.whole, &mut data),
            }
        }
        Rows {
            data,
            format,
            whole: self.whole,
        }
    }
}

fn straight<T: Real>(
    row: &[T],
    from: BoundingBoxFormat,
    to: BoundingBoxFormat,
    whole: bool,
    out: &mut Vec<T>,
) {
    use BoundingBoxFormat::{Cxcywh, Xywh, Xyxy};
    let two = T::of(2.0);
    let [a, b, c, d] = [row[0], row[1], row[2], row[3]];
    let down = |v: T| if whole { v.floor() } else { v };
    let cut = |v: T| if whole { v.trunc() } else { v };
    // Along one dimension: the start or middle, and the end or length.
    let convert = |at: T, len: T| match (from, to) {
        (Xywh, Cxcywh) => [at + down(len / two), len],
        (Cxcywh, Xywh) if whole => {
            let start = at - len / two;
            [start.trunc(), (start + len).trunc() - start.trunc()]
        }
        (Cxcywh, Xywh) => [at - len / two, len],
        (Cxcywh, Xyxy) => {
            let start = at - len / two;
            [cut(start), cut(start + len)]
        }
        (Xywh, Xyxy) => [at, at + len],
        (Xyxy, Xywh) => [at, len - at],
        (Xyxy, Cxcywh) => {
            let size = len - at;
            [down((at * two + size) / two), size]
        }
        _ => [at, len],
    };
    let ([x, w], [y, h]) = (convert(a, c), convert(b, d));
    out.extend([x, y, w, h]);
}

/// Sine and cosine of degrees.
fn turn<T: Real>(degrees: T) -> (T, T) {
    let r = degrees * T::of(std::f64::consts::PI) / T::of(180.0);
    (r.sin(), r.cos())
}

fn rotated<T: Real>(row: &[T], from: BoundingBoxFormat, to: BoundingBoxFormat, out: &mut Vec<T>) {
    use BoundingBoxFormat::{Cxcywhr, Xywhr, Xyxyxyxy};
    let two = T::of(2.0);
    // All by way of a corner, width, height and angle.
    let [x, y, w, h, r] = match from {
        Cxcywhr => {
            let (w, h) = ((row[2] / two).abs(), (row[3] / two).abs());
            let (sin, cos) = turn(row[4]);
            [
                row[0] - w * cos - h * sin,
                row[1] + w * sin - h * cos,
                row[2],
                row[3],
                row[4],
            ]
        }
        Xyxyxyxy => {
            let r = (row[1] - row[3]).atan2(row[2] - row[0]);
            let length = |dx: T, dy: T| (dx * dx + dy * dy).sqrt();
            [
                row[0],
                row[1],
                length(row[2] - row[0], row[3] - row[1]),
                length(row[4] - row[2], row[5] - row[3]),
                r / T::of(std::f64::consts::PI) * T::of(180.0),
            ]
        }
        _ => [row[0], row[1], row[2], row[3], row[4]],
    };
    match to {
        Cxcywhr => {
            let (half_w, half_h) = ((w / two).abs(), (h / two).abs());
            let (sin, cos) = turn(r);
            out.extend([
                x + half_w * cos + half_h * sin,
                y - half_w * sin + half_h * cos,
                w,
                h,
                r,
            ]);
        }
        Xyxyxyxy => {
            let (sin, cos) = turn(r);
            out.extend([
                x,
                y,
                x + w * cos,
                y - w * sin,
                x + (w * cos + h * sin),
                y - (w * sin - h * cos),
                x + h * sin,
                y + h * cos,
            ]);
        }
        _ => {
            debug_assert_eq!(to, Xywhr);
            out.extend([x, y, w, h, r]);
        }
    }
}

/// The rectangle of a parallelogram, by corners: its longer side stays, and what sticks out goes.
pub(super) fn rectangle<T: Real>(p: &[T]) -> [T; 8] {
    let two = T::of(2.0);
    let quarter = T::of(std::f64::consts::FRAC_PI_2);
    let (x1, y1, x2, y2, x3, y3, x4, y4) = (p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
    let (cx, cy) = ((x1 + x3) / two, (y1 + y3) / two);
    let length = |dx: T, dy: T| (dx * dx + dy * dy).sqrt();
    let (wp, hp) = (length(x2 - x1, y2 - y1), length(x4 - x1, y4 - y1));
    let r12 = (y1 - y2).atan2(x2 - x1);
    let r14 = (y1 - y4).atan2(x4 - x1);
    let r = r12 - r14;
    let sign = if r > quarter { -T::one() } else { T::one() };
    let (sin, cos) = (r.sin(), r.cos());
    let w = if wp < hp {
        wp * sin
    } else {
        wp + hp * cos * sign
    };
    let h = if wp > hp {
        hp * sin
    } else {
        hp + wp * cos * sign
    };
    let r = if hp > wp { r14 + quarter } else { r12 };
    let (sin, cos) = (r.sin(), r.cos());
    let (w, h) = (w / two, h / two);
    [
        cx - w * cos - h * sin,
        cy - h * cos + w * sin,
        cx + w * cos - h * sin,
        cy - h * cos - w * sin,
        cx + w * cos + h * sin,
        cy + h * cos - w * sin,
        cx - w * cos + h * sin,
        cy + h * cos + w * sin,
    ]
}

/// A change of boxes in either precision.
pub(super) trait Change {
    fn rows<T: Real>(
        &self,
        rows: Rows<T>,
        canvas: (usize, usize),
        boxes: &BoundingBoxes,
    ) -> Result<(Rows<T>, (usize, usize))>;
}

/// The boxes changed. Integers are computed in float32 where torchvision computes in it (`single`), else exactly.
pub(super) fn by_rows(
    boxes: &BoundingBoxes,
    single: bool,
    change: &impl Change,
) -> Result<BoundingBoxes> {
    fn run<T: Real>(boxes: &BoundingBoxes, change: &impl Change) -> Result<BoundingBoxes> {
        let dtype = boxes.data.dtype();
        let rows = Rows {
            data: T::values(&boxes.data)?,
            format: boxes.format,
            whole: !dtype.is_floating_point(),
        };
        let (rows, canvas_size) = change.rows(rows, boxes.canvas_size, boxes)?;
        let numbers = rows.format.numbers();
        let data = T::tensor(&rows.data, &[rows.data.len() / numbers, numbers])?
            .to_dtype(dtype)?
            .to_device(boxes.data.device())?;
        Ok(BoundingBoxes {
            data,
            format: rows.format,
            canvas_size,
            clamping_mode: boxes.clamping_mode,
        })
    }
    let mode = boxes.clamping_mode.known();
    mode.map_err(|e| e.renamed("BoundingBoxes"))?;
    let dtype = boxes.data.dtype();
    let exact = dtype == DType::F64 || !dtype.is_floating_point() && !single;
    if exact {
        run::<f64>(boxes, change)
    } else {
        run::<f32>(boxes, change)
    }
}

/// The boxes in another format.
///
/// # Errors
/// A name that is no format's; from a rotated format to one that is not, or back.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes, functional as TF};
/// let boxes = BoundingBoxes::new(tensor![[2.0, 3.0, 14.0, 15.0]], BoundingBoxFormat::Xyxy, (24, 31))?;
/// let middle = TF::convert_bounding_box_format(&boxes, BoundingBoxFormat::Cxcywh)?;
/// assert_eq!(middle.data, tensor![[8.0, 9.0, 12.0, 12.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn convert_bounding_box_format(
    boxes: &BoundingBoxes,
    new_format: impl IntoBoxFormat,
) -> Result<BoundingBoxes> {
    let new_format = new_format.into_format()?;
    if boxes.format.is_rotated() != new_format.is_rotated() {
        return Err(TorshError::invalid(
            "convert_bounding_box_format",
            format!(
                "boxes cannot become {} from {}: only one of them has an angle",
                new_format.name(),
                boxes.format.name()
            ),
        ));
    }
    by_rows(boxes, false, &To(new_format))
}

struct To(BoundingBoxFormat);

impl Change for To {
    fn rows<T: Real>(
        &self,
        rows: Rows<T>,
        canvas: (usize, usize),
        _: &BoundingBoxes,
    ) -> Result<(Rows<T>, (usize, usize))> {
        Ok((rows.to(self.0), canvas))
    }
}
