//! Colours.

use torsh_backend_cpu::multiversion;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::bytes::{by_table, byte, changed, colors, gray, like, look_up, pieces};
use super::misc::to_dtype;
use super::tuning::{GRAYS, LOOKED_UP};
use super::value_range::{max_value, value_bits};
use crate::transforms::apply::dimensions;

/// The channels, of which there are 1 or 3.
#[track_caller]
pub(super) fn channels(op: &'static str, image: &Tensor) -> Result<usize> {
    let (c, _, _) = dimensions(op, image)?;
    if c != 1 && c != 3 {
        return Err(TorshError::shape(
            op,
            format!("expected 1 or 3 channels, got {}", image.describe()),
        ));
    }
    Ok(c)
}

#[track_caller]
fn not_negative(op: &'static str, name: &str, v: f64) -> Result<()> {
    if v >= 0.0 {
        Ok(())
    } else {
        Err(TorshError::invalid(
            op,
            format!("{name} must not be negative, got {v}"),
        ))
    }
}

/// The grey image of colours, in floating point, `[.., 1, h, w]`.
fn gray_of(image: &Tensor) -> Result<Tensor> {
    let plane = |i: usize| {
        let plane = image.narrow(-3, i, 1)?;
        if image.dtype().is_floating_point() {
            Ok(plane)
        } else {
            plane.to_dtype(DType::F32)
        }
    };
    plane(0)?
        .mul(0.2989)?
        .add(&plane(1)?.mul(0.587)?)?
        .add(&plane(2)?.mul(0.114)?)
}

/// The grey image of colours, with 1 or 3 equal channels.
///
/// # Errors
/// Neither 1 nor 3 channels, of the image or wanted.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::rgb_to_grayscale;
/// let red = tensor![[[255]], [[0]], [[0]]].to_dtype(DType::U8)?;
/// assert_eq!(rgb_to_grayscale(&red, 1)?.to_vec::<u8>()?, [76]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rgb_to_grayscale(image: &Tensor, num_output_channels: usize) -> Result<Tensor> {
    const OP: &str = "rgb_to_grayscale";
    if num_output_channels != 1 && num_output_channels != 3 {
        return Err(TorshError::invalid(
            OP,
            format!("num_output_channels must be 1 or 3, got {num_output_channels}"),
        ));
    }
    let c = channels(OP, image)?;
    let mut shape = image.dims().to_vec();
    let at = shape.len() - 3;
    shape[at] = num_output_channels;
    if c == 1 {
        return image.expand(shape)?.contiguous()?.copy();
    }
    if image.dtype() == DType::U8 {
        let (h, w) = (shape[at + 1], shape[at + 2]);
        let data = image.to_vec::<u8>()?;
        let mut out = vec![0u8; data.len() / 3];
        let area = h * w;
        if area > 0 {
            for (rgb, out) in data.chunks_exact(3 * area).zip(out.chunks_exact_mut(area)) {
                let (r, rest) = rgb.split_at(area);
                let (g, b) = rest.split_at(area);
                gray_bytes(out, r, g, b);
            }
        }
        shape[at] = 1;
        let gray = like(image, &out, &shape)?;
        shape[at] = num_output_channels;
        return gray.expand(shape);
    }
    gray_of(image)?.to_dtype(image.dtype())?.expand(shape)
}

multiversion! {
    fn gray_bytes<A>(out: &mut [u8], r: &[u8], g: &[u8], b: &[u8]) {
        for (((o, &r), &g), &b) in out.iter_mut().zip(r).zip(g).zip(b) {
            *o = byte(gray(f32::from(r), f32::from(g), f32::from(b)));
        }
    }
}

/// Another name of [`rgb_to_grayscale`].
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::to_grayscale;
/// let red = tensor![[[255]], [[0]], [[0]]].to_dtype(DType::U8)?;
/// assert_eq!(to_grayscale(&red, 3)?.to_vec::<u8>()?, [76, 76, 76]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`rgb_to_grayscale`].
#[track_caller]
pub fn to_grayscale(image: &Tensor, num_output_channels: usize) -> Result<Tensor> {
    rgb_to_grayscale(image, num_output_channels)
}

