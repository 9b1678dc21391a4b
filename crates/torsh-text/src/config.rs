//! Configurations of models: the fields of `config.json`.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use torsh_tensor::{Result, TorshError};

/// The configuration of a family of models, as `config.json` holds it.
///
/// ```
/// use torsh_text::config::PretrainedConfig;
/// use torsh_text::models::BertConfig;
/// let config = BertConfig::from_json(serde_json::json!({ "model_type": "bert", "hidden_size": 128 }))?;
/// assert_eq!((config.hidden_size, config.num_hidden_layers), (128, 12));
/// let error = BertConfig::from_json(serde_json::json!({ "hidden_sise": 128 })).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("hidden_sise")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait PretrainedConfig:
    Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static
{
    /// `model_type` in `config.json`.
    const MODEL_TYPE: &'static str;

    /// From the JSON object of `config.json`. Fields that are absent have the defaults of Hugging Face's class.
    ///
    /// # Errors
    /// The `model_type` of another family, a value of the wrong type, an unknown field, a size that no model has, and a
    /// field whose value asks for something that the model does not compute. The error names the field.
    fn from_json(config: Value) -> Result<Self>;

    /// The JSON object of `config.json`, with `model_type`.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    #[torsh_tensor::names_caller]
    fn to_json(&self) -> Result<Value> {
        let mut config = serde_json::to_value(self).map_err(|e| error(&e.to_string()))?;
        if let Value::Object(fields) = &mut config {
            fields.insert("model_type".into(), Self::MODEL_TYPE.into());
        }
        Ok(config)
    }
}

pub(crate) fn error(why: &str) -> TorshError {
    TorshError::format("config.json", why.to_string())
}

/// Fields that every configuration may have and that change no result, by the reason.
const OF_ALL: &[(&str, &str)] = &[
    (
        "they say where the model comes from and what it is called",
        "adapter_fusion_config adapter_layers adapters architecture architectures auto_map base_model custom_pipelines \
         finetuned_from finetuning_task generator image_processor_type language languages license model_name model_type \
         name_or_path processor_class tags tokenizer_class transformers_version",
    ),
    (
        "the file of the weights has their dtype",
        "dtype fp16 bf16 fp32 precision use_bfloat16",
    ),
    (
        "they choose among ways to compute the same, or what is kept and given back besides",
        "chunk_size_feed_forward memory_efficient_attention output_attentions output_hidden_states output_past \
         output_router_logits output_scores pretraining_tp return_dict return_dict_in_generate torchscript use_cache \
         use_memory_efficient_attention use_xformers",
    ),
    (
        "they are about training: losses, first weights, labels",
        "apply_spec_augment generator_size id2label initializer_factor initializer_range label2id label_smoothing \
         loss_type n_special predict_special_tokens problem_type router_jitter_noise save_step tf_legacy_loss \
         use_mems_eval use_mems_train",
    ),
    (
        "the names of weights say what is tied, or whether there is a decoder",
        "is_encoder_decoder tie_encoder_decoder",
    ),
    (
        "they are about tokens and lengths of texts, which the tokenizer's files have",
        "max_seq_len max_seq_length max_sequence_length model_max_length padding_side prefix seq_len seq_length \
         task_specific_params truncation_side",
    ),
    (
        "they are about generation, which reads them from the same file by itself",
        "bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size \
         epsilon_cutoff eta_cutoff exponential_decay_length_penalty forced_bos_token_id forced_decoder_ids \
         forced_eos_token_id length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beam_groups \
         num_beams num_return_sequences remove_invalid_values repetition_penalty suppress_tokens temperature top_k \
         top_p typical_p",
    ),
];

/// Beginnings and ends of names of such fields, by the reason. Programs that train and convert models leave them in published
/// files; Python's library reads none of them.
const PATTERNS: &[(&str, &str, &str)] = &[
    (
        "notes of the library, of programs and people",
        "_ author created date description mlflow notes trainer training_ unsloth url wandb",
        "_name_or_path _version",
    ),
    (
        "dropouts that the model here does not have, losses, masks and what is frozen act in training alone",
        "freeze_ gradient_ mask_channel_ mask_feature_ mask_time_ neftune_ optimizer",
        "_loss _loss_coef _loss_reduction _loss_weight dropout dropout_prob dropout_rate layerdrop pdrop",
    ),
    (
        "ways to compute the same, and other formats of the model",
        "attn_impl cache_ flash_ fuse_ fused_ onnx openvino torch_ transformers.js use_flash",
        "_implementation _in_fp32",
    ),
    (
        "tokens, which the tokenizer's files have",
        "tokenizer_",
        "_token _token_id _token_ids _tokens_ids",
    ),
];

