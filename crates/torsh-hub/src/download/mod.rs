//! Downloads to files.

mod part;
mod progress;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use torsh_tensor::{Result, TorshError};

use crate::cancel::Cancel;
use crate::checksum::Checksum;
use crate::environment::Environment;
use crate::errors;
use crate::transport::{Failure, Head, Method, Response, Settings, Transport};
use crate::url::Url;

pub(crate) use part::{Part, lock_file};
use progress::Progress;

/// What a file that is downloaded has to be, and how.
///
/// ```
/// use torsh_hub::{Checksum, DownloadOptions};
/// let options = DownloadOptions::new().checksum(Checksum::sha256("f37072fd")?).size(46_830_571);
/// assert_eq!(options.size, Some(46_830_571));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DownloadOptions {
    /// The checksum of the file (`hash_prefix` of PyTorch, where it is a SHA-256).
    pub checksum: Option<Checksum>,
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// Whether a bar on standard error shows the progress; else the environment decides. Nothing is shown where
    /// standard error is no terminal.
    pub progress: Option<bool>,
    /// What cancels the download.
    pub cancel: Option<Cancel>,
}

impl DownloadOptions {
    /// Nothing is checked but the length that the server states.
    pub fn new() -> Self {
        Self::default()
    }

    /// The checksum of the file.
    #[must_use]
    pub fn checksum(mut self, checksum: impl Into<Option<Checksum>>) -> Self {
        self.checksum = checksum.into();
        self
    }

    /// The size of the file in bytes.
    #[must_use]
    pub fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Whether the progress is shown.
    #[must_use]
    pub fn progress(mut self, progress: bool) -> Self {
        self.progress = Some(progress);
        self
    }

    /// What cancels the download.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }
}

/// How often and when a request is made again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// How many attempts there are after the first.
    pub(crate) times: usize,
    /// The pause before the second attempt; each further one is twice as long.
    pub(crate) pause: Duration,
}

/// The longest pause between attempts, also where a server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// An attempt that brought so much starts the count of attempts anew.
const PROGRESS: u64 = 1 << 20;

/// What all downloads of a hub have in common.
pub(crate) struct Client<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) transport: &'a Transport,
    pub(crate) retry: Retry,
    /// The token's header and the server that it is for.
    pub(crate) token: Option<(String, Url)>,
}

/// A file to download.
pub(crate) struct Job<'a> {
    /// The function that the caller called, for errors.
    pub(crate) op: &'static str,
    pub(crate) url: &'a Url,
    pub(crate) to: &'a Path,
    /// Where it is until it is whole.
    pub(crate) part: PathBuf,
    pub(crate) options: &'a DownloadOptions,
}

/// The name of a part beside a file.
pub(crate) fn part_of(to: &Path) -> PathBuf {
    beside(to, ".", ".part")
}

