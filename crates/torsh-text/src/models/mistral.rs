//! Mistral (Jiang et al., "Mistral 7B", 2023).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Mistral, by the names in `config.json`.
    /// The default is Mistral 7B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{MistralConfig, MistralForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| MistralForCausalLM::new(MistralConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 7_241_732_096);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MistralConfig: "mistral" {
        vocab_size = 32000; hidden_size = 4096; intermediate_size = 14336; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = Some(8);
        /// The size of a head; the width over the heads where it is `None`.
        head_dim: Option<usize> = None;
        hidden_act = Activation::Silu; max_position_embeddings = 4096 * 32; initializer_range = 0.02;
        rms_norm_eps = 1e-6; pad_token_id = None; bos_token_id = Some(1); eos_token_id = TokenIds::from(2);
        tie_word_embeddings = false; rope_parameters = RopeParameters::default(); attention_dropout = 0.0;
        /// How many tokens a token sees, itself among them; all where it is `None`.
        sliding_window = Some(4096);
        num_labels = 2;
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
    spec, MistralConfig, small { num_key_value_heads: Some(1), sliding_window: Some(2) };
    /// Mistral, whose tokens see a window of those before them (Jiang et al., "Mistral 7B", 2023).
    MistralModel;
    /// Mistral with a head that scores the next token.
    MistralForCausalLM;
    /// Mistral with a classifier of texts, which reads the last token.
    MistralForSequenceClassification;
}
