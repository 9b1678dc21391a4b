//! Softmax and related functions.

use torsh_core::{DType, Kernel, Result, attrs};

use super::definitions;
use crate::call::{Arg, call1};
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, sample};
use crate::sample::Sampler;
use crate::{Bound, IntoDim, SoftmaxOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SOFTMAX,
    &LOG_SOFTMAX,
    &SOFTMAX_BACKWARD,
    &LOG_SOFTMAX_BACKWARD,
    &F_SOFTMAX,
    &F_LOG_SOFTMAX,
    &SOFTMIN,
];

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
}

fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    Ok(vec![
        sample![s.real(&[2, 3])?, -1],
        sample![s.real(&[3, 2, 2])?, 0],
    ])
}

#[torsh_tensor::by_name(Tensor::softmax_with(.., SoftmaxOptions))]
pub static SOFTMAX: OpRecord = OpRecord::new(
    "softmax",
    "Exponentials over their sum along a dimension.",
    "(Tensor input, int dim, ScalarType? dtype=None)",
)
.kernel(Kernel::Softmax, plan)
.definition(definitions::softmax)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 1,
    formula: |c| {
        call1(
            &SOFTMAX_BACKWARD,
            &[Arg::T(c.g()), Arg::T(&c.out()?)],
            c.attributes(),
        )
    },
}])
.samples(samples);

#[torsh_tensor::by_name(Tensor::log_softmax_with(.., SoftmaxOptions))]
pub static LOG_SOFTMAX: OpRecord = OpRecord::new(
    "log_softmax",
    "Logarithm of softmax along a dimension, without its loss of precision.",
    "(Tensor input, int dim, ScalarType? dtype=None)",
)
.kernel(Kernel::LogSoftmax, plan)
.definition(definitions::log_softmax)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 1,
    formula: |c| {
        call1(
            &LOG_SOFTMAX_BACKWARD,
            &[Arg::T(c.g()), Arg::T(&c.out()?)],
            c.attributes(),
        )
    },
}])
.samples(samples);

/// `(g - sum(g * y)) * y`.
static SOFTMAX_BACKWARD: OpRecord = OpRecord::new(
    "softmax_backward",
    "The gradient of softmax from its result's gradient and its result.",
    "(Tensor grad_output, Tensor output, *, int dim)",
)
.internal()
.kernel(Kernel::SoftmaxBackward, plan)
.definition(definitions::softmax_backward)
.grad(&[
    InputGrad {
        inputs: 2,
        outputs: 0,
        formula: |c| {
            call1(
                &SOFTMAX_BACKWARD,
                &[Arg::T(c.g()), Arg::T(&c.y()?)],
                c.attributes(),
            )
        },
    },
    InputGrad {
        inputs: 3,
        outputs: 0,
        formula: |c| {
            let (h, g, y) = (c.g(), c.x()?, c.y()?);
            let d = c.attrs::<attrs::Softmax>()?.dim;
            let gy = g.mul(&y)?.sum_dim(d, true)?;
            let hy = h.mul(&y)?.sum_dim(d, true)?;
            h.mul(&g.sub(&gy)?)?.sub(&g.mul(&hy)?)
        },
    },
]);

/// `g - exp(y) * sum(g)`.
static LOG_SOFTMAX_BACKWARD: OpRecord = OpRecord::new(
    "log_softmax_backward",
    "The gradient of log_softmax from its result's gradient and its result.",
    "(Tensor grad_output, Tensor output, *, int dim)",
)
.internal()
.kernel(Kernel::LogSoftmaxBackward, plan)
.definition(definitions::log_softmax_backward)
.grad(&[
    InputGrad {
        inputs: 2,
        outputs: 0,
        formula: |c| {
            let (h, d) = (c.g(), c.attrs::<attrs::Softmax>()?.dim);
            h.sub(&h.mul(&c.y()?.exp()?)?.sum_dim(d, true)?)
        },
    },
    InputGrad {
        inputs: 3,
        outputs: 0,
        formula: |c| {
            let (h, g, d) = (c.g(), c.x()?, c.attrs::<attrs::Softmax>()?.dim);
            h.mul(&c.y()?.exp()?)?.mul(&g.sum_dim(d, true)?)?.neg()
        },
    },
]);

