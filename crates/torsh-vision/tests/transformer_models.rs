//! Transformers, segmentation, videos and flow: sizes that do not fit, arguments that do not fit together, weights.

use torsh_core::random::LocalGenerator;
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{Result, Tensor, no_grad, rand, zeros};
use torsh_vision::models::optical_flow::RAFT;
use torsh_vision::models::segmentation::{FCN, LRASPP};
use torsh_vision::models::video::{MSBlockConfig, MViT, S3D, SwinTransformer3d, VideoResNet};
use torsh_vision::models::{
    ConvStemConfig, MaxVit, ModelOptions, SwinTransformer, SwinVersion, VisionTransformer,
    get_model,
};

/// The text of an error.
fn why<T>(result: Result<T>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

#[track_caller]
fn tells(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

fn vit() -> torsh_vision::models::VisionTransformerBuilder {
    VisionTransformer::builder()
        .image_size(16)
        .patch_size(8)
        .num_layers(1)
        .num_heads(2)
        .hidden_dim(8)
        .mlp_dim(16)
        .num_classes(5)
}

#[test]
fn sizes_that_do_not_fit_are_named() -> Result<()> {
    let model = vit().build()?;
    tells(
        &why(model.forward(&zeros(&[1, 3, 16, 24]))),
        &["VisionTransformer", "16 x 16", "16 x 24"],
    );
    tells(
        &why(model.forward(&zeros(&[3, 16, 16]))),
        &["[N, 3, H, W]", "unsqueeze(0)"],
    );
    tells(
        &why(model.forward(&zeros(&[1, 1, 16, 16]))),
        &["[N, 3, H, W]"],
    );
    tells(
        &why(vit().patch_size(5).build()),
        &["image_size 16", "patch_size 5"],
    );
    tells(&why(vit().num_heads(3).build()), &["num_heads=3"]);

    tells(
        &why(MaxVit::builder().input_size([100, 224]).build()),
        &["not divisible by the partition size 7"],
    );
    let swin = SwinTransformer::builder()
        .embed_dim(4)
        .depths([1])
        .num_heads([1])
        .num_classes(2)
        .build()?;
    tells(
        &why(swin.forward(&zeros(&[1, 3, 3, 8]))),
        &["smaller than a patch of 4 x 4"],
    );
    tells(
        &why(SwinTransformer::builder()
            .depths([1, 1])
            .num_heads([1])
            .build()),
        &["depths [1, 1]", "num_heads [1]"],
    );
    tells(
        &why(SwinTransformer::builder().num_heads([5, 6, 12, 24]).build()),
        &["96 channels do not divide into 5 heads"],
    );

    let block = MSBlockConfig::new(1, 4, 4);
    let mvit = || {
        MViT::builder()
            .block_setting([block])
            .spatial_size([16, 16])
            .temporal_size(4)
            .num_classes(2)
    };
    let model = mvit().build()?;
    tells(
        &why(model.forward(&zeros(&[1, 3, 4, 16, 32]))),
        &["4 pictures of 16 x 16"],
    );
    tells(
        &why(model.forward(&zeros(&[3, 4, 16]))),
        &["[N, 3, T, H, W]"],
    );
    tells(
        &why(mvit().block_setting(Vec::new()).build()),
        &["names no block"],
    );

    tells(
        &why(VideoResNet::builder().layers([1, 1]).build()),
        &["layers and conv_makers are four"],
    );
    let s3d = S3D::builder().num_classes(2).build()?;
    tells(
        &why(s3d.forward(&zeros(&[1, 3, 16, 112, 112]))),
        &["at least 13", "16 of 112 x 112"],
    );
    Ok(())
}

fn small_raft() -> torsh_vision::models::optical_flow::RAFTBuilder {
    RAFT::builder()
        .feature_encoder_layers([4, 4, 4, 4, 4])
        .context_encoder_layers([4, 4, 4, 4, 6])
        .corr_block_radius(1)
        .motion_encoder_corr_layers([4])
        .motion_encoder_flow_layers([4, 4])
        .motion_encoder_out_channels(4)
        .recurrent_block_hidden_state_size(4)
        .recurrent_block_kernel_size([[3, 3]])
        .flow_head_hidden_size(4)
        .use_mask_predictor(false)
}

#[test]
fn flow_names_what_does_not_fit() -> Result<()> {
    let raft = small_raft().build()?;
    let image = |h: usize, w: usize| zeros(&[1, 3, h, w]);
    let flow = |a: &Tensor, b: &Tensor| raft.forward_with(a, b, 1);
    tells(
        &why(flow(&image(128, 130), &image(128, 130))),
        &["divisible by 8", "128 x 130"],
    );
    tells(
        &why(flow(&image(128, 128), &image(128, 136))),
        &["differ in shape"],
    );
    tells(
        &why(flow(&image(120, 128), &image(120, 128))),
        &["at least 128", "120 x 128"],
    );
    tells(
        &why(flow(&zeros(&[3, 128, 128]), &zeros(&[3, 128, 128]))),
        &["[N, 3, H, W]"],
    );
    tells(
        &why(raft.forward(&image(128, 128))),
        &["[N, 2, 3, H, W]", "forward_with"],
    );
    tells(
        &why(small_raft().num_classes(3).build()),
        &["has no classes"],
    );
    tells(
        &why(small_raft().context_encoder_layers([4; 5]).build()),
        &["more than the 4"],
    );
    Ok(())
}

#[test]
fn a_pair_of_images_is_one_tensor_for_forward() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let raft = small_raft().build()?;
    raft.eval();
    let pair = rand(&[1, 2, 3, 128, 128]);
    let (one, many) = no_grad(|| {
        let (a, b) = (pair.select(1, 0)?, pair.select(1, 1)?);
        Ok((raft.forward(&pair)?, raft.forward_with(&a, &b, 12)?))
    })?;
    assert_eq!(many.len(), 12);
    assert_eq!(Some(&one), many.last());
    Ok(())
}

#[test]
fn old_names_of_vision_transformers_load() -> Result<()> {
    let _own = LocalGenerator::new(1).enter();
    let model = vit().build()?;
    let old: StateDict = model
        .state_dict()
        .into_iter()
        .map(|(key, t)| {
            let key = key
                .replace("mlp.0.", "mlp.linear_1.")
                .replace("mlp.3.", "mlp.linear_2.");
            (key, t)
        })
        .collect();
    let again = vit().weights(old).build()?;
    let x = rand(&[1, 3, 16, 16]);
    for m in [&model, &again] {
        m.eval();
    }
    assert_eq!(model.forward(&x)?, again.forward(&x)?);
    Ok(())
}

#[test]
fn a_stem_and_a_layer_ahead_of_the_head() -> Result<()> {
    let model = vit()
        .conv_stem_configs([ConvStemConfig::new(4, 3, 2), ConvStemConfig::new(8, 3, 4)])
        .representation_size(6)
        .build()?;
    let names: Vec<String> = model
        .named_parameters()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for name in [
        "conv_proj.conv_bn_relu_0.0.weight",
        "conv_proj.conv_last.bias",
        "heads.pre_logits.weight",
        "heads.head.weight",
    ] {
        assert!(
            names.iter().any(|n| n == name),
            "{name} is not in {names:?}"
        );
    }
    model.eval();
    assert_eq!(model.forward(&rand(&[2, 3, 16, 16]))?.dims(), [2, 5]);
    Ok(())
}

#[test]
fn weights_say_whether_there_is_an_auxiliary_head() -> Result<()> {
    let with = FCN::builder().num_classes(2).aux_loss(true).build()?;
    let state = with.state_dict();
    let x = rand(&[1, 3, 17, 17]);
    let again = FCN::builder().num_classes(2).weights(&state).build()?;
    for m in [&with, &again] {
        m.eval();
    }
    let (a, b) = (with.forward_with(&x)?, again.forward_with(&x)?);
    assert_eq!((a.out, a.aux), (b.out, b.aux));
    let without = FCN::builder()
        .num_classes(2)
        .aux_loss(false)
        .weights(&state)
        .build()?;
    without.eval();
    assert!(without.forward_with(&x)?.aux.is_none());
    // Another number of classes: the heads are new.
    let other = FCN::builder().num_classes(4).weights(&state).build()?;
    assert_eq!(other.state_dict()["classifier.4.weight"].dims()[0], 4);
    assert_eq!(
        other.state_dict()["backbone.conv1.weight"],
        state["backbone.conv1.weight"]
    );
    Ok(())
}

#[test]
fn models_train_and_take_other_sizes() -> Result<()> {
    let _own = LocalGenerator::new(2).enter();
    let swin = |version| {
        SwinTransformer::builder()
            .version(version)
            .embed_dim(4)
            .depths([2, 2])
            .num_heads([1, 2])
            .window_size([3, 3])
            .dropout(0.1)
            .attention_dropout(0.1)
            .num_classes(3)
            .build()
    };
    for version in [SwinVersion::V1, SwinVersion::V2] {
        let model = swin(version)?;
        model.forward(&rand(&[2, 3, 21, 34]))?.sum()?.backward()?;
        assert!(model.parameters().iter().all(|p| p.grad().is_some()));
    }
    let model = SwinTransformer3d::builder()
        .embed_dim(4)
        .depths([2])
        .num_heads([1])
        .window_size([2, 3, 3])
        .num_classes(3)
        .build()?;
    model
        .forward(&rand(&[1, 3, 3, 21, 34]))?
        .sum()?
        .backward()?;
    assert!(model.parameters().iter().all(|p| p.grad().is_some()));
    let lraspp = LRASPP::builder().num_classes(3).build()?;
    assert_eq!(
        lraspp.forward(&rand(&[2, 3, 33, 50]))?.dims(),
        [2, 3, 33, 50]
    );
    Ok(())
}

#[test]
fn keyword_arguments_go_by_name() -> Result<()> {
    let options = ModelOptions::default()
        .num_classes(7)
        .option("image_size", 32)
        .option("num_layers", 1);
    let model = get_model("vit_b_16", options)?;
    model.eval();
    assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 7]);
    let wrong = ModelOptions::default().option("image_sise", 32);
    tells(
        &why(get_model("vit_b_16", wrong)),
        &["no argument `image_sise`"],
    );
    Ok(())
}
