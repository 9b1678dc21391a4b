//! BLEU.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use fancy_regex::Regex;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError, options};

use super::segments::{
    is_space, is_symbol_of_13a, of_one, part_characters, part_numbers, part_pairs, same_length,
    transpose, words,
};

/// How BLEU finds the words of a text: sacrebleu's `tokenize`.
///
/// ```
/// use torsh_text::metrics::{BleuOptions, sentence_bleu_with};
/// let words = |tokenize: &str| sentence_bleu_with("a, b", &["a, b"], BleuOptions::new().tokenize(tokenize));
/// assert_eq!((words("13a")?.hypothesis_length, words("none")?.hypothesis_length), (3, 2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BleuTokenize {
    /// At white space alone.
    None,
    /// As `mteval-v13a.pl` of WMT: punctuation is a word, but not the stops and commas of numbers.
    #[default]
    V13a,
    /// As `mteval-v14.pl --international-tokenization`: the punctuation and symbols of Unicode are words.
    Intl,
    /// Each character is a word.
    Char,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    BleuTokenize, "tokenize",
    "none" => BleuTokenize::None,
    "13a" => BleuTokenize::V13a,
    "intl" => BleuTokenize::Intl,
    "char" => BleuTokenize::Char,
}

/// What BLEU takes for a precision of 0: sacrebleu's `smooth_method` and `smooth_value` (Chen and Cherry, "A Systematic
/// Comparison of Smoothing Techniques for Sentence-Level BLEU", 2014).
///
/// ```
/// use torsh_text::metrics::{BleuOptions, BleuSmoothing, corpus_bleu, corpus_bleu_with};
/// // No run of three or four words is right: halves and quarters of a count stand for 0 of 2 and 0 of 1.
/// let (hypothesis, reference) = (["a b c d"], [["a x c d"]]);
/// assert_eq!(corpus_bleu(&hypothesis, &reference)?.precisions[2..], [25.0, 25.0]);
/// let options = BleuOptions::new().smooth_method(BleuSmoothing::None);
/// assert_eq!(corpus_bleu_with(&hypothesis, &reference, options)?.score, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum BleuSmoothing {
    /// 0: the score is 0 then.
    None,
    /// This count in place of 0; sacrebleu's default is 0.1.
    Floor(f64),
    /// Adds this to the counts of all orders but the first; sacrebleu's default is 1.
    AddK(f64),
    /// Half a count, then a quarter, and so on.
    #[default]
    Exp,
}

options! {
    /// Options of [`corpus_bleu_with`] and [`sentence_bleu_with`], with sacrebleu's defaults.
    ///
    /// ```
    /// use torsh_text::metrics::{BleuOptions, sentence_bleu_with};
    /// let bleu = sentence_bleu_with("THE CAT", &["the cat"], BleuOptions::new().lowercase(true))?;
    /// assert!((bleu.score - 100.0).abs() < 1e-9);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BleuOptions {
        /// How the words are found; as 13a unless set.
        tokenize: BleuTokenize = BleuTokenize::V13a, impl Into<BleuTokenize> => Into::into;
        /// What stands for a precision of 0. The default is `exp`.
        smooth_method: BleuSmoothing = BleuSmoothing::Exp;
        /// Whether all texts are made lower case. The default is `false`.
        lowercase: bool = false;
        /// The longest n-grams. The default is 4.
        max_ngram_order: usize = 4;
        /// Whether orders of which the hypothesis has no n-gram are left out. Unless set, true for sentences and false
        /// for a corpus.
        effective_order: Option<bool> = None, bool => Some;
    }
}

