//! Models by name.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use torsh_nn::{
    BatchNorm1d, Dropout, ELU, Flatten, GELU, Identity, LeakyReLU, Linear, Mish, Module, ModuleExt,
    ReLU, SELU, Sequential, SiLU, Sigmoid, Tanh,
};
use torsh_tensor::{DType, Device, Result, TorshError};

use super::{Elsewhere, Registry};
use crate::config::ModelConfig;

/// Makes a model of a configuration.
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_train::config::ModelConfig;
/// use torsh_train::registry::ModelFactory;
/// let make: ModelFactory = Arc::new(|c| Ok(Box::new(Linear::new(c.input_size, 1))));
/// let config = ModelConfig { input_size: 5, ..ModelConfig::new("regression") };
/// assert_eq!(make(&config)?.num_parameters(), 5 + 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type ModelFactory = Arc<dyn Fn(&ModelConfig) -> Result<Box<dyn Module>> + Send + Sync>;

fn activation(name: &str) -> Result<Box<dyn Module>> {
    Ok(match super::plain(name).as_str() {
        "relu" => Box::new(ReLU::new()),
        "gelu" => Box::new(GELU::new()),
        "silu" | "swish" => Box::new(SiLU::new()),
        "mish" => Box::new(Mish::new()),
        "tanh" => Box::new(Tanh::new()),
        "sigmoid" => Box::new(Sigmoid::new()),
        "leakyrelu" => Box::new(LeakyReLU::new()),
        "elu" => Box::new(ELU::new()),
        "selu" => Box::new(SELU::new()),
        "identity" | "none" => Box::new(Identity::new()),
        _ => {
            return Err(TorshError::invalid(
                "",
                format!("there is no activation `{name}`"),
            )
            .with_hint(
                "there are relu, gelu, silu, mish, tanh, sigmoid, leaky_relu, elu, selu, identity",
            ));
        }
    })
}

/// Hidden layers of one width, each with batch norm and dropout where they are asked for.
fn mlp(c: &ModelConfig) -> Result<Box<dyn Module>> {
    let mut net = Sequential::new().add(Flatten::new());
    let mut width = c.input_size;
    for _ in 0..c.num_layers {
        net.push(Linear::new(width, c.hidden_size));
        if c.batch_norm {
            net.push(BatchNorm1d::new(c.hidden_size)?);
        }
        net.push(activation(&c.activation)?);
        if c.dropout > 0.0 {
            net.push(Dropout::new(c.dropout)?);
        }
        width = c.hidden_size;
    }
    net.push(Linear::new(width, c.num_classes));
    Ok(Box::new(net))
}

fn linear(c: &ModelConfig) -> Result<Box<dyn Module>> {
    let net = Sequential::new().add(Flatten::new());
    Ok(Box::new(net.add(Linear::new(c.input_size, c.num_classes))))
}

/// Returns the models by name: `mlp` and `linear`, and what was registered.
///
/// ```
/// use torsh_train::registry::models;
/// assert!(models().contains("mlp") && models().contains("linear"));
/// assert!(!models().contains("resnet18")); // `torsh_vision::register()` adds it.
/// ```
pub fn models() -> &'static Registry<ModelFactory> {
    static ALL: LazyLock<Registry<ModelFactory>> = LazyLock::new(|| {
        let entries: [(_, ModelFactory); 2] =
            [("mlp", Arc::new(mlp)), ("linear", Arc::new(linear))];
        let mut registry = Registry::new("model", entries);
        registry.elsewhere = Some(Elsewhere {
            example: "resnet18",
            hint: "torsh_vision::register() adds torchvision's, which the crate torsh with the feature `vision` does itself",
        });
        registry.describe("mlp", "mlp: hidden layers of one width with an activation, and batch norm and dropout where they are asked for.");
        registry.describe(
            "linear",
            "linear: one layer from all numbers of an input to the classes.",
        );
        registry
    });
    &ALL
}

fn defaults() -> &'static RwLock<BTreeMap<String, ModelConfig>> {
    static ALL: LazyLock<RwLock<BTreeMap<String, ModelConfig>>> = LazyLock::new(RwLock::default);
    &ALL
}

/// Returns the configuration that a model has where nothing is set: [`ModelConfig::new`], unless whoever registered the
/// model gave another.
///
/// ```
/// use torsh_train::config::ModelConfig;
/// use torsh_train::registry::model_defaults;
/// assert_eq!(model_defaults("mlp"), ModelConfig::new("mlp"));
/// ```
pub fn model_defaults(name: &str) -> ModelConfig {
    let found = defaults().read().get(&super::plain(name)).cloned();
    found.unwrap_or_else(|| ModelConfig::new(name))
}

/// Says what configuration a model of the registry has where nothing is set.
///
/// ```
/// use torsh_train::config::ModelConfig;
/// use torsh_train::registry::{model_defaults, set_model_defaults};
///
/// set_model_defaults("wide", ModelConfig { hidden_size: 1024, ..ModelConfig::new("wide") });
/// assert_eq!(model_defaults("wide").hidden_size, 1024);
/// assert_eq!(model_defaults("mlp").hidden_size, 128);
/// ```
pub fn set_model_defaults(name: &str, config: ModelConfig) {
    defaults().write().insert(super::plain(name), config);
}