/// A grey image with three equal channels; an image of colours as it is.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::grayscale_to_rgb;
/// assert_eq!(grayscale_to_rgb(&tensor![[[0.5]]])?, tensor![[[0.5]], [[0.5]], [[0.5]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Two channels.
#[torsh_tensor::names_caller]
pub fn grayscale_to_rgb(image: &Tensor) -> Result<Tensor> {
    let (c, _, _) = dimensions("grayscale_to_rgb", image)?;
    if c >= 3 {
        return Ok(image.clone());
    }
    rgb_to_grayscale(image, 3).map_err(|e| e.renamed("grayscale_to_rgb"))
}

/// `a * ratio + b * (1 - ratio)`, from 0 to the dtype's largest value.
fn blend(a: &Tensor, b: &Tensor, ratio: f64) -> Result<Tensor> {
    let out = real(a)?
        .mul(ratio)?
        .add(&b.mul(1.0 - ratio)?)?
        .clamp(0.0, max_value(a.dtype())?)?;
    out.to_dtype(a.dtype())
}

/// Integers as float32.
fn real(image: &Tensor) -> Result<Tensor> {
    if image.dtype().is_floating_point() {
        Ok(image.clone())
    } else {
        image.to_dtype(DType::F32)
    }
}

/// The image, `factor` times as bright: 0 is black, 1 changes nothing.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_brightness;
/// let bright = adjust_brightness(&tensor![[[0.2, 0.6]]], 2.0)?;
/// assert!(bright.allclose(&tensor![[[0.4, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative factor, neither 1 nor 3 channels.
#[torsh_tensor::names_caller]
pub fn adjust_brightness(image: &Tensor, brightness_factor: f64) -> Result<Tensor> {
    const OP: &str = "adjust_brightness";
    not_negative(OP, "brightness_factor", brightness_factor)?;
    channels(OP, image)?;
    if image.dtype() == DType::U8 {
        let factor = brightness_factor as f32;
        return by_table(image, |v| byte(f32::from(v) * factor));
    }
    real(image)?
        .mul(brightness_factor)?
        .clamp(0.0, max_value(image.dtype())?)?
        .to_dtype(image.dtype())
}

/// The image, its colours `factor` times as far from grey: 0 is grey, 1 changes nothing.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_saturation;
/// // Red without any of its colour is the grey of red.
/// let grey = adjust_saturation(&tensor![[[1.0]], [[0.0]], [[0.0]]], 0.0)?;
/// assert!(grey.allclose(&tensor![[[0.2989]], [[0.2989]], [[0.2989]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative factor, neither 1 nor 3 channels.
#[torsh_tensor::names_caller]
pub fn adjust_saturation(image: &Tensor, saturation_factor: f64) -> Result<Tensor> {
    const OP: &str = "adjust_saturation";
    not_negative(OP, "saturation_factor", saturation_factor)?;
    if channels(OP, image)? == 1 {
        return Ok(image.clone());
    }
    if image.dtype() == DType::U8 {
        let (ratio, rest) = (saturation_factor as f32, (1.0 - saturation_factor) as f32);
        let (_, h, w) = dimensions(OP, image)?;
        return changed(image, |data| {
            colors(data, h * w, 2, |r, g, b| saturate(r, g, b, ratio, rest));
        });
    }
    let gray = gray_of(image)?;
    let gray = if image.dtype().is_floating_point() {
        gray
    } else {
        gray.floor()?
    };
    blend(image, &gray, saturation_factor)
}

multiversion! {
    fn saturate<A>(r: &mut [u8], g: &mut [u8], b: &mut [u8], ratio: f32, rest: f32) {
        for ((r, g), b) in r.iter_mut().zip(g).zip(b) {
            let (x, y, z) = (f32::from(*r), f32::from(*g), f32::from(*b));
            let gray = gray(x, y, z).floor();
            *r = byte(gray.mul_add(rest, x * ratio));
            *g = byte(gray.mul_add(rest, y * ratio));
            *b = byte(gray.mul_add(rest, z * ratio));
        }
    }
}

