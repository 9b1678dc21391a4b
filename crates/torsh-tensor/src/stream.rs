//! Streams of a device's work and events in them, as `torch.Stream` and `torch.Event`.
//!
//! A stream is a queue of the device's backend. A tensor may be used on any stream: its memory knows
//! which work used it, and work on another stream waits for that. So streams never change results;
//! they only allow work to overlap.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use torsh_core::backend::{Backend, Event as Mark, QueueId};
use torsh_core::{Device, Result, TorshError};

use crate::options::options;

/// As many queues are made for a device and a priority at most; then streams share them, as in
/// PyTorch. Backends never give queues back.
const POOL: usize = 32;

/// The range of priorities that devices tell apart, as CUDA's.
const PRIORITIES: std::ops::RangeInclusive<i32> = -5..=0;

/// The queues of a device's streams of one priority.
struct Pool {
    device: Device,
    priority: i32,
    queues: Vec<QueueId>,
    next: usize,
}

static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// The last event that was recorded here in each stream, which [`Stream::query`] asks.
static LAST: Mutex<Vec<(Stream, Arc<dyn Mark>)>> = Mutex::new(Vec::new());

options! {
    /// PyTorch's keyword arguments of `torch.Stream`.
    StreamOptions {
        /// Streams with a lower number go first where the device can do that; from -5 to 0, numbers
        /// beyond count as the nearest.
        priority: i32 = 0;
    }
}

options! {
    /// PyTorch's keyword arguments of `torch.Event`.
    ///
    /// ```
    /// use torsh_tensor::EventOptions;
    /// let options = EventOptions::new();
    /// assert!(!options.enable_timing);
    /// assert!(options.enable_timing(true).enable_timing);
    /// ```
    EventOptions {
        /// Whether [`Event::elapsed_time`] may be asked.
        enable_timing: bool = false;
    }
}

/// A queue of a device's work, done in order (`torch.Stream`).
///
/// The stream that a thread's work goes to is its current one: the device's default stream, which
/// all threads share, or the one of [`stream`] or [`stream_guard`]. Work of different streams may
/// run at the same time. An op whose operands were written on another stream waits for that by
/// itself, on the device, so neither `wait_stream` nor `record_stream` is needed for right values.
///
/// The CPU has one stream, and its work is done when a call returns.
///
/// ```
/// use torsh_tensor::{Device, Stream, current_stream, default_stream, stream, tensor};
/// let device = Device::Cpu;
/// let side = Stream::new(device)?;
/// let x = tensor![1.0, 2.0];
/// let y = stream(&side, || {
///     assert_eq!(current_stream(device)?, side);
///     x.mul(2.0)
/// })?;
/// assert_eq!(current_stream(device)?, default_stream(device)?);
/// side.synchronize()?;
/// assert_eq!(y, tensor![2.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    device: Device,
    queue: QueueId,
}

/// Makes a queue the thread's current one until it is dropped.
struct OnQueue {
    backend: &'static dyn Backend,
    before: QueueId,
}

impl OnQueue {
    fn new(stream: Stream) -> Result<OnQueue> {
        let backend = torsh_backend::backend(stream.device)?;
        let before = backend.queue();
        backend.set_queue(stream.queue)?;
        Ok(OnQueue { backend, before })
    }
}

impl Drop for OnQueue {
    fn drop(&mut self) {
        // It was the current one, so it is there: backends keep their queues.
        let _ = self.backend.set_queue(self.before);
    }
}

impl Stream {
    /// A stream of a device, of priority 0. A device has at most 32 streams of a priority; after
    /// that the same ones are handed out in turn.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// let stream = Stream::new(Device::Cpu)?;
    /// assert_eq!(stream.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is not there, or has no data (`meta`).
    #[track_caller]
    pub fn new(device: impl Into<Device>) -> Result<Stream> {
        Stream::new_with(device, StreamOptions::default())
    }

