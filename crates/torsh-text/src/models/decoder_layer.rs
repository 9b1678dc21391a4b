//! A layer of the decoders that Llama, Mistral, Mixtral, Qwen, Gemma and Phi-3 are.

use torsh_nn::{Hooks, Linear, Module, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::decoder_spec::Spec;
use crate::blocks::{
    AttentionMask, AttentionSteps, KvCache, Padding, RmsNorm, RotaryEmbedding, attend_with, init,
    join_heads, part, split_heads,
};

part! {
    /// Attention with rotary embeddings, and as many heads of keys and values as the family has.
    pub DecoderAttention(s: &Spec) first {
        let (queries, keys) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let to = |size, wanted: bool| match wanted {
            true => init::linear(s.width, size, s.qkv_bias, s.std).map(Some),
            false => Ok(None),
        };
        let norm = || match s.qk_norm {
            true => s.norm(s.head_dim).map(Some),
            false => Ok(None),
        };
    } {
        /// To queries.
        pub q_proj: Option<Linear> = to(queries, !s.fused)?;
        /// To keys.
        pub k_proj: Option<Linear> = to(keys, !s.fused)?;
        /// To values.
        pub v_proj: Option<Linear> = to(keys, !s.fused)?;
        /// Of the joined heads.
        pub o_proj: Linear = init::linear(queries, s.width, s.out_bias, s.std)?;
        /// To queries, keys and values at once, in the place of the three (Phi-3).
        pub qkv_proj: Option<Linear> = to(queries + 2 * keys, s.fused)?;
        /// Of each head of the queries.
        pub q_norm: Option<RmsNorm> = norm()?;
        /// Of each head of the keys.
        pub k_norm: Option<RmsNorm> = norm()?;
        #[module(skip)] sizes: [usize; 3] = [s.heads, s.kv_heads, s.head_dim];
        #[module(skip)] bidirectional: bool = s.bidirectional;
        #[module(skip)] steps: AttentionSteps = AttentionSteps {
            scale: s.scale,
            softcap: s.attention_softcap,
            dropout: s.attention_dropout,
        };
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    /// An error: attention needs positions.
    forward |_m, _x| Err(needs_positions("DecoderAttention"))
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

part! {
    /// A layer of a decoder: attention and a feed-forward layer, each with norms and a shortcut.
    pub DecoderLayer(s: &Spec) first {
        let behind = || match s.norms_behind {
            true => s.norm(s.width).map(Some),
            false => Ok(None),
        };
    } {
        /// Attention.
        pub self_attn: DecoderAttention = DecoderAttention::new(s)?;
        /// The feed-forward layer: [`GatedMlp`](crate::blocks::GatedMlp),
        /// [`FusedGatedMlp`](crate::blocks::FusedGatedMlp) or [`MixtureOfExperts`](crate::blocks::MixtureOfExperts).
        pub mlp: Box<dyn Module> = s.feed_forward()?;
        /// Ahead of the attention.
        pub input_layernorm: RmsNorm = s.norm(s.width)?;
        /// Behind the attention, of what it adds (Gemma 2 and 3), or ahead of the feed-forward layer.
        pub post_attention_layernorm: RmsNorm = s.norm(s.width)?;
        /// Ahead of the feed-forward layer (Gemma 2 and 3).
        pub pre_feedforward_layernorm: Option<RmsNorm> = behind()?;
        /// Behind the feed-forward layer (Gemma 2 and 3).
        pub post_feedforward_layernorm: Option<RmsNorm> = behind()?;
        #[module(skip)] dropout: f64 = s.dropout;
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    /// An error: a layer needs positions.
    forward |_m, _x| Err(needs_positions("DecoderLayer"))
}

impl DecoderLayer {
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
