//! The interface of a device: memory, copies, queues and kernels.
//!
//! A device is one object that lives as long as the process ([`Backend`]). The tensor crate asks it
//! for memory ([`DeviceBlock`]), copies bytes in and out, and calls its kernels. It never reads the
//! memory itself: only the device may interpret an address in a [`View`](crate::View) or [`Place`].
//!
//! A device may record work and execute it later, in the order in which it was given to a *queue*.
//! All threads share a device's default queue. A block knows which work used it last, and so orders
//! the work of different queues ([`DeviceBlock::wait_for_others`]).
//!
//! A kernel may find bad data, such as an index out of range or an integer division by zero. On an
//! asynchronous device it reports the error with the call's [`CallSite`], and the next wait returns
//! the first such error of a queue.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::alloc::MemoryStats;
use crate::kernel::{Kernel, KernelFn};
use crate::{DType, Device, Result, Storage};

/// The properties of a device, as [`Backend::properties`] gives them.
///
/// ```
/// use torsh_core::{Device, DeviceProperties};
/// let npu = DeviceProperties {
///     device: Device::Custom(0),
///     name: "example accelerator".into(),
///     total_memory: 16 << 30,
///     compute_units: 32,
///     capabilities: vec!["float64".into()],
/// };
/// assert!(npu.capabilities.iter().any(|c| c == "float64"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProperties {
    /// The device.
    pub device: Device,
    /// Its maker's name for it.
    pub name: String,
    /// Its memory in bytes; 0 if it is not known.
    pub total_memory: u64,
    /// How many threads (CPU) or multiprocessors (GPU) it computes with.
    pub compute_units: usize,
    /// Its features, such as `avx512` or `float64`.
    pub capabilities: Vec<String>,
}

/// A queue of a device's work; the default one is 0.
///
/// ```
/// use torsh_core::backend::QueueId;
/// assert_eq!(QueueId::default(), QueueId(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueId(pub u32);

/// A point in a queue: all work that was submitted before.
///
/// ```
/// use torsh_core::backend::{QueueId, Ticket};
/// let second = Ticket { queue: QueueId(0), number: 2 };
/// assert!(second.number > Ticket::default().number && second.queue == Ticket::default().queue);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The queue.
    pub queue: QueueId,
    /// The number of work items that were submitted to it.
    pub number: u64,
}

/// A point in a device's queue of work; see [`Backend::record_event`].
pub trait Event: Send + Sync {
    /// Waits until the work before the event is done.
    ///
    /// # Errors
    /// The errors of that work, as in [`Backend::synchronize`].
    fn wait(&self) -> Result<()>;
    /// Whether the work before the event is complete.
    fn is_done(&self) -> bool;
    /// The seconds from an earlier event of the device to this one; `None` where either is not done.
    fn elapsed(&self, since: &dyn Event) -> Option<f64> {
        Some(self.time()? - since.time()?)
    }
    /// When the event was reached, in seconds of the device's own clock; `None` before.
    fn time(&self) -> Option<f64>;
    /// Where in its queue it is.
    fn ticket(&self) -> Ticket;
}

/// The op of a call and the place of its caller, for deferred errors.
///
/// ```
/// use torsh_core::CallSite;
/// let site = CallSite::here("add");
/// assert_eq!((site.op, site.location.line() + 1), ("add", line!()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallSite {
    /// PyTorch's name of the op; empty where it is not known.
    pub op: &'static str,
    /// The caller.
    pub location: &'static Location<'static>,
}

impl CallSite {
    /// Returns the place of the caller, for an op of this name.
    ///
    /// ```
    /// use torsh_core::CallSite;
    /// #[track_caller]
    /// fn add() -> CallSite {
    ///     CallSite::here("add")
    /// }
    /// let (site, line) = (add(), line!());
    /// assert_eq!(site.location.line(), line);
    /// ```
    #[track_caller]
    pub fn here(op: &'static str) -> CallSite {
        CallSite {
            op,
            location: Location::caller(),
        }
    }
}

/// Bytes in a device's memory.
///
/// ```
/// use torsh_core::{Device, Place};
/// let mut memory = [0u8; 16];
/// // SAFETY: the bytes belong to one array, which nobody else uses.
/// let place = unsafe { Place::new(memory.as_mut_ptr(), 16, Device::Cpu) };
/// assert_eq!((place.bytes(), place.device()), (16, Device::Cpu));
/// ```
#[derive(Clone, Copy)]
pub struct Place<'a> {
    ptr: *mut u8,
    bytes: usize,
    device: Device,
    _lives: PhantomData<&'a ()>,
}

// SAFETY: a place only names memory, which only its device reads and writes.
unsafe impl Send for Place<'_> {}
// SAFETY: as above.
unsafe impl Sync for Place<'_> {}

