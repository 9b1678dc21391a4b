//! What the allowed names make of their arguments.

use std::str::FromStr;

use num_complex::Complex;
use torsh_core::{DType, Device, TensorLayout};

use super::globals::{self, Global};
use super::unpickle::{
    ArrayRef, ForeignNode, Id, Machine, Node, Res, SparseRef, StorageRef, TensorRef, Why,
};
use crate::stored::{Stored, no_dtype};

/// More dimensions than PyTorch's tensors have.
const MAX_NDIM: usize = 64;

/// More arguments than a record is made of: a path is made of its folders.
const MAX_RECORD: usize = 256;

fn bad(what: &str) -> Why {
    Why::new(format!("{what} has other arguments than PyTorch gives it"))
}

impl Machine {
    fn items(&self, id: Id) -> Option<&[Id]> {
        match &self.nodes[id] {
            Node::Tuple(v) | Node::List(v) => Some(v),
            _ => None,
        }
    }

    fn int(&self, id: Id) -> Option<i64> {
        match &self.nodes[id] {
            Node::Int(i) => Some(*i),
            Node::Bool(b) => Some((*b).into()),
            _ => None,
        }
    }

    fn size(&self, id: Id) -> Option<usize> {
        usize::try_from(self.int(id)?).ok()
    }

    fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        if let Node::Size(v) = &self.nodes[id] {
            return Some(v.clone());
        }
        let items = self.items(id).filter(|v| v.len() <= MAX_NDIM)?;
        items.iter().map(|&i| self.size(i)).collect()
    }

    fn text(&self, id: Id) -> Option<&str> {
        match &self.nodes[id] {
            Node::Str(s) => Some(s),
            _ => None,
        }
    }

    fn float(&self, id: Id) -> Option<f64> {
        match &self.nodes[id] {
            Node::Float(f) => Some(*f),
            Node::Int(i) => Some(*i as f64),
            _ => None,
        }
    }

    fn flag(&self, id: Id) -> Option<bool> {
        self.int(id).map(|i| i != 0)
    }
}

/// `function(*arguments)`
pub(super) fn call(m: &mut Machine, function: Id, arguments: Id) -> Res<Node> {
    let Node::Global(function) = m.nodes[function] else {
        return Err("the pickle calls what is no function".into());
    };
    let Node::Tuple(arguments) = &m.nodes[arguments] else {
        return Err("the pickle calls a function with what are no arguments".into());
    };
    // No allowed function has more, and copies of long lists could add up.
    let most = match function {
        Global::Record => MAX_RECORD,
        _ => 16,
    };
    if arguments.len() > most {
        return Err(bad("a function of the pickle"));
    }
    let arguments = arguments.clone();
    apply(m, function, &arguments)
}

