use std::path::{Path, PathBuf};

use torsh_nn::{Linear, Module, ModuleExt, sequential};
use torsh_optim::{AdamW, Optimizer};
use torsh_tensor::{DType, Result, Tensor, tensor};

use super::*;
use crate::init::spawn;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("torsh-test-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `tests/data/dcp.py` writes.
fn values(shape: &[usize], dtype: DType) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let data: Vec<f32> = (0..n).map(|i| i as f32 * 0.5 - 3.0).collect();
    Tensor::from_vec(data, shape.to_vec())?.to_dtype(dtype)
}

fn dcp() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dcp")
}

#[test]
fn checkpoints_of_pytorch_are_read() -> Result<()> {
    let read = read_torch(dcp())?;
    let tensor = |path: &[&str]| -> Result<Tensor> { Ok(read.at(path)?.as_tensor()?.clone()) };
    assert_eq!(tensor(&["model", "weight"])?, values(&[5, 4], DType::F32)?);
    assert_eq!(tensor(&["model", "across"])?, values(&[3, 4], DType::F64)?);
    assert_eq!(tensor(&["model", "bias"])?, values(&[5], DType::BF16)?);
    assert_eq!(tensor(&["model", "counter"])?.item::<i64>()?, 7);
    let state = ["optimizer", "state", "weight"];
    let average = tensor(&[&state[..], &["exp_avg"]].concat())?;
    assert_eq!(average, values(&[5, 4], DType::F32)?.neg()?);
    assert_eq!(
        tensor(&[&state[..], &["step"]].concat())?.item::<f32>()?,
        3.0
    );
    let group = read.at(&["optimizer", "param_groups", "0"])?;
    assert_eq!(group.get("lr")?.as_float()?, 0.125);
    assert_eq!(group.at(&["betas", "1"])?.as_float()?, 0.999);
    assert_eq!(group.at(&["params", "0"])?.as_str()?, "weight");
    assert_eq!(read.get("epoch")?.as_int()?, 4);
    assert_eq!(read.get("name")?.as_str()?, "two ranks");
    let dict = read_state_dict(dcp())?;
    assert_eq!(dict.len(), 4);
    assert_eq!(dict["weight"], values(&[5, 4], DType::F32)?);
    Ok(())
}

#[test]
fn checkpoints_of_pytorch_load_into_sharded_models_and_optimizers() {
    let rows = spawn(3, |g| {
        let (from, n) = [(0, 1), (1, 2), (3, 2)][g.rank()];
        let model = Linear::builder(4, n).bias(false).build()?;
        let layout = vec![Piece::new(
            "weight",
            [5, 4],
            [from, 0],
            model.weight.tensor(),
        )?];
        let adam = AdamW::new(model.parameters(), 0.5)?;
        let state = State::new().model(&model).optimizer(&adam).sharded(&layout);
        let loaded = load_in(&g, dcp(), &state)?;
        assert_eq!(loaded.value("epoch"), Some(&serde_json::json!(4)));
        assert_eq!((loaded.world_size(), adam.get_lr()), (2, 0.125));
        let expected = values(&[5, 4], DType::F32)?.narrow(0, from, n)?.copy()?;
        assert_eq!(model.weight.detach(), expected);
        let average = adam.state_dict().state[&0]["exp_avg"].as_tensor().cloned();
        assert_eq!(average, Some(expected.neg()?));
        let square = adam.state_dict().state[&0]["exp_avg_sq"]
            .as_tensor()
            .cloned();
        assert_eq!(square, Some(expected.square()?));
        Ok(n)
    });
    assert_eq!(rows.expect("loads"), [1, 2, 2]);
}

#[test]
fn damaged_checkpoints_of_pytorch_are_errors() -> Result<()> {
    let dir = Folder::new("dcp-damaged");
    std::fs::create_dir_all(&dir.0)?;
    for file in [".metadata", "__0_0.distcp", "__1_0.distcp"] {
        std::fs::copy(dcp().join(file), dir.0.join(file))?;
    }
    assert!(read_torch(&dir.0).is_ok());
    let at = dir.0.join("__0_0.distcp");
    let bytes = std::fs::read(&at)?;
    std::fs::write(&at, &bytes[..bytes.len() - 10])?;
    let text = read_torch(&dir.0)
        .map(drop)
        .expect_err("cut off")
        .to_string();
    assert!(text.contains("exp_avg"), "{text}");
    std::fs::remove_file(&at)?;
    let text = read_torch(&dir.0)
        .map(drop)
        .expect_err("missing")
        .to_string();
    assert!(text.contains("__0_0.distcp"), "{text}");
    let metadata = std::fs::read(dir.0.join(".metadata"))?;
    for cut in 0..metadata.len() {
        std::fs::write(dir.0.join(".metadata"), &metadata[..cut])?;
        assert!(read_torch(&dir.0).is_err(), "cut at {cut}");
    }
    Ok(())
}

#[test]
fn a_stage_loads_what_it_has() -> Result<()> {
    // Two stages of a pipeline save; one process loads the whole.
    let dir = Folder::new("stages");
    spawn(2, |g| {
        let own = sequential![Linear::new(2, 2)];
        own.parameters()[0].detach().fill_(g.rank() as f64 + 1.0)?;
        let adam = AdamW::new(own.parameters(), 0.1)?;
        own.forward(&tensor![[1.0, 2.0]])?.sum()?.backward()?;
        adam.step()?;
        // Names say which stage a parameter is of.
        let name = format!("stage{}", g.rank());
        let optimizer = format!("optimizer{}", g.rank());
        let state = State::new()
            .model_named(&name, &own)
            .optimizer_named(&optimizer, &adam);
        save_in(&g, &dir.0, &state)?;
        let before = own.state_dict()["0.weight"].copy()?;
        own.parameters()[0].detach().zero_()?;
        load_in(&g, &dir.0, &state)?;
        assert_eq!(own.state_dict()["0.weight"], before);
        Ok(())
    })?;
    let second = read_part(&dir.0, "stage1")?;
    assert!(second.get("0.weight")?.as_tensor()?.max()?.item::<f32>()? > 1.5);
    assert!(read_state_dict(&dir.0).is_err());
    Ok(())
}

