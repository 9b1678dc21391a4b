//! What generation may be told, by the names of `generation_config.json`.

use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use torsh_hub::Hub;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

use crate::config::TokenIds;

/// The special tokens of a model, as its configuration has them.
///
/// ```
/// use torsh_text::generation::GenerationModel;
/// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
/// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, ..Default::default() };
/// let special = GPT2LMHeadModel::new(config)?.special_tokens();
/// assert_eq!((special.bos, special.eos.first(), special.pad), (Some(50256), Some(50256), None));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<i64>,
    /// End a text.
    pub eos: TokenIds,
    /// Fills up a batch.
    pub pad: Option<i64>,
    /// Begins a decoder's text.
    pub decoder_start: Option<i64>,
}

/// When beam search stops: `early_stopping` of `generation_config.json`.
///
/// ```
/// use torsh_text::generation::EarlyStopping;
/// assert_eq!(serde_json::from_str::<EarlyStopping>("true")?, EarlyStopping::from(true));
/// assert_eq!(serde_json::from_str::<EarlyStopping>("\"never\"")?, EarlyStopping::Never);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// When the best open beam cannot get better than the finished ones at its present length: `false`.
    #[default]
    No,
    /// As soon as there are `num_beams` finished texts: `true`.
    Yes,
    /// When no open beam can get better at any length: `"never"`.
    Never,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    EarlyStopping, "early_stopping",
    "never" => EarlyStopping::Never,
}

impl From<bool> for EarlyStopping {
    fn from(yes: bool) -> EarlyStopping {
        match yes {
            true => EarlyStopping::Yes,
            false => EarlyStopping::No,
        }
    }
}

impl Serialize for EarlyStopping {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            EarlyStopping::No => to.serialize_bool(false),
            EarlyStopping::Yes => to.serialize_bool(true),
            EarlyStopping::Never | EarlyStopping::Unknown(_) => to.serialize_str(self.word()),
        }
    }
}

impl<'de> Deserialize<'de> for EarlyStopping {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::Bool(yes) => Ok(yes.into()),
            Value::String(text) if text == "never" => Ok(EarlyStopping::Never),
            other => Err(D::Error::custom(format!(
                "early_stopping is true, false or \"never\", not {other}"
            ))),
        }
    }
}

/// How the cache grows: `cache_implementation` of `generation_config.json`.
///
/// ```
/// use torsh_text::generation::CacheImplementation;
/// assert_eq!(CacheImplementation::from("static"), CacheImplementation::Static);
/// // The names of caches that hold windows: layers with a window hold no more anyway.
/// assert_eq!(CacheImplementation::from("hybrid"), CacheImplementation::Dynamic);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheImplementation {
    /// As the text grows.
    #[default]
    #[serde(alias = "hybrid", alias = "sliding_window")]
    Dynamic,
    /// It has all its memory from the start: for `max_cache_len` tokens, or for `max_length`.
    Static,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    #[serde(skip)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    CacheImplementation, "cache_implementation",
    "dynamic" => CacheImplementation::Dynamic,
    "static" => CacheImplementation::Static,
    "hybrid" => CacheImplementation::Dynamic,
    "sliding_window" => CacheImplementation::Dynamic,
}

/// How the number of drafted tokens changes: `num_assistant_tokens_schedule` of `generation_config.json`.
///
/// ```
/// use torsh_text::generation::AssistantSchedule;
/// assert_eq!(AssistantSchedule::from("heuristic_transient"), AssistantSchedule::Heuristic);
/// assert_eq!(AssistantSchedule::default(), AssistantSchedule::Constant);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssistantSchedule {
    /// It stays.
    #[default]
    Constant,
    /// Two more after a draft that was right, one fewer after another.
    #[serde(alias = "heuristic_transient")]
    Heuristic,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    #[serde(skip)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    AssistantSchedule, "num_assistant_tokens_schedule",
    "constant" => AssistantSchedule::Constant,
    "heuristic" => AssistantSchedule::Heuristic,
    "heuristic_transient" => AssistantSchedule::Heuristic,
}

