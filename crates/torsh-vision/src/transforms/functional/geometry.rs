//! Sizes, crops, flips and paddings of images and masks.

use torsh_tensor::named::Named;
use torsh_tensor::{
    DType, Device, InterpolateMode, InterpolateOptions, Result, Scalar, Tensor, TorshError, options,
};

use super::resample::resize_bytes;
use super::value_range::max_value;
use crate::transforms::apply::{dimensions, size_of};
use crate::transforms::arguments::{Fill, Padding, PaddingMode, Size};

options! {
    /// The arguments of [`resize_with`] and [`resized_crop_with`].
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::transforms::functional::{ResizeOptions, resize_with};
    /// // With a shorter side of 8, the longer one would have 32.
    /// let options = ResizeOptions::new().max_size(16);
    /// assert_eq!(resize_with(&zeros([1, 10, 40]), 8, options)?.dims(), [1, 4, 16]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(PartialEq)]
    ResizeOptions {
        /// Nearest, NearestExact, Bilinear, Bicubic or Lanczos.
        interpolation: InterpolateMode = InterpolateMode::Bilinear, impl Into<InterpolateMode> => Into::into;
        /// What the longer side has at most, where the size is one number.
        max_size: Option<usize> = None, impl Into<Option<usize>> => Into::into;
        /// Whether an image that becomes smaller is smoothed.
        antialias: bool = true;
    }
}

options! {
    /// The arguments of [`pad_with`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::functional::{PadOptions, pad_with};
    /// let options = PadOptions::new().fill(9.0);
    /// assert_eq!(pad_with(&tensor![[[1.0]]], [1, 0], options)?, tensor![[[9.0, 1.0, 9.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(PartialEq)]
    PadOptions {
        /// The value of the pixels, with the mode constant.
        fill: Fill = Fill::default(), impl Into<Fill> => Into::into;
        /// What the pixels are.
        padding_mode: PaddingMode = PaddingMode::Constant, impl Into<PaddingMode> => Into::into;
    }
}

/// The size that an image of `(height, width)` gets.
pub(crate) fn resized_size(
    op: &'static str,
    (h, w): (usize, usize),
    size: Option<Size>,
    max_size: Option<usize>,
) -> Result<(usize, usize)> {
    let refuse = |why: String| Err(TorshError::invalid(op, why));
    let (short, long) = (h.min(w), h.max(w));
    // Python's integers do not end; its division is one of float64.
    let scaled = |a: usize, b: usize| {
        if short == 0 {
            0
        } else {
            ((a as u128 * b as u128) as f64 / short as f64) as usize
        }
    };
    let ordered = |short: usize, long: usize| if w <= h { (long, short) } else { (short, long) };
    let to = match (size, max_size) {
        (Some(Size::Both(..)), Some(_)) => {
            return refuse("max_size is for a size of one number, or none".into());
        }
        (Some(Size::Both(h, w)), None) => (h, w),
        (Some(Size::One(new_short)), max) => {
            let new_long = scaled(new_short, long);
            match max {
                Some(max) if max <= new_short => {
                    return refuse(format!(
                        "max_size = {max} must be greater than the size of the shorter side, {new_short}"
                    ));
                }
                Some(max) if new_long > max => {
                    let new_short = (max as u128 * new_short as u128) as f64 / new_long as f64;
                    ordered(new_short as usize, max)
                }
                _ => ordered(new_short, new_long),
            }
        }
        (None, Some(max)) => {
            let new_short = (max as u128 * short as u128) as f64 / long.max(1) as f64;
            ordered(new_short as usize, max)
        }
        (None, None) => return refuse("a size or a max_size is needed".into()),
    };
    if to.0 == 0 || to.1 == 0 {
        return refuse(format!(
            "an image of {h} x {w} pixels would become one of {} x {}",
            to.0, to.1
        ));
    }
    Ok(to)
}

/// The image in another size, smoothed where it becomes smaller: [`resize_with`] and the defaults.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_vision::transforms::functional::resize;
/// assert_eq!(resize(&zeros([3, 20, 40]), 10)?.dims(), [3, 10, 20]); // the shorter side
/// let mean = resize(&tensor![[[0.0, 1.0], [2.0, 3.0]]], [1, 1])?;
/// assert!(mean.allclose(&tensor![[[1.5]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`resize_with`].
#[track_caller]
pub fn resize(image: &Tensor, size: impl Into<Size>) -> Result<Tensor> {
    resize_with(image, size, ResizeOptions::new())
}

