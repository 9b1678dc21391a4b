//! Products with sparse operands: the rules of `matmul` and its kin, and what the functions of
//! `torch.sparse` share with them.
//!
//! Where one operand is sparse and the other strided, `matmul` and its kin give the sparse one a strided gradient
//! ([`STRIDED_PRODUCT`]), and the functions of this crate give it one of its own pattern.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::{DType, Scalar, Shape, alloc, attrs as core_attrs};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, SparseCall, SparseRule};
use torsh_tensor::{
    Result, SumOptions, Tensor, TensorLayout, TorshError, get_autocast_dtype, is_autocast_enabled,
    no_grad,
};

use crate::csr::{
    carrier, conj, flat_values, matrix, one_dtype, pattern_of, plain_product, product, strided,
};
use crate::help::{first, no_room, one, rounded_once};
use crate::spgemm::mismatch;
use crate::{attrs, blocks, csr, embedding, help, lines, shape, spgemm, triangular};

/// The records of products.
pub static RECORDS: &[&OpRecord] = &[
    &lines::GROUP,
    &blocks::PRODUCT,
    &blocks::SAMPLED,
    &csr::PRODUCT,
    &csr::VALUES_PRODUCT,
    &csr::AT,
    &csr::SAMPLED,
    &spgemm::TERMS,
    &spgemm::BOUNDS,
    &spgemm::MULTIPLY,
    &spgemm::AT_PLACES,
    &triangular::SOLVE,
    &triangular::SOLVE_VALUES,
    &STRIDED_PRODUCT,
    &WHOLE_PRODUCT,
    &WHOLE_CONJ,
];

const fn rule(op: &'static str, call: fn(&SparseCall<'_>) -> Result<Outputs>) -> SparseRule {
    SparseRule { op, call }
}

/// The rules of products.
pub static PRODUCTS: &[SparseRule] = &[
    rule("matmul", |c| {
        let a = c.attrs::<core_attrs::MatMul>()?;
        let of = |i: usize, swapped: bool| match (c.tensor(i)?, swapped) {
            (t, true) if t.ndim() > 1 => shape::transposed(t),
            (t, _) => Ok(t.clone()),
        };
        let out = multiply(&of(0, a.transpose_a)?, &of(1, a.transpose_b)?)?;
        scaled(&out, a.alpha).map(one)
    }),
    rule("mm", |c| ranked(c, [2, 2])),
    rule("bmm", |c| ranked(c, [3, 3])),
    rule("mv", |c| ranked(c, [2, 1])),
    rule("dot", |c| {
        let (a, b) = (c.tensor(0)?, c.tensor(1)?);
        check_ranks([a, b], [1, 1])?;
        dot(a, b).map(one)
    }),
    rule("addmm", |c| added(c, [2, 2])),
    rule("addmv", |c| added(c, [2, 1])),
    rule("baddbmm", |c| added(c, [3, 3])),
    rule("nn.functional.linear", |c| {
        linear(c.tensor(0)?, c.tensor(1)?, c.opt(2), Gradient::Strided).map(one)
    }),
    rule("sparse.linear", |c| {
        linear_by_pattern(c.tensor(0)?, c.tensor(1)?, c.opt(2)).map(one)
    }),
    rule("triangular_solve", triangular::rule),
    rule("_embedding_sparse_backward", embedding::backward),
    rule("_gather_sparse_backward", embedding::gather_backward),
];

/// Which gradient the sparse factor of a product has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gradient {
    /// A strided one, with all elements.
    Strided,
    /// One of its own pattern.
    Pattern,
}

fn check_ranks(operands: [&Tensor; 2], ranks: [usize; 2]) -> Result<()> {
    for (i, (t, rank)) in operands.into_iter().zip(ranks).enumerate() {
        if t.ndim() != rank {
            let what = [
                "a number",
                "a vector (1D)",
                "a matrix (2D)",
                "a batch of matrices (3D)",
            ][rank];
            let text = format!(
                "{rank}D tensors expected: operand {i} must be {what}, but is {}D",
                t.ndim()
            );
            return Err(TorshError::shape("", text));
        }
    }
    Ok(())
}

