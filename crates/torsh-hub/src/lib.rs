//! Weights and other files of models: where they are, how they come here, how they are checked and loaded.
//!
//! * [`load_state_dict_from_url`] and [`download_url_to_file`] fetch a file by its address, as `torch.hub` does, into
//!   PyTorch's cache (`$TORCH_HOME/hub/checkpoints`).
//! * [`Hub`] fetches files of repositories such as `org/name` from the Hugging Face Hub or a mirror of it, into the
//!   cache that Python's libraries use (`$HF_HOME/hub`).
//! * [`load_state_dict`] reads checkpoints: safetensors, `.pth` in both containers, `.npz`, lists of shards, TorchScript
//!   archives. Loading never runs code of a file.
//! * [`from_pretrained`] makes a model of a folder or a repository, [`Pretrained::save_pretrained`] writes such a folder.
//! * [`load`], [`list`] and [`help`] are `torch.hub`'s functions for the models that are registered by name.
//!
//! What Python has fetched is found, and Python finds what was fetched here. [`Environment`] lists the variables that
//! say where.
//!
//! ```
//! use torsh_hub::{Checksum, DownloadOptions, download_url_to_file};
//!
//! # let dir = std::env::temp_dir().join(format!("torsh-hub-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! std::fs::write(dir.join("labels.txt"), "cat\ndog\n")?;
//! // Any address of http, https or a file.
//! let url = format!("file://{}", dir.join("labels.txt").display());
//! let checksum = Checksum::sha256("2f0e9bc5ae7b5c0a9e6b2f1f")?;
//! let options = DownloadOptions::new().checksum(checksum);
//! // The hash is another: nothing is left under the name that was asked for.
//! assert!(download_url_to_file(&url, dir.join("copy.txt"), options).is_err());
//! assert!(!dir.join("copy.txt").exists());
//!
//! download_url_to_file(&url, dir.join("copy.txt"), DownloadOptions::new().size(8))?;
//! assert_eq!(std::fs::read_to_string(dir.join("copy.txt"))?, "cat\ndog\n");
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
#![forbid(unsafe_code)]

mod cache;
mod cancel;
mod checkpoint;
mod checksum;
mod download;
mod environment;
mod errors;
mod hub;
mod pretrained;
mod registry;
mod transport;
mod url;
mod url_options;
mod weights;

use std::path::{Path, PathBuf};

use torsh_nn::StateDict;
use torsh_tensor::Result;

pub use cache::{CachedFile, State, Store};
pub use cancel::Cancel;
pub use checkpoint::{
    LoadStateDict, load_readable_state_dict, load_state_dict, load_state_dict_with,
};
pub use checksum::{Checksum, sha256_file};
pub use download::DownloadOptions;
pub use environment::{Environment, Secret, Token};
pub use hub::{Hub, HubBuilder, IntoRepo, Repo, RepoKind};
pub use pretrained::{
    FromPretrained, HubModel, NewHead, Pretrained, PretrainedOptions, SaveOptions, complete,
    from_pretrained_with, with_left_out,
};
pub use registry::{ModelOptions, help, list, load, load_with};
pub use url_options::UrlOptions;

/// Downloads a file (`torch.hub.download_url_to_file`): to a file beside `to`, which takes that name when all of it is
/// there and its size and checksum are right. [`Hub::download_url_to_file`] with the settings of the process.
///
/// * A download that broke off, also of another process, goes on where it ended, if the server says that the file is
///   still the same.
/// * Errors that may pass (timeouts, a connection that breaks, the statuses 408, 429 and 500 to 504) are tried again,
///   after pauses that grow or that the server asks for.
/// * Two threads or processes that want the same file: one downloads, the other waits for it.
/// * A file that is at `to` already and has the checksum that was asked for is kept. Without a checksum it is replaced.
///
/// `url` is `https://..`, `http://..` or `file:///..`, which is copied.
///
/// ```
/// use torsh_hub::{DownloadOptions, download_url_to_file};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-download-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("a.txt"), "abc")?;
/// let (url, to) = (format!("file://{}", dir.join("a.txt").display()), dir.join("b.txt"));
/// let error = download_url_to_file(&url, &to, DownloadOptions::new().size(4)).unwrap_err();
/// assert!(error.to_string().contains("has 3 bytes, not 4") && !to.exists());
/// download_url_to_file(&url, &to, DownloadOptions::new())?;
/// assert_eq!(std::fs::read_to_string(&to)?, "abc");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// * A status of the server such as 404; a server that cannot be reached; a download that was cancelled (the error is of
///   the kind [`Interrupted`](std::io::ErrorKind::Interrupted)).
/// * A size or checksum that is not the one asked for. The file is kept aside with `.bad` at the end of its name.
/// * A file that cannot be written.
/// * No network allowed (`HF_HUB_OFFLINE=1`).
#[torsh_tensor::names_caller]
pub fn download_url_to_file(
    url: &str,
    to: impl AsRef<Path>,
    options: DownloadOptions,
) -> Result<()> {
    Hub::shared()?.download_url_to_file(url, to, options)
}

