//! Dtypes, normalisation, blur, noise, erasing.

use torsh_backend_cpu::multiversion;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::bytes::{byte, like, pieces};
use super::geometry::{PadOptions, pad_with};
use super::value_range::{max_value, value_bits};
use crate::transforms::apply::dimensions;
use crate::transforms::arguments::{PaddingMode, Pair, Size};
use crate::transforms::draws;

/// An error where an int32 image has values that its 16 bits do not hold.
fn check_words(op: &'static str, image: &Tensor) -> Result<()> {
    if image.dtype() != DType::I32 || image.numel() == 0 || image.device() == Device::Meta {
        return Ok(());
    }
    let (low, high) = (image.min()?.item::<i64>()?, image.max()?.item::<i64>()?);
    if low >= 0 && high <= i64::from(u16::MAX) {
        return Ok(());
    }
    let why = format!(
        "an int32 image has values of 16 bits, from 0 to 65535, and these are from {low} to {high}"
    );
    Err(TorshError::invalid(op, why)
        .with_hint("divide it by its own largest value, and use scale(false)"))
}

/// The image in another dtype (`torchvision.transforms.v2.functional.to_dtype`). With `scale`, the largest value stays
/// the largest: uint8 from 0 to 255 is float32 from 0 to 1.
///
/// An int32 image stands for torchvision's uint16, as [`decode_image`](crate::io::decode_image) gives it for a file of 16
/// bits: its values are from 0 to 65,535.
///
/// # Errors
/// With `scale`: a dtype that images do not have, integers that the floating-point numbers do not reach exactly, and an
/// int32 image with other values than those of 16 bits.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::to_dtype;
/// let image = tensor![[[0, 51, 255]]].to_dtype(DType::U8)?;
/// assert!(to_dtype(&image, DType::F32, true)?.allclose(&tensor![[[0.0, 0.2, 1.0]]])?);
/// let deep = tensor![[[0, 13107, 65535]]].to_dtype(DType::I32)?;
/// assert!(to_dtype(&deep, DType::F32, true)?.allclose(&tensor![[[0.0, 0.2, 1.0]]])?);
/// assert_eq!(to_dtype(&deep, DType::U8, true)?.to_vec::<u8>()?, [0, 51, 255]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn to_dtype(image: &Tensor, dtype: DType, scale: bool) -> Result<Tensor> {
    const OP: &str = "to_dtype";
    let (from, to) = (image.dtype(), dtype);
    if from == to {
        return Ok(image.clone());
    }
    if !scale {
        return image.to_dtype(to);
    }
    check_words(OP, image)?;
    match (from.is_floating_point(), to.is_floating_point()) {
        (true, true) => image.to_dtype(to),
        (false, true) => {
            let most = max_value(from).map_err(|e| e.renamed(OP))?;
            image.to_dtype(to)?.mul(1.0 / most)
        }
        (true, false) => {
            let bits = value_bits(OP, to)?;
            if bits == 63 && from.size() >= 4 {
                return Err(TorshError::dtype(
                    OP,
                    format!("the cast from {from} to {to} cannot be performed safely"),
                ));
            }
            let most = max_value(to)?;
            let scaled = image.mul(most + 1.0 - 1e-3)?;
            // In float32 white becomes 65,536, which uint16 in torchvision does not hold either, and is black there.
            let scaled = match to {
                DType::I32 => scaled.clamp(0.0, most)?,
                _ => scaled,
            };
            scaled.to_dtype(to)
        }
        (false, false) => {
            let (a, b) = (value_bits(OP, from)?, value_bits(OP, to)?);
            if a > b {
                image.floor_divide(1i64 << (a - b))?.to_dtype(to)
            } else {
                image.to_dtype(to)?.mul(1i64 << (b - a))
            }
        }
    }
}

/// [`to_dtype`] with `scale`.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::functional::convert_image_dtype;
/// let image = tensor![[[0, 51, 255]]].to_dtype(DType::U8)?;
/// assert!(convert_image_dtype(&image, DType::F32)?.allclose(&tensor![[[0.0, 0.2, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`to_dtype`].
#[track_caller]
pub fn convert_image_dtype(image: &Tensor, dtype: DType) -> Result<Tensor> {
    to_dtype(image, dtype, true)
}

