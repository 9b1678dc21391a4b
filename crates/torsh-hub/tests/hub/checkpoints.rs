//! Checkpoints of every kind.

use std::path::PathBuf;

use torsh_hub::{
    LoadStateDict, UrlOptions, load_readable_state_dict, load_state_dict, load_state_dict_with,
};
use torsh_nn::StateDict;
use torsh_serialize::{Value, save};
use torsh_tensor::{DType, tensor};

use crate::server::{Server, file};
use crate::{Scratch, hub, kind};

fn state() -> StateDict {
    StateDict::from([
        ("fc.weight", tensor![[1.0, 2.0], [3.0, 4.0]]),
        ("fc.bias", tensor![0.5, -0.5]),
    ])
}

fn same(loaded: &StateDict) {
    assert_eq!(loaded.len(), 2);
    assert_eq!(loaded["fc.weight"], state()["fc.weight"]);
    assert_eq!(loaded["fc.bias"], state()["fc.bias"]);
}

#[test]
fn files_of_each_format_and_wrapping() {
    let scratch = Scratch::new("formats");
    for name in ["a.safetensors", "a.pth", "a.npz"] {
        state().save(scratch.path(name)).unwrap();
        same(&load_state_dict(scratch.path(name)).unwrap());
    }
    let value = Value::from(&state());
    let wrap = |keys: &[&str]| {
        keys.iter().rev().fold(value.clone(), |inner, key| {
            Value::from([(*key, inner), ("epoch", Value::from(3))])
        })
    };
    for keys in [
        &["state_dict"][..],
        &["model"],
        &["model", "state_dict"],
        &["net"],
    ] {
        save(&wrap(keys), scratch.path("wrapped.pt")).unwrap();
        same(&load_state_dict(scratch.path("wrapped.pt")).unwrap());
    }
    save(&wrap(&["ema", "weights"]), scratch.path("wrapped.pt")).unwrap();
    let error = load_state_dict(scratch.path("wrapped.pt"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("wrapped.pt") && error.contains("key(") && error.contains("epoch"),
        "{error}"
    );
    same(
        &load_state_dict_with(
            scratch.path("wrapped.pt"),
            LoadStateDict::new().key("ema.weights"),
        )
        .unwrap(),
    );
    assert!(
        load_state_dict_with(
            scratch.path("wrapped.pt"),
            LoadStateDict::new().key("ema.none")
        )
        .is_err()
    );

    let prefixed: StateDict = state()
        .into_iter()
        .map(|(name, t)| (format!("module.{name}"), t))
        .collect();
    prefixed.save(scratch.path("parallel.pth")).unwrap();
    assert!(
        load_state_dict(scratch.path("parallel.pth"))
            .unwrap()
            .contains_key("module.fc.bias")
    );
    same(
        &load_state_dict_with(
            scratch.path("parallel.pth"),
            LoadStateDict::new().strip_prefix("module."),
        )
        .unwrap(),
    );
}

#[test]
fn lists_of_shards_that_are_wrong() {
    let scratch = Scratch::new("lists");
    StateDict::from([("a", tensor![1.0])])
        .save(scratch.path("one.safetensors"))
        .unwrap();
    StateDict::from([("a", tensor![1.0]), ("b", tensor![2.0])])
        .save(scratch.path("two.safetensors"))
        .unwrap();
    let list = scratch.path("model.safetensors.index.json");
    for (text, said) in [
        ("", "no list of shards"),
        ("{", "no list of shards"),
        ("[]", "no list of shards"),
        ("{\"weight_map\": {}}", "empty"),
        ("{\"weight_map\": {\"a\": 1}}", "no list of shards"),
        (
            "{\"weight_map\": {\"a\": \"../one.safetensors\"}}",
            "no file of its folder",
        ),
        (
            "{\"weight_map\": {\"a\": \"/etc/passwd\"}}",
            "no file of its folder",
        ),
        (
            "{\"weight_map\": {\"a\": \"none.safetensors\"}}",
            "none.safetensors",
        ),
        ("{\"weight_map\": {\"c\": \"one.safetensors\"}}", "lacks it"),
        (
            "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}",
            "in two shards",
        ),
        (
            "{\"weight_map\": {\"a\": \"model.safetensors.index.json\"}}",
            "list itself",
        ),
    ] {
        std::fs::write(&list, text).unwrap();
        let error = load_state_dict(&list).unwrap_err().to_string();
        assert!(
            error.contains(said) && error.contains("index.json"),
            "{text}: {error}"
        );
    }
    std::fs::write(
        &list,
        "{\"weight_map\": {\"a\": \"two.safetensors\", \"b\": \"two.safetensors\"}}",
    )
    .unwrap();
    assert_eq!(load_state_dict(&list).unwrap().len(), 2);
    // A folder takes its list.
    assert_eq!(load_state_dict(&scratch.0).unwrap().len(), 2);
    std::fs::remove_file(&list).unwrap();
    let error = load_state_dict(&scratch.0).unwrap_err();
    assert_eq!(kind(&error), Some(std::io::ErrorKind::NotFound), "{error}");
}

#[test]
fn a_checkpoint_of_an_address() {
    let scratch = Scratch::new("address");
    state().save(scratch.path("made.pth")).unwrap();
    let bytes = std::fs::read(scratch.path("made.pth")).unwrap();
    let server = Server::new(move |asked, _| file(asked, &bytes, "v1"));
    let hub = hub(&scratch);
    for _ in 0..2 {
        same(
            &hub.load_state_dict_from_url(&server.url("/a/net.pth"), UrlOptions::new())
                .unwrap(),
        );
    }
    assert_eq!(server.asked().len(), 1);
    same(
        &hub.load_state_dict(&server.url("/a/net.pth"), LoadStateDict::new())
            .unwrap(),
    );
}

#[test]
fn a_torchscript_archive() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/script.pt");
    let loaded = load_state_dict(path).unwrap();
    let keys: Vec<&str> = loaded.keys().collect();
    assert_eq!(
        keys,
        [
            "scale",
            "fc.weight",
            "fc.bias",
            "norm.weight",
            "norm.bias",
            "norm.running_mean",
            "norm.running_var",
            "norm.num_batches_tracked"
        ]
    );
    assert_eq!(
        loaded["fc.weight"],
        tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    );
    assert_eq!(loaded["scale"], tensor![2.5]);
    assert_eq!(loaded["norm.num_batches_tracked"].dtype(), DType::I64);
}

