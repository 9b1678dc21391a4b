//! Files that are not whole yet.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use torsh_serialize::files;
use torsh_tensor::Result;

use super::{Cancel, beside};
use crate::errors;
use crate::transport::Head;
use crate::url::Url;

/// What the part is a part of, in a file beside it.
#[derive(Serialize, Deserialize)]
struct Note {
    url: String,
    /// What `If-Range` is given: a strong ETag or a date.
    validator: String,
}

/// A file that grows, which nobody else can open as a part until it is dropped.
pub(crate) struct Part {
    path: PathBuf,
    file: File,
    length: u64,
    /// Whether it has bytes of more than one answer.
    pub(crate) resumed: bool,
}

/// Waits for the lock of a file, which is made where there is none; whether it had to wait.
pub(crate) fn lock_file(op: &str, path: &Path, cancel: Option<&Cancel>) -> Result<(File, bool)> {
    let failed = |e| errors::at(op, path, e);
    let mut waited = false;
    loop {
        let mut options = OpenOptions::new();
        // What is opened to append cannot be cut on Windows.
        match cfg!(windows) {
            true => options.write(true).truncate(false),
            false => options.append(true),
        };
        let opened = options.read(true).create(true).open(path);
        let file = opened.map_err(failed)?;
        match file.try_lock() {
            // A file that got another name or was removed meanwhile is not the one to lock.
            Ok(()) if torsh_core::os::is_at(&file, path).unwrap_or(false) => {
                return Ok((file, waited));
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waited = true;
                if cancel.is_some_and(Cancel::is_cancelled) {
                    let why = "cancelled while another process downloads it";
                    return Err(errors::io(
                        ErrorKind::Interrupted,
                        op,
                        format!("{}: {why}", path.display()),
                        "",
                    ));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // A file system without locks.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {
                return Ok((file, waited));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
    }
}

impl Part {
    /// The part at a path, with what is there; and whether another had it.
    pub(crate) fn open(op: &str, path: &Path, cancel: Option<&Cancel>) -> Result<(Part, bool)> {
        let (file, waited) = lock_file(op, path, cancel)?;
        let length = file.metadata().map_err(|e| errors::at(op, path, e))?.len();
        let part = Part {
            path: path.to_path_buf(),
            file,
            length,
            resumed: false,
        };
        Ok((part, waited))
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn notes(&self) -> PathBuf {
        beside(&self.path, "", ".json")
    }

    /// What tells the server which file the part is of, if it is one of this address.
    pub(crate) fn validator(&self, url: &Url) -> Option<String> {
        let note: Note = serde_json::from_slice(&std::fs::read(self.notes()).ok()?).ok()?;
        let plain = note.validator.bytes().all(|b| (b' '..=b'~').contains(&b));
        (plain && note.url == url.shown()).then_some(note.validator)
    }

    /// Writes down what the part will be of.
    pub(crate) fn note(&self, url: &Url, head: &Head) -> std::io::Result<()> {
        let strong = head
            .get("etag")
            .map(str::trim)
            .filter(|e| e.starts_with('"') && e.ends_with('"'));
        let Some(validator) = strong.or_else(|| head.get("last-modified")) else {
            return remove(&self.notes());
        };
        let note = Note {
            url: url.shown(),
            validator: validator.to_string(),
        };
        std::fs::write(self.notes(), serde_json::to_vec(&note)?)
    }

    /// The bytes from the start on. On Windows nothing else may read them while the file is locked.
    pub(crate) fn read(&mut self) -> std::io::Result<&mut File> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if cfg!(windows) {
            self.file.seek(SeekFrom::Start(self.length))?;
        }
        let written = self.file.write_all(bytes);
        match written {
            Ok(()) => self.length += bytes.len() as u64,
            // A full disk may have taken some.
            Err(_) => self.length = self.file.metadata().map_or(self.length, |m| m.len()),
        }
        written
    }

    /// Throws away what is there.
    pub(crate) fn restart(&mut self) -> std::io::Result<()> {
        if self.length > 0 {
            self.file.set_len(0)?;
            self.length = 0;
        }
        self.resumed = false;
        remove(&self.notes())
    }

    /// Leaves the part for the next download; how long it is. An empty one is removed.
    pub(crate) fn keep(&self) -> u64 {
        if self.length == 0 {
            // What is left over does no harm.
            let _ = remove(&self.path);
            let _ = remove(&self.notes());
        }
        self.length
    }

    /// Removes the part.
    pub(crate) fn discard(self) -> Result<()> {
        let _ = remove(&self.notes());
        remove(&self.path).map_err(|e| errors::at("download", &self.path, e))
    }

    /// Gives the part its name when it is on the disk.
    pub(crate) fn rename(self, op: &str, to: &Path) -> Result<()> {
        let failed = |e| errors::at(op, to, e);
        self.file.sync_all().map_err(failed)?;
        files::replace(&self.path, to).map_err(failed)?;
        let _ = remove(&self.notes());
        files::sync_folder(files::parent(to)).map_err(failed)
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
