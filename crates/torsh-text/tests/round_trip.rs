//! Folders of models and adapters that Hugging Face's libraries saved (`data/round_trip.py`): ToRSh computes what they
//! compute there, ties what they tie, and writes what they read. With `TORSH_PYTHON=python` they read it.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use torsh_hub::{FromPretrained, Pretrained, PretrainedOptions, SaveOptions};
use torsh_nn::module::{tied_names, untied_by};
use torsh_nn::{ModuleExt, StateDict};
use torsh_tensor::{DType, Result, Tensor, tensor};
use torsh_text::adapters::{LoraConfig, LoraModel};
use torsh_text::models::{
    AutoModel, BertForMaskedLM, BertForSequenceClassification, GPTNeoXForCausalLM,
    LlamaForCausalLM, ModelInputs, T5ForConditionalGeneration, TextModel,
};

/// A folder of the archive, removed at the end.
struct Cases(PathBuf);

impl Cases {
    /// Those whose name passes.
    fn unpacked(test: &str, wanted: impl Fn(&str) -> bool) -> Cases {
        let folder =
            std::env::temp_dir().join(format!("torsh-round-trip-{test}-{}", std::process::id()));
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/round_trip.zip");
        let file = std::fs::File::open(data).expect("the archive is in the repository");
        let mut archive = zip::ZipArchive::new(file).expect("an archive");
        for i in 0..archive.len() {
            let mut entry = archive.by_index(i).expect("an entry");
            let name = entry.name().to_string();
            if !wanted(name.split('/').next().unwrap_or_default()) {
                continue;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("a file");
        }
        Cases(folder)
    }

    fn names(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.0).expect("a folder");
        let name = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> = all.filter_map(name).collect();
        names.sort();
        names
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn json(folder: &str, file: &str) -> Value {
    let bytes = std::fs::read(Path::new(folder).join(file)).expect("a file of the case");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn read(value: &Value) -> Result<Tensor> {
    let list = |v: &Value| -> Vec<f64> { serde_json::from_value(v.clone()).expect("numbers") };
    let shape: Vec<usize> = list(&value["shape"]).iter().map(|&n| n as usize).collect();
    let whole = value["whole"] == true;
    let dtype = if whole { DType::I64 } else { DType::F32 };
    Tensor::from_vec(list(&value["values"]), shape)?.to_dtype(dtype)
}

fn inputs(case: &Value) -> Result<ModelInputs> {
    let of = |name: &str| case["inputs"].get(name).map(read).transpose();
    let mut inputs = ModelInputs::default();
    inputs.input_ids = of("input_ids")?;
    inputs.decoder_input_ids = of("decoder_input_ids")?;
    inputs.pixel_values = of("pixel_values")?;
    inputs.input_features = of("input_features")?;
    inputs.input_values = of("input_values")?;
    Ok(inputs)
}

/// The model computes what the case expects.
fn check(name: &str, model: &dyn TextModel, case: &Value) -> Result<()> {
    let outputs = model.forward_named(&inputs(case)?)?;
    assert!(!outputs.is_empty());
    for (output, ours) in outputs {
        let expected = &case["outputs"][output];
        assert!(!expected.is_null(), "{name}: {output} is not expected");
        let expected = read(expected)?;
        assert_eq!(ours.dims(), expected.dims(), "{name}: {output}");
        let most = 1e-4 * (1.0 + expected.abs()?.max()?.item::<f64>()?);
        let far = ours.detach().sub(&expected)?.abs()?.max()?.item::<f64>()?;
        assert!(far <= most, "{name}: {output} is {far:e} off");
    }
    Ok(())
}

fn strings(value: &Value) -> BTreeSet<String> {
    serde_json::from_value(value.clone()).expect("names")
}

/// What was written has names that Hugging Face's library reads, and all that it writes unless it renames them.
fn check_names(name: &str, written: &StateDict, ties: &[Vec<String>], case: &Value) {
    let (theirs, memory) = (strings(&case["names"]), strings(&case["memory"]));
    let ours: BTreeSet<String> = written.keys().map(str::to_string).collect();
    if theirs.is_subset(&memory) {
        let lacking: Vec<_> = theirs.difference(&ours).collect();
        assert!(lacking.is_empty(), "{name}: {lacking:?} are not written");
    }
    for more in ours.difference(&theirs) {
        let twin = ties.iter().find(|names| names.contains(more));
        let known = twin.is_some_and(|names| names.iter().any(|n| theirs.contains(n)));
        assert!(known || memory.contains(more), "{name}: {more} is written");
    }
}

/// Asks Hugging Face's library to read what was saved, where there is a Python with it.
fn check_in_python(folder: &Path) {
    let Ok(python) = std::env::var("TORSH_PYTHON") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/round_trip.py");
    let mut command = std::process::Command::new(python);
    let status = command.arg(script).arg("check").arg(folder).status();
    assert!(
        status.is_ok_and(|s| s.success()),
        "Python reads something else"
    );
}

#[test]
fn models_are_read_and_written_as_hugging_faces_library_does() -> Result<()> {
    let cases = Cases::unpacked("models", |name| {
        !name.starts_with("adapter-") && !name.ends_with("-headless")
    });
    let saved = Cases(cases.0.with_extension("saved"));
    for name in cases.names() {
        let at = cases.at(&name);
        let case = json(&at, "case.json");
        let model = AutoModel::from_pretrained(&at).expect(&name);
        check(&name, &*model, &case)?;
        // What is one parameter there is one here, under the same names.
        let groups = |all: Vec<Vec<String>>| -> BTreeSet<BTreeSet<String>> {
            all.into_iter().map(|g| g.into_iter().collect()).collect()
        };
        let theirs: Vec<Vec<String>> = serde_json::from_value(case["tied"].clone()).expect("names");
        let ties = tied_names(&*model);
        assert_eq!(groups(ties.clone()), groups(theirs), "{name}");

        let there = saved.at(&name);
        let options = SaveOptions::new().config(json(&at, "config.json"));
        model.save_pretrained_with(&there, &options)?;
        std::fs::copy(format!("{at}/case.json"), format!("{there}/case.json"))?;
        let written = torsh_hub::load_state_dict(&there)?;
        check_names(&name, &written, &ties, &case);
        let again = AutoModel::from_pretrained(&there).expect(&name);
        check(&name, &*again, &case)?;
        assert_eq!(tied_names(&*again), ties, "{name}");
    }
    check_in_python(&saved.0);
    Ok(())
}

#[test]
fn a_head_that_a_file_lacks_is_an_error_unless_it_is_asked_for() -> Result<()> {
    let cases = Cases::unpacked("headless", |name| name.ends_with("-headless"));
    assert!(cases.names().len() > 15);
    for name in cases.names() {
        let at = cases.at(&name);
        let missing = strings(&json(&at, "case.json")["missing"]);
        let error = AutoModel::from_pretrained(&at).err().map(|e| e.to_string());
        let error = error.unwrap_or_default();
        for head in missing {
            // That of GPT-NeoX has one name in files and another in memory.
            let head = head.replace("embed_out", "lm_head");
            assert!(error.contains(&head), "{name}: {error}");
        }
        assert!(error.contains("new_head(true)"), "{name}: {error}");
        AutoModel::from_pretrained_with(&at, PretrainedOptions::new().new_head(true)).expect(&name);
    }
    // The typed form, whose head was drawn once.
    let at = cases.at("GPTNeoXForCausalLM-headless");
    let error = GPTNeoXForCausalLM::from_pretrained(&at).err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.contains("lm_head.weight") && error.contains("new_head(true)"),
        "{error}"
    );
    Ok(())
}

#[test]
fn typed_models_are_read_as_those_by_name() -> Result<()> {
    fn load<M: FromPretrained + TextModel>(cases: &Cases, name: &str) -> Result<M> {
        let at = cases.at(name);
        let model = M::from_pretrained(&at)?;
        model.eval();
        let case = json(&at, "case.json");
        check(name, &model, &case)?;
        // Written with its own configuration, and read again.
        let there = format!("{at}-typed");
        model.save_model(&there)?;
        let again = M::from_pretrained(&there)?;
        again.eval();
        check(name, &again, &case)?;
        assert_eq!(tied_names(&again), tied_names(&model), "{name}");
        Ok(model)
    }
    let cases = Cases::unpacked("typed", |name| {
        ["T5For", "GPTNeoXFor", "LlamaForCausalLM", "BertForMaskedLM"]
            .iter()
            .any(|of| name.starts_with(of))
            && !name.ends_with("-headless")
    });
    for name in cases.names() {
        match name.split('-').next() {
            Some("T5ForConditionalGeneration") => {
                let mut model: T5ForConditionalGeneration = load(&cases, &name)?;
                model.untie_head()?;
                check(&name, &model, &json(&cases.at(&name), "case.json"))?;
                assert!(!model.lm_head.weight.is_same(&model.shared.weight));
            }
            Some("GPTNeoXForCausalLM") => drop(load::<GPTNeoXForCausalLM>(&cases, &name)?),
            Some("BertForMaskedLM") => drop(load::<BertForMaskedLM>(&cases, &name)?),
            Some("LlamaForCausalLM") => {
                let model: LlamaForCausalLM = load(&cases, &name)?;
                let tied = model
                    .lm_head
                    .weight
                    .is_same(&model.model.embed_tokens.weight);
                let expected = ["LlamaForCausalLM-tied", "LlamaForCausalLM-other0"];
                assert_eq!(tied, expected.contains(&&*name), "{name}");
            }
            other => panic!("{other:?}"),
        }
    }
    // A head for another task is new where it is asked for, and nothing else ever.
    let at = cases.at("BertForMaskedLM");
    let error = BertForSequenceClassification::from_pretrained(&at).err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.contains("classifier.weight") && error.contains("new_head"),
        "{error}"
    );
    let new_head = || PretrainedOptions::new().new_head(true);
    let classifier = BertForSequenceClassification::from_pretrained_with(&at, new_head())?;
    let file = torsh_hub::load_state_dict(&at)?;
    let name = "bert.encoder.layer.0.output.dense.weight";
    assert_eq!(classifier.state_dict()[name], file[name]);
    let mut without = file.clone();
    without.remove(name);
    without.save(format!("{at}/model.safetensors"))?;
    let error = BertForSequenceClassification::from_pretrained_with(&at, new_head()).err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains(name), "{error}");
    Ok(())
}

