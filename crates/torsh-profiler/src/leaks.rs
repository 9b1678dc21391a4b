//! The memory profiler: peaks, and tensors that are still in use.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::{Storage, WeakShared, alloc};
use torsh_tensor::observe::{Call, Observer, ObserverGuard, Work, watch};
use torsh_tensor::{DType, Device, Shape, Tensor};

use crate::{MB, device, name};

/// A tensor's memory that was made while a [`MemoryProfiler`] ran and is still in use.
#[derive(Clone, Debug, PartialEq)]
pub struct Leak {
    /// The op that made it, as `aten::add`; `aten::empty` for memory that a program filled itself.
    pub op: String,
    /// Where that op was called, as `src/main.rs(12)`.
    pub location: Option<String>,
    /// The shape of the tensor it was made for.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: DType,
    /// The device whose memory it is.
    pub device: Device,
    /// The bytes of its elements.
    pub bytes: usize,
}

/// The memory of a device beside the CPU while a [`MemoryProfiler`] ran. Megabytes are 2^20 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMemory {
    /// The device.
    pub device: Device,
    /// The most in use when a tensor was made, or at the start or the end: tensors of all threads.
    pub peak_memory_mb: f64,
    /// In use now, or when it was stopped.
    pub current_memory_mb: f64,
    /// How much more is in use than at the start.
    pub growth_mb: f64,
}

/// What a [`MemoryProfiler`] saw. Megabytes are 2^20 bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// The most in use at once while it ran: CPU tensors of all threads, and what was tracked by
    /// hand.
    pub peak_memory_mb: f64,
    /// In use now, or when it was stopped.
    pub current_memory_mb: f64,
    /// How much more is in use than at the start.
    pub growth_mb: f64,
    /// The bytes of all tensors that were made on the watched thread.
    pub allocated_bytes: usize,
    /// How many they were.
    pub allocations: usize,
    /// Those that are still in use, in the order in which they were made.
    pub potential_leaks: Vec<Leak>,
    /// The bytes of these.
    pub leaked_bytes: usize,
    /// The memory of each device beside the CPU that this program has.
    pub devices: Vec<DeviceMemory>,
}

impl DeviceMemory {
    fn of(d: &InUse) -> DeviceMemory {
        DeviceMemory {
            device: d.device,
            peak_memory_mb: d.peak as f64 / MB,
            current_memory_mb: d.now as f64 / MB,
            growth_mb: (d.now as f64 - d.base as f64) / MB,
        }
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Peak memory usage: {:.2} MB", self.peak_memory_mb)?;
        writeln!(f, "Current usage: {:.2} MB", self.current_memory_mb)?;
        writeln!(f, "Growth: {:.2} MB", self.growth_mb)?;
        for d in &self.devices {
            let (name, peak, now, growth) =
                (d.device, d.peak_memory_mb, d.current_memory_mb, d.growth_mb);
            writeln!(
                f,
                "{name}: peak {peak:.2} MB, current {now:.2} MB, growth {growth:.2} MB"
            )?;
        }
        let (n, bytes) = (self.allocations, self.allocated_bytes);
        writeln!(f, "Allocated: {bytes} bytes in {n} tensors")?;
        let (n, bytes) = (self.potential_leaks.len(), self.leaked_bytes);
        write!(f, "Still in use: {bytes} bytes in {n} tensors")?;
        for l in &self.potential_leaks {
            let Leak {
                op,
                shape,
                dtype,
                bytes,
                device,
                ..
            } = l;
            write!(f, "\n  {op}: {dtype}{shape}, {bytes} bytes")?;
            if !device.is_host() {
                write!(f, " of {device}")?;
            }
            if let Some(at) = &l.location {
                write!(f, ", {at}")?;
            }
        }
        Ok(())
    }
}

struct Made {
    storage: WeakShared<Storage>,
    /// The op's name and place; unknown until an op has it among its results.
    op: Option<(String, Option<String>)>,
    shape: Shape,
    dtype: DType,
    device: Device,
    bytes: usize,
}

/// The bytes that a device has in use.
struct InUse {
    device: Device,
    base: usize,
    peak: usize,
    now: usize,
}