fn ranked(c: &SparseCall<'_>, ranks: [usize; 2]) -> Result<Outputs> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    check_ranks([a, b], ranks)?;
    if ranks == [3, 3] && a.dims()[0] != b.dims()[0] {
        let text = format!(
            "batch1 and batch2 must have the same number of batches, got {} and {}",
            a.dims()[0],
            b.dims()[0]
        );
        return Err(TorshError::shape("", text));
    }
    multiply(a, b).map(one)
}

fn added(c: &SparseCall<'_>, ranks: [usize; 2]) -> Result<Outputs> {
    let (a, b, input) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let &core_attrs::AddMm { beta, alpha } = c.attrs()?;
    check_ranks([a, b], ranks)?;
    one_dtype(a, input)?;
    let dtype = one_dtype(a, b)?;
    rounded_once(dtype, [a, b, input], |[a, b, input]| {
        let product = scaled(&multiply(a, b)?, alpha)?;
        match a.pattern().is_none() && b.pattern().is_none() {
            // The addend alone is sparse.
            true => sum(&strided(input)?, &product, beta),
            false => sum(input, &product, beta),
        }
    })
    .map(one)
}

pub(crate) fn is(s: Scalar, value: f64) -> bool {
    s.to_complex() == (value, 0.0)
}

/// `alpha * x`
pub(crate) fn scaled(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    match is(alpha, 1.0) {
        true => Ok(x.clone()),
        false => x.mul(of_dtype(alpha, x.dtype())?),
    }
}

/// A factor in a product's dtype; a fraction has no place among integers.
fn of_dtype(s: Scalar, dtype: DType) -> Result<Scalar> {
    match dtype.is_integer() && (s.is_float() || s.is_complex()) {
        true => Err(TorshError::dtype(
            "",
            "for integral input tensors, alpha and beta must not be floating-point numbers",
        )),
        false => Ok(s),
    }
}

/// `beta * input + product`, where `input` broadcasts.
pub(crate) fn sum(input: &Tensor, product: &Tensor, beta: Scalar) -> Result<Tensor> {
    if !input.shape().can_broadcast_to(product.shape()) {
        return Err(TorshError::shape(
            "",
            format!(
                "the addend of shape {} does not broadcast to the product's shape {}",
                input.shape(),
                product.shape()
            ),
        ));
    }
    match is(beta, 0.0) {
        true => Ok(product.clone()),
        false => scaled(input, beta)?.add(product),
    }
}

/// The product as `matmul` has it.
fn multiply(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(TorshError::shape(
            "",
            format!(
                "both arguments need to be at least 1D, but they are {}D and {}D",
                a.ndim(),
                b.ndim()
            ),
        ));
    }
    match (
        a.pattern().is_some(),
        b.pattern().is_some(),
        a.ndim(),
        b.ndim(),
    ) {
        (.., 1, 1) => dot(a, b),
        // A sparse vector is a matrix of one row or column.
        (true, _, 1, _) => multiply(&a.unsqueeze(0)?, b)?.squeeze(-2),
        (_, true, _, 1) => multiply(a, &b.unsqueeze(1)?)?.squeeze(-1),
        (true, true, ..) if whole(a, b) => whole_product(a, b),
        (true, true, ..) => spgemm::matmul(a, b),
        (true, false, ..) => left(a, b, Gradient::Strided),
        (false, true, ..) => right(a, b, Gradient::Strided),
        (false, false, ..) => a.matmul(b),
    }
}

/// A matrix.
pub(crate) fn two_dims(t: &Tensor) -> Result<()> {
    match t.ndim() {
        2 => Ok(()),
        d => Err(TorshError::shape(
            "",
            format!("expected a matrix (2D), got {}D", d),
        )),
    }
}

/// The product of two matrices of which one is sparse at least, with gradients of their own patterns.
pub(crate) fn by_pattern(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    two_dims(a)?;
    two_dims(b)?;
    match (a.pattern().is_some(), b.pattern().is_some()) {
        (true, true) => spgemm::matmul(a, b),
        (true, false) => left(a, b, Gradient::Pattern),
        (false, true) => right(a, b, Gradient::Pattern),
        (false, false) => Err(
            TorshError::invalid("", "one of the operands must be sparse")
                .with_hint("Tensor::mm multiplies strided matrices"),
        ),
    }
}

