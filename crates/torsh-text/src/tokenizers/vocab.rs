//! torchtext's vocabulary.

use std::collections::HashMap;

use torsh_tensor::{Result, TorshError, options};

/// Tokens and their numbers (`torchtext.vocab.Vocab`).
///
/// ```
/// use torsh_text::tokenizers::{VocabOptions, build_vocab_from_iterator};
///
/// let texts = [vec!["a", "b", "a"], vec!["c", "a", "b"]];
/// let options = VocabOptions::new().specials(&["<unk>"]).min_freq(2);
/// let mut vocab = build_vocab_from_iterator(texts, &options)?;
/// vocab.set_default_index(vocab.index("<unk>")?);
///
/// assert_eq!(vocab.get_itos(), ["<unk>", "a", "b"]);
/// assert_eq!(vocab.lookup_indices(&["b", "c"])?, [2, 0]);
/// assert_eq!(vocab.lookup_tokens(&[1, 0])?, ["a", "<unk>"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocab {
    tokens: Vec<String>,
    indices: HashMap<String, usize>,
    default_index: Option<usize>,
}

options! {
    /// The keyword arguments of [`build_vocab_from_iterator`] and [`vocab`].
    ///
    /// ```
    /// use torsh_text::tokenizers::VocabOptions;
    /// let options = VocabOptions::new().specials(&["<unk>", "<pad>"]).min_freq(2);
    /// assert_eq!((options.specials.len(), options.min_freq, options.max_tokens), (2, 2, None));
    /// ```
    VocabOptions {
        /// How often a token must occur (1).
        min_freq: usize = 1;
        /// Tokens that are in the vocabulary in any case (none).
        specials: Vec<String> = Vec::new(), &[&str] => |v: &[&str]| v.iter().map(|t| t.to_string()).collect();
        /// Whether they come first (true), not last.
        special_first: bool = true;
        /// The most tokens, special ones included (all).
        max_tokens: Option<usize> = None, usize => Some;
    }
}

