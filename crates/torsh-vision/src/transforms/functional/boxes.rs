//! Boxes and points that go where the image's pixels go.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::box_formats::{Change, Rows, by_rows, rectangle};
use super::clamp::clamped;
use super::geometry::{center_crop_anchor, resized_size};
use super::grid::{Grid, Real, displaced_grid};
use super::warp::{Perspective, affine_matrix, affine_output_size, checked_displacement};
use crate::transforms::arguments::{Padding, PaddingMode, Size};
use crate::transforms::sample::{BoundingBoxFormat, BoundingBoxes, KeyPoints};

type Canvas = (usize, usize);

/// Where things go.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    HorizontalFlip,
    VerticalFlip,
    Resize(Option<Size>, Option<usize>),
    Crop {
        top: i64,
        left: i64,
        height: usize,
        width: usize,
    },
    CenterCrop(Size),
    Pad(Padding, PaddingMode),
    Affine {
        angle: f64,
        translate: [f64; 2],
        scale: f64,
        shear: [f64; 2],
        center: Option<[f64; 2]>,
        expand: bool,
    },
    Perspective(Perspective),
    Elastic(Tensor),
}

impl Move {
    fn name(&self) -> &'static str {
        match self {
            Move::HorizontalFlip => "horizontal_flip",
            Move::VerticalFlip => "vertical_flip",
            Move::Resize(..) => "resize",
            Move::Crop { .. } => "crop",
            Move::CenterCrop(_) => "center_crop",
            Move::Pad(..) => "pad",
            Move::Affine { .. } => "affine",
            Move::Perspective(_) => "perspective",
            Move::Elastic(_) => "elastic",
        }
    }

    pub(crate) fn rotation(angle: f64, expand: bool, center: Option<[f64; 2]>) -> Move {
        Move::Affine {
            angle: -angle,
            translate: [0.0; 2],
            scale: 1.0,
            shear: [0.0; 2],
            center,
            expand,
        }
    }

    /// A crop of the middle of an image.
    fn as_crop(&self, canvas: Canvas) -> Option<Move> {
        let Move::CenterCrop(size) = self else {
            return None;
        };
        let (height, width) = size.both();
        let (top, left) = center_crop_anchor(canvas, (height, width));
        Some(Move::Crop {
            top,
            left,
            height,
            width,
        })
    }
}

/// How points move, and the size of the image that they are then in.
struct Map<T> {
    /// A 2 x 3 matrix, and what its result is divided by.
    above: [[T; 3]; 2],
    below: Option<[T; 3]>,
    /// What is taken off.
    corner: [T; 2],
    canvas: Canvas,
}

impl<T: Real> Map<T> {
    fn point(&self, x: T, y: T) -> [T; 2] {
        let line = |[a, b, c]: [T; 3]| y.mul_add(b, x * a) + c;
        let mut p = self.above.map(line);
        if let Some(below) = self.below {
            let d = line(below);
            p = p.map(|v| v / d);
        }
        [p[0] - self.corner[0], p[1] - self.corner[1]]
    }

    fn of(op: &'static str, movement: &Move, canvas: Canvas) -> Result<Option<Map<T>>> {
        let (h, w) = canvas;
        Ok(Some(match movement {
            Move::Affine {
                angle,
                translate,
                scale,
                shear,
                center,
                expand,
            } => {
                if !(*scale > 0.0) {
                    return Err(TorshError::invalid(
                        op,
                        format!("scale must be positive, got {scale}"),
                    ));
                }
                let middle = center.unwrap_or([w as f64 * 0.5, h as f64 * 0.5]);
                let m = affine_matrix(middle, *angle, *translate, *scale, *shear, false).map(T::of);
                let mut map = Map {
                    above: [[m[0], m[1], m[2]], [m[3], m[4], m[5]]],
                    below: None,
                    corner: [T::zero(); 2],
                    canvas,
                };
                if *expand {
                    let (fw, fh) = (T::of(w as f64), T::of(h as f64));
                    let corners = [
                        (T::zero(), T::zero()),
                        (T::zero(), fh),
                        (fw, fh),
                        (fw, T::zero()),
                    ];
                    let corners = corners.map(|(x, y)| map.point(x, y));
                    let least = |i: usize| corners.iter().map(|c| c[i]).fold(T::infinity(), T::min);
                    map.corner = [least(0), least(1)];
                    let back = affine_matrix(middle, *angle, *translate, *scale, *shear, true);
                    map.canvas = affine_output_size(back, canvas);
                }
                map
            }
            Move::Perspective(perspective) => {
                let c = perspective.coefficients()?;
                let d = c[0] * c[4] - c[1] * c[3];
                if d == 0.0 {
                    return Err(TorshError::invalid(
                        op,
                        format!("the map {c:?} cannot be inverted"),
                    ));
                }
                let each = |v: [f64; 3]| v.map(|v| T::of(v / d));
                let [gx, gy, _] = each([c[3] * c[7] - c[4] * c[6], c[1] * c[6] - c[0] * c[7], 0.0]);
                Map {
                    above: [
                        each([
                            c[4] - c[5] * c[7],
                            c[2] * c[7] - c[1],
                            c[1] * c[5] - c[2] * c[4],
                        ]),
                        each([
                            c[5] * c[6] - c[3],
                            c[0] - c[2] * c[6],
                            c[2] * c[3] - c[0] * c[5],
                        ]),
                    ],
                    below: Some([gx, gy, T::one()]),
                    corner: [T::zero(); 2],
                    canvas,
                }
            }
            _ => return Ok(None),
        }))
    }
}

