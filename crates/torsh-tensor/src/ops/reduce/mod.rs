//! Reductions: what they share, sums and counts.

pub(crate) mod extreme;
pub(crate) mod moments;
pub(crate) mod norm;
pub(crate) mod product;
pub(crate) mod quantile;

use smallvec::SmallVec;
use torsh_core::attrs::{self, Attributes, Ints};
use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError};

use crate::autocast::{Autocast, body};
use crate::call::{Arg, call_whole, call1};
use crate::node::BackwardCx;
use crate::ops::definitions;
use crate::options::options;
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, Spec};
use crate::sample::Sampler;
use crate::{IntoDims, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SUM,
    &MEAN,
    &NANSUM,
    &NANMEAN,
    &COUNT_NONZERO,
    &ANY,
    &ALL,
    &SUM_TO_SIZE,
    &TRACE,
];

options! {
    /// PyTorch's keyword arguments of `sum`, and of `mean`, `nansum`, `nanmean` and `prod`.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions};
    /// let options = SumOptions::new();
    /// assert!(!options.keepdim);
    /// assert_eq!(options.dtype, None);
    /// assert!(options.keepdim(true).keepdim);
    /// ```
    SumOptions {
        /// The dimensions to reduce; `None` for all.
        dim: Option<SmallVec<[i64; 6]>> = None, impl IntoDims => |d| d.dims();
        /// Whether reduced dimensions stay, at size 1.
        keepdim: bool = false;
        /// The dtype the operand is converted to first, and the result's.
        dtype: Option<DType> = None, DType => Some;
    }
}

/// The shape with the reduced dimensions kept at size 1, and without them.
pub(crate) fn reduced(shape: &Shape, dims: &[i64]) -> (Shape, Shape) {
    let (mut kept, mut dropped) = (Dims::new(), Dims::new());
    for (d, &n) in shape.dims().iter().enumerate() {
        if dims.contains(&(d as i64)) {
            kept.push(1);
        } else {
            kept.push(n);
            dropped.push(n);
        }
    }
    (kept.into(), dropped.into())
}

/// How many elements go into one result.
pub(crate) fn reduced_count(shape: &Shape, dims: &[i64]) -> usize {
    dims.iter()
        .filter_map(|&d| shape.dims().get(d as usize))
        .product()
}

/// The attributes of a reduction.
pub(crate) trait Reduction: Attributes {
    /// The dimensions, counted from the start.
    fn dims(&self) -> &[i64];
    /// Whether they stay, at size 1.
    fn keepdim(&self) -> bool;
}

macro_rules! reductions {
    ($($name:ident)*) => {$(
        impl Reduction for attrs::$name {
            fn dims(&self) -> &[i64] {
                &self.dims
            }
            fn keepdim(&self) -> bool {
                self.keepdim
            }
        }
    )*};
}
reductions!(Reduce Sum Var Norm Median KthValue);

/// The results of a reduction, of these dtypes.
pub(crate) fn plan<A: Reduction>(c: &PlanCx<'_>, dtypes: &[DType]) -> Result<Plan> {
    let over = c.attrs::<A>()?;
    let (kept, dropped) = reduced(c.tensor(0)?.shape(), over.dims());
    let keep = over.keepdim();
    let mut outputs = SmallVec::new();
    for &dtype in dtypes {
        let shape = if keep { &kept } else { &dropped };
        outputs.push(Spec {
            dtype,
            shape: shape.clone(),
            strides: None,
            kernel_shape: Some(kept.clone()),
        });
    }
    Ok(Plan {
        compute: c.tensor(0)?.dtype(),
        outputs,
        device: None,
    })
}

/// A tensor of the result's shape with the reduced dimensions back, at size 1.
pub(crate) fn restore<A: Reduction>(c: &BackwardCx<'_>, t: &Tensor) -> Result<Tensor> {
    t.reshape(&reduced(c.input_shape(0), c.attrs::<A>()?.dims()).0)
}

