//! When a text ends.

use std::time::{Duration, Instant};

use torsh_tensor::Result;

use super::text::{TokenText, decode_ids};

/// Says which rows end with their last token.
///
/// ```
/// use torsh_tensor::Result;
/// use torsh_text::generation::StoppingCriteria;
/// /// Ends a text with the second 7.
/// struct TwoSevens;
/// impl StoppingCriteria for TwoSevens {
///     fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
///         Ok(input_ids.iter().map(|row| row.iter().filter(|&&id| id == 7).count() > 1).collect())
///     }
/// }
/// assert_eq!(TwoSevens.stop(&[vec![7, 7], vec![7, 1]])?, [true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait StoppingCriteria: Send {
    /// Whether each row ends, from its tokens so far.
    ///
    /// # Errors
    /// Whatever makes it impossible to say.
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>>;
}

/// Ends texts at a length.
///
/// ```
/// use torsh_text::generation::{MaxLengthCriteria, StoppingCriteria};
/// assert_eq!(MaxLengthCriteria::new(2).stop(&[vec![1, 1]])?, [true]);
/// assert_eq!(MaxLengthCriteria::new(3).stop(&[vec![1, 1]])?, [false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaxLengthCriteria {
    max_length: usize,
}

impl MaxLengthCriteria {
    /// The most tokens, the prompt's among them.
    pub fn new(max_length: usize) -> Self {
        MaxLengthCriteria { max_length }
    }
}

impl StoppingCriteria for MaxLengthCriteria {
    #[torsh_tensor::names_caller]
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
        let ends = input_ids.iter().map(|row| row.len() >= self.max_length);
        Ok(ends.collect())
    }
}

/// Ends texts after some time.
///
/// ```
/// use torsh_text::generation::{MaxTimeCriteria, StoppingCriteria};
/// assert_eq!(MaxTimeCriteria::new(0.0).stop(&[vec![1]])?, [true]);
/// assert_eq!(MaxTimeCriteria::new(1e6).stop(&[vec![1]])?, [false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaxTimeCriteria {
    started: Instant,
    max_time: Duration,
}

impl MaxTimeCriteria {
    /// Seconds from now.
    pub fn new(max_time: f64) -> Self {
        MaxTimeCriteria {
            started: Instant::now(),
            max_time: Duration::try_from_secs_f64(max_time.max(0.0)).unwrap_or(Duration::MAX),
        }
    }
}

impl StoppingCriteria for MaxTimeCriteria {
    #[torsh_tensor::names_caller]
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
        Ok(vec![
            self.started.elapsed() >= self.max_time;
            input_ids.len()
        ])
    }
}

/// Ends texts with tokens that say so.
///
/// ```
/// use torsh_text::generation::{EosTokenCriteria, StoppingCriteria};
/// assert_eq!(EosTokenCriteria::new(vec![2, 3]).stop(&[vec![1, 3], vec![2, 1]])?, [true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EosTokenCriteria {
    eos: Vec<i64>,
}

impl EosTokenCriteria {
    /// The tokens.
    pub fn new(eos_token_id: Vec<i64>) -> Self {
        EosTokenCriteria { eos: eos_token_id }
    }
}

impl StoppingCriteria for EosTokenCriteria {
    #[torsh_tensor::names_caller]
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
        let ends = |row: &Vec<i64>| row.last().is_some_and(|id| self.eos.contains(id));
        Ok(input_ids.iter().map(ends).collect())
    }
}

/// Ends texts that a stop string has just appeared in: the last token completes it.
///
/// ```
/// use torsh_tensor::Result;
/// use torsh_text::generation::{StopStringCriteria, StoppingCriteria, TokenText};
/// struct Words;
/// impl TokenText for Words {
///     fn decode(&self, ids: &[u32]) -> Result<String> {
///         Ok(ids.iter().map(|&id| ["st", "op", "opera", " "][id as usize]).collect())
///     }
/// }
/// let mut stop = StopStringCriteria::new(vec!["stop".into()], &Words);
/// assert_eq!(stop.stop(&[vec![0, 2], vec![0, 3], vec![1, 0]])?, [true, false, false]);
/// // Not where it was complete before.
/// assert_eq!(stop.stop(&[vec![0, 1, 3]])?, [false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct StopStringCriteria<'a> {
    strings: Vec<String>,
    /// Tokens at the end of a row that are looked at.
    window: usize,
    text: &'a dyn TokenText,
}