/// The point of the grid at whole x and y, in pixels.
fn displaced<T: Real>(grid: &Grid<T>, x: T, y: T) -> [T; 2] {
    let (h, w) = grid.size;
    let index = |v: T, n: usize| v.index().clamp(0, n as i32 - 1) as usize;
    let [gx, gy] = grid.place(index(y, h), index(x, w));
    let pixels = |v: T, n: usize| (v + T::one()) * T::of(0.5 * n as f64) - T::of(0.5);
    [pixels(gx, w), pixels(gy, h)]
}

fn inverse_grid<T: Real>(
    op: &'static str,
    canvas: Canvas,
    displacement: &Tensor,
) -> Result<Grid<T>> {
    checked_displacement(op, displacement, canvas)?;
    displaced_grid(canvas, &T::values(displacement)?, -T::one())
}

/// By how much a crop or padding moves things, and the size of what comes out.
fn offset(op: &'static str, movement: &Move, (h, w): Canvas) -> Result<Option<([i64; 2], Canvas)>> {
    Ok(match *movement {
        Move::Crop {
            top,
            left,
            height,
            width,
        } => Some(([-left, -top], (height, width))),
        Move::Pad(p, mode) => {
            if mode != PaddingMode::Constant {
                return Err(TorshError::invalid(
                    op,
                    format!(
                        "boxes and key points have no mirror images: the mode {mode:?} is for images"
                    ),
                ));
            }
            let size = |n: usize, by: i64| (n as i64).saturating_add(by).max(0) as usize;
            Some((
                [p.left, p.top],
                (size(h, p.top + p.bottom), size(w, p.left + p.right)),
            ))
        }
        _ => None,
    })
}

/// The factors of a new size, of x and y, which torchvision has in float32.
fn factors<T: Real>((h, w): Canvas, (to_h, to_w): Canvas) -> [T; 2] {
    let factor = |to: usize, from: usize| T::of(f64::from((to as f64 / from as f64) as f32));
    [factor(to_w, w), factor(to_h, h)]
}

