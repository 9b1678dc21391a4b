//! Devices: the names of the places where tensors live.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::{Result, TorshError, at_caller};

/// Where a tensor's data lives and its ops run.
///
/// ```
/// use torsh_core::Device;
///
/// assert_eq!("cuda:1".parse::<Device>()?, Device::Cuda(1));
/// assert_eq!(Device::Wgpu(0).to_string(), "wgpu:0");
/// assert_eq!(Device::default(), Device::Cpu);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
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
    /// A device of a backend that the program registered, by index (PyTorch's `PrivateUse1`). Its
    /// name is given with [`name_custom`].
    Custom(usize),
    /// No data at all: shapes and dtypes are computed, kernels are not run.
    Meta,
}

static CUSTOM_NAME: OnceLock<&'static str> = OnceLock::new();

/// Names the kind of [`Device::Custom`], as `torch.utils.rename_privateuse1_backend` does: with the
/// name `npu`, `Device::Custom(1)` reads and prints as `npu:1`. `custom:1` is read as well.
///
/// ```
/// use torsh_core::{Device, custom_name, name_custom};
///
/// name_custom("npu")?;
/// assert_eq!(custom_name(), "npu");
/// assert_eq!(Device::Custom(1).to_string(), "npu:1");
/// assert!(name_custom("tpu").unwrap_err().to_string().contains("named 'npu' already, not 'tpu'"));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// Where it has another name already, or the name is that of another kind or not made of lowercase
/// letters, digits and underscores.
#[track_caller]
pub fn name_custom(name: &'static str) -> Result<()> {
    let word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !word || KINDS.contains(&name) {
        return Err(TorshError::invalid(
            "name_custom",
            format!("'{name}' cannot name a kind of device"),
        )
        .with_hint("use lowercase letters, digits and underscores, and no name of another kind"));
    }
    let have = *CUSTOM_NAME.get_or_init(|| name);
    match have == name {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "name_custom",
            format!("custom devices are named '{have}' already, not '{name}'"),
        )),
    }
}

/// Returns the name of custom devices, which is `custom` unless [`name_custom`] gave another.
///
/// ```
/// assert_eq!(torsh_core::custom_name(), "custom"); // No call of `name_custom` before.
/// ```
pub fn custom_name() -> &'static str {
    CUSTOM_NAME.get().copied().unwrap_or("custom")
}

/// The names of the other kinds.
const KINDS: [&str; 8] = [
    "cpu", "cuda", "metal", "mps", "wgpu", "webgpu", "meta", "custom",
];

/// The kind of a [`Device`], without its index.
///
/// ```
/// use torsh_core::{Device, DeviceType};
///
/// assert_eq!(Device::Cuda(3).device_type(), DeviceType::Cuda);
/// assert_eq!(Device::Cuda(0).device_type(), DeviceType::Cuda);
/// ```
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
    /// See [`Device::Custom`].
    Custom = 5,
}

impl Device {
    /// Returns the processor's device.
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert_eq!(Device::cpu(), Device::Cpu);
    /// ```
    pub const fn cpu() -> Device {
        Device::Cpu
    }

    /// Returns the device of the `index`-th NVIDIA GPU. Whether there is one shows at its first use.
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert_eq!(Device::cuda(1).to_string(), "cuda:1");
    /// ```
    pub const fn cuda(index: usize) -> Device {
        Device::Cuda(index)
    }

    /// Returns the device of Apple's GPU.
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert_eq!("mps".parse::<Device>()?, Device::metal());
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    pub const fn metal() -> Device {
        Device::Metal
    }

    /// Returns the device of the first WebGPU adapter.
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert_eq!(Device::webgpu(), Device::Wgpu(0));
    /// ```
    pub const fn webgpu() -> Device {
        Device::Wgpu(0)
    }

    /// Returns the kind without the index.
    ///
    /// ```
    /// use torsh_core::{Device, DeviceType};
    /// assert_eq!(Device::Custom(2).device_type(), DeviceType::Custom);
    /// ```
    pub const fn device_type(self) -> DeviceType {
        match self {
            Device::Cpu => DeviceType::Cpu,
            Device::Cuda(_) => DeviceType::Cuda,
            Device::Metal => DeviceType::Metal,
            Device::Wgpu(_) => DeviceType::Wgpu,
            Device::Custom(_) => DeviceType::Custom,
            Device::Meta => DeviceType::Meta,
        }
    }

    /// Whether the host can read the device's memory through a pointer.
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert!(Device::Cpu.is_host() && !Device::Cuda(0).is_host());
    /// ```
    pub const fn is_host(self) -> bool {
        matches!(self, Device::Cpu)
    }

    /// Whether the device's tensors have data: all but [`Device::Meta`].
    ///
    /// ```
    /// use torsh_core::Device;
    /// assert!(Device::Cuda(0).has_data() && !Device::Meta.has_data());
    /// ```
    pub const fn has_data(self) -> bool {
        !matches!(self, Device::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.pad("cpu"),
            Device::Cuda(i) => f.pad(&format!("cuda:{i}")),
            Device::Metal => f.pad("metal"),
            Device::Wgpu(i) => f.pad(&format!("wgpu:{i}")),
            Device::Custom(i) => f.pad(&format!("{}:{i}", custom_name())),
            Device::Meta => f.pad("meta"),
        }
    }
}

impl FromStr for Device {
    type Err = TorshError;

    /// Reads `cpu`, `cuda`, `cuda:1`, `metal` (or `mps`), `wgpu:0` (or `webgpu`), `meta`, and
    /// `custom:0` or the name that custom devices have.
    #[track_caller]
    fn from_str(s: &str) -> Result<Device> {
        at_caller(|| Device::read(s))
    }
}

impl Device {
    fn read(s: &str) -> Result<Device> {
        let (kind, index) = match s.trim().split_once(':') {
            Some((k, i)) => (k, Some(i)),
            None => (s.trim(), None),
        };
        let bad = |what: String| {
            TorshError::invalid("Device::from_str", what).with_hint(match CUSTOM_NAME.get() {
                None => "this program has the devices cpu and meta".to_string(),
                Some(name) => {
                    format!("this program has the devices cpu, {name} (with an index: {name}:1) and meta")
                }
            })
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
            name if name == "custom" || name == custom_name() => Device::Custom(number),
            _ => return Err(bad(format!("no device is named '{s}'"))),
        };
        if number > 0
            && !matches!(
                device,
                Device::Cuda(_) | Device::Wgpu(_) | Device::Custom(_)
            )
        {
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
            Device::Custom(2),
            Device::Meta,
        ] {
            assert_eq!(d.to_string().parse::<Device>().expect("its own name"), d);
        }
        assert!("cpu:1".parse::<Device>().is_err());
        assert!("cuda:x".parse::<Device>().is_err());
        assert!("tpu".parse::<Device>().is_err());
    }

    #[test]
    fn custom_devices_have_one_name() {
        for bad in ["cuda", "NPU", "", "1x"] {
            assert!(name_custom(bad).is_err(), "{bad}");
        }
        name_custom("npu").expect("free");
        name_custom("npu").expect("the same again");
        let text = name_custom("tpu").unwrap_err().to_string();
        assert!(text.contains("named 'npu' already, not 'tpu'"), "{text}");
        assert_eq!(Device::Custom(1).to_string(), "npu:1");
        for name in ["npu:1", "custom:1"] {
            assert_eq!(name.parse::<Device>().expect("its name"), Device::Custom(1));
        }
    }
}
