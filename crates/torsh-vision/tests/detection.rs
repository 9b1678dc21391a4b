//! Detectors on a small backbone: what they refuse, and what the golden cases do not have.

use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::{Conv2d, Module, ModuleExt, StateDict};
use torsh_tensor::{DType, Result, Tensor, ones, rand, tensor, zeros};
use torsh_vision::models::Weights;
use torsh_vision::models::blocks::{FeatureMaps, FrozenBatchNorm2d};
use torsh_vision::models::detection::{
    AnchorGenerator, Backbone, DefaultBoxGenerator, DefaultBoxOptions, Detector, DetectorOutput,
    FCOS, FasterRCNN, KeypointRCNN, MaskRCNN, RCNN, RCNNBackbone, RCNNBuilder, RetinaNet, SSD,
    Target, fasterrcnn_mobilenet_v3_large_fpn,
};
use torsh_vision::ops::MultiScaleRoIAlign;

#[derive(Module)]
struct Tiny {
    conv: Conv2d,
}

impl Module for Tiny {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.conv.forward(x)?.relu()
    }
}

impl Backbone for Tiny {
    fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
        Ok(vec![("0".into(), self.forward(x)?)])
    }

    fn out_channels(&self) -> Vec<usize> {
        vec![32]
    }
}

fn tiny() -> Result<Tiny> {
    Ok(Tiny {
        conv: Conv2d::new(3, 32, 8, 8, 0)?,
    })
}

fn small<M: RCNN>(builder: RCNNBuilder<M>) -> Result<M> {
    manual_seed(0);
    let pool = |size| MultiScaleRoIAlign::new(["0"], (size, size), 2);
    builder
        .num_classes(3)
        .min_size(vec![32])
        .max_size(64)
        .rpn_anchor_generator(AnchorGenerator::new(
            vec![vec![8.0, 16.0]],
            vec![vec![1.0]],
        )?)
        .box_roi_pool(pool(7))
        .mask_roi_pool(pool(4))
        .keypoint_roi_pool(pool(4))
        .box_score_thresh(0.0)
        .build_on(tiny()?)
}

fn target() -> Target {
    Target::new(tensor![[4.0, 4.0, 20.0, 24.0]], tensor![1])
}

fn refuses<T>(result: Result<T>, texts: &[&str]) {
    match result {
        Ok(_) => panic!("{texts:?} was taken"),
        Err(e) => {
            let e = e.to_string();
            assert!(
                texts.iter().all(|text| e.contains(text)),
                "{e} has not {texts:?}"
            );
        }
    }
}

#[test]
fn what_is_wrong_with_images_and_targets_is_named() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let model = small(FasterRCNN::builder())?;
    let image = || rand(&[3, 32, 48]);
    let losses = |target: Target| model.losses(&[image()], &[target]);
    refuses(
        losses(Target::new(
            tensor![[4.0, 4.0, 20.0, 24.0], [9.0, 3.0, 9.0, 8.0]],
            tensor![1, 1],
        )),
        &[
            "FasterRCNN",
            "box 1 of target 0 has no area",
            "9.0, 3.0, 9.0, 8.0",
        ],
    );
    refuses(
        losses(Target::new(tensor![[4.0, 4.0, 20.0]], tensor![1])),
        &["boxes of target 0", "[n, 4]"],
    );
    refuses(
        losses(Target::new(tensor![[4, 4, 20, 24]], tensor![1])),
        &["boxes of target 0", "floating point"],
    );
    refuses(
        losses(Target::new(tensor![[4.0, 4.0, 20.0, 24.0]], tensor![1.0])),
        &["labels of target 0", "int64"],
    );
    refuses(
        losses(Target::new(tensor![[4.0, 4.0, 20.0, 24.0]], tensor![1, 2])),
        &["labels of target 0", "one for each box"],
    );
    refuses(
        Target::from_named([("boxes", tensor![[0.0]])]),
        &["no labels"],
    );
    refuses(model.losses(&[image()], &[]), &["0 targets for 1 images"]);
    refuses(model.losses(&[], &[]), &["no images"]);
    refuses(
        model.losses(&[rand(&[1, 3, 32, 48])], &[target()]),
        &["image 0", "[3, h, w]"],
    );
    refuses(
        model.losses(&[rand(&[1, 32, 48])], &[target()]),
        &["image 0", "[3, h, w]"],
    );
    refuses(
        model.losses(&[image().to_dtype(DType::U8)?], &[target()]),
        &["image 0", "floating point"],
    );
    refuses(model.detect(&[image()]), &["training mode", "eval()"]);
    refuses(model.forward_with(&[image()], None), &["needs targets"]);
    refuses(model.forward(&image()), &["detect(&images)"]);
    refuses(
        small(MaskRCNN::builder())?.losses(&[image()], &[target()]),
        &["target 0 has no masks"],
    );
    refuses(
        small(MaskRCNN::builder())?.losses(&[image()], &[target().masks(zeros(&[1, 32, 32]))]),
        &["masks of target 0", "[1, 32, 48]"],
    );
    refuses(
        small(KeypointRCNN::builder())?.losses(&[image()], &[target()]),
        &["target 0 has no keypoints"],
    );
    Ok(())
}

