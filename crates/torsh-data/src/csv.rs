//! Tables of numbers in CSV files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::{ErrorKind, ReaderBuilder, StringRecord};
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

    setters! {
        /// Whether the first line names the columns (true). Else their names are `0`, `1`, ...
        has_header: bool;
        /// What is between two values (`,`).
        delimiter: u8;
    }

    wanted_setters!();

    /// The texts of missing values (nothing, `NA`, `N/A`, `NaN`, `null`).
    #[must_use]
    pub fn missing_values<S: Into<String>>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.missing_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Reads a file. Errors name the file, and the line and column of what is wrong. Lines are counted as editors do: each
    /// line break counts, of blank lines and within quotes too.
    ///
    /// ```
    /// use torsh_data::csv::CsvReader;
    ///
    /// # let path = std::env::temp_dir().join(format!("torsh-data-read.csv-{}", std::process::id()));
    /// std::fs::write(&path, "a,b\n1,2\n3,x\n")?;
    /// let table = CsvReader::new().columns(["a"]).read(&path)?;
    /// assert_eq!(table.features.to_vec::<f32>()?, [1.0, 3.0]);
    /// let error = CsvReader::new().read(&path).unwrap_err().to_string();
    /// assert!(error.contains("line 3, column `b`: `x` is not a number"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Result<CsvTable> {
        let (file, name) = open("csv", path.as_ref())?;
        let again = || {
            let file = File::open(path.as_ref()).ok()?;
            // A pipe cannot be read again.
            file.metadata()
                .ok()?
                .is_file()
                .then(|| BufReader::new(file))
        };
        self.read_from(file, &again, &name)
    }

    /// [`CsvReader::read`] of a file in memory.
    #[torsh_tensor::names_caller]
    pub fn read_bytes(&self, bytes: &[u8]) -> Result<CsvTable> {
        torsh_core::check_git_lfs("csv", "CSV data", bytes)?;
        self.read_from(bytes, &|| Some(bytes), "CSV data")
    }

    /// Reads a source. `again` gives it from its start once more, which only an error needs.
    #[track_caller]
    fn read_from<R: Read>(
        &self,
        source: impl Read,
        again: &dyn Fn() -> Option<R>,
        file: &str,
    ) -> Result<CsvTable> {
        let line_of = |at: &csv::Position, field: usize| {
            let found = again().and_then(|r| line_of(r, at.byte(), field, self.delimiter, true));
            found.unwrap_or_else(|| at.line())
        };
        let damaged = |e: csv::Error| {
            let why = match e.kind() {
                ErrorKind::UnequalLengths {
                    pos: Some(at),
                    expected_len,
                    len,
                } => format!(
                    "line {}: it has {len} values, and the lines before it have {expected_len}",
                    line_of(at, 0)
                ),
                ErrorKind::Utf8 { pos: Some(at), err } => format!(
                    "line {}: value {} is no text in UTF-8",
                    line_of(at, err.field()),
                    err.field() + 1
                ),
                _ => e.to_string(),
            };
            TorshError::format("csv", format!("{file}: {why}"))
        };
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
            let value = |i: usize| {
                let text = record.get(i).unwrap_or("");
                (!self.missing_values.iter().any(|m| m == text)).then_some(text)
            };
            for &i in &picked {
                let line = || record.position().map_or(0, |at| line_of(at, i));
                features.push_text(value(i), wanted.missing, &place(file, &names[i], &line))?;
            }
            if let Some(i) = target {
                let line = || record.position().map_or(0, |at| line_of(at, i));
                let place = place(file, &names[i], &line);
                match (wanted.target_classes, value(i)) {
                    (false, value) => targets.push_text(value, wanted.missing, &place)?,
                    (true, Some(label)) => labels.push(label.to_string()),
                    (true, None) => return Err(place.error("the class is missing")),
                }
            }
            rows += 1;
        }
        let features = features.tensor("csv", wanted.dtype, &[rows, picked.len()])?;
        let columns = picked.iter().map(|&i| names[i].clone()).collect();
        let target = target.map(|_| (targets, labels));
        wanted.table("csv", columns, features, target)
    }
}

fn place<'a>(file: &'a str, column: &'a str, line: &'a dyn Fn() -> u64) -> Place<'a> {
    Place {
        op: "csv",
        file,
        row: ("line", line),
        column,
    }
}

/// The line of a value of CSV data, counted as editors count: of the value number `field` (from 0) of the record that begins at
/// the byte `at`, or behind the line breaks there. Line breaks are `\n`, `\r\n` and `\r`; those within quotes count as well. `None`
/// where the source ends before, or cannot be read.
///
/// The crate `csv` counts otherwise behind `\r\n` and blank lines; its positions have the byte.
///
/// ```
/// use torsh_data::csv::line_of;
/// let text = "a,b\r\n\r\n\"1\r\n\",x\r\n";
/// assert_eq!(line_of(text.as_bytes(), 4, 0, b',', true), Some(3));
/// assert_eq!(line_of(text.as_bytes(), 4, 1, b',', true), Some(4));
/// ```
pub fn line_of(
    source: impl Read,
    at: u64,
    field: usize,
    delimiter: u8,
    quoting: bool,
) -> Option<u64> {
    let (mut line, mut before, mut fields) = (1, 0, 0);
    let mut source = BufReader::new(source);
    // The mark that spreadsheets put ahead of UTF-8 is no part of the first value.
    let mark = match source.fill_buf().ok()?.starts_with(b"\xef\xbb\xbf") {
        true => 3,
        false => 0,
    };
    // Whether the record has begun, a value is at its start, within quotes, or just behind them.
    let (mut begun, mut start, mut quoted, mut closed) = (false, true, false, false);
    for (place, byte) in (0..).zip(source.bytes()).skip(mark) {
        let byte = byte.ok()?;
        let is_break = byte == b'\n' || byte == b'\r';
        begun |= place >= at && !is_break;
        if begun {
            if fields == field || (is_break && !quoted) {
                return Some(line);
            }
            match byte {
                b'"' if quoted => (quoted, closed) = (false, true),
                b'"' if quoting && (start || closed) => {
                    (quoted, closed, start) = (true, false, false)
                }
                _ => {
                    (start, closed) = (byte == delimiter && !quoted, false);
                    fields += usize::from(start);
                }
            }
        }
        if byte == b'\r' || (byte == b'\n' && before != b'\r') {
            line += 1;
        }
        before = byte;
    }
    begun.then_some(line)
}
