//! Stored elements as one list, whatever the layout: what rules for elementwise ops, reductions and indexing are written in.

use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{BincountOptions, Result, Tensor, TorshError, UniqueOptions, is_grad_enabled};

use crate::help::product;
use crate::{coalesce, convert, coords};

/// The pattern of a sparse tensor.
pub(crate) fn pattern(x: &Tensor) -> Result<Pattern> {
    x.pattern().ok_or_else(|| {
        TorshError::invalid(
            "",
            format!("expected a sparse tensor, got {}", x.describe()),
        )
    })
}

/// Whether a tensor is sparse, of any layout.
pub(crate) fn is_sparse(x: &Tensor) -> bool {
    !x.layout().is_strided()
}

/// Whether gradients of a tensor are recorded.
pub(crate) fn is_recorded(x: &Tensor) -> bool {
    is_grad_enabled() && x.requires_grad()
}

/// The tensor with each element stored once.
pub(crate) fn settled(x: &Tensor) -> Result<Tensor> {
    match x.pattern() {
        Some(p) if !p.is_coalesced() => coalesce::coalesce(x),
        _ => Ok(x.clone()),
    }
}

/// The tensor for a linear op on its values: elements may be stored several times, but not where gradients are recorded. The
/// gradient of each part of such an element would be that of the whole, and their sum a multiple of it.
pub(crate) fn linear(x: &Tensor) -> Result<Tensor> {
    match is_recorded(x) {
        true => settled(x),
        false => Ok(x.clone()),
    }
}

/// A COO tensor.
pub(crate) fn coo(
    shape: &[usize],
    indices: &Tensor,
    values: &Tensor,
    coalesced: bool,
) -> Result<Tensor> {
    sparse::from_values(&Pattern::coo(shape, indices, coalesced)?, values)
}

/// The numbers from 0 to below `n`, beside the indices of a pattern.
pub(crate) fn range(n: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::arange(0, n, 1, DType::I64, like.device())
}

/// Index zeros in a row.
pub(crate) fn zeros(shape: &[usize], like: &Tensor) -> Result<Tensor> {
    Tensor::zeros(shape, DType::I64, like.device())
}

/// The positions where a mask is true.
pub(crate) fn positions(mask: &Tensor) -> Result<Tensor> {
    mask.nonzero()?.squeeze(1)
}

/// Stored elements, or blocks of them, as one list.
pub(crate) struct Grid {
    pub(crate) pattern: Pattern,
    /// Where they are: int64, a row for each of `sizes`. Of a compressed pattern these are the batch's dimensions, rows and
    /// columns, of blocks where there are blocks.
    pub(crate) indices: Tensor,
    /// How far the indices count.
    pub(crate) sizes: Vec<usize>,
}

impl Grid {
    pub(crate) fn new(pattern: &Pattern) -> Result<Grid> {
        let dims = pattern.shape().dims();
        let count = pattern.batch_dim() + pattern.sparse_dim();
        let mut sizes = dims[..count].to_vec();
        let indices = match pattern.layout() {
            TensorLayout::SparseCoo => pattern.indices().clone(),
            _ => convert::row_indices(pattern)?,
        };
        if let Some(block) = pattern.block() {
            for (size, of) in sizes[count - 2..].iter_mut().zip(block) {
                *size /= of.max(1);
            }
        }
        Ok(Grid {
            pattern: pattern.clone(),
            indices,
            sizes,
        })
    }

    /// Of a sparse tensor.
    pub(crate) fn of(x: &Tensor) -> Result<Grid> {
        Grid::new(&pattern(x)?)
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.indices.dims()[1]
    }

    /// What an element is: the sizes of a block, and the dense ones.
    pub(crate) fn element(&self) -> Vec<usize> {
        let p = &self.pattern;
        let mut dims: Vec<usize> = p.block().into_iter().flatten().collect();
        dims.extend(&p.shape().dims()[p.batch_dim() + p.sparse_dim()..]);
        dims
    }

    /// Values of the pattern in the order of the list.
    pub(crate) fn flat(&self, values: &Tensor) -> Result<Tensor> {
        match self.pattern.batch_dim() {
            0 => Ok(values.clone()),
            _ => values.reshape([&[self.len()], &self.element()[..]].concat()),
        }
    }

    /// The sparse tensor of the pattern and of values in the order of the list.
    pub(crate) fn close(&self, flat: &Tensor) -> Result<Tensor> {
        let shape = self.pattern.values_shape();
        match self.pattern.batch_dim() {
            0 => sparse::from_values(&self.pattern, flat),
            _ => sparse::from_values(&self.pattern, &flat.reshape(&shape)?),
        }
    }

