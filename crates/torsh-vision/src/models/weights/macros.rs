//! The enums of weights.

/// `NAME = "torchvision's name" for "model", default VALUE: VALUE "documentation", ..;` makes the enum with what leads from
/// its values to the table. A value has torchvision's name without underscores, in the case of Rust.
macro_rules! weights {
    ($(
        $name:ident = $class:literal for $model:literal, default $default:ident:
            $($variant:ident $about:literal),+;
    )*) => {$(
        #[doc = concat!(
            "The pretrained weights of `", $model, "` (torchvision's `", $class, "`)."
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

            /// What is known of them.
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
