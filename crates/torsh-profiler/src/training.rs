//! The phases of a training loop.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device;

/// The mean times of a training loop's phases, in milliseconds per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingProfile {
    /// How many steps were measured.
    pub steps: usize,
    /// Up to the mark `data_loading`.
    pub avg_data_loading_ms: f64,
    /// Up to the mark `forward_pass`.
    pub avg_forward_ms: f64,
    /// Up to the mark `loss_computation`.
    pub avg_loss_ms: f64,
    /// Up to the mark `backward_pass`.
    pub avg_backward_ms: f64,
    /// Up to the mark `optimizer_step`.
    pub avg_optimizer_ms: f64,
    /// A whole step.
    pub avg_total_ms: f64,
    /// Samples in a second; steps in a second where no batch size was given.
    pub samples_per_second: f64,
    /// Every mark with its mean time per step, in the order in which they first came.
    pub phases: Vec<(String, f64)>,
}

impl TrainingProfile {
    /// The mean time per step of a phase by its mark; 0 for a mark that never came.
    pub fn phase_ms(&self, mark: &str) -> f64 {
        let found = self.phases.iter().find(|(n, _)| n == mark);
        found.map_or(0.0, |(_, ms)| *ms)
    }

    /// The phase that takes longest.
    pub fn bottleneck(&self) -> Option<&str> {
        let longest = self.phases.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        longest.map(|(n, _)| n.as_str())
    }
}

impl fmt::Display for TrainingProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Training profile of {} steps:", self.steps)?;
        for (name, ms) in &self.phases {
            writeln!(f, "  {name}: {ms:.2}ms")?;
        }
        writeln!(f, "  total per step: {:.2}ms", self.avg_total_ms)?;
        write!(f, "  throughput: {:.1} samples/s", self.samples_per_second)
    }
}

#[derive(Default)]
struct State {
    /// When the step began, and when its last phase did.
    began: Option<(Instant, Instant)>,
    phases: Vec<(String, Duration)>,
    steps: usize,
    samples: usize,
    total: Duration,
    batch_size: Option<usize>,
}

/// Splits the steps of a training loop into phases: each mark ends one.
///
/// Where the program has a device beside the CPU, each mark waits for it, so that its work is part of
/// the phase that asked for it. A loop without marks runs ahead of the device and may be faster.
///
/// ```
/// use torsh_profiler::TrainingProfiler;
/// let profiler = TrainingProfiler::new();
/// profiler.set_batch_size(32);
/// profiler.start();
/// for _ in 0..3 {
///     profiler.mark("data_loading");
///     profiler.mark("forward_pass");
///     profiler.mark("loss_computation");
///     profiler.mark("backward_pass");
///     profiler.step();
/// }
/// let profile = profiler.finish();
/// assert_eq!((profile.steps, profile.phases.len()), (3, 4));
/// let parts = profile.avg_data_loading_ms + profile.avg_forward_ms
///     + profile.avg_loss_ms + profile.avg_backward_ms;
/// assert!(parts <= profile.avg_total_ms + 1e-9);
/// ```
#[derive(Clone, Default)]
pub struct TrainingProfiler {
    state: Arc<Mutex<State>>,
}

impl TrainingProfiler {
    /// One that is not started.
    pub fn new() -> TrainingProfiler {
        TrainingProfiler::default()
    }

    /// How many samples a step takes, for the throughput; from the next [`TrainingProfiler::step`]
    /// on.
    pub fn set_batch_size(&self, samples: usize) {
        self.state.lock().batch_size = Some(samples);
    }

    /// Starts, and forgets what was measured before.
    pub fn start(&self) {
        device::wait();
        let now = Instant::now();
        let mut s = self.state.lock();
        *s = State {
            began: Some((now, now)),
            batch_size: s.batch_size,
            ..State::default()
        };
    }

    /// Ends a phase: the time since the mark before it, or since the step began, is its. A mark
    /// that comes several times in a step adds up. Ahead of a start it starts.
    pub fn mark(&self, name: &str) {
        device::wait();
        let now = Instant::now();
        let mut s = self.state.lock();
        let (step, last) = s.began.unwrap_or((now, now));
        s.began = Some((step, now));
        s.add(name, now - last);
    }

    /// Ends a step; the next one begins.
    pub fn step(&self) {
        device::wait();
        let now = Instant::now();
        let mut s = self.state.lock();
        let (began, _) = s.began.replace((now, now)).unwrap_or((now, now));
        s.total += now - began;
        s.steps += 1;
        s.samples += s.batch_size.unwrap_or(1);
    }

    /// Stops, and tells the means. Marks after the last step are part of none but count in their
    /// phases' sums.
    pub fn finish(&self) -> TrainingProfile {
        let mut s = self.state.lock();
        s.began = None;
        s.profile()
    }
}

impl State {
    fn add(&mut self, name: &str, time: Duration) {
        match self.phases.iter_mut().find(|(n, _)| n == name) {
            Some((_, sum)) => *sum += time,
            None => self.phases.push((name.to_string(), time)),
        }
    }

    fn profile(&self) -> TrainingProfile {
        let mean = |d: Duration| d.as_secs_f64() * 1e3 / self.steps.max(1) as f64;
        let phases = self.phases.iter().map(|(n, d)| (n.clone(), mean(*d)));
        let mut p = TrainingProfile {
            steps: self.steps,
            avg_total_ms: mean(self.total),
            samples_per_second: match self.total.is_zero() {
                true => 0.0,
                false => self.samples as f64 / self.total.as_secs_f64(),
            },
            phases: phases.collect(),
            ..Default::default()
        };
        p.avg_data_loading_ms = p.phase_ms("data_loading");
        p.avg_forward_ms = p.phase_ms("forward_pass");
        p.avg_loss_ms = p.phase_ms("loss_computation");
        p.avg_backward_ms = p.phase_ms("backward_pass");
        p.avg_optimizer_ms = p.phase_ms("optimizer_step");
        p
    }
}

impl fmt::Debug for TrainingProfiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.state.lock().profile();
        f.debug_tuple("TrainingProfiler").field(&p).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_made_up_times() {
        let ms = Duration::from_millis;
        let mut s = State {
            steps: 2,
            samples: 64,
            total: ms(40),
            ..State::default()
        };
        s.add("data_loading", ms(4));
        s.add("forward_pass", ms(10));
        s.add("data_loading", ms(6));
        s.add("backward_pass", ms(16));
        let p = s.profile();
        assert_eq!((p.avg_data_loading_ms, p.avg_forward_ms), (5.0, 5.0));
        assert_eq!((p.avg_backward_ms, p.avg_loss_ms), (8.0, 0.0));
        assert_eq!((p.avg_total_ms, p.samples_per_second), (20.0, 1600.0));
        assert_eq!(p.bottleneck(), Some("backward_pass"));
        assert_eq!(
            p.to_string(),
            "Training profile of 2 steps:\n  data_loading: 5.00ms\n  forward_pass: 5.00ms\n  backward_pass: 8.00ms\n  total per step: 20.00ms\n  throughput: 1600.0 samples/s"
        );
    }
}