    /// [`Stream::new`] with a priority.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream, StreamOptions};
    /// let stream = Stream::new_with(Device::Cpu, StreamOptions::new().priority(-1))?;
    /// assert_eq!(stream.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(device: impl Into<Device>, options: StreamOptions) -> Result<Stream> {
        let device = device.into();
        let backend = torsh_backend::backend(device)?;
        if device.is_host() {
            return Ok(Stream {
                device,
                queue: QueueId::default(),
            });
        }
        let priority = (options.priority).clamp(*PRIORITIES.start(), *PRIORITIES.end());
        let mut pools = POOLS.lock();
        let same = |p: &Pool| (p.device, p.priority) == (device, priority);
        let at = pools.iter().position(same).unwrap_or_else(|| {
            pools.push(Pool {
                device,
                priority,
                queues: Vec::new(),
                next: 0,
            });
            pools.len() - 1
        });
        let pool = &mut pools[at];
        if pool.queues.len() < POOL {
            let queue = backend.new_queue(priority)?;
            pool.queues.push(queue);
            return Ok(Stream { device, queue });
        }
        let queue = pool.queues[pool.next];
        pool.next = (pool.next + 1) % POOL;
        Ok(Stream { device, queue })
    }

    /// The device whose work it is.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// assert_eq!(Stream::new(Device::Cpu)?.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its number on the device; 0 for the default stream.
    ///
    /// ```
    /// use torsh_tensor::{Device, default_stream};
    /// assert_eq!(default_stream(Device::Cpu)?.stream_id(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn stream_id(&self) -> u32 {
        self.queue.0
    }

    /// Runs `f` with the stream as the thread's current one.
    fn run<T>(&self, f: impl FnOnce(&'static dyn Backend) -> Result<T>) -> Result<T> {
        let on = OnQueue::new(*self)?;
        f(on.backend)
    }

    /// Waits until all work that was given to the stream is done.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// let stream = Stream::new(Device::Cpu)?;
    /// stream.synchronize()?;
    /// assert!(stream.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The first error that this work reported since the last wait, once, with its op and call site;
    /// where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.mark()?.wait()
    }

    /// Marks the end of the stream's work.
    fn mark(&self) -> Result<Arc<dyn Mark>> {
        let mark: Arc<dyn Mark> = Arc::from(self.run(|b| b.record_event())?);
        let mut last = LAST.lock();
        let known = last.iter().position(|(s, _)| s == self);
        match known {
            Some(i) => last[i].1 = mark.clone(),
            None => last.push((*self, mark.clone())),
        }
        Ok(mark)
    }

    /// Whether all work that was given to the stream so far is done; it is handed to the device, so
    /// that asking again and again ends. Errors of that work are left to the next wait.
    ///
    /// It is told by an event behind that work, which is recorded where there is none yet. So the first
    /// answer after new work may be `false` although the work has just ended.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// // The CPU's work is done when a call returns.
    /// assert!(Stream::new(Device::Cpu)?.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn query(&self) -> Result<bool> {
        let now = self.run(|b| Ok(b.ticket()))?;
        let last = LAST.lock();
        let known = last.iter().find(|(s, _)| s == self);
        let known = known.map(|(_, m)| m.clone());
        drop(last);
        // An event for each question would itself be work that is not done yet.
        let mark = match known.filter(|m| m.ticket().number >= now.number) {
            Some(mark) => mark,
            None => self.mark()?,
        };
        self.run(|b| b.flush())?;
        Ok(mark.is_done())
    }

    /// A new event that marks the stream's work so far, without timing.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// let event = Stream::new(Device::Cpu)?.record_event()?;
    /// event.synchronize()?;
    /// assert!(event.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn record_event(&self) -> Result<Event> {
        let event = Event::new(self.device)?;
        event.record_on(self)?;
        Ok(event)
    }

    /// Lets work that is given to the stream from now on wait for an event; the caller does not wait.
    /// An event that was not recorded is not waited for. For one of another device the caller waits,
    /// as devices do not see each other's work.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// let (a, b) = (Stream::new(Device::Cpu)?, Stream::new(Device::Cpu)?);
    /// b.wait_event(&a.record_event()?)?;
    /// b.synchronize()?;
    /// assert!(a.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is lost; for an event of another device also what [`Event::synchronize`]
    /// reports.
    #[torsh_tensor::names_caller]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        match event.mark() {
            None => Ok(()),
            Some(mark) if event.device() == self.device => {
                self.run(|b| b.order_after(mark.ticket()))
            }
            Some(mark) => mark.wait(),
        }
    }

    /// Lets work that is given to the stream from now on wait for all work that was given to another
    /// so far.
    ///
    /// ```
    /// use torsh_tensor::{Device, Stream};
    /// let (a, b) = (Stream::new(Device::Cpu)?, Stream::new(Device::Cpu)?);
    /// b.wait_stream(&a)?;
    /// b.synchronize()?;
    /// assert!(a.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::wait_event`].
    #[torsh_tensor::names_caller]
    pub fn wait_stream(&self, stream: &Stream) -> Result<()> {
        self.wait_event(&stream.record_event()?)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} of {}", self.queue.0, self.device)
    }
}

