//! TER.

use std::collections::BTreeSet;

use torsh_tensor::{Result, options};

use super::segments::{
    is_space, is_symbol_of_13a, of_one, part_characters, part_numbers, same_length, transpose,
    words,
};

options! {
    /// Options of [`corpus_ter_with`] and [`sentence_ter_with`], with sacrebleu's defaults.
    ///
    /// ```
    /// use torsh_text::metrics::{TerOptions, sentence_ter, sentence_ter_with};
    /// assert_eq!(sentence_ter("a dog!", &["a dog"])?.score, 50.0);
    /// assert_eq!(sentence_ter_with("a dog!", &["a dog"], TerOptions::new().no_punct(true))?.score, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    TerOptions {
        /// Whether punctuation is parted from words. The default is `false`.
        normalized: bool = false;
        /// Whether punctuation is left out. The default is `false`.
        no_punct: bool = false;
        /// Whether capital letters differ from small ones. The default is `false`.
        case_sensitive: bool = false;
    }
}

/// A translation edit rate and what it is made of.
///
/// ```
/// use torsh_text::metrics::sentence_ter;
/// // One replacement and one insertion.
/// let ter = sentence_ter("a b c", &["a x c d"])?;
/// assert_eq!((ter.num_edits, ter.ref_length, ter.score), (2, 4.0, 50.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TerScore {
    /// Edits of 100 words of the references; 0 is best, and it can be above 100.
    pub score: f64,
    /// Insertions, deletions, replacements and shifts.
    pub num_edits: u64,
    /// Words of the references, the mean of several.
    pub ref_length: f64,
}

/// The translation edit rate of a corpus (Snover et al., "A Study of Translation Edit Rate with Targeted Human
/// Annotation", 2006): how many insertions, deletions, replacements and shifts of words make a reference of a
/// hypothesis, as sacrebleu and Tercom count them.
///
/// `references` are lists, of which each has one reference for every hypothesis; the nearest one of a hypothesis counts.
///
/// # Errors
/// No hypotheses, no references, and lists of different lengths.
///
/// ```
/// use torsh_text::metrics::corpus_ter;
/// let ter = corpus_ter(&["in the park there is a dog", "yes"], &[["there is a dog in the park", "no"]])?;
/// // One shift of three words, and one replacement.
/// assert_eq!((ter.num_edits, ter.ref_length, ter.score), (2, 8.0, 25.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn corpus_ter<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
) -> Result<TerScore> {
    corpus_ter_with(hypotheses, references, TerOptions::default())
}

/// [`corpus_ter`] with options.
///
/// ```
/// use torsh_text::metrics::{TerOptions, corpus_ter_with};
/// let options = TerOptions::new().case_sensitive(true);
/// assert_eq!(corpus_ter_with(&["A dog"], &[["a dog"]], options)?.score, 50.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn corpus_ter_with<H: AsRef<str>, R: AsRef<str>, S: AsRef<[R]>>(
    hypotheses: &[H],
    references: &[S],
    options: TerOptions,
) -> Result<TerScore> {
    let references = transpose("corpus_ter", hypotheses.len(), references)?;
    same_length("corpus_ter", hypotheses.len(), references.len())?;
    let (mut edits, mut length) = (0, 0.0);
    for (hypothesis, references) in hypotheses.iter().zip(&references) {
        let (e, l) = nearest(hypothesis.as_ref(), references, &options);
        edits += e;
        length += l;
    }
    Ok(score(edits, length))
}

/// The translation edit rate of one sentence; the nearest of its references counts.
///
/// # Errors
/// No references.
///
/// ```
/// use torsh_text::metrics::sentence_ter;
/// assert_eq!(sentence_ter("a dog barks", &["the dog barks loudly"])?.score, 50.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn sentence_ter<R: AsRef<str>>(hypothesis: &str, references: &[R]) -> Result<TerScore> {
    sentence_ter_with(hypothesis, references, TerOptions::default())
}

/// [`sentence_ter`] with options.
///
/// ```
/// use torsh_text::metrics::{TerOptions, sentence_ter_with};
/// let options = TerOptions::new().no_punct(true);
/// assert_eq!(sentence_ter_with("yes!", &["yes."], options)?.score, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sentence_ter_with<R: AsRef<str>>(
    hypothesis: &str,
    references: &[R],
    options: TerOptions,
) -> Result<TerScore> {
    let references = of_one("sentence_ter", references)?;
    let (edits, length) = nearest(hypothesis, &references, &options);
    Ok(score(edits, length))
}

fn score(edits: u64, length: f64) -> TerScore {
    let rate = match () {
        () if length > 0.0 => edits as f64 / length,
        () if edits > 0 => 1.0,
        () => 0.0,
    };
    TerScore {
        score: 100.0 * rate,
        num_edits: edits,
        ref_length: length,
    }
}

