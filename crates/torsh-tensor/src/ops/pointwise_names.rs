//! What PyTorch takes for pointwise ops by name: numbers in place of tensors, and further names.

use torsh_core::{Attr, DType, Result, Scalar, TorshError, default_dtype};

use crate::call::{Arg, promotion};
use crate::record::OpRecord;
use crate::schema::{Signature, Type};
use crate::{Operand, Tensor};

/// Ops that take a number in place of either tensor, or of both.
const EITHER_NUMBER: &[&str] = &["add", "sub", "mul", "div", "true_divide", "floor_divide"];
/// Ops that take a number in place of one of the tensors.
const ONE_NUMBER: &[&str] = &[
    "remainder",
    "pow",
    "xlogy",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
];
/// Ops that take a number in place of the second tensor.
const SECOND_NUMBER: &[&str] = &[
    "rsub", "fmod", "copysign", "eq", "ne", "lt", "le", "gt", "ge",
];

/// Lets the operands of a pointwise op be numbers where PyTorch's may.
pub(super) fn accept_numbers(name: &str, signature: &mut Signature) {
    let first = EITHER_NUMBER.contains(&name) || ONE_NUMBER.contains(&name);
    let second = first || SECOND_NUMBER.contains(&name);
    for (p, takes) in signature.params.iter_mut().zip([first, second]) {
        if takes && p.ty == Type::Tensor {
            p.ty = Type::Operand;
        }
    }
}

/// Refuses a call of a pointwise op by name that PyTorch refuses for its numbers.
pub(super) fn check_numbers(
    record: &OpRecord,
    args: &[Arg<'_>],
    numbers: &[Attr<'_>],
) -> Result<()> {
    let name = record.base_name();
    let tensors = args
        .iter()
        .filter_map(|a| if let Arg::T(t) = a { Some(*t) } else { None });
    if tensors.clone().next().is_none() && !EITHER_NUMBER.contains(&name) {
        return Err(TorshError::invalid(
            name,
            "one of the operands must be a Tensor, got numbers alone",
        ));
    }
    if !matches!(name, "add" | "sub" | "rsub") {
        return Ok(());
    }
    let Some(alpha) = numbers.first().and_then(Attr::scalar) else {
        return Ok(());
    };
    let dtype = promoted(args)?;
    if alpha.is_float() && !dtype.is_differentiable() {
        return Err(TorshError::dtype(
            name,
            format!(
                "For integral input tensors, argument alpha must not be a floating point number, got {alpha} for {dtype}"
            ),
        ));
    }
    if alpha.is_complex() && !dtype.is_complex() {
        return Err(TorshError::dtype(
            name,
            format!(
                "For non-complex input tensors, argument alpha must not be a complex number, got {alpha} for {dtype}"
            ),
        ));
    }
    if matches!(alpha, Scalar::Bool(_)) && dtype != DType::Bool {
        return Err(TorshError::dtype(
            name,
            format!("Boolean alpha only supported for Boolean results, not for {dtype}"),
        ));
    }
    Ok(())
}

/// The dtype the operands promote to.
pub(super) fn promoted(args: &[Arg<'_>]) -> Result<DType> {
    Ok(promotion(args).result()?.unwrap_or_else(default_dtype))
}

macro_rules! scalar_aliases {
    ($($method:ident $base:ident),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($base), "`](Tensor::", stringify!($base), ") with a number.")]
                #[track_caller]
                pub fn $method(&self, value: impl Into<Scalar>) -> Result<Tensor> {
                    self.$base(value.into())
                }
            )*
        }
    };
}
scalar_aliases!(
    add_scalar add, sub_scalar sub, mul_scalar mul, div_scalar div, pow_scalar pow, remainder_scalar remainder,
    fmod_scalar fmod, floor_divide_scalar floor_divide, eq_scalar eq, ne_scalar ne, lt_scalar lt, le_scalar le,
    gt_scalar gt, ge_scalar ge, add_scalar_ add_, sub_scalar_ sub_, mul_scalar_ mul_, div_scalar_ div_,
);

macro_rules! binary_aliases {
    ($($method:ident $base:ident),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($base), "`](Tensor::", stringify!($base), ") under another name.")]
                #[track_caller]
                pub fn $method<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
                    self.$base(other)
                }
            )*
        }
    };
}
binary_aliases!(
    true_divide div, divide div, multiply mul, subtract sub, greater gt, greater_equal ge, less lt, less_equal le,
    not_equal ne,
);

/// Names PyTorch has for an op of another name.
const ALIASES: &[(&str, &str)] = &[
    ("true_divide", "div"),
    ("divide", "div"),
    ("multiply", "mul"),
    ("subtract", "sub"),
    ("negative", "neg"),
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("not_equal", "ne"),
    ("nn.functional.sigmoid", "sigmoid"),
    ("nn.functional.tanh", "tanh"),
    ("special.digamma", "digamma"),
    ("special.psi", "digamma"),
    ("special.erf", "erf"),
    ("special.erfc", "erfc"),
    ("special.erfinv", "erfinv"),
    ("special.exp2", "exp2"),
    ("special.expit", "sigmoid"),
    ("special.expm1", "expm1"),
    ("special.gammaln", "lgamma"),
    ("special.log1p", "log1p"),
    ("special.logit", "logit"),
    ("special.round", "round"),
    ("special.sinc", "sinc"),
    ("special.xlogy", "xlogy"),
];

/// The name an alias stands for.
pub(super) fn alias(name: &str) -> Option<&'static str> {
    ALIASES
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, base)| *base)
}