/// [`by_pattern`], of a sparse and a strided matrix in the dtype of an autocast region, as PyTorch's `mm`.
pub(crate) fn cast_by_pattern(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match a.pattern().is_some() && b.pattern().is_some() {
        true => by_pattern(a, b),
        false => by_pattern(&lowered(a)?, &lowered(b)?),
    }
}

/// Whether the gradients of a product have all elements that the products that they are have, as in PyTorch.
fn whole(a: &Tensor, b: &Tensor) -> bool {
    let layout = a.layout();
    layout == b.layout() && matches!(layout, TensorLayout::SparseCoo | TensorLayout::SparseCsr)
}

/// The product of two sparse tensors of one layout.
fn whole_product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = no_grad(|| spgemm::matmul(a, b))?;
    first(WHOLE_PRODUCT.recorded(&[Arg::T(a), Arg::T(b)], NONE, one(out))?)
}

/// The conjugate of the transposed matrices. Its gradient has all elements that the gradient of the result has.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    whole_conj(&shape::transposed(x)?)
}

fn whole_conj(x: &Tensor) -> Result<Tensor> {
    if !x.is_complex() {
        return Ok(x.clone());
    }
    if x.pattern().is_none() {
        return conj(x);
    }
    let out = no_grad(|| sparse::from_values(&pattern_of(x)?, &conj(&sparse::values(x)?)?))?;
    first(WHOLE_CONJ.recorded(&[Arg::T(x)], NONE, one(out))?)
}

static WHOLE_CONJ: OpRecord = OpRecord::new(
    "_sparse_conj",
    "The conjugate of a sparse tensor, whose gradient may have elements outside of its pattern.",
    "(Tensor input)",
)
.internal()
.grads(0, 0, |c| {
    Ok(SmallVec::from_iter([Some(whole_conj(c.g())?)]))
});

static WHOLE_PRODUCT: OpRecord = OpRecord::new(
    "_sparse_matmul",
    "The product of two sparse tensors of one layout.",
    "(Tensor input, Tensor other)",
)
.internal()
.grads(3, 0, |c| {
    let ga = c
        .needs(0)
        .then(|| c.g().matmul(&adjoint(&c.y()?)?))
        .transpose()?;
    let gb = c
        .needs(1)
        .then(|| adjoint(&c.x()?)?.matmul(c.g()))
        .transpose()?;
    Ok(SmallVec::from_iter([ga, gb]))
});

fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = one_dtype(a, b)?;
    if a.dims() != b.dims() {
        return Err(mismatch(a, b));
    }
    rounded_once(dtype, [a, b], |[a, b]| {
        // The product with a strided vector has the pattern of the sparse one. A sum of integers would be int64.
        let terms = a.mul(b)?;
        terms.sum_with(SumOptions::new().dtype(terms.dtype()))
    })
}

/// `a @ b` of a sparse and a strided operand.
pub(crate) fn left(a: &Tensor, b: &Tensor, gradient: Gradient) -> Result<Tensor> {
    match b.ndim() {
        1 => apply(a, &b.unsqueeze(1)?, false, gradient)?.squeeze(-1),
        _ => apply(a, b, false, gradient)?.contiguous(),
    }
}

/// `a @ b` of a strided and a sparse operand: the transposed product of the transposed operands.
pub(crate) fn right(a: &Tensor, b: &Tensor, gradient: Gradient) -> Result<Tensor> {
    let out = match a.ndim() {
        1 => return apply(b, &a.unsqueeze(1)?, true, gradient)?.squeeze(-1),
        _ => apply(b, &a.transpose(-2, -1)?, true, gradient)?,
    };
    out.transpose(-2, -1)?.contiguous()
}

