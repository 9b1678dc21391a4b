//! The table of devices: finds the backend of a [`Device`], and registers backends at run time.
//!
//! The CPU backend is built in. [`register`] adds a custom device, at most [`MAX_CUSTOM`] of them.
//! A device has at most one backend, which lives as long as the process. The other functions ask
//! the backend of a device for a kernel, its properties or its memory statistics.

use std::sync::OnceLock;

use torsh_backend_cpu::CpuBackend;
use torsh_core::alloc::MemoryStats;
use torsh_core::{
    Backend, DType, Device, DeviceProperties, Kernel, KernelFn, Result, Storage, TorshError,
};

/// The CPU's plans of Fourier transforms.
pub mod fft {
    pub use torsh_backend_cpu::fft::{PlanCacheStats, clear_plan_cache, plan_cache_stats};
}

/// The keys of attention over the stored blocks of a mask.
pub mod attention {
    pub use torsh_backend_cpu::attention::{BLOCKS, BLOCKS_BACKWARD};
}

static CPU: CpuBackend = CpuBackend;

/// The largest number of custom devices.
pub const MAX_CUSTOM: usize = 8;

static CUSTOM: [OnceLock<&'static dyn Backend>; MAX_CUSTOM] =
    [const { OnceLock::new() }; MAX_CUSTOM];

/// Registers a backend for `Device::Custom(index)`, for the life of the process. `name` becomes the
/// name of all custom devices ([`torsh_core::name_custom`]).
///
/// # Errors
/// If custom devices already have another name, the device already has a backend, the backend
/// belongs to another device ([`Backend::device`]), or `index` is not below [`MAX_CUSTOM`].
pub fn register(name: &'static str, index: usize, backend: &'static dyn Backend) -> Result<Device> {
    let device = Device::Custom(index);
    let Some(slot) = CUSTOM.get(index) else {
        return Err(TorshError::invalid(
            "register",
            format!("the index {index} is not below {MAX_CUSTOM}"),
        ));
    };
    torsh_core::name_custom(name)?;
    if backend.device() != device {
        return Err(TorshError::device(
            "register",
            format!("the backend is {}, not {device}", backend.device()),
        )
        .with_hint("register a backend under the index of its own device"));
    }
    match slot.set(backend) {
        Ok(()) => Ok(device),
        Err(_) => Err(TorshError::invalid(
            "register",
            format!("{device} has a backend already"),
        )),
    }
}

/// The backend of a device.
///
/// # Errors
/// [`TorshError::DeviceNotAvailable`] if the device has no backend; the error lists the available
/// devices. [`Device::Meta`] never has a backend, because it has no data.
#[inline]
pub fn backend(device: Device) -> Result<&'static dyn Backend> {
    match device {
        Device::Cpu => Ok(&CPU),
        _ => custom(device).ok_or_else(|| unavailable(device)),
    }
}

#[inline]
fn custom(device: Device) -> Option<&'static dyn Backend> {
    match device {
        Device::Custom(i) => CUSTOM.get(i)?.get().copied(),
        _ => None,
    }
}

/// The devices that have a backend, the CPU first.
pub fn devices() -> Vec<Device> {
    let custom = (0..MAX_CUSTOM).map(Device::Custom);
    [Device::Cpu]
        .into_iter()
        .chain(custom.filter(|&d| self::custom(d).is_some()))
        .collect()
}

#[cold]
fn unavailable(device: Device) -> TorshError {
    let why = match device {
        Device::Meta => "tensors of the meta device have shapes and dtypes but no data, so nothing can be allocated, copied or computed there".to_string(),
        _ => {
            let there: Vec<String> = devices().iter().map(Device::to_string).collect();
            format!("this program has no backend for it; there is {}", there.join(", "))
        }
    };
    TorshError::unavailable("", format!("device not available: {device}: {why}"))
}