/// The image in another size; one number is the shorter side, and the other follows.
///
/// uint8 stays uint8 and is computed in whole numbers, with the same bits as in PyTorch. Other integers are computed in
/// float32 and rounded. An image of the wanted size is returned as it is.
///
/// # Errors
/// Not `[.., channels, height, width]`, a size of 0, a `max_size` beside two sizes or below the one, a mode that is not
/// for images, Lanczos without antialias.
///
/// ```
/// use torsh_tensor::{DType, InterpolateMode, tensor};
/// use torsh_vision::transforms::functional::{ResizeOptions, resize_with};
/// let image = tensor![[[0, 100], [200, 250]]].to_dtype(DType::U8)?;
/// let options = ResizeOptions::new().interpolation(InterpolateMode::Nearest);
/// assert_eq!(resize_with(&image, [1, 4], options)?.to_vec::<u8>()?, [0, 0, 100, 100]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn resize_with(
    image: &Tensor,
    size: impl Into<Size>,
    options: ResizeOptions,
) -> Result<Tensor> {
    resized(image, Some(size.into()), options)
}

/// The image so that its longer side has this size (torchvision's `size=None` with a `max_size`).
///
/// ```
/// use torsh_tensor::{InterpolateMode, tensor};
/// use torsh_vision::transforms::functional::{ResizeOptions, resize_longest};
/// let image = tensor![[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]];
/// let nearest = ResizeOptions::new().interpolation(InterpolateMode::Nearest);
/// assert_eq!(resize_longest(&image, 2, nearest)?, tensor![[[1.0, 3.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`resize_with`].
#[torsh_tensor::names_caller]
pub fn resize_longest(image: &Tensor, size: usize, options: ResizeOptions) -> Result<Tensor> {
    resized(image, None, options.max_size(size))
}

#[track_caller]
pub(crate) fn resized(
    image: &Tensor,
    size: Option<Size>,
    options: ResizeOptions,
) -> Result<Tensor> {
    const OP: &str = "resize";
    let (c, h, w) = dimensions(OP, image)?;
    let to = resized_size(OP, (h, w), size, options.max_size)?;
    let mode = options.interpolation;
    let smooth = match mode {
        InterpolateMode::Nearest | InterpolateMode::NearestExact => false,
        InterpolateMode::Lanczos if !options.antialias => {
            return Err(TorshError::invalid(OP, "Lanczos needs antialias"));
        }
        InterpolateMode::Bilinear | InterpolateMode::Bicubic | InterpolateMode::Lanczos => true,
        other => {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "images are resized with Nearest, NearestExact, Bilinear, Bicubic or Lanczos, not {}",
                    other.name()
                ),
            ));
        }
    };
    if to == (h, w) {
        return Ok(image.clone());
    }
    let lead = &image.dims()[..image.ndim() - 3];
    let shape: Vec<usize> = lead.iter().copied().chain([c, to.0, to.1]).collect();
    if image.numel() == 0 {
        return image.reshape(shape);
    }
    let dtype = image.dtype();
    let cast = !matches!(dtype, DType::U8 | DType::F32 | DType::F64);
    let n: usize = lead.iter().product();
    if dtype == DType::U8 && smooth && image.device() == Device::Cpu {
        return resize_bytes(image, (h, w), to, mode, options.antialias, &shape);
    }
    let batch = image.reshape([n, c, h, w])?;
    let batch = if cast {
        batch.to_dtype(DType::F32)?
    } else {
        batch
    };
    let mut settings = InterpolateOptions::new()
        .size([to.0, to.1])
        .mode(mode)
        .antialias(options.antialias && smooth);
    if smooth {
        settings = settings.align_corners(false);
    }
    let out = batch
        .interpolate_with(settings)
        .map_err(|e| e.renamed(OP))?;
    let out = match (cast, dtype.is_floating_point()) {
        (true, true) => out.to_dtype(dtype)?,
        // Sharp edges make values beyond those of an image of 16 bits.
        (true, false) if dtype == DType::I32 && mode != InterpolateMode::Bilinear && smooth => out
            .round()?
            .clamp(0.0, max_value(dtype)?)?
            .to_dtype(dtype)?,
        (true, false) => out.round()?.to_dtype(dtype)?,
        (false, _) => out,
    };
    out.reshape(shape)
}

