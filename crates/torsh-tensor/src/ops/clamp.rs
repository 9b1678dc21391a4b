//! Limits of elements: numbers, tensors, or none.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers;
use torsh_core::{Attributes, DType, Result, Scalar, TorshError};

use super::index::check_number;
use super::pointwise::parametric;
use super::pointwise_names::promoted;
use crate::call::{Arg, call_inplace, call1};
use crate::record::{OpRecord, Sample, sample};
use crate::{Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&CLAMP, &CLAMP_TENSOR, &CLAMP_MIN, &CLAMP_MAX];

/// A limit of [`Tensor::clamp`]: a number, a tensor, or none.
pub trait IntoLimit<'a> {
    /// The limit; `None` where there is none.
    fn limit(self) -> Option<Operand<'a>>;
}
impl<'a> IntoLimit<'a> for Operand<'a> {
    fn limit(self) -> Option<Operand<'a>> {
        Some(self)
    }
}
impl<'a> IntoLimit<'a> for &'a Tensor {
    fn limit(self) -> Option<Operand<'a>> {
        Some(Operand::Ref(self))
    }
}
impl<'a> IntoLimit<'a> for Tensor {
    fn limit(self) -> Option<Operand<'a>> {
        Some(Operand::Owned(self))
    }
}
// The only `Option`, so that a plain `None` says enough.
impl<'a> IntoLimit<'a> for Option<f64> {
    fn limit(self) -> Option<Operand<'a>> {
        self.map(Operand::from)
    }
}
macro_rules! number_bounds {
    ($($t:ty),*) => {$(
        impl<'a> IntoLimit<'a> for $t {
            fn limit(self) -> Option<Operand<'a>> { Some(Operand::from(self)) }
        }
    )*};
}
number_bounds!(u8, i8, i16, i32, i64, usize, f32, f64, Scalar);

fn bounds() -> impl FnOnce(&mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    |s| {
        let x = s.real(&[2, 3])?;
        Ok(vec![
            sample![x.clone(), -0.55, 0.75],
            sample![x.clone(), -0.55],
            sample![x, Value::None, 0.75],
        ])
    }
}

pub static CLAMP: OpRecord = OpRecord::new(
    "clamp",
    "Each element limited to [min, max]; one of the two may be missing.",
    "(Tensor input, Scalar? min=None, Scalar? max=None)",
)
.by_name(|b| {
    clamp(
        b.tensor(0)?,
        b.opt_scalar(1).map(Operand::Number),
        b.opt_scalar(2).map(Operand::Number),
        false,
    )
    .map(Value::Tensor)
})
.samples(|s| bounds()(s));

pub static CLAMP_TENSOR: OpRecord = OpRecord::new(
    "clamp.Tensor",
    "Each element limited to what the tensors min and max hold; one of the two may be missing.",
    "(Tensor input, Tensor? min=None, Tensor? max=None)",
)
.overload()
.by_name(|b| {
    clamp(
        b.tensor(0)?,
        b.opt_tensor(1).map(Operand::Ref),
        b.opt_tensor(2).map(Operand::Ref),
        false,
    )
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![sample![
        x,
        s.uniform(&[3], -1.0, -0.7)?,
        s.uniform(&[2, 1], 0.7, 1.0)?
    ]])
});

pub static CLAMP_MIN: OpRecord = OpRecord::new(
    "clamp_min",
    "Each element, or min where that is larger.",
    "(Tensor input, Operand min)",
)
.by_name(|b| clamp(b.tensor(0)?, Some(b.operand(1)?), None, false).map(Value::Tensor))
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 0.55]]));

pub static CLAMP_MAX: OpRecord = OpRecord::new(
    "clamp_max",
    "Each element, or max where that is smaller.",
    "(Tensor input, Operand max)",
)
.by_name(|b| clamp(b.tensor(0)?, None, Some(b.operand(1)?), false).map(Value::Tensor))
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 0.55]]));

/// The limits as numbers that a dtype can hold. An integer type's elements all keep to a limit
/// outside its range, unless none does.
///
/// # Errors
/// A limit above the range as the lower one or below it as the upper one, and what
/// [`check_number`] refuses for other types.
pub(super) fn limits(
    op: &'static str,
    low: Option<Scalar>,
    high: Option<Scalar>,
    dtype: DType,
) -> Result<(Option<Scalar>, Option<Scalar>)> {
    if !dtype.is_integer() {
        for limit in low.iter().chain(&high) {
            check_number(*limit, dtype).map_err(|e| e.renamed(op))?;
        }
        return Ok((low, high));
    }
    let (least, most) = dtype.finite_range();
    let outside = |which: &str, limit: Scalar| {
        TorshError::dtype(
            op,
            format!("the {which} limit {limit} is outside the range of {dtype}"),
        )
    };
    let (below, above) = (
        |s: &Scalar| s.to_f64() < least,
        |s: &Scalar| s.to_f64() > most,
    );
    match (low, high) {
        (Some(s), _) if above(&s) => Err(outside("lower", s)),
        (_, Some(s)) if below(&s) => Err(outside("upper", s)),
        _ => Ok((
            low.map(|s| {
                if below(&s) {
                    Scalar::Int(least as i64)
                } else {
                    s
                }
            }),
            high.map(|s| {
                if above(&s) {
                    Scalar::Int(most as i64)
                } else {
                    s
                }
            }),
        )),
    }
}

