//! Whisper: an encoder-decoder from sound to text (Radford et al., 2023).

use torsh_nn::{Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::causal::{head, whole_step};
use super::pretrained;
use super::seq2seq::{needs_both, seq2seq_lm};
use super::text_model::{ModelInputs, ModelOutputs, TextModel};
use super::whisper_config::WhisperConfig;
use super::whisper_layers::{WhisperDecoder, WhisperEncoder};
use crate::blocks::Padding;
use crate::generation::{DecoderStep, EncoderInput, EncoderState};

/// Whisper without head.
#[derive(Module)]
pub struct WhisperModel {
    /// The encoder.
    pub encoder: WhisperEncoder,
    /// The decoder.
    pub decoder: WhisperDecoder,
    #[module(skip)]
    config: WhisperConfig,
}

impl WhisperModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A configuration whose numbers do not fit together.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: WhisperConfig) -> Result<WhisperModel> {
        Ok(WhisperModel {
            encoder: WhisperEncoder::new(&config)?,
            decoder: WhisperDecoder::new(&config)?,
            config,
        })
    }

    fn encode(&self, input_features: &Tensor) -> Result<EncoderState> {
        Ok(EncoderState {
            last_hidden_state: self.encoder.forward(input_features)?,
            padding: None,
        })
    }

    /// The decoder's result `[batch, length, d_model]` and the encoder's.
    ///
    /// # Errors
    /// A spectrogram of other sizes, ids outside of the vocabulary, more tokens than there are positions, and batches of
    /// different sizes.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_features: &Tensor,
        decoder_input_ids: &Tensor,
    ) -> Result<(Tensor, EncoderState)> {
        let state = self.encode(input_features)?;
        let step = DecoderStep {
            encoder: Some(&state),
            ..whole_step(decoder_input_ids, None)
        };
        Ok((self.decoder.run(step)?, state))
    }
}

impl Module for WhisperModel {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_both("WhisperModel", "input_features"))
    }
}

impl TextModel for WhisperModel {
    #[torsh_tensor::names_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        let (features, ids) = (inputs.input_features()?, inputs.decoder_input_ids()?);
        let (hidden, state) = self.forward_with(features, ids)?;
        Ok(vec![
            ("last_hidden_state", hidden),
            ("encoder_last_hidden_state", state.last_hidden_state),
        ])
    }
}

/// Whisper with the head that predicts the next token: what someone said, or its translation.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::{ones, tensor};
/// use torsh_text::models::{WhisperConfig, WhisperForConditionalGeneration};
/// let config = WhisperConfig {
///     d_model: 8, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
///     encoder_ffn_dim: 16, decoder_ffn_dim: 16, vocab_size: 11, pad_token_id: Some(0), num_mel_bins: 4,
///     max_source_positions: 6, ..Default::default()
/// };
/// let model = WhisperForConditionalGeneration::new(config)?;
/// model.eval();
/// let (logits, encoded) = model.forward_with(&ones([1, 4, 12]), None, &tensor![[1, 5]])?;
/// assert_eq!((logits.dims(), encoded.last_hidden_state.dims()), (&[1, 2, 11][..], &[1, 6, 8][..]));
/// // A token sees none behind it.
/// let (longer, _) = model.forward_with(&ones([1, 4, 12]), None, &tensor![[1, 5, 7]])?;
/// assert!(longer.narrow(1, 0, 2)?.sub(&logits)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct WhisperForConditionalGeneration {
    /// The model without head.
    pub model: WhisperModel,
    /// The head.
    pub proj_out: Linear,
    #[module(skip)]
    config: WhisperConfig,
}

impl WhisperForConditionalGeneration {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A configuration whose numbers do not fit together.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: WhisperConfig) -> Result<WhisperForConditionalGeneration> {
        let model = WhisperModel::new(config.clone())?;
        let tied = config.tie_word_embeddings;
        Ok(WhisperForConditionalGeneration {
            proj_out: head(&model.decoder.embed_tokens, tied, config.init_std)?,
            model,
            config,
        })
    }

    fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        self.proj_out.forward(hidden)
    }

    fn run_encoder(&self, input: EncoderInput<'_>, _: Option<&Padding>) -> Result<EncoderState> {
        // A spectrogram has no padding: silence stands behind a short sound.
        self.model.encode(input.features("Whisper")?)
    }

    fn run_decoder(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        self.model.decoder.run(step)
    }

    fn default_decoder_ids(&self, inputs: &ModelInputs) -> Result<Tensor> {
        inputs.decoder_input_ids().cloned()
    }
}

seq2seq_lm! {
    WhisperForConditionalGeneration, reads features input_features,
    positions |c: &WhisperConfig| Some(c.max_target_positions),
    layers |c: &WhisperConfig| c.decoder_layers,
    defaults |c: &WhisperConfig| [
        ("suppress_tokens", &c.suppress_tokens),
        ("begin_suppress_tokens", &c.begin_suppress_tokens),
    ].into_iter().map(|(name, ids)| (name.to_string(), serde_json::json!(ids))).collect()
}

pretrained! {
    base "model", ignores ["proj_out.weight"];
    WhisperModel(WhisperConfig), WhisperForConditionalGeneration(WhisperConfig)
}
