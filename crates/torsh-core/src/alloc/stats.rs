//! Counting what is allocated.
//!
//! A locked add to a shared counter costs as much as a whole small allocation, so each thread
//! counts in atomics that only it writes, with plain loads and stores; [`read`] sums them over all
//! threads. Threads that have ended are counted in one shared set. A peak cannot be had by summing
//! later: each thread adds its change to one global figure with every large block, and whenever
//! its small ones have moved by [`FOLD`] bytes, so the peak may miss as much per thread.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// How far a thread's small blocks may drift from what [`LIVE`] knows of them.
const FOLD: i64 = 64 << 10;

/// What the allocator has given out and holds, over all threads; see [`super::stats`].
///
/// ```
/// use torsh_core::alloc;
/// let before = alloc::stats();
/// drop(alloc::allocate(1 << 20)?); // From the system ..
/// drop(alloc::allocate(1 << 20)?); // .. and from the cache.
/// let after = alloc::stats();
/// assert_eq!(after.allocations - before.allocations, 2);
/// assert_eq!(after.cache_hits - before.cache_hits, 1);
/// # Ok::<(), alloc::AllocError>(())
/// ```
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

/// What one thread has allocated and freed so far; see [`super::thread_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStats {
    /// Bytes in all blocks given out to this thread.
    pub allocated_bytes: u64,
    /// Bytes in all blocks this thread gave back, those of other threads included.
    pub freed_bytes: u64,
}

/// Sums over blocks.
#[derive(Default)]
struct Counters {
    given: AtomicU64,
    /// A thread may take back more than it gave out: what another one allocated.
    taken_back: AtomicU64,
    /// Small blocks that came from the system less those that went back, and large ones in use:
    /// what is in use, and what the lists hold. The large cache knows its own size.
    held: AtomicI64,
    allocations: AtomicU64,
    from_system: AtomicU64,
}

static SHARED: Counters = Counters {
    given: AtomicU64::new(0),
    taken_back: AtomicU64::new(0),
    held: AtomicI64::new(0),
    allocations: AtomicU64::new(0),
    from_system: AtomicU64::new(0),
};

impl Counters {
    /// Bytes in use; negative where the thread freed what another one allocated.
    #[inline]
    fn in_use(&self) -> i64 {
        self.given
            .load(Relaxed)
            .wrapping_sub(self.taken_back.load(Relaxed)) as i64
    }
}

/// Adds to a counter that only this thread writes.
#[inline]
fn bump(counter: &AtomicU64, by: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(by as u64), Relaxed);
}

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

/// Counts an allocation where the thread's own counters are gone.
#[cold]
pub(super) fn shared_alloc(bytes: usize, from_system: bool) {
    SHARED.given.fetch_add(bytes as u64, Relaxed);
    SHARED.held.fetch_add(signed(bytes), Relaxed);
    SHARED.allocations.fetch_add(1, Relaxed);
    SHARED.from_system.fetch_add(from_system.into(), Relaxed);
    fold(signed(bytes));
}

/// Counts a free where the thread's own counters are gone.
#[cold]
pub(super) fn shared_free(bytes: usize) {
    SHARED.taken_back.fetch_add(bytes as u64, Relaxed);
    SHARED.held.fetch_sub(signed(bytes), Relaxed);
    fold(-signed(bytes));
}

/// One thread's counts.
pub(super) struct Local {
    counters: OnceCell<Arc<Counters>>,
    /// What of the bytes in use is in [`LIVE`].
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

    /// Counts a small block from the thread's lists.
    #[inline]
    pub(super) fn alloc(&self, bytes: usize) {
        let counters = self.counters();
        bump(&counters.allocations, 1);
        bump(&counters.given, bytes);
        self.fold_small(counters);
    }

    /// Counts a small block from the system.
    #[cold]
    pub(super) fn alloc_from_system(&self, bytes: usize) {
        bump(&self.counters().from_system, 1);
        self.held(signed(bytes));
        self.alloc(bytes);
    }

    /// Counts a small block coming back.
    #[inline]
    pub(super) fn free(&self, bytes: usize, kept: bool) {
        if !kept {
            self.held(-signed(bytes));
        }
        let counters = self.counters();
        bump(&counters.taken_back, bytes);
        self.fold_small(counters);
    }

    /// Counts a large block. The global figure knows it at once.
    #[inline]
    pub(super) fn alloc_large(&self, bytes: usize, from_system: bool) {
        let counters = self.counters();
        bump(&counters.allocations, 1);
        bump(&counters.from_system, from_system.into());
        bump(&counters.given, bytes);
        self.held(signed(bytes));
        self.folded.set(self.folded.get() + signed(bytes));
        fold(signed(bytes));
    }

    /// Counts a large block coming back.
    #[inline]
    pub(super) fn free_large(&self, bytes: usize) {
        bump(&self.counters().taken_back, bytes);
        self.held(-signed(bytes));
        self.folded.set(self.folded.get() - signed(bytes));
        fold(-signed(bytes));
    }

    /// Counts blocks coming from (or, negative, going to) the system.
    pub(super) fn held(&self, change: i64) {
        let held = &self.counters().held;
        held.store(held.load(Relaxed) + change, Relaxed);
    }

    /// The thread's figures.
    pub(super) fn read(&self) -> ThreadStats {
        let counters = self.counters();
        ThreadStats {
            allocated_bytes: counters.given.load(Relaxed),
            freed_bytes: counters.taken_back.load(Relaxed),
        }
    }

    #[inline]
    fn fold_small(&self, counters: &Counters) {
        let in_use = counters.in_use();
        if (in_use - self.folded.get()).abs() >= FOLD {
            self.fold(in_use);
        }
    }

    #[cold]
    fn fold(&self, in_use: i64) {
        fold(in_use - self.folded.replace(in_use));
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
        fold(own.in_use() - self.folded.get());
        // Under the lock, so that `read` sees the counts in one place or the other.
        let mut threads = THREADS.lock();
        SHARED.given.fetch_add(own.given.load(Relaxed), Relaxed);
        let taken_back = own.taken_back.load(Relaxed);
        SHARED.taken_back.fetch_add(taken_back, Relaxed);
        SHARED.held.fetch_add(own.held.load(Relaxed), Relaxed);
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
    // A block on its way between two threads may be seen freed and not yet allocated.
    let positive = |sum: i64| usize::try_from(sum).unwrap_or(0);
    let sum =
        |field: fn(&Counters) -> &AtomicU64| -> u64 { all().map(|c| field(c).load(Relaxed)).sum() };
    let in_use: i64 = all().map(Counters::in_use).sum();
    let held: i64 = all().map(|c| c.held.load(Relaxed)).sum();
    let allocated_bytes = positive(in_use);
    let (allocations, from_system) = (sum(|c| &c.allocations), sum(|c| &c.from_system));
    let peak = usize::try_from(PEAK.load(Relaxed)).unwrap_or(0);
    MemoryStats {
        allocated_bytes,
        cached_bytes: positive(held - in_use) + large_cached,
        peak_allocated_bytes: peak.max(allocated_bytes),
        allocations,
        cache_hits: allocations.saturating_sub(from_system),
        system_allocations: from_system,
    }
}

pub(super) fn reset_peak() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}
