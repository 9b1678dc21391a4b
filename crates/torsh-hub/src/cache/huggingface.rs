//! The cache of the Hugging Face libraries. A repository `org/name` is a folder `models--org--name`:
//!
//! * `blobs/<etag>`: the files' contents, under the ETag that the server gives them
//! * `snapshots/<commit>/<name>`: links to the contents, by commit and name
//! * `refs/<revision>`: the commit that a branch or tag was when it was asked for
//! * `.no_exist/<commit>/<name>`: empty files for names that the commit does not have
//!
//! Beside them, `.locks/models--org--name/<etag>.lock` is locked during a download, and `blobs/<etag>.incomplete` is what
//! has arrived.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use torsh_tensor::Result;

use super::{CachedFile, State, Store, entries};
use crate::checksum::Checksum;
use crate::errors;
use crate::hub::repo::{Repo, RepoKind};

/// The folders of a repository.
pub(crate) struct Folders {
    pub(crate) root: PathBuf,
    name: String,
}

fn folder_name(repo: &Repo) -> String {
    let kind = match repo.kind() {
        RepoKind::Model => "models",
        RepoKind::Dataset => "datasets",
        RepoKind::Space => "spaces",
    };
    format!("{kind}--{}", repo.name().replace('/', "--"))
}

/// The repository of a folder's name.
fn repo_name(folder: &str) -> Option<String> {
    let (kind, name) = folder.split_once("--")?;
    let name = name.replace("--", "/");
    match kind {
        "models" => Some(name),
        "datasets" | "spaces" => Some(format!("{kind}/{name}")),
        _ => None,
    }
}

impl Folders {
    pub(crate) fn new(cache: &Path, repo: &Repo) -> Folders {
        Folders {
            root: cache.to_path_buf(),
            name: folder_name(repo),
        }
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.repo().join("blobs").join(etag)
    }

    pub(crate) fn lock(&self, etag: &str) -> PathBuf {
        self.root
            .join(".locks")
            .join(&self.name)
            .join(format!("{etag}.lock"))
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.repo().join("snapshots").join(commit)
    }

    /// The commit that a revision was when it was last asked for; a commit is its own.
    pub(crate) fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_string());
        }
        let commit = std::fs::read_to_string(self.repo().join("refs").join(revision)).ok()?;
        let commit = commit.trim();
        is_commit(commit).then(|| commit.to_string())
    }

    /// Where the file of a revision is, if it is.
    pub(crate) fn find(&self, revision: &str, name: &str) -> Option<PathBuf> {
        let path = self.snapshot(&self.commit(revision)?).join(name);
        path.is_file().then_some(path)
    }

    /// Whether a revision is known to lack a file: its server said so once.
    pub(crate) fn lacks(&self, revision: &str, name: &str) -> bool {
        let commit = self.commit(revision);
        commit.is_some_and(|commit| self.no_exist(&commit, name).is_file())
    }

    /// Writes down that a commit lacks a file.
    pub(crate) fn set_lacks(&self, commit: &str, name: &str) -> Result<()> {
        let path = self.no_exist(commit, name);
        folder_of(&path)?;
        std::fs::write(&path, b"").map_err(|e| errors::at("hub", &path, e))
    }

    fn no_exist(&self, commit: &str, name: &str) -> PathBuf {
        self.repo().join(".no_exist").join(commit).join(name)
    }

    /// Whether there are files of a revision.
    pub(crate) fn has_snapshot(&self, revision: &str) -> bool {
        let commit = self.commit(revision);
        commit.is_some_and(|commit| self.snapshot(&commit).is_dir())
    }

    /// Writes down what commit a revision is.
    pub(crate) fn set_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.repo().join("refs").join(revision);
        folder_of(&path)?;
        torsh_serialize::write_bytes(&path, commit.as_bytes())
    }

    /// Puts a link to a blob into a snapshot, a copy where there are no links.
    pub(crate) fn link(&self, etag: &str, commit: &str, name: &str) -> Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (blob, path) = (self.blob(etag), self.snapshot(commit).join(name));
        let up = "../".repeat(2 + name.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        if std::fs::read_link(&path).is_ok_and(|to| to == target) {
            return Ok(path);
        }
        folder_of(&path)?;
        let failed = |e| errors::at("hub", &path, e);
        let beside = path.with_file_name(format!(
            ".{}.{}.tmp",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        if symlink(&target, &beside).is_err() {
            std::fs::copy(&blob, &beside).map_err(failed)?;
        }
        let renamed = std::fs::rename(&beside, &path);
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&beside);
        }
        renamed.map_err(failed)?;
        Ok(path)
    }

    /// Whether the snapshot's file is this blob.
    pub(crate) fn has(&self, etag: &str, commit: &str, name: &str) -> Option<PathBuf> {
        let path = self.snapshot(commit).join(name);
        if !path.is_file() {
            return None;
        }
        match std::fs::read_link(&path) {
            Ok(target) => (target.file_name()?.to_str()? == etag).then_some(path),
            // A copy, on a system without links: the blob tells.
            Err(_) => {
                let (copy, blob) = (path.metadata().ok()?, self.blob(etag).metadata().ok()?);
                (copy.len() == blob.len()).then_some(path)
            }
        }
    }

    /// The names of the files of a commit that are there, with their folders.
    pub(crate) fn names(&self, commit: &str) -> Result<Vec<String>> {
        let mut out = Vec::new();
        walk(&self.snapshot(commit), "", &mut |name, _| {
            out.push(name.to_string())
        })?;
        Ok(out)
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_target: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Makes the folder that a file is to be in.
pub(crate) fn folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder).map_err(|e| errors::at("hub", folder, e)),
        None => Ok(()),
    }
}