fn apply(m: &mut Machine, function: Global, args: &[Id]) -> Res<Node> {
    match function {
        Global::OrderedDict | Global::Dict | Global::Counter => match args {
            [] => Ok(Node::Dict(Vec::new())),
            [from] => dict_of(m, *from),
            _ => Err(bad("a dict")),
        },
        Global::DefaultDict => match args {
            [] | [_] => Ok(Node::Dict(Vec::new())),
            [_, from] => dict_of(m, *from),
            _ => Err(bad("a defaultdict")),
        },
        Global::List | Global::Tuple | Global::Set => {
            let items = match args {
                [] => Vec::new(),
                [from] => take_items(m, *from).ok_or_else(|| bad("a list, tuple or set"))?,
                _ => return Err(bad("a list, tuple or set")),
            };
            Ok(match function {
                Global::List => Node::List(items),
                Global::Tuple => Node::Tuple(items),
                _ => Node::Set(items),
            })
        }
        Global::Complex => {
            let parts: Option<Vec<f64>> = args.iter().map(|&a| m.float(a)).collect();
            match parts.as_deref() {
                Some([re, im]) => Ok(Node::Complex(Complex::new(*re, *im))),
                _ => Err(bad("a complex number")),
            }
        }
        Global::Bytes | Global::ByteArray => match args {
            [] => Ok(Node::Bytes(Vec::new())),
            [from] => match &mut m.nodes[*from] {
                Node::Bytes(b) => Ok(Node::Bytes(std::mem::take(b))),
                _ => Err(bad("bytes")),
            },
            // Protocol 2: bytearray(text, 'latin-1').
            [text, _] => latin1(m, *text),
            _ => Err(bad("bytes")),
        },
        Global::Encode => match args {
            [text, encoding]
                if matches!(m.text(*encoding), Some("latin1" | "latin-1" | "iso-8859-1")) =>
            {
                latin1(m, *text)
            }
            _ => Err(bad("_codecs.encode")),
        },
        Global::Size => match args {
            [from] => {
                let sizes = m.sizes(*from).ok_or_else(|| bad("torch.Size"))?;
                Ok(Node::Size(sizes))
            }
            [] => Ok(Node::Size(Vec::new())),
            _ => Err(bad("torch.Size")),
        },
        Global::Device => device(m, args),
        Global::Layout => match args {
            [name] => match m.text(*name).and_then(TensorLayout::from_name) {
                Some(layout) => Ok(Node::Str(layout.to_string())),
                None => Err("holds a tensor of a layout that is neither strided nor sparse".into()),
            },
            _ => Err(bad("torch.layout")),
        },
        Global::Sparse => sparse(m, args),
        Global::Tensor | Global::TensorV2 | Global::TensorV3 => tensor(m, function, args),
        Global::Parameter | Global::ParameterWithState => match args {
            // A parameter of a foreign dtype is as its data.
            [data, ..] if matches!(m.nodes[*data], Node::Foreign(_)) => {
                let mut same = ForeignNode::new("", "");
                if let Node::Foreign(object) = &m.nodes[*data] {
                    same.about = object.about.clone();
                }
                Ok(Node::Foreign(Box::new(same)))
            }
            [data, requires_grad, ..]
                if matches!(m.nodes[*data], Node::Tensor(_) | Node::Sparse(_)) =>
            {
                Ok(Node::Parameter {
                    tensor: *data,
                    requires_grad: m.flag(*requires_grad).ok_or_else(|| bad("a parameter"))?,
                })
            }
            _ => Err(bad("a parameter")),
        },
        // A tensor with attributes; they are left out.
        Global::FromType => match args {
            [function, class, arguments, _] => {
                let class = &m.nodes[*class];
                if !matches!(
                    class,
                    Node::Global(Global::TensorType | Global::ParameterType)
                ) {
                    return Err(bad("a tensor with attributes"));
                }
                let (function, arguments) = (*function, *arguments);
                match m.nodes[function] {
                    Node::Global(
                        Global::Tensor
                        | Global::TensorV2
                        | Global::TensorV3
                        | Global::Sparse
                        | Global::Parameter
                        | Global::ParameterWithState,
                    ) => m.called(function, arguments),
                    _ => Err(bad("a tensor with attributes")),
                }
            }
            _ => Err(bad("a tensor with attributes")),
        },
        Global::NumpyDType => match args.first().and_then(|&a| m.text(a)) {
            Some(code) if code.len() < 8 => Ok(Node::NumpyDType {
                code: code.trim_start_matches(['<', '>', '|', '=']).into(),
                big: code.starts_with('>'),
            }),
            _ => Err(bad("numpy.dtype")),
        },
        Global::NumpyScalar => numpy_scalar(m, args),
        Global::Script => match args {
            [] => Ok(Node::Script(None)),
            _ => Err(bad("an object of TorchScript")),
        },
        Global::ScriptList => match args {
            [from] => {
                let items = take_items(m, *from).ok_or_else(|| bad("a list of TorchScript"))?;
                Ok(Node::List(items))
            }
            _ => Err(bad("a list of TorchScript")),
        },
        Global::ScriptTag => match args {
            [from, _] => match &mut m.nodes[*from] {
                Node::List(v) => Ok(Node::List(std::mem::take(v))),
                Node::Dict(v) => Ok(Node::Dict(std::mem::take(v))),
                _ => Err(bad("a typed container of TorchScript")),
            },
            _ => Err(bad("a typed container of TorchScript")),
        },
        Global::Reconstruct => match args.first().map(|&class| &m.nodes[class]) {
            Some(Node::Global(Global::NdArray)) => Ok(Node::Array(None)),
            _ => Err(bad("an array of NumPy")),
        },
        Global::FromBuffer => {
            let &[data, dtype, shape, order, ..] = args else {
                return Err(bad("an array of NumPy"));
            };
            // `K` is an order of dimensions that neither rows nor columns describe.
            let fortran = match m.text(order) {
                Some("C") => false,
                Some("F") => true,
                _ => return Err("holds an array of NumPy of another order than C or F".into()),
            };
            array_of(m, shape, dtype, fortran, data).map(|array| Node::Array(Some(array)))
        }
        Global::Record => Ok(Node::Record {
            arguments: args.to_vec(),
            state: None,
        }),
        Global::NdArray
        | Global::Type
        | Global::TensorType
        | Global::ParameterType
        | Global::DType(_)
        | Global::StoredType(_)
        | Global::Storage(_) => {
            Err("the pickle makes an object of a class that files of tensors only name".into())
        }
    }
}

