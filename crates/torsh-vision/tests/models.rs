//! What the golden cases of models do not show: files of weights, errors, the registry.

use std::path::PathBuf;

use torsh_core::default_dtype;
use torsh_core::random::{LocalGenerator, default_generator};
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{DType, Device, Tensor, no_grad, ones, rand};
use torsh_train::config::ModelConfig;
use torsh_vision::feature_extraction::create_feature_extractor;
use torsh_vision::models::{
    DenseNet, GoogLeNet, MNASNet, ModelKind, ModelOptions, RegNet, ResNet, ResNetBlock,
    ResNetConfig, VGG, VisionTransformer, VisionTransformerBuilder, Weights, get_model,
    list_models, list_models_of, mnasnet0_5, register_models, squeezenet1_1,
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
        // Other tests draw from the default generator meanwhile.
        let loaded = LocalGenerator::new(0).scope(|| {
            let before = default_generator().get_state();
            let loaded = small(5).weights(&path).build().unwrap();
            assert_eq!(default_generator().get_state(), before);
            loaded
        });
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

/// PyTorch 0.3 had no tensors without dimensions.
#[test]
fn counts_of_one_element_load() {
    let made = small(5).build().unwrap();
    let mut old = made.state_dict();
    for (name, t) in made.state_dict() {
        if name.ends_with("num_batches_tracked") {
            old.insert(name, t.add(7).unwrap().reshape([1]).unwrap());
        }
    }
    let loaded = small(5).weights(&old).build().unwrap().state_dict();
    assert_eq!(loaded["bn1.num_batches_tracked"].ndim(), 0);
    assert_eq!(loaded["bn1.num_batches_tracked"].item::<i64>().unwrap(), 7);
    made.load_state_dict(&old).unwrap();
    assert_eq!(
        made.state_dict()["bn1.num_batches_tracked"]
            .item::<i64>()
            .unwrap(),
        7
    );
}

/// The tensors of a checkpoint of version 1 of `mnasnet0_5` for 10 classes, each number a formula of its place.
fn mnasnet_v1() -> StateDict {
    let model = MNASNet::builder().alpha(0.5).num_classes(10);
    let of_version_2 = model.build().unwrap().state_dict();
    let stem = |name: &str| -> Option<Vec<usize>> {
        Some(match name {
            "layers.0.weight" => vec![32, 3, 3, 3],
            "layers.3.weight" => vec![32, 1, 3, 3],
            "layers.6.weight" => vec![16, 32, 1, 1],
            "layers.8.0.layers.0.weight" => vec![48, 16, 1, 1],
            "layers.8.0.layers.3.weight" => vec![48, 1, 3, 3],
            "layers.8.0.layers.6.weight" => vec![16, 48, 1, 1],
            _ if name.ends_with("tracked") => return None,
            _ if name.starts_with("layers.1.") || name.starts_with("layers.4.") => vec![32],
            _ if name.starts_with("layers.7.") => vec![16],
            _ if ["1", "4"]
                .iter()
                .any(|n| name.starts_with(&format!("layers.8.0.layers.{n}."))) =>
            {
                vec![48]
            }
            _ => return None,
        })
    };
    let formula = |(k, (name, tensor)): (usize, (&str, &Tensor))| {
        if name.ends_with("tracked") {
            return (name.to_string(), tensor.clone());
        }
        let dims = stem(name).unwrap_or_else(|| tensor.dims().to_vec());
        let n: usize = dims.iter().product();
        let (factor, shift) = match name {
            _ if dims.len() > 1 => ((2.0 / (n / dims[0]) as f64).sqrt(), 0.0),
            _ if name.ends_with("running_var") => (0.5, 1.0),
            _ if name.ends_with(".weight") => (0.2, 1.0),
            _ => (0.1, 0.0),
        };
        let number = |i| (factor * (0.37 * i as f64 + k as f64).sin() + shift) as f32;
        let numbers: Vec<f32> = (0..n).map(number).collect();
        (name.to_string(), Tensor::from_data(&numbers, dims).unwrap())
    };
    of_version_2.iter().enumerate().map(formula).collect()
}

#[test]
fn checkpoints_of_the_first_mnasnet_load() {
    let state = mnasnet_v1();
    let folder = Folder::new("mnasnet");
    let path = folder.file("mnasnet0_5.pth");
    state.save(&path).unwrap();
    let builder = || MNASNet::builder().alpha(0.5).num_classes(10);
    let model = builder().weights(&path).build().unwrap();
    assert_eq!(model.num_parameters(), 952_634);
    assert!(
        model
            .state_dict()
            .iter()
            .zip(state.iter())
            .all(|(a, b)| a == b)
    );
    let x: Vec<f32> = (0..3 * 64 * 64)
        .map(|i| (0.11 * f64::from(i)).cos() as f32)
        .collect();
    let x = Tensor::from_data(&x, [1, 3, 64, 64]).unwrap();
    model.eval();
    let y = model.forward(&x).unwrap().to_vec::<f64>().unwrap();
    // torchvision's model with these weights.
    let expected = [
        63.3095, 74.5186, -169.4440, 166.1507, -66.6950, -71.2643, 168.1807, -167.4567, 70.1235,
        68.1215,
    ];
    assert!(
        y.iter().zip(expected).all(|(y, e)| (y - e).abs() < 2e-3),
        "{y:?}"
    );

    // What it was made of is what it saves, and a new head leaves the stem as it was.
    model.save(&path).unwrap();
    let again = mnasnet0_5(&path).err().unwrap().to_string();
    assert!(
        again.contains("classifier.1.weight is [1000, 1280] here and [10, 1280]"),
        "{again}"
    );
    assert!(!again.contains("layers.0.weight"), "{again}");
    let new = builder().num_classes(3).weights(&path).build().unwrap();
    assert_eq!(
        new.state_dict()["layers.0.weight"],
        state["layers.0.weight"]
    );
    assert_eq!(new.state_dict()["classifier.1.weight"].dims(), [3, 1280]);

    // Of the second version nothing changes, and at full width both are one.
    let second = builder().build().unwrap();
    assert_eq!(second.state_dict()["layers.0.weight"].dims(), [16, 3, 3, 3]);
    let loaded = builder().weights(second.state_dict()).build().unwrap();
    assert!(same(&second, &loaded));
    let full = MNASNet::builder()
        .num_classes(2)
        .device(Device::Meta)
        .build();
    assert_eq!(
        full.unwrap().state_dict()["layers.0.weight"].dims(),
        [32, 3, 3, 3]
    );
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

    let error = torsh_train::registry::create_model(&ModelConfig::new("vit_base"))
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("no model `vit_base`") && error.contains("there are vit_b_16, vit_b_32, of"),
        "{error}"
    );
    assert!(!error.contains("register"), "{error}");
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
        device: "meta".into(),
        ..ModelConfig::new("resnet18")
    };
    let c = ResNet::resnet18(&config).unwrap();
    let d = ResNet::new(config.clone()).unwrap();
    for model in [&a, &b, &c, &d] {
        assert_eq!(model.num_parameters(), 11_689_512);
        assert_eq!(model.fc.weight.device(), Device::Meta);
    }
    let own = ModelConfig {
        num_classes: 0,
        ..config.clone()
    };
    assert_eq!(ResNet::resnet50(own).unwrap().num_parameters(), 25_557_032);
    let base = VisionTransformer::base(config.clone()).unwrap();
    assert_eq!(base.num_parameters(), 86_567_656);
    let of_size = |f: fn(VisionTransformerBuilder) -> torsh_tensor::Result<VisionTransformer>| {
        f(VisionTransformer::builder().device(Device::Meta))
            .unwrap()
            .num_parameters()
    };
    assert_eq!(of_size(VisionTransformer::large), 304_326_632);
    assert_eq!(of_size(VisionTransformer::huge), 632_045_800);
}

