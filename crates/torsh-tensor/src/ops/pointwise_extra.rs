//! Pointwise ops whose arguments need reading before a row's kernel can run: weights, rounding
//! modes, tolerances.

pub(crate) mod methods;

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers::{self, Numbers};
use torsh_core::{Attributes, DType, Result, Scalar, TorshError, default_dtype};

use super::pointwise::{binary, parametric};
use super::pointwise_names::check_numbers;
use crate::call::{Arg, call_inplace, call1, widest};
use crate::record::{OpRecord, sample};
use crate::{
    AddOptions, AddcmulOptions, DivOptions, IscloseOptions, LogitOptions, NanToNumOptions, Operand,
    Tensor, Value,
};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MAX_OTHER,
    &MIN_OTHER,
    &DIV_MODE,
    &LERP,
    &NAN_TO_NUM,
    &LOGIT,
    &ISCLOSE,
    &ANGLE,
    &FLOAT_POWER,
    &CONJ,
    &POW_BOOL,
    &SQUARE_BOOL,
];

#[torsh_tensor::by_name(Tensor::maximum)]
pub static MAX_OTHER: OpRecord = OpRecord::new(
    "max.other",
    "The larger of two tensors, elementwise: maximum.",
    "(Tensor input, Tensor other)",
)
.overload()
.samples(|s| Ok(vec![sample![s.distinct(&[2, 3])?, s.real(&[3])?]]));

#[torsh_tensor::by_name(Tensor::minimum)]
pub static MIN_OTHER: OpRecord = OpRecord::new(
    "min.other",
    "The smaller of two tensors, elementwise: minimum.",
    "(Tensor input, Tensor other)",
)
.overload()
.samples(|s| Ok(vec![sample![s.distinct(&[2, 3])?, s.real(&[3])?]]));

/// Runs a binary row on operands of which one or both may be numbers.
#[track_caller]
fn run(record: &'static OpRecord, x: Operand<'_>, y: Operand<'_>) -> Result<Tensor> {
    let first;
    let mut args = [x.arg(), y.arg()];
    if !args.iter().any(|a| matches!(a, Arg::T(_))) {
        first = x.to_tensor()?;
        args[0] = Arg::T(&first);
    }
    call1(record, &args, NONE)
}

pub static DIV_MODE: OpRecord = OpRecord::new(
    "div.Tensor_mode",
    "Quotient of the operands, not rounded or rounded by \"trunc\" (towards zero) or \"floor\" (down).",
    "(Operand input, Operand other, *, str? rounding_mode)",
)
.overload()
.by_name(|b| divide(b.operand(0)?, b.operand(1)?, (!b.is_none(2)).then(|| b.str(2))).map(Value::Tensor))
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.uniform(&[3], 0.4, 2.0)?);
    Ok(vec![sample![x, y, rounding_mode = Value::None]])
});

#[track_caller]
fn divide(x: Operand<'_>, y: Operand<'_>, mode: Option<&str>) -> Result<Tensor> {
    let record = match mode {
        None => &binary::div,
        Some("trunc") => &binary::div_trunc,
        Some("floor") => &binary::floor_divide,
        Some(other) => {
            return Err(TorshError::invalid(
                "div",
                format!(
                    "expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
                ),
            ));
        }
    };
    run(record, x, y).map_err(|e| e.renamed("div"))
}

#[torsh_tensor::by_name(lerp(input, end, weight, false))]
pub static LERP: OpRecord = OpRecord::new(
    "lerp",
    "input + weight * (end - input), elementwise; the weight is a number or a tensor.",
    "(Tensor input, Tensor end, Operand weight)",
)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.real(&[3])?);
    Ok(vec![
        sample![x.clone(), y.clone(), 0.3],
        sample![x, y, s.uniform(&[2, 1], 0.1, 0.9)?],
    ])
});

