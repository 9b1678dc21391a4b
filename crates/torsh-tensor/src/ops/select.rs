//! Choosing between two tensors.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::{DType, Kernel, Promotion, Result, TorshError};

use crate::call::{Arg, call1, common_device};
use crate::record::{OpRecord, Plan, sample};
use crate::{Operand, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&WHERE];

/// `input` where the condition is true, else `other`.
#[torsh_tensor::by_name(Tensor::where_)]
pub static WHERE: OpRecord = OpRecord::new(
    "where.self",
    "The first operand where the condition is true, else the second; all three broadcast.",
    "(Tensor condition, Operand input, Operand other)",
)
.overload()
.kernel(Kernel::Where, |c| {
    let x = c.tensor(1)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(1, 0, |c| {
    let condition = c.input(0)?;
    let mut out = SmallVec::from_iter([None, None, None]);
    if c.needs(1) {
        out[1] = Some(c.g().where_zero(&condition, false)?);
    }
    if c.needs(2) {
        out[2] = Some(c.g().where_zero(&condition, true)?);
    }
    Ok(out)
})
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![
        sample![mask.clone(), s.real(&[2, 3])?, s.real(&[3])?],
        sample![mask, s.real(&[2, 1])?, 1.5],
    ])
});

#[torsh_tensor::functions]
impl Tensor {
    /// The elements of `input` where `condition` holds, those of `other` elsewhere (`torch.where`).
    ///
    /// `condition` is a bool or uint8 tensor; the shapes of all three broadcast, the dtypes of the other two
    /// promote. An error where they do not.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let x = tensor![-1.0, 2.0];
    /// assert_eq!(Tensor::where_(&x.gt(0)?, &x, 0.0)?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn where_<'a>(
        condition: &Tensor,
        input: impl Into<Operand<'a>>,
        other: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        let (a, b) = (input.into(), other.into());
        if !matches!(condition.dtype(), DType::Bool | DType::U8) {
            return Err(TorshError::dtype(
                "where",
                format!(
                    "expected condition to be a boolean tensor, but got a tensor with dtype {}",
                    condition.dtype()
                ),
            ));
        }
        let at = std::panic::Location::caller();
        let args = [Arg::T(condition), a.arg(), b.arg()];
        let tensors = || {
            args.iter().filter_map(|x| {
                if let Arg::T(t) = x {
                    Some(t.describe())
                } else {
                    None
                }
            })
        };
        let device =
            common_device(&args).map_err(|e| e.in_op("where", || tensors().collect(), at))?;
        // A 0-d tensor of the CPU is expanded on the device of the others.
        let there = |t: &Tensor| match t.device() == device {
            true => Ok(t.clone()),
            false => t.to_device(device),
        };
        let condition = there(condition)?.to_dtype(DType::Bool)?;
        let mut p = Promotion::default();
        let mut shape = condition.shape().clone();
        for o in [&a, &b] {
            match o.arg() {
                Arg::T(t) => {
                    p.tensor(t.dtype(), t.ndim());
                    shape = shape.broadcast(t.shape()).map_err(|e| {
                        e.in_op("where", || vec![condition.describe(), t.describe()], at)
                    })?;
                }
                Arg::N(n) => p.number(n),
                Arg::Absent => {}
            }
        }
        let dtype = p.result()?.unwrap_or(DType::F32);
        let ready = |o: &Operand<'_>| -> Result<Tensor> {
            let t = match o.arg() {
                Arg::N(n) => Tensor::scalar(n, dtype, device)?,
                // Converted first: the device may lack the dtype that a number of the CPU has.
                _ => there(&o.to_tensor()?.to_dtype(dtype)?)?,
            };
            t.expand(&shape)
        };
        let (a, b) = (ready(&a)?, ready(&b)?);
        let condition = condition.expand(&shape)?;
        call1(&WHERE, &[Arg::T(&condition), Arg::T(&a), Arg::T(&b)], NONE)
    }

    /// This tensor with zeros where `condition` equals `value`.
    #[track_caller]
    pub(crate) fn where_zero(&self, condition: &Tensor, value: bool) -> Result<Tensor> {
        let zero = Tensor::scalar(0, self.dtype(), self.device())?;
        if value {
            Tensor::where_(condition, &zero, self)
        } else {
            Tensor::where_(condition, self, &zero)
        }
    }
}
