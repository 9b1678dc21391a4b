//! Conversions between the layouts.

use smallvec::SmallVec;
use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern, SparseRule};
use torsh_tensor::{Bound, Result, Tensor, TorshError, Value, no_grad};

use crate::attrs;
use crate::coalesce::{coalesce, coalesced_pattern, of_stored};
use crate::compress::compressed_of;
use crate::coords::Coords;
use crate::create::coo_pattern;
use crate::help::{added, first, host, index_tensor, named, one, positions, product, sizes};
use crate::methods::{ToDenseOptions, ToSparseOptions, to_dense_of, to_sparse_of};
pub(crate) use crate::places::{at_pattern, mask, places, row_indices};
use crate::places::{dense_sizes, elements, leading, stored, units};

pub(crate) static RECORDS: &[&OpRecord] = &[
    &TO_DENSE,
    &TO_SPARSE,
    &TO_SPARSE_COO,
    &TO_SPARSE_CSR,
    &TO_SPARSE_CSC,
    &TO_SPARSE_BSR,
    &TO_SPARSE_BSC,
];

/// What the core asks for by name.
pub(crate) static CONVERT: &[SparseRule] = &[
    SparseRule {
        op: "coalesce",
        call: |c| coalesce(c.tensor(0)?).map(one),
    },
    SparseRule {
        op: "to_dense",
        call: |c| to_dense(c.tensor(0)?, None).map(one),
    },
    // The stored values of the first operand at the elements of the second one's pattern.
    SparseRule {
        op: "_sparse_values_at",
        call: |c| match c.tensor(1)?.pattern() {
            Some(pattern) => at_pattern(c.tensor(0)?, &pattern).map(one),
            None => Err(c.refuse("the second operand has no pattern")),
        },
    },
    // The gradient of the second operand from that of its stored values.
    SparseRule {
        op: "_sparse_of_stored",
        call: |c| match c.tensor(1)?.pattern() {
            Some(pattern) => of_stored(c.tensor(0)?, &pattern).map(one),
            None => Err(c.refuse("the second operand has no pattern")),
        },
    },
];

/// A pattern of the same elements (or blocks) in another layout, and which of the first one's each is.
pub(crate) struct Other<const LAYOUT: usize> {
    pub(crate) pattern: Pattern,
    /// int64 `[elements]`, counted through the batch; nothing where they are in the same order.
    pub(crate) order: Option<Tensor>,
}

/// The strided tensor of the same elements; itself, where it is strided. Its gradient passes to the stored elements alone,
/// unless `masked_grad` is false: then all elements of the gradient do. Recorded.
pub(crate) fn to_dense(x: &Tensor, masked_grad: Option<bool>) -> Result<Tensor> {
    if x.pattern().is_none() {
        return Ok(x.clone());
    }
    let out = no_grad(|| dense_of(x))?;
    let attrs = attrs::ToDense {
        masked_grad: masked_grad.unwrap_or(true),
    };
    first(TO_DENSE.recorded(&[Arg::T(x)], &attrs, one(out))?)
}

fn dense_of(x: &Tensor) -> Result<Tensor> {
    let Some(pattern) = x.pattern() else {
        return Ok(x.clone());
    };
    let (shape, dtype, device) = (pattern.shape(), x.dtype(), x.device());
    shape.checked_numel(dtype.size())?;
    if !device.has_data() {
        return Tensor::zeros(shape, dtype, device);
    }
    let (places, dense) = (places(&pattern)?, dense_sizes(&pattern));
    let values = sparse::values(x)?.reshape(sizes(&[stored(&pattern)], dense))?;
    let rows = sizes(&[product(leading(&pattern))?], dense);
    let zeros = Tensor::zeros(rows, dtype, device)?;
    let out = match pattern.is_coalesced() {
        true => zeros.index_copy_(0, &places, &values)?,
        false => added(&zeros, &places, &values)?,
    };
    out.reshape(shape)
}

/// The COO tensor of the same elements, recorded; that of a strided one stores what is not 0.
pub(crate) fn to_coo(x: &Tensor) -> Result<Tensor> {
    to_layout(x, TensorLayout::SparseCoo, None, None)
}

