//! Models of folders and of the registry.

use serde_json::json;
use torsh_hub::{
    FromPretrained, Hub, ModelOptions, Pretrained, SaveOptions, from_pretrained_with, help, list,
    load, load_state_dict, load_with,
};
use torsh_nn::{Linear, Module, ModuleExt, StateDict};
use torsh_tensor::{DType, ones};
use torsh_train::registry::register_model;

use crate::repositories::Files;
use crate::server::Server;
use crate::{Scratch, builder};

fn small() -> ModelOptions {
    ModelOptions::new()
        .set("input_size", 4)
        .set("hidden_size", 8)
        .set("num_layers", 1)
        .set("num_classes", 3)
}

#[test]
fn a_model_and_its_folder() {
    let scratch = Scratch::new("folder");
    let model = load_with("mlp", small()).unwrap();
    let dir = scratch.path("saved");
    model.save_pretrained(&dir).unwrap();
    assert_eq!(
        scratch.files(),
        ["saved/config.json", "saved/model.safetensors"]
    );
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["architecture"], &config["num_classes"]),
        (&json!("mlp"), &json!(3))
    );
    assert_eq!(config.get("pretrained"), None);

    let source = dir.display().to_string();
    let again = torsh_hub::from_pretrained(&source).unwrap();
    let x = ones([2, 4]);
    assert_eq!(again.forward(&x).unwrap(), model.forward(&x).unwrap());
    assert_eq!(again.config()["hidden_size"], 8);
    assert_eq!(
        again.state_dict().keys().collect::<Vec<_>>(),
        model.state_dict().keys().collect::<Vec<_>>()
    );
    // As weights of a model that is made another way, and of one that does not fit.
    let other = load_with("mlp", small().weights(&source)).unwrap();
    assert_eq!(other.forward(&x).unwrap(), model.forward(&x).unwrap());
    let error = load_with("mlp", small().set("hidden_size", 9).weights(&source))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not fit") && error.contains("saved"),
        "{error}"
    );
    let half = load_with("mlp", small().weights(&source).dtype(DType::F64)).unwrap();
    assert_eq!(
        half.forward(&ones([1, 4]).to_dtype(DType::F64).unwrap())
            .unwrap()
            .dtype(),
        DType::F64
    );
}

#[test]
fn a_configuration_of_more_layers_than_tensors_is_refused() {
    let scratch = Scratch::new("layers");
    let dir = scratch.path("saved");
    let model = load_with("mlp", small()).unwrap();
    model.save_pretrained(&dir).unwrap();
    let path = dir.join("config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("\"num_layers\": 1", "\"num_layers\": 4000000000000");
    std::fs::write(&path, text).unwrap();
    let error = torsh_hub::from_pretrained(dir.display().to_string())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("4000000000000 layers") && error.contains("4 tensors"),
        "{error}"
    );
}

#[test]
fn shards_come_and_go() {
    let scratch = Scratch::new("sharded");
    let model = load_with("mlp", small()).unwrap();
    let dir = scratch.path("saved");
    model
        .save_pretrained_with(&dir, &SaveOptions::new().max_shard_size(130))
        .unwrap();
    // 4 x 8 and 8 numbers, 8 x 3 and 3: 128, 32, 96 and 12 bytes.
    let names = [
        "config.json",
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(scratch.files(), names.map(|name| format!("saved/{name}")));
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join(names[4])).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], 268);
    assert_eq!(load_state_dict(&dir).unwrap().len(), 4);
    let again = torsh_hub::from_pretrained(dir.display().to_string()).unwrap();
    assert_eq!(
        again.forward(&ones([1, 4])).unwrap(),
        model.forward(&ones([1, 4])).unwrap()
    );
    model.save_pretrained(&dir).unwrap();
    assert_eq!(
        scratch.files(),
        ["saved/config.json", "saved/model.safetensors"]
    );
}