/// Samples of a reduction over optional dimensions.
pub(crate) fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let x = s.real(&[2, 3, 2])?;
    Ok(vec![
        Sample::new([x.clone().into()]),
        Sample::new([x.clone().into(), Value::Int(1)]),
        Sample::new([x.into(), vec![0i64, -1].into(), Value::Bool(true)]),
    ])
}

fn sum_dtype(input: DType) -> DType {
    if input.is_integer() || input == DType::Bool {
        DType::I64
    } else {
        input
    }
}

/// The dtype of a sum or product that a call asks for, or else the usual one.
fn total_dtype(c: &PlanCx<'_>) -> Result<DType> {
    let asked = c.attrs::<attrs::Sum>()?.dtype;
    Ok(asked.unwrap_or(sum_dtype(c.tensor(0)?.dtype())))
}

/// Sum.
pub static SUM: OpRecord = OpRecord::new(
    "sum",
    "Sum over dimensions (all when none is named); integers and bools add up in int64.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.kernel(Kernel::Sum, |c| plan::<attrs::Sum>(c, &[total_dtype(c)?]))
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| restore::<attrs::Sum>(c, c.g())?.expand(c.input_shape(0)),
}])
.by_name(|b| {
    b.tensor(0)?
        .sum_over(b.opt_ints(1).as_deref(), b.bool(2), b.dtype(3))
        .map(Value::Tensor)
})
.samples(samples);

/// Mean.
pub static MEAN: OpRecord = OpRecord::new(
    "mean",
    "Mean over dimensions (all when none is named) of floating-point or complex numbers.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.kernel(Kernel::Mean, |c| {
    let dtype = c.tensor(0)?.dtype();
    if !dtype.is_differentiable() {
        return Err(TorshError::dtype(
            "",
            format!(
                "could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {dtype}"
            ),
        )
        .with_hint("convert it with to_dtype(DType::F32), or ask for a dtype with mean_with"));
    }
    plan::<attrs::Reduce>(c, &[dtype])
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let n = reduced_count(c.input_shape(0), &c.attrs::<attrs::Reduce>()?.dims);
        restore::<attrs::Reduce>(c, c.g())?.div(n as f64)?.expand(c.input_shape(0))
    },
}])
.by_name(|b| {
    let o = SumOptions { dim: b.opt_ints(1).map(Into::into), keepdim: b.bool(2), dtype: b.dtype(3) };
    b.tensor(0)?.mean_with(o).map(Value::Tensor)
})
.samples(samples);

/// Sum without NaN.
pub static NANSUM: OpRecord = OpRecord::new(
    "nansum",
    "Sum over dimensions (all when none is named) in which NaN counts as 0.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.kernel(Kernel::NanSum, |c| {
    plan::<attrs::Reduce>(c, &[sum_dtype(c.tensor(0)?.dtype())])
})
.definition(definitions::nansum)
.grad(&[InputGrad {
    inputs: 1,
    outputs: 0,
    formula: |c| {
        // A product, so that an infinite gradient is nan where nan was left out: of the mean of nothing else.
        restore::<attrs::Reduce>(c, c.g())?.mul(&c.x()?.isnan()?.logical_not()?)
    },
}])
.by_name(|b| {
    let o = SumOptions {
        dim: b.opt_ints(1).map(Into::into),
        keepdim: b.bool(2),
        dtype: b.dtype(3),
    };
    b.tensor(0)?.nansum_with(o).map(Value::Tensor)
})
.samples(samples);

/// Mean without NaN.
pub static NANMEAN: OpRecord = OpRecord::new(
    "nanmean",
    "Mean over dimensions (all when none is named) of what is not NaN.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let o = SumOptions {
        dim: b.opt_ints(1).map(Into::into),
        keepdim: b.bool(2),
        dtype: b.dtype(3),
    };
    b.tensor(0)?.nanmean_with(o).map(Value::Tensor)
})
.samples(samples);

