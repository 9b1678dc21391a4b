//! `torsh inspect`

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, json};
use torsh_hub::load_state_dict;
use torsh_serialize::{Value, safetensors};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::InspectArgs;
use crate::output::{bytes, print, table};

/// How many values that are no tensors are shown.
const FEW: usize = 20;
/// A file may name an object again and again under longer and longer names.
const LONGEST: usize = 256 << 20;

/// What a file holds, by names joined by dots.
#[derive(Default)]
struct Found {
    tensors: Vec<(String, Tensor)>,
    others: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    length: usize,
}

/// `torsh inspect`
pub(crate) fn run(args: &InspectArgs, json: bool) -> Result<ExitCode> {
    let path = &args.file;
    let mut found = Found::default();
    let is_list = path.extension().is_some_and(|e| e == "json");
    let format = if path.is_dir() || is_list {
        let state = load_state_dict(path)?;
        found.tensors = state.into_iter().collect();
        if is_list {
            "a list of shards"
        } else {
            "a folder with a model"
        }
    } else {
        read(path, &mut found)?
    };
    let numbers: usize = found.tensors.iter().map(|(_, t)| t.numel()).sum();
    let size: u64 = found.tensors.iter().map(|(_, t)| bytes_of(t)).sum();

    let mut text = format!("{}: {format}\n", path.display());
    for (name, value) in &found.metadata {
        text.push_str(&format!("  {name}: {}\n", short(value)));
    }
    let rows: Vec<Vec<String>> = found
        .tensors
        .iter()
        .map(|(name, t)| {
            vec![
                name.clone(),
                t.dtype().to_string(),
                format!("{:?}", t.dims()),
            ]
        })
        .collect();
    text.push_str(&table(&rows, &[]));
    text.push_str(&format!(
        "{} tensors, {numbers} numbers, {}\n",
        found.tensors.len(),
        bytes(size)
    ));
    let shown = if args.all { found.others.len() } else { FEW };
    if !found.others.is_empty() {
        text.push_str("other values:\n");
        let rows: Vec<Vec<String>> = found
            .others
            .iter()
            .take(shown)
            .map(|(name, value)| vec![format!("  {name}"), value.clone()])
            .collect();
        text.push_str(&table(&rows, &[]));
        if found.others.len() > shown {
            text.push_str(&format!(
                "  and {} more; --all shows them\n",
                found.others.len() - shown
            ));
        }
    }

    let tensors = found.tensors.iter().map(|(name, t)| {
        json!({ "name": name, "dtype": t.dtype().to_string(), "shape": t.dims(), "bytes": bytes_of(t) })
    });
    let map = |pairs: &[(String, String)]| -> Map<String, serde_json::Value> {
        pairs
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().into()))
            .collect()
    };
    let object = json!({
        "file": path.display().to_string(),
        "format": format,
        "metadata": map(&found.metadata),
        "tensors": tensors.collect::<Vec<_>>(),
        "values": map(&found.others),
        "numbers": numbers,
        "bytes": size,
    });
    print(&text, &object, json)
}

fn bytes_of(t: &Tensor) -> u64 {
    (t.numel() as u64).saturating_mul(t.dtype().size() as u64)
}

/// Reads a file, and says what its format is.
fn read(path: &Path, found: &mut Found) -> Result<&'static str> {
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
    if start.get(8) == Some(&b'{') && !start.starts_with(b"PK") && !start.starts_with(b"\x93NUMPY")
    {
        let contents = safetensors::load(path)?;
        found.tensors = contents.tensors;
        found.metadata = contents.metadata.into_iter().collect();
        found.metadata.sort();
        return Ok("safetensors");
    }
    let value = torsh_serialize::load(path)?;
    walk(&value, "", found)?;
    Ok(
        match (
            start.starts_with(b"\x93NUMPY"),
            start.starts_with(b"PK"),
            is_npz(path),
        ) {
            (true, _, _) => "an array of NumPy",
            (_, true, true) => "arrays of NumPy",
            (_, true, false) => "a zip archive of PyTorch",
            _ => "PyTorch's container of before 1.6",
        },
    )
}

fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "npz")
}

fn walk(value: &Value, name: &str, found: &mut Found) -> Result<()> {
    found.length += name.len() + 16;
    if found.length > LONGEST {
        return Err(TorshError::format(
            "inspect",
            "the names of the file's values are too long to be shown",
        ));
    }
    let below = |part: &str| match name {
        "" => part.to_string(),
        _ => format!("{name}.{part}"),
    };
    let own = || {
        if name.is_empty() {
            "(the value itself)".to_string()
        } else {
            name.to_string()
        }
    };
    match value {
        Value::Tensor(t) | Value::Parameter(t) => found.tensors.push((own(), t.clone())),
        Value::Dict(dict) if !dict.is_empty() => {
            for (key, value) in dict.iter() {
                let key = match key {
                    Value::Str(key) => key.clone(),
                    key => text_of(key),
                };
                walk(value, &below(&key), found)?;
            }
        }
        Value::List(items) | Value::Tuple(items) if items.iter().any(holds_more) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, &below(&i.to_string()), found)?;
            }
        }
        other => found.others.push((own(), text_of(other))),
    }
    Ok(())
}

fn holds_more(value: &Value) -> bool {
    matches!(
        value,
        Value::Tensor(_) | Value::Parameter(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_)
    )
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
