//! Image files: PNG and JPEG are read, PNG is written.

use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::codec::{self, Picture};

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
    let pixels = decode(&bytes)
        .map_err(|e| TorshError::format("read_image", format!("{}: {e}", path.display())))?;
    colors(pixels)
}

/// Decodes the bytes of a PNG or JPEG file as colours, uint8 `[3, height, width]`
/// (`torchvision.io.decode_image` with `mode="RGB"`). The content tells the format.
///
/// Grey images get three equal channels, transparency is dropped, channels of 16 bits are rounded to 8.
///
/// # Errors
/// The bytes are neither format, or are damaged, or claim more pixels than they can hold or than fit into memory.
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
    let pixels = decode(bytes).map_err(|e| TorshError::format("decode_image", e))?;
    colors(pixels)
}

/// Pixels of 8 bits for each channel, and how they lie: height, width and channels.
fn decode(bytes: &[u8]) -> std::result::Result<(Vec<u8>, [usize; 3]), String> {
    let picture = Picture::open(bytes)?;
    let shape = [picture.height, picture.width, picture.channels];
    let deep = picture.deep;
    let mut data = vec![0; picture.bytes];
    picture.read(&mut data)?;
    Ok((if deep { codec::eight_bits(&data) } else { data }, shape))
}

/// The colours of pixels as planes.
fn colors((pixels, shape): (Vec<u8>, [usize; 3])) -> Result<Tensor> {
    let [height, width, channels] = shape;
    let planes = Tensor::from_slice(&pixels, shape, DType::U8, Device::Cpu)?.permute([2, 0, 1])?;
    // Grey or colours come first, opacity behind them.
    let colors = if channels < 3 { 1 } else { 3 };
    planes
        .narrow(0, 0, colors)?
        .expand([3, height, width])?
        .contiguous()
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
    let &[channels @ (1 | 3), height, width] = image.dims() else {
        return Err(TorshError::shape(
            op,
            format!(
                "expected an image [1 or 3, height, width], but got {:?}",
                image.dims()
            ),
        ));
    };
    if image.dtype() != DType::U8 {
        return Err(
            TorshError::dtype(op, format!("expected uint8, but got {}", image.dtype()))
                .with_hint("scale to 0..=255 and convert with to_dtype(DType::U8)"),
        );
    }
    let data = image.permute([1, 2, 0])?.contiguous()?.to_vec::<u8>()?;
    codec::encode_png(&data, (width, height), channels, false, 6)
        .map_err(|e| TorshError::format(op, e))
}
