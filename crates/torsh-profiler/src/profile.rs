//! The profiler: starting, stopping, and the recorded profile.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use torsh_tensor::observe::{ObserverGuard, range, watch};
use torsh_tensor::{Result, TorshError, options};

use crate::communication::Operation;
use crate::log::{Recorder, Shared};
use crate::{
    EventList, FunctionEventAvg, KeyAverages, KeyAveragesOptions, ProfilerAction, Schedule, trace,
};

options! {
    /// PyTorch's arguments of `torch.profiler.profile`.
    ProfileOptions {
        /// Whether the shapes of operands are recorded.
        record_shapes: bool = false;
        /// Whether memory is: what each event allocated and freed on its thread, in the capacities
        /// of the allocator's blocks: requests rounded up (to a power of two from 64 bytes on, to
        /// a multiple of 512 above 4 KiB), up to twice as much where a block is used again.
        profile_memory: bool = false;
        /// Whether the source lines of calls are.
        with_stack: bool = false;
        /// Which steps are recorded; by default all.
        schedule: Option<Schedule> = None, Schedule => Some;
        /// Called with the profile when it is ready: after the last recorded step of a cycle, or
        /// at the end.
        on_trace_ready: Option<TraceReady> = None, TraceReady => Some;
    }
}

/// A function that takes a profile when it is ready, see [`ProfileBuilder::on_trace_ready`].
#[derive(Clone)]
pub struct TraceReady(Arc<dyn Fn(&Profile) -> Result<()> + Send + Sync>);

impl TraceReady {
    /// From a function.
    pub fn new(f: impl Fn(&Profile) -> Result<()> + Send + Sync + 'static) -> TraceReady {
        TraceReady(Arc::new(f))
    }
}

impl fmt::Debug for TraceReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceReady(..)")
    }
}

/// Makes a [`Profile`]; every setter has PyTorch's name and default.
#[derive(Clone, Debug, Default)]
pub struct ProfileBuilder {
    options: ProfileOptions,
}

impl ProfileBuilder {
    /// Whether the shapes of operands are recorded.
    #[must_use]
    pub fn record_shapes(mut self, on: bool) -> Self {
        self.options.record_shapes = on;
        self
    }

    /// Whether memory is recorded.
    #[must_use]
    pub fn profile_memory(mut self, on: bool) -> Self {
        self.options.profile_memory = on;
        self
    }

    /// Whether the source lines of calls are recorded.
    #[must_use]
    pub fn with_stack(mut self, on: bool) -> Self {
        self.options.with_stack = on;
        self
    }

    /// Which steps are recorded.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.options.schedule = Some(schedule);
        self
    }

    /// Calls `f` with the profile after the last recorded step of a cycle, or at the end.
    #[must_use]
    pub fn on_trace_ready(
        mut self,
        f: impl Fn(&Profile) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.options.on_trace_ready = Some(TraceReady::new(f));
        self
    }

    /// The profiler, not started.
    pub fn build(self) -> Profile {
        Profile::new(self.options)
    }
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    step: usize,
    action: Option<ProfilerAction>,
}

struct Inner {
    id: usize,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

impl Drop for Inner {
    /// Nobody will ask any more: this thread is watched no longer, and others tell nothing.
    fn drop(&mut self) {
        self.shared.stop();
        unwatch(self.id);
    }
}

/// A profiler and what it recorded (`torch.profiler.profile`): a handle, whose clones are the same
/// profiler.
///
/// It records what the thread that started it does; other threads take part within
/// [`Profile::attach`].
///
/// An op that runs on a device has a mark in the device's stream ahead of its work and after it. When
/// the recording ends, the profiler waits for these devices and reads the times; from then on they are
/// in the events ([`FunctionEvent::device`](crate::FunctionEvent::device)), in the tables' columns and
/// in the trace, which has a lane for each stream.
///
/// ```
/// use torsh_profiler::{Profile, schedule};
/// use torsh_tensor::tensor;
///
/// let prof = Profile::builder()
///     .record_shapes(true)
///     .schedule(schedule(1, 1, 2, 1)?)
///     .on_trace_ready(|p| {
///         // Two of the eight steps were recorded.
///         assert_eq!(p.key_averages().get("aten::exp").unwrap().count, 2);
///         Ok(())
///     })
///     .build();
/// let x = tensor![[1.0, 2.0]];
/// prof.run(|| {
///     for _ in 0..8 {
///         x.exp()?;
///         prof.step()?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Profile {
    inner: Arc<Inner>,
}

