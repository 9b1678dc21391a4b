//! Structs of a function's optional arguments.

/// A struct of options with PyTorch's names and defaults, and a setter for each field.
///
/// A field is `name: type = default;`, with `, argument => conversion` behind the default where
/// its setter takes something else.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr $(, $arg:ty => $convert:expr)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            $($crate::options::setter! {
                $(#[$field_doc])* $field: $ty $(, $arg => $convert)?
            })*
        }
    };
}

macro_rules! setter {
    ($(#[$doc:meta])* $field:ident: $ty:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $ty) -> Self {
            self.$field = $field;
            self
        }
    };
    ($(#[$doc:meta])* $field:ident: $ty:ty, $arg:ty => $convert:expr) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $arg) -> Self {
            let convert: fn($arg) -> $ty = $convert;
            self.$field = convert($field);
            self
        }
    };
}

pub(crate) use {options, setter};