impl<'a> Place<'a> {
    /// # Safety
    /// `bytes` bytes from `ptr` on belong to one allocation of the device, for `'a`, and nobody else
    /// uses them until the call that gets the place returns (or until work that a queue was given
    /// before is done).
    pub const unsafe fn new(ptr: *mut u8, bytes: usize, device: Device) -> Place<'a> {
        Place {
            ptr,
            bytes,
            device,
            _lives: PhantomData,
        }
    }
    /// The first byte, as the device knows it.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Whose they are.
    pub fn device(&self) -> Device {
        self.device
    }
}

/// Host memory to read, whose bytes need not be initialised.
///
/// ```
/// use torsh_core::backend::HostBytes;
/// let source = HostBytes::from(&[1u8, 2, 3][..]);
/// assert_eq!(source.bytes(), 3);
/// ```
#[derive(Clone, Copy)]
pub struct HostBytes<'a> {
    ptr: *const u8,
    bytes: usize,
    _lives: PhantomData<&'a ()>,
}

impl<'a> HostBytes<'a> {
    /// # Safety
    /// `bytes` bytes from `ptr` on can be read for `'a`.
    pub const unsafe fn new(ptr: *const u8, bytes: usize) -> HostBytes<'a> {
        HostBytes {
            ptr,
            bytes,
            _lives: PhantomData,
        }
    }
    /// The first byte.
    pub fn ptr(&self) -> *const u8 {
        self.ptr
    }
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<'a> From<&'a [u8]> for HostBytes<'a> {
    fn from(b: &'a [u8]) -> Self {
        // SAFETY: a slice can be read.
        unsafe { HostBytes::new(b.as_ptr(), b.len()) }
    }
}

/// Host memory to write.
///
/// ```
/// use torsh_core::backend::HostBytesMut;
/// let mut memory = [0u8; 4];
/// let target = HostBytesMut::from(&mut memory[1..]);
/// assert_eq!(target.bytes(), 3);
/// ```
pub struct HostBytesMut<'a> {
    ptr: *mut u8,
    bytes: usize,
    _lives: PhantomData<&'a mut ()>,
}

impl<'a> HostBytesMut<'a> {
    /// # Safety
    /// `bytes` bytes from `ptr` on can be written for `'a`, by this alone.
    pub const unsafe fn new(ptr: *mut u8, bytes: usize) -> HostBytesMut<'a> {
        HostBytesMut {
            ptr,
            bytes,
            _lives: PhantomData,
        }
    }
    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<'a> From<&'a mut [u8]> for HostBytesMut<'a> {
    fn from(b: &'a mut [u8]) -> Self {
        // SAFETY: the slice is borrowed exclusively.
        unsafe { HostBytesMut::new(b.as_mut_ptr(), b.len()) }
    }
}

