//! The folder in which PyTorch keeps the checkpoints that it downloads, and what their names say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// PyTorch's folder for downloads: `TORCH_HOME`, else `torch` in `XDG_CACHE_HOME` or in `~/.cache`, on all systems; `None`
/// where no variable says where. `lookup` gives the variables, among them those of [`user_folder`]; empty ones count as not
/// set.
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
    let get = |name: &str| set(&lookup, name).map(PathBuf::from);
    let user = user_folder(&lookup);
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

/// The folder of the user, `~`: `HOME`, on Windows `USERPROFILE`, else `HOMEDRIVE` with `HOMEPATH`, as Python has it, so that
/// caches are shared. Windows has no `HOME` of its own: programs that come from Unix set it, and it is the last that counts.
///
/// ```
/// use std::path::Path;
/// use torsh_serialize::torch_cache::user_folder;
/// let user = user_folder(|name| (name == "HOME").then(|| "/home/ada".into()));
/// assert_eq!(user.as_deref(), Some(Path::new("/home/ada")));
/// ```
pub fn user_folder(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    user_folder_on(cfg!(windows), &lookup)
}

fn user_folder_on(windows: bool, lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let get = |name: &str| set(&lookup, name);
    let profile = || get("USERPROFILE");
    let drive_and_path = || {
        let path = get("HOMEPATH")?;
        let mut all = get("HOMEDRIVE").unwrap_or_default();
        all.push(path);
        Some(all)
    };
    let user = match windows {
        true => profile().or_else(drive_and_path).or_else(|| get("HOME")),
        false => get("HOME").or_else(profile),
    };
    user.map(PathBuf::from)
}

/// A variable that is not empty.
fn set(lookup: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    lookup(name).filter(|value| !value.to_string_lossy().trim().is_empty())
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

    #[test]
    fn folders_of_users() {
        let of = |windows, variables: &[(&str, &str)]| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(n, _)| *n == name);
                found.map(|(_, value)| OsString::from(value))
            };
            let folder = user_folder_on(windows, &lookup);
            folder.map(|f| f.to_str().map(String::from).unwrap_or_default())
        };
        let all = [
            ("HOME", "/c/Users/ada"),
            ("USERPROFILE", r"C:\Users\ada"),
            ("HOMEDRIVE", "H:"),
            ("HOMEPATH", r"\ada"),
        ];
        assert_eq!(of(true, &all).as_deref(), Some(r"C:\Users\ada"));
        assert_eq!(of(false, &all).as_deref(), Some("/c/Users/ada"));
        assert_eq!(of(true, &all[2..]).as_deref(), Some(r"H:\ada"));
        assert_eq!(of(true, &all[3..]).as_deref(), Some(r"\ada"));
        assert_eq!(of(true, &all[..1]).as_deref(), Some("/c/Users/ada"));
        assert_eq!(of(false, &all[1..]).as_deref(), Some(r"C:\Users\ada"));
        assert_eq!(of(true, &[("USERPROFILE", " "), ("HOMEDRIVE", "C:")]), None);
    }
}
