//! Memory straight from the system.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use super::ALIGN;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The size of a huge page on x86-64 and on AArch64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 * MIB;

/// The capacity given to a request above the small classes: an eighth more at worst, or 512 bytes,
/// so that nearly equal requests share blocks; whole huge pages where that costs no more. `None`
/// if it overflows `isize`.
pub(super) fn round_up(bytes: usize) -> Option<usize> {
    let fits = |capacity: &usize| isize::try_from(*capacity).is_ok();
    let pages = bytes.checked_next_multiple_of(HUGE_PAGE).filter(fits);
    if bytes > MIB
        && let Some(pages) = pages
        && pages - bytes <= bytes / 8
    {
        return Some(pages);
    }
    let unit = if bytes <= MIB { 512 } else { 64 * KIB };
    bytes.checked_next_multiple_of(unit).filter(fits)
}

/// The capacity given to a request above the small classes that is to be as small as it can be: up to
/// 512 bytes more, and above 1 MiB up to a page.
pub(super) fn round_up_little(bytes: usize) -> Option<usize> {
    let unit = if bytes <= MIB { 512 } else { 4 * KIB };
    let fits = |capacity: &usize| isize::try_from(*capacity).is_ok();
    bytes.checked_next_multiple_of(unit).filter(fits)
}

/// A capacity alone determines its layout, so that a block need not carry one. Only Linux is asked for huge pages, which
/// must begin where one can; Windows would take 2 MiB more for each block.
fn layout(capacity: usize) -> Option<Layout> {
    let align = if cfg!(target_os = "linux") && capacity >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        ALIGN
    };
    Layout::from_size_align(capacity, align).ok()
}

/// Uninitialised memory from the system, given back on drop.
#[derive(Debug)]
pub(super) struct Raw {
    ptr: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a `Raw` is the only owner of its memory, which is bound to no thread.
unsafe impl Send for Raw {}

impl Raw {
    /// `None` if the system refuses or the capacity (which is not 0) overflows `isize`.
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let layout = layout(capacity)?;
        debug_assert!(capacity > 0);
        // SAFETY: the layout's size is not 0.
        let ptr = NonNull::new(unsafe { alloc(layout) })?;
        if capacity >= HUGE_PAGE {
            ask_for_huge_pages(ptr, capacity);
        }
        Some(Self { ptr, capacity })
    }

    /// The owner of memory that came out of [`Raw::into_ptr`].
    ///
    /// # Safety
    /// `ptr` came from the `into_ptr` of a `Raw` of this capacity, and nobody else owns it.
    pub(super) unsafe fn from_ptr(ptr: NonNull<u8>, capacity: usize) -> Self {
        Self { ptr, capacity }
    }

    /// The memory, no longer given back on drop.
    pub(super) fn into_ptr(self) -> NonNull<u8> {
        let ptr = self.ptr;
        std::mem::forget(self);
        ptr
    }

    #[cfg(test)]
    pub(super) fn ptr_for_test(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(layout) = layout(self.capacity) {
            // SAFETY: `new` allocated this memory with the layout of the same capacity.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

/// With 4 KiB pages, first touching a fresh buffer costs several times what the kernel that fills
/// it does; huge pages fault 512 times less often.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_huge_pages(ptr: NonNull<u8>, capacity: usize) {
    // SAFETY: the range is ours, and this advice never changes what it contains. It is only
    // advice: on an error the memory has ordinary pages.
    unsafe { libc::madvise(ptr.as_ptr().cast(), capacity, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_huge_pages(_: NonNull<u8>, _: usize) {}

/// The memory this process may use in bytes, where the system tells.
pub(super) fn physical_memory() -> Option<usize> {
    let machine = usize::try_from(crate::os::physical_memory()?).ok()?;
    // The limit of a container of Linux; absent, or "max", where there is none.
    let container = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok(),
        false => None,
    };
    let container = container.and_then(|limit| limit.trim().parse().ok());
    Some(container.map_or(machine, |limit: usize| limit.min(machine)))
}

/// The most bytes that one request can hope for: the machine's memory, or what can be addressed.
pub(super) fn most() -> usize {
    static MOST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *MOST.get_or_init(|| physical_memory().unwrap_or(isize::MAX as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding() {
        assert_eq!(round_up(4097), Some(4608));
        assert_eq!(round_up(4608), Some(4608));
        assert_eq!(round_up(MIB), Some(MIB));
        assert_eq!(round_up(MIB + 1), Some(MIB + 64 * KIB));
        assert_eq!(round_up(2 * MIB - 1), Some(HUGE_PAGE));
        assert_eq!(round_up(2 * MIB + 1), Some(2 * MIB + 64 * KIB));
        assert_eq!(round_up(4_000_000), Some(2 * HUGE_PAGE));
        assert_eq!(round_up(4 * MIB), Some(2 * HUGE_PAGE));
        assert_eq!(round_up(4 * MIB + 1), Some(4 * MIB + 64 * KIB));
        assert_eq!(round_up(15 * MIB), Some(16 * MIB));
        assert_eq!(round_up(usize::MAX), None);
        assert_eq!(round_up(isize::MAX as usize), None);
        assert_eq!(round_up_little(4097), Some(4608));
        assert_eq!(round_up_little(MIB + 1), Some(MIB + 4 * KIB));
        assert_eq!(round_up_little(15 * MIB), Some(15 * MIB));
        assert_eq!(round_up_little(usize::MAX), None);
    }
}
