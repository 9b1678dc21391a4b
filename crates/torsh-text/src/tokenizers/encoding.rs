//! What a text becomes: token ids and what belongs to each of them.

use std::ops::Deref;

use tokenizers as tk;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options};

/// A text, or the words of one.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    Text(&'a str),
    Words(&'a [&'a str]),
}

/// A side of a text.
///
/// ```
/// use torsh_text::tokenizers::Side;
/// assert_eq!((Side::from("left"), Side::default()), (Side::Left, Side::Right));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The beginning.
    Left,
    /// The end.
    #[default]
    Right,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    Side, "the side",
    "left" => Side::Left,
    "right" => Side::Right,
}

/// Which part of a text or a pair of texts is cut where there are too many tokens.
///
/// ```
/// use torsh_text::tokenizers::TruncationStrategy;
/// assert_eq!(TruncationStrategy::from("only_second"), TruncationStrategy::OnlySecond);
/// assert_eq!(TruncationStrategy::from(true), TruncationStrategy::LongestFirst);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncationStrategy {
    /// None: the encoding is as long as the text asks for.
    #[default]
    DoNotTruncate,
    /// The longer one of a pair, then both alike.
    LongestFirst,
    /// The first one.
    OnlyFirst,
    /// The second one, as for a question and its document.
    OnlySecond,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    TruncationStrategy, "truncation",
    "do_not_truncate" => TruncationStrategy::DoNotTruncate,
    "longest_first" => TruncationStrategy::LongestFirst,
    "only_first" => TruncationStrategy::OnlyFirst,
    "only_second" => TruncationStrategy::OnlySecond,
}

impl From<bool> for TruncationStrategy {
    fn from(truncate: bool) -> Self {
        match truncate {
            true => TruncationStrategy::LongestFirst,
            false => TruncationStrategy::DoNotTruncate,
        }
    }
}

/// How far the encodings of a batch are padded.
///
/// ```
/// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
/// use torsh_text::tokenizers::PaddingStrategy;
/// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
/// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
/// let options = EncodeOptions::new().padding(PaddingStrategy::Length(5));
/// assert_eq!(tokenizer.encode_with("a", &options)?.ids, [2, 5, 3, 0, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingStrategy {
    /// Not at all.
    #[default]
    DoNotPad,
    /// To the longest one.
    Longest,
    /// To [`EncodeOptions::max_length`], else to the most that the model reads.
    MaxLength,
    /// To this length.
    Length(usize),
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    PaddingStrategy, "padding",
    "do_not_pad" => PaddingStrategy::DoNotPad,
    "longest" => PaddingStrategy::Longest,
    "max_length" => PaddingStrategy::MaxLength,
}

impl From<bool> for PaddingStrategy {
    fn from(pad: bool) -> Self {
        match pad {
            true => PaddingStrategy::Longest,
            false => PaddingStrategy::DoNotPad,
        }
    }
}

options! {
    /// The keyword arguments of Hugging Face's `tokenizer(..)`.
    ///
    /// ```
    /// use torsh_text::tokenizers::{EncodeOptions, TruncationStrategy};
    /// let options = EncodeOptions::new().truncation(true).max_length(128).padding(true);
    /// assert_eq!(options.truncation, TruncationStrategy::LongestFirst);
    /// assert_eq!(options.max_length, Some(128));
    /// ```
    EncodeOptions {
        /// Whether and where too long texts are cut (not): a [`TruncationStrategy`], its word as "only_first", or `true` for
        /// [`TruncationStrategy::LongestFirst`].
        truncation: TruncationStrategy = TruncationStrategy::DoNotTruncate, impl Into<TruncationStrategy> => |v| v.into();
        /// The most tokens of one encoding, special ones included (what the model reads).
        max_length: Option<usize> = None, usize => Some;
        /// How many tokens the overflowing parts share with their neighbours (0).
        stride: usize = 0;
        /// The side on which is cut (the tokenizer's).
        truncation_side: Option<Side> = None, impl Into<Side> => |s| Some(s.into());
        /// How far is padded (not): a [`PaddingStrategy`], its word as "max_length", or `true` for
        /// [`PaddingStrategy::Longest`].
        padding: PaddingStrategy = PaddingStrategy::DoNotPad, impl Into<PaddingStrategy> => |v| v.into();
        /// The padded length is a multiple of this (1).
        pad_to_multiple_of: Option<usize> = None, usize => Some;
        /// The side on which is padded (the tokenizer's). Models that continue texts want the left one.
        padding_side: Option<Side> = None, impl Into<Side> => |s| Some(s.into());
        /// The id of the padding (that of the tokenizer's padding token).
        pad_token_id: Option<u32> = None, u32 => Some;
        /// Whether the parts that were cut off are in [`Encoding::overflowing`] (false).
        return_overflowing_tokens: bool = false;
        /// Whether the tokens are added that the model wants around a text, as `[CLS]` and `[SEP]` (true).
        add_special_tokens: bool = true;
    }
}

