//! Tables of numbers, independent of the file format.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::TensorDataset;

/// What a reader puts in the place of a missing value.
///
/// ```
/// use torsh_data::csv::{CsvReader, Missing};
/// use torsh_tensor::tensor;
///
/// let read = |missing| CsvReader::new().missing(missing).read_bytes(b"a,b\n1,NA\n");
/// assert_eq!(read(Missing::Value(-1.0))?.features, tensor![[1.0, -1.0]]);
/// let error = read(Missing::Error).unwrap_err().to_string();
/// assert!(error.contains("line 2, column `b`: the value is missing"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Missing {
    /// An error that names its row and column.
    #[default]
    Error,
    /// NaN; of floating-point columns only.
    Nan,
    /// This number; of integer columns a whole one.
    Value(f64),
}

/// What a file of a table holds.
///
/// ```
/// use torsh_data::csv::CsvReader;
/// use torsh_tensor::tensor;
///
/// let table = CsvReader::new().target("y").read_bytes(b"x,y\n1,10\n2,20\n")?;
/// assert_eq!((table.columns, table.features), (vec!["x".to_string()], tensor![[1.0], [2.0]]));
/// assert_eq!(table.target, Some(tensor![10.0, 20.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    /// The names of the features' columns; their numbers from 0 where the file has none.
    pub columns: Vec<String>,
    /// `[rows, columns]`.
    pub features: Tensor,
    /// The target column, `[rows]`, where one was asked for.
    pub target: Option<Tensor>,
    /// The target's classes by number, where it holds names.
    pub classes: Vec<String>,
}

impl Table {
    /// Rows and targets as a dataset; an error where no target was asked for.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_data::csv::CsvReader;
    ///
    /// let text = b"x,y\n1,10\n2,20\n";
    /// let (_, y) = CsvReader::new().target("y").read_bytes(text)?.into_dataset()?.get(1)?;
    /// assert_eq!(y.item::<f32>()?, 20.0);
    /// let error = CsvReader::new().read_bytes(text)?.into_dataset().unwrap_err().to_string();
    /// assert!(error.contains("the table was read without a target"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn into_dataset(self) -> Result<TensorDataset> {
        match self.target {
            Some(target) => Ok(TensorDataset::new(self.features, target)),
            None => Err(
                TorshError::invalid("Table", "the table was read without a target").with_hint(
                    "name one with the reader's `target`, or use TensorDataset::of(table.features)",
                ),
            ),
        }
    }
}

/// What a reader is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) target: Option<String>,
    pub(crate) dtype: DType,
    pub(crate) target_dtype: Option<DType>,
    pub(crate) target_classes: bool,
    pub(crate) missing: Missing,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted {
            columns: None,
            target: None,
            dtype: DType::F32,
            target_dtype: None,
            target_classes: false,
            missing: Missing::Error,
        }
    }
}

/// The setters of a reader with a field `wanted`.
macro_rules! wanted_setters {
    () => {
        /// The features' columns, in this order (all but the target).
        #[must_use]
        pub fn columns<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
            self.wanted.columns = Some(columns.into_iter().map(Into::into).collect());
            self
        }

        /// The target's column.
        #[must_use]
        pub fn target(mut self, target: impl Into<String>) -> Self {
            self.wanted.target = Some(target.into());
            self
        }

        /// The features' dtype: an integer or floating-point one (float32).
        #[must_use]
        pub fn dtype(mut self, dtype: torsh_tensor::DType) -> Self {
            self.wanted.dtype = dtype;
            self
        }

        /// The target's dtype (the features', int64 for classes).
        #[must_use]
        pub fn target_dtype(mut self, dtype: torsh_tensor::DType) -> Self {
            self.wanted.target_dtype = Some(dtype);
            self
        }

        /// Whether the target's values are names of classes, numbered in alphabetic order (false).
        #[must_use]
        pub fn target_classes(mut self, target_classes: bool) -> Self {
            self.wanted.target_classes = target_classes;
            self
        }

        /// What a missing value is (an error).
        #[must_use]
        pub fn missing(mut self, missing: Missing) -> Self {
            self.wanted.missing = missing;
            self
        }
    };
}
pub(crate) use wanted_setters;

impl Wanted {
    /// The features' columns and the target's among those of a file.
    pub(crate) fn pick(
        &self,
        op: &'static str,
        file: &str,
        names: &[String],
    ) -> Result<(Vec<usize>, Option<usize>)> {
        let at = |name: &String| {
            names.iter().position(|n| n == name).ok_or_else(|| {
                TorshError::invalid(
                    op,
                    format!("{file}: there is no column `{name}` among {names:?}"),
                )
            })
        };
        let target = self.target.as_ref().map(at).transpose()?;
        let picked = match &self.columns {
            Some(columns) => columns.iter().map(at).collect::<Result<_>>()?,
            None => (0..names.len()).filter(|i| Some(*i) != target).collect(),
        };
        Ok((picked, target))
    }

    pub(crate) fn target_dtype(&self) -> DType {
        self.target_dtype.unwrap_or(match self.target_classes {
            true => DType::I64,
            false => self.dtype,
        })
    }