/// A BLEU score and what it is made of. It prints as sacrebleu's does.
///
/// ```
/// use torsh_text::metrics::sentence_bleu;
/// let bleu = sentence_bleu("a b", &["a b c d"])?;
/// assert_eq!((bleu.hypothesis_length, bleu.reference_length), (2, 4));
/// assert!((bleu.brevity_penalty - (-1f64).exp()).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BleuScore {
    /// 0 to 100.
    pub score: f64,
    /// The precision of each order in per cent, smoothed.
    pub precisions: Vec<f64>,
    /// How many n-grams of each order a reference has too.
    pub counts: Vec<u64>,
    /// How many n-grams of each order there are.
    pub totals: Vec<u64>,
    /// The factor for hypotheses that are too short.
    pub brevity_penalty: f64,
    /// Words of the hypotheses.
    pub hypothesis_length: u64,
    /// Words of the references, of several the nearest in length.
    pub reference_length: u64,
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precisions: Vec<_> = self.precisions.iter().map(|p| format!("{p:.1}")).collect();
        let ratio = match self.reference_length {
            0 => 0.0,
            n => self.hypothesis_length as f64 / n as f64,
        };
        write!(
            f,
            "BLEU = {:.2} {} (BP = {:.3} ratio = {ratio:.3} hyp_len = {} ref_len = {})",
            self.score,
            precisions.join("/"),
            self.brevity_penalty,
            self.hypothesis_length,
            self.reference_length
        )
    }
}

/// BLEU of a corpus (Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", 2002), as
/// sacrebleu computes it (Post, "A Call for Clarity in Reporting BLEU Scores", 2018).
///
/// `references` are lists, of which each has one reference for every hypothesis.
///
/// # Errors
/// No hypotheses, no references, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::corpus_bleu;
/// let hypotheses = ["the cat sat on the mat.", "there is a dog in the park"];
/// let first = ["the cat is on the mat.", "a dog is in the park today"];
/// let second = ["there is a cat on the mat.", "in the park there is a dog"];
/// let bleu = corpus_bleu(&hypotheses, &[first, second])?;
/// assert_eq!(bleu.to_string(), "BLEU = 54.32 92.9/75.0/50.0/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn corpus_bleu<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
) -> Result<BleuScore> {
    corpus_bleu_with(hypotheses, references, BleuOptions::default())
}

/// [`corpus_bleu`] with options.
///
/// ```
/// use torsh_text::metrics::{BleuOptions, BleuTokenize, corpus_bleu_with};
/// let options = BleuOptions::new().tokenize(BleuTokenize::Char);
/// let bleu = corpus_bleu_with(&["abcde"], &[["abcdf"]], options)?;
/// assert_eq!(bleu.counts, [4, 3, 2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn corpus_bleu_with<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
    options: BleuOptions,
) -> Result<BleuScore> {
    let references = transpose("corpus_bleu", hypotheses.len(), references)?;
    same_length("corpus_bleu", hypotheses.len(), references.len())?;
    let mut all = Statistics::new(&options)?;
    for (hypothesis, references) in hypotheses.iter().zip(&references) {
        all.add(hypothesis.as_ref(), references, &options)?;
    }
    Ok(all.score(&options, options.effective_order.unwrap_or(false)))
}

/// BLEU of one sentence, of which there may be several references. Orders of which it has no n-gram are left out.
///
/// # Errors
/// No references.
///
/// ```
/// use torsh_text::metrics::sentence_bleu;
/// let bleu = sentence_bleu("the cat sat on the mat", &["the cat is on the mat"])?;
/// assert!((bleu.score - 37.99178428257963).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sentence_bleu<R: AsRef<str>>(hypothesis: &str, references: &[R]) -> Result<BleuScore> {
    sentence_bleu_with(hypothesis, references, BleuOptions::default())
}

/// [`sentence_bleu`] with options.
///
/// ```
/// use torsh_text::metrics::{BleuOptions, BleuSmoothing, sentence_bleu_with};
/// let options = BleuOptions::new().smooth_method(BleuSmoothing::None);
/// assert_eq!(sentence_bleu_with("a b c d", &["a c b d"], options)?.score, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sentence_bleu_with<R: AsRef<str>>(
    hypothesis: &str,
    references: &[R],
    options: BleuOptions,
) -> Result<BleuScore> {
    let references = of_one("sentence_bleu", references)?;
    let mut all = Statistics::new(&options)?;
    all.add(hypothesis, &references, &options)?;
    Ok(all.score(&options, options.effective_order.unwrap_or(true)))
}

