//! Continuations of texts.
//!
//! [`GenerationExt`] gives every [`GenerationModel`] `generate`, `generate_with` and `stream`. Names, defaults and
//! results of [`GenerationOptions`] are those of Hugging Face's library: greedy and drawn continuations, beams, groups
//! of beams, contrastive search, assisted decoding. Draws are PyTorch's after the same `manual_seed`.
//!
//! ```
//! use torsh_nn::ModuleExt;
//! use torsh_tensor::tensor;
//! use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationOptions};
//! use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
//! let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, ..Default::default() };
//! let model = GPT2LMHeadModel::new(config)?;
//! model.eval();
//! let options = GenerationOptions::new().max_new_tokens(3);
//! let texts = model.generate(&tensor![[1, 2], [3, 4]], &options)?;
//! assert_eq!(texts.dims(), [2, 5]);
//! // Beams have scores, best first.
//! let options = options.num_beams(4).num_return_sequences(2);
//! let output = model.generate_with(GenerateInputs::ids(&tensor![[1, 2]]), &options)?;
//! let scores = output.sequences_scores.map(|s| s.to_vec::<f32>()).transpose()?.unwrap_or_default();
//! assert!(scores.len() == 2 && scores[0] >= scores[1]);
//! // Token by token.
//! let options = GenerationOptions::new().max_new_tokens(3);
//! let stream = model.stream(GenerateInputs::ids(&tensor![[1, 2]]), &options)?;
//! assert_eq!(stream.collect::<torsh_tensor::Result<Vec<i64>>>()?, texts.to_vec2::<i64>()?[0][2..]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod assisted;
mod beams;
mod constrained;
mod contrastive;
mod criteria;
mod decoding;
mod groups;
mod inputs;
mod model;
mod options;
mod perplexity;
mod pipeline;
mod processors;
mod sampling;
mod schema;
mod stream;
mod text;
mod warpers;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transformers;

use torsh_tensor::{Result, Tensor, TorshError, no_grad};

pub use constrained::Constraint;
pub use criteria::{
    EosTokenCriteria, MaxLengthCriteria, MaxTimeCriteria, StopStringCriteria, StoppingCriteria,
};
pub use inputs::{GenerateInputs, GenerateOutput};
pub use model::{DecoderOutput, DecoderStep, EncoderInput, EncoderState, GenerationModel, Logits};
pub use options::{
    AssistantSchedule, CacheImplementation, EarlyStopping, GenerationOptions, SpecialTokens,
};
pub use perplexity::perplexity;
pub use processors::{
    EncoderNoRepeatNGramLogitsProcessor, EncoderRepetitionPenaltyLogitsProcessor,
    ExponentialDecayLengthPenalty, ForcedBOSTokenLogitsProcessor, ForcedEOSTokenLogitsProcessor,
    InfNanRemoveLogitsProcessor, LogitNormalization, LogitsProcessor, MinLengthLogitsProcessor,
    NoBadWordsLogitsProcessor, NoRepeatNGramLogitsProcessor, PresenceFrequencyPenalty,
    RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor,
};
pub use stream::{TextStream, TokenStream};
pub use text::{TextPieces, TokenText, Vocabulary};
pub use warpers::{
    EpsilonLogitsWarper, EtaLogitsWarper, MinPLogitsWarper, TemperatureLogitsWarper,
    TopHLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper,
};

use assisted::Proposer;
use decoding::{Decoder, Prompt};
use pipeline::Pipeline;
use sampling::Sampler;

/// Generation with every model that can: also with a `dyn GenerationModel`.
pub trait GenerationExt: GenerationModel {
    /// Continues texts `[batch, tokens]` (int64); an encoder-decoder reads them and writes others.
    ///
    /// # Errors
    /// Tokens outside of the vocabulary, prompts longer than the model has positions, options that contradict one
    /// another, and whatever the model refuses.
    #[torsh_tensor::names_caller]
    fn generate(&self, input_ids: &Tensor, options: &GenerationOptions) -> Result<Tensor> {
        Ok(self
            .generate_with(GenerateInputs::ids(input_ids), options)?
            .sequences)
    }

