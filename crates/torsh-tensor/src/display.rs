//! `Display` and `Debug` in PyTorch's format.

use std::fmt;

use torsh_core::{DType, Device, Scalar, default_dtype, lock_all};

use crate::Tensor;
use crate::print::{self, Described, Values};

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = print::print_options();
        let values = match self.device() {
            Device::Meta => Values::Float(Vec::new()),
            _ if self.storage().is_released() => {
                return write!(f, "<{}: its memory was given back>", self.describe());
            }
            // What cannot be read (the device is lost, or its work failed) is said in the place of
            // the values.
            _ => match self.detach().host("print") {
                Ok(t) => shown(&t, &print::displayed_indices(self.dims(), &options)),
                Err(e) => return write!(f, "<{}: {e}>", self.describe()),
            },
        };
        let device = self.device().to_string();
        let grad_fn = self.grad_fn().map(|n| n.name());
        let mut d = Described::new(self.dims(), self.dtype().name(), values);
        d.default_dtype_name = default_dtype().name();
        d.device = (self.device() != Device::Cpu).then_some(device.as_str());
        d.meta = self.device() == Device::Meta;
        d.requires_grad = self.requires_grad();
        d.grad_fn = grad_fn.as_deref();
        f.write_str(&print::format(&d, &options))
    }
}

/// The elements at row-major positions, read through the strides.
fn shown(t: &Tensor, positions: &[usize]) -> Values {
    let _guard = lock_all(&[(t.storage().as_ref(), false)]);
    let scalars = positions.iter().map(|&p| {
        let (mut rest, mut at) = (p, t.storage_offset() as isize);
        for d in (0..t.ndim()).rev() {
            at += (rest % t.dims()[d]) as isize * t.stride()[d];
            rest /= t.dims()[d];
        }
        crate::raw::read_at(t, at as usize)
    });
    match t.dtype() {
        DType::Bool => Values::Bool(scalars.map(Scalar::to_bool).collect()),
        d if d.is_integer() => Values::Int(scalars.map(Scalar::to_i64).collect()),
        d if d.is_complex() => Values::Complex(scalars.map(Scalar::to_complex).collect()),
        _ => Values::Float(scalars.map(Scalar::to_f64).collect()),
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