/// How many elements are not zero.
pub static COUNT_NONZERO: OpRecord = OpRecord::new(
    "count_nonzero",
    "How many elements are not zero, over dimensions (all when none is named), as int64.",
    "(Tensor input, int[1]? dim=None)",
)
.kernel(Kernel::CountNonzero, |c| {
    plan::<attrs::Reduce>(c, &[DType::I64])
})
.definition(definitions::count_nonzero)
.constant()
.by_name(|b| {
    b.tensor(0)?
        .count_nonzero_over(b.opt_ints(1).as_deref())
        .map(Value::Tensor)
});

/// PyTorch's bool, or uint8 for uint8.
fn truth(c: &PlanCx<'_>) -> Result<Plan> {
    let input = c.tensor(0)?.dtype();
    plan::<attrs::Reduce>(
        c,
        &[if input == DType::U8 {
            DType::U8
        } else {
            DType::Bool
        }],
    )
}

/// Whether any element is not zero.
pub static ANY: OpRecord = OpRecord::new(
    "any",
    "Whether any element is not zero, over dimensions (all when none is named); bool, or uint8 for uint8.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False)",
)
.kernel(Kernel::Any, truth)
.constant()
.by_name(|b| b.tensor(0)?.truth(&ANY, b.opt_ints(1).as_deref(), b.bool(2)).map(Value::Tensor));

/// Whether all elements are not zero.
pub static ALL: OpRecord = OpRecord::new(
    "all",
    "Whether no element is zero, over dimensions (all when none is named); bool, or uint8 for uint8.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False)",
)
.kernel(Kernel::All, truth)
.constant()
.by_name(|b| b.tensor(0)?.truth(&ALL, b.opt_ints(1).as_deref(), b.bool(2)).map(Value::Tensor));

/// Sum down to a shape that broadcasts to the operand's.
pub static SUM_TO_SIZE: OpRecord = OpRecord::new(
    "sum_to_size",
    "Sum over what broadcasting from `size` to the operand's shape would repeat.",
    "(Tensor input, int[] size)",
)
.by_name(|b| b.tensor(0)?.sum_to_size(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    Ok(vec![
        Sample::new([s.real(&[2, 3])?.into(), vec![1i64, 3].into()]),
        Sample::new([s.real(&[2, 3])?.into(), vec![3i64].into()]),
    ])
});

/// Sum of the diagonal of a matrix.
pub static TRACE: OpRecord = OpRecord::new(
    "trace",
    "Sum of the diagonal of a matrix.",
    "(Tensor input)",
)
.autocast(Autocast::Fp32)
.by_name(|b| b.tensor(0)?.trace().map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.real(&[3, 4])?.into()])]));

#[torsh_tensor::functions]
impl Tensor {
    /// Reads the dimensions of a reduction: none named means all of them; sorted, each once.
    #[track_caller]
    pub(crate) fn reduce_dims(&self, op: &'static str, dims: Option<&[i64]>) -> Result<Ints> {
        if self.ndim() > 64 {
            let e = TorshError::shape(
                "",
                format!(
                    "only tensors with up to 64 dims are supported, got one with {}",
                    self.ndim()
                ),
            );
            return self.named(op, Err(e));
        }
        match dims {
            None | Some([]) => Ok((0..self.ndim() as i64).collect()),
            Some(list) => {
                let mut out: SmallVec<[i64; 6]> = SmallVec::new();
                for &d in list {
                    let d = self.dim(op, d)? as i64;
                    if out.contains(&d) {
                        let e = TorshError::invalid(
                            "",
                            format!("dim {d} appears multiple times in the list of dims"),
                        );
                        return self.named(op, Err(e));
                    }
                    out.push(d);
                }
                out.sort_unstable();
                Ok(out[..].into())
            }
        }
    }

