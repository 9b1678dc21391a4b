//! Arguments of a Python call, read by position or name.

use std::cell::RefCell;
use std::collections::BTreeSet;

use torsh_nn::{Padding, Reduction};
use torsh_tensor::{Device, OutputSize, Result, Sizes, Tensor, TorshError};

use crate::case::Value;
use crate::layouts::Memory;
use crate::torsh::tensor;

/// The arguments of one call.
pub(crate) struct Args {
    /// Whose they are, for errors.
    of: String,
    positional: Vec<Value<Tensor>>,
    named: Vec<(String, Value<Tensor>)>,
    /// The tensors that require grad, in order.
    leaves: Vec<Tensor>,
    read: RefCell<(BTreeSet<usize>, BTreeSet<String>)>,
}

impl Args {
    /// Makes the tensors. Leaves of the same values are one tensor: the database draws values at
    /// random, and passes some tensors twice (KLDivLoss).
    pub(crate) fn new(
        of: &str,
        positional: &[Value<Memory>],
        named: &[(String, Value<Memory>)],
        device: Device,
    ) -> std::result::Result<Args, String> {
        let mut leaves: Vec<(Memory, Tensor)> = Vec::new();
        let mut made = |memory: &Memory| {
            let twin = leaves.iter().find(|(m, _)| m == memory);
            let tensor = match twin {
                Some((_, t)) => t.clone(),
                None => tensor(memory, device)?,
            };
            if memory.requires_grad {
                leaves.push((memory.clone(), tensor.clone()));
            }
            Ok::<_, String>(tensor)
        };
        let mut convert = |v: &Value<Memory>| v.try_map(&mut made);
        let positional = positional
            .iter()
            .map(&mut convert)
            .collect::<std::result::Result<_, _>>()?;
        let named = named
            .iter()
            .map(|(k, v)| Ok((k.clone(), convert(v)?)))
            .collect::<std::result::Result<_, String>>()?;
        Ok(Args {
            of: of.to_string(),
            positional,
            named,
            leaves: leaves.into_iter().map(|(_, t)| t).collect(),
            read: RefCell::default(),
        })
    }

    /// The tensors that require grad, in the order of the arguments.
    pub(crate) fn leaves(&self) -> &[Tensor] {
        &self.leaves
    }

    fn find(&self, position: usize, name: &str) -> Option<&Value<Tensor>> {
        let mut read = self.read.borrow_mut();
        if let Some(v) = self.positional.get(position) {
            read.0.insert(position);
            return Some(v);
        }
        let (_, v) = self.named.iter().find(|(n, _)| n == name)?;
        read.1.insert(name.to_string());
        Some(v)
    }

    fn read<T: FromValue>(&self, name: &str, v: &Value<Tensor>) -> Result<T> {
        T::from_value(v).ok_or_else(|| {
            TorshError::invalid(
                self.of.clone(),
                format!("{name} of {v:?} is no {}", std::any::type_name::<T>()),
            )
        })
    }

    /// A required argument.
    pub(crate) fn at<T: FromValue>(&self, position: usize, name: &str) -> Result<T> {
        match self.find(position, name) {
            Some(v) => self.read(name, v),
            None => Err(TorshError::invalid(
                self.of.clone(),
                format!("the argument {name} at position {position} is missing"),
            )),
        }
    }

    /// An argument with a default.
    pub(crate) fn or<T: FromValue>(&self, position: usize, name: &str, default: T) -> Result<T> {
        match self.find(position, name) {
            Some(v) => self.read(name, v),
            None => Ok(default),
        }
    }

    /// An argument that may be left out or `None`.
    pub(crate) fn opt<T: FromValue>(&self, position: usize, name: &str) -> Result<Option<T>> {
        self.or(position, name, None)
    }

    /// An error if an argument was not read.
    pub(crate) fn finish(&self) -> std::result::Result<(), String> {
        let read = self.read.borrow();
        if let Some(i) = (0..self.positional.len()).find(|i| !read.0.contains(i)) {
            return Err(format!(
                "{}: the runner passes on no argument at position {i}",
                self.of
            ));
        }
        match self.named.iter().find(|(n, _)| !read.1.contains(n)) {
            Some((name, _)) => Err(format!(
                "{}: the runner passes on no argument {name}",
                self.of
            )),
            None => Ok(()),
        }
    }
}

/// What an argument can be read as.
pub(crate) trait FromValue: Sized {
    fn from_value(v: &Value<Tensor>) -> Option<Self>;
}

impl FromValue for Tensor {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Tensor(t) => Some(t.clone()),
            _ => None,
        }
    }
}

impl FromValue for bool {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

impl FromValue for i64 {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        v.as_int()
    }
}

impl FromValue for usize {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        v.as_int()?.try_into().ok()
    }
}

impl FromValue for f64 {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Int(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Str(s) => Some(s.clone()),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::None => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::List(v) | Value::Tuple(v) => v.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: FromValue, const N: usize> FromValue for [T; N] {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        Vec::from_value(v)?.try_into().ok()
    }
}

/// One number stands for every dimension.
impl<const N: usize> FromValue for Sizes<N> {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Int(i) => Some(Sizes([*i; N])),
            other => FromValue::from_value(other).map(Sizes),
        }
    }
}

impl<const N: usize> FromValue for OutputSize<N> {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Int(i) => Some(OutputSize([Some(*i); N])),
            other => FromValue::from_value(other).map(OutputSize),
        }
    }
}

impl<const N: usize> FromValue for Padding<N> {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        match v {
            Value::Str(s) if s == "same" => Some(Padding::Same),
            Value::Str(s) if s == "valid" => Some(Padding::Valid),
            other => Sizes::from_value(other).map(|s: Sizes<N>| Padding::Sizes(s.0)),
        }
    }
}

impl FromValue for Reduction {
    fn from_value(v: &Value<Tensor>) -> Option<Self> {
        use Reduction::{BatchMean, Mean, None, Sum};
        let name = String::from_value(v)?;
        [None, Mean, Sum, BatchMean]
            .into_iter()
            .find(|r| r.name() == name)
    }
}
