//! Word and character error rates.

use torsh_tensor::Result;

use super::segments::{is_space, same_length};

/// How a hypothesis differs from its reference, in words or in characters.
///
/// ```
/// use torsh_text::metrics::word_errors;
/// let counts = word_errors(&["a x c d"], &["a b c"])?;
/// assert_eq!((counts.hits, counts.substitutions, counts.deletions, counts.insertions), (2, 1, 0, 1));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditCounts {
    /// Those that are right.
    pub hits: u64,
    /// Those that stand for others.
    pub substitutions: u64,
    /// Those of the reference that are missing.
    pub deletions: u64,
    /// Those that the reference does not have.
    pub insertions: u64,
}

impl EditCounts {
    /// Errors in relation to the reference's length: the word or character error rate. It can be above 1. Where the
    /// reference is empty it is the number of insertions, as in jiwer.
    ///
    /// ```
    /// use torsh_text::metrics::word_errors;
    /// assert_eq!(word_errors(&["a x c d"], &["a b c"])?.rate(), 2.0 / 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn rate(&self) -> f64 {
        match self.hits + self.substitutions + self.deletions {
            0 => self.insertions as f64,
            n => self.errors() as f64 / n as f64,
        }
    }

    /// The share of errors in all pairs of the alignment, 0 to 1 (Morris et al., "From WER and RIL to MER and WIL",
    /// 2004).
    ///
    /// ```
    /// use torsh_text::metrics::word_errors;
    /// assert_eq!(word_errors(&["a x c d"], &["a b c"])?.match_error_rate(), 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn match_error_rate(&self) -> f64 {
        match self.hits + self.errors() {
            0 => 0.0,
            n => self.errors() as f64 / n as f64,
        }
    }

    /// The share of information that is lost, 0 to 1 (Morris et al., 2004).
    ///
    /// ```
    /// use torsh_text::metrics::word_errors;
    /// let lost = word_errors(&["a x c d"], &["a b c"])?.information_lost();
    /// assert!((lost - (1.0 - 2.0 / 3.0 * 2.0 / 4.0)).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn information_lost(&self) -> f64 {
        let reference = self.hits + self.substitutions + self.deletions;
        let hypothesis = self.hits + self.substitutions + self.insertions;
        match (reference, hypothesis) {
            (0, 0) => 0.0,
            (0, _) | (_, 0) => 1.0,
            (r, h) => 1.0 - (self.hits as f64 / r as f64) * (self.hits as f64 / h as f64),
        }
    }

    fn errors(&self) -> u64 {
        self.substitutions + self.deletions + self.insertions
    }

    fn add(&mut self, other: EditCounts) {
        self.hits += other.hits;
        self.substitutions += other.substitutions;
        self.deletions += other.deletions;
        self.insertions += other.insertions;
    }
}

/// The word error rate of texts, as jiwer computes it: errors of all texts in relation to the words of all references.
/// Words are what stands between spaces; nothing else is changed, so make both lower case first where case shall not
/// count.
///
/// # Errors
/// No texts, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::wer;
/// assert_eq!(wer(&["hello duck", "yes"], &["hello world", "yes sir"])?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn wer<H: AsRef<str>, R: AsRef<str>>(hypotheses: &[H], references: &[R]) -> Result<f64> {
    Ok(word_errors(hypotheses, references)?.rate())
}

/// The character error rate of texts, as jiwer computes it; the spaces between words are characters too.
///
/// # Errors
/// No texts, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::cer;
/// assert_eq!(cer(&["abxd"], &["abcd"])?, 0.25);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cer<H: AsRef<str>, R: AsRef<str>>(hypotheses: &[H], references: &[R]) -> Result<f64> {
    Ok(char_errors(hypotheses, references)?.rate())
}

