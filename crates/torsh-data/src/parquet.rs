//! Tables of numbers in Parquet files, with the feature `parquet`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ::parquet::basic::{ConvertedType, LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;
use torsh_core::alloc;
use torsh_tensor::{Result, TorshError};

use crate::guard::panic_text;
pub use crate::table::{Missing, Table as ParquetTable};
use crate::table::{Numbers, Place, Wanted, open, wanted_setters};

/// How many values are decoded at a time.
const STEP: usize = 8192;

/// Reads a table of numbers from a Parquet file, as pandas, Polars and Arrow write them.
///
/// Columns of bools, integers and floating-point numbers of any width are read, with bools as 0
/// and 1; texts only as the target's classes; a field of a group under its dotted name. Lists,
/// dates, decimals and other things that are not numbers are an error that names the column, where
/// they are among the columns asked for. Pages may be plain or compressed with Snappy or gzip.
///
/// ```
/// use torsh_data::DataLoader;
/// use torsh_data::parquet::{Missing, ParquetReader};
///
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pandas.parquet");
/// let table = ParquetReader::new()
///     .columns(["i16", "f64"])
///     .target("name")
///     .target_classes(true)
///     .missing(Missing::Value(-1.0))
///     .read(path)?;
/// assert_eq!(table.features.to_vec2::<f32>()?[1], [-2.0, -1.0]);
/// assert_eq!(table.classes, ["a", "b", "c"]);
/// for (_, y) in &DataLoader::builder(table.into_dataset()?).batch_size(5).build()? {
///     assert_eq!(y.to_vec::<i64>()?, [1, 0, 2, 0, 1]);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParquetReader {
    wanted: Wanted,
}

impl ParquetReader {
    /// All columns as float32, no target, nothing missing.
    pub fn new() -> Self {
        Self::default()
    }

    wanted_setters!();

    /// Reads a file. Errors name the file, and the row (from 0) and column of what is wrong.
    #[torsh_tensor::names_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Result<ParquetTable> {
        let (file, name) = open("parquet", path.as_ref())?;
        let len = file.metadata()?.len();
        self.read_from(Source { file, len }, &name)
    }

    /// [`ParquetReader::read`] of a file in memory.
    #[torsh_tensor::names_caller]
    pub fn read_bytes(&self, bytes: &[u8]) -> Result<ParquetTable> {
        self.read_from(Bytes::copy_from_slice(bytes), "Parquet data")
    }

    /// The decoder checks much, but panics over some damage.
    fn read_from<R: ChunkReader + 'static>(&self, source: R, file: &str) -> Result<ParquetTable> {
        catch_unwind(AssertUnwindSafe(|| self.decode(source, file))).unwrap_or_else(|panic| {
            Err(TorshError::format(
                "parquet",
                format!("{file}: the file is damaged ({})", panic_text(&*panic)),
            ))
        })
    }

    fn decode<R: ChunkReader + 'static>(&self, source: R, file: &str) -> Result<ParquetTable> {
        let reader = SerializedFileReader::new(source).map_err(|e| damaged(file, e))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let leaves: Vec<&ColumnDescriptor> = schema.columns().iter().map(|c| &**c).collect();
        let names: Vec<String> = leaves.iter().map(|c| c.path().string()).collect();
        let (picked, target) = self.wanted.pick("parquet", file, &names)?;

        let mut rows = 0usize;
        for group in reader.metadata().row_groups() {
            rows = usize::try_from(group.num_rows())
                .ok()
                .and_then(|n| rows.checked_add(n))
                .ok_or_else(|| {
                    TorshError::format("parquet", format!("{file}: a group has no count of rows"))
                })?;
        }
        // A page of a few bytes may stand for any number of equal values.
        let columns = picked.len() + usize::from(target.is_some());
        alloc::check(rows.saturating_mul(columns), size_of::<f64>())?;

        let w = &self.wanted;
        let (mut features, mut targets) = (
            Numbers::new("parquet", w.dtype)?,
            Numbers::new("parquet", w.target_dtype())?,
        );
        let mut labels = Vec::new();
        let column = |i: usize| Column {
            reader: &reader,
            index: i,
            leaf: leaves[i],
            name: &names[i],
            file,
        };
        for &i in &picked {
            column(i).each(&mut |value, at| push(&mut features, value, w.missing, at))?;
        }
        match target {
            Some(i) if w.target_classes => column(i).each(&mut |value, at| {
                labels.push(label(value, at)?);
                Ok(())
            })?,
            Some(i) => {
                column(i).each(&mut |value, at| push(&mut targets, value, w.missing, at))?;
            }
            None => {}
        }

        let features = features.tensor("parquet", w.dtype, &[picked.len(), rows])?;
        let columns = picked.iter().map(|&i| names[i].clone()).collect();
        let target = target.map(|_| (targets, labels));
        w.table("parquet", columns, features.t()?.contiguous()?, target)
    }
}

