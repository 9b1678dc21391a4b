//! chrF.

use std::collections::HashMap;
use std::hash::Hash;

use torsh_tensor::{Result, TorshError, options};

use super::segments::{is_punctuation, is_space, of_one, same_length, transpose, words};

options! {
    /// Options of [`corpus_chrf_with`] and [`sentence_chrf_with`], with sacrebleu's defaults.
    ///
    /// ```
    /// use torsh_text::metrics::{ChrfOptions, sentence_chrf, sentence_chrf_with};
    /// let score = sentence_chrf_with("THE CAT", &["the cat"], ChrfOptions::new().lowercase(true))?;
    /// assert!((score - 100.0).abs() < 1e-9);
    /// assert_eq!(sentence_chrf("THE CAT", &["the cat"])?, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ChrfOptions {
        /// The longest n-grams of characters. The default is 6.
        char_order: usize = 6;
        /// The longest n-grams of words; 0 unless set, 2 for chrF++.
        word_order: usize = 0;
        /// How many times more recall counts than precision. The default is 2.
        beta: f64 = 2.0;
        /// Whether all texts are made lower case. The default is `false`.
        lowercase: bool = false;
        /// Whether white space belongs to the characters. The default is `false`.
        whitespace: bool = false;
        /// Whether orders without n-grams count as tiny ones, as in the original chrF++. The default is `false`.
        eps_smoothing: bool = false;
    }
}

/// chrF of a corpus, from 0 to 100: the F score of n-grams of characters (Popović, "chrF: character n-gram F-score for
/// automatic MT evaluation", 2015), as sacrebleu computes it.
///
/// `references` are lists, of which each has one reference for every hypothesis; the best one of a hypothesis counts.
///
/// # Errors
/// No hypotheses, no references, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::corpus_chrf;
/// let score = corpus_chrf(&["the cat sat on the mat"], &[["the cat is on the mat"]])?;
/// assert!((score - 64.5779420625287).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn corpus_chrf<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
) -> Result<f64> {
    corpus_chrf_with(hypotheses, references, ChrfOptions::default())
}

/// [`corpus_chrf`] with options; `word_order(2)` makes it chrF++ (Popović, "chrF++: words helping character n-grams",
/// 2017).
///
/// ```
/// use torsh_text::metrics::{ChrfOptions, corpus_chrf_with};
/// let options = ChrfOptions::new().word_order(2);
/// let score = corpus_chrf_with(&["the cat sat on the mat"], &[["the cat is on the mat"]], options)?;
/// assert!((score - 66.36067072084818).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn corpus_chrf_with<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
    options: ChrfOptions,
) -> Result<f64> {
    check(&options)?;
    let references = transpose("corpus_chrf", hypotheses.len(), references)?;
    same_length("corpus_chrf", hypotheses.len(), references.len())?;
    let mut all = vec![Counts::default(); options.char_order + options.word_order];
    for (hypothesis, references) in hypotheses.iter().zip(&references) {
        for (sum, one) in all
            .iter_mut()
            .zip(best(hypothesis.as_ref(), references, &options))
        {
            sum.hypothesis += one.hypothesis;
            sum.reference += one.reference;
            sum.both += one.both;
        }
    }
    Ok(f_score(&all, &options))
}

/// chrF of one sentence, from 0 to 100; the best of its references counts.
///
/// # Errors
/// No references.
///
/// ```
/// use torsh_text::metrics::sentence_chrf;
/// assert!((sentence_chrf("abcd", &["xyz", "abcd"])? - 100.0).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sentence_chrf<R: AsRef<str>>(hypothesis: &str, references: &[R]) -> Result<f64> {
    sentence_chrf_with(hypothesis, references, ChrfOptions::default())
}

/// [`sentence_chrf`] with options.
///
/// ```
/// use torsh_text::metrics::{ChrfOptions, sentence_chrf_with};
/// let options = ChrfOptions::new().lowercase(true);
/// assert!((sentence_chrf_with("ABCD", &["abcd"], options)? - 100.0).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sentence_chrf_with<R: AsRef<str>>(
    hypothesis: &str,
    references: &[R],
    options: ChrfOptions,
) -> Result<f64> {
    check(&options)?;
    let references = of_one("sentence_chrf", references)?;
    Ok(f_score(&best(hypothesis, &references, &options), &options))
}