/// The tensor of the same elements in another layout, recorded. A strided tensor's elements that are not 0 are stored; a
/// sparse one's stored elements stay stored. `block` is the size of the blocks of BSR and BSC; `dense_dim` is that of a
/// strided tensor's pattern, and else what it is anyway.
pub(crate) fn to_layout(
    x: &Tensor,
    layout: TensorLayout,
    block: Option<[usize; 2]>,
    dense_dim: Option<usize>,
) -> Result<Tensor> {
    if layout.is_strided() {
        return to_dense(x, None);
    }
    let Some(pattern) = x.pattern() else {
        let dense_dim = dense_dim.unwrap_or(0);
        let out = no_grad(|| match layout {
            TensorLayout::SparseCoo => coo_of_strided(&x.detach(), dense_dim),
            _ => compressed_of_strided(&x.detach(), layout, block, dense_dim),
        })?;
        return converted(x, None, out);
    };
    if let Some(dense) = dense_dim
        && dense != pattern.dense_dim()
    {
        return Err(TorshError::invalid(
            "",
            format!(
                "to_sparse: conversion from {} to {} with dense_dim argument given is not supported: it is {}",
                named(pattern.layout()),
                named(layout),
                pattern.dense_dim()
            ),
        ));
    }
    if layout == pattern.layout() && (block.is_none() || block == pattern.block()) {
        return Ok(x.clone());
    }
    if layout.is_blocked() && block.is_none() && !pattern.layout().is_blocked() {
        return Err(no_blocksize(pattern.layout(), layout));
    }
    let block = match layout.is_blocked() {
        true => block.or(pattern.block()),
        false => None,
    };
    let out = no_grad(|| match layout {
        TensorLayout::SparseCoo => coo_of_compressed(x, &pattern),
        _ => compressed_of_sparse(&x.detach(), layout, block),
    })?;
    converted(x, Some(&pattern), out)
}

/// Ties the result of a conversion to its operand.
fn converted(x: &Tensor, pattern: Option<&Pattern>, out: Tensor) -> Result<Tensor> {
    let attrs = attrs::ToSparse {
        layout: x.layout().into(),
        blocksize: pattern
            .and_then(Pattern::block)
            .map_or_else(Default::default, |b| b.into_iter().collect()),
        dense_dim: pattern.map_or(0, Pattern::dense_dim),
    };
    let record = match out.layout() {
        TensorLayout::SparseCsr => &TO_SPARSE_CSR,
        TensorLayout::SparseCsc => &TO_SPARSE_CSC,
        TensorLayout::SparseBsr => &TO_SPARSE_BSR,
        TensorLayout::SparseBsc => &TO_SPARSE_BSC,
        _ => &TO_SPARSE,
    };
    first(record.recorded(&[Arg::T(x)], &attrs, one(out))?)
}

fn no_blocksize(from: TensorLayout, to: TensorLayout) -> TorshError {
    TorshError::invalid(
        "",
        format!(
            "dense_to_sparse: conversion from {} to {} without blocksize argument given is not supported",
            named(from),
            named(to)
        ),
    )
    .with_hint("give the rows and columns of a block")
}

/// Which elements a strided tensor stores is in its data.
fn needs_data(device: Device) -> Result<()> {
    match device.has_data() {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!("which elements are not 0 cannot be known of a tensor on {device}"),
        )),
    }
}

/// The positions of the rows that are not all 0 in `[n, ..]`.
fn positions_of_stored(flat: &Tensor) -> Result<Tensor> {
    let n = flat.dims()[0];
    let mut stored = flat.ne(0)?;
    if flat.ndim() > 1 {
        let each = product(&flat.dims()[1..])?;
        stored = stored.reshape([n, each])?.any_dim(1, false)?;
    }
    let at = stored.nonzero()?;
    let count = at.numel();
    at.reshape([count])
}

