//! Boxes and points within the image.

use torsh_tensor::Result;

use super::box_formats::{Change, Rows, by_rows};
use super::grid::Real;
use crate::transforms::sample::{BoundingBoxFormat, BoundingBoxes, ClampingMode, KeyPoints};

/// The boxes within the image, by their own clamping mode.
///
/// # Errors
/// If the values cannot be read.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes, functional as TF};
/// let boxes = BoundingBoxes::new(tensor![[-2.0, 3.0, 40.0, 15.0]], BoundingBoxFormat::Xyxy, (24, 31))?;
/// assert_eq!(TF::clamp_bounding_boxes(&boxes)?.data, tensor![[0.0, 3.0, 31.0, 15.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn clamp_bounding_boxes(boxes: &BoundingBoxes) -> Result<BoundingBoxes> {
    by_rows(boxes, true, &Clamp)
}

struct Clamp;

impl Change for Clamp {
    fn rows<T: Real>(
        &self,
        mut rows: Rows<T>,
        canvas: (usize, usize),
        boxes: &BoundingBoxes,
    ) -> Result<(Rows<T>, (usize, usize))> {
        // Integers are clamped as numbers, and cut at the end.
        rows.whole = false;
        Ok((clamped(rows, canvas, boxes.clamping_mode), canvas))
    }
}

/// The boxes within an image of `(height, width)`.
pub(crate) fn clamped<T: Real>(
    rows: Rows<T>,
    (h, w): (usize, usize),
    mode: ClampingMode,
) -> Rows<T> {
    if mode == ClampingMode::Off {
        return rows;
    }
    let format = rows.format;
    let (width, height) = (T::of(w as f64), T::of(h as f64));
    if !format.is_rotated() {
        let mut rows = rows.to(BoundingBoxFormat::Xyxy);
        for row in rows.data.chunks_exact_mut(4) {
            for (i, v) in row.iter_mut().enumerate() {
                let most = if i % 2 == 0 { width } else { height };
                *v = limited(*v, T::zero(), most);
            }
        }
        return rows.to(format);
    }
    let mut rows = rows.to(BoundingBoxFormat::Xyxyxyxy);
    for row in rows.data.chunks_exact_mut(8) {
        let mut b: [T; 8] = std::array::from_fn(|i| row[i]);
        let mut original = b;
        let mut canvas = (height, width);
        // Each side in turn is the left one.
        for _ in 0..4 {
            let first = first_corner(&b);
            (b, original) = (from_corner(b, first), from_corner(original, first));
            b = clamp_left(b, original, canvas, mode);
            (b, original) = (from_corner(b, first), from_corner(original, first));
            let turned = |b: [T; 8]| -> [T; 8] {
                std::array::from_fn(|i| match i % 2 {
                    0 => b[i + 1],
                    _ => canvas.1 - b[i - 1],
                })
            };
            (b, original) = (turned(b), turned(original));
            canvas = (canvas.1, canvas.0);
        }
        row.copy_from_slice(&b);
    }
    rows.to(format)
}

/// `v` from `low` to `high`; no number where one of them is none.
fn limited<T: Real>(v: T, low: T, high: T) -> T {
    if v.is_nan() || low.is_nan() || high.is_nan() {
        T::nan()
    } else {
        v.max(low).min(high)
    }
}

/// The leftmost corner, of equal ones the upper one.
fn first_corner<T: Real>(b: &[T; 8]) -> usize {
    let most = |from: usize| {
        (0..4)
            .map(|i| b[2 * i + from].abs())
            .fold(T::zero(), |a, v| {
                if a.is_nan() || v.is_nan() {
                    T::nan()
                } else {
                    a.max(v)
                }
            })
    };
    let (x_max, y_max) = (most(0), most(1));
    let score: [T; 4] =
        std::array::from_fn(|i| b[2 * i + 1] / y_max + b[2 * i] / x_max * T::of(100.0));
    if let Some(nan) = score.iter().position(|s| s.is_nan()) {
        return nan;
    }
    (1..4).fold(0, |best, i| if score[i] < score[best] { i } else { best })
}

/// The corners, from the one with this number on.
fn from_corner<T: Real>(b: [T; 8], first: usize) -> [T; 8] {
    std::array::from_fn(|i| b[(i + 2 * first) % 8])
}

/// Slopes and intercepts of the four sides.
fn lines<T: Real>(b: &[T; 8]) -> ([T; 4], [T; 4]) {
    let slopes: [T; 4] = std::array::from_fn(|i| {
        let j = (i + 1) % 4;
        (b[2 * j + 1] - b[2 * i + 1]) / (b[2 * j] - b[2 * i])
    });
    let at: [T; 4] = std::array::from_fn(|i| b[2 * i + 1] - slopes[i] * b[2 * i]);
    (slopes, at)
}

