//! Tables of numbers in CSV files.

use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use torsh_tensor::{Result, TorshError};

pub use crate::table::{Missing, Table as CsvTable};
use crate::table::{Numbers, Place, Wanted, open, wanted_setters};

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
    missing_values: Vec<String>,
    wanted: Wanted,
}

impl Default for CsvReader {
    fn default() -> Self {
        CsvReader {
            has_header: true,
            delimiter: b',',
            wanted: Wanted::default(),
            missing_values: ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
                .map(String::from)
                .to_vec(),
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

    wanted_setters!();

    /// The texts of missing values (nothing, `NA`, `N/A`, `NaN`, `null`).
    #[must_use]
    pub fn missing_values<S: Into<String>>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.missing_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Reads a file. Errors name the file, and the line and column of what is wrong.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Result<CsvTable> {
        let (file, name) = open(path.as_ref())?;
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
        let (picked, target) = self.wanted.pick("csv", file, &names)?;
        let wanted = &self.wanted;
        let mut features = Numbers::new("csv", wanted.dtype)?;
        let mut targets = Numbers::new("csv", wanted.target_dtype())?;
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
                op: "csv",
                file,
                row: ("line", line),
                column: &names[i],
            };
            for &i in &picked {
                features.push_text(value(i), wanted.missing, &place(i))?;
            }
            match (target, wanted.target_classes) {
                (Some(i), false) => targets.push_text(value(i), wanted.missing, &place(i))?,
                (Some(i), true) => labels.push(
                    value(i)
                        .ok_or_else(|| place(i).error("the class is missing"))?
                        .to_string(),
                ),
                (None, _) => {}
            }
            rows += 1;
        }
        let features = features.tensor("csv", wanted.dtype, &[rows, picked.len()])?;
        let columns = picked.iter().map(|&i| names[i].clone()).collect();
        let target = target.map(|_| (targets, labels));
        wanted.table("csv", columns, features, target)
    }
}
