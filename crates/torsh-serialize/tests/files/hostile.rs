//! Files that lie. Each is an error that says what is wrong, at once and within a little memory.

use std::io::{Cursor, Write};

use torsh_serialize::{load, load_bytes};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{data, scratch};

fn archive(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in files {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The error of a checkpoint with this pickle and one storage of 16 bytes.
fn pickle(code: &[u8]) -> String {
    let files = [
        ("a/data.pkl", code),
        ("a/data/0", &[0; 16]),
        ("a/version", b"3\n"),
    ];
    refused(&archive(&files, CompressionMethod::Stored))
}

fn refused(bytes: &[u8]) -> String {
    match load_bytes(bytes) {
        Ok(value) => panic!("loaded {value:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn other_names_are_refused() {
    for (code, why) in [
        (
            &b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."[..],
            "refuses to load the global os.system",
        ),
        (
            b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.",
            "posix.system",
        ),
        (
            b"c__builtin__\neval\n.",
            "refuses to load the global __builtin__.eval",
        ),
        (b"cbuiltins\ngetattr\n.", "builtins.getattr"),
        (
            b"ctorch.nn.modules.linear\nLinear\n)\x81}b.",
            "torch.nn.modules.linear.Linear",
        ),
        (b"ctorch._utils\n_rebuild_qtensor\n.", "quantized"),
        (b"ctorch\nfloat8_e4m3fn\n.", "torch.float8_e4m3fn"),
        (b"ctorch\nQInt8Storage\n.", "torch.QInt8Storage"),
        (b"(ios\nsystem\n.", "refuses the pickle opcode"),
        (b"\x82\x01.", "refuses the pickle opcode"),
        (b"ctorch\nTensor\n)R.", "makes an object of a class"),
        (b"ccollections\nOrderedDict\n.", "as a value"),
        (b"(X\x06\x00\x00\x00moduleNNNtQ.", "whole module"),
    ] {
        let error = pickle(code);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn pickles_that_make_no_sense() {
    for (code, why) in [
        (&b""[..], "cut off"),
        (b"\x80\x02", "cut off"),
        (b"\x80\x09.", "protocol 9"),
        (b".", "empty stack"),
        (b"(.", "empty stack"),
        (b"e.", "lacks a mark"),
        (b"h\x05.", "did not remember"),
        (b"]K\x01s.", "empty stack"),
        (b"}(K\x01u.", "key without a value"),
        (b"NK\x01a.", "no list"),
        (b"}(]K\x01u.", "a list cannot be a key"),
        (b"X\xff\xff\xff\xff.", "cut off"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "cut off"),
        (b"\x8b\xff\xff\xff\x7f.", "cut off"),
        (b"X\x01\x00\x00\x00\xff.", "UTF-8"),
        (b"Inumber\n.", "no whole number"),
        (b"K\x01)R.", "no function"),
    ] {
        let error = pickle(code);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn depth_cycles_and_bombs() {
    // A list in a list, a hundred thousand times.
    let mut deep = vec![b']'; 100_000];
    deep.extend(vec![b'a'; 99_999]);
    deep.push(b'.');
    assert!(pickle(&deep).contains("128 deep"));
    // A list that holds itself.
    assert!(pickle(b"]q\x00h\x00a.").contains("128 deep"));
    // Ten of ten of ten …: 10^30 values in 800 bytes.
    let mut bomb = b"]q\x00".to_vec();
    for k in 0..30u8 {
        bomb.extend([b']', b'q', k + 1, b'(']);
        for _ in 0..10 {
            bomb.extend([b'h', k]);
        }
        bomb.push(b'e');
    }
    bomb.push(b'.');
    assert!(pickle(&bomb).contains("name each other so often"));
    // A long text, remembered and named again and again.
    let mut texts = b"X\x00\x00\x10\x00".to_vec();
    texts.extend(vec![b'x'; 1 << 20]);
    texts.extend(b"q\x00]q\x01(");
    for _ in 0..100_000 {
        texts.extend(b"h\x00");
    }
    texts.extend(b"e.");
    assert!(pickle(&texts).contains("name each other so often"));
}

/// The pickle of a tensor of float32.
fn tensor(key: &str, numel: &str, offset: &str, size: &str, stride: &str) -> Vec<u8> {
    format!(
        "ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV{key}\nVcpu\nI{numel}\ntQI{offset}\n({size}t({stride}tI00\nNtR."
    )
    .into_bytes()
}

#[test]
fn tensors_stay_within_their_storages() {
    let files = |code: &[u8]| {
        let files = [("a/data.pkl", code), ("a/data/0", &[0; 16])];
        archive(&files, CompressionMethod::Stored)
    };
    assert!(load_bytes(&files(&tensor("0", "4", "0", "I4\n", "I1\n"))).is_ok());
    assert!(load_bytes(&files(&tensor("0", "4", "3", "I9\n", "I0\n"))).is_ok());
    let largest = i64::MAX.to_string();
    for (numel, offset, size, stride) in [
        ("5", "0", "I4\n", "I1\n"),
        ("4", "1", "I4\n", "I1\n"),
        ("4", "0", "I4\n", "I2\n"),
        ("4", "5", "I0\n", "I1\n"),
        ("4", "0", "I4\n", "I-1\n"),
        ("4", "-1", "I4\n", "I1\n"),
        ("4", "0", "I-4\n", "I1\n"),
        ("4", "0", "I4\nI1\n", "I1\n"),
        ("-4", "0", "I0\n", "I1\n"),
        (largest.as_str(), "0", "I4\n", "I1\n"),
        ("4", largest.as_str(), "I4\n", "I1\n"),
        (
            "4",
            "0",
            "I9223372036854775807\nI9223372036854775807\n",
            "I0\nI0\n",
        ),
        ("4", "0", "I2\n", "I9223372036854775807\n"),
        ("4", "0", "I99999999999999999999999\n", "I0\n"),
    ] {
        let error = refused(&files(&tensor("0", numel, offset, size, stride)));
        assert!(error.contains("in memory"), "{error}");
    }
    assert!(
        refused(&files(&tensor("1", "4", "0", "I4\n", "I1\n"))).contains("storage 1 is missing")
    );
    let dots = tensor("../../etc/passwd", "4", "0", "I4\n", "I1\n");
    assert!(refused(&files(&dots)).contains("is missing"));
}

#[test]
fn archives_that_lie() {
    let zeros = vec![0; 4 << 20];
    // What is packed well is read; what says it were packed better than can be is not.
    let packed = archive(&[("a/data.pkl", &zeros)], CompressionMethod::Deflated);
    assert!(packed.len() < 16384);
    assert!(refused(&packed).contains("refuses the pickle opcode"));
    let mut bomb = packed.clone();
    let directory = bomb.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bomb[directory + 24..directory + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    assert!(refused(&bomb).contains("cannot have 2147483647 bytes"));
    bomb[directory + 24..directory + 28].copy_from_slice(&((4 << 20) - 1u32).to_le_bytes());
    assert!(refused(&bomb).contains("damaged"));

    // Two files of one name, as no two readers would agree on.
    let files = [("a/data.pkl", &b"N."[..]), ("a/data.pkx", b"I1\n.")];
    let mut twice = archive(&files, CompressionMethod::Stored);
    for i in 0..twice.len() - 4 {
        if twice[i..].starts_with(b".pkx") {
            twice[i + 3] = b'l';
        }
    }
    assert!(refused(&twice).contains("one name"));

    // Two entries on the same bytes.
    let mut over = archive(&files, CompressionMethod::Stored);
    let second = over.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    over[second + 42..second + 46].copy_from_slice(&0u32.to_le_bytes());
    assert!(refused(&over).contains("lie over each other"));

    // Objects of other classes than the program's are refused in TorchScript archives too, and its own elsewhere.
    let class = b"\x80\x02c__torch__\nNet\n)\x81}b.";
    let script = [("a/data.pkl", &class[..]), ("a/constants.pkl", b"N.")];
    let tensors = load_bytes(&archive(&script, CompressionMethod::Stored)).unwrap();
    assert!(tensors.named_tensors().unwrap().is_empty());
    let plain = [("a/data.pkl", &class[..])];
    assert!(refused(&archive(&plain, CompressionMethod::Stored)).contains("__torch__.Net"));
    let other = b"\x80\x02cos\nsystem\n)\x81}b.";
    let script = [("a/data.pkl", &other[..]), ("a/constants.pkl", b"N.")];
    assert!(refused(&archive(&script, CompressionMethod::Stored)).contains("os.system"));
    // An object that is its own attribute.
    let cycle = b"\x80\x02c__torch__\nNet\n)\x81q\x00}X\x01\x00\x00\x00ah\x00sb.";
    let script = [("a/data.pkl", &cycle[..]), ("a/constants.pkl", b"N.")];
    assert!(refused(&archive(&script, CompressionMethod::Stored)).contains("deep"));
    let order = [("a/data.pkl", &b"N."[..]), ("a/byteorder", b"middle")];
    assert!(
        refused(&archive(&order, CompressionMethod::Stored)).contains("neither little nor big")
    );
    let other = [("a.npy", &b"\x93NUMPY"[..]), ("b.txt", b"")];
    assert!(refused(&archive(&other, CompressionMethod::Stored)).contains("a.npy"));
}

#[test]
fn other_formats_and_cut_files() {
    let mut tar = vec![0u8; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    assert!(refused(&tar).contains("tar archive"));
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"\x80\x04N.").contains("none that torch.save wrote"));
    assert!(refused(b"weights").contains("no file of PyTorch"));
    let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    assert!(refused(&huge).contains("longer than it can be"));
    let nested = [
        &8192u64.to_le_bytes()[..],
        "{\"a\":".repeat(2000).as_bytes(),
    ]
    .concat();
    assert!(refused(&nested).contains("safetensors"));
    let npy = |shape: &str| {
        let dict = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}");
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((dict.len() as u16).to_le_bytes());
        out.extend(dict.as_bytes());
        out
    };
    assert!(refused(&npy("(1000000000000,)")).contains("cut off"));
    assert!(refused(&npy("(4294967296, 4294967296)")).contains("too large"));

    let dir = scratch("cut");
    for name in [
        "zip.pt",
        "legacy.pt",
        "arrays.npz",
        "fortran.npy",
        "written/ours.safetensors",
    ] {
        let whole = std::fs::read(data(name)).unwrap();
        let path = dir.join("cut");
        for n in (0..whole.len()).step_by(whole.len() / 50) {
            assert!(load_bytes(&whole[..n]).is_err(), "{name} cut to {n}");
            std::fs::write(&path, &whole[..n]).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.contains("cut"), "{error}");
        }
    }
    assert!(
        load(&dir)
            .unwrap_err()
            .to_string()
            .contains("no regular file")
    );
    assert!(load(dir.join("none.pt")).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn damage_of_tensors_is_noticed_where_it_is_asked_for() {
    let folder = scratch("damaged");
    let path = folder.join("a.pt");
    let tensor =
        torsh_tensor::Tensor::ones([64], torsh_tensor::DType::F32, torsh_tensor::Device::Cpu);
    torsh_serialize::pt::save(&tensor.unwrap().into(), &path).unwrap();
    let verify = torsh_serialize::LoadOptions::new().verify(true);
    assert!(torsh_serialize::load_with(&path, verify.clone()).is_ok());
    let mut bytes = std::fs::read(&path).unwrap();
    let one = 1f32.to_le_bytes();
    let at = bytes.chunks(4).position(|c| c == one).unwrap() * 4;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for mmap in [true, false] {
        let e = torsh_serialize::load_with(&path, verify.clone().mmap(mmap)).unwrap_err();
        assert!(e.to_string().contains("data/0 is damaged"), "{e}");
    }
    assert!(load(&path).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}
