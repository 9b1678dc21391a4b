//! Qwen3 (Yang et al., "Qwen3 Technical Report", 2025).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, types_from, windows};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Qwen3, by the names in `config.json`.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Qwen3Config, Qwen3ForCausalLM};
    /// // Qwen3 0.6B.
    /// let config = Qwen3Config {
    ///     hidden_size: 1024, intermediate_size: 3072, num_hidden_layers: 28, num_attention_heads: 16,
    ///     num_key_value_heads: Some(8), tie_word_embeddings: true,
    ///     ..Default::default()
    /// };
    /// let model = Construction::new().device(Device::Meta).run(|| Qwen3ForCausalLM::new(config))?;
    /// assert_eq!(model.num_parameters(), 596_049_920);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Qwen3Config: "qwen3" {
        vocab_size = 151936; hidden_size = 4096; intermediate_size = 22016; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = Some(32); head_dim = 128; hidden_act = Activation::Silu;
        max_position_embeddings = 32768; initializer_range = 0.02; rms_norm_eps = 1e-6; pad_token_id = None;
        bos_token_id = None; eos_token_id = TokenIds::default(); tie_word_embeddings = false;
        rope_parameters = RopeParameters::default(); attention_bias = false; attention_dropout = 0.0;
        use_sliding_window = false; sliding_window = Some(4096); max_window_layers = 28;
        /// The kind of each layer; from `max_window_layers` on with a window where it is `None`.
        layer_types: Option<Vec<LayerType>> = None;
        num_labels = 2;
    }
    ignores []
    requires {}
    normalize = rotary::normalize
}

fn spec(c: &Qwen3Config) -> Result<Spec> {
    let window = c.sliding_window.filter(|_| c.use_sliding_window);
    let types = c
        .layer_types
        .clone()
        .unwrap_or_else(|| types_from(window.map(|_| c.max_window_layers), c.num_hidden_layers));
    Ok(spec!(
        "Qwen3Config",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c.head_dim,
            activation: c.hidden_act,
            qkv_bias: c.attention_bias,
            out_bias: c.attention_bias,
            qk_norm: true,
            windows: windows("Qwen3Config", &types, c.num_hidden_layers, window)?,
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, Qwen3Config, small { num_key_value_heads: Some(1), head_dim: 4 };
    /// Qwen3, whose heads of queries and keys are normalised (Yang et al., "Qwen3 Technical Report", 2025).
    Qwen3Model;
    /// Qwen3 with a head that scores the next token.
    Qwen3ForCausalLM;
    /// Qwen3 with a classifier of texts, which reads the last token.
    Qwen3ForSequenceClassification;
}
