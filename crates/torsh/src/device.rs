//! Queries of devices, and the manager that chooses one.

use torsh_core::alloc::MemoryStats;
use torsh_core::{Device, DeviceProperties, Result, TorshError};
use torsh_tensor::{Stream, Tensor};

/// What a [`Device`] can be asked.
///
/// ```
/// use torsh::prelude::*;
/// assert!(Device::Cpu.is_available());
/// let device = Device::best_available();
/// let x = Tensor::ones(&[256], DType::F32, device)?;
/// assert!(device.memory_stats()?.allocated_bytes >= 1024);
/// assert!(device.properties()?.compute_units > 0);
/// let y = torsh::stream(&device.new_stream()?, || x.add(1.0))?;
/// device.synchronize()?;
/// assert_eq!(device.current_stream()?, device.default_stream()?);
/// drop((x, y));
/// device.empty_cache()?;
/// # Ok::<(), torsh::TorshError>(())
/// ```
pub trait DeviceExt: Copy {
    /// Whether tensors can live on the device.
    fn is_available(self) -> bool;
    /// What the device is and can do. An error where it is not there, which says what is missing.
    fn properties(self) -> Result<DeviceProperties>;
    /// What its allocator holds. Errors as [`DeviceExt::properties`].
    fn memory_stats(self) -> Result<MemoryStats>;
    /// Gives its cached memory back to the system. Errors as [`DeviceExt::properties`].
    fn empty_cache(self) -> Result<()>;
    /// Waits until the work of all its streams is done. Errors as [`DeviceExt::properties`], and what
    /// that work reported since the last wait.
    fn synchronize(self) -> Result<()>;
    /// A new stream of its work, as [`Stream::new`]. Errors as [`DeviceExt::properties`].
    fn new_stream(self) -> Result<Stream>;
    /// The stream that this thread's work on it goes to. Errors as [`DeviceExt::properties`].
    fn current_stream(self) -> Result<Stream>;
    /// The stream that all threads share. Errors as [`DeviceExt::properties`].
    fn default_stream(self) -> Result<Stream>;
    /// Whether there is an NVIDIA GPU.
    fn cuda_is_available() -> bool {
        torsh_backend::is_available(Device::Cuda(0))
    }
    /// Whether there is a GPU of Apple's.
    fn metal_is_available() -> bool {
        torsh_backend::is_available(Device::Metal)
    }
    /// The first NVIDIA GPU, or the CPU where there is none.
    fn cuda_if_available() -> Device {
        torsh_backend::cuda_if_available(0)
    }
    /// The fastest device that is there: CUDA, then Metal, then WebGPU, then the CPU.
    fn best_available() -> Device {
        torsh_backend::best_available()
    }
}

impl DeviceExt for Device {
    fn is_available(self) -> bool {
        torsh_backend::is_available(self)
    }
    #[torsh_tensor::names_caller]
    fn properties(self) -> Result<DeviceProperties> {
        torsh_backend::properties(self)
    }
    #[torsh_tensor::names_caller]
    fn memory_stats(self) -> Result<MemoryStats> {
        torsh_backend::memory_stats(self)
    }
    #[torsh_tensor::names_caller]
    fn empty_cache(self) -> Result<()> {
        torsh_backend::empty_cache(self)
    }
    #[torsh_tensor::names_caller]
    fn synchronize(self) -> Result<()> {
        torsh_backend::synchronize(self)
    }
    #[torsh_tensor::names_caller]
    fn new_stream(self) -> Result<Stream> {
        Stream::new(self)
    }
    #[track_caller]
    fn current_stream(self) -> Result<Stream> {
        torsh_tensor::current_stream(self)
    }
    #[track_caller]
    fn default_stream(self) -> Result<Stream> {
        torsh_tensor::default_stream(self)
    }
}

/// A device to compute on, and one for what does not fit there.
///
/// ```
/// use torsh::prelude::*;
/// use torsh::DeviceManager;
///
/// let devices = DeviceManager::with(Device::Cuda(0), Device::Cpu);
/// let x = devices.move_to_device(&tensor![1.0, 2.0])?;
/// assert_eq!(x.device(), Device::cuda_if_available());
///
/// devices.synchronize()?;
/// for (device, memory) in devices.memory_stats() {
///     println!("{device}: {} bytes in use", memory.allocated_bytes);
/// }
/// devices.empty_cache();
/// # Ok::<(), torsh::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceManager {
    primary: Device,
    fallback: Device,
}

impl Default for DeviceManager {
    fn default() -> Self {
        DeviceManager::new()
    }
}

impl DeviceManager {
    /// The fastest device that is there, and the CPU.
    pub fn new() -> Self {
        DeviceManager::with(Device::best_available(), Device::Cpu)
    }

    /// These two.
    pub fn with(primary: Device, fallback: Device) -> Self {
        DeviceManager { primary, fallback }
    }

    /// The device to compute on.
    pub fn get_device(&self) -> Device {
        self.primary
    }

    /// The device for what does not fit there.
    pub fn fallback_device(&self) -> Device {
        self.fallback
    }

    /// Those of the two that are there, the one to compute on first.
    pub fn devices(&self) -> Vec<Device> {
        let mut all = vec![self.primary, self.fallback];
        all.dedup();
        all.retain(|d| d.has_data() && d.is_available());
        all
    }

    /// What the allocators of the devices that are there hold.
    pub fn memory_stats(&self) -> Vec<(Device, MemoryStats)> {
        let stats = |d: Device| Some((d, d.memory_stats().ok()?));
        self.devices().into_iter().filter_map(stats).collect()
    }

    /// Gives the cached memory of the devices that are there back to the system.
    pub fn empty_cache(&self) {
        for d in self.devices() {
            // It is there, which is all that could be missing.
            let _ = d.empty_cache();
        }
    }

    /// Waits until the devices that are there have done their work.
    ///
    /// # Errors
    /// The first that their work reported since the last wait.
    #[torsh_tensor::names_caller]
    pub fn synchronize(&self) -> Result<()> {
        let all = self.devices().into_iter().map(DeviceExt::synchronize);
        // All are waited for, also where one reports an error.
        all.fold(Ok(()), Result::and)
    }

    /// A new stream of the device to compute on.
    ///
    /// # Errors
    /// Where the device is not there.
    #[torsh_tensor::names_caller]
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::new(self.primary)
    }

    /// The tensor on the first device, or on the second where the first is not there or has no
    /// memory left.
    #[torsh_tensor::names_caller]
    pub fn move_to_device(&self, tensor: &Tensor) -> Result<Tensor> {
        match tensor.to_device(self.primary) {
            Err(
                TorshError::DeviceNotAvailable(_)
                | TorshError::DeviceLost(_)
                | TorshError::OutOfMemory,
            ) => tensor.to_device(self.fallback),
            result => result,
        }
    }
}