/// The image, its pixels `factor` times as far from their mean: 0 is all grey, 1 changes nothing.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_contrast;
/// let flat = adjust_contrast(&tensor![[[0.2, 0.6]]], 0.5)?;
/// assert!(flat.allclose(&tensor![[[0.3, 0.5]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative factor, neither 1 nor 3 channels.
#[torsh_tensor::names_caller]
pub fn adjust_contrast(image: &Tensor, contrast_factor: f64) -> Result<Tensor> {
    const OP: &str = "adjust_contrast";
    not_negative(OP, "contrast_factor", contrast_factor)?;
    let c = channels(OP, image)?;
    let (_, h, w) = dimensions(OP, image)?;
    if image.dtype() == DType::U8 {
        let (ratio, rest) = (contrast_factor as f32, (1.0 - contrast_factor) as f32);
        let n = c * h * w;
        return changed(image, |data| {
            for image in data.chunks_exact_mut(n.max(1)) {
                let mean = (gray_sum(image, c, h * w) as f64 / (h * w) as f64) as f32;
                let table: [u8; 256] =
                    std::array::from_fn(|v| byte(mean.mul_add(rest, v as f32 * ratio)));
                pieces(image, LOOKED_UP, 1, |_, part| look_up(&table, part));
            }
        });
    }
    let gray = match (c, image.dtype().is_floating_point()) {
        (3, true) => gray_of(image)?,
        (3, false) => gray_of(image)?.floor()?,
        _ => real(image)?,
    };
    blend(image, &gray.mean_dim([-3, -2, -1], true)?, contrast_factor)
}

/// The sum of the greys, each without its fraction.
fn gray_sum(image: &[u8], channels: usize, area: usize) -> u64 {
    if channels == 1 {
        return image.iter().map(|&v| u64::from(v)).sum();
    }
    let (r, rest) = image.split_at(area);
    let (g, b) = rest.split_at(area);
    let mut sums = vec![0u32; area.div_ceil(GRAYS)];
    pieces(&mut sums, 1, 3 * GRAYS, |i, sum| {
        let at = i * GRAYS..((i + 1) * GRAYS).min(area);
        let (r, g, b) = (&r[at.clone()], &g[at.clone()], &b[at]);
        sum[0] = sum_of_grays(r, g, b);
    });
    sums.into_iter().map(u64::from).sum()
}

multiversion! {
    fn sum_of_grays<A>(r: &[u8], g: &[u8], b: &[u8]) -> u32 {
        let mut sum = 0i32;
        for ((&r, &g), &b) in r.iter().zip(g).zip(b) {
            sum += i32::from(byte(gray(f32::from(r), f32::from(g), f32::from(b))));
        }
        sum as u32
    }
}

