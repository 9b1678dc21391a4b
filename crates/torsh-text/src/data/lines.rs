//! Files with an item on each line.

use std::path::Path;

use serde::de::DeserializeOwned;
use torsh_data::Dataset;
use torsh_tensor::{Result, TorshError, options};

use super::files::{self, dataset, text, wrong};

/// The lines of a text file.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::TextLines;
/// # let path = std::env::temp_dir().join(format!("torsh-text-lines-{}", std::process::id()));
/// std::fs::write(&path, "one\n\ntwo\n")?;
/// let lines = TextLines::open(&path)?;
/// assert_eq!((lines.len(), lines.get(2)?), (3, "two".to_string()));
/// assert_eq!(lines.without_empty().items(), ["one", "two"]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextLines {
    items: Vec<String>,
}

dataset!(TextLines: String);

impl TextLines {
    /// The lines of a file, empty ones too.
    ///
    /// # Errors
    /// A file that cannot be read or is not UTF-8.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(TextLines::new(&text("TextLines", path.as_ref())?))
    }

    /// The lines of a text.
    pub fn new(text: &str) -> Self {
        TextLines {
            items: files::lines(text).map(str::to_string).collect(),
        }
    }

    /// Without the lines that are empty or only spaces.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.items.retain(|line| !line.trim().is_empty());
        self
    }
}

/// A file with a JSON value on each line, each read as a `T`. Empty lines are left out.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::JsonLines;
///
/// #[derive(Clone, serde::Deserialize)]
/// struct Review { text: String, stars: u8 }
///
/// # let path = std::env::temp_dir().join(format!("torsh-text-jsonl-{}", std::process::id()));
/// std::fs::write(&path, "{\"text\": \"good\", \"stars\": 5}\n{\"text\": \"bad\", \"stars\": 1}\n")?;
/// let reviews = JsonLines::<Review>::open(&path)?;
/// assert_eq!(reviews.get(1)?.text, "bad");
///
/// std::fs::write(&path, "{\"text\": \"good\", \"stars\": \"five\"}\n")?;
/// let error = JsonLines::<Review>::open(&path).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("line 1: field stars")));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonLines<T = serde_json::Value> {
    items: Vec<T>,
}

impl<T: Clone + Send + Sync> Dataset for JsonLines<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.items.len()
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T> {
        files::item("JsonLines", &self.items, index)
    }
}

impl<T> JsonLines<T> {
    /// All items, in the order of the file.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T: DeserializeOwned> JsonLines<T> {
    /// The values of a file.
    ///
    /// # Errors
    /// A file that cannot be read, and a line that is no `T`; the error names the line and the field.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        const OP: &str = "JsonLines";
        let path = path.as_ref();
        let text = text(OP, path)?;
        let mut items = Vec::new();
        for (i, line) in files::lines(&text).enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let mut from = serde_json::Deserializer::from_str(line);
            let item = serde_path_to_error::deserialize(&mut from).map_err(|e| {
                wrong(
                    OP,
                    path,
                    i + 1,
                    &format!("field {}: {}", e.path(), e.inner()),
                )
            })?;
            from.end()
                .map_err(|e| wrong(OP, path, i + 1, &format!("after the value: {e}")))?;
            items.push(item);
        }
        Ok(JsonLines { items })
    }
}

options! {
    /// How a file of comma-separated values is written.
    CsvOptions {
        /// What is between two values (a comma).
        delimiter: u8 = b',';
        /// Whether the first line names the columns (true). Else a `T` is a tuple or a list.
        has_header: bool = true;
        /// Whether values are quoted (true). Files of tab-separated values usually are not.
        quoting: bool = true;
    }
}

/// A file of comma-separated values, each line read as a `T`: a struct by the names of the columns, or a tuple.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::CsvRows;
///
/// #[derive(Clone, serde::Deserialize)]
/// struct Review { text: String, stars: u8 }
///
/// # let path = std::env::temp_dir().join(format!("torsh-text-csv-{}", std::process::id()));
/// std::fs::write(&path, "stars,text\n5,\"good, very good\"\n")?;
/// let reviews = CsvRows::<Review>::open(&path)?;
/// assert_eq!(reviews.get(0)?.text, "good, very good");
/// assert_eq!(reviews.items()[0].stars, 5);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CsvRows<T> {
    items: Vec<T>,
}