thread_local! {
    /// The observers of profilers that were started on this thread.
    static STARTED: RefCell<Vec<(usize, Rc<Recorder>, ObserverGuard)>> =
        const { RefCell::new(Vec::new()) };
}

/// Lets the profiles that record the calling thread have an operation of communication, which this thread queues and
/// another one carries out. For libraries that communicate; `operation` is only called if there is such a profile.
///
/// The profile shows it as an event of [`EventKind::Communication`](crate::EventKind::Communication) in a lane
/// `communication` of its own. Events of one lane follow each other; operations that overlap have lanes `communication 2`
/// and so on. Where threads that are several ranks take part in a profile, each rank has its own lanes.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Instant;
/// use torsh_profiler::{Communication, EventKind, communicates, profile};
/// use torsh_profiler::communication::{Operation, Report};
///
/// struct Sent(Instant);
///
/// impl Operation for Sent {
///     fn report(&self) -> Report {
///         let communication = Communication { bytes_sent: 8, ..Communication::default() };
///         Report { name: "demo:send".into(), started: Some(self.0), ended: Some(self.0), communication }
///     }
/// }
///
/// let prof = profile(|| Ok(communicates(|| Arc::new(Sent(Instant::now())))))?;
/// let events = prof.events();
/// assert_eq!((events[0].name.as_str(), events[0].kind), ("demo:send", EventKind::Communication));
/// assert_eq!(events[0].communication.as_ref().unwrap().bytes_sent, 8);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn communicates(operation: impl FnOnce() -> Arc<dyn Operation>) {
    // The list is gone while the thread ends.
    let _ = STARTED.try_with(|started| {
        let started = started.borrow();
        let mut recording = started.iter().map(|s| &s.1).filter(|r| r.recording());
        let Some(first) = recording.next() else {
            return;
        };
        let operation = operation();
        recording.for_each(|r| r.communicates(operation.clone()));
        first.communicates(operation);
    });
}

/// Takes a profiler's observer off this thread.
fn unwatch(id: usize) {
    // The list is gone while the thread ends, and its observers with it.
    let gone = STARTED.try_with(|s| {
        let mut s = s.borrow_mut();
        let at = s.iter().position(|(i, ..)| *i == id);
        at.map(|i| s.remove(i))
    });
    // Outside of the borrow: what an observer drops may be anything.
    drop(gone);
}

/// Profiles what `f` does on this thread.
///
/// ```
/// use torsh_profiler::profile;
/// use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// let prof = profile(|| x.add(1.0)?.mul(&x))?;
/// let names: Vec<_> = prof.events().iter().map(|e| e.name.clone()).collect();
/// assert_eq!(names, ["aten::add", "aten::mul"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`, and what devices report of its work, as [`Profile::stop`].
#[track_caller]
pub fn profile<T>(f: impl FnOnce() -> Result<T>) -> Result<Profile> {
    profile_with(ProfileOptions::default(), f)
}

/// [`profile`] with PyTorch's other arguments.
///
/// ```
/// use torsh_profiler::{ProfileOptions, profile_with};
/// use torsh_tensor::ones;
/// let prof = profile_with(ProfileOptions::new().profile_memory(true), || Ok(ones(&[1024])))?;
/// assert_eq!(prof.total_average().allocated_bytes, 4096);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f` and of `on_trace_ready`, and what devices report, as [`Profile::stop`].
#[torsh_tensor::names_caller]
pub fn profile_with<T>(options: ProfileOptions, f: impl FnOnce() -> Result<T>) -> Result<Profile> {
    let profile = Profile::new(options);
    profile.run(f)?;
    Ok(profile)
}

/// Runs `f` as a range of this name, which profiles show with what runs in it
/// (`torch.profiler.record_function`).
///
/// ```
/// use torsh_profiler::{profile, record_function};
/// use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// let prof = profile(|| record_function("double", || x.mul(2.0)))?;
/// let events = prof.events();
/// assert_eq!((events[0].name.as_str(), events[1].parent), ("double", Some(0)));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`.
#[torsh_tensor::names_caller]
pub fn record_function<T>(name: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    range(name, f)
}

