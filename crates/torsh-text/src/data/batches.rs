//! Batches of texts: padding to the longest one, and texts of similar lengths together.

use torsh_core::Generator;
use torsh_data::{RandomSampler, Sampler, ToDevice};
use torsh_tensor::named::Named;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options};

use crate::tokenizers::{Encoding, Side, TokenTensors};

/// The label of tokens that no loss is computed of.
pub const IGNORED: i64 = -100;

/// A batch for a masked language model.
#[derive(Clone, Debug)]
pub struct MaskedTokens {
    /// The ids, some of them hidden `[batch, length]`.
    pub input_ids: Tensor,
    /// 1 for tokens, 0 for padding.
    pub attention_mask: Tensor,
    /// Which text of a pair each token belongs to.
    pub token_type_ids: Tensor,
    /// The ids of the tokens to be predicted, [`IGNORED`] for all others.
    pub labels: Tensor,
}

options! {
    /// How [`collate`] pads.
    CollateOptions {
        /// The id of the padding (0). [`Tokenizer::pad_token_id`](crate::tokenizers::Tokenizer::pad_token_id) tells it.
        pad_token_id: u32 = 0;
        /// The side on which is padded (the right one).
        padding_side: Side = Side::Right, impl Into<Side> => Into::into;
        /// The padded length is a multiple of this (1).
        pad_to_multiple_of: usize = 1;
        /// The most tokens: longer encodings are cut at their end (all).
        max_length: Option<usize> = None, usize => Some;
        /// The label of padding in [`collate_tags`] (-100).
        label_pad_id: i64 = IGNORED;
    }
}

/// The encodings of a batch as tensors `[batch, longest]`.
///
/// # Errors
/// No encoding.
///
/// ```
/// use torsh_data::DataLoader;
/// use torsh_text::data::{CollateOptions, collate};
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
///
/// let texts = ["a b c", "a", "b c", "c"];
/// let tokenizer = Tokenizer::train(texts, &TrainOptions::new(TokenizerModel::WordLevel))?;
/// let encodings = texts.iter().map(|t| tokenizer.encode(t)).collect::<Result<Vec<_>, _>>()?;
/// let options = CollateOptions::new();
/// let loader = DataLoader::builder(encodings)
///     .batch_size(2)
///     .collate_fn(move |items| collate(&items, &options))
///     .build()?;
/// let lengths: Vec<usize> = loader.into_iter().map(|batch| batch.input_ids.dims()[1]).collect();
/// assert_eq!(lengths, [3, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn collate(encodings: &[Encoding], options: &CollateOptions) -> Result<TokenTensors> {
    let length = length(encodings.iter().map(Encoding::len), options)?;
    let padded = |part: fn(&Encoding) -> &Vec<u32>, fill: u32| {
        let rows = encodings.iter().map(part);
        matrix(rows, length, i64::from(fill), options)
    };
    Ok(TokenTensors {
        input_ids: padded(|e| &e.ids, options.pad_token_id)?,
        attention_mask: padded(|e| &e.attention_mask, 0)?,
        token_type_ids: padded(|e| &e.type_ids, 0)?,
    })
}

/// [`collate`] of encodings with a class each, which become an int64 tensor `[batch]`.
///
/// # Errors
/// As there.
#[torsh_tensor::names_caller]
pub fn collate_labeled(
    items: &[(Encoding, i64)],
    options: &CollateOptions,
) -> Result<(TokenTensors, Tensor)> {
    let (encodings, labels): (Vec<_>, Vec<_>) = items.iter().cloned().unzip();
    let labels = Tensor::from_slice(&labels, [labels.len()], DType::I64, Device::Cpu)?;
    Ok((collate(&encodings, options)?, labels))
}

/// [`collate`] of encodings with a label for each token, which become an int64 tensor `[batch, longest]`; padding has the
/// label [`IGNORED`].
///
/// # Errors
/// As there, and labels that are not as many as tokens.
#[torsh_tensor::names_caller]
pub fn collate_tags(
    items: &[(Encoding, Vec<i64>)],
    options: &CollateOptions,
) -> Result<(TokenTensors, Tensor)> {
    for (i, (encoding, labels)) in items.iter().enumerate() {
        if encoding.len() != labels.len() {
            let why = format!(
                "item {i} has {} tokens and {} labels",
                encoding.len(),
                labels.len()
            );
            return Err(TorshError::shape("collate", why));
        }
    }
    let (encodings, labels): (Vec<_>, Vec<_>) = items.iter().cloned().unzip();
    let length = length(labels.iter().map(Vec::len), options)?;
    let labels = matrix(labels.iter(), length, options.label_pad_id, options)?;
    Ok((collate(&encodings, options)?, labels))
}