/// The stream that this thread's work on a device goes to (`torch.accelerator.current_stream`).
///
/// ```
/// use torsh_tensor::{Device, current_stream, default_stream};
/// assert_eq!(current_stream(Device::Cpu)?, default_stream(Device::Cpu)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there.
#[torsh_tensor::names_caller]
pub fn current_stream(device: impl Into<Device>) -> Result<Stream> {
    let device = device.into();
    let queue = torsh_backend::backend(device)?.queue();
    Ok(Stream { device, queue })
}

/// A device's default stream, which all threads share (`torch.cuda.default_stream`).
///
/// ```
/// use torsh_tensor::{Device, default_stream};
/// assert_eq!(default_stream(Device::Cpu)?.stream_id(), 0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there.
#[torsh_tensor::names_caller]
pub fn default_stream(device: impl Into<Device>) -> Result<Stream> {
    let device = device.into();
    torsh_backend::backend(device)?;
    Ok(Stream {
        device,
        queue: QueueId::default(),
    })
}

/// Makes a stream the current one of this thread, on its device (`torch.accelerator.set_stream`).
/// [`stream`] also restores the one before.
///
/// ```
/// use torsh_tensor::{Device, Stream, current_stream, set_stream};
/// let mine = Stream::new(Device::Cpu)?;
/// set_stream(&mine)?;
/// assert_eq!(current_stream(Device::Cpu)?, mine);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there.
#[torsh_tensor::names_caller]
pub fn set_stream(stream: &Stream) -> Result<()> {
    torsh_backend::backend(stream.device)?.set_queue(stream.queue)
}

