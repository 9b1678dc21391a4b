//! Adapters that `peft` 0.21 saved, and what its models compute with them.

use std::path::PathBuf;

use serde_json::{Value, json};
use torsh_core::random::LocalGenerator;
use torsh_nn::{ModuleExt, StateDict};
use torsh_tensor::{DType, Device, Result, Tensor, no_grad, rand, tensor};

use super::*;
use crate::models::{AutoModel, ModelInputs, TextModel, from_config};

fn folder(name: &str) -> PathBuf {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/adapters/tests");
    sources.join(name)
}

fn expected(name: &str) -> Value {
    let text = std::fs::read(folder(name).join("expected.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A model with weights that depend on nothing but the generator.
fn model(name: &str) -> Result<Box<dyn TextModel>> {
    let model = match name {
        "gpt2" | "layers" => from_config(
            "GPT2LMHeadModel",
            json!({
                "n_embd": 8, "n_layer": if name == "layers" { 3 } else { 1 }, "n_head": 2, "vocab_size": 11,
                "n_positions": 8
            }),
        ),
        _ => from_config(
            "BertForSequenceClassification",
            json!({
                "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
                "vocab_size": 11, "max_position_embeddings": 8, "num_labels": 3
            }),
        ),
    }?;
    let mut all = model.named_parameters();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    // Other tests draw from the default generator meanwhile.
    LocalGenerator::new(3).scope(|| -> Result<()> {
        for (_, p) in all {
            let drawn = rand(p.dims()).mul(2.0)?.sub(1.0)?.mul(0.3)?;
            no_grad(|| p.copy_(&drawn))?;
        }
        Ok(())
    })?;
    model.eval();
    Ok(model)
}

fn logits(model: &dyn TextModel) -> Result<Tensor> {
    let inputs = ModelInputs::ids(tensor![[1, 5, 9, 2, 7], [3, 3, 8, 0, 4]]);
    let (_, y) = model.forward_named(&inputs)?.swap_remove(0);
    // Of every text the last token's, where there are some for each token.
    let y = if y.ndim() == 3 { y.select(1, -1)? } else { y };
    y.detach().reshape([-1])
}

fn distance(ours: &Tensor, expected: &[f64]) -> Result<f64> {
    let ours = ours.to_vec::<f64>()?;
    assert_eq!(ours.len(), expected.len());
    let differences = ours.iter().zip(expected).map(|(a, b)| (a - b).abs());
    Ok(differences.fold(0.0, f64::max))
}

fn same(a: &StateDict, b: &StateDict) {
    let sorted = |s: &StateDict| {
        let mut names: Vec<String> = s.keys().map(String::from).collect();
        names.sort();
        names
    };
    assert_eq!(sorted(a), sorted(b));
    assert!(a.iter().all(|(name, t)| t == &b[name]));
}

#[test]
fn adapters_of_peft_compute_what_they_compute_there() -> Result<()> {
    for name in ["gpt2", "bert", "layers"] {
        let expected = expected(name);
        let wanted: Vec<f64> = serde_json::from_value(expected["logits"].clone()).unwrap();
        let base = model(name)?;
        assert!(distance(&logits(&*base)?, &wanted)? > 1e-2);
        let source = folder(name).display().to_string();
        let lora = LoraModel::from_pretrained(base, &source)?;
        let far = distance(&logits(&**lora)?, &wanted)?;
        assert!(far < 1e-6, "{name}: {far:e}");
        let (trained, _) = lora.trainable_parameters();
        if let Some(theirs) = expected.get("trainable") {
            assert_eq!(json!(trained), theirs[0]);
        }

        // What is saved again has the same names and values, and the same settings.
        let theirs = torsh_hub::load_state_dict(folder(name).join("adapter_model.safetensors"))?;
        same(&lora.adapter_state_dict(), &theirs);
        let there = std::env::temp_dir().join(format!("torsh-peft-{name}-{}", std::process::id()));
        lora.save_pretrained(&there)?;
        let read = |folder: &PathBuf| -> Value {
            let text = std::fs::read(folder.join("adapter_config.json")).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let (ours, theirs) = (read(&there), read(&folder(name)));
        for (field, value) in ours.as_object().unwrap() {
            assert_eq!(value, &theirs[field], "{field}");
        }
        let again = LoraModel::from_pretrained(model(name)?, &there.display().to_string())?;
        assert!(distance(&logits(&**again)?, &wanted)? < 1e-6);
        std::fs::remove_dir_all(&there)?;

        let merged = lora.merge_and_unload()?;
        assert!(distance(&logits(&*merged)?, &wanted)? < 1e-6);
    }
    Ok(())
}

/// The modules that `peft` takes in layers by number (`tests/layers.py`), whose adapters the test above computes with.
#[test]
fn layers_are_chosen_as_peft_chooses_them() -> Result<()> {
    let expected = expected("layers");
    let keys: Vec<String> = serde_json::from_value(expected["keys"].clone()).unwrap();
    let cases = expected["taken"].as_array().unwrap();
    assert_eq!((keys.len(), cases.len()), (12, 13));
    for case in cases {
        let mut fields = case[0].clone();
        fields["peft_type"] = json!("LORA");
        let config = LoraConfig::from_json(fields)?;
        let again = LoraConfig::from_json(config.to_json())?;
        for (key, theirs) in keys.iter().zip(case[1].as_array().unwrap()) {
            let excluded = config.exclude_modules.as_ref();
            let excluded = excluded.map_or(Ok(false), |e| e.take(key))?;
            let taken = config.takes(key)? && !excluded;
            assert_eq!(json!(taken), *theirs, "{key} of {}", case[0]);
            assert_eq!(again.takes(key)?, config.takes(key)?);
        }
    }
    let lora =
        LoraModel::from_pretrained(model("layers")?, &folder("layers").display().to_string())?;
    let mut names: Vec<String> = lora.adapter_state_dict().keys().map(String::from).collect();
    names.sort();
    assert_eq!(json!(names), expected["names"]);

    // What contradicts itself is refused.
    let new = |config: LoraConfig| {
        let e = LoraModel::new(model("layers")?, config)
            .err()
            .expect("an error");
        Ok::<_, torsh_tensor::TorshError>(e.to_string())
    };
    let config = || LoraConfig::new().layers_to_transform([1]);
    let e = new(config().target_modules("all-linear"))?;
    assert!(
        e.contains("layers_to_transform") && e.contains("list"),
        "{e}"
    );
    let e = new(LoraConfig::new()
        .target_modules(["c_attn"])
        .layers_pattern(["h"]))?;
    assert!(
        e.contains("layers_pattern") && e.contains("set layers_to_transform"),
        "{e}"
    );
    let e = new(config()
        .target_modules(["c_attn"])
        .layers_pattern(["blocks"]))?;
    assert!(
        e.contains("[1]") && e.contains("blocks") && e.contains("h.0.attn.c_attn"),
        "{e}"
    );
    let e = new(config().target_modules(["c_attn"]).bias("some"))?;
    assert!(
        e.contains("some is not a valid value for bias") && e.contains("\"lora_only\""),
        "{e}"
    );
    let e = new(config()
        .target_modules(["c_attn"])
        .init_lora_weights("pissa"))?;
    assert!(
        e.contains("pissa is not a valid value for init_lora_weights"),
        "{e}"
    );
    let lora = LoraModel::new(
        model("layers")?,
        config()
            .target_modules(["c_attn"])
            .bias("lora_only")
            .init_lora_weights(false),
    )?;
    assert_eq!(lora.config().to_json()["layers_to_transform"], json!([1]));
    assert!(
        lora.adapter_state_dict()
            .keys()
            .any(|name| name.ends_with("h.1.attn.c_attn.base_layer.bias"))
    );
    Ok(())
}

#[test]
fn files_that_do_not_fit_are_refused() -> Result<()> {
    let source = folder("gpt2").display().to_string();
    let wrong = LoraModel::from_pretrained(model("bert")?, &source).err();
    let wrong = wrong.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        wrong.contains("c_attn") && wrong.contains("query"),
        "{wrong}"
    );
    let lora = LoraModel::from_pretrained(model("gpt2")?, &source)?;
    let mut state = lora.adapter_state_dict();
    let first = state.keys().next().map(String::from).unwrap_or_default();
    state.remove(&first);
    state.insert("base_model.model.other.lora_A.weight", tensor![1.0]);
    let error = lora
        .load_adapter_state_dict(&state)
        .err()
        .map(|e| e.to_string());
    let names = |e: &String| {
        e.contains(&format!("missing: {first}")) && e.contains("unexpected: base_model.model.other")
    };
    assert!(error.as_ref().is_some_and(names), "{error:?}");
    assert!(LoraModel::from_pretrained(model("gpt2")?, "/nowhere/at/all").is_err());
    Ok(())
}

#[test]
fn training_lowers_the_loss_and_leaves_the_model_alone() -> Result<()> {
    let base = model("gpt2")?;
    let before: Vec<Tensor> = base
        .parameters()
        .iter()
        .map(|p| p.detach().copy())
        .collect::<Result<_>>()?;
    let lora = LoraModel::new(base, LoraConfig::new().r(2).target_modules("all-linear"))?;
    let ids = tensor![[1, 5, 9, 2, 7, 3]];
    let loss = || -> Result<Tensor> {
        let (_, y) = lora
            .forward_named(&ModelInputs::ids(ids.clone()))?
            .swap_remove(0);
        let y = y.narrow(1, 0, 5)?.reshape([5, 11])?;
        torsh_functional::cross_entropy(&y, &ids.narrow(1, 1, 5)?.reshape([5])?)
    };
    let first = loss()?.item::<f64>()?;
    for _ in 0..60 {
        lora.zero_grad();
        loss()?.backward()?;
        for p in lora.parameters() {
            if let Some(grad) = p.grad() {
                no_grad(|| p.sub_(&grad.mul(0.5)?))?;
            }
        }
    }
    let last = loss()?.item::<f64>()?;
    assert!(last < first - 0.01, "{first} {last}");
    let after = lora.base_model().parameters();
    assert!(
        after
            .iter()
            .zip(&before)
            .all(|(p, b)| p.tensor().detach() == *b)
    );
    Ok(())
}

/// Adapters that `peft` saved with the table of tokens and its head, after tokens were added (`tests/tokens.py`).
#[test]
fn adapters_bring_the_tokens_that_were_added() -> Result<()> {
    for (name, weights) in [
        ("tokens", "adapter_model.safetensors"),
        ("tokens", "adapter_model.bin"),
        ("tokens_tied", "adapter_model.safetensors"),
    ] {
        let there = std::env::temp_dir().join(format!("torsh-tokens-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&there);
        std::fs::create_dir_all(&there)?;
        for file in ["adapter_config.json", weights] {
            std::fs::copy(folder(name).join(file), there.join(file))?;
        }
        let base = || AutoModel::from_pretrained(&folder(name).join("base").display().to_string());
        let lora = LoraModel::from_pretrained(base()?, &there.display().to_string())?;
        let expected = expected(name);
        let wanted: Vec<f64> = serde_json::from_value(expected["logits"].clone()).unwrap();
        let ids: Vec<Vec<i64>> = serde_json::from_value(expected["ids"].clone()).unwrap();
        let ids = Tensor::from_slice(
            &ids.concat(),
            [ids.len(), ids[0].len()],
            DType::I64,
            Device::Cpu,
        )?;
        let logits = |model: &dyn TextModel| -> Result<Tensor> {
            let (_, y) = model
                .forward_named(&ModelInputs::ids(ids.clone()))?
                .swap_remove(0);
            y.select(1, -1)?.detach().reshape([-1])
        };
        let far = distance(&logits(&**lora)?, &wanted)?;
        assert!(far < 1e-5, "{name} {weights}: {far:e}");
        let generates = lora.as_generation().map(|model| model.vocab_size());
        assert_eq!(generates, Some(13));

        // What is saved again has the tables too.
        let theirs = torsh_hub::load_state_dict(folder(name).join("adapter_model.safetensors"))?;
        same(&lora.adapter_state_dict(), &theirs);
        let again = there.join("again");
        lora.save_pretrained(&again)?;
        let again = LoraModel::from_pretrained(base()?, &again.display().to_string())?;
        assert!(distance(&logits(&**again)?, &wanted)? < 1e-5);
        std::fs::remove_dir_all(&there)?;
    }
    let empty = std::env::temp_dir().join(format!("torsh-no-weights-{}", std::process::id()));
    std::fs::create_dir_all(&empty)?;
    let config = folder("tokens").join("adapter_config.json");
    std::fs::copy(config, empty.join("adapter_config.json"))?;
    let error = LoraModel::from_pretrained(model("gpt2")?, &empty.display().to_string()).err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.contains("adapter_model.safetensors") && error.contains("adapter_model.bin"),
        "{error}"
    );
    std::fs::remove_dir_all(&empty)?;
    Ok(())
}

#[test]
fn what_a_configuration_says_more_is_read() -> Result<()> {
    let mut config = LoraConfig::new().target_modules(["q_proj"]).to_json();
    for (name, value) in [
        ("_notes", json!("x")),
        ("unsloth_version", json!("2024.1")),
        ("loftq_config", json!({})),
        ("eva_config", json!(null)),
        ("use_qalora", json!(false)),
        (
            "auto_mapping",
            json!({ "base_model_class": "LlamaForCausalLM", "unsloth_fixed": true }),
        ),
    ] {
        config[name] = value;
    }
    LoraConfig::from_json(config.clone())?;
    config["use_dora"] = json!(true);
    let error = LoraConfig::from_json(config).err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("use_dora")));
    Ok(())
}
