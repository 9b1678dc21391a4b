//! Blocks of at most 4 KiB: free lists of each thread, so no locks.

use std::ptr::NonNull;

use super::list::List;
use super::stats::{self, Local, ThreadStats};
use super::system::Raw;

const SMALLEST: usize = 64;

/// The largest request served here.
pub(super) const LARGEST: usize = 4096;

/// Powers of two from [`SMALLEST`] to [`LARGEST`].
const CLASSES: usize = 7;

/// A thread's free blocks by class, each of a capacity of 64 bytes `<<` its class.
struct Lists {
    classes: [List; CLASSES],
    counts: Local,
}

thread_local! {
    static LISTS: Lists = const {
        Lists {
            classes: [const { List::new() }; CLASSES],
            counts: Local::new(),
        }
    };
}

/// The class of a request of 1 to [`LARGEST`] bytes.
#[inline]
fn class_of(bytes: usize) -> usize {
    (((bytes - 1) | (SMALLEST - 1)).ilog2() - (SMALLEST.ilog2() - 1)) as usize
}

/// How many blocks of a class a thread keeps: 64, or 64 KiB where that is more. The figure allows
/// for the small tensors of one training step, which are all freed before the next one starts.
#[inline]
fn kept(capacity: usize) -> usize {
    (65_536 / capacity).max(64)
}

/// A block for 1 to [`LARGEST`] bytes and its capacity; `None` if the system refuses.
#[inline]
pub(super) fn allocate(bytes: usize) -> Option<(NonNull<u8>, usize)> {
    let class = class_of(bytes);
    let capacity = SMALLEST << class;
    let hit = LISTS.try_with(|lists| {
        let ptr = lists.classes[class].pop()?;
        lists.counts.alloc(capacity);
        Some(ptr)
    });
    match hit {
        Ok(Some(ptr)) => Some((ptr, capacity)),
        _ => Some((from_system(capacity)?, capacity)),
    }
}

#[cold]
fn from_system(capacity: usize) -> Option<NonNull<u8>> {
    if !super::within_limit(capacity) {
        return None;
    }
    let ptr = Raw::new(capacity)?.into_ptr();
    // The lists are gone while the thread's other locals are being destroyed.
    if LISTS
        .try_with(|lists| lists.counts.alloc_from_system(capacity))
        .is_err()
    {
        stats::shared_alloc(capacity, true);
    }
    Some(ptr)
}

/// Takes a block back.
///
/// # Safety
/// `ptr` and `capacity` came from [`allocate`], on any thread, and nobody uses the block any more.
#[inline]
pub(super) unsafe fn free(ptr: NonNull<u8>, capacity: usize) {
    let freed = LISTS.try_with(|lists| {
        let list = &lists.classes[class_of(capacity)];
        let keep = list.len() < kept(capacity);
        if keep {
            // SAFETY: the block is ours to write to, and large and aligned enough for a node.
            unsafe { list.push(ptr) };
        } else {
            // SAFETY: the block came from `Raw::into_ptr` with this capacity.
            unsafe { to_system(ptr, capacity) };
        }
        lists.counts.free(capacity, keep);
    });
    if freed.is_err() {
        // SAFETY: as above; the closure did not run.
        unsafe { to_system(ptr, capacity) };
        stats::shared_free(capacity);
    }
}

/// # Safety
/// As [`Raw::from_ptr`].
#[cold]
unsafe fn to_system(ptr: NonNull<u8>, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Raw::from_ptr(ptr, capacity) });
}

/// Counts a block of the large cache that is given out.
#[inline]
pub(super) fn count_large(capacity: usize, from_system: bool) {
    if LISTS
        .try_with(|lists| lists.counts.alloc_large(capacity, from_system))
        .is_err()
    {
        stats::shared_alloc(capacity, from_system);
    }
}

/// Counts a large block that comes back.
#[inline]
pub(super) fn count_large_free(capacity: usize) {
    if LISTS
        .try_with(|lists| lists.counts.free_large(capacity))
        .is_err()
    {
        stats::shared_free(capacity);
    }
}

/// What the calling thread has allocated and freed.
pub(super) fn thread_stats() -> ThreadStats {
    LISTS
        .try_with(|lists| lists.counts.read())
        .unwrap_or_default()
}

/// Gives the calling thread's free blocks back to the system.
pub(super) fn empty() {
    // Without lists there is nothing to give.
    let _ = LISTS.try_with(Lists::empty);
}

impl Lists {
    fn empty(&self) {
        for (class, list) in self.classes.iter().enumerate() {
            let capacity = SMALLEST << class;
            while let Some(ptr) = list.pop() {
                // SAFETY: the list of this class holds blocks of this capacity from
                // `Raw::into_ptr`.
                unsafe { to_system(ptr, capacity) };
                self.counts.held(-(capacity as i64));
            }
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        self.empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let requests = [1, 63, 64, 65, 128, 129, 2048, 2049, 4095, 4096];
        assert_eq!(requests.map(class_of), [0, 0, 0, 1, 1, 2, 5, 6, 6, 6]);
        assert_eq!(SMALLEST << (CLASSES - 1), LARGEST);
        assert_eq!([64, 512, 1024, 4096].map(kept), [1024, 128, 64, 64]);
    }
}
