//! Segments of texts, and what counts as white space between their words.

use torsh_tensor::{Result, TorshError};

/// White space as the tools that the metrics follow split at it.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The words between white space.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split(is_space).filter(|w| !w.is_empty()).collect()
}

/// Whether a character is ASCII punctuation.
pub(super) fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
}

/// One hypothesis for each reference, and at least one.
#[track_caller]
pub(super) fn same_length(op: &'static str, hypotheses: usize, references: usize) -> Result<()> {
    if hypotheses != references {
        return Err(TorshError::invalid(
            op,
            format!("{hypotheses} hypotheses for {references} references"),
        )
        .with_hint("give one reference for each hypothesis, in the same order"));
    }
    if hypotheses == 0 {
        return Err(TorshError::invalid(op, "there are no hypotheses"));
    }
    Ok(())
}

/// The references of each hypothesis, from lists of which each has one reference for every hypothesis.
#[track_caller]
pub(super) fn transpose<'a, R: AsRef<str> + 'a, S: AsRef<[R]>>(
    op: &'static str,
    hypotheses: usize,
    references: &'a [S],
) -> Result<Vec<Vec<&'a str>>> {
    if references.is_empty() {
        return Err(TorshError::invalid(op, "there are no references"));
    }
    let mut each = vec![Vec::with_capacity(references.len()); hypotheses];
    for list in references {
        let list: &'a [R] = list.as_ref();
        same_length(op, hypotheses, list.len())?;
        for (all, reference) in each.iter_mut().zip(list) {
            all.push(reference.as_ref());
        }
    }
    Ok(each)
}

/// The references of one hypothesis, at least one.
#[track_caller]
pub(super) fn of_one<'a, R: AsRef<str>>(
    op: &'static str,
    references: &'a [R],
) -> Result<Vec<&'a str>> {
    if references.is_empty() {
        return Err(TorshError::invalid(op, "there are no references"));
    }
    Ok(references.iter().map(|r| r.as_ref()).collect())
}

/// Puts spaces around or between two neighbours, wherever `first` and `second` take them. A character belongs to one
/// pair at most.
pub(super) fn part_pairs(
    text: &str,
    first: impl Fn(char) -> bool,
    second: impl Fn(char) -> bool,
    before: bool,
    after: bool,
) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut chars = text.chars().peekable();
    while let Some(a) = chars.next() {
        let pair = match chars.peek() {
            Some(&b) if first(a) && second(b) => Some(b),
            _ => None,
        };
        let Some(b) = pair else {
            out.push(a);
            continue;
        };
        chars.next();
        if before {
            out.push(' ');
        }
        out.extend([a, ' ', b]);
        if after {
            out.push(' ');
        }
    }
    out
}

/// Puts spaces around characters.
pub(super) fn part_characters(text: &str, which: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    for c in text.chars() {
        match which(c) {
            true => out.extend([' ', c, ' ']),
            false => out.push(c),
        }
    }
    out
}

/// The symbols that `mteval-v13a.pl` parts from words.
pub(super) fn is_symbol_of_13a(c: char) -> bool {
    matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

/// Parts full stops, commas and dashes from words, but not those of numbers, as `mteval-v13a.pl` does.
pub(super) fn part_numbers(text: &str) -> String {
    let digit = |c: char| c.is_ascii_digit();
    let stop = |c: char| c == '.' || c == ',';
    let text = part_pairs(text, |c| !digit(c), stop, false, true);
    let text = part_pairs(&text, stop, |c| !digit(c), true, false);
    part_pairs(&text, digit, |c| c == '-', false, true)
}
