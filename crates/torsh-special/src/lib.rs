//! Special functions, as `torch.special`.
//!
//! The prelude of the crate `torsh` brings it as `special`:
//!
//! ```
//! use torsh_special as special;
//! use torsh_tensor::tensor;
//! let x = tensor![1.0, 2.0];
//! assert!(special::digamma(&x)?.allclose(&tensor![-0.577216, 0.422784])?);
//! assert!(special::zeta(&x, 2.0)?.allclose(&tensor![f64::INFINITY, 0.644934])?);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! There is a function for each name of PyTorch, with its order of arguments. All work elementwise, but for
//! [`softmax`], [`log_softmax`] and [`logsumexp`]. Wherever a function takes a tensor, it takes a plain number too.
//!
//! # Dtypes
//!
//! float64 and float32 have results of their own dtype, as have float16 and bfloat16, which are computed in float32 and
//! rounded once. Integers and bools are converted to the default dtype. Complex numbers are an error but where the
//! function's page says otherwise.
//!
//! # Accuracy
//!
//! In float64 the results are within 2 to 16 units in the last place of the true values at the given arguments, in float32
//! within 2, where the function is not near a zero between two floating-point numbers; there they are as exact as the
//! argument. `torsh-conformance special` measures it at 27,000 points.

mod bessel;
mod elementary;
mod gamma;
mod normal;
mod polynomials;
mod reductions;

pub use bessel::*;
pub use elementary::*;
pub use gamma::*;
pub use normal::*;
pub use polynomials::*;
pub use reductions::*;

use torsh_tensor::operand_as_tensor as tensor;

/// The text of a doc test that calls a function.
macro_rules! example {
    ($name:ident ($($x:tt),+) $out:tt) => {
        concat!(
            "\n```\nuse torsh_special as special;\nuse torsh_tensor::tensor;\nlet y = special::", stringify!($name), "(",
            $("&tensor!", stringify!($x), ", ",)+ ")?;\nassert!(y.allclose(&tensor!", stringify!($out),
            ")?);\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}
use example;

/// Functions of one tensor: the method that each is, its example, and what its page says of the gradient.
macro_rules! unary {
    ($($(#[doc = $doc:literal])+ $name:ident $method:ident $x:tt ~ $out:tt, $gradient:literal;)*) => {$(
        $(#[doc = $doc])+
        ///
        /// The result has the operand's shape and dtype, or the default dtype where that is an integer or bool.
        #[doc = concat!("\n", $gradient)]
        #[doc = crate::example!($name ($x) $out)]
        #[inline]
        #[torsh_tensor::names_caller]
        pub fn $name<'a>(input: impl Into<torsh_tensor::Operand<'a>>) -> torsh_tensor::Result<torsh_tensor::Tensor> {
            crate::tensor!(input);
            input.$method()
        }
    )*};
}
use unary;

/// Functions of two tensors, as [`unary`].
macro_rules! binary {
    ($($(#[doc = $doc:literal])+ $name:ident $method:ident ($first:ident, $second:ident) $x:tt, $y:tt ~ $out:tt, $gradient:literal;)*) => {$(
        $(#[doc = $doc])+
        ///
        /// The shapes broadcast and the dtypes promote; integers and bools give the default dtype. An error where the
        /// shapes do not broadcast.
        #[doc = concat!("\n", $gradient)]
        #[doc = crate::example!($name ($x, $y) $out)]
        #[inline]
        #[torsh_tensor::names_caller]
        pub fn $name<'a, 'b>(
            $first: impl Into<torsh_tensor::Operand<'a>>,
            $second: impl Into<torsh_tensor::Operand<'b>>,
        ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
            crate::tensor!($first);
            $first.$method($second)
        }
    )*};
}
use binary;
