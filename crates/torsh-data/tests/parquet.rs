//! Parquet files that pandas and PyArrow wrote (`data/make.py`), whole and damaged.

use std::path::PathBuf;

use torsh_data::DataLoader;
use torsh_data::parquet::{Missing, ParquetReader};
use torsh_tensor::{DType, Result, Tensor, tensor};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

fn column(name: &str, dtype: DType) -> Result<Tensor> {
    let table = ParquetReader::new()
        .columns([name])
        .dtype(dtype)
        .read(path("pandas.parquet"))?;
    assert_eq!((table.columns.len(), table.target.is_none()), (1, true));
    table.features.squeeze(1)
}

#[test]
fn columns_of_every_width() -> Result<()> {
    let i64s = |name| column(name, DType::I64)?.to_vec::<i64>();
    assert_eq!(i64s("flag")?, [1, 0, 1, 1, 0]);
    assert_eq!(i64s("i8")?, [1, -2, 3, -128, 127]);
    assert_eq!(i64s("i16")?, [1, -2, 3, -32768, 32767]);
    assert_eq!(i64s("i32")?, [1, -2, 3, -(1 << 31), (1 << 31) - 1]);
    assert_eq!(i64s("i64")?, [1, -2, 3, i64::MIN, i64::MAX]);
    assert_eq!(i64s("u8")?, [0, 1, 2, 128, 255]);
    assert_eq!(i64s("u16")?, [0, 1, 2, 32768, 65535]);
    assert_eq!(i64s("u32")?, [0, 1, 2, 1 << 31, (1 << 32) - 1]);
    assert_eq!(column("i8", DType::I8)?.to_vec::<i8>()?[3..], [-128, 127]);
    assert_eq!(column("u8", DType::U8)?.to_vec::<u8>()?[3..], [128, 255]);
    let f64s = |name| column(name, DType::F64)?.to_vec::<f64>();
    assert_eq!(f64s("u64")?[3..], [2f64.powi(63), 2f64.powi(64)]);
    assert_eq!(f64s("f16")?, [0.5, -2.0, 65504.0, 0.0, -0.25]);
    assert_eq!(column("f16", DType::F16)?.to_vec::<f32>()?[2], 65504.0);
    assert_eq!(
        column("f32", DType::F32)?.to_vec::<f32>()?,
        [0.5, -2.25, 3.0, 1e-3, -1e30]
    );
    Ok(())
}

#[test]
fn missing_values_and_targets() -> Result<()> {
    let reader = ParquetReader::new().columns(["i8", "f64", "gaps"]);
    let nan = reader
        .clone()
        .dtype(DType::F64)
        .missing(Missing::Nan)
        .read(path("pandas.parquet"))?;
    let rows = nan.features.to_vec2::<f64>()?;
    assert_eq!(
        (&rows[0][..], &rows[2][..]),
        (&[1.0, 0.1, 7.0][..], &[3.0, -3.5, 9.0][..])
    );
    assert!(rows[1][1].is_nan() && rows[1][2].is_nan() && rows[3][2].is_nan());
    let filled = reader
        .clone()
        .missing(Missing::Value(-7.5))
        .target("kind")
        .target_classes(true)
        .read(path("pandas.parquet"))?;
    assert_eq!(filled.features.to_vec2::<f32>()?[1], [-2.0, -7.5, -7.5]);
    assert_eq!(filled.classes, ["x", "y"]);
    let loader = DataLoader::builder(filled.into_dataset()?)
        .batch_size(5)
        .build()?;
    for (x, y) in &loader {
        assert_eq!(x.dims(), [5, 3]);
        assert_eq!(y, tensor![1, 0, 1, 1, 0]);
    }
    let whole = ParquetReader::new()
        .columns(["gaps"])
        .dtype(DType::I32)
        .missing(Missing::Value(-1.0))
        .target("f32")
        .target_dtype(DType::F64)
        .read(path("pandas.parquet"))?;
    assert_eq!(whole.features.to_vec::<i32>()?, [7, -1, 9, -1, 11]);
    assert_eq!(whole.target.expect("f32").to_vec::<f64>()?[1], -2.25);
    Ok(())
}

