//! What changes the scores of the next token.

use std::collections::HashMap;

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError};

/// Changes the scores of the next token: forbids some, favours others.
///
/// ```
/// use torsh_tensor::{Result, Tensor, tensor};
/// use torsh_text::generation::LogitsProcessor;
/// /// Nothing but even tokens.
/// struct Even;
/// impl LogitsProcessor for Even {
///     fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
///         let odd = tensor![0, 1, 2, 3].remainder(2)?.eq(1)?;
///         scores.masked_fill(&odd, f64::NEG_INFINITY)
///     }
/// }
/// let scores = Even.process(&[vec![0]], tensor![[0.1, 0.9, 0.2, 0.3]])?;
/// assert_eq!(scores.argmax()?.item::<i64>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait LogitsProcessor: Send {
    /// The new scores `[rows, vocabulary]` (float32) of the next token of each row, from the old ones and the row's
    /// tokens so far. Without beams scores are logits, else logarithms of probabilities.
    ///
    /// # Errors
    /// Whatever makes the scores impossible.
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor>;
}

/// Changes the rows of scores in host memory.
pub(super) fn edit(
    scores: &Tensor,
    mut change: impl FnMut(usize, &mut [f32]) -> Result<()>,
) -> Result<Tensor> {
    let &[rows, vocab] = scores.dims() else {
        return Err(TorshError::shape(
            "LogitsProcessor",
            format!("expected scores [rows, vocabulary], got {}", scores.shape()),
        ));
    };
    let mut data = scores.to_dtype(DType::F32)?.to_vec::<f32>()?;
    for (row, values) in data.chunks_exact_mut(vocab.max(1)).enumerate() {
        change(row, values)?;
    }
    Tensor::from_vec(data, [rows, vocab])?.to_device(scores.device())
}

fn set(row: &mut [f32], ids: &[i64], to: f32) {
    for &id in ids {
        if let Some(v) = usize::try_from(id).ok().and_then(|id| row.get_mut(id)) {
            *v = to;
        }
    }
}

/// Forbids tokens.
fn forbid(scores: &Tensor, ids: &[i64]) -> Result<Tensor> {
    edit(scores, |_, row| {
        set(row, ids, f32::NEG_INFINITY);
        Ok(())
    })
}

/// Allows these tokens alone, all alike.
fn force(scores: &Tensor, ids: &[i64]) -> Result<Tensor> {
    edit(scores, |_, row| {
        row.fill(f32::NEG_INFINITY);
        set(row, ids, 0.0);
        Ok(())
    })
}

fn length(input_ids: &[Vec<i64>]) -> usize {
    input_ids.first().map_or(0, Vec::len)
}

fn positive(name: &'static str, what: &str, value: f64) -> Result<f64> {
    match value > 0.0 {
        true => Ok(value),
        false => Err(TorshError::invalid(
            name,
            format!("{what} = {value} must be above 0"),
        )),
    }
}

/// Divides or multiplies the scores of each of `ids`, once.
fn penalise(row: &mut [f32], ids: &[i64], penalty: f32) {
    let mut seen: Vec<usize> = ids
        .iter()
        .filter_map(|&id| usize::try_from(id).ok())
        .filter(|&id| id < row.len())
        .collect();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        let v = row[id];
        row[id] = if v < 0.0 { v * penalty } else { v / penalty };
    }
}

/// Divides positive scores of tokens that the row has, and multiplies negative ones (Keskar et al., 2019,
/// <https://arxiv.org/abs/1909.05858>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, RepetitionPenaltyLogitsProcessor};
/// let mut penalty = RepetitionPenaltyLogitsProcessor::new(2.0)?;
/// let scores = penalty.process(&[vec![0, 1, 1]], tensor![[3.0, -3.0, 1.0]])?;
/// assert_eq!(scores, tensor![[1.5, -6.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RepetitionPenaltyLogitsProcessor {
    penalty: f32,
    ignored: Vec<usize>,
}

