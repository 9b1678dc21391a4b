//! Order: sorting, the largest elements, searching, membership, counting, equality.

use smallvec::SmallVec;
use torsh_core::{Attr, DType, Dims, Kernel, Promotion, Result, Shape, TorshError};

use super::index::in_place;
use crate::call::{Arg, call, call1};
use crate::node::{BackwardCx, Grads};
use crate::record::{Backward, OpRecord, Plan, Sample, Spec};
use crate::{IntoDim, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SORT,
    &SORT_STABLE,
    &ARGSORT,
    &ARGSORT_STABLE,
    &MSORT,
    &TOPK,
    &ISIN,
    &SEARCHSORTED,
    &BUCKETIZE,
    &BINCOUNT,
    &EQUAL,
    &ALLCLOSE,
];

/// Values picked along a dimension, whose indices are output 1: the gradient goes back to where
/// they came from.
fn picked(c: &BackwardCx<'_>) -> Result<Grads> {
    let Some(g) = c.grad(0) else {
        return Ok(SmallVec::from_iter([None]));
    };
    let (zeros, indices) = (c.zeros(0)?, c.output(1)?);
    let dim = [c.attr(0), Attr::Bool(false)];
    let sum = in_place(
        &super::scatter::SCATTER_ADD,
        &zeros,
        &[Arg::T(&indices), Arg::T(g)],
        &dim,
    )?;
    Ok(SmallVec::from_iter([Some(sum)]))
}

const PICKED: Backward = Backward::Full {
    inputs: 0,
    outputs: 2,
    constant: 2,
    formula: picked,
};

/// Sorted values and their positions. Attributes: dimension, descending.
pub static SORT: OpRecord = OpRecord::new(
    "sort",
    "The elements sorted along a dimension and the positions they had; always stable, NaN is the greatest.",
    "(Tensor input, int dim=-1, bool descending=False, bool stable=False)",
)
.kernel(Kernel::Sort, |c| {
    let x = c.tensor(0)?;
    let spec = |dtype| Spec::new(x.shape().clone(), dtype);
    Ok(Plan::many(x.dtype(), [spec(x.dtype()), spec(DType::I64)]))
})
.backward(PICKED)
.by_name(|b| b.tensor(0)?.sort(b.int(1), b.bool(2)).map(Value::from))
.samples(|s| {
    Ok(vec![
        Sample::new([s.distinct(&[3, 4])?.into()]),
        Sample::new([s.distinct(&[3, 4])?.into(), Value::Int(0), Value::Bool(true)]),
    ])
});

/// `torch.sort` with `stable` first, as its overload has it.
static SORT_STABLE: OpRecord = OpRecord::new(
    "sort.stable",
    "As sort.",
    "(Tensor input, *, bool? stable, int dim=-1, bool descending=False)",
)
.overload()
.by_name(|b| b.tensor(0)?.sort(b.int(2), b.bool(3)).map(Value::from));

/// Positions in sorted order.
pub static ARGSORT: OpRecord = OpRecord::new(
    "argsort",
    "The positions of the elements in sorted order along a dimension; always stable.",
    "(Tensor input, int dim=-1, bool descending=False, bool stable=False)",
)
.constant()
.by_name(|b| b.tensor(0)?.argsort(b.int(1), b.bool(2)).map(Value::Tensor));

/// `torch.argsort` with `stable` first, as its overload has it.
static ARGSORT_STABLE: OpRecord = OpRecord::new(
    "argsort.stable",
    "As argsort.",
    "(Tensor input, *, bool stable, int dim=-1, bool descending=False)",
)
.overload()
.constant()
.by_name(|b| b.tensor(0)?.argsort(b.int(2), b.bool(3)).map(Value::Tensor));

