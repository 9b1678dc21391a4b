//! Storages backed by a mapped file, and reading and filling storages from outside.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapOptions;

use crate::backend::Place;
use crate::{Device, Result, Storage, TorshError, lock_all};

impl Storage {
    /// Maps a file and makes each range of it a storage, without reading it.
    ///
    /// The mapping is private: what is written in place is seen by this process alone and never
    /// reaches the file. The file must not be changed or cut while the storages live (on most
    /// systems reading a page that is gone ends the process); one that is replaced under its name
    /// stays as it was. Windows lets it be renamed, but not replaced or removed. An error where a range leaves the file, or two of them overlap, or the
    /// system cannot map the file.
    ///
    /// ```
    /// use torsh_core::Storage;
    ///
    /// let path = std::env::temp_dir().join(format!("torsh-core-map-{}", std::process::id()));
    /// std::fs::write(&path, b"header12345678")?;
    /// let storages = Storage::map_file(&std::fs::File::open(&path)?, &[6..10, 10..14])?;
    /// let mut bytes = [0; 4];
    /// storages[1].read(0, &mut bytes)?;
    /// assert_eq!(&bytes, b"5678");
    /// # drop(storages);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[track_caller]
    pub fn map_file(file: &File, ranges: &[Range<u64>]) -> Result<Vec<Storage>> {
        let wrong = |why: String| TorshError::invalid("map_file", why);
        let mut order: Vec<&Range<u64>> = ranges.iter().filter(|r| r.start != r.end).collect();
        if order.is_empty() {
            return ranges.iter().map(|_| Storage::host(0)).collect();
        }
        order.sort_by_key(|r| r.start);
        let mut end = 0;
        for r in order {
            if r.start < end || r.end < r.start {
                return Err(wrong(format!(
                    "the ranges of a file are apart, {r:?} is not"
                )));
            }
            end = r.end;
        }
        // SAFETY: the mapping is private and only reached through the storages below, whose
        // kernels read and write plain bytes behind raw pointers: no reference to the memory
        // exists that a change of the file by somebody else could make wrong.
        let mut map = unsafe { MmapOptions::new().map_copy(file)? };
        if end > map.len() as u64 {
            return Err(wrong(format!(
                "the file has {} bytes, a range of it ends at {end}",
                map.len()
            )));
        }
        let base = map.as_mut_ptr();
        let map = Arc::new(map);
        ranges
            .iter()
            .map(|r| {
                // The last end is within the mapping, whose length is a usize.
                let (start, bytes) = (r.start as usize, (r.end - r.start) as usize);
                if bytes == 0 {
                    return Storage::host(0);
                }
                // SAFETY: `start` is within the mapping, see above.
                let ptr = unsafe { base.add(start) };
                let ptr = NonNull::new(ptr)
                    .ok_or_else(|| TorshError::out_of_memory(Device::Cpu, bytes))?;
                // SAFETY: `bytes` from `ptr` on are within the mapping, which its owner keeps;
                // the ranges are apart, so nobody else writes to them.
                Ok(unsafe { Storage::foreign(ptr, bytes, Device::Cpu, Box::new(map.clone())) })
            })
            .collect()
    }

    /// Returns new host memory of `bytes` bytes that `fill` writes; they are 0 before.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::filled(3, |bytes| Ok(bytes.copy_from_slice(b"abc")))?;
    /// let mut bytes = [0; 3];
    /// storage.read(0, &mut bytes)?;
    /// assert_eq!(&bytes, b"abc");
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[track_caller]
    pub fn filled(bytes: usize, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> Result<Storage> {
        let storage = Storage::host(bytes)?;
        if bytes > 0 {
            // SAFETY: the memory is new, so nobody else has it, and is written before a slice
            // of it is made.
            let memory = unsafe {
                storage.ptr().write_bytes(0, bytes);
                std::slice::from_raw_parts_mut(storage.ptr(), bytes)
            };
            fill(memory)?;
        }
        Ok(storage)
    }

    /// Copies the bytes from position `at` on out of the memory, and waits for a device's; an error
    /// where there are not that many or it is no memory (meta), and what the device reports.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::filled(2, |bytes| Ok(bytes.fill(7)))?;
    /// let mut bytes = [0; 2];
    /// storage.read(0, &mut bytes)?;
    /// assert_eq!(bytes, [7, 7]);
    /// let error = storage.read(1, &mut bytes).unwrap_err();
    /// assert!(error.to_string().contains("2 bytes from 1 on are not within a storage of 2"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[track_caller]
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        let block = self.block();
        if self.device() != Device::Cpu && block.is_none() {
            return Err(TorshError::device(
                "read",
                format!("the memory of {} cannot be read from here", self.device()),
            ));
        }
        if at
            .checked_add(to.len())
            .is_none_or(|end| end > self.bytes())
        {
            return Err(TorshError::index(
                "read",
                format!(
                    "{} bytes from {at} on are not within a storage of {}",
                    to.len(),
                    self.bytes()
                ),
            ));
        }
        if to.is_empty() {
            return Ok(());
        }
        let guard = lock_all(&[(self, false)]);
        guard.usable().map_err(|e| e.renamed("read"))?;
        let from = self.ptr().wrapping_add(at);
        let Some(block) = block else {
            // SAFETY: the bytes are within the storage (checked), which is locked against
            // writers; `to` is memory of the caller's alone.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            return Ok(());
        };
        let backend = block.backend();
        block.wait_for_others(backend.queue(), false)?;
        // SAFETY: the bytes are within the block (checked), which lives as long as the storage and is
        // locked against writers.
        let place = unsafe { Place::new(from, to.len(), self.device()) };
        backend.download(place, to.into())?;
        // SAFETY: the ticket of the copy above, under the storage's lock.
        unsafe { block.used(backend.ticket(), false) };
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, clippy::reversed_empty_ranges)]
mod tests {
    use super::*;

    /// A file that is removed at the end: Windows maps none that was removed, and removes none that is mapped.
    struct Kept(File, std::path::PathBuf);

    impl Drop for Kept {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.1);
        }
    }

    fn file(name: &str, bytes: &[u8]) -> Kept {
        let path = std::env::temp_dir().join(format!("torsh-core-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Kept(File::open(&path).unwrap(), path)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn ranges_stay_within_the_file_and_apart() {
        let kept = file("ranges", b"0123456789");
        let f = &kept.0;
        let storages = Storage::map_file(f, &[4..10, 0..0, 1..4]).unwrap();
        let mut bytes = [0; 3];
        storages[2].read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"123");
        assert_eq!(storages[1].bytes(), 0);
        assert!(storages[2].read(1, &mut bytes).is_err());
        assert!(storages[2].read(usize::MAX, &mut bytes).is_err());
        for bad in [vec![4..11], vec![0..5, 4..6], vec![0..u64::MAX]] {
            assert!(Storage::map_file(f, &bad).is_err(), "{bad:?}");
        }
        let backwards = [5..4];
        assert!(Storage::map_file(f, &backwards).is_err());
        assert!(Storage::map_file(&file("empty", b"").0, &[0..1]).is_err());
    }

    #[test]
    fn a_filled_storage_has_what_was_written() {
        let s = Storage::filled(3, |b| {
            b.copy_from_slice(b"abc");
            Ok(())
        })
        .unwrap();
        let mut bytes = [0; 3];
        s.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"abc");
        assert!(Storage::filled(1, |_| Err(io::ErrorKind::UnexpectedEof.into())).is_err());
        assert!(Storage::meta(4).read(0, &mut bytes).is_err());
    }
}
