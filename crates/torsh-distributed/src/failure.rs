//! What happens when a rank does not come: deadlines, questions to the other ranks, the flight record.
//!
//! The communication threads answer questions by themselves, so a rank that computes, sleeps or waits for something else
//! still says where it is.

use std::collections::VecDeque;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use torsh_tensor::{Result, TorshError};

use crate::comm::Node;
use crate::group::GroupState;

mod diagnosis;
mod profiled;

pub(crate) use diagnosis::Diagnoses;
pub(crate) use profiled::announce;

/// How many operations the flight record keeps.
const KEPT: usize = 2000;

/// When times of the flight record begin.
pub(crate) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// What is known of an operation.
pub(crate) struct Ticket {
    pub(crate) kind: &'static str,
    /// Which operation of its group; collectives and messages count apart.
    pub(crate) seq: u64,
    pub(crate) collective: bool,
    /// What all ranks must agree on.
    pub(crate) text: String,
    pub(crate) group: Arc<str>,
    pub(crate) caller: &'static Location<'static>,
    queued: Instant,
    /// Nanoseconds after it was queued, at least 1; 0 before.
    started: AtomicU64,
    ended: AtomicU64,
    failed: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Ticket {
    pub(crate) fn new(
        kind: &'static str,
        seq: u64,
        collective: bool,
        text: String,
        group: Arc<str>,
        caller: &'static Location<'static>,
    ) -> Ticket {
        epoch();
        Ticket {
            kind,
            seq,
            collective,
            text,
            group,
            caller,
            queued: Instant::now(),
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    fn since(&self) -> u64 {
        (self.queued.elapsed().as_nanos() as u64).max(1)
    }

    pub(crate) fn begin(&self) {
        self.started.store(self.since(), Ordering::Release);
    }

    pub(crate) fn end(&self, well: bool) {
        self.failed.store(!well, Ordering::Release);
        self.ended.store(self.since(), Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire) > 0
    }

    /// When it began and ended, in nanoseconds after it was queued; 0 before.
    fn times(&self) -> (u64, u64) {
        let (started, ended) = (&self.started, &self.ended);
        (
            started.load(Ordering::Acquire),
            ended.load(Ordering::Acquire),
        )
    }

    pub(crate) fn count(&self, sent: u64, received: u64) {
        self.sent.store(sent, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
    }

    fn state(&self) -> &'static str {
        let (started, ended) = self.times();
        match (started > 0, ended > 0) {
            (_, true) if self.failed.load(Ordering::Acquire) => "failed",
            (_, true) => "done",
            (true, _) => "under way",
            _ => "queued",
        }
    }

    /// As `all_reduce(sum) #3 float32[2] (done), called at src/main.rs:7:5`.
    fn describe(&self) -> String {
        format!(
            "{} ({}), called at {}",
            self.text,
            self.state(),
            self.caller
        )
    }

    /// Says of an error which operation it is of.
    pub(crate) fn explain(&self, e: TorshError, group: &GroupState) -> TorshError {
        let e = match e.info() {
            Some(i) if i.op.is_empty() || i.op == "poll" => e.renamed(self.kind),
            Some(_) => e,
            None => TorshError::failed(self.kind, e.to_string()),
        };
        let text = format!(
            " ({} of group {}, ranks {:?})",
            self.text, self.group, group.ranks
        );
        change(e, |message| message.push_str(&text)).at(self.caller)
    }

    fn entry(&self) -> Entry {
        let queued = self.queued.duration_since(epoch()).as_secs_f64() * 1e6;
        let at = |ns: u64| (ns > 0).then_some(queued + ns as f64 / 1e3);
        let (started, ended) = self.times();
        Entry {
            kind: self.kind.into(),
            group: self.group.to_string(),
            seq: self.seq,
            text: self.text.clone(),
            caller: self.caller.to_string(),
            state: self.state().into(),
            bytes_sent: self.sent.load(Ordering::Relaxed),
            bytes_received: self.received.load(Ordering::Relaxed),
            queued_us: queued,
            started_us: at(started),
            ended_us: at(ended),
        }
    }
}

/// One operation of the flight record.
///
/// Times are microseconds since the process's first operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// As `all_reduce`.
    pub kind: String,
    /// The group's name.
    pub group: String,
    /// Which operation of its group it was; collectives and messages count apart.
    pub seq: u64,
    /// What all ranks must agree on, as `all_reduce(sum) #3 float32[2]`.
    pub text: String,
    /// Where it was called.
    pub caller: String,
    /// `queued`, `under way`, `done` or `failed`.
    pub state: String,
    /// Bytes sent to other ranks.
    pub bytes_sent: u64,
    /// Bytes received from other ranks.
    pub bytes_received: u64,
    /// When it was called.
    pub queued_us: f64,
    /// When it began, if it has.
    pub started_us: Option<f64>,
    /// When it ended, if it has.
    pub ended_us: Option<f64>,
}

/// The last operations of a rank.
#[derive(Default)]
pub(crate) struct Record {
    last: Mutex<VecDeque<Arc<Ticket>>>,
}

impl Record {
    pub(crate) fn push(&self, ticket: Arc<Ticket>) {
        let mut last = self.last.lock();
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(ticket);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.last.lock().iter().map(|t| t.entry()).collect()
    }

    /// What a rank that asks for an operation of a group hears: whether this rank has called it, and what it did last.
    fn answer(&self, group: &str, seq: u64, collective: bool) -> (bool, String) {
        let last = self.last.lock();
        let alike = |t: &&Arc<Ticket>| &*t.group == group && t.collective == collective;
        let came = last.iter().rev().find(alike).is_some_and(|t| t.seq >= seq);
        let of_group = last.iter().rev().find(|t| &*t.group == group);
        let mut text = match of_group {
            Some(t) => format!("its last operation of the group is {}", t.describe()),
            None => format!("it has called nothing on the group {group}"),
        };
        if let Some(t) = last.back()
            && &*t.group != group
        {
            text += &format!(
                "; its last one of all is {} of group {}",
                t.describe(),
                t.group
            );
        }
        (came, text)
    }

    /// Writes the record to a file; its path, where that went well.
    pub(crate) fn write(&self, node: &Node, reason: &str) -> Option<PathBuf> {
        #[derive(Serialize)]
        struct File<'a> {
            rank: usize,
            world_size: usize,
            engine: &'a str,
            reason: &'a str,
            operations: Vec<Entry>,
        }
        let folder = std::env::var_os("TORSH_DISTRIBUTED_RECORD")
            .map_or_else(std::env::temp_dir, PathBuf::from);
        let name = format!(
            "torsh-flight-record-{}-rank{}.json",
            std::process::id(),
            node.rank
        );
        let file = File {
            rank: node.rank,
            world_size: node.world_size,
            engine: &node.describe,
            reason,
            operations: self.entries(),
        };
        let text = serde_json::to_string_pretty(&file).ok()?;
        std::fs::create_dir_all(&folder).ok()?;
        let path = folder.join(name);
        std::fs::write(&path, text).ok()?;
        Some(path)
    }
}

/// The last 2,000 operations of this rank, oldest first: what was called where, and when it began and ended. It is written
/// as JSON to the folder `TORSH_DISTRIBUTED_RECORD` (the system's for temporary files if that is not set) when an operation
/// fails; the error names the file.
///
/// ```
/// use torsh_distributed::{ReduceOp, flight_record, spawn};
/// use torsh_tensor::tensor;
///
/// spawn(2, |g| {
///     g.all_reduce_(&tensor![1.0, 2.0], ReduceOp::Sum)?;
///     let last = flight_record()?.pop().expect("one operation");
///     assert_eq!(last.text, "all_reduce(sum) #1 float32[2]");
///     assert_eq!((last.state.as_str(), last.bytes_sent), ("done", 8));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If there is no process group.
#[torsh_tensor::names_caller]
pub fn flight_record() -> Result<Vec<Entry>> {
    Ok(crate::init::world()?.flight_record())
}

/// The same error once more: errors cannot be cloned, and all who wait for an operation get one.
pub(crate) fn copy(e: &TorshError) -> TorshError {
    let Some(i) = e.info() else {
        return match e {
            TorshError::OutOfMemory => TorshError::OutOfMemory,
            other => TorshError::Other(other.to_string()),
        };
    };
    let again = Box::new(torsh_core::ErrorInfo {
        op: i.op.clone(),
        message: i.message.clone(),
        operands: i.operands.clone(),
        hint: i.hint.clone(),
        location: i.location,
        backtrace: std::backtrace::Backtrace::disabled(),
    });
    match e {
        TorshError::ShapeMismatch(_) => TorshError::ShapeMismatch(again),
        TorshError::DeviceNotAvailable(_) => TorshError::DeviceNotAvailable(again),
        TorshError::DeviceLost(_) => TorshError::DeviceLost(again),
        TorshError::DeviceMismatch(_) => TorshError::DeviceMismatch(again),
        TorshError::DTypeMismatch(_) => TorshError::DTypeMismatch(again),
        TorshError::InvalidArgument(_) => TorshError::InvalidArgument(again),
        TorshError::Index(_) => TorshError::Index(again),
        TorshError::Autograd(_) => TorshError::Autograd(again),
        TorshError::Format(_) => TorshError::Format(again),
        _ => TorshError::DeviceFailed(again),
    }
}

/// Changes an error's message.
pub(crate) fn change(e: TorshError, f: impl FnOnce(&mut String)) -> TorshError {
    let mut e = e;
    match &mut e {
        TorshError::ShapeMismatch(i)
        | TorshError::DeviceNotAvailable(i)
        | TorshError::DeviceLost(i)
        | TorshError::DeviceFailed(i)
        | TorshError::DeviceMismatch(i)
        | TorshError::DTypeMismatch(i)
        | TorshError::InvalidArgument(i)
        | TorshError::Index(i)
        | TorshError::Autograd(i)
        | TorshError::Format(i) => f(&mut i.message),
        TorshError::Other(text) => f(text),
        _ => {}
    }
    e
}

/// An error that names the file of the flight record.
pub(crate) fn with_record(e: &TorshError, path: Option<PathBuf>) -> TorshError {
    let e = copy(e);
    let Some(path) = path else { return e };
    let record = format!("the flight record is in {}", path.display());
    let hint = match e.info().and_then(|i| i.hint.clone()) {
        Some(hint) => format!("{hint}; {record}"),
        None => record,
    };
    e.with_hint(hint)
}

/// What calls on a group that has failed get.
pub(crate) fn failed_before(kind: &'static str, group: &str, reason: &TorshError) -> TorshError {
    TorshError::failed(
        kind,
        format!("group {group} has failed, and nothing can be called on it any more. What happened first: {reason}"),
    )
    .with_hint("end the program, and start it again from the last checkpoint (torshrun --max-restarts does)")
}

#[cfg(test)]
mod tests;
