//! Joining and repeating sparse tensors.

use torsh_core::attrs;
use torsh_core::{DType, TensorLayout};
use torsh_tensor::attrs as views;
use torsh_tensor::call::Outputs;
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{Grads, Result, Tensor, TorshError, no_grad};

use crate::attrs::SparseCat;
use crate::convert;
use crate::grid::{self, is_sparse, linear, pattern};
use crate::help::one;

/// What joining and repeating ops do with sparse operands.
pub static JOINS: &[SparseRule] = &[
    SparseRule {
        op: "cat",
        call: cat,
    },
    SparseRule {
        op: "expand",
        call: expand,
    },
];

/// Ops of this file that only rules call.
pub static RECORDS: &[&OpRecord] = &[&CAT];

static CAT: OpRecord = OpRecord::new(
    "_sparse_cat",
    "Sparse tensors one after the other along a dimension.",
    "(Tensor[] tensors, *, int dim, int[] sizes)",
)
.internal()
.grads(0, 0, |c| {
    let call = c.attrs::<SparseCat>()?;
    let (mut out, mut at) = (Grads::new(), 0);
    for (i, &n) in call.sizes.iter().enumerate() {
        let part = match c.needs(i) && n >= 0 {
            true => Some(c.g().narrow(call.dim, at, n)?),
            false => None,
        };
        out.push(part);
        at += n.max(0);
    }
    Ok(out)
});

/// Whether `cat` leaves the tensor out: an empty vector goes with any others.
fn is_skipped(x: &Tensor) -> bool {
    x.dims() == [0]
}

fn cat(c: &SparseCall<'_>) -> Result<Outputs> {
    let dim = c.attrs::<attrs::Cat>()?.dim;
    let (mut list, mut sizes): (Vec<&Tensor>, Vec<i64>) = (Vec::new(), Vec::new());
    for i in 0..c.args.len() {
        let x = c.tensor(i)?;
        if is_skipped(x) {
            sizes.push(-1);
            continue;
        }
        if !is_sparse(x) {
            return Err(c.refuse("sparse and strided tensors cannot be joined"));
        }
        sizes.push(x.dims().get(dim).map_or(0, |&n| n as i64));
        list.push(x);
    }
    let Some(&whole) = list.first() else {
        return Err(c.refuse("all tensors are empty vectors, of which at least one is sparse"));
    };
    for (i, x) in list.iter().enumerate() {
        let same = x.ndim() == whole.ndim()
            && (0..x.ndim()).all(|d| d == dim || x.dims()[d] == whole.dims()[d]);
        if !same {
            return Err(TorshError::shape(
                "",
                format!(
                    "Sizes of tensors must match except in dimension {dim}: expected {} but found {} at position {i}",
                    whole.shape(),
                    x.shape()
                ),
            ));
        }
    }
    let out = no_grad(|| joined(c, &list, dim))?;
    let call = SparseCat {
        dim,
        sizes: sizes.into(),
    };
    CAT.recorded(c.args, &call, one(out))
}

