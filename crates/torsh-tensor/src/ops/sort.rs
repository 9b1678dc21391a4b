//! Order: sorting, the largest elements, searching, membership, counting, equality.

pub(crate) mod methods;

use smallvec::SmallVec;
use torsh_core::attrs::{self, NONE};
use torsh_core::pointwise::numbers::Isclose;
use torsh_core::{DType, Dims, Kernel, Promotion, Result, Shape, TorshError};

use super::index::{in_place, one};
use crate::call::{Arg, call, call1, widest};
use crate::named::refused;
use crate::node::{BackwardCx, Grads};
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, Spec, sample};
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
            sparse_grad: false,
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

#[torsh_tensor::by_name(Tensor::sort_with(.., SortOptions { dim, descending }))]
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
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[3, 4])?],
        sample![s.distinct(&[3, 4])?, 0, true],
    ])
});

/// `torch.sort` with `stable` first, as its overload has it.
#[torsh_tensor::by_name(Tensor::sort_with(input, SortOptions { dim, descending }))]
static SORT_STABLE: OpRecord = OpRecord::new(
    "sort.stable",
    "As sort.",
    "(Tensor input, *, bool? stable, int dim=-1, bool descending=False)",
)
.overload();

#[torsh_tensor::by_name(Tensor::argsort_with(.., SortOptions { dim, descending }))]
pub static ARGSORT: OpRecord = OpRecord::new(
    "argsort",
    "The positions of the elements in sorted order along a dimension; always stable.",
    "(Tensor input, int dim=-1, bool descending=False, bool stable=False)",
)
.constant();

/// `torch.argsort` with `stable` first, as its overload has it.
#[torsh_tensor::by_name(Tensor::argsort_with(input, SortOptions { dim, descending }))]
static ARGSORT_STABLE: OpRecord = OpRecord::new(
    "argsort.stable",
    "As argsort.",
    "(Tensor input, *, bool stable, int dim=-1, bool descending=False)",
)
.overload()
.constant();

#[torsh_tensor::by_name(Tensor::msort)]
pub static MSORT: OpRecord = OpRecord::new(
    "msort",
    "The elements sorted along the first dimension.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.distinct(&[3, 2])?]]));

#[torsh_tensor::by_name(Tensor::topk_with(.., TopkOptions { dim, largest }))]
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
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[3, 4])?, 2],
        sample![s.distinct(&[3, 4])?, 2, 0, false],
    ])
});

#[torsh_tensor::by_name(Tensor::isin_with(.., IsinOptions { invert }))]
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
.constant();

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
    let side = Some(b.str(4)).filter(|s| !s.is_empty());
    let right = behind(side, b.bool(3))?;
    search(b.tensor(0)?, b.operand(1)?, b.opt_tensor(5), right, b.bool(2)).map(Value::Tensor)
});

/// Whether positions behind equal elements are wanted, from PyTorch's two arguments for it.
fn behind(side: Option<&str>, right: bool) -> Result<bool> {
    match (side, right) {
        (None, right) => Ok(right),
        (Some("right"), _) => Ok(true),
        (Some("left"), false) => Ok(false),
        (Some("left"), true) => Err(TorshError::invalid(
            "",
            "side and right can't be set to opposites, got side of left while right was True",
        )),
        (Some(other), _) => Err(refused(other, "side", ["left", "right"])),
    }
}

/// [`SEARCHSORTED`] with the operands the other way round.
#[torsh_tensor::by_name(bucketize(input, boundaries, right, out_int32))]
pub static BUCKETIZE: OpRecord = OpRecord::new(
    "bucketize",
    "The bucket between sorted boundaries that each value falls into.",
    "(Operand input, Tensor boundaries, *, bool out_int32=False, bool right=False)",
)
.constant();

#[torsh_tensor::by_name(Tensor::bincount_with(.., BincountOptions))]
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
.constant();

#[torsh_tensor::by_name(Tensor::equal)]
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
.constant();

#[torsh_tensor::by_name(Tensor::allclose_with(.., IscloseOptions))]
pub static ALLCLOSE: OpRecord = OpRecord::new(
    "allclose",
    "Whether |input - other| <= atol + rtol * |other| everywhere.",
    "(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)",
)
.constant();

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
    ///
    /// ```
    /// use torsh_tensor::SortOptions;
    /// let options = SortOptions::new();
    /// assert_eq!(options.dim, -1);
    /// assert!(!options.descending);
    /// assert!(!options.stable);
    /// assert_eq!(options.dim(3).dim, 3);
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::TopkOptions;
    /// let options = TopkOptions::new();
    /// assert_eq!(options.dim, -1);
    /// assert!(options.largest);
    /// assert!(options.sorted);
    /// assert_eq!(options.dim(3).dim, 3);
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::SearchsortedOptions;
    /// let options = SearchsortedOptions::new();
    /// assert!(!options.right);
    /// assert!(!options.out_int32);
    /// assert!(options.right(true).right);
    /// ```
    SearchsortedOptions {
        /// Whether positions behind equal elements are wanted.
        right: bool = false;
        /// The same as "left" or "right" (`searchsorted` only).
        side: Option<String> = None, &str => |s| Some(s.to_string());
        /// Whether the positions come as int32, not int64.
        out_int32: bool = false;
        /// The order in which the sequence is sorted (`searchsorted` only).
        sorter: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

options! {
    /// PyTorch's keyword arguments of `bincount`.
    ///
    /// ```
    /// use torsh_tensor::BincountOptions;
    /// let options = BincountOptions::new();
    /// assert_eq!(options.minlength, 0);
    /// assert_eq!(options.minlength(3).minlength, 3);
    /// ```
    BincountOptions {
        /// What each element counts for, instead of 1.
        weights: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// The least number of bins.
        minlength: i64 = 0;
    }
}

options! {
    /// PyTorch's keyword arguments of `isin`.
    ///
    /// ```
    /// use torsh_tensor::IsinOptions;
    /// let options = IsinOptions::new();
    /// assert!(!options.assume_unique);
    /// assert!(!options.invert);
    /// assert!(options.assume_unique(true).assume_unique);
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::IscloseOptions;
    /// let options = IscloseOptions::new();
    /// assert_eq!(options.rtol, 1e-5);
    /// assert_eq!(options.atol, 1e-8);
    /// assert!(!options.equal_nan);
    /// assert_eq!(options.rtol(0.25).rtol, 0.25);
    /// ```
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

fn pair(out: crate::call::Outputs) -> Result<(Tensor, Tensor)> {
    let mut out = out.into_iter();
    match (out.next(), out.next()) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(TorshError::invalid("", "the op has two results")),
    }
}
