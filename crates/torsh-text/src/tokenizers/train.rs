//! Vocabularies that are learned from texts.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tk::models::TrainerWrapper;
use tk::models::bpe::BpeTrainerBuilder;
use tk::models::unigram::UnigramTrainerBuilder;
use tk::models::wordlevel::WordLevelTrainerBuilder;
use tk::models::wordpiece::WordPieceTrainerBuilder;
use tokenizers as tk;
use torsh_tensor::{Result, TorshError};

use super::files;
use super::sentencepiece::template;
use super::tokenizer::{Tokenizer, guarded};

const OP: &str = "Tokenizer::train";

/// What kind of vocabulary is learned, and the tokenizer around it.
///
/// ```
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
/// let words = Tokenizer::train(["ab ac ab"], &TrainOptions::new(TokenizerModel::WordLevel))?;
/// assert_eq!(words.tokenize("ab ad")?, ["ab", "[UNK]"]);
/// // Of bytes, nothing is unknown.
/// let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(257);
/// assert_eq!(Tokenizer::train(["ab"], &options)?.tokenize("ad")?, ["a", "d"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenizerModel {
    /// BERT's: words at spaces and punctuation, cut into the longest pieces; `[CLS] .. [SEP]`.
    #[default]
    WordPiece,
    /// Byte pair encoding of characters; `▁` for spaces.
    Bpe,
    /// GPT-2's: byte pair encoding of bytes, which has no unknown text.
    ByteLevelBpe,
    /// T5's: the most probable pieces; `▁` for spaces, `</s>` at the end.
    Unigram,
    /// One token for each word.
    WordLevel,
}

/// How a tokenizer is trained. [`TrainOptions::new`] has what is usual for the kind of vocabulary.
///
/// ```
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
/// let texts = ["the cat sat on the mat", "the cat ate the rat"];
/// let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(280);
/// let tokenizer = Tokenizer::train(texts, &options)?;
/// assert_eq!(tokenizer.tokenize("the cat")?, ["the", "\u{120}cat"]);
/// let ids = tokenizer.encode("Ça va? 👍")?.ids;
/// assert_eq!(tokenizer.decode(&ids, true)?, "Ça va? 👍");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrainOptions {
    /// The kind of vocabulary.
    pub model: TokenizerModel,
    /// The most tokens of the vocabulary (30,000; 8,000 of Unigram).
    pub vocab_size: usize,
    /// How often a pair of pieces, or a word, must occur to become a token (0: as often as it takes).
    pub min_frequency: u64,
    /// The special tokens, which have the first ids.
    pub special_tokens: Vec<String>,
    /// The token for what is not in the vocabulary.
    pub unk_token: Option<String>,
    /// The most characters that are tokens of their own: the rarest are left out (all are in).
    pub limit_alphabet: Option<usize>,
    /// Characters that are tokens in any case.
    pub initial_alphabet: Vec<char>,
    /// The longest token in characters (16 of Unigram, else any).
    pub max_token_length: Option<usize>,
    /// Whether texts are read in lower case (WordPiece; false for the others).
    pub lowercase: bool,
    /// Whether accents are removed (where WordPiece reads lower case).
    pub strip_accents: Option<bool>,
    /// Whether a space is put before a text that has none, so that its first word is as any other (false; only of
    /// byte-level BPE).
    pub add_prefix_space: bool,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions::new(TokenizerModel::WordPiece)
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $ty:ty => $convert:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$name = torsh_tensor::options::convert($name, $convert);
            self
        }
    )*};
}

