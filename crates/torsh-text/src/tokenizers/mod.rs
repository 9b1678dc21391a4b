//! Tokenizers: `tokenizer.json` and the files that came before it, vocabularies, chat templates, training.
//!
//! * [`Tokenizer`] cuts texts into tokens and numbers them, as Hugging Face's `tokenizers` does, and turns numbers back
//!   into text: [`Tokenizer::from_file`], [`Tokenizer::from_pretrained`], [`Tokenizer::encode`],
//!   [`Tokenizer::encode_batch`], [`Tokenizer::decode`].
//! * [`Tokenizer::train`] learns a WordPiece, BPE or Unigram vocabulary from texts.
//! * [`Tokenizer::apply_chat_template`] writes a conversation as the model has learned to read it.
//! * [`Vocab`], [`build_vocab_from_iterator`], [`get_tokenizer`], [`ngrams_iterator`] and [`to_tensor`] are torchtext's.
//!
//! ```
//! use torsh_text::tokenizers::{EncodeOptions, PaddingStrategy, TokenizerModel, Tokenizer, TrainOptions};
//!
//! let texts = ["low lower lowest", "new newer newest", "low new"];
//! let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(60);
//! let tokenizer = Tokenizer::train(texts, &options)?;
//!
//! assert_eq!(tokenizer.tokenize("Newest, low")?, ["newest", "[UNK]", "low"]);
//! let encoding = tokenizer.encode("low")?;
//! assert_eq!(encoding.tokens, ["[CLS]", "low", "[SEP]"]);
//! assert_eq!(encoding.offsets, [(0, 0), (0, 3), (0, 0)]);
//!
//! let options = EncodeOptions::new().padding(PaddingStrategy::Longest);
//! let batch = tokenizer.encode_batch(&["low", "new low"], &options)?;
//! let inputs = batch.to_tensors()?;
//! assert_eq!(inputs.input_ids.dims(), [2, 4]);
//! assert_eq!(inputs.attention_mask.to_vec::<i64>()?, [1, 1, 1, 0, 1, 1, 1, 1]);
//! assert_eq!(tokenizer.decode(&batch[1].ids, true)?, "new low");
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod chat;
mod chat_value;
mod check;
mod encoding;
mod files;
mod folder;
mod jinja;
mod legacy;
mod pipeline;
mod precompiled;
mod protobuf;
mod python;
mod sentencepiece;
mod special;
mod stream;
mod strftime;
mod tokenizer;
mod train;
mod vocab;
mod words;

pub use chat::{ChatMessage, ChatOptions, ChatTemplates};
pub use chat_value::ChatValue;
pub use encoding::{
    BatchEncoding, EncodeOptions, Encoding, PaddingStrategy, Side, TokenTensors, TruncationStrategy,
};
pub use special::SpecialTokens;
pub use stream::DecodeStream;
pub use tokenizer::Tokenizer;
pub use train::{TokenizerModel, TrainOptions};
pub use vocab::{Vocab, VocabOptions, build_vocab_from_iterator, vocab};
pub use words::{WordTokenizer, get_tokenizer, ngrams_iterator, to_tensor};
