//! Values from what they hold.

use num_complex::Complex;
use torsh_tensor::{DType, Device, Tensor};

use super::{BigInt, Dict, Value};

macro_rules! from {
    ($($t:ty => |$v:ident| $e:expr;)*) => {$(
        impl From<$t> for Value {
            fn from($v: $t) -> Value { $e }
        }
    )*};
}

/// The integer, plain where 64 bits hold it.
fn big(b: BigInt) -> Value {
    match i128::try_from(&b).map(i64::try_from) {
        Ok(Ok(i)) => Value::Int(i),
        _ => Value::BigInt(b),
    }
}

from! {
    () => |_v| Value::None;
    bool => |v| Value::Bool(v);
    i32 => |v| Value::Int(v.into());
    i64 => |v| Value::Int(v);
    u32 => |v| Value::Int(v.into());
    u64 => |v| big(BigInt::from(u128::from(v)));
    usize => |v| big(BigInt::from(v as u128));
    i128 => |v| big(BigInt::from(v));
    u128 => |v| big(BigInt::from(v));
    BigInt => |v| big(v);
    f32 => |v| Value::Float(v.into());
    f64 => |v| Value::Float(v);
    Complex<f64> => |v| Value::Complex(v);
    &str => |v| Value::Str(v.to_string());
    String => |v| Value::Str(v);
    Vec<Value> => |v| Value::List(v);
    Dict => |v| Value::Dict(v);
    &Tensor => |v| Value::Tensor(v.clone());
    Tensor => |v| Value::Tensor(v);
    DType => |v| Value::DType(v);
    Device => |v| Value::Device(v);
    Vec<(String, Tensor)> => |v| v.into_iter().map(|(k, t)| (k, Value::Tensor(t))).collect();
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::None, Into::into)
    }
}

/// A dict; a name that comes again replaces the value.
impl<S: Into<String>> FromIterator<(S, Value)> for Value {
    fn from_iter<I: IntoIterator<Item = (S, Value)>>(items: I) -> Value {
        let mut dict = Dict::new();
        for (name, value) in items {
            // A text is always a key.
            let _ = dict.insert(name.into(), value);
        }
        Value::Dict(dict)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Value {
    fn from(items: [(&str, Value); N]) -> Value {
        items.into_iter().collect()
    }
}
