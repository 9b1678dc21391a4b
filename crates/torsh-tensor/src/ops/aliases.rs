//! PyTorch's alias names of ops: one table, from which the calls by name, the methods and the functions
//! of `torsh-functional` are generated.

use torsh_core::Result;

use crate::{IntoDim, IntoDims, IntoShape, Operand, Tensor};

/// A name that PyTorch has for an op of another name.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// The op that it is.
    pub base: &'static str,
    /// Its names of parameters that the op calls otherwise, with the op's.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// Hands the table of aliases to a macro, in four groups: names alone; methods that take an operand;
/// methods and functions of a tensor; functions that make one tensor of others. A parameter is
/// `name: type = the op's name`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_alias {
    ($make:ident) => {
        $make! {
            names {
                "negative" "neg",
                "absolute" "abs",
                "arccos" "acos",
                "arccosh" "acosh",
                "arcsin" "asin",
                "arcsinh" "asinh",
                "arctan" "atan",
                "arctan2" "atan2",
                "arctanh" "atanh",
                "clip" "clamp",
                "fix" "trunc",
                "nn.functional.sigmoid" "sigmoid",
                "nn.functional.tanh" "tanh",
                "special.digamma" "digamma",
                "special.psi" "digamma",
                "special.erf" "erf",
                "special.erfc" "erfc",
                "special.erfinv" "erfinv",
                "special.exp2" "exp2",
                "special.expit" "sigmoid",
                "special.expm1" "expm1",
                "special.gammainc" "igamma",
                "special.gammaincc" "igammac",
                "special.gammaln" "lgamma",
                "special.i0" "i0",
                "special.modified_bessel_i0" "i0",
                "special.modified_bessel_i1" "special.i1",
                "special.multigammaln" "mvlgamma",
                "special.polygamma" "polygamma",
                "special.log1p" "log1p",
                "special.log_softmax" "log_softmax",
                "special.logsumexp" "logsumexp",
                "special.logit" "logit",
                "special.round" "round",
                "special.sinc" "sinc",
                "special.softmax" "softmax",
                "special.xlogy" "xlogy",
            }
            operand {
                true_divide div [1.0, 3.0], [2.0, 4.0] => [0.5, 0.75],
                divide div [1.0, 3.0], [2.0, 4.0] => [0.5, 0.75],
                multiply mul [2.0, 3.0], [4.0, 5.0] => [8.0, 15.0],
                subtract sub [10.0, 20.0], [1.0, 2.0] => [9.0, 18.0],
                greater gt [1, 2, 3], [2, 2, 2] => [false, false, true],
                greater_equal ge [1, 2, 3], [2, 2, 2] => [false, true, true],
                less lt [1, 2, 3], [2, 2, 2] => [true, false, false],
                less_equal le [1, 2, 3], [2, 2, 2] => [true, true, false],
                not_equal ne [1, 2, 3], [2, 2, 2] => [true, false, true],
            }
            methods {
                argwhere nonzero (),
                broadcast_to expand (shape: IntoShape = size),
                moveaxis movedim (source: IntoDims = source, destination: IntoDims = destination),
                swapaxes transpose (axis0: IntoDim = dim0, axis1: IntoDim = dim1),
                swapdims transpose (dim0: IntoDim = dim0, dim1: IntoDim = dim1),
            }
            functions {
                concat cat [T: Borrow<Tensor>] (tensors: &[T], dim: impl IntoDim),
                concatenate cat [T: Borrow<Tensor>] (tensors: &[T], dim: impl IntoDim),
                ger outer [] (input: &Tensor, vec2: &Tensor),
                row_stack vstack [T: Borrow<Tensor>] (tensors: &[T]),
            }
        }
    };
}

macro_rules! table {
    (
        names { $($name:literal $of:literal,)* }
        operand { $($operand:ident $binary:ident $x:tt, $y:tt => $result:tt,)* }
        methods { $($method:ident $base:ident ($($parameter:ident: $ty:ident = $own:ident),*),)* }
        functions { $($function:ident $makes:ident [$($generics:tt)*] ($($parameters:tt)*),)* }
    ) => {
        /// Every alias.
        const ALIASES: &[Alias] = &[
            $(Alias { name: $name, base: $of, parameters: &[] },)*
            $(Alias { name: stringify!($operand), base: stringify!($binary), parameters: &[] },)*
            $(Alias {
                name: stringify!($method),
                base: stringify!($base),
                parameters: &[$((stringify!($parameter), stringify!($own))),*],
            },)*
            $(Alias { name: stringify!($function), base: stringify!($makes), parameters: &[] },)*
        ];

        impl Tensor {
            $(
                #[doc = concat!("[`Tensor::", stringify!($binary), "`] under another name.")]
                #[doc = torsh_core::row_example!(method $operand $x, $y => $result)]
                #[track_caller]
                pub fn $operand<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
                    self.$binary(other)
                }
            )*
            $(
                #[doc = concat!("[`Tensor::", stringify!($base), "`] under another name.")]
                #[track_caller]
                pub fn $method(&self, $($parameter: impl $ty),*) -> Result<Tensor> {
                    self.$base($($parameter),*)
                }
            )*
        }
    };
}
for_each_alias!(table);

/// Every name that PyTorch has for an op of another name.
///
/// ```
/// let clip = torsh_tensor::ops::aliases().iter().find(|a| a.name == "clip");
/// assert_eq!(clip.map(|a| a.base), Some("clamp"));
/// ```
pub fn aliases() -> &'static [Alias] {
    ALIASES
}
