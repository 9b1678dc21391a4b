//! Variance and standard deviation, log-sum-exp.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, TorshError, attrs};

use super::{plan, reduced_count, restore};
use crate::call::{Arg, call, call1};
use crate::node::{BackwardCx, Grads};
use crate::ops::definitions;
use crate::options::options;
use crate::record::{InputGrad, OpRecord, PlanCx, Sample, sample};
use crate::sample::Sampler;
use crate::{Bound, IntoDims, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &VAR,
    &VAR_UNBIASED,
    &VAR_DIM,
    &STD,
    &STD_UNBIASED,
    &STD_DIM,
    &VAR_MEAN,
    &VAR_MEAN_UNBIASED,
    &VAR_MEAN_DIM,
    &STD_MEAN,
    &STD_MEAN_UNBIASED,
    &STD_MEAN_DIM,
    &LOGSUMEXP,
];

options! {
    /// PyTorch's keyword arguments of `var`, `std`, `var_mean` and `std_mean`.
    ///
    /// ```
    /// use torsh_tensor::VarOptions;
    /// let options = VarOptions::new();
    /// assert_eq!(options.correction, 1.0);
    /// assert!(!options.keepdim);
    /// assert_eq!(options.correction(0.25).correction, 0.25);
    /// ```
    VarOptions {
        /// The dimensions to reduce; `None` for all.
        dim: Option<SmallVec<[i64; 6]>> = None, impl IntoDims => |d| d.dims();
        /// What is taken from the number of elements before dividing by it: 1 for an unbiased
        /// variance, 0 for the population's.
        correction: f64 = 1.0, impl Into<f64> => |c| c.into();
        /// Whether reduced dimensions stay, at size 1.
        keepdim: bool = false;
    }
}

impl VarOptions {
    /// A correction of 1, or of 0.
    ///
    /// ```
    /// use torsh_tensor::VarOptions;
    /// assert_eq!(VarOptions::new().unbiased(false).correction, 0.0);
    /// ```
    #[must_use]
    pub fn unbiased(self, unbiased: bool) -> Self {
        self.correction(u8::from(unbiased))
    }
}

fn check(c: &PlanCx<'_>) -> Result<DType> {
    let dtype = c.tensor(0)?.dtype();
    if dtype.is_differentiable() {
        return Ok(dtype);
    }
    Err(TorshError::dtype(
        "",
        format!("std and var only support floating point and complex dtypes, but got {dtype}"),
    ))
}

/// The gradient of the variance, of which `g` is the gradient with reduced dimensions kept.
fn var_backward(c: &BackwardCx<'_>, g: &Tensor) -> Result<Tensor> {
    let x = c.x()?;
    let attrs::Var {
        dims, correction, ..
    } = c.attrs()?;
    let mean = x.mean_dim(&dims[..], true)?;
    let freedom = reduced_count(x.shape(), dims) as f64 - correction;
    if freedom <= 0.0 && dims.len() == x.ndim() {
        let nan = Tensor::scalar(f64::NAN, x.dtype(), x.device())?;
        let inf = Tensor::scalar(f64::INFINITY, x.dtype(), x.device())?;
        return g.mul(&Tensor::where_(&x.eq(&mean)?, &nan, &inf)?);
    }
    g.mul(2.0 / freedom.max(0.0))?.mul(&x.sub(&mean)?)
}

/// The same of the standard deviation; 0 where that is 0.
fn std_backward(c: &BackwardCx<'_>, g: &Tensor, std: &Tensor) -> Result<Tensor> {
    let g = g.div(&std.mul(2.0)?)?.where_zero(&std.eq(0)?, true)?;
    var_backward(c, &g)
}

fn both(c: &BackwardCx<'_>, root: bool) -> Result<Grads> {
    let mut total: Option<Tensor> = None;
    if let Some(g) = c.grad(0) {
        let g = restore::<attrs::Var>(c, g)?;
        total = Some(if root {
            std_backward(c, &g, &restore::<attrs::Var>(c, &c.output(0)?)?)?
        } else {
            var_backward(c, &g)?
        });
    }
    if let Some(g) = c.grad(1) {
        let n = reduced_count(c.input_shape(0), &c.attrs::<attrs::Var>()?.dims);
        let g = restore::<attrs::Var>(c, g)?
            .div(n as f64)?
            .expand(c.input_shape(0))?;
        total = Some(match total {
            Some(t) => t.add(&g)?,
            None => g,
        });
    }
    Ok(SmallVec::from_iter([total]))
}

fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let x = s.real(&[3, 4])?;
    Ok(vec![
        sample![x.clone()],
        sample![x.clone(), 1, correction = 0],
        sample![x, [0], keepdim = true],
    ])
}

fn correction(b: &Bound) -> VarOptions {
    VarOptions {
        dim: b.opt_ints(1).map(Into::into),
        correction: b.opt_float(2).unwrap_or(1.0),
        keepdim: b.bool(3),
    }
}

fn unbiased(b: &Bound) -> VarOptions {
    VarOptions {
        dim: None,
        correction: f64::from(b.bool(1)),
        keepdim: false,
    }
}

fn unbiased_dim(b: &Bound) -> VarOptions {
    VarOptions {
        dim: b.opt_ints(1).map(Into::into),
        correction: f64::from(b.bool(2)),
        keepdim: b.bool(3),
    }
}

const CORRECTION: &str =
    "(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)";
const UNBIASED: &str = "(Tensor input, bool unbiased)";
const UNBIASED_DIM: &str = "(Tensor input, int[1]? dim, bool unbiased, bool keepdim=False)";

pub static VAR: OpRecord = OpRecord::new(
    "var",
    "Variance over dimensions (all when none is named); of complex numbers a real number.",
    CORRECTION,
)
.kernel(Kernel::Var, |c| {
    plan::<attrs::Var>(c, &[check(c)?.to_real()])
})
.grad(&[InputGrad {
    inputs: 1,
    outputs: 0,
    formula: |c| var_backward(c, &restore::<attrs::Var>(c, c.g())?),
}])
.by_name(|b| b.tensor(0)?.var_with(correction(b)).map(Value::Tensor))
.samples(samples);

static VAR_UNBIASED: OpRecord = OpRecord::new("var.unbiased", "As var.", UNBIASED)
    .overload()
    .by_name(|b| b.tensor(0)?.var_with(unbiased(b)).map(Value::Tensor));

static VAR_DIM: OpRecord = OpRecord::new("var.unbiased_dim", "As var.", UNBIASED_DIM)
    .overload()
    .by_name(|b| b.tensor(0)?.var_with(unbiased_dim(b)).map(Value::Tensor));

pub static STD: OpRecord = OpRecord::new(
    "std",
    "Standard deviation over dimensions (all when none is named); of complex numbers a real number.",
    CORRECTION,
)
.kernel(Kernel::Var, |c| plan::<attrs::Var>(c, &[check(c)?.to_real()]))
.grad(&[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: |c| {
        let (g, std) = (restore::<attrs::Var>(c, c.g())?, restore::<attrs::Var>(c, &c.out()?)?);
        std_backward(c, &g, &std)
    },
}])
.by_name(|b| b.tensor(0)?.std_with(correction(b)).map(Value::Tensor))
.samples(samples);

static STD_UNBIASED: OpRecord = OpRecord::new("std.unbiased", "As std.", UNBIASED)
    .overload()
    .by_name(|b| b.tensor(0)?.std_with(unbiased(b)).map(Value::Tensor));

static STD_DIM: OpRecord = OpRecord::new("std.unbiased_dim", "As std.", UNBIASED_DIM)
    .overload()
    .by_name(|b| b.tensor(0)?.std_with(unbiased_dim(b)).map(Value::Tensor));

pub static VAR_MEAN: OpRecord =
    OpRecord::new("var_mean", "Variance and mean, in one pass.", CORRECTION)
        .kernel(Kernel::Var, |c| {
            plan::<attrs::Var>(c, &[check(c)?.to_real(), check(c)?])
        })
        .grads(1, 0, |c| both(c, false))
        .by_name(|b| b.tensor(0)?.var_mean_with(correction(b)).map(Value::from))
        .samples(samples);

