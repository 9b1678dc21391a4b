//! Order: sorting, the largest elements, searching, membership, counting, equality.

use smallvec::SmallVec;
use torsh_core::attrs::{self, NONE};
use torsh_core::pointwise::numbers::Isclose;
use torsh_core::{DType, Dims, Kernel, Promotion, Result, Shape, TorshError};

use super::index::{in_place, one};
use crate::call::{Arg, call, call1, widest};
use crate::node::{BackwardCx, Grads};
use crate::options::options;
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

/// The gradient of values picked along a dimension: what they get, added up at the positions they
/// came from.
pub(super) fn put_back(c: &BackwardCx<'_>, dim: usize, at: &Tensor, g: &Tensor) -> Result<Grads> {
    let sum = in_place(
        &super::scatter::SCATTER_ADD,
        &c.zeros(0)?,
        &[Arg::T(at), Arg::T(g)],
        &attrs::Gather {
            dim,
            negative: false,
        },
    )?;
    Ok(one(0, sum))
}

/// The gradient of values picked along a dimension, whose positions are output 1.
pub(super) const fn picked(formula: fn(&BackwardCx<'_>) -> Result<Grads>) -> Backward {
    Backward::Full {
        inputs: 0,
        outputs: 2,
        constant: 2,
        formula,
    }
}

/// Sorted values and their positions.
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
.backward(picked(|c| match c.grad(0) {
    Some(g) => put_back(c, c.attrs::<attrs::Sort>()?.dim, &c.output(1)?, g),
    None => Ok(SmallVec::from_iter([None])),
}))
.by_name(|b| b.tensor(0)?.sort_with(SortOptions::default().dim(b.int(1)).descending(b.bool(2))).map(Value::from))
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
.by_name(|b| {
    b.tensor(0)?
        .sort_with(SortOptions::default().dim(b.int(2)).descending(b.bool(3)))
        .map(Value::from)
});

/// Positions in sorted order.
pub static ARGSORT: OpRecord = OpRecord::new(
    "argsort",
    "The positions of the elements in sorted order along a dimension; always stable.",
    "(Tensor input, int dim=-1, bool descending=False, bool stable=False)",
)
.constant()
.by_name(|b| {
    b.tensor(0)?
        .argsort_with(SortOptions::default().dim(b.int(1)).descending(b.bool(2)))
        .map(Value::Tensor)
});

/// `torch.argsort` with `stable` first, as its overload has it.
static ARGSORT_STABLE: OpRecord = OpRecord::new(
    "argsort.stable",
    "As argsort.",
    "(Tensor input, *, bool stable, int dim=-1, bool descending=False)",
)
.overload()
.constant()
.by_name(|b| {
    b.tensor(0)?
        .argsort_with(SortOptions::default().dim(b.int(2)).descending(b.bool(3)))
        .map(Value::Tensor)
});

/// Sorted along the first dimension.
pub static MSORT: OpRecord = OpRecord::new(
    "msort",
    "The elements sorted along the first dimension.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.msort().map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.distinct(&[3, 2])?.into()])]));

/// The largest or smallest elements.
pub static TOPK: OpRecord = OpRecord::new(
    "topk",
    "The k largest (or smallest) elements along a dimension and their positions, always sorted; NaN is the greatest.",
    "(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True)",
)
.kernel(Kernel::Topk, |c| {
    let (x, &attrs::Topk { dim, k, .. }) = (c.tensor(0)?, c.attrs()?);
    let mut dims = Dims::from_slice(x.dims());
    let n = dims.get(dim).copied().unwrap_or(1);
    if k < 0 || k as usize > n {
        return Err(TorshError::index("", format!("selected index k out of range: {k} of {n} elements")));
    }
    if let Some(size) = dims.get_mut(dim) {
        *size = k as usize;
    }
    let shape = Shape::from(dims);
    Ok(Plan::many(x.dtype(), [Spec::new(shape.clone(), x.dtype()), Spec::new(shape, DType::I64)]))
})
.backward(picked(|c| match c.grad(0) {
    Some(g) => put_back(c, c.attrs::<attrs::Topk>()?.dim, &c.output(1)?, g),
    None => Ok(SmallVec::from_iter([None])),
}))
.by_name(|b| b.tensor(0)?.topk_with(b.int(1), TopkOptions::default().dim(b.int(2)).largest(b.bool(3))).map(Value::from))
.samples(|s| {
    Ok(vec![
        Sample::new([s.distinct(&[3, 4])?.into(), Value::Int(2)]),
        Sample::new([s.distinct(&[3, 4])?.into(), Value::Int(2), Value::Int(0), Value::Bool(false)]),
    ])
});

/// Membership.
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
.by_name(|b| {
    Tensor::isin_with(
        b.operand(0)?,
        b.operand(1)?,
        IsinOptions::default().invert(b.bool(3)),
    )
    .map(Value::Tensor)
});

/// Positions in a sorted sequence.
pub static SEARCHSORTED: OpRecord = OpRecord::new(
    "searchsorted",
    "Where each value would be inserted into a sorted sequence to keep it sorted.",
    "(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None)",
)
.kernel(Kernel::SearchSorted, |c| {
    let out_int32 = c.attrs::<attrs::SearchSorted>()?.out_int32;
    let dtype = if out_int32 { DType::I32 } else { DType::I64 };
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

/// Counts.
pub static BINCOUNT: OpRecord = OpRecord::new(
    "bincount",
    "How often each integer from 0 on occurs in a 1-d tensor, or the sums of its weights.",
    "(Tensor input, Tensor? weights=None, int minlength=0)",
)
.kernel(Kernel::Bincount, |c| {
    let dtype = c.opt_tensor(1).map_or(DType::I64, Tensor::dtype);
    let bins = c.attrs::<attrs::Bincount>()?.bins;
    Ok(Plan::one(dtype, Shape::new(&[bins]), dtype))
})
.constant()
.by_name(|b| {
    let options = BincountOptions {
        weights: b.opt_tensor(1).cloned(),
        minlength: b.int(2),
    };
    b.tensor(0)?.bincount_with(options).map(Value::Tensor)
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
        .allclose_with(
            b.tensor(1)?,
            IscloseOptions {
                rtol: b.float(2),
                atol: b.float(3),
                equal_nan: b.bool(4),
            },
        )
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
    out_int32: bool,
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
        &attrs::SearchSorted { right, out_int32 },
    )
}

options! {
    /// PyTorch's keyword arguments of `sort` and `argsort`.
    #[derive(Copy)]
    SortOptions {
        /// The dimension.
        dim: i64 = -1, impl IntoDim => |d| d.value();
        /// Whether the greatest come first.
        descending: bool = false;
        /// Whether equal elements keep their order, which they always do.
        stable: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of `topk`.
    #[derive(Copy)]
    TopkOptions {
        /// The dimension.
        dim: i64 = -1, impl IntoDim => |d| d.value();
        /// Whether the greatest are wanted, not the smallest.
        largest: bool = true;
        /// Whether they come in order, which they always do.
        sorted: bool = true;
    }
}

options! {
    /// PyTorch's keyword arguments of `searchsorted` and `bucketize`.
    SearchsortedOptions {
        /// Whether positions behind equal elements are wanted.
        right: bool = false;
        /// Whether the positions come as int32, not int64.
        out_int32: bool = false;
        /// The order in which the sequence is sorted (`searchsorted` only).
        sorter: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

options! {
    /// PyTorch's keyword arguments of `bincount`.
    BincountOptions {
        /// What each element counts for, instead of 1.
        weights: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// The least number of bins.
        minlength: i64 = 0;
    }
}

options! {
    /// PyTorch's keyword arguments of `isin`.
    #[derive(Copy)]
    IsinOptions {
        /// Whether no element of `elements` (and of `test_elements`) occurs twice; it makes no
        /// difference here.
        assume_unique: bool = false;
        /// Whether elements that are not among the others are wanted.
        invert: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of `allclose` and `isclose`.
    #[derive(Copy)]
    IscloseOptions {
        /// The tolerance relative to the other tensor's elements.
        rtol: f64 = 1e-5;
        /// The absolute tolerance.
        atol: f64 = 1e-8;
        /// Whether NaN equals NaN.
        equal_nan: bool = false;
    }
}

impl Tensor {
    /// The elements sorted along the last dimension, and the positions they had (int64); stable,
    /// NaN is the greatest (`torch.sort`).
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort()?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn sort(&self) -> Result<(Tensor, Tensor)> {
        self.sort_with(SortOptions::default())
    }

    /// [`Tensor::sort`] along another dimension, or the other way round.
    ///
    /// ```
    /// use torsh_tensor::{SortOptions, Tensor};
    /// let x = Tensor::from_data(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort_with(SortOptions::default().descending(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn sort_with(&self, options: SortOptions) -> Result<(Tensor, Tensor)> {
        let dim = self.dim("sort", options.dim)?;
        let descending = options.descending;
        pair(call(
            &SORT,
            &[Arg::T(self)],
            &attrs::Sort { dim, descending },
        )?)
    }

    /// The positions of the elements in sorted order along the last dimension (`torch.argsort`).
    #[track_caller]
    pub fn argsort(&self) -> Result<Tensor> {
        self.argsort_with(SortOptions::default())
    }

    /// [`Tensor::argsort`] along another dimension, or the other way round.
    #[track_caller]
    pub fn argsort_with(&self, options: SortOptions) -> Result<Tensor> {
        let dim = self.dim("argsort", options.dim)?;
        let descending = options.descending;
        let out = call(
            &SORT,
            &[Arg::T(&self.detach())],
            &attrs::Sort { dim, descending },
        );
        Ok(pair(out.map_err(|e| e.renamed("argsort"))?)?.1)
    }

    /// The elements sorted along the first dimension (`torch.msort`).
    #[track_caller]
    pub fn msort(&self) -> Result<Tensor> {
        Ok(self.sort_with(SortOptions::default().dim(0))?.0)
    }

    /// The `k` largest elements along the last dimension, sorted, and their positions
    /// (`torch.topk`).
    #[track_caller]
    pub fn topk(&self, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
        self.topk_with(k, TopkOptions::default())
    }

    /// [`Tensor::topk`] along another dimension, or of the smallest.
    #[track_caller]
    pub fn topk_with(&self, k: impl IntoDim, options: TopkOptions) -> Result<(Tensor, Tensor)> {
        let attrs = attrs::Topk {
            dim: self.dim("topk", options.dim)?,
            largest: options.largest,
            k: k.value(),
        };
        pair(call(&TOPK, &[Arg::T(self)], &attrs)?)
    }

    /// Whether each element is among the test elements, as a bool tensor (`torch.isin`).
    #[track_caller]
    pub fn isin<'a>(
        elements: impl Into<Operand<'a>>,
        test_elements: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        Tensor::isin_with(elements, test_elements, IsinOptions::default())
    }

    /// [`Tensor::isin`], or whether it is not.
    #[track_caller]
    pub fn isin_with<'a>(
        elements: impl Into<Operand<'a>>,
        test_elements: impl Into<Operand<'a>>,
        options: IsinOptions,
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
            &attrs::Isin {
                invert: options.invert,
            },
        )
    }

    /// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence
    /// to keep it sorted, before equal elements (`torch.searchsorted`). The sequence is 1-d, or
    /// has the values' leading dimensions.
    #[track_caller]
    pub fn searchsorted<'a>(&self, values: impl Into<Operand<'a>>) -> Result<Tensor> {
        self.searchsorted_with(values, SearchsortedOptions::default())
    }

    /// [`Tensor::searchsorted`] behind equal elements, as int32, or in a sequence that another
    /// tensor sorts.
    #[track_caller]
    pub fn searchsorted_with<'a>(
        &self,
        values: impl Into<Operand<'a>>,
        options: SearchsortedOptions,
    ) -> Result<Tensor> {
        let SearchsortedOptions {
            right,
            out_int32,
            sorter,
        } = options;
        search(self, values.into(), sorter.as_ref(), right, out_int32)
    }

    /// The bucket between the sorted 1-d `boundaries` that each element falls into
    /// (`torch.bucketize`).
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor) -> Result<Tensor> {
        self.bucketize_with(boundaries, SearchsortedOptions::default())
    }

    /// [`Tensor::bucketize`] with a boundary in the bucket before it, or as int32.
    #[track_caller]
    pub fn bucketize_with(
        &self,
        boundaries: &Tensor,
        options: SearchsortedOptions,
    ) -> Result<Tensor> {
        let SearchsortedOptions {
            right,
            out_int32,
            sorter,
        } = options;
        if sorter.is_some() {
            return Err(TorshError::invalid(
                "bucketize",
                "sorter is an argument of searchsorted",
            ));
        }
        bucketize(Operand::Ref(self), boundaries, right, out_int32)
    }

    /// How often each integer from 0 on occurs in this 1-d tensor (int64; `torch.bincount`).
    #[track_caller]
    pub fn bincount(&self) -> Result<Tensor> {
        self.bincount_with(BincountOptions::default())
    }

    /// [`Tensor::bincount`] with weights that are summed instead, or with at least so many bins.
    #[track_caller]
    pub fn bincount_with(&self, options: BincountOptions) -> Result<Tensor> {
        let BincountOptions { weights, minlength } = options;
        let weights = weights.as_ref();
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
            Some(w) => Some(w.detach().to_dtype(widest(w.device())?)?),
            None => None,
        };
        let largest = self.max()?.item::<i64>()?;
        let bins = largest.saturating_add(1).max(minlength).max(1);
        call1(
            &BINCOUNT,
            &[Arg::T(self), Arg::opt(weights.as_ref())],
            &attrs::Bincount {
                bins: bins as usize,
            },
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
        call1(&EQUAL, &[Arg::T(&a), Arg::T(&b)], NONE)?.item::<bool>()
    }

    /// Whether `|self - other| <= atol + rtol * |other|` everywhere, with PyTorch's tolerances
    /// 1e-5 and 1e-8 (`torch.allclose`).
    #[track_caller]
    pub fn allclose(&self, other: &Tensor) -> Result<bool> {
        self.allclose_with(other, IscloseOptions::default())
    }

    /// [`Tensor::allclose`] with other tolerances; with `equal_nan`, NaN equals NaN.
    #[track_caller]
    pub fn allclose_with(&self, other: &Tensor, options: IscloseOptions) -> Result<bool> {
        if self.dtype() != other.dtype() {
            return Err(TorshError::dtype(
                "allclose",
                format!("{} did not match {}", self.dtype(), other.dtype()),
            ));
        }
        let close = match self.dtype().is_differentiable() {
            true => call1(
                &super::pointwise::parametric::isclose,
                &[Arg::T(&self.detach()), Arg::T(&other.detach())],
                &Isclose {
                    rtol: options.rtol.into(),
                    atol: options.atol.into(),
                    equal_nan: options.equal_nan.into(),
                },
            ),
            false => self.near_integers(other, options),
        }
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
