//! Changes image files at random: whatever comes of it is read or is an error, within bounded memory.
//!
//! The same changes each time; `TORSH_FUZZ_SECONDS` goes on for longer with others.

use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb, Rgba};
use torsh_tensor::DType;
use torsh_vision::io::{
    ImageReadMode, ReadOptions, decode_image, decode_image_with, encode_jpeg, encode_png,
};

/// Rounds per file.
const ROUNDS: usize = 150;

/// More than reading images of a few hundred pixels may take.
const MEMORY: usize = 1 << 30;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
}

fn file(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// Files of each format and of the kinds that each has.
fn corpus() -> Vec<Vec<u8>> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let names = [
        "rgba.png",
        "cmyk.jpeg",
        "turned.jpeg",
        "still.gif",
        "moving.gif",
        "still.webp",
        "still.bmp",
    ];
    let mut all: Vec<Vec<u8>> = names
        .iter()
        .map(|name| std::fs::read(data.join(name)).unwrap())
        .collect();
    let wide = |x: u32, y: u32| Rgb([(x * 4000) as u16, (y * 5000) as u16, 60_000]);
    all.push(file(ImageBuffer::from_fn(16, 12, wide), ImageFormat::Png));
    let deep = |x: u32, y: u32| Luma([(x * 300 + y) as u16]);
    all.push(file(ImageBuffer::from_fn(9, 7, deep), ImageFormat::Png));
    let color = |x: u32, y: u32| Rgba([(x * 16) as u8, (y * 20) as u8, 90, (x * y) as u8]);
    let colors = ImageBuffer::from_fn(15, 11, color);
    for format in [
        ImageFormat::WebP,
        ImageFormat::Bmp,
        ImageFormat::Gif,
        ImageFormat::Png,
    ] {
        all.push(file(colors.clone(), format));
    }
    // One that a palette of grey describes.
    let gray = ImageBuffer::from_fn(8, 8, |x, y| Luma([(x * y * 4) as u8]));
    all.push(file(gray, ImageFormat::Bmp));
    all
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    // Numbers that lengths and sizes are wrong with, in both orders of their bytes.
    const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
    for _ in 0..=random.below(5) {
        if bytes.is_empty() {
            return;
        }
        // Headers decide most.
        let whole = random.below(2) == 0;
        let at = random.below(if whole {
            bytes.len()
        } else {
            bytes.len().min(64)
        });
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let edge = EDGES[random.below(8)];
                let n = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                match random.below(2) {
                    0 => bytes[at..at + n].copy_from_slice(&edge.to_le_bytes()[..n]),
                    _ => bytes[at..at + n].copy_from_slice(&edge.to_be_bytes()[8 - n..]),
                }
            }
            3 => bytes.truncate(at.max(1)),
            4 => {
                let n = random.below(32).min(bytes.len() - at);
                bytes.drain(at..at + n);
            }
            5 => {
                let n = random.below(32).min(bytes.len() - at);
                let part = bytes[at..at + n].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let from = random.below(other.len());
                let n = random.below(64).min(other.len() - from);
                bytes.splice(at..at, other[from..from + n].iter().copied());
            }
        }
    }
}

/// Writes the checksum of a PNG file's header anew: without it most changes there would end at once.
fn mend_png(bytes: &mut [u8]) {
    if bytes.len() < 33 || !bytes.starts_with(&[0x89, b'P', b'N', b'G']) {
        return;
    }
    let sum = torsh_serialize::crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&sum.to_be_bytes());
}

/// The most memory this process ever had, where the system tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<usize>()
        .ok()
        .map(|kib| kib << 10)
}

#[test]
fn changed_images_are_read_or_refused() {
    const MODES: [ImageReadMode; 5] = [
        ImageReadMode::Unchanged,
        ImageReadMode::Gray,
        ImageReadMode::GrayAlpha,
        ImageReadMode::Rgb,
        ImageReadMode::RgbAlpha,
    ];
    let corpus = corpus();
    assert!(corpus.iter().all(|bytes| decode_image(bytes).is_ok()));
    let seconds = std::env::var("TORSH_FUZZ_SECONDS").map_or(0, |s| s.parse().unwrap());
    let (start, longer) = (Instant::now(), Duration::from_secs(seconds));
    let mut random = Random(0x5eed);
    let (mut read, mut refused, mut round) = (0u64, 0u64, 0);
    while round < ROUNDS || start.elapsed() < longer {
        for whole in &corpus {
            let mut bytes = whole.clone();
            let other = &corpus[random.below(corpus.len())];
            change(&mut bytes, other, &mut random);
            if random.below(2) == 0 {
                mend_png(&mut bytes);
            }
            let options = ReadOptions::new()
                .mode(MODES[random.below(MODES.len())])
                .apply_exif_orientation(round % 2 == 0)
                .eight_bits(random.below(2) == 0);
            match decode_image_with(&bytes, options) {
                Ok(image) => {
                    read += 1;
                    let [.., c, h, w] = *image.dims() else {
                        panic!("{} is no image", image.describe());
                    };
                    assert!(
                        (1..=4).contains(&c) && h > 0 && w > 0,
                        "{}",
                        image.describe()
                    );
                    // What was read can be written.
                    if image.ndim() == 3 && image.dtype() == DType::U8 && image.numel() < 1 << 16 {
                        assert_eq!(decode_image(&encode_png(&image).unwrap()).unwrap(), image);
                        assert_eq!(encode_jpeg(&image).is_ok(), c == 1 || c == 3);
                    }
                }
                Err(e) => {
                    refused += 1;
                    let text = e.to_string();
                    assert!(text.starts_with("decode_image: "), "{text}");
                    assert!(text.len() < 4096, "{text}");
                }
            }
        }
        round += 1;
    }
    println!("{read} read, {refused} refused");
    assert!(read > 0 && refused > 0);
    if let Some(peak) = peak() {
        assert!(peak < MEMORY, "{peak} bytes");
    }
}