#[derive(Default)]
struct State {
    running: bool,
    made: Vec<Made>,
    allocated_bytes: usize,
    allocations: usize,
    /// Tracked by hand.
    tracked: usize,
    base: usize,
    peak: usize,
    /// What was in use when it was stopped.
    stopped_at: Option<usize>,
    /// The devices beside the CPU.
    devices: Vec<InUse>,
}

impl State {
    fn in_use(&self) -> usize {
        match (self.running, self.stopped_at) {
            (true, _) => alloc::stats().allocated_bytes + self.tracked,
            (false, Some(bytes)) => bytes + self.tracked,
            (false, None) => self.tracked,
        }
    }

    fn note_peak(&mut self) {
        self.peak = self.peak.max(self.in_use());
    }

    /// Reads what the devices have in use, the first time as their base.
    fn note_devices(&mut self) {
        for (device, stats) in device::memory() {
            let now = stats.allocated_bytes;
            match self.devices.iter_mut().find(|d| d.device == device) {
                Some(d) => (d.now, d.peak) = (now, d.peak.max(now)),
                None => self.devices.push(InUse {
                    device,
                    base: now,
                    peak: now,
                    now,
                }),
            }
        }
    }
}

/// Watches the memory of tensors: its peak, and what is still in use when it should not be.
///
/// It sees every tensor that the thread that started it makes. [`MemoryProfiler::track_allocation`]
/// adds memory that it cannot see, as that of files or other libraries.
///
/// ```
/// use torsh_profiler::MemoryProfiler;
/// use torsh_tensor::ones;
///
/// let profiler = MemoryProfiler::new();
/// profiler.start();
/// let x = ones(&[256, 256]);
/// let kept = x.add(1.0)?;
/// drop(x);
/// profiler.stop();
/// let report = profiler.report();
/// assert_eq!(report.potential_leaks.len(), 1);
/// assert_eq!(report.potential_leaks[0].op, "aten::add");
/// assert_eq!(report.leaked_bytes, 256 * 256 * 4);
/// # drop(kept);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryProfiler {
    state: Arc<Mutex<State>>,
}

thread_local! {
    static STARTED: RefCell<Vec<(usize, ObserverGuard)>> = const { RefCell::new(Vec::new()) };
}

impl MemoryProfiler {
    /// One that is not started.
    pub fn new() -> MemoryProfiler {
        MemoryProfiler::default()
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.state) as usize
    }

    /// Starts watching this thread, and forgets what was seen before but for what is tracked by
    /// hand. Nothing happens if it is running.
    pub fn start(&self) {
        {
            let mut s = self.state.lock();
            if s.running {
                return;
            }
            let tracked = s.tracked;
            *s = State {
                running: true,
                tracked,
                ..State::default()
            };
            s.base = s.in_use();
            s.peak = s.base;
            s.note_devices();
        }
        let watcher = Rc::new(Watcher {
            state: self.state.clone(),
            open: RefCell::default(),
        });
        let guard = watch(watcher);
        let id = self.id();
        let old = STARTED.with_borrow_mut(|s| {
            let old = s.iter().position(|(i, _)| *i == id).map(|i| s.remove(i));
            s.push((id, guard));
            old
        });
        drop(old);
    }

    /// [`MemoryProfiler::start`] under its longer name.
    pub fn start_monitoring(&self) {
        self.start();
    }

    /// Stops watching, on the thread that started it. Nothing happens if it is not running.
    pub fn stop(&self) {
        let id = self.id();
        let gone = STARTED.with_borrow_mut(|s| {
            let at = s.iter().position(|(i, _)| *i == id);
            at.map(|i| s.remove(i))
        });
        drop(gone);
        let mut s = self.state.lock();
        if s.running {
            s.note_peak();
            s.note_devices();
            s.stopped_at = Some(s.in_use() - s.tracked);
            s.running = false;
        }
    }

    /// Counts memory that is no tensor's.
    pub fn track_allocation(&self, bytes: usize) {
        let mut s = self.state.lock();
        s.tracked = s.tracked.saturating_add(bytes);
        s.note_peak();
    }

    /// Counts such memory as freed.
    pub fn track_deallocation(&self, bytes: usize) {
        let mut s = self.state.lock();
        s.tracked = s.tracked.saturating_sub(bytes);
    }

    /// What was seen. Tensors that were made meanwhile and are in use now are potential leaks.
    pub fn report(&self) -> MemoryReport {
        let mut s = self.state.lock();
        if s.running {
            s.note_peak();
            s.note_devices();
        }
        let alive = s.made.iter().filter(|m| m.storage.strong_count() > 0);
        let potential_leaks: Vec<Leak> = alive
            .map(|m| {
                let (op, location) = m.op.clone().unwrap_or(("aten::empty".into(), None));
                Leak {
                    op,
                    location,
                    shape: m.shape.clone(),
                    dtype: m.dtype,
                    device: m.device,
                    bytes: m.bytes,
                }
            })
            .collect();
        let now = s.in_use();
        MemoryReport {
            peak_memory_mb: s.peak as f64 / MB,
            current_memory_mb: now as f64 / MB,
            growth_mb: (now as f64 - s.base as f64) / MB,
            allocated_bytes: s.allocated_bytes,
            allocations: s.allocations,
            leaked_bytes: potential_leaks.iter().map(|l| l.bytes).sum(),
            potential_leaks,
            devices: s.devices.iter().map(DeviceMemory::of).collect(),
        }
    }

    /// [`MemoryProfiler::report`] under its longer name.
    pub fn generate_report(&self) -> MemoryReport {
        self.report()
    }
}

