//! CSV files, image folders and what a transform is.

use std::fs;
use std::path::PathBuf;

use torsh_data::csv::{CsvReader, Missing};
use torsh_data::transforms::*;
use torsh_data::{DataLoader, Dataset, ImageFolder, MapDataset};
use torsh_data::{decode_image, encode_png, read_image, write_png};
use torsh_tensor::{DType, Device, Result, Tensor, tensor};

#[test]
fn csv_columns_are_picked() -> Result<()> {
    let text = b"a, b,c\n1,2.5,3\n4,NA,-6\n";
    let all = CsvReader::new().missing(Missing::Nan).read_bytes(text)?;
    assert_eq!(all.columns, ["a", "b", "c"]);
    let rows = all.features.to_vec2::<f32>()?;
    assert_eq!(
        (rows[0].as_slice(), rows[1][0]),
        (&[1.0, 2.5, 3.0][..], 4.0)
    );
    assert!(rows[1][1].is_nan() && all.target.is_none() && all.into_dataset().is_err());
    let some = CsvReader::new()
        .columns(["c", "a"])
        .dtype(DType::I32)
        .target("b")
        .target_dtype(DType::F64)
        .missing(Missing::Nan)
        .read_bytes(text)?;
    assert_eq!(some.features.dtype(), DType::I32);
    assert_eq!(some.features.to_vec2::<i32>()?, [[3, 1], [-6, 4]]);
    assert_eq!(some.target.expect("b").to_vec::<f64>()?[0], 2.5);
    let bare = CsvReader::new()
        .has_header(false)
        .delimiter(b';')
        .target("1")
        .read_bytes(b"1;2\n3;4\n")?;
    assert_eq!(bare.features.to_vec::<f32>()?, [1.0, 3.0]);
    assert_eq!(bare.target.expect("1").to_vec::<f32>()?, [2.0, 4.0]);
    Ok(())
}

#[test]
fn a_csv_file_of_a_spreadsheet_of_windows_is_read() -> Result<()> {
    let text = "\u{feff}\"length\",kind\r\n1.5,a\r\n2.5,b\r\n";
    let reader = CsvReader::new().target("kind").target_classes(true);
    let table = reader.read_bytes(text.as_bytes())?;
    assert_eq!(table.columns, ["length"]);
    assert_eq!(table.classes, ["a", "b"]);
    assert_eq!(table.features.to_vec::<f32>()?, [1.5, 2.5]);
    Ok(())
}

#[test]
fn csv_errors_name_the_place() {
    let text = |r: CsvReader, bytes: &[u8]| r.read_bytes(bytes).expect_err("bad").to_string();
    let e = text(CsvReader::new(), b"a,b\n1,2\n3,x\n");
    assert!(e.contains("line 3, column `b`: `x` is not a number"), "{e}");
    let e = text(CsvReader::new(), b"a,b\n1,\n");
    assert!(
        e.contains("line 2, column `b`: the value is missing"),
        "{e}"
    );
    let e = text(CsvReader::new(), b"a,b\n1,2,3\n");
    assert!(e.contains("line: 2") || e.contains("line 2"), "{e}");
    let e = text(CsvReader::new().target("z"), b"a,b\n1,2\n");
    assert!(e.contains("no column `z`"), "{e}");
    let e = text(CsvReader::new().dtype(DType::I8), b"a\n300\n");
    assert!(e.contains("int8 cannot hold"), "{e}");
    let e = text(CsvReader::new().dtype(DType::I64), b"a\n1.5\n");
    assert!(e.contains("not an integer"), "{e}");
    assert!(CsvReader::new().read_bytes(b"a\n\xff\n").is_err());
    let e = CsvReader::new()
        .read("/nowhere/x.csv")
        .expect_err("no file");
    assert!(e.to_string().contains("/nowhere/x.csv"));
}

