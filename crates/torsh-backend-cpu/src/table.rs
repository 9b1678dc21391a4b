//! The CPU as a backend: its memory and its table of kernels.

use std::sync::OnceLock;
use std::time::Instant;

use torsh_core::alloc::{self, MemoryStats};
use torsh_core::backend::{Event, Freed, HostBytes, HostBytesMut, Place, QueueId, Ticket};
use torsh_core::{
    Backend, DType, Device, DeviceProperties, DeviceType, Kernel, KernelFn, Result, Storage,
    TorshError,
};

use crate::machine::choice;
use crate::operations;
use crate::simd::Level;

type KernelTable = [Option<KernelFn>; Kernel::COUNT];

static TABLE: OnceLock<KernelTable> = OnceLock::new();

#[cold]
fn build() -> KernelTable {
    choice::set_operations(operations::all());
    std::array::from_fn(|i| crate::kernels::kernel(Kernel::ALL[i]))
}

/// The kernel for a key: this crate's, or that of the crate that declares the key; `None` where the CPU has none.
#[inline]
pub fn kernel(k: Kernel) -> Option<KernelFn> {
    match k {
        Kernel::Extension(key) => key.kernel(DeviceType::Cpu),
        k => TABLE.get_or_init(build)[k.index()],
    }
}

/// The host's processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

/// Work on the CPU is done when the call returns.
struct Done(Instant);

impl Event for Done {
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    fn is_done(&self) -> bool {
        true
    }
    fn time(&self) -> Option<f64> {
        static START: OnceLock<Instant> = OnceLock::new();
        // An event may be made before the first one is asked for its time.
        let start = *START.get_or_init(|| self.0);
        Some(match self.0.checked_duration_since(start) {
            Some(after) => after.as_secs_f64(),
            None => -start.duration_since(self.0).as_secs_f64(),
        })
    }
    fn ticket(&self) -> Ticket {
        Ticket::default()
    }
}

/// The value of the first line of a file of `/proc` that starts with `key`.
fn proc_line(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

#[cold]
fn one_queue() -> TorshError {
    TorshError::device(
        "",
        "cpu has one queue: its work is done when a call returns",
    )
}

// SAFETY: memory is the host allocator's, which gives blocks of 64 aligned bytes to one owner; work is
// done when a call returns, so there is nothing to order; the kernels of this crate keep to the views
// of their call.
unsafe impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn device(&self) -> Device {
        Device::Cpu
    }

    fn properties(&self) -> DeviceProperties {
        let name = proc_line("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| torsh_core::machine::machine().name.clone());
        let mut capabilities: Vec<String> = ["float64", "float16", "bfloat16", "complex"]
            .map(String::from)
            .into();
        for (level, name) in [(Level::Avx2, "avx2"), (Level::Avx512, "avx512")] {
            if level.is_available() {
                capabilities.push(name.to_string());
            }
        }
        DeviceProperties {
            device: Device::Cpu,
            name,
            total_memory: torsh_core::os::physical_memory().unwrap_or(0),
            compute_units: std::thread::available_parallelism().map_or(1, |n| n.get()),
            capabilities,
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Storage> {
        Storage::host(bytes)
    }

    fn free(&self, _: Freed<'_>) {
        unreachable!("host memory is the allocator's own, not a device's block")
    }

    fn upload(&self, src: HostBytes<'_>, dst: Place<'_>) -> Result<()> {
        // SAFETY: both have `dst`'s bytes, as `HostBytes` and `Place` promise.
        unsafe { std::ptr::copy(src.ptr(), dst.ptr(), dst.bytes().min(src.bytes())) };
        Ok(())
    }

    fn download(&self, src: Place<'_>, dst: HostBytesMut<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy(src.ptr(), dst.ptr(), dst.bytes().min(src.bytes())) };
        Ok(())
    }

    fn copy(&self, src: Place<'_>, dst: Place<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy(src.ptr(), dst.ptr(), dst.bytes().min(src.bytes())) };
        Ok(())
    }

    fn fill(&self, dst: Place<'_>, byte: u8) -> Result<()> {
        // SAFETY: `dst` has this many bytes.
        unsafe { dst.ptr().write_bytes(byte, dst.bytes()) };
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn queue(&self) -> QueueId {
        QueueId::default()
    }

    fn set_queue(&self, queue: QueueId) -> Result<()> {
        match queue == QueueId::default() {
            true => Ok(()),
            false => Err(one_queue()),
        }
    }

    fn new_queue(&self, _: i32) -> Result<QueueId> {
        Err(one_queue())
    }

    fn ticket(&self) -> Ticket {
        Ticket::default()
    }

    fn order_after(&self, _: Ticket) -> Result<()> {
        Ok(())
    }

    fn record_event(&self) -> Result<Box<dyn Event>> {
        Ok(Box::new(Done(Instant::now())))
    }

    fn memory_stats(&self) -> MemoryStats {
        alloc::stats()
    }

    fn empty_cache(&self) {
        alloc::empty_cache();
    }

    #[inline]
    fn kernel(&self, k: Kernel, _: DType) -> Option<KernelFn> {
        // A dtype that a kernel does not have is an error of its own: nothing else computes it.
        kernel(k)
    }
}
