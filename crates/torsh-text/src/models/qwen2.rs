//! Qwen2 (Yang et al., "Qwen2 Technical Report", 2024).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, windows};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Qwen2, by the names in `config.json`.
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
    let types = c.layer_types.clone().unwrap_or_else(|| layer_types(c));
    let window = c.sliding_window.filter(|_| c.use_sliding_window);
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

/// The kinds of the layers, where the configuration does not list them.
fn layer_types(c: &Qwen2Config) -> Vec<LayerType> {
    let slides = |i| c.use_sliding_window && c.sliding_window.is_some() && i >= c.max_window_layers;
    let of = |i| match slides(i) {
        true => LayerType::SlidingAttention,
        false => LayerType::FullAttention,
    };
    (0..c.num_hidden_layers).map(of).collect()
}

decoder_models! {
    spec, Qwen2Config;
    /// Qwen2 and Qwen2.5, whose queries, keys and values have biases (Yang et al., "Qwen2 Technical Report", 2024).
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{Qwen2Config, Qwen2Model};
    /// let config = Qwen2Config {
    ///     vocab_size: 11, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2,
    ///     num_key_value_heads: Some(1), ..Default::default()
    /// };
    /// let model = Qwen2Model::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Qwen2Model;
    /// Qwen2 with a head that scores the next token.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::generation::{DecoderStep, GenerationModel};
    /// use torsh_text::models::{Qwen2Config, Qwen2ForCausalLM};
    /// let config = Qwen2Config {
    ///     vocab_size: 11, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2,
    ///     num_key_value_heads: Some(1), ..Default::default()
    /// };
    /// let model = Qwen2ForCausalLM::new(config)?;
    /// let logits = model.forward(&tensor![[1, 2, 3]])?;
    /// // A step has the logits of the last token.
    /// let next = model.decode(DecoderStep::new(&tensor![[1, 2, 3]]))?.logits;
    /// assert!(next.allclose(&logits.narrow(1, 2, 1)?)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Qwen2ForCausalLM;
    /// Qwen2 with a classifier of texts, which reads the last token.
    Qwen2ForSequenceClassification;
}
