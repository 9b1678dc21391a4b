//! The synchronisation primitives under [`super::slot`]. The loom test replaces this module with its own
//! of the same shape, so it checks the same slot that runs.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

pub(super) use std::sync::atomic::{AtomicU32, Ordering};
pub(super) use std::thread::{Thread, current, park};

/// `std::cell::UnsafeCell` with loom's access by closure.
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(super) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    pub(super) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// How long a thread waits for a change before it parks.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// How long it spins: polls without giving up the core.
    spin: Duration,
    /// How long it then yields the core between polls.
    offer: Duration,
}

impl Patience {
    /// A worker between two forks: kernels follow each other within microseconds, and a parked
    /// thread costs some ten microseconds to wake.
    pub(super) const WORKER: Self = Self {
        spin: Duration::from_micros(10),
        offer: Duration::from_micros(40),
    };

    /// The caller once its own chunk is done.
    pub(super) const CALLER: Self = Self {
        spin: Duration::from_micros(10),
        offer: Duration::ZERO,
    };

    /// The caller after that. If there are more threads than cores, the worker may need this core,
    /// so the caller yields it.
    pub(super) const LATE: Self = Self {
        spin: Duration::ZERO,
        offer: Duration::from_micros(190),
    };
}

/// Polls until `done()` holds (true) or `patience` ends (false).
#[inline]
pub(super) fn spin(patience: Patience, done: impl Fn() -> bool) -> bool {
    // Reading the clock costs as much as a short handshake, so poll a few times first.
    for _ in 0..64 {
        if done() {
            return true;
        }
        spin_loop();
    }
    let start = Instant::now();
    loop {
        for _ in 0..16 {
            if done() {
                return true;
            }
            spin_loop();
        }
        let spent = start.elapsed();
        if spent >= patience.spin {
            if spent >= patience.spin + patience.offer {
                return done();
            }
            std::thread::yield_now();
        }
    }
}

/// Where a thread ran last: its thread id and its core. Linux keeps two threads that wake each
/// other on one core as long as both stay busy, even if other cores are idle. A fork then takes
/// longer than a single thread would.
pub(super) struct Place(AtomicU64);

impl Place {
    /// Not known yet.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Records the calling thread's id and core.
    #[inline]
    pub(super) fn mark(&self) {
        if let Some(place) = here() {
            self.0.store(place, Ordering::Relaxed);
        }
    }

    /// If the recorded thread ran on the calling thread's core, moves it to another core that it
    /// may use. Its affinity is otherwise unchanged.
    #[cold]
    pub(super) fn part(&self) {
        let marked = self.0.load(Ordering::Relaxed);
        if marked != 0 && here().is_some_and(|own| own as u32 == marked as u32) {
            leave_core((marked >> 32) as u32, marked as u32);
        }
    }
}

/// The calling thread's id in the high half, and its core in the low half.
#[cfg(all(target_os = "linux", not(miri)))]
#[inline]
fn here() -> Option<u64> {
    thread_local! {
        // SAFETY: without arguments, and never fails.
        static NUMBER: u64 = unsafe { libc::gettid() } as u64;
    }
    // SAFETY: without arguments.
    let core = u32::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    Some(NUMBER.with(|number| number << 32) | u64::from(core))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn here() -> Option<u64> {
    None
}

/// Moves a thread off a core, at most every few milliseconds: if all cores are busy, it would only
/// move back.
#[cfg(all(target_os = "linux", not(miri)))]
fn leave_core(thread: u32, core: u32) {
    const PAUSE: Duration = Duration::from_millis(5);
    static LAST: parking_lot::Mutex<Option<Instant>> = parking_lot::Mutex::new(None);
    let Some(mut last) = LAST.try_lock() else {
        return;
    };
    let now = Instant::now();
    if last.is_some_and(|last| now - last < PAUSE) {
        return;
    }
    *last = Some(now);
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: all zeros is a set of no cores, and the calls read and write sets of this size. The
    // thread is a worker of this process, which has no end; if the system refuses, nothing changes.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(thread as i32, size, &raw mut all) != 0
            || core as usize >= 8 * size
        {
            return;
        }
        let mut others = all;
        libc::CPU_CLR(core as usize, &mut others);
        if libc::CPU_COUNT(&others) > 0 {
            libc::sched_setaffinity(thread as i32, size, &raw const others);
            libc::sched_setaffinity(thread as i32, size, &raw const all);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn leave_core(_: u32, _: u32) {}