/// New intercepts, so that the sides cross within the image.
fn intercepts<T: Real>(
    b: &[T; 8],
    original: &[T; 8],
    (h, w): (T, T),
    mode: ClampingMode,
) -> [T; 4] {
    let ([a1, a2, a3, a4], [b1, mut b2, mut b3, b4]) = lines(b);
    let (_, [b1m, b2m, b3m, b4m]) = lines(original);
    let zero = T::zero();
    let first = limited(limited(b2, b1, b3), zero, h);
    let last = limited(limited(b3, b2, b4), zero, h);
    let (mut b1, mut b4) = (first, last);
    if mode == ClampingMode::Hard {
        let middle = (b1 + b4) / T::of(2.0);
        (b1, b4) = (middle, middle);
        let extreme = |four: [T; 4], largest: bool| {
            four.into_iter().reduce(|a, v| {
                if a.is_nan() || v.is_nan() {
                    T::nan()
                } else if largest {
                    a.max(v)
                } else {
                    a.min(v)
                }
            })
        };
        let most = extreme(
            [
                b1 * a2 / a1,
                b3 * a2 / a3,
                (a1 - a2) * w + b1,
                (a3 - a2) * w + b3,
            ],
            true,
        );
        b2 = limited(most.unwrap_or(b2), T::neg_infinity(), b2);
        let one = T::one();
        let least = extreme(
            [
                h * (one - a3 / a4) + b4 * a3 / a4,
                h * (one - a3 / a2) + b2 * a3 / a2,
                (a2 - a3) * w + b2,
                (a4 - a3) * w + b4,
            ],
            false,
        );
        b3 = limited(least.unwrap_or(b3), b3, T::infinity());
    }
    if mode == ClampingMode::Hard {
        let both = limited(limited(b1, b1m, b3m), b2m, b4m);
        (b1, b4) = (both, both);
    } else {
        b1 = limited(b1, b1m, b3m);
        b4 = limited(b4, b2m, b4m);
    }
    [b1, limited(b2, b2m, b4m), limited(b3, b1m, b3m), b4]
}

/// The box without what is left of 0; its first corner is the leftmost.
fn clamp_left<T: Real>(b: [T; 8], original: [T; 8], canvas: (T, T), mode: ClampingMode) -> [T; 8] {
    let zero = T::zero();
    let close = |a: T, b: T| a == b || (a - b).abs() <= T::of(1e-8) + T::of(1e-5) * b.abs();
    let (a, _) = lines(&b);
    let at = intercepts(&b, &original, canvas, mode);
    let crossings: [T; 8] = std::array::from_fn(|i| {
        let (n, before) = (i / 2, (i / 2 + 3) % 4);
        let x = -(at[n] - at[before]) / (a[n] - a[before]);
        if i % 2 == 0 { x } else { a[n] * x + at[n] }
    });
    let mut upright = b;
    upright[0] = upright[0].max(zero);
    upright[6] = upright[6].max(zero);
    let mut out = b;
    if b[0] < zero && !crossings.iter().any(|v| v.is_nan()) {
        out = crossings;
    }
    let steep = close(b[1], b[3]) || close(b[5], b[7]);
    if steep {
        out = upright;
    }
    let outside = (0..4).all(|i| b[2 * i] <= zero);
    let flat = close(b[1], b[7]) || close(b[3], b[5]) || steep && close(b[0], b[2]);
    if outside || flat {
        out = [zero; 8];
    }
    out
}

/// The points within the image: those beyond it are put on its edge.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{KeyPoints, functional as TF};
/// let points = KeyPoints::new(tensor![[-2.0, 3.0], [40.0, 15.0]], (24, 31))?;
/// assert_eq!(TF::clamp_keypoints(&points)?.data, tensor![[0.0, 3.0], [30.0, 15.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the values cannot be read.
#[torsh_tensor::names_caller]
pub fn clamp_keypoints(points: &KeyPoints) -> Result<KeyPoints> {
    let (h, w) = points.canvas_size;
    let line = |i: usize, n: usize| points.data.narrow(-1, i, 1)?.clamp(0i64, n as i64 - 1);
    let data = torsh_tensor::cat(&[line(0, w)?, line(1, h)?], -1)?;
    Ok(KeyPoints {
        data,
        canvas_size: points.canvas_size,
    })
}
