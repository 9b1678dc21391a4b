//! Files of repositories.

mod builder;
pub(crate) mod repo;
mod resolve;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use torsh_nn::StateDict;
use torsh_serialize::files::is_path;
use torsh_serialize::{LeftOut, torch_cache};
use torsh_tensor::Result;

use crate::cache::huggingface::{self, Folders};
use crate::cache::{self, CachedFile, Store, torch};
use crate::checkpoint::{
    Index, LoadStateDict, WEIGHTS, load_readable_state_dict, load_state_dict_with,
};
use crate::download::{Client, DownloadOptions, Retry};
use crate::environment::Environment;
use crate::errors;
use crate::transport::Transport;
use crate::url::Url;
use crate::url_options::UrlOptions;
use resolve::Found;

pub use builder::HubBuilder;
pub use repo::{IntoRepo, Repo, RepoKind};

struct Inner {
    environment: Environment,
    retry: Retry,
    transport: Transport,
}

/// Where files of models come from: caches, a mirror, servers. A clone is the same hub.
///
/// The functions of this crate use the hub of the process, [`Hub::shared`], which has the settings of the variables that
/// [`Environment`] lists. A hub of one's own has others:
///
/// ```
/// use torsh_hub::{Environment, Hub};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-hub-{}", std::process::id()));
/// // A mirror that is a folder: org/name/file below it.
/// let mirror = dir.join("mirror");
/// std::fs::create_dir_all(mirror.join("org/name"))?;
/// std::fs::write(mirror.join("org/name/config.json"), "{}")?;
///
/// let hub = Hub::builder()
///     .environment(Environment::default())
///     .endpoint(format!("file://{}", mirror.display()))
///     .cache_dir(dir.join("cache"))
///     .offline(true)
///     .build()?;
/// assert_eq!(std::fs::read_to_string(hub.file("org/name", "config.json")?)?, "{}");
/// let error = hub.file("org/name", "model.safetensors").unwrap_err().to_string();
/// assert!(error.contains("looked for") && error.replace('\\', "/").contains("org/name/model.safetensors"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hub").field(&self.0.environment).finish()
    }
}

static SHARED: RwLock<Option<Hub>> = RwLock::new(None);

impl Hub {
    /// A builder, which begins with the environment of the process.
    pub fn builder() -> HubBuilder {
        HubBuilder::default()
    }

