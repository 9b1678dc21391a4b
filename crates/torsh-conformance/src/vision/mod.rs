//! The models, operators and transforms of torchvision.
//!
//! `vision/models/*.json` has one model each, `vision/ops/ops.*` calls of operators, `vision/ops/transforms.*` calls of
//! transforms.

mod detection;
mod flow;
pub mod models;
pub mod ops;
pub mod transforms;

use std::path::PathBuf;

use crate::section::read;
pub use crate::section::{Options, Report};
use crate::source::Source;

/// Reads the arguments after `vision`.
///
/// # Errors
/// What is wrong with them.
pub fn parse(args: &[String]) -> Result<(PathBuf, Options), String> {
    let parts = ["models", "ops", "transforms"];
    Options::parse("vision", &parts, &["--max-params", "--weights-only"], args)
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