/// The image blurred (0), as it is (1), or sharpened (2); pixels at its edge stay.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_sharpness;
/// let point = tensor![[[0.0, 0.0, 0.0], [0.0, 0.65, 0.0], [0.0, 0.0, 0.0]]];
/// let blurred = adjust_sharpness(&point, 0.0)?;
/// // The middle of the kernel is 5 / 13.
/// assert!((blurred.i((0, 1, 1))?.item::<f64>()? - 0.25).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative factor, neither 1 nor 3 channels.
#[torsh_tensor::names_caller]
pub fn adjust_sharpness(image: &Tensor, sharpness_factor: f64) -> Result<Tensor> {
    const OP: &str = "adjust_sharpness";
    not_negative(OP, "sharpness_factor", sharpness_factor)?;
    channels(OP, image)?;
    let (c, h, w) = dimensions(OP, image)?;
    if image.numel() == 0 || h <= 2 || w <= 2 {
        return Ok(image.clone());
    }
    if image.dtype() == DType::U8 {
        let data = image.to_vec::<u8>()?;
        let mut out = data.clone();
        let rest = (1.0 - sharpness_factor) as f32;
        pieces(&mut out, w, 4, |row, out| {
            let y = row % h;
            if y > 0 && y + 1 < h {
                let above = &data[(row - 1) * w..(row + 2) * w];
                sharpen_row(above, w, out, rest);
            }
        });
        return like(image, &out, image.dims());
    }
    let shape = image.dims().to_vec();
    let n: usize = shape[..shape.len() - 3].iter().product();
    let x = real(image)?.reshape([n * c, 1, h, w])?;
    let (a, b) = (1.0 / 13.0, 5.0 / 13.0);
    let kernel = Tensor::from_slice(
        &[a, a, a, a, b, a, a, a, a],
        [1, 1, 3, 3],
        DType::F64,
        Device::Cpu,
    )?
    .to_dtype(x.dtype())?
    .to_device(x.device())?;
    let blurred = x.conv2d(&kernel, None)?;
    let blurred = if image.dtype().is_floating_point() {
        blurred
    } else {
        blurred.round()?
    };
    // Pixels at the edge stay.
    let middle = x.narrow(-2, 1, h - 2)?.narrow(-1, 1, w - 2)?;
    let change = blurred.sub(&middle)?.mul(1.0 - sharpness_factor)?;
    x.add(&change.pad([1, 1, 1, 1])?)?
        .clamp(0.0, max_value(image.dtype())?)?
        .to_dtype(image.dtype())?
        .reshape(shape)
}

/// A row from itself and its neighbours. `rows` are three, of which `out` is the middle one.
fn sharpen_row(rows: &[u8], w: usize, out: &mut [u8], rest: f32) {
    sharpen_pixels(rows, w, out, rest);
}

multiversion! {
    fn sharpen_pixels<A>(rows: &[u8], w: usize, out: &mut [u8], rest: f32) {
        let (above, more) = rows.split_at(w);
        let (middle, below) = more.split_at(w);
        let n = w - 2;
        let out = &mut out[1..=n];
        let at = |row: &'_ [u8], x: usize| i32::from(row[x]);
        let (above, middle, below) = (&above[..n + 2], &middle[..n + 2], &below[..n + 2]);
        for x in 0..n {
            let own = at(middle, x + 1);
            let three = |row| at(row, x) + at(row, x + 1) + at(row, x + 2);
            let sum = three(above) + three(middle) + three(below) + 4 * own;
            // A thirteenth, rounded: there are no halves.
            let blurred = (sum as f32 * (1.0 / 13.0)).round_ties_even();
            let own = own as f32;
            out[x] = byte((blurred - own).mul_add(rest, own));
        }
    }
}

/// `image ^ gamma`, of numbers from 0 to 1: more than 1 makes the dark parts darker.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_gamma;
/// assert!(adjust_gamma(&tensor![[[0.5, 1.0]]], 2.0)?.allclose(&tensor![[[0.25, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`adjust_gamma_with`].
#[track_caller]
pub fn adjust_gamma(image: &Tensor, gamma: f64) -> Result<Tensor> {
    adjust_gamma_with(image, gamma, 1.0)
}

/// [`adjust_gamma`] with a gain: `gain * image ^ gamma`, at most 1.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_gamma_with;
/// let bright = adjust_gamma_with(&tensor![[[0.5, 1.0]]], 2.0, 2.0)?;
/// assert!(bright.allclose(&tensor![[[0.5, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative gamma.
#[torsh_tensor::names_caller]
pub fn adjust_gamma_with(image: &Tensor, gamma: f64, gain: f64) -> Result<Tensor> {
    const OP: &str = "adjust_gamma";
    not_negative(OP, "gamma", gamma)?;
    if image.dtype() == DType::U8 {
        return by_table(image, |v| {
            let v = f32::from(v) * (1.0f64 / 255.0) as f32;
            let v = f64::from(v).powf(f64::from(gamma as f32)) as f32;
            let v = if gain == 1.0 {
                v
            } else {
                (v * gain as f32).clamp(0.0, 1.0)
            };
            byte(v * (256.0 - 1e-3) as f32)
        });
    }
    let x = to_dtype(image, float_of(image.dtype()), true)?;
    let out = x.pow(gamma)?;
    let out = if gain == 1.0 {
        out
    } else {
        out.mul(gain)?.clamp(0.0, 1.0)?
    };
    to_dtype(&out, image.dtype(), true).map_err(|e| e.renamed(OP))
}

