//! The trainer, callbacks, metrics, checkpoints, configurations and registries of [`torsh_train`], whose registry of models
//! has those of the enabled features.

pub use torsh_train::*;

/// Models, optimizers, schedulers and metrics by name, as [`torsh_train::registry`].
pub mod registry {
    use torsh_nn::Module;
    use torsh_tensor::Result;
    use torsh_train::config::ModelConfig;

    pub use torsh_train::registry::*;

    fn register_all() {
        #[cfg(feature = "vision")]
        torsh_vision::models::register_models();
    }

    /// The models by name, as [`torsh_train::registry::models`]: `mlp`, `linear`, those of the enabled features, and what
    /// was registered.
    ///
    /// ```
    /// assert!(torsh::train::registry::models().get("mlp").is_ok());
    /// ```
    pub fn models() -> &'static Registry<ModelFactory> {
        register_all();
        torsh_train::registry::models()
    }

    /// The model of a configuration, as [`torsh_train::registry::create_model`], also those of the enabled features.
    ///
    /// ```
    /// use torsh::nn::ModuleExt;
    /// use torsh::train::config::ModelConfig;
    /// use torsh::train::registry::create_model;
    /// let config = ModelConfig { input_size: 6, num_classes: 2, ..ModelConfig::new("linear") };
    /// assert_eq!(create_model(&config)?.num_parameters(), 14);
    /// # Ok::<(), torsh::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`torsh_train::registry::create_model`].
    #[track_caller]
    pub fn create_model(config: &ModelConfig) -> Result<Box<dyn Module>> {
        register_all();
        torsh_train::registry::create_model(config)
    }
}
