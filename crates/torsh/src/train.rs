//! Trainer, callbacks, metrics, checkpoints, configurations and registries, as [`torsh_train`], whose registry of models also
//! has the models of all enabled features.

pub use torsh_train::*;

pub mod registry {
    //! Models, optimizers, schedulers and metrics by name, as [`torsh_train::registry`]; the models of all enabled features
    //! are there.
    //!
    //! ```
    //! # #[cfg(feature = "vision")]
    //! # fn main() -> torsh::Result<()> {
    //! use torsh::prelude::*;
    //! use torsh::train::config::ModelConfig;
    //! use torsh::train::registry::{ModelBuilder, create_model, models};
    //!
    //! let net = ModelBuilder::new().architecture("squeezenet1_1").num_classes(10).build()?;
    //! assert_eq!(net.num_parameters(), 727_626);
    //! let config = ModelConfig { num_classes: 10, device: "meta".into(), ..ModelConfig::new("resnet18") };
    //! assert_eq!(create_model(&config)?.num_parameters(), 11_181_642);
    //! assert!(models().contains("vit_b_16"));
    //! # Ok(())
    //! # }
    //! # #[cfg(not(feature = "vision"))]
    //! # fn main() {}
    //! ```

    use torsh_nn::Module;
    use torsh_tensor::Result;
    use torsh_train::config::ModelConfig;
    pub use torsh_train::registry::*;

    /// Adds the models of the enabled features to the registry.
    pub(crate) fn register_all() {
        #[cfg(feature = "vision")]
        torsh_vision::models::register_models();
    }

    /// The models by name: `mlp` and `linear`, those of all enabled features, and what was registered.
    ///
    /// ```
    /// use torsh::train::registry::models;
    /// assert!(models().contains("mlp"));
    /// assert_eq!(models().contains("resnet18"), cfg!(feature = "vision"));
    /// ```
    pub fn models() -> &'static Registry<ModelFactory> {
        register_all();
        torsh_train::registry::models()
    }

    /// The configuration that a model has where nothing is set, as [`torsh_train::registry::model_defaults`].
    ///
    /// ```
    /// use torsh::train::registry::model_defaults;
    /// assert_eq!(model_defaults("mlp").hidden_size, 128);
    /// ```
    pub fn model_defaults(name: &str) -> ModelConfig {
        register_all();
        torsh_train::registry::model_defaults(name)
    }

    /// Adds a model of one's own to [`models`], where it takes the place of another of its name.
    ///
    /// ```
    /// use torsh::prelude::*;
    /// use torsh::train::config::ModelConfig;
    /// use torsh::train::registry::{create_model, register_model};
    ///
    /// register_model("resnet18", |c| Ok(Box::new(Linear::new(c.input_size, 1))));
    /// let config = ModelConfig { input_size: 6, ..ModelConfig::new("resnet18") };
    /// assert_eq!(create_model(&config)?.num_parameters(), 6 + 1);
    /// # Ok::<(), torsh::TorshError>(())
    /// ```
    pub fn register_model(
        name: &str,
        make: impl Fn(&ModelConfig) -> Result<Box<dyn Module>> + Send + Sync + 'static,
    ) {
        // Those of the features first, which would otherwise take its place.
        register_all();
        torsh_train::registry::register_model(name, make);
    }

    /// Says what configuration a model of the registry has where nothing is set, as
    /// [`torsh_train::registry::set_model_defaults`].
    ///
    /// ```
    /// use torsh::train::config::ModelConfig;
    /// use torsh::train::registry::{model_defaults, set_model_defaults};
    /// set_model_defaults("mlp", ModelConfig { hidden_size: 64, ..ModelConfig::new("mlp") });
    /// assert_eq!(model_defaults("mlp").hidden_size, 64);
    /// ```
    pub fn set_model_defaults(name: &str, config: ModelConfig) {
        register_all();
        torsh_train::registry::set_model_defaults(name, config);
    }

    /// The model of a configuration, as [`torsh_train::registry::create_model`], also one of the enabled features.
    ///
    /// ```
    /// use torsh::prelude::*;
    /// use torsh::train::config::ModelConfig;
    /// use torsh::train::registry::create_model;
    /// let config = ModelConfig { input_size: 4, num_classes: 2, ..ModelConfig::new("linear") };
    /// assert_eq!(create_model(&config)?.num_parameters(), 4 * 2 + 2);
    /// # Ok::<(), torsh::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As there: no model of the name, a device that is not there, weights that do not fit.
    #[torsh_tensor::names_caller]
    pub fn create_model(config: &ModelConfig) -> Result<Box<dyn Module>> {
        register_all();
        torsh_train::registry::create_model(config)
    }

    torsh_train::model_builder_by! {
        /// Builds a model of the registry, also one of the enabled features.
        ///
        /// ```
        /// use torsh::prelude::*;
        /// use torsh::train::registry::ModelBuilder;
        /// let net = ModelBuilder::new().architecture("mlp").input_size(4).num_classes(3).build()?;
        /// assert_eq!(net.forward(&zeros(&[2, 4]))?.dims(), [2, 3]);
        /// # Ok::<(), torsh::TorshError>(())
        /// ```
        create_model
    }
}