/// `(image - mean) / std`, of each channel.
///
/// # Errors
/// An image of integers, or not as many numbers as channels (or one), a `std` of 0.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::normalize;
/// assert_eq!(normalize(&tensor![[[2.0, 0.0]]], &[1.0], &[0.5])?, tensor![[[2.0, -2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normalize(image: &Tensor, mean: &[f64], std: &[f64]) -> Result<Tensor> {
    const OP: &str = "normalize";
    let (c, _, _) = dimensions(OP, image)?;
    if !image.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            OP,
            format!("expected a float tensor, got {}", image.describe()),
        )
        .with_hint("to_dtype(&image, DType::F32, true) makes one"));
    }
    if std.contains(&0.0) {
        return Err(TorshError::invalid(
            OP,
            "std has a zero, which leads to division by zero",
        ));
    }
    for (name, v) in [("means", mean), ("deviations", std)] {
        if v.len() != 1 && v.len() != c {
            return Err(TorshError::shape(
                OP,
                format!(
                    "{} {name} for the {c} channels of {}",
                    v.len(),
                    image.describe()
                ),
            ));
        }
    }
    let each = |v: &[f64]| {
        Tensor::from_slice(v, [v.len(), 1, 1], DType::F64, Device::Cpu)?
            .to_dtype(image.dtype())?
            .to_device(image.device())
    };
    image.sub(&each(mean)?)?.div(&each(std)?)
}

/// The weights of a blur along one dimension, of float32.
fn gaussian_weights(size: usize, sigma: f64) -> Vec<f64> {
    let lim = (size as f64 - 1.0) / (2.0 * 2f64.sqrt());
    let step = if size > 1 {
        2.0 * lim / (size as f64 - 1.0)
    } else {
        0.0
    };
    let raw: Vec<f64> = (0..size)
        .map(|i| {
            let x = (-lim + step * i as f64) / sigma;
            (-x * x).exp()
        })
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|w| w / sum).collect()
}

/// The image blurred with a Gaussian of this size and width, whose edges are mirrored.
///
/// `kernel_size` and `sigma` are of x and y; without a `sigma`, it is 0.15 of the size and 0.35.
///
/// # Errors
/// An even size, a `sigma` of 0 or less, an image smaller than half the kernel.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::gaussian_blur;
/// let point = tensor![[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]];
/// let blurred = gaussian_blur(&point, 3, 100.0)?;
/// assert!((blurred.i((0, 1, 1))?.item::<f64>()? - 1.0 / 9.0).abs() < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gaussian_blur(
    image: &Tensor,
    kernel_size: impl Into<Size>,
    sigma: impl IntoSigma,
) -> Result<Tensor> {
    const OP: &str = "gaussian_blur";
    // torchvision's kernel size is (x, y).
    let (kx, ky) = kernel_size.into().both();
    let sigma = sigma
        .sigma()
        .unwrap_or(Pair(kx as f64 * 0.15 + 0.35, ky as f64 * 0.15 + 0.35));
    if kx % 2 == 0 || ky % 2 == 0 {
        return Err(TorshError::invalid(
            OP,
            format!("kernel_size must be odd and positive, got {kx} and {ky}"),
        ));
    }
    if !(sigma.0 > 0.0 && sigma.1 > 0.0) {
        return Err(TorshError::invalid(
            OP,
            format!("sigma must be positive, got {} and {}", sigma.0, sigma.1),
        ));
    }
    let (c, h, w) = dimensions(OP, image)?;
    if image.numel() == 0 {
        return Ok(image.clone());
    }
    if kx / 2 >= w || ky / 2 >= h {
        return Err(TorshError::shape(
            OP,
            format!(
                "a kernel of {kx} x {ky} needs more pixels around than {} has",
                image.describe()
            ),
        ));
    }
    let (wx, wy) = (gaussian_weights(kx, sigma.0), gaussian_weights(ky, sigma.1));
    if image.dtype() == DType::U8 {
        return blur_bytes(image, (h, w), &wx, &wy);
    }
    let shape = image.dims().to_vec();
    let n: usize = shape[..shape.len() - 3].iter().product();
    let fp = image.dtype().is_floating_point();
    let x = if fp {
        image.clone()
    } else {
        image.to_dtype(DType::F32)?
    };
    let around = [(kx / 2) as i64, (ky / 2) as i64];
    let reflect = PadOptions::new().padding_mode(PaddingMode::Reflect);
    let padded = pad_with(&x, around, reflect)?;
    let (ph, pw) = (h + ky - 1, w + kx - 1);
    let padded = padded.reshape([n * c, 1, ph, pw])?;
    let kernel = |v: &[f64], shape: [usize; 4]| {
        Tensor::from_slice(v, shape, DType::F64, Device::Cpu)?
            .to_dtype(x.dtype())?
            .to_device(x.device())
    };
    let rows = padded.conv2d(&kernel(&wx, [1, 1, 1, kx])?, None)?;
    let out = rows.conv2d(&kernel(&wy, [1, 1, ky, 1])?, None)?;
    let out = if fp {
        out
    } else {
        out.round()?.to_dtype(image.dtype())?
    };
    out.reshape(shape)
}