    /// [`Tensor::reduce_dims`] for reductions that have no result for no elements.
    #[track_caller]
    pub(crate) fn nonempty_dims(&self, op: &'static str, dims: Option<&[i64]>) -> Result<Ints> {
        let list = self.reduce_dims(op, dims)?;
        let named = matches!(dims, Some([_, ..]));
        let e = if self.numel() > 0 {
            None
        } else if !named {
            Some(
                "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
                    .to_string(),
            )
        } else {
            let empty = list
                .iter()
                .find(|&&d| self.dims().get(d as usize) == Some(&0));
            empty.map(|d| format!("Expected reduction dim {d} to have non-zero size."))
        };
        match e {
            Some(text) => self.named(op, Err(TorshError::index("", text))),
            None => Ok(list),
        }
    }

    /// This tensor in the dtype that is asked for, if one is.
    #[track_caller]
    pub(crate) fn cast(&self, dtype: Option<DType>) -> Result<Tensor> {
        match dtype {
            Some(d) if d != self.dtype() => self.to_dtype(d),
            _ => Ok(self.clone()),
        }
    }

    #[track_caller]
    pub(crate) fn sum_over(
        &self,
        dims: Option<&[i64]>,
        keepdim: bool,
        dtype: Option<DType>,
    ) -> Result<Tensor> {
        let dims = self.reduce_dims("sum", dims)?;
        let attrs = attrs::Sum {
            dims,
            keepdim,
            dtype,
        };
        let x = match dtype {
            Some(d) if d != self.dtype() => &self.to_dtype(d)?,
            _ => self,
        };
        if attrs.dims.len() == self.ndim() && !keepdim {
            let dtype = dtype.unwrap_or(sum_dtype(x.dtype()));
            return call_whole(&SUM, x, dtype, &attrs);
        }
        call1(&SUM, &[Arg::T(x)], &attrs)
    }

