//! The builders of models: structs with torchvision's arguments, which the registry can drive by name.

use serde_json::Value;
use torsh_tensor::{Result, TorshError};
use torsh_train::config::ModelConfig;

use super::common::{Common, VisionModel};
use super::registry::{ModelOptions, apply};

/// A builder of a model, as the registry drives it.
pub(crate) trait ModelFamily: Sized {
    /// The model.
    type Model: VisionModel;

    /// The common arguments.
    fn common(&mut self) -> &mut Common;

    /// Takes a keyword argument of torchvision's constructor; false where it has none of the name.
    fn option(&mut self, name: &str, value: &Value) -> Result<bool>;

    /// Makes the model.
    fn build_model(self) -> Result<Self::Model>;
}

/// A builder with what a configuration says. Whatever it says wrong is an error of `build`.
pub(crate) fn configured<F: ModelFamily + Default>(config: &ModelConfig) -> F {
    let mut builder = F::default();
    let applied = ModelOptions::try_from(config).and_then(|o| apply(&mut builder, &o));
    let common = builder.common();
    common.refused = applied.err().map(|e| e.to_string());
    common.weights = config.pretrained.clone().into();
    builder
}

/// Reads a keyword argument; one number stands for a list of it.
#[track_caller]
pub(crate) fn read<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    let whole = serde_json::from_value(value.clone());
    let read = match whole {
        Err(e) if value.is_number() => {
            serde_json::from_value(Value::Array(vec![value.clone()])).map_err(|_| e)
        }
        whole => whole,
    };
    read.map_err(|e| TorshError::invalid("get_model", format!("{name}: {e}")))
}

/// The setters of the common arguments; the builder has a field `common`.
macro_rules! common_setters {
    () => {
        /// Where the weights come from. The default is drawn.
        pub fn weights(mut self, weights: impl Into<$crate::models::Weights>) -> Self {
            self.common.weights = weights.into();
            self
        }

        /// The number of classes. Where the weights are of another number, the head is new and all else is loaded, and a
        /// line on the standard error says so.
        pub fn num_classes(mut self, classes: usize) -> Self {
            self.common.num_classes = Some(classes);
            self
        }

        /// Where the parameters are. The default is the default device.
        pub fn device(mut self, device: impl Into<torsh_tensor::Device>) -> Self {
            self.common.device = Some(device.into());
            self
        }

        /// The dtype of the parameters. The default is the default dtype.
        pub fn dtype(mut self, dtype: torsh_tensor::DType) -> Self {
            self.common.dtype = Some(dtype);
            self
        }
    };
}

