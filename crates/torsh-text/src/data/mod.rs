//! Text data: readers of files and of data sets on disk, blocks, masks for language models, batches.
//!
//! Every reader is a [`torsh_data::Dataset`] with items of its own type:
//!
//! | reader | item |
//! |---|---|
//! | [`TextLines`] | a line |
//! | [`JsonLines`], [`CsvRows`] | a type of yours |
//! | [`Conll`] | [`TaggedSentence`]: CoNLL-2000 and CoNLL-2003 |
//! | [`Squad`] | [`SquadExample`]: SQuAD 1.1 and 2.0 |
//! | [`AgNews`] | [`NewsItem`] |
//! | [`Imdb`], [`Sst2`] | [`LabeledText`] |
//! | [`WikiText`] | a line; [`WikiText::articles`] |
//! | [`TranslationPairs`] | [`TranslationPair`] |
//!
//! [`pack_blocks`] cuts token ids into blocks of one length, [`mask_tokens`] hides tokens for masked language models,
//! [`collate`] pads the encodings of a batch, and [`BucketBatchSampler`] puts texts of similar lengths into a batch.
//!
//! ```
//! use torsh_data::DataLoader;
//! use torsh_text::data::pack_blocks;
//!
//! let blocks = pack_blocks(&[1, 2, 3, 4, 5, 6, 7], 3, 3)?;
//! let loader = DataLoader::builder(blocks).batch_size(2).build()?;
//! for batch in &loader {
//!     assert_eq!(batch.to_vec2::<i64>()?, [[1, 2, 3], [4, 5, 6]]);
//! }
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod batches;
mod blocks;
mod conll;
mod corpora;
mod files;
mod lines;
mod masking;
mod squad;
mod translation;

pub use batches::{
    BucketBatchSampler, CollateOptions, IGNORED, MaskedTokens, collate, collate_labeled,
    collate_tags,
};
pub use blocks::{TokenBlocks, join_documents, pack_blocks};
pub use conll::{Conll, TaggedSentence};
pub use corpora::{AgNews, Article, Imdb, LabeledText, NewsItem, Split, Sst2, WikiText};
pub use lines::{CsvOptions, CsvRows, JsonLines, TextLines};
pub use masking::{MaskingOptions, mask_tokens};
pub use squad::{Squad, SquadAnswer, SquadExample};
pub use translation::{TranslationPair, TranslationPairs};