impl Change for Move {
    fn rows<T: Real>(
        &self,
        rows: Rows<T>,
        canvas: Canvas,
        boxes: &BoundingBoxes,
    ) -> Result<(Rows<T>, Canvas)> {
        use BoundingBoxFormat::{Cxcywhr, Xyxy, Xyxyxyxy};
        let (op, format, mode) = (self.name(), rows.format, boxes.clamping_mode);
        let whole = rows.whole;
        let inner = if format.is_rotated() { Xyxyxyxy } else { Xyxy };
        if let Some(crop) = self.as_crop(canvas) {
            return crop.rows(rows, canvas, boxes);
        }
        if let Some(([dx, dy], to)) = offset(op, self, canvas)? {
            let mut rows = rows;
            let by = [T::of(dx as f64), T::of(dy as f64)];
            let places = match format {
                Xyxyxyxy => 8,
                Xyxy => 4,
                _ => 2,
            };
            for row in rows.data.chunks_exact_mut(format.numbers()) {
                for (i, v) in row[..places].iter_mut().enumerate() {
                    *v = *v + by[i % 2];
                }
                if format == Xyxyxyxy && matches!(self, Move::Crop { .. }) {
                    let whole = rectangle(row);
                    row.copy_from_slice(&whole);
                }
            }
            rows.whole = false;
            return Ok((clamped(rows, to, mode), to));
        }
        match self {
            Move::HorizontalFlip | Move::VerticalFlip => {
                let mut rows = rows;
                for row in rows.data.chunks_exact_mut(format.numbers()) {
                    flip(row, format, canvas, matches!(self, Move::HorizontalFlip));
                }
                Ok((rows, canvas))
            }
            Move::Resize(size, max_size) => {
                let to = resized_size(op, canvas, *size, *max_size)?;
                if to == canvas {
                    return Ok((rows, canvas));
                }
                let by = factors(canvas, to);
                let rotated = format.is_rotated();
                let mut rows = if rotated { rows.to(Xyxyxyxy) } else { rows };
                for row in rows.data.chunks_exact_mut(if rotated { 8 } else { 4 }) {
                    for (i, v) in row.iter_mut().enumerate() {
                        *v = *v * by[i % 2];
                    }
                    if rotated {
                        let straight = rectangle(row);
                        row.copy_from_slice(&straight);
                    }
                }
                let rows = if rotated {
                    clamped(rows, to, mode).to(format)
                } else {
                    rows
                };
                Ok((rows, to))
            }
            Move::Elastic(displacement) => {
                if rows.data.is_empty() {
                    return Ok((rows, canvas));
                }
                let grid = inverse_grid::<T>(op, canvas, displacement)?;
                let up = |v: T| if whole { v } else { v.ceil() };
                let inner = if format.is_rotated() { Cxcywhr } else { Xyxy };
                let mut rows = rows.to(inner);
                for row in rows.data.chunks_exact_mut(inner.numbers()) {
                    if inner == Cxcywhr {
                        let [x, y] = displaced(&grid, up(row[0]), up(row[1]));
                        (row[0], row[1]) = (x, y);
                    } else {
                        let corners = corners(row).map(|[x, y]| displaced(&grid, up(x), up(y)));
                        row.copy_from_slice(&around(corners));
                        if whole {
                            row.iter_mut().for_each(|v| *v = v.trunc());
                        }
                    }
                }
                let mut rows = clamped(rows, canvas, mode);
                rows.whole = whole;
                Ok((rows.to(format), canvas))
            }
            _ => {
                let Some(map) = Map::<T>::of(op, self, canvas)? else {
                    return Ok((rows, canvas));
                };
                if rows.data.is_empty() {
                    return Ok((rows, canvas));
                }
                // An affine map converts integers first; a perspective one does not.
                let mut rows = rows;
                rows.whole = whole && matches!(self, Move::Perspective(_));
                let mut rows = rows.to(inner);
                rows.whole = false;
                for row in rows.data.chunks_exact_mut(inner.numbers()) {
                    if inner == Xyxyxyxy {
                        let moved: [[T; 2]; 4] =
                            std::array::from_fn(|i| map.point(row[2 * i], row[2 * i + 1]));
                        row.copy_from_slice(&rectangle(moved.as_flattened()));
                    } else {
                        let moved = corners(row).map(|[x, y]| map.point(x, y));
                        row.copy_from_slice(&around(moved));
                    }
                }
                Ok((clamped(rows, map.canvas, mode).to(format), map.canvas))
            }
        }
    }
}

fn corners<T: Real>(b: &[T]) -> [[T; 2]; 4] {
    [[b[0], b[1]], [b[2], b[1]], [b[2], b[3]], [b[0], b[3]]]
}

/// The box around four points.
fn around<T: Real>(points: [[T; 2]; 4]) -> [T; 4] {
    let least = |i: usize| points.iter().map(|p| p[i]).fold(T::infinity(), T::min);
    let most = |i: usize| points.iter().map(|p| p[i]).fold(T::neg_infinity(), T::max);
    [least(0), least(1), most(0), most(1)]
}

