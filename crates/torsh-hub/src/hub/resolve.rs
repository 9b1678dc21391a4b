//! Finding the files of a repository: in the cache, in a folder, on a server.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Deserialize;
use torsh_tensor::{Result, TorshError};

use super::Hub;
use super::repo::{Repo, check_file};
use crate::cache::huggingface::{Content, Folders, folder_of, is_commit};
use crate::checksum::Checksum;
use crate::download::{DownloadOptions, Job, lock_file, offline};
use crate::errors;
use crate::transport::{Failure, Method, Settings};
use crate::url::Url;

const OP: &str = "hub";

/// More than the list of a repository's files has.
const LARGEST_LIST: usize = 256 << 20;

/// Where a file is.
pub(super) enum Found {
    There(PathBuf),
    /// The repository does not have it; without a network: neither does the cache.
    NotThere(TorshError),
    /// The server does not answer, and the cache does not have it.
    NotReachable(TorshError),
}

/// What the server says of a file.
struct About {
    commit: String,
    /// Whether the commit is one, and not made up of what a server without commits has.
    fixed: bool,
    etag: String,
    size: Option<u64>,
    checksum: Option<Checksum>,
}

#[derive(Deserialize)]
struct Listing {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

/// A name of 40 digits for what a server without commits has at a revision.
fn made_up_commit(endpoint: &str, repo: &Repo) -> String {
    hash(&format!("{endpoint} {repo}"), 40)
}

/// The first digits of a text's SHA-256.
fn hash(text: &str, digits: usize) -> String {
    use sha2::{Digest, Sha256};
    let sum = Sha256::digest(text.as_bytes());
    let hex: String = sum.iter().map(|b| format!("{b:02x}")).collect();
    hex[..digits].to_string()
}

impl Hub {
    fn endpoint(&self) -> Result<Url> {
        Url::parse(&self.environment().endpoint)
    }

    /// Where an endpoint that is a folder may have a file.
    fn in_folder(&self, repo: &Repo, file: &str) -> Result<Option<[PathBuf; 2]>> {
        let Some(folder) = self.endpoint()?.to_path() else {
            return Ok(None);
        };
        // With the separators of the system.
        let parts = |path: &str| path.split('/').collect::<PathBuf>();
        let (root, file) = (folder.join(parts(&repo.path())), parts(file));
        let of_revision = root.join("resolve").join(parts(repo.revision_name()));
        Ok(Some([of_revision.join(&file), root.join(&file)]))
    }

    pub(super) fn resolve(
        &self,
        repo: &Repo,
        file: &str,
        options: &DownloadOptions,
    ) -> Result<PathBuf> {
        match self.look(repo, file, options, true)? {
            Found::There(path) => Ok(path),
            Found::NotThere(e) | Found::NotReachable(e) => Err(e),
        }
    }

    /// Looks for a file: on the server where `ask` is set and the hub is not offline, and in the cache.
    pub(super) fn look(
        &self,
        repo: &Repo,
        file: &str,
        options: &DownloadOptions,
        ask: bool,
    ) -> Result<Found> {
        let folders = self.folders(repo);
        let revision = repo.revision_name();
        let cached = folders.as_ref().ok().and_then(|f| f.find(revision, file));
        if let Some(places) = self.in_folder(repo, file)? {
            if let Some(path) = places.iter().find(|path| path.is_file()) {
                return Ok(Found::There(path.clone()));
            }
            return Ok(cached.map_or_else(
                || Found::NotThere(missing(repo, file, &places, folders.ok().as_ref())),
                Found::There,
            ));
        }
        let url = self.address(repo, file)?;
        let folders = folders?;
        let place = folders.repo().join("snapshots").join(revision).join(file);
        if self.environment().offline {
            return Ok(cached.map_or_else(
                || Found::NotThere(offline(OP, &url, &[place])),
                Found::There,
            ));
        }
        if let Some(path) = cached.clone().filter(|_| !ask || is_commit(revision)) {
            return Ok(Found::There(path));
        }
        let lacks = || {
            let why = format!("{repo} has no {file}: its server said so of this commit");
            Found::NotThere(errors::io(ErrorKind::NotFound, OP, why, ""))
        };
        let known = folders.lacks(revision, file);
        if known && (!ask || is_commit(revision)) {
            return Ok(lacks());
        }
        if !ask {
            let why = format!("{repo} has no {file} in the cache ({})", place.display());
            let error = errors::io(ErrorKind::NotFound, OP, why, "");
            return Ok(Found::NotThere(error));
        }
        let about = match self.about(repo, &url, options) {
            Ok(about) => about,
            Err(failure) => {
                let reached = failure.answered();
                if !reached && failure.kind != ErrorKind::Interrupted {
                    if let Some(path) = cached {
                        return Ok(Found::There(path));
                    }
                    if known {
                        return Ok(lacks());
                    }
                }
                if let Some(commit) = &failure.lacks {
                    // As huggingface_hub: without a network this is what is known of the file. A cache that cannot be
                    // written is none.
                    let _ = folders
                        .set_lacks(commit, file)
                        .and_then(|()| folders.set_ref(revision, commit));
                }
                let interrupted = failure.kind == ErrorKind::Interrupted;
                let job = Job {
                    op: OP,
                    url: &url,
                    to: &folders.repo(),
                    part: PathBuf::new(),
                    options,
                };
                let not_there = failure.kind == ErrorKind::NotFound;
                let error = self.client().explain(&job, failure, 0);
                return match (reached, not_there) {
                    (true, true) => Ok(Found::NotThere(error)),
                    (false, _) if !interrupted => Ok(Found::NotReachable(error)),
                    _ => Err(error),
                };
            }
        };
        let path = self.bring(&folders, file, &url, &about, options)?;
        folders.set_ref(revision, &about.commit)?;
        Ok(Found::There(path))
    }

