//! Changes files at random: whatever comes of it is read or is an error, within bounded memory.
//!
//! The same changes each time; `TORSH_FUZZ_SECONDS` goes on for longer with others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use torsh_serialize::{Value, load, load_bytes, npy, npz, pt};
use torsh_tensor::{Result, Tensor};

/// Rounds per file.
const ROUNDS: usize = 400;

/// More than reading a file of a few kilobytes may take.
const MEMORY: usize = 512 << 20;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// As its content says.
    Any,
    Npy,
    Npz,
    Pickle,
    Records,
}

impl Kind {
    fn of(name: &str) -> Kind {
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("npy") => Kind::Npy,
            Some("npz") => Kind::Npz,
            Some("pkl") if name.starts_with("records") => Kind::Records,
            Some("pkl") => Kind::Pickle,
            _ => Kind::Any,
        }
    }

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
            (Kind::Pickle | Kind::Records, None) => unreachable!("a pickle by itself is a file"),
        }
    }
}

fn corpus() -> Vec<(Kind, Vec<u8>)> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    [
        "zip.pt",
        "legacy.pt",
        "protocol4.pt",
        "big.pt",
        "script.pt",
        "arrays.npz",
        "packed.npz",
        "fortran.npy",
        "structured.npy",
        "objects.npy",
        "batch0.pkl",
        "batch2.pkl",
        "batch5.pkl",
        "records.pkl",
        "arrays.safetensors",
        "written/ours.pt",
        "written/ours.npz",
        "written/ours.npy",
        "written/ours.safetensors",
    ]
    .iter()
    .map(|name| (Kind::of(name), std::fs::read(data.join(name)).unwrap()))
    .collect()
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    // Numbers that lengths and offsets are wrong with.
    const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let n = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + n].copy_from_slice(&edge[..n]);
            }
            3 => bytes.truncate(at),
            4 => {
                let n = random.below(64).min(bytes.len() - at);
                bytes.drain(at..at + n);
            }
            5 => {
                let n = random.below(64).min(bytes.len() - at);
                let part = bytes[at..at + n].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            6 => {
                let from = random.below(other.len());
                let n = random.below(256).min(other.len() - from);
                bytes.splice(at..at, other[from..from + n].iter().copied());
            }
            // Digits: sizes in texts.
            _ => {
                if let Some(i) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + i] = b'0' + random.below(10) as u8;
                }
            }
        }
    }
}

/// Reads what can be read of a value.
fn walk(value: &Value) {
    let read = |t: &Tensor| {
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

/// The most memory this process ever had, where the system tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<usize>()
        .ok()
        .map(|kib| kib << 10)
}

#[test]
fn changed_files_are_read_or_refused() {
    let corpus = corpus();
    let seconds = std::env::var("TORSH_FUZZ_SECONDS").map_or(0, |s| s.parse().unwrap());
    let (start, longer) = (Instant::now(), Duration::from_secs(seconds));
    let path = std::env::temp_dir().join(format!("torsh-fuzz-{}", std::process::id()));
    let mut random = Random(0x5eed);
    let (mut read, mut refused) = (0u64, 0u64);
    let mut round = 0;
    while round < ROUNDS || start.elapsed() < longer {
        for (kind, whole) in &corpus {
            let mut bytes = whole.clone();
            let other = &corpus[random.below(corpus.len())].1;
            change(&mut bytes, other, &mut random);
            // Now and then by content alone, and as a file, which is mapped.
            let pickle = matches!(kind, Kind::Pickle | Kind::Records);
            let kind = match random.below(4) {
                0 if !pickle => Kind::Any,
                _ => *kind,
            };
            let path = (pickle || round % 8 == 0).then(|| {
                // Never over a file that is mapped.
                let _ = std::fs::remove_file(&path);
                std::fs::write(&path, &bytes).unwrap();
                path.as_path()
            });
            let value = kind.read(&bytes, path);
            match value {
                Ok(value) => {
                    read += 1;
                    walk(&value);
                }
                Err(e) => {
                    refused += 1;
                    let long = e.info().is_some_and(|i| i.message.len() > 4096);
                    assert!(!long, "{e}");
                }
            }
        }
        round += 1;
    }
    std::fs::remove_file(&path).unwrap();
    println!("{read} read, {refused} refused");
    assert!(read > 0 && refused > 0);
    if let Some(peak) = peak() {
        assert!(peak < MEMORY, "{peak} bytes");
    }
}
