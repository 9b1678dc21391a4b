//! Files that safetensors wrote (`data/make.py`).

use std::collections::HashMap;
use std::path::Path;

use num_complex::Complex;
use torsh_serialize::{LoadOptions, Value, load, load_bytes, load_with, safetensors};
use torsh_tensor::DType;

use super::{data, floats, tensor};

#[test]
fn every_dtype_of_safetensors() {
    every_dtype(&data(""));
}

/// What `data/make.py` wrote to a folder with `safetensors.torch.save_file`.
pub(super) fn every_dtype(dir: &Path) {
    let path = dir.join("arrays.safetensors");
    let direct = safetensors::load(&path).unwrap();
    let by = HashMap::from([("by".into(), "safetensors.torch".into())]);
    assert_eq!(direct.metadata, by);
    let unmapped = load_with(&path, LoadOptions::new().mmap(false)).unwrap();
    let bytes = load_bytes(&std::fs::read(&path).unwrap()).unwrap();
    for value in [load(&path).unwrap(), unmapped, bytes] {
        let Value::Dict(all) = &value else {
            panic!("a dict, not {value:?}");
        };
        assert_eq!((all.len(), direct.tensors.len()), (14, 14));
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::C128) {
            let t = tensor(&value, &[dtype.name()]);
            assert_eq!(t.dtype(), dtype);
            match dtype {
                DType::Bool => assert_eq!(t.to_vec::<bool>().unwrap(), [true, false, true]),
                DType::C64 => assert_eq!(
                    t.to_vec::<Complex<f32>>().unwrap(),
                    [Complex::new(1.0, 2.0), Complex::new(0.0, -3.5)]
                ),
                _ => assert_eq!(t.to_vec::<f64>().unwrap(), [1.0, 0.0, 3.0], "{dtype}"),
            }
        }
        assert_eq!(tensor(&value, &["matrix"]).dims(), [2, 3]);
        assert_eq!(floats(&value, &["matrix"]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(tensor(&value, &["number"]).item::<f64>().unwrap(), 2.5);
        assert_eq!(tensor(&value, &["empty"]).dims(), [0, 3]);
    }
}