    /// The table of these columns; of the target, its numbers or the names of its classes.
    pub(crate) fn table(
        &self,
        op: &'static str,
        columns: Vec<String>,
        features: Tensor,
        target: Option<(Numbers, Vec<String>)>,
    ) -> Result<Table> {
        let Some((mut numbers, labels)) = target else {
            return Ok(Table {
                columns,
                features,
                target: None,
                classes: Vec::new(),
            });
        };
        let classes: BTreeSet<&String> = labels.iter().collect();
        if self.target_classes {
            let number: BTreeMap<&String, i64> = classes.iter().copied().zip(0..).collect();
            numbers = Numbers::Integers(labels.iter().map(|l| number[l]).collect());
        }
        let rows = features.dims()[0];
        Ok(Table {
            columns,
            features,
            target: Some(numbers.tensor(op, self.target_dtype(), &[rows])?),
            classes: classes.into_iter().cloned().collect(),
        })
    }
}

/// Opens a file, whose name comes back for errors.
#[track_caller]
pub(crate) fn open(op: &'static str, path: &Path) -> Result<(File, String)> {
    let name = path.display().to_string();
    let failed =
        |e: std::io::Error| TorshError::from(std::io::Error::new(e.kind(), format!("{name}: {e}")));
    let mut file = File::open(path).map_err(failed)?;
    // What is no regular file, as a pipe, has no way back to its start.
    if file.metadata().map_err(failed)?.is_file() {
        torsh_core::check_git_lfs_file(op, &name, &mut file)?;
    }
    Ok((file, name))
}

/// A place in a file, for errors.
pub(crate) struct Place<'a> {
    pub(crate) op: &'static str,
    pub(crate) file: &'a str,
    /// What a row is called, and what finds its number.
    pub(crate) row: (&'static str, &'a dyn Fn() -> u64),
    pub(crate) column: &'a str,
}

impl Place<'_> {
    pub(crate) fn error(&self, what: impl std::fmt::Display) -> TorshError {
        let (row, number) = (self.row.0, self.row.1());
        TorshError::format(
            self.op,
            format!(
                "{}: {row} {number}, column `{}`: {what}",
                self.file, self.column
            ),
        )
    }
}

/// Numbers of a dtype as they are collected.
pub(crate) enum Numbers {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

/// The whole number that `v` is.
fn whole(v: f64) -> Option<i64> {
    // 2^63 is a float, the largest int64 is not.
    (v.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&v)).then_some(v as i64)
}

impl Numbers {
    pub(crate) fn new(op: &'static str, dtype: DType) -> Result<Numbers> {
        if dtype.is_floating_point() {
            Ok(Numbers::Floats(Vec::new()))
        } else if dtype.is_complex() || dtype == DType::Bool {
            Err(TorshError::dtype(
                op,
                format!("columns are read as integers or floating-point numbers, not as {dtype}"),
            ))
        } else {
            Ok(Numbers::Integers(Vec::new()))
        }
    }

    /// Adds what a text says; `None` where it is missing.
    pub(crate) fn push_text(
        &mut self,
        text: Option<&str>,
        missing: Missing,
        at: &Place<'_>,
    ) -> Result<()> {
        let Some(text) = text else {
            return self.push_missing(missing, at);
        };
        match self {
            Numbers::Floats(v) => v.push(
                text.parse()
                    .map_err(|_| at.error(format!("`{text}` is not a number")))?,
            ),
            Numbers::Integers(v) => v.push(
                text.parse()
                    .map_err(|_| at.error(format!("`{text}` is not an integer")))?,
            ),
        }
        Ok(())
    }

    /// Adds a float.
    #[cfg(feature = "parquet")]
    pub(crate) fn push_float(&mut self, value: f64, at: &Place<'_>) -> Result<()> {
        match self {
            Numbers::Floats(v) => v.push(value),
            Numbers::Integers(v) => v.push(
                whole(value).ok_or_else(|| at.error(format!("`{value}` is not an integer")))?,
            ),
        }
        Ok(())
    }

    /// Adds an integer.
    #[cfg(feature = "parquet")]
    pub(crate) fn push_integer(&mut self, value: i128, at: &Place<'_>) -> Result<()> {
        match self {
            Numbers::Floats(v) => v.push(value as f64),
            Numbers::Integers(v) => v.push(
                i64::try_from(value).map_err(|_| at.error(format!("`{value}` is beyond int64")))?,
            ),
        }
        Ok(())
    }

    /// Adds what stands for a missing value.
    pub(crate) fn push_missing(&mut self, missing: Missing, at: &Place<'_>) -> Result<()> {
        match (self, missing) {
            (_, Missing::Error) => return Err(at.error("the value is missing")),
            (Numbers::Floats(v), Missing::Nan) => v.push(f64::NAN),
            (Numbers::Floats(v), Missing::Value(value)) => v.push(value),
            (Numbers::Integers(_), Missing::Nan) => {
                return Err(at.error("the value is missing, and integers have no NaN"));
            }
            (Numbers::Integers(v), Missing::Value(value)) => {
                v.push(whole(value).ok_or_else(|| {
                    at.error(format!(
                        "the value is missing, and {value} in its place is not an integer"
                    ))
                })?)
            }
        }
        Ok(())
    }

    pub(crate) fn tensor(self, op: &'static str, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        match self {
            Numbers::Floats(v) => Tensor::from_slice(&v, shape, dtype, Device::Cpu),
            Numbers::Integers(v) => {
                let all = Tensor::from_slice(&v, shape, DType::I64, Device::Cpu)?;
                let t = all.to_dtype(dtype)?;
                if dtype != DType::I64 && t.to_dtype(DType::I64)? != all {
                    return Err(TorshError::dtype(
                        op,
                        format!("the file has integers that {dtype} cannot hold"),
                    ));
                }
                Ok(t)
            }
        }
    }
}