/// Restores the thread's current stream on drop.
#[must_use = "the stream is the current one until the guard is dropped"]
pub struct StreamGuard {
    _on: OnQueue,
    // A guard belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

/// Makes a stream the current one of this thread, on its device, until the guard is dropped.
///
/// ```
/// use torsh_tensor::{Device, Stream, current_stream, stream_guard};
/// let side = Stream::new(Device::Cpu)?;
/// let guard = stream_guard(&side)?;
/// assert_eq!(current_stream(Device::Cpu)?, side);
/// drop(guard);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there.
#[torsh_tensor::names_caller]
pub fn stream_guard(stream: &Stream) -> Result<StreamGuard> {
    Ok(StreamGuard {
        _on: OnQueue::new(*stream)?,
        _not_send: PhantomData,
    })
}

/// Runs `f` with a stream as the current one of this thread, on its device (`torch.cuda.stream`).
/// The one before is the current one again afterwards, also where `f` fails or panics.
///
/// Backward runs on the stream that is the current one where it is called.
///
/// ```
/// use torsh_tensor::{Device, Stream, stream, tensor};
/// let (a, b) = (Stream::new(Device::Cpu)?, Stream::new(Device::Cpu)?);
/// let x = stream(&a, || tensor![1.0, 2.0].exp())?;
/// // The sum waits for the exponentials on the device; the program does not.
/// let sum = stream(&b, || x.sum())?;
/// assert!((sum.item::<f32>()? - 10.107338).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`, and where the device is not there.
#[torsh_tensor::names_caller]
pub fn stream<T>(stream: &Stream, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _guard = stream_guard(stream)?;
    f()
}

/// A point in a stream's work (`torch.Event`): a handle, whose clones are the same event.
///
/// ```
/// use torsh_tensor::{Device, Event, EventOptions, tensor};
/// let timed = EventOptions::new().enable_timing(true);
/// let start = Event::new_with(Device::Cpu, timed.clone())?;
/// let end = Event::new_with(Device::Cpu, timed)?;
/// start.record()?;
/// let y = tensor![1.0, 2.0].exp()?;
/// end.record()?;
/// end.synchronize()?;
/// assert!(end.query()? && start.elapsed_time(&end)? >= 0.0);
/// # drop(y);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    timing: bool,
    mark: Mutex<Option<Arc<dyn Mark>>>,
}

impl Event {
    /// An event of a device, not recorded yet and without timing.
    ///
    /// ```
    /// use torsh_tensor::{Device, Event};
    /// let event = Event::new(Device::Cpu)?;
    /// assert_eq!(event.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is not there, or has no data (`meta`).
    #[track_caller]
    pub fn new(device: impl Into<Device>) -> Result<Event> {
        Event::new_with(device, EventOptions::default())
    }