/// `input @ weight.T + bias`
fn linear(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, gradient: Gradient) -> Result<Tensor> {
    let Some(bias) = bias else {
        return weighted(x, w, gradient);
    };
    one_dtype(x, w)?;
    let dtype = one_dtype(x, bias)?;
    rounded_once(dtype, [x, w, bias], |[x, w, bias]| {
        weighted(x, w, gradient)?.add(bias)
    })
}

/// `input @ weight.T`
fn weighted(x: &Tensor, w: &Tensor, gradient: Gradient) -> Result<Tensor> {
    if w.ndim() > 2 || w.ndim() == 0 {
        return Err(TorshError::shape(
            "",
            format!("weight must be 1D or 2D, got {}D", w.ndim()),
        ));
    }
    match (x.pattern().is_some(), w.pattern().is_some()) {
        (false, true) if w.ndim() == 2 && x.ndim() > 0 => {
            let (&[outs, ins], last) = (w.dims(), x.dims()[x.ndim() - 1]) else {
                unreachable!("it has two dimensions")
            };
            if last != ins {
                return Err(mismatch(x, w));
            }
            let rows = help::product(&x.dims()[..x.ndim() - 1])?;
            let columns = x.reshape([rows, ins])?.t()?;
            let y = apply(w, &columns, false, gradient)?;
            let mut shape = x.dims().to_vec();
            if let Some(last) = shape.last_mut() {
                *last = outs;
            }
            y.t()?.contiguous()?.reshape(shape)
        }
        (true, true) if gradient == Gradient::Pattern && w.ndim() == 2 => {
            by_pattern(x, &shape::transposed(w)?)
        }
        _ if w.ndim() == 2 => multiply(x, &shape::transposed(w)?),
        _ => multiply(x, w),
    }
}

/// [`linear`] of a sparse weight, whose gradient has its pattern; cast in an autocast region as the op `linear` casts.
pub(crate) fn linear_by_pattern(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if w.pattern().is_none() {
        return Err(TorshError::invalid(
            "",
            format!("expected a sparse weight, got {}", w.describe()),
        )
        .with_hint("F::linear multiplies by a strided weight"));
    }
    let (x, w, bias) = (lowered(x)?, lowered(w)?, bias.map(lowered).transpose()?);
    linear(&x, &w, bias.as_ref(), Gradient::Pattern)
}

/// A tensor in the dtype of an autocast region.
pub(crate) fn lowered(t: &Tensor) -> Result<Tensor> {
    let cast = matches!(t.dtype(), DType::F32 | DType::F16 | DType::BF16);
    match cast && is_autocast_enabled(t.device()) {
        true => t.to_dtype(get_autocast_dtype(t.device())?),
        false => Ok(t.clone()),
    }
}

/// The product of a sparse operand of two or more dimensions, whose matrices are transposed if told to, and a strided one of
/// as many. Batch dimensions broadcast: those that the sparse operand lacks become columns of the strided one.
fn apply(s: &Tensor, dense: &Tensor, transposed: bool, gradient: Gradient) -> Result<Tensor> {
    one_dtype(s, dense)?;
    let ((of_s, [n, k]), (of_d, [q, m])) = (matrix(s.dims())?, matrix(dense.dims())?);
    let (r, terms) = if transposed { (k, n) } else { (n, k) };
    if terms != q {
        return Err(match transposed {
            false => mismatch(s, dense),
            true => TorshError::shape(
                "",
                format!(
                    "the shapes {:?} and {} cannot be multiplied",
                    [of_d, &[m, q]].concat(),
                    s.shape()
                ),
            )
            .with_hint(
                "the last size of the first must be the last but one (or only) size of the second",
            ),
        });
    }
    let batch = Shape::from(of_s.to_vec()).broadcast(&Shape::from(of_d.to_vec()))?;
    let batch = batch.dims();
    let rank = batch.len();
    let missing = rank - of_s.len();
    let own = |d: &usize| *d >= missing && of_s[*d - missing] == batch[*d];
    let (kept, moved): (Vec<usize>, Vec<usize>) = (0..rank).partition(own);
    if kept.is_empty() && moved.is_empty() {
        return flat(s, dense, transposed, gradient);
    }
    let sizes = |dims: &[usize]| dims.iter().map(|&d| batch[d]).collect::<Vec<usize>>();
    let count = |dims: &[usize]| help::product(&sizes(dims));
    let whole = dense.expand([batch, &[q, m]].concat())?;
    let order = [&kept[..], &[rank], &moved, &[rank + 1]].concat();
    let columns = help::product(&[count(&moved)?, m])?;
    let whole = whole
        .permute(order.clone())?
        .reshape([help::product(&[count(&kept)?, q])?, columns])?;
    let out = flat(s, &whole, transposed, gradient)?;
    let out = out.reshape([&sizes(&kept)[..], &[r], &sizes(&moved), &[m]].concat())?;
    let mut back = vec![0usize; rank + 2];
    order.iter().enumerate().for_each(|(at, &d)| back[d] = at);
    match moved.is_empty() {
        true => Ok(out),
        false => out.permute(back)?.contiguous(),
    }
}

