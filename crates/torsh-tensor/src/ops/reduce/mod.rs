//! Reductions: what they share, sums and counts.

pub(crate) mod extreme;
pub(crate) mod methods;
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
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, Spec, sample};
use crate::sample::Sampler;
use crate::{IntoDims, IntoShape, Tensor};

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
        sample![x.clone()],
        sample![x.clone(), 1],
        sample![x, [0, -1], true],
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

#[torsh_tensor::by_name(Tensor::sum_over(input, &dim, keepdim, dtype))]
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
.samples(samples);

#[torsh_tensor::by_name(Tensor::mean_with(.., SumOptions))]
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
.samples(samples);

#[torsh_tensor::by_name(Tensor::nansum_with(.., SumOptions))]
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
.samples(samples);

#[torsh_tensor::by_name(Tensor::nanmean_with(.., SumOptions))]
pub static NANMEAN: OpRecord = OpRecord::new(
    "nanmean",
    "Mean over dimensions (all when none is named) of what is not NaN.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.samples(samples);

#[torsh_tensor::by_name(Tensor::count_nonzero_over(input, &dim))]
pub static COUNT_NONZERO: OpRecord = OpRecord::new(
    "count_nonzero",
    "How many elements are not zero, over dimensions (all when none is named), as int64.",
    "(Tensor input, int[1]? dim=None)",
)
.kernel(Kernel::CountNonzero, |c| {
    plan::<attrs::Reduce>(c, &[DType::I64])
})
.definition(definitions::count_nonzero)
.constant();

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

#[torsh_tensor::by_name(Tensor::truth(input, &ANY, &dim, keepdim))]
pub static ANY: OpRecord = OpRecord::new(
    "any",
    "Whether any element is not zero, over dimensions (all when none is named); bool, or uint8 for uint8.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False)",
)
.kernel(Kernel::Any, truth)
.constant();

#[torsh_tensor::by_name(Tensor::truth(input, &ALL, &dim, keepdim))]
pub static ALL: OpRecord = OpRecord::new(
    "all",
    "Whether no element is zero, over dimensions (all when none is named); bool, or uint8 for uint8.",
    "(Tensor input, int[1]? dim=None, bool keepdim=False)",
)
.kernel(Kernel::All, truth)
.constant();

/// Sum down to a shape that broadcasts to the operand's.
#[torsh_tensor::by_name(Tensor::sum_to_size)]
pub static SUM_TO_SIZE: OpRecord = OpRecord::new(
    "sum_to_size",
    "Sum over what broadcasting from `size` to the operand's shape would repeat.",
    "(Tensor input, int[] size)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, [1, 3]],
        sample![s.real(&[2, 3])?, [3]],
    ])
});

#[torsh_tensor::by_name(Tensor::trace)]
pub static TRACE: OpRecord = OpRecord::new(
    "trace",
    "Sum of the diagonal of a matrix.",
    "(Tensor input)",
)
.autocast(Autocast::Fp32)
.samples(|s| Ok(vec![sample![s.real(&[3, 4])?]]));

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
}