#[test]
fn groups_pages_and_encodings() -> Result<()> {
    for name in ["groups.parquet", "plain.parquet"] {
        let table = ParquetReader::new()
            .columns(["half", "some", "deep.v", "id"])
            .dtype(DType::F64)
            .missing(Missing::Value(-1.0))
            .target("class")
            .target_classes(true)
            .read(path(name))?;
        assert_eq!(table.classes, ["blue", "green", "red"]);
        let (rows, classes) = (
            table.features.to_vec2::<f64>()?,
            table.target.expect("class").to_vec::<i64>()?,
        );
        assert_eq!((rows.len(), classes.len()), (1000, 1000));
        for (i, row) in rows.iter().enumerate() {
            let v = i as f64;
            let some = if i % 3 == 0 { -1.0 } else { v };
            let deep = if i % 7 == 0 { -1.0 } else { (i % 11) as f64 };
            assert_eq!(row[..], [v / 2.0, some, deep, v], "{name}, row {i}");
            assert_eq!(classes[i], [2, 1, 0][i % 3]);
        }
    }
    Ok(())
}

#[test]
fn errors_name_the_place() {
    let text = |r: ParquetReader, name: &str| {
        let e = r.read(path(name)).expect_err("bad").to_string();
        assert!(e.contains(name), "{e}");
        e
    };
    let pick = |name: &str| ParquetReader::new().columns([name]);
    let check = |r: ParquetReader, expected: &str| {
        let e = text(r, "pandas.parquet");
        assert!(e.contains(expected), "{e}");
    };
    check(pick("gaps"), "row 1, column `gaps`: the value is missing");
    let gaps = pick("gaps").dtype(DType::I64);
    check(gaps.clone().missing(Missing::Nan), "integers have no NaN");
    check(
        gaps.missing(Missing::Value(0.5)),
        "0.5 in its place is not an integer",
    );
    check(
        pick("f64").dtype(DType::I64),
        "row 0, column `f64`: `0.1` is not an integer",
    );
    check(
        pick("u64").dtype(DType::I64),
        "row 3, column `u64`: `9223372036854775808` is beyond",
    );
    check(pick("name"), "column `name`: a text is not a number");
    check(pick("day"), "column `day` is of type Date");
    check(pick("time"), "column `time` is of type Timestamp");
    check(pick("price"), "column `price` is of type Decimal");
    check(pick("list.list.element"), "has lists as values");
    check(pick("none"), "no column `none`");
    check(ParquetReader::new(), "column `f64`: the value is missing");
    let e = pick("f32").dtype(DType::Bool).read(path("pandas.parquet"));
    assert!(e.expect_err("bool").to_string().contains("not as bool"));
    check(
        pick("f32").target("f64").target_classes(true),
        "not the name of a class",
    );
    let e = pick("i16").dtype(DType::I8).read(path("pandas.parquet"));
    assert!(
        e.expect_err("too wide")
            .to_string()
            .contains("int8 cannot hold")
    );
    let e = text(pick("id"), "zstd.parquet");
    assert!(e.contains("Snappy"), "{e}");
    let e = ParquetReader::new().read("/nowhere/x.parquet");
    assert!(
        e.expect_err("no file")
            .to_string()
            .contains("/nowhere/x.parquet")
    );
}

/// Every cut, and every byte changed in several ways, is read or an error.
#[test]
fn damage_is_an_error() {
    let reader = ParquetReader::new()
        .columns(["i16", "f64", "gaps", "flag", "f16"])
        .missing(Missing::Nan)
        .target("name")
        .target_classes(true);
    let whole = std::fs::read(path("pandas.parquet")).expect("file");
    let read = |bytes: &[u8]| reader.read_bytes(bytes).map(|t| t.features.numel());
    let all = read(&whole);
    let mut damaged = 0;
    for cut in 0..whole.len() {
        damaged += usize::from(read(&whole[..cut]).is_err());
    }
    let mut changed = whole.clone();
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            changed[at] ^= change;
            damaged += usize::from(read(&changed).is_err());
            changed[at] = whole[at];
        }
    }
    // A file on disk that says more than it has.
    let file = std::env::temp_dir().join(format!("torsh-{}.parquet", std::process::id()));
    for cut in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes.drain(cut..(cut + 50).min(whole.len() - 8));
        std::fs::write(&file, &bytes).expect("file");
        damaged += usize::from(reader.read(&file).is_err());
    }
    let _ = std::fs::remove_file(&file);
    assert_eq!(all.expect("the file as it is"), 5 * 5);
    assert!(
        damaged > whole.len(),
        "{damaged} of {} files were refused",
        4 * whole.len()
    );
}

#[test]
fn a_pointer_of_git_lfs_is_named() {
    let path = std::env::temp_dir().join(format!("torsh-lfs-{}.parquet", std::process::id()));
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98304\n";
    std::fs::write(&path, pointer).unwrap();
    let error = ParquetReader::new()
        .read(&path)
        .err()
        .map(|e| e.to_string());
    std::fs::remove_file(&path).unwrap();
    assert!(error.is_some_and(|e| e.contains("pointer of git-lfs") && e.contains("98304")));
}
