//! Files of addresses: pretrained weights and data sets. All of them come through here.

use std::path::{Path, PathBuf};

use torsh_tensor::{Result, TorshError};

/// What an address ends with, without its query.
pub(crate) fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

/// The hexadecimal digits ahead of the ending, as `f37072fd` of `resnet18-f37072fd.pth`.
pub(crate) fn hash_in_name(name: &str) -> Option<&str> {
    let (start, _) = name.rsplit_once('.')?;
    let (_, hash) = start.rsplit_once('-')?;
    let digits = hash.len() >= 8 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then_some(hash)
}

fn not_there(why: String) -> TorshError {
    std::io::Error::new(std::io::ErrorKind::NotFound, why).into()
}

/// Where PyTorch keeps what it downloads. With the feature `hub` the hub knows.
#[cfg_attr(
    feature = "hub",
    allow(dead_code, reason = "the hub looks into the cache itself")
)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    /// `TORCH_HOME`
    torch_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`
    cache_home: Option<PathBuf>,
    home: Option<PathBuf>,
}

#[cfg_attr(
    feature = "hub",
    allow(dead_code, reason = "the hub looks into the cache itself")
)]
impl Cache {
    /// As the variables of this process say.
    fn of_process() -> Cache {
        let variable = |name| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        Cache {
            torch_home: variable("TORCH_HOME"),
            cache_home: variable("XDG_CACHE_HOME"),
            home: std::env::home_dir(),
        }
    }

    /// The folder of checkpoints; `None` where nobody has a home.
    fn checkpoints(&self) -> Option<PathBuf> {
        let torch = self.torch_home.clone().or_else(|| {
            let cache = self.cache_home.clone();
            let cache = cache.or_else(|| Some(self.home.as_ref()?.join(".cache")));
            cache.map(|cache| cache.join("torch"))
        })?;
        // As Python's `expanduser` does it.
        let torch = match (torch.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => torch,
        };
        Some(torch.join("hub").join("checkpoints"))
    }

    /// The file of an address in the cache, if it is there.
    #[track_caller]
    fn find(&self, url: &str) -> Result<PathBuf> {
        let name = file_name(url);
        let missing = |place: String| {
            not_there(format!(
                "{name} is not there: {place}; the feature `hub` downloads it from {url}"
            ))
        };
        let Some(folder) = self.checkpoints() else {
            return Err(missing(
                "there is no folder for it, as neither TORCH_HOME, XDG_CACHE_HOME nor HOME is set"
                    .into(),
            ));
        };
        let path = folder.join(name);
        match !name.is_empty() && path.is_file() {
            true => Ok(path),
            false => Err(missing(format!(
                "it was looked for in {}",
                folder.display()
            ))),
        }
    }
}

/// The file of an address in PyTorch's cache, which the feature `hub` downloads into it.
///
/// # Errors
/// It is not there, and cannot be downloaded.
#[track_caller]
pub(crate) fn fetch(url: &str, sha256_prefix: Option<&str>) -> Result<PathBuf> {
    #[cfg(feature = "hub")]
    {
        let checksum = sha256_prefix.map(torsh_hub::Checksum::sha256).transpose()?;
        torsh_hub::file_from_url(url, torsh_hub::UrlOptions::new().checksum(checksum))
    }
    #[cfg(not(feature = "hub"))]
    {
        let _ = sha256_prefix;
        Cache::of_process().find(url)
    }
}

/// Puts the file of an address at a path, unless it is there.
///
/// # Errors
/// It is not there, and cannot be downloaded.
#[track_caller]
pub(crate) fn download(url: &str, to: &Path, md5: &str) -> Result<()> {
    if to.is_file() {
        return Ok(());
    }
    #[cfg(feature = "hub")]
    {
        let checksum = match md5.is_empty() {
            true => None,
            false => Some(torsh_hub::Checksum::md5(md5)?),
        };
        let options = torsh_hub::DownloadOptions::new().checksum(checksum);
        torsh_hub::download_url_to_file(url, to, options)
    }
    #[cfg(not(feature = "hub"))]
    {
        let _ = md5;
        Err(not_there(format!(
            "{} is not there; the feature `hub` downloads it from {url}",
            to.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses() {
        assert_eq!(
            file_name("https://h/a/resnet18-f37072fd.pth?x=1/2"),
            "resnet18-f37072fd.pth"
        );
        assert_eq!(hash_in_name("resnet18-f37072fd.pth"), Some("f37072fd"));
        assert_eq!(
            hash_in_name("raft_large_C_T_V2-1bb1363a.pth"),
            Some("1bb1363a")
        );
        assert_eq!(hash_in_name("model-large.pth"), None);
        assert_eq!(hash_in_name("model"), None);
    }

    #[test]
    fn the_cache_of_pytorch() {
        let path = |text: &str| Some(PathBuf::from(text));
        let mut cache = Cache {
            torch_home: None,
            cache_home: None,
            home: path("/home/a"),
        };
        assert_eq!(
            cache.checkpoints(),
            path("/home/a/.cache/torch/hub/checkpoints")
        );
        cache.cache_home = path("/caches");
        assert_eq!(cache.checkpoints(), path("/caches/torch/hub/checkpoints"));
        cache.torch_home = path("~/models");
        assert_eq!(cache.checkpoints(), path("/home/a/models/hub/checkpoints"));
        assert_eq!(Cache::default().checkpoints(), None);

        let root = std::env::temp_dir().join(format!("torsh-vision-cache-{}", std::process::id()));
        cache.torch_home = Some(root.clone());
        let url = "https://download.pytorch.org/models/resnet18-f37072fd.pth";
        let error = cache.find(url).unwrap_err().to_string();
        let folder = root.join("hub").join("checkpoints");
        assert!(error.contains("resnet18-f37072fd.pth"), "{error}");
        assert!(error.contains(&folder.display().to_string()), "{error}");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("resnet18-f37072fd.pth"), b"x").unwrap();
        assert_eq!(
            cache.find(url).unwrap(),
            folder.join("resnet18-f37072fd.pth")
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}
