//! Changes checkpoints at random: what the hub's loader makes of them is read, or an error that names the file, within
//! bounded memory.

use std::fs;
use std::path::{Path, PathBuf};

use torsh_fuzz::{Fuzz, JSON, Target};
use torsh_hub::load_state_dict;
use torsh_nn::StateDict;
use torsh_serialize::{Value, save};
use torsh_tensor::tensor;

/// Checkpoints of a format, which the extension names, in files of a folder.
fn target(
    name: &'static str,
    extension: &'static str,
    folder: &Path,
    checkpoints: Vec<Vec<u8>>,
) -> Target {
    let path = folder.join(format!("changed.{extension}"));
    Target::new(name, checkpoints, move |bytes, _| {
        fs::write(&path, bytes).unwrap();
        let state = load_state_dict(&path);
        // Never over a file that is mapped.
        fs::remove_file(&path).unwrap();
        match state {
            Ok(state) => {
                for tensor in state.values().filter(|t| t.numel() < 1 << 20) {
                    tensor.to_bytes().unwrap();
                }
                Ok(())
            }
            Err(e) => {
                let text = e.to_string();
                let named = text.contains("changed.") || text.contains("out of memory");
                assert!(named, "{text}");
                Err(text)
            }
        }
    })
}

#[test]
fn changed_checkpoints_are_read_or_refused() {
    let dir = std::env::temp_dir().join(format!("torsh-hub-checkpoints-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
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
    let made = |name: &str| fs::read(dir.join(name)).unwrap();
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let committed = |name: &str| fs::read(data.join(name)).unwrap();
    let targets = vec![
        target("pt-zip", "pth", &dir, vec![made("made.pth")]),
        target(
            "pt-legacy",
            "pth",
            &dir,
            vec![committed("../torsh-serialize/tests/data/legacy.pt")],
        ),
        target(
            "pt-script",
            "pt",
            &dir,
            vec![committed("tests/data/script.pt")],
        ),
        target(
            "npz",
            "npz",
            &dir,
            vec![
                made("made.npz"),
                committed("../torsh-serialize/tests/data/packed.npz"),
            ],
        ),
        target(
            "safetensors",
            "safetensors",
            &dir,
            vec![made("made.safetensors")],
        ),
        target("index", "json", &dir, vec![list.to_string().into_bytes()]).words(JSON),
    ];
    Fuzz::new(env!("CARGO_PKG_NAME")).rounds(300).run(targets);
    fs::remove_dir_all(&dir).unwrap();
}
