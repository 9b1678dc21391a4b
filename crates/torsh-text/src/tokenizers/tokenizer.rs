//! The tokenizer.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use tk::tokenizer::PostProcessor as _;
use tokenizers as tk;
use torsh_tensor::{Result, TorshError};

use super::encoding::{BatchEncoding, EncodeOptions, Encoding, Input, Side};
use super::special::SpecialTokens;
use super::{ChatMessage, ChatOptions, ChatTemplates, DecodeStream, TrainOptions};
use super::{chat, files, folder, sentencepiece, train};

/// Cuts texts into tokens, numbers them, and turns numbers back into text, as Hugging Face's `AutoTokenizer` and
/// `tokenizers.Tokenizer` do. A clone shares the vocabulary.
///
/// ```
/// use torsh_text::tokenizers::Tokenizer;
///
/// let json = br#"{
///     "added_tokens": [{ "id": 0, "content": "[UNK]", "special": true,
///                        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false }],
///     "normalizer": { "type": "Lowercase" },
///     "pre_tokenizer": { "type": "Whitespace" },
///     "model": { "type": "WordLevel", "unk_token": "[UNK]",
///                "vocab": { "[UNK]": 0, "hello": 1, "world": 2, ",": 3 } }
/// }"#;
/// let tokenizer = Tokenizer::from_bytes(json)?;
/// let encoding = tokenizer.encode("Hello, Welt")?;
/// assert_eq!(encoding.ids, [1, 3, 0]);
/// assert_eq!(encoding.offsets, [(0, 5), (5, 6), (7, 11)]);
/// assert_eq!(tokenizer.decode(&[1, 0, 2], true)?, "hello world");
/// assert_eq!(tokenizer.token_to_id("world"), Some(2));
///
/// let error = Tokenizer::from_bytes(br#"{ "model": { "type": "BPE", "vocab": {}, "merges": ["a b"] } }"#);
/// assert!(error.err().is_some_and(|e| e.to_string().contains("model.merges[0]")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    pub(super) inner: Arc<tk::Tokenizer>,
    pub(super) settings: Settings,
}

/// What a tokenizer has besides its pipeline: mostly the fields of `tokenizer_config.json`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub special: SpecialTokens,
    pub model_max_length: Option<usize>,
    pub padding_side: Side,
    pub truncation_side: Side,
    /// Whether decoding removes spaces before punctuation.
    pub clean_up: bool,
    pub class: Option<String>,
    pub templates: ChatTemplates,
}

