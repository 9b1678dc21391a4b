//! Checkpoints whose tensors are loaded and summed: a training checkpoint (CHGNet), the same weights in two formats
//! (Akiki), PyTorch's container from before 1.6 (CRAFT).

use serde_json::Value as Json;
use torsh_serialize::Value;
use torsh_tensor::{DType, Tensor};

use super::case::{Case, Results, equal, field, number, object, strings, text};
use super::near::norm;

/// The tensors of a value at any depth, by their paths; keys and places are joined by dots.
fn tensors<'v>(value: &'v Value, path: &str, to: &mut Vec<(String, &'v Tensor)>) {
    let below = |key: &str| match path.is_empty() {
        true => key.to_string(),
        false => format!("{path}.{key}"),
    };
    match value {
        Value::Tensor(t) | Value::Parameter(t) => to.push((path.to_string(), t)),
        Value::Dict(dict) => {
            for (key, value) in dict.iter() {
                tensors(value, &below(&shown(key)), to);
            }
        }
        Value::List(items) | Value::Tuple(items) => {
            for (i, value) in items.iter().enumerate() {
                tensors(value, &below(&i.to_string()), to);
            }
        }
        _ => {}
    }
}

fn shown(key: &Value) -> String {
    match key {
        Value::Str(s) => s.clone(),
        Value::Int(i) => i.to_string(),
        other => format!("{other:?}"),
    }
}

/// Compares a tensor with `[shape, dtype, sum, norm]`; gives the largest part of the tolerance that it took.
fn digest(tensor: &Tensor, want: &Json) -> Result<f64, String> {
    let wrong = || format!("the reference {want} is not [shape, dtype, sum, norm]");
    let (shape, dtype) = (want[0].as_array(), want[1].as_str());
    let (shape, dtype) = (shape.ok_or_else(wrong)?, dtype.ok_or_else(wrong)?);
    let (sum, size) = (want[2].as_f64(), want[3].as_f64());
    let (sum, size) = (sum.ok_or_else(wrong)?, size.ok_or_else(wrong)?);
    let shape: Vec<usize> = shape
        .iter()
        .filter_map(|n| n.as_u64().map(|n| n as usize))
        .collect();
    equal("the shape", tensor.dims(), shape.as_slice())?;
    equal("the dtype", tensor.dtype().to_string().as_str(), dtype)?;
    let values = tensor
        .to_dtype(DType::F64)
        .and_then(|t| t.to_vec::<f64>())
        .map_err(text)?;
    let mut used = 0.0f64;
    // The digits that the reference has, and the rounding of a sum of which little is left.
    let parts = [
        ("the sum", values.iter().sum::<f64>(), sum, 1e-12 * size),
        ("the norm", norm(&values), size, 0.0),
    ];
    for (what, got, want, rounding) in parts {
        let allowed = 1e-8 * want.abs() + rounding;
        if !((got - want).abs() <= allowed) {
            return Err(format!("{what} is {got}, expected {want}"));
        }
        if allowed > 0.0 {
            used = used.max((got - want).abs() / allowed);
        }
    }
    Ok(used)
}

/// Compares the tensors of a value that the reference lists, and how many there are.
fn listed(value: &Value, want: &Json) -> Result<f64, String> {
    let mut all = Vec::new();
    tensors(value, "", &mut all);
    if want.get("count").is_some() {
        equal(
            "the number of tensors",
            all.len() as f64,
            number(want, "count")?,
        )?;
    }
    let mut used = 0.0f64;
    for (name, want) in object(want, "tensors")? {
        let found = all.iter().find(|(path, _)| path == name);
        let (_, tensor) = found.ok_or_else(|| format!("there is no tensor {name}"))?;
        used = used.max(digest(tensor, want).map_err(|e| format!("{name}: {e}"))?);
    }
    Ok(used)
}

pub(super) fn chgnet(case: &Case<'_>) -> Result<Results, String> {
    let value = case.load("chgnet/chgnet_0.3.0_e29f68s314m37.pth.tar")?;
    let keys = value.as_dict().map_err(text)?.keys().map(shown);
    let keys: Vec<String> = keys.collect();
    let top = equal("the keys", keys, strings(case.want, "top")?);
    Ok(vec![
        ("keys".into(), top.map(|()| 0.0)),
        ("tensors".into(), listed(&value, case.want)),
    ])
}

pub(super) fn akiki(case: &Case<'_>) -> Result<Results, String> {
    let safetensors = case.load("akiki/model.safetensors")?;
    let checkpoint = case.load("akiki/akiki-vad.pt")?;
    let state = checkpoint.get("state_dict").map_err(text)?;
    field(case.want, "tensors")?;
    Ok(vec![
        ("model.safetensors".into(), listed(&safetensors, case.want)),
        ("akiki-vad.pt".into(), listed(state, case.want)),
        ("both equal".into(), same(&safetensors, state)),
    ])
}

/// Whether two dicts have the same tensors.
fn same(one: &Value, other: &Value) -> Result<f64, String> {
    let (one, other) = (one.named_tensors(), other.named_tensors());
    let (one, other) = (one.map_err(text)?, other.map_err(text)?);
    equal("the number of tensors", other.len(), one.len())?;
    for (name, tensor) in one {
        let twin = other.iter().find(|(n, _)| *n == name);
        let (_, twin) = twin.ok_or_else(|| format!("the other file has no {name}"))?;
        if !tensor.equal(twin).map_err(text)? {
            return Err(format!("{name} differs between the files"));
        }
    }
    Ok(0.0)
}

pub(super) fn craft(case: &Case<'_>) -> Result<Results, String> {
    let value = case.load("easyocr/craft_mlt_25k.pth")?;
    Ok(vec![("tensors".into(), listed(&value, case.want))])
}