#[test]
fn images_without_objects_have_losses_and_gradients() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let images = [rand(&[3, 32, 48]), rand(&[3, 40, 32])];
    let none = Target::new(zeros(&[0, 4]), zeros(&[0]).to_dtype(DType::I64)?);
    let mask = || none.clone().masks(zeros(&[0, 32, 48]));
    let other = || none.clone().masks(zeros(&[0, 40, 32]));
    let points = || none.clone().keypoints(zeros(&[0, 17, 3]));
    let boxes = DefaultBoxGenerator::new(vec![vec![2.0]], DefaultBoxOptions::new())?;
    let one = || AnchorGenerator::new(vec![vec![8.0]], vec![vec![1.0]]);
    let plain = [none.clone(), none.clone()];
    let models: [(Box<dyn Detector>, [Target; 2]); 6] = [
        (Box::new(small(FasterRCNN::builder())?), plain.clone()),
        (Box::new(small(MaskRCNN::builder())?), [mask(), other()]),
        (
            Box::new(small(KeypointRCNN::builder())?),
            [points(), points()],
        ),
        (
            Box::new(
                RetinaNet::builder()
                    .min_size(vec![32])
                    .anchor_generator(one()?)
                    .build_on(tiny()?)?,
            ),
            plain.clone(),
        ),
        (
            Box::new(
                FCOS::builder()
                    .min_size(vec![32])
                    .anchor_generator(one()?)
                    .build_on(tiny()?)?,
            ),
            plain.clone(),
        ),
        (
            Box::new(SSD::builder().build_on(tiny()?, boxes, (32, 32))?),
            plain,
        ),
    ];
    for (model, targets) in &models {
        let losses = model.losses(&images, targets)?;
        let total = losses.total()?;
        assert!(
            total.item::<f64>()?.is_finite(),
            "{}: {losses}",
            model.type_name()
        );
        total.backward()?;
        assert!(
            model.parameters()[0].grad().is_some(),
            "{}",
            model.type_name()
        );
    }
    Ok(())
}

#[test]
fn what_is_found_has_the_images_size_and_is_sorted() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    for (model, more) in [
        (
            Box::new(small(FasterRCNN::builder())?) as Box<dyn Detector>,
            3,
        ),
        (Box::new(small(MaskRCNN::builder())?), 4),
        (Box::new(small(KeypointRCNN::builder())?), 5),
    ] {
        model.eval();
        let images = [rand(&[3, 64, 96]), rand(&[3, 20, 20])];
        let DetectorOutput::Detections(found) = model.forward_with(&images, None)? else {
            panic!("a model in evaluation mode detects");
        };
        for (found, image) in found.iter().zip(&images) {
            assert_eq!(found.named().len(), more);
            assert!(!found.is_empty());
            let (h, w) = (image.dims()[1] as f64, image.dims()[2] as f64);
            assert!(found.boxes.max()?.item::<f64>()? <= h.max(w) + 1e-3);
            let scores = found.scores.to_vec::<f64>()?;
            assert!(scores.windows(2).all(|w| w[0] >= w[1]));
            if let Some(masks) = &found.masks {
                assert_eq!(
                    masks.dims(),
                    [found.len(), 1, image.dims()[1], image.dims()[2]]
                );
            }
            let none = found.above(2.0)?;
            assert!(none.is_empty() && none.boxes.dims() == [0, 4]);
        }
    }
    Ok(())
}

