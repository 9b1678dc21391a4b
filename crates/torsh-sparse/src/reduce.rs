//! Reductions: over all elements to a strided number, over some dimensions to a sparse tensor.

use torsh_core::attrs::{self, Ints};
use torsh_core::{DType, TensorLayout};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{
    Grads, IntoDims, NormOptions, Result, SumOptions, Tensor, TorshError, Value, no_grad,
};

use crate::convert;
use crate::grid::{self, is_sparse, linear, pattern, settled};
use crate::help::{first, no_room, one, within};

/// What reductions do with sparse operands.
pub static REDUCE: &[SparseRule] = &[
    SparseRule {
        op: "sum",
        call: sum_rule,
    },
    SparseRule {
        op: "mean",
        call: mean,
    },
    SparseRule {
        op: "norm",
        call: norm,
    },
    SparseRule {
        op: "any",
        call: any,
    },
    SparseRule {
        op: "count_nonzero",
        call: count_nonzero,
    },
];

/// The ops of this file.
pub static RECORDS: &[&OpRecord] = &[&SUM_OF_ALL, &SUM];

/// The sum of all elements, whose gradient is strided: one number for every element.
static SUM_OF_ALL: OpRecord = OpRecord::new(
    "_sparse_sum",
    "The sum of all elements of a sparse tensor.",
    "(Tensor input)",
)
.internal()
.grads(0, 0, |c| {
    let shape = c.input_shape(0);
    if shape.checked_numel(c.g().dtype().size()).is_err() {
        let instead = "sparse::sum gives it a gradient of its own pattern";
        return Err(no_room(shape, instead));
    }
    Ok(Grads::from_iter([Some(c.g().expand(shape)?)]))
});

static SUM: OpRecord = OpRecord::new(
    "sparse.sum",
    "The sum over dimensions of a sparse tensor (all when none is named); its gradient has the tensor's elements alone.",
    "(Tensor input, int[1]? dim=None, ScalarType? dtype=None)",
)
.by_name(|b| {
    let options = SumOptions {
        dim: b.opt_ints(1).map(Into::into),
        keepdim: false,
        dtype: b.dtype(2),
    };
    sum_with(b.tensor(0)?, options).map(Value::Tensor)
})
.samples(|s| {
    let x = convert::to_layout(&s.real(&[2, 3])?, TensorLayout::SparseCoo, None, None)?;
    Ok(vec![sample![&x], sample![&x, 0], sample![&x, [0, 1]]])
});

/// The dimensions of a call, counted from the start, ascending; all where none is named.
fn wrapped(x: &Tensor, dims: Option<&[i64]>) -> Result<Vec<usize>> {
    let list = match dims {
        None | Some([]) => return Ok((0..x.ndim()).collect()),
        Some(list) => list,
    };
    let mut out = Vec::new();
    for &d in list {
        let d = x.shape().dim(d)?;
        if out.contains(&d) {
            let why = format!("dim {d} appears multiple times in the list of dims");
            return Err(TorshError::invalid("", why));
        }
        out.push(d);
    }
    out.sort_unstable();
    Ok(out)
}

/// The dimensions of a call; a tensor without dimensions has none.
fn counted(x: &Tensor, dims: &Ints) -> Vec<usize> {
    let dims = dims.iter().map(|&d| d as usize);
    dims.filter(|&d| d < x.ndim()).collect()
}

/// The shape with the reduced dimensions as `keepdim` says.
fn left(shape: &[usize], dims: &[usize], keepdim: bool) -> Vec<usize> {
    let each = shape.iter().enumerate();
    each.filter_map(|(d, &n)| match dims.contains(&d) {
        false => Some(n),
        true => keepdim.then_some(1),
    })
    .collect()
}

fn sum_rule(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::Sum>()?;
    let x = c.tensor(0)?;
    let dims = counted(x, &a.dims);
    let whole = x.dtype().is_integer() || x.dtype() == DType::Bool;
    let dtype = a
        .dtype
        .unwrap_or(if whole { DType::I64 } else { x.dtype() });
    if dims.len() < x.ndim() {
        return partial(x, &dims, a.keepdim, dtype).map(one);
    }
    let out = no_grad(|| total(x, dtype))?.reshape(&left(x.dims(), &dims, a.keepdim)[..])?;
    SUM_OF_ALL.recorded(&[Arg::T(x)], attrs::NONE, one(out))
}

/// The sum of all elements, as its values have gradients.
fn total(x: &Tensor, dtype: DType) -> Result<Tensor> {
    sparse::values(x)?.sum_with(SumOptions::new().dtype(dtype))
}

