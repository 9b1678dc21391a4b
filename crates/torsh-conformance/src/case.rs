//! The cases of one operator file: the call, its arguments, and PyTorch's results.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;

use crate::tensors::Dtype;
pub use crate::tensors::TensorRef;

/// One argument, with tensors as `T`: a reference as parsed, or memory ready for a call.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<T> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Str(String),
    Dtype(Dtype),
    Layout(String),
    Tensor(T),
    List(Vec<Value<T>>),
    Tuple(Vec<Value<T>>),
    Slice([Option<i64>; 3]),
    Ellipsis,
}

impl<T> Value<T> {
    /// The same value with every tensor replaced by what `f` makes of it, in order.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(&self, f: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Value<U>, E> {
        Ok(match self {
            Value::None => Value::None,
            Value::Bool(b) => Value::Bool(*b),
            Value::Int(i) => Value::Int(*i),
            Value::Float(x) => Value::Float(*x),
            Value::Complex(re, im) => Value::Complex(*re, *im),
            Value::Str(s) => Value::Str(s.clone()),
            Value::Dtype(d) => Value::Dtype(*d),
            Value::Layout(name) => Value::Layout(name.clone()),
            Value::Tensor(t) => Value::Tensor(f(t)?),
            Value::List(v) => {
                Value::List(v.iter().map(|x| x.try_map(f)).collect::<Result<_, E>>()?)
            }
            Value::Tuple(v) => {
                Value::Tuple(v.iter().map(|x| x.try_map(f)).collect::<Result<_, E>>()?)
            }
            Value::Slice(s) => Value::Slice(*s),
            Value::Ellipsis => Value::Ellipsis,
        })
    }

    /// Every tensor inside, in order.
    pub fn tensors(&self) -> Vec<&T> {
        match self {
            Value::Tensor(t) => vec![t],
            Value::List(v) | Value::Tuple(v) => v.iter().flat_map(Value::tensors).collect(),
            _ => Vec::new(),
        }
    }

    /// The dtypes that the value needs: of tensors, as `of` tells them, those it names, and complex64
    /// for complex numbers.
    pub fn dtypes(&self, of: &impl Fn(&T) -> Dtype) -> Vec<Dtype> {
        match self {
            Value::Tensor(t) => vec![of(t)],
            Value::Dtype(d) => vec![*d],
            Value::Complex(..) => vec![Dtype::Complex64],
            Value::List(v) | Value::Tuple(v) => v.iter().flat_map(|v| v.dtypes(of)).collect(),
            _ => Vec::new(),
        }
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }
}

/// How a case writes a tensor.
pub trait Reference: Sized {
    /// Whether an object of the format is a tensor.
    fn is_tensor(json: &Json) -> bool;

    /// Reads it.
    ///
    /// # Errors
    /// A field that is missing or wrong.
    fn read(json: &Json) -> Result<Self, String>;

    /// The element type.
    fn dtype(&self) -> Dtype;

    /// What messages call it.
    fn told(&self) -> String;
}

impl Reference for TensorRef {
    fn is_tensor(json: &Json) -> bool {
        json.get("tensor").is_some()
    }

    fn read(json: &Json) -> Result<TensorRef, String> {
        tensor_ref(json)
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn told(&self) -> String {
        format!("{}{:?}", self.dtype, self.shape)
    }
}

/// What `torch.autograd.grad` was asked and gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient<T = TensorRef> {
    /// Output number and its cotangent.
    pub cotangents: Vec<(usize, T)>,
    /// One per tensor that requires grad, in the order of the arguments.
    pub grads: Vec<Option<T>>,
}

/// What must come of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect<T = TensorRef> {
    /// These tensors, and these gradients where asked.
    Outputs(Vec<T>, Option<Gradient<T>>),
    /// An error; PyTorch's message.
    Error(String),
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Case<T = TensorRef> {
    /// PyTorch's name of the operator.
    pub op: String,
    /// The dtype the sample was made for; empty for refused calls.
    pub dtype: String,
    /// The sample's number in PyTorch's database.
    pub sample: i64,
    /// Positional arguments, the input first.
    pub args: Vec<Value<T>>,
    /// Named arguments in the file's order (the order gradients come in).
    pub kwargs: Vec<(String, Value<T>)>,
    /// What must come of it.
    pub expect: Expect<T>,
    /// For each output, the calls after which it is compared and differentiated, `None` where it is not compared;
    /// empty where outputs are compared as they are.
    pub after: Vec<Option<Vec<After>>>,
    /// Whether the first output are eigenvalues in no order, and the second, where there is one, their vectors.
    pub eigenvalues: bool,
    /// Whether the results are those of the dense operation, which define it where PyTorch's own is missing.
    pub dense: bool,
}

