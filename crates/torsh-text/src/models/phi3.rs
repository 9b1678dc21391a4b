//! Phi-3 (Abdin et al., "Phi-3 Technical Report", 2024).

use serde_json::Value;
use torsh_tensor::{Result, TorshError};

use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, RopeType, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Phi-3, by the names in `config.json`.
    ///
    /// When a text outgrows `original_max_position_embeddings`, its frequencies change. The step that passes this
    /// length computes the whole text anew.
    /// The default is Phi-3-mini.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Phi3Config, Phi3ForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| Phi3ForCausalLM::new(Phi3Config::default()))?;
    /// assert_eq!(model.num_parameters(), 3_821_079_552);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Phi3Config: "phi3" {
        vocab_size = 32064; hidden_size = 3072; intermediate_size = 8192; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = None; hidden_act = Activation::Silu;
        max_position_embeddings = 4096;
        /// The most tokens of a text before the frequencies were scaled.
        original_max_position_embeddings: usize = 4096;
        initializer_range = 0.02; rms_norm_eps = 1e-5; pad_token_id = Some(32000); bos_token_id = Some(1);
        eos_token_id = TokenIds::from(32000); tie_word_embeddings = false;
        rope_parameters = RopeParameters::default(); attention_dropout = 0.0;
        /// Dropout of what attention and feed-forward layers add.
        resid_pdrop: f64 = 0.0;
        /// How many tokens a token sees, itself among them; all where it is `None`.
        sliding_window = None;
        num_labels = 2;
    }
    ignores ["embd_pdrop", "full_attn_mod", "interpolate_factor"]
    requires { "attention_bias": false, "lm_head_bias": false, "mlp_bias": false }
    normalize = normalize
}

fn normalize(config: Value) -> Result<Value> {
    let mut config = rotary::normalize(config)?;
    // The first files say "yarn" and mean factors for each frequency.
    if let Some(kind) = config.pointer_mut("/rope_parameters/rope_type")
        && kind == "yarn"
    {
        *kind = "longrope".into();
    }
    Ok(config)
}

fn spec(c: &Phi3Config) -> Result<Spec> {
    let mut rope = c.rope_parameters.clone();
    match rope.rope_type {
        RopeType::Default => {}
        RopeType::LongRope => {
            rope.original_max_position_embeddings = Some(c.original_max_position_embeddings);
        }
        other => {
            return Err(TorshError::invalid(
                "Phi3Config",
                format!("rope_type {other:?}: \"default\" and \"longrope\" are supported"),
            ));
        }
    }
    Ok(spec!(
        "Phi3Config",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            activation: c.hidden_act,
            fused: true,
            windows: vec![c.sliding_window; c.num_hidden_layers],
            rope: rope,
            partial_rope: true,
            dropout: c.resid_pdrop,
        }
    ))
}

decoder_models! {
    spec, Phi3Config, small { num_key_value_heads: Some(1), pad_token_id: None };
    /// Phi-3 and Phi-4-mini, with fused projections and a scaling for each frequency (Abdin et al., "Phi-3
    /// Technical Report", 2024).
    Phi3Model;
    /// Phi-3 with a head that scores the next token.
    Phi3ForCausalLM;
    /// Phi-3 with a classifier of texts, which reads the last token.
    Phi3ForSequenceClassification;
}
