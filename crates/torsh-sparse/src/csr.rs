//! Sparse matrices by rows, and their products with dense ones: kernels, and the ops from which all products are made.
//!
//! A matrix of any layout, or the matrices of a batch one behind the other along the diagonal of one, is read by rows or by
//! columns ([`lines`]): where each line begins, the other index of each element, and where its value is. What has to be sorted
//! for that is kept with the pattern, so that a second product and the gradients do not sort again.

use std::sync::Arc;

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Minors, Number, Rows};
use torsh_core::attrs::NONE;
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, PlanCx, Spec};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, SearchsortedOptions, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::convert;
use crate::help::{first, host, index_tensor, one};
use crate::sampled::sampled;

/// Calls a kernel for the dtype of the call and that of the indices, of which operand 1 has some.
macro_rules! numbers {
    ($c:ident, $f:ident) => {{
        use ::half::{bf16, f16};
        use ::num_complex::Complex;
        use ::torsh_core::DType;
        macro_rules! indexed {
            ($t:ty) => {
                match $c.input::<i64>(1) {
                    Ok(_) => $f::<$t, i64>($c),
                    Err(_) => $f::<$t, i32>($c),
                }
            };
        }
        match $c.compute() {
            DType::F32 => indexed!(f32),
            DType::F64 => indexed!(f64),
            DType::BF16 => indexed!(bf16),
            DType::F16 => indexed!(f16),
            DType::C64 => indexed!(Complex<f32>),
            DType::C128 => indexed!(Complex<f64>),
            DType::U8 => indexed!(u8),
            DType::I8 => indexed!(i8),
            DType::I16 => indexed!(i16),
            DType::I32 => indexed!(i32),
            DType::I64 => indexed!(i64),
            _ => Err($c.unsupported()),
        }
    }};
}
pub(crate) use numbers;

torsh_core::kernel_keys! {
    GROUP_KEY "SparseGroup" |c| match c.input::<i64>(1) {
        Ok(_) => group_host::<i64>(c),
        Err(_) => group_host::<i32>(c),
    };
    PRODUCT_KEY "SparseProduct" |c| numbers!(c, product_host);
}

/// A matrix by rows or by columns.
#[derive(Clone)]
pub(crate) struct Lines {
    /// Where each line begins: of one element more than there are lines.
    pub(crate) pointers: Tensor,
    /// The other index of each element.
    pub(crate) indices: Tensor,
    /// Where the value of each element is among the pattern's (int64), where they are not in this order.
    pub(crate) order: Option<Tensor>,
    /// How many lines there are.
    pub(crate) count: usize,
    /// The bound of the other index.
    pub(crate) width: usize,
}

impl Lines {
    /// Pointers, indices and order as operands.
    pub(crate) fn order(&self) -> Arg<'_> {
        Arg::opt(self.order.as_ref())
    }
}

/// The batch dimensions of a shape, and its last two sizes.
///
/// # Errors
/// If it has less than two dimensions.
pub(crate) fn matrix(dims: &[usize]) -> Result<(&[usize], [usize; 2])> {
    match dims {
        [batch @ .., n, m] => Ok((batch, [*n, *m])),
        _ => Err(TorshError::shape(
            "",
            format!(
                "expected a matrix, got a tensor of {} dimensions",
                dims.len()
            ),
        )),
    }
}

struct ByRows(Arc<Lines>);
struct ByColumns(Arc<Lines>);

/// The elements by rows, or by columns.
pub(crate) fn lines(pattern: &Pattern, columns: bool) -> Result<Arc<Lines>> {
    Ok(match columns {
        false => pattern
            .cached(|| make_lines(pattern, false).map(ByRows))?
            .0
            .clone(),
        true => pattern
            .cached(|| make_lines(pattern, true).map(ByColumns))?
            .0
            .clone(),
    })
}

/// Whether the pattern is stored by rows, or by columns, as [`Lines`] are.
fn stored_by(pattern: &Pattern) -> Option<TensorLayout> {
    let plain = pattern.batch_dim() == 0 && pattern.dense_dim() == 0;
    let layout = pattern.layout();
    (plain && layout.is_compressed() && !layout.is_blocked()).then_some(layout)
}

