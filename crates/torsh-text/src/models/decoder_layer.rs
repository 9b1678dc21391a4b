//! A layer of the decoders that Llama, Mistral, Mixtral, Qwen, Gemma and Phi-3 are.

use torsh_nn::{Hooks, Linear, Module, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::decoder_spec::Spec;
use crate::blocks::{
    AttentionMask, AttentionSteps, KvCache, Padding, RmsNorm, RotaryEmbedding, attend_with, init,
    join_heads, split_heads,
};

/// Attention with rotary embeddings, and as many heads of keys and values as the family has.
#[derive(Module)]
pub struct DecoderAttention {
    /// To queries.
    pub q_proj: Option<Linear>,
    /// To keys.
    pub k_proj: Option<Linear>,
    /// To values.
    pub v_proj: Option<Linear>,
    /// Of the joined heads.
    pub o_proj: Linear,
    /// To queries, keys and values at once, in the place of the three (Phi-3).
    pub qkv_proj: Option<Linear>,
    /// Of each head of the queries.
    pub q_norm: Option<RmsNorm>,
    /// Of each head of the keys.
    pub k_norm: Option<RmsNorm>,
    #[module(skip)]
    sizes: [usize; 3],
    #[module(skip)]
    bidirectional: bool,
    #[module(skip)]
    steps: AttentionSteps,
    training: Training,
    hooks: Hooks,
}

/// One step in one layer.
pub(crate) struct LayerStep<'a> {
    pub(crate) layer: usize,
    /// How many tokens each sees.
    pub(crate) window: Option<usize>,
    pub(crate) padding: Option<&'a Padding>,
    /// Cosines and sines.
    pub(crate) tables: &'a (Tensor, Tensor),
    pub(crate) cache: Option<&'a mut KvCache>,
}

