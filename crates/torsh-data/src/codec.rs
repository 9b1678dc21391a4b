//! PNG and JPEG files as bytes of pixels: the one decoder and encoder of this crate and of `torsh-vision`.
//!
//! The channels of a pixel follow one another (grey, grey and opacity, red to blue, or those and opacity), and a channel of
//! 16 bits is two bytes, the higher one first. A reason why a file cannot be read is a string, because the function that
//! was called names itself and the file.
//!
//! # Hostile files
//!
//! It is an error if a header claims more pixels than so many bytes can hold, or than fit into memory. This is checked before
//! anything is allocated for them. Text and colour profiles are not read, so they cannot grow either.

use std::fmt::Display;
use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The most bytes that one byte of a file stands for. Deflate makes 1,032 of one; a JPEG block of 64 numbers has at least
/// one bit, and other channels may have fewer blocks.
const RATIO: u64 = 2048;

/// A format of image files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
}

impl Format {
    /// The format that the first bytes tell.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Format::Png)
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Some(Format::Jpeg)
        } else {
            None
        }
    }
}

enum Decoder<'a> {
    Png(Box<png::Reader<Cursor<&'a [u8]>>>),
    Jpeg(Box<JpegDecoder<ZCursor<&'a [u8]>>>),
}

/// An image file whose header has been read and checked.
pub struct Picture<'a> {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// Channels of a pixel, 1 to 4. Palettes become colours, and so do CMYK and its relatives.
    pub channels: usize,
    /// Whether a channel has 16 bits, and not 8.
    pub deep: bool,
    /// How many bytes the pixels take.
    pub bytes: usize,
    decoder: Decoder<'a>,
}