fn make_lines(pattern: &Pattern, columns: bool) -> Result<Arc<Lines>> {
    let (batch, [n, m]) = matrix(pattern.shape().dims())?;
    let count = batch.iter().product::<usize>();
    let (count, width) = match columns {
        false => (count * n, count * m),
        true => (count * m, count * n),
    };
    if let Some(layout) = stored_by(pattern) {
        let (Some(pointers), Some(indices)) =
            (pattern.compressed_indices(), pattern.plain_indices())
        else {
            unreachable!("a compressed pattern has both")
        };
        let by_columns = layout == TensorLayout::SparseCsc;
        if by_columns == columns {
            let (pointers, indices) = (pointers.clone(), indices.clone());
            return Ok(Arc::new(Lines {
                pointers,
                indices,
                order: None,
                count,
                width,
            }));
        }
        let stored = lines(pattern, by_columns)?;
        return grouped(
            &stored.indices,
            &stored.pointers,
            true,
            [count, width],
            false,
        )
        .map(Arc::new);
    }
    let places = elements(pattern)?;
    let (majors, minors) = match columns {
        false => (&places.rows, &places.columns),
        true => (&places.columns, &places.rows),
    };
    // The elements of a coalesced tensor are in the order of rows.
    let sorted = !columns && pattern.layout() == TensorLayout::SparseCoo && pattern.is_coalesced();
    grouped(majors, minors, false, [count, width], sorted).map(Arc::new)
}

fn grouped(
    majors: &Tensor,
    minors: &Tensor,
    pointers: bool,
    [count, width]: [usize; 2],
    sorted: bool,
) -> Result<Lines> {
    let attrs = attrs::SparseGroup {
        groups: count,
        pointers,
    };
    let outs = no_grad(|| GROUP.call(&[Arg::T(majors), Arg::T(minors)], &attrs))?;
    let [pointers, indices, order] = &outs[..] else {
        return Err(TorshError::failed("", "the kernel gave too few results"));
    };
    Ok(Lines {
        pointers: pointers.clone(),
        indices: indices.clone(),
        order: (!sorted).then(|| order.clone()),
        count,
        width,
    })
}

/// The row and the column of each stored element, in the order of the flat values: int64, those of a batch one behind the
/// other.
pub(crate) struct Places {
    pub(crate) rows: Tensor,
    pub(crate) columns: Tensor,
}

/// The places of the elements of a matrix, or of the matrices of a batch along one diagonal.
pub(crate) fn elements(pattern: &Pattern) -> Result<Arc<Places>> {
    pattern.cached(|| {
        let (batch, [n, m]) = matrix(pattern.shape().dims())?;
        let device = pattern.indices().device();
        if pattern.layout() == TensorLayout::SparseCoo
            && pattern.dense_dim() == 0
            && batch.is_empty()
        {
            let row = |d: i64| pattern.indices().select(0, d)?.contiguous();
            return Ok(Places {
                rows: row(0)?,
                columns: row(1)?,
            });
        }
        let count = pattern.values_shape().numel();
        if !device.has_data() {
            let zeros = Tensor::zeros(count, DType::I64, device)?;
            return Ok(Places {
                rows: zeros.clone(),
                columns: zeros,
            });
        }
        let places = host(&convert::places(pattern)?)?;
        let dense: usize = pattern.shape().dims()[pattern.shape().ndim() - pattern.dense_dim()..]
            .iter()
            .product();
        let (mut rows, mut columns) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (n, m) = (n.max(1) as i64, m.max(1) as i64);
        for place in places {
            for inner in 0..dense as i64 {
                let at = place * dense as i64 + inner;
                let row = at / m;
                rows.push(row);
                columns.push(row / n * m + at % m);
            }
        }
        let tensor = |list| index_tensor(list, &[count], DType::I64, device);
        Ok(Places {
            rows: tensor(rows)?,
            columns: tensor(columns)?,
        })
    })
}

/// A tensor of a pattern, without values and history, for nodes that need the pattern.
pub(crate) fn carrier(pattern: &Pattern) -> Result<Tensor> {
    no_grad(|| {
        let zero = Tensor::zeros(1, DType::I8, pattern.indices().device())?;
        let shape = pattern.values_shape();
        let ones = vec![1usize; shape.ndim()];
        sparse::from_values(pattern, &zero.reshape(ones)?.expand(shape)?)
    })
}

/// The pattern of a sparse operand.
pub(crate) fn pattern_of(x: &Tensor) -> Result<Pattern> {
    x.pattern().ok_or_else(|| {
        TorshError::invalid(
            "",
            format!("expected a sparse tensor, got {}", x.describe()),
        )
    })
}

