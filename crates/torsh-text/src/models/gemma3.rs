//! Gemma 3 (Gemma Team, "Gemma 3 Technical Report", 2025).

use serde_json::Value;
use torsh_tensor::Result;

use super::causal::heads_divide;
use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, windows};
use crate::blocks::rotary::{self, LayerRope};
use crate::blocks::{Activation, LayerRopeParameters, RopeParameters};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Gemma 3, by the names in `config.json`.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Gemma3ForCausalLM, Gemma3TextConfig};
    /// // Gemma 3 1B.
    /// let config = Gemma3TextConfig {
    ///     vocab_size: 262_144, hidden_size: 1152, intermediate_size: 6912, num_attention_heads: 4,
    ///     num_key_value_heads: Some(1), sliding_window: Some(512),
    ///     ..Default::default()
    /// };
    /// let model = Construction::new().device(Device::Meta).run(|| Gemma3ForCausalLM::new(config))?;
    /// assert_eq!(model.num_parameters(), 999_885_952);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Gemma3TextConfig: "gemma3_text" {
        vocab_size = 262_208; hidden_size = 2304; intermediate_size = 9216; num_hidden_layers = 26;
        num_attention_heads = 8; num_key_value_heads = Some(4); head_dim = 256;
        hidden_activation = Activation::GeluTanh; max_position_embeddings = 131_072; initializer_range = 0.02;
        rms_norm_eps = 1e-6; pad_token_id = Some(0); bos_token_id = Some(2); eos_token_id = TokenIds::from(1);
        tie_word_embeddings = true;
        /// The rotary embeddings of each kind of layers.
        rope_parameters: LayerRopeParameters = rope_parameters();
        attention_bias = false; attention_dropout = 0.0; query_pre_attn_scalar = 256.0;
        /// The number of tokens that a token sees in layers with a window, itself among them. With
        /// `use_bidirectional_attention` it sees half as many to either side.
        sliding_window = Some(4096);
        /// The kind of each layer; by `sliding_window_pattern` where it is `None`.
        layer_types: Option<Vec<LayerType>> = None;
        /// One layer of so many sees all tokens, where `layer_types` is `None`.
        sliding_window_pattern: usize = 6;
        final_logit_softcapping = None;
        /// Whether tokens see those after them too.
        use_bidirectional_attention: Option<bool> = Some(false);
        num_labels = 2;
    }
    ignores ["attn_logit_softcapping", "cache_implementation", "hidden_act"]
    requires {}
    normalize = normalize
}

fn rope_parameters() -> LayerRopeParameters {
    LayerRopeParameters {
        full_attention: RopeParameters::theta(1e6),
        sliding_attention: RopeParameters::theta(1e4),
    }
}

fn normalize(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config
        && let Some(pattern) = fields.remove("_sliding_window_pattern")
    {
        fields.entry("sliding_window_pattern").or_insert(pattern);
    }
    rotary::normalize_layers(
        config,
        &[
            LayerRope {
                layer: "full_attention",
                old_theta: "rope_theta",
                theta: 1e6,
                scaled: true,
            },
            LayerRope {
                layer: "sliding_attention",
                old_theta: "rope_local_base_freq",
                theta: 1e4,
                scaled: false,
            },
        ],
    )
}

fn spec(c: &Gemma3TextConfig) -> Result<Spec> {
    heads_divide!("Gemma3TextConfig", c, hidden_size, num_attention_heads)?;
    let bidirectional = c.use_bidirectional_attention.unwrap_or(false);
    let window = match c.sliding_window {
        // To both sides.
        Some(window) if bidirectional => Some(window / 2 + 1),
        window => window,
    };
    let types = c.layer_types.clone().unwrap_or_else(|| {
        let of = |i: usize| match (i + 1).is_multiple_of(c.sliding_window_pattern) {
            true => LayerType::FullAttention,
            false => LayerType::SlidingAttention,
        };
        (0..c.num_hidden_layers).map(of).collect()
    });
    Ok(spec!(
        "Gemma3TextConfig",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c.head_dim,
            activation: c.hidden_activation,
            qkv_bias: c.attention_bias,
            out_bias: c.attention_bias,
            qk_norm: true,
            offset_norm: true,
            norms_behind: true,
            scaled_embedding: true,
            windows: windows("Gemma3TextConfig", &types, c.num_hidden_layers, window)?,
            bidirectional: bidirectional,
            rope: c.rope_parameters.full_attention.clone(),
            sliding_rope: Some(c.rope_parameters.sliding_attention.clone()),
            scale: Some(1.0 / c.query_pre_attn_scalar.sqrt()),
            logit_softcap: c.final_logit_softcapping,
        }
    ))
}

decoder_models! {
    spec, Gemma3TextConfig, small { num_key_value_heads: Some(1), head_dim: 4 };
    /// The text part of Gemma 3, whose layers with a window have frequencies of their own (Gemma Team, "Gemma 3
    /// Technical Report", 2025).
    Gemma3TextModel;
    /// Gemma 3 with a head that scores the next token.
    Gemma3ForCausalLM;
    /// Gemma 3 with a classifier of texts, which reads the last token.
    Gemma3TextForSequenceClassification;
}
