//! Addresses of files: as much of RFC 3986 as downloads need.

use std::path::PathBuf;

use torsh_serialize::files::{is_windows_name, path_of_url};
use torsh_tensor::{Result, TorshError};

use crate::errors::short;

/// An address of http, https or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// In lower case.
    pub(crate) scheme: String,
    /// Name and password, which belong into no message.
    user: String,
    /// In lower case, `[..]` for IPv6.
    pub(crate) host: String,
    port: Option<u16>,
    /// From the first slash on, without query.
    pub(crate) path: String,
    /// With its question mark; it may hold signatures.
    query: String,
}

impl Url {
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Result<Url> {
        match with_slashes(text).filter(|_| cfg!(windows)) {
            Some(text) => Url::parse_plain(&text),
            None => Url::parse_plain(text),
        }
    }

    #[track_caller]
    fn parse_plain(text: &str) -> Result<Url> {
        let wrong = |why: &str| {
            TorshError::invalid("url", format!("`{}` {why}", redacted(text)))
                .with_hint("addresses are https://host/path, http://host/path or file:///path")
        };
        if text
            .chars()
            .any(|c| c.is_control() || c == ' ' || c == '\\')
        {
            return Err(wrong("has characters that an address cannot have"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("is no address"));
        };
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https" | "file") {
            return Err(wrong("is of a scheme that is not supported"));
        }
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (path, query) = match rest.find('?') {
            Some(i) if scheme != "file" => rest.split_at(i),
            _ => (rest, ""),
        };
        let (user, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        // The colon of a port stands behind the brackets of IPv6.
        let (host, port) = match address
            .rfind(':')
            .filter(|&i| i > address.rfind(']').unwrap_or(0))
        {
            Some(i) => (&address[..i], &address[i + 1..]),
            None => (address, ""),
        };
        let port = match port {
            "" => None,
            port => Some(
                port.parse()
                    .map_err(|_| wrong("has a port that is no number"))?,
            ),
        };
        if host.is_empty() && scheme != "file" {
            return Err(wrong("names no host"));
        }
        if scheme == "file" && !matches!(host, "" | "localhost") {
            return Err(wrong("names a file of another machine"));
        }
        Ok(Url {
            scheme,
            user: user.to_string(),
            host: host.to_ascii_lowercase(),
            port,
            path: if path.is_empty() {
                "/".into()
            } else {
                path.to_string()
            },
            query: query.to_string(),
        })
    }

    pub(crate) fn is_file(&self) -> bool {
        self.scheme == "file"
    }

    /// Who gets the request: scheme, host and port.
    pub(crate) fn origin(&self) -> (&str, &str, u16) {
        let port = match self.scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => 0,
        };
        (&self.scheme, &self.host, self.port.unwrap_or(port))
    }

    fn base(&self, user: bool) -> String {
        let user = match user && !self.user.is_empty() {
            true => format!("{}@", self.user),
            false => String::new(),
        };
        let port = self.port.map_or(String::new(), |port| format!(":{port}"));
        format!("{}://{user}{}{port}", self.scheme, self.host)
    }

    /// The address for a request.
    pub(crate) fn full(&self) -> String {
        format!("{}{}{}", self.base(true), self.path, self.query)
    }

    /// The address for people: without password and query.
    pub(crate) fn shown(&self) -> String {
        let query = if self.query.is_empty() { "" } else { "?.." };
        short(&format!("{}{}{query}", self.base(false), self.path))
    }

    /// The address that a `Location` header names.
    #[track_caller]
    pub(crate) fn join(&self, location: &str) -> Result<Url> {
        let scheme_end = location.find("://");
        let absolute = scheme_end.is_some_and(|i| {
            location[..i]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
        if absolute {
            return Url::parse(location);
        }
        if location.starts_with("//") {
            return Url::parse(&format!("{}:{location}", self.scheme));
        }
        let path = match location.chars().next() {
            Some('/') => location.to_string(),
            Some('?') => format!("{}{location}", self.path),
            _ => {
                let folder = self.path.rfind('/').map_or("/", |i| &self.path[..=i]);
                format!("{folder}{location}")
            }
        };
        let (path, query) = match path.find('?') {
            Some(i) => path.split_at(i),
            None => (path.as_str(), ""),
        };
        Url::parse(&format!("{}{}{query}", self.base(true), without_dots(path)))
    }

    /// The address of a path below this one; `below` is no address's part yet.
    #[track_caller]
    pub(crate) fn below(&self, below: &str) -> Result<Url> {
        let parts: Vec<String> = below.split('/').map(encoded).collect();
        let path = format!("{}/{}", self.path.trim_end_matches('/'), parts.join("/"));
        Ok(Url {
            path,
            ..self.clone()
        })
    }

    /// The last part of the path, decoded; `None` where it is no name of a file.
    pub(crate) fn file_name(&self) -> Option<String> {
        let name = self.path.rsplit('/').next()?;
        let name = decoded(name)?;
        let bad =
            name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0', ':']);
        let there = cfg!(not(windows)) || is_windows_name(&name);
        (!bad && there).then_some(name)
    }

    /// The path, decoded and without its first slash; `None` where it leads out of the folder that it is put below.
    pub(crate) fn inner_path(&self) -> Option<String> {
        let path = decoded(self.path.trim_start_matches('/'))?;
        crate::checkpoint::is_inner(&path).then_some(path)
    }

    /// The path of a file's address.
    pub(crate) fn to_path(&self) -> Option<PathBuf> {
        if !self.is_file() {
            return None;
        }
        Some(path_of_url(&decoded(&self.path)?))
    }
}

/// The address of a file that has a path of Windows in it, as `file://C:\dir` or `file:///C:\dir`: with slashes, and three
/// ahead of the drive. `None` for another address.
fn with_slashes(text: &str) -> Option<String> {
    let (scheme, path) = text.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = path.replace('\\', "/");
    Some(match path.as_bytes() {
        [drive, b':'] | [drive, b':', b'/', ..] if drive.is_ascii_alphabetic() => {
            format!("file:///{path}")
        }
        _ => format!("file://{path}"),
    })
}

/// An address that may not be one, without what may be secret.
pub(crate) fn redacted(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or("");
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            short(&format!("{scheme}://{host}{path}"))
        }
        None => short(text),
    }
}

fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if out.len() > 1 => drop(out.pop()),
            ".." => {}
            part => out.push(part),
        }
    }
    let out = out.join("/");
    if out.starts_with('/') {
        out
    } else {
        format!("/{out}")
    }
}

/// A part of a path, with `%` for what a path cannot have.
pub(crate) fn encoded(part: &str) -> String {
    let mut out = String::new();
    for b in part.bytes() {
        match b {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'+'
            | b'='
            | b',' => {
                out.push(char::from(b));
            }
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = text.get(at + 1..at + 3)?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url = Url::parse("https://user:secret@Host.org:8443/a/b%20c-1234abcd.pth?sig=xyz#frag")
            .unwrap();
        assert_eq!(url.origin(), ("https", "host.org", 8443));
        assert_eq!(url.file_name().as_deref(), Some("b c-1234abcd.pth"));
        assert_eq!(
            url.full(),
            "https://user:secret@host.org:8443/a/b%20c-1234abcd.pth?sig=xyz"
        );
        assert!(
            !url.shown().contains("secret") && !url.shown().contains("xyz"),
            "{}",
            url.shown()
        );
        assert_eq!(
            Url::parse("http://[::1]:80/x").unwrap().origin(),
            ("http", "[::1]", 80)
        );
        assert_eq!(
            Url::parse("http://[::1]/x").unwrap().origin(),
            ("http", "[::1]", 80)
        );
        assert_eq!(Url::parse("http://h").unwrap().path, "/");
        let file = Url::parse("file:///a/b%20c").unwrap();
        assert_eq!(file.to_path(), Some(PathBuf::from("/a/b c")));
        for bad in [
            "ftp://h/x",
            "no address",
            "http:///x",
            "http://h:port/",
            "file://other/x",
            "http://h/a\nb",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
        let error = Url::parse("ftp://me:secret@h/x?token=abc")
            .unwrap_err()
            .to_string();
        assert!(
            !error.contains("secret") && !error.contains("abc"),
            "{error}"
        );
        assert_eq!(Url::parse("http://h/..%2Fx").unwrap().file_name(), None);
        assert_eq!(Url::parse("http://h/x/").unwrap().file_name(), None);
    }

    #[test]
    fn paths_of_windows() {
        for (text, path) in [
            (r"file://C:\models\a b.pt", "/C:/models/a b.pt"),
            (r"FILE:///d:\models/x", "/d:/models/x"),
            ("file:///C:/models/x", "/C:/models/x"),
            ("file://C:", "/C:"),
            (r"file://\\server\share\x", "//server/share/x"),
            ("file:///models/x", "/models/x"),
        ] {
            let slashes = with_slashes(text).unwrap();
            assert_eq!(slashes, format!("file://{path}"), "{text}");
        }
        assert_eq!(with_slashes(r"http://h/a\b"), None);
        assert_eq!(with_slashes(r"C:\models"), None);
        let url = with_slashes(r"file://C:\models\x.pt").unwrap();
        let url = Url::parse_plain(&url).unwrap();
        assert_eq!(
            (url.host.as_str(), url.path.as_str()),
            ("", "/C:/models/x.pt")
        );
        assert_eq!(url.file_name().as_deref(), Some("x.pt"));
    }

    #[test]
    fn locations() {
        let url = Url::parse("https://h/a/b?x=1").unwrap();
        for (location, full) in [
            ("https://other/c", "https://other/c"),
            ("//other/c", "https://other/c"),
            ("/c?d=https://e/f", "https://h/c?d=https://e/f"),
            ("c", "https://h/a/c"),
            ("../c", "https://h/c"),
            ("?y=2", "https://h/a/b?y=2"),
        ] {
            assert_eq!(url.join(location).unwrap().full(), full, "{location}");
        }
        let below = Url::parse("https://h/mirror/")
            .unwrap()
            .below("org/name/a b.bin")
            .unwrap();
        assert_eq!(below.full(), "https://h/mirror/org/name/a%20b.bin");
    }
}
