//! The log of events that each thread records.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use torsh_core::alloc::{self, ThreadStats};
use torsh_tensor::call::Arg;
use torsh_tensor::observe::{Call, Observer, Work};
use torsh_tensor::{Device, Result, Tensor};

use crate::communication::{self, Operation};
use crate::device::{self, Mark, Pair, Timed};
use crate::event::ThreadName;
use crate::{EventKind, EventList, FunctionEvent, ProfileOptions, name};

/// The name of memory events.
const MEMORY: &str = "[memory]";

/// The memory of a device in use at a moment, by the whole process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) device: Device,
    pub(crate) thread: usize,
    pub(crate) at_us: f64,
    pub(crate) allocated_bytes: usize,
}

/// An event that has begun on this thread.
struct Open {
    event: usize,
    /// That of the call; `None` for a step, which no call ends.
    depth: Option<usize>,
    memory: ThreadStats,
    /// Where it was called, for the stacks of what runs in it.
    line: Option<String>,
    /// Whether it begins on the device of the first memory that is made in it.
    waits: bool,
    /// The device's mark ahead of its work.
    start: Option<Mark>,
}

/// What one thread saw.
struct Log {
    thread: ThreadName,
    events: Vec<FunctionEvent>,
    open: Vec<Open>,
    /// The thread's figures when the last event ended that lies in no other, where known.
    memory: Option<ThreadStats>,
    samples: Vec<Sample>,
    /// The marks around events whose times on a device are not read yet.
    pairs: Vec<Pair>,
}

/// What all threads of a profile share.
pub(crate) struct Shared {
    pub(crate) options: ProfileOptions,
    pub(crate) recording: AtomicBool,
    made: Instant,
    /// When what is recorded began, in nanoseconds after `made`.
    began: AtomicU64,
    threads: Mutex<Vec<Arc<Mutex<Log>>>>,
    next_thread: AtomicUsize,
    /// What the threads let other ones send and receive.
    operations: Mutex<Vec<Arc<dyn Operation>>>,
    /// When the recording ended, if it has.
    stopped: Mutex<Option<Instant>>,
}

impl Shared {
    pub(crate) fn new(options: ProfileOptions) -> Shared {
        Shared {
            options,
            recording: AtomicBool::new(false),
            made: Instant::now(),
            began: AtomicU64::new(0),
            threads: Mutex::new(Vec::new()),
            next_thread: AtomicUsize::new(1),
            operations: Mutex::new(Vec::new()),
            stopped: Mutex::new(None),
        }
    }

    /// Forgets what was seen and records from now on.
    pub(crate) fn restart(&self) {
        self.clear();
        self.recording.store(true, Ordering::Release);
    }

    /// Forgets what was seen.
    pub(crate) fn clear(&self) {
        self.began.store(self.nanoseconds(), Ordering::Relaxed);
        *self.stopped.lock() = None;
        // Its operations may be anything, so they are dropped without the lock.
        let gone = std::mem::take(&mut *self.operations.lock());
        drop(gone);
        for log in self.threads.lock().iter() {
            let mut log = log.lock();
            log.events.clear();
            log.open.clear();
            log.samples.clear();
            log.pairs.clear();
            // Another thread's figures are not to be had from here; it reads them as it goes on.
            log.memory = None;
        }
    }

    /// Records no more; what has not ended ends now.
    pub(crate) fn stop(&self) {
        self.recording.store(false, Ordering::Release);
        self.stopped.lock().get_or_insert_with(Instant::now);
        let now = self.now();
        for log in self.threads.lock().iter() {
            let mut log = log.lock();
            while let Some(open) = log.open.pop() {
                log.events[open.event].end_us = now;
            }
        }
    }