static VAR_MEAN_UNBIASED: OpRecord = OpRecord::new("var_mean.unbiased", "As var_mean.", UNBIASED)
    .overload()
    .by_name(|b| b.tensor(0)?.var_mean_with(unbiased(b)).map(Value::from));

static VAR_MEAN_DIM: OpRecord =
    OpRecord::new("var_mean.unbiased_dim", "As var_mean.", UNBIASED_DIM)
        .overload()
        .by_name(|b| b.tensor(0)?.var_mean_with(unbiased_dim(b)).map(Value::from));

pub static STD_MEAN: OpRecord = OpRecord::new(
    "std_mean",
    "Standard deviation and mean, in one pass.",
    CORRECTION,
)
.kernel(Kernel::Var, |c| {
    plan::<attrs::Var>(c, &[check(c)?.to_real(), check(c)?])
})
.grads(1, 1, |c| both(c, true))
.by_name(|b| b.tensor(0)?.std_mean_with(correction(b)).map(Value::from))
.samples(samples);

static STD_MEAN_UNBIASED: OpRecord = OpRecord::new("std_mean.unbiased", "As std_mean.", UNBIASED)
    .overload()
    .by_name(|b| b.tensor(0)?.std_mean_with(unbiased(b)).map(Value::from));

static STD_MEAN_DIM: OpRecord =
    OpRecord::new("std_mean.unbiased_dim", "As std_mean.", UNBIASED_DIM)
        .overload()
        .by_name(|b| b.tensor(0)?.std_mean_with(unbiased_dim(b)).map(Value::from));

#[torsh_tensor::by_name(Tensor::logsumexp)]
pub static LOGSUMEXP: OpRecord = OpRecord::new(
    "logsumexp",
    "Logarithm of the sum of exponentials over dimensions, without overflow; integers as the default dtype.",
    "(Tensor input, int[1] dim, bool keepdim=False)",
)
.kernel(Kernel::LogSumExp, |c| {
    let dtype = c.tensor(0)?.dtype();
    plan::<attrs::Reduce>(c, &[if dtype.is_differentiable() { dtype } else { torsh_core::default_dtype() }])
})
.definition(definitions::logsumexp)
.grad(&[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: |c| {
        let out = restore::<attrs::Reduce>(c, &c.out()?)?;
        restore::<attrs::Reduce>(c, c.g())?.mul(&c.x()?.sub(&out)?.exp()?.conj()?)
    },
}])
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![
        sample![x.clone(), 1],
        sample![x, [0, 1], true],
    ])
});

