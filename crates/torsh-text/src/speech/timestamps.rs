//! The times among Whisper's tokens.

use torsh_tensor::{Result, Tensor, TorshError};

use super::WhisperTokens;
use crate::generation::LogitsProcessor;

/// Lets Whisper write times as it has learned to: in pairs that do not go back, the first one near the beginning, and
/// whenever all times together are likelier than any other token.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_text::generation::LogitsProcessor;
/// use torsh_text::speech::{WhisperTimestamps, WhisperTokens};
/// # use torsh_text::tokenizers::Tokenizer;
/// # let names = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"];
/// # let mut tokenizer = Tokenizer::from_bytes(br#"{ "model": { "type": "WordLevel", "unk_token": "a", "vocab": { "a": 0 } } }"#)?;
/// # tokenizer.add_special_tokens(&names)?;
/// // A word, three special tokens, and the times 0.00 to 0.06.
/// let tokens = WhisperTokens::new(&tokenizer, 8)?;
/// let mut times = WhisperTimestamps::new(&tokens, 1, Some(2));
/// let first = times.process(&[vec![2]], zeros([1, 8]))?.to_vec::<f32>()?;
/// let allowed: Vec<bool> = first.iter().map(|v| v.is_finite()).collect();
/// assert_eq!(allowed, [false, false, false, false, true, true, true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WhisperTimestamps {
    begin: usize,
    /// Which tokens ahead of the times are text.
    text: Vec<bool>,
    no_timestamps: usize,
    prompt: usize,
    max_initial: Option<usize>,
}

impl WhisperTimestamps {
    /// For texts behind `prompt` tokens, whose first time is at most `max_initial` steps of 0.02 seconds late.
    pub fn new(
        tokens: &WhisperTokens,
        prompt: usize,
        max_initial: Option<usize>,
    ) -> WhisperTimestamps {
        let place = |id: i64| usize::try_from(id).unwrap_or(0);
        WhisperTimestamps {
            begin: place(tokens.timestamp_begin),
            text: (0..tokens.timestamp_begin)
                .map(|id| tokens.is_text(id))
                .collect(),
            no_timestamps: place(tokens.no_timestamps),
            prompt,
            max_initial,
        }
    }

    fn one(&self, text: &[i64], scores: &mut [f32]) {
        const NO: f32 = f32::NEG_INFINITY;
        let begin = self.begin;
        scores[self.no_timestamps] = NO;
        let time = |id: &i64| usize::try_from(*id).ok().filter(|&id| id >= begin);
        let last_is_time = text.last().and_then(time).is_some();
        let one_before = text.len() < 2 || time(&text[text.len() - 2]).is_some();
        match (last_is_time, one_before) {
            // Behind a pair comes text.
            (true, true) => scores[begin..].fill(NO),
            // Behind the time at an end comes the next beginning, or the end of the text.
            (true, false) => {
                let all = scores.iter_mut().zip(&self.text);
                all.filter(|(_, text)| **text)
                    .for_each(|(score, _)| *score = NO);
            }
            (false, _) => {}
        }
        if let Some(latest) = text.iter().filter_map(time).next_back() {
            // A beginning may be the end before it; else time goes on.
            let next = if last_is_time && !one_before {
                latest
            } else {
                latest + 1
            };
            let next = next.min(scores.len());
            scores[begin..next].fill(NO);
        }
        if text.is_empty() {
            scores[..begin].fill(NO);
            if let Some(most) = self.max_initial {
                let late = (begin + most + 1).min(scores.len());
                scores[late..].fill(NO);
            }
        }
        // The logarithm of the sum of the times' probabilities, up to what is common to all.
        let largest = scores[begin..].iter().copied().fold(NO, f32::max);
        if largest.is_finite() {
            let sum: f32 = scores[begin..].iter().map(|v| (v - largest).exp()).sum();
            let other = scores[..begin].iter().copied().fold(NO, f32::max);
            if largest + sum.ln() > other {
                scores[..begin].fill(NO);
            }
        }
    }
}

impl LogitsProcessor for WhisperTimestamps {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let &[rows, vocab] = scores.dims() else {
            return Err(TorshError::shape(
                "WhisperTimestamps",
                format!("expected scores [rows, vocabulary], got {}", scores.shape()),
            ));
        };
        if vocab <= self.begin || rows != input_ids.len() {
            return Err(TorshError::shape(
                "WhisperTimestamps",
                format!(
                    "scores {} for {} texts and times from {} on",
                    scores.shape(),
                    input_ids.len(),
                    self.begin
                ),
            ));
        }
        let mut data = scores.to_vec::<f32>()?;
        for (text, scores) in input_ids.iter().zip(data.chunks_exact_mut(vocab)) {
            self.one(text.get(self.prompt..).unwrap_or(&[]), scores);
        }
        Tensor::from_vec(data, [rows, vocab])?.to_device(scores.device())
    }
}

/// A piece of a window's tokens, with its times in the window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) tokens: Vec<i64>,
}