    /// [`GenerationExt::generate`] with all inputs and all outputs.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    fn generate_with(
        &self,
        inputs: GenerateInputs<'_>,
        options: &GenerationOptions,
    ) -> Result<GenerateOutput> {
        run(Box::new(self), inputs, options)
    }

    /// The continuation of one text, token by token: an iterator. [`TokenStream::text`] makes pieces of text of it.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::tensor;
    /// use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationOptions, TokenText};
    /// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
    /// struct Digits;
    /// impl TokenText for Digits {
    ///     fn decode(&self, ids: &[u32]) -> torsh_tensor::Result<String> {
    ///         Ok(ids.iter().filter_map(|&id| char::from_digit(id, 10)).collect())
    ///     }
    /// }
    /// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 10, ..Default::default() };
    /// let model = GPT2LMHeadModel::new(config)?;
    /// model.eval();
    /// let options = GenerationOptions::new().max_new_tokens(4).suppress_tokens([0, 1, 2, 3]);
    /// let stream = model.stream(GenerateInputs::ids(&tensor![[1, 2]]), &options)?;
    /// let text = stream.text(&Digits).collect::<torsh_tensor::Result<String>>()?;
    /// assert!(text.len() == 4 && text.chars().all(|c| c > '3'));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`GenerationExt::generate`]; several texts, beams and assisted decoding.
    #[track_caller]
    fn stream<'a>(
        &'a self,
        inputs: GenerateInputs<'a>,
        options: &GenerationOptions,
    ) -> Result<TokenStream<'a>> {
        stream(Box::new(self), inputs, options)
    }
}

impl<M: GenerationModel + ?Sized> GenerationExt for M {}

fn invalid(why: String) -> TorshError {
    TorshError::invalid("generate", why)
}

fn run<'a>(
    model: Box<dyn Decoder + 'a>,
    mut inputs: GenerateInputs<'a>,
    options: &GenerationOptions,
) -> Result<GenerateOutput> {
    no_grad(|| {
        let prompt = Prompt::new(model, &mut inputs, options)?;
        let pipeline = Pipeline::new(&prompt, &mut inputs)?;
        let criteria = pipeline::criteria(&prompt.settings, &mut inputs)?;
        let s = &prompt.settings;
        let lookup = s.o.prompt_lookup_num_tokens.is_some_and(|n| n > 0);
        let assists = inputs.assistant.is_some() || lookup;
        let contrasts = !s.do_sample && s.top_k > 1 && s.o.penalty_alpha.is_some_and(|a| a > 0.0);
        match (s.num_beams, s.groups) {
            (1, _) if assists && contrasts => {
                Err(invalid("contrastive search cannot be assisted".into()))
            }
            (1, _) if assists => {
                let proposer = match inputs.assistant {
                    Some(assistant) => Proposer::draft(Box::new(assistant), &mut inputs, &prompt)?,
                    None => Proposer::Lookup,
                };
                assisted::assisted(prompt, proposer, pipeline, criteria)
            }
            (1, _) if contrasts => contrastive::contrastive_search(prompt, pipeline, criteria),
            (1, _) => Sampler::new(prompt, pipeline, criteria).run(),
            (beams, _) if assists => Err(invalid(format!(
                "assisted decoding with num_beams = {beams}: it has no beams"
            ))),
            (_, 1) => beams::beam_search(prompt, pipeline, criteria),
            _ => groups::group_beam_search(prompt, pipeline, criteria),
        }
    })
}

fn stream<'a>(
    model: Box<dyn Decoder + 'a>,
    mut inputs: GenerateInputs<'a>,
    options: &GenerationOptions,
) -> Result<TokenStream<'a>> {
    no_grad(|| {
        let prompt = Prompt::new(model, &mut inputs, options)?;
        let pipeline = Pipeline::new(&prompt, &mut inputs)?;
        let criteria = pipeline::criteria(&prompt.settings, &mut inputs)?;
        let s = &prompt.settings;
        let texts = prompt.rows.len() * s.num_return;
        let contrasts = !s.do_sample && s.o.penalty_alpha.is_some_and(|a| a > 0.0);
        if texts != 1 || s.num_beams != 1 || inputs.assistant.is_some() || contrasts {
            return Err(invalid(format!(
                "a stream of {texts} texts with num_beams = {}: it gives the tokens of one text, greedy or drawn",
                s.num_beams
            ))
            .with_hint("use generate_with()"));
        }
        Ok(TokenStream::new(Sampler::new(prompt, pipeline, criteria)))
    })
}
