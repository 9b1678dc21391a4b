//! Random numbers, optimizers, schedulers and whole training runs.

mod models;
pub mod optim;
pub mod random;
pub mod runs;
pub mod schedule;
pub(crate) mod schedulers;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::executor::Executor;
use crate::report::{Group, OpReport, Report};
use crate::runner::Options;
use crate::source::Source;
use crate::tensors::TensorFile;

/// Settings by PyTorch's names.
pub type Config = BTreeMap<String, serde_json::Value>;

/// What a case of one of these files came to: `None` where there is no such thing to run.
type Checked = Option<Result<(), String>>;

/// Runs the files of `training` that are there and asked for.
///
/// # Errors
/// Files that cannot be read or are not of the format.
pub(crate) fn run(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    if let Some(reason) = executor.only_calls() {
        for stem in source.list("training")? {
            report.skip(format!("training/{stem}"), &reason);
        }
        return Ok(());
    }
    random::run(source, executor, options, report)?;
    optim::run(source, executor, options, report)?;
    schedule::run(source, executor, options, report)?;
    runs::run(source, executor, options, report)
}

/// The rows of a file and its tensors; nothing where there is no such file.
fn load<T: DeserializeOwned>(source: &Source, stem: &str) -> Result<(Vec<T>, TensorFile), String> {
    let fail = |e: &dyn std::fmt::Display| format!("training/{stem}: {e}");
    let Some(rows) = source.read(&format!("training/{stem}.json"))? else {
        return Ok((Vec::new(), TensorFile::default()));
    };
    let rows = serde_json::from_slice(&rows).map_err(|e| fail(&e))?;
    let tensors = match source.read(&format!("training/{stem}.safetensors"))? {
        Some(bytes) => TensorFile::parse(&bytes).map_err(|e| fail(&e))?,
        None => TensorFile::default(),
    };
    Ok((rows, tensors))
}

/// Counts a case under its name.
fn count(report: &mut Report, group: Group, name: &str, case: &str, checked: Checked) {
    let at = report
        .ops
        .iter()
        .position(|o| o.group == group && o.name == name);
    let at = at.unwrap_or_else(|| {
        report.ops.push(OpReport::new(name, name, group));
        report.ops.len() - 1
    });
    let entry = &mut report.ops[at];
    match checked {
        None => entry.absent = true,
        Some(result) => {
            entry.layouts[0] += 1;
            match result {
                Ok(()) => entry.passed += 1,
                Err(e) => entry.fail(format!("{case}: {e}")),
            }
        }
    }
}
