//! Image files, as `torchvision.io`: PNG and JPEG, and with the features of their names GIF, WebP and BMP.
//!
//! An image is uint8 `[channels, height, width]`. A PNG file with 16 bits for each channel is int32 with numbers up to 65,535
//! (torchvision's uint16), unless [`ReadOptions::eight_bits`] rounds them. All functions of this crate take an int32 image
//! so: `ToDtype::new(DType::F32).scale(true)` makes 1 of 65,535, and [`encode_png`] writes 16 bits.
//!
//! ```
//! use torsh_tensor::{DType, tensor};
//! use torsh_vision::io::{ImageReadMode, ReadOptions, decode_image, decode_image_with, encode_png};
//!
//! let image = tensor![[[10, 20]], [[30, 40]], [[50, 60]]].to_dtype(DType::U8)?;
//! let file = encode_png(&image)?;
//! assert_eq!(decode_image(&file)?, image);
//! let gray = decode_image_with(&file, ReadOptions::new().mode(ImageReadMode::Gray))?;
//! assert_eq!(gray.to_vec::<u8>()?, [26, 36]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! # Hostile files
//!
//! A file is an error, with its reason, if it is damaged or cut off. So it is if its header claims more pixels than
//! so many bytes can hold, or than fit into memory: nothing is allocated for them.

use std::io::Cursor;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{ColorType, ExtendedColorType, ImageDecoder, ImageFormat, ImageReader, Limits};
use torsh_backend_cpu::multiversion;
use torsh_data::codec::{self, Format, Picture};
use torsh_tensor::named::Named;
use torsh_tensor::{DType, Result, Shared, Storage, Tensor, TorshError, options};

use crate::scratch::Scratch;

/// Which channels an image has once it is read (`torchvision.io.ImageReadMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageReadMode {
    /// Those of the file. Palettes become colours.
    #[default]
    Unchanged,
    /// Grey.
    Gray,
    /// Grey and opacity.
    GrayAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, opacity.
    RgbAlpha,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    ImageReadMode, "mode", any case,
    "UNCHANGED" => ImageReadMode::Unchanged,
    "GRAY" => ImageReadMode::Gray,
    "GRAY_ALPHA" => ImageReadMode::GrayAlpha,
    "RGB" => ImageReadMode::Rgb,
    "RGB_ALPHA" => ImageReadMode::RgbAlpha,
}

impl ImageReadMode {
    /// How many channels there are, of a file that has `own`.
    fn channels(self, own: usize) -> usize {
        match self {
            ImageReadMode::Unchanged | ImageReadMode::Unknown(_) => own,
            ImageReadMode::Gray => 1,
            ImageReadMode::GrayAlpha => 2,
            ImageReadMode::Rgb => 3,
            ImageReadMode::RgbAlpha => 4,
        }
    }
}

options! {
    /// The arguments of [`read_image_with`] and [`decode_image_with`].
    #[derive(Copy, PartialEq, Eq)]
    ReadOptions {
        /// Which channels the image has; a string is torchvision's word, as "RGB".
        mode: ImageReadMode = ImageReadMode::Unchanged, impl Into<ImageReadMode> => Into::into;
        /// Whether the image is turned as its EXIF data says.
        apply_exif_orientation: bool = false;
        /// Whether channels of 16 bits are rounded to 8, so that every image is uint8.
        eight_bits: bool = false;
    }
}

/// An error that names the file.
#[track_caller]
fn io_error(path: &Path, e: std::io::Error) -> TorshError {
    TorshError::from(std::io::Error::new(
        e.kind(),
        format!("{}: {e}", path.display()),
    ))
}

/// Reads an image file with its own channels: [`read_image_with`] and the defaults.
///
/// # Errors
/// As [`read_image_with`].
#[track_caller]
pub fn read_image(path: impl AsRef<Path>) -> Result<Tensor> {
    read_image_with(path, ReadOptions::new())
}

/// Reads an image file. Its content tells the format.
///
/// # Errors
/// As [`decode_image_with`], and where the file cannot be read. They name the file.
#[torsh_tensor::names_caller]
pub fn read_image_with(path: impl AsRef<Path>, options: ReadOptions) -> Result<Tensor> {
    options.mode.known().map_err(|e| e.renamed("read_image"))?;
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|e| io_error(path, e))?;
    torsh_core::check_git_lfs("read_image", path.display(), &bytes)?;
    decode(&bytes, options)
        .map_err(|e| TorshError::format("read_image", format!("{}: {e}", path.display())))?
        .tensor()
}

