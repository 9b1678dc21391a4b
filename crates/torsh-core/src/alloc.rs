//! A caching allocator of host memory for tensor data.
//!
//! The first write to a fresh buffer costs a page fault per page, several times what most elementwise
//! kernels do with it. So freed blocks are kept for the next request of about their size. Blocks of
//! at most 4 KiB stay in free lists of the thread that frees them (no locks, at most 704 KiB per
//! thread). Larger blocks go to one cache for all threads, which [`set_cache_limit`] bounds and
//! [`empty_cache`] empties.

mod large;
mod list;
pub(crate) mod objects;
mod small;
mod stats;
mod system;

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use large::Cache;
use system::Raw;

pub use stats::{MemoryStats, ThreadStats};

/// The alignment of every block: a cache line, and the widest SIMD register.
pub const ALIGN: usize = 64;

static LARGE: Mutex<Cache> = Mutex::new(Cache::new());

/// The most bytes in use; `usize::MAX` for no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// Whether the thread allocates within [`long_lived`].
    static LONG_LIVED: Cell<bool> = const { Cell::new(false) };
}

/// Host memory of at least the requested size, 64-byte aligned and not initialised. Dropping it
/// gives it back to the cache, from any thread.
///
/// ```
/// use torsh_core::alloc::{ALIGN, allocate};
/// let block = allocate(100)?;
/// assert_eq!((block.ptr().as_ptr() as usize % ALIGN, block.capacity()), (0, 128));
/// # Ok::<(), torsh_core::alloc::AllocError>(())
/// ```
#[derive(Debug)]
pub struct Block {
    ptr: NonNull<u8>,
    /// The capacity also tells the origin of the memory: none (0), the small classes, or the large
    /// cache.
    capacity: usize,
}

// SAFETY: a `Block` is the only owner of its memory, which is bound to no thread.
unsafe impl Send for Block {}
// SAFETY: a shared `Block` only tells its address and size.
unsafe impl Sync for Block {}

impl Block {
    /// The start of the memory, a multiple of 64; not to be read or written if the capacity is 0.
    #[inline]
    pub fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Returns the usable size in bytes: what was requested or more. It is 0 only for a request of 0.
    ///
    /// ```
    /// use torsh_core::alloc::allocate;
    /// assert_eq!((allocate(0)?.capacity(), allocate(65)?.capacity()), (0, 128));
    /// # Ok::<(), torsh_core::alloc::AllocError>(())
    /// ```
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        match self.capacity {
            0 => {}
            1..=small::LARGEST => {
                // SAFETY: a block of this capacity came from the small classes, and ends here.
                unsafe { small::free(self.ptr, self.capacity) }
            }
            _ => {
                // SAFETY: a larger block came from `Raw::into_ptr`, and ends here.
                free_large(unsafe { Raw::from_ptr(self.ptr, self.capacity) });
            }
        }
    }
}

/// The system has no memory for a request, the request is larger than any memory can be, or it
/// goes beyond the limit that [`set_limit`] set.
///
/// ```
/// use torsh_core::alloc::AllocError;
/// let error = AllocError { requested: 64 };
/// assert_eq!(error.to_string(), "cannot allocate 64 bytes of host memory");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError {
    /// The bytes asked for.
    pub requested: usize,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot allocate {} bytes of host memory", self.requested)
    }
}

impl std::error::Error for AllocError {}

impl AllocError {
    #[cold]
    fn new(requested: usize) -> AllocError {
        crate::error::refused(crate::Device::Cpu, requested);
        AllocError { requested }
    }
}

impl From<AllocError> for crate::TorshError {
    fn from(_: AllocError) -> crate::TorshError {
        // Whoever made it has noted the refusal.
        crate::TorshError::OutOfMemory
    }
}

/// Returns the bytes of the request that the calling thread was refused last; 0 for none. The text of
/// [`TorshError::OutOfMemory`](crate::TorshError::OutOfMemory) names it.
///
/// ```
/// use torsh_core::alloc::{allocate, last_refused};
/// assert_eq!(last_refused(), 0);
/// assert!(allocate(usize::MAX).is_err());
/// assert_eq!(last_refused(), usize::MAX);
/// ```
pub fn last_refused() -> usize {
    crate::error::last_refused()
}

