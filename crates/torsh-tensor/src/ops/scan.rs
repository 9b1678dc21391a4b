//! Cumulative operations along a dimension, and differences.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, TorshError, attrs};

use super::index::one;
use super::reduce::product::{may_have_zero, products_before};
use super::sort;
use crate::call::{Arg, call, call_inplace, call1};
use crate::node::{BackwardCx, Grads};
use crate::options::options;
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, Spec, sample};
use crate::sample::Sampler;
use crate::{CumsumOptions, IntoDim, Tensor};

pub(crate) const RECORDS: &[&OpRecord] =
    &[&CUMSUM, &CUMPROD, &CUMMAX, &CUMMIN, &LOGCUMSUMEXP, &DIFF];

/// The highest order of [`Tensor::diff_with`]; a result of such an order holds nothing but rounding errors.
const MOST_DIFFERENCES: i64 = 1 << 16;

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    let dtype = match x.dtype() {
        d if d.is_integer() || d == DType::Bool => {
            let asked = c.attrs::<attrs::CumSum>()?.dtype;
            asked.unwrap_or(DType::I64)
        }
        d => d,
    };
    Ok(Plan::one(x.dtype(), x.shape().clone(), dtype))
}

fn with_positions(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    let spec = |dtype| Spec::new(x.shape().clone(), dtype);
    Ok(Plan::many(x.dtype(), [spec(x.dtype()), spec(DType::I64)]))
}

/// The sum from each element to the last.
fn sum_from(x: &Tensor, d: usize) -> Result<Tensor> {
    if x.ndim() == 0 {
        return Ok(x.clone());
    }
    x.flip(d)?.cumsum(d)?.flip(d)
}

fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    Ok(vec![
        sample![s.real(&[2, 3])?, 1],
        sample![s.real(&[3, 2])?, 0],
    ])
}

#[torsh_tensor::by_name(Tensor::cumsum_with(.., CumsumOptions))]
pub static CUMSUM: OpRecord = OpRecord::new(
    "cumsum",
    "The sum of all elements up to each along a dimension; integers and bools add up in int64.",
    "(Tensor input, int dim, *, ScalarType? dtype=None)",
)
.kernel(Kernel::CumSum, plan)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| sum_from(c.g(), c.attrs::<attrs::CumSum>()?.dim),
}])
.samples(samples);

#[torsh_tensor::by_name(Tensor::cumprod_with(.., CumsumOptions))]
pub static CUMPROD: OpRecord = OpRecord::new(
    "cumprod",
    "The product of all elements up to each along a dimension; integers and bools multiply in int64.",
    "(Tensor input, int dim, *, ScalarType? dtype=None)",
)
.kernel(Kernel::CumProd, plan)
.grad(&[InputGrad { inputs: 1, outputs: 1, formula: cumprod_backward }])
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let zeros = Tensor::from_data(&[0.0f64, 2.0, 0.0, 1.0, 0.0, 3.0], [2, 3])?.to_dtype(x.dtype())?;
    Ok(vec![
        sample![x, 1],
        sample![zeros.clone(), 1],
        sample![zeros, 0],
    ])
});

fn cumprod_backward(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, g, d) = (c.x()?, c.g(), c.attrs::<attrs::CumSum>()?.dim);
    if x.ndim() == 0 || x.numel() == 0 {
        return Ok(g.clone());
    }
    if !may_have_zero(&x)? {
        return sum_from(&c.out()?.conj()?.mul(g)?, d)?.div(&x.conj()?);
    }
    // Element i is in all products from i on: there, the product of all but itself.
    if !crate::is_grad_enabled() {
        return around_zeros(&x, g, &c.out()?, d);
    }
    let n = x.dims()[d];
    let before = products_before(&x, d)?;
    let one = x.narrow(d, 0, 1)?.ones_like()?;
    let mut parts = Vec::with_capacity(n);
    for i in 0..n {
        let after = Tensor::cat(
            &[one.clone(), x.narrow(d, i + 1, n - i - 1)?.cumprod(d)?],
            d,
        )?;
        let sum = g
            .narrow(d, i, n - i)?
            .mul(&after.conj()?)?
            .sum_dim(d, true)?;
        parts.push(sum.mul(&before.narrow(d, i, 1)?.conj()?)?);
    }
    Tensor::cat(&parts, d)
}