/// A device: its memory, its queues of work and its kernels.
///
/// An implementation handles kernels and memory, and knows nothing of tensors. All methods may be
/// called from any thread. Once a device is lost, every fallible method returns
/// [`DeviceLost`](crate::TorshError::DeviceLost), and no method waits for the device.
///
/// # Safety
/// Tensors rely on a backend's memory, so an implementation promises that
///
/// * [`device`](Backend::device) always returns the same device, and no other backend manages its
///   memory;
/// * [`allocate`](Backend::allocate) returns the requested number of bytes, aligned to 64, which
///   have no other owner at least until [`free`](Backend::free) takes them back;
/// * freed memory is reused only after the work in [`Freed::uses`] and all work of its queue is
///   complete; memory that [`release`](Backend::release) gave back is too, while the block's
///   addresses stay its own, and [`restore`](Backend::restore) brings as many bytes there;
/// * copies and fills touch only the bytes of their places, and host memory only before they
///   return;
/// * a queue executes work in the order of submission, and work submitted after a call of
///   [`order_after`](Backend::order_after) runs after the work that the call names;
/// * the function that [`kernel`](Backend::kernel) returns for a key does what the key documents
///   and touches only the memory of the call's views, within their layouts.
///
/// So code without `unsafe` cannot implement a device:
///
/// ```compile_fail,E0200
/// use torsh_core::{alloc::MemoryStats, backend::*, *};
/// struct Posing;
/// impl Backend for Posing {
///     fn name(&self) -> &'static str { "posing" }
///     fn device(&self) -> Device { Device::Cpu }
///     fn properties(&self) -> DeviceProperties { unimplemented!() }
///     fn allocate(&self, _: usize) -> Result<Storage> { Ok(Storage::meta(0)) }
///     fn free(&self, _: Freed<'_>) {}
///     fn upload(&self, _: HostBytes<'_>, _: Place<'_>) -> Result<()> { Ok(()) }
///     fn download(&self, _: Place<'_>, _: HostBytesMut<'_>) -> Result<()> { Ok(()) }
///     fn copy(&self, _: Place<'_>, _: Place<'_>) -> Result<()> { Ok(()) }
///     fn fill(&self, _: Place<'_>, _: u8) -> Result<()> { Ok(()) }
///     fn flush(&self) -> Result<()> { Ok(()) }
///     fn synchronize(&self) -> Result<()> { Ok(()) }
///     fn queue(&self) -> QueueId { QueueId(0) }
///     fn set_queue(&self, _: QueueId) -> Result<()> { Ok(()) }
///     fn new_queue(&self, _: i32) -> Result<QueueId> { Ok(QueueId(0)) }
///     fn ticket(&self) -> Ticket { Ticket::default() }
///     fn order_after(&self, _: Ticket) -> Result<()> { Ok(()) }
///     fn record_event(&self) -> Result<Box<dyn Event>> { unimplemented!() }
///     fn memory_stats(&self) -> MemoryStats { unimplemented!() }
///     fn empty_cache(&self) {}
///     fn kernel(&self, _: Kernel, _: DType) -> Option<KernelFn> { None }
/// }
/// ```
pub unsafe trait Backend: Send + Sync {
    /// The backend's name, as `cpu`.
    fn name(&self) -> &'static str;
    /// The device that it is.
    fn device(&self) -> Device;
    /// The properties and features of the device.
    fn properties(&self) -> DeviceProperties;
    /// Whether tensors of a dtype can live on the device.
    fn supports(&self, dtype: DType) -> bool {
        let _ = dtype;
        true
    }
    /// Uninitialised memory, aligned to 64 bytes, for work of the thread's current queue.
    ///
    /// # Errors
    /// [`out_of_memory`](crate::TorshError::out_of_memory), with the device and the bytes.
    fn allocate(&self, bytes: usize) -> Result<Storage>;
    /// Takes back the memory of a [`DeviceBlock`]. It may be reused only after all work in `uses`
    /// and in the block's queue is complete.
    fn free(&self, block: Freed<'_>);
    /// [`allocate`](Backend::allocate) of memory that [`release`](Backend::release) is to give back
    /// while its addresses stay.
    ///
    /// # Errors
    /// As [`Backend::allocate`].
    fn reserve(&self, bytes: usize) -> Result<Storage> {
        self.allocate(bytes)
    }
    /// Gives the memory behind a block of [`reserve`](Backend::reserve) back, after the work before
    /// in the current queue, and keeps its addresses. No work that uses the block follows until
    /// [`restore`](Backend::restore). On a device that cannot do so, as by default, the memory stays.
    ///
    /// # Errors
    /// Where the device is lost.
    fn release(&self, block: &DeviceBlock) -> Result<()> {
        let _ = block;
        Ok(())
    }
    /// Brings memory for a block that was released, in the current queue's order, with any content.
    ///
    /// # Errors
    /// As [`Backend::allocate`].
    fn restore(&self, block: &DeviceBlock) -> Result<()> {
        let _ = block;
        Ok(())
    }
    /// Copies host memory to the device. The host's bytes are read before it returns; the device's
    /// may be written later, in the current queue's order.
    fn upload(&self, src: HostBytes<'_>, dst: Place<'_>) -> Result<()>;
    /// Copies from the device to host memory, and waits for it and all work before.
    ///
    /// # Errors
    /// Also what that work failed with, as [`Backend::synchronize`].
    fn download(&self, src: Place<'_>, dst: HostBytesMut<'_>) -> Result<()>;
    /// Copies within the device, or from another of the same backend ([`Backend::name`]); as many
    /// bytes as `dst` has. It comes after the work in the current queues of both devices, and later
    /// work in them comes after it; nothing waits.
    fn copy(&self, src: Place<'_>, dst: Place<'_>) -> Result<()>;
    /// Sets each byte, in the current queue's order.
    fn fill(&self, dst: Place<'_>, byte: u8) -> Result<()>;
    /// Submits the recorded work of the current queue to the device, so that it runs without a
    /// wait.
    ///
    /// # Errors
    /// Where the device is lost.
    fn flush(&self) -> Result<()>;
    /// Waits until all work of all queues is complete.
    ///
    /// # Errors
    /// The first error that work reported since the last wait. It is reported once, and the device
    /// remains usable.
    fn synchronize(&self) -> Result<()>;
    /// The queue that the calling thread's work goes to.
    fn queue(&self) -> QueueId;
    /// Chooses the queue for the calling thread's work.
    fn set_queue(&self, queue: QueueId) -> Result<()>;
    /// Creates a queue. If the device supports priorities, a queue with a lower `priority` value
    /// runs first.
    fn new_queue(&self, priority: i32) -> Result<QueueId>;
    /// The end of the current queue: all work that was submitted to it so far.
    fn ticket(&self) -> Ticket;
    /// Makes later work of the current queue wait for work of another queue.
    fn order_after(&self, ticket: Ticket) -> Result<()>;
    /// Marks this point in the current queue.
    fn record_event(&self) -> Result<Box<dyn Event>>;
    /// What the allocator holds.
    fn memory_stats(&self) -> MemoryStats;
    /// Gives cached memory back to the system.
    fn empty_cache(&self);
    /// The kernel for a key that computes in a dtype
    /// ([`KernelArgs::compute`](crate::KernelArgs::compute)); `None` if the backend has none; the
    /// op is then computed by its definition in other ops.
    fn kernel(&self, kernel: Kernel, compute: DType) -> Option<KernelFn>;
}

/// The work that used a block's memory last: the last write, and the reads since, one for each
/// queue.
///
/// ```
/// use torsh_core::backend::Uses;
/// let unused = Uses::default();
/// assert!(unused.write.is_none() && unused.reads.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// The last write.
    pub write: Option<Ticket>,
    /// Reads after it.
    pub reads: SmallVec<[Ticket; 2]>,
}

/// The memory that a dropped block returns to its backend. Only dropping a block creates one:
///
/// ```compile_fail,E0451
/// use torsh_core::backend::{Backend, Freed, Uses};
/// fn free_twice(b: &dyn Backend, ptr: std::ptr::NonNull<u8>) {
///     b.free(Freed { ptr, bytes: 64, token: 0, uses: &Uses::default() });
/// }
/// ```
pub struct Freed<'a> {
    ptr: NonNull<u8>,
    bytes: usize,
    token: u64,
    uses: &'a Uses,
}

