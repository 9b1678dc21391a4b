//! Files of addresses in PyTorch's cache.

use std::path::{Path, PathBuf};

use torsh_nn::StateDict;
use torsh_serialize::torch_cache;
use torsh_tensor::{Device, Result, TorshError};

use crate::checkpoint::{LoadStateDict, load_state_dict_with};
use crate::checksum::Checksum;
use crate::download::{Cancel, DownloadOptions, Job, offline, part_of};
use crate::hub::Hub;
use crate::url::Url;

/// The arguments of [`load_state_dict_from_url`](crate::load_state_dict_from_url), as PyTorch names them.
///
/// ```
/// use torsh_hub::UrlOptions;
/// let options = UrlOptions::new().model_dir("weights").file_name("resnet.pth").progress(false);
/// assert_eq!(options.file_name.as_deref(), Some("resnet.pth"));
/// assert!(options.check_hash);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UrlOptions {
    /// The folder of the file (`$TORCH_HOME/hub/checkpoints`).
    pub model_dir: Option<PathBuf>,
    /// The file's name there (that of the address).
    pub file_name: Option<String>,
    /// Whether a hash in the file's name, `name-<hash>.ext`, is checked after the download (`true`; PyTorch's default is
    /// `false`).
    pub check_hash: bool,
    /// The checksum of the file, in place of the one in its name.
    pub checksum: Option<Checksum>,
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// Whether the progress is shown; else the environment decides.
    pub progress: Option<bool>,
    /// Where the tensors shall be (the CPU).
    pub map_location: Device,
    /// What cancels the download.
    pub cancel: Option<Cancel>,
}

impl Default for UrlOptions {
    fn default() -> Self {
        UrlOptions {
            model_dir: None,
            file_name: None,
            check_hash: true,
            checksum: None,
            size: None,
            progress: None,
            map_location: Device::Cpu,
            cancel: None,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $ty:ty => |$v:ident| $e:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $ty) -> Self {
            let $v = $field;
            self.$field = $e;
            self
        }
    )*};
}

impl UrlOptions {
    /// PyTorch's defaults, but hashes in names are checked.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// The folder of the file.
        model_dir: impl Into<PathBuf> => |v| Some(v.into());
        /// The file's name there.
        file_name: impl Into<String> => |v| Some(v.into());
        /// Whether a hash in the file's name is checked.
        check_hash: bool => |v| v;
        /// The checksum of the file.
        checksum: impl Into<Option<Checksum>> => |v| v.into();
        /// The size of the file in bytes.
        size: u64 => |v| Some(v);
        /// Whether the progress is shown.
        progress: bool => |v| Some(v);
        /// Where the tensors shall be.
        map_location: impl Into<Device> => |v| v.into();
        /// What cancels the download.
        cancel: Cancel => |v| Some(v);
    }
}

impl Hub {
    /// [`download_url_to_file`](crate::download_url_to_file) with the settings of this hub.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller]
    pub fn download_url_to_file(
        &self,
        url: &str,
        to: impl AsRef<Path>,
        options: DownloadOptions,
    ) -> Result<()> {
        let url = Url::parse(url)?;
        self.fetch("download_url_to_file", &url, to.as_ref(), &options)
    }

    /// Downloads from the mirror where it has the file, else from the address.
    fn fetch(
        &self,
        op: &'static str,
        url: &Url,
        to: &Path,
        options: &DownloadOptions,
    ) -> Result<()> {
        let client = self.client();
        let download = |url: &Url| {
            client.download(&Job {
                op,
                url,
                to,
                part: part_of(to),
                options,
            })
        };
        if !url.is_file() {
            for mirror in self.mirrors(url)? {
                // A folder that lacks the file, or a mirror that fails, is passed over; a file with another hash is not.
                if mirror.to_path().is_some_and(|path| !path.is_file()) {
                    continue;
                }
                match download(&mirror) {
                    Err(TorshError::Io(e)) if e.kind() != std::io::ErrorKind::Interrupted => {}
                    done => return done,
                }
            }
        }
        download(url)
    }

    /// Where the mirror may have the file of an address: under host and path, or under its name.
    fn mirrors(&self, url: &Url) -> Result<Vec<Url>> {
        let Some(mirror) = &self.environment().mirror else {
            return Ok(Vec::new());
        };
        let mirror = Url::parse(mirror)?;
        let mut out = Vec::new();
        if let Some(path) = url.inner_path() {
            out.push(mirror.below(&format!("{}/{path}", url.host))?);
        }
        if let Some(name) = url.file_name() {
            out.push(mirror.below(&name)?);
        }
        Ok(out)
    }

    /// [`file_from_url`](crate::file_from_url) with the settings of this hub.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller]
    pub fn file_from_url(&self, url: &str, options: UrlOptions) -> Result<PathBuf> {
        const OP: &str = "load_state_dict_from_url";
        let url = Url::parse(url)?;
        let name = options
            .file_name
            .clone()
            .or_else(|| url.file_name())
            .ok_or_else(|| {
                TorshError::invalid(
                    OP,
                    format!("{} does not end with the name of a file", url.shown()),
                )
                .with_hint("UrlOptions::new().file_name(..) gives it one")
            })?;
        if Path::new(&name).components().count() != 1 || name.contains(['/', '\\']) || name == ".."
        {
            return Err(TorshError::invalid(
                OP,
                format!("`{name}` is no name of a file in a folder"),
            ));
        }
        let folder = match &options.model_dir {
            Some(folder) => folder.clone(),
            None => torch_cache::checkpoints(self.environment().torch_home()?),
        };
        let path = folder.join(&name);
        if path.is_file() {
            return Ok(path);
        }
        let mirrored = self
            .environment()
            .mirror
            .as_deref()
            .is_some_and(|m| m.starts_with("file:"));
        if self.environment().offline && !url.is_file() && !mirrored {
            return Err(offline(OP, &url, &[path]));
        }
        let of_name = Checksum::in_file_name(&name).filter(|_| options.check_hash);
        let download = DownloadOptions {
            checksum: options.checksum.clone().or(of_name),
            size: options.size,
            progress: options.progress,
            cancel: options.cancel.clone(),
        };
        self.fetch(OP, &url, &path, &download)?;
        Ok(path)
    }

    /// [`load_state_dict_from_url`](crate::load_state_dict_from_url) with the settings of this hub.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller]
    pub fn load_state_dict_from_url(&self, url: &str, options: UrlOptions) -> Result<StateDict> {
        let load = LoadStateDict::new().map_location(options.map_location);
        load_state_dict_with(self.file_from_url(url, options)?, load)
    }
}
