//! The values of a file: tensors, numbers, strings and containers.

mod access;
mod big;
mod dict;
mod from;

use num_complex::Complex;
use torsh_tensor::{DType, Device, Tensor};

use crate::Foreign;
pub use big::BigInt;
pub use dict::Dict;

/// A value of a file: what Python's `pickle` could have written of tensors and plain containers.
///
/// ```
/// use torsh_serialize::Value;
///
/// let groups = Value::List(vec![Value::from([("lr", Value::from(0.1))])]);
/// let state = Value::from([("param_groups", groups)]);
/// assert_eq!(state.at(&["param_groups", "0", "lr"])?.as_float()?, 0.1);
/// assert!(state.get("state").is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `None`
    None,
    /// `True` or `False`
    Bool(bool),
    /// An `int` of at most 64 bits.
    Int(i64),
    /// A larger `int`.
    BigInt(BigInt),
    /// A `float`, also one of NumPy's.
    Float(f64),
    /// A `complex`.
    Complex(Complex<f64>),
    /// A `str`
    Str(String),
    /// `bytes` or a `bytearray`
    Bytes(Vec<u8>),
    /// A `list`
    List(Vec<Value>),
    /// A `tuple`
    Tuple(Vec<Value>),
    /// A `dict`, `OrderedDict`, `defaultdict` or `Counter`.
    Dict(Dict),
    /// A `set` or `frozenset`, in the order of the file.
    Set(Vec<Value>),
    /// A tensor; it may share its storage with others of the file.
    Tensor(Tensor),
    /// A `torch.nn.Parameter`
    Parameter(Tensor),
    /// A dtype, as `torch.float32`.
    DType(DType),
    /// A `torch.device`
    Device(Device),
    /// A `torch.Size`
    Size(Vec<usize>),
    /// What there is no value for, where [`LoadOptions::keep_foreign`](crate::LoadOptions::keep_foreign) asks for it.
    Foreign(Foreign),
}

impl Value {
    /// What it is, in Python's words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) | Value::BigInt(_) => "an int",
            Value::Float(_) => "a float",
            Value::Complex(_) => "a complex",
            Value::Str(_) => "a str",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "a list",
            Value::Tuple(_) => "a tuple",
            Value::Dict(_) => "a dict",
            Value::Set(_) => "a set",
            Value::Tensor(_) => "a tensor",
            Value::Parameter(_) => "a parameter",
            Value::DType(_) => "a dtype",
            Value::Device(_) => "a device",
            Value::Size(_) => "a size",
            Value::Foreign(_) => "a value of another kind",
        }
    }
}
