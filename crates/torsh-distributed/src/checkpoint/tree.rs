//! Values as JSON, with the names of tensors in their places.

use serde_json::{Map, Number, Value as Json, json};
use torsh_serialize::{BigInt, Dict, Value};
use torsh_tensor::{DType, Result, Tensor, TorshError};

/// How a tensor stands in the JSON.
pub(super) const TENSOR: &str = "tensor";
/// A tensor of which each rank has its own.
pub(super) const LOCAL: &str = "local";

pub(super) fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| d.name() == name)
}

/// The name of a thing below another.
pub(super) fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_string(),
        _ => format!("{path}.{key}"),
    }
}

fn shown(key: &Value) -> String {
    match key {
        Value::Str(s) => s.clone(),
        Value::Int(i) => i.to_string(),
        other => format!("{other:?}"),
    }
}

fn float(f: f64) -> Json {
    match Number::from_f64(f) {
        Some(n) => Json::Number(n),
        None => json!({ "float": f.to_string() }),
    }
}

/// The JSON of a value. `tensor` is given the name of each tensor and says what stands in its place.
pub(super) fn encode(
    value: &Value,
    path: &str,
    tensor: &mut dyn FnMut(&str, &Tensor) -> Result<Json>,
) -> Result<Json> {
    let mut all = |items: &[Value]| -> Result<Json> {
        let numbered = items.iter().enumerate();
        numbered
            .map(|(i, v)| encode(v, &below(path, &i.to_string()), tensor))
            .collect()
    };
    Ok(match value {
        Value::None => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(f) => float(*f),
        Value::Str(s) => json!(s),
        Value::List(items) => all(items)?,
        Value::Tuple(items) => json!({ "tuple": all(items)? }),
        Value::Set(items) => json!({ "set": all(items)? }),
        Value::BigInt(b) => json!({ "int": b.to_le_bytes() }),
        Value::Bytes(b) => json!({ "bytes": b }),
        Value::Size(dims) => json!({ "size": dims }),
        Value::DType(d) => json!({ "dtype": d.name() }),
        Value::Device(d) => json!({ "device": d.to_string() }),
        Value::Dict(dict) => {
            let mut entries = Vec::with_capacity(dict.len());
            for (key, value) in dict.iter() {
                let name = shown(key);
                let key = encode(key, path, &mut |_, _| Err(unknown(path)))?;
                entries.push(json!([key, encode(value, &below(path, &name), tensor)?]));
            }
            json!({ "dict": entries })
        }
        Value::Tensor(t) | Value::Parameter(t) => tensor(path, t)?,
        _ => return Err(unknown(path)),
    })
}

#[cold]
fn unknown(path: &str) -> TorshError {
    TorshError::invalid(
        "checkpoint::save",
        format!("{path} is of a kind that checkpoints do not know"),
    )
}

#[cold]
fn damaged(json: &Json) -> TorshError {
    let text: String = json.to_string().chars().take(80).collect();
    TorshError::format(
        "checkpoint::load",
        format!("the index is damaged: {text} is no value"),
    )
}

/// The value of a JSON of [`encode`]. `tensor` gets what [`encode`] was given for a tensor: its kind and name.
pub(super) fn decode(
    json: &Json,
    tensor: &mut dyn FnMut(&str, &str) -> Result<Tensor>,
) -> Result<Value> {
    let wrong = || damaged(json);
    let mut all = |items: &Json| -> Result<Vec<Value>> {
        let items = items.as_array().ok_or_else(wrong)?;
        items.iter().map(|v| decode(v, tensor)).collect()
    };
    let map = match json {
        Json::Null => return Ok(Value::None),
        Json::Bool(b) => return Ok(Value::Bool(*b)),
        Json::String(s) => return Ok(Value::Str(s.clone())),
        Json::Number(n) => {
            return match (n.as_i64(), n.as_f64()) {
                (Some(i), _) => Ok(Value::Int(i)),
                (None, Some(f)) => Ok(Value::Float(f)),
                _ => Err(wrong()),
            };
        }
        Json::Array(_) => return Ok(Value::List(all(json)?)),
        Json::Object(map) => map,
    };
    let (Some((kind, inner)), 1) = (map.iter().next(), map.len()) else {
        return Err(wrong());
    };
    Ok(match kind.as_str() {
        "float" => {
            let number = inner.as_str().and_then(|t| t.parse().ok());
            Value::Float(number.ok_or_else(wrong)?)
        }
        "tuple" => Value::Tuple(all(inner)?),
        "set" => Value::Set(all(inner)?),
        "int" => {
            let bytes: Vec<u8> = serde_json::from_value(inner.clone()).map_err(|_| wrong())?;
            Value::from(BigInt::from_le_bytes(&bytes))
        }
        "bytes" => Value::Bytes(serde_json::from_value(inner.clone()).map_err(|_| wrong())?),
        "size" => Value::Size(serde_json::from_value(inner.clone()).map_err(|_| wrong())?),
        "dtype" => Value::DType(inner.as_str().and_then(dtype).ok_or_else(wrong)?),
        "device" => {
            let device = inner.as_str().and_then(|s| s.parse().ok());
            Value::Device(device.ok_or_else(wrong)?)
        }
        "dict" => {
            let mut dict = Dict::new();
            for entry in inner.as_array().ok_or_else(wrong)? {
                let Some([key, value]) = entry.as_array().map(Vec::as_slice) else {
                    return Err(wrong());
                };
                let key = decode(key, tensor)?;
                let value = decode(value, tensor)?;
                dict.insert(key, value)?;
            }
            Value::Dict(dict)
        }
        TENSOR | LOCAL => {
            let name = inner.as_str().ok_or_else(wrong)?;
            Value::Tensor(tensor(kind, name)?)
        }
        _ => return Err(wrong()),
    })
}