impl Vocab {
    /// A vocabulary of these tokens, which have the numbers from 0 on.
    ///
    /// # Errors
    /// A token that is there twice.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!((vocab.len(), vocab.index("b")?), (2, 1));
    /// assert!(Vocab::new(["a", "a"]).is_err_and(|e| e.to_string().contains("\"a\" is there already, as number 0")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new<S: Into<String>>(tokens: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut vocab = Vocab::default();
        for token in tokens {
            vocab.append_token(token)?;
        }
        Ok(vocab)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether a token is there (`token in vocab`).
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let mut vocab = Vocab::new(["a", "b"])?;
    /// vocab.set_default_index(0);
    /// // The default number makes no token of the vocabulary.
    /// assert!(vocab.contains("b") && !vocab.contains("c"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn contains(&self, token: &str) -> bool {
        self.indices.contains_key(token)
    }

    /// Gives the number of a token, or the default one (`vocab[token]`).
    ///
    /// # Errors
    /// A token that is not there, and no default.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!(vocab.index("b")?, 1);
    /// assert!(vocab.index("c").is_err_and(|e| e.to_string().contains("\"c\" is not among the 2 tokens")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index(&self, token: &str) -> Result<usize> {
        let index = self.indices.get(token).copied().or(self.default_index);
        index.ok_or_else(|| {
            TorshError::index(
                "Vocab",
                format!("{token:?} is not among the {} tokens", self.len()),
            )
            .with_hint("set_default_index(..) sets the number of all other tokens")
        })
    }

    /// Gives the numbers of tokens (`vocab(tokens)`).
    ///
    /// # Errors
    /// As [`Vocab::index`].
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!(vocab.lookup_indices(&["b", "a", "b"])?, [1, 0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn lookup_indices<S: AsRef<str>>(&self, tokens: &[S]) -> Result<Vec<usize>> {
        tokens.iter().map(|t| self.index(t.as_ref())).collect()
    }

    /// Gives the token of a number.
    ///
    /// # Errors
    /// A number that no token has.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!(vocab.lookup_token(1)?, "b");
    /// assert!(vocab.lookup_token(2).is_err_and(|e| e.to_string().contains("no token has the number 2")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn lookup_token(&self, index: usize) -> Result<&str> {
        self.tokens.get(index).map(|t| &**t).ok_or_else(|| {
            TorshError::index(
                "Vocab",
                format!("no token has the number {index}: there are {}", self.len()),
            )
        })
    }

    /// Gives the tokens of numbers.
    ///
    /// # Errors
    /// As [`Vocab::lookup_token`].
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!(vocab.lookup_tokens(&[1, 0, 1])?, ["b", "a", "b"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn lookup_tokens(&self, indices: &[usize]) -> Result<Vec<&str>> {
        indices.iter().map(|i| self.lookup_token(*i)).collect()
    }

    /// The number of all tokens that are not there.
    pub fn get_default_index(&self) -> Option<usize> {
        self.default_index
    }

    /// Sets the number of all tokens that are not there; `None` makes them errors.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let mut vocab = Vocab::new(["<unk>", "a"])?;
    /// vocab.set_default_index(0);
    /// assert_eq!((vocab.index("b")?, vocab.get_default_index()), (0, Some(0)));
    /// vocab.set_default_index(None);
    /// assert!(vocab.index("b").is_err_and(|e| e.to_string().contains("\"b\"")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_default_index(&mut self, index: impl Into<Option<usize>>) {
        self.default_index = index.into();
    }

    /// Adds a token at the end.
    ///
    /// # Errors
    /// A token that is there already.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let mut vocab = Vocab::new(["a"])?;
    /// vocab.append_token("b")?;
    /// assert_eq!(vocab.get_itos(), ["a", "b"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn append_token(&mut self, token: impl Into<String>) -> Result<()> {
        self.insert_token(token, self.len())
    }

    /// Adds a token at a number; those from there on move up.
    ///
    /// # Errors
    /// A token that is there already, and a number beyond the end.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let mut vocab = Vocab::new(["a", "b"])?;
    /// vocab.insert_token("<unk>", 0)?;
    /// assert_eq!(vocab.get_itos(), ["<unk>", "a", "b"]);
    /// assert_eq!(vocab.index("b")?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn insert_token(&mut self, token: impl Into<String>, index: usize) -> Result<()> {
        let token = token.into();
        let wrong = |why| Err(TorshError::invalid("Vocab", why));
        if let Some(at) = self.indices.get(&token) {
            return wrong(format!("{token:?} is there already, as number {at}"));
        }
        if index > self.len() {
            return wrong(format!(
                "{token:?} cannot have the number {index}: there are {} tokens",
                self.len()
            ));
        }
        for moved in &self.tokens[index..] {
            if let Some(at) = self.indices.get_mut(moved) {
                *at += 1;
            }
        }
        self.indices.insert(token.clone(), index);
        self.tokens.insert(index, token);
        Ok(())
    }

    /// All tokens by their numbers.
    pub fn get_itos(&self) -> &[String] {
        &self.tokens
    }

    /// Gives the numbers of all tokens.
    ///
    /// ```
    /// use torsh_text::tokenizers::Vocab;
    /// let vocab = Vocab::new(["a", "b"])?;
    /// assert_eq!(vocab.get_stoi()["b"], 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get_stoi(&self) -> &HashMap<String, usize> {
        &self.indices
    }
}

