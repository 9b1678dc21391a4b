//! Requests over HTTP.
//!
//! A thread makes each request and hands over its header and body piece by piece, so that the caller may wait for a
//! limited time and be cancelled at any moment. Redirects are followed here: a request to another host has no token.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::environment::Environment;
use crate::errors::short;
use crate::url::Url;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 10;
/// After this a request ends in any case, and a download goes on with another.
const LONGEST: Duration = Duration::from_secs(12 * 3600);
const BLOCK: usize = 1 << 17;

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) why: String,
    /// Whether another attempt may succeed.
    pub(crate) again: bool,
    /// How long the server asks to wait.
    pub(crate) wait: Option<Duration>,
    /// The status, where the server answered.
    pub(crate) status: Option<u16>,
    /// The commit that lacks a file, where the server answers so.
    pub(crate) lacks: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, why: impl Into<String>, again: bool) -> Failure {
        Failure {
            kind,
            why: why.into(),
            again,
            wait: None,
            status: None,
            lacks: None,
        }
    }

    /// Whether the server answered: a file that is gone is gone. One that does not answer, or says that it cannot now, is
    /// another matter.
    pub(crate) fn answered(&self) -> bool {
        self.status
            .is_some_and(|status| status < 500 && status != 429)
    }

    pub(crate) fn cancelled() -> Failure {
        Failure::new(ErrorKind::Interrupted, "it was cancelled", false)
    }

    /// Of a status that is no success.
    pub(crate) fn status(head: &Head) -> Failure {
        let status = head.status;
        let (kind, why) = match status {
            401 => (
                ErrorKind::PermissionDenied,
                "the server wants a token (401)",
            ),
            403 => (
                ErrorKind::PermissionDenied,
                "the server does not permit it (403)",
            ),
            404 => (ErrorKind::NotFound, "it is not there (404)"),
            410 => (ErrorKind::NotFound, "it is not there any more (410)"),
            429 => (
                ErrorKind::ResourceBusy,
                "the server gets too many requests (429)",
            ),
            500..=599 => (ErrorKind::Other, "the server has an error"),
            _ => (
                ErrorKind::InvalidData,
                "the server answers with another status than was expected",
            ),
        };
        let why = match why.ends_with(')') {
            true => why.to_string(),
            false => format!("{why} ({status})"),
        };
        Failure {
            status: Some(status),
            wait: head
                .get("retry-after")
                .and_then(|s| s.trim().parse().ok())
                .map(Duration::from_secs),
            ..Failure::new(
                kind,
                why,
                matches!(status, 408 | 425 | 429 | 500 | 502..=504),
            )
        }
    }
}

/// Status and header fields of an answer, their names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(n, _)| n == name);
        field.map(|(_, value)| value.as_str())
    }

    pub(crate) fn length(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    fn redirect(&self) -> Option<&str> {
        match self.status {
            301 | 302 | 303 | 307 | 308 => self.get("location"),
            _ => None,
        }
    }
}

enum Message {
    Head(Head),
    Block(Vec<u8>),
    End,
    Failed(Failure),
}

/// An answer whose body is on its way.
pub(crate) struct Response {
    pub(crate) head: Head,
    messages: Receiver<Message>,
}

/// What a request needs besides its address.
pub(crate) struct Settings<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) cancel: Option<&'a Cancel>,
}

impl Settings<'_> {
    fn wait(&self, messages: &Receiver<Message>, time: Duration) -> Result<Message, Failure> {
        const GLANCE: Duration = Duration::from_millis(50);
        let until = Instant::now() + time;
        loop {
            if self.cancel.is_some_and(Cancel::is_cancelled) {
                return Err(Failure::cancelled());
            }
            match messages.recv_timeout(GLANCE) {
                Ok(Message::Failed(failure)) => return Err(failure),
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("the server was silent for {} seconds", time.as_secs_f32());
                    return Err(Failure::new(ErrorKind::TimedOut, why, true));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(
                        ErrorKind::BrokenPipe,
                        "the request ended",
                        true,
                    ));
                }
            }
        }
    }
}