/// A safetensors file with `name` in float32 and, where there is one, a tensor of float8.
fn with_float8(name: &str, float8: Option<&str>) -> Vec<u8> {
    let mut header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#);
    if let Some(name) = float8 {
        header += &format!(r#","{name}":{{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]}}"#);
    }
    header.push('}');
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.bytes());
    out.extend(0.5f32.to_le_bytes());
    out.extend(vec![0x38; 2 * usize::from(float8.is_some())]);
    out
}

#[test]
fn entries_that_cannot_be_read_are_left_out_where_that_is_asked_for() {
    let scratch = Scratch::new("foreign");
    let options = LoadStateDict::new;
    std::fs::write(
        scratch.path("model-1.safetensors"),
        with_float8("a", Some("q")),
    )
    .unwrap();
    std::fs::write(scratch.path("model-2.safetensors"), with_float8("b", None)).unwrap();
    let index = r#"{"weight_map": {"a": "model-1.safetensors", "q": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    std::fs::write(scratch.path("model.safetensors.index.json"), index).unwrap();
    let error = load_state_dict(&scratch.0).unwrap_err().to_string();
    assert!(
        error.contains("q") && error.contains("float8_e4m3fn [2]"),
        "{error}"
    );
    let (state, left_out) = load_readable_state_dict(&scratch.0, options()).unwrap();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(state["a"], tensor![0.5]);
    assert_eq!((left_out.len(), left_out[0].name.as_str()), (1, "q"));
    // A tensor that no file has is still an error.
    let index = index.replace(r#""b":"#, r#""c": "model-2.safetensors", "b":"#);
    std::fs::write(scratch.path("model.safetensors.index.json"), index).unwrap();
    let error = load_readable_state_dict(&scratch.0, options()).unwrap_err();
    assert!(error.to_string().contains("lacks it"), "{error}");

    // PyTorch's file with objects beside and among the tensors.
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../torsh-serialize/tests/data");
    for name in ["foreign.pt", "foreign_legacy.pt"] {
        // The state dict itself is whole.
        let state = load_state_dict(data.join(name)).unwrap();
        assert_eq!(state["u16"].to_vec::<i64>().unwrap(), [0, 1, 65535]);
        assert_eq!(state["scale"], tensor![0.5, 1.5]);
        let error = load_state_dict_with(data.join(name), options().key("args")).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        let (state, left_out) =
            load_readable_state_dict(data.join(name), options().key("args")).unwrap();
        assert_eq!(state["start"], tensor![3.0]);
        assert!(left_out.iter().any(|l| l.what == "argparse.Namespace"));
    }
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n";
    for name in ["model.safetensors", "model.safetensors.index.json"] {
        let folder = scratch.path("pointer");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), pointer).unwrap();
        let error = load_state_dict(&folder).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("git-lfs"), "{error}");
    }
}
