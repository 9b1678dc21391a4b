//! The primitives under [`super::slot`]. The loom test puts its own module of the same shape in
//! this one's place, so the slot that is checked is the slot that runs.

use std::hint::spin_loop;
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

/// How long to look for a change before going to sleep.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Time spent on the core.
    spin: Duration,
    /// Time after that in which the core is offered to others between looks.
    offer: Duration,
}

impl Patience {
    /// A worker between two forks: kernels follow each other within microseconds, and a parked
    /// thread costs some ten microseconds to wake.
    pub(super) const WORKER: Self = Self {
        spin: Duration::from_micros(50),
        offer: Duration::ZERO,
    };

    /// The caller once its own chunk is done. Where threads outnumber cores the worker may need
    /// this very core, so it is soon offered.
    pub(super) const CALLER: Self = Self {
        spin: Duration::from_micros(20),
        offer: Duration::from_micros(180),
    };
}

/// Looks until `done()` holds (true) or `patience` ends (false).
#[inline]
pub(super) fn spin(patience: Patience, done: impl Fn() -> bool) -> bool {
    // Reading the clock costs as much as a short handshake: look a little before starting it.
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
