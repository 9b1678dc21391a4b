//! Image files and pictures.

use std::path::PathBuf;

use torsh_tensor::{DType, Result, Tensor, tensor};
use torsh_vision::io::{
    ImageReadMode, ReadOptions, decode_image, decode_image_with, encode_jpeg, encode_jpeg_with,
    encode_png, encode_png_with, load_image, read_image, read_image_with, write_jpeg, write_png,
};
use torsh_vision::utils::{
    BoxOptions, Color, GridOptions, KeyPointOptions, MaskOptions, draw_bounding_boxes_with,
    draw_keypoints_with, draw_segmentation_masks, draw_segmentation_masks_with, flow_to_image,
    make_grid_with, save_image,
};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Four coloured quarters.
fn quarters() -> Result<Tensor> {
    let image = torsh_tensor::zeros([3, 16, 24]).to_dtype(DType::U8)?;
    let colors = [[200, 30, 40], [30, 180, 60], [40, 60, 200], [220, 210, 90]];
    for (i, rgb) in colors.iter().enumerate() {
        let rgb = Tensor::from_data(rgb, [3, 1, 1])?.to_dtype(DType::U8)?;
        let (y, x) = (i / 2 * 8, i % 2 * 12);
        image.narrow(1, y, 8)?.narrow(2, x, 12)?.copy_(&rgb)?;
    }
    Ok(image)
}

/// Within so many levels, in the middle of the quarters.
fn near(a: &Tensor, b: &Tensor, levels: i64) -> Result<bool> {
    if a.dims() != b.dims() {
        return Ok(false);
    }
    let middle = |t: &Tensor| {
        let half = t.to_dtype(DType::I64)?;
        half.narrow(-2, 2, 4)?.narrow(-1, 2, 4)
    };
    Ok(middle(a)?.sub(&middle(b)?)?.abs()?.max()?.item::<i64>()? <= levels)
}

#[test]
fn kinds_of_files() -> Result<()> {
    let want = quarters()?;
    let rgba = read_image(data("rgba.png"))?;
    assert_eq!(rgba.narrow(0, 0, 3)?, want);
    assert_eq!(rgba.i((3, 0, 0))?.item::<i64>()?, 77);
    let bytes = std::fs::read(data("rgba.png"))?;
    let read = |mode| decode_image_with(&bytes, ReadOptions::new().mode(mode));
    assert_eq!(read(ImageReadMode::Rgb)?, want);
    assert_eq!(read(ImageReadMode::RgbAlpha)?, rgba);
    assert_eq!(read(ImageReadMode::Gray)?.dims(), [1, 16, 24]);
    let both = read(ImageReadMode::GrayAlpha)?;
    assert_eq!(both.i((1, 3, 3))?.item::<i64>()?, 77);
    // Of red 200, green 30, blue 40: 81.95, which libpng rounds down.
    assert_eq!(both.i((0, 0, 0))?.item::<i64>()?, 81);
    assert!(near(&read_image(data("cmyk.jpeg"))?, &want, 4)?);

    let bytes = std::fs::read(data("turned.jpeg"))?;
    assert!(near(&decode_image(&bytes)?, &want, 3)?);
    let turned = decode_image_with(&bytes, ReadOptions::new().apply_exif_orientation(true))?;
    assert_eq!(turned.dims(), [3, 24, 16]);
    assert!(near(&turned, &want.rot90(3, [-2, -1])?, 3)?);

    for (name, feature) in [
        ("still.gif", "gif"),
        ("still.webp", "webp"),
        ("still.bmp", "bmp"),
    ] {
        let there = match feature {
            "gif" => cfg!(feature = "gif"),
            "webp" => cfg!(feature = "webp"),
            _ => cfg!(feature = "bmp"),
        };
        match read_image(data(name)) {
            Ok(image) => assert!(there && image == want, "{name}"),
            Err(e) => {
                let e = e.to_string();
                assert!(
                    !there && e.contains(name) && e.contains(&format!("the feature {feature}")),
                    "{e}"
                );
            }
        }
    }
    if cfg!(feature = "gif") {
        assert_eq!(read_image(data("moving.gif"))?.dims(), [2, 3, 16, 24]);
    }
    Ok(())
}