/// A call that is applied to an output: an operator and its arguments after the output.
#[derive(Clone, Debug, PartialEq)]
pub struct After {
    /// PyTorch's name of the operator.
    pub op: String,
    /// Its other arguments.
    pub args: Vec<i64>,
}

impl<T> Case<T> {
    /// The argument at a position of the signature (the input is 0), or of that name.
    pub fn arg(&self, position: usize, name: &str) -> Option<&Value<T>> {
        let named = || self.kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v);
        self.args.get(position).or_else(named)
    }

    /// Whether the operator writes into its first argument (`zero_`), so that it must get a copy.
    pub fn writes(&self) -> bool {
        self.op.ends_with('_') && !self.op.ends_with("__")
    }
}

/// The cases of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct OpFile<T = TensorRef> {
    /// PyTorch's name of the operator.
    pub op: String,
    /// The database's variant, or empty.
    pub variant: String,
    /// Calls that give results.
    pub cases: Vec<Case<T>>,
    /// Calls that PyTorch refuses.
    pub errors: Vec<Case<T>>,
}

impl OpFile {
    /// Reads `ops/NAME.json`.
    ///
    /// # Errors
    /// What is not as the format says, with the number of the case.
    pub fn parse(bytes: &[u8]) -> Result<OpFile, String> {
        OpFile::parse_as(bytes)
    }
}