/// The stored values as one vector, recorded.
pub(crate) fn flat_values(x: &Tensor) -> Result<Tensor> {
    sparse::values(x)?.reshape([-1i64])
}

/// The sparse tensor of flat values, recorded.
pub(crate) fn from_flat(pattern: &Pattern, values: &Tensor) -> Result<Tensor> {
    sparse::from_values(pattern, &values.reshape(pattern.values_shape())?)
}

/// A gradient as a strided tensor.
pub(crate) fn strided(g: &Tensor) -> Result<Tensor> {
    convert::to_dense(g, None)
}

/// The conjugate; real tensors as they are.
pub(crate) fn conj(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => x.conj(),
        false => Ok(x.clone()),
    }
}

/// The row of each element, from where rows begin.
pub(crate) fn row_of(pointers: &Tensor, count: usize) -> Result<Tensor> {
    let elements = Tensor::arange(0, count as i64, 1, pointers.dtype(), pointers.device())?;
    let behind = pointers.searchsorted_with(&elements, SearchsortedOptions::new().right(true))?;
    behind.sub(1)
}

fn index_dtype(t: &Tensor) -> Result<DType> {
    match t.dtype() {
        d @ (DType::I32 | DType::I64) => Ok(d),
        d => Err(TorshError::dtype(
            "",
            format!("indices must be int32 or int64, got {d}"),
        )),
    }
}

pub(crate) static GROUP: OpRecord = OpRecord::new(
    "_sparse_group",
    "Stored elements grouped by an index: where groups begin, the other indices, and where the elements were.",
    "(Tensor majors, Tensor minors, *, int groups, bool pointers)",
)
.internal()
.with_key(&GROUP_KEY, |c| {
    let (majors, groups) = (c.tensor(0)?, c.attrs::<attrs::SparseGroup>()?.groups);
    let dtype = index_dtype(majors)?;
    if index_dtype(c.tensor(1)?)? != dtype {
        return Err(TorshError::dtype("", "both indices must be of one dtype"));
    }
    let spec = |n: usize, dtype| Spec::new(Shape::new(&[n]), dtype);
    let n = majors.numel();
    Ok(Plan::many(dtype, [spec(groups + 1, dtype), spec(n, dtype), spec(n, DType::I64)]))
})
.definition(|c| {
    let (majors, minors) = (c.x()?, c.y()?);
    let &attrs::SparseGroup { groups, pointers } = c.attrs()?;
    let (sorted, order) = majors.sort()?;
    let each = Tensor::arange(0, groups as i64 + 1, 1, majors.dtype(), majors.device())?;
    let starts = sorted.contiguous()?.searchsorted(&each)?.to_dtype(majors.dtype())?;
    let minors = match pointers {
        true => row_of(&minors, majors.numel())?.to_dtype(majors.dtype())?,
        false => minors,
    };
    Ok(SmallVec::from_iter([starts, minors.index_select(0, &order)?, order]))
})
.constant();

fn group_host<I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let by_pointers = c.attrs::<attrs::SparseGroup>()?.pointers;
    let (majors, minors) = (c.input::<I>(0)?, c.input::<I>(1)?);
    let minors = match by_pointers {
        true => Minors::Pointers(&minors),
        false => Minors::List(&minors),
    };
    let (pointers, others, order) = (c.output::<I>(0)?, c.output::<I>(1)?, c.output::<i64>(2)?);
    kernels::group(&majors, minors, pointers, others, order)
}

/// Checks the operands of a product, and returns the rows and columns of the result.
fn product_sizes(c: &PlanCx<'_>) -> Result<[usize; 2]> {
    let (values, dense) = (c.tensor(0)?, c.tensor(3)?);
    one_dtype(values, dense)?;
    let &[_, m] = dense.dims() else {
        return Err(TorshError::shape("", "the dense operand must be a matrix"));
    };
    let rows = c.tensor(1)?.numel().checked_sub(1);
    let rows = rows.ok_or_else(|| TorshError::shape("", "there are no row pointers"))?;
    Ok([rows, m])
}

/// Refuses operands of two dtypes, and bools.
pub(crate) fn one_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() != b.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected all operands to have the same dtype, but got {} and {}",
                a.dtype(),
                b.dtype()
            ),
        )
        .with_hint("convert one of them with to_dtype(..)"));
    }
    match a.dtype() {
        DType::Bool => Err(TorshError::dtype("", "not implemented for bool")
            .with_hint("convert the operands to an integer type")),
        dtype => Ok(dtype),
    }
}

