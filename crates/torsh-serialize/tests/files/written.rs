//! Files that are written here: read back, the same bytes as the committed ones, which
//! `data/check.py` opens with PyTorch and NumPy.

use std::collections::HashMap;
use std::path::Path;

use num_complex::Complex;
use torsh_serialize::{
    BigInt, Dict, LoadOptions, Value, files, load, load_with, npy, npz, pt, safetensors, save,
};
use torsh_tensor::{DType, Device, Tensor};

use super::live::python;
use super::{data, floats, scratch, tensor};

fn base() -> Tensor {
    Tensor::from_data(&[1.0f32, 0.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]).unwrap()
}

fn named() -> Vec<(&'static str, Tensor)> {
    const ORDER: [DType; 12] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::C64,
        DType::C128,
    ];
    let to = |d: DType| (d.name(), base().to_dtype(d).unwrap());
    ORDER.into_iter().map(to).collect()
}

fn content() -> Value {
    let mut dict = Dict::new();
    let named = named();
    for (name, t) in &named {
        dict.insert(*name, t).unwrap();
    }
    let float32 = &named[0].1;
    let mut plain = Dict::new();
    let ints = [0, 255, 65535, -1, 1 << 31, i64::MIN].map(Value::Int);
    let tuple = vec![Value::Int(1), Value::Tuple(vec![]), "x".into()];
    for (key, value) in [
        (Value::from("none"), Value::None),
        ("yes".into(), Value::Bool(true)),
        ("ints".into(), Value::List(ints.into())),
        ("big".into(), Value::BigInt(BigInt::from(1u128 << 100))),
        ("float".into(), Value::Float(0.1)),
        ("complex".into(), Value::Complex(Complex::new(1.0, -2.0))),
        ("text".into(), Value::from("grüße")),
        ("bytes".into(), Value::Bytes(vec![0, 255])),
        ("tuple".into(), Value::Tuple(tuple)),
        ("set".into(), Value::Set(vec![1.into(), 2.into()])),
        ("size".into(), Value::Size(vec![2, 3])),
        ("dtype".into(), Value::DType(DType::BF16)),
        ("device".into(), Value::Device(Device::Cuda(1))),
        (3.into(), "three".into()),
    ] {
        plain.insert(key, value).unwrap();
    }
    let slice = float32.narrow(1, 1, 1).unwrap();
    let one = |v: f32| Tensor::from_data(&[v], &[1]).unwrap();
    for (key, value) in [
        ("transposed", Value::from(float32.t().unwrap())),
        ("slice", Value::from(slice)),
        (
            "empty",
            Value::from(Tensor::from_data(&[0f32; 0], &[0, 3]).unwrap()),
        ),
        ("leaf", Value::from(one(1.5).requires_grad_(true))),
        ("parameter", Value::Parameter(one(2.5).requires_grad_(true))),
        ("plain", Value::Dict(plain)),
    ] {
        dict.insert(key, value).unwrap();
    }
    Value::Dict(dict)
}

/// Writes the four files.
fn write(dir: &Path) {
    save(&content(), dir.join("ours.pt")).unwrap();
    let named = named();
    let numpy: Vec<_> = named
        .iter()
        .filter(|(_, t)| t.dtype() != DType::BF16)
        .collect();
    npz::save(numpy.iter().map(|(n, t)| (n, t)), dir.join("ours.npz")).unwrap();
    npy::save(&base().t().unwrap(), dir.join("ours.npy")).unwrap();
    let transposed = base().t().unwrap();
    let safe = named
        .iter()
        .filter(|(_, t)| t.dtype() != DType::C128)
        .map(|(n, t)| (*n, t))
        .chain([("transposed", &transposed)]);
    safetensors::save(safe, dir.join("ours.safetensors")).unwrap();
}

const NAMES: [&str; 4] = ["ours.pt", "ours.npz", "ours.npy", "ours.safetensors"];

