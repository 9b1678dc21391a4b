//! Gemma (Gemma Team, "Gemma: Open Models Based on Gemini Research and Technology", 2024).

use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Gemma, by the names in `config.json`.
    /// The default is Gemma 7B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{GemmaConfig, GemmaForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| GemmaForCausalLM::new(GemmaConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 8_537_680_896);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GemmaConfig: "gemma" {
        vocab_size = 256000; hidden_size = 3072; intermediate_size = 24576; num_hidden_layers = 28;
        num_attention_heads = 16; num_key_value_heads = Some(16); head_dim = 256; hidden_act = Activation::GeluTanh;
        max_position_embeddings = 8192; initializer_range = 0.02; rms_norm_eps = 1e-6; pad_token_id = Some(0);
        bos_token_id = Some(2); eos_token_id = TokenIds::from(1); tie_word_embeddings = true;
        rope_parameters = RopeParameters::default(); attention_bias = false; attention_dropout = 0.0; num_labels = 2;
    }
    ignores ["cache_implementation", "hidden_activation"]
    requires { "use_bidirectional_attention": false }
    normalize = rotary::normalize
}

fn spec(c: &GemmaConfig) -> Result<Spec> {
    // The files of the first release say "gelu" and mean its approximation.
    let activation = match c.hidden_act {
        Activation::Gelu => Activation::GeluTanh,
        other => other,
    };
    Ok(spec!(
        "GemmaConfig",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c.head_dim,
            activation: activation,
            qkv_bias: c.attention_bias,
            out_bias: c.attention_bias,
            offset_norm: true,
            scaled_embedding: true,
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, GemmaConfig, small { num_key_value_heads: Some(1), head_dim: 4 };
    /// Gemma (Gemma Team, "Gemma: Open Models Based on Gemini Research and Technology", 2024).
    GemmaModel;
    /// Gemma with a head that scores the next token.
    GemmaForCausalLM;
    /// Gemma with a classifier of texts, which reads the last token.
    GemmaForSequenceClassification;
}