/// The items of a list that is used up by this: taking them keeps calls from copying a long list
/// again and again.
fn take_items(m: &mut Machine, from: Id) -> Option<Vec<Id>> {
    match &mut m.nodes[from] {
        Node::List(v) | Node::Tuple(v) | Node::Set(v) => Some(std::mem::take(v)),
        _ => None,
    }
}

fn dict_of(m: &mut Machine, from: Id) -> Res<Node> {
    if let Node::Dict(v) = &mut m.nodes[from] {
        return Ok(Node::Dict(std::mem::take(v)));
    }
    let pairs = take_items(m, from).ok_or_else(|| bad("a dict"))?;
    let pairs: Option<Vec<(Id, Id)>> = pairs
        .into_iter()
        .map(|pair| match m.items(pair)? {
            [key, value] => Some((*key, *value)),
            _ => None,
        })
        .collect();
    pairs.map(Node::Dict).ok_or_else(|| bad("a dict"))
}

fn latin1(m: &mut Machine, text: Id) -> Res<Node> {
    // Taken, as such a text stands only for its bytes: a long one that is named again and again
    // would be copied as often.
    let text = match &mut m.nodes[text] {
        Node::Str(text) => std::mem::take(text),
        _ => return Err(bad("_codecs.encode")),
    };
    let bytes: Option<Vec<u8>> = text
        .chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect();
    bytes.map(Node::Bytes).ok_or_else(|| bad("_codecs.encode"))
}

fn device(m: &Machine, args: &[Id]) -> Res<Node> {
    let name = args
        .first()
        .and_then(|&a| m.text(a))
        .ok_or_else(|| bad("torch.device"))?;
    let name = match args {
        [_, index] => match m.int(*index) {
            Some(i) if i > 0 || name == "cuda" => format!("{name}:{i}"),
            _ => name.to_string(),
        },
        _ => name.to_string(),
    };
    Device::from_str(&name).map(Node::Device).map_err(|_| {
        let name: String = name.chars().take(40).collect();
        format!("holds the device {name:?}, which is not known here").into()
    })
}

/// `(storage, offset, size, stride[, requires_grad, hooks[, dtype or metadata]])`
fn tensor(m: &Machine, function: Global, args: &[Id]) -> Res<Node> {
    let what = || bad("a tensor");
    let [storage, offset, shape, stride, rest @ ..] = args else {
        return Err(what());
    };
    let Node::Storage {
        storage,
        offset: start,
    } = m.nodes[*storage]
    else {
        return Err(what());
    };
    let of_storage = m.storages[storage].stored;
    let mut stored = of_storage;
    if function == Global::TensorV3 {
        stored = match rest.get(2).map(|&id| &m.nodes[id]) {
            Some(Node::DType(dtype)) => Stored::As(*dtype),
            Some(Node::Global(Global::StoredType(stored))) => *stored,
            _ => return Err(what()),
        };
        // Dtypes without a class of storages have storages of bytes.
        if stored != of_storage && of_storage != Stored::As(DType::U8) {
            return Err("holds a tensor whose dtype is not its storage's".into());
        }
    } else if let Some(&metadata) = rest.get(2)
        && !matches!(&m.nodes[metadata], Node::None)
        && !matches!(&m.nodes[metadata], Node::Dict(d) if d.is_empty())
    {
        return Err("holds a tensor with a conjugate or negative bit; resolve_conj() and resolve_neg() it in PyTorch before saving".into());
    }
    let offset = m.size(*offset).and_then(|o| o.checked_add(start));
    let (Some(offset), Some(shape), Some(stride)) = (offset, m.sizes(*shape), m.sizes(*stride))
    else {
        return Err(what());
    };
    let requires_grad = match rest.first() {
        None => false,
        Some(&flag) => m.flag(flag).ok_or_else(what)?,
    };
    if let Stored::Foreign(name, _) = stored {
        let about = ForeignNode::new(format!("{name} {shape:?}"), no_dtype(name));
        return Ok(Node::Foreign(Box::new(about)));
    }
    Ok(Node::Tensor(TensorRef {
        storage,
        stored,
        offset,
        shape,
        stride,
        requires_grad,
    }))
}