/// The kernel under all products: operands are the values, pointers and indices by rows, the dense matrix, and where the
/// value of each element is.
pub(crate) static PRODUCT: OpRecord = OpRecord::new(
    "_sparse_product",
    "The product of a sparse matrix by rows and a dense one.",
    "(Tensor values, Tensor pointers, Tensor indices, Tensor dense, Tensor? order)",
)
.internal()
.with_key(&PRODUCT_KEY, |c| {
    let dtype = c.tensor(0)?.dtype();
    Ok(Plan::one(dtype, Shape::new(&product_sizes(c)?), dtype))
})
.definition(|c| {
    let (values, pointers, indices, dense) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let values = match c.opt_tensor(4) {
        Some(order) => values.index_select(0, order)?,
        None => values,
    };
    let rows = row_of(&pointers, indices.numel())?;
    let terms = dense
        .index_select(0, &indices)?
        .mul(&values.unsqueeze(1)?)?;
    let zeros = Tensor::zeros(
        [pointers.numel() - 1, dense.dims()[1]],
        dense.dtype(),
        dense.device(),
    )?;
    Ok(one(zeros.index_add(0, &rows, &terms)?))
})
.constant();

fn product_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let (values, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let dense = c.input::<T>(3)?;
    let order = c.input::<i64>(4).ok();
    let (width, m) = match c.input_shape(3)? {
        &[width, m] => (width, m),
        _ => return Err(TorshError::shape("", "the dense operand must be a matrix")),
    };
    let a = Rows::new(&pointers, &indices, &values, order.as_deref(), width)?;
    kernels::product(a, &dense, m, c.output::<T>(0)?)
}

/// The product of the matrix of a pattern and a dense matrix, not recorded.
pub(crate) fn plain_product(
    values: &Tensor,
    pattern: &Pattern,
    dense: &Tensor,
    transposed: bool,
) -> Result<Tensor> {
    no_grad(|| {
        let a = lines(pattern, transposed)?;
        // A transposed operand is copied by a kernel that shares the work among threads.
        let (values, dense) = (values.contiguous()?, dense.contiguous()?);
        let args = [
            Arg::T(&values),
            Arg::T(&a.pointers),
            Arg::T(&a.indices),
            Arg::T(&dense),
            a.order(),
        ];
        PRODUCT.call1(&args, NONE)
    })
}

/// The product with the values of a pattern as an operand of its own: gradients flow to them.
pub(crate) static VALUES_PRODUCT: OpRecord = OpRecord::new(
    "_sparse_values_product",
    "The product of the sparse matrix of some values and a dense one.",
    "(Tensor values, Tensor pattern, Tensor dense, *, bool transposed, bool conjugated)",
)
.internal()
.grads(0b111, 0, |c| {
    let transposed = c.attrs::<attrs::SparseProduct>()?.transposed;
    let (values, pattern, dense) = (c.x()?, c.y()?, c.z()?);
    let g = strided(c.g())?;
    let to_values = match c.needs(0) {
        true => Some(match transposed {
            false => sampled(&pattern, &g, &conj(&dense)?)?,
            true => sampled(&pattern, &conj(&dense)?, &g)?,
        }),
        false => None,
    };
    let to_dense = match c.needs(2) {
        true => Some(product(&conj(&values)?, &pattern, &g, !transposed)?),
        false => None,
    };
    Ok(SmallVec::from_iter([to_values, None, to_dense]))
});

/// The product of the sparse matrix of `carrier`'s pattern with the flat `values`, transposed if told to, and a dense matrix.
/// Recorded: the gradient of the values is computed at the stored elements alone.
#[track_caller]
pub(crate) fn product(
    values: &Tensor,
    carrier: &Tensor,
    dense: &Tensor,
    transposed: bool,
) -> Result<Tensor> {
    let out = plain_product(values, &pattern_of(carrier)?, dense, transposed)?;
    let attrs = attrs::SparseProduct {
        transposed,
        conjugated: false,
    };
    let args = [Arg::T(values), Arg::T(carrier), Arg::T(dense)];
    first(VALUES_PRODUCT.recorded(&args, &attrs, one(out))?)
}