/// The kernel of a device for a key that computes in a dtype; `None` if the device lacks the kernel
/// or is not available. (A CPU kernel that does not support a dtype returns an error when it is
/// called.)
#[inline]
pub fn kernel(device: Device, key: Kernel, compute: DType) -> Option<KernelFn> {
    match device {
        Device::Cpu => torsh_backend_cpu::kernel(key),
        _ => custom(device)?.kernel(key, compute),
    }
}

/// Whether tensors can live on the device; always true for [`Device::Cpu`] and [`Device::Meta`].
pub fn is_available(device: Device) -> bool {
    device == Device::Meta || backend(device).is_ok()
}

/// The `index`-th NVIDIA GPU, or the CPU if there is none.
pub fn cuda_if_available(index: usize) -> Device {
    let cuda = Device::Cuda(index);
    if is_available(cuda) {
        cuda
    } else {
        Device::Cpu
    }
}

/// The first available device of CUDA, Metal, WebGPU and the CPU.
pub fn best_available() -> Device {
    [Device::Cuda(0), Device::Metal, Device::Wgpu(0)]
        .into_iter()
        .find(|&d| is_available(d))
        .unwrap_or(Device::Cpu)
}

/// The properties and features of a device.
///
/// # Errors
/// As [`backend`].
pub fn properties(device: Device) -> Result<DeviceProperties> {
    Ok(backend(device)?.properties())
}

/// Memory of a device that can go back and come again ([`Storage::release`], [`Storage::restore`]).
///
/// ```
/// use torsh_core::Device;
/// let storage = torsh_backend::reserve(Device::Cpu, 64)?;
/// storage.release()?;
/// assert!(storage.is_released() && storage.bytes() == 64);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// As [`backend`]; no memory.
#[track_caller]
pub fn reserve(device: Device, bytes: usize) -> Result<Storage> {
    Storage::reserved_on(backend(device)?, bytes)
}

/// The statistics of a device's allocator.
///
/// # Errors
/// As [`backend`].
pub fn memory_stats(device: Device) -> Result<MemoryStats> {
    Ok(backend(device)?.memory_stats())
}

/// Returns a device's cached memory to the system.
///
/// # Errors
/// As [`backend`].
pub fn empty_cache(device: Device) -> Result<()> {
    backend(device)?.empty_cache();
    Ok(())
}

/// Waits until all work given to a device is done.
///
/// # Errors
/// As [`backend`].
pub fn synchronize(device: Device) -> Result<()> {
    backend(device)?.synchronize()
}

/// The keys that a device has kernels for, in one dtype at least.
///
/// # Errors
/// As [`backend`].
pub fn kernels_of(device: Device) -> Result<Vec<Kernel>> {
    let b = backend(device)?;
    Ok(Kernel::ALL
        .iter()
        .copied()
        .filter(|&k| DType::ALL.iter().any(|&d| b.kernel(k, d).is_some()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_there_and_has_kernels() {
        assert_eq!(backend(Device::Cpu).expect("cpu").name(), "cpu");
        assert!(kernel(Device::Cpu, Kernel::Add, DType::F32).is_some());
        assert!(
            kernels_of(Device::Cpu)
                .expect("cpu")
                .contains(&Kernel::Copy)
        );
        assert!(properties(Device::Cpu).expect("cpu").compute_units > 0);
        assert_eq!(cuda_if_available(7), Device::Cpu);
        assert_eq!(best_available(), Device::Cpu);
    }

    #[test]
    fn what_is_missing_is_said() {
        let text = backend(Device::Cuda(0)).err().expect("no CUDA").to_string();
        assert!(
            text.contains("cuda:0: this program has no backend for it; there is cpu"),
            "{text}"
        );
        assert!(backend(Device::Meta).is_err() && is_available(Device::Meta));
        assert!(kernel(Device::Meta, Kernel::Add, DType::F32).is_none());
        assert!(!is_available(Device::Metal) && !is_available(Device::Custom(MAX_CUSTOM)));
        assert_eq!(devices(), [Device::Cpu]);
    }
}