/// The errors behind [`wer`].
///
/// # Errors
/// No texts, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::word_errors;
/// let errors = word_errors(&["a b x d"], &["a c d e"])?;
/// assert_eq!((errors.hits, errors.substitutions, errors.deletions, errors.insertions), (2, 1, 1, 1));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn word_errors<H: AsRef<str>, R: AsRef<str>>(
    hypotheses: &[H],
    references: &[R],
) -> Result<EditCounts> {
    same_length("wer", hypotheses.len(), references.len())?;
    let mut all = EditCounts::default();
    for (hypothesis, reference) in hypotheses.iter().zip(references) {
        let (hypothesis, reference) = (narrow(hypothesis.as_ref()), narrow(reference.as_ref()));
        all.add(errors(&split(&hypothesis), &split(&reference)));
    }
    Ok(all)
}

/// The errors behind [`cer`].
///
/// # Errors
/// No texts, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::char_errors;
/// assert_eq!(char_errors(&["house"], &["horse "])?.substitutions, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn char_errors<H: AsRef<str>, R: AsRef<str>>(
    hypotheses: &[H],
    references: &[R],
) -> Result<EditCounts> {
    same_length("cer", hypotheses.len(), references.len())?;
    let characters = |text: &str| -> Vec<char> { text.trim_matches(is_space).chars().collect() };
    let mut all = EditCounts::default();
    for (hypothesis, reference) in hypotheses.iter().zip(references) {
        all.add(errors(
            &characters(hypothesis.as_ref()),
            &characters(reference.as_ref()),
        ));
    }
    Ok(all)
}

/// Two and more spaces become one; a single tab or line break stays, and parts no words.
fn narrow(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let more = is_space(c) && chars.peek().is_some_and(|&n| is_space(n));
        if more {
            while chars.next_if(|&n| is_space(n)).is_some() {}
        }
        out.push(if more { ' ' } else { c });
    }
    out
}

fn split(text: &str) -> Vec<&str> {
    let text = text.trim_matches(is_space);
    text.split(' ').filter(|w| !w.is_empty()).collect()
}

/// The edits of a shortest alignment. Of several, the one that deletes, else inserts, as late as it can.
fn errors<T: PartialEq>(hypothesis: &[T], reference: &[T]) -> EditCounts {
    let start = hypothesis.iter().zip(reference);
    let start = start.take_while(|(a, b)| a == b).count();
    let (hypothesis, reference) = (&hypothesis[start..], &reference[start..]);
    let end = hypothesis.iter().rev().zip(reference.iter().rev());
    let end = end.take_while(|(a, b)| a == b).count();
    let (hypothesis, reference) = (
        &hypothesis[..hypothesis.len() - end],
        &reference[..reference.len() - end],
    );
    // A column of the table: the cost to each prefix of the reference, and the edits on the way there.
    let deleted = |n: usize| EditCounts {
        deletions: n as u64,
        ..EditCounts::default()
    };
    let mut column: Vec<(usize, EditCounts)> =
        (0..=reference.len()).map(|n| (n, deleted(n))).collect();
    for (j, h) in hypothesis.iter().enumerate() {
        let (mut corner, mut corner_edits) = column[0];
        column[0].0 = j + 1;
        column[0].1.insertions += 1;
        for (i, r) in reference.iter().enumerate() {
            let (left, mut edits) = column[i + 1];
            let above = column[i].0;
            let differs = usize::from(h != r);
            let cost = (corner + differs).min(left + 1).min(above + 1);
            if cost == above + 1 {
                edits = column[i].1;
                edits.deletions += 1;
            } else if left < corner {
                edits.insertions += 1;
            } else {
                edits = corner_edits;
                match differs {
                    0 => edits.hits += 1,
                    _ => edits.substitutions += 1,
                }
            }
            (corner, corner_edits) = column[i + 1];
            column[i + 1] = (cost, edits);
        }
    }
    let mut edits = column.last().map_or_else(EditCounts::default, |&(_, e)| e);
    edits.hits += (start + end) as u64;
    edits
}
