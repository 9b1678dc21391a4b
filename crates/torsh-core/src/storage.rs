//! Storage: shared, interior-mutable memory with a version counter and a lock.

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;

use crate::alloc::Block;
use crate::backend::DeviceBlock;
use crate::pages::Reserved;
use crate::{Device, Result, Shared, TorshError, alloc};

/// The owner of a [`Storage`]'s memory.
#[doc(hidden)]
pub enum Owner {
    /// A block of the host's caching allocator.
    Host(Block),
    /// A block of a device's backend.
    Device(DeviceBlock),
    /// External memory (a mapped file, DLPack); freed on drop.
    Foreign(Box<dyn Any + Send + Sync>),
    /// Addresses whose memory can go back to the system and come again.
    Reserved(Reserved),
    /// The same of a device's backend.
    ReservedOnDevice(DeviceBlock),
    /// No memory: the meta device.
    Nothing,
    /// No memory of its own: the elements are in the storages of other tensors, as those of a sparse tensor are.
    Parts,
}

/// The memory behind one or more tensors.
///
/// Views of a tensor share its storage, so a write through one is visible in all. Reads and writes
/// go through [`lock_all`], which the dispatcher calls for every op. `version` counts the writes,
/// so that automatic differentiation notices changes of saved values.
///
/// ```
/// use torsh_core::Storage;
///
/// let storage = Storage::filled(4, |bytes| Ok(bytes.copy_from_slice(&[1, 2, 3, 4])))?;
/// let mut tail = [0; 2];
/// storage.read(2, &mut tail)?;
/// assert_eq!((tail, storage.bytes(), storage.version()), ([3, 4], 4, 0));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    device: Device,
    version: AtomicU64,
    lock: RawRwLock,
    /// Whether [`Storage::release`] has given the memory back; changed under the exclusive lock.
    pub(crate) released: AtomicBool,
    owner: Owner,
}