/// Bounds the bytes in use. A request that would exceed the bound fails as if the system had
/// refused it. `None`, the default, sets no bound.
///
/// Bytes in use are the capacities of all blocks that were given out, over all threads, small ones
/// to within 64 KiB per thread; a thread's free small blocks may be used again beyond the limit.
/// Memory that is already in use stays.
///
/// ```
/// use torsh_core::alloc;
/// alloc::set_limit(Some(64 << 20));
/// assert!(alloc::allocate(1 << 20).is_ok());
/// assert_eq!(alloc::allocate(1 << 30).unwrap_err().requested, 1 << 30);
/// alloc::set_limit(None);
/// ```
pub fn set_limit(bytes: Option<usize>) {
    LIMIT.store(bytes.unwrap_or(usize::MAX), Relaxed);
}

/// Returns the bound that [`set_limit`] set; `None`, the default, is no bound.
///
/// ```
/// use torsh_core::alloc::{limit, set_limit};
/// assert_eq!(limit(), None);
/// set_limit(Some(1 << 30));
/// assert_eq!(limit(), Some(1 << 30));
/// ```
pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Relaxed)).filter(|&l| l != usize::MAX)
}

/// Whether `count` items of `size` bytes fit beside what is in use now: for memory that is asked
/// of Rust's own allocator, which ends the process instead of refusing.
///
/// ```
/// use torsh_core::alloc::{check, set_limit};
/// set_limit(Some(1 << 20));
/// assert!(check(1000, 8).is_ok());
/// assert_eq!(check(1 << 20, 8).unwrap_err().requested, 8 << 20);
/// ```
///
/// # Errors
/// [`AllocError`] if they go beyond the limit, or beyond the machine's memory where none is set.
pub fn check(count: usize, size: usize) -> Result<(), AllocError> {
    /// Less than any vector's own overhead matters for.
    const FREE: usize = 1 << 16;
    let bytes = count.saturating_mul(size);
    if bytes <= FREE {
        return Ok(());
    }
    let most = match limit() {
        Some(limit) => limit.saturating_sub(stats::live()),
        None => system::most(),
    };
    if bytes > most {
        return Err(AllocError::new(bytes));
    }
    Ok(())
}

/// Whether `capacity` more bytes stay within the limit.
#[inline]
fn within_limit(capacity: usize) -> bool {
    let limit = LIMIT.load(Relaxed);
    limit == usize::MAX || capacity <= limit.saturating_sub(stats::live())
}

/// Returns a block of at least `bytes`, not initialised. Zero bytes give an aligned dangling pointer and
/// allocate nothing.
///
/// ```
/// use torsh_core::alloc::allocate;
/// assert_eq!(allocate(3000)?.capacity(), 4096);
/// assert_eq!(allocate(usize::MAX).unwrap_err().requested, usize::MAX);
/// # Ok::<(), torsh_core::alloc::AllocError>(())
/// ```
///
/// # Errors
/// [`AllocError`] if the rounded size overflows `isize`, if it goes beyond the limit of
/// [`set_limit`], or if the system refuses even after the cache has been emptied.
#[inline]
pub fn allocate(bytes: usize) -> Result<Block, AllocError> {
    match bytes {
        0 => Ok(Block {
            ptr: NonNull::<Aligned>::dangling().cast(),
            capacity: 0,
        }),
        1..=small::LARGEST => match small::allocate(bytes) {
            Some((ptr, capacity)) => Ok(Block { ptr, capacity }),
            None => Err(AllocError::new(bytes)),
        },
        _ => allocate_large(bytes),
    }
}

/// Runs `f`, whose blocks are meant to stay for long, such as parameters and optimizer states.
///
/// A block above 4 KiB then has the size asked for, rounded up to 512 bytes, or to 4 KiB above 1 MiB.
/// Ordinary blocks may be up to twice as large: they are rounded up further, and the cache gives a
/// larger block rather than none. That is right for memory that is soon free again.
///
/// ```
/// use torsh_core::alloc;
/// drop(alloc::allocate(3 << 20)?); // One of 3 MiB is in the cache now.
/// let block = alloc::long_lived(|| alloc::allocate((2 << 20) + 1))?;
/// assert_eq!(block.capacity(), (2 << 20) + 4096);
/// # Ok::<(), alloc::AllocError>(())
/// ```
pub fn long_lived<T>(f: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            LONG_LIVED.set(self.0);
        }
    }
    let _back = Back(LONG_LIVED.replace(true));
    f()
}

/// Has the alignment [`ALIGN`].
#[repr(align(64))]
struct Aligned;

const _: () = assert!(align_of::<Aligned>() == ALIGN);

