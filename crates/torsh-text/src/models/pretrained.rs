//! What makes models of configurations and of the files that Hugging Face's library writes.

use serde_json::Value;
use torsh_nn::{ModuleExt, StateDict};
use torsh_tensor::Result;

use super::text_model::TextModel;

/// An architecture.
pub(crate) struct Class {
    /// Its name in `architectures`.
    pub(crate) name: &'static str,
    /// Makes it of the JSON object of `config.json`.
    pub(crate) build: fn(Value) -> Result<Box<dyn TextModel>>,
    /// `model_type` of its configuration.
    pub(crate) model_type: &'static str,
    /// What the names of the model under a head begin with in files of models with a head: `bert` of `bert.encoder..`.
    pub(crate) base_prefix: &'static str,
    /// Ends of names in files that are no weights of the model, and are left out: tables that the model computes, and other
    /// models' weights.
    pub(crate) ignored: &'static [&'static str],
    /// Names of tensors that files may lack, and that are then as the constructor made them, without drawing.
    pub(crate) defaults: &'static [&'static str],
}

/// Gives the tensors of a file the names of a model.
///
/// * A model without head reads the file of one with a head, whose other tensors it leaves out, and the other way
///   round a field of the model reads it.
/// * A file without the model's head loses the head that it has: see [`is_new_head`].
/// * Weights that are tied to others need not be in the file: they are those of the first of the others that it has.
/// * Names of older files become today's (`older.rs`), `gamma` and `beta` become `weight` and `bias`, and experts with
///   weights of their own are stacked.
pub(crate) fn adapt(
    model: &dyn TextModel,
    state: StateDict,
    base_prefix: &str,
    ignored: &[&str],
    defaults: &[&str],
) -> Result<StateDict> {
    let own = model.state_dict();
    let state = crate::blocks::moe::stack_experts(state)?;
    let state = super::renamed_weights::renamed(&own, &state, base_prefix)?;
    let prefix = format!("{base_prefix}.");
    let strips = !base_prefix.is_empty()
        && !own.keys().any(|name| name.starts_with(&prefix))
        && state.keys().any(|name| name.starts_with(&prefix));
    let mut out = StateDict::new();
    for (name, tensor) in state.iter() {
        let name = match name.strip_prefix(&prefix) {
            Some(rest) if strips => rest,
            _ if strips => continue,
            _ => name,
        };
        let name = match name.rsplit_once('.') {
            Some((layer, "gamma")) => format!("{layer}.weight"),
            Some((layer, "beta")) => format!("{layer}.bias"),
            _ => name.to_string(),
        };
        if own.contains_key(&name) || !ignored.iter().any(|end| name.ends_with(end)) {
            out.insert(name, tensor.clone());
        }
    }
    // Names of one parameter stand for each other.
    let missing: Vec<_> = own
        .iter()
        .filter(|(name, _)| !out.contains_key(name))
        .collect();
    for (name, tensor) in missing {
        let twin = own.iter().find_map(|(other, t)| {
            let tied = t.shares_storage(tensor) && t.dims() == tensor.dims();
            if tied { out.get(other).cloned() } else { None }
        });
        if let Some(twin) = twin {
            out.insert(name, twin);
        }
    }
    for (name, tensor) in own.iter() {
        if defaults.contains(&name) && !out.contains_key(name) {
            out.insert(name, tensor.clone());
        }
    }
    let missing = |name: &&str| !out.contains_key(name);
    let headless = own
        .keys()
        .filter(missing)
        .all(|name| is_new_head(&own, name, base_prefix));
    if headless && own.keys().any(|name| !out.contains_key(name)) {
        let others: Vec<String> = out
            .keys()
            .filter(|name| !own.contains_key(name) && is_head(name, base_prefix))
            .map(str::to_string)
            .collect();
        for name in &others {
            out.remove(name);
        }
    }
    Ok(out)
}

/// Whether a tensor is not of the model under a head.
fn is_head(name: &str, base_prefix: &str) -> bool {
    let rest = name.strip_prefix(base_prefix);
    !base_prefix.is_empty() && !rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a tensor of the model with the state dict `own` belongs to a head that a file of the model without it lacks: a
/// model that is fine-tuned for another task gets a new one. The pooler counts, which masked language models lack.
pub(crate) fn is_new_head(own: &StateDict, name: &str, base_prefix: &str) -> bool {
    let below = |name: &str| !is_head(name, base_prefix);
    let rest = name.strip_prefix(base_prefix).unwrap_or(name);
    rest.trim_start_matches('.').starts_with("pooler.")
        || is_head(name, base_prefix) && own.keys().any(below)
}

/// Implements what all models share, for models that have an inherent `new(Config) -> Result<Self>`, a field `config`
/// and an `impl TextModel`:
/// [`FromPretrained`](torsh_hub::FromPretrained), and the list `CLASSES` of the file, for
/// [`AutoModel`](super::AutoModel).
///
/// ```text
/// pretrained! {
///     base "bert", ignores ["embeddings.position_ids"]; // and `, defaults ["final_logits_bias"]`
///     BertModel(BertConfig), BertForMaskedLM(BertConfig)
/// }
/// ```
macro_rules! pretrained {
    (
        base $base:expr, ignores $ignored:tt $(, defaults $defaults:tt)?;
        $($model:ident($config:ident)),* $(,)?
    ) => {
        /// What files of these architectures may lack.
        const DEFAULTS: &[&str] = $crate::models::pretrained!(@ $($defaults)?);

        /// The architectures of this file.
        pub(crate) const CLASSES: &[$crate::models::Class] = &[$($crate::models::Class {
            name: stringify!($model),
            build: |config| {
                let config = <$config as $crate::config::PretrainedConfig>::from_json(config)?;
                Ok(Box::new($model::new(config)?))
            },
            model_type: <$config as $crate::config::PretrainedConfig>::MODEL_TYPE,
            base_prefix: $base,
            ignored: &$ignored,
            defaults: DEFAULTS,
        }),*];

        $(
            impl torsh_hub::FromPretrained for $model {
                type Config = $config;

                #[torsh_tensor::names_caller]
                fn from_config(config: $config) -> torsh_tensor::Result<Self> {
                    $model::new(config)
                }

                fn config(&self) -> $config {
                    self.config.clone()
                }

                #[torsh_tensor::names_caller]
                fn read_config(config: serde_json::Value) -> torsh_tensor::Result<$config> {
                    <$config as $crate::config::PretrainedConfig>::from_json(config)
                }

                #[torsh_tensor::names_caller]
                fn write_config(&self) -> torsh_tensor::Result<serde_json::Value> {
                    let mut config = $crate::config::PretrainedConfig::to_json(&self.config)?;
                    config["architectures"] = serde_json::json!([stringify!($model)]);
                    Ok(config)
                }

                #[torsh_tensor::names_caller]
                fn adapt_state_dict(
                    &self,
                    state: torsh_nn::StateDict,
                ) -> torsh_tensor::Result<torsh_nn::StateDict> {
                    $crate::models::adapt(self, state, $base, &$ignored, DEFAULTS)
                }

                fn may_be_missing(&self, name: &str) -> bool {
                    let own = torsh_nn::ModuleExt::state_dict(self);
                    $crate::models::is_new_head(&own, name, $base)
                }
            }
        )*
    };
    (@) => {
        &[]
    };
    (@ $defaults:tt) => {
        &$defaults
    };
}
pub(crate) use pretrained;
