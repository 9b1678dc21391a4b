//! The configuration of wav2vec 2.0.

use torsh_tensor::{Result, TorshError};

use super::causal::heads_divide;
use crate::blocks::Activation;
use crate::config::{TokenIds, config};

config! {
    /// The configuration of wav2vec 2.0, by the names in `config.json`.
    /// The default is wav2vec 2.0 base.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Wav2Vec2Config, Wav2Vec2Model};
    /// let model = Construction::new().device(Device::Meta).run(|| Wav2Vec2Model::new(Wav2Vec2Config::default()))?;
    /// assert_eq!(model.num_parameters(), 94_371_712);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Wav2Vec2Config: "wav2vec2" {
        /// Tokens of the head.
        vocab_size = 32;
        hidden_size = 768; num_hidden_layers = 12; num_attention_heads = 12; intermediate_size = 3072;
        hidden_act = Activation::Gelu;
        /// Dropout of the frames, and behind attention and feed-forward layers.
        hidden_dropout: f64 = 0.1;
        activation_dropout = 0.1; attention_dropout = 0.1;
        /// Dropout of the feature encoder's result.
        feat_proj_dropout: f64 = 0.0;
        /// Dropout ahead of the head.
        final_dropout: f64 = 0.1;
        layerdrop = 0.1; initializer_range = 0.02; layer_norm_eps = 1e-5;
        /// Norms of the feature encoder: `group`, behind its first convolution, or `layer`, behind each.
        feat_extract_norm: String = "group".into();
        /// The activation of convolutions.
        feat_extract_activation: Activation = Activation::Gelu;
        /// Channels of each convolution of the feature encoder.
        conv_dim: Vec<usize> = vec![512; 7];
        /// Their strides.
        conv_stride: Vec<usize> = vec![5, 2, 2, 2, 2, 2, 2];
        /// Their windows.
        conv_kernel: Vec<usize> = vec![10, 3, 3, 3, 3, 2, 2];
        /// Whether they have biases.
        conv_bias: bool = false;
        /// The window of the convolution that gives positions.
        num_conv_pos_embeddings: usize = 128;
        /// Its groups.
        num_conv_pos_embedding_groups: usize = 16;
        /// Whether norms are ahead of attention and feed-forward layers instead of behind them.
        do_stable_layer_norm: bool = false;
        /// Whether spans are masked in training.
        apply_spec_augment: bool = true;
        /// The share of frames that are masked.
        mask_time_prob: f64 = 0.05;
        /// Frames of a span.
        mask_time_length: usize = 10;
        /// The fewest spans of frames.
        mask_time_min_masks: usize = 2;
        /// The share of features that are masked.
        mask_feature_prob: f64 = 0.0;
        /// Features of a span.
        mask_feature_length: usize = 10;
        /// The fewest spans of features.
        mask_feature_min_masks: usize = 0;
        /// The blank of CTC.
        pad_token_id: i64 = 0;
        bos_token_id = Some(1);
        /// The end of a sentence in the vocabulary. Nothing is generated, so nothing reads it.
        eos_token_id = TokenIds::from(2);
        /// Whether convolutions behind the encoder make the sequence shorter.
        add_adapter: bool = false;
        /// Their windows.
        adapter_kernel_size: usize = 3;
        /// Their strides.
        adapter_stride: usize = 2;
        /// How many there are.
        num_adapter_layers: usize = 3;
        /// The width of their result; the model's unless given.
        output_hidden_size: Option<usize> = None;
        /// The width inside small layers that adapt the model to a language, where there are some.
        adapter_attn_dim: Option<usize> = None;
    }
    ignores [
        "classifier_proj_size", "codevector_dim", "contrastive_logits_temperature", "ctc_loss_reduction",
        "ctc_zero_infinity", "diversity_loss_weight", "feat_extract_dropout", "feat_quantizer_dropout",
        "hidden_dropout_prob", "mask_channel_length", "mask_channel_min_space", "mask_channel_other",
        "mask_channel_prob", "mask_channel_selection", "mask_time_min_space", "mask_time_other",
        "mask_time_selection", "num_codevector_groups", "num_codevectors_per_group", "num_feat_extract_layers",
        "num_negatives", "proj_codevector_dim", "tdnn_dim", "tdnn_dilation", "tdnn_kernel",
        "use_weighted_layer_sum", "xvector_output_dim",
    ]
    requires {}
}

impl Wav2Vec2Config {
    /// The width of the model's result.
    pub(super) fn output_size(&self) -> usize {
        match self.output_hidden_size {
            Some(size) if self.add_adapter => size,
            _ => self.hidden_size,
        }
    }

    /// How many frames the feature encoder makes of so many samples; 0 where they are fewer than its window.
    ///
    /// ```
    /// use torsh_text::models::Wav2Vec2Config;
    /// // A frame for each 20 ms of 16,000 samples a second.
    /// assert_eq!(Wav2Vec2Config::default().frames(16_000), 49);
    /// assert_eq!(Wav2Vec2Config::default().frames(399), 0);
    /// ```
    pub fn frames(&self, samples: usize) -> usize {
        let windows = self.conv_kernel.iter().zip(&self.conv_stride);
        windows.fold(samples, |n, (&kernel, &stride)| match n < kernel {
            true => 0,
            false => (n - kernel) / stride.max(1) + 1,
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |why: String| Err(TorshError::invalid("Wav2Vec2Config", why));
        heads_divide!("Wav2Vec2Config", self, hidden_size, num_attention_heads)?;
        let layers = [&self.conv_dim, &self.conv_stride, &self.conv_kernel].map(Vec::len);
        if layers[0] == 0 || layers != [layers[0]; 3] {
            return invalid(format!(
                "conv_dim, conv_stride and conv_kernel have a number for each convolution, and have {layers:?}"
            ));
        }
        if !["group", "layer"].contains(&&*self.feat_extract_norm) {
            return invalid(format!(
                "feat_extract_norm is group or layer, not {:?}",
                self.feat_extract_norm
            ));
        }
        heads_divide!(
            "Wav2Vec2Config",
            self,
            hidden_size,
            num_conv_pos_embedding_groups
        )
    }
}