/// Reads an image file as it is to be looked at: red, green and blue, uint8, turned as its EXIF data says.
///
/// # Errors
/// As [`read_image_with`].
#[torsh_tensor::names_caller]
pub fn load_image(path: impl AsRef<Path>) -> Result<Tensor> {
    let options = ReadOptions::new()
        .mode(ImageReadMode::Rgb)
        .apply_exif_orientation(true)
        .eight_bits(true);
    read_image_with(path, options).map_err(|e| e.renamed("load_image"))
}

/// Decodes the bytes of an image file with its own channels: [`decode_image_with`] and the defaults.
///
/// # Errors
/// As [`decode_image_with`].
#[track_caller]
pub fn decode_image(bytes: &[u8]) -> Result<Tensor> {
    decode_image_with(bytes, ReadOptions::new())
}

/// Decodes the bytes of an image file. The content tells the format.
///
/// Channels of 16 bits are int32 from 0 to 65,535, unless [`ReadOptions::eight_bits`] rounds them;
/// [`to_dtype`](crate::transforms::functional::to_dtype) scales them by 65,535. CMYK becomes red, green and blue. A GIF with several images gives `[images, channels, height, width]`. Grey of a coloured PNG file is
/// libpng's, as in torchvision.
///
/// # Errors
/// A mode that is none; the bytes are none of the formats, or are damaged, or claim more pixels than they can hold or than fit into memory.
#[torsh_tensor::names_caller]
pub fn decode_image_with(bytes: &[u8], options: ReadOptions) -> Result<Tensor> {
    options
        .mode
        .known()
        .map_err(|e| e.renamed("decode_image"))?;
    torsh_core::check_git_lfs("decode_image", "the image", bytes)?;
    decode(bytes, options)
        .map_err(|e| TorshError::format("decode_image", e))?
        .tensor()
}

/// Pixels channel by channel, and EXIF's number of how they are to be turned.
struct Decoded {
    planes: Tensor,
    orientation: u8,
}

impl Decoded {
    fn tensor(self) -> Result<Tensor> {
        let t = self.planes;
        let turned = |k: i64| t.rot90(k, [-2, -1]);
        match self.orientation {
            2 => t.flip(-1),
            3 => turned(2),
            4 => t.flip(-2),
            5 => t.transpose(-2, -1)?.contiguous(),
            6 => turned(3),
            7 => turned(2)?.transpose(-2, -1)?.contiguous(),
            8 => turned(1),
            _ => Ok(t),
        }
    }
}

fn decode(bytes: &[u8], options: ReadOptions) -> std::result::Result<Decoded, String> {
    let Some(format) = Format::of(bytes) else {
        return decode_other(bytes, options);
    };
    let picture = Picture::open(bytes)?;
    let orientation = match options.apply_exif_orientation {
        true => picture.orientation(),
        false => 1,
    };
    let (h, w, own) = (picture.height, picture.width, picture.channels);
    let deep = picture.deep;
    let mut data = Scratch::new(picture.bytes);
    picture.read(&mut data)?;
    let channels = options.mode.channels(own);
    let shape = [channels, h, w];
    let png = format == Format::Png;
    let planes = if deep && options.eight_bits {
        byte_planes(&codec::eight_bits(&data), own, shape, png)
    } else if deep {
        torsh_core::alloc::check(channels * w * h, 4)
            .map_err(|e| format!("{w} x {h} pixels: {e}"))?;
        let (words, _) = data.as_chunks::<2>();
        let words: Vec<u16> = words.iter().map(|b| u16::from_be_bytes(*b)).collect();
        let mut out = vec![0i32; channels * w * h];
        planes(&words, own, channels, png, &mut out);
        Tensor::from_data(&out, shape)
    } else {
        byte_planes(&data, own, shape, png)
    };
    Ok(Decoded {
        planes: planes.map_err(|e| e.to_string())?,
        orientation,
    })
}

/// The format other than PNG and JPEG that the first bytes tell, if this build reads it.
fn format_of(bytes: &[u8]) -> std::result::Result<ImageFormat, String> {
    let format = image::guess_format(bytes).map_err(|_| {
        "the file is neither PNG nor JPEG, and no other format that can be read".to_string()
    })?;
    let feature = match format {
        ImageFormat::Gif if cfg!(feature = "gif") => return Ok(format),
        ImageFormat::WebP if cfg!(feature = "webp") => return Ok(format),
        ImageFormat::Bmp if cfg!(feature = "bmp") => return Ok(format),
        ImageFormat::Gif => "gif",
        ImageFormat::WebP => "webp",
        ImageFormat::Bmp => "bmp",
        other => return Err(format!("files of the format {other:?} cannot be read")),
    };
    Err(format!("files of this format need the feature {feature}"))
}

