//! The IDX reader and the datasets in its files.

use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use torsh_data::vision::{FASHION_MNIST_CLASSES, Mnist, Split};
use torsh_data::{DataLoader, Dataset, idx};
use torsh_tensor::{DType, Result, TorshError};

/// A directory of its own for each test.
fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("torsh-idx-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

fn file(code: u8, dims: &[u32], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, code, dims.len() as u8];
    for d in dims {
        out.extend(d.to_be_bytes());
    }
    out.extend(data);
    out
}

fn packed(data: &[u8]) -> Vec<u8> {
    let mut e = GzEncoder::new(Vec::new(), Compression::fast());
    e.write_all(data).expect("in memory");
    e.finish().expect("in memory")
}

#[test]
fn every_dtype_is_read() -> Result<()> {
    let t = idx::read_bytes(&file(0x08, &[2, 3], &[1, 2, 3, 4, 5, 255]))?;
    assert_eq!(
        (t.dtype(), t.dims(), t.to_vec::<u8>()?),
        (DType::U8, &[2, 3][..], vec![1, 2, 3, 4, 5, 255])
    );
    let t = idx::read_bytes(&file(0x09, &[2], &[0x80, 0x7f]))?;
    assert_eq!((t.dtype(), t.to_vec::<i8>()?), (DType::I8, vec![-128, 127]));
    let t = idx::read_bytes(&file(0x0B, &[2], &[0x01, 0x02, 0xff, 0xfe]))?;
    assert_eq!(
        (t.dtype(), t.to_vec::<i16>()?),
        (DType::I16, vec![0x0102, -2])
    );
    let t = idx::read_bytes(&file(0x0C, &[1], &[0x01, 0x02, 0x03, 0x04]))?;
    assert_eq!(
        (t.dtype(), t.to_vec::<i32>()?),
        (DType::I32, vec![0x01020304])
    );
    let t = idx::read_bytes(&file(0x0D, &[1, 1], &1.5f32.to_be_bytes()))?;
    assert_eq!(
        (t.dtype(), t.dims(), t.to_vec::<f32>()?),
        (DType::F32, &[1, 1][..], vec![1.5])
    );
    let t = idx::read_bytes(&file(0x0E, &[1], &(-2.25f64).to_be_bytes()))?;
    assert_eq!((t.dtype(), t.to_vec::<f64>()?), (DType::F64, vec![-2.25]));
    let t = idx::read_bytes(&file(0x08, &[0, 28, 28], &[]))?;
    assert_eq!(t.dims(), [0, 28, 28]);
    // More than is read at a time.
    let long: Vec<u8> = (0..3_000_001u32).map(|i| (i % 251) as u8).collect();
    for data in [
        file(0x08, &[3_000_001], &long),
        packed(&file(0x08, &[3_000_001], &long)),
    ] {
        assert_eq!(idx::read_bytes(&data)?.to_vec::<u8>()?, long);
    }
    Ok(())
}

#[test]
fn damaged_files_are_errors_that_say_so() {
    let refused = |data: &[u8], why: &str| {
        for data in [data.to_vec(), packed(data)] {
            match idx::read_bytes(&data) {
                Err(e @ TorshError::Format(_)) => {
                    assert!(e.to_string().contains(why), "{e}: not {why}")
                }
                Err(e) => panic!("{e}"),
                Ok(t) => panic!("{}", t.describe()),
            }
        }
    };
    refused(&[], "cut short");
    refused(&[0, 0, 8], "cut short");
    refused(&[0, 0, 8, 2, 0, 0, 0, 1], "cut short");
    refused(b"\x89PNG\r\n", "not an IDX file");
    refused(&file(0x0A, &[1], &[1]), "not an IDX file");
    refused(&file(0x08, &[10], &[1; 11]), "more data");
    // Sizes whose product is past any memory, and past a u64.
    refused(
        &file(0x08, &[u32::MAX, u32::MAX], &[1; 8]),
        "more than the file can hold",
    );
    refused(
        &file(0x0E, &[u32::MAX, u32::MAX, u32::MAX], &[1; 8]),
        "more than the file can hold",
    );
    refused(
        &file(0x0E, &[0, u32::MAX, u32::MAX, u32::MAX], &[]),
        "more than the file can hold",
    );
    refused(
        &file(0x08, &[1; 40], &[1]),
        "it claims 40 dimensions, more than 32",
    );
    let e = idx::read_bytes(&file(0x08, &[1_000_000_000], &[1; 8]))
        .expect_err("a lie")
        .to_string();
    assert!(e.contains("more than the file can hold"), "{e}");

    let short = file(0x08, &[10], &[1; 9]);
    let e = idx::read_bytes(&packed(&short))
        .expect_err("short")
        .to_string();
    assert!(e.contains("cut short"), "{e}");
    assert!(idx::read_bytes(&short).is_err());
    let whole = packed(&file(0x08, &[1000], &[7; 1000]));
    assert!(idx::read_bytes(&whole[..whole.len() - 10]).is_err());
    let mut changed = whole.clone();
    let last = changed.len() - 6;
    changed[last] ^= 0xff;
    assert!(
        idx::read_bytes(&changed).is_err(),
        "the checksum must be looked at"
    );
}

