//! What the encoder-decoders of this crate share around their layers.

use torsh_tensor::{Result, Tensor, TorshError};

use crate::blocks::cross::ids_shape;
use crate::generation::EncoderInput;

impl<'a> EncoderInput<'a> {
    /// The token ids.
    ///
    /// # Errors
    /// Features, for a model that reads ids.
    pub(super) fn ids(self, family: &'static str) -> Result<&'a Tensor> {
        match self {
            EncoderInput::Ids(ids) => Ok(ids),
            EncoderInput::Features(x) => Err(TorshError::invalid(
                family,
                format!("the encoder reads token ids, got features {}", x.describe()),
            )),
        }
    }

    /// The features.
    ///
    /// # Errors
    /// Token ids, for a model that reads features.
    pub(super) fn features(self, family: &'static str) -> Result<&'a Tensor> {
        match self {
            EncoderInput::Features(x) => Ok(x),
            EncoderInput::Ids(ids) => Err(TorshError::invalid(
                family,
                format!(
                    "the encoder reads features, got token ids {}",
                    ids.describe()
                ),
            )),
        }
    }
}

/// Decoder ids of targets: `start` ahead of them, without the last, and `pad` in the place of -100.
///
/// # Errors
/// No padding token, and ids that are not `[batch, length]`.
pub(super) fn shift_right(
    family: &'static str,
    ids: &Tensor,
    start: Option<i64>,
    pad: Option<i64>,
) -> Result<Tensor> {
    let missing = |field: &str| {
        TorshError::invalid(
            family,
            format!("{field} of the configuration is null, and the decoder's ids need it"),
        )
        .with_hint("set it in the configuration, or give decoder_input_ids")
    };
    let start = start.ok_or_else(|| missing("decoder_start_token_id"))?;
    let pad = pad.ok_or_else(|| missing("pad_token_id"))?;
    let (batch, length) = ids_shape(family, ids)?;
    let begin = Tensor::full([batch, 1], start, ids.dtype(), ids.device())?;
    let all = Tensor::cat(&[begin, ids.narrow(1, 0, length - 1)?], 1)?;
    all.masked_fill(&all.eq(-100)?, pad)
}

/// Implements [`Module`](torsh_nn::Module), [`TextModel`](super::TextModel) and
/// [`GenerationModel`](crate::generation::GenerationModel) for an encoder-decoder with a head, which has the fields
/// `config` and `hooks` and the methods `run_encoder`, `run_decoder`, `head` and `decoder_ids`.
macro_rules! seq2seq_lm {
    (
        $model:ident, reads $input:ident $name:ident, positions $positions:expr,
        layers $layers:expr, defaults $defaults:expr
    ) => {
        impl $model {
            /// The logits `[batch, length, vocabulary]` of the decoder's ids, and the encoder's result.
            ///
            /// # Errors
            /// Ids outside of the vocabulary, more tokens than there are positions, and batches of different sizes.
            #[torsh_tensor::names_caller]
            pub fn forward_with(
                &self,
                $name: &torsh_tensor::Tensor,
                padding: Option<&$crate::blocks::Padding>,
                decoder_input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<(torsh_tensor::Tensor, $crate::generation::EncoderState)> {
                let input = $crate::models::seq2seq::seq2seq_lm!(@ $input $name);
                let state = self.run_encoder(input, padding)?;
                let mut step = $crate::models::causal::whole_step(decoder_input_ids, None);
                step.encoder = Some(&state);
                let logits = self.head(&self.run_decoder(step)?)?;
                Ok((logits, state))
            }

            /// The decoder's ids that teach it to give `labels` `[batch, length]`: each is that of the label ahead.
            ///
            /// # Errors
            /// A configuration without the token that begins the decoder's text or without padding token.
            #[torsh_tensor::names_caller]
            pub fn decoder_input_ids(
                &self,
                labels: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                let c = &self.config;
                let (start, pad) = (c.decoder_start_token_id, c.pad_token_id);
                $crate::models::seq2seq::shift_right(stringify!($model), labels, start, pad)
            }
        }

        impl torsh_nn::Module for $model {
            /// An error: the encoder and the decoder each need an input.
            #[torsh_tensor::names_caller]
            fn forward(&self, _: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                Err($crate::models::seq2seq::needs_both(stringify!($model), stringify!($name)))
            }
        }

        impl $crate::models::TextModel for $model {
            #[torsh_tensor::names_caller]
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                let padding = $crate::models::causal::padding_of(inputs)?;
                let decoder_ids = match &inputs.decoder_input_ids {
                    Some(ids) => ids.clone(),
                    None => self.default_decoder_ids(inputs)?,
                };
                let (logits, state) =
                    self.forward_with(inputs.$name()?, padding.as_ref(), &decoder_ids)?;
                Ok(vec![
                    ("logits", logits),
                    ("encoder_last_hidden_state", state.last_hidden_state),
                ])
            }

            fn as_generation(&self) -> Option<&dyn $crate::generation::GenerationModel> {
                Some(self)
            }
        }

        impl $crate::generation::GenerationModel for $model {
            fn vocab_size(&self) -> usize {
                self.config.vocab_size
            }

            fn max_positions(&self) -> Option<usize> {
                ($positions)(&self.config)
            }

            fn special_tokens(&self) -> $crate::generation::SpecialTokens {
                let c = &self.config;
                $crate::generation::SpecialTokens {
                    bos: c.bos_token_id,
                    eos: c.eos_token_id.clone(),
                    pad: c.pad_token_id,
                    decoder_start: c.decoder_start_token_id,
                }
            }

            fn generation_defaults(&self) -> serde_json::Map<String, serde_json::Value> {
                ($defaults)(&self.config)
            }

            fn adjust_options(
                &self,
                options: $crate::generation::GenerationOptions,
            ) -> $crate::generation::GenerationOptions {
                $crate::models::seq2seq::seq2seq_lm!(@ options $input options)
            }

            fn new_cache(&self, kind: $crate::blocks::CacheKind) -> $crate::blocks::KvCache {
                $crate::blocks::KvCache::new(std::iter::repeat_n(kind, ($layers)(&self.config)))
            }

            fn is_encoder_decoder(&self) -> bool {
                true
            }

            #[torsh_tensor::names_caller]
            fn encode(
                &self,
                input: $crate::generation::EncoderInput<'_>,
                padding: Option<&$crate::blocks::Padding>,
            ) -> torsh_tensor::Result<$crate::generation::EncoderState> {
                self.run_encoder(input, padding)
            }

            #[torsh_tensor::names_caller]
            fn decode(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<$crate::generation::DecoderOutput> {
                let wanted = step.logits;
                let hidden = self.run_decoder(step)?;
                let last = $crate::models::causal::of_logits(&hidden, wanted)?;
                let logits = self.head(&last)?;
                Ok($crate::generation::DecoderOutput { logits, hidden })
            }
        }
    };
    (@ options ids $options:ident) => {
        $options
    };
    // A temperature above 0 is what makes speech models draw.
    (@ options features $options:ident) => {{
        let draws = $options.temperature.is_some_and(|t| t > 0.0);
        let samples = $options.do_sample.unwrap_or(false) && draws;
        $options.do_sample(samples)
    }};
    (@ ids $name:ident) => {
        $crate::generation::EncoderInput::Ids($name)
    };
    (@ features $name:ident) => {
        $crate::generation::EncoderInput::Features($name)
    };
}
pub(super) use seq2seq_lm;

/// What models say that are given one of their two inputs.
pub(super) fn needs_both(model: &'static str, input: &str) -> TorshError {
    TorshError::invalid(model, "the encoder and the decoder each need an input").with_hint(format!(
        "call forward_with({input}, padding, decoder_input_ids)"
    ))
}