/// `dims` and `keepdim` as options.
fn over(dims: impl IntoDims, keepdim: bool) -> VarOptions {
    VarOptions {
        dim: dims.dims(),
        keepdim,
        ..VarOptions::default()
    }
}

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    fn spread(
        &self,
        record: &'static OpRecord,
        root: bool,
        o: VarOptions,
    ) -> Result<crate::call::Outputs> {
        let dims = self.reduce_dims(record.name, o.dim.as_deref())?;
        let attrs = attrs::Var {
            dims,
            keepdim: o.keepdim,
            correction: o.correction,
            root,
        };
        call(record, &[Arg::T(self)], &attrs)
    }

    /// Unbiased variance of all elements, a 0-d tensor (`torch.var`): the squared distances from the
    /// mean over their number less one.
    ///
    /// Complex tensors give a real one. An error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0].var()?.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn var(&self) -> Result<Tensor> {
        self.var_with(VarOptions::default())
    }
    /// Unbiased variance over dimensions.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0, 3.0], [0.0, 2.0, 4.0]].var_dim(1, false)?, tensor![1.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn var_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.var_with(over(dims, keepdim))
    }
    /// Variance with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and `keepdim`.
    ///
    /// An error for integers, and for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{VarOptions, tensor};
    /// let x = tensor![1.0, 3.0];
    /// assert_eq!(x.var_with(VarOptions::new().correction(0.0))?.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn var_with(&self, options: VarOptions) -> Result<Tensor> {
        Ok(self.spread(&VAR, false, options)?.swap_remove(0))
    }

    /// Unbiased standard deviation of all elements, a 0-d tensor (`torch.std`).
    ///
    /// The square root of [`Tensor::var`]; an error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0.0, 2.0, 4.0].std()?.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn std(&self) -> Result<Tensor> {
        self.std_with(VarOptions::default())
    }
    /// Unbiased standard deviation over dimensions.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0, 3.0], [0.0, 2.0, 4.0]].std_dim(1, false)?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn std_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.std_with(over(dims, keepdim))
    }
    /// Standard deviation with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and
    /// `keepdim`.
    ///
    /// An error for integers, and for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{VarOptions, tensor};
    /// let x = tensor![[0.0, 4.0]];
    /// let options = VarOptions::new().dim(1).correction(0.0).keepdim(true);
    /// assert_eq!(x.std_with(options)?, tensor![[2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn std_with(&self, options: VarOptions) -> Result<Tensor> {
        Ok(self.spread(&STD, true, options)?.swap_remove(0))
    }

    /// Unbiased variance and mean of all elements, two 0-d tensors (`torch.var_mean`).
    ///
    /// An error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (var, mean) = tensor![0.0, 2.0, 4.0].var_mean()?;
    /// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (4.0, 2.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn var_mean(&self) -> Result<(Tensor, Tensor)> {
        self.var_mean_with(VarOptions::default())
    }
    /// Unbiased variance and mean over dimensions.
    ///
    /// Both lose `dims`, or keep them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 2.0, 4.0], [1.0, 2.0, 3.0]];
    /// assert_eq!(x.var_mean_dim(1, false)?, (tensor![4.0, 1.0], tensor![2.0, 2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn var_mean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.var_mean_with(over(dims, keepdim))
    }
    /// Variance and mean with PyTorch's keyword arguments: `dim`, `correction` (1 unless set) and
    /// `keepdim`.
    ///
    /// An error for integers, and for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{VarOptions, tensor};
    /// let options = VarOptions::new().dim(1).correction(0.0);
    /// assert_eq!(tensor![[0.0, 4.0]].var_mean_with(options)?, (tensor![4.0], tensor![2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn var_mean_with(&self, options: VarOptions) -> Result<(Tensor, Tensor)> {
        let mut outs = self.spread(&VAR_MEAN, false, options)?;
        let var = outs.remove(0);
        Ok((var, outs.remove(0)))
    }

    /// Unbiased standard deviation and mean of all elements, two 0-d tensors (`torch.std_mean`).
    ///
    /// An error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (std, mean) = tensor![0.0, 2.0, 4.0].std_mean()?;
    /// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (2.0, 2.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn std_mean(&self) -> Result<(Tensor, Tensor)> {
        self.std_mean_with(VarOptions::default())
    }
    /// Unbiased standard deviation and mean over dimensions.
    ///
    /// Both lose `dims`, or keep them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 2.0, 4.0], [1.0, 2.0, 3.0]];
    /// assert_eq!(x.std_mean_dim(1, false)?, (tensor![2.0, 1.0], tensor![2.0, 2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn std_mean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.std_mean_with(over(dims, keepdim))
    }
    /// Standard deviation and mean with PyTorch's keyword arguments: `dim`, `correction` (1 unless
    /// set) and `keepdim`.
    ///
    /// An error for integers, and for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{VarOptions, tensor};
    /// let options = VarOptions::new().dim(1).correction(0.0);
    /// assert_eq!(tensor![[0.0, 4.0]].std_mean_with(options)?, (tensor![2.0], tensor![2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn std_mean_with(&self, options: VarOptions) -> Result<(Tensor, Tensor)> {
        let mut outs = self.spread(&STD_MEAN, true, options)?;
        let std = outs.remove(0);
        Ok((std, outs.remove(0)))
    }

    /// Logarithm of the sum of exponentials over dimensions, which cannot overflow
    /// (`torch.logsumexp`).
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`; integers give the default dtype. An
    /// error for a dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [1000.0, 1000.0]];
    /// // No overflow for large numbers.
    /// assert!(x.logsumexp(1, false)?.allclose(&tensor![0.693147, 1000.693147])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn logsumexp(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        let dims = self.reduce_dims("logsumexp", dims.dims().as_deref())?;
        call1(
            &LOGSUMEXP,
            &[Arg::T(self)],
            &attrs::Reduce { dims, keepdim },
        )
    }
}