/// The product of the matrices of `s` along one diagonal, and a matrix.
fn flat(s: &Tensor, dense: &Tensor, transposed: bool, gradient: Gradient) -> Result<Tensor> {
    let pattern = pattern_of(s)?;
    if gradient == Gradient::Pattern {
        return product(&flat_values(s)?, &carrier(&pattern)?, dense, transposed);
    }
    strided_product(
        s,
        dense,
        &attrs::SparseProduct {
            transposed,
            conjugated: false,
        },
    )
}

#[track_caller]
fn strided_product(s: &Tensor, dense: &Tensor, a: &attrs::SparseProduct) -> Result<Tensor> {
    let out = no_grad(|| {
        let values = flat_values(s)?;
        let values = if a.conjugated { conj(&values)? } else { values };
        plain_product(&values, &pattern_of(s)?, dense, a.transposed)
    })?;
    first(STRIDED_PRODUCT.recorded(&[Arg::T(s), Arg::T(dense)], a, one(out))?)
}

/// The product of a sparse matrix and a strided one, whose gradients are strided.
pub(crate) static STRIDED_PRODUCT: OpRecord = OpRecord::new(
    "_sparse_strided_product",
    "The product of a sparse and a strided matrix.",
    "(Tensor input, Tensor dense, *, bool transposed, bool conjugated)",
)
.internal()
.grads(0b11, 0, |c| {
    let a = c.attrs::<attrs::SparseProduct>()?;
    let (s, dense, g) = (c.x()?, c.y()?, strided(c.g())?);
    let to_s = match c.needs(0) {
        true => Some(strided_gradient(&s, &dense, &g, a)?),
        false => None,
    };
    let to_dense = match c.needs(1) {
        true => {
            let back = attrs::SparseProduct {
                transposed: !a.transposed,
                conjugated: !a.conjugated && s.dtype().is_complex(),
            };
            Some(strided_product(&s, &g, &back)?)
        }
        false => None,
    };
    Ok(SmallVec::from_iter([to_s, to_dense]))
});

/// The gradient of the sparse operand, with all elements.
fn strided_gradient(
    s: &Tensor,
    dense: &Tensor,
    g: &Tensor,
    a: &attrs::SparseProduct,
) -> Result<Tensor> {
    let (batch, [n, k]) = matrix(s.dims())?;
    if s.device().is_host() && alloc::check(s.numel(), s.dtype().size()).is_err() {
        let instead =
            "sparse::mm, sparse::addmm and sparse::linear give it a gradient of its own pattern";
        return Err(no_room(s.shape(), instead));
    }
    let (left, right) = if a.transposed { (dense, g) } else { (g, dense) };
    let (left, right) = match a.transposed == a.conjugated {
        true => (left.clone(), conj(right)?),
        false => (conj(left)?, right.clone()),
    };
    if batch.is_empty() {
        return left.matmul(&right.t()?);
    }
    let (count, m) = (crate::help::product(batch)?, g.dims()[1]);
    let (left, right) = (left.reshape([count, n, m])?, right.reshape([count, k, m])?);
    left.bmm(&right.transpose(-2, -1)?)?.reshape(s.shape())
}
