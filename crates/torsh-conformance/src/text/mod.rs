//! Transformers, tokenizers and scores of texts.
//!
//! `architectures.json` has tiny models with their inputs, outputs, losses, norms of gradients and generated sequences,
//! `tokenizers.json` difficult texts and their tokens, `gguf_metrics.json` scores.

pub mod architectures;
pub mod metrics;
pub mod tokenizers;

use std::path::PathBuf;

pub use crate::section::{Options, Report};
use crate::source::Source;

/// The parts of this section.
const PARTS: [&str; 3] = ["architectures", "tokenizers", "metrics"];

/// Reads the arguments after `text`.
///
/// # Errors
/// What is wrong with them.
pub fn parse(args: &[String]) -> Result<(PathBuf, Options), String> {
    Options::parse("text", &PARTS, &[], args)
}

/// A file of the source, which is the directory `text`, its parent, an archive of either, or a directory of another
/// name.
fn read(source: &Source, name: &str) -> Result<Vec<u8>, String> {
    // Files of a directory of any other name are taken for those of operators.
    for place in ["text/", "", "ops/"] {
        if let Some(bytes) = source.read(&format!("{place}{name}"))? {
            return Ok(bytes);
        }
    }
    Err(format!("{name} is not there"))
}

/// Runs a part of the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    match options.part.as_str() {
        "architectures" => architectures::run(source, options),
        "tokenizers" => tokenizers::run(source, options),
        _ => metrics::run(source, options),
    }
}

/// Counts a case, and tells it where everything is told.
fn tell(report: &mut Report, options: &Options, name: String, result: Result<(), String>) {
    if options.verbose {
        let verdict = if result.is_ok() { "passes" } else { "fails" };
        println!("{name} {verdict}");
    }
    report.add(name, result);
}
