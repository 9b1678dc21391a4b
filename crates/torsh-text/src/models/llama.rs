//! Llama (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023).

use torsh_tensor::Result;

use super::causal::heads_divide;
use super::decoder_models::decoder_models;
use super::decoder_spec::{Spec, spec};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Llama, by the names in `config.json`.
    ///
    /// Llama 3.1 is one with `rope_parameters` of the type "llama3".
    /// The default is Llama 7B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{LlamaConfig, LlamaForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| LlamaForCausalLM::new(LlamaConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 6_738_415_616);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LlamaConfig: "llama" {
        vocab_size = 32000; hidden_size = 4096; intermediate_size = 11008; num_hidden_layers = 32;
        num_attention_heads = 32; num_key_value_heads = None;
        /// The size of a head; the width over the heads where it is `None`.
        head_dim: Option<usize> = None;
        hidden_act = Activation::Silu; max_position_embeddings = 2048; initializer_range = 0.02; rms_norm_eps = 1e-6;
        pad_token_id = None; bos_token_id = Some(1); eos_token_id = TokenIds::from(2); tie_word_embeddings = false;
        rope_parameters = RopeParameters::default(); attention_bias = false; attention_dropout = 0.0;
        mlp_bias = false; num_labels = 2;
    }
    ignores ["pretraining_tp", "rope_interleaved"]
    requires {}
    normalize = rotary::normalize
}

fn spec(c: &LlamaConfig) -> Result<Spec> {
    heads_divide!("LlamaConfig", c, hidden_size, num_attention_heads)?;
    Ok(spec!(
        "LlamaConfig",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c
                .head_dim
                .unwrap_or(c.hidden_size / c.num_attention_heads.max(1)),
            activation: c.hidden_act,
            qkv_bias: c.attention_bias,
            out_bias: c.attention_bias,
            mlp_bias: c.mlp_bias,
            rope: c.rope_parameters.clone(),
        }
    ))
}

decoder_models! {
    spec, LlamaConfig, small { num_key_value_heads: Some(1) };
    /// Llama (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023).
    LlamaModel;
    /// Llama with a head that scores the next token.
    LlamaForCausalLM;
    /// Llama with a classifier of texts, which reads the last token.
    LlamaForSequenceClassification;
}
