//! Images.

use std::io::Cursor;
use std::path::PathBuf;

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb, Rgba};
use torsh_fuzz::Target;
use torsh_tensor::DType;
use torsh_vision::io::{
    ImageReadMode, ReadOptions, decode_image, decode_image_with, encode_jpeg, encode_png,
};

const MODES: [ImageReadMode; 5] = [
    ImageReadMode::Unchanged,
    ImageReadMode::Gray,
    ImageReadMode::GrayAlpha,
    ImageReadMode::Rgb,
    ImageReadMode::RgbAlpha,
];

/// Writes the checksums of a PNG file's chunks anew: without them most changes there would end at once.
pub fn mend_png(bytes: &mut [u8]) {
    if !bytes.starts_with(&[0x89, b'P', b'N', b'G']) {
        return;
    }
    let mut rest = bytes.get_mut(8..).unwrap_or_default();
    while let Some(length) = rest.first_chunk() {
        // The length, the name and the data of a chunk, and the checksum of name and data.
        let end = (u32::from_be_bytes(*length) as usize).saturating_add(8);
        let Some((chunk, after)) = rest.split_at_mut_checked(end) else {
            return;
        };
        let Some((sum, after)) = after.split_first_chunk_mut() else {
            return;
        };
        *sum = torsh_serialize::crc32(&chunk[4..]).to_be_bytes();
        rest = after;
    }
}

fn file(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// Images of a format, of the kinds that it has.
fn target(name: &'static str, files: Vec<Vec<u8>>) -> Target {
    Target::new(name, files, |bytes, random| {
        let mut bytes = bytes.to_vec();
        if random.coin() {
            mend_png(&mut bytes);
        }
        let options = ReadOptions::new()
            .mode(*random.one(&MODES))
            .apply_exif_orientation(random.coin())
            .eight_bits(random.coin());
        match decode_image_with(&bytes, options) {
            Ok(image) => {
                let what = image.describe();
                let [.., c, h, w] = *image.dims() else {
                    panic!("{what} is no image");
                };
                assert!((1..=4).contains(&c) && h > 0 && w > 0, "{what}");
                // What was read can be written.
                if image.ndim() == 3 && image.dtype() == DType::U8 && image.numel() < 1 << 16 {
                    assert_eq!(decode_image(&encode_png(&image).unwrap()).unwrap(), image);
                    assert_eq!(encode_jpeg(&image).is_ok(), c == 1 || c == 3);
                }
                Ok(())
            }
            Err(e) => {
                let text = e.to_string();
                assert!(text.starts_with("decode_image: "), "{text}");
                Err(text)
            }
        }
    })
    .header()
}

pub fn targets() -> Vec<Target> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let committed = |name: &str| std::fs::read(data.join(name)).unwrap();
    let wide = |x: u32, y: u32| Rgb([(x * 4000) as u16, (y * 5000) as u16, 60_000]);
    let wide = file(ImageBuffer::from_fn(16, 12, wide), ImageFormat::Png);
    let deep = |x: u32, y: u32| Luma([(x * 300 + y) as u16]);
    let deep = file(ImageBuffer::from_fn(9, 7, deep), ImageFormat::Png);
    let color = |x: u32, y: u32| Rgba([(x * 16) as u8, (y * 20) as u8, 90, (x * y) as u8]);
    let colors = |format| file(ImageBuffer::from_fn(15, 11, color), format);
    // One that a palette of grey describes.
    let gray = ImageBuffer::from_fn(8, 8, |x, y| Luma([(x * y * 4) as u8]));
    let gray = file(gray, ImageFormat::Bmp);
    vec![
        target(
            "png",
            vec![committed("rgba.png"), wide, deep, colors(ImageFormat::Png)],
        ),
        target(
            "jpeg",
            vec![committed("cmyk.jpeg"), committed("turned.jpeg")],
        ),
        target(
            "gif",
            vec![
                committed("still.gif"),
                committed("moving.gif"),
                colors(ImageFormat::Gif),
            ],
        ),
        target(
            "webp",
            vec![committed("still.webp"), colors(ImageFormat::WebP)],
        ),
        target(
            "bmp",
            vec![committed("still.bmp"), colors(ImageFormat::Bmp), gray],
        ),
    ]
}
