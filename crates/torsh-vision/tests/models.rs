//! What the golden cases of models do not show: files of weights, errors, the registry.

use std::path::PathBuf;

use torsh_core::default_dtype;
use torsh_core::random::{default_generator, manual_seed};
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{DType, Device, Tensor, no_grad, ones, rand};
use torsh_train::config::ModelConfig;
use torsh_vision::feature_extraction::create_feature_extractor;
use torsh_vision::models::{
    DenseNet, GoogLeNet, ModelKind, ModelOptions, RegNet, ResNet, ResNetBlock, ResNetConfig, VGG,
    Weights, get_model, list_models, list_models_of, register_models, squeezenet1_1,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("torsh-vision-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small(classes: usize) -> ResNetConfig {
    ResNet::builder()
        .layers([1, 1, 1, 1])
        .base_channels(8)
        .num_classes(classes)
}

fn same(a: &impl Module, b: &impl Module) -> bool {
    let (a, b) = (a.state_dict(), b.state_dict());
    a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| x == y)
}

#[test]
fn weights_come_from_files_and_nothing_is_drawn() {
    let folder = Folder::new("files");
    let model = small(5).build().unwrap();
    for name in ["model.safetensors", "model.pth"] {
        let path = folder.file(name);
        model.save(&path).unwrap();
        let before = default_generator().get_state();
        let loaded = small(5).weights(&path).build().unwrap();
        assert_eq!(default_generator().get_state(), before);
        assert!(same(&model, &loaded), "{name}");
        let x = rand(&[1, 3, 32, 32]);
        model.eval();
        loaded.eval();
        assert_eq!(model.forward(&x).unwrap(), loaded.forward(&x).unwrap());
        assert!(loaded.parameters().iter().all(|p| p.requires_grad()));
        // Training changes the model, not the file.
        no_grad(|| loaded.fc.weight.fill_(1.0)).unwrap();
        assert!(same(&model, &small(5).weights(&path).build().unwrap()));
    }
}

#[test]
fn a_state_dict_is_copied_and_may_be_wrapped() {
    let model = small(5).build().unwrap();
    let state = model.state_dict();
    let loaded = small(5).weights(&state).build().unwrap();
    no_grad(|| loaded.fc.weight.fill_(7.0)).unwrap();
    assert_ne!(model.fc.weight.to_vec::<f32>().unwrap()[0], 7.0);

    let folder = Folder::new("wrapped");
    let parallel: StateDict = state
        .iter()
        .map(|(name, t)| (format!("module.{name}"), t.clone()))
        .collect();
    let value = torsh_serialize::Value::from([
        ("epoch", torsh_serialize::Value::from(3)),
        ("state_dict", torsh_serialize::Value::from(&parallel)),
    ]);
    let path = folder.file("checkpoint.pth");
    torsh_serialize::save(&value, &path).unwrap();
    assert!(same(&model, &small(5).weights(&path).build().unwrap()));
}

#[test]
fn another_number_of_classes_makes_a_new_head_only_where_asked_for() {
    let state = small(5).build().unwrap().state_dict();
    let new = small(3).weights(&state).build().unwrap();
    assert_eq!(new.fc.weight.dims(), [3, 64]);
    assert_eq!(new.state_dict()["conv1.weight"], state["conv1.weight"]);
    assert_ne!(new.fc.weight.to_vec::<f32>().unwrap(), [0.0; 3 * 64]);

    let builder = ResNet::builder().layers([1, 1, 1, 1]).base_channels(8);
    let error = builder.weights(&state).build().err().unwrap().to_string();
    assert!(
        error.contains("fc.weight is [1000, 64] here and [5, 64]"),
        "{error}"
    );
    assert!(error.contains("num_classes"), "{error}");
}

