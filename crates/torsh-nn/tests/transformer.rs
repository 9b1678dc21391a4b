//! Attention and transformers.

use crate::pytorch::{Case, same_start};
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::{
    LayerNorm, Module, ModuleExt, MultiheadAttention, MultiheadAttentionOptions, Transformer,
    TransformerActivation, TransformerDecoder, TransformerDecoderLayer,
    TransformerDecoderLayerOptions, TransformerDecoderOptions, TransformerEncoder,
    TransformerEncoderLayer, TransformerEncoderOptions, TransformerOptions,
};
use torsh_tensor::{BlockMask, Device, IscloseOptions, Tensor, no_grad, randn, tensor};

fn causal(n: usize) -> Tensor {
    Transformer::generate_square_subsequent_mask(n).unwrap()
}

fn padding() -> Tensor {
    tensor![[false, false, false, true], [false, false, false, false]]
}

#[test]
fn attention_with_keys_of_other_sizes() {
    let case = Case::new("mha");
    let layer = MultiheadAttention::builder(6, 2)
        .kdim(5)
        .vdim(3)
        .add_bias_kv(true)
        .add_zero_attn(true)
        .build()
        .unwrap();
    case.load(&layer);
    let [q, k, v] = ["q", "k", "v"].map(|n| case.input(n));
    let options = MultiheadAttentionOptions::new()
        .average_attn_weights(false)
        .key_padding_mask(&tensor![[false, true, false], [false, false, false]]);
    let (y, weights) = layer.forward_with(&q, &k, &v, options).unwrap();
    case.check(
        &layer,
        &[y, weights.unwrap()],
        &[("q", &q), ("k", &k), ("v", &v)],
    );
}

/// Blocks are what a mask of bool says that is true where a key does not count.
#[test]
fn attention_over_blocks() {
    let _generator = LocalGenerator::new(0).enter();
    let layer = MultiheadAttention::builder(6, 2)
        .batch_first(true)
        .build()
        .unwrap();
    let x = randn(&[2, 100, 6]);
    let blocks = BlockMask::documents(&[70, 30]).unwrap();
    let options = || MultiheadAttentionOptions::new().need_weights(false);
    let by_blocks = options().block_mask(&blocks);
    let (y, weights) = layer.forward_with(&x, &x, &x, by_blocks.clone()).unwrap();
    assert!(weights.is_none());
    let seen = blocks
        .to_mask(Device::Cpu)
        .unwrap()
        .reshape([100, 100])
        .unwrap();
    let by_mask = options().attn_mask(&seen.logical_not().unwrap());
    let (want, _) = layer.forward_with(&x, &x, &x, by_mask).unwrap();
    assert!(
        y.allclose_with(&want, IscloseOptions::new().atol(1e-5))
            .unwrap()
    );
    for (other, why) in [
        (by_blocks.clone().need_weights(true), "need_weights"),
        (by_blocks.clone().attn_mask(&seen), "attn_mask"),
        (by_blocks.clone().is_causal(true), "is_causal"),
        (
            by_blocks.key_padding_mask(&seen.narrow(0, 0, 2).unwrap()),
            "key_padding_mask",
        ),
    ] {
        let error = layer
            .forward_with(&x, &x, &x, other)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("block_mask does not go with {why}")),
            "{error}"
        );
    }
}

#[test]
fn attention_without_weights() {
    let case = Case::new("mha_causal");
    let layer = MultiheadAttention::builder(6, 3)
        .batch_first(true)
        .build()
        .unwrap();
    case.load(&layer);
    let q = case.input("q");
    let options = MultiheadAttentionOptions::new()
        .attn_mask(&causal(4))
        .is_causal(true)
        .need_weights(false);
    let (y, weights) = layer.forward_with(&q, &q, &q, options).unwrap();
    assert!(weights.is_none());
    case.check(&layer, &[y], &[("q", &q)]);

    let case = Case::new("mha_memory");
    let layer = MultiheadAttention::builder(6, 3)
        .bias(false)
        .build()
        .unwrap();
    case.load(&layer);
    let [q, k, mask] = ["q", "k", "mask"].map(|n| case.input(n));
    let options = MultiheadAttentionOptions::new()
        .attn_mask(&mask)
        .need_weights(false);
    let (y, _) = layer.forward_with(&q, &k, &k, options).unwrap();
    case.check(&layer, &[y], &[("q", &q), ("k", &k), ("mask", &mask)]);
}

