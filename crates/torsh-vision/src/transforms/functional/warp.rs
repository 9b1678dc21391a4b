//! Rotations, affine and perspective maps, elastic displacements.

use torsh_tensor::{
    DType, Device, GridSampleOptions, InterpolateMode, Result, Tensor, TorshError, options,
};

use super::grid::{Emit, Grid, Real, affine_grid, displaced_grid, perspective_grid, sample};
use crate::transforms::apply::{dimensions, size_of};
use crate::transforms::arguments::{Fill, Pair};

options! {
    /// The arguments of [`affine_with`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::functional::{AffineOptions, affine_with};
    /// let options = AffineOptions::new().fill(9.0);
    /// let moved = affine_with(&tensor![[[1.0, 2.0, 3.0]]], 0.0, [1.0, 0.0], 1.0, 0.0, options)?;
    /// assert_eq!(moved, tensor![[[9.0, 1.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(PartialEq)]
    AffineOptions {
        /// Nearest or Bilinear.
        interpolation: InterpolateMode = InterpolateMode::Nearest, impl Into<InterpolateMode> => Into::into;
        /// The value of pixels that come from outside.
        fill: Fill = Fill::default(), impl Into<Fill> => Into::into;
        /// Around which x and y the image turns, instead of its middle.
        center: Option<[f64; 2]> = None, impl Into<Option<[f64; 2]>> => Into::into;
    }
}

options! {
    /// The arguments of [`rotate_with`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::functional::{RotateOptions, rotate_with};
    /// // Without expand, the ends of a row that is turned lie outside of the image.
    /// let options = RotateOptions::new().fill(9.0);
    /// assert_eq!(rotate_with(&tensor![[[1.0, 2.0, 3.0]]], 90.0, options)?, tensor![[[9.0, 2.0, 9.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(PartialEq)]
    RotateOptions {
        /// Nearest or Bilinear.
        interpolation: InterpolateMode = InterpolateMode::Nearest, impl Into<InterpolateMode> => Into::into;
        /// Whether the result is as large as the whole rotated image.
        expand: bool = false;
        /// Around which x and y the image turns, instead of its middle.
        center: Option<[f64; 2]> = None, impl Into<Option<[f64; 2]>> => Into::into;
        /// The value of pixels that come from outside.
        fill: Fill = Fill::default(), impl Into<Fill> => Into::into;
    }
}

options! {
    /// The arguments of [`perspective_with`] and [`elastic_with`].
    #[derive(PartialEq)]
    WarpOptions {
        /// Nearest or Bilinear.
        interpolation: InterpolateMode = InterpolateMode::Bilinear, impl Into<InterpolateMode> => Into::into;
        /// The value of pixels that come from outside.
        fill: Fill = Fill::default(), impl Into<Fill> => Into::into;
    }
}

/// The map from the result's pixels to the image's, or back with `inverted` false: a rotation in degrees, clockwise,
/// with a shear in degrees, scaled, around a centre, and moved.
pub(crate) fn affine_matrix(
    [cx, cy]: [f64; 2],
    angle: f64,
    [tx, ty]: [f64; 2],
    scale: f64,
    shear: [f64; 2],
    inverted: bool,
) -> [f64; 6] {
    let rot = angle.to_radians();
    let [sx, sy] = shear.map(f64::to_radians);
    let (to_x, to_y) = (cx + tx, cy + ty);
    let a = (rot - sy).cos() / sy.cos();
    let b = -(a * sx.tan() + rot.sin());
    let c = (rot - sy).sin() / sy.cos();
    let d = rot.cos() - c * sx.tan();
    if inverted {
        let mut m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0];
        m[2] += cx - m[0] * to_x - m[1] * to_y;
        m[5] += cy - m[3] * to_x - m[4] * to_y;
        m
    } else {
        let mut m = [a * scale, b * scale, 0.0, c * scale, d * scale, 0.0];
        m[2] += to_x - m[0] * cx - m[1] * cy;
        m[5] += to_y - m[3] * cx - m[4] * cy;
        m
    }
}

