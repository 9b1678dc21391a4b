//! The cost of running a model.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use torsh_core::os::processor_seconds;
use torsh_tensor::{Result, TorshError};

use crate::{MB, Profile, device};

/// What a [`ModelProfiler`] measured between start and stop. Megabytes are 2^20 bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerformanceMetrics {
    /// How long it took.
    pub duration_ms: f64,
    /// How many ops ran on this thread, those of backward included.
    pub op_count: usize,
    /// The time spent in ops.
    pub op_time_ms: f64,
    /// How much more memory all tensors of the process use afterwards, on all devices.
    pub memory_growth_mb: f64,
    /// What this thread allocated for tensors on the CPU.
    pub allocated_mb: f64,
    /// The share of the machine's processors that the process used, from 0 to 1; `None` where the
    /// system does not tell (Linux, Windows and macOS do), or the time was too short for its clock.
    pub cpu_utilization: Option<f64>,
    /// The share of the time in which a device beside the CPU worked on ops of this thread, from 0 to
    /// 1; `None` where none did.
    pub gpu_utilization: Option<f64>,
}

impl fmt::Display for PerformanceMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Duration: {:.3} ms", self.duration_ms)?;
        writeln!(f, "Ops: {} in {:.3} ms", self.op_count, self.op_time_ms)?;
        writeln!(f, "Allocated: {:.2} MB", self.allocated_mb)?;
        writeln!(f, "Memory growth: {:.2} MB", self.memory_growth_mb)?;
        let share = |u: Option<f64>| u.map_or("unknown".into(), |u| format!("{:.1}%", u * 100.0));
        writeln!(f, "CPU utilization: {}", share(self.cpu_utilization))?;
        write!(f, "GPU utilization: {}", share(self.gpu_utilization))
    }
}

struct Running {
    profile: Profile,
    began: Instant,
    allocated: usize,
    cpu: Option<f64>,
}

/// Measures what happens on this thread between [`ModelProfiler::start`] and
/// [`ModelProfiler::stop`].
///
/// ```
/// use torsh_profiler::ModelProfiler;
/// use torsh_tensor::ones;
/// let x = ones(&[256, 256]);
/// let profiler = ModelProfiler::new();
/// profiler.start()?;
/// let y = x.add(1.0)?.mul(2.0)?;
/// let metrics = profiler.stop()?;
/// assert_eq!((metrics.op_count, metrics.allocated_mb), (2, 0.5));
/// assert!(metrics.op_time_ms <= metrics.duration_ms);
/// # drop(y);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct ModelProfiler {
    running: Arc<Mutex<Option<Running>>>,
}

impl ModelProfiler {
    /// One that is not started.
    pub fn new() -> ModelProfiler {
        ModelProfiler::default()
    }

    /// Starts, once devices have done what they were given before.
    ///
    /// # Errors
    /// `InvalidArgument` if it is running.
    #[torsh_tensor::names_caller]
    pub fn start(&self) -> Result<()> {
        let mut running = self.running.lock();
        if running.is_some() {
            return Err(TorshError::invalid("start", "the profiler is running")
                .with_hint("call stop() first"));
        }
        let profile = Profile::builder().profile_memory(true).build();
        device::wait();
        profile.start()?;
        *running = Some(Running {
            profile,
            allocated: device::allocated_bytes(),
            cpu: processor_seconds(),
            began: Instant::now(),
        });
        Ok(())
    }

    /// Stops, on the thread that started it, once devices have done their work, and tells what was
    /// measured.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not running; what devices report, as [`Profile::stop`].
    #[torsh_tensor::names_caller]
    pub fn stop(&self) -> Result<PerformanceMetrics> {
        let Some(r) = self.running.lock().take() else {
            return Err(TorshError::invalid("stop", "the profiler is not running"));
        };
        device::wait();
        let seconds = r.began.elapsed().as_secs_f64();
        r.profile.stop()?;
        let events = r.profile.events();
        let ops = || events.iter().filter(|e| e.name.starts_with("aten::"));
        let top = events.iter().filter(|e| e.parent.is_none());
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let cpu = processor_seconds()
            .zip(r.cpu)
            .map(|(after, before)| after - before);
        Ok(PerformanceMetrics {
            duration_ms: seconds * 1e3,
            op_count: ops().count(),
            op_time_ms: ops().map(|e| e.self_cpu_time_total).sum::<f64>() / 1e3,
            memory_growth_mb: (device::allocated_bytes() as f64 - r.allocated as f64) / MB,
            allocated_mb: top.map(|e| e.allocated_bytes).sum::<u64>() as f64 / MB,
            cpu_utilization: cpu
                .filter(|_| seconds >= 10.0 * TICK)
                .map(|cpu| (cpu / seconds / cores).clamp(0.0, 1.0)),
            gpu_utilization: device::busy(
                events.iter().filter_map(|e| e.device.as_ref()),
                seconds * 1e6,
            ),
        })
    }
}

impl fmt::Debug for ModelProfiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.lock().is_some();
        f.debug_struct("ModelProfiler")
            .field("running", &running)
            .finish()
    }
}

/// How finely processor time is counted: by Linux in hundredths of a second, by Windows in its ticks of about a 64th.
const TICK: f64 = if cfg!(windows) { 1.0 / 64.0 } else { 0.01 };