#[test]
fn any_module_has_a_folder() {
    let scratch = Scratch::new("module");
    let dir = scratch.path("linear");
    let net = Linear::new(2, 3);
    net.save_pretrained_with(&dir, &SaveOptions::new().config(json!({ "in": 2 })))
        .unwrap();
    let config = std::fs::read_to_string(dir.join("config.json")).unwrap();
    assert!(
        config.contains("\"architecture\": \"Linear\"") && config.contains("\"in\": 2"),
        "{config}"
    );
    let other = Linear::new(2, 3);
    other.load_pretrained(&dir.display().to_string()).unwrap();
    assert_eq!(*other.weight, *net.weight);
    let wrong = Linear::new(3, 3);
    let before = wrong.weight.copy().unwrap();
    assert!(wrong.load_pretrained(&dir.display().to_string()).is_err());
    assert_eq!(*wrong.weight, before);
    assert!(
        net.save_pretrained_with(&dir, &SaveOptions::new().config(json!([1])))
            .is_err()
    );
    // Names as DataParallel writes them.
    let prefixed: StateDict = net
        .state_dict()
        .into_iter()
        .map(|(n, t)| (format!("module.{n}"), t))
        .collect();
    prefixed.save(scratch.path("parallel.pth")).unwrap();
    let other = Linear::new(2, 3);
    other
        .load_pretrained(&scratch.path("parallel.pth").display().to_string())
        .unwrap();
    assert_eq!(*other.weight, *net.weight);
}

#[test]
fn configurations_that_are_wrong() {
    let scratch = Scratch::new("configs");
    Linear::new(2, 3)
        .state_dict()
        .save(scratch.path("model.safetensors"))
        .unwrap();
    for (config, said) in [
        ("{}", "names no architecture"),
        ("[]", "is an object"),
        ("{", "config.json"),
        (
            "{\"architecture\": \"no-such-model\"}",
            "no model is registered",
        ),
        (
            "{\"model_type\": \"no-such-model\", \"architectures\": [\"NoSuchModel\"]}",
            "NoSuchModel",
        ),
        (
            "{\"architecture\": \"linear\", \"num_classes\": \"three\"}",
            "config.json",
        ),
        (
            "{\"architecture\": \"linear\", \"input_size\": 5, \"num_classes\": 3}",
            "does not fit",
        ),
    ] {
        std::fs::write(scratch.path("config.json"), config).unwrap();
        let error = torsh_hub::from_pretrained(scratch.0.display().to_string())
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{config}: {error}");
    }
    // A path of its writer is nothing to load.
    let config = json!({ "architecture": "linear", "input_size": 2, "num_classes": 3, "pretrained": "/etc/passwd", "device": "cuda:7", "license": "mit" });
    std::fs::write(scratch.path("config.json"), config.to_string()).unwrap();
    Linear::new(2, 3)
        .state_dict()
        .into_iter()
        .map(|(n, t)| (format!("1.{n}"), t))
        .collect::<StateDict>()
        .save(scratch.path("model.safetensors"))
        .unwrap();
    let model = torsh_hub::from_pretrained(scratch.0.display().to_string()).unwrap();
    assert_eq!(model.config()["license"], "mit");
}

#[test]
fn a_model_of_a_repository() {
    let scratch = Scratch::new("repository");
    let model = load_with("mlp", small()).unwrap();
    model.save_pretrained(scratch.path("made")).unwrap();
    let read = |name: &str| std::fs::read(scratch.path("made").join(name)).unwrap();
    let (config, weights) = (read("config.json"), read("model.safetensors"));
    let server = Server::new(move |asked, _| {
        Files::new(&[("config.json", &config), ("model.safetensors", &weights)])
            .answer(asked, "org/mlp")
    });
    let hub: Hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let again = from_pretrained_with("org/mlp", &hub).unwrap();
    assert_eq!(
        again.forward(&ones([2, 4])).unwrap(),
        model.forward(&ones([2, 4])).unwrap()
    );
    let weighted = load_with("mlp", small().weights("org/mlp@main").hub(hub.clone())).unwrap();
    assert_eq!(
        weighted.forward(&ones([2, 4])).unwrap(),
        model.forward(&ones([2, 4])).unwrap()
    );
    let error = from_pretrained_with("org/none", &hub)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("404") && error.contains("org/none"),
        "{error}"
    );
}

