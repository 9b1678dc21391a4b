//! The configuration of Whisper.

use torsh_nn::Conv1d;
use torsh_nn::construct::Construction;
use torsh_tensor::Result;

use crate::blocks::Activation;
use crate::blocks::cross::LayerOptions;
use crate::config::{TokenIds, config};

config! {
    /// The configuration of Whisper.
    /// The default is the smallest Whisper (`openai/whisper-tiny`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{WhisperConfig, WhisperForConditionalGeneration};
    /// let meta = Construction::new().device(Device::Meta);
    /// let model = meta.run(|| WhisperForConditionalGeneration::new(WhisperConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 37_760_640);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    WhisperConfig: "whisper" {
        vocab_size = 51865;
        /// Bins of a spectrogram.
        num_mel_bins: usize = 80;
        encoder_layers = 4; encoder_attention_heads = 6; decoder_layers = 4; decoder_attention_heads = 6;
        decoder_ffn_dim = 1536; encoder_ffn_dim = 1536; encoder_layerdrop = 0.0; decoder_layerdrop = 0.0;
        decoder_start_token_id = Some(50257); activation_function = Activation::Gelu;
        /// Channels of a token and of a frame.
        d_model: usize = 384;
        dropout = 0.0; attention_dropout = 0.0; activation_dropout = 0.0; init_std = 0.02;
        /// Half the frames of a spectrogram.
        max_source_positions: usize = 1500;
        /// The most tokens of a text.
        max_target_positions: usize = 448;
        pad_token_id = Some(50256); bos_token_id = Some(50256); eos_token_id = TokenIds::from(50256);
        /// Tokens that are never generated.
        suppress_tokens: Option<Vec<i64>> = None;
        /// Tokens that no text begins with.
        begin_suppress_tokens: Option<Vec<i64>> = Some(vec![220, 50256]);
        /// Whether the head is the table of the tokens' vectors.
        tie_word_embeddings = true;
    }
    ignores [
        "alignment_heads", "classifier_proj_size", "lang_ids", "mask_feature_length", "mask_feature_min_masks",
        "mask_feature_prob", "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width",
        "num_hidden_layers", "scale_embedding", "suppress_ids", "suppress_ids_begin", "use_weighted_layer_sum"
    ]
    requires { "apply_spec_augment": false }
}

impl WhisperConfig {
    pub(super) fn layers(&self, decoder: bool) -> LayerOptions {
        LayerOptions {
            family: "Whisper",
            width: self.d_model,
            heads: if decoder {
                self.decoder_attention_heads
            } else {
                self.encoder_attention_heads
            },
            ffn: if decoder {
                self.decoder_ffn_dim
            } else {
                self.encoder_ffn_dim
            },
            key_bias: false,
            pre_norm: true,
            cross: decoder,
            activation: self.activation_function,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            activation_dropout: self.activation_dropout,
            std: self.init_std,
        }
    }

    /// A convolution over three frames, whose result has one frame for `stride` of them.
    pub(super) fn conv(&self, inputs: usize, stride: i64) -> Result<Conv1d> {
        let make = || {
            Conv1d::builder(inputs, self.d_model, 3)
                .stride(stride)
                .padding(1)
                .build()
        };
        let layer = Construction::new().draw_nothing().run(make)?;
        torsh_nn::init::normal_(&layer.weight, 0.0, self.init_std)?;
        if let Some(bias) = &layer.bias {
            torsh_nn::init::zeros_(bias)?;
        }
        Ok(layer)
    }
}
