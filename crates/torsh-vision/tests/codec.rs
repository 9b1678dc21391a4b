//! PNG and JPEG files of all kinds: the crate `image` reads the same of them, and so does `torsh-data`.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use image::{ImageDecoder, ImageReader};
use torsh_data::codec::{Format, Picture};
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_vision::io::{
    ImageReadMode, ReadOptions, decode_image, decode_image_with, encode_jpeg, encode_png,
    load_image,
};

/// A chunk of a PNG file.
fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(data);
    let length = (data.len() as u32).to_be_bytes();
    [&length[..], name, data, &sum.sum().to_be_bytes()].concat()
}

/// Adam7: where the pixels of a pass begin, and how far apart they are.
const PASSES: [[usize; 4]; 7] = [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
];

/// A PNG file of 13 x 11 pixels that differ, of PNG's number of a kind of colours, and with one that is to be seen through.
fn png(kind: u8, bits: usize, interlaced: bool, transparent: bool) -> Vec<u8> {
    let (width, height) = (13usize, 11usize);
    let samples = [1, 0, 3, 1, 2, 0, 4][usize::from(kind)];
    let whole = [[0, 0, 1, 1]];
    let passes = if interlaced { &PASSES[..] } else { &whole };
    let mut lines = Vec::new();
    for &[x, y, across, down] in passes {
        let row = (width - x).div_ceil(across) * samples * bits;
        for _ in 0..(height - y).div_ceil(down) {
            // No filter, as PNG calls it.
            lines.push(0);
            let from = lines.len();
            lines.extend((0..row.div_ceil(8)).map(|i| ((from + i) * 37 % 251) as u8));
        }
    }
    let mut header = [(width as u32).to_be_bytes(), (height as u32).to_be_bytes()].concat();
    header.extend([bits as u8, kind, 0, 0, u8::from(interlaced)]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &header));
    if kind == 3 {
        let palette: Vec<u8> = (0..3usize << bits).map(|i| (i * 91 % 256) as u8).collect();
        file.extend(chunk(b"PLTE", &palette));
    }
    if transparent {
        let first = &lines[1..];
        let clear = match (kind, bits) {
            (3, _) => vec![0, 200],
            (_, 16) => first[..2 * samples].to_vec(),
            (_, 8) => first[..samples].iter().flat_map(|v| [0, *v]).collect(),
            _ => vec![0, 1],
        };
        file.extend(chunk(b"tRNS", &clear));
    }
    let mut data = ZlibEncoder::new(Vec::new(), Compression::fast());
    data.write_all(&lines).expect("memory");
    file.extend(chunk(b"IDAT", &data.finish().expect("memory")));
    file.extend(chunk(b"IEND", &[]));
    file
}

fn committed(path: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Files with their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let pngs = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16)];
    let others = [
        (3, 1),
        (3, 2),
        (3, 4),
        (3, 8),
        (4, 8),
        (4, 16),
        (6, 8),
        (6, 16),
    ];
    for (kind, bits) in pngs.into_iter().chain(others) {
        for interlaced in [false, true] {
            for transparent in [false, true] {
                // These have opacity of their own.
                if transparent && kind >= 4 {
                    continue;
                }
                let name = format!(
                    "PNG of kind {kind}, {bits} bits, interlaced: {interlaced}, transparent: {transparent}"
                );
                all.push((name, png(kind, bits, interlaced, transparent)));
            }
        }
    }
    for path in [
        "tests/data/rgba.png",
        "tests/data/cmyk.jpeg",
        "tests/data/turned.jpeg",
        "../torsh-data/tests/data/colours.jpeg",
        "../torsh-data/tests/data/grey.jpeg",
        "../torsh-data/tests/data/grey16.png",
        "../torsh-data/tests/data/grey_alpha.png",
        "../torsh-data/tests/data/interlaced.png",
        "../torsh-data/tests/data/palette.png",
    ] {
        all.push((path.to_string(), committed(path)));
    }
    // The same numbers as brightness and colours in place of CMYK.
    let mut ycck = committed("tests/data/cmyk.jpeg");
    let adobe = ycck.windows(5).position(|w| w == b"Adobe");
    ycck[adobe.expect("a segment of Adobe's") + 11] = 2;
    all.push(("a JPEG file of YCCK".to_string(), ycck));
    all
}