impl<'a> Picture<'a> {
    /// Reads the header of a PNG or JPEG file; the first bytes tell which.
    pub fn open(file: &'a [u8]) -> Result<Picture<'a>, String> {
        match Format::of(file) {
            Some(Format::Png) => Picture::open_png(file),
            Some(Format::Jpeg) => Picture::open_jpeg(file),
            None => Err("the file is neither PNG nor JPEG".to_string()),
        }
    }

    fn open_png(file: &'a [u8]) -> Result<Picture<'a>, String> {
        // Palettes become colours, one colour that is to be seen through becomes opacity, fewer bits become 8.
        let reader = png_reader(file, png::Transformations::EXPAND)?;
        let (color, depth) = reader.output_color_type();
        let info = reader.info();
        let size = (info.width as usize, info.height as usize);
        let deep = depth == png::BitDepth::Sixteen;
        Picture::new(size, color.samples(), deep, Decoder::Png(Box::new(reader)))
    }

    fn open_jpeg(file: &'a [u8]) -> Result<Picture<'a>, String> {
        // A file that ends early is an image all the same, as for other decoders.
        let options = DecoderOptions::default()
            .set_strict_mode(false)
            .set_max_width(usize::MAX)
            .set_max_height(usize::MAX);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        decoder.decode_headers().map_err(|e| failed("JPEG", e))?;
        let size = decoder.dimensions().ok_or("the image has no size")?;
        let (color, channels) = match decoder.input_colorspace() {
            Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
            Some(ColorSpace::MultiBand(n)) => {
                return Err(format!("the image has {n} channels, which are no colours"));
            }
            _ => (ColorSpace::RGB, 3),
        };
        decoder.set_options(options.jpeg_set_out_colorspace(color));
        holds(size, total(size, channels), RATIO, file.len())?;
        Picture::new(size, channels, false, Decoder::Jpeg(Box::new(decoder)))
    }

    fn new(
        size: (usize, usize),
        channels: usize,
        deep: bool,
        decoder: Decoder<'a>,
    ) -> Result<Picture<'a>, String> {
        let bytes = fits(size, total(size, channels * (1 + usize::from(deep))))?;
        let (width, height) = size;
        Ok(Picture {
            width,
            height,
            channels,
            deep,
            bytes,
            decoder,
        })
    }

    /// How the image is to be turned, as EXIF numbers it from 1, not at all, to 8.
    pub fn orientation(&self) -> u8 {
        let exif = match &self.decoder {
            Decoder::Png(reader) => reader.info().exif_metadata.as_deref(),
            Decoder::Jpeg(decoder) => decoder.exif().map(Vec::as_slice),
        };
        exif.and_then(exif_orientation).unwrap_or(1)
    }

    /// Writes the pixels over as many [`bytes`](Picture::bytes).
    pub fn read(self, pixels: &mut [u8]) -> Result<(), String> {
        match self.decoder {
            Decoder::Png(mut reader) => reader
                .next_frame(pixels)
                .map(drop)
                .map_err(|e| failed("PNG", e)),
            Decoder::Jpeg(mut decoder) => {
                // The decoder leaves rows out where a file is damaged.
                pixels.fill(0);
                decoder.decode_into(pixels).map_err(|e| failed("JPEG", e))
            }
        }
    }
}

fn failed(format: &str, e: impl Display) -> String {
    format!("the {format} file cannot be decoded: {e}")
}

/// How many bytes an image takes, with so many for a pixel.
fn total((w, h): (usize, usize), pixel: usize) -> u64 {
    (w as u64)
        .saturating_mul(h as u64)
        .saturating_mul(pixel as u64)
}

/// An error where a file cannot hold an image that takes so many bytes, because each byte of it stands for at most `ratio`.
fn holds((w, h): (usize, usize), bytes: u64, ratio: u64, file: usize) -> Result<(), String> {
    if w == 0 || h == 0 {
        return Err(format!(
            "the header claims {w} x {h} pixels, and an image has at least one"
        ));
    }
    let most = ratio.saturating_mul(file as u64).saturating_add(1 << 16);
    if bytes > most {
        return Err(format!(
            "the header claims {w} x {h} pixels, which take {bytes} bytes: more than a file of {file} bytes can hold"
        ));
    }
    Ok(())
}

/// The bytes of an image, where they fit into memory twice: as the file has them and as a tensor.
fn fits((w, h): (usize, usize), bytes: u64) -> Result<usize, String> {
    let bytes = usize::try_from(bytes).map_err(|e| e.to_string())?;
    torsh_core::alloc::check(bytes, 2).map_err(|e| format!("{w} x {h} pixels: {e}"))?;
    Ok(bytes)
}

/// An error where a file of `file` bytes, each of which stands for at most `ratio`, cannot hold an image of this size that
/// takes so many bytes, or the memory cannot. For the decoders of other formats.
pub fn bounded(size: (usize, usize), bytes: u64, ratio: u64, file: usize) -> Result<usize, String> {
    holds(size, bytes, ratio, file)?;
    fits(size, bytes)
}

/// A decoder of a PNG file that has read what is ahead of the pixels.
fn png_reader(
    file: &[u8],
    changes: png::Transformations,
) -> Result<png::Reader<Cursor<&[u8]>>, String> {
    let failed = |e: png::DecodingError| failed("PNG", e);
    // What is allocated for pixels is checked below; the rest is not larger than the file.
    let limits = png::Limits { bytes: usize::MAX };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_transformations(changes);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let info = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (info.width, info.height);
    let row = (u64::from(width) * info.bits_per_pixel() as u64).div_ceil(8);
    let bytes = row.saturating_mul(u64::from(height));
    holds((width as usize, height as usize), bytes, RATIO, file.len())?;
    decoder.read_info().map_err(failed)
}

/// The numbers of a PNG file's pixels as the file has them, with width and height: the indices into its palette, or its
/// grey of up to 8 bits.
pub fn png_indices(file: &[u8]) -> Result<(Vec<u8>, usize, usize), String> {
    let mut reader = png_reader(file, png::Transformations::IDENTITY)?;
    let info = reader.info();
    let (width, height) = (info.width as usize, info.height as usize);
    let (color, bits) = (info.color_type, info.bit_depth as usize);
    let indices = matches!(color, png::ColorType::Indexed | png::ColorType::Grayscale);
    if !indices || bits > 8 {
        return Err(format!(
            "expected class numbers (a palette or grey of 8 bits), got {color:?} of {bits} bits"
        ));
    }
    let size = fits((width, height), total((width, height), 1))?;
    // At most as many bytes as pixels, but whole ones for each row.
    let mut data = vec![0; reader.output_buffer_size().unwrap_or(size)];
    let frame = reader.next_frame(&mut data).map_err(|e| failed("PNG", e))?;
    if bits == 8 {
        return Ok((data, width, height));
    }
    let (each, mask) = (8 / bits, (1u8 << bits) - 1);
    let mut pixels = Vec::with_capacity(size);
    for line in data.chunks_exact(frame.line_size) {
        let value = |x: usize| (line[x / each] >> (8 - bits * (x % each + 1))) & mask;
        pixels.extend((0..width).map(value));
    }
    Ok((pixels, width, height))
}

/// The orientation in EXIF data: the entry 0x112 of its first directory, if this is one number from 1 to 8.
fn exif_orientation(exif: &[u8]) -> Option<u8> {
    let big = match exif.first_chunk::<4>()? {
        b"II*\0" => false,
        b"MM\0*" => true,
        _ => return None,
    };
    let word = |from: &[u8]| {
        let bytes = *from.first_chunk()?;
        Some(match big {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        })
    };
    let long = |from: &[u8]| {
        let bytes = *from.first_chunk()?;
        Some(match big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    };
    let directory = exif.get(long(&exif[4..])? as usize..)?;
    let entries = usize::from(word(directory)?);
    // Tag, type, how many, and the value: the type 3 has 16 bits.
    for entry in directory[2..].chunks_exact(12).take(entries) {
        if (word(entry)?, word(&entry[2..])?, long(&entry[4..])?) == (0x112, 3, 1) {
            let value = u8::try_from(word(&entry[8..])?).ok()?;
            return (1..=8).contains(&value).then_some(value);
        }
    }
    None
}

/// Channels of 16 bits rounded to 8.
pub fn eight_bits(deep: &[u8]) -> Vec<u8> {
    let (words, _) = deep.as_chunks::<2>();
    words
        .iter()
        .map(|word| ((u32::from(u16::from_be_bytes(*word)) + 128) / 257) as u8)
        .collect()
}

/// The bytes of a PNG file of pixels of 1 to 4 channels, of 16 bits or of 8, compressed at a level from 0, not at all, to 9.
pub fn encode_png(
    pixels: &[u8],
    (width, height): (usize, usize),
    channels: usize,
    deep: bool,
    level: u8,
) -> Result<Vec<u8>, String> {
    let color = match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        n => return Err(format!("a PNG file has 1 to 4 channels, not {n}")),
    };
    let side = |n: usize| u32::try_from(n).map_err(|_| format!("{n} pixels are too many"));
    let failed = |e: png::EncodingError| e.to_string();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, side(width)?, side(height)?);
    encoder.set_color(color);
    encoder.set_depth(match deep {
        true => png::BitDepth::Sixteen,
        false => png::BitDepth::Eight,
    });
    encoder.set_deflate_compression(match level {
        0 => png::DeflateCompression::NoCompression,
        level => png::DeflateCompression::Level(level),
    });
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}