    /// Sum of all elements, a 0-d tensor; integers and bools add up in int64 (`torch.sum`).
    ///
    /// Any shape; of no elements 0.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].sum()?.item::<f32>()?, 10.0);
    /// assert_eq!(tensor![true, false, true].sum()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum(&self) -> Result<Tensor> {
        self.sum_over(None, false, None)
    }

    /// Sum over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`; integers and bools add up in int64. An
    /// error for a dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.sum_dim(0, false)?, tensor![4, 6]);
    /// assert_eq!(x.sum_dim(1, true)?, tensor![[3], [7]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.sum_over(dims.dims().as_deref(), keepdim, None)
    }

    /// Sum with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add up in.
    ///
    /// An error for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions, tensor};
    /// let sum = tensor![1, 2].sum_with(SumOptions::new().dtype(DType::F64))?;
    /// assert_eq!((sum.dtype(), sum.item::<f64>()?), (DType::F64, 3.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_with(&self, options: SumOptions) -> Result<Tensor> {
        self.sum_over(options.dim.as_deref(), options.keepdim, options.dtype)
    }

    /// Mean of all elements, a 0-d tensor (`torch.mean`).
    ///
    /// Keeps the dtype; an error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 6.0].mean()?.item::<f32>()?, 3.0);
    /// assert!(tensor![1, 2].mean().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn mean(&self) -> Result<Tensor> {
        self.mean_with(SumOptions::default())
    }

    /// Mean over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 3.0], [5.0, 7.0]].mean_dim(0, false)?, tensor![3.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.mean_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// Mean with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` that the elements are
    /// converted to first.
    ///
    /// An error where the dtype is not floating-point or complex, and for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions, tensor};
    /// let mean = tensor![1, 2].mean_with(SumOptions::new().dtype(DType::F32))?;
    /// assert_eq!(mean.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mean_with(&self, options: SumOptions) -> Result<Tensor> {
        let dims = self.reduce_dims("mean", options.dim.as_deref())?;
        if let Some(d) = options.dtype
            && !d.is_differentiable()
        {
            let text = format!(
                "could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {d}"
            );
            return self.named("mean", Err(TorshError::dtype("", text)));
        }
        let x = self.cast(options.dtype)?;
        let attrs = attrs::Reduce {
            dims,
            keepdim: options.keepdim,
        };
        let whole = attrs.dims.len() == self.ndim() && !options.keepdim;
        if whole && x.dtype().is_differentiable() {
            return call_whole(&MEAN, &x, x.dtype(), &attrs);
        }
        call1(&MEAN, &[Arg::T(&x)], &attrs)
    }

    /// Sum of all elements in which nan counts as 0, a 0-d tensor (`torch.nansum`).
    ///
    /// Integers and bools add up in int64; an error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, f64::NAN, 2.0].nansum()?.item::<f32>()?, 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nansum(&self) -> Result<Tensor> {
        self.nansum_with(SumOptions::default())
    }

    /// Sum over dimensions in which nan counts as 0.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, f64::NAN], [2.0, 3.0]].nansum_dim(1, false)?, tensor![1.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nansum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.nansum_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// [`Tensor::nansum`] with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add
    /// up in.
    ///
    /// ```
    /// use torsh_tensor::{SumOptions, tensor};
    /// let x = tensor![[1.0, f64::NAN]];
    /// assert_eq!(x.nansum_with(SumOptions::new().dim(1).keepdim(true))?, tensor![[1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nansum_with(&self, options: SumOptions) -> Result<Tensor> {
        let dims = self.reduce_dims("nansum", options.dim.as_deref())?;
        let attrs = attrs::Reduce {
            dims,
            keepdim: options.keepdim,
        };
        let out = call1(&NANSUM, &[Arg::T(&self.cast(options.dtype)?)], &attrs)?;
        out.cast(options.dtype)
    }

    /// Mean of all elements that are not nan, a 0-d tensor (`torch.nanmean`); nan where there is
    /// none.
    ///
    /// Keeps the dtype; an error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, f64::NAN, 2.0].nanmean()?.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nanmean(&self) -> Result<Tensor> {
        self.nanmean_with(SumOptions::default())
    }

    /// Mean over dimensions of the elements that are not nan.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, f64::NAN], [2.0, 4.0]].nanmean_dim(1, false)?, tensor![1.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.nanmean_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// [`Tensor::nanmean`] with PyTorch's keyword arguments: `dim`, `keepdim` and `dtype`; an error
    /// for integers.
    ///
    /// ```
    /// use torsh_tensor::{SumOptions, tensor};
    /// let x = tensor![[1.0, f64::NAN, 2.0]];
    /// assert_eq!(x.nanmean_with(SumOptions::new().dim(1))?, tensor![1.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmean_with(&self, options: SumOptions) -> Result<Tensor> {
        if !self.dtype().is_differentiable() {
            let text = format!(
                "expected input to have floating point or complex dtype but got {}",
                self.dtype()
            );
            return self.named("nanmean", Err(TorshError::dtype("", text)));
        }
        let dims = self.reduce_dims("nanmean", options.dim.as_deref())?;
        let numbers = self.isnan()?.logical_not()?;
        let count = numbers.sum_over(Some(&dims), options.keepdim, None)?;
        self.nansum_with(options)
            .map_err(|e| e.renamed("nanmean"))?
            .div(&count)
    }

    #[track_caller]
    fn count_nonzero_over(&self, dims: Option<&[i64]>) -> Result<Tensor> {
        let dims = self.reduce_dims("count_nonzero", dims)?;
        call1(
            &COUNT_NONZERO,
            &[Arg::T(self)],
            &attrs::Reduce {
                dims,
                keepdim: false,
            },
        )
    }

    /// How many elements are not zero, a 0-d int64 tensor (`torch.count_nonzero`).
    ///
    /// Any shape and dtype; nan counts.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0, 3, 4].count_nonzero()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn count_nonzero(&self) -> Result<Tensor> {
        self.count_nonzero_over(None)
    }

    /// How many elements are not zero, over dimensions, which are lost (int64).
    ///
    /// An error for a dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[0, 3], [5, 4]].count_nonzero_dim(0)?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn count_nonzero_dim(&self, dims: impl IntoDims) -> Result<Tensor> {
        self.count_nonzero_over(dims.dims().as_deref())
    }

    #[track_caller]
    fn truth(
        &self,
        record: &'static OpRecord,
        dims: Option<&[i64]>,
        keepdim: bool,
    ) -> Result<Tensor> {
        let dims = self.reduce_dims(record.name, dims)?;
        call1(record, &[Arg::T(self)], &attrs::Reduce { dims, keepdim })
    }

    /// Whether any element is not zero (nan is not), as a 0-d bool tensor; false of no elements
    /// (`torch.any`).
    ///
    /// Any shape and dtype; uint8 gives uint8, as in PyTorch.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![0.0, 2.0].any()?.item::<bool>()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn any(&self) -> Result<Tensor> {
        self.truth(&ANY, None, false)
    }

    /// Whether any element is not zero, over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
    /// named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[0, 0], [0, 7]].any_dim(1, false)?, tensor![false, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn any_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.truth(&ANY, dims.dims().as_deref(), keepdim)
    }

    /// Whether no element is zero, as a 0-d bool tensor; true of no elements (`torch.all`).
    ///
    /// Any shape and dtype; uint8 gives uint8, as in PyTorch. nan is not zero.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(!tensor![0.0, 2.0].all()?.item::<bool>()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn all(&self) -> Result<Tensor> {
        self.truth(&ALL, None, false)
    }

    /// Whether no element is zero, over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
    /// named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 0], [6, 7]].all_dim(1, false)?, tensor![false, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn all_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.truth(&ALL, dims.dims().as_deref(), keepdim)
    }

    /// Sums what broadcasting from `shape` to this tensor's shape would repeat
    /// (`Tensor.sum_to_size`).
    ///
    /// The result has that shape. An error where `shape` does not broadcast to the tensor's.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.sum_to_size([2, 1])?, tensor![[3], [7]]);
    /// assert!(x.sum_to_size([3]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_to_size(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = self.named("sum_to_size", shape.shape())?;
        if !shape.can_broadcast_to(self.shape()) {
            let text = format!("size {shape} is not expandable to size {}", self.shape());
            return self.named("sum_to_size", Err(TorshError::shape("", text)));
        }
        // As in PyTorch, whose sum of bools is int64 even of one.
        if shape.ndim() == 0 {
            self.sum()
        } else {
            self.sum_to(&shape)
        }
    }

    /// Sum of the diagonal of a matrix, a 0-d tensor (`torch.trace`).
    ///
    /// Integers add up in int64. An error for other than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].trace()?.item::<i64>()?, 5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn trace(&self) -> Result<Tensor> {
        if self.ndim() != 2 {
            let text = format!("expected a matrix, but got tensor with dim {}", self.ndim());
            return self.named("trace", Err(TorshError::shape("", text)));
        }
        body(TRACE.autocast, [self], |[x]| x.diagonal()?.sum())
    }

    /// Sums what broadcasting from `shape` to this tensor's shape repeated.
    pub(crate) fn sum_to(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        let lead = self.ndim() - shape.ndim();
        let mut dims: SmallVec<[i64; 6]> = (0..lead as i64).collect();
        for d in 0..shape.ndim() {
            if shape[d] == 1 && self.dims()[lead + d] != 1 {
                dims.push((lead + d) as i64);
            }
        }
        let sum = if dims.is_empty() {
            self.clone()
        } else {
            self.sum_over(Some(&dims), true, None)?
        };
        sum.reshape(shape)
    }
}