/// The example of a method: what a tokenizer of three words gives.
macro_rules! example {
    ($shows:literal) => {
        example!("let tokenizer", $shows)
    };
    (mut $shows:literal) => {
        example!("let mut tokenizer", $shows)
    };
    ($binding:literal, $shows:literal) => {
        concat!(
            "\n```\n# use torsh_text::tokenizers::{ChatMessage, ChatOptions, Encoding, Side};\n",
            "use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TrainOptions};\n",
            "// The tokens 0 to 4 are [PAD], [UNK], [CLS], [SEP] and [MASK], and a, b and c are behind them.\n",
            $binding, " = Tokenizer::train([\"a b c\"], &TrainOptions::default())?;\n",
            $shows, "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

impl Tokenizer {
    /// The tokenizer of a `tokenizer.json`. Settings of other files (special tokens, the chat template) are those of
    /// [`Tokenizer::from_pretrained`]; here the special tokens are known by their usual names (`[PAD]`, `<s>`, ..).
    ///
    /// # Errors
    /// A file that cannot be read, that is larger than 128 MiB, that is not JSON, or that does not describe a tokenizer:
    /// the error names the file and the field.
    #[doc = example!(
        "let path = std::env::temp_dir().join(format!(\"torsh-from-file-{}.json\", std::process::id()));\n\
         tokenizer.save(&path)?;\n\
         assert_eq!(Tokenizer::from_file(&path)?.encode(\"a b\")?.ids, [2, 5, 6, 3]);\n\
         # std::fs::remove_file(&path)?;"
    )]
    #[torsh_tensor::names_caller(Self)]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = files::read("Tokenizer", path)?;
        files::parse_tokenizer(&bytes, &path.display().to_string())
    }

    /// Makes the tokenizer of a `tokenizer.json` in memory, as [`Tokenizer::from_file`] does.
    ///
    /// # Errors
    /// As there.
    #[doc = example!(
        "let again = Tokenizer::from_bytes(tokenizer.to_json()?)?;\n\
         assert_eq!(again.encode(\"a b\")?.ids, [2, 5, 6, 3]);"
    )]
    #[torsh_tensor::names_caller(Self)]
    pub fn from_bytes(json: impl AsRef<[u8]>) -> Result<Self> {
        files::parse_tokenizer(json.as_ref(), "tokenizer.json")
    }

    /// The tokenizer of a folder or of a repository such as `org/name`: of its `tokenizer.json`, else of `vocab.txt`
    /// (WordPiece), of `vocab.json` and `merges.txt` (byte-level BPE), or of a SentencePiece model (`spiece.model`,
    /// `tokenizer.model`, `sentencepiece.bpe.model`); with `tokenizer_config.json`, `special_tokens_map.json`,
    /// `added_tokens.json` and the chat templates that are there.
    ///
    /// # Errors
    /// No such folder or repository, none of these files, or a file that is broken; the error names the file and field.
    #[doc = example!(
        mut "tokenizer.set_model_max_length(3);\n\
         let folder = std::env::temp_dir().join(format!(\"torsh-from-pretrained-{}\", std::process::id()));\n\
         tokenizer.save_pretrained(&folder)?;\n\
         let again = Tokenizer::from_pretrained(folder.to_string_lossy())?;\n\
         assert_eq!((again.model_max_length(), again.cls_token_id()), (Some(3), Some(2)));\n\
         # std::fs::remove_dir_all(&folder)?;"
    )]
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(source: impl AsRef<str>) -> Result<Self> {
        folder::load(source.as_ref())
    }

    /// The tokenizer of a SentencePiece model in memory (a unigram or BPE one), with the piece's numbers as they are.
    ///
    /// # Errors
    /// A file that is no such model; the error names the field.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_sentencepiece(model: impl AsRef<[u8]>) -> Result<Self> {
        sentencepiece::load(
            model.as_ref(),
            "SentencePiece model",
            None,
            &Default::default(),
        )
    }

    /// Learns a vocabulary from texts, and makes the tokenizer with it.
    ///
    /// # Errors
    /// A vocabulary that is too small for the special tokens and the characters, and texts without a word.
    #[doc = example!("assert_eq!((tokenizer.len(), tokenizer.id_to_token(7)), (8, Some(\"c\".to_string())));")]
    #[torsh_tensor::names_caller(Self)]
    pub fn train<I, S>(texts: I, options: &TrainOptions) -> Result<Self>
    where
        I: IntoIterator<Item = S>,
        I::IntoIter: Send,
        S: AsRef<str> + Send,
    {
        train::train(texts.into_iter(), options)
    }

    /// Gives the tokens of a text, without special ones around it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    #[doc = example!("assert_eq!(tokenizer.tokenize(\"A d\")?, [\"a\", \"[UNK]\"]);")]
    #[torsh_tensor::names_caller]
    pub fn tokenize(&self, text: &str) -> Result<Vec<String>> {
        let options = EncodeOptions::new().add_special_tokens(false);
        Ok(self.encode_with(text, &options)?.tokens)
    }

    /// Turns the whole text into tokens, with the special ones that the model wants around it.
    ///
    /// # Errors
    /// A text with parts that are not in the vocabulary, where the tokenizer has no token for unknown parts.
    #[doc = example!(
        "let encoding = tokenizer.encode(\"a b\")?;\n\
         assert_eq!((&encoding.ids[..], &encoding.offsets[1..3]), (&[2, 5, 6, 3][..], &[(0, 1), (2, 3)][..]));"
    )]
    #[track_caller]
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        self.encode_with(text, &EncodeOptions::new())
    }

    /// Encodes a text as [`Tokenizer::encode`] does, with options.
    ///
    /// # Errors
    /// As there, and options that do not go together: a `max_length` that leaves no place for the text, a `stride` that
    /// is not smaller than what is left, padding without a padding token.
    #[doc = example!(
        "let options = EncodeOptions::new().truncation(true).max_length(4);\n\
         assert_eq!(tokenizer.encode_with(\"a b c\", &options)?.ids, [2, 5, 6, 3]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_with(&self, text: &str, options: &EncodeOptions) -> Result<Encoding> {
        self.one(Input::Text(text), None, options)
    }

    /// Turns a pair of texts into one sequence of tokens, as `[CLS] a [SEP] b [SEP]`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    #[doc = example!(
        "let encoding = tokenizer.encode_pair(\"a\", \"b c\")?;\n\
         assert_eq!(encoding.ids, [2, 5, 3, 6, 7, 3]);\n\
         assert_eq!(encoding.type_ids, [0, 0, 0, 1, 1, 1]);"
    )]
    #[track_caller]
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        self.encode_pair_with(first, second, &EncodeOptions::new())
    }

    /// Encodes a pair as [`Tokenizer::encode_pair`] does, with options.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`].
    #[doc = example!(
        "let options = EncodeOptions::new().truncation(\"only_second\").max_length(5);\n\
         assert_eq!(tokenizer.encode_pair_with(\"a\", \"b c\", &options)?.ids, [2, 5, 3, 6, 3]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_pair_with(
        &self,
        first: &str,
        second: &str,
        options: &EncodeOptions,
    ) -> Result<Encoding> {
        self.one(Input::Text(first), Some(Input::Text(second)), options)
    }

    /// Encodes a text that is cut into words already, such as a sentence of CoNLL: [`Encoding::word_ids`] has the number
    /// of the word that each token is a part of.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`].
    #[doc = example!(
        "let encoding = tokenizer.encode_words(&[\"a\", \"b c\"], &EncodeOptions::new())?;\n\
         assert_eq!(encoding.ids, [2, 5, 6, 7, 3]);\n\
         assert_eq!(encoding.word_ids, [None, Some(0), Some(1), Some(1), None]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_words(&self, words: &[&str], options: &EncodeOptions) -> Result<Encoding> {
        self.one(Input::Words(words), None, options)
    }

    /// Encodes several texts, on all threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`]; the error names the number of the text.
    #[doc = example!(
        "let batch = tokenizer.encode_batch(&[\"a\", \"b c\"], &EncodeOptions::new().padding(true))?;\n\
         assert_eq!((&batch[0].ids, &batch[1].ids), (&vec![2, 5, 3, 0], &vec![2, 6, 7, 3]));"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_batch<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        options: &EncodeOptions,
    ) -> Result<BatchEncoding> {
        let inputs: Vec<_> = texts
            .iter()
            .map(|text| (Input::Text(text.as_ref()), None))
            .collect();
        self.many(&inputs, options)
    }

    /// Encodes several pairs of texts, on all threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_batch`].
    #[doc = example!(
        "let batch = tokenizer.encode_pairs(&[(\"a\", \"b\"), (\"a\", \"b c\")], &EncodeOptions::new())?;\n\
         assert_eq!(batch[1].ids, [2, 5, 3, 6, 7, 3]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_pairs<A: AsRef<str> + Sync, B: AsRef<str> + Sync>(
        &self,
        pairs: &[(A, B)],
        options: &EncodeOptions,
    ) -> Result<BatchEncoding> {
        let inputs: Vec<_> = pairs
            .iter()
            .map(|(a, b)| (Input::Text(a.as_ref()), Some(Input::Text(b.as_ref()))))
            .collect();
        self.many(&inputs, options)
    }

    /// Gives the text of token ids. `skip_special_tokens` leaves out what the tokenizer would have added itself.
    ///
    /// # Errors
    /// An id that no token has; the error says where it is.
    #[doc = example!(
        "assert_eq!(tokenizer.decode(&[2, 5, 6, 3], true)?, \"a b\");\n\
         assert_eq!(tokenizer.decode(&[2, 5, 6, 3], false)?, \"[CLS] a b [SEP]\");\n\
         assert!(tokenizer.decode(&[5, 9], true).is_err_and(|e| e.to_string().contains(\"token 9 at position 1\")));"
    )]
    #[torsh_tensor::names_caller]
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        const OP: &str = "decode";
        if let Some(at) = ids.iter().position(|id| !self.has_id(*id)) {
            return Err(TorshError::index(
                OP,
                format!(
                    "token {} at position {at} is not in the vocabulary of {} tokens",
                    ids[at],
                    self.len()
                ),
            )
            .with_hint("is this the tokenizer of the model that made the ids?"));
        }
        let text = guarded(OP, || self.inner.decode(ids, skip_special_tokens))?;
        let bpe = matches!(self.inner.get_model(), tk::ModelWrapper::BPE(_));
        Ok(match self.settings.clean_up && !bpe {
            true => clean_up(&text),
            false => text,
        })
    }

    /// Gives the texts of several lists of ids.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    #[doc = example!("assert_eq!(tokenizer.decode_batch(&[vec![2u32, 5, 3], vec![6, 7]], true)?, [\"a\", \"b c\"]);")]
    #[torsh_tensor::names_caller]
    pub fn decode_batch<I: AsRef<[u32]>>(
        &self,
        ids: &[I],
        skip_special_tokens: bool,
    ) -> Result<Vec<String>> {
        ids.iter()
            .map(|ids| self.decode(ids.as_ref(), skip_special_tokens))
            .collect()
    }

    /// Decodes tokens one by one, as a model makes them: pieces of text that never split a character.
    #[doc = example!(
        "let mut stream = tokenizer.decode_stream(true);\n\
         assert_eq!((stream.step(5)?, stream.step(6)?), (Some(\"a\".to_string()), Some(\" b\".to_string())));"
    )]
    pub fn decode_stream(&self, skip_special_tokens: bool) -> DecodeStream {
        DecodeStream::new(self.clone(), skip_special_tokens)
    }

    /// Gives the id of a token, where the vocabulary has it.
    #[doc = example!("assert_eq!((tokenizer.token_to_id(\"b\"), tokenizer.token_to_id(\"d\")), (Some(6), None));")]
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Gives the token of an id, where the vocabulary has it.
    #[doc = example!("assert_eq!((tokenizer.id_to_token(6).as_deref(), tokenizer.id_to_token(8)), (Some(\"b\"), None));")]
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Counts the tokens of the vocabulary without those that were added to it, as in Hugging Face's library.
    #[doc = example!(
        mut "tokenizer.add_tokens(&[\"d\"])?;\n\
         assert_eq!((tokenizer.vocab_size(), tokenizer.len()), (8, 9));"
    )]
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(false)
    }

    /// Counts the tokens of the vocabulary with those that were added to it (`len(tokenizer)`).
    #[doc = example!(
        mut "tokenizer.add_tokens(&[\"d\", \"e\"])?;\n\
         assert_eq!(tokenizer.len(), 10);"
    )]
    pub fn len(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives all tokens and their ids.
    #[doc = example!("assert_eq!(tokenizer.vocab()[\"b\"], 6);")]
    pub fn vocab(&self) -> HashMap<String, u32> {
        self.inner.get_vocab(true)
    }

    /// Gives the special tokens by their use.
    #[doc = example!(
        "let special = tokenizer.special_tokens();\n\
         assert_eq!((special.cls.as_deref(), special.bos.as_deref()), (Some(\"[CLS]\"), None));"
    )]
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.settings.special
    }

    /// Whether a token is special: [`Tokenizer::decode`] can leave it out.
    #[doc = example!("assert!(tokenizer.is_special_token(\"[SEP]\") && !tokenizer.is_special_token(\"a\"));")]
    pub fn is_special_token(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }

    /// Gives the id of the padding, where the tokenizer has one.
    #[doc = example!("assert_eq!(tokenizer.pad_token_id(), Some(0));")]
    pub fn pad_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.pad)
    }

    /// The id of the token at the beginning of a text.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.bos)
    }

    /// The id of the token at the end of a text.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.eos)
    }

    /// Gives the id of the token for what is not in the vocabulary.
    #[doc = example!(
        "assert_eq!(tokenizer.unk_token_id(), Some(1));\n\
         assert_eq!(tokenizer.encode(\"d\")?.ids, [2, 1, 3]);"
    )]
    pub fn unk_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.unk)
    }

    /// Gives the id of the token whose vector stands for the whole text.
    #[doc = example!("assert_eq!(tokenizer.cls_token_id(), Some(2));")]
    pub fn cls_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.cls)
    }

    /// Gives the id of the token between two texts.
    #[doc = example!("assert_eq!(tokenizer.sep_token_id(), Some(3));")]
    pub fn sep_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.sep)
    }

    /// Gives the id of the token that hides another one.
    #[doc = example!("assert_eq!(tokenizer.mask_token_id(), Some(4));")]
    pub fn mask_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.mask)
    }

    /// Gives the ids of all special tokens, in ascending order.
    #[doc = example!("assert_eq!(tokenizer.all_special_ids(), [0, 1, 2, 3, 4]);")]
    pub fn all_special_ids(&self) -> Vec<u32> {
        let added = self.inner.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special);
        let mut ids: Vec<u32> = special.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// The most tokens that the model reads, where the files say it.
    pub fn model_max_length(&self) -> Option<usize> {
        self.settings.model_max_length
    }

    /// Sets the most tokens that the model reads, at which [`EncodeOptions::truncation`] cuts.
    #[doc = example!(
        mut "tokenizer.set_model_max_length(3);\n\
         let cut = tokenizer.encode_with(\"a b c\", &EncodeOptions::new().truncation(true))?;\n\
         assert_eq!((cut.ids, tokenizer.model_max_length()), (vec![2, 5, 3], Some(3)));"
    )]
    pub fn set_model_max_length(&mut self, length: impl Into<Option<usize>>) {
        self.settings.model_max_length = length.into();
    }

    /// The side on which batches are padded.
    pub fn padding_side(&self) -> Side {
        self.settings.padding_side
    }

    /// Sets the side on which batches are padded: a [`Side`], "left" or "right". What pads refuses another string.
    #[doc = example!(
        mut "tokenizer.set_padding_side(\"left\");\n\
         assert_eq!(tokenizer.padding_side(), Side::Left);\n\
         let batch = tokenizer.encode_batch(&[\"a\", \"b c\"], &EncodeOptions::new().padding(true))?;\n\
         assert_eq!(batch[0].ids, [0, 2, 5, 3]);"
    )]
    pub fn set_padding_side(&mut self, side: impl Into<Side>) {
        self.settings.padding_side = side.into();
    }

    /// The side on which texts are cut.
    pub fn truncation_side(&self) -> Side {
        self.settings.truncation_side
    }

    /// Sets the side on which texts are cut: a [`Side`], "left" or "right". What cuts refuses another string.
    #[doc = example!(
        mut "tokenizer.set_truncation_side(\"left\");\n\
         assert_eq!(tokenizer.truncation_side(), Side::Left);\n\
         let options = EncodeOptions::new().truncation(true).max_length(4);\n\
         assert_eq!(tokenizer.encode_with(\"a b c\", &options)?.ids, [2, 6, 7, 3]);"
    )]
    pub fn set_truncation_side(&mut self, side: impl Into<Side>) {
        self.settings.truncation_side = side.into();
    }

    /// Makes a token of the vocabulary the padding.
    ///
    /// # Errors
    /// No such token.
    #[doc = example!(
        mut "tokenizer.set_pad_token(\"[MASK]\")?;\n\
         assert_eq!(tokenizer.pad_token_id(), Some(4));\n\
         assert!(tokenizer.set_pad_token(\"d\").is_err_and(|e| e.to_string().contains(\"\\\"d\\\" is not in the vocabulary\")));"
    )]
    #[torsh_tensor::names_caller]
    pub fn set_pad_token(&mut self, token: &str) -> Result<()> {
        match self.token_to_id(token) {
            Some(_) => self.settings.special.pad = Some(token.to_string()),
            None => {
                return Err(TorshError::invalid(
                    "set_pad_token",
                    format!("{token:?} is not in the vocabulary"),
                )
                .with_hint(
                    "add it with add_special_tokens(&[..]), or take one that is there, as the end of text",
                ));
            }
        }
        Ok(())
    }

    /// Adds tokens to the vocabulary, which texts are cut at before anything else is done; how many were new.
    ///
    /// # Errors
    /// Tokens that cannot be told apart, as two whose normal form is the same.
    #[doc = example!(
        mut "assert_eq!(tokenizer.add_tokens(&[\"d\"])?, 1);\n\
         assert_eq!(tokenizer.encode(\"a d\")?.ids, [2, 5, 8, 3]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn add_tokens(&mut self, tokens: &[&str]) -> Result<usize> {
        self.add(tokens, false)
    }

    /// Adds special tokens as [`Tokenizer::add_tokens`] adds others, which [`Tokenizer::decode`] can leave out.
    ///
    /// # Errors
    /// As there.
    #[doc = example!(
        mut "assert_eq!(tokenizer.add_special_tokens(&[\"<x>\"])?, 1);\n\
         assert_eq!(tokenizer.encode(\"a<x>b\")?.ids, [2, 5, 8, 6, 3]);\n\
         assert_eq!(tokenizer.decode(&[5, 8, 6], true)?, \"a b\");"
    )]
    #[torsh_tensor::names_caller]
    pub fn add_special_tokens(&mut self, tokens: &[&str]) -> Result<usize> {
        self.add(tokens, true)
    }

    fn add(&mut self, tokens: &[&str], special: bool) -> Result<usize> {
        let tokens: Vec<_> = tokens
            .iter()
            .map(|token| tk::AddedToken::from(*token, special))
            .collect();
        self.add_all(tokens)
    }

    pub(super) fn add_all(&mut self, tokens: Vec<tk::AddedToken>) -> Result<usize> {
        let before = self.len();
        // The new vocabulary takes the place of the old one only where all went well.
        let mut inner = (*self.inner).clone();
        guarded("add_tokens", || inner.add_tokens(tokens))?;
        self.inner = Arc::new(inner);
        Ok(self.len() - before)
    }

    /// Sets whether special tokens within a text are read as plain text (`split_special_tokens`), as for texts of
    /// strangers.
    #[doc = example!(
        mut "assert_eq!(tokenizer.encode(\"[MASK]\")?.ids, [2, 4, 3]);\n\
         tokenizer.set_split_special_tokens(true);\n\
         assert!(!tokenizer.encode(\"[MASK]\")?.ids.contains(&4));"
    )]
    pub fn set_split_special_tokens(&mut self, split: bool) {
        Arc::make_mut(&mut self.inner).set_encode_special_tokens(split);
    }

    /// Says how many tokens [`Tokenizer::encode`] (or [`Tokenizer::encode_pair`]) adds.
    #[doc = example!("assert_eq!([false, true].map(|pair| tokenizer.num_special_tokens_to_add(pair)), [2, 3]);")]
    pub fn num_special_tokens_to_add(&self, pair: bool) -> usize {
        let processor = self.inner.get_post_processor();
        processor.map_or(0, |p| p.added_tokens(pair))
    }

    /// The truncation and the padding that `tokenizer.json` asks for. As in Hugging Face's library they are not used
    /// unless they are passed.
    pub fn file_options(&self) -> EncodeOptions {
        files::options(&self.inner)
    }

    /// Writes a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be written.
    #[torsh_tensor::names_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        torsh_serialize::write_bytes(path.as_ref(), self.to_json()?.as_bytes())
    }

    /// Gives what `tokenizer.json` holds.
    ///
    /// # Errors
    /// None that is known.
    #[doc = example!(
        "let json: serde_json::Value = serde_json::from_str(&tokenizer.to_json()?).expect(\"it is JSON\");\n\
         assert_eq!(json[\"model\"][\"type\"], \"WordPiece\");\n\
         assert_eq!(json[\"model\"][\"vocab\"][\"b\"], 6);"
    )]
    #[torsh_tensor::names_caller]
    pub fn to_json(&self) -> Result<String> {
        guarded("Tokenizer::save", || self.inner.to_string(true))
    }

    /// Writes `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and the chat templates to a folder,
    /// which Python's library reads.
    ///
    /// # Errors
    /// A file that cannot be written.
    #[torsh_tensor::names_caller]
    pub fn save_pretrained(&self, folder: impl AsRef<Path>) -> Result<()> {
        folder::save(self, folder.as_ref())
    }

    /// Gives the templates that write conversations.
    #[doc = example!(
        mut "assert_eq!(tokenizer.chat_templates().default, None);\n\
         tokenizer.set_chat_template(\"{{ messages[0].content }}\");\n\
         assert_eq!(tokenizer.chat_templates().default.as_deref(), Some(\"{{ messages[0].content }}\"));"
    )]
    pub fn chat_templates(&self) -> &ChatTemplates {
        &self.settings.templates
    }

    /// Sets the templates that write conversations.
    #[doc = example!(
        mut "tokenizer.set_chat_template(\"{% for m in messages %}{{ m.content }} {% endfor %}\");\n\
         let chat = [ChatMessage::user(\"a\"), ChatMessage::assistant(\"b\")];\n\
         assert_eq!(tokenizer.apply_chat_template(&chat, &ChatOptions::new())?, \"a b \");"
    )]
    pub fn set_chat_template(&mut self, template: impl Into<ChatTemplates>) {
        self.settings.templates = template.into();
    }

    /// A conversation as the text that the model has learned to read, with its control tokens.
    ///
    /// # Errors
    /// No template, one that is wrong (with its line), one that refuses the conversation (`raise_exception`), and no
    /// message.
    ///
    /// ```
    /// use torsh_text::tokenizers::{ChatMessage, ChatOptions, Tokenizer};
    ///
    /// # let json = br#"{ "model": { "type": "WordLevel", "unk_token": "a", "vocab": { "a": 0 } } }"#;
    /// let mut tokenizer = Tokenizer::from_bytes(json)?;
    /// tokenizer.set_chat_template(
    ///     "{% for m in messages %}<|{{ m.role }}|>{{ m['content'].strip() }}\n{% endfor %}\
    ///      {% if add_generation_prompt %}<|assistant|>{% endif %}",
    /// );
    /// let chat = [ChatMessage::user(" Hello! ")];
    /// let options = ChatOptions::new().add_generation_prompt(true);
    /// assert_eq!(tokenizer.apply_chat_template(&chat, &options)?, "<|user|>Hello!\n<|assistant|>");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn apply_chat_template(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
    ) -> Result<String> {
        chat::apply(&self.settings, messages, options)
    }

    /// Writes a conversation as [`Tokenizer::apply_chat_template`] does, and encodes it. The template writes the special
    /// tokens, so none are added.
    ///
    /// # Errors
    /// As there.
    #[doc = example!(
        mut "tokenizer.set_chat_template(\"{% for m in messages %}{{ m.content }} {% endfor %}\");\n\
         let chat = [ChatMessage::user(\"a\"), ChatMessage::assistant(\"b\")];\n\
         assert_eq!(tokenizer.encode_chat(&chat, &ChatOptions::new())?.ids, [5, 6]);"
    )]
    #[torsh_tensor::names_caller]
    pub fn encode_chat(&self, messages: &[ChatMessage], options: &ChatOptions) -> Result<Encoding> {
        let text = self.apply_chat_template(messages, options)?;
        self.encode_with(&text, &EncodeOptions::new().add_special_tokens(false))
    }

    fn id_of(&self, token: &Option<String>) -> Option<u32> {
        token.as_ref().and_then(|t| self.token_to_id(t))
    }

    fn has_id(&self, id: u32) -> bool {
        self.inner.id_to_token(id).is_some()
    }
}

/// Removes the spaces that cutting at punctuation has made.
fn clean_up(text: &str) -> String {
    const PAIRS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    let mut text = text.to_string();
    for (from, to) in PAIRS {
        text = text.replace(from, to);
    }
    text
}

/// Calls the library, whose errors and panics become errors of `op`. What can make it panic is checked when a tokenizer
/// is read; this is for what nobody has thought of.
pub(super) fn guarded<T>(op: &'static str, f: impl FnOnce() -> tk::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(TorshError::invalid(op, files::short(&e.to_string()))),
        Err(panic) => {
            let why = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
                (Some(text), _) => files::short(text),
                (_, Some(text)) => files::short(text),
                _ => "for an unknown reason".to_string(),
            };
            Err(TorshError::format(
                op,
                format!("the tokenizer's parts do not fit together: {why}"),
            ))
        }
    }
}

#[cfg(test)]
#[path = "tokenizer_tests.rs"]
mod tests;
