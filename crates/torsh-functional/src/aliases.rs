//! PyTorch's alias names of functions, generated from the table of aliases.

use std::borrow::Borrow;

use torsh_tensor::{IntoDim, IntoDims, IntoShape, Result, Tensor};

use crate::{cat, outer, vstack};

macro_rules! functions {
    (
        names { $($names:tt)* }
        operand { $($operand:tt)* }
        methods { $($method:ident $base:ident ($($parameter:ident: $ty:ident = $own:ident),*),)* }
        functions {
            $($function:ident $makes:ident [$($generics:tt)*] ($($argument:ident: $type:ty),*),)*
        }
    ) => {
        $(
            #[doc = concat!("[`Tensor::", stringify!($base), "`] under another name.")]
            #[track_caller]
            pub fn $method(input: &Tensor, $($parameter: impl $ty),*) -> Result<Tensor> {
                input.$base($($parameter),*)
            }
        )*
        $(
            #[doc = concat!("[`", stringify!($makes), "`] under another name.")]
            #[track_caller]
            pub fn $function<$($generics)*>($($argument: $type),*) -> Result<Tensor> {
                $makes($($argument),*)
            }
        )*
    };
}
torsh_tensor::for_each_alias!(functions);