/// The file of an image of one format.
fn file(image: impl Into<image::DynamicImage>, format: image::ImageFormat) -> Vec<u8> {
    let mut out = std::io::Cursor::new(Vec::new());
    image.into().write_to(&mut out, format).expect("an image");
    out.into_inner()
}

#[test]
fn pngs_of_16_bits_are_wide() -> Result<()> {
    use image::{ImageBuffer, ImageFormat::Png, Luma, LumaA, Rgb, Rgba};
    // Two pixels of each kind.
    let rgb =
        ImageBuffer::<Rgb<u16>, _>::from_raw(2, 1, vec![40_000u16, 10_000, 60_000, 0, 1, 65_535]);
    let rgb = file(rgb.expect("six numbers"), Png);
    let image = decode_image(&rgb)?;
    assert_eq!((image.dtype(), image.dims()), (DType::I32, &[3, 1, 2][..]));
    assert_eq!(
        image.to_vec::<i32>()?,
        [40_000, 0, 10_000, 1, 60_000, 65_535]
    );
    let read = |bytes: &[u8], mode, eight| {
        decode_image_with(bytes, ReadOptions::new().mode(mode).eight_bits(eight))?.to_vec::<i64>()
    };
    // (9794 r + 19234 g + 3740 b + 16384) >> 15, as libpng has it.
    assert_eq!(read(&rgb, ImageReadMode::Gray, false)?, [24_673, 7_480]);
    assert_eq!(
        read(&rgb, ImageReadMode::RgbAlpha, false)?[6..],
        [65_535, 65_535]
    );
    let narrow = decode_image_with(&rgb, ReadOptions::new().eight_bits(true))?;
    assert_eq!(narrow.dtype(), DType::U8);
    assert_eq!(narrow.to_vec::<u8>()?, [156, 0, 39, 0, 233, 255]);
    assert_eq!(read(&rgb, ImageReadMode::Gray, true)?, [96, 29]);

    let gray = ImageBuffer::<Luma<u16>, _>::from_raw(2, 1, vec![300u16, 65_535]);
    let gray = file(gray.expect("two numbers"), Png);
    assert_eq!(decode_image(&gray)?.to_vec::<i32>()?, [300, 65_535]);
    assert_eq!(
        read(&gray, ImageReadMode::Rgb, false)?,
        [300, 65_535, 300, 65_535, 300, 65_535]
    );
    let both = ImageBuffer::<LumaA<u16>, _>::from_raw(1, 1, vec![5u16, 700]);
    let both = file(both.expect("two numbers"), Png);
    assert_eq!(decode_image(&both)?.to_vec::<i32>()?, [5, 700]);
    assert_eq!(read(&both, ImageReadMode::Gray, false)?, [5]);
    let all = ImageBuffer::<Rgba<u16>, _>::from_raw(1, 1, vec![1u16, 2, 3, 4_000]);
    let all = file(all.expect("four numbers"), Png);
    assert_eq!(decode_image(&all)?.to_vec::<i32>()?, [1, 2, 3, 4_000]);

    // To look at, and for models, 8 bits are enough.
    let path = std::env::temp_dir().join(format!("torsh-vision-wide-{}.png", std::process::id()));
    std::fs::write(&path, &rgb)?;
    assert_eq!(load_image(&path)?, narrow);
    assert_eq!(read_image(&path)?, image);
    std::fs::remove_file(&path)?;
    Ok(())
}