#[test]
fn a_configuration_says_all_of_a_model() {
    let mut config = ModelConfig {
        num_classes: 4,
        dtype: "float64".into(),
        ..ModelConfig::new("vit")
    };
    for (name, value) in [("image_size", 32), ("num_layers", 1), ("mlp_dim", 8)] {
        config.options.insert(name.into(), value.into());
    }
    let model = VisionTransformer::new(config.clone()).unwrap();
    let x = Tensor::zeros([1, 3, 32, 32], DType::F64, Device::Cpu).unwrap();
    let y = model.forward(&x).unwrap();
    assert_eq!((y.dims(), y.dtype()), (&[1, 4][..], DType::F64));
    assert_eq!(
        model.state_dict()["encoder.layers.encoder_layer_0.mlp.0.weight"].dims(),
        [8, 768]
    );

    // A setter that comes later counts; what cannot be is an error of build.
    let later = VisionTransformerBuilder::from(&config).num_classes(6);
    let later = later.device(Device::Meta).build().unwrap();
    assert_eq!(later.state_dict()["heads.head.bias"].dims(), [6]);
    let refused = |change: fn(&mut ModelConfig)| {
        let mut config = config.clone();
        change(&mut config);
        let error = VisionTransformer::base(config).err().unwrap();
        error.to_string()
    };
    let e = refused(|c| c.device = "gpu9".into());
    assert!(e.contains("vit_b_16") && e.contains("gpu9"), "{e}");
    let e = refused(|c| drop(c.options.insert("image_sise".into(), 8.into())));
    assert!(e.contains("no argument `image_sise`"), "{e}");
    let e = refused(|c| drop(c.options.insert("num_heads".into(), "two".into())));
    assert!(e.contains("num_heads"), "{e}");
    let e = refused(|c| c.pretrained = Some("/nowhere/vit.pth".into()));
    assert!(e.contains("/nowhere/vit.pth"), "{e}");
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
    let _own = LocalGenerator::new(0).enter();
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

/// The checkpoint of torchvision's training has an `argparse.Namespace` beside the state dict.
#[test]
fn weights_beside_objects_of_python() {
    use std::io::{Read, Write};
    use torsh_serialize::Value;
    let model = small(5).build().unwrap();
    let pid = std::process::id();
    let path = std::env::temp_dir().join(format!("torsh-vision-args-{pid}.pth"));
    let value = [
        ("model", Value::from(&model.state_dict())),
        ("args", Value::from("NAMESPACE")),
        ("epoch", Value::from(90)),
    ];
    torsh_serialize::pt::save(&Value::from(value), &path).unwrap();
    let mut from = zip::ZipArchive::new(std::fs::File::open(&path).unwrap()).unwrap();
    let mut to = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for i in 0..from.len() {
        let mut entry = from.by_index(i).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if entry.name().ends_with("data.pkl") {
            // GLOBAL, EMPTY_TUPLE, NEWOBJ in the place of the text.
            let text = b"X\x09\0\0\0NAMESPACE";
            let at = bytes.windows(text.len()).position(|w| w == text).unwrap();
            bytes.splice(at..at + text.len(), *b"cargparse\nNamespace\n)\x81");
        }
        let stored = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        to.start_file(entry.name(), stored).unwrap();
        to.write_all(&bytes).unwrap();
    }
    drop(from);
    std::fs::write(&path, to.finish().unwrap().into_inner()).unwrap();

    let error = torsh_serialize::load(&path).unwrap_err().to_string();
    assert!(error.contains("argparse.Namespace"), "{error}");
    let again = small(5)
        .weights(path.display().to_string())
        .build()
        .unwrap();
    assert!(same(&again, &model));
    std::fs::remove_file(&path).unwrap();
}
