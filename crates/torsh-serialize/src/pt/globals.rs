//! The names a pickle may use. Everything else is refused.

use torsh_core::DType;

use super::unpickle::{Res, Why};
use crate::stored::Stored;

/// What an allowed name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    DefaultDict,
    Counter,
    Dict,
    List,
    Tuple,
    Set,
    Complex,
    Bytes,
    ByteArray,
    /// A type that only occurs as an argument, as `defaultdict`'s.
    Type,
    Size,
    Device,
    /// `torch.Tensor` as a class.
    TensorType,
    ParameterType,
    DType(DType),
    /// A dtype that tensors here lack, or that is widened.
    StoredType(Stored),
    /// A class of storages; those without a dtype have bytes.
    Storage(Stored),
    Tensor,
    TensorV2,
    TensorV3,
    Parameter,
    ParameterWithState,
    /// `_rebuild_sparse_tensor`, of all sparse layouts.
    Sparse,
    FromType,
    Layout,
    /// `_codecs.encode`, how protocol 2 writes bytes.
    Encode,
    NumpyDType,
    NumpyScalar,
    /// A class of a TorchScript program: its objects are kept as their attributes.
    Script,
    /// How TorchScript writes lists of one type.
    ScriptList,
    /// How TorchScript says what type a list or dict is of.
    ScriptTag,
    /// `numpy.ndarray` as a class.
    NdArray,
    /// What makes an array without its state.
    Reconstruct,
    /// `numpy.core.numeric._frombuffer`: an array at once, as protocol 5 has it.
    FromBuffer,
    /// A class whose objects the caller reads as plain data: their attributes or arguments.
    Record,
}

const STORAGES: [(&str, DType); 12] = [
    ("FloatStorage", DType::F32),
    ("DoubleStorage", DType::F64),
    ("HalfStorage", DType::F16),
    ("BFloat16Storage", DType::BF16),
    ("CharStorage", DType::I8),
    ("ByteStorage", DType::U8),
    ("ShortStorage", DType::I16),
    ("IntStorage", DType::I32),
    ("LongStorage", DType::I64),
    ("BoolStorage", DType::Bool),
    ("ComplexFloatStorage", DType::C64),
    ("ComplexDoubleStorage", DType::C128),
];

/// The class of the storages of a dtype.
pub(super) fn storage_name(dtype: DType) -> &'static str {
    STORAGES
        .iter()
        .find(|(_, d)| *d == dtype)
        .map_or("UntypedStorage", |(name, _)| name)
}

/// What a name stands for. `foreign` says whether dtypes that tensors here lack are kept by their names.
pub(super) fn find(module: &str, name: &str, foreign: bool) -> Res<Global> {
    let found = match (module, name) {
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("collections", "defaultdict") => Global::DefaultDict,
        ("collections", "Counter") => Global::Counter,
        ("builtins" | "__builtin__", name) => match name {
            "dict" => Global::Dict,
            "list" => Global::List,
            "tuple" => Global::Tuple,
            "set" | "frozenset" => Global::Set,
            "complex" => Global::Complex,
            "bytes" => Global::Bytes,
            "bytearray" => Global::ByteArray,
            "int" | "long" | "float" | "bool" | "str" | "unicode" => Global::Type,
            _ => return Err(refuse(module, name)),
        },
        ("_codecs", "encode") => Global::Encode,
        ("torch", "Size") => Global::Size,
        ("torch", "device") => Global::Device,
        ("torch", "Tensor") => Global::TensorType,
        ("torch.nn.parameter", "Parameter") => Global::ParameterType,
        ("torch" | "torch.storage", "UntypedStorage" | "TypedStorage") => {
            Global::Storage(Stored::As(DType::U8))
        }
        ("torch" | "torch.cuda", name) => {
            let class = STORAGES.iter().find(|(n, _)| *n == name);
            let storage = class.map(|&(_, dtype)| Stored::As(dtype));
            match (
                storage.or_else(|| Stored::of_storage(name)),
                Stored::of_torch(name),
            ) {
                (Some(stored), _) if foreign || storage.is_some() => Global::Storage(stored),
                (_, Some(Stored::As(dtype))) => Global::DType(dtype),
                (_, Some(stored)) if foreign || matches!(stored, Stored::Widened(_)) => {
                    Global::StoredType(stored)
                }
                (None, None) if !name.ends_with("Storage") => return Err(refuse(module, name)),
                _ => {
                    return Err(Why {
                        what: format!("holds tensors of torch.{name}, for which there is no dtype"),
                        hint: Some(
                            "convert them in PyTorch before saving: tensor.to(torch.float32); torsh_serialize::load_readable(path) gives the file's other tensors",
                        ),
                    });
                }
            }
        }
        ("torch._utils", name) => match name {
            "_rebuild_tensor" => Global::Tensor,
            "_rebuild_tensor_v2" => Global::TensorV2,
            "_rebuild_tensor_v3" => Global::TensorV3,
            "_rebuild_parameter" => Global::Parameter,
            "_rebuild_parameter_with_state" => Global::ParameterWithState,
            "_rebuild_qtensor" => return Err(unsupported("quantized")),
            "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => Global::Sparse,
            "_rebuild_nested_tensor" => return Err(unsupported("nested")),
            "_rebuild_meta_tensor_no_storage" => return Err(unsupported("meta")),
            _ => return Err(refuse(module, name)),
        },
        ("torch._tensor", "_rebuild_from_type_v2") => Global::FromType,
        ("torch.serialization", "_get_layout") => Global::Layout,
        ("numpy", "dtype") => Global::NumpyDType,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Global::NumpyScalar,
        ("numpy", "ndarray") => Global::NdArray,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Global::Reconstruct,
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Global::FromBuffer,
        _ => return Err(refuse(module, name)),
    };
    Ok(found)
}

/// [`find`] in a TorchScript archive, which also names the classes of its program. They are never looked up: what is
/// kept of their objects is data.
pub(super) fn find_in_script(module: &str, name: &str, foreign: bool) -> Res<Global> {
    if module == "__torch__" || module.starts_with("__torch__.") {
        return Ok(Global::Script);
    }
    match (module, name) {
        (
            "torch.jit._pickle",
            "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist",
        ) => Ok(Global::ScriptList),
        ("torch.jit._pickle", "restore_type_tag") => Ok(Global::ScriptTag),
        _ => find(module, name, foreign),
    }
}

/// A name of a file as errors show it: it is as long as the file wants it to be.
pub(super) fn unknown(module: &str, name: &str) -> String {
    let short = |s: &str| s.chars().take(120).collect::<String>();
    format!("{}.{}", short(module), short(name))
}

fn unsupported(kind: &str) -> Why {
    Why {
        what: format!("holds a {kind} tensor; strided and sparse ones can be loaded"),
        hint: Some("convert it in PyTorch before saving: dequantize(), to_padded_tensor()"),
    }
}

fn refuse(module: &str, name: &str) -> Why {
    Why {
        what: format!(
            "refuses to load the global {}: only tensors, numbers, texts and plain containers are made of a file",
            unknown(module, name)
        ),
        hint: Some(
            "torsh_serialize::load_readable(path) gives the tensors beside it; or save the state dict instead of the object: torch.save(module.state_dict(), path)",
        ),
    }
}
