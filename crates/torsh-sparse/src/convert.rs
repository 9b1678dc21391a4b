//! Conversions between the layouts.

use smallvec::SmallVec;
use torsh_core::{DType, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern, SparseRule};
use torsh_tensor::{Bound, Result, Tensor, TorshError, Value, no_grad, options};

use crate::attrs;
use crate::coalesce::{coalesce, coalesced_pattern, of_stored};
use crate::help::{first, one, within};
use crate::layouts::{
    compressed_of_sparse, compressed_of_strided, coo_of_compressed, coo_of_strided, no_blocksize,
    strided_of,
};
pub(crate) use crate::places::{at_pattern, mask, row_indices};

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

options! {
    /// The keyword arguments of [`SparseExt::to_sparse_with`](crate::SparseExt::to_sparse_with).
    ToSparseOptions {
        /// How many dimensions the indices of a COO tensor have; the others are dense. The default is all.
        sparse_dim: Option<i64> = None, i64 => Some;
        /// The layout. The default is COO.
        layout: Option<TensorLayout> = None, TensorLayout => Some;
        /// The rows and columns of a block, for BSR and BSC.
        blocksize: Option<[usize; 2]> = None, [usize; 2] => Some;
        /// How many dimensions at the end are dense. The default is none.
        dense_dim: Option<i64> = None, i64 => Some;
    }
}

options! {
    /// The keyword arguments of [`SparseExt::to_dense_with`](crate::SparseExt::to_dense_with).
    ToDenseOptions {
        /// The dtype of the result. The default is the tensor's.
        dtype: Option<DType> = None, DType => Some;
        /// Whether the gradient has the tensor's pattern, which is the default, or all elements.
        masked_grad: Option<bool> = None, bool => Some;
    }
}

/// The strided tensor of the same elements; itself, where it is strided. Its gradient passes to the stored elements alone,
/// unless `masked_grad` is false: then all elements of the gradient do. Recorded.
pub(crate) fn to_dense(x: &Tensor, masked_grad: Option<bool>) -> Result<Tensor> {
    if x.pattern().is_none() {
        return Ok(x.clone());
    }
    let out = no_grad(|| strided_of(x))?;
    let attrs = attrs::ToDense {
        masked_grad: masked_grad.unwrap_or(true),
    };
    first(TO_DENSE.recorded(&[Arg::T(x)], &attrs, one(out))?)
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
                pattern.layout().enum_name(),
                layout.enum_name(),
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

/// A conversion to a sparse layout with PyTorch's arguments.
pub(crate) fn to_sparse_of(
    op: &'static str,
    x: &Tensor,
    options: &ToSparseOptions,
) -> Result<Tensor> {
    within(op, &[x], || {
        let ndim = x.ndim();
        let layout = options.layout.unwrap_or(TensorLayout::SparseCoo);
        if let Some(block) = options.blocksize {
            block_of(&block.map(|b| b as i64))?;
            if !layout.is_blocked() {
                return Err(TorshError::invalid(
                    "",
                    format!(
                        "{}: conversion from {} to {} with blocksize argument given is not supported",
                        prefix(x),
                        x.layout().enum_name(),
                        layout.enum_name()
                    ),
                ));
            }
        }
        let dense_dim = match (options.sparse_dim, options.dense_dim) {
            (Some(_), Some(_)) => {
                return Err(TorshError::invalid(
                    "",
                    "sparse_dim and dense_dim cannot both be given",
                ));
            }
            (Some(sparse), None) if layout != TensorLayout::SparseCoo => {
                return Err(TorshError::invalid(
                    "",
                    format!(
                        "sparse_dim={sparse} belongs to the layout torch.sparse_coo, not {layout}"
                    ),
                ));
            }
            (Some(sparse), None) => Some(dense_of(x, sparse)?),
            (None, Some(dense)) => Some(dense_in_range(x, layout, dense)?),
            (None, None) => None,
        };
        if layout == TensorLayout::SparseCoo
            && dense_dim == Some(ndim)
            && ndim > 0
            && x.pattern().is_none()
        {
            return Err(TorshError::invalid(
                "",
                "dense_to_sparse: dense_dim argument must be !=self.dim() when self.dim()>0",
            ));
        }
        to_layout(x, layout, options.blocksize, dense_dim)
    })
}

/// How PyTorch's errors name the conversion of a tensor.
fn prefix(x: &Tensor) -> &'static str {
    match x.layout() {
        TensorLayout::Strided => "dense_to_sparse",
        TensorLayout::SparseCoo => "to_sparse",
        _ => "sparse_compressed_to_sparse",
    }
}

/// The dense dimensions of a COO tensor with `sparse` dimensions of indices.
fn dense_of(x: &Tensor, sparse: i64) -> Result<usize> {
    let ndim = x.ndim();
    if let Some(pattern) = x.pattern() {
        let have = pattern.batch_dim() + pattern.sparse_dim();
        return match usize::try_from(sparse).is_ok_and(|s| s == have) {
            true => Ok(pattern.dense_dim()),
            false => Err(TorshError::invalid(
                "",
                format!(
                    "{}: conversion from {} to Sparse with sparse_dim argument !={have} is not supported, got {sparse}",
                    prefix(x),
                    x.layout().enum_name()
                ),
            )
            .with_hint("to_dense() first, whose elements may be stored otherwise")),
        };
    }
    match usize::try_from(sparse) {
        Ok(0) if ndim > 0 => Err(TorshError::invalid(
            "",
            "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0",
        )),
        Ok(sparse) if sparse <= ndim => Ok(ndim - sparse),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {sparse} is given"
            ),
        )),
    }
}

fn dense_in_range(x: &Tensor, layout: TensorLayout, dense: i64) -> Result<usize> {
    let most = match layout {
        TensorLayout::SparseCoo => x.ndim(),
        _ => x.ndim().saturating_sub(2),
    };
    match usize::try_from(dense) {
        Ok(dense) if dense <= most => Ok(dense),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "dense_to_sparse: dense_dim argument must be in [0,{most}] range, but {dense} is given"
            ),
        )),
    }
}

/// A conversion to a strided tensor with PyTorch's arguments.
pub(crate) fn to_dense_of(x: &Tensor, options: &ToDenseOptions) -> Result<Tensor> {
    within("to_dense", &[x], || {
        let dense = to_dense(x, options.masked_grad)?;
        match options.dtype {
            Some(dtype) => dense.to_dtype(dtype),
            None => Ok(dense),
        }
    })
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
fn block_of(given: &[i64]) -> Result<[usize; 2]> {
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
