//! Mixtral (Jiang et al., "Mixtral of Experts", 2024).

use serde_json::Value;
use torsh_tensor::Result;

use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Mixtral, by the names in `config.json`.
    /// The default is Mixtral 8x7B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{MixtralConfig, MixtralForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| MixtralForCausalLM::new(MixtralConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 46_702_792_704);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MixtralConfig: "mixtral" {
        vocab_size = 32000; hidden_size = 4096; intermediate_size = 14336; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = Some(8);
        /// The size of a head; the width over the heads where it is `None`.
        head_dim: Option<usize> = None;
        hidden_act = Activation::Silu; max_position_embeddings = 4096 * 32; initializer_range = 0.02;
        rms_norm_eps = 1e-5; pad_token_id = None; bos_token_id = Some(1); eos_token_id = TokenIds::from(2);
        tie_word_embeddings = false; rope_parameters = RopeParameters::theta(1e6); attention_dropout = 0.0;
        /// How many tokens a token sees, itself among them; all where it is `None`.
        sliding_window = None;
        /// Experts of a layer.
        num_local_experts: usize = 8;
        /// Experts that compute each token.
        num_experts_per_tok: usize = 2;
        /// While training, the inputs of experts are multiplied by numbers that lie so far around 1.
        router_jitter_noise: f64 = 0.0;
        num_labels = 2;
    }
    ignores ["output_router_logits", "router_aux_loss_coef"]
    requires {}
    normalize = normalize
}

fn normalize(mut config: Value) -> Result<Value> {
    // Another name of the library for the same number.
    if let Value::Object(fields) = &mut config
        && let Some(experts) = fields.remove("num_experts")
    {
        fields.entry("num_local_experts").or_insert(experts);
    }
    rotary::normalize_theta(config, 1e6)
}

fn spec(c: &MixtralConfig) -> Result<Spec> {
    let jitter = c.router_jitter_noise;
    Ok(spec!(
        "MixtralConfig",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c
                .head_dim
                .unwrap_or(c.hidden_size / c.num_attention_heads.max(1)),
            activation: c.hidden_act,
            experts: Some((c.num_local_experts, c.num_experts_per_tok, jitter)),
            windows: vec![c.sliding_window; c.num_hidden_layers],
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, MixtralConfig, small { num_key_value_heads: Some(1), num_local_experts: 3 };
    /// Mixtral, in whose layers a router picks experts for each token (Jiang et al., "Mixtral of Experts", 2024).
    MixtralModel;
    /// Mixtral with a head that scores the next token.
    MixtralForCausalLM;
    /// Mixtral with a classifier of texts, which reads the last token.
    MixtralForSequenceClassification;
}
