//! Reserved addresses, whose pages go back to the system and come again.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use memmap2::MmapMut;

use crate::{Device, Result, TorshError, alloc};

/// Bytes of a large page: a fault brings so many at once, in place of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;

/// The owner of reserved addresses.
#[doc(hidden)]
pub struct Reserved {
    map: MmapMut,
    ptr: NonNull<u8>,
    /// Where the memory begins in the mapping.
    start: usize,
    bytes: usize,
    /// Whether the pages are counted as in use.
    counted: std::sync::atomic::AtomicBool,
}

impl Reserved {
    pub(crate) fn new(bytes: usize) -> Result<Reserved> {
        let refused = || TorshError::out_of_memory(Device::Cpu, bytes);
        alloc::check(bytes, 1).map_err(|_| refused())?;
        let aligned = bytes >= LARGE_PAGE;
        let room = bytes.checked_add(if aligned { LARGE_PAGE } else { 0 });
        let room = room.ok_or_else(refused)?.max(1);
        let mut map = MmapMut::map_anon(room).map_err(|_| refused())?;
        let mut start = 0;
        if aligned {
            start = map.as_mut_ptr().align_offset(LARGE_PAGE);
            // A wish: the pages of the end, which do not fill a large one, stay small.
            #[cfg(target_os = "linux")]
            let _ = map.advise_range(
                memmap2::Advice::HugePage,
                start,
                bytes / LARGE_PAGE * LARGE_PAGE,
            );
        }
        let ptr = NonNull::new(map.as_mut_ptr().wrapping_add(start)).ok_or_else(refused)?;
        let reserved = Reserved {
            map,
            ptr,
            start,
            bytes,
            counted: false.into(),
        };
        reserved.count(true);
        Ok(reserved)
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn count(&self, in_use: bool) {
        if self.counted.swap(in_use, Ordering::AcqRel) != in_use {
            alloc::count_reserved(self.bytes, in_use);
        }
    }

    /// Gives the pages back; they read as zeros when they come again.
    pub(crate) fn drop_pages(&self) -> Result<()> {
        #[cfg(unix)]
        {
            // SAFETY: the mapping is anonymous and private, so its pages read as zeros from now on, which are
            // elements of every dtype; the caller holds the storage's exclusive lock.
            unsafe {
                let all = memmap2::UncheckedAdvice::DontNeed;
                self.map
                    .unchecked_advise_range(all, self.start, self.bytes.max(1))
            }?;
        }
        #[cfg(not(unix))]
        {
            // Other systems keep the pages.
            let _ = (&self.map, self.start);
        }
        self.count(false);
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count(false);
    }
}