impl Response {
    /// The next piece of the body, `None` at its end.
    pub(crate) fn block(&mut self, settings: &Settings) -> Result<Option<Vec<u8>>, Failure> {
        match settings.wait(&self.messages, settings.environment.timeout)? {
            Message::Block(block) => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// All of a body that has at most `most` bytes.
    pub(crate) fn bytes(mut self, settings: &Settings, most: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(block) = self.block(settings)? {
            if out.len() + block.len() > most {
                let why = format!("the answer has more than {most} bytes");
                return Err(Failure::new(ErrorKind::FileTooLarge, why, false));
            }
            out.extend(block);
        }
        let length = self.head.length("content-length");
        match length.is_some_and(|n| n != out.len() as u64) {
            true => Err(Failure::new(
                ErrorKind::UnexpectedEof,
                "the answer is cut off",
                true,
            )),
            false => Ok(out),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
}

/// Makes requests, keeping connections.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    /// By proxy.
    agents: Mutex<HashMap<Option<String>, ureq::Agent>>,
}

impl Transport {
    fn agent(&self, proxy: Option<&str>, timeout: Duration) -> Result<ureq::Agent, Failure> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(&proxy.map(str::to_string)) {
            return Ok(agent.clone());
        }
        let through = proxy.map(ureq::Proxy::new).transpose().map_err(|_| {
            let why = "the address of the proxy is none; see HTTPS_PROXY, HTTP_PROXY and ALL_PROXY";
            Failure::new(ErrorKind::InvalidInput, why, false)
        })?;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(through)
            .user_agent(concat!("torsh/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(timeout))
            .timeout_send_request(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_recv_body(Some(LONGEST))
            .build()
            .new_agent();
        agents.insert(proxy.map(str::to_string), agent.clone());
        Ok(agent)
    }

    /// One request, without following redirects.
    pub(crate) fn send(
        &self,
        method: Method,
        url: &Url,
        fields: &[(&'static str, String)],
        settings: &Settings,
    ) -> Result<Response, Failure> {
        let environment = settings.environment;
        let agent = self.agent(environment.proxy_for(url), environment.timeout)?;
        let (address, fields) = (url.full(), fields.to_vec());
        let (sender, messages) = sync_channel(4);
        let request = move || {
            let mut request = match method {
                Method::Get => agent.get(&address),
                Method::Head => agent.head(&address),
            };
            for (name, value) in fields {
                request = request.header(name, value);
            }
            let failed = match request.call() {
                Ok(response) => hand_over(response, &sender),
                Err(e) => Some(failure(&e)),
            };
            if let Some(failure) = failed {
                // Nobody listens any more where this fails.
                let _ = sender.send(Message::Failed(failure));
            }
        };
        let spawned = std::thread::Builder::new()
            .name("torsh-hub".into())
            .spawn(request);
        spawned.map_err(|e| {
            Failure::new(e.kind(), format!("no thread could be started: {e}"), false)
        })?;
        // Connecting, sending and answering each have their time.
        match settings.wait(&messages, environment.timeout * 3)? {
            Message::Head(head) => Ok(Response { head, messages }),
            _ => Err(Failure::new(
                ErrorKind::InvalidData,
                "the answer has no header",
                true,
            )),
        }
    }

    /// A request that follows redirects. `token` goes to the origin `to` alone. `stop` sees each answer that redirects,
    /// and may take it as the last.
    pub(crate) fn follow(
        &self,
        method: Method,
        url: &Url,
        fields: &[(&'static str, String)],
        token: Option<(&str, &Url)>,
        settings: &Settings,
        stop: impl Fn(&Head) -> bool,
    ) -> Result<Response, Failure> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut fields = fields.to_vec();
            if let Some((token, of)) = token
                && of.origin() == url.origin()
            {
                fields.push(("authorization", token.to_string()));
            }
            let response = self.send(method, &url, &fields, settings)?;
            let Some(location) = response.head.redirect() else {
                return Ok(response);
            };
            if stop(&response.head) {
                return Ok(response);
            }
            let next = url.join(location).map_err(|_| {
                let why = format!("{} redirects to what is no address", url.shown());
                Failure::new(ErrorKind::InvalidData, why, false)
            })?;
            if next.is_file() || (url.scheme == "https" && next.scheme == "http") {
                let why = format!(
                    "{} redirects to {}, which is not as safe",
                    url.shown(),
                    next.shown()
                );
                return Err(Failure::new(ErrorKind::PermissionDenied, why, false));
            }
            url = next;
        }
        let why = format!("there are more than {MAX_REDIRECTS} redirects");
        Err(Failure::new(ErrorKind::InvalidData, why, false))
    }
}

/// Gives header and body to the channel; the reason where that fails.
fn hand_over(
    response: ureq::http::Response<ureq::Body>,
    sender: &SyncSender<Message>,
) -> Option<Failure> {
    let text =
        |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_string(), text(value)));
    let head = Head {
        status: response.status().as_u16(),
        fields: fields.collect(),
    };
    if sender.send(Message::Head(head)).is_err() {
        return None;
    }
    let mut body = response.into_body().into_reader();
    loop {
        let mut block = vec![0; BLOCK];
        let message = match body.read(&mut block) {
            Ok(0) => Message::End,
            Ok(n) => {
                block.truncate(n);
                Message::Block(block)
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Some(broken(&e)),
        };
        let last = matches!(message, Message::End);
        if sender.send(message).is_err() || last {
            return None;
        }
    }
}

/// A body that broke off.
fn broken(e: &std::io::Error) -> Failure {
    let kind = match e.kind() {
        ErrorKind::Other => ErrorKind::UnexpectedEof,
        kind => kind,
    };
    Failure::new(
        kind,
        format!("the connection broke: {}", short(&e.to_string())),
        true,
    )
}

/// Whether an error is about a name that the system does not find, which has no kind of its own.
fn is_unknown_name(e: &std::io::Error) -> bool {
    // From WSAHOST_NOT_FOUND to WSANO_DATA; the words of Windows are in the user's language.
    let of_windows = cfg!(windows) && matches!(e.raw_os_error(), Some(11001..=11004));
    of_windows || e.to_string().contains("lookup address")
}

fn failure(e: &ureq::Error) -> Failure {
    use ureq::Error;
    let of = |kind, why: &str, again| Failure::new(kind, why, again);
    match e {
        Error::Timeout(_) => of(
            ErrorKind::TimedOut,
            "the server did not answer in time",
            true,
        ),
        Error::HostNotFound => of(
            ErrorKind::HostUnreachable,
            "the host's name is not known",
            false,
        ),
        Error::Io(e) if e.kind() == ErrorKind::ConnectionRefused => of(
            ErrorKind::ConnectionRefused,
            "the connection was refused",
            false,
        ),
        Error::Io(e) if is_unknown_name(e) => of(
            ErrorKind::HostUnreachable,
            "the host's name is not known",
            false,
        ),
        Error::Io(e) => broken(e),
        Error::ConnectionFailed => of(ErrorKind::NotConnected, "the connection failed", true),
        Error::ConnectProxyFailed(_) => of(
            ErrorKind::ConnectionRefused,
            "the proxy did not connect to the server",
            false,
        ),
        Error::LargeResponseHeader(..) => of(
            ErrorKind::InvalidData,
            "the header of the answer is too large",
            false,
        ),
        Error::Protocol(e) => {
            let why = format!("the answer is not HTTP: {}", short(&e.to_string()));
            of(ErrorKind::InvalidData, &why, true)
        }
        Error::Rustls(e) => {
            let why = format!("no secure connection: {}", short(&e.to_string()));
            of(ErrorKind::PermissionDenied, &why, false)
        }
        // The texts of others could repeat addresses and header fields.
        _ => of(ErrorKind::Other, "the request could not be made", false),
    }
}
