//! The processors and criteria that settings ask for, in Hugging Face's order.

use torsh_tensor::{Result, Tensor, TorshError};

use super::constrained::ConstraintProcessor;
use super::criteria::{
    Criteria, EosTokenCriteria, MaxLengthCriteria, MaxTimeCriteria, StopStringCriteria,
    StoppingCriteria,
};
use super::decoding::Prompt;
use super::inputs::GenerateInputs;
use super::options::Settings;
use super::processors::{
    EncoderNoRepeatNGramLogitsProcessor, EncoderRepetitionPenaltyLogitsProcessor,
    ExponentialDecayLengthPenalty, ForcedBOSTokenLogitsProcessor, ForcedEOSTokenLogitsProcessor,
    InfNanRemoveLogitsProcessor, LogitNormalization, LogitsProcessor, MinLengthLogitsProcessor,
    NoBadWordsLogitsProcessor, NoRepeatNGramLogitsProcessor, PresenceFrequencyPenalty,
    RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor,
};
use super::warpers::{
    EpsilonLogitsWarper, EtaLogitsWarper, MinPLogitsWarper, TemperatureLogitsWarper,
    TopHLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper,
};

/// All processors of one generation.
pub(super) struct Pipeline<'a> {
    all: Vec<Box<dyn LogitsProcessor + 'a>>,
    /// How many come before the diversity of groups of beams.
    before_groups: usize,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(prompt: &Prompt<'_>, inputs: &mut GenerateInputs<'a>) -> Result<Self> {
        let s = &prompt.settings;
        let o = &s.o;
        let mut all: Vec<Box<dyn LogitsProcessor + 'a>> = Vec::new();
        if let Some(bias) = &o.sequence_bias {
            all.push(Box::new(SequenceBiasLogitsProcessor::new(bias.clone())?));
        }
        let before_groups = all.len();
        let not = |value: Option<f64>, neutral: f64| value.filter(|&v| v != neutral);
        if let Some(penalty) = not(o.encoder_repetition_penalty, 1.0)
            && let Some(ids) = prompt.encoder_ids.clone()
        {
            all.push(Box::new(EncoderRepetitionPenaltyLogitsProcessor::new(
                penalty, ids,
            )?));
        }
        if let Some(penalty) = not(o.repetition_penalty, 1.0) {
            let p = RepetitionPenaltyLogitsProcessor::new(penalty)?;
            let padding = prompt.decoding.padding.as_ref();
            let ignored = padding.map_or(Vec::new(), |p| {
                p.ranges().iter().map(|r| r.start.min(r.end)).collect()
            });
            all.push(Box::new(p.prompt_ignore_length(ignored)));
        }
        let presence = o.presence_penalty.unwrap_or(0.0);
        let frequency = o.frequency_penalty.unwrap_or(0.0);
        if presence != 0.0 || frequency != 0.0 {
            let p = PresenceFrequencyPenalty::new(presence, frequency, s.prompt_len);
            all.push(Box::new(p));
        }
        if let Some(size) = o.no_repeat_ngram_size.filter(|&n| n > 0) {
            all.push(Box::new(NoRepeatNGramLogitsProcessor::new(size)?));
        }
        if let Some(size) = o.encoder_no_repeat_ngram_size.filter(|&n| n > 0)
            && let Some(ids) = prompt.encoder_ids.clone()
        {
            all.push(Box::new(EncoderNoRepeatNGramLogitsProcessor::new(
                size, ids,
            )?));
        }
        if let Some(words) = &o.bad_words_ids {
            all.push(Box::new(NoBadWordsLogitsProcessor::new(
                words.clone(),
                &s.eos,
            )?));
        }
        if s.min_length > 0 && !s.eos.is_empty() {
            all.push(Box::new(MinLengthLogitsProcessor::new(
                s.min_length,
                s.eos.clone(),
            )));
        }
        if let Some(constraint) = inputs.constraint {
            let p = ConstraintProcessor::new(constraint, s, prompt.decoding.model.vocab_size())?;
            all.push(Box::new(p));
        }
        if let Some(id) = o.forced_bos_token_id {
            all.push(Box::new(ForcedBOSTokenLogitsProcessor::new(id)));
        }
        if let Some(ids) = o
            .forced_eos_token_id
            .as_ref()
            .filter(|ids| !ids.0.is_empty())
        {
            let p = ForcedEOSTokenLogitsProcessor::new(s.max_length, ids.0.clone());
            all.push(Box::new(p));
        }
        if o.remove_invalid_values == Some(true) {
            all.push(Box::new(InfNanRemoveLogitsProcessor));
        }
        if let Some(decay) = o.exponential_decay_length_penalty {
            let p = ExponentialDecayLengthPenalty::new(decay, s.eos.clone(), s.prompt_len);
            all.push(Box::new(p));
        }
        if let Some(ids) = o.suppress_tokens.as_ref().filter(|ids| !ids.is_empty()) {
            all.push(Box::new(SuppressTokensLogitsProcessor::new(ids.clone())));
        }
        if let Some(ids) = o
            .begin_suppress_tokens
            .as_ref()
            .filter(|ids| !ids.is_empty())
        {
            let after_bos = s.prompt_len == 1 && o.forced_bos_token_id.is_some();
            let begin = s.prompt_len + usize::from(after_bos);
            all.push(Box::new(SuppressTokensAtBeginLogitsProcessor::new(
                ids.clone(),
                begin,
            )));
        }
        all.append(&mut inputs.logits_processors);
        if s.do_sample {
            warpers(s, &mut all)?;
        }
        if o.renormalize_logits == Some(true) {
            all.push(Box::new(LogitNormalization));
        }
        Ok(Pipeline { all, before_groups })
    }

    /// The scores that all processors make.
    pub(super) fn process(&mut self, ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        self.process_group(ids, scores, Ok)
    }

    /// As [`Pipeline::process`], with what a group of beams loses for the tokens of others.
    pub(super) fn process_group(
        &mut self,
        ids: &[Vec<i64>],
        mut scores: Tensor,
        diversity: impl FnOnce(Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (before, after) = self.all.split_at_mut(self.before_groups);
        for p in before {
            scores = p.process(ids, scores)?;
        }
        scores = diversity(scores)?;
        for p in after {
            scores = p.process(ids, scores)?;
        }
        Ok(scores)
    }
}

