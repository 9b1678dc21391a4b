//! Dimensions of sparse tensors in another order, put in, left out or taken together. No stored element moves.

use torsh_core::{Dims, TensorLayout};
use torsh_tensor::attrs::{Permute, Squeeze, Transpose, Unsqueeze, View};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{Grads, Result, Tensor, TorshError, no_grad};

use crate::convert;
use crate::grid::{self, is_sparse, pattern, settled};
use crate::help::{first, one};

/// What ops that change the shape do with sparse operands.
pub static SHAPE: &[SparseRule] = &[
    SparseRule {
        op: "permute",
        call: permute,
    },
    SparseRule {
        op: "transpose",
        call: transpose,
    },
    SparseRule {
        op: "unsqueeze",
        call: unsqueeze,
    },
    SparseRule {
        op: "squeeze",
        call: squeeze,
    },
    SparseRule {
        op: "reshape",
        call: reshape,
    },
];

/// Ops of this file that only rules call.
pub static RECORDS: &[&OpRecord] = &[&PERMUTE, &UNSQUEEZE, &SQUEEZE, &RESHAPE];

static PERMUTE: OpRecord = OpRecord::new(
    "_sparse_permute",
    "A sparse tensor with its dimensions in another order.",
    "(Tensor input, *, int[] dims)",
)
.internal()
.grads(0, 0, |c| {
    let order = &c.attrs::<Permute>()?.dims;
    let mut back = vec![0i64; order.len()];
    for (i, &d) in order.iter().enumerate() {
        back[d] = i as i64;
    }
    Ok(Grads::from_iter([Some(c.g().permute(&back[..])?)]))
});

static UNSQUEEZE: OpRecord = OpRecord::new(
    "_sparse_unsqueeze",
    "A sparse tensor with a dimension of size 1 put in.",
    "(Tensor input, *, int dim)",
)
.internal()
.grads(0, 0, |c| {
    let dim = c.attrs::<Unsqueeze>()?.dim;
    Ok(Grads::from_iter([Some(c.g().squeeze(dim)?)]))
});

static SQUEEZE: OpRecord = OpRecord::new(
    "_sparse_squeeze",
    "A sparse tensor without dimensions of size 1.",
    "(Tensor input, *, int[] dim)",
)
.internal()
.grads(0, 0, |c| {
    let shape = c.input_shape(0);
    let mut g = c.g().clone();
    if !is_sparse(&g) {
        return Ok(Grads::from_iter([Some(g.reshape(shape)?)]));
    }
    let mut dims = c.attrs::<Squeeze>()?.dim.to_vec();
    dims.retain(|&d| shape[d] == 1);
    dims.sort_unstable();
    for d in dims {
        g = g.unsqueeze(d)?;
    }
    Ok(Grads::from_iter([Some(g)]))
});

static RESHAPE: OpRecord = OpRecord::new(
    "_sparse_reshape",
    "A sparse tensor in another shape.",
    "(Tensor input, *, int[] size)",
)
.internal()
.grads(0, 0, |c| {
    let (g, size) = (c.g(), c.input_shape(0));
    Ok(Grads::from_iter([Some(match is_sparse(g) {
        true => reshape_recorded(g, size.dims())?,
        false => g.reshape(size)?,
    })]))
});

/// The values' dimension before the first dense one, less the tensor's.
fn shift(p: &Pattern) -> isize {
    let blocks = if p.block().is_some() { 2 } else { 0 };
    1 + blocks - p.sparse_dim() as isize
}

/// The dimension of the values that a dense dimension is.
pub(crate) fn dense_dim(p: &Pattern, d: usize) -> usize {
    (d as isize + shift(p)) as usize
}

/// The first dense dimension.
pub(crate) fn first_dense(p: &Pattern) -> usize {
    p.batch_dim() + p.sparse_dim()
}

fn parts(p: &Pattern) -> Result<(&Tensor, &Tensor)> {
    match (p.compressed_indices(), p.plain_indices()) {
        (Some(compressed), Some(plain)) => Ok((compressed, plain)),
        _ => Err(TorshError::invalid("", "a compressed pattern is needed")),
    }
}

