//! What a device must be able to do.

use std::any::Any;

use crate::alloc::MemoryStats;
use crate::kernel::{Kernel, KernelFn};
use crate::{Device, Result, Storage};

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProperties {
    /// The device.
    pub device: Device,
    /// Its maker's name for it.
    pub name: String,
    /// Its memory in bytes; 0 where it cannot tell.
    pub total_memory: u64,
    /// How many threads (CPU) or multiprocessors (GPU) it computes with.
    pub compute_units: usize,
    /// What it can do, as `avx512` or `float64`.
    pub capabilities: Vec<String>,
}

/// A point in a device's queue of work; see [`Backend::record_event`].
pub trait Event: Send + Sync {
    /// Waits until the work before the event is done.
    fn wait(&self) -> Result<()>;
    /// Whether the work before the event is done.
    fn is_done(&self) -> bool;
}

/// A device: its memory, its queue of work and its kernels.
///
/// An implementation knows kernels and memory and nothing of tensors.
pub trait Backend: Send + Sync {
    /// The backend's name, as `cpu`.
    fn name(&self) -> &'static str;
    /// What the device is and can do.
    fn properties(&self) -> DeviceProperties;
    /// Uninitialised memory, aligned to 64 bytes.
    fn allocate(&self, bytes: usize) -> Result<Storage>;
    /// Copies bytes from host memory into the device's.
    ///
    /// # Safety
    /// `src` must be readable and `dst` (of this device) writable for `bytes` bytes.
    unsafe fn copy_from_host(&self, src: *const u8, dst: *mut u8, bytes: usize) -> Result<()>;
    /// Copies bytes from the device's memory into the host's, and waits for it.
    ///
    /// # Safety
    /// `src` (of this device) must be readable and `dst` writable for `bytes` bytes.
    unsafe fn copy_to_host(&self, src: *const u8, dst: *mut u8, bytes: usize) -> Result<()>;
    /// Waits until all work given to the device is done.
    fn synchronize(&self) -> Result<()>;
    /// Marks this point in the device's queue.
    fn record_event(&self) -> Result<Box<dyn Event>>;
    /// The native handle of the queue new work goes to, where there is one.
    fn stream(&self) -> Option<Box<dyn Any>>;
    /// What the allocator holds.
    fn memory_stats(&self) -> MemoryStats;
    /// Gives cached memory back to the system.
    fn empty_cache(&self);
    /// The kernel for a key; `None` where the backend has none.
    fn kernel(&self, kernel: Kernel) -> Option<KernelFn>;
}
