//! Pointers of git-lfs, which stand in a clone for files that were not brought.

use std::fmt::Display;
use std::io::{Read, Seek, SeekFrom};

use crate::{Result, TorshError};

/// Pointers are shorter, by their specification.
const LONGEST: usize = 1024;

/// How a pointer starts, today and before git-lfs had its name.
const STARTS: [&str; 2] = [
    "version https://git-lfs.github.com/spec/",
    "version https://hawser.github.com/spec/",
];

/// Refuses a file whose content is a pointer of git-lfs: every reader of files calls it with what a file starts with.
///
/// ```
/// use torsh_core::check_git_lfs;
/// let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 548\n";
/// let error = check_git_lfs("load", "model.safetensors", pointer).unwrap_err().to_string();
/// assert!(error.contains("model.safetensors: this is a pointer of git-lfs") && error.contains("548 bytes"));
/// assert!(check_git_lfs("load", "a.csv", b"version,size\n1,2\n").is_ok());
/// ```
///
/// # Errors
/// A pointer; the error says the size of the file that it stands for.
#[track_caller]
pub fn check_git_lfs(op: &'static str, file: impl Display, start: &[u8]) -> Result<()> {
    let head = &start[..start.len().min(LONGEST)];
    if !STARTS.iter().any(|s| head.starts_with(s.as_bytes())) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(head);
    let size = text
        .lines()
        .find_map(|line| line.strip_prefix("size ")?.trim().parse::<u64>().ok());
    let whole = match size {
        Some(size) => format!(", which has {size} bytes"),
        None => String::new(),
    };
    let why = format!("{file}: this is a pointer of git-lfs in the place of the file{whole}");
    Err(TorshError::format(op, why).with_hint(
        "bring the file itself: run `git lfs pull` in the clone, or download it from the repository's page",
    ))
}

/// [`check_git_lfs`] of an open file, which is at its start before and after: whoever reads it next reads all of it.
///
/// ```
/// use std::io::{Cursor, Read};
///
/// let mut file = Cursor::new("a,b\n1,2\n");
/// torsh_core::check_git_lfs_file("load", "table.csv", &mut file)?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "a,b\n1,2\n"); // The check took nothing away.
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// A pointer, and a file that cannot be read.
#[track_caller]
pub fn check_git_lfs_file(
    op: &'static str,
    file: impl Display,
    from: &mut (impl Read + Seek),
) -> Result<()> {
    let mut start = Vec::new();
    from.take(LONGEST as u64).read_to_end(&mut start)?;
    from.seek(SeekFrom::Start(0))?;
    check_git_lfs(op, file, &start)
}