impl<T: Reference> OpFile<T> {
    /// Reads a file of cases whose tensors are written in another way.
    ///
    /// # Errors
    /// What is not as the format says, with the number of the case.
    pub fn parse_as(bytes: &[u8]) -> Result<OpFile<T>, String> {
        let raw: RawFile = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        let read = |kind: &str, cases: Vec<RawCase>| {
            let one = |(i, c): (usize, RawCase)| c.read().map_err(|e| format!("{kind} {i}: {e}"));
            cases
                .into_iter()
                .enumerate()
                .map(one)
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(OpFile {
            op: raw.op,
            variant: raw.variant,
            cases: read("case", raw.cases)?,
            errors: read("error case", raw.errors)?,
        })
    }
}

#[derive(Deserialize)]
struct RawFile {
    op: String,
    #[serde(default)]
    variant: String,
    cases: Vec<RawCase>,
    #[serde(default)]
    errors: Vec<RawCase>,
}

#[derive(Deserialize)]
struct RawCase {
    op: String,
    dtype: String,
    sample: i64,
    input: Json,
    args: Vec<Json>,
    kwargs: Ordered,
    #[serde(default)]
    expect: Option<Vec<Json>>,
    #[serde(default)]
    cotangents: Option<Vec<Json>>,
    #[serde(default)]
    grads: Option<Vec<Json>>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    after: Vec<Option<Vec<Vec<Json>>>>,
    #[serde(default)]
    order: Option<String>,
    #[serde(default)]
    by: Option<String>,
}

/// A JSON object in the file's order; `serde_json::Map` sorts by name.
pub(crate) struct Ordered(pub(crate) Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of named arguments")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl RawCase {
    fn read<T: Reference>(self) -> Result<Case<T>, String> {
        let mut args = vec![value_of(&self.input)?];
        for a in &self.args {
            args.push(value_of(a)?);
        }
        let mut kwargs = Vec::new();
        for (name, v) in &self.kwargs.0 {
            kwargs.push((name.clone(), value_of(v)?));
        }
        let expect = match (self.expect, self.error) {
            (Some(outputs), None) => {
                let outputs = outputs.iter().map(T::read).collect::<Result<_, _>>()?;
                let gradient = match self.grads {
                    Some(grads) => Some(gradient_of(&self.cotangents.unwrap_or_default(), &grads)?),
                    None => None,
                };
                Expect::Outputs(outputs, gradient)
            }
            (None, Some(message)) => Expect::Error(message),
            _ => return Err("neither `expect` nor `error`, or both".to_string()),
        };
        let after = self
            .after
            .iter()
            .map(|a| a.as_deref().map(applied).transpose());
        let dense = match self.by.as_deref() {
            None => false,
            Some("dense") => true,
            Some(other) => return Err(format!("`by` is {other:?}, which is not known")),
        };
        Ok(Case {
            dense,
            after: after.collect::<Result<_, _>>()?,
            // The operator's other file does not say it.
            eigenvalues: self.order.as_deref() == Some("eigenvalues")
                || self.op == "linalg.eigvals",
            op: self.op,
            dtype: self.dtype,
            sample: self.sample,
            args,
            kwargs,
            expect,
        })
    }
}

fn applied(calls: &[Vec<Json>]) -> Result<Vec<After>, String> {
    let one = |call: &Vec<Json>| {
        let (op, args) = call.split_first().ok_or("an empty call in `after`")?;
        let args = args
            .iter()
            .map(|a| a.as_i64().ok_or("an argument in `after` is no integer"));
        Ok::<_, String>(After {
            op: op
                .as_str()
                .ok_or("a call in `after` without a name")?
                .to_string(),
            args: args.collect::<Result<_, _>>()?,
        })
    };
    calls.iter().map(one).collect()
}

pub(crate) fn gradient(cotangents: &[Json], grads: &[Json]) -> Result<Gradient, String> {
    gradient_of(cotangents, grads)
}

fn gradient_of<T: Reference>(cotangents: &[Json], grads: &[Json]) -> Result<Gradient<T>, String> {
    let cotangent = |json: &Json| {
        let output = json["output"]
            .as_u64()
            .ok_or("a cotangent without `output`")?;
        Ok::<_, String>((output as usize, T::read(json)?))
    };
    let grad = |json: &Json| match json {
        Json::Null => Ok(None),
        other => T::read(other).map(Some),
    };
    Ok(Gradient {
        cotangents: cotangents.iter().map(cotangent).collect::<Result<_, _>>()?,
        grads: grads.iter().map(grad).collect::<Result<_, _>>()?,
    })
}

/// Reads `{"tensor": NAME, "shape": [..], "dtype": NAME}`.
///
/// # Errors
/// A missing field, or a dtype of another name than PyTorch's twelve.
pub fn tensor_ref(json: &Json) -> Result<TensorRef, String> {
    let bad = || format!("not a tensor: {json}");
    let shape = json["shape"].as_array().ok_or_else(bad)?;
    let size = |n: &Json| n.as_u64().map(|n| n as usize).ok_or_else(bad);
    let dtype = json["dtype"].as_str().ok_or_else(bad)?;
    Ok(TensorRef {
        name: json["tensor"].as_str().ok_or_else(bad)?.to_string(),
        shape: shape.iter().map(size).collect::<Result<_, _>>()?,
        dtype: Dtype::from_name(dtype).ok_or_else(|| format!("unknown dtype {dtype}"))?,
        requires_grad: json["requires_grad"].as_bool().unwrap_or(false),
    })
}

/// Reads one argument.
///
/// # Errors
/// An object that is none of the format's encodings.
pub fn value(json: &Json) -> Result<Value<TensorRef>, String> {
    value_of(json)
}

/// Reads one argument whose tensors are written in another way.
///
/// # Errors
/// An object that is none of the format's encodings.
pub fn value_of<T: Reference>(json: &Json) -> Result<Value<T>, String> {
    let all = |v: &[Json]| v.iter().map(value_of).collect::<Result<Vec<_>, _>>();
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::String(s) => Value::Str(s.clone()),
        Json::Array(v) => Value::List(all(v)?),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => Value::Int(i),
            (None, Some(x)) if n.is_f64() => Value::Float(x),
            _ => return Err(format!("{n} is no int64")),
        },
        Json::Object(_) if T::is_tensor(json) => Value::Tensor(T::read(json)?),
        Json::Object(map) => {
            let (Some((key, v)), 1) = (map.iter().next(), map.len()) else {
                return Err(format!("unknown encoding {json}"));
            };
            match (key.as_str(), v) {
                ("float", x) => Value::Float(float(x)?),
                ("complex", Json::Array(c)) if c.len() == 2 => {
                    Value::Complex(float(&c[0])?, float(&c[1])?)
                }
                ("dtype", Json::String(name)) => Value::Dtype(
                    Dtype::from_name(name).ok_or_else(|| format!("unknown dtype {name}"))?,
                ),
                ("slice", Json::Array(s)) if s.len() == 3 => {
                    let end = |j: &Json| match j {
                        Json::Null => Ok(None),
                        other => other.as_i64().map(Some).ok_or(format!("bad slice {json}")),
                    };
                    Value::Slice([end(&s[0])?, end(&s[1])?, end(&s[2])?])
                }
                ("layout", Json::String(name)) => Value::Layout(name.clone()),
                ("ellipsis", _) => Value::Ellipsis,
                ("tuple", Json::Array(v)) => Value::Tuple(all(v)?),
                _ => return Err(format!("unknown encoding {json}")),
            }
        }
    })
}