impl DecoderAttention {
    fn new(s: &Spec) -> Result<DecoderAttention> {
        let (queries, keys) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let to = |size, wanted: bool| match wanted {
            true => init::linear(s.width, size, s.qkv_bias, s.std).map(Some),
            false => Ok(None),
        };
        let norm = || match s.qk_norm {
            true => s.norm(s.head_dim).map(Some),
            false => Ok(None),
        };
        Ok(DecoderAttention {
            q_proj: to(queries, !s.fused)?,
            k_proj: to(keys, !s.fused)?,
            v_proj: to(keys, !s.fused)?,
            o_proj: init::linear(queries, s.width, s.out_bias, s.std)?,
            qkv_proj: to(queries + 2 * keys, s.fused)?,
            q_norm: norm()?,
            k_norm: norm()?,
            sizes: [s.heads, s.kv_heads, s.head_dim],
            bidirectional: s.bidirectional,
            steps: AttentionSteps {
                scale: s.scale,
                softcap: s.attention_softcap,
                dropout: s.attention_dropout,
            },
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Queries, keys and values, `[batch, length, heads * size]`.
    fn project(&self, x: &Tensor) -> Result<[Tensor; 3]> {
        if let (Some(q), Some(k), Some(v)) = (&self.q_proj, &self.k_proj, &self.v_proj) {
            return Ok([q.forward(x)?, k.forward(x)?, v.forward(x)?]);
        }
        let Some(all) = &self.qkv_proj else {
            return Err(TorshError::invalid(
                "DecoderAttention",
                "a projection is missing",
            ));
        };
        let all = all.forward(x)?;
        let [heads, kv_heads, size] = self.sizes.map(|n| n as i64);
        let (queries, keys) = (heads * size, kv_heads * size);
        Ok([
            all.narrow(-1, 0, queries)?,
            all.narrow(-1, queries, keys)?,
            all.narrow(-1, queries + keys, keys)?,
        ])
    }

    fn run(&self, x: &Tensor, step: LayerStep<'_>) -> Result<Tensor> {
        let [heads, kv_heads, size] = self.sizes;
        let [q, k, v] = self.project(x)?;
        let (cos, sin) = step.tables;
        let turned = |x: &Tensor, heads: usize, norm: Option<&RmsNorm>| {
            let x = match norm {
                Some(norm) => {
                    let &[batch, length, _] = x.dims() else {
                        return Err(TorshError::shape("DecoderAttention", x.describe()));
                    };
                    norm.forward(&x.view([batch, length, heads, size])?)?
                        .transpose(1, 2)?
                }
                None => split_heads(x, heads)?,
            };
            RotaryEmbedding::apply(&x, cos, sin)
        };
        let q = turned(&q, heads, self.q_norm.as_ref())?;
        let mut k = turned(&k, kv_heads, self.k_norm.as_ref())?;
        let mut v = split_heads(&v, kv_heads)?;
        let (mut past, mut padding) = (0, step.padding.cloned());
        if let Some(cache) = step.cache {
            past = cache.past(step.layer);
            padding = padding.map(|p| cache.key_padding(step.layer, &p));
            (k, v) = cache.update(step.layer, &k, &v)?;
        }
        let mut mask = AttentionMask::causal(past)
            .window(step.window)
            .padding(padding);
        if self.bidirectional {
            mask.right = mask.left;
        }
        let training = self.training.get();
        let steps = AttentionSteps {
            dropout: if training { self.steps.dropout } else { 0.0 },
            ..self.steps
        };
        let y = attend_with([&q, &k, &v], &mask, steps)?;
        self.o_proj.forward(&join_heads(&y)?)
    }
}

/// The error of parts that need positions.
fn needs_positions(part: &'static str) -> TorshError {
    TorshError::invalid(
        part,
        "forward takes one tensor, and this part needs positions too",
    )
    .with_hint("call the model's forward_with(step)")
}

impl Module for DecoderAttention {
    /// An error: attention needs positions.
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_positions("DecoderAttention"))
    }
}

/// A layer of a decoder: attention and a feed-forward layer, each with norms and a shortcut.
#[derive(Module)]
pub struct DecoderLayer {
    /// Attention.
    pub self_attn: DecoderAttention,
    /// The feed-forward layer: [`GatedMlp`](crate::blocks::GatedMlp),
    /// [`FusedGatedMlp`](crate::blocks::FusedGatedMlp) or [`MixtureOfExperts`](crate::blocks::MixtureOfExperts).
    pub mlp: Box<dyn Module>,
    /// Ahead of the attention.
    pub input_layernorm: RmsNorm,
    /// Behind the attention, of what it adds (Gemma 2 and 3), or ahead of the feed-forward layer.
    pub post_attention_layernorm: RmsNorm,
    /// Ahead of the feed-forward layer (Gemma 2 and 3).
    pub pre_feedforward_layernorm: Option<RmsNorm>,
    /// Behind the feed-forward layer (Gemma 2 and 3).
    pub post_feedforward_layernorm: Option<RmsNorm>,
    #[module(skip)]
    dropout: f64,
    training: Training,
    hooks: Hooks,
}

impl DecoderLayer {
    pub(crate) fn new(s: &Spec) -> Result<DecoderLayer> {
        let behind = || match s.norms_behind {
            true => s.norm(s.width).map(Some),
            false => Ok(None),
        };
        Ok(DecoderLayer {
            self_attn: DecoderAttention::new(s)?,
            mlp: s.feed_forward()?,
            input_layernorm: s.norm(s.width)?,
            post_attention_layernorm: s.norm(s.width)?,
            pre_feedforward_layernorm: behind()?,
            post_feedforward_layernorm: behind()?,
            dropout: s.dropout,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    pub(crate) fn run(&self, x: &Tensor, step: LayerStep<'_>) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self
                .self_attn
                .run(&self.input_layernorm.forward(x)?, step)?;
            if let (Some(ahead), Some(behind)) = (
                &self.pre_feedforward_layernorm,
                &self.post_feedforward_layernorm,
            ) {
                let x = x.add(self.post_attention_layernorm.forward(&y)?)?;
                let y = self.mlp.forward(&ahead.forward(&x)?)?;
                return x.add(behind.forward(&y)?);
            }
            let training = self.training.get();
            let x = x.add(y.dropout(self.dropout, training)?)?;
            let y = self
                .mlp
                .forward(&self.post_attention_layernorm.forward(&x)?)?;
            x.add(y.dropout(self.dropout, training)?)
        })
    }
}

impl Module for DecoderLayer {
    /// An error: a layer needs positions.
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_positions("DecoderLayer"))
    }
}
