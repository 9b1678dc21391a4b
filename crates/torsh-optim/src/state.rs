//! State dicts of optimizers.

use std::collections::BTreeMap;

use torsh_tensor::Tensor;

/// A value in an optimizer's state dict.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StateValue {
    /// Not set.
    None,
    /// A flag.
    Bool(bool),
    /// A count.
    Int(i64),
    /// A number.
    Float(f64),
    /// Several numbers.
    Floats(Vec<f64>),
    /// A word.
    Str(String),
    /// A tensor.
    Tensor(Tensor),
    /// Several values.
    List(Vec<StateValue>),
}

impl StateValue {
    /// The number, where it is one (a one-element tensor counts, as PyTorch's `step` is).
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            StateValue::Int(i) => Some(*i as f64),
            StateValue::Float(f) => Some(*f),
            StateValue::Tensor(t) if t.numel() == 1 => t.item::<f64>().ok(),
            _ => None,
        }
    }

    /// The flag, where it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            StateValue::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The numbers, where there are several.
    pub fn as_floats(&self) -> Option<Vec<f64>> {
        match self {
            StateValue::Floats(v) => Some(v.clone()),
            StateValue::List(v) => v.iter().map(StateValue::as_f64).collect(),
            _ => None,
        }
    }

    /// The integer, where it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self.as_f64() {
            Some(f) if f.fract() == 0.0 && f.abs() < 2f64.powi(63) => Some(f as i64),
            _ => None,
        }
    }

    /// The word, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            StateValue::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The tensor, where it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            StateValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($t:ty => |$v:ident| $e:expr;)*) => {$(
        impl From<$t> for StateValue {
            fn from($v: $t) -> StateValue { $e }
        }
    )*};
}
from! {
    bool => |v| StateValue::Bool(v);
    i32 => |v| StateValue::Int(v.into());
    i64 => |v| StateValue::Int(v);
    f64 => |v| StateValue::Float(v);
    (f64, f64) => |v| StateValue::Floats(vec![v.0, v.1]);
    Vec<f64> => |v| StateValue::Floats(v);
    &str => |v| StateValue::Str(v.to_string());
    (f64, f64, f64) => |v| StateValue::Floats(vec![v.0, v.1, v.2]);
    Tensor => |v| StateValue::Tensor(v);
    &Tensor => |v| StateValue::Tensor(v.clone());
}

/// What an optimizer remembers of one parameter, by PyTorch's names.
pub type ParamState = BTreeMap<String, StateValue>;

/// A group in a state dict.
#[derive(Clone, Debug, Default)]
pub struct GroupState {
    /// The settings, by PyTorch's names.
    pub options: BTreeMap<String, StateValue>,
    /// The numbers of its parameters, as keys of [`OptimizerState::state`].
    pub params: Vec<usize>,
}

/// The state dict of an optimizer, in the form of PyTorch's.
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// What is remembered of each parameter that had a step, by its number.
    pub state: BTreeMap<usize, ParamState>,
    /// The groups.
    pub param_groups: Vec<GroupState>,
}
