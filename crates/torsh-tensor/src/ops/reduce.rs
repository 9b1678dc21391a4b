//! Reductions.

use smallvec::SmallVec;
use torsh_core::{Attr, DType, Dims, Kernel, Result, Shape};

use crate::call::{Arg, call1};
use crate::record::{InputGrad, OpRecord, Plan, Sample, Spec};
use crate::{IntoDims, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&SUM, &SUM_DIM];

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

fn sum_dtype(input: DType, asked: Option<DType>) -> DType {
    asked.unwrap_or(if input.is_integer() || input == DType::Bool {
        DType::I64
    } else {
        input
    })
}

/// Sum of all elements.
pub static SUM: OpRecord = OpRecord::new(
    "sum",
    "Sum of all elements; integers add up in int64.",
    "(Tensor input, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let x = b.tensor(0)?;
    x.sum_over(None, false, b.dtype(1)).map(Value::Tensor)
})
.samples(|s| Ok(vec![Sample::new([s.real(&[2, 3])?.into()])]));

/// Sum over dimensions. Attributes: dimensions (sorted out), keepdim, dtype.
pub static SUM_DIM: OpRecord = OpRecord::new(
    "sum.dim",
    "Sum over dimensions (all when none is named); integers add up in int64.",
    "(Tensor input, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)",
)
.overload()
.kernel(Kernel::Sum, |c| {
    let x = c.tensor(0)?;
    let dtype = sum_dtype(x.dtype(), c.attr(2).dtype());
    let (kept, dropped) = reduced(x.shape(), c.attr(0).ints());
    let mut spec = Spec::new(
        if c.attr(1).bool() {
            kept.clone()
        } else {
            dropped
        },
        dtype,
    );
    spec.kernel_shape = Some(kept);
    Ok(Plan {
        compute: dtype,
        outputs: SmallVec::from_iter([spec]),
    })
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let (kept, _) = reduced(c.input_shape(0), c.attr(0).ints());
        c.g().reshape(&kept)?.expand(c.input_shape(0))
    },
}])
.by_name(|b| {
    b.tensor(0)?
        .sum_over(b.opt_ints(1).as_deref(), b.bool(2), b.dtype(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3, 2])?;
    Ok(vec![
        Sample::new([x.clone().into(), Value::Int(1)]),
        Sample::new([x.clone().into(), vec![0i64, -1].into(), Value::Bool(true)]),
        Sample::new([x.into(), Value::None]),
    ])
});

impl Tensor {
    /// Reads the dimensions of a reduction: none named means all of them; sorted, each once.
    #[track_caller]
    pub(crate) fn reduce_dims(
        &self,
        op: &'static str,
        dims: Option<&[i64]>,
    ) -> Result<SmallVec<[i64; 6]>> {
        let mut out: SmallVec<[i64; 6]> = SmallVec::new();
        match dims {
            None | Some([]) => out.extend(0..self.ndim() as i64),
            Some(list) => {
                for &d in list {
                    let d = self.dim(op, d)? as i64;
                    if out.contains(&d) {
                        let at = std::panic::Location::caller();
                        return Err(torsh_core::TorshError::invalid(
                            "",
                            format!("dim {d} appears multiple times in the list of dims"),
                        )
                        .in_op(op, || vec![self.describe()], at));
                    }
                    out.push(d);
                }
                out.sort_unstable();
            }
        }
        Ok(out)
    }

    #[track_caller]
    pub(crate) fn sum_over(
        &self,
        dims: Option<&[i64]>,
        keepdim: bool,
        dtype: Option<DType>,
    ) -> Result<Tensor> {
        let dims = self.reduce_dims("sum", dims)?;
        let x = match dtype {
            Some(d) if d != self.dtype() => self.to_dtype(d)?,
            _ => self.clone(),
        };
        call1(
            &SUM_DIM,
            &[Arg::T(&x)],
            &[
                Attr::Ints(&dims),
                Attr::Bool(keepdim),
                dtype.map_or(Attr::None, Attr::DType),
            ],
        )
    }

    /// Sum of all elements, a 0-d tensor; integers and bools add up in int64.
    #[track_caller]
    pub fn sum(&self) -> Result<Tensor> {
        self.sum_over(None, false, None)
    }

    /// Sum over dimensions.
    #[track_caller]
    pub fn sum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.sum_over(dims.dims().as_deref(), keepdim, None)
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
