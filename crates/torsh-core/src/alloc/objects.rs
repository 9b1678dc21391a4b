//! Memory of the objects that every op creates and drops: tensors, storages and nodes of the graph.
//!
//! It comes from free lists of the thread. This takes a third of the time of the system's allocator,
//! and much less when the nodes of a whole graph are freed at once.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use super::list::List;
use super::system::Raw;

/// Sizes are rounded up to multiples of this, which is also the alignment.
const STEP: usize = super::ALIGN;

const CLASSES: usize = 10;

/// Larger objects come from the system each time.
const LARGEST: usize = STEP * CLASSES;

/// Bytes of each class that a thread keeps.
const KEPT: usize = 128 << 10;

/// A thread's free objects, by size.
struct Lists([List; CLASSES]);

thread_local! {
    static LISTS: Lists = const { Lists([const { List::new() }; CLASSES]) };
}

#[inline(always)]
fn class_of(layout: Layout) -> usize {
    assert!(layout.size() > 0 && layout.align() <= STEP);
    (layout.size() - 1) / STEP
}

/// Memory for an object of `layout`, which is the same for all of a type.
#[inline(always)]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    let class = class_of(layout);
    if class < CLASSES
        && let Ok(Some(ptr)) = LISTS.try_with(|lists| lists.0[class].pop())
    {
        return ptr;
    }
    from_system((class + 1) * STEP)
}

#[cold]
#[inline(never)]
fn from_system(capacity: usize) -> NonNull<u8> {
    match Raw::new(capacity) {
        Some(raw) => raw.into_ptr(),
        None => handle_alloc_error(Layout::new::<[u8; LARGEST]>()),
    }
}

/// Takes the memory of an object back.
///
/// # Safety
/// `ptr` came from [`allocate`] with this layout, on any thread, and nobody uses it any more.
#[inline(always)]
pub(crate) unsafe fn free(ptr: NonNull<u8>, layout: Layout) {
    let class = class_of(layout);
    let capacity = (class + 1) * STEP;
    let kept = class < CLASSES
        && LISTS
            .try_with(|lists| {
                let list = &lists.0[class];
                let room = list.len() < KEPT / capacity;
                if room {
                    // SAFETY: the block is ours, aligned to 64 and of 64 bytes or more.
                    unsafe { list.push(ptr) };
                }
                room
            })
            .unwrap_or(false);
    if !kept {
        // SAFETY: the block came from `Raw::into_ptr` with this capacity.
        unsafe { to_system(ptr, capacity) };
    }
}

/// # Safety
/// As [`Raw::from_ptr`].
#[cold]
#[inline(never)]
unsafe fn to_system(ptr: NonNull<u8>, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Raw::from_ptr(ptr, capacity) });
}

/// Gives the calling thread's free objects back to the system.
pub(super) fn empty() {
    // Without lists there is nothing to give.
    let _ = LISTS.try_with(Lists::empty);
}

impl Lists {
    fn empty(&self) {
        for (class, list) in self.0.iter().enumerate() {
            while let Some(ptr) = list.pop() {
                // SAFETY: the list of this class holds blocks of this capacity.
                unsafe { to_system(ptr, (class + 1) * STEP) };
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
    fn freed_memory_is_used_again() {
        std::thread::spawn(|| {
            let layout = Layout::new::<[u64; 9]>();
            let p = allocate(layout);
            assert_eq!(p.as_ptr() as usize % STEP, 0);
            // SAFETY: allocated above.
            unsafe { free(p, layout) };
            let q = allocate(Layout::new::<[u64; 16]>());
            assert_eq!(p, q);
            // SAFETY: allocated above.
            unsafe { free(q, layout) };
            empty();
            let large = Layout::new::<[u8; LARGEST + 1]>();
            let p = allocate(large);
            // SAFETY: allocated above.
            unsafe { free(p, large) };
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_keeps_no_more_than_its_share() {
        std::thread::spawn(|| {
            let layout = Layout::new::<[u8; LARGEST]>();
            let all: Vec<_> = (0..2 * KEPT / LARGEST).map(|_| allocate(layout)).collect();
            for p in all {
                // SAFETY: allocated above.
                unsafe { free(p, layout) };
            }
            let kept = LISTS.with(|l| l.0[CLASSES - 1].len());
            assert_eq!(kept, KEPT / LARGEST);
        })
        .join()
        .expect("no panic");
    }
}
