//! Ordered dicts with any key that Python can hash.

use std::collections::HashMap;
use std::fmt;

use torsh_tensor::{DType, Device};

use super::{BigInt, Value};

/// A key as Python compares it: `1`, `1.0` and `True` are one.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    None,
    Int(i64),
    Big(BigInt),
    Float(u64),
    Complex(u64, u64),
    Str(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Key>),
    DType(DType),
    Device(Device),
}

fn key(value: &Value) -> Option<Key> {
    let float = |f: f64| {
        let i = f as i64;
        // Within 2^63 exactly; beyond, it stays a float.
        if i as f64 == f && i != i64::MAX {
            Key::Int(i)
        } else {
            Key::Float(f.to_bits())
        }
    };
    Some(match value {
        Value::None => Key::None,
        Value::Bool(b) => Key::Int((*b).into()),
        Value::Int(i) => Key::Int(*i),
        Value::BigInt(b) => Key::Big(b.clone()),
        Value::Float(f) => float(*f),
        Value::Complex(c) if c.im == 0.0 => float(c.re),
        Value::Complex(c) => Key::Complex(c.re.to_bits(), c.im.to_bits()),
        Value::Str(s) => Key::Str(s.clone()),
        Value::Bytes(b) => Key::Bytes(b.clone()),
        Value::Tuple(items) => Key::Tuple(items.iter().map(key).collect::<Option<_>>()?),
        Value::Size(dims) => Key::Tuple(dims.iter().map(|&n| Key::Int(n as i64)).collect()),
        Value::DType(d) => Key::DType(*d),
        Value::Device(d) => Key::Device(*d),
        _ => return None,
    })
}

/// Keys and values in the order they were put in.
///
/// ```
/// use torsh_serialize::{Dict, Value};
///
/// let mut dict = Dict::new();
/// dict.insert("b", 1)?;
/// dict.insert(0, "zero")?;
/// assert_eq!(dict.get("b"), Some(&Value::Int(1)));
/// assert_eq!(dict.get(0), Some(&Value::from("zero")));
/// assert!(dict.insert(Value::List(vec![]), 2).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    index: HashMap<Key, usize>,
}

impl Dict {
    /// Nothing.
    pub fn new() -> Dict {
        Dict::default()
    }

    /// The value of a key.
    pub fn get(&self, key: impl Into<Value>) -> Option<&Value> {
        let i = *self.index.get(&self::key(&key.into())?)?;
        Some(&self.entries[i].1)
    }

    /// Puts a value under a key; the one that was there comes back. An error for a key that
    /// Python cannot hash (a list, dict or set) or would tell apart by identity (a tensor).
    #[torsh_tensor::names_caller]
    pub fn insert(
        &mut self,
        key: impl Into<Value>,
        value: impl Into<Value>,
    ) -> torsh_tensor::Result<Option<Value>> {
        let (key, value) = (key.into(), value.into());
        let Some(hashed) = self::key(&key) else {
            return Err(torsh_tensor::TorshError::invalid(
                "Dict::insert",
                format!("{} cannot be a key of a dict", key.kind()),
            ));
        };
        Ok(match self.index.get(&hashed) {
            Some(&i) => Some(std::mem::replace(&mut self.entries[i].1, value)),
            None => {
                self.index.insert(hashed, self.entries.len());
                self.entries.push((key, value));
                None
            }
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Value, &Value)> {
        self.entries.iter().map(|(k, v)| (k, v))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(k, _)| k)
    }

    /// The values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, v)| v)
    }
}

impl IntoIterator for Dict {
    type Item = (Value, Value);
    type IntoIter = std::vec::IntoIter<(Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// In any order, as Python compares.
impl PartialEq for Dict {
    fn eq(&self, other: &Dict) -> bool {
        self.len() == other.len()
            && self.index.iter().all(|(k, &i)| match other.index.get(k) {
                Some(&j) => self.entries[i].1 == other.entries[j].1,
                None => false,
            })
    }
}

impl fmt::Debug for Dict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
