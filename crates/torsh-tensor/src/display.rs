//! `Display` and `Debug` in PyTorch's format.

use std::fmt;

use torsh_core::{DType, Device, Scalar, default_dtype, lock_all};

use crate::print::{self, Described, Part, PrintOptions, Values};
use crate::sparse::Pattern;
use crate::{Result, Tensor};

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = print::print_options();
        if let Some(pattern) = self.pattern() {
            return match sparse(self, &pattern, &options) {
                Ok(text) => f.write_str(&text),
                Err(e) => write!(f, "<{}: {e}>", self.describe()),
            };
        }
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

/// The text of a sparse tensor.
fn sparse(x: &Tensor, pattern: &Pattern, options: &PrintOptions) -> Result<String> {
    let values = x.stored();
    let named = match (pattern.compressed_indices(), pattern.layout().by_rows()) {
        (Some(compressed), true) => vec![
            ("crow_indices", compressed),
            ("col_indices", pattern.indices()),
            ("values", &values),
        ],
        (Some(compressed), false) => vec![
            ("ccol_indices", compressed),
            ("row_indices", pattern.indices()),
            ("values", &values),
        ],
        (None, _) => vec![("indices", pattern.indices()), ("values", &values)],
    };
    let meta = x.device() == Device::Meta;
    let mut parts = Vec::with_capacity(named.len());
    for (name, part) in named {
        let elements = match meta {
            true => Values::Float(Vec::new()),
            false => {
                let on_host = part.detach().host("print")?;
                shown(&on_host, &print::displayed_indices(part.dims(), options))
            }
        };
        let mut described = Described::new(part.dims(), part.dtype().name(), elements);
        described.meta = meta;
        parts.push(Part { name, described });
    }
    let device = x.device().to_string();
    let grad_fn = x.grad_fn().map(|n| n.name());
    let mut d = Described::new(x.dims(), x.dtype().name(), Values::Float(Vec::new()));
    d.default_dtype_name = default_dtype().name();
    d.device = (x.device() != Device::Cpu).then_some(device.as_str());
    d.meta = meta;
    d.requires_grad = x.requires_grad();
    d.grad_fn = grad_fn.as_deref();
    let layout = pattern.layout().name();
    Ok(print::format_sparse(
        &d,
        &parts,
        pattern.nnz(),
        layout,
        options,
    ))
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
