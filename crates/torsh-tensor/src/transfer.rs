//! Moving tensors between devices.

use torsh_core::{Device, Kernel, Layout, Result, TorshError};

use crate::call::{Arg, attach, make_node};
use crate::mode;
use crate::options::options;
use crate::raw;
use crate::record::{OpRecord, Plan, sample};
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&TO_DEVICE];

torsh_core::attributes! {
    /// `to` another device.
    ToDevice {
        /// Where the tensor is.
        from: Device,
        /// Where it goes.
        to: Device,
    }
}

options! {
    /// PyTorch's keyword arguments of `Tensor.to` with a device.
    ///
    /// ```
    /// use torsh_tensor::ToDeviceOptions;
    /// let options = ToDeviceOptions::new();
    /// assert!(!options.non_blocking);
    /// assert!(!options.copy);
    /// assert!(options.non_blocking(true).non_blocking);
    /// ```
    ToDeviceOptions {
        /// Whether the caller need not wait for the copy. Copies to a device never wait: the bytes
        /// are read before the call returns, and the device's queue keeps the order. Copies from a
        /// device always do: memory that is still to be written cannot be handed out.
        non_blocking: bool = false;
        /// Whether a tensor that is on the device already is copied all the same.
        copy: bool = false;
    }
}

/// The tensor on another device. (No kernel of its own: its copies are the backends'.)
pub static TO_DEVICE: OpRecord = OpRecord::new(
    "to.device",
    "The tensor on another device; itself when it is there already.",
    "(Tensor input, Device device, *, bool non_blocking=False, bool copy=False)",
)
.overload()
.kernel(Kernel::Copy, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(0, 0, |c| {
    let device = c.attrs::<ToDevice>()?.from;
    Ok([Some(c.g().to_device(device)?)].into_iter().collect())
})
.by_name(|b| {
    let options = ToDeviceOptions::new()
        .non_blocking(b.bool(2))
        .copy(b.bool(3));
    b.tensor(0)?
        .to_device_with(b.device(1).unwrap_or_default(), options)
        .map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, Device::Cpu, copy = true]]));

/// A copy of a tensor on another device, not recorded: of its memory order where it is dense, else
/// row-major.
pub(crate) fn moved(t: &Tensor, to: Device) -> Result<Tensor> {
    let from = t.device();
    let dense = match t.memory_layout().is_dense() {
        true => t.clone(),
        false => mode::no_grad(|| t.detach().contiguous())?,
    };
    let layout = Layout::new(
        dense.shape().clone(),
        dense.memory_layout().strides.clone(),
        0,
    );
    let out = Tensor::uninit_as(layout, t.dtype(), to)?.made();
    if t.numel() == 0 {
        return Ok(out);
    }
    match (from.is_host(), to.is_host()) {
        (true, _) => raw::upload(&dense, &out)?,
        (_, true) => raw::download(&dense, &out)?,
        _ if raw::are_peers(from, to)? => raw::transfer(&dense, &out)?,
        _ => return moved(&moved(t, Device::Cpu)?, to),
    }
    Ok(out)
}

impl Tensor {
    /// The tensor on another device (`Tensor.to`); itself when it is there already. Gradients flow
    /// back to the device that the tensor is on.
    ///
    /// ```
    /// # use torsh_tensor::{Device, tensor};
    /// let x = tensor![1.0];
    /// assert!(x.to_device(Device::Cpu)?.is_same(&x));
    /// assert_eq!(x.to_device(Device::Meta)?.device(), Device::Meta);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the device is not there, has no memory left or has not the tensor's dtype, and for meta
    /// tensors, which have no data to copy.
    #[torsh_tensor::names_caller]
    pub fn to_device(&self, device: impl Into<Device>) -> Result<Tensor> {
        let device = device.into();
        if device == self.device() {
            return Ok(self.clone());
        }
        self.to_device_with(device, ToDeviceOptions::default())
    }

    /// [`Tensor::to_device`] with PyTorch's further arguments.
    ///
    /// ```
    /// use torsh_tensor::{Device, ToDeviceOptions, tensor};
    /// let x = tensor![1.0, 2.0];
    /// let copy = x.to_device_with(Device::Cpu, ToDeviceOptions::new().copy(true))?;
    /// assert!(copy == x && !copy.shares_storage(&x));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_device_with(
        &self,
        device: impl Into<Device>,
        options: ToDeviceOptions,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let (from, to) = (self.device(), device.into());
        if from == to {
            return match options.copy {
                true => self.copy(),
                false => Ok(self.clone()),
            };
        }
        if from == Device::Meta && self.is_strided() {
            return Err(TorshError::device("to_device", "a meta tensor has no data to copy")
                .with_hint("make a new tensor of its shape on the device, as Tensor::empty(t.shape(), t.dtype(), device)"));
        }
        if to == Device::Meta && self.is_strided() {
            return Tensor::empty(self.shape(), self.dtype(), Device::Meta);
        }
        let attrs = ToDevice { from, to };
        let args = [Arg::T(self)];
        if let Some(moved) = self.with_parts(|t| t.to_device(to))? {
            return Ok(moved);
        }
        let run = || {
            let out = moved(self, to)?;
            let recorded =
                mode::is_grad_enabled() && self.requires_grad() && self.dtype().is_differentiable();
            if !recorded {
                return Ok(out);
            }
            let outs = std::slice::from_ref(&out);
            let node = make_node(&TO_DEVICE, &args, &attrs, outs, at, None)?;
            Ok(attach(out, node, 0))
        };
        let told = || -> Result<Tensor> {
            if mode::get() & mode::OBSERVE == 0 {
                return run();
            }
            let outs = crate::observe::op(&TO_DEVICE, &args, &attrs, at, || {
                Ok(std::iter::once(run()?).collect())
            })?;
            match outs.into_iter().next() {
                Some(t) => Ok(t),
                None => unreachable!("one result was collected"),
            }
        };
        told().map_err(|e| e.in_op("to_device", || vec![self.describe(), to.to_string()], at))
    }

    /// The tensor on the host (`Tensor.cpu`).
    ///
    /// ```
    /// # use torsh_tensor::{Device, tensor};
    /// assert_eq!(tensor![1.0].cpu()?.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn cpu(&self) -> Result<Tensor> {
        self.to_device(Device::Cpu)
    }
}
