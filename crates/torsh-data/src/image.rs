//! Image files: PNG and JPEG are read, PNG is written.

use std::io::Cursor;
use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

const PNG_SIGNATURE: &[u8] = b"\x89PNG";
const JPEG_SIGNATURE: &[u8] = b"\xff\xd8\xff";

/// An error that names the file.
fn io_error(path: &Path, e: std::io::Error) -> TorshError {
    TorshError::from(std::io::Error::new(
        e.kind(),
        format!("{}: {e}", path.display()),
    ))
}

/// Reads a PNG or JPEG file as colours, uint8 `[3, height, width]`
/// (`torchvision.io.decode_image` of a path with `mode="RGB"`).
///
/// # Errors
/// As [`decode_image`], and where the file cannot be read. They name the file.
#[torsh_tensor::names_caller]
pub fn read_image(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|e| io_error(path, e))?;
    torsh_core::check_git_lfs("read_image", path.display(), &bytes)?;
    let (rgb, width, height) = decode(&bytes)
        .map_err(|e| TorshError::format("read_image", format!("{}: {e}", path.display())))?;
    planes(&rgb, width, height)
}

/// Decodes the bytes of a PNG or JPEG file as colours, uint8 `[3, height, width]`
/// (`torchvision.io.decode_image` with `mode="RGB"`). The content tells the format.
///
/// Grey images get three equal channels, transparency is dropped, channels of 16 bits are rounded to 8.
///
/// # Errors
/// The bytes are neither format, or are damaged, or the image does not fit into memory.
///
/// ```
/// use torsh_data::{decode_image, encode_png};
/// use torsh_tensor::{DType, Result, tensor};
/// # fn main() -> Result<()> {
/// let image = tensor![[[10, 20]], [[30, 40]], [[50, 60]]].to_dtype(DType::U8)?;
/// assert_eq!(decode_image(&encode_png(&image)?)?, image);
/// # Ok(())
/// # }
/// ```
#[torsh_tensor::names_caller]
pub fn decode_image(bytes: &[u8]) -> Result<Tensor> {
    torsh_core::check_git_lfs("decode_image", "the image", bytes)?;
    let (rgb, width, height) = decode(bytes).map_err(|e| TorshError::format("decode_image", e))?;
    planes(&rgb, width, height)
}

/// Interleaved colours as a tensor of planes.
fn planes(rgb: &[u8], width: usize, height: usize) -> Result<Tensor> {
    Tensor::from_slice(rgb, [height, width, 3], DType::U8, Device::Cpu)?
        .permute([2, 0, 1])?
        .contiguous()
}

/// Interleaved colours with width and height.
fn decode(bytes: &[u8]) -> std::result::Result<(Vec<u8>, usize, usize), String> {
    if bytes.starts_with(PNG_SIGNATURE) {
        decode_png(bytes)
    } else if bytes.starts_with(JPEG_SIGNATURE) {
        decode_jpeg(bytes)
    } else {
        Err("the file is neither PNG nor JPEG".to_string())
    }
}

fn decode_png(bytes: &[u8]) -> std::result::Result<(Vec<u8>, usize, usize), String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    // Palettes become colours, fewer bits become 8.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let size = reader
        .output_buffer_size()
        .ok_or("the image is larger than the address space")?;
    torsh_core::alloc::check(size, 1).map_err(|e| e.to_string())?;
    let mut data = vec![0; size];
    let frame = reader.next_frame(&mut data).map_err(|e| e.to_string())?;
    data.truncate(frame.buffer_size());
    if frame.bit_depth == png::BitDepth::Sixteen {
        data = data
            .chunks_exact(2)
            .map(|b| ((u32::from(u16::from_be_bytes([b[0], b[1]])) + 128) / 257) as u8)
            .collect();
    }
    let (width, height) = (frame.width as usize, frame.height as usize);
    let rgb = match frame.color_type {
        png::ColorType::Rgb => data,
        png::ColorType::Rgba => data
            .chunks_exact(4)
            .flat_map(|p| [p[0], p[1], p[2]])
            .collect(),
        png::ColorType::Grayscale => data.iter().flat_map(|&v| [v; 3]).collect(),
        png::ColorType::GrayscaleAlpha => data.chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        png::ColorType::Indexed => return Err("a palette that is not there".to_string()),
    };
    Ok((rgb, width, height))
}

fn decode_jpeg(bytes: &[u8]) -> std::result::Result<(Vec<u8>, usize, usize), String> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| e.to_string())?;
    let info = decoder.info().ok_or("the image has no size")?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    torsh_core::alloc::check(width * height, 3).map_err(|e| e.to_string())?;
    let rgb = decoder.decode().map_err(|e| e.to_string())?;
    if rgb.len() != 3 * width * height {
        return Err("the image's colours cannot be converted to RGB".to_string());
    }
    Ok((rgb, width, height))
}

/// The bytes of a PNG file of an image, uint8 `[1, height, width]` (grey) or `[3, height, width]`
/// (`torchvision.io.encode_png`).
///
/// # Errors
/// Another dtype or shape, or an image without pixels.
#[torsh_tensor::names_caller]
pub fn encode_png(image: &Tensor) -> Result<Vec<u8>> {
    encode(image, "encode_png")
}

/// Writes an image, uint8 `[1, height, width]` (grey) or `[3, height, width]`, as a PNG file
/// (`torchvision.io.write_png`).
///
/// # Errors
/// As [`encode_png`], and where the file cannot be written.
#[torsh_tensor::names_caller]
pub fn write_png(image: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let bytes = encode(image, "write_png")?;
    std::fs::write(path, bytes).map_err(|e| io_error(path, e))
}

#[track_caller]
fn encode(image: &Tensor, op: &'static str) -> Result<Vec<u8>> {
    let color = match image.dims() {
        [1, _, _] => png::ColorType::Grayscale,
        [3, _, _] => png::ColorType::Rgb,
        _ => {
            return Err(TorshError::shape(
                op,
                format!(
                    "expected an image [1 or 3, height, width], but got {:?}",
                    image.dims()
                ),
            ));
        }
    };
    if image.dtype() != DType::U8 {
        return Err(
            TorshError::dtype(op, format!("expected uint8, but got {}", image.dtype()))
                .with_hint("scale to 0..=255 and convert with to_dtype(DType::U8)"),
        );
    }
    let data = image.permute([1, 2, 0])?.contiguous()?.to_vec::<u8>()?;
    let failed = |e: png::EncodingError| TorshError::format(op, e.to_string());
    let size = |n: usize| {
        u32::try_from(n).map_err(|_| TorshError::shape(op, format!("{n} pixels are too many")))
    };
    let (height, width) = (size(image.dims()[1])?, size(image.dims()[2])?);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&data).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}