impl<'a> StopStringCriteria<'a> {
    /// The strings, and what makes texts of tokens.
    pub fn new(stop_strings: Vec<String>, text: &'a dyn TokenText) -> Self {
        // A token may stand for a part of a character, or for no text at all.
        let longest = stop_strings.iter().map(String::len).max().unwrap_or(0);
        StopStringCriteria {
            strings: stop_strings.into_iter().filter(|s| !s.is_empty()).collect(),
            window: longest + 8,
            text,
        }
    }
}

impl StoppingCriteria for StopStringCriteria<'_> {
    #[torsh_tensor::names_caller]
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
        let mut ends = Vec::with_capacity(input_ids.len());
        for row in input_ids {
            let tail = &row[row.len().saturating_sub(self.window)..];
            let Some((_, before)) = tail.split_last() else {
                ends.push(false);
                continue;
            };
            let text = decode_ids(self.text, tail)?;
            let before = decode_ids(self.text, before)?;
            let old: usize = text
                .chars()
                .zip(before.chars())
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a.len_utf8())
                .sum();
            let completes = |s: &String| {
                // The last place that it may have, so that it ends in what is new.
                let from = (old + 1).saturating_sub(s.len());
                let from = (0..=from).rev().find(|&at| text.is_char_boundary(at));
                from.is_some_and(|from| {
                    text[from..]
                        .match_indices(s.as_str())
                        .any(|(at, _)| from + at + s.len() > old)
                })
            };
            ends.push(self.strings.iter().any(completes));
        }
        Ok(ends)
    }
}

/// All criteria of one generation: a row ends where one of them says so.
pub(super) struct Criteria<'a>(Vec<Box<dyn StoppingCriteria + 'a>>);

impl<'a> Criteria<'a> {
    pub(super) fn new(all: Vec<Box<dyn StoppingCriteria + 'a>>) -> Criteria<'a> {
        Criteria(all)
    }
}

impl StoppingCriteria for Criteria<'_> {
    #[torsh_tensor::names_caller]
    fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
        let mut ends = vec![false; input_ids.len()];
        for criterion in &mut self.0 {
            for (end, more) in ends.iter_mut().zip(criterion.stop(input_ids)?) {
                *end |= more;
            }
        }
        Ok(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as tokens; parts of characters are replaced.
    struct Bytes;

    impl TokenText for Bytes {
        fn decode(&self, ids: &[u32]) -> Result<String> {
            let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }

    #[test]
    fn stop_strings_end_with_the_last_token() -> Result<()> {
        let mut stop = StopStringCriteria::new(vec!["é.".into(), "ab".into()], &Bytes);
        let row = |text: &str| text.bytes().map(i64::from).collect::<Vec<_>>();
        for (text, wanted) in [
            ("xab", true),
            ("xabx", false),
            ("xabab", true),
            ("é.", true),
            ("é", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(stop.stop(&[row(text)])?, [wanted], "{text:?}");
        }
        Ok(())
    }

    #[test]
    fn one_criterion_is_enough() -> Result<()> {
        let mut all = Criteria::new(vec![
            Box::new(MaxLengthCriteria::new(3)),
            Box::new(EosTokenCriteria::new(vec![9])),
        ]);
        assert_eq!(all.stop(&[vec![1, 2], vec![1, 9]])?, [false, true]);
        assert_eq!(all.stop(&[vec![1, 2, 3], vec![1, 9, 0]])?, [true, true]);
        Ok(())
    }
}
