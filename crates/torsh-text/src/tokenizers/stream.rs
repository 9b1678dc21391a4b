//! Decoding while tokens come.

use torsh_tensor::Result;

use super::Tokenizer;

/// After so many tokens without an end of a character there is none to wait for.
const LONGEST_WAIT: usize = 32;

/// Decodes tokens one by one into pieces of text that never split a character. The pieces together are what
/// [`Tokenizer::decode`] makes of all tokens, except where a decoder changes text that was shown already.
///
/// ```
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
/// let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(257);
/// let tokenizer = Tokenizer::train(["a"], &options)?;
///
/// // Every token is a byte.
/// let ids = tokenizer.encode("né")?.ids;
/// let mut stream = tokenizer.decode_stream(true);
/// let pieces = ids.iter().map(|id| stream.step(*id)).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(pieces, [Some("n".to_string()), None, Some("é".to_string())]);
/// assert_eq!(stream.finish()?, "");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecodeStream {
    tokenizer: Tokenizer,
    skip_special_tokens: bool,
    /// The last tokens: those of the last piece, which spaces depend on, and those after it.
    window: Vec<u32>,
    /// How many of the window's tokens are in pieces.
    shown_tokens: usize,
    /// What the pieces have of the window's text.
    shown: String,
}

impl DecodeStream {
    pub(super) fn new(tokenizer: Tokenizer, skip_special_tokens: bool) -> Self {
        DecodeStream {
            tokenizer,
            skip_special_tokens,
            window: Vec::new(),
            shown_tokens: 0,
            shown: String::new(),
        }
    }

    /// Takes the next token, and returns the text that is complete by it.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    #[torsh_tensor::names_caller]
    pub fn step(&mut self, id: u32) -> Result<Option<String>> {
        self.window.push(id);
        let text = self.decode()?;
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let waiting = self.window.len() - self.shown_tokens;
        let complete = whole.len() == text.len() || waiting >= LONGEST_WAIT;
        let end = if complete { text.len() } else { whole.len() };
        let piece = self.piece(&text[..end], complete);
        if complete && piece.is_some() {
            // The tokens of this piece stay as what the next ones follow.
            self.window.drain(..self.shown_tokens);
            self.shown_tokens = self.window.len();
            self.shown = self.decode()?;
        }
        Ok(piece)
    }

    /// Gives what is left when there are no more tokens, such as an incomplete character. The stream is as new.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    ///
    /// ```
    /// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
    /// let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(257);
    /// let tokenizer = Tokenizer::train(["a"], &options)?;
    /// // The first of the two bytes of a character.
    /// let first = tokenizer.encode("é")?.ids[0];
    /// let mut stream = tokenizer.decode_stream(true);
    /// assert_eq!((stream.step(first)?, stream.finish()?), (None, "\u{fffd}".to_string()));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn finish(&mut self) -> Result<String> {
        let text = self.decode()?;
        let rest = self.piece(&text, true).unwrap_or_default();
        *self = DecodeStream::new(self.tokenizer.clone(), self.skip_special_tokens);
        Ok(rest)
    }

    fn decode(&self) -> Result<String> {
        self.tokenizer
            .decode(&self.window, self.skip_special_tokens)
    }

    /// What the text has more than was shown, which it becomes. A decoder that joins `do n` and `'t` to `don't` has
    /// changed what was shown: then it is what comes after as many characters.
    fn piece(&mut self, text: &str, complete: bool) -> Option<String> {
        let rest = match text.strip_prefix(&*self.shown) {
            Some(rest) => rest,
            None if complete => {
                let (at, _) = text.char_indices().nth(self.shown.chars().count())?;
                &text[at..]
            }
            None => return None,
        };
        if rest.is_empty() {
            return None;
        }
        let rest = rest.to_string();
        self.shown = text.to_string();
        Some(rest)
    }
}