/// A text as tokens.
///
/// ```
/// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
/// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
/// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
/// let encoding = tokenizer.encode("A d")?;
/// assert_eq!(encoding.ids, [2, 5, 1, 3]);
/// assert_eq!(encoding.tokens, ["[CLS]", "a", "[UNK]", "[SEP]"]);
/// assert_eq!(encoding.offsets, [(0, 0), (0, 1), (2, 3), (0, 0)]);
/// assert_eq!(encoding.special_tokens_mask, [1, 0, 0, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The numbers of the tokens.
    pub ids: Vec<u32>,
    /// The tokens.
    pub tokens: Vec<String>,
    /// Where each token is in its text, in characters: `(begin, end)`, `(0, 0)` for special tokens.
    pub offsets: Vec<(usize, usize)>,
    /// 1 for tokens, 0 for padding.
    pub attention_mask: Vec<u32>,
    /// Which text of a pair each token belongs to, as the model wants it.
    pub type_ids: Vec<u32>,
    /// 1 for tokens that the tokenizer added, 0 for those of the text.
    pub special_tokens_mask: Vec<u32>,
    /// The number of the word that each token is a part of; nothing for special tokens and padding.
    pub word_ids: Vec<Option<u32>>,
    /// Which text each token comes from, 0 or 1; nothing for special tokens and padding.
    pub sequence_ids: Vec<Option<usize>>,
    /// The parts that were cut off, where they were asked for.
    pub overflowing: Vec<Encoding>,
}

impl Encoding {
    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Gives the ids, the mask and the type ids as int64 tensors `[1, length]`.
    ///
    /// # Errors
    /// No memory.
    ///
    /// ```
    /// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
    /// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
    /// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
    /// let inputs = tokenizer.encode_pair("a", "b")?.to_tensors()?;
    /// assert_eq!(inputs.input_ids, torsh_tensor::tensor![[2, 5, 3, 6, 3]]);
    /// assert_eq!(inputs.token_type_ids, torsh_tensor::tensor![[0, 0, 0, 1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_tensors(&self) -> Result<TokenTensors> {
        tensors(std::slice::from_ref(self))
    }

    pub(super) fn new(from: tk::Encoding, overflowing: bool) -> Encoding {
        let parts = match overflowing {
            true => from.get_overflowing().iter(),
            false => [].iter(),
        };
        // The parts of parts are not kept: the library lists each part once.
        let parts = parts.map(|part| Encoding::new(part.clone(), false));
        Encoding {
            ids: from.get_ids().to_vec(),
            tokens: from.get_tokens().to_vec(),
            offsets: from.get_offsets().to_vec(),
            attention_mask: from.get_attention_mask().to_vec(),
            type_ids: from.get_type_ids().to_vec(),
            special_tokens_mask: from.get_special_tokens_mask().to_vec(),
            word_ids: from.get_word_ids().to_vec(),
            sequence_ids: sequences(&from),
            overflowing: parts.collect(),
        }
    }

    /// Adds padding up to a length, also to the parts that were cut off.
    pub(super) fn pad(&mut self, length: usize, side: Side, id: u32, token: &str, type_id: u32) {
        for part in &mut self.overflowing {
            part.pad(length, side, id, token, type_id);
        }
        let more = length.saturating_sub(self.len());
        if more == 0 {
            return;
        }
        fill(&mut self.ids, more, side, id);
        fill(&mut self.tokens, more, side, token.to_string());
        fill(&mut self.offsets, more, side, (0, 0));
        fill(&mut self.attention_mask, more, side, 0);
        fill(&mut self.type_ids, more, side, type_id);
        fill(&mut self.special_tokens_mask, more, side, 1);
        fill(&mut self.word_ids, more, side, None);
        fill(&mut self.sequence_ids, more, side, None);
    }
}