/// The dimension that `torch.nn.functional` takes where none is named.
fn implicit(b: &Bound) -> Result<i64> {
    let n = b.tensor(0)?.ndim();
    Ok(b.opt_int(1)
        .unwrap_or(if matches!(n, 0 | 1 | 3) { 0 } else { 1 }))
}

const FUNCTIONAL: &str = "(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None)";

static F_SOFTMAX: OpRecord = OpRecord::new("nn.functional.softmax", "As softmax.", FUNCTIONAL)
    .by_name(|b| {
        b.tensor(0)?
            .softmax_with(implicit(b)?, SoftmaxOptions::new().dtype(b.dtype(3)))
            .map(Value::Tensor)
    })
    .samples(samples);

static F_LOG_SOFTMAX: OpRecord =
    OpRecord::new("nn.functional.log_softmax", "As log_softmax.", FUNCTIONAL)
        .by_name(|b| {
            b.tensor(0)?
                .log_softmax_with(implicit(b)?, SoftmaxOptions::new().dtype(b.dtype(3)))
                .map(Value::Tensor)
        })
        .samples(samples);

/// Softmax of the negated operand.
pub static SOFTMIN: OpRecord = OpRecord::new(
    "nn.functional.softmin",
    "Softmax of the negated elements along a dimension.",
    FUNCTIONAL,
)
.by_name(|b| {
    b.tensor(0)?
        .softmin_with(implicit(b)?, SoftmaxOptions::new().dtype(b.dtype(3)))
        .map(Value::Tensor)
})
.samples(samples);

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    fn soft(&self, record: &'static OpRecord, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let dim = self.dim(record.name, dim)?;
        let x = self.cast(dtype)?;
        call1(record, &[Arg::T(&x)], &attrs::Softmax { dim })
    }

    /// Exponentials divided by their sum along a dimension (`torch.nn.functional.softmax`).
    ///
    /// Shape and dtype stay. An error for integers, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 2.0, 3.0]];
    /// assert!(x.softmax(1)?.allclose(&tensor![[0.090031, 0.244728, 0.665241]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn softmax(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.soft(&SOFTMAX, dim.value(), None)
    }

    /// [`Tensor::softmax`] of the tensor converted to the option `dtype`, which integers need.
    ///
    /// ```
    /// use torsh_tensor::{DType, SoftmaxOptions, tensor};
    /// let y = tensor![0, 0].softmax_with(0, SoftmaxOptions::new().dtype(DType::F32))?;
    /// assert_eq!(y, tensor![0.5, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn softmax_with(&self, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
        self.soft(&SOFTMAX, dim.value(), options.dtype)
    }

    /// Logarithm of the [`Tensor::softmax`], exact where that is tiny
    /// (`torch.nn.functional.log_softmax`).
    ///
    /// Shape and dtype stay. An error for integers, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![0.0, 0.0].log_softmax(0)?.allclose(&tensor![-0.693147, -0.693147])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn log_softmax(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.soft(&LOG_SOFTMAX, dim.value(), None)
    }

    /// [`Tensor::log_softmax`] of the tensor converted to the option `dtype`, which integers need.
    ///
    /// ```
    /// use torsh_tensor::{DType, SoftmaxOptions, tensor};
    /// let y = tensor![0, 0].log_softmax_with(0, SoftmaxOptions::new().dtype(DType::F32))?;
    /// assert!(y.allclose(&tensor![-0.693147, -0.693147])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn log_softmax_with(&self, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
        self.soft(&LOG_SOFTMAX, dim.value(), options.dtype)
    }

    /// Softmax of the negated elements along a dimension. The result has this shape and dtype;
    /// floating-point dtypes only. A dimension out of range is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, 2.0].softmin(0)?.allclose(&tensor![0.731059, 0.268941])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn softmin(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.softmin_with(dim, SoftmaxOptions::default())
    }

    /// [`Tensor::softmin`] of the tensor converted to a dtype.
    ///
    /// ```
    /// use torsh_tensor::{DType, SoftmaxOptions, tensor};
    /// let y = tensor![3, 3].softmin_with(0, SoftmaxOptions::new().dtype(DType::F32))?;
    /// assert_eq!(y, tensor![0.5, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn softmin_with(&self, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
        self.neg()?
            .softmax_with(dim, options)
            .map_err(|e| e.renamed("softmin"))
    }
}