/// The sum over some dimensions, or over all: the gradient has the elements of `x`. What is left without a sparse dimension is
/// strided.
fn partial(x: &Tensor, dims: &[usize], keepdim: bool, dtype: DType) -> Result<Tensor> {
    let p = pattern(x)?;
    if p.layout() == TensorLayout::SparseCoo {
        return of_coo(x, dims, keepdim, dtype);
    }
    let start = p.batch_dim() + 2;
    if dims.iter().all(|&d| d >= start) {
        let blocks = if p.block().is_some() { 2 } else { 0 };
        let over: Vec<i64> = dims.iter().map(|&d| (d - 1 + blocks) as i64).collect();
        let v = summed(&sparse::values(x)?.to_dtype(dtype)?, &over, keepdim)?;
        let (Some(compressed), Some(plain)) = (p.compressed_indices(), p.plain_indices()) else {
            return Err(TorshError::invalid("", "a compressed pattern is needed"));
        };
        let shape = left(x.dims(), dims, keepdim);
        let dense = shape.len() - start;
        let to = Pattern::compressed(p.layout(), &shape, compressed, plain, p.block(), dense)?;
        return sparse::from_values(&to, &v);
    }
    let out = of_coo(&settled(&convert::to_coo(x)?)?, dims, keepdim, dtype)?;
    match keepdim {
        true => grid::back(out, &p),
        false => Ok(out),
    }
}

/// The sum over dimensions of a strided tensor; none are none.
fn summed(v: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    match dims.is_empty() {
        true => Ok(v.clone()),
        false => v.sum_with(
            SumOptions::new()
                .dim(dims)
                .keepdim(keepdim)
                .dtype(v.dtype()),
        ),
    }
}

fn of_coo(x: &Tensor, dims: &[usize], keepdim: bool, dtype: DType) -> Result<Tensor> {
    let k = pattern(x)?.sparse_dim();
    let (lost, dense): (Vec<usize>, Vec<usize>) = dims.iter().partition(|&&d| d < k);
    // Sums over sparse dimensions put duplicates together anyway.
    let x = match lost.is_empty() {
        true => settled(x)?,
        false => linear(x)?,
    };
    let p = pattern(&x)?;
    let over: Vec<i64> = dense.iter().map(|&d| (d - k + 1) as i64).collect();
    let v = sparse::values(&x)?.to_dtype(dtype)?;
    let shape = left(x.dims(), dims, keepdim);
    if lost.len() == k {
        let all: Vec<i64> = [0].into_iter().chain(over).collect();
        return summed(&v, &all, false)?.reshape(&shape[..]);
    }
    let v = summed(&v, &over, keepdim)?;
    if lost.is_empty() {
        return grid::coo(&shape, p.indices(), &v, true);
    }
    let mut rows = Vec::new();
    for d in 0..k {
        match (lost.contains(&d), keepdim) {
            (false, _) => rows.push(p.indices().select(0, d)?),
            (true, true) => rows.push(grid::zeros(&[p.nnz()], p.indices())?),
            (true, false) => {}
        }
    }
    settled(&grid::coo(&shape, &Tensor::stack(&rows, 0)?, &v, false)?)
}

fn mean(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::Reduce>()?;
    let x = c.tensor(0)?;
    if !x.dtype().is_differentiable() {
        return Err(TorshError::dtype(
            "",
            format!(
                "could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
                x.dtype()
            ),
        )
        .with_hint("convert it with to_dtype(DType::F32)"));
    }
    let count = a.dims.iter().fold(1.0, |n, &d| {
        n * x.dims().get(d as usize).map_or(1.0, |&s| s as f64)
    });
    let sum = attrs::Sum {
        dims: a.dims.clone(),
        keepdim: a.keepdim,
        dtype: None,
    };
    let sum = first(sum_rule(&SparseCall {
        op: c.op,
        args: c.args,
        attrs: &sum,
    })?)?;
    sum.div(count).map(one)
}

/// Whether there are elements that are not stored.
fn has_gaps(x: &Tensor) -> Result<bool> {
    let p = pattern(x)?;
    let stored = p.values_shape().numel();
    Ok(x.dims().iter().try_fold(1usize, |n, &d| n.checked_mul(d)) != Some(stored))
}

