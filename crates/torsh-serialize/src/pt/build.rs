//! Values of what a pickle made, and of the storages it names.

use std::collections::{HashMap, HashSet};

use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{DType, Device, Result, Shared, Storage, Tensor, TorshError};

use super::MAX_DEPTH;
use super::globals::Global;
use super::unpickle::{ArrayRef, ForeignNode, Id, Node, Object, SparseRef};
use crate::foreign::{Foreign, OTHERS};
use crate::source::Source;
use crate::sparse::check;
use crate::stored::Stored;
use crate::{Dict, Value, in_file, message};

/// What may be built in any case, in bytes.
const BUDGET: usize = 1 << 20;

struct Builder<'a> {
    file: &'a str,
    /// Where the tensors shall be.
    device: Device,
    nodes: &'a [Node],
    /// The storages as the file has them, with how many bytes of them the pickle speaks of.
    storages: Vec<(Shared<Storage>, usize)>,
    big_endian: bool,
    /// The storages' memory on the device, by the dtype that tensors have on them.
    memory: HashMap<(usize, Stored), (Shared<Storage>, DType)>,
    keep_foreign: bool,
    /// The objects without a value whose contents were built, or are being built.
    seen: HashSet<Id>,
    /// The dtypes in the file of storages that were widened.
    widened: HashMap<usize, &'static str>,
    object: &'a Object,
    /// Tensors that were made: a tensor that the pickle has twice is one.
    tensors: HashMap<Id, Tensor>,
    /// The storages of bools that a tensor was made on.
    bools: HashSet<usize>,
    /// The storages whose elements were looked at as indices of a sparse tensor.
    indices: HashSet<usize>,
    /// How much may still be built: an object that a pickle names again is built again, and a
    /// few bytes could name each other to thousands of millions.
    budget: usize,
}