impl Profile {
    /// A profiler with these options, not started.
    pub fn new(options: ProfileOptions) -> Profile {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Profile {
            inner: Arc::new(Inner {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                shared: Arc::new(Shared::new(options)),
                state: Mutex::new(State::default()),
            }),
        }
    }

    /// What makes one.
    pub fn builder() -> ProfileBuilder {
        ProfileBuilder::default()
    }

    fn options(&self) -> &ProfileOptions {
        &self.inner.shared.options
    }

    /// What is done in a step.
    fn action(&self, step: usize) -> ProfilerAction {
        let schedule = self.options().schedule.as_ref();
        schedule.map_or(ProfilerAction::Record, |s| s.action(step))
    }

    /// Starts on this thread, and forgets what was recorded before.
    ///
    /// # Errors
    /// `InvalidArgument` if it is running.
    #[torsh_tensor::names_caller]
    pub fn start(&self) -> Result<()> {
        let action = self.action(0);
        {
            let mut state = self.inner.state.lock();
            if state.running {
                return Err(TorshError::invalid("start", "the profiler is running")
                    .with_hint("call stop() first"));
            }
            *state = State {
                running: true,
                step: 0,
                action: Some(action),
            };
        }
        self.inner.shared.clear();
        self.enter(None, Some(action), 0)
    }

    /// Says that a step of the loop has ended and the next one begins, as the schedule counts
    /// them. On the thread that started it.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not running; those of `on_trace_ready`; where a cycle ends, what
    /// devices report, as [`Profile::stop`].
    #[torsh_tensor::names_caller]
    pub fn step(&self) -> Result<()> {
        let (before, after, step) = {
            let mut state = self.inner.state.lock();
            if !state.running {
                return Err(TorshError::invalid("step", "the profiler is not running")
                    .with_hint("call start(), or run the loop in run(..)"));
            }
            state.step += 1;
            let after = self.action(state.step);
            (state.action.replace(after), after, state.step)
        };
        self.enter(before, Some(after), step)
    }

    /// Stops, on the thread that started it, and waits for the devices that ran ops.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not running; those of `on_trace_ready`; the first error that the work
    /// of these devices reported since the last wait, as any call that waits. What was recorded is
    /// there all the same.
    #[torsh_tensor::names_caller]
    pub fn stop(&self) -> Result<()> {
        let before = {
            let mut state = self.inner.state.lock();
            if !state.running {
                return Err(TorshError::invalid("stop", "the profiler is not running"));
            }
            state.running = false;
            state.action.take()
        };
        self.enter(before, None, 0)
    }

    /// Goes from what was done in one step to what is done in the next.
    fn enter(
        &self,
        before: Option<ProfilerAction>,
        after: Option<ProfilerAction>,
        step: usize,
    ) -> Result<()> {
        use ProfilerAction::{Record, RecordAndSave};
        let shared = &self.inner.shared;
        let records = |a: Option<ProfilerAction>| matches!(a, Some(Record | RecordAndSave));
        if records(before) {
            self.with_recorder(|r| r.end_step());
        }
        // A cycle ends with its last step, or where everything does.
        let ends = before == Some(RecordAndSave) || records(before) && !records(after);
        let mut result = Ok(());
        if ends {
            self.with_recorder(|r| r.finish());
            shared.stop();
            result = shared.settle();
            if let Some(TraceReady(f)) = &self.options().on_trace_ready {
                result = result.and(f(self));
            }
        }
        // A thread pays for being watched in warm-up and recorded steps only.
        match after {
            None | Some(ProfilerAction::None) => unwatch(self.inner.id),
            Some(_) => {
                self.watch_here();
            }
        }
        if records(after) {
            if ends || !records(before) {
                shared.restart();
                self.with_recorder(|r| r.begin());
            }
            if self.options().schedule.is_some() {
                self.with_recorder(|r| r.begin_step(step));
            }
        }
        result
    }

    /// Watches this thread; false where it is watched already.
    fn watch_here(&self) -> bool {
        let id = self.inner.id;
        if STARTED.with_borrow(|s| s.iter().any(|(i, ..)| *i == id)) {
            return false;
        }
        let recorder = Rc::new(Recorder::here(&self.inner.shared));
        let guard = watch(recorder.clone());
        STARTED.with_borrow_mut(|s| s.push((id, recorder, guard)));
        true
    }