impl RepetitionPenaltyLogitsProcessor {
    /// Above 1 repetition is punished, below it is favoured.
    ///
    /// # Errors
    /// A penalty that is not above 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(penalty: f64) -> Result<Self> {
        let penalty = positive("RepetitionPenaltyLogitsProcessor", "penalty", penalty)? as f32;
        let ignored = Vec::new();
        Ok(RepetitionPenaltyLogitsProcessor { penalty, ignored })
    }

    /// Leaves out the first tokens of each row: its padding.
    #[must_use]
    pub fn prompt_ignore_length(mut self, tokens: Vec<usize>) -> Self {
        self.ignored = tokens;
        self
    }
}

impl LogitsProcessor for RepetitionPenaltyLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        // Rows of beams are neighbours.
        let each = (input_ids.len() / self.ignored.len().max(1)).max(1);
        edit(&scores, |r, row| {
            let from = self.ignored.get(r / each).copied().unwrap_or(0);
            penalise(row, input_ids[r].get(from..).unwrap_or(&[]), self.penalty);
            Ok(())
        })
    }
}

/// Favours the tokens of the encoder's text, or of the prompt: the reverse of a repetition penalty.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{EncoderRepetitionPenaltyLogitsProcessor, LogitsProcessor};
/// let mut favour = EncoderRepetitionPenaltyLogitsProcessor::new(2.0, vec![vec![1]])?;
/// assert_eq!(favour.process(&[vec![0]], tensor![[3.0, 3.0]])?, tensor![[3.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncoderRepetitionPenaltyLogitsProcessor {
    penalty: f32,
    encoder_ids: Vec<Vec<i64>>,
}

impl EncoderRepetitionPenaltyLogitsProcessor {
    /// The penalty, and the encoder's tokens of each text.
    ///
    /// # Errors
    /// A penalty that is not above 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(penalty: f64, encoder_ids: Vec<Vec<i64>>) -> Result<Self> {
        let name = "EncoderRepetitionPenaltyLogitsProcessor";
        let penalty = (1.0 / positive(name, "penalty", penalty)?) as f32;
        Ok(EncoderRepetitionPenaltyLogitsProcessor {
            penalty,
            encoder_ids,
        })
    }
}

impl LogitsProcessor for EncoderRepetitionPenaltyLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let each = (input_ids.len() / self.encoder_ids.len().max(1)).max(1);
        edit(&scores, |r, row| {
            let ids = self.encoder_ids.get(r / each).map_or(&[][..], |ids| ids);
            penalise(row, ids, self.penalty);
            Ok(())
        })
    }
}

/// Takes from the scores of new tokens that have appeared: `presence` once, `frequency` each time.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, PresenceFrequencyPenalty};
/// // The first token is the prompt.
/// let mut penalty = PresenceFrequencyPenalty::new(1.0, 0.5, 1);
/// let scores = penalty.process(&[vec![2, 0, 0, 1]], tensor![[5.0, 5.0, 5.0]])?;
/// assert_eq!(scores, tensor![[3.0, 3.5, 5.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PresenceFrequencyPenalty {
    presence: f32,
    frequency: f32,
    prompt_len: usize,
}

impl PresenceFrequencyPenalty {
    /// The penalties, and the number of tokens of the prompt, which do not count.
    pub fn new(presence: f64, frequency: f64, prompt_len: usize) -> Self {
        PresenceFrequencyPenalty {
            presence: presence as f32,
            frequency: frequency as f32,
            prompt_len,
        }
    }
}

impl LogitsProcessor for PresenceFrequencyPenalty {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        edit(&scores, |r, row| {
            let mut counts: HashMap<i64, f32> = HashMap::new();
            for &id in input_ids[r].get(self.prompt_len..).unwrap_or(&[]) {
                *counts.entry(id).or_default() += 1.0;
            }
            for (id, n) in counts {
                if let Some(v) = usize::try_from(id).ok().and_then(|id| row.get_mut(id)) {
                    *v -= self.presence + self.frequency * n;
                }
            }
            Ok(())
        })
    }
}

/// Lets no sequence of `ngram_size` tokens appear twice in a row of tokens.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, NoRepeatNGramLogitsProcessor};
/// let mut no_repeat = NoRepeatNGramLogitsProcessor::new(2)?;
/// let scores = no_repeat.process(&[vec![0, 2, 1, 0]], tensor![[1.0, 1.0, 9.0]])?;
/// assert_eq!(scores, tensor![[1.0, 1.0, f32::NEG_INFINITY]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NoRepeatNGramLogitsProcessor {
    size: usize,
}

