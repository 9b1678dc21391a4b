//! Registers and discovers the backends of ToRSh.
//!
//! Each device has at most one backend, which lives as long as the process.

use torsh_backend_cpu::CpuBackend;
use torsh_core::alloc::MemoryStats;
use torsh_core::{Backend, Device, DeviceProperties, Kernel, KernelFn, Result, TorshError};

static CPU: CpuBackend = CpuBackend;

/// The backend of a device.
///
/// # Errors
/// [`TorshError::DeviceNotAvailable`], with what is missing, where the device is not there; it
/// never is for [`Device::Meta`], which has no data.
#[inline]
pub fn backend(device: Device) -> Result<&'static dyn Backend> {
    match device {
        Device::Cpu => Ok(&CPU),
        _ => Err(unavailable(device)),
    }
}

#[cold]
fn unavailable(device: Device) -> TorshError {
    let lacks = |backend: &str, feature: &str| {
        format!("{device}: this build of ToRSh has no {backend} backend (feature `{feature}`)")
    };
    TorshError::DeviceNotAvailable(match device {
        Device::Cuda(_) => lacks("CUDA", "cuda"),
        Device::Metal => lacks("Metal", "metal"),
        Device::Wgpu(_) => lacks("WebGPU", "wgpu"),
        Device::Meta => "meta: tensors of the meta device have shapes and dtypes but no data, so nothing can be allocated, copied or computed there".to_string(),
        Device::Cpu => "cpu: the CPU is always there".to_string(),
    })
}

/// The kernel of a device for a key; `None` where the device has none, or is not there.
#[inline]
pub fn kernel(device: Device, key: Kernel) -> Option<KernelFn> {
    match device {
        Device::Cpu => torsh_backend_cpu::kernel(key),
        _ => backend(device).ok()?.kernel(key),
    }
}

/// Whether tensors can live on the device; always true for [`Device::Cpu`] and [`Device::Meta`].
pub fn is_available(device: Device) -> bool {
    device == Device::Meta || backend(device).is_ok()
}

/// The `index`-th NVIDIA GPU, or the CPU where there is none.
pub fn cuda_if_available(index: usize) -> Device {
    let cuda = Device::Cuda(index);
    if is_available(cuda) {
        cuda
    } else {
        Device::Cpu
    }
}

/// The fastest device that is there: CUDA, then Metal, then WebGPU, then the CPU.
pub fn best_available() -> Device {
    [Device::Cuda(0), Device::Metal, Device::Wgpu(0)]
        .into_iter()
        .find(|&d| is_available(d))
        .unwrap_or(Device::Cpu)
}

/// What a device is and can do.
///
/// # Errors
/// As [`backend`].
pub fn properties(device: Device) -> Result<DeviceProperties> {
    Ok(backend(device)?.properties())
}

/// What a device's allocator holds.
///
/// # Errors
/// As [`backend`].
pub fn memory_stats(device: Device) -> Result<MemoryStats> {
    Ok(backend(device)?.memory_stats())
}

/// Gives a device's cached memory back to the system.
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

/// The keys that a device has kernels for.
///
/// # Errors
/// As [`backend`].
pub fn kernels_of(device: Device) -> Result<Vec<Kernel>> {
    let b = backend(device)?;
    Ok(Kernel::ALL
        .iter()
        .copied()
        .filter(|&k| b.kernel(k).is_some())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_there_and_has_kernels() {
        assert_eq!(backend(Device::Cpu).expect("cpu").name(), "cpu");
        assert!(kernel(Device::Cpu, Kernel::Add).is_some());
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
            text.contains("cuda:0: this build of ToRSh has no CUDA backend (feature `cuda`)"),
            "{text}"
        );
        assert!(backend(Device::Meta).is_err() && is_available(Device::Meta));
        assert!(kernel(Device::Meta, Kernel::Add).is_none());
        assert!(!is_available(Device::Metal));
    }
}