#[test]
fn models_by_name() {
    register_model("my-own", |c| {
        Ok(Box::new(Linear::new(
            c.input_size,
            c.options["out"].as_u64().unwrap_or(1) as usize,
        )))
    });
    assert!(list().contains(&"my-own".to_string()) && list().contains(&"mlp".to_string()));
    let model = load_with(
        "my_own",
        ModelOptions::new().set("input_size", 2).set("out", 5),
    )
    .unwrap();
    assert_eq!(model.forward(&ones([2])).unwrap().dims(), [5]);
    assert!(help("my-own").unwrap().contains("without a description"));
    assert!(help("linear").unwrap().contains("one layer"));
    for error in [help("resnet"), load("resnet").map(|m| m.repr())] {
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("no model `resnet`") && error.contains("mlp"),
            "{error}"
        );
    }
    // Weights that are nowhere.
    let error = load_with("mlp", small().weights("./none.pth"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("none.pth"), "{error}");
}

/// `TORSH_PYTHON` names a Python with PyTorch and safetensors.
#[test]
fn python_opens_what_is_written() {
    let Ok(python) = std::env::var("TORSH_PYTHON") else {
        return;
    };
    let scratch = Scratch::new("python-opens");
    let model = load_with("mlp", small()).unwrap();
    model.save_pretrained(scratch.path("model")).unwrap();
    let hub = builder(&scratch).build().unwrap();
    let state = model.state_dict();
    state.save(scratch.path("net.pth")).unwrap();
    let url = format!("file://{}", scratch.path("net.pth").display());
    hub.file_from_url(&url, torsh_hub::UrlOptions::new())
        .unwrap();
    let script = "
import json, sys, torch
from safetensors.torch import load_file
config = json.load(open('model/config.json'))
assert config['architecture'] == 'mlp' and config['num_classes'] == 3, config
state = load_file('model/model.safetensors')
# The file is in the cache of torch.hub already.
cached = torch.hub.load_state_dict_from_url('https://weights.invalid/net.pth', weights_only=True)
assert list(cached) == sys.argv[1].split(','), list(cached)
assert all(torch.equal(cached[k], v) for k, v in state.items())
print(sum(v.double().sum().item() for v in state.values()))
";
    let keys: Vec<&str> = state.keys().collect();
    let out = std::process::Command::new(python)
        .args(["-c", script, &keys.join(",")])
        .current_dir(&scratch.0)
        .env("TORCH_HOME", scratch.path("torch"))
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let sum: f64 = String::from_utf8_lossy(&out.stdout).trim().parse().unwrap();
    let own: f64 = state
        .values()
        .flat_map(|t| t.to_vec::<f32>().unwrap())
        .map(f64::from)
        .sum();
    assert!((sum - own).abs() < 1e-6, "{sum} {own}");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Config {
    width: usize,
}

#[derive(Module)]
struct Net {
    layer: Linear,
}

impl Module for Net {
    fn forward(&self, x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
        self.layer.forward(x)
    }
}

impl FromPretrained for Net {
    type Config = Config;

    fn from_config(config: Config) -> torsh_tensor::Result<Net> {
        Ok(Net {
            layer: Linear::new(config.width, 1),
        })
    }

    fn config(&self) -> Config {
        Config {
            width: self.layer.weight.dims()[1],
        }
    }
}

#[test]
fn a_type_of_ones_own() {
    let scratch = Scratch::new("own-type");
    let net = Net::from_config(Config { width: 4 }).unwrap();
    net.save_model(scratch.path("net")).unwrap();
    let again = Net::from_pretrained(&scratch.path("net").display().to_string()).unwrap();
    assert_eq!(*again.layer.weight, *net.layer.weight);
    std::fs::write(scratch.path("net/config.json"), "{\"height\": 1}").unwrap();
    let error = Net::from_pretrained(&scratch.path("net").display().to_string())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("width"), "{error}");
}