fn coo_of_strided(x: &Tensor, dense_dim: usize) -> Result<Tensor> {
    needs_data(x.device())?;
    let (shape, device) = (x.dims(), x.device());
    let Some(sparse_dim) = shape.len().checked_sub(dense_dim) else {
        return Err(TorshError::invalid(
            "",
            format!(
                "dense_to_sparse: dense_dim argument must be in [0,{}] range, but {dense_dim} is given",
                shape.len()
            ),
        ));
    };
    let flat = x.reshape(sizes(
        &[product(&shape[..sparse_dim])?],
        &shape[sparse_dim..],
    ))?;
    let at = positions_of_stored(&flat)?;
    let values = flat.index_select(0, &at)?;
    let pattern = coo_pattern(shape, sparse_dim, &host(&at)?, device)?;
    sparse::from_values(&pattern, &values)
}

fn compressed_of_strided(
    x: &Tensor,
    layout: TensorLayout,
    block: Option<[usize; 2]>,
    dense_dim: usize,
) -> Result<Tensor> {
    let shape = x.dims();
    let Some(batch_dim) = shape.len().checked_sub(2 + dense_dim) else {
        return Err(TorshError::shape(
            "",
            format!(
                "dense_to_sparse: {} needs two dimensions before the {dense_dim} dense ones, got {}",
                named(layout),
                x.shape()
            ),
        ));
    };
    let [b0, b1] = match (layout.is_blocked(), block) {
        (true, Some(block)) => block,
        (true, None) => return Err(no_blocksize(TensorLayout::Strided, layout)),
        (false, None) => [1, 1],
        (false, Some(_)) => return Err(blocksize_given(TensorLayout::Strided, layout)),
    };
    let (batch, rest) = shape.split_at(batch_dim);
    let (sides, dense) = rest.split_at(2);
    divides("dense_to_sparse", sides, [b0, b1])?;
    needs_data(x.device())?;
    let (rows, columns) = (sides[0] / b0, sides[1] / b1);
    let entries = product(batch)?;
    let apart = sizes(&[entries, rows, b0, columns, b1], dense);
    let mut order: Vec<i64> = (0..apart.len() as i64).collect();
    let (lines, others) = match layout.by_rows() {
        true => {
            order[1..5].copy_from_slice(&[1, 3, 2, 4]);
            (rows, columns)
        }
        false => {
            order[1..5].copy_from_slice(&[3, 1, 2, 4]);
            (columns, rows)
        }
    };
    let unit = match layout.is_blocked() {
        true => sizes(&[b0, b1], dense),
        false => dense.to_vec(),
    };
    let flat = x
        .reshape(apart)?
        .permute(order)?
        .reshape(sizes(&[product(&[entries, lines, others])?], &unit))?;
    let at = positions_of_stored(&flat)?;
    let values = flat.index_select(0, &at)?;
    let of = sizes(batch, &[lines, others]);
    let sorted = crate::coords::unravel(&host(&at)?, &of);
    let block = layout.is_blocked().then_some([b0, b1]);
    compressed_tensor(
        layout,
        shape,
        block,
        dense.len(),
        &sorted,
        &values,
        DType::I64,
    )
}

fn blocksize_given(from: TensorLayout, to: TensorLayout) -> TorshError {
    TorshError::invalid(
        "",
        format!(
            "dense_to_sparse: conversion from {} to {} with blocksize argument given is not supported",
            named(from),
            named(to)
        ),
    )
}

/// Refuses blocks that do not divide the rows and columns.
fn divides(what: &str, sides: &[usize], block: [usize; 2]) -> Result<()> {
    let [b0, b1] = block;
    if b0 == 0 || b1 == 0 {
        return Err(TorshError::invalid(
            "",
            format!("{what}: blocksize needs to be positive, but got [{b0}, {b1}]"),
        ));
    }
    match sides[0].is_multiple_of(b0) && sides[1].is_multiple_of(b1) {
        true => Ok(()),
        false => Err(TorshError::shape(
            "",
            format!(
                "{what}: tensor sparse size ({},{}) must be divisible by given blocksize ({b0},{b1})",
                sides[0], sides[1]
            ),
        )),
    }
}

/// A tensor of a compressed layout from the coordinates of its elements (or blocks) in batch, line and position, in order,
/// and their values.
fn compressed_tensor(
    layout: TensorLayout,
    shape: &[usize],
    block: Option<[usize; 2]>,
    dense_dim: usize,
    sorted: &Coords,
    values: &Tensor,
    index: DType,
) -> Result<Tensor> {
    let device = values.device();
    let pattern = compressed_pattern(layout, shape, block, dense_dim, sorted, index, device)?;
    sparse::from_values(&pattern, &values.reshape(pattern.values_shape())?)
}