#[test]
fn the_committed_files_are_written_again() {
    let dir = scratch("written");
    write(&dir);
    for name in NAMES {
        let (ours, there) = (dir.join(name), data("written").join(name));
        if std::env::var_os("TORSH_WRITE_DATA").is_some() {
            std::fs::copy(&ours, &there).unwrap();
        }
        let same = std::fs::read(&ours).unwrap() == std::fs::read(&there).unwrap();
        assert!(
            same,
            "{name} is another; TORSH_WRITE_DATA=1 writes it anew, then run check.py"
        );
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), NAMES.len());
    if let Some(said) = python("check.py", &dir) {
        assert!(said.ends_with("ok\n"), "{said}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_was_written_comes_back() {
    let back = load(data("written/ours.pt")).unwrap();
    let there = content();
    assert_eq!(back.get("plain").unwrap(), there.get("plain").unwrap());
    for (name, t) in named() {
        let other = tensor(&back, &[name]);
        assert_eq!((other.dtype(), other.dims()), (t.dtype(), t.dims()));
        assert_eq!(other.to_bytes().unwrap(), t.to_bytes().unwrap(), "{name}");
    }
    let (float32, transposed) = (tensor(&back, &["float32"]), tensor(&back, &["transposed"]));
    assert!(float32.shares_storage(transposed));
    assert_eq!(
        (transposed.dims(), transposed.stride()),
        (&[3, 2][..], &[1, 3][..])
    );
    assert_eq!(floats(&back, &["slice"]), [0.0, 4.0]);
    assert!(tensor(&back, &["leaf"]).requires_grad());
    assert!(matches!(back.get("parameter").unwrap(), Value::Parameter(p) if p.requires_grad()));
    // What was loaded can be saved, and is the same again.
    let dir = scratch("again");
    let path = dir.join("again.pt");
    pt::save(&back, &path).unwrap();
    let again = std::fs::read(&path).unwrap();
    assert!(again == std::fs::read(data("written/ours.pt")).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();

    let z = load(data("written/ours.npz")).unwrap();
    let s = safetensors::load(data("written/ours.safetensors")).unwrap();
    for (name, t) in named() {
        if t.dtype() != DType::BF16 {
            assert_eq!(
                tensor(&z, &[name]).to_bytes().unwrap(),
                t.to_bytes().unwrap()
            );
        }
        if t.dtype() != DType::C128 {
            let found = s.tensors.iter().find(|(n, _)| n == name).unwrap();
            assert_eq!(found.1.to_bytes().unwrap(), t.to_bytes().unwrap());
        }
    }
    assert_eq!(s.metadata, HashMap::from([("format".into(), "pt".into())]));
    let t = npy::load(data("written/ours.npy")).unwrap();
    assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 3.0, 0.0, 4.0, 2.0, 5.0]);
}

/// Saving over the file that tensors are mapped from, and removing it, which Windows allows only after a renaming.
#[test]
fn a_mapped_file_is_replaced_and_removed() {
    let dir = scratch("mapped");
    let names = || {
        let entries = std::fs::read_dir(&dir).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names
            .filter(|n| !files::is_aside(n))
            .collect::<Vec<String>>()
    };
    for name in ["a.safetensors", "a.pt"] {
        let path = dir.join(name);
        let of = |v: f32| Tensor::from_data(&[v; 4096], &[64, 64]).unwrap();
        save(&Value::from([("w", Value::from(of(1.0)))]), &path).unwrap();
        let map = || load_with(&path, LoadOptions::new().mmap(true)).unwrap();
        let first = map();
        save(&Value::from([("w", Value::from(of(2.0)))]), &path).unwrap();
        let second = map();
        // As after training: what was loaded is saved to where it came from.
        save(&second, &path).unwrap();
        assert!(floats(&first, &["w"]).iter().all(|&v| v == 1.0));
        assert!(floats(&second, &["w"]).iter().all(|&v| v == 2.0));
        assert!(floats(&map(), &["w"]).iter().all(|&v| v == 2.0));
        assert_eq!(names(), [name]);
        files::remove(&path).unwrap();
        assert!(names().is_empty() && !path.exists());
        assert_eq!(tensor(&second, &["w"]).dims(), [64, 64]);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_a_format_lacks_is_an_error_that_leaves_the_old_file() {
    let dir = scratch("lacks");
    let old = |name: &str| {
        std::fs::write(dir.join(name), b"old").unwrap();
        dir.join(name)
    };
    let wide = base().to_dtype(DType::C128).unwrap();
    let half = base().to_dtype(DType::BF16).unwrap();
    let parts = base().to_dtype(DType::C64).unwrap();
    let real = parts.view_as_real().unwrap();
    let meta = Tensor::zeros(&[2], DType::F32, Device::Meta).unwrap();
    let mut deep = Value::None;
    for _ in 0..200 {
        deep = Value::List(vec![deep]);
    }
    let list = |v: Value| Value::from([("x", v)]);
    for (value, name, why) in [
        (list((&wide).into()), "a.safetensors", "complex128"),
        (list((&half).into()), "a.npz", "bfloat16"),
        (Value::from(&half), "a.npy", "bfloat16"),
        (list(1.into()), "b.npz", "an int"),
        (
            Value::List(vec![parts.into(), real.into()]),
            "a.pt",
            "share a storage",
        ),
        (Value::from(meta), "b.pt", "meta"),
        (deep, "c.pt", "128 deep"),
    ] {
        let path = old(name);
        let error = save(&value, &path).unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
    assert!(save(&Value::None, dir.join("no/such/folder.pt")).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}
