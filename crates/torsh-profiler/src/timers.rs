//! Named timers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};

use crate::device;

/// The measurements of one name, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The name.
    pub name: String,
    /// How often it was measured.
    pub count: usize,
    /// The sum.
    pub total_ms: f64,
    /// The mean.
    pub avg_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// The timings of a [`Profiler`], in the order of their first measurements.
///
/// Printed, a line for each: `forward: avg=1.0000ms, min=1.0000ms, max=1.0000ms`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfilerReport {
    /// The timings.
    pub timings: Vec<Timing>,
}

impl ProfilerReport {
    /// The timing of a name.
    pub fn get(&self, name: &str) -> Option<&Timing> {
        self.timings.iter().find(|t| t.name == name)
    }
}

impl fmt::Display for ProfilerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, t) in self.timings.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            let Timing {
                name,
                avg_ms,
                min_ms,
                max_ms,
                ..
            } = t;
            write!(
                f,
                "{end}{name}: avg={avg_ms:.4}ms, min={min_ms:.4}ms, max={max_ms:.4}ms"
            )?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    /// In the order of their first measurements.
    times: Vec<(String, Vec<Duration>)>,
    running: HashMap<(ThreadId, String), Instant>,
}

/// Named timers: how long the parts of a program take. A handle; every thread's measurements of a
/// name count together.
///
/// Where the program has a device beside the CPU, a timer waits for it as it starts and as it ends, so
/// that what is measured is the work and not the asking for it. Errors of that work are left to the
/// program's own next wait.
///
/// ```
/// use std::time::Duration;
/// use torsh_profiler::Profiler;
/// let profiler = Profiler::new();
/// let sum: u64 = profiler.time("sum", || (1..=10).sum());
/// assert_eq!(sum, 55);
/// profiler.start("load");
/// profiler.end("load")?;
/// profiler.record("step", Duration::from_millis(2));
/// profiler.record("step", Duration::from_millis(4));
/// let step = profiler.report().get("step").cloned().unwrap();
/// assert_eq!((step.count, step.avg_ms, step.min_ms, step.max_ms), (2, 3.0, 2.0, 4.0));
/// println!("{}", profiler.summary());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct Profiler {
    state: Arc<Mutex<State>>,
}

impl Profiler {
    /// Without measurements.
    pub fn new() -> Profiler {
        Profiler::default()
    }

    /// Starts the timer of a name on this thread; one that runs starts again.
    pub fn start(&self, name: &str) {
        let key = (std::thread::current().id(), name.to_string());
        device::wait();
        self.state.lock().running.insert(key, Instant::now());
    }

    /// Ends the timer of a name, and returns what it measured.
    ///
    /// # Errors
    /// `InvalidArgument` if this thread has not started it.
    #[torsh_tensor::names_caller]
    pub fn end(&self, name: &str) -> Result<Duration> {
        device::wait();
        let now = Instant::now();
        let key = (std::thread::current().id(), name.to_string());
        let Some(began) = self.state.lock().running.remove(&key) else {
            return Err(TorshError::invalid(
                "end",
                format!("the timer `{name}` is not running on this thread"),
            )
            .with_hint("call start(name) first"));
        };
        let time = now - began;
        self.record(name, time);
        Ok(time)
    }

    /// Runs `f` and measures it.
    pub fn time<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        device::wait();
        let began = Instant::now();
        let r = f();
        device::wait();
        self.record(name, began.elapsed());
        r
    }

    /// Adds a measurement.
    pub fn record(&self, name: &str, time: Duration) {
        let mut s = self.state.lock();
        match s.times.iter_mut().find(|(n, _)| n == name) {
            Some((_, times)) => times.push(time),
            None => s.times.push((name.to_string(), vec![time])),
        }
    }

    /// The measurements of a name, in order.
    pub fn times(&self, name: &str) -> Vec<Duration> {
        let s = self.state.lock();
        let found = s.times.iter().find(|(n, _)| n == name);
        found.map_or(Vec::new(), |(_, t)| t.clone())
    }

    /// Mean, shortest and longest of each name.
    pub fn report(&self) -> ProfilerReport {
        let ms = |d: &Duration| d.as_secs_f64() * 1e3;
        let s = self.state.lock();
        let timing = |(name, times): &(String, Vec<Duration>)| {
            let total: f64 = times.iter().map(ms).sum();
            Timing {
                name: name.clone(),
                count: times.len(),
                total_ms: total,
                avg_ms: total / times.len() as f64,
                min_ms: times.iter().map(ms).fold(f64::INFINITY, f64::min),
                max_ms: times.iter().map(ms).fold(0.0, f64::max),
            }
        };
        ProfilerReport {
            timings: s.times.iter().map(timing).collect(),
        }
    }

    /// A table of the timings, those that took longest in all first, and their shares of the sum.
    pub fn summary(&self) -> String {
        let mut timings = self.report().timings;
        timings.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        let all: f64 = timings.iter().map(|t| t.total_ms).sum();
        let width = timings.iter().map(|t| t.name.chars().count()).max();
        let w = width.unwrap_or(0).max("Name".len());
        let mut out = format!(
            "{:<w$}  {:>8}  {:>12}  {:>12}  {:>12}  {:>12}  {:>7}",
            "Name", "Calls", "Total (ms)", "Avg (ms)", "Min (ms)", "Max (ms)", "Share"
        );
        for t in &timings {
            let share = if all > 0.0 {
                100.0 * t.total_ms / all
            } else {
                0.0
            };
            out += &format!(
                "\n{:<w$}  {:>8}  {:>12.4}  {:>12.4}  {:>12.4}  {:>12.4}  {share:>6.2}%",
                t.name, t.count, t.total_ms, t.avg_ms, t.min_ms, t.max_ms
            );
        }
        out
    }

    /// Forgets all measurements and running timers.
    pub fn reset(&self) {
        *self.state.lock() = State::default();
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profiler")
            .field(&self.report().timings)
            .finish()
    }
}

impl fmt::Display for Profiler {
    /// [`Profiler::summary`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}