    /// After [`Shared::stop`]: waits for the devices that worked for events, and reads when they did.
    ///
    /// # Errors
    /// What the devices' work failed with, of which this is the first to hear.
    pub(crate) fn settle(&self) -> Result<()> {
        let logs: Vec<Arc<Mutex<Log>>> = self.threads.lock().clone();
        let mut result = Ok(());
        // By how much the profile's clock is ahead of each device's.
        let mut offsets: Vec<(Device, Option<f64>)> = Vec::new();
        for log in logs {
            // Not under the log's lock: a wait may be long.
            let pairs = std::mem::take(&mut log.lock().pairs);
            for pair in &pairs {
                let device = pair.start.device;
                if !offsets.iter().any(|(d, _)| *d == device) {
                    let (offset, waited) = self.offset(device);
                    offsets.push((device, offset));
                    result = result.and(waited);
                }
            }
            let mut log = log.lock();
            for pair in pairs {
                let device = pair.start.device;
                let offset = offsets.iter().find(|(d, _)| *d == device);
                if let Some(e) = log.events.get_mut(pair.event) {
                    e.device = offset.and_then(|o| pair.span(o.1?));
                }
            }
        }
        result
    }

    /// Waits for a device; by how many microseconds the profile's clock is ahead of its own then.
    fn offset(&self, device: Device) -> (Option<f64>, Result<()>) {
        let waited = torsh_tensor::devices::synchronize(device);
        // The times are there all the same where some work failed.
        let Some(mark) = Mark::here(device) else {
            return (None, waited);
        };
        match mark.reached() {
            Ok(at) => (at.map(|at| self.now() - at), waited),
            Err(e) => (None, waited.and(Err(e))),
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.made.elapsed().as_nanos() as u64
    }

    /// Microseconds since the recording began.
    fn now(&self) -> f64 {
        let began = self.began.load(Ordering::Relaxed);
        self.nanoseconds().saturating_sub(began) as f64 / 1e3
    }

    /// The events so far, those that have not ended up to now.
    pub(crate) fn events(&self) -> EventList {
        let now = self.now();
        let mut all = Vec::new();
        for log in self.threads.lock().iter() {
            let log = log.lock();
            let from = all.len();
            let mut events = log.events.clone();
            for open in &log.open {
                events[open.event].end_us = now;
            }
            all.extend(merged(events).into_iter().map(|mut e| {
                e.parent = e.parent.map(|p| p + from);
                e
            }));
        }
        all.extend(self.communication().0);
        // Parents lie ahead of their children in each log.
        EventList::new(all, self.options.profile_memory).unwrap_or_default()
    }

    /// The events of communication, and their lanes.
    fn communication(&self) -> (Vec<FunctionEvent>, Vec<ThreadName>) {
        let operations = self.operations.lock().clone();
        let began = Duration::from_nanos(self.began.load(Ordering::Relaxed));
        let now = self.stopped.lock().unwrap_or_else(Instant::now);
        communication::lanes(&operations, self.made + began, now)
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        let threads = self.threads.lock();
        threads
            .iter()
            .flat_map(|l| l.lock().samples.clone())
            .collect()
    }

    pub(crate) fn thread_names(&self) -> Vec<ThreadName> {
        let lanes = self.communication().1;
        let threads = self.threads.lock();
        let threads = threads.iter().map(|l| l.lock().thread.clone());
        threads.chain(lanes).collect()
    }
}

/// Leaves out an event that is all there is in another one of its name, as PyTorch does: an op
/// that is called by name and by its method is one op.
fn merged(events: Vec<FunctionEvent>) -> Vec<FunctionEvent> {
    let mut children = vec![0; events.len()];
    for p in events.iter().filter_map(|e| e.parent) {
        children[p] += 1;
    }
    // Where each event went: its own new place, or that of the event it was merged into.
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut out: Vec<FunctionEvent> = Vec::new();
    for (i, mut e) in events.into_iter().enumerate() {
        if let Some(p) = e.parent {
            let place = places[&p];
            if children[p] == 1 && out[place].name == e.name {
                out[place].device = out[place].device.or(e.device);
                places.insert(i, place);
                continue;
            }
            e.parent = Some(place);
        }
        places.insert(i, out.len());
        out.push(e);
    }
    out
}

/// Watches one thread.
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    log: Arc<Mutex<Log>>,
}