/// Sorted along the first dimension.
pub static MSORT: OpRecord = OpRecord::new(
    "msort",
    "The elements sorted along the first dimension.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.msort().map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.distinct(&[3, 2])?.into()])]));

/// The largest or smallest elements. Attributes: dimension, largest, k.
pub static TOPK: OpRecord = OpRecord::new(
    "topk",
    "The k largest (or smallest) elements along a dimension and their positions, always sorted; NaN is the greatest.",
    "(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True)",
)
.kernel(Kernel::Topk, |c| {
    let (x, d, k) = (c.tensor(0)?, c.attr(0).int() as usize, c.attr(2).int());
    let mut dims = Dims::from_slice(x.dims());
    let n = dims.get(d).copied().unwrap_or(1);
    if k < 0 || k as usize > n {
        return Err(TorshError::index("", format!("selected index k out of range: {k} of {n} elements")));
    }
    if let Some(size) = dims.get_mut(d) {
        *size = k as usize;
    }
    let shape = Shape::from(dims);
    Ok(Plan::many(x.dtype(), [Spec::new(shape.clone(), x.dtype()), Spec::new(shape, DType::I64)]))
})
.backward(PICKED)
.by_name(|b| b.tensor(0)?.topk_with(b.int(1), b.int(2), b.bool(3)).map(Value::from))
.samples(|s| {
    Ok(vec![
        Sample::new([s.distinct(&[3, 4])?.into(), Value::Int(2)]),
        Sample::new([s.distinct(&[3, 4])?.into(), Value::Int(2), Value::Int(0), Value::Bool(false)]),
    ])
});

/// Membership. Attribute: invert.
pub static ISIN: OpRecord = OpRecord::new(
    "isin",
    "Whether each element is among the test elements, as a bool tensor.",
    "(Operand elements, Operand test_elements, *, bool assume_unique=False, bool invert=False)",
)
.kernel(Kernel::Isin, |c| {
    Ok(Plan::one(
        c.tensor(0)?.dtype(),
        c.tensor(0)?.shape().clone(),
        DType::Bool,
    ))
})
.constant()
.by_name(|b| Tensor::isin(b.operand(0)?, b.operand(1)?, b.bool(3)).map(Value::Tensor));

/// Positions in a sorted sequence. Attributes: right, whether int32.
pub static SEARCHSORTED: OpRecord = OpRecord::new(
    "searchsorted",
    "Where each value would be inserted into a sorted sequence to keep it sorted.",
    "(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None)",
)
.kernel(Kernel::SearchSorted, |c| {
    let dtype = if c.attr(1).bool() { DType::I32 } else { DType::I64 };
    Ok(Plan::one(c.tensor(0)?.dtype(), c.tensor(1)?.shape().clone(), dtype))
})
.constant()
.by_name(|b| {
    let right = match (b.str(4), b.bool(3)) {
        ("", right) => right,
        ("right", _) => true,
        ("left", false) => false,
        ("left", true) => {
            return Err(TorshError::invalid(
                "",
                "side and right can't be set to opposites, got side of left while right was True",
            ));
        }
        (other, _) => {
            return Err(TorshError::invalid("", format!("side can only be 'left' or 'right' but got {other}")));
        }
    };
    search(b.tensor(0)?, b.operand(1)?, b.opt_tensor(5), right, b.bool(2)).map(Value::Tensor)
});

/// [`SEARCHSORTED`] with the operands the other way round.
pub static BUCKETIZE: OpRecord = OpRecord::new(
    "bucketize",
    "The bucket between sorted boundaries that each value falls into.",
    "(Operand input, Tensor boundaries, *, bool out_int32=False, bool right=False)",
)
.constant()
.by_name(|b| bucketize(b.operand(0)?, b.tensor(1)?, b.bool(3), b.bool(2)).map(Value::Tensor));

/// Counts. Attribute: how many bins.
pub static BINCOUNT: OpRecord = OpRecord::new(
    "bincount",
    "How often each integer from 0 on occurs in a 1-d tensor, or the sums of its weights.",
    "(Tensor input, Tensor? weights=None, int minlength=0)",
)
.kernel(Kernel::Bincount, |c| {
    let dtype = c.opt_tensor(1).map_or(DType::I64, Tensor::dtype);
    Ok(Plan::one(
        dtype,
        Shape::new(&[c.attr(0).int() as usize]),
        dtype,
    ))
})
.constant()
.by_name(|b| {
    b.tensor(0)?
        .bincount(b.opt_tensor(1), b.int(2))
        .map(Value::Tensor)
});

/// Equality of all elements.
pub static EQUAL: OpRecord = OpRecord::new(
    "equal",
    "Whether two tensors have one shape and equal elements.",
    "(Tensor input, Tensor other)",
)
.kernel(Kernel::Equal, |c| {
    Ok(Plan::one(
        c.tensor(0)?.dtype(),
        Shape::default(),
        DType::Bool,
    ))
})
.constant()
.by_name(|b| b.tensor(0)?.equal(b.tensor(1)?).map(Value::Bool));

/// Equality up to tolerances.
pub static ALLCLOSE: OpRecord = OpRecord::new(
    "allclose",
    "Whether |input - other| <= atol + rtol * |other| everywhere.",
    "(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)",
)
.constant()
.by_name(|b| {
    b.tensor(0)?
        .allclose_with(b.tensor(1)?, b.float(2), b.float(3), b.bool(4))
        .map(Value::Bool)
});

/// One dtype for two operands, by promotion.
fn promoted(a: &Operand<'_>, b: &Operand<'_>) -> Result<DType> {
    let mut p = Promotion::default();
    for o in [a, b] {
        match o {
            Operand::Owned(t) => p.tensor(t.dtype(), t.ndim()),
            Operand::Ref(t) => p.tensor(t.dtype(), t.ndim()),
            Operand::Number(n) => p.number(*n),
        }
    }
    Ok(p.result()?.unwrap_or(torsh_core::default_dtype()))
}

fn bucketize(input: Operand<'_>, boundaries: &Tensor, right: bool, int32: bool) -> Result<Tensor> {
    if boundaries.ndim() != 1 {
        return Err(TorshError::shape(
            "bucketize",
            format!(
                "boundaries tensor must be 1 dimension, but got dim({})",
                boundaries.ndim()
            ),
        ));
    }
    search(boundaries, input, None, right, int32)
}

fn search(
    sequence: &Tensor,
    values: Operand<'_>,
    sorter: Option<&Tensor>,
    right: bool,
    int32: bool,
) -> Result<Tensor> {
    let refuse = |text: String| Err(TorshError::shape("searchsorted", text));
    let as_tensor = values.to_tensor()?;
    if as_tensor.ndim() == 0 && sequence.ndim() != 1 {
        return refuse(format!(
            "input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({})",
            sequence.ndim()
        ));
    }
    let n = sequence.ndim();
    if n == 0 {
        return refuse(
            "boundaries tensor should have positive dimension, but got 0 dimension".into(),
        );
    }
    if n != 1 && (n != as_tensor.ndim() || sequence.dims()[..n - 1] != as_tensor.dims()[..n - 1]) {
        return refuse(format!(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {} and input value tensor {}",
            sequence.shape(),
            as_tensor.shape()
        ));
    }
    if let Some(s) = sorter {
        if s.shape() != sequence.shape() {
            return refuse(format!(
                "boundary and sorter must have the same size, but got boundary tensor {} and got sorter tensor {}",
                sequence.shape(),
                s.shape()
            ));
        }
        if s.dtype() != DType::I64 {
            return Err(TorshError::dtype(
                "searchsorted",
                format!(
                    "sorter must be a tensor of long dtype but got dtype {}",
                    s.dtype()
                ),
            ));
        }
    }
    let dtype = promoted(&Operand::Ref(sequence), &values)?;
    let (sequence, values) = (sequence.to_dtype(dtype)?, as_tensor.to_dtype(dtype)?);
    call1(
        &SEARCHSORTED,
        &[Arg::T(&sequence), Arg::T(&values), Arg::opt(sorter)],
        &[Attr::Bool(right), Attr::Bool(int32)],
    )
}

impl Tensor {
    /// The elements sorted along `dim`, and the positions they had (int64); stable, NaN is the
    /// greatest (`torch.sort`).
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort(-1, true)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: impl IntoDim, descending: bool) -> Result<(Tensor, Tensor)> {
        let d = self.dim("sort", dim.value())?;
        pair(call(
            &SORT,
            &[Arg::T(self)],
            &[Attr::Int(d as i64), Attr::Bool(descending)],
        )?)
    }

    /// The positions of the elements in sorted order along `dim` (`torch.argsort`).
    #[track_caller]
    pub fn argsort(&self, dim: impl IntoDim, descending: bool) -> Result<Tensor> {
        let d = self.dim("argsort", dim.value())?;
        let out = call(
            &SORT,
            &[Arg::T(&self.detach())],
            &[Attr::Int(d as i64), Attr::Bool(descending)],
        );
        Ok(pair(out.map_err(|e| e.renamed("argsort"))?)?.1)
    }

    /// The elements sorted along the first dimension (`torch.msort`).
    #[track_caller]
    pub fn msort(&self) -> Result<Tensor> {
        Ok(self.sort(0, false)?.0)
    }

    /// The `k` largest elements along the last dimension, sorted, and their positions
    /// (`torch.topk`).
    #[track_caller]
    pub fn topk(&self, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
        self.topk_with(k, -1, true)
    }

    /// The `k` largest (or smallest) elements along `dim`, sorted, and their positions.
    #[track_caller]
    pub fn topk_with(
        &self,
        k: impl IntoDim,
        dim: impl IntoDim,
        largest: bool,
    ) -> Result<(Tensor, Tensor)> {
        let d = self.dim("topk", dim.value())?;
        pair(call(
            &TOPK,
            &[Arg::T(self)],
            &[
                Attr::Int(d as i64),
                Attr::Bool(largest),
                Attr::Int(k.value()),
            ],
        )?)
    }

    /// Whether each element is among the test elements (with `invert`: is not), as a bool tensor
    /// (`torch.isin`).
    #[track_caller]
    pub fn isin<'a>(
        elements: impl Into<Operand<'a>>,
        test_elements: impl Into<Operand<'a>>,
        invert: bool,
    ) -> Result<Tensor> {
        let (elements, test) = (elements.into(), test_elements.into());
        let dtype = promoted(&elements, &test)?;
        let (elements, test) = (
            elements.to_tensor()?.to_dtype(dtype)?,
            test.to_tensor()?.to_dtype(dtype)?,
        );
        call1(
            &ISIN,
            &[Arg::T(&elements), Arg::T(&test)],
            &[Attr::Bool(invert)],
        )
    }

    /// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence
    /// to keep it sorted: before equal elements, or with `right` after them
    /// (`torch.searchsorted`). The sequence is 1-d, or has the values' leading dimensions.
    #[track_caller]
    pub fn searchsorted<'a>(&self, values: impl Into<Operand<'a>>, right: bool) -> Result<Tensor> {
        search(self, values.into(), None, right, false)
    }

    /// The bucket between the sorted 1-d `boundaries` that each element falls into
    /// (`torch.bucketize`).
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        bucketize(Operand::Ref(self), boundaries, right, false)
    }

    /// How often each integer from 0 on occurs in this 1-d tensor (int64), or the sums of its
    /// `weights`; at least `minlength` bins (`torch.bincount`).
    #[track_caller]
    pub fn bincount<'a>(
        &self,
        weights: impl Into<Option<&'a Tensor>>,
        minlength: i64,
    ) -> Result<Tensor> {
        let weights = weights.into();
        let refuse = |text: String| Err(TorshError::invalid("bincount", text));
        if !self.dtype().is_integer() {
            return Err(TorshError::dtype(
                "bincount",
                format!("not implemented for {}", self.dtype()),
            ));
        }
        if minlength < 0 {
            return refuse(format!("minlength should be >= 0, got {minlength}"));
        }
        if self.ndim() != 1 {
            return refuse(format!(
                "bincount only supports 1-d non-negative integral inputs, got {}",
                self.describe()
            ));
        }
        if let Some(w) = weights
            && (w.ndim() != 1 || w.numel() != self.numel())
        {
            return refuse(format!(
                "weights should be 1-d and have the same length as input, got {} and {}",
                w.shape(),
                self.shape()
            ));
        }
        if self.numel() == 0 {
            return Tensor::zeros([minlength], DType::I64, self.device());
        }
        let weights = match weights {
            Some(w) if w.dtype() == DType::F32 => Some(w.detach()),
            Some(w) => Some(w.detach().to_dtype(DType::F64)?),
            None => None,
        };
        // The bins end where the sorted values do.
        let (sorted, _) = self.sort(0, true)?;
        let largest = sorted.select(0, 0)?.item::<i64>()?;
        let bins = largest.saturating_add(1).max(minlength).max(1);
        call1(
            &BINCOUNT,
            &[Arg::T(self), Arg::opt(weights.as_ref())],
            &[Attr::Int(bins)],
        )
    }

    /// Whether both tensors have one shape and equal elements (`torch.equal`); dtypes promote.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        if self.shape() != other.shape() {
            return Ok(false);
        }
        let dtype = self.dtype().promote(other.dtype());
        let (a, b) = (
            self.detach().to_dtype(dtype)?,
            other.detach().to_dtype(dtype)?,
        );
        call1(&EQUAL, &[Arg::T(&a), Arg::T(&b)], &[])?.item::<bool>()
    }

    /// Whether `|self - other| <= atol + rtol * |other|` everywhere, with PyTorch's tolerances
    /// 1e-5 and 1e-8 (`torch.allclose`).
    #[track_caller]
    pub fn allclose(&self, other: &Tensor) -> Result<bool> {
        self.allclose_with(other, 1e-5, 1e-8, false)
    }

    /// [`Tensor::allclose`] with other tolerances; with `equal_nan`, NaN equals NaN.
    #[track_caller]
    pub fn allclose_with(
        &self,
        other: &Tensor,
        rtol: f64,
        atol: f64,
        equal_nan: bool,
    ) -> Result<bool> {
        if self.dtype() != other.dtype() {
            return Err(TorshError::dtype(
                "allclose",
                format!("{} did not match {}", self.dtype(), other.dtype()),
            ));
        }
        let real = |t: &Tensor| {
            if t.dtype().is_differentiable() {
                Ok(t.detach())
            } else {
                t.to_dtype(DType::F64)
            }
        };
        let close = call1(
            &super::pointwise::parametric::isclose,
            &[Arg::T(&real(self)?), Arg::T(&real(other)?)],
            &[
                Attr::Scalar(rtol.into()),
                Attr::Scalar(atol.into()),
                Attr::Scalar(equal_nan.into()),
            ],
        )
        .map_err(|e| e.renamed("allclose"))?;
        Ok(super::masked::count(&close)? == close.numel())
    }
}

fn pair(out: crate::call::Outputs) -> Result<(Tensor, Tensor)> {
    let mut out = out.into_iter();
    match (out.next(), out.next()) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(TorshError::invalid("", "the op has two results")),
    }
}
