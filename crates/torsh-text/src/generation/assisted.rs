//! Assisted decoding: tokens are proposed cheaply and checked all at once (Leviathan et al., 2022,
//! <https://arxiv.org/abs/2211.17192>).

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError};

use super::criteria::{Criteria, StoppingCriteria};
use super::decoding::{Decoder, Decoding, Prompt, encoder_state, ids_tensor};
use super::inputs::{GenerateInputs, GenerateOutput};
use super::model::Logits;
use super::options::{AssistantSchedule, Settings};
use super::pipeline::Pipeline;
use super::sampling::{Records, choose};
use crate::blocks::{CacheKind, KvCache};

/// Where proposals come from.
pub(super) enum Proposer<'a> {
    /// A smaller model.
    Draft {
        decoding: Box<Decoding<'a>>,
        tokens: usize,
    },
    /// What followed the text's last tokens before.
    Lookup,
}

/// Tokens that may come next, and the scores `[1, vocabulary]` they were drawn by.
struct Proposal {
    tokens: Vec<i64>,
    scores: Vec<Tensor>,
}

fn invalid(why: String) -> TorshError {
    TorshError::invalid("generate", why)
}

impl<'a> Proposer<'a> {
    /// A draft model, with the inputs of the model that it assists.
    pub(super) fn draft(
        assistant: Box<dyn Decoder + 'a>,
        inputs: &mut GenerateInputs<'_>,
        prompt: &Prompt<'_>,
    ) -> Result<Proposer<'a>> {
        let (own, other) = (assistant.vocab_size(), prompt.decoding.model.vocab_size());
        if own != other {
            return Err(invalid(format!(
                "a draft model with a vocabulary of {own} tokens for a model with {other}"
            ))
            .with_hint("the draft model must have the same tokenizer"));
        }
        let two = assistant.is_encoder_decoder();
        if two != prompt.decoding.model.is_encoder_decoder() {
            return Err(invalid(
                "the draft model and the model must both have an encoder, or neither".into(),
            ));
        }
        let device = assistant.device().unwrap_or(prompt.decoding.device);
        let encoder = match two {
            true => {
                let ids = prompt.encoder_ids.as_deref();
                Some(encoder_state(&*assistant, inputs, ids, device)?.0)
            }
            false => None,
        };
        let tokens = prompt.settings.o.num_assistant_tokens.unwrap_or(20);
        let mut cache = assistant.new_cache(CacheKind::Growing);
        cache.expect_tokens(prompt.settings.max_length);
        cache.keep_for_crop(2 * tokens + 2);
        Ok(Proposer::Draft {
            decoding: Box::new(Decoding {
                model: assistant,
                cache: Some(cache),
                padding: prompt.decoding.padding.clone(),
                prompt_len: prompt.settings.prompt_len,
                encoder,
                device,
            }),
            tokens,
        })
    }

    fn propose(
        &mut self,
        ids: &[i64],
        s: &Settings,
        pipeline: &mut Pipeline<'_>,
    ) -> Result<Proposal> {
        // The model itself adds one more.
        let most = s.max_length.saturating_sub(ids.len() + 1);
        match self {
            Proposer::Draft { decoding, tokens } => {
                draft(decoding, ids, most.min(*tokens), s, pipeline)
            }
            Proposer::Lookup => Ok(Proposal {
                tokens: lookup(ids, most, s),
                scores: Vec::new(),
            }),
        }
    }

    /// Proposes more where all was right, and less where not.
    fn learn(&mut self, right: bool, s: &Settings) {
        let schedule = s.o.num_assistant_tokens_schedule.unwrap_or_default();
        if let Proposer::Draft { tokens, .. } = self
            && schedule == AssistantSchedule::Heuristic
        {
            *tokens = match right {
                true => *tokens + 2,
                false => (*tokens - 1).max(1),
            };
        }
    }
}