/// The part of the image from `top` and `left`; what lies outside of the image is 0.
///
/// # Errors
/// Not `[.., height, width]`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::crop;
/// let image = tensor![[[1.0, 2.0], [3.0, 4.0]]];
/// assert_eq!(crop(&image, 1, 1, 1, 2)?, tensor![[[4.0, 0.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn crop(image: &Tensor, top: i64, left: i64, height: usize, width: usize) -> Result<Tensor> {
    let (h, w) = size_of("crop", image)?;
    let inside = |from: i64, len: usize, have: usize| {
        let end = from
            .saturating_add_unsigned(len as u64)
            .clamp(0, have as i64);
        let start = from.clamp(0, have as i64);
        (start as usize, (end - start).max(0) as usize)
    };
    let (y, rows) = inside(top, height, h);
    let (x, columns) = inside(left, width, w);
    let part = image.narrow(-2, y, rows)?.narrow(-1, x, columns)?;
    if (rows, columns) == (height, width) {
        return Ok(part);
    }
    // Where nothing is inside, all is padding, on one side.
    let before =
        |from: i64, len: usize, got: usize| from.saturating_neg().clamp(0, (len - got) as i64);
    let (up, side) = (before(top, height, rows), before(left, width, columns));
    let padding = Padding {
        left: side,
        top: up,
        right: (width - columns) as i64 - side,
        bottom: (height - rows) as i64 - up,
    };
    pad(&part, padding).map_err(|e| e.renamed("crop"))
}

/// Where a crop of the middle begins. Python rounds halves to even.
pub(crate) fn center_crop_anchor((h, w): (usize, usize), (ch, cw): (usize, usize)) -> (i64, i64) {
    let middle =
        |have: usize, want: usize| ((have as f64 - want as f64) / 2.0).round_ties_even() as i64;
    (middle(h, ch), middle(w, cw))
}

/// The middle of the image, with zeros around it where it is smaller.
///
/// # Errors
/// Not `[.., height, width]`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::center_crop;
/// assert_eq!(center_crop(&tensor![[[1.0, 2.0, 3.0]]], 1)?, tensor![[[2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn center_crop(image: &Tensor, size: impl Into<Size>) -> Result<Tensor> {
    let (mut h, mut w) = size_of("center_crop", image)?;
    let (ch, cw) = size.into().both();
    let mut image = image.clone();
    if ch > h || cw > w {
        let (dw, dh) = (cw.saturating_sub(w) as i64, ch.saturating_sub(h) as i64);
        image = pad(&image, [dw / 2, dh / 2, (dw + 1) / 2, (dh + 1) / 2])?;
        (h, w) = (h.max(ch), w.max(cw));
    }
    let (top, left) = center_crop_anchor((h, w), (ch, cw));
    crop(&image, top, left, ch, cw)
}

/// A part of the image in another size, smoothed where it becomes smaller.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::resized_crop;
/// let image = tensor![[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]];
/// // The mean of 1, 2, 4 and 5.
/// assert!(resized_crop(&image, 0, 1, 2, 2, 1)?.allclose(&tensor![[[3.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`resize_with`].
#[track_caller]
pub fn resized_crop(
    image: &Tensor,
    top: i64,
    left: i64,
    height: usize,
    width: usize,
    size: impl Into<Size>,
) -> Result<Tensor> {
    resized_crop_with(image, top, left, height, width, size, ResizeOptions::new())
}

/// [`resized_crop`] in any mode.
///
/// ```
/// use torsh_tensor::{InterpolateMode, tensor};
/// use torsh_vision::transforms::functional::{ResizeOptions, resized_crop_with};
/// let image = tensor![[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]];
/// let nearest = ResizeOptions::new().interpolation(InterpolateMode::Nearest);
/// let crop = resized_crop_with(&image, 0, 1, 2, 2, [2, 4], nearest)?;
/// assert_eq!(crop, tensor![[[1.0, 1.0, 2.0, 2.0], [4.0, 4.0, 5.0, 5.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`resize_with`].
#[torsh_tensor::names_caller]
pub fn resized_crop_with(
    image: &Tensor,
    top: i64,
    left: i64,
    height: usize,
    width: usize,
    size: impl Into<Size>,
    options: ResizeOptions,
) -> Result<Tensor> {
    resize_with(&crop(image, top, left, height, width)?, size, options)
        .map_err(|e| e.renamed("resized_crop"))
}

