//! Gathering and scattering along one dimension, an index per element.

pub(crate) mod methods;

use smallvec::SmallVec;
use torsh_core::attrs::{self, NONE, ScatterReduction, ScatterUpdate};
use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError};

use super::index::{at_least_1d, check_number, in_place, one};
use crate::call::{Arg, call1};
use crate::node::{BackwardCx, Grads};
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Sample, sample};
use crate::{IntoDim, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &GATHER,
    &TAKE_ALONG_DIM,
    &SCATTER,
    &SCATTER_VALUE,
    &SCATTER_REDUCING,
    &SCATTER_ADD,
    &SCATTER_REDUCE,
];

fn index_dtype(op: &str, index: &Tensor) -> Result<()> {
    // Of an empty index PyTorch asks nothing.
    if index.numel() == 0 || matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(TorshError::dtype(
        "",
        format!(
            "{op}(): Expected dtype int32/int64 for index, got {}",
            index.dtype()
        ),
    ))
}

fn same_rank(index: &Tensor, other: &Tensor, name: &str) -> Result<()> {
    if index.ndim().max(1) == other.ndim().max(1) {
        return Ok(());
    }
    Err(TorshError::shape(
        "",
        format!(
            "Index tensor must have the same number of dimensions as {name} tensor: {} and {}",
            index.shape(),
            other.shape()
        ),
    ))
}

options! {
    /// PyTorch's keyword argument of `gather`.
    ///
    /// ```
    /// use torsh_tensor::GatherOptions;
    /// let options = GatherOptions::new();
    /// assert!(!options.sparse_grad);
    /// assert!(options.sparse_grad(true).sparse_grad);
    /// ```
    #[derive(Copy)]
    GatherOptions {
        /// Whether the gradient is a COO tensor of the elements that were read. It comes with the feature `sparse`.
        sparse_grad: bool = false;
    }
}

#[torsh_tensor::by_name(Tensor::gather_with(.., GatherOptions))]
pub static GATHER: OpRecord = OpRecord::new(
    "gather",
    "For every element of the index, the element at that position along a dimension.",
    "(Tensor input, int dim, Tensor index, *, bool sparse_grad=False)",
)
.kernel(Kernel::Gather, |c| {
    let (x, index, d) = (c.tensor(0)?, c.tensor(1)?, c.attrs::<attrs::Gather>()?.dim);
    index_dtype("gather", index)?;
    if index.numel() != 0 {
        same_rank(index, x, "input")?;
        let (a, b) = (at_least_1d(index), at_least_1d(x));
        if let Some(k) = (0..a.len()).find(|&k| k != d && a[k] > b[k]) {
            return Err(TorshError::shape(
                "",
                format!(
                    "Size does not match at dimension {k} expected index {} to be no larger than self {} apart from dimension {d}",
                    index.shape(),
                    x.shape()
                ),
            ));
        }
    }
    Ok(Plan::one(x.dtype(), index.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let &attrs::Gather { dim, sparse_grad, .. } = c.attrs()?;
    if sparse_grad {
        let (index, sizes) = (c.y()?, Dims::from_slice(c.input_shape(0)));
        let args = [Arg::T(c.g()), Arg::T(&index)];
        let attrs = attrs::GatherBackward { dim, sizes };
        return Ok(one(0, crate::sparse::call1("_gather_sparse_backward", &args, &attrs)?));
    }
    let zeros = c.zeros(0)?;
    Ok(one(0, in_place(&SCATTER_ADD, &zeros, &[Arg::T(&c.y()?), Arg::T(c.g())], c.attributes())?))
})
.samples(|s| {
    let index = s.ints(&[2, 2], 0, 3)?;
    Ok(vec![
        sample![s.real(&[3, 2])?, 0, index.clone()],
        sample![s.real(&[2, 3])?, -1, index],
    ])
});

/// `gather` whose operands broadcast outside of the dimension.
#[torsh_tensor::by_name(Tensor::take_along_dim)]
pub static TAKE_ALONG_DIM: OpRecord = OpRecord::new(
    "take_along_dim",
    "The elements at the indices along a dimension, broadcast in the others; without one, of the flattened tensor.",
    "(Tensor input, Tensor indices, int? dim=None)",
)
.samples(|s| {
    let index = s.ints(&[1, 2], -3, 3)?;
    Ok(vec![
        sample![s.real(&[2, 3])?, index.clone(), 1],
        sample![s.real(&[2, 3])?, index],
    ])
});

/// Checks the operands of a scatter along dimension `d`: 0 the target, 1 the index, 2 the source
/// where there is one.
fn plan(c: &PlanCx<'_>, d: usize) -> Result<Plan> {
    let (x, index) = (c.tensor(0)?, c.tensor(1)?);
    index_dtype("scatter", index)?;
    let source = c.opt_tensor(2);
    if let Some(s) = source
        && s.dtype() != x.dtype()
    {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected self.dtype to be equal to src.dtype, got {} and {}",
                x.dtype(),
                s.dtype()
            ),
        ));
    }
    if index.numel() != 0 {
        same_rank(index, x, "self")?;
        let (a, b) = (at_least_1d(index), at_least_1d(x));
        let mut fits = (0..a.len()).all(|k| k == d || a[k] <= b[k]);
        let mut and = String::new();
        if let Some(s) = source {
            same_rank(index, s, "src")?;
            fits &= a.iter().zip(at_least_1d(s)).all(|(i, n)| i <= n);
            and = format!(" and to be no larger size than src {}", s.shape());
        }
        if !fits {
            return Err(TorshError::shape(
                "",
                format!(
                    "Expected index {} to be no larger than self {} apart from dimension {d}{and}",
                    index.shape(),
                    x.shape()
                ),
            ));
        }
    }
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
}