/// Forty hexadecimal digits, git's name of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The files below a folder with their names from there.
fn walk(folder: &Path, prefix: &str, take: &mut dyn FnMut(&str, &Path)) -> Result<()> {
    for (name, path) in entries(folder)? {
        let name = format!("{prefix}{name}");
        // A link to a folder is nothing that the libraries write.
        if path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            walk(&path, &format!("{name}/"), take)?;
        } else if path.is_file() {
            take(&name, &path);
        }
    }
    Ok(())
}

/// All files of the cache.
pub(crate) fn list(cache: &Path) -> Result<Vec<CachedFile>> {
    let mut out = Vec::new();
    for (folder, path) in entries(cache)? {
        let Some(repo) = repo_name(&folder).filter(|_| path.is_dir()) else {
            continue;
        };
        let mut names = Vec::new();
        walk(&path.join("refs"), "", &mut |name, file| {
            if let Ok(commit) = std::fs::read_to_string(file) {
                names.push((name.to_string(), commit.trim().to_string()));
            }
        })?;
        for (commit, snapshot) in entries(&path.join("snapshots"))? {
            let refs: Vec<String> = names
                .iter()
                .filter(|(_, of)| *of == commit)
                .map(|(name, _)| name.clone())
                .collect();
            walk(&snapshot, "", &mut |name, file| {
                let blob = std::fs::read_link(file).ok();
                let etag = blob.as_ref().and_then(|b| b.file_name()?.to_str());
                out.push(CachedFile {
                    store: Store::HuggingFace,
                    repo: Some(repo.clone()),
                    revision: Some(commit.clone()),
                    refs: refs.clone(),
                    name: name.to_string(),
                    path: file.to_path_buf(),
                    size: file.metadata().map_or(0, |about| about.len()),
                    state: State::Whole,
                    checksum: etag.and_then(Checksum::of_etag),
                });
            })?;
        }
        for (name, file) in entries(&path.join("blobs"))? {
            let (state, plain) = if let Some(plain) = name.strip_suffix(".incomplete") {
                (State::Part, plain)
            } else if let Some(plain) = name.strip_suffix(".bad") {
                (State::Bad, plain)
            } else {
                continue;
            };
            out.push(CachedFile {
                store: Store::HuggingFace,
                repo: Some(repo.clone()),
                revision: None,
                refs: Vec::new(),
                name: plain.to_string(),
                size: file.metadata().map_or(0, |about| about.len()),
                path: file,
                state,
                checksum: None,
            });
        }
    }
    Ok(out)
}