fn ngram_size(name: &'static str, size: usize) -> Result<usize> {
    match size {
        0 => Err(TorshError::invalid(
            name,
            "ngram_size = 0 must be at least 1",
        )),
        n => Ok(n),
    }
}

/// Forbids the tokens which follow, in `text`, what `ids` ends with.
fn forbid_followers(row: &mut [f32], ids: &[i64], text: &[i64], size: usize) {
    let Some(prefix) = (ids.len() + 1).checked_sub(size).map(|at| &ids[at..]) else {
        return;
    };
    for window in text.windows(size) {
        if let Some((last, start)) = window.split_last()
            && start == prefix
        {
            set(row, &[*last], f32::NEG_INFINITY);
        }
    }
}

impl NoRepeatNGramLogitsProcessor {
    /// The length of the sequences.
    ///
    /// # Errors
    /// A size of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: usize) -> Result<Self> {
        let size = ngram_size("NoRepeatNGramLogitsProcessor", size)?;
        Ok(NoRepeatNGramLogitsProcessor { size })
    }
}

impl LogitsProcessor for NoRepeatNGramLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        if length(input_ids) < self.size {
            return Ok(scores);
        }
        edit(&scores, |r, row| {
            forbid_followers(row, &input_ids[r], &input_ids[r], self.size);
            Ok(())
        })
    }
}

/// Lets no sequence of `ngram_size` tokens of the encoder's text appear.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{EncoderNoRepeatNGramLogitsProcessor, LogitsProcessor};
/// let mut no_repeat = EncoderNoRepeatNGramLogitsProcessor::new(2, vec![vec![1, 0]])?;
/// let scores = no_repeat.process(&[vec![2, 1]], tensor![[1.0, 1.0, 9.0]])?;
/// assert_eq!(scores, tensor![[f32::NEG_INFINITY, 1.0, 9.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncoderNoRepeatNGramLogitsProcessor {
    size: usize,
    encoder_ids: Vec<Vec<i64>>,
}

impl EncoderNoRepeatNGramLogitsProcessor {
    /// The length of the sequences, and the encoder's tokens of each text.
    ///
    /// # Errors
    /// A size of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: usize, encoder_ids: Vec<Vec<i64>>) -> Result<Self> {
        let size = ngram_size("EncoderNoRepeatNGramLogitsProcessor", size)?;
        Ok(EncoderNoRepeatNGramLogitsProcessor { size, encoder_ids })
    }
}

impl LogitsProcessor for EncoderNoRepeatNGramLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let each = (input_ids.len() / self.encoder_ids.len().max(1)).max(1);
        edit(&scores, |r, row| {
            if let Some(text) = self.encoder_ids.get(r / each) {
                forbid_followers(row, &input_ids[r], text, self.size);
            }
            Ok(())
        })
    }
}

/// Adds to the score of a token that would complete a sequence.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, SequenceBiasLogitsProcessor};
/// let mut bias = SequenceBiasLogitsProcessor::new(vec![(vec![0], 1.0), (vec![2, 1], -3.0)])?;
/// assert_eq!(bias.process(&[vec![2]], tensor![[0.0, 0.0, 0.0]])?, tensor![[1.0, -3.0, 0.0]]);
/// assert_eq!(bias.process(&[vec![1]], tensor![[0.0, 0.0, 0.0]])?, tensor![[1.0, 0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequenceBiasLogitsProcessor {
    name: &'static str,
    sequences: Vec<(Vec<i64>, f32)>,
}