thread_local! {
    /// The number this thread has in each profile it was part of, so that it keeps it.
    static KNOWN: std::cell::RefCell<Vec<(std::sync::Weak<Shared>, Arc<Mutex<Log>>)>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

impl Recorder {
    /// The recorder of the calling thread; a thread that comes back goes on with its log.
    pub(crate) fn here(shared: &Arc<Shared>) -> Recorder {
        let known = KNOWN.with_borrow_mut(|known| {
            known.retain(|(s, _)| s.strong_count() > 0);
            let mut same = known
                .iter()
                .filter(|(s, _)| std::ptr::eq(s.as_ptr(), &**shared));
            same.next().map(|(_, log)| log.clone())
        });
        let log = known.unwrap_or_else(|| {
            let id = shared.next_thread.fetch_add(1, Ordering::Relaxed);
            let name = std::thread::current().name().map(str::to_string);
            let log = Arc::new(Mutex::new(Log {
                thread: ThreadName {
                    id,
                    name: name.unwrap_or_else(|| format!("thread {id}")),
                },
                events: Vec::new(),
                open: Vec::new(),
                memory: None,
                samples: Vec::new(),
                pairs: Vec::new(),
            }));
            shared.threads.lock().push(log.clone());
            KNOWN.with_borrow_mut(|k| k.push((Arc::downgrade(shared), log.clone())));
            log
        });
        log.lock().memory = Some(alloc::thread_stats());
        Recorder {
            shared: shared.clone(),
            log,
        }
    }

    /// Keeps an operation, which the profile asks when it is read.
    pub(crate) fn communicates(&self, operation: Arc<dyn Operation>) {
        self.shared.operations.lock().push(operation);
    }

    pub(crate) fn recording(&self) -> bool {
        self.shared.recording.load(Ordering::Acquire)
    }

    /// Counts this thread's memory from now on.
    pub(crate) fn begin(&self) {
        self.log.lock().memory = Some(alloc::thread_stats());
    }

    /// Counts this thread's memory up to now.
    pub(crate) fn finish(&self) {
        let (now, memory) = (self.shared.now(), alloc::thread_stats());
        let mut log = self.log.lock();
        if log.open.is_empty() {
            log.outside(now, memory, self.shared.options.profile_memory);
        }
    }

    /// Begins a step of a training loop.
    pub(crate) fn begin_step(&self, step: usize) {
        let event = FunctionEvent {
            name: format!("ProfilerStep#{step}"),
            kind: EventKind::User,
            ..Default::default()
        };
        self.push(event, None, None, Timed::No);
    }

    /// Ends the step that was begun last, and what has not ended in it.
    pub(crate) fn end_step(&self) {
        let (now, memory) = (self.shared.now(), alloc::thread_stats());
        let mut log = self.log.lock();
        if let Some(i) = log.open.iter().rposition(|o| o.depth.is_none()) {
            log.close(i, now, memory);
        }
    }

    /// Begins an event; its clock starts last.
    fn push(
        &self,
        mut event: FunctionEvent,
        depth: Option<usize>,
        line: Option<String>,
        timed: Timed,
    ) {
        let mark = match timed {
            Timed::On(device) => Mark::here(device),
            Timed::No | Timed::WhenMade => None,
        };
        let mut log = self.log.lock();
        let memory = alloc::thread_stats();
        if log.open.is_empty() {
            log.outside(
                self.shared.now(),
                memory,
                self.shared.options.profile_memory,
            );
        }
        event.parent = log.open.last().map(|o| o.event);
        event.thread = log.thread.id;
        if self.shared.options.with_stack {
            event.stack.extend(line.clone());
            let outer = log.open.iter().rev().filter_map(|o| o.line.clone());
            event.stack.extend(outer);
        }
        let place = log.events.len();
        log.open.push(Open {
            event: place,
            depth,
            memory,
            line,
            waits: matches!(timed, Timed::WhenMade),
            start: mark,
        });
        event.start_us = self.shared.now();
        event.end_us = event.start_us;
        log.events.push(event);
    }
}

impl Log {
    /// What the thread allocated and freed since the last event that lies in no other.
    fn outside(&mut self, now: f64, memory: ThreadStats, wanted: bool) {
        let before = self.memory.replace(memory).unwrap_or(memory);
        let allocated = memory.allocated_bytes - before.allocated_bytes;
        let freed = memory.freed_bytes - before.freed_bytes;
        if wanted && allocated != freed {
            self.events.push(FunctionEvent {
                name: MEMORY.into(),
                kind: EventKind::Memory,
                thread: self.thread.id,
                start_us: now,
                end_us: now,
                allocated_bytes: allocated,
                freed_bytes: freed,
                ..Default::default()
            });
        }
    }

    /// Ends open event `i` and those in it.
    fn close(&mut self, i: usize, now: f64, memory: ThreadStats) {
        while self.open.len() > i {
            let Some(open) = self.open.pop() else { return };
            let e = &mut self.events[open.event];
            e.end_us = now;
            e.allocated_bytes = memory.allocated_bytes - open.memory.allocated_bytes;
            e.freed_bytes = memory.freed_bytes - open.memory.freed_bytes;
        }
        if self.open.is_empty() {
            self.memory = Some(memory);
        }
    }
}

fn shapes(call: &Call<'_>) -> Vec<Vec<usize>> {
    match call.work {
        // What comes in are the gradients of the node's results.
        Work::Formula(node) => node.outputs().map(|(s, _)| s.dims().to_vec()).collect(),
        _ => {
            let dims = |a: &Arg<'_>| match a {
                Arg::T(t) => t.dims().to_vec(),
                Arg::N(_) | Arg::Absent => Vec::new(),
            };
            call.args.iter().map(dims).collect()
        }
    }
}