fn flip<T: Real>(b: &mut [T], format: BoundingBoxFormat, (h, w): Canvas, horizontal: bool) {
    use BoundingBoxFormat::{Cxcywh, Cxcywhr, Xywh, Xywhr, Xyxy, Xyxyxyxy};
    let (i, size) = if horizontal { (0, w) } else { (1, h) };
    let size = T::of(size as f64);
    let mirrored = |v: T| -(v - size);
    let angle = |r: T| if horizontal { -r } else { -r + T::of(180.0) };
    match format {
        Xyxy => (b[i], b[i + 2]) = (mirrored(b[i + 2]), mirrored(b[i])),
        Xywh => b[i] = mirrored(b[i] + b[i + 2]),
        Cxcywh => b[i] = mirrored(b[i]),
        Cxcywhr => {
            b[i] = mirrored(b[i]);
            b[4] = angle(b[4]);
        }
        Xywhr => {
            let r = b[4] * T::of(std::f64::consts::PI) / T::of(180.0);
            let (across, down) = (b[2] * r.cos(), b[2] * r.sin());
            if horizontal {
                b[0] = mirrored(b[0] + across);
                b[1] = b[1] - down;
            } else {
                b[1] = mirrored(b[1] - down);
                b[0] = b[0] + across;
            }
            b[4] = angle(b[4]);
        }
        Xyxyxyxy => {
            for k in 0..4 {
                b[2 * k + i] = mirrored(b[2 * k + i]);
            }
            for k in 0..2 {
                b.swap(k, k + 2);
                b.swap(k + 4, k + 6);
            }
        }
    }
}

/// The boxes where the image's pixels went.
#[track_caller]
pub(crate) fn moved_boxes(boxes: &BoundingBoxes, movement: &Move) -> Result<BoundingBoxes> {
    let single = matches!(
        movement,
        Move::Affine { .. } | Move::Perspective(_) | Move::Elastic(_)
    );
    by_rows(boxes, single, movement).map_err(|e| e.renamed(movement.name()))
}

/// The points where the image's pixels went.
#[track_caller]
pub(crate) fn moved_points(points: &KeyPoints, movement: &Move) -> Result<KeyPoints> {
    fn run<T: Real>(points: &KeyPoints, movement: &Move) -> Result<KeyPoints> {
        let (op, canvas) = (movement.name(), points.canvas_size);
        let mut data = T::values(&points.data)?;
        let mut each = |f: &dyn Fn(T, T) -> [T; 2]| {
            for p in data.chunks_exact_mut(2) {
                let [x, y] = f(p[0], p[1]);
                (p[0], p[1]) = (x, y);
            }
        };
        let (h, w) = canvas;
        let mut to = canvas;
        if let Some(([dx, dy], size)) = offset(op, movement, canvas)? {
            each(&|x, y| [x + T::of(dx as f64), y + T::of(dy as f64)]);
            to = size;
        } else if let Some(map) = Map::<T>::of(op, movement, canvas)? {
            each(&|x, y| map.point(x, y));
            to = map.canvas;
        } else {
            let mirrored = |v: T, n: usize| -(v - T::of(n as f64 - 1.0));
            match movement {
                Move::HorizontalFlip => each(&|x, y| [mirrored(x, w), y]),
                Move::VerticalFlip => each(&|x, y| [x, mirrored(y, h)]),
                Move::Resize(size, max_size) => {
                    to = resized_size(op, canvas, *size, *max_size)?;
                    let [fx, fy] = factors(canvas, to);
                    each(&|x, y| [x * fx, y * fy]);
                }
                Move::Elastic(displacement) => {
                    let grid = inverse_grid::<T>(op, canvas, displacement)?;
                    each(&|x, y| displaced(&grid, x, y));
                }
                _ => {}
            }
        }
        let data = T::tensor(&data, points.data.dims())?
            .to_dtype(points.data.dtype())?
            .to_device(points.data.device())?;
        Ok(KeyPoints {
            data,
            canvas_size: to,
        })
    }
    let inner = || {
        if let Some(crop) = movement.as_crop(points.canvas_size) {
            return moved_points(points, &crop);
        }
        let dtype = points.data.dtype();
        let single = matches!(
            movement,
            Move::Affine { .. } | Move::Perspective(_) | Move::Elastic(_)
        );
        if dtype == DType::F64 || !dtype.is_floating_point() && !single {
            run::<f64>(points, movement)
        } else {
            run::<f32>(points, movement)
        }
    };
    inner().map_err(|e| e.renamed(movement.name()))
}

