//! SHA-256 of files, and the file beside them with the expected hash.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use torsh_tensor::{Result, TorshError};

/// An input/output error that names the file.
pub(crate) fn io_error(path: &Path, e: std::io::Error) -> TorshError {
    std::io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes.as_ref());
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

/// The SHA-256 of a file's bytes, as 64 hexadecimal digits.
///
/// ```
/// use torsh_debug::compute_file_hash;
/// let path = std::env::temp_dir().join(format!("torsh-hash-{}.txt", std::process::id()));
/// std::fs::write(&path, "abc")?;
/// let hash = compute_file_hash(&path)?;
/// // FIPS 180-2, B.1.
/// assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read.
#[torsh_tensor::names_caller]
pub fn compute_file_hash(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let io = |e| io_error(path, e);
    let mut file = File::open(path).map_err(io)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0u8; 1 << 16];
    loop {
        match file.read(&mut block).map_err(io)? {
            0 => break,
            n => hasher.update(&block[..n]),
        }
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect())
}

/// Where the hash of a file is kept: beside it, with `.sha256` behind the name.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".sha256");
    name.into()
}

/// The hash that a model file should have: what the file `PATH.sha256` beside it begins with, as
/// `sha256sum PATH > PATH.sha256` writes it.
///
/// # Errors
/// A file that cannot be read, or does not begin with 64 hexadecimal digits.
#[torsh_tensor::names_caller]
pub fn load_expected_hash(path: impl AsRef<Path>) -> Result<String> {
    let beside = beside(path.as_ref());
    let mut text = String::new();
    let file = File::open(&beside).map_err(|e| io_error(&beside, e))?;
    // No more than a line of sha256sum can have is read of it.
    let read = file.take(8192).read_to_string(&mut text);
    read.map_err(|e| io_error(&beside, e))?;
    // (sha256sum puts a backslash ahead of names with line breaks.)
    // (Editors of Windows mark a text.)
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let word = text.split_whitespace().next().unwrap_or("");
    let hash = word.trim_start_matches('\\').to_ascii_lowercase();
    if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(TorshError::format(
            "load_expected_hash",
            format!("{}: expected 64 hexadecimal digits", beside.display()),
        )
        .with_hint("write it with save_expected_hash, or sha256sum PATH > PATH.sha256"));
    }
    Ok(hash)
}

/// Writes the file that [`load_expected_hash`] reads, for a model file that is known to be good;
/// returns the hash.
#[torsh_tensor::names_caller]
pub fn save_expected_hash(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let hash = compute_file_hash(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = beside(path);
    std::fs::write(&beside, format!("{hash}  {name}\n")).map_err(|e| io_error(&beside, e))?;
    Ok(hash)
}

/// Refuses a hash other than the expected one.
#[track_caller]
pub(crate) fn compare(path: &Path, hash: &str) -> Result<()> {
    let expected = load_expected_hash(path)?;
    if hash != expected {
        return Err(TorshError::format(
            "verify_model_checksum",
            format!(
                "{}: the file was changed: its SHA-256 is {hash}, expected {expected}",
                path.display()
            ),
        ));
    }
    Ok(())
}

/// Refuses a file whose SHA-256 is not the one in the file `PATH.sha256` beside it.
///
/// ```
/// use torsh_debug::{save_expected_hash, verify_model_checksum};
/// let path = std::env::temp_dir().join(format!("torsh-sum-{}.pt", std::process::id()));
/// std::fs::write(&path, "weights")?;
/// save_expected_hash(&path)?;
/// verify_model_checksum(&path)?;
/// std::fs::write(&path, "changed")?;
/// assert!(verify_model_checksum(&path).unwrap_err().to_string().contains("was changed"));
/// # std::fs::remove_file(&path)?;
/// # std::fs::remove_file(path.with_extension("pt.sha256"))?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn verify_model_checksum(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    compare(path, &compute_file_hash(path)?)
}