/// A text with spaces between its words.
fn tokenized(text: &str, options: &TerOptions) -> String {
    let mut text = text.trim_end_matches(is_space).to_string();
    if !options.case_sensitive {
        text = text.to_lowercase();
    }
    if options.normalized {
        text = text.replace("\n-", "").replace('\n', " ");
        text = text
            .replace("&quot;", "\"")
            .replace("&amp;", "&")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        text = part_characters(&format!(" {text} "), is_symbol_of_13a).replace("'s ", " 's ");
        if let Some(start) = text.strip_suffix("'s") {
            text = format!("{start} 's");
        }
        text = part_numbers(&text);
    }
    if options.no_punct {
        text.retain(|c| !matches!(c, '.' | ',' | '?' | ':' | ';' | '!' | '"' | '(' | ')'));
    }
    text
}

/// The edits to the nearest reference, and the mean length of all.
fn nearest(hypothesis: &str, references: &[&str], options: &TerOptions) -> (u64, f64) {
    let hypothesis = tokenized(hypothesis, options);
    let hypothesis = words(&hypothesis);
    let (mut best, mut length) = (u64::MAX, 0);
    for reference in references {
        let reference = tokenized(reference, options);
        let reference = words(&reference);
        length += reference.len();
        best = best.min(edits(&hypothesis, &reference));
    }
    (best, length as f64 / references.len() as f64)
}

/// How far a shift may go, how long it may be, and how many are tried.
const MAX_SHIFT_DISTANCE: usize = 50;
const MAX_SHIFT_SIZE: usize = 10;
const MAX_CANDIDATES: usize = 1000;
/// How far from the diagonal the edit distance looks.
const BEAM_WIDTH: usize = 25;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Replace,
    /// A word of the hypothesis is dropped.
    Delete,
    /// A word of the reference is added.
    Insert,
    /// Outside of the beam.
    Unknown,
}

/// The edits that make `reference` of `hypothesis`, shifts included.
fn edits(hypothesis: &[&str], reference: &[&str]) -> u64 {
    if reference.is_empty() {
        return hypothesis.len() as u64;
    }
    // Words become their ranks: where two shifts are otherwise equal, the order of the words decides.
    let all: BTreeSet<&str> = hypothesis.iter().chain(reference).copied().collect();
    let all: Vec<&str> = all.into_iter().collect();
    let ranks = |words: &[&str]| -> Vec<u32> {
        let rank = |w: &&str| all.binary_search(w).unwrap_or(0) as u32;
        words.iter().map(rank).collect()
    };
    let (mut hypothesis, reference) = (ranks(hypothesis), ranks(reference));
    let mut table = Table::default();
    let (mut shifts, mut tried) = (0, 0);
    loop {
        let (gain, shifted) = best_shift(&hypothesis, &reference, &mut table, &mut tried);
        if tried >= MAX_CANDIDATES || gain <= 0 {
            break;
        }
        shifts += 1;
        hypothesis = shifted;
    }
    shifts + table.distance(&hypothesis, &reference)
}

/// A shift: what it gains, its length, and, negated, where from and where to; then the words after it.
type Candidate = (i64, usize, i64, i64, Vec<u32>);

fn best_shift(
    hypothesis: &[u32],
    reference: &[u32],
    table: &mut Table,
    tried: &mut usize,
) -> (i64, Vec<u32>) {
    let before = table.distance(hypothesis, reference) as i64;
    let Alignment {
        of_reference,
        wrong_hypothesis,
        wrong_reference,
    } = table.alignment(hypothesis.len(), reference.len());
    let mut best: Option<Candidate> = None;
    for (from, at, length) in equal_runs(hypothesis, reference) {
        let runs_right = !wrong_hypothesis[from..from + length].contains(&true)
            || !wrong_reference[at..at + length].contains(&true);
        let target = of_reference[at];
        if runs_right || (from as i64..(from + length) as i64).contains(&target) {
            continue;
        }
        let mut last = None;
        for place in at..=at + length {
            // Ahead of the first word, or behind the one that the reference's word before `place` is aligned with.
            let to = match place.checked_sub(1) {
                None => 0,
                Some(p) => (of_reference[p] + 1) as usize,
            };
            if last == Some(to) {
                continue;
            }
            last = Some(to);
            let shifted = shift(hypothesis, from, length, to);
            let gain = before - table.distance(&shifted, reference) as i64;
            let candidate = (gain, length, -(from as i64), -(to as i64), shifted);
            *tried += 1;
            if best.as_ref().is_none_or(|b| candidate > *b) {
                best = Some(candidate);
            }
        }
        if *tried >= MAX_CANDIDATES {
            break;
        }
    }
    match best {
        Some((gain, .., shifted)) => (gain, shifted),
        None => (0, hypothesis.to_vec()),
    }
}

/// Runs of equal words: where they begin in the hypothesis and in the reference, and their lengths.
fn equal_runs(hypothesis: &[u32], reference: &[u32]) -> Vec<(usize, usize, usize)> {
    let mut runs = Vec::new();
    for from in 0..hypothesis.len() {
        for at in 0..reference.len() {
            if from.abs_diff(at) > MAX_SHIFT_DISTANCE {
                continue;
            }
            let pairs = hypothesis[from..].iter().zip(&reference[at..]);
            let equal = pairs.take(MAX_SHIFT_SIZE).take_while(|(a, b)| a == b);
            runs.extend((1..=equal.count()).map(|length| (from, at, length)));
        }
    }
    runs
}

