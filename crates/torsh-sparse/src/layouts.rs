//! The elements of a tensor in another layout: patterns, orders and values, which are not recorded.

use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::coalesce::coalesce;
use crate::coords::{are_places, blocks, coordinates, local, pointers, sorted, turned, unravel};
use crate::help::{added, product, sizes};
use crate::invariants::{extent, known, parts, verified};
use crate::lines::GROUP;
use crate::places::{dense_sizes, elements, leading, places, stored, units};
use crate::strided::{self, Stored};

/// A pattern of the same elements (or blocks) in another layout, and which of the first one's each is.
struct Other<const LAYOUT: usize> {
    pattern: Pattern,
    /// int64 `[elements]`, counted through the batch; nothing where they are in the same order.
    order: Option<Tensor>,
}

/// The strided tensor of the same elements.
pub(crate) fn strided_of(x: &Tensor) -> Result<Tensor> {
    let Some(pattern) = x.pattern() else {
        return Ok(x.clone());
    };
    let (shape, dtype, device) = (pattern.shape(), x.dtype(), x.device());
    shape.checked_numel(dtype.size())?;
    if !device.has_data() {
        return Tensor::zeros(shape, dtype, device);
    }
    if device == Device::Cpu && pattern.layout().is_compressed() {
        return strided_of_lines(x, &pattern);
    }
    let (places, dense) = (places(&pattern)?, dense_sizes(&pattern));
    let (count, n) = (product(leading(&pattern))?, stored(&pattern));
    let values = sparse::values(x)?;
    if device == Device::Cpu && pattern.is_coalesced() {
        let units = values.reshape([n, product(dense)?])?;
        return strided::fill_places(&places, &units, count)?.reshape(shape);
    }
    let values = values.reshape(sizes(&[n], dense))?;
    let zeros = Tensor::zeros(sizes(&[count], dense), dtype, device)?;
    let out = match pattern.is_coalesced() {
        true => zeros.index_copy_(0, &places, &values)?,
        false => added(&zeros, &places, &values)?,
    };
    out.reshape(shape)
}

/// The strided tensor of the elements of a compressed one on the CPU: line by line, and turned where the lines are
/// columns.
fn strided_of_lines(x: &Tensor, pattern: &Pattern) -> Result<Tensor> {
    verified(pattern)?;
    let ([compressed, plain], [entries, lines, width]) = (parts(pattern)?, extent(pattern)?);
    let (dense, [b0, b1]) = (dense_sizes(pattern), pattern.block().unwrap_or([1, 1]));
    let unit = sizes(&[b0, b1], dense);
    let values = sparse::values(x)?.reshape([entries * pattern.nnz(), product(&unit)?])?;
    let filled = strided::fill_lines([compressed, plain], &values, [entries, lines, width])?;
    let mut order: Vec<usize> = (0..5 + dense.len()).collect();
    // Entry, line, position in the line, and rows and columns of a block.
    match pattern.layout().by_rows() {
        true => order[1..5].copy_from_slice(&[1, 3, 2, 4]),
        false => order[1..5].copy_from_slice(&[2, 3, 1, 4]),
    }
    let apart = sizes(&[entries, lines, width], &unit);
    let turned = filled.reshape(apart)?.permute(&order[..])?;
    turned.reshape(pattern.shape())
}

