//! Files of addresses: pretrained weights and data sets. All of them come through here.

use std::path::{Path, PathBuf};

#[cfg(not(feature = "hub"))]
use torsh_serialize::torch_cache;
use torsh_tensor::Result;

/// What an address ends with, without its query.
pub(crate) fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(any(test, not(feature = "hub")))]
fn not_there(why: String) -> torsh_tensor::TorshError {
    std::io::Error::new(std::io::ErrorKind::NotFound, why).into()
}

/// The file of an address in the folder of checkpoints, if it is there.
#[cfg(any(test, not(feature = "hub")))]
#[track_caller]
fn find(url: &str, folder: Option<PathBuf>) -> Result<PathBuf> {
    let name = file_name(url);
    let missing = |place: String| {
        not_there(format!(
            "{name} is not there: {place}; the feature `hub` downloads it from {url}"
        ))
    };
    let Some(folder) = folder else {
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
        let home = torch_cache::home(|name| match name {
            "HOME" => std::env::home_dir().map(Into::into),
            name => std::env::var_os(name),
        });
        find(url, home.as_deref().map(torch_cache::checkpoints))
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
    }

    #[test]
    fn the_cache_of_pytorch() {
        let folder =
            std::env::temp_dir().join(format!("torsh-vision-cache-{}", std::process::id()));
        let url = "https://download.pytorch.org/models/resnet18-f37072fd.pth";
        let error = find(url, Some(folder.clone())).unwrap_err().to_string();
        assert!(error.contains("resnet18-f37072fd.pth"), "{error}");
        assert!(error.contains(&folder.display().to_string()), "{error}");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("resnet18-f37072fd.pth"), b"x").unwrap();
        assert_eq!(
            find(url, Some(folder.clone())).unwrap(),
            folder.join("resnet18-f37072fd.pth")
        );
        let error = find(url, None).unwrap_err().to_string();
        assert!(error.contains("TORCH_HOME"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
