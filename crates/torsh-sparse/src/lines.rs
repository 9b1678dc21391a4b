//! The stored elements or blocks of a matrix by rows or by columns, whatever its layout.
//!
//! What has to be sorted for that is kept with the pattern, so that a second product and the gradients do not sort again.

use std::sync::Arc;

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Minors};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, SearchsortedOptions, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::help::{host, index_tensor, product};
use crate::invariants::verified;
use crate::places;

torsh_core::kernel_keys! {
    GROUP_KEY "SparseGroup" |c| match c.input::<i64>(1) {
        Ok(_) => group_host::<i64>(c),
        Err(_) => group_host::<i32>(c),
    };
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
fn is_stored_by_lines(pattern: &Pattern) -> bool {
    let plain = pattern.batch_dim() == 0 && pattern.dense_dim() == 0;
    let layout = pattern.layout();
    plain && layout.is_compressed() && !layout.is_blocked()
}

fn make_lines(pattern: &Pattern, columns: bool) -> Result<Arc<Lines>> {
    // What is said to be sorted is read without its order.
    verified(pattern)?;
    let (batch, [n, m]) = matrix(pattern.shape().dims())?;
    let entries = product(batch)?;
    let (high, wide) = (product(&[entries, n])?, product(&[entries, m])?);
    let (count, width) = match columns {
        false => (high, wide),
        true => (wide, high),
    };
    if is_stored_by_lines(pattern) {
        return compressed(pattern, columns, [count, width], lines);
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

struct BlocksByRows(Arc<Lines>);
struct BlocksByColumns(Arc<Lines>);

/// The stored blocks of a BSR or BSC matrix by block rows, or by block columns.
pub(crate) fn block_lines(pattern: &Pattern, columns: bool) -> Result<Arc<Lines>> {
    Ok(match columns {
        false => pattern
            .cached(|| make_block_lines(pattern, false).map(BlocksByRows))?
            .0
            .clone(),
        true => pattern
            .cached(|| make_block_lines(pattern, true).map(BlocksByColumns))?
            .0
            .clone(),
    })
}

fn make_block_lines(pattern: &Pattern, columns: bool) -> Result<Arc<Lines>> {
    let (&[n, m], Some([r, c])) = (pattern.shape().dims(), pattern.block()) else {
        return Err(TorshError::invalid("", "expected a matrix of blocks"));
    };
    let sizes = match columns {
        false => [n / r, m / c],
        true => [m / c, n / r],
    };
    compressed(pattern, columns, sizes, block_lines)
}

/// The elements or blocks that a compressed layout stores by lines: as they are, or grouped by the other index.
fn compressed(
    pattern: &Pattern,
    columns: bool,
    [count, width]: [usize; 2],
    stored: fn(&Pattern, bool) -> Result<Arc<Lines>>,
) -> Result<Arc<Lines>> {
    let (Some(pointers), Some(indices)) = (pattern.compressed_indices(), pattern.plain_indices())
    else {
        unreachable!("a compressed pattern has both")
    };
    let by_columns = !pattern.layout().by_rows();
    if by_columns == columns {
        return Ok(Arc::new(Lines {
            pointers: pointers.clone(),
            indices: indices.clone(),
            order: None,
            count,
            width,
        }));
    }
    let stored = stored(pattern, by_columns)?;
    let (majors, pointers) = (&stored.indices, &stored.pointers);
    grouped(majors, pointers, true, [count, width], false).map(Arc::new)
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
        let places = host(&places::places(pattern)?)?;
        let dense =
            product(&pattern.shape().dims()[pattern.shape().ndim() - pattern.dense_dim()..])?;
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