/// What scales by a dtype's range takes an int32 image as torchvision's uint16.
#[test]
fn images_of_16_bits_have_the_range_of_uint16() -> Result<()> {
    use image::{ImageBuffer, ImageFormat::Png, Luma};
    use torsh_tensor::InterpolateMode;
    use torsh_vision::transforms::{
        AutoAugment, AutoAugmentPolicy, ConvertImageDtype, ObjectDetection, ToDtype, Transform,
        functional as f,
    };
    let gray = ImageBuffer::<Luma<u16>, _>::from_raw(3, 1, vec![0u16, 300, 65_535]);
    let image = decode_image(&file(gray.expect("three numbers"), Png))?;
    let unit = tensor![[[0.0, 300.0 / 65_535.0, 1.0]]];
    for scaled in [
        ToDtype::new(DType::F32).scale(true).apply(&image)?,
        ConvertImageDtype::new(DType::F32).apply(&image)?,
        ObjectDetection.apply(&image)?,
        f::convert_image_dtype(&image, DType::F64)?.to_dtype(DType::F32)?,
    ] {
        assert!(scaled.allclose(&unit)?, "{scaled}");
    }
    let ints = |x: Tensor| x.to_vec::<i64>();
    assert_eq!(ints(f::to_dtype(&image, DType::U8, true)?)?, [0, 1, 255]);
    let half = tensor![[[0.0, 0.5, 1.0]]];
    let back = f::to_dtype(&half, DType::I32, true)?;
    assert_eq!(
        (back.dtype(), ints(back)?),
        (DType::I32, vec![0, 32_768, 65_535])
    );
    let bytes = tensor![[[0, 1, 255]]].to_dtype(DType::U8)?;
    assert_eq!(
        ints(f::to_dtype(&bytes, DType::I32, true)?)?,
        [0, 256, 65_280]
    );

    // Colours.
    assert_eq!(ints(f::invert(&image)?)?, [65_535, 65_235, 0]);
    assert_eq!(ints(f::solarize(&image, 40_000.0)?)?, [0, 300, 0]);
    assert!(f::solarize(&image, 65_536.0).is_err());
    assert_eq!(ints(f::posterize(&image, 8)?)?, [0, 256, 65_280]);
    assert_eq!(
        ints(f::adjust_brightness(&image, 300.0)?)?,
        [0, 65_535, 65_535]
    );
    assert_eq!(ints(f::adjust_gamma(&image, 2.0)?)?, [0, 1, 65_535]);
    let narrow = tensor![[[1000, 2000, 3000]]].to_dtype(DType::I32)?;
    assert_eq!(ints(f::autocontrast(&narrow)?)?, [0, 32_767, 65_535]);
    let red = tensor![[[65_535]], [[0]], [[0]]].to_dtype(DType::I32)?;
    assert_eq!(ints(f::adjust_hue(&red, 0.5)?)?, [0, 65_535, 65_535]);
    assert_eq!(ints(f::equalize(&image)?)?.first(), Some(&0));

    // A sharp edge stays within the range.
    let edge = tensor![[[0, 0, 65_535, 65_535]]].to_dtype(DType::I32)?;
    let cubic = f::ResizeOptions::new().interpolation(InterpolateMode::Bicubic);
    let wide = ints(f::resize_with(&edge, (1, 8), cubic)?)?;
    assert!(wide.iter().all(|v| (0..=65_535).contains(v)), "{wide:?}");
    assert!(wide.contains(&0) && wide.contains(&65_535), "{wide:?}");

    // A number beyond 16 bits is no pixel.
    let beyond = tensor![[[70_000]]].to_dtype(DType::I32)?;
    for error in [
        f::to_dtype(&beyond, DType::F32, true).err(),
        encode_png(&beyond).err(),
    ] {
        let error = error.map(|e| e.to_string()).unwrap_or_default();
        assert!(
            error.contains("65535") && error.contains("70000"),
            "{error}"
        );
    }
    assert_eq!(
        f::to_dtype(&beyond, DType::F32, false)?,
        tensor![[[70_000.0]]]
    );

    // Files of 16 bits, of each number of channels, and pictures of 8.
    for channels in 1..=4 {
        let all = image.expand([channels, 1, 3])?.contiguous()?;
        assert_eq!(decode_image(&encode_png(&all)?)?, all);
    }
    assert!(encode_jpeg(&image).is_err());
    let path = std::env::temp_dir().join(format!("torsh-vision-deep-{}.png", std::process::id()));
    save_image(&image, &path)?;
    let picture = read_image(&path)?.to_dtype(DType::I64)?;
    assert_eq!(picture, tensor![[[0, 1, 255]]].expand([3, 1, 3])?);
    std::fs::remove_file(&path)?;
    let colors = image.expand([3, 4, 3])?.contiguous()?;
    for _ in 0..20 {
        let changed = AutoAugment::new(AutoAugmentPolicy::ImageNet).apply(&colors)?;
        assert_eq!(changed.dtype(), DType::I32);
    }
    Ok(())
}

