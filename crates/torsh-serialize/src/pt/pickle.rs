//! Values as pickles of protocol 2, as `torch.save` writes them.

use std::collections::HashMap;

use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Shared, Tensor, TorshError};

use super::MAX_DEPTH;
use super::reduce::storage_class;
use crate::Value;
use crate::layout::no_data;

#[derive(Default)]
struct Pickler {
    out: Vec<u8>,
    /// The places of names in the memo.
    names: HashMap<(&'static str, &'static str), u32>,
    /// The places of storages in `tensors`, by their addresses.
    storages: HashMap<usize, usize>,
    /// A tensor of each storage; it keeps the storage, and so its address.
    tensors: Vec<Tensor>,
}

/// The pickle, and a tensor of each storage in the order of their keys.
#[track_caller]
pub(super) fn pickle(value: &Value) -> Result<(Vec<u8>, Vec<Tensor>)> {
    let mut p = Pickler::default();
    p.out.extend([0x80, 2]);
    p.value(value, 0)?;
    p.out.push(b'.');
    Ok((p.out, p.tensors))
}

fn too_large(what: &str) -> TorshError {
    TorshError::invalid(
        "save",
        format!("{what} is too large for a pickle of protocol 2"),
    )
}

impl Pickler {
    fn global(&mut self, module: &'static str, name: &'static str) {
        let next = self.names.len() as u32;
        match self.names.get(&(module, name)) {
            Some(slot) => {
                self.out.push(b'j');
                self.out.extend(slot.to_le_bytes());
            }
            None => {
                self.out.extend(format!("c{module}\n{name}\n").into_bytes());
                self.out.push(b'r');
                self.out.extend(next.to_le_bytes());
                self.names.insert((module, name), next);
            }
        }
    }

    fn int(&mut self, v: i64) {
        if let Ok(v) = u8::try_from(v) {
            self.out.extend([b'K', v]);
        } else if let Ok(v) = u16::try_from(v) {
            self.out.push(b'M');
            self.out.extend(v.to_le_bytes());
        } else if let Ok(v) = i32::try_from(v) {
            self.out.push(b'J');
            self.out.extend(v.to_le_bytes());
        } else {
            self.out.extend([0x8a, 8]);
            self.out.extend(v.to_le_bytes());
        }
    }

    fn sizes(&mut self, sizes: impl IntoIterator<Item = usize>) {
        self.out.push(b'(');
        for n in sizes {
            self.int(n as i64);
        }
        self.out.push(b't');
    }

    fn bool(&mut self, v: bool) {
        self.out.push(if v { 0x88 } else { 0x89 });
    }

    fn str(&mut self, text: &str) -> Result<()> {
        let n = u32::try_from(text.len()).map_err(|_| too_large("a text"))?;
        self.out.push(b'X');
        self.out.extend(n.to_le_bytes());
        self.out.extend(text.as_bytes());
        Ok(())
    }

    fn float(&mut self, v: f64) {
        self.out.push(b'G');
        self.out.extend(v.to_be_bytes());
    }