/// The file of an address in PyTorch's cache (`$TORCH_HOME/hub/checkpoints`), which is downloaded where it is not there
/// yet. [`Hub::file_from_url`] with the settings of the process.
///
/// ```
/// use torsh_hub::{UrlOptions, file_from_url};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-from-url-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("net.pth"), "abc")?;
/// let url = format!("file://{}", dir.join("net.pth").display());
/// let file = file_from_url(&url, UrlOptions::new().model_dir(dir.join("cache")))?;
/// assert_eq!(file, dir.join("cache/net.pth"));
/// assert_eq!(std::fs::read_to_string(&file)?, "abc");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`download_url_to_file`]. An offline process that lacks the file learns where it was looked for.
#[torsh_tensor::names_caller]
pub fn file_from_url(url: &str, options: UrlOptions) -> Result<PathBuf> {
    Hub::shared()?.file_from_url(url, options)
}

/// The tensors of the checkpoint at an address (`torch.hub.load_state_dict_from_url`), from PyTorch's cache where it is
/// there, else downloaded into it. [`Hub::load_state_dict_from_url`] with the settings of the process.
///
/// A hash in the file's name, as in `resnet18-f37072fd.pth`, is the start of its SHA-256 and is checked when the file is
/// downloaded. [`UrlOptions`] has PyTorch's other arguments.
///
/// ```
/// use torsh_hub::{UrlOptions, load_state_dict_from_url};
/// use torsh_serialize::{Value, save};
/// use torsh_tensor::tensor;
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-state-from-url-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// save(&Value::from([("fc.bias", Value::from(tensor![1.0, 2.0]))]), dir.join("net.pth"))?;
/// let url = format!("file://{}", dir.join("net.pth").display()); // or https://..
/// let state = load_state_dict_from_url(&url, UrlOptions::new().model_dir(dir.join("cache")))?;
/// assert_eq!(state["fc.bias"], tensor![1.0, 2.0]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`file_from_url`] and [`load_state_dict`].
#[torsh_tensor::names_caller]
pub fn load_state_dict_from_url(url: &str, options: UrlOptions) -> Result<StateDict> {
    Hub::shared()?.load_state_dict_from_url(url, options)
}

/// A model from a folder or a repository, `org/name` or `org/name@revision`: its `config.json` names the architecture,
/// which the registry makes, and its weights are loaded. [`from_pretrained_with`] with the settings of the process.
///
/// ```
/// use torsh_hub::{ModelOptions, from_pretrained, load_with};
/// use torsh_nn::ModuleExt;
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-from-pretrained-{}", std::process::id()));
/// let options = ModelOptions::new().set("input_size", 4).set("num_classes", 3);
/// load_with("linear", options)?.save_pretrained(&dir)?;
/// let model = from_pretrained(dir.display().to_string())?; // or "org/name"
/// assert_eq!(model.config()["architecture"], "linear");
/// assert_eq!(model.num_parameters(), 4 * 3 + 3);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No such folder or repository, a configuration without an architecture that is registered, weights that do not fit.
#[torsh_tensor::names_caller]
pub fn from_pretrained(source: impl AsRef<str>) -> Result<HubModel> {
    from_pretrained_with(source, &Hub::shared()?)
}

/// PyTorch's folder for downloads, `$TORCH_HOME/hub` (`torch.hub.get_dir`).
///
/// ```
/// use std::path::Path;
/// use torsh_hub::{Hub, get_dir};
/// Hub::set_shared(Hub::builder().torch_home("/data/torch").build()?);
/// assert_eq!(get_dir()?, Path::new("/data/torch/hub"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No folder is known: neither `TORCH_HOME`, `XDG_CACHE_HOME` nor `HOME` is set.
#[torsh_tensor::names_caller]
pub fn get_dir() -> Result<PathBuf> {
    Hub::shared()?.torch_dir()
}
