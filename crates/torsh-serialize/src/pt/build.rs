//! Values of what a pickle made, and of the storages it names.

use std::collections::{HashMap, HashSet};

use torsh_tensor::{DType, Device, Result, Shared, Storage, Tensor, TorshError};

use super::MAX_DEPTH;
use super::unpickle::{ArrayRef, Id, Node, Object};
use crate::layout::usable;
use crate::source::Source;
use crate::{Dict, Value, in_file};

/// What may be built in any case, in bytes.
const BUDGET: usize = 1 << 20;

struct Builder<'a> {
    file: &'a str,
    /// Where the tensors shall be.
    device: Device,
    nodes: &'a [Node],
    /// The storages' memory, with how many bytes of it the pickle speaks of.
    storages: Vec<(Shared<Storage>, usize)>,
    object: &'a Object,
    /// Tensors that were made: a tensor that the pickle has twice is one.
    tensors: HashMap<Id, Tensor>,
    /// The storages of bools that a tensor was made on.
    bools: HashSet<usize>,
    /// How much may still be built: an object that a pickle names again is built again, and a
    /// few bytes could name each other to thousands of millions.
    budget: usize,
}

/// Builds the value. `storages` are those that the object names, in its order.
#[track_caller]
pub(super) fn build(
    source: &Source,
    object: Object,
    storages: Vec<Shared<Storage>>,
    big_endian: bool,
) -> Result<Value> {
    let file = source.name.as_str();
    let storages = object
        .storages
        .iter()
        .zip(storages)
        .map(|(named, storage)| {
            let bytes = named.numel.checked_mul(named.dtype.size());
            let Some(bytes) = bytes.filter(|&b| b <= storage.bytes()) else {
                return Err(source.broken(format!(
                    "the storage {} has {} bytes, not {} elements of {}",
                    named.key,
                    storage.bytes(),
                    named.numel,
                    named.dtype
                )));
            };
            let storage = usable(storage, named.dtype, big_endian)?;
            let storage = on_device(storage, named.dtype, source.device)
                .map_err(|e| in_file(file, &format!("the storage {}", named.key), e))?;
            Ok((storage, bytes))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut builder = Builder {
        file,
        device: source.device,
        nodes: &object.nodes,
        storages,
        object: &object,
        tensors: HashMap::new(),
        bools: HashSet::new(),
        budget: object.length.saturating_mul(64).saturating_add(BUDGET),
    };
    builder.value(object.root, 0)
}

/// The storage's elements in the memory of a device.
fn on_device(storage: Shared<Storage>, dtype: DType, device: Device) -> Result<Shared<Storage>> {
    if device.is_host() {
        return Ok(storage);
    }
    let n = storage.bytes() / dtype.size();
    let all = Tensor::from_storage(storage, dtype, &[n], &[1], 0)?;
    Ok(all.to_device(device)?.untyped_storage().clone())
}

impl Builder<'_> {
    #[track_caller]
    fn broken(&self, why: &str) -> TorshError {
        TorshError::format("load", format!("{}: {why}", self.file))
    }

    fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.budget.checked_sub(bytes.saturating_add(64)) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(self.broken(
                "its objects name each other so often that they would be far larger than the file",
            )),
        }
    }

    fn list(&mut self, items: &[Id], depth: usize) -> Result<Vec<Value>> {
        items.iter().map(|&id| self.value(id, depth + 1)).collect()
    }

    fn value(&mut self, id: Id, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(self.broken(&format!(
                "its containers lie in each other more than {MAX_DEPTH} deep"
            )));
        }
        let nodes = self.nodes;
        self.spend(match &nodes[id] {
            Node::Str(s) => s.len(),
            Node::Bytes(b) => b.len(),
            Node::Big(b) => b.to_le_bytes().len(),
            Node::Size(v) => 8 * v.len(),
            _ => 0,
        })?;
        Ok(match &nodes[id] {
            Node::None => Value::None,
            Node::Bool(b) => Value::Bool(*b),
            Node::Int(i) => Value::Int(*i),
            Node::Big(b) => Value::BigInt(b.clone()),
            Node::Float(f) => Value::Float(*f),
            Node::Complex(c) => Value::Complex(*c),
            Node::Str(s) => Value::Str(s.clone()),
            Node::Bytes(b) => Value::Bytes(b.clone()),
            Node::List(items) => Value::List(self.list(items, depth)?),
            Node::Tuple(items) => Value::Tuple(self.list(items, depth)?),
            Node::Set(items) => Value::Set(self.list(items, depth)?),
            // Python hashes some objects by their attributes; a dict here does not.
            Node::Dict(items)
                if items
                    .iter()
                    .any(|&(key, _)| matches!(nodes[key], Node::Record { .. })) =>
            {
                let mut pairs = Vec::with_capacity(items.len());
                for &(key, value) in items {
                    pairs.push(Value::Tuple(self.list(&[key, value], depth + 1)?));
                }
                Value::List(pairs)
            }
            Node::Dict(items) => {
                let mut dict = Dict::new();
                for &(key, value) in items {
                    let key = self.value(key, depth + 1)?;
                    let value = self.value(value, depth + 1)?;
                    dict.insert(key, value)
                        .map_err(|e| in_file(self.file, "a dict", e))?;
                }
                Value::Dict(dict)
            }
            Node::Size(v) => Value::Size(v.clone()),
            Node::DType(d) => Value::DType(*d),
            Node::Device(d) => Value::Device(*d),
            Node::Tensor(_) => Value::Tensor(self.tensor(id)?),
            Node::Parameter {
                tensor,
                requires_grad,
            } => {
                let parameter = match self.tensors.get(&id) {
                    Some(p) => p.clone(),
                    None => {
                        let p = self.tensor(*tensor)?.detach();
                        p.set_requires_grad(*requires_grad)
                            .map_err(|e| in_file(self.file, "a parameter", e))?;
                        self.tensors.insert(id, p.clone());
                        p
                    }
                };
                Value::Parameter(parameter)
            }
            Node::Script(attributes) => match attributes {
                Some(attributes) => self.value(*attributes, depth + 1)?,
                None => Value::None,
            },
            Node::Global(global) => {
                return Err(self.broken(&format!(
                    "holds the class or function {global:?} as a value; only tensors, numbers, texts and plain containers are made of a file"
                )));
            }
            Node::Storage { .. } => {
                return Err(self.broken("holds a storage that is no tensor's"));
            }
            Node::Array(array) => Value::Tensor(self.array(id, array.as_ref())?),
            Node::Record { arguments, state } => match state {
                Some(state) => self.value(*state, depth + 1)?,
                None => Value::Tuple(self.list(arguments, depth)?),
            },
            Node::NumpyDType { code, .. } => {
                return Err(self.broken(&format!("holds NumPy's dtype {code:?} as a value")));
            }
        })
    }

    /// An array of NumPy as a tensor.
    fn array(&mut self, id: Id, array: Option<&ArrayRef>) -> Result<Tensor> {
        if let Some(t) = self.tensors.get(&id) {
            return Ok(t.clone());
        }
        let Some(array) = array else {
            return Err(self.broken("holds an array of NumPy without its contents"));
        };
        // Python 2 wrote bytes as a text.
        let nodes = self.nodes;
        let bytes = match &nodes[array.data] {
            Node::Bytes(bytes) => bytes.as_slice(),
            Node::Str(text) => text.as_bytes(),
            _ => return Err(self.broken("the contents of an array of NumPy are no bytes")),
        };
        self.spend(bytes.len())?;
        let dtype = match array.code.as_str() {
            "b1" | "?" => DType::Bool,
            "u1" => DType::U8,
            "i1" => DType::I8,
            "i2" => DType::I16,
            "i4" => DType::I32,
            "i8" => DType::I64,
            "f2" => DType::F16,
            "f4" => DType::F32,
            "f8" => DType::F64,
            "c8" => DType::C64,
            "c16" => DType::C128,
            other => {
                return Err(self.broken(&format!(
                    "holds an array of NumPy's dtype {other:?}, for which there is no dtype"
                )));
            }
        };
        let part = match dtype.is_complex() {
            true => dtype.size() / 2,
            false => dtype.size(),
        };
        let mut swapped = Vec::new();
        let bytes = match array.big == cfg!(target_endian = "big") {
            true => bytes,
            false => {
                swapped.extend_from_slice(bytes);
                swapped.chunks_mut(part).for_each(<[u8]>::reverse);
                &swapped
            }
        };
        let made = match array.fortran {
            false => Tensor::from_bytes(bytes, dtype, array.shape.as_slice()),
            true => {
                let shape: Vec<usize> = array.shape.iter().rev().copied().collect();
                let order: Vec<i64> = (0..shape.len() as i64).rev().collect();
                Tensor::from_bytes(bytes, dtype, shape.as_slice())
                    .and_then(|t| t.permute(order.as_slice()))
            }
        };
        let tensor = made
            .and_then(|t| t.to_device(self.device))
            .map_err(|e| in_file(self.file, "an array of NumPy", e))?;
        self.tensors.insert(id, tensor.clone());
        Ok(tensor)
    }

    fn tensor(&mut self, id: Id) -> Result<Tensor> {
        if let Some(t) = self.tensors.get(&id) {
            return Ok(t.clone());
        }
        let Node::Tensor(t) = &self.nodes[id] else {
            return Err(self.broken("a parameter's data is no tensor"));
        };
        if self.object.storages[t.storage].dtype == DType::Bool && !self.bools.insert(t.storage) {
            // All its bytes are looked at again.
            self.spend(self.storages[t.storage].1 / 64)?;
        }
        let (storage, bytes) = &self.storages[t.storage];
        let named = &self.object.storages[t.storage];
        let tensor =
            Tensor::from_storage(storage.clone(), named.dtype, &t.shape, &t.stride, t.offset)
                .and_then(|tensor| {
                    if t.requires_grad {
                        tensor.set_requires_grad(true)?;
                    }
                    Ok(tensor)
                })
                .map_err(|e| {
                    let what = format!("a tensor on the storage {} ({bytes} bytes)", named.key);
                    in_file(self.file, &what, e)
                })?;
        self.tensors.insert(id, tensor.clone());
        Ok(tensor)
    }
}