// SAFETY: the memory behind `ptr` is only reached through kernels that hold `lock` (shared for
// reading, exclusive for writing), or through `&mut`/fresh storages nobody else has; the owner is
// itself Send and Sync.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Returns uninitialised host memory of `bytes` bytes, aligned to 64.
    ///
    /// ```
    /// use torsh_core::{Device, Storage};
    /// let storage = Storage::host(100)?;
    /// assert_eq!((storage.bytes(), storage.device(), storage.ptr() as usize % 64), (100, Device::Cpu, 0));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn host(bytes: usize) -> Result<Storage> {
        let block = alloc::allocate(bytes)?;
        Ok(Storage::of_block(block, bytes))
    }

    /// [`Storage::host`] with a handle, made where it stays.
    #[doc(hidden)]
    #[inline]
    pub fn shared_host(bytes: usize) -> Result<Shared<Storage>> {
        let block = alloc::allocate(bytes)?;
        Ok(Shared::with(|| Storage::of_block(block, bytes)))
    }

    #[inline(always)]
    fn of_block(block: Block, bytes: usize) -> Storage {
        Storage {
            ptr: block.ptr(),
            bytes,
            device: Device::Cpu,
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(false),
            owner: Owner::Host(block),
        }
    }

    /// Returns a storage without memory, for the meta device. `bytes` is only remembered.
    ///
    /// ```
    /// use torsh_core::{Device, Storage};
    /// let storage = Storage::meta(1 << 40);
    /// assert_eq!((storage.bytes(), storage.device()), (1 << 40, Device::Meta));
    /// assert!(storage.read(0, &mut [0]).unwrap_err().to_string().contains("the memory of meta cannot be read"));
    /// ```
    pub fn meta(bytes: usize) -> Storage {
        Storage {
            ptr: NonNull::dangling(),
            bytes,
            device: Device::Meta,
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(false),
            owner: Owner::Nothing,
        }
    }

    /// Returns the storage of a tensor whose elements are in other tensors: it has no bytes, and a call that locks it is
    /// refused ([`Locks::usable`]).
    ///
    /// ```
    /// use torsh_core::{Device, Storage, lock_all};
    /// let storage = Storage::of_parts(Device::Cpu);
    /// assert_eq!((storage.bytes(), storage.device()), (0, Device::Cpu));
    /// let error = lock_all(&[(&storage, false)]).usable().unwrap_err().to_string();
    /// assert!(error.contains("a sparse tensor has no memory of its own"));
    /// ```
    pub fn of_parts(device: Device) -> Storage {
        Storage {
            ptr: NonNull::dangling(),
            bytes: 0,
            device,
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(true),
            owner: Owner::Parts,
        }
    }

    /// Memory of the device of the block's backend, which nobody else can name:
    ///
    /// ```compile_fail,E0061
    /// use torsh_core::{Device, DeviceBlock, Storage};
    /// fn on_the_host(block: DeviceBlock) -> Storage {
    ///     Storage::on_device(block, Device::Cpu)
    /// }
    /// ```
    pub fn on_device(block: DeviceBlock) -> Storage {
        Storage {
            ptr: block.ptr(),
            bytes: block.bytes(),
            device: block.backend().device(),
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(false),
            owner: Owner::Device(block),
        }
    }

    /// Memory with an external owner: a mapped file, DLPack.
    ///
    /// # Safety
    /// `ptr` must stay valid for `bytes` bytes, for reading and writing, until `owner` is dropped,
    /// and nobody else may write to it meanwhile.
    pub unsafe fn foreign(
        ptr: NonNull<u8>,
        bytes: usize,
        device: Device,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Storage {
        Storage {
            ptr,
            bytes,
            device,
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(false),
            owner: Owner::Foreign(owner),
        }
    }

    /// Memory of an owner that can give it back and keep its addresses.
    pub(crate) fn of_reserved(reserved: Reserved) -> Storage {
        Storage {
            ptr: reserved.ptr(),
            bytes: reserved.bytes(),
            device: Device::Cpu,
            version: AtomicU64::new(0),
            lock: RawRwLock::INIT,
            released: AtomicBool::new(false),
            owner: Owner::Reserved(reserved),
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Makes the block of a device one whose memory can be given back.
    pub(crate) fn into_reserved(mut self) -> Storage {
        self.owner = match self.owner {
            Owner::Device(block) => Owner::ReservedOnDevice(block),
            owner => owner,
        };
        self
    }

    /// Takes the lock without waiting; whether it was free.
    pub(crate) fn try_lock(&self, exclusive: bool) -> bool {
        match exclusive {
            true => self.lock.try_lock_exclusive(),
            false => self.lock.try_lock_shared(),
        }
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The lock is held in this mode, and whoever holds it ends with this call.
    pub(crate) unsafe fn unlock(&self, exclusive: bool) {
        // SAFETY: as promised by the caller.
        unsafe {
            match exclusive {
                true => self.lock.unlock_exclusive(),
                false => self.lock.unlock_shared(),
            }
        }
    }

    /// The block of a device's backend, where the memory is one.
    #[inline]
    pub fn block(&self) -> Option<&DeviceBlock> {
        match &self.owner {
            Owner::Device(block) | Owner::ReservedOnDevice(block) => Some(block),
            _ => None,
        }
    }

    /// The first byte, as its device knows it; a dangling pointer for empty and meta storages.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The number of bytes a tensor may use.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the memory is.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Returns the number of in-place writes to the memory.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::host(64)?;
    /// storage.bump_version();
    /// assert_eq!(storage.version(), 1);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Counts one in-place write, so that automatic differentiation notices that saved values changed.
    ///
    /// ```
    /// use torsh_core::Storage;
    /// let storage = Storage::meta(8);
    /// storage.bump_version();
    /// storage.bump_version();
    /// assert_eq!(storage.version(), 2);
    /// ```
    #[inline]
    pub fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the memory comes from its device's allocator (and may be given to a result).
    ///
    /// ```
    /// use torsh_core::Storage;
    /// assert!(Storage::host(64)?.is_owned() && !Storage::reserved(64)?.is_owned());
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    pub fn is_owned(&self) -> bool {
        matches!(self.owner, Owner::Host(_) | Owner::Device(_))
    }
}

/// Locks held by [`lock_all`]; released on drop, by the thread that took them:
///
/// ```compile_fail,E0277
/// use torsh_core::{Storage, lock_all};
/// let storage = Storage::host(64)?;
/// let locks = lock_all(&[(&storage, true)]);
/// std::thread::scope(|s| s.spawn(move || drop(locks)).join());
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// ```
/// use torsh_core::{Storage, lock_all};
/// let storage = Storage::reserved(64)?;
/// storage.release()?;
/// let locks = lock_all(&[(&storage, false)]);
/// assert!(locks.usable().unwrap_err().to_string().contains("the memory of an operand was given back"));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
pub struct Locks<'a> {
    held: smallvec::SmallVec<[(&'a Storage, bool); 4]>,
    _of_thread: PhantomData<*mut ()>,
}

impl Locks<'_> {
    /// An error if the memory of a locked storage was given back ([`Storage::release`]).
    #[inline]
    pub fn usable(&self) -> Result<()> {
        match self.held.iter().find(|(s, _)| s.is_released()) {
            Some((s, _)) => Err(released(s)),
            None => Ok(()),
        }
    }
}

#[cold]
fn released(storage: &Storage) -> TorshError {
    if matches!(storage.owner, Owner::Parts) {
        return TorshError::invalid("", "a sparse tensor has no memory of its own")
            .with_hint("convert it with to_dense(), or take its values() and indices");
    }
    TorshError::invalid("", "the memory of an operand was given back")
        .with_hint("the pieces of a sharded parameter hold its values; its whole values are there while its module runs")
}

impl Drop for Locks<'_> {
    #[inline]
    fn drop(&mut self) {
        for &(s, exclusive) in self.held.iter().rev() {
            // SAFETY: exactly these locks were taken in `lock_all`, in these modes, and this
            // guard is the only one to release them.
            unsafe { s.unlock(exclusive) }
        }
    }
}

/// The number of storages from which duplicates are found by sorting.
const MANY: usize = 16;

/// Locks the storages of one call: `true` for writing, `false` for reading.
///
/// They are locked in the order of their addresses, with duplicates merged (a write lock wins). So
/// calls of several threads on the same storages cannot deadlock, and `x.add_(&x)` takes one lock.
/// Never call user code while the guard is held.
///
/// ```
/// use torsh_core::{HeldStorage, Shared, Storage, lock_all};
/// let (a, b) = (Shared::new(Storage::host(64)?), Storage::host(64)?);
/// let locks = lock_all(&[(&b, true), (&*a, false), (&*a, true)]); // `a` is locked once, for writing.
/// assert!(HeldStorage::try_new(&a, false).is_none());
/// drop(locks);
/// assert!(HeldStorage::try_new(&a, false).is_some());
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[inline]
pub fn lock_all<'a>(storages: &[(&'a Storage, bool)]) -> Locks<'a> {
    // The case of nearly every op: one or two distinct storages.
    match *storages {
        [a] => take(smallvec::SmallVec::from_buf_and_len([a; 4], 1)),
        [a, b] => {
            let (first, second) = (a.0 as *const Storage, b.0 as *const Storage);
            if first == second {
                let merged = (a.0, a.1 | b.1);
                return take(smallvec::SmallVec::from_buf_and_len([merged; 4], 1));
            }
            let ordered = if first < second {
                [a, b, a, a]
            } else {
                [b, a, a, a]
            };
            take(smallvec::SmallVec::from_buf_and_len(ordered, 2))
        }
        _ => take(distinct(storages)),
    }
}

