//! The decoder that Llama, Mistral, Mixtral, Qwen, Gemma and Phi-3 are, each with other parts.

use serde::{Deserialize, Serialize};
use torsh_nn::{Embedding, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::decoder_layer::{DecoderLayer, LayerStep};
use crate::blocks::moe::MixtureOptions;
use crate::blocks::{
    Activation, CacheKind, FusedGatedMlp, GatedMlp, KvCache, LayerRun, Layers, MixtureOfExperts,
    RmsNorm, RopeParameters, RopeType, RotaryEmbedding, init, tokens,
};
use crate::generation::DecoderStep;

/// What the attention of a layer sees, by the names in `layer_types` of `config.json`.
///
/// ```
/// use torsh_text::models::LayerType;
/// let types: Vec<LayerType> = serde_json::from_str(r#"["full_attention", "sliding_attention"]"#)?;
/// assert_eq!(types, [LayerType::FullAttention, LayerType::SlidingAttention]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerType {
    /// All tokens up to its own.
    FullAttention,
    /// The last tokens up to its own.
    SlidingAttention,
}

/// What a decoder computes.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The family, for errors.
    pub(crate) family: &'static str,
    pub(crate) vocabulary: usize,
    pub(crate) width: usize,
    /// The width inside feed-forward layers.
    pub(crate) inner: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) positions: usize,
    pub(crate) activation: Activation,
    /// Whether queries, keys and values have a bias.
    pub(crate) qkv_bias: bool,
    /// Whether the attention's result has a bias.
    pub(crate) out_bias: bool,
    pub(crate) mlp_bias: bool,
    /// Whether queries and keys are normalised.
    pub(crate) qk_norm: bool,
    /// Whether one matrix makes queries, keys and values, and one the gate and what it multiplies.
    pub(crate) fused: bool,
    /// Whether norms multiply by 1 + weight.
    pub(crate) offset_norm: bool,
    /// Whether there are norms behind attention and feed-forward layers too.
    pub(crate) norms_behind: bool,
    /// How many experts there are, how many compute each token, and the noise of their inputs.
    pub(crate) experts: Option<(usize, usize, f64)>,
    /// How many tokens each layer sees, all where it is `None`.
    pub(crate) windows: Vec<Option<usize>>,
    /// Whether tokens see those after them.
    pub(crate) bidirectional: bool,
    /// The rotary embeddings of layers that see all tokens.
    pub(crate) rope: RopeParameters,
    /// Those of layers with a window, where they are others.
    pub(crate) sliding_rope: Option<RopeParameters>,
    /// Whether the family turns a part of each head where the parameters say so.
    pub(crate) partial_rope: bool,
    /// What the products of queries and keys are multiplied by; 1 over the root of a head's size unless given.
    pub(crate) scale: Option<f64>,
    pub(crate) attention_softcap: Option<f64>,
    pub(crate) logit_softcap: Option<f64>,
    /// Whether embeddings are multiplied by the root of the width.
    pub(crate) scaled_embedding: bool,
    /// Dropout of the attention's weights.
    pub(crate) attention_dropout: f64,
    /// Dropout of what a layer adds.
    pub(crate) dropout: f64,
    pub(crate) eps: f64,
    pub(crate) std: f64,
    pub(crate) pad: Option<i64>,
}

/// The fields that all configurations have, and others by name.
macro_rules! spec {
    ($family:literal, $c:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $crate::models::decoder::Spec {
            $($field: $value,)*
            ..$crate::models::decoder::Spec {
                family: $family,
                vocabulary: $c.vocab_size,
                width: $c.hidden_size,
                inner: $c.intermediate_size,
                heads: $c.num_attention_heads,
                kv_heads: $c.num_attention_heads,
                head_dim: $c.hidden_size / $c.num_attention_heads.max(1),
                positions: $c.max_position_embeddings,
                activation: $crate::blocks::Activation::Silu,
                qkv_bias: false,
                out_bias: false,
                mlp_bias: false,
                qk_norm: false,
                fused: false,
                offset_norm: false,
                norms_behind: false,
                experts: None,
                windows: vec![None; $c.num_hidden_layers],
                bidirectional: false,
                rope: $crate::blocks::RopeParameters::default(),
                sliding_rope: None,
                partial_rope: false,
                scale: None,
                attention_softcap: None,
                logit_softcap: None,
                scaled_embedding: false,
                attention_dropout: $c.attention_dropout,
                dropout: 0.0,
                eps: $c.rms_norm_eps,
                std: $c.initializer_range,
                pad: $c.pad_token_id,
            }
        }
    };
}
pub(super) use spec;

