//! Scores of tagged spans.

use std::collections::{BTreeMap, HashSet};

use torsh_tensor::{Result, TorshError, options};

use super::segments::same_length;

/// A span of tokens, such as a name.
///
/// ```
/// use torsh_text::metrics::{Span, spans};
/// let name = Span { kind: "PER".to_string(), start: 1, end: 3 };
/// assert_eq!(spans(&["O", "B-PER", "I-PER"], false), [name]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Its type, as `PER`; `_` where the tags have none.
    pub kind: String,
    /// The first token.
    pub start: usize,
    /// The one behind the last.
    pub end: usize,
}

options! {
    /// Options of [`seqeval_with`].
    ///
    /// ```
    /// use torsh_text::metrics::{SeqevalOptions, seqeval_with};
    /// let tags = [["PER-B", "PER-I"]];
    /// let report = seqeval_with(&tags, &tags, SeqevalOptions::new().suffix(true))?;
    /// assert_eq!((report.types["PER"].f1, report.types["PER"].support), (1.0, 1));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SeqevalOptions {
        /// Whether the tags end in their letter, as `PER-B`. The default is `false`.
        suffix: bool = false;
    }
}

/// Precision, recall and F1 of spans, 0 to 1.
///
/// ```
/// use torsh_text::metrics::seqeval;
/// let score = seqeval(&[["B-PER", "O"]], &[["B-PER", "B-LOC"]])?.micro;
/// assert_eq!((score.precision, score.recall, score.support), (1.0, 0.5, 2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpanScore {
    /// The share of the found spans that are right.
    pub precision: f64,
    /// The share of the true spans that were found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
    /// How many true spans there are.
    pub support: usize,
}

/// What [`seqeval`] gives: seqeval's `classification_report` and `accuracy_score`.
///
/// ```
/// use torsh_text::metrics::seqeval;
/// let report = seqeval(&[["B-PER", "O"]], &[["B-PER", "B-LOC"]])?;
/// assert_eq!((report.types["PER"].f1, report.types["LOC"].f1, report.accuracy), (1.0, 0.0, 0.5));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SeqevalReport {
    /// Of all spans together: the F1 score of CoNLL.
    pub micro: SpanScore,
    /// The mean over the types.
    pub macro_average: SpanScore,
    /// The mean over the types, each as often as it occurs.
    pub weighted: SpanScore,
    /// Of each type.
    pub types: BTreeMap<String, SpanScore>,
    /// The share of tags that are right.
    pub accuracy: f64,
}

/// The spans of one sentence's tags, by the rules of CoNLL's `conlleval`, which read IOB1, IOB2, IOE1, IOE2 and IOBES
/// alike: `B-PER` begins a span, `I-PER` continues it, `E-PER` ends it, `S-PER` is one, `O` is none.
///
/// ```
/// use torsh_text::metrics::spans;
/// let found = spans(&["B-PER", "I-PER", "O", "I-LOC"], false);
/// let kinds: Vec<_> = found.iter().map(|s| (s.kind.as_str(), s.start, s.end)).collect();
/// assert_eq!(kinds, [("PER", 0, 2), ("LOC", 3, 4)]);
/// ```
pub fn spans<T: AsRef<str>>(tags: &[T], suffix: bool) -> Vec<Span> {
    let mut found = Vec::new();
    let (mut start, mut before) = (0, ('O', "_"));
    let outside = std::iter::once("O");
    for (at, tag) in tags.iter().map(AsRef::as_ref).chain(outside).enumerate() {
        let now = parts(tag, suffix);
        if ends(before, now) {
            found.push(Span {
                kind: before.1.to_string(),
                start,
                end: at,
            });
        }
        if starts(before, now) {
            start = at;
        }
        before = now;
    }
    found
}

/// A tag's letter and type.
fn parts(tag: &str, suffix: bool) -> (char, &str) {
    let (letter, kind) = match suffix {
        true => {
            let letter = tag.chars().next_back().unwrap_or('O');
            let rest = &tag[..tag.len() - tag.chars().next_back().map_or(0, char::len_utf8)];
            (letter, rest.rsplit_once('-').map_or(rest, |(kind, _)| kind))
        }
        false => {
            let letter = tag.chars().next().unwrap_or('O');
            let rest = &tag[tag.chars().next().map_or(0, char::len_utf8)..];
            (letter, rest.split_once('-').map_or(rest, |(_, kind)| kind))
        }
    };
    (letter, if kind.is_empty() { "_" } else { kind })
}

fn ends((before, kind): (char, &str), (now, next): (char, &str)) -> bool {
    match (before, now) {
        ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O') => true,
        ('O' | '.', _) => false,
        _ => kind != next,
    }
}

