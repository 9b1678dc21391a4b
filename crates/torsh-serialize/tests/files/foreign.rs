//! Files with entries that tensors here lack (`data/foreign.py`): the rest of them can be had.

use torsh_serialize::{
    LoadOptions, Readable, Value, load, load_readable, load_tensor, load_with, npy, npz,
    safetensors, save,
};
use torsh_tensor::{DType, Tensor, TorshError};

use super::{data, scratch};

/// Names and what is said of them, sorted by name.
fn left_out(all: &Readable) -> Vec<(&str, &str)> {
    let mut out: Vec<_> = all
        .left_out
        .iter()
        .map(|l| (l.name.as_str(), l.what.as_str()))
        .collect();
    out.sort_unstable();
    out
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    tensor.to_vec().unwrap()
}

/// Unsigned integers as the next larger signed ones.
fn unsigned(all: &Readable, below: &str) {
    for (name, dtype, largest) in [
        ("u16", DType::I32, 65535),
        ("u32", DType::I64, 4_294_967_295),
        ("u64", DType::I64, i64::MAX),
    ] {
        let name = format!("{below}{name}");
        let t = all.get(&name).unwrap();
        assert_eq!(t.dtype(), dtype, "{name}");
        assert_eq!(integers(t), [0, 1, largest], "{name}");
        let stored = name.trim_start_matches(below).replace('u', "uint");
        assert!(all.widened.iter().any(|(n, d)| *n == name && *d == stored));
    }
    let scale = all.get(&format!("{below}scale")).unwrap();
    assert_eq!(scale.to_vec::<f32>().unwrap(), [0.5, 1.5]);
}

/// The reason of an entry that was left out, which asking for it gives too.
fn why(all: &Readable, name: &str) -> String {
    let error = all.get(name).unwrap_err().to_string();
    let entry = all.left_out.iter().find(|l| l.name == name).unwrap();
    assert!(
        error.contains(&entry.why) && error.contains(name),
        "{error}"
    );
    assert_eq!(
        entry.to_string(),
        format!("{name} ({}): {}", entry.what, entry.why)
    );
    entry.why.clone()
}

#[test]
fn safetensors_of_other_dtypes() {
    let path = data("foreign.safetensors");
    let error = load(&path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("float8") || text.contains("F4"), "{text}");
    assert!(text.contains("load_readable"), "{text}");
    for options in [LoadOptions::new(), LoadOptions::new().mmap(false)] {
        let all = torsh_serialize::load_readable_with(&path, options).unwrap();
        unsigned(&all, "");
        assert_eq!(
            left_out(&all),
            [
                ("e5m2", "float8_e5m2 [1, 3]"),
                ("e8m0", "float8_e8m0fnu [2]"),
                ("f4", "F4 [2, 6]"),
                ("f8", "float8_e4m3fn [1, 3]"),
                ("over", "uint64 [2]"),
            ]
        );
        assert!(why(&all, "f8").contains("no dtype"));
        assert!(why(&all, "over").contains("9223372036854775808"));
        assert_eq!(all.metadata["by"], "torch");
    }
    let scale = load_tensor(&path, "scale").unwrap();
    assert_eq!(scale.to_vec::<f32>().unwrap(), [0.5, 1.5]);
    let none = load_tensor(&path, "none").unwrap_err().to_string();
    assert!(
        none.contains("no tensor none") && none.contains("scale"),
        "{none}"
    );
    let contents = safetensors::load_with(&path, LoadOptions::new().keep_foreign(true)).unwrap();
    assert_eq!((contents.tensors.len(), contents.left_out.len()), (4, 5));
}

/// A safetensors file with this header.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