impl TrainOptions {
    /// Gives what is usual for a kind of vocabulary.
    ///
    /// ```
    /// use torsh_text::tokenizers::{TokenizerModel, TrainOptions};
    /// let options = TrainOptions::new(TokenizerModel::Unigram);
    /// assert_eq!(options.special_tokens, ["<pad>", "</s>", "<unk>"]);
    /// assert_eq!((options.vocab_size, options.lowercase), (8_000, false));
    /// ```
    pub fn new(model: TokenizerModel) -> Self {
        let (special, unk): (&[&str], _) = match model {
            TokenizerModel::WordPiece => (
                &["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                Some("[UNK]"),
            ),
            TokenizerModel::ByteLevelBpe => (&["<|endoftext|>"], None),
            TokenizerModel::Bpe | TokenizerModel::Unigram => {
                (&["<pad>", "</s>", "<unk>"], Some("<unk>"))
            }
            TokenizerModel::WordLevel => (&["[PAD]", "[UNK]"], Some("[UNK]")),
        };
        TrainOptions {
            model,
            vocab_size: match model {
                TokenizerModel::Unigram => 8_000,
                _ => 30_000,
            },
            min_frequency: 0,
            special_tokens: special.iter().map(|t| t.to_string()).collect(),
            unk_token: unk.map(str::to_string),
            limit_alphabet: None,
            initial_alphabet: Vec::new(),
            max_token_length: None,
            lowercase: model == TokenizerModel::WordPiece,
            strip_accents: None,
            add_prefix_space: false,
        }
    }

    setters! {
        /// The most tokens of the vocabulary.
        vocab_size: usize => |v| v;
        /// How often a pair of pieces, or a word, must occur to become a token.
        min_frequency: u64 => |v| v;
        /// The special tokens, which have the first ids.
        special_tokens: &[&str] => |v: &[&str]| v.iter().map(|t| t.to_string()).collect();
        /// The token for what is not in the vocabulary.
        unk_token: &str => |v: &str| Some(v.to_string());
        /// The most characters that are tokens of their own.
        limit_alphabet: usize => Some;
        /// Characters that are tokens in any case.
        initial_alphabet: &str => |v: &str| v.chars().collect();
        /// The longest token in characters.
        max_token_length: usize => Some;
        /// Whether texts are read in lower case.
        lowercase: bool => |v| v;
        /// Whether accents are removed.
        strip_accents: bool => Some;
        /// Whether a space is put before a text that has none.
        add_prefix_space: bool => |v| v;
    }

    fn unk(&self) -> Result<&str> {
        let unk = self
            .unk_token
            .as_deref()
            .filter(|t| self.special_tokens.iter().any(|special| special == t));
        unk.ok_or_else(|| {
            TorshError::invalid(
                OP,
                format!(
                    "the token for unknown parts, {:?}, is not among the special tokens {:?}",
                    self.unk_token.as_deref().unwrap_or(""),
                    self.special_tokens
                ),
            )
        })
    }

    /// The pipeline with an empty vocabulary.
    fn pipeline(&self) -> Result<Map<String, Value>> {
        let lowercase = self.lowercase.then(|| json!({ "type": "Lowercase" }));
        let strip = self.strip_accents.unwrap_or(false);
        let simple = |first: Vec<Value>| {
            let mut all = first;
            if strip {
                all.push(json!({ "type": "NFD" }));
                all.push(json!({ "type": "StripAccents" }));
            }
            all.extend(lowercase.clone());
            match all.is_empty() {
                true => Value::Null,
                false => json!({ "type": "Sequence", "normalizers": all }),
            }
        };
        let metaspace = json!({
            "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true,
        });
        let bytes = |prefix: bool, trim: bool| {
            json!({
                "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": true,
            })
        };
        let bpe = |unk: Value| {
            json!({
                "type": "BPE", "dropout": null, "unk_token": unk, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "vocab": {}, "merges": [],
            })
        };
        let (normalizer, pre_tokenizer, decoder, model) = match self.model {
            TokenizerModel::WordPiece => (
                json!({
                    "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                    "strip_accents": self.strip_accents, "lowercase": self.lowercase,
                }),
                json!({ "type": "BertPreTokenizer" }),
                json!({ "type": "WordPiece", "prefix": "##", "cleanup": true }),
                json!({
                    "type": "WordPiece", "unk_token": self.unk()?, "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 100, "vocab": {},
                }),
            ),
            TokenizerModel::Bpe => (
                simple(vec![json!({ "type": "NFKC" })]),
                metaspace.clone(),
                metaspace,
                bpe(self.unk()?.into()),
            ),
            TokenizerModel::ByteLevelBpe => (
                simple(Vec::new()),
                bytes(self.add_prefix_space, true),
                bytes(true, true),
                bpe(Value::Null),
            ),
            TokenizerModel::Unigram => {
                let spaces = json!({
                    "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " ",
                });
                (
                    simple(vec![json!({ "type": "NFKC" }), spaces]),
                    metaspace.clone(),
                    metaspace,
                    json!({ "type": "Unigram", "unk_id": 0, "vocab": [[self.unk()?, 0.0]] }),
                )
            }
            TokenizerModel::WordLevel => (
                simple(Vec::new()),
                json!({ "type": "Whitespace" }),
                Value::Null,
                json!({ "type": "WordLevel", "unk_token": self.unk()?, "vocab": {} }),
            ),
        };
        let processor = match self.model {
            TokenizerModel::ByteLevelBpe => bytes(true, false),
            _ => Value::Null,
        };
        let all = json!({
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder,
            "post_processor": processor, "model": model,
        });
        match all {
            Value::Object(fields) => Ok(fields),
            _ => Ok(Map::new()),
        }
    }

    fn trainer(&self) -> Result<TrainerWrapper> {
        let special: Vec<_> = self
            .special_tokens
            .iter()
            .map(|token| tk::AddedToken::from(token.clone(), true))
            .collect();
        let alphabet: HashSet<char> = self.initial_alphabet.iter().copied().collect();
        let built = |e: String| TorshError::invalid(OP, e);
        Ok(match self.model {
            TokenizerModel::WordPiece => {
                let mut trainer = WordPieceTrainerBuilder::new()
                    .show_progress(false)
                    .vocab_size(self.vocab_size)
                    .min_frequency(self.min_frequency)
                    .special_tokens(special)
                    .initial_alphabet(alphabet);
                if let Some(limit) = self.limit_alphabet {
                    trainer = trainer.limit_alphabet(limit);
                }
                trainer.build().into()
            }
            TokenizerModel::Bpe | TokenizerModel::ByteLevelBpe => {
                let mut alphabet = alphabet;
                if self.model == TokenizerModel::ByteLevelBpe {
                    // Every byte is a token, so no text is unknown.
                    let bytes = tk::pre_tokenizers::byte_level::ByteLevel::alphabet();
                    alphabet.extend(bytes);
                }
                let mut trainer = BpeTrainerBuilder::new()
                    .show_progress(false)
                    .vocab_size(self.vocab_size)
                    .min_frequency(self.min_frequency)
                    .special_tokens(special)
                    .max_token_length(self.max_token_length)
                    .initial_alphabet(alphabet);
                if let Some(limit) = self.limit_alphabet {
                    trainer = trainer.limit_alphabet(limit);
                }
                trainer.build().into()
            }
            TokenizerModel::Unigram => {
                let size = u32::try_from(self.vocab_size)
                    .map_err(|_| built(format!("vocab_size {} is too large", self.vocab_size)))?;
                let mut trainer = UnigramTrainerBuilder::default();
                trainer
                    .show_progress(false)
                    .vocab_size(size)
                    .special_tokens(special)
                    .unk_token(Some(self.unk()?.to_string()))
                    .max_piece_length(self.max_token_length.unwrap_or(16))
                    .initial_alphabet(alphabet.into_iter().collect());
                trainer.build().map_err(|e| built(e.to_string()))?.into()
            }
            TokenizerModel::WordLevel => {
                let trainer = WordLevelTrainerBuilder::default()
                    .show_progress(false)
                    .vocab_size(self.vocab_size)
                    .min_frequency(self.min_frequency)
                    .special_tokens(special)
                    .build();
                trainer.map_err(|e| built(e.to_string()))?.into()
            }
        })
    }
}

#[track_caller]
pub(super) fn train<I, S>(texts: I, options: &TrainOptions) -> Result<Tokenizer>
where
    I: Iterator<Item = S> + Send,
    S: AsRef<str> + Send,
{
    let special = options.special_tokens.len();
    if options.vocab_size <= special {
        return Err(TorshError::invalid(
            OP,
            format!(
                "a vocabulary of {} tokens has no place beside {special} special ones",
                options.vocab_size
            ),
        ));
    }
    let mut trainer = options.trainer()?;
    let tokenizer = files::from_fields(options.pipeline()?, "the tokenizer to train")?;
    let mut inner = (*tokenizer.inner).clone();
    let trained = guarded(OP, || {
        inner.train(&mut trainer, texts)?;
        Ok(())
    });
    trained.map_err(|e| match e {
        TorshError::Format(info) => TorshError::invalid(OP, info.message.clone()).with_hint(
            "are there words in the texts, and is vocab_size larger than the number of their characters?",
        ),
        e => e,
    })?;
    let json = guarded(OP, || inner.to_string(false))?;
    let mut fields = files::object(json.as_bytes(), "the trained tokenizer")?;
    if let Some(processor) = post_processor(&inner, options) {
        fields.insert("post_processor".into(), processor);
    }
    let mut tokenizer = files::from_fields(fields, "the trained tokenizer")?;
    if tokenizer.len() == special {
        return Err(TorshError::invalid(OP, "there is no word in the texts"));
    }
    if options.unk_token.is_some() {
        tokenizer.settings.special.unk = options.unk_token.clone();
    }
    Ok(tokenizer)
}

/// The special tokens around texts, where the vocabulary has those that are usual.
fn post_processor(inner: &tk::Tokenizer, options: &TrainOptions) -> Option<Value> {
    let id = |token: &str| inner.token_to_id(token).map(|id| id as usize);
    match options.model {
        TokenizerModel::WordPiece => template(
            &["[CLS]", "$A", "[SEP]"],
            &["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"],
            id,
        ),
        TokenizerModel::Unigram => template(&["$A", "</s>"], &["$A", "</s>", "$B:1", "</s>:1"], id),
        _ => return None,
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 4] = [
        "the quick brown fox jumps over the lazy dog",
        "the lazy dog sleeps, the quick fox jumps",
        "quick quick brown brown dogs",
        "a dog and a fox are lazy",
    ];

    #[test]
    fn every_kind_reads_back_what_it_has_learned() -> Result<()> {
        for (model, size) in [
            (TokenizerModel::WordPiece, 80),
            (TokenizerModel::Bpe, 80),
            (TokenizerModel::ByteLevelBpe, 300),
            (TokenizerModel::Unigram, 60),
            (TokenizerModel::WordLevel, 80),
        ] {
            let t = Tokenizer::train(TEXTS, &TrainOptions::new(model).vocab_size(size))?;
            assert!(t.len() <= size, "{model:?}: {}", t.len());
            for text in TEXTS {
                let text = text.replace(',', "");
                let ids = t.encode(&text)?.ids;
                assert_eq!(t.decode(&ids, true)?, text, "{model:?}");
            }
            let again = Tokenizer::from_bytes(t.to_json()?)?;
            assert_eq!(again.to_json()?, t.to_json()?);
        }
        Ok(())
    }

    #[test]
    fn merges_are_the_most_frequent_pairs() -> Result<()> {
        let options = TrainOptions::new(TokenizerModel::Bpe).vocab_size(9);
        let t = Tokenizer::train(["ab ab ab ac", "ab"], &options)?;
        // <pad> </s> <unk> a b c and the space are there before.
        assert_eq!(t.id_to_token(7).as_deref(), Some("\u{2581}a"));
        assert_eq!(t.id_to_token(8).as_deref(), Some("\u{2581}ab"));
        assert_eq!(
            t.encode("ab ad")?.tokens,
            ["\u{2581}ab", "\u{2581}a", "<unk>"]
        );
        Ok(())
    }

    #[test]
    fn what_cannot_be_learned_is_an_error() {
        let train = |texts: &[&str], options: TrainOptions| match Tokenizer::train(texts, &options)
        {
            Ok(_) => "no error".to_string(),
            Err(e) => e.to_string(),
        };
        let options = TrainOptions::new(TokenizerModel::WordPiece);
        assert!(train(&["a"], options.clone().vocab_size(5)).contains("no place"));
        assert!(train(&["a"], options.clone().unk_token("x")).contains("\"x\""));
        for model in [
            TokenizerModel::WordPiece,
            TokenizerModel::Bpe,
            TokenizerModel::Unigram,
        ] {
            let e = train(&[], TrainOptions::new(model));
            assert!(e.contains("word"), "{model:?}: {e}");
        }
    }
}
