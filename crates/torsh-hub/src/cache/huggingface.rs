//! The cache of the Hugging Face libraries. A repository `org/name` is a folder `models--org--name`:
//!
//! * `blobs/<etag>`: the files' contents, under the ETag that the server gives them
//! * `snapshots/<commit>/<name>`: links to the contents, by commit and name; the contents themselves, and no blobs, where the
//!   system refuses links (Windows, unless its developer mode is on)
//! * `refs/<revision>`: the commit that a branch or tag was when it was asked for
//! * `.no_exist/<commit>/<name>`: empty files for names that the commit does not have
//!
//! Beside them, `.locks/models--org--name/<etag>.lock` is locked during a download, and `blobs/<etag>.incomplete` is what
//! has arrived.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use torsh_serialize::files;
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

/// What a server says a file of a revision is.
pub(crate) struct Content<'a> {
    pub(crate) commit: &'a str,
    pub(crate) etag: &'a str,
    pub(crate) size: Option<u64>,
    /// Whether the revision is a commit, of which no file ever changes.
    pub(crate) fixed: bool,
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

    /// Puts a file into a snapshot: a link to its blob. Where the system refuses links or makes ones that do not open, the file is in the snapshot itself and
    /// has no blob, as Python's libraries have it. A blob that is not `fresh` may be of other snapshots too, and is copied.
    pub(crate) fn place(&self, content: &Content<'_>, name: &str, fresh: bool) -> Result<PathBuf> {
        self.place_with(symlink, content, name, fresh)
    }

    fn place_with(
        &self,
        symlink: fn(&Path, &Path) -> std::io::Result<()>,
        content: &Content<'_>,
        name: &str,
        fresh: bool,
    ) -> Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let blob = self.blob(content.etag);
        let path = self.snapshot(content.commit).join(name);
        // With the separators of the system: Windows follows no link with others.
        let mut target: PathBuf = vec![".."; 2 + name.matches('/').count()].iter().collect();
        target.extend(["blobs", content.etag]);
        if std::fs::read_link(&path).is_ok_and(|to| to == target) && path.is_file() {
            return Ok(path);
        }
        folder_of(&path)?;
        let failed = |e| errors::at("hub", &path, e);
        let beside = path.with_file_name(format!(
            ".{}.{}.tmp",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        // Some file systems take links that nothing can be read through afterwards.
        let linked = symlink(&target, &beside).and_then(|()| {
            let read = beside.metadata();
            if read.is_err() {
                std::fs::remove_file(&beside)?;
            }
            read
        });
        if linked.is_err() {
            // Of a revision that may change, the blob tells whether the file is still the one of the server.
            if fresh && content.fixed {
                files::replace(&blob, &path).map_err(failed)?;
                return Ok(path);
            }
            std::fs::copy(&blob, &beside).map_err(failed)?;
        }
        let renamed = files::replace(&beside, &path);
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&beside);
        }
        renamed.map_err(failed)?;
        Ok(path)
    }

    /// Where a snapshot has the file with this content, if it does.
    pub(crate) fn has(&self, content: &Content<'_>, name: &str) -> Option<PathBuf> {
        let path = self.snapshot(content.commit).join(name);
        if !path.is_file() {
            return None;
        }
        match std::fs::read_link(&path) {
            Ok(target) => (target.file_name()?.to_str()? == content.etag).then_some(path),
            // The file itself, on a system without links.
            Err(_) => {
                let there = path.metadata().ok()?.len();
                let right = match content.fixed {
                    // A copy of Python's that was interrupted is shorter.
                    true => content.size.unwrap_or(there),
                    false => self.blob(content.etag).metadata().ok()?.len(),
                };
                (there == right).then_some(path)
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
        if cfg!(windows) && files::is_aside(&name) {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of a test, removed at its end.
    struct Cache(Folders);

    impl Cache {
        fn new(name: &str) -> Cache {
            let name = format!("torsh-hub-layout-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&root);
            Cache(Folders::new(&root, &Repo::parse("org/name").unwrap()))
        }

        fn blob(&self, etag: &str, text: &str) {
            folder_of(&self.0.blob(etag)).unwrap();
            std::fs::write(self.0.blob(etag), text).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let mut out = Vec::new();
            walk(&self.0.repo(), "", &mut |name, _| out.push(name.into())).unwrap();
            out
        }
    }

    impl Drop for Cache {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0.root);
        }
    }

    fn refused(_: &Path, _: &Path) -> std::io::Result<()> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }

    fn content(etag: &str, size: u64) -> Content<'_> {
        Content {
            commit: "0123456789012345678901234567890123456789",
            etag,
            size: Some(size),
            fixed: true,
        }
    }

    #[test]
    fn without_links_the_snapshot_has_the_file() {
        let cache = Cache::new("moved");
        cache.blob("a", "one");
        let one = content("a", 3);
        assert_eq!(cache.0.has(&one, "sub/x"), None);
        let path = cache.0.place_with(refused, &one, "sub/x", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        let snapshot = format!("snapshots/{}", one.commit);
        assert_eq!(cache.names(), [format!("{snapshot}/sub/x")]);
        // It is found without its blob, unless a copy of it ended too early.
        assert_eq!(cache.0.has(&one, "sub/x").as_ref(), Some(&path));
        assert_eq!(cache.0.has(&content("a", 4), "sub/x"), None);
        let unknown = Content { size: None, ..one };
        assert_eq!(cache.0.has(&unknown, "sub/x"), Some(path));
        assert_eq!(cache.0.names(unknown.commit).unwrap(), ["sub/x"]);
        let listed = list(&cache.0.root).unwrap();
        assert_eq!((listed.len(), listed[0].size), (1, 3));
        assert_eq!(listed[0].checksum, None);
    }

    #[test]
    fn a_blob_of_others_is_copied() {
        let cache = Cache::new("copied");
        cache.blob("a", "one");
        let one = content("a", 3);
        cache.0.place_with(refused, &one, "x", false).unwrap();
        assert!(cache.0.blob("a").is_file());
        // So is one of a revision that may change: its blob tells what the file is of.
        let moving = Content {
            fixed: false,
            ..content("b", 5)
        };
        cache.blob("b", "three");
        cache.0.place_with(refused, &moving, "x", true).unwrap();
        assert!(cache.0.has(&moving, "x").is_some());
        let other = Content {
            fixed: false,
            ..content("c", 5)
        };
        assert_eq!(cache.0.has(&other, "x"), None);
        let snapshot = format!("snapshots/{}", one.commit);
        let file = format!("{snapshot}/x");
        assert_eq!(cache.names(), ["blobs/a", "blobs/b", file.as_str()]);
    }

    #[test]
    #[cfg(unix)] // Windows may refuse links.
    fn a_link_leads_to_the_blob() {
        let cache = Cache::new("linked");
        cache.blob("a", "one");
        let path = cache.0.place(&content("a", 3), "sub/x", true).unwrap();
        let target = std::fs::read_link(&path).unwrap();
        assert_eq!(target, Path::new("../../../blobs/a"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert!(cache.0.has(&content("a", 3), "sub/x").is_some());
        assert_eq!(cache.0.has(&content("b", 3), "sub/x"), None);
        // A file that another program put there gives way to the link.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "one").unwrap();
        cache.0.place(&content("a", 3), "sub/x", false).unwrap();
        assert!(std::fs::read_link(&path).is_ok());
    }
}
