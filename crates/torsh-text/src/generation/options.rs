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

macro_rules! generation_options {
    ($($(#[doc = $doc:literal])+ $field:ident: $ty:ty, $arg:ty $(=> $convert:expr)?;)*) => {
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
            /// Nothing is set.
            pub fn new() -> GenerationOptions {
                GenerationOptions::default()
            }

            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $field(mut self, $field: $arg) -> GenerationOptions {
                    $(let $field = $convert($field);)?
                    self.$field = Some($field);
                    self
                }
            )*

            /// These settings, and those of `defaults` for what is not set.
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
    /// The most tokens of a text, its prompt among them; 20 more than the prompt where neither this nor
    /// `max_new_tokens` is set.
    max_length: usize, usize;
    /// The most new tokens; it goes ahead of `max_length`.
    max_new_tokens: usize, usize;
    /// The least tokens of a text, its prompt among them; 0.
    min_length: usize, usize;
    /// The least new tokens; it goes ahead of `min_length`.
    min_new_tokens: usize, usize;
    /// When beam search stops; false.
    early_stopping: EarlyStopping, impl Into<EarlyStopping> => Into::into;
    /// Seconds after which no further token is computed.
    max_time: f64, f64;
    /// Texts that end generation where they appear; they need a tokenizer.
    stop_strings: Vec<String>, impl IntoIterator<Item = impl Into<String>> => strings;
    /// Whether tokens are drawn; else the likeliest is taken.
    do_sample: bool, bool;
    /// The number of beams; 1 is no beam search.
    num_beams: usize, usize;
    /// The number of groups of beams that shall differ; 1.
    num_beam_groups: usize, usize;
    /// What groups of beams lose for a token that an earlier group took; 0.
    diversity_penalty: f64, f64;
    /// Contrastive search: how much a token loses for being like earlier ones, from 0 to 1, with `top_k` candidates.
    penalty_alpha: f64, f64;
    /// Whether keys and values are kept; true.
    use_cache: bool, bool;
    /// How the cache grows.
    cache_implementation: CacheImplementation, impl Into<CacheImplementation> => Into::into;
    /// Tokens for which a static cache has memory.
    max_cache_len: usize, usize;
    /// A prompt is computed in pieces of so many tokens.
    prefill_chunk_size: usize, usize;
    /// Divides the logits; 1.
    temperature: f64, f64;
    /// Draws among so many likeliest tokens, 0 for all; 50.
    top_k: usize, usize;
    /// Draws among the likeliest tokens whose probabilities add up to this; 1.
    top_p: f64, f64;
    /// Draws among tokens that have at least this share of the likeliest token's probability.
    min_p: f64, f64;
    /// Draws among the likeliest tokens that have this share of the entropy (Top-H).
    top_h: f64, f64;
    /// Draws among the tokens nearest to the expected information whose probabilities add up to this; 1.
    typical_p: f64, f64;
    /// Draws among tokens of at least this probability; 0.
    epsilon_cutoff: f64, f64;
    /// As `epsilon_cutoff`, with a bound that falls with the entropy; 0.
    eta_cutoff: f64, f64;
    /// Divides positive logits of tokens that the text has, and multiplies negative ones; 1.
    repetition_penalty: f64, f64;
    /// What new tokens that have appeared before lose, once; 0. (Not among Hugging Face's.)
    presence_penalty: f64, f64;
    /// What new tokens that have appeared before lose, each time; 0. (Not among Hugging Face's.)
    frequency_penalty: f64, f64;
    /// The reverse of `repetition_penalty`, for tokens of the encoder's text or the prompt; 1.
    encoder_repetition_penalty: f64, f64;
    /// The power of the length by which a beam's score is divided; 1.
    length_penalty: f64, f64;
    /// No sequence of so many tokens appears twice; 0 for any.
    no_repeat_ngram_size: usize, usize;
    /// No sequence of so many tokens of the encoder's text appears; 0 for any.
    encoder_no_repeat_ngram_size: usize, usize;
    /// Sequences of tokens that must not appear.
    bad_words_ids: Vec<Vec<i64>>, impl Into<Vec<Vec<i64>>> => Into::into;
    /// Whether scores become logarithms of probabilities again after all processors; false.
    renormalize_logits: bool, bool;
    /// The first new token of an encoder-decoder.
    forced_bos_token_id: i64, i64;
    /// The last token where `max_length` is reached.
    forced_eos_token_id: TokenIds, impl Into<TokenIds> => Into::into;
    /// Whether nan and infinity among the logits are replaced; false.
    remove_invalid_values: bool, bool;
    /// After so many new tokens, the token that ends a text gains by powers of the factor.
    exponential_decay_length_penalty: (usize, f64), (usize, f64);
    /// Tokens that never appear.
    suppress_tokens: Vec<i64>, impl Into<Vec<i64>> => Into::into;
    /// Tokens that are not the first new one.
    begin_suppress_tokens: Vec<i64>, impl Into<Vec<i64>> => Into::into;
    /// What sequences of tokens gain.
    sequence_bias: Vec<(Vec<i64>, f64)>, impl Into<Vec<(Vec<i64>, f64)>> => Into::into;
    /// How many texts each prompt gets; 1.
    num_return_sequences: usize, usize;
    /// Whether the processed scores of every step are in the output; false.
    output_scores: bool, bool;
    /// Whether the logits of every step are in the output; false.
    output_logits: bool, bool;
    /// Begins a text.
    bos_token_id: i64, i64;
    /// End a text.
    eos_token_id: TokenIds, impl Into<TokenIds> => Into::into;
    /// Fills up a batch.
    pad_token_id: i64, i64;
    /// Begins the text of an encoder-decoder.
    decoder_start_token_id: i64, i64;
    /// How many tokens the draft model proposes; 20.
    num_assistant_tokens: usize, usize;
    /// How that number changes; constant.
    num_assistant_tokens_schedule: AssistantSchedule, impl Into<AssistantSchedule> => Into::into;
    /// The draft ends at a token of a smaller probability; 0.4.
    assistant_confidence_threshold: f64, f64;
    /// Proposes so many tokens that followed the text's last ones before, without a draft model.
    prompt_lookup_num_tokens: usize, usize;
    /// With how many last tokens that lookup begins; 2.
    max_matching_ngram_size: usize, usize;
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
        let config = serde_json::from_slice(&bytes)
            .map_err(|e| error(format!("{}: {e}", path.display())))?;
        GenerationOptions::from_json(config)
    }

    /// The JSON object of `generation_config.json`, with what is set.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
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
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_read_ignored_or_refused() -> Result<()> {
        let read = GenerationOptions::from_json(json!({
            "_from_model_config": true, "eos_token_id": [1, 2], "stop_strings": "x", "early_stopping": "never",
            "exponential_decay_length_penalty": [5, 1.5], "sequence_bias": [[[1, 2], -2.0]], "top_p": null,
            "cache_implementation": "hybrid", "guidance_scale": 1.0, "temperature": 1, "token_healing": false
        }))?;
        let wanted = GenerationOptions::new()
            .eos_token_id(TokenIds(vec![1, 2]))
            .stop_strings(["x"])
            .early_stopping(EarlyStopping::Never)
            .exponential_decay_length_penalty((5, 1.5))
            .sequence_bias([(vec![1, 2], -2.0)])
            .cache_implementation(CacheImplementation::Dynamic)
            .temperature(1.0);
        assert_eq!(read, wanted);
        assert_eq!(GenerationOptions::from_json(read.to_json()?)?, read);
        for (wrong, names) in [
            (json!({ "guidance_scale": 2 }), "guidance_scale"),
            (json!({ "temperatur": 2 }), "temperatur"),
            (json!({ "top_k": "many" }), "top_k"),
            (json!({ "early_stopping": "soon" }), "early_stopping"),
            (
                json!({ "cache_implementation": "quantized" }),
                "cache_implementation",
            ),
            (json!({ "force_words_ids": [[1]] }), "force_words_ids"),
            (json!(3), "object"),
        ] {
            let error = GenerationOptions::from_json(wrong)
                .err()
                .map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(names)),
                "{error:?}"
            );
        }
        let of_model = json!({ "hidden_size": 3, "forced_eos_token_id": 2, "dola_layers": "high" });
        assert!(GenerationOptions::from_model_config(&of_model).is_err());
        let of_model = json!({ "hidden_size": 3, "forced_eos_token_id": 2 });
        let read = GenerationOptions::from_model_config(&of_model)?;
        assert_eq!(read, GenerationOptions::new().forced_eos_token_id(2));
        Ok(())
    }

    #[test]
    fn lengths_are_of_the_whole_text() -> Result<()> {
        let of = |o: GenerationOptions, positions, prompt| {
            Settings::new(o, &SpecialTokens::default(), positions, prompt).map(|s| s.max_length)
        };
        let new = GenerationOptions::new;
        assert_eq!(of(new(), None, 5)?, 25);
        assert_eq!(of(new(), Some(10), 5)?, 10);
        assert_eq!(of(new().max_length(7), Some(10), 5)?, 7);
        assert_eq!(of(new().max_length(7).max_new_tokens(3), None, 5)?, 8);
        for (options, positions, prompt, texts) in [
            (new().max_length(5), None, 5, ["5 tokens", "5"]),
            (new().max_new_tokens(1), Some(10), 11, ["11", "10"]),
            (new().max_new_tokens(0), None, 1, ["max_new_tokens", "0"]),
            (
                new().num_beams(3).num_return_sequences(4),
                None,
                1,
                ["4", "3"],
            ),
            (
                new().num_return_sequences(2),
                None,
                1,
                ["num_return_sequences", "2"],
            ),
            (new().num_beams(3).num_beam_groups(2), None, 1, ["3", "2"]),
            (
                new().num_beams(4).num_beam_groups(2),
                None,
                1,
                ["diversity_penalty", "0"],
            ),
            (new().temperature(0.0), None, 1, ["temperature", "0"]),
        ] {
            let error = of(options, positions, prompt).err().map(|e| e.to_string());
            let names = |e: &String| texts.iter().all(|t| e.contains(t));
            assert!(error.as_ref().is_some_and(names), "{error:?}");
        }
        Ok(())
    }

    #[test]
    fn the_callers_settings_go_first() {
        let model = GenerationOptions::new().num_beams(4).top_k(3);
        let all = GenerationOptions::new().num_beams(2).or(&model);
        assert_eq!(
            (all.num_beams, all.top_k, all.top_p),
            (Some(2), Some(3), None)
        );
    }
}
