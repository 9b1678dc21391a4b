//! torchtext's small functions: words of a text, n-grams, lists of numbers as a tensor.

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

/// Cuts texts into words (what `torchtext.data.utils.get_tokenizer` returns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WordTokenizer {
    /// `basic_english`: lower case, punctuation as words of its own or removed.
    BasicEnglish,
    /// The words between spaces.
    Split,
}

/// The tokenizer of a name (`torchtext.data.utils.get_tokenizer`): `basic_english`, or `split` for the words between
/// spaces, which is Python's `None`.
///
/// # Errors
/// Another name.
///
/// ```
/// use torsh_text::tokenizers::get_tokenizer;
/// let tokenizer = get_tokenizer("basic_english")?;
/// assert_eq!(tokenizer.tokenize("You can now install TorchText (0.9)!"),
///     ["you", "can", "now", "install", "torchtext", "(", "0", ".", "9", ")", "!"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn get_tokenizer(name: &str) -> Result<WordTokenizer> {
    match name {
        "basic_english" => Ok(WordTokenizer::BasicEnglish),
        "split" => Ok(WordTokenizer::Split),
        _ => Err(TorshError::invalid(
            "get_tokenizer",
            format!("there is no tokenizer {name:?}: basic_english and split are there"),
        )
        .with_hint("Tokenizer::from_pretrained(..) reads those of models")),
    }
}

impl WordTokenizer {
    /// Gives the words of a text.
    ///
    /// ```
    /// use torsh_text::tokenizers::WordTokenizer;
    /// assert_eq!(WordTokenizer::Split.tokenize("It's  OK."), ["It's", "OK."]);
    /// assert_eq!(WordTokenizer::BasicEnglish.tokenize("It's  OK."), ["it", "'", "s", "ok", "."]);
    /// ```
    pub fn tokenize(&self, text: &str) -> Vec<String> {
        match self {
            WordTokenizer::Split => text.split_whitespace().map(str::to_string).collect(),
            WordTokenizer::BasicEnglish => basic_english(text),
        }
    }
}

/// Steps of torchtext, in its order: quotation marks go, `'`, `.`, `,`, parentheses, `!` and `?` become words, breaks,
/// semicolons and colons become spaces.
fn basic_english(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace("<br />", " ");
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\'' | '.' | ',' | '(' | ')' | '!' | '?' => {
                out.push(' ');
                out.push(c);
                out.push(' ');
            }
            '"' => {}
            ';' | ':' => out.push(' '),
            c => out.push(c),
        }
    }
    out.split_whitespace().map(str::to_string).collect()
}

/// The tokens, then all runs of 2 to `n` of them, joined by spaces (`torchtext.data.utils.ngrams_iterator`).
///
/// ```
/// use torsh_text::tokenizers::ngrams_iterator;
/// let ngrams: Vec<String> = ngrams_iterator(&["here", "we", "are"], 2).collect();
/// assert_eq!(ngrams, ["here", "we", "are", "here we", "we are"]);
/// ```
pub fn ngrams_iterator<'a, S: AsRef<str>>(
    tokens: &'a [S],
    n: usize,
) -> impl Iterator<Item = String> + use<'a, S> {
    (1..=n.max(1)).flat_map(move |size| {
        tokens.windows(size).map(|window| {
            let window: Vec<&str> = window.iter().map(S::as_ref).collect();
            window.join(" ")
        })
    })
}

/// Lists of numbers as an int64 tensor `[lists, longest]` (`torchtext.functional.to_tensor`). `padding_value` fills
/// short lists.
///
/// # Errors
/// Lists of different lengths without a padding value.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::tokenizers::to_tensor;
/// assert_eq!(to_tensor(&[vec![4, 2], vec![7]], Some(0))?, tensor![[4, 2], [7, 0]]);
/// assert!(to_tensor(&[vec![4, 2], vec![7]], None).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn to_tensor<L: AsRef<[i64]>>(lists: &[L], padding_value: Option<i64>) -> Result<Tensor> {
    let longest = lists.iter().map(|l| l.as_ref().len()).max().unwrap_or(0);
    let mut all = Vec::with_capacity(lists.len() * longest);
    for (i, list) in lists.iter().enumerate() {
        let list = list.as_ref();
        all.extend_from_slice(list);
        let more = longest - list.len();
        match padding_value {
            Some(value) => all.extend(std::iter::repeat_n(value, more)),
            None if more == 0 => {}
            None => {
                return Err(TorshError::shape(
                    "to_tensor",
                    format!(
                        "list {i} has {} numbers, and another has {longest}",
                        list.len()
                    ),
                )
                .with_hint("pass a padding value"));
            }
        }
    }
    Tensor::from_slice(&all, [lists.len(), longest], DType::I64, Device::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_english_separates_punctuation() {
        let words = basic_english("Don't say \"Hi\"; it's (very) odd:<br />why?");
        assert_eq!(
            words,
            [
                "don", "'", "t", "say", "hi", "it", "'", "s", "(", "very", ")", "odd", "why", "?"
            ]
        );
    }

    #[test]
    fn ngrams_end_with_the_tokens() {
        let tokens = ["a", "b", "c"];
        let all: Vec<_> = ngrams_iterator(&tokens, 3).collect();
        assert_eq!(all, ["a", "b", "c", "a b", "b c", "a b c"]);
        assert_eq!(ngrams_iterator(&tokens, 9).count(), 6);
        assert_eq!(ngrams_iterator::<&str>(&[], 2).count(), 0);
    }
}