/// What a dict of [`encode`] has under a key.
pub(super) fn entry<'a>(json: &'a Json, key: &Json) -> Option<&'a Json> {
    entries(json).find_map(|(k, v)| (k == key).then_some(v))
}

/// Keys and values of a dict of [`encode`].
pub(super) fn entries(json: &Json) -> impl Iterator<Item = (&Json, &Json)> {
    let pairs = json.get("dict").and_then(Json::as_array);
    let pairs = pairs.map(Vec::as_slice).unwrap_or(&[]);
    pairs.iter().filter_map(|pair| match pair.as_array() {
        Some(pair) if pair.len() == 2 => Some((&pair[0], &pair[1])),
        _ => None,
    })
}

/// Adds what another rank has: dicts are united, everything else has to be equal. The error is the place that differs.
pub(super) fn merge(into: &mut Json, from: Json, path: &str) -> std::result::Result<(), String> {
    if *into == from {
        return Ok(());
    }
    match (into, from) {
        (Json::Object(a), Json::Object(mut b)) if a.contains_key("dict") => {
            let (Some(Json::Array(a)), Some(Json::Array(b))) =
                (a.get_mut("dict"), b.remove("dict"))
            else {
                return Err(path.to_string());
            };
            for pair in b {
                let Json::Array(mut pair) = pair else {
                    return Err(path.to_string());
                };
                let (Some(value), Some(key)) = (pair.pop(), pair.pop()) else {
                    return Err(path.to_string());
                };
                let name = match &key {
                    Json::String(s) => s.clone(),
                    other => other.to_string(),
                };
                match a.iter_mut().find(|p| p[0] == key) {
                    Some(there) => merge(&mut there[1], value, &below(path, &name))?,
                    None => a.push(json!([key, value])),
                }
            }
            Ok(())
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter_mut().zip(b).enumerate();
            pairs.try_for_each(|(i, (a, b))| merge(a, b, &below(path, &i.to_string())))
        }
        _ => Err(path.to_string()),
    }
}

/// Plain JSON as a value, whose form keeps all floats.
pub(super) fn from_plain(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => i.into(),
            (None, Some(u)) => u.into(),
            (None, None) => n.as_f64().into(),
        },
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => Value::List(items.iter().map(from_plain).collect()),
        Json::Object(map) => map.iter().map(|(k, v)| (k, from_plain(v))).collect(),
    }
}

/// The plain JSON of a value of [`from_plain`].
pub(super) fn to_plain(value: &Value) -> Option<Json> {
    Some(match value {
        Value::None => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::BigInt(b) => json!(u64::try_from(u128::try_from(b).ok()?).ok()?),
        Value::Float(f) => Json::Number(Number::from_f64(*f)?),
        Value::Str(s) => json!(s),
        Value::List(items) => Json::Array(items.iter().map(to_plain).collect::<Option<_>>()?),
        Value::Dict(dict) => {
            let mut map = Map::new();
            for (key, value) in dict.iter() {
                map.insert(key.as_str().ok()?.to_string(), to_plain(value)?);
            }
            Json::Object(map)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::tensor;

    #[test]
    fn values_come_back_as_they_were() {
        let mut dict = Dict::new();
        let _ = dict.insert(
            3,
            Value::Tuple(vec![0.1.into(), f64::INFINITY.into(), 1.0.into()]),
        );
        let _ = dict.insert("big", u128::MAX);
        let _ = dict.insert("b", Value::Bytes(vec![0, 255]));
        let _ = dict.insert("t", tensor![1.0]);
        let _ = dict.insert("n", Value::None);
        let _ = dict.insert("d", DType::BF16);
        let value = Value::Dict(dict);
        let mut names = Vec::new();
        let json = encode(&value, "part", &mut |name, _| {
            names.push(name.to_string());
            Ok(json!({ TENSOR: name }))
        })
        .expect("encodes");
        assert_eq!(names, ["part.t"]);
        let text = json.to_string();
        let json: Json = serde_json::from_str(&text).expect("parses");
        let back = decode(&json, &mut |kind, name| {
            assert_eq!((kind, name), (TENSOR, "part.t"));
            Ok(tensor![1.0])
        })
        .expect("decodes");
        assert_eq!(back, value);
    }

    #[test]
    fn dicts_are_united_and_others_compared() {
        let of = |v: Value| encode(&v, "", &mut |n, _| Ok(json!({ TENSOR: n }))).expect("encodes");
        let mut a = of(Value::from([("x", 1.into()), ("y", 0.5.into())]));
        merge(
            &mut a,
            of(Value::from([("z", 2.into()), ("x", 1.into())])),
            "p",
        )
        .expect("fits");
        assert_eq!(entry(&a, &json!("z")), Some(&json!(2)));
        assert_eq!(entries(&a).count(), 3);
        let wrong = merge(&mut a, of(Value::from([("y", 0.25.into())])), "p");
        assert_eq!(wrong, Err("p.y".to_string()));
    }
}
