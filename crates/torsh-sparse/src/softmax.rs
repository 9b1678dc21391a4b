//! Softmax over the stored elements: those that are not stored count as minus infinity.

use std::sync::Arc;

use torsh_backend_cpu::sparse as kernels;
use torsh_core::attrs::{NONE, Softmax};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::{OpRecord, Plan, PlanCx, Sample, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{
    Grads, IndexReduceOptions, IntoDim, Result, SoftmaxOptions, Tensor, TorshError, UniqueOptions,
    Value, no_grad,
};

use crate::grid::{self, is_sparse, pattern, settled};
use crate::help::{by_dtype, one, product, within};
use crate::invariants::verified;
use crate::{attrs, convert, coords};

/// What softmax does with sparse operands, under the names of `torch.sparse`. The softmax of a dense tensor, in which elements
/// that are 0 take part, has no rule: its result is dense.
pub static SOFTMAX: &[SparseRule] = &[
    SparseRule {
        op: "sparse.softmax",
        call: |c| rule(c, Kind::Softmax),
    },
    SparseRule {
        op: "sparse.log_softmax",
        call: |c| rule(c, Kind::LogSoftmax),
    },
];

/// The ops of this file.
pub static RECORDS: &[&OpRecord] = &[
    &SOFTMAX_RECORD,
    &LOG_SOFTMAX_RECORD,
    &RUN_SOFTMAX,
    &RUN_TOTALS,
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Softmax,
    LogSoftmax,
}

fn samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let x = convert::to_layout(&s.real(&[2, 3])?, TensorLayout::SparseCoo, None, None)?;
    let y = convert::to_layout(&s.real(&[2, 2, 2])?, TensorLayout::SparseCoo, None, Some(1))?;
    Ok(vec![sample![&x, 1], sample![&x, 0], sample![&y, -1]])
}

static SOFTMAX_RECORD: OpRecord = OpRecord::new(
    "sparse.softmax",
    "Exponentials over their sum along a dimension, of the stored elements of a sparse tensor.",
    "(Tensor input, int dim, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let options = SoftmaxOptions::new().dtype(b.dtype(2));
    softmax_with(b.tensor(0)?, b.int(1), options).map(Value::Tensor)
})
.samples(samples);

static LOG_SOFTMAX_RECORD: OpRecord = OpRecord::new(
    "sparse.log_softmax",
    "The logarithm of softmax along a dimension, of the stored elements of a sparse tensor.",
    "(Tensor input, int dim, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let options = SoftmaxOptions::new().dtype(b.dtype(2));
    log_softmax_with(b.tensor(0)?, b.int(1), options).map(Value::Tensor)
})
.samples(samples);

fn rule(c: &SparseCall<'_>, kind: Kind) -> Result<Outputs> {
    let x = c.tensor(0)?;
    of_sparse(x, c.attrs::<Softmax>()?.dim, kind).map(one)
}

/// The elements along one dimension that belong together.
struct Group {
    /// The number of each stored element's group.
    of: Tensor,
    /// How many groups there are.
    count: usize,
}

/// The same for the kernels of the CPU: runs of elements that belong together.
struct Runs {
    /// Where the elements of the runs are among the stored ones, and the other way round: int64 `[n]`; nothing
    /// where they are in order.
    order: Option<[Tensor; 2]>,
    /// Where runs begin, and the number of elements: int64 `[runs + 1]`.
    starts: Tensor,
}

/// What `make` makes of a pattern for a dimension, made once: it is kept with a handle of the indices for each dimension.
fn by_dim<T: Send + Sync + 'static>(
    p: &Pattern,
    dim: usize,
    make: fn(&Pattern, usize) -> Result<T>,
) -> Result<Arc<T>> {
    struct Handles(Vec<Pattern>);
    let all = p.cached(|| {
        let handle = |_| Pattern::coo(p.shape().dims(), p.indices(), p.is_coalesced());
        let handles = (0..p.sparse_dim()).map(handle).collect::<Result<Vec<_>>>();
        handles.map(Handles)
    })?;
    all.0[dim].cached(|| make(p, dim))
}