impl SequenceBiasLogitsProcessor {
    /// Sequences of tokens and what they gain.
    ///
    /// # Errors
    /// An empty sequence, and a negative token.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(sequences: Vec<(Vec<i64>, f64)>) -> Result<Self> {
        SequenceBiasLogitsProcessor::named("SequenceBiasLogitsProcessor", sequences)
    }

    #[track_caller]
    fn named(name: &'static str, sequences: Vec<(Vec<i64>, f64)>) -> Result<Self> {
        if let Some((bad, _)) = sequences
            .iter()
            .find(|(ids, _)| ids.is_empty() || ids.iter().any(|&id| id < 0))
        {
            return Err(TorshError::invalid(
                name,
                format!("{bad:?} is no sequence of tokens"),
            ));
        }
        let sequences = sequences.into_iter().map(|(s, b)| (s, b as f32)).collect();
        Ok(SequenceBiasLogitsProcessor { name, sequences })
    }
}

impl LogitsProcessor for SequenceBiasLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let vocab = scores.dims().last().copied().unwrap_or(0);
        let outside = |id: &&i64| **id >= vocab as i64;
        if let Some(id) = self.sequences.iter().flat_map(|(s, _)| s).find(outside) {
            return Err(TorshError::index(
                self.name,
                format!("token {id} of a vocabulary of {vocab}"),
            ));
        }
        edit(&scores, |r, row| {
            for (sequence, bias) in &self.sequences {
                if let Some((&last, start)) = sequence.split_last()
                    && input_ids[r].ends_with(start)
                {
                    row[last as usize] += bias;
                }
            }
            Ok(())
        })
    }
}

/// Lets sequences of tokens never appear.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, NoBadWordsLogitsProcessor};
/// let mut bad = NoBadWordsLogitsProcessor::new(vec![vec![0, 1], vec![2]], &[2])?;
/// // A word that is the end of texts stays allowed.
/// assert_eq!(bad.process(&[vec![0]], tensor![[0.0, 5.0, 1.0]])?, tensor![[0.0, f32::NEG_INFINITY, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NoBadWordsLogitsProcessor(SequenceBiasLogitsProcessor);

impl NoBadWordsLogitsProcessor {
    /// The sequences, and the tokens that end texts.
    ///
    /// # Errors
    /// An empty sequence, and a negative token.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(words: Vec<Vec<i64>>, eos: &[i64]) -> Result<Self> {
        let words = words
            .into_iter()
            .filter(|word| !matches!(word[..], [id] if eos.contains(&id)))
            .map(|word| (word, f64::NEG_INFINITY))
            .collect();
        let bias = SequenceBiasLogitsProcessor::named("NoBadWordsLogitsProcessor", words)?;
        Ok(NoBadWordsLogitsProcessor(bias))
    }
}

impl LogitsProcessor for NoBadWordsLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        self.0.process(input_ids, scores)
    }
}

/// Lets no row end before it has `min_length` tokens.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, MinLengthLogitsProcessor};
/// let mut longer = MinLengthLogitsProcessor::new(3, vec![1]);
/// assert_eq!(longer.process(&[vec![0, 0]], tensor![[0.0, 2.0]])?, tensor![[0.0, f32::NEG_INFINITY]]);
/// assert_eq!(longer.process(&[vec![0, 0, 0]], tensor![[0.0, 2.0]])?, tensor![[0.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinLengthLogitsProcessor {
    min_length: usize,
    eos: Vec<i64>,
}

impl MinLengthLogitsProcessor {
    /// The least tokens, the prompt's among them, and the tokens that end texts.
    pub fn new(min_length: usize, eos: Vec<i64>) -> Self {
        MinLengthLogitsProcessor { min_length, eos }
    }
}

impl LogitsProcessor for MinLengthLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        match length(input_ids) < self.min_length {
            true => forbid(&scores, &self.eos),
            false => Ok(scores),
        }
    }
}

/// Makes one token the first one after a decoder's start.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{ForcedBOSTokenLogitsProcessor, LogitsProcessor};
/// let scores = ForcedBOSTokenLogitsProcessor::new(1).process(&[vec![0]], tensor![[5.0, 0.1]])?;
/// assert_eq!(scores, tensor![[f32::NEG_INFINITY, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForcedBOSTokenLogitsProcessor {
    id: i64,
}

impl ForcedBOSTokenLogitsProcessor {
    /// The token.
    pub fn new(bos_token_id: i64) -> Self {
        ForcedBOSTokenLogitsProcessor { id: bos_token_id }
    }
}