/// The words with `length` of them moved to `to`.
fn shift(words: &[u32], from: usize, length: usize, to: usize) -> Vec<u32> {
    let part = |start: usize, end: usize| {
        let end = end.min(words.len());
        &words[start.min(end)..end]
    };
    let (moved, end) = (part(from, from + length), words.len());
    if to < from {
        [part(0, to), moved, part(to, from), part(from + length, end)].concat()
    } else if to > from + length {
        [part(0, from), part(from + length, to), moved, part(to, end)].concat()
    } else {
        // Inside of the run: it moves on by as many words.
        let behind = part(from + length, length + to);
        [part(0, from), behind, moved, part(length + to, end)].concat()
    }
}

/// What the reference's words are aligned with, and which words of both are wrong.
struct Alignment {
    /// The word of the hypothesis, or the last one before; -1 ahead of the first.
    of_reference: Vec<i64>,
    wrong_hypothesis: Vec<bool>,
    wrong_reference: Vec<bool>,
}

/// Costs and edits of each prefix of a hypothesis to each prefix of the reference.
#[derive(Default)]
struct Table {
    cells: Vec<(u32, Edit)>,
    width: usize,
}

impl Table {
    fn distance(&mut self, hypothesis: &[u32], reference: &[u32]) -> u64 {
        const FAR: u32 = u32::MAX / 2;
        let (rows, width) = (hypothesis.len(), reference.len() + 1);
        self.width = width;
        self.cells.clear();
        self.cells.resize((rows + 1) * width, (FAR, Edit::Unknown));
        for (j, cell) in self.cells[..width].iter_mut().enumerate() {
            *cell = (j as u32, Edit::Insert);
        }
        let ratio = match rows {
            0 => 1.0,
            n => reference.len() as f64 / n as f64,
        };
        let beam = match (BEAM_WIDTH as f64) < ratio / 2.0 {
            true => (ratio / 2.0 + BEAM_WIDTH as f64).ceil() as usize,
            false => BEAM_WIDTH,
        };
        for i in 1..=rows {
            let diagonal = (i as f64 * ratio).floor() as usize;
            let from = diagonal.saturating_sub(beam);
            let to = match i == rows {
                true => width,
                false => width.min(diagonal + beam),
            };
            for j in from..to {
                let at = i * width + j;
                let (above, _) = self.cells[at - width];
                if j == 0 {
                    self.cells[at] = (above + 1, Edit::Delete);
                    continue;
                }
                let (cost, edit) = match hypothesis[i - 1] == reference[j - 1] {
                    true => (0, Edit::Keep),
                    false => (1, Edit::Replace),
                };
                let mut best = (FAR, Edit::Unknown);
                for (cost, edit) in [
                    (self.cells[at - width - 1].0 + cost, edit),
                    (above + 1, Edit::Delete),
                    (self.cells[at - 1].0 + 1, Edit::Insert),
                ] {
                    if best.0 > cost {
                        best = (cost, edit);
                    }
                }
                self.cells[at] = best;
            }
        }
        self.cells.last().map_or(0, |&(cost, _)| u64::from(cost))
    }

    /// The alignment behind the last distance.
    fn alignment(&self, hypothesis: usize, reference: usize) -> Alignment {
        let mut out = Alignment {
            of_reference: vec![-1; reference],
            wrong_hypothesis: vec![false; hypothesis],
            wrong_reference: vec![false; reference],
        };
        let (mut i, mut j) = (hypothesis, reference);
        while i > 0 || j > 0 {
            let edit = match self.cells[i * self.width + j].1 {
                Edit::Unknown if i > 0 => Edit::Delete,
                Edit::Unknown => Edit::Insert,
                edit => edit,
            };
            match edit {
                Edit::Keep | Edit::Replace => {
                    (i, j) = (i - 1, j - 1);
                    out.of_reference[j] = i as i64;
                    out.wrong_hypothesis[i] = edit == Edit::Replace;
                    out.wrong_reference[j] = edit == Edit::Replace;
                }
                Edit::Insert => {
                    j -= 1;
                    out.of_reference[j] = i as i64 - 1;
                    out.wrong_reference[j] = true;
                }
                Edit::Delete | Edit::Unknown => {
                    i -= 1;
                    out.wrong_hypothesis[i] = true;
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_move_as_in_tercom() {
        let words = [0, 1, 2, 3, 4, 5];
        assert_eq!(shift(&words, 3, 2, 1), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shift(&words, 0, 2, 4), [2, 3, 0, 1, 4, 5]);
        assert_eq!(shift(&words, 1, 2, 2), [0, 3, 1, 2, 4, 5]);
        assert_eq!(shift(&words, 4, 2, 6), words);
    }

    #[test]
    fn empty_texts_have_a_rate() -> Result<()> {
        assert_eq!(sentence_ter("", &[""])?.score, 0.0);
        assert_eq!(sentence_ter("a b", &[""])?.score, 100.0);
        assert_eq!(sentence_ter("", &["a b"])?.score, 100.0);
        Ok(())
    }
}