#[test]
fn errors_name_the_file() -> Result<()> {
    let dir = directory("names");
    let missing = dir.join("nothing-idx1-ubyte");
    let e = idx::read(&missing).expect_err("missing");
    assert!(
        matches!(e, TorshError::Io(_)) && e.to_string().contains("nothing-idx1-ubyte"),
        "{e}"
    );
    let bad = dir.join("bad-idx1-ubyte");
    std::fs::write(&bad, b"hello world").map_err(TorshError::from)?;
    assert!(
        idx::read(&bad)
            .expect_err("bad")
            .to_string()
            .contains("bad-idx1-ubyte")
    );
    std::fs::remove_dir_all(dir).map_err(TorshError::from)
}

#[test]
fn the_four_files_are_found_packed_or_not() -> Result<()> {
    let dir = directory("mnist");
    let e = Mnist::open(&dir, Split::Train)
        .expect_err("nothing there")
        .to_string();
    assert!(e.contains("train-images-idx3-ubyte"), "{e}");
    let images: Vec<u8> = (0..3 * 4).map(|v| v * 20).collect();
    let write =
        |name: &str, data: Vec<u8>| std::fs::write(dir.join(name), data).map_err(TorshError::from);
    write("train-images-idx3-ubyte", file(0x08, &[3, 2, 2], &images))?;
    write(
        "train-labels-idx1-ubyte.gz",
        packed(&file(0x08, &[3], &[9, 0, 4])),
    )?;
    let set = Mnist::open(&dir, Split::Train)?;
    assert_eq!(set.len(), 3);
    let (x, y) = set.get(1)?;
    assert_eq!((x.dims(), y), (&[1, 2, 2][..], 0));
    assert_eq!(
        x.to_vec::<f32>()?,
        [80.0f32, 100.0, 120.0, 140.0].map(|v| v / 255.0)
    );
    assert!(set.get(3).is_err());
    let loader = DataLoader::builder(set.clone()).batch_size(2).build()?;
    let (x, y) = loader.iter().next().expect("a batch");
    assert_eq!((x.dims(), x.dtype()), (&[2, 1, 2, 2][..], DType::F32));
    assert_eq!(y.to_vec::<i64>()?, [9, 0]);
    let (all, labels) = set.to_tensors()?;
    assert_eq!(
        (all.dims(), labels.to_vec::<i64>()?),
        (&[3, 1, 2, 2][..], vec![9, 0, 4])
    );

    write("t10k-images-idx3-ubyte", file(0x08, &[3, 2, 2], &images))?;
    write("t10k-labels-idx1-ubyte", file(0x08, &[2], &[9, 0]))?;
    let e = Mnist::open(&dir, Split::Test)
        .expect_err("uneven")
        .to_string();
    assert!(
        e.contains("uint8[3, 2, 2]") && e.contains("uint8[2]"),
        "{e}"
    );
    std::fs::remove_dir_all(dir).map_err(TorshError::from)
}

#[test]
fn the_shipped_images_are_fashion_mnist() -> Result<()> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/fashion-mnist");
    let set = Mnist::open(dir, Split::Test)?;
    assert_eq!(
        (set.images().dims(), set.len()),
        (&[10_000, 28, 28][..], 10_000)
    );
    let labels = set.labels().to_vec::<u8>()?;
    for class in 0..10 {
        assert_eq!(labels.iter().filter(|&&l| l == class).count(), 1000);
    }
    assert_eq!(FASHION_MNIST_CLASSES[labels[0] as usize], "Ankle boot");
    Ok(())
}