impl LogitsProcessor for ForcedBOSTokenLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        match length(input_ids) {
            1 => force(&scores, &[self.id]),
            _ => Ok(scores),
        }
    }
}

/// Makes a row that reaches `max_length` end with one of these tokens.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{ForcedEOSTokenLogitsProcessor, LogitsProcessor};
/// let scores = ForcedEOSTokenLogitsProcessor::new(3, vec![1]).process(&[vec![0, 0]], tensor![[5.0, 0.1]])?;
/// assert_eq!(scores, tensor![[f32::NEG_INFINITY, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForcedEOSTokenLogitsProcessor {
    max_length: usize,
    eos: Vec<i64>,
}

impl ForcedEOSTokenLogitsProcessor {
    /// The greatest length, and the tokens.
    pub fn new(max_length: usize, eos: Vec<i64>) -> Self {
        ForcedEOSTokenLogitsProcessor { max_length, eos }
    }
}

impl LogitsProcessor for ForcedEOSTokenLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        match length(input_ids) + 1 == self.max_length {
            true => force(&scores, &self.eos),
            false => Ok(scores),
        }
    }
}

/// Replaces nan by 0 and infinities by the greatest numbers.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{InfNanRemoveLogitsProcessor, LogitsProcessor};
/// let scores = InfNanRemoveLogitsProcessor.process(&[vec![0]], tensor![[f32::NAN, f32::INFINITY, 1.0]])?;
/// assert_eq!(scores, tensor![[0.0, f32::MAX, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InfNanRemoveLogitsProcessor;

impl LogitsProcessor for InfNanRemoveLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        edit(&scores, |_, row| {
            for v in row {
                *v = if v.is_nan() {
                    0.0
                } else {
                    v.clamp(f32::MIN, f32::MAX)
                };
            }
            Ok(())
        })
    }
}

/// Favours the end of a text, ever more after `start` new tokens.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{ExponentialDecayLengthPenalty, LogitsProcessor};
/// let mut decay = ExponentialDecayLengthPenalty::new((1, 3.0), vec![1], 2);
/// // Two tokens of prompt, and three new ones of which two count: 4 + 4 (3 * 3 - 1).
/// assert_eq!(decay.process(&[vec![0; 5]], tensor![[2.0, 4.0]])?, tensor![[2.0, 36.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExponentialDecayLengthPenalty {
    start: usize,
    factor: f64,
    eos: Vec<i64>,
}

impl ExponentialDecayLengthPenalty {
    /// The number of new tokens and the factor, the tokens that end texts, and the length of the prompt.
    pub fn new((start, factor): (usize, f64), eos: Vec<i64>, prompt_len: usize) -> Self {
        ExponentialDecayLengthPenalty {
            start: start + prompt_len,
            factor,
            eos,
        }
    }
}

impl LogitsProcessor for ExponentialDecayLengthPenalty {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let Some(over) = length(input_ids).checked_sub(self.start).filter(|&n| n > 0) else {
            return Ok(scores);
        };
        let factor = (self.factor.powf(over as f64) - 1.0) as f32;
        edit(&scores, |_, row| {
            for &id in &self.eos {
                if let Some(v) = usize::try_from(id).ok().and_then(|id| row.get_mut(id))
                    && v.is_finite()
                {
                    *v += v.abs() * factor;
                }
            }
            Ok(())
        })
    }
}

/// Lets tokens never appear.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, SuppressTokensLogitsProcessor};
/// let scores = SuppressTokensLogitsProcessor::new(vec![0]).process(&[vec![1]], tensor![[5.0, 0.1]])?;
/// assert_eq!(scores, tensor![[f32::NEG_INFINITY, 0.1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SuppressTokensLogitsProcessor {
    ids: Vec<i64>,
}

impl SuppressTokensLogitsProcessor {
    /// The tokens.
    pub fn new(suppress_tokens: Vec<i64>) -> Self {
        SuppressTokensLogitsProcessor {
            ids: suppress_tokens,
        }
    }
}

impl LogitsProcessor for SuppressTokensLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        forbid(&scores, &self.ids)
    }
}