fn compressed_pattern(
    layout: TensorLayout,
    shape: &[usize],
    block: Option<[usize; 2]>,
    dense_dim: usize,
    sorted: &Coords,
    index: DType,
    device: Device,
) -> Result<Pattern> {
    let batch = &shape[..shape.len() - 2 - dense_dim];
    let along = if layout.by_rows() { 0 } else { 1 };
    let lines = shape[batch.len() + along] / block.map_or(1, |b| b[along].max(1));
    let (compressed, plain, nnz) = compressed_of(sorted, batch, lines)?;
    let compressed = index_tensor(compressed, &sizes(batch, &[lines + 1]), index, device)?;
    let plain = index_tensor(plain, &sizes(batch, &[nnz]), index, device)?;
    Pattern::compressed(layout, shape, &compressed, &plain, block, dense_dim)
}

/// The dtype that the indices of a conversion's result have.
fn index_dtype(pattern: &Pattern) -> DType {
    pattern.indices().dtype()
}

fn coo_of_compressed(x: &Tensor, pattern: &Pattern) -> Result<Tensor> {
    let shape = pattern.shape().dims();
    // Memory of its own: what is written into the result is not to be seen in the operand.
    let rows = sizes(&[stored(pattern)], dense_sizes(pattern));
    let values = sparse::values(x)?.copy()?.reshape(rows)?;
    if !x.device().has_data() {
        let of = [leading(pattern).len(), values.dims()[0]];
        let indices = Tensor::zeros(of, DType::I64, x.device())?;
        let sorted = pattern.layout() == TensorLayout::SparseCsr;
        return sparse::from_values(&Pattern::coo(shape, &indices, sorted)?, &values);
    }
    let other = pattern.cached(|| {
        let indices = elements(pattern)?.0.tensor(x.device())?;
        let sorted = pattern.layout() == TensorLayout::SparseCsr;
        Ok(Other::<COO> {
            pattern: Pattern::coo(shape, &indices, sorted)?,
            order: None,
        })
    })?;
    sparse::from_values(&other.pattern, &values)
}

const COO: usize = 1;

/// The pattern of the same elements (or blocks) in another compressed layout of the same blocks, and the order in which they
/// are taken from this one; of COO, which must be coalesced, CSR or CSC. Kept with the pattern.
pub(crate) fn reordered(
    pattern: &Pattern,
    layout: TensorLayout,
) -> Result<(Pattern, Option<Tensor>)> {
    match layout {
        TensorLayout::SparseCsr => kept::<2>(pattern, layout),
        TensorLayout::SparseCsc => kept::<3>(pattern, layout),
        TensorLayout::SparseBsr => kept::<4>(pattern, layout),
        _ => kept::<5>(pattern, layout),
    }
}

fn kept<const LAYOUT: usize>(
    pattern: &Pattern,
    layout: TensorLayout,
) -> Result<(Pattern, Option<Tensor>)> {
    let other = pattern.cached(|| {
        let units = units(pattern)?;
        let (pattern, order) = compress_units(
            layout,
            pattern.shape().dims(),
            pattern.block(),
            pattern.dense_dim(),
            &units.0,
            index_dtype(pattern),
            pattern.indices().device(),
        )?;
        Ok(Other::<LAYOUT> { pattern, order })
    })?;
    Ok((other.pattern.clone(), other.order.clone()))
}