/// An image as the crate `image` reads it, and EXIF's number of its orientation.
fn reference(file: &[u8]) -> Result<(Tensor, u8)> {
    let reader = ImageReader::new(Cursor::new(file));
    let mut decoder = reader
        .with_guessed_format()?
        .into_decoder()
        .expect("an image");
    let (width, height) = decoder.dimensions();
    let color = decoder.color_type();
    let orientation = decoder.orientation().expect("an orientation").to_exif();
    let mut bytes = vec![0; decoder.total_bytes() as usize];
    decoder.read_image(&mut bytes).expect("pixels");
    let channels = usize::from(color.channel_count());
    let shape = [height as usize, width as usize, channels];
    let image = match usize::from(color.bytes_per_pixel()) == channels {
        true => Tensor::from_slice(&bytes, shape, DType::U8, Device::Cpu)?,
        false => {
            let (words, _) = bytes.as_chunks::<2>();
            let words = words.iter().map(|w| i32::from(u16::from_ne_bytes(*w)));
            Tensor::from_data(&words.collect::<Vec<i32>>(), shape)?
        }
    };
    Ok((image.permute([2, 0, 1])?, orientation))
}

#[test]
fn every_decoder_reads_the_same() -> Result<()> {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, file) in files() {
        let (want, _) = reference(&file)?;
        let image = decode_image(&file)?;
        assert_eq!(image.dtype(), want.dtype(), "{name}");
        assert_eq!(image, want, "{name}");
        let options = ReadOptions::new().mode(ImageReadMode::Rgb).eight_bits(true);
        let colors = decode_image_with(&file, options)?;
        assert_eq!(torsh_data::decode_image(&file)?, colors, "{name}");
        kinds.insert((
            Format::of(&file).map(|f| f == Format::Png),
            image.dims()[0],
            want.dtype().size(),
        ));
    }
    // PNG of 1 to 4 channels, of 8 and 16 bits, JPEG in grey and colours.
    assert_eq!(kinds.len(), 4 * 2 + 2, "{kinds:?}");
    Ok(())
}

#[test]
fn pngs_are_written_as_the_crate_image_writes_them() -> Result<()> {
    use image::codecs::png::{CompressionType, FilterType, PngEncoder};
    let pixels: Vec<u8> = (0..20 * 30 * 3).map(|i| (i * i / 7 % 256) as u8).collect();
    let mut want = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut want, CompressionType::Level(6), FilterType::Adaptive);
    let kind = image::ExtendedColorType::Rgb8;
    image::ImageEncoder::write_image(encoder, &pixels, 30, 20, kind).expect("a file");
    let image = Tensor::from_slice(&pixels, [20, 30, 3], DType::U8, Device::Cpu)?;
    let image = image.permute([2, 0, 1])?;
    assert_eq!(encode_png(&image)?, want);
    assert_eq!(torsh_data::encode_png(&image)?, want);
    Ok(())
}

/// EXIF data of one directory with an entry before the orientation.
fn exif(big: bool, orientation: u16) -> Vec<u8> {
    let words = |all: &[u16]| -> Vec<u8> {
        let bytes = |w: &u16| {
            if big {
                w.to_be_bytes()
            } else {
                w.to_le_bytes()
            }
        };
        all.iter().flat_map(bytes).collect()
    };
    let long = |v: u16| if big { [0, v] } else { [v, 0] };
    let [a, b] = long(8);
    let [c, d] = long(1);
    let mut out = if big { b"MM\0*" } else { b"II*\0" }.to_vec();
    out.extend(words(&[a, b, 2]));
    out.extend(words(&[0x0100, 3, c, d, 9, 0]));
    out.extend(words(&[0x0112, 3, c, d, orientation, 0]));
    out.extend([0; 4]);
    out
}