/// The height and width of a whole image after the map back; in float32, as PyTorch computes it.
pub(crate) fn affine_output_size(m: [f64; 6], (h, w): (usize, usize)) -> (usize, usize) {
    let m = m.map(|v| v as f32);
    let (half_w, half_h) = (0.5 * w as f32, 0.5 * h as f32);
    let corners = [
        (-half_w, -half_h),
        (-half_w, half_h),
        (half_w, half_h),
        (half_w, -half_h),
    ];
    let length = |a: f32, b: f32, c: f32, half: f32| {
        let each = corners.map(|(x, y)| y.mul_add(b, x * a) + c);
        let high = each.into_iter().fold(f32::NEG_INFINITY, f32::max) + half;
        let low = each.into_iter().fold(f32::INFINITY, f32::min) + half;
        // So that 1e-5 is no pixel of its own.
        let cut = |v: f32| (v * 1e4).trunc() * 1e-4;
        (cut(high).ceil() - cut(low).floor()).max(0.0) as usize
    };
    (
        length(m[3], m[4], m[5], half_h),
        length(m[0], m[1], m[2], half_w),
    )
}

/// Reads the image at the places that `grid` makes, in the image's own precision.
fn warped(
    op: &'static str,
    image: &Tensor,
    mode: InterpolateMode,
    fill: &Fill,
    grid32: impl FnOnce() -> Result<Grid<f32>>,
    grid64: impl FnOnce() -> Result<Grid<f64>>,
) -> Result<Tensor> {
    let (c, _, _) = dimensions(op, image)?;
    if !matches!(mode, InterpolateMode::Nearest | InterpolateMode::Bilinear) {
        return Err(TorshError::invalid(
            op,
            format!(
                "the interpolation is Nearest or Bilinear, not {}",
                mode.name()
            ),
        ));
    }
    if let Some(fill) = fill.values()
        && fill.len() != 1
        && fill.len() != c
    {
        return Err(TorshError::invalid(
            op,
            format!(
                "a fill of {} values for the {c} channels of {}",
                fill.len(),
                image.describe()
            ),
        ));
    }
    if image.dtype() == DType::F64 {
        read(image, mode, fill, &grid64()?)
    } else {
        read(image, mode, fill, &grid32()?)
    }
}

fn read<T: Real + From<u8> + Emit<T>>(
    image: &Tensor,
    mode: InterpolateMode,
    fill: &Fill,
    grid: &Grid<T>,
) -> Result<Tensor> {
    let rank = image.ndim();
    let (c, h, w) = dimensions("", image)?;
    let mut shape = image.dims().to_vec();
    (shape[rank - 2], shape[rank - 1]) = grid.size;
    if image.numel() == 0 {
        return image.reshape(shape);
    }
    if h.saturating_mul(w) > i32::MAX as usize {
        return Err(TorshError::shape(
            "",
            format!("{} has more than 2^31 pixels", image.describe()),
        ));
    }
    let nearest = mode == InterpolateMode::Nearest;
    if image.requires_grad() {
        return recorded(image, nearest, fill, grid)?.reshape(shape);
    }
    let fill: Option<Vec<T>> = fill.values().map(|f| f.iter().map(|&v| T::of(v)).collect());
    let fill = fill.as_deref();
    let dtype = image.dtype();
    if dtype == DType::U8 {
        let src = image.to_vec::<u8>()?;
        let out: Vec<u8> = sample(&src, c, (h, w), grid, nearest, fill);
        return super::bytes::like(image, &out, &shape);
    }
    let src = T::values(image)?;
    let mut out: Vec<T> = sample(&src, c, (h, w), grid, nearest, fill);
    if !dtype.is_floating_point() {
        out.iter_mut().for_each(|v| *v = v.rounded());
    }
    T::tensor(&out, &shape)?
        .to_dtype(dtype)?
        .to_device(image.device())
}