/// The compressed pattern of elements (or blocks) of which each stands once, and the order in which it has them.
fn compress_units(
    layout: TensorLayout,
    shape: &[usize],
    block: Option<[usize; 2]>,
    dense_dim: usize,
    units: &Coords,
    index: DType,
    device: Device,
) -> Result<(Pattern, Option<Tensor>)> {
    let batch = shape.len() - 2 - dense_dim;
    let [b0, b1] = block.unwrap_or([1, 1]);
    let mut of = shape[..batch + 2].to_vec();
    (of[batch], of[batch + 1]) = (of[batch] / b0.max(1), of[batch + 1] / b1.max(1));
    let mut lines = units.clone();
    if !layout.by_rows() {
        of.swap(batch, batch + 1);
        let n = units.n;
        lines.data[batch * n..].rotate_left(n);
    }
    let order = lines.order(&of);
    let same = order.is_sorted();
    let sorted = if same { lines } else { lines.select(&order) };
    let pattern = compressed_pattern(layout, shape, block, dense_dim, &sorted, index, device)?;
    let order = match same {
        true => None,
        false => Some(positions(&order, device)?),
    };
    Ok((pattern, order))
}

fn compressed_of_sparse(
    x: &Tensor,
    layout: TensorLayout,
    block: Option<[usize; 2]>,
) -> Result<Tensor> {
    let x = match x.layout() {
        TensorLayout::SparseCoo => coalesce(x)?,
        _ => x.clone(),
    };
    let Some(pattern) = x.pattern() else {
        unreachable!("called with a sparse tensor")
    };
    if leading(&pattern).len() < 2 {
        return Err(TorshError::invalid(
            "",
            format!(
                "coo_to_sparse_csr: conversion from {} to {} for input tensors with sparse_dim()!=2 is not supported: it is {}",
                named(pattern.layout()),
                named(layout),
                pattern.sparse_dim()
            ),
        ));
    }
    let (shape, dense_dim) = (pattern.shape().dims(), pattern.dense_dim());
    let sides = &leading(&pattern)[shape.len() - dense_dim - 2..];
    if let Some(block) = block {
        divides("sparse_compressed_to_sparse_bsr", sides, block)?;
    }
    if !x.device().has_data() {
        return on_meta(&x, &pattern, layout, block);
    }
    let values = sparse::values(&x)?;
    if pattern.block() == block {
        let (to, order) = reordered(&pattern, layout)?;
        let unit = values.dims()[pattern.batch_dim() + 1..].to_vec();
        let count = product(&values.dims()[..pattern.batch_dim() + 1])?;
        let values = values.reshape(sizes(&[count], &unit))?;
        let values = match order {
            Some(order) => values.index_select(0, &order)?,
            None => values.copy()?,
        };
        return sparse::from_values(&to, &values.reshape(to.values_shape())?);
    }
    let (elements, dense) = (elements(&pattern)?, dense_sizes(&pattern));
    let values = values.reshape(sizes(&[stored(&pattern)], dense))?;
    let (index, device) = (index_dtype(&pattern), x.device());
    let Some([b0, b1]) = block else {
        let (to, order) =
            compress_units(layout, shape, None, dense_dim, &elements.0, index, device)?;
        let values = match order {
            Some(order) => values.index_select(0, &order)?,
            None => values.copy()?,
        };
        return sparse::from_values(&to, &values.reshape(to.values_shape())?);
    };
    // Which block each element is in, and where within it.
    let mut blocks = elements.0.clone();
    let (n, batch) = (blocks.n, blocks.rows - 2);
    let mut within = vec![0i64; n];
    for (d, b) in [b0 as i64, b1 as i64].into_iter().enumerate() {
        for (to, i) in within
            .iter_mut()
            .zip(&mut blocks.data[(batch + d) * n..][..n])
        {
            *to = *to * b + *i % b;
            *i /= b;
        }
    }
    let mut of = shape[..batch + 2].to_vec();
    (of[batch], of[batch + 1]) = (of[batch] / b0, of[batch + 1] / b1);
    if !layout.by_rows() {
        of.swap(batch, batch + 1);
        blocks.data[batch * n..].rotate_left(n);
    }
    let (mut firsts, mut at) = (Vec::new(), vec![0i64; n]);
    let order = blocks.order(&of);
    for (k, &i) in order.iter().enumerate() {
        if k == 0 || blocks.compare(order[k - 1], &blocks, i).is_ne() {
            firsts.push(i);
        }
        at[i] = (firsts.len() as i64 - 1) * (b0 * b1) as i64 + within[i];
    }
    let sorted = blocks.select(&firsts);
    let to = compressed_pattern(layout, shape, block, dense_dim, &sorted, index, device)?;
    let rows = sizes(&[product(&[firsts.len(), b0, b1])?], dense);
    let zeros = Tensor::zeros(rows, x.dtype(), device)?;
    let at = index_tensor(at, &[n], DType::I64, device)?;
    let values = zeros.index_copy_(0, &at, &values)?;
    sparse::from_values(&to, &values.reshape(to.values_shape())?)
}