#[test]
fn nothing_is_found_above_a_score_that_nothing_has() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    for model in [
        Box::new(small(MaskRCNN::builder().box_score_thresh(0.0))?) as Box<dyn Detector>,
        Box::new(small(KeypointRCNN::builder())?),
    ] {
        model.eval();
        // Weights of 0 and biases that make all of it background.
        for (name, p) in model.named_parameters() {
            if name.starts_with("roi_heads.box_predictor.cls_score") {
                torsh_nn::init::zeros_(&p)?;
                if name.ends_with("bias") {
                    torsh_tensor::no_grad(|| p.copy_(&tensor![0.0, -1e4, -1e4]))?;
                }
            }
        }
        let found = model.detect(&[ones(&[3, 32, 48])])?;
        assert!(found[0].is_empty());
        if let Some(masks) = &found[0].masks {
            assert_eq!(masks.dims(), [0, 1, 32, 48]);
        }
        if let Some(points) = &found[0].keypoints {
            assert_eq!(points.dims(), [0, 17, 3]);
        }
    }
    Ok(())
}

fn frozen_norms(model: &FasterRCNN) -> usize {
    let modules = model.modules();
    let any = modules.iter().map(|m| *m as &dyn std::any::Any);
    any.filter(|m| m.is::<FrozenBatchNorm2d>()).count()
}

#[test]
fn weights_come_from_files_of_either_norm_and_of_older_names() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let model = fasterrcnn_mobilenet_v3_large_fpn(Weights::None)?;
    assert_eq!(frozen_norms(&model), 0);
    assert!(model.parameters().iter().all(|p| p.requires_grad()));
    let state = model.state_dict();
    // A file with the statistics of batch norms makes batch norms again; the first layers are not trained any more.
    let same = fasterrcnn_mobilenet_v3_large_fpn(&state)?;
    assert_eq!(frozen_norms(&same), 0);
    assert!(
        !same.parameters()[0].requires_grad()
            && same
                .roi_heads
                .box_predictor
                .cls_score
                .weight
                .requires_grad()
    );
    // One of before the heads were blocks, without them.
    let older = |name: &str| {
        let name = name.replace("rpn.head.conv.0.0.", "rpn.head.conv.");
        match name.starts_with("backbone.fpn.") {
            true => name
                .replace(".0.weight", ".weight")
                .replace(".0.bias", ".bias"),
            false => name,
        }
    };
    let state: StateDict = state
        .iter()
        .filter(|(name, _)| !name.ends_with("num_batches_tracked"))
        .map(|(name, t)| (older(name), t.clone()))
        .collect();
    assert!(state.contains_key("backbone.fpn.inner_blocks.1.bias"));
    let frozen = fasterrcnn_mobilenet_v3_large_fpn(&state)?;
    assert!(frozen_norms(&frozen) > 40);
    let (ours, theirs) = (frozen.state_dict(), model.state_dict());
    assert!(ours.iter().all(|(name, t)| theirs.get(name) == Some(t)));
    // Another number of classes: the head is new.
    let builder = FasterRCNN::builder().backbone(RCNNBackbone::MobileNetV3LargeFpn);
    let three = builder.num_classes(3).weights(&state).build()?;
    assert_eq!(three.roi_heads.box_predictor.bbox_pred.out_features(), 12);
    let name = "roi_heads.box_head.fc7.weight";
    assert_eq!(three.state_dict().get(name), theirs.get(name));
    let mut state = state;
    state.remove(name);
    refuses(
        fasterrcnn_mobilenet_v3_large_fpn(&state),
        &["FasterRCNN", name],
    );
    Ok(())
}
