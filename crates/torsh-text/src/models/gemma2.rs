//! Gemma 2 (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024).

use torsh_tensor::Result;

use super::causal::heads_divide;
use super::decoder_models::decoder_models;
use super::decoder_spec::{LayerType, Spec, spec, windows};
use crate::blocks::{Activation, RopeParameters, rotary};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Gemma 2, by the names in `config.json`.
    /// The default is Gemma 2 2B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Gemma2Config, Gemma2ForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| Gemma2ForCausalLM::new(Gemma2Config::default()))?;
    /// assert_eq!(model.num_parameters(), 2_614_341_888);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Gemma2Config: "gemma2" {
        vocab_size = 256000; hidden_size = 2304; intermediate_size = 9216; num_hidden_layers = 26;
        num_attention_heads = 8; num_key_value_heads = Some(4); head_dim = 256;
        hidden_activation = Activation::GeluTanh; max_position_embeddings = 8192; initializer_range = 0.02;
        rms_norm_eps = 1e-6; pad_token_id = Some(0); bos_token_id = Some(2); eos_token_id = TokenIds::from(1);
        tie_word_embeddings = true; rope_parameters = RopeParameters::default(); attention_bias = false;
        attention_dropout = 0.0; query_pre_attn_scalar = 256.0; sliding_window = Some(4096);
        /// The kind of each layer; every second one sees all tokens where it is `None`.
        layer_types: Option<Vec<LayerType>> = None;
        final_logit_softcapping = Some(30.0);
        /// The scores of attention go through `cap * tanh(x / cap)` with this cap; `None` leaves them as they are.
        attn_logit_softcapping: Option<f64> = Some(50.0);
        num_labels = 2;
    }
    ignores ["cache_implementation", "hidden_act", "sliding_window_size"]
    requires { "use_bidirectional_attention": false }
    normalize = rotary::normalize
}

fn spec(c: &Gemma2Config) -> Result<Spec> {
    heads_divide!("Gemma2Config", c, hidden_size, num_attention_heads)?;
    let types = c.layer_types.clone().unwrap_or_else(|| {
        let both = [LayerType::SlidingAttention, LayerType::FullAttention];
        both.into_iter().cycle().take(c.num_hidden_layers).collect()
    });
    Ok(spec!(
        "Gemma2Config",
        c {
            kv_heads: c.num_key_value_heads.unwrap_or(c.num_attention_heads),
            head_dim: c.head_dim,
            activation: c.hidden_activation,
            qkv_bias: c.attention_bias,
            out_bias: c.attention_bias,
            offset_norm: true,
            norms_behind: true,
            scaled_embedding: true,
            windows: windows(
                "Gemma2Config",
                &types,
                c.num_hidden_layers,
                c.sliding_window
            )?,
            rope: c.rope_parameters.clone(),
            scale: Some(1.0 / c.query_pre_attn_scalar.sqrt()),
            attention_softcap: c.attn_logit_softcapping,
            logit_softcap: c.final_logit_softcapping,
        }
    ))
}

decoder_models! {
    spec, Gemma2Config, small { num_key_value_heads: Some(1), head_dim: 4 };
    /// Gemma 2, whose layers see all tokens and a window in turn (Gemma Team, "Gemma 2: Improving Open Language
    /// Models at a Practical Size", 2024).
    Gemma2Model;
    /// Gemma 2 with a head that scores the next token.
    Gemma2ForCausalLM;
    /// Gemma 2 with a classifier of texts, which reads the last token.
    Gemma2ForSequenceClassification;
}