    /// A strided tensor, whose shape broadcasts to that of the pattern, at the stored elements; it broadcasts with values in
    /// the order of the list. What is the same along a dimension is read once.
    pub(crate) fn gather(&self, t: &Tensor) -> Result<Tensor> {
        let p = &self.pattern;
        let ndim = p.shape().ndim();
        let mut dims = vec![1; ndim - t.ndim().min(ndim)];
        dims.extend(t.dims());
        let mut t = t.reshape(&dims[..])?;
        if let Some(block) = p.block() {
            let row = p.batch_dim();
            let split = |n: usize, of: usize| match n {
                1 => [1, 1],
                n => [n / of.max(1), of],
            };
            let parts = [split(dims[row], block[0]), split(dims[row + 1], block[1])];
            let cut = [&dims[..row], &parts.concat()[..], &dims[row + 2..]].concat();
            let order: Vec<usize> = (0..cut.len())
                .map(|d| match d.checked_sub(row) {
                    Some(1) => row + 2,
                    Some(2) => row + 1,
                    _ => d,
                })
                .collect();
            t = t.reshape(&cut[..])?.permute(&order[..])?;
        }
        let (mut rows, mut d) = (Vec::new(), 0);
        for i in 0..self.sizes.len() {
            if t.dims()[d] == 1 {
                t = t.select(d, 0)?;
            } else {
                rows.push(Some(self.indices.select(0, i)?));
                d += 1;
            }
        }
        match rows.is_empty() {
            true => t.unsqueeze(0),
            false => t.index(&rows),
        }
    }

    /// The indices in the order in which the list is sorted: columns before rows for the layouts by columns.
    pub(crate) fn lines(&self) -> Result<Tensor> {
        lines(self.pattern.layout(), &self.indices)
    }

    /// The sizes of [`Grid::lines`].
    pub(crate) fn line_sizes(&self) -> Vec<usize> {
        let mut sizes = self.sizes.clone();
        let n = sizes.len();
        if by_columns(self.pattern.layout()) {
            sizes.swap(n - 2, n - 1);
        }
        sizes
    }
}

fn by_columns(layout: TensorLayout) -> bool {
    layout.is_compressed() && !layout.by_rows()
}

/// Rows of indices with the last two exchanged for layouts by columns.
pub(crate) fn lines(layout: TensorLayout, indices: &Tensor) -> Result<Tensor> {
    if !by_columns(layout) {
        return Ok(indices.clone());
    }
    let n = indices.dims()[0];
    let mut order: Vec<i64> = (0..n as i64).collect();
    order.swap(n - 2, n - 1);
    indices.index_select(
        0,
        &Tensor::from_vec(order, [n])?.to_device(indices.device())?,
    )
}

/// The pattern of the layout, shape and blocks of `like` whose elements are listed by [`Grid::lines`], sorted.
///
/// # Errors
/// Where the entries of a batch do not have the same number of elements.
pub(crate) fn of_lines(like: &Pattern, lines: &Tensor) -> Result<Pattern> {
    let shape = like.shape().dims();
    if like.layout() == TensorLayout::SparseCoo {
        return Pattern::coo(shape, lines, true);
    }
    let (Some(compressed), Some(plain)) = (like.compressed_indices(), like.plain_indices()) else {
        return Err(TorshError::invalid("", "a compressed pattern is needed"));
    };
    let batch = &shape[..like.batch_dim()];
    let count = compressed.dims()[batch.len()] - 1;
    let ends = match lines.device() {
        Device::Cpu => coords::pointers(lines, batch, count)?,
        _ => counted(lines, batch, count)?,
    };
    let Some(ends) = ends else {
        return Err(TorshError::invalid(
            "",
            "the entries of the batch of the result would not have the same number of elements",
        )
        .with_hint("to_sparse() makes a COO tensor, whose entries may differ"));
    };
    let entries = product(batch)?;
    let nnz = lines.dims()[1] / entries.max(1);
    let others = lines.select(0, batch.len() + 1)?;
    Pattern::compressed(
        like.layout(),
        shape,
        &ends.to_dtype(plain.dtype())?,
        &others
            .reshape([batch, &[nnz]].concat())?
            .to_dtype(plain.dtype())?,
        like.block(),
        like.dense_dim(),
    )
}