/// Gradients of the elements that were read, with zeros where the source is larger than the index.
fn of_source(c: &BackwardCx<'_>, index: &Tensor, from: &attrs::Gather) -> Result<Tensor> {
    let g = call1(&GATHER, &[Arg::T(c.g()), Arg::T(index)], from)?;
    pad(g, c.input_shape(2))
}

/// The first elements along each dimension, as many as the index has.
fn window(source: &Tensor, index: &[usize]) -> Result<Tensor> {
    let mut part = source.clone();
    for (d, &n) in index.iter().enumerate().take(source.ndim()) {
        if part.dims()[d] != n {
            part = part.narrow(d, 0, n)?;
        }
    }
    Ok(part)
}

/// The gradient of a source of this shape, of which the index read the first elements alone; no others have one.
fn pad(g: Tensor, shape: &Shape) -> Result<Tensor> {
    if g.shape() == shape {
        return Ok(g);
    }
    let zeros = Tensor::zeros(shape, g.dtype(), g.device())?;
    if g.numel() > 0 {
        let part = window(&zeros, at_least_1d(&g))?;
        part.copy_(&g.reshape_if(part.shape())?)?;
    }
    Ok(zeros)
}

/// Writes along a dimension, an index per element: operand 2, or else the number of the
/// attributes.
#[torsh_tensor::by_name(Tensor::scatter)]
pub static SCATTER: OpRecord = OpRecord::new(
    "scatter.src",
    "The tensor with the source's elements at the indices along a dimension.",
    "(Tensor input, int dim, Tensor index, Tensor src)",
)
.overload()
.kernel(Kernel::Scatter, |c| {
    plan(c, c.attrs::<attrs::Scatter>()?.dim)
})
.grads(2, 0, |c| {
    let (index, dim) = (c.y()?, c.attrs::<attrs::Scatter>()?.dim);
    let first = if c.needs(0) {
        Some(c.g().scatter(dim, &index, 0)?)
    } else {
        None
    };
    let source = if c.needs(2) {
        let from = attrs::Gather {
            dim,
            negative: false,
            sparse_grad: false,
        };
        Some(of_source(c, &index, &from)?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([first, None, source]))
})
.samples(|s| {
    let index = Tensor::from_data(&[2i64, 0, 1, 0], [2, 2])?;
    Ok(vec![
        sample![s.real(&[2, 3])?, 1, index.clone(), s.real(&[2, 2])?],
        sample![
            s.real(&[2, 3])?,
            1,
            index.narrow(0, 0, 1)?,
            s.real(&[2, 3])?
        ],
    ])
});

/// [`SCATTER`] of one number.
#[torsh_tensor::by_name(Tensor::scatter)]
pub static SCATTER_VALUE: OpRecord = OpRecord::new(
    "scatter.value",
    "The tensor with one number at the indices along a dimension.",
    "(Tensor input, int dim, Tensor index, Scalar value)",
)
.overload()
.samples(|s| {
    let index = Tensor::from_data(&[2i64, 0], [2, 1])?;
    Ok(vec![sample![s.real(&[2, 3])?, 1, index, 1.5]])
});

/// `scatter` with `reduce`; PyTorch has no derivative of it either.
#[torsh_tensor::by_name(Tensor::scatter_with)]
pub static SCATTER_REDUCING: OpRecord = OpRecord::new(
    "scatter.reduce",
    "Adds or multiplies the source's elements (or one number) into the indices along a dimension.",
    "(Tensor input, int dim, Tensor index, Operand src, *, str reduce)",
)
.overload()
.kernel(Kernel::Scatter, |c| {
    plan(c, c.attrs::<attrs::Scatter>()?.dim)
})
.backward(Backward::Missing);

#[torsh_tensor::by_name(Tensor::scatter_add)]
pub static SCATTER_ADD: OpRecord = OpRecord::new(
    "scatter_add",
    "Adds the source's elements to those at the indices along a dimension; repeated ones add up.",
    "(Tensor input, int dim, Tensor index, Tensor src)",
)
.kernel(Kernel::ScatterAdd, |c| {
    plan(c, c.attrs::<attrs::Gather>()?.dim)
})
.grads(2, 0, |c| {
    let source = if c.needs(2) {
        Some(of_source(c, &c.y()?, c.attrs()?)?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([
        c.needs(0).then(|| c.g().clone()),
        None,
        source,
    ]))
})
.samples(|s| {
    let index = s.ints(&[2, 2], 0, 3)?;
    Ok(vec![sample![s.real(&[2, 3])?, 1, index, s.real(&[2, 3])?]])
});

options! {
    /// PyTorch's keyword argument of `scatter_reduce`.
    ///
    /// ```
    /// use torsh_tensor::ScatterReduceOptions;
    /// let options = ScatterReduceOptions::new();
    /// assert!(options.include_self);
    /// assert!(!options.include_self(false).include_self);
    /// ```
    #[derive(Copy)]
    ScatterReduceOptions {
        /// Whether the target's own elements take part.
        include_self: bool = true;
    }
}

#[torsh_tensor::by_name(Tensor::scatter_reduce_with(.., ScatterReduceOptions))]
pub static SCATTER_REDUCE: OpRecord = OpRecord::new(
    "scatter_reduce",
    "Reduces the source's elements into those at the indices along a dimension: sum, prod, mean, amax or amin.",
    "(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)",
)
.kernel(Kernel::ScatterReduce, |c| plan(c, c.attrs::<attrs::ScatterReduce>()?.dim))
.grads(7, 1, scatter_reduce_backward)
.samples(|s| {
    let mut all = Vec::new();
    for reduce in ["sum", "prod", "mean", "amax", "amin"] {
        for include in [true, false] {
            let index = s.ints(&[2, 4], 0, 3)?;
            let (x, src) = (s.distinct(&[2, 3])?, s.distinct(&[2, 4])?.add(0.03)?);
            let call = [x.into(), Value::Int(1), index.into(), src.into(), reduce.into()];
            all.push(Sample::new(call).kw("include_self", include));
        }
    }
    Ok(all)
});

/// A gradient that must not be differentiated again.
static ONCE: OpRecord = OpRecord::new(
    "_scatter_reduce_of_zeros",
    "The gradient of a source of which several zeros are multiplied into one element.",
    "(Tensor input)",
)
.internal()
.view(|_, _| Ok(()))
.grads(0, 0, |_| {
    Err(TorshError::autograd(
        "scatter_reduce",
        "Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self",
    )
    .with_hint("multiply with log and exp, or with prod along a dimension"))
});

/// PyTorch's `scatter_reduce_backward`. Other than there, the index may be smaller than the source, and an element that
/// takes no part (`include_self` of false) takes no share of a tie either.
fn scatter_reduce_backward(c: &BackwardCx<'_>) -> Result<Grads> {
    let (index, g) = (c.y()?, c.g());
    if index.numel() == 0 {
        let source = c.needs(2).then(|| c.zeros(2)).transpose()?;
        return Ok(SmallVec::from_iter([
            c.needs(0).then(|| g.clone()),
            None,
            source,
        ]));
    }
    let &attrs::ScatterReduce {
        dim,
        reduce,
        include_self,
    } = c.attrs()?;
    let product = |x: &Tensor, src: &Tensor| {
        let a = attrs::ScatterReduce {
            dim,
            reduce: ScatterReduction::Prod,
            include_self,
        };
        call1(
            &SCATTER_REDUCE,
            &[Arg::T(x), Arg::T(&index), Arg::T(src)],
            &a,
        )
    };
    // What the index reads of the source, in its shape.
    let source_part = || window(&c.z()?, at_least_1d(&index))?.reshape_if(index.shape());
    let gather = |t: &Tensor| t.gather(dim, &index);
    let ones = |shape: &Shape| Tensor::ones(shape, g.dtype(), g.device());
    let counted = |start: Tensor| start.scatter_add(dim, &index, &ones(index.shape())?);
    let (mut first, mut source);
    match reduce {
        ScatterReduction::Sum => {
            first = c.needs(0).then(|| g.clone());
            source = Some(gather(g)?);
        }
        ScatterReduction::Prod => {
            let (x, src, result) = (c.x()?, source_part()?, c.out()?);
            let masked = x.masked_fill(&x.eq(0)?, 1)?;
            let rest = product(&masked, &src)?;
            first = Some(g.mul(&rest)?.div(&masked)?);
            let zero = src.eq(0)?;
            let none = Tensor::zeros(x.shape(), x.dtype(), x.device())?;
            let zeros = gather(&none.scatter_add(dim, &index, &zero.to_dtype(x.dtype())?)?)?;
            let single = zero.logical_and(&zeros.eq(1)?)?;
            // Where one zero alone makes the product 0, the product of the others.
            let others = product(&x, &src.masked_fill(&single, 1)?)?;
            let usual = gather(&g.mul(&result)?)?.div(&src.masked_fill(&zero, 1)?)?;
            let mut of_src = Tensor::where_(&single, gather(&g.mul(&others)?)?, &usual)?;
            let several = zeros.gt(1)?;
            if crate::is_grad_enabled()
                && several.device().has_data()
                && several.any()?.item::<bool>()?
            {
                of_src = call1(&ONCE, &[Arg::T(&of_src)], NONE)?;
            }
            source = Some(of_src);
        }
        ScatterReduction::Mean => {
            let start = if include_self {
                ones(g.shape())?
            } else {
                Tensor::zeros(g.shape(), g.dtype(), g.device())?
            };
            let counts = counted(start)?;
            let counts = counts.masked_fill(&counts.eq(0)?, 1)?;
            first = Some(g.div(&counts)?);
            source = Some(gather(g)?.div(&gather(&counts)?)?);
        }
        ScatterReduction::Amax | ScatterReduction::Amin => {
            let (x, src, result) = (c.x()?, source_part()?, c.out()?);
            let mut own = x.eq(&result)?.to_dtype(g.dtype())?;
            if !include_self {
                own = own.scatter(dim, &index, 0)?;
            }
            let theirs = src.eq(&gather(&result)?)?.to_dtype(g.dtype())?;
            let shares = g.div(&own.scatter_add(dim, &index, &theirs)?)?;
            first = Some(own.mul(&shares)?);
            source = Some(theirs.mul(&gather(&shares)?)?);
        }
    }
    if !include_self && let Some(f) = first {
        first = Some(f.scatter(dim, &index, 0)?);
    }
    if let Some(s) = source {
        source = Some(pad(s, c.input_shape(2))?);
    }
    Ok(SmallVec::from_iter([
        first.filter(|_| c.needs(0)),
        None,
        source.filter(|_| c.needs(2)),
    ]))
}

fn reduction(name: &str) -> Result<ScatterReduction> {
    ScatterReduction::parse(name).ok_or_else(|| {
        TorshError::invalid(
            "scatter_reduce",
            format!("reduce argument must be either sum, prod, mean, amax or amin, got {name}"),
        )
    })
}
