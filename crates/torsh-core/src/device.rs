//! Where a tensor lives.

use std::fmt;
use std::str::FromStr;

use crate::{Result, TorshError};

/// Where a tensor's data lives and its ops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// The host's memory and processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by index.
    Cuda(usize),
    /// Apple's GPU.
    Metal,
    /// A GPU through WebGPU (Vulkan, Metal, DX12), by index.
    Wgpu(usize),
    /// No data at all: shapes and dtypes are computed, kernels are not run.
    Meta,
}

/// The kind of a [`Device`], without its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DeviceType {
    /// See [`Device::Cpu`].
    Cpu = 0,
    /// See [`Device::Cuda`].
    Cuda = 1,
    /// See [`Device::Metal`].
    Metal = 2,
    /// See [`Device::Wgpu`].
    Wgpu = 3,
    /// See [`Device::Meta`].
    Meta = 4,
}

impl Device {
    /// The processor.
    pub const fn cpu() -> Device {
        Device::Cpu
    }

    /// The `index`-th NVIDIA GPU.
    pub const fn cuda(index: usize) -> Device {
        Device::Cuda(index)
    }

    /// Apple's GPU.
    pub const fn metal() -> Device {
        Device::Metal
    }

    /// The first WebGPU adapter.
    pub const fn webgpu() -> Device {
        Device::Wgpu(0)
    }

    /// The kind without the index.
    pub const fn device_type(self) -> DeviceType {
        match self {
            Device::Cpu => DeviceType::Cpu,
            Device::Cuda(_) => DeviceType::Cuda,
            Device::Metal => DeviceType::Metal,
            Device::Wgpu(_) => DeviceType::Wgpu,
            Device::Meta => DeviceType::Meta,
        }
    }

    /// Whether the host can read the device's memory through a pointer.
    pub const fn is_host(self) -> bool {
        matches!(self, Device::Cpu)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.pad("cpu"),
            Device::Cuda(i) => f.pad(&format!("cuda:{i}")),
            Device::Metal => f.pad("metal"),
            Device::Wgpu(i) => f.pad(&format!("wgpu:{i}")),
            Device::Meta => f.pad("meta"),
        }
    }
}

impl FromStr for Device {
    type Err = TorshError;

    /// Reads `cpu`, `cuda`, `cuda:1`, `metal` (or `mps`), `wgpu:0` (or `webgpu`), `meta`.
    fn from_str(s: &str) -> Result<Device> {
        let (kind, index) = match s.trim().split_once(':') {
            Some((k, i)) => (k, Some(i)),
            None => (s.trim(), None),
        };
        let bad = |what: String| {
            TorshError::invalid("Device::from_str", what)
                .with_hint("devices are written cpu, cuda, cuda:1, metal, wgpu, wgpu:1 or meta")
        };
        let number = match index {
            Some(i) => i
                .parse::<usize>()
                .map_err(|_| bad(format!("'{i}' is no device index in '{s}'")))?,
            None => 0,
        };
        let device = match kind.to_ascii_lowercase().as_str() {
            "cpu" => Device::Cpu,
            "cuda" => Device::Cuda(number),
            "metal" | "mps" => Device::Metal,
            "wgpu" | "webgpu" => Device::Wgpu(number),
            "meta" => Device::Meta,
            _ => return Err(bad(format!("no device is named '{s}'"))),
        };
        if number > 0 && !matches!(device, Device::Cuda(_) | Device::Wgpu(_)) {
            return Err(bad(format!(
                "there is only one '{kind}' device, got index {number}"
            )));
        }
        Ok(device)
    }
}

impl From<&Device> for Device {
    fn from(d: &Device) -> Device {
        *d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for d in [
            Device::Cpu,
            Device::Cuda(3),
            Device::Metal,
            Device::Wgpu(1),
            Device::Meta,
        ] {
            assert_eq!(d.to_string().parse::<Device>().expect("its own name"), d);
        }
        assert!("cpu:1".parse::<Device>().is_err());
        assert!("cuda:x".parse::<Device>().is_err());
        assert!("tpu".parse::<Device>().is_err());
    }
}