/// At most `most` tokens that a draft model adds.
fn draft(
    decoding: &mut Decoding<'_>,
    ids: &[i64],
    most: usize,
    s: &Settings,
    pipeline: &mut Pipeline<'_>,
) -> Result<Proposal> {
    let threshold = s.o.assistant_confidence_threshold.unwrap_or(0.4);
    let mut all = Proposal {
        tokens: Vec::new(),
        scores: Vec::new(),
    };
    // What it proposed before may have been refused.
    if let Some(cache) = &mut decoding.cache {
        cache.crop(ids.len() - 1)?;
    }
    let mut rows = vec![ids.to_vec()];
    while all.tokens.len() < most {
        let logits = decoding.next_logits(&rows)?;
        let scores = pipeline.process(&rows, logits)?;
        let token = choose(&scores, s.do_sample)?[0];
        let p = scores.softmax(-1)?.select(0, 0)?.select(0, token)?;
        let sure = p.item::<f64>()? >= threshold;
        rows[0].push(token);
        all.tokens.push(token);
        all.scores.push(scores);
        if s.eos.contains(&token) || !sure {
            break;
        }
    }
    Ok(all)
}

/// The tokens behind an earlier place where the text has its last tokens.
fn lookup(ids: &[i64], most: usize, s: &Settings) -> Vec<i64> {
    let wanted = s.o.prompt_lookup_num_tokens.unwrap_or(0).min(most);
    let longest = s.o.max_matching_ngram_size.unwrap_or(2);
    for size in (1..=longest.min(ids.len().saturating_sub(1))).rev() {
        let last = &ids[ids.len() - size..];
        let found = ids
            .windows(size)
            .position(|w| w == last)
            .map(|at| at + size);
        if let Some(start) = found.filter(|&start| start < ids.len()) {
            let end = (start + wanted).min(ids.len());
            let tokens = ids[start..end].iter().copied();
            return tokens.take_while(|id| !s.eos.contains(id)).collect();
        }
    }
    Vec::new()
}

/// How many of the proposed tokens are kept, and the token behind them: so that all are distributed as the model draws
/// them. `scores` are the model's `[proposed + 1, vocabulary]`.
fn speculative(proposal: &Proposal, scores: &Tensor) -> Result<(usize, i64)> {
    let count = proposal.tokens.len() as i64;
    let q = Tensor::cat(&proposal.scores, 0)?.softmax(-1)?;
    let p = scores.softmax(-1)?;
    let index = Tensor::from_vec(proposal.tokens.clone(), [proposal.tokens.len(), 1])?;
    let index = index.to_device(p.device())?;
    let q = q.to_device(p.device())?;
    let ratio = p
        .narrow(0, 0, count)?
        .gather(1, &index)?
        .div(&q.gather(1, &index)?)?;
    let ratio = ratio.flatten(0)?;
    let accepted = ratio.rand_like()?.le(&ratio)?.to_vec::<bool>()?;
    let matches = accepted.iter().position(|a| !a).unwrap_or(accepted.len());
    let own = p.narrow(0, matches as i64, 1)?;
    let weights = match accepted.len() > matches {
        true => {
            let rest = own
                .sub(&q.narrow(0, matches as i64, 1)?)?
                .clamp(0.0, None)?;
            rest.div(&rest.sum()?)?
        }
        false => own,
    };
    let token = weights.multinomial(1)?.to_vec::<i64>()?;
    Ok((matches, token[0]))
}