fn float(json: &Json) -> Result<f64, String> {
    match json {
        Json::String(s) if s == "nan" => Ok(f64::NAN),
        Json::String(s) if s == "inf" => Ok(f64::INFINITY),
        Json::String(s) if s == "-inf" => Ok(f64::NEG_INFINITY),
        other => other
            .as_f64()
            .ok_or_else(|| format!("not a number: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_encoding_is_read() {
        let v = |j| value(&j).unwrap();
        assert_eq!(v(json!(null)), Value::None);
        assert_eq!(v(json!(true)), Value::Bool(true));
        assert_eq!(v(json!(-3)), Value::Int(-3));
        assert_eq!(v(json!(0.5)), Value::Float(0.5));
        assert_eq!(v(json!({"float": 2})), Value::Float(2.0));
        assert_eq!(v(json!({"float": "-inf"})), Value::Float(f64::NEG_INFINITY));
        assert!(matches!(v(json!({"float": "nan"})), Value::Float(x) if x.is_nan()));
        assert_eq!(
            v(json!({"complex": [1, "inf"]})),
            Value::Complex(1.0, f64::INFINITY)
        );
        assert_eq!(v(json!({"dtype": "bool"})), Value::Dtype(Dtype::Bool));
        assert_eq!(
            v(json!({"slice": [null, -1, 2]})),
            Value::Slice([None, Some(-1), Some(2)])
        );
        assert_eq!(v(json!({"ellipsis": true})), Value::Ellipsis);
        assert_eq!(
            v(json!({"layout": "csr"})),
            Value::Layout("csr".to_string())
        );
        assert_eq!(v(json!("sum")), Value::Str("sum".to_string()));
        let pair = vec![Value::Int(1), Value::Bool(false)];
        assert_eq!(v(json!({"tuple": [1, false]})), Value::Tuple(pair.clone()));
        assert_eq!(v(json!([1, false])), Value::List(pair));
        let t = v(json!({"tensor": "t0", "shape": [2, 0], "dtype": "int8"}));
        let expected = TensorRef {
            name: "t0".to_string(),
            shape: vec![2, 0],
            dtype: Dtype::Int8,
            requires_grad: false,
        };
        assert_eq!(t, Value::Tensor(expected));
        assert!(value(&json!({"set": [1]})).is_err());
        assert!(value(&json!({"dtype": "float8"})).is_err());
        assert!(value(&json!({"tensor": "t0"})).is_err());
    }

    #[test]
    fn named_arguments_keep_their_order() {
        let text = br#"{"op": "f", "variant": "", "errors": [], "cases": [{"op": "f",
            "dtype": "float32", "sample": 0, "input": 1, "args": [2],
            "kwargs": {"z": 1, "a": 2, "m": 3}, "expect": []}]}"#;
        let file = OpFile::parse(text).unwrap();
        let case = &file.cases[0];
        let names: Vec<_> = case.kwargs.iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["z", "a", "m"]);
        assert_eq!(case.args, [Value::Int(1), Value::Int(2)]);
        assert_eq!(case.arg(1, "x"), Some(&Value::Int(2)));
        assert_eq!(case.arg(2, "m"), Some(&Value::Int(3)));
        assert_eq!(case.arg(2, "q"), None);
    }

    #[test]
    fn a_bad_case_is_named() {
        let text = br#"{"op": "f", "cases": [{"op": "f", "dtype": "", "sample": 0, "input": 1,
            "args": [{"what": 1}], "kwargs": {}, "expect": []}]}"#;
        let error = OpFile::parse(text).unwrap_err();
        assert!(
            error.contains("case 0") && error.contains("what"),
            "{error}"
        );
    }
}