fn permute(c: &SparseCall<'_>) -> Result<Outputs> {
    ordered(c, &c.attrs::<Permute>()?.dims, true)
}

fn transpose(c: &SparseCall<'_>) -> Result<Outputs> {
    let &Transpose { dim0, dim1 } = c.attrs()?;
    let mut order: Dims = (0..c.tensor(0)?.ndim()).collect();
    if !order.is_empty() {
        order.swap(dim0, dim1);
    }
    ordered(c, &order, true)
}

/// The tensor with its last two dimensions exchanged, as an operand of a product: its values may be those of `x`, also in
/// COO, where the result of `transpose` has its own. Recorded.
pub(crate) fn transposed(x: &Tensor) -> Result<Tensor> {
    let n = x.ndim();
    if !is_sparse(x) || n < 2 {
        return x.transpose(-2, -1);
    }
    let call = Permute {
        dims: (0..n - 2).chain([n - 1, n - 2]).collect(),
    };
    let c = SparseCall {
        op: "transpose",
        args: &[Arg::T(x)],
        attrs: &call,
    };
    first(ordered(&c, &call.dims, false)?)
}

fn ordered(c: &SparseCall<'_>, order: &[usize], own: bool) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let out = no_grad(|| permuted(c, x, order, own))?;
    let call = Permute {
        dims: Dims::from_slice(order),
    };
    PERMUTE.recorded(c.args, &call, one(out))
}

/// Where `own`, the values of a COO tensor are copied.
fn permuted(c: &SparseCall<'_>, x: &Tensor, order: &[usize], own: bool) -> Result<Tensor> {
    let p = pattern(x)?;
    let (batch, dense) = (p.batch_dim(), first_dense(&p));
    let stay = |from: usize, to: usize| order[from..to].iter().all(|d| (from..to).contains(d));
    if !(stay(0, batch) && stay(batch, dense) && stay(dense, order.len())) {
        let kinds = match batch {
            0 => "sparse and dense dimensions",
            _ => "batch, sparse and dense dimensions",
        };
        return Err(c.refuse(&format!(
            "transpositions between {kinds} are not allowed: {order:?} of a tensor with {batch} batch, {} sparse and {} dense dimensions",
            p.sparse_dim(),
            p.dense_dim()
        )));
    }
    let shape: Vec<usize> = order.iter().map(|&d| x.dims()[d]).collect();
    let swapped = p.layout().is_compressed() && order[batch] > batch;
    let mut of_values: Vec<usize> = match p.layout() {
        TensorLayout::SparseCoo => vec![0],
        _ => order[..batch].iter().copied().chain([batch]).collect(),
    };
    if p.block().is_some() {
        of_values.extend(if swapped {
            [batch + 2, batch + 1]
        } else {
            [batch + 1, batch + 2]
        });
    }
    of_values.extend(order[dense..].iter().map(|&d| dense_dim(&p, d)));
    let v = sparse::values(x)?.permute(&of_values[..])?;
    if p.layout() == TensorLayout::SparseCoo {
        // Memory of its own: what is written into the result is not to be seen in the operand.
        let v = if own { v.copy()? } else { v };
        let rows = &order[..dense];
        if rows.is_sorted() {
            return grid::coo(&shape, p.indices(), &v, p.is_coalesced());
        }
        let rows: Vec<i64> = rows.iter().map(|&d| d as i64).collect();
        let rows = Tensor::from_vec(rows, [dense])?.to_device(x.device())?;
        return grid::coo(&shape, &p.indices().index_select(0, &rows)?, &v, false);
    }
    let layout = match (swapped, p.layout()) {
        (false, layout) => layout,
        (true, TensorLayout::SparseCsr) => TensorLayout::SparseCsc,
        (true, TensorLayout::SparseCsc) => TensorLayout::SparseCsr,
        (true, TensorLayout::SparseBsr) => TensorLayout::SparseBsc,
        (true, _) => TensorLayout::SparseBsr,
    };
    let (compressed, plain) = parts(&p)?;
    let of_indices: Vec<usize> = order[..batch].iter().copied().chain([batch]).collect();
    let moved = |t: &Tensor| match of_indices.is_sorted() {
        true => Ok(t.clone()),
        false => t.permute(&of_indices[..])?.contiguous(),
    };
    let block = p
        .block()
        .map(|[r, c]| if swapped { [c, r] } else { [r, c] });
    let to = Pattern::compressed(
        layout,
        &shape,
        &moved(compressed)?,
        &moved(plain)?,
        block,
        p.dense_dim(),
    )?;
    sparse::from_values(&to, &v)
}