/// One row, by a model that checks what another proposes.
pub(super) fn assisted(
    prompt: Prompt<'_>,
    mut proposer: Proposer<'_>,
    mut pipeline: Pipeline<'_>,
    mut criteria: Criteria<'_>,
) -> Result<GenerateOutput> {
    let Prompt {
        mut rows,
        settings: s,
        mut decoding,
        ..
    } = prompt;
    if rows.len() != 1 || s.num_return != 1 {
        return Err(invalid(format!(
            "assisted decoding of {} texts: it continues one at a time",
            rows.len() * s.num_return
        )));
    }
    let Some(cache) = &mut decoding.cache else {
        return Err(invalid("assisted decoding needs a cache".into())
            .with_hint("leave out use_cache = false"));
    };
    cache.keep_for_crop(1);
    let mut records = Records::new(&s);
    // All but the prompt's last token, of which no logits are needed.
    if s.prompt_len - cache.len() > 1 {
        let begin = vec![rows[0][..s.prompt_len - 1].to_vec()];
        decoding.step(&begin, Logits::Last)?;
        check_cache(decoding.cache.as_ref())?;
    }
    loop {
        let length = rows[0].len();
        let proposal = proposer.propose(&rows[0], &s, &mut pipeline)?;
        let count = proposal.tokens.len();
        let mut all = rows[0].clone();
        all.extend(&proposal.tokens);
        let checked = [all];
        let logits = decoding.step(&checked, Logits::All)?.logits;
        let computed = logits.dims().get(1).copied().unwrap_or(0);
        let first = computed.saturating_sub(count + 1) as i64;
        let logits = logits.select(0, 0)?.narrow(0, first, count as i64 + 1)?;
        let logits = logits.to_dtype(DType::F32)?;
        let mut scores = Vec::with_capacity(count + 1);
        for i in 0..=count {
            let before = [checked[0][..length + i].to_vec()];
            scores.push(pipeline.process(&before, logits.narrow(0, i as i64, 1)?)?);
        }
        let each = Tensor::cat(&scores, 0)?;
        let (matches, next) = if s.do_sample && count > 0 && !proposal.scores.is_empty() {
            speculative(&proposal, &each)?
        } else {
            let chosen = choose(&each, s.do_sample)?;
            let same = |(a, b): &(&i64, &i64)| a == b;
            let matches = chosen.iter().zip(&proposal.tokens).take_while(same).count();
            (matches, chosen[matches])
        };
        let new = proposal.tokens[..matches].iter().copied().chain([next]);
        let mut ended = false;
        for (i, token) in new.enumerate() {
            rows[0].push(token);
            records.keep(&scores[i], &logits.narrow(0, i as i64, 1)?);
            ended = criteria.stop(&rows)?.contains(&true);
            if ended {
                break;
            }
        }
        if ended {
            break;
        }
        if let Some(cache) = &mut decoding.cache {
            cache.crop(length + matches)?;
        }
        proposer.learn(matches == count, &s);
    }
    if let Some(cache) = &mut decoding.cache {
        let most = rows[0].len() - 1;
        let held = cache.len();
        cache.crop(most.min(held))?;
    }
    Ok(GenerateOutput {
        sequences: ids_tensor(&rows, 0, decoding.device)?,
        sequences_scores: None,
        beam_indices: None,
        scores: records.scores,
        logits: records.logits,
        cache: decoding.cache,
    })
}

/// Whether a cache can go back, which a state without a past cannot.
fn check_cache(cache: Option<&KvCache>) -> Result<()> {
    let states = cache.is_some_and(|c| (0..c.num_layers()).any(|l| !c.state(l).is_empty()));
    match states {
        true => Err(invalid(
            "assisted decoding takes tokens back, and the state of this model has no past".into(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::{GenerationOptions, SpecialTokens};
    use torsh_core::random::LocalGenerator;
    use torsh_tensor::tensor;

    #[test]
    fn lookups_find_what_followed_before() -> Result<()> {
        let options = GenerationOptions::new()
            .prompt_lookup_num_tokens(3)
            .eos_token_id(9);
        let s = Settings::new(options, &SpecialTokens::default(), None, 1)?;
        // The last two tokens appeared before; what followed ends with the end of a text.
        assert_eq!(lookup(&[5, 1, 2, 3, 4, 1, 2], 10, &s), [3, 4, 1]);
        assert_eq!(lookup(&[5, 1, 2, 3, 9, 1, 2], 10, &s), [3]);
        assert_eq!(lookup(&[1, 2, 3, 1], 1, &s), [2]);
        assert!(lookup(&[1, 2, 3, 4], 10, &s).is_empty());
        Ok(())
    }

    #[test]
    fn drafts_do_not_change_what_is_drawn() -> Result<()> {
        // The draft likes token 0, the model does not.
        let (q, p) = (
            tensor![[0.8, 0.1, 0.1]],
            tensor![[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
        );
        let mut counts = [0.0f64; 3];
        let draws = 4000;
        let mut draw = || -> Result<()> {
            let token = q.multinomial(1)?.item::<i64>()?;
            let proposal = Proposal {
                tokens: vec![token],
                scores: vec![q.log()?],
            };
            let (matches, next) = speculative(&proposal, &p.log()?)?;
            counts[if matches == 1 { token } else { next } as usize] += 1.0;
            Ok(())
        };
        LocalGenerator::new(1).scope(|| (0..draws).try_for_each(|_| draw()))?;
        for (count, wanted) in counts.iter().zip([0.2, 0.3, 0.5]) {
            assert!(
                (count / f64::from(draws) - wanted).abs() < 0.03,
                "{counts:?}"
            );
        }
        Ok(())
    }
}