fn beside(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

impl Client<'_> {
    pub(crate) fn token(&self) -> Option<(&str, &Url)> {
        self.token
            .as_ref()
            .map(|(token, url)| (token.as_str(), url))
    }

    /// Makes attempts until one succeeds, an error is final, or there were too many.
    pub(crate) fn attempts<T>(
        &self,
        cancel: Option<&Cancel>,
        mut attempt: impl FnMut() -> Result<T, (Failure, u64)>,
    ) -> Result<T, Failure> {
        let mut tried = 0;
        loop {
            let (failure, progress) = match attempt() {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            if progress >= PROGRESS {
                tried = 0;
            }
            if !failure.again || tried >= self.retry.times {
                return Err(match tried {
                    0 => failure,
                    _ => Failure {
                        why: format!("{}, {} times", failure.why, tried + 1),
                        ..failure
                    },
                });
            }
            let pause = self.retry.pause.saturating_mul(1 << tried.min(10));
            let pause = failure.wait.unwrap_or(pause).min(LONGEST_PAUSE);
            tried += 1;
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if cancel.is_some_and(Cancel::is_cancelled) {
                    return Err(Failure::cancelled());
                }
                let left = until.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
        }
    }

    /// Downloads a file, or copies one. At the end it is at `to`, whole and checked.
    pub(crate) fn download(&self, job: &Job) -> Result<()> {
        let (op, to) = (job.op, job.to);
        let failed = |e| errors::at(op, to, e);
        if to.file_name().is_none() || to.is_dir() {
            return Err(failed(std::io::Error::new(
                ErrorKind::IsADirectory,
                "this is no name for a file",
            )));
        }
        if job.options.checksum.is_some() && to.is_file() && self.fits(job, to).is_ok() {
            return Ok(());
        }
        if self.environment.offline && !job.url.is_file() {
            return Err(offline(op, job.url, &[to.to_path_buf()]));
        }
        if let Some(folder) = to.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| errors::at(op, folder, e))?;
        }
        let cancel = job.options.cancel.as_ref();
        let (mut part, waited) = Part::open(op, &job.part, cancel)?;
        if waited && to.is_file() && self.fits(job, to).is_ok() {
            // Another thread or process was faster.
            return part.discard();
        }
        if job.url.is_file() {
            if let Err(e) = self.copy(job, &mut part) {
                // The first error is the one to report.
                let _ = part.discard();
                return Err(e);
            }
            let right = self.part_fits(job, &mut part);
            return self.finish(job, part, false, right);
        }
        let mut bar = self.bar(job);
        let mut resumed = part.length() > 0;
        let mut again = true;
        let right = loop {
            let done = self.attempts(cancel, || {
                let before = part.length();
                let done = self.attempt(job, &mut part, &mut bar);
                done.map_err(|f| (f, part.length().saturating_sub(before)))
            });
            if let Err(failure) = done {
                let kept = part.keep();
                return Err(self.explain(job, failure, kept));
            }
            resumed |= std::mem::take(&mut part.resumed);
            let right = self.part_fits(job, &mut part);
            if right.is_ok() || !resumed || !std::mem::take(&mut again) {
                break right;
            }
            // The part may have been of another file.
            part.restart().map_err(failed)?;
            resumed = false;
        };
        bar.done();
        self.finish(job, part, true, right)
    }

    /// Whether a file is the one that was asked for.
    fn fits(&self, job: &Job, path: &Path) -> Result<()> {
        if job.options.size.is_none() && job.options.checksum.is_none() {
            return Ok(());
        }
        let mut file = File::open(path).map_err(|e| errors::at(job.op, path, e))?;
        self.file_fits(job, path, &mut file)
    }

    /// Whether the part is all of the file that was asked for.
    fn part_fits(&self, job: &Job, part: &mut Part) -> Result<()> {
        let file = part.read().map_err(|e| errors::at(job.op, &job.part, e))?;
        self.file_fits(job, &job.part, file)
    }

    fn file_fits(&self, job: &Job, path: &Path, file: &mut File) -> Result<()> {
        if let Some(size) = job.options.size {
            let there = file
                .metadata()
                .map_err(|e| errors::at(job.op, path, e))?
                .len();
            if there != size {
                return Err(TorshError::format(
                    job.op,
                    format!("{} has {there} bytes, not {size}", job.url.shown()),
                ));
            }
        }
        match &job.options.checksum {
            Some(checksum) => checksum.check_open(path, file).map_err(|e| match e {
                TorshError::Format(_) => {
                    let found = e.info().map_or("", |i| &i.message).to_string();
                    let found = found.replace(&path.display().to_string(), &job.url.shown());
                    TorshError::format(job.op, found)
                }
                e => e,
            }),
            None => Ok(()),
        }
    }

    /// Checks the part and gives it its name, or puts it aside.
    fn finish(&self, job: &Job, part: Part, net: bool, right: Result<()>) -> Result<()> {
        let Err(wrong) = right else {
            return part.rename(job.op, job.to);
        };
        let bad = beside(job.to, "", ".bad");
        if !net {
            // The original is still where it was.
            part.discard()?;
            return Err(wrong);
        }
        part.rename(job.op, &bad)?;
        let hint = format!(
            "the file was put aside as {}; fetch it again, or find out who changed it",
            bad.display()
        );
        Err(wrong.with_hint(hint))
    }

    fn copy(&self, job: &Job, part: &mut Part) -> Result<()> {
        let from = job.url.to_path().ok_or_else(|| {
            TorshError::invalid(job.op, format!("{} is no path", job.url.shown()))
        })?;
        let failed = |e| errors::at(job.op, &from, e);
        if from.is_dir() {
            return Err(failed(std::io::Error::new(
                ErrorKind::IsADirectory,
                "this is a folder",
            )));
        }
        let mut file = File::open(&from).map_err(failed)?;
        part.restart()
            .map_err(|e| errors::at(job.op, &job.part, e))?;
        let mut block = vec![0; 1 << 18];
        loop {
            if job
                .options
                .cancel
                .as_ref()
                .is_some_and(Cancel::is_cancelled)
            {
                return Err(self.explain(job, Failure::cancelled(), 0));
            }
            match file.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(n) => part
                    .write(&block[..n])
                    .map_err(|e| errors::at(job.op, &job.part, e))?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    fn bar(&self, job: &Job) -> Progress {
        let shown = job.options.progress.unwrap_or(self.environment.progress);
        let name = job.to.file_name().unwrap_or_default().to_string_lossy();
        Progress::new(
            shown,
            &job.url.file_name().unwrap_or_else(|| name.into_owned()),
        )
    }

    /// One request, for what is missing. The part grows by what comes.
    fn attempt(&self, job: &Job, part: &mut Part, bar: &mut Progress) -> Result<(), Failure> {
        let settings = Settings {
            environment: self.environment,
            cancel: job.options.cancel.as_ref(),
        };
        let from = part.length();
        let mut fields = Vec::new();
        let validator = part.validator(job.url);
        // Without a validator only a checksum tells whether the parts belong together.
        let resume = from > 0 && (validator.is_some() || job.options.checksum.is_some());
        if resume {
            fields.push(("range", format!("bytes={from}-")));
            if let Some(validator) = &validator {
                fields.push(("if-range", validator.clone()));
            }
        }
        let follow = self.transport.follow(
            Method::Get,
            job.url,
            &fields,
            self.token(),
            &settings,
            |_| false,
        );
        let mut response = follow?;
        let io = |e| unwritten(job, e);
        let total = match response.head.status {
            200 => {
                part.restart().map_err(io)?;
                response.head.length("content-length")
            }
            206 if resume => match continues(&response.head, from, validator.as_deref()) {
                Some(total) => {
                    part.resumed = true;
                    total
                }
                None => {
                    part.restart().map_err(io)?;
                    let why = "the server sends another part than was asked for";
                    return Err(Failure::new(ErrorKind::InvalidData, why, true));
                }
            },
            // All is there already, or the file is shorter now.
            416 if resume => {
                let all = response
                    .head
                    .get("content-range")
                    .and_then(|r| r.trim().strip_prefix("bytes */"));
                if all.and_then(|n| n.parse().ok()) == Some(from) {
                    part.resumed = true;
                    return Ok(());
                }
                part.restart().map_err(io)?;
                return Err(Failure {
                    again: true,
                    ..Failure::status(&response.head)
                });
            }
            _ => return Err(Failure::status(&response.head)),
        };
        if let (Some(size), Some(total)) = (job.options.size, total)
            && size != total
        {
            let why = format!("the server's file has {total} bytes, not {size}");
            return Err(Failure::new(ErrorKind::InvalidData, why, false));
        }
        if response.head.status == 200 {
            part.note(job.url, &response.head).map_err(io)?;
        }
        bar.start(part.length(), total.or(job.options.size));
        self.body(job, part, bar, &mut response, total, &settings)
    }

    fn body(
        &self,
        job: &Job,
        part: &mut Part,
        bar: &mut Progress,
        response: &mut Response,
        total: Option<u64>,
        settings: &Settings,
    ) -> Result<(), Failure> {
        while let Some(block) = response.block(settings)? {
            let most = total.or(job.options.size);
            if most.is_some_and(|most| part.length() + block.len() as u64 > most) {
                let why = "the server sends more than the file has";
                return Err(Failure::new(ErrorKind::InvalidData, why, false));
            }
            part.write(&block).map_err(|e| unwritten(job, e))?;
            bar.at(part.length());
        }
        match total {
            Some(total) if part.length() < total => {
                let why = format!(
                    "the connection ended after {} of {total} bytes",
                    part.length()
                );
                Err(Failure::new(ErrorKind::UnexpectedEof, why, true))
            }
            _ => Ok(()),
        }
    }

    /// The error of a failure, with what the user can do.
    pub(crate) fn explain(&self, job: &Job, failure: Failure, kept: u64) -> TorshError {
        let hint = match (failure.status, failure.kind) {
            (Some(401 | 403), _) => {
                "for what is private or asks for consent, set HF_TOKEN to your access token"
            }
            (Some(404), _) => "check the name, the revision and the address",
            (_, ErrorKind::Interrupted) if kept > 0 => {
                "the next download goes on where this one ended"
            }
            (_, ErrorKind::TimedOut) => {
                "HF_HUB_DOWNLOAD_TIMEOUT sets how many seconds a server may be silent; the next download goes on where this one ended"
            }
            (_, ErrorKind::HostUnreachable | ErrorKind::ConnectionRefused) => {
                "is there a network? HTTPS_PROXY names a proxy, HF_ENDPOINT and TORSH_HUB_MIRROR a mirror, HF_HUB_OFFLINE=1 uses only what is there"
            }
            (_, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                "free some space; the next download goes on where this one ended"
            }
            _ if kept > 0 => "the next download goes on where this one ended",
            _ => "",
        };
        errors::io(
            failure.kind,
            job.op,
            format!("{}: {}", job.url.shown(), failure.why),
            hint,
        )
    }
}

/// The failure of a part that cannot be written.
fn unwritten(job: &Job, e: std::io::Error) -> Failure {
    Failure::new(e.kind(), format!("{}: {e}", job.part.display()), false)
}

/// The file's length where an answer goes on from a byte, of the file that the validator is of.
fn continues(head: &Head, from: u64, validator: Option<&str>) -> Option<Option<u64>> {
    let range = head.get("content-range")?.trim().strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    if first != from || last < first {
        return None;
    }
    let same = match (validator, head.get("etag")) {
        (Some(validator), Some(etag)) if validator.starts_with('"') => validator == etag.trim(),
        _ => true,
    };
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok().filter(|&t: &u64| t > last)?),
    };
    same.then_some(total)
}

/// The error of a file that would have to be fetched.
#[cold]
pub(crate) fn offline(op: &str, url: &Url, looked_for: &[PathBuf]) -> TorshError {
    let mut why = format!(
        "{} is not here, and HF_HUB_OFFLINE forbids to fetch it",
        url.shown()
    );
    for path in looked_for {
        why.push_str(&format!("\n  looked for: {}", path.display()));
    }
    errors::io(
        ErrorKind::NotFound,
        op,
        why,
        "fetch it once without HF_HUB_OFFLINE, or copy it to a place that was looked at",
    )
}