/// Width, height and bytes of an image whose file can hold it.
fn bounded(
    decoder: &impl ImageDecoder,
    format: ImageFormat,
    file: usize,
) -> std::result::Result<(usize, usize, usize), String> {
    // LZW names 4,096 pixels in 12 bits. WebP has no such limit, but at most 16,383 pixels on a side.
    let ratio: u64 = match format {
        ImageFormat::WebP => u64::MAX,
        ImageFormat::Gif => 4 * 4096,
        _ => 2048,
    };
    let (w, h) = decoder.dimensions();
    let (w, h) = (w as usize, h as usize);
    let bytes = codec::bounded((w, h), decoder.total_bytes(), ratio, file)?;
    Ok((w, h, bytes))
}

/// An image of a format other than PNG and JPEG.
fn decode_other(bytes: &[u8], options: ReadOptions) -> std::result::Result<Decoded, String> {
    let format = format_of(bytes)?;
    #[cfg(feature = "gif")]
    if format == ImageFormat::Gif {
        return decode_gif(bytes, options.mode);
    }
    let text = |e: image::ImageError| e.to_string();
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    // Text and profiles beside the pixels.
    limits.max_alloc = Some(1 << 32);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(text)?;
    let (w, h, total) = bounded(&decoder, format, bytes.len())?;
    let orientation = match options.apply_exif_orientation {
        true => decoder.orientation().map_err(text)?,
        false => Orientation::NoTransforms,
    };
    let color = decoder.color_type();
    let eight = [
        ColorType::L8,
        ColorType::La8,
        ColorType::Rgb8,
        ColorType::Rgba8,
    ];
    if !eight.contains(&color) {
        return Err(format!("pixels of the kind {color:?} are not bytes"));
    }
    let mut data = Scratch::new(total);
    decoder.read_image(&mut data).map_err(text)?;
    let own = usize::from(color.channel_count());
    let shape = [options.mode.channels(own), h, w];
    Ok(Decoded {
        planes: byte_planes(&data, own, shape, false).map_err(|e| e.to_string())?,
        orientation: orientation.to_exif(),
    })
}

/// Pixels of bytes of `own` channels as an image of this shape.
fn byte_planes(data: &[u8], own: usize, shape: [usize; 3], png: bool) -> Result<Tensor> {
    let [channels, h, w] = shape;
    let storage = Storage::filled(channels * h * w, |out| {
        if own == 3 && channels == 3 {
            let (r, rest) = out.split_at_mut(h * w);
            let (g, b) = rest.split_at_mut(h * w);
            split_colors(data, r, g, b);
        } else {
            planes(data, own, channels, png, out);
        }
        Ok(())
    })?;
    Tensor::from_storage(Shared::new(storage), DType::U8, &shape, &[h * w, w, 1], 0)
}

/// A GIF's images, each as it is shown.
#[cfg(feature = "gif")]
fn decode_gif(bytes: &[u8], mode: ImageReadMode) -> std::result::Result<Decoded, String> {
    use image::AnimationDecoder;
    let text = |e: image::ImageError| e.to_string();
    let mut decoder = image::codecs::gif::GifDecoder::new(Cursor::new(bytes)).map_err(text)?;
    let (w, h, _) = bounded(&decoder, ImageFormat::Gif, bytes.len())?;
    // An image of a file may claim to be larger than what is shown of it.
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(decoder.total_bytes().saturating_mul(8).max(1 << 24));
    decoder.set_limits(limits).map_err(text)?;
    // torchvision gives colours, whatever the mode.
    let channels = match mode {
        ImageReadMode::Unchanged => 3,
        mode => mode.channels(3),
    };
    let mut all = Vec::new();
    let mut images = 0;
    for frame in decoder.into_frames() {
        let frame = frame.map_err(text)?.into_buffer();
        torsh_core::alloc::check(all.len() + 4 * w * h, 2).map_err(|e| e.to_string())?;
        let start = all.len();
        all.resize(start + channels * w * h, 0);
        planes(frame.as_raw(), 4, channels, false, &mut all[start..]);
        images += 1;
    }
    let shape = match images {
        0 => return Err("the file has no image".into()),
        1 => vec![channels, h, w],
        n => vec![n, channels, h, w],
    };
    Ok(Decoded {
        planes: Tensor::from_bytes(&all, DType::U8, shape).map_err(|e| e.to_string())?,
        orientation: 1,
    })
}

