//! Structs for the optional arguments of functions.

/// A struct of options with PyTorch's names and defaults, and a setter for each field.
///
/// A field is `name: type = default;`, with `, argument => conversion` behind the default where
/// its setter takes something else. The struct may have a number of dimensions as parameter.
#[doc(hidden)]
#[macro_export]
macro_rules! options {
    ($(#[$doc:meta])* $name:ident $(<const $n:ident: usize>)? {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr $(, $arg:ty => $convert:expr)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name $(<const $n: usize>)? {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $(<const $n: usize>)? Default for $name $(<$n>)? {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $(<const $n: usize>)? $name $(<$n>)? {
            /// The defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $($crate::option_setter! {
                $(#[$field_doc])* $field: $ty $(, $arg => $convert)?
            })*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! option_setter {
    ($(#[$doc:meta])* $field:ident: $ty:ty) => {
        $crate::option_setter! { $(#[$doc])* $field: $ty, $ty => |v| v }
    };
    ($(#[$doc:meta])* $field:ident: $ty:ty, $arg:ty => $convert:expr) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $arg) -> Self {
            self.$field = $crate::options::convert($field, $convert);
            self
        }
    };
}

/// Calls a conversion, whose argument's type a closure alone would not know.
pub fn convert<A, T>(argument: A, conversion: impl FnOnce(A) -> T) -> T {
    conversion(argument)
}

/// The text of a doc test for a method that a macro makes of a row.
macro_rules! example {
    ($code:expr) => {
        concat!(
            "\n```\n",
            $code,
            "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

pub(crate) use {example, options};
