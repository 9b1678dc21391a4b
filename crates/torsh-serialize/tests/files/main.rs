//! Files of PyTorch and NumPy, read and written.

mod foreign;
mod hostile;
mod layouts;
mod live;
mod numpy;
mod pytorch;
mod safe;
mod sparse;
mod written;

use std::path::PathBuf;

use flate2::Crc;
use torsh_serialize::Value;
use torsh_tensor::Tensor;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("torsh-serialize-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn tensor<'a>(value: &'a Value, path: &[&str]) -> &'a Tensor {
    value.at(path).unwrap().as_tensor().unwrap()
}

fn floats(value: &Value, path: &[&str]) -> Vec<f64> {
    tensor(value, path).to_vec().unwrap()
}

/// All tensors of a value, in the order of the file.
fn tensors(value: &Value) -> Vec<&Tensor> {
    match value {
        Value::Tensor(t) | Value::Parameter(t) => vec![t],
        Value::Dict(d) => d.values().flat_map(tensors).collect(),
        Value::List(v) | Value::Tuple(v) => v.iter().flat_map(tensors).collect(),
        _ => Vec::new(),
    }
}

/// How many tensors there are, and the checksum of all their bytes.
fn checksum(value: &Value) -> (usize, u32) {
    let all = tensors(value);
    let mut crc = Crc::new();
    for t in &all {
        crc.update(&t.to_bytes().unwrap());
    }
    (all.len(), crc.sum())
}