/// Lets tokens not be the ones at `begin_index`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, SuppressTokensAtBeginLogitsProcessor};
/// let mut begin = SuppressTokensAtBeginLogitsProcessor::new(vec![0], 1);
/// assert_eq!(begin.process(&[vec![1]], tensor![[5.0, 0.1]])?, tensor![[f32::NEG_INFINITY, 0.1]]);
/// assert_eq!(begin.process(&[vec![1, 1]], tensor![[5.0, 0.1]])?, tensor![[5.0, 0.1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SuppressTokensAtBeginLogitsProcessor {
    ids: Vec<i64>,
    begin_index: usize,
}

impl SuppressTokensAtBeginLogitsProcessor {
    /// The tokens, and the position of the first new one.
    pub fn new(begin_suppress_tokens: Vec<i64>, begin_index: usize) -> Self {
        SuppressTokensAtBeginLogitsProcessor {
            ids: begin_suppress_tokens,
            begin_index,
        }
    }
}

impl LogitsProcessor for SuppressTokensAtBeginLogitsProcessor {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        match length(input_ids) == self.begin_index {
            true => forbid(&scores, &self.ids),
            false => Ok(scores),
        }
    }
}

/// Makes scores logarithms of probabilities again.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitNormalization, LogitsProcessor};
/// let scores = LogitNormalization.process(&[vec![0]], tensor![[1.0, 1.0]])?;
/// assert!(scores.exp()?.allclose(&tensor![[0.5, 0.5]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogitNormalization;

impl LogitsProcessor for LogitNormalization {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        scores.log_softmax(-1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::tensor;

    const NO: f32 = f32::NEG_INFINITY;

    #[test]
    fn rows_are_of_their_own_texts() -> Result<()> {
        let scores = || tensor![[4.0, 4.0, -4.0], [4.0, 4.0, -4.0]];
        let ids = [vec![0, 2], vec![1, 1]];
        let mut p = RepetitionPenaltyLogitsProcessor::new(2.0)?.prompt_ignore_length(vec![1, 0]);
        assert_eq!(
            p.process(&ids, scores())?,
            tensor![[4.0, 4.0, -8.0], [4.0, 2.0, -4.0]]
        );
        let mut p = NoRepeatNGramLogitsProcessor::new(1)?;
        assert_eq!(
            p.process(&ids, scores())?,
            tensor![[NO, 4.0, NO], [4.0, NO, -4.0]]
        );
        // Two rows of one text of the encoder.
        let mut p = EncoderNoRepeatNGramLogitsProcessor::new(2, vec![vec![2, 0, 1, 2]])?;
        assert_eq!(
            p.process(&ids, scores())?,
            tensor![[NO, 4.0, -4.0], [4.0, 4.0, NO]]
        );
        let mut p = EncoderRepetitionPenaltyLogitsProcessor::new(4.0, vec![vec![2]])?;
        assert_eq!(
            p.process(&ids, scores())?,
            tensor![[4.0, 4.0, -1.0], [4.0, 4.0, -1.0]]
        );
        Ok(())
    }

    #[test]
    fn short_texts_have_no_ngrams() -> Result<()> {
        let scores = tensor![[1.0, 2.0]];
        let mut p = NoRepeatNGramLogitsProcessor::new(3)?;
        assert_eq!(p.process(&[vec![0, 0]], scores.clone())?, scores);
        assert_eq!(p.process(&[vec![0, 0, 0]], scores)?, tensor![[NO, 2.0]]);
        Ok(())
    }

    #[test]
    fn wrong_arguments_are_named() -> Result<()> {
        let text = |e: Option<TorshError>| e.map(|e| e.to_string()).unwrap_or_default();
        assert!(text(RepetitionPenaltyLogitsProcessor::new(0.0).err()).contains("penalty = 0"));
        assert!(text(NoRepeatNGramLogitsProcessor::new(0).err()).contains('0'));
        assert!(text(SequenceBiasLogitsProcessor::new(vec![(vec![], 1.0)]).err()).contains("[]"));
        let mut bias = SequenceBiasLogitsProcessor::new(vec![(vec![7], 1.0)])?;
        assert!(text(bias.process(&[vec![0]], tensor![[0.0]]).err()).contains('7'));
        Ok(())
    }
}