#[test]
fn attention_drops_weights_as_pytorch_does() {
    LocalGenerator::new(0).scope(|| {
        let case = Case::new("mha_dropout");
        let layer = MultiheadAttention::builder(6, 2)
            .dropout(0.3)
            .build()
            .unwrap();
        case.load(&layer);
        let q = case.input("q");
        manual_seed(5);
        let (y, weights) = layer
            .forward_with(&q, &q, &q, MultiheadAttentionOptions::new())
            .unwrap();
        case.check(&layer, &[y, weights.unwrap()], &[("q", &q)]);
    })
}

#[test]
fn errors_of_attention() {
    let text = |e: torsh_tensor::TorshError| e.to_string();
    let error = MultiheadAttention::new(6, 4).err().map(text).unwrap();
    assert!(error.contains("divisible"), "{error}");
    let layer = MultiheadAttention::new(6, 3).unwrap();
    let x = torsh_tensor::ones(&[4, 2, 6]);
    let error = Module::forward(&layer, &x).map_err(text).unwrap_err();
    assert!(error.contains("forward_with"), "{error}");
    let call =
        |o: MultiheadAttentionOptions| layer.forward_with(&x, &x, &x, o).map_err(text).unwrap_err();
    let error = call(MultiheadAttentionOptions::new().is_causal(true));
    assert!(error.contains("attn_mask"), "{error}");
    let error = call(MultiheadAttentionOptions::new().attn_mask(&causal(3)));
    assert!(
        error.contains("[4, 4]") && error.contains("[3, 3]"),
        "{error}"
    );
    let error = call(MultiheadAttentionOptions::new().key_padding_mask(&padding().t().unwrap()));
    assert!(error.contains("key_padding_mask"), "{error}");
    let y = torsh_tensor::ones(&[4, 3, 6]);
    let error = layer
        .forward_with(&x, &y, &y, MultiheadAttentionOptions::new())
        .map_err(text)
        .unwrap_err();
    assert!(error.contains("MultiheadAttention"), "{error}");
}

fn encoder_layer() -> torsh_nn::TransformerEncoderLayerBuilder {
    TransformerEncoderLayer::builder(4, 2).dim_feedforward(8)
}

fn decoder_layer() -> torsh_nn::TransformerDecoderLayerBuilder {
    TransformerDecoderLayer::builder(4, 2).dim_feedforward(8)
}

fn norm() -> LayerNorm {
    LayerNorm::new([4]).unwrap()
}

#[test]
fn encoders() {
    let case = Case::new("encoder");
    let layer = encoder_layer()
        .dropout(0.0)
        .norm_first(true)
        .activation(TransformerActivation::GELU)
        .build()
        .unwrap();
    let encoder = TransformerEncoder::builder(layer, 2)
        .norm(norm())
        .build()
        .unwrap();
    case.load(&encoder);
    let x = case.input("x");
    let options = TransformerEncoderOptions::new()
        .mask(&causal(4))
        .src_key_padding_mask(&padding());
    let y = encoder.forward_with(&x, options).unwrap();
    case.check(&encoder, &[y], &[("x", &x)]);

    let case = Case::new("encoder_causal");
    let layer = encoder_layer()
        .dropout(0.0)
        .batch_first(true)
        .build()
        .unwrap();
    let encoder = TransformerEncoder::new(layer, 2).unwrap();
    case.load(&encoder);
    let x = case.input("x");
    let options = TransformerEncoderOptions::new().mask(&causal(4));
    let y = encoder.forward_with(&x, options).unwrap();
    case.check(&encoder, &[y], &[("x", &x)]);
}

/// PyTorch leaves padding out in evaluation, and puts zeros there ahead of the last norm.
#[test]
fn padding_in_evaluation() {
    let case = Case::new("encoder_eval");
    let layer = encoder_layer().batch_first(true).build().unwrap();
    let encoder = TransformerEncoder::builder(layer, 2)
        .norm(norm())
        .build()
        .unwrap();
    case.load(&encoder);
    encoder.eval();
    let x = case.input("x");
    let options = || TransformerEncoderOptions::new().src_key_padding_mask(&padding());
    let y = no_grad(|| encoder.forward_with(&x, options())).unwrap();
    case.compare("out.0", &y);
    let recorded = encoder.forward_with(&x, options()).unwrap();
    let row = |t: &Tensor| t.select(0, 0).unwrap().select(0, 3).unwrap();
    assert!(!row(&recorded).allclose(&row(&y)).unwrap());
    let ahead = |t: &Tensor| t.select(0, 0).unwrap().narrow(0, 0, 3).unwrap();
    assert!(ahead(&recorded).allclose(&ahead(&y)).unwrap());
}