/// Tensors of shapes that fit, one after the other.
fn joined(c: &SparseCall<'_>, list: &[&Tensor], dim: usize) -> Result<Tensor> {
    let like = pattern(list[0])?;
    let mut all = Vec::new();
    let mut alike = true;
    for x in list {
        alike &= x.layout() == like.layout();
        all.push(match x.layout() {
            TensorLayout::SparseCoo => (*x).clone(),
            _ => convert::to_coo(x)?,
        });
    }
    let sparse_dim = pattern(&all[0])?.sparse_dim();
    let mut shape = list[0].dims().to_vec();
    shape[dim] = 0;
    for x in list {
        shape[dim] = shape[dim]
            .checked_add(x.dims()[dim])
            .ok_or_else(|| TorshError::invalid("", "the sizes overflow"))?;
    }
    let (mut indices, mut values, mut at) = (Vec::new(), Vec::new(), 0);
    for x in &all {
        let p = pattern(x)?;
        if p.sparse_dim() != sparse_dim {
            return Err(c.refuse("the tensors do not have the same number of sparse dimensions"));
        }
        let (i, v, n) = (p.indices(), sparse::values(x)?, x.dims()[dim]);
        if let Some(d) = dim.checked_sub(sparse_dim) {
            // What the other tensors have along a dense dimension is 0 here.
            let zeros = |n: usize| {
                let mut dims = v.dims().to_vec();
                dims[d + 1] = n;
                Tensor::zeros(&dims[..], v.dtype(), v.device())
            };
            let behind = shape[dim] - at - n;
            indices.push(i.clone());
            values.push(Tensor::cat(
                &[zeros(at)?, v.clone(), zeros(behind)?],
                d + 1,
            )?);
        } else {
            let rows: Vec<i64> = (0..sparse_dim)
                .map(|d| if d == dim { at as i64 } else { 0 })
                .collect();
            let shift = Tensor::from_vec(rows, [sparse_dim, 1])?.to_device(i.device())?;
            indices.push(i.add(&shift)?);
            values.push(v);
        }
        at += n;
    }
    let values = Tensor::cat(&values, 0)?;
    let out = grid::coo(&shape, &Tensor::cat(&indices, 1)?, &values, false)?;
    match alike {
        true => grid::back(out, &like),
        false => Ok(out),
    }
}

fn expand(c: &SparseCall<'_>) -> Result<Outputs> {
    let size = &c.attrs::<views::Expand>()?.size;
    let x = c.tensor(0)?;
    if !x.shape().can_broadcast_to(size) {
        return Err(TorshError::shape(
            "",
            format!(
                "a tensor of shape {} cannot be expanded to {size}",
                x.shape()
            ),
        ));
    }
    expanded(x, size.dims()).map(one)
}

/// A sparse tensor in a shape that its own broadcasts to: with as many stored elements more. New dimensions are sparse.
pub(crate) fn expanded(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.dims() == shape {
        return Ok(x.clone());
    }
    if x.layout() != TensorLayout::SparseCoo {
        let p = pattern(x)?;
        return grid::back(expanded(&convert::to_coo(x)?, shape)?, &p);
    }
    let x = linear(x)?;
    let p = pattern(&x)?;
    let lead = shape.len() - x.ndim();
    let (sparse_dim, nnz) = (lead + p.sparse_dim(), p.nnz());
    let old = |d: usize| d.checked_sub(lead).map_or(1, |d| x.dims()[d]);
    // Copies one behind the other are in order if all dimensions before theirs have one index.
    let first = (0..sparse_dim).find(|&d| old(d) > 1).unwrap_or(sparse_dim);
    let grown: Vec<usize> = (0..sparse_dim).filter(|&d| old(d) != shape[d]).collect();
    let sorted = grown.iter().all(|&d| d < first);
    let like = p.indices();
    let mut rows = Vec::new();
    for d in 0..sparse_dim {
        rows.push(match d.checked_sub(lead) {
            Some(d) => like.select(0, d)?,
            None => grid::zeros(&[nnz], like)?,
        });
    }
    let mut from = grid::range(nnz, like)?;
    for &d in grown.iter().rev() {
        let (n, count) = (shape[d], from.numel());
        from = from.repeat([n])?;
        for row in &mut rows {
            *row = row.repeat([n])?;
        }
        rows[d] = grid::range(n, like)?
            .unsqueeze(1)?
            .expand([n, count])?
            .reshape([n * count])?;
    }
    let indices = match rows.is_empty() {
        true => grid::zeros(&[0, from.numel()], like)?,
        false => Tensor::stack(&rows, 0)?,
    };
    let mut v = sparse::values(&x)?;
    if !grown.is_empty() {
        v = v.index_select(0, &from)?;
    }
    let v = v.expand(&[&[from.numel()], &shape[sparse_dim..]].concat()[..])?;
    let whole = Pattern::coo(
        shape,
        &indices.to_dtype(DType::I64)?,
        p.is_coalesced() && sorted,
    )?;
    sparse::from_values(&whole, &v)
}