#[track_caller]
fn clamp(
    x: &Tensor,
    min: Option<Operand<'_>>,
    max: Option<Operand<'_>>,
    inplace: bool,
) -> Result<Tensor> {
    if min.is_none() && max.is_none() {
        return Err(TorshError::invalid(
            "clamp",
            "At least one of 'min' or 'max' must not be None",
        ));
    }
    let number = |o: &Option<Operand<'_>>| match o {
        Some(Operand::Number(n)) => Some(*n),
        _ => None,
    };
    let tensor = |o: &Option<Operand<'_>>| matches!(o, Some(Operand::Ref(_) | Operand::Owned(_)));
    let (mut low, mut high) = (number(&min), number(&max));
    let mut all: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(x)]);
    all.extend(low.into_iter().chain(high).map(Arg::N));
    let dtype = promoted(&all)?;
    if !tensor(&min) && !tensor(&max) {
        (low, high) = limits("clamp", low, high, dtype)?;
    }
    // A number beside a tensor is a 0-d tensor that raises no dtype within its category.
    let (own_min, own_max, wide);
    let mut operands: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(x)]);
    let (both, only_min, only_max);
    let (record, numbers): (&'static OpRecord, &dyn Attributes) = if !tensor(&min) && !tensor(&max)
    {
        match (low, high) {
            (Some(min), Some(max)) => {
                both = numbers::ClampScalar { min, max };
                (&parametric::clamp_scalar, &both)
            }
            (Some(min), None) => {
                only_min = numbers::ClampMinScalar { min };
                (&parametric::clamp_min_scalar, &only_min)
            }
            (None, max) => {
                only_max = numbers::ClampMaxScalar {
                    max: max.unwrap_or(Scalar::Int(0)),
                };
                (&parametric::clamp_max_scalar, &only_max)
            }
        }
    } else {
        own_min = min.as_ref().map(|o| o.to_tensor()).transpose()?;
        own_max = max.as_ref().map(|o| o.to_tensor()).transpose()?;
        operands.extend(own_min.iter().chain(&own_max).map(Arg::T));
        let record = match (&own_min, &own_max) {
            (Some(_), Some(_)) => &parametric::clamp_tensor,
            (Some(_), None) => &parametric::clamp_min_tensor,
            _ => &parametric::clamp_max_tensor,
        };
        (record, NONE)
    };
    let r = if dtype != x.dtype() && operands.len() == 1 {
        wide = x.to_dtype(dtype)?;
        operands[0] = Arg::T(&wide);
        let y = call1(record, &operands, numbers)?;
        if inplace {
            crate::inplace::assign(x, &y).map(|()| x.clone())
        } else {
            Ok(y)
        }
    } else if inplace {
        call_inplace(record, x, &operands[1..], numbers).map(|()| x.clone())
    } else {
        call1(record, &operands, numbers)
    };
    r.map_err(|e| e.renamed("clamp"))
}

#[torsh_tensor::functions]
impl Tensor {
    /// Each element limited to [`min`, `max`] (`torch.clamp`): numbers, tensors, or `None` for no
    /// limit. `max` wins where the limits cross; nan stays.
    ///
    /// The shapes of limits broadcast with this tensor, and their dtypes promote with its own. An
    /// error where both limits are `None`, and for complex tensors.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[-2.0f32, 0.5, 3.0], &[3])?;
    /// assert_eq!(x.clamp(-1.0, 1.0)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// assert_eq!(x.clamp(0.0, None)?.to_vec::<f32>()?, [0.0, 0.5, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn clamp<'a>(&self, min: impl IntoLimit<'a>, max: impl IntoLimit<'a>) -> Result<Tensor> {
        clamp(self, min.limit(), max.limit(), false)
    }

    /// [`Tensor::clamp`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.5, 2.0];
    /// x.clamp_(0.0, 1.0)?;
    /// assert_eq!(x, tensor![0.0, 0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn clamp_<'a>(&self, min: impl IntoLimit<'a>, max: impl IntoLimit<'a>) -> Result<Tensor> {
        clamp(self, min.limit(), max.limit(), true)
    }

    /// Each element, or `min` where that is larger; nan stays (`torch.clamp_min`).
    ///
    /// A number or a tensor that broadcasts; the dtypes promote. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 0.5].clamp_min(0.0)?, tensor![0.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn clamp_min<'a>(&self, min: impl Into<Operand<'a>>) -> Result<Tensor> {
        clamp(self, Some(min.into()), None, false)
    }

    /// [`Tensor::clamp_min`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.5];
    /// x.clamp_min_(0.0)?;
    /// assert_eq!(x, tensor![0.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn clamp_min_<'a>(&self, min: impl Into<Operand<'a>>) -> Result<Tensor> {
        clamp(self, Some(min.into()), None, true)
    }

    /// Each element, or `max` where that is smaller; nan stays (`torch.clamp_max`).
    ///
    /// A number or a tensor that broadcasts; the dtypes promote. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0.5, 2.0].clamp_max(1.0)?, tensor![0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn clamp_max<'a>(&self, max: impl Into<Operand<'a>>) -> Result<Tensor> {
        clamp(self, None, Some(max.into()), false)
    }

    /// [`Tensor::clamp_max`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.5, 2.0];
    /// x.clamp_max_(1.0)?;
    /// assert_eq!(x, tensor![0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn clamp_max_<'a>(&self, max: impl Into<Operand<'a>>) -> Result<Tensor> {
        clamp(self, None, Some(max.into()), true)
    }
}
