//! The weights of models, as [`torsh_hub`], for the models of all enabled features.

pub use torsh_hub::*;
use torsh_tensor::Result;

use crate::train::registry::register_all;

/// A model by name with drawn weights, as [`torsh_hub::load`], also one of the enabled features.
///
/// ```
/// use torsh::hub;
/// assert_eq!(hub::load("mlp")?.config()["architecture"], "mlp");
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_with`].
#[track_caller]
pub fn load(name: &str) -> Result<HubModel> {
    load_with(name, ModelOptions::new())
}

/// A model by name, as [`torsh_hub::load_with`], also one of the enabled features.
///
/// ```
/// # #[cfg(feature = "vision")]
/// # fn main() -> torsh::Result<()> {
/// use torsh::hub::{self, ModelOptions};
/// use torsh::prelude::*;
/// let model = hub::load_with("squeezenet1_1", ModelOptions::new().set("num_classes", 10))?;
/// assert_eq!(model.num_parameters(), 727_626);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "vision"))]
/// # fn main() {}
/// ```
///
/// # Errors
/// As there: no model of the name, settings that the model does not have, weights that do not fit.
#[torsh_tensor::names_caller]
pub fn load_with(name: &str, options: ModelOptions) -> Result<HubModel> {
    register_all();
    torsh_hub::load_with(name, options)
}

/// The names of the models, as [`torsh_hub::list`], with those of the enabled features.
///
/// ```
/// assert_eq!(torsh::hub::list().contains(&"resnet50".to_string()), cfg!(feature = "vision"));
/// ```
pub fn list() -> Vec<String> {
    register_all();
    torsh_hub::list()
}

/// What there is to know of a model, as [`torsh_hub::help`].
///
/// ```
/// assert!(torsh::hub::help("mlp")?.contains("hidden layers"));
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// No model of the name.
#[torsh_tensor::names_caller]
pub fn help(name: &str) -> Result<String> {
    register_all();
    torsh_hub::help(name)
}

/// A model from a folder or a repository, as [`torsh_hub::from_pretrained`], also one of the enabled features.
///
/// ```
/// use torsh::hub;
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-face-{}", std::process::id()));
/// let model = hub::load("linear")?;
/// model.save_pretrained(&dir)?;
/// assert_eq!(hub::from_pretrained(dir.display().to_string())?.config()["architecture"], "linear");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// As there: no such folder or repository, a configuration of a model that is not registered, weights that do not fit.
#[torsh_tensor::names_caller]
pub fn from_pretrained(source: impl AsRef<str>) -> Result<HubModel> {
    register_all();
    torsh_hub::from_pretrained(source)
}

/// A model from a folder or a repository of a hub with settings of one's own, as [`torsh_hub::from_pretrained_with`], also
/// one of the enabled features.
///
/// ```
/// use torsh::hub::{self, Hub};
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-face-with-{}", std::process::id()));
/// hub::load("linear")?.save_pretrained(&dir)?;
/// let model = hub::from_pretrained_with(dir.display().to_string(), &Hub::builder().offline(true).build()?)?;
/// assert_eq!(model.config()["architecture"], "linear");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// As [`from_pretrained`].
#[torsh_tensor::names_caller]
pub fn from_pretrained_with(source: impl AsRef<str>, hub: &Hub) -> Result<HubModel> {
    register_all();
    torsh_hub::from_pretrained_with(source, hub)
}