fn unsqueeze(c: &SparseCall<'_>) -> Result<Outputs> {
    let call = c.attrs::<Unsqueeze>()?;
    let x = c.tensor(0)?;
    let out = no_grad(|| unsqueezed(x, call.dim))?;
    UNSQUEEZE.recorded(c.args, call, one(out))
}

fn unsqueezed(x: &Tensor, dim: usize) -> Result<Tensor> {
    let p = pattern(x)?;
    let mut shape = x.dims().to_vec();
    shape.insert(dim, 1);
    let dense = first_dense(&p);
    let v = sparse::values(x)?;
    if p.layout() == TensorLayout::SparseCoo {
        // Memory of its own: what is written into the result is not to be seen in the operand.
        let v = v.copy()?;
        if dim > dense {
            return grid::coo(
                &shape,
                p.indices(),
                &v.unsqueeze(dense_dim(&p, dim))?,
                false,
            );
        }
        let zeros = grid::zeros(&[1, p.nnz()], p.indices())?;
        let (above, below) = (
            p.indices().narrow(0, 0, dim)?,
            p.indices().narrow(0, dim, dense - dim)?,
        );
        return grid::coo(&shape, &Tensor::cat(&[above, zeros, below], 0)?, &v, false);
    }
    let (compressed, plain) = parts(&p)?;
    let build = |compressed: &Tensor, plain: &Tensor, dense: usize, v: &Tensor| {
        let to = Pattern::compressed(p.layout(), &shape, compressed, plain, p.block(), dense)?;
        sparse::from_values(&to, v)
    };
    match dim {
        d if d <= p.batch_dim() => build(
            &compressed.unsqueeze(d)?,
            &plain.unsqueeze(d)?,
            p.dense_dim(),
            &v.unsqueeze(d)?,
        ),
        d if d >= dense => build(
            compressed,
            plain,
            p.dense_dim() + 1,
            &v.unsqueeze(dense_dim(&p, d))?,
        ),
        d => unsqueezed(&convert::to_coo(x)?, d),
    }
}

fn squeeze(c: &SparseCall<'_>) -> Result<Outputs> {
    let call = c.attrs::<Squeeze>()?;
    let x = c.tensor(0)?;
    let drop: Vec<usize> = (0..x.ndim())
        .filter(|&d| x.dims()[d] == 1 && call.dim.contains(&d))
        .collect();
    let out = no_grad(|| squeezed(x, &drop))?;
    SQUEEZE.recorded(c.args, call, one(out))
}