/// Builds the value. `storages` are those that the object names, in its order.
#[track_caller]
pub(super) fn build(
    source: &mut Source,
    object: Object,
    storages: Vec<Shared<Storage>>,
    big_endian: bool,
) -> Result<Value> {
    let file = source.name.clone();
    let file = file.as_str();
    let storages = object
        .storages
        .iter()
        .zip(storages)
        .map(|(named, storage)| {
            let bytes = named.numel.checked_mul(named.stored.size());
            let Some(bytes) = bytes.filter(|&b| b <= storage.bytes()) else {
                return Err(source.broken(format!(
                    "the storage {} has {} bytes, not {} elements of {}",
                    named.key,
                    storage.bytes(),
                    named.numel,
                    named.stored.name()
                )));
            };
            Ok((storage, bytes))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut builder = Builder {
        file,
        device: source.device,
        nodes: &object.nodes,
        storages,
        big_endian,
        memory: HashMap::new(),
        keep_foreign: source.keep_foreign,
        seen: HashSet::new(),
        widened: HashMap::new(),
        object: &object,
        tensors: HashMap::new(),
        bools: HashSet::new(),
        indices: HashSet::new(),
        budget: object.length.saturating_mul(64).saturating_add(BUDGET),
    };
    let value = builder.value(object.root, 0)?;
    let widened = builder.widened;
    source.widened.extend(widened);
    Ok(value)
}

/// The storage's elements in the memory of a device.
fn on_device(storage: Shared<Storage>, dtype: DType, device: Device) -> Result<Shared<Storage>> {
    if device.is_host() {
        return Ok(storage);
    }
    let n = storage.bytes() / dtype.size();
    let all = Tensor::from_storage(storage, dtype, &[n], &[1], 0)?;
    Ok(all.to_device(device)?.untyped_storage()?.clone())
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
                    .any(|&(key, _)| matches!(nodes[key], Node::Record { .. } | Node::Foreign(_))) =>
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
            Node::Tensor(tensor) => {
                let (stored, shape) = (tensor.stored, &tensor.shape);
                match self.tensor(id) {
                    Err(e @ TorshError::DTypeMismatch(_)) if self.keep_foreign => {
                        let what = format!("{} {shape:?}", stored.name());
                        Value::Foreign(Foreign::new(what, message(&e)))
                    }
                    tensor => Value::Tensor(tensor?),
                }
            }
            Node::Sparse(sparse) => match self.sparse(id, sparse) {
                Err(e @ TorshError::DTypeMismatch(_)) if self.keep_foreign => {
                    let what = format!("{} {:?}", sparse.layout, sparse.shape);
                    Value::Foreign(Foreign::new(what, message(&e)))
                }
                tensor => Value::Tensor(tensor?),
            },
            Node::Parameter {
                tensor,
                requires_grad,
            } => {
                if let Some(made) = self.tensors.get(&id) {
                    return Ok(Value::Parameter(made.clone()));
                }
                match self.value(*tensor, depth + 1)? {
                    Value::Tensor(data) => {
                        let parameter = data.detach();
                        parameter
                            .set_requires_grad(*requires_grad)
                            .map_err(|e| in_file(self.file, "a parameter", e))?;
                        self.tensors.insert(id, parameter.clone());
                        Value::Parameter(parameter)
                    }
                    other @ Value::Foreign(_) => other,
                    _ => return Err(self.broken("a parameter's data is no tensor")),
                }
            }
            Node::Script(attributes) => match attributes {
                Some(attributes) => self.value(*attributes, depth + 1)?,
                None => Value::None,
            },
            Node::Global(Global::StoredType(stored)) => self.foreign(
                &format!("torch.{}", stored.name()),
                &format!("holds torch.{}, for which there is no dtype", stored.name()),
            )?,
            Node::Global(global) => self.foreign(
                &format!("the class or function {global:?}"),
                &format!("holds the class or function {global:?} as a value; only tensors, numbers, texts and plain containers are made of a file"),
            )?,
            Node::Storage { .. } => {
                self.foreign("a storage", "holds a storage that is no tensor's")?
            }
            Node::Foreign(object) => Value::Foreign(self.object(id, object, depth)?),
            Node::Array(array) => match self.array(id, array.as_ref()) {
                Err(e) if self.keep_foreign => match array {
                    Some(a) => {
                        let what = format!("an array of NumPy's dtype {} {:?}", a.code, a.shape);
                        Value::Foreign(Foreign::new(what, message(&e)))
                    }
                    None => self.foreign("an array of NumPy", &message(&e))?,
                },
                tensor => Value::Tensor(tensor?),
            },
            Node::Record { arguments, state } => match state {
                Some(state) => self.value(*state, depth + 1)?,
                None => Value::Tuple(self.list(arguments, depth)?),
            },
            Node::NumpyDType { code, .. } => self.foreign(
                &format!("NumPy's dtype {code}"),
                &format!("holds NumPy's dtype {code:?} as a value"),
            )?,
        })
    }

    /// What there is no value for: kept as such, or an error.
    fn foreign(&self, what: &str, why: &str) -> Result<Value> {
        match self.keep_foreign {
            true => Ok(Value::Foreign(Foreign::new(what, why))),
            false => Err(self.broken(why).with_hint(OTHERS)),
        }
    }

    /// An object of an unknown class with its contents, which an object that is named again has once.
    fn object(&mut self, id: Id, object: &ForeignNode, depth: usize) -> Result<Foreign> {
        let (what, why) = &*object.about;
        self.spend(what.len() + why.len())?;
        let mut out = Foreign::new(what.as_str(), why.as_str());
        if object.global || !self.seen.insert(id) {
            return Ok(out);
        }
        let mut parts = Vec::new();
        for &part in &object.parts {
            let empty = matches!(&self.nodes[part], Node::Tuple(items) if items.is_empty());
            if !empty {
                // What lies too deep or comes too often is left out with the object.
                parts.extend(self.value(part, depth + 1).ok());
            }
        }
        if !object.pairs.is_empty() {
            let mut dict = Dict::new();
            for &(key, value) in &object.pairs {
                let pair = (self.value(key, depth + 1), self.value(value, depth + 1));
                if let (Ok(key), Ok(value)) = pair {
                    // A key that cannot be one has no place.
                    let _ = dict.insert(key, value);
                }
            }
            parts.push(Value::Dict(dict));
        }
        if let Some(state) = object.state {
            parts.extend(self.value(state, depth + 1).ok());
        }
        let contents = match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Value::List(parts)),
        };
        out.contents = contents.map(Box::new);
        Ok(out)
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
        let Some(stored) = Stored::of_numpy(&array.code) else {
            return Err(self.broken(&format!(
                "holds an array of NumPy's dtype {:?}, for which there is no dtype",
                array.code
            )));
        };
        let dtype = match stored {
            Stored::As(dtype) => dtype,
            stored => {
                let raw = crate::archive::to_storage(bytes)?;
                let n = raw.bytes() / stored.size();
                let (wide, dtype) = stored
                    .read(raw, array.big)
                    .map_err(|e| in_file(self.file, "an array of NumPy", e))?;
                let all = Tensor::from_storage(wide, dtype, &[n], &[1], 0)?;
                return self.shaped(id, &all.to_bytes()?, dtype, array, Some(stored));
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
        self.shaped(id, bytes, dtype, array, None)
    }

    /// The tensor of an array's numbers, which are of this machine's byte order.
    fn shaped(
        &mut self,
        id: Id,
        bytes: &[u8],
        dtype: DType,
        array: &ArrayRef,
        widened: Option<Stored>,
    ) -> Result<Tensor> {
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
        if let Some(stored) = widened {
            let storage = tensor.untyped_storage()?.ptr() as usize;
            self.widened.insert(storage, stored.name());
        }
        self.tensors.insert(id, tensor.clone());
        Ok(tensor)
    }

    /// The memory of a storage for tensors of a dtype: one for all of them.
    fn memory(&mut self, storage: usize, stored: Stored) -> Result<(Shared<Storage>, DType)> {
        if let Some(known) = self.memory.get(&(storage, stored)) {
            return Ok(known.clone());
        }
        let key = &self.object.storages[storage].key;
        let raw = self.storages[storage].0.clone();
        if let Stored::Widened(_) = stored {
            self.spend(2 * raw.bytes() / 64)?;
        }
        let (memory, dtype) = stored.read(raw, self.big_endian)?;
        let memory = on_device(memory, dtype, self.device)
            .map_err(|e| in_file(self.file, &format!("the storage {key}"), e))?;
        if let Stored::Widened(_) = stored {
            self.widened.insert(memory.ptr() as usize, stored.name());
        }
        self.memory
            .insert((storage, stored), (memory.clone(), dtype));
        Ok((memory, dtype))
    }

    fn tensor(&mut self, id: Id) -> Result<Tensor> {
        if let Some(t) = self.tensors.get(&id) {
            return Ok(t.clone());
        }
        let Node::Tensor(t) = &self.nodes[id] else {
            return Err(self.broken("a parameter's data is no tensor"));
        };
        if t.stored == Stored::As(DType::Bool) && !self.bools.insert(t.storage) {
            // All its bytes are looked at again.
            self.spend(self.storages[t.storage].1 / 64)?;
        }
        let bytes = self.storages[t.storage].1;
        let named = &self.object.storages[t.storage];
        let memory = self.memory(t.storage, t.stored);
        let (storage, dtype) = match memory {
            Err(e @ TorshError::DTypeMismatch(_)) if !self.keep_foreign => {
                let what = format!("the storage {}", named.key);
                return Err(in_file(self.file, &what, e).with_hint(OTHERS));
            }
            memory => memory?,
        };
        let tensor = Tensor::from_storage(storage, dtype, &t.shape, &t.stride, t.offset)
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

    /// A sparse tensor of its parts, all of whose indices are checked.
    fn sparse(&mut self, id: Id, sparse: &SparseRef) -> Result<Tensor> {
        if let Some(t) = self.tensors.get(&id) {
            return Ok(t.clone());
        }
        let (layout, shape) = (sparse.layout, sparse.shape.as_slice());
        let mut parts = Vec::with_capacity(2);
        for &part in &sparse.indices {
            parts.push(self.tensor(part)?);
        }
        let values = self.tensor(sparse.values)?.detach();
        let about = format!("a {layout} tensor of {shape:?}");
        let file = self.file;
        let of_file = |e| in_file(file, &about, e);
        let pattern = match parts.as_slice() {
            [indices] => Pattern::coo(shape, indices, sparse.coalesced),
            [compressed, plain] => {
                check::compressed_pattern(layout, shape, compressed, plain, &values)
            }
            _ => unreachable!("a sparse tensor has one or two tensors of indices"),
        };
        let pattern = pattern.map_err(of_file)?;
        let tensor = from_values(&pattern, &values).map_err(of_file)?;
        let mut lists = Vec::with_capacity(2);
        for (&part, name) in sparse.indices.iter().zip(check::names(layout)) {
            let list = self.index_list(part);
            lists.push(list.map_err(|e| in_file(file, &format!("{about}: {name}"), e))?);
        }
        if let Err(why) = check::indices(&pattern, &lists) {
            return Err(self.broken(&format!("{about}: {why}")));
        }
        self.tensors.insert(id, tensor.clone());
        Ok(tensor)
    }

    /// The numbers of a tensor of indices, on the host whatever device its memory is of.
    fn index_list(&mut self, id: Id) -> Result<Vec<i64>> {
        let Node::Tensor(t) = &self.nodes[id] else {
            return Err(TorshError::format("load", "is no tensor"));
        };
        let (raw, bytes) = self.storages[t.storage].clone();
        let numel = t.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let Some(numel) = numel.filter(|&n| n <= bytes / t.stored.size()) else {
            return Err(TorshError::format(
                "load",
                "has more elements than its storage, which it repeats",
            ));
        };
        if !self.indices.insert(t.storage) {
            // They are looked at again.
            self.spend(numel / 8)?;
        }
        let (storage, dtype) = t.stored.read(raw, self.big_endian)?;
        let list = Tensor::from_storage(storage, dtype, &t.shape, &t.stride, t.offset)?;
        list.to_dtype(DType::I64)?.to_vec()
    }
}