/// The example of a setting: what a small model makes of a prompt with it.
macro_rules! example {
    ($prompt:literal, $calls:literal, $texts:literal) => {
        example!(concat!(
            "let options = GenerationOptions::new().", $calls, ";\n",
            "assert_eq!(model.generate(&tensor!", $prompt, ", &options)?, tensor!", $texts, ");"
        ))
    };
    ($shows:expr) => {
        concat!(
            "\n```\n# use torsh_nn::ModuleExt;\n# use torsh_tensor::tensor;\n",
            "# use torsh_text::generation::{EarlyStopping, GenerateInputs, GenerationExt, GenerationOptions, TokenText};\n",
            "# use torsh_text::models::{GPT2Config, GPT2LMHeadModel};\n",
            "# let config = GPT2Config { n_embd: 2, n_layer: 1, n_head: 1, vocab_size: 5, n_positions: 16, ..Default::default() };\n",
            "# let model = GPT2LMHeadModel::new(GPT2Config { eos_token_id: torsh_text::config::TokenIds::from(4), ..config })?;\n",
            "# model.eval();\n# let state = model.state_dict();\n",
            "# let logits = tensor![[4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 0.0]];\n",
            "# state[\"transformer.wte.weight\"].copy_(&logits)?;\n",
            "# state[\"transformer.ln_f.weight\"].zero_()?;\n",
            "# state[\"transformer.ln_f.bias\"].copy_(&tensor![1.0, 0.0])?;\n",
            "// Behind every text `model` gives the tokens 0 to 4 the logits 4, 3, 2, 1 and 0. Token 4 ends texts.\n",
            $shows, "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

macro_rules! generation_options {
    ($($(#[doc = $doc:literal])+ $field:ident: $ty:ty, $arg:ty $(=> $convert:expr)?, $($example:literal),+;)*) => {
        /// How texts are continued. Names and defaults are those of Hugging Face's `GenerationConfig`.
        ///
        /// What is not set comes from the model's own configuration, and else is the default.
        ///
        /// ```
        /// use torsh_text::generation::GenerationOptions;
        /// let options = GenerationOptions::new().max_new_tokens(20).do_sample(true).top_p(0.9);
        /// assert_eq!((options.top_p, options.top_k), (Some(0.9), None));
        /// let file = serde_json::json!({ "temperature": 0.7, "early_stopping": "never", "transformers_version": "5" });
        /// assert_eq!(GenerationOptions::from_json(file)?.temperature, Some(0.7));
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct GenerationOptions {
            $(
                $(#[doc = $doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$ty>,
            )*
        }

        impl GenerationOptions {
            /// Options that set nothing, so that a model's own settings hold.
            ///
            /// ```
            /// use torsh_text::generation::GenerationOptions;
            /// assert_eq!(GenerationOptions::new().to_json()?, serde_json::json!({}));
            /// # Ok::<(), torsh_tensor::TorshError>(())
            /// ```
            pub fn new() -> GenerationOptions {
                GenerationOptions::default()
            }

            $(
                $(#[doc = $doc])+
                #[doc = example!($($example),+)]
                #[must_use]
                pub fn $field(mut self, $field: $arg) -> GenerationOptions {
                    $(let $field = $convert($field);)?
                    self.$field = Some($field);
                    self
                }
            )*

            /// Takes what is not set from `defaults`.
            ///
            /// ```
            /// use torsh_text::generation::GenerationOptions;
            /// let defaults = GenerationOptions::new().num_beams(4).top_k(3);
            /// let options = GenerationOptions::new().num_beams(2).or(&defaults);
            /// assert_eq!((options.num_beams, options.top_k, options.top_p), (Some(2), Some(3), None));
            /// ```
            #[must_use]
            pub fn or(mut self, defaults: &GenerationOptions) -> GenerationOptions {
                $(if self.$field.is_none() {
                    self.$field.clone_from(&defaults.$field);
                })*
                self
            }

            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

fn strings<S: Into<String>>(all: impl IntoIterator<Item = S>) -> Vec<String> {
    all.into_iter().map(Into::into).collect()
}

generation_options! {
    /// A text has at most so many tokens, its prompt among them. Where neither this nor `max_new_tokens` is set, it has
    /// at most 20 more than the prompt.
    max_length: usize, usize, "[[1]]", "max_length(3)", "[[1, 0, 0]]";
    /// A text has at most so many new tokens; it goes ahead of `max_length`.
    max_new_tokens: usize, usize, "[[1]]", "max_new_tokens(3)", "[[1, 0, 0, 0]]";
    /// No text ends before it has so many tokens, its prompt among them. The default is 0.
    min_length: usize, usize, "[[1]]", "eos_token_id(0).min_length(3)", "[[1, 1, 1, 0]]";
    /// No text ends before it has so many new tokens; it goes ahead of `min_length`.
    min_new_tokens: usize, usize, "[[1]]", "eos_token_id(0).min_new_tokens(2)", "[[1, 1, 1, 0]]";
    /// Says when beam search stops, by an [`EarlyStopping`], a bool, or "never". The default is false.
    early_stopping: EarlyStopping, impl Into<EarlyStopping> => Into::into,
        "let options = GenerationOptions::new().num_beams(2).early_stopping(true).max_new_tokens(2);\n\
         assert_eq!(options.early_stopping, Some(EarlyStopping::Yes));\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// No further token is computed after so many seconds.
    max_time: f64, f64, "[[1]]", "max_time(0.0)", "[[1, 0]]";
    /// A text ends where one of these appears. The inputs need a tokenizer then.
    stop_strings: Vec<String>, impl IntoIterator<Item = impl Into<String>> => strings,
        "struct Digits;\n\
         impl TokenText for Digits {\n    \
         fn decode(&self, ids: &[u32]) -> torsh_tensor::Result<String> {\n        \
         Ok(ids.iter().map(u32::to_string).collect())\n    \
         }\n\
         }\n\
         let inputs = GenerateInputs::ids(&tensor![[1]]).tokenizer(&Digits);\n\
         let options = GenerationOptions::new().stop_strings([\"00\"]);\n\
         assert_eq!(model.generate_with(inputs, &options)?.sequences, tensor![[1, 0, 0]]);";
    /// Whether tokens are drawn by their probabilities; else the likeliest is taken. The default is false.
    do_sample: bool, bool,
        "let options = GenerationOptions::new().do_sample(true).max_new_tokens(9);\n\
         // The same seed draws the same tokens.\n\
         let draw = || torsh_core::random::LocalGenerator::new(7).scope(|| model.generate(&tensor![[1]], &options));\n\
         assert_eq!(draw()?, draw()?);";
    /// Searches with so many beams. The default is 1, which is no beam search.
    num_beams: usize, usize, "[[1]]", "num_beams(2).num_return_sequences(2).max_new_tokens(1)", "[[1, 0], [1, 1]]";
    /// Splits the beams into so many groups, each of which avoids the tokens of those before it. The default is 1.
    num_beam_groups: usize, usize,
        "[[1]]", "num_beams(2).num_beam_groups(2).diversity_penalty(2.0).num_return_sequences(2).max_new_tokens(1)",
        "[[1, 0], [1, 1]]";
    /// The score of a token in a group of beams falls by this for each beam of an earlier group that took it. The
    /// default is 0.
    diversity_penalty: f64, f64,
        "// Less than the two best tokens differ by: both groups take the same one.\n\
         let options = GenerationOptions::new().num_beams(2).num_beam_groups(2).num_return_sequences(2).max_new_tokens(1);\n\
         let texts = model.generate(&tensor![[1]], &options.diversity_penalty(0.5))?;\n\
         assert_eq!(texts, tensor![[1, 0], [1, 0]]);";
    /// Turns on contrastive search: a token loses by so much, from 0 to 1, for being like earlier ones, among `top_k`
    /// candidates.
    penalty_alpha: f64, f64,
        "let options = GenerationOptions::new().penalty_alpha(0.6).top_k(4);\n\
         assert_eq!(options.to_json()?, serde_json::json!({ \"penalty_alpha\": 0.6, \"top_k\": 4 }));";
    /// Whether keys and values of earlier tokens are kept, which changes no text. The default is true.
    use_cache: bool, bool,
        "let options = GenerationOptions::new().use_cache(false).max_new_tokens(2);\n\
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n\
         assert_eq!(output.sequences, tensor![[1, 0, 0]]);\n\
         assert!(output.cache.is_none());";
    /// Says how the cache grows, by a [`CacheImplementation`] or its word; it changes no text. The default is "dynamic".
    cache_implementation: CacheImplementation, impl Into<CacheImplementation> => Into::into,
        "[[1]]", "cache_implementation(\"static\").max_new_tokens(2)", "[[1, 0, 0]]";
    /// A static cache has memory for so many tokens, and for those of `max_length` where these are more.
    max_cache_len: usize, usize,
        "let options = GenerationOptions::new().cache_implementation(\"static\").max_cache_len(8).max_new_tokens(2);\n\
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n\
         // Keys and values of 8 tokens, two float32 numbers each.\n\
         assert_eq!(output.cache.map(|c| c.bytes()), Some(2 * 8 * 2 * 4));";
    /// Computes a prompt in pieces of so many tokens, which takes less memory and changes no text.
    prefill_chunk_size: usize, usize, "[[1, 2, 3]]", "prefill_chunk_size(2).max_new_tokens(2)", "[[1, 2, 3, 0, 0]]";
    /// Divides the logits ahead of the draw: below 1 likely tokens get likelier. The default is 1.
    temperature: f64, f64, "[[1]]", "do_sample(true).temperature(0.01).max_new_tokens(2)", "[[1, 0, 0]]";
    /// Draws among so many likeliest tokens, among all with 0. The default is 50.
    top_k: usize, usize, "[[1]]", "do_sample(true).top_k(1).max_new_tokens(2)", "[[1, 0, 0]]";
    /// Draws among the likeliest tokens whose probabilities add up to this. The default is 1.
    top_p: f64, f64,
        "// The probabilities are 0.64, 0.23, 0.09, 0.03 and 0.01.\n\
         let options = GenerationOptions::new().do_sample(true).top_p(0.5).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// Draws among tokens that have at least this share of the likeliest token's probability.
    min_p: f64, f64,
        "// The probabilities are 0.64, 0.23, 0.09, 0.03 and 0.01.\n\
         let options = GenerationOptions::new().do_sample(true).min_p(0.5).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// Draws among the likeliest tokens that have this share of the entropy (Top-H).
    top_h: f64, f64,
        "// The entropy is 1.0, of which the first token has 0.29 and the second 0.34.\n\
         let options = GenerationOptions::new().do_sample(true).top_h(0.5).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// Draws among the tokens nearest to the expected information whose probabilities add up to this. The default is 1.
    typical_p: f64, f64,
        "// The entropy is 1.0. The informations are 0.45, 1.45 and more: that of token 1 is the nearest.\n\
         let options = GenerationOptions::new().do_sample(true).typical_p(0.2).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[2]], &options)?, tensor![[2, 1, 1]]);";
    /// Draws among tokens of at least this probability. The default is 0.
    epsilon_cutoff: f64, f64,
        "// The probabilities are 0.64, 0.23, 0.09, 0.03 and 0.01.\n\
         let options = GenerationOptions::new().do_sample(true).epsilon_cutoff(0.3).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// Draws as with `epsilon_cutoff`, with a bound that falls with the entropy. The default is 0.
    eta_cutoff: f64, f64,
        "// The bound is the root of 0.9 times exp(-1.0), which is 0.35; the probabilities are 0.64, 0.23 and less.\n\
         let options = GenerationOptions::new().do_sample(true).eta_cutoff(0.9).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0]]);";
    /// Divides positive logits of tokens that the text has, and multiplies negative ones. The default is 1.
    repetition_penalty: f64, f64, "[[0]]", "repetition_penalty(1.5).max_new_tokens(2)", "[[0, 1, 0]]";
    /// The logit of a new token that has appeared falls by this, once. The default is 0. (Not among Hugging Face's.)
    presence_penalty: f64, f64, "[[1]]", "presence_penalty(1.5).max_new_tokens(4)", "[[1, 0, 1, 0, 0]]";
    /// The logit of a new token falls by this each time that it has appeared. The default is 0. (Not among Hugging
    /// Face's.)
    frequency_penalty: f64, f64, "[[1]]", "frequency_penalty(1.5).max_new_tokens(4)", "[[1, 0, 1, 0, 2]]";
    /// Does the reverse of `repetition_penalty` for tokens of the encoder's text or the prompt. The default is 1.
    encoder_repetition_penalty: f64, f64,
        "[[1]]", "encoder_repetition_penalty(2.0).max_new_tokens(2)", "[[1, 1, 1]]";
    /// A beam's score is divided by this power of its length, so that above 0 longer texts gain. The default is 1.
    length_penalty: f64, f64,
        "let score = |power: f64| -> torsh_tensor::Result<f32> {\n    \
         let options = GenerationOptions::new().num_beams(2).length_penalty(power).max_new_tokens(2);\n    \
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n    \
         output.sequences_scores.expect(\"beams have scores\").item()\n\
         };\n\
         // The sum of the logarithms of two probabilities, and their mean.\n\
         assert_eq!(score(0.0)?, 2.0 * score(1.0)?);";
    /// No sequence of so many tokens appears twice. The default is 0, which allows all.
    no_repeat_ngram_size: usize, usize, "[[0]]", "no_repeat_ngram_size(2).max_new_tokens(4)", "[[0, 0, 1, 0, 2]]";
    /// No sequence of so many tokens of the encoder's text, or of the prompt, appears. The default is 0, which allows
    /// all.
    encoder_no_repeat_ngram_size: usize, usize,
        "[[1, 0, 0]]", "encoder_no_repeat_ngram_size(2).max_new_tokens(2)", "[[1, 0, 0, 1, 1]]";
    /// These sequences of tokens never appear.
    bad_words_ids: Vec<Vec<i64>>, impl Into<Vec<Vec<i64>>> => Into::into,
        "[[1]]", "bad_words_ids([vec![0, 0]]).max_new_tokens(3)", "[[1, 0, 1, 0]]";
    /// Whether scores become logarithms of probabilities again after all processors. The default is false.
    renormalize_logits: bool, bool,
        "let options = GenerationOptions::new().suppress_tokens([0]).renormalize_logits(true).output_scores(true);\n\
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n\
         let sum = output.scores[0].exp()?.sum()?.item::<f32>()?;\n\
         assert!((sum - 1.0).abs() < 1e-5);";
    /// The first new token of an encoder-decoder is this one.
    forced_bos_token_id: i64, i64, "[[1]]", "forced_bos_token_id(3).max_new_tokens(2)", "[[1, 3, 0]]";
    /// The last token is one of these where a text reaches `max_length`.
    forced_eos_token_id: TokenIds, impl Into<TokenIds> => Into::into,
        "[[1]]", "forced_eos_token_id(4).max_new_tokens(2)", "[[1, 0, 4]]";
    /// Whether nan among the logits becomes 0, and infinities the greatest numbers. The default is false.
    remove_invalid_values: bool, bool,
        "[[2]]", "sequence_bias([(vec![0], f64::NAN)]).remove_invalid_values(true).max_new_tokens(2)", "[[2, 1, 1]]";
    /// After so many new tokens, the token that ends a text gains by powers of the factor.
    exponential_decay_length_penalty: (usize, f64), (usize, f64),
        "// Behind two new tokens the logit 1 of token 3 becomes 5, behind three 25.\n\
         let options = GenerationOptions::new().eos_token_id(3).exponential_decay_length_penalty((1, 5.0));\n\
         assert_eq!(model.generate(&tensor![[1]], &options)?, tensor![[1, 0, 0, 3]]);";
    /// These tokens never appear.
    suppress_tokens: Vec<i64>, impl Into<Vec<i64>> => Into::into,
        "[[2]]", "suppress_tokens([0]).max_new_tokens(2)", "[[2, 1, 1]]";
    /// None of these tokens is the first new one.
    begin_suppress_tokens: Vec<i64>, impl Into<Vec<i64>> => Into::into,
        "[[2]]", "begin_suppress_tokens([0]).max_new_tokens(2)", "[[2, 1, 0]]";
    /// A token that completes one of these sequences gains the number beside it.
    sequence_bias: Vec<(Vec<i64>, f64)>, impl Into<Vec<(Vec<i64>, f64)>> => Into::into,
        "[[1]]", "sequence_bias([(vec![3], 5.0)]).max_new_tokens(2)", "[[1, 3, 3]]";
    /// Each prompt gets so many texts. The default is 1.
    num_return_sequences: usize, usize,
        "[[1], [2]]", "num_return_sequences(2).do_sample(true).top_k(1).max_new_tokens(1)",
        "[[1, 0], [1, 0], [2, 0], [2, 0]]";
    /// Whether the processed scores of every step are in the output. The default is false.
    output_scores: bool, bool,
        "let options = GenerationOptions::new().output_scores(true).suppress_tokens([0]).max_new_tokens(2);\n\
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n\
         assert_eq!((output.scores.len(), &output.scores[0]), (2, &tensor![[f32::NEG_INFINITY, 3.0, 2.0, 1.0, 0.0]]));";
    /// Whether the logits of every step are in the output. The default is false.
    output_logits: bool, bool,
        "let options = GenerationOptions::new().output_logits(true).suppress_tokens([0]).max_new_tokens(2);\n\
         let output = model.generate_with(GenerateInputs::ids(&tensor![[1]]), &options)?;\n\
         assert_eq!((output.logits.len(), &output.logits[0]), (2, &tensor![[4.0, 3.0, 2.0, 1.0, 0.0]]));";
    /// A text without prompt begins with this token.
    bos_token_id: i64, i64,
        "let options = GenerationOptions::new().bos_token_id(2).max_new_tokens(2);\n\
         let output = model.generate_with(GenerateInputs::default(), &options)?;\n\
         assert_eq!(output.sequences, tensor![[2, 0, 0]]);";
    /// Each of these tokens ends a text.
    eos_token_id: TokenIds, impl Into<TokenIds> => Into::into, "[[1]]", "eos_token_id(0)", "[[1, 0]]";
    /// This token fills up texts that end before others of a batch.
    pad_token_id: i64, i64,
        "// The first text may not have token 0 again, which ends the second one.\n\
         let options = GenerationOptions::new().eos_token_id(0).no_repeat_ngram_size(1).pad_token_id(4).max_new_tokens(2);\n\
         assert_eq!(model.generate(&tensor![[0], [1]], &options)?, tensor![[0, 1, 2], [1, 0, 4]]);";
    /// The text of an encoder-decoder begins with this token.
    decoder_start_token_id: i64, i64,
        "let options = GenerationOptions::new().decoder_start_token_id(2);\n\
         assert_eq!(options.to_json()?, serde_json::json!({ \"decoder_start_token_id\": 2 }));";
    /// The draft model proposes so many tokens at a time, which changes no text. The default is 20.
    num_assistant_tokens: usize, usize,
        "let inputs = GenerateInputs::ids(&tensor![[1]]).assistant(&model);\n\
         let options = GenerationOptions::new().num_assistant_tokens(2).max_new_tokens(3);\n\
         assert_eq!(model.generate_with(inputs, &options)?.sequences, tensor![[1, 0, 0, 0]]);";
    /// Says how that number changes, by an [`AssistantSchedule`] or its word. The default is "constant".
    num_assistant_tokens_schedule: AssistantSchedule, impl Into<AssistantSchedule> => Into::into,
        "let inputs = GenerateInputs::ids(&tensor![[1]]).assistant(&model);\n\
         let options = GenerationOptions::new().num_assistant_tokens_schedule(\"heuristic\").max_new_tokens(3);\n\
         assert_eq!(model.generate_with(inputs, &options)?.sequences, tensor![[1, 0, 0, 0]]);";
    /// A draft ends at a token that has a smaller probability than this. The default is 0.4.
    assistant_confidence_threshold: f64, f64,
        "let inputs = GenerateInputs::ids(&tensor![[1]]).assistant(&model);\n\
         // All tokens are less likely: each draft is of one.\n\
         let options = GenerationOptions::new().assistant_confidence_threshold(0.9).max_new_tokens(3);\n\
         assert_eq!(model.generate_with(inputs, &options)?.sequences, tensor![[1, 0, 0, 0]]);";
    /// Proposes so many tokens that followed the text's last ones before, without a draft model.
    prompt_lookup_num_tokens: usize, usize,
        "[[0, 0, 0]]", "prompt_lookup_num_tokens(3).max_new_tokens(3)", "[[0, 0, 0, 0, 0, 0]]";
    /// That lookup begins with so many last tokens. The default is 2.
    max_matching_ngram_size: usize, usize,
        "[[0, 0, 0]]", "prompt_lookup_num_tokens(3).max_matching_ngram_size(1).max_new_tokens(3)",
        "[[0, 0, 0, 0, 0, 0]]";
}

/// Fields that change no result here.
const IGNORED: &[&str] = &[
    "_commit_hash",
    "_from_model_config",
    "_name_or_path",
    "alignment_heads",
    "assistant_lookbehind",
    "cache_config",
    "compile_config",
    "continuous_batching_config",
    "disable_compile",
    "forced_decoder_ids",
    "is_assistant",
    "is_multilingual",
    "lang_to_id",
    "language",
    "max_initial_timestamp_index",
    "median_filter_width",
    "no_timestamps_token_id",
    "output_attentions",
    "output_hidden_states",
    "prev_sot_token_id",
    "return_dict_in_generate",
    "return_timestamps",
    "target_lookbehind",
    "task",
    "task_to_id",
    "transformers_version",
    "trust_remote_code",
];

/// Fields that change the result and are not computed, with the values that ask for nothing.
const REFUSED: &[(&str, &[&str])] = &[
    ("assistant_early_exit", &[]),
    ("assistant_ensemble_weight", &[]),
    ("constraints", &[]),
    ("dola_layers", &[]),
    ("force_words_ids", &[]),
    ("guidance_scale", &["1", "1.0"]),
    ("low_memory", &["false"]),
    ("speculation_type", &[]),
    ("token_healing", &["false"]),
    ("use_mtp", &["false"]),
    ("watermarking_config", &[]),
];

fn error(why: String) -> TorshError {
    TorshError::format("generation_config.json", why)
}

impl GenerationOptions {
    /// From the JSON object of `generation_config.json`.
    ///
    /// # Errors
    /// A value of the wrong type, an unknown field, and one that asks for something that is not computed. The error
    /// names the field.
    ///
    /// ```
    /// use torsh_text::generation::GenerationOptions;
    /// let error = GenerationOptions::from_json(serde_json::json!({ "guidance_scale": 3.0 }));
    /// assert!(error.is_err_and(|e| e.to_string().contains("guidance_scale")));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_json(config: Value) -> Result<GenerationOptions> {
        let Value::Object(fields) = config else {
            return Err(error("the file holds no JSON object".into()));
        };
        GenerationOptions::read(fields, false)
    }

    /// What a model's `config.json` says of generation. Its other fields are the model's.
    ///
    /// # Errors
    /// As [`GenerationOptions::from_json`], but for unknown fields.
    ///
    /// ```
    /// use torsh_text::generation::GenerationOptions;
    /// let config = serde_json::json!({ "hidden_size": 8, "num_beams": 4, "eos_token_id": 2 });
    /// assert_eq!(GenerationOptions::from_model_config(&config)?.num_beams, Some(4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_model_config(config: &Value) -> Result<GenerationOptions> {
        let Value::Object(fields) = config else {
            return Err(error("the configuration is no JSON object".into()));
        };
        GenerationOptions::read(fields.clone(), true)
    }

    fn read(fields: Map<String, Value>, of_model: bool) -> Result<GenerationOptions> {
        let mut known = Map::new();
        for (name, mut value) in fields {
            if value.is_null() {
                continue;
            }
            if GenerationOptions::FIELDS.contains(&&*name) {
                if name == "stop_strings" && value.is_string() {
                    value = Value::Array(vec![value]);
                }
                known.insert(name, value);
            } else if let Some((_, harmless)) = REFUSED.iter().find(|(field, _)| *field == name) {
                if !harmless.contains(&&*value.to_string()) {
                    return Err(error(format!("{name} = {value} is not supported"))
                        .with_hint("remove it to generate without it"));
                }
            } else if !of_model
                && !IGNORED.contains(&&*name)
                && !crate::config::is_harmless(&name, &value)
            {
                return Err(error(format!("unknown field {name} = {value}"))
                    .with_hint("remove it if it does not change what is generated"));
            }
        }
        serde_path_to_error::deserialize(Value::Object(known))
            .map_err(|e| error(format!("field {}: {}", e.path(), e.inner())))
    }

    /// From the `generation_config.json` of a folder or of a repository `org/name`.
    ///
    /// # Errors
    /// No such file, and as [`GenerationOptions::from_json`].
    ///
    /// ```
    /// use torsh_text::generation::GenerationOptions;
    /// let folder = std::env::temp_dir().join(format!("torsh-generation-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// std::fs::write(folder.join("generation_config.json"), r#"{ "top_k": 5 }"#)?;
    /// let options = GenerationOptions::from_pretrained(&folder.to_string_lossy())?;
    /// assert_eq!(options, GenerationOptions::new().top_k(5));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(source: &str) -> Result<GenerationOptions> {
        const FILE: &str = "generation_config.json";
        let folder = Path::new(source);
        let path = match folder.is_dir() {
            true => folder.join(FILE),
            false => Hub::shared()?.file(source, FILE)?,
        };
        let bytes = std::fs::read(&path)?;
        torsh_core::check_git_lfs(FILE, path.display(), &bytes)?;
        let config = serde_json::from_slice(torsh_core::without_bom(&bytes))
            .map_err(|e| error(format!("{}: {e}", path.display())))?;
        GenerationOptions::from_json(config)
    }

    /// The JSON object of `generation_config.json`, with what is set.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    ///
    /// ```
    /// use torsh_text::generation::GenerationOptions;
    /// let options = GenerationOptions::new().early_stopping("never").eos_token_id(2);
    /// assert_eq!(options.to_json()?, serde_json::json!({ "early_stopping": "never", "eos_token_id": 2 }));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_json(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| error(e.to_string()))
    }
}

/// Options with all defaults filled in, for one prompt.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) o: GenerationOptions,
    pub(super) eos: Vec<i64>,
    /// Fills rows that have ended.
    pub(super) pad: Option<i64>,
    pub(super) prompt_len: usize,
    pub(super) max_length: usize,
    pub(super) min_length: usize,
    pub(super) num_beams: usize,
    pub(super) groups: usize,
    pub(super) num_return: usize,
    pub(super) do_sample: bool,
    pub(super) top_k: usize,
}

fn invalid(why: String) -> TorshError {
    TorshError::invalid("generate", why)
}

impl Settings {
    /// The settings of a model, where `prompt_len` is the length of its prompt, or of its decoder's.
    pub(super) fn new(
        o: GenerationOptions,
        special: &SpecialTokens,
        max_positions: Option<usize>,
        prompt_len: usize,
    ) -> Result<Settings> {
        let eos = o.eos_token_id.as_ref().unwrap_or(&special.eos).0.clone();
        let eos: Vec<i64> = eos.into_iter().filter(|&id| id >= 0).collect();
        let pad = o.pad_token_id.or(special.pad).filter(|&id| id >= 0);
        if let Some(positions) = max_positions
            && prompt_len > positions
        {
            return Err(invalid(format!(
                "a prompt of {prompt_len} tokens for a model of {positions} positions"
            ))
            .with_hint("cut the prompt: keep its last tokens"));
        }
        if o.max_new_tokens == Some(0) {
            return Err(invalid("max_new_tokens must be greater than 0".into()));
        }
        let max_length = match (o.max_new_tokens, o.max_length) {
            (Some(new), _) => prompt_len.saturating_add(new),
            (None, Some(length)) => length,
            (None, None) => {
                let length = prompt_len + 20;
                max_positions.map_or(length, |most| length.min(most))
            }
        };
        if prompt_len >= max_length {
            return Err(invalid(format!(
                "the prompt has {prompt_len} tokens, and max_length is {max_length}"
            ))
            .with_hint("set max_new_tokens, or a greater max_length"));
        }
        let settings = Settings {
            eos: eos.clone(),
            pad: pad.or(eos.first().copied()),
            prompt_len,
            max_length,
            min_length: match o.min_new_tokens {
                Some(new) => prompt_len.saturating_add(new),
                None => o.min_length.unwrap_or(0),
            },
            num_beams: o.num_beams.unwrap_or(1),
            groups: o.num_beam_groups.unwrap_or(1),
            num_return: o.num_return_sequences.unwrap_or(1),
            do_sample: o.do_sample.unwrap_or(false),
            top_k: o.top_k.unwrap_or(50),
            o,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        let o = &self.o;
        o.early_stopping.unwrap_or_default().known()?;
        o.cache_implementation.unwrap_or_default().known()?;
        o.num_assistant_tokens_schedule
            .unwrap_or_default()
            .known()?;
        if self.num_beams == 0 || self.groups == 0 || self.num_return == 0 {
            return Err(invalid(format!(
                "num_beams = {}, num_beam_groups = {}, num_return_sequences = {}: each must be at least 1",
                self.num_beams, self.groups, self.num_return
            )));
        }
        if self.num_beams == 1 && !self.do_sample && self.num_return > 1 {
            return Err(invalid(format!(
                "num_return_sequences = {} of one text that is always the same",
                self.num_return
            ))
            .with_hint("set do_sample or num_beams"));
        }
        if self.num_beams > 1 && self.num_return > self.num_beams {
            return Err(invalid(format!(
                "num_return_sequences = {} of {} beams",
                self.num_return, self.num_beams
            )));
        }
        if self.groups > 1 {
            if !self.num_beams.is_multiple_of(self.groups) {
                return Err(invalid(format!(
                    "{} beams in {} groups: the groups must be of one size",
                    self.num_beams, self.groups
                )));
            }
            if self.do_sample {
                return Err(invalid("groups of beams cannot be drawn".into())
                    .with_hint("leave out do_sample or num_beam_groups"));
            }
            if o.diversity_penalty.unwrap_or(0.0) <= 0.0 {
                return Err(invalid(
                    "groups of beams are all the same without a diversity_penalty above 0".into(),
                ));
            }
        }
        for (name, value) in [
            ("temperature", o.temperature),
            ("repetition_penalty", o.repetition_penalty),
            ("encoder_repetition_penalty", o.encoder_repetition_penalty),
        ] {
            if value.is_some_and(|v| v.is_nan() || v <= 0.0) {
                return Err(invalid(format!(
                    "{name} = {:?} must be above 0",
                    value.unwrap_or(0.0)
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