fn squeezed(x: &Tensor, drop: &[usize]) -> Result<Tensor> {
    let p = pattern(x)?;
    let (batch, dense) = (p.batch_dim(), first_dense(&p));
    let left = |from: usize, to: usize| (from..to).filter(|d| !drop.contains(d));
    let shape: Vec<usize> = left(0, x.ndim()).map(|d| x.dims()[d]).collect();
    let of_values: Vec<usize> = drop
        .iter()
        .filter(|&&d| d >= dense)
        .map(|&d| dense_dim(&p, d))
        .collect();
    let v = sparse::values(x)?;
    if p.layout() == TensorLayout::SparseCoo {
        // Memory of its own: what is written into the result is not to be seen in the operand.
        let v = v.copy()?;
        let v = match of_values.is_empty() {
            true => v,
            false => v.squeeze(of_values)?,
        };
        let rows: Vec<i64> = left(0, dense).map(|d| d as i64).collect();
        if rows.is_empty() && dense > 0 {
            // Without a sparse dimension there is one place for all stored elements.
            return crate::help::added(
                &Tensor::zeros(&[&[1], &v.dims()[1..]].concat()[..], v.dtype(), v.device())?,
                &grid::zeros(&[p.nnz()], p.indices())?,
                &v,
            )?
            .reshape(&shape[..]);
        }
        if rows.len() == dense {
            return grid::coo(&shape, p.indices(), &v, p.is_coalesced());
        }
        let n = rows.len();
        let rows = Tensor::from_vec(rows, [n])?.to_device(x.device())?;
        let indices = p.indices().index_select(0, &rows)?;
        return grid::coo(&shape, &indices, &v, p.is_coalesced());
    }
    if drop.iter().any(|d| (batch..dense).contains(d)) {
        return squeezed(&convert::to_coo(x)?, drop);
    }
    let (compressed, plain) = parts(&p)?;
    let of_indices: Vec<usize> = drop.iter().copied().filter(|&d| d < batch).collect();
    let less = |t: &Tensor, dims: &[usize]| match dims.is_empty() {
        true => Ok(t.clone()),
        false => t.squeeze(dims),
    };
    let of_values = [&of_indices[..], &of_values].concat();
    let to = Pattern::compressed(
        p.layout(),
        &shape,
        &less(compressed, &of_indices)?,
        &less(plain, &of_indices)?,
        p.block(),
        left(dense, x.ndim()).count(),
    )?;
    sparse::from_values(&to, &less(&v, &of_values)?)
}

fn reshape(c: &SparseCall<'_>) -> Result<Outputs> {
    reshape_recorded(c.tensor(0)?, c.attrs::<View>()?.size.dims()).map(one)
}

fn reshape_recorded(x: &Tensor, size: &[usize]) -> Result<Tensor> {
    let out = no_grad(|| reshaped(x, size))?;
    let call = View {
        size: size.to_vec().into(),
    };
    first(RESHAPE.recorded(&[Arg::T(x)], &call, one(out))?)
}

/// A sparse tensor in another shape of as many elements. Sparse dimensions become sparse ones, dense dimensions dense ones.
fn reshaped(x: &Tensor, size: &[usize]) -> Result<Tensor> {
    let p = pattern(x)?;
    if p.layout() != TensorLayout::SparseCoo {
        return grid::back(reshaped(&settled(&convert::to_coo(x)?)?, size)?, &p);
    }
    let k = p.sparse_dim();
    let product = |dims: &[usize]| {
        dims.iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= i64::MAX as usize)
    };
    let (lines, rest) = (product(&x.dims()[..k]), product(&x.dims()[k..]));
    let fits = |at: &usize| product(&size[..*at]) == lines && product(&size[*at..]) == rest;
    let at = match (p.dense_dim(), lines) {
        (_, None) => {
            return Err(TorshError::invalid(
                "",
                format!(
                    "the positions in the sparse dimensions of {} overflow 64 bits",
                    x.shape()
                ),
            ));
        }
        (0, _) => Some(size.len()).filter(fits),
        _ => (0..=size.len()).find(fits),
    };
    let Some(at) = at else {
        return Err(TorshError::shape(
            "",
            format!(
                "cannot reshape {} with {k} sparse and {} dense dimensions into {size:?}: an element of the result would be of both",
                x.shape(),
                p.dense_dim()
            ),
        )
        .with_hint("to_dense() makes a strided tensor, which can be reshaped at will"));
    };
    let v = sparse::values(x)?
        .reshape([&[p.nnz()], &size[at..]].concat())?
        .copy()?;
    let keys = grid::keys(&[p.indices()], &x.dims()[..k])?;
    let [keys] = &keys[..] else {
        unreachable!("one list gives one list");
    };
    let (mut rows, mut rest) = (Vec::new(), keys.clone());
    for &n in size[..at].iter().rev() {
        let n = n.max(1) as i64;
        rows.push(rest.remainder(n)?);
        rest = rest.floor_divide(n)?;
    }
    rows.reverse();
    let indices = match rows.is_empty() {
        true => grid::zeros(&[0, p.nnz()], p.indices())?,
        false => Tensor::stack(&rows, 0)?,
    };
    grid::coo(size, &indices, &v, p.is_coalesced())
}
