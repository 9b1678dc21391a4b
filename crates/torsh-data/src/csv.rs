//! Tables of numbers in CSV files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::TensorDataset;

/// What a missing value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// An error that names its line and column.
    #[default]
    Error,
    /// NaN; of floating-point columns only.
    Nan,
}

/// Reads a table of numbers from a CSV file.
///
/// ```
/// use torsh_data::csv::CsvReader;
/// use torsh_data::{DataLoader, Dataset};
///
/// let text = "length,width,kind\n5.1,3.5,setosa\n7.0,3.2,versicolor\n4.9,3.0,setosa\n";
/// let table = CsvReader::new().target("kind").target_classes(true).read_bytes(text.as_bytes())?;
/// assert_eq!(table.columns, ["length", "width"]);
/// assert_eq!(table.classes, ["setosa", "versicolor"]);
/// assert_eq!(table.features.to_vec2::<f32>()?[1], [7.0, 3.2]);
///
/// let loader = DataLoader::builder(table.into_dataset()?).batch_size(3).build()?;
/// for (_, y) in &loader {
///     assert_eq!(y.to_vec::<i64>()?, [0, 1, 0]);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CsvReader {
    has_header: bool,
    delimiter: u8,
    columns: Option<Vec<String>>,
    target: Option<String>,
    dtype: DType,
    target_dtype: Option<DType>,
    target_classes: bool,
    missing: Missing,
    missing_values: Vec<String>,
}

/// What a CSV file holds.
#[derive(Clone, Debug)]
pub struct CsvTable {
    /// The names of the features' columns; their numbers from 0 where there is no header.
    pub columns: Vec<String>,
    /// `[rows, columns]`.
    pub features: Tensor,
    /// The target column, `[rows]`, where one was asked for.
    pub target: Option<Tensor>,
    /// The target's classes by number, where it holds names.
    pub classes: Vec<String>,
}

impl CsvTable {
    /// Rows and targets as a dataset; an error where no target was asked for.
    pub fn into_dataset(self) -> Result<TensorDataset> {
        match self.target {
            Some(target) => Ok(TensorDataset::new(self.features, target)),
            None => Err(
                TorshError::invalid("CsvTable", "the table was read without a target").with_hint(
                    "name one with CsvReader::target, or use TensorDataset::of(table.features)",
                ),
            ),
        }
    }
}

impl Default for CsvReader {
    fn default() -> Self {
        CsvReader {
            has_header: true,
            delimiter: b',',
            columns: None,
            target: None,
            dtype: DType::F32,
            target_dtype: None,
            target_classes: false,
            missing: Missing::Error,
            missing_values: ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
                .map(String::from)
                .to_vec(),
        }
    }
}

/// A place in a file, for errors.
struct Place<'a> {
    file: &'a str,
    line: u64,
    column: &'a str,
}

impl Place<'_> {
    fn error(&self, what: impl std::fmt::Display) -> TorshError {
        TorshError::format(
            "csv",
            format!(
                "{}: line {}, column `{}`: {what}",
                self.file, self.line, self.column
            ),
        )
    }
}

/// Numbers of a dtype as they are collected.
enum Numbers {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Numbers {
    fn new(dtype: DType) -> Result<Numbers> {
        if dtype.is_floating_point() {
            Ok(Numbers::Floats(Vec::new()))
        } else if dtype.is_complex() || dtype == DType::Bool {
            Err(TorshError::dtype(
                "csv",
                format!("columns are read as integers or floating-point numbers, not as {dtype}"),
            ))
        } else {
            Ok(Numbers::Integers(Vec::new()))
        }
    }

    /// Adds a number; `None` where it is missing.
    fn push(&mut self, text: Option<&str>, missing: Missing, at: &Place<'_>) -> Result<()> {
        match (self, text) {
            (Numbers::Floats(v), Some(text)) => v.push(
                text.parse()
                    .map_err(|_| at.error(format!("`{text}` is not a number")))?,
            ),
            (Numbers::Floats(v), None) if missing == Missing::Nan => v.push(f64::NAN),
            (Numbers::Integers(v), Some(text)) => v.push(
                text.parse()
                    .map_err(|_| at.error(format!("`{text}` is not an integer")))?,
            ),
            (Numbers::Integers(_), None) if missing == Missing::Nan => {
                return Err(at.error("the value is missing, and integers have no NaN"));
            }
            (_, None) => return Err(at.error("the value is missing")),
        }
        Ok(())
    }

