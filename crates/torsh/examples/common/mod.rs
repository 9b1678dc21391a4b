//! Common code of the examples; each uses a part of it.
#![allow(dead_code)]

pub mod canvas;

use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use torsh::TorshError;

/// What a run ends with, its error told.
pub fn exit(result: torsh::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// A positive number on the command line.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("must be a number above 0".into()),
    }
}

/// Names the file in an error of reading or writing it.
pub fn at(path: &Path, e: impl std::fmt::Display) -> TorshError {
    TorshError::Other(format!("{}: {e}", path.display()))
}

/// A bar over all steps of a run.
pub fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix} [{bar:32.cyan/blue}] {pos}/{len} steps, {msg}, all done in {eta}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
    .progress_chars("=> ");
    ProgressBar::new(steps as u64).with_style(style)
}
