//! ROUGE.

use std::collections::HashMap;

use torsh_tensor::options;

use super::porter::porter_stem;

/// Precision, recall and their harmonic mean, 0 to 1.
///
/// ```
/// use torsh_text::metrics::rouge;
/// let score = rouge("the cat", "the cat sat").rouge1;
/// assert_eq!((score.precision, score.recall), (1.0, 2.0 / 3.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RougeScore {
    /// The share of the prediction that the reference has.
    pub precision: f64,
    /// The share of the reference that the prediction has.
    pub recall: f64,
    /// The harmonic mean of both.
    pub fmeasure: f64,
}

impl RougeScore {
    fn new(both: usize, prediction: usize, reference: usize) -> RougeScore {
        let precision = both as f64 / prediction.max(1) as f64;
        let recall = both as f64 / reference.max(1) as f64;
        let fmeasure = match precision + recall > 0.0 {
            true => 2.0 * precision * recall / (precision + recall),
            false => 0.0,
        };
        RougeScore {
            precision,
            recall,
            fmeasure,
        }
    }
}

/// The scores of a prediction.
///
/// ```
/// use torsh_text::metrics::rouge;
/// let scores = rouge("sat the cat", "the cat sat");
/// assert_eq!((scores.rouge1.recall, scores.rouge2.recall, scores.rouge_l.recall), (1.0, 0.5, 2.0 / 3.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RougeScores {
    /// Of words.
    pub rouge1: RougeScore,
    /// Of pairs of words.
    pub rouge2: RougeScore,
    /// Of the longest common subsequence.
    pub rouge_l: RougeScore,
    /// Of the common subsequences of the lines: of a summary with a sentence in each line.
    pub rouge_lsum: RougeScore,
}

options! {
    /// Options of [`rouge_with`].
    RougeOptions {
        /// Whether words of more than three letters are compared by their stems. The default is `false`.
        use_stemmer: bool = false;
    }
}

/// ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum (Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004), as
/// Google's rouge-score computes them: words are runs of ASCII letters and digits, in lower case.
///
/// ```
/// use torsh_text::metrics::rouge;
/// let scores = rouge("the cat sat on the mat", "the cat is on the mat");
/// assert_eq!(scores.rouge1.fmeasure, 5.0 / 6.0);
/// assert_eq!((scores.rouge2.precision, scores.rouge2.recall), (0.6, 0.6));
/// assert_eq!(scores.rouge_l, scores.rouge1);
/// ```
pub fn rouge(prediction: &str, reference: &str) -> RougeScores {
    rouge_with(prediction, reference, RougeOptions::default())
}

/// [`rouge`] with options.
///
/// ```
/// use torsh_text::metrics::{RougeOptions, rouge, rouge_with};
/// let stems = rouge_with("dogs barked", "dog barking", RougeOptions::new().use_stemmer(true));
/// assert_eq!((stems.rouge1.fmeasure, rouge("dogs barked", "dog barking").rouge1.fmeasure), (1.0, 0.0));
/// ```
pub fn rouge_with(prediction: &str, reference: &str, options: RougeOptions) -> RougeScores {
    let p = tokenize(prediction, options.use_stemmer);
    let r = tokenize(reference, options.use_stemmer);
    RougeScores {
        rouge1: of_ngrams(&p, &r, 1),
        rouge2: of_ngrams(&p, &r, 2),
        rouge_l: RougeScore::new(longest(&r, &p), p.len(), r.len()),
        rouge_lsum: of_lines(prediction, reference, options.use_stemmer),
    }
}

/// ROUGE of n-grams of `n` words.
///
/// ```
/// use torsh_text::metrics::rouge_n;
/// assert_eq!(rouge_n("a b c d", "a b c e", 3).recall, 0.5);
/// ```
pub fn rouge_n(prediction: &str, reference: &str, n: usize) -> RougeScore {
    of_ngrams(&tokenize(prediction, false), &tokenize(reference, false), n)
}

fn tokenize(text: &str, stems: bool) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let word = |w: &str| match stems && w.len() > 3 {
        true => porter_stem(w),
        false => w.to_string(),
    };
    words.filter(|w| !w.is_empty()).map(word).collect()
}

fn of_ngrams(prediction: &[String], reference: &[String], n: usize) -> RougeScore {
    if n == 0 {
        return RougeScore::default();
    }
    let mut counts: HashMap<&[String], usize> = HashMap::new();
    for gram in reference.windows(n) {
        *counts.entry(gram).or_insert(0) += 1;
    }
    let mut both = 0;
    for gram in prediction.windows(n) {
        if let Some(count) = counts.get_mut(gram)
            && *count > 0
        {
            *count -= 1;
            both += 1;
        }
    }
    let grams = |words: &[String]| (words.len() + 1).saturating_sub(n);
    RougeScore::new(both, grams(prediction), grams(reference))
}

/// The length of the longest common subsequence.
fn longest(a: &[String], b: &[String]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut corner = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = match x == y {
                true => corner + 1,
                false => above.max(row[j]),
            };
            corner = above;
        }
    }
    row[b.len()]
}

/// Which words of `reference` a longest common subsequence with `prediction` has.
fn mark_common(reference: &[String], prediction: &[String], marked: &mut [bool]) {
    let width = prediction.len() + 1;
    let mut table = vec![0u32; (reference.len() + 1) * width];
    for (i, x) in reference.iter().enumerate() {
        for (j, y) in prediction.iter().enumerate() {
            let at = (i + 1) * width + j + 1;
            table[at] = match x == y {
                true => table[at - width - 1] + 1,
                false => table[at - width].max(table[at - 1]),
            };
        }
    }
    let (mut i, mut j) = (reference.len(), prediction.len());
    while i > 0 && j > 0 {
        let at = i * width + j;
        if reference[i - 1] == prediction[j - 1] {
            (i, j) = (i - 1, j - 1);
            marked[i] = true;
        } else if table[at - 1] > table[at - width] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
}

/// For each line of the reference, the union of its common subsequences with the lines of the prediction; no word counts
/// more often than it occurs.
fn of_lines(prediction: &str, reference: &str, stems: bool) -> RougeScore {
    let lines = |text: &str| -> Vec<Vec<String>> {
        let lines = text.split('\n').filter(|l| !l.is_empty());
        lines.map(|l| tokenize(l, stems)).collect()
    };
    let (prediction, reference) = (lines(prediction), lines(reference));
    let count = |lines: &[Vec<String>]| lines.iter().map(Vec::len).sum::<usize>();
    fn occurrences(lines: &[Vec<String>]) -> HashMap<&str, usize> {
        let mut counts = HashMap::new();
        for word in lines.iter().flatten() {
            *counts.entry(word.as_str()).or_insert(0) += 1;
        }
        counts
    }
    let (mut left_p, mut left_r) = (occurrences(&prediction), occurrences(&reference));
    let mut both = 0;
    for line in &reference {
        let mut marked = vec![false; line.len()];
        for other in &prediction {
            mark_common(line, other, &mut marked);
        }
        for (word, _) in line.iter().zip(marked).filter(|(_, m)| *m) {
            if let (Some(p), Some(r)) =
                (left_p.get_mut(word.as_str()), left_r.get_mut(word.as_str()))
                && *p > 0
                && *r > 0
            {
                *p -= 1;
                *r -= 1;
                both += 1;
            }
        }
    }
    RougeScore::new(both, count(&prediction), count(&reference))
}