fn warpers<'a>(s: &Settings, all: &mut Vec<Box<dyn LogitsProcessor + 'a>>) -> Result<()> {
    let o = &s.o;
    // Beams need a token that does not end their text.
    let keep = match s.num_beams {
        1 => 1,
        _ => s.eos.len().max(1) + 1,
    };
    let share = |value: Option<f64>| value.filter(|&v| v < 1.0);
    let inside = |value: Option<f64>| value.filter(|&v| v > 0.0 && v < 1.0);
    if let Some(t) = o.temperature.filter(|&t| t != 1.0) {
        all.push(Box::new(TemperatureLogitsWarper::new(t)?));
    }
    if let Some(h) = o.top_h {
        all.push(Box::new(TopHLogitsWarper::new(h)?));
    }
    if s.top_k > 0 {
        all.push(Box::new(
            TopKLogitsWarper::new(s.top_k)?.min_tokens_to_keep(keep),
        ));
    }
    if let Some(p) = share(o.top_p) {
        all.push(Box::new(TopPLogitsWarper::new(p)?.min_tokens_to_keep(keep)));
    }
    if let Some(p) = o.min_p {
        all.push(Box::new(MinPLogitsWarper::new(p)?.min_tokens_to_keep(keep)));
    }
    if let Some(p) = share(o.typical_p) {
        all.push(Box::new(
            TypicalLogitsWarper::new(p)?.min_tokens_to_keep(keep),
        ));
    }
    if let Some(e) = inside(o.epsilon_cutoff) {
        all.push(Box::new(
            EpsilonLogitsWarper::new(e)?.min_tokens_to_keep(keep),
        ));
    }
    if let Some(e) = inside(o.eta_cutoff) {
        all.push(Box::new(EtaLogitsWarper::new(e)?.min_tokens_to_keep(keep)));
    }
    Ok(())
}

/// All criteria of one generation.
pub(super) fn criteria<'a>(s: &Settings, inputs: &mut GenerateInputs<'a>) -> Result<Criteria<'a>> {
    let mut all: Vec<Box<dyn StoppingCriteria + 'a>> =
        vec![Box::new(MaxLengthCriteria::new(s.max_length))];
    if let Some(time) = s.o.max_time {
        all.push(Box::new(MaxTimeCriteria::new(time)));
    }
    if let Some(strings) = s.o.stop_strings.as_ref().filter(|all| !all.is_empty()) {
        let Some(text) = inputs.tokenizer else {
            return Err(TorshError::invalid(
                "generate",
                format!("stop_strings = {strings:?} without a tokenizer"),
            )
            .with_hint("use generate_with() and give its inputs the tokenizer"));
        };
        all.push(Box::new(StopStringCriteria::new(strings.clone(), text)));
    }
    if !s.eos.is_empty() {
        all.push(Box::new(EosTokenCriteria::new(s.eos.clone())));
    }
    all.append(&mut inputs.stopping_criteria);
    Ok(Criteria::new(all))
}