/// The four corners and the middle of the image: top left, top right, bottom left, bottom right, middle.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::five_crop;
/// let image = tensor![[[1, 2, 3], [4, 5, 6], [7, 8, 9]]];
/// let crops: Vec<i64> = five_crop(&image, 1)?.iter().map(|c| c.item()).collect::<Result<_, _>>()?;
/// assert_eq!(crops, [1, 3, 7, 9, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The image is smaller than the size.
#[torsh_tensor::names_caller]
pub fn five_crop(image: &Tensor, size: impl Into<Size>) -> Result<Vec<Tensor>> {
    let (h, w) = size_of("five_crop", image)?;
    let (ch, cw) = size.into().both();
    if ch > h || cw > w {
        return Err(TorshError::shape(
            "five_crop",
            format!("a crop of {ch} x {cw} is larger than {}", image.describe()),
        ));
    }
    let (bottom, right) = ((h - ch) as i64, (w - cw) as i64);
    Ok(vec![
        crop(image, 0, 0, ch, cw)?,
        crop(image, 0, right, ch, cw)?,
        crop(image, bottom, 0, ch, cw)?,
        crop(image, bottom, right, ch, cw)?,
        center_crop(image, [ch, cw])?,
    ])
}

/// [`five_crop`] of the image, then of the image mirrored left to right, or upside down with `vertical_flip`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::ten_crop;
/// let image = tensor![[[1, 2, 3], [4, 5, 6], [7, 8, 9]]];
/// let crops: Vec<i64> = ten_crop(&image, 1, false)?.iter().map(|c| c.item()).collect::<Result<_, _>>()?;
/// assert_eq!(crops, [1, 3, 7, 9, 5, 3, 1, 9, 7, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`five_crop`].
#[torsh_tensor::names_caller]
pub fn ten_crop(image: &Tensor, size: impl Into<Size>, vertical_flip: bool) -> Result<Vec<Tensor>> {
    let size = size.into();
    let mut crops = five_crop(image, size).map_err(|e| e.renamed("ten_crop"))?;
    let flipped = image.flip(if vertical_flip { -2 } else { -1 })?;
    crops.extend(five_crop(&flipped, size)?);
    Ok(crops)
}

/// The image mirrored left to right.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::horizontal_flip;
/// assert_eq!(horizontal_flip(&tensor![[[1, 2], [3, 4]]])?, tensor![[[2, 1], [4, 3]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A tensor without dimensions.
#[torsh_tensor::names_caller]
pub fn horizontal_flip(image: &Tensor) -> Result<Tensor> {
    image.flip(-1).map_err(|e| e.renamed("horizontal_flip"))
}

/// The image upside down.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::vertical_flip;
/// assert_eq!(vertical_flip(&tensor![[[1, 2], [3, 4]]])?, tensor![[[3, 4], [1, 2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A tensor of fewer than two dimensions.
#[torsh_tensor::names_caller]
pub fn vertical_flip(image: &Tensor) -> Result<Tensor> {
    image.flip(-2).map_err(|e| e.renamed("vertical_flip"))
}

/// Another name of [`horizontal_flip`].
///
/// # Errors
/// As [`horizontal_flip`].
#[track_caller]
pub fn hflip(image: &Tensor) -> Result<Tensor> {
    horizontal_flip(image)
}

/// Another name of [`vertical_flip`].
///
/// # Errors
/// As [`vertical_flip`].
#[track_caller]
pub fn vflip(image: &Tensor) -> Result<Tensor> {
    vertical_flip(image)
}

/// The image with zeros around it: [`pad_with`] and the defaults.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::pad;
/// assert_eq!(pad(&tensor![[[1, 2]]], [1, 0])?, tensor![[[0, 1, 2, 0]]]);
/// assert_eq!(pad(&tensor![[[1, 2]]], [0, 0, 2, 1])?, tensor![[[1, 2, 0, 0], [0, 0, 0, 0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pad_with`].
#[track_caller]
pub fn pad(image: &Tensor, padding: impl Into<Padding>) -> Result<Tensor> {
    pad_with(image, padding, PadOptions::new())
}

