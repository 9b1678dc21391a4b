//! The settings of a hub.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use torsh_tensor::Result;

use super::{Hub, Inner};
use crate::download::Retry;
use crate::environment::{Environment, Token};
use crate::transport::Transport;
use crate::url::Url;

/// The settings of a [`Hub`]. What is not set is that of the process's environment.
///
/// ```
/// use std::path::Path;
/// use torsh_hub::Hub;
/// let hub = Hub::builder().torch_home("/data/torch").cache_dir("/data/models").build()?;
/// assert_eq!(hub.torch_dir()?, Path::new("/data/torch/hub"));
/// assert_eq!(hub.cache_dir()?, Path::new("/data/models"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build()"]
pub struct HubBuilder {
    environment: Environment,
    retry: Retry,
}

impl Default for HubBuilder {
    fn default() -> Self {
        HubBuilder {
            environment: Environment::from_process(),
            retry: Retry {
                times: 4,
                pause: Duration::from_millis(500),
            },
        }
    }
}

impl HubBuilder {
    /// All settings of an environment, in place of the process's.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The cache of repositories.
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.environment.hf_hub_cache = Some(folder.into());
        self
    }

    /// PyTorch's cache; checkpoints are in `hub/checkpoints` below it.
    pub fn torch_home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.environment.torch_home = Some(folder.into());
        self
    }

    /// The server of repositories, or a folder, `file:///..`.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.environment.endpoint = endpoint.into().trim_end_matches('/').to_string();
        self
    }

    /// Where files of addresses are looked for first: `mirror/host/path` and `mirror/name`.
    pub fn mirror(mut self, mirror: impl Into<String>) -> Self {
        self.environment.mirror = Some(mirror.into());
        self
    }

    /// Whether nothing is asked of any server.
    pub fn offline(mut self, offline: bool) -> Self {
        self.environment.offline = offline;
        self
    }

    /// The access token of the endpoint; `None` sends none.
    pub fn token(mut self, token: impl Into<Option<Token>>) -> Self {
        self.environment.token = token.into();
        self
    }

    /// Whether progress is shown.
    pub fn progress(mut self, progress: bool) -> Self {
        self.environment.progress = progress;
        self
    }

    /// How long a server may be silent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.environment.timeout = timeout;
        self
    }

    /// How often a request that failed is made again (4), and the pause before that (0.5 s), which doubles each time.
    pub fn retries(mut self, times: usize, pause: Duration) -> Self {
        self.retry = Retry { times, pause };
        self
    }

    /// The hub.
    ///
    /// ```
    /// use torsh_hub::Hub;
    /// let error = Hub::builder().endpoint("hub.example.org").build().unwrap_err().to_string();
    /// assert!(error.contains("`hub.example.org` is no address"));
    /// ```
    ///
    /// # Errors
    /// An endpoint or a mirror that is no address.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Hub> {
        let checked = |address: &str, name: &str| {
            Url::parse(address).map_err(|e| {
                e.with_hint(format!(
                    "{name} is an address, https://host or file:///folder"
                ))
            })
        };
        checked(&self.environment.endpoint, "HF_ENDPOINT")?;
        if let Some(mirror) = &self.environment.mirror {
            checked(mirror, "TORSH_HUB_MIRROR")?;
        }
        Ok(Hub(Arc::new(Inner {
            environment: self.environment,
            retry: self.retry,
            transport: Transport::default(),
        })))
    }
}
