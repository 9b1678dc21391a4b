//! Checkpoints as one file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use torsh_serialize::{LoadOptions, files, pt};
use torsh_tensor::{Result, TorshError};

use super::Checkpoint;

/// How long ago what a killed process left was written.
const STALE: Duration = Duration::from_secs(600);

/// An input/output error that names the file.
pub(super) fn io_error(path: &Path, e: io::Error) -> TorshError {
    io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

/// A name beside a path that no reader looks at: `.NAME.END`.
pub(super) fn beside(path: &Path, end: &str) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        let e = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        io_error(path, e)
    })?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(end);
    Ok(path.with_file_name(hidden))
}

/// Removes what processes that were killed while they wrote `path` have left.
pub(super) fn clean(path: &Path) -> Result<()> {
    let start = beside(path, "")?;
    let start = start.file_name().unwrap_or_default().as_encoded_bytes();
    let Ok(entries) = std::fs::read_dir(files::parent(path)) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if !(name.starts_with(start) && name.ends_with(b".tmp")) {
            continue;
        }
        let written = entry.metadata().and_then(|about| about.modified());
        let old = written.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago > STALE));
        if old {
            // Whoever else removes it is welcome.
            let _ = match entry.file_type().is_ok_and(|t| t.is_dir()) {
                true => std::fs::remove_dir_all(entry.path()),
                false => std::fs::remove_file(entry.path()),
            };
        }
    }
    Ok(())
}

#[track_caller]
pub(super) fn save(checkpoint: &Checkpoint, path: &Path) -> Result<()> {
    clean(path)?;
    pt::save(&checkpoint.to_value(&[]), path)
}

#[track_caller]
pub(super) fn load(path: &Path) -> Result<Checkpoint> {
    // An object of a class of Python beside the parts refuses none of them.
    let options = LoadOptions::new().verify(true).keep_foreign(true);
    Checkpoint::from_value(path, torsh_serialize::load_with(path, options)?)
}