fn float_of(dtype: DType) -> DType {
    if dtype.is_floating_point() {
        dtype
    } else {
        DType::F32
    }
}

/// The image with `bits` bits left of each value; floating-point ones with `2^bits` levels.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::posterize;
/// let image = tensor![[[170, 255]]].to_dtype(DType::U8)?;
/// assert_eq!(posterize(&image, 3)?.to_vec::<u8>()?, [0b1010_0000, 0b1110_0000]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// More than 8 bits.
#[torsh_tensor::names_caller]
pub fn posterize(image: &Tensor, bits: u32) -> Result<Tensor> {
    const OP: &str = "posterize";
    if bits > 8 {
        return Err(TorshError::invalid(
            OP,
            format!("bits must be from 0 to 8, got {bits}"),
        ));
    }
    if image.dtype().is_floating_point() {
        let levels = f64::from(1u32 << bits);
        return image
            .mul(levels)?
            .floor()?
            .clamp(0.0, levels - 1.0)?
            .mul(1.0 / levels);
    }
    let have = value_bits(OP, image.dtype())?;
    if bits >= have {
        return Ok(image.clone());
    }
    let mask = ((1i64 << bits) - 1) << (have - bits);
    if image.dtype() == DType::U8 {
        return by_table(image, |v| v & mask as u8);
    }
    image.bitwise_and(mask)
}

/// The image with values inverted that are at least `threshold`.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::solarize;
/// let image = tensor![[[100, 200]]].to_dtype(DType::U8)?;
/// assert_eq!(solarize(&image, 128.0)?.to_vec::<u8>()?, [100, 55]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A threshold above the dtype's largest value.
#[torsh_tensor::names_caller]
pub fn solarize(image: &Tensor, threshold: f64) -> Result<Tensor> {
    const OP: &str = "solarize";
    let most = max_value(image.dtype())?;
    if threshold > most {
        return Err(TorshError::invalid(
            OP,
            format!("the threshold must be at most {most}, got {threshold}"),
        ));
    }
    if image.dtype() == DType::U8 {
        return by_table(image, |v| {
            if f32::from(v) >= threshold as f32 {
                !v
            } else {
                v
            }
        });
    }
    Tensor::where_(&image.ge(threshold)?, &invert(image)?, image)
}

/// The image with each channel stretched to the whole range.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::autocontrast;
/// let image = tensor![[[0.25, 0.5, 0.75]]];
/// assert!(autocontrast(&image)?.allclose(&tensor![[[0.0, 0.5, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Neither 1 nor 3 channels.
#[torsh_tensor::names_caller]
pub fn autocontrast(image: &Tensor) -> Result<Tensor> {
    const OP: &str = "autocontrast";
    channels(OP, image)?;
    let (_, h, w) = dimensions(OP, image)?;
    if image.numel() == 0 {
        return Ok(image.clone());
    }
    if image.dtype() == DType::U8 {
        return changed(image, |data| {
            pieces(data, h * w, 2, |_, plane| {
                let (low, high) = extremes(plane);
                if low == high {
                    return;
                }
                let scale = f32::from(high - low) * (1.0f64 / 255.0) as f32;
                let table: [u8; 256] =
                    std::array::from_fn(|v| byte((v as f32 - f32::from(low)) / scale));
                look_up(&table, plane);
            });
        });
    }
    let most = max_value(image.dtype())?;
    let x = real(image)?;
    let low = x.amin([-2, -1], true)?;
    let range = x.amax([-2, -1], true)?.sub(&low)?;
    let flat = range.eq(0.0)?;
    let low = low.masked_fill(&flat, 0.0)?;
    let scale = range.mul(1.0 / most)?.masked_fill(&flat, 1.0)?;
    x.sub(&low)?
        .div(&scale)?
        .clamp(0.0, most)?
        .to_dtype(image.dtype())
}