/// `(layout, (indices, values, size[, is_coalesced]))`, or `(layout, (compressed, plain, values, size))`
fn sparse(m: &Machine, args: &[Id]) -> Res<Node> {
    let what = || bad("a sparse tensor");
    let &[layout, parts] = args else {
        return Err(what());
    };
    let layout = m.text(layout).and_then(TensorLayout::from_name);
    let layout = layout.filter(|l| !l.is_strided()).ok_or_else(what)?;
    let mut coalesced = layout.is_compressed();
    let (indices, values, size) = match *m.items(parts).ok_or_else(what)? {
        [compressed, plain, values, size] if coalesced => (vec![compressed, plain], values, size),
        [indices, values, size] if !coalesced => (vec![indices], values, size),
        [indices, values, size, flag] if !coalesced => {
            coalesced = match m.nodes[flag] {
                Node::None => false,
                _ => m.flag(flag).ok_or_else(what)?,
            };
            (vec![indices], values, size)
        }
        _ => return Err(what()),
    };
    for &part in indices.iter().chain([&values]) {
        match &m.nodes[part] {
            Node::Tensor(_) => {}
            // As its values or indices.
            Node::Foreign(object) => {
                let mut same = ForeignNode::new("", "");
                same.about = object.about.clone();
                return Ok(Node::Foreign(Box::new(same)));
            }
            _ => return Err(what()),
        }
    }
    Ok(Node::Sparse(SparseRef {
        layout,
        indices,
        values,
        shape: m.sizes(size).ok_or_else(what)?,
        coalesced,
    }))
}

/// `(dtype, bytes)`
fn numpy_scalar(m: &Machine, args: &[Id]) -> Res<Node> {
    let what = || bad("a number of NumPy");
    let [dtype, bytes] = args else {
        return Err(what());
    };
    let (Node::NumpyDType { code, big }, Node::Bytes(bytes)) = (&m.nodes[*dtype], &m.nodes[*bytes])
    else {
        return Err(what());
    };
    let mut raw = [0u8; 16];
    let n = bytes.len().min(16);
    raw[..n].copy_from_slice(&bytes[..n]);
    let part = if code.starts_with('c') { n / 2 } else { n };
    if *big {
        raw[..n].chunks_mut(part.max(1)).for_each(<[u8]>::reverse);
    }
    let low = |k: usize| raw[8 * k..8 * k + 8].try_into().unwrap_or([0; 8]);
    let half = |at: usize| [raw[at], raw[at + 1], raw[at + 2], raw[at + 3]];
    Ok(match (code.as_str(), bytes.len()) {
        ("b1" | "?", 1) => Node::Bool(raw[0] != 0),
        ("f8", 8) => Node::Float(f64::from_le_bytes(low(0))),
        ("f4", 4) => Node::Float(f32::from_le_bytes(half(0)).into()),
        ("i8", 8) => Node::Int(i64::from_le_bytes(low(0))),
        ("i4", 4) => Node::Int(i32::from_le_bytes(half(0)).into()),
        ("i2", 2) => Node::Int(i16::from_le_bytes([raw[0], raw[1]]).into()),
        ("i1", 1) => Node::Int(i64::from(raw[0] as i8)),
        ("u1" | "u2" | "u4", 1 | 2 | 4) => Node::Int(u32::from_le_bytes(half(0)).into()),
        ("u8", 8) => match i64::try_from(u64::from_le_bytes(low(0))) {
            Ok(i) => Node::Int(i),
            Err(_) => Node::Big(u128::from(u64::from_le_bytes(low(0))).into()),
        },
        ("c16", 16) => Node::Complex(Complex::new(
            f64::from_le_bytes(low(0)),
            f64::from_le_bytes(low(1)),
        )),
        ("c8", 8) => Node::Complex(Complex::new(
            f32::from_le_bytes(half(0)).into(),
            f32::from_le_bytes(half(4)).into(),
        )),
        _ => return Err(what()),
    })
}

/// `([version,] shape, dtype, column by column, bytes)`
fn array(m: &Machine, state: Id) -> Res<ArrayRef> {
    let what = || bad("an array of NumPy");
    let items = m.items(state).ok_or_else(what)?;
    let (&[shape, dtype, fortran, data] | &[_, shape, dtype, fortran, data]) = items else {
        return Err(what());
    };
    let fortran = m.flag(fortran).ok_or_else(what)?;
    array_of(m, shape, dtype, fortran, data)
}