#[inline(never)]
fn allocate_large(bytes: usize) -> Result<Block, AllocError> {
    let error = || AllocError::new(bytes);
    let stays = LONG_LIVED.get();
    let wanted = match stays {
        true => system::round_up_little(bytes),
        false => system::round_up(bytes),
    };
    let wanted = wanted.filter(|&w| within_limit(w)).ok_or_else(error)?;
    let cached = LARGE.lock().take(wanted, stays);
    let from_system = cached.is_none();
    let raw = cached
        .or_else(|| Raw::new(wanted))
        .or_else(|| {
            empty_cache();
            Raw::new(wanted)
        })
        .ok_or_else(error)?;
    let capacity = raw.capacity();
    small::count_large(capacity, from_system);
    Ok(Block {
        ptr: raw.into_ptr(),
        capacity,
    })
}

/// Counts memory that does not come from here: pages that come and go behind reserved addresses.
pub(crate) fn count_reserved(bytes: usize, in_use: bool) {
    match in_use {
        true => small::count_large(bytes, true),
        false => small::count_large_free(bytes),
    }
}

#[inline(never)]
fn free_large(raw: Raw) {
    small::count_large_free(raw.capacity());
    // A statement of its own: the lock is released before the blocks that have to go are.
    let gone = LARGE.lock().put(raw);
    drop(gone);
}

/// Gives all cached memory back to the system: the shared cache, and what the calling thread keeps,
/// small blocks and the memory of objects (tensors and nodes, which no statistics count; what other
/// threads keep, at most 2 MiB each, stays). Blocks in use stay.
///
/// ```
/// use torsh_core::alloc;
/// drop(alloc::allocate(1 << 20)?);
/// assert!(alloc::stats().cached_bytes >= 1 << 20);
/// alloc::empty_cache();
/// assert_eq!(alloc::stats().cached_bytes, 0);
/// # Ok::<(), alloc::AllocError>(())
/// ```
pub fn empty_cache() {
    let gone = LARGE.lock().clear();
    drop(gone);
    small::empty();
    objects::empty();
}

/// Bounds the shared cache to `bytes`, now and from now on; the blocks unused for longest go
/// first. 0 caches no block above 4 KiB.
///
/// The default is a quarter of the memory this process may use, at most 8 GiB (2 GiB where the
/// system does not tell).
///
/// ```
/// use torsh_core::alloc;
/// alloc::set_cache_limit(0);
/// drop(alloc::allocate(1 << 20)?);
/// assert_eq!(alloc::stats().cached_bytes, 0);
/// # Ok::<(), alloc::AllocError>(())
/// ```
pub fn set_cache_limit(bytes: usize) {
    let gone = LARGE.lock().set_limit(bytes);
    drop(gone);
}

/// Returns the bytes that are allocated and cached now, over all threads. Exact while no other thread
/// allocates or frees, apart from the peak (see there).
///
/// ```
/// use torsh_core::alloc;
/// let before = alloc::stats();
/// let block = alloc::allocate(1 << 20)?;
/// let after = alloc::stats();
/// assert_eq!(after.allocated_bytes - before.allocated_bytes, 1 << 20);
/// assert_eq!(after.allocations - before.allocations, 1);
/// # drop(block);
/// # Ok::<(), alloc::AllocError>(())
/// ```
pub fn stats() -> MemoryStats {
    let cached = LARGE.lock().bytes();
    stats::read(cached)
}

/// What the calling thread has allocated and freed since it began, exactly: the capacities of the
/// blocks. The difference of two readings is what happened between them on this thread.
///
/// ```
/// use torsh_core::alloc;
/// let before = alloc::thread_stats();
/// drop(alloc::allocate(1 << 20));
/// let after = alloc::thread_stats();
/// assert_eq!(after.allocated_bytes - before.allocated_bytes, 1 << 20);
/// assert_eq!(after.freed_bytes - before.freed_bytes, 1 << 20);
/// ```
pub fn thread_stats() -> ThreadStats {
    small::thread_stats()
}

/// Resets the peak to the bytes in use now.
///
/// ```
/// use torsh_core::alloc;
/// drop(alloc::allocate(8 << 20)?);
/// alloc::reset_peak_stats();
/// drop(alloc::allocate(1 << 20)?);
/// let peak = alloc::stats().peak_allocated_bytes;
/// assert!((1 << 20..2 << 20).contains(&peak));
/// # Ok::<(), alloc::AllocError>(())
/// ```
pub fn reset_peak_stats() {
    stats::reset_peak();
}
