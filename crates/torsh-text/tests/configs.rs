//! Folders that say more than needed, or less, load as those of Python's library do.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use torsh_hub::FromPretrained;
use torsh_nn::StateDict;
use torsh_tensor::{DType, Device, Tensor, tensor};
use torsh_text::models::{AutoModel, LlamaForCausalLM, ModelInputs, TextModel};

fn base() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/adapters/tests/tokens/base")
}

/// A folder of the test's own with the model of two files that a function may change.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, change: impl FnOnce(&mut Value, &mut StateDict)) -> Folder {
        let dir = std::env::temp_dir().join(format!("torsh-configs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let text = std::fs::read(base().join("config.json")).unwrap();
        let mut config = serde_json::from_slice(&text).unwrap();
        let mut state = StateDict::load(base().join("model.safetensors")).unwrap();
        change(&mut config, &mut state);
        std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
        state.save(dir.join("model.safetensors")).unwrap();
        Folder(dir)
    }

    fn source(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn logits(model: &dyn TextModel) -> Tensor {
    let inputs = ModelInputs::ids(tensor![[1, 5, 9, 2, 7]]);
    let outputs = model.forward_named(&inputs).unwrap();
    assert_eq!(outputs[0].0, "logits");
    outputs[0].1.detach()
}

fn right() -> Tensor {
    logits(&*AutoModel::from_pretrained(&base().display().to_string()).unwrap())
}

#[test]
fn fields_that_change_nothing() {
    let folder = Folder::new("fields", |config, _| {
        for (name, value) in [
            ("quantization_config", json!(null)),
            ("unsloth_fixed", json!(true)),
            ("_name_or_path", json!("meta/llama")),
            ("transformers_version", json!("4.38.0")),
            ("torch_dtype", json!("float16")),
            ("use_cache", json!(true)),
            ("rope_scaling", json!(null)),
            ("auto_map", json!({ "AutoModel": "modeling.Llama" })),
            (
                "task_specific_params",
                json!({ "text-generation": { "max_length": 5 } }),
            ),
            ("id2label", json!({ "0": "a", "1": "b" })),
            ("resid_pdrop", json!(0.1)),
            ("pretraining_tp", json!(1)),
            ("attention_bias", json!(null)),
            ("adapters", json!({})),
            ("use_flash_attn", json!(true)),
            ("model_max_length", json!(2048)),
        ] {
            config[name] = value;
        }
    });
    assert_eq!(
        logits(&*AutoModel::from_pretrained(&folder.source()).unwrap()),
        right()
    );
    for (field, value, names) in [
        (
            "quantization_config",
            json!({ "quant_method": "gptq" }),
            "gptq",
        ),
        ("hidden_sise", json!(8), "hidden_size"),
        ("logit_scale", json!(0.5), "logit_scale"),
    ] {
        let folder = Folder::new("refused", |config, _| config[field] = value);
        let error = AutoModel::from_pretrained(&folder.source()).err().unwrap();
        assert!(error.to_string().contains(names), "{error}");
    }
}

/// The fields of published `config.json` of every family, older ones too, with small sizes.
#[test]
fn published_configurations() {
    let all: serde_json::Map<String, Value> =
        serde_json::from_str(include_str!("data/published_configs.json")).unwrap();
    assert_eq!(all.len(), 22);
    for (name, config) in all {
        let model = torsh_text::models::from_config(&name, config.clone())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(model.type_name(), name);
        let mut wrong = config;
        wrong["hidden_sise"] = json!(4);
        let error = torsh_text::models::from_config(&name, wrong).err().unwrap();
        assert!(error.to_string().contains("hidden_sise = 4"), "{error}");
    }
}

#[test]
fn without_architectures_the_model_type_decides() {
    let folder = Folder::new("type", |config, _| {
        config.as_object_mut().unwrap().remove("architectures");
    });
    let model = AutoModel::from_pretrained(&folder.source()).unwrap();
    assert_eq!(
        (logits(&*model), model.type_name()),
        (right(), "LlamaForCausalLM")
    );
    let null = Folder::new("null", |config, _| config["architectures"] = json!(null));
    assert_eq!(
        logits(&*AutoModel::from_pretrained(&null.source()).unwrap()),
        right()
    );
    for (kind, names) in [(json!("mystery"), "mystery"), (json!(null), "neither")] {
        let folder = Folder::new("mystery", |config, _| {
            config["architectures"] = json!(null);
            config["model_type"] = kind;
        });
        let error = AutoModel::from_pretrained(&folder.source()).err().unwrap();
        assert!(error.to_string().contains(names), "{error}");
    }
}

#[test]
fn tensors_that_the_model_does_not_have() {
    let more = |state: &mut StateDict| {
        for name in [
            "model.layers.0.self_attn.rotary_emb.inv_freq",
            "model.position_ids",
            "extra",
        ] {
            let t = Tensor::zeros([2], DType::F32, Device::Cpu).unwrap();
            state.insert(name, t);
        }
    };
    let folder = Folder::new("extra", |_, state| more(state));
    assert_eq!(
        logits(&*AutoModel::from_pretrained(&folder.source()).unwrap()),
        right()
    );
    assert_eq!(
        logits(&LlamaForCausalLM::from_pretrained(&folder.source()).unwrap()),
        right()
    );
    // What is missing is an error, which names what is there instead.
    let folder = Folder::new("renamed", |_, state| {
        let norm = state.remove("model.norm.weight").unwrap();
        state.insert("model.nrom.weight", norm);
    });
    let error = AutoModel::from_pretrained(&folder.source())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("lacks model.norm.weight") && error.contains("model.nrom"),
        "{error}"
    );
}

/// Adds a tensor of float8 to a safetensors file, under a new name or in the place of one that is there.
fn with_float8(path: &Path, name: &str) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let end = bytes.len() - 8 - length;
    match header.get_mut(name) {
        // Its bytes are read otherwise.
        Some(info) => {
            let [from, to] = [0, 1].map(|i| info["data_offsets"][i].as_u64().unwrap());
            *info = json!({ "dtype": "F8_E4M3", "shape": [to - from], "data_offsets": [from, to] });
        }
        None => {
            header[name] =
                json!({ "dtype": "F8_E4M3", "shape": [4], "data_offsets": [end, end + 4] });
        }
    }
    let text = header.to_string();
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.bytes());
    out.extend(&bytes[8 + length..]);
    out.extend([0x38; 4]);
    if out.len() != 8 + text.len() + header_end(&header) {
        out.truncate(8 + text.len() + header_end(&header));
    }
    std::fs::write(path, out).unwrap();
}

/// How many bytes of data a header speaks of.
fn header_end(header: &Value) -> usize {
    let ends = header.as_object().unwrap().values();
    let ends = ends.filter_map(|info| info["data_offsets"][1].as_u64());
    ends.max().unwrap() as usize
}

#[test]
fn entries_that_cannot_be_read() {
    let folder = Folder::new("float8", |_, _| ());
    with_float8(&folder.0.join("model.safetensors"), "kv_scale");
    assert_eq!(
        logits(&*AutoModel::from_pretrained(&folder.source()).unwrap()),
        right()
    );
    assert_eq!(
        logits(&LlamaForCausalLM::from_pretrained(&folder.source()).unwrap()),
        right()
    );
    with_float8(&folder.0.join("model.safetensors"), "model.norm.weight");
    for error in [
        AutoModel::from_pretrained(&folder.source()).err().unwrap(),
        LlamaForCausalLM::from_pretrained(&folder.source())
            .err()
            .unwrap(),
    ] {
        let error = error.to_string();
        assert!(error.contains("lacks model.norm.weight"), "{error}");
        assert!(error.contains("float8_e4m3fn"), "{error}");
    }
}
