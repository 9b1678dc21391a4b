//! The variables of the process that say where files are and come from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use torsh_serialize::torch_cache;
use torsh_tensor::{Result, TorshError};

use crate::url::Url;

/// An access token, which no message, log or `Debug` shows.
///
/// ```
/// use torsh_hub::Token;
/// assert_eq!(format!("{:?}", Token::new("hf_secret")), "Token(..)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Of its text.
    pub fn new(text: impl Into<String>) -> Token {
        Token(text.into())
    }

    /// The header's value; `None` where the text cannot be one.
    pub(crate) fn header(&self) -> Option<String> {
        let plain = !self.0.is_empty() && self.0.bytes().all(|b| b.is_ascii_graphic());
        plain.then(|| format!("Bearer {}", self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where files are and come from: what Python's libraries read from the variables of the process, read once.
///
/// | variable | what it sets | default |
/// |---|---|---|
/// | `TORCH_HOME` | PyTorch's cache; checkpoints are in `hub/checkpoints` | `$XDG_CACHE_HOME/torch`, `~/.cache/torch` |
/// | `HF_HOME` | the folder of the Hugging Face libraries | `$XDG_CACHE_HOME/huggingface`, `~/.cache/huggingface` |
/// | `HF_HUB_CACHE` | the cache of repositories | `$HF_HOME/hub` |
/// | `HF_ENDPOINT` | the server of repositories, or a folder `file:///..` | `https://huggingface.co` |
/// | `HF_HUB_OFFLINE` | `1`: nothing is asked of any server | |
/// | `HF_TOKEN`, `HF_TOKEN_PATH` | the access token, or a file that holds it | `$HF_HOME/token` |
/// | `HF_HUB_DISABLE_PROGRESS_BARS` | `1`: no progress bars | |
/// | `HF_HUB_DOWNLOAD_TIMEOUT` | how many seconds a server may be silent | 10 |
/// | `TORSH_HUB_MIRROR` | where files of addresses are looked for first, an address or `file:///..` | |
/// | `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` | proxies, also in lower case | |
///
/// The folder of the user, `~`, is `HOME`, on Windows `USERPROFILE`. The folders are the same on all systems, as Python's
/// libraries have them there.
///
/// ```
/// use torsh_hub::Environment;
///
/// let environment = Environment::from_lookup(|name| match name {
///     "HOME" => Some("/home/ada".into()),
///     "HF_HUB_OFFLINE" => Some("1".into()),
///     _ => None,
/// });
/// assert_eq!(environment.hf_hub_cache.unwrap().to_str(), Some("/home/ada/.cache/huggingface/hub"));
/// assert_eq!(environment.torch_home.unwrap().to_str(), Some("/home/ada/.cache/torch"));
/// assert!(environment.offline);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// PyTorch's cache, where one is known.
    pub torch_home: Option<PathBuf>,
    /// The cache of repositories, where one is known.
    pub hf_hub_cache: Option<PathBuf>,
    /// The server of repositories.
    pub endpoint: String,
    /// Whether nothing is asked of any server.
    pub offline: bool,
    /// The access token of the endpoint.
    pub token: Option<Token>,
    /// Whether progress is shown.
    pub progress: bool,
    /// How long a server may be silent.
    pub timeout: Duration,
    /// Where files of addresses are looked for first.
    pub mirror: Option<String>,
    /// The proxy of `http://` addresses.
    pub http_proxy: Option<Secret>,
    /// The proxy of `https://` addresses.
    pub https_proxy: Option<Secret>,
    /// Hosts that are asked without proxy, as `NO_PROXY` lists them.
    pub no_proxy: String,
}

/// A text with a password in it, which `Debug` does not show.
///
/// ```
/// use torsh_hub::Secret;
/// let proxy = Secret::new("http://ada:password@proxy:3128");
/// assert_eq!(format!("{proxy:?}"), "http://proxy:3128");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of its text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::url::redacted(&self.0))
    }
}

impl Default for Environment {
    /// Of a process without any variable: no folders are known.
    fn default() -> Self {
        Environment::from_lookup(|_| None)
    }
}

fn yes(text: &str) -> bool {
    matches!(
        text.to_ascii_uppercase().as_str(),
        "1" | "ON" | "YES" | "TRUE"
    )
}

impl Environment {
    /// Of this process.
    pub fn from_process() -> Environment {
        Environment::from_lookup(|name| {
            let value = std::env::var_os(name).or_else(|| match name {
                // A service of Windows may run without the variable.
                "USERPROFILE" if cfg!(windows) => std::env::home_dir().map(Into::into),
                _ => None,
            });
            value?.into_string().ok()
        })
    }

