//! What the decoders of Llama, Mistral, Mixtral, Qwen, Gemma and Phi-3 differ in.

use serde::{Deserialize, Serialize};
use torsh_nn::Module;
use torsh_tensor::{Result, TorshError};

use crate::blocks::moe::MixtureOptions;
use crate::blocks::{
    Activation, FusedGatedMlp, GatedMlp, MixtureOfExperts, RmsNorm, RopeParameters,
};

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
        $crate::models::decoder_spec::Spec {
            $($field: $value,)*
            ..$crate::models::decoder_spec::Spec {
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

/// The types of layers that have a window from a number on, where one is given.
pub(super) fn types_from(first: Option<usize>, layers: usize) -> Vec<LayerType> {
    let of = |i| match first.is_some_and(|first| i >= first) {
        true => LayerType::SlidingAttention,
        false => LayerType::FullAttention,
    };
    (0..layers).map(of).collect()
}

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
    pub(super) fn check(&self) -> Result<()> {
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