/// A number of a channel of a file.
trait Level: Copy {
    /// The number in a tensor.
    type Out: Copy + From<Self>;
    /// Full opacity.
    const OPAQUE: Self::Out;
    /// The grey of a colour.
    fn gray(rgb: [Self; 3], png: bool) -> Self::Out;
}

/// libpng's weights of red, green and blue, which are 0.2989, 0.587 and the rest.
const PNG_GRAY: [u32; 3] = [9_794, 19_234, 3_740];

impl Level for u8 {
    type Out = u8;
    const OPAQUE: u8 = u8::MAX;

    fn gray(rgb: [u8; 3], png: bool) -> u8 {
        let [r, g, b] = rgb.map(u32::from);
        let [x, y, z] = PNG_GRAY;
        match png {
            // libpng rounds down here.
            true => ((r * x + g * y + b * z) >> 15) as u8,
            false => ((r * 19_595 + g * 38_470 + b * 7_471 + 32_768) >> 16) as u8,
        }
    }
}

impl Level for u16 {
    type Out = i32;
    const OPAQUE: i32 = u16::MAX as i32;

    // PNG files alone have 16 bits.
    fn gray(rgb: [u16; 3], _png: bool) -> i32 {
        let [r, g, b] = rgb.map(u32::from);
        let [x, y, z] = PNG_GRAY;
        ((r * x + g * y + b * z + (1 << 14)) >> 15) as i32
    }
}

/// Pixels of `own` channels as planes of `channels`.
fn planes<L: Level>(data: &[L], own: usize, channels: usize, png: bool, out: &mut [L::Out]) {
    let area = out.len() / channels;
    if area == 0 {
        return;
    }
    let color = |n: usize| n - usize::from(n.is_multiple_of(2));
    for (c, plane) in out.chunks_exact_mut(area).enumerate() {
        let alpha = c == color(channels);
        let pixels = plane.iter_mut().zip(data.chunks_exact(own));
        match (alpha, color(own), color(channels)) {
            (true, from, _) if own > from => pixels.for_each(|(o, p)| *o = p[from].into()),
            (true, ..) => plane.fill(L::OPAQUE),
            (false, 3, 1) => pixels.for_each(|(o, p)| *o = L::gray([p[0], p[1], p[2]], png)),
            (false, 1, _) => pixels.for_each(|(o, p)| *o = p[0].into()),
            (false, ..) => pixels.for_each(|(o, p)| *o = p[c].into()),
        }
    }
}

multiversion! {
    /// Colours apart.
    fn split_colors<A>(data: &[u8], r: &mut [u8], g: &mut [u8], b: &mut [u8]) {
        let (pixels, _) = data.as_chunks::<3>();
        for (((p, r), g), b) in pixels.iter().zip(r).zip(g).zip(b) {
            (*r, *g, *b) = (p[0], p[1], p[2]);
        }
    }
}

/// Pixels of an image that is written, as a PNG file has them.
struct Pixels {
    data: Vec<u8>,
    width: usize,
    height: usize,
    channels: usize,
    deep: bool,
}

/// The pixels of an image for a PNG file, or for a JPEG file, which has neither opacity nor 16 bits.
#[track_caller]
fn pixels(op: &'static str, image: &Tensor, png: bool) -> Result<Pixels> {
    let refuse = || {
        let channels = if png { "1 to 4" } else { "1 or 3" };
        Err(TorshError::shape(
            op,
            format!(
                "expected an image [{channels}, height, width] with pixels, got {}",
                image.describe()
            ),
        ))
    };
    let [c, h, w] = *image.dims() else {
        return refuse();
    };
    let deep = png && image.dtype() == DType::I32;
    let known = matches!(c, 1 | 3) || png && matches!(c, 2 | 4);
    if !known || h == 0 || w == 0 {
        return refuse();
    }
    if image.dtype() != DType::U8 && !deep {
        return Err(
            TorshError::dtype(op, format!("expected uint8, got {}", image.describe())).with_hint(
                "transforms::functional::to_dtype(&image, DType::U8, true) converts and scales it; PNG files take int32 of 16 bits as well",
            ),
        );
    }
    let image = image.permute([1, 2, 0])?.contiguous()?;
    let data = match deep {
        false => image.to_vec::<u8>()?,
        true => {
            let word = |v: i32| {
                u16::try_from(v).map_err(|_| {
                    let why = format!("an int32 image has values from 0 to 65535, and one is {v}");
                    TorshError::invalid(op, why)
                })
            };
            let words = image.to_vec::<i32>()?.into_iter().map(word);
            let words = words.collect::<Result<Vec<u16>>>()?;
            words.into_iter().flat_map(u16::to_be_bytes).collect()
        }
    };
    Ok(Pixels {
        data,
        width: w,
        height: h,
        channels: c,
        deep,
    })
}