/// The texts that the tokens of an encoding come from; special tokens come from none.
fn sequences(from: &tk::Encoding) -> Vec<Option<usize>> {
    let all = from.get_sequence_ids();
    let special = from.get_special_tokens_mask();
    all.into_iter()
        .zip(special)
        .map(|(sequence, special)| sequence.filter(|_| *special == 0))
        .collect()
}

fn fill<T: Clone>(values: &mut Vec<T>, more: usize, side: Side, value: T) {
    match side {
        Side::Right | Side::Unknown(_) => values.resize(values.len() + more, value),
        Side::Left => {
            values.splice(0..0, std::iter::repeat_n(value, more));
        }
    }
}

/// The encodings of a batch of texts, in their order. It is a slice of [`Encoding`]s.
///
/// ```
/// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
/// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
/// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
/// let batch = tokenizer.encode_batch(&["a", "b c"], &EncodeOptions::new())?;
/// let lengths: Vec<usize> = batch.iter().map(|encoding| encoding.len()).collect();
/// assert_eq!((lengths, &batch[1].ids), (vec![3, 4], &vec![2, 6, 7, 3]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchEncoding {
    encodings: Vec<Encoding>,
}

impl BatchEncoding {
    pub(super) fn new(encodings: Vec<Encoding>) -> BatchEncoding {
        BatchEncoding { encodings }
    }

    /// The encodings.
    pub fn into_vec(self) -> Vec<Encoding> {
        self.encodings
    }

    /// Gives the ids, the mask and the type ids as int64 tensors `[batch, length]`.
    ///
    /// # Errors
    /// Encodings of different lengths: ask for padding.
    ///
    /// ```
    /// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
    /// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
    /// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
    /// let batch = tokenizer.encode_batch(&["a", "b c"], &EncodeOptions::new().padding(true))?;
    /// let inputs = batch.to_tensors()?;
    /// assert_eq!(inputs.input_ids, torsh_tensor::tensor![[2, 5, 3, 0], [2, 6, 7, 3]]);
    /// assert_eq!(inputs.attention_mask, torsh_tensor::tensor![[1, 1, 1, 0], [1, 1, 1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_tensors(&self) -> Result<TokenTensors> {
        tensors(&self.encodings)
    }

    /// Gives every encoding followed by the parts that were cut off it, and for each the number of the text it comes
    /// from (`overflow_to_sample_mapping`).
    ///
    /// ```
    /// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};
    /// // [PAD], [UNK], [CLS], [SEP] and [MASK] are the tokens 0 to 4, and a, b and c are behind them.
    /// let tokenizer = Tokenizer::train(["a b c"], &TrainOptions::default())?;
    /// let options = EncodeOptions::new().truncation(true).max_length(4).return_overflowing_tokens(true);
    /// let (rows, texts) = tokenizer.encode_batch(&["a b c", "a"], &options)?.with_overflowing();
    /// assert_eq!(texts, [0, 0, 1]);
    /// assert_eq!((&rows[0].ids, &rows[1].ids), (&vec![2, 5, 6, 3], &vec![2, 7, 3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn with_overflowing(self) -> (BatchEncoding, Vec<usize>) {
        let mut all = Vec::new();
        let mut samples = Vec::new();
        for (sample, mut encoding) in self.encodings.into_iter().enumerate() {
            let parts = std::mem::take(&mut encoding.overflowing);
            samples.extend(std::iter::repeat_n(sample, 1 + parts.len()));
            all.push(encoding);
            all.extend(parts);
        }
        (BatchEncoding::new(all), samples)
    }
}

