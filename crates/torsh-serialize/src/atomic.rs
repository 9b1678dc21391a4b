//! Atomic writes: a file is replaced completely or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use torsh_tensor::Result;

use crate::files;
use crate::source::io_error;

/// Lets `write` write a file beside `path`, and gives it that name when it is on the disk; an
/// older one is there until then.
#[track_caller]
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let io = |e| io_error(path, e);
    let name = path.file_name().ok_or_else(|| {
        io(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "the path names no file",
        ))
    })?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(
        ".{}.{}.tmp",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let beside = path.with_file_name(beside);
    let written = write(&beside).and_then(|()| {
        // Writable, as some systems ask of a file that is to be synced.
        let file = File::options().write(true).open(&beside).map_err(io)?;
        file.sync_all().map_err(io)?;
        // Closed first: Windows renames no file that is open in some ways.
        drop(file);
        files::replace(&beside, path).map_err(io)?;
        files::sync_folder(files::parent(path)).map_err(io)
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// [`write_whole`] of what `write` gives to a buffered writer.
#[track_caller]
pub(crate) fn write_buffered(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    write_whole(path, |beside| {
        let io = |e| io_error(path, e);
        let mut to = BufWriter::new(File::create_new(beside).map_err(io)?);
        write(&mut to)?;
        to.flush().map_err(io)
    })
}