/// The windows of layers of these types.
///
/// # Errors
/// Another number of types than layers, and a layer with a window of unknown size.
pub(crate) fn windows(
    family: &'static str,
    types: &[LayerType],
    layers: usize,
    window: Option<usize>,
) -> Result<Vec<Option<usize>>> {
    if types.len() != layers {
        let why = format!(
            "layer_types has {} layers, and num_hidden_layers = {layers}",
            types.len()
        );
        return Err(TorshError::invalid(family, why));
    }
    let of = |t: &LayerType| match (t, window) {
        (LayerType::FullAttention, _) => Ok(None),
        (LayerType::SlidingAttention, Some(window)) => Ok(Some(window)),
        (LayerType::SlidingAttention, None) => Err(TorshError::invalid(
            family,
            "a layer has sliding_attention, and sliding_window is null",
        )),
    };
    types.iter().map(of).collect()
}

impl Spec {
    fn check(&self) -> Result<()> {
        let invalid = |why: String| Err(TorshError::invalid(self.family, why));
        let sizes = [
            ("vocab_size", self.vocabulary),
            ("hidden_size", self.width),
            ("intermediate_size", self.inner),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.positions),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return invalid(format!("{name} = 0"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return invalid(format!(
                "num_attention_heads = {} is not divisible by num_key_value_heads = {}",
                self.heads, self.kv_heads
            ));
        }
        let part = self.rope.partial_rotary_factor.unwrap_or(1.0);
        if part != 1.0 && !self.partial_rope {
            return invalid(format!(
                "partial_rotary_factor = {part}: only 1 is supported"
            ));
        }
        if self.windows.contains(&Some(0)) {
            return invalid("sliding_window = 0: a token sees itself at least".into());
        }
        Ok(())
    }

    pub(crate) fn norm(&self, size: usize) -> Result<RmsNorm> {
        RmsNorm::with(size, self.eps, self.offset_norm)
    }

    pub(crate) fn feed_forward(&self) -> Result<Box<dyn Module>> {
        if let Some((experts, per_token, jitter)) = self.experts {
            return Ok(Box::new(MixtureOfExperts::new(&MixtureOptions {
                width: self.width,
                inner: self.inner,
                experts,
                per_token,
                activation: self.activation,
                jitter,
                std: self.std,
            })?));
        }
        let (width, inner, activation) = (self.width, self.inner, self.activation);
        Ok(match self.fused {
            true => Box::new(FusedGatedMlp::with(width, inner, activation, self.std)?),
            false => {
                let bias = self.mlp_bias;
                Box::new(GatedMlp::with(width, inner, activation, bias, self.std)?)
            }
        })
    }
}

/// The parts of a decoder: the tokens' vectors, the layers, and the norm behind them.
type Parts<'a> = (&'a Embedding, &'a Layers<DecoderLayer>, &'a RmsNorm);

/// What a decoder's parts do together.
pub(crate) struct Decoder {
    spec: Spec,
    /// Of layers that see all tokens, and of those with a window where it is another.
    rotary: Vec<RotaryEmbedding>,
}

impl Decoder {
    pub(crate) fn new(spec: Spec) -> Result<Decoder> {
        spec.check()?;
        let rope = std::iter::once(&spec.rope).chain(&spec.sliding_rope);
        let rotary =
            rope.map(|r| RotaryEmbedding::new(r.rotary_dim(spec.head_dim), spec.positions, r));
        Ok(Decoder {
            rotary: rotary.collect::<Result<_>>()?,
            spec,
        })
    }

    pub(crate) fn embedding(&self) -> Result<Embedding> {
        let s = &self.spec;
        // Negative numbers count from the end of the vocabulary.
        let pad = s
            .pad
            .map(|p| if p < 0 { p + s.vocabulary as i64 } else { p });
        init::embedding(s.vocabulary, s.width, pad, s.std)
    }

