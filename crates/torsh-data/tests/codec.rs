//! The decoder and encoder of PNG and JPEG. The tests of `torsh-vision` compare them with those of the crate `image`.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use torsh_data::codec::{Picture, encode_png, png_indices};
use torsh_data::decode_image;
use torsh_tensor::Result;

/// A chunk of a PNG file.
fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(data);
    let length = (data.len() as u32).to_be_bytes();
    [&length[..], name, data, &sum.sum().to_be_bytes()].concat()
}

/// A PNG file of one bit for each pixel, all of them the same, whose header claims this size.
fn blank((width, height): (u32, u32), rows: usize, row: usize) -> Vec<u8> {
    let mut lines = ZlibEncoder::new(Vec::new(), Compression::best());
    lines.write_all(&vec![0; rows * (1 + row)]).expect("memory");
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([1, 0, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &header));
    file.extend(chunk(b"IDAT", &lines.finish().expect("memory")));
    file.extend(chunk(b"IEND", &[]));
    file
}

#[test]
fn headers_that_claim_too_much_are_refused() -> Result<()> {
    let refused = |file: &[u8], size: &str| {
        let e = decode_image(file).expect_err(size).to_string();
        let known = format!("decode_image: the header claims {size} pixels");
        assert!(e.starts_with(&known), "{e}");
        let held = format!("more than a file of {} bytes can hold", file.len());
        assert!(e.contains(&held), "{e}");
    };
    let side = (1 << 31) - 1;
    refused(&blank((side, side), 1, 1), "2147483647 x 2147483647");
    refused(&blank((1 << 21, 1 << 21), 1, 1), "2097152 x 2097152");
    // One row of 2 GiB: nothing is allocated for it either.
    refused(&blank((side, 8), 1, 1), "2147483647 x 8");
    let mut jpeg = include_bytes!("data/colours.jpeg").to_vec();
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]);
    let size = frame.expect("a frame") + 5;
    jpeg[size..size + 4].copy_from_slice(&[0xff; 4]);
    refused(&jpeg, "65535 x 65535");

    // An empty page is much smaller than its pixels, and is read.
    let page = blank((1600, 2000), 2000, 200);
    assert!(page.len() < 1000, "{}", page.len());
    let page = decode_image(&page)?;
    assert_eq!(page.dims(), [3, 2000, 1600]);
    assert_eq!(page.max()?.item::<i64>()?, 0);
    Ok(())
}

fn read(file: &[u8]) -> (Vec<u8>, usize, bool) {
    let picture = Picture::open(file).expect("an image");
    let (channels, deep) = (picture.channels, picture.deep);
    let numbers = picture.width * picture.height * channels;
    assert_eq!(picture.bytes, numbers * if deep { 2 } else { 1 });
    assert_eq!(picture.orientation(), 1);
    let mut pixels = vec![7; picture.bytes];
    picture.read(&mut pixels).expect("pixels");
    (pixels, channels, deep)
}

#[test]
fn files_keep_their_channels() {
    let rgb = [255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 100, 50];
    assert_eq!(
        read(include_bytes!("data/rgb.png")),
        (rgb.to_vec(), 3, false)
    );
    assert_eq!(
        read(include_bytes!("data/palette.png")),
        (rgb.to_vec(), 3, false)
    );
    assert_eq!(
        read(include_bytes!("data/interlaced.png")),
        (rgb.to_vec(), 3, false)
    );
    let rgba = read(include_bytes!("data/rgba.png"));
    assert_eq!((&rgba.0[..4], rgba.1), (&[255, 0, 0, 255][..], 4));
    assert_eq!(
        read(include_bytes!("data/grey2.png")),
        (vec![0, 85, 170, 255], 1, false)
    );
    assert_eq!(
        read(include_bytes!("data/grey16.png")),
        (vec![0, 0, 85, 85, 170, 170, 255, 255], 1, true)
    );
    assert_eq!(
        read(include_bytes!("data/grey_alpha.png")),
        (vec![0, 9, 85, 200, 170, 0, 255, 255], 2, false)
    );
    let (grey, channels, deep) = read(include_bytes!("data/grey.jpeg"));
    assert_eq!((grey, channels, deep), (vec![128; 16], 1, false));
    let (colours, channels, _) = read(include_bytes!("data/colours.jpeg"));
    assert_eq!((colours.len(), channels), (16 * 24 * 3, 3));
}

#[test]
fn pngs_of_all_kinds_come_back() {
    let pixels: Vec<u8> = (0..5 * 3 * 8).map(|i| (i * 7 % 256) as u8).collect();
    for channels in 1..=4 {
        for deep in [false, true] {
            let pixels = &pixels[..15 * channels * if deep { 2 } else { 1 }];
            let mut sizes = Vec::new();
            for level in [0, 1, 6, 9] {
                let file = encode_png(pixels, (5, 3), channels, deep, level).expect("a file");
                assert_eq!(read(&file), (pixels.to_vec(), channels, deep));
                sizes.push(file.len());
            }
            assert!(sizes[0] >= sizes[3], "{sizes:?}");
        }
    }
    for (size, channels) in [((5, 3), 5), ((0, 3), 1), ((5, 2), 1)] {
        assert!(encode_png(&pixels[..15], size, channels, false, 6).is_err());
    }
}

#[test]
fn indices_stay_indices() {
    let numbers = (vec![0, 1, 2, 3], 2, 2);
    for file in [
        &include_bytes!("data/palette.png")[..],
        include_bytes!("data/grey2.png"),
    ] {
        assert_eq!(png_indices(file).as_ref(), Ok(&numbers));
    }
    let grey: Vec<u8> = (0..15).collect();
    let file = encode_png(&grey, (5, 3), 1, false, 6).expect("a file");
    assert_eq!(png_indices(&file), Ok((grey, 5, 3)));
    for (file, kind) in [
        (&include_bytes!("data/rgb.png")[..], "Rgb of 8 bits"),
        (include_bytes!("data/grey16.png"), "Grayscale of 16 bits"),
        (
            include_bytes!("data/grey.jpeg"),
            "the PNG file cannot be decoded",
        ),
    ] {
        let e = png_indices(file).expect_err(kind);
        assert!(e.contains(kind), "{e}");
    }
}