/// A conversion on the meta device, where as many elements are stored as before; of blocks that change, at most so many.
fn on_meta(
    x: &Tensor,
    pattern: &Pattern,
    layout: TensorLayout,
    block: Option<[usize; 2]>,
) -> Result<Tensor> {
    let (shape, dense_dim) = (pattern.shape().dims(), pattern.dense_dim());
    let batch = &shape[..shape.len() - 2 - dense_dim];
    let entries = product(batch)?.max(1);
    let nnz = match pattern.block() == block {
        true => pattern.indices().numel() / pattern.sparse_dim().max(1) / entries,
        false => stored(pattern) / entries,
    };
    let nnz = match pattern.layout().is_compressed() && pattern.block() == block {
        true => pattern.nnz(),
        false => nnz,
    };
    let along = if layout.by_rows() { 0 } else { 1 };
    let lines = shape[batch.len() + along] / block.map_or(1, |b| b[along]);
    let (index, device) = (index_dtype(pattern), x.device());
    let compressed = Tensor::zeros(sizes(batch, &[lines + 1]), index, device)?;
    let plain = Tensor::zeros(sizes(batch, &[nnz]), index, device)?;
    let to = Pattern::compressed(layout, shape, &compressed, &plain, block, dense_dim)?;
    let values = Tensor::zeros(to.values_shape(), x.dtype(), device)?;
    sparse::from_values(&to, &values)
}

/// The gradient of a conversion's operand: in the operand's layout, where that can have it.
fn back(g: &Tensor, a: &attrs::ToSparse) -> Result<Tensor> {
    let layout = TensorLayout::from(a.layout);
    let Some(pattern) = g.pattern() else {
        return Ok(g.clone());
    };
    let block = match a.blocksize[..] {
        [b0, b1] => Some([b0, b1]),
        _ => None,
    };
    match layout.is_strided() || pattern.dense_dim() == a.dense_dim {
        true => to_layout(g, layout, block, None),
        false => Ok(g.clone()),
    }
}

/// The gradient of what was converted to a strided tensor.
fn dense_back(g: &Tensor, x: &Tensor, masked: bool) -> Result<Tensor> {
    let Some(pattern) = x.pattern() else {
        return Ok(g.clone());
    };
    if masked {
        let pattern = coalesced_pattern(&pattern)?;
        return sparse::from_values(&pattern, &at_pattern(g, &pattern)?);
    }
    // A batch of compressed patterns may be unable to store all of it.
    match g.layout().is_strided() && pattern.batch_dim() == 0 && g.device().has_data() {
        true => to_layout(
            g,
            pattern.layout(),
            pattern.block(),
            Some(pattern.dense_dim()),
        ),
        false => Ok(g.clone()),
    }
}

static TO_DENSE: OpRecord = OpRecord::new(
    "to_dense",
    "The strided tensor of the same elements; itself, where it is strided.",
    "(Tensor input, ScalarType? dtype=None, *, bool? masked_grad=None)",
)
.grads(1, 0, |c| {
    let masked = c.attrs::<attrs::ToDense>()?.masked_grad;
    let g = dense_back(c.g(), &c.x()?, masked)?;
    Ok(SmallVec::from_iter([Some(g)]))
})
.by_name(|b| {
    let options = ToDenseOptions {
        dtype: b.dtype(1),
        masked_grad: (!b.is_none(2)).then(|| b.bool(2)),
    };
    to_dense_of(b.tensor(0)?, &options).map(Value::Tensor)
})
.samples(|s| {
    let indices = Tensor::from_data(&[1i64, 0, 1, 2, 0, 1], [2, 3])?;
    let x = crate::coo(&indices, &s.real(&[3])?, [3, 3])?;
    Ok(vec![sample![x]])
});

