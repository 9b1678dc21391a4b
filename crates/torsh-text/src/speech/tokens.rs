//! The special tokens of Whisper.

use torsh_tensor::{Result, TorshError};

use crate::tokenizers::Tokenizer;

/// The languages of multilingual models, by code and name, in the order of their tokens.
const LANGUAGES: &str = "en english,zh chinese,de german,es spanish,ru russian,ko korean,fr french,ja japanese,\
    pt portuguese,tr turkish,pl polish,ca catalan,nl dutch,ar arabic,sv swedish,it italian,id indonesian,hi hindi,\
    fi finnish,vi vietnamese,he hebrew,uk ukrainian,el greek,ms malay,cs czech,ro romanian,da danish,hu hungarian,\
    ta tamil,no norwegian,th thai,ur urdu,hr croatian,bg bulgarian,lt lithuanian,la latin,mi maori,ml malayalam,\
    cy welsh,sk slovak,te telugu,fa persian,lv latvian,bn bengali,sr serbian,az azerbaijani,sl slovenian,kn kannada,\
    et estonian,mk macedonian,br breton,eu basque,is icelandic,hy armenian,ne nepali,mn mongolian,bs bosnian,\
    kk kazakh,sq albanian,sw swahili,gl galician,mr marathi,pa punjabi,si sinhala,km khmer,sn shona,yo yoruba,\
    so somali,af afrikaans,oc occitan,ka georgian,be belarusian,tg tajik,sd sindhi,gu gujarati,am amharic,yi yiddish,\
    lo lao,uz uzbek,fo faroese,ht haitian creole,ps pashto,tk turkmen,nn nynorsk,mt maltese,sa sanskrit,\
    lb luxembourgish,my myanmar,bo tibetan,tl tagalog,mg malagasy,as assamese,tt tatar,haw hawaiian,ln lingala,\
    ha hausa,ba bashkir,jw javanese,su sundanese,yue cantonese";

/// The names of tokens that are no text, beside the languages'.
const NAMES: [&str; 10] = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|nocaptions|>",
    "<|notimestamps|>",
    "<|pad|>",
];

/// The ids of the tokens that tell Whisper what to do.
///
/// ```
/// use torsh_text::speech::WhisperTokens;
/// use torsh_text::tokenizers::Tokenizer;
/// let names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
///     "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"];
/// let mut tokenizer = Tokenizer::from_bytes(br#"{ "model": { "type": "WordLevel", "unk_token": "a", "vocab": { "a": 0 } } }"#)?;
/// tokenizer.add_special_tokens(&names)?;
/// let tokens = WhisperTokens::new(&tokenizer, 1512)?;
/// assert_eq!((tokens.end_of_text, tokens.no_timestamps, tokens.timestamp_begin), (1, 10, 11));
/// assert_eq!(tokens.language("german")?, 4);
/// assert_eq!(tokens.seconds(61), Some(1.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhisperTokens {
    /// Ends a text.
    pub end_of_text: i64,
    /// Begins the transcript of 30 seconds.
    pub start_of_transcript: i64,
    /// Asks for a translation into English, in multilingual models.
    pub translate: Option<i64>,
    /// Asks for a transcript.
    pub transcribe: Option<i64>,
    /// Begins what was said before these seconds.
    pub start_of_previous: Option<i64>,
    /// Says that nobody speaks.
    pub no_speech: Option<i64>,
    /// Asks for a text without times.
    pub no_timestamps: i64,
    /// The time 0; those that follow are 0.02 seconds apart.
    pub timestamp_begin: i64,
    /// Whether the model knows languages other than English.
    pub multilingual: bool,
    /// The languages' codes and tokens.
    pub languages: Vec<(String, i64)>,
    /// The tokens ahead of the times that are no text, in ascending order. In Whisper's own vocabularies they are those from
    /// `end_of_text` on; a trained tokenizer may have them anywhere.
    pub special: Vec<i64>,
}

