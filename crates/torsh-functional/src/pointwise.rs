//! Functions generated from the rows of pointwise ops.

use torsh_tensor::{Operand, Result, Tensor};

use crate::tensor;

/// Leaves out rows that are no functions of PyTorch's (those without a signature).
macro_rules! unary {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:tt -> $rule:ident { $($body:tt)* })*) => {
        $(unary!(@one [$($doc)+] $method $name $schema { $($body)* });)*

        /// The functions of one operand.
        #[doc(hidden)]
        pub const UNARY: &[&str] = &[$(stringify!($method)),*];
    };
    (@one [$($doc:literal)+] $method:ident $name:literal "" $body:tt) => {};
    (@one [$($doc:literal)+] $method:ident $name:literal $schema:tt $body:tt) => {
        $(#[doc = $doc])+
        #[doc = concat!("\n\n`torch.", $name, "`. The result has the operand's shape. An error for a dtype that the op does not take.")]
        #[doc = torsh_core::row_example!(function $method $body)]
        #[inline]
        #[torsh_tensor::names_caller]
        pub fn $method<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            tensor!(input);
            input.$method()
        }
    };
}
torsh_core::for_each_unary! { unary }

macro_rules! binary {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:tt -> $rule:ident { $($body:tt)* })*) => {
        $(binary!(@one [$($doc)+] $method $name $schema { $($body)* });)*

        /// The functions of two operands.
        #[doc(hidden)]
        pub const BINARY: &[&str] = &[$(stringify!($method)),*];
    };
    (@one [$($doc:literal)+] $method:ident $name:literal "" $body:tt) => {};
    (@one [$($doc:literal)+] $method:ident $name:literal $schema:tt $body:tt) => {
        $(#[doc = $doc])+
        #[doc = concat!("\n\n`torch.", $name, "`. The shapes broadcast; the dtypes promote as PyTorch's do. An error where they \
            do not, and for a dtype that the op does not take.")]
        #[doc = torsh_core::row_example!(function $method $body)]
        #[inline]
        #[torsh_tensor::names_caller]
        pub fn $method<'a, 'b>(input: impl Into<Operand<'a>>, other: impl Into<Operand<'b>>) -> Result<Tensor> {
            tensor!(input);
            input.$method(other)
        }
    };
}
torsh_core::for_each_binary! { binary }