/// Lines are counted as editors count them, whatever line breaks there are.
#[test]
fn csv_errors_count_every_line() {
    let good = [
        // What is ahead of the bad value, and its line.
        ("a,b\n1,2\n", 3),
        ("a,b\r\n1,2\r\n", 3),
        ("a,b\r1,2\r", 3),
        ("\u{feff}a,b\r\n1,2\r\n", 3),
        ("a,b\n\n1,2\n\n\n", 6),
        ("a,b\r\n\r\n1,2\r\n\r\n\r\n", 6),
        ("\n\na,b\n1,2\n", 5),
        ("\u{feff}\"a\",\"b\"\n\"1\",\"2\"\n", 3),
        ("\u{feff}\"a\r\n\",\"b\"\r\n\"1\",\"2\"\r\n", 4),
        ("\"a\n\",b\n\"\n1\",\"2\r\n\"\n", 6),
        ("a,b\n\"\r\n1\r\n\",\"2\"\r\n", 5),
    ];
    let dir = folder("lines");
    fs::create_dir_all(&dir).expect("a folder");
    for (ahead, line) in good {
        let bad = [
            ("x,2\n", format!("line {line}, column `a")),
            ("1,x\r\n", format!("line {line}, column `b`")),
            (
                "1,",
                format!("line {line}, column `b`: the value is missing"),
            ),
            ("1,2,3\n", format!("line {line}: it has 3 values")),
            // The value's own line, behind a break in the value before it.
            ("\"1\n\",x\n", format!("line {}, column `b`", line + 1)),
            (
                "\"1\r\n\r\n\",\"x\"",
                format!("line {}, column `b`", line + 2),
            ),
        ];
        for (row, why) in bad {
            let text = format!("{ahead}{row}");
            let e = CsvReader::new().read_bytes(text.as_bytes());
            let e = e.expect_err("bad").to_string();
            assert!(e.contains(&why), "{text:?}: {why}: {e}");
            let path = dir.join("a.csv");
            fs::write(&path, &text).expect("a file");
            let e = CsvReader::new().read(&path).expect_err("bad").to_string();
            assert!(e.contains(&why) && e.contains("a.csv"), "{text:?}: {e}");
        }
        let mut text = ahead.as_bytes().to_vec();
        text.extend(b"1,\xff\n");
        let e = CsvReader::new().read_bytes(&text).expect_err("bad");
        let why = format!("line {line}: value 2 is no text in UTF-8");
        assert!(e.to_string().contains(&why), "{e}");
    }
    // Without a header, with another delimiter, of a target.
    let reader = CsvReader::new()
        .has_header(false)
        .delimiter(b';')
        .target("1");
    let e = reader
        .read_bytes(b"\r\n1;2\r\n\r\n3;y\r\n")
        .expect_err("bad");
    assert!(e.to_string().contains("line 4, column `1`: `y`"), "{e}");
    fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn pointers_of_git_lfs_are_named() {
    let dir = folder("lfs");
    fs::create_dir_all(&dir).expect("a folder");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98304\n";
    let path = dir.join("file");
    fs::write(&path, pointer).expect("a file");
    let errors = [
        CsvReader::new().read(&path).err(),
        torsh_data::read_image(&path).err(),
        torsh_data::idx::read(&path).err(),
    ];
    for error in errors {
        let error = error.expect("a pointer").to_string();
        assert!(
            error.contains("file: this is a pointer of git-lfs"),
            "{error}"
        );
        assert!(error.contains("98304 bytes"), "{error}");
    }
    fs::remove_dir_all(&dir).expect("removed");
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("torsh-images-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("dog/more")).expect("folders");
    fs::create_dir_all(dir.join("cat")).expect("folders");
    dir
}

#[test]
fn image_folders_are_read() -> Result<()> {
    let dir = folder("read");
    let image = torsh_tensor::zeros(&[3, 2, 3]).to_dtype(DType::U8)?;
    let color = tensor![10, 20, 30].to_dtype(DType::U8)?;
    image.i((.., 1, 2))?.copy_(&color)?;
    write_png(&image, dir.join("dog/b.png"))?;
    write_png(&image, dir.join("dog/more/a.PNG"))?;
    fs::write(dir.join("cat/x.jpeg"), include_bytes!("data/grey.jpeg")).expect("jpeg");
    fs::write(dir.join("dog/notes.txt"), "no image").expect("text");
    let data = ImageFolder::new(&dir)?;
    assert_eq!(
        (data.classes(), data.len()),
        (&["cat".to_string(), "dog".to_string()][..], 3)
    );
    let (x, y) = data.get(1)?;
    assert_eq!((x.dims(), x.dtype(), y), (&[3, 2, 3][..], DType::U8, 1));
    assert_eq!(
        x.to_vec::<u8>()?,
        [0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 30]
    );
    let grey = data.get(0)?.0.to_vec::<u8>()?;
    assert!(
        grey.len() == 48 && grey.iter().all(|v| v.abs_diff(128) <= 1),
        "{grey:?}"
    );

    let change = Compose::new()
        .then(Lambda::new(|x: &Tensor| x.narrow(1, 0, 2)?.narrow(2, 0, 2)))
        .then(Lambda::new(|x: &Tensor| x.to_dtype(DType::F32)?.div(255.0)));
    let mapped = MapDataset::new(data, move |(x, y)| Ok((change.apply(&x)?, y)));
    let loader = DataLoader::builder(mapped)
        .batch_size(3)
        .num_workers(2)
        .build()?;
    for (x, y) in &loader {
        assert_eq!(x.dims(), [3, 3, 2, 2]);
        assert_eq!(y.to_vec::<i64>()?, [0, 1, 1]);
        assert!((x.to_vec::<f32>()?[0] - 128.0 / 255.0).abs() < 0.01);
    }

    fs::write(dir.join("cat/torn.png"), [0x89, b'P', b'N', b'G', 1, 2]).expect("file");
    let torn = ImageFolder::new(&dir)?;
    let e = torn.get(0).expect_err("torn").to_string();
    assert!(e.contains("torn.png"), "{e}");
    assert!(read_image(dir.join("none.png")).is_err());
    fs::create_dir_all(dir.join("empty")).expect("folder");
    let e = ImageFolder::new(&dir)
        .expect_err("an empty class")
        .to_string();
    assert!(e.contains("[\"empty\"]"), "{e}");
    assert!(ImageFolder::new(dir.join("empty")).is_err());
    fs::remove_dir_all(&dir).expect("removed");
    Ok(())
}

/// Pillow wrote the files and says what they hold.
#[test]
fn every_kind_of_png_and_jpeg_is_read() -> Result<()> {
    let pixels: [u8; 12] = [255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 100, 50];
    let rgb = Tensor::from_slice(&pixels, [2, 2, 3], DType::U8, Device::Cpu)?.permute([2, 0, 1])?;
    for (name, bytes) in [
        ("rgb", &include_bytes!("data/rgb.png")[..]),
        ("rgba", include_bytes!("data/rgba.png")),
        ("palette", include_bytes!("data/palette.png")),
        ("interlaced", include_bytes!("data/interlaced.png")),
    ] {
        assert_eq!(decode_image(bytes)?, rgb, "{name}");
    }
    let grey = tensor![[0, 85], [170, 255]]
        .to_dtype(DType::U8)?
        .expand([3, 2, 2])?;
    for (name, bytes) in [
        ("grey of 2 bits", &include_bytes!("data/grey2.png")[..]),
        ("grey of 16 bits", include_bytes!("data/grey16.png")),
        ("grey with alpha", include_bytes!("data/grey_alpha.png")),
    ] {
        assert_eq!(decode_image(bytes)?, grey, "{name}");
    }
    let jpeg = decode_image(include_bytes!("data/colours.jpeg"))?;
    let want = read_image(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/colours.png"
    ))?;
    assert_eq!(jpeg.dims(), [3, 16, 24]);
    let apart = jpeg
        .to_dtype(DType::I32)?
        .sub(&want.to_dtype(DType::I32)?)?;
    assert!(apart.abs()?.max()?.item::<i32>()? <= 3, "{apart}");
    Ok(())
}

#[test]
fn images_come_back_from_png() -> Result<()> {
    let image = torsh_tensor::arange(0, 24, 1)
        .reshape([1, 4, 6])?
        .to_dtype(DType::U8)?;
    assert_eq!(
        decode_image(&encode_png(&image)?)?,
        image.expand([3, 4, 6])?
    );
    let e = encode_png(&image.to_dtype(DType::F32)?)
        .expect_err("floats")
        .to_string();
    assert!(
        e.contains("encode_png: expected uint8, but got float32"),
        "{e}"
    );
    let e = encode_png(&image.select(0, 0)?)
        .expect_err("two dimensions")
        .to_string();
    assert!(e.contains("[1 or 3, height, width], but got [4, 6]"), "{e}");
    assert!(encode_png(&image.narrow(1, 0, 0)?).is_err());
    let e = decode_image(b"GIF89a")
        .expect_err("no format that is read")
        .to_string();
    assert!(e.contains("neither PNG nor JPEG"), "{e}");
    // A header of an image of 16 terabytes, and files that end early.
    let mut huge = encode_png(&image)?;
    huge[16..24].copy_from_slice(&[0x00, 0x20, 0, 0, 0x00, 0x20, 0, 0]);
    assert!(decode_image(&huge).is_err());
    for bytes in [
        &include_bytes!("data/rgb.png")[..],
        include_bytes!("data/colours.jpeg"),
    ] {
        for n in 0..bytes.len().min(200) {
            // Only that it returns: a decoder may fill in what a torn file lacks.
            let _ = decode_image(&bytes[..n]);
        }
    }
    Ok(())
}

#[test]
fn transforms_follow_one_another() -> Result<()> {
    assert_eq!(
        OneHot::new(3).apply(&tensor![2, 0])?,
        tensor![[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    );
    let twice = Lambda::new(|x: &Tensor| x.mul(2.0));
    assert_eq!(twice.apply(&tensor![1.5])?, tensor![3.0]);
    // Samples of any type.
    let pair = Compose::new()
        .then(Lambda::new(|(x, n): &(Tensor, i64)| {
            Ok((x.mul(2.0)?, n + 1))
        }))
        .then(Lambda::new(|(x, n): &(Tensor, i64)| {
            Ok((x.add(1.0)?, n * 10))
        }));
    assert_eq!(pair.apply(&(tensor![1.0], 0))?, (tensor![3.0], 10));
    assert_eq!(Compose::new().apply(&7)?, 7);
    Ok(())
}