fn norm(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::Norm>()?;
    let x = c.tensor(0)?;
    if !x.dtype().is_differentiable() {
        let why = format!(
            "expected a floating point or complex tensor as input, got {}",
            x.dtype()
        );
        return Err(TorshError::dtype("", why));
    }
    let (dims, p) = (counted(x, &a.dims), a.p);
    let x = settled(x)?;
    if dims.len() == x.ndim() {
        if p < 0.0 && has_gaps(&x)? {
            return Err(
                c.refuse("a norm of a negative order is that of the elements that are not stored")
            );
        }
        let v = sparse::values(&x)?.norm_with(NormOptions::new().p(p))?;
        return v.reshape(&left(x.dims(), &dims, a.keepdim)[..]).map(one);
    }
    if !(p > 0.0 && p.is_finite()) {
        return Err(c.refuse(&format!(
            "a norm of the order {p} is over all dimensions alone"
        )));
    }
    let v = sparse::values(&x)?.abs()?;
    let v = if p == 2.0 { v.square()? } else { v.pow(p)? };
    let powers = sparse::from_values(&pattern(&x)?, &v)?;
    let sum = partial(&powers, &dims, a.keepdim, v.dtype())?;
    mapped(&sum, |v| {
        // The root has no slope at 0, where the norm's gradient is 0.
        let zero = v.eq(0)?;
        v.masked_fill(&zero, 1)?.pow(1.0 / p)?.masked_fill(&zero, 0)
    })
    .map(one)
}

/// A function of the values of a tensor that may be strided.
fn mapped(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match x.pattern() {
        Some(p) => sparse::from_values(&p, &f(&sparse::values(x)?)?),
        None => f(x),
    }
}

/// How many elements are not 0, over dimensions.
fn counts(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let x = settled(&x.detach())?;
    let ones = mapped(&x, |v| v.ne(0)?.to_dtype(DType::I64))?;
    match dims.len() == x.ndim() {
        true => total(&ones, DType::I64)?.reshape(&left(x.dims(), dims, keepdim)[..]),
        false => partial(&ones, dims, keepdim, DType::I64),
    }
}

fn any(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::Reduce>()?;
    let x = c.tensor(0)?;
    let dtype = match x.dtype() {
        DType::U8 => DType::U8,
        _ => DType::Bool,
    };
    let n = counts(x, &counted(x, &a.dims), a.keepdim)?;
    mapped(&n, |v| v.ne(0)?.to_dtype(dtype)).map(one)
}

fn count_nonzero(c: &SparseCall<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::Reduce>()?;
    counts(c.tensor(0)?, &counted(c.tensor(0)?, &a.dims), a.keepdim).map(one)
}

/// The sum over dimensions of a sparse tensor, `None` for all (`torch.sparse.sum`).
///
/// What is left is sparse while a sparse dimension is left, else strided. The gradient of `x` has its stored elements alone,
/// where that of [`Tensor::sum`] is strided.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = tensor![[1.0, 0.0], [2.0, 3.0]].to_sparse()?.requires_grad_(true);
/// assert_eq!(sparse::sum(&x, 0)?.to_dense()?, tensor![3.0, 3.0]);
/// sparse::sum(&x, None)?.backward()?;
/// assert!(x.grad().is_some_and(|g| g.is_sparse()));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A strided tensor; a dimension that is out of range or named twice.
#[torsh_tensor::names_caller]
pub fn sum(x: &Tensor, dim: impl IntoDims) -> Result<Tensor> {
    sum_with(
        x,
        SumOptions {
            dim: dim.dims(),
            ..SumOptions::default()
        },
    )
}

/// [`sum`] with keyword arguments: the dimensions, whether they stay at size 1, and the dtype to add up in.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{DType, SumOptions, tensor};
/// let x = tensor![[1, 0], [2, 3]].to_sparse()?;
/// let y = sparse::sum_with(&x, SumOptions::new().dim(1).dtype(DType::F64))?;
/// assert_eq!(y.to_dense()?.to_vec::<f64>()?, [1.0, 5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`sum`].
#[torsh_tensor::names_caller]
pub fn sum_with(x: &Tensor, options: SumOptions) -> Result<Tensor> {
    within("sparse.sum", &[x], || {
        if !is_sparse(x) {
            return Err(TorshError::invalid(
                "",
                format!("expected a sparse tensor, got {}", x.describe()),
            )
            .with_hint("sum() adds up a strided one"));
        }
        let named = options.dim.as_deref().filter(|d| !d.is_empty());
        let dims = wrapped(x, named)?;
        let whole = x.dtype().is_integer() || x.dtype() == DType::Bool;
        // Without dimensions integers add up in int64; with them, as in PyTorch, the dtype stays.
        let own = if whole && named.is_none() {
            DType::I64
        } else {
            x.dtype()
        };
        let dtype = options.dtype.unwrap_or(own);
        if dims.len() == x.ndim() {
            let all = total(&linear(x)?, dtype)?;
            return all.reshape(&left(x.dims(), &dims, options.keepdim)[..]);
        }
        partial(x, &dims, options.keepdim, dtype)
    })
}
