//! The folders that PyTorch and the Hugging Face libraries keep files in.

pub(crate) mod huggingface;
pub(crate) mod torch;

use std::path::{Path, PathBuf};

use torsh_tensor::Result;

use crate::checksum::Checksum;
use crate::errors;

/// Whose cache a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Store {
    /// PyTorch's, `$TORCH_HOME/hub/checkpoints`.
    Torch,
    /// That of the Hugging Face libraries, `$HF_HOME/hub`.
    HuggingFace,
}

/// What a file of a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// All of it is there.
    Whole,
    /// A download that has not ended.
    Part,
    /// A file that did not have its checksum.
    Bad,
}

/// A file of a cache, as [`Hub::cached`](crate::Hub::cached) lists them.
///
/// ```
/// use torsh_hub::{Environment, Hub, State, Store};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-cached-file-{}", std::process::id()));
/// # std::fs::create_dir_all(dir.join("hub/checkpoints"))?;
/// std::fs::write(dir.join("hub/checkpoints/net-ba7816bf.pth"), "abc")?;
/// let hub = Hub::builder().environment(Environment::default()).torch_home(&dir).build()?;
/// let file = hub.cached()?.remove(0);
/// assert_eq!((file.name.as_str(), file.size), ("net-ba7816bf.pth", 3));
/// assert_eq!((file.store, file.state), (Store::Torch, State::Whole));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedFile {
    /// Whose cache it is in.
    pub store: Store,
    /// The repository, as `org/name` or `datasets/org/name`; PyTorch's cache has none.
    pub repo: Option<String>,
    /// The commit of the repository.
    pub revision: Option<String>,
    /// The names of the commit, as `main`.
    pub refs: Vec<String>,
    /// The file's name, in a repository with its folders.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is whole.
    pub state: State,
    /// What its name says of its content.
    pub checksum: Option<Checksum>,
}

impl CachedFile {
    /// Compares the content of the file with its [`checksum`](CachedFile::checksum); `false` where the name says none.
    ///
    /// ```
    /// use torsh_hub::{Environment, Hub};
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-verify-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("hub/checkpoints"))?;
    /// // The name has the first digits of the SHA-256 of `abc`.
    /// std::fs::write(dir.join("hub/checkpoints/net-ba7816bf.pth"), "abc")?;
    /// let hub = Hub::builder().environment(Environment::default()).torch_home(&dir).build()?;
    /// let file = hub.cached()?.remove(0);
    /// assert!(file.verify()?);
    /// std::fs::write(&file.path, "abd")?;
    /// assert!(file.verify().unwrap_err().to_string().contains("not ba7816bf"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read or has another checksum.
    #[torsh_tensor::names_caller]
    pub fn verify(&self) -> Result<bool> {
        match &self.checksum {
            Some(checksum) => checksum.check(&self.path).map(|()| true),
            None => Ok(false),
        }
    }
}

/// The entries of a folder by name, none where there is no folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |e| errors::at("hub", folder, e);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Names that are no text were not written by any of the libraries.
        if let Ok(name) = entry.file_name().into_string() {
            out.push((name, entry.path()));
        }
    }
    out.sort();
    Ok(out)
}

/// Removes a file or a folder with all in it; the bytes that it had.
pub(crate) fn remove(path: &Path) -> Result<u64> {
    let failed = |e| errors::at("remove", path, e);
    let about = match path.symlink_metadata() {
        Ok(about) => about,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(failed(e)),
    };
    if !about.is_dir() {
        // On Windows a link to a folder is removed as a folder is.
        let removed =
            std::fs::remove_file(path).or_else(|e| match cfg!(windows) && about.is_symlink() {
                true => std::fs::remove_dir(path),
                false => Err(e),
            });
        removed.map_err(failed)?;
        return Ok(if about.is_file() { about.len() } else { 0 });
    }
    let mut bytes = 0;
    for (_, inner) in entries(path)? {
        bytes += remove(&inner)?;
    }
    // What has no name in text is left.
    std::fs::remove_dir_all(path).map_err(failed)?;
    Ok(bytes)
}