/// The same in ops, for images with gradients.
fn recorded<T: Real>(image: &Tensor, nearest: bool, fill: &Fill, grid: &Grid<T>) -> Result<Tensor> {
    let (c, h, w) = dimensions("", image)?;
    let n = image.numel() / (c * h * w);
    let (oh, ow) = grid.size;
    let places = T::tensor(&grid.all(), &[1, oh, ow, 2])?
        .to_device(image.device())?
        .expand([n, oh, ow, 2])?;
    let x = image.reshape([n, c, h, w])?.to_dtype(T::DTYPE)?;
    let options = GridSampleOptions::new()
        .mode(if nearest { "nearest" } else { "bilinear" })
        .padding_mode("zeros")
        .align_corners(false);
    let out = x.grid_sample_with(&places, options.clone())?;
    let out = match fill.values() {
        None => out,
        Some(fill) => {
            let inside = Tensor::full([n, 1, h, w], 1.0, T::DTYPE, image.device())?
                .grid_sample_with(&places, options)?;
            let fill = Tensor::from_slice(fill, [1, fill.len(), 1, 1], DType::F64, Device::Cpu)?
                .to_dtype(T::DTYPE)?
                .to_device(image.device())?;
            if nearest {
                Tensor::where_(&inside.lt(0.5)?, &fill, &out)?
            } else {
                out.sub(&fill)?.mul(&inside)?.add(&fill)?
            }
        }
    };
    out.to_dtype(image.dtype())
}

fn checked_affine(op: &'static str, scale: f64) -> Result<()> {
    if scale > 0.0 {
        Ok(())
    } else {
        Err(TorshError::invalid(
            op,
            format!("scale must be positive, got {scale}"),
        ))
    }
}

/// The centre as the distance from the image's middle.
fn from_middle(center: Option<[f64; 2]>, (h, w): (usize, usize)) -> [f64; 2] {
    center.map_or([0.0, 0.0], |[x, y]| {
        [x - w as f64 * 0.5, y - h as f64 * 0.5]
    })
}

/// The image turned by `angle` degrees (clockwise), moved by `translate` pixels to the right and down, scaled, and
/// sheared by degrees in x and y: [`affine_with`] and the defaults.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::affine;
/// let column = tensor![[[1.0], [2.0], [3.0]]];
/// assert_eq!(affine(&column, 0.0, [0.0, 1.0], 1.0, 0.0)?, tensor![[[0.0], [1.0], [2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`affine_with`].
#[track_caller]
pub fn affine(
    image: &Tensor,
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: impl Into<Pair>,
) -> Result<Tensor> {
    affine_with(image, angle, translate, scale, shear, AffineOptions::new())
}

/// The image turned by `angle` degrees (clockwise), moved by `translate` pixels to the right and down, scaled, and
/// sheared by degrees in x and y.
///
/// # Errors
/// A scale of 0 or less, another interpolation, a fill that does not fit the channels.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::affine;
/// let image = tensor![[[1.0, 2.0, 3.0]]];
/// assert_eq!(affine(&image, 0.0, [1.0, 0.0], 1.0, 0.0)?, tensor![[[0.0, 1.0, 2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn affine_with(
    image: &Tensor,
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: impl Into<Pair>,
    options: AffineOptions,
) -> Result<Tensor> {
    const OP: &str = "affine";
    checked_affine(OP, scale)?;
    let size = size_of(OP, image)?;
    let shear = shear.into();
    let center = from_middle(options.center, size);
    let m = affine_matrix(center, angle, translate, scale, [shear.0, shear.1], true);
    warped(
        OP,
        image,
        options.interpolation,
        &options.fill,
        || Ok(affine_grid(m, size, size)),
        || Ok(affine_grid(m, size, size)),
    )
}

/// The image turned by `angle` degrees, counter-clockwise: [`rotate_with`] and the defaults.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::rotate;
/// let image = tensor![[[1, 2], [3, 4]]];
/// assert_eq!(rotate(&image, 90.0)?, tensor![[[2, 4], [1, 3]]]);
/// assert_eq!(rotate(&image, 180.0)?, tensor![[[4, 3], [2, 1]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`rotate_with`].
#[track_caller]
pub fn rotate(image: &Tensor, angle: f64) -> Result<Tensor> {
    rotate_with(image, angle, RotateOptions::new())
}

