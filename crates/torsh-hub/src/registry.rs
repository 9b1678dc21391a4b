//! Models by name.

use std::path::Path;

use serde_json::Value;
use torsh_nn::ModuleExt;
use torsh_nn::construct::Construction;
use torsh_tensor::{DType, Device, Result, TorshError};
use torsh_train::config::ModelConfig;
use torsh_train::registry::{create_model, model_defaults, models};

use crate::checkpoint::LoadStateDict;
use crate::hub::Hub;
use crate::pretrained::{HubModel, plain_names};

/// The arguments of [`load_with`].
///
/// ```
/// use torsh_hub::{ModelOptions, load_with};
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::zeros;
///
/// let options = ModelOptions::new().set("input_size", 4).set("num_layers", 1).set("num_classes", 3);
/// let model = load_with("mlp", options)?;
/// assert_eq!(model.forward(&zeros([2, 4]))?.dims(), [2, 3]);
/// assert_eq!(model.config()["architecture"], "mlp");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelOptions {
    /// Where the weights come from: a file, a folder, an address or a repository. Without it they are drawn.
    pub weights: Option<String>,
    /// The settings by the names that [`ModelConfig`] has for them; others are settings of the architecture.
    pub settings: Vec<(String, Value)>,
    /// Where the parameters shall be (the CPU).
    pub device: Option<Device>,
    /// The dtype of the parameters (float32).
    pub dtype: Option<DType>,
    /// The hub that fetches the weights (that of the process).
    pub hub: Option<Hub>,
}

impl ModelOptions {
    /// Drawn weights, and the architecture's own settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the weights come from.
    #[must_use]
    pub fn weights(mut self, weights: impl Into<String>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// A setting.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Where the parameters shall be.
    #[must_use]
    pub fn device(mut self, device: impl Into<Device>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// The dtype of the parameters.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The hub that fetches the weights.
    #[must_use]
    pub fn hub(mut self, hub: Hub) -> Self {
        self.hub = Some(hub);
        self
    }
}

/// A model by name with drawn weights (`torch.hub.load`): one of [`list`].
///
/// ```
/// use torsh_nn::ModuleExt;
/// // 784 numbers of an input to 10 classes, unless `load_with` says otherwise.
/// assert_eq!(torsh_hub::load("linear")?.num_parameters(), 784 * 10 + 10);
/// let error = torsh_hub::load("no_such_model").unwrap_err().to_string();
/// assert!(error.contains("there is no model `no_such_model`"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_with`].
#[track_caller]
pub fn load(name: &str) -> Result<HubModel> {
    load_with(name, ModelOptions::new())
}

/// A model by name, with options: its settings, and where its weights come from.
///
/// ```
/// use torsh_hub::{ModelOptions, load_with};
/// use torsh_nn::ModuleExt;
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-load-with-{}", std::process::id()));
/// let small = || ModelOptions::new().set("input_size", 2).set("num_classes", 1);
/// let model = load_with("linear", small())?;
/// model.save_pretrained(&dir)?;
/// let again = load_with("linear", small().weights(dir.display().to_string()))?;
/// assert_eq!(again.state_dict()["1.weight"], model.state_dict()["1.weight"]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// * No model of the name; the error lists those there are. The crate `torsh` adds those of its
///   features; without it, `torsh_vision::register()` adds torchvision's.
/// * Settings that the model does not have, and weights that do not fit it.
#[torsh_tensor::names_caller]
pub fn load_with(name: &str, options: ModelOptions) -> Result<HubModel> {
    let mut config = serde_json::to_value(model_defaults(name)).map_err(wrong)?;
    if let Value::Object(all) = &mut config {
        for (name, value) in options.settings {
            let known = all.contains_key(&name)
                && !matches!(name.as_str(), "architecture" | "options" | "pretrained");
            match known {
                true => drop(all.insert(name, value)),
                false => {
                    if let Some(Value::Object(more)) = all.get_mut("options") {
                        more.insert(name, value);
                    }
                }
            }
        }
    }
    let mut config: ModelConfig = serde_json::from_value(config).map_err(wrong)?;
    if let Some(device) = options.device {
        config.device = device.to_string();
    }
    if let Some(dtype) = options.dtype {
        config.dtype = dtype.to_string();
    }
    let module = match options.weights.as_deref() {
        None => create_model(&config)?,
        Some(source) => {
            let hub = options.hub.map_or_else(Hub::shared, Ok)?;
            let state = hub.load_state_dict(source, LoadStateDict::new())?;
            let module = Construction::new()
                .draw_nothing()
                .run(|| create_model(&config))?;
            module.load_state_dict(&plain_names(state)).map_err(|e| {
                let of = Path::new(source)
                    .file_name()
                    .map_or(source.into(), |n| n.to_string_lossy());
                e.with_hint(format!(
                    "`{}` is of another model or other settings than `{name}`",
                    crate::errors::short(&of)
                ))
            })?;
            module
        }
    };
    // Where it was is nothing that another machine wants to know.
    config.device = "cpu".into();
    let config = match serde_json::to_value(&config).map_err(wrong)? {
        Value::Object(mut map) => {
            map.remove("pretrained");
            // The architecture's own number, which other readers would take as none.
            if map.get("num_classes").is_some_and(|n| *n == 0) {
                map.remove("num_classes");
            }
            map
        }
        _ => serde_json::Map::new(),
    };
    Ok(HubModel::new(module, config))
}

#[track_caller]
fn wrong(e: serde_json::Error) -> TorshError {
    TorshError::invalid("hub::load", e.to_string())
}

/// The names of the models (`torch.hub.list`).
///
/// ```
/// use torsh_nn::Linear;
/// torsh_train::registry::register_model("my_net", |c| Ok(Box::new(Linear::new(c.input_size, 1))));
/// assert!(torsh_hub::list().contains(&"my_net".to_string()));
/// ```
pub fn list() -> Vec<String> {
    models().names()
}

/// What there is to know of a model (`torch.hub.help`): the text that it was registered with, and its settings.
///
/// ```
/// let text = torsh_hub::help("mlp")?;
/// assert!(text.contains("hidden layers") && text.contains("num_classes"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No model of the name; the error lists those there are.
#[torsh_tensor::names_caller]
pub fn help(name: &str) -> Result<String> {
    models().get(name)?;
    let about = models()
        .about(name)
        .unwrap_or_else(|| format!("`{name}`: registered without a description."));
    Ok(format!(
        "{about}\n\nSettings: input_size, hidden_size, num_layers, num_classes, dropout, batch_norm, activation, as far as the architecture has them; others are the architecture's own.\nhub::load_with(\"{name}\", ModelOptions::new().weights(\"FILE, ADDRESS or org/name\").set(\"num_classes\", 10))"
    ))
}