/// Cuts the tokens of a window of `frames` frames at its times, and says how many frames are done: all, or those up to
/// the last end where a sentence goes on behind it.
pub(super) fn pieces(tokens: &[i64], of: &WhisperTokens, frames: usize) -> (Vec<Piece>, usize) {
    /// Frames of a step between times.
    const STRIDE: usize = 2;
    let time = |id: &i64| of.seconds(*id);
    let is_time: Vec<bool> = tokens.iter().map(|id| time(id).is_some()).collect();
    let single_end = matches!(is_time[..], [.., false, true]);
    let mut cuts: Vec<usize> = (1..tokens.len())
        .filter(|&i| is_time[i - 1] && is_time[i])
        .collect();
    if cuts.is_empty() {
        let last = tokens
            .iter()
            .filter_map(time)
            .next_back()
            .filter(|&s| s > 0.0);
        let end = last.unwrap_or(frames as f64 * 0.01);
        let tokens = tokens.to_vec();
        return (
            vec![Piece {
                start: 0.0,
                end,
                tokens,
            }],
            frames,
        );
    }
    if single_end {
        cuts.push(tokens.len());
    }
    let mut from = 0;
    let mut out = Vec::with_capacity(cuts.len());
    for cut in cuts {
        let piece = &tokens[from..cut];
        let start = piece.first().and_then(time).unwrap_or(0.0);
        let end = piece.last().and_then(time).unwrap_or(start);
        out.push(Piece {
            start,
            end,
            tokens: piece.to_vec(),
        });
        from = cut;
    }
    let done = match single_end {
        true => frames,
        false => (tokens[from - 1] - of.timestamp_begin).max(0) as usize * STRIDE,
    };
    // Something is done each time.
    (out, if done == 0 { frames } else { done.min(frames) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids below 10 are text, 10 ends it, 13 is no time, 14 is 0.00.
    fn tokens() -> WhisperTokens {
        WhisperTokens {
            end_of_text: 10,
            start_of_transcript: 11,
            translate: None,
            transcribe: None,
            start_of_previous: None,
            no_speech: Some(12),
            no_timestamps: 13,
            timestamp_begin: 14,
            multilingual: false,
            languages: Vec::new(),
            special: vec![10, 11, 12, 13],
        }
    }

    fn allowed(text: &[i64], scores: &[f32]) -> Result<Vec<usize>> {
        let row = [&[11], text].concat();
        let given = Tensor::from_data(scores, [1, scores.len()])?;
        let mut processor = WhisperTimestamps::new(&tokens(), 1, Some(2));
        let got = processor.process(&[row], given)?.to_vec::<f32>()?;
        Ok((0..got.len()).filter(|&i| got[i].is_finite()).collect())
    }

    #[test]
    fn times_come_in_pairs_and_go_on() -> Result<()> {
        // Text is likelier than all times together.
        let mut text = vec![0.0; 20];
        text[3] = 9.0;
        assert_eq!(allowed(&[], &text)?, [14, 15, 16]);
        let after_first = allowed(&[15], &text)?;
        assert_eq!(after_first, (0..13).collect::<Vec<_>>());
        let after_text = allowed(&[15, 3], &text)?;
        assert_eq!(after_text, (0..13).chain(16..20).collect::<Vec<_>>());
        assert_eq!(allowed(&[15, 3, 17], &text)?, [17, 18, 19]);
        // All times are as likely as one another, and together likelier than any token.
        assert_eq!(allowed(&[15, 3], &[0.0; 20])?, [16, 17, 18, 19]);
        Ok(())
    }

    #[test]
    fn windows_are_cut_at_pairs() {
        let piece = |start: f64, end: f64, tokens: &[i64]| Piece {
            start,
            end,
            tokens: tokens.to_vec(),
        };
        let near = |got: &[Piece], wanted: &[Piece]| {
            let same = |(a, b): (&Piece, &Piece)| {
                a.tokens == b.tokens
                    && (a.start - b.start).abs() < 1e-9
                    && (a.end - b.end).abs() < 1e-9
            };
            got.len() == wanted.len() && got.iter().zip(wanted).all(same)
        };
        // Two sentences, and the beginning of a third one.
        let text = [14, 1, 2, 64, 64, 3, 114, 114];
        let (got, done) = pieces(&text, &tokens(), 3000);
        assert!(
            near(
                &got,
                &[piece(0.0, 1.0, &text[..4]), piece(1.0, 2.0, &text[4..7])]
            ),
            "{got:?}"
        );
        assert_eq!(done, 200);
        // Silence behind the second one.
        let (got, done) = pieces(&text[..7], &tokens(), 3000);
        assert!(
            near(
                &got,
                &[piece(0.0, 1.0, &text[..4]), piece(1.0, 2.0, &text[4..7])]
            ),
            "{got:?}"
        );
        assert_eq!(done, 3000);
        // One sentence, with and without its end.
        let (got, done) = pieces(&text[..4], &tokens(), 500);
        assert!(
            near(&got, &[piece(0.0, 1.0, &text[..4])]) && done == 500,
            "{got:?}"
        );
        let (got, done) = pieces(&[1, 2], &tokens(), 500);
        assert!(
            near(&got, &[piece(0.0, 5.0, &[1, 2])]) && done == 500,
            "{got:?}"
        );
    }
}