#[cold]
fn damaged(file: &str, e: ParquetError) -> TorshError {
    let hint = matches!(&e, ParquetError::General(s) if s.contains("Disabled feature"));
    let e = TorshError::format("parquet", format!("{file}: {e}"));
    match hint {
        true => e.with_hint("write the file with Snappy, gzip or no compression"),
        false => e,
    }
}

/// A value of a column.
enum Value<'a> {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(&'a [u8]),
}

fn push(
    numbers: &mut Numbers,
    value: Option<Value<'_>>,
    missing: Missing,
    at: &Place<'_>,
) -> Result<()> {
    match value {
        None => numbers.push_missing(missing, at),
        Some(Value::Bool(v)) => numbers.push_integer(i128::from(v), at),
        Some(Value::Integer(v)) => numbers.push_integer(v, at),
        Some(Value::Float(v)) => numbers.push_float(v, at),
        Some(Value::Text(_)) => Err(at
            .error("a text is not a number")
            .with_hint("leave the column out with `columns`, or make it the target of classes")),
    }
}

fn label(value: Option<Value<'_>>, at: &Place<'_>) -> Result<String> {
    match value {
        None => Err(at.error("the class is missing")),
        Some(Value::Bool(v)) => Ok(v.to_string()),
        Some(Value::Integer(v)) => Ok(v.to_string()),
        Some(Value::Float(v)) => Err(at.error(format!("`{v}` is not the name of a class"))),
        Some(Value::Text(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => Err(at.error("the text is not UTF-8")),
        },
    }
}

/// What the values of a column are.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Signed,
    Unsigned,
    Float,
    Half,
    Text,
}

/// A float16 of two bytes.
fn half(bytes: &[u8]) -> f64 {
    match *bytes {
        [low, high] => half::f16::from_le_bytes([low, high]).to_f64(),
        _ => f64::NAN,
    }
}

/// A column of a file.
struct Column<'a> {
    reader: &'a dyn FileReader,
    index: usize,
    leaf: &'a ColumnDescriptor,
    name: &'a str,
    file: &'a str,
}