impl fmt::Debug for MemoryProfiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.state.lock();
        f.debug_struct("MemoryProfiler")
            .field("running", &s.running)
            .field("allocations", &s.allocations)
            .finish()
    }
}

/// What sees the tensors of a thread.
struct Watcher {
    state: Arc<Mutex<State>>,
    /// The ops that have begun: depth, name and place.
    open: RefCell<Vec<(usize, String, Option<String>)>>,
}

impl Watcher {
    fn place(call: &Call<'_>) -> Option<String> {
        let at = call.location?;
        Some(format!("{}({})", at.file(), at.line()))
    }
}

impl Observer for Watcher {
    fn begin(&self, call: &Call<'_>) {
        if matches!(call.work, Work::Op(_) | Work::InPlace(_)) {
            let entry = (call.depth, name::of(call), Self::place(call));
            self.open.borrow_mut().push(entry);
        }
    }

    fn end(&self, call: &Call<'_>, outputs: Option<&[Tensor]>) {
        if !matches!(call.work, Work::Op(_) | Work::InPlace(_)) {
            return;
        }
        self.open.borrow_mut().retain(|(d, ..)| *d < call.depth);
        // Memory that was made ahead of the op which first writes into it is that op's.
        let mut s = self.state.lock();
        for t in outputs.unwrap_or_default() {
            let storage = t.weak_storage();
            let mut newest = s.made.iter_mut().rev();
            if let Some(m) = newest.find(|m| std::ptr::eq(m.storage.as_ptr(), storage.as_ptr()))
                && m.op.is_none()
            {
                m.op = Some((name::of(call), Self::place(call)));
            }
        }
    }

    fn made(&self, t: &Tensor) {
        if !t.layout().is_strided() {
            // It has no memory but that of its parts, which are made on their own.
            return;
        }
        let op = self
            .open
            .borrow()
            .last()
            .map(|(_, n, at)| (n.clone(), at.clone()));
        let bytes = t.numel() * t.dtype().size();
        let mut s = self.state.lock();
        s.allocated_bytes += bytes;
        s.allocations += 1;
        s.note_peak();
        if device::is_timed(t.device()) {
            s.note_devices();
        }
        // What is gone is no leak; the list is cleaned whenever it has doubled.
        if s.made.len() == s.made.capacity() {
            s.made.retain(|m| m.storage.strong_count() > 0);
            let n = s.made.len();
            s.made.reserve(n.max(64));
        }
        s.made.push(Made {
            storage: t.weak_storage(),
            op,
            shape: t.shape().clone(),
            dtype: t.dtype(),
            device: t.device(),
            bytes,
        });
    }
}