#[cfg(all(feature = "gif", feature = "webp", feature = "bmp"))]
#[test]
fn other_formats() -> Result<()> {
    use image::{ImageBuffer, ImageFormat, Luma, Rgb, Rgba};
    let colors = vec![200u8, 30, 40, 30, 180, 60, 40, 60, 200, 0, 0, 0];
    let rgb = ImageBuffer::<Rgb<u8>, _>::from_raw(2, 2, colors.clone()).expect("four pixels");
    let want = Tensor::from_data(&colors, [2, 2, 3])?
        .permute([2, 0, 1])?
        .to_dtype(DType::U8)?;
    let rgba = ImageBuffer::<Rgba<u8>, _>::from_raw(1, 2, vec![9u8, 8, 7, 100, 1, 2, 3, 255]);
    let rgba = rgba.expect("two pixels");
    for format in [ImageFormat::Bmp, ImageFormat::WebP, ImageFormat::Gif] {
        let bytes = file(rgb.clone(), format);
        assert_eq!(decode_image(&bytes)?.narrow(0, 0, 3)?, want, "{format:?}");
        let gray = decode_image_with(&bytes, ReadOptions::new().mode(ImageReadMode::Gray))?;
        assert_eq!(gray.to_vec::<u8>()?, [82, 121, 70, 0], "{format:?}");
        // Cut off anywhere it is an error or an image, never a panic; without its second half it is none.
        for n in 0..bytes.len() {
            let _ = decode_image(&bytes[..n]);
        }
        assert!(
            decode_image(&bytes[..bytes.len() / 2]).is_err(),
            "{format:?}"
        );
    }
    for format in [ImageFormat::Bmp, ImageFormat::WebP] {
        let image = decode_image(&file(rgba.clone(), format))?;
        assert_eq!(
            image.to_vec::<u8>()?,
            [9, 1, 8, 2, 7, 3, 100, 255],
            "{format:?}"
        );
    }
    let gray = ImageBuffer::<Luma<u8>, _>::from_raw(2, 1, vec![7u8, 250]).expect("two pixels");
    let image = decode_image(&file(gray, ImageFormat::Bmp))?;
    assert_eq!(image.narrow(0, 0, 1)?.to_vec::<u8>()?, [7, 250]);

    // Images one after the other: each as it is shown, on what the one before left.
    let mut moving = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut moving);
    for number in [10u8, 20, 30] {
        let frame = ImageBuffer::from_pixel(3, 2, Rgba([number, 0, 2 * number, 255]));
        encoder
            .encode_frame(image::Frame::new(frame))
            .expect("a frame");
    }
    drop(encoder);
    let frames = decode_image(&moving)?;
    assert_eq!(frames.dims(), [3, 3, 2, 3]);
    assert_eq!(frames.i((.., 2, 1, 1))?.to_vec::<u8>()?, [20, 40, 60]);

    // 65,535 x 65,535 pixels in a few bytes.
    for (format, at) in [(ImageFormat::Gif, 6), (ImageFormat::Bmp, 18)] {
        let mut bytes = file(rgb.clone(), format);
        let step = if format == ImageFormat::Gif { 2 } else { 4 };
        for side in [at, at + step] {
            bytes[side..side + 2].copy_from_slice(&[0xff, 0xff]);
        }
        let e = decode_image(&bytes).expect_err("2^32 pixels").to_string();
        assert!(e.contains("65535 x 65535 pixels"), "{format:?}: {e}");
    }
    Ok(())
}