    fn with_recorder(&self, f: impl FnOnce(&Recorder)) {
        let id = self.inner.id;
        let recorder = STARTED.with_borrow(|s| {
            let mine = s.iter().find(|(i, ..)| *i == id);
            mine.map(|(_, r, _)| r.clone())
        });
        if let Some(r) = recorder {
            f(&r);
        }
    }

    /// Starts, runs `f` on this thread, and stops.
    ///
    /// # Errors
    /// Those of `f`, of [`Profile::start`] and of [`Profile::stop`].
    #[torsh_tensor::names_caller]
    pub fn run<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Stop<'a>(&'a Profile, bool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                if self.1 {
                    // Only where `f` failed or panicked, which is what its caller hears of.
                    let _ = self.0.stop();
                }
            }
        }
        self.start()?;
        let mut stop = Stop(self, true);
        let value = f()?;
        stop.1 = false;
        // Whoever stopped within `f` meant it.
        if self.inner.state.lock().running {
            self.stop()?;
        }
        Ok(value)
    }

    /// Runs `f` on this thread as part of the profile, for threads other than the one that
    /// started it; what they do is recorded while the profiler records.
    ///
    /// ```
    /// use torsh_profiler::Profile;
    /// use torsh_tensor::tensor;
    /// let prof = Profile::builder().build();
    /// let x = tensor![1.0, 2.0];
    /// prof.run(|| {
    ///     std::thread::scope(|s| {
    ///         for _ in 0..3 {
    ///             s.spawn(|| prof.attach(|| x.exp()));
    ///         }
    ///     });
    ///     Ok(())
    /// })?;
    /// assert_eq!(prof.key_averages().get("aten::exp").unwrap().count, 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of `f`.
    #[torsh_tensor::names_caller]
    pub fn attach<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Detach<'a>(&'a Profile, bool);
        impl Drop for Detach<'_> {
            fn drop(&mut self) {
                if self.1 {
                    unwatch(self.0.inner.id);
                }
            }
        }
        let _detach = Detach(self, self.watch_here());
        f()
    }

    /// Whether it records now.
    pub fn is_recording(&self) -> bool {
        self.inner.shared.recording.load(Ordering::Acquire)
    }

    /// The steps so far.
    pub fn step_num(&self) -> usize {
        self.inner.state.lock().step
    }

    /// What was recorded since the start or the beginning of the cycle; what has not ended lasts
    /// until now.
    pub fn events(&self) -> EventList {
        self.inner.shared.events()
    }

    /// The events put together by name.
    pub fn key_averages(&self) -> KeyAverages {
        self.events().key_averages()
    }

    /// The events put together by name, shapes and source lines.
    pub fn key_averages_with(&self, options: KeyAveragesOptions) -> KeyAverages {
        self.events().key_averages_with(options)
    }

    /// The sums over all events.
    pub fn total_average(&self) -> FunctionEventAvg {
        self.events().total_average()
    }

    /// Writes what was recorded as `chrome://tracing` and Perfetto (`ui.perfetto.dev`) read it,
    /// threads by name, a lane for each stream of a device that ops ran on, one for communication
    /// between ranks, and, with `profile_memory`, the memory of the process on the CPU and on these
    /// devices as counters.
    ///
    /// # Errors
    /// `Io` where the file cannot be written.
    #[torsh_tensor::names_caller]
    pub fn export_chrome_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let shared = &self.inner.shared;
        let (samples, threads) = (shared.samples(), shared.thread_names());
        let value = trace::of(&self.events(), &samples, &threads, Some(self.options()));
        trace::write(path.as_ref(), &value)
    }

    /// Writes stacks for flame graphs; see [`EventList::export_stacks`].
    ///
    /// # Errors
    /// `InvalidArgument` without `with_stack` or for another metric than `self_cpu_time_total` and
    /// `self_device_time_total`, `Io` where the file cannot be written.
    #[torsh_tensor::names_caller]
    pub fn export_stacks(&self, path: impl AsRef<Path>, metric: &str) -> Result<()> {
        if !self.options().with_stack {
            return Err(
                TorshError::invalid("export_stacks", "the profile has no stacks")
                    .with_hint("make it with with_stack(true)"),
            );
        }
        self.events().export_stacks(path, metric)
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("options", self.options())
            .field("events", &self.events().len())
            .finish()
    }
}

impl fmt::Display for Profile {
    /// The table of [`Profile::key_averages`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key_averages().fmt(f)
    }
}