#[test]
fn unsigned_integers_are_read_plainly() {
    // The report: `q` in uint32 beside `scale` in float32.
    let header = r#"{"q":{"dtype":"U32","shape":[2],"data_offsets":[0,8]},"scale":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
    let bytes = file(header, &[1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 63]);
    let value = torsh_serialize::load_bytes(&bytes).unwrap();
    let q = value.get("q").unwrap().as_tensor().unwrap();
    assert_eq!(
        (q.dtype(), integers(q)),
        (DType::I64, vec![1, 4_294_967_295])
    );
    let scale = value.get("scale").unwrap().as_tensor().unwrap();
    assert_eq!(scale.to_vec::<f32>().unwrap(), [0.5]);

    // A dtype that no version of the format has, yet.
    let header = r#"{"x":{"dtype":"F3","shape":[3],"data_offsets":[0,2]},"y":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}}"#;
    let dir = scratch("unsigned");
    let path = dir.join("new.safetensors");
    std::fs::write(&path, file(header, &[0, 0, 7, 8])).unwrap();
    let all = load_readable(&path).unwrap();
    assert_eq!(integers(all.get("y").unwrap()), [7, 8]);
    assert_eq!(left_out(&all), [("x", "F3 [3]")]);

    // Headers that contradict themselves are errors all the same.
    for (header, why) in [
        (
            r#"{"x":{"dtype":"F3","shape":[3],"data_offsets":[1,4]}}"#,
            "should begin at 0",
        ),
        (
            r#"{"x":{"dtype":"U16","shape":[3],"data_offsets":[0,4]}}"#,
            "not as many",
        ),
        (
            r#"{"x":{"dtype":"F4","shape":[3],"data_offsets":[0,4]}}"#,
            "not as many",
        ),
        (
            r#"{"x":{"dtype":"U16","shape":[2],"data_offsets":[4,0]}}"#,
            "should begin at 0",
        ),
        (
            r#"{"x":{"dtype":"I8","shape":[9223372036854775807,9],"data_offsets":[0,4]}}"#,
            "too large",
        ),
        (
            r#"{"x":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}}"#,
            "speaks of",
        ),
    ] {
        std::fs::write(&path, file(header, &[0; 4])).unwrap();
        let error = load_readable(&path).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn archives_of_numpy_with_other_members() {
    let path = data("foreign.npz");
    assert!(load(&path).is_err() && npz::load(&path).is_err());
    let all = load_readable(&path).unwrap();
    unsigned(&all, "");
    assert_eq!(
        all.get("big").unwrap().to_vec::<f64>().unwrap(),
        [1.5, -2.0]
    );
    let names: Vec<&str> = left_out(&all).iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "bz2",
            "days",
            "fields",
            "notes.txt",
            "objects",
            "over",
            "words"
        ]
    );
    for (name, reason) in [
        ("bz2", "compressed"),
        ("days", "dates"),
        ("fields", "structured"),
        ("notes.txt", "no array"),
        ("objects", "Python objects"),
        ("over", "more than int64 holds"),
        ("words", "texts"),
    ] {
        let found = why(&all, name).to_lowercase();
        assert!(found.contains(&reason.to_lowercase()), "{name}: {found}");
    }
    let fields = all.left_out.iter().find(|l| l.name == "fields").unwrap();
    assert!(fields.what.ends_with("[2, 3]"), "{}", fields.what);

    // One array by itself.
    let dict = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2)}";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend([0, 1, 0, 2, 255, 255, 0, 4]);
    let t = npy::load_bytes(&bytes).unwrap();
    assert_eq!(
        (t.dtype(), integers(&t)),
        (DType::I32, vec![1, 65535, 2, 4])
    );
}

