//! Converting configurations to the values of files.

use serde_json::{Map, Number, Value as Json};
use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

pub(super) fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => i.into(),
            (None, Some(u)) => u.into(),
            (None, None) => n.as_f64().into(),
        },
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => Value::List(items.iter().map(to_value).collect()),
        Json::Object(map) => map.iter().map(|(k, v)| (k, to_value(v))).collect(),
    }
}

pub(super) fn from_value(value: &Value) -> Result<Json> {
    let unknown = || TorshError::format("Checkpoint::load", format!("{value:?} is no setting"));
    Ok(match value {
        Value::None => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::from(*i),
        Value::BigInt(b) => {
            let number = u128::try_from(b).ok().and_then(|u| u64::try_from(u).ok());
            Json::from(number.ok_or_else(unknown)?)
        }
        Value::Float(f) => Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Value::Str(s) => Json::String(s.clone()),
        Value::List(items) => items.iter().map(from_value).collect::<Result<_>>()?,
        Value::Dict(dict) => {
            let mut map = Map::new();
            for (key, value) in dict.iter() {
                map.insert(key.as_str()?.to_string(), from_value(value)?);
            }
            Json::Object(map)
        }
        _ => return Err(unknown()),
    })
}
