//! Logs of training runs as tables.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use torsh_tensor::{Result, TorshError};

use super::rows::{io_error, make_folder, of_epoch, of_step};
use super::{Callback, Context};

type Row = Vec<(String, f64)>;

/// Puts a new file in the place of another, whole.
fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let io = |e| io_error(path, e);
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&beside, text).map_err(io)?;
    torsh_serialize::files::replace(&beside, path).map_err(io)
}

fn append(path: &Path, text: &[u8]) -> Result<()> {
    let file = File::options().append(true).create(true).open(path);
    file.and_then(|mut f| f.write_all(text))
        .map_err(|e| io_error(path, e))
}

macro_rules! logger {
    ($name:ident $key:literal) => {
        impl $name {
            /// Into a file, whose folder is made where it is not there: a row after each epoch. A
            /// run that is resumed goes on with the file, without the rows after its checkpoint.
            pub fn new(path: impl Into<PathBuf>) -> Self {
                $name {
                    path: path.into(),
                    every_n_steps: 0,
                }
            }

            /// After how many steps there is a row too, with that batch's loss; 0 for never.
            #[must_use]
            pub fn every_n_steps(mut self, n: usize) -> Self {
                self.every_n_steps = n;
                self
            }
        }

        impl Callback for $name {
            fn name(&self) -> &str {
                $key
            }

            fn on_every_rank(&self) -> bool {
                false
            }

            #[torsh_tensor::names_caller]
            fn on_fit_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
                make_folder(&self.path)?;
                self.begin(cx.step)
            }

            #[torsh_tensor::names_caller]
            fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
                match self.every_n_steps > 0 && cx.step.is_multiple_of(self.every_n_steps) {
                    true => self.write(cx.epoch, cx.step, &of_step(cx)),
                    false => Ok(()),
                }
            }

            #[torsh_tensor::names_caller]
            fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
                self.write(cx.epoch, cx.step, &of_epoch(cx))
            }
        }
    };
}

/// Writes a table of the run's numbers as comma-separated values: a column for each, `epoch` and
/// `step` first. A number that first comes later gets a column then.
///
/// ```
/// use torsh_train::callbacks::{Callback, CsvLogger};
/// let logger = CsvLogger::new("runs/metrics.csv").every_n_steps(100);
/// assert_eq!(logger.name(), "csv_logger");
/// ```
#[derive(Clone, Debug)]
pub struct CsvLogger {
    path: PathBuf,
    every_n_steps: usize,
}
logger!(CsvLogger "csv_logger");

type Table = (Vec<String>, Vec<Vec<String>>);

impl CsvLogger {
    fn damaged(&self, e: impl std::fmt::Display) -> TorshError {
        TorshError::format("CsvLogger", format!("{}: {e}", self.path.display()))
            .with_hint("move the file away, or log to another one")
    }

    fn read(&self) -> Result<Option<Table>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_path(&self.path)
            .map_err(|e| self.damaged(e))?;
        let header = reader.headers().map_err(|e| self.damaged(e))?;
        let header = header.iter().map(str::to_string).collect();
        let mut rows = Vec::new();
        for row in reader.records() {
            let row = row.map_err(|e| self.damaged(e))?;
            rows.push(row.iter().map(str::to_string).collect());
        }
        Ok(Some((header, rows)))
    }

    fn line(&self, fields: &[String]) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(fields).map_err(|e| self.damaged(e))?;
        writer.into_inner().map_err(|e| self.damaged(e))
    }

    fn replace(&self, (header, rows): &Table) -> Result<()> {
        let mut text = self.line(header)?;
        for row in rows {
            let mut row = row.clone();
            row.resize(header.len(), String::new());
            text.extend(self.line(&row)?);
        }
        replace(&self.path, &text)
    }

    /// Keeps the rows up to a step.
    fn begin(&self, step: usize) -> Result<()> {
        let kept = match step {
            0 => None,
            _ => self.read()?,
        };
        let Some((header, mut rows)) = kept else {
            return replace(&self.path, b"");
        };
        let at = header.iter().position(|h| h == "step");
        let known = |row: &Vec<String>| {
            let value = at.and_then(|i| row.get(i)?.parse::<usize>().ok());
            value.is_some_and(|s| s <= step)
        };
        rows.retain(known);
        self.replace(&(header, rows))
    }

    fn write(&self, epoch: usize, step: usize, row: &Row) -> Result<()> {
        let (mut header, rows) = self.read()?.unwrap_or_default();
        let before = header.len();
        let first = ["epoch", "step"].map(String::from).into_iter();
        for name in first.chain(row.iter().map(|(n, _)| n.clone())) {
            if !header.contains(&name) {
                header.push(name);
            }
        }
        let field = |name: &String| match name.as_str() {
            "epoch" => epoch.to_string(),
            "step" => step.to_string(),
            _ => {
                let value = row.iter().find(|(n, _)| n == name);
                value.map_or(String::new(), |(_, v)| v.to_string())
            }
        };
        let fields: Vec<String> = header.iter().map(field).collect();
        if header.len() > before {
            self.replace(&(header, rows))?;
        }
        append(&self.path, &self.line(&fields)?)
    }
}

/// Writes an object of JSON in a line for each epoch: `{"epoch":0,"step":100,"train_loss":0.5}`.
/// A number that is not finite is `null`.
///
/// ```
/// use torsh_train::callbacks::{Callback, JsonLinesLogger};
/// let logger = JsonLinesLogger::new("runs/metrics.jsonl");
/// assert_eq!(logger.name(), "json_lines_logger");
/// ```
#[derive(Clone, Debug)]
pub struct JsonLinesLogger {
    path: PathBuf,
    every_n_steps: usize,
}
logger!(JsonLinesLogger "json_lines_logger");

impl JsonLinesLogger {
    fn begin(&self, step: usize) -> Result<()> {
        let mut kept = Vec::new();
        if step > 0 && self.path.exists() {
            let file = File::open(&self.path).map_err(|e| io_error(&self.path, e))?;
            for line in BufReader::new(file).lines() {
                let line = line.map_err(|e| io_error(&self.path, e))?;
                let row: Option<Json> = serde_json::from_str(&line).ok();
                // A line that was cut off when the process ended is left out too.
                if row.is_some_and(|r| r["step"].as_u64().is_some_and(|s| s <= step as u64)) {
                    kept.extend(line.as_bytes());
                    kept.push(b'\n');
                }
            }
        }
        replace(&self.path, &kept)
    }

    fn write(&self, epoch: usize, step: usize, row: &Row) -> Result<()> {
        let mut object = Map::new();
        object.insert("epoch".into(), epoch.into());
        object.insert("step".into(), step.into());
        for (name, value) in row {
            object.insert(name.clone(), (*value).into());
        }
        let mut line = Json::Object(object).to_string();
        line.push('\n');
        append(&self.path, line.as_bytes())
    }
}
