//! Files of addresses in PyTorch's cache.

use std::path::{Path, PathBuf};

use torsh_nn::StateDict;
use torsh_serialize::torch_cache;
use torsh_tensor::{Result, TorshError};

use crate::checkpoint::{LoadStateDict, load_state_dict_with};
use crate::checksum::Checksum;
use crate::download::{DownloadOptions, Job, offline, part_of};
use crate::hub::Hub;
use crate::url::Url;
use crate::url_options::UrlOptions;

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
        if Path::new(&name).components().count() != 1
            || name.contains(['/', '\\'])
            || name == ".."
            || cfg!(windows) && !torsh_serialize::files::is_windows_name(&name)
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