/// The encodings of one length as tensors.
pub(super) fn tensors(encodings: &[Encoding]) -> Result<TokenTensors> {
    match encodings.is_empty() {
        false => collate(encodings, &CollateOptions::new()),
        true => {
            let empty = || Tensor::from_slice::<i64>(&[], [0, 0], DType::I64, Device::Cpu);
            Ok(TokenTensors {
                input_ids: empty()?,
                attention_mask: empty()?,
                token_type_ids: empty()?,
            })
        }
    }
}

/// The length that all rows are padded to.
fn length(lengths: impl Iterator<Item = usize>, options: &CollateOptions) -> Result<usize> {
    let wrong = |why| TorshError::invalid("collate", why);
    options
        .padding_side
        .known()
        .map_err(|e| e.renamed("collate"))?;
    let longest = lengths
        .max()
        .ok_or_else(|| wrong("there is no encoding".to_string()))?;
    let longest = longest.min(options.max_length.unwrap_or(usize::MAX));
    let multiple = options.pad_to_multiple_of.max(1);
    longest
        .checked_next_multiple_of(multiple)
        .filter(|length| *length <= 1 << 24)
        .ok_or_else(|| wrong(format!("cannot pad to a multiple of {multiple}")))
}

/// Rows of numbers as an int64 tensor.
fn matrix<'a, T: Copy + Into<i64> + 'a>(
    rows: impl Iterator<Item = &'a Vec<T>>,
    length: usize,
    fill: i64,
    options: &CollateOptions,
) -> Result<Tensor> {
    let mut all = Vec::new();
    let mut count = 0;
    for row in rows {
        let most = options.max_length.unwrap_or(usize::MAX);
        let row = &row[..row.len().min(most)];
        let padding = std::iter::repeat_n(fill, length - row.len());
        let row = row.iter().map(|v| (*v).into());
        match options.padding_side {
            Side::Right | Side::Unknown(_) => all.extend(row.chain(padding)),
            Side::Left => all.extend(padding.chain(row)),
        }
        count += 1;
    }
    Tensor::from_slice(&all, [count, length], DType::I64, Device::Cpu)
}

impl ToDevice for TokenTensors {
    fn to_device(self, device: Device) -> Result<Self> {
        Ok(TokenTensors {
            input_ids: self.input_ids.to_device(device)?,
            attention_mask: self.attention_mask.to_device(device)?,
            token_type_ids: self.token_type_ids.to_device(device)?,
        })
    }
}

impl ToDevice for MaskedTokens {
    fn to_device(self, device: Device) -> Result<Self> {
        Ok(MaskedTokens {
            input_ids: self.input_ids.to_device(device)?,
            attention_mask: self.attention_mask.to_device(device)?,
            token_type_ids: self.token_type_ids.to_device(device)?,
            labels: self.labels.to_device(device)?,
        })
    }
}

/// Batches of items of similar lengths, so that little is padded: the items in random order, in groups of `buckets`
/// batches, each group sorted by length, then the batches in random order.
///
/// ```
/// use torsh_core::Generator;
/// use torsh_data::Sampler;
/// use torsh_text::data::BucketBatchSampler;
///
/// let lengths = [9, 1, 8, 2, 9, 1, 8, 2];
/// let sampler = BucketBatchSampler::new(&lengths, 2)?.generator(Generator::new(0));
/// for batch in sampler.indices()? {
///     assert!(lengths[batch[0]].abs_diff(lengths[batch[1]]) <= 1);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BucketBatchSampler {
    lengths: Vec<usize>,
    batch_size: usize,
    buckets: usize,
    shuffle: bool,
    drop_last: bool,
    generator: Option<Generator>,
}

impl BucketBatchSampler {
    /// Batches of `batch_size` items of these lengths, in groups of 100, shuffled.
    ///
    /// # Errors
    /// A `batch_size` of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(lengths: &[usize], batch_size: usize) -> Result<Self> {
        if batch_size == 0 {
            return Err(TorshError::invalid(
                "BucketBatchSampler",
                "batch_size must be at least 1, got 0",
            ));
        }
        Ok(BucketBatchSampler {
            lengths: lengths.to_vec(),
            batch_size,
            buckets: 100,
            shuffle: true,
            drop_last: false,
            generator: None,
        })
    }

    /// How many batches are sorted together (100): with more of them the lengths are more alike, and the order is less
    /// random.
    #[must_use]
    pub fn buckets(mut self, buckets: usize) -> Self {
        self.buckets = buckets.max(1);
        self
    }

    /// Whether the order is random (true). Else all items are sorted by length.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Whether a batch with fewer items is left out (false).
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    fn order(&self, count: usize) -> RandomSampler {
        let order = RandomSampler::new(count);
        match &self.generator {
            Some(generator) => order.generator(generator.clone()),
            None => order,
        }
    }
}