    /// Whether a repository has files of this revision in the cache.
    pub(super) fn is_cached(&self, repo: &Repo) -> bool {
        self.folders(repo)
            .is_ok_and(|folders| folders.has_snapshot(repo.revision_name()))
    }

    /// The address of a file.
    fn address(&self, repo: &Repo, file: &str) -> Result<Url> {
        let base = self.endpoint()?.below(&repo.path())?;
        // A branch may have a slash in its name, which is no part of the path.
        let mut url = base.below("resolve")?;
        url.path.push('/');
        url.path
            .push_str(&crate::url::encoded(repo.revision_name()));
        url.below(file)
    }

    /// What the server says of a file. It may send the contents from elsewhere: what it says itself counts.
    fn about(&self, repo: &Repo, url: &Url, options: &DownloadOptions) -> Result<About, Failure> {
        let client = self.client();
        let settings = Settings {
            environment: self.environment(),
            cancel: options.cancel.as_ref(),
        };
        let fields = [("accept-encoding", "identity".to_string())];
        let head = client.attempts(options.cancel.as_ref(), || {
            let known = |head: &crate::transport::Head| {
                head.get("x-repo-commit").is_some() && head.get("x-linked-etag").is_some()
            };
            let response = client
                .transport
                .follow(Method::Head, url, &fields, client.token(), &settings, known)
                .map_err(|failure| (failure, 0))?;
            match response.head.status {
                200..=399 => Ok(response.head),
                status => {
                    let mut failure = Failure::status(&response.head);
                    let code = response.head.get("x-error-code").map(str::trim);
                    let commit = response.head.get("x-repo-commit").map(str::trim);
                    if status == 404 && code == Some("EntryNotFound") {
                        failure.lacks = commit.filter(|c| is_commit(c)).map(str::to_string);
                    }
                    Err((failure, 0))
                }
            }
        })?;
        let of_hub = head
            .get("x-repo-commit")
            .map(str::trim)
            .filter(|c| is_commit(c));
        let linked = head.get("x-linked-etag");
        let etag = linked.or_else(|| head.get("etag")).map(|e| {
            e.trim()
                .trim_start_matches("W/")
                .trim_matches('"')
                .to_string()
        });
        // Only of the answer that has the file itself.
        let plain = (head.status < 300)
            .then(|| head.length("content-length"))
            .flatten();
        let size = head.length("x-linked-size").or(plain);
        let safe = |etag: &String| {
            (1..=128).contains(&etag.len())
                && etag
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        let etag = match etag.filter(safe) {
            Some(etag) => etag,
            // 32 digits, which are no checksum.
            None => {
                let modified = head.get("last-modified").unwrap_or_default();
                hash(&format!("{} {modified} {size:?}", url.full()), 32)
            }
        };
        let checksum = Checksum::of_etag(&etag).filter(|_| of_hub.is_some() || linked.is_some());
        let fixed = of_hub.is_some() || is_commit(repo.revision_name());
        let commit = match of_hub {
            Some(commit) => commit.to_string(),
            None if is_commit(repo.revision_name()) => repo.revision_name().to_string(),
            None => made_up_commit(&self.environment().endpoint, repo),
        };
        Ok(About {
            commit,
            fixed,
            etag,
            size,
            checksum,
        })
    }

    /// Downloads what the cache lacks, and links it into the snapshot.
    fn bring(
        &self,
        folders: &Folders,
        file: &str,
        url: &Url,
        about: &About,
        options: &DownloadOptions,
    ) -> Result<PathBuf> {
        let etag = about.etag.as_str();
        let content = Content {
            commit: &about.commit,
            etag,
            size: about.size,
            fixed: about.fixed,
        };
        if let Some(path) = folders.has(&content, file) {
            return Ok(path);
        }
        let blob = folders.blob(etag);
        if !blob.is_file() {
            // Python's libraries lock the same file.
            let lock = folders.lock(etag);
            folder_of(&lock)?;
            let (_locked, _) = lock_file(OP, &lock, options.cancel.as_ref())?;
            // Whoever had the lock may have moved the blob to its place.
            if let Some(path) = folders.has(&content, file) {
                return Ok(path);
            }
            if !blob.is_file() {
                let options = DownloadOptions {
                    checksum: options.checksum.clone().or_else(|| about.checksum.clone()),
                    size: options.size.or(about.size),
                    ..options.clone()
                };
                self.client().download(&Job {
                    op: OP,
                    url,
                    to: &blob,
                    part: folders.blob(&format!("{etag}.incomplete")),
                    options: &options,
                })?;
                return folders.place(&content, file, true);
            }
        }
        folders.place(&content, file, false)
    }

    /// The commit and the files of a repository; a folder has no commit.
    pub(super) fn names(&self, repo: &Repo) -> Result<(Option<String>, Vec<String>)> {
        if let Some([of_revision, root]) = self.in_folder(repo, "")? {
            let folder = if of_revision.is_dir() {
                of_revision
            } else {
                root
            };
            let mut names = Vec::new();
            below(&folder, "", &mut names)?;
            if names.is_empty() {
                let why = format!("{repo} has no files; looked in {}", folder.display());
                return Err(errors::io(ErrorKind::NotFound, OP, why, ""));
            }
            return Ok((None, names));
        }
        let folders = self.folders(repo)?;
        let of_cache = || -> Result<Option<(Option<String>, Vec<String>)>> {
            let Some(commit) = folders.commit(repo.revision_name()) else {
                return Ok(None);
            };
            let names = folders.names(&commit)?;
            Ok((!names.is_empty()).then_some((Some(commit), names)))
        };
        let mut url = self.endpoint()?.below(&repo.api())?.below("revision")?;
        url.path.push('/');
        url.path
            .push_str(&crate::url::encoded(repo.revision_name()));
        if self.environment().offline {
            let refs = folders.repo().join("refs").join(repo.revision_name());
            return of_cache()?.ok_or_else(|| offline(OP, &url, &[refs]));
        }
        let options = DownloadOptions::new();
        let listing = match self.listing(&url) {
            Ok(listing) => listing,
            Err(failure) => {
                if !failure.answered()
                    && let Some(cached) = of_cache()?
                {
                    return Ok(cached);
                }
                let job = Job {
                    op: OP,
                    url: &url,
                    to: &folders.repo(),
                    part: PathBuf::new(),
                    options: &options,
                };
                return Err(self.client().explain(&job, failure, 0));
            }
        };
        let commit = listing
            .sha
            .filter(|sha| is_commit(sha))
            .ok_or_else(|| TorshError::format(OP, format!("{} names no commit", url.shown())))?;
        let mut names = Vec::new();
        for sibling in listing.siblings {
            // A server must not name files outside of the snapshot.
            check_file(&sibling.rfilename)?;
            names.push(sibling.rfilename);
        }
        Ok((Some(commit), names))
    }

    fn listing(&self, url: &Url) -> Result<Listing, Failure> {
        let client = self.client();
        let settings = Settings {
            environment: self.environment(),
            cancel: None,
        };
        client.attempts(None, || {
            let response = client
                .transport
                .follow(Method::Get, url, &[], client.token(), &settings, |_| false)
                .map_err(|failure| (failure, 0))?;
            if response.head.status != 200 {
                return Err((Failure::status(&response.head), 0));
            }
            let text = response
                .bytes(&settings, LARGEST_LIST)
                .map_err(|failure| (failure, 0))?;
            serde_json::from_slice(&text).map_err(|e| {
                let why = format!(
                    "the list of files is none: {}",
                    errors::short(&e.to_string())
                );
                (Failure::new(ErrorKind::InvalidData, why, false), 0)
            })
        })
    }
}

/// The files below a folder.
fn below(folder: &std::path::Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
    for (name, path) in crate::cache::entries(folder)? {
        if path.is_file() {
            names.push(format!("{prefix}{name}"));
        } else if path.symlink_metadata().is_ok_and(|about| about.is_dir())
            && !(prefix.is_empty() && (name == "resolve" || name == ".git"))
        {
            below(&path, &format!("{prefix}{name}/"), names)?;
        }
    }
    Ok(())
}

#[cold]
fn missing(repo: &Repo, file: &str, places: &[PathBuf], folders: Option<&Folders>) -> TorshError {
    let mut why = format!("{repo} has no {file}");
    for place in places {
        why.push_str(&format!("\n  looked for: {}", place.display()));
    }
    if let Some(folders) = folders {
        why.push_str(&format!("\n  looked in: {}", folders.repo().display()));
    }
    errors::io(
        ErrorKind::NotFound,
        OP,
        why,
        "HF_ENDPOINT is a folder; copy the file into it",
    )
}
