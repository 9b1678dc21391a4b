//! Storages whose memory goes back to the system and comes again, at the same addresses; and locks that are held across
//! calls.
//!
//! A sharded parameter has its whole values only while its module runs. Tensors and saved values of the graph keep their
//! addresses meanwhile, so the addresses are reserved once, and only the pages behind them come and go.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::backend::{Backend, DeviceBlock, Place};
use crate::pages::Reserved;
use crate::storage::Owner;
use crate::{Device, Result, Shared, Storage, TorshError, alloc, lock_all};

impl Storage {
    /// Host memory of `bytes` zero bytes that [`Storage::release`] gives back to the system and [`Storage::restore`]
    /// brings again at the same addresses. Tensors of it stay; using one while the memory is away is an error.
    ///
    /// ```
    /// use torsh_core::Storage;
    ///
    /// let storage = Storage::reserved(64)?;
    /// storage.release()?;
    /// let mut bytes = [1; 4];
    /// assert!(storage.read(0, &mut bytes).is_err());
    /// storage.restore()?;
    /// storage.read(0, &mut bytes)?;
    /// assert_eq!(bytes, [0; 4]);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No memory, or more than the allocator's limit allows.
    #[track_caller]
    pub fn reserved(bytes: usize) -> Result<Storage> {
        Ok(Storage::of_reserved(Reserved::new(bytes)?))
    }

    /// [`Storage::reserved`] on a device. The memory has any content, also when it comes again.
    ///
    /// # Errors
    /// Those of the device's [`reserve`](Backend::reserve).
    #[track_caller]
    pub fn reserved_on(backend: &dyn Backend, bytes: usize) -> Result<Storage> {
        match backend.device() {
            Device::Cpu => Storage::reserved(bytes),
            _ => Ok(backend.reserve(bytes)?.into_reserved()),
        }
    }

    /// Gives the memory of a [`Storage::reserved`] back to the system, or to its device. Waits for calls that use it.
    /// Nothing happens if it was given back already.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::reserved(64)?;
    /// storage.release()?;
    /// assert!(storage.is_released());
    /// assert!(Storage::host(64)?.release().unwrap_err().to_string().contains("only the memory of Storage::reserved"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A storage of another kind; a device that is lost.
    #[track_caller]
    pub fn release(&self) -> Result<()> {
        let _guard = lock_all(&[(self, true)]);
        if self.is_released() {
            return Ok(());
        }
        match self.owner() {
            Owner::Reserved(owner) => owner.drop_pages()?,
            Owner::ReservedOnDevice(block) => {
                in_order(block, |backend| backend.release(block))?;
            }
            _ => return Err(not_reserved("release")),
        }
        self.released.store(true, Ordering::Release);
        Ok(())
    }

    /// Brings the memory that [`Storage::release`] gave back: zeros on the host. The version does not change: whoever
    /// fills it with the values from before changes nothing. Nothing happens if the memory is there.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::reserved(64)?;
    /// let address = storage.ptr();
    /// storage.release()?;
    /// storage.restore()?;
    /// assert_eq!((storage.is_released(), storage.ptr()), (false, address));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A storage of another kind; more than the allocator's limit allows, or the device has.
    #[track_caller]
    pub fn restore(&self) -> Result<()> {
        self.restore_with(&[])
    }

    /// [`Storage::restore`] with these bytes at the front of the memory, which are written also if it is there.
    ///
    /// ```
    /// use torsh_core::Storage;
    ///
    /// let storage = Storage::reserved(4)?;
    /// storage.release()?;
    /// storage.restore_with(&[1, 2, 3])?;
    /// let mut bytes = [9; 4];
    /// storage.read(0, &mut bytes)?;
    /// assert_eq!((bytes, storage.version()), ([1, 2, 3, 0], 0));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Storage::restore`], and more bytes than the storage has.
    #[track_caller]
    pub fn restore_with(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.bytes() {
            return Err(TorshError::invalid(
                "restore",
                format!("{} bytes for a storage of {}", bytes.len(), self.bytes()),
            ));
        }
        let _guard = lock_all(&[(self, true)]);
        let away = self.is_released();
        match self.owner() {
            Owner::Reserved(owner) => {
                if away {
                    let refused = |_| TorshError::out_of_memory(Device::Cpu, owner.bytes());
                    alloc::check(owner.bytes(), 1).map_err(refused)?;
                    let refused = |_| TorshError::out_of_memory(Device::Cpu, owner.bytes());
                    owner.bring_pages().map_err(refused)?;
                    owner.count(true);
                }
                // SAFETY: host memory of at least as many bytes, which the exclusive lock makes this call's alone.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr(), bytes.len());
                }
            }
            Owner::ReservedOnDevice(block) => in_order(block, |backend| {
                if away {
                    backend.restore(block)?;
                }
                if bytes.is_empty() {
                    return Ok(());
                }
                // SAFETY: as many bytes of the block, which the exclusive lock makes this call's alone.
                let to = unsafe { Place::new(self.ptr(), bytes.len(), self.device()) };
                let done = backend.upload(bytes.into(), to);
                if done.is_err() && away {
                    // It stays away, rather than hold something else; the caller hears of the first error.
                    let _ = backend.release(block);
                }
                done
            })?,
            _ => return Err(not_reserved("restore")),
        }
        self.released.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether the memory was given back.
    #[inline]
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }
}