    /// [`Event::new`], with timing where the options say so.
    ///
    /// ```
    /// use torsh_tensor::{Device, Event, EventOptions};
    /// let options = EventOptions::new().enable_timing(true);
    /// let (start, end) = (Event::new_with(Device::Cpu, options.clone())?, Event::new_with(Device::Cpu, options)?);
    /// start.record()?;
    /// end.record()?;
    /// assert!(start.elapsed_time(&end)? >= 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Event::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(device: impl Into<Device>, options: EventOptions) -> Result<Event> {
        let device = device.into();
        torsh_backend::backend(device)?;
        Ok(Event {
            inner: Arc::new(Inner {
                device,
                timing: options.enable_timing,
                mark: Mutex::new(None),
            }),
        })
    }

    /// Its device.
    ///
    /// ```
    /// use torsh_tensor::{Device, Event};
    /// assert_eq!(Event::new(Device::Cpu)?.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn device(&self) -> Device {
        self.inner.device
    }

    /// Where it was recorded last.
    fn mark(&self) -> Option<Arc<dyn Mark>> {
        self.inner.mark.lock().clone()
    }

    /// Marks the work so far of this thread's current stream. An event that is recorded again marks
    /// the later point.
    ///
    /// ```
    /// use torsh_tensor::{Device, Event};
    /// let event = Event::new(Device::Cpu)?;
    /// event.record()?;
    /// event.synchronize()?;
    /// assert!(event.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn record(&self) -> Result<()> {
        self.record_on(&current_stream(self.inner.device)?)
    }

    /// Marks the work so far of a stream.
    ///
    /// # Errors
    /// `Device` for a stream of another device; where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn record_on(&self, stream: &Stream) -> Result<()> {
        if stream.device != self.inner.device {
            return Err(TorshError::device(
                "Event.record",
                format!(
                    "an event of {} cannot be recorded in {stream}",
                    self.inner.device
                ),
            )
            .with_hint("make the event on the stream's device"));
        }
        let mark = stream.mark()?;
        *self.inner.mark.lock() = Some(mark);
        Ok(())
    }

    /// Lets later work of this thread's current stream on the event's device wait for it; see
    /// [`Stream::wait_event`].
    ///
    /// # Errors
    /// Where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn wait(&self) -> Result<()> {
        current_stream(self.inner.device)?.wait_event(self)
    }

    /// Whether the work before it is done; that work is handed to the device, so that asking again
    /// and again ends. True for an event that was not recorded.
    ///
    /// ```
    /// use torsh_tensor::{Device, Event};
    /// // Nothing is awaited of an event that was not recorded.
    /// assert!(Event::new(Device::Cpu)?.query()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is lost.
    #[torsh_tensor::names_caller]
    pub fn query(&self) -> Result<bool> {
        let Some(mark) = self.mark() else {
            return Ok(true);
        };
        if !mark.is_done() {
            let stream = Stream {
                device: self.inner.device,
                queue: mark.ticket().queue,
            };
            stream.run(|b| b.flush())?;
        }
        Ok(mark.is_done())
    }

    /// Waits until the work before it is done; returns at once for one that was not recorded.
    ///
    /// # Errors
    /// The first error that work of its stream reported since the last wait, once; where the device
    /// is lost.
    #[torsh_tensor::names_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.mark().map_or(Ok(()), |m| m.wait())
    }

    /// The milliseconds of the device's clock from this event to a later one.
    ///
    /// # Errors
    /// `InvalidArgument` where one was made without `enable_timing`, is of another device, was not
    /// recorded, or is not reached yet.
    #[torsh_tensor::names_caller]
    pub fn elapsed_time(&self, end: &Event) -> Result<f64> {
        let refuse = |what: String, hint: &'static str| {
            Err(TorshError::invalid("Event.elapsed_time", what).with_hint(hint))
        };
        if !self.inner.timing || !end.inner.timing {
            return refuse(
                "both events must be made with enable_timing".into(),
                "make them with Event::new_with(device, EventOptions::new().enable_timing(true))",
            );
        }
        if self.inner.device != end.inner.device {
            let (a, b) = (self.inner.device, end.inner.device);
            return refuse(
                format!("the events are of {a} and {b}, whose clocks differ"),
                "time the work of each device with events of its own",
            );
        }
        let (Some(from), Some(to)) = (self.mark(), end.mark()) else {
            return refuse(
                "both events must be recorded first".into(),
                "call record() on both",
            );
        };
        match to.elapsed(&*from) {
            Some(seconds) => Ok(seconds * 1e3),
            None => refuse(
                "both events must be reached first".into(),
                "call synchronize() on the later one",
            ),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("device", &self.inner.device)
            .field("enable_timing", &self.inner.timing)
            .field("ticket", &self.mark().map(|m| m.ticket()))
            .finish()
    }
}

/// Waits until all work given to a device so far is done, and leaves its errors to the next call that
/// reports them. For measuring; [`synchronize`](torsh_backend::synchronize) is the wait that reports.
///
/// ```
/// use torsh_tensor::{Device, devices::wait_idle, tensor};
/// let y = tensor![1.0].exp()?;
/// wait_idle(Device::Cpu)?;
/// assert!(y.item::<f32>()? > 2.7);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there or is lost.
#[torsh_tensor::names_caller]
pub fn wait_idle(device: impl Into<Device>) -> Result<()> {
    let device = device.into();
    let current = current_stream(device)?;
    if device.is_host() {
        return Ok(());
    }
    let mut streams = vec![current];
    {
        let pools = POOLS.lock();
        let pooled = pools.iter().filter(|p| p.device == device);
        let queues = pooled.flat_map(|p| &p.queues);
        streams.extend(
            [QueueId::default()]
                .iter()
                .chain(queues)
                .map(|&queue| Stream { device, queue }),
        );
    }
    // All are handed over before one is waited for: they may wait for each other.
    let mut events = Vec::new();
    for s in streams {
        let event = s.record_event()?;
        event.query()?;
        events.push(event);
    }
    for event in events {
        let mut rounds = 0u32;
        while !event.query()? {
            // Most work ends soon; a thread that polls takes time from whatever does the work.
            match rounds < 64 {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(50)),
            }
            rounds += 1;
        }
    }
    Ok(())
}
