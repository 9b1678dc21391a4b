//! Declarations of modules: their fields with first values, and what they compute.

/// Declares a part of a model: its fields, each with its first value, and what it computes.
///
/// ```text
/// part! {
///     /// Documentation.
///     pub RobertaLMHead(words: &Embedding, s: &Spec) {
///         dense: Linear = s.linear(s.width, s.width)?;
///         // A value may use those above it.
///         decoder: Linear = s.decoder(words, None)?;
///         hooks: Hooks = Hooks::new();
///     }
///     hooked |m, x| m.decoder.forward(&m.dense.forward(x)?)
/// }
/// ```
///
/// The weights are drawn in the order of the fields, behind those of the optional `first { statements }` ahead of the
/// fields. `forward` computes without hooks, `hooked` with those of the field `hooks`. `rows` and `hooked_rows` make a
/// method `run(x, layout)`, of which `forward` is the case without padding. Without any of them, the file implements
/// `Module` itself.
macro_rules! part {
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident($($arg:ident: $arg_ty:ty),* $(,)?) $(first { $($first:tt)* })? {
            $($(#[$meta:meta])* $field_vis:vis $field:ident: $ty:ty = $value:expr;)*
        }
        $($(#[$kind_doc:meta])* $kind:ident |$m:ident, $($x:ident),+| $result:expr)?
    ) => {
        $(#[$doc])*
        #[derive(torsh_nn::Module)]
        $vis struct $name {
            $($(#[$meta])* $field_vis $field: $ty,)*
        }

        impl $name {
            // A field may have the value of an argument of its name.
            #[allow(clippy::redundant_locals)]
            #[track_caller]
            pub(crate) fn new($($arg: $arg_ty),*) -> torsh_tensor::Result<Self> {
                $($($first)*)?
                $(let $field = $value;)*
                Ok($name { $($field),* })
            }
        }

        $($crate::blocks::part!(@$kind $name [$(#[$kind_doc])*] |$m, $($x),+| $result);)?
    };
    (@forward $name:ident [$($doc:tt)*] |$m:ident, $x:ident| $result:expr) => {
        impl torsh_nn::Module for $name {
            $($doc)*
            #[torsh_tensor::names_caller]
            fn forward(&self, $x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                let $m = self;
                $result
            }
        }
    };
    (@hooked $name:ident $doc:tt |$m:ident, $x:ident| $result:expr) => {
        $crate::blocks::part! {
            @forward $name $doc |$m, $x| $m.hooks.run($m, $x, |$x| $result)
        }
    };
    (@rows $name:ident $doc:tt |$m:ident, $x:ident, $layout:ident| $result:expr) => {
        impl $name {
            #[track_caller]
            pub(crate) fn run(
                &self,
                $x: &torsh_tensor::Tensor,
                $layout: &$crate::blocks::encoder::Layout,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                let $m = self;
                $result
            }
        }

        $crate::blocks::part! {
            @forward $name $doc |m, x| m.run(x, &$crate::blocks::encoder::Layout::whole(x)?)
        }
    };
    (@hooked_rows $name:ident $doc:tt |$m:ident, $x:ident, $layout:ident| $result:expr) => {
        $crate::blocks::part! {
            @rows $name $doc |$m, $x, $layout| $m.hooks.run($m, $x, |$x| $result)
        }
    };
}
pub(crate) use part;

/// Declares an architecture: a part that is made of a configuration, with inputs and outputs by name.
///
/// ```text
/// class! {
///     /// Documentation.
///     BartForSequenceClassification(BartConfig), errors "A configuration whose numbers do not fit together."
///     |c| {
///         /// The model without head.
///         pub model: BartModel = BartModel::new(c.clone())?;
///     }
///     /// Documentation of what one tensor becomes.
///     forward |m, input_ids| m.forward_with(input_ids, None)
///     named |m, inputs| Ok(vec![("logits", m.forward_with(inputs.input_ids()?, None)?)])
/// }
/// ```
///
/// Without `forward` and `named`, the file implements `Module` and `TextModel` itself.
macro_rules! class {
    (
        $(#[$doc:meta])*
        $name:ident($config:ident), errors $errors:literal
        |$c:ident| $(first { $($first:tt)* })? {
            $($(#[$meta:meta])* $field_vis:vis $field:ident: $ty:ty = $value:expr;)*
        }
        $(
            $(#[$forward_doc:meta])*
            forward |$m:ident, $x:ident| $forward:expr;
            named |$n:ident, $inputs:ident| $named:expr
        )?
    ) => {
        $(#[$doc])*
        #[derive(torsh_nn::Module)]
        pub struct $name {
            $($(#[$meta])* $field_vis $field: $ty,)*
            #[module(skip)]
            config: $config,
            hooks: torsh_nn::Hooks,
        }

        impl $name {
            /// A model with drawn weights.
            ///
            /// # Errors
            #[doc = $errors]
            #[allow(clippy::redundant_locals)] // As in a part.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(config: $config) -> torsh_tensor::Result<Self> {
                let $c = &config;
                $($($first)*)?
                $(let $field = $value;)*
                Ok($name {
                    $($field,)*
                    config,
                    hooks: torsh_nn::Hooks::new(),
                })
            }
        }

        $(
            impl torsh_nn::Module for $name {
                $(#[$forward_doc])*
                #[torsh_tensor::names_caller]
                fn forward(&self, $x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                    let $m = self;
                    self.hooks.run(self, $x, |$x| $forward)
                }
            }

            impl $crate::models::TextModel for $name {
                #[torsh_tensor::names_caller]
                fn forward_named(
                    &self,
                    $inputs: &$crate::models::ModelInputs,
                ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                    let $n = self;
                    $named
                }
            }
        )?
    };
}
pub(crate) use class;