    pub(crate) fn layers(&self) -> Result<Layers<DecoderLayer>> {
        let layer = |_| DecoderLayer::new(&self.spec);
        self.spec.windows.iter().map(layer).collect()
    }

    pub(crate) fn norm(&self) -> Result<RmsNorm> {
        self.spec.norm(self.spec.width)
    }

    /// The positions up to which the frequencies of LongRoPE are those of short texts.
    fn short_positions(&self) -> Option<usize> {
        let rope = &self.spec.rope;
        let short = rope
            .original_max_position_embeddings
            .unwrap_or(self.spec.positions);
        (rope.rope_type == RopeType::LongRope).then_some(short)
    }

    /// The last layer's result, normalised.
    ///
    /// When a text outgrows the frequencies of short ones, the keys in the cache no longer fit. The text is then
    /// computed anew: one more layer of the cache keeps its ids.
    pub(crate) fn run(&self, parts: Parts<'_>, mut step: DecoderStep<'_>) -> Result<Tensor> {
        let (past, ids) = (step.past(), step.input_ids);
        let (Some(short), Some(cache)) = (self.short_positions(), step.cache.as_deref_mut()) else {
            return self.run_layers(parts, step);
        };
        let &[batch, tokens] = ids.dims() else {
            return self.run_layers(parts, step);
        };
        let last = self.spec.windows.len();
        let keep = |cache: &mut KvCache, ids: &Tensor| {
            let ids = ids.unsqueeze(1)?.unsqueeze(3)?;
            cache.update(last, &ids, &ids)
        };
        if past == 0 || past > short || past + tokens <= short {
            let step = DecoderStep {
                cache: Some(&mut *cache),
                ..step
            };
            let hidden = self.run_layers(parts, step)?;
            keep(cache, ids)?;
            return Ok(hidden);
        }
        let (all, _) = keep(cache, ids)?;
        let all = all.reshape([batch, past + tokens])?.copy()?;
        cache.crop(0)?;
        let step = DecoderStep {
            input_ids: &all,
            cache: Some(&mut *cache),
            ..step
        };
        let hidden = self.run_layers(parts, step)?;
        keep(cache, &all)?;
        hidden.narrow(1, past as i64, tokens as i64)
    }

    fn run_layers(
        &self,
        (embedding, layers, norm): Parts<'_>,
        step: DecoderStep<'_>,
    ) -> Result<Tensor> {
        let s = &self.spec;
        let positions = step.positions()?;
        let mut x = tokens::vectors(embedding, step.input_ids)?;
        if s.scaled_embedding {
            // A number of the model's dtype, which comes from float32.
            let root = f64::from((s.width as f64).sqrt() as f32);
            x = x.mul(&Tensor::full((), root, x.dtype(), x.device())?)?;
        }
        let tables = self.rotary.iter().map(|r| r.tables(&positions, x.dtype()));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let (windows, padding) = (s.windows.clone(), step.padding.cloned());
        let run = LayerRun::behind(step.cache);
        let x = layers.run_with(x, run, move |layer, at, x, cache| {
            let window = windows[at];
            let rope = usize::from(window.is_some()).min(tables.len() - 1);
            let step = LayerStep {
                layer: at,
                window,
                padding: padding.as_ref(),
                tables: &tables[rope],
                cache,
            };
            layer.run(x, step)
        })?;
        norm.forward(&x)
    }

    /// Logits with their cap, where there is one.
    pub(crate) fn capped(&self, logits: Tensor) -> Result<Tensor> {
        match self.spec.logit_softcap {
            Some(cap) => logits.div(cap)?.tanh()?.mul(cap),
            None => Ok(logits),
        }
    }

    /// The most tokens of a text. Dynamic frequencies are made for longer ones.
    pub(crate) fn max_positions(&self) -> Option<usize> {
        (self.spec.rope.rope_type != RopeType::Dynamic).then_some(self.spec.positions)
    }

    pub(crate) fn new_cache(&self, kind: CacheKind) -> KvCache {
        let ids = self.short_positions().map(|_| kind);
        let slides = ids.is_none() && !self.spec.bidirectional;
        let layers = self.spec.windows.iter().map(|window| match (kind, window) {
            (CacheKind::Growing, &Some(window)) if slides => CacheKind::Sliding { window },
            _ => kind,
        });
        KvCache::new(layers.chain(ids))
    }
}