/// The image turned by `angle` degrees, counter-clockwise.
///
/// # Errors
/// Another interpolation, a fill that does not fit the channels.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::{RotateOptions, rotate_with};
/// let image = tensor![[[1.0, 2.0, 3.0]]];
/// let turned = rotate_with(&image, 90.0, RotateOptions::new().expand(true))?;
/// assert_eq!(turned, tensor![[[3.0], [2.0], [1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rotate_with(image: &Tensor, angle: f64, options: RotateOptions) -> Result<Tensor> {
    const OP: &str = "rotate";
    let size = size_of(OP, image)?;
    let angle = angle.rem_euclid(360.0);
    if options.center.is_none() {
        let square = options.expand || size.0 == size.1;
        let quarters = match angle {
            0.0 => return image.copy(),
            180.0 => Some(2),
            90.0 if square => Some(1),
            270.0 if square => Some(3),
            _ => None,
        };
        if let Some(k) = quarters {
            return image.rot90(k, [-2, -1]);
        }
    }
    let center = from_middle(options.center, size);
    let m = affine_matrix(center, -angle, [0.0; 2], 1.0, [0.0; 2], true);
    let to = if options.expand {
        affine_output_size(m, size)
    } else {
        size
    };
    warped(
        OP,
        image,
        options.interpolation,
        &options.fill,
        || Ok(affine_grid(m, size, to)),
        || Ok(affine_grid(m, size, to)),
    )
}

/// A perspective map: where four corners come from and where they go, or the eight numbers of the map back,
/// `(a x + b y + c) / (g x + h y + 1)` and `(d x + e y + f) / (g x + h y + 1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Perspective {
    /// x and y of the corners in the image, and in the result.
    Corners([[f64; 2]; 4], [[f64; 2]; 4]),
    /// The map back.
    Coefficients([f64; 8]),
}

impl Perspective {
    /// The numbers of the map back, rounded to float32.
    ///
    /// ```
    /// use torsh_vision::transforms::Perspective;
    /// let start = [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]];
    /// let end = start.map(|[x, y]| [x + 1.0, y]);
    /// // The way back takes 1 from x.
    /// let want = [1.0, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    /// let map = Perspective::Corners(start, end).coefficients()?;
    /// assert!(map.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The corners in the result lie on a line.
    #[torsh_tensor::names_caller]
    pub fn coefficients(&self) -> Result<[f64; 8]> {
        let (start, end) = match self {
            Perspective::Coefficients(c) => return Ok(*c),
            Perspective::Corners(start, end) => (start, end),
        };
        // Eight equations with the right sides behind.
        let mut rows = [[0f64; 9]; 8];
        for (i, ([x, y], [to_x, to_y])) in end.iter().zip(start).enumerate() {
            rows[2 * i] = [*x, *y, 1.0, 0.0, 0.0, 0.0, -to_x * x, -to_x * y, *to_x];
            rows[2 * i + 1] = [0.0, 0.0, 0.0, *x, *y, 1.0, -to_y * x, -to_y * y, *to_y];
        }
        for k in 0..8 {
            let best = (k..8).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()));
            let best = best.unwrap_or(k);
            rows.swap(k, best);
            let pivot = rows[k];
            if !(pivot[k].abs() > 1e-12) {
                return Err(TorshError::invalid(
                    "perspective",
                    format!("the corners {end:?} do not span an area"),
                ));
            }
            for row in rows.iter_mut().skip(k + 1) {
                let by = row[k] / pivot[k];
                for (v, p) in row.iter_mut().zip(pivot) {
                    *v -= by * p;
                }
            }
        }
        let mut c = [0f64; 8];
        for k in (0..8).rev() {
            let known: f64 = (k + 1..8).map(|j| rows[k][j] * c[j]).sum();
            c[k] = (rows[k][8] - known) / rows[k][k];
        }
        Ok(c.map(|v| f64::from(v as f32)))
    }
}