#[test]
fn hugging_face_folders_come_back_and_name_what_is_wrong() -> Result<()> {
    let dir = Folder::new("hugging-face");
    let state: StateDict = (0..4)
        .map(|i| Ok((format!("layer.{i}"), values(&[3, i + 1], DType::F32)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .collect();
    save_hugging_face(&dir.0, &state, 1 << 20)?;
    assert!(dir.0.join("model.safetensors").is_file());
    save_hugging_face(&dir.0, &state, 60)?;
    assert!(!dir.0.join("model.safetensors").exists());
    let list = std::fs::read_to_string(dir.0.join("model.safetensors.index.json"))?;
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["metadata"]["total_size"], 12 + 24 + 36 + 48);
    assert_eq!(
        list["weight_map"]["layer.1"],
        "model-00001-of-00003.safetensors"
    );
    let back = load_hugging_face(&dir.0)?;
    for (name, t) in state.iter() {
        assert_eq!(&back[name], t);
    }
    let second = dir.0.join("model-00002-of-00003.safetensors");
    std::fs::remove_file(&second)?;
    let text = load_hugging_face(&dir.0)
        .map(drop)
        .expect_err("missing")
        .to_string();
    assert!(
        text.contains("model-00002-of-00003") && text.contains("layer.2"),
        "{text}"
    );
    Ok(())
}

#[test]
fn sharded_models_are_saved_for_hugging_face() -> Result<()> {
    let dir = Folder::new("hugging-face-sharded");
    spawn(3, |g| {
        let (from, n) = [(0, 1), (1, 2), (3, 1)][g.rank()];
        let model = sequential![
            Linear::builder(3, n).bias(false).build()?,
            Linear::new(4, 2)
        ];
        let parameters = model.parameters();
        let own = values(&[4, 3], DType::F32)?.narrow(0, from, n)?;
        parameters[0].detach().copy_(&own)?;
        parameters[1]
            .detach()
            .copy_(&values(&[2, 4], DType::F32)?)?;
        parameters[2].detach().copy_(&values(&[2], DType::F32)?)?;
        let pieces = vec![Piece::new(
            "0.weight",
            [4, 3],
            [from, 0],
            parameters[0].tensor(),
        )?];
        save_hugging_face_sharded(&g, &dir.0, &model, &pieces, 40)
    })?;
    let back = load_hugging_face(&dir.0)?;
    assert_eq!(back["0.weight"], values(&[4, 3], DType::F32)?);
    assert_eq!(back["1.weight"], values(&[2, 4], DType::F32)?);
    assert_eq!(back["1.bias"], values(&[2], DType::F32)?);
    assert!(dir.0.join("model-00002-of-00002.safetensors").is_file());
    Ok(())
}

#[test]
fn one_process_needs_no_group() -> Result<()> {
    let dir = Folder::new("alone");
    assert!(!exists(&dir.0));
    let net = Linear::new(3, 2);
    let before = net.state_dict()["weight"].copy()?;
    saving::save(None, &dir.0, &State::new().model(&net).value("name", "x"))?;
    assert!(exists(&dir.0));
    net.weight.detach().zero_()?;
    let loaded = load_alone(&dir.0, &State::new().model(&net))?;
    assert_eq!(net.weight.detach(), before);
    assert_eq!(loaded.value("name"), Some(&serde_json::json!("x")));
    // A part that is not there: an error before anything changes.
    net.weight.detach().zero_()?;
    let adam = AdamW::new(net.parameters(), 0.1)?;
    let text = load_alone(&dir.0, &State::new().model(&net).optimizer(&adam));
    let text = text.map(drop).expect_err("no optimizer").to_string();
    assert!(text.contains("no part `optimizer`"), "{text}");
    assert_eq!(net.weight.max()?.item::<f32>()?, 0.0);
    Ok(())
}

/// What an older version of the model's layers saved: other names, no count of batches.
#[test]
fn checkpoints_of_older_layers_load_into_sharded_models() -> Result<()> {
    use crate::fsdp::tests::older;
    let folder = Folder::new("older");
    let dir = &folder.0;
    let old = older::old()?;
    save(dir, &State::new().model(&old))?;
    let whole = older::new()?;
    whole.load_state_dict(&old.state_dict())?;
    let plain = older::new()?;
    load(dir, &State::new().model(&plain))?;
    let theirs = whole.state_dict();
    let same = |ours: &torsh_nn::StateDict| {
        ours.len() == theirs.len() && theirs.iter().all(|(name, t)| ours[name] == *t)
    };
    assert!(same(&plain.state_dict()));
    let all = spawn(2, |_| {
        let mesh = crate::DeviceMesh::new(&[2], &["dp"])?;
        let mut model = older::new()?;
        crate::fully_shard(&mut model, &mesh, crate::FullyShardOptions::new())?;
        load(dir, &State::new().model(&model))?;
        Ok(same(&crate::full_state_dict(&model)?))
    })?;
    assert_eq!(all, [true, true]);

    // What is in no form there is named.
    let other = sequential![Linear::new(4, 3), Linear::new(3, 5)];
    let e = load(dir, &State::new().model(&other)).expect_err("an error");
    assert!(e.to_string().contains("model.0.weight"), "{e}");
    Ok(())
}