#[test]
fn adapters_train_one_of_two_tied_modules_as_peft_does() -> Result<()> {
    let cases = Cases::unpacked("adapters", |name| name.starts_with("adapter-"));
    let saved = Cases(cases.0.with_extension("saved"));
    assert_eq!(cases.names().len(), 6);
    let (embedding, head) = ("model.embed_tokens.weight", "lm_head.weight");
    for name in cases.names() {
        let at = cases.at(&name);
        let case = json(&at, "case.json");
        let base = || AutoModel::from_pretrained(&at);
        let before = base()?.state_dict();
        let model = LoraModel::from_pretrained(base()?, &at).expect(&name);
        check(&name, &**model, &case)?;
        assert_eq!(case["trained"], model.trainable_parameters().0, "{name}");
        let own = model.base_model().state_dict();
        let ensured = name.ends_with("-ensured");
        assert_eq!(own[embedding] == own[head], ensured, "{name}");
        let trains = |module: &str| ensured || name.contains(module);
        assert_eq!(
            own[embedding] != before[embedding],
            trains("embed_tokens"),
            "{name}"
        );
        assert_eq!(own[head] != before[head], trains("lm_head"), "{name}");

        // What is saved again.
        let state = model.adapter_state_dict();
        let names: BTreeSet<String> = state.keys().map(str::to_string).collect();
        assert_eq!(names, strings(&case["names"]), "{name}");
        let there = saved.at(&name);
        model.save_pretrained(&there)?;
        for file in ["config.json", "model.safetensors", "case.json"] {
            std::fs::copy(format!("{at}/{file}"), format!("{there}/{file}"))?;
        }
        let again = LoraModel::from_pretrained(base()?, &there).expect(&name);
        check(&name, &**again, &case)?;
        check(&name, &*model.merge_and_unload()?, &case)?;

        // Trained anew: the file's settings, and a step of what is trained besides the adapters.
        let config = LoraConfig::from_json(json(&at, "adapter_config.json"))?;
        assert_eq!(config.ensure_weight_tying, ensured);
        let fresh = LoraModel::new(base()?, config)?;
        let ties = tied_names(fresh.base_model());
        assert_eq!(ties.len(), usize::from(ensured), "{name}: {ties:?}");
        let trained = fresh.named_parameters().into_iter();
        let trained: Vec<String> = trained
            .filter(|(n, p)| p.requires_grad() && !n.contains("lora_"))
            .map(|(n, _)| n.replace("base_model.model.", ""))
            .collect();
        let expected: &[&str] = match (trains("embed_tokens"), trains("lm_head"), ensured) {
            (true, true, false) => &[embedding, head],
            (true, ..) => &[embedding],
            _ => &[head],
        };
        assert_eq!(trained, expected, "{name}");
        // A file with different tensors for what is one parameter here is refused.
        if ensured {
            let mut other = fresh.adapter_state_dict();
            let key = format!("base_model.model.{head}");
            assert!(
                other
                    .insert(&key, tensor![[1.0]].expand([11, 8])?)
                    .is_some()
            );
            let error = fresh
                .load_adapter_state_dict(&other)
                .err()
                .map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains("one parameter")),
                "{error:?}"
            );
        }
    }
    check_in_python(&saved.0);
    Ok(())
}

#[test]
fn a_state_dict_is_refused_where_it_would_lose_a_tensor() -> Result<()> {
    let cases = Cases::unpacked("state", |name| name.starts_with("LlamaForCausalLM"));
    let file = torsh_hub::load_state_dict(cases.at("LlamaForCausalLM-different"))?;
    let model = AutoModel::from_pretrained(&cases.at("LlamaForCausalLM-tied"))?;
    assert_eq!(untied_by(&*model, &file)?.len(), 1);
    let before = model.state_dict()["lm_head.weight"].copy()?;
    let error = model.load_state_dict(&file).err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("lm_head.weight")));
    let error = model.load_pretrained(&cases.at("LlamaForCausalLM-different"));
    assert!(error.is_err_and(|e| e.to_string().contains("one parameter")));
    assert_eq!(model.state_dict()["lm_head.weight"], before);
    Ok(())
}