#[cold]
fn not_reserved(op: &'static str) -> TorshError {
    TorshError::invalid(op, "only the memory of Storage::reserved can be given back")
}

/// Gives a device's current queue work that writes to a block, whose storage is locked.
fn in_order(block: &DeviceBlock, work: impl FnOnce(&dyn Backend) -> Result<()>) -> Result<()> {
    let backend = block.backend();
    block.wait_for_others(backend.queue(), true)?;
    let done = work(backend);
    // SAFETY: the ticket was taken after the work was given to the queue.
    unsafe { block.used(backend.ticket(), true) };
    done
}

/// The lock of one host storage, held until this is dropped, on the thread that took it.
///
/// For work that goes on after the call that began it, as a transfer of a tensor's bytes. Calls that use the storage wait
/// meanwhile.
///
/// ```
/// use torsh_core::{HeldStorage, Shared, Storage};
///
/// let storage = Shared::new(Storage::filled(4, |b| Ok(b.copy_from_slice(&[1, 2, 3, 4])))?);
/// let mut held = HeldStorage::try_new(&storage, true).expect("nobody uses it");
/// held.bytes_mut()[0] = 7;
/// assert!(HeldStorage::try_new(&storage, false).is_none());
/// drop(held);
/// let mut bytes = [0; 4];
/// storage.read(0, &mut bytes)?;
/// assert_eq!(bytes, [7, 2, 3, 4]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
pub struct HeldStorage {
    storage: Shared<Storage>,
    exclusive: bool,
    _of_thread: PhantomData<*mut ()>,
}

impl HeldStorage {
    /// Takes the lock, for writing if it is exclusive; `None` if somebody uses the storage, it is of another device than
    /// the host, or its memory was given back. Never waits: whoever holds one lock and waits for another may wait for
    /// ever.
    ///
    /// ```
    /// use torsh_core::{HeldStorage, Shared, Storage};
    /// let storage = Shared::new(Storage::host(64)?);
    /// let reader = HeldStorage::try_new(&storage, false).expect("free");
    /// assert!(HeldStorage::try_new(&storage, false).is_some()); // Readers share it.
    /// assert!(HeldStorage::try_new(&storage, true).is_none());
    /// # drop(reader);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    pub fn try_new(storage: &Shared<Storage>, exclusive: bool) -> Option<HeldStorage> {
        if storage.device() != Device::Cpu || !storage.try_lock(exclusive) {
            return None;
        }
        let held = HeldStorage {
            storage: storage.clone(),
            exclusive,
            _of_thread: PhantomData,
        };
        (!storage.is_released()).then_some(held)
    }

    /// The storage.
    pub fn storage(&self) -> &Shared<Storage> {
        &self.storage
    }

    /// Whether it is held for writing.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.storage.ptr()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.storage.bytes() == 0 {
            return &[];
        }
        // SAFETY: host memory of this length, which lives as long as the storage. The lock keeps others from writing.
        // Memory of the allocator may be uninitialised as far as the compiler knows; it comes from outside of what the
        // compiler sees, so it has some bytes.
        unsafe { std::slice::from_raw_parts(self.storage.ptr(), self.storage.bytes()) }
    }

    /// The bytes, for writing. Does not count as a write: see [`Storage::bump_version`].
    ///
    /// # Panics
    /// If the storage is held for reading.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.exclusive, "the storage is held for reading");
        if self.storage.bytes() == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the lock is exclusive, and this the only guard of it.
        unsafe { std::slice::from_raw_parts_mut(self.storage.ptr(), self.storage.bytes()) }
    }
}

impl Drop for HeldStorage {
    fn drop(&mut self) {
        // SAFETY: `try_new` took the lock in this mode, and nobody else releases it.
        unsafe { self.storage.unlock(self.exclusive) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_and_comes_and_is_counted() {
        let bytes = 3 << 20;
        let storage = Storage::reserved(bytes).expect("memory");
        let at = storage.ptr();
        // SAFETY: within the fresh storage.
        unsafe { at.write(7) };
        let with = alloc::thread_stats();
        storage.release().expect("reserved");
        storage.release().expect("reserved");
        assert!(storage.is_released());
        let without = alloc::thread_stats();
        assert_eq!(without.freed_bytes - with.freed_bytes, bytes as u64);
        storage.restore().expect("reserved");
        assert_eq!(storage.ptr(), at);
        let again = alloc::thread_stats();
        assert_eq!(
            again.allocated_bytes - without.allocated_bytes,
            bytes as u64
        );
        let mut first = [1];
        storage.read(0, &mut first).expect("there");
        assert_eq!(first, [0]);
        assert!(Storage::host(64).expect("memory").release().is_err());
    }

    #[test]
    fn a_held_storage_keeps_others_out() {
        let s = Shared::new(Storage::host(64).expect("memory"));
        let held = HeldStorage::try_new(&s, false).expect("free");
        let second = HeldStorage::try_new(&s, false).expect("readers share");
        assert!(HeldStorage::try_new(&s, true).is_none());
        drop((held, second));
        assert!(HeldStorage::try_new(&s, true).expect("free").is_exclusive());
        let reserved = Shared::new(Storage::reserved(8).expect("memory"));
        reserved.release().expect("reserved");
        assert!(HeldStorage::try_new(&reserved, true).is_none());
        reserved.restore().expect("reserved");
        assert!(HeldStorage::try_new(&reserved, true).is_some());
    }
}
