//! METEOR.

use std::collections::HashMap;

use torsh_tensor::{Result, options};

use super::porter::porter_stem;
use super::segments::{of_one, words};

options! {
    /// Options of [`meteor_with`], with NLTK's defaults.
    ///
    /// ```
    /// use torsh_text::metrics::{MeteorOptions, meteor_with};
    /// // With the default, 0.5, a text of one word loses half of its score.
    /// let score = meteor_with("dog", &["dog"], MeteorOptions::new().gamma(0.0))?;
    /// assert!((score - 1.0).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MeteorOptions {
        /// Whether words that differ are compared by their stems. The default is `true`.
        stem: bool = true;
        /// How much recall counts against precision. The default is 0.9.
        alpha: f64 = 0.9;
        /// The power of the share of chunks in the penalty. The default is 3.
        beta: f64 = 3.0;
        /// The largest penalty. The default is 0.5.
        gamma: f64 = 0.5;
    }
}

/// METEOR of a sentence, 0 to 1 (Lavie and Agarwal, "METEOR: An Automatic Metric for MT Evaluation with High Levels of
/// Correlation with Human Judgments", 2007), as NLTK computes it, but without WordNet's synonyms: words match where they
/// are equal in lower case, or have one stem. Words are what stands between white space. The best reference counts.
///
/// # Errors
/// No references.
///
/// ```
/// use torsh_text::metrics::meteor;
/// let hypothesis = "It is a guide to action which ensures that the military always obeys the commands of the party";
/// let reference = "It is a guide to action that ensures that the military will forever heed Party commands";
/// assert!((meteor(hypothesis, &[reference])? - 0.6944444444444445).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn meteor<R: AsRef<str>>(hypothesis: &str, references: &[R]) -> Result<f64> {
    meteor_with(hypothesis, references, MeteorOptions::default())
}

/// [`meteor`] with options.
///
/// ```
/// use torsh_text::metrics::{MeteorOptions, meteor, meteor_with};
/// assert_eq!(meteor("dogs", &["dog"])?, 0.5);
/// assert_eq!(meteor_with("dogs", &["dog"], MeteorOptions::new().stem(false))?, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn meteor_with<R: AsRef<str>>(
    hypothesis: &str,
    references: &[R],
    options: MeteorOptions,
) -> Result<f64> {
    let references = of_one("meteor", references)?;
    let lower =
        |text: &str| -> Vec<String> { words(text).into_iter().map(str::to_lowercase).collect() };
    let hypothesis = lower(hypothesis);
    let scores = references
        .iter()
        .map(|r| score(&hypothesis, &lower(r), &options));
    Ok(scores.fold(0.0, f64::max))
}

fn score(hypothesis: &[String], reference: &[String], options: &MeteorOptions) -> f64 {
    let mut matches: Vec<Option<usize>> = vec![None; hypothesis.len()];
    let mut taken = vec![false; reference.len()];
    align(hypothesis, reference, &mut matches, &mut taken);
    if options.stem {
        let stems =
            |words: &[String]| -> Vec<String> { words.iter().map(|w| porter_stem(w)).collect() };
        align(
            &stems(hypothesis),
            &stems(reference),
            &mut matches,
            &mut taken,
        );
    }
    let count = matches.iter().flatten().count();
    if count == 0 {
        return 0.0;
    }
    // A chunk is a run of words that are neighbours in both texts.
    let mut chunks = 0;
    let mut before: Option<(usize, usize)> = None;
    for (i, j) in matches
        .iter()
        .enumerate()
        .filter_map(|(i, j)| Some((i, (*j)?)))
    {
        if before != Some((i.wrapping_sub(1), j.wrapping_sub(1))) {
            chunks += 1;
        }
        before = Some((i, j));
    }
    let precision = count as f64 / hypothesis.len() as f64;
    let recall = count as f64 / reference.len() as f64;
    let mean = precision * recall / (options.alpha * precision + (1.0 - options.alpha) * recall);
    let penalty = options.gamma * (f64::from(chunks) / count as f64).powf(options.beta);
    (1.0 - penalty) * mean
}

/// Gives each word without match, from the last one on, the last equal word of the reference that has none.
fn align(
    hypothesis: &[String],
    reference: &[String],
    matches: &mut [Option<usize>],
    taken: &mut [bool],
) {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, word) in reference.iter().enumerate().filter(|(j, _)| !taken[*j]) {
        places.entry(word).or_default().push(j);
    }
    for (i, word) in hypothesis.iter().enumerate().rev() {
        if matches[i].is_none()
            && let Some(j) = places.get_mut(word.as_str()).and_then(Vec::pop)
        {
            matches[i] = Some(j);
            taken[j] = true;
        }
    }
}
