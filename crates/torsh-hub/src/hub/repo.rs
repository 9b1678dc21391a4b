//! Names of repositories and of their files.

use std::fmt;

use torsh_tensor::{Result, TorshError};

use crate::checkpoint::is_inner;
use crate::errors::short;

/// What a repository holds; the start of its name says it, without one it is a model.
///
/// ```
/// use torsh_hub::{Repo, RepoKind};
/// assert_eq!(Repo::parse("org/name")?.kind(), RepoKind::Model);
/// assert_eq!(Repo::parse("datasets/org/name")?.kind(), RepoKind::Dataset);
/// assert_eq!(Repo::parse("spaces/org/name")?.kind(), RepoKind::Space);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RepoKind {
    /// A model.
    Model,
    /// A data set.
    Dataset,
    /// An application.
    Space,
}

/// A repository at a revision.
///
/// ```
/// use torsh_hub::{Repo, RepoKind};
///
/// let repo = Repo::parse("datasets/org/name@v1.0")?;
/// assert_eq!((repo.kind(), repo.name(), repo.revision_name()), (RepoKind::Dataset, "org/name", "v1.0"));
/// assert_eq!(Repo::parse("bert-base-uncased")?.revision_name(), "main");
/// assert!(Repo::parse("../secrets").is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repo {
    kind: RepoKind,
    name: String,
    revision: String,
}

impl Repo {
    /// The repository that a text names: `org/name`, `name`, `datasets/org/name` or `spaces/org/name`, all with or without
    /// `@revision`.
    ///
    /// ```
    /// use torsh_hub::Repo;
    /// let repo = Repo::parse("org/name@v2")?;
    /// assert_eq!((repo.name(), repo.revision_name()), ("org/name", "v2"));
    /// let error = Repo::parse("a/b/c").unwrap_err().to_string();
    /// assert!(error.contains("`a/b/c` is no name of a repository"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What is no name of a repository.
    #[torsh_tensor::names_caller(Self)]
    pub fn parse(text: &str) -> Result<Repo> {
        let (path, revision) = match text.split_once('@') {
            Some((path, revision)) => (path, revision),
            None => (text, "main"),
        };
        let (kind, name) = if let Some(name) = path.strip_prefix("datasets/") {
            (RepoKind::Dataset, name)
        } else if let Some(name) = path.strip_prefix("spaces/") {
            (RepoKind::Space, name)
        } else {
            (RepoKind::Model, path)
        };
        let part = |part: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
            part.bytes().all(plain)
                && !part.is_empty()
                && part.len() <= 96
                && !part.starts_with(['.', '-'])
                && !part.ends_with(['.', '-'])
                && !part.contains("--")
                && !part.contains("..")
        };
        if name.matches('/').count() > 1 || !name.split('/').all(part) {
            let why = format!("`{}` is no name of a repository", short(text));
            return Err(TorshError::invalid("hub", why)
                .with_hint("names are `org/name` or `org/name@revision`"));
        }
        let repo = Repo {
            kind,
            name: name.to_string(),
            revision: String::new(),
        };
        repo.revision(revision)
    }

    /// The same repository at another revision: a branch, a tag or a commit.
    ///
    /// ```
    /// use torsh_hub::Repo;
    /// let repo = Repo::parse("org/name")?.revision("refs/pr/3")?;
    /// assert_eq!(repo.to_string(), "org/name@refs/pr/3");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What is no name of a revision.
    #[torsh_tensor::names_caller]
    pub fn revision(mut self, revision: &str) -> Result<Repo> {
        if !is_inner(revision) || revision.contains([' ', '?', '*', '~', '^', '[']) {
            let why = format!("`{}` is no revision", short(revision));
            return Err(TorshError::invalid("hub", why)
                .with_hint("a revision is a branch, a tag or a commit"));
        }
        self.revision = revision.to_string();
        Ok(self)
    }

    /// What it holds.
    pub fn kind(&self) -> RepoKind {
        self.kind
    }

    /// Its name, as `org/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its revision.
    pub fn revision_name(&self) -> &str {
        &self.revision
    }

    /// Its path in addresses of files.
    pub(crate) fn path(&self) -> String {
        match self.kind {
            RepoKind::Model => self.name.clone(),
            RepoKind::Dataset => format!("datasets/{}", self.name),
            RepoKind::Space => format!("spaces/{}", self.name),
        }
    }

    /// Its path in addresses of the interface.
    pub(crate) fn api(&self) -> String {
        match self.kind {
            RepoKind::Model => format!("api/models/{}", self.name),
            RepoKind::Dataset => format!("api/datasets/{}", self.name),
            RepoKind::Space => format!("api/spaces/{}", self.name),
        }
    }
}

/// `datasets/org/name@main`
impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.path(), self.revision)
    }
}

/// What names a repository: a text as [`Repo::parse`] reads it, or a [`Repo`].
///
/// ```
/// use torsh_hub::{IntoRepo, Repo};
/// assert_eq!("org/name@v2".into_repo()?, Repo::parse("org/name")?.revision("v2")?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait IntoRepo {
    /// The repository.
    ///
    /// # Errors
    /// What is no name of one.
    fn into_repo(self) -> Result<Repo>;
}

impl IntoRepo for Repo {
    fn into_repo(self) -> Result<Repo> {
        Ok(self)
    }
}

impl IntoRepo for &Repo {
    fn into_repo(self) -> Result<Repo> {
        Ok(self.clone())
    }
}

impl IntoRepo for &str {
    #[track_caller]
    fn into_repo(self) -> Result<Repo> {
        Repo::parse(self)
    }
}

impl IntoRepo for &String {
    #[track_caller]
    fn into_repo(self) -> Result<Repo> {
        Repo::parse(self)
    }
}

impl IntoRepo for String {
    #[track_caller]
    fn into_repo(self) -> Result<Repo> {
        Repo::parse(&self)
    }
}

/// An error for what is no path of a file in a repository.
#[track_caller]
pub(crate) fn check_file(file: &str) -> Result<()> {
    if is_inner(file) {
        return Ok(());
    }
    let why = format!("`{}` is no path of a file in a repository", short(file));
    Err(TorshError::invalid("hub", why)
        .with_hint("a path is relative, with `/` between its parts and without `..`"))
}
