//! How much memory tensors use.

use std::ops::Sub;

use torsh_core::alloc::{self, MemoryStats};
use torsh_tensor::{Device, Result};

use crate::MB;

/// The memory of tensors, in units of 2^20 bytes; the difference of two readings is one too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUsage {
    /// In use: the capacities of all blocks that are given out.
    pub allocated_mb: f64,
    /// Free, kept for reuse.
    pub cached_mb: f64,
    /// The most that was in use at once; see
    /// [`MemoryStats::peak_allocated_bytes`](torsh_core::alloc::MemoryStats::peak_allocated_bytes).
    pub peak_mb: f64,
}

impl From<MemoryStats> for MemoryUsage {
    fn from(s: MemoryStats) -> MemoryUsage {
        MemoryUsage {
            allocated_mb: s.allocated_bytes as f64 / MB,
            cached_mb: s.cached_bytes as f64 / MB,
            peak_mb: s.peak_allocated_bytes as f64 / MB,
        }
    }
}

impl Sub for MemoryUsage {
    type Output = MemoryUsage;

    fn sub(self, before: MemoryUsage) -> MemoryUsage {
        MemoryUsage {
            allocated_mb: self.allocated_mb - before.allocated_mb,
            cached_mb: self.cached_mb - before.cached_mb,
            peak_mb: self.peak_mb - before.peak_mb,
        }
    }
}

/// The memory of the process's CPU tensors now, over all threads.
///
/// ```
/// use torsh_profiler::get_memory_usage;
/// use torsh_tensor::ones;
/// let before = get_memory_usage();
/// let x = ones(&[1024, 1024]);
/// assert_eq!((get_memory_usage() - before).allocated_mb, 4.0);
/// # drop(x);
/// ```
pub fn get_memory_usage() -> MemoryUsage {
    alloc::stats().into()
}

/// The memory of the process's tensors on a device now, over all threads.
///
/// ```
/// use torsh_profiler::get_memory_usage_of;
/// use torsh_tensor::{Device, ones};
/// let x = ones(&[1024, 1024]);
/// assert!(get_memory_usage_of(Device::Cpu)?.allocated_mb >= 4.0);
/// # drop(x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where the device is not there, or has no data (`meta`).
#[torsh_tensor::names_caller]
pub fn get_memory_usage_of(device: impl Into<Device>) -> Result<MemoryUsage> {
    torsh_tensor::devices::memory_stats(device.into()).map(MemoryUsage::from)
}
