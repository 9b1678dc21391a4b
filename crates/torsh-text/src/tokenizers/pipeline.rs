//! From a text to its encoding: the library's steps, with truncation and padding as the call asks for them.

use std::sync::OnceLock;

use tk::tokenizer::{Model as _, PostProcessor as _, PreTokenizer as _};
use tokenizers as tk;
use torsh_core::pool::parallel_for;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

use super::encoding::{
    BatchEncoding, EncodeOptions, Encoding, Input, PaddingStrategy, Side, TruncationStrategy,
};
use super::tokenizer::{Tokenizer, guarded};

/// The longest encoding that padding makes.
const LONGEST: usize = 1 << 24;

impl Tokenizer {
    pub(super) fn one(
        &self,
        first: Input<'_>,
        second: Option<Input<'_>>,
        options: &EncodeOptions,
    ) -> Result<Encoding> {
        let mut one = [self.unpadded(first, second, options)?];
        self.pad(&mut one, options)?;
        let [encoding] = one;
        Ok(encoding)
    }

    pub(super) fn many(
        &self,
        inputs: &[(Input<'_>, Option<Input<'_>>)],
        options: &EncodeOptions,
    ) -> Result<BatchEncoding> {
        let results: Vec<OnceLock<Result<Encoding>>> =
            inputs.iter().map(|_| OnceLock::new()).collect();
        parallel_for(inputs.len(), 8, &|range| {
            for i in range {
                let (first, second) = inputs[i];
                // Each number is in one range only, so the place is free.
                let _ = results[i].set(self.unpadded(first, second, options));
            }
        });
        let mut all = Vec::with_capacity(inputs.len());
        for (i, result) in results.into_iter().enumerate() {
            let encoding = result.into_inner().ok_or_else(|| {
                TorshError::Other(format!("encode_batch: text {i} was not encoded"))
            })?;
            all.push(encoding.map_err(|e| e.renamed(&format!("encode_batch: text {i}")))?);
        }
        self.pad(&mut all, options)?;
        Ok(BatchEncoding::new(all))
    }

    fn unpadded(
        &self,
        first: Input<'_>,
        second: Option<Input<'_>>,
        options: &EncodeOptions,
    ) -> Result<Encoding> {
        const OP: &str = "encode";
        let mut first = guarded(OP, || self.sequence(first, 0))?;
        let mut second = second
            .map(|second| guarded(OP, || self.sequence(second, 1)))
            .transpose()?;
        if options.truncation.known()? != TruncationStrategy::DoNotTruncate {
            let added = match options.add_special_tokens {
                true => self.num_special_tokens_to_add(second.is_some()),
                false => 0,
            };
            let most = self.room(options, added)?;
            let side = options
                .truncation_side
                .unwrap_or(self.settings.truncation_side)
                .known()?;
            truncate(&mut first, second.as_mut(), most, side, options)?;
        }
        let encoding = guarded(OP, || match self.inner.get_post_processor() {
            Some(processor) => processor.process(first, second, options.add_special_tokens),
            None => {
                let parts = std::iter::once(first).chain(second).collect();
                let merged = <dyn tk::PostProcessor>::default_process(parts, false)?;
                Ok(tk::Encoding::merge(merged, false))
            }
        })?;
        Ok(Encoding::new(encoding, options.return_overflowing_tokens))
    }

    /// How many tokens of the texts themselves an encoding may have.
    fn room(&self, options: &EncodeOptions, added: usize) -> Result<usize> {
        let most = options.max_length.or(self.settings.model_max_length);
        let most = most.ok_or_else(|| {
            TorshError::invalid(
                "encode",
                "truncation needs a max_length: the tokenizer's files do not say how much the model reads",
            )
            .with_hint("EncodeOptions::new().truncation(true).max_length(512)")
        })?;
        most.checked_sub(added).ok_or_else(|| {
            TorshError::invalid(
                "encode",
                format!(
                    "max_length is {most}, and the tokenizer adds {added} special tokens to each text"
                ),
            )
            .with_hint("raise max_length, or encode with add_special_tokens(false)")
        })
    }

    fn sequence(&self, input: Input<'_>, type_id: u32) -> tk::Result<tk::Encoding> {
        match input {
            Input::Text(text) => self.piece(text, type_id, None),
            Input::Words(words) => {
                let words = words.iter().zip(0..);
                let parts = words.map(|(word, i)| self.piece(word, type_id, Some(i)));
                Ok(tk::Encoding::merge(
                    parts.collect::<tk::Result<Vec<_>>>()?,
                    false,
                ))
            }
        }
    }

    /// The steps of the library's own `encode` before truncation, which it does with settings of the tokenizer, not of
    /// the call.
    fn piece(&self, text: &str, type_id: u32, word: Option<u32>) -> tk::Result<tk::Encoding> {
        let inner = &self.inner;
        let mut pieces = inner
            .get_added_vocabulary()
            .extract_and_normalize(inner.get_normalizer(), text);
        if let Some(pre_tokenizer) = inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        let model = inner.get_model();
        pieces.tokenize(|piece| model.tokenize(piece.get()))?;
        pieces.into_encoding(word, type_id, tk::OffsetType::Char)
    }