/// The compressed indices of a sorted list, on any device: `[*batch, count + 1]`; `None` where the entries of the
/// batch have different numbers of elements.
fn counted(lines: &Tensor, batch: &[usize], count: usize) -> Result<Option<Tensor>> {
    let entries = product(batch)?;
    let head = lines.narrow(0, 0, batch.len() + 1)?;
    let [at] = &keys(&[&head], &[batch, &[count]].concat())?[..] else {
        unreachable!("one list gives one list");
    };
    let minlength = product(&[entries, count])? as i64;
    let counts = at.bincount_with(BincountOptions::new().minlength(minlength))?;
    let counts = counts
        .narrow(0, 0, entries * count)?
        .reshape([entries, count])?;
    let ends = counts.cumsum(1)?;
    let ends = Tensor::cat(&[zeros(&[entries, 1], lines)?, ends], 1)?;
    if !batch.is_empty() {
        let (n, each) = (lines.dims()[1], lines.dims()[1] / entries.max(1));
        let alike = ends.select(1, count)?.eq(each as i64)?.all()?;
        if !n.is_multiple_of(entries.max(1)) || !alike.item::<bool>()? {
            return Ok(None);
        }
    }
    ends.reshape([batch, &[count + 1]].concat()).map(Some)
}

/// A number for each column of lists of indices, the same in all lists: the position in a row-major tensor of these sizes,
/// or, where 64 bits do not hold that, the rank.
pub(crate) fn keys(lists: &[&Tensor], sizes: &[usize]) -> Result<Vec<Tensor>> {
    let mut all: Vec<Tensor> = Vec::new();
    for list in lists {
        all.push(zeros(&[list.dims()[1]], list)?);
    }
    let mut count = 1usize;
    for (i, &size) in sizes.iter().enumerate() {
        let mut next: Vec<Tensor> = Vec::new();
        for list in lists {
            next.push(list.select(0, i)?);
        }
        if i == 0 {
            (all, count) = (next, size.max(1));
            continue;
        }
        let mut size = size.max(1);
        let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|n| n <= i64::MAX as usize);
        if !fits(count, size) {
            (all, count) = ranks(&all)?;
        }
        if !fits(count, size) {
            (next, size) = ranks(&next)?;
        }
        for (a, b) in all.iter_mut().zip(&next) {
            *a = a.mul(size as i64)?.add(b)?;
        }
        count = count.saturating_mul(size);
    }
    Ok(all)
}

/// The place of each number among the distinct ones of all lists, and how many of these there are.
fn ranks(lists: &[Tensor]) -> Result<(Vec<Tensor>, usize)> {
    let joined = Tensor::cat(lists, 0)?;
    let distinct = joined.unique_with(UniqueOptions::default().return_inverse(true))?;
    let Some(places) = distinct.inverse else {
        unreachable!("the places were asked for");
    };
    let (mut out, mut at) = (Vec::new(), 0);
    for list in lists {
        let n = list.numel();
        out.push(places.narrow(0, at, n)?);
        at += n;
    }
    Ok((out, distinct.values.numel().max(1)))
}

/// Where each element of the list `wanted` is in the list `sorted`, whose elements are different and in order: the
/// positions of those of `wanted` that are there, and their places.
pub(crate) fn matches(
    sorted: &Tensor,
    wanted: &Tensor,
    sizes: &[usize],
) -> Result<(Tensor, Tensor)> {
    if sorted.device() == Device::Cpu {
        let place = coords::found(&sorted.contiguous()?, &wanted.contiguous()?, sizes)?;
        let there = positions(&place.ge(0)?)?;
        let place = place.index_select(0, &there)?;
        return Ok((there, place));
    }
    let both = keys(&[wanted, sorted], sizes)?;
    let [wanted, sorted] = &both[..] else {
        unreachable!("two lists give two lists");
    };
    let n = sorted.numel();
    if n == 0 {
        let none = zeros(&[0], wanted)?;
        return Ok((none.clone(), none));
    }
    let place = sorted.searchsorted(wanted)?;
    let place = place.minimum((n - 1) as i64)?;
    let there = positions(&sorted.index_select(0, &place)?.eq(wanted)?)?;
    let place = place.index_select(0, &there)?;
    Ok((there, place))
}

/// A COO tensor in another layout, where it has a tensor of that shape: of the same block sizes, or of blocks of one element
/// along what these do not divide.
pub(crate) fn back(x: Tensor, like: &Pattern) -> Result<Tensor> {
    let Some(p) = x.pattern() else {
        return Ok(x);
    };
    let fits = like.layout().is_compressed() && like.batch_dim() == 0 && p.sparse_dim() == 2;
    if !fits {
        return Ok(x);
    }
    let shape = p.shape().dims();
    let block = like.block().map(|b| {
        let whole = |d: usize| b[d] > 0 && shape[d].is_multiple_of(b[d]);
        [0, 1].map(|d| if whole(d) { b[d] } else { 1 })
    });
    convert::to_layout(&x, like.layout(), block, None)
}