/// Adds a model of one's own to [`models`].
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_train::config::ModelConfig;
/// use torsh_train::registry::{create_model, register_model};
///
/// register_model("half", |c| Ok(Box::new(Linear::new(c.input_size, c.input_size / 2))));
/// let config = ModelConfig { input_size: 6, ..ModelConfig::new("half") };
/// assert_eq!(create_model(&config)?.num_parameters(), 6 * 3 + 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_model(
    name: &str,
    make: impl Fn(&ModelConfig) -> Result<Box<dyn Module>> + Send + Sync + 'static,
) {
    models().register(name, Arc::new(make));
}

/// Makes the model of a configuration, with its weights where `pretrained` names a file, on its device and
/// of its dtype.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_train::{config::ModelConfig, registry::create_model};
/// let config = ModelConfig {
///     input_size: 4, hidden_size: 3, num_layers: 1, num_classes: 2, ..ModelConfig::new("mlp")
/// };
/// assert_eq!(create_model(&config)?.num_parameters(), (4 * 3 + 3) + (3 * 2 + 2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No model of the name, in which case the error lists those there are, and says how those of `torsh-vision` come in; a
/// device that is not there; weights that do not fit.
#[torsh_tensor::names_caller]
pub fn create_model(config: &ModelConfig) -> Result<Box<dyn Module>> {
    let mut model = models().get(&config.architecture)?(config)?;
    let (device, dtype) = (
        Device::from_str(&config.device)?,
        DType::from_str(&config.dtype)?,
    );
    model.to_dtype(dtype)?;
    model.to_device(device)?;
    if let Some(path) = &config.pretrained {
        model.load(path)?;
    }
    Ok(model)
}

/// The builder of models by name, which makes them with a function such as [`create_model`]: the crate `torsh` has one whose
/// function first adds the models of its features to the registry.
#[doc(hidden)]
#[macro_export]
macro_rules! model_builder_by {
    ($(#[$doc:meta])* $create:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        #[must_use = "a builder does nothing until build()"]
        pub struct ModelBuilder {
            config: $crate::config::ModelConfig,
        }

        impl ModelBuilder {
            /// With the defaults of `ModelConfig`.
            pub fn new() -> Self {
                Self::default()
            }

            /// With a configuration.
            pub fn config(mut self, config: $crate::config::ModelConfig) -> Self {
                self.config = config;
                self
            }

            $crate::model_builder_by! { setters
                /// The architecture's name.
                architecture: &str => |v| v.to_string();
                /// How many numbers an input has.
                input_size: usize => |v| v;
                /// The width of the hidden layers.
                hidden_size: usize => |v| v;
                /// How many hidden layers there are.
                num_layers: usize => |v| v;
                /// How many classes, or outputs, there are.
                num_classes: usize => |v| v;
                /// With which probability dropout drops.
                dropout: f64 => |v| v;
                /// Whether there are batch norms.
                batch_norm: bool => |v| v;
                /// The activation's name.
                activation: &str => |v| v.to_string();
                /// A file of weights to start from.
                pretrained: impl Into<std::path::PathBuf> => |v| Some(v.into());
                /// The device.
                device: torsh_tensor::Device => |v| v.to_string();
                /// The dtype of the parameters.
                dtype: torsh_tensor::DType => |v| v.to_string();
            }

            /// The model. Errors as [`create_model`].
            #[track_caller]
            pub fn build(self) -> torsh_tensor::Result<Box<dyn torsh_nn::Module>> {
                $create(&self.config)
            }
        }
    };
    (setters $($(#[$doc:meta])* $field:ident: $ty:ty => |$v:ident| $e:expr;)*) => {$(
        $(#[$doc])*
        pub fn $field(mut self, $field: $ty) -> Self {
            let $v = $field;
            self.config.$field = $e;
            self
        }
    )*};
}

model_builder_by! {
    /// Builds a model of the registry.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::{DType, Device, Tensor};
    /// use torsh_train::registry::ModelBuilder;
    ///
    /// let net = ModelBuilder::new()
    ///     .architecture("mlp")
    ///     .input_size(4)
    ///     .hidden_size(8)
    ///     .num_layers(1)
    ///     .num_classes(3)
    ///     .dtype(DType::F64)
    ///     .build()?;
    /// assert_eq!(net.num_parameters(), 4 * 8 + 8 + 8 * 3 + 3);
    /// let y = net.forward(&Tensor::ones([2, 2, 2], DType::F64, Device::Cpu)?)?;
    /// assert_eq!((y.dims(), y.dtype()), (&[2, 3][..], DType::F64));
    ///
    /// let error = ModelBuilder::new().architecture("mpl").build().err().map(|e| e.to_string());
    /// assert!(error.as_ref().is_some_and(|e| e.contains("no model `mpl`") && e.contains("linear, mlp")));
    /// assert!(error.is_some_and(|e| e.contains("torsh_vision::register() adds torchvision's")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    create_model
}
