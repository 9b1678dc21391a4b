//! wav2vec 2.0 (Baevski et al., "wav2vec 2.0: A Framework for Self-Supervised Learning of Speech Representations", 2020).

use torsh_nn::construct;
use torsh_nn::{Dropout, Linear, Module, ModuleExt, Parameter, Training, init as draw};
use torsh_tensor::{Result, Tensor, TorshError};

use super::pretrained;
use super::wav2vec2_adapter::{Adapter, masked_spans};
use super::wav2vec2_config::Wav2Vec2Config;
use super::wav2vec2_features::{FeatureEncoder, FeatureProjection};
use super::wav2vec2_layers::Encoder;
use crate::blocks::{Padding, class, init};

/// What [`Wav2Vec2Model`] computes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wav2Vec2Output {
    /// `[batch, frames, width]`
    pub last_hidden_state: Tensor,
    /// The feature encoder's result, normalised: `[batch, frames, channels]`.
    pub extract_features: Tensor,
}

class! {
    /// wav2vec 2.0: hidden states of each 20 ms of speech.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::{Tensor, rand};
    /// use torsh_text::models::{Wav2Vec2Config, Wav2Vec2Model};
    /// let model = Wav2Vec2Model::new(Wav2Vec2Config {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, conv_dim: vec![4, 4],
    ///     conv_stride: vec![4, 2], conv_kernel: vec![4, 2], num_conv_pos_embeddings: 4,
    ///     num_conv_pos_embedding_groups: 2, ..Default::default()
    /// })?;
    /// model.eval();
    /// assert_eq!(model.forward(&rand([1, 80]))?.dims(), [1, 10, 8]);
    /// // How many of the frames are sound, where the rest of 80 samples is padding.
    /// let mask: Vec<i64> = (0..160).map(|i| i64::from(i < 120)).collect();
    /// assert_eq!(model.frames_of(&Tensor::from_vec(mask, [2, 80])?)?, [10, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Wav2Vec2Model(Wav2Vec2Config), errors "Sizes that do not fit together; the error names the fields."
    |c| first {
        c.check()?;
        let masked = || {
            let (dtype, device) = (construct::dtype(), construct::device());
            let embed = Tensor::empty([c.hidden_size], dtype, device)?;
            draw::uniform_(&embed, 0.0, 1.0)?;
            Parameter::with_requires_grad(embed, true)
        };
        let masks = c.mask_time_prob > 0.0 || c.mask_feature_prob > 0.0;
    } {
        masked_spec_embed: Option<Parameter> = masks.then(masked).transpose()?;
        feature_extractor: FeatureEncoder = FeatureEncoder::new(c)?;
        feature_projection: FeatureProjection = FeatureProjection::new(c)?;
        encoder: Encoder = Encoder::new(c)?;
        adapter: Option<Adapter> = c.add_adapter.then(|| Adapter::new(c)).transpose()?;
        training: Training = Training::default();
    }
    /// The last hidden state `[batch, frames, width]` of sound `[batch, samples]`.
    forward |m, x| Ok(m.forward_with(x, None)?.last_hidden_state);
    named |m, inputs| {
        let output = m.forward_with(inputs.input_values()?, inputs.attention_mask.as_ref())?;
        Ok(vec![
            ("last_hidden_state", output.last_hidden_state),
            ("extract_features", output.extract_features),
        ])
    }
}

impl Wav2Vec2Model {
    /// Keeps the feature encoder as it is in training, as fine-tuning does.
    pub fn freeze_feature_encoder(&self) {
        self.feature_extractor.requires_grad_(false);
    }

    /// How many frames of each sequence are sound, of a mask that is 1 for sound and 0 for padding on its right.
    ///
    /// # Errors
    /// A mask that is not `[batch, samples]`.
    #[torsh_tensor::names_caller]
    pub fn frames_of(&self, mask: &Tensor) -> Result<Vec<usize>> {
        let samples = mask.ne(0)?.sum_dim(1, false)?.to_vec::<i64>()?;
        let frames = samples.iter().map(|&n| self.config.frames(n as usize));
        Ok(frames.collect())
    }