multiversion! {
    /// The least and the largest byte.
    fn extremes<A>(plane: &[u8]) -> (u8, u8) {
        plane
            .iter()
            .fold((255, 0), |(a, b), &v| (a.min(v), b.max(v)))
    }
}

/// The image with each channel's values spread so that about as many pixels have each of them.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::equalize;
/// // 255 pixels of each of two values, which become the least and the largest.
/// let image = tensor![[[100], [200]]].to_dtype(DType::U8)?.expand([1, 2, 255])?;
/// let want = tensor![[[0], [255]]].to_dtype(DType::U8)?.expand([1, 2, 255])?;
/// assert_eq!(equalize(&image)?, want);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dtype that images do not have.
#[torsh_tensor::names_caller]
pub fn equalize(image: &Tensor) -> Result<Tensor> {
    const OP: &str = "equalize";
    let (_, h, w) = dimensions(OP, image)?;
    if image.numel() == 0 {
        return Ok(image.clone());
    }
    let bytes = to_dtype(image, DType::U8, true).map_err(|e| e.renamed(OP))?;
    let out = changed(&bytes, |data| {
        pieces(data, h * w, 2, |_, plane| equalize_plane(plane));
    })?;
    to_dtype(&out, image.dtype(), true)
}

fn equalize_plane(plane: &mut [u8]) {
    let mut counts = [[0u32; 256]; 4];
    for four in plane.chunks(4) {
        for (counts, &v) in counts.iter_mut().zip(four) {
            counts[usize::from(v)] += 1;
        }
    }
    let counts: [u64; 256] = std::array::from_fn(|v| counts.iter().map(|c| u64::from(c[v])).sum());
    let last = counts.iter().rposition(|&n| n > 0).unwrap_or(0);
    let step = (plane.len() as u64 - counts[last]) / 255;
    if step == 0 {
        return;
    }
    let mut sum = 0u64;
    let table: [u8; 256] = std::array::from_fn(|v| {
        let level = if v == 0 {
            0
        } else {
            ((sum + step / 2) / step).min(255)
        };
        sum += counts[v];
        level as u8
    });
    look_up(&table, plane);
}

/// The negative of the image.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::invert;
/// let image = tensor![[[0, 100]]].to_dtype(DType::U8)?;
/// assert_eq!(invert(&image)?.to_vec::<u8>()?, [255, 155]);
/// assert_eq!(invert(&tensor![[[0.25]]])?, tensor![[[0.75]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dtype that images do not have.
#[torsh_tensor::names_caller]
pub fn invert(image: &Tensor) -> Result<Tensor> {
    let dtype = image.dtype();
    if dtype.is_floating_point() {
        image.mul(-1.0)?.add(1.0)
    } else if dtype == DType::U8 {
        image.bitwise_not()
    } else {
        let bits = value_bits("invert", dtype)?;
        image.bitwise_xor(((1u64 << bits) - 1) as i64)
    }
}

/// The image with its channels in another order: `permutation` says which one each comes from.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::permute_channels;
/// let image = tensor![[[1]], [[2]], [[3]]];
/// assert_eq!(permute_channels(&image, &[2, 0, 1])?, tensor![[[3]], [[1]], [[2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Not one number for each channel.
#[torsh_tensor::names_caller]
pub fn permute_channels(image: &Tensor, permutation: &[usize]) -> Result<Tensor> {
    const OP: &str = "permute_channels";
    let (c, _, _) = dimensions(OP, image)?;
    if permutation.len() != c || permutation.iter().any(|&p| p >= c) {
        return Err(TorshError::invalid(
            OP,
            format!(
                "{permutation:?} are not numbers below {c} for each channel of {}",
                image.describe()
            ),
        ));
    }
    let index: Vec<i64> = permutation.iter().map(|&p| p as i64).collect();
    let index =
        Tensor::from_slice(&index, [c], DType::I64, Device::Cpu)?.to_device(image.device())?;
    image.index_select(-3, &index)
}
