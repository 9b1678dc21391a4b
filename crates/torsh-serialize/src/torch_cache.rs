//! The folder in which PyTorch keeps the checkpoints that it downloads, and what their names say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// PyTorch's folder for downloads: `TORCH_HOME`, else `torch` in `XDG_CACHE_HOME` or in `~/.cache`; `None` where no variable
/// says where. `lookup` gives the variables, with the home in `HOME` or `USERPROFILE`; empty ones count as not set.
///
/// ```
/// use std::path::Path;
/// use torsh_serialize::torch_cache;
/// let with = |set: &'static str| move |name: &str| match name {
///     "HOME" => Some("/home/ada".into()),
///     "TORCH_HOME" => Some(set.into()),
///     _ => None,
/// };
/// assert_eq!(torch_cache::home(with("")).as_deref(), Some(Path::new("/home/ada/.cache/torch")));
/// assert_eq!(torch_cache::home(with("~/models")).as_deref(), Some(Path::new("/home/ada/models")));
/// assert_eq!(torch_cache::home(|_| None), None);
/// ```
pub fn home(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let get = |name: &str| {
        let value = lookup(name).filter(|value| !value.to_string_lossy().trim().is_empty());
        value.map(PathBuf::from)
    };
    let user = get("HOME").or_else(|| get("USERPROFILE"));
    // As Python's `expanduser` does it.
    let expanded = |path: PathBuf| match (path.strip_prefix("~"), &user) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path,
    };
    get("TORCH_HOME").map(expanded).or_else(|| {
        let cache = get("XDG_CACHE_HOME").map(expanded);
        let cache = cache.or_else(|| Some(user.as_ref()?.join(".cache")));
        cache.map(|cache| cache.join("torch"))
    })
}

/// Where checkpoints are in PyTorch's folder for downloads.
///
/// ```
/// use std::path::Path;
/// use torsh_serialize::torch_cache;
/// let checkpoints = torch_cache::checkpoints(Path::new("/home/ada/.cache/torch"));
/// assert_eq!(checkpoints, Path::new("/home/ada/.cache/torch/hub/checkpoints"));
/// ```
pub fn checkpoints(home: &Path) -> PathBuf {
    home.join("hub").join("checkpoints")
}

/// The start of the file's SHA-256 in its name, 8 to 64 hexadecimal digits between the last `-` and a dot. A day, as in
/// `model-20240131.pth`, is none.
///
/// ```
/// use torsh_serialize::torch_cache::hash_in_file_name;
/// assert_eq!(hash_in_file_name("resnet18-f37072fd.pth"), Some("f37072fd"));
/// assert_eq!(hash_in_file_name("model-20240131.pth"), None);
/// assert_eq!(hash_in_file_name("model-large.pth"), None);
/// ```
pub fn hash_in_file_name(name: &str) -> Option<&str> {
    let (_, rest) = name.rsplit_once('-')?;
    let (digits, _) = rest.split_once('.')?;
    let hash = (8..=64).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    (hash && !is_day(digits)).then_some(digits)
}

/// Whether these hexadecimal digits are a day of our time, year first.
fn is_day(digits: &str) -> bool {
    let number = |range| digits.get(range).and_then(|part: &str| part.parse().ok());
    digits.len() == 8
        && matches!(number(0..2), Some(19 | 20))
        && matches!(number(4..6), Some(1..=12))
        && matches!(number(6..8), Some(1..=31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for (name, hash) in [
            ("raft_large_C_T_V2-1bb1363a.pth", Some("1bb1363a")),
            ("a-B0CDEF12.tar.gz", Some("B0CDEF12")),
            ("a-1234567.pth", None),
            ("a-f37072fd", None),
            ("model", None),
            ("a-1999123é.pth", None),
            ("a-20011399.pth", Some("20011399")),
        ] {
            assert_eq!(hash_in_file_name(name), hash, "{name}");
        }
    }

    #[test]
    fn folders() {
        let of = |variables: &[(&str, &str)]| {
            home(|name| {
                let found = variables.iter().find(|(n, _)| *n == name);
                found.map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "~/caches")]),
            Some("/h/caches/torch".into())
        );
        assert_eq!(of(&[("USERPROFILE", "/u")]), Some("/u/.cache/torch".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", " ")]), None);
    }
}
