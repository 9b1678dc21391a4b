//! The CPU as a backend: its memory and its table of kernels.

use std::any::Any;
use std::sync::OnceLock;

use torsh_core::alloc::{self, MemoryStats};
use torsh_core::backend::Event;
use torsh_core::{Backend, Device, DeviceProperties, Kernel, KernelFn, Result, Storage};

use crate::arch::Level;

/// The files that define kernels, in the order they are asked.
const SOURCES: &[fn(Kernel) -> Option<KernelFn>] = &[
    crate::pointwise::kernel,
    crate::copy::kernel,
    crate::create::kernel,
    crate::cross::kernel,
    crate::embedding_bag::kernel,
    crate::index::kernel,
    crate::sort::kernel,
    crate::optim::kernel,
    crate::conv::kernel,
    crate::random::kernel,
    crate::loss::kernel,
    crate::attention::kernel,
    crate::batch_norm::kernel,
    crate::row_norm::kernel,
    crate::rnn::kernel,
    crate::pooling::kernel,
    crate::resample::kernel,
    crate::matmul::kernel,
    crate::reduce::kernel,
    crate::scan::kernel,
    crate::softmax::kernel,
];

type Table = [Option<KernelFn>; Kernel::COUNT];

static TABLE: OnceLock<Table> = OnceLock::new();

#[cold]
fn build() -> Table {
    std::array::from_fn(|i| SOURCES.iter().find_map(|source| source(Kernel::ALL[i])))
}

/// The kernel for a key; `None` where the CPU has none.
#[inline]
pub fn kernel(k: Kernel) -> Option<KernelFn> {
    TABLE.get_or_init(build)[k as usize]
}

/// The host's processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

/// Work on the CPU is done when the call returns.
struct Done;

impl Event for Done {
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    fn is_done(&self) -> bool {
        true
    }
}

/// The value of the first line of a file of `/proc` that starts with `key`.
fn proc_line(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn properties(&self) -> DeviceProperties {
        let name = proc_line("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| std::env::consts::ARCH.to_string());
        let kib = proc_line("/proc/meminfo", "MemTotal")
            .and_then(|s| s.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0);
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
            total_memory: kib * 1024,
            compute_units: std::thread::available_parallelism().map_or(1, |n| n.get()),
            capabilities,
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Storage> {
        Storage::host(bytes)
    }

    unsafe fn copy_from_host(&self, src: *const u8, dst: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(src, dst, bytes) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, src: *const u8, dst: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(src, dst, bytes) };
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn record_event(&self) -> Result<Box<dyn Event>> {
        Ok(Box::new(Done))
    }

    fn stream(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn memory_stats(&self) -> MemoryStats {
        alloc::stats()
    }

    fn empty_cache(&self) {
        alloc::empty_cache();
    }

    #[inline]
    fn kernel(&self, k: Kernel) -> Option<KernelFn> {
        kernel(k)
    }
}
