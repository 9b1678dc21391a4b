//! Errors of files and networks.

use std::io::{Error, ErrorKind};
use std::path::Path;

use torsh_tensor::TorshError;

/// An error of input or output with operation, reason and what to do about it.
#[cold]
pub(crate) fn io(kind: ErrorKind, op: &str, why: impl std::fmt::Display, hint: &str) -> TorshError {
    let text = match hint {
        "" => format!("{op}: {why}"),
        _ => format!("{op}: {why}\n  hint: {hint}"),
    };
    Error::new(kind, text).into()
}

/// An error of the system at a path.
#[cold]
pub(crate) fn at(op: &str, path: &Path, e: Error) -> TorshError {
    let e = below_a_file(path, e);
    let hint = match e.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            "choose a folder that can be written: TORCH_HOME, HF_HOME, HF_HUB_CACHE or Hub::builder().cache_dir(..)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space; a download goes on where it ended"
        }
        _ => "",
    };
    io(e.kind(), op, format!("{}: {e}", path.display()), hint)
}

/// The error of a path with a file in place of a folder: Windows says that the file exists, or that the path does not.
fn below_a_file(path: &Path, e: Error) -> Error {
    if !matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) {
        return e;
    }
    match path.ancestors().skip(1).find(|place| place.is_file()) {
        Some(file) => Error::new(
            ErrorKind::NotADirectory,
            format!("{} is a file, not a folder", file.display()),
        ),
        None => e,
    }
}

/// A text of somebody else in a message: short, and on one line.
pub(crate) fn short(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out: String = clean.clone().take(200).collect();
    if clean.count() > 200 {
        out.push_str("..");
    }
    out
}