fn array_of(m: &Machine, shape: Id, dtype: Id, fortran: bool, data: Id) -> Res<ArrayRef> {
    let what = || bad("an array of NumPy");
    let Node::NumpyDType { code, big } = &m.nodes[dtype] else {
        return Err(what());
    };
    if !matches!(m.nodes[data], Node::Bytes(_) | Node::Str(_)) {
        return Err("holds an array of objects of NumPy".into());
    }
    Ok(ArrayRef {
        code: code.clone(),
        big: *big,
        shape: m.sizes(shape).ok_or_else(what)?,
        fortran,
        data,
    })
}

/// `object.__setstate__(state)`, or its attributes.
pub(super) fn set_state(m: &mut Machine, of: Id, state: Id) -> Res<()> {
    let order = match &m.nodes[state] {
        Node::Tuple(v) => v.get(1).and_then(|&o| m.text(o)).map(str::to_string),
        _ => None,
    };
    let is_dict = matches!(m.nodes[state], Node::Dict(_));
    if matches!(m.nodes[of], Node::Array(_)) {
        m.nodes[of] = Node::Array(Some(array(m, state)?));
        return Ok(());
    }
    match &mut m.nodes[of] {
        // A state dict's `_metadata`: versions of layers, not part of the dict.
        Node::Dict(_) if is_dict => Ok(()),
        Node::NumpyDType { big, .. } => {
            *big = order.as_deref() == Some(">");
            Ok(())
        }
        Node::Script(attributes) => {
            *attributes = Some(state);
            Ok(())
        }
        Node::Record { state: of, .. } => {
            *of = Some(state);
            Ok(())
        }
        Node::Foreign(object) => {
            object.state = Some(state);
            Ok(())
        }
        _ => Err("the pickle sets the state of what has none".into()),
    }
}

/// What a persistent id means: a storage, as
/// `('storage', class, key, location, numel[, (view key, offset, numel) or None])`.
pub(super) fn persistent(m: &mut Machine, id: Id) -> Res<Node> {
    let what = || bad("a storage");
    let items = m.items(id).filter(|v| v.len() <= 6).ok_or_else(what)?;
    let items = items.to_vec();
    match items.first().and_then(|&i| m.text(i)) {
        Some("storage") => {}
        Some("module") => {
            // The class of a whole module, with its source beside it.
            if let Some(Node::Foreign(class)) = items.get(1).map(|&class| &m.nodes[class]) {
                let mut same = ForeignNode::new("", "");
                (same.about, same.global) = (class.about.clone(), true);
                return Ok(Node::Foreign(Box::new(same)));
            }
            return Err(Why {
                what: "holds a whole module, whose code would have to be executed".into(),
                hint: Some("save its state dict: torch.save(module.state_dict(), path)"),
            });
        }
        _ => return Err(what()),
    }
    let (class, key, numel, view) = match items[..] {
        [_, class, key, _, numel] => (class, key, numel, None),
        [_, class, key, _, numel, view] => (class, key, numel, Some(view)),
        _ => return Err(what()),
    };
    let Node::Global(Global::Storage(stored)) = m.nodes[class] else {
        return Err(what());
    };
    let numel = m.size(numel).ok_or_else(what)?;
    let key = match &m.nodes[key] {
        Node::Str(key) => key.clone(),
        Node::Int(key) => key.to_string(),
        _ => return Err(what()),
    };
    let storage = match m.keys.get(&key) {
        Some(&storage) => {
            let known = &m.storages[storage];
            if known.stored != stored || known.numel != numel {
                return Err(format!("the storage {key} has two dtypes or sizes").into());
            }
            storage
        }
        None => {
            m.keys.insert(key.clone(), m.storages.len());
            m.storages.push(StorageRef { key, stored, numel });
            m.storages.len() - 1
        }
    };
    let Some(view) = view.filter(|&v| !matches!(m.nodes[v], Node::None)) else {
        return Ok(Node::Storage { storage, offset: 0 });
    };
    let view = m.items(view).ok_or_else(what)?;
    let &[_, offset, size] = view else {
        return Err(what());
    };
    match (m.size(offset), m.size(size)) {
        (Some(offset), Some(size)) if offset.checked_add(size).is_some_and(|end| end <= numel) => {
            Ok(Node::Storage { storage, offset })
        }
        _ => Err(what()),
    }
}

/// For the writer: the class of a dtype's storages.
pub(super) fn storage_class(dtype: DType) -> &'static str {
    globals::storage_name(dtype)
}