/// Whether a field changes no result, whatever model it is of. It is asked of fields that the family does not have, need or
/// ignore: it has all that Python's class declares, so Python's library does not read such a field. What may be a field with
/// a wrong name, or one of a newer version, is refused all the same.
pub(crate) fn is_harmless(name: &str, value: &Value) -> bool {
    // What is null or off asks for nothing: `"quantization_config": null`.
    let off = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let fits = |(_, starts, ends): &(&str, &str, &str)| {
        starts.split(' ').any(|start| name.starts_with(start))
            || ends.split(' ').any(|end| name.ends_with(end))
    };
    let mut of_all = OF_ALL.iter().flat_map(|(_, names)| names.split(' '));
    let listed = of_all.any(|known| known == name);
    off || listed || PATTERNS.iter().any(fits)
}

/// Reads a configuration: what the macro `config!` expands to calls it.
pub(crate) fn read<C: PretrainedConfig>(
    config: Value,
    fields: &[&str],
    ignored: &[&str],
    required: &[(&str, Value)],
) -> Result<C> {
    let Value::Object(mut all) = config else {
        return Err(error("the file holds no JSON object"));
    };
    if let Some(Value::String(found)) = all.get("model_type")
        && found != C::MODEL_TYPE
    {
        return Err(error(&format!(
            "model_type is \"{found}\", and this model is of the type \"{}\"",
            C::MODEL_TYPE
        )));
    }
    // `num_labels` is what `id2label` lists, where only that is there.
    if fields.contains(&"num_labels")
        && all.get("num_labels").is_none_or(Value::is_null)
        && let Some(Value::Object(labels)) = all.get("id2label")
    {
        let labels = labels.len();
        all.insert("num_labels".into(), labels.into());
    }
    let defaults = serde_json::to_value(C::default()).map_err(|e| error(&e.to_string()))?;
    let mut known = Map::new();
    for (name, value) in all {
        let required = required.iter().find(|(field, _)| *field == name);
        if fields.contains(&&*name) {
            // As in Python, null is no.
            let value = match (&value, &defaults[&name]) {
                (Value::Null, Value::Bool(_)) => Value::Bool(false),
                _ => value,
            };
            known.insert(name, value);
        } else if let Some((_, wanted)) = required {
            if value != *wanted && !value.is_null() {
                return Err(error(&format!(
                    "{name} = {value} is not supported by models of type \"{}\": only {wanted} is",
                    C::MODEL_TYPE
                )));
            }
        } else if !ignored.contains(&&*name) && !is_harmless(&name, &value) {
            return Err(unknown(C::MODEL_TYPE, &name, &value, fields));
        }
    }
    plausible(&known)?;
    serde_path_to_error::deserialize(Value::Object(known))
        .map_err(|e| error(&format!("field {}: {}", e.path(), e.inner())))
}

/// The error of a field that may ask for something that is not computed.
fn unknown(model_type: &str, name: &str, value: &Value, fields: &[&str]) -> TorshError {
    if name == "quantization_config" || name == "compression_config" {
        let method = value["quant_method"].as_str().unwrap_or("some method");
        return error(&format!(
            "{name}: the weights are quantized by {method}, which is not supported"
        ))
        .with_hint("take the repository with the weights in bfloat16, float16 or float32");
    }
    let why = format!(
        "unknown field {name} = {} for a model of type \"{model_type}\"",
        shortened(value)
    );
    let near = fields
        .iter()
        .map(|field| (letters_apart(name, field), field))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let remove = "remove it from config.json if it does not change the model's results";
    match near {
        Some((_, field)) => error(&why).with_hint(format!("is it {field}? Otherwise {remove}")),
        None => error(&why).with_hint(remove),
    }
}

