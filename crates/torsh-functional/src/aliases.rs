//! PyTorch's alias names of functions, generated from the table of aliases.

use std::borrow::Borrow;

use torsh_tensor::{IntoDim, IntoDims, IntoShape, Result, Tensor};

use crate::{cat, outer, vstack};

/// The doc test of each alias: an expression and its value.
macro_rules! example {
    (argwhere) => {
        example!(@test "assert_eq!(F::argwhere(&tensor![0, 7, 8])?, tensor![[1], [2]]);")
    };
    (broadcast_to) => {
        example!(@test "assert_eq!(F::broadcast_to(&tensor![1, 2], [2, 2])?, tensor![[1, 2], [1, 2]]);")
    };
    (moveaxis) => {
        example!(@test "assert_eq!(F::moveaxis(&tensor![[1, 2], [3, 4]], 0, 1)?, tensor![[1, 3], [2, 4]]);")
    };
    (swapaxes) => {
        example!(@test "assert_eq!(F::swapaxes(&tensor![[1, 2], [3, 4]], 0, 1)?, tensor![[1, 3], [2, 4]]);")
    };
    (swapdims) => {
        example!(@test "assert_eq!(F::swapdims(&tensor![[1, 2], [3, 4]], 0, 1)?, tensor![[1, 3], [2, 4]]);")
    };
    (concat) => {
        example!(@test "assert_eq!(F::concat(&[tensor![1], tensor![2, 3]], 0)?, tensor![1, 2, 3]);")
    };
    (concatenate) => {
        example!(@test "assert_eq!(F::concatenate(&[tensor![1], tensor![2, 3]], 0)?, tensor![1, 2, 3]);")
    };
    (ger) => {
        example!(@test "assert_eq!(F::ger(&tensor![1, 2], &tensor![3, 4])?, tensor![[3, 4], [6, 8]]);")
    };
    (row_stack) => {
        example!(@test "assert_eq!(F::row_stack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[1, 2], [3, 4]]);")
    };
    (@test $line:literal) => {
        concat!(
            "\n```\n# use torsh_functional as F;\n# use torsh_tensor::tensor;\n",
            $line,
            "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

macro_rules! functions {
    (
        names { $($names:tt)* }
        operand { $($operand:tt)* }
        methods { $($method:ident $base:ident ($($parameter:ident: $ty:ident = $own:ident),*),)* }
        functions {
            $($function:ident $makes:ident [$($generics:tt)*] ($($argument:ident: $type:ty),*),)*
        }
    ) => {
        /// The functions of other names.
        #[doc(hidden)]
        pub const ALIASES: &[&str] = &[$(stringify!($method),)* $(stringify!($function)),*];

        $(
            #[doc = concat!("[`Tensor::", stringify!($base), "`] under another name, with its shapes, dtypes and errors.")]
            #[doc = example!($method)]
            #[track_caller]
            pub fn $method(input: &Tensor, $($parameter: impl $ty),*) -> Result<Tensor> {
                input.$base($($parameter),*)
            }
        )*
        $(
            #[doc = concat!("[`", stringify!($makes), "`] under another name, with its shapes, dtypes and errors.")]
            #[doc = example!($function)]
            #[track_caller]
            pub fn $function<$($generics)*>($($argument: $type),*) -> Result<Tensor> {
                $makes($($argument),*)
            }
        )*
    };
}
torsh_tensor::for_each_alias!(functions);