/// `/// docs  BOXES POINTS (ARGUMENTS) MOVE, CALL => BOX, POINT;`: a function of boxes and one of points. The text of a call has
/// what follows the boxes in an example, and the others where that puts the box 2, 3, 14, 15 and the point 2, 3.
macro_rules! moves {
    ($(
        $(#[doc = $doc:literal])+
        $boxes:ident $points:ident ($($arg:ident: $t:ty),*) $movement:expr,
        $call:literal => $to_box:literal, $to_point:literal;
    )*) => {$(
        $(#[doc = $doc])+
        #[doc = concat!(
            "\n```\n",
            "use torsh_tensor::tensor;\n",
            "use torsh_vision::transforms::{BoundingBoxes, functional as TF};\n",
            "let boxes = BoundingBoxes::new(tensor![[2.0, 3.0, 14.0, 15.0]], \"XYXY\", (24, 31))?;\n",
            "let moved = TF::", stringify!($boxes), "(&boxes", $call, ")?;\n",
            "assert!(moved.data.allclose(&tensor![", $to_box, "])?);\n",
            "# Ok::<(), torsh_tensor::TorshError>(())\n",
            "```",
        )]
        ///
        /// # Errors
        /// Arguments that do not fit, as of the function of images.
        #[torsh_tensor::names_caller]
        pub fn $boxes(boxes: &BoundingBoxes $(, $arg: $t)*) -> Result<BoundingBoxes> {
            moved_boxes(boxes, &$movement)
        }

        #[doc = concat!("Points where [`", stringify!($boxes), "`] puts boxes.")]
        #[doc = concat!(
            "\n```\n",
            "use torsh_tensor::tensor;\n",
            "use torsh_vision::transforms::{KeyPoints, functional as TF};\n",
            "let points = KeyPoints::new(tensor![[2.0, 3.0]], (24, 31))?;\n",
            "let moved = TF::", stringify!($points), "(&points", $call, ")?;\n",
            "assert!(moved.data.allclose(&tensor![", $to_point, "])?);\n",
            "# Ok::<(), torsh_tensor::TorshError>(())\n",
            "```",
        )]
        ///
        /// # Errors
        /// Arguments that do not fit, as of the function of images.
        #[torsh_tensor::names_caller]
        pub fn $points(points: &KeyPoints $(, $arg: $t)*) -> Result<KeyPoints> {
            moved_points(points, &$movement)
        }
    )*};
}
moves! {
    /// The boxes in the image mirrored left to right.
    horizontal_flip_bounding_boxes horizontal_flip_keypoints () Move::HorizontalFlip,
        "" => "[17.0, 3.0, 29.0, 15.0]", "[28.0, 3.0]";
    /// The boxes in the image upside down.
    vertical_flip_bounding_boxes vertical_flip_keypoints () Move::VerticalFlip,
        "" => "[2.0, 9.0, 14.0, 21.0]", "[2.0, 20.0]";
    /// The boxes in the image of another size.
    resize_bounding_boxes resize_keypoints (size: impl Into<Size>, max_size: Option<usize>)
        Move::Resize(Some(size.into()), max_size),
        ", [48, 62], None" => "[4.0, 6.0, 28.0, 30.0]", "[4.0, 6.0]";
    /// The boxes in a part of the image.
    crop_bounding_boxes crop_keypoints (top: i64, left: i64, height: usize, width: usize)
        Move::Crop { top, left, height, width },
        ", 1, 2, 20, 20" => "[0.0, 2.0, 12.0, 14.0]", "[0.0, 2.0]";
    /// The boxes in the middle of the image.
    center_crop_bounding_boxes center_crop_keypoints (size: impl Into<Size>) Move::CenterCrop(size.into()),
        ", [22, 29]" => "[1.0, 2.0, 13.0, 14.0]", "[1.0, 2.0]";
    /// The boxes in the image with pixels around it.
    pad_bounding_boxes pad_keypoints (padding: impl Into<Padding>)
        Move::Pad(padding.into(), PaddingMode::Constant),
        ", [1, 2]" => "[3.0, 5.0, 15.0, 17.0]", "[3.0, 5.0]";
    /// The boxes in the image turned, moved, scaled and sheared; rotated boxes turn, others stay upright around.
    affine_bounding_boxes affine_keypoints
        (angle: f64, translate: [f64; 2], scale: f64, shear: [f64; 2], center: Option<[f64; 2]>)
        Move::Affine { angle, translate, scale, shear, center, expand: false },
        ", 0.0, [5.0, -1.0], 1.0, [0.0, 0.0], None" => "[7.0, 2.0, 19.0, 14.0]", "[7.0, 2.0]";
    /// The boxes in the image turned counter-clockwise; rotated boxes turn, others stay upright around.
    rotate_bounding_boxes rotate_keypoints (angle: f64, expand: bool, center: Option<[f64; 2]>)
        Move::rotation(angle, expand, center),
        ", 90.0, true, None" => "[3.0, 17.0, 15.0, 29.0]", "[3.0, 29.0]";
    /// The boxes in the image seen from another side.
    perspective_bounding_boxes perspective_keypoints (map: Perspective) Move::Perspective(map),
        ", TF::Perspective::Coefficients([1.0, 0.0, -1.0, 0.0, 1.0, -1.0, 0.0, 0.0])" => "[3.0, 4.0, 15.0, 16.0]", "[3.0, 4.0]";
    /// The boxes in the image with each pixel moved.
    elastic_bounding_boxes elastic_keypoints (displacement: &Tensor) Move::Elastic(displacement.clone()),
        ", &tensor![[[[2.0 / 31.0, 0.0]]]].expand([1, 24, 31, 2])?" => "[1.0, 3.0, 13.0, 15.0]", "[1.0, 3.0]";
}