#[track_caller]
fn lerp(x: &Tensor, end: &Tensor, weight: Operand<'_>, inplace: bool) -> Result<Tensor> {
    let other = match &weight {
        Operand::Ref(w) if w.dtype() != x.dtype() => Some(("weight", w.dtype())),
        Operand::Owned(w) if w.dtype() != x.dtype() => Some(("weight", w.dtype())),
        _ if end.dtype() != x.dtype() => Some(("end", end.dtype())),
        _ => None,
    };
    if let Some((what, dtype)) = other {
        return Err(TorshError::dtype(
            "lerp",
            format!(
                "expected dtype {} for `{what}` but got dtype {dtype}",
                x.dtype()
            ),
        ));
    }
    let r = match weight.arg() {
        Arg::N(w) => {
            if w.is_complex() && !x.is_complex() {
                return Err(TorshError::dtype(
                    "lerp",
                    format!("the complex weight {w} does not fit {}", x.dtype()),
                ));
            }
            apply(
                &parametric::lerp_scalar,
                x,
                &[Arg::T(end)],
                &numbers::LerpScalar { weight: w },
                inplace,
            )
        }
        w => apply(
            &parametric::lerp_tensor,
            x,
            &[Arg::T(end), w],
            NONE,
            inplace,
        ),
    };
    r.map_err(|e| e.renamed("lerp"))
}

/// Runs a row, in place or not.
#[track_caller]
pub(super) fn apply(
    record: &'static OpRecord,
    x: &Tensor,
    rest: &[Arg<'_>],
    numbers: &dyn Attributes,
    inplace: bool,
) -> Result<Tensor> {
    if inplace {
        call_inplace(record, x, rest, numbers)?;
        return Ok(x.clone());
    }
    let mut args: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(x)]);
    args.extend_from_slice(rest);
    call1(record, &args, numbers)
}

/// Runs `addcmul` or `addcdiv`.
#[track_caller]
fn multiple<T: Numbers>(
    record: &'static OpRecord,
    tensors: [&Tensor; 3],
    value: Scalar,
    inplace: bool,
) -> Result<Tensor> {
    let args = tensors.map(Arg::T);
    check_numbers(record, &args, Some(value))?;
    apply(record, tensors[0], &args[1..], &T::bound(&[value]), inplace)
}

#[torsh_tensor::by_name(nan_to_num(input, nan, posinf, neginf, false))]
pub static NAN_TO_NUM: OpRecord = OpRecord::new(
    "nan_to_num",
    "Each element with nan replaced by 0 and the infinities by the dtype's largest and smallest number, or by what is given.",
    "(Tensor input, float? nan=None, float? posinf=None, float? neginf=None)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[track_caller]
fn nan_to_num(
    x: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
    inplace: bool,
) -> Result<Tensor> {
    let (least, largest) = x.dtype().to_real().finite_range();
    let numbers = numbers::NanToNum {
        nan: nan.unwrap_or(0.0).into(),
        posinf: posinf.unwrap_or(largest).into(),
        neginf: neginf.unwrap_or(least).into(),
    };
    apply(&parametric::nan_to_num, x, &[], &numbers, inplace)
}

#[torsh_tensor::by_name(logit(input, eps, false))]
pub static LOGIT: OpRecord = OpRecord::new(
    "logit",
    "log(x / (1 - x)) of each element, limited to [eps, 1 - eps] first where eps is given.",
    "(Tensor input, float? eps=None)",
)
.samples(|s| {
    let x = s.uniform(&[2, 3], 0.2, 0.8)?;
    Ok(vec![sample![x.clone()], sample![x, 0.1]])
});

#[track_caller]
fn logit(x: &Tensor, eps: Option<f64>, inplace: bool) -> Result<Tensor> {
    let numbers = numbers::Logit {
        eps: eps.unwrap_or(-1.0).into(),
    };
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        // PyTorch rounds every step to the half type, and near 1/2 all digits hang on that.
        let stepwise = || {
            let z = match eps {
                Some(eps) => {
                    let low = Tensor::where_(&x.lt(eps)?, eps, x)?;
                    Tensor::where_(&x.gt(1.0 - eps)?.logical_and(&x.ge(eps)?)?, 1.0 - eps, low)?
                }
                None => x.clone(),
            };
            z.div(z.rsub(1.0)?)?.log()
        };
        let mut y = crate::no_grad(stepwise).map_err(|e| e.renamed("logit"))?;
        if x.requires_grad() && crate::is_grad_enabled() {
            // The steps' gradient would be nan at 0 and 1, and finite beyond: it is that of the whole.
            let whole = call1(&parametric::logit, &[Arg::T(x)], &numbers)?;
            let apart = crate::no_grad(|| {
                let none = NanToNumOptions::new().nan(0.0).posinf(0.0).neginf(0.0);
                y.sub(&whole)?.nan_to_num_with(none)
            })?;
            y = whole.add(&apart)?;
        }
        return if inplace {
            crate::inplace::assign(x, &y).map(|()| x.clone())
        } else {
            Ok(y)
        };
    }
    apply(&parametric::logit, x, &[], &numbers, inplace)
}