/// A builder: a struct with a setter for each argument.
///
/// Rows are `/// docs  name: Type = default;`, with `, Argument => conversion` behind the default where the setter takes
/// something else. Those of `options` can be given by name in the registry, those of `parts` only in Rust, and those of
/// `fixed` are the family's own.
macro_rules! builder {
    (
        $(#[$doc:meta])*
        $builder:ident $(<$generic:ident>)?;
        options { $($(#[$odoc:meta])* $option:ident: $oty:ty = $odefault:expr $(, $oarg:ty => $oconvert:expr)?;)* }
        $(parts { $($(#[$pdoc:meta])* $part:ident: $pty:ty = $pdefault:expr $(, $parg:ty => $pconvert:expr)?;)* })?
        $(fixed { $($fixed:ident: $fty:ty = $fdefault:expr;)* })?
    ) => {
        $(#[$doc])*
        #[must_use = "a builder does nothing until build()"]
        pub struct $builder $(<$generic>)? {
            $(pub(in crate::models) $option: $oty,)*
            $($(pub(in crate::models) $part: $pty,)*)?
            $($($fixed: $fty,)*)?
            pub(in crate::models) common: $crate::models::Common,
            $(marker: std::marker::PhantomData<fn() -> $generic>,)?
        }

        impl $(<$generic>)? Default for $builder $(<$generic>)? {
            fn default() -> Self {
                $builder {
                    $($option: $odefault,)*
                    $($($part: $pdefault,)*)?
                    $($($fixed: $fdefault,)*)?
                    common: $crate::models::Common::default(),
                    $(marker: std::marker::PhantomData::<fn() -> $generic>,)?
                }
            }
        }

        // Derived, these would ask the same of the model.
        impl $(<$generic>)? Clone for $builder $(<$generic>)? {
            fn clone(&self) -> Self {
                $builder {
                    $($option: self.$option.clone(),)*
                    $($($part: self.$part.clone(),)*)?
                    $($($fixed: self.$fixed.clone(),)*)?
                    common: self.common.clone(),
                    $(marker: std::marker::PhantomData::<fn() -> $generic>,)?
                }
            }
        }

        impl $(<$generic>)? std::fmt::Debug for $builder $(<$generic>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($builder))
                    $(.field(stringify!($option), &self.$option))*
                    $($(.field(stringify!($part), &self.$part))*)?
                    $($(.field(stringify!($fixed), &self.$fixed))*)?
                    .field("common", &self.common)
                    .finish()
            }
        }

        impl $(<$generic>)? From<$crate::models::Weights> for $builder $(<$generic>)? {
            fn from(weights: $crate::models::Weights) -> Self {
                Self::default().weights(weights)
            }
        }

        impl $(<$generic>)? $builder $(<$generic>)? {
            $(torsh_tensor::option_setter! { $(#[$odoc])* $option: $oty $(, $oarg => $oconvert)? })*
            $($(torsh_tensor::option_setter! { $(#[$pdoc])* $part: $pty $(, $parg => $pconvert)? })*)?
            $crate::models::builder::common_setters!();

            /// Takes a keyword argument.
            #[allow(unused_variables, reason = "a builder may have no keyword arguments")]
            pub(in crate::models) fn take(
                &mut self,
                name: &str,
                value: &serde_json::Value,
            ) -> torsh_tensor::Result<bool> {
                $(
                    if name == stringify!($option) {
                        self.$option = $crate::models::builder::read(name, value)?;
                        return Ok(true);
                    }
                )*
                Ok(false)
            }
        }
    };
}

/// What the registry needs of a builder that has `build` and `take`. The number of parameters is that of the builder's
/// defaults.
macro_rules! model_family {
    ($builder:ident of $model:ident, $kind:ident $count:literal parameters) => {
        impl $crate::models::builder::ModelFamily for $builder {
            type Model = $model;

            fn common(&mut self) -> &mut $crate::models::Common {
                &mut self.common
            }

            fn option(
                &mut self,
                name: &str,
                value: &serde_json::Value,
            ) -> torsh_tensor::Result<bool> {
                self.take(name, value)
            }

            fn build_model(self) -> torsh_tensor::Result<$model> {
                self.build()
            }
        }

        impl $model {
            /// Gives a builder, which has a setter for each argument of torchvision's class, at its default.
            #[doc = $crate::models::common::example!(
                "use torsh_nn::ModuleExt;\n\
                 use torsh_tensor::Device;\n\
                 use torsh_vision::models::", $crate::models::common::module_of!($kind), stringify!($model), ";\n\
                 let model = ", stringify!($model), "::builder().device(Device::Meta).build()?;\n\
                 assert_eq!(model.num_parameters(), ", stringify!($count), ");"
            )]
            pub fn builder() -> $builder {
                $builder::default()
            }
        }
    };
}

/// [`builder!`] of a model whose constructor is `fn construct(builder: &BUILDER) -> Result<MODEL>`, which runs under a
/// construction. `head` lists what the names of those parameters begin with that depend on the number of classes.
///
/// `loading |loading, builder| ..` changes how weights are read, and the builder ahead of the construction. A field `name`
/// says in messages which model it is. `KIND NUMBER parameters` is what the model is for, and how many parameters the
/// builder's defaults make.
macro_rules! model_builder {
    (
        $(#[$doc:meta])*
        $builder:ident of $model:ident, $kind:ident $count:literal parameters, head [$($head:literal),*]
            $(, loading |$loading:ident, $this:ident| $adjust:expr)?;
        options { $($options:tt)* }
        $(parts { $($parts:tt)* })?
        $(fixed { $($fixed:tt)* })?
    ) => {
        $crate::models::builder::builder! {
            $(#[$doc])*
            $builder;
            options { $($options)* }
            parts { $($($parts)*)? }
            fixed {
                name: &'static str = stringify!($model);
                $($($fixed)*)?
            }
        }

        impl $builder {
            /// Makes the model: draws its weights, or takes those that [`weights`](Self::weights) was given.
            #[doc = $crate::models::common::example!(
                "use torsh_nn::StateDict;\n\
                 use torsh_vision::models::", $crate::models::common::module_of!($kind), stringify!($model), ";\n\
                 // Weights without a tensor that the model has are refused.\n\
                 let error = ", stringify!($model), "::builder().weights(StateDict::new()).build().err().map(|e| e.to_string());\n\
                 assert!(error.is_some_and(|e| e.contains(\"the weights do not fit ", stringify!($model), "\")));"
            )]
            ///
            /// # Errors
            /// Arguments that do not fit together, and weights that cannot be read or do not fit.
            #[torsh_tensor::names_caller]
            pub fn build(self) -> torsh_tensor::Result<$model> {
                let loading = $crate::models::weights::Loading::new(self.name, &[$($head),*]);
                #[allow(unused_mut)]
                let mut this = self;
                $(
                    let $this = &mut this;
                    let $loading = loading;
                    let loading = $adjust;
                )?
                $crate::models::weights::build(&this.common, loading, || $model::construct(&this))
            }
        }

        $crate::models::builder::model_family!($builder of $model, $kind $count parameters);
    };
}

/// Builders from what the constructors of a model's type take: a number of classes, with or without a device, and a
/// configuration.
macro_rules! settings {
    ($builder:ident) => {
        impl From<usize> for $builder {
            fn from(num_classes: usize) -> Self {
                $builder::default().num_classes(num_classes)
            }
        }

        impl From<(usize, torsh_tensor::Device)> for $builder {
            fn from((num_classes, device): (usize, torsh_tensor::Device)) -> Self {
                $builder::from(num_classes).device(device)
            }
        }

        /// The number of classes, where it is not 0, the file of weights, device, dtype, `dropout`, and the keyword
        /// arguments in `options`. What does not fit is an error of `build`.
        impl From<&torsh_train::config::ModelConfig> for $builder {
            fn from(config: &torsh_train::config::ModelConfig) -> Self {
                $crate::models::builder::configured(config)
            }
        }

        /// As of a reference.
        impl From<torsh_train::config::ModelConfig> for $builder {
            fn from(config: torsh_train::config::ModelConfig) -> Self {
                $builder::from(&config)
            }
        }
    };
}

pub(crate) use {builder, common_setters, model_builder, model_family, settings};