/// The gradient of a cumulative product along lines some of which hold zeros. Before the first
/// zero it is as without; at it, the products up to the next zero count, without it; after it
/// there is none.
fn around_zeros(x: &Tensor, g: &Tensor, out: &Tensor, d: usize) -> Result<Tensor> {
    let (x, out) = (x.conj()?, out.conj()?);
    let is_zero = x.eq(0)?;
    let zeros = is_zero.cumsum(d)?;
    let before = zeros.eq(0)?;
    let usual = sum_from(&out.mul(g)?.where_zero(&before, false)?, d)?.div(&x)?;
    let one = zeros.eq(1)?;
    let first = one.logical_and(&is_zero)?;
    let between = one.logical_and(&is_zero.logical_not()?)?;
    let ones = x.ones_like()?;
    let after = Tensor::where_(&between, &x, &ones)?
        .cumprod(d)?
        .mul(&g.where_zero(&one, false)?)?;
    // The product of what comes before the first zero: 1 in its place and beyond.
    let left = Tensor::where_(&before, &x, &ones)?.prod_dim(d, true)?;
    let at_first = after.sum_dim(d, true)?.mul(&left)?;
    Tensor::where_(&first, &at_first, &usual.where_zero(&before, false)?)
}

fn picked(c: &BackwardCx<'_>) -> Result<Grads> {
    let Some(g) = c.grad(0) else {
        return Ok(SmallVec::from_iter([None]));
    };
    if g.ndim() == 0 {
        return Ok(one(0, g.clone()));
    }
    sort::put_back(c, c.attrs::<attrs::Scan>()?.dim, &c.output(1)?, g)
}

fn distinct(s: &mut Sampler) -> Result<Vec<Sample>> {
    Ok(vec![sample![s.distinct(&[3, 4])?, 1]])
}

#[torsh_tensor::by_name(Tensor::cummax)]
pub static CUMMAX: OpRecord = OpRecord::new(
    "cummax",
    "The largest element up to each along a dimension, and its position, the last of several; NaN stays.",
    "(Tensor input, int dim)",
)
.kernel(Kernel::CumMax, with_positions)
.backward(sort::picked(picked))
.samples(distinct);

#[torsh_tensor::by_name(Tensor::cummin)]
pub static CUMMIN: OpRecord = OpRecord::new(
    "cummin",
    "The smallest element up to each along a dimension, and its position, the last of several; NaN stays.",
    "(Tensor input, int dim)",
)
.kernel(Kernel::CumMin, with_positions)
.backward(sort::picked(picked))
.samples(distinct);

#[torsh_tensor::by_name(Tensor::logcumsumexp)]
pub static LOGCUMSUMEXP: OpRecord = OpRecord::new(
    "logcumsumexp",
    "Logarithm of the sum of exponentials of all elements up to each along a dimension.",
    "(Tensor input, int dim)",
)
.kernel(Kernel::LogCumSumExp, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grad(&[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: logcumsumexp_backward,
}])
.samples(samples);

/// `exp(x[i]) * sum over k >= i of g[k] / exp(out[k])`, in logarithms, as either factor may
/// overflow.
fn logcumsumexp_backward(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, out, g) = (c.x()?, c.out()?, c.g());
    let d = c.attrs::<attrs::Scan>()?.dim;
    if x.ndim() == 0 || x.numel() == 0 {
        return Ok(g.clone());
    }
    let sum = |log_g: &Tensor| -> Result<Tensor> {
        log_g
            .sub(&out)?
            .flip(d)?
            .logcumsumexp(d)?
            .flip(d)?
            .add(&x)?
            .exp()
    };
    if x.dtype().is_complex() {
        return sum(&g.conj()?.log()?)?.conj();
    }
    // Gradients of either sign apart; for the others a logarithm whose exponential is 0, and which
    // is finite, so that second derivatives are.
    let none = Tensor::scalar(g.dtype().finite_range().0, g.dtype(), g.device())?;
    let log = g.abs()?.log()?;
    let positive = sum(&Tensor::where_(&g.gt(0)?, &log, &none)?)?;
    positive.sub(&sum(&Tensor::where_(&g.lt(0)?, &log, &none)?)?)
}

