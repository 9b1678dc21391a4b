//! Changes checkpoints at random: what the hub's loader makes of them is read, or an error that names the file, within
//! bounded memory.
//!
//! The same changes each time; `TORSH_FUZZ_SECONDS` goes on for longer with others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use torsh_hub::load_state_dict;
use torsh_nn::StateDict;
use torsh_serialize::{Value, save};
use torsh_tensor::tensor;

/// Rounds per file.
const ROUNDS: usize = 300;

/// More than reading files of a few kilobytes may take.
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

/// Checkpoints of each format, with the extension that they need.
fn corpus(dir: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let state = StateDict::from([
        ("layers.0.weight", tensor![[1.0, 2.0], [3.0, 4.0]]),
        ("layers.0.bias", tensor![0.5, -0.5]),
        ("steps", tensor![7i64, 8]),
    ]);
    let wrapped = Value::from([
        ("state_dict", Value::from(&state)),
        ("epoch", Value::from(3)),
    ]);
    save(&wrapped, dir.join("made.pth")).unwrap();
    state.save(dir.join("made.npz")).unwrap();
    state.save(dir.join("made.safetensors")).unwrap();
    // The shards that a changed list may still name.
    state.save(dir.join("shard.safetensors")).unwrap();
    let list = serde_json::json!({
        "metadata": { "total_size": 40 },
        "weight_map": { "layers.0.weight": "shard.safetensors", "layers.0.bias": "shard.safetensors", "steps": "shard.safetensors" },
    });
    let read = |path: PathBuf| std::fs::read(path).unwrap();
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    vec![
        ("pth", read(dir.join("made.pth"))),
        (
            "pth",
            read(data.join("../torsh-serialize/tests/data/legacy.pt")),
        ),
        ("pt", read(data.join("tests/data/script.pt"))),
        ("npz", read(dir.join("made.npz"))),
        (
            "npz",
            read(data.join("../torsh-serialize/tests/data/packed.npz")),
        ),
        ("safetensors", read(dir.join("made.safetensors"))),
        ("json", list.to_string().into_bytes()),
    ]
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 1 << 60, u64::MAX];
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(7) {
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
fn changed_checkpoints_are_read_or_refused() {
    let dir = std::env::temp_dir().join(format!("torsh-hub-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let corpus = corpus(&dir);
    let seconds = std::env::var("TORSH_FUZZ_SECONDS").map_or(0, |s| s.parse().unwrap());
    let (start, longer) = (Instant::now(), Duration::from_secs(seconds));
    let mut random = Random(0x5eed);
    let (mut read, mut refused) = (0u64, 0u64);
    let mut round = 0;
    while round < ROUNDS || start.elapsed() < longer {
        for (extension, whole) in &corpus {
            let mut bytes = whole.clone();
            let other = &corpus[random.below(corpus.len())].1;
            change(&mut bytes, other, &mut random);
            let path = dir.join(format!("changed.{extension}"));
            // Never over a file that is mapped.
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, &bytes).unwrap();
            match load_state_dict(&path) {
                Ok(state) => {
                    read += 1;
                    for tensor in state.values().filter(|t| t.numel() < 1 << 20) {
                        tensor.to_bytes().unwrap();
                    }
                }
                Err(e) => {
                    refused += 1;
                    let text = e.to_string();
                    assert!(
                        text.contains("changed.") || text.contains("out of memory"),
                        "{text}"
                    );
                    assert!(text.len() < 8192, "{text}");
                }
            }
        }
        round += 1;
    }
    std::fs::remove_dir_all(&dir).unwrap();
    println!("{read} read, {refused} refused");
    assert!(read > 0 && refused > 0);
    if let Some(peak) = peak() {
        assert!(peak < MEMORY, "{peak} bytes");
    }
}
