//! Checkpoints of every kind.

use std::path::PathBuf;

use torsh_hub::{LoadStateDict, UrlOptions, load_state_dict, load_state_dict_with};
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
