//! The configuration of T5.

use serde_json::Value;
use torsh_nn::Embedding;
use torsh_tensor::{Result, TorshError};

use crate::blocks::relative::{RelativeAttention, RelativeOptions};
use crate::blocks::{Activation, init};
use crate::config::{TokenIds, config};

config! {
    /// The configuration of T5.
    /// The default is the smallest T5 (`t5-small`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{T5Config, T5ForConditionalGeneration};
    /// let meta = Construction::new().device(Device::Meta);
    /// let model = meta.run(|| T5ForConditionalGeneration::new(T5Config::default()))?;
    /// assert_eq!(model.num_parameters(), 60_506_624);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    T5Config: "t5" {
        vocab_size = 32128;
        /// Channels of a token.
        d_model: usize = 512;
        /// Channels of a head; all heads together need not have `d_model`.
        d_kv: usize = 64;
        /// Channels inside the feed-forward layers.
        d_ff: usize = 2048;
        /// Layers of the encoder.
        num_layers: usize = 6;
        /// Layers of the decoder; as many as of the encoder unless set.
        num_decoder_layers: Option<usize> = None;
        /// Heads of each attention.
        num_heads: usize = 8;
        /// How many numbers a head has for distances of tokens.
        relative_attention_num_buckets: usize = 32;
        /// From this distance on all are the same.
        relative_attention_max_distance: usize = 128;
        /// Dropout in training.
        dropout_rate: f64 = 0.1;
        /// What the norms add to the mean square.
        layer_norm_epsilon: f64 = 1e-6;
        initializer_factor = 1.0;
        /// The activation of the feed-forward layers; with `gated-` ahead of it half of them is a gate (T5 1.1).
        feed_forward_proj: String = "relu".to_string();
        pad_token_id = Some(0); eos_token_id = TokenIds::from(1); bos_token_id = None; decoder_start_token_id = None;
        /// False in files of T5 1.1, whose head reads results that are not scaled. It does not tell whether the head is the
        /// embedding: the file does.
        tie_word_embeddings: Option<bool> = None;
        /// Whether the head reads scaled results; unless it is given, that is where `tie_word_embeddings` is not false.
        // Hugging Face's class takes null for false.
        #[serde(skip_serializing_if = "Option::is_none")]
        scale_decoder_outputs: Option<bool> = None;
    }
    ignores [
        "classifier_dropout", "dense_act_fn", "is_gated_act", "n_positions", "num_labels",
    ]
    requires { "is_decoder": false }
}

impl T5Config {
    /// The activation of the feed-forward layers, and whether they are gated.
    pub(super) fn activation(&self) -> Result<(Activation, bool)> {
        let name = &*self.feed_forward_proj;
        let (name, gated) = match name.strip_prefix("gated-") {
            Some("gelu") => ("gelu_new", true),
            Some(name) => (name, true),
            None => (name, false),
        };
        let known = serde_json::from_value(Value::from(name));
        let activation = known.map_err(|_| {
            TorshError::invalid(
                "T5Config",
                format!(
                    "feed_forward_proj = {:?} is neither an activation such as \"relu\" nor one such as \"gated-gelu\"",
                    self.feed_forward_proj
                ),
            )
        })?;
        Ok((activation, gated))
    }

    pub(super) fn std(&self, inputs: usize) -> f64 {
        self.initializer_factor / (inputs as f64).sqrt()
    }

    pub(super) fn scales_outputs(&self) -> bool {
        let old = self.tie_word_embeddings != Some(false);
        self.scale_decoder_outputs.unwrap_or(old)
    }

    pub(super) fn decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.num_layers)
    }

    pub(super) fn attention(&self, has_bias: bool, causal: bool) -> Result<RelativeAttention> {
        RelativeAttention::new(&RelativeOptions {
            width: self.d_model,
            heads: self.num_heads,
            head_size: self.d_kv,
            buckets: has_bias.then_some(self.relative_attention_num_buckets),
            max_distance: self.relative_attention_max_distance,
            causal,
            dropout: self.dropout_rate,
            factor: self.initializer_factor,
        })
    }

    pub(super) fn embedding(&self) -> Result<Embedding> {
        let sizes = [
            ("d_model", self.d_model),
            ("d_kv", self.d_kv),
            ("num_heads", self.num_heads),
            (
                "relative_attention_num_buckets / 4",
                self.relative_attention_num_buckets / 4,
            ),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, n)| *n == 0) {
            return Err(TorshError::invalid("T5Config", format!("{name} is 0")));
        }
        init::embedding(self.vocab_size, self.d_model, None, self.initializer_factor)
    }
}
