//! Counting what is allocated.
//!
//! A locked add to a shared counter costs as much as a whole small allocation, so each thread
//! counts its small blocks in atomics that only it writes, with plain loads and stores; [`read`]
//! sums them over all threads. Larger blocks, and threads that have ended, are counted in one
//! shared set. A peak cannot be had by summing later: each thread adds its change to one global
//! figure whenever that has moved by [`FOLD`] bytes, so the peak may miss as much per thread.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// How far a thread's small blocks may drift from what [`LIVE`] knows of them.
const FOLD: i64 = 64 << 10;

/// What the allocator has given out and holds, over all threads; see [`super::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes in blocks now in use (their capacities, which are the requests rounded up).
    pub allocated_bytes: usize,
    /// Bytes in free blocks kept for reuse.
    pub cached_bytes: usize,
    /// The most bytes in use at once since the start or the last
    /// [`reset_peak_stats`](super::reset_peak_stats), to within 64 KiB of small blocks per thread.
    pub peak_allocated_bytes: usize,
    /// Blocks given out so far (requests of zero bytes are not counted).
    pub allocations: u64,
    /// How many of those were reused ones.
    pub cache_hits: u64,
    /// How many of those came from the system.
    pub system_allocations: u64,
}

/// Sums over blocks. A thread's own may be negative: it may free what another one allocated.
#[derive(Default)]
struct Counters {
    allocated: AtomicI64,
    /// Of small blocks only; the large cache knows its size.
    cached: AtomicI64,
    allocations: AtomicU64,
    from_system: AtomicU64,
}

static SHARED: Counters = Counters {
    allocated: AtomicI64::new(0),
    cached: AtomicI64::new(0),
    allocations: AtomicU64::new(0),
    from_system: AtomicU64::new(0),
};

/// The counters of the living threads.
static THREADS: Mutex<Vec<Arc<Counters>>> = Mutex::new(Vec::new());

/// Bytes in use as far as folded, and the most of that.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn fold(change: i64) {
    let live = LIVE.fetch_add(change, Relaxed) + change;
    if live > PEAK.load(Relaxed) {
        PEAK.fetch_max(live, Relaxed);
    }
}

/// Bytes in use over all threads, to within [`FOLD`] bytes of small blocks for each.
pub(super) fn live() -> usize {
    usize::try_from(LIVE.load(Relaxed)).unwrap_or(0)
}

fn signed(bytes: usize) -> i64 {
    bytes as i64
}

/// Counts an allocation outside the thread-local lists.
pub(super) fn shared_alloc(bytes: usize, from_system: bool) {
    SHARED.allocated.fetch_add(signed(bytes), Relaxed);
    SHARED.allocations.fetch_add(1, Relaxed);
    SHARED.from_system.fetch_add(from_system.into(), Relaxed);
    fold(signed(bytes));
}

/// Counts a free outside the thread-local lists.
pub(super) fn shared_free(bytes: usize) {
    SHARED.allocated.fetch_sub(signed(bytes), Relaxed);
    fold(-signed(bytes));
}

/// One thread's counts of its small blocks.
pub(super) struct Local {
    counters: OnceCell<Arc<Counters>>,
    /// What of `allocated` is in [`LIVE`].
    folded: Cell<i64>,
}

impl Local {
    pub(super) const fn new() -> Self {
        Self {
            counters: OnceCell::new(),
            folded: Cell::new(0),
        }
    }

    #[inline]
    fn counters(&self) -> &Counters {
        self.counters.get_or_init(register)
    }

    #[inline]
    pub(super) fn alloc(&self, bytes: usize, from_system: bool) {
        let counters = self.counters();
        let allocations = counters.allocations.load(Relaxed) + 1;
        counters.allocations.store(allocations, Relaxed);
        if from_system {
            let count = counters.from_system.load(Relaxed) + 1;
            counters.from_system.store(count, Relaxed);
        } else {
            self.cached(-signed(bytes));
        }
        self.allocated(counters, signed(bytes));
    }

    #[inline]
    pub(super) fn free(&self, bytes: usize, kept: bool) {
        if kept {
            self.cached(signed(bytes));
        }
        self.allocated(self.counters(), -signed(bytes));
    }

    /// Counts blocks coming into (or, negative, leaving) the thread's lists.
    #[inline]
    pub(super) fn cached(&self, change: i64) {
        let cached = &self.counters().cached;
        cached.store(cached.load(Relaxed) + change, Relaxed);
    }

    #[inline]
    fn allocated(&self, counters: &Counters, change: i64) {
        let allocated = counters.allocated.load(Relaxed) + change;
        counters.allocated.store(allocated, Relaxed);
        if (allocated - self.folded.get()).abs() >= FOLD {
            self.fold(allocated);
        }
    }

    #[cold]
    fn fold(&self, allocated: i64) {
        fold(allocated - self.folded.replace(allocated));
    }
}

#[cold]
fn register() -> Arc<Counters> {
    let counters = Arc::new(Counters::default());
    THREADS.lock().push(counters.clone());
    counters
}

impl Drop for Local {
    /// The thread ends: its counts go to the shared ones.
    fn drop(&mut self) {
        let Some(own) = self.counters.take() else {
            return;
        };
        let allocated = own.allocated.load(Relaxed);
        fold(allocated - self.folded.get());
        // Under the lock, so that `read` sees the counts in one place or the other.
        let mut threads = THREADS.lock();
        SHARED.allocated.fetch_add(allocated, Relaxed);
        SHARED.cached.fetch_add(own.cached.load(Relaxed), Relaxed);
        let allocations = own.allocations.load(Relaxed);
        SHARED.allocations.fetch_add(allocations, Relaxed);
        let from_system = own.from_system.load(Relaxed);
        SHARED.from_system.fetch_add(from_system, Relaxed);
        threads.retain(|thread| !Arc::ptr_eq(thread, &own));
    }
}

/// The sums now; `large_cached` is the size of the cache of large blocks.
pub(super) fn read(large_cached: usize) -> MemoryStats {
    let threads = THREADS.lock();
    let all = || std::iter::once(&SHARED).chain(threads.iter().map(|t| &**t));
    let signed_sum = |field: fn(&Counters) -> &AtomicI64| -> usize {
        let sum: i64 = all().map(|c| field(c).load(Relaxed)).sum();
        // A block on its way between two threads may be seen freed and not yet allocated.
        usize::try_from(sum).unwrap_or(0)
    };
    let sum =
        |field: fn(&Counters) -> &AtomicU64| -> u64 { all().map(|c| field(c).load(Relaxed)).sum() };
    let allocated_bytes = signed_sum(|c| &c.allocated);
    let (allocations, from_system) = (sum(|c| &c.allocations), sum(|c| &c.from_system));
    let peak = usize::try_from(PEAK.load(Relaxed)).unwrap_or(0);
    MemoryStats {
        allocated_bytes,
        cached_bytes: signed_sum(|c| &c.cached) + large_cached,
        peak_allocated_bytes: peak.max(allocated_bytes),
        allocations,
        cache_hits: allocations.saturating_sub(from_system),
        system_allocations: from_system,
    }
}

pub(super) fn reset_peak() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}
