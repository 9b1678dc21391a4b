//! Mistral (Jiang et al., "Mistral 7B", 2023).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Mistral, by the names in `config.json`.
    MistralConfig: "mistral" {
        /// Tokens.
        vocab_size: usize = 32000;
        /// The width of the model.
        hidden_size: usize = 4096;
        /// The width inside feed-forward layers.
        intermediate_size: usize = 14336;
        /// Layers.
        num_hidden_layers: usize = 32;
        /// Heads of queries.
        num_attention_heads: usize = 32;
        /// Heads of keys and values; as many as of queries where it is `None`.
        num_key_value_heads: Option<usize> = Some(8);
        /// The size of a head; the width over the heads where it is `None`.
        head_dim: Option<usize> = None;
        /// The activation inside feed-forward layers.
        hidden_act: Activation = Activation::Silu;
        /// The most tokens of a text.
        max_position_embeddings: usize = 4096 * 32;
        /// The deviation of drawn weights.
        initializer_range: f64 = 0.02;
        /// Added to mean squares.
        rms_norm_eps: f64 = 1e-6;
        /// Fills up a batch.
        pad_token_id: Option<i64> = None;
        /// Begins a text.
        bos_token_id: Option<i64> = Some(1);
        /// End a text.
        eos_token_id: TokenIds = TokenIds::from(2);
        /// Whether the head's weight is that of the embedding.
        tie_word_embeddings: bool = false;
        /// The rotary embeddings.
        rope_parameters: RopeParameters = RopeParameters::default();
        /// Dropout of the attention's weights.
        attention_dropout: f64 = 0.0;
        /// How many tokens a token sees, itself among them; all where it is `None`.
        sliding_window: Option<usize> = Some(4096);
        /// Classes of a classifier.
        num_labels: usize = 2;
    }
    ignores []
    requires {}
    normalize = rotary::normalize
}

fn spec(c: &MistralConfig) -> Result<Spec> {
    Ok(spec!(
        "MistralConfig",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c
                .head_dim
                .unwrap_or(c.hidden_size / c.num_attention_heads.max(1)),
            activation: c.hidden_act,
            windows: vec![c.sliding_window; c.num_hidden_layers],
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, MistralConfig;
    /// Mistral, whose tokens see a window of those before them (Jiang et al., "Mistral 7B", 2023).
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{MistralConfig, MistralModel};
    /// let config = MistralConfig {
    ///     vocab_size: 11, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2,
    ///     num_key_value_heads: Some(1), sliding_window: Some(2), ..Default::default()
    /// };
    /// let model = MistralModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MistralModel;
    /// Mistral with a head that scores the next token.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::generation::{DecoderStep, GenerationModel};
    /// use torsh_text::models::{MistralConfig, MistralForCausalLM};
    /// let config = MistralConfig {
    ///     vocab_size: 11, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2,
    ///     num_key_value_heads: Some(1), sliding_window: Some(2), ..Default::default()
    /// };
    /// let model = MistralForCausalLM::new(config)?;
    /// let logits = model.forward(&tensor![[1, 2, 3]])?;
    /// // A step has the logits of the last token.
    /// let next = model.decode(DecoderStep::new(&tensor![[1, 2, 3]]))?.logits;
    /// assert!(next.allclose(&logits.narrow(1, 2, 1)?)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MistralForCausalLM;
    /// Mistral with a classifier of texts, which reads the last token.
    MistralForSequenceClassification;
}