/// Each storage once, in the order in which locks are taken.
#[inline(never)]
fn distinct<'a>(storages: &[(&'a Storage, bool)]) -> smallvec::SmallVec<[(&'a Storage, bool); 4]> {
    let mut held: smallvec::SmallVec<[(&'a Storage, bool); 4]> = smallvec::SmallVec::new();
    if storages.len() > MANY {
        held.extend_from_slice(storages);
        held.sort_unstable_by_key(|(s, _)| *s as *const Storage as usize);
        held.dedup_by(|next, kept| {
            let same = std::ptr::eq(next.0, kept.0);
            kept.1 |= same && next.1;
            same
        });
        return held;
    }
    for &(s, write) in storages {
        match held.iter_mut().find(|(h, _)| std::ptr::eq(*h, s)) {
            Some(entry) => entry.1 |= write,
            None => held.push((s, write)),
        }
    }
    held.sort_unstable_by_key(|(s, _)| *s as *const Storage as usize);
    held
}

/// Takes locks in order.
#[inline]
fn take<'a>(held: smallvec::SmallVec<[(&'a Storage, bool); 4]>) -> Locks<'a> {
    for (s, write) in &held {
        if *write {
            s.lock.lock_exclusive();
        } else {
            s.lock.lock_shared();
        }
    }
    Locks {
        held,
        _of_thread: PhantomData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_take_one_lock() {
        let s = Storage::host(64).expect("memory");
        let t = Storage::host(64).expect("memory");
        {
            let l = lock_all(&[(&s, false), (&t, true), (&s, true)]);
            assert_eq!(l.held.len(), 2);
            assert!(!s.lock.try_lock_shared());
        }
        assert!(s.lock.try_lock_exclusive());
    }

    #[test]
    fn many_storages_are_merged_too() {
        let all: Vec<Storage> = (0..20)
            .map(|_| Storage::host(64).expect("memory"))
            .collect();
        let mut asked: Vec<(&Storage, bool)> = all.iter().map(|s| (s, false)).collect();
        asked.push((&all[3], true));
        let l = lock_all(&asked);
        assert_eq!(l.held.len(), 20);
        assert!(!all[3].lock.try_lock_shared());
        assert!(all[4].lock.try_lock_shared());
        // SAFETY: taken in the line above.
        unsafe { all[4].lock.unlock_shared() };
        drop(l);
        assert!(all[3].lock.try_lock_exclusive());
    }

    #[test]
    fn opposite_orders_do_not_deadlock() {
        let s = Storage::host(64).expect("memory");
        let t = Storage::host(64).expect("memory");
        std::thread::scope(|scope| {
            for k in 0..2 {
                let (a, b) = if k == 0 { (&s, &t) } else { (&t, &s) };
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
                        drop(lock_all(&[(a, true), (b, false)]));
                    }
                });
            }
        });
        assert_eq!(s.version(), 0);
    }
}