impl<'a> Freed<'a> {
    /// The first byte.
    pub fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }
    /// As many bytes as were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// The backend's own mark of the block.
    pub fn token(&self) -> u64 {
        self.token
    }
    /// The work that used it.
    pub fn uses(&self) -> &'a Uses {
        self.uses
    }
}

/// Memory of a device, which returns to its backend on drop.
pub struct DeviceBlock {
    ptr: NonNull<u8>,
    bytes: usize,
    token: u64,
    backend: &'static dyn Backend,
    uses: Mutex<Uses>,
}

impl DeviceBlock {
    /// A block of a backend, which gets it back as [`Freed`].
    ///
    /// # Safety
    /// `bytes` bytes from `ptr` on are memory of the backend's device, aligned to 64, that nobody else
    /// has until the block is dropped. (`ptr` need not be an address of the host.)
    pub unsafe fn new(
        backend: &'static dyn Backend,
        ptr: NonNull<u8>,
        bytes: usize,
        token: u64,
    ) -> DeviceBlock {
        DeviceBlock {
            ptr,
            bytes,
            token,
            backend,
            uses: Mutex::default(),
        }
    }

    /// The first byte, as the device knows it.
    pub fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The backend's own mark of the block.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whose it is.
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// To be called before work of `queue`, the calling thread's current one, reads or writes the
    /// block. If another queue used the block, the current queue waits for that work.
    ///
    /// # Errors
    /// Where the device is lost.
    pub fn wait_for_others(&self, queue: QueueId, writes: bool) -> Result<()> {
        let uses = self.uses.lock();
        let reads: &[Ticket] = if writes { &uses.reads } else { &[] };
        uses.write
            .iter()
            .chain(reads)
            .filter(|t| t.queue != queue)
            .try_for_each(|t| self.backend.order_after(*t))
    }

    /// To be called after work that reads or writes the block was submitted to the current queue,
    /// whose [`Backend::ticket`] is then `now`. Both calls and the work between them are under the
    /// storage's lock.
    ///
    /// # Safety
    /// `now` is that ticket. With an earlier one the memory might be freed or written over while
    /// work still uses it:
    ///
    /// ```compile_fail,E0133
    /// use torsh_core::{DeviceBlock, backend::Ticket};
    /// fn forget_the_last_use(block: &DeviceBlock) {
    ///     block.used(Ticket::default(), true);
    /// }
    /// ```
    pub unsafe fn used(&self, now: Ticket, writes: bool) {
        let mut uses = self.uses.lock();
        if writes {
            uses.reads.clear();
            uses.write = Some(now);
            return;
        }
        match uses.reads.iter_mut().find(|r| r.queue == now.queue) {
            Some(r) => *r = now,
            None => uses.reads.push(now),
        }
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        self.backend.free(Freed {
            ptr: self.ptr,
            bytes: self.bytes,
            token: self.token,
            uses: self.uses.get_mut(),
        });
    }
}

impl fmt::Debug for DeviceBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.backend.name())
    }
}
