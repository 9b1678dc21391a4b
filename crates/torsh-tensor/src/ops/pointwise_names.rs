//! Calls of pointwise ops by name: numbers in place of tensors, and alias names.

use torsh_core::{DType, Result, Scalar, TorshError, default_dtype};

use super::index::check_number;
use crate::Tensor;
use crate::call::{Arg, promotion};
use crate::record::OpRecord;
use crate::schema::{Signature, Type};

/// Ops that take a number in place of either tensor, or of both.
const EITHER_NUMBER: &[&str] = &["add", "sub", "mul", "div", "true_divide", "floor_divide"];
/// Ops that take a number in place of one of the tensors.
const ONE_NUMBER: &[&str] = &[
    "remainder",
    "pow",
    "xlogy",
    "special.xlog1py",
    "special.zeta",
    "special.hermite_polynomial_h",
    "special.hermite_polynomial_he",
    "special.laguerre_polynomial_l",
    "special.legendre_polynomial_p",
    "special.chebyshev_polynomial_t",
    "special.chebyshev_polynomial_u",
    "special.chebyshev_polynomial_v",
    "special.chebyshev_polynomial_w",
    "special.shifted_chebyshev_polynomial_t",
    "special.shifted_chebyshev_polynomial_u",
    "special.shifted_chebyshev_polynomial_v",
    "special.shifted_chebyshev_polynomial_w",
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
    alpha: Option<Scalar>,
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
    if !matches!(name, "add" | "sub" | "rsub" | "addcmul" | "addcdiv") {
        return Ok(());
    }
    let Some(alpha) = alpha else {
        return Ok(());
    };
    let dtype = promoted(args)?;
    if matches!(name, "addcmul" | "addcdiv") {
        return check_number(alpha, dtype).map_err(|e| e.renamed(name));
    }
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
    ($($method:ident $base:ident $x:tt $value:literal => $result:tt;)*) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($base), "`](Tensor::", stringify!($base), ") with a number.")]
                #[doc = crate::options::example!(concat!(
                    "# use torsh_tensor::tensor;\nlet x = tensor!", stringify!($x), ";\nassert_eq!(x.", stringify!($method), "(", stringify!($value),
                    ")?, tensor!", stringify!($result), ");"
                ))]
                #[track_caller]
                pub fn $method(&self, value: impl Into<Scalar>) -> Result<Tensor> {
                    self.$base(value.into())
                }
            )*
        }
    };
}
scalar_aliases! {
    add_scalar add [1.0, 2.0] 10.0 => [11.0, 12.0];
    sub_scalar sub [11.0, 12.0] 10.0 => [1.0, 2.0];
    mul_scalar mul [1.0, 2.0] 3.0 => [3.0, 6.0];
    div_scalar div [1.0, 3.0] 2.0 => [0.5, 1.5];
    pow_scalar pow [2.0, 3.0] 2 => [4.0, 9.0];
    remainder_scalar remainder [7.0, -7.0] 3.0 => [1.0, 2.0];
    fmod_scalar fmod [7.0, -7.0] 3.0 => [1.0, -1.0];
    floor_divide_scalar floor_divide [7.0, -7.0] 2.0 => [3.0, -4.0];
    eq_scalar eq [1, 2, 3] 2 => [false, true, false];
    ne_scalar ne [1, 2, 3] 2 => [true, false, true];
    lt_scalar lt [1, 2, 3] 2 => [true, false, false];
    le_scalar le [1, 2, 3] 2 => [true, true, false];
    gt_scalar gt [1, 2, 3] 2 => [false, false, true];
    ge_scalar ge [1, 2, 3] 2 => [false, true, true];
    add_scalar_ add_ [1.0, 2.0] 10.0 => [11.0, 12.0];
    sub_scalar_ sub_ [11.0, 12.0] 10.0 => [1.0, 2.0];
    mul_scalar_ mul_ [1.0, 2.0] 3.0 => [3.0, 6.0];
    div_scalar_ div_ [1.0, 3.0] 2.0 => [0.5, 1.5];
}
