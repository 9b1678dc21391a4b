//! Exact match and F1 of answers.

use std::collections::HashMap;

use torsh_tensor::{Result, TorshError};

use super::segments::{is_punctuation, of_one, same_length, words};

/// An answer as SQuAD's script compares it: in lower case, without ASCII punctuation, without `a`, `an` and `the`, with
/// one space between words.
///
/// ```
/// use torsh_text::metrics::squad_normalize;
/// assert_eq!(squad_normalize("The  U.S. Army!"), "us army");
/// ```
pub fn squad_normalize(answer: &str) -> String {
    let text = answer.to_lowercase().replace(is_punctuation, "");
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c| inside(c) != inside(first))
            .unwrap_or(rest.len());
        let (run, more) = rest.split_at(end);
        out.push_str(match run {
            "a" | "an" | "the" => " ",
            run => run,
        });
        rest = more;
    }
    words(&out).join(" ")
}

/// Whether a prediction is one of the answers, after [`squad_normalize`].
///
/// # Errors
/// No answers.
///
/// ```
/// use torsh_text::metrics::squad_exact_match;
/// assert!(squad_exact_match("the Eiffel tower", &["Eiffel Tower.", "Tour Eiffel"])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn squad_exact_match<A: AsRef<str>>(prediction: &str, answers: &[A]) -> Result<bool> {
    let prediction = squad_normalize(prediction);
    let answers = of_one("squad", answers)?;
    Ok(answers.iter().any(|a| squad_normalize(a) == prediction))
}

/// The F1 score of a prediction's words, 0 to 1; the best of the answers counts. An empty answer, of a question that has
/// none, is only equal to an empty prediction.
///
/// # Errors
/// No answers.
///
/// ```
/// use torsh_text::metrics::squad_f1;
/// assert_eq!(squad_f1("in Paris, France", &["Paris"])?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn squad_f1<A: AsRef<str>>(prediction: &str, answers: &[A]) -> Result<f64> {
    let answers = of_one("squad", answers)?;
    let prediction = squad_normalize(prediction);
    let f1 = answers
        .iter()
        .map(|a| f1(&words(&prediction), &words(&squad_normalize(a))));
    Ok(f1.fold(0.0, f64::max))
}

fn f1(prediction: &[&str], answer: &[&str]) -> f64 {
    if prediction.is_empty() || answer.is_empty() {
        return f64::from(u8::from(prediction == answer));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in answer {
        *left.entry(word).or_insert(0) += 1;
    }
    let mut both = 0;
    for word in prediction {
        if let Some(n) = left.get_mut(word)
            && *n > 0
        {
            *n -= 1;
            both += 1;
        }
    }
    if both == 0 {
        return 0.0;
    }
    let precision = f64::from(both) / prediction.len() as f64;
    let recall = f64::from(both) / answer.len() as f64;
    2.0 * precision * recall / (precision + recall)
}

/// The scores of a data set, in per cent.
///
/// ```
/// use torsh_text::metrics::squad;
/// // One of the two words of the answer.
/// let scores = squad(&["Paris"], &[["in Paris"]])?;
/// assert_eq!(scores.exact_match, 0.0);
/// assert!((scores.f1 - 200.0 / 3.0).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SquadScores {
    /// How many predictions are one of the answers.
    pub exact_match: f64,
    /// The mean F1 score.
    pub f1: f64,
}

/// Exact match and F1 of a data set (Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
/// 2016), as its script computes them. Each prediction has a list of answers; questions without answer have one empty
/// text, as in version 2.
///
/// # Errors
/// No predictions, another number of lists, and an empty list.
///
/// ```
/// use torsh_text::metrics::squad;
/// let scores = squad(&["Denver Broncos", "1976"], &[vec!["the Denver Broncos"], vec!["1975", "1976 and 1977"]])?;
/// assert_eq!((scores.exact_match, scores.f1), (50.0, 75.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn squad<P: AsRef<str>, A: AsRef<str>, L: AsRef<[A]>>(
    predictions: &[P],
    answers: &[L],
) -> Result<SquadScores> {
    same_length("squad", predictions.len(), answers.len())?;
    let (mut exact, mut f1) = (0.0, 0.0);
    for (at, (prediction, answers)) in predictions.iter().zip(answers).enumerate() {
        let (prediction, answers) = (prediction.as_ref(), answers.as_ref());
        if answers.is_empty() {
            return Err(
                TorshError::invalid("squad", format!("question {at} has no answers"))
                    .with_hint("a question without answer has one empty text"),
            );
        }
        exact += f64::from(u8::from(squad_exact_match(prediction, answers)?));
        f1 += squad_f1(prediction, answers)?;
    }
    let n = predictions.len() as f64;
    Ok(SquadScores {
        exact_match: 100.0 * exact / n,
        f1: 100.0 * f1 / n,
    })
}