fn starts((before, kind): (char, &str), (now, next): (char, &str)) -> bool {
    match (before, now) {
        (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I') => true,
        (_, 'O' | '.') => false,
        _ => kind != next,
    }
}

/// Precision, recall and F1 of the spans of tagged sentences, as seqeval computes them in its default mode (Nakayama,
/// "seqeval: A Python framework for sequence labeling evaluation", 2018): a span is right where type, first and last
/// token are.
///
/// # Errors
/// No sentences, and sentences of different lengths.
///
/// ```
/// use torsh_text::metrics::seqeval;
/// let predictions = [vec!["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], vec!["B-PER", "I-PER", "O"]];
/// let references = [vec!["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], vec!["B-PER", "I-PER", "O"]];
/// let report = seqeval(&predictions, &references)?;
/// assert_eq!((report.micro.f1, report.types["PER"].f1, report.accuracy), (0.5, 1.0, 0.8));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn seqeval<P: AsRef<str>, R: AsRef<str>, L: AsRef<[P]>, M: AsRef<[R]>>(
    predictions: &[L],
    references: &[M],
) -> Result<SeqevalReport> {
    seqeval_with(predictions, references, SeqevalOptions::default())
}

/// [`seqeval`] with options.
///
/// ```
/// use torsh_text::metrics::{SeqevalOptions, seqeval_with};
/// let options = SeqevalOptions::new().suffix(true);
/// let report = seqeval_with(&[["PER-B", "PER-I"]], &[["PER-B", "PER-I"]], options)?;
/// assert_eq!(report.types["PER"].support, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn seqeval_with<P: AsRef<str>, R: AsRef<str>, L: AsRef<[P]>, M: AsRef<[R]>>(
    predictions: &[L],
    references: &[M],
    options: SeqevalOptions,
) -> Result<SeqevalReport> {
    same_length("seqeval", predictions.len(), references.len())?;
    let mut types: BTreeMap<String, Counts> = BTreeMap::new();
    let (mut tags, mut equal) = (0, 0);
    for (at, (prediction, reference)) in predictions.iter().zip(references).enumerate() {
        let (prediction, reference) = (prediction.as_ref(), reference.as_ref());
        if prediction.len() != reference.len() {
            return Err(TorshError::invalid(
                "seqeval",
                format!(
                    "sentence {at} has {} tags, and its reference {}",
                    prediction.len(),
                    reference.len()
                ),
            ));
        }
        tags += prediction.len();
        let pairs = prediction.iter().zip(reference);
        equal += pairs.filter(|(p, r)| p.as_ref() == r.as_ref()).count();
        let found: HashSet<Span> = spans(prediction, options.suffix).into_iter().collect();
        let wanted: HashSet<Span> = spans(reference, options.suffix).into_iter().collect();
        for span in &found {
            let counts = types.entry(span.kind.clone()).or_default();
            counts.found += 1;
            counts.right += usize::from(wanted.contains(span));
        }
        for span in &wanted {
            types.entry(span.kind.clone()).or_default().wanted += 1;
        }
    }
    let mut all = Counts::default();
    let (mut mean, mut weighted) = (SpanScore::default(), SpanScore::default());
    let mut scores = BTreeMap::new();
    for (kind, counts) in types {
        all.found += counts.found;
        all.wanted += counts.wanted;
        all.right += counts.right;
        let score = counts.score();
        mean.add(&score, 1.0);
        weighted.add(&score, counts.wanted as f64);
        scores.insert(kind, score);
    }
    mean.divide(scores.len() as f64);
    weighted.divide(all.wanted as f64);
    Ok(SeqevalReport {
        micro: all.score(),
        macro_average: mean,
        weighted,
        types: scores,
        accuracy: share(equal, tags),
    })
}

#[derive(Clone, Copy, Default)]
struct Counts {
    found: usize,
    wanted: usize,
    right: usize,
}

/// 0 where there is nothing to divide by.
fn share(part: usize, of: usize) -> f64 {
    match of {
        0 => 0.0,
        of => part as f64 / of as f64,
    }
}

impl Counts {
    fn score(self) -> SpanScore {
        let (precision, recall) = (
            share(self.right, self.found),
            share(self.right, self.wanted),
        );
        let f1 = match precision + recall > 0.0 {
            true => 2.0 * precision * recall / (precision + recall),
            false => 0.0,
        };
        SpanScore {
            precision,
            recall,
            f1,
            support: self.wanted,
        }
    }
}

impl SpanScore {
    fn add(&mut self, other: &SpanScore, weight: f64) {
        self.precision += weight * other.precision;
        self.recall += weight * other.recall;
        self.f1 += weight * other.f1;
        self.support += other.support;
    }

    fn divide(&mut self, by: f64) {
        if by > 0.0 {
            self.precision /= by;
            self.recall /= by;
            self.f1 /= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tags: &str) -> Vec<(String, usize, usize)> {
        let tags: Vec<&str> = tags.split(' ').collect();
        let found = spans(&tags, false).into_iter();
        found.map(|s| (s.kind, s.start, s.end)).collect()
    }

    #[test]
    fn all_schemes_are_read() {
        let two = [("A".to_string(), 0, 2), ("B".to_string(), 2, 3)];
        for tags in ["I-A I-A I-B", "B-A I-A B-B", "I-A E-A E-B", "B-A E-A S-B"] {
            assert_eq!(found(tags), two, "{tags}");
        }
        assert_eq!(
            found("I-A B-A"),
            [("A".to_string(), 0, 1), ("A".to_string(), 1, 2)]
        );
        assert_eq!(found("B I O"), [("_".to_string(), 0, 2)]);
        assert_eq!(found("O O"), []);
    }
}
