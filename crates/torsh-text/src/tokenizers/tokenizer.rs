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

impl Tokenizer {
    /// The tokenizer of a `tokenizer.json`. Settings of other files (special tokens, the chat template) are those of
    /// [`Tokenizer::from_pretrained`]; here the special tokens are known by their usual names (`[PAD]`, `<s>`, ..).
    ///
    /// # Errors
    /// A file that cannot be read, that is larger than 128 MiB, that is not JSON, or that does not describe a tokenizer:
    /// the error names the file and the field.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = files::read("Tokenizer", path)?;
        files::parse_tokenizer(&bytes, &path.display().to_string())
    }

    /// [`Tokenizer::from_file`] of a file in memory.
    ///
    /// # Errors
    /// As there.
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

    /// A tokenizer whose vocabulary is learned from texts.
    ///
    /// # Errors
    /// A vocabulary that is too small for the special tokens and the characters, and texts without a word.
    #[torsh_tensor::names_caller(Self)]
    pub fn train<I, S>(texts: I, options: &TrainOptions) -> Result<Self>
    where
        I: IntoIterator<Item = S>,
        I::IntoIter: Send,
        S: AsRef<str> + Send,
    {
        train::train(texts.into_iter(), options)
    }

    /// The tokens of a text, without special ones.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    #[torsh_tensor::names_caller]
    pub fn tokenize(&self, text: &str) -> Result<Vec<String>> {
        let options = EncodeOptions::new().add_special_tokens(false);
        Ok(self.encode_with(text, &options)?.tokens)
    }

    /// The whole text as tokens, with the special ones that the model wants around it.
    ///
    /// # Errors
    /// A text with parts that are not in the vocabulary, where the tokenizer has no token for unknown parts.
    #[track_caller]
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        self.encode_with(text, &EncodeOptions::new())
    }

    /// [`Tokenizer::encode`] with options.
    ///
    /// # Errors
    /// As there, and options that do not go together: a `max_length` that leaves no place for the text, a `stride` that
    /// is not smaller than what is left, padding without a padding token.
    #[torsh_tensor::names_caller]
    pub fn encode_with(&self, text: &str, options: &EncodeOptions) -> Result<Encoding> {
        self.one(Input::Text(text), None, options)
    }

    /// A pair of texts as one sequence of tokens, as `[CLS] a [SEP] b [SEP]`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    #[track_caller]
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        self.encode_pair_with(first, second, &EncodeOptions::new())
    }

    /// [`Tokenizer::encode_pair`] with options.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`].
    #[torsh_tensor::names_caller]
    pub fn encode_pair_with(
        &self,
        first: &str,
        second: &str,
        options: &EncodeOptions,
    ) -> Result<Encoding> {
        self.one(Input::Text(first), Some(Input::Text(second)), options)
    }

    /// A text that is cut into words already, such as a sentence of CoNLL: [`Encoding::word_ids`] has the number of the
    /// word that each token is a part of.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`].
    #[torsh_tensor::names_caller]
    pub fn encode_words(&self, words: &[&str], options: &EncodeOptions) -> Result<Encoding> {
        self.one(Input::Words(words), None, options)
    }

    /// Several texts, on all threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_with`]; the error names the number of the text.
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

    /// Several pairs of texts, on all threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_batch`].
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

    /// The text of token ids. `skip_special_tokens` leaves out what the tokenizer would have added itself.
    ///
    /// # Errors
    /// An id that no token has; the error says where it is.
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

    /// The texts of several lists of ids.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
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
    pub fn decode_stream(&self, skip_special_tokens: bool) -> DecodeStream {
        DecodeStream::new(self.clone(), skip_special_tokens)
    }

    /// The id of a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The size of the vocabulary without the tokens that were added to it, as in Hugging Face's library.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(false)
    }

    /// The size of the vocabulary with the tokens that were added to it (`len(tokenizer)`).
    pub fn len(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All tokens and their ids.
    pub fn vocab(&self) -> HashMap<String, u32> {
        self.inner.get_vocab(true)
    }

    /// The special tokens by their use.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.settings.special
    }

    /// Whether a token is special: [`Tokenizer::decode`] can leave it out.
    pub fn is_special_token(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }

    /// The id of the padding.
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

    /// The id of the token for what is not in the vocabulary.
    pub fn unk_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.unk)
    }

    /// The id of the token whose vector stands for the whole text.
    pub fn cls_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.cls)
    }

    /// The id of the token between two texts.
    pub fn sep_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.sep)
    }

    /// The id of the token that hides another one.
    pub fn mask_token_id(&self) -> Option<u32> {
        self.id_of(&self.settings.special.mask)
    }

    /// The ids of all special tokens, in ascending order.
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
    pub fn set_model_max_length(&mut self, length: impl Into<Option<usize>>) {
        self.settings.model_max_length = length.into();
    }

    /// The side on which batches are padded.
    pub fn padding_side(&self) -> Side {
        self.settings.padding_side
    }

    /// Sets the side on which batches are padded: a [`Side`], "left" or "right". What pads refuses another string.
    pub fn set_padding_side(&mut self, side: impl Into<Side>) {
        self.settings.padding_side = side.into();
    }

    /// The side on which texts are cut.
    pub fn truncation_side(&self) -> Side {
        self.settings.truncation_side
    }

    /// Sets the side on which texts are cut: a [`Side`], "left" or "right". What cuts refuses another string.
    pub fn set_truncation_side(&mut self, side: impl Into<Side>) {
        self.settings.truncation_side = side.into();
    }

    /// Makes a token of the vocabulary the padding.
    ///
    /// # Errors
    /// No such token.
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
    #[torsh_tensor::names_caller]
    pub fn add_tokens(&mut self, tokens: &[&str]) -> Result<usize> {
        self.add(tokens, false)
    }

    /// [`Tokenizer::add_tokens`] of special tokens, which [`Tokenizer::decode`] can leave out.
    ///
    /// # Errors
    /// As there.
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

    /// Whether special tokens within a text are read as plain text (`split_special_tokens`), as for texts of strangers.
    pub fn set_split_special_tokens(&mut self, split: bool) {
        Arc::make_mut(&mut self.inner).set_encode_special_tokens(split);
    }

    /// How many tokens [`Tokenizer::encode`] (or [`Tokenizer::encode_pair`]) adds.
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

    /// What `tokenizer.json` holds.
    ///
    /// # Errors
    /// None that is known.
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

    /// The templates that write conversations.
    pub fn chat_templates(&self) -> &ChatTemplates {
        &self.settings.templates
    }

    /// Sets the templates that write conversations.
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

    /// [`Tokenizer::apply_chat_template`] as tokens. The template writes the special tokens, so none are added.
    ///
    /// # Errors
    /// As there.
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