impl WhisperTokens {
    /// The tokens of a tokenizer, for a model with a vocabulary of this size.
    ///
    /// # Errors
    /// A tokenizer that is not Whisper's.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(tokenizer: &Tokenizer, vocab_size: usize) -> Result<WhisperTokens> {
        let find = |name: &str| tokenizer.token_to_id(name).map(i64::from);
        let needed = |name: &str| {
            find(name).ok_or_else(|| {
                TorshError::format("Whisper", format!("the tokenizer has no token {name}"))
                    .with_hint("is its tokenizer.json beside the model's weights?")
            })
        };
        let no_timestamps = needed("<|notimestamps|>")?;
        let timestamp_begin = find("<|0.00|>").unwrap_or(no_timestamps + 1);
        let languages = LANGUAGES.split(',').filter_map(|language| {
            let (code, _) = language.split_once(' ')?;
            Some((code.to_string(), find(&format!("<|{code}|>"))?))
        });
        // Tokenizers of English models have the tokens too; what tells the models apart is the first one's place.
        let end_of_text = needed("<|endoftext|>")?;
        let times = vocab_size as i64 - timestamp_begin;
        if times < 0 {
            return Err(TorshError::format(
                "Whisper",
                format!(
                    "the tokenizer has times from {timestamp_begin} on, and the model {vocab_size} tokens"
                ),
            ));
        }
        let named = NAMES.iter().filter_map(|name| find(name));
        let flagged = tokenizer.all_special_ids().into_iter().map(i64::from);
        let languages: Vec<(String, i64)> = languages.collect();
        let mut special: Vec<i64> = named
            .chain(flagged)
            .chain(languages.iter().map(|(_, id)| *id))
            .filter(|&id| id < timestamp_begin)
            .collect();
        special.sort_unstable();
        special.dedup();
        Ok(WhisperTokens {
            end_of_text,
            start_of_transcript: needed("<|startoftranscript|>")?,
            translate: find("<|translate|>"),
            transcribe: find("<|transcribe|>"),
            start_of_previous: find("<|startofprev|>"),
            no_speech: find("<|nospeech|>").or_else(|| find("<|nocaptions|>")),
            no_timestamps,
            timestamp_begin,
            multilingual: end_of_text != 50256,
            languages,
            special,
        })
    }

    /// Whether a token is text: neither a time nor special.
    ///
    /// ```
    /// use torsh_text::speech::WhisperTokens;
    /// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
    /// // A trained vocabulary begins with <|endoftext|>.
    /// let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(260);
    /// let mut tokenizer = Tokenizer::train(["a text"], &options)?;
    /// tokenizer.add_special_tokens(&["<|startoftranscript|>", "<|notimestamps|>"])?;
    /// let tokens = WhisperTokens::new(&tokenizer, tokenizer.len() + 100)?;
    /// let text = |id: i64| tokens.is_text(id);
    /// assert_eq!(tokens.end_of_text, 0);
    /// assert!(!text(0) && text(1) && !text(tokens.no_timestamps) && !text(tokens.timestamp_begin));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_text(&self, token: i64) -> bool {
        token < self.timestamp_begin && self.special.binary_search(&token).is_err()
    }

    /// The token of a language, by its code or its English name.
    ///
    /// # Errors
    /// A language that the model does not know; the error lists those that it does.
    #[torsh_tensor::names_caller]
    pub fn language(&self, name: &str) -> Result<i64> {
        let name = name.to_lowercase();
        let named = LANGUAGES.split(',').find_map(|language| {
            let (code, long) = language.split_once(' ')?;
            (long == name).then_some(code)
        });
        let code = named.unwrap_or(&name);
        let found = self.languages.iter().find(|(c, _)| c == code);
        found.map(|(_, id)| *id).ok_or_else(|| {
            let known: Vec<_> = self.languages.iter().map(|(code, _)| &**code).collect();
            TorshError::invalid("Whisper", format!("the language {name:?} is not known"))
                .with_hint(format!("there are {}", known.join(", ")))
        })
    }

    /// The time that a token says, in seconds.
    pub fn seconds(&self, token: i64) -> Option<f64> {
        let steps = token - self.timestamp_begin;
        (steps >= 0).then_some(steps as f64 * 0.02)
    }
}
