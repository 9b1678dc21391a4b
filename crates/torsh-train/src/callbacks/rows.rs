//! The common part of the loggers.

use std::path::Path;

use torsh_tensor::{Result, TorshError};

use super::Context;

pub(super) fn io_error(path: &Path, e: impl Into<std::io::Error>) -> TorshError {
    let e = e.into();
    std::io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

/// Makes the folder that a file will be in.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    match path.parent().filter(|f| !f.as_os_str().is_empty()) {
        Some(folder) => std::fs::create_dir_all(folder).map_err(|e| io_error(folder, e)),
        None => Ok(()),
    }
}

/// The numbers of the last step.
pub(super) fn of_step(cx: &Context<'_>) -> Vec<(String, f64)> {
    let lr = cx.learning_rates.first().copied();
    let loss = cx.loss.map(|v| ("loss".to_string(), v));
    let lr = lr.map(|v| ("learning_rate".to_string(), v));
    loss.into_iter().chain(lr).collect()
}

/// The numbers of the epoch.
pub(super) fn of_epoch(cx: &Context<'_>) -> Vec<(String, f64)> {
    let lr = cx.learning_rates.first().copied();
    let lr = lr.map(|v| ("learning_rate".to_string(), v));
    lr.into_iter().chain(cx.values()).collect()
}