/// A block of a call by name.
fn blocksize(b: &Bound, i: usize) -> Result<Option<[usize; 2]>> {
    b.opt_ints(i).map(|given| block_of(&given)).transpose()
}

/// A block of two sizes.
pub(crate) fn block_of(given: &[i64]) -> Result<[usize; 2]> {
    let &[b0, b1] = given else {
        return Err(TorshError::invalid(
            "",
            format!(
                "dense_to_sparse_bsr: blocksize needs to be a tuple of size 2, but got {}",
                given.len()
            ),
        ));
    };
    match (usize::try_from(b0), usize::try_from(b1)) {
        (Ok(b0), Ok(b1)) if b0 > 0 && b1 > 0 => Ok([b0, b1]),
        _ => Err(TorshError::invalid(
            "",
            format!("dense_to_sparse_bsr: blocksize needs to be positive, but got [{b0}, {b1}]"),
        )),
    }
}

/// The record of a conversion.
macro_rules! conversion {
    ($record:ident $name:literal $doc:literal $schema:literal |$b:ident| $options:expr; |$s:ident| $samples:expr) => {
        static $record: OpRecord = OpRecord::new($name, $doc, $schema)
            .grads(0, 0, |c| {
                let g = back(c.g(), c.attrs::<attrs::ToSparse>()?)?;
                Ok(SmallVec::from_iter([Some(g)]))
            })
            .by_name(|$b| to_sparse_of($name, $b.tensor(0)?, &$options).map(Value::Tensor))
            .samples(|$s| $samples);
    };
}

conversion! { TO_SPARSE "to_sparse" "The sparse tensor of the same elements, COO unless another layout is given."
    "(Tensor input, int? sparse_dim=None, *, Layout? layout=None, int[]? blocksize=None, int? dense_dim=None)"
|b| ToSparseOptions {
    sparse_dim: b.opt_int(1),
    layout: b.layout(2),
    blocksize: blocksize(b, 3)?,
    dense_dim: b.opt_int(4),
}; |s| Ok(vec![
    sample![s.real(&[3, 2])?],
    sample![s.real(&[3, 2])?, 1],
    sample![s.real(&[2, 2])?, layout = TensorLayout::SparseCsr],
]) }
conversion! { TO_SPARSE_COO "to_sparse_coo" "The COO tensor of the same elements."
    "(Tensor input)"
|b| ToSparseOptions::new().layout(TensorLayout::SparseCoo); |s| Ok(vec![sample![s.real(&[3, 2])?]]) }
conversion! { TO_SPARSE_CSR "to_sparse_csr" "The CSR tensor of the same elements."
    "(Tensor input, int? dense_dim=None)"
|b| ToSparseOptions {
    dense_dim: b.opt_int(1),
    ..ToSparseOptions::new().layout(TensorLayout::SparseCsr)
}; |s| Ok(vec![sample![s.real(&[3, 2])?]]) }
conversion! { TO_SPARSE_CSC "to_sparse_csc" "The CSC tensor of the same elements."
    "(Tensor input, int? dense_dim=None)"
|b| ToSparseOptions {
    dense_dim: b.opt_int(1),
    ..ToSparseOptions::new().layout(TensorLayout::SparseCsc)
}; |s| Ok(vec![sample![s.real(&[3, 2])?]]) }
conversion! { TO_SPARSE_BSR "to_sparse_bsr" "The BSR tensor of the same elements."
    "(Tensor input, int[] blocksize, int? dense_dim=None)"
|b| ToSparseOptions {
    blocksize: blocksize(b, 1)?,
    dense_dim: b.opt_int(2),
    ..ToSparseOptions::new().layout(TensorLayout::SparseBsr)
}; |s| Ok(vec![sample![s.real(&[4, 2])?, [2, 1]]]) }
conversion! { TO_SPARSE_BSC "to_sparse_bsc" "The BSC tensor of the same elements."
    "(Tensor input, int[] blocksize, int? dense_dim=None)"
|b| ToSparseOptions {
    blocksize: blocksize(b, 1)?,
    dense_dim: b.opt_int(2),
    ..ToSparseOptions::new().layout(TensorLayout::SparseBsc)
}; |s| Ok(vec![sample![s.real(&[4, 2])?, [2, 1]]]) }