#[test]
fn orientations_are_those_of_the_crate_image() -> Result<()> {
    let image = torsh_tensor::arange(0, 3 * 4 * 6, 1).reshape([3, 4, 6])?;
    let image = image.to_dtype(DType::U8)?;
    let (plain, jpeg) = (encode_png(&image)?, encode_jpeg(&image)?);
    // Behind the header, which has 33 bytes.
    let in_png = |exif: &[u8]| [&plain[..33], &chunk(b"eXIf", exif), &plain[33..]].concat();
    let in_jpeg = |exif: &[u8]| {
        let length = (8 + exif.len() as u16).to_be_bytes();
        let segment = [&[0xff, 0xe1], &length[..], b"Exif\0\0", exif].concat();
        [&jpeg[..2], &segment, &jpeg[2..]].concat()
    };
    let mut seen = Vec::new();
    for big in [false, true] {
        for number in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 262, 65_535] {
            let all = exif(big, number);
            for file in [in_png(&all), in_jpeg(&all)] {
                let known = Picture::open(&file).expect("an image").orientation();
                assert_eq!(known, reference(&file)?.1, "{number}, big: {big}");
                seen.push(known);
            }
        }
        // Cut off, and of another type.
        let all = exif(big, 6);
        let mut wide = all.clone();
        wide[24..26].copy_from_slice(&[4, 4]);
        for cut in (0..all.len()).map(|n| &all[..n]).chain([&wide[..]]) {
            for file in [in_png(cut), in_jpeg(cut)] {
                let known = Picture::open(&file).expect("an image").orientation();
                assert_eq!(known, reference(&file)?.1, "{} bytes", cut.len());
            }
        }
    }
    assert_eq!(seen.len(), 2 * 12 * 2);
    assert!((1..=8).all(|n| seen.iter().filter(|s| **s == n).count() >= 4));

    // What is turned is what is shown.
    let turned = [
        image.clone(),
        image.flip(-1)?,
        image.rot90(2, [-2, -1])?,
        image.flip(-2)?,
        image.transpose(-2, -1)?,
        image.rot90(-1, [-2, -1])?,
        image.rot90(2, [-2, -1])?.transpose(-2, -1)?,
        image.rot90(1, [-2, -1])?,
    ];
    let path = std::env::temp_dir().join(format!("torsh-vision-turned-{}.png", std::process::id()));
    for (number, want) in (1..).zip(turned) {
        std::fs::write(&path, in_png(&exif(true, number)))?;
        assert_eq!(load_image(&path)?, want, "{number}");
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

/// What a damaged file lacks is not what the image read before had there.
#[test]
fn damaged_files_are_read_the_same_each_time() -> Result<()> {
    let shape = [3, 16, 24];
    let others = [0u8, 255].map(|v| Tensor::full(shape, v, DType::U8, Device::Cpu));
    let [dark, bright] = others;
    let others = [encode_jpeg(&dark?)?, encode_jpeg(&bright?)?];
    for name in ["turned.jpeg", "cmyk.jpeg"] {
        let whole = committed(&format!("tests/data/{name}"));
        let mut files = Vec::new();
        for at in 2..whole.len() {
            for change in [0x01, 0x55, 0xff] {
                let mut file = whole.clone();
                file[at] ^= change;
                files.push(file);
            }
        }
        // A second scan begins before the first one ends: the decoder stops there, and leaves the rest as it was.
        let start = whole.windows(2).position(|w| w == [0xff, 0xda]);
        let start = start.expect("a scan");
        let data = start + 2 + usize::from(whole[start + 3]);
        for at in data..whole.len() {
            files.push([&whole[..at], &whole[start..data], &whole[at..]].concat());
        }
        for (i, file) in files.iter().enumerate() {
            let read = |other: &[u8]| {
                decode_image(other)?;
                Ok::<_, torsh_tensor::TorshError>(decode_image(file).ok())
            };
            let [first, second] = [read(&others[0])?, read(&others[1])?];
            assert_eq!(first, second, "{name}, change {i}");
        }
    }
    Ok(())
}