#[test]
fn objects_of_python_beside_the_weights() {
    for name in ["foreign.pt", "foreign_legacy.pt"] {
        let path = data(name);
        let error = load(&path).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("load_readable"),
            "{error}"
        );
        let all = load_readable(&path).unwrap();
        unsigned(&all, "state_dict.");
        let square = all.get("state_dict.square").unwrap();
        assert_eq!((square.dims(), square.stride()), (&[3, 2][..], &[1, 0][..]));
        assert_eq!(integers(square), [0, 0, 1, 1, 65535, 65535]);
        assert_eq!(integers(all.get("state_dict.tail").unwrap()), [1, 65535]);
        // Views of one storage still are.
        let whole = all.get("state_dict.u16").unwrap();
        assert!(whole.shares_storage(square));
        assert_eq!(integers(all.get("counts").unwrap()), [1, 65535]);

        // Tensors of objects are there by the names of attributes.
        assert_eq!(
            all.get("args.start").unwrap().to_vec::<f32>().unwrap(),
            [3.0]
        );
        let weight = all.get("net._modules.fc._parameters.weight").unwrap();
        assert_eq!(weight.to_vec::<f32>().unwrap(), [0.5, -2.0]);

        let found = left_out(&all);
        let what = |name: &str| {
            let entry = found.iter().find(|(own, _)| *own == name);
            entry
                .unwrap_or_else(|| panic!("{name} is not in {found:?}"))
                .1
        };
        assert_eq!(what("f8"), "float8_e4m3fn [1, 3]");
        assert_eq!(what("parameter"), "float8_e4m3fn [1, 3]");
        assert_eq!(what("over"), "uint64 [2]");
        assert_eq!(what("args"), "argparse.Namespace");
        assert_eq!(what("function"), "__main__.foreign");
        assert_eq!(what("color"), "__main__.Color");
        assert_eq!(what("tags"), "__main__.Tags");
        assert_eq!(what("net"), "__main__.Net");
        assert!(what("path").contains("PurePosixPath"), "{}", what("path"));
        assert!(what("words").contains("[2]"), "{}", what("words"));
        assert!(!what("quantized").is_empty());
        let sparse = all.get("sparse").unwrap().pattern().unwrap();
        assert_eq!((sparse.nnz(), sparse.is_coalesced()), (2, true));
        assert!(why(&all, "function").contains("none of its code is run"));
        assert!(why(&all, "over").contains("9223372036854775808"));
        assert!(all.others.contains(&("epoch".to_string(), Value::Int(3))));
        assert!(
            all.others
                .contains(&("args.lr".to_string(), Value::Float(0.1)))
        );
        assert!(all.others.contains(&("tags.a".to_string(), Value::Int(1))));

        // In its place, an entry is an error only where it is asked for.
        let value = load_with(&path, LoadOptions::new().keep_foreign(true)).unwrap();
        assert_eq!(value.get("epoch").unwrap().as_int().unwrap(), 3);
        let error = value.get("f8").unwrap().as_tensor().unwrap_err();
        assert!(matches!(error, TorshError::DTypeMismatch(_)), "{error}");
        assert!(
            error.to_string().contains("float8_e4m3fn [1, 3]"),
            "{error}"
        );
        let copy = scratch("foreign").join("copy.pt");
        let error = save(&value, &copy).unwrap_err().to_string();
        assert!(error.contains("cannot be saved"), "{error}");
    }
}

#[test]
fn pointers_of_git_lfs_are_named() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98304\n";
    let dir = scratch("lfs");
    for name in [
        "model.safetensors",
        "pytorch_model.bin",
        "a.npy",
        "a.npz",
        "b.pkl",
    ] {
        let path = dir.join(name);
        std::fs::write(&path, pointer).unwrap();
        let error = match name {
            "model.safetensors" => safetensors::load(&path).err(),
            "a.npy" => npy::load(&path).err(),
            "a.npz" => npz::load(&path).err(),
            "b.pkl" => torsh_serialize::pt::load_pickle(&path).err(),
            _ => torsh_serialize::pt::load(&path).err(),
        };
        let error = [error, load(&path).err(), load_readable(&path).err()];
        for error in error.map(|e| e.unwrap().to_string()) {
            assert!(
                error.contains(name) && error.contains("pointer of git-lfs"),
                "{error}"
            );
            assert!(
                error.contains("98304 bytes") && error.contains("git lfs pull"),
                "{error}"
            );
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Hostile pickles are no less bounded where unknown objects are kept.
#[test]
fn nothing_is_run_and_memory_is_bounded() {
    let dir = scratch("bounded");
    let path = dir.join("a.pt");
    let write = |code: &[u8]| {
        use std::io::Write;
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        let stored = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        zip.start_file("a/data.pkl", stored).unwrap();
        zip.write_all(code).unwrap();
        zip.finish().unwrap();
        load_readable(&path)
    };
    let all = write(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").unwrap();
    assert_eq!(left_out(&all), [("(the value itself)", "os.system")]);
    // An object that is its own attribute, and one that is named again and again.
    let all = write(b"\x80\x02cm\nC\n)\x81q\x00}X\x01\x00\x00\x00ah\x00sb.").unwrap();
    assert_eq!(
        left_out(&all),
        [("(the value itself)", "m.C"), ("a", "m.C")]
    );
    let mut code = b"\x80\x02cm\nC\n)\x81q\x00}X\x01\x00\x00\x00aK\x01sb](".to_vec();
    code.extend(b"h\x00".repeat(1000));
    code.extend(b"e.");
    let all = write(&code).unwrap();
    assert_eq!((all.left_out.len(), all.others.len()), (1000, 1));
    // What is cut off or contradicts itself stays an error.
    for code in [
        &b"\x80\x02cm\nC\n)"[..],
        b"\x80\x02cm\nC\nh\x05.",
        b"(im\nC\n.",
    ] {
        assert!(write(code).is_err());
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
