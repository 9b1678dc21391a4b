//! A server of HTTP on 127.0.0.1 that does what a test tells it to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

impl Asked {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The first byte of a `Range`.
    pub fn from(&self) -> Option<usize> {
        self.field("range")?
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    }
}

/// What it is answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The length that the header states, where it is not the body's.
    pub length: Option<u64>,
    /// How many bytes of the body are sent before the connection ends.
    pub cut: Option<usize>,
    /// Whether the connection then stays silent instead.
    pub hang: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status,
            body: body.into(),
            ..Reply::default()
        }
    }

    pub fn field(mut self, name: &str, value: impl ToString) -> Reply {
        self.fields.push((name.into(), value.to_string()));
        self
    }

    pub fn cut(mut self, at: usize) -> Reply {
        self.cut = Some(at);
        self
    }

    pub fn hang(mut self) -> Reply {
        self.hang = true;
        self
    }
}

/// A whole file, or the part that was asked for, if the file is still the one of the `If-Range`.
pub fn file(asked: &Asked, content: &[u8], etag: &str) -> Reply {
    let etag = format!("\"{etag}\"");
    let same = asked.field("if-range").is_none_or(|e| e == etag);
    match asked.from().filter(|_| same) {
        Some(from) if from >= content.len() => {
            Reply::new(416, "").field("content-range", format!("bytes */{}", content.len()))
        }
        Some(from) => Reply::new(206, &content[from..])
            .field(
                "content-range",
                format!("bytes {from}-{}/{}", content.len() - 1, content.len()),
            )
            .field("etag", etag),
        None => Reply::new(200, content).field("etag", etag),
    }
}

/// A server that answers until it is dropped.
pub struct Server {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// `answer` gets each request and its number.
    pub fn new(answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(answer);
        let server = Server {
            port,
            asked: asked.clone(),
            ended: ended.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (asked, ended, answer) = (asked.clone(), ended.clone(), answer.clone());
                std::thread::spawn(move || {
                    // A client that has gone away is what some tests are about.
                    let _ = serve(stream, &asked, &ended, &*answer);
                });
            }
        });
        server
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The address under another name of the host.
    pub fn other_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<Asked>>,
    ended: &AtomicBool,
    answer: &dyn Fn(&Asked, usize) -> Reply,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let Some(first) = lines.next().transpose()? else {
        return Ok(());
    };
    let mut words = first.split(' ');
    let mut request = Asked {
        method: words.next().unwrap_or("").into(),
        path: words.next().unwrap_or("").into(),
        fields: Vec::new(),
    };
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            request
                .fields
                .push((name.to_lowercase(), value.trim().to_string()));
        }
    }
    let number = {
        let mut asked = asked.lock().unwrap();
        asked.push(request.clone());
        asked.len() - 1
    };
    let reply = answer(&request, number);
    let length = reply.length.unwrap_or(reply.body.len() as u64);
    let mut head = format!("HTTP/1.1 {} Answer\r\nconnection: close\r\n", reply.status);
    if !reply
        .fields
        .iter()
        .any(|(name, _)| name == "content-length")
    {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    for (name, value) in &reply.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    if !(reply.hang && reply.cut.is_none()) {
        stream.write_all(head.as_bytes())?;
        if request.method != "HEAD" {
            let n = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
            stream.write_all(&reply.body[..n])?;
        }
        stream.flush()?;
    }
    while reply.hang && !ended.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