#[track_caller]
fn check(options: &ChrfOptions) -> Result<()> {
    if options.char_order + options.word_order == 0 {
        return Err(TorshError::invalid(
            "chrf",
            "char_order and word_order are both 0",
        ));
    }
    Ok(())
}

/// The n-grams of one order.
#[derive(Clone, Copy, Default)]
struct Counts {
    hypothesis: u64,
    reference: u64,
    both: u64,
}

fn ngrams<T: Eq + Hash>(items: &[T], n: usize) -> HashMap<&[T], u64> {
    let mut counts = HashMap::new();
    for gram in items.windows(n) {
        *counts.entry(gram).or_insert(0) += 1;
    }
    counts
}

fn compare<T: Eq + Hash>(hypothesis: &[T], reference: &[T], n: usize) -> Counts {
    let (h, r) = (ngrams(hypothesis, n), ngrams(reference, n));
    let both = h
        .iter()
        .map(|(gram, &n)| n.min(r.get(gram).copied().unwrap_or(0)));
    Counts {
        both: both.sum(),
        // Without n-grams of the reference, those of the hypothesis do not count.
        hypothesis: if r.is_empty() { 0 } else { h.values().sum() },
        reference: r.values().sum(),
    }
}

/// The characters and the words that n-grams are made of.
struct Parts<'a> {
    characters: Vec<char>,
    words: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str, options: &ChrfOptions) -> Parts<'a> {
        let kept = |c: &char| options.whitespace || !is_space(*c);
        let mut parted = Vec::new();
        if options.word_order > 0 {
            words(text).into_iter().for_each(|w| part(w, &mut parted));
        }
        Parts {
            characters: text.chars().filter(kept).collect(),
            words: parted,
        }
    }
}

/// Parts one punctuation mark from a word, at its end or else at its beginning.
fn part<'a>(word: &'a str, out: &mut Vec<&'a str>) {
    let (first, last) = (word.chars().next(), word.chars().next_back());
    match (first, last) {
        (Some(first), Some(last)) if first.len_utf8() < word.len() => {
            if is_punctuation(last) {
                let (rest, last) = word.split_at(word.len() - last.len_utf8());
                out.extend([rest, last]);
            } else if is_punctuation(first) {
                let (first, rest) = word.split_at(first.len_utf8());
                out.extend([first, rest]);
            } else {
                out.push(word);
            }
        }
        _ => out.push(word),
    }
}

/// The counts with the reference that gives the best score.
fn best(hypothesis: &str, references: &[&str], options: &ChrfOptions) -> Vec<Counts> {
    let lower = |text: &str| match options.lowercase {
        true => text.to_lowercase(),
        false => text.to_string(),
    };
    let hypothesis = lower(hypothesis);
    let hypothesis = Parts::of(&hypothesis, options);
    let mut best: Option<(f64, Vec<Counts>)> = None;
    for reference in references {
        let reference = lower(reference);
        let reference = Parts::of(&reference, options);
        let characters = (1..=options.char_order)
            .map(|n| compare(&hypothesis.characters, &reference.characters, n));
        let words =
            (1..=options.word_order).map(|n| compare(&hypothesis.words, &reference.words, n));
        let counts: Vec<Counts> = characters.chain(words).collect();
        let score = f_score(&counts, options);
        if best.as_ref().is_none_or(|(s, _)| score > *s) {
            best = Some((score, counts));
        }
    }
    best.map(|(_, counts)| counts).unwrap_or_default()
}

fn f_score(counts: &[Counts], options: &ChrfOptions) -> f64 {
    const EPS: f64 = 1e-16;
    let factor = options.beta * options.beta;
    let (mut precision, mut recall, mut orders, mut sum) = (0.0, 0.0, 0.0, 0.0);
    for c in counts {
        let share = |of: u64| match of {
            0 => EPS,
            of => c.both as f64 / of as f64,
        };
        let (p, r) = (share(c.hypothesis), share(c.reference));
        let below = factor * p + r;
        sum += match below > 0.0 {
            true => (1.0 + factor) * p * r / below,
            false => EPS,
        };
        if c.hypothesis > 0 && c.reference > 0 {
            precision += p;
            recall += r;
            orders += 1.0;
        }
    }
    if options.eps_smoothing {
        return 100.0 * sum / counts.len() as f64;
    }
    if orders == 0.0 || precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (precision / orders, recall / orders);
    100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
}