impl<T: Clone + Send + Sync> Dataset for CsvRows<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.items.len()
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T> {
        files::item("CsvRows", &self.items, index)
    }
}

impl<T> CsvRows<T> {
    /// All items, in the order of the file.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T: DeserializeOwned> CsvRows<T> {
    /// The rows of a file with commas and a header.
    ///
    /// # Errors
    /// A file that cannot be read, and a row that is no `T`; the error names the line and the column.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &CsvOptions::new())
    }

    /// [`CsvRows::open`] of a file that is written otherwise.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller(Self)]
    pub fn open_with(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self> {
        const OP: &str = "CsvRows";
        let path = path.as_ref();
        let mut file = std::fs::File::open(path).map_err(|e| files::at(OP, path, e))?;
        torsh_core::check_git_lfs_file(OP, path.display(), &mut file)?;
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(options.delimiter)
            .has_headers(options.has_header)
            .quoting(options.quoting)
            .from_reader(file);
        let mut items = Vec::new();
        for row in reader.deserialize() {
            items.push(row.map_err(|e| {
                let why = with_line(&e, path, options);
                TorshError::format(OP, format!("{}: {why}", path.display()))
            })?);
        }
        Ok(CsvRows { items })
    }
}

/// An error of the crate, which names line and field, with the line as editors count.
fn with_line(e: &csv::Error, path: &Path, options: &CsvOptions) -> String {
    let text = e.to_string();
    let field = match e.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.field().unwrap_or(0) as usize,
        csv::ErrorKind::Utf8 { err, .. } => err.field(),
        _ => 0,
    };
    let (Some(at), Ok(file)) = (e.position(), std::fs::File::open(path)) else {
        return text;
    };
    let found =
        torsh_data::csv::line_of(file, at.byte(), field, options.delimiter, options.quoting);
    match found {
        Some(line) => text.replacen(&format!("line: {}", at.line()), &format!("line: {line}"), 1),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::tests::Folder;

    #[test]
    fn errors_name_the_file_and_the_line() -> Result<()> {
        let folder = Folder::new(
            "lines",
            &[
                ("a.jsonl", "{\"a\": 1}\n\n{\"a\": 2} 3\n"),
                ("b.csv", "a,b\n1,2\n1,x\n"),
                ("c.tsv", "1\ta \"b\n2\tc\n"),
            ],
        )?;
        let error = JsonLines::<serde_json::Value>::open(folder.0.join("a.jsonl"));
        let error = error.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            error.contains("a.jsonl") && error.contains("line 3"),
            "{error}"
        );
        let error = CsvRows::<(i64, i64)>::open(folder.0.join("b.csv"));
        let error = error.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            error.contains("b.csv") && error.contains("line: 3"),
            "{error}"
        );
        for (text, line) in [
            ("a,b\r\n1,2\r\n1,x\r\n", 3),
            ("a,b\r\n\r\n1,2\r\n\r\n1,x\r\n", 5),
            ("\u{feff}a,b\n\"1\",\"2\"\n\n1,x", 4),
            ("a,b\n\"1\",2,3\n", 2),
        ] {
            let path = folder.0.join("lines.csv");
            std::fs::write(&path, text)?;
            let error = CsvRows::<(i64, i64)>::open(&path)
                .err()
                .map(|e| e.to_string());
            let wanted = format!("line: {line}");
            assert!(
                error.as_ref().is_some_and(|e| e.contains(&wanted)),
                "{text:?}: {error:?}"
            );
        }
        let options = CsvOptions::new()
            .delimiter(b'\t')
            .has_header(false)
            .quoting(false);
        let rows = CsvRows::<(i64, String)>::open_with(folder.0.join("c.tsv"), &options)?;
        assert_eq!(
            rows.items(),
            [(1, "a \"b".to_string()), (2, "c".to_string())]
        );
        assert!(TextLines::open(folder.0.join("none")).is_err());
        std::fs::write(folder.0.join("d"), b"a\xff")?;
        let error = TextLines::open(folder.0.join("d"))
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("byte 1")));
        Ok(())
    }
}