#[test]
fn files_come_back() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("torsh-vision-images-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let image = quarters()?;
    write_png(&image, dir.join("a.png"))?;
    assert_eq!(read_image(dir.join("a.png"))?, image);
    write_jpeg(&image, dir.join("a.jpg"))?;
    assert!(near(&read_image(dir.join("a.jpg"))?, &image, 12)?);
    for channels in 1..=4 {
        let some = torsh_tensor::cat(&[image.clone(), image.clone()], 0)?.narrow(0, 0, channels)?;
        for level in [0, 6, 9] {
            assert_eq!(decode_image(&encode_png_with(&some, level)?)?, some);
        }
    }
    let smaller = encode_jpeg_with(&image, 10)?.len();
    assert!(smaller < encode_jpeg_with(&image, 95)?.len());
    save_image(&torsh_tensor::ones([2, 1, 4, 4]), dir.join("grid.png"))?;
    assert_eq!(read_image(dir.join("grid.png"))?.dims(), [3, 8, 14]);

    let text = |r: Result<Tensor>| r.expect_err("bad").to_string();
    let e = text(read_image(dir.join("none.png")));
    assert!(e.contains("none.png"), "{e}");
    std::fs::write(dir.join("torn.png"), &encode_png(&image)?[..60])?;
    let e = text(read_image(dir.join("torn.png")));
    assert!(e.contains("read_image") && e.contains("torn.png"), "{e}");
    assert!(text(decode_image(b"plain text")).contains("neither PNG nor JPEG"));
    let float = encode_png(&image.to_dtype(DType::F32)?)
        .expect_err("float")
        .to_string();
    assert!(float.contains("expected uint8, got float32"), "{float}");
    assert!(encode_jpeg(&image.narrow(0, 0, 2)?).is_err());
    assert!(encode_jpeg_with(&image, 0).is_err());
    assert!(save_image(&torsh_tensor::ones([1, 2, 2]), dir.join("a.tiff")).is_err());
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Headers of small files that claim enormous images.
#[test]
fn claims_are_checked() -> Result<()> {
    let mut png = encode_png(&quarters()?)?;
    png[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    // The checksum of the header.
    let mut sum = !0u32;
    for &b in &png[12..29] {
        sum ^= u32::from(b);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    png[29..33].copy_from_slice(&(!sum).to_be_bytes());
    let e = decode_image(&png).expect_err("2^62 pixels").to_string();
    assert!(
        e.contains("2147483647 x 2147483647") || e.to_lowercase().contains("limit"),
        "{e}"
    );

    let mut jpeg = encode_jpeg(&quarters()?)?;
    let sof = jpeg
        .windows(2)
        .position(|w| w == [0xff, 0xc0])
        .expect("a frame");
    jpeg[sof + 5..sof + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    let e = decode_image(&jpeg).expect_err("2^32 pixels").to_string();
    assert!(
        e.contains("65535 x 65535") && e.contains("more than a file of"),
        "{e}"
    );
    Ok(())
}

#[test]
fn pictures() -> Result<()> {
    let steps = torsh_tensor::arange(0.0, 8.0, 1.0).reshape([2, 1, 2, 2])?;
    let options = GridOptions::new()
        .normalize(true)
        .scale_each(true)
        .padding(0);
    let grid = make_grid_with(&steps, options)?;
    assert_eq!(grid.dims(), [3, 2, 4]);
    assert!(
        grid.i((0, 1, ..))?
            .allclose(&tensor![2.0 / 3.0, 1.0, 2.0 / 3.0, 1.0])?
    );
    assert!(make_grid_with(&steps, GridOptions::new().nrow(0)).is_err());

    let black = torsh_tensor::zeros([3, 20, 30]).to_dtype(DType::U8)?;
    let masks = torsh_tensor::zeros([2, 20, 30]).to_dtype(DType::Bool)?;
    masks.i((0, 0..5, ..))?.fill_(true)?;
    masks.i((1, 3..8, ..))?.fill_(true)?;
    let red: Color = "red".parse()?;
    let options = MaskOptions::new()
        .alpha(0.5)
        .colors(vec![red, "#0f0".parse()?]);
    let drawn = draw_segmentation_masks_with(&black, &masks, options)?;
    assert_eq!(drawn.i((.., 0, 0))?.to_vec::<u8>()?, [127, 0, 0]);
    assert_eq!(drawn.i((.., 4, 0))?.to_vec::<u8>()?, [0, 0, 0]);
    assert_eq!(drawn.i((.., 7, 0))?.to_vec::<u8>()?, [0, 127, 0]);
    assert!(draw_segmentation_masks(&black, &masks.narrow(1, 0, 5)?).is_err());

    let boxes = tensor![[2.0, 3.0, 10.0, 12.0]];
    let drawn = draw_bounding_boxes_with(&black, &boxes, BoxOptions::new().colors(red).width(2))?;
    let lit = drawn.i(0)?.gt(0)?.sum()?.item::<i64>()?;
    assert_eq!(lit, 9 * 10 - 5 * 6);
    let e = draw_bounding_boxes_with(&black, &tensor![[5.0, 0.0, 1.0, 1.0]], BoxOptions::new());
    assert!(
        e.expect_err("turned around")
            .to_string()
            .contains("left, top")
    );
    let labelled = draw_bounding_boxes_with(&black, &boxes, BoxOptions::new().labels(["a", "b"]));
    assert!(
        labelled
            .expect_err("two labels")
            .to_string()
            .contains("2 labels for 1")
    );
    // Beyond the image there is nothing to draw on.
    let far = tensor![[-1e18, -5.0, 1e18, 1e18]];
    draw_bounding_boxes_with(&black, &far, BoxOptions::new().fill(true).labels(["far"]))?;

    let points = tensor![[[5.0, 5.0], [25.0, 5.0]]];
    let options = KeyPointOptions::new()
        .connectivity(vec![(0, 1)])
        .colors(red)
        .radius(2)
        .width(1);
    let drawn = draw_keypoints_with(&black, &points, options)?;
    assert_eq!(drawn.i((.., 5, 15))?.to_vec::<u8>()?, [255, 255, 255]);
    assert_eq!(drawn.i((.., 3, 5))?.to_vec::<u8>()?, [255, 0, 0]);

    // To the right, and down twice as far.
    let flow = Tensor::from_data(&[1f32, 0.0, 0.0, 2.0], [2, 1, 2])?;
    assert_eq!(
        flow_to_image(&flow)?.to_vec::<u8>()?,
        [255, 255, 127, 229, 127, 0]
    );
    Ok(())
}

/// torchvision's `decode_image(bytes, mode="RGB")`: its words in any case.
#[test]
fn modes_may_be_words() -> Result<()> {
    let bytes = std::fs::read(data("rgba.png"))?;
    let read = |options: ReadOptions| decode_image_with(&bytes, options);
    for (word, mode) in [
        ("UNCHANGED", ImageReadMode::Unchanged),
        ("gray", ImageReadMode::Gray),
        ("GRAY_ALPHA", ImageReadMode::GrayAlpha),
        ("rgb", ImageReadMode::Rgb),
        ("RGB_ALPHA", ImageReadMode::RgbAlpha),
    ] {
        assert_eq!(
            read(ReadOptions::new().mode(word))?,
            read(ReadOptions::new().mode(mode))?
        );
    }
    let e = read(ReadOptions::new().mode("BGR"))
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("decode_image: BGR is not a valid value for mode"),
        "{e}"
    );
    assert!(
        e.contains("mode is \"UNCHANGED\", \"GRAY\", \"GRAY_ALPHA\", \"RGB\" or \"RGB_ALPHA\""),
        "{e}"
    );
    let e = read_image_with("nowhere.png", ReadOptions::new().mode("BGR")).unwrap_err();
    assert!(e.to_string().contains("BGR"), "{e}");
    Ok(())
}