/// A vocabulary of the tokens of texts, the most frequent first, equally frequent ones in alphabetic order
/// (`torchtext.vocab.build_vocab_from_iterator`).
///
/// # Errors
/// `max_tokens` that is less than the number of special tokens.
///
/// ```
/// use torsh_text::tokenizers::{VocabOptions, build_vocab_from_iterator};
/// let texts = [["b", "a", "b"], ["c", "d", "a"]];
/// let all = build_vocab_from_iterator(texts, &VocabOptions::new())?;
/// assert_eq!(all.get_itos(), ["a", "b", "c", "d"]);
/// let few = build_vocab_from_iterator(texts, &VocabOptions::new().specials(&["<s>"]).max_tokens(3))?;
/// assert_eq!(few.get_itos(), ["<s>", "a", "b"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn build_vocab_from_iterator<I, T>(texts: I, options: &VocabOptions) -> Result<Vocab>
where
    I: IntoIterator<Item = T>,
    T: IntoIterator,
    T::Item: AsRef<str>,
{
    let mut counts: HashMap<String, usize> = HashMap::new();
    for text in texts {
        for token in text {
            let token = token.as_ref();
            match counts.get_mut(token) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(token.to_string(), 1);
                }
            }
        }
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if let Some(most) = options.max_tokens {
        let special = options.specials.len();
        let room = most.checked_sub(special).ok_or_else(|| {
            TorshError::invalid(
                "build_vocab_from_iterator",
                format!("max_tokens is {most}, less than the {special} special tokens"),
            )
        })?;
        sorted.truncate(room);
    }
    vocab(sorted, options)
}

/// A vocabulary of tokens with their counts, in this order (`torchtext.vocab.vocab`). Special tokens are not listed
/// twice.
///
/// # Errors
/// A token that is there twice.
///
/// ```
/// use torsh_text::tokenizers::{VocabOptions, vocab};
/// let options = VocabOptions::new().specials(&["<pad>"]).special_first(false).min_freq(2);
/// let vocab = vocab([("b", 3), ("a", 1), ("c", 2)], &options)?;
/// assert_eq!(vocab.get_itos(), ["b", "c", "<pad>"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn vocab<S: Into<String>>(
    counts: impl IntoIterator<Item = (S, usize)>,
    options: &VocabOptions,
) -> Result<Vocab> {
    let counted = counts
        .into_iter()
        .filter(|(_, count)| *count >= options.min_freq)
        .map(|(token, _)| token.into())
        .filter(|token: &String| !options.specials.contains(token));
    let specials = options.specials.iter().cloned();
    match options.special_first {
        true => Vocab::new(specials.chain(counted)),
        false => Vocab::new(counted.chain(specials)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_inserted_and_looked_up() -> Result<()> {
        let mut v = Vocab::new(["a", "b"])?;
        v.insert_token("x", 1)?;
        v.append_token("z")?;
        assert_eq!(v.get_itos(), ["a", "x", "b", "z"]);
        assert_eq!(v.lookup_indices(&["b", "z"])?, [2, 3]);
        assert!(v.append_token("a").is_err());
        assert!(v.insert_token("q", 9).is_err());
        assert!(v.index("q").is_err_and(|e| e.to_string().contains("\"q\"")));
        assert!(v.lookup_token(4).is_err());
        v.set_default_index(7);
        assert_eq!(v.index("q")?, 7);
        v.set_default_index(None);
        assert!(v.index("q").is_err());
        Ok(())
    }

    #[test]
    fn counts_order_the_tokens() -> Result<()> {
        let texts = || ["b a b".split(' '), "c d a".split(' ')];
        let all = build_vocab_from_iterator(texts(), &VocabOptions::new())?;
        assert_eq!(all.get_itos(), ["a", "b", "c", "d"]);
        let options = VocabOptions::new()
            .specials(&["<s>", "a"])
            .special_first(false);
        let v = build_vocab_from_iterator(texts(), &options)?;
        assert_eq!(v.get_itos(), ["b", "c", "d", "<s>", "a"]);
        let few = VocabOptions::new().specials(&["<s>"]).max_tokens(3);
        assert_eq!(
            build_vocab_from_iterator(texts(), &few)?.get_itos(),
            ["<s>", "a", "b"]
        );
        let none = VocabOptions::new().specials(&["<s>"]).max_tokens(0);
        assert!(build_vocab_from_iterator(texts(), &none).is_err());
        Ok(())
    }
}
