//! What the sections `vision` and `text` share: which cases run, what came of them, and the reading of files.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value as Json;
use torsh_tensor::TorshError;

use crate::source::Source;

/// Which cases run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The part of the section, such as `models`.
    pub part: String,
    /// Only cases whose name contains one of these texts.
    pub only: Vec<String>,
    /// Only the part of the cases with this number, from 0, of so many.
    pub share: Option<(usize, usize)>,
    /// Only models of at most so many parameters. Of vision.
    pub max_params: Option<u64>,
    /// Only keys and initial weights of models, not their results. Of vision.
    pub weights_only: bool,
    /// Tell every failure in full.
    pub verbose: bool,
}

impl Options {
    /// Reads the arguments after the name of a section that has these parts, the first of which must be one of them,
    /// and of the flags that not all sections have those in `own`.
    ///
    /// # Errors
    /// What is wrong with them.
    ///
    /// ```
    /// use torsh_conformance::section::Options;
    /// let args = ["cases", "ops", "--share", "1/4", "--only", "nms"].map(String::from);
    /// let (source, options) = Options::parse("vision", &["models", "ops"], &[], &args)?;
    /// assert_eq!(source.to_str(), Some("cases"));
    /// assert!(options.takes(5, "nms.2") && !options.takes(4, "nms.2") && !options.takes(5, "roi_align"));
    /// assert!(Options::parse("vision", &["models"], &[], &args).is_err_and(|e| e.contains("no ops")));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(
        section: &str,
        parts: &[&str],
        own: &[&str],
        args: &[String],
    ) -> Result<(PathBuf, Options), String> {
        let [source, part, rest @ ..] = args else {
            let parts = parts.join(", ");
            return Err(format!("{section} takes a directory and one of {parts}"));
        };
        if !parts.contains(&part.as_str()) {
            return Err(format!("{section} has {}, no {part}", parts.join(", ")));
        }
        let mut options = Options::flags(section, own, rest)?;
        options.part.clone_from(part);
        Ok((source.into(), options))
    }

    /// Reads the flags of a section, after its directory and its part.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn flags(section: &str, own: &[&str], rest: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = rest.iter().peekable();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--only" => {
                    let before = options.only.len();
                    while let Some(text) = rest.next_if(|a| !a.starts_with("--")) {
                        options.only.push(text.clone());
                    }
                    if options.only.len() == before {
                        return Err("--only needs a name".to_string());
                    }
                }
                "--share" => {
                    options.share = Some(share(rest.next())?);
                }
                "--verbose" => options.verbose = true,
                flag if !own.contains(&flag) => {
                    return Err(format!("{section} has no flag {flag}"));
                }
                "--max-params" => {
                    let n = rest.next().and_then(|n| n.parse().ok());
                    options.max_params = Some(n.ok_or("--max-params needs a number")?);
                }
                "--weights-only" => options.weights_only = true,
                other => return Err(format!("{section} has no flag {other}")),
            }
        }
        Ok(options)
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

/// What differs, a line each.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Adds a line.
    pub(crate) fn add(&mut self, line: impl Into<String>) {
        self.0.push(line.into());
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first lines, where there are some.
    pub(crate) fn result(self) -> Result<(), String> {
        const SHOWN: usize = 12;
        let more = self.0.len().saturating_sub(SHOWN);
        let mut lines: Vec<String> = self.0.into_iter().take(SHOWN).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        match lines.is_empty() {
            true => Ok(()),
            false => Err(lines.join("\n")),
        }
    }
}

/// An error's text.
pub(crate) fn text(e: TorshError) -> String {
    e.to_string()
}

/// A file of the source.
pub(crate) fn read(source: &Source, name: &str) -> Result<Vec<u8>, String> {
    let bytes = source.read(name)?;
    bytes.ok_or_else(|| format!("{name} is not there"))
}

/// A field that must be there.
pub(crate) fn field<'a>(json: &'a Json, name: &str) -> Result<&'a Json, String> {
    json.get(name)
        .ok_or_else(|| format!("the file has no {name}"))
}

/// A number of a field.
pub(crate) fn number(json: &Json, name: &str) -> Result<f64, String> {
    let value = field(json, name)?.as_f64();
    value.ok_or_else(|| format!("{name} is no number"))
}

/// A list of numbers.
pub(crate) fn numbers(json: &Json) -> Result<Vec<f64>, String> {
    let list = json.as_array().ok_or("a list of numbers was expected")?;
    let numbers: Option<Vec<f64>> = list.iter().map(Json::as_f64).collect();
    numbers.ok_or_else(|| "a list of numbers was expected".into())
}

/// The sizes of a shape.
pub(crate) fn sizes(json: &Json) -> Result<Vec<usize>, String> {
    Ok(numbers(json)?.into_iter().map(|n| n as usize).collect())
}

/// The state dict's keys must be these, in this order.
pub(crate) fn compare_keys(ours: &[&str], expected: &[&str], problems: &mut Problems) {
    if ours == expected {
        return;
    }
    let at = ours.iter().zip(expected).position(|(a, b)| a != b);
    let at = at.unwrap_or(ours.len().min(expected.len()));
    problems.add(format!(
        "key {at} of the state dict is {:?}, not {:?} (there are {}, not {})",
        ours.get(at),
        expected.get(at),
        ours.len(),
        expected.len()
    ));
}

/// What `--share` is followed by: a part, from 0, and their number.
pub(crate) fn share(arg: Option<&String>) -> Result<(usize, usize), String> {
    let share = arg.and_then(|a| {
        let (part, parts) = a.split_once('/')?;
        Some((part.parse().ok()?, parts.parse().ok()?))
    });
    let share = share.filter(|(part, parts)| part < parts);
    share.ok_or_else(|| "--share needs a part and their number, as 0/8".to_string())
}