/// The runs of a coalesced pattern on the CPU.
fn runs(p: &Pattern, dim: usize) -> Result<Runs> {
    verified(p)?;
    let list = coords::local(p.indices())?;
    let last = p.sparse_dim() - 1;
    let of = |d: usize| list.narrow(0, d, 1);
    let (mut rows, mut sizes) = (vec![list.narrow(0, 0, 0)?], Vec::new());
    for d in (0..=last).filter(|&d| d != dim) {
        rows.push(of(d)?);
        sizes.push(p.shape()[d]);
    }
    let sorted = coords::sorted(&Tensor::cat(&rows, 0)?, &sizes)?;
    let order = match dim == last {
        true => None,
        false => {
            let n = sorted.order.numel();
            let places = grid::range(n, &list)?;
            let back = places.index_copy(0, &sorted.order, &places)?;
            Some([sorted.order, back])
        }
    };
    Ok(Runs {
        order,
        starts: sorted.starts,
    })
}

/// Elements whose indices are equal but for those of one dimension.
fn grouped(p: &Pattern, dim: usize) -> Result<Group> {
    let indices = p.indices();
    let mut rows = Vec::new();
    let mut sizes = Vec::new();
    for d in (0..p.sparse_dim()).filter(|&d| d != dim) {
        rows.push(indices.select(0, d)?);
        sizes.push(p.shape()[d]);
    }
    let n = p.nnz();
    // Which elements belong together is not known without the values of their indices, nor needed.
    if rows.is_empty() || !indices.device().has_data() {
        return Ok(Group {
            of: grid::zeros(&[n], indices)?,
            count: 1,
        });
    }
    let keys = grid::keys(&[&Tensor::stack(&rows, 0)?], &sizes)?;
    let [keys] = &keys[..] else {
        unreachable!("one list gives one list");
    };
    // Numbers of lines serve as they are where there are not many more than elements.
    let lines = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    if let Some(count) = lines.filter(|&l| l <= 2 * n + 64) {
        return Ok(Group {
            of: keys.clone(),
            count,
        });
    }
    let distinct = keys.unique_with(UniqueOptions::default().return_inverse(true))?;
    let Some(of) = distinct.inverse else {
        unreachable!("the places were asked for");
    };
    Ok(Group {
        of,
        count: distinct.values.numel(),
    })
}

fn of_sparse(x: &Tensor, dim: usize, kind: Kind) -> Result<Tensor> {
    if !matches!(
        x.dtype(),
        DType::F32 | DType::F64 | DType::F16 | DType::BF16
    ) {
        return Err(TorshError::dtype(
            "",
            format!(
                "softmax needs a real floating-point tensor, got {}",
                x.describe()
            ),
        )
        .with_hint("name a dtype: with_(.., SoftmaxOptions::new().dtype(DType::F32))"));
    }
    let p = pattern(x)?;
    if p.layout() != TensorLayout::SparseCoo {
        return of_compressed(x, &p, dim, kind);
    }
    let x = settled(x)?;
    let p = pattern(&x)?;
    let v = sparse::values(&x)?;
    if let Some(d) = dim.checked_sub(p.sparse_dim()) {
        let v = match kind {
            Kind::Softmax => v.softmax(d + 1)?,
            Kind::LogSoftmax => v.log_softmax(d + 1)?,
        };
        return sparse::from_values(&p, &v);
    }
    let v = match has_kernel(&v) {
        true => in_runs(&v, &*by_dim(&p, dim, runs)?, kind)?,
        false => in_groups(&v, &*by_dim(&p, dim, grouped)?, kind)?,
    };
    sparse::from_values(&p, &v)
}

/// Whether softmax of these values has a kernel of its own.
fn has_kernel(v: &Tensor) -> bool {
    v.device() == Device::Cpu && matches!(v.dtype(), DType::F32 | DType::F64)
}

/// Softmax of runs of rows of a tensor.
fn in_runs(v: &Tensor, runs: &Runs, kind: Kind) -> Result<Tensor> {
    let v = match &runs.order {
        Some([order, _]) => v.index_select(0, order)?,
        None => v.clone(),
    };
    let flat = v.reshape([v.dims()[0], product(&v.dims()[1..])?])?;
    let attrs = attrs::SparseSoftmax {
        log: kind == Kind::LogSoftmax,
    };
    let args = [Arg::T(&flat.contiguous()?), Arg::T(&runs.starts)];
    let out = RUN_SOFTMAX.call1(&args, &attrs)?.reshape(v.shape())?;
    match &runs.order {
        Some([_, back]) => out.index_select(0, back),
        None => Ok(out),
    }
}