#[torsh_tensor::by_name(Tensor::isclose_with(.., IscloseOptions))]
pub static ISCLOSE: OpRecord = OpRecord::new(
    "isclose",
    "Whether the elements differ by at most atol + rtol * |other|; equal infinities are close, nans only where asked.",
    "(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)",
);

#[torsh_tensor::by_name(Tensor::angle)]
pub static ANGLE: OpRecord = OpRecord::new(
    "angle",
    "The angle of each complex element in radians; of real ones 0, or pi for negative ones.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

#[torsh_tensor::by_name(float_power)]
pub static FLOAT_POWER: OpRecord = OpRecord::new(
    "float_power",
    "Powers computed in float64 or complex128, whatever the operands' dtypes.",
    "(Operand input, Operand exponent)",
)
.samples(|s| Ok(vec![sample![s.uniform(&[2, 3], 0.5, 2.0)?, 2.5]]));

#[track_caller]
fn float_power(x: Operand<'_>, y: Operand<'_>) -> Result<Tensor> {
    let args = [x.arg(), y.arg()];
    if !args.iter().any(|a| matches!(a, Arg::T(_))) {
        return Err(TorshError::invalid(
            "float_power",
            "one of the operands must be a Tensor, got numbers alone",
        ));
    }
    let complex = args.iter().any(|a| match a {
        Arg::T(t) => t.is_complex(),
        Arg::N(n) => n.is_complex(),
        Arg::Absent => false,
    });
    let dtype = if complex { DType::C128 } else { DType::F64 };
    let wide = |o: &Operand<'_>| -> Result<Operand<'static>> {
        Ok(match o.arg() {
            Arg::T(t) => Operand::Owned(t.to_dtype(dtype)?),
            Arg::N(n) if n.is_complex() => Operand::Number(n),
            Arg::N(n) => Operand::Number(Scalar::Float(n.to_f64())),
            Arg::Absent => Operand::Number(Scalar::Int(0)),
        })
    };
    run(&binary::pow, wide(&x)?, wide(&y)?).map_err(|e| e.renamed("float_power"))
}

pub static POW_BOOL: OpRecord = OpRecord::new(
    "pow.Tensor_Bool",
    "Powers with True or False as exponent: the operand or ones, for bool tensors too.",
    "(Tensor input, bool exponent)",
)
.overload()
.by_name(|b| {
    let (x, exponent) = (b.tensor(0)?, b.bool(1));
    let y = match x.dtype() {
        DType::Bool if exponent => x.copy(),
        DType::Bool => x.ones_like(),
        _ => x.pow(exponent),
    };
    y.map(Value::Tensor)
});

pub static SQUARE_BOOL: OpRecord = OpRecord::new(
    "square",
    "The square of each element; bools become int64.",
    "(Tensor input)",
)
.by_name(|b| {
    let x = b.tensor(0)?;
    let y = if x.dtype() == DType::Bool {
        x.to_dtype(DType::I64)
    } else {
        x.square()
    };
    y.map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::conj)]
pub static CONJ: OpRecord = OpRecord::new(
    "conj",
    "The complex conjugate of each element; a real tensor as it is.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

#[track_caller]
fn scaled<T: Numbers>(
    record: &'static OpRecord,
    x: &Tensor,
    y: Operand<'_>,
    alpha: Scalar,
    inplace: bool,
) -> Result<Tensor> {
    let y = y.arg();
    super::pointwise_names::check_numbers(record, &[Arg::T(x), y], Some(alpha))?;
    apply(record, x, &[y], &T::bound(&[alpha]), inplace)
}
