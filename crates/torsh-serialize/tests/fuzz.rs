//! Changes files at random: whatever comes of it is read or is an error, within bounded memory.

use std::fs;
use std::path::{Path, PathBuf};

use torsh_fuzz::{Fuzz, Target};
use torsh_serialize::{Value, load, load_bytes, load_readable, npy, npz, pt, sparse};
use torsh_tensor::{Result, Tensor, sparse::values};

/// How a file is read.
#[derive(Clone, Copy)]
enum Kind {
    /// As its content says.
    Any,
    Npy,
    Npz,
    Pickle,
    Records,
    /// With a list of what is left out.
    Readable,
    /// A sparse matrix of SciPy.
    Matrix,
    /// One of Matrix Market.
    Market,
}

impl Kind {
    /// Reads bytes, and where `path` has them too, the file.
    fn read(self, bytes: &[u8], path: Option<&Path>) -> Result<Value> {
        match (self, path) {
            (Kind::Any, None) => load_bytes(bytes),
            (Kind::Any, Some(path)) => load(path),
            (Kind::Npy, None) => npy::load_bytes(bytes).map(Value::from),
            (Kind::Npy, Some(path)) => npy::load(path).map(Value::from),
            (Kind::Npz, None) => npz::load_bytes(bytes).map(Value::from),
            (Kind::Npz, Some(path)) => npz::load(path).map(Value::from),
            (Kind::Pickle, Some(path)) => pt::load_pickle(path),
            (Kind::Records, Some(path)) => pt::load_records(path, &["pathlib"]),
            (Kind::Readable, Some(path)) => load_readable(path).map(|all| Value::from(all.tensors)),
            (Kind::Matrix, None) => sparse::load_npz_bytes(bytes).map(Value::from),
            (Kind::Matrix, Some(path)) => sparse::load_npz(path).map(Value::from),
            (Kind::Market, None) => sparse::read_mtx_bytes(bytes).map(Value::from),
            (Kind::Market, Some(path)) => sparse::read_mtx(path).map(Value::from),
            (Kind::Pickle | Kind::Records | Kind::Readable, None) => {
                unreachable!("a pickle by itself is a file")
            }
        }
    }
}

/// Reads what can be read of a value.
fn walk(value: &Value) {
    let read = |t: &Tensor| {
        if let Some(pattern) = t.pattern() {
            // Its indices are trusted, so they must be right.
            let own = pattern.indices().to_vec::<i64>().unwrap();
            assert!(own.iter().all(|&i| i >= 0));
            let stored = values(&t.detach()).unwrap();
            if stored.numel() < 1 << 20 {
                stored.to_bytes().unwrap();
            }
            return;
        }
        // A tensor may repeat an element more often than there is memory.
        if t.numel() < 1 << 20 {
            t.to_bytes().unwrap();
        }
    };
    match value {
        Value::Tensor(t) | Value::Parameter(t) => read(t),
        Value::List(v) | Value::Tuple(v) | Value::Set(v) => v.iter().for_each(walk),
        Value::Dict(d) => d.values().for_each(walk),
        _ => {}
    }
}

/// Committed files.
fn files(names: &[&str]) -> Vec<Vec<u8>> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let read = |name: &&str| fs::read(data.join(name)).unwrap();
    names.iter().map(read).collect()
}

fn target(name: &'static str, kind: Kind, names: &[&str]) -> Target {
    let pid = std::process::id();
    let path = std::env::temp_dir().join(format!("torsh-serialize-fuzz-{pid}-{name}"));
    Target::new(name, files(names), move |bytes, random| {
        // Now and then by content alone, and as a file, which is mapped.
        let file = matches!(kind, Kind::Pickle | Kind::Records | Kind::Readable);
        let kind = match random.below(4) {
            0 if !file && !matches!(kind, Kind::Market | Kind::Matrix) => Kind::Any,
            _ => kind,
        };
        let path = (file || random.below(8) == 0).then_some(path.as_path());
        if let Some(path) = path {
            fs::write(path, bytes).unwrap();
        }
        let value = kind.read(bytes, path);
        if let Some(path) = path {
            // Never over a file that is mapped.
            fs::remove_file(path).unwrap();
        }
        value.map(|value| walk(&value))
    })
}

#[test]
fn changed_files_are_read_or_refused() {
    let targets = vec![
        target(
            "pt-zip",
            Kind::Any,
            &["zip.pt", "protocol4.pt", "big.pt", "written/ours.pt"],
        ),
        target("pt-sparse", Kind::Any, &["sparse.pt", "sparse_old.pt"]),
        target(
            "sparse-npz",
            Kind::Matrix,
            &["csr.npz", "csc.npz", "bsr.npz", "coo.npz", "unsorted.npz"],
        ),
        target(
            "mtx",
            Kind::Market,
            &["scipy.mtx", "small.mtx", "array.mtx"],
        )
        .words(&[
            "%%MatrixMarket",
            "coordinate",
            "array",
            "pattern",
            "complex",
            "integer",
            "symmetric",
            "skew-symmetric",
            "hermitian",
            "99999999999",
            "-1",
        ]),
        target("pt-script", Kind::Any, &["script.pt"]),
        target("pt-legacy", Kind::Any, &["legacy.pt"]),
        target(
            "pickle",
            Kind::Pickle,
            &["batch0.pkl", "batch2.pkl", "batch5.pkl"],
        ),
        target("records", Kind::Records, &["records.pkl"]),
        // Arrays of structures and of Python objects are refused.
        target("npy", Kind::Npy, &["fortran.npy", "written/ours.npy"])
            .others(files(&["structured.npy", "objects.npy"])),
        target(
            "npz",
            Kind::Npz,
            &["arrays.npz", "packed.npz", "written/ours.npz"],
        ),
        target(
            "safetensors",
            Kind::Any,
            &["arrays.safetensors", "written/ours.safetensors"],
        ),
        target(
            "readable",
            Kind::Readable,
            &[
                "foreign.pt",
                "foreign_legacy.pt",
                "foreign.npz",
                "foreign.safetensors",
            ],
        ),
    ];
    Fuzz::new(env!("CARGO_PKG_NAME"))
        .rounds(400)
        .message(4096)
        .run(targets);
}