impl Deref for BatchEncoding {
    type Target = [Encoding];

    fn deref(&self) -> &[Encoding] {
        &self.encodings
    }
}

impl IntoIterator for BatchEncoding {
    type Item = Encoding;
    type IntoIter = std::vec::IntoIter<Encoding>;

    fn into_iter(self) -> Self::IntoIter {
        self.encodings.into_iter()
    }
}

impl<'a> IntoIterator for &'a BatchEncoding {
    type Item = &'a Encoding;
    type IntoIter = std::slice::Iter<'a, Encoding>;

    fn into_iter(self) -> Self::IntoIter {
        self.encodings.iter()
    }
}

/// Encodings as int64 tensors `[batch, length]`.
#[derive(Clone, Debug)]
pub struct TokenTensors {
    /// The ids of the tokens.
    pub input_ids: Tensor,
    /// 1 for tokens, 0 for padding.
    pub attention_mask: Tensor,
    /// Which text of a pair each token belongs to.
    pub token_type_ids: Tensor,
}

fn tensors(encodings: &[Encoding]) -> Result<TokenTensors> {
    let length = encodings.first().map_or(0, Encoding::len);
    if let Some((at, other)) = encodings
        .iter()
        .enumerate()
        .find(|(_, e)| e.len() != length)
    {
        return Err(TorshError::invalid(
            "to_tensors",
            format!(
                "encoding 0 has {length} tokens and encoding {at} has {}",
                other.len()
            ),
        )
        .with_hint("encode the batch with EncodeOptions::new().padding(true)"));
    }
    let shape = [encodings.len(), length];
    let tensor = |part: fn(&Encoding) -> &[u32]| {
        let all: Vec<i64> = encodings
            .iter()
            .flat_map(|e| part(e).iter().map(|v| i64::from(*v)))
            .collect();
        Tensor::from_slice(&all, shape, DType::I64, Device::Cpu)
    };
    Ok(TokenTensors {
        input_ids: tensor(|e| &e.ids)?,
        attention_mask: tensor(|e| &e.attention_mask)?,
        token_type_ids: tensor(|e| &e.type_ids)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(ids: &[u32]) -> Encoding {
        let n = ids.len();
        Encoding {
            ids: ids.to_vec(),
            tokens: vec!["a".into(); n],
            offsets: vec![(0, 1); n],
            attention_mask: vec![1; n],
            type_ids: vec![0; n],
            special_tokens_mask: vec![0; n],
            word_ids: vec![Some(0); n],
            sequence_ids: vec![Some(0); n],
            overflowing: Vec::new(),
        }
    }

    #[test]
    fn padding_fills_every_field_on_its_side() {
        let mut e = encoding(&[5, 6]);
        e.overflowing.push(encoding(&[6]));
        e.pad(4, Side::Left, 9, "<pad>", 0);
        assert_eq!(e.ids, [9, 9, 5, 6]);
        assert_eq!(e.attention_mask, [0, 0, 1, 1]);
        assert_eq!(e.tokens[0], "<pad>");
        assert_eq!(e.overflowing[0].ids, [9, 9, 9, 6]);
        let mut e = encoding(&[5, 6]);
        e.pad(3, Side::Right, 9, "<pad>", 0);
        assert_eq!(e.ids, [5, 6, 9]);
        assert_eq!(e.special_tokens_mask, [0, 0, 1]);
        e.pad(1, Side::Right, 9, "<pad>", 0);
        assert_eq!(e.len(), 3);
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_them() -> Result<()> {
        let batch = BatchEncoding::new(vec![encoding(&[1, 2]), encoding(&[3])]);
        let error = batch.to_tensors().err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("encoding 1 has 1") && e.contains("padding")));
        let one = batch[0].to_tensors()?;
        assert_eq!(one.input_ids.dims(), [1, 2]);
        Ok(())
    }
}
