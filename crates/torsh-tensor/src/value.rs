//! Arguments and results of calls by name.

use num_complex::Complex;
use torsh_core::{DType, Device, Generator, Scalar, TensorLayout};

use crate::Tensor;

/// An argument or result of a call by name ([`crate::ops::call`]), as a Python call would have it.
#[derive(Clone, Debug)]
pub enum Value {
    /// `None`
    None,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
    /// Text, as a reduction's name.
    Str(String),
    /// An element type.
    DType(DType),
    /// A device.
    Device(Device),
    /// How elements are stored, as `torch.sparse_csr`.
    Layout(TensorLayout),
    /// A source of random numbers.
    Generator(Generator),
    /// A tensor.
    Tensor(Tensor),
    /// A list.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// `start:stop:step` inside an index.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// `...` inside an index.
    Ellipsis,
}

impl Value {
    /// The value as a number, where it is one.
    ///
    /// ```
    /// use torsh_tensor::{Scalar, Value};
    /// assert_eq!(Value::Int(3).number(), Some(Scalar::Int(3)));
    /// assert_eq!(Value::None.number(), None);
    /// ```
    pub fn number(&self) -> Option<Scalar> {
        Some(match self {
            Value::Bool(b) => Scalar::Bool(*b),
            Value::Int(i) => Scalar::Int(*i),
            Value::Float(f) => Scalar::Float(*f),
            Value::Complex(c) => Scalar::Complex(c.re, c.im),
            _ => return None,
        })
    }

    /// The items of a list or tuple.
    ///
    /// ```
    /// use torsh_tensor::Value;
    /// assert_eq!(Value::from(vec![1i64, 2]).items().map(|i| i.len()), Some(2));
    /// ```
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::List(v) | Value::Tuple(v) => Some(v),
            _ => None,
        }
    }

    /// The tensors of a result, in order: itself, or the items of a list or tuple (nested too).
    ///
    /// ```
    /// use torsh_tensor::{Value, tensor};
    /// let value = Value::from((tensor![1], tensor![2]));
    /// assert_eq!(value.tensors(), [tensor![1], tensor![2]]);
    /// ```
    pub fn tensors(&self) -> Vec<Tensor> {
        match self {
            Value::Tensor(t) => vec![t.clone()],
            Value::List(v) | Value::Tuple(v) => v.iter().flat_map(Value::tensors).collect(),
            _ => Vec::new(),
        }
    }

    /// The kind of value, for messages.
    ///
    /// ```
    /// use torsh_tensor::Value;
    /// assert_eq!(Value::Int(3).kind(), "int");
    /// ```
    pub fn kind(&self) -> String {
        match self {
            Value::None => "None".into(),
            Value::Bool(_) => "bool".into(),
            Value::Int(_) => "int".into(),
            Value::Float(_) => "float".into(),
            Value::Complex(_) => "complex".into(),
            Value::Str(_) => "str".into(),
            Value::DType(_) => "dtype".into(),
            Value::Device(_) => "device".into(),
            Value::Layout(_) => "layout".into(),
            Value::Generator(_) => "Generator".into(),
            Value::Tensor(_) => "Tensor".into(),
            Value::List(v) => format!(
                "list of {}",
                v.first().map_or("nothing".into(), Value::kind)
            ),
            Value::Tuple(v) => format!(
                "tuple of {}",
                v.first().map_or("nothing".into(), Value::kind)
            ),
            Value::Slice(..) => "slice".into(),
            Value::Ellipsis => "Ellipsis".into(),
        }
    }
}

macro_rules! from_value {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Value { fn from($v: $t) -> Value { $e } }
    )*};
}
from_value! {
    () => |_v| Value::None,
    bool => |v| Value::Bool(v),
    i64 => |v| Value::Int(v), i32 => |v| Value::Int(v as i64), usize => |v| Value::Int(v as i64),
    f64 => |v| Value::Float(v), f32 => |v| Value::Float(v as f64),
    Complex<f64> => |v| Value::Complex(v),
    &str => |v| Value::Str(v.to_string()), String => |v| Value::Str(v),
    DType => |v| Value::DType(v), TensorLayout => |v| Value::Layout(v), Device => |v| Value::Device(v), Generator => |v| Value::Generator(v),
    Tensor => |v| Value::Tensor(v), &Tensor => |v| Value::Tensor(v.clone()),
    (Tensor, Tensor) => |v| Value::Tuple(vec![v.0.into(), v.1.into()]),
    (Tensor, Tensor, Tensor) => |v| Value::Tuple(vec![v.0.into(), v.1.into(), v.2.into()]),
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Value {
        Value::List(v.into_iter().map(Into::into).collect())
    }
}
impl<T: Into<Value> + Clone, const N: usize> From<[T; N]> for Value {
    fn from(v: [T; N]) -> Value {
        Value::List(v.into_iter().map(Into::into).collect())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::None, Into::into)
    }
}
impl From<Scalar> for Value {
    fn from(s: Scalar) -> Value {
        match s {
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Int(i),
            Scalar::Float(f) => Value::Float(f),
            Scalar::Complex(re, im) => Value::Complex(Complex::new(re, im)),
        }
    }
}