/// The width of a blur: one for both directions, one for x and one for y, or `None`.
pub trait IntoSigma {
    /// The widths.
    fn sigma(self) -> Option<Pair>;
}
impl<T: Into<Pair>> IntoSigma for T {
    fn sigma(self) -> Option<Pair> {
        Some(self.into())
    }
}
impl IntoSigma for Option<Pair> {
    fn sigma(self) -> Option<Pair> {
        self
    }
}

/// An index mirrored at the ends of `0..n`, without the end again.
fn reflected(i: isize, n: usize) -> usize {
    let last = n as isize - 1;
    let i = i.abs();
    (if i > last { 2 * last - i } else { i }) as usize
}

fn blur_bytes(image: &Tensor, (h, w): (usize, usize), wx: &[f64], wy: &[f64]) -> Result<Tensor> {
    let single = |v: &[f64]| v.iter().map(|&w| w as f32).collect::<Vec<f32>>();
    let (wx, wy) = (single(wx), single(wy));
    let data = image.to_vec::<u8>()?;
    let mut across = vec![0f32; data.len()];
    pieces(&mut across, w, 4 * wx.len(), |row, out| {
        blur_row(&data[row * w..(row + 1) * w], out, &wx);
    });
    let mut out = vec![0u8; data.len()];
    pieces(&mut out, w, 2 * wy.len(), |row, out| {
        let (plane, y) = (row / h, row % h);
        let mut sum = vec![0f32; w];
        for (k, &weight) in wy.iter().enumerate() {
            let y = reflected(y as isize + k as isize - (wy.len() / 2) as isize, h);
            let from = &across[(plane * h + y) * w..][..w];
            add_weighted(&mut sum[..], from, weight);
        }
        round_bytes(out, &sum[..]);
    });
    like(image, &out, image.dims())
}

fn blur_row(row: &[u8], out: &mut [f32], weights: &[f32]) {
    let (w, half) = (row.len(), weights.len() / 2);
    let padded: Vec<f32> = (0..w + 2 * half)
        .map(|i| f32::from(row[reflected(i as isize - half as isize, w)]))
        .collect();
    out.fill(0.0);
    for (k, &weight) in weights.iter().enumerate() {
        add_weighted(&mut *out, &padded[k..k + w], weight);
    }
}

multiversion! {
    fn add_weighted<A>(sums: &mut [f32], values: &[f32], weight: f32) {
        for (s, &v) in sums.iter_mut().zip(values) {
            *s = v.mul_add(weight, *s);
        }
    }
}

multiversion! {
    fn round_bytes<A>(out: &mut [u8], values: &[f32]) {
        for (o, &v) in out.iter_mut().zip(values) {
            *o = byte(v.round_ties_even());
        }
    }
}

/// [`gaussian_blur`] of one plane of float32.
pub(crate) fn gaussian_blur_f32(
    plane: &[f32],
    (h, w): (usize, usize),
    size: usize,
    sigma: Pair,
) -> Result<Vec<f32>> {
    let image = Tensor::from_slice(plane, [1, h, w], DType::F32, Device::Cpu)?;
    gaussian_blur(&image, size, sigma)?.to_vec()
}

/// The image with normally distributed numbers added, drawn from the default generator. `mean` and `sigma` are in parts
/// of the largest value; `clip` keeps the result from 0 to the largest value.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::gaussian_noise;
/// // Without a deviation the mean is added.
/// let image = tensor![[[0.0, 0.75]]];
/// assert_eq!(gaussian_noise(&image, 0.5, 0.0, true)?, tensor![[[0.5, 1.0]]]);
/// assert_eq!(gaussian_noise(&image, 0.5, 0.0, false)?, tensor![[[0.5, 1.25]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A negative `sigma`, integers other than uint8.
#[torsh_tensor::names_caller]
pub fn gaussian_noise(image: &Tensor, mean: f64, sigma: f64, clip: bool) -> Result<Tensor> {
    const OP: &str = "gaussian_noise";
    if !(sigma >= 0.0) {
        return Err(TorshError::invalid(
            OP,
            format!("sigma must not be negative, got {sigma}"),
        ));
    }
    let dtype = image.dtype();
    if dtype == DType::U8 {
        let mut data = image.to_vec::<u8>()?;
        let noise = draws::randn(data.len());
        let (mean, sigma) = ((mean * 255.0) as f32, (sigma * 255.0) as f32);
        for (v, n) in data.iter_mut().zip(noise) {
            // Without its fraction, in 16 bits.
            let sum = i32::from(*v) + i32::from((n * sigma + mean) as i16);
            *v = if clip {
                sum.clamp(0, 255) as u8
            } else {
                sum as u8
            };
        }
        return like(image, &data, image.dims());
    }
    if !dtype.is_floating_point() {
        return Err(TorshError::dtype(
            OP,
            format!(
                "expected uint8 or floating-point numbers, got {}",
                image.describe()
            ),
        ));
    }
    let noise = torsh_tensor::Tensor::randn_like(image)?
        .mul(sigma)?
        .add(mean)?;
    let out = image.add(&noise)?;
    if clip { out.clamp(0.0, 1.0) } else { Ok(out) }
}