/// How many letters differ: the distance of Levenshtein.
fn letters_apart(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

/// The largest whole number of a field.
const LARGEST: u64 = 1 << 31;
/// The most layers, or experts of a layer.
const MOST_LAYERS: u64 = 1 << 12;
/// The most numbers of the norms of all layers. Unlike matrices they take memory before a file is read.
const MOST_IN_NORMS: u64 = 1 << 26;

/// An error for sizes that no model has: what is made of the fields takes memory, even where the file with the weights
/// lacks them.
fn plausible(fields: &Map<String, Value>) -> Result<()> {
    let counts = |name: &str| {
        let other = [
            "n_layer",
            "num_hidden_groups",
            "inner_group_num",
            "num_local_experts",
        ];
        name.ends_with("layers") || other.contains(&name)
    };
    let is_width = |name: &str| {
        let other = ["d_model", "dim", "n_embd", "n_inner", "word_embed_proj_dim"];
        name.ends_with("_size") && !["vocab_size", "image_size", "patch_size"].contains(&name)
            || name.ends_with("_dim")
            || other.contains(&name)
    };
    let (mut layers, mut widest) = (1, 0);
    for (name, value) in fields {
        let Some(number) = value.as_u64() else {
            continue;
        };
        let most = if counts(name) { MOST_LAYERS } else { LARGEST };
        if number > most {
            let why = format!("field {name} = {number} is too large: it may be {most} at most");
            return Err(error(&why));
        }
        if counts(name) {
            layers = layers.max(number);
        } else if is_width(name) {
            widest = widest.max(number);
        }
    }
    match layers * widest > MOST_IN_NORMS {
        true => Err(error(&format!(
            "{layers} layers of {widest} channels are too many"
        ))),
        false => Ok(()),
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None => text,
    }
}

/// Declares the fields that several configurations have: the type and the meaning of each name.
macro_rules! common_fields {
    ($($field:ident: $ty:ty = $meaning:literal;)*) => {
        /// The type of a common field.
        macro_rules! common_type {
            $(($field) => { $ty };)*
        }

        /// The meaning of a common field.
        macro_rules! meaning {
            $(($field) => { $meaning };)*
        }
    };
}

common_fields! {
    vocab_size: usize = "The number of tokens of the vocabulary, each of which has a row of the embedding.";
    pad_token_id: Option<i64> = "The token that fills up the shorter texts of a batch.";
    hidden_size: usize = "The number of channels of a token between layers.";
    num_hidden_layers: usize = "The number of layers.";
    initializer_range: f64 = "The standard deviation of the normal numbers that new weights are drawn from.";
    init_std: f64 = "The standard deviation of the normal numbers that new weights are drawn from.";
    initializer_factor: f64 = "The factor that multiplies the standard deviations of new weights.";
    tie_word_embeddings: bool = "Whether the head of the language model uses the weight of the embedding.";
    num_attention_heads: usize = "The number of heads that the queries of the attention are split into.";
    num_key_value_heads: Option<usize> =
        "The number of heads of keys and values, each of which serves several heads of queries. `None` means as many as heads of queries.";
    head_dim: usize = "The number of channels of one head.";
    intermediate_size: usize = "The number of channels inside the feed-forward layers.";
    num_labels: usize = "The number of classes that a classification head tells apart.";
    eos_token_id: TokenIds = "The tokens that end a text. Generation stops behind them.";
    bos_token_id: Option<i64> = "The token that begins a text.";
    decoder_start_token_id: Option<i64> = "The token that the text of a decoder begins with.";
    max_position_embeddings: usize = "The greatest number of tokens of a text, which is how many positions there are.";
    hidden_act: Activation = "The activation inside the feed-forward layers.";
    hidden_activation: Activation = "The activation inside the feed-forward layers.";
    activation_function: Activation = "The activation inside the feed-forward layers.";
    attention_dropout: f64 = "The probability with which training drops a weight of the attention.";
    attention_probs_dropout_prob: f64 = "The probability with which training drops a weight of the attention.";
    hidden_dropout_prob: f64 =
        "The probability with which training drops a feature of the embeddings, and of what attention and feed-forward layers add.";
    classifier_dropout: Option<f64> =
        "The probability with which training drops a feature ahead of a classification head. `None` means `hidden_dropout_prob`.";
    dropout: f64 =
        "The probability with which training drops a feature of the embeddings, and of what attention and feed-forward layers add.";
    activation_dropout: f64 =
        "The probability with which training drops a feature behind the activation of a feed-forward layer.";
    layerdrop: f64 = "The probability with which a step of training leaves out a layer.";
    encoder_layerdrop: f64 = "The probability with which a step of training leaves out a layer of the encoder.";
    decoder_layerdrop: f64 = "The probability with which a step of training leaves out a layer of the decoder.";
    rope_parameters: RopeParameters =
        "The type of the rotary position embeddings, their base, and the numbers of their type.";
    layer_norm_eps: f64 = "What the layer norms add to a variance, so that none divides by 0.";
    rms_norm_eps: f64 = "What the RMS norms add to a mean square, so that none divides by 0.";
    attention_bias: bool = "Whether the linear layers of the attention have biases.";
    qkv_bias: bool = "Whether the projections to queries, keys and values have biases.";
    mlp_bias: bool = "Whether the linear layers of feed-forward layers have biases.";
    sliding_window: Option<usize> =
        "The number of tokens that a token sees in layers with a window, itself among them.";
    use_sliding_window: bool = "Whether there are layers with a window.";
    max_window_layers: usize = "The first layer with a window, counted from 0.";
    type_vocab_size: usize = "The number of kinds of segments: 2 for the two texts of a pair.";
    image_size: usize = "The height and width of images, in pixels.";
    patch_size: usize = "The height and width of patches, in pixels.";
    num_channels: usize = "The number of colour channels of images.";
    projection_dim: usize = "The number of channels of the vectors by which texts and images are compared.";
    query_pre_attn_scalar: f64 = "The number by whose square root the products of queries and keys are divided.";
    final_logit_softcapping: Option<f64> =
        "The bound of logits: `x` becomes `tanh(x / cap) * cap`. `None` leaves them as they are.";
    encoder_layers: usize = "The number of layers of the encoder.";
    decoder_layers: usize = "The number of layers of the decoder.";
    encoder_ffn_dim: usize = "The number of channels inside the encoder's feed-forward layers.";
    decoder_ffn_dim: usize = "The number of channels inside the decoder's feed-forward layers.";
    encoder_attention_heads: usize = "The number of heads of the encoder's attention.";
    decoder_attention_heads: usize = "The number of heads of the decoder's attention.";
    embedding_size: usize = "The number of channels of the embeddings.";
}
pub(crate) use common_type;
pub(crate) use meaning;

/// The type of a field: its own, or that of the common field of its name.
macro_rules! field_type {
    ($field:ident) => {
        $crate::config::common_type!($field)
    };
    ($field:ident $own:ty) => {
        $own
    };
}
pub(crate) use field_type;

/// The documentation of a field: its own, or that of the common field of its name.
macro_rules! field_doc {
    ($field:ident) => {
        $crate::config::meaning!($field)
    };
    ($field:ident $($own:literal)+) => {
        concat!($($own, "\n"),+)
    };
}
pub(crate) use field_doc;

/// Declares a configuration: a struct with public fields, their defaults, and what other fields `config.json` may have.
///
/// ```text
/// config! {
///     /// Documentation of the struct.
///     BertConfig: "bert" {
///         // Common fields, with their defaults.
///         vocab_size = 30522; hidden_size = 768;
///         /// Documentation of the field.
///         inner_group_num: usize = 1;
///     }
///     // Fields of Hugging Face's class that change no result here.
///     ignores ["classifier_dropout"]
///     // Fields that must have one value.
///     requires { "position_embedding_type": "absolute" }
///     // Optional: changes the JSON object before it is read, for older forms of the file.
///     normalize = rotary::normalize
/// }
/// ```
macro_rules! config {
    (
        $(#[$doc:meta])* $name:ident: $type:literal {
            $($(#[doc = $field_doc:literal])* $(#[serde($($serde:tt)*)])* $field:ident $(: $ty:ty)? = $default:expr;)*
        }
        ignores [$($ignored:literal),* $(,)?]
        requires {$($required:literal: $value:expr),* $(,)?}
        $(normalize = $normalize:path)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                #[doc = $crate::config::field_doc!($field $($field_doc)*)]
                ///
                #[doc = concat!("The default is `", stringify!($default), "`.")]
                $(#[serde($($serde)*)])*
                pub $field: $crate::config::field_type!($field $($ty)?),
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $crate::config::PretrainedConfig for $name {
            const MODEL_TYPE: &'static str = $type;

            #[torsh_tensor::names_caller]
            fn from_json(config: serde_json::Value) -> torsh_tensor::Result<Self> {
                $(let config = $normalize(config)?;)?
                $crate::config::read(
                    config,
                    &[$(stringify!($field)),*],
                    &[$($ignored),*],
                    &[$(($required, serde_json::json!($value))),*],
                )
            }
        }
    };
}
pub(crate) use config;

/// Token ids that end a text: `config.json` has one number, a list, or null.
///
/// ```
/// use torsh_text::config::TokenIds;
/// assert_eq!(serde_json::from_str::<TokenIds>("[1, 106]")?, TokenIds(vec![1, 106]));
/// assert_eq!(serde_json::from_str::<TokenIds>("2")?, TokenIds::from(2));
/// assert_eq!(serde_json::from_str::<TokenIds>("null")?, TokenIds::default());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenIds(pub Vec<i64>);

impl From<i64> for TokenIds {
    fn from(id: i64) -> TokenIds {
        TokenIds(vec![id])
    }
}

impl TokenIds {
    /// Gives the first one, where there is one.
    ///
    /// ```
    /// use torsh_text::config::TokenIds;
    /// assert_eq!((TokenIds(vec![1, 106]).first(), TokenIds::default().first()), (Some(1), None));
    /// ```
    pub fn first(&self) -> Option<i64> {
        self.0.first().copied()
    }
}

impl Serialize for TokenIds {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => to.serialize_none(),
            [one] => to.serialize_i64(*one),
            all => all.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for TokenIds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let wrong = || D::Error::custom("token ids are a whole number, a list of them, or null");
        match Value::deserialize(from)? {
            Value::Null => Ok(TokenIds(Vec::new())),
            Value::Array(all) => {
                let ids = all.iter().map(|v| v.as_i64().ok_or_else(wrong));
                Ok(TokenIds(ids.collect::<std::result::Result<_, _>>()?))
            }
            one => Ok(TokenIds(vec![one.as_i64().ok_or_else(wrong)?])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    config! {
        /// A configuration of the tests.
        TestConfig: "test" {
            /// A size.
            size: usize = 3;
            /// Ends a text.
            eos_token_id: TokenIds = TokenIds::from(2);
        }
        ignores ["harmless"]
        requires { "kind": "plain" }
    }

    #[test]
    fn fields_are_read_ignored_or_refused() {
        let read = |v| TestConfig::from_json(v).map_err(|e| e.to_string());
        let config = read(serde_json::json!({
            "model_type": "test", "size": 5, "harmless": 1, "kind": "plain", "eos_token_id": [1, 2], "use_cache": true,
            "quantization_config": null, "unsloth_fixed": true, "_name_or_path": "x", "rope_scaling": null,
            "task_specific_params": { "a": 1 }, "id2label": { "0": "a" }, "auto_map": { "AutoModel": "m.M" },
            "attn_pdrop": 0.1, "classifier_dropout": 0.0, "neftune_noise_alpha": 5, "mask_channel_selection": "static",
            "freeze_feat_extract_train": true, "attn_implementation": "sdpa", "transformers.js_config": { "dtype": "q4" },
            "gradient_checkpointing": true, "mask_token_id": 3, "rope_parameters": null, "seq_length": 2048, "use_something": false, "torch_dtype": "bfloat16",
            "transformers_version": "4.40.0", "pretraining_tp": 1
        }));
        assert_eq!(
            config,
            Ok(TestConfig {
                size: 5,
                eos_token_id: TokenIds(vec![1, 2])
            })
        );
        for (wrong, names) in [
            (serde_json::json!({ "sise": 5 }), "sise"),
            (serde_json::json!({ "sise": 5 }), "is it size?"),
            (serde_json::json!({ "window": 5 }), "window = 5"),
            (
                serde_json::json!({ "quantization_config": { "quant_method": "gptq" } }),
                "quantized by gptq",
            ),
            (serde_json::json!({ "size": "x" }), "size"),
            (serde_json::json!({ "size": null }), "size"),
            (serde_json::json!({ "kind": "rare" }), "kind"),
            (serde_json::json!({ "model_type": "bert" }), "bert"),
            (serde_json::json!({ "eos_token_id": [1.5] }), "eos_token_id"),
            (
                serde_json::json!({ "size": 1u64 << 40 }),
                "size = 1099511627776",
            ),
            (serde_json::json!([]), "object"),
        ] {
            let error = read(wrong).err();
            assert!(
                error.as_ref().is_some_and(|e| e.contains(names)),
                "{error:?}"
            );
        }
    }

    #[test]
    fn what_is_written_is_read_again() -> Result<()> {
        let config = TestConfig {
            size: 7,
            eos_token_id: TokenIds(Vec::new()),
        };
        let json = config.to_json()?;
        assert_eq!(json["model_type"], "test");
        assert_eq!(TestConfig::from_json(json)?, config);
        Ok(())
    }
}