/// The error of a conversion to blocks of no size.
pub(crate) fn no_blocksize(from: TensorLayout, to: TensorLayout) -> TorshError {
    TorshError::invalid(
        "",
        format!(
            "dense_to_sparse: conversion from {} to {} without blocksize argument given is not supported",
            from.enum_name(),
            to.enum_name()
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

/// The COO tensor of what is not 0 in a strided one.
pub(crate) fn coo_of_strided(x: &Tensor, dense_dim: usize) -> Result<Tensor> {
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
    let (lead, dense) = shape.split_at(sparse_dim);
    if let (Device::Cpu, Some((&width, heads))) = (device, lead.split_last()) {
        let found = strided::stored(x, [product(heads)?, width, product(dense)?])?;
        let list = coordinates([&found.pointers, &found.columns], 1, heads, true)?;
        let pattern = known(Pattern::coo(shape, &list, true)?)?;
        let values = found.values.reshape(pattern.values_shape())?;
        return sparse::from_values(&pattern, &values);
    }
    let flat = x.reshape(sizes(&[product(lead)?], dense))?;
    let at = positions_of_stored(&flat)?;
    let values = flat.index_select(0, &at)?;
    let indices = unravel(&local(&at)?, lead)?.to_device(device)?;
    sparse::from_values(&Pattern::coo(shape, &indices, true)?, &values)
}

/// The tensor of a compressed layout of what is not 0 in a strided one.
pub(crate) fn compressed_of_strided(
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
                layout.enum_name(),
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
    let flat = x.reshape(apart)?.permute(order)?;
    let like = Like {
        layout,
        shape,
        block: layout.is_blocked().then_some([b0, b1]),
        dense_dim: dense.len(),
        index: DType::I64,
        device: x.device(),
    };
    let heads = sizes(batch, &[lines]);
    let (list, values) = match x.device() {
        Device::Cpu => {
            let of = [product(&heads)?, others, product(&unit)?];
            let Stored {
                pointers,
                columns,
                values,
            } = strided::stored(&flat, of)?;
            if batch.is_empty() {
                let pattern = known(like.compressed(&pointers, &columns)?)?;
                return sparse::from_values(&pattern, &values.reshape(pattern.values_shape())?);
            }
            (coordinates([&pointers, &columns], 1, &heads, true)?, values)
        }
        _ => {
            let count = product(&[entries, lines, others])?;
            let flat = flat.reshape(sizes(&[count], &unit))?;
            let at = positions_of_stored(&flat)?;
            let list = unravel(&local(&at)?, &sizes(&heads, &[others]))?;
            (list, flat.index_select(0, &at)?)
        }
    };
    let pattern = like.sorted(&list)?;
    sparse::from_values(&pattern, &values.reshape(pattern.values_shape())?)
}

fn blocksize_given(from: TensorLayout, to: TensorLayout) -> TorshError {
    TorshError::invalid(
        "",
        format!(
            "dense_to_sparse: conversion from {} to {} with blocksize argument given is not supported",
            from.enum_name(),
            to.enum_name()
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

/// What a compressed pattern is, besides its indices.
struct Like<'a> {
    layout: TensorLayout,
    shape: &'a [usize],
    block: Option<[usize; 2]>,
    dense_dim: usize,
    /// The dtype of the indices, and where they are.
    index: DType,
    device: Device,
}

impl Like<'_> {
    fn batch_dim(&self) -> usize {
        self.shape.len() - 2 - self.dense_dim
    }

    /// The sizes that the coordinates of elements (or blocks) count in, line before position in the line.
    fn sizes(&self) -> Vec<usize> {
        let (batch, [b0, b1]) = (self.batch_dim(), self.block.unwrap_or([1, 1]));
        let mut sizes = self.shape[..batch + 2].to_vec();
        (sizes[batch], sizes[batch + 1]) = (sizes[batch] / b0.max(1), sizes[batch + 1] / b1.max(1));
        if !self.layout.by_rows() {
            sizes.swap(batch, batch + 1);
        }
        sizes
    }

    /// The pattern of compressed and plain indices on the CPU.
    fn compressed(&self, compressed: &Tensor, plain: &Tensor) -> Result<Pattern> {
        let there = |t: &Tensor| t.to_dtype(self.index)?.to_device(self.device);
        let (compressed, plain) = (there(compressed)?, there(plain)?);
        Pattern::compressed(
            self.layout,
            self.shape,
            &compressed,
            &plain,
            self.block,
            self.dense_dim,
        )
    }

    /// The pattern of a list of elements (or blocks) in batch, line and position, in order.
    fn sorted(&self, list: &Tensor) -> Result<Pattern> {
        let (batch, lines) = (
            &self.shape[..self.batch_dim()],
            self.sizes()[self.batch_dim()],
        );
        let (n, entries) = (list.dims()[1], product(batch)?);
        let Some(pointers) = pointers(list, batch, lines)? else {
            return Err(TorshError::invalid(
                "",
                format!(
                    "Expect the same number of specified elements per batch: {n} elements are shared out unevenly to {entries}"
                ),
            )
            .with_hint("the layout COO has batches of different numbers of elements"));
        };
        let nnz = n.checked_div(entries).unwrap_or(0);
        // Memory of its own, which the list's is not.
        let plain = list.select(0, batch.len() + 1)?.copy()?;
        known(self.compressed(&pointers, &plain.reshape(sizes(batch, &[nnz]))?)?)
    }
}

/// The dtype that the indices of a conversion's result have.
fn index_dtype(pattern: &Pattern) -> DType {
    pattern.indices().dtype()
}

/// The COO tensor of the elements of a compressed one.
pub(crate) fn coo_of_compressed(x: &Tensor, pattern: &Pattern) -> Result<Tensor> {
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
    let make = || -> Result<Other<COO>> {
        // Memory of their own, like that of the values.
        let indices = elements(pattern)?.0.copy()?.to_device(x.device())?;
        let sorted = pattern.layout() == TensorLayout::SparseCsr;
        Ok(Other {
            pattern: known(Pattern::coo(shape, &indices, sorted)?)?,
            order: None,
        })
    };
    let other = pattern.cached_pattern(make, |other| &other.pattern)?;
    sparse::from_values(&other.pattern, &values)
}

const COO: usize = 1;

/// The pattern of the same elements (or blocks) in another compressed layout of the same blocks, and the order in which they
/// are taken from this one; of COO, which must be coalesced, CSR or CSC. Kept with the pattern.
fn reordered(pattern: &Pattern, layout: TensorLayout) -> Result<(Pattern, Option<Tensor>)> {
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
    let make = || -> Result<Other<LAYOUT>> {
        let units = units(pattern)?;
        let like = Like {
            layout,
            shape: pattern.shape().dims(),
            block: pattern.block(),
            dense_dim: pattern.dense_dim(),
            index: index_dtype(pattern),
            device: pattern.indices().device(),
        };
        let by_rows = !pattern.layout().is_compressed() || pattern.layout().by_rows();
        let (pattern, order) = match by_rows != layout.by_rows() && like.batch_dim() == 0 {
            true => turned_lines(&like, &units.0)?,
            false => compress_units(&like, &units.0)?,
        };
        Ok(Other { pattern, order })
    };
    let other = pattern.cached_pattern(make, |other| &other.pattern)?;
    Ok((other.pattern.clone(), other.order.clone()))
}

/// The compressed pattern of the elements (or blocks) of a matrix that are in the order of the other lines, and the
/// order in which it has them: counted, since elements of one line are in order.
fn turned_lines(like: &Like<'_>, units: &Tensor) -> Result<(Pattern, Option<Tensor>)> {
    let [line, other] = if like.layout.by_rows() {
        [0, 1]
    } else {
        [1, 0]
    };
    let (majors, minors) = (units.select(0, line)?, units.select(0, other)?);
    let attrs = attrs::SparseGroup {
        groups: like.sizes()[0],
        pointers: false,
    };
    let outs = no_grad(|| GROUP.call(&[Arg::T(&majors), Arg::T(&minors)], &attrs))?;
    let [compressed, plain, order] = &outs[..] else {
        return Err(TorshError::failed("", "the kernel gave too few results"));
    };
    let pattern = known(like.compressed(compressed, plain)?)?;
    Ok((pattern, Some(order.to_device(like.device)?)))
}

/// The compressed pattern of elements (or blocks) of which each stands once, and the order in which it has them.
fn compress_units(like: &Like<'_>, units: &Tensor) -> Result<(Pattern, Option<Tensor>)> {
    let of = like.sizes();
    let list = match like.layout.by_rows() {
        true => units.clone(),
        false => turned(units)?,
    };
    if are_places(&list, &of, true)? {
        return Ok((like.sorted(&list)?, None));
    }
    let sorted = sorted(&list, &of)?;
    let pattern = like.sorted(&list.index_select(1, &sorted.order)?)?;
    Ok((pattern, Some(sorted.order.to_device(like.device)?)))
}

/// The tensor of a compressed layout of the elements of a sparse one.
pub(crate) fn compressed_of_sparse(
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
                pattern.layout().enum_name(),
                layout.enum_name(),
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
    let like = Like {
        layout,
        shape,
        block,
        dense_dim,
        index: index_dtype(&pattern),
        device: x.device(),
    };
    let Some([b0, b1]) = block else {
        let (to, order) = compress_units(&like, &elements.0)?;
        let values = match order {
            Some(order) => values.index_select(0, &order)?,
            None => values.copy()?,
        };
        return sparse::from_values(&to, &values.reshape(to.values_shape())?);
    };
    // Which block each element is in, and where within it.
    let (list, within) = blocks(&elements.0, [b0, b1])?;
    let list = match layout.by_rows() {
        true => list,
        false => turned(&list)?,
    };
    let sorted = sorted(&list, &like.sizes())?;
    let to = like.sorted(&sorted.distinct(&list)?)?;
    let each = product(&[b0, b1])?;
    let at = sorted.run_of_each()?.mul(each as i64)?;
    let at = at.add(&within.index_select(0, &sorted.order)?)?;
    let there = |t: &Tensor| t.to_device(like.device);
    let values = values.index_select(0, &there(&sorted.order)?)?;
    let rows = sizes(&[product(&[sorted.runs, each])?], dense);
    let zeros = Tensor::zeros(rows, x.dtype(), like.device)?;
    let values = zeros.index_copy_(0, &there(&at)?, &values)?;
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