/// The bytes of a PNG file of an image of 1 to 4 channels, compressed at level 6: of 8 bits for uint8, of 16 bits for int32.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::io::{decode_image, encode_png};
/// let deep = tensor![[[0, 300, 65535]]].to_dtype(DType::I32)?;
/// assert_eq!(decode_image(&encode_png(&deep)?)?, deep);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Another dtype or shape, an image without pixels, and int32 values that 16 bits do not hold.
#[track_caller]
pub fn encode_png(image: &Tensor) -> Result<Vec<u8>> {
    encode_png_with(image, 6)
}

/// [`encode_png`] at a level of compression from 0, none, to 9.
///
/// # Errors
/// As [`encode_png`], and another level.
#[torsh_tensor::names_caller]
pub fn encode_png_with(image: &Tensor, compression_level: u8) -> Result<Vec<u8>> {
    const OP: &str = "encode_png";
    if compression_level > 9 {
        return Err(TorshError::invalid(
            OP,
            format!("the compression level must be from 0 to 9, got {compression_level}"),
        ));
    }
    let p = pixels(OP, image, true)?;
    codec::encode_png(
        &p.data,
        (p.width, p.height),
        p.channels,
        p.deep,
        compression_level,
    )
    .map_err(|e| TorshError::format(OP, e))
}

/// Writes an image of 1 to 4 channels as a PNG file.
///
/// # Errors
/// As [`encode_png`], and where the file cannot be written.
#[torsh_tensor::names_caller]
pub fn write_png(image: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let bytes = encode_png(image).map_err(|e| e.renamed("write_png"))?;
    std::fs::write(path, bytes).map_err(|e| io_error(path, e))
}

/// The bytes of a JPEG file of an image of 1 or 3 channels, of quality 75.
///
/// # Errors
/// Another dtype or shape, an image without pixels or with more than 65,535 on a side.
#[track_caller]
pub fn encode_jpeg(image: &Tensor) -> Result<Vec<u8>> {
    encode_jpeg_with(image, 75)
}

/// [`encode_jpeg`] of a quality from 1 to 100.
///
/// # Errors
/// As [`encode_jpeg`], and another quality.
#[torsh_tensor::names_caller]
pub fn encode_jpeg_with(image: &Tensor, quality: u8) -> Result<Vec<u8>> {
    const OP: &str = "encode_jpeg";
    if !(1..=100).contains(&quality) {
        return Err(TorshError::invalid(
            OP,
            format!("the quality must be from 1 to 100, got {quality}"),
        ));
    }
    let p = pixels(OP, image, false)?;
    let side = |n: usize| {
        u32::try_from(n).map_err(|_| TorshError::shape(OP, format!("{n} pixels are too many")))
    };
    let (width, height) = (side(p.width)?, side(p.height)?);
    let color = match p.channels {
        1 => ExtendedColorType::L8,
        _ => ExtendedColorType::Rgb8,
    };
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, quality)
        .encode(&p.data, width, height, color)
        .map_err(|e| TorshError::format(OP, e.to_string()))?;
    Ok(out)
}

/// Writes an image of 1 or 3 channels as a JPEG file of quality 75.
///
/// # Errors
/// As [`encode_jpeg`], and where the file cannot be written.
#[track_caller]
pub fn write_jpeg(image: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    write_jpeg_with(image, path, 75)
}

/// [`write_jpeg`] of a quality from 1 to 100.
///
/// # Errors
/// As [`encode_jpeg_with`], and where the file cannot be written.
#[torsh_tensor::names_caller]
pub fn write_jpeg_with(image: &Tensor, path: impl AsRef<Path>, quality: u8) -> Result<()> {
    let path = path.as_ref();
    let bytes = encode_jpeg_with(image, quality).map_err(|e| e.renamed("write_jpeg"))?;
    std::fs::write(path, bytes).map_err(|e| io_error(path, e))
}
