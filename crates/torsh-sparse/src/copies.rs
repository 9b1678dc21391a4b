//! Copies of sparse tensors: of another dtype, on another device, without elements.

use torsh_core::attrs::{CopyTo, Field, NONE};
use torsh_core::{DType, Device, Scalar, TensorLayout};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{Grads, Result, Tensor, TorshError, no_grad};

use crate::grid::{is_sparse, pattern};
use crate::help::one;

/// What copying ops do with sparse operands.
pub static COPIES: &[SparseRule] = &[
    SparseRule {
        op: "clone",
        call: clone,
    },
    SparseRule {
        op: "contiguous",
        call: |c| Ok(one(c.tensor(0)?.clone())),
    },
    SparseRule { op: "to", call: to },
    SparseRule {
        op: "copy_",
        call: copy,
    },
    SparseRule {
        op: "zeros_like",
        call: zeros_like,
    },
    SparseRule {
        op: "zero_",
        call: zeros_like,
    },
    SparseRule {
        op: "empty_like",
        call: empty_like,
    },
    SparseRule {
        op: "full_like",
        call: full_like,
    },
    SparseRule {
        op: "ones_like",
        call: full_like,
    },
    SparseRule {
        op: "fill_",
        call: full_like,
    },
];

/// Ops of this file that only rules call.
pub static RECORDS: &[&OpRecord] = &[&COPY, &OVERWRITE];

static COPY: OpRecord = OpRecord::new(
    "_sparse_copy",
    "A copy of a sparse tensor, in the same dtype or another.",
    "(Tensor input)",
)
.internal()
.grads(0, 0, |c| Ok(Grads::from_iter([Some(c.g().clone())])));

static OVERWRITE: OpRecord = OpRecord::new(
    "_sparse_overwrite",
    "The elements of a sparse tensor in the place of another's.",
    "(Tensor input, Tensor src)",
)
.internal()
.grads(0, 0, |c| {
    let source = c.needs(1).then(|| c.g().clone());
    Ok(Grads::from_iter([None, source]))
});

fn clone(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let out = no_grad(|| sparse::from_values(&pattern(x)?.copy()?, &sparse::values(x)?.copy()?))?;
    COPY.recorded(c.args, NONE, one(out))
}

fn to(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let dtype = c.attrs::<CopyTo>()?.dtype;
    let out = no_grad(|| sparse::from_values(&pattern(x)?, &sparse::values(x)?.to_dtype(dtype)?))?;
    COPY.recorded(c.args, NONE, one(out))
}

/// What `copy_` puts in the place of its first operand's elements.
fn copy(c: &SparseCall<'_>) -> Result<Outputs> {
    let (x, source) = (c.tensor(0)?, c.tensor(1)?);
    if !is_sparse(x) || !is_sparse(source) {
        return Err(c.refuse("copy_ between strided and sparse tensors is not supported"));
    }
    if x.layout() != source.layout() {
        return Err(c.refuse("copy_ needs two tensors of one layout"));
    }
    if x.shape() != source.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "copy_ of a sparse tensor needs one of the same shape, got {} for {}",
                source.shape(),
                x.shape()
            ),
        ));
    }
    let out = no_grad(|| {
        let there = match source.device() == x.device() {
            true => source.detach(),
            false => source.detach().to_device(x.device())?,
        };
        let v = sparse::values(&there)?;
        let v = match v.dtype() == x.dtype() {
            true => v.copy()?,
            false => v.to_dtype(x.dtype())?,
        };
        sparse::from_values(&pattern(&there)?, &v)
    })?;
    OVERWRITE.recorded(&[Arg::T(x), Arg::T(source)], NONE, one(out))
}

/// The dtype and the device that a call asks for, or else the tensor's own.
fn wanted(c: &SparseCall<'_>, x: &Tensor) -> (DType, Device) {
    let dtype = match c.attrs.field("dtype") {
        Some(Field::DType(d)) => d,
        _ => x.dtype(),
    };
    let device = match c.attrs.field("device") {
        Some(Field::Device(d)) => d,
        _ => x.device(),
    };
    (dtype, device)
}

/// A sparse tensor of the same shape and layout that stores nothing.
pub(crate) fn empty(x: &Tensor, dtype: DType, device: Device) -> Result<Tensor> {
    let p = pattern(x)?;
    let shape = p.shape().dims();
    let none = match (p.layout(), p.compressed_indices(), p.plain_indices()) {
        (TensorLayout::SparseCoo, ..) => {
            let indices = Tensor::zeros([p.sparse_dim(), 0], DType::I64, device)?;
            Pattern::coo(shape, &indices, true)?
        }
        (layout, Some(compressed), Some(plain)) => {
            let batch = p.batch_dim();
            let of = [&shape[..batch], &[0]].concat();
            Pattern::compressed(
                layout,
                shape,
                &Tensor::zeros(compressed.shape(), compressed.dtype(), device)?,
                &Tensor::zeros(&of[..], plain.dtype(), device)?,
                p.block(),
                p.dense_dim(),
            )?
        }
        _ => return Err(TorshError::invalid("", "a sparse pattern is needed")),
    };
    sparse::from_values(&none, &Tensor::zeros(none.values_shape(), dtype, device)?)
}

fn zeros_like(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let (dtype, device) = wanted(c, x);
    empty(x, dtype, device).map(one)
}

/// As in PyTorch, COO loses its elements, and a compressed tensor keeps its indices.
fn empty_like(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let (dtype, device) = wanted(c, x);
    let out = no_grad(|| match x.layout() {
        TensorLayout::SparseCoo => empty(x, dtype, device),
        _ => {
            let p = pattern(&x.detach().to_device(device)?)?;
            sparse::from_values(&p, &Tensor::empty(p.values_shape(), dtype, device)?)
        }
    })?;
    Ok(one(out))
}

/// One number in all elements: 0 alone keeps a COO tensor sparse. As in PyTorch, it is that of the stored elements of a
/// compressed one.
fn full_like(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = c.tensor(0)?;
    let n = match (c.op, c.attrs.field("value")) {
        ("ones_like", _) => Scalar::Int(1),
        (_, Some(Field::Scalar(n))) => n,
        _ => c
            .number(1)
            .ok_or_else(|| c.refuse("the number is missing"))?,
    };
    if n.to_complex() == (0.0, 0.0) {
        return zeros_like(c);
    }
    if x.layout() == TensorLayout::SparseCoo {
        return Err(c.refuse("a number other than 0 in all elements would make the tensor dense"));
    }
    let (dtype, device) = wanted(c, x);
    no_grad(|| {
        let p = pattern(&x.detach().to_device(device)?)?;
        sparse::from_values(&p, &Tensor::full(p.values_shape(), n, dtype, device)?).map(one)
    })
}
