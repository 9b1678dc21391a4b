//! Pretrained weights: torchvision's names, addresses and preparations.

use std::collections::BTreeSet;

use serde_json::Value;
use torsh_tensor::{Device, Result};
use torsh_vision::models::detection::FasterRCNNResNet50FPNWeights;
use torsh_vision::models::{
    GoogLeNetWeights, ModelKind, ModelOptions, ResNet18Weights, ResNet50Weights, Weights,
    get_model, get_model_weights, get_weight, list_models, model_kind, resnet18, resnet50,
};

fn golden() -> Value {
    serde_json::from_str(include_str!("../data/weights.json")).unwrap()
}

#[test]
fn as_torchvision_has_them() -> Result<()> {
    let golden = golden();
    let golden = golden.as_object().unwrap();
    assert!(golden.len() > 110, "{}", golden.len());
    for (name, want) in golden {
        let own = get_weight(name)?;
        assert_eq!(own.name(), *name);
        assert_eq!(own.model(), want["model"], "{name}");
        assert_eq!(own.url(), want["url"], "{name}");
        assert_eq!(own.is_default(), want["default"], "{name}");
        assert_eq!(
            own.num_params(),
            want["num_params"].as_u64().unwrap() as usize,
            "{name}"
        );
        let classes = want["num_classes"].as_u64().unwrap() as usize;
        assert_eq!(own.categories().len(), classes, "{name}");
        assert_eq!(own.transforms().to_string(), want["transforms"], "{name}");
        if want["default"] == true {
            let default = get_weight(&format!("{}.DEFAULT", own.enum_name()))?;
            assert_eq!(default.name(), *name);
            assert_eq!(get_model_weights(own.model())?[0].name(), *name);
        }
        assert!(
            model_kind(own.model()).is_some(),
            "{name}: no model {}",
            own.model()
        );
        let prefix = own.sha256_prefix().unwrap_or_default();
        assert!(
            own.url().contains(prefix) && !own.metrics().is_empty(),
            "{name}"
        );
    }
    // Every model has weights, but for those that torchvision does not have.
    let with: BTreeSet<&str> = golden
        .values()
        .filter_map(|want| want["model"].as_str())
        .collect();
    let without: Vec<String> = list_models()
        .into_iter()
        .filter(|name| !with.contains(name.as_str()))
        .collect();
    assert!(
        without
            .iter()
            .all(|name| name.starts_with("efficientnet_lite")),
        "{without:?}"
    );
    Ok(())
}

#[test]
fn the_models_have_as_many_parameters() -> Result<()> {
    for name in list_models() {
        let Ok(weights) = get_model_weights(&name) else {
            continue;
        };
        let small = weights[0].num_params() < 70_000_000;
        if !small || model_kind(&name) != Some(ModelKind::Classification) {
            continue;
        }
        let mut options = ModelOptions::default().device(Device::Meta);
        if name == "googlenet" || name == "inception_v3" {
            let aux = name == "inception_v3";
            options = options.option("aux_logits", aux);
        }
        let model = get_model(&name, options)?;
        let own: usize = torsh_nn::ModuleExt::num_parameters(&*model);
        assert_eq!(own, weights[0].num_params(), "{name}");
    }
    Ok(())
}

#[test]
fn enums_and_names() -> Result<()> {
    assert_eq!(ResNet50Weights::DEFAULT, ResNet50Weights::Imagenet1kV2);
    assert_eq!(ResNet50Weights::ALL.len(), 2);
    assert_eq!(ResNet50Weights::default().metric("acc@1"), Some(80.858));
    assert_eq!(ResNet50Weights::Imagenet1kV1.min_size(), Some((1, 1)));
    assert_eq!(ResNet50Weights::Imagenet1kV1.categories()[281], "tabby");
    let coco = FasterRCNNResNet50FPNWeights::DEFAULT;
    assert_eq!(
        (coco.categories().len(), coco.categories()[18]),
        (91, "dog")
    );
    assert!(
        matches!(Weights::from(ResNet18Weights::DEFAULT), Weights::Pretrained(w) if w.variant() == "IMAGENET1K_V1")
    );
    assert_eq!(
        GoogLeNetWeights::DEFAULT.recipe(),
        Some("https://github.com/pytorch/vision/tree/main/references/classification#googlenet")
    );

    let url = ResNet18Weights::DEFAULT.url();
    assert!(matches!(Weights::from(url), Weights::Pretrained(_)));
    assert!(matches!(
        Weights::from("https://example.org/a.pth"),
        Weights::Url(_)
    ));
    assert!(matches!(Weights::from("DEFAULT"), Weights::Named(_)));
    assert!(matches!(
        Weights::from("ResNet50_Weights.DEFAULT"),
        Weights::Named(_)
    ));
    assert!(matches!(Weights::from("a/DEFAULT.pth"), Weights::File(_)));
    assert!(matches!(Weights::from("file:///a/b.pth"), Weights::File(p) if p.ends_with("b.pth")));
    if cfg!(windows) {
        let file = Weights::from("file:///C:/a.pth");
        assert!(matches!(file, Weights::File(p) if p == std::path::Path::new("C:/a.pth")));
    }

    let text = |e: torsh_tensor::TorshError| e.to_string();
    let unknown = get_weight("ResNet50_Weights.IMAGENET1K_V3")
        .map(drop)
        .unwrap_err();
    assert!(text(unknown).contains("IMAGENET1K_V2"));
    assert!(
        text(
            get_weight("Resnet51_Weights.DEFAULT")
                .map(drop)
                .unwrap_err()
        )
        .contains("ResNet50_Weights")
    );
    assert!(get_weight("ResNet50").is_err() && get_model_weights("resnet51").is_err());
    // Of another model: refused before anything is looked for.
    let other = text(resnet18(ResNet50Weights::DEFAULT).map(drop).unwrap_err());
    assert!(
        other.contains("weights of resnet50") && other.contains("ResNet18_Weights"),
        "{other}"
    );
    let other = text(resnet50("IMAGENET1K_V7").map(drop).unwrap_err());
    assert!(other.contains("IMAGENET1K_V7"), "{other}");
    Ok(())
}
