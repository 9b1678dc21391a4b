//! Tokens and texts as they come.

use torsh_tensor::{Result, at_caller, no_grad};

use super::sampling::Sampler;
use super::text::{TextPieces, TokenText};

/// The new tokens of one text, as they are computed. It ends with the text, or after an error.
///
/// See [`GenerationExt::stream`](super::GenerationExt::stream).
pub struct TokenStream<'a> {
    sampler: Sampler<'a>,
    failed: bool,
}

impl<'a> TokenStream<'a> {
    pub(super) fn new(sampler: Sampler<'a>) -> TokenStream<'a> {
        TokenStream {
            sampler,
            failed: false,
        }
    }

    /// The tokens so far, those of the prompt among them.
    pub fn ids(&self) -> &[i64] {
        self.sampler.rows.first().map_or(&[], |row| row)
    }

    /// The text of the tokens instead of them: pieces that never split a character.
    pub fn text(self, tokenizer: &'a dyn TokenText) -> TextStream<'a> {
        TextStream {
            tokens: self,
            pieces: TextPieces::new(tokenizer),
            ended: false,
        }
    }
}

impl Iterator for TokenStream<'_> {
    type Item = Result<i64>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<i64>> {
        at_caller(|| self.advance().transpose()).transpose()
    }
}

impl TokenStream<'_> {
    fn advance(&mut self) -> Option<Result<i64>> {
        if self.failed || self.sampler.finished() {
            return None;
        }
        match no_grad(|| self.sampler.advance()) {
            Ok(()) => self.ids().last().copied().map(Ok),
            Err(e) => {
                self.failed = true;
                Some(Err(e))
            }
        }
    }
}

/// The new text of one prompt, piece by piece.
///
/// See [`GenerationExt::stream`](super::GenerationExt::stream).
pub struct TextStream<'a> {
    tokens: TokenStream<'a>,
    pieces: TextPieces<'a>,
    ended: bool,
}

impl TextStream<'_> {
    /// The tokens so far, those of the prompt among them.
    pub fn ids(&self) -> &[i64] {
        self.tokens.ids()
    }
}

impl Iterator for TextStream<'_> {
    type Item = Result<String>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<String>> {
        at_caller(|| self.advance().transpose()).transpose()
    }
}

impl TextStream<'_> {
    fn advance(&mut self) -> Option<Result<String>> {
        while !self.ended {
            let piece = match self.tokens.next() {
                Some(Ok(id)) => self.pieces.push(id),
                Some(Err(e)) => Err(e),
                None => {
                    self.ended = true;
                    self.pieces.finish()
                }
            };
            match piece {
                Ok(Some(piece)) => return Some(Ok(piece)),
                Ok(None) => {}
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}