    /// The hub of this process, with the settings of its environment unless [`Hub::set_shared`] put another there.
    ///
    /// # Errors
    /// A variable with an address that is none.
    #[torsh_tensor::names_caller(Self)]
    pub fn shared() -> Result<Hub> {
        if let Some(hub) = &*SHARED.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(hub.clone());
        }
        let hub = Hub::builder().build()?;
        let mut shared = SHARED.write().unwrap_or_else(PoisonError::into_inner);
        Ok(shared.get_or_insert(hub).clone())
    }

    /// Makes a hub the one that the functions of this crate use.
    ///
    /// ```
    /// use std::path::Path;
    /// use torsh_hub::{Hub, get_dir};
    /// Hub::set_shared(Hub::builder().torch_home("/data/torch").build()?);
    /// assert_eq!(get_dir()?, Path::new("/data/torch/hub"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_shared(hub: Hub) {
        *SHARED.write().unwrap_or_else(PoisonError::into_inner) = Some(hub);
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.0.environment
    }

    pub(crate) fn client(&self) -> Client<'_> {
        let environment = &self.0.environment;
        let endpoint = Url::parse(&environment.endpoint).ok();
        let token = environment.token.as_ref().and_then(|token| token.header());
        Client {
            environment,
            transport: &self.0.transport,
            retry: self.0.retry,
            token: token.zip(endpoint),
        }
    }

    /// PyTorch's folder for downloads (`torch.hub.get_dir`).
    ///
    /// ```
    /// use torsh_hub::{Environment, Hub};
    /// let builder = Hub::builder().environment(Environment::default()); // no folder is known
    /// let error = builder.clone().build()?.torch_dir().unwrap_err().to_string();
    /// assert!(error.contains("set TORCH_HOME to a folder"));
    /// assert_eq!(builder.torch_home("/data").build()?.torch_dir()?, std::path::Path::new("/data/hub"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No folder is known.
    #[torsh_tensor::names_caller]
    pub fn torch_dir(&self) -> Result<PathBuf> {
        Ok(self.0.environment.torch_home()?.join("hub"))
    }

    /// The cache of repositories.
    ///
    /// # Errors
    /// No folder is known.
    #[torsh_tensor::names_caller]
    pub fn cache_dir(&self) -> Result<PathBuf> {
        self.0.environment.hub_cache()
    }

    fn folders(&self, repo: &Repo) -> Result<Folders> {
        Ok(Folders::new(&self.cache_dir()?, repo))
    }

    /// The path of a file of a repository, which is downloaded into the cache where it is not there or has changed
    /// (`hf_hub_download`).
    ///
    /// `repo` is `org/name`, `org/name@revision`, `datasets/org/name`, or a [`Repo`]. If the server cannot be reached,
    /// the file in the cache is taken. A revision that is a commit never changes: a file of it that is there is taken
    /// without asking the server. If the endpoint is a folder (`file:///..`), the path is in it: `org/name/file`, or
    /// `org/name/resolve/revision/file`.
    ///
    /// ```
    /// # use torsh_hub::{Environment, Hub};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-file-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("org/name"))?;
    /// # let endpoint = format!("file://{}", dir.display());
    /// # let hub = Hub::builder().environment(Environment::default()).endpoint(endpoint).build()?;
    /// # std::fs::create_dir_all(dir.join("org/name/resolve/v2"))?;
    /// std::fs::write(dir.join("org/name/config.json"), "main")?;
    /// std::fs::write(dir.join("org/name/resolve/v2/config.json"), "second")?;
    /// // The endpoint of this hub is the folder `dir`.
    /// assert_eq!(std::fs::read_to_string(hub.file("org/name", "config.json")?)?, "main");
    /// assert_eq!(std::fs::read_to_string(hub.file("org/name@v2", "config.json")?)?, "second");
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// * No such repository, revision or file; no permission: `HF_TOKEN` is sent to the endpoint, and to no other server.
    /// * Offline, and the file is neither in the cache nor in a folder; the error says where it was looked for.
    /// * As [`download_url_to_file`](crate::download_url_to_file).
    #[track_caller]
    pub fn file(&self, repo: impl IntoRepo, file: &str) -> Result<PathBuf> {
        self.file_with(repo, file, &DownloadOptions::new())
    }

    /// [`Hub::file`] with options.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller]
    pub fn file_with(
        &self,
        repo: impl IntoRepo,
        file: &str,
        options: &DownloadOptions,
    ) -> Result<PathBuf> {
        let repo = repo.into_repo()?;
        repo::check_file(file)?;
        self.resolve(&repo, file, options)
    }

    /// [`Hub::file`] of a file that a repository need not have; `None` where it does not have it.
    ///
    /// If the server cannot be reached, the cache decides: files that are not in the snapshot of a revision that the cache
    /// has count as not there.
    ///
    /// ```
    /// use torsh_hub::{Environment, Hub};
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-optional-{}", std::process::id()));
    /// std::fs::create_dir_all(dir.join("org/name"))?;
    /// std::fs::write(dir.join("org/name/config.json"), "{}")?;
    /// let hub = Hub::builder()
    ///     .environment(Environment::default())
    ///     .endpoint(format!("file://{}", dir.display()))
    ///     .cache_dir(dir.join("cache"))
    ///     .build()?;
    /// assert!(hub.optional_file("org/name", "config.json")?.is_some());
    /// assert_eq!(hub.optional_file("org/name", "vocab.txt")?, None);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hub::file`], but for a file that is not there.
    #[torsh_tensor::names_caller]
    pub fn optional_file(&self, repo: impl IntoRepo, file: &str) -> Result<Option<PathBuf>> {
        let repo = repo.into_repo()?;
        repo::check_file(file)?;
        match self.look(&repo, file, &DownloadOptions::new(), true)? {
            Found::There(path) => Ok(Some(path)),
            Found::NotThere(_) => Ok(None),
            Found::NotReachable(_) if self.is_cached(&repo) => Ok(None),
            Found::NotReachable(e) => Err(e),
        }
    }

    /// The names of the files of a repository that a pattern matches, all where there is no pattern: of the server, or of
    /// the cache if the hub is offline. In a pattern `*` stands for any characters, `?` for one.
    ///
    /// ```
    /// # use torsh_hub::{Environment, Hub};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-list-files-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("org/name"))?;
    /// # let endpoint = format!("file://{}", dir.display());
    /// # let hub = Hub::builder().environment(Environment::default()).endpoint(endpoint).build()?;
    /// std::fs::write(dir.join("org/name/config.json"), "{}")?;
    /// std::fs::write(dir.join("org/name/model.safetensors"), "")?;
    /// // The endpoint of this hub is the folder `dir`.
    /// assert_eq!(hub.list_files("org/name", &[])?, ["config.json", "model.safetensors"]);
    /// assert_eq!(hub.list_files("org/name", &["*.json"])?, ["config.json"]);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hub::file`].
    #[torsh_tensor::names_caller]
    pub fn list_files(&self, repo: impl IntoRepo, patterns: &[&str]) -> Result<Vec<String>> {
        let repo = repo.into_repo()?;
        let (_, names) = self.names(&repo)?;
        Ok(matching(names, patterns))
    }

    /// The folder with the files of a repository that a pattern matches, all where there is no pattern
    /// (`snapshot_download`). All files are of one commit. Patterns as in [`Hub::list_files`].
    ///
    /// ```
    /// # use torsh_hub::{Environment, Hub};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-snapshot-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("org/name"))?;
    /// # let endpoint = format!("file://{}", dir.display());
    /// # let hub = Hub::builder().environment(Environment::default()).endpoint(endpoint).build()?;
    /// std::fs::write(dir.join("org/name/vocab.txt"), "a")?;
    /// // The endpoint of this hub is the folder `dir`.
    /// assert_eq!(hub.snapshot("org/name", &["*.txt"])?, dir.join("org/name"));
    /// let error = hub.snapshot("org/name", &["*.json"]).unwrap_err().to_string();
    /// assert!(error.contains("none of the 1 files of org/name@main matches *.json"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hub::file`], and where no file matches.
    #[torsh_tensor::names_caller]
    pub fn snapshot(&self, repo: impl IntoRepo, patterns: &[&str]) -> Result<PathBuf> {
        let repo = repo.into_repo()?;
        let (commit, names) = self.names(&repo)?;
        let all = names.len();
        let names = matching(names, patterns);
        if names.is_empty() {
            let why = format!(
                "none of the {all} files of {repo} matches {}",
                patterns.join(", ")
            );
            return Err(errors::io(
                ErrorKind::NotFound,
                "snapshot",
                why,
                "list_files(repo, &[]) names them",
            ));
        }
        let Some(commit) = commit else {
            // A folder.
            let first = self.file(&repo, &names[0])?;
            let up = names[0].matches('/').count() + 1;
            return Ok(first
                .ancestors()
                .nth(up)
                .map_or(first.clone(), Path::to_path_buf));
        };
        let of_commit = repo.clone().revision(&commit)?;
        for name in &names {
            self.file(&of_commit, name)?;
        }
        let folders = self.folders(&repo)?;
        folders.set_ref(repo.revision_name(), &commit)?;
        Ok(folders.snapshot(&commit))
    }

    /// The path of the weights of a repository in the cache: `model.safetensors`, `pytorch_model.bin`, or the list of
    /// their shards, with all shards. If the server cannot be reached, whichever of these the cache has is taken.
    ///
    /// ```
    /// # use torsh_hub::{Environment, Hub};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-weights-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("org/name"))?;
    /// # let endpoint = format!("file://{}", dir.display());
    /// # let hub = Hub::builder().environment(Environment::default()).endpoint(endpoint).build()?;
    /// std::fs::write(dir.join("org/name/pytorch_model.bin"), "")?;
    /// std::fs::write(dir.join("org/name/model.safetensors"), "")?;
    /// // The endpoint of this hub is the folder `dir`; safetensors come first.
    /// assert_eq!(hub.checkpoint("org/name")?, dir.join("org/name/model.safetensors"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hub::file`], and where there is none of these.
    #[torsh_tensor::names_caller]
    pub fn checkpoint(&self, repo: impl IntoRepo) -> Result<PathBuf> {
        let repo = repo.into_repo()?;
        let (mut looked, mut unreachable) = (None, None);
        let options = DownloadOptions::new();
        for name in WEIGHTS {
            // A server that does not answer is asked once; the cache may have the weights under another name.
            let path = match self.look(&repo, name, &options, unreachable.is_none())? {
                Found::There(path) => path,
                Found::NotThere(e) => {
                    looked.get_or_insert(e);
                    continue;
                }
                Found::NotReachable(e) => {
                    unreachable = Some(e);
                    continue;
                }
            };
            if name.ends_with(".json") {
                let index = Index::read(&path)?;
                // All shards of the commit that the list is of.
                let commit = path.parent().and_then(|p| p.file_name()?.to_str());
                let repo = match commit.filter(|c| huggingface::is_commit(c)) {
                    Some(commit) => repo.clone().revision(commit)?,
                    None => repo.clone(),
                };
                for shard in index.files() {
                    self.file(&repo, shard)?;
                }
            }
            return Ok(path);
        }
        if let Some(e) = unreachable {
            return Err(e);
        }
        // All the same but for the name.
        let first = looked.map_or_else(String::new, |e| e.to_string());
        let why = format!("{repo} has none of {}: {first}", WEIGHTS.join(", "));
        Err(errors::io(ErrorKind::NotFound, "checkpoint", why, ""))
    }

    /// The tensors of a file, a folder, an address or a repository's weights, in this order of what `source` can be.
    ///
    /// ```
    /// # use torsh_hub::{Environment, Hub, LoadStateDict};
    /// # use torsh_serialize::{Value, save};
    /// # use torsh_tensor::tensor;
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-state-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("org/name"))?;
    /// # let endpoint = format!("file://{}", dir.display());
    /// # let hub = Hub::builder().environment(Environment::default()).endpoint(endpoint).build()?;
    /// let weights = Value::from([("fc.bias", Value::from(tensor![1.0]))]);
    /// save(&weights, dir.join("org/name/model.safetensors"))?;
    /// // The endpoint of this hub is the folder `dir`.
    /// assert_eq!(hub.load_state_dict("org/name", LoadStateDict::new())?["fc.bias"], tensor![1.0]);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`load_state_dict`](crate::load_state_dict) and [`Hub::checkpoint`].
    #[torsh_tensor::names_caller]
    pub fn load_state_dict(&self, source: &str, options: LoadStateDict) -> Result<StateDict> {
        load_state_dict_with(self.locate(source)?, options)
    }

    /// [`Hub::load_state_dict`] of the tensors that can be read, with a list of what was left out and why.
    ///
    /// # Errors
    /// As [`load_readable_state_dict`](crate::load_readable_state_dict) and [`Hub::checkpoint`].
    #[torsh_tensor::names_caller]
    pub fn load_readable_state_dict(
        &self,
        source: &str,
        options: LoadStateDict,
    ) -> Result<(StateDict, Vec<LeftOut>)> {
        load_readable_state_dict(self.locate(source)?, options)
    }

    /// The file or folder of a source, downloaded where it has to be.
    #[track_caller]
    pub(crate) fn locate(&self, source: &str) -> Result<PathBuf> {
        if source.contains("://") {
            return self.file_from_url(source, UrlOptions::new());
        }
        let path = Path::new(source);
        if path.exists() {
            return Ok(path.to_path_buf());
        }
        let names_file = is_path(source)
            || source.matches('/').count() > 1 && !source.starts_with("datasets/")
            || path.extension().is_some_and(|e| {
                ["safetensors", "pth", "pt", "bin", "npz", "json"]
                    .iter()
                    .any(|known| e == *known)
            });
        match Repo::parse(source) {
            Ok(repo) if !names_file => self.checkpoint(repo),
            _ => {
                let why = format!("there is no file or folder `{}`", errors::short(source));
                Err(errors::io(
                    ErrorKind::NotFound,
                    "load_state_dict",
                    why,
                    "a source is a path, an address, or a repository `org/name`",
                ))
            }
        }
    }

    /// The files in both caches, PyTorch's first.
    ///
    /// ```
    /// use torsh_hub::{Environment, Hub, Store};
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-cached-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("hub/checkpoints"))?;
    /// std::fs::write(dir.join("hub/checkpoints/net.pth"), "abc")?;
    /// let hub = Hub::builder().environment(Environment::default()).torch_home(&dir).build()?;
    /// let files = hub.cached()?;
    /// assert_eq!(files.len(), 1);
    /// assert_eq!((files[0].store, files[0].name.as_str()), (Store::Torch, "net.pth"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A folder that cannot be read.
    #[torsh_tensor::names_caller]
    pub fn cached(&self) -> Result<Vec<CachedFile>> {
        let mut out = Vec::new();
        if let Ok(home) = self.0.environment.torch_home() {
            out.extend(torch::list(&torch_cache::checkpoints(home))?);
        }
        if let Ok(dir) = self.cache_dir() {
            out.extend(huggingface::list(&dir)?);
        }
        Ok(out)
    }

    /// Removes a repository (`org/name`) or a file of PyTorch's cache, with what is left of their downloads; how many
    /// bytes that freed.
    ///
    /// ```
    /// use torsh_hub::{Environment, Hub};
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-remove-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("hub/checkpoints"))?;
    /// std::fs::write(dir.join("hub/checkpoints/net.pth"), "abc")?;
    /// let hub = Hub::builder().environment(Environment::default()).torch_home(&dir).build()?;
    /// assert_eq!(hub.remove_cached("net.pth")?, 3);
    /// assert!(hub.cached()?.is_empty());
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Nothing of this name, or files that cannot be removed.
    #[torsh_tensor::names_caller]
    pub fn remove_cached(&self, name: &str) -> Result<u64> {
        let found: Vec<CachedFile> = self
            .cached()?
            .into_iter()
            .filter(|file| match file.store {
                Store::Torch => file.name == name,
                Store::HuggingFace => file.repo.as_deref() == Some(name),
            })
            .collect();
        if found.is_empty() {
            let why = format!("`{}` is in none of the caches", errors::short(name));
            return Err(errors::io(
                ErrorKind::NotFound,
                "remove_cached",
                why,
                "Hub::cached() and `torsh hub list` name what is there",
            ));
        }
        let mut bytes = 0;
        for file in found.iter().filter(|file| file.store == Store::Torch) {
            bytes += cache::remove(&file.path)?;
            if let Some(name) = file.path.file_name() {
                let mut notes = name.to_os_string();
                notes.push(".json");
                cache::remove(&file.path.with_file_name(notes))?;
            }
        }
        if found.iter().any(|file| file.store == Store::HuggingFace) {
            let folders = self.folders(&Repo::parse(name)?)?;
            bytes += cache::remove(&folders.repo())?;
        }
        Ok(bytes)
    }
}

/// The names that any of the patterns matches.
fn matching(names: Vec<String>, patterns: &[&str]) -> Vec<String> {
    let wanted = |name: &String| {
        patterns.is_empty()
            || patterns
                .iter()
                .any(|p| matches(p.as_bytes(), name.as_bytes()))
    };
    names.into_iter().filter(wanted).collect()
}

/// Whether a name fits a pattern of `*` and `?`, as Python's `fnmatch`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and what it stood for so far.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*.safetensors", "model.safetensors", true),
            ("*.safetensors", "a/b.safetensors", true),
            ("*.safetensors", "model.safetensors.index.json", false),
            ("model-?????-of-*", "model-00001-of-00002.bin", true),
            ("config.json", "config.json", true),
            ("config.json", "configs.json", false),
            ("*", "", true),
            ("a*b*c", "axxbyybc", true),
            ("a*b*d", "axxbyybc", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                fits,
                "{pattern} {name}"
            );
        }
    }
}
