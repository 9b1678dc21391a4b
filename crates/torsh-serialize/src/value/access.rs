//! Reading values: by key, by path, as what they should be.

use torsh_tensor::{Result, Tensor, TorshError};

use super::{Dict, Value};

/// A key as one would write it.
fn shown(key: &Value) -> String {
    match key {
        Value::Str(s) => format!("{s:?}"),
        Value::Int(i) => i.to_string(),
        other => format!("{other:?}"),
    }
}

/// The first keys of a dict, for an error.
fn some_keys(dict: &Dict) -> String {
    let mut text: Vec<String> = dict.keys().take(8).map(shown).collect();
    if dict.len() > text.len() {
        text.push(format!("and {} more", dict.len() - text.len()));
    }
    text.join(", ")
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty, $what:literal: $($pattern:pat => $out:expr),+;)*) => {$(
        $(#[$doc])*
        #[torsh_tensor::names_caller]
        pub fn $name(&self) -> Result<$ty> {
            match self {
                $($pattern => Ok($out),)+
                Value::Foreign(foreign) => Err(foreign.error("the value")),
                other => Err(TorshError::invalid(
                    stringify!($name),
                    format!(concat!("{} is not ", $what), other.kind()),
                )),
            }
        }
    )*};
}

impl Value {
    accessors! {
        /// The bool.
        as_bool -> bool, "a bool": Value::Bool(b) => *b;
        /// The integer, where 64 bits hold it.
        as_int -> i64, "an int of 64 bits": Value::Int(i) => *i, Value::Bool(b) => i64::from(*b);
        /// The number.
        as_float -> f64, "a float": Value::Float(f) => *f, Value::Int(i) => *i as f64;
        /// The text.
        as_str -> &str, "a str": Value::Str(s) => s;
        /// The bytes.
        as_bytes -> &[u8], "bytes": Value::Bytes(b) => b;
        /// The items of a list, tuple or set.
        as_list -> &[Value], "a list":
            Value::List(v) => v, Value::Tuple(v) => v, Value::Set(v) => v;
        /// The dict.
        as_dict -> &Dict, "a dict": Value::Dict(d) => d;
        /// The tensor, also of a parameter.
        as_tensor -> &Tensor, "a tensor": Value::Tensor(t) => t, Value::Parameter(t) => t;
    }

    /// Whether this is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// The value of a key of a dict, or of an index of a list or tuple.
    ///
    /// An error that shows the keys there are, where there is no such one.
    #[torsh_tensor::names_caller]
    pub fn get(&self, key: impl Into<Value>) -> Result<&Value> {
        let key = key.into();
        let missing = |what: String| Err(TorshError::index("get", what));
        match (self, &key) {
            (Value::Dict(d), _) => match d.get(key.clone()) {
                Some(v) => Ok(v),
                None => missing(format!(
                    "there is no key {}; there are {}",
                    shown(&key),
                    some_keys(d)
                )),
            },
            (Value::List(v) | Value::Tuple(v), Value::Int(i)) => {
                match usize::try_from(*i).ok().and_then(|i| v.get(i)) {
                    Some(v) => Ok(v),
                    None => missing(format!("there is no item {i} of {}", v.len())),
                }
            }
            _ => missing(format!("{} has no {}", self.kind(), shown(&key))),
        }
    }

    /// The value at the end of a path of keys. A part that is no key of a dict as text is read as
    /// a number: `["optimizer", "state", "0", "exp_avg"]`.
    #[torsh_tensor::names_caller]
    pub fn at(&self, path: &[&str]) -> Result<&Value> {
        path.iter().try_fold(self, |value, part| {
            let found = match value {
                Value::Dict(d) => d.get(*part),
                _ => None,
            };
            match (found, part.parse::<i64>()) {
                (Some(v), _) => Ok(v),
                (None, Ok(i)) => value.get(i),
                (None, Err(_)) => value.get(*part),
            }
            .map_err(|e| e.with_hint(format!("the path was {path:?}")))
        })
    }

    /// The tensors of a dict by name, as a state dict is; an error where a key is no text or a
    /// value no tensor.
    #[torsh_tensor::names_caller]
    pub fn named_tensors(&self) -> Result<Vec<(&str, &Tensor)>> {
        let wrong = |what: String| TorshError::invalid("named_tensors", what);
        let Value::Dict(dict) = self else {
            return Err(wrong(format!("{} is no dict of tensors", self.kind())));
        };
        dict.iter()
            .map(|(key, value)| match (key, value) {
                (Value::Str(name), Value::Tensor(t) | Value::Parameter(t)) => {
                    Ok((name.as_str(), t))
                }
                (key, Value::Foreign(foreign)) => Err(foreign.error(&shown(key))),
                _ => Err(wrong(format!(
                    "the value of {} is {}, no tensor by name",
                    shown(key),
                    value.kind()
                ))
                .with_hint(format!(
                    "the keys are {}; get(key) gives one that is a dict of tensors",
                    some_keys(dict)
                ))),
            })
            .collect()
    }
}