/// The line of a call as PyTorch shows one: `file(line): name`.
pub(crate) fn line(at: &Location<'_>, name: &str) -> String {
    format!("{}({}): {name}", at.file(), at.line())
}

impl Observer for Recorder {
    fn begin(&self, call: &Call<'_>) {
        if !self.recording() {
            return;
        }
        let options = &self.shared.options;
        let name = name::of(call);
        // Backward shows where the forward call was.
        let at = match call.work {
            Work::Node(n) | Work::Formula(n) => n.location(),
            _ => call.location,
        };
        let line = at.filter(|_| options.with_stack).map(|at| line(at, &name));
        let event = FunctionEvent {
            kind: name::kind(call),
            input_shapes: match options.record_shapes {
                true => shapes(call),
                false => Vec::new(),
            },
            name,
            ..Default::default()
        };
        if matches!(call.work, Work::Fallback(_)) {
            // The device does nothing for the ops that this is part of; they wait for the CPU.
            for open in &mut self.log.lock().open {
                (open.start, open.waits) = (None, false);
            }
        }
        self.push(event, Some(call.depth), line, device::of(call));
    }

    fn made(&self, tensor: &Tensor) {
        let device = tensor.device();
        if !device::is_timed(device) || !self.recording() {
            return;
        }
        let mut log = self.log.lock();
        // Its elements are not written yet: what writes them comes after the mark.
        if let Some(open) = log.open.last_mut().filter(|o| o.waits) {
            (open.start, open.waits) = (Mark::here(device), false);
        }
    }

    fn end(&self, call: &Call<'_>, _: Option<&[Tensor]>) {
        let now = self.shared.now();
        if !self.recording() {
            return;
        }
        let memory = alloc::thread_stats();
        let profile_memory = self.shared.options.profile_memory;
        let mut log = self.log.lock();
        // What had begun before the recording is not there.
        let Some(i) = log.open.iter().rposition(|o| o.depth == Some(call.depth)) else {
            return;
        };
        let open = &mut log.open[i];
        let (event, start) = (open.event, open.start.take());
        let changed = profile_memory && open.memory != memory;
        log.close(i, now, memory);
        let thread = log.thread.id;
        if changed {
            log.samples.push(Sample {
                device: Device::Cpu,
                thread,
                at_us: now,
                allocated_bytes: alloc::stats().allocated_bytes,
            });
        }
        let Some(start) = start else { return };
        let device = start.device;
        if let Some(end) = Mark::here(device) {
            log.pairs.push(Pair { event, start, end });
        }
        if !profile_memory {
            return;
        }
        let Ok(stats) = torsh_tensor::devices::memory_stats(device) else {
            return;
        };
        let last = log.samples.iter().rev().find(|s| s.device == device);
        if last.is_none_or(|s| s.allocated_bytes != stats.allocated_bytes) {
            log.samples.push(Sample {
                device,
                thread,
                at_us: now,
                allocated_bytes: stats.allocated_bytes,
            });
        }
    }
}