/// What sentences add up to.
struct Statistics {
    counts: Vec<u64>,
    totals: Vec<u64>,
    hypothesis_length: u64,
    reference_length: u64,
}

/// How often each n-gram of up to `order` words occurs.
fn ngrams<'a>(words: &'a [&'a str], order: usize) -> HashMap<&'a [&'a str], u64> {
    let mut counts = HashMap::new();
    for n in 1..=order {
        for gram in words.windows(n) {
            *counts.entry(gram).or_insert(0) += 1;
        }
    }
    counts
}

impl Statistics {
    #[track_caller]
    fn new(options: &BleuOptions) -> Result<Statistics> {
        let order = options.max_ngram_order;
        if order == 0 {
            return Err(TorshError::invalid(
                "bleu",
                "max_ngram_order must be at least 1",
            ));
        }
        Ok(Statistics {
            counts: vec![0; order],
            totals: vec![0; order],
            hypothesis_length: 0,
            reference_length: 0,
        })
    }

    fn add(&mut self, hypothesis: &str, references: &[&str], options: &BleuOptions) -> Result<()> {
        let order = options.max_ngram_order;
        let hypothesis = tokenized(hypothesis, options)?;
        let hypothesis = words(&hypothesis);
        let length = hypothesis.len();
        let texts: Vec<String> = references
            .iter()
            .map(|r| tokenized(r, options))
            .collect::<Result<_>>()?;
        let lists: Vec<Vec<&str>> = texts.iter().map(|t| words(t)).collect();
        let mut allowed: HashMap<&[&str], u64> = HashMap::new();
        for list in &lists {
            for (gram, count) in ngrams(list, order) {
                let most = allowed.entry(gram).or_insert(0);
                *most = count.max(*most);
            }
        }
        for (gram, count) in ngrams(&hypothesis, order) {
            let at = gram.len() - 1;
            self.totals[at] += count;
            self.counts[at] += count.min(allowed.get(gram).copied().unwrap_or(0));
        }
        let nearest = lists.iter().map(Vec::len);
        let nearest = nearest
            .min_by_key(|&n| (n.abs_diff(length), n))
            .unwrap_or(0);
        self.hypothesis_length += length as u64;
        self.reference_length += nearest as u64;
        Ok(())
    }

    fn score(self, options: &BleuOptions, effective_order: bool) -> BleuScore {
        let (length, wanted) = (self.hypothesis_length as f64, self.reference_length as f64);
        let brevity_penalty = match () {
            () if length >= wanted => 1.0,
            () if length > 0.0 => (1.0 - wanted / length).exp(),
            () => 0.0,
        };
        let mut precisions = vec![0.0; self.counts.len()];
        let mut score = 0.0;
        if self.counts.iter().any(|&c| c > 0) {
            let mut orders = precisions.len();
            let mut halves = 1.0;
            for (n, precision) in precisions.iter_mut().enumerate() {
                let (mut count, mut total) = (self.counts[n] as f64, self.totals[n] as f64);
                if let BleuSmoothing::AddK(k) = options.smooth_method
                    && n > 0
                {
                    count += k;
                    total += k;
                }
                if total == 0.0 {
                    break;
                }
                if effective_order {
                    orders = n + 1;
                }
                *precision = match options.smooth_method {
                    _ if count != 0.0 => 100.0 * count / total,
                    BleuSmoothing::Exp => {
                        halves *= 2.0;
                        100.0 / (halves * total)
                    }
                    BleuSmoothing::Floor(floor) => 100.0 * floor / total,
                    BleuSmoothing::None | BleuSmoothing::AddK(_) => 0.0,
                };
            }
            let logs: f64 = precisions[..orders].iter().map(|p| p.ln()).sum();
            score = brevity_penalty * (logs / orders as f64).exp();
        }
        BleuScore {
            score,
            precisions,
            counts: self.counts,
            totals: self.totals,
            brevity_penalty,
            hypothesis_length: self.hypothesis_length,
            reference_length: self.reference_length,
        }
    }
}

/// A text with spaces between its words.
fn tokenized(text: &str, options: &BleuOptions) -> Result<String> {
    let text = text.trim_end_matches(is_space);
    let lower = options.lowercase.then(|| text.to_lowercase());
    let text = lower.as_deref().unwrap_or(text);
    Ok(match options.tokenize.known()? {
        BleuTokenize::None | BleuTokenize::Unknown(_) => text.to_string(),
        BleuTokenize::V13a => v13a(text),
        BleuTokenize::Intl => international(text)?,
        BleuTokenize::Char => part_characters(text, |_| true),
    })
}

fn v13a(text: &str) -> String {
    let text = text
        .replace("<skipped>", "")
        .replace("-\n", "")
        .replace('\n', " ");
    let text = text
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    part_numbers(&part_characters(&format!(" {text} "), is_symbol_of_13a))
}

/// The general categories of Unicode.
struct Categories {
    punctuation: Regex,
    number: Regex,
    symbol: Regex,
}

fn international(text: &str) -> Result<String> {
    static CATEGORIES: LazyLock<std::result::Result<Categories, String>> = LazyLock::new(|| {
        let category = |name| Regex::new(name).map_err(|e| e.to_string());
        Ok(Categories {
            punctuation: category(r"^\p{P}")?,
            number: category(r"^\p{N}")?,
            symbol: category(r"^\p{S}")?,
        })
    });
    let all = CATEGORIES.as_ref();
    let all = all.map_err(|e| TorshError::invalid("bleu", e.clone()))?;
    let is = |category: &Regex, c: char| {
        let found = category.is_match(c.encode_utf8(&mut [0; 4]));
        found.unwrap_or(false)
    };
    let punctuation = |c| is(&all.punctuation, c);
    let other = |c| !is(&all.number, c);
    let text = part_pairs(text, other, punctuation, false, true);
    let text = part_pairs(&text, punctuation, other, true, false);
    Ok(part_characters(&text, |c| is(&all.symbol, c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str, tokenize: BleuTokenize) -> String {
        let text = tokenized(text, &BleuOptions::new().tokenize(tokenize)).unwrap();
        words(&text).join(" ")
    }

    #[test]
    fn tokenizations_may_be_words() {
        let of = |word: &str| tokenized("a, b", &BleuOptions::new().tokenize(word));
        assert_eq!(of("13a").unwrap(), v13a("a, b"));
        assert_eq!(of("char").unwrap(), part_characters("a, b", |_| true));
        let e = of("zh").unwrap_err().to_string();
        assert!(
            e.contains("tokenize is \"none\", \"13a\", \"intl\" or \"char\""),
            "{e}"
        );
    }

    #[test]
    fn words_are_found_as_sacrebleu_finds_them() {
        for (text, expected) in [
            (
                "It costs $1,000.50, or 3-4 euros.",
                "It costs $ 1,000.50 , or 3 - 4 euros .",
            ),
            ("a&quot;b&amp;c <skipped>d-\ne", "a \" b & c de"),
            (".5 and 5.", ". 5 and 5 ."),
            ("isn't (well-known)", "isn't ( well-known )"),
        ] {
            assert_eq!(joined(text, BleuTokenize::V13a), expected);
        }
        let text = "Ein „Test“ – 3,14€ ist’s.";
        assert_eq!(
            joined(text, BleuTokenize::Intl),
            "Ein „ Test “ – 3,14 € ist ’ s ."
        );
        assert_eq!(joined("ab c", BleuTokenize::Char), "a b c");
        assert_eq!(joined(" a  b.", BleuTokenize::None), "a b.");
    }

    #[test]
    fn lists_must_fit() {
        let none: [[&str; 1]; 0] = [];
        assert!(corpus_bleu(&["a"], &none).is_err());
        assert!(corpus_bleu(&["a"], &[["a", "b"]]).is_err());
        let nothing: [&str; 0] = [];
        assert!(corpus_bleu(&nothing, &[nothing]).is_err());
        assert!(sentence_bleu("a", &nothing).is_err());
        let options = BleuOptions::new().max_ngram_order(0);
        assert!(sentence_bleu_with("a", &["a"], options).is_err());
    }
}
