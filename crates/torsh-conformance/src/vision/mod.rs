//! The models, operators and transforms of torchvision.
//!
//! `vision/models/*.json` has one model each, `vision/ops/ops.*` calls of operators, `vision/ops/transforms.*` calls of
//! transforms.

mod detection;
mod flow;
pub mod models;
pub mod ops;
pub mod transforms;

use std::fmt::Write;
use std::path::PathBuf;

use crate::source::Source;

/// Which cases run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `models`, `ops` or `transforms`.
    pub part: String,
    /// Only cases whose name contains one of these texts.
    pub only: Vec<String>,
    /// Only the part of the cases with this number, from 0, of so many.
    pub share: Option<(usize, usize)>,
    /// Only models of at most so many parameters.
    pub max_params: Option<u64>,
    /// Only keys and initial weights of models, not their results.
    pub weights_only: bool,
    /// Tell every failure in full.
    pub verbose: bool,
}

impl Options {
    /// Reads the arguments after `vision`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<(PathBuf, Options), String> {
        let [source, part, rest @ ..] = args else {
            return Err("vision takes a directory and one of models, ops and transforms".into());
        };
        if !["models", "ops", "transforms"].contains(&part.as_str()) {
            return Err(format!("vision has models, ops and transforms, no {part}"));
        }
        let mut options = Options {
            part: part.clone(),
            ..Options::default()
        };
        let mut rest = rest.iter().peekable();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--only" => {
                    while let Some(text) = rest.next_if(|a| !a.starts_with("--")) {
                        options.only.push(text.clone());
                    }
                }
                "--share" => {
                    options.share = Some(crate::cli::share(rest.next())?);
                }
                "--max-params" => {
                    let n = rest.next().and_then(|n| n.parse().ok());
                    options.max_params = Some(n.ok_or("--max-params needs a number")?);
                }
                "--weights-only" => options.weights_only = true,
                "--verbose" => options.verbose = true,
                other => return Err(format!("vision has no flag {other}")),
            }
        }
        Ok((source.into(), options))
    }

    /// Whether the case with this number and name runs.
    pub fn takes(&self, number: usize, name: &str) -> bool {
        self.share
            .is_none_or(|(part, parts)| number % parts == part)
            && (self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str())))
    }
}

/// What came of the cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many passed.
    pub passed: usize,
    /// The name of each that failed, and why.
    pub failed: Vec<(String, String)>,
}

impl Report {
    /// Counts a case.
    pub fn add(&mut self, name: impl Into<String>, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(e) => self.failed.push((name.into(), e)),
        }
    }

    /// The failures, and the counts.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        for (name, why) in &self.failed {
            let why = match verbose {
                true => why.as_str(),
                false => why.lines().next().unwrap_or(""),
            };
            let _ = writeln!(text, "{name}: {why}");
        }
        let _ = writeln!(text, "{} passed, {} failed", self.passed, self.failed.len());
        text
    }
}

/// A file of the source.
fn read(source: &Source, name: &str) -> Result<Vec<u8>, String> {
    let bytes = source.read(name)?;
    bytes.ok_or_else(|| format!("{name} is not there"))
}

/// Runs a part of the cases, which are in a directory or an archive with `models` and `ops`.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    match options.part.as_str() {
        "models" => models::run(source, options),
        "ops" => ops::run(source, options),
        _ => transforms::run(source, options),
    }
}