impl Sampler<Vec<usize>> for BucketBatchSampler {
    fn len(&self) -> usize {
        match self.drop_last {
            true => self.lengths.len() / self.batch_size,
            false => self.lengths.len().div_ceil(self.batch_size),
        }
    }

    #[torsh_tensor::names_caller]
    fn indices(&self) -> Result<Vec<Vec<usize>>> {
        let count = self.lengths.len();
        let (mut items, group) = match self.shuffle {
            true => (
                self.order(count).indices()?,
                self.batch_size.saturating_mul(self.buckets),
            ),
            false => ((0..count).collect(), count.max(1)),
        };
        let mut batches = Vec::with_capacity(Sampler::len(self));
        for group in items.chunks_mut(group) {
            // Items of one length keep their random order.
            group.sort_by_key(|i| self.lengths[*i]);
            for batch in group.chunks(self.batch_size) {
                if !self.drop_last || batch.len() == self.batch_size {
                    batches.push(batch.to_vec());
                }
            }
        }
        if !self.shuffle {
            return Ok(batches);
        }
        let order = self.order(batches.len()).indices()?;
        Ok(order
            .into_iter()
            .map(|i| std::mem::take(&mut batches[i]))
            .collect())
    }

    fn state(&self) -> Vec<u8> {
        self.order(0).state()
    }

    #[torsh_tensor::names_caller]
    fn set_state(&self, state: &[u8]) -> Result<()> {
        self.order(0).set_state(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(ids: &[u32]) -> Encoding {
        Encoding {
            ids: ids.to_vec(),
            attention_mask: vec![1; ids.len()],
            type_ids: vec![0; ids.len()],
            ..Encoding::default()
        }
    }

    #[test]
    fn padding_is_on_its_side_and_cut() -> Result<()> {
        let items = [
            (encoding(&[5, 6, 7]), vec![1, 2, 3]),
            (encoding(&[8]), vec![4]),
        ];
        let options = CollateOptions::new().pad_token_id(9).pad_to_multiple_of(4);
        let (batch, labels) = collate_tags(&items, &options.clone().padding_side(Side::Left))?;
        assert_eq!(
            batch.input_ids.to_vec2::<i64>()?,
            [[9, 5, 6, 7], [9, 9, 9, 8]]
        );
        assert_eq!(
            batch.attention_mask.to_vec2::<i64>()?,
            [[0, 1, 1, 1], [0, 0, 0, 1]]
        );
        assert_eq!(
            labels.to_vec2::<i64>()?,
            [[-100, 1, 2, 3], [-100, -100, -100, 4]]
        );
        let options = CollateOptions::new().max_length(2);
        let pairs = [(encoding(&[5, 6, 7]), 1), (encoding(&[8]), 0)];
        let (batch, labels) = collate_labeled(&pairs, &options)?;
        assert_eq!(batch.input_ids.to_vec2::<i64>()?, [[5, 6], [8, 0]]);
        assert_eq!(labels.to_vec::<i64>()?, [1, 0]);
        assert!(collate(&[], &options).is_err());
        let wrong = [(encoding(&[5, 6]), vec![1])];
        assert!(collate_tags(&wrong, &options).is_err());
        Ok(())
    }

    #[test]
    fn every_item_is_in_one_batch() -> Result<()> {
        let lengths: Vec<usize> = (0..23).map(|i| i * 7 % 11).collect();
        for shuffle in [true, false] {
            let sampler = BucketBatchSampler::new(&lengths, 4)?
                .buckets(2)
                .shuffle(shuffle)
                .generator(Generator::new(5));
            let batches = sampler.indices()?;
            assert_eq!(batches.len(), Sampler::len(&sampler));
            let mut all: Vec<_> = batches.iter().flatten().copied().collect();
            all.sort();
            assert_eq!(all, (0..23).collect::<Vec<_>>());
            let full = sampler.clone().drop_last(true);
            assert_eq!(full.indices()?.len(), Sampler::len(&full));
            assert_eq!(Sampler::len(&full), 5);
        }
        let state = BucketBatchSampler::new(&lengths, 4)?.generator(Generator::new(5));
        let before = state.state();
        let first = state.indices()?;
        state.set_state(&before)?;
        assert_eq!(state.indices()?, first);
        assert!(BucketBatchSampler::new(&lengths, 0).is_err());
        Ok(())
    }
}