/// The image with the rectangle from row `i` and column `j`, of height `h` and width `w`, overwritten with `v`, whose
/// shape broadcasts to it.
///
/// # Errors
/// Values of another shape.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::erase;
/// let image = tensor![[[1.0, 2.0, 3.0]]];
/// assert_eq!(erase(&image, 0, 1, 1, 2, &tensor![[[0.0]]])?, tensor![[[1.0, 0.0, 0.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn erase(image: &Tensor, i: usize, j: usize, h: usize, w: usize, v: &Tensor) -> Result<Tensor> {
    let (_, height, width) = dimensions("erase", image)?;
    let (i, j) = (i.min(height), j.min(width));
    let (h, w) = (h.min(height - i), w.min(width - j));
    let out = image.copy()?;
    out.narrow(-2, i, h)?
        .narrow(-1, j, w)?
        .copy_(v)
        .map_err(|e| e.renamed("erase"))?;
    Ok(out)
}

/// The image as it comes back from a JPEG file of this quality, from 1 to 100.
///
/// ```
/// use torsh_tensor::{DType, full};
/// use torsh_vision::transforms::functional::jpeg;
/// // Plain grey is what any quality keeps.
/// let grey = full([1, 8, 8], 128).to_dtype(DType::U8)?;
/// assert_eq!(jpeg(&grey, 10)?, grey);
/// assert!(jpeg(&grey, 101).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Not uint8, neither 1 nor 3 channels, another quality.
#[torsh_tensor::names_caller]
pub fn jpeg(image: &Tensor, quality: u8) -> Result<Tensor> {
    const OP: &str = "jpeg";
    let (c, h, w) = dimensions(OP, image)?;
    if image.numel() == 0 {
        return Ok(image.clone());
    }
    let mode = match c {
        1 => crate::io::ImageReadMode::Gray,
        _ => crate::io::ImageReadMode::Rgb,
    };
    let batch = image.reshape([image.numel() / (c * h * w), c, h, w])?;
    let images = (0..batch.dims()[0])
        .map(|n| {
            let bytes = crate::io::encode_jpeg_with(&batch.select(0, n)?, quality)?;
            crate::io::decode_image_with(&bytes, crate::io::ReadOptions::new().mode(mode))
        })
        .collect::<Result<Vec<_>>>()
        .map_err(|e| e.renamed(OP))?;
    torsh_tensor::stack(&images, 0)?
        .to_device(image.device())?
        .reshape(image.dims())
}

/// `num_samples` images of a video `[.., time, channels, height, width]`, evenly spaced.
///
/// ```
/// use torsh_tensor::Tensor;
/// use torsh_vision::transforms::functional::uniform_temporal_subsample;
/// let video = Tensor::from_data(&[0i64, 1, 2, 3, 4], [5, 1, 1, 1])?;
/// assert_eq!(uniform_temporal_subsample(&video, 3)?.to_vec::<i64>()?, [0, 2, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Not a video, or one without images.
#[torsh_tensor::names_caller]
pub fn uniform_temporal_subsample(video: &Tensor, num_samples: usize) -> Result<Tensor> {
    const OP: &str = "uniform_temporal_subsample";
    let time = match video.dims() {
        [.., t, _, _, _] if *t > 0 => *t,
        _ => {
            return Err(TorshError::shape(
                OP,
                format!(
                    "expected a video [.., time, channels, height, width], got {}",
                    video.describe()
                ),
            ));
        }
    };
    let at = torsh_tensor::linspace(0, time as i64 - 1, num_samples).to_dtype(DType::I64)?;
    video.index_select(-4, &at.to_device(video.device())?)
}
