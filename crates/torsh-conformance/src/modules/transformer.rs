//! Attention and transformers.

use torsh_nn::*;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Args, Built, with};

fn activation(a: &Args, at: usize) -> Result<TransformerActivation> {
    match a.or(at, "activation", "relu".to_string())?.as_str() {
        "relu" => Ok(TransformerActivation::ReLU),
        "gelu" => Ok(TransformerActivation::GELU),
        other => Err(TorshError::invalid(
            "Transformer",
            format!("activation is {other}"),
        )),
    }
}

/// A layer or transformer of PyTorch's arguments from `dim_feedforward` on.
macro_rules! layer {
    ($a:ident, $builder:expr, $at:literal, $eps:literal) => {
        $builder
            .dim_feedforward($a.or($at, "dim_feedforward", 2048)?)
            .dropout($a.or($at + 1, "dropout", 0.1)?)
            .activation(activation($a, $at + 2)?)
            .layer_norm_eps($a.or($eps, "layer_norm_eps", 1e-5)?)
            .batch_first($a.or($eps + 1, "batch_first", false)?)
            .norm_first($a.or($eps + 2, "norm_first", false)?)
            .bias($a.or($eps + 3, "bias", true)?)
            .build()?
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let sizes = || Ok::<_, TorshError>((a.at(0, "d_model")?, a.at(1, "nhead")?));
    Ok(Some(match name {
        "MultiheadAttention" => with(
            MultiheadAttention::builder(a.at(0, "embed_dim")?, a.at(1, "num_heads")?)
                .dropout(a.or(2, "dropout", 0.0)?)
                .bias(a.or(3, "bias", true)?)
                .add_bias_kv(a.or(4, "add_bias_kv", false)?)
                .add_zero_attn(a.or(5, "add_zero_attn", false)?)
                .kdim(a.opt::<usize>(6, "kdim")?)
                .vdim(a.opt::<usize>(7, "vdim")?)
                .batch_first(a.or(8, "batch_first", false)?)
                .build()?,
            |m: &MultiheadAttention, c| {
                let [q, k, v]: [Tensor; 3] =
                    [c.at(0, "query")?, c.at(1, "key")?, c.at(2, "value")?];
                let options = MultiheadAttentionOptions {
                    key_padding_mask: c.opt(3, "key_padding_mask")?,
                    need_weights: c.or(4, "need_weights", true)?,
                    attn_mask: c.opt(5, "attn_mask")?,
                    average_attn_weights: c.or(6, "average_attn_weights", true)?,
                    is_causal: c.or(7, "is_causal", false)?,
                    block_mask: None,
                };
                let (y, weights) = m.forward_with(&q, &k, &v, options)?;
                Ok([Some(y), weights].into_iter().flatten().collect())
            },
        ),
        "TransformerEncoderLayer" => {
            let (d_model, nhead) = sizes()?;
            let builder = TransformerEncoderLayer::builder(d_model, nhead);
            with(
                layer!(a, builder, 2, 5),
                |m: &TransformerEncoderLayer, c| {
                    let options = TransformerEncoderLayerOptions {
                        src_mask: c.opt(1, "src_mask")?,
                        src_key_padding_mask: c.opt(2, "src_key_padding_mask")?,
                        is_causal: c.or(3, "is_causal", false)?,
                    };
                    Ok(vec![m.forward_with(&c.at(0, "src")?, options)?])
                },
            )
        }
        "TransformerDecoderLayer" => {
            let (d_model, nhead) = sizes()?;
            let builder = TransformerDecoderLayer::builder(d_model, nhead);
            with(
                layer!(a, builder, 2, 5),
                |m: &TransformerDecoderLayer, c| {
                    let options = TransformerDecoderLayerOptions {
                        tgt_mask: c.opt(2, "tgt_mask")?,
                        memory_mask: c.opt(3, "memory_mask")?,
                        tgt_key_padding_mask: c.opt(4, "tgt_key_padding_mask")?,
                        memory_key_padding_mask: c.opt(5, "memory_key_padding_mask")?,
                        tgt_is_causal: c.or(6, "tgt_is_causal", false)?,
                        memory_is_causal: c.or(7, "memory_is_causal", false)?,
                    };
                    let (tgt, memory) = (c.at(0, "tgt")?, c.at(1, "memory")?);
                    Ok(vec![m.forward_with(&tgt, &memory, options)?])
                },
            )
        }
        "Transformer" => {
            let builder = Transformer::builder(a.or(0, "d_model", 512)?, a.or(1, "nhead", 8)?)
                .num_encoder_layers(a.or(2, "num_encoder_layers", 6)?)
                .num_decoder_layers(a.or(3, "num_decoder_layers", 6)?);
            with(layer!(a, builder, 4, 9), |m: &Transformer, c| {
                let options = TransformerOptions {
                    src_mask: c.opt(2, "src_mask")?,
                    tgt_mask: c.opt(3, "tgt_mask")?,
                    memory_mask: c.opt(4, "memory_mask")?,
                    src_key_padding_mask: c.opt(5, "src_key_padding_mask")?,
                    tgt_key_padding_mask: c.opt(6, "tgt_key_padding_mask")?,
                    memory_key_padding_mask: c.opt(7, "memory_key_padding_mask")?,
                    src_is_causal: c.opt(8, "src_is_causal")?,
                    tgt_is_causal: c.opt(9, "tgt_is_causal")?,
                    memory_is_causal: c.or(10, "memory_is_causal", false)?,
                };
                Ok(vec![m.forward_with(
                    &c.at(0, "src")?,
                    &c.at(1, "tgt")?,
                    options,
                )?])
            })
        }
        _ => return Ok(None),
    }))
}
