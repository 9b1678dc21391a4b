//! Models by the name of their architecture.

use serde_json::Value;
use torsh_hub::{Hub, LoadStateDict, NewHead, PretrainedOptions, complete, with_left_out};
use torsh_nn::ModuleExt;
use torsh_nn::construct::Construction;
use torsh_tensor::{Result, TorshError};

use super::pretrained::{self, Class};
use super::text_model::TextModel;

/// All classes, by family.
fn classes() -> impl Iterator<Item = &'static Class> {
    let families: &[&[Class]] = &[
        super::bert::CLASSES,
        super::distilbert::CLASSES,
        super::roberta::CLASSES,
        super::roberta::XLM_CLASSES,
        super::albert::CLASSES,
        super::electra::CLASSES,
        super::modernbert::CLASSES,
        super::t5::CLASSES,
        super::t5::encoder::CLASSES,
        super::bart::CLASSES,
        super::bart_classifier::CLASSES,
        super::whisper::CLASSES,
        super::llama::CLASSES,
        super::mistral::CLASSES,
        super::mixtral::CLASSES,
        super::qwen2::CLASSES,
        super::qwen3::CLASSES,
        super::gemma::CLASSES,
        super::gemma2::CLASSES,
        super::gemma3::CLASSES,
        super::phi3::CLASSES,
        super::gpt2::CLASSES,
        super::gpt_neox::CLASSES,
        super::opt::CLASSES,
        super::mamba::CLASSES,
        super::clip::CLASSES,
        super::clip_text::CLASSES,
        super::clip_vision::CLASSES,
        super::vit::CLASSES,
        super::dinov2::CLASSES,
        super::wav2vec2::CLASSES,
    ];
    families.iter().copied().flatten()
}

/// The names of all architectures, as `architectures` in `config.json` has them.
///
/// ```
/// use torsh_text::models::architectures;
/// assert!(architectures().any(|name| name == "BertForMaskedLM"));
/// ```
pub fn architectures() -> impl Iterator<Item = &'static str> {
    classes().map(|c| c.name)
}

fn class(name: &str) -> Result<&'static Class> {
    classes().find(|c| c.name == name).ok_or_else(|| {
        let all: Vec<_> = architectures().collect();
        TorshError::invalid(
            "AutoModel",
            format!(
                "no architecture is named {name:?}; there are {}",
                all.join(", ")
            ),
        )
        .with_hint(
            "for another class of a family that is there, load it by its type, as in BertModel::from_pretrained(..)",
        )
    })
}

/// What a program can do that knows what it loads.
const BY_TYPE: &str = "load it by its type, as in BertModel::from_pretrained(..)";

/// The architecture of a configuration that names none, by its `model_type`: the one that continues texts where the family
/// has one, else the model without a head, as `transformers.AutoModel`.
#[track_caller]
fn of_model_type(source: &str, config: &Value) -> Result<&'static Class> {
    let kind = config["model_type"].as_str().unwrap_or_default();
    let family = || classes().filter(|class| class.model_type == kind);
    let generates = |class: &&Class| {
        ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"]
            .iter()
            .any(|end| class.name.ends_with(end))
    };
    let found = family().find(generates).or_else(|| family().next());
    let Some(found) = found else {
        let why = match kind {
            "" => format!("the configuration of {source} has neither architectures nor model_type"),
            kind => format!(
                "the configuration of {source} has no architectures, and its model_type {kind:?} is not known"
            ),
        };
        return Err(TorshError::format("config.json", why).with_hint(BY_TYPE));
    };
    eprintln!(
        "torsh: the configuration of {source} names no architecture: its model_type {kind:?} makes it a {}",
        found.name
    );
    Ok(found)
}

/// A model with drawn weights, by the name of its architecture and the JSON object of its `config.json`.
///
/// # Errors
/// An unknown architecture, and a configuration that is not its.
///
/// ```
/// use torsh_text::models::{ModelInputs, from_config};
/// let config = serde_json::json!({ "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 11 });
/// let model = from_config("GPT2LMHeadModel", config)?;
/// let outputs = model.forward_named(&ModelInputs::ids(torsh_tensor::tensor![[1, 2, 3]]))?;
/// assert_eq!((outputs[0].0, outputs[0].1.dims()), ("logits", &[1, 3, 11][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn from_config(architecture: &str, config: Value) -> Result<Box<dyn TextModel>> {
    (class(architecture)?.build)(config)
}

/// Models of folders and repositories, whatever their architecture.
pub struct AutoModel;

impl AutoModel {
    /// The model of a folder or a repository `org/name`, which `architectures` in its `config.json` names, with its
    /// weights, in eval mode. Without `architectures`, `model_type` chooses the model that continues texts where the family
    /// has one, else the one without a head; a line says so.
    ///
    /// # Errors
    /// No such folder, an architecture that is not there, a configuration or weights that do not fit.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(source: &str) -> Result<Box<dyn TextModel>> {
        AutoModel::from_pretrained_with(source, PretrainedOptions::new())
    }

    /// [`AutoModel::from_pretrained`] with options. As in
    /// [`FromPretrained::from_pretrained_with`](torsh_hub::FromPretrained::from_pretrained_with), the file decides what is
    /// tied, and nothing is drawn but a head that was asked for.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained_with(
        source: &str,
        options: PretrainedOptions,
    ) -> Result<Box<dyn TextModel>> {
        let hub = Hub::shared()?;
        let config = hub.config(source)?;
        match config["architectures"][0].as_str() {
            Some(name) => AutoModel::load(hub, source, config.clone(), class(name)?, options),
            None => {
                let class = of_model_type(source, &config)?;
                AutoModel::load(hub, source, config, class, options).map_err(|e| {
                    let why = e.info().map_or_else(|| e.to_string(), |i| i.message.clone());
                    let why = format!(
                        "the configuration of {source} names no architecture, and as {}, by its model_type, it does not load: {why}",
                        class.name
                    );
                    TorshError::format("config.json", why).with_hint(BY_TYPE)
                })
            }
        }
    }

    /// The model of a class, with the weights of a source.
    #[track_caller]
    fn load(
        hub: Hub,
        source: &str,
        config: Value,
        class: &Class,
        options: PretrainedOptions,
    ) -> Result<Box<dyn TextModel>> {
        let mut model = Construction::new()
            .draw_nothing()
            .run(|| (class.build)(config.clone()))?;
        let (state, left_out) = hub.load_readable_state_dict(source, LoadStateDict::new())?;
        let (base, ignored, defaults) = (class.base_prefix, class.ignored, class.defaults);
        let state = pretrained::adapt(&*model, state, base, ignored, defaults)?;
        let own = model.state_dict();
        let head = NewHead {
            is_head: &|name| pretrained::is_new_head(&own, name, base),
            draw: &|| Ok((class.build)(config.clone())?.state_dict()),
        };
        let state = complete(&*model, source, state, &options, &head);
        let state = with_left_out(source, &left_out, state)?;
        drop(own);
        model.assign_state_dict(&state)?;
        model.eval();
        Ok(model)
    }
}
