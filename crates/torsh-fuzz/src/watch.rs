//! Bounds of a process: time and memory.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most memory that this process ever had, where the system tells.
pub(crate) fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib = line.split_whitespace().nth(1)?.parse::<usize>().ok()?;
    Some(kib << 10)
}

/// When something began, and what to say if it does not end.
type Running = Option<(Instant, String)>;

/// Ends the process if something goes on for too long: nothing else stops an endless loop.
pub(crate) struct Watch {
    running: Arc<Mutex<Running>>,
    /// The watching thread ends when this is dropped.
    _end: Sender<()>,
}

impl Watch {
    pub(crate) fn new(limit: Duration) -> Watch {
        let running = Arc::new(Mutex::new(Running::None));
        let (end, ended) = channel::<()>();
        let seen = Arc::clone(&running);
        let step = (limit / 4).min(Duration::from_secs(1));
        std::thread::spawn(move || {
            while ended.recv_timeout(step) == Err(RecvTimeoutError::Timeout) {
                if let Some((start, what)) = &*lock(&seen)
                    && start.elapsed() > limit
                {
                    // What `eprintln` prints is lost if a test does not end.
                    let text = format!("{what}: no end after {} s\n", start.elapsed().as_secs());
                    let _ = std::io::stderr().write_all(text.as_bytes());
                    std::process::exit(101);
                }
            }
        });
        Watch { running, _end: end }
    }

    pub(crate) fn begin(&self, what: String) {
        *lock(&self.running) = Some((Instant::now(), what));
    }

    pub(crate) fn end(&self) {
        *lock(&self.running) = None;
    }
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
