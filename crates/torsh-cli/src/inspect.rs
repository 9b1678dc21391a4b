//! `torsh inspect`

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, json};
use torsh_hub::{LoadStateDict, load_readable_state_dict};
use torsh_serialize::{Readable, Value, load_readable};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::InspectArgs;
use crate::output::{bytes, print, table};

/// How many values that are no tensors are shown.
const FEW: usize = 20;
/// `torsh inspect`
pub(crate) fn run(args: &InspectArgs, json: bool) -> Result<ExitCode> {
    let path = &args.file;
    let is_list = path.extension().is_some_and(|e| e == "json");
    let (format, found) = if path.is_dir() || is_list {
        let (state, left_out) = load_readable_state_dict(path, LoadStateDict::new())?;
        let mut found = Readable::default();
        (found.tensors, found.left_out) = (state.into_iter().collect(), left_out);
        match is_list {
            true => ("a list of shards", found),
            false => ("a folder with a model", found),
        }
    } else {
        (format_of(path)?, load_readable(path)?)
    };
    let mut metadata: Vec<(String, String)> = found.metadata.clone().into_iter().collect();
    metadata.sort();
    let others: Vec<(String, String)> = found
        .others
        .iter()
        .map(|(name, value)| (name.clone(), text_of(value)))
        .collect();
    // How the file has the numbers of tensors that were widened.
    let stored: HashMap<&str, &str> = found
        .widened
        .iter()
        .map(|(name, dtype)| (name.as_str(), *dtype))
        .collect();
    let numbers: usize = found.tensors.iter().map(|(_, t)| t.numel()).sum();
    let size: u64 = found.tensors.iter().map(|(_, t)| bytes_of(t)).sum();

    let mut text = format!("{}: {format}\n", path.display());
    for (name, value) in &metadata {
        text.push_str(&format!("  {name}: {}\n", short(value)));
    }
    let rows: Vec<Vec<String>> = found
        .tensors
        .iter()
        .map(|(name, t)| {
            let dtype = match stored.get(name.as_str()) {
                Some(stored) => format!("{stored} (read as {})", t.dtype()),
                None => t.dtype().to_string(),
            };
            vec![name.clone(), dtype, format!("{:?}", t.dims())]
        })
        .collect();
    text.push_str(&table(&rows, &[]));
    text.push_str(&format!(
        "{} tensors, {numbers} numbers, {}\n",
        found.tensors.len(),
        bytes(size)
    ));
    if !found.left_out.is_empty() {
        text.push_str("not read:\n");
        let rows: Vec<Vec<String>> = found
            .left_out
            .iter()
            .map(|l| vec![format!("  {}", l.name), short(&l.what), short(&l.why)])
            .collect();
        text.push_str(&table(&rows, &[]));
    }
    let shown = if args.all { others.len() } else { FEW };
    if !others.is_empty() {
        text.push_str("other values:\n");
        let rows: Vec<Vec<String>> = others
            .iter()
            .take(shown)
            .map(|(name, value)| vec![format!("  {name}"), value.clone()])
            .collect();
        text.push_str(&table(&rows, &[]));
        if others.len() > shown {
            text.push_str(&format!(
                "  and {} more; --all shows them\n",
                others.len() - shown
            ));
        }
    }

    let tensors = found.tensors.iter().map(|(name, t)| {
        let mut object = json!({
            "name": name, "dtype": t.dtype().to_string(), "shape": t.dims(), "bytes": bytes_of(t)
        });
        if let Some(stored) = stored.get(name.as_str()) {
            object["stored_as"] = (*stored).into();
        }
        object
    });
    let left_out = found
        .left_out
        .iter()
        .map(|l| json!({ "name": l.name, "what": l.what, "why": l.why }));
    let map = |pairs: &[(String, String)]| -> Map<String, serde_json::Value> {
        pairs
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().into()))
            .collect()
    };
    let object = json!({
        "file": path.display().to_string(),
        "format": format,
        "metadata": map(&metadata),
        "tensors": tensors.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "values": map(&others),
        "numbers": numbers,
        "bytes": size,
    });
    print(&text, &object, json)
}

fn bytes_of(t: &Tensor) -> u64 {
    (t.numel() as u64).saturating_mul(t.dtype().size() as u64)
}

/// What the format of a file is.
fn format_of(path: &Path) -> Result<&'static str> {
    let failed = |e: std::io::Error| {
        TorshError::from(std::io::Error::new(
            e.kind(),
            format!("inspect: {}: {e}", path.display()),
        ))
    };
    let mut start = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(16)
        .read_to_end(&mut start)
        .map_err(failed)?;
    let (array, archive) = (start.starts_with(b"\x93NUMPY"), start.starts_with(b"PK"));
    Ok(match (array, archive, is_npz(path)) {
        (true, _, _) => "an array of NumPy",
        (_, true, true) => "arrays of NumPy",
        (_, true, false) => "a zip archive of PyTorch",
        _ if start.get(8) == Some(&b'{') => "safetensors",
        _ => "PyTorch's container of before 1.6",
    })
}

fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "npz")
}

fn short(text: &str) -> String {
    let clean: String = text
        .chars()
        .take(100)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match text.chars().nth(100) {
        Some(_) => clean + "..",
        None => clean,
    }
}

/// A value as Python would write it, shortened.
fn text_of(value: &Value) -> String {
    let list = |items: &[Value]| {
        items
            .iter()
            .take(16)
            .map(text_of)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let text = match value {
        Value::None => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(i) => i.to_string(),
        Value::BigInt(i) => format!("{i:?}"),
        Value::Float(f) => f.to_string(),
        Value::Complex(c) => c.to_string(),
        Value::Str(s) => format!("{:?}", short(s)),
        Value::Bytes(b) => format!("{} bytes", b.len()),
        Value::List(items) => format!("[{}]", list(items)),
        Value::Tuple(items) => format!("({})", list(items)),
        Value::Set(items) => format!("{{{}}}", list(items)),
        Value::Dict(_) => "{}".into(),
        Value::Tensor(t) | Value::Parameter(t) => t.describe(),
        Value::DType(d) => format!("torch.{d}"),
        Value::Device(d) => format!("device {d}"),
        Value::Size(dims) => format!("{dims:?}"),
        _ => "a value of another kind".into(),
    };
    short(&text)
}