    fn pad(&self, encodings: &mut [Encoding], options: &EncodeOptions) -> Result<()> {
        const OP: &str = "encode";
        let mut length = match options.padding.known()? {
            PaddingStrategy::DoNotPad | PaddingStrategy::Unknown(_) => return Ok(()),
            PaddingStrategy::Length(length) => length,
            PaddingStrategy::Longest => encodings.iter().map(Encoding::len).max().unwrap_or(0),
            PaddingStrategy::MaxLength => {
                let most = options.max_length.or(self.settings.model_max_length);
                most.ok_or_else(|| {
                    TorshError::invalid(OP, "padding to max_length needs a max_length").with_hint(
                        "EncodeOptions::new().max_length(512), or set_model_max_length(..)",
                    )
                })?
            }
        };
        if let Some(multiple) = options.pad_to_multiple_of.filter(|m| *m > 0) {
            length = length
                .checked_next_multiple_of(multiple)
                .unwrap_or(usize::MAX);
        }
        if length > LONGEST {
            return Err(TorshError::invalid(
                OP,
                format!("cannot pad to {length} tokens, more than {LONGEST}"),
            ));
        }
        if encodings.iter().all(|e| complete(e, length)) {
            return Ok(());
        }
        let Some((id, token)) = self.padding(options) else {
            let shortest = encodings.iter().map(Encoding::len).min().unwrap_or(0);
            let why = format!(
                "a text of {shortest} tokens must be filled up to {length}, and the tokenizer has no padding token"
            );
            return Err(TorshError::invalid(OP, why).with_hint(
                "set_pad_token(..), for example to the token at the end of texts, or EncodeOptions::new().pad_token_id(..)",
            ));
        };
        let side = options.padding_side.unwrap_or(self.settings.padding_side);
        let side = side.known()?;
        let type_id = self.inner.get_padding().map_or(0, |p| p.pad_type_id);
        for encoding in encodings {
            encoding.pad(length, side, id, &token, type_id);
        }
        Ok(())
    }

    /// The token that fills up texts.
    fn padding(&self, options: &EncodeOptions) -> Option<(u32, String)> {
        if let Some(id) = options.pad_token_id {
            return Some((id, self.id_to_token(id).unwrap_or_else(|| "[PAD]".into())));
        }
        if let Some(token) = &self.settings.special.pad
            && let Some(id) = self.token_to_id(token)
        {
            return Some((id, token.clone()));
        }
        let padding = self.inner.get_padding()?;
        Some((padding.pad_id, padding.pad_token.clone()))
    }
}

fn complete(encoding: &Encoding, length: usize) -> bool {
    encoding.len() >= length && encoding.overflowing.iter().all(|e| complete(e, length))
}

/// Cuts one encoding, or two, so that they have at most `most` tokens together.
fn truncate(
    first: &mut tk::Encoding,
    second: Option<&mut tk::Encoding>,
    most: usize,
    side: Side,
    options: &EncodeOptions,
) -> Result<()> {
    let (one, two) = (first.len(), second.as_ref().map_or(0, |e| e.len()));
    let Some(excess) = (one + two).checked_sub(most).filter(|n| *n > 0) else {
        return Ok(());
    };
    let short = |which: &str, length: usize| {
        TorshError::invalid(
            "encode",
            format!(
                "{excess} tokens are too many, and the {which} text, which alone is cut, has {length}"
            ),
        )
        .with_hint("TruncationStrategy::LongestFirst cuts both texts of a pair")
    };
    let (one, two) = match (options.truncation, second.is_some()) {
        (TruncationStrategy::DoNotTruncate | TruncationStrategy::Unknown(_), _) => return Ok(()),
        (TruncationStrategy::LongestFirst, true) => share(one, two, most),
        (TruncationStrategy::LongestFirst, false) => (most, 0),
        // Nothing is left of the only text: no part of it could be shown.
        (TruncationStrategy::OnlyFirst, false) if most == 0 => (0, 0),
        (TruncationStrategy::OnlyFirst, _) if one > excess => (one - excess, two),
        (TruncationStrategy::OnlyFirst, _) => return Err(short("first", one)),
        (TruncationStrategy::OnlySecond, true) if two > excess => (one, two - excess),
        (TruncationStrategy::OnlySecond, true) => return Err(short("second", two)),
        (TruncationStrategy::OnlySecond, false) => {
            return Err(TorshError::invalid(
                "encode",
                "only the second text is cut, and there is none",
            ));
        }
    };
    cut(first, one, side, options)?;
    match second {
        Some(second) => cut(second, two, side, options),
        None => Ok(()),
    }
}

/// The lengths of two texts that have `most` tokens together: the longer one is cut, then both alike.
fn share(one: usize, two: usize, most: usize) -> (usize, usize) {
    let (shorter, longer) = (one.min(two), one.max(two));
    let (mut low, mut high) = match shorter > most {
        true => (shorter, shorter),
        false => (shorter, shorter.max(most - shorter).min(longer)),
    };
    if low + high > most {
        low = most / 2;
        high = low + most % 2;
    }
    match one > two {
        true => (high, low),
        false => (low, high),
    }
}

fn cut(
    encoding: &mut tk::Encoding,
    length: usize,
    side: Side,
    options: &EncodeOptions,
) -> Result<()> {
    if length >= encoding.len() {
        return Ok(());
    }
    // Without the parts that are cut off, how far they overlap does not matter.
    let stride = match options.return_overflowing_tokens {
        true => options.stride,
        false => 0,
    };
    if length > 0 && stride >= length {
        return Err(TorshError::invalid(
            "encode",
            format!(
                "stride is {stride}, and each part has {length} tokens of the text: it must be smaller"
            ),
        ));
    }
    let direction = match side {
        Side::Left => tk::TruncationDirection::Left,
        Side::Right | Side::Unknown(_) => tk::TruncationDirection::Right,
    };
    encoding.truncate(length, stride, direction);
    Ok(())
}