/// Which boxes are at least `min_size` wide and high, have at least `min_area`, and lie within the image: those boxes,
/// and a bool for each.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxes, functional as TF};
/// let boxes = tensor![[1.0, 1.0, 5.0, 5.0], [3.0, 3.0, 3.0, 7.0]];
/// let boxes = BoundingBoxes::new(boxes, "XYXY", (8, 8))?;
/// let (kept, which) = TF::sanitize_bounding_boxes(&boxes, 1.0, 1.0)?;
/// assert_eq!(kept.data, tensor![[1.0, 1.0, 5.0, 5.0]]);
/// assert_eq!(which, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the values cannot be read.
#[torsh_tensor::names_caller]
pub fn sanitize_bounding_boxes(
    boxes: &BoundingBoxes,
    min_size: f64,
    min_area: f64,
) -> Result<(BoundingBoxes, Tensor)> {
    let rotated = boxes.format.is_rotated();
    let inner = if rotated {
        BoundingBoxFormat::Xyxyxyxy
    } else {
        BoundingBoxFormat::Xyxy
    };
    let corners = super::convert_bounding_box_format(boxes, inner)?;
    let data = f64::values(&corners.data)?;
    let (h, w) = (boxes.canvas_size.0 as f64, boxes.canvas_size.1 as f64);
    let kept: Vec<bool> = data
        .chunks_exact(inner.numbers())
        .map(|b| {
            let (wide, high) = if rotated {
                // torchvision takes these numbers for the second side.
                let (dx, dy) = (b[3] - b[5], b[4] - b[6]);
                ((b[0] - b[2]).hypot(b[1] - b[3]), dx.hypot(dy))
            } else {
                (b[2] - b[0], b[3] - b[1])
            };
            let inside = b
                .iter()
                .enumerate()
                .all(|(i, &v)| v >= 0.0 && v <= if i % 2 == 0 { w } else { h });
            wide >= min_size && high >= min_size && wide * high >= min_area && inside
        })
        .collect();
    let (data, kept) = picked(&boxes.data, &kept)?;
    Ok((boxes.with(data), kept))
}

/// Which points lie within the image, all of a row: those rows, and a bool for each.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{KeyPoints, functional as TF};
/// let points = KeyPoints::new(tensor![[1.0, 2.0], [9.0, 2.0]], (8, 8))?;
/// let (kept, which) = TF::sanitize_keypoints(&points)?;
/// assert_eq!(kept.data, tensor![[1.0, 2.0]]);
/// assert_eq!(which, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the values cannot be read.
#[torsh_tensor::names_caller]
pub fn sanitize_keypoints(points: &KeyPoints) -> Result<(KeyPoints, Tensor)> {
    let data = f64::values(&points.data)?;
    let (h, w) = (points.canvas_size.0 as f64, points.canvas_size.1 as f64);
    let rows = match points.data.dims() {
        [_] => 1,
        dims => dims[0],
    };
    let per_row = data.len() / rows.max(1);
    let kept: Vec<bool> = data
        .chunks_exact(per_row.max(1))
        .map(|row| {
            row.chunks_exact(2)
                .all(|p| p[0] >= 0.0 && p[0] < w && p[1] >= 0.0 && p[1] < h)
        })
        .collect();
    let (data, kept) = picked(&points.data, &kept)?;
    Ok((
        KeyPoints {
            data,
            canvas_size: points.canvas_size,
        },
        kept,
    ))
}

/// The rows that are kept, and which they are.
fn picked(rows: &Tensor, kept: &[bool]) -> Result<(Tensor, Tensor)> {
    let mask = Tensor::from_slice(kept, [kept.len()], DType::Bool, torsh_tensor::Device::Cpu)?
        .to_device(rows.device())?;
    let rows = if rows.ndim() == 1 {
        rows.unsqueeze(0)?
    } else {
        rows.clone()
    };
    Ok((rows.i(&mask)?, mask))
}
