//! Reserved addresses, whose pages go back to the system and come again.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

#[cfg(windows)]
use crate::os::windows::Addresses;
#[cfg(not(windows))]
use memmap2::MmapMut as Addresses;

use crate::{Device, Result, TorshError, alloc};

/// Bytes of a large page: a fault brings so many at once, in place of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;

/// The owner of reserved addresses.
#[doc(hidden)]
pub struct Reserved {
    /// Where nothing reads it, it is there to be dropped.
    #[cfg_attr(not(any(target_os = "linux", windows)), allow(dead_code))]
    map: Addresses,
    ptr: NonNull<u8>,
    /// Where the memory begins in the mapping.
    #[cfg_attr(not(any(target_os = "linux", windows)), allow(dead_code))]
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
        let (map, first, start) = addresses(room, aligned, bytes).map_err(|_| refused())?;
        let ptr = NonNull::new(first.wrapping_add(start)).ok_or_else(refused)?;
        let reserved = Reserved {
            map,
            ptr,
            start,
            bytes,
            counted: false.into(),
        };
        reserved.bring_pages().map_err(|_| refused())?;
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

    /// Gives the pages back; they read as zeros when they come again, which they do when they are used, or on Windows when
    /// [`Reserved::bring_pages`] is called.
    pub(crate) fn drop_pages(&self) -> Result<()> {
        // SAFETY: the mapping is anonymous and private, so its pages read as zeros when they come again, which are
        // elements of every dtype; the caller holds the storage's exclusive lock.
        unsafe { self.drop_range() }?;
        self.count(false);
        Ok(())
    }

    /// Gives the pages back to the system.
    ///
    /// # Safety
    /// Nobody else uses the memory. What it held is lost.
    unsafe fn drop_range(&self) -> io::Result<()> {
        let bytes = self.bytes.max(1);
        #[cfg(target_os = "linux")]
        {
            let all = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the caller's promise.
            unsafe { self.map.unchecked_advise_range(all, self.start, bytes) }
        }
        #[cfg(windows)]
        {
            // SAFETY: within the addresses, and the caller's promise.
            unsafe { self.map.decommit(self.start, bytes) }
        }
        #[cfg(all(unix, not(target_os = "linux")))]
        {
            let at = self.ptr.as_ptr().cast();
            let how = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // Elsewhere the advice keeps what the pages hold; new pages in their place do not.
            // SAFETY: the range begins at a page of the mapping and is within it; of the last page nothing else is used. The
            // mapping goes on to own the addresses. Nobody uses the memory, by the caller's promise.
            let new = unsafe { libc::mmap(at, bytes, access, how, -1, 0) };
            match new == libc::MAP_FAILED {
                true => Err(io::Error::last_os_error()),
                false => Ok(()),
            }
        }
        #[cfg(not(any(unix, windows)))]
        {
            let _ = bytes;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Brings pages of zeros for those that are away, on systems that do not bring them by themselves.
    pub(crate) fn bring_pages(&self) -> io::Result<()> {
        #[cfg(windows)]
        {
            // SAFETY: within the mapping.
            unsafe { self.map.commit(self.start, self.bytes.max(1)) }?;
        }
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count(false);
    }
}

/// Addresses for `room` bytes, the first of them, and where `bytes` of them begin: where a large page can, if that is asked
/// for.
#[cfg(not(windows))]
fn addresses(room: usize, aligned: bool, bytes: usize) -> io::Result<(Addresses, *mut u8, usize)> {
    let mut map = Addresses::map_anon(room)?;
    let first = map.as_mut_ptr();
    let start = match aligned {
        true => first.align_offset(LARGE_PAGE),
        false => 0,
    };
    // A wish: the pages of the end, which do not fill a large one, stay small.
    #[cfg(target_os = "linux")]
    if aligned {
        let advice = memmap2::Advice::HugePage;
        let _ = map.advise_range(advice, start, bytes / LARGE_PAGE * LARGE_PAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
    Ok((map, first, start))
}

/// Windows gives large pages only to processes with a privilege, so nothing is aligned for them.
#[cfg(windows)]
fn addresses(
    room: usize,
    _aligned: bool,
    _bytes: usize,
) -> io::Result<(Addresses, *mut u8, usize)> {
    let map = Addresses::reserve(room)?;
    let first = map.ptr();
    Ok((map, first, 0))
}
