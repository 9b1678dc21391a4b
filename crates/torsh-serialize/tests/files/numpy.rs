//! Files that NumPy wrote (`data/make.py`).

use std::path::Path;

use num_complex::Complex;
use torsh_serialize::{LoadOptions, Value, load, load_bytes, load_with, npy, npz, pt};
use torsh_tensor::DType;

use super::{data, floats, tensor};

#[test]
fn archives_stored_and_packed() {
    archives(&data(""));
}

/// What `data/make.py` wrote to a folder with `numpy.savez` and `numpy.savez_compressed`.
pub(super) fn archives(dir: &Path) {
    for name in ["arrays.npz", "packed.npz"] {
        let path = dir.join(name);
        let unmapped = load_with(&path, LoadOptions::new().mmap(false)).unwrap();
        let bytes = load_bytes(&std::fs::read(&path).unwrap()).unwrap();
        let direct = Value::from(npz::load(&path).unwrap());
        for value in [load(&path).unwrap(), unmapped, bytes, direct] {
            let halves = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5];
            for (key, dtype) in [
                ("c", DType::F32),
                ("f", DType::F32),
                ("big", DType::F32),
                ("half", DType::F16),
                ("double", DType::F64),
            ] {
                assert_eq!(tensor(&value, &[key]).dtype(), dtype);
                assert_eq!(tensor(&value, &[key]).dims(), [2, 3]);
                assert_eq!(floats(&value, &[key]), halves, "{name} {key}");
            }
            assert_eq!(tensor(&value, &["f"]).stride(), [1, 2]);
            let whole = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0];
            for key in ["uint8", "int16", "int32", "int64"] {
                assert_eq!(floats(&value, &[key]), whole, "{key}");
                assert_eq!(tensor(&value, &[key]).dtype().name(), key);
            }
            assert_eq!(floats(&value, &["int8"]), whole.map(|v| -v));
            assert_eq!(
                tensor(&value, &["bool"]).to_vec::<bool>().unwrap(),
                [false, false, false, true, true, true]
            );
            assert_eq!(
                tensor(&value, &["complex64"])
                    .to_vec::<Complex<f32>>()
                    .unwrap()[1],
                Complex::new(0.5, 1.0)
            );
            assert_eq!(
                tensor(&value, &["complex128"])
                    .to_vec::<Complex<f64>>()
                    .unwrap()[5],
                Complex::new(2.5, -1.0)
            );
            assert_eq!(tensor(&value, &["number"]).item::<f64>().unwrap(), 1.5);
            assert_eq!(tensor(&value, &["empty"]).dims(), [0, 2]);
        }
    }
}

#[test]
fn single_arrays() {
    arrays(&data(""));
}

/// What `data/make.py` wrote to a folder with `numpy.save`.
pub(super) fn arrays(dir: &Path) {
    let t = npy::load(dir.join("fortran.npy")).unwrap();
    assert_eq!(t.stride(), [1, 2]);
    assert_eq!(t.to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    t.add_(1.0).unwrap();
    assert_eq!(
        load(dir.join("fortran.npy"))
            .unwrap()
            .as_tensor()
            .unwrap()
            .to_vec::<f32>()
            .unwrap()[0],
        0.0
    );
    for (name, why) in [
        ("structured.npy", "structured"),
        ("objects.npy", "Python objects"),
    ] {
        let error = load(dir.join(name)).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(name), "{error}");
    }
}

#[test]
fn arrays_in_pickles_of_every_protocol() {
    for protocol in [0, 2, 5] {
        let batch = pt::load_pickle(data(&format!("batch{protocol}.pkl"))).unwrap();
        let pixels = tensor(&batch, &["data"]);
        assert_eq!((pixels.dtype(), pixels.dims()), (DType::U8, &[2, 12][..]));
        assert_eq!(pixels.to_vec::<u8>().unwrap(), (0..24).collect::<Vec<_>>());
        // Big-endian, and column by column.
        let means = tensor(&batch, &["means"]);
        assert_eq!((means.dtype(), means.dims()), (DType::F64, &[2, 1][..]));
        assert_eq!(means.to_vec::<f64>().unwrap(), [0.5, -1.5]);
        assert_eq!(batch.at(&["one"]).unwrap().as_float().unwrap(), 2.5);
        assert_eq!(batch.at(&["labels", "1"]).unwrap().as_int().unwrap(), 9);
        assert_eq!(
            batch.at(&["names", "1"]).unwrap().as_str().unwrap(),
            "\u{fc}"
        );
    }
    let records = pt::load_records(data("records.pkl"), &["pathlib"]).unwrap();
    assert_eq!(records.at(&["1", "x"]).unwrap().as_float().unwrap(), 1.5);
    assert!(pt::load_pickle(data("records.pkl")).is_err());
    let script = load(data("script.pt")).unwrap();
    assert_eq!(
        floats(&script, &["fc.weight"]),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
}
