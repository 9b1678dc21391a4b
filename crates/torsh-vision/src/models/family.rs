//! The builder of a family of models from a table of its arguments.

/// `BUILDER of MODEL, HEAD;` and rows `/// docs  name: Type = default;` make the builder with a setter per row; rows of
/// `keywords` are keyword arguments of [`get_model`](super::get_model) too, rows of `code` are setters alone. `name: Type = default,
/// Argument;` converts the setter's argument with `into`. The model has `fn construct(&BUILDER) -> Result<MODEL>`, which runs
/// under the construction, and `HEAD` says what the names of the parameters begin with that depend on the number of classes.
macro_rules! family {
    (
        $(#[$meta:meta])*
        $builder:ident of $model:ident, $head:expr $(, $rename:expr)?;
        keywords { $($(#[$doc:meta])* $field:ident: $ty:ty = $default:expr $(, $arg:ty)?;)* }
        code { $($(#[$code_doc:meta])* $code:ident: $code_ty:ty = $code_default:expr $(, $code_arg:ty)?;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until build()"]
        pub struct $builder {
            name: &'static str,
            $($field: $ty,)*
            $($code: $code_ty,)*
            common: $crate::models::Common,
        }

        impl Default for $builder {
            fn default() -> Self {
                $builder {
                    name: stringify!($model),
                    $($field: $default,)*
                    $($code: $code_default,)*
                    common: $crate::models::Common::default(),
                }
            }
        }

        impl From<$crate::models::Weights> for $builder {
            fn from(weights: $crate::models::Weights) -> Self {
                $builder::default().weights(weights)
            }
        }

        impl $builder {
            $($crate::models::family::setter!($(#[$doc])* $field: $ty $(, $arg)?);)*
            $($crate::models::family::setter!($(#[$code_doc])* $code: $code_ty $(, $code_arg)?);)*
            $crate::models::common_setters!();

            /// Makes the model.
            ///
            /// # Errors
            /// Arguments that do not fit together, and weights that cannot be read or do not fit.
            #[track_caller]
            pub fn build(self) -> torsh_tensor::Result<$model> {
                let loading = $crate::models::weights::Loading::new(self.name, $head)$(.rename($rename))?;
                $crate::models::weights::build(&self.common, loading, || $model::construct(&self))
            }
        }

        impl $crate::models::common::ModelFamily for $builder {
            type Model = $model;

            fn common(&mut self) -> &mut $crate::models::Common {
                &mut self.common
            }

            fn option(&mut self, name: &str, value: &serde_json::Value) -> torsh_tensor::Result<bool> {
                match name {
                    $(stringify!($field) => {
                        self.$field = $crate::models::common::read(name, value)?;
                    })*
                    _ => return Ok(false),
                }
                #[allow(unreachable_code)]
                Ok(true)
            }

            fn build_model(self) -> torsh_tensor::Result<$model> {
                self.build()
            }
        }

        impl $model {
            /// A builder with the arguments of torchvision's class.
            pub fn builder() -> $builder {
                $builder::default()
            }
        }
    };
}

macro_rules! setter {
    ($(#[$doc:meta])* $field:ident: $ty:ty) => {
        $(#[$doc])*
        pub fn $field(mut self, $field: $ty) -> Self {
            self.$field = $field;
            self
        }
    };
    ($(#[$doc:meta])* $field:ident: $ty:ty, $arg:ty) => {
        $(#[$doc])*
        pub fn $field(mut self, $field: $arg) -> Self {
            self.$field = $field.into();
            self
        }
    };
}

pub(crate) use {family, setter};