/// The image as a plane seen from another side, whose corners `startpoints` go to `endpoints`: [`perspective_with`] and
/// the defaults.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::perspective;
/// let image = tensor![[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]];
/// let start = [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]];
/// let moved = perspective(&image, start, start.map(|[x, y]| [x + 1.0, y]))?;
/// let want = tensor![[[0.0, 1.0, 2.0], [0.0, 4.0, 5.0], [0.0, 7.0, 8.0]]];
/// assert!(moved.sub(&want)?.abs()?.max()?.item::<f32>()? < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`perspective_with`].
#[track_caller]
pub fn perspective(
    image: &Tensor,
    startpoints: [[f64; 2]; 4],
    endpoints: [[f64; 2]; 4],
) -> Result<Tensor> {
    perspective_with(
        image,
        Perspective::Corners(startpoints, endpoints),
        WarpOptions::new(),
    )
}

/// The image as a plane seen from another side.
///
/// ```
/// use torsh_tensor::{InterpolateMode, tensor};
/// use torsh_vision::transforms::functional::{Perspective, WarpOptions, perspective_with};
/// // Each pixel comes from the one to the right.
/// let map = Perspective::Coefficients([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
/// let options = WarpOptions::new().interpolation(InterpolateMode::Nearest).fill(9.0);
/// let moved = perspective_with(&tensor![[[1.0, 2.0, 3.0]]], map, options)?;
/// assert_eq!(moved, tensor![[[2.0, 3.0, 9.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Corners on a line, another interpolation, a fill that does not fit the channels.
#[torsh_tensor::names_caller]
pub fn perspective_with(image: &Tensor, map: Perspective, options: WarpOptions) -> Result<Tensor> {
    const OP: &str = "perspective";
    let size = size_of(OP, image)?;
    let c = map.coefficients()?;
    warped(
        OP,
        image,
        options.interpolation,
        &options.fill,
        || Ok(perspective_grid(c, size)),
        || Ok(perspective_grid(c, size)),
    )
}

/// The image with each pixel moved: `displacement` `[1, height, width, 2]` says from how far each comes, where the image
/// reaches from -1 to 1.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::elastic;
/// // The row has three pixels, so that two thirds are one pixel.
/// let right = tensor![[[[2.0 / 3.0, 0.0], [2.0 / 3.0, 0.0], [2.0 / 3.0, 0.0]]]];
/// let moved = elastic(&tensor![[[1.0, 2.0, 3.0]]], &right)?;
/// assert!(moved.sub(&tensor![[[2.0, 3.0, 0.0]]])?.abs()?.max()?.item::<f32>()? < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`elastic_with`].
#[track_caller]
pub fn elastic(image: &Tensor, displacement: &Tensor) -> Result<Tensor> {
    elastic_with(image, displacement, WarpOptions::new())
}

/// [`elastic`] with an interpolation and a fill.
///
/// ```
/// use torsh_tensor::{InterpolateMode, tensor};
/// use torsh_vision::transforms::functional::{WarpOptions, elastic_with};
/// let right = tensor![[[[2.0 / 3.0, 0.0], [2.0 / 3.0, 0.0], [2.0 / 3.0, 0.0]]]];
/// let options = WarpOptions::new().interpolation(InterpolateMode::Nearest).fill(9.0);
/// let moved = elastic_with(&tensor![[[1.0, 2.0, 3.0]]], &right, options)?;
/// assert_eq!(moved, tensor![[[2.0, 3.0, 9.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A displacement of another shape, another interpolation, a fill that does not fit the channels.
#[torsh_tensor::names_caller]
pub fn elastic_with(image: &Tensor, displacement: &Tensor, options: WarpOptions) -> Result<Tensor> {
    const OP: &str = "elastic";
    let size = size_of(OP, image)?;
    checked_displacement(OP, displacement, size)?;
    warped(
        OP,
        image,
        options.interpolation,
        &options.fill,
        || displaced_grid(size, &f32::values(displacement)?, 1.0),
        || displaced_grid(size, &f64::values(displacement)?, 1.0),
    )
}

pub(super) fn checked_displacement(
    op: &'static str,
    displacement: &Tensor,
    (h, w): (usize, usize),
) -> Result<()> {
    if displacement.dims() == [1, h, w, 2] {
        return Ok(());
    }
    Err(TorshError::shape(
        op,
        format!(
            "the displacement must be [1, {h}, {w}, 2], got {}",
            displacement.describe()
        ),
    ))
}