#[torsh_tensor::by_name(Tensor::diff_with(.., DiffOptions))]
pub static DIFF: OpRecord = OpRecord::new(
    "diff",
    "The n-th differences of neighbours along a dimension, with optional tensors put before and after.",
    "(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None)",
)
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x.clone()], sample![x, 2, 0]])
});

options! {
    /// PyTorch's keyword arguments of `diff`.
    ///
    /// ```
    /// use torsh_tensor::DiffOptions;
    /// let options = DiffOptions::new();
    /// assert_eq!(options.n, 1);
    /// assert_eq!(options.dim, -1);
    /// assert_eq!(options.n(3).n, 3);
    /// ```
    DiffOptions {
        /// How often differences are taken.
        n: i64 = 1;
        /// The dimension.
        dim: i64 = -1, impl IntoDim => |d| d.value();
        /// What is put before the operand first.
        prepend: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// What is put after the operand first.
        append: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
    }
}

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    fn total(&self, record: &'static OpRecord, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let dim = self.dim(record.name, dim)?;
        let attrs = attrs::CumSum { dim, dtype };
        call1(record, &[Arg::T(&self.cast(dtype)?)], &attrs)
    }

    /// [`Tensor::total`] over this tensor; the dtype stays.
    #[track_caller]
    fn total_(&self, record: &'static OpRecord, op: &'static str, dim: i64) -> Result<Tensor> {
        let dim = self.dim(op, dim)?;
        let dtype = Some(self.dtype());
        call_inplace(record, self, &[], &attrs::CumSum { dim, dtype })?;
        Ok(self.clone())
    }

    /// The sum of all elements up to each along a dimension (`torch.cumsum`).
    ///
    /// Shape stays; integers and bools add up in int64. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].cumsum(0)?, tensor![1, 3, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumsum(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.total(&CUMSUM, dim.value(), None)
    }

    /// [`Tensor::cumsum`] of the elements converted to the option `dtype` first.
    ///
    /// ```
    /// use torsh_tensor::{CumsumOptions, DType, tensor};
    /// let y = tensor![1, 2, 3].cumsum_with(0, CumsumOptions::new().dtype(DType::F32))?;
    /// assert_eq!(y, tensor![1.0, 3.0, 6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumsum_with(&self, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
        self.total(&CUMSUM, dim.value(), options.dtype)
    }

    /// [`Tensor::cumsum`] in place. The dtype stays. An error for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// x.cumsum_(0)?;
    /// assert_eq!(x, tensor![1, 3, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn cumsum_(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.total_(&CUMSUM, "cumsum_", dim.value())
    }

    /// The product of all elements up to each along a dimension (`torch.cumprod`).
    ///
    /// Shape stays; integers and bools multiply in int64. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].cumprod(1)?, tensor![[1, 2], [3, 12]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumprod(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.total(&CUMPROD, dim.value(), None)
    }

    /// [`Tensor::cumprod`] of the elements converted to the option `dtype` first.
    ///
    /// ```
    /// use torsh_tensor::{CumsumOptions, DType, tensor};
    /// let y = tensor![2, 3].cumprod_with(0, CumsumOptions::new().dtype(DType::F32))?;
    /// assert_eq!(y, tensor![2.0, 6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumprod_with(&self, dim: impl IntoDim, options: CumsumOptions) -> Result<Tensor> {
        self.total(&CUMPROD, dim.value(), options.dtype)
    }

    /// [`Tensor::cumprod`] in place. The dtype stays. An error for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![2, 3, 4];
    /// x.cumprod_(0)?;
    /// assert_eq!(x, tensor![2, 6, 24]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn cumprod_(&self, dim: impl IntoDim) -> Result<Tensor> {
        self.total_(&CUMPROD, "cumprod_", dim.value())
    }

    /// The largest element up to each along a dimension, and its position (int64; `torch.cummax`).
    ///
    /// Both have the operand's shape. An error for complex tensors, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 3, 2].cummax(0)?, (tensor![1, 3, 3], tensor![0, 1, 1]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cummax(&self, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
        self.running(&CUMMAX, dim.value())
    }

    /// The smallest element up to each along a dimension, and its position (int64; `torch.cummin`).
    ///
    /// Both have the operand's shape. An error for complex tensors, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![3, 1, 2].cummin(0)?, (tensor![3, 1, 1], tensor![0, 1, 1]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cummin(&self, dim: impl IntoDim) -> Result<(Tensor, Tensor)> {
        self.running(&CUMMIN, dim.value())
    }

    #[track_caller]
    fn running(&self, record: &'static OpRecord, dim: i64) -> Result<(Tensor, Tensor)> {
        let dim = self.dim(record.name, dim)?;
        let mut outs = call(record, &[Arg::T(self)], &attrs::Scan { dim })?;
        let values = outs.remove(0);
        Ok((values, outs.remove(0)))
    }

    /// Logarithm of the sum of exponentials of all elements up to each along a dimension
    /// (`torch.logcumsumexp`).
    ///
    /// Shape and dtype stay. An error for integers, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![0.0, 0.0, 0.0].logcumsumexp(0)?;
    /// assert!(y.allclose(&tensor![0.0, 0.693147, 1.098612])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn logcumsumexp(&self, dim: impl IntoDim) -> Result<Tensor> {
        let dim = self.dim(LOGCUMSUMEXP.name, dim.value())?;
        call1(&LOGCUMSUMEXP, &[Arg::T(self)], &attrs::Scan { dim })
    }

    /// Differences of neighbours along the last dimension, which loses one element (`torch.diff`).
    ///
    /// Keeps the dtype; of bools whether they differ. An error for a 0-d tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 4, 9].diff()?, tensor![3, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn diff(&self) -> Result<Tensor> {
        self.diff_with(DiffOptions::default())
    }

    /// Differences of neighbours with PyTorch's keyword arguments; of bools whether they differ. An
    /// order as large as the dimension leaves nothing. A negative order, or one above 65,536 that
    /// would leave something, is an error.
    ///
    /// ```
    /// use torsh_tensor::{DiffOptions, tensor};
    /// assert_eq!(tensor![1, 4, 9].diff_with(DiffOptions::new().n(2))?, tensor![2]);
    /// assert_eq!(tensor![1, 4, 9].diff_with(DiffOptions::new().n(1 << 40))?.numel(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diff_with(&self, options: DiffOptions) -> Result<Tensor> {
        if self.ndim() == 0 {
            let e = TorshError::shape("", "diff expects input to be at least one-dimensional");
            return self.named("diff", Err(e));
        }
        if options.n < 0 {
            let text = format!("order must be non-negative but got {}", options.n);
            return self.named("diff", Err(TorshError::invalid("", text)));
        }
        let d = self.dim("diff", options.dim)?;
        if options.n == 0 {
            // As PyTorch, which looks at prepend and append only where there are differences.
            return self.copy();
        }
        let parts: SmallVec<[&Tensor; 3]> = options
            .prepend
            .iter()
            .chain([self])
            .chain(options.append.iter())
            .collect();
        let mut x = match parts.len() {
            1 => self.clone(),
            _ => Tensor::cat(&parts, d).map_err(|e| e.renamed("diff"))?,
        };
        if options.n >= x.dims()[d] as i64 {
            // Each difference is one shorter: none is left.
            return x.narrow(d, 0, 0)?.copy();
        }
        if options.n > MOST_DIFFERENCES {
            let text = format!(
                "the order must be at most {MOST_DIFFERENCES}, since each order is a pass over \
                 the input, but got {}",
                options.n
            );
            return self.named("diff", Err(TorshError::invalid("", text)));
        }
        for _ in 0..options.n {
            let n = x.dims()[d];
            let (low, high) = (x.narrow(d, 0, n - 1)?, x.narrow(d, 1, n - 1)?);
            x = if x.dtype() == DType::Bool {
                high.logical_xor(&low)?
            } else {
                high.sub(&low)?
            };
        }
        Ok(x)
    }
}