impl Column<'_> {
    /// What the column's types say its values are; an error where that is no number or text.
    fn kind(&self) -> Result<Kind> {
        let refuse = |what: String| {
            Err(TorshError::format(
                "parquet",
                format!("{}: column `{}` {what}", self.file, self.name),
            )
            .with_hint("leave it out: `columns` names those that are read"))
        };
        if self.leaf.max_rep_level() > 0 {
            return refuse("has lists as values".into());
        }
        let logical = self.leaf.logical_type_ref();
        match (
            self.leaf.physical_type(),
            logical,
            self.leaf.converted_type(),
        ) {
            (Type::BOOLEAN, None, _) => Ok(Kind::Bool),
            (Type::FLOAT | Type::DOUBLE, None, _) => Ok(Kind::Float),
            (Type::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _)
                if self.leaf.type_length() == 2 =>
            {
                Ok(Kind::Half)
            }
            (Type::INT32 | Type::INT64, Some(LogicalType::Integer(i)), _) => {
                Ok(match i.is_signed {
                    true => Kind::Signed,
                    false => Kind::Unsigned,
                })
            }
            (Type::INT32 | Type::INT64, None, converted) => match converted {
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64 => Ok(Kind::Signed),
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64 => Ok(Kind::Unsigned),
                other => refuse(format!("is of type {other}, which is not a number")),
            },
            (Type::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Enum), _)
            | (Type::BYTE_ARRAY, None, ConvertedType::UTF8 | ConvertedType::ENUM) => Ok(Kind::Text),
            (_, Some(logical), _) => {
                refuse(format!("is of type {logical:?}, which is not a number"))
            }
            (physical, None, _) => refuse(format!("is of type {physical}, which is not a number")),
        }
    }

    /// Calls `f` with the values of all rows; `None` where one is missing.
    fn each(&self, f: &mut Each<'_>) -> Result<()> {
        let kind = self.kind()?;
        let mut row = 0;
        for group in 0..self.reader.num_row_groups() {
            let rows = self.reader.metadata().row_group(group).num_rows() as u64;
            let reader = self
                .reader
                .get_row_group(group)
                .and_then(|g| g.get_column_reader(self.index))
                .map_err(|e| damaged(self.file, e))?;
            match (reader, kind) {
                (ColumnReader::BoolColumnReader(r), Kind::Bool) => {
                    self.read(r, row, rows, |&v| Value::Bool(v), f)
                }
                (ColumnReader::Int32ColumnReader(r), Kind::Signed) => {
                    self.read(r, row, rows, |&v| Value::Integer(v.into()), f)
                }
                (ColumnReader::Int32ColumnReader(r), Kind::Unsigned) => {
                    self.read(r, row, rows, |&v| Value::Integer((v as u32).into()), f)
                }
                (ColumnReader::Int64ColumnReader(r), Kind::Signed) => {
                    self.read(r, row, rows, |&v| Value::Integer(v.into()), f)
                }
                (ColumnReader::Int64ColumnReader(r), Kind::Unsigned) => {
                    self.read(r, row, rows, |&v| Value::Integer((v as u64).into()), f)
                }
                (ColumnReader::FloatColumnReader(r), Kind::Float) => {
                    self.read(r, row, rows, |&v| Value::Float(f64::from(v)), f)
                }
                (ColumnReader::DoubleColumnReader(r), Kind::Float) => {
                    self.read(r, row, rows, |&v| Value::Float(v), f)
                }
                (ColumnReader::FixedLenByteArrayColumnReader(r), Kind::Half) => {
                    self.read(r, row, rows, |v| Value::Float(half(v.data())), f)
                }
                (ColumnReader::ByteArrayColumnReader(r), Kind::Text) => {
                    self.read(r, row, rows, |v| Value::Text(v.data()), f)
                }
                _ => Err(self.wrong("its pages are not of the type that the schema says")),
            }?;
            row += rows;
        }
        Ok(())
    }

    #[cold]
    fn wrong(&self, what: &str) -> TorshError {
        TorshError::format(
            "parquet",
            format!("{}: column `{}`: {what}", self.file, self.name),
        )
    }

    /// Calls `f` with the values of a group of `rows` rows, the first of which is `first`.
    fn read<T: DataType>(
        &self,
        mut reader: ColumnReaderImpl<T>,
        first: u64,
        rows: u64,
        value: impl for<'v> Fn(&'v T::T) -> Value<'v>,
        f: &mut Each<'_>,
    ) -> Result<()> {
        let full = self.leaf.max_def_level();
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let mut row = 0;
        while row < rows {
            values.clear();
            levels.clear();
            let step = (rows - row).min(STEP as u64) as usize;
            let (records, _, _) = reader
                .read_records(step, Some(&mut levels), None, &mut values)
                .map_err(|e| damaged(self.file, e))?;
            if records == 0 {
                return Err(self.wrong("it has fewer values than rows"));
            }
            let mut next = values.iter();
            for i in 0..records {
                let number = || first + row + i as u64;
                let at = Place {
                    op: "parquet",
                    file: self.file,
                    row: ("row", &number),
                    column: self.name,
                };
                let there = full == 0 || levels.get(i) == Some(&full);
                let v = match there {
                    true => Some(value(next.next().ok_or_else(|| {
                        self.wrong("it has fewer values than its levels say")
                    })?)),
                    false => None,
                };
                f(v, &at)?;
            }
            row += records as u64;
        }
        Ok(())
    }
}

type Each<'a> = dyn FnMut(Option<Value<'_>>, &Place<'_>) -> Result<()> + 'a;

/// A file of which no more is asked than it has: its own pages say how much to read.
struct Source {
    file: File,
    len: u64,
}

impl Source {
    fn at(&self, start: u64, length: u64) -> ::parquet::errors::Result<File> {
        if start.checked_add(length).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} are beyond the file's {} bytes",
                self.len
            )));
        }
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Source {
    type T = std::io::BufReader<File>;

    fn get_read(&self, start: u64) -> ::parquet::errors::Result<Self::T> {
        Ok(std::io::BufReader::new(self.at(start, 0)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ::parquet::errors::Result<Bytes> {
        let mut file = self.at(start, length as u64)?;
        let mut buffer = vec![0; length];
        file.read_exact(&mut buffer)?;
        Ok(buffer.into())
    }
}