    /// The settings of variables that a function looks up, so that a program can have others than those of its process.
    ///
    /// ```
    /// use std::time::Duration;
    /// use torsh_hub::{Environment, Token};
    ///
    /// let environment = Environment::from_lookup(|name| match name {
    ///     "HF_ENDPOINT" => Some("https://hub.example.org/".into()),
    ///     "HF_TOKEN" => Some("hf_abc".into()),
    ///     _ => None,
    /// });
    /// assert_eq!(environment.endpoint, "https://hub.example.org");
    /// assert_eq!(environment.token, Some(Token::new("hf_abc")));
    /// assert_eq!((environment.timeout, environment.torch_home), (Duration::from_secs(10), None));
    /// ```
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Environment {
        Environment::from_lookup_on(cfg!(windows), lookup)
    }

    fn from_lookup_on(windows: bool, lookup: impl Fn(&str) -> Option<String>) -> Environment {
        let get = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| lookup(name).filter(|value| !value.trim().is_empty()))
        };
        let home = torch_cache::user_folder(|name| lookup(name).map(Into::into));
        let expanded = |path: String| {
            let rest = path.strip_prefix("~/");
            let rest = rest.or_else(|| path.strip_prefix("~\\").filter(|_| windows));
            match rest.zip(home.as_ref()) {
                Some((rest, home)) => home.join(rest),
                None => PathBuf::from(path),
            }
        };
        let path = |names: &[&str]| get(names).map(&expanded);
        let cache = path(&["XDG_CACHE_HOME"]).or_else(|| home.as_ref().map(|h| h.join(".cache")));
        let below = |name: &str| cache.as_ref().map(|c| c.join(name));
        let hf_home = path(&["HF_HOME"]).or_else(|| below("huggingface"));
        let of_home = |name: &str| hf_home.as_ref().map(|h| h.join(name));
        let read = |path: PathBuf| {
            let bytes = std::fs::read(path).ok()?;
            String::from_utf8(torsh_core::without_bom(&bytes).to_vec()).ok()
        };
        let no_implicit = get(&["HF_HUB_DISABLE_IMPLICIT_TOKEN"]).is_some_and(|v| yes(&v));
        let token = get(&["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
            .or_else(|| {
                path(&["HF_TOKEN_PATH"])
                    .or_else(|| of_home("token"))
                    .and_then(read)
            })
            .map(|t| t.trim().to_string())
            .filter(|t| !t.is_empty() && !no_implicit);
        let seconds = get(&["HF_HUB_DOWNLOAD_TIMEOUT"]).and_then(|t| t.trim().parse().ok());
        let proxy = |names: &[&str]| get(names).map(Secret::new);
        let all = proxy(&["ALL_PROXY", "all_proxy"]);
        Environment {
            torch_home: torch_cache::home(|name| lookup(name).map(Into::into)),
            hf_hub_cache: path(&["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"])
                .or_else(|| of_home("hub")),
            endpoint: get(&["HF_ENDPOINT"]).map_or("https://huggingface.co".into(), |e| {
                e.trim_end_matches('/').to_string()
            }),
            offline: get(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]).is_some_and(|v| yes(&v)),
            token: token.map(Token::new),
            progress: !get(&["HF_HUB_DISABLE_PROGRESS_BARS"]).is_some_and(|v| yes(&v)),
            timeout: Duration::from_secs(seconds.filter(|&s| s > 0).unwrap_or(10)),
            mirror: get(&["TORSH_HUB_MIRROR"]),
            http_proxy: proxy(&["http_proxy", "HTTP_PROXY"]).or_else(|| all.clone()),
            https_proxy: proxy(&["HTTPS_PROXY", "https_proxy"]).or(all),
            no_proxy: get(&["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }

    /// The proxy that a request goes through.
    pub(crate) fn proxy_for(&self, url: &Url) -> Option<&str> {
        let proxy = match url.scheme.as_str() {
            "http" => self.http_proxy.as_ref()?,
            _ => self.https_proxy.as_ref()?,
        };
        let (_, host, port) = url.origin();
        let host = host.trim_matches(['[', ']']);
        let listed = self.no_proxy.split(',').map(str::trim).any(|entry| {
            let entry = entry.to_ascii_lowercase();
            let (name, of_port) = match entry.rsplit_once(':') {
                Some((name, p)) if !name.contains(':') => (name, p.parse().ok()),
                _ => (entry.as_str(), None),
            };
            let name = name.trim_start_matches('*').trim_start_matches('.');
            let fits = entry == "*"
                || host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.'));
            !entry.is_empty()
                && (entry == "*" || !name.is_empty())
                && fits
                && of_port.is_none_or(|p: u16| p == port)
        });
        (!listed).then(|| proxy.text())
    }

    #[track_caller]
    pub(crate) fn torch_home(&self) -> Result<&Path> {
        known(self.torch_home.as_deref(), "TORCH_HOME")
    }

    #[track_caller]
    pub(crate) fn hub_cache(&self) -> Result<PathBuf> {
        known(self.hf_hub_cache.as_deref(), "HF_HUB_CACHE").map(Path::to_path_buf)
    }
}

#[track_caller]
fn known<'a>(path: Option<&'a Path>, name: &str) -> Result<&'a Path> {
    path.ok_or_else(|| {
        let user = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let why = format!("no folder for downloads is known: {user} is not set");
        TorshError::invalid("hub", why).with_hint(format!("set {name} to a folder"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn folders() {
        let e = environment(&[
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("TORCH_HOME", "~/t"),
        ]);
        assert_eq!(e.torch_home, Some("/h/t".into()));
        assert_eq!(e.hf_hub_cache, Some("/x/huggingface/hub".into()));
        let e = environment(&[
            ("HOME", "/h"),
            ("HF_HOME", "/f"),
            ("HF_ENDPOINT", "https://m.org/"),
        ]);
        assert_eq!(e.hf_hub_cache, Some("/f/hub".into()));
        assert_eq!(e.endpoint, "https://m.org");
        let e = environment(&[
            ("HF_HOME", "/f"),
            ("HF_HUB_CACHE", "/c"),
            ("HF_HUB_OFFLINE", "on"),
        ]);
        assert_eq!(
            (e.hf_hub_cache, e.offline, e.torch_home),
            (Some("/c".into()), true, None)
        );
        let error = environment(&[]).torch_home().unwrap_err().to_string();
        assert!(error.contains("TORCH_HOME"), "{error}");
    }

    #[test]
    fn paths_below_the_users_folder() {
        let of = |windows, path: &str| {
            let lookup = |name: &str| match name {
                "HOME" => Some("/h".to_string()),
                "HF_HUB_CACHE" => Some(path.to_string()),
                _ => None,
            };
            Environment::from_lookup_on(windows, lookup).hf_hub_cache
        };
        assert_eq!(of(false, "~/c"), Some("/h/c".into()));
        assert_eq!(of(true, "~/c"), Some("/h/c".into()));
        assert_eq!(of(true, "~\\c"), Some("/h/c".into()));
        assert_eq!(of(false, "~\\c"), Some("~\\c".into()));
        assert_eq!(of(true, "D:\\c"), Some("D:\\c".into()));
    }

    #[test]
    fn tokens_and_passwords_are_not_shown() {
        let e = environment(&[
            ("HF_TOKEN", " hf_abc\n"),
            ("HTTPS_PROXY", "http://me:pass@proxy:3128"),
        ]);
        assert_eq!(e.token, Some(Token::new("hf_abc")));
        let text = format!("{e:?}");
        assert!(
            !text.contains("hf_abc") && !text.contains("pass@"),
            "{text}"
        );
        assert!(text.contains("proxy:3128"), "{text}");
        assert_eq!(Token::new("a\nb").header(), None);
        let e = environment(&[("HF_TOKEN", "t"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]);
        assert_eq!(e.token, None);
    }

    #[test]
    fn proxies() {
        let e = environment(&[
            ("HTTPS_PROXY", "http://s:1"),
            ("http_proxy", "http://p:1"),
            ("NO_PROXY", "localhost, .corp.org,10.0.0.1:81"),
        ]);
        let of = |url: &str| e.proxy_for(&Url::parse(url).unwrap());
        assert_eq!(of("https://a.org/"), Some("http://s:1"));
        assert_eq!(of("http://a.org/"), Some("http://p:1"));
        assert_eq!(of("http://localhost:8080/"), None);
        assert_eq!(of("http://x.corp.org/"), None);
        assert_eq!(of("http://notcorp.org/"), Some("http://p:1"));
        assert_eq!(of("http://10.0.0.1:81/"), None);
        assert_eq!(of("http://10.0.0.1/"), Some("http://p:1"));
        let all = environment(&[("ALL_PROXY", "http://a:1"), ("NO_PROXY", "*")]);
        assert_eq!(all.proxy_for(&Url::parse("http://x/").unwrap()), None);
        assert_eq!(all.https_proxy, Some(Secret::new("http://a:1")));
    }
}
