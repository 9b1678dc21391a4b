//! Hashes of files.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use torsh_tensor::{Result, TorshError};

use crate::errors;

/// What a file's content is checked against, in hexadecimal digits.
///
/// ```
/// use torsh_hub::Checksum;
///
/// # let path = std::env::temp_dir().join(format!("torsh-hub-sum-{}", std::process::id()));
/// std::fs::write(&path, "abc")?;
/// Checksum::sha256("ba7816bf")?.check(&path)?; // the first digits are enough
/// Checksum::md5("900150983cd24fb0d6963f7d28e17f72")?.check(&path)?;
/// let error = Checksum::sha256("00000000")?.check(&path).unwrap_err().to_string();
/// assert!(error.contains("ba7816bf") && error.contains("00000000"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checksum {
    /// The SHA-256, or its first digits.
    Sha256(String),
    /// The MD5, which many data sets state. It finds damage, but a forger can make a file that has it.
    Md5(String),
    /// The SHA-1 that git gives a file, the ETag of small files on the Hugging Face Hub.
    Git(String),
}

impl Checksum {
    /// A SHA-256, or at least its first 8 digits.
    ///
    /// ```
    /// use torsh_hub::Checksum;
    /// assert_eq!(Checksum::sha256("F37072FD")?.to_string(), "SHA-256 f37072fd");
    /// let error = Checksum::sha256("f37072").unwrap_err().to_string();
    /// assert!(error.contains("`f37072` is not 8 to 64 hexadecimal digits"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Something else than 8 to 64 hexadecimal digits.
    #[torsh_tensor::names_caller(Self)]
    pub fn sha256(digits: &str) -> Result<Checksum> {
        digits_of(digits, 8..=64).map(Checksum::Sha256)
    }

    /// An MD5.
    ///
    /// # Errors
    /// Something else than 32 hexadecimal digits.
    #[torsh_tensor::names_caller(Self)]
    pub fn md5(digits: &str) -> Result<Checksum> {
        digits_of(digits, 32..=32).map(Checksum::Md5)
    }

    /// The SHA-1 that git gives a file (a blob): of its size and its content.
    ///
    /// ```
    /// use torsh_hub::Checksum;
    /// # let path = std::env::temp_dir().join(format!("torsh-hub-git-{}", std::process::id()));
    /// std::fs::write(&path, "abc")?;
    /// // git hash-object names the same.
    /// Checksum::git("f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f")?.check(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Something else than 40 hexadecimal digits.
    #[torsh_tensor::names_caller(Self)]
    pub fn git(digits: &str) -> Result<Checksum> {
        digits_of(digits, 40..=40).map(Checksum::Git)
    }

    /// The start of the SHA-256 that a file's name has by PyTorch's convention, `name-<hash>.ext`.
    ///
    /// ```
    /// use torsh_hub::Checksum;
    /// let checksum = Checksum::in_file_name("resnet18-f37072fd.pth");
    /// assert_eq!(checksum, Some(Checksum::Sha256("f37072fd".into())));
    /// assert_eq!(Checksum::in_file_name("pytorch_model.bin"), None);
    /// assert_eq!(Checksum::in_file_name("model-20240131.pth"), None); // a day
    /// ```
    pub fn in_file_name(name: &str) -> Option<Checksum> {
        let digits = torsh_serialize::torch_cache::hash_in_file_name(name)?;
        Some(Checksum::Sha256(digits.to_ascii_lowercase()))
    }

    /// What an ETag of the Hugging Face Hub says of the content: a SHA-256 of large files, git's SHA-1 of others.
    pub(crate) fn of_etag(etag: &str) -> Option<Checksum> {
        match etag.len() {
            64 => Checksum::sha256(etag).ok(),
            40 => Checksum::git(etag).ok(),
            _ => None,
        }
    }

