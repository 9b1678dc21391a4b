//! Qwen2 (Yang et al., "Qwen2 Technical Report", 2024).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, windows};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Qwen2, by the names in `config.json`.
    Qwen2Config: "qwen2" {
        /// Tokens.
        vocab_size: usize = 151936;
        /// The width of the model.
        hidden_size: usize = 4096;
        /// The width inside feed-forward layers.
        intermediate_size: usize = 22016;
        /// Layers.
        num_hidden_layers: usize = 32;
        /// Heads of queries.
        num_attention_heads: usize = 32;
        /// Heads of keys and values; as many as of queries where it is `None`.
        num_key_value_heads: Option<usize> = Some(32);
        /// The activation inside feed-forward layers.
        hidden_act: Activation = Activation::Silu;
        /// The most tokens of a text.
        max_position_embeddings: usize = 32768;
        /// The deviation of drawn weights.
        initializer_range: f64 = 0.02;
        /// Added to mean squares.
        rms_norm_eps: f64 = 1e-6;
        /// Fills up a batch.
        pad_token_id: Option<i64> = None;
        /// Begins a text.
        bos_token_id: Option<i64> = None;
        /// End a text.
        eos_token_id: TokenIds = TokenIds::default();
        /// Whether the head's weight is that of the embedding.
        tie_word_embeddings: bool = false;
        /// The rotary embeddings.
        rope_parameters: RopeParameters = RopeParameters::default();
        /// Dropout of the attention's weights.
        attention_dropout: f64 = 0.0;
        /// Whether there are layers with a window.
        use_sliding_window: bool = false;
        /// How many tokens a token sees in layers with a window, itself among them.
        sliding_window: Option<usize> = Some(4096);
        /// The first layer with a window.
        max_window_layers: usize = 28;
        /// The kind of each layer; from `max_window_layers` on with a window where it is `None`.
        layer_types: Option<Vec<LayerType>> = None;
        /// Classes of a classifier.
        num_labels: usize = 2;
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