#[test]
fn layers_drop_as_pytorch_does() {
    LocalGenerator::new(0).scope(|| {
        let case = Case::new("encoder_dropout");
        let layer = encoder_layer().dropout(0.2).build().unwrap();
        case.load(&layer);
        let x = case.input("x");
        manual_seed(6);
        let y = layer.forward(&x).unwrap();
        case.check(&layer, &[y], &[("x", &x)]);

        let case = Case::new("decoder_dropout");
        let layer = decoder_layer()
            .dropout(0.2)
            .norm_first(true)
            .batch_first(true)
            .build()
            .unwrap();
        case.load(&layer);
        let [x, memory] = ["x", "memory"].map(|n| case.input(n));
        manual_seed(7);
        let y = layer
            .forward_with(&x, &memory, TransformerDecoderLayerOptions::new())
            .unwrap();
        case.check(&layer, &[y], &[("x", &x), ("memory", &memory)]);
    })
}

#[test]
fn decoders() {
    let case = Case::new("decoder");
    let layer = decoder_layer().dropout(0.0).build().unwrap();
    let decoder = TransformerDecoder::builder(layer, 2)
        .norm(norm())
        .build()
        .unwrap();
    case.load(&decoder);
    let [x, memory] = ["x", "memory"].map(|n| case.input(n));
    let options = TransformerDecoderOptions::new()
        .tgt_mask(&causal(3))
        .memory_key_padding_mask(&padding());
    let y = decoder.forward_with(&x, &memory, options).unwrap();
    case.check(&decoder, &[y], &[("x", &x), ("memory", &memory)]);
}

#[test]
fn transformer() {
    let case = Case::new("transformer");
    let model = Transformer::builder(4, 2)
        .num_encoder_layers(1)
        .num_decoder_layers(2)
        .dim_feedforward(8)
        .dropout(0.0)
        .activation(TransformerActivation::GELU)
        .batch_first(true)
        .bias(false)
        .build()
        .unwrap();
    case.load(&model);
    let [x, t] = ["x", "t"].map(|n| case.input(n));
    let options = TransformerOptions::new()
        .tgt_mask(&causal(3))
        .src_key_padding_mask(&padding())
        .memory_key_padding_mask(&padding());
    let y = model.forward_with(&x, &t, options).unwrap();
    case.check(&model, &[y], &[("x", &x), ("t", &t)]);
    let short = t.narrow(0, 0, 1).unwrap();
    let error = model.forward_with(&x, &short, TransformerOptions::new());
    assert!(error.unwrap_err().to_string().contains("batch number"));
}

/// The layers of a stack are copies, whose making draws nothing.
#[test]
fn weights_are_drawn_as_pytorch_draws_them() {
    LocalGenerator::new(0).scope(|| {
        manual_seed(11);
        // What PyTorch makes ahead of them.
        use torsh_nn::{GRU, GRUCell, LSTM, RNN};
        let lstm = LSTM::builder(3, 4)
            .num_layers(2)
            .bidirectional(true)
            .proj_size(2);
        lstm.build().unwrap();
        GRU::new(3, 4).unwrap();
        RNN::builder(3, 4).bias(false).build().unwrap();
        GRUCell::new(3, 4).unwrap();
        let attention = MultiheadAttention::builder(4, 2);
        attention.clone().add_bias_kv(true).build().unwrap();
        attention.kdim(3).vdim(5).build().unwrap();

        let layer = encoder_layer().build().unwrap();
        let encoder = TransformerEncoder::builder(layer, 2)
            .norm(norm())
            .build()
            .unwrap();
        same_start("init_encoder", &encoder);
        let [first, second] = [0, 1].map(|i| encoder.layers[i].linear1.weight.clone());
        assert!(!first.is_same(&second) && !first.shares_storage(&second));
        same_start("init_decoder", &decoder_layer().build().unwrap());
        let model = Transformer::builder(4, 2)
            .num_encoder_layers(2)
            .num_decoder_layers(1)
            .dim_feedforward(8)
            .build()
            .unwrap();
        same_start("init_transformer", &model);
    })
}
