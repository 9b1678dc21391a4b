//! The enums of weights.

/// `in "path of the module"; NAME = "torchvision's name" for "model", default VALUE of NUMBER parameters: VALUE
/// "documentation", ..;` makes the enum with what leads from its values to the table. A value has torchvision's name
/// without underscores, in the case of Rust.
macro_rules! weights {
    (in $path:literal; $(
        $name:ident = $class:literal for $model:literal, default $default:ident of $count:literal parameters:
            $($variant:ident $about:literal),+;
    )*) => {$(
        #[doc = concat!(
            "The pretrained weights of `", $model, "` (torchvision's `", $class, "`).\n\n\
             ```\n\
             use torsh_vision::models::get_weight;\n\
             use torsh_vision::", $path, "::", stringify!($name), ";\n\
             let weights = ", stringify!($name), "::DEFAULT;\n\
             assert_eq!((weights, weights.model()), (", stringify!($name), "::", stringify!($default), ", \"", $model, "\"));\n\
             assert_eq!(weights.url(), get_weight(\"", $class, ".DEFAULT\")?.url());\n\
             # Ok::<(), torsh_tensor::TorshError>(())\n\
             ```"
        )]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = $about] $variant,)+
        }

        impl $name {
            /// Those that torchvision recommends.
            pub const DEFAULT: $name = $name::$default;

            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Gives what is known of them: the file, its classes, how good they are.
            #[doc = concat!(
                "\n```\n\
                 use torsh_vision::", $path, "::", stringify!($name), ";\n\
                 let info = ", stringify!($name), "::DEFAULT.info();\n\
                 assert_eq!((info.enum_name(), info.num_params()), (\"", $class, "\", ", stringify!($count), "));\n\
                 ```"
            )]
            pub fn info(self) -> &'static $crate::models::WeightsInfo {
                $crate::models::weights::info::entry($class, match self {
                    $($name::$variant => stringify!($variant),)+
                })
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::DEFAULT
            }
        }

        impl std::ops::Deref for $name {
            type Target = $crate::models::WeightsInfo;

            fn deref(&self) -> &$crate::models::WeightsInfo {
                self.info()
            }
        }

        impl From<$name> for $crate::models::Weights {
            fn from(weights: $name) -> $crate::models::Weights {
                weights.info().into()
            }
        }
    )*};
}

pub(super) use weights;
