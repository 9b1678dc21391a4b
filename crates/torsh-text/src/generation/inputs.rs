//! What generation reads and gives.

use torsh_tensor::{Result, Tensor, TorshError};

use super::constrained::Constraint;
use super::criteria::StoppingCriteria;
use super::model::{EncoderState, GenerationModel};
use super::processors::LogitsProcessor;
use super::text::TokenText;
use crate::blocks::KvCache;

/// What generation reads.
///
/// ```
/// use torsh_text::generation::GenerateInputs;
/// // Two prompts of different lengths, filled up on the left.
/// let inputs = GenerateInputs::prompts(&[vec![5, 6, 7], vec![8]], Some(0))?;
/// assert_eq!(inputs.input_ids.map(|t| t.to_vec::<i64>()).transpose()?, Some(vec![5, 6, 7, 0, 0, 8]));
/// assert_eq!(inputs.attention_mask.map(|t| t.to_vec::<i64>()).transpose()?, Some(vec![1, 1, 1, 0, 0, 1]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct GenerateInputs<'a> {
    /// The prompts `[batch, tokens]` (int64); in an encoder-decoder what the encoder reads.
    pub input_ids: Option<Tensor>,
    /// 1 for the tokens of `input_ids` and 0 for padding, `[batch, tokens]`. Prompts of a decoder are padded on the left.
    /// Without it, tokens that are the pad token are padding where that token does not end texts.
    pub attention_mask: Option<Tensor>,
    /// What an encoder reads that is no text, as Whisper's spectrogram `[batch, mel bins, frames]`.
    pub input_features: Option<Tensor>,
    /// The beginning of the decoder's texts in an encoder-decoder `[batch, tokens]` (int64); its start token alone where
    /// it is not given.
    pub decoder_input_ids: Option<Tensor>,
    /// The encoder's result, where it has been computed before.
    pub encoder: Option<EncoderState>,
    /// A cache that holds the prompts' beginning. `input_ids` has all tokens, those in the cache too.
    pub cache: Option<KvCache>,
    /// Makes texts of tokens, for stop strings.
    pub tokenizer: Option<&'a dyn TokenText>,
    /// A smaller model with the same vocabulary that proposes tokens.
    pub assistant: Option<&'a dyn GenerationModel>,
    /// What every text must match.
    pub constraint: Option<&'a Constraint>,
    /// Processors of one's own, after those of the options and before those that draw.
    pub logits_processors: Vec<Box<dyn LogitsProcessor + 'a>>,
    /// Criteria of one's own, besides those of the options.
    pub stopping_criteria: Vec<Box<dyn StoppingCriteria + 'a>>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $ty:ty;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $field(mut self, $field: $ty) -> Self {
                self.$field = Some($field);
                self
            }
        )*
    };
}

impl<'a> GenerateInputs<'a> {
    /// Prompts `[batch, tokens]` (int64), or what an encoder reads.
    pub fn ids(input_ids: &Tensor) -> GenerateInputs<'a> {
        GenerateInputs {
            input_ids: Some(input_ids.clone()),
            ..GenerateInputs::default()
        }
    }

    /// What an encoder reads that is no text.
    pub fn features(input_features: &Tensor) -> GenerateInputs<'a> {
        GenerateInputs {
            input_features: Some(input_features.clone()),
            ..GenerateInputs::default()
        }
    }

    /// Prompts of different lengths, which are filled up on the left with `pad_token_id`.
    ///
    /// # Errors
    /// Different lengths without a pad token, and no prompt at all.
    #[torsh_tensor::names_caller(Self)]
    pub fn prompts(prompts: &[Vec<i64>], pad_token_id: Option<i64>) -> Result<GenerateInputs<'a>> {
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let shortest = prompts.iter().map(Vec::len).min().unwrap_or(0);
        if longest == 0 {
            return Err(TorshError::invalid("generate", "there is no prompt"));
        }
        let pad = match pad_token_id {
            Some(pad) => pad,
            None if shortest == longest => 0,
            None => {
                return Err(TorshError::invalid(
                    "generate",
                    format!(
                        "prompts of {shortest} to {longest} tokens in one batch, and no pad token to fill them up"
                    ),
                )
                .with_hint("give a pad_token_id: any token does, since padding is not seen"));
            }
        };
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for prompt in prompts {
            let missing = longest - prompt.len();
            ids.extend(std::iter::repeat_n(pad, missing).chain(prompt.iter().copied()));
            mask.extend((0..longest).map(|at| i64::from(at >= missing)));
        }
        let shape = [prompts.len(), longest];
        Ok(GenerateInputs {
            input_ids: Some(Tensor::from_vec(ids, shape)?),
            attention_mask: Some(Tensor::from_vec(mask, shape)?),
            ..GenerateInputs::default()
        })
    }

    setters! {
        /// 1 for tokens and 0 for padding, `[batch, tokens]`.
        attention_mask: Tensor;
        /// The beginning of the decoder's texts in an encoder-decoder.
        decoder_input_ids: Tensor;
        /// The encoder's result.
        encoder: EncoderState;
        /// A cache that holds the prompts' beginning.
        cache: KvCache;
        /// Makes texts of tokens, for stop strings.
        tokenizer: &'a dyn TokenText;
        /// A smaller model with the same vocabulary that proposes tokens.
        assistant: &'a dyn GenerationModel;
        /// What every text must match.
        constraint: &'a Constraint;
    }

    /// Adds a processor.
    #[must_use]
    pub fn logits_processor(mut self, processor: impl LogitsProcessor + 'a) -> Self {
        self.logits_processors.push(Box::new(processor));
        self
    }

    /// Adds a criterion.
    #[must_use]
    pub fn stopping_criterion(mut self, criterion: impl StoppingCriteria + 'a) -> Self {
        self.stopping_criteria.push(Box::new(criterion));
        self
    }
}

/// What generation gives.
#[derive(Clone)]
#[non_exhaustive]
pub struct GenerateOutput {
    /// The texts `[batch * num_return_sequences, tokens]` (int64), those of one prompt neighbouring, prompts included.
    pub sequences: Tensor,
    /// With beams: the scores of the texts (float32), best first for each prompt.
    pub sequences_scores: Option<Tensor>,
    /// With beams: from which row of the step before each new token's text came, -1 behind its end (int64).
    pub beam_indices: Option<Tensor>,
    /// The processed scores `[rows, vocabulary]` of every step, with `output_scores`.
    pub scores: Vec<Tensor>,
    /// The logits `[rows, vocabulary]` of every step, with `output_logits`.
    pub logits: Vec<Tensor>,
    /// The cache after the last step; it lacks the last token.
    pub cache: Option<KvCache>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_different_lengths_need_padding() -> Result<()> {
        let error = GenerateInputs::prompts(&[vec![1, 2], vec![3]], None).err();
        let error = error.map(|e| e.to_string()).unwrap_or_default();
        assert!(
            error.contains("1 to 2") && error.contains("pad token"),
            "{error}"
        );
        let same = GenerateInputs::prompts(&[vec![1], vec![3]], None)?;
        assert_eq!(
            same.input_ids.map(|t| t.to_vec::<i64>()).transpose()?,
            Some(vec![1, 3])
        );
        assert!(GenerateInputs::prompts(&[], Some(0)).is_err());
        Ok(())
    }
}