#[test]
fn all_that_does_not_fit_is_in_one_error() {
    let mut state = small(5).build().unwrap().state_dict();
    let first = state.remove("conv1.weight").unwrap();
    state.insert("conv_1.weight", first);
    state.insert("layer1.0.conv1.weight", ones(&[2, 2]));
    state.insert(
        "layer2.0.bn1.weight",
        Tensor::ones([16], DType::I64, Device::Cpu).unwrap(),
    );
    let error = small(5).weights(state).build().err().unwrap().to_string();
    for part in [
        "missing (1): conv1.weight (the weights have conv_1.weight)",
        "unexpected (1): conv_1.weight",
        "layer1.0.conv1.weight is [8, 8, 3, 3] here and [2, 2] in the weights",
        "layer2.0.bn1.weight is float32 here and int64 in the weights",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let error = small(5)
        .weights("/nowhere/model.pth")
        .build()
        .err()
        .unwrap();
    assert!(error.to_string().contains("/nowhere/model.pth"), "{error}");
}

#[test]
fn dtypes_and_devices_are_the_builders() {
    let state = small(5).build().unwrap().state_dict();
    let half = small(5).weights(&state).dtype(DType::BF16).build().unwrap();
    assert_eq!(half.fc.weight.dtype(), DType::BF16);
    assert_eq!(
        half.state_dict()["bn1.num_batches_tracked"].dtype(),
        DType::I64
    );
    let meta = small(5).device(Device::Meta).build().unwrap();
    assert!(meta.parameters().iter().all(|p| p.device() == Device::Meta));
    assert_eq!(default_dtype(), DType::F32);
    assert!(small(5).dtype(DType::I64).build().is_err());
}

#[test]
fn the_block_is_the_weights() {
    let deep = small(5).block(ResNetBlock::Bottleneck).build().unwrap();
    let loaded = small(5).weights(deep.state_dict()).build().unwrap();
    assert!(same(&deep, &loaded));
}

#[test]
fn old_names_and_missing_counts_load() {
    let model = DenseNet::builder()
        .growth_rate(4)
        .block_config([1, 1, 1, 1])
        .num_classes(3);
    let made = model.clone().build().unwrap();
    let old: StateDict = made
        .state_dict()
        .iter()
        .filter(|(name, _)| !name.ends_with("num_batches_tracked"))
        .map(|(name, t)| {
            let name = match name.contains("denselayer") {
                true => ["norm", "conv"].iter().fold(name.to_string(), |n, kind| {
                    n.replace(&format!(".{kind}1."), &format!(".{kind}.1."))
                        .replace(&format!(".{kind}2."), &format!(".{kind}.2."))
                }),
                false => name.to_string(),
            };
            (name, t.clone())
        })
        .collect();
    assert!(old.contains_key("features.denseblock1.denselayer1.norm.1.weight"));
    assert!(same(&made, &model.weights(old).build().unwrap()));
}

#[test]
fn auxiliary_heads_are_as_the_weights_have_them() {
    let builder = || GoogLeNet::builder().num_classes(4).init_weights(false);
    let with = builder().build().unwrap();
    let without = builder().aux_logits(Some(false)).build().unwrap();
    assert_eq!(with.parameters().len() - without.parameters().len(), 14);
    let loaded = builder().weights(without.state_dict()).build().unwrap();
    assert!(same(&without, &loaded));
    let dropped = builder()
        .weights(with.state_dict())
        .aux_logits(Some(false))
        .build()
        .unwrap();
    assert_eq!(dropped.parameters().len(), without.parameters().len());
}

#[test]
fn the_registry_knows_the_models() {
    register_models();
    register_models();
    let names = list_models();
    for name in [
        "alexnet",
        "resnet50",
        "vgg19_bn",
        "regnet_x_3_2gf",
        "efficientnet_lite4",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
    let classifiers = list_models_of(ModelKind::Classification);
    assert!(classifiers.iter().all(|name| names.contains(name)));
    let narrow = get_model(
        "regnet_x_3_2gf",
        ModelOptions::default().device(Device::Meta),
    )
    .unwrap();
    assert_eq!(narrow.num_parameters(), 15_296_552);
    let config = ModelConfig {
        num_classes: 7,
        device: "meta".into(),
        ..ModelConfig::new("regnet_x_32gf")
    };
    let wide = torsh_train::registry::create_model(&config).unwrap();
    assert_eq!(wide.state_dict()["fc.weight"].dims(), [7, 2520]);

    let error = get_model("resnet51", Weights::None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("no model `resnet51`") && error.contains("resnet50"),
        "{error}"
    );
    let options = ModelOptions::default().option("depth", 3);
    let error = get_model("alexnet", options).err().unwrap().to_string();
    assert!(error.contains("no argument `depth`"), "{error}");
}

#[test]
fn the_guides_forms_are_one_function() {
    let a = ResNet::resnet18((1000, Device::Meta)).unwrap();
    let b = ResNet::resnet18(ResNetConfig::default().device(Device::Meta)).unwrap();
    let config = ModelConfig {
        num_classes: 1000,
        ..ModelConfig::new("resnet18")
    };
    let c = ResNet::resnet18(&config).unwrap();
    for model in [&a, &b, &c] {
        assert_eq!(model.num_parameters(), 11_689_512);
    }
}

#[test]
fn arguments_that_do_not_fit_are_errors() {
    assert!(ResNet::builder().layers([1, 1, 1]).build().is_err());
    assert!(small(5).groups(2).build().is_err());
    assert!(
        VGG::builder()
            .dropout(2.0)
            .device(Device::Meta)
            .build()
            .is_err()
    );
    assert!(RegNet::builder().w_0(7).build().is_err());
}

#[test]
fn features_come_by_name_and_hooks_go() {
    manual_seed(0);
    let model = small(5).build().unwrap();
    model.eval();
    let x = rand(&[1, 3, 32, 32]);
    let extractor =
        create_feature_extractor(&model, [("layer1.0.conv1", "early"), ("fc", "out")]).unwrap();
    let found = extractor.forward(&x).unwrap();
    assert_eq!(
        (found[0].0.as_str(), found[0].1.dims()),
        ("early", &[1, 8, 8, 8][..])
    );
    assert_eq!(found[1].1, model.forward(&x).unwrap());
    let error = create_feature_extractor(&model, ["layer5"])
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("no layer `layer5`") && error.contains("layer4"),
        "{error}"
    );
    let fire = squeezenet1_1(Weights::None).unwrap();
    assert!(create_feature_extractor(&fire, ["features.3.squeeze"]).is_ok());
}