    /// Compares a file with the checksum.
    ///
    /// # Errors
    /// A file that cannot be read or has another checksum; the error names both.
    #[torsh_tensor::names_caller]
    pub fn check(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|e| errors::at("read", path, e))?;
        self.check_open(path, &mut file)
    }

    /// [`Checksum::check`] of an open file, from where it is read next.
    #[track_caller]
    pub(crate) fn check_open(&self, path: &Path, file: &mut File) -> Result<()> {
        let mut hasher = self.hasher(|| Ok(file.metadata()?.len()), path)?;
        read_into(path, file, &mut |block| hasher.update(block))?;
        let found = hasher.finish();
        match self.is(&found) {
            true => Ok(()),
            false => Err(self.differs(&path.display().to_string(), &found)),
        }
    }

    pub(crate) fn is(&self, found: &str) -> bool {
        found.starts_with(self.digits())
    }

    #[track_caller]
    pub(crate) fn differs(&self, what: &str, found: &str) -> TorshError {
        TorshError::format(
            "checksum",
            format!(
                "{what} has the {} {found}, not {}",
                self.kind(),
                self.digits()
            ),
        )
        .with_hint("it is damaged, or another file than was asked for; fetch it again")
    }

    fn digits(&self) -> &str {
        match self {
            Checksum::Sha256(digits) | Checksum::Md5(digits) | Checksum::Git(digits) => digits,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Checksum::Sha256(_) => "SHA-256",
            Checksum::Md5(_) => "MD5",
            Checksum::Git(_) => "SHA-1 of git",
        }
    }

    /// What computes it; git's begins with the size.
    pub(crate) fn hasher(
        &self,
        size: impl FnOnce() -> std::io::Result<u64>,
        path: &Path,
    ) -> Result<Hasher> {
        Ok(match self {
            Checksum::Sha256(_) => Hasher::Sha256(Sha256::new()),
            Checksum::Md5(_) => Hasher::Md5(Md5::new()),
            Checksum::Git(_) => {
                let size = size().map_err(|e| errors::at("checksum", path, e))?;
                let mut sha = Sha1::new();
                sha.update(format!("blob {size}\0"));
                Hasher::Git(sha)
            }
        })
    }
}

/// `SHA-256 f37072fd`
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.digits())
    }
}

#[track_caller]
fn digits_of(digits: &str, lengths: std::ops::RangeInclusive<usize>) -> Result<String> {
    let right = lengths.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    match right {
        true => Ok(digits.to_ascii_lowercase()),
        false => {
            let why = format!(
                "`{}` is not {} to {} hexadecimal digits",
                errors::short(digits),
                lengths.start(),
                lengths.end()
            );
            Err(TorshError::invalid("Checksum", why))
        }
    }
}

/// A hash that is being computed.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Md5(Md5),
    Git(Sha1),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(h) => h.update(bytes),
            Hasher::Md5(h) => h.update(bytes),
            Hasher::Git(h) => h.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
        match self {
            Hasher::Sha256(h) => hex(&h.finalize()),
            Hasher::Md5(h) => hex(&h.finalize()),
            Hasher::Git(h) => hex(&h.finalize()),
        }
    }
}

/// Gives the rest of a file block by block.
fn read_into(path: &Path, file: &mut File, take: &mut dyn FnMut(&[u8])) -> Result<u64> {
    let failed = |e| errors::at("read", path, e);
    let mut block = vec![0; 1 << 18];
    let mut all = 0;
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(all),
            Ok(n) => {
                take(&block[..n]);
                all += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("torsh-hub-sha-{}", std::process::id()));
/// std::fs::write(&path, "abc")?;
/// assert!(torsh_hub::sha256_file(&path)?.starts_with("ba7816bf8f01cfea"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read.
#[torsh_tensor::names_caller]
pub fn sha256_file(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let mut file = File::open(path).map_err(|e| errors::at("read", path, e))?;
    let mut sha = Sha256::new();
    read_into(path, &mut file, &mut |block| sha.update(block))?;
    Ok(Hasher::Sha256(sha).finish())
}