    /// The hidden states of sound `[batch, samples]`, whose mask is 1 for sound and 0 for padding on its right.
    ///
    /// # Errors
    /// Sound that is shorter than a window of the feature encoder.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_values: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Wav2Vec2Output> {
        let c = &self.config;
        let invalid = |why: String| Err(TorshError::shape("Wav2Vec2Model", why));
        let &[batch, samples] = input_values.dims() else {
            return invalid(format!(
                "expected input_values [batch, samples], got {}",
                input_values.shape()
            ));
        };
        let frames = c.frames(samples);
        if frames == 0 {
            return invalid(format!(
                "{samples} samples are fewer than a window of the feature encoder has"
            ));
        }
        let x = self
            .feature_extractor
            .forward(input_values)?
            .transpose(1, 2)?;
        let mut lengths = vec![frames; batch];
        if let Some(mask) = mask {
            if mask.dims() != input_values.dims() {
                return invalid(format!(
                    "a mask {} for sound {}",
                    mask.shape(),
                    input_values.shape()
                ));
            }
            lengths = self.frames_of(mask)?;
        }
        let whole = lengths.iter().all(|&n| n == frames);
        let padding = (!whole).then(|| Padding::new(lengths.iter().map(|&n| 0..n)));
        let extract_features = self.feature_projection.layer_norm.forward(&x)?;
        let x = self.feature_projection.project(&extract_features)?;
        let x = self.masked(x, &lengths)?;
        let mut x = self.encoder.run(&x, padding.as_ref())?;
        if let Some(adapter) = &self.adapter {
            x = adapter.forward(&x)?;
        }
        Ok(Wav2Vec2Output {
            last_hidden_state: x,
            extract_features,
        })
    }

    /// In training, spans of frames become one learnt vector, and spans of features 0.
    fn masked(&self, x: Tensor, lengths: &[usize]) -> Result<Tensor> {
        let c = &self.config;
        let (true, Some(embed)) = (
            c.apply_spec_augment && self.training.get(),
            &self.masked_spec_embed,
        ) else {
            return Ok(x);
        };
        let (frames, width) = (x.size(1)?, x.size(2)?);
        let mut x = x;
        if c.mask_time_prob > 0.0 {
            let spans = (c.mask_time_prob, c.mask_time_length, c.mask_time_min_masks);
            let masked = masked_spans(lengths, frames, spans)?.to_device(x.device())?;
            x = Tensor::where_(&masked.unsqueeze(-1)?, &embed.to_dtype(x.dtype())?, &x)?;
        }
        if c.mask_feature_prob > 0.0 {
            let spans = (
                c.mask_feature_prob,
                c.mask_feature_length,
                c.mask_feature_min_masks,
            );
            let rows = vec![width; lengths.len()];
            let masked = masked_spans(&rows, width, spans)?.to_device(x.device())?;
            x = x.masked_fill(&masked.unsqueeze(1)?, 0.0)?;
        }
        Ok(x)
    }
}

class! {
    /// wav2vec 2.0 with a head that tells a letter for each frame.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{Wav2Vec2Config, Wav2Vec2ForCTC, ctc_greedy_decode};
    /// let model = Wav2Vec2ForCTC::new(Wav2Vec2Config {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, conv_dim: vec![4, 4],
    ///     conv_stride: vec![4, 2], conv_kernel: vec![4, 2], num_conv_pos_embeddings: 4,
    ///     num_conv_pos_embedding_groups: 2, ..Default::default()
    /// })?;
    /// model.eval();
    /// let logits = model.forward(&rand([1, 80]))?;
    /// assert_eq!(logits.dims(), [1, 10, 32]);
    /// assert!(ctc_greedy_decode(&logits, 0, None)?[0].len() <= 10);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Wav2Vec2ForCTC(Wav2Vec2Config), errors "As [`Wav2Vec2Model::new`]."
    |c| first {
        let (width, std) = (c.output_size(), c.initializer_range);
    } {
        wav2vec2: Wav2Vec2Model = Wav2Vec2Model::new(c.clone())?;
        dropout: Dropout = Dropout::new(c.final_dropout)?;
        lm_head: Linear = init::linear(width, c.vocab_size, true, std)?;
    }
    /// The logits `[batch, frames, vocabulary]` of sound `[batch, samples]`.
    forward |m, x| m.forward_with(x, None);
    named |m, inputs| {
        let logits = m.forward_with(inputs.input_values()?, inputs.attention_mask.as_ref())?;
        Ok(vec![("logits", logits)])
    }
}

/// [`Wav2Vec2ForCTC`], by its short name.
pub type Wav2Vec2 = Wav2Vec2ForCTC;

impl Wav2Vec2ForCTC {
    /// The model without the head.
    pub fn base(&self) -> &Wav2Vec2Model {
        &self.wav2vec2
    }

    /// The logits `[batch, frames, vocabulary]` of sound `[batch, samples]`, whose mask is 1 for sound and 0 for
    /// padding on its right.
    ///
    /// # Errors
    /// As [`Wav2Vec2Model::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, input_values: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let x = self.wav2vec2.forward_with(input_values, mask)?;
        self.lm_head
            .forward(&self.dropout.forward(&x.last_hidden_state)?)
    }
}

pretrained! {
    base "wav2vec2", ignores [];
    Wav2Vec2Model(Wav2Vec2Config), Wav2Vec2ForCTC(Wav2Vec2Config),
}