    /// A mark, the items, and the opcode that collects them.
    fn items(&mut self, items: &[Value], depth: usize, end: &[u8]) -> Result<()> {
        self.out.push(b'(');
        for item in items {
            self.value(item, depth + 1)?;
        }
        self.out.extend(end);
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(TorshError::invalid(
                "save",
                format!("the containers lie in each other more than {MAX_DEPTH} deep"),
            ));
        }
        match value {
            Value::None => self.out.push(b'N'),
            Value::Bool(b) => self.bool(*b),
            Value::Int(i) => self.int(*i),
            Value::BigInt(b) => {
                // PyTorch's restricted unpickler knows no longer form.
                let bytes = b.to_le_bytes();
                let n = u8::try_from(bytes.len()).map_err(|_| too_large("an int"))?;
                self.out.extend([0x8a, n]);
                self.out.extend(bytes);
            }
            Value::Float(f) => self.float(*f),
            Value::Complex(c) => {
                self.global("__builtin__", "complex");
                self.float(c.re);
                self.float(c.im);
                self.out.extend([0x86, b'R']);
            }
            Value::Str(s) => self.str(s)?,
            // Protocol 2 has no bytes; this is how Python writes them.
            Value::Bytes(b) => {
                self.global("_codecs", "encode");
                self.str(&b.iter().map(|&b| char::from(b)).collect::<String>())?;
                self.str("latin1")?;
                self.out.extend([0x86, b'R']);
            }
            Value::List(items) => {
                self.out.push(b']');
                self.items(items, depth, b"e")?;
            }
            Value::Tuple(items) => self.items(items, depth, b"t")?,
            Value::Set(items) => {
                self.global("__builtin__", "set");
                self.out.push(b']');
                self.items(items, depth, b"e\x85R")?;
            }
            Value::Dict(dict) => {
                self.out.extend(b"}(");
                for (key, value) in dict.iter() {
                    self.value(key, depth + 1)?;
                    self.value(value, depth + 1)?;
                }
                self.out.push(b'u');
            }
            Value::Tensor(t) => self.tensor(t, t.requires_grad() && t.is_leaf())?,
            Value::Parameter(t) => {
                self.global("torch._utils", "_rebuild_parameter");
                self.tensor(t, false)?;
                self.bool(t.requires_grad());
                self.no_hooks();
                self.out.extend([0x87, b'R']);
            }
            Value::DType(d) => self.global("torch", d.name()),
            Value::Device(d) => {
                self.global("torch", "device");
                let name = d.to_string();
                let (kind, index) = name.split_once(':').unwrap_or((&name, ""));
                // PyTorch's name of Apple's GPU.
                self.str(if kind == "metal" { "mps" } else { kind })?;
                match index.parse() {
                    Ok(index) => {
                        self.int(index);
                        self.out.extend([0x86, b'R']);
                    }
                    Err(_) => self.out.extend([0x85, b'R']),
                }
            }
            Value::Foreign(foreign) => {
                return Err(TorshError::invalid(
                    "save",
                    format!("{} cannot be saved: {}", foreign.what(), foreign.why()),
                ));
            }
            Value::Size(sizes) => self.size(sizes),
        }
        Ok(())
    }

    fn size(&mut self, sizes: &[usize]) {
        self.global("torch", "Size");
        self.sizes(sizes.iter().copied());
        self.out.extend([0x85, b'R']);
    }

    /// A sparse tensor as PyTorch has it: its layout, and its parts as strided tensors.
    fn sparse(&mut self, tensor: &Tensor, pattern: &Pattern) -> Result<()> {
        let layout = pattern.layout();
        self.global("torch._utils", "_rebuild_sparse_tensor");
        self.out.push(b'(');
        self.global("torch.serialization", "_get_layout");
        self.str(&layout.to_string())?;
        self.out.extend([0x85, b'R']);
        self.out.push(b'(');
        if let Some(compressed) = pattern.compressed_indices() {
            self.tensor(compressed, false)?;
        }
        self.tensor(pattern.indices(), false)?;
        self.tensor(&torsh_tensor::sparse::values(tensor)?, false)?;
        self.size(pattern.shape());
        if !layout.is_compressed() {
            self.bool(pattern.is_coalesced());
        }
        self.out.extend(b"ttR");
        Ok(())
    }

    fn no_hooks(&mut self) {
        self.global("collections", "OrderedDict");
        self.out.extend(b")R");
    }

    fn tensor(&mut self, tensor: &Tensor, requires_grad: bool) -> Result<()> {
        if !tensor.device().has_data() {
            return Err(no_data());
        }
        // A device's storage is copied when it is written.
        let t = tensor.detach();
        if let Some(pattern) = t.pattern() {
            return self.sparse(&t, &pattern);
        }
        let address = Shared::as_ptr(t.untyped_storage()?) as usize;
        let key = match self.storages.get(&address) {
            Some(&key) => key,
            None => {
                self.storages.insert(address, self.tensors.len());
                self.tensors.push(t.clone());
                self.tensors.len() - 1
            }
        };
        let first = self.tensors[key].dtype();
        if first != t.dtype() {
            return Err(TorshError::dtype(
                "save",
                format!(
                    "tensors of {first} and {} share a storage, which the format cannot say",
                    t.dtype()
                ),
            )
            .with_hint("save a copy of one: copy()"));
        }
        self.global("torch._utils", "_rebuild_tensor_v2");
        self.out.push(b'(');
        self.out.push(b'(');
        self.str("storage")?;
        self.global("torch", storage_class(t.dtype()));
        self.str(&key.to_string())?;
        // Where it is loaded unless `map_location` says otherwise: not on a device, which a reader of
        // the file may not have.
        self.str("cpu")?;
        self.int((t.untyped_storage()?.bytes() / t.dtype().size()) as i64);
        self.out.extend(b"tQ");
        self.int(t.storage_offset() as i64);
        self.sizes(t.dims().iter().copied());
        self.sizes(t.stride().iter().map(|&s| s as usize));
        self.bool(requires_grad);
        self.no_hooks();
        self.out.extend(b"tR");
        Ok(())
    }
}