/// The plan of an op of values in runs, whose results are as the values.
fn as_values(c: &PlanCx<'_>) -> Result<Plan> {
    let values = c.tensor(0)?;
    match (values.ndim(), values.dtype()) {
        (2, dtype @ (DType::F32 | DType::F64)) => {
            Ok(Plan::one(dtype, values.shape().clone(), dtype))
        }
        _ => Err(TorshError::invalid(
            "",
            format!(
                "expected a matrix of float32 or float64, got {}",
                values.describe()
            ),
        )),
    }
}

static RUN_SOFTMAX: OpRecord = OpRecord::new(
    "_sparse_run_softmax",
    "Softmax, or its logarithm, of each run of rows.",
    "(Tensor values, Tensor starts, *, bool log)",
)
.internal()
.with_key(&SOFTMAX_KEY, as_values)
.grads(0b10, 1, |c| {
    let (starts, y) = (c.y()?, c.output(0)?);
    let g = match c.attrs::<attrs::SparseSoftmax>()?.log {
        true => c.g().sub(&y.exp()?.mul(&totals(c.g(), &starts)?)?)?,
        false => {
            let g = c.g().mul(&y)?;
            g.sub(&y.mul(&totals(&g, &starts)?)?)?
        }
    };
    Ok(Grads::from_iter([Some(g), None]))
});

/// The sum of each run of rows, at each of them. It is its own transpose.
static RUN_TOTALS: OpRecord = OpRecord::new(
    "_sparse_run_totals",
    "The sum of each run of rows, at each of them.",
    "(Tensor values, Tensor starts)",
)
.internal()
.with_key(&TOTALS_KEY, as_values)
.grads(0b10, 0, |c| {
    Ok(Grads::from_iter([Some(totals(c.g(), &c.y()?)?), None]))
});

fn totals(values: &Tensor, starts: &Tensor) -> Result<Tensor> {
    RUN_TOTALS.call1(&[Arg::T(&values.contiguous()?), Arg::T(starts)], NONE)
}

torsh_core::kernel_keys! {
    SOFTMAX_KEY "SparseRunSoftmax" |c| by_dtype!(c, softmax_host, float);
    TOTALS_KEY "SparseRunTotals" |c| by_dtype!(c, totals_host, float);
}

fn softmax_host<T: kernels::Softmax>(c: &mut HostCall<'_>) -> Result<()> {
    let log = c.attrs::<attrs::SparseSoftmax>()?.log;
    let (values, starts) = (c.input::<T>(0)?, c.input::<i64>(1)?);
    let width = c.output_shape(0)?.last().copied().unwrap_or(0);
    kernels::run_softmax(&values, width, &starts, log, c.output::<T>(0)?)
}

fn totals_host<T: kernels::Softmax>(c: &mut HostCall<'_>) -> Result<()> {
    let (values, starts) = (c.input::<T>(0)?, c.input::<i64>(1)?);
    let width = c.output_shape(0)?.last().copied().unwrap_or(0);
    kernels::run_totals(&values, width, &starts, c.output::<T>(0)?)
}

/// Softmax of the rows of a tensor that have the same number.
fn in_groups(v: &Tensor, groups: &Group, kind: Kind) -> Result<Tensor> {
    if v.numel() == 0 {
        return v.copy();
    }
    let of = &groups.of;
    let mut dims = v.dims().to_vec();
    dims[0] = groups.count;
    let none = Tensor::zeros(&dims[..], v.dtype(), v.device())?;
    // The largest of each group is taken off, which changes nothing but the size of the numbers.
    let shifted = {
        let largest = no_grad(|| {
            let over = IndexReduceOptions::new().include_self(false);
            none.index_reduce_with(0, of, &v.detach(), "amax", over)?
                .index_select(0, of)
        })?;
        v.sub(&largest)?
    };
    let e = shifted.exp()?;
    let sum = none.index_add(0, of, &e)?.index_select(0, of)?;
    match kind {
        Kind::Softmax => e.div(&sum),
        Kind::LogSoftmax => shifted.sub(&sum.log()?),
    }
}

