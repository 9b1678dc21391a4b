//! Qwen2 (Yang et al., "Qwen2 Technical Report", 2024).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, types_from, windows};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Qwen2, by the names in `config.json`.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Qwen2Config, Qwen2ForCausalLM};
    /// // Qwen2 0.5B.
    /// let config = Qwen2Config {
    ///     hidden_size: 896, intermediate_size: 4864, num_hidden_layers: 24, num_attention_heads: 14,
    ///     num_key_value_heads: Some(2), tie_word_embeddings: true,
    ///     ..Default::default()
    /// };
    /// let model = Construction::new().device(Device::Meta).run(|| Qwen2ForCausalLM::new(config))?;
    /// assert_eq!(model.num_parameters(), 494_032_768);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Qwen2Config: "qwen2" {
        vocab_size = 151936; hidden_size = 4096; intermediate_size = 22016; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = Some(32); hidden_act = Activation::Silu;
        max_position_embeddings = 32768; initializer_range = 0.02; rms_norm_eps = 1e-6; pad_token_id = None;
        bos_token_id = None; eos_token_id = TokenIds::default(); tie_word_embeddings = false;
        rope_parameters = RopeParameters::default(); attention_dropout = 0.0; use_sliding_window = false;
        sliding_window = Some(4096); max_window_layers = 28;
        /// The kind of each layer; from `max_window_layers` on with a window where it is `None`.
        layer_types: Option<Vec<LayerType>> = None;
        num_labels = 2;
    }
    ignores []
    requires { "use_mrope": false }
    normalize = rotary::normalize
}

fn spec(c: &Qwen2Config) -> Result<Spec> {
    let window = c.sliding_window.filter(|_| c.use_sliding_window);
    let types = c
        .layer_types
        .clone()
        .unwrap_or_else(|| types_from(window.map(|_| c.max_window_layers), c.num_hidden_layers));
    Ok(spec!(
        "Qwen2Config",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            activation: c.hidden_act,
            qkv_bias: true,
            windows: windows("Qwen2Config", &types, c.num_hidden_layers, window)?,
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, Qwen2Config, small { num_key_value_heads: Some(1) };
    /// Qwen2 and Qwen2.5, whose queries, keys and values have biases (Yang et al., "Qwen2 Technical Report", 2024).
    Qwen2Model;
    /// Qwen2 with a head that scores the next token.
    Qwen2ForCausalLM;
    /// Qwen2 with a classifier of texts, which reads the last token.
    Qwen2ForSequenceClassification;
}
