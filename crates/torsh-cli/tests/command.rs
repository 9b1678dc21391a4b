//! Runs the command on small files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;
use torsh_nn::{ModuleExt, StateDict};
use torsh_serialize::{Value, safetensors, save};
use torsh_tensor::{DType, tensor};
use torsh_vision::models::{SqueezeNet, get_weight};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("torsh-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs the command with caches of this folder.
    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_torsh"))
            .args(args)
            .current_dir(&self.0)
            .env_clear()
            // Programs of Windows find the system's libraries by it.
            .envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)))
            .env("HOME", &self.0)
            .env("TORCH_HOME", self.path("torch"))
            .env("HF_HOME", self.path("hf"))
            .env(
                "HF_ENDPOINT",
                format!("file://{}", self.path("mirror").display()),
            )
            .output()
            .unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {error}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Json {
        let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.text(&all)).unwrap()
    }

    /// What it prints to standard error, where it fails.
    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(!out.status.success(), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn state() -> StateDict {
    StateDict::from([
        ("fc.weight", tensor![[1.0, 2.0], [3.0, 4.0]]),
        ("fc.bias", tensor![0.5, -0.5]),
    ])
}

fn checkpoint(path: &Path) {
    let value = Value::from([
        ("model", Value::from(&state())),
        ("epoch", Value::from(3)),
        ("name", Value::from("net")),
    ]);
    save(&value, path).unwrap();
}

#[test]
fn help_and_wrong_arguments() {
    let scratch = Scratch::new("help");
    let help = scratch.text(&["--help"]);
    for word in [
        "hub",
        "inspect",
        "convert",
        "classify",
        "--json",
        "HF_HUB_OFFLINE",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    for command in [
        &["hub", "fetch", "--help"][..],
        &["convert", "--help"],
        &["classify", "--help"],
    ] {
        assert!(scratch.text(command).contains("Example"), "{command:?}");
    }
    assert!(scratch.text(&["--version"]).starts_with("torsh 0."));
    let info = scratch.text(&["--version", "--verbose"]);
    for label in [
        "torsh",
        "features",
        "system",
        "target",
        "processor",
        "vectors",
        "cores",
        "threads",
        "device",
        "allocator",
        "mpi",
    ] {
        let value = info.lines().find_map(|line| line.strip_prefix(label));
        assert!(
            value.is_some_and(|v| v.trim().len() > 1 || label == "threads"),
            "{label}: {info}"
        );
    }
    let info: serde_json::Value =
        serde_json::from_str(&scratch.text(&["--version", "--verbose", "--json"])).unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["devices"][0]["device"], "cpu");
    assert!(
        info["features"]
            .as_array()
            .unwrap()
            .contains(&"vision".into())
    );
    let out = scratch.run(&["--verbose"]);
    assert_eq!(out.status.code(), Some(2));
    let out = scratch.run(&["inspekt"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("inspekt"));
    let error = scratch.fails(&["inspect", "none.pth"]);
    assert!(
        error.starts_with("error: ") && error.contains("none.pth") && !error.contains(".rs:"),
        "{error}"
    );
    let out = scratch.run(&["inspect", "none.pth", "--json"]);
    let error: Json = serde_json::from_slice(&out.stdout).unwrap();
    assert!(error["error"].as_str().unwrap().contains("none.pth"));
}

/// Entries that cannot be read are shown with the others, and nothing of the file is run.
#[test]
fn inspect_shows_the_whole() {
    let scratch = Scratch::new("foreign");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../torsh-serialize/tests/data");
    for (name, parts) in [
        (
            "foreign.safetensors",
            &[
                "safetensors",
                "uint16 (read as int32)",
                "uint32 (read as int64)",
                "float8_e4m3fn [1, 3]",
                "9223372036854775808",
                "by: torch",
                "4 tensors",
            ][..],
        ),
        (
            "foreign.npz",
            &["uint64 (read as int64)", "notes.txt", "texts", "structured"],
        ),
        (
            "foreign.pt",
            &[
                "argparse.Namespace",
                "args.start",
                "__main__.Net",
                "epoch",
                "state_dict.u16",
            ],
        ),
        (
            "foreign_legacy.pt",
            &["__main__.Color", "net._modules.fc._parameters.weight"],
        ),
    ] {
        std::fs::copy(data.join(name), scratch.path(name)).unwrap();
        let text = scratch.text(&["inspect", "--all", name]);
        for part in parts.iter().chain(&["scale", "not read:"]) {
            assert!(text.contains(part), "{name}: {part}: {text}");
        }
    }
    let json = scratch.json(&["inspect", "foreign.safetensors"]);
    let tensors = json["tensors"].as_array().unwrap();
    let u16 = tensors.iter().find(|t| t["name"] == "u16").unwrap();
    assert_eq!(
        (&u16["dtype"], &u16["stored_as"]),
        (&"int32".into(), &"uint16".into())
    );
    let left_out = json["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 5);
    assert!(
        left_out
            .iter()
            .any(|l| l["name"] == "f8" && l["what"] == "float8_e4m3fn [1, 3]")
    );
    let error = scratch.fails(&["convert", "foreign.safetensors", "out.safetensors"]);
    assert!(
        error.contains("\"over\" is uint64 [2]") && error.contains("--skip-unreadable"),
        "{error}"
    );
    let args = [
        "convert",
        "foreign.safetensors",
        "out.safetensors",
        "--skip-unreadable",
    ];
    let text = scratch.text(&args);
    assert!(
        text.contains("4 tensors") && text.contains("left out: f8"),
        "{text}"
    );
    let text = scratch.text(&["inspect", "out.safetensors"]);
    assert!(
        text.contains("u16") && text.contains("int32") && !text.contains("not read"),
        "{text}"
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n";
    std::fs::write(scratch.path("a.safetensors"), pointer).unwrap();
    let error = scratch.fails(&["inspect", "a.safetensors"]);
    assert!(
        error.contains("pointer of git-lfs") && error.contains("git lfs pull"),
        "{error}"
    );
}

#[test]
fn inspect_shows_what_there_is() {
    let scratch = Scratch::new("inspect");
    let metadata = [
        ("format".to_string(), "pt".to_string()),
        ("by".to_string(), "a test".to_string()),
    ]
    .into();
    safetensors::save_with(state().iter(), &metadata, scratch.path("a.safetensors")).unwrap();
    let text = scratch.text(&["inspect", "a.safetensors"]);
    for part in [
        "safetensors",
        "by: a test",
        "fc.weight  float32  [2, 2]",
        "2 tensors, 6 numbers, 24 B",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = scratch.json(&["inspect", "a.safetensors"]);
    assert_eq!(
        (&json["format"], &json["metadata"]["by"], &json["numbers"]),
        (&"safetensors".into(), &"a test".into(), &6.into())
    );
    let bias = json["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["name"] == "fc.bias")
        .unwrap();
    assert_eq!(
        (&bias["dtype"], &bias["shape"], &bias["bytes"]),
        (&"float32".into(), &serde_json::json!([2]), &8.into())
    );

    checkpoint(&scratch.path("a.pth"));
    let text = scratch.text(&["inspect", "a.pth"]);
    for part in [
        "zip archive of PyTorch",
        "model.fc.weight",
        "epoch",
        "3",
        "\"net\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = scratch.json(&["inspect", "a.pth"]);
    assert_eq!(json["values"]["epoch"], "3");
    state().save(scratch.path("a.npz")).unwrap();
    assert!(
        scratch
            .text(&["inspect", "a.npz"])
            .contains("arrays of NumPy")
    );
    std::fs::write(
        scratch.path("bad.safetensors"),
        [255, 255, 255, 255, 255, 255, 255, 15, b'{'],
    )
    .unwrap();
    let error = scratch.fails(&["inspect", "bad.safetensors"]);
    assert!(
        error.contains("bad.safetensors") && error.contains("hint:"),
        "{error}"
    );
}

#[test]
fn convert_writes_each_format() {
    let scratch = Scratch::new("convert");
    checkpoint(&scratch.path("a.pth"));
    for out in ["b.safetensors", "b.npz", "b.pt"] {
        let text = scratch.text(&["convert", "a.pth", out]);
        assert!(text.contains("2 tensors"), "{text}");
        let back = torsh_hub::load_state_dict(scratch.path(out)).unwrap();
        assert_eq!(back["fc.weight"], state()["fc.weight"], "{out}");
    }
    let json = scratch.json(&[
        "convert",
        "a.pth",
        "half.safetensors",
        "--key",
        "model",
        "--strip-prefix",
        "fc.",
        "--dtype",
        "float16",
    ]);
    assert_eq!(json["tensors"], 2);
    let half = torsh_hub::load_state_dict(scratch.path("half.safetensors")).unwrap();
    assert_eq!(
        (half["weight"].dtype(), half["bias"].dims()),
        (DType::F16, &[2][..])
    );

    assert!(
        scratch
            .fails(&["convert", "a.pth", "b.npz"])
            .contains("--force")
    );
    scratch.text(&["convert", "a.pth", "b.npz", "--force"]);
    assert!(
        scratch
            .fails(&["convert", "a.pth", "b.txt"])
            .contains(".safetensors, .pt, .pth or .npz")
    );
    assert!(
        scratch
            .fails(&["convert", "a.pth", "c.pt", "--key", "none"])
            .contains("none")
    );
    assert!(
        scratch
            .fails(&["convert", "a.pth", "c.pt", "--dtype", "int8"])
            .contains("floating-point")
    );
    assert!(
        scratch
            .fails(&["convert", "a.pth", "c.npz", "--dtype", "bfloat16"])
            .contains("bfloat16")
    );
    assert!(!scratch.path("c.npz").exists() && !scratch.path("c.pt").exists());
}

#[test]
fn hub_fetches_lists_verifies_and_removes() {
    let scratch = Scratch::new("hub");
    std::fs::create_dir_all(scratch.path("mirror/org/name")).unwrap();
    std::fs::write(scratch.path("mirror/org/name/config.json"), "{}").unwrap();
    std::fs::write(scratch.path("abc-ba7816bf.txt"), "abc").unwrap();
    let url = format!("file://{}", scratch.path("abc-ba7816bf.txt").display());
    assert_eq!(scratch.text(&["hub", "list"]), "nothing is in the caches\n");

    let path = scratch.text(&["hub", "fetch", "org/name", "config.json"]);
    assert!(
        path.trim().ends_with("mirror/org/name/config.json"),
        "{path}"
    );
    let json = scratch.json(&["hub", "fetch", &url]);
    let path = scratch.path("torch/hub/checkpoints/abc-ba7816bf.txt");
    assert_eq!(json["paths"][0], path.display().to_string());
    scratch.text(&[
        "hub",
        "fetch",
        &url,
        "--to",
        "copy.txt",
        "--sha256",
        "ba7816bf8f01cfea",
    ]);
    assert_eq!(
        std::fs::read_to_string(scratch.path("copy.txt")).unwrap(),
        "abc"
    );
    let error = scratch.fails(&[
        "hub", "fetch", &url, "--to", "no.txt", "--sha256", "00000000",
    ]);
    assert!(
        error.contains("SHA-256") && !scratch.path("no.txt").exists(),
        "{error}"
    );
    assert!(
        scratch
            .fails(&["hub", "fetch", "org/name", "--to", "x"])
            .contains("--to is for addresses")
    );
    assert!(
        scratch
            .fails(&["hub", "fetch", "org/name", "none.txt"])
            .contains("looked for")
    );

    let text = scratch.text(&["hub", "list"]);
    assert!(
        text.contains("abc-ba7816bf.txt") && text.contains("1 files, 3 B"),
        "{text}"
    );
    let json = scratch.json(&["hub", "list"]);
    assert_eq!(
        (&json["files"][0]["cache"], &json["files"][0]["size"]),
        (&"torch".into(), &3.into())
    );
    assert!(
        scratch
            .text(&["hub", "verify"])
            .contains("right: (torch) abc-ba7816bf.txt")
    );
    std::fs::write(&path, "abd").unwrap();
    let out = scratch.run(&["hub", "verify", "abc-ba7816bf.txt", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let json: Json = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&json["wrong"], &json["files"][0]["result"]),
        (&1.into(), &"wrong".into())
    );
    assert!(
        scratch
            .fails(&["hub", "verify", "none"])
            .contains("none of the caches")
    );
    assert!(
        scratch
            .text(&["hub", "rm", "abc-ba7816bf.txt"])
            .contains("3 B")
    );
    assert!(
        scratch
            .fails(&["hub", "rm", "abc-ba7816bf.txt"])
            .contains("none of the caches")
    );
}

#[test]
fn classify_guesses() {
    let scratch = Scratch::new("classify");
    let model = SqueezeNet::builder().num_classes(3).build().unwrap();
    model.save(scratch.path("net.safetensors")).unwrap();
    std::fs::write(scratch.path("names.txt"), "cat\ndog\nbird\n").unwrap();
    let image = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/images/astronaut.png");
    let image = image.display().to_string();
    let args = [
        "classify",
        "--model",
        "squeezenet1_1",
        "--weights",
        "net.safetensors",
        "--num-classes",
        "3",
        "--categories",
        "names.txt",
        &image,
    ];
    let text = scratch.text(&args);
    assert!(
        text.contains('%')
            && ["cat", "dog", "bird"]
                .iter()
                .all(|name| text.contains(name)),
        "{text}"
    );
    let json = scratch.json(&args);
    let guesses = json["images"][0]["guesses"].as_array().unwrap();
    let sum: f64 = guesses
        .iter()
        .map(|g| g["probability"].as_f64().unwrap())
        .sum();
    assert!(guesses.len() == 3 && (sum - 1.0).abs() < 1e-5, "{json}");
    let error = scratch.fails(&["classify", "--model", "squeezenet9", &image]);
    assert!(error.contains("squeezenet1_1"), "{error}");
    let error = scratch.fails(&[
        "classify",
        "--model",
        "squeezenet1_1",
        "--weights",
        "net.safetensors",
        &image,
    ]);
    assert!(error.contains("squeezenet1_1"), "{error}");
    assert!(
        scratch
            .fails(&["classify", "--model", "raft_small", &image])
            .contains("no model that classifies")
    );
    assert!(
        scratch
            .fails(&[
                "classify",
                "--model",
                "squeezenet1_1",
                "none.png",
                "--weights",
                "net.safetensors",
                "--num-classes",
                "3"
            ])
            .contains("none.png")
    );
    // Published weights are known by name, and a file by its name: it brings categories and preparation.
    let error = scratch.fails(&[
        "classify",
        "--model",
        "squeezenet1_1",
        "--weights",
        "IMAGENET1K_V9",
        &image,
    ]);
    assert!(error.contains("DEFAULT, IMAGENET1K_V1"), "{error}");
    let error = scratch.fails(&[
        "classify",
        "--model",
        "squeezenet1_1",
        "--weights",
        "ResNet18_Weights.DEFAULT",
        &image,
    ]);
    assert!(error.contains("weights of resnet18"), "{error}");
    let model = SqueezeNet::builder().build().unwrap();
    model.save(scratch.path("own.safetensors")).unwrap();
    let convert = scratch.run(&["convert", "own.safetensors", "squeezenet1_1-b8a52dc0.pth"]);
    assert!(convert.status.success());
    let json = scratch.json(&[
        "classify",
        "--model",
        "squeezenet1_1",
        "--weights",
        "squeezenet1_1-b8a52dc0.pth",
        &image,
    ]);
    let guess = &json["images"][0]["guesses"][0];
    let names = get_weight("SqueezeNet1_1_Weights.DEFAULT")
        .unwrap()
        .categories();
    let class = guess["class"].as_u64().unwrap() as usize;
    assert_eq!(guess["name"], names[class], "{json}");
}