/// Softmax of a compressed tensor, in its own pattern.
fn of_compressed(x: &Tensor, p: &Pattern, dim: usize, kind: Kind) -> Result<Tensor> {
    let start = p.batch_dim() + 2;
    let blocks = if p.block().is_some() { 2 } else { 0 };
    let v = sparse::values(x)?;
    if dim >= start {
        let d = dim - 1 + blocks;
        let v = match kind {
            Kind::Softmax => v.softmax(d)?,
            Kind::LogSoftmax => v.log_softmax(d)?,
        };
        return sparse::from_values(p, &v);
    }
    // A line is a run.
    let along = if p.layout().by_rows() { 1 } else { 0 };
    let matrix = p.batch_dim() == 0 && p.block().is_none();
    if let Some(compressed) = p.compressed_indices()
        && matrix
        && dim == along
        && has_kernel(&v)
    {
        let runs = Runs {
            order: None,
            starts: coords::local(compressed)?,
        };
        return sparse::from_values(p, &in_runs(&v, &runs, kind)?);
    }
    let coo = settled(&convert::to_coo(x)?)?;
    let soft = of_sparse(&coo, dim, kind)?;
    let v = convert::at_pattern(&soft, p)?;
    sparse::from_values(p, &v)
}

fn run(
    op: &'static str,
    x: &Tensor,
    dim: i64,
    options: SoftmaxOptions,
    kind: Kind,
) -> Result<Tensor> {
    within(op, &[x], || {
        if !is_sparse(x) {
            return Err(TorshError::invalid(
                "",
                format!("expected a sparse tensor, got {}", x.describe()),
            )
            .with_hint("softmax() of a strided one is a method"));
        }
        let dim = x.shape().dim(dim)?;
        let x = match options.dtype {
            Some(dtype) => x.to_dtype(dtype)?,
            None => x.clone(),
        };
        of_sparse(&x, dim, kind)
    })
}

/// Exponentials of the stored elements over their sum along a dimension (`torch.sparse.softmax`). Elements that are not stored
/// count as minus infinity, so that the result has the pattern of `x`, and so does the gradient.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = tensor![[1.0, 1.0, 0.0], [0.0, 5.0, 0.0]].to_sparse()?;
/// let y = sparse::softmax(&x, 1)?.to_dense()?;
/// assert_eq!(y, tensor![[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A strided tensor, a dtype that is not a real floating-point one, a dimension out of range.
#[torsh_tensor::names_caller]
pub fn softmax(x: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    softmax_with(x, dim, SoftmaxOptions::default())
}

/// [`softmax`] with the dtype that the tensor is converted to first.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{DType, SoftmaxOptions, tensor};
/// let x = tensor![[2, 2]].to_sparse()?;
/// let y = sparse::softmax_with(&x, 1, SoftmaxOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.to_dense()?.to_vec::<f64>()?, [0.5, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`softmax`].
#[torsh_tensor::names_caller]
pub fn softmax_with(x: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    run("sparse.softmax", x, dim.value(), options, Kind::Softmax)
}

/// The logarithm of [`softmax`], without its loss of precision (`torch.sparse.log_softmax`).
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = tensor![[0.0, 7.0], [1.0, 1.0]].to_sparse()?;
/// let y = sparse::log_softmax(&x, 1)?.to_dense()?;
/// assert!(y.allclose(&tensor![[0.0, 0.0], [-0.693147, -0.693147]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`softmax`].
#[torsh_tensor::names_caller]
pub fn log_softmax(x: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    log_softmax_with(x, dim, SoftmaxOptions::default())
}

/// [`log_softmax`] with the dtype that the tensor is converted to first.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{DType, SoftmaxOptions, tensor};
/// let x = tensor![[5.0, 0.0]].to_sparse()?;
/// let y = sparse::log_softmax_with(&x, 1, SoftmaxOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.to_dense()?.to_vec::<f64>()?, [0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`softmax`].
#[torsh_tensor::names_caller]
pub fn log_softmax_with(x: &Tensor, dim: impl IntoDim, options: SoftmaxOptions) -> Result<Tensor> {
    run(
        "sparse.log_softmax",
        x,
        dim.value(),
        options,
        Kind::LogSoftmax,
    )
}