/// The image with pixels around it.
///
/// # Errors
/// Not `[.., height, width]`, a fill of neither one nor as many values as channels, values for a mode other than
/// constant, a mirrored padding wider than the image, a cut of more than the image has.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{PaddingMode, functional::{PadOptions, pad_with}};
/// let mirrored = PadOptions::new().padding_mode(PaddingMode::Symmetric);
/// let image = tensor![[[1, 2, 3]]];
/// assert_eq!(pad_with(&image, [2, 0], mirrored)?, tensor![[[2, 1, 1, 2, 3, 3, 2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pad_with(
    image: &Tensor,
    padding: impl Into<Padding>,
    options: PadOptions,
) -> Result<Tensor> {
    const OP: &str = "pad";
    let (h, w) = size_of(OP, image)?;
    let mode = options.padding_mode.known();
    mode.map_err(|e| e.renamed(OP))?;
    let p = padding.into();
    let refuse = |why: String| Err(TorshError::invalid(OP, why));
    if p.left.saturating_add(p.right).saturating_add(w as i64) < 0
        || p.top.saturating_add(p.bottom).saturating_add(h as i64) < 0
    {
        return refuse(format!("{p:?} cuts more than {} has", image.describe()));
    }
    let values = options.fill.values().unwrap_or(&[0.0]);
    if options.padding_mode == PaddingMode::Constant {
        let number = |v: f64| {
            if image.dtype().is_floating_point() {
                Scalar::from(v)
            } else {
                Scalar::from(v as i64)
            }
        };
        let around = |value: Scalar| {
            image.pad_with(
                [p.left, p.right, p.top, p.bottom],
                torsh_tensor::PadOptions::new().value(value),
            )
        };
        return match values {
            [] => around(number(0.0)),
            [value] => around(number(*value)),
            values => {
                let (c, _, _) = dimensions(OP, image)?;
                if values.len() != c {
                    return refuse(format!(
                        "{} values for the {c} channels of {}",
                        values.len(),
                        image.describe()
                    ));
                }
                let out = around(number(0.0))?;
                let fill: Vec<f64> = match image.dtype().is_floating_point() {
                    true => values.to_vec(),
                    false => values.iter().map(|v| v.trunc()).collect(),
                };
                let fill = Tensor::from_slice(&fill, [c, 1, 1], DType::F64, Device::Cpu)?
                    .to_dtype(image.dtype())?
                    .to_device(image.device())?;
                let (h, w) = size_of(OP, &out)?;
                for (dim, size, before, after) in
                    [(-2i64, h, p.top, p.bottom), (-1, w, p.left, p.right)]
                {
                    for (from, len) in [(0, before), (size as i64 - after, after)] {
                        if len > 0 {
                            out.narrow(dim, from.max(0) as usize, len.min(size as i64) as usize)?
                                .copy_(&fill)?;
                        }
                    }
                }
                Ok(out)
            }
        };
    }
    if values.len() > 1 {
        return refuse("a fill of several values is for the mode constant".into());
    }
    let rows = mirrored(h, p.top, p.bottom, options.padding_mode);
    let columns = mirrored(w, p.left, p.right, options.padding_mode);
    let (Some(rows), Some(columns)) = (rows, columns) else {
        return refuse(format!(
            "{p:?} is wider than {} with the mode {:?}",
            image.describe(),
            options.padding_mode
        ));
    };
    let taken = |x: Tensor, dim: i64, index: Vec<i64>, size: usize| -> Result<Tensor> {
        if index.len() == size && index.iter().enumerate().all(|(i, &v)| i as i64 == v) {
            return Ok(x);
        }
        let index = Tensor::from_slice(&index, [index.len()], DType::I64, Device::Cpu)?
            .to_device(x.device())?;
        x.index_select(dim, &index)
    };
    let out = taken(image.clone(), -2, rows, h)?;
    taken(out, -1, columns, w)
}

/// Which elements of `0..n` stand with so many around them; `None` where there are not enough.
fn mirrored(n: usize, before: i64, after: i64, mode: PaddingMode) -> Option<Vec<i64>> {
    let n = n as i64;
    let most = match mode {
        PaddingMode::Reflect => n - 1,
        PaddingMode::Symmetric => n,
        _ => i64::MAX,
    };
    if n == 0 || before > most || after > most {
        return None;
    }
    let at = |i: i64| match mode {
        PaddingMode::Reflect if i < 0 => -i,
        PaddingMode::Reflect if i >= n => 2 * (n - 1) - i,
        PaddingMode::Symmetric if i < 0 => -i - 1,
        PaddingMode::Symmetric if i >= n => 2 * n - 1 - i,
        _ => i.clamp(0, n - 1),
    };
    Some((-before..n + after).map(at).collect())
}
