//! The handshake between a forking thread and one worker: a place for one job, handed over and
//! back by a single atomic.
//!
//! | state   | the slot's cells belong to | next                                              |
//! |---------|----------------------------|---------------------------------------------------|
//! | IDLE    | the poster                 | READY (post), ASLEEP (the worker parks)           |
//! | ASLEEP  | the poster                 | READY (post, which also unparks the worker)       |
//! | READY   | the worker (`job`)         | IDLE (done), AWAITED (the poster parks)           |
//! | AWAITED | the worker (both cells)    | IDLE (done; the worker then unparks the poster)   |
//!
//! Every transition is one read-modify-write of `state`, so neither side can miss the other's
//! going to sleep. `tests/pool_loom.rs` runs this file under loom.

use std::sync::Arc;

use super::sync::{self, AtomicU32, Ordering, Patience, Place, Thread, UnsafeCell};

const IDLE: u32 = 0;
const ASLEEP: u32 = 1;
const READY: u32 = 2;
const AWAITED: u32 = 3;

/// In this order, so that the state and a job of up to 56 bytes cross in one cache line; aligned to
/// two, as the adjacent-line prefetcher moves lines in pairs.
#[repr(C, align(128))]
struct Slot<J> {
    state: AtomicU32,
    job: UnsafeCell<Option<J>>,
    waiter: UnsafeCell<Option<Thread>>,
    /// Where the worker ran last.
    place: Place,
}

// SAFETY: `state` says which of the two sides owns each cell (see the table above) and hands it
// over with release/acquire; there is exactly one `Poster` and one `Taker` per slot, and a job
// crosses threads only if `J: Send`.
unsafe impl<J: Send> Sync for Slot<J> {}

impl<J> Slot<J> {
    /// Whether a job is posted and not yet finished. Acquires what the other side released.
    fn busy(&self) -> bool {
        self.state.load(Ordering::Acquire) >= READY
    }
}

/// The forking side of a slot.
pub(super) struct Poster<J> {
    slot: Arc<Slot<J>>,
    worker: Thread,
    posted: bool,
}

/// The worker's side of a slot.
pub(super) struct Taker<J> {
    slot: Arc<Slot<J>>,
}

impl<J: Copy + Send> Poster<J> {
    /// A slot whose worker is started by `spawn`, which gets the worker's side and returns the
    /// thread that will call [`Taker::run_next`] on it for as long as jobs are posted.
    pub(super) fn start<E>(spawn: impl FnOnce(Taker<J>) -> Result<Thread, E>) -> Result<Self, E> {
        let slot = Arc::new(Slot {
            state: AtomicU32::new(IDLE),
            job: UnsafeCell::new(None),
            waiter: UnsafeCell::new(None),
            place: Place::new(),
        });
        let worker = spawn(Taker { slot: slot.clone() })?;
        Ok(Self {
            slot,
            worker,
            posted: false,
        })
    }

    /// Hands `job` to the worker. The previous job must have been waited for.
    pub(super) fn post(&mut self, job: J) {
        assert!(!self.posted, "a job was posted before the last one's wait");
        self.slot.job.with_mut(|cell| {
            // SAFETY: nothing is posted, so the state is IDLE or ASLEEP and the cell is ours;
            // the last `wait` acquired the worker's use of it.
            unsafe { *cell = Some(job) }
        });
        self.posted = true;
        if self.slot.state.swap(READY, Ordering::Release) == ASLEEP {
            self.worker.unpark();
        }
    }

    /// Returns when the worker has finished the posted job (at once if there is none).
    pub(super) fn wait(&mut self) {
        if !self.posted {
            return;
        }
        let slot = &*self.slot;
        let done = || !slot.busy();
        if sync::spin(Patience::CALLER, done) {
            self.posted = false;
            return;
        }
        slot.place.part();
        if !sync::spin(Patience::LATE, done) {
            slot.waiter.with_mut(|cell| {
                // SAFETY: the worker touches this cell only in the state AWAITED, which only the
                // exchange below sets.
                unsafe { *cell = Some(sync::current()) }
            });
            let asked =
                slot.state
                    .compare_exchange(READY, AWAITED, Ordering::Release, Ordering::Acquire);
            if asked.is_ok() {
                while slot.busy() {
                    sync::park();
                }
            }
        }
        self.posted = false;
    }
}

impl<J: Copy + Send> Taker<J> {
    /// Waits for the next job, runs it, and reports it finished (also if `run` panics).
    pub(super) fn run_next(&mut self, run: impl FnOnce(J)) {
        let slot = &*self.slot;
        if !sync::spin(Patience::WORKER, || slot.busy()) {
            let slept =
                slot.state
                    .compare_exchange(IDLE, ASLEEP, Ordering::Release, Ordering::Acquire);
            if slept.is_ok() {
                while !slot.busy() {
                    sync::park();
                }
            }
        }
        slot.place.mark();
        let job = slot.job.with(|cell| {
            // SAFETY: READY or AWAITED was acquired, so the job is ours until `Finish`. It is
            // copied and not taken, as a write would move the cache line once more.
            unsafe { *cell }
        });
        let _finish = Finish(slot);
        run(job.expect("a ready slot holds a job"));
    }
}

/// Gives the slot back when a job ends, by return or by panic.
struct Finish<'a, J>(&'a Slot<J>);

impl<J> Drop for Finish<'_, J> {
    fn drop(&mut self) {
        let slot = self.0;
        let finished =
            slot.state
                .compare_exchange(READY, IDLE, Ordering::Release, Ordering::Acquire);
        if finished.is_err() {
            // Taken before IDLE is stored: after it the poster may already be writing again.
            let waiter = slot.waiter.with_mut(|cell| {
                // SAFETY: the failed exchange acquired AWAITED, in which this cell is ours.
                unsafe { (*cell).take() }
            });
            slot.state.store(IDLE, Ordering::Release);
            if let Some(thread) = waiter {
                thread.unpark();
            }
        }
    }
}