    fn tensor(self, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        match self {
            Numbers::Floats(v) => Tensor::from_slice(&v, shape, dtype, Device::Cpu),
            Numbers::Integers(v) => {
                let whole = Tensor::from_vec(v, shape)?;
                let t = whole.to_dtype(dtype)?;
                if dtype != DType::I64 && t.to_dtype(DType::I64)? != whole {
                    return Err(TorshError::dtype(
                        "csv",
                        format!("the file has integers that {dtype} cannot hold"),
                    ));
                }
                Ok(t)
            }
        }
    }
}

impl CsvReader {
    /// A header, commas, all columns as float32, no target, nothing missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the first line names the columns (true). Else their names are `0`, `1`, ...
    #[must_use]
    pub fn has_header(mut self, has_header: bool) -> Self {
        self.has_header = has_header;
        self
    }

    /// What is between two values (`,`).
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// The features' columns, in this order (all but the target).
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// The target's column.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// The features' dtype: an integer or floating-point one (float32).
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// The target's dtype (the features', int64 for classes).
    #[must_use]
    pub fn target_dtype(mut self, dtype: DType) -> Self {
        self.target_dtype = Some(dtype);
        self
    }

    /// Whether the target's values are names of classes, numbered in alphabetic order (false).
    #[must_use]
    pub fn target_classes(mut self, target_classes: bool) -> Self {
        self.target_classes = target_classes;
        self
    }

    /// What a missing value is (an error).
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// The texts of missing values (nothing, `NA`, `N/A`, `NaN`, `null`).
    #[must_use]
    pub fn missing_values<S: Into<String>>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.missing_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Reads a file. Errors name the file, and the line and column of what is wrong.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Result<CsvTable> {
        let name = path.as_ref().display().to_string();
        let file = File::open(path.as_ref())
            .map_err(|e| TorshError::from(std::io::Error::new(e.kind(), format!("{name}: {e}"))))?;
        self.read_from(file, &name)
    }

    /// [`CsvReader::read`] of a file in memory.
    #[track_caller]
    pub fn read_bytes(&self, bytes: &[u8]) -> Result<CsvTable> {
        self.read_from(bytes, "CSV data")
    }

    fn read_from(&self, source: impl Read, file: &str) -> Result<CsvTable> {
        let damaged = |e: csv::Error| TorshError::format("csv", format!("{file}: {e}"));
        let mut reader = ReaderBuilder::new()
            .has_headers(self.has_header)
            .delimiter(self.delimiter)
            .trim(csv::Trim::All)
            .from_reader(source);
        // Without a header this is the first line, which is read again below.
        let first = reader.headers().map_err(damaged)?.clone();
        let names: Vec<String> = if self.has_header {
            first.iter().map(str::to_string).collect()
        } else {
            (0..first.len()).map(|i| i.to_string()).collect()
        };
        let at = |name: &String| {
            names.iter().position(|n| n == name).ok_or_else(|| {
                TorshError::invalid(
                    "csv",
                    format!("{file}: there is no column `{name}` among {names:?}"),
                )
            })
        };
        let target = self.target.as_ref().map(at).transpose()?;
        let picked: Vec<usize> = match &self.columns {
            Some(columns) => columns.iter().map(at).collect::<Result<_>>()?,
            None => (0..names.len()).filter(|i| Some(*i) != target).collect(),
        };

        let target_dtype = self.target_dtype.unwrap_or(match self.target_classes {
            true => DType::I64,
            false => self.dtype,
        });
        let mut features = Numbers::new(self.dtype)?;
        let mut targets = Numbers::new(target_dtype)?;
        let mut labels: Vec<String> = Vec::new();
        let mut rows = 0;
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(damaged)? {
            let line = record.position().map_or(0, csv::Position::line);
            let value = |i: usize| {
                let text = record.get(i).unwrap_or("");
                (!self.missing_values.iter().any(|m| m == text)).then_some(text)
            };
            let place = |i: usize| Place {
                file,
                line,
                column: &names[i],
            };
            for &i in &picked {
                features.push(value(i), self.missing, &place(i))?;
            }
            match (target, self.target_classes) {
                (Some(i), false) => targets.push(value(i), self.missing, &place(i))?,
                (Some(i), true) => labels.push(
                    value(i)
                        .ok_or_else(|| place(i).error("the class is missing"))?
                        .to_string(),
                ),
                (None, _) => {}
            }
            rows += 1;
        }

        let classes: BTreeSet<&String> = labels.iter().collect();
        if self.target_classes && target.is_some() {
            let number: BTreeMap<&String, i64> = classes.iter().copied().zip(0..).collect();
            targets = Numbers::Integers(labels.iter().map(|l| number[l]).collect());
        }
        Ok(CsvTable {
            columns: picked.iter().map(|&i| names[i].clone()).collect(),
            features: features.tensor(self.dtype, &[rows, picked.len()])?,
            target: match target {
                Some(_) => Some(targets.tensor(target_dtype, &[rows])?),
                None => None,
            },
            classes: classes.into_iter().cloned().collect(),
        })
    }
}
